/* fold.c - rows -> partial results -> results, for all aggregates of a group-by at once.
 *
 * A partial result is a table: a row per group, its key columns, and a column of states for each aggregate
 * (aggregate.h). A fold holds the states of all groups so far and adds partial results to them. It keeps lists of
 * values with the numbers of their groups and concatenates them when their bytes have doubled, so each value moves a
 * few times at most.
 *
 * Tests: test_keyed.c. */
#include "op/group/fold.h"

#define COMPACT_BYTES (4 << 20)
#define PROBE_ROWS 2048

/* --------------------------------------------------------------------------------------------------------- grouping */

static hr_status key_places(hr_grouping *g, const hr_schema *in, const char *const *keys, hr_error *err)
{
    for (int k = 0; k < g->n_keys; k++) {
        g->first_columns[k] = k;
        g->keys[k] = hr__schema_find(in, keys[k]);
        if (g->keys[k] < 0)
            return hr__error_at(err, hr__schema_missing(in, keys[k], err), "key");
    }
    return HR_OK;
}

/* Column names must differ, since a name finds the first column only. */
static hr_status check_names(const hr_schema *s, hr_error *err)
{
    for (int i = 0; i < s->n; i++)
        if (hr__schema_find(s, s->fields[i].name) != i)
            return hr_error_set(err, HR_INVALID, "two columns of the result have the name '%s'", s->fields[i].name);
    return HR_OK;
}

static hr_status schemas(hr_grouping *g, hr_error *err)
{
    int n = g->n_keys + g->n_aggs;
    hr_field *fields = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *fields);
    hr_status st = HR_OK;

    if (!fields)
        return hr__error_memory(err, "group", n * (int64_t)sizeof *fields);
    for (int k = 0; k < g->n_keys; k++)
        fields[k] = g->in->fields[g->keys[k]]; /* borrowed */
    for (int a = 0; a < g->n_aggs; a++)
        fields[g->n_keys + a] = (hr_field){ .name = g->aggs[a].name, .type = g->aggs[a].state, .nullable = true };
    HR_GO(hr__schema_new(fields, n, &g->partial, err));
    for (int a = 0; a < g->n_aggs; a++)
        fields[g->n_keys + a].type = g->aggs[a].result;
    HR_GO(hr__schema_new(fields, n, &g->out, err));
    st = check_names(g->out, err);
done:
    hr__free(fields);
    return st;
}

hr_status hr__grouping_new(const hr_schema *in, const char *const *keys, int n_keys, const hr_agg *aggs, int n_aggs,
                           hr_grouping **out, hr_error *err)
{
    hr_grouping *g = hr__zalloc(NULL, sizeof *g);
    hr_grouper *probe = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!g)
        return hr__error_memory(err, "group", sizeof *g);
    g->n_keys = n_keys;
    g->in = hr__schema_ref((hr_schema *)in);
    g->keys = hr__zalloc(NULL, ((size_t)n_keys + 1) * sizeof *g->keys);
    g->first_columns = hr__zalloc(NULL, ((size_t)n_keys + 1) * sizeof *g->keys);
    g->columns = hr__zalloc(NULL, ((size_t)n_aggs + 1) * sizeof *g->columns);
    g->aggs = hr__zalloc(NULL, ((size_t)n_aggs + 1) * sizeof *g->aggs);
    if (!g->keys || !g->first_columns || !g->columns || !g->aggs)
        HR_GO(hr__error_memory(err, "group", n_aggs * (int64_t)sizeof *g->aggs));
    HR_GO(key_places(g, in, keys, err));
    HR_GO(hr__grouper_new(in, g->keys, n_keys, NULL, &probe, err)); /* fails if a column cannot be a key */
    for (; g->n_aggs < n_aggs; g->n_aggs++) {
        HR_GO(hr__agg_bind(&aggs[g->n_aggs], in, &g->aggs[g->n_aggs], err));
        g->columns[g->n_aggs] = aggs[g->n_aggs].column ? hr__schema_find(in, aggs[g->n_aggs].column) : -1;
        g->has_values = g->has_values || !g->aggs[g->n_aggs].state_bytes;
    }
    HR_GO(schemas(g, err));
    *out = g;
    g = NULL;
