/* aggregate_values.c - aggregates that need the values themselves: quantiles, distinct values, lists, least and
 * greatest text.
 *
 * The input is a list of values per group. `shorten` drops values that cannot change the result (repetitions, all but
 * the least), for all lists at once, so that partial results stay small; `finish` makes the result. Ray's approximate
 * aggregates are exact here.
 *
 * Tests: test_keyed.c, test_groupby.py. */
#include "op/group/aggregate.h"

#include "data/keys.h"
#include "op/group/grouper.h"

#include <math.h>
#include <stdlib.h>

/* large_list<type> */
static hr_status list_type(hr_type *item, hr_type **out, hr_error *err)
{
    hr_field f = { 0 };
    hr_status st;

    HR_TRY(hr__field_init(&f, "item", item, true, err));
    st = hr__type_list(HR_T_LARGE_LIST, &f, 0, out, err);
    hr__field_clear(&f);
    return st;
}

static const int64_t *offsets_of(const hr_array *lists)
{
    return (const int64_t *)lists->buffers[1]->data + lists->offset;
}

/* Lists with these offsets over picks[0 .. offsets[n]) of the child's values. Takes the offsets' buffer. */
static hr_status picked_lists(const hr_array *lists, hr_buffer *offsets, const int64_t *picks, const hr_mem *mem,
                              hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, offsets, NULL };
    hr_array *values = NULL;
    int64_t n = ((const int64_t *)offsets->data)[lists->length];
    hr_status st = hr__array_take(mem, lists->children[0], picks, 8, n, &values, err);

    if (st) {
        hr__buffer_unref(offsets);
        return st;
    }
    return hr__array_new(lists->type, lists->length, 0, buffers, &values, 1, out, err);
}

static hr_status share(const hr_array *lists, hr_array **out)
{
    *out = hr__array_ref((hr_array *)lists);
    return HR_OK;
}

/* A table of one column: the values of all lists, in the order of the child. */
static hr_status values_table(const hr_array *lists, hr_table **out, hr_error *err)
{
    hr_array *values = hr__array_ref(lists->children[0]);
    hr_field f = { 0 };
    hr_schema *schema = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__field_init(&f, "value", values->type, true, err));
    HR_GO(hr__schema_new(&f, 1, &schema, err));
    st = hr__table_new(schema, &values, values->length, NULL, out, err);
    values = NULL;
done:
    hr__field_clear(&f);
    hr__schema_unref(schema);
    hr__array_unref(values);
    return st;
}

/* ------------------------------------------------------------------------------------------------- min, max of text */

static hr_status extreme_bind(hr_agg *a, const hr_agg_class *of_numbers, hr_error *err)
{
    if (!a->input)
        return hr__agg_refuse(a, "a column", err);
    if (hr__agg_is_number(a->input)) {
        a->cls = of_numbers;
        return of_numbers->bind(a, err);
    }
    if (!hr__type_is_orderable(a->input))
        return hr__agg_refuse(a, "values that have an order", err);
    a->result = hr__type_ref(a->input);
    return HR_OK;
}

static hr_status min_bind(hr_agg *a, hr_error *err) { return extreme_bind(a, &hr__agg_min_number, err); }
static hr_status max_bind(hr_agg *a, hr_error *err) { return extreme_bind(a, &hr__agg_max_number, err); }

/* Shortens each list to its first value in an order of `values` (a row for each value of the child); the first of
 * equal ones. */
static hr_status shorten_to_best(const hr_agg *a, const hr_array *lists, const hr_table *values,
                                 const hr_order_key *key, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const int64_t *at = offsets_of(lists);
    hr_order *order = NULL;
    hr_buffer *offsets = NULL;
    int64_t *picks = NULL, n = 0;
    hr_status st = HR_OK;

    HR_GO(hr__order_new(values->schema, key, 1, mem->account, &order, err));
    HR_GO(hr__buffer_new(mem, (lists->length + 1) * 8, &offsets, err));
    if (!(picks = hr__alloc(mem->account, (size_t)(lists->length + 1) * sizeof *picks)))
        HR_GO(hr__error_memory(err, a->cls->name, lists->length * 8));
    for (int64_t i = 0; i < lists->length; i++) {
        int64_t best = at[i];

        ((int64_t *)offsets->data)[i] = n;
        for (int64_t k = at[i] + 1; k < at[i + 1]; k++)
            if (hr__order_compare(order, values, k, values, best) < 0)
                best = k;
        if (at[i] < at[i + 1])
            picks[n++] = best;
    }
    ((int64_t *)offsets->data)[lists->length] = n;
    st = picked_lists(lists, offsets, picks, mem, out, err);
    offsets = NULL;
done:
    hr__buffer_unref(offsets);
    hr__free(picks);
    hr__order_free(order);
    return st;
}

