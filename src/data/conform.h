/* conform.h - the rules by which types that differ become one: of a function's tables, of a column in many files. */
#ifndef HR_CONFORM_H
#define HR_CONFORM_H

#include "data/table.h"

/* ------------------------------------------------------------------------------- types that nearly agree: conform.c */

/* The type that holds values of both (null and T, tensors and lists of lists); *out is new, NULL with HR_OK if there is
 * none. */
hr_status hr__type_conform(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err) HR_MUST_USE;
/* Whether values of the type can be pickled here: pickle.c. */
bool hr__type_can_pickle(const hr_type *t);
/* Those values as Python's pickle writes them, of type hr__type_pickled. */
hr_status hr__array_pickle(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err) HR_MUST_USE;
/* The array as `type`, a result of hr__type_conform for its own type. *out is new; values are shared where possible. */
hr_status hr__array_conform(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                            hr_error *err) HR_MUST_USE;
/* The schema that holds tables of both, with the columns in the order of a; a itself if it fits. HR_TYPE names the
 * difference. */
hr_status hr__schema_conform(hr_schema *a, const hr_schema *b, hr_schema **out, hr_error *err) HR_MUST_USE;
/* Makes *schema, which is NULL before the first table, the schema that holds the tables so far and those of `in`.
 * *wider: the tables so far need hr__table_conform. The error of types that do not fit begins with `what`. */
hr_status hr__schema_widen(hr_schema **schema, hr_schema *in, const char *what, bool *wider, hr_error *err) HR_MUST_USE;
/* The table with the columns of `schema`, a result of hr__schema_conform for its own schema. *out is new. */
hr_status hr__table_conform(const hr_mem *mem, const hr_table *t, hr_schema *schema, hr_table **out,
                            hr_error *err) HR_MUST_USE;
/* Replaces *t, which the caller owns. */
hr_status hr__table_conform_in_place(const hr_mem *mem, hr_table **t, hr_schema *schema, hr_error *err) HR_MUST_USE;

/* --------------------------------------------------------------------------- one column in many files: unify.c */

/* The least type that holds the values of both, by the rules at the top of unify.c; *out is new, NULL with HR_OK:
 * none. */
hr_status hr__type_unify(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err) HR_MUST_USE;
/* Whether `to` holds all values of `from`: the two unify to it. */
hr_status hr__type_widens(const hr_type *from, const hr_type *to, bool *out, hr_error *err) HR_MUST_USE;
/* The array as `type`, to which its own type widens. *out is new; values are shared where possible. HR_TYPE names the
 * row whose value a double, or a finer unit of time, cannot hold. */
hr_status hr__array_unify(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                          hr_error *err) HR_MUST_USE;

#endif
