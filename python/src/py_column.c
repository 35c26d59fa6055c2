/* py_column.c - Column: one column, with the buffer protocol.
 *
 * The protocol works for *dense* rows: fixed width without nulls, or lists and tensors whose rows all have one shape.
 * The column unpacks booleans into bytes that it owns, and exports dates and times as integers; `time` names their
 * numpy type ("M8[us]"). Buffers are read-only unless the consumer requests a writable one and the table is the only
 * owner of its memory (hr_table.sole). */
#include "pyhr.h"

#include <stdio.h>

typedef struct column_object {
    PyObject ob_base;
    hr_array *array;
    PyObject *name; /* str; NULL: a child of another column */
    bool writable;
    int dense; /* -1: not known yet */
    /* valid only if dense */
    const hr_type *value;
    const uint8_t *data;
    hr_buffer *bools; /* booleans, unpacked to bytes */
    Py_ssize_t itemsize, n_bytes;
    int ndim;
    Py_ssize_t shape[HR_MAX_DIMS + 1], strides[HR_MAX_DIMS + 1];
    char format[2];
} column_object;

PyObject *pyhr_column(pyhr_state *s, hr_array *takes, PyObject *name, bool writable)
{
    column_object *self = PyObject_New(column_object, s->column);

    if (!self) {
        hr__array_unref(takes);
        return NULL;
    }
    self->array = takes;
    self->name = name ? Py_NewRef(name) : NULL;
    self->writable = writable;
    self->dense = -1;
    self->bools = NULL;
    return (PyObject *)self;
}

static void column_dealloc(PyObject *op)
{
    column_object *self = (column_object *)op;
    PyTypeObject *type = Py_TYPE(op);

    hr__array_unref(self->array);
    hr__buffer_unref(self->bools);
    Py_XDECREF(self->name);
    PyObject_Free(op);
    Py_DECREF(type);
}

/* The struct module's code of a type's values, for times that of their integers; 0: none. */
static char format_of(const hr_type *t)
{
    switch (t->id) {
    case HR_T_BOOL: return '?';
    case HR_T_INT8: return 'b';
    case HR_T_UINT8: return 'B';
    case HR_T_INT16: return 'h';
    case HR_T_UINT16: return 'H';
    case HR_T_INT32:
    case HR_T_DATE32: return 'i';
    case HR_T_UINT32: return 'I';
    case HR_T_INT64:
    case HR_T_DATE64:
    case HR_T_TIMESTAMP:
    case HR_T_DURATION: return sizeof(long) == 8 ? 'l' : 'q'; /* numpy's int64 is C's long if that has 64 bits */
    case HR_T_UINT64: return sizeof(long) == 8 ? 'L' : 'Q';
    case HR_T_FLOAT16: return 'e';
    case HR_T_FLOAT32: return 'f';
    case HR_T_FLOAT64: return 'd';
    default: return 0;
    }
}

/* Finds out whether the rows are dense, and fills the fields of the buffer protocol. -1: an exception. */
static int column_look(pyhr_state *s, column_object *self)
{
    const hr_array *a = self->array, *values = a;
    int64_t begin = 0, n = a->length, shape[HR_MAX_DIMS];
    int n_dims = 0;
    char format;

    if (self->dense >= 0)
        return 0;
    self->dense = 0;
    if (!hr__array_dense(a, &n_dims, shape, &values, &begin))
        return 0;
    format = format_of(values->type);
    if (!format)
        return 0;
    self->value = values->type;
    self->format[0] = format;
    self->format[1] = 0;
    self->itemsize = format == '?' ? 1 : hr__type_bytes(values->type);
    self->ndim = n_dims + 1;
    self->shape[0] = (Py_ssize_t)a->length;
    for (int d = 0; d < n_dims; d++) {
        self->shape[d + 1] = (Py_ssize_t)shape[d];
        n *= shape[d];
    }
    self->strides[n_dims] = self->itemsize;
    for (int d = n_dims; d > 0; d--)
        self->strides[d - 1] = self->strides[d] * self->shape[d];
    self->n_bytes = (Py_ssize_t)n * self->itemsize;
    if (format == '?') {
        hr_error err = HR_ERROR_INIT;
        hr_status st = hr__buffer_new(&(hr_mem){ 0 }, n, &self->bools, &err);

        if (st) {
            pyhr_raise(s, st, &err);
            return -1;
        }
        for (int64_t i = 0; i < n; i++)
            self->bools->data[i] = hr__bit(values->buffers[1]->data, values->offset + begin + i);
        self->data = self->bools->data;
        self->writable = true;
    } else {
        self->data = n ? hr__array_values(values) + begin * self->itemsize : (const uint8_t *)"";
    }
    self->dense = 1;
    return 0;
}