/* Shortens each list to its least or greatest value, or to a null if nulls count. */
static hr_status extreme_shorten(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                 hr_error *err)
{
    hr_order_key key = { .column = 0, .descending = !strcmp(a->cls->name, "max"), .nulls_first = true };
    hr_table *values = NULL;
    hr_status st;

    HR_TRY(values_table(lists, &values, err));
    st = shorten_to_best(a, lists, values, &key, mem, out, err);
    hr_table_unref(values);
    return st;
}

/* Makes a column of the lists, which a->cls->shorten shortens to at most one value. */
static hr_status only_values(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err)
{
    hr_array *best = NULL;
    int64_t *picks = hr__alloc(mem->account, (size_t)(lists->length + 1) * sizeof *picks);
    hr_status st = HR_OK;

    if (!picks)
        return hr__error_memory(err, a->cls->name, lists->length * 8);
    HR_GO(a->cls->shorten(a, lists, mem, &best, err));
    for (int64_t i = 0; i < best->length; i++) {
        const int64_t *at = offsets_of(best);

        picks[i] = at[i] < at[i + 1] ? at[i] : -1;
    }
    st = hr__array_take(mem, best->children[0], picks, 8, best->length, out, err);
done:
    hr__free(picks);
    hr__array_unref(best);
    return st;
}

/* ------------------------------------------------------------------------------------------------------ first, last */

static hr_status end_bind(hr_agg *a, hr_error *err)
{
    if (!a->input)
        return hr__agg_refuse(a, "a column", err);
    a->result = hr__type_ref(a->input);
    return HR_OK;
}

/* Shortens each list to its first or its last value. */
static hr_status end_shorten(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const int64_t *at = offsets_of(lists);
    bool last = !strcmp(a->cls->name, "last");
    int64_t *picks = NULL, n = 0;
    hr_buffer *offsets = NULL;
    hr_status st;

    HR_TRY(hr__buffer_new(mem, (lists->length + 1) * 8, &offsets, err));
    if (!(picks = hr__alloc(mem->account, (size_t)(lists->length + 1) * sizeof *picks))) {
        hr__buffer_unref(offsets);
        return hr__error_memory(err, a->cls->name, lists->length * 8);
    }
    for (int64_t i = 0; i < lists->length; i++) {
        ((int64_t *)offsets->data)[i] = n;
        if (at[i] < at[i + 1])
            picks[n++] = last ? at[i + 1] - 1 : at[i];
    }
    ((int64_t *)offsets->data)[lists->length] = n;
    st = picked_lists(lists, offsets, picks, mem, out, err);
    hr__free(picks);
    return st;
}

/* ------------------------------------------------------------------------------------------------ arg_min, arg_max */

static hr_status at_extreme_bind(hr_agg *a, hr_error *err)
{
    const hr_type *by = a->pair->children[1].type;
    hr_text type = { 0 };
    hr_status st;

    if (hr__type_is_orderable(by)) {
        a->result = hr__type_ref(a->pair->children[0].type);
        return HR_OK;
    }
    hr__type_print(by, &type);
    st = hr_error_set(err, HR_TYPE, "%s: column '%s' is %s, expected values that have an order", a->cls->name,
                      a->options.by, type.data ? type.data : "");
    hr__text_clear(&type);
    return st;
}

/* A child of structs, for each struct. *out is new. */
static hr_status child_of(const hr_array *structs, int i, hr_array **out, hr_error *err)
{
    return hr__array_slice(structs->children[i], structs->offset, structs->length, out, err);
}

