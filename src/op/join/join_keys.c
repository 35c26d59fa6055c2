/* join_keys.c - numbers the keys of the held side of a join.
 *
 * A key of one column of integers, dates or times whose values lie close together (as most identifiers do) needs no
 * hash: an array by value gives its number (`dense`). If no two rows have equal keys, the number is the row's;
 * otherwise it is value - least value. All other keys are hashed (join_hash.c): a key has the number of its first
 * row. */
#include "op/join/join.h"

#define DENSE_VALUES 8         /* array places of 4 bytes for each row: no more memory than a hash table */
#define DENSE_ALWAYS (1 << 16) /* or this many places in all: they stay in the cache */

struct hr_join_keys {
    int64_t n;
    int n_columns;
    hr_join_hash *hashed; /* NULL: dense */
    uint64_t least, range;
    uint32_t *row_of; /* dense, one row per key: row_of[value - least], a last place for other values; else NULL */
};

bool hr__join_is_integer(const hr_type *t)
{
    return (t->id >= HR_T_INT8 && t->id <= HR_T_UINT64) || (t->id >= HR_T_DATE32 && t->id <= HR_T_DURATION);
}

static bool has_nulls(const hr_array *a) { return a->type->id == HR_T_NULL || hr__array_null_count(a) > 0; }

/* Runs `LOOP(T)` with the C type T of a's values; v points to the first. */
#define OF_VALUES(a, LOOP)                                                                                             \
    switch ((a)->type->id) {                                                                                           \
    case HR_T_INT8: LOOP(int8_t) break;                                                                                \
    case HR_T_UINT8: LOOP(uint8_t) break;                                                                              \
    case HR_T_INT16: LOOP(int16_t) break;                                                                              \
    case HR_T_UINT16: LOOP(uint16_t) break;                                                                            \
    case HR_T_UINT32: LOOP(uint32_t) break;                                                                            \
    case HR_T_UINT64: LOOP(uint64_t) break;                                                                            \
    default:                                                                                                           \
        if (hr__type_bytes((a)->type) == 4) {                                                                          \
            LOOP(int32_t)                                                                                              \
        } else {                                                                                                       \
            LOOP(int64_t)                                                                                              \
        }                                                                                                              \
    }

bool hr__join_extremes(const hr_array *a, int64_t *least, int64_t *most)
{
    bool nulls = has_nulls(a);

    *least = *most = -1;
    if (!hr__join_is_integer(a->type))
        return false;
#define EXTREMES(T)                                                                                                    \
    {                                                                                                                  \
        const T *v = (const T *)hr__array_values(a);                                                                   \
        T low = 0, high = 0;                                                                                           \
                                                                                                                       \
        for (int64_t i = 0; i < a->length; i++) {                                                                      \
            if (nulls && hr__array_is_null(a, i))                                                                      \
                continue;                                                                                              \
            if (*least < 0 || v[i] < low)                                                                              \
                low = v[ *least = i];                                                                                  \
            if (*most < 0 || v[i] > high)                                                                              \
                high = v[ *most = i];                                                                                  \
        }                                                                                                              \
    }
    OF_VALUES(a, EXTREMES)
    return *least >= 0;
}

/* The value of row i; the difference of two values is right for signed types too. */
static uint64_t value_at(const hr_array *a, int64_t i)
{
    bool is_signed = a->type->id != HR_T_UINT8 && a->type->id != HR_T_UINT16 && a->type->id != HR_T_UINT32;

    return is_signed ? (uint64_t)hr__array_int(a, i) : hr__array_uint(a, i);
}

void hr__join_no_nulls(const hr_table *t, const int *columns, int n_columns, int64_t begin, int64_t n, uint32_t *ids)
{
    for (int c = 0; c < n_columns; c++) {
        const hr_array *a = t->columns[columns[c]];

        if (has_nulls(a))
            for (int64_t i = 0; i < n; i++)
                if (hr__array_is_null(a, begin + i))
                    ids[i] = HR_NO_KEY;
    }
}

