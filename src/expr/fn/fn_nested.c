/* fn_nested.c - functions of lists, structs, maps and tensors: their parts, and new lists.
 *
 * A part shares memory with its column where possible: a struct's field, a map's keys. Functions that pick items
 * (slices, sorting) make a list of their positions and take those. A null list gives a null; a missing item is null.
 * Fixed-size lists and tensors of one dimension count as lists here. */
#include "expr/fn.h"

#include <inttypes.h>

/* ---------------------------------------------------------------------------------------------------------- binding */

static bool is_list(const hr_type *t)
{
    return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || t->id == HR_T_FIXED_LIST ||
           (t->id == HR_T_TENSOR && t->n_dims == 1);
}

/* HR_TYPE unless input 0 is a list. *null: the input is always null, and so is the result. */
static hr_status bind_list(hr_bound_call *call, bool *null, hr_error *err)
{
    hr_type *t = call->input_types[0];

    *null = t->id == HR_T_NULL;
    if (*null)
        call->type = hr__type_ref(t);
    else if (!is_list(t))
        return hr__call_type_error(call, "expected a list", err);
    return HR_OK;
}

static hr_status all_nulls(const hr_bound_call *call, const hr_eval *how, hr_array **out, hr_error *err)
{
    return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
}

/* The range of items of row i; empty for a null row. */
static void items_of(const hr_array *a, int64_t i, int64_t *begin, int64_t *n)
{
    hr__array_range(a, i, begin, n);
    if (hr__array_is_null(a, i))
        *n = 0;
}

/* -------------------------------------------------------------------------------------------- lists of picked items */

typedef struct picking {
    const hr_eval *how;
    int64_t *picked; /* positions in the items */
    int64_t n, cap;
    hr_buffer *offsets;
    bool wide;
} picking;

static hr_status picking_open(picking *p, const hr_eval *how, const hr_type *type, hr_error *err)
{
    *p = (picking){ .how = how, .wide = type->id == HR_T_LARGE_LIST };
    return hr__buffer_new(how->mem, (how->n_rows + 1) * (p->wide ? 8 : 4), &p->offsets, err);
}

static hr_status picking_room(picking *p, int64_t n, hr_error *err)
{
    if (!hr__grow(p->how->mem->account, (void **)&p->picked, &p->cap, p->n + n, sizeof *p->picked))
        return hr__error_memory(err, "list", (p->n + n) * (int64_t)sizeof *p->picked);
    return HR_OK;
}

static void picking_row(picking *p, int64_t i)
{
    if (p->wide)
        ((int64_t *)(void *)p->offsets->data)[i] = p->n;
    else
        ((int32_t *)(void *)p->offsets->data)[i] = (int32_t)p->n; /* never more than before */
}

static void picking_clear(picking *p)
{
    hr__free(p->picked);
    hr__buffer_unref(p->offsets);
}

