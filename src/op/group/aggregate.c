/* aggregate.c - parses aggregates, binds them to columns, and makes their lists of values.
 *
 * Tests: test_keyed.c, test_groupby.py. */
#include "op/group/aggregate.h"

#include "op/operators.h"

static const char *name_of(const hr_agg *a) { return a->own ? hr__own_name(a->own) : a->cls->name; }

static const hr_agg_class *find_class(const char *name)
{
    const hr_agg_class *tables[] = { hr__agg_fixed, hr__agg_values };

    for (int t = 0; t < HR_LEN(tables); t++)
        for (const hr_agg_class *c = tables[t]; c->name; c++)
            if (!strcmp(c->name, name))
                return c;
    return NULL;
}

const char *hr__aggregate_at(int i, const char **doc)
{
    const hr_agg_class *tables[] = { hr__agg_fixed, hr__agg_values };

    for (int t = 0; t < HR_LEN(tables); t++)
        for (const hr_agg_class *c = tables[t]; c->name; c++)
            if (i-- == 0) {
                *doc = c->doc;
                return c->name;
            }
    return NULL;
}

static hr_status class_missing(const char *name, hr_error *err)
{
    static const char *const others[][2] = { { "avg", "mean(x)" },   { "average", "mean(x)" },
                                             { "stddev", "std(x)" }, { "median", "quantile(x)" },
                                             { "size", "count()" },  { "nunique", "count_distinct(x)" } };
    const char *doc, *known;
    hr_near near;

    for (int i = 0; i < HR_LEN(others); i++)
        if (strcmp(others[i][0], name) == 0)
            return hr_error_set(err, HR_NOT_FOUND, "aggregate: unknown function '%s': use %s", name, others[i][1]);
    hr__near_begin(&near, name, strlen(name));
    for (int i = 0; (known = hr__aggregate_at(i, &doc)); i++)
        hr__near_try(&near, known, strlen(known));
    return hr_error_set(err, HR_NOT_FOUND, "aggregate: unknown function '%s'%s", name, hr__near_hint(&near));
}

hr_status hr__agg_init(hr_agg *out, const hr_aggregate *from, hr_error *err)
{
    hr_status st = HR_OK;

    *out = (hr_agg){ 0 };
    if (from->own)
        out->cls = &hr__agg_own;
    else if (!from->function || !(out->cls = find_class(from->function)))
        return class_missing(from->function ? from->function : "", err);
    hr__options_default(out->cls->options, &out->options);
    HR_GO(hr__options_parse(out->cls->options, from->settings, from->n_settings, &out->options, err));
    if (from->column && !(out->column = hr__strdup(NULL, from->column)))
        HR_GO(hr__error_memory(err, "aggregate", 64));
    if (from->name)
        out->name = hr__strdup(NULL, from->name);
    else
        out->name = hr__printf(NULL, "%s(%s)", from->function ? from->function : out->cls->name,
                               from->column ? from->column : "");
    if (!out->name)
        HR_GO(hr__error_memory(err, "aggregate", 64));
    if (from->own)
        HR_GO(hr__own_new(from->function, from->own, &out->own, err)); /* last, because it takes the context */
done:
    if (st)
        hr__agg_clear(out);
    return st;
}

void hr__agg_clear(hr_agg *a)
{
    if (a->cls)
        hr__options_clear(a->cls->options, &a->options);
    hr__own_unref(a->own);
    hr__free(a->column);
    hr__free(a->name);
    hr__type_unref(a->pair);
    hr__type_unref(a->result);
    hr__type_unref(a->state);
    *a = (hr_agg){ 0 };
}

/* Binds an aggregate of pairs to its second column: the input becomes struct<value, by>. */
static hr_status bind_pair(hr_agg *a, const hr_schema *in, hr_error *err)
{
    int by = a->options.by ? hr__schema_find(in, a->options.by) : -1;
    hr_field fields[2] = { 0 };
    hr_status st = HR_OK;

    if (!a->input)
        return hr__agg_refuse(a, "a column", err);
    if (!a->options.by || !*a->options.by)
        return hr_error_set(err, HR_INVALID,
                            "%s: expected by=, the column whose least or greatest value chooses the row", a->cls->name);
    if (by < 0)
        return hr__error_at(err, hr__schema_missing(in, a->options.by, err), "%s: by", a->cls->name);
    HR_GO(hr__field_init(&fields[0], "value", a->input, true, err));
    HR_GO(hr__field_init(&fields[1], "by", in->fields[by].type, true, err));
    HR_GO(hr__type_struct(fields, 2, &a->pair, err));
    a->input = a->pair;
done:
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
    return st;
}

