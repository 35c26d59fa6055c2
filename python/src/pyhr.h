/* pyhr.h - the Python face of the engine: what its files share.
 *
 * One Python type per file, all heap types; everything that lives as long as the module hangs on pyhr_state. Rules:
 *
 * 1. A hr_status becomes an exception in py_error.c and nowhere else.
 * 2. What can wait or take long runs without the GIL. Waits last 100 ms at most, then signals are looked at.
 * 3. Pool threads do not take the GIL, with one exception: write_*(filename_provider=) is asked for a name by the
 *    thread that opens the file (py_plan.c). So nobody waits for a pool thread with the GIL. Python objects that the
 *    engine holds (imported Arrow arrays) are not released by the thread that drops them: they go to a list
 *    (pyhr_drain), emptied by the next Python thread that comes by.
 * 4. A borrowed reference, or a pointer into an object, is not held while code of the user's may run: __index__ of an
 *    argument, a method of a value, a signal handler, another thread where the GIL is free. What may be closed
 *    meanwhile is held by a count.
 * 5. A function that returns PyObject * or a pointer returns NULL with an exception set when it fails; one that returns
 * int, -1. */
#ifndef PYHR_H
#define PYHR_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include "feed/ring.h"

typedef struct pyhr_drain pyhr_drain;

typedef struct pyhr_state {
    PyObject *errors
        [HR__N_STATUS]; /* exception class of each status, at hr__status_place(); of HR_OK: the base, HeadraceError */
    PyTypeObject *table, *column, *schema, *expr, *plan, *feed, *split, *ring, *ring_server, *calls, *call, *worker,
        *keep;
    PyObject *convert; /* headrace.data.convert: what only Python can do to values; imported when first needed */
    pyhr_drain *drain;
} pyhr_state;

#define PYHR_WAIT_MS 100 /* how long a blocked call sleeps between two looks at signals */

static inline pyhr_state *pyhr_state_of(PyObject *self) { return PyType_GetModuleState(Py_TYPE(self)); }

/* --- py_error.c */

/* The exceptions, as attributes of the module too. */
int pyhr_errors_add(PyObject *module, pyhr_state *s);
/* Raises `err` (which it clears) as the exception of `st`; returns NULL. An exception that is set already stays. */
void *pyhr_raise(pyhr_state *s, hr_status st, hr_error *err);
/* Raises with a text of our own, as printf. */
void *pyhr_raise_text(pyhr_state *s, hr_status st, const char *fmt, ...) HR_PRINTF(3, 4);
/* The exception that is set as an error for the engine, with the pickled exception as its detail; no exception is
 * left. */
hr_status pyhr_error_take(pyhr_state *s, hr_error *err);

/* --- module.c */

PyObject *pyhr_convert(pyhr_state *s, const char *name); /* a function of headrace.data.convert; new */
int pyhr_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out);
/* Text of a str; borrowed from it. InvalidArgument if it holds a zero byte, at which texts of C end, or has no UTF-8:
 * names, paths and settings come through here and through its two converters for "O&" (const char **; the second takes
 * None as NULL). */
const char *pyhr_text(PyObject *str);
int pyhr_text_arg(PyObject *str, void *out);
int pyhr_text_or_none(PyObject *str, void *out);
/* A list (or tuple) of str as an array of borrowed texts, for PyMem_Free. `keep` (new) keeps them alive. */
int pyhr_texts(PyObject *list, const char *what, const char ***out, int *n, PyObject **keep);

/* --- py_arrow.c */

pyhr_drain *pyhr_drain_new(void); /* NULL without memory */
void pyhr_drain_free(pyhr_drain *d);
/* Runs what other threads left to be released. Cheap when there is nothing. */
void pyhr_drain_run(pyhr_state *s);
/* The name of the capsule is checked; the struct is moved out of it, so that its destructor does nothing. */
int pyhr_take_schema(PyObject *capsule, struct ArrowSchema *out);
int pyhr_take_array(PyObject *capsule, struct ArrowArray *out);
int pyhr_take_stream(PyObject *capsule, struct ArrowArrayStream *out);
PyObject *pyhr_schema_capsule(struct ArrowSchema *takes);
PyObject *pyhr_array_capsule(struct ArrowArray *takes);
PyObject *pyhr_stream_capsule(struct ArrowArrayStream *takes);
/* The stream of `tables` (sequence of Table), all of this schema. */
PyObject *pyhr_tables_stream(pyhr_state *s, hr_schema *schema, PyObject *tables);
/* InvalidArgument for a name with a zero byte in what has __arrow_c_...__, at which the C structs would cut it. */
int pyhr_check_arrow_names(pyhr_state *s, PyObject *from);
/* All tables of what has __arrow_c_stream__ or __arrow_c_array__ (a record batch), as a list of Table. */
PyObject *pyhr_tables_from_arrow(pyhr_state *s, PyObject *from);
/* What has __arrow_c_array__ or, in chunks, __arrow_c_stream__, as one array. */
hr_array *pyhr_array_from_arrow(pyhr_state *s, PyObject *from);

