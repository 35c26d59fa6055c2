/* verdict.h - the steps of a consumer, and what limits them. Private to feed/. */
#ifndef HR_FEED_VERDICT_H
#define HR_FEED_VERDICT_H

#include "feed/feed.h"

/* --- steps.c: the steps of one consumer, a trainer or a rank. A step is the time from one batch to the next call, and
 * the wait of that call. Guarded by the owner's lock. Starts all zero. */
#define HR_STEPS_WARM 20   /* steps, after which the start is over */
#define HR_READY_NS 50000  /* a shorter wait found its batch ready */
#define HR_STEP_CLASSES 32 /* class k: less than 2^k microseconds */

typedef struct hr_step_sums {
    int64_t n, wait_ns, step_ns; /* steps; their waits; their times between a batch and the next call */
    int64_t convert_ns;          /* of these, for making the trainer's batch: collate, copy to a device (estimated) */
    int64_t n_ready;
} hr_step_sums;

typedef struct hr_steps {
    hr_step_sums sums, marks[HR_N_MARKS]; /* without the first batch */
    int64_t taken;                        /* batches */
    int64_t first_wait_ns;                /* of the first batch: the start, or the border of an epoch */
    int64_t last_ns;                      /* when the last batch was taken */
    int64_t call_ns;                      /* when the call began that waits now; 0: none */
    int64_t by_wait[HR_STEP_CLASSES], by_step[HR_STEP_CLASSES];
} hr_steps;
void hr__steps_call(hr_steps *s, int64_t now); /* the consumer wants a batch; again while it waits: nothing */
/* It got one. Returns the mark that the run sets now; -1: none. */
int hr__steps_took(hr_steps *s, int64_t now);
/* The same of a rank that reports both times itself. */
int hr__steps_add(hr_steps *s, int64_t wait_ns, int64_t step_ns);
/* The sums since the mark that the number of steps suggests: *mark -1: since the start. */
hr_step_sums hr__steps_steady(const hr_steps *s, int *mark);
/* From the first call to the last one, with the first wait. */
hr_step_sums hr__steps_all(const hr_steps *s);
void hr__steps_print(const hr_steps *s, hr_text *out); /* a JSON object */

/* --- verdict.c */
typedef enum hr_verdict_kind {
    HR_VERDICT_SHORT,   /* too short to judge */
    HR_VERDICT_TRAINER, /* the trainer is the limit: it finds its batches ready */
    HR_VERDICT_COLLATE, /* the consumer's own thread makes batches: collate_fn, a copy to a device */
    HR_VERDICT_SERIAL,  /* an operator that runs on one thread */
    HR_VERDICT_CPU,     /* all threads compute */
    HR_VERDICT_THREADS, /* more threads than CPUs */
    HR_VERDICT_WAITS,   /* threads that neither compute nor read: locks, or other programs on the CPUs */
    HR_VERDICT_OTHERS,  /* other processes use the CPUs */
    HR_VERDICT_DISK,
    HR_VERDICT_LATENCY, /* of requests to a network */
    HR_VERDICT_BANDWIDTH,
    HR_VERDICT_THROTTLE, /* a store refuses requests */
    HR_VERDICT_MEMORY,   /* the budget refuses steps */
    HR_VERDICT_SPILL,
    HR_VERDICT_CHUNKS,   /* a reader's arrays have chunks that are too small */
    HR_VERDICT_FUNCTION, /* the workers of a function of the user's are busy */
    HR_VERDICT_GIL,      /* its threads wait for Python's lock */
    HR_VERDICT_FRAGMENT, /* one fragment is much larger than others */
    HR_VERDICT_GROUPS,   /* fewer fragments than threads: row groups or files are too large */
    HR_VERDICT_HEAD,     /* the oldest rows take long, all others wait for them */
    HR_VERDICT_OPENING,  /* opening and listing files */
    HR_VERDICT_RANK,     /* one rank holds up the others */
    HR_N_VERDICTS
} hr_verdict_kind;

/* What is known. All times of one period. */
typedef struct hr_evidence {
    const hr_run_view *run;
    hr_step_sums steps;     /* of all ranks: the mean rank's */
    bool is_whole;          /* a run that has ended, with its start: a few steps are enough */
    int n_ranks;            /* 1: a feed */
    int slow_rank;          /* the rank that the others waited for */
    int64_t held_ns;        /* the time that another rank waited for it, the mean of the others */
    int64_t others_step_ns; /* their steps, the mean */
} hr_evidence;

/* Something of the files that does not suit the run. */
typedef struct hr_finding {
    double gain; /* times as many rows a second with the files written as advised */
    char text[400], advice[200];
} hr_finding;

typedef struct hr_verdict {
    hr_verdict_kind kind;
    bool starved;      /* the trainer waits for data, or makes batches instead of steps */
    double wait_share; /* of the time of a step */
    double gain;       /* times as many rows a second if the cause were removed; 1: none */
    double most;       /* the same if the trainer never waited */
    char text[600];    /* what limits, with its evidence: one sentence or two */
    char advice[300];  /* the change that would help most; "": none */
    hr_finding files[3];
    int n_files;
} hr_verdict;
/* From 0 to 1; 0 of nothing. */
static inline double hr__share(double part, double whole) { return whole > 0 ? HR_MIN(part / whole, 1.0) : 0; }
/* The mean time of a request: even one alone takes it, so a run with its start is no shorter. */
static inline double hr__request_ns(const hr_io_sums *io)
{
    return io->requests ? (double)io->ns / (double)io->requests : 0;
}
void hr__verdict_of(const hr_evidence *e, hr_verdict *out);
/* file_findings.c: sets v->files. The rest of *v is known. */
void hr__file_findings(const hr_evidence *e, hr_verdict *v);
/* Whether these are the steps of no trainer, but of a consumer that only takes: a write, a materialize of a sort. */
bool hr__verdict_takes(const hr_step_sums *all);
void hr__verdict_print(const hr_verdict *v, hr_text *out); /* a JSON object */

#endif
