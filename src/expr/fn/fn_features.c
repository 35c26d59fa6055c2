/* fn_features.c - features for models: the value for a category, vectors with a one at its place, the number of an
 * interval, columns as one vector.
 *
 * `lookup` and `one_hot` find a row's place in a constant list by the hash table of is_in (fn_set.c); `bucket` searches
 * edges in ascending order; `vector` casts its arguments to one type and copies them side by side. With strict=true a
 * null or NaN among the categories is an error: an encoder that made a row of zeros of it would hide the fault.
 *
 * Tests: test_eval.c, test_expr_features.py. */
#include "expr/fn.h"

#include <inttypes.h>
#include <math.h>

/* ------------------------------------------------------------------------------------------------ lookup, one_hot */

typedef struct place_options {
    bool strict;
} place_options;

static const hr_option place_settings[] = {
    { .name = "strict",
      .kind = HR_OPT_BOOL,
      .at = offsetof(place_options, strict),
      .doc = "a null or NaN is an error" },
    { 0 },
};

typedef struct place_state {
    hr_set *set;
    hr_array *values; /* of lookup: a value for each place */
    int64_t n_places;
} place_state;

static void place_free(void *state)
{
    place_state *s = state;

    if (!s)
        return;
    hr__set_free(s->set);
    hr__array_unref(s->values);
    hr__free(s);
}

static hr_status place_bind(hr_bound_call *call, hr_error *err)
{
    place_state *s = hr__zalloc(NULL, sizeof *s);
    int64_t begin;

    if (!s)
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    call->state = s;
    HR_TRY(hr__set_new(call, 1, &s->set, err));
    hr__array_range(call->constants[1], 0, &begin, &s->n_places);
    return HR_OK;
}

static hr_status refuse_missing(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_error *err)
{
    const place_options *o = call->expr->options;
    bool floats = a->type->id == HR_T_FLOAT32 || a->type->id == HR_T_FLOAT64;
    char place[HR_PLACE_BYTES];

    if (!o || !o->strict || (!floats && a->type->id != HR_T_NULL && (!a->buffers[0] || !hr__array_null_count(a))))
        return HR_OK;
    for (int64_t i = 0; i < a->length; i++)
        if (a->type->id == HR_T_NULL || hr__array_is_null(a, i) || hr__value_is_nan(a, i))
            return hr_error_set(err, HR_BAD_DATA, "%s: %s contains null values; impute missing values first",
                                call->expr->function->name, hr__eval_place(how, i, place));
    return HR_OK;
}

/* *places is new (hr__free): of each row, -1 for none. */
static hr_status find_places(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int64_t **places,
                             hr_error *err)
{
    const place_state *s = call->state;

    *places = NULL;
    HR_TRY(refuse_missing(call, how, a, err));
    if (!(*places = hr__alloc(how->mem->account, ((size_t)how->n_rows + 1) * sizeof **places)))
        return hr__error_memory(err, call->expr->function->name, how->n_rows * (int64_t)sizeof **places);
    hr__set_places(s->set, a, *places);
    return HR_OK;
}

static bool is_list(const hr_type *t)
{
    return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || t->id == HR_T_FIXED_LIST;
}

static hr_status lookup_bind(hr_bound_call *call, hr_error *err)
{
    const hr_array *list = call->constants[2];
    place_state *s;
    int64_t begin, n;

    HR_TRY(place_bind(call, err));
    s = call->state;
    if (!list || !is_list(list->type) || hr__array_is_null(list, 0))
        return hr__call_type_error(call, "expected a constant list of values as the third argument", err);
    hr__array_range(list, 0, &begin, &n);
    if (n != s->n_places)
        return hr_error_set(err, HR_INVALID, "lookup: %" PRId64 " keys and %" PRId64 " values", s->n_places, n);
    HR_TRY(hr__array_slice(list->children[0], begin, n, &s->values, err));
    call->type = hr__type_ref(s->values->type);
    return HR_OK;
}

static hr_status lookup_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                             hr_error *err)
{
    const place_state *s = call->state;
    int64_t *places = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(find_places(call, how, args[0], &places, err));
    st = hr__array_take(how->mem, s->values, places, 8, how->n_rows, out, err);
done:
    hr__free(places);
    return st;
}

