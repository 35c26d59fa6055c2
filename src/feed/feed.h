/* feed.h - feeds: exact batches, splits, and the ring that carries batches to other processes.
 *
 * feed.c   hr_feed: a run with exact batches (hr__op_rebatch, hr__op_gather appended to the plan), and positions.
 * split.c  one feed divided among N ranks by step: step s of rank r is rows [(s*N + r)*B, +B) of the epoch.
 * ring.h   a split served to processes over links: batches lie in an exchange arena, descriptors travel by socket. */
#ifndef HR_FEED_H
#define HR_FEED_H

#include "exec/exec.h"

/* --- feed.c: beyond the public hr_feed_* */
/* Lanes (plan/plan_lanes.c): this host is `host` of n_hosts, which share the batches of n_shares ranks. */
typedef struct hr_feed_lanes {
    int n_lanes; /* 0, 1: the plan is one lane */
    int n_hosts, host, n_shares;
} hr_feed_lanes;
typedef struct hr_feed_extra {
    bool own_memory;     /* each batch is contiguous and `sole`: its owner may write to it (torch tensors) */
    hr_arena *arena;     /* of the batches (implies own_memory); shared */
    bool keep_positions; /* positions of earlier rows are available until hr__feed_forget */
    void (*ready)(void *context);
    void *ready_context;
    int small_for;                  /* hr_run_options.small_for */
    bool of_split, split_drop_last; /* the feed of a split, and the split's drop_last */
    bool pad_column;                /* adds HR_PAD_COLUMN, of falses, after the others */
    bool by_row;                    /* tables of any size; positions as with batches of one row */
    hr_feed_lanes lanes;
    char **differs; /* see hr_position_how */
} hr_feed_extra;
hr_status hr__feed_open(hr_plan *p, const hr_feed_options *options, const hr_feed_extra *extra, hr_feed **out,
                        hr_error *err) HR_MUST_USE;
/* As hr_feed_next, but returns HR_PENDING after timeout_ms, or when an inline call waits for a server. */
hr_status hr__feed_next(hr_feed *f, int timeout_ms, hr_table **out, hr_error *err) HR_MUST_USE;
/* Adds time that the consumer spent between two calls to make its own batch of a table. */
void hr__feed_converted(hr_feed *f, int64_t ns);
/* As hr__run_watch and hr__run_news, of all runs of the feed. */
hr_status hr__feed_watch(hr_feed *f, int64_t zero_ns, hr_error *err) HR_MUST_USE;
hr_status hr__feed_news(hr_feed *f, hr_text *out, hr_error *err) HR_MUST_USE;
hr_run *hr__feed_run(hr_feed *f); /* borrowed; NULL: the feed began at the end of its epoch */
int64_t hr__feed_epoch(const hr_feed *f);
/* Whether the next epoch opens later than now: this one has still to read from its sources; or its first table is the
 * only one taken, and more are ready. The wait for the first table is the border between two epochs, and to open a run
 * takes longer than to take a table. */
bool hr__feed_delays_next(hr_feed *f);
/* Whether the next epoch may open early though nobody has said that it comes: the sources of this one have been read,
 * no function makes instances, and the memory limit has room for a second run like this one. */
bool hr__feed_may_open_next(hr_feed *f);
/* The same where no epoch has ended yet, so that this one may be the only one. A wrong guess costs work that nobody
 * takes: so the plan calls no function, reads no bytes over a network (stores bill them) and has no block operator,
 * which would read all rows, the consumer leaves CPU time unused, and the epoch has lasted twice as long as its first
 * batch took. */
bool hr__feed_guesses_next(hr_feed *f);
/* The number of lanes; 1 if the plan has none. */
int hr__feed_n_lanes(const hr_feed *f);
/* At first, for this many steps, the batches are only those for this host's ranks: n_shares / n_hosts batches for a
 * step. Rows and positions count the rows of all hosts. Later batches are those for all ranks. */
int64_t hr__feed_own_steps(const hr_feed *f);
int64_t hr__feed_rows(hr_feed *f); /* rows returned so far */
/* The position before row `row` (< 0: the next one) of the rows that this feed returned. It is valid in this process
 * only; hr__position_make_whole, which reads a part of each file, makes it valid elsewhere. */
