/* py_build.c - Python objects as columns: arrays by the buffer protocol, lists by looking at every value.
 *
 * An array of n dimensions is a column of its first dimension's length: fixed width (n = 1) or tensors (n > 1). Values are
 * copied, once, into memory of the caller's choice (a worker's arena), so that nobody can change them later. What has no
 * buffer that we can read (numpy's dates, torch tensors, pandas' arrays) is first made plain by headrace.data.convert.
 *
 * A list's type is found in one pass over its values: None, bool, int, float, str, bytes, list, dict, arrays, and what convert
 * knows (dates, times, decimals, anything with __array__). Integers and floats mix to the wider type; anything else that does
 * not agree is an error naming column, row and both types. Lists of arrays become tensors if all have one shape of two or
 * more dimensions, else lists: rows of one dimension stay lists even where they are equally long, because the next table's may not be
 * (and lists of equal length are dense in batches anyway).
 *
 * Errors: a function that returns NULL or -1 has either set an exception, or written b->why and b->bad (the item), which the
 * callers above translate into their own item, up to the row. */
#include "pyhr.h"

#include <stdarg.h>
#include <stdio.h>

enum { K_NULL = 1, K_NUMBER = 2, K_TEXT = 4, K_BYTES = 8, K_LIST = 16, K_DICT = 32, K_ARRAY = 64, K_SPECIAL = 128 };

typedef struct build {
    pyhr_state *s;
    const hr_mem *mem;
    int depth;
    int64_t bad; /* item that failed; -1: all of them */
    char why[400];
} build;

static hr_array *build_items(build *b, PyObject **v, int64_t n);
static hr_array *build_values(build *b, PyObject *values);

/* -------------------------------------------------------------------------------------------------------------- errors */

static int fail(build *b, int64_t bad, const char *fmt, ...) HR_PRINTF(3, 4);
static int fail(build *b, int64_t bad, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(b->why, sizeof b->why, fmt, args);
    va_end(args);
    b->bad = bad;
    return -1;
}

/* A status of the engine: an exception at once. */
static void *raise(build *b, hr_status st, hr_error *err) { return pyhr_raise(b->s, st, err); }

/* Name of the object's type, into `text`. */
static const char *type_name(PyObject *o, char text[80])
{
    PyObject *name = PyType_GetName(Py_TYPE(o));
    const char *utf8 = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;

    snprintf(text, 80, "%s", utf8 ? utf8 : "?");
    Py_XDECREF(name);
    PyErr_Clear();
    return text;
}

static bool named(PyObject *o, const char *name)
{
    char text[80];

    return strcmp(type_name(o, text), name) == 0;
}

/* --------------------------------------------------------------------------------------------------------- small makers */

static hr_buffer *buffer_new(build *b, int64_t n_bytes)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *made = NULL;
    hr_status st = hr__buffer_new(b->mem, n_bytes, &made, &err);

    return st ? raise(b, st, &err) : made;
}

/* Takes the buffers and the child (or children). */
static hr_array *array_new(build *b, hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *one, hr_buffer *two,
                           hr_array **children, int n_children)
{
    hr_error err = HR_ERROR_INIT;
    hr_array *made = NULL;
    hr_status st = hr__array_new(type, n, validity ? -1 : 0, (hr_buffer *[3]){ validity, one, two }, children,
                                 n_children, &made, &err);

    return st ? raise(b, st, &err) : made;
}

/* Bits, 1 where the item is not None; NULL with *nulls 0 if none is None. -1: an exception. */
static int validity_of(build *b, PyObject *const *v, int64_t n, hr_buffer **out)
{
    int64_t i = 0;

    *out = NULL;
    while (i < n && v[i] != Py_None)
        i++;
    if (i == n)
        return 0;
    *out = buffer_new(b, hr__bits_bytes(n));
    if (!*out)
        return -1;
    memset((*out)->data, 0, (size_t)(*out)->n_bytes);
    for (i = 0; i < n; i++)
        if (v[i] != Py_None)
            hr__bit_set((*out)->data, i);
    return 0;
}

/* The same buffers under another type of the same layout. Takes `a`. */
static hr_array *retype(build *b, hr_array *a, const char *format)
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
    return st ? raise(b, st, &err) : made;
}

/* ------------------------------------------------------------------------------------------------------- buffers' formats */

/* What a buffer's values are: an id of fixed width (or bool), or a code: 'O' objects, 's' bytes, 'w' UCS-4 text, '>' big-endian,
 * 'X' anything else. */
static char format_of(const Py_buffer *view, hr_type_id *id)
{
    static const hr_type_id ints[] = { [1] = HR_T_INT8, [2] = HR_T_INT16, [4] = HR_T_INT32, [8] = HR_T_INT64 };
    static const hr_type_id uints[] = { [1] = HR_T_UINT8, [2] = HR_T_UINT16, [4] = HR_T_UINT32, [8] = HR_T_UINT64 };
    static const hr_type_id floats[] = { [2] = HR_T_FLOAT16, [4] = HR_T_FLOAT32, [8] = HR_T_FLOAT64 };
    const char *f = view->format ? view->format : "B";
    size_t n;

    *id = HR_T_NULL;
    if ((*f == '>' || *f == '!') && view->itemsize > 1)
        return f[1] == '?' ? 'X' : '>';
    if (*f == '@' || *f == '=' || *f == '<' || *f == '>' || *f == '!' || *f == '|')
        f++;
    n = strspn(f, "0123456789");
    if ((f[n] == 's' || f[n] == 'w') && !f[n + 1])
        return f[n];
    if (n || f[1] || view->itemsize > 8 || view->itemsize < 1)
        return 'X';
    if (*f == '?' && view->itemsize == 1)
        *id = HR_T_BOOL;
    else if (strchr("bhilqn", *f))
        *id = ints[view->itemsize];
    else if (strchr("BHILQN", *f))
        *id = uints[view->itemsize];
    else if (strchr("efd", *f) && view->itemsize > 1)
        *id = floats[view->itemsize];
    else
        return *f == 'O' ? 'O' : 'X';
    return 0;
}

