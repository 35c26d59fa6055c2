/* builder.c - builds arrays value by value, for tests, text, JSON and Python objects.
 *
 * A builder mirrors its type and has a builder for each child. Lists and structs are built bottom up: the children
 * first, then hr__builder_end closes the row. A null row adds the values below it that the layout requires (a null to
 * each child of a struct, `width` nulls to the child of a fixed list), so that children are always in step. The first
 * null makes the validity bitmap. After a failed call only hr__builder_free may follow. */
#include "data/data.h"

#include <stdio.h>

struct hr_builder {
    hr_mem mem;
    hr_type *type;
    int64_t n_rows, n_nulls;
    hr_growbuf validity; /* empty while n_nulls is 0 */
    hr_growbuf main;     /* values, bits, or offsets (with the leading zero) */
    hr_growbuf bytes;    /* of strings and binary */
    int n_children;
    hr_builder **children;
};

void hr__builder_free(hr_builder *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->n_children; i++)
        hr__builder_free(b->children[i]);
    hr__growbuf_clear(&b->validity);
    hr__growbuf_clear(&b->main);
    hr__growbuf_clear(&b->bytes);
    hr__type_unref(b->type);
    hr__free(b);
}

hr_status hr__builder_new(const hr_mem *mem, hr_type *type, hr_builder **out, hr_error *err)
{
    hr_status st = HR_OK;
    size_t n_bytes = sizeof(hr_builder) + (size_t)type->n_children * sizeof(hr_builder *);
    hr_builder *b = hr__zalloc(mem ? mem->account : NULL, n_bytes);

    *out = NULL;
    if (!b)
        return hr__error_memory(err, "builder", (int64_t)n_bytes);
    if (mem)
        b->mem = *mem;
    b->type = hr__type_ref(type);
    b->validity.mem = b->main.mem = b->bytes.mem = &b->mem;
    b->children = (hr_builder **)(b + 1);
    for (int i = 0; i < type->n_children; i++) {
        HR_GO(hr__builder_new(mem, type->children[i].type, &b->children[i], err));
        b->n_children++;
    }
    *out = b;
    b = NULL;
done:
    hr__builder_free(b);
    return st;
}

hr_builder *hr__builder_child(hr_builder *b, int i) { return i >= 0 && i < b->n_children ? b->children[i] : NULL; }

/* --------------------------------------------------------------------------------------------------- rows, any type */

/* Makes room for bit i of a bitmap and sets it to `value`. */
static hr_status add_bit(hr_growbuf *g, int64_t i, bool value, hr_error *err)
{
    static const uint8_t zero;

    if (i % 8 == 0)
        HR_TRY(hr__growbuf_add(g, &zero, 1, err));
    if (value)
        hr__bit_set(g->buffer->data, i);
    return HR_OK;
}

/* Makes the validity bitmap of the rows so far, none of which is null. */
static hr_status begin_validity(hr_builder *b, hr_error *err)
{
    int64_t n_bytes = hr__bits_bytes(b->n_rows);

    HR_TRY(hr__growbuf_reserve(&b->validity, n_bytes + 1, err));
    memset(b->validity.buffer->data, 0, (size_t)n_bytes);
    hr__bits_fill(b->validity.buffer->data, 0, b->n_rows, true);
    b->validity.buffer->n_bytes = n_bytes;
    return HR_OK;
}

/* Counts one more row. */
static hr_status add_row(hr_builder *b, bool valid, hr_error *err)
{
    if (!valid && b->n_nulls == 0)
        HR_TRY(begin_validity(b, err));
    if (!valid || b->n_nulls)
        HR_TRY(add_bit(&b->validity, b->n_rows, valid, err));
    b->n_nulls += !valid;
    b->n_rows++;
    return HR_OK;
}

/* Adds the offset after the new row; before the first row also a zero. */
static hr_status add_offset(hr_builder *b, int64_t end, hr_error *err)
{
    int width = hr__type_offset_bytes(b->type);
    int64_t zero = 0;
    int32_t end32 = (int32_t)end;

    if (width == 4 && end > INT32_MAX)
        return hr_error_set(err, HR_BUDGET, "a column would have %lld %s, its 32-bit offsets end at 2 GiB",
                            (long long)end, hr__type_is_bytes(b->type) ? "bytes" : "values");
    if (b->n_rows == 0)
        HR_TRY(hr__growbuf_add(&b->main, &zero, width, err));
    return hr__growbuf_add(&b->main, width == 4 ? (const void *)&end32 : (const void *)&end, width, err);
}