static int column_getbuffer(PyObject *op, Py_buffer *view, int flags)
{
    column_object *self = (column_object *)op;
    pyhr_state *s = pyhr_state_of(op);

    view->obj = NULL;
    if (column_look(s, self) < 0)
        return -1;
    if (!self->dense) {
        PyObject *type = pyhr_type_object(self->array->type);

        if (type)
            PyErr_Format(PyExc_BufferError, "column %R of type %U is not dense%s", self->name ? self->name : Py_None,
                         type, hr__array_null_count(self->array) ? ": it has nulls" : "");
        Py_XDECREF(type);
        return -1;
    }
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE && !self->writable) {
        PyErr_SetString(PyExc_BufferError, "expected a read-only buffer, found a request for a writable one");
        return -1;
    }
    *view = (Py_buffer){
        .buf = (void *)(uintptr_t)self->data,
        .obj = Py_NewRef(op),
        .len = self->n_bytes,
        .itemsize = self->itemsize,
        .readonly = !self->writable,
        .ndim = self->ndim,
        .format = flags & PyBUF_FORMAT ? self->format : NULL,
        .shape = (flags & PyBUF_ND) == PyBUF_ND ? self->shape : NULL,
        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL,
    };
    return 0;
}

static Py_ssize_t column_length(PyObject *op) { return (Py_ssize_t)((column_object *)op)->array->length; }

static PyObject *column_dense(PyObject *op, void *none)
{
    (void)none;
    if (column_look(pyhr_state_of(op), (column_object *)op) < 0)
        return NULL;
    return PyBool_FromLong(((column_object *)op)->dense);
}

/* numpy's name of a time type. */
static PyObject *time_name(const hr_type *t)
{
    char text[16];

    if (t->id == HR_T_DATE32)
        return PyUnicode_FromString("M8[D]");
    if (t->id == HR_T_DATE64)
        return PyUnicode_FromString("M8[ms]");
    if (t->id != HR_T_TIMESTAMP && t->id != HR_T_DURATION)
        return Py_NewRef(Py_None);
    snprintf(text, sizeof text, "%c8[%s]", t->id == HR_T_TIMESTAMP ? 'M' : 'm', pyhr_unit_text(t->unit));
    return PyUnicode_FromString(text);
}

static PyObject *column_time(PyObject *op, void *none)
{
    const hr_type *t = ((column_object *)op)->array->type;

    (void)none;
    while (t->n_children == 1 &&
           (t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || t->id == HR_T_FIXED_LIST || t->id == HR_T_TENSOR))
        t = t->children[0].type;
    return time_name(t);
}

static PyObject *column_name(PyObject *op, void *none)
{
    PyObject *name = ((column_object *)op)->name;

    (void)none;
    return Py_NewRef(name ? name : Py_None);
}

static PyObject *column_type(PyObject *op, void *none)
{
    (void)none;
    return pyhr_type_object(((column_object *)op)->array->type);
}

