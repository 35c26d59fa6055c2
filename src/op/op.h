/* op.h - tables to tables: what an operator is, and the operators there are.
 *
 * An operator does not know its neighbours, time itself, print, lock, or wait. The scheduler (exec/) calls it:
 *
 *   kind    task          push is called                         state lives in
 *   MAP     one a ticket  for different tickets at the same time  the task (per ticket), the thread slot, the run
 *   STREAM  one a run     serially, in canonical order            the task
 *   BLOCK   one a run     serially; keeps what it gets            the run (its pieces are read when the task is over)
 *
 *   start(run) { push(task, table)* finish(task) }* pieces(task) { read(run, piece) }* stop(run)
 *
 * What a BLOCK operator holds at its end comes out in *pieces*: the scheduler makes a ticket of each, reads several at the same time
 * and passes their tables on in the order of the pieces, behind what push and finish emitted. Their rows are new ones, numbered
 * through: coordinate (0, 0, 0, place in the whole output), whatever the pieces.
 *
 * A *front* is a map operator that another one wants to have run on the tickets of its input, in parallel, before it sees the tables
 * itself; the two share the run's state of the operator (hr_op_run.partner).
 *
 * Several inputs. IN_TURN: input 0 to its end, then input 1; nothing of an input is read before those in front of it have ended. An
 * operator may say that it begins with another one (first_input).
 * CHOSEN: the operator says which input it wants to see next (hr__task_want); the others wait with full windows. What comes out are
 * new rows, as of a BLOCK operator.
 *
 * A *ticket* is a piece of the input in canonical order (a row range of a fragment; one table of the stage before).
 * Input is borrowed. Output is emitted by hr__task_emit. Every emitted table has an origin; an operator that keeps rows keeps
 * their coordinates, one that makes new rows says from which (hr__origin_made).
 *
 * HR_PENDING. An operator whose result comes from elsewhere (a worker process) calls hr__task_suspend, hands the hr_resume to
 * whoever will complete it, and returns HR_PENDING from push or finish: the thread goes on with other work, the ticket is
 * parked. hr__resume, from any thread, brings it back: the scheduler then calls `resumed` on a pool thread.
 *
 * Markers. A position to resume from is a *marker*: "just before this ticket of this source", plus what each stream operator
 * remembered when it came by. Markers flow through the run between tables. A stream operator passes a marker on
 * when no row that came before it is still held back, with its state as text: restored with that state and fed with the rows
 * from the marker on, it emits exactly what it would have emitted after the marker. */
#ifndef HR_OP_H
#define HR_OP_H

#include "core/core.h"
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
    bool to_process;       /* what this operator emits is read by another process: allocate from `arena` */
    hr_arena *arena;       /* NULL: none */
    atomic_bool settled;   /* nothing depends any more on which ticket comes first: see hr__task_await_turn */
    void (*notify)(void *context); /* wakes the consumer (inline calls wait to be served by it) */
    void *notify_context;
};

/* op.c. What an operator may hold now: its allowance or, where the process has little left, a share of it that is fair to all
 * that hold rows, of all runs. */
int64_t hr__op_allowance(const hr_op_run *run);
/* About what a table should have at most that is made for a function or by it, in a run with this limit. */
int64_t hr__table_bytes_wanted(int64_t limit_bytes);
void hr__op_holds(int n); /* so many more, or fewer, may hold rows */

typedef enum hr_op_inputs { HR_INPUTS_ONE, HR_INPUTS_IN_TURN, HR_INPUTS_CHOSEN } hr_op_inputs;

/* The columns of an input that an operator needs: names borrowed from the operator, or from those that are wanted of it. */
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

