/* join_table.c - the table of keys of a join: rows by key, and the output rows of left tables.
 *
 * Rows of one key stand together in `order`; the key's number finds them. A left table becomes pairs (left row, right
 * row or none), and the pairs become a table, column by column. If the pairs are exactly the left rows, the output
 * shares their columns.
 *
 * Tests: test_keyed.c. */
#include "op/join/join.h"

#define STEP_ROWS 65536
#define NONE HR_NO_KEY
#define AHEAD 24 /* rows that prefetching runs ahead */

static hr_status order_by_key(hr_join_table *t, const uint32_t *ids, int64_t n_keys, hr_error *err)
{
    int64_t n = t->rows->n_rows;

    t->begins = hr__zalloc(t->account, (size_t)(n_keys + 2) * sizeof *t->begins);
    t->order = hr__alloc(t->account, (size_t)(n + 1) * sizeof *t->order);
    if (!t->begins || !t->order)
        return hr__error_memory(err, "join", (n + n_keys) * 4);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] != NONE)
            t->begins[ids[i] + 2]++;
    for (int64_t k = 0; k < n_keys; k++)
        t->begins[k + 2] += t->begins[k + 1];
    for (int64_t i = 0; i < n; i++) /* each begin moves to its end, the begin of the next key */
        if (ids[i] != NONE)
            t->order[t->begins[ids[i] + 1]++] = (uint32_t)i;
    return HR_OK;
}

/* A table of keys without the keys. Takes rows, even on failure. */
static hr_status table_new(const int *keys, int n_keys, hr_table *takes_rows, hr_account *account, hr_join_table **out,
                           hr_error *err)
{
    hr_join_table *t = *out = hr__zalloc(account, sizeof *t);

    if (!t) {
        hr_table_unref(takes_rows);
        return hr__error_memory(err, "join", sizeof *t);
    }
    t->account = account;
    t->n_keys = n_keys;
    memcpy(t->right_keys, keys, (size_t)n_keys * sizeof *keys);
    t->rows = takes_rows;
    return HR_OK;
}

/* Turns ids, the keys' numbers of rows, into lists in place: ids[row] becomes the next row of its key. From the last
 * row to the first, each row is linked directly after the first row of its key. When the loop reaches a row, ids[row]
 * is still its key's number (the first row, less than row), or, for a first row, itself or the list's next row. */
static void chain_by_key(uint32_t *ids, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        uint32_t first = ids[i];

        if (i >= AHEAD && ids[i - AHEAD] < i - AHEAD)
            __builtin_prefetch(&ids[ids[i - AHEAD]], 1);
        if (first > i)
            continue;
        ids[i] = first == i || ids[first] == first ? 0 : ids[first];
        if (first < i)
            ids[first] = (uint32_t)i;
    }
}

/* Makes the rows of each key findable by its number. */
static hr_status arrange_rows(hr_join_table *t, uint32_t **ids, hr_error *err)
{
    int64_t n_later = 0, n = t->rows->n_rows;

    if (hr__join_keys_gaps(t->keys))
        return order_by_key(t, *ids, hr__join_keys_n(t->keys), err);
    for (int64_t i = 0; i < n; i++)
        n_later += (*ids)[i] < i;
    if (!n_later)
        return HR_OK;
    if (n_later >= n / 2)
        return order_by_key(t, *ids, hr__join_keys_n(t->keys), err);
    chain_by_key(*ids, n);
    t->next = *ids; /* moved */
    *ids = NULL;
    return HR_OK;
}

hr_status hr__join_table_new(const int *keys, int n_keys, hr_table *takes_rows, hr_task *task, hr_account *account,
                             hr_join_table **out, hr_error *err)
{
    hr_join_table *t;
    uint32_t *ids = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_TRY(table_new(keys, n_keys, takes_rows, account, &t, err));
    if (!(ids = hr__alloc(account, (size_t)(t->rows->n_rows + 1) * sizeof *ids)))
        HR_GO(hr__error_memory(err, "join", t->rows->n_rows * 4));
    HR_GO(hr__join_keys_new(t->rows, keys, n_keys, task, account, ids, &t->keys, err));
    if (!(t->hit = hr__zalloc(account, (size_t)hr__join_keys_n(t->keys) + 1)))
        HR_GO(hr__error_memory(err, "join", hr__join_keys_n(t->keys)));
    HR_GO(arrange_rows(t, &ids, err));
    *out = t;
    t = NULL;
done:
    hr__free(ids);
    hr__join_table_free(t);
    return st;
}