/* fixed_size_list<item: type>[n] */
static hr_status vector_type(hr_type *item, int64_t n, hr_type **out, hr_error *err)
{
    hr_field f = { 0 };
    hr_status st;

    if (n > INT32_MAX / 8)
        return hr_error_set(err, HR_UNSUPPORTED, "a vector of %" PRId64 " values", n);
    HR_TRY(hr__field_init(&f, "item", item, true, err));
    st = hr__type_list(HR_T_FIXED_LIST, &f, (int32_t)n, out, err);
    hr__field_clear(&f);
    return st;
}

/* Vectors of the call's type with these values. Takes `values`, even on failure. */
static hr_status vectors_of(const hr_bound_call *call, int64_t n_rows, hr_buffer *values, hr_array **out, hr_error *err)
{
    hr_buffer *none[3] = { NULL, NULL, NULL }, *buffers[3] = { NULL, values, NULL };
    hr_array *items = NULL;

    HR_TRY(hr__array_new(call->type->children[0].type, n_rows * call->type->width, 0, buffers, NULL, 0, &items, err));
    return hr__array_new(call->type, n_rows, 0, none, &items, 1, out, err);
}

static hr_status one_hot_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(place_bind(call, err));
    return vector_type(hr__type_simple(HR_T_UINT8), ((place_state *)call->state)->n_places, &call->type, err);
}