typedef struct hr_op_class {
    const char *name;
    const char *doc;
    hr_op_kind kind;
    bool one_to_one; /* same rows, same order, same coordinates: limits and discards move above it */
    bool same_rows;  /* as many rows out as in, whatever their order: counts are known above it */
    bool
        new_rows; /* a map whose rows are numbered through, as a BLOCK operator's are (it stands behind one that did so) */
    bool filter_below; /* rows that are taken out of its output may as well be taken out of its input (a sort) */
    hr_op_inputs inputs;
    bool row_local; /* each output row depends on one input row only (fragments may be permuted above it) */
    /* Output schema for an input schema. *out NULL with HR_OK: known only when the first table came out. Any error is a user's. */
    hr_status (*schema)(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err);
    /* The same of an operator with several inputs, all known. */
    hr_status (*schema_of)(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err);
    /* What it needs of an input if `wanted` (n < 0: all) is wanted of its output. `out` is "none" when called. NULL: all. */
    hr_status (*needs)(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err);
    /* IN_TURN: the input to begin with; rows[i]: about how many rows input i has, -1: unknown. What comes out is the same, whichever it is.
     * NULL: 0. */
    int (*first_input)(const hr_op *op, const int64_t *rows);
    /* Rows of this input matter only beside rows of those that come before it which have the same values in so many columns, keys[0 ..),
     * borrowed. 0 or NULL: there is no such rule. */
    int (*partner_keys)(const hr_op *op, int input, const char *const **keys);
    /* In a run, when the inputs before it have ended: what is true of `column`, in which key k stands by now, for all rows that have a
     * partner. *out is new, NULL: nothing is known. */
    hr_status (*partner_filter)(const hr_op *op, const hr_op_run *run, int key, const char *column, hr_expr **out,
                                hr_error *err);
    /* first_input: that of the run. *out is new, NULL: none */
    hr_status (*front)(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err);
    hr_status (*start)(const hr_op *op, hr_op_run *run, hr_error *err); /* NULL: nothing to do */
    /* The run is ending early: complete all suspended tickets now, with HR_CANCELLED. May be called again, and
     * while pushes run. NULL: nothing is ever suspended. */
    void (*cancel)(const hr_op *op, hr_op_run *run);
    void (*stop)(const hr_op *op, hr_op_run *run); /* after the last task; always, if start succeeded */
    hr_status (*push)(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err);
    /* After hr__resume: may emit, suspend again (HR_PENDING), or fail. Results are where the completer put them. */
    hr_status (*resumed)(const hr_op *op, hr_task *task, hr_error *err);
    /* After hr__task_more: called when all that this operator emitted has gone through the operators behind it, before it
     * gets more input. May emit, suspend and ask for more again. NULL: hr__task_more is never called. */
    hr_status (*more)(const hr_op *op, hr_task *task, hr_error *err);
    /* The ticket's (MAP) or all input's (STREAM, BLOCK) end. NULL: nothing to do. */
    hr_status (*finish)(const hr_op *op, hr_task *task, hr_error *err);
    hr_status (*ended)(const hr_op *op, hr_task *task, int input,
                       hr_error *err); /* of several inputs: no more of this one */
    /* After finish: how many pieces there are. NULL: none. */
    hr_status (*pieces)(const hr_op *op, hr_task *task, int64_t *n, hr_error *err);
    /* The tables of a piece, read by one thread; several pieces at the same time. *estimate: bytes that one step may make, and what
     * the piece takes meanwhile, at first what a reader's step makes. */
    hr_status (*read)(const hr_op *op, hr_op_run *run, int64_t piece, const hr_mem *mem, hr_reader **out,
                      int64_t *estimate, hr_error *err);
    void (*task_clear)(const hr_op *op,
                       hr_task *task); /* frees *hr__task_state; runs always, also after errors. NULL: hr__free */
    void (*thread_clear)(const hr_op *op, hr_op_run *run, void *thread_state); /* NULL: none */
    /* STREAM: see Markers; NULL: they end here. `pass` by hr__task_pass now or, at latest, from a later push or finish. */
    hr_status (*marker)(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err);
    hr_status (*restore)(const hr_op *op, hr_task *task, const char *state, hr_error *err); /* before the first push */
    /* MAP: the same for one that adds its state to markers (hr__task_save). Before the first ticket. NULL: it adds none. */
    hr_status (*restore_run)(const hr_op *op, hr_op_run *run, const char *state, hr_error *err);
    /* MAP: what every marker that goes by has to say of the run, in `out`; nothing: no more than it has. state: what hr__task_save added,
     * NULL: nothing; it is replaced. NULL: it has nothing to say. */
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
    bool one_to_one; /* of this one: init copies the class's, constructors may set it (a map that promises it) */
    int64_t
        piece_rows; /* > 0: a function over pieces (pieces.c): its tickets must hold whole blocks of so many source rows */
    bool in_order; /* MAP: it remembers rows that came before: their number and order below it stay as they are */
    bool closes;   /* MAP: its stage has one more ticket, without rows, behind all others (hr__task_closes) */
};
void hr__op_init(hr_op *op, const hr_op_class *cls); /* refs 1 */
hr_op *hr__op_ref(hr_op *op);
void hr__op_unref(hr_op *op);

/* --- remembered_columns.c: what the first rows of a run said of its columns, for positions */

typedef struct hr_remembered {
    char *text; /* what positions say; NULL: nothing is known yet */
    char expected
        [18]; /* what the position said of too many columns: those that come first are to be these; "": nothing */
} hr_remembered;
void hr__remembered_clear(hr_remembered *m);
/* marks: of each column, NULL: none. HR_TYPE: others are expected. */
hr_status hr__remembered_set(hr_remembered *m, const hr_schema *s, const bool *marks, hr_error *err) HR_MUST_USE;
/* n bytes of what `text` was. *out and *marks (hr__free) are new; NULL: the columns are not known yet. HR_INVALID: it is damaged. */
hr_status hr__remembered_recall(hr_remembered *m, const char *text, int64_t n, hr_schema **out, bool **marks,
                                hr_error *err) HR_MUST_USE;

/* --- what an operator may do with its task (implemented by exec/task.c) */

hr_status hr__task_emit(hr_task *task, hr_table **takes,
                        hr_error *err) HR_MUST_USE; /* *takes becomes NULL, even on failure */