/* Sets row_of if no number has two rows. */
static hr_status find_rows(hr_join_table *t, int64_t n_numbers, const _Atomic uint8_t *hit, hr_error *err)
{
    bool one = true;

    if (!(t->row_of = hr__alloc(t->account, (size_t)(n_numbers + 1) * sizeof *t->row_of)))
        return hr__error_memory(err, "join", n_numbers * 4);
    memset(t->row_of, 0xff, (size_t)n_numbers * sizeof *t->row_of); /* NONE */
    for (int64_t k = 0; hit && k < n_numbers; k++)
        if (atomic_load_explicit(&hit[k], memory_order_relaxed))
            t->row_of[k] = 0;
    for (int64_t i = 0; one && i < t->rows->n_rows; i++) {
        if (t->ids[i] == NONE)
            continue;
        one = t->row_of[t->ids[i]] == NONE;
        t->row_of[t->ids[i]] = (uint32_t)i;
    }
    if (!one) {
        hr__free(t->row_of);
        t->row_of = NULL;
    }
    return HR_OK;
}

hr_status hr__join_table_numbered(const int *keys, int n_keys, hr_table *takes_rows, uint32_t *takes_ids,
                                  int64_t n_numbers, const _Atomic uint8_t *hit, hr_account *account,
                                  hr_join_table **out, hr_error *err)
{
    hr_join_table *t;
    hr_status st = table_new(keys, n_keys, takes_rows, account, &t, err);

    *out = NULL;
    if (st) {
        hr__free(takes_ids);
        return st;
    }
    t->ids = takes_ids;
    HR_GO(find_rows(t, n_numbers, hit, err));
    if (!t->row_of)
        HR_GO(order_by_key(t, t->ids, n_numbers, err));
    *out = t;
    t = NULL;
done:
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
    hr__free(t->next);
    hr__free((void *)t->hit);
    hr__free(t->ids);
    hr__free(t->row_of);
    hr__free(t);
}

/* ------------------------------------------------------------------------------------------------------------ pairs */

typedef struct pairs {
    int32_t *left, *right; /* rows; -1: none. left NULL: 0, 1, ... of the whole table; right NULL: not wanted */
    int64_t n;
    int32_t *own_left, *own_right; /* owned: left and right, if allocated */
} pairs;

static void pairs_clear(pairs *p)
{
    hr__free(p->own_left);
    hr__free(p->own_right);
}

static hr_status pairs_room(pairs *p, hr_account *account, int64_t n, bool rights, hr_error *err)
{
    p->left = p->own_left = hr__alloc(account, (size_t)(n + 1) * sizeof *p->left);
    if (rights)
        p->right = p->own_right = hr__alloc(account, (size_t)(n + 1) * sizeof *p->right);
    return p->left && (p->right || !rights) ? HR_OK : hr__error_memory(err, "join", n * 8);
}

/* A key column: the left row's value, or the right row's if there is no left row. One take suffices if all or no rows
 * have a left row. */
static hr_status key_column(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, int column,
                            const pairs *p, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const hr_array *from = left ? left->columns[b->from[column]] : NULL;

    if (from && !p->left) {
        *out = hr__array_ref((hr_array *)from);
        return HR_OK;
    }
    if (!from)
        return hr__array_take(mem, t->rows->columns[t->right_keys[b->key[column]]], p->right, 4, p->n, out, err);
    return hr__array_take(mem, from, p->left, 4, p->n, out, err);
}

