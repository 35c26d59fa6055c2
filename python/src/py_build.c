/* py_build.c - makes columns and tables from Python objects; for lists it looks at every value.
 *
 * One pass over a list's values finds its type: None, bool, int, float, str, bytes, list, dict, arrays, and the types
 * of headrace.data.convert (dates, times, decimals, objects with __array__). Integers and floats together get the wider
 * type; another mix is an error that names column, row and both types. headrace.data.convert first converts objects
 * without a readable buffer (numpy's dates, torch tensors, pandas' arrays).
 *
 * A sequence without a common type becomes a column of pickles, if headrace.data.convert allows it. */
#include "py_build.h"

#include <stdarg.h>
#include <stdio.h>

enum { K_NULL = 1, K_NUMBER = 2, K_TEXT = 4, K_BYTES = 8, K_LIST = 16, K_DICT = 32, K_ARRAY = 64, K_SPECIAL = 128 };

/* ----------------------------------------------------------------------------------------------------------- errors */

int pyhr_fail(pyhr_build *b, int64_t bad, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(b->why, sizeof b->why, fmt, args);
    va_end(args);
    b->bad = bad;
    return -1;
}

/* Writes the name of the object's type into `text`; returns `text`. */
static const char *type_name(PyObject *o, char text[80])
{
    PyObject *name = PyType_GetName(Py_TYPE(o));
    const char *utf8 = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;

    snprintf(text, 80, "%s", utf8 ? utf8 : "?");
    Py_XDECREF(name);
    PyErr_Clear();
    return text;
}

static bool is_named(PyObject *o, const char *name)
{
    char text[80];

    return strcmp(type_name(o, text), name) == 0;
}

/* The same buffers with another type of the same layout. Takes `a`. */
static hr_array *retype(pyhr_build *b, hr_array *a, const char *format)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *type = NULL;
    hr_array *made = NULL;
    hr_status st = a ? hr__type_from_format(format, NULL, 0, &type, &err) : HR_OK;

    if (!a)
        return NULL;
    if (!st && hr__type_bytes(type) != hr__type_bytes(a->type))
        st = hr_error_set(&err, HR_BUG, "values of %d bytes as Arrow type \"%s\"", hr__type_bytes(a->type), format);
    if (!st)
        st = hr__array_new(type, a->length, -1,
                           (hr_buffer *[3]){ hr__buffer_ref(a->buffers[0]), hr__buffer_ref(a->buffers[1]), NULL }, NULL,
                           0, &made, &err);
    hr__type_unref(type);
    hr__array_unref(a);
    return st ? pyhr_raise(b->s, st, &err) : made;
}

/* ------------------------------------------------------------------------------------------------- numbers in lists */

typedef struct number {
    hr_type_id id;
    int64_t i; /* signed integers and bool; the bits of unsigned integers */
    double d;  /* floats */
    uint8_t raw[8];
} number;

static bool is_signed(hr_type_id id)
{
    return id == HR_T_INT8 || id == HR_T_INT16 || id == HR_T_INT32 || id == HR_T_INT64;
}
static bool is_unsigned(hr_type_id id)
{
    return id == HR_T_UINT8 || id == HR_T_UINT16 || id == HR_T_UINT32 || id == HR_T_UINT64;
}
static bool is_float(hr_type_id id) { return id == HR_T_FLOAT16 || id == HR_T_FLOAT32 || id == HR_T_FLOAT64; }

static double half_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff), bits;
    float f;

    if (rest < 0x0400) /* zero, subnormal */
        return (sign ? -1 : 1) * (double)rest / 16777216.0;
    bits = sign | (rest >= 0x7c00 ? 0x7f800000u | (rest & 0x3ff) << 13 : (rest << 13) + (112u << 23));
    memcpy(&f, &bits, 4);
    return f;
}

/* Reads a value from memory. */
static void number_read(number *out, hr_type_id id, const void *p)
{
    int bytes = id == HR_T_BOOL ? 1 : hr__type_bytes(hr__type_simple(id));

    *out = (number){ .id = id };
    memcpy(out->raw, p, (size_t)bytes);
#define READ(ctype, member)                                                                                            \
    do {                                                                                                               \
        ctype x_;                                                                                                      \
        memcpy(&x_, p, sizeof x_);                                                                                     \
        out->member = x_;                                                                                              \
    } while (0)
    switch (id) {
    case HR_T_BOOL: out->i = out->raw[0] != 0; break;
    case HR_T_INT8: READ(int8_t, i); break;
    case HR_T_INT16: READ(int16_t, i); break;
    case HR_T_INT32: READ(int32_t, i); break;
    case HR_T_INT64: READ(int64_t, i); break;
    case HR_T_UINT8: READ(uint8_t, i); break;
    case HR_T_UINT16: READ(uint16_t, i); break;
    case HR_T_UINT32: READ(uint32_t, i); break;
    case HR_T_UINT64: memcpy(&out->i, p, 8); break;
    case HR_T_FLOAT32: READ(float, d); break;
    case HR_T_FLOAT64: READ(double, d); break;
    case HR_T_FLOAT16: {
        uint16_t h;
        memcpy(&h, p, 2);
        out->d = half_value(h);
        break;
    }
    default: break;
    }
#undef READ
}

