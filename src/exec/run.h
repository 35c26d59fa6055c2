/* run.h - the parts of one run, for the files of exec/ only.
 *
 *   leaf stage:  scan -> tickets -> map ops -+                 +-> tickets -> map ops -> [stream op] -> output queue
 *                                            +-> [stream op] --+
 *                            (many at once)     (serially, in canonical order: "draining")
 *
 * Locks. run->lock guards everything in hr_run, hr_stage and hr_ticket. Three threads own a part without it:
 * the thread that runs a ticket (state RUNNING) owns the ticket's reader, inboxes and operator states; the thread that
 * drains a stage (gate.draining) owns the rest of the stage's gate; the thread that takes the next ticket of a leaf
 * (window.taking) owns the leaf's `at` and `order`.
 *
 * The order of locks; a thread that holds one takes only locks to its right:
 *
 *   pool.resize  ->  run->lock  ->  one leaf: admission (budget.c), or the pages' lock (pages.c), or pool.lock (pool.c)
 *
 *   pool.resize its holder joins pool threads, which take run->lock: so no pool thread takes pool.resize
 *   run->lock     of one run; no thread holds two. A step is admitted, an item is allocated or freed under it, and
 *                 the release of bytes calls hr__pool_wake. Counters of calls (calls->lock, a leaf) are read under it
 *   admission     nothing is called while it is held; the waiter (hr__pool_wake) is called after its release
 *   pool.lock     nothing is called while it is held; hr__run_work runs without it
 *
 * Locks of the layers above (split->lock, then feed->lock) come before run->lock: hr__run_stats takes it. No thread
 * calls an operator, a reader or options.ready with run->lock held. Only one kind of object is freed under it: a table
 * for which a queue has no memory (hr__queue_push takes it, even on failure).
 *
 * Names: X_locked needs run->lock held and keeps it. X_relocks needs it held, but releases and takes it again in
 * between: the state of the run may have changed when it returns. Debug builds store the owner of the lock
 * (hr__run_lock) and abort in hr__assert_locked; release builds (NDEBUG) have neither. */
#ifndef HR_EXEC_RUN_H
#define HR_EXEC_RUN_H

#include "exec/exec.h"
#include "exec/pool.h"
#include "exec/tune.h"
#include "io/http/remote.h"

/* --- queue.c: tables with the markers before them */
typedef struct hr_item {
    hr_table *table;   /* NULL: `ends` is set. A marker never goes without a table */
    hr_marker *marker; /* lies before the table; NULL: none */
    int input;         /* the input of the next stage that it belongs to */
    bool ends;         /* no table: the input has ended */
} hr_item;
typedef struct hr_queue {
    hr_item *items; /* a ring */
    int64_t cap, head, n;
} hr_queue;
hr_status hr__queue_push(hr_queue *q, hr_account *a, hr_item takes,
                         hr_error *err) HR_MUST_USE; /* takes, even on failure */
bool hr__queue_pop(hr_queue *q, hr_item *out);
void hr__queue_clear(hr_queue *q);
void hr__item_clear(hr_item *i);

/* --- the task of an operator: one per map operator of a ticket, one per stage for its stream operator */
typedef struct hr_stage hr_stage;
typedef struct hr_ticket hr_ticket;
typedef struct hr_op_state hr_op_state;
struct hr_task {
    hr_run *run;
    hr_stage *stage;
    hr_ticket *ticket; /* NULL: the stage's stream task */
    hr_op_state *op;
    int place;  /* which map operator of the stage */
    int thread; /* the pool thread that runs it now */
    void *state;
    bool more;      /* the operator has more to emit for the last pushed table */
    hr_queue inbox; /* tables for this operator */
};

/* The times of calls: of an operator, or of a leaf's readers (observe.c). */
typedef struct hr_call_times {
    atomic_llong calls, busy_ns;
    atomic_llong sampled_ns, sampled_cpu_ns; /* of the calls that read the CPU clock */
} hr_call_times;

