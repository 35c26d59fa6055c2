/* py_array.c - makes columns from arrays, through the buffer protocol.
 *
 * An array of n dimensions is a column with one row per item of its first dimension: fixed width (n = 1) or tensors
 * (n > 1). A list of arrays becomes tensors if all have one shape of two or more dimensions, otherwise lists. Rows of
 * one dimension become lists even if they have equal lengths, because those of the next table may not (and lists of
 * equal length are dense in batches anyway). One copy puts the values into memory of the caller's choice (a worker's
 * arena), so that no other owner of the array can change them later. */
#include "py_build.h"

/* ----------------------------------------------------------------------------------------------------------- makers */

hr_buffer *pyhr_buffer(pyhr_build *b, int64_t n_bytes)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *made = NULL;
    hr_status st = hr__buffer_new(b->mem, n_bytes, &made, &err);

    return st ? pyhr_raise(b->s, st, &err) : made;
}

/* Takes the buffers and the children. */
hr_array *pyhr_array(pyhr_build *b, hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *one, hr_buffer *two,
                     hr_array **children, int n_children)
{
    hr_error err = HR_ERROR_INIT;
    hr_array *made = NULL;
    hr_status st = hr__array_new(type, n, validity ? -1 : 0, (hr_buffer *[3]){ validity, one, two }, children,
                                 n_children, &made, &err);

    return st ? pyhr_raise(b->s, st, &err) : made;
}

/* *out: bits, 1 for items that are not None; NULL if no item is None. Returns -1 with an exception. */
int pyhr_validity(pyhr_build *b, PyObject *const *v, int64_t n, hr_buffer **out)
{
    int64_t i = 0;

    *out = NULL;
    while (i < n && v[i] != Py_None)
        i++;
    if (i == n)
        return 0;
    *out = pyhr_buffer(b, hr__bits_bytes(n));
    if (!*out)
        return -1;
    memset((*out)->data, 0, (size_t)(*out)->n_bytes);
    for (i = 0; i < n; i++)
        if (v[i] != Py_None)
            hr__bit_set((*out)->data, i);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- buffers' formats */

/* The type of a buffer's values: *id of fixed width (or bool), or as the result a code: 'O' objects, 's' bytes, 'w'
 * UCS-4 text, '>' big-endian, 'X' anything else. */
char pyhr_format_of(const Py_buffer *view, hr_type_id *id)
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

static int bad_format(pyhr_build *b, const Py_buffer *view, char code)
{
    const char *f = view->format ? view->format : "B";

    if (code == '>')
        return pyhr_fail(
            b, -1, "expected native byte order, found big-endian values (%s); use .astype(a.dtype.newbyteorder('='))",
            f);
    return pyhr_fail(b, -1, "no column type for values of format '%s'", f);
}

/* Copies all values in C order; returns the address after the last. */
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

#define LARGE_COPY (1 << 20) /* bytes; larger copies release the GIL */

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

/* Packs bytes 0 and 1 into bits, from bit `at` on. */
static void pack_bits(uint8_t *to, int64_t at, const uint8_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (from[i])
            hr__bit_set(to, at + i);
}

/* All values of a view as an array of one dimension, in C order. */
static hr_array *flat_array(pyhr_build *b, const Py_buffer *view, hr_type_id id)
{
    int64_t n = view->len / view->itemsize;
    hr_buffer *values = pyhr_buffer(b, id == HR_T_BOOL ? hr__bits_bytes(n) : view->len);

    if (!values)
        return NULL;
    if (id == HR_T_BOOL) {
        hr_buffer *bytes = pyhr_buffer(&(pyhr_build){ .s = b->s, .mem = &(hr_mem){ 0 } }, view->len);

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
    return pyhr_array(b, hr__type_simple(id), n, NULL, values, NULL, NULL, 0);
}

/* n tensors of shape[0..n_dims) over `values` (taken). */
static hr_array *tensors(pyhr_build *b, hr_array *values, const int64_t *shape, int n_dims, int64_t n,
                         hr_buffer *validity)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *type = NULL;
    hr_array *made = NULL;
    hr_status st = values ? hr__type_tensor(values->type, shape, n_dims, &type, &err) : HR_OK;

    if (st || !values) {
        hr__array_unref(values);
        hr__buffer_unref(validity);
        return st ? pyhr_raise(b->s, st, &err) : NULL;
    }
    made = pyhr_array(b, type, n, validity, NULL, NULL, &values, 1);
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

/* Offsets (64-bit) and bytes as string or binary; converts to 32-bit offsets if the values fit. Takes all. */
hr_array *pyhr_bytes_array(pyhr_build *b, bool text, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_growbuf *g)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *bytes = NULL;
    int64_t total;
    hr_status st = hr__growbuf_finish(g, &bytes, &err);

    if (st) {
        hr__growbuf_clear(g);
        hr__buffer_unref(validity);
        hr__buffer_unref(offsets);
        return pyhr_raise(b->s, st, &err);
    }
    memcpy(&total, offsets->data + n * 8, 8);
    if (total > INT32_MAX)
        return pyhr_array(b, hr__type_simple(text ? HR_T_LARGE_STRING : HR_T_LARGE_BINARY), n, validity, offsets, bytes,
                          NULL, 0);
    for (int64_t i = 0; i <= n; i++) { /* in place: a narrow offset never overwrites a wide one that is still needed */
        int64_t wide;
        int32_t narrow;

        memcpy(&wide, offsets->data + i * 8, 8);
        narrow = (int32_t)wide;
        memcpy(offsets->data + i * 4, &narrow, 4);
    }
    hr__buffer_shrink(offsets, (n + 1) * 4);
    return pyhr_array(b, hr__type_simple(text ? HR_T_STRING : HR_T_BINARY), n, validity, offsets, bytes, NULL, 0);
}

/* numpy's 'S' and 'U': items of fixed size, padded with zeros. */
static hr_array *padded_array(pyhr_build *b, const Py_buffer *view, bool text)
{
    hr_error err = HR_ERROR_INIT;
    hr_growbuf g = { .mem = b->mem };
    int64_t n = view->shape[0], unit = text ? 4 : 1, total = 0;
    hr_buffer *offsets = pyhr_buffer(b, (n + 1) * 8);
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
        return pyhr_raise(b->s, st, &err);
    }
    return pyhr_bytes_array(b, text, n, NULL, offsets, &g);
}

