/* op.h - the class of an operator, which maps tables to tables.
 *
 * An operator does not know its neighbours, and does not measure time, print or wait. State that its tickets share has
 * a lock of its own, a leaf. The scheduler (exec/) calls it:
 *
 *   kind    task          push is called                         state lives in
 *   MAP     one a ticket  for different tickets at the same time  the task (per ticket), the thread slot, the run
 *   STREAM  one a run     serially, in canonical order            the task
 *   BLOCK   one a run     serially; keeps its input               the run (block parts are read after the task ends)
 *
 *   start(run) { push(task, table)* finish(task) }* block_parts(task) { read(run, block_part) }* stop(run)
 *
 * After its input a BLOCK operator has *block parts*: the scheduler makes a ticket of each, reads several at the same
 * time and passes their tables on in order, after the output of push and finish. Their rows are new rows with the
 * coordinates (0, 0, 0, place in the whole output), independent of the cut into block parts.
 *
 * A *front* is a map operator that runs on the tickets of another operator's input, in parallel, before that operator
 * sees the tables; both share the run's state of the operator (hr_op_run.partner).
 *
 * Several inputs. IN_TURN: input 0 to its end, then input 1; the run reads an input when all earlier inputs have
 * ended. An operator may begin with another input (first_input). CHOSEN: the operator chooses the next input
 * (hr__task_want); the others wait with full windows. The output is new rows, as of a BLOCK operator.
 *
 * A *ticket* is one unit of the input in canonical order (a row range of a fragment; one table of the stage before).
 * Input is borrowed. hr__task_emit emits output. Every emitted table has an origin; an operator that keeps rows keeps
 * their coordinates, one that makes new rows names the rows they come from (hr__origin_made).
 *
 * HR_PENDING. An operator that waits for a result (of a worker process) calls hr__task_suspend, gives the hr_resume to
 * the code that will complete it, and returns HR_PENDING from push or finish: the ticket is parked, and the thread goes
 * on with other work. hr__resume, from any thread, wakes the ticket: the scheduler then calls `resumed` on a pool
 * thread.
 *
 * Markers. A position to resume from is a *marker*: "just before this ticket of this source", plus the state of
 * each stream operator at that place. Markers flow through the run between tables. A stream operator passes a marker
 * on, with its state as text, when it holds no row from before the marker. An operator that restores that state and
 * gets the rows after the marker emits exactly the rows that the first one emitted after the marker. */
#ifndef HR_OP_H
#define HR_OP_H

#include "data/data.h"
#include "format/format.h"
#include "io/cache_folder.h"

typedef enum hr_op_kind { HR_OP_MAP, HR_OP_STREAM, HR_OP_BLOCK } hr_op_kind;
typedef struct hr_op hr_op;
typedef struct hr_task hr_task;     /* made by the scheduler */
typedef struct hr_marker hr_marker; /* exec.h */
typedef struct hr_resume hr_resume;

/* One operator in one run; made by the scheduler, filled by start. */
typedef struct hr_op_run hr_op_run;
struct hr_op_run {
    const hr_op *op;
    void *state;         /* the operator's own, for the run */
    hr_account *account; /* charge here */
    int index;           /* of the operator in the plan, canonical: part of seeds and positions */
    uint64_t seed;
    int64_t epoch;
    struct hr_op_run *partner;    /* of a front: the run of its operator */
    int64_t allowance;            /* most bytes before it spills, a share of the limit: see hr__op_allowance */
    int64_t step_bytes;           /* of the table that a thread works on at a time, if all threads do that */
    _Atomic int64_t skipped_rows; /* of a slice: rows that the reader left out before the first row */
    int first_input;              /* IN_TURN: the input to begin with */
    int32_t last_instance; /* source instance of the rows that it makes at the end of its input; see hr_op.closes */
    bool other_code;       /* it goes on from a position that was saved with other functions or other code */
    bool marks;            /* of a rebatch: a function follows downstream, so each batch has a marker */
    bool to_process;       /* another process reads its output: allocate from `arena` */
    hr_arena *arena;       /* NULL: none */
    atomic_bool settled;   /* the order of tickets no longer matters: see hr__task_await_turn */
    void (*notify)(void *context); /* wakes the consumer, which runs inline calls */
    void *notify_context;
};

/* op.c. The bytes that an operator may hold now: its allowance or, while the process has little left, an equal share
 * among all operators of all runs that hold rows. */
int64_t hr__op_allowance(const hr_op_run *run);
/* About the most bytes of a table for a function or from it, in a run with this limit. */
int64_t hr__table_bytes_wanted(int64_t limit_bytes);
void hr__op_holds(int n); /* adds n to the number of operators that may hold rows */