/* Reads a bool, int, float or numpy scalar. 1: done; 0: another type; -1: an exception, or b->why. */
static int number_get(pyhr_build *b, PyObject *o, int64_t row, number *out)
{
    *out = (number){ 0 };
    if (PyBool_Check(o)) {
        out->id = HR_T_BOOL;
        out->i = out->raw[0] = o == Py_True;
        return 1;
    }
    if (PyLong_Check(o)) {
        int over = 0;

        out->id = HR_T_INT64;
        out->i = PyLong_AsLongLongAndOverflow(o, &over);
        if (over > 0) {
            out->id = HR_T_UINT64;
            out->i = (int64_t)PyLong_AsUnsignedLongLong(o);
        }
        if (over < 0 || PyErr_Occurred()) {
            PyErr_Clear();
            return pyhr_fail(b, row, "expected an int of at most 64 bits, found a larger one");
        }
        memcpy(out->raw, &out->i, 8);
        return 1;
    }
    if (PyFloat_Check(o)) {
        out->id = HR_T_FLOAT64;
        out->d = PyFloat_AsDouble(o);
        memcpy(out->raw, &out->d, 8);
        return 1;
    }
    if (PyObject_CheckBuffer(o)) {
        Py_buffer view;
        hr_type_id id;

        if (PyObject_GetBuffer(o, &view, PyBUF_FORMAT | PyBUF_STRIDES) < 0) {
            PyErr_Clear();
            return 0;
        }
        if (view.ndim == 0 && pyhr_format_of(&view, &id) == 0) {
            number_read(out, id, view.buf);
            PyBuffer_Release(&view);
            return 1;
        }
        PyBuffer_Release(&view);
    }
    return 0;
}

/* The type that holds both; HR_T_NULL if there is none. */
static hr_type_id promote(hr_type_id a, hr_type_id b)
{
    int wide_a, wide_b;

    if (a == b || b == HR_T_NULL)
        return a;
    if (a == HR_T_NULL)
        return b;
    if (a == HR_T_BOOL || b == HR_T_BOOL)
        return HR_T_NULL;
    wide_a = hr__type_bytes(hr__type_simple(a));
    wide_b = hr__type_bytes(hr__type_simple(b));
    if (is_float(a) != is_float(b))
        return HR_T_FLOAT64;
    if (is_float(a) || is_signed(a) == is_signed(b))
        return wide_a > wide_b ? a : b;
    if (a == HR_T_UINT64 || b == HR_T_UINT64)
        return HR_T_UINT64; /* number_put() refuses negative values */
    return HR_T_INT64;
}

/* Whether a double holds an integer exactly: its odd part has at most 53 bits. */
static bool is_double(const number *x)
{
    uint64_t v = x->id != HR_T_UINT64 && x->i < 0 ? 0 - (uint64_t)x->i : (uint64_t)x->i;

    return v == 0 || v >> __builtin_ctzll(v) <= (uint64_t)1 << 53;
}

/* Writes the number as type `id` to p. false: it does not fit. */
static bool number_put(const number *x, hr_type_id id, uint8_t *p)
{
    double d = is_float(x->id) ? x->d : x->id == HR_T_UINT64 ? (double)(uint64_t)x->i : (double)x->i;
    float f = (float)d;

    if (x->id == id) {
        memcpy(p, x->raw, (size_t)hr__type_bytes(hr__type_simple(id)));
        return true;
    }
    switch (id) {
    case HR_T_FLOAT64: memcpy(p, &d, 8); return is_float(x->id) || is_double(x);
    case HR_T_FLOAT32: memcpy(p, &f, 4); return true;
    case HR_T_UINT64: memcpy(p, &x->i, 8); return is_unsigned(x->id) || x->i >= 0;
    case HR_T_INT64: memcpy(p, &x->i, 8); return x->id != HR_T_UINT64;
    /* narrower types: the low bytes of two's complement */
    case HR_T_INT32:
    case HR_T_UINT32: memcpy(p, &x->i, 4); return !is_float(x->id);
    case HR_T_INT16:
    case HR_T_UINT16: memcpy(p, &x->i, 2); return !is_float(x->id);
    default: return false;
    }
}

static hr_array *build_numbers(pyhr_build *b, PyObject **v, int64_t n, hr_type_id id)
{
    int bytes = id == HR_T_BOOL ? 0 : hr__type_bytes(hr__type_simple(id));
    hr_buffer *validity = NULL, *values = pyhr_buffer(b, bytes ? n * bytes : hr__bits_bytes(n));

    if (!values)
        return NULL;
    memset(values->data, 0, (size_t)values->n_bytes);
    for (int64_t i = 0; i < n; i++) {
        number x;

        if (v[i] == Py_None)
            continue;
        if (number_get(b, v[i], i, &x) < 0)
            goto failed;
        if (promote(id, x.id) != id || x.id == HR_T_NULL) { /* an object whose buffer changes with each read */
            pyhr_fail(b, i, "the value changed while it was read");
            goto failed;
        }
        if (bytes == 0) {
            if (x.i)
                hr__bit_set(values->data, i);
        } else if (!number_put(&x, id, values->data + i * bytes)) {
            pyhr_fail(b, i,
                      id == HR_T_FLOAT64 ? "an integer that no float holds exactly, in a column of floats"
                                         : "a negative number, in a column with numbers of 64 bits");
            goto failed;
        }
    }
    if (pyhr_validity(b, v, n, &validity) < 0)
        goto failed;
    return pyhr_array(b, hr__type_simple(id), n, validity, values, NULL, NULL, 0);
failed:
    hr__buffer_unref(values);
    return NULL;
}

/* ------------------------------------------------------------------------------------------ text and bytes in lists */

