/* cdata.h - exports and imports tables by Arrow's C data interface. */
#ifndef HR_CDATA_H
#define HR_CDATA_H

#include "data/table.h"

hr_status hr__schema_export(const hr_schema *s, struct ArrowSchema *out, hr_error *err) HR_MUST_USE;
hr_status hr__schema_import(struct ArrowSchema *in, hr_schema **out, hr_error *err) HR_MUST_USE; /* takes in */
hr_status hr__type_export(const hr_type *t, struct ArrowSchema *out, hr_error *err) HR_MUST_USE;
hr_status hr__array_export(hr_array *a, struct ArrowArray *out, hr_error *err) HR_MUST_USE; /* shares a */
/* Takes `in`, even on failure. Decodes dictionaries, views, list views and run ends into plain arrays. */
hr_status hr__array_import(struct ArrowArray *in, struct ArrowSchema *schema_borrowed, hr_array **out,
                           hr_error *err) HR_MUST_USE;

#endif
