/* aggregate_own.c - a user's aggregates: callbacks over states of fixed size, with rows as tables. */
#include "op/group/aggregate.h"

#include "op/operators.h"

struct hr_own_aggregate {
    atomic_int refs;
    hr_aggregate_function fn; /* owns its context */
    char *name;
    hr_type *result;
};

hr_own_aggregate *hr__own_ref(hr_own_aggregate *o)
{
    atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void hr__own_unref(hr_own_aggregate *o)
{
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (o->fn.context_free)
        o->fn.context_free(o->fn.context);
    hr__type_unref(o->result);
    hr__free(o->name);
    hr__free(o);
}

const char *hr__own_name(const hr_own_aggregate *o) { return o->name; }

static hr_status check(const char *name, const hr_aggregate_function *fn, hr_error *err)
{
    if (!fn->update || !fn->merge || !fn->result || !fn->result_type)
        return hr_error_set(err, HR_INVALID, "%s: an own aggregate needs update, merge, result and result_type", name);
    if (fn->state_bytes < 1 || fn->state_bytes > HR_OWN_STATE_MOST)
        return hr_error_set(err, HR_INVALID, "%s: states of %d bytes; expected 1 to %d", name, fn->state_bytes,
                            HR_OWN_STATE_MOST);
    return HR_OK;
}

hr_status hr__own_new(const char *name, const hr_aggregate_function *fn, hr_own_aggregate **out, hr_error *err)
{
    hr_own_aggregate *o = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    name = name ? name : "aggregate";
    HR_TRY(check(name, fn, err));
    if (!(o = hr__zalloc(NULL, sizeof *o)) || !(o->name = hr__strdup(NULL, name)))
        HR_GO(hr__error_memory(err, name, sizeof *o));
    atomic_init(&o->refs, 1);
    HR_GO(hr__type_parse(fn->result_type, &o->result, err));
    if (!hr__type_bytes(o->result))
        HR_FAIL(HR_TYPE, "%s: result_type is %s; expected a type of fixed width (numbers, times, decimals)", name,
                fn->result_type);
    o->fn = *fn;
    *out = o;
    o = NULL;
done:
    if (o) {
        hr__type_unref(o->result);
        hr__free(o->name);
        hr__free(o);
    }
    return st;
}

static hr_status own_bind(hr_agg *a, hr_error *err)
{
    (void)err;
    a->state_bytes = a->own->fn.state_bytes;
    a->result = hr__type_ref(a->own->result);
    return HR_OK;
}

/* The table of the one column, or of all columns. */
static hr_status rows_of(const hr_table *t, int column, hr_table **out, hr_error *err)
{
    hr_schema *schema = NULL;
    hr_array *one = NULL;
    hr_status st;

    if (column < 0) {
        *out = hr_table_ref((hr_table *)t);
        return HR_OK;
    }
    HR_TRY(hr__schema_new(&t->schema->fields[column], 1, &schema, err));
    one = hr__array_ref(t->columns[column]);
    st = hr__table_new(schema, &one, t->n_rows, NULL, out, err);
    hr__schema_unref(schema);
    return st;
}

hr_status hr__own_update(const hr_agg *a, const hr_table *t, int column, const uint32_t *ids, void *states,
                         hr_error *err)
{
    const hr_aggregate_function *fn = &a->own->fn;
    hr_table *rows = NULL;
    hr_status st;

    HR_TRY(rows_of(t, column, &rows, err));
    st = fn->update(fn->context, rows, ids, states, err);
    hr_table_unref(rows);
    return st ? hr__function_failed(a->own->name, st, err) : HR_OK;
}

hr_status hr__own_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states, hr_error *err)
{
    const hr_aggregate_function *fn = &a->own->fn;
    hr_status st = fn->merge(fn->context, from, n, ids, states, err);

    return st ? hr__function_failed(a->own->name, st, err) : HR_OK;
}

/* A bitmap: bit i is set if byte i is not 0. *out NULL: all bits would be set. */
static hr_status bitmap_of(const uint8_t *valid, int64_t n, const hr_mem *mem, hr_buffer **out, hr_error *err)
{
    *out = NULL;
    if (!memchr(valid, 0, (size_t)n))
        return HR_OK;
    HR_TRY(hr__buffer_new(mem, hr__bits_bytes(n), out, err));
    memset((*out)->data, 0, (size_t)hr__bits_bytes(n));
    for (int64_t i = 0; i < n; i++)
        if (valid[i])
            hr__bit_set((*out)->data, i);
    return HR_OK;
}

static hr_status own_result(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                            hr_error *err)
{
    const hr_aggregate_function *fn = &a->own->fn;
    int64_t bytes = hr__type_bytes(a->result);
    hr_buffer *buffers[3] = { 0 };
    uint8_t *valid = hr__alloc(mem->account, (size_t)n + 1);
    hr_status st = HR_OK;

    if (!valid)
        HR_GO(hr__error_memory(err, a->own->name, n));
    memset(valid, 1, (size_t)n);
    HR_GO(hr__buffer_new(mem, n * bytes, &buffers[1], err));
    memset(buffers[1]->data, 0, (size_t)(n * bytes)); /* the values of nulls */
    if ((st = fn->result(fn->context, states, n, buffers[1]->data, valid, err))) {
        st = hr__function_failed(a->own->name, st, err);
        goto done;
    }
    HR_GO(bitmap_of(valid, n, mem, &buffers[0], err));
    st = hr__array_new(a->result, n, buffers[0] ? -1 : 0, buffers, NULL, 0, out, err);
    buffers[0] = buffers[1] = NULL;
done:
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    hr__free(valid);
    return st;
}

const hr_agg_class hr__agg_own = { .name = "own", .bind = own_bind, .result = own_result };
