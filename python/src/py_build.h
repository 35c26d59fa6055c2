/* py_build.h - declarations for columns made from Python objects: py_build.c (lists, tables), py_array.c (arrays).
 *
 * Errors: a function that returns NULL or -1 has either set an exception, or written b->why and b->bad (the item).
 * Each caller translates b->bad into its own item, up to the row. */
#ifndef PY_BUILD_H
#define PY_BUILD_H

#include "pyhr.h"

typedef struct pyhr_build {
    pyhr_state *s;
    const hr_mem *mem;
    int depth;
    int64_t bad; /* the item that failed; -1: the whole column */
    char why[400];
} pyhr_build;

/* --- py_build.c */

int pyhr_fail(pyhr_build *b, int64_t bad, const char *fmt, ...) HR_PRINTF(3, 4); /* returns -1 */
/* A column of n Python objects; may replace items by equal ones. */
hr_array *pyhr_build_items(pyhr_build *b, PyObject **v, int64_t n);
/* A column from an array, a list, or a similar object. */
hr_array *pyhr_build_values(pyhr_build *b, PyObject *values);
/* A column from the result of convert.NAME(list of the items). */
hr_array *pyhr_build_converted(pyhr_build *b, const char *name, PyObject **v, int64_t n);

/* --- py_array.c */

hr_buffer *pyhr_buffer(pyhr_build *b, int64_t n_bytes);
/* Takes the buffers and the children. */
hr_array *pyhr_array(pyhr_build *b, hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *one, hr_buffer *two,
                     hr_array **children, int n_children);
/* *out: bits, 1 for items that are not None; NULL if no item is None. */
int pyhr_validity(pyhr_build *b, PyObject *const *v, int64_t n, hr_buffer **out);
/* The type of a buffer's values: *id of fixed width (or bool), or as the result a code: 'O' objects, 's' bytes, 'w'
 * UCS-4 text, '>' big-endian, 'X' anything else. */
char pyhr_format_of(const Py_buffer *view, hr_type_id *id);
/* Both take all arguments. Offsets have 64 bits and become 32-bit offsets if the values fit. */
hr_array *pyhr_bytes_array(pyhr_build *b, bool text, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_growbuf *g);
hr_array *pyhr_list_array(pyhr_build *b, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_array *values);
/* A column from an array of one or more dimensions; `view` is a view of `values`. */
hr_array *pyhr_build_view(pyhr_build *b, PyObject *values, const Py_buffer *view);
/* A column from items that are arrays or None. */
hr_array *pyhr_build_arrays(pyhr_build *b, PyObject **v, int64_t n);

#endif