static hr_array *build_bytes(pyhr_build *b, PyObject **v, int64_t n, bool text)
{
    hr_error err = HR_ERROR_INIT;
    hr_growbuf g = { .mem = b->mem };
    hr_buffer *validity = NULL, *offsets = pyhr_buffer(b, (n + 1) * 8);
    int64_t total = 0;

    if (!offsets)
        return NULL;
    memcpy(offsets->data, &total, 8);
    for (int64_t i = 0; i < n; i++) {
        PyObject *encoded = NULL;
        const char *p = "";
        Py_ssize_t len = 0;
        hr_status st;

        if (v[i] == Py_None) {
            ;
        } else if (text) {
            p = PyUnicode_AsUTF8AndSize(v[i], &len);
            if (!p) { /* lone surrogates: they stand for bytes that were not UTF-8 */
                PyErr_Clear();
                encoded = PyUnicode_AsEncodedString(v[i], "utf-8", "surrogateescape");
                if (!encoded)
                    goto failed;
                p = PyBytes_AsString(encoded);
                len = PyBytes_Size(encoded);
            }
        } else if (PyByteArray_Check(v[i])) {
            p = PyByteArray_AsString(v[i]);
            len = PyByteArray_Size(v[i]);
        } else {
            p = PyBytes_AsString(v[i]);
            len = PyBytes_Size(v[i]);
        }
        st = hr__growbuf_add(&g, p, len, &err);
        Py_XDECREF(encoded);
        if (st) {
            pyhr_raise(b->s, st, &err);
            goto failed;
        }
        total += len;
        memcpy(offsets->data + (i + 1) * 8, &total, 8);
    }
    if (pyhr_validity(b, v, n, &validity) < 0)
        goto failed;
    return pyhr_bytes_array(b, text, n, validity, offsets, &g);
failed:
    hr__growbuf_clear(&g);
    hr__buffer_unref(offsets);
    return NULL;
}

/* --------------------------------------------------------------------------------------------------- lists in lists */

/* The row of `offsets` that contains item `at`. */
static int64_t row_of(const hr_buffer *offsets, int64_t n, int64_t at)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t end;

        memcpy(&end, offsets->data + (i + 1) * 8, 8);
        if (at < end)
            return i;
    }
    return -1;
}

static hr_array *build_lists(pyhr_build *b, PyObject **v, int64_t n)
{
    hr_buffer *validity = NULL, *offsets = pyhr_buffer(b, (n + 1) * 8);
    PyObject **items = NULL;
    PyObject **rows = PyMem_Calloc((size_t)n + 1, sizeof *rows); /* each row as a tuple */
    hr_array *values = NULL, *made = NULL;
    int64_t total = 0, at = 0;

    if (!offsets || !rows) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        goto done;
    }
    memcpy(offsets->data, &total, 8);
    for (int64_t i = 0; i < n; i++) {
        if (v[i] != Py_None && !(rows[i] = PySequence_Tuple(v[i])))
            goto done;
        total += rows[i] ? PyTuple_Size(rows[i]) : 0;
        memcpy(offsets->data + (i + 1) * 8, &total, 8);
    }
    items = PyMem_Calloc((size_t)total + 1, sizeof *items);
    if (!items) {
        PyErr_NoMemory();
        goto done;
    }
    for (int64_t i = 0; i < n; i++)
        for (Py_ssize_t k = 0; rows[i] && k < PyTuple_Size(rows[i]); k++)
            items[at++] = Py_NewRef(PyTuple_GetItem(rows[i], k));
    values = pyhr_build_items(b, items, total);
    if (!values) {
        if (!PyErr_Occurred() && b->bad >= 0)
            b->bad = row_of(offsets, n, b->bad);
        goto done;
    }
    if (pyhr_validity(b, v, n, &validity) < 0)
        goto done;
    made = pyhr_list_array(b, n, validity, offsets, values);
    offsets = NULL;
    values = NULL;
done:
    for (int64_t i = 0; items && i < at; i++)
        Py_DECREF(items[i]);
    for (int64_t i = 0; rows && i < n; i++)
        Py_XDECREF(rows[i]);
    PyMem_Free(items);
    PyMem_Free(rows);
    hr__array_unref(values);
    hr__buffer_unref(offsets);
    return made;
}

/* --------------------------------------------------------------------------------------------------- dicts in lists */

/* Keys of several dicts, in order of first appearance. */
typedef struct found_keys {
    PyObject *list, *seen;
    bool plain; /* all are exactly of class str, whose hash and == do not run the user's code */
} found_keys;

/* -1: an exception, or b->why. */
static int key_found(pyhr_build *b, found_keys *f, int64_t row, PyObject *key)
{
    char text[80];

    if (!PyUnicode_Check(key))
        return pyhr_fail(b, row, "a dict with a key of type %s, expected str", type_name(key, text));
    if (PyDict_GetItemWithError(f->seen, key))
        return 0;
    return PyErr_Occurred() || PyDict_SetItem(f->seen, key, Py_None) < 0 || PyList_Append(f->list, key) < 0 ? -1 : 0;
}

/* The keys of a dict, from a copied list: the user's code may change the dict meanwhile. */
static int keys_snapshot(pyhr_build *b, found_keys *f, int64_t row, PyObject *dict)
{
    PyObject *own = PyDict_Keys(dict);
    int rc = own ? 0 : -1;

    f->plain = false;
    for (Py_ssize_t k = 0; rc == 0 && k < PyList_Size(own); k++)
        rc = key_found(b, f, row, PyList_GetItem(own, k));
    Py_XDECREF(own);
    return rc;
}

