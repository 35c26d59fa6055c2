/* arrays.h - types and arrays for tests: one of every type, filled with repeatable random values. */
#ifndef ARRAYS_H
#define ARRAYS_H

#include "harness.h"

/* One of each type, nested ones in several ways: sample_type(0) .. sample_type(n - 1), each new. */
int n_sample_types(void);
hr_type *sample_type(int k);
hr_type *type_named(const char *text); /* the sample type with this text, new */

/* n rows of random values, new. About every fourth array has no nulls, about half are slices of longer ones. */
hr_array *random_array(uint64_t *state, hr_type *type, int64_t n);
/* A table with columns "c0", "c1", ... of these types; its rows come from file 0, fragment 0. */
hr_table *random_table(uint64_t *state, hr_type *const *types, int n_types, int64_t n);
/* Adds row i of a to b, value by value: the slow way that the fast ones are compared with. */
void append_value(hr_builder *b, const hr_array *a, int64_t i);
hr_builder *builder_of(hr_type *type);
hr_array *finish(hr_builder *b); /* frees b */
/* The same values, in the text of hr__array_print_value; n_rows rows from `begin`, separated by blanks. Valid until the
 * next. */
const char *values_text(const hr_array *a);
const char *type_text(const hr_type *t);
/* int64 and string arrays from C values; NULL and INT64_MIN are nulls. */
hr_array *array_of_ints(const int64_t *values, int64_t n);
hr_array *array_of_strings(const char *const *values, int64_t n);

/* The arena gives back its empty segments, as it does while memory is over the limit. */
void arena_give_back(hr_arena *a);

/* Same type, same rows; the message shows both. */
#define assert_same_array(got, want) assert_same_array_at((got), (want), __FILE__, __LINE__)
void assert_same_array_at(const hr_array *got, const hr_array *want, const char *file, int line);

#endif
