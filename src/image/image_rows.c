/* image_rows.c - builds a column of ragged tensors from images of different sizes.
 *
 * Tests: test_tar.c, test_image_rule.c. */
#include "image/image_chain.h"

/* A row without values ends where the row before it ends. */
static const int32_t zeros[3];

void hr__image_rows_begin(hr_image_rows *r, const hr_mem *mem, const hr_type *type)
{
    *r = (hr_image_rows){ { mem, NULL }, { mem, NULL }, { mem, NULL }, type };
}

void hr__image_rows_clear(hr_image_rows *r)
{
    hr__growbuf_clear(&r->values);
    hr__growbuf_clear(&r->ends);
    hr__growbuf_clear(&r->shapes);
}

static hr_status add_end(hr_image_rows *r, int64_t end, const int32_t shape[3], hr_error *err)
{
    int32_t end32 = (int32_t)end;

    if (!r->ends.buffer)
        HR_TRY(hr__growbuf_add(&r->ends, zeros, 4, err));
    HR_TRY(hr__growbuf_add(&r->ends, &end32, 4, err));
    return hr__growbuf_add(&r->shapes, shape, 3 * sizeof *shape, err);
}

int64_t hr__image_rows_bytes(const hr_image_rows *r) { return r->values.buffer ? r->values.buffer->n_bytes : 0; }

hr_status hr__image_rows_add(hr_image_rows *r, const hr_image_plan *p, hr_account *scratch, hr_error *err)
{
    int64_t value_bytes = hr__type_bytes(r->type->children[0].type->children[0].type);
    bool planar = p->normalize && p->normalize->planar;
    int32_t hwc[3] = { (int32_t)p->h, (int32_t)p->w, p->channels },
            chw[3] = { p->channels, (int32_t)p->h, (int32_t)p->w };
    int64_t at = hr__image_rows_bytes(r), end = (at + p->n_bytes) / value_bytes;

    if (end > INT32_MAX)
        return hr_error_set(err, HR_BUDGET, "the images of a table have more than 2 Gi values");
    HR_TRY(hr__growbuf_reserve(&r->values, p->n_bytes, err));
    HR_TRY(hr__image_plan_run(p, scratch, r->values.buffer->data + at, err));
    r->values.buffer->n_bytes = at + p->n_bytes;
    return add_end(r, end, planar ? chw : hwc, err);
}

hr_status hr__image_rows_add_null(hr_image_rows *r, hr_error *err)
{
    int64_t value_bytes = hr__type_bytes(r->type->children[0].type->children[0].type);

    return add_end(r, hr__image_rows_bytes(r) / value_bytes, zeros, err);
}

hr_status hr__image_rows_finish(hr_image_rows *r, int64_t n, hr_buffer *takes_validity, hr_array **out, hr_error *err)
{
    hr_type *type = (hr_type *)r->type;
    const hr_type *data = type->children[0].type, *shape = type->children[1].type;
    hr_buffer *b[3] = { NULL, NULL, NULL }, *validity = takes_validity;
    hr_array *parts[2] = { NULL, NULL }, *inner = NULL;
    hr_status st = HR_OK;

    if (!r->ends.buffer)
        HR_GO(hr__growbuf_add(&r->ends, zeros, 4, err));
    HR_GO(hr__growbuf_finish(&r->values, &b[1], err));
    st = hr__array_new(data->children[0].type, b[1]->n_bytes / hr__type_bytes(data->children[0].type), 0, b, NULL, 0,
                       &inner, err);
    HR_GO(st);
    HR_GO(hr__growbuf_finish(&r->ends, &b[1], err));
    st = hr__array_new(type->children[0].type, n, 0, b, &inner, 1, &parts[0], err);
    inner = NULL;
    HR_GO(st);
    HR_GO(hr__growbuf_finish(&r->shapes, &b[1], err));
    HR_GO(hr__array_new(shape->children[0].type, n * 3, 0, b, NULL, 0, &inner, err));
    st = hr__array_new(type->children[1].type, n, 0, (hr_buffer *[3]){ NULL, NULL, NULL }, &inner, 1, &parts[1], err);
    inner = NULL;
    HR_GO(st);
    return hr__array_new(type, n, validity ? -1 : 0, (hr_buffer *[3]){ validity, NULL, NULL }, parts, 2, out, err);
done:
    hr__buffer_unref(validity);
    hr__array_unref(inner);
    hr__array_unref(parts[0]);
    hr__array_unref(parts[1]);
    return st;
}