static int keys_add(pyhr_build *b, found_keys *f, int64_t row, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, n = PyList_Size(f->list), k = 0;

    for (; f->plain && PyDict_Next(dict, &at, &key, &value); k++)
        if (k < n && key == PyList_GetItem(f->list, k))
            continue; /* usual: the dicts have the same keys, in the same order */
        else if (!PyUnicode_CheckExact(key))
            f->plain = false;
        else if (key_found(b, f, row, key) < 0)
            return -1;
    return f->plain ? 0 : keys_snapshot(b, f, row, dict);
}

/* Keys of all dicts, in order of first appearance, as a list of str. NULL: an exception, or b->why. */
static PyObject *keys_of(pyhr_build *b, PyObject **v, int64_t n)
{
    found_keys f = { .list = PyList_New(0), .seen = PyDict_New(), .plain = true };
    int rc = f.list && f.seen ? 0 : -1;

    for (int64_t i = 0; rc == 0 && i < n; i++)
        if (v[i] != Py_None)
            rc = keys_add(b, &f, i, v[i]);
    Py_XDECREF(f.seen);
    if (rc < 0)
        Py_CLEAR(f.list);
    return f.list;
}

/* The values of `key`, None for dicts without it; new references in `out`. */
static int values_of(PyObject **v, int64_t n, PyObject *key, PyObject **out)
{
    for (int64_t i = 0; i < n; i++) {
        PyObject *value = v[i] == Py_None ? NULL : PyDict_GetItemWithError(v[i], key);

        if (!value && PyErr_Occurred()) {
            while (i-- > 0)
                Py_DECREF(out[i]);
            return -1;
        }
        out[i] = Py_NewRef(value ? value : Py_None);
    }
    return 0;
}

static hr_array *build_pickles(pyhr_build *b, const char *name, PyObject *values);

/* The values of `key` as pickles, after another conversion failed; looked up again, as it may have replaced items. */
static hr_array *pickle_values(pyhr_build *b, PyObject **v, int64_t n, PyObject *key)
{
    const char *name = pyhr_text(key);
    PyObject *list = name ? PyList_New((Py_ssize_t)n) : NULL;
    hr_array *made;

    for (int64_t i = 0; list && i < n; i++) {
        PyObject *value = PyDict_GetItemWithError(v[i], key);

        if ((!value && PyErr_Occurred()) || PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(value ? value : Py_None)) < 0)
            Py_CLEAR(list);
    }
    made = list ? build_pickles(b, name, list) : NULL;
    Py_XDECREF(list);
    return made;
}

/* A column for each key. Returns their number, or -1 with the failing key in *key (borrowed from keys). pickle: columns
 * without a type may become pickles. */
static Py_ssize_t build_dicts(pyhr_build *b, PyObject **v, int64_t n, PyObject *keys, bool pickle, hr_array **columns,
                              PyObject **key)
{
    Py_ssize_t n_keys = PyList_Size(keys), k = 0;
    PyObject **items = PyMem_Calloc((size_t)n + 1, sizeof *items);

    if (!items) {
        PyErr_NoMemory();
        return -1;
    }
    for (; k < n_keys; k++) {
        *key = PyList_GetItem(keys, k);
        if (values_of(v, n, *key, items) < 0)
            break;
        columns[k] = pyhr_build_items(b, items, n);
        for (int64_t i = 0; i < n; i++)
            Py_DECREF(items[i]);
        if (!columns[k] && pickle)
            columns[k] = pickle_values(b, v, n, *key);
        if (!columns[k])
            break;
    }
    PyMem_Free(items);
    if (k == n_keys)
        return k;
    while (k-- > 0)
        hr__array_unref(columns[k]);
    return -1;
}

/* Fields with these names and types. Returns their number, -1 with an exception; *out is for fields_free. */
static int fields_new(pyhr_build *b, PyObject *keys, hr_array *const *columns, hr_field **out)
{
    int n = (int)PyList_Size(keys);
    hr_error err = HR_ERROR_INIT;

    *out = PyMem_Calloc((size_t)n + 1, sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < n; i++) {
        const char *name = pyhr_text(PyList_GetItem(keys, i));
        hr_status st = name ? hr__field_init(&(*out)[i], name, columns[i]->type, true, &err) : HR_OK;

        if (!name || st) {
            if (st)
                pyhr_raise(b->s, st, &err);
            while (i-- > 0)
                hr__field_clear(&(*out)[i]);
            PyMem_Free(*out);
            *out = NULL;
            return -1;
        }
    }
    return n;
}

static void fields_free(hr_field *fields, int n)
{
    for (int i = 0; fields && i < n; i++)
        hr__field_clear(&fields[i]);
    PyMem_Free(fields);
}

static hr_array *build_structs(pyhr_build *b, PyObject **v, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    PyObject *keys = keys_of(b, v, n), *key = NULL;
    hr_array **columns = keys ? PyMem_Calloc((size_t)PyList_Size(keys) + 1, sizeof *columns) : NULL;
    Py_ssize_t n_columns = 0;
    hr_field *fields = NULL;
    hr_buffer *validity = NULL;
    hr_type *type = NULL;
    hr_array *made = NULL;
    int n_fields = 0;
    hr_status st;

    if (!columns) {
        if (keys)
            PyErr_NoMemory();
        goto done;
    }
    n_columns = build_dicts(b, v, n, keys, false, columns, &key);
    if (n_columns < 0) {
        if (!PyErr_Occurred()) {
            const char *name = pyhr_text(key);
            char why[sizeof b->why];

            memcpy(why, b->why, sizeof why);
            if (name)
                pyhr_fail(b, b->bad, "field '%.100s': %.250s", name, why);
        }
        n_columns = 0;
        goto done;
    }
    n_fields = fields_new(b, keys, columns, &fields);
    if (n_fields < 0 || pyhr_validity(b, v, n, &validity) < 0)
        goto done;
    st = hr__type_struct(fields, n_fields, &type, &err);
    if (st) {
        pyhr_raise(b->s, st, &err);
        hr__buffer_unref(validity);
        goto done;
    }
    made = pyhr_array(b, type, n, validity, NULL, NULL, columns, n_fields);
    n_columns = 0; /* taken */
done:
    for (Py_ssize_t i = 0; i < n_columns; i++)
        hr__array_unref(columns[i]);
    fields_free(fields, n_fields);
    hr__type_unref(type);
    PyMem_Free(columns);
    Py_XDECREF(keys);
    return made;
}