/* --- py_value.c */

PyObject *pyhr_array_list(pyhr_state *s, const hr_array *a); /* a list of objects */
/* The same objects into places `stride` bytes apart that hold objects (or NULL). */
int pyhr_array_fill(pyhr_state *s, const hr_array *a, char *to, Py_ssize_t stride);
int pyhr_array_rows(pyhr_state *s, const hr_array *a, PyObject *name, PyObject *rows); /* into each dict of a list */
const char *pyhr_unit_text(hr_unit u);                                                 /* "us" */

/* --- py_column.c */

int pyhr_column_types(PyObject *module, pyhr_state *s);
PyObject *pyhr_column(pyhr_state *s, hr_array *takes, PyObject *name, bool writable); /* name: may be NULL */
hr_array *pyhr_column_of(pyhr_state *s, PyObject *op); /* borrowed; NULL without an exception if it is no Column */
/* flat: numpy can read its buffer as it is (dense, and no time). */
int pyhr_column_flat(pyhr_state *s, PyObject *op, bool *flat, bool *writable);
bool pyhr_column_is_number(PyObject *op);                  /* of integers or floats, with nulls or without */
PyObject *pyhr_column_filled(pyhr_state *s, PyObject *op); /* a copy of numbers or times, NaN or NaT for nulls */

/* --- py_pickle.c */

PyObject *pyhr_table_reduce(PyObject *op, PyObject *none);
PyObject *pyhr_table_unpickle(PyObject *cls, PyObject *args);
PyObject *pyhr_schema_reduce(PyObject *op, PyObject *none);
PyObject *pyhr_schema_unpickle(PyObject *cls, PyObject *head);

/* --- py_table.c */

int pyhr_table_types(PyObject *module, pyhr_state *s);
PyObject *pyhr_table(pyhr_state *s, hr_table *takes); /* takes even on failure; NULL gives None */
hr_table *pyhr_table_of(pyhr_state *s, PyObject *op); /* borrowed; a TypeError if it is none */
PyObject *pyhr_schema(pyhr_state *s, hr_schema *takes);
PyObject *pyhr_type_object(const hr_type *t); /* its name, a str */

/* --- py_build.c */

hr_array *pyhr_build_column(pyhr_state *s, const hr_mem *mem, const char *name, PyObject *values);
hr_table *pyhr_build_table(pyhr_state *s, const hr_mem *mem, PyObject *columns); /* dict: name -> values */
hr_table *pyhr_build_rows(pyhr_state *s, const hr_mem *mem, PyObject *rows);     /* list of dict */

/* --- py_rows.c: functions of the module */

PyObject *pyhr_row_dicts(PyObject *module, PyObject *args);
PyObject *pyhr_take_rows(PyObject *module, PyObject *args);

/* --- py_expr.c */

int pyhr_expr_types(PyObject *module, pyhr_state *s);
hr_expr *pyhr_expr_of(pyhr_state *s, PyObject *op); /* borrowed */
/* A sequence of Expr as an array of borrowed expressions, for PyMem_Free. `keep` (new) keeps them alive. */
int pyhr_exprs(pyhr_state *s, PyObject *list, hr_expr ***out, int *n, PyObject **keep);

/* --- py_plan.c */

int pyhr_plan_types(PyObject *module, pyhr_state *s);
hr_plan *pyhr_plan_of(pyhr_state *s, PyObject *op); /* borrowed */
PyObject *pyhr_plan(pyhr_state *s, hr_plan *takes);

/* --- py_keep.c */

int pyhr_keep_types(PyObject *module, pyhr_state *s);

/* --- py_udf.c */

int pyhr_udf_types(PyObject *module, pyhr_state *s);
hr_calls *pyhr_calls_of(pyhr_state *s, PyObject *op); /* borrowed */
/* Serves the calls that wait: `inline_calls` is a tuple of (Calls, handler); handler(call) ends or pauses each call. ->
 * 1: some may still wait; 0: none did; -1: an exception. */
int pyhr_serve(pyhr_state *s, PyObject *inline_calls);

/* --- py_feed.c */

int pyhr_feed_types(PyObject *module, pyhr_state *s);
/* Fills options from keyword arguments (batch_rows, drop_last, prefetch, epoch, seed, any_order, num_threads,
 * memory_limit, position, trace_path); texts are borrowed from them. Removes what it took from `kwargs`, a dict. */
int pyhr_seed(PyObject *v, uint64_t *out); /* NULL and None are 0; -1 with an exception */
int pyhr_feed_options(PyObject *kwargs, hr_feed_options *out);
/* The tuple of (Calls, handler) that `arg` (NULL, None or any sequence) gives; new. */
PyObject *pyhr_inline_calls(pyhr_state *s, PyObject *arg);

/* --- py_split.c */

int pyhr_split_types(PyObject *module, pyhr_state *s);

#endif
