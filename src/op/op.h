/* op.h - tables to tables: what an operator is.
 *
 * An operator does not know its neighbours, and does not measure time, print or wait. State that its tickets share has
 * its own lock, a leaf. The scheduler (exec/) calls it:
 *
 *   kind    task          push is called                         state lives in
 *   MAP     one a ticket  for different tickets at the same time  the task (per ticket), the thread slot, the run
 *   STREAM  one a run     serially, in canonical order            the task
 *   BLOCK   one a run     serially; keeps what it gets            the run (block parts are read after the task ends)
 *
 *   start(run) { push(task, table)* finish(task) }* block_parts(task) { read(run, block_part) }* stop(run)
 *
 * At its end a BLOCK operator gives *block parts*: the scheduler makes a ticket of each, reads several at the same time
 * and passes their tables on in order, after the output of push and finish. Their rows are new ones with coordinates
 * (0, 0, 0, place in the whole output), whatever the block parts are.
 *
 * A *front* is a map operator that runs on the tickets of another operator's input, in parallel, before that operator
 * sees the tables; both share the run's state of the operator (hr_op_run.partner).
 *
 * Several inputs. IN_TURN: input 0 to its end, then input 1; nothing of an input is read before those in front of it
 * have ended. An operator may say that it begins with another one (first_input). CHOSEN: the operator says which input
 * it wants to see next (hr__task_want); the others wait with full windows. What comes out are new rows, as of a BLOCK
 * operator.
 *
 * A *ticket* is one unit of the input in canonical order (a row range of a fragment; one table of the stage before).
 * Input is borrowed. Output is emitted by hr__task_emit. Every emitted table has an origin; an operator that keeps rows
 * keeps their coordinates, one that makes new rows says from which (hr__origin_made).
 *
 * HR_PENDING. An operator whose result comes from elsewhere (a worker process) calls hr__task_suspend, hands the
 * hr_resume to whoever will complete it, and returns HR_PENDING from push or finish: the thread goes on with other
 * work, the ticket is parked. hr__resume, from any thread, brings it back: the scheduler then calls `resumed` on a pool
 * thread.
 *
 * Markers. A position to resume from is a *marker*: "just before this ticket of this source", plus what each stream
 * operator remembered when it came by. Markers flow through the run between tables. A stream operator passes a marker
 * on when no row that came before it is still held back, with its state as text: restored with that state and fed with
 * the rows from the marker on, it emits exactly what it would have emitted after the marker. */
#ifndef HR_OP_H
#define HR_OP_H

#include "data/data.h"
#include "format/format.h"

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
    int index;           /* of the operator in the plan, canonical: enters seeds and positions */
    uint64_t seed;
    int64_t epoch;
    struct hr_op_run *partner; /* of a front: the run of the operator that it works for */
    int64_t allowance;         /* bytes to hold at most before it spills, a share of the limit: see hr__op_allowance */
    _Atomic int64_t skipped_rows; /* of a slice: rows that the reader left out before the first that came */
    int first_input;              /* IN_TURN: the one that comes first */
    int32_t last_instance; /* source instance of the rows that it makes at the end of its input; see hr_op.closes */
    bool other_code;       /* it goes on from a position that was saved with other functions, or other code of theirs */
    bool marks;            /* of a rebatch: a function is behind it, so that each batch has a marker */
    bool to_process;       /* what this operator emits is read by another process: allocate from `arena` */
    hr_arena *arena;       /* NULL: none */
    atomic_bool settled;   /* nothing depends any more on which ticket comes first: see hr__task_await_turn */
    void (*notify)(void *context); /* wakes the consumer (inline calls wait to be served by it) */
    void *notify_context;
};

/* op.c. What an operator may hold now: its allowance or, where the process has little left, a share of it that is fair
 * to all that hold rows, of all runs. */
int64_t hr__op_allowance(const hr_op_run *run);
/* About what a table should have at most that is made for a function or by it, in a run with this limit. */
int64_t hr__table_bytes_wanted(int64_t limit_bytes);
void hr__op_holds(int n); /* adds n to the number of operators that may hold rows */

typedef enum hr_op_inputs { HR_INPUTS_ONE, HR_INPUTS_IN_TURN, HR_INPUTS_CHOSEN } hr_op_inputs;

/* The columns of an input that an operator needs: names borrowed from the operator, or from those that are wanted of
 * it. */
typedef struct hr_needs {
    const char **names;
    int n; /* < 0: all */
    int64_t cap;
} hr_needs;
hr_status hr__needs_add(hr_needs *n, const char *name, hr_error *err) HR_MUST_USE; /* each once; op.c */
/* For `schema` of operators whose tables go out with the columns they came in with. */
hr_status hr__kept_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err) HR_MUST_USE;
/* For `needs` of operators that look at no column: those that are wanted of the output. */
hr_status hr__same_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                         hr_error *err) HR_MUST_USE;