done:
    hr__grouper_free(probe);
    hr__grouping_free(g);
    return st;
}

void hr__grouping_free(hr_grouping *g)
{
    if (!g)
        return;
    for (int a = 0; g->aggs && a < g->n_aggs; a++)
        hr__agg_clear(&g->aggs[a]);
    hr__free(g->aggs);
    hr__free(g->keys);
    hr__free(g->first_columns);
    hr__free(g->columns);
    hr__schema_unref(g->in);
    hr__schema_unref(g->partial);
    hr__schema_unref(g->out);
    hr__free(g);
}

/* ---------------------------------------------------------------------------------------------------------- partial */

static void unref_columns(hr_array **columns, int n)
{
    for (int i = 0; i < n; i++)
        hr__array_unref(columns[i]);
}

/* A table of these columns, without origin. Takes the columns. */
static hr_status table_of(hr_schema *schema, hr_array **columns, int64_t n_rows, hr_table **out, hr_error *err)
{
    hr_status st = hr__table_new(schema, columns, n_rows, NULL, out, err);

    memset(columns, 0, (size_t)schema->n * sizeof *columns);
    return st;
}

static hr_status fixed_states(const hr_agg *a, const hr_table *rows, int column, const uint32_t *ids, int64_t n,
                              const hr_mem *mem, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { 0 };
    hr_status st;

    HR_TRY(hr__buffer_new(mem, n * a->state_bytes, &buffers[1], err));
    memset(buffers[1]->data, 0, (size_t)(n * a->state_bytes));
    if ((st = hr__agg_update(a, rows, column, ids, buffers[1]->data, err))) {
        hr__buffer_unref(buffers[1]);
        return st;
    }
    return hr__array_new(a->state, n, 0, buffers, NULL, 0, out, err);
}

static hr_status value_states(const hr_agg *a, const hr_table *rows, int column, const uint32_t *ids, int64_t n,
                              const hr_mem *mem, hr_array **out, hr_error *err)
{
    hr_array *values = NULL, *lists = NULL;
    hr_status st;

    HR_TRY(hr__agg_input(a, rows, column, &values, err));
    st = hr__agg_lists(a, values, 0, rows->n_rows, ids, n, mem, &lists, err);
    hr__array_unref(values);
    if (st)
        return st;
    if (!a->cls->shorten) {
        *out = lists;
        return HR_OK;
    }
    st = a->cls->shorten(a, lists, mem, out, err);
    hr__array_unref(lists);
    return st;
}

/* The group of each row, and the keys and hashes of the groups. */
typedef struct row_groups {
    hr_grouper *keys;
    uint32_t *ids;
    uint64_t *hashes;
    int64_t n;
} row_groups;

static void row_groups_clear(row_groups *r)
{
    hr__grouper_free(r->keys);
    hr__free(r->ids);
    hr__free(r->hashes);
}

/* Whether nearly all of the first rows have different keys. Then looking up the others gains nothing, because the merge
 * of partial results does it again. A function of the rows alone, because sums of floats depend on it. */
static hr_status are_distinct(const hr_grouping *g, const hr_table *rows, row_groups *r, bool *out, hr_error *err)
{
    *out = false;
    if (!g->n_keys || g->has_values || rows->n_rows < 4 * PROBE_ROWS)
        return HR_OK;
    HR_TRY(hr__grouper_add(r->keys, rows, 0, PROBE_ROWS, r->ids, err));
    *out = hr__grouper_n(r->keys) > PROBE_ROWS - PROBE_ROWS / 16;
    return HR_OK;
}

/* Makes each row a group. */
static void each_its_own(const hr_grouping *g, const hr_table *rows, row_groups *r, hr_array **columns)
{
    r->n = rows->n_rows;
    for (int64_t i = 0; i < r->n; i++)
        r->ids[i] = (uint32_t)i;
    for (int k = 0; k < g->n_keys; k++)
        columns[k] = hr__array_ref(rows->columns[g->keys[k]]);
    hr__grouper_hash(r->keys, rows, 0, r->n, r->hashes);
}

