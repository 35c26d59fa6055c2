/* text_rows.c - reads and writes columns of text row by row.
 *
 * Functions see only valid rows; a null row is an empty text in the result. The result has offsets of the column's
 * width; a result above 2 GiB with 32-bit offsets is an error.
 *
 * Tests: test_eval.c, test_fn_search.c. */
#include "expr/fn/text_rows.h"

#include <inttypes.h>

enum { BLOCK = 1024 };

hr_rows hr__rows_of(const hr_array *a)
{
    static const uint8_t none[8];
    static const int64_t zero[2];
    const uint8_t *offsets = a->buffers[1] ? a->buffers[1]->data : (const uint8_t *)zero;
    hr_rows r = { .bytes = a->buffers[2] && a->buffers[2]->data ? a->buffers[2]->data : none };

    if (hr__type_is_large(a->type))
        r.at64 = (const int64_t *)(const void *)offsets + (a->buffers[1] ? a->offset : 0);
    else
        r.at32 = (const int32_t *)(const void *)offsets + (a->buffers[1] ? a->offset : 0);
    return r;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

hr_status hr__writer_open(hr_writer *w, const hr_eval *how, hr_type *type, int64_t n_rows, int64_t n_bytes,
                          hr_error *err)
{
    *w = (hr_writer){ .how = how, .type = type, .room = n_rows, .wide = hr__type_is_large(type) };
    w->bytes.mem = how->mem;
    HR_TRY(hr__buffer_new(how->mem, (n_rows + 1) * (w->wide ? 8 : 4), &w->offsets, err));
    memset(w->offsets->data, 0, w->wide ? 8 : 4);
    return hr__growbuf_reserve(&w->bytes, n_bytes, err);
}

/* Makes room for a row of a list, whose items were not counted before. */
static hr_status more_offsets(hr_writer *w, hr_error *err)
{
    int64_t bytes = w->wide ? 8 : 4, room = w->room * 2 + 16;
    hr_buffer *more = NULL;

    HR_TRY(hr__buffer_new(w->how->mem, (room + 1) * bytes, &more, err));
    memcpy(more->data, w->offsets->data, (size_t)((w->rows + 1) * bytes));
    hr__buffer_unref(w->offsets);
    w->offsets = more;
    w->room = room;
    return HR_OK;
}

hr_status hr__writer_end_row(hr_writer *w, hr_error *err)
{
    int64_t at = w->bytes.buffer->n_bytes;

    if (w->rows == w->room)
        HR_TRY(more_offsets(w, err));
    w->rows++;
    if (w->wide)
        ((int64_t *)(void *)w->offsets->data)[w->rows] = at;
    else if (at <= INT32_MAX)
        ((int32_t *)(void *)w->offsets->data)[w->rows] = (int32_t)at;
    else
        return hr_error_set(err, HR_BAD_DATA,
                            "more than 2 GiB of text in one column of 32-bit offsets; cast to a large type first");
    return HR_OK;
}

hr_status hr__writer_finish(hr_writer *w, hr_buffer *validity, hr_array **out, hr_error *err)
{
    hr_buffer *bytes = NULL, *offsets = w->offsets;
    hr_status st = hr__growbuf_finish(&w->bytes, &bytes, err);

    *out = NULL;
    if (st) {
        hr__buffer_unref(validity);
        return st;
    }
    w->offsets = NULL;
    hr__buffer_shrink(offsets, (w->rows + 1) * (w->wide ? 8 : 4));
    return hr__eval_array(w->type, w->rows, validity, offsets, bytes, out, err);
}

void hr__writer_clear(hr_writer *w)
{
    hr__growbuf_clear(&w->bytes);
    hr__buffer_unref(w->offsets);
    w->offsets = NULL;
}

/* -------------------------------------------------------------------------------------------------------- arguments */

hr_status hr__bind_text(hr_bound_call *call, bool binary, hr_error *err)
{
    const hr_type *t = call->input_types[0];

    if (t->id == HR_T_NULL)
        hr__call_cast(call, 0, hr__type_simple(HR_T_STRING));
    else if (!hr__type_is_text(t) && !(binary && hr__type_is_bytes(t)))
        return hr__call_type_error(
            call, binary ? "expected text or binary as the first argument" : "expected text as the first argument",
            err);
    return HR_OK;
}

hr_status hr__constant_text(const hr_bound_call *call, int i, const char *name, hr_view *out, hr_error *err)
{
    const hr_array *a = call->constants[i];
    bool text = call->input_types[0]->id == HR_T_NULL || hr__type_is_text(call->input_types[0]);

    if (!a || hr__array_is_null(a, 0) || !(text ? hr__type_is_text(a->type) : hr__type_is_bytes(a->type)))
        return hr_error_set(err, a ? HR_TYPE : HR_INVALID, "%s: expected a constant text for %s",
                            call->expr->function->name, name);
    out->data = hr__array_bytes(a, 0, &out->n);
    if (!out->n)
        out->data = (const uint8_t *)"";
    return HR_OK;
}

hr_type *hr__length_type(const hr_type *text)
{
    return hr__type_simple(hr__type_is_large(text) ? HR_T_INT64 : HR_T_INT32);
}

hr_status hr__list_of_text(const hr_type *text, hr_type **out, hr_error *err)
{
    hr_field item = { .name = (char *)(uintptr_t)"item",
                      .type = hr__type_simple(text->id == HR_T_NULL ? HR_T_STRING : text->id),
                      .nullable = true };

    return hr__type_list(HR_T_LIST, &item, 0, out, err);
}

/* ---------------------------------------------------------------------------------------------------------- mapping */

hr_status hr__at_row(const hr_eval *how, int64_t row, hr_status st, hr_error *err)
{
    char place[HR_PLACE_BYTES];

    return st == HR_NO_MEMORY ? st : hr__error_at(err, st, "%s", hr__eval_place(how, row, place));
}

hr_status hr__map_text(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_text *fn,
                       void *context, int64_t grow, hr_array **out, hr_error *err)
{
    hr_rows rows = hr__rows_of(a);
    hr_buffer *validity = NULL;
    hr_writer w = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__writer_open(&w, how, call->type, how->n_rows, hr__rows_all(&rows, how->n_rows).n + grow, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t n;
        const uint8_t *p = hr__row(&rows, i, &n);

        if (hr__is_valid(validity, i) && (st = fn(context, p, n, &w, err))) {
            st = hr__at_row(how, i, st, err);
            goto done;
        }
        HR_GO(hr__writer_end_row(&w, err));
    }
    st = hr__writer_finish(&w, validity, out, err);
    validity = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__writer_clear(&w);
    return st;
}

hr_status hr__map_bool(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_bool *fn,
                       void *context, hr_array **out, hr_error *err)
{
    hr_rows rows = hr__rows_of(a);
    hr_buffer *validity = NULL, *bits = NULL;
    uint8_t block[BLOCK];
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__eval_bits(how, how->n_rows, &bits, err));
    for (int64_t i = 0; i < how->n_rows; i += BLOCK) {
        int64_t m = HR_MIN(BLOCK, how->n_rows - i), n;

        for (int64_t k = 0; k < m; k++) {
            const uint8_t *p = hr__row(&rows, i + k, &n);

            block[k] = hr__is_valid(validity, i + k) && fn(context, p, n);
        }
        hr__pack_bits(block, m, bits->data + i / 8);
    }
    st = hr__eval_array(call->type, how->n_rows, validity, bits, NULL, out, err);
    validity = bits = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(bits);
    return st;
}