static hr_status other_column(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, int column,
                              const pairs *p, const hr_mem *mem, hr_array **out, hr_error *err)
{
    if (b->right[column])
        return hr__array_take(mem, t->rows->columns[b->from[column]], p->right, 4, p->n, out, err);
    if (!left)
        return hr__array_nulls(mem, b->out->fields[column].type, p->n, out, err);
    if (!p->left) {
        *out = hr__array_ref(left->columns[b->from[column]]);
        return HR_OK;
    }
    return hr__array_take(mem, left->columns[b->from[column]], p->left, 4, p->n, out, err);
}

/* left NULL: rows of the right side only. */
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

/* ------------------------------------------------------------------------------------------------------------- walk */

hr_status hr__join_walk_begin(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_table *left,
                              hr_error *err)
{
    *w = (hr_join_walk){ .left = left };
    if (!(w->ids = hr__alloc(t->account, (size_t)(left->n_rows + 1) * sizeof *w->ids)))
        return hr__error_memory(err, "join", left->n_rows * 4);
    hr__join_keys_find(t->keys, left, b->left_keys, 0, left->n_rows, w->ids);
    if (b->kind == HR_JOIN_RIGHT || b->kind == HR_JOIN_FULL)
        for (int64_t i = 0; i < left->n_rows; i++)
            if (w->ids[i] != NONE && !atomic_load_explicit(&t->hit[w->ids[i]], memory_order_relaxed))
                atomic_store_explicit(&t->hit[w->ids[i]], 1, memory_order_relaxed);
    return HR_OK;
}

hr_status hr__join_walk_known(hr_join_walk *w, const hr_join_table *t, const hr_table *left, const uint32_t *numbers,
                              hr_error *err)
{
    *w = (hr_join_walk){ .left = left };
    if (!(w->ids = hr__alloc(t->account, (size_t)(left->n_rows + 1) * sizeof *w->ids)))
        return hr__error_memory(err, "join", left->n_rows * 4);
    for (int64_t i = 0; i < left->n_rows; i++)
        w->ids[i] = t->row_of && numbers[i] != NONE ? t->row_of[numbers[i]] : numbers[i];
    return HR_OK;
}

void hr__join_walk_end(hr_join_walk *w)
{
    hr__free(w->ids);
    *w = (hr_join_walk){ 0 };
}

static bool keeps_left(hr_join_kind kind) { return kind == HR_JOIN_LEFT || kind == HR_JOIN_FULL; }

/* The rows of a key are order[*begin ..]; returns their number (for lists: whether it has any). */
static inline int64_t rows_of(const hr_join_table *t, uint32_t id, int64_t *begin)
{
    if (id == NONE)
        return 0;
    if (!t->begins)
        return 1;
    *begin = t->begins[id];
    return t->begins[id + 1] - *begin;
}

static inline void ask_begin(const hr_join_walk *w, const hr_join_table *t, int64_t row)
{
    if (row < w->left->n_rows && w->ids[row] != NONE)
        __builtin_prefetch(&t->begins[w->ids[row]]);
}

static inline void ask_rows(const hr_join_walk *w, const hr_join_table *t, int64_t row)
{
    if (row < w->left->n_rows && w->ids[row] != NONE)
        __builtin_prefetch(&t->order[t->begins[w->ids[row]]]);
}

static inline void ask_next(const hr_join_walk *w, const hr_join_table *t, int64_t row)
{
    if (row < w->left->n_rows && w->ids[row] != NONE)
        __builtin_prefetch(&t->next[w->ids[row]]);
}

/* Pairs the rest of a left table whose rows have at most one partner. */
static hr_status pair_ones(hr_join_walk *w, hr_join_kind kind, const hr_join_table *t, pairs *p, hr_error *err)
{
    int64_t n = w->left->n_rows, n_found = 0;

    w->row = n;
    for (int64_t i = 0; i < n; i++)
        n_found += w->ids[i] != NONE;
    if (n_found == n || keeps_left(kind)) {
        p->right = (int32_t *)(void *)w->ids; /* NONE is -1 */
        p->n = n;
        return HR_OK;
    }
    HR_TRY(pairs_room(p, t->account, n_found, true, err));
    for (int64_t i = 0; i < n; i++) {
        p->left[p->n] = (int32_t)i;
        p->right[p->n] = (int32_t)w->ids[i];
        p->n += w->ids[i] != NONE;
    }
    return HR_OK;
}