static hr_status equal_ones(const hr_table *rows, const hr_mem *mem, row_groups *r, hr_array **columns, hr_error *err)
{
    HR_TRY(hr__grouper_add(r->keys, rows, 0, rows->n_rows, r->ids, err));
    r->n = hr__grouper_n(r->keys);
    memcpy(r->hashes, hr__grouper_hashes(r->keys), (size_t)r->n * sizeof *r->hashes);
    return hr__grouper_keys(r->keys, mem, columns, err);
}

static hr_status group_rows(const hr_grouping *g, const hr_table *rows, const hr_mem *mem, row_groups *r,
                            hr_array **columns, hr_error *err)
{
    size_t room = (size_t)rows->n_rows + 1;
    bool distinct;

    r->ids = hr__alloc(mem->account, room * sizeof *r->ids);
    r->hashes = hr__alloc(mem->account, room * sizeof *r->hashes);
    if (!r->ids || !r->hashes)
        return hr__error_memory(err, "group", rows->n_rows * 12);
    HR_TRY(hr__grouper_new(g->in, g->keys, g->n_keys, mem->account, &r->keys, err));
    HR_TRY(are_distinct(g, rows, r, &distinct, err));
    if (!distinct)
        return equal_ones(rows, mem, r, columns, err);
    each_its_own(g, rows, r, columns);
    return HR_OK;
}

hr_status hr__grouping_partial(const hr_grouping *g, const hr_table *rows, const hr_mem *mem, hr_table **out,
                               uint64_t **hashes, hr_error *err)
{
    hr_array **columns = hr__zalloc(mem->account, ((size_t)g->partial->n + 1) * sizeof(hr_array *));
    row_groups r = { 0 };
    hr_status st = HR_OK;

    if (!columns)
        HR_GO(hr__error_memory(err, "group", g->partial->n * (int64_t)sizeof(hr_array *)));
    HR_GO(group_rows(g, rows, mem, &r, columns, err));
    for (int i = 0; i < g->n_aggs; i++) {
        const hr_agg *a = &g->aggs[i];

        HR_GO((a->state_bytes ? fixed_states : value_states)(a, rows, g->columns[i], r.ids, r.n, mem,
                                                             &columns[g->n_keys + i], err));
    }
    HR_GO(table_of(g->partial, columns, r.n, out, err));
    if (hashes) {
        *hashes = r.hashes;
        r.hashes = NULL;
    }
done:
    if (columns)
        unref_columns(columns, g->partial->n);
    hr__free(columns);
    row_groups_clear(&r);
    return st;
}

