/* expr.h - expressions over columns: trees that are built without types, bound to a schema once, evaluated by column.
 *
 *   hr_expr   an immutable, counted tree: column by name, literal, call of a named function with arguments and options.
 *             Built by the C API and Python, printed by explain(), part of a plan's fingerprint.
 *   hr_bound  the same for one schema: names are resolved, types and casts are fixed, constants folded, equal parts
 *             computed once. An error here (unknown column, wrong type) is the user's and is raised where the plan is
 *             made.
 *   eval      a table in, an array out. One bound expression serves many threads.
 *
 * Functions live in const tables, one table a file (fn_*.c), listed in expr.c. Nulls: a function of a null is null, but
 * for the boolean ones (SQL's three-valued logic), is_null, is_in and what says otherwise. Integer overflow is an error
 * naming the operator and the row; division by zero is null for integers and IEEE for floats. NaN is unequal to all,
 * itself too.
 *
 * Literals that were plain numbers (hr_expr_int, hr_expr_double) are *weak*: they take the type of what they are used
 * with, where it holds their value, so that float32 * 2.0 is float32. Other literals have the type that they were
 * given.
 *
 * Push-down: a reader that knows something of a range of rows (statistics, an index, a bloom filter) asks
 * hr__expr_prune() whether a predicate can be true there. */
#ifndef HR_EXPR_H
#define HR_EXPR_H

#include "codec/codec.h"
#include "image/image_chain.h"
#include "data/data.h"
#include "io/io.h"

typedef enum hr_expr_kind { HR_EXPR_COLUMN, HR_EXPR_LITERAL, HR_EXPR_CALL } hr_expr_kind;
typedef struct hr_expr_function hr_expr_function;
typedef struct hr_bound hr_bound;

struct hr_expr {
    atomic_int refs;
    hr_expr_kind kind;
    char *name;                       /* COLUMN */
    hr_array *value;                  /* LITERAL: one row */
    const hr_expr_function *function; /* CALL */
    hr_expr **args;                   /* n_args */
    int n_args;
    char **settings; /* "name=value", n_settings, by the function's option table; checked when built */
    int n_settings;
    void *options; /* of the function, parsed; NULL: it has none */
    bool weak;     /* LITERAL: a plain number */
    int depth;     /* 1: no arguments; bounded, so that whoever walks a tree may recurse */
    int64_t size;  /* nodes, counted as a tree; bounded */
};

/* What a call's evaluation may use. */
typedef struct hr_eval {
    const hr_mem *mem;       /* where the result goes */
    int64_t n_rows;          /* of every argument and of the result */
    const hr_origin *origin; /* of the rows, for what is random by coordinate; NULL: unknown */
    uint64_t seed;           /* of the run */
    int64_t epoch;
    int op_index; /* of the operator: enters seeds */
} hr_eval;

/* A call being bound. The function's bind sets `type` (a new reference) and may set `state`; it may ask for an input to
 * be cast, by setting casts[i]; it may also replace `inputs` (and lower n_inputs): a function that swallows its
 * argument's own call (image operators fuse so) takes that call's arguments instead. Then it is bound once more, from a
 * clean call, with these inputs and their types, until it leaves them as they are. */
typedef struct hr_bound_call {
    const hr_expr *expr;
    int n_inputs;
    const hr_expr **inputs; /* what is evaluated for it: at first expr->args; hr__alloc'ed, owned by the binder */
    hr_type **input_types;  /* known when bind is called, of all n_inputs; after it with the casts applied; borrowed */
    const hr_array **constants; /* of inputs that do not depend on rows: one row, of input_types[i]; else NULL */
    bool *weak;                 /* such an input is a plain number (see above) */
    hr_type **casts; /* set by bind: the input as this type, by a safe cast (new reference); NULL: as it is */
    const hr_schema *schema;
    hr_type *type;
    void *state; /* the function's own, freed by state_free */
} hr_bound_call;

/* What a value can be in some range of rows, for push-down. Never narrower than the truth. */
enum { HR_CAN_FALSE = 1, HR_CAN_NULL = 2, HR_CAN_TRUE = 4, HR_CAN_ANY = 7 };
typedef struct hr_range {
    unsigned truth;         /* of a boolean: bits of HR_CAN_ */
    bool can_null, can_nan; /* of others */
    bool can_value;         /* neither null nor NaN */
    hr_array *least, *most; /* bounds of the values that are neither; one row each, owned; NULL: not known */
    const char *column;     /* it is this column as it stands, NULL: it is not */
} hr_range;
struct hr_pruner;

struct hr_expr_function {
    const char *name;   /* "add", "is_in", "image_resize" */
    const char *symbol; /* for printing as an infix operator, NULL: name(args) */
    const char *doc;
    int min_args, max_args;   /* max < 0: any number */
    const hr_option *options; /* NULL: none */
    size_t options_bytes;
    bool
        /* depends on the row's coordinate: never folded, never merged with an equal one, never pushed down */
        row_random;
    bool takes_objects;   /* an input may be a column of Python objects: only whether they are null is looked at */
    bool takes_constants; /* eval gets inputs that are constants as one row; else they are expanded to n_rows */
    /* Checks argument types, sets the result's. NULL bind is not allowed. Errors are the user's: HR_TYPE,
     * HR_INVALID. */
    hr_status (*bind)(hr_bound_call *call, hr_error *err);
    /* args[n_inputs], each n_rows long, constants expanded. *out is new, of call->type. An error should name the
     * row. */
    hr_status (*eval)(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                      hr_error *err);
    void (*state_free)(void *state); /* NULL: hr__free */
    /* What it gives for inputs in these ranges; `out` is "anything" when called. NULL: anything. No error: it leaves
     * out as it is. */
    void (*range)(const hr_bound_call *call, const struct hr_pruner *p, const hr_range *inputs, hr_range *out);
};