/* Semi and anti joins: the left rows with a partner, or those without. */
static hr_status pair_none(hr_join_walk *w, hr_join_kind kind, const hr_join_table *t, pairs *p, hr_error *err)
{
    int64_t n = w->left->n_rows, begin;

    w->row = n;
    HR_TRY(pairs_room(p, t->account, n, false, err));
    for (int64_t i = 0; i < n; i++) {
        p->left[p->n] = (int32_t)i;
        p->n += (rows_of(t, w->ids[i], &begin) > 0) == (kind == HR_JOIN_SEMI);
    }
    if (p->n == n)
        p->left = NULL;
    return HR_OK;
}

/* Number of output rows of the next left rows, at most about STEP_ROWS. */
static int64_t count_pairs(const hr_join_walk *w, hr_join_kind kind, const hr_join_table *t)
{
    int64_t n = -w->match, begin;

    for (int64_t row = w->row; row < w->left->n_rows && n < STEP_ROWS; row++) {
        int64_t some;

        ask_begin(w, t, row + AHEAD);
        some = rows_of(t, w->ids[row], &begin);
        n += some ? some : keeps_left(kind);
    }
    return HR_MIN(n, STEP_ROWS);
}

int64_t hr__join_walk_rows(const hr_join_walk *w, hr_join_kind kind, const hr_join_table *t)
{
    int64_t n = 0, begin;

    for (int64_t i = 0; i < w->left->n_rows; i++) {
        int64_t some = rows_of(t, w->ids[i], &begin);

        if (kind >= HR_JOIN_SEMI)
            n += (some > 0) == (kind == HR_JOIN_SEMI);
        else
            n += some ? some : keeps_left(kind);
    }
    return n;
}

static hr_status pair_many(hr_join_walk *w, hr_join_kind kind, const hr_join_table *t, pairs *p, hr_error *err)
{
    int64_t room = count_pairs(w, kind, t), begin = 0;

    HR_TRY(pairs_room(p, t->account, room, true, err));
    while (w->row < w->left->n_rows) {
        int64_t n = rows_of(t, w->ids[w->row], &begin), end = HR_MIN(n, w->match + room - p->n);

        ask_begin(w, t, w->row + 2 * AHEAD);
        ask_rows(w, t, w->row + AHEAD);
        if (p->n == room && (n || keeps_left(kind)))
            break;
        for (; w->match < end; w->match++) {
            p->left[p->n] = (int32_t)w->row;
            p->right[p->n++] = (int32_t)t->order[begin + w->match];
        }
        if (w->match < n)
            break; /* the row has more pairs */
        if (!n && keeps_left(kind)) {
            p->left[p->n] = (int32_t)w->row;
            p->right[p->n++] = -1;
        }
        w->row++;
        w->match = 0;
    }
    return HR_OK;
}

/* The same for rows of a key in a list; match: the row to go on with; 0: the first. */
static hr_status pair_lists(hr_join_walk *w, hr_join_kind kind, const hr_join_table *t, pairs *p, hr_error *err)
{
    int64_t room = HR_MIN(STEP_ROWS, 2 * (w->left->n_rows - w->row) + 64);

    HR_TRY(pairs_room(p, t->account, room, true, err));
    for (; w->row < w->left->n_rows; w->row++) {
        uint32_t id = w->ids[w->row], at = w->match ? (uint32_t)w->match : id;

        ask_next(w, t, w->row + AHEAD);
        if (id == NONE && !keeps_left(kind))
            continue;
        do {
            if (p->n == room) {
                w->match = at == id ? 0 : at;
                return HR_OK;
            }
            p->left[p->n] = (int32_t)w->row;
            p->right[p->n++] = (int32_t)at; /* NONE is -1 */
            at = id == NONE ? 0 : t->next[at];
        } while (at);
        w->match = 0;
    }
    return HR_OK;
}

