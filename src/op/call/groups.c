/* groups.c - collects whole groups of rows, for functions that see one group at a time.
 *
 * Neighbouring rows with equal key columns are a group; an operator upstream has put them next to each other. A group
 * may lie across tables; it is complete when another begins or the input ends. Many small groups go out together, as
 * one table and the number of rows of each. A cut follows the group that brings them to `rows` rows, to about `bytes`
 * bytes, or to `n_groups` groups. A caller that wants fewer groups gets the first ones. */
#include "op/call.h"

typedef struct span {
    hr_table *table; /* counted */
    int64_t begin, n;
    bool cut; /* a cut follows it */
} span;

struct hr_groups {
    hr_account *account;
    const char *const *names;
    int n_names;
    int *keys; /* columns */
    int64_t rows, bytes, n_groups;
    span *spans; /* of rows that are still here: items [head, n_spans) */
    int64_t head, n_spans, cap_spans;
    hr_batch_place *batches; /* their groups: items [at_batch, n_batches); the last may be incomplete */
    int64_t at_batch, n_batches, cap_batches;
    int64_t open_rows, open_groups; /* since the last cut, without the open group */
    double open_bytes;              /* since the last cut, with the open group */
    int64_t n_cuts;                 /* cuts that are still here */
    int64_t ordinal;
};

hr_status hr__groups_new(const char *const *keys, int n_keys, int64_t rows, int64_t bytes, int64_t n_groups,
                         hr_account *account, hr_groups **out, hr_error *err)
{
    hr_groups *g = hr__zalloc(account, sizeof *g);

    *out = NULL;
    if (!g || !(g->keys = hr__zalloc(account, (size_t)n_keys * sizeof *g->keys))) {
        hr__free(g);
        return hr__error_memory(err, "groups", sizeof *g);
    }
    g->account = account;
    g->names = keys;
    g->n_names = n_keys;
    g->rows = rows;
    g->bytes = bytes;
    g->n_groups = n_groups;
    *out = g;
    return HR_OK;
}

void hr__groups_free(hr_groups *g)
{
    if (!g)
        return;
    for (int64_t i = g->head; i < g->n_spans; i++)
        hr_table_unref(g->spans[i].table);
    hr__free(g->spans);
    hr__free(g->batches);
    hr__free(g->keys);
    hr__free(g);
}

/* ----------------------------------------------------------------------------------------------- do two rows agree? */

static bool values_agree(const hr_array *a, int64_t i, const hr_array *b, int64_t j);

static bool lists_agree(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    int64_t begin_a, begin_b, n, m;

    hr__array_range(a, i, &begin_a, &n);
    hr__array_range(b, j, &begin_b, &m);
    if (n != m)
        return false;
    for (int64_t k = 0; k < n; k++)
        if (!values_agree(a->children[0], begin_a + k, b->children[0], begin_b + k))
            return false;
    return true;
}

static bool structs_agree(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    for (int k = 0; k < a->n_children; k++)
        if (!values_agree(a->children[k], a->offset + i, b->children[k], b->offset + j))
            return false;
    return true;
}

static bool halves_agree(uint16_t x, uint16_t y)
{
    bool nan_x = (x & 0x7fff) > 0x7c00, nan_y = (y & 0x7fff) > 0x7c00;

    return x == y || (nan_x && nan_y) || !((x | y) & 0x7fff);
}