/* ids: value - least; for values out of range `beyond`: HR_NO_KEY or the last place. */
static void distances(const hr_join_keys *k, const hr_array *a, int64_t begin, int64_t n, uint32_t beyond,
                      uint32_t *ids)
{
#define DISTANCES(T)                                                                                                   \
    {                                                                                                                  \
        const T *v = (const T *)hr__array_values(a) + begin;                                                           \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            uint64_t far = (uint64_t)v[i] - k->least;                                                                  \
                                                                                                                       \
            ids[i] = far <= k->range ? (uint32_t)far : beyond;                                                         \
        }                                                                                                              \
    }
    if (n)
        OF_VALUES(a, DISTANCES)
}

static hr_status number_dense(hr_join_keys *k, const hr_table *t, int column, hr_account *account, uint32_t *ids,
                              hr_error *err)
{
    int64_t n_values = (int64_t)k->range + 2, n = t->n_rows;
    bool unique = true;

    k->n = n_values;
    distances(k, t->columns[column], 0, n, HR_NO_KEY, ids);
    hr__join_no_nulls(t, &column, 1, 0, n, ids);
    if (!(k->row_of = hr__alloc(account, (size_t)n_values * sizeof *k->row_of)))
        return hr__error_memory(err, "join", n_values * 4);
    memset(k->row_of, 0xff, (size_t)n_values * sizeof *k->row_of); /* HR_NO_KEY */
    for (int64_t i = 0; i < n && unique; i++) {
        if (ids[i] == HR_NO_KEY)
            continue;
        unique = k->row_of[ids[i]] == HR_NO_KEY;
        k->row_of[ids[i]] = (uint32_t)i;
    }
    if (!unique) {
        hr__free(k->row_of);
        k->row_of = NULL;
        return HR_OK;
    }
    k->n = n;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] != HR_NO_KEY)
            ids[i] = (uint32_t)i;
    return HR_OK;
}

/* Sets least and range; false: the values are too far apart for an array. */
static bool is_dense(hr_join_keys *k, const hr_table *t, int column)
{
    const hr_array *a = t->columns[column];
    int64_t least, most;

    if (!hr__join_extremes(a, &least, &most))
        return false;
    k->least = value_at(a, least);
    k->range = value_at(a, most) - k->least;
    return k->range < DENSE_ALWAYS ||
           (k->range < DENSE_VALUES * (uint64_t)t->n_rows && k->range < HR_NO_KEY - 1); /* numbers have 32 bits */
}

hr_status hr__join_keys_new(const hr_table *t, const int *columns, int n_columns, hr_task *task, hr_account *account,
                            uint32_t *ids, hr_join_keys **out, hr_error *err)
{
    hr_join_keys *k = hr__zalloc(account, sizeof *k);
    hr_status st = HR_OK;

    *out = NULL;
    if (!k)
        return hr__error_memory(err, "join", sizeof *k);
    k->n_columns = n_columns;
    if (t->n_rows > HR_JOIN_MAX_ROWS)
        HR_FAIL(HR_UNSUPPORTED, "join: %lld rows of one side are too many at once; expected at most %d",
                (long long)t->n_rows, HR_JOIN_MAX_ROWS);
    if (n_columns == 1 && is_dense(k, t, columns[0])) {
        HR_GO(number_dense(k, t, columns[0], account, ids, err));
    } else {
        HR_GO(hr__join_hash_new(t, columns, n_columns, task, account, ids, &k->hashed, err));
        k->n = t->n_rows;
    }
    *out = k;
    k = NULL;
done:
    hr__join_keys_free(k);
    return st;
}

void hr__join_keys_free(hr_join_keys *k)
{
    if (!k)
        return;
    hr__join_hash_free(k->hashed);
    hr__free(k->row_of);
    hr__free(k);
}

int64_t hr__join_keys_n(const hr_join_keys *k) { return k->n; }

bool hr__join_keys_gaps(const hr_join_keys *k) { return !k->hashed && !k->row_of; }

void hr__join_keys_find(const hr_join_keys *k, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                        uint32_t *ids)
{
    if (k->hashed) {
        hr__join_hash_find(k->hashed, t, columns, begin, n, ids);
    } else {
        distances(k, t->columns[columns[0]], begin, n, k->row_of ? (uint32_t)k->range + 1 : HR_NO_KEY, ids);
        for (int64_t i = 0; k->row_of && i < n; i++)
            ids[i] = k->row_of[ids[i]];
    }
    hr__join_no_nulls(t, columns, k->n_columns, begin, n, ids);
}
