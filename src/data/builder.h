/* builder.h - builds arrays value by value. */
#ifndef HR_BUILDER_H
#define HR_BUILDER_H

#include "data/array.h"

/* Appends values one by one; for tests, text, JSON and Python objects, not for hot readers. */
typedef struct hr_builder hr_builder;
hr_status hr__builder_new(const hr_mem *mem, hr_type *type, hr_builder **out, hr_error *err) HR_MUST_USE;
void hr__builder_free(hr_builder *b);
hr_status hr__builder_null(hr_builder *b, hr_error *err) HR_MUST_USE;
hr_status hr__builder_int(hr_builder *b, int64_t v,
                          hr_error *err) HR_MUST_USE; /* any integer, date, time, bool; HR_TYPE if out of range */
hr_status hr__builder_double(hr_builder *b, double v, hr_error *err) HR_MUST_USE; /* any float type */
hr_status hr__builder_bytes(hr_builder *b, const void *data, int64_t n,
                            hr_error *err) HR_MUST_USE; /* string, binary, fixed binary, any fixed width as its bytes */
/* Lists: append the items to child 0, then call hr__builder_end once a row. Structs: append one value to each child,
 * then call it. */
hr_builder *hr__builder_child(hr_builder *b, int i);
hr_status hr__builder_end(hr_builder *b, hr_error *err) HR_MUST_USE;
hr_status hr__builder_finish(hr_builder *b, hr_array **out, hr_error *err) HR_MUST_USE; /* empties b */

#endif
