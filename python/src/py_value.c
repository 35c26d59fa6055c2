/* py_value.c - makes Python objects from values.
 *
 * It covers every type; for dates, times, decimals and pickled objects headrace.data.convert supplies a function, once
 * per column. A small cache by bytes makes repeated strings once. */
#include "pyhr.h"

#include <math.h>

#define MEMO 128 /* size of a reader's cache of strings; a power of two */
#define MEMO_BYTES 32

typedef struct reader {
    pyhr_state *s;
    const hr_array *a; /* borrowed */
    PyObject *make;    /* makes an object from int or bytes, for times, decimals and pickles */
    PyObject **keys;   /* struct: field names */
    struct reader *children;
    int n_children;
    PyObject **memo; /* cache of strings by hash of their bytes; NULL until used */
} reader;

static void reader_clear(reader *r)
{
    Py_CLEAR(r->make);
    for (int i = 0; i < r->n_children; i++) {
        reader_clear(&r->children[i]);
        if (r->keys)
            Py_XDECREF(r->keys[i]);
    }
    for (int i = 0; r->memo && i < MEMO; i++)
        Py_XDECREF(r->memo[i]);
    PyMem_Free(r->memo);
    PyMem_Free(r->keys);
    PyMem_Free(r->children);
    r->memo = NULL;
    r->keys = NULL;
    r->children = NULL;
    r->n_children = 0;
}

const char *pyhr_unit_text(hr_unit u)
{
    static const char *const names[] = { "s", "ms", "us", "ns" };
    return names[u];
}

/* Sets r->make to the result of convert.maker(type name, unit, zone, scale). */
static int reader_maker(reader *r)
{
    const hr_type *t = r->a->type;
    static const char *const names[HR_N_TYPES] = {
        [HR_T_DATE32] = "date32",      [HR_T_DATE64] = "date64",       [HR_T_TIME32] = "time",
        [HR_T_TIME64] = "time",        [HR_T_TIMESTAMP] = "timestamp", [HR_T_DURATION] = "duration",
        [HR_T_DECIMAL128] = "decimal", [HR_T_DECIMAL256] = "decimal",
    };
    PyObject *maker = pyhr_convert(r->s, "maker");

    if (maker)
        r->make = PyObject_CallFunction(maker, "sszi", names[t->id], pyhr_unit_text(t->unit), t->zone, (int)t->scale);
    Py_XDECREF(maker);
    return r->make ? 0 : -1;
}

static int reader_init(reader *r, pyhr_state *s, const hr_array *a)
{
    *r = (reader){ .s = s, .a = a };
    if (a->type->pickled) {
        r->make = pyhr_convert(s, "unpickled");
        return r->make ? 0 : -1;
    }
    switch (a->type->id) {
    case HR_T_DATE32:
    case HR_T_DATE64:
    case HR_T_TIME32:
    case HR_T_TIME64:
    case HR_T_TIMESTAMP:
    case HR_T_DURATION:
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: return reader_maker(r);
    default: break;
    }
    if (!a->n_children)
        return 0;
    r->children = PyMem_Calloc((size_t)a->n_children, sizeof *r->children);
    r->keys = a->type->id == HR_T_STRUCT ? PyMem_Calloc((size_t)a->n_children, sizeof *r->keys) : NULL;
    if (!r->children || (a->type->id == HR_T_STRUCT && !r->keys)) {
        PyErr_NoMemory();
        return -1;
    }
    r->n_children = a->n_children;
    for (int i = 0; i < a->n_children; i++) {
        const char *name = a->type->children[i].name;

        if (reader_init(&r->children[i], s, a->children[i]) < 0)
            return -1;
        if (r->keys && !(r->keys[i] = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape")))
            return -1;
    }
    return 0;
}

static PyObject *text_object(reader *r, const uint8_t *p, int64_t n)
{
    uint32_t h = 2166136261u;
    const char *held;
    Py_ssize_t n_held;
    PyObject *made;

    if (n > MEMO_BYTES)
        return PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)n, "surrogateescape");
    if (!r->memo && !(r->memo = PyMem_Calloc(MEMO, sizeof *r->memo)))
        return PyErr_NoMemory();
    for (int64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 16777619u;
    h = (h ^ (h >> 15)) & (MEMO - 1);
    if (r->memo[h]) {
        held = PyUnicode_AsUTF8AndSize(r->memo[h], &n_held);
        if (held && n_held == n && memcmp(held, p, (size_t)n) == 0)
            return Py_NewRef(r->memo[h]);
        PyErr_Clear(); /* lone surrogates have no UTF-8 */
    }
    made = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)n, "surrogateescape");
    if (made) {
        Py_XDECREF(r->memo[h]);
        r->memo[h] = Py_NewRef(made);
    }
    return made;
}

