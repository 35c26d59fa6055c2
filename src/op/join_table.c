/* join_table.c - the side of a join that is looked up: its rows by key, and what the rows of the other side make of them.
 *
 * Rows of one key stand together in `order`, found by the key's number. A left table becomes pairs (left row, right row or
 * none), and the pairs a table, column by column; where the pairs are just the left rows, their columns are shared. */
#include "op/join.h"

#define STEP_ROWS 65536
#define NONE HR_NO_KEY

static bool are_rows(const uint32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] != i && ids[i] != NONE)
            return false;
    return true;
}

static hr_status order_by_key(hr_join_table *t, const uint32_t *ids, hr_error *err)
{
    int64_t n_keys = hr__join_keys_n(t->keys), n = t->rows->n_rows;

    if (!(t->hit = hr__zalloc(t->account, (size_t)n_keys + 1)))
        return hr__error_memory(err, "join", n_keys);
    if (are_rows(ids, n))
        return HR_OK;
    t->begins = hr__zalloc(t->account, (size_t)(n_keys + 2) * sizeof *t->begins);
    t->order = hr__alloc(t->account, (size_t)(n + 1) * sizeof *t->order);
    if (!t->begins || !t->order)
        return hr__error_memory(err, "join", (n + n_keys) * 4);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] != NONE)
            t->begins[ids[i] + 2]++;
    for (int64_t k = 0; k < n_keys; k++)
        t->begins[k + 2] += t->begins[k + 1];
    for (int64_t i = 0; i < n; i++) /* each begin moves to its end, which is the next one's begin */
        if (ids[i] != NONE)
            t->order[t->begins[ids[i] + 1]++] = (uint32_t)i;
    return HR_OK;
}

hr_status hr__join_table_new(const int *keys, int n_keys, hr_table *takes_rows, hr_account *account,
                             hr_join_table **out, hr_error *err)
{
    hr_join_table *t = hr__zalloc(account, sizeof *t);
    uint32_t *ids = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!t) {
        hr_table_unref(takes_rows);
        return hr__error_memory(err, "join", sizeof *t);
    }
    t->account = account;
    t->n_keys = n_keys;
    memcpy(t->right_keys, keys, (size_t)n_keys * sizeof *keys);
    t->rows = takes_rows;
    if (!(ids = hr__alloc(account, (size_t)(t->rows->n_rows + 1) * sizeof *ids)))
        HR_GO(hr__error_memory(err, "join", t->rows->n_rows * 4));
    HR_GO(hr__join_keys_new(t->rows, keys, n_keys, account, ids, &t->keys, err));
    HR_GO(order_by_key(t, ids, err));
    *out = t;
    t = NULL;
done:
    hr__free(ids);
    hr__join_table_free(t);
    return st;
}

void hr__join_table_free(hr_join_table *t)
{
    if (!t)
        return;
    hr_table_unref(t->rows);
    hr__join_keys_free(t->keys);
    hr__free(t->begins);
    hr__free(t->order);
    hr__free((void *)t->hit);
    hr__free(t);
}

/* --------------------------------------------------------------------------------------------------------------- pairs */

typedef struct pairs {
    int64_t *left, *right; /* rows; -1: none */
    int64_t n, cap;
    bool all_left; /* left is 0, 1, ... of the whole table */
} pairs;

static void pairs_clear(pairs *p)
{
    hr__free(p->left);
    hr__free(p->right);
}

static hr_status add_pair(pairs *p, hr_account *account, int64_t left, int64_t right, hr_error *err)
{
    int64_t cap = p->cap;

    if (p->n == p->cap && (!hr__grow(account, (void **)&p->left, &cap, p->n + 1, sizeof *p->left) ||
                           !hr__grow(account, (void **)&p->right, &p->cap, p->n + 1, sizeof *p->right)))
        return hr__error_memory(err, "join", p->n * 16);
    p->left[p->n] = left;
    p->right[p->n++] = right;
    return HR_OK;
}

/* Key k where there is no left row: the right one's. Where there are only such rows, or none, one take will do. */
static hr_status key_column(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, int column,
                            const pairs *p, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const hr_array *from = left ? left->columns[b->from[column]] : NULL;

    if (from && p->all_left) {
        *out = hr__array_ref((hr_array *)from);
        return HR_OK;
    }
    if (!from)
        return hr__array_take(mem, t->rows->columns[t->right_keys[b->key[column]]], p->right, 8, p->n, out, err);
    return hr__array_take(mem, from, p->left, 8, p->n, out, err);
}

static hr_status other_column(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, int column,
                              const pairs *p, const hr_mem *mem, hr_array **out, hr_error *err)
{
    if (b->right[column])
        return hr__array_take(mem, t->rows->columns[b->from[column]], p->right, 8, p->n, out, err);
    if (!left)
        return hr__array_nulls(mem, b->out->fields[column].type, p->n, out, err);
    if (p->all_left) {
        *out = hr__array_ref(left->columns[b->from[column]]);
        return HR_OK;
    }
    return hr__array_take(mem, left->columns[b->from[column]], p->left, 8, p->n, out, err);
}

