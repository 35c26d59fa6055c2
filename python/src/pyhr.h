/* pyhr.h - declarations that the files of headrace._core share.
 *
 * One Python type per file, all heap types; pyhr_state holds everything that lives as long as the module. Rules:
 *
 * 1. Only py_error.c turns a hr_status into an exception.
 * 2. Calls that wait or take long run without the GIL. A wait lasts at most 100 ms; then the thread handles signals.
 * 3. Pool threads do not take the GIL, with one exception: the thread that opens a file calls the user's
 *    filename_provider (py_plan.c). So no thread waits for a pool thread while it has the GIL. A pool thread that drops
 *    a Python object of the engine (an imported Arrow array) puts it into a list (pyhr_drain); the next Python thread
 *    that calls pyhr_drain_run() releases it.
 * 4. No function keeps a borrowed reference, or a pointer into an object, while the user's code may run: __index__ of
 *    an argument, a method of a value, a signal handler, another thread while the GIL is free. A count protects what
 *    may be closed meanwhile.
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
        [HR__N_STATUS]; /* exception class of each status, at hr__status_place(); HR_OK: the base, HeadraceError */
    PyTypeObject *table, *column, *schema, *expr, *plan, *feed, *split, *ring, *ring_server, *calls, *call, *worker,
        *materialized;
    PyObject *convert; /* headrace.data.convert: conversions of values that need Python; imported on first use */
    pyhr_drain *drain;
} pyhr_state;

#define PYHR_WAIT_MS 100 /* how long a blocked call sleeps before it handles signals */

static inline pyhr_state *pyhr_state_of(PyObject *self) { return PyType_GetModuleState(Py_TYPE(self)); }

/* --- py_error.c */

/* Makes the exception classes, in the state and as attributes of the module. */
int pyhr_errors_add(PyObject *module, pyhr_state *s);
/* Raises `err` (and clears it) as the exception of `st`; returns NULL. An exception that is already set stays. */
void *pyhr_raise(pyhr_state *s, hr_status st, hr_error *err);
/* Raises the exception of a status with a text, as printf does; returns NULL. */
void *pyhr_raise_text(pyhr_state *s, hr_status st, const char *fmt, ...) HR_PRINTF(3, 4);
/* Turns the exception that is set into an error of the engine, with the pickled exception as its detail, and clears
 * it. */
hr_status pyhr_error_take(pyhr_state *s, hr_error *err);

/* --- py_base.c */

PyObject *pyhr_convert(pyhr_state *s, const char *name); /* a function of headrace.data.convert; new reference */
int pyhr_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out);
/* Text of a str, borrowed from it. InvalidArgument if it has a zero byte, where a C string would end, or a lone
 * surrogate. All names, paths and settings pass through here, or through the two converters for "O&" (const char **;
 * the second turns None into NULL). */
const char *pyhr_text(PyObject *str);
int pyhr_text_arg(PyObject *str, void *out);
int pyhr_text_or_none(PyObject *str, void *out);
/* A list or tuple of str as an array of borrowed texts; *out is for PyMem_Free, *keep (new) keeps the texts alive. */
int pyhr_texts(PyObject *list, const char *what, const char ***out, int *n, PyObject **keep);
/* A str of what an engine's call gave: raises if st is an error, else takes `text`. */
PyObject *pyhr_text_taken(pyhr_state *s, hr_status st, char *text, hr_error *err);
/* As pyhr_text_taken, of a text that may be empty. Clears it. */
PyObject *pyhr_news(pyhr_state *s, hr_status st, hr_text *text, hr_error *err);

/* --- py_arrow.c */