/* One operator in this run, with its counters. */
struct hr_op_state {
    hr_op_run run;
    hr_mem mem;
    bool started;
    int holds;            /* 1: hr__op_holds counts it */
    bool is_ours;         /* run.op is not the plan's: the run holds a reference */
    int32_t instance;     /* source instance of the rows that it makes; 0: it makes none */
    bool marked;          /* a marker before these rows exists */
    int64_t made_from;    /* drops the rows before this number: an earlier run emitted them */
    int64_t stall_ns;     /* HR_STALL */
    void **thread_states; /* run->n_slots */
    char *label;          /* what traces call it; NULL: the name of its class */
    atomic_llong rows_in, rows_out, bytes_out, pending_ns;
    hr_call_times times;
    hr_op_sums marks[HR_N_MARKS];
};

static inline const char *hr__op_label(const hr_op_state *o) { return o->label ? o->label : o->run.op->cls->name; }

/* The state of a map operator before a block of rows of a ticket. */
typedef struct hr_saved {
    hr_coord at;
    int op_index;
    char *text;
} hr_saved;

typedef enum hr_ticket_state { HR_TICKET_READY, HR_TICKET_RUNNING, HR_TICKET_PENDING, HR_TICKET_DONE } hr_ticket_state;

struct hr_ticket {
    hr_stage *stage;
    hr_ticket_state state;
    int64_t seq;
    hr_coord begin;
    hr_marker *before; /* goes downstream with the ticket's first output */
    bool before_passed;
    hr_coord last;   /* of the last row that was passed on; see hr__ticket_marker */
    hr_saved *saved; /* in the order of the blocks; see hr__task_save_at */
    int64_t n_saved, cap_saved;
    bool dropped; /* the stage was cut: freed when its step returns or it resumes */
    hr_ticket *next_dropped;
    /* its input */
    hr_scan_file *file; /* leaf */
    int fragment;
    int64_t row_begin, n_rows;
    int64_t fragment_rows; /* of the whole fragment; -1: not known */
    hr_reader *reader;
    /* n_files > 0: no fragment, but files [place, place + n_files) of the order, one row each */
    int place, n_files, at_file;
    hr_source **sources; /* of the files, if their bytes travel; NULL: none */
    /* A leaf's bytes that travel: its first read waits for them (remote.c). */
    bool awaited;
    int64_t missing_bytes; /* announced, but the budget was short */
    hr_wait *wait;
    hr_ticket *next_waiting;     /* of run->waiting */
    hr_status late;              /* status of `err`, which follows the rows read before it */
    hr_op_state *block_parts_of; /* the operator whose block part the ticket reads; NULL: none */
    int64_t block_part;
    hr_table *in; /* other stages */
    int input;    /* the input that the table belongs to */
    bool ends;    /* no table: the input has ended */
    bool input_done;
    struct hr_row_part *part; /* of a stage that reads cached rows (row_leaf.c) */
    bool closes;              /* without rows: the last ticket of a stage with an operator that has hr_op.closes */
    int64_t estimate;         /* bytes that one step may make */
    int64_t ordinal; /* canonical number: of the block in its fragment (leaf), of the table in the stage's input */
    /* the way through the map operators */
    hr_task *tasks;
    bool is_first;       /* was the oldest of its stage when its step began */
    hr_op_state *awaits; /* NULL, or: its next step waits until it is the oldest, or this operator is settled */
    int n_finished;      /* operators whose finish has run */
    int resumed;         /* operator to call `resumed` for; -1: none */
    hr_status resume_st; /* the status of the resume */
    bool resume_early;   /* hr__resume came before HR_PENDING was returned */
    int64_t pending_since;
    bool receiving;    /* it waits, or waited last, for bytes of the network, not for an operator */
    int64_t step_ns;   /* when its step began */
    int64_t busy_ns;   /* of its steps */
    int64_t blamed_ns; /* in which the consumer waited for it alone */
    int64_t n_read;    /* rows of its input; its own thread's */
    int64_t n_taken;   /* the same after its last step */
    hr_queue out;
    _Atomic int64_t made_bytes; /* of all tables that came into `out`; others look while the ticket runs */
    hr_status st;               /* of the ticket; reaches the consumer in canonical order, after `out` */
    hr_error err;
};

/* The files whose fragments are the next tickets (interleave.c). */
#define HR_FILES_AT_ONCE 16
typedef struct hr_open_files {
    hr_scan_file *files[HR_FILES_AT_ONCE];
    int n;          /* 0: no file is open */
    int32_t *order; /* order of the fragments of all open files; NULL: by number */
    int n_blocks;
} hr_open_files;

typedef struct hr_open_fragment {
    int file, fragment; /* file: index among the open files */
} hr_open_fragment;