static int bad_format(build *b, const Py_buffer *view, char code)
{
    const char *f = view->format ? view->format : "B";

    if (code == '>')
        return fail(b, -1, "big-endian values (%s); use .astype(a.dtype.newbyteorder('='))", f);
    return fail(b, -1, "values of format '%s' have no column type", f);
}

/* Copies all values, in C order. -> behind the last. */
static char *gather(char *to, const char *from, int ndim, const Py_ssize_t *shape, const Py_ssize_t *strides,
                    Py_ssize_t itemsize)
{
    if (ndim == 0) {
        memcpy(to, from, (size_t)itemsize);
        return to + itemsize;
    }
    if (ndim == 1 && strides[0] == itemsize) {
        memcpy(to, from, (size_t)(shape[0] * itemsize));
        return to + shape[0] * itemsize;
    }
    for (Py_ssize_t i = 0; i < shape[0]; i++)
        to = gather(to, from + i * strides[0], ndim - 1, shape + 1, strides + 1, itemsize);
    return to;
}

static void copy_view(char *to, const Py_buffer *view)
{
    if (view->len == 0)
        return;
    if (PyBuffer_IsContiguous(view, 'C'))
        memcpy(to, view->buf, (size_t)view->len);
    else
        gather(to, view->buf, view->ndim, view->shape, view->strides, view->itemsize);
}

#define LARGE_COPY (1 << 20) /* from here on others may have the GIL meanwhile */

static void copy_view_unlocked(char *to, const Py_buffer *view)
{
    if (view->len < LARGE_COPY) {
        copy_view(to, view);
    } else {
        Py_BEGIN_ALLOW_THREADS
        copy_view(to, view);
        Py_END_ALLOW_THREADS
    }
}

/* Packs bytes 0/1 into bits from bit `at` on. */
static void pack_bits(uint8_t *to, int64_t at, const uint8_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (from[i])
            hr__bit_set(to, at + i);
}

/* All values of a view as an array of one dimension. */
static hr_array *flat_array(build *b, const Py_buffer *view, hr_type_id id)
{
    int64_t n = view->len / view->itemsize;
    hr_buffer *values = buffer_new(b, id == HR_T_BOOL ? hr__bits_bytes(n) : view->len);

    if (!values)
        return NULL;
    if (id == HR_T_BOOL) {
        hr_buffer *bytes = buffer_new(&(build){ .s = b->s, .mem = &(hr_mem){ 0 } }, view->len);

        if (!bytes) {
            hr__buffer_unref(values);
            return NULL;
        }
        copy_view((char *)bytes->data, view);
        memset(values->data, 0, (size_t)values->n_bytes);
        pack_bits(values->data, 0, bytes->data, n);
        hr__buffer_unref(bytes);
    } else {
        copy_view_unlocked((char *)values->data, view);
    }
    return array_new(b, hr__type_simple(id), n, NULL, values, NULL, NULL, 0);
}

/* Tensors of shape[0..n_dims) over `values` (taken), n of them. */
static hr_array *tensors(build *b, hr_array *values, const int64_t *shape, int n_dims, int64_t n, hr_buffer *validity)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *type = NULL;
    hr_array *made = NULL;
    hr_status st = values ? hr__type_tensor(values->type, shape, n_dims, &type, &err) : HR_OK;

    if (st || !values) {
        hr__array_unref(values);
        hr__buffer_unref(validity);
        return st ? raise(b, st, &err) : NULL;
    }
    made = array_new(b, type, n, validity, NULL, NULL, &values, 1);
    hr__type_unref(type);
    return made;
}