static hr_status state_type(hr_agg *a, hr_error *err)
{
    hr_field item = { 0 };
    hr_status st;

    if (a->state_bytes)
        return hr__type_fixed_binary(a->state_bytes, &a->state, err);
    HR_TRY(hr__field_init(&item, "item", a->input, true, err));
    st = hr__type_list(HR_T_LARGE_LIST, &item, 0, &a->state, err);
    hr__field_clear(&item);
    return st;
}

hr_status hr__agg_bind(const hr_agg *a, const hr_schema *in, hr_agg *out, hr_error *err)
{
    int column = a->column ? hr__schema_find(in, a->column) : -1;
    hr_status st = HR_OK;

    *out = (hr_agg){ .cls = a->cls, .own = a->own ? hr__own_ref(a->own) : NULL, .options = a->options };
    out->options.quantiles = out->options.by = NULL; /* texts of `a`'s own, not shared */
    if (a->options.by && !(out->options.by = hr__strdup(NULL, a->options.by)))
        HR_GO(hr__error_memory(err, "aggregate", 64));
    if (a->options.quantiles && !(out->options.quantiles = hr__strdup(NULL, a->options.quantiles)))
        HR_GO(hr__error_memory(err, "aggregate", 64));
    if ((a->column && !(out->column = hr__strdup(NULL, a->column))) || !(out->name = hr__strdup(NULL, a->name)))
        HR_GO(hr__error_memory(err, "aggregate", 64));
    if (a->column && column < 0) {
        st = hr__error_at(err, hr__schema_missing(in, a->column, err), "%s", name_of(a));
        goto done;
    }
    out->input = column >= 0 ? in->fields[column].type : NULL;
    if (a->cls->pairs)
        HR_GO(bind_pair(out, in, err));
    HR_GO(a->cls->bind(out, err));
    HR_GO(state_type(out, err));
done:
    if (st)
        hr__agg_clear(out);
    return st;
}

hr_status hr__agg_refuse(const hr_agg *a, const char *expected, hr_error *err)
{
    hr_text type = { 0 };
    hr_status st;

    if (a->input)
        hr__type_print(a->input, &type);
    st = hr_error_set(err, HR_TYPE, "%s: column '%s' is %s, expected %s", a->cls->name, a->column ? a->column : "",
                      type.data ? type.data : "not given", expected);
    hr__text_clear(&type);
    return st;
}

void hr__agg_describe(const hr_agg *a, hr_text *out)
{
    const char *name = name_of(a);

    hr__text_add(out, "%s(%s", name, a->column ? a->column : "");
    if (a->cls->pairs)
        hr__text_add(out, ", by=%s", a->options.by);
    hr__text_add(out, ")");
    if (strncmp(a->name, name, strlen(name)) != 0)
        hr__text_add(out, " as %s", a->name);
}

void hr__agg_fingerprint(const hr_agg *a, hr_hash *h)
{
    hr__hash_text(h, name_of(a));
    hr__hash_int(h, !!a->own);
    hr__hash_text(h, a->column);
    hr__hash_text(h, a->name);
    hr__hash_int(h, a->options.ignore_nulls);
    hr__hash_int(h, a->options.ddof);
    hr__hash_int(h, a->options.k);
    hr__hash_add(h, &a->options.q, sizeof a->options.q);
    hr__hash_text(h, a->options.quantiles);
    if (a->cls->pairs)
        hr__hash_text(h, a->options.by);
}

hr_status hr__agg_update(const hr_agg *a, const hr_table *t, int column, const uint32_t *ids, void *states,
                         hr_error *err)
{
    if (a->own)
        return hr__own_update(a, t, column, ids, states, err);
    a->cls->update(a, column >= 0 ? t->columns[column] : NULL, 0, t->n_rows, ids, states);
    return HR_OK;
}

hr_status hr__agg_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states, hr_error *err)
{
    if (a->own)
        return hr__own_merge(a, from, n, ids, states, err);
    a->cls->merge(a, from, n, ids, states);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ lists */

/* A large_list of n lists over `values`; list g is values [offsets[g], offsets[g + 1]). Takes both. */
static hr_status new_lists(const hr_agg *a, hr_buffer *offsets, hr_array *values, int64_t n, hr_array **out,
                           hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, offsets, NULL };

    return hr__array_new(a->state, n, 0, buffers, &values, 1, out, err);
}