/* What a leaf reads, as the plan's rules and the operators downstream narrowed it. */
typedef struct hr_leaf {
    hr_projection columns;
    hr_expr *filter;            /* borrowed from the plan, or own_filter; NULL: none */
    const hr_partner *partners; /* borrowed from the plan: operators whose keys narrow it, once they are known */
    int n_partners;
    const hr_op_run *partner_runs[HR_MAX_PARTNERS];
    hr_expr *own_filter;        /* the plan's filter and the partners' */
    bool loose;                 /* the filter comes from partners alone: readers may keep rows that do not pass it */
    hr_image_chain image_steps; /* the image steps that its readers do; n == 0: none */
    int32_t instance;           /* number of the source in the coordinates of its rows */
    int64_t block_rows;         /* its tickets hold whole blocks of this many rows, and of BLOCK_ROWS */
    int64_t rows_left;          /* of a pushed-down limit; < 0: none */
    int64_t skip_rows;          /* rows at its beginning to skip, if fragments know their number of rows; 0: done */
    hr_lane lane;               /* the rows to read, until they were sought; then lane.on is false */
    hr_arena *arena;            /* where readers write; NULL: private memory */
    bool done;                  /* the scan gives no more tickets */
} hr_leaf;

/* The order of a leaf's files and blocks in this epoch (interleave.c). */
typedef struct hr_leaf_order {
    bool known;
    int32_t *files;     /* NULL: by number */
    bool random_blocks; /* files and blocks come in a random order, by: */
    uint64_t seed, epoch;
} hr_leaf_order;

/* A file of a network that is opened before its turn (open_ahead.c). */
#define HR_FILES_BEGUN 64
typedef struct hr_begun_file {
    int place;
    hr_source *source;  /* its opening was announced; NULL: it is open, or was not begun */
    hr_scan_file *file; /* it is open; NULL: not yet */
    int n_announced;    /* fragments */
} hr_begun_file;

/* The next ticket of a leaf. The thread that takes it (window.taking) owns this. */
typedef struct hr_leaf_place {
    int file;             /* place of the first open file in the order of files */
    int block;            /* place in the order of the open files' blocks */
    int64_t row;          /* in the fragment */
    hr_open_files open;   /* the open files */
    hr_fragment fragment; /* the one at `block`, if `asked` */
    bool asked;
    hr_begun_file begun[HR_FILES_BEGUN]; /* by place % HR_FILES_BEGUN */
    int awaited;                         /* the files before this place were waited for */
} hr_leaf_place;

/* The input, unless the stage is a leaf. */
typedef struct hr_stage_input {
    hr_queue items;
    int n_inputs;
    int current; /* the input that may deliver now */
    int n_ended;
    uint8_t *ended; /* of each input, for an operator of several inputs; else NULL */
    hr_status st;   /* an error that ended the input; it goes downstream after all tables before it */
    hr_error err;
    /* the operator upstream, after its last table and while block parts are left; NULL: none */
    hr_op_state *block_parts_of;
    int64_t n_block_parts, at_block_part;
} hr_stage_input;

/* The tickets taken and not yet passed on: numbers head_seq .. next_seq - 1. */
typedef struct hr_window {
    hr_ticket **tickets; /* by seq % cap; NULL: drained already */
    int cap;
    int limit;         /* of tickets at a time; grows up to full */
    int full;          /* for the threads that the run has now; at most cap */
    bool begins_small; /* the consumer may take few rows: limit starts at 1, and the first tickets hold few files */
    int64_t head_seq, next_seq;
    int64_t n_taken; /* tickets made, the canonical number of the next */
    bool taking;     /* a thread makes the next ticket, without the lock */
    bool awaits;     /* the next files are on their way: no ticket until they are here */
    hr_wait *wait;   /* the last wait for files; NULL: there was none */
} hr_window;

/* The output: in canonical order, one thread at a time (`draining`), through the stream operator. That thread owns all
 * fields except `draining`. */
typedef struct hr_gate {
    hr_op_state *stream; /* NULL: tables pass unchanged */
    hr_task task;        /* the stream operator's */
    bool draining;
    int input;         /* the input of the current table */
    int wanted;        /* the input that the operator chose */
    bool enough;       /* the stream operator needs no more input */
    bool finished;     /* its `finish` was called */
    hr_queue staged;   /* emitted, not yet passed downstream */
    hr_marker *marker; /* for the next item that goes downstream */
} hr_gate;

