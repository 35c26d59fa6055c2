/* pack_rows.c - makes table rows of closed bins of tokens.
 *
 *   tokens         a b c d  e f g  0 0     two documents and padding, seq_len = 9
 *   segment_ids    1 1 1 1  2 2 2  0 0
 *   position_ids   0 1 2 3  0 1 2  0 0
 *   loss_mask      0 1 1 1  0 1 1  0 0     tokens that the tokens before them in their document can predict
 *
 * Tests: test_pack.c. */
#include "op/rows/pack.h"

#define TABLE_BYTES (1 << 20)
#define MAX_TABLE_ROWS 4096

enum { SEGMENTS, POSITIONS, MASK, N_MADE };

/* Bytes of a row in the table. */
static int64_t table_row_bytes(const hr_pack_rows *r)
{
    return r->layout->row_bytes + r->seq_len * 4 * (r->segments + r->positions) + hr__bits_bytes(r->seq_len) * r->mask;
}

static bool is_made(const hr_pack_rows *r, int k)
{
    return k == SEGMENTS ? r->segments : k == POSITIONS ? r->positions : r->mask;
}

static int64_t made_bytes(const hr_pack_rows *r, int k, int64_t n_rows)
{
    return k == MASK ? hr__bits_bytes(n_rows * r->seq_len) : n_rows * r->seq_len * 4;
}

static hr_status begin(hr_pack_rows *r, int64_t place, hr_error *err)
{
    const hr_pack_layout *l = r->layout;

    r->first = place;
    r->cap = HR_MAX(1, HR_MIN(MAX_TABLE_ROWS, TABLE_BYTES / table_row_bytes(r)));
    if (!(r->values = hr__zalloc(r->mem->account, (size_t)(l->n + N_MADE) * sizeof *r->values)))
        return hr__error_memory(err, "pack", l->n * (int64_t)sizeof *r->values);
    for (int i = 0; i < l->n; i++)
        HR_TRY(hr__buffer_new(r->mem, r->cap * r->seq_len * l->columns[i].bytes, &r->values[i], err));
    for (int k = 0; k < N_MADE; k++)
        if (is_made(r, k))
            HR_TRY(hr__buffer_new(r->mem, made_bytes(r, k, r->cap), &r->values[l->n + k], err));
    return HR_OK;
}

/* n values of `bytes` bytes. */
static void fill(uint8_t *to, const uint8_t *value, int bytes, int64_t n)
{
    bool zero = true;

    for (int i = 0; i < bytes; i++)
        zero = zero && !value[i];
    if (zero)
        memset(to, 0, (size_t)(n * bytes));
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * bytes, value, (size_t)bytes);
}

static void add_tokens(hr_pack_rows *r, const hr_bin *bin)
{
    for (int i = 0; i < r->layout->n; i++) {
        const hr_pack_column *c = &r->layout->columns[i];
        uint8_t *to = r->values[i]->data + r->n * r->seq_len * c->bytes;

        memcpy(to, bin->tokens + c->at, (size_t)(bin->used * c->bytes));
        fill(to + bin->used * c->bytes, c->pad, c->bytes, r->seq_len - bin->used);
    }
}

static void add_segment_ids(int32_t *to, const hr_bin *bin, int64_t seq_len)
{
    int64_t at = 0;

    for (int64_t k = 0; k < bin->n_segments; k++)
        for (int64_t end = at + bin->segments[k]; at < end; at++)
            to[at] = (int32_t)(k + 1);
    memset(to + at, 0, (size_t)(seq_len - at) * sizeof *to);
}

static void add_position_ids(int32_t *to, const hr_bin *bin, int64_t seq_len)
{
    int64_t at = 0;

    for (int64_t k = 0; k < bin->n_segments; at += bin->segments[k++])
        for (int32_t i = 0; i < bin->segments[k]; i++)
            to[at + i] = i;
    memset(to + at, 0, (size_t)(seq_len - at) * sizeof *to);
}