hr_status hr__map_int(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_int *fn,
                      void *context, hr_array **out, hr_error *err)
{
    hr_rows rows = hr__rows_of(a);
    hr_buffer *validity = NULL, *made = NULL;
    const int bytes = hr__type_bytes(call->type);
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__buffer_new(how->mem, how->n_rows * bytes, &made, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t n, v;
        const uint8_t *p = hr__row(&rows, i, &n);

        v = hr__is_valid(validity, i) ? fn(context, p, n) : 0;
        hr__put_int(made, bytes, i, v);
    }
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

hr_status hr__map_list(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_text *fn,
                       void *context, hr_array **out, hr_error *err)
{
    hr_rows rows = hr__rows_of(a);
    hr_buffer *validity = NULL, *offsets = NULL;
    hr_array *items = NULL;
    hr_writer w = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__buffer_new(how->mem, (how->n_rows + 1) * 4, &offsets, err));
    HR_GO(hr__writer_open(&w, how, call->type->children[0].type, how->n_rows, hr__rows_all(&rows, how->n_rows).n, err));
    for (int64_t i = 0; i <= how->n_rows; i++) {
        int64_t n;
        const uint8_t *p;

        if (w.rows > INT32_MAX)
            HR_FAIL(HR_BAD_DATA, "%s: more than 2^31 items in one column", call->expr->function->name);
        ((int32_t *)(void *)offsets->data)[i] = (int32_t)w.rows;
        if (i == how->n_rows || !hr__is_valid(validity, i))
            continue;
        p = hr__row(&rows, i, &n);
        if ((st = fn(context, p, n, &w, err))) {
            st = hr__at_row(how, i, st, err);
            goto done;
        }
    }
    HR_GO(hr__writer_finish(&w, NULL, &items, err));
    st = hr__array_new(call->type, how->n_rows, validity ? -1 : 0, (hr_buffer *const[]){ validity, offsets, NULL },
                       (hr_array *[]){ items }, 1, out, err);
    validity = offsets = NULL; /* taken */
    items = NULL;
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(offsets);
    hr__array_unref(items);
    hr__writer_clear(&w);
    return st;
}