/* Of random orders. */
typedef struct hr_shuffle_seed {
    bool own;  /* `seed`; else the run's */
    bool once; /* the same in each epoch */
    uint64_t seed;
} hr_shuffle_seed;

/* Which blocks of the source an operator puts in a random order. ALL includes the blocks of repartition() upstream. */
typedef enum hr_blocks { HR_BLOCKS_AS_THEY_ARE, HR_BLOCKS_OF_FILES, HR_BLOCKS_ALL } hr_blocks;

typedef struct hr_op_class {
    const char *name;
    const char *doc;
    hr_op_kind kind;

    /* Traits. Rules (plan/) and the builder of a run (exec/build.c) ask these and the traits in hr_op, never which
     * operator it is. False, 0 and NULL promise nothing: no rule then moves anything past the operator. */
    bool one_to_one; /* same rows, same order, same coordinates: limits and discards may move upstream past it */
    bool same_rows;  /* as many rows out as in, in any order: counts are known downstream of it */
    bool calls;      /* it calls a function of the user's */
    bool numbered;   /* a BLOCK operator: the number of a row that it gives is the row of its coordinate */
    bool new_rows;   /* MAP, STREAM: it numbers its rows through, as a BLOCK operator does (a map stands behind one) */
    hr_op_inputs inputs;
    bool row_local;       /* each output row depends on one input row only (fragments may be permuted upstream of it) */
    bool filter_upstream; /* a filter downstream may run upstream, over columns that column_upstream names (a sort) */
    bool images_upstream; /* image functions downstream may run upstream of it, on columns that it does not look at */
    bool shares_columns;  /* a map whose output columns are its input's: it writes none */
    bool takes_few_rows;  /* it may end long before its input: windows of the stages before it begin small */
    bool draws_by_depth; /* it draws a number for each row by coordinate, another one for each such operator upstream */
    /* The input's name of a column of the output; NULL: the operator makes the column. NULL function: the same name. */
    const char *(*column_upstream)(const hr_op *op, const char *column);
    /* Whether it does more with a column of its input than to hand it on once. NULL: it does not. */
    bool (*looks_at)(const hr_op *op, const char *column);
    /* The same operator that gives, of its output, only the wanted columns. *out is new, NULL: this one already does.
     * NULL: it gives all. */
    hr_status (*narrow)(const hr_op *op, const char *const *wanted, int n, hr_op **out, hr_error *err);
    /* The columns that it computes by expressions, from its input's other columns; how many. Borrowed. NULL: none. */
    int (*computed)(const hr_op *op, const char *const **names, hr_expr *const **exprs);
    /* The same operator that gives only the first n_rows of its output. *out is new. NULL: there is none. */
    hr_status (*first_rows)(const hr_op *op, int64_t n_rows, hr_op **out, hr_error *err);
    /* The same operator that gives its blocks in a random order. *out is new. NULL: there is none; of a STREAM or BLOCK
     * operator this means that the order of its rows has a meaning. */
    hr_status (*permuted)(const hr_op *op, const hr_shuffle_seed *seed, hr_op **out, hr_error *err);
    /* The arena in which other processes want its input, borrowed; NULL: none. NULL function: none. */
    hr_arena *(*input_arena)(const hr_op *op);
    /* What identifies the code of the function that it calls, 16 characters ('-': not known). NULL: it calls none. */
    void (*code)(const hr_op *op, char out[17]);

    /* Output schema for an input schema. *out NULL with HR_OK: known only when the first table came out. Any error is a
     * user's. */
    hr_status (*schema)(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err);
    /* The same of an operator with several inputs, all known. */
    hr_status (*schema_of)(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err);
    /* What it needs of an input if `wanted` (n < 0: all) is wanted of its output. `out` is "none" when called. NULL:
     * all. */
    hr_status (*needs)(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err);
    /* IN_TURN: the input to begin with; rows[i]: about how many rows input i has, -1: unknown. What comes out is the
     * same, whichever it is. NULL: 0. */
    int (*first_input)(const hr_op *op, const int64_t *rows);
    /* Semi-join hint: a row of this input can be dropped unless an earlier input has a row with equal values in
     * keys[0 .. n), borrowed. Returns n. 0 or NULL: no hint. */
    int (*partner_keys)(const hr_op *op, int input, const char *const **keys);
    /* In a run, when the earlier inputs have ended: a condition on `column`, which holds key k in the scan, that is
     * true for every row with a partner. *out is new, NULL: none is known. */
    hr_status (*partner_filter)(const hr_op *op, const hr_op_run *run, int key, const char *column, hr_expr **out,
                                hr_error *err);
    /* first_input: that of the run. *out is new, NULL: none */
    hr_status (*front)(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err);
    hr_status (*start)(const hr_op *op, hr_op_run *run, hr_error *err); /* NULL: nothing to do */
    /* The run is ending early: complete all suspended tickets now, with HR_CANCELLED. May be called again, and
     * while pushes run. NULL: nothing is ever suspended. */
    void (*cancel)(const hr_op *op, hr_op_run *run);
    void (*stop)(const hr_op *op, hr_op_run *run); /* after the last task; always, if start succeeded */
    /* After an error: what this call emitted still goes on, before the error. */
    hr_status (*push)(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err);
    /* After hr__resume: may emit, suspend again (HR_PENDING), or fail. Results are where the completer put them. */
    hr_status (*resumed)(const hr_op *op, hr_task *task, hr_error *err);
    /* After hr__task_more: called when all that this operator emitted has gone through the operators behind it, before
     * it gets more input. May emit, suspend and ask for more again. NULL: hr__task_more is never called. */
    hr_status (*more)(const hr_op *op, hr_task *task, hr_error *err);
    /* The ticket's (MAP) or all input's (STREAM, BLOCK) end. STREAM, BLOCK: what it emits goes on only if it succeeds
     * (a write reports its files first and names them then). NULL: nothing to do. */
    hr_status (*finish)(const hr_op *op, hr_task *task, hr_error *err);
    hr_status (*ended)(const hr_op *op, hr_task *task, int input,
                       hr_error *err); /* of several inputs: no more of this one */
    /* After finish: how many block parts there are. NULL: none. */
    hr_status (*block_parts)(const hr_op *op, hr_task *task, int64_t *n, hr_error *err);
    /* The tables of a block part, read by one thread; several block parts at the same time. *estimate: bytes that one
     * step may make, and what the block part takes meanwhile, at first what a reader's step makes. */
    hr_status (*read)(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                      int64_t *estimate, hr_error *err);
    void (*task_clear)(const hr_op *op,
                       hr_task *task); /* frees *hr__task_state; runs always, also after errors. NULL: hr__free */
    void (*thread_clear)(const hr_op *op, hr_op_run *run, void *thread_state); /* NULL: none */
    /* STREAM: see Markers; NULL: they end here. `pass` by hr__task_pass now or, at latest, from a later push or
     * finish. */
    hr_status (*marker)(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err);
    hr_status (*restore)(const hr_op *op, hr_task *task, const char *state, hr_error *err); /* before the first push */
    /* MAP: the same for one that adds its state to markers (hr__task_save). Before the first ticket. NULL: it adds
     * none. */
    hr_status (*restore_run)(const hr_op *op, hr_op_run *run, const char *state, hr_error *err);
    /* MAP: what every marker that goes by has to say of the run, in `out`; nothing: no more than it has. state: what
     * hr__task_save added, NULL: nothing; it is replaced. NULL: it has nothing to say. */
    void (*remember)(const hr_op *op, const hr_op_run *run, const char *state, hr_text *out);
    int64_t (*floor_bytes)(const hr_op *op);         /* least memory beside one table in and out; NULL: 0 */
    void (*describe)(const hr_op *op, hr_text *out); /* "limit(5)"; NULL: the name */
    void (*stats)(const hr_op *op, const hr_op_run *run,
                  hr_text *out);                      /* more of its own for hr_feed_stats: ,"key":1; NULL: nothing */
    void (*fingerprint)(const hr_op *op, hr_hash *h); /* arguments; NULL: none */
    void (*free)(hr_op *op);                          /* frees what op owns, and op */
} hr_op_class;

