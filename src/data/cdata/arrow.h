/* arrow.h - what arrow.c and arrow_import.c share. */
#ifndef HR_ARROW_H
#define HR_ARROW_H

#include "data/data.h"

/* Reads a field and the extension in its metadata. Borrows `s`. Initialises *out; empty on failure. */
hr_status hr__arrow_field(const struct ArrowSchema *s, hr_field *out, hr_error *err) HR_MUST_USE;
/* The schema of a table, which is a struct. Borrows `s`. */
hr_status hr__arrow_schema(const struct ArrowSchema *s, hr_schema **out, hr_error *err) HR_MUST_USE;
/* The number of buffers of the type in Arrow's layout; ours are in the same order. */
int hr__arrow_n_buffers(const hr_type *t);
/* 32 or 64: the bits of a decimal that is widened to 128; 0: not such a format. */
int hr__arrow_small_decimal_bits(const char *format);

#endif
