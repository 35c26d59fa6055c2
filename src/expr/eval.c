/* eval.c - evaluates a bound expression over a table by one loop over its nodes; helpers by which functions make
 * arrays.
 *
 * A value that no later node needs is freed at once, so that a long expression holds few arrays at a time. Evaluation
 * keeps no state between calls: one bound expression serves many threads. */
#include "expr/fn.h"

#include <inttypes.h>
#include <stdio.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---------------------------------------------------------------------------------------------------- making arrays */

const char *hr__eval_place(const hr_eval *how, int64_t row, char text[HR_PLACE_BYTES])
{
    hr_coord c;

    if (how->origin && row < hr__origin_rows(how->origin)) {
        c = hr__origin_at(how->origin, row);
        if (how->name_row)
            how->name_row(how->context, c, text, HR_PLACE_BYTES);
        else
            snprintf(text, HR_PLACE_BYTES, "row %" PRId64 " of fragment %d of file %d", c.row, (int)c.fragment,
                     (int)c.file);
    } else {
        snprintf(text, HR_PLACE_BYTES, "row %" PRId64, row);
    }
    return text;
}

hr_status hr__eval_array(hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *values, hr_buffer *more,
                         hr_array **out, hr_error *err)
{
    return hr__array_new(type, n, validity ? -1 : 0, (hr_buffer *const[]){ validity, values, more }, NULL, 0, out, err);
}

hr_status hr__eval_bits(const hr_eval *how, int64_t n, hr_buffer **out, hr_error *err)
{
    int64_t n_bytes = hr__bits_bytes(n);

    HR_TRY(hr__buffer_new(how->mem, HR_ROUND_UP(n_bytes, 8), out, err));
    (*out)->n_bytes = n_bytes;
    if (n_bytes)
        (*out)->data[n_bytes - 1] = 0;
    return HR_OK;
}

void hr__pack_bits(const uint8_t *bytes, int64_t n, uint8_t *bits)
{
    int64_t i = 0;

#ifdef __SSE2__
    for (; i + 16 <= n; i += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));
        uint16_t packed = (uint16_t)_mm_movemask_epi8(_mm_slli_epi16(v, 7));

        memcpy(bits + i / 8, &packed, sizeof packed);
    }
#endif
    for (; i < n; i += 8) {
        unsigned packed = 0;

        for (int k = 0; k < 8 && i + k < n; k++)
            packed |= (unsigned)(bytes[i + k] & 1) << k;
        bits[i / 8] = (uint8_t)packed;
    }
}

hr_status hr__aligned_bits(const hr_eval *how, const uint8_t *data, int64_t bit, int64_t n, const uint8_t **out,
                           uint8_t **copy, hr_error *err)
{
    *copy = NULL;
    *out = data + bit / 8;
    if (bit % 8 == 0 || n == 0)
        return HR_OK;
    if (!(*copy = hr__zalloc(how->mem->account, (size_t)hr__bits_bytes(n) + 8)))
        return hr__error_memory(err, "expression", hr__bits_bytes(n));
    hr__bits_copy(*copy, 0, data, bit, n);
    *out = *copy;
    return HR_OK;
}

/* --- which rows are valid */

static hr_status share_or_copy(const hr_eval *how, const hr_array *a, hr_buffer **out, hr_error *err)
{
    if (a->offset % 8 == 0)
        return hr__buffer_slice(a->buffers[0], a->offset / 8, hr__bits_bytes(how->n_rows), out, err);
    HR_TRY(hr__eval_bits(how, how->n_rows, out, err));
    hr__bits_copy((*out)->data, 0, a->buffers[0]->data, a->offset, how->n_rows);
    return HR_OK;
}