static hr_status one_hot_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                              hr_error *err)
{
    int64_t *places = NULL, width = call->type->width;
    hr_buffer *values = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(find_places(call, how, args[0], &places, err));
    HR_GO(hr__buffer_new(how->mem, how->n_rows * width, &values, err));
    if (values->n_bytes)
        memset(values->data, 0, (size_t)values->n_bytes);
    for (int64_t i = 0; i < how->n_rows; i++)
        if (places[i] >= 0)
            values->data[i * width + places[i]] = 1;
    st = vectors_of(call, how->n_rows, values, out, err);
done:
    hr__free(places);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- bucket */

typedef struct bucket_options {
    bool right, lowest;
} bucket_options;

static const hr_option bucket_settings[] = {
    { .name = "right",
      .kind = HR_OPT_BOOL,
      .at = offsetof(bucket_options, right),
      .value = 1,
      .doc = "an interval contains its right edge; false: its left one" },
    { .name = "lowest",
      .kind = HR_OPT_BOOL,
      .at = offsetof(bucket_options, lowest),
      .doc = "the first interval contains its left edge, too" },
    { 0 },
};

typedef struct bucket_state {
    int64_t n;
    double edges[];
} bucket_state;

/* The constant list as doubles, which ascend. *out is new (hr__free). */
static hr_status read_edges(const hr_array *list, bucket_state **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    hr_eval how = { .mem = &mem };
    hr_bound_call cast = { .n_inputs = 1 };
    hr_array *given = NULL, *edges = NULL;
    int64_t begin, n;
    hr_status st = HR_OK;

    hr__array_range(list, 0, &begin, &n);
    how.n_rows = n;
    HR_GO(hr__array_slice(list->children[0], begin, n, &given, err));
    HR_GO(hr__cast_bind_to(&cast, given->type, hr__type_simple(HR_T_FLOAT64), true, err));
    HR_GO(hr__cast_function()->eval(&cast, &how, &given, &edges, err));
    if (!(*out = hr__alloc(NULL, sizeof **out + (size_t)n * sizeof(double))))
        HR_GO(hr__error_memory(err, "bucket", n * (int64_t)sizeof(double)));
    (*out)->n = n;
    for (int64_t i = 0; i < n; i++) {
        double edge = hr__array_is_null(edges, i) ? NAN : ((const double *)(const void *)hr__array_values(edges))[i];

        (*out)->edges[i] = edge;
        if (isnan(edge) || (i && edge <= (*out)->edges[i - 1]))
            HR_FAIL(HR_INVALID, "bucket: edge %" PRId64 " is %g, expected edges in ascending order", i, edge);
    }
done:
    hr__array_unref(given);
    hr__array_unref(edges);
    hr__free(cast.state);
    hr__type_unref(cast.type);
    return st;
}

static hr_status bucket_bind(hr_bound_call *call, hr_error *err)
{
    const hr_array *list = call->constants[1];
    hr_type *t = call->input_types[0];
    bucket_state *s = NULL;
    hr_status st;

    if (!hr__type_is_number(t) && !hr__type_is_decimal(t) && t->id != HR_T_BOOL && t->id != HR_T_NULL)
        return hr__call_type_error(call, "expected numbers", err);
    if (!list || !is_list(list->type) || hr__array_is_null(list, 0))
        return hr__call_type_error(call, "expected a constant list of edges", err);
    hr__call_cast(call, 0, hr__type_simple(HR_T_FLOAT64));
    call->type = hr__type_simple(HR_T_INT64);
    st = read_edges(list, &s, err);
    call->state = s;
    return st;
}

/* The interval of x, -1: none. NaN is in none. */
static int64_t interval_of(const bucket_state *s, double x, bool right, bool lowest)
{
    int64_t low = 0, high = s->n;

    if (isnan(x))
        return -1;
    while (low < high) { /* the first edge that is >= x (right), or > x */
        int64_t middle = low + (high - low) / 2;

        if (right ? s->edges[middle] < x : s->edges[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }
    if (lowest && s->n && x == s->edges[0])
        low = 1;
    return low == 0 || low >= s->n ? -1 : low - 1;
}

static hr_status bucket_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                             hr_error *err)
{
    const bucket_options *o = call->expr->options;
    const bucket_state *s = call->state;
    const double *x = (const double *)(const void *)hr__array_values(args[0]);
    hr_buffer *values = NULL, *valid = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__buffer_new(how->mem, how->n_rows * 8, &values, err));
    HR_GO(hr__eval_bits(how, how->n_rows, &valid, err));
    memset(valid->data, 0, (size_t)hr__bits_bytes(how->n_rows));
    for (int64_t i = 0; i < how->n_rows; i++) {
        bool right = !o || o->right, null = hr__array_is_null(args[0], i);
        int64_t found = null ? -1 : interval_of(s, x[i], right, o && o->lowest);

        ((int64_t *)(void *)values->data)[i] = HR_MAX(found, 0);
        if (found >= 0)
            hr__bit_set(valid->data, i);
    }
    return hr__eval_array(call->type, how->n_rows, valid, values, NULL, out, err);
done:
    hr__buffer_unref(values);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- vector */

typedef struct vector_options {
    char *to;
} vector_options;

static const hr_option vector_settings[] = {
    { .name = "to",
      .kind = HR_OPT_TEXT,
      .at = offsetof(vector_options, to),
      .doc = "the type of the numbers; else the one that holds those of all arguments" },
    { 0 },
};

/* Of an argument that has several values a row. */
static bool is_fixed(const hr_type *t) { return hr__type_is_fixed_list(t); }
static hr_type *number_of(hr_type *t) { return is_fixed(t) ? t->children[0].type : t; }

/* The type that holds numbers of `common` (NULL: none yet) and of t. A plain number takes the type of the others,
 * unless it is a fraction among integers. */
static hr_type *common_item(hr_type *common, hr_type *t, bool plain)
{
    if (!common)
        return t;
    if (plain && (hr__type_is_float(common) || !hr__type_is_float(t)))
        return common;
    common = hr__common_number(common, t);
    return common ? common : hr__type_simple(HR_T_FLOAT64); /* uint64 with a signed integer: as in NumPy */
}

static hr_status vector_item(const hr_bound_call *call, hr_type **out, hr_error *err)
{
    const vector_options *o = call->expr->options;
    hr_type *common = NULL;

    *out = NULL;
    for (int pass = 0; pass < 2; pass++) /* plain numbers come last */
        for (int i = 0; i < call->n_inputs; i++) {
            hr_type *t = number_of(call->input_types[i]);

            if (!hr__type_is_number(t) && t->id != HR_T_NULL)
                return hr__call_type_error(call, "expected numbers, or fixed-size lists of numbers", err);
            if (t->id != HR_T_NULL && call->weak[i] == (pass == 1))
                common = common_item(common, t, pass == 1 && common);
        }
    if (!o || !o->to || !*o->to) {
        *out = hr__type_ref(common ? common : hr__type_simple(HR_T_FLOAT64));
        return HR_OK;
    }
    HR_TRY(hr__type_parse(o->to, out, err));
    if (hr__type_is_number(*out))
        return HR_OK;
    hr__type_unref(*out);
    *out = NULL;
    return hr_error_set(err, HR_INVALID, "vector: to=%s: expected a type of numbers", o->to);
}

static hr_status vector_bind(hr_bound_call *call, hr_error *err)
{
    hr_type *item = NULL;
    int64_t width = 0;
    hr_status st;

    HR_TRY(vector_item(call, &item, err));
    for (int i = 0; i < call->n_inputs; i++) {
        hr_type *t = call->input_types[i];

        width += is_fixed(t) ? t->width : 1;
        if (!is_fixed(t))
            hr__call_cast(call, i, item);
    }
    st = vector_type(item, width, &call->type, err);
    hr__type_unref(item);
    return st;
}

/* The values of argument i, `width` a row, as numbers of the vector's type. *out is new. */
static hr_status vector_values(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_array **out,
                               hr_error *err)
{
    hr_type *item = call->type->children[0].type;
    hr_bound_call cast = { .n_inputs = 1 };
    hr_eval all = { .mem = how->mem };
    hr_array *given = NULL;
    hr_status st = HR_OK;

    if (!is_fixed(a->type)) {
        *out = hr__array_ref((hr_array *)a);
        return HR_OK;
    }
    all.n_rows = a->length * a->type->width;
    HR_GO(hr__array_slice(a->children[0], a->offset * a->type->width, all.n_rows, &given, err));
    if (hr__type_equal(given->type, item)) {
        *out = given;
        return HR_OK;
    }
    HR_GO(hr__cast_bind_to(&cast, given->type, item, true, err));
    st = hr__cast_function()->eval(&cast, &all, &given, out, err);
done:
    hr__array_unref(given);
    hr__free(cast.state);
    hr__type_unref(cast.type);
    return st;
}

/* Copies rows of n values of `bytes` each to places `stride` values apart. */
static void copy_strided(const uint8_t *from, int64_t n_rows, int64_t n, int bytes, int64_t stride, uint8_t *to)
{
#define HR_COPY(T)                                                                                                     \
    {                                                                                                                  \
        const T *x = (const T *)(const void *)from;                                                                    \
        T *y = (T *)(void *)to;                                                                                        \
                                                                                                                       \
        for (int64_t i = 0; i < n_rows; i++)                                                                           \
            for (int64_t k = 0; k < n; k++)                                                                            \
                y[i * stride + k] = x[i * n + k];                                                                      \
    }                                                                                                                  \
    break
    switch (bytes) {
    case 1: HR_COPY(uint8_t);
    case 2: HR_COPY(uint16_t);
    case 4: HR_COPY(uint32_t);
    default: HR_COPY(uint64_t);
    }
#undef HR_COPY
}

static void put_nan(hr_type_id id, uint8_t *at)
{
    const uint16_t half = 0x7E00;
    const float f = NAN;
    const double d = (double)NAN;

    if (id == HR_T_FLOAT16)
        memcpy(at, &half, sizeof half);
    else if (id == HR_T_FLOAT32)
        memcpy(at, &f, sizeof f);
    else
        memcpy(at, &d, sizeof d);
}

/* NaN where the argument, or one of its values, is null; integers have no NaN. */
static hr_status put_missing(const hr_bound_call *call, const hr_eval *how, const hr_array *a, const hr_array *values,
                             int64_t n, uint8_t *to, hr_error *err)
{
    hr_type *item = call->type->children[0].type;
    int bytes = hr__type_bytes(item);
    char place[HR_PLACE_BYTES];

    if ((!a->buffers[0] || !hr__array_null_count(a)) && (!values->buffers[0] || !hr__array_null_count(values)))
        return HR_OK;
    for (int64_t i = 0; i < how->n_rows * n; i++) {
        if (!hr__array_is_null(a, i / n) && !hr__array_is_null(values, i))
            continue;
        if (!hr__type_is_float(item))
            return hr_error_set(err, HR_BAD_DATA,
                                "vector: %s: a null among integers; impute missing values first, or make floats",
                                hr__eval_place(how, i / n, place));
        put_nan(item->id, to + (i / n * call->type->width + i % n) * bytes);
    }
    return HR_OK;
}

static hr_status vector_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                             hr_error *err)
{
    int bytes = hr__type_bytes(call->type->children[0].type);
    int64_t width = call->type->width, at = 0;
    hr_array *values = NULL;
    hr_buffer *made = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__buffer_new(how->mem, how->n_rows * width * bytes, &made, err));
    for (int i = 0; i < call->n_inputs; i++) {
        int64_t n = is_fixed(args[i]->type) ? args[i]->type->width : 1;

        if (!n || !how->n_rows)
            continue;
        HR_GO(vector_values(call, how, args[i], &values, err));
        copy_strided(hr__array_values(values), how->n_rows, n, bytes, width, made->data + at * bytes);
        HR_GO(put_missing(call, how, args[i], values, n, made->data + at * bytes, err));
        hr__array_unref(values);
        values = NULL;
        at += n;
    }
    st = vectors_of(call, how->n_rows, made, out, err);
    made = NULL; /* taken */
done:
    hr__array_unref(values);
    hr__buffer_unref(made);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- categorize */

typedef struct category_options {
    char *categories;
} category_options;

static const hr_option category_settings[] = {
    { .name = "categories",
      .kind = HR_OPT_TEXT,
      .at = offsetof(category_options, categories),
      .doc = "the possible values, as JSON" },
    { 0 },
};

static hr_status categorize_bind(hr_bound_call *call, hr_error *err)
{
    (void)err;
    call->type = hr__type_ref(call->input_types[0]);
    return HR_OK;
}

static hr_status categorize_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                 hr_error *err)
{
    (void)call;
    (void)how;
    (void)err;
    *out = hr__array_ref(args[0]);
    return HR_OK;
}