/* An operator with its arguments: immutable, counted, embedded first in each operator's own struct. */
struct hr_op {
    const hr_op_class *cls;
    atomic_int refs;

    /* Traits of this one operator, set by its constructor. Pointers are borrowed from the operator. */
    bool one_to_one; /* init copies the class's; a map may promise it */
    bool idle;       /* MAP: it has nothing to do in a run, the reader does it: it only has a number there */
    bool in_order;   /* MAP: it remembers rows that came before: their number and order upstream stay as they are */
    bool saves;      /* MAP: it adds its state to markers (hr__task_save) */
    bool closes;     /* MAP: its stage has one more ticket, without rows, behind all others (hr__task_closes) */
    /* > 0: a function over batches of the source (batch_cutter.c): its tickets hold whole blocks of this many rows */
    int64_t block_rows;
    bool cuts;                  /* of its input only the rows [cut_begin, cut_end) go on */
    int64_t cut_begin, cut_end; /* cut_end < 0: to the last row */
    int64_t table_rows;         /* > 0: the same rows, in tables of exactly table_rows rows */
    bool drops_rest;            /* of those the last table, where it has fewer rows */
    hr_expr *predicate;         /* the rows for which it is true go on; NULL: the operator is no such filter */
    const char *made;           /* all that it does is to make this column; NULL: more than that */
    hr_blocks blocks;           /* that come in a random order, by blocks_seed */
    hr_shuffle_seed blocks_seed;
};
void hr__op_init(hr_op *op, const hr_op_class *cls);                     /* refs 1; no traits but the class's */
const char *hr__op_column_upstream(const hr_op *op, const char *column); /* see hr_op_class.column_upstream */
hr_op *hr__op_ref(hr_op *op);
void hr__op_unref(hr_op *op);

#endif