static double half_to_double(uint16_t h)
{
    int exponent = (h >> 10) & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY) : 0;

    if (exponent == 0)
        v = fraction / 16777216.0; /* 2^-24 */
    else if (exponent < 31)
        v = (1024 + fraction) *
            (exponent >= 25 ? (double)(1 << (exponent - 25)) : 1.0 / (double)(1 << (25 - exponent)));
    return h & 0x8000 ? -v : v;
}

static PyObject *reader_get(reader *r, int64_t i);

/* Values [begin, begin + n) of the child, nested by shape[0..n_dims). */
static PyObject *nested(reader *child, int64_t begin, const int64_t *shape, int n_dims)
{
    int64_t step = 1, n = shape[0];
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (int d = 1; d < n_dims; d++)
        step *= shape[d];
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *v =
            n_dims > 1 ? nested(child, begin + i * step, shape + 1, n_dims - 1) : reader_get(child, begin + i);

        if (!v || PyList_SetItem(list, (Py_ssize_t)i, v) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *struct_object(reader *r, int64_t i)
{
    PyObject *dict = PyDict_New();

    for (int k = 0; dict && k < r->n_children; k++) {
        PyObject *v = reader_get(&r->children[k], r->a->offset + i);

        if (!v || PyDict_SetItem(dict, r->keys[k], v) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(v);
    }
    return dict;
}

/* A row of a map: list of (key, value). */
static PyObject *map_object(reader *r, int64_t begin, int64_t n)
{
    reader *entries = &r->children[0];
    PyObject *list = PyList_New((Py_ssize_t)n);

    for (int64_t j = 0; list && j < n; j++) {
        int64_t at = entries->a->offset + begin + j;
        PyObject *k = reader_get(&entries->children[0], at);
        PyObject *v = k ? reader_get(&entries->children[1], at) : NULL;
        PyObject *pair = v ? PyTuple_Pack(2, k, v) : NULL;

        Py_XDECREF(k);
        Py_XDECREF(v);
        if (!pair || PyList_SetItem(list, (Py_ssize_t)j, pair) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static int64_t integer_at(const hr_array *a, int64_t i)
{
    const uint8_t *p = hr__array_values(a) + i * hr__type_bytes(a->type);
    int32_t four;
    int64_t eight;

    if (hr__type_bytes(a->type) == 4) {
        memcpy(&four, p, 4);
        return four;
    }
    memcpy(&eight, p, 8);
    return eight;
}

/* (days, milliseconds) or (months, days, nanoseconds) */
static PyObject *interval_object(const hr_array *a, int64_t i)
{
    const uint8_t *p = hr__array_values(a) + i * hr__type_bytes(a->type);
    int32_t part[2];
    int64_t ns;

    memcpy(part, p, sizeof part);
    if (a->type->id == HR_T_DAY_TIME)
        return Py_BuildValue("(ii)", (int)part[0], (int)part[1]);
    memcpy(&ns, p + 8, sizeof ns);
    return Py_BuildValue("(iiL)", (int)part[0], (int)part[1], (long long)ns);
}

/* The object of a pickle, read without a copy of its bytes. */
static PyObject *pickled_object(reader *r, int64_t i)
{
    int64_t n;
    const uint8_t *p = hr__array_bytes(r->a, i, &n);
    PyObject *view = PyMemoryView_FromMemory((char *)(uintptr_t)p, (Py_ssize_t)n, PyBUF_READ);
    PyObject *made = view ? PyObject_CallFunctionObjArgs(r->make, view, NULL) : NULL;

    Py_XDECREF(view);
    return made;
}

#define VALUE(ctype) (((const ctype *)(const void *)hr__array_values(a))[i])

/* Row i as a Python object; None for a null. */
static PyObject *reader_get(reader *r, int64_t i)
{
    const hr_array *a = r->a;
    const uint8_t *p;
    int64_t begin, n;

    if (hr__array_is_null(a, i))
        return Py_NewRef(Py_None);
    if (a->type->pickled)
        return pickled_object(r, i);
    switch (a->type->id) {
    case HR_T_BOOL: return PyBool_FromLong(hr__bit(a->buffers[1]->data, a->offset + i));
    case HR_T_INT8: return PyLong_FromLong(VALUE(int8_t));
    case HR_T_UINT8: return PyLong_FromLong(VALUE(uint8_t));
    case HR_T_INT16: return PyLong_FromLong(VALUE(int16_t));
    case HR_T_UINT16: return PyLong_FromLong(VALUE(uint16_t));
    case HR_T_INT32: return PyLong_FromLong(VALUE(int32_t));
    case HR_T_UINT32: return PyLong_FromUnsignedLong(VALUE(uint32_t));
    case HR_T_INT64: return PyLong_FromLongLong(VALUE(int64_t));
    case HR_T_UINT64: return PyLong_FromUnsignedLongLong(VALUE(uint64_t));
    case HR_T_FLOAT16: return PyFloat_FromDouble(half_to_double(VALUE(uint16_t)));
    case HR_T_FLOAT32: return PyFloat_FromDouble((double)VALUE(float));
    case HR_T_FLOAT64: return PyFloat_FromDouble(VALUE(double));
    case HR_T_STRING:
    case HR_T_LARGE_STRING: p = hr__array_bytes(a, i, &n); return text_object(r, p, n);
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY:
    case HR_T_FIXED_BINARY:
        p = hr__array_bytes(a, i, &n);
        return PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)n);
    case HR_T_DATE32:
    case HR_T_DATE64:
    case HR_T_TIME32:
    case HR_T_TIME64:
    case HR_T_TIMESTAMP:
    case HR_T_DURATION: return PyObject_CallFunction(r->make, "L", (long long)integer_at(a, i));
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256:
        n = hr__type_bytes(a->type);
        return PyObject_CallFunction(r->make, "y#", (const char *)hr__array_values(a) + i * n, (Py_ssize_t)n);
    case HR_T_MONTHS: return PyLong_FromLong(VALUE(int32_t));
    case HR_T_DAY_TIME:
    case HR_T_MONTH_DAY_NANO: return interval_object(a, i);
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST: hr__array_range(a, i, &begin, &n); return nested(&r->children[0], begin, &n, 1);
    case HR_T_TENSOR:
        hr__array_range(a, i, &begin, &n);
        return nested(&r->children[0], begin, a->type->shape, a->type->n_dims);
    case HR_T_STRUCT: return struct_object(r, i);
    case HR_T_MAP: hr__array_range(a, i, &begin, &n); return map_object(r, begin, n);
    case HR_T_NULL:
    case HR_N_TYPES: break;
    }
    return Py_NewRef(Py_None);
}

PyObject *pyhr_array_list(pyhr_state *s, const hr_array *a)
{
    reader r;
    PyObject *list = reader_init(&r, s, a) == 0 ? PyList_New((Py_ssize_t)a->length) : NULL;

    for (int64_t i = 0; list && i < a->length; i++) {
        PyObject *v = reader_get(&r, i);

        if (!v || PyList_SetItem(list, (Py_ssize_t)i, v) < 0)
            Py_CLEAR(list);
    }
    reader_clear(&r);
    return list;
}

int pyhr_array_fill(pyhr_state *s, const hr_array *a, char *to, Py_ssize_t stride)
{
    reader r;
    int rc = reader_init(&r, s, a);

    for (int64_t i = 0; rc == 0 && i < a->length; i++, to += stride) {
        PyObject *v = reader_get(&r, i), *old;

        if (!v) {
            rc = -1;
            break;
        }
        memcpy(&old, to, sizeof old);
        memcpy(to, &v, sizeof v);
        Py_XDECREF(old);
    }
    reader_clear(&r);
    return rc;
}

int pyhr_array_rows(pyhr_state *s, const hr_array *a, PyObject *name, PyObject *rows)
{
    reader r;
    int rc = reader_init(&r, s, a);

    for (int64_t i = 0; rc == 0 && i < a->length; i++) {
        PyObject *v = reader_get(&r, i);

        PyObject *row = v ? PyList_GetItem(rows, (Py_ssize_t)i) : NULL;

        rc = row ? PyDict_SetItem(row, name, v) : -1;
        Py_XDECREF(v);
    }
    reader_clear(&r);
    return rc;
}