/* UCS-4 code points as UTF-8. */
static int add_utf8(hr_growbuf *g, uint32_t c, hr_error *err)
{
    uint8_t u[4];
    int n = 1;

    if (c < 0x80) {
        u[0] = (uint8_t)c;
    } else if (c < 0x800) {
        u[0] = (uint8_t)(0xc0 | c >> 6);
        u[1] = (uint8_t)(0x80 | (c & 63));
        n = 2;
    } else if (c < 0x10000) {
        u[0] = (uint8_t)(0xe0 | c >> 12);
        u[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        u[2] = (uint8_t)(0x80 | (c & 63));
        n = 3;
    } else {
        u[0] = (uint8_t)(0xf0 | c >> 18);
        u[1] = (uint8_t)(0x80 | (c >> 12 & 63));
        u[2] = (uint8_t)(0x80 | (c >> 6 & 63));
        u[3] = (uint8_t)(0x80 | (c & 63));
        n = 4;
    }
    return (int)hr__growbuf_add(g, u, n, err);
}

/* Offsets (64-bit while building) and bytes as string or binary; with 32-bit offsets where they suffice. Takes all. */
static hr_array *bytes_array(build *b, bool text, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_growbuf *g)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *bytes = NULL;
    int64_t total;
    hr_status st = hr__growbuf_finish(g, &bytes, &err);

    if (st) {
        hr__growbuf_clear(g);
        hr__buffer_unref(validity);
        hr__buffer_unref(offsets);
        return raise(b, st, &err);
    }
    memcpy(&total, offsets->data + n * 8, 8);
    if (total > INT32_MAX)
        return array_new(b, hr__type_simple(text ? HR_T_LARGE_STRING : HR_T_LARGE_BINARY), n, validity, offsets, bytes,
                         NULL, 0);
    for (int64_t i = 0; i <= n; i++) { /* in place: the narrow ones never overtake the wide ones */
        int64_t wide;
        int32_t narrow;

        memcpy(&wide, offsets->data + i * 8, 8);
        narrow = (int32_t)wide;
        memcpy(offsets->data + i * 4, &narrow, 4);
    }
    hr__buffer_shrink(offsets, (n + 1) * 4);
    return array_new(b, hr__type_simple(text ? HR_T_STRING : HR_T_BINARY), n, validity, offsets, bytes, NULL, 0);
}

/* numpy's 'S' and 'U': fixed places, padded by zeros. */
static hr_array *padded_array(build *b, const Py_buffer *view, bool text)
{
    hr_error err = HR_ERROR_INIT;
    hr_growbuf g = { .mem = b->mem };
    int64_t n = view->shape[0], unit = text ? 4 : 1, total = 0;
    hr_buffer *offsets = buffer_new(b, (n + 1) * 8);
    hr_status st = HR_OK;

    if (!offsets)
        return NULL;
    memcpy(offsets->data, &total, 8);
    for (int64_t i = 0; i < n && !st; i++) {
        const char *p = (const char *)view->buf + i * view->strides[0];
        int64_t len = view->itemsize / unit;

        while (len > 0 && memcmp(p + (len - 1) * unit, "\0\0\0", (size_t)unit) == 0)
            len--;
        if (!text)
            st = hr__growbuf_add(&g, p, len, &err);
        for (int64_t k = 0; text && k < len && !st; k++) {
            uint32_t c;

            memcpy(&c, p + k * 4, 4);
            st = (hr_status)add_utf8(&g, c, &err);
        }
        total = g.buffer ? g.buffer->n_bytes : 0;
        memcpy(offsets->data + (i + 1) * 8, &total, 8);
    }
    if (st) {
        hr__growbuf_clear(&g);
        hr__buffer_unref(offsets);
        return raise(b, st, &err);
    }
    return bytes_array(b, text, n, NULL, offsets, &g);
}

/* The objects of a one-dimensional object array. */
static hr_array *object_array(build *b, const Py_buffer *view)
{
    int64_t n = view->shape[0];
    PyObject **v = PyMem_Calloc((size_t)n + 1, sizeof *v);
    hr_array *made;

    if (!v)
        return (hr_array *)PyErr_NoMemory();
    for (int64_t i = 0; i < n; i++) {
        memcpy(&v[i], (const char *)view->buf + i * view->strides[0], sizeof *v);
        v[i] = Py_NewRef(v[i] ? v[i] : Py_None);
    }
    made = build_items(b, v, n);
    for (int64_t i = 0; i < n; i++)
        Py_DECREF(v[i]);
    PyMem_Free(v);
    return made;
}

/* A column from an array of one or more dimensions. `values` is what `view` views. */
static hr_array *view_array(build *b, PyObject *values, const Py_buffer *view)
{
    hr_type_id id;
    char code = format_of(view, &id);
    int64_t shape[HR_MAX_DIMS];

    if (code == '>' || code == 'X') {
        bad_format(b, view, code);
        return NULL;
    }
    if (view->ndim > 1 && code) { /* text or objects in more dimensions: lists of them */
        PyObject *list = PyObject_CallMethod(values, "tolist", NULL);
        hr_array *made = list ? build_values(b, list) : NULL;

        Py_XDECREF(list);
        return made;
    }
    if (code)
        return code == 'O' ? object_array(b, view) : padded_array(b, view, code == 'w');
    if (view->ndim == 1)
        return flat_array(b, view, id);
    if (view->ndim > HR_MAX_DIMS + 1) {
        fail(b, -1, "an array of %d dimensions; %d is the most", view->ndim, HR_MAX_DIMS + 1);
        return NULL;
    }
    for (int d = 1; d < view->ndim; d++)
        shape[d - 1] = view->shape[d];
    return tensors(b, flat_array(b, view, id), shape, view->ndim - 1, view->shape[0], NULL);
}

/* ----------------------------------------------------------------------------------------------------- numbers in lists */

typedef struct number {
    hr_type_id id;
    int64_t i; /* signed and bool; the bits of unsigned */
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

/* A value in memory as a number. */
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

/* bool, int, float, or a numpy scalar. 1: it is one; 0: it is not; -1: an exception, or b->why. */
static int number_get(build *b, PyObject *o, int64_t row, number *out)
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
            return fail(b, row, "an int of more than 64 bits");
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
        if (view.ndim == 0 && format_of(&view, &id) == 0) {
            number_read(out, id, view.buf);
            PyBuffer_Release(&view);
            return 1;
        }
        PyBuffer_Release(&view);
    }
    return 0;
}