const char *hr__bound_categories(const hr_bound *b, int i)
{
    const hr_expr *e = b->exprs[i];
    const category_options *o = e->options;

    if (e->kind != HR_EXPR_CALL || e->function->bind != categorize_bind || !o || !o->categories || !*o->categories)
        return NULL;
    return o->categories;
}

/* ------------------------------------------------------------------------------------------------------ the table */

const hr_expr_function hr__fn_features[] = {
    { .name = "lookup",
      .doc = "the value of list c at the place that a has in list b; null if it has none",
      .min_args = 3,
      .max_args = 3,
      .options = place_settings,
      .options_bytes = sizeof(place_options),
      .bind = lookup_bind,
      .eval = lookup_eval,
      .takes_constants = true,
      .state_free = place_free },
    { .name = "one_hot",
      .doc = "a vector of zeros (uint8) with a 1 at the place that a has in list b",
      .min_args = 2,
      .max_args = 2,
      .options = place_settings,
      .options_bytes = sizeof(place_options),
      .bind = one_hot_bind,
      .eval = one_hot_eval,
      .takes_constants = true,
      .state_free = place_free },
    { .name = "bucket",
      .doc = "the number of the interval between edges b that contains a; null if none does",
      .min_args = 2,
      .max_args = 2,
      .options = bucket_settings,
      .options_bytes = sizeof(bucket_options),
      .bind = bucket_bind,
      .eval = bucket_eval,
      .takes_constants = true },
    { .name = "vector",
      .doc = "the numbers, and those of fixed-size lists, side by side as a fixed-size list; NaN for null",
      .min_args = 1,
      .max_args = -1,
      .options = vector_settings,
      .options_bytes = sizeof(vector_options),
      .bind = vector_bind,
      .eval = vector_eval },
    { .name = "categorize",
      .doc = "the values, in a column whose metadata names the possible ones",
      .min_args = 1,
      .max_args = 1,
      .options = category_settings,
      .options_bytes = sizeof(category_options),
      .bind = categorize_bind,
      .eval = categorize_eval },
    { 0 },
};
