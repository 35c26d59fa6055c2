/* join_turned.c - a join that numbers the keys of its left side, the smaller one.
 *
 * 1. Holds the left side and numbers its keys (join_keys.c).
 * 2. Looks up the right rows as they come, in parallel. Keeps right rows with a partner, with the number of their key;
 *    drops the others, except in joins that emit them. Semi and anti joins keep only the set of numbers.
 * 3. After the last right row, makes the kept rows a table by these numbers (join_table.c). Each left row finds its
 *    partners there by its number from step 1: one block part for each BLOCK_PART_ROWS left rows, in their order.
 *
 * Tests: test_keyed.c. */
#include "op/join/join.h"

#define BLOCK_PART_ROWS 65536

static hr_status find_gaps(hr_join_turned *t, hr_error *err)
{
    if (!(t->there = hr__zalloc(t->account, (size_t)hr__join_keys_n(t->keys) + 1)))
        return hr__error_memory(err, "join", hr__join_keys_n(t->keys));
    for (int64_t i = 0; i < t->left->n_rows; i++)
        if (t->ids[i] != HR_NO_KEY)
            t->there[t->ids[i]] = 1;
    return HR_OK;
}

hr_status hr__join_turned_new(hr_join_kind kind, const int *keys, int n_keys, hr_table *takes_left, hr_task *task,
                              hr_account *account, hr_join_turned **out, hr_error *err)
{
    hr_join_turned *t = hr__zalloc(account, sizeof *t);
    int64_t n = takes_left->n_rows;
    hr_status st = HR_OK;

    *out = NULL;
    if (!t) {
        hr_table_unref(takes_left);
        return hr__error_memory(err, "join", sizeof *t);
    }
    t->account = account;
    t->kind = kind;
    t->left = takes_left;
    memcpy(t->keys_at, keys, (size_t)n_keys * sizeof *keys);
    if (!(t->ids = hr__alloc(account, (size_t)(n + 1) * sizeof *t->ids)))
        HR_GO(hr__error_memory(err, "join", n * 4));
    HR_GO(hr__join_keys_new(t->left, keys, n_keys, task, account, t->ids, &t->keys, err));
    if (hr__join_keys_gaps(t->keys))
        HR_GO(find_gaps(t, err));
    if (kind >= HR_JOIN_SEMI && !(t->hit = hr__zalloc(account, (size_t)hr__join_keys_n(t->keys) + 1)))
        HR_GO(hr__error_memory(err, "join", hr__join_keys_n(t->keys)));
    t->n_block_parts = HR_ROUND_UP(n, BLOCK_PART_ROWS) / BLOCK_PART_ROWS;
    *out = t;
    t = NULL;
done:
    hr__join_turned_free(t);
    return st;
}

void hr__join_turned_free(hr_join_turned *t)
{
    if (!t)
        return;
    hr_table_unref(t->left);
    hr__join_keys_free(t->keys);
    hr__free(t->ids);
    hr__free(t->there);
    hr__free((void *)t->hit);
    hr__free(t->before);
    hr__free(t);
}

/* ------------------------------------------------------------------------------------------------------- right rows */

hr_status hr__join_schema_with_numbers(const hr_schema *s, hr_schema **out, hr_error *err)
{
    return hr__schema_append(s, "\001number", hr__type_simple(HR_T_UINT32), false, out, err);
}

/* Moves the rows with a partner, and their numbers, to the front; returns how many. */
static int64_t with_partner(uint32_t *ids, int32_t *rows, int64_t n)
{
    int64_t m = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t id = ids[i];

        rows[m] = (int32_t)i;
        ids[m] = id;
        m += id != HR_NO_KEY;
    }
    return m;
}

static void mark(hr_join_turned *t, const uint32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] != HR_NO_KEY && !atomic_load_explicit(&t->hit[ids[i]], memory_order_relaxed))
            atomic_store_explicit(&t->hit[ids[i]], 1, memory_order_relaxed);
}

/* t with a last column, the numbers of its rows. */
static hr_status with_numbers(const hr_table *t, hr_schema *numbered, const uint32_t *ids, const hr_mem *mem,
                              hr_table **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL };
    hr_array *column = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    HR_TRY(hr__buffer_new(mem, t->n_rows * 4, &buffers[1], err));
    memcpy(buffers[1]->data, ids, (size_t)t->n_rows * 4);
    HR_TRY(hr__array_new(hr__type_simple(HR_T_UINT32), t->n_rows, 0, buffers, NULL, 0, &column, err));
    st = hr__origin_new(&(hr_run_coords){ .n = t->n_rows }, 1, &origin, err);
    if (st)
        hr__array_unref(column);
    else
        st = hr__table_append(t, numbered, column, origin, out, err);
    hr__origin_unref(origin);
    return st;
}

