/* arrays.c - implements arrays.h. */
#include "arrays.h"
#include "base/decimal.h"

#include <math.h>
#include <stdio.h>

/* ----------------------------------------------------------------------------------------------------------- types */

/* Takes the child's type. */
static hr_type *list_of(hr_type_id id, hr_type *child, int32_t width)
{
    hr_type *t = NULL;
    hr_field f = { 0 };

    assert_int_equal(hr__field_init(&f, id == HR_T_MAP ? "entries" : "item", child, id != HR_T_MAP, NULL), HR_OK);
    assert_int_equal(hr__type_list(id, &f, width, &t, NULL), HR_OK);
    hr__field_clear(&f);
    hr__type_unref(child);
    return t;
}

/* Takes the types. NULL ends them. */
static hr_type *struct_of(const char *const *names, hr_type *const *children)
{
    hr_type *t = NULL;
    hr_field f[8] = { 0 };
    int n = 0;

    for (; children[n]; n++)
        assert_int_equal(hr__field_init(&f[n], names[n], children[n], true, NULL), HR_OK);
    assert_int_equal(hr__type_struct(f, n, &t, NULL), HR_OK);
    for (int i = 0; i < n; i++) {
        hr__field_clear(&f[i]);
        hr__type_unref(children[i]);
    }
    return t;
}

static hr_type *unit_of(hr_type_id id, hr_unit unit, const char *zone)
{
    hr_type *t = NULL;

    assert_int_equal(hr__type_unit(id, unit, zone, &t, NULL), HR_OK);
    return t;
}

static hr_type *fixed_binary(int32_t width)
{
    hr_type *t = NULL;

    assert_int_equal(hr__type_fixed_binary(width, &t, NULL), HR_OK);
    return t;
}

static hr_type *decimal_of(hr_type_id id, int32_t precision, int32_t scale)
{
    hr_type *t = NULL;

    assert_int_equal(hr__type_decimal(id, precision, scale, &t, NULL), HR_OK);
    return t;
}

static hr_type *tensor_of(hr_type_id value, const int64_t *shape, int n_dims)
{
    hr_type *t = NULL;

    assert_int_equal(hr__type_tensor(hr__type_simple(value), shape, n_dims, &t, NULL), HR_OK);
    return t;
}

static hr_type *person(void)
{
    return struct_of((const char *const[]){ "id", "name", "tags" },
                     (hr_type *[]){ hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING),
                                    list_of(HR_T_LIST, hr__type_simple(HR_T_INT8), 0), NULL });
}

static hr_type *map_of(hr_type *key, hr_type *value)
{
    return list_of(HR_T_MAP, struct_of((const char *const[]){ "key", "value" }, (hr_type *[]){ key, value, NULL }), 0);
}

enum {
    N_SIMPLE = HR_T_LARGE_BINARY + 1, /* ids 0 .. 16 have no parameters; the dates follow them */
    N_PICKLED = 2,
    N_OTHERS = 41
};

int n_sample_types(void) { return N_SIMPLE + N_PICKLED + N_OTHERS; }