/* The type that holds both; HR_T_NULL: none. */
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
        return HR_T_UINT64; /* if nothing is negative: looked at when filled in */
    return HR_T_INT64;
}

/* The number as type `id`, at p. false: it does not fit. */
static bool number_put(const number *x, hr_type_id id, uint8_t *p)
{
    double d = is_float(x->id) ? x->d : x->id == HR_T_UINT64 ? (double)(uint64_t)x->i : (double)x->i;
    float f = (float)d;

    if (x->id == id) {
        memcpy(p, x->raw, (size_t)hr__type_bytes(hr__type_simple(id)));
        return true;
    }
    switch (id) {
    case HR_T_FLOAT64: memcpy(p, &d, 8); return true;
    case HR_T_FLOAT32: memcpy(p, &f, 4); return true;
    case HR_T_UINT64: memcpy(p, &x->i, 8); return is_unsigned(x->id) || x->i >= 0;
    case HR_T_INT64: memcpy(p, &x->i, 8); return x->id != HR_T_UINT64;
    /* narrower ones hold what is narrower still: the low bytes of two's complement */
    case HR_T_INT32:
    case HR_T_UINT32: memcpy(p, &x->i, 4); return !is_float(x->id);
    case HR_T_INT16:
    case HR_T_UINT16: memcpy(p, &x->i, 2); return !is_float(x->id);
    default: return false;
    }
}

static hr_array *build_numbers(build *b, PyObject **v, int64_t n, hr_type_id id)
{
    int bytes = id == HR_T_BOOL ? 0 : hr__type_bytes(hr__type_simple(id));
    hr_buffer *validity = NULL, *values = buffer_new(b, bytes ? n * bytes : hr__bits_bytes(n));

    if (!values)
        return NULL;
    memset(values->data, 0, (size_t)values->n_bytes);
    for (int64_t i = 0; i < n; i++) {
        number x;

        if (v[i] == Py_None)
            continue;
        if (number_get(b, v[i], i, &x) < 0)
            goto failed;
        if (bytes == 0) {
            if (x.i)
                hr__bit_set(values->data, i);
        } else if (!number_put(&x, id, values->data + i * bytes)) {
            fail(b, i, "a negative number beside one of more than 63 bits");
            goto failed;
        }
    }
    if (validity_of(b, v, n, &validity) < 0)
        goto failed;
    return array_new(b, hr__type_simple(id), n, validity, values, NULL, NULL, 0);
failed:
    hr__buffer_unref(values);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- text and bytes in lists */

static hr_array *build_bytes(build *b, PyObject **v, int64_t n, bool text)
{
    hr_error err = HR_ERROR_INIT;
    hr_growbuf g = { .mem = b->mem };
    hr_buffer *validity = NULL, *offsets = buffer_new(b, (n + 1) * 8);
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
            if (!p) { /* lone surrogates: bytes that were no UTF-8 when they were read */
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
            raise(b, st, &err);
            goto failed;
        }
        total += len;
        memcpy(offsets->data + (i + 1) * 8, &total, 8);
    }
    if (validity_of(b, v, n, &validity) < 0)
        goto failed;
    return bytes_array(b, text, n, validity, offsets, &g);
failed:
    hr__growbuf_clear(&g);
    hr__buffer_unref(offsets);
    return NULL;
}

/* --------------------------------------------------------------------------------------------------------- lists in lists */

/* A list over `values` (taken) with 64-bit offsets (taken): 32-bit ones where they suffice. */
static hr_array *list_array(build *b, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_array *values)
{
    hr_error err = HR_ERROR_INIT;
    hr_field item = { 0 };
    hr_type *type = NULL;
    hr_array *made = NULL;
    bool large = values->length > INT32_MAX;
    hr_status st = hr__field_init(&item, "item", values->type, true, &err);

    if (!st)
        st = hr__type_list(large ? HR_T_LARGE_LIST : HR_T_LIST, &item, 0, &type, &err);
    hr__field_clear(&item);
    if (st) {
        hr__buffer_unref(validity);
        hr__buffer_unref(offsets);
        hr__array_unref(values);
        return raise(b, st, &err);
    }
    for (int64_t i = 0; !large && i <= n; i++) {
        int64_t wide;
        int32_t narrow;

        memcpy(&wide, offsets->data + i * 8, 8);
        narrow = (int32_t)wide;
        memcpy(offsets->data + i * 4, &narrow, 4);
    }
    if (!large)
        hr__buffer_shrink(offsets, (n + 1) * 4);
    made = array_new(b, type, n, validity, offsets, NULL, &values, 1);
    hr__type_unref(type);
    return made;
}

/* Which row of `offsets` item `at` lies in. */
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