/* left NULL: rows of the right side alone. */
static hr_status table_of_pairs(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, const pairs *p,
                                const hr_mem *mem, hr_table **out, hr_error *err)
{
    hr_array **columns = hr__zalloc(mem->account, ((size_t)b->n_columns + 1) * sizeof(hr_array *));
    hr_status st = HR_OK;

    if (!columns)
        return hr__error_memory(err, "join", b->n_columns * 8);
    for (int i = 0; i < b->n_columns && !st; i++)
        st = (b->key[i] >= 0 ? key_column : other_column)(b, t, left, i, p, mem, &columns[i], err);
    if (!st)
        st = hr__table_new(b->out, columns, p->n, NULL, out, err);
    else
        for (int i = 0; i < b->n_columns; i++)
            hr__array_unref(columns[i]);
    hr__free(columns);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------------- walk */

hr_status hr__join_walk_begin(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_table *left,
                              hr_error *err)
{
    *w = (hr_join_walk){ .left = left };
    if (!(w->ids = hr__alloc(t->account, (size_t)(left->n_rows + 1) * sizeof *w->ids)))
        return hr__error_memory(err, "join", left->n_rows * 4);
    HR_TRY(hr__join_keys_find(t->keys, left, b->left_keys, 0, left->n_rows, w->ids, err));
    if (b->kind == HR_JOIN_RIGHT || b->kind == HR_JOIN_FULL)
        for (int64_t i = 0; i < left->n_rows; i++)
            if (w->ids[i] != NONE && !atomic_load_explicit(&t->hit[w->ids[i]], memory_order_relaxed))
                atomic_store_explicit(&t->hit[w->ids[i]], 1, memory_order_relaxed);
    return HR_OK;
}

void hr__join_walk_end(hr_join_walk *w)
{
    hr__free(w->ids);
    *w = (hr_join_walk){ 0 };
}

/* The pairs of the left row at hand, as far as they go into a step. */
static hr_status pair_row(hr_join_walk *w, hr_join_kind kind, const hr_join_table *t, pairs *p, hr_error *err)
{
    uint32_t id = w->ids[w->row];
    int64_t begin = id == NONE || !t->begins ? 0 : t->begins[id];
    int64_t n = id == NONE ? 0 : t->begins ? t->begins[id + 1] - begin : 1;

    if (kind == HR_JOIN_SEMI || kind == HR_JOIN_ANTI) {
        if ((n > 0) == (kind == HR_JOIN_SEMI))
            HR_TRY(add_pair(p, t->account, w->row, -1, err));
    } else if (n == 0 && (kind == HR_JOIN_LEFT || kind == HR_JOIN_FULL)) {
        HR_TRY(add_pair(p, t->account, w->row, -1, err));
    } else {
        for (; w->match < n && p->n < STEP_ROWS; w->match++)
            HR_TRY(add_pair(p, t->account, w->row, t->begins ? t->order[begin + w->match] : id, err));
        if (w->match < n)
            return HR_OK; /* the row is not done */
    }
    w->row++;
    w->match = 0;
    return HR_OK;
}

/* The pairs of a whole left table whose rows have one partner at most: row ids[i]. */
static hr_status pair_unique(hr_join_walk *w, hr_join_kind kind, const hr_join_table *t, pairs *p, hr_error *err)
{
    bool keeps_left = kind == HR_JOIN_LEFT || kind == HR_JOIN_FULL;
    int64_t n = w->left->n_rows, cap = 0;

    if (!hr__grow(t->account, (void **)&p->left, &cap, n, sizeof *p->left) ||
        !hr__grow(t->account, (void **)&p->right, &p->cap, n, sizeof *p->right))
        return hr__error_memory(err, "join", n * 16);
    for (int64_t i = 0; i < n; i++) {
        p->left[p->n] = i;
        p->right[p->n] = w->ids[i] == NONE ? -1 : (int64_t)w->ids[i];
        p->n += keeps_left || w->ids[i] != NONE;
    }
    w->row = n;
    return HR_OK;
}

hr_status hr__join_walk_next(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_mem *mem,
                             hr_table **out, int64_t **lefts, hr_error *err)
{
    pairs p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (!t->begins && b->kind < HR_JOIN_SEMI && w->row == 0)
        HR_GO(pair_unique(w, b->kind, t, &p, err));
    while (w->row < w->left->n_rows && p.n < STEP_ROWS)
        HR_GO(pair_row(w, b->kind, t, &p, err));
    if (!p.n)
        goto done;
    p.all_left = p.n == w->left->n_rows && p.left[0] == 0 && p.left[p.n - 1] == p.n - 1;
    for (int64_t i = 0; p.all_left && i < p.n; i++)
        p.all_left = p.left[i] == i;
    HR_GO(table_of_pairs(b, t, w->left, &p, mem, out, err));
    if (lefts) {
        *lefts = p.left;
        p.left = NULL;
    }
done:
    pairs_clear(&p);
    return st;
}

hr_status hr__join_unmatched(const hr_join_bound *b, const hr_join_table *t, int64_t *row, const hr_mem *mem,
                             hr_table **out, int64_t **rights, hr_error *err)
{
    int64_t n_rows = t->rows->n_rows, end = HR_MIN(n_rows, *row + STEP_ROWS);
    uint32_t *ids = NULL;
    pairs p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (!(ids = hr__alloc(t->account, STEP_ROWS * sizeof *ids)))
        return hr__error_memory(err, "join", STEP_ROWS * 4);
    while (*row < n_rows && !p.n) {
        HR_GO(hr__join_keys_find(t->keys, t->rows, t->right_keys, *row, end - *row, ids, err));
        for (int64_t i = *row; i < end; i++)
            if (!hr__join_was_hit(t, ids[i - *row]))
                HR_GO(add_pair(&p, t->account, -1, i, err));
        *row = end;
        end = HR_MIN(n_rows, end + STEP_ROWS);
    }
    if (!p.n)
        goto done;
    HR_GO(table_of_pairs(b, t, NULL, &p, mem, out, err));
    if (rights) {
        *rights = p.right;
        p.right = NULL;
    }
done:
    hr__free(ids);
    pairs_clear(&p);
    return st;
}