/* Makes the lists; rows that are null in `a` stay null. */
static hr_status picking_finish(picking *p, hr_type *type, const hr_array *a, hr_array **out, hr_error *err)
{
    hr_array *items = NULL;
    hr_buffer *validity = NULL;
    hr_status st = HR_OK;
    bool all_null;

    HR_GO(hr__array_take(p->how->mem, a->children[0], p->picked ? p->picked : (int64_t[]){ 0 }, 8, p->n, &items, err));
    HR_GO(hr__eval_validity(p->how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null) {
        st = hr__array_nulls(p->how->mem, type, p->how->n_rows, out, err);
        goto done;
    }
    st = hr__array_new(type, p->how->n_rows, validity ? -1 : 0,
                       (hr_buffer *const[]){ validity, hr__type_is_fixed_list(type) ? NULL : p->offsets, NULL },
                       (hr_array *[]){ items }, 1, out, err);
    if (!hr__type_is_fixed_list(type))
        p->offsets = NULL; /* taken */
    items = NULL;
    validity = NULL;
done:
    hr__array_unref(items);
    hr__buffer_unref(validity);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- list_len */

static hr_status list_len_bind(hr_bound_call *call, hr_error *err)
{
    bool null;

    if (call->input_types[0]->id == HR_T_MAP) {
        call->type = hr__type_simple(HR_T_INT32);
        return HR_OK;
    }
    HR_TRY(bind_list(call, &null, err));
    if (!null)
        call->type = hr__type_simple(call->input_types[0]->id == HR_T_LARGE_LIST ? HR_T_INT64 : HR_T_INT32);
    return HR_OK;
}

static hr_status list_len_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                               hr_error *err)
{
    const int bytes = hr__type_bytes(call->type);
    hr_buffer *validity = NULL, *made = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null || call->type->id == HR_T_NULL)
        return all_nulls(call, how, out, err);
    HR_GO(hr__buffer_new(how->mem, how->n_rows * bytes, &made, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t begin, n;

        items_of(args[0], i, &begin, &n);
        if (bytes == 4)
            ((int32_t *)(void *)made->data)[i] = (int32_t)n;
        else
            ((int64_t *)(void *)made->data)[i] = n;
    }
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- list_get */

typedef struct get_options {
    int64_t index;
} get_options;

static const hr_option get_settings[] = {
    { .name = "index",
      .kind = HR_OPT_INT,
      .at = offsetof(get_options, index),
      .doc = "from 0; from the end if negative" },
    { 0 },
};

static hr_status list_get_bind(hr_bound_call *call, hr_error *err)
{
    bool null;

    HR_TRY(bind_list(call, &null, err));
    if (!null)
        call->type = hr__type_ref(call->input_types[0]->children[0].type);
    return HR_OK;
}

static hr_status list_get_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                               hr_error *err)
{
    int64_t index = ((const get_options *)call->expr->options)->index;
    int64_t *picked;
    hr_status st;

    *out = NULL;
    if (call->input_types[0]->id == HR_T_NULL)
        return all_nulls(call, how, out, err);
    if (!(picked = hr__alloc(how->mem->account, ((size_t)how->n_rows + 1) * sizeof *picked)))
        return hr__error_memory(err, "list_get", how->n_rows * (int64_t)sizeof *picked);
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t begin, n, at;

        items_of(args[0], i, &begin, &n);
        at = index < 0 ? (index < -n ? -1 : index + n) : index;
        picked[i] = at >= 0 && at < n ? begin + at : -1;
    }
    st = hr__array_take(how->mem, args[0]->children[0], picked, 8, how->n_rows, out, err);
    hr__free(picked);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- list_slice */

typedef struct slice_options {
    int64_t start, stop, step;
} slice_options;

#define NO_BOUND INT64_MIN
static const hr_option slice_settings[] = {
    { .name = "start",
      .kind = HR_OPT_INT,
      .at = offsetof(slice_options, start),
      .value = (double)NO_BOUND,
      .doc = "the first item; from the end if negative; the least integer: from the beginning" },
    { .name = "stop",
      .kind = HR_OPT_INT,
      .at = offsetof(slice_options, stop),
      .value = (double)NO_BOUND,
      .doc = "the first item that is not taken; the least integer: none" },
    { .name = "step",
      .kind = HR_OPT_INT,
      .at = offsetof(slice_options, step),
      .value = 1,
      .doc = "distance between items" },
    { 0 },
};

/* Python's slice of n items: the first one, and the number. */
static int64_t slice_of(const slice_options *o, int64_t n, int64_t *first)
{
    int64_t low = o->step < 0 ? -1 : 0, high = o->step < 0 ? n - 1 : n, start, stop;

    if (o->start == NO_BOUND)
        start = o->step < 0 ? n - 1 : 0;
    else
        start = o->start < 0 ? HR_MAX(o->start + n, low) : HR_MIN(o->start, high);
    if (o->stop == NO_BOUND)
        stop = o->step < 0 ? -1 : n;
    else
        stop = o->stop < 0 ? HR_MAX(o->stop + n, low) : HR_MIN(o->stop, high);
    *first = start;
    if (o->step > 0)
        return start < stop ? (stop - start - 1) / o->step + 1 : 0;
    return start > stop ? (start - stop - 1) / -o->step + 1 : 0;
}

static hr_status list_slice_bind(hr_bound_call *call, hr_error *err)
{
    const slice_options *o = call->expr->options;
    const hr_type *t = call->input_types[0];
    int64_t first;
    bool null;

    HR_TRY(bind_list(call, &null, err));
    if (o->step == 0 || o->step == INT64_MIN)
        return hr_error_set(err, HR_INVALID, "list_slice: step is %" PRId64, o->step);
    if (null)
        return HR_OK;
    if (hr__type_is_fixed_list(t))
        return hr__type_list(HR_T_FIXED_LIST, &t->children[0], (int32_t)slice_of(o, t->width, &first), &call->type,
                             err);
    call->type = hr__type_ref(call->input_types[0]);
    return HR_OK;
}

static hr_status list_slice_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                 hr_error *err)
{
    const slice_options *o = call->expr->options;
    const hr_array *a = args[0];
    picking p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (call->type->id == HR_T_NULL)
        return all_nulls(call, how, out, err);
    HR_GO(picking_open(&p, how, call->type, err));
    picking_row(&p, 0);
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t begin, n, first, count;

        if (hr__type_is_fixed_list(a->type))
            hr__array_range(a, i, &begin, &n); /* null rows have items, too */
        else
            items_of(a, i, &begin, &n);
        count = slice_of(o, n, &first);
        HR_GO(picking_room(&p, count, err));
        for (int64_t k = 0; k < count; k++)
            p.picked[p.n++] = begin + first + k * o->step;
        picking_row(&p, i + 1);
    }
    st = picking_finish(&p, call->type, a, out, err);