static hr_array *build_lists(build *b, PyObject **v, int64_t n)
{
    hr_buffer *validity = NULL, *offsets = buffer_new(b, (n + 1) * 8);
    PyObject **items = NULL;
    PyObject **rows = PyMem_Calloc((size_t)n + 1, sizeof *rows); /* each as a tuple */
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
    values = build_items(b, items, total);
    if (!values) {
        if (!PyErr_Occurred() && b->bad >= 0)
            b->bad = row_of(offsets, n, b->bad);
        goto done;
    }
    if (validity_of(b, v, n, &validity) < 0)
        goto done;
    made = list_array(b, n, validity, offsets, values);
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

/* --------------------------------------------------------------------------------------------------------- dicts in lists */

/* Keys of all dicts, in order of first appearance, as a list of str. NULL: an exception, or b->why. */
static PyObject *keys_of(build *b, PyObject **v, int64_t n)
{
    PyObject *keys = PyList_New(0), *seen = PyDict_New();

    for (int64_t i = 0; keys && seen && i < n; i++) {
        PyObject *key, *value;
        Py_ssize_t at = 0;

        if (v[i] == Py_None)
            continue;
        while (keys && PyDict_Next(v[i], &at, &key, &value)) {
            if (!PyUnicode_Check(key)) {
                char text[80];

                fail(b, i, "a dict with a key that is %s, not str", type_name(key, text));
                Py_CLEAR(keys);
            } else if (!PyDict_GetItemWithError(seen, key) &&
                       (PyErr_Occurred() || PyDict_SetItem(seen, key, Py_None) < 0 || PyList_Append(keys, key) < 0)) {
                Py_CLEAR(keys);
            }
        }
    }
    if (!seen)
        Py_CLEAR(keys);
    Py_XDECREF(seen);
    return keys;
}

/* The values under `key`, None where there is none; new references in `out`. */
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

/* A column for each key. -> their number; -1: failed, with *key that of the failing one (borrowed from keys). */
static Py_ssize_t build_dicts(build *b, PyObject **v, int64_t n, PyObject *keys, hr_array **columns, PyObject **key)
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
        columns[k] = build_items(b, items, n);
        for (int64_t i = 0; i < n; i++)
            Py_DECREF(items[i]);
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

/* Fields of these names and types. Returns the number, -1 with an exception; *out for fields_free. */
static int fields_new(build *b, PyObject *keys, hr_array *const *columns, hr_field **out)
{
    int n = (int)PyList_Size(keys);
    hr_error err = HR_ERROR_INIT;

    *out = PyMem_Calloc((size_t)n + 1, sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < n; i++) {
        const char *name = PyUnicode_AsUTF8AndSize(PyList_GetItem(keys, i), NULL);
        hr_status st = name ? hr__field_init(&(*out)[i], name, columns[i]->type, true, &err) : HR_OK;

        if (!name || st) {
            if (st)
                raise(b, st, &err);
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

static hr_array *build_structs(build *b, PyObject **v, int64_t n)
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
    n_columns = build_dicts(b, v, n, keys, columns, &key);
    if (n_columns < 0) {
        if (!PyErr_Occurred()) {
            char why[sizeof b->why];

            memcpy(why, b->why, sizeof why);
            fail(b, b->bad, "field '%.100s': %.250s", PyUnicode_AsUTF8AndSize(key, NULL), why);
        }
        n_columns = 0;
        goto done;
    }
    n_fields = fields_new(b, keys, columns, &fields);
    if (n_fields < 0 || validity_of(b, v, n, &validity) < 0)
        goto done;
    st = hr__type_struct(fields, n_fields, &type, &err);
    if (st) {
        raise(b, st, &err);
        hr__buffer_unref(validity);
        goto done;
    }
    made = array_new(b, type, n, validity, NULL, NULL, columns, n_fields);
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

/* --------------------------------------------------------------------------------------------------------- arrays in lists */

typedef struct arrays {
    Py_buffer *views; /* obj NULL: a null row */
    hr_type_id id;
    int ndim;
    bool same; /* one shape */
    char code; /* some are text or objects */
    bool mixed; /* of different types */
} arrays;

static void arrays_clear(arrays *a, int64_t n)
{
    for (int64_t i = 0; a->views && i < n; i++)
        if (a->views[i].obj)
            PyBuffer_Release(&a->views[i]);
    PyMem_Free(a->views);
}

/* Views of all rows and what they have in common. Rows without a value agree with any type. */
static int arrays_look(build *b, PyObject **v, int64_t n, arrays *out)
{
    int64_t first = -1;

    *out = (arrays){ .views = PyMem_Calloc((size_t)n + 1, sizeof(Py_buffer)), .id = HR_T_NULL, .same = true };
    if (!out->views) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        Py_buffer *view = &out->views[i];
        hr_type_id id;
        char code;

        if (v[i] == Py_None)
            continue;
        if (PyObject_GetBuffer(v[i], view, PyBUF_FORMAT | PyBUF_STRIDES) < 0)
            return -1;
        code = format_of(view, &id);
        if (code == '>' || code == 'X') {
            bad_format(b, view, code);
            b->bad = i;
            return -1;
        }
        out->code = code ? code : out->code;
        if (first < 0) {
            first = i;
            out->ndim = view->ndim;
        } else if (view->ndim != out->ndim) {
            return fail(b, i, "an array of %d dimensions, in row %lld it has %d", view->ndim, (long long)first,
                        out->ndim);
        } else if (memcmp(view->shape, out->views[first].shape, (size_t)out->ndim * sizeof *view->shape) != 0) {
            out->same = false;
        }
        if (code || view->len == 0)
            continue;
        if (out->id == HR_T_NULL)
            out->id = id;
        else if (out->id != id)
            out->mixed = true;
    }
    if (first >= 0 && out->id == HR_T_NULL && !out->code)
        format_of(&out->views[first], &out->id); /* all are empty */
    return 0;
}

/* All values of all rows, one after the other; rows of another shape give theirs too. */
static hr_array *arrays_values(build *b, const arrays *a, int64_t n, int64_t n_null_values)
{
    int bytes = a->id == HR_T_BOOL ? 1 : hr__type_bytes(hr__type_simple(a->id));
    int64_t total = 0, at = 0;
    hr_buffer *values;

    for (int64_t i = 0; i < n; i++)
        total += a->views[i].obj ? a->views[i].len / a->views[i].itemsize : n_null_values;
    values = buffer_new(b, a->id == HR_T_BOOL ? hr__bits_bytes(total) : total * bytes);
    if (!values)
        return NULL;
    if (a->id == HR_T_BOOL || n_null_values)
        memset(values->data, 0, (size_t)values->n_bytes);
    for (int64_t i = 0; i < n; i++) {
        const Py_buffer *view = &a->views[i];
        int64_t count = view->obj ? view->len / view->itemsize : n_null_values;

        if (!view->obj || count == 0) {
            ;
        } else if (a->id != HR_T_BOOL) {
            copy_view((char *)values->data + at * bytes, view);
        } else {
            char *flat = PyMem_Malloc((size_t)view->len);

            if (!flat) {
                hr__buffer_unref(values);
                return (hr_array *)PyErr_NoMemory();
            }
            copy_view(flat, view);
            pack_bits(values->data, at, (const uint8_t *)flat, count);
            PyMem_Free(flat);
        }
        at += count;
    }
    return array_new(b, hr__type_simple(a->id), total, NULL, values, NULL, NULL, 0);
}

/* Ragged arrays as lists of lists ...: offsets of dimension `dim`, below `n_above` lists. */
static hr_array *arrays_lists(build *b, const arrays *a, int64_t n, PyObject **v)
{
    hr_array *made = arrays_values(b, a, n, 0);

    for (int dim = a->ndim - 1; made && dim >= 0; dim--) {
        int64_t n_lists = 0, at = 0, end = 0;
        hr_buffer *offsets, *validity = NULL;

        for (int64_t i = 0; i < n; i++) {
            int64_t lists = a->views[i].obj || dim == 0 ? 1 : 0;

            for (int d = 0; d < dim && a->views[i].obj; d++)
                lists *= a->views[i].shape[d];
            n_lists += lists;
        }
        offsets = buffer_new(b, (n_lists + 1) * 8);
        if (!offsets || (dim == 0 && validity_of(b, v, n, &validity) < 0)) {
            hr__buffer_unref(offsets);
            hr__array_unref(made);
            return NULL;
        }
        memcpy(offsets->data, &end, 8);
        for (int64_t i = 0; i < n; i++) {
            const Py_buffer *view = &a->views[i];
            int64_t lists = view->obj || dim == 0 ? 1 : 0;

            for (int d = 0; d < dim && view->obj; d++)
                lists *= view->shape[d];
            for (int64_t k = 0; k < lists; k++) {
                end += view->obj ? view->shape[dim] : 0;
                at++;
                memcpy(offsets->data + at * 8, &end, 8);
            }
        }
        made = list_array(b, n_lists, validity, offsets, made);
    }
    return made;
}

/* The same rows through convert.NAME(list), as a list. */
static hr_array *build_converted(build *b, const char *name, PyObject **v, int64_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n), *fn, *plain = NULL;
    hr_array *made = NULL;

    for (int64_t i = 0; list && i < n; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, Py_NewRef(v[i])) < 0)
            Py_CLEAR(list);
    fn = list ? pyhr_convert(b->s, name) : NULL;
    plain = fn ? PyObject_CallFunctionObjArgs(fn, list, NULL) : NULL;
    if (plain)
        made = build_values(b, plain);
    Py_XDECREF(plain);
    Py_XDECREF(fn);
    Py_XDECREF(list);
    return made;
}

static hr_array *build_arrays(build *b, PyObject **v, int64_t n)
{
    arrays a;
    hr_array *made = NULL;

    if (arrays_look(b, v, n, &a) < 0)
        goto done;
    if (a.code || a.mixed) {
        const char *how = a.code ? "lists_of_arrays" : "arrays_of_one_type";

        arrays_clear(&a, n);
        if (++b->depth > HR_MAX_DEPTH) { /* convert did not do what it promises */
            fail(b, -1, "nested too deeply");
            return NULL;
        }
        made = build_converted(b, how, v, n);
        b->depth--;
        return made;
    }
    if (a.same && a.ndim > 1) {
        int64_t shape[HR_MAX_DIMS], width = 1, i = 0;
        hr_buffer *validity;

        if (a.ndim > HR_MAX_DIMS) {
            fail(b, -1, "arrays of %d dimensions; %d is the most", a.ndim, HR_MAX_DIMS);
            goto done;
        }
        while (!a.views[i].obj)
            i++;
        for (int d = 0; d < a.ndim; d++) {
            shape[d] = a.views[i].shape[d];
            width *= shape[d];
        }
        if (validity_of(b, v, n, &validity) == 0)
            made = tensors(b, arrays_values(b, &a, n, width), shape, a.ndim, n, validity);
    } else {
        made = arrays_lists(b, &a, n, v);
    }
done:
    arrays_clear(&a, n);
    return made;
}

/* ------------------------------------------------------------------------------------------------------ what a list holds */

typedef struct seen {
    int kinds;
    int64_t first; /* the first item that is not None */
    hr_type_id number;
} seen;

/* The kind of one item; *o may be replaced by what convert makes of it. 0: failed. */
static int kind_of(build *b, PyObject **o, int64_t row, hr_type_id *number_id, int again)
{
    number x;
    int is;
    PyObject *fn, *made;
    char text[80];

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
    if (PyObject_CheckBuffer(*o) && !named(*o, "datetime64") && !named(*o, "timedelta64")) {
        Py_buffer view;

        if (PyObject_GetBuffer(*o, &view, PyBUF_FORMAT | PyBUF_STRIDES) == 0) {
            int ndim = view.ndim;

            PyBuffer_Release(&view);
            if (ndim > 0)
                return K_ARRAY;
        }
        PyErr_Clear();
    }
    if (again) {
        fail(b, row, "a value of type %s", type_name(*o, text));
        return 0;
    }
    fn = pyhr_convert(b->s, "item");
    made = fn ? PyObject_CallFunctionObjArgs(fn, *o, NULL) : NULL;
    Py_XDECREF(fn);
    if (!made)
        return 0;
    if (made == Py_NotImplemented) {
        Py_DECREF(made);
        fail(b, row, "a value of type %s has no column type", type_name(*o, text));
        return 0;
    }
    if (made == *o) { /* a date, a time, a decimal */
        Py_DECREF(made);
        return K_SPECIAL;
    }
    Py_DECREF(*o);
    *o = made;
    return kind_of(b, o, row, number_id, 1);
}

static int disagree(build *b, PyObject **v, int64_t row, int64_t first)
{
    char one[80], two[80];

    if (b->depth)
        return fail(b, row, "%s among values of type %s", type_name(v[row], one), type_name(v[first], two));
    return fail(b, row, "%s, but row %lld has %s", type_name(v[row], one), (long long)first, type_name(v[first], two));
}

static int scan(build *b, PyObject **v, int64_t n, seen *out)
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

/* A list of bytes, all as long as a value of that type, or None. */
static hr_array *fixed_values(build *b, PyObject *list, const char *format)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *type = NULL;
    hr_buffer *values = NULL, *validity = NULL;
    hr_array *made = NULL;
    Py_ssize_t n = PyList_Size(list), width;
    hr_status st = n < 0 ? HR_OK : hr__type_from_format(format, NULL, 0, &type, &err);

    if (n < 0 || st)
        return st ? raise(b, st, &err) : NULL;
    width = hr__type_bytes(type);
    values = buffer_new(b, n * width);
    validity = values ? buffer_new(b, hr__bits_bytes(n)) : NULL;
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
                fail(b, i, "a value of %lld bytes instead of %lld", (long long)n_bytes, (long long)width);
            goto done;
        }
        memcpy(values->data + i * width, data, (size_t)width);
        hr__bit_set(validity->data, i);
    }
    made = array_new(b, type, n, validity, values, NULL, NULL, 0);
    values = validity = NULL;