pyhr_drain *pyhr_drain_new(void); /* NULL: no memory */
void pyhr_drain_free(pyhr_drain *d);
/* Releases the objects that other threads put into the list. Cheap when it is empty. */
void pyhr_drain_run(pyhr_state *s);
/* Moves the struct out of a capsule, after a check of the capsule's name; its destructor then does nothing. */
int pyhr_take_schema(PyObject *capsule, struct ArrowSchema *out);
PyObject *pyhr_schema_capsule(struct ArrowSchema *takes);
PyObject *pyhr_array_capsule(struct ArrowArray *takes);
PyObject *pyhr_stream_capsule(struct ArrowArrayStream *takes);
/* An Arrow stream of `tables` (a sequence of Table), which all have this schema. */
PyObject *pyhr_tables_stream(pyhr_state *s, hr_schema *schema, PyObject *tables);
/* Raises InvalidArgument for a name with a zero byte in Arrow data, where the C structs would cut it. */
int pyhr_check_arrow_names(pyhr_state *s, PyObject *from);
/* A list of Table from an object with __arrow_c_stream__ or __arrow_c_array__ (a record batch). */
PyObject *pyhr_tables_from_arrow(pyhr_state *s, PyObject *from);
/* One array from an object with __arrow_c_array__ or __arrow_c_stream__ (the chunks of a column). */
hr_array *pyhr_array_from_arrow(pyhr_state *s, PyObject *from);

/* --- py_value.c */

PyObject *pyhr_array_list(pyhr_state *s, const hr_array *a); /* a list of objects */
/* Stores the same objects at `to`, `stride` bytes apart, and releases the objects (or NULL) stored there. */
int pyhr_array_fill(pyhr_state *s, const hr_array *a, char *to, Py_ssize_t stride);
int pyhr_array_rows(pyhr_state *s, const hr_array *a, PyObject *name,
                    PyObject *rows);   /* sets `name` in each dict of a list */
const char *pyhr_unit_text(hr_unit u); /* "us" */

/* --- py_column.c */

int pyhr_column_types(PyObject *module, pyhr_state *s);
PyObject *pyhr_column(pyhr_state *s, hr_array *takes, PyObject *name, bool writable); /* name: may be NULL */
hr_array *pyhr_column_of(pyhr_state *s, PyObject *op); /* borrowed; NULL without an exception: not a Column */
/* *flat: numpy can use the buffer as it is (the column is dense and has no times). */
int pyhr_column_flat(pyhr_state *s, PyObject *op, bool *flat, bool *writable);
bool pyhr_column_is_number(PyObject *op); /* whether it has integers or floats, with or without nulls */
PyObject *pyhr_column_filled(pyhr_state *s, PyObject *op); /* a copy of numbers or times, NaN or NaT for nulls */

/* --- py_pickle.c */

PyObject *pyhr_table_reduce(PyObject *op, PyObject *none);
PyObject *pyhr_table_unpickle(PyObject *cls, PyObject *args);
PyObject *pyhr_schema_reduce(PyObject *op, PyObject *none);
PyObject *pyhr_schema_unpickle(PyObject *cls, PyObject *head);

/* --- py_table.c */

int pyhr_table_types(PyObject *module, pyhr_state *s);
PyObject *pyhr_table(pyhr_state *s, hr_table *takes); /* takes, even on failure; NULL becomes None */
hr_table *pyhr_table_of(pyhr_state *s, PyObject *op); /* borrowed; TypeError if it is no Table */
PyObject *pyhr_schema(pyhr_state *s, hr_schema *takes);
PyObject *pyhr_type_object(const hr_type *t); /* the type's name, a str */

/* --- py_build.c */

hr_array *pyhr_build_column(pyhr_state *s, const hr_mem *mem, const char *name, PyObject *values);
hr_table *pyhr_build_table(pyhr_state *s, const hr_mem *mem, PyObject *columns); /* dict: name -> values */
hr_table *pyhr_build_rows(pyhr_state *s, const hr_mem *mem, PyObject *rows);     /* list of dict */

/* --- py_rows.c: functions of the module */

PyObject *pyhr_row_dicts(PyObject *module, PyObject *args);
PyObject *pyhr_take_rows(PyObject *module, PyObject *args);
PyObject *pyhr_command(PyObject *module, PyObject *words);