done:
    picking_clear(&p);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- list_sort */

typedef struct sort_options {
    bool descending, nulls_first;
} sort_options;

static const hr_option sort_settings[] = {
    { .name = "descending",
      .kind = HR_OPT_BOOL,
      .at = offsetof(sort_options, descending),
      .doc = "the greatest first" },
    { .name = "nulls_first",
      .kind = HR_OPT_BOOL,
      .at = offsetof(sort_options, nulls_first),
      .doc = "nulls, then NaN, come first, not last" },
    { 0 },
};

static hr_status list_sort_bind(hr_bound_call *call, hr_error *err)
{
    hr_comparing *c = NULL;
    hr_type *item, *types[2], *casts[2] = { NULL, NULL };
    const hr_array *constants[2] = { NULL, NULL };
    bool weak[2] = { false, false }, null;
    hr_bound_call pair = { .expr = call->expr,
                           .n_inputs = 2,
                           .input_types = types,
                           .casts = casts,
                           .constants = constants,
                           .weak = weak,
                           .schema = call->schema };
    hr_status st;

    HR_TRY(bind_list(call, &null, err));
    if (null)
        return HR_OK;
    item = call->input_types[0]->children[0].type;
    types[0] = types[1] = item;
    call->type = hr__type_ref(call->input_types[0]);
    if (item->id == HR_T_FLOAT16)
        return hr__call_type_error(call, "expected items that compare, and halves do not; a cast may help", err);
    st = hr__comparing_bind(&pair, 0, 1, &c, err);
    call->state = c;
    return st;
}

typedef struct sorting {
    const hr_comparing *c;
    const hr_array *items;
    const sort_options *o;
    bool floats;
} sorting;

/* 0: a value, 1: NaN, 2: null. */
static int class_of(const sorting *s, int64_t i)
{
    if (hr__array_is_null(s->items, i))
        return 2;
    return s->floats && !hr__comparing_one(s->c, HR_EQUAL, s->items, i, s->items, i);
}

static bool before(const sorting *s, int64_t i, int64_t k)
{
    int a = class_of(s, i), b = class_of(s, k);

    if (a || b)
        return s->o->nulls_first ? a > b : a < b;
    return hr__comparing_one(s->c, s->o->descending ? HR_GREATER : HR_LESS, s->items, i, s->items, k);
}

/* Merge sort, so that equal items keep their order; `spare` has room for n. */
static void sort_items(const sorting *s, int64_t *p, int64_t n, int64_t *spare)
{
    int64_t half = n / 2, i = 0, k = half;

    if (n <= 8) {
        for (int64_t a = 1; a < n; a++)
            for (int64_t b = a; b > 0 && before(s, p[b], p[b - 1]); b--) {
                int64_t v = p[b];

                p[b] = p[b - 1];
                p[b - 1] = v;
            }
        return;
    }
    sort_items(s, p, half, spare);
    sort_items(s, p + half, n - half, spare);
    memcpy(spare, p, (size_t)half * sizeof *p);
    for (int64_t at = 0; i < half; at++)
        p[at] = k < n && before(s, p[k], spare[i]) ? p[k++] : spare[i++];
}