done:
    hr__buffer_unref(values);
    hr__buffer_unref(validity);
    hr__type_unref(type);
    return made;
}

/* Dates, times, decimals: convert.special(list) -> (Arrow format, list of int, bytes or None). */
static hr_array *build_special(build *b, PyObject **v, int64_t n)
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
    made = format[0] == 'd' ? fixed_values(b, values, format) : retype(b, build_values(b, values), format);
    Py_DECREF(pair);
    return made;
}

/* A column of n Python objects; items may be replaced by equal ones. */
static hr_array *build_items(build *b, PyObject **v, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_array *made = NULL;
    hr_status st;
    seen all;

    if (b->depth >= HR_MAX_DEPTH) {
        fail(b, 0, "nested more than %d deep", HR_MAX_DEPTH);
        return NULL;
    }
    if (scan(b, v, n, &all) < 0)
        return NULL;
    b->depth++;
    switch (all.kinds & ~K_NULL) {
    case 0:
        st = hr__array_nulls(b->mem, hr__type_simple(HR_T_NULL), n, &made, &err);
        if (st)
            raise(b, st, &err);
        break;
    case K_NUMBER: made = build_numbers(b, v, n, all.number); break;
    case K_TEXT: made = build_bytes(b, v, n, true); break;
    case K_BYTES: made = build_bytes(b, v, n, false); break;
    case K_DICT: made = build_structs(b, v, n); break;
    case K_ARRAY: made = build_arrays(b, v, n); break;
    case K_SPECIAL: made = build_special(b, v, n); break;
    default: made = build_lists(b, v, n); break;
    }
    b->depth--;
    return made;
}