static bool values_agree(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    bool null = hr__array_is_null(a, i);
    int64_t n, m;

    if (null || hr__array_is_null(b, j))
        return null && hr__array_is_null(b, j);
    switch (a->type->id) {
    case HR_T_BOOL: return hr__bit(a->buffers[1]->data, a->offset + i) == hr__bit(b->buffers[1]->data, b->offset + j);
    case HR_T_FLOAT16:
        return halves_agree(((const uint16_t *)hr__array_values(a))[i], ((const uint16_t *)hr__array_values(b))[j]);
    case HR_T_FLOAT32: {
        float x = ((const float *)hr__array_values(a))[i], y = ((const float *)hr__array_values(b))[j];

        return x == y || (x != x && y != y);
    }
    case HR_T_FLOAT64: {
        double x = ((const double *)hr__array_values(a))[i], y = ((const double *)hr__array_values(b))[j];

        return x == y || (x != x && y != y);
    }
    case HR_T_STRING:
    case HR_T_BINARY:
    case HR_T_LARGE_STRING:
    case HR_T_LARGE_BINARY:
    case HR_T_FIXED_BINARY: {
        const uint8_t *x = hr__array_bytes(a, i, &n), *y = hr__array_bytes(b, j, &m);

        return n == m && (n == 0 || !memcmp(x, y, (size_t)n));
    }
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST:
    case HR_T_MAP:
    case HR_T_TENSOR: return lists_agree(a, i, b, j);
    case HR_T_STRUCT: return structs_agree(a, i, b, j);
    default:
        n = hr__type_bytes(a->type);
        return !memcmp(hr__array_values(a) + i * n, hr__array_values(b) + j * n, (size_t)n);
    }
}

