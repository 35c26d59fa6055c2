/* tune.h - the number of threads of a run, and of tables ahead of its consumer, moved by measurement. The controllers
 * alone: tune.c and tune_ahead.c say how they decide. */
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

/* --- tune_ahead.c */

/* What an interval showed about tables ahead. A wait of the consumer is *spared by depth* as far as the run had stood
 * still before it, since as many tables as may be ahead were ready. */
typedef struct hr_ahead_look {
    double seconds;        /* its length */
    double rows;           /* that the run gave */
    double spared_seconds; /* of waits that more tables ahead would have spared */
    int lacked;            /* tables more that would have spared the longest of these waits */
    int least, most;       /* tables that were ready when the consumer took one */
    int room;              /* tables that may be ahead, by the memory limit */
    bool disturbed;        /* as in hr_tune_look */
} hr_ahead_look;

typedef struct hr_ahead_tuner {
    int depth;          /* now */
    int first, largest; /* where it begins, the least; the most */
    int64_t n_moves;
    char reason[160]; /* of the last move */
    /* the controller's own */
    hr_tune_phase phase;
    int before;          /* the depth before the trial */
    double share;        /* of waits spared by depth, before the trial, */
    double rate;         /* and rows a second */
    hr_ahead_look sums;  /* since the last decision */
    hr_ahead_look quiet; /* since the last move, or the last look at depth that is not used */
    int hold, next_hold; /* periods until the next trial */
    int next_quiet;      /* seconds until depth that is not used goes */
} hr_ahead_tuner;

void hr__ahead_init(hr_ahead_tuner *t, int first, int largest);
void hr__ahead_go_on(hr_ahead_tuner *t, const hr_ahead_tuner *ended); /* as hr__tuner_go_on */
/* True: `depth` changed, and `reason` says why. */
bool hr__ahead_look(hr_ahead_tuner *t, const hr_ahead_look *look);

typedef struct hr_learned { /* by a run, for the next one of its plan */
    hr_tuner threads;
    hr_ahead_tuner ahead;
} hr_learned;

#endif