hr_status hr__grouping_hashes(const hr_grouping *g, const hr_table *partial, hr_account *account, uint64_t **out,
                              hr_error *err)
{
    hr_grouper *keys = NULL;

    if (!(*out = hr__alloc(account, (size_t)(partial->n_rows + 1) * sizeof **out)))
        return hr__error_memory(err, "group", partial->n_rows * 8);
    HR_TRY(hr__grouper_new(g->partial, g->first_columns, g->n_keys, account, &keys, err));
    hr__grouper_hash(keys, partial, 0, partial->n_rows, *out);
    hr__grouper_free(keys);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------- fold */

/* The lists of one aggregate in order of arrival, each with the number of its group. For distinct values instead the
 * pairs (group, value), each once. */
typedef struct lists {
    hr_grouper *seen; /* the pairs; NULL: none yet, or not an aggregate of distinct values */
    hr_schema *pair;
    hr_array **parts;
    int64_t n_parts, cap_parts;
    uint32_t *ids; /* the group of each row of all parts */
    int64_t n_ids, cap_ids;
    int64_t n_bytes, compact_bytes; /* now, and after the last concatenation */
} lists;

struct hr_fold {
    const hr_grouping *grouping;
    hr_account *account;
    hr_grouper *keys;
    hr_buffer **states; /* of each aggregate; NULL: an aggregate of values */
    lists *lists;
    int64_t room; /* number of groups that fit in `states` */
    uint32_t *ids;
    int64_t cap_ids;
};

hr_status hr__fold_new(const hr_grouping *g, hr_account *account, hr_fold **out, hr_error *err)
{
    hr_fold *f = hr__zalloc(account, sizeof *f);
    hr_status st = HR_OK;

    *out = NULL;
    if (!f)
        return hr__error_memory(err, "group", sizeof *f);
    f->grouping = g;
    f->account = account;
    f->states = hr__zalloc(account, ((size_t)g->n_aggs + 1) * sizeof(hr_buffer *));
    f->lists = hr__zalloc(account, ((size_t)g->n_aggs + 1) * sizeof *f->lists);
    if (!f->states || !f->lists)
        HR_GO(hr__error_memory(err, "group", g->n_aggs * (int64_t)sizeof *f->lists));
    HR_GO(hr__grouper_new(g->partial, g->first_columns, g->n_keys, account, &f->keys, err));
    *out = f;
    f = NULL;
done:
    hr__fold_free(f);
    return st;
}

static void lists_clear(lists *l)
{
    hr__grouper_free(l->seen);
    hr__schema_unref(l->pair);
    for (int64_t i = 0; i < l->n_parts; i++)
        hr__array_unref(l->parts[i]);
    hr__free(l->parts);
    hr__free(l->ids);
    *l = (lists){ 0 };
}

void hr__fold_free(hr_fold *f)
{
    if (!f)
        return;
    for (int a = 0; a < f->grouping->n_aggs; a++) {
        if (f->states)
            hr__buffer_unref(f->states[a]);
        if (f->lists)
            lists_clear(&f->lists[a]);
    }
    hr__free(f->states);
    hr__free(f->lists);
    hr__free(f->ids);
    hr__grouper_free(f->keys);
    hr__free(f);
}

int64_t hr__fold_n(const hr_fold *f) { return hr__grouper_n(f->keys); }

int64_t hr__fold_bytes(const hr_fold *f)
{
    int64_t n = hr__grouper_bytes(f->keys);

    for (int a = 0; a < f->grouping->n_aggs; a++)
        n += (f->states[a] ? f->states[a]->n_bytes : 0) + f->lists[a].n_bytes +
             (f->lists[a].seen ? hr__grouper_bytes(f->lists[a].seen) : 0);
    return n;
}

/* Makes room for the states of n groups; new states are zero. */
static hr_status grow_states(hr_fold *f, int64_t n, hr_error *err)
{
    const hr_mem mem = { .account = f->account };
    int64_t room = HR_MAX(HR_MAX(n, 1), f->room * 2);

    if (n <= f->room && f->room)
        return HR_OK;
    for (int a = 0; a < f->grouping->n_aggs; a++) {
        int64_t bytes = f->grouping->aggs[a].state_bytes, old = f->states[a] ? f->room * bytes : 0;
        hr_buffer *more = NULL;

        if (!bytes)
            continue;
        HR_TRY(hr__buffer_new(&mem, room * bytes, &more, err));
        if (old)
            memcpy(more->data, f->states[a]->data, (size_t)old);
        memset(more->data + old, 0, (size_t)(room * bytes - old));
        hr__buffer_unref(f->states[a]);
        f->states[a] = more;
    }
    f->room = room;
    return HR_OK;
}

/* All lists of an aggregate as one array; row i is of group ids[i]. */
static hr_status concat_lists(const hr_fold *f, int a, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const lists *l = &f->lists[a];

    return hr__array_concat(mem, f->grouping->aggs[a].state, l->parts, (int)l->n_parts, out, err);
}

/* --- distinct values */

static hr_status pairs_begin(lists *l, hr_type *value, hr_account *account, hr_error *err)
{
    static const int both[] = { 0, 1 };
    hr_field fields[2] = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__field_init(&fields[0], "group", hr__type_simple(HR_T_UINT32), false, err));
    HR_GO(hr__field_init(&fields[1], "value", value, true, err));
    HR_GO(hr__schema_new(fields, 2, &l->pair, err));
    st = hr__grouper_new(l->pair, both, 2, account, &l->seen, err);
done:
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
    return st;
}