typedef struct hr_stage_counts {
    atomic_llong files_opened, fragments_read, rows_read;
    atomic_llong stored_bytes;  /* of the fragments, of the projected columns; 0: in memory, or not known */
    atomic_llong fragment_rows; /* of the fragments, also those that were not read; 0: not known */
    hr_call_times reads;
    hr_skipped skipped; /* what its readers skipped */
    atomic_int taken;   /* how much of the scan has tickets, in parts of TAKEN_ALL */
} hr_stage_counts;
#define TAKEN_ALL 1000000

/* What hr__run_counts adds up for the stage: how much of the work upstream has passed, each from 0 to 1. */
typedef struct hr_stage_estimate {
    double sum;
    int n;
    bool after_block; /* a block operator upstream keeps what the stage takes */
} hr_stage_estimate;

/* What the looks at a stage found (observe.c). */
typedef struct hr_stage_watch {
    hr_stage_sums times, marks[HR_N_MARKS];
    hr_call_sums read_marks[HR_N_MARKS];
    int n_running, n_calling, n_receiving; /* tickets that run, that wait for a function, for bytes of the network */
    bool refused;                          /* the budget refused its oldest READY ticket */
    /* since the last look */
    hr_stage_does does;
    int64_t n_queue, n_window;
    hr_slow_ticket longest; /* of the ended ones */
    hr_slow_ticket held;    /* the one that the consumer waited for longest */
} hr_stage_watch;

struct hr_stage {
    hr_run *run;
    int index;
    hr_stage *next; /* NULL: the output queue */
    int input_of_next;
    hr_scan *scan;             /* borrowed from the plan; NULL: the stage reads none */
    struct hr_row_leaf *cache; /* a leaf, too: it reads cached rows (row_leaf.c); NULL: it does not */
    hr_leaf leaf;
    hr_leaf_order order;
    hr_leaf_place at;
    hr_stage_input in;
    hr_window window;
    hr_op_state **ops; /* map operators */
    int n_ops;
    bool closes, closed; /* a map operator needs a last ticket without rows; that ticket was made */
    hr_gate gate;
    int n_saving; /* map operators that add their state to markers */
    bool cut;     /* neither its own operator nor one downstream needs more rows of it */
    bool ended;   /* all output was passed on */
    /* in a lane: its number, and the numbers in it of the first rows that go into the stream operator and out of it;
     * set before the first table */
    int lane;
    int64_t lane_in, lane_out;
    int n_lanes; /* of which this is one; 0: it is in no lane */
    hr_stage_counts counts;
    hr_stage_estimate estimate;
    hr_stage_watch watch;
};

typedef struct hr_run_watch {
    int64_t at_ns;    /* of the last look */
    int64_t moved_ns; /* when a ticket's step last began or ended, a table passed on, or a ticket resumed */
    bool asked;       /* the consumer has wanted a table */
    bool hungry;      /* the consumer wants a table, and there is none */
    int64_t hungry_since_taken_ns;
    /* since the last look */
    int64_t n_active, n_out;
    hr_cause cause;
    hr_stage *of; /* where the cause is; NULL: nowhere */
    hr_run_sums sums, marks[HR_N_MARKS];
    int64_t began_cpu_ns, began_kernel_ns, began_faults, began_throttled; /* of the process, when the run began */
    int64_t began_machine_ns;                                             /* of all processes, or a moment before */
} hr_run_watch;

/* --- run_threads.c: how many threads work for the run, and how many tables may be ahead of its consumer */
typedef struct hr_tune_sums { /* since its start */
    hr_run_sums run;
    int64_t rows, tables, spilled;
    int64_t busy_ns, cpu_ns; /* of calls of operators and readers */
    int64_t refused_ns;      /* in which memory was the cause of the consumer's wait */
} hr_tune_sums;

typedef struct hr_move {
    int64_t at_ns; /* since the run began */
    int threads, prefetch;
    char reason[160];
} hr_move;