/* A table of one column: `by` of all pairs. */
static hr_status by_table(const hr_array *lists, hr_table **out, hr_error *err)
{
    hr_array *by = NULL;
    hr_field f = { 0 };
    hr_schema *schema = NULL;
    hr_status st = HR_OK;

    HR_GO(child_of(lists->children[0], 1, &by, err));
    HR_GO(hr__field_init(&f, "by", by->type, true, err));
    HR_GO(hr__schema_new(&f, 1, &schema, err));
    st = hr__table_new(schema, &by, by->length, NULL, out, err);
    by = NULL;
done:
    hr__field_clear(&f);
    hr__schema_unref(schema);
    hr__array_unref(by);
    return st;
}

/* Shortens each list to its pair with the least or the greatest `by`; NaN, then null come last. */
static hr_status at_extreme_shorten(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                    hr_error *err)
{
    hr_order_key key = { .column = 0, .descending = !strcmp(a->cls->name, "arg_max") };
    hr_table *by = NULL;
    hr_status st;

    HR_TRY(by_table(lists, &by, err));
    st = shorten_to_best(a, lists, by, &key, mem, out, err);
    hr_table_unref(by);
    return st;
}

/* The values of the best pairs; null where no pair has a `by`. */
static hr_status at_extreme_finish(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                   hr_error *err)
{
    hr_array *best = NULL, *values = NULL, *by = NULL;
    int64_t *picks = hr__alloc(mem->account, (size_t)(lists->length + 1) * sizeof *picks);
    hr_status st = HR_OK;

    if (!picks)
        return hr__error_memory(err, a->cls->name, lists->length * 8);
    HR_GO(at_extreme_shorten(a, lists, mem, &best, err));
    HR_GO(child_of(best->children[0], 0, &values, err));
    HR_GO(child_of(best->children[0], 1, &by, err));
    for (int64_t i = 0; i < best->length; i++) {
        const int64_t *at = offsets_of(best);

        picks[i] = at[i] < at[i + 1] && !hr__array_is_null(by, at[i]) ? at[i] : -1;
    }
    st = hr__array_take(mem, values, picks, 8, best->length, out, err);
done:
    hr__free(picks);
    hr__array_unref(best);
    hr__array_unref(values);
    hr__array_unref(by);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ lists */

static hr_status list_bind(hr_agg *a, hr_error *err)
{
    return a->input ? list_type(a->input, &a->result, err) : hr__agg_refuse(a, "a column", err);
}

static hr_status list_finish(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err)
{
    (void)a;
    (void)mem;
    (void)err;
    return share(lists, out);
}

/* -------------------------------------------------------------------------------------------------- distinct values */

/* Numbers the values within lists: *ids (new, hr__free) has a number for each value of the child, from the first list's
 * on; equal values of a list have equal numbers. A new number is one more than all before it, so it marks the first of
 * equal values. */
static hr_status number_values(const hr_array *lists, const hr_mem *mem, uint32_t **ids, int64_t *n_kinds,
                               hr_error *err)
{
    const int64_t *at = offsets_of(lists);
    int64_t n = at[lists->length] - at[0];
    static const int columns[2] = { 0, 1 };
    hr_field fields[2] = { 0 };
    hr_buffer *buffers[3] = { 0 };
    hr_array *pair[2] = { NULL };
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    hr_grouper *g = NULL;
    hr_status st = HR_OK;

    if (!(*ids = hr__alloc(mem->account, (size_t)(n + 1) * sizeof **ids)))
        return hr__error_memory(err, "distinct values", n * 4);
    HR_GO(hr__buffer_new(mem, n * 4, &buffers[1], err));
    for (int64_t i = 0; i < lists->length; i++)
        for (int64_t k = at[i]; k < at[i + 1]; k++)
            ((uint32_t *)buffers[1]->data)[k - at[0]] = (uint32_t)i;
    st = hr__array_new(hr__type_simple(HR_T_UINT32), n, 0, buffers, NULL, 0, &pair[0], err);
    buffers[1] = NULL;
    HR_GO(st);
    HR_GO(hr__array_slice(lists->children[0], at[0], n, &pair[1], err));
    HR_GO(hr__field_init(&fields[0], "list", pair[0]->type, false, err));
    HR_GO(hr__field_init(&fields[1], "value", pair[1]->type, true, err));
    HR_GO(hr__schema_new(fields, 2, &schema, err));
    st = hr__table_new(schema, pair, n, NULL, &t, err);
    pair[0] = pair[1] = NULL;
    HR_GO(st);
    HR_GO(hr__grouper_new(schema, columns, 2, mem->account, &g, err));
    HR_GO(hr__grouper_add(g, t, 0, n, *ids, err));
    *n_kinds = hr__grouper_n(g);
done:
    if (st) {
        hr__free(*ids);
        *ids = NULL;
    }
    hr__grouper_free(g);
    hr_table_unref(t);
    hr__schema_unref(schema);
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
    hr__array_unref(pair[0]);
    hr__array_unref(pair[1]);
    hr__buffer_unref(buffers[1]);
    return st;
}

/* The lists without repetitions; *counts (may be NULL; new, hr__free): the count of each value. */
static hr_status distinct(const hr_array *lists, const hr_mem *mem, hr_array **out, int64_t **counts, hr_error *err)
{
    const int64_t *at = offsets_of(lists);
    hr_buffer *offsets = NULL;
    uint32_t *ids = NULL;
    int64_t *picks = NULL, n_kinds = 0, n = 0;
    hr_status st = HR_OK;

    HR_GO(number_values(lists, mem, &ids, &n_kinds, err));
    HR_GO(hr__buffer_new(mem, (lists->length + 1) * 8, &offsets, err));
    picks = hr__alloc(mem->account, (size_t)(n_kinds + 1) * sizeof *picks);
    if (counts)
        *counts = hr__zalloc(mem->account, (size_t)(n_kinds + 1) * sizeof **counts);
    if (!picks || (counts && !*counts))
        HR_GO(hr__error_memory(err, "distinct values", n_kinds * 8));
    for (int64_t i = 0; i < lists->length; i++) {
        ((int64_t *)offsets->data)[i] = n;
        for (int64_t k = at[i]; k < at[i + 1]; k++) {
            uint32_t id = ids[k - at[0]];

            if (id == n)
                picks[n++] = k;
            if (counts)
                (*counts)[id]++;
        }
    }
    ((int64_t *)offsets->data)[lists->length] = n;
    st = picked_lists(lists, offsets, picks, mem, out, err);
    offsets = NULL;
done:
    hr__buffer_unref(offsets);
    hr__free(ids);
    hr__free(picks);
    return st;
}

static hr_status distinct_bind(hr_agg *a, hr_error *err)
{
    if (!a->input || !hr__type_is_groupable(a->input))
        return hr__agg_refuse(a, "numbers, times, text or bytes", err);
    return HR_OK;
}

static hr_status distinct_shorten(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                  hr_error *err)
{
    (void)a;
    return distinct(lists, mem, out, NULL, err);
}

static hr_status unique_bind(hr_agg *a, hr_error *err)
{
    HR_TRY(distinct_bind(a, err));
    return list_type(a->input, &a->result, err);
}

static hr_status count_distinct_bind(hr_agg *a, hr_error *err)
{
    a->result = hr__type_simple(HR_T_INT64);
    return distinct_bind(a, err);
}

static hr_status count_distinct_finish(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                       hr_error *err)
{
    hr_buffer *buffers[3] = { 0 };
    hr_array *kinds = NULL;
    hr_status st = HR_OK;

    HR_GO(distinct(lists, mem, &kinds, NULL, err));
    HR_GO(hr__buffer_new(mem, lists->length * 8, &buffers[1], err));
    for (int64_t i = 0; i < lists->length; i++)
        ((int64_t *)buffers[1]->data)[i] = offsets_of(kinds)[i + 1] - offsets_of(kinds)[i];
    st = hr__array_new(a->result, lists->length, 0, buffers, NULL, 0, out, err);
done:
    hr__array_unref(kinds);
    return st;
}

/* Lists of int64 with the offsets of `like`; copies counts. */
static hr_status count_lists(hr_type *type, const hr_array *like, const int64_t *counts, const hr_mem *mem,
                             hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { 0 }, *offsets[3] = { NULL, hr__buffer_ref(like->buffers[1]), NULL };
    int64_t n = offsets_of(like)[like->length];
    hr_array *child = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__buffer_copy(mem, counts, n * 8, &buffers[1], err));
    HR_GO(hr__array_new(hr__type_simple(HR_T_INT64), n, 0, buffers, NULL, 0, &child, err));
    return hr__array_new(type, like->length, 0, offsets, &child, 1, out, err);
done:
    hr__buffer_unref(offsets[1]);
    return st;
}