/* A table of the values of lists, each with the number of its group. */
static hr_status pairs_of(const hr_fold *f, const lists *l, const hr_array *part, hr_table **out, hr_error *err)
{
    const hr_mem mem = { .account = f->account };
    int64_t first = 0, end = 0, begin, n;
    hr_buffer *buffers[3] = { 0 };
    hr_array *columns[2] = { NULL };
    hr_status st = HR_OK;

    if (part->length) {
        hr__array_range(part, 0, &first, &n);
        hr__array_range(part, part->length - 1, &begin, &n);
        end = begin + n;
    }
    HR_GO(hr__buffer_new(&mem, (end - first) * 4, &buffers[1], err));
    for (int64_t i = 0; i < part->length; i++) {
        hr__array_range(part, i, &begin, &n);
        for (int64_t k = begin; k < begin + n; k++)
            ((uint32_t *)buffers[1]->data)[k - first] = f->ids[i];
    }
    HR_GO(hr__array_new(hr__type_simple(HR_T_UINT32), end - first, 0, buffers, NULL, 0, &columns[0], err));
    st = hr__array_slice(part->children[0], first, end - first, &columns[1], err);
    if (st)
        hr__array_unref(columns[0]);
    else
        st = hr__table_new(l->pair, columns, end - first, NULL, out, err);
done:
    return st;
}

static hr_status add_distinct(hr_fold *f, int a, const hr_array *part, hr_error *err)
{
    lists *l = &f->lists[a];
    hr_table *pairs = NULL;
    uint32_t *ids = NULL;
    hr_status st = HR_OK;

    if (!l->seen)
        HR_GO(pairs_begin(l, part->children[0]->type, f->account, err));
    HR_GO(pairs_of(f, l, part, &pairs, err));
    if (!(ids = hr__alloc(f->account, (size_t)(pairs->n_rows + 1) * sizeof *ids)))
        HR_GO(hr__error_memory(err, "group", pairs->n_rows * 4));
    st = hr__grouper_add(l->seen, pairs, 0, pairs->n_rows, ids, err);
done:
    hr__free(ids);
    hr_table_unref(pairs);
    return st;
}

/* The distinct values of each group, as lists. */
static hr_status distinct_lists(const hr_fold *f, int a, int64_t n_groups, const hr_mem *mem, hr_array **out,
                                hr_error *err)
{
    hr_array *columns[2] = { NULL };
    hr_status st;

    HR_TRY(hr__grouper_keys(f->lists[a].seen, mem, columns, err));
    st = hr__agg_lists(&f->grouping->aggs[a], columns[1], 0, columns[1]->length,
                       (const uint32_t *)hr__array_values(columns[0]), n_groups, mem, out, err);
    hr__array_unref(columns[0]);
    hr__array_unref(columns[1]);
    return st;
}

/* The values of each group, as lists. */
static hr_status joined(const hr_fold *f, int a, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const hr_agg *agg = &f->grouping->aggs[a];
    hr_array *all = NULL, *lists = NULL;
    hr_status st = HR_OK;

    if (f->lists[a].seen)
        return distinct_lists(f, a, HR_MAX(hr__fold_n(f), !f->grouping->n_keys), mem, out, err);
    HR_GO(concat_lists(f, a, mem, &all, err));
    HR_GO(hr__agg_join_lists(agg, all, f->lists[a].ids, HR_MAX(hr__fold_n(f), !f->grouping->n_keys), mem, &lists, err));
    if (agg->cls->shorten) {
        st = agg->cls->shorten(agg, lists, mem, out, err);
    } else {
        *out = lists;
        lists = NULL;
    }
done:
    hr__array_unref(all);
    hr__array_unref(lists);
    return st;
}

static hr_status compact(hr_fold *f, int a, hr_error *err)
{
    const hr_mem mem = { .account = f->account };
    lists *l = &f->lists[a];
    hr_array *all = NULL;

    HR_TRY(joined(f, a, &mem, &all, err));
    for (int64_t i = 0; i < l->n_parts; i++)
        hr__array_unref(l->parts[i]);
    l->parts[0] = all;
    l->n_parts = 1;
    l->n_ids = all->length; /* not more than before, so they fit */
    for (int64_t i = 0; i < l->n_ids; i++)
        l->ids[i] = (uint32_t)i;
    l->n_bytes = l->compact_bytes = hr__array_bytes_used(all);
    return HR_OK;
}