static hr_status add_zeros(hr_growbuf *g, int64_t n, hr_error *err)
{
    HR_TRY(hr__growbuf_reserve(g, n, err));
    memset(g->buffer->data + g->buffer->n_bytes, 0, (size_t)n);
    g->buffer->n_bytes += n;
    return HR_OK;
}

hr_status hr__builder_null(hr_builder *b, hr_error *err)
{
    int64_t n_below = b->type->id == HR_T_STRUCT ? 1 : hr__type_is_fixed_list(b->type) ? b->type->width : 0;

    if (b->type->id == HR_T_BOOL)
        HR_TRY(add_bit(&b->main, b->n_rows, false, err));
    else if (hr__type_is_bytes(b->type))
        HR_TRY(add_offset(b, b->bytes.buffer ? b->bytes.buffer->n_bytes : 0, err));
    else if (hr__type_offset_bytes(b->type))
        HR_TRY(add_offset(b, b->children[0]->n_rows, err));
    else if (hr__type_bytes(b->type))
        HR_TRY(add_zeros(&b->main, hr__type_bytes(b->type), err));
    for (int i = 0; i < b->n_children && n_below; i++)
        for (int64_t k = 0; k < n_below; k++)
            HR_TRY(hr__builder_null(b->children[i], err));
    if (b->type->id == HR_T_NULL) {
        b->n_rows++;
        return HR_OK;
    }
    return add_row(b, false, err);
}

static hr_status wrong_type(const hr_builder *b, const char *what, hr_error *err)
{
    hr_text t = { 0 };
    hr_status st;

    hr__type_print(b->type, &t);
    st = hr_error_set(err, HR_TYPE, "%s does not fit a column of type %s", what, t.data ? t.data : "?");
    hr__text_clear(&t);
    return st;
}

hr_status hr__builder_end(hr_builder *b, hr_error *err)
{
    int64_t width = b->type->id == HR_T_STRUCT ? 1 : b->type->width;

    if (hr__type_offset_bytes(b->type) && b->n_children == 1) {
        HR_TRY(add_offset(b, b->children[0]->n_rows, err));
        return add_row(b, true, err);
    }
    if (b->type->id != HR_T_STRUCT && !hr__type_is_fixed_list(b->type))
        return wrong_type(b, "a list", err);
    for (int i = 0; i < b->n_children; i++)
        if (b->children[i]->n_rows != (b->n_rows + 1) * width)
            return hr_error_set(err, HR_TYPE, "'%s': row %lld has %lld values, expected %lld",
                                b->type->children[i].name, (long long)b->n_rows,
                                (long long)(b->children[i]->n_rows - b->n_rows * width), (long long)width);
    return add_row(b, true, err);
}

/* ------------------------------------------------------------------------------------------------------ flat values */

static hr_status out_of_range(const hr_builder *b, const char *number, hr_error *err)
{
    hr_text t = { 0 };
    hr_status st;

    hr__type_print(b->type, &t);
    st = hr_error_set(err, HR_TYPE, "%s is out of the range of %s", number, t.data ? t.data : "?");
    hr__text_clear(&t);
    return st;
}

/* The smallest and the largest (unsigned) integer of the type; false: the type has no integers. */
static bool integer_range(const hr_type *t, int64_t *least, uint64_t *most)
{
    int bits = 8 * hr__type_bytes(t);

    switch (t->id) {
    case HR_T_BOOL: *least = 0, *most = 1; return true;
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: *least = 0, *most = UINT64_MAX >> (64 - bits); return true;
    case HR_T_INT8:
    case HR_T_INT16:
    case HR_T_INT32:
    case HR_T_INT64:
    case HR_T_DATE32:
    case HR_T_DATE64:
    case HR_T_TIME32:
    case HR_T_TIME64:
    case HR_T_TIMESTAMP:
    case HR_T_DURATION: *least = INT64_MIN >> (64 - bits), *most = UINT64_MAX >> (65 - bits); return true;
    default: return false;
    }
}

/* Adds the low bytes of `bits`, for signed and unsigned numbers. */
static hr_status add_integer(hr_builder *b, uint64_t bits, hr_error *err)
{
    uint8_t v8 = (uint8_t)bits;
    uint16_t v16 = (uint16_t)bits;
    uint32_t v32 = (uint32_t)bits;

    switch (hr__type_bytes(b->type)) {
    case 0: HR_TRY(add_bit(&b->main, b->n_rows, bits != 0, err)); break;
    case 1: HR_TRY(hr__growbuf_add(&b->main, &v8, 1, err)); break;
    case 2: HR_TRY(hr__growbuf_add(&b->main, &v16, 2, err)); break;
    case 4: HR_TRY(hr__growbuf_add(&b->main, &v32, 4, err)); break;
    default: HR_TRY(hr__growbuf_add(&b->main, &bits, 8, err)); break;
    }
    return add_row(b, true, err);
}