/* Passes the left rows of the pairs to the caller. */
static hr_status give_lefts(pairs *p, hr_account *account, int32_t **out, hr_error *err)
{
    *out = p->own_left;
    p->own_left = NULL;
    if (p->left)
        return HR_OK;
    if (!*out && !(*out = hr__alloc(account, (size_t)p->n * sizeof **out)))
        return hr__error_memory(err, "join", p->n * 4);
    for (int64_t i = 0; i < p->n; i++)
        (*out)[i] = (int32_t)i;
    return HR_OK;
}

hr_status hr__join_walk_next(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_mem *mem,
                             hr_table **out, int32_t **lefts, hr_error *err)
{
    pairs p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (w->row >= w->left->n_rows)
        return HR_OK;
    if (b->kind >= HR_JOIN_SEMI)
        HR_GO(pair_none(w, b->kind, t, &p, err));
    else if (t->next)
        HR_GO(pair_lists(w, b->kind, t, &p, err));
    else if (!t->begins)
        HR_GO(pair_ones(w, b->kind, t, &p, err));
    else
        HR_GO(pair_many(w, b->kind, t, &p, err));
    if (!p.n)
        goto done;
    HR_GO(table_of_pairs(b, t, w->left, &p, mem, out, err));
    if (lefts)
        st = give_lefts(&p, t->account, lefts, err);
done:
    if (st) {
        hr_table_unref(*out);
        *out = NULL;
    }
    pairs_clear(&p);
    return st;
}

void hr__join_walk_mark(const hr_join_walk *w, const hr_join_table *t, uint8_t *bits, int64_t first)
{
    int64_t begin;

    for (int64_t i = 0; i < w->left->n_rows; i++)
        if (rows_of(t, w->ids[i], &begin) > 0)
            hr__bit_set(bits, first + i);
}

hr_status hr__join_rest(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, const uint8_t *bits,
                        int64_t first, const hr_mem *mem, hr_table **out, int32_t **lefts, hr_error *err)
{
    bool with = b->kind == HR_JOIN_SEMI;
    pairs p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(pairs_room(&p, t->account, left->n_rows, keeps_left(b->kind), err));
    for (int64_t i = 0; i < left->n_rows; i++) {
        p.left[p.n] = (int32_t)i;
        p.n += hr__bit(bits, first + i) == with;
    }
    if (!p.n)
        goto done;
    if (p.right)
        memset(p.right, 0xff, (size_t)p.n * sizeof *p.right); /* -1: none */
    HR_GO(table_of_pairs(b, t, left, &p, mem, out, err));
    *lefts = p.own_left;
    p.own_left = NULL;
done:
    pairs_clear(&p);
    return st;
}

int64_t hr__join_alone(const hr_join_table *t, int64_t begin, int64_t n, uint32_t *ids, int32_t *rows)
{
    int64_t m = 0;

    if (t->ids)
        memcpy(ids, t->ids + begin, (size_t)n * sizeof *ids);
    else
        hr__join_keys_find(t->keys, t->rows, t->right_keys, begin, n, ids);
    for (int64_t i = 0; i < n; i++) {
        rows[m] = (int32_t)(begin + i);
        m += ids[i] == NONE || (!t->ids && !t->hit[ids[i]]);
    }
    return m;
}

hr_status hr__join_unmatched(const hr_join_bound *b, const hr_join_table *t, int64_t *row, const hr_mem *mem,
                             hr_table **out, int32_t **rights, hr_error *err)
{
    int64_t n_rows = t->rows->n_rows;
    uint32_t *ids = NULL;
    pairs p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (!(ids = hr__alloc(t->account, STEP_ROWS * sizeof *ids)))
        return hr__error_memory(err, "join", STEP_ROWS * 4);
    HR_GO(pairs_room(&p, t->account, STEP_ROWS, true, err));
    while (*row < n_rows && !p.n) {
        int64_t n = HR_MIN(STEP_ROWS, n_rows - *row);

        p.n = hr__join_alone(t, *row, n, ids, p.right);
        *row += n;
    }
    if (!p.n)
        goto done;
    HR_GO(table_of_pairs(b, t, NULL, &p, mem, out, err));
    if (rights) {
        *rights = p.own_right;
        p.own_right = NULL;
    }
done:
    hr__free(ids);
    pairs_clear(&p);
    return st;
}
