/* expr.h - expressions over columns: trees that are built without types, bound to a schema once, evaluated by column.
 *
 *   hr_expr   an immutable, counted tree: column by name, literal, call of a named function with arguments and options.
 *             Built by the C API and Python, printed by explain(), part of a plan's fingerprint.
 *   hr_bound  the same for one schema: names are resolved, types and casts are fixed, constants folded, equal parts
 *             computed once. An error here (unknown column, wrong type) is the user's and appears when the plan is
 *             made. eval a table in, an array out. One bound expression serves many threads.
 *
 * Functions live in const tables, one table a file (fn_*.c), listed in expr.c. Nulls: a function of a null is null,
 * except the boolean ones (SQL's three-valued logic), is_null, is_in and others whose text states it. Integer overflow
 * is an error naming the operator and the row; division by zero is null for integers and IEEE for floats. NaN is
 * unequal to everything, itself too.
 *
 * Literals of plain numbers (hr_expr_int, hr_expr_double) are *weak*: they take the type of the other operand if it
 * holds their value, so that float32 * 2.0 is float32. Other literals keep their own type.
 *
 * Push-down: a reader that has statistics, an index or a bloom filter of a range of rows calls hr__expr_prune(), which
 * decides whether a predicate can be true there. */
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
    void *options; /* the function's options, parsed; NULL: it has none */
    bool weak;     /* LITERAL: a plain number */
    int depth;     /* 1: no arguments; bounded, so that code may recurse over a tree */
    int64_t size;  /* nodes of the tree, shared ones counted each time; bounded */
};

/* The context of an evaluation. */
typedef struct hr_eval {
    const hr_mem *mem;       /* allocates the result */
    int64_t n_rows;          /* of every argument and of the result */
    const hr_origin *origin; /* of the rows, for random functions; NULL: unknown */
    uint64_t seed;           /* of the run */
    int64_t epoch;
    int op_index; /* of the operator: enters seeds */
    /* Names a row of `origin` for people ("row 3 of a.csv"); NULL: by numbers. */
    void (*name_row)(const void *context, hr_coord row, char *out, size_t cap);
    const void *context;
} hr_eval;

/* A call while it is bound. The function's bind sets `type` (a new reference) and may set `state`. It may set casts[i]
 * to have input i cast. It may also replace `inputs` (and lower n_inputs): a function that absorbs its argument's call
 * (image functions fuse this way) takes that call's arguments instead. The binder then binds it again, from a clean
 * call with these inputs and their types, until it leaves the inputs unchanged. */
typedef struct hr_bound_call {
    const hr_expr *expr;
    int n_inputs;
    const hr_expr **inputs;     /* the evaluated inputs: at first expr->args; hr__alloc'ed, owned by the binder */
    hr_type **input_types;      /* of all n_inputs, set before bind; after it with the casts applied; borrowed */
    const hr_array **constants; /* one row, of input_types[i], if the input does not depend on rows; else NULL */
    bool *weak;                 /* that input is a plain number (see above) */
    hr_type **casts; /* set by bind: the type to which the input is cast, safely (new reference); NULL: no cast */
    const hr_schema *schema;
    hr_type *type;
    void *state; /* the function's own, freed by state_free */
} hr_bound_call;

