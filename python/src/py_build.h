/* py_build.h - what the files that make columns of Python objects share: py_build.c (lists, tables) and py_array.c
 * (arrays).
 *
 * Errors: a function that returns NULL or -1 has either set an exception, or written b->why and b->bad (the item),
 * which the callers above translate into their own item, up to the row. */
#ifndef PY_BUILD_H
#define PY_BUILD_H

#include "pyhr.h"

typedef struct pyhr_build {
    pyhr_state *s;
    const hr_mem *mem;
    int depth;
    int64_t bad; /* item that failed; -1: all of them */
    char why[400];
} pyhr_build;

/* --- py_build.c */

int pyhr_fail(pyhr_build *b, int64_t bad, const char *fmt, ...) HR_PRINTF(3, 4); /* -> -1 */
const char *pyhr_type_name(PyObject *o, char text[80]);                          /* of the object's type; -> text */
bool pyhr_is_named(PyObject *o, const char *name);
/* A column of n Python objects; items may be replaced by equal ones. */
hr_array *pyhr_build_items(pyhr_build *b, PyObject **v, int64_t n);
/* The values of column `name`, which have just failed, as pickles. */
hr_array *pyhr_build_pickles(pyhr_build *b, const char *name, PyObject *values);
/* A column of an array, a list, or what is like them. */
hr_array *pyhr_build_values(pyhr_build *b, PyObject *values);
/* The same items through convert.NAME(list). */
hr_array *pyhr_build_converted(pyhr_build *b, const char *name, PyObject **v, int64_t n);

/* --- py_array.c */

hr_buffer *pyhr_buffer(pyhr_build *b, int64_t n_bytes);
/* Takes the buffers and the children. */
hr_array *pyhr_array(pyhr_build *b, hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *one, hr_buffer *two,
                     hr_array **children, int n_children);
/* Bits, 1 where the item is not None; *out NULL if none is. */
int pyhr_validity(pyhr_build *b, PyObject *const *v, int64_t n, hr_buffer **out);
/* What a buffer's values are: an id of fixed width (or bool), or a code: 'O' objects, 's' bytes, 'w' UCS-4 text, '>'
 * big-endian, 'X' anything else. */
char pyhr_format_of(const Py_buffer *view, hr_type_id *id);
/* Both take all; offsets are 64-bit ones, and become 32-bit ones where these suffice. */
hr_array *pyhr_bytes_array(pyhr_build *b, bool text, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_growbuf *g);
hr_array *pyhr_list_array(pyhr_build *b, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_array *values);
/* A column of an array of one or more dimensions; `values` is what `view` views. */
hr_array *pyhr_build_view(pyhr_build *b, PyObject *values, const Py_buffer *view);
/* A column whose items are arrays, or None. */
hr_array *pyhr_build_arrays(pyhr_build *b, PyObject **v, int64_t n);

#endif