void hr__task_more(hr_task *task);                  /* there is more to emit of what was pushed: see `more` */
int hr__task_input(const hr_task *task);            /* of several inputs: the one that the pushed table is of */
void hr__task_want(hr_task *task, int input);       /* CHOSEN: the one to come next; one that has ended is none */
void hr__task_enough(hr_task *task);                /* no more input is wanted; upstream may stop */
void **hr__task_state(hr_task *task);               /* this operator's, of this task; NULL at first */
void **
hr__task_thread_state(hr_task *task); /* this operator's, of the calling pool thread in this run; NULL at first */
hr_op_run *hr__task_run(hr_task *task);
/* Of a serial call (push, ended, finish, pieces): fn(context, 0 .. n-1), in any order, on this thread and on those that have nothing else
 * to do; comes back when all are done, or with the error of one. task NULL: on this thread alone. */
typedef hr_status hr_part_fn(void *context, int64_t i, hr_error *err);
hr_status hr__task_share(hr_task *task, int64_t n, hr_part_fn *fn, void *context, hr_error *err) HR_MUST_USE;
const hr_mem *hr__task_mem(hr_task *task);    /* where output goes: the run's account, and its arena if to_process */
bool hr__task_cancelled(const hr_task *task); /* long loops look here */
/* Of the ticket: its first coordinate and number in its stage, canonical. */
hr_coord hr__task_begin(const hr_task *task);
int64_t hr__task_ordinal(const hr_task *task);
int64_t hr__task_turn(const hr_task *task); /* of the ticket, among those of its stage: lower ones are emitted first */
/* MAP, in push: the ticket has no more input for this operator. False: it may have. */
bool hr__task_last(const hr_task *task);
bool hr__task_closes(const hr_task *task); /* MAP: all rows of the run have come by this operator; see hr_op.closes */
/* MAP: a marker lies before the ticket's rows. The operator adds its state as of there by hr__task_save, before it emits
 * anything of the ticket. state NULL: it has none, and the marker goes no further. Borrowed. */
bool hr__task_marked(const hr_task *task);
void hr__task_save(hr_task *task, const char *state);
/* "rows 0 to 4095 of a.parquet, row group 3": where n rows from `begin` on came from. */
void hr__task_where(const hr_task *task, const hr_origin *o, hr_text *out);
void hr__task_pass(hr_task *task, hr_marker *takes, const char *state); /* STREAM only; state borrowed, NULL: none */
void hr__marker_drop(hr_marker *m); /* instead of passing it: a newer one says more. NULL is fine */

/* Whether all tickets of the stage before this one have given all they give. */
bool hr__task_is_first(const hr_task *task);
/* The ticket goes on when it is the first, or the operator's run is settled; then `resumed` is called. The operator returns HR_PENDING
 * next. MAP only, of a class with `resumed`. */
void hr__task_await_turn(hr_task *task);

/* Suspends the task: the operator must return HR_PENDING next. *out is new; complete it exactly once, by hr__resume. */
hr_status hr__task_suspend(hr_task *task, hr_resume **out, hr_error *err) HR_MUST_USE;
void hr__resume(hr_resume *takes, hr_status st,
                hr_error *moved); /* st != HR_OK: the ticket fails with it. Any thread, no locks held. */

/* --- the operators: each constructor checks its arguments; *out is new */

hr_status hr__op_project(const char *const *names, const char *const *new_names, int n, hr_op **out,
                         hr_error *err) HR_MUST_USE;