/* The possible values of an expression in a range of rows, for push-down. Never narrower than the truth. */
enum { HR_CAN_FALSE = 1, HR_CAN_NULL = 2, HR_CAN_TRUE = 4, HR_CAN_ANY = 7 };
typedef struct hr_range {
    unsigned truth;         /* of a boolean: bits of HR_CAN_ */
    bool can_null, can_nan; /* of others */
    bool can_value;         /* can be a value that is neither null nor NaN */
    hr_array *least, *most; /* bounds of those values; one row each, owned; NULL: unknown */
    const char *column;     /* the expression is this column itself; NULL: it is not */
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
        /* depends on the row's coordinate: never folded, never merged with an equal call, never pushed down */
        row_random;
    bool (*by_epoch)(const void *options); /* whether it has other values in each epoch; NULL: never */
    bool takes_objects;   /* an input may be a column of Python objects, of which the function reads only the nulls */
    bool takes_constants; /* eval gets constant inputs as one row; else they are expanded to n_rows */
    /* Checks the types of the arguments, sets that of the result. Never NULL. Errors are the user's: HR_TYPE,
     * HR_INVALID. */
    hr_status (*bind)(hr_bound_call *call, hr_error *err);
    /* args[n_inputs], each n_rows long, constants expanded. *out is new, of call->type. An error should name the
     * row. */
    hr_status (*eval)(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                      hr_error *err);
    void (*state_free)(void *state); /* NULL: hr__free */
    /* The range of the result for inputs in these ranges; `out` is "anything" before the call. NULL: anything. A
     * function that does not know the range leaves `out` unchanged. */
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

bool hr__expr_row_random(const hr_expr *e); /* the expression or a part of it */
bool hr__expr_by_epoch(const hr_expr *e);   /* the same: has other values in each epoch */
bool hr__expr_is_total(const hr_expr *e);   /* it has a value for every row: rows that nobody wants cannot fail */
hr_status hr__expr_value(hr_array *takes, bool weak, hr_expr **out,
                         hr_error *err) HR_MUST_USE; /* a literal, of one row */
/* The tree with renamed columns: names[i] becomes new_names[i], others stay. *out is new. */
hr_status hr__expr_rename(hr_expr *e, const char *const *names, const char *const *new_names, int n, hr_expr **out,
                          hr_error *err) HR_MUST_USE;
/* The tree with `with` in the place of `part`, one of its nodes. Shares both. *out is new. */
hr_status hr__expr_replace(hr_expr *e, const hr_expr *part, hr_expr *with, hr_expr **out, hr_error *err) HR_MUST_USE;
/* The steps of nested calls of image functions on a column, and the column's name (borrowed). false: e is another
 * expression. */
bool hr__expr_image_steps(const hr_expr *e, hr_image_chain *out, const char **column);
/* a & b; either may be NULL. Shares both. *out is new, NULL if both are. */
hr_status hr__expr_and(hr_expr *a, hr_expr *b, hr_expr **out, hr_error *err) HR_MUST_USE;
/* Calls fn for each term of the conjunction e, left to right. */
hr_status hr__expr_each_term(hr_expr *e, hr_status (*fn)(void *context, hr_expr *term, hr_error *err), void *context,
                             hr_error *err) HR_MUST_USE;

/* Shares e and schema. */
hr_status hr__expr_bind(hr_expr *e, hr_schema *schema, hr_bound **out, hr_error *err) HR_MUST_USE;
/* Binds several expressions, which are evaluated together: shared parts are computed once. */
hr_status hr__exprs_bind(hr_expr *const *es, int n, hr_schema *schema, hr_bound **out, hr_error *err) HR_MUST_USE;
/* For readers: binds the terms of a pushed-down filter that a file's schema allows, as one predicate; *out NULL: none
 * (the file lacks the columns, or has other types). Fails only without memory. */
hr_status hr__expr_bind_filter(hr_expr *filter, hr_schema *schema, hr_bound **out, hr_error *err) HR_MUST_USE;
void hr__bound_free(hr_bound *b);           /* NULL is fine */
hr_type *hr__bound_type(const hr_bound *b); /* borrowed; of several, the first */
hr_type *hr__bound_type_of(const hr_bound *b, int i);
/* The possible values that expression i, a call of `categorize`, names for its column; borrowed. NULL: none. */
#define HR_CATEGORIES_KEY "headrace.categories" /* of a field's metadata */
const char *hr__bound_categories(const hr_bound *b, int i);
/* **out is new. The table's schema equals the bound one. `how->n_rows` and `origin` come from the table. */
hr_status hr__bound_eval(const hr_bound *b, const hr_eval *how, const hr_table *t, hr_array **out,
                         hr_error *err) HR_MUST_USE;
/* All expressions that were bound together, out[0 .. n); all new, or all NULL on failure. */
hr_status hr__bound_eval_all(const hr_bound *b, const hr_eval *how, const hr_table *t, hr_array **out,
                             hr_error *err) HR_MUST_USE;
/* Evaluates a predicate: keep[i] = 1 where it is true, 0 where it is false or null; *n_kept: the number of ones.
 * HR_TYPE unless boolean. */
hr_status hr__bound_keep(const hr_bound *b, const hr_eval *how, const hr_table *t, uint8_t *keep, int64_t *n_kept,
                         hr_error *err) HR_MUST_USE;

/* --- push-down */

/* The statistics of one column in a range of rows. */
typedef struct hr_bounds {
    const hr_array *least, *most; /* one row each, of the column's type; NULL: unknown. May be wider than the truth */
    int64_t null_count;           /* -1: not known */
    int64_t n_rows;               /* of the range */
    bool may_have_nan;            /* floats: NaN may occur beside least and most */
} hr_bounds;
typedef struct hr_pruner {
    void *context;
    /* false: unknown. `column` is a top-level name; *out stays valid until the next call. */
    bool (*bounds)(void *context, const char *column, hr_bounds *out);
    /* Bloom filter: false only if no row of the range has this value (one row, of the column's type). NULL: no
     * filter. */
    bool (*may_contain)(void *context, const char *column, const hr_array *value);
} hr_pruner;
typedef enum hr_truth { HR_TRUTH_NEVER, HR_TRUTH_MAYBE, HR_TRUTH_ALWAYS } hr_truth;
/* Whether the predicate holds for no row, some rows or all rows of the range; MAYBE if unknown. `b`: bound to the
 * file's schema. */
hr_truth hr__bound_prune(const hr_bound *b, const hr_pruner *p);

#endif