/* The kind of type, without parameters: "int", "list", "struct", ... */
static PyObject *column_kind(PyObject *op, void *none)
{
    static const char *const kinds[HR_N_TYPES] = {
        [HR_T_NULL] = "null",
        [HR_T_BOOL] = "bool",
        [HR_T_INT8] = "int",
        [HR_T_UINT8] = "int",
        [HR_T_INT16] = "int",
        [HR_T_UINT16] = "int",
        [HR_T_INT32] = "int",
        [HR_T_UINT32] = "int",
        [HR_T_INT64] = "int",
        [HR_T_UINT64] = "int",
        [HR_T_FLOAT16] = "float",
        [HR_T_FLOAT32] = "float",
        [HR_T_FLOAT64] = "float",
        [HR_T_STRING] = "string",
        [HR_T_LARGE_STRING] = "string",
        [HR_T_BINARY] = "binary",
        [HR_T_LARGE_BINARY] = "binary",
        [HR_T_FIXED_BINARY] = "binary",
        [HR_T_DATE32] = "time",
        [HR_T_DATE64] = "time",
        [HR_T_TIME32] = "clock",
        [HR_T_TIME64] = "clock",
        [HR_T_TIMESTAMP] = "time",
        [HR_T_DURATION] = "time",
        [HR_T_DECIMAL128] = "decimal",
        [HR_T_DECIMAL256] = "decimal",
        [HR_T_MONTHS] = "interval",
        [HR_T_DAY_TIME] = "interval",
        [HR_T_MONTH_DAY_NANO] = "interval",
        [HR_T_LIST] = "list",
        [HR_T_LARGE_LIST] = "list",
        [HR_T_FIXED_LIST] = "list",
        [HR_T_STRUCT] = "struct",
        [HR_T_MAP] = "map",
        [HR_T_TENSOR] = "tensor",
    };

    (void)none;
    if (hr__type_is_ragged(((column_object *)op)->array->type))
        return PyUnicode_FromString("ragged");
    if (((column_object *)op)->array->type->pickled)
        return PyUnicode_FromString("object");
    return PyUnicode_FromString(kinds[((column_object *)op)->array->type->id]);
}

static PyObject *column_n_bytes(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__array_bytes_used(((column_object *)op)->array));
}

static PyObject *column_null_count(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__array_null_count(((column_object *)op)->array));
}

static PyObject *column_shape(PyObject *op, void *none)
{
    const hr_type *t = ((column_object *)op)->array->type;
    PyObject *shape;

    (void)none;
    if (t->id != HR_T_TENSOR)
        Py_RETURN_NONE;
    shape = PyTuple_New(t->n_dims);
    for (int i = 0; shape && i < t->n_dims; i++) {
        PyObject *n = PyLong_FromLongLong(t->shape[i]);

        if (!n || PyTuple_SetItem(shape, i, n) < 0)
            Py_CLEAR(shape);
    }
    return shape;
}

static PyObject *column_to_pylist(PyObject *op, PyObject *none)
{
    (void)none;
    return pyhr_array_list(pyhr_state_of(op), ((column_object *)op)->array);
}

