/* aggregate.h - what groups are made into: one value of many rows. Private to src/op.
 *
 * Two families. Of *fixed* state are those whose partial result for a group is a few numbers (count, sum, mean, std,
 * min and max of numbers): states lie side by side, update and merge are loops over rows with their groups' numbers.
 * Those of *values* (quantile, unique, list, min of text, ...) keep the values themselves: a partial result is a list
 * for each group, and what is done with them is done for all groups at once.
 *
 * In tables that travel, a fixed state is a fixed_size_binary of its bytes, a list is a large_list. Merging is by rows
 * in canonical order, so that sums of floats do not depend on threads. */
#ifndef HR_AGGREGATE_H
#define HR_AGGREGATE_H

#include "data/data.h"

/* The settings of all of them; each has its own table of those that it takes. */
typedef struct hr_aggregate_options {
    bool ignore_nulls;
    int64_t ddof, k;
    double q;
    char *quantiles;
} hr_aggregate_options;

typedef struct hr_agg hr_agg;
typedef struct hr_agg_class {
    const char *name; /* "sum" */
    const char *doc;
    const hr_option *options;
    /* Sets a->result, and a->state_bytes or, for values, a->item. HR_TYPE unless the column (a->input; NULL: rows) can
     * be used. */
    hr_status (*bind)(hr_agg *a, hr_error *err);
    /* fixed: rows [begin, begin + n) of `in` belong to groups ids[0 .. n) */
    void (*update)(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids, void *states);
    void (*merge)(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states);
    /* *out is new, of a->result. */
    hr_status (*result)(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                        hr_error *err);
    /* values: lists of large_list<item>. Shortens lists to what the result needs; NULL: all of them. *out is new. */
    hr_status (*shorten)(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err);
    hr_status (*finish)(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err);
    bool distinct; /* values: only the first of equal ones counts */
} hr_agg_class;

/* Of a user's own: callbacks, counted. */
typedef struct hr_own_aggregate hr_own_aggregate;

/* One, of one column. */
struct hr_agg {
    const hr_agg_class *cls;
    hr_own_aggregate *own; /* NULL: of the class */
    hr_aggregate_options options;
    char *column; /* NULL: of rows */
    char *name;   /* of the result */
    /* bound */
    hr_type *input;  /* borrowed; NULL: of rows */
    hr_type *result; /* owned */
    int state_bytes; /* fixed */
    hr_type *state;  /* owned: of the column that travels */
};

/* Parses one; *out is cleared by hr__agg_clear. HR_NOT_FOUND names the function, HR_INVALID the setting. */
hr_status hr__agg_init(hr_agg *out, const hr_aggregate *from, hr_error *err) HR_MUST_USE;
void hr__agg_clear(hr_agg *a);
/* A bound copy for a schema; cleared by hr__agg_clear. */
hr_status hr__agg_bind(const hr_agg *a, const hr_schema *in, hr_agg *out, hr_error *err) HR_MUST_USE;
/* For bind: HR_TYPE, "sum: column 'x' is string, expected numbers". */
hr_status hr__agg_refuse(const hr_agg *a, const char *expected, hr_error *err);
void hr__agg_describe(const hr_agg *a, hr_text *out);
void hr__agg_fingerprint(const hr_agg *a, hr_hash *h);

/* The rows of t, whose column `column` (-1: none) it is of, belong to groups ids[...]. Fixed states only. */
hr_status hr__agg_update(const hr_agg *a, const hr_table *t, int column, const uint32_t *ids, void *states,
                         hr_error *err) HR_MUST_USE;
hr_status hr__agg_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states,
                        hr_error *err) HR_MUST_USE;
/* Values of rows [begin, begin + n) by their groups, in order: large_list of n_groups rows. */
hr_status hr__agg_lists(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                        int64_t n_groups, const hr_mem *mem, hr_array **out, hr_error *err) HR_MUST_USE;
/* Lists of rows of `lists` (one after the other, in order) joined by group. */
hr_status hr__agg_join_lists(const hr_agg *a, const hr_array *lists, const uint32_t *ids, int64_t n_groups,
                             const hr_mem *mem, hr_array **out, hr_error *err) HR_MUST_USE;

extern const hr_agg_class hr__agg_fixed[], hr__agg_values[]; /* by file; each ends with a NULL name */
extern const hr_agg_class hr__agg_min_number, hr__agg_max_number;

#define HR_OWN_STATE_MOST 65536
/* Copies *fn. Its context is taken only if it succeeds. */
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
bool hr__agg_is_number(const hr_type *t); /* min and max are of fixed state */

#endif