static hr_status add_lists(hr_fold *f, int a, hr_array *part, hr_error *err)
{
    lists *l = &f->lists[a];

    if (f->grouping->aggs[a].cls->distinct)
        return add_distinct(f, a, part, err);
    if (!hr__grow(f->account, (void **)&l->parts, &l->cap_parts, l->n_parts + 1, sizeof *l->parts) ||
        !hr__grow(f->account, (void **)&l->ids, &l->cap_ids, l->n_ids + part->length, sizeof *l->ids))
        return hr__error_memory(err, "group", part->length * 4);
    memcpy(l->ids + l->n_ids, f->ids, (size_t)part->length * sizeof *l->ids);
    l->n_ids += part->length;
    l->parts[l->n_parts++] = hr__array_ref(part);
    l->n_bytes += hr__array_bytes_used(part);
    return l->n_bytes > 2 * l->compact_bytes + COMPACT_BYTES ? compact(f, a, err) : HR_OK;
}

hr_status hr__fold_add(hr_fold *f, const hr_table *partial, hr_error *err)
{
    const hr_grouping *g = f->grouping;

    if (!hr__grow(f->account, (void **)&f->ids, &f->cap_ids, partial->n_rows, sizeof *f->ids))
        return hr__error_memory(err, "group", partial->n_rows * 4);
    HR_TRY(hr__grouper_add(f->keys, partial, 0, partial->n_rows, f->ids, err));
    HR_TRY(grow_states(f, hr__fold_n(f), err));
    for (int i = 0; i < g->n_aggs; i++) {
        const hr_agg *a = &g->aggs[i];
        hr_array *in = partial->columns[g->n_keys + i];

        if (a->state_bytes)
            HR_TRY(hr__agg_merge(a, in->buffers[1]->data + in->offset * a->state_bytes, partial->n_rows, f->ids,
                                 f->states[i]->data, err));
        else
            HR_TRY(add_lists(f, i, in, err));
    }
    return HR_OK;
}

static hr_status state_column(const hr_fold *f, int i, int64_t n, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const hr_agg *a = &f->grouping->aggs[i];
    hr_buffer *buffers[3] = { 0 };

    if (!a->state_bytes)
        return joined(f, i, mem, out, err);
    HR_TRY(hr__buffer_copy(mem, f->states[i]->data, n * a->state_bytes, &buffers[1], err));
    return hr__array_new(a->state, n, 0, buffers, NULL, 0, out, err);
}

static hr_status result_column(const hr_fold *f, int i, int64_t n, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const hr_agg *a = &f->grouping->aggs[i];
    hr_array *lists = NULL;
    hr_status st;

    if (a->state_bytes)
        return a->cls->result(a, f->states[i]->data, n, mem, out, err);
    HR_TRY(joined(f, i, mem, &lists, err));
    st = a->cls->finish(a, lists, mem, out, err);
    hr__array_unref(lists);
    return st;
}

static hr_status fold_table(hr_fold *f, hr_schema *schema, bool results, const hr_mem *mem, hr_table **out,
                            hr_error *err)
{
    const hr_grouping *g = f->grouping;
    int64_t n = g->n_keys ? hr__fold_n(f) : 1;
    hr_array **columns = hr__zalloc(f->account, ((size_t)schema->n + 1) * sizeof(hr_array *));
    hr_status st = HR_OK;

    *out = NULL;
    if (!columns)
        return hr__error_memory(err, "group", schema->n * (int64_t)sizeof(hr_array *));
    HR_GO(grow_states(f, n, err));
    HR_GO(hr__grouper_keys(f->keys, mem, columns, err));
    for (int i = 0; i < g->n_aggs; i++)
        HR_GO((results ? result_column : state_column)(f, i, n, mem, &columns[g->n_keys + i], err));
    HR_GO(table_of(schema, columns, n, out, err));
done:
    unref_columns(columns, schema->n);
    hr__free(columns);
    return st;
}

hr_status hr__fold_result(hr_fold *f, const hr_mem *mem, hr_table **out, hr_error *err)
{
    return fold_table(f, f->grouping->out, true, mem, out, err);
}

hr_status hr__fold_partial(hr_fold *f, const hr_mem *mem, hr_table **out, hr_error *err)
{
    return fold_table(f, f->grouping->partial, false, mem, out, err);
}