/* ------------------------------------------------------------------------------------------------------- a whole column */

/* convert.plain(values) -> (array or list, Arrow format or None, bool array of what is not null or None) */
static hr_array *build_plain(build *b, PyObject *values)
{
    PyObject *fn = pyhr_convert(b->s, "plain"), *got, *of, *valid;
    const char *format;
    hr_array *made = NULL;

    got = fn ? PyObject_CallFunctionObjArgs(fn, values, NULL) : NULL;
    Py_XDECREF(fn);
    if (got == Py_NotImplemented) {
        char text[80];

        fail(b, -1, "expected an array or a list with a value for each row, found %s", type_name(values, text));
        Py_DECREF(got);
        return NULL;
    }
    if (!got || !PyArg_ParseTuple(got, "OzO", &of, &format, &valid)) {
        Py_XDECREF(got);
        return NULL;
    }
    if (++b->depth < 3) /* what is plain needs no second conversion */
        made = build_values(b, of);
    else
        fail(b, -1, "cannot be converted");
    b->depth--;
    if (made && format)
        made = retype(b, made, format);
    if (made && valid != Py_None) {
        hr_array *bits = build_values(b, valid), *whole = made;

        made = NULL;
        if (bits && bits->type->id == HR_T_BOOL && bits->length == whole->length && bits->offset == 0 &&
            whole->n_children == 0)
            made = array_new(b, whole->type, whole->length, hr__buffer_ref(bits->buffers[1]),
                             hr__buffer_ref(whole->buffers[1]), hr__buffer_ref(whole->buffers[2]), NULL, 0);
        else if (bits)
            fail(b, -1, "the mask does not fit the values");
        hr__array_unref(bits);
        hr__array_unref(whole);
    }
    Py_DECREF(got);
    return made;
}