static hr_status and_validity(const hr_eval *how, const hr_array *a, hr_buffer *into, hr_error *err)
{
    const uint8_t *bits = NULL;
    uint8_t *copy = NULL;
    hr_status st = hr__aligned_bits(how, a->buffers[0]->data, a->offset, how->n_rows, &bits, &copy, err);

    for (int64_t i = 0; !st && i < hr__bits_bytes(how->n_rows); i++)
        into->data[i] &= bits[i];
    hr__free(copy);
    return st;
}

hr_status hr__eval_validity(const hr_eval *how, hr_array *const *args, int n_args, hr_buffer **out, bool *all_null,
                            hr_error *err)
{
    const hr_array *first = NULL;
    bool own = false;
    hr_status st = HR_OK;

    *out = NULL;
    *all_null = false;
    for (int i = 0; i < n_args && !st; i++) {
        const hr_array *a = args[i];

        if (a->type->id == HR_T_NULL || (a->length == 1 && hr__array_is_null(a, 0))) {
            *all_null = true; /* also true for a single row */
            break;
        }
        if (a->length != how->n_rows || !a->buffers[0] || hr__array_null_count(a) == 0)
            continue;
        if (!first) {
            first = a;
            st = share_or_copy(how, a, out, err);
            continue;
        }
        if (!own) {
            hr_buffer *mine = NULL;

            if ((st = hr__eval_bits(how, how->n_rows, &mine, err)))
                break;
            memcpy(mine->data, (*out)->data, (size_t)hr__bits_bytes(how->n_rows));
            hr__buffer_unref(*out);
            *out = mine;
            own = true;
        }
        st = and_validity(how, a, *out, err);
    }
    if (st || *all_null) {
        hr__buffer_unref(*out);
        *out = NULL;
    }
    return st;
}

/* ------------------------------------------------------------------------------------------------------- evaluation */

typedef struct evaluation {
    const hr_bound *b;
    hr_eval how;
    hr_array **values; /* the value of each node; NULL: none (a constant that no node needs expanded) */
    hr_array **args;   /* for one call */
} evaluation;

static int most_inputs(const hr_bound *b)
{
    int most = 0;

    for (int i = 0; i < b->n_nodes; i++)
        most = HR_MAX(most, b->nodes[i].call.n_inputs);
    return most;
}

static hr_status expand(evaluation *v, int at, hr_error *err)
{
    const hr_node *n = &v->b->nodes[at];

    if (n->kind != HR_NODE_CONSTANT || v->values[at])
        return HR_OK;
    return hr__constant_rows(v->how.mem, n->value, v->how.n_rows, &v->values[at], err);
}

static hr_status eval_call(evaluation *v, int at, hr_error *err)
{
    const hr_node *n = &v->b->nodes[at];
    const hr_array *made;

    for (int i = 0; i < n->call.n_inputs; i++) {
        int from = n->inputs[i];

        if (v->b->nodes[from].kind == HR_NODE_CONSTANT && n->function->takes_constants) {
            v->args[i] = v->b->nodes[from].value;
            continue;
        }
        HR_TRY(expand(v, from, err));
        v->args[i] = v->values[from];
    }
    HR_TRY(n->function->eval(&n->call, &v->how, v->args, &v->values[at], err));
    made = v->values[at];
    if (!made || made->length != v->how.n_rows || !hr__type_equal(made->type, n->type))
        return hr_error_set(err, HR_BUG, "%s: %" PRId64 " rows came out, expected %" PRId64, n->function->name,
                            made ? made->length : -1, v->how.n_rows);
    return HR_OK;
}

static void drop_used(evaluation *v, int at)
{
    const hr_node *n = &v->b->nodes[at];

    for (int i = 0; i < n->call.n_inputs; i++)
        if (v->b->nodes[n->inputs[i]].last_use <= at) {
            hr__array_unref(v->values[n->inputs[i]]);
            v->values[n->inputs[i]] = NULL;
        }
}