static hr_type *other_type(int k)
{
    static const int64_t shape[] = { 2, 3 }, flat[] = { 5 }, none[] = { 0, 4 };

    switch (k) {
    case 0: return hr__type_simple(HR_T_DATE32);
    case 1: return hr__type_simple(HR_T_DATE64);
    case 2: return fixed_binary(5);
    case 3: return fixed_binary(16);
    case 4: return fixed_binary(0);
    case 5: return unit_of(HR_T_TIME32, HR_SECOND, NULL);
    case 6: return unit_of(HR_T_TIME32, HR_MILLI, NULL);
    case 7: return unit_of(HR_T_TIME64, HR_MICRO, NULL);
    case 8: return unit_of(HR_T_TIME64, HR_NANO, NULL);
    case 9: return unit_of(HR_T_TIMESTAMP, HR_SECOND, NULL);
    case 10: return unit_of(HR_T_TIMESTAMP, HR_MICRO, "UTC");
    case 11: return unit_of(HR_T_TIMESTAMP, HR_NANO, "Europe/Berlin");
    case 12: return unit_of(HR_T_DURATION, HR_MILLI, NULL);
    case 13: return decimal_of(HR_T_DECIMAL128, 10, 2);
    case 14: return decimal_of(HR_T_DECIMAL256, 50, 20);
    case 15: return list_of(HR_T_LIST, hr__type_simple(HR_T_INT32), 0);
    case 16: return list_of(HR_T_LIST, hr__type_simple(HR_T_STRING), 0);
    case 17: return list_of(HR_T_LARGE_LIST, hr__type_simple(HR_T_BOOL), 0);
    case 18: return list_of(HR_T_LARGE_LIST, hr__type_simple(HR_T_LARGE_BINARY), 0);
    case 19: return list_of(HR_T_LIST, list_of(HR_T_LIST, hr__type_simple(HR_T_FLOAT64), 0), 0);
    case 20: return list_of(HR_T_LIST, hr__type_simple(HR_T_NULL), 0);
    case 21: return list_of(HR_T_LIST, person(), 0);
    case 22: return list_of(HR_T_FIXED_LIST, hr__type_simple(HR_T_FLOAT32), 3);
    case 23: return list_of(HR_T_FIXED_LIST, hr__type_simple(HR_T_BOOL), 3);
    case 24: return list_of(HR_T_FIXED_LIST, hr__type_simple(HR_T_STRING), 2);
    case 25: return list_of(HR_T_FIXED_LIST, hr__type_simple(HR_T_INT16), 0);
    case 26: return list_of(HR_T_FIXED_LIST, list_of(HR_T_FIXED_LIST, hr__type_simple(HR_T_INT16), 2), 2);
    case 27: return list_of(HR_T_FIXED_LIST, person(), 2);
    case 28: return list_of(HR_T_FIXED_LIST, list_of(HR_T_LIST, hr__type_simple(HR_T_UINT8), 0), 2);
    case 29: return list_of(HR_T_FIXED_LIST, hr__type_simple(HR_T_NULL), 2);
    case 30: return person();
    case 31:
        return struct_of((const char *const[]){ "who", "flag" },
                         (hr_type *[]){ person(), hr__type_simple(HR_T_BOOL), NULL });
    case 32: return struct_of(NULL, (hr_type *[]){ NULL });
    case 33: return map_of(hr__type_simple(HR_T_STRING), hr__type_simple(HR_T_INT32));
    case 34: return map_of(hr__type_simple(HR_T_INT8), list_of(HR_T_LIST, hr__type_simple(HR_T_FLOAT32), 0));
    case 35: return tensor_of(HR_T_UINT8, shape, 2);
    case 36: return tensor_of(HR_T_FLOAT32, flat, 1);
    case 37: return tensor_of(HR_T_INT64, NULL, 0);
    case 38: return tensor_of(HR_T_INT64, none, 2);
    case 39: return tensor_of(HR_T_BOOL, flat, 1);
    default: return list_of(HR_T_LIST, tensor_of(HR_T_UINT8, shape, 2), 0);
    }
}

hr_type *sample_type(int k)
{
    if (k == N_SIMPLE)
        return hr__type_pickled();
    if (k == N_SIMPLE + 1)
        return list_of(HR_T_LIST, hr__type_pickled(), 0);
    return k < N_SIMPLE ? hr__type_simple((hr_type_id)k) : other_type(k - N_SIMPLE - N_PICKLED);
}

hr_type *type_named(const char *text)
{
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *t = sample_type(k);

        if (strcmp(type_text(t), text) == 0)
            return t;
        hr__type_unref(t);
    }
    fail_msg("no type %s", text);
    return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- values */

hr_builder *builder_of(hr_type *type)
{
    hr_builder *b = NULL;

    assert_int_equal(hr__builder_new(NULL, type, &b, NULL), HR_OK);
    return b;
}

hr_array *finish(hr_builder *b)
{
    hr_array *a = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__builder_finish(b, &a, &err), &err);
    hr__builder_free(b);
    return a;
}

static void append_random(hr_builder *b, hr_type *t, uint64_t *state, bool nulls);

static void append_text(hr_builder *b, hr_type *t, uint64_t *state)
{
    static const char *const words[] = {
        "", "a", "Ächz", "日本語", "seventeen bytes!!", "0123456789abcdef", "x\ty\"z\\"
    };
    uint8_t bytes[64];
    int64_t n = random_below(state, 8) ? random_below(state, 20) : random_below(state, 64);

    if (t->id == HR_T_STRING || t->id == HR_T_LARGE_STRING) {
        const char *w = words[random_below(state, HR_LEN(words))];

        assert_int_equal(hr__builder_bytes(b, w, (int64_t)strlen(w), NULL), HR_OK);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)next_random(state);
    assert_int_equal(hr__builder_bytes(b, bytes, n, NULL), HR_OK);
}