/* struct<values: large_list<T>, counts: large_list<int64>> */
static hr_status counter_bind(hr_agg *a, hr_error *err)
{
    hr_type *lists[2] = { NULL };
    hr_field fields[2] = { 0 };
    hr_status st = HR_OK;

    HR_TRY(distinct_bind(a, err));
    HR_GO(list_type(a->input, &lists[0], err));
    HR_GO(list_type(hr__type_simple(HR_T_INT64), &lists[1], err));
    HR_GO(hr__field_init(&fields[0], "values", lists[0], true, err));
    HR_GO(hr__field_init(&fields[1], "counts", lists[1], true, err));
    st = hr__type_struct(fields, 2, &a->result, err);
done:
    for (int i = 0; i < 2; i++) {
        hr__field_clear(&fields[i]);
        hr__type_unref(lists[i]);
    }
    return st;
}

static hr_status counter_finish(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                hr_error *err)
{
    hr_buffer *none[3] = { 0 };
    hr_array *both[2] = { NULL };
    int64_t *counts = NULL;
    hr_status st = HR_OK;

    HR_GO(distinct(lists, mem, &both[0], &counts, err));
    HR_GO(count_lists(a->result->children[1].type, both[0], counts, mem, &both[1], err));
    st = hr__array_new(a->result, lists->length, 0, none, both, 2, out, err);
    both[0] = both[1] = NULL;
done:
    hr__array_unref(both[0]);
    hr__array_unref(both[1]);
    hr__free(counts);
    return st;
}