PyObject *pyhr_column_filled(pyhr_state *s, PyObject *op)
{
    column_object *self = (column_object *)op;
    hr_error err = HR_ERROR_INIT;
    hr_array *filled = NULL;
    hr_status st;

    Py_BEGIN_ALLOW_THREADS
    st = hr__array_fill_nulls(&(hr_mem){ 0 }, self->array, &filled, &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : pyhr_column(s, filled, self->name, true);
}

static PyObject *column_filled(PyObject *op, PyObject *none)
{
    (void)none;
    return pyhr_column_filled(pyhr_state_of(op), op);
}

/* Booleans, False for null rows; None if no row is null. */
static PyObject *column_valid(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    const hr_array *a = ((column_object *)op)->array;
    hr_error err = HR_ERROR_INIT;
    hr_array *valid = NULL;
    hr_status st;

    (void)none;
    if (!hr__array_null_count(a))
        Py_RETURN_NONE;
    if (a->type->id == HR_T_NULL) {
        hr_buffer *zeros = NULL;

        if ((st = hr__buffer_new(&(hr_mem){ 0 }, hr__bits_bytes(a->length), &zeros, &err)))
            return pyhr_raise(s, st, &err);
        memset(zeros->data, 0, (size_t)zeros->n_bytes);
        st = hr__array_new(hr__type_simple(HR_T_BOOL), a->length, 0, (hr_buffer *[3]){ NULL, zeros, NULL }, NULL, 0,
                           &valid, &err);
    } else {
        st = hr__array_new(hr__type_simple(HR_T_BOOL), a->length, 0,
                           (hr_buffer *[3]){ NULL, hr__buffer_ref(a->buffers[0]), NULL }, NULL, 0, &valid, &err);
        if (!st)
            valid->offset = a->offset;
    }
    return st ? pyhr_raise(s, st, &err) : pyhr_column(s, valid, NULL, false);
}

/* Lists as (starts, lengths, values): two int64 columns with one value per row, and the values of all lists. */
static PyObject *column_lists(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    const hr_array *a = ((column_object *)op)->array;
    hr_error err = HR_ERROR_INIT;
    hr_buffer *starts = NULL, *lengths = NULL;
    hr_array *of_starts = NULL, *of_lengths = NULL, *values = NULL;
    PyObject *x = NULL, *y = NULL, *z = NULL, *made = NULL;
    int64_t low = INT64_MAX, high = 0, n_bytes = a->length * 8;
    hr_status st = HR_OK;

    (void)none;
    if (a->n_children != 1 || a->type->id == HR_T_STRUCT) {
        PyErr_SetString(PyExc_TypeError, "expected a list column");
        return NULL;
    }
    HR_GO(hr__buffer_new(&(hr_mem){ 0 }, n_bytes, &starts, &err));
    HR_GO(hr__buffer_new(&(hr_mem){ 0 }, n_bytes, &lengths, &err));
    for (int64_t i = 0; i < a->length; i++) {
        int64_t begin = 0, n = 0;

        if (!hr__array_is_null(a, i))
            hr__array_range(a, i, &begin, &n);
        if (n) {
            low = HR_MIN(low, begin);
            high = HR_MAX(high, begin + n);
        }
        memcpy(starts->data + i * 8, &begin, 8);
        memcpy(lengths->data + i * 8, &n, 8);
    }
    low = HR_MIN(low, high);
    for (int64_t i = 0; i < a->length; i++) {
        int64_t begin, n;

        memcpy(&begin, starts->data + i * 8, 8);
        memcpy(&n, lengths->data + i * 8, 8);
        begin = n ? begin - low : 0;
        memcpy(starts->data + i * 8, &begin, 8);
    }
    HR_GO(hr__array_slice(a->children[0], low, high - low, &values, &err));
    st = hr__array_new(hr__type_simple(HR_T_INT64), a->length, 0, (hr_buffer *[3]){ NULL, starts, NULL }, NULL, 0,
                       &of_starts, &err);
    starts = NULL;
    HR_GO(st);
    st = hr__array_new(hr__type_simple(HR_T_INT64), a->length, 0, (hr_buffer *[3]){ NULL, lengths, NULL }, NULL, 0,
                       &of_lengths, &err);
    lengths = NULL;
    HR_GO(st);
    x = pyhr_column(s, of_starts, NULL, false);
    y = pyhr_column(s, of_lengths, NULL, false);
    z = pyhr_column(s, values, ((column_object *)op)->name, ((column_object *)op)->writable);
    of_starts = of_lengths = values = NULL;
    if (x && y && z)
        made = PyTuple_Pack(3, x, y, z);
done:
    if (st)
        pyhr_raise(s, st, &err);
    Py_XDECREF(x);
    Py_XDECREF(y);
    Py_XDECREF(z);
    hr__array_unref(of_starts);
    hr__array_unref(of_lengths);
    hr__array_unref(values);
    hr__buffer_unref(starts);
    hr__buffer_unref(lengths);
    return made;
}

/* Child i of a struct, with the rows of the column. */
static PyObject *column_part(PyObject *op, PyObject *arg)
{
    const hr_array *a = ((column_object *)op)->array;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_array *part = NULL;
    long i = PyLong_AsLong(arg);
    hr_status st;

    if (i == -1 && PyErr_Occurred())
        return NULL;
    if (a->type->id != HR_T_STRUCT || i < 0 || i >= a->n_children) {
        PyErr_SetString(PyExc_IndexError, "expected the number of a child of a struct");
        return NULL;
    }
    st = hr__array_slice(a->children[i], a->offset, a->length, &part, &err);
    return st ? pyhr_raise(s, st, &err) : pyhr_column(s, part, ((column_object *)op)->name, false);
}

/* Writes the objects of to_pylist() into a one-dimensional object array of numpy. */
static PyObject *column_fill(PyObject *op, PyObject *into)
{
    const hr_array *a = ((column_object *)op)->array;
    Py_buffer view;
    int rc;

    if (PyObject_GetBuffer(into, &view, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_STRIDES) < 0)
        return NULL;
    if (view.ndim != 1 || !view.format || strcmp(view.format, "O") != 0 || view.shape[0] != a->length) {
        PyErr_SetString(PyExc_TypeError, "fill: expected an object array with one item per row");
        rc = -1;
    } else {
        rc = pyhr_array_fill(pyhr_state_of(op), a, view.buf, view.strides[0]);
    }
    PyBuffer_Release(&view);
    return rc < 0 ? NULL : Py_NewRef(into);
}

static PyObject *column_arrow(PyObject *op, PyObject *args, PyObject *kwargs)
{
    pyhr_state *s = pyhr_state_of(op);
    column_object *self = (column_object *)op;
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema schema;
    struct ArrowArray array;
    PyObject *a, *b, *pair;
    hr_status st;

    (void)args, (void)kwargs; /* requested_schema: the protocol allows to ignore it */
    if ((st = hr__type_export(self->array->type, &schema, &err)))
        return pyhr_raise(s, st, &err);
    if ((st = hr__array_export(self->array, &array, &err))) {
        schema.release(&schema);
        return pyhr_raise(s, st, &err);
    }
    a = pyhr_schema_capsule(&schema);
    b = pyhr_array_capsule(&array);
    pair = a && b ? PyTuple_Pack(2, a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return pair;
}

hr_array *pyhr_column_of(pyhr_state *s, PyObject *op)
{
    return Py_IS_TYPE(op, s->column) ? ((column_object *)op)->array : NULL;
}

static PyMethodDef column_methods[] = {
    { "to_pylist", column_to_pylist, METH_NOARGS, "A list of one Python object per row; None for null." },
    { "fill", column_fill, METH_O,
      "fill(array): writes the objects of to_pylist() into a one-dimensional object array; returns it." },
    { "filled", column_filled, METH_NOARGS,
      "A copy with NaN for nulls; integers become float64, dates and times int64 with numpy's NaT." },
    { "valid", column_valid, METH_NOARGS, "Boolean column, False for nulls; None if there are no nulls." },
    { "lists", column_lists, METH_NOARGS, "(starts, lengths, values) of a list column." },
    { "part", column_part, METH_O, "part(i): child i of a struct, as a column." },
    { "__arrow_c_array__", (PyCFunction)(void (*)(void))column_arrow, METH_VARARGS | METH_KEYWORDS,
      "Arrow's PyCapsules." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef column_getset[] = {
    { "name", column_name, NULL, "Name, or None.", NULL },
    { "type", column_type, NULL, "The type in Arrow's notation.", NULL },
    { "kind", column_kind, NULL,
      "bool, int, float, string, binary, object, time, clock, decimal, list, tensor, ragged, struct, map, null.",
      NULL },
    { "dense", column_dense, NULL, "Whether the buffer protocol works, with shape (rows, *shape of a row).", NULL },
    { "time", column_time, NULL, "numpy's type of dates and times ('M8[us]'); otherwise None.", NULL },
    { "shape", column_shape, NULL, "Shape of a row of tensors; otherwise None.", NULL },
    { "n_bytes", column_n_bytes, NULL, "Bytes that its rows use.", NULL },
    { "null_count", column_null_count, NULL, "Number of nulls.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot column_slots[] = {
    { Py_tp_doc, "One column. Shares the table's memory, which lives as long as any view of the column." },
    { Py_tp_dealloc, column_dealloc },
    { Py_tp_methods, column_methods },
    { Py_tp_getset, column_getset },
    { Py_sq_length, column_length },
    { Py_bf_getbuffer, column_getbuffer },
    { 0, NULL },
};

static PyType_Spec column_spec = {
    .name = "headrace._core.Column",
    .basicsize = sizeof(column_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = column_slots,
};

int pyhr_column_types(PyObject *module, pyhr_state *s) { return pyhr_add_type(module, &column_spec, &s->column); }

int pyhr_column_flat(pyhr_state *s, PyObject *op, bool *flat, bool *writable)
{
    column_object *c = (column_object *)op;

    if (column_look(s, c) < 0)
        return -1;
    *flat = c->dense && c->value->id != HR_T_TIMESTAMP && c->value->id != HR_T_DURATION &&
            c->value->id != HR_T_DATE32 && c->value->id != HR_T_DATE64;
    *writable = c->writable;
    return 0;
}

bool pyhr_column_is_number(PyObject *op)
{
    hr_type_id id = ((column_object *)op)->array->type->id;

    return id >= HR_T_INT8 && id <= HR_T_FLOAT64;
}