hr_status hr__builder_int(hr_builder *b, int64_t v, hr_error *err)
{
    int64_t least = 0;
    uint64_t most = 0;
    char number[24];

    if (!integer_range(b->type, &least, &most))
        return wrong_type(b, "an integer", err);
    if (v < least || (v > 0 && (uint64_t)v > most)) {
        snprintf(number, sizeof number, "%lld", (long long)v);
        return out_of_range(b, number, err);
    }
    return add_integer(b, (uint64_t)v, err);
}

hr_status hr__builder_double(hr_builder *b, double v, hr_error *err)
{
    float single = (float)v;
    uint16_t half = hr__half_of(v);

    switch (b->type->id) {
    case HR_T_FLOAT16: HR_TRY(hr__growbuf_add(&b->main, &half, sizeof half, err)); break;
    case HR_T_FLOAT32: HR_TRY(hr__growbuf_add(&b->main, &single, sizeof single, err)); break;
    case HR_T_FLOAT64: HR_TRY(hr__growbuf_add(&b->main, &v, sizeof v, err)); break;
    default: return wrong_type(b, "a number with a fraction", err);
    }
    return add_row(b, true, err);
}

hr_status hr__builder_bytes(hr_builder *b, const void *data, int64_t n, hr_error *err)
{
    int64_t width = hr__type_bytes(b->type), held = b->bytes.buffer ? b->bytes.buffer->n_bytes : 0;

    if (hr__type_is_bytes(b->type)) {
        HR_TRY(add_offset(b, held + n, err));
        HR_TRY(hr__growbuf_add(&b->bytes, data, n, err));
        return add_row(b, true, err);
    }
    if (width == 0 && b->type->id != HR_T_FIXED_BINARY)
        return wrong_type(b, "a string of bytes", err);
    if (n != width)
        return hr_error_set(err, HR_TYPE, "a value of %lld bytes, expected %lld", (long long)n, (long long)width);
    HR_TRY(hr__growbuf_add(&b->main, data, n, err));
    return add_row(b, true, err);
}

/* ----------------------------------------------------------------------------------------------------------- finish */

/* Moves the buffer out of its builder, an empty buffer if it has none: an array has all its buffers. */
static hr_status move_buffer(hr_growbuf *g, int64_t least_bytes, hr_buffer **out, hr_error *err)
{
    if (!g->buffer && least_bytes) /* the offsets of a column without rows */
        HR_TRY(add_zeros(g, least_bytes, err));
    return hr__growbuf_finish(g, out, err);
}

static hr_status finish_buffers(hr_builder *b, hr_buffer *buffers[3], hr_error *err)
{
    bool has_main = b->type->id != HR_T_NULL && b->type->id != HR_T_STRUCT && !hr__type_is_fixed_list(b->type);

    if (b->n_nulls)
        HR_TRY(move_buffer(&b->validity, 0, &buffers[0], err));
    if (has_main)
        HR_TRY(move_buffer(&b->main, hr__type_offset_bytes(b->type), &buffers[1], err));
    return hr__type_is_bytes(b->type) ? move_buffer(&b->bytes, 0, &buffers[2], err) : HR_OK;
}

hr_status hr__builder_finish(hr_builder *b, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array *few[4] = { NULL }, **children = few;
    size_t n_bytes = (size_t)b->n_children * sizeof(hr_array *);
    int n = 0;

    *out = NULL;
    if (b->n_children > HR_LEN(few) && !(children = hr__zalloc(b->mem.account, n_bytes)))
        return hr__error_memory(err, "builder", (int64_t)n_bytes);
    for (; n < b->n_children; n++)
        HR_GO(hr__builder_finish(b->children[n], &children[n], err));
    HR_GO(finish_buffers(b, buffers, err));
    st = hr__array_new(b->type, b->n_rows, b->n_nulls, buffers, children, b->n_children, out, err);
    buffers[0] = buffers[1] = buffers[2] = NULL; /* the call took both */
    n = 0;
    b->n_rows = b->n_nulls = 0;
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    while (n > 0)
        hr__array_unref(children[--n]);
    if (children != few)
        hr__free(children);
    return st;
}