hr_status hr__feed_position_bare(hr_feed *f, int64_t row, hr_position *out, hr_error *err) HR_MUST_USE;
hr_status hr__feed_position_at(hr_feed *f, int64_t row, bool whole, char **out, hr_error *err) HR_MUST_USE;
void hr__feed_forget(hr_feed *f, int64_t row); /* drops marks of positions before `row` */
/* How a feed resumes from a position. */
typedef struct hr_position_how {
    bool moved;  /* hr_feed_options.moved */
    bool strict; /* hr_feed_options.strict */
    char **
        /* names of functions whose code has changed; new (hr__free), NULL: none. NULL pointer: not wanted */
        differs;
    bool *later; /* see hr__inputs_check; NULL: the values in memory are compared at once */
    bool agree;  /* of a split: HR_MISMATCH if another place was restored before for the same epoch */
} hr_position_how;
/* Parses a position and checks that its plan, files and, if batch_rows >= 0, batch_rows equal these. how NULL: all
 * zero. */
hr_status hr__feed_position_fits(hr_plan *plan, const char *text, int64_t batch_rows, const hr_position_how *how,
                                 hr_position *out, hr_error *err) HR_MUST_USE;

/* --- split.c */
/* A rank's request for an epoch. All fields must be equal on every rank (otherwise HR_MISMATCH names each rank's
 * values). */
typedef struct hr_split_request {
    /* B >= 1. 0: a batch is a table of the plan, if that makes batches and there is no local shuffle; else B = 4,096 */
    int64_t batch_rows;
    bool drop_last;
    int prefetch; /* < 0 is 0 */
    bool own_memory;
    int64_t shuffle_rows; /* window of a local shuffle; 0: none */
    bool has_shuffle_seed;
    uint64_t shuffle_seed;
    bool ahead;      /* the next epoch will be requested: it opens when this one's sources have been read */
    bool has_epoch;  /* the epoch to begin; otherwise the one after the last, or the restored one */
    int64_t epoch;   /* >= 0 */
    bool by_row;     /* with batch_rows 1: many steps at once, as one table */
    char extra[256]; /* further fields that must be equal, as text */
} hr_split_request;

/* Batches that a rank may be ahead of its consumer, or of the slowest rank: see hr__ahead. None without prefetch. */
int hr__split_ahead(int prefetch, int64_t batch_bytes);

/* equal: after the last full step one short step of floor(rest/N) rows per rank (none if 0, or with drop_last); at most
 * N-1 rows are lost. uneven: ranks get the remaining batches as they are. pad: one short step of ceil(rest/N) rows per
 * rank; its last rows repeat the first rows of the rest. With pad all batches have a column HR_PAD_COLUMN of bools,
 * true for repeated rows. By tables (hr_split_request.batch_rows 0) all of this holds for whole batches: equal drops a
 * step without a batch for each rank, pad repeats batches. Stats report lost and repeated rows. Shares p. options:
 * seed, epoch of the first pass, threads, limits, any_order. */
hr_status hr__split_new(hr_plan *p, int n_ranks, hr_split_tail tail, const hr_feed_options *options, hr_split **out,
                        hr_error *err) HR_MUST_USE;
hr_split *hr__split_ref(hr_split *s);
void hr__split_unref(hr_split *s);
int hr__split_n_ranks(const hr_split *s);
/* Before any rank begins: each n_replicas ranks behind one another get the same batches, those of one share; N, in what
 * a step and a tail are, is then the number of shares. HR_INVALID: it does not divide the number of ranks. */
hr_status hr__split_replicate(hr_split *s, int n_replicas, hr_error *err) HR_MUST_USE;
/* Before any rank begins: the plan has n_lanes lanes, and the ranks are on n_hosts hosts. Each host reads the lanes
 * that its ranks need (plan/plan_lanes.c), if the plan has lanes and ranks want batches; else, and with one lane, all
 * rows. A restored position has lanes of its own, which stay. */
hr_status hr__split_lanes(hr_split *s, int n_lanes, int n_hosts, hr_error *err) HR_MUST_USE;
hr_split_request *hr__split_usual(hr_split *s); /* the request of hr_split_begin; set before any rank begins */
/* Rank r begins an epoch: waits (HR_PENDING after timeout_ms) until all remaining ranks have sent the same request. */
hr_status hr__split_begin(hr_split *s, int rank, const hr_split_request *q, int timeout_ms, hr_error *err) HR_MUST_USE;
/* The number of the rank's latest pass. */
int64_t hr__split_pass(hr_split *s, int rank);
/* Rank r's next batch. *out NULL: the end of its epoch. HR_PENDING as above. HR_PEER: another rank died or raised; the
 * text names it. HR_INVALID: the rank has left pass `pass` (0: any). */