static hr_status list_sort_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                hr_error *err)
{
    const hr_array *a = args[0];
    sorting s = { .c = call->state, .o = call->expr->options };
    int64_t *spare = NULL, cap = 0;
    picking p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (call->type->id == HR_T_NULL)
        return all_nulls(call, how, out, err);
    s.items = a->children[0];
    s.floats = hr__type_is_float(s.items->type);
    HR_GO(picking_open(&p, how, call->type, err));
    picking_row(&p, 0);
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t begin, n;

        if (hr__type_is_fixed_list(a->type))
            hr__array_range(a, i, &begin, &n);
        else
            items_of(a, i, &begin, &n);
        HR_GO(picking_room(&p, n, err));
        if (!hr__grow(how->mem->account, (void **)&spare, &cap, n / 2 + 1, sizeof *spare))
            HR_GO(hr__error_memory(err, "list_sort", n * (int64_t)sizeof *spare));
        for (int64_t k = 0; k < n; k++)
            p.picked[p.n + k] = begin + k;
        if (n > 0 && s.items->type->id != HR_T_NULL)
            sort_items(&s, p.picked + p.n, n, spare);
        p.n += n;
        picking_row(&p, i + 1);
    }
    st = picking_finish(&p, call->type, a, out, err);
done:
    hr__free(spare);
    picking_clear(&p);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- list_flatten */

static hr_status list_flatten_bind(hr_bound_call *call, hr_error *err)
{
    const hr_type *t = call->input_types[0];
    bool null;

    HR_TRY(bind_list(call, &null, err));
    if (null)
        return HR_OK;
    if (!is_list(t->children[0].type))
        return hr__call_type_error(call, "expected a list of lists", err);
    return hr__type_list(t->id == HR_T_LARGE_LIST ? HR_T_LARGE_LIST : HR_T_LIST, &t->children[0].type->children[0], 0,
                         &call->type, err);
}

static hr_status list_flatten_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                   hr_error *err)
{
    const hr_array *a = args[0], *inner;
    hr_array shell;
    picking p = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (call->type->id == HR_T_NULL)
        return all_nulls(call, how, out, err);
    inner = a->children[0];
    HR_GO(picking_open(&p, how, call->type, err));
    picking_row(&p, 0);
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t begin, n, first, m;

        items_of(a, i, &begin, &n);
        for (int64_t k = 0; k < n; k++) {
            items_of(inner, begin + k, &first, &m);
            HR_GO(picking_room(&p, m, err));
            for (int64_t j = 0; j < m; j++)
                p.picked[p.n++] = first + j;
        }
        if (!p.wide && p.n > INT32_MAX)
            HR_FAIL(HR_BAD_DATA, "list_flatten: more than 2^31 items in one column; cast to large_list first");
        picking_row(&p, i + 1);
    }
    shell = *a; /* its rows have the inner list's items; a view only */
    shell.children = inner->children;
    st = picking_finish(&p, call->type, &shell, out, err);
done:
    picking_clear(&p);
    return st;
}

/* ------------------------------------------------------------------------------------------------------ arr_to_list */

/* The values of a tensor or fixed list as lists, from dimension `dim` on. *out is new. */
static hr_status list_type_of(const hr_type *t, int dim, hr_type **out, hr_error *err)
{
    hr_field item = t->children[0];
    hr_status st;

    if (t->id != HR_T_TENSOR || dim + 1 >= t->n_dims) /* a tensor without dimensions is one value */
        return hr__type_list(HR_T_LIST, &item, 0, out, err);
    item.metadata = NULL;
    item.metadata_bytes = 0;
    HR_TRY(list_type_of(t, dim + 1, &item.type, err));
    st = hr__type_list(HR_T_LIST, &item, 0, out, err);
    hr__type_unref(item.type);
    return st;
}

static hr_status arr_to_list_bind(hr_bound_call *call, hr_error *err)
{
    hr_type *t = call->input_types[0];

    if (hr__type_is_fixed_list(t))
        return list_type_of(t, 0, &call->type, err);
    if (t->id != HR_T_LIST && t->id != HR_T_LARGE_LIST && t->id != HR_T_NULL)
        return hr__call_type_error(call, "expected a fixed-size list, a tensor or a list", err);
    call->type = hr__type_ref(t);
    return HR_OK;
}

/* n lists of `width` items each. Takes items and validity. */
static hr_status even_lists(const hr_eval *how, hr_type *type, int64_t n, int64_t width, hr_buffer *validity,
                            hr_array *items, hr_array **out, hr_error *err)
{
    hr_buffer *offsets = NULL;
    hr_status st = HR_OK;

    if (n * width > INT32_MAX)
        HR_FAIL(HR_BAD_DATA, "arr_to_list: more than 2^31 items in one column");
    HR_GO(hr__buffer_new(how->mem, (n + 1) * 4, &offsets, err));
    for (int64_t i = 0; i <= n; i++)
        ((int32_t *)(void *)offsets->data)[i] = (int32_t)(i * width);
    return hr__array_new(type, n, validity ? -1 : 0, (hr_buffer *const[]){ validity, offsets, NULL },
                         (hr_array *[]){ items }, 1, out, err);
done:
    hr__buffer_unref(validity);
    hr__array_unref(items);
    return st;
}

