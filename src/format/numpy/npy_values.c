/* npy_values.c - turns raw rows of a .npy file into columns.
 *
 * Numbers in the machine's byte order become columns without a copy. All other values are copied once: fields out of
 * their records, bytes into the machine's order, booleans into bits, texts without their padding, times in a unit that
 * Arrow has; "not a time" becomes a null.
 *
 * Tests: test_npy.c. */
#include "format/numpy/npy.h"

bool npy__is_values(const npy_header *h, const npy_field *f)
{
    return h->n_fields == 1 && h->record_bytes == f->n_items * f->item_bytes && !f->swap &&
           (f->kind == NPY_PLAIN || f->kind == NPY_COMPLEX || f->kind == NPY_VOID);
}

/* The place of the file's column `column` in a row. */
static int64_t row_major(const npy_header *h, int64_t column)
{
    int64_t at = 0;

    for (int i = 1; i < h->n_dims; i++) { /* the first of them varies fastest in the file, the last in a row */
        int64_t rest = 1;

        for (int k = i + 1; k < h->n_dims; k++)
            rest *= HR_MAX(h->shape[k], 1);
        at += column % HR_MAX(h->shape[i], 1) * rest;
        column /= HR_MAX(h->shape[i], 1);
    }
    return at;
}

void npy__scatter(const npy_header *h, const uint8_t *from, int64_t stride, int64_t first, int64_t n_columns, int64_t n,
                  uint8_t *to)
{
    size_t bytes = (size_t)h->record_bytes;

    for (int64_t k = 0; k < n_columns; k++) {
        const uint8_t *p = from + k * stride * h->record_bytes;
        uint8_t *out = to + row_major(h, first + k) * h->record_bytes;

        switch (bytes) { /* copies of known size are moves */
        case 4:
            for (int64_t i = 0; i < n; i++)
                memcpy(out + i * h->row_bytes, p + i * 4, 4);
            break;
        case 8:
            for (int64_t i = 0; i < n; i++)
                memcpy(out + i * h->row_bytes, p + i * 8, 8);
            break;
        default:
            for (int64_t i = 0; i < n; i++)
                memcpy(out + i * h->row_bytes, p + i * h->record_bytes, bytes);
        }
    }
}

/* Picks a field's values out of all records, one after the other. */
static void pick(const npy_header *h, const npy_field *f, const uint8_t *raw, int64_t n, uint8_t *out)
{
    int64_t bytes = f->n_items * f->item_bytes, n_records = n * h->row_records;

    if (bytes == h->record_bytes) {
        if (n_records * bytes > 0)
            memcpy(out, raw, (size_t)(n_records * bytes));
        return;
    }
    for (int64_t i = 0; i < n_records; i++)
        memcpy(out + i * bytes, raw + i * h->record_bytes + f->at, (size_t)bytes);
}

static void swap_bytes(uint8_t *p, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n; i++, p += width) {
        uint64_t w8;
        uint32_t w4;
        uint16_t w2;

        if (width == 8) {
            memcpy(&w8, p, 8);
            w8 = __builtin_bswap64(w8);
            memcpy(p, &w8, 8);
        } else if (width == 4) {
            memcpy(&w4, p, 4);
            w4 = __builtin_bswap32(w4);
            memcpy(p, &w4, 4);
        } else if (width == 2) {
            memcpy(&w2, p, 2);
            w2 = __builtin_bswap16(w2);
            memcpy(p, &w2, 2);
        }
    }
}

/* The raw rows, or the field's values out of them: shares or new. */
static hr_status dense(const npy_header *h, const npy_field *f, hr_buffer *raw, int64_t n, const hr_mem *mem,
                       hr_buffer **out, hr_error *err)
{
    int64_t width = f->kind == NPY_COMPLEX ? f->item_bytes / 2 : f->kind == NPY_UNICODE ? 4 : f->item_bytes;
    int64_t bytes = n * f->row_items * f->item_bytes;

    if (h->record_bytes == f->n_items * f->item_bytes && !f->swap && raw) {
        *out = hr__buffer_ref(raw);
        return HR_OK;
    }
    HR_TRY(hr__buffer_new(mem, bytes, out, err));
    if (raw)
        pick(h, f, raw->data, n, (*out)->data);
    if (f->swap && width > 1)
        swap_bytes((*out)->data, bytes / width, width);
    return HR_OK;
}

static hr_status bools(const hr_buffer *from, int64_t n, const hr_mem *mem, hr_buffer **out, hr_error *err)
{
    HR_TRY(hr__buffer_new(mem, hr__bits_bytes(n), out, err));
    memset((*out)->data, 0, (size_t)hr__bits_bytes(n));
    for (int64_t i = 0; i < n; i++)
        (*out)->data[i >> 3] |= (uint8_t)((from->data[i] != 0) << (i & 7));
    return HR_OK;
}

/* Converts int64 from the stored unit to the type's unit; the validity bits are set for all values but NaT. */
static hr_status times(const npy_field *f, const hr_buffer *from, int64_t n, const char *name, int64_t row,
                       const hr_mem *mem, hr_buffer *buffers[3], int64_t *n_nulls, hr_error *err)
{
    int64_t *values;

    HR_TRY(hr__buffer_new(mem, hr__bits_bytes(n), &buffers[0], err));
    HR_TRY(hr__buffer_new(mem, n * 8, &buffers[1], err));
    hr__bits_fill(buffers[0]->data, 0, n, true);
    values = (int64_t *)(void *)buffers[1]->data;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&values[i], from->data + i * 8, 8);
        if (values[i] == INT64_MIN) {
            hr__bit_clear(buffers[0]->data, i);
            ++*n_nulls;
        } else if (__builtin_mul_overflow(values[i], f->factor, &values[i])) {
            return hr_error_set(err, HR_UNSUPPORTED,
                                "%s: row %lld: a time that does not fit in 64 bits in Arrow's unit", name,
                                (long long)(row + i / HR_MAX(f->row_items, 1)));
        }
    }
    if (*n_nulls == 0) {
        hr__buffer_unref(buffers[0]);
        buffers[0] = NULL;
    }
    return HR_OK;
}

