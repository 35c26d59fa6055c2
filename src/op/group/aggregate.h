/* aggregate.h - aggregates: one value of all rows of a group. Private to src/op.
 *
 * There are two families. An aggregate of *fixed* state keeps a few numbers per group (count, sum, mean, std, min and
 * max of numbers): states lie side by side; update and merge loop over rows with the numbers of their groups. An
 * aggregate of *values* (quantile, unique, list, min of text, ...) keeps the values: a partial result is a list per
 * group, and each operation handles all groups at once.
 *
 * In tables of partial results a fixed state is a fixed_size_binary, a list is a large_list. Rows merge in canonical
 * order, so sums of floats do not depend on threads. */
#ifndef HR_AGGREGATE_H
#define HR_AGGREGATE_H

#include "data/data.h"

/* The options of all aggregates; the option table of a class lists the ones it takes. */
typedef struct hr_aggregate_options {
    bool ignore_nulls;
    int64_t ddof, k;
    double q;
    char *quantiles;
    char *by; /* another column */
} hr_aggregate_options;

typedef struct hr_agg hr_agg;
typedef struct hr_agg_class {
    const char *name; /* "sum" */
    const char *doc;
    const hr_option *options;
    /* Sets a->result, and a->state_bytes or, for values, a->item. HR_TYPE: the aggregate cannot use the column
     * (a->input; NULL: rows). */
    hr_status (*bind)(hr_agg *a, hr_error *err);
    /* fixed: adds rows [begin, begin + n) of `in`, of groups ids[0 .. n), to the states */
    void (*update)(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids, void *states);
    void (*merge)(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states);
    /* *out is new, of type a->result. */
    hr_status (*result)(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                        hr_error *err);
    /* values: shortens each list (large_list<item>) to the values that the result needs; NULL: needs all. *out is
     * new. */
    hr_status (*shorten)(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err);
    hr_status (*finish)(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err);
    bool distinct; /* values: equal values count once, the first */
    bool pairs;    /* values: the input is struct<value, by>: of the column and of the column `by` */
} hr_agg_class;

/* The callbacks of a user's aggregate, counted. */
typedef struct hr_own_aggregate hr_own_aggregate;

/* An aggregate of one column. */
struct hr_agg {
    const hr_agg_class *cls;
    hr_own_aggregate *own; /* NULL: an aggregate of `cls` */
    hr_aggregate_options options;
    char *column; /* NULL: aggregates rows */
    char *name;   /* of the result */
    /* bound */
    hr_type *input;  /* borrowed; NULL: rows */
    hr_type *pair;   /* owned: the input of an aggregate of pairs; else NULL */
    hr_type *result; /* owned */
    int state_bytes; /* fixed */
    hr_type *state;  /* owned: type of the column of partial results */
};

/* Parses an aggregate; hr__agg_clear clears *out. HR_NOT_FOUND names the function, HR_INVALID the option. */
hr_status hr__agg_init(hr_agg *out, const hr_aggregate *from, hr_error *err) HR_MUST_USE;
void hr__agg_clear(hr_agg *a);
/* A copy bound to a schema; hr__agg_clear clears it. */
hr_status hr__agg_bind(const hr_agg *a, const hr_schema *in, hr_agg *out, hr_error *err) HR_MUST_USE;
/* The error of bind: HR_TYPE, "sum: column 'x' is string, expected numbers". */
hr_status hr__agg_refuse(const hr_agg *a, const char *expected, hr_error *err);
void hr__agg_describe(const hr_agg *a, hr_text *out);
void hr__agg_fingerprint(const hr_agg *a, hr_hash *h);

/* Adds the rows of t, of groups ids[...], to fixed states. `column`: the aggregate's column in t; -1: none. */
hr_status hr__agg_update(const hr_agg *a, const hr_table *t, int column, const uint32_t *ids, void *states,
                         hr_error *err) HR_MUST_USE;
hr_status hr__agg_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states,
                        hr_error *err) HR_MUST_USE;
/* The values of the rows of t: of `column`, or pairs of two columns. *out is new. */
hr_status hr__agg_input(const hr_agg *a, const hr_table *t, int column, hr_array **out, hr_error *err) HR_MUST_USE;
/* The values of rows [begin, begin + n) as one list per group, in order: a large_list of n_groups rows. */
hr_status hr__agg_lists(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                        int64_t n_groups, const hr_mem *mem, hr_array **out, hr_error *err) HR_MUST_USE;
/* Concatenates lists by group: list i is of group ids[i]. */
hr_status hr__agg_join_lists(const hr_agg *a, const hr_array *lists, const uint32_t *ids, int64_t n_groups,
                             const hr_mem *mem, hr_array **out, hr_error *err) HR_MUST_USE;

extern const hr_agg_class hr__agg_fixed[], hr__agg_values[]; /* each ends with a NULL name */
extern const hr_agg_class hr__agg_min_number, hr__agg_max_number;

#define HR_OWN_STATE_MOST 65536
/* Copies *fn. Takes its context only on success. */
hr_status hr__own_new(const char *name, const hr_aggregate_function *fn, hr_own_aggregate **out,
                      hr_error *err) HR_MUST_USE;
hr_own_aggregate *hr__own_ref(hr_own_aggregate *o);
void hr__own_unref(hr_own_aggregate *o); /* NULL is fine */
const char *hr__own_name(const hr_own_aggregate *o);
hr_status hr__own_update(const hr_agg *a, const hr_table *t, int column, const uint32_t *ids, void *states,
                         hr_error *err) HR_MUST_USE;
hr_status hr__own_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states,
                        hr_error *err) HR_MUST_USE;
extern const hr_agg_class hr__agg_own;
bool hr__agg_is_number(const hr_type *t); /* min and max of the type have fixed state */

#endif