hr_status hr__split_next(hr_split *s, int rank, int64_t pass, int timeout_ms, hr_table **out,
                         hr_error *err) HR_MUST_USE;
/* Adds time that rank r spent between two calls to make its own batch of a table. */
void hr__split_converted(hr_split *s, int rank, int64_t ns);
/* Rank r called report() then: for the trace. Times of hr__clock_ns. */
void hr__split_reported(hr_split *s, int rank, int64_t begin_ns, int64_t end_ns);
/* Rank r leaves this epoch early: drops its batches; the other ranks go on. */
void hr__split_leave(hr_split *s, int rank);
/* Rank r has left for good. The other ranks get HR_PEER with the text of `why` (borrowed); NULL: it was closed. */
void hr__split_lost(hr_split *s, int rank, const hr_error *why);
/* The global position after the steps that every rank has taken. HR_MISMATCH, naming rank and step: ranks are at
 * different steps. */
hr_status hr__split_position(hr_split *s, char **out, hr_error *err) HR_MUST_USE;
/* The same before the last n_ahead steps (by rows: rows), which the consumers of all ranks have taken ahead and not
 * used. HR_INVALID: more than one, or more than are taken. */
hr_status hr__split_position_before(hr_split *s, int n_ahead, char **out, hr_error *err) HR_MUST_USE;
/* The position after the steps that every rank has done: the rank has taken a later step, or is at the end. The ranks
 * may be at different steps; after a resume a rank gets its batches after the position again. */
hr_status hr__split_position_done(hr_split *s, char **out, hr_error *err) HR_MUST_USE;
/* The position after the steps that this rank has taken, valid for all ranks: every rank returns the same position
 * after the same number of steps, however many steps the others have taken. n_ahead: as above, of this rank. */
hr_status hr__split_position_of(hr_split *s, int rank, int n_ahead, char **out, hr_error *err) HR_MUST_USE;
/* Before an epoch begins: it resumes from this position. */
hr_status hr__split_restore(hr_split *s, const char *position, const hr_position_how *how, hr_error *err) HR_MUST_USE;
hr_status hr__split_stats(hr_split *s, char **out, hr_error *err)
    /* JSON: ranks, steps, rows per rank, rows dropped and padded, wait_ns per rank (since its request), run */
    HR_MUST_USE;
/* As hr__feed_watch and hr__feed_news, of all epochs and ranks. */
hr_status hr__split_watch(hr_split *s, int64_t zero_ns, hr_error *err) HR_MUST_USE;
hr_status hr__split_news(hr_split *s, hr_text *out, hr_error *err) HR_MUST_USE;
/* JSON: epoch, whether it runs, number of released steps, how many steps a rank may be ahead, and for each rank:
 * state (away: has not come yet, elsewhere: see hr__split_expect, out: in no epoch, asked: waits for one to begin, in,
 * gone), pid, steps taken, batches that wait for it, time since its last call. Cheap: a waiting rank may poll it. */
hr_status hr__split_describe_ranks(hr_split *s, char **out, hr_error *err) HR_MUST_USE;
void hr__split_close(hr_split *s); /* wakes all waiting ranks with HR_CANCELLED; ends the run */
hr_status hr__split_schema(hr_split *s, hr_schema **out, hr_error *err) HR_MUST_USE;

/* For the ring. Batches of later epochs lie in `arena` (shared). The split calls `ready` on any thread when a call that
 * returned HR_PENDING may now succeed; `ready` must not call the split. NULLs: no further calls, and none is in
 * progress. */
void hr__split_serve(hr_split *s, hr_arena *arena, void (*ready)(void *context), void *context);
/* As hr__split_next, but a step counts as taken only after hr__split_taken (total steps taken in this epoch), and the
 * end as reached only after hr__split_finish. */
hr_status hr__split_next_ahead(hr_split *s, int rank, int timeout_ms, hr_table **out, hr_error *err) HR_MUST_USE;
void hr__split_taken(hr_split *s, int rank, int64_t n_steps, int64_t wait_ns);
void hr__split_finish(hr_split *s, int rank);
/* By rows: reports that the consumer has taken n_rows of this epoch. Call it before each request for a position. */
void hr__split_report_rows(hr_split *s, int rank, int64_t n_rows);
/* Only n_here ranks (any of them) will join or begin here; the split drops the shares of the others. Call it before the
 * first rank joins. */
void hr__split_expect(hr_split *s, int n_here);
/* A rank begins to take part, or does so again after it was lost or closed. pid: of its process. */
void hr__split_join(hr_split *s, int rank, int pid);

#endif