/* ---------------------------------------------------------------------------------------------- the k most frequent */

/* large_list<struct<COLUMN: T, count: int64>>: Ray's names. */
static hr_status top_bind(hr_agg *a, hr_error *err)
{
    hr_field fields[2] = { 0 };
    hr_type *item = NULL;
    hr_status st = HR_OK;

    HR_TRY(distinct_bind(a, err));
    HR_GO(hr__field_init(&fields[0], a->column, a->input, true, err));
    HR_GO(hr__field_init(&fields[1], "count", hr__type_simple(HR_T_INT64), true, err));
    HR_GO(hr__type_struct(fields, 2, &item, err));
    st = list_type(item, &a->result, err);
done:
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
    hr__type_unref(item);
    return st;
}

typedef struct kind {
    int64_t at, count;
} kind;

static int more_first(const void *a, const void *b)
{
    const kind *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static hr_status top_finish(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out, hr_error *err)
{
    hr_type *item = a->result->children[0].type;
    hr_buffer *buffers[3] = { 0 }, *numbers[3] = { 0 }, *none[3] = { 0 };
    hr_array *kinds = NULL, *both[2] = { NULL }, *pairs = NULL;
    int64_t *counts = NULL, *picks = NULL, n = 0, n_kinds;
    kind *all = NULL;
    hr_status st = HR_OK;

    HR_GO(distinct(lists, mem, &kinds, &counts, err));
    n_kinds = offsets_of(kinds)[kinds->length];
    HR_GO(hr__buffer_new(mem, (lists->length + 1) * 8, &buffers[1], err));
    HR_GO(hr__buffer_new(mem, n_kinds * 8, &numbers[1], err));
    all = hr__alloc(mem->account, (size_t)(n_kinds + 1) * sizeof *all);
    picks = hr__alloc(mem->account, (size_t)(n_kinds + 1) * sizeof *picks);
    if (!all || !picks)
        HR_GO(hr__error_memory(err, a->cls->name, n_kinds * 24));
    for (int64_t k = 0; k < n_kinds; k++)
        all[k] = (kind){ k, counts[k] };
    for (int64_t i = 0; i < lists->length; i++) {
        int64_t begin = offsets_of(kinds)[i], some = offsets_of(kinds)[i + 1] - begin;

        ((int64_t *)buffers[1]->data)[i] = n;
        qsort(all + begin, (size_t)some, sizeof *all, more_first);
        for (int64_t k = 0; k < HR_MIN(some, a->options.k); k++, n++) {
            picks[n] = all[begin + k].at;
            ((int64_t *)numbers[1]->data)[n] = all[begin + k].count;
        }
    }
    ((int64_t *)buffers[1]->data)[lists->length] = n;
    HR_GO(hr__array_take(mem, kinds->children[0], picks, 8, n, &both[0], err));
    st = hr__array_new(hr__type_simple(HR_T_INT64), n, 0, numbers, NULL, 0, &both[1], err);
    numbers[1] = NULL;
    HR_GO(st);
    st = hr__array_new(item, n, 0, none, both, 2, &pairs, err);
    both[0] = both[1] = NULL;
    HR_GO(st);
    st = hr__array_new(a->result, lists->length, 0, buffers, &pairs, 1, out, err);
    buffers[1] = NULL;
    pairs = NULL;
done:
    hr__buffer_unref(buffers[1]);
    hr__buffer_unref(numbers[1]);
    hr__array_unref(both[0]);
    hr__array_unref(both[1]);
    hr__array_unref(kinds);
    hr__free(counts);
    hr__free(picks);
    hr__free(all);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- quantiles */

static bool is_plain_number(const hr_type *t) { return t->id >= HR_T_INT8 && t->id <= HR_T_FLOAT64; }

static double number_at(const hr_array *a, int64_t i)
{
    const uint8_t *v = hr__array_values(a);

    switch (a->type->id) {
    case HR_T_FLOAT64: return ((const double *)v)[i];
    case HR_T_FLOAT32: return (double)((const float *)v)[i];
    case HR_T_FLOAT16: return hr__half_value(((const uint16_t *)v)[i]);
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: return (double)hr__array_uint(a, i);
    default: return (double)hr__array_int(a, i);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    if (isnan(x) || isnan(y))
        return isnan(x) - isnan(y);
    return x < y ? -1 : x > y;
}

/* Copies the values of a list; returns their number, -1: one is null. */
static int64_t values_of(const hr_array *lists, int64_t i, double *out)
{
    const hr_array *values = lists->children[0];
    int64_t begin, n;

    hr__array_range(lists, i, &begin, &n);
    for (int64_t k = 0; k < n; k++) {
        if (hr__array_is_null(values, begin + k))
            return -1;
        out[k] = number_at(values, begin + k);
    }
    return n;
}

static int64_t longest(const hr_array *lists)
{
    int64_t most = 0;

    for (int64_t i = 0; i < lists->length; i++)
        most = HR_MAX(most, offsets_of(lists)[i + 1] - offsets_of(lists)[i]);
    return most;
}

#define SORT_BELOW 64

/* Moves the k-th smallest value to v[k], smaller values before it: Hoare's quickselect; sorts if that degenerates. */
static void select_value(double *v, int64_t n, int64_t k)
{
    for (int rounds = 0; n > SORT_BELOW; rounds++) {
        int64_t i = 0, j = n - 1;
        double a = v[0], b = v[n / 2], c = v[n - 1];
        double middle = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);

        if (rounds > 64)
            break;
        while (i <= j) {
            while (v[i] < middle)
                i++;
            while (middle < v[j])
                j--;
            if (i <= j) {
                double swap = v[i];

                v[i++] = v[j];
                v[j--] = swap;
            }
        }
        if (k <= j) {
            n = j + 1;
        } else if (k >= i) {
            v += i;
            k -= i;
            n -= i;
        } else
            return;
    }
    qsort(v, (size_t)n, sizeof *v, by_value);
}

/* The q-quantile of unsorted values; reorders v. NaN counts as the greatest. */
static double one_quantile(double *v, int64_t n, double q)
{
    double at = q * (double)(n - 1), low = floor(at), next;
    int64_t i = (int64_t)low, n_nan = 0;

    for (int64_t k = 0; k < n - n_nan; k++)
        while (k < n - n_nan && isnan(v[k])) {
            n_nan++;
            v[k] = v[n - n_nan];
            v[n - n_nan] = (double)NAN;
        }
    if (i >= n - n_nan)
        return (double)NAN;
    select_value(v, n - n_nan, i);
    if (at == low || i + 1 >= n)
        return v[i];
    next = i + 1 < n - n_nan ? v[i + 1] : (double)NAN;
    for (int64_t k = i + 2; k < n - n_nan; k++)
        next = v[k] < next ? v[k] : next;
    return v[i] + (next - v[i]) * (at - low);
}

/* Interpolates between neighbours, as NumPy's "linear". */
static double quantile_of(const double *v, int64_t n, double q)
{
    double at = q * (double)(n - 1), low = floor(at);
    int64_t i = (int64_t)low;

    return i + 1 < n ? v[i] + (v[i + 1] - v[i]) * (at - low) : v[i];
}

static hr_status quantile_bind(hr_agg *a, hr_error *err)
{
    a->result = hr__type_simple(HR_T_FLOAT64);
    return a->input && is_plain_number(a->input) ? HR_OK : hr__agg_refuse(a, "numbers", err);
}

static hr_status quantile_finish(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                 hr_error *err)
{
    hr_buffer *buffers[3] = { 0 };
    int64_t n_nulls = 0;
    double *v = hr__alloc(mem->account, (size_t)(longest(lists) + 1) * sizeof *v);
    hr_status st = HR_OK;

    if (!v)
        return hr__error_memory(err, "quantile", longest(lists) * 8);
    HR_GO(hr__buffer_new(mem, hr__bits_bytes(lists->length), &buffers[0], err));
    HR_GO(hr__buffer_new(mem, lists->length * 8, &buffers[1], err));
    memset(buffers[0]->data, 0, (size_t)buffers[0]->n_bytes);
    for (int64_t i = 0; i < lists->length; i++) {
        int64_t n = values_of(lists, i, v);

        ((double *)buffers[1]->data)[i] = n > 0 ? one_quantile(v, n, a->options.q) : 0;
        if (n > 0)
            hr__bit_set(buffers[0]->data, i);
        else
            n_nulls++;
    }
    st = hr__array_new(a->result, lists->length, n_nulls, buffers, NULL, 0, out, err);
    buffers[0] = buffers[1] = NULL;
done:
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    hr__free(v);
    return st;
}

#define MAX_QUANTILES 100

/* Parses "0.1,0.5"; returns the number of quantiles, -1: another text. */
static int parse_quantiles(const char *text, double out[MAX_QUANTILES])
{
    int n = 0;

    for (const char *p = text; p && *p && n < MAX_QUANTILES; n++) {
        char *end;

        out[n] = strtod(p, &end);
        if (end == p || !(out[n] >= 0 && out[n] <= 1) || (*end && *end != ','))
            return -1;
        p = *end ? end + 1 : end;
    }
    return n ? n : -1;
}

static hr_status quantiles_bind(hr_agg *a, hr_error *err)
{
    double qs[MAX_QUANTILES];

    if (!a->input || !is_plain_number(a->input))
        return hr__agg_refuse(a, "numbers", err);
    if (parse_quantiles(a->options.quantiles, qs) < 0)
        return hr_error_set(err, HR_INVALID,
                            "%s: quantiles are '%s'; expected numbers from 0 to 1, for example 0.1,0.5", a->cls->name,
                            a->options.quantiles ? a->options.quantiles : "");
    return list_type(hr__type_simple(HR_T_FLOAT64), &a->result, err);
}

static hr_status quantiles_finish(const hr_agg *a, const hr_array *lists, const hr_mem *mem, hr_array **out,
                                  hr_error *err)
{
    hr_buffer *values[3] = { 0 }, *buffers[3] = { 0 };
    double qs[MAX_QUANTILES], *v = hr__alloc(mem->account, (size_t)(longest(lists) + 1) * sizeof *v);
    int n_qs = parse_quantiles(a->options.quantiles, qs);
    hr_array *child = NULL;
    hr_status st = HR_OK;
    int64_t m = 0;

    if (!v)
        return hr__error_memory(err, "quantiles", longest(lists) * 8);
    HR_GO(hr__buffer_new(mem, (lists->length + 1) * 8, &buffers[1], err));
    HR_GO(hr__buffer_new(mem, lists->length * n_qs * 8, &values[1], err));
    for (int64_t i = 0; i < lists->length; i++) {
        int64_t n = values_of(lists, i, v);

        if (n > 0)
            qsort(v, (size_t)n, sizeof *v, by_value);
        ((int64_t *)buffers[1]->data)[i] = m;
        for (int k = 0; n > 0 && k < n_qs; k++)
            ((double *)values[1]->data)[m++] = quantile_of(v, n, qs[k]);
    }
    ((int64_t *)buffers[1]->data)[lists->length] = m;
    st = hr__array_new(hr__type_simple(HR_T_FLOAT64), m, 0, values, NULL, 0, &child, err);
    values[1] = NULL;
    HR_GO(st);
    st = hr__array_new(a->result, lists->length, 0, buffers, &child, 1, out, err);
    buffers[1] = NULL;
done:
    hr__buffer_unref(values[1]);
    hr__buffer_unref(buffers[1]);
    hr__free(v);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- the list */

#define IGNORE_NULLS(value_)                                                                                           \
    { "ignore_nulls", HR_OPT_BOOL, offsetof(hr_aggregate_options, ignore_nulls), 0, 0, value_, NULL, "ignore nulls" }

static const hr_option null_options[] = { IGNORE_NULLS(1), { 0 } };
static const hr_option keep_options[] = { IGNORE_NULLS(0), { 0 } };
static const hr_option quantile_options[] = { IGNORE_NULLS(1),
                                              { "q", HR_OPT_DOUBLE, offsetof(hr_aggregate_options, q), 0, 1, 0.5, NULL,
                                                "which quantile, from 0 to 1" },
                                              { 0 } };
static const hr_option quantiles_options[] = { IGNORE_NULLS(1),
                                               { "quantiles", HR_OPT_TEXT, offsetof(hr_aggregate_options, quantiles), 0,
                                                 0, 0, "0.5", "which quantiles, for example 0.1,0.5,0.9" },
                                               { 0 } };
static const hr_option by_options[] = {
    { "by", HR_OPT_TEXT, offsetof(hr_aggregate_options, by), 0, 0, 0, "", "the column that chooses the row" }, { 0 }
};
static const hr_option top_options[] = {
    IGNORE_NULLS(1), { "k", HR_OPT_INT, offsetof(hr_aggregate_options, k), 1, 1e9, 10, NULL, "number of values" }, { 0 }
};

const hr_agg_class hr__agg_values[] = {
    { "min", "least value", null_options, min_bind, NULL, NULL, NULL, extreme_shorten, only_values, false, false },
    { "max", "greatest value", null_options, max_bind, NULL, NULL, NULL, extreme_shorten, only_values, false, false },
    { "quantile", "the q-quantile of numbers", quantile_options, quantile_bind, NULL, NULL, NULL, NULL, quantile_finish,
      false, false },
    { "approx_quantile", "several quantiles, as a list", quantiles_options, quantiles_bind, NULL, NULL, NULL, NULL,
      quantiles_finish, false, false },
    { "unique", "distinct values, as a list in order of first occurrence", keep_options, unique_bind, NULL, NULL, NULL,
      distinct_shorten, distinct_shorten, true, false },
    { "count_distinct", "number of distinct values", null_options, count_distinct_bind, NULL, NULL, NULL,
      distinct_shorten, count_distinct_finish, true, false },
    { "value_counter", "distinct values and their counts", null_options, counter_bind, NULL, NULL, NULL, NULL,
      counter_finish, false, false },
    { "approx_topk", "the most frequent values with their counts", top_options, top_bind, NULL, NULL, NULL, NULL,
      top_finish, false, false },
    { "list", "all values", keep_options, list_bind, NULL, NULL, NULL, NULL, list_finish, false, false },
    { "first", "value of the first row", keep_options, end_bind, NULL, NULL, NULL, end_shorten, only_values, false,
      false },
    { "last", "value of the last row", keep_options, end_bind, NULL, NULL, NULL, end_shorten, only_values, false,
      false },
    { "arg_min", "value of the row where another column is least", by_options, at_extreme_bind, NULL, NULL, NULL,
      at_extreme_shorten, at_extreme_finish, false, true },
    { "arg_max", "value of the row where another column is greatest", by_options, at_extreme_bind, NULL, NULL, NULL,
      at_extreme_shorten, at_extreme_finish, false, true },
    { 0 },
};