/* What those who serve an operator's calls of a user's function have done: threads of this process, or workers. */
typedef struct hr_served {
    int64_t calls, busy_ns; /* ended calls, and their times from begin to end */
    int64_t cpu_ns;         /* of these, on CPUs */
    int64_t delay_ns;       /* of busy_ns, in which they could run and had no CPU; 0 also: not known */
    int64_t queued_ns;      /* the time that these calls waited for a server */
    int64_t lock_ns;        /* the servers waited for their interpreter's lock: before, between and after calls */
    int64_t servers;        /* the most so far */
    int64_t here;           /* 1: they are threads of this process */
    int64_t pieces;         /* a reader's: stored pieces (chunks of arrays) that a call reads, the mean; 0: no reader */
    int64_t piece_bytes;    /* of each in memory, the mean */
} hr_served;

typedef enum hr_op_inputs { HR_INPUTS_ONE, HR_INPUTS_IN_TURN, HR_INPUTS_CHOSEN } hr_op_inputs;

/* The columns of an input that an operator needs: names borrowed from the operator, or from its consumer's needs. */
typedef struct hr_needs {
    const char **names;
    int n; /* < 0: all */
    int64_t cap;
} hr_needs;
hr_status hr__needs_add(hr_needs *n, const char *name, hr_error *err) HR_MUST_USE; /* each once; op.c */
/* For `schema` of operators whose output has the columns of their input. */
hr_status hr__kept_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err) HR_MUST_USE;
/* For `needs` of operators that read no column: the columns that their consumers need. */
hr_status hr__same_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                         hr_error *err) HR_MUST_USE;

/* The seed of a random order. */
typedef struct hr_shuffle_seed {
    bool own;  /* uses `seed`; else the run's seed */
    bool once; /* the same order in each epoch */
    uint64_t seed;
} hr_shuffle_seed;

/* The blocks of the source that an operator puts in a random order. ALL includes the blocks of repartition()
 * upstream. */
typedef enum hr_blocks { HR_BLOCKS_AS_THEY_ARE, HR_BLOCKS_OF_FILES, HR_BLOCKS_ALL } hr_blocks;

/* Where the rows of a plan are cached; see plan/plan_cache.c. */
typedef struct hr_cache_place {
    const char *folder;
    int64_t limit;         /* INT64_MAX: what the disk has */
    const char *version;   /* a part of the key; "": none */
    hr_cache_state *state; /* of the folder */
} hr_cache_place;