static hr_status nested_lists(const hr_eval *how, const hr_array *a, hr_type *type, int dim, int64_t n,
                              hr_buffer *validity, hr_array **out, hr_error *err)
{
    const hr_type *t = a->type;
    int64_t width = t->id == HR_T_TENSOR && t->n_dims ? t->shape[dim] : t->width, begin = 0, m;
    hr_array *items = NULL;
    hr_status st;

    if (t->id == HR_T_TENSOR && dim + 1 < t->n_dims) {
        st = nested_lists(how, a, type->children[0].type, dim + 1, n * width, NULL, &items, err);
    } else {
        if (a->length)
            hr__array_range(a, 0, &begin, &m);
        st = hr__array_slice(a->children[0], begin, n * width, &items, err);
    }
    if (st) {
        hr__buffer_unref(validity);
        return st;
    }
    return even_lists(how, type, n, width, validity, items, out, err);
}

static hr_status arr_to_list_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                  hr_error *err)
{
    hr_buffer *validity = NULL;
    bool all_null;

    *out = NULL;
    if (!hr__type_is_fixed_list(args[0]->type)) {
        *out = hr__array_ref(args[0]);
        return HR_OK;
    }
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null)
        return all_nulls(call, how, out, err);
    return nested_lists(how, args[0], call->type, 0, how->n_rows, validity, out, err);
}

/* ----------------------------------------------------------------------------------------------------- struct_field */

typedef struct field_options {
    char *name;
    int64_t index;
} field_options;

static const hr_option field_settings[] = {
    { .name = "name",
      .kind = HR_OPT_TEXT,
      .at = offsetof(field_options, name),
      .text = "",
      .doc = "name of the field" },
    { .name = "index",
      .kind = HR_OPT_INT,
      .at = offsetof(field_options, index),
      .value = -1,
      .doc = "index of the field from 0, instead of the name" },
    { 0 },
};

static hr_status no_field(const hr_type *t, const field_options *o, hr_error *err)
{
    hr_text there = { 0 };
    hr_status st;

    for (int i = 0; i < t->n_children; i++)
        hr__text_add(&there, "%s%s", i ? ", " : "", t->children[i].name);
    if (o->index >= 0)
        st = hr_error_set(err, HR_INVALID, "struct_field: no field %" PRId64 "; there are %d", o->index, t->n_children);
    else
        st = hr_error_set(err, HR_INVALID, "struct_field: no field '%.100s'; there are %.300s", o->name,
                          there.data ? there.data : "none");
    hr__text_clear(&there);
    return st;
}

static int field_at(const hr_type *t, const field_options *o)
{
    if (o->index >= 0)
        return o->index < t->n_children ? (int)o->index : -1;
    for (int i = 0; i < t->n_children; i++)
        if (!strcmp(t->children[i].name, o->name))
            return i;
    return -1;
}

static hr_status struct_field_bind(hr_bound_call *call, hr_error *err)
{
    hr_type *t = call->input_types[0];
    int at;

    if (t->id == HR_T_NULL) {
        call->type = hr__type_ref(t);
        return HR_OK;
    }
    if (t->id != HR_T_STRUCT)
        return hr__call_type_error(call, "expected a struct", err);
    if ((at = field_at(t, call->expr->options)) < 0)
        return no_field(t, call->expr->options, err);
    call->type = hr__type_ref(t->children[at].type);
    return HR_OK;
}

