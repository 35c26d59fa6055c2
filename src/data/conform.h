/* conform.h - types that nearly agree, and the types of one column in many files. */
#ifndef HR_CONFORM_H
#define HR_CONFORM_H

#include "data/table.h"

/* ------------------------------------------------------------------------------- types that nearly agree: conform.c */

/* The type that holds values of both (null and T, tensors and lists of lists); *out is new, NULL with HR_OK if there is
 * none. */
hr_status hr__type_conform(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err) HR_MUST_USE;
/* Whether values of the type can be pickled here: pickle.c. */
bool hr__type_can_pickle(const hr_type *t);
/* Such values as Python's pickle would have them, of hr__type_pickled. */
hr_status hr__array_pickle(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err) HR_MUST_USE;
/* The array as `type`, which hr__type_conform of its own and others gave. *out is new; values are shared where they can
 * be. */
hr_status hr__array_conform(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                            hr_error *err) HR_MUST_USE;
/* The schema that tables of both can have, columns in the order of a; a itself if it will do. HR_TYPE says what
 * differs. */
hr_status hr__schema_conform(hr_schema *a, const hr_schema *b, hr_schema **out, hr_error *err) HR_MUST_USE;
hr_status hr__table_conform(const hr_mem *mem, const hr_table *t, hr_schema *schema, hr_table **out,
                            hr_error *err) HR_MUST_USE;

/* --------------------------------------------------------------------------- one column in many files: unify.c */

/* The least type that holds the values of both, by the rules at the top of unify.c; *out is new, NULL with HR_OK:
 * none. */
hr_status hr__type_unify(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err) HR_MUST_USE;
/* Whether values of `from` can be had as `to`: it is what the two unify to. */
hr_status hr__type_widens(const hr_type *from, const hr_type *to, bool *out, hr_error *err) HR_MUST_USE;
/* The array as `type`, which its own widens to. *out is new; values are shared where they can be. HR_TYPE names the row
 * whose value a double cannot be, or a finer unit of time cannot hold. */
hr_status hr__array_unify(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                          hr_error *err) HR_MUST_USE;

#endif
