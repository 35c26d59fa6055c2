/* tune.h - the number of threads of a run, moved by measurement. The controller alone: tune.c says how it decides. */
#ifndef HR_EXEC_TUNE_H
#define HR_EXEC_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an interval showed. Shares are from 0 to 1. */
typedef struct hr_tune_look {
    double seconds;   /* its length */
    double rows;      /* that the run gave */
    double hungry;    /* share of it in which the consumer waited */
    double off_cpu;   /* share of the threads' working time in which they were on no CPU, */
    double disk;      /* and in which they were in reads of files */
    double cpus;      /* that the threads kept busy */
    double cpus_used; /* share of the CPUs that this process used */
    bool disturbed;   /* memory was refused or spilled, or a store refused requests */
} hr_tune_look;

typedef enum hr_tune_phase { HR_TUNE_WATCH, HR_TUNE_SETTLE, HR_TUNE_TRIAL } hr_tune_phase;

typedef struct hr_tuner {
    int threads;     /* now */
    int first, most; /* the default; the most */
    int cpus;        /* that the threads may keep busy, when there are more than `first` */
    int64_t n_moves;
    char reason[160]; /* of the last move */
    /* the controller's own */
    hr_tune_phase phase;
    int before;          /* threads before the trial */
    double rate;         /* rows a second before the trial, or when the controller last settled */
    bool fed;            /* then */
    int hold, next_hold; /* intervals until the next trial; after the next trial that fails */
} hr_tuner;

void hr__tuner_init(hr_tuner *t, int first, int most, int cpus); /* begins with `first` threads */
/* Goes on as `ended`, of an earlier run, if that one had the same bounds. The first interval decides nothing. */
void hr__tuner_go_on(hr_tuner *t, const hr_tuner *ended);
/* Takes what an interval showed. True: `threads` changed, and `reason` says why. */
bool hr__tuner_look(hr_tuner *t, const hr_tune_look *look);

#endif