static hr_array *build_values(build *b, PyObject *values)
{
    hr_array *made = pyhr_column_of(b->s, values);
    PyObject **items;
    PyObject *tuple;
    Py_ssize_t n;

    if (made)
        return hr__array_ref(made);
    if (PyMemoryView_Check(values) ||
        (PyObject_CheckBuffer(values) && (named(values, "ndarray") || named(values, "array")))) {
        Py_buffer view;

        if (PyObject_GetBuffer(values, &view, PyBUF_FORMAT | PyBUF_STRIDES) == 0) {
            if (view.ndim == 0)
                fail(b, -1, "expected a value for each row, found an array of no dimension");
            else
                made = view_array(b, values, &view);
            PyBuffer_Release(&view);
            return made;
        }
        PyErr_Clear(); /* numpy's dates have no buffer: convert.plain knows them */
    }
    if (!PyList_Check(values) && !PyTuple_Check(values)) {
        if (PyObject_HasAttrString(values, "__arrow_c_array__") || PyObject_HasAttrString(values, "__arrow_c_stream__"))
            return pyhr_array_from_arrow(b->s, values);
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
    made = build_items(b, items, n);
    for (Py_ssize_t i = 0; i < n; i++)
        Py_DECREF(items[i]);
    PyMem_Free(items);
    Py_DECREF(tuple);
    return made;
}

/* Raises what b->why says about column `name`, if no exception is set. */
static void raise_why(build *b, const char *name)
{
    if (PyErr_Occurred())
        return;
    if (b->bad >= 0)
        pyhr_raise_text(b->s, HR_TYPE, "column '%s', row %lld: %s", name, (long long)b->bad, b->why);
    else
        pyhr_raise_text(b->s, HR_TYPE, "column '%s': %s", name, b->why);
}

hr_array *pyhr_build_column(pyhr_state *s, const hr_mem *mem, const char *name, PyObject *values)
{
    build b = { .s = s, .mem = mem, .bad = -1 };
    hr_array *made;

    pyhr_drain_run(s);
    made = build_values(&b, values);
    if (!made)
        raise_why(&b, name);
    return made;
}

/* A table of these columns (taken, in any case) under the names of `keys`. */
static hr_table *table_of(build *b, PyObject *keys, hr_array **columns, int64_t n_rows)
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
    return st ? raise(b, st, &err) : made;
}

hr_table *pyhr_build_table(pyhr_state *s, const hr_mem *mem, PyObject *columns)
{
    build b = { .s = s, .mem = mem, .bad = -1 };
    PyObject *keys, *key, *values;
    Py_ssize_t at = 0, n = 0;
    hr_array **built;
    hr_table *made = NULL;

    if (!PyDict_Check(columns)) {
        char text[80];

        return pyhr_raise_text(s, HR_TYPE, "expected a dict of column name to values, found %s",
                               type_name(columns, text));
    }
    pyhr_drain_run(s);
    keys = PyList_New(0);
    built = PyMem_Calloc((size_t)PyDict_Size(columns) + 1, sizeof *built);
    if (!keys || !built) {
        PyErr_NoMemory();
        goto done;
    }
    while (PyDict_Next(columns, &at, &key, &values)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        char text[80];

        if (!name) {
            if (!PyErr_Occurred())
                pyhr_raise_text(s, HR_TYPE, "a column's name is a str, not %s", type_name(key, text));
            goto done;
        }
        b.bad = -1;
        if (PyList_Append(keys, key) < 0 || !(built[n] = build_values(&b, values))) {
            raise_why(&b, name);
            goto done;
        }
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
    Py_XDECREF(keys);
    return made;
}

hr_table *pyhr_build_rows(pyhr_state *s, const hr_mem *mem, PyObject *rows)
{
    build b = { .s = s, .mem = mem, .bad = -1 };
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
        v[i] = PyTuple_GetItem(tuple, i); /* the tuple holds them; nothing here replaces them */
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
    n_columns = build_dicts(&b, v, n, keys, columns, &key);
    if (n_columns < 0)
        raise_why(&b, key ? pyhr_text(key) : "");
    else
        made = table_of(&b, keys, columns, n);
done:
    PyMem_Free(columns);
    PyMem_Free(v);
    Py_XDECREF(keys);
    Py_XDECREF(tuple);
    return made;
}