typedef struct hr_op_class {
    const char *name;
    const char *doc;
    hr_op_kind kind;

    /* Traits. Rules (plan/) and the builder of a run (exec/build.c) read these and the traits in hr_op; they never
     * compare classes. False, 0 and NULL promise nothing: no rule then moves anything past the operator. */
    bool one_to_one; /* same rows, same order, same coordinates: limits and discards may move upstream past it */
    bool same_rows;  /* as many rows out as in, in any order: counts are known downstream of it */
    bool calls;      /* it calls a function of the user's */
    bool numbered;   /* a BLOCK operator: the number of an output row is the row of its coordinate */
    bool new_rows;   /* MAP, STREAM: it numbers its output rows, as a BLOCK operator does (a map follows one) */
    hr_op_inputs inputs;
    bool row_local;       /* each output row depends on one input row only (fragments may be permuted upstream of it) */
    bool filter_upstream; /* a filter downstream may run upstream, over columns that column_upstream names (a sort) */
    bool images_upstream; /* image functions downstream may run upstream of it, on columns that it does not read */
    bool shares_columns;  /* a map that passes its input's columns on and writes none */
    bool same_plans;      /* several inputs: all are one plan over other rows, whose operators a run has once */
    bool takes_few_rows;  /* it may end long before its input: windows of the stages before it begin small */
    bool draws_by_depth; /* it draws a number for each row by coordinate, another one for each such operator upstream */
    /* The input's name of a column of the output; NULL: the operator makes the column. NULL function: the same name. */
    const char *(*column_upstream)(const hr_op *op, const char *column);
    /* Whether it uses a column of its input otherwise than to pass it on once. NULL: it does not. */
    bool (*looks_at)(const hr_op *op, const char *column);
    /* The same operator with only the wanted columns in its output. *out is new; NULL: this one already has only those.
     * NULL function: its output always has all. */
    hr_status (*narrow)(const hr_op *op, const char *const *wanted, int n, hr_op **out, hr_error *err);
    /* The columns that it computes by expressions from other columns of its input. Returns their number. Borrowed.
     * NULL: none. */
    int (*computed)(const hr_op *op, const char *const **names, hr_expr *const **exprs);
    /* The columns by which it orders all its input rows, if it gives all of its columns; equal rows keep their order.
     * Writes up to `most` borrowed names; returns their number. NULL: it has an order of another kind, or none. */
    int (*order_keys)(const hr_op *op, const char **names, int most);
    /* The same operator with only the first n_rows of its output. *out is new. NULL: there is none. */
    hr_status (*first_rows)(const hr_op *op, int64_t n_rows, hr_op **out, hr_error *err);
    /* The same operator with its blocks in a random order. *out is new. NULL: there is none; for a STREAM or BLOCK
     * operator this means that the order of its rows matters. */
    hr_status (*permuted)(const hr_op *op, const hr_shuffle_seed *seed, hr_op **out, hr_error *err);
    /* The arena for its input if another process reads that, borrowed; NULL: none. NULL function: none. */
    hr_arena *(*input_arena)(const hr_op *op);
    /* The hash of its function's code, 16 characters ('-': not known). NULL: it calls none. */
    void (*code)(const hr_op *op, char out[17]);

    /* Output schema for an input schema. *out NULL with HR_OK: known only with the first output table. Any error is a
     * user's. */
    hr_status (*schema)(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err);
    /* The same of an operator with several inputs, all known. */
    hr_status (*schema_of)(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err);
    /* The columns that it needs of an input if its consumer needs `wanted` (n < 0: all). `out` is "none" when called.
     * NULL: all. */
    hr_status (*needs)(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err);
    /* Several inputs: the column of this input that the operator's column is, where rows of the input that a filter
     * over such columns drops change no output row that passes it. NULL: another column, or they do. NULL function:
     * no column. */
    const char *(*column_of_input)(const hr_op *op, int input, const char *column);
    /* IN_TURN: the input to begin with; rows[i]: the estimated rows of input i, -1: unknown. The output does not
     * depend on the choice. NULL: 0. */
    int (*first_input)(const hr_op *op, const int64_t *rows);
    /* Semi-join hint: a row of this input can be dropped unless an earlier input has a row with equal values in
     * keys[0 .. n), borrowed. Returns n. 0 or NULL: no hint. */
    int (*partner_keys)(const hr_op *op, int input, const char *const **keys);
    /* In a run, when the earlier inputs have ended: a condition on `column`, which holds key k in the scan, that is
     * true for every row with a partner. *out is new, NULL: none is known. */
    hr_status (*partner_filter)(const hr_op *op, const hr_op_run *run, int key, const char *column, hr_expr **out,
                                hr_error *err);
    /* first_input: the input with which the run begins. *out is new, NULL: none */
    hr_status (*front)(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err);
    hr_status (*start)(const hr_op *op, hr_op_run *run, hr_error *err); /* NULL: nothing to do */
    /* The run is ending early: complete all suspended tickets now, with HR_CANCELLED. May be called again, and
     * while pushes run. NULL: nothing is ever suspended. */
    void (*cancel)(const hr_op *op, hr_op_run *run);
    void (*stop)(const hr_op *op, hr_op_run *run); /* after the last task; always, if start succeeded */
    /* After an error: the output of this call goes on before the error. */
    hr_status (*push)(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err);
    /* STREAM, of hr__task_state: false: what it gave to a network before has to leave first, and the scheduler pushes
     * nothing. Called with the run's lock held, while the operator does not run: reads atomics only. Who makes it true
     * calls hr__budget_wake. NULL: it always accepts. */
    bool (*accepts)(const void *state);
    /* After hr__resume: may emit, suspend again (HR_PENDING), or fail. */
    hr_status (*resumed)(const hr_op *op, hr_task *task, hr_error *err);
    /* After hr__task_more: called when all its emitted tables have passed the operators after it, before its next
     * input. May emit, suspend and call hr__task_more again. NULL: the operator never calls hr__task_more. */
    hr_status (*more)(const hr_op *op, hr_task *task, hr_error *err);
    /* The ticket's (MAP) or all input's (STREAM, BLOCK) end. STREAM, BLOCK: its output goes on only if it succeeds (a
     * write reports its files before it names them). NULL: nothing to do. */
    hr_status (*finish)(const hr_op *op, hr_task *task, hr_error *err);
    hr_status (*ended)(const hr_op *op, hr_task *task, int input,
                       hr_error *err); /* of several inputs: this one has ended */
    /* After finish: the number of block parts. NULL: none. */
    hr_status (*block_parts)(const hr_op *op, hr_task *task, int64_t *n, hr_error *err);
    /* The tables of a block part, read by one thread; several block parts at the same time. *estimate: bytes of one
     * step's output and of the block part's own memory; at first the bytes of a reader's step. */
    hr_status (*read)(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                      int64_t *estimate, hr_error *err);
    void (*task_clear)(const hr_op *op,
                       hr_task *task); /* frees *hr__task_state; always called, also after errors. NULL: hr__free */
    void (*thread_clear)(const hr_op *op, hr_op_run *run, void *thread_state); /* NULL: none */
    /* STREAM: see Markers; NULL: they end here. Calls hr__task_pass now, or from a later push or finish. */
    hr_status (*marker)(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err);
    hr_status (*restore)(const hr_op *op, hr_task *task, const char *state, hr_error *err); /* before the first push */
    /* STREAM: bytes of the tables that readers right before it make; 0: as many as for others. Its output of a table
     * comes when it is through with it, and its markers lie between tables: with small ones, both come earlier. */
    int64_t reads_bytes;
    /* STREAM, with as many rows out as in: in a lane (plan/plan_lanes.c) rows have numbers. The first input row that it
     * needs to give its output from `row` on; and the first output row that it gives if its input begins with row
     * `row` (hr__task_first_row). NULL: it cannot be in a lane. */
    int64_t (*lane_needs)(const hr_op *op, int64_t row);
    int64_t (*lane_gives)(const hr_op *op, int64_t row);
    /* MAP: the same for an operator that adds its state to markers (hr__task_save). Before the first ticket. NULL: it
     * adds none. */
    hr_status (*restore_run)(const hr_op *op, hr_op_run *run, const char *state, hr_error *err);
    /* MAP: writes the operator's text for a marker that passes to `out`; empty: the marker keeps its text. state: the
     * text of hr__task_save, NULL: none; `out` replaces it. NULL: the operator adds no text. */
    void (*remember)(const hr_op *op, const hr_op_run *run, const char *state, hr_text *out);
    int64_t (*floor_bytes)(const hr_op *op);         /* least memory besides one input and one output table; NULL: 0 */
    void (*describe)(const hr_op *op, hr_text *out); /* "limit(5)"; NULL: the name */
    void (*stats)(const hr_op *op, const hr_op_run *run,
                  hr_text *out);           /* its own part of hr_feed_stats: ,"key":1; NULL: nothing */
    int64_t (*most_rows)(const hr_op *op); /* that it gives in a run, if the input has them; NULL: no such number */
    void (*served)(const hr_op *op, const hr_op_run *run, hr_served *out); /* NULL: it calls no function of a user */
    void (*fingerprint)(const hr_op *op, hr_hash *h);                      /* arguments; NULL: none */
    void (*free)(hr_op *op);                                               /* frees what op owns, and op */
} hr_op_class;

