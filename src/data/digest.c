/* digest.c - a hash of a table's values, by which a position recognizes data in memory.
 *
 * Equal rows have equal digests, wherever their buffers begin and whatever bytes lie under a null. Columns without
 * nulls are hashed as bytes, at the speed of memory; the others by the hash of each row (row_hash.c). */
#include "data/keys.h"

#define ROWS_AT_ONCE 512

/* Rows of children[0] that rows [begin, begin + n) of a list, map, fixed list or tensor have; n > 0. */
static int64_t child_range(const hr_array *a, int64_t begin, int64_t n, int64_t *first)
{
    int64_t last, n_last;

    hr__array_range(a, begin, first, &n_last);
    hr__array_range(a, begin + n - 1, &last, &n_last);
    return last + n_last - *first;
}

/* Whether these rows can be hashed as bytes: no null at any depth, no bits. */
static bool is_plain(const hr_array *a, int64_t begin, int64_t n)
{
    int64_t first;

    if (n == 0)
        return true;
    if (a->type->id == HR_T_NULL || a->type->id == HR_T_BOOL ||
        (a->buffers[0] && hr__bits_count(a->buffers[0]->data, a->offset + begin, n) < n))
        return false;
    if (a->type->id == HR_T_STRUCT) {
        for (int k = 0; k < a->n_children; k++)
            if (!is_plain(a->children[k], a->offset + begin, n))
                return false;
        return true;
    }
    if (!a->n_children)
        return true;
    n = child_range(a, begin, n, &first);
    return is_plain(a->children[0], first, n);
}

/* Stores the number of bytes or values of each row; they begin at *first. -> the sum */
static int64_t add_lengths(const hr_array *a, int64_t begin, int64_t n, int64_t *first, hr_hash *h,
                           const atomic_bool *stop)
{
    const bool wide = hr__type_offset_bytes(a->type) == 8;
    const int32_t *short_at = (const int32_t *)(const void *)a->buffers[1]->data + (wide ? 0 : a->offset + begin);
    const int64_t *long_at = (const int64_t *)(const void *)a->buffers[1]->data + (wide ? a->offset + begin : 0);
    int64_t lengths[ROWS_AT_ONCE];

    for (int64_t i = 0; i < n && !hr__is_stopped(stop); i += ROWS_AT_ONCE) {
        int64_t some = HR_MIN(n - i, ROWS_AT_ONCE);

        for (int64_t k = 0; k < some; k++)
            lengths[k] = wide ? long_at[i + k + 1] - long_at[i + k] : short_at[i + k + 1] - short_at[i + k];
        hr__hash_add(h, lengths, (size_t)some * sizeof *lengths);
    }
    *first = wide ? long_at[0] : short_at[0];
    return (wide ? long_at[n] : short_at[n]) - *first;
}

static void add_plain(const hr_array *a, int64_t begin, int64_t n, hr_hash *h, const atomic_bool *stop)
{
    int width = hr__type_bytes(a->type);
    int64_t first = 0;

    if (n == 0)
        return;
    if (a->type->id == HR_T_STRUCT) {
        for (int k = 0; k < a->n_children; k++)
            add_plain(a->children[k], a->offset + begin, n, h, stop);
        return;
    }
    if (!a->n_children && !hr__type_is_bytes(a->type)) {
        if (width > 0)
            hr__hash_add_until(h, hr__array_values(a) + begin * width, (size_t)(n * width), stop);
        return;
    }
    if (hr__type_offset_bytes(a->type))
        n = add_lengths(a, begin, n, &first, h, stop);
    else
        n = child_range(a, begin, n, &first);
    if (a->n_children)
        add_plain(a->children[0], first, n, h, stop);
    else if (n > 0)
        hr__hash_add_until(h, a->buffers[2]->data + first, (size_t)n, stop);
}

static void add_rows(const hr_array *a, hr_hash *h, const atomic_bool *stop)
{
    uint64_t rows[ROWS_AT_ONCE];

    for (int64_t i = 0; i < a->length && !hr__is_stopped(stop); i += ROWS_AT_ONCE) {
        int64_t some = HR_MIN(a->length - i, ROWS_AT_ONCE);

        hr__values_hash(a, i, some, rows);
        hr__hash_add(h, rows, (size_t)some * sizeof *rows);
    }
}

void hr__array_digest(const hr_array *a, hr_hash *h, const atomic_bool *stop)
{
    bool plain = is_plain(a, 0, a->length);

    hr__hash_int(h, plain);
    if (plain)
        add_plain(a, 0, a->length, h, stop);
    else
        add_rows(a, h, stop);
}

uint64_t hr__table_digest(const hr_table *t, const atomic_bool *stop)
{
    hr_hash h;

    hr__hash_init(&h, 1);
    hr__hash_int(&h, t->n_rows);
    for (int k = 0; k < t->schema->n && !hr__is_stopped(stop); k++)
        hr__array_digest(t->columns[k], &h, stop);
    return hr__hash_end(&h).lo;
}