/* Length without padding. */
static int64_t unpadded(const uint8_t *p, int64_t n, int64_t unit)
{
    static const uint8_t zeros[4];

    while (n > 0 && memcmp(p + n - unit, zeros, (size_t)unit) == 0)
        n -= unit;
    return n;
}

/* UCS-4 to UTF-8; -1: not a character. */
static int64_t utf8_of(const uint8_t *p, int64_t n, uint8_t *out)
{
    uint8_t *begin = out;

    for (int64_t i = 0; i < n; i += 4) {
        uint32_t u;

        memcpy(&u, p + i, 4);
        if (u < 0x80) {
            *out++ = (uint8_t)u;
        } else if (u < 0x800) {
            *out++ = (uint8_t)(0xc0 | u >> 6);
            *out++ = (uint8_t)(0x80 | (u & 63));
        } else if (u < 0x10000 && (u < 0xd800 || u > 0xdfff)) {
            *out++ = (uint8_t)(0xe0 | u >> 12);
            *out++ = (uint8_t)(0x80 | (u >> 6 & 63));
            *out++ = (uint8_t)(0x80 | (u & 63));
        } else if (u >= 0x10000 && u < 0x110000) {
            *out++ = (uint8_t)(0xf0 | u >> 18);
            *out++ = (uint8_t)(0x80 | (u >> 12 & 63));
            *out++ = (uint8_t)(0x80 | (u >> 6 & 63));
            *out++ = (uint8_t)(0x80 | (u & 63));
        } else {
            return -1;
        }
    }
    return out - begin;
}

static hr_status texts(const npy_field *f, const hr_buffer *from, int64_t n, const char *name, int64_t row,
                       const hr_mem *mem, hr_buffer *buffers[3], hr_error *err)
{
    int64_t unit = f->kind == NPY_UNICODE ? 4 : 1, at = 0, length;
    int32_t *offsets;

    HR_TRY(hr__buffer_new(mem, (n + 1) * 4, &buffers[1], err));
    HR_TRY(hr__buffer_new(mem, n * f->item_bytes, &buffers[2], err)); /* UTF-8 is never longer than UCS-4 */
    offsets = (int32_t *)(void *)buffers[1]->data;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = from->data + i * f->item_bytes;

        offsets[i] = (int32_t)at;
        length = unpadded(p, f->item_bytes, unit);
        if (unit == 4)
            length = utf8_of(p, length, buffers[2]->data + at);
        else if (length)
            memcpy(buffers[2]->data + at, p, (size_t)length);
        if (length < 0)
            return hr_error_set(err, HR_BAD_DATA, "%s: row %lld: a text with an invalid character", name,
                                (long long)(row + i / HR_MAX(f->row_items, 1)));
        at += length;
    }
    offsets[n] = (int32_t)at;
    hr__buffer_shrink(buffers[2], at);
    return HR_OK;
}

/* Puts the values of n rows into the lists of `type`, from the inside out. Takes `values`. */
static hr_status wrap(hr_type *type, hr_array *values, int64_t n, hr_array **out, hr_error *err)
{
    static hr_buffer *const none[3];
    hr_array *inner = NULL;

    if (!hr__type_is_fixed_list(type)) {
        *out = values;
        return HR_OK;
    }
    if (hr__type_is_fixed_list(type->children[0].type)) {
        HR_TRY(wrap(type->children[0].type, values, n * type->width, &inner, err));
        values = inner;
    }
    return hr__array_new(type, n, 0, none, &values, 1, out, err);
}

hr_status npy__column(const npy_header *h, const npy_field *f, const char *name, int64_t row, hr_buffer *raw, int64_t n,
                      const hr_mem *mem, hr_array **out, hr_error *err)
{
    int64_t n_values = n * f->row_items, n_nulls = 0;
    hr_buffer *buffers[3] = { NULL, NULL, NULL }, *flat = NULL;
    hr_array *values = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(dense(h, f, raw, n, mem, &flat, err));
    switch (f->kind) {
    case NPY_COMPLEX:
    case NPY_PLAIN:
    case NPY_VOID: buffers[1] = hr__buffer_ref(flat); break;
    case NPY_BOOL: HR_GO(bools(flat, n_values, mem, &buffers[1], err)); break;
    case NPY_TIME: HR_GO(times(f, flat, n_values, name, row, mem, buffers, &n_nulls, err)); break;
    case NPY_BYTES:
    case NPY_UNICODE: HR_GO(texts(f, flat, n_values, name, row, mem, buffers, err)); break;
    }
    if (f->kind == NPY_COMPLEX)
        n_values *= 2;
    st = hr__array_new(f->value, n_values, n_nulls, buffers, NULL, 0, &values, err);
    memset(buffers, 0, sizeof buffers); /* taken */
    if (st)
        goto done;
    st = wrap(f->type, values, n, out, err); /* takes it */
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    hr__buffer_unref(flat);
    return st;
}