/* --------------------------------------------------------------------------------------------------- types of lists */

typedef struct seen {
    int kinds;
    int64_t first; /* index of the first item that is not None */
    hr_type_id number;
} seen;

/* Records for `row` that no column has the type of `o`, a value or an array. Returns 0. */
static int no_type(pyhr_build *b, PyObject *o, int64_t row)
{
    PyObject *fn = pyhr_convert(b->s, "no_type"), *made = fn ? PyObject_CallFunctionObjArgs(fn, o, NULL) : NULL;
    const char *text = made ? pyhr_text(made) : NULL;

    if (text)
        pyhr_fail(b, row, "%.250s", text);
    Py_XDECREF(made);
    Py_XDECREF(fn);
    return 0;
}

/* The kind of one item; convert may replace *o. 0: failed. */
static int kind_of(pyhr_build *b, PyObject **o, int64_t row, hr_type_id *number_id, int again)
{
    number x;
    int is;
    PyObject *fn, *made;

    if (*o == Py_None)
        return K_NULL;
    if (PyUnicode_Check(*o))
        return K_TEXT;
    if (PyBytes_Check(*o) || PyByteArray_Check(*o))
        return K_BYTES;
    if (PyList_Check(*o) || PyTuple_Check(*o))
        return K_LIST;
    if (PyDict_Check(*o))
        return K_DICT;
    is = number_get(b, *o, row, &x);
    if (is < 0)
        return 0;
    if (is) {
        *number_id = x.id;
        return K_NUMBER;
    }
    if (PyObject_CheckBuffer(*o) && !is_named(*o, "datetime64") && !is_named(*o, "timedelta64")) {
        Py_buffer view;

        if (PyObject_GetBuffer(*o, &view, PyBUF_FORMAT | PyBUF_STRIDES) == 0) {
            int ndim = view.ndim;

            PyBuffer_Release(&view);
            if (ndim > 0)
                return K_ARRAY;
        }
        PyErr_Clear();
    }
    if (again)
        return no_type(b, *o, row);
    fn = pyhr_convert(b->s, "item");
    made = fn ? PyObject_CallFunctionObjArgs(fn, *o, NULL) : NULL;
    Py_XDECREF(fn);
    if (!made)
        return 0;
    if (made == Py_NotImplemented) {
        Py_DECREF(made);
        return no_type(b, *o, row);
    }
    if (made == *o) { /* a date, a time, a decimal; or an array without a buffer, of another package's numbers */
        Py_DECREF(made);
        return is_named(*o, "ndarray") ? no_type(b, *o, row) : K_SPECIAL;
    }
    Py_DECREF(*o);
    *o = made;
    return kind_of(b, o, row, number_id, 1);
}

static int disagree(pyhr_build *b, PyObject **v, int64_t row, int64_t first)
{
    char one[80], two[80];

    if (b->depth)
        return pyhr_fail(b, row, "%s among values of type %s", type_name(v[row], one), type_name(v[first], two));
    return pyhr_fail(b, row, "%s, but row %lld has %s", type_name(v[row], one), (long long)first,
                     type_name(v[first], two));
}

static int scan(pyhr_build *b, PyObject **v, int64_t n, seen *out)
{
    *out = (seen){ .first = -1, .number = HR_T_NULL };
    for (int64_t i = 0; i < n; i++) {
        hr_type_id id = HR_T_NULL;
        int kind = kind_of(b, &v[i], i, &id, 0), all;

        if (!kind)
            return -1;
        if (kind == K_NULL) {
            out->kinds |= kind;
            continue;
        }
        if (out->first < 0)
            out->first = i;
        all = (out->kinds & ~K_NULL) | kind;
        if ((all & (all - 1)) && all != (K_LIST | K_ARRAY))
            return disagree(b, v, i, out->first);
        if (kind == K_NUMBER) {
            id = promote(out->number, id);
            if (id == HR_T_NULL)
                return disagree(b, v, i, out->first);
            out->number = id;
        }
        out->kinds |= kind;
    }
    return 0;
}

/* A column from a list of None and bytes, which all have the size of a value of that type. */
static hr_array *fixed_values(pyhr_build *b, PyObject *list, const char *format)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *type = NULL;
    hr_buffer *values = NULL, *validity = NULL;
    hr_array *made = NULL;
    Py_ssize_t n = PyList_Size(list), width;
    hr_status st = n < 0 ? HR_OK : hr__type_from_format(format, NULL, 0, &type, &err);

    if (n < 0 || st)
        return st ? pyhr_raise(b->s, st, &err) : NULL;
    width = hr__type_bytes(type);
    values = pyhr_buffer(b, n * width);
    validity = values ? pyhr_buffer(b, hr__bits_bytes(n)) : NULL;
    if (!validity)
        goto done;
    memset(values->data, 0, (size_t)values->n_bytes);
    memset(validity->data, 0, (size_t)validity->n_bytes);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *v = PyList_GetItem(list, i);
        char *data;
        Py_ssize_t n_bytes;

        if (v == Py_None)
            continue;
        if (PyBytes_AsStringAndSize(v, &data, &n_bytes) < 0 || n_bytes != width) {
            if (!PyErr_Occurred())
                pyhr_fail(b, i, "expected a value of %lld bytes, found %lld", (long long)width, (long long)n_bytes);
            goto done;
        }
        memcpy(values->data + i * width, data, (size_t)width);
        hr__bit_set(validity->data, i);
    }
    made = pyhr_array(b, type, n, validity, values, NULL, NULL, 0);
    values = validity = NULL;