hr_status hr__bound_eval_all(const hr_bound *b, const hr_eval *how, const hr_table *t, hr_array **out, hr_error *err)
{
    evaluation v = { .b = b, .how = *how };
    hr_status st = HR_OK;

    v.how.n_rows = t->n_rows;
    v.how.origin = t->origin;
    memset(out, 0, (size_t)b->n_exprs * sizeof *out);
    v.values = hr__zalloc(how->mem->account, ((size_t)b->n_nodes + 1) * sizeof(hr_array *));
    v.args = hr__zalloc(how->mem->account, ((size_t)most_inputs(b) + 1) * sizeof(hr_array *));
    if (!v.values || !v.args)
        HR_GO(hr__error_memory(err, "expression", b->n_nodes * (int64_t)sizeof(hr_array *)));
    for (int i = 0; i < b->n_nodes; i++) {
        if (!b->nodes[i].used)
            continue;
        if (b->nodes[i].kind == HR_NODE_COLUMN)
            v.values[i] = hr__array_ref(t->columns[b->nodes[i].column]);
        if (b->nodes[i].kind == HR_NODE_CALL)
            HR_GO(eval_call(&v, i, err));
        drop_used(&v, i);
    }
    for (int i = 0; i < b->n_exprs; i++) {
        HR_GO(expand(&v, b->roots[i], err));
        out[i] = hr__array_ref(v.values[b->roots[i]]);
    }
done:
    for (int i = 0; v.values && i < b->n_nodes; i++)
        hr__array_unref(v.values[i]);
    for (int i = 0; st && i < b->n_exprs; i++) {
        hr__array_unref(out[i]);
        out[i] = NULL;
    }
    hr__free(v.values);
    hr__free(v.args);
    return st;
}

hr_status hr__bound_eval(const hr_bound *b, const hr_eval *how, const hr_table *t, hr_array **out, hr_error *err)
{
    return hr__bound_eval_all(b, how, t, out, err);
}

/* keep[i] = bit i of `bits`, and of `valid` if that is not NULL. -> the number of ones */
static int64_t spread_bits(const uint8_t *bits, const uint8_t *valid, int64_t n, uint8_t *keep)
{
    int64_t kept = 0, i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t byte = bits[i / 8] & (valid ? valid[i / 8] : 0xFF);
        uint64_t spread = ((byte & 0x7F) * UINT64_C(0x02040810204081)) & UINT64_C(0x0101010101010101);

        spread |= (byte & 0x80) << 49; /* eight copies, each one bit further; the last bit would collide */
        memcpy(keep + i, &spread, 8);
        kept += __builtin_popcountll(byte);
    }
    for (; i < n; i++)
        kept += keep[i] = (uint8_t)(hr__bit(bits, i) && (!valid || hr__bit(valid, i)));
    return kept;
}

hr_status hr__bound_keep(const hr_bound *b, const hr_eval *how, const hr_table *t, uint8_t *keep, int64_t *n_kept,
                         hr_error *err)
{
    hr_eval mine = *how;
    hr_array *a = NULL;
    const uint8_t *bits = NULL, *valid = NULL;
    uint8_t *bits_copy = NULL, *valid_copy = NULL;
    hr_status st = HR_OK;

    *n_kept = 0;
    mine.n_rows = t->n_rows;
    if (hr__bound_type(b)->id != HR_T_BOOL)
        HR_FAIL(HR_TYPE, "a filter is of type %s, expected bool", hr__type_format(hr__bound_type(b)));
    HR_GO(hr__bound_eval(b, how, t, &a, err));
    if (t->n_rows == 0)
        goto done;
    HR_GO(hr__aligned_bits(&mine, a->buffers[1]->data, a->offset, t->n_rows, &bits, &bits_copy, err));
    if (a->buffers[0] && hr__array_null_count(a))
        HR_GO(hr__aligned_bits(&mine, a->buffers[0]->data, a->offset, t->n_rows, &valid, &valid_copy, err));
    *n_kept = spread_bits(bits, valid, t->n_rows, keep);
done:
    hr__array_unref(a);
    hr__free(bits_copy);
    hr__free(valid_copy);
    return st;
}