static bool rows_agree(const hr_groups *g, const hr_table *a, int64_t i, const hr_table *b, int64_t j)
{
    for (int k = 0; k < g->n_names; k++)
        if (!values_agree(a->columns[g->keys[k]], i, b->columns[g->keys[k]], j))
            return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------------- collecting */

static hr_status find_keys(hr_groups *g, const hr_schema *s, hr_error *err)
{
    for (int k = 0; k < g->n_names; k++)
        if ((g->keys[k] = hr__schema_find(s, g->names[k])) < 0)
            return hr__schema_missing_in("groupby", HR_INVALID, s, g->names[k], err);
    return HR_OK;
}

static bool goes_on(const hr_groups *g, const hr_table *t)
{
    const span *last = g->n_spans > g->head ? &g->spans[g->n_spans - 1] : NULL;

    return last && !last->cut && rows_agree(g, last->table, last->begin + last->n - 1, t, 0);
}

/* Completes the open group. */
static void close_group(hr_groups *g)
{
    if (g->at_batch == g->n_batches || (g->n_spans > g->head && g->spans[g->n_spans - 1].cut))
        return;
    g->open_groups++;
    g->open_rows += g->batches[g->n_batches - 1].n_rows;
    if (g->open_rows < g->rows && g->open_groups < g->n_groups && g->open_bytes < (double)g->bytes)
        return;
    g->spans[g->n_spans - 1].cut = true;
    g->open_rows = g->open_groups = 0;
    g->open_bytes = 0;
    g->n_cuts++;
}

static hr_status open_group(hr_groups *g, hr_error *err)
{
    if (g->at_batch > 0 && g->at_batch == g->n_batches)
        g->at_batch = g->n_batches = 0;
    if (!hr__grow(g->account, (void **)&g->batches, &g->cap_batches, g->n_batches + 1, sizeof *g->batches))
        return hr__error_memory(err, "groups", (g->n_batches + 1) * (int64_t)sizeof *g->batches);
    g->batches[g->n_batches++] = (hr_batch_place){ .ordinal = g->ordinal++ };
    return HR_OK;
}

/* Appends rows [begin, begin + n), all of the open group. */
static hr_status add_span(hr_groups *g, hr_table *t, int64_t begin, int64_t n, hr_error *err)
{
    span *last = g->n_spans > g->head ? &g->spans[g->n_spans - 1] : NULL;

    g->batches[g->n_batches - 1].n_rows += n;
    if (last && !last->cut && last->table == t && last->begin + last->n == begin) {
        last->n += n;
        return HR_OK;
    }
    if (g->head > 0 && g->head == g->n_spans)
        g->head = g->n_spans = 0;
    if (!hr__grow(g->account, (void **)&g->spans, &g->cap_spans, g->n_spans + 1, sizeof *g->spans)) {
        g->batches[g->n_batches - 1].n_rows -= n;
        return hr__error_memory(err, "groups", (g->n_spans + 1) * (int64_t)sizeof *g->spans);
    }
    g->spans[g->n_spans++] = (span){ hr_table_ref(t), begin, n, false };
    return HR_OK;
}

hr_status hr__groups_add(hr_groups *g, const hr_table *t, hr_error *err)
{
    hr_table *table = (hr_table *)t; /* counted */
    int64_t begin = 0;
    double row_bytes;

    if (t->n_rows == 0)
        return HR_OK;
    HR_TRY(find_keys(g, t->schema, err));
    row_bytes = (double)hr__table_bytes_used(t) / (double)t->n_rows;
    while (begin < t->n_rows) {
        int64_t end = begin + 1;

        while (end < t->n_rows && rows_agree(g, t, end - 1, t, end))
            end++;
        if (begin > 0 || !goes_on(g, t)) {
            close_group(g);
            HR_TRY(open_group(g, err));
        }
        HR_TRY(add_span(g, table, begin, end - begin, err));
        g->open_bytes += row_bytes * (double)(end - begin);
        begin = end;
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ handing out */

/* The first `rows` rows as one table. */
static hr_status join(hr_groups *g, int64_t rows, hr_table **out, hr_error *err)
{
    hr_table **parts = hr__zalloc(g->account, (size_t)(g->n_spans - g->head) * sizeof *parts);
    const hr_mem mem = { g->account, NULL };
    hr_status st = HR_OK;
    int64_t n = 0;

    if (!parts)
        return hr__error_memory(err, "groups", (g->n_spans - g->head) * (int64_t)sizeof *parts);
    for (; rows > 0; n++) {
        const span *s = &g->spans[g->head + n];
        int64_t some = HR_MIN(rows, s->n);

        HR_GO(hr_table_slice(s->table, s->begin, some, &parts[n], err));
        rows -= some;
    }
    if (n == 1)
        *out = hr_table_ref(parts[0]);
    else
        HR_GO(hr__table_concat(&mem, parts[0]->schema, parts, (int)n, out, err));
done:
    for (int64_t i = 0; i < n; i++)
        hr_table_unref(parts[i]);
    hr__free(parts);
    return st;
}

static void drop_rows(hr_groups *g, int64_t rows)
{
    while (rows > 0) {
        span *s = &g->spans[g->head];
        int64_t some = HR_MIN(rows, s->n);

        rows -= some;
        s->begin += some;
        s->n -= some;
        if (s->n)
            return;
        g->n_cuts -= s->cut;
        hr_table_unref(s->table);
        g->head++;
    }
}

hr_status hr__groups_next(hr_groups *g, bool last, int64_t most, hr_table **out, hr_batch_place **batches, int64_t *n,
                          hr_error *err)
{
    int64_t n_batches = 0, rows = 0, left;
    hr_status st;

    *out = NULL;
    *batches = NULL;
    if (g->n_cuts == 0 && (!last || g->head == g->n_spans))
        return HR_OK;
    for (int64_t i = g->head; i < g->n_spans; i++) {
        rows += g->spans[i].n;
        if (g->spans[i].cut)
            break;
    }
    for (left = rows; left > 0 && (!most || n_batches < most); n_batches++)
        left -= g->batches[g->at_batch + n_batches].n_rows;
    rows -= left;
    if (!(*batches = hr__alloc(NULL, (size_t)n_batches * sizeof **batches)))
        return hr__error_memory(err, "groups", n_batches * (int64_t)sizeof **batches);
    memcpy(*batches, g->batches + g->at_batch, (size_t)n_batches * sizeof **batches);
    if ((st = join(g, rows, out, err))) {
        hr__free(*batches);
        *batches = NULL;
        return st;
    }
    drop_rows(g, rows);
    g->at_batch += n_batches;
    *n = n_batches;
    return HR_OK;
}