/* Takes of the consumer since the last look, for the depth: tune_ahead.c. */
typedef struct hr_run_ahead {
    bool on; /* the controller moves prefetch */
    hr_ahead_tuner tuner;
    int64_t hungry_ns; /* of the run, at the last take */
    int64_t step_ns;   /* of the consumer, between its tables; 0: not known yet */
    int stood_still;   /* takes that found enough ready and the run at rest, less those that a wait has used up */
    int64_t spared_ns; /* since the last look, with lacked, least and most: hr_ahead_look */
    int lacked, least, most;
} hr_run_ahead;

#define HR_MOVES_KEPT 16
typedef struct hr_run_threads {
    bool on;   /* the controller moves their number */
    int first; /* where it begins, unless an earlier run of the plan has moved it */
    hr_tuner tuner;
    hr_run_ahead ahead;
    int64_t n_moves;   /* of both */
    hr_tune_sums from; /* where the interval began; run.at_ns 0: none has begun */
    hr_move moves[HR_MOVES_KEPT];
} hr_run_threads;

struct hr_run {
    atomic_int refs;
    int pid;
    hr_plan *plan; /* rewritten */
    hr_run_options options;
    hr_account *account;
    hr_mutex lock; /* by hr__run_lock alone */
#ifndef NDEBUG
    _Atomic(const void *) lock_owner; /* identifies the thread that holds `lock`; NULL: none */
#endif
    hr_cond consumer;               /* out changed, the end, an error, an inline call */
    hr_cond idle;                   /* n_active or n_pending became 0 */
    hr_cond shares_done;            /* a call has no running share left */
    struct hr_parallel_call *calls; /* parallel_call.c: calls whose shares other threads may do */
    hr_stage **stages;              /* upstream before downstream */
    int n_stages, cap_stages;
    hr_op_state **ops; /* by canonical index */
    int n_ops, cap_ops;
    int n_other_ops; /* numbers of operators in the plans of cached rows */
    int n_plan_ops;  /* numbers of the plan's operators; the run's own, which protect functions, come after them */
    int n_instances;
    int same_op; /* while stages are built: the operator of the first lane that this one has, too; -1: a new one */
    bool has_limit;
    int n_slots;        /* thread slots: every thread number is smaller */
    int64_t step_bytes; /* bytes that one reader step should make */
    hr_queue out;
    int64_t out_table_bytes; /* of the last table in it; -1: none yet */
    hr_ticket *waiting;      /* tickets that wait for bytes of the network */
    hr_ticket *dropped;      /* freed by the next drain() or take(), or by hr__run_close */
    bool out_ended;
    bool inline_waiting;
    bool ready_due; /* the working thread calls options.ready next */
    bool cancelled;
    bool closed;
    atomic_bool stop; /* cancelled, closed or failed: tasks look at it without the lock */
    hr_status st;     /* the error that ended the run, if any */
    hr_error err;
    int n_active;  /* threads that work for it */
    int n_helping; /* of these, in shares of a parallel call */
    int n_pending; /* tickets in state PENDING */
    int64_t started_ns, consumer_wait_ns, first_table_ns;
    hr_network_begin began_network;
    hr_run_counts counts; /* tickets, tables_out, rows_out; the rest is summed from the stages */
    hr_run_watch watch;
    hr_run_threads threads;
    _Atomic(struct hr_trace *) trace; /* NULL: none. It may begin while the run goes on */
    hr_arena **arenas;                /* arenas in which it writes; borrowed from operators and options */
    int64_t n_arenas, cap_arenas;
    hr_pool_client client;
};

/* --- run_state.c: run->lock */
#ifdef NDEBUG
static inline void hr__run_lock(hr_run *r) { hr__lock(&r->lock); }
static inline void hr__run_unlock(hr_run *r) { hr__unlock(&r->lock); }
static inline void hr__run_wait(hr_run *r, hr_cond *c) { hr__cond_wait(c, &r->lock); }
static inline void hr__run_wait_ns(hr_run *r, hr_cond *c, int64_t ns) { (void)hr__cond_wait_ns(c, &r->lock, ns); }
static inline void hr__assert_locked(const hr_run *r) { (void)r; }
#else
void hr__run_lock(hr_run *r);
void hr__run_unlock(hr_run *r);
void hr__run_wait(hr_run *r, hr_cond *c); /* releases the lock while it waits */
void hr__run_wait_ns(hr_run *r, hr_cond *c, int64_t ns);
void hr__assert_locked(const hr_run *r); /* this thread holds the lock, or the process aborts */
#endif
static inline void hr__assert_stage_locked(const hr_stage *s) { hr__assert_locked(s->run); }