done:
    hr__buffer_unref(values);
    hr__buffer_unref(validity);
    hr__type_unref(type);
    return made;
}

/* Dates, times, decimals: convert.special(list) returns (Arrow format, list of int, bytes or None). */
static hr_array *build_special(pyhr_build *b, PyObject **v, int64_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n), *fn, *pair = NULL, *values;
    const char *format;
    hr_array *made;

    for (int64_t i = 0; list && i < n; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(v[i])) < 0)
            Py_CLEAR(list);
    fn = list ? pyhr_convert(b->s, "special") : NULL;
    pair = fn ? PyObject_CallFunctionObjArgs(fn, list, NULL) : NULL;
    Py_XDECREF(fn);
    Py_XDECREF(list);
    if (!pair || !PyArg_ParseTuple(pair, "sO", &format, &values)) {
        Py_XDECREF(pair);
        return NULL;
    }
    made = format[0] == 'd' ? fixed_values(b, values, format) : retype(b, pyhr_build_values(b, values), format);
    Py_DECREF(pair);
    return made;
}

/* A column of n Python objects; may replace items by equal ones. */
hr_array *pyhr_build_items(pyhr_build *b, PyObject **v, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_array *made = NULL;
    hr_status st;
    seen all;

    if (b->depth >= HR_MAX_DEPTH) {
        pyhr_fail(b, 0, "expected at most %d levels of nesting", HR_MAX_DEPTH);
        return NULL;
    }
    if (scan(b, v, n, &all) < 0)
        return NULL;
    b->depth++;
    switch (all.kinds & ~K_NULL) {
    case 0:
        st = hr__array_nulls(b->mem, hr__type_simple(HR_T_NULL), n, &made, &err);
        if (st)
            pyhr_raise(b->s, st, &err);
        break;
    case K_NUMBER: made = build_numbers(b, v, n, all.number); break;
    case K_TEXT: made = build_bytes(b, v, n, true); break;
    case K_BYTES: made = build_bytes(b, v, n, false); break;
    case K_DICT: made = build_structs(b, v, n); break;
    case K_ARRAY: made = pyhr_build_arrays(b, v, n); break;
    case K_SPECIAL: made = build_special(b, v, n); break;
    default: made = build_lists(b, v, n); break;
    }
    b->depth--;
    return made;
}

/* A column from the result of convert.NAME(list of the items). */
hr_array *pyhr_build_converted(pyhr_build *b, const char *name, PyObject **v, int64_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n), *fn, *plain = NULL;
    hr_array *made = NULL;

    for (int64_t i = 0; list && i < n; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(v[i])) < 0)
            Py_CLEAR(list);
    fn = list ? pyhr_convert(b->s, name) : NULL;
    plain = fn ? PyObject_CallFunctionObjArgs(fn, list, NULL) : NULL;
    if (plain)
        made = pyhr_build_values(b, plain);
    Py_XDECREF(plain);
    Py_XDECREF(fn);
    Py_XDECREF(list);
    return made;
}

/* --------------------------------------------------------------------------------------------------- a whole column */

/* A column through convert.plain(values): (array or list, Arrow format or None, bool array (False: null) or None). */
static hr_array *build_plain(pyhr_build *b, PyObject *values)
{
    PyObject *fn = pyhr_convert(b->s, "plain"), *got, *of, *valid;
    const char *format;
    hr_array *made = NULL;

    got = fn ? PyObject_CallFunctionObjArgs(fn, values, NULL) : NULL;
    Py_XDECREF(fn);
    if (got == Py_NotImplemented) {
        char text[80];

        pyhr_fail(b, -1, "expected an array or a list with a value for each row, found %s", type_name(values, text));
        Py_DECREF(got);
        return NULL;
    }
    if (!got || !PyArg_ParseTuple(got, "OzO", &of, &format, &valid)) {
        Py_XDECREF(got);
        return NULL;
    }
    if (++b->depth < 3) /* the result of plain() needs no further conversion */
        made = pyhr_build_values(b, of);
    else
        no_type(b, of, -1);
    b->depth--;
    if (made && format)
        made = retype(b, made, format);
    if (made && valid != Py_None) {
        hr_array *bits = pyhr_build_values(b, valid), *whole = made;

        made = NULL;
        if (bits && bits->type->id == HR_T_BOOL && bits->length == whole->length && bits->offset == 0 &&
            whole->n_children == 0)
            made = pyhr_array(b, whole->type, whole->length, hr__buffer_ref(bits->buffers[1]),
                              hr__buffer_ref(whole->buffers[1]), hr__buffer_ref(whole->buffers[2]), NULL, 0);
        else if (bits)
            pyhr_fail(b, -1, "expected a mask with one value per row");
        hr__array_unref(bits);
        hr__array_unref(whole);
    }
    Py_DECREF(got);
    return made;
}

/* Whether it is a pandas column of objects. The caller then ignores its Arrow protocol: pyarrow does not convert all
 * objects, and turns sets into lists. */
