/* exec.h - runs a plan: plans, rules, the scheduler, markers, counters.
 *
 * A plan is an immutable tree. A run cuts it into *stages*: a leaf reads a scan, each stage does its map operators on many
 * tickets at once and then, serially and in canonical order, the stream operator at its end, whose tables are the next
 * stage's tickets. See sched.c. */
#ifndef HR_EXEC_H
#define HR_EXEC_H

#include "op/op.h"

/* --- plan.c */
/* Of a scan: rows are wanted only if their value of this column is key `key` of a row that operator `op`, above, has by then. */
typedef struct hr_partner {
    const hr_op *op; /* the plan's */
    int key;
    char *column;
} hr_partner;
#define HR_MAX_PARTNERS 8
typedef enum hr_plan_kind { HR_PLAN_SCAN, HR_PLAN_OP, HR_PLAN_UNION } hr_plan_kind;
struct hr_plan {
    atomic_int refs;
    hr_plan_kind kind;
    hr_scan *scan;         /* SCAN */
    hr_projection columns; /* SCAN, set by rules: what is read (n < 0: all); names owned */
    int64_t limit_rows;    /* SCAN, set by rules: at most so many rows are needed from it (< 0: all) */
    bool random_blocks; /* SCAN, set by rules: its files, and the fragments of each, in a random order, by block_seed */
    hr_shuffle_seed block_seed;
    int64_t
        skip_rows; /* SCAN, set by rules: so many at its beginning are not needed, as far as it can tell without reading */
    hr_expr *filter; /* SCAN, set by rules: rows for which it is not true are not needed (NULL: all are) */
    hr_expr
        *images; /* SCAN, set by rules: what its image column is to be made of, image functions of it (NULL: nothing) */
    hr_partner partners[HR_MAX_PARTNERS]; /* SCAN, set by rules: for such rows alone */
    int n_partners;
    hr_op *op;       /* OP */
    int first_input; /* of several that come in turn, set by rules: the one to begin with */
    hr_plan **inputs;
    int n_inputs;
    hr_mutex lock;     /* guards schema */
    hr_schema *schema; /* NULL: not known yet */
    bool schema_late;  /* known only when a table came out */
};
hr_status hr__plan_scan(hr_scan *scan, hr_plan **out, hr_error *err) HR_MUST_USE; /* shares */
/* hr_plan_range in blocks (hr__scan_new_range). */
hr_status hr__plan_range(int64_t n, int64_t n_blocks, const char *name, hr_plan **out, hr_error *err) HR_MUST_USE;
/* Checks the operator against the input's schema where that is known without running a function. Shares in; takes op, even on failure. */
hr_status hr__plan_op(hr_plan *in, hr_op *op, hr_plan **out, hr_error *err) HR_MUST_USE;
/* The same for an operator of several inputs. */
hr_status hr__plan_op_n(hr_plan *const *ins, int n, hr_op *op, hr_plan **out, hr_error *err) HR_MUST_USE;
/* A node like `p` (scan or operator shared) over other inputs (shared); without p's rules. */
hr_status hr__plan_like(hr_plan *p, hr_plan *const *inputs, hr_plan **out, hr_error *err) HR_MUST_USE;
/* The schema if it is known without running functions; opens the first file if need be. *out NULL: late. */
hr_status hr__plan_schema_early(hr_plan *p, hr_schema **out, hr_error *err) HR_MUST_USE;
/* The schema, running the plan for its first table if need be. */
hr_status hr__plan_schema(hr_plan *p, hr_schema **out, hr_error *err) HR_MUST_USE;
void hr__plan_learn_schema(hr_plan *p, hr_schema *s); /* a run saw the first table of `p` */
/* image_rule.c: of a node that computes columns, of whose output `columns` are wanted (n < 0: all): image functions on a scan's
 * images that nobody else sees are the reader's. *images: those, of the scan's column; *op: what is left to compute. NULL: nothing
 * is to be done; else both are new. */
hr_status hr__image_rule(const hr_plan *p, const char *const *columns, int n, hr_expr **images, hr_op **op,
                         hr_error *err) HR_MUST_USE;
/* rules.c: whether one of n names is that. */
bool hr__has_name(const char *const *names, int n, const char *name);
/* rules.c: projection, filter, limit and steps on images into the scan. *out is new. */
hr_status hr__plan_rewrite(hr_plan *p, hr_plan **out, hr_error *err) HR_MUST_USE;
/* plan.c: nodes and arguments, without what is read, as 32 hex digits. */
void hr__plan_digest(const hr_plan *p, char out[33]);

/* --- inputs.c: what a plan reads, as a position keeps it */
#define HR_INPUT_GROUPS 32
#define HR_CODE_DIGITS 16
#define HR_MAX_CODES 32
typedef struct hr_inputs {
    int64_t n;             /* files */
    uint64_t names, sizes; /* of all files */
    uint64_t memory;       /* of tables in memory; 0: there are none */
    struct {
        uint64_t times, contents; /* times: with sizes. contents 0: not known */
    } groups[HR_INPUT_GROUPS];    /* the first min(n, HR_INPUT_GROUPS), of about as many files each */
} hr_inputs;
/* contents: also hashes of what stands in files and tables, which are read for that unless they were before. */
hr_status hr__inputs_of(hr_plan *p, bool contents, hr_inputs *out, hr_error *err) HR_MUST_USE;
/* HR_MISMATCH says what differs. moved: neither names nor times of files count, and contents only as far as they are known. */
hr_status hr__inputs_check(hr_plan *p, const hr_inputs *saved, bool moved, hr_error *err) HR_MUST_USE;
/* What is known of the code of the plan's functions, HR_CODE_DIGITS characters each; '-': nothing. */
void hr__plan_code(const hr_plan *p, char out[HR_MAX_CODES * HR_CODE_DIGITS + 1]);
/* *differs: names of functions whose code is another one, ", " between; new (hr__free), NULL: none is. */
hr_status hr__plan_code_check(const hr_plan *p, const char *saved, char **differs, hr_error *err) HR_MUST_USE;