int hr__run_threads(const hr_run *r); /* that may work for the run now */
/* Of n_active, the threads that do not wait for a network. */
static inline int hr__run_working(const hr_run *r)
{
    return r->n_active - atomic_load_explicit(&r->client.n_waiting, memory_order_relaxed);
}
void hr__stage_counts_fragment(hr_stage *s, const hr_fragment *f); /* of which the first ticket is made */

/* --- observe.c: what the dispatcher records. One function per event; a trace hangs on the same functions. */
typedef struct hr_call_clock {
    int64_t cpu_ns; /* < 0: not read */
    int64_t begin_ns;
} hr_call_clock;
/* A call of an operator or a reader begins and ends, on any thread. name NULL: the trace does not show it. */
hr_call_clock hr__timing_begins(const hr_call_times *c);
void hr__timing_ends(hr_run *r, hr_call_times *c, const hr_call_clock *from, const char *name, int thread,
                     int64_t rows);
hr_call_sums hr__call_sums(const hr_call_times *c);
/* A thread has chosen work, or (idle) has found none. */
void hr__look_locked(hr_run *r, bool idle);
/* The consumer wants a table and there is none; or no longer. */
void hr__hungry_locked(hr_run *r, bool hungry);
void hr__ticket_begins_locked(hr_ticket *t);                   /* a step */
void hr__ticket_stops_locked(hr_ticket *t);                    /* after a step; its new state is set */
void hr__ticket_resumes_locked(hr_ticket *t, hr_op_state *op); /* it was PENDING; op NULL: for the network */
int64_t hr__machine_lately(int *n_cpus); /* hr__machine_cpu() of this moment, or of at most 20 ms ago */
void hr__run_sums_locked(const hr_run *r, hr_run_sums *out); /* since the start, but at_ns and io, now */

/* --- run_threads.c */
int hr__window_tickets(const hr_stage *s, int n_threads);     /* the most in the window of a stage */
void hr__threads_init(hr_run *r);                             /* before the windows are built */
int hr__run_ahead(const hr_run *r);                           /* tables that may be ahead of the consumer */
void hr__took_locked(hr_run *r);                              /* the consumer took a table */
bool hr__threads_look_locked(hr_run *r);                      /* between two tables. True: call hr__threads_moved */
void hr__threads_moved(hr_run *r);                            /* without locks, on the same thread */
void hr__threads_print_locked(const hr_run *r, hr_text *out); /* ,"tuned":{...} */

/* --- parallel_call.c */
typedef struct hr_parallel_call hr_parallel_call;
bool hr__has_shares_locked(const hr_run *r); /* shares of a call wait for a thread */
void hr__do_shares(hr_run *r);               /* does shares as long as there are any. Lock not held */

/* --- sched.c */
bool hr__gate_accepts(const hr_stage *s); /* its stream operator takes a table now; not while it runs */
bool hr__next_accepts(const hr_stage *s); /* what is downstream of the stage has room for its output */
bool hr__run_work(void *run, int thread); /* the work of a run, as a client of the pool */

/* --- ticket.c: one ticket's path through its stage's map operators */
hr_status hr__ticket_new(hr_stage *s, hr_ticket **out, hr_error *err) HR_MUST_USE;
void hr__ticket_free(hr_ticket *t);
void hr__tickets_free(hr_ticket *t); /* t and all that hang on its next_dropped; NULL is fine */
/* Runs the ticket until it has output, the input needs another step, or the ticket is suspended (HR_PENDING), done or
 * failed. Lock not held. */
hr_status hr__ticket_step(hr_ticket *t, int thread);
bool hr__ticket_finished(const hr_ticket *t);

/* --- task.c */
/* Gives the rows coordinates of source `instance`; 0: unchanged. Replaces *table, which belongs to the caller even on
 * failure. */
hr_status hr__number_instance(hr_table **table, int32_t instance, hr_error *err) HR_MUST_USE;
void hr__task_init(hr_task *task, hr_stage *s, hr_ticket *t, hr_op_state *op, int place);
void hr__task_end(hr_task *task); /* frees the task's state and inbox */
/* HR_BUDGET: one row takes more than the memory limit, so that no step could hold it. */
hr_status hr__check_rows(const hr_table *t, const hr_account *account, hr_error *err) HR_MUST_USE;
void hr__op_stall(hr_op_state *op);