static bool is_objects(PyObject *values)
{
    PyObject *type = is_named(values, "Series") ? PyObject_GetAttrString(values, "dtype") : NULL;
    PyObject *text = type ? PyObject_Str(type) : NULL;
    bool is = text && PyUnicode_CompareWithASCIIString(text, "object") == 0;

    Py_XDECREF(type);
    Py_XDECREF(text);
    PyErr_Clear();
    return is;
}

hr_array *pyhr_build_values(pyhr_build *b, PyObject *values)
{
    hr_array *made = pyhr_column_of(b->s, values);
    PyObject **items;
    PyObject *tuple;
    Py_ssize_t n;

    if (made)
        return hr__array_ref(made);
    if (PyMemoryView_Check(values) ||
        (PyObject_CheckBuffer(values) && (is_named(values, "ndarray") || is_named(values, "array")))) {
        Py_buffer view;

        if (PyObject_GetBuffer(values, &view, PyBUF_FORMAT | PyBUF_STRIDES) == 0) {
            if (view.ndim == 0)
                pyhr_fail(b, -1, "expected one value per row, found an array without dimensions");
            else
                made = pyhr_build_view(b, values, &view);
            PyBuffer_Release(&view);
            return made;
        }
        PyErr_Clear(); /* numpy's dates have no buffer; convert.plain converts them */
    }
    if (!PyList_Check(values) && !PyTuple_Check(values)) {
        if ((PyObject_HasAttrString(values, "__arrow_c_array__") ||
             PyObject_HasAttrString(values, "__arrow_c_stream__")) &&
            !is_objects(values)) {
            made = pyhr_array_from_arrow(b->s, values);
            if (made || !PyErr_ExceptionMatches(PyExc_ImportError))
                return made;
            PyErr_Clear(); /* a Series of pandas 3, without pyarrow */
        }
        return build_plain(b, values);
    }
    tuple = PySequence_Tuple(values);
    n = tuple ? PyTuple_Size(tuple) : 0;
    items = tuple ? PyMem_Calloc((size_t)n + 1, sizeof *items) : NULL;
    if (!items) {
        if (tuple)
            PyErr_NoMemory();
        Py_XDECREF(tuple);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        items[i] = Py_NewRef(PyTuple_GetItem(tuple, i));
    made = pyhr_build_items(b, items, n);
    for (Py_ssize_t i = 0; i < n; i++)
        Py_DECREF(items[i]);
    PyMem_Free(items);
    Py_DECREF(tuple);
    return made;
}

/* A column of pickles from a list of bytes or None. */
static hr_array *pickle_array(pyhr_build *b, PyObject *list)
{
    hr_error err = HR_ERROR_INIT;
    hr_builder *made = NULL;
    hr_array *out = NULL;
    hr_status st = hr__builder_new(b->mem, hr__type_pickled(), &made, &err);

    for (Py_ssize_t i = 0; !st && i < PyList_Size(list); i++) {
        PyObject *v = PyList_GetItem(list, i);
        char *data;
        Py_ssize_t n;

        if (v != Py_None && PyBytes_AsStringAndSize(v, &data, &n) < 0) {
            hr__builder_free(made);
            return NULL;
        }
        st = v == Py_None ? hr__builder_null(made, &err) : hr__builder_bytes(made, data, n, &err);
    }
    if (!st)
        st = hr__builder_finish(made, &out, &err);
    hr__builder_free(made);
    return st ? pyhr_raise(b->s, st, &err) : out;
}

/* Turns a UnicodeEncodeError that is set into InvalidArgument with the column's name. */
static void name_column(pyhr_build *b, const char *name)
{
    PyObject *kind, *value, *trace, *text;

    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    text = value ? PyObject_Str(value) : NULL;
    if (text)
        PyErr_Format(b->s->errors[hr__status_place(HR_INVALID)], "column '%s': %U", name, text);
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* Raises b->why for column `name`, unless an exception is set. */
static void raise_why(pyhr_build *b, const char *name)
{
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
            name_column(b, name);
        return;
    }
    if (b->bad >= 0)
        pyhr_raise_text(b->s, HR_TYPE, "column '%s', row %lld: %s", name, (long long)b->bad, b->why);
    else
        pyhr_raise_text(b->s, HR_TYPE, "column '%s': %s", name, b->why);
}

/* A column of pickles, after build_values failed with b->why or an exception. convert.pickled(values, name, why)
 * returns the pickle of each value as bytes (None for None), or NotImplemented if there are no pickles. NULL: an
 * exception. */
static hr_array *build_pickles(pyhr_build *b, const char *name, PyObject *values)
{
    PyObject *fn, *list = NULL, *kind = NULL, *reason = NULL, *trace = NULL;
    hr_array *made = NULL;

    if (PyErr_Occurred() && !PyErr_ExceptionMatches(b->s->errors[hr__status_place(HR_TYPE)])) {
        raise_why(b, name);
        return NULL;
    }
    raise_why(b, name);
    PyErr_Fetch(&kind, &reason, &trace);
    PyErr_NormalizeException(&kind, &reason, &trace);
    fn = reason ? pyhr_convert(b->s, "pickled") : NULL;
    list = fn ? PyObject_CallFunction(fn, "OsO", values, name, reason) : NULL;
    Py_XDECREF(fn);
    if (list == Py_NotImplemented)
        PyErr_Restore(Py_XNewRef(kind), Py_XNewRef(reason), Py_XNewRef(trace));
    else if (list)
        made = pickle_array(b, list);
    Py_XDECREF(list);
    Py_XDECREF(kind);
    Py_XDECREF(reason);
    Py_XDECREF(trace);
    return made;
}

static hr_array *build_or_pickle(pyhr_build *b, const char *name, PyObject *values)
{
    hr_array *made = pyhr_build_values(b, values);

    return made ? made : build_pickles(b, name, values);
}

hr_array *pyhr_build_column(pyhr_state *s, const hr_mem *mem, const char *name, PyObject *values)
{
    pyhr_build b = { .s = s, .mem = mem, .bad = -1 };
    hr_array *made;

    pyhr_drain_run(s);
    made = pyhr_build_values(&b, values);
    if (!made)
        raise_why(&b, name);
    return made;
}

/* A table of these columns (taken, even on failure) with the names in `keys`. */
static hr_table *table_of(pyhr_build *b, PyObject *keys, hr_array **columns, int64_t n_rows)
{
    hr_error err = HR_ERROR_INIT;
    hr_field *fields = NULL;
    hr_schema *schema = NULL;
    hr_table *made = NULL;
    int n = fields_new(b, keys, columns, &fields);
    hr_status st = HR_OK;

    if (n < 0) {
        for (Py_ssize_t i = 0; i < PyList_Size(keys); i++)
            hr__array_unref(columns[i]);
        return NULL;
    }
    st = hr__schema_new(fields, n, &schema, &err);
    if (st) {
        for (int i = 0; i < n; i++)
            hr__array_unref(columns[i]);
    } else {
        st = hr__table_new(schema, columns, n_rows, NULL, &made, &err);
    }
    fields_free(fields, n);
    hr__schema_unref(schema);
    return st ? pyhr_raise(b->s, st, &err) : made;
}

hr_table *pyhr_build_table(pyhr_state *s, const hr_mem *mem, PyObject *columns)
{
    pyhr_build b = { .s = s, .mem = mem, .bad = -1 };
    PyObject *keys, *items; /* copies: the methods of values run below and may change the dict */
    Py_ssize_t n = 0, n_items;
    hr_array **built;
    hr_table *made = NULL;

    if (!PyDict_Check(columns)) {
        char text[80];

        return pyhr_raise_text(s, HR_TYPE, "expected a dict of column name to values, found %s",
                               type_name(columns, text));
    }
    pyhr_drain_run(s);
    keys = PyList_New(0);
    items = PyDict_Items(columns);
    n_items = items ? PyList_Size(items) : 0;
    built = PyMem_Calloc((size_t)n_items + 1, sizeof *built);
    if (!keys || !items || !built) {
        PyErr_NoMemory();
        goto done;
    }
    while (n < n_items) {
        PyObject *pair = PyList_GetItem(items, n), *key = PyTuple_GetItem(pair, 0), *values = PyTuple_GetItem(pair, 1);
        const char *name = PyUnicode_Check(key) ? pyhr_text(key) : NULL;
        char text[80];

        if (!name) {
            if (!PyErr_Occurred())
                pyhr_raise_text(s, HR_TYPE, "expected a str as a column's name, found %s", type_name(key, text));
            goto done;
        }
        b.bad = -1;
        if (PyList_Append(keys, key) < 0 || !(built[n] = build_or_pickle(&b, name, values)))
            goto done;
        n++;
        if (built[n - 1]->length != built[0]->length) {
            pyhr_raise_text(s, HR_INVALID, "column '%s' has %lld rows, column '%s' has %lld", name,
                            (long long)built[n - 1]->length, pyhr_text(PyList_GetItem(keys, 0)),
                            (long long)built[0]->length);
            goto done;
        }
    }
    made = table_of(&b, keys, built, n ? built[0]->length : 0);
    n = 0; /* taken */
done:
    for (Py_ssize_t i = 0; i < n; i++)
        hr__array_unref(built[i]);
    PyMem_Free(built);
    Py_XDECREF(items);
    Py_XDECREF(keys);
    return made;
}

hr_table *pyhr_build_rows(pyhr_state *s, const hr_mem *mem, PyObject *rows)
{
    pyhr_build b = { .s = s, .mem = mem, .bad = -1 };
    PyObject *tuple = PySequence_Tuple(rows), *keys = NULL, *key = NULL;
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0, n_columns = 0;
    PyObject **v = tuple ? PyMem_Calloc((size_t)n + 1, sizeof *v) : NULL;
    hr_array **columns = NULL;
    hr_table *made = NULL;

    if (!v) {
        if (tuple)
            PyErr_NoMemory();
        goto done;
    }
    pyhr_drain_run(s);
    for (Py_ssize_t i = 0; i < n; i++) {
        v[i] = PyTuple_GetItem(tuple, i); /* the tuple keeps them alive */
        if (!PyDict_Check(v[i])) {
            char text[80];

            pyhr_raise_text(s, HR_TYPE, "row %lld: expected a dict of column name to value, found %s", (long long)i,
                            type_name(v[i], text));
            goto done;
        }
    }
    keys = keys_of(&b, v, n);
    columns = keys ? PyMem_Calloc((size_t)PyList_Size(keys) + 1, sizeof *columns) : NULL;
    if (!columns) {
        if (!keys && !PyErr_Occurred())
            pyhr_raise_text(s, HR_TYPE, "row %lld: %s", (long long)b.bad, b.why);
        else if (keys)
            PyErr_NoMemory();
        goto done;
    }
    n_columns = build_dicts(&b, v, n, keys, true, columns, &key);
    if (n_columns < 0)
        raise_why(&b, key && !PyErr_Occurred() ? pyhr_text(key) : "");
    else
        made = table_of(&b, keys, columns, n);
done:
    PyMem_Free(columns);
    PyMem_Free(v);
    Py_XDECREF(keys);
    Py_XDECREF(tuple);
    return made;
}