/* Random bytes as a value that the type allows: whole days, times within a day, no more digits than the precision. */
static void make_valid(const hr_type *t, uint8_t *bytes)
{
    static const int64_t units_a_day[] = { 86400, 86400000, 86400000000, 86400000000000 };
    int width = hr__type_bytes(t);
    int64_t v = 0;

    if (t->id == HR_T_DECIMAL128 || t->id == HR_T_DECIMAL256) {
        hr_wide all = hr__wide_load(bytes, width), limit = hr__wide_power_of_ten(t->precision), rest;

        hr__wide_divide(&all, &limit, NULL, &rest);
        hr__wide_store(&rest, width, bytes);
        return;
    }
    if (t->id != HR_T_DATE64 && t->id != HR_T_TIME32 && t->id != HR_T_TIME64)
        return;
    memcpy(&v, bytes, (size_t)width);
    if (t->id == HR_T_DATE64)
        v -= v % units_a_day[HR_MILLI];
    else
        v = (v & INT64_MAX) % units_a_day[t->unit];
    memcpy(bytes, &v, (size_t)width);
}

/* Bytes of any fixed width; floating point is NaN, zero or infinite now and then. */
static void append_fixed(hr_builder *b, hr_type *t, uint64_t *state)
{
    static const double doubles[] = { 0.0, -0.0, 1.5, -1e300, (double)INFINITY, (double)NAN };
    uint8_t bytes[64];

    if (t->id >= HR_T_FLOAT16 && t->id <= HR_T_FLOAT64) {
        double v = random_below(state, 2) ? doubles[random_below(state, HR_LEN(doubles))]
                                          : (double)(int64_t)next_random(state) / 1e6;
        assert_int_equal(hr__builder_double(b, v, NULL), HR_OK);
        return;
    }
    for (int i = 0; i < hr__type_bytes(t); i++)
        bytes[i] = (uint8_t)next_random(state);
    make_valid(t, bytes);
    assert_int_equal(hr__builder_bytes(b, bytes, hr__type_bytes(t), NULL), HR_OK);
}

static void append_nested(hr_builder *b, hr_type *t, uint64_t *state, bool nulls)
{
    int64_t n = hr__type_is_fixed_list(t) ? t->width : t->id == HR_T_STRUCT ? 1 : random_below(state, 4);

    if (t->id != HR_T_STRUCT && !hr__type_is_fixed_list(t) && random_below(state, 10) == 0)
        n = 12;
    for (int c = 0; c < t->n_children; c++)
        for (int64_t i = 0; i < n; i++)
            append_random(hr__builder_child(b, c), t->children[c].type, state, nulls && t->id != HR_T_MAP);
    assert_int_equal(hr__builder_end(b, NULL), HR_OK);
}

static void append_random(hr_builder *b, hr_type *t, uint64_t *state, bool nulls)
{
    if (t->id == HR_T_NULL || (nulls && random_below(state, 5) == 0))
        assert_int_equal(hr__builder_null(b, NULL), HR_OK);
    else if (t->n_children || t->id == HR_T_STRUCT)
        append_nested(b, t, state, nulls);
    else if (hr__type_is_bytes(t))
        append_text(b, t, state);
    else if (t->id == HR_T_BOOL)
        assert_int_equal(hr__builder_int(b, random_below(state, 2), NULL), HR_OK);
    else
        append_fixed(b, t, state);
}

hr_array *random_array(uint64_t *state, hr_type *type, int64_t n)
{
    hr_builder *b = builder_of(type);
    hr_array *whole, *part = NULL;
    bool nulls = random_below(state, 4) != 0;
    int64_t before = random_below(state, 2) ? random_below(state, 20) : 0, after = before ? random_below(state, 5) : 0;

    for (int64_t i = 0; i < before + n + after; i++)
        append_random(b, type, state, nulls);
    whole = finish(b);
    assert_int_equal(hr__array_slice(whole, before, n, &part, NULL), HR_OK);
    hr__array_unref(whole);
    return part;
}