static void add_mask(uint8_t *bits, int64_t at, const hr_bin *bin, int64_t seq_len)
{
    hr__bits_fill(bits, at, bin->used, true);
    hr__bits_fill(bits, at + bin->used, seq_len - bin->used, false);
    for (int64_t k = 0; k < bin->n_segments; at += bin->segments[k++])
        hr__bit_clear(bits, at);
}

hr_status hr__pack_rows_add(hr_pack_rows *r, const hr_bin *bin, int64_t place, hr_error *err)
{
    hr_buffer **made;
    int64_t at = r->n * r->seq_len;

    if (!r->values)
        HR_TRY(begin(r, place, err));
    made = r->values + r->layout->n;
    add_tokens(r, bin);
    if (r->segments)
        add_segment_ids((int32_t *)(void *)made[SEGMENTS]->data + at, bin, r->seq_len);
    if (r->positions)
        add_position_ids((int32_t *)(void *)made[POSITIONS]->data + at, bin, r->seq_len);
    if (r->mask)
        add_mask(made[MASK]->data, at, bin, r->seq_len);
    r->n++;
    return HR_OK;
}

/* A column of r->n tensors. Takes `values`, even on failure. */
static hr_status column(const hr_pack_rows *r, hr_type *type, hr_buffer *values, int64_t n_bytes, hr_array **out,
                        hr_error *err)
{
    hr_array *child = NULL;

    *out = NULL;
    hr__buffer_shrink(values, n_bytes);
    HR_TRY(hr__array_new(type->children[0].type, r->n * r->seq_len, 0, (hr_buffer *const[]){ NULL, values, NULL }, NULL,
                         0, &child, err));
    return hr__array_new(type, r->n, 0, (hr_buffer *const[]){ NULL, NULL, NULL }, &child, 1, out, err);
}

/* The columns of the table, up to the one that fails. */
static hr_status columns(hr_pack_rows *r, hr_array **out, hr_error *err)
{
    const hr_pack_layout *l = r->layout;
    int at = 0;

    for (int i = 0; i < l->n + N_MADE; i++) {
        hr_buffer *b = r->values[i];
        int64_t n_bytes;

        if (!b)
            continue;
        n_bytes = i < l->n ? r->n * r->seq_len * l->columns[i].bytes : made_bytes(r, i - l->n, r->n);
        r->values[i] = NULL;
        if (i == l->n + MASK) /* the bits after the last row */
            hr__bits_fill(b->data, r->n * r->seq_len, 8 * n_bytes - r->n * r->seq_len, false);
        HR_TRY(column(r, l->out->fields[at].type, b, n_bytes, &out[at], err));
        at++;
    }
    return HR_OK;
}

hr_status hr__pack_rows_finish(hr_pack_rows *r, hr_table **out, hr_error *err)
{
    int n = r->layout->out->n;
    hr_run_coords coords = { .first = { .row = r->first }, .n = r->n };
    hr_origin *origin = NULL;
    hr_array **made = hr__zalloc(r->mem->account, (size_t)n * sizeof *made);
    hr_status st = HR_OK;

    *out = NULL;
    if (!made)
        return hr__error_memory(err, "pack", n * (int64_t)sizeof *made);
    HR_GO(hr__origin_new(&coords, 1, &origin, err));
    HR_GO(columns(r, made, err));
    st = hr__table_new(r->layout->out, made, r->n, origin, out, err);
    memset(made, 0, (size_t)n * sizeof *made); /* taken */
done:
    for (int i = 0; i < n; i++)
        hr__array_unref(made[i]);
    hr__free(made);
    hr__origin_unref(origin);
    hr__pack_rows_clear(r);
    return st;
}

void hr__pack_rows_clear(hr_pack_rows *r)
{
    for (int i = 0; r->values && i < r->layout->n + N_MADE; i++)
        hr__buffer_unref(r->values[i]);
    hr__free(r->values);
    r->values = NULL;
    r->n = 0;
}