/* --- marker.c: positions */
struct hr_marker {
    hr_coord at; /* the first row that comes after; its source instance, file, fragment, row */
    int n_states, cap_states;
    struct {
        int op_index;
        char *text;
    } *states;
};
hr_status hr__marker_new(hr_coord at, hr_marker **out, hr_error *err) HR_MUST_USE;
hr_status hr__marker_copy(const hr_marker *m, hr_marker **out, hr_error *err) HR_MUST_USE;
/* Adds what operator `op_index` remembered (n bytes of text; NULL: nothing, but it was there). Borrows. */
hr_status hr__marker_add(hr_marker *m, int op_index, const char *text, int64_t n, hr_error *err) HR_MUST_USE;
/* Adds it, or puts it in the place of what the operator added before. */
hr_status hr__marker_set(hr_marker *m, int op_index, const char *text, hr_error *err) HR_MUST_USE;
const char *hr__marker_state(const hr_marker *m, int op_index); /* borrowed; NULL: the marker did not come by it */
/* {"v":2,"epoch":0,"plan":"<32 hex>","at":[instance,file,fragment,row],"ops":{"2":"..."},"discard":1024,"extra":{...},
 * "code":"...","files":3,"names":"<16 hex>","sizes":"...","memory":"...","groups":"...","sum":"<16 hex, of all before>"} */
typedef struct hr_position {
    int64_t epoch;
    uint64_t seed;
    char plan[33]; /* nodes and arguments: hr__plan_digest */
    bool whole;    /* it has inputs and code; without them it is a position of this process, to be made whole */
    hr_inputs inputs;
    char code[HR_MAX_CODES * HR_CODE_DIGITS + 1];
    hr_marker *marker;    /* NULL: from the start */
    bool other_code;      /* compared with a plan: some of its functions are others than those of `code` */
    int64_t discard_rows; /* of the run's output, after the marker */
    bool at_end;          /* the epoch was finished */
    char extra[512];      /* the feed's own, a JSON object or empty (split: step) */
} hr_position;
hr_status hr__position_print(const hr_position *p, char **out, hr_error *err) HR_MUST_USE;
/* HR_INVALID: it is none, was changed or cut, or another version's. */
hr_status hr__position_parse(const char *text, hr_position *out, hr_error *err) HR_MUST_USE;
/* Adds what the plan reads (hr__inputs_of, with contents) and runs. */
void hr__position_make_whole(const hr_plan *plan, const hr_inputs *inputs, hr_position *p);
uint64_t hr__position_sum(const char *text, int64_t n); /* what ends a position's text of n bytes */
void hr__position_clear(hr_position *p);

/* --- run.c, sched.c: one run of a plan */
typedef struct hr_run hr_run;
typedef struct hr_run_options {
    int64_t epoch;
    uint64_t seed;
    bool any_order;
    int num_threads;       /* 0: all */
    int64_t memory_limit;  /* 0: the process's */
    int prefetch;          /* tables wanted in the output queue */
    bool careful;          /* begins with one piece at a time: perhaps little will be taken */
    const hr_marker *from; /* borrowed; NULL: the start */
    bool other_code;       /* `from` was saved with other functions, or other code of theirs */
    hr_arena *
        arena; /* non-NULL: what comes out is read by another process (hr__op_gather as the last operator writes there) */
    const char *trace_path;
    void (*ready)(
        void *context); /* a table, the end, an error or an inline call waits; called without locks; NULL: none */
    void *ready_context;
} hr_run_options;
hr_status hr__run_start(hr_plan *p, const hr_run_options *options, hr_run **out,
                        hr_error *err) HR_MUST_USE; /* rewrites p first */
/* *out NULL with HR_OK: the end. HR_PENDING: nothing within timeout_ms (< 0: no limit; 0: do not wait), or an inline call waits to
 * be served. *marker (may be NULL; new) is the newest marker that lies before *out. */
hr_status hr__run_next(hr_run *r, int timeout_ms, hr_table **out, hr_marker **marker, hr_error *err) HR_MUST_USE;
hr_status hr__run_stats(hr_run *r, hr_text *out, hr_error *err) HR_MUST_USE; /* JSON */
void hr__run_cancel(hr_run *r); /* wakes everybody; hr__run_next gives HR_CANCELLED */
void hr__run_close(hr_run *r);  /* waits for running tasks, forgets suspended ones; NULL is fine */

/* Counters that tests and stats read. */
typedef struct hr_run_counts {
    int64_t files_opened, fragments_read, rows_read, tables_out, rows_out, tickets;
    int64_t fragments_skipped, rows_skipped, pages_skipped, bloom_hits; /* by a filter in the reader */
    int64_t bad_rows; /* left out by the reader, as on_error="skip" asks */
} hr_run_counts;
void hr__run_counts(hr_run *r, hr_run_counts *out);

#endif