/* The objects of a one-dimensional object array. */
static hr_array *object_array(pyhr_build *b, const Py_buffer *view)
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
    made = pyhr_build_items(b, v, n);
    for (int64_t i = 0; i < n; i++)
        Py_DECREF(v[i]);
    PyMem_Free(v);
    return made;
}

/* A column from an array of one or more dimensions; `view` is a view of `values`. */
hr_array *pyhr_build_view(pyhr_build *b, PyObject *values, const Py_buffer *view)
{
    hr_type_id id;
    char code = pyhr_format_of(view, &id);
    int64_t shape[HR_MAX_DIMS];

    if (code == '>' || code == 'X') {
        bad_format(b, view, code);
        return NULL;
    }
    if (view->ndim > 1 && code) { /* text or objects in several dimensions become lists */
        PyObject *list = PyObject_CallMethod(values, "tolist", NULL);
        hr_array *made = list ? pyhr_build_values(b, list) : NULL;

        Py_XDECREF(list);
        return made;
    }
    if (code)
        return code == 'O' ? object_array(b, view) : padded_array(b, view, code == 'w');
    if (view->ndim == 1)
        return flat_array(b, view, id);
    if (view->ndim > HR_MAX_DIMS + 1) {
        pyhr_fail(b, -1, "expected at most %d dimensions, found %d", HR_MAX_DIMS + 1, view->ndim);
        return NULL;
    }
    for (int d = 1; d < view->ndim; d++)
        shape[d - 1] = view->shape[d];
    return tensors(b, flat_array(b, view, id), shape, view->ndim - 1, view->shape[0], NULL);
}