hr_status hr__op_limit(int64_t n_rows, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__op_number_rows(const char *name, hr_op **out, hr_error *err) HR_MUST_USE;
/* Tables of exactly n_rows; the state is {rows to skip of the open batch, ordinal of the next batch}. HR_BUDGET where one alone is
 * larger than the memory limit, unless it is a slice of one table. */
hr_status hr__op_rebatch(int64_t n_rows, bool drop_last, hr_op **out, hr_error *err) HR_MUST_USE;
/* The same as blocks, of which somebody behind makes smaller pieces: of any size. */
hr_status hr__op_rebatch_blocks(int64_t n_rows, hr_op **out, hr_error *err) HR_MUST_USE;
/* HR_BUDGET: rows that are to be one batch take more than the limit. `more`: and are not all of it. */
hr_status hr__batch_too_large(int64_t n_rows, int64_t n_bytes, int64_t limit, bool more, hr_error *err);
hr_status hr__op_map(const hr_map_function *fn, const hr_map_options *options, hr_op **out,
                     hr_error *err) HR_MUST_USE;                                               /* takes fn's context */
hr_status hr__op_filter(const hr_filter_function *fn, hr_op **out, hr_error *err) HR_MUST_USE; /* takes fn's context */
/* The rows for which e is true; all columns and computed ones (see headrace.h). Shared. HR_TYPE and HR_INVALID come from `schema`. */
hr_status hr__op_filter_expr(hr_expr *e, hr_op **out, hr_error *err) HR_MUST_USE;
/* The same, but only these columns go on, as far as there are such, in the input's order. Copies the names. */
hr_status hr__op_filter_giving(hr_expr *e, const char *const *names, int n, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__op_with_columns(const char *const *names, hr_expr *const *exprs, int n, hr_op **out,
                              hr_error *err) HR_MUST_USE;
/* One row for all rows with the same keys. `schema` of the input, NULL: not known yet. Groups come out in no order that is promised. */
hr_status hr__op_group(const hr_schema *schema, const char *const *keys, int n_keys, const hr_aggregate *aggs,
                       int n_aggs, hr_op **out, hr_error *err) HR_MUST_USE;
/* Frees the contexts of aggregates [begin, n) of a user's own, which nobody has taken over. */
void hr__aggregates_drop(const hr_aggregate *aggs, int begin, int n);
/* Inputs: the right side, then the left one. Schemas NULL: not known yet. What comes out may need hr__op_arrange behind it. */
hr_status hr__op_join(hr_schema *left, hr_schema *right, const hr_join_options *options, hr_op **out,
                      hr_error *err) HR_MUST_USE;
/* Tables whose last column HR_PLACE_COLUMN says the place of each row among all (their schema's metadata: how many places there are)
 * lose it and come in its order; those without pass as they are. */
#define HR_PLACE_COLUMN "\001place"
hr_status hr__op_arrange(hr_op **out, hr_error *err) HR_MUST_USE;
/* The aggregate functions there are, from 0: name and what it gives; NULL: no more. */
const char *hr__aggregate_at(int i, const char **doc);
/* All rows in order by n columns, stable; the last n_hidden columns only order and do not come out. Keys are copied. */
typedef struct hr_sort_column {
    const char *name;
    const char *text; /* what describe shows; NULL: the name */
    bool descending, nulls_first;
} hr_sort_column;
hr_status hr__op_sort(const hr_sort_column *keys, int n, int n_hidden, hr_op **out, hr_error *err) HR_MUST_USE;
/* The same sort or random_shuffle, of which only so many rows at the beginning are wanted: the others may not come. NULL: op is neither. */
hr_status hr__op_sort_first(const hr_op *op, int64_t n_rows, hr_op **out, hr_error *err) HR_MUST_USE;
/* Rows with equal keys into the same of n_parts tables, by their hash; `sorted`: each in the order of the keys. */
hr_status hr__op_hash_partition(const hr_sort_column *keys, int n, int64_t n_parts, bool sorted, hr_op **out,
                                hr_error *err) HR_MUST_USE;
/* The same rows in so many tables of about equal size. */
hr_status hr__op_repartition(int64_t n_blocks, hr_op **out, hr_error *err) HR_MUST_USE;
/* All rows in random order. */
typedef struct hr_shuffle_seed {
    bool own;  /* `seed`; else the run's */
    bool once; /* the same in each epoch */
    uint64_t seed;
} hr_shuffle_seed;
/* Of a run: the seed itself, and the epoch (0 for all where they are alike). op.c */
uint64_t hr__shuffle_seed_of(const hr_shuffle_seed *seed, const hr_op_run *run, uint64_t *epoch);
void hr__shuffle_fingerprint(const hr_shuffle_seed *seed, hr_hash *h);
hr_status hr__op_random_shuffle(const hr_shuffle_seed *seed, hr_op **out, hr_error *err) HR_MUST_USE;
/* Rows r with the same r / block_rows in a fragment of the source stay together and in order; such blocks come in random order. */
hr_status hr__op_shuffle_blocks(const hr_shuffle_seed *seed, int64_t block_rows, hr_op **out,
                                hr_error *err) HR_MUST_USE;
/* --- block_order.c */
hr_status hr__op_block_order(const hr_shuffle_seed *seed, hr_op **out, hr_error *err) HR_MUST_USE;
/* Contiguous own memory (hr_table.sole), in the run's arena if its output goes to another process; lists of equal length stay lists. */
hr_status hr__op_gather(hr_op **out, hr_error *err) HR_MUST_USE;
/* The same rows, cut as functions' pieces of n_rows are (blocks.c says where that is needed: above a limit or union that feeds a
 * function by pieces). */
hr_status hr__op_blocks(int64_t n_rows, hr_op **out, hr_error *err) HR_MUST_USE;
/* A function in worker processes or Python threads: rows to `calls`. */
typedef struct hr_calls hr_calls;
/* A function that may remember what it saw: a server makes an *instance* of it for each run. */
typedef struct hr_calls_class {
    bool instances; /* servers are told of the beginning and the end of runs */
    int ahead;      /* so many workers make their instance when the run begins, others at their first call */
    int at_a_time; /* > 0: there is one instance. Its calls begin in the order of the rows, so many beside each other */
    bool keeps;    /* what the instance holds are rows: a run whose instance is lost with its worker fails */
    bool finishes; /* its last call has the flag HR_CALL_LAST, when all rows were seen. keeps */
    bool saves;    /* its state is part of markers. keeps */
} hr_calls_class;
typedef struct hr_calls_options {
    const char *name;      /* "map_batches(augment)", for explain() and errors; copied */
    const char *qualified; /* "module.qualname", for the fingerprint; copied */
    int64_t
        batch_rows; /* 0: batches of up to `piece_rows` by source coordinate; < 0: each input table is one batch (after a rebatch) */
    int64_t piece_rows;  /* default 4,096 */
    int64_t piece_bytes; /* > 0: pieces are also cut where they pass so many bytes (per-row functions: 8 MiB) */
    bool one_to_one; /* as in hr_map_options; the result must have as many rows as the input (HR_CALLBACK otherwise) */
    bool
        filter; /* the result is one boolean column "keep" of the input's rows; what is kept are the input's own columns */
    int64_t max_parts;   /* > 1: so many batches may travel as one call, where calls are short */
    int64_t max_errored; /* batches that may fail in a run and are left out; < 0: any number */
    const char *const
        *group_keys; /* n_group_keys > 0: a batch is a group, rows that follow each other and agree in these columns
                                    * (copied); batch_rows and piece_rows do not count */
    int n_group_keys;
    const char *
        made; /* the function makes this column (copied), one_to_one, of `columns` alone: only those go to it, and all columns of
                       * the input go on, with this one behind them. NULL: it gets all, and its results go on as they are */
    const char *const *columns; /* n_columns (copied) */
    int n_columns;
    bool shows_doubles; /* integers with nulls are shown to the function as doubles, as NumPy and pandas have them */
    bool inline_calls;  /* served by the consumer's thread: notify it when a call is queued */
    hr_calls_class of_class;    /* zero: a function that remembers nothing */
    struct ArrowSchema *schema; /* declared output, of `made` that column's; taken; NULL: from the first table */
} hr_calls_options;
hr_status hr__op_calls(hr_calls *calls, const hr_calls_options *options, hr_op **out,
                       hr_error *err) HR_MUST_USE; /* shares calls */

/* --- union_columns.c: rows under the columns of `known`. `in`: of the input's, before the union; NULL: behind it. !settled: the columns of
 * the first table come first. Shares the schemas. */
hr_status hr__op_union_columns(hr_schema *in, hr_schema *known, bool settled, hr_op **out, hr_error *err) HR_MUST_USE;
/* All columns of a, then those that only b has, of types that hold the values of both. HR_TYPE names a column for which there is none. */
hr_status hr__schema_unify(const hr_schema *a, const hr_schema *b, hr_schema **out, hr_error *err) HR_MUST_USE;
/* --- sample.c. depth: how many samples stand below */
hr_status hr__op_sample(const hr_sample_options *options, int depth, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- slice.c: rows [begin, end); end INT64_MAX: to the last */
hr_status hr__op_slice(int64_t begin, int64_t end, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- side_by_side.c (zip): the columns of all inputs side by side, row by row. `schemas`: of the inputs, where known (borrowed, NULLs else). HR_INVALID at
 * the end of the run if they have not all as many rows. */
hr_status hr__op_zip(hr_schema *const *schemas, int n, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- mix.c: rows of the inputs, in the proportion of the weights (n; > 0). drop: an input that has ended is left out, until all have;
 * else the first end ends it. */
hr_status hr__op_mix(const double *weights, int n, bool drop, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- local_shuffle.c, local_gather.c: a local shuffle is both, one after the other. `seed` (borrowed) NULL: the run's. HR_INVALID: windows
 * of less than one row, or too large ones. */
hr_status hr__op_local_shuffle(int64_t window_rows, const uint64_t *seed, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__op_local_gather(hr_op **out, hr_error *err) HR_MUST_USE;
/* --- write_job.c, write_cut.c, write_encode.c, write_add.c: rows into files, in three steps (write.h). *out: the operators, in the
 * order in which rows pass them. `schema`: of the rows; NULL: that of the first table. */
hr_status hr__op_write(hr_schema *schema, const hr_format *format, const char *path, const hr_write_options *options,
                       hr_op *out[3], hr_error *err) HR_MUST_USE;
/* There are files where `path` says (a folder that holds any but hidden ones, or the file itself). */
hr_status hr__write_exists(const char *path, bool *out, hr_error *err) HR_MUST_USE;
hr_status hr__write_schema(hr_schema **out, hr_error *err) HR_MUST_USE; /* of the rows that a write gives */

/* What the plan's rules ask. */
int64_t hr__op_limit_rows(const hr_op *op); /* limit.c; -1: not a limit */
int hr__op_project_inputs(const hr_op *op,
                          const char *const **names); /* project.c; borrowed input names, -1: not a project */
void hr__op_project_outputs(const hr_op *op,
                            const char *const **names); /* of a project: as many, under their new names */
int hr__op_union_columns_in(const hr_op *op,
                            const hr_schema **in); /* how many columns it has before a union; -1: not that */
/* The same that gives only those of these columns that it has. */
hr_status hr__op_union_columns_giving(const hr_op *op, const char *const *names, int n, hr_op **out,
                                      hr_error *err) HR_MUST_USE;
int64_t hr__op_rebatch_rows(const hr_op *op, bool *drop_last);   /* rebatch.c; -1: not a rebatch */
const hr_shuffle_seed *hr__op_block_order_seed(const hr_op *op); /* block_order.c; NULL: another operator */
/* repartition.c. One whose blocks come in random order. *out NULL: `op` is another operator. */
hr_status hr__op_repartition_permuted(const hr_op *op, const hr_shuffle_seed *seed, hr_op **out,
                                      hr_error *err) HR_MUST_USE;
hr_shuffle_seed hr__op_local_shuffle_seed(const hr_op *op);            /* local_shuffle.c; of one */
bool hr__op_slice_rows(const hr_op *op, int64_t *begin, int64_t *end); /* slice.c; false: not a slice */
hr_expr *hr__op_filter_predicate(const hr_op *op); /* compute.c; borrowed, NULL: not a filter by expression */
int hr__op_computed(const hr_op *op, const char *const **names,
                    hr_expr *const **exprs); /* compute.c; -1: computes no columns */
const char *
hr__op_made_column(const hr_op *op); /* apply.c; borrowed: all it does is to make this column; NULL: more than that */

extern const hr_op_class *const hr__op_classes[]; /* the one list (op.c), ends with NULL */
extern const hr_op_class hr__project, hr__limit, hr__rebatch, hr__map, hr__filter, hr__gather, hr__blocks, hr__apply,
    hr__write_cut, hr__write_encode, hr__write_add;
extern const hr_op_class hr__filter_expr, hr__with_columns, hr__local_shuffle, hr__local_gather;
extern const hr_op_class hr__group, hr__join, hr__arrange;
extern const hr_op_class hr__number_rows, hr__slice, hr__zip, hr__mix, hr__sample, hr__block_order;
extern const hr_op_class hr__sort, hr__random_shuffle, hr__shuffle_blocks, hr__hash_partition, hr__repartition;

/* The arena in which a function's worker processes want their input; NULL: it has none. Borrowed from op. */
hr_arena *hr__op_input_arena(const hr_op *op);
/* States of stream operators are words "key=number": false if it is not there. ("ordinal" is a rebatch's next batch.) */
bool hr__state_int(const char *state, const char *key, int64_t *out);

/* --- what operators share with each other */

/* HR_TYPE, "a table<where> differs from the first one: ...", unless the schemas are equal. */
hr_status hr__same_schema(const hr_schema *found, const hr_schema *first, const char *where, hr_error *err) HR_MUST_USE;

/* A function's results, for map and apply: `name` is for errors, `schema` the declared one (NULL: none). */
typedef struct hr_function {
    const char *name;
    hr_schema *schema;
    bool one_to_one;
} hr_function;
/* The function failed with st: says so in `err` with its name; -> the status to pass on, never HR_PENDING. */
hr_status hr__function_failed(const char *name, hr_status st, hr_error *err);
/* A result as it goes on: checked, with its coordinates. n_before: rows of results of the same input before it. */
hr_status hr__function_result(const hr_function *f, const hr_table *in, int64_t n_before, hr_table *found,
                              hr_table **out, hr_error *err) HR_MUST_USE;
/* HR_CALLBACK if the function promised a row for a row and gave n_rows in all. */
hr_status hr__function_rows(const hr_function *f, const hr_table *in, int64_t n_rows, hr_error *err) HR_MUST_USE;
bool hr__table_in_arena(const hr_table *t, const hr_arena *arena); /* all of its buffers */
/* The rows with keep[i] != 0. *out is new, NULL if there are none. */
hr_status hr__table_keep(const hr_mem *mem, const hr_table *in, const uint8_t *keep, hr_table **out,
                         hr_error *err) HR_MUST_USE;

/* --- calls.c: a queue of function calls, filled by operators, served by worker processes, Python threads or the consumer.
 * It outlives runs, so that workers are started once for all epochs. Thread-safe. */

typedef struct hr_call hr_call;
hr_status hr__calls_new(const char *name, hr_calls **out, hr_error *err) HR_MUST_USE;
/* 16 characters that are others when the function gives other rows; until they are set, positions know nothing of its code. */
void hr__calls_set_code(hr_calls *c, const char *code);
void hr__calls_code(hr_calls *c, char out[17]);
bool hr__op_code(const hr_op *op,
                 char out[17]); /* of the function that op calls ('-': not known); false: it calls none */
hr_calls *hr__calls_ref(hr_calls *c);
void hr__calls_unref(hr_calls *c);
/* Server side, any thread without engine locks. HR_PENDING: none in timeout_ms; HR_CANCELLED: closed for good. *out is the
 * server's until hr__call_done or hr__call_pause. `server`: who asks; a call that it paused comes back to it alone. */
hr_status hr__calls_take(hr_calls *c, uint64_t server, int timeout_ms, hr_call **out, hr_error *err) HR_MUST_USE;
const hr_table *hr__call_input(const hr_call *call); /* borrowed */
/* The batches of a call: the function is called once for each, in this order. */
typedef struct hr_call_part {
    int64_t n_rows;
    int64_t ordinal; /* as hr_call_place.ordinal, of this batch */
    uint64_t random; /* likewise */
} hr_call_part;
int64_t hr__call_parts(const hr_call *call, const hr_call_part **out); /* how many; borrowed */
uint64_t hr__call_tag(const hr_call *call);                            /* names it as long as it lives; never 0 */
enum {
    HR_CALL_IN_ORDER = 1, /* a worker does not begin it while one before it is paused */
    HR_CALL_LAST = 2,     /* no batch: for what the instance has left */
    HR_CALL_SAVE = 4      /* before its first batch the instance's state is wanted (hr__call_save, hr__worker_save) */
};
/* What makes the call repeatable: seeds random generators. Canonical: (seed, epoch, operator, batch ordinal). */
typedef struct hr_call_place {
    uint64_t seed;
    int64_t epoch;
    int32_t op_index;
    int64_t ordinal;      /* of the batch, in canonical order after a rebatch; else of the piece within its fragment */
    hr_coord begin;       /* first source row */
    uint64_t random;      /* 64 bits made of all of these by hr__random_bits */
    int64_t limit_bytes;  /* of the run */
    uint64_t run;         /* names the operator's run among those of its hr_calls; from 1 */
    uint32_t flags;       /* HR_CALL_... */
    uint32_t state_bytes; /* of a state that a new instance begins with, in a CALL message behind the batches */
} hr_call_place;
void hr__call_place(const hr_call *call, hr_call_place *out);
/* Which batches a table of results is of: `part` and those behind it; the first n_counts have counts[i] rows each (borrowed; NULL:
 * all rows are of `part`). */
typedef struct hr_result_place {
    int64_t part;
    const int64_t *counts;
    int64_t n_counts;
} hr_result_place;
/* A table of results, in order. Takes it. `of` NULL: of the first batch. */
void hr__call_result(hr_call *call, hr_table *takes, const hr_result_place *of);
/* The same, and more will come: it goes on to whoever waits as soon as it is its turn. */
typedef enum hr_go { HR_GO_ON, HR_GO_PAUSE, HR_GO_AWAY } hr_go; /* wait until asked again; nobody wants any more */
hr_go hr__call_stream(hr_call *call, hr_table *takes, const hr_result_place *of);
/* After HR_GO_PAUSE (or when the server likes): takes the call, which comes back by hr__calls_take when what it gave was
 * collected, or never, if nobody wants it any more: see hr__calls_paused. */
void hr__call_pause(hr_call *takes);
bool hr__calls_paused(hr_calls *c, uint64_t tag); /* it is paused, or waits to go on */
void hr__call_done(hr_call *takes, hr_status st, hr_error *moved);
/* What the run's instance has to load before this call; NULL: nothing. Borrowed. */
const char *hr__call_state(const hr_call *call);
void hr__call_save(hr_call *call, const char *state); /* of HR_CALL_SAVE; borrowed. Never called: there is none */
void hr__call_begins(hr_call *call);                  /* its time counts from here: an instance was made first */
bool hr__calls_runs(hr_calls *c, uint64_t run);       /* the run has not ended: its instances are wanted */
/* A worker process at the other end of this socket (taken). `init` bytes (the pickled function) are sent first. `pid` only for
 * messages. The poller serves it from now on; if it dies, the calls it had fail with HR_PEER naming pid and function, and
 * calls with no worker left fail too. */
hr_status hr__calls_add_worker(hr_calls *c, int fd, int pid, const void *init, int64_t init_bytes,
                               hr_error *err) HR_MUST_USE;
int hr__calls_n_workers(hr_calls *c);
/* Tells one worker that has nothing to do to end. -> its pid; 0: none is idle. */
int hr__calls_end_idle(hr_calls *c);
int hr__calls_busy(hr_calls *c, int *pids, int most); /* pids of workers that run a call; -> how many */
int hr__calls_n_expected(hr_calls *c);
int hr__calls_n_waiting(hr_calls *c); /* queued, not yet taken */
/* How many calls a worker may have at a time (0: one, and one more where calls are short) and how often a call is done again whose
 * worker died (< 0: always). Before the first worker. */
void hr__calls_configure(hr_calls *c, int depth, int max_retries);
/* What the workers hold themselves, as whoever watches them measured: for stats. */
void hr__calls_measured(hr_calls *c, int64_t private_bytes);
/* Batches that failed and were left out since the last time; *first (new, or NULL) how the first of them did. */
int64_t hr__calls_errored(hr_calls *c, hr_error *first);
/* n more workers are being started: calls wait for them, though there may be none yet. Each hr__calls_add_worker that succeeds is one of them.
 * n < 0: so many will not come after all; if nobody is left, waiting calls fail with HR_PEER and `why` (borrowed; NULL: unknown). */
void hr__calls_expect(hr_calls *c, int n, const hr_error *why);
/* Asked when a worker was lost, for how: fills text ("killed by signal 9") and returns true, or false: not known yet, ask again,
 * in 100 ms, for half a second. Called on the poller's thread, without locks: it must not wait for anything, a GIL included. */
typedef bool hr_calls_lost_fn(void *context, int pid, char *text, size_t cap);
void hr__calls_set_lost(hr_calls *c, hr_calls_lost_fn *fn, void *context); /* context lives as long as c */
/* Where its workers want their input: made when first asked for, NULL: no workers, or no memory. Borrowed. */
hr_arena *hr__calls_arena(hr_calls *c);
void hr__calls_close(hr_calls *c); /* workers are told to end, waiting calls fail HR_CANCELLED, takers wake */

/* The worker process's side: a loop over one link, used by the Python worker. One thread at a time. */
typedef struct hr_worker hr_worker;
typedef enum hr_work_kind {
    HR_WORK_END,
    HR_WORK_CALL,
    HR_WORK_MORE,
    HR_WORK_DROP,
    HR_WORK_RUN,    /* run `tag` begins: its instance may be made now */
    HR_WORK_RUN_END /* it has ended: the instance goes */
} hr_work_kind;
typedef struct hr_work {
    hr_work_kind
        kind; /* CALL: a new one. MORE: `tag` may go on. DROP: of `tag`, which was paused, nobody wants more: be done with it */
    uint64_t tag;
    hr_table *table; /* CALL: new */
    hr_call_place place;
    hr_call_part *parts; /* CALL: new (hr__free) */
    int64_t n_parts;
    char *state; /* CALL: as hr__call_state says; new (hr__free) */
} hr_work;
hr_status hr__worker_open(int fd, hr_worker **out, hr_error *err) HR_MUST_USE;
int hr__worker_fd(const hr_worker *w); /* to poll for reading */
/* The init bytes, first; then calls. timeout_ms slices let Python check signals: HR_PENDING. Several calls may be open at a time. */
hr_status hr__worker_init(hr_worker *w, int timeout_ms, void **bytes, int64_t *n_bytes, hr_error *err) HR_MUST_USE;
hr_status hr__worker_next(hr_worker *w, int timeout_ms, hr_work *out, hr_error *err) HR_MUST_USE;
const hr_mem *hr__worker_mem(hr_worker *w); /* results built here travel without a copy */
/* As hr__call_result and hr__call_stream. HR_GO_PAUSE: the driver knows, MORE or DROP will come. `go` NULL: no more will come. */
hr_status hr__worker_result(hr_worker *w, uint64_t tag, const hr_table *t, const hr_result_place *of, hr_go *go,
                            hr_error *err) HR_MUST_USE;
hr_status hr__worker_save(hr_worker *w, uint64_t tag, const char *state, hr_error *err) HR_MUST_USE;
hr_status hr__worker_done(hr_worker *w, uint64_t tag, hr_status st, const hr_error *what, hr_error *err) HR_MUST_USE;
void hr__worker_close(hr_worker *w);

/* --- pieces.c: function batches of source-defined size, shared by map and calls.
 * Collects a ticket's tables and hands out pieces whose rows lie in one block [k*rows, (k+1)*rows) of their fragment, so that what a
 * function sees never depends on how readers cut their tables. */
typedef struct hr_pieces hr_pieces;
hr_status hr__pieces_new(int64_t rows, int64_t bytes, const hr_mem *mem, hr_pieces **out, hr_error *err) HR_MUST_USE;
void hr__pieces_refuse(hr_pieces *p, int64_t most_bytes); /* one copied together that is larger is HR_BUDGET */
void hr__pieces_free(hr_pieces *p);
hr_status hr__pieces_add(hr_pieces *p, const hr_table *t, hr_error *err) HR_MUST_USE;
/* *out NULL: none complete. `last`: the ticket's end, what is left is complete. *ordinal: the block's number, and from bit 40 on
 * that of the piece in its block. */
hr_status hr__pieces_next(hr_pieces *p, bool last, hr_table **out, int64_t *ordinal, hr_error *err) HR_MUST_USE;

/* --- groups.c: rows that follow each other and agree in the key columns (nulls agree, NaNs agree, 0.0 and -0.0 do), however
 * tables are cut. Whole groups are handed out together, about `rows` rows or `n_groups` groups at a time. */
typedef struct hr_groups hr_groups;
hr_status hr__groups_new(const char *const *keys, int n_keys, int64_t rows, int64_t bytes, int64_t n_groups,
                         hr_account *account, hr_groups **out,
                         hr_error *err) HR_MUST_USE; /* borrows keys as long as it lives */
void hr__groups_free(hr_groups *g);
hr_status hr__groups_add(hr_groups *g, const hr_table *t, hr_error *err) HR_MUST_USE; /* HR_INVALID: no such column */
/* *out NULL: no complete ones. `last`: the end, what is left is complete. At most `most` groups, 0: all up to the cut. *parts is new
 * (hr__free): n groups; ordinals count up. */
extern const hr_op_class hr__whole_groups; /* whole_groups.c: no table of it ends in the middle of a group */
hr_status hr__op_whole_groups(const char *const *keys, int n_keys, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__groups_next(hr_groups *g, bool last, int64_t most, hr_table **out, hr_call_part **parts, int64_t *n,
                          hr_error *err) HR_MUST_USE;

#endif