/* Suspends a ticket of a leaf, whose input is not here: hr__ticket_step must return HR_PENDING next. *out as of
 * hr__task_suspend. */
hr_status hr__ticket_suspend(hr_ticket *t, hr_resume **out, hr_error *err) HR_MUST_USE;
void hr__ticket_stay(hr_resume *takes); /* instead: the input is here after all */

/* --- restore.c */
/* The marker before an output table of the ticket; NULL: none may lie there. Call it for each table, in order. */
hr_marker *hr__ticket_marker(hr_ticket *t, const hr_table *table);
/* The same for an output table of a block operator. */
hr_marker *hr__made_marker(hr_op_state *o, const hr_table *made);
hr_status hr__run_restore(hr_run *r, const hr_marker *m, hr_error *err) HR_MUST_USE; /* before the first ticket */
/* Replaces *table, an output of the operator, by its rows from made_from on (perhaps none). *table belongs to the
 * caller even on failure. */
hr_status hr__leave_out_made(const hr_op_state *o, hr_table **table, hr_error *err) HR_MUST_USE;

/* --- take.c: the next ticket of a leaf. *out NULL: the source is done. HR_PENDING: window.awaits is set. Lock not
 * held; stage->window.taking is set. */
hr_status hr__stage_take(hr_stage *s, hr_ticket **out, hr_error *err) HR_MUST_USE;

/* --- remote.c: tickets whose bytes travel over a network */
hr_status hr__ticket_begin_files(hr_ticket *t, hr_error *err) HR_MUST_USE; /* of a ticket of small files */
void hr__ticket_announce(hr_ticket *t);                                    /* what it will read */
/* HR_PENDING: the bytes are on their way, and the ticket is resumed when they are here. */
hr_status hr__ticket_await(hr_ticket *t) HR_MUST_USE;
/* What the account must have room for, beside the estimate, before the ticket requests what it was refused. */
int64_t hr__ticket_missing_bytes(const hr_ticket *t);
void hr__waits_cancel(hr_run *r); /* ends all waits of the run. Lock not held */

/* --- interleave.c ------------------------------------------------------------------------------------------------- */

int hr__stage_file(const hr_stage *s, int place); /* number of the file at this place of the order */
hr_status hr__stage_order_files(hr_stage *s,
                                hr_error *err) HR_MUST_USE; /* before all others; the second call does nothing */
/* The file at this place of the order. source: as hr_open's. */
hr_status hr__stage_open(hr_stage *s, int place, hr_source *source, hr_scan_file **out, hr_error *err) HR_MUST_USE;
/* Opens the files from at.file on that are read together. */
hr_status hr__stage_open_files(hr_stage *s, hr_error *err) HR_MUST_USE;
/* Opens the files that are read together with the file at `place`; its fragment `fragment` is next. HR_MISMATCH: the
 * file does not have that fragment. */
hr_status hr__stage_open_at(hr_stage *s, int place, int fragment, hr_error *err) HR_MUST_USE;
void hr__stage_close_files(hr_stage *s);
int hr__stage_files_from(const hr_stage *s, int place); /* number of files from this place on that are open together */
hr_open_fragment hr__stage_fragment(const hr_stage *s, int place); /* the block at this place of the order of blocks */
hr_status hr__stage_seek(hr_stage *s, const hr_coord *at, hr_error *err) HR_MUST_USE;
/* Passes files whose rows are known and fewer than *rows; takes them from *rows. */
void hr__stage_pass_files(hr_stage *s, int64_t *rows);

/* --- open_ahead.c */
/* Begins files after the open ones, and announces up to `left` bytes of those that are here. */
void hr__stage_begin_files(hr_stage *s, int64_t left);
int64_t hr__stage_bytes_ahead(const hr_stage *s); /* that are announced ahead of the tickets, over a network */
/* What was begun of the file at this place, for the caller; NULL in both: nothing. */
void hr__stage_take_begun(hr_stage *s, int place, hr_source **source, hr_scan_file **file);
void hr__stage_forget_begun(hr_stage *s);
/* HR_PENDING: the files at at.file are on their way, and window.awaits is set until they are here. */
hr_status hr__stage_await_files(hr_stage *s, hr_error *err) HR_MUST_USE;