/* An operator with its arguments: immutable, counted, embedded first in each operator's own struct. */
struct hr_op {
    const hr_op_class *cls;
    atomic_int refs;

    /* Traits of this one operator, set by its constructor. Pointers are borrowed from the operator. */
    bool one_to_one; /* init copies the class's; a map may promise it */
    bool idle;       /* MAP: the reader does its work: in a run it only has a number */
    bool in_order;   /* MAP: it remembers earlier rows: no rule changes the number or order of its input rows */
    bool calls;      /* it calls functions of the user */
    bool instances;  /* MAP: each run makes instances of its function, which may be large */
    bool saves;      /* MAP: it adds its state to markers (hr__task_save) */
    bool closes;     /* MAP: its stage has one more ticket, without rows, after all others (hr__task_closes) */
    /* > 0: a function over batches of the source (batch_cutter.c): its tickets hold whole blocks of this many rows */
    int64_t block_rows;
    bool cuts;                  /* its output is the rows [cut_begin, cut_end) of its input */
    int64_t cut_begin, cut_end; /* cut_end < 0: to the last row */
    int64_t table_rows;         /* > 0: the same rows, in tables of exactly table_rows rows */
    bool drops_rest;            /* not the last table, if that has fewer rows */
    bool makes_batches;         /* each of its tables is a batch, whose rows belong together */
    bool makes_blocks;          /* its arguments say which rows are in one table */
    hr_expr *predicate; /* its output is the rows for which this is true; NULL: the operator is no such filter */
    const char *made;   /* it only makes this column; NULL: it does more */
    hr_blocks blocks;   /* it puts these in a random order, by blocks_seed */
    hr_shuffle_seed blocks_seed;
    bool by_epoch; /* its output differs from epoch to epoch: a cache of its rows would keep those of one */
    const struct hr_cache_place *caches; /* MAP: the rows of its input come from this place if they are there; NULL */
};
void hr__op_init(hr_op *op, const hr_op_class *cls);                     /* refs 1; no traits but the class's */
const char *hr__op_column_upstream(const hr_op *op, const char *column); /* see hr_op_class.column_upstream */
hr_op *hr__op_ref(hr_op *op);
void hr__op_unref(hr_op *op);

#endif
