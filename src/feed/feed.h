/* feed.h - tables to trainers: exact batches, splits, and the ring that carries batches to other processes.
 *
 * feed.c   hr_feed: a run plus exact batches (hr__op_rebatch, hr__op_gather appended to the plan), discards, position.
 * split.c  one feed shared out to N ranks by step: step s of rank r is rows [(s*N + r)*B, +B) of the epoch.
 * ring.h   a split served to processes over links: batches lie in an exchange arena, descriptors travel by socket. */
#ifndef HR_FEED_H
#define HR_FEED_H

#include "exec/exec.h"

/* --- feed.c: beyond the public hr_feed_* */
typedef struct hr_feed_extra {
    bool own_memory;     /* every batch is contiguous and `sole`: its owner may write into it (torch tensors) */
    hr_arena *arena;     /* batches go there (implies own_memory); shared */
    bool keep_positions; /* hr__feed_position_at can be asked about earlier rows, until hr__feed_forget */
    void (*ready)(void *context);
    void *ready_context;
    bool of_split, split_drop_last; /* a split's: drop_last is its tail's */
    char **differs;                 /* see hr_position_how */
} hr_feed_extra;
hr_status hr__feed_open(hr_plan *p, const hr_feed_options *options, const hr_feed_extra *extra, hr_feed **out,
                        hr_error *err) HR_MUST_USE;
/* As hr_feed_next, but returns HR_PENDING after timeout_ms or when an inline call waits to be served. */
hr_status hr__feed_next(hr_feed *f, int timeout_ms, hr_table **out, hr_error *err) HR_MUST_USE;
hr_run *hr__feed_run(hr_feed *f); /* borrowed; NULL: the position was the end of its epoch */
int64_t hr__feed_epoch(const hr_feed *f);
int64_t hr__feed_rows(hr_feed *f); /* returned so far */
/* The position before row `row` (< 0: the next one) of those that this feed returned. Not whole: for this process, to
 * be made whole if it is given out (hr__position_make_whole), which reads some of each file. */
hr_status hr__feed_position_bare(hr_feed *f, int64_t row, hr_position *out, hr_error *err) HR_MUST_USE;
hr_status hr__feed_position_at(hr_feed *f, int64_t row, bool whole, char **out, hr_error *err) HR_MUST_USE;
void hr__feed_forget(hr_feed *f, int64_t row); /* nobody will want a position before `row` */
/* How a feed goes on from a position. */
typedef struct hr_position_how {
    bool moved;  /* hr_feed_options.moved */
    bool strict; /* hr_feed_options.strict */
    char **
        /* names of functions whose code is another one than then; new (hr__free), NULL: none is. NULL: not wanted */
        differs;
} hr_position_how;
/* Parses a position and checks that it is of this plan and these files and, if batch_rows >= 0, of such batches. how
 * NULL: zero. */
hr_status hr__feed_position_fits(hr_plan *plan, const char *text, int64_t batch_rows, const hr_position_how *how,
                                 hr_position *out, hr_error *err) HR_MUST_USE;

/* --- split.c */
hr_status hr__error_copy(hr_error *to, const hr_error *from); /* with its detail; returns the status */
/* A rank's request for an epoch. All fields must be equal on every rank (otherwise HR_MISMATCH names each rank's
 * values). */
typedef struct hr_split_request {
    int64_t batch_rows; /* B >= 1 */
    bool drop_last;
    int prefetch; /* < 0 is 0 */
    bool own_memory;
    int64_t shuffle_rows; /* a local shuffle of such windows; 0: none */
    bool has_shuffle_seed;
    uint64_t shuffle_seed;
    char extra[256]; /* what else must be alike, compared as text */
} hr_split_request;

/* equal: after the last full step, one short step of floor(rest/N) rows a rank (none if 0, or if drop_last); at most
 * N-1 rows are lost, and reported by stats. uneven: the rest goes out as it falls. pad: rows are repeated to fill the
 * step and the column "__pad__"... is reserved for a later version: HR_UNSUPPORTED. Shares p. options: seed, epoch of
 * the first pass, threads, limits, any_order. */
hr_status hr__split_new(hr_plan *p, int n_ranks, hr_split_tail tail, const hr_feed_options *options, hr_split **out,
                        hr_error *err) HR_MUST_USE;
hr_split *hr__split_ref(hr_split *s);
void hr__split_unref(hr_split *s);
int hr__split_n_ranks(const hr_split *s);
hr_split_request *hr__split_usual(hr_split *s); /* what hr_split_begin asks for; set before any rank begins */
/* Rank r begins an epoch: waits (in timeout_ms slices: HR_PENDING) until all ranks that are still there have asked for
 * the same one. */
hr_status hr__split_begin(hr_split *s, int rank, const hr_split_request *q, int timeout_ms, hr_error *err) HR_MUST_USE;
/* The number of the pass that the rank began last. */
int64_t hr__split_pass(hr_split *s, int rank);
/* Rank r's next batch. *out NULL: the end of its epoch. HR_PENDING as above. HR_PEER: another rank died or raised:
 * names it. HR_INVALID: the rank is in another pass than `pass` (0: any) by now. */
hr_status hr__split_next(hr_split *s, int rank, int64_t pass, int timeout_ms, hr_table **out,
                         hr_error *err) HR_MUST_USE;
/* Rank r leaves this epoch early: its batches are dropped, the others go on. */
void hr__split_leave(hr_split *s, int rank);
/* Rank r is gone for good. `why` (borrowed) reaches the others as HR_PEER with its text; NULL: it was closed. */
void hr__split_lost(hr_split *s, int rank, const hr_error *why);
/* The one global position: steps that every rank has taken. HR_MISMATCH, naming rank and step, if ranks are at
 * different steps. */
hr_status hr__split_position(hr_split *s, char **out, hr_error *err) HR_MUST_USE;
/* The position behind the steps that every rank has done: it has taken a later one, or is at the end. The ranks may be
 * at different steps; a rank that is further gets what it has taken beyond the position again. */
hr_status hr__split_position_done(hr_split *s, char **out, hr_error *err) HR_MUST_USE;
/* Before an epoch begins: go on from there. */
hr_status hr__split_restore(hr_split *s, const char *position, const hr_position_how *how, hr_error *err) HR_MUST_USE;
hr_status hr__split_stats(hr_split *s, char **out, hr_error *err)
    /* JSON: ranks, steps, rows per rank, rows lost, wait_ns per rank (since its request for the epoch), run */
    HR_MUST_USE;
void hr__split_close(hr_split *s); /* wakes everybody: HR_CANCELLED; ends the run */
hr_status hr__split_schema(hr_split *s, hr_schema **out, hr_error *err) HR_MUST_USE;

/* For the ring. Batches of coming epochs lie in `arena` (shared), and `ready` is called, from any thread,
 * whenever a call that gave HR_PENDING may have more to say; it must not call the split. NULLs: no more; then none is
 * in progress. */
void hr__split_serve(hr_split *s, hr_arena *arena, void (*ready)(void *context), void *context);
/* As hr__split_next, but the step counts as taken only when hr__split_taken says so (steps taken in this epoch, by
 * then), and the end as reached by hr__split_finish. */
hr_status hr__split_next_ahead(hr_split *s, int rank, int timeout_ms, hr_table **out, hr_error *err) HR_MUST_USE;
void hr__split_taken(hr_split *s, int rank, int64_t n_steps, int64_t wait_ns);
void hr__split_finish(hr_split *s, int rank);
void hr__split_join(hr_split *s, int rank); /* a rank that was lost or closed takes part again */

#endif