/* --- small_files.c: small files that are one row each */
/* Number of files for the next ticket, and their bytes in memory. 0: the next file may hold any number of rows.
 * */
int hr__small_files(const hr_stage *s, int64_t *n_bytes);
#define HR_SMALL_FILES 64 /* a usual batch of images */
typedef struct hr_small_tables {
    hr_table *tables[HR_SMALL_FILES];
    int n;
} hr_small_tables;
/* The next rows of the ticket's files, in order; out->n == 0: the end, or files without a row. Errors are in t->err. */
hr_status hr__small_files_read(hr_ticket *t, const hr_mem *mem, hr_small_tables *out) HR_MUST_USE;

/* --- build.c: plan -> stages */
hr_status hr__run_build(hr_run *r, hr_error *err) HR_MUST_USE;
hr_status hr__op_state_new(hr_run *r, const hr_op *op, int index, hr_op_state **out, hr_error *err) HR_MUST_USE;

/* --- run.c */
/* Builds a run that does not start: for its numbers of operators and sources. */
hr_status hr__run_new(hr_plan *p, const hr_run_options *options, hr_run **out, hr_error *err) HR_MUST_USE;
void hr__op_state_free(hr_run *r, hr_op_state *o);
void hr__op_state_print(hr_op_state *o, hr_text *out);

/* --- row_leaf.c: a leaf that reads the rows of cache node `p`. blocks: as of build() */
hr_status hr__row_leaf_build(hr_stage *s, hr_plan *p, int64_t blocks, hr_error *err) HR_MUST_USE;
void hr__row_leaf_free(hr_stage *s);
/* Its output tables are tickets of their own for the operators downstream, as those of a stream operator. */
bool hr__row_leaf_gives_tables(const hr_stage *s);
/* It cannot make a ticket now: the ticket that finds out where the next one begins is under way. */
bool hr__row_leaf_waits(const hr_stage *s);
hr_status hr__row_leaf_take(hr_stage *s, hr_ticket **out, hr_error *err) HR_MUST_USE;
hr_status hr__row_leaf_read(hr_ticket *t, const hr_mem *mem) HR_MUST_USE; /* one step of a ticket's input */
void hr__row_leaf_part_free(hr_ticket *t);
bool hr__row_leaf_is_named(const hr_stage *s, const hr_marker *m);
hr_status hr__row_leaf_seek(hr_stage *s, const hr_marker *m, hr_error *err) HR_MUST_USE;
void hr__row_leaf_cancel(hr_run *r); /* ends the waits of its tickets. Lock not held */
/* The stage reads no cache, or the operator comes after it in the plan. */
bool hr__row_leaf_is_before(const hr_stage *s, const hr_op_state *o);
void hr__row_leaf_print(hr_stage *s, hr_text *out);            /* lines of statistics, each with a comma after it */
void hr__row_leaf_counts(const hr_stage *s, hr_run_counts *c); /* adds what its runs have read */
int64_t hr__row_leaf_read_ns(const hr_stage *s);               /* how long they read */

/* --- trace.c */
/* path NULL: that of HEADRACE_TRACE; *out NULL: there is none. */
hr_status hr__trace_new(const char *path, hr_account *a, hr_trace **out, hr_error *err) HR_MUST_USE;
void hr__trace_span(hr_trace *t, const char *name, int thread, int64_t begin_ns, int64_t end_ns,
                    int64_t rows); /* t NULL: nothing */
/* A ticket waited for a function's result, or for bytes of the network. */
void hr__trace_pending(hr_trace *t, const char *name, int64_t begin_ns, int64_t end_ns);
void hr__trace_consumer(hr_trace *t, int64_t begin_ns, int64_t end_ns); /* the consumer waited */
void hr__trace_watch(hr_trace *t, int64_t zero_ns);   /* hr__trace_news begins with the oldest event */
bool hr__trace_writes(const hr_trace *t);             /* a file. NULL is fine */
void hr__trace_stats(hr_trace *t, const char *stats); /* JSON of the run's statistics; copied */

void hr__run_ref(hr_run *r);
void hr__run_unref(hr_run *r);
void hr__run_notify_locked(hr_run *r);                              /* wakes the consumer */
void hr__run_fail_locked(hr_run *r, hr_status st, hr_error *moved); /* keeps the first error; wakes the consumer */

#endif