/* Orders values by group: from the count of each group makes its offset, then gives the place of each value. */
typedef struct by_group {
    hr_buffer *offsets; /* n_groups + 1 */
    int64_t *next;      /* next[g]: the place of the next value of group g */
    int64_t *order;
    int64_t n;
} by_group;

static void by_group_clear(by_group *b)
{
    hr__buffer_unref(b->offsets);
    hr__free(b->next);
    hr__free(b->order);
}

/* offsets[g + 1] holds the count of group g; becomes the end of group g. */
static hr_status by_group_begin(by_group *b, int64_t n_groups, hr_account *account, hr_error *err)
{
    int64_t *at = (int64_t *)b->offsets->data;

    for (int64_t g = 0; g < n_groups; g++)
        at[g + 1] += at[g];
    b->n = at[n_groups];
    b->next = hr__alloc(account, (size_t)(n_groups + 1) * sizeof *b->next);
    b->order = hr__alloc(account, (size_t)(b->n + 1) * sizeof *b->order);
    if (!b->next || !b->order)
        return hr__error_memory(err, "aggregate", (b->n + n_groups) * 8);
    memcpy(b->next, at, (size_t)(n_groups + 1) * sizeof *b->next);
    return HR_OK;
}

static hr_status zero_offsets(by_group *b, int64_t n_groups, const hr_mem *mem, hr_error *err)
{
    HR_TRY(hr__buffer_new(mem, (n_groups + 1) * 8, &b->offsets, err));
    memset(b->offsets->data, 0, (size_t)(n_groups + 1) * 8);
    return HR_OK;
}

hr_status hr__agg_input(const hr_agg *a, const hr_table *t, int column, hr_array **out, hr_error *err)
{
    hr_buffer *none[3] = { 0 };
    hr_array *both[2] = { NULL };

    if (!a->pair) {
        *out = hr__array_ref(t->columns[column]);
        return HR_OK;
    }
    both[0] = hr__array_ref(t->columns[column]);
    both[1] = hr__array_ref(t->columns[hr__schema_find(t->schema, a->options.by)]);
    return hr__array_new(a->pair, t->n_rows, 0, none, both, 2, out, err);
}

hr_status hr__agg_lists(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                        int64_t n_groups, const hr_mem *mem, hr_array **out, hr_error *err)
{
    bool skip = a->options.ignore_nulls && hr__array_null_count(in);
    by_group b = { 0 };
    hr_array *values = NULL;
    hr_status st = HR_OK;

    HR_GO(zero_offsets(&b, n_groups, mem, err));
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)b.offsets->data)[ids[i] + 1] += !(skip && hr__array_is_null(in, begin + i));
    HR_GO(by_group_begin(&b, n_groups, mem->account, err));
    for (int64_t i = 0; i < n; i++)
        if (!(skip && hr__array_is_null(in, begin + i)))
            b.order[b.next[ids[i]]++] = begin + i;
    HR_GO(hr__array_take(mem, in, b.order, 8, b.n, &values, err));
    st = new_lists(a, b.offsets, values, n_groups, out, err);
    b.offsets = NULL;
done:
    by_group_clear(&b);
    return st;
}

hr_status hr__agg_join_lists(const hr_agg *a, const hr_array *lists, const uint32_t *ids, int64_t n_groups,
                             const hr_mem *mem, hr_array **out, hr_error *err)
{
    by_group b = { 0 };
    hr_array *values = NULL;
    hr_status st = HR_OK;
    int64_t begin, some;

    HR_GO(zero_offsets(&b, n_groups, mem, err));
    for (int64_t i = 0; i < lists->length; i++) {
        hr__array_range(lists, i, &begin, &some);
        ((int64_t *)b.offsets->data)[ids[i] + 1] += some;
    }
    HR_GO(by_group_begin(&b, n_groups, mem->account, err));
    for (int64_t i = 0; i < lists->length; i++) {
        hr__array_range(lists, i, &begin, &some);
        for (int64_t j = 0; j < some; j++)
            b.order[b.next[ids[i]]++] = begin + j;
    }
    HR_GO(hr__array_take(mem, lists->children[0], b.order, 8, b.n, &values, err));
    st = new_lists(a, b.offsets, values, n_groups, out, err);
    b.offsets = NULL;
done:
    by_group_clear(&b);
    return st;
}