/* A list column over `values` (taken) with 64-bit offsets (taken), which become 32-bit offsets if they fit. */
hr_array *pyhr_list_array(pyhr_build *b, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_array *values)
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
        return pyhr_raise(b->s, st, &err);
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
    made = pyhr_array(b, type, n, validity, offsets, NULL, &values, 1);
    hr__type_unref(type);
    return made;
}

/* -------------------------------------------------------------------------------------------------- arrays in lists */

typedef struct arrays {
    Py_buffer *views; /* obj is NULL for a null row */
    hr_type_id id;
    int ndim;
    bool same;  /* all rows have one shape */
    char code;  /* the format of rows of text or objects, or 0 */
    bool mixed; /* rows have different types */
} arrays;

static void arrays_clear(arrays *a, int64_t n)
{
    for (int64_t i = 0; a->views && i < n; i++)
        if (a->views[i].obj)
            PyBuffer_Release(&a->views[i]);
    PyMem_Free(a->views);
}

/* Views of all rows, and their common shape and type. Empty rows agree with any type. */
static int arrays_look(pyhr_build *b, PyObject **v, int64_t n, arrays *out)
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
        code = pyhr_format_of(view, &id);
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
            return pyhr_fail(b, i, "an array of %d dimensions, but row %lld has %d", view->ndim, (long long)first,
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
        pyhr_format_of(&out->views[first], &out->id); /* all are empty */
    return 0;
}

/* All values of all rows, one after the other, whatever their shapes. */
static hr_array *arrays_values(pyhr_build *b, const arrays *a, int64_t n, int64_t n_null_values)
{
    int bytes = a->id == HR_T_BOOL ? 1 : hr__type_bytes(hr__type_simple(a->id));
    int64_t total = 0, at = 0;
    hr_buffer *values;

    for (int64_t i = 0; i < n; i++)
        total += a->views[i].obj ? a->views[i].len / a->views[i].itemsize : n_null_values;
    values = pyhr_buffer(b, a->id == HR_T_BOOL ? hr__bits_bytes(total) : total * bytes);
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
    return pyhr_array(b, hr__type_simple(a->id), total, NULL, values, NULL, NULL, 0);
}

/* Ragged arrays as lists of lists ...: offsets of dimension `dim`, below `n_above` lists. */
static hr_array *arrays_lists(pyhr_build *b, const arrays *a, int64_t n, PyObject **v)
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
        offsets = pyhr_buffer(b, (n_lists + 1) * 8);
        if (!offsets || (dim == 0 && pyhr_validity(b, v, n, &validity) < 0)) {
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
        made = pyhr_list_array(b, n_lists, validity, offsets, made);
    }
    return made;
}

hr_array *pyhr_build_arrays(pyhr_build *b, PyObject **v, int64_t n)
{
    arrays a;
    hr_array *made = NULL;

    if (arrays_look(b, v, n, &a) < 0)
        goto done;
    if (a.code || a.mixed) {
        const char *how = a.code ? "lists_of_arrays" : "arrays_of_one_type";

        arrays_clear(&a, n);
        if (++b->depth > HR_MAX_DEPTH) { /* convert returned the same kind of value again */
            pyhr_fail(b, -1, "nested too deeply");
            return NULL;
        }
        made = pyhr_build_converted(b, how, v, n);
        b->depth--;
        return made;
    }
    if (a.same && a.ndim > 1) {
        int64_t shape[HR_MAX_DIMS], width = 1, i = 0;
        hr_buffer *validity;

        if (a.ndim > HR_MAX_DIMS) {
            pyhr_fail(b, -1, "expected at most %d dimensions, found %d", HR_MAX_DIMS, a.ndim);
            goto done;
        }
        while (!a.views[i].obj)
            i++;
        for (int d = 0; d < a.ndim; d++) {
            shape[d] = a.views[i].shape[d];
            width *= shape[d];
        }
        if (pyhr_validity(b, v, n, &validity) == 0)
            made = tensors(b, arrays_values(b, &a, n, width), shape, a.ndim, n, validity);
    } else {
        made = arrays_lists(b, &a, n, v);
    }
done:
    arrays_clear(&a, n);
    return made;
}