/* --- py_spans.c: a function of the module */
PyObject *pyhr_span_bins(PyObject *module, PyObject *args);

/* --- py_log.c */
int pyhr_log_begin(void);     /* once for the process */
int pyhr_between_waits(void); /* signals, and lines of the log. -1: a handler of a signal raised */
PyObject *pyhr_store(PyObject *module, PyObject *options);
PyObject *pyhr_download(PyObject *module, PyObject *args);

/* --- py_objects.c: functions of the module */

PyObject *pyhr_has_certificates(PyObject *module, PyObject *none);
PyObject *pyhr_use_certificates(PyObject *module, PyObject *args);
PyObject *pyhr_url_is_writable(PyObject *module, PyObject *args);
PyObject *pyhr_object_read(PyObject *module, PyObject *args);
PyObject *pyhr_object_open(PyObject *module, PyObject *args);
PyObject *pyhr_object_range(PyObject *module, PyObject *args);
PyObject *pyhr_object_save(PyObject *module, PyObject *args);
PyObject *pyhr_object_put(PyObject *module, PyObject *args);
PyObject *pyhr_objects_list(PyObject *module, PyObject *args);
PyObject *pyhr_objects_remove(PyObject *module, PyObject *args);
PyObject *pyhr_objects_upload(PyObject *module, PyObject *args);
PyObject *pyhr_objects_abort(PyObject *module, PyObject *args);

/* --- py_served.c: functions of the module */

PyObject *pyhr_served_new(PyObject *module, PyObject *none);
PyObject *pyhr_served_unref(PyObject *module, PyObject *number);
PyObject *pyhr_served_take(PyObject *module, PyObject *seconds);
PyObject *pyhr_served_answer(PyObject *module, PyObject *args);
PyObject *pyhr_served_refuse(PyObject *module, PyObject *args);

/* --- py_expr.c */

int pyhr_expr_types(PyObject *module, pyhr_state *s);
hr_expr *pyhr_expr_of(pyhr_state *s, PyObject *op); /* borrowed */
/* A sequence of Expr as an array of borrowed expressions; *out is for PyMem_Free, *keep (new) keeps them alive. */
int pyhr_exprs(pyhr_state *s, PyObject *list, hr_expr ***out, int *n, PyObject **keep);

/* --- py_plan.c */

int pyhr_plan_types(PyObject *module, pyhr_state *s);
hr_plan *pyhr_plan_of(pyhr_state *s, PyObject *op); /* borrowed */
PyObject *pyhr_plan(pyhr_state *s, hr_plan *takes);

/* --- py_materialized.c */

int pyhr_materialized_types(PyObject *module, pyhr_state *s);

/* --- py_udf.c */

int pyhr_udf_types(PyObject *module, pyhr_state *s);
hr_calls *pyhr_calls_of(pyhr_state *s, PyObject *op); /* borrowed */
/* Serves waiting calls. `inline_calls` is a tuple of (Calls, handler); handler(call) ends or pauses each call. Returns
 * 1 if calls may still wait, 0 if none waited, -1 with an exception. */
int pyhr_serve(pyhr_state *s, PyObject *inline_calls);

/* --- py_feed.c */

int pyhr_feed_types(PyObject *module, pyhr_state *s);
/* Fills options from keyword arguments (batch_rows, drop_last, prefetch, epoch, seed, any_order, num_threads,
 * memory_limit, position, trace_path); texts are borrowed from them. Removes the used names from `kwargs`, a dict. */
int pyhr_seed(PyObject *v, uint64_t *out); /* NULL and None give 0; returns -1 with an exception */
int pyhr_feed_options(PyObject *kwargs, hr_feed_options *out);
/* `arg` (NULL, None or a sequence) as a tuple of (Calls, handler); new reference. */
PyObject *pyhr_inline_calls(pyhr_state *s, PyObject *arg);

/* --- py_split.c */

int pyhr_split_types(PyObject *module, pyhr_state *s);

#endif