hr_status hr__join_turned_find(hr_join_turned *t, const hr_table *right, const int *keys, hr_schema *numbered,
                               const hr_mem *mem, hr_table **out, hr_error *err)
{
    bool all = t->kind == HR_JOIN_RIGHT || t->kind == HR_JOIN_FULL;
    uint32_t *ids = hr__alloc(t->account, (size_t)(right->n_rows + 1) * sizeof *ids);
    int32_t *rows = all ? NULL : hr__alloc(t->account, (size_t)(right->n_rows + 1) * sizeof *rows);
    hr_table *some = NULL;
    int64_t n = right->n_rows;
    hr_status st = HR_OK;

    *out = NULL;
    if (!ids || (!rows && !all))
        HR_GO(hr__error_memory(err, "join", n * 8));
    hr__join_keys_find(t->keys, right, keys, 0, n, ids);
    for (int64_t i = 0; t->there && i < n; i++)
        if (ids[i] != HR_NO_KEY && !t->there[ids[i]])
            ids[i] = HR_NO_KEY;
    if (t->kind >= HR_JOIN_SEMI) {
        mark(t, ids, n);
        goto done;
    }
    if (!all)
        n = with_partner(ids, rows, n);
    if (!n)
        goto done;
    if (n < right->n_rows)
        HR_GO(hr__table_take(mem, right, rows, 4, n, &some, err));
    st = with_numbers(some ? some : right, numbered, ids, mem, out, err);
done:
    hr_table_unref(some);
    hr__free(ids);
    hr__free(rows);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ table */

static hr_status numbers_of(hr_join_turned *t, const hr_table *kept, uint32_t **out, hr_error *err)
{
    if (!(*out = hr__alloc(t->account, (size_t)(kept->n_rows + 1) * sizeof **out)))
        return hr__error_memory(err, "join", kept->n_rows * 4);
    if (kept->n_rows)
        memcpy(*out, hr__array_values(kept->columns[kept->schema->n - 1]), (size_t)kept->n_rows * sizeof **out);
    return HR_OK;
}

static hr_status begin_walk(const hr_join_turned *t, const hr_join_table *right, int64_t block_part, hr_table **left,
                            hr_join_walk *walk, hr_error *err)
{
    int64_t begin = block_part * BLOCK_PART_ROWS, n = HR_MIN(BLOCK_PART_ROWS, t->left->n_rows - begin);

    HR_TRY(hr_table_slice(t->left, begin, n, left, err));
    return hr__join_walk_known(walk, right, *left, t->ids + begin, err);
}

hr_status hr__join_turned_table(hr_join_turned *t, const int *keys, int n_keys, hr_schema *schema, hr_table *kept,
                                hr_join_table **out, hr_error *err)
{
    uint32_t *ids = NULL;
    hr_table *rows = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(numbers_of(t, kept, &ids, err));
    HR_GO(hr__table_first(kept, schema, &rows, err));
    st = hr__join_table_numbered(keys, n_keys, rows, ids, hr__join_keys_n(t->keys), t->hit, t->account, out, err);
    rows = NULL;
    ids = NULL;
done:
    hr_table_unref(rows);
    hr__free(ids);
    return st;
}

typedef struct counting {
    hr_join_turned *turned;
    const hr_join_table *right;
} counting;

static hr_status count_block_part(void *context, int64_t block_part, hr_error *err)
{
    const counting *c = context;
    hr_join_walk walk = { 0 };
    hr_table *left = NULL;
    hr_status st = begin_walk(c->turned, c->right, block_part, &left, &walk, err);

    if (!st)
        c->turned->before[block_part + 1] = hr__join_walk_rows(&walk, c->turned->kind, c->right);
    hr__join_walk_end(&walk);
    hr_table_unref(left);
    return st;
}

hr_status hr__join_turned_count(hr_join_turned *t, const hr_join_table *right, hr_task *task, hr_error *err)
{
    counting c = { t, right };

    if (!(t->before = hr__zalloc(t->account, (size_t)(t->n_block_parts + 1) * sizeof *t->before)))
        return hr__error_memory(err, "join", t->n_block_parts * 8);
    HR_TRY(hr__task_share(task, t->n_block_parts, count_block_part, &c, err));
    for (int64_t p = 0; p < t->n_block_parts; p++)
        t->before[p + 1] += t->before[p];
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ block parts */

typedef struct turned_reader {
    hr_reader base;
    const hr_join_turned *turned;
    const hr_join_table *right;
    const hr_join_bound *bound;
    hr_mem mem;
    int64_t block_part, first; /* number of the next row of the whole output */
    hr_table *left;
    hr_join_walk walk;
} turned_reader;

static void turned_close(hr_reader *base)
{
    turned_reader *r = (turned_reader *)base;

    hr__join_walk_end(&r->walk);
    hr_table_unref(r->left);
    hr__free(r);
}

static hr_status turned_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    turned_reader *r = (turned_reader *)base;
    hr_origin *origin = NULL;
    hr_table *found = NULL;
    hr_status st = HR_OK;

    (void)max_bytes;
    *out = NULL;
    if (r->first == r->turned->before[r->block_part + 1])
        return HR_OK;
    if (!r->left)
        HR_GO(begin_walk(r->turned, r->right, r->block_part, &r->left, &r->walk, err));
    HR_GO(hr__join_walk_next(&r->walk, r->bound, r->right, &r->mem, &found, NULL, err));
    if (!found)
        HR_FAIL(HR_BUG, "join: a block part ends at output row %lld, expected %lld", (long long)r->first,
                (long long)r->turned->before[r->block_part + 1]);
    HR_GO(hr__origin_new(&(hr_run_coords){ .first = { .row = r->first }, .n = found->n_rows }, 1, &origin, err));
    r->first += found->n_rows;
    st = hr__table_with_origin(found, origin, out, err);
done:
    hr__origin_unref(origin);
    hr_table_unref(found);
    return st;
}

static const hr_reader_class turned_reading = { .next = turned_next, .close = turned_close };

hr_status hr__join_turned_read(const hr_join_turned *t, const hr_join_table *right, const hr_join_bound *bound,
                               int64_t block_part, const hr_mem *mem, hr_reader **out, hr_error *err)
{
    turned_reader *r = hr__zalloc(t->account, sizeof *r);

    *out = NULL;
    if (!r)
        return hr__error_memory(err, "join", sizeof *r);
    r->base.cls = &turned_reading;
    r->turned = t;
    r->right = right;
    r->bound = bound;
    r->mem = *mem;
    r->block_part = block_part;
    r->first = t->before[block_part];
    *out = &r->base;
    return HR_OK;
}