extern const hr_expr_function *const hr__expr_tables[]; /* tables of functions, each ends with a NULL name; NULL ends */
const hr_expr_function *hr__expr_function(const char *name); /* NULL: none */

/* The columns an expression reads, each once, in order of first use; borrowed names. *names is new (hr__free). */
hr_status hr__expr_columns(const hr_expr *e, const char ***names, int *n, hr_error *err) HR_MUST_USE;
int64_t hr__expr_reads(const hr_expr *e, const char *column); /* how often e reads the column */
void hr__expr_print(const hr_expr *e, hr_text *out);          /* "(col('x') > 3) & is_null(col('y'))" */
void hr__expr_fingerprint(const hr_expr *e, hr_hash *h);
bool hr__expr_equal(const hr_expr *a, const hr_expr *b);

bool hr__expr_row_random(const hr_expr *e); /* it or a part of it */
hr_status hr__expr_value(hr_array *takes, bool weak, hr_expr **out,
                         hr_error *err) HR_MUST_USE; /* a literal, of one row */
/* The tree with columns under other names: names[i] becomes new_names[i], others stay. *out is new. */
hr_status hr__expr_rename(hr_expr *e, const char *const *names, const char *const *new_names, int n, hr_expr **out,
                          hr_error *err) HR_MUST_USE;
/* The tree with `with` where `part`, one of its nodes, stands. Shares both. *out is new. */
hr_status hr__expr_replace(hr_expr *e, const hr_expr *part, hr_expr *with, hr_expr **out, hr_error *err) HR_MUST_USE;
/* Calls of image functions on each other, and in the end on a column: their steps, and its name (borrowed). false: it
 * is something else. */
bool hr__expr_image_steps(const hr_expr *e, hr_image_chain *out, const char **column);
/* a & b; either may be NULL. Shares both. *out is new, NULL if both are. */
hr_status hr__expr_and(hr_expr *a, hr_expr *b, hr_expr **out, hr_error *err) HR_MUST_USE;
/* Calls fn for each of the terms that e is the conjunction of, left to right. */
hr_status hr__expr_each_term(hr_expr *e, hr_status (*fn)(void *context, hr_expr *term, hr_error *err), void *context,
                             hr_error *err) HR_MUST_USE;

/* Shares e and schema. */
hr_status hr__expr_bind(hr_expr *e, hr_schema *schema, hr_bound **out, hr_error *err) HR_MUST_USE;
/* Several that are evaluated together: what they share is computed once. */
hr_status hr__exprs_bind(hr_expr *const *es, int n, hr_schema *schema, hr_bound **out, hr_error *err) HR_MUST_USE;
/* For readers: of a pushed-down filter the terms that can be bound to a file's schema, as one predicate; *out NULL:
 * there are none (columns that the file does not have, other types). Fails only for memory. */
hr_status hr__expr_bind_filter(hr_expr *filter, hr_schema *schema, hr_bound **out, hr_error *err) HR_MUST_USE;
void hr__bound_free(hr_bound *b);           /* NULL is fine */
hr_type *hr__bound_type(const hr_bound *b); /* borrowed; of several, the first */
hr_type *hr__bound_type_of(const hr_bound *b, int i);
/* The columns that are read, as positions in the bound schema, ascending; borrowed. -> how many. */
int hr__bound_columns(const hr_bound *b, const int **columns);
/* *out is new. A table of any schema equal to the bound one. `how->n_rows` and `origin` are taken from the table. */
hr_status hr__bound_eval(const hr_bound *b, const hr_eval *how, const hr_table *t, hr_array **out,
                         hr_error *err) HR_MUST_USE;
/* All that were bound together, out[0 .. n); all new, or all NULL on failure. */
hr_status hr__bound_eval_all(const hr_bound *b, const hr_eval *how, const hr_table *t, hr_array **out,
                             hr_error *err) HR_MUST_USE;
/* A predicate: keep[i] = 1 where it is true (not where null). HR_TYPE unless boolean. -> number kept in *n_kept. */
hr_status hr__bound_keep(const hr_bound *b, const hr_eval *how, const hr_table *t, uint8_t *keep, int64_t *n_kept,
                         hr_error *err) HR_MUST_USE;

/* --- push-down */

/* What is known of one column in a range of rows. */
typedef struct hr_bounds {
    const hr_array *least, *most; /* one row each, of the column's type; NULL: not known. May be wider than the truth */
    int64_t null_count;           /* -1: not known */
    int64_t n_rows;               /* of the range */
    bool may_have_nan;            /* floats: least and most say nothing of NaN */
} hr_bounds;
typedef struct hr_pruner {
    void *context;
    /* false: nothing is known. `column` is a top-level name; what is put into *out stays valid until the next call. */
    bool (*bounds)(void *context, const char *column, hr_bounds *out);
    /* Bloom filter: false only if no row of the range has this value (one row, of the column's type). NULL: cannot
     * tell. */
    bool (*may_contain)(void *context, const char *column, const hr_array *value);
} hr_pruner;
typedef enum hr_truth { HR_TRUTH_NEVER, HR_TRUTH_MAYBE, HR_TRUTH_ALWAYS } hr_truth;
/* Whether the predicate can hold for a row of the range, or holds for all. MAYBE if in doubt. `b`: bound to the file's
 * schema. */
hr_truth hr__bound_prune(const hr_bound *b, const hr_pruner *p);

#endif