hr_table *random_table(uint64_t *state, hr_type *const *types, int n_types, int64_t n)
{
    hr_field fields[64] = { 0 };
    hr_array *columns[64];
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    hr_origin *origin = NULL;
    hr_run_coords run = { .n = n };
    hr_error err = HR_ERROR_INIT;

    assert_true(n_types <= HR_LEN(fields));
    for (int i = 0; i < n_types; i++) {
        char name[16];

        snprintf(name, sizeof name, "c%d", i);
        assert_ok(hr__field_init(&fields[i], name, types[i], true, &err), &err);
        columns[i] = random_array(state, types[i], n);
    }
    assert_ok(hr__schema_new(fields, n_types, &schema, &err), &err);
    assert_ok(hr__origin_new(&run, 1, &origin, &err), &err);
    assert_ok(hr__table_new(schema, columns, n, origin, &t, &err), &err);
    for (int i = 0; i < n_types; i++)
        hr__field_clear(&fields[i]);
    hr__schema_unref(schema);
    hr__origin_unref(origin);
    return t;
}

void append_value(hr_builder *b, const hr_array *a, int64_t i)
{
    const hr_type *t = a->type;
    int64_t begin = 0, n = 0;

    if (hr__array_is_null(a, i)) {
        assert_int_equal(hr__builder_null(b, NULL), HR_OK);
    } else if (t->id == HR_T_BOOL) {
        assert_int_equal(hr__builder_int(b, hr__bit(a->buffers[1]->data, a->offset + i), NULL), HR_OK);
    } else if (hr__type_is_bytes(t) || t->id == HR_T_FIXED_BINARY) {
        const uint8_t *p = hr__array_bytes(a, i, &n);

        assert_int_equal(hr__builder_bytes(b, p, n, NULL), HR_OK);
    } else if (hr__type_bytes(t)) {
        n = hr__type_bytes(t);
        assert_int_equal(hr__builder_bytes(b, hr__array_values(a) + i * n, n, NULL), HR_OK);
    } else if (t->id == HR_T_STRUCT) {
        for (int c = 0; c < a->n_children; c++)
            append_value(hr__builder_child(b, c), a->children[c], a->offset + i);
        assert_int_equal(hr__builder_end(b, NULL), HR_OK);
    } else {
        hr__array_range(a, i, &begin, &n);
        for (int64_t k = 0; k < n; k++)
            append_value(hr__builder_child(b, 0), a->children[0], begin + k);
        assert_int_equal(hr__builder_end(b, NULL), HR_OK);
    }
}

void arena_give_back(hr_arena *a)
{
    int64_t limit = hr_memory_limit();
    hr_buffer *b = NULL;

    assert_int_equal(hr__buffer_new(&(hr_mem){ .arena = a }, 100, &b, NULL), HR_OK);
    assert_int_equal(hr_set_memory_limit(1, NULL), HR_OK);
    hr__buffer_unref(b);
    assert_int_equal(hr_set_memory_limit(limit, NULL), HR_OK);
}

/* ------------------------------------------------------------------------------------------------------- as text */

static char text_bytes[1 << 16];

const char *values_text(const hr_array *a)
{
    hr_text t = { 0 };

    for (int64_t i = 0; i < a->length && t.n < (int64_t)sizeof text_bytes; i++) {
        hr__text_add(&t, i ? " " : "");
        hr__array_print_value(a, i, &t);
    }
    snprintf(text_bytes, sizeof text_bytes, "%s", t.data ? t.data : "");
    hr__text_clear(&t);
    return text_bytes;
}

const char *type_text(const hr_type *type)
{
    hr_text t = { 0 };

    hr__type_print(type, &t);
    snprintf(text_bytes, sizeof text_bytes, "%s", t.data ? t.data : "");
    hr__text_clear(&t);
    return text_bytes;
}

void assert_same_array_at(const hr_array *got, const hr_array *want, const char *file, int line)
{
    if (hr__array_equal(got, want))
        return;
    print_error("%s\n", type_text(got->type));
    print_error("want %s\n", values_text(want));
    print_error("got  %s\n", values_text(got));
    _fail(file, line);
}

hr_array *array_of_ints(const int64_t *values, int64_t n)
{
    hr_builder *b = builder_of(hr__type_simple(HR_T_INT64));

    for (int64_t i = 0; i < n; i++)
        assert_int_equal(values[i] == INT64_MIN ? hr__builder_null(b, NULL) : hr__builder_int(b, values[i], NULL),
                         HR_OK);
    return finish(b);
}

hr_array *array_of_strings(const char *const *values, int64_t n)
{
    hr_builder *b = builder_of(hr__type_simple(HR_T_STRING));

    for (int64_t i = 0; i < n; i++)
        assert_int_equal(values[i] ? hr__builder_bytes(b, values[i], (int64_t)strlen(values[i]), NULL)
                                   : hr__builder_null(b, NULL),
                         HR_OK);
    return finish(b);
}