/* Field `at` of rows [0, n) of a struct, null where the struct is null. Shares its values. */
static hr_status field_of(const hr_eval *how, const hr_array *a, int at, int64_t n, hr_array **out, hr_error *err)
{
    hr_array *part = NULL;
    hr_buffer *validity = NULL;
    hr_status st = HR_OK;

    HR_TRY(hr__array_slice(a->children[at], a->offset, n, &part, err));
    if (part->type->id == HR_T_NULL || !a->buffers[0] || hr__array_null_count(a) == 0) {
        *out = part;
        return HR_OK;
    }
    HR_GO(hr__eval_bits(how, part->offset + n, &validity, err)); /* the rows stay: only the bits are new */
    memset(validity->data, 0, (size_t)validity->n_bytes);
    for (int64_t i = 0; i < n; i++)
        if (!hr__array_is_null(a, i) && !hr__array_is_null(part, i))
            hr__bit_set(validity->data, part->offset + i);
    for (int i = 0; i < part->n_children; i++)
        hr__array_ref(part->children[i]);
    st = hr__array_new(
        part->type, n, -1,
        (hr_buffer *const[]){ validity, hr__buffer_ref(part->buffers[1]), hr__buffer_ref(part->buffers[2]) },
        part->children, part->n_children, out, err);
    if (!st)
        (*out)->offset = part->offset;
    validity = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__array_unref(part);
    return st;
}

static hr_status struct_field_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                   hr_error *err)
{
    *out = NULL;
    if (args[0]->type->id == HR_T_NULL)
        return all_nulls(call, how, out, err);
    return field_of(how, args[0], field_at(args[0]->type, call->expr->options), how->n_rows, out, err);
}

/* -------------------------------------------------------------------------------------------------- keys and values */

/* Maps, and lists of structs of two fields or more. */
static hr_status entries_bind(hr_bound_call *call, int part, hr_error *err)
{
    hr_type *t = call->input_types[0], *entry;
    hr_field item;

    if (t->id == HR_T_NULL) {
        call->type = hr__type_ref(t);
        return HR_OK;
    }
    if (t->id != HR_T_MAP && t->id != HR_T_LIST && t->id != HR_T_LARGE_LIST)
        return hr__call_type_error(call, "expected a map, or a list of structs", err);
    entry = t->children[0].type;
    if (entry->id != HR_T_STRUCT || entry->n_children < 2)
        return hr__call_type_error(call, "expected a map, or a list of structs of a key and a value", err);
    item = (hr_field){ .name = (char *)(uintptr_t)"item", .type = entry->children[part].type, .nullable = true };
    return hr__type_list(t->id == HR_T_LARGE_LIST ? HR_T_LARGE_LIST : HR_T_LIST, &item, 0, &call->type, err);
}

static hr_status entries_eval(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int part,
                              hr_array **out, hr_error *err)
{
    hr_array *items = NULL;

    *out = NULL;
    if (a->type->id == HR_T_NULL)
        return all_nulls(call, how, out, err);
    HR_TRY(field_of(how, a->children[0], part, a->children[0]->length, &items, err));
    HR_TRY(hr__array_new(call->type, a->length, -1,
                         (hr_buffer *const[]){ hr__buffer_ref(a->buffers[0]), hr__buffer_ref(a->buffers[1]), NULL },
                         (hr_array *[]){ items }, 1, out, err));
    (*out)->offset = a->offset;
    return HR_OK;
}

#define HR_ENTRIES(name, part)                                                                                         \
    static hr_status name##_bind(hr_bound_call *call, hr_error *err) { return entries_bind(call, part, err); }         \
    static hr_status name##_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out, \
                                 hr_error *err)                                                                        \
    {                                                                                                                  \
        return entries_eval(call, how, args[0], part, out, err);                                                       \
    }
HR_ENTRIES(map_keys, 0)
HR_ENTRIES(map_values, 1)

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_ENTRY(fn, text, ...)                                                                                        \
    { .name = #fn, .doc = text, .min_args = 1, .max_args = 1, .bind = fn##_bind, .eval = fn##_eval, __VA_ARGS__ }
#define HR_SET(settings, type) .options = settings, .options_bytes = sizeof(type)

const hr_expr_function hr__fn_nested[] = {
    HR_ENTRY(list_len, "the number of items", ),
    HR_ENTRY(list_get, "one item; null if the list lacks it", HR_SET(get_settings, get_options)),
    HR_ENTRY(list_slice, "some of the items, as a slice in Python", HR_SET(slice_settings, slice_options)),
    HR_ENTRY(list_sort, "the items in order", HR_SET(sort_settings, sort_options)),
    HR_ENTRY(list_flatten, "the items of a list of lists as one list", ),
    HR_ENTRY(arr_to_list, "a fixed-size list or tensor as a list, or lists of lists", ),
    HR_ENTRY(struct_field, "a field", HR_SET(field_settings, field_options)),
    HR_ENTRY(map_keys, "the keys as a list", ),
    HR_ENTRY(map_values, "the values as a list", ),
    { 0 },
};
