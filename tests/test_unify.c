/* test_unify.c - the types of one column in many files, and values of the one as the other. */
#include "arrays.h"

static const char *const names[] = {
    "null",      "int8",  "uint8",  "int16",  "uint16",       "int32",  "uint32",       "int64",       "uint64",
    "halffloat", "float", "double", "string", "large_string", "binary", "large_binary", "date32[day]", "bool",
};

static const struct {
    const char *a, *b, *want; /* want "": none */
} cases[] = {
    { "null", "string", "string" },
    { "int8", "int16", "int16" },
    { "int32", "int64", "int64" },
    { "uint8", "uint64", "uint64" },
    { "uint8", "int8", "int16" },
    { "uint16", "int64", "int64" },
    { "uint32", "int8", "int64" },
    { "uint64", "int8", "" }, /* nothing holds both */
    { "int8", "halffloat", "halffloat" },
    { "int16", "halffloat", "float" },
    { "int16", "float", "float" },
    { "int32", "float", "double" },
    { "uint64", "double", "double" },
    { "halffloat", "float", "float" },
    { "float", "double", "double" },
    { "string", "large_string", "large_string" },
    { "binary", "large_binary", "large_binary" },
    { "string", "binary", "" },
    { "string", "int64", "" },
    { "bool", "int8", "" },
    { "date32[day]", "date64[ms]", "date64[ms]" },
    { "date32[day]", "int32", "" },
};

static hr_type *by_name(const char *name)
{
    for (hr_type_id id = 0; id < HR_N_TYPES; id++) {
        if (hr__type_simple(id) && strcmp(type_text(hr__type_simple(id)), name) == 0)
            return hr__type_ref(hr__type_simple(id));
    }
    fail_msg("no type %s", name);
    return NULL;
}

/* Both ways round. */
static void both(const hr_type *a, const hr_type *b, const char *want)
{
    for (int k = 0; k < 2; k++) {
        const hr_type *x = k ? b : a, *y = k ? a : b;
        hr_type *out = NULL;
        bool widens;

        assert_ok(hr__type_unify(x, y, &out, NULL), NULL);
        assert_string_equal(out ? type_text(out) : "", want);
        assert_ok(hr__type_widens(y, x, &widens, NULL), NULL);
        assert_int_equal(widens, out && hr__type_equal(out, x));
        hr__type_unref(out);
    }
}

static void types(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_type *a = by_name(cases[i].a), *b = by_name(cases[i].b);

        both(a, b, cases[i].want);
        hr__type_unref(a);
        hr__type_unref(b);
    }
}

static hr_type *list_of(hr_type_id id, hr_type *item_type, int width)
{
    hr_field item = { 0 };
    hr_type *out = NULL;

    assert_ok(hr__field_init(&item, "item", item_type, true, NULL), NULL);
    assert_ok(hr__type_list(id, &item, width, &out, NULL), NULL);
    hr__field_clear(&item);
    return out;
}

static hr_type *struct_of(const char *a, hr_type_id a_type, const char *b, hr_type_id b_type)
{
    hr_field fields[2] = { { 0 } };
    hr_type *out = NULL;

    assert_ok(hr__field_init(&fields[0], a, hr__type_simple(a_type), true, NULL), NULL);
    assert_ok(hr__field_init(&fields[1], b, hr__type_simple(b_type), true, NULL), NULL);
    assert_ok(hr__type_struct(fields, 2, &out, NULL), NULL);
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
    return out;
}

static hr_type *time_of(hr_type_id id, hr_unit unit, const char *zone)
{
    hr_type *out = NULL;

    assert_ok(hr__type_unit(id, unit, zone, &out, NULL), NULL);
    return out;
}

/* Takes both types. */
static void nested(hr_type *a, hr_type *b, const char *want)
{
    both(a, b, want);
    hr__type_unref(a);
    hr__type_unref(b);
}

static void more_types(void **state)
{
    hr_type *i32 = hr__type_simple(HR_T_INT32), *i64 = hr__type_simple(HR_T_INT64),
            *f64 = hr__type_simple(HR_T_FLOAT64);
    hr_type *ab = struct_of("a", HR_T_INT32, "b", HR_T_STRING), *ca = struct_of("c", HR_T_BOOL, "a", HR_T_INT64), *out;

    (void)state;
    nested(list_of(HR_T_LIST, i32, 0), list_of(HR_T_LIST, i64, 0), "list<item: int64>");
    nested(list_of(HR_T_LIST, i32, 0), list_of(HR_T_LARGE_LIST, f64, 0), "large_list<item: double>");
    nested(list_of(HR_T_FIXED_LIST, i32, 3), list_of(HR_T_FIXED_LIST, i64, 3), "fixed_size_list<item: int64>[3]");
    nested(list_of(HR_T_FIXED_LIST, i32, 3), list_of(HR_T_FIXED_LIST, i32, 2), "list<item: int32>");
    nested(list_of(HR_T_LIST, i32, 0), hr__type_ref(hr__type_simple(HR_T_STRING)), "");
    nested(time_of(HR_T_TIMESTAMP, HR_SECOND, NULL), time_of(HR_T_TIMESTAMP, HR_NANO, NULL), "timestamp[ns]");
    nested(time_of(HR_T_TIMESTAMP, HR_SECOND, "UTC"), time_of(HR_T_TIMESTAMP, HR_MICRO, "UTC"),
           "timestamp[us, tz=UTC]");
    nested(time_of(HR_T_TIMESTAMP, HR_SECOND, "UTC"), time_of(HR_T_TIMESTAMP, HR_SECOND, NULL), "");
    nested(time_of(HR_T_TIME32, HR_SECOND, NULL), time_of(HR_T_TIME64, HR_NANO, NULL), "time64[ns]");
    nested(time_of(HR_T_DURATION, HR_MILLI, NULL), time_of(HR_T_DURATION, HR_MICRO, NULL), "duration[us]");
    nested(time_of(HR_T_DURATION, HR_MILLI, NULL), time_of(HR_T_TIMESTAMP, HR_MICRO, NULL), "");
    assert_ok(hr__type_unify(ab, ca, &out, NULL), NULL);
    assert_string_equal(type_text(out), "struct<a: int64, b: string, c: bool>");
    hr__type_unref(out);
    hr__type_unref(ab);
    hr__type_unref(ca);
}

/* Number k as a value of the type: 0, 1, 2 ... of which every third is null. */
static hr_array *counted(hr_type *type, int64_t n)
{
    hr_builder *b = builder_of(type);

    for (int64_t i = 0; i < n; i++) {
        hr_status st = HR_OK;

        if (i % 3 == 2)
            st = hr__builder_null(b, NULL);
        else if (type->id >= HR_T_FLOAT16 && type->id <= HR_T_FLOAT64)
            st = hr__builder_double(b, (double)i, NULL);
        else if (hr__type_is_bytes(type))
            st = hr__builder_bytes(b, "abcdefgh", i % 8, NULL);
        else if (type->id == HR_T_NULL)
            st = hr__builder_null(b, NULL);
        else
            st = hr__builder_int(b, type->id == HR_T_BOOL ? i % 2 : i, NULL);
        assert_ok(st, NULL);
    }
    return finish(b);
}

/* What unify makes of an array is what would have been built as that type; whole, and as a slice. */
static void values(void **state)
{
    hr_mem mem = { NULL, NULL };
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++) {
        for (int k = 0; k < HR_LEN(names); k++) {
            hr_type *from = by_name(names[i]), *to = by_name(names[k]);
            hr_array *a, *part, *want, *want_part, *got;
            hr_error err = HR_ERROR_INIT;
            bool widens;

            assert_ok(hr__type_widens(from, to, &widens, &err), &err);
            if (widens && from->id != HR_T_NULL) {
                a = counted(from, 50);
                want = counted(to, 50);
                assert_ok(hr__array_unify(&mem, a, to, &got, &err), &err);
                assert_same_array(got, want);
                hr__array_unref(got);
                assert_ok(hr__array_slice(a, 7, 21, &part, &err), &err);
                assert_ok(hr__array_slice(want, 7, 21, &want_part, &err), &err);
                assert_ok(hr__array_unify(&mem, part, to, &got, &err), &err);
                assert_ok(hr__array_check(got, true, &err), &err);
                assert_same_array(got, want_part);
                hr__array_unref(got);
                hr__array_unref(part);
                hr__array_unref(want_part);
                hr__array_unref(want);
                hr__array_unref(a);
            }
            hr__type_unref(from);
            hr__type_unref(to);
        }
    }
    assert_no_leak(before);
}

/* Rows of lists and structs, cut out of the middle, value by value. */
static void nested_values(void **state)
{
    hr_type *small = list_of(HR_T_LIST, hr__type_simple(HR_T_INT16), 0);
    hr_type *large = list_of(HR_T_LARGE_LIST, hr__type_simple(HR_T_FLOAT64), 0);
    hr_type *fixed = list_of(HR_T_FIXED_LIST, hr__type_simple(HR_T_INT16), 2);
    hr_type *narrow = struct_of("a", HR_T_INT16, "b", HR_T_STRING), *wide = struct_of("c", HR_T_INT8, "b", HR_T_STRING);
    hr_type *whole = NULL, *pairs = list_of(HR_T_LIST, hr__type_simple(HR_T_INT64), 0);
    uint64_t random = 7;
    hr_mem mem = { NULL, NULL };

    (void)state;
    assert_ok(hr__type_unify(wide, narrow, &whole, NULL), NULL);
    for (int round = 0; round < 60; round++) {
        hr_type *from = round % 3 == 0 ? small : round % 3 == 1 ? fixed : narrow;
        hr_type *to = round % 3 == 0 ? large : round % 3 == 1 ? pairs : whole;
        hr_array *a = random_array(&random, from, 40), *got = NULL;
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr__array_unify(&mem, a, to, &got, &err), &err);
        assert_ok(hr__array_check(got, true, &err), &err);
        assert_int_equal(got->length, a->length);
        for (int64_t i = 0; i < a->length; i++) {
            int64_t begin, n, got_begin, got_n;

            assert_int_equal(hr__array_is_null(got, i), hr__array_is_null(a, i));
            if (hr__array_is_null(a, i))
                continue;
            if (from == narrow) {
                const hr_array *mine = a->children[0], *theirs = got->children[2]; /* c, b, a */
                int64_t at = a->offset + i, to_at = got->offset + i;

                assert_true(hr__array_is_null(got->children[0], to_at));
                assert_int_equal(hr__array_is_null(theirs, to_at), hr__array_is_null(mine, at));
                if (!hr__array_is_null(mine, at))
                    assert_int_equal(((const int16_t *)(const void *)hr__array_values(theirs))[to_at],
                                     ((const int16_t *)(const void *)hr__array_values(mine))[at]);
                continue;
            }
            hr__array_range(a, i, &begin, &n);
            hr__array_range(got, i, &got_begin, &got_n);
            assert_int_equal(n, got_n);
            for (int64_t k = 0; k < n; k++) {
                const hr_array *mine = a->children[0], *theirs = got->children[0];
                int v;

                assert_int_equal(hr__array_is_null(theirs, got_begin + k), hr__array_is_null(mine, begin + k));
                if (hr__array_is_null(mine, begin + k))
                    continue;
                v = ((const int16_t *)(const void *)hr__array_values(mine))[begin + k];
                if (to == large)
                    assert_true(((const double *)(const void *)hr__array_values(theirs))[got_begin + k] == v);
                else
                    assert_int_equal(((const int64_t *)(const void *)hr__array_values(theirs))[got_begin + k], v);
            }
        }
        hr__array_unref(a);
        hr__array_unref(got);
    }
    hr__type_unref(small);
    hr__type_unref(large);
    hr__type_unref(fixed);
    hr__type_unref(narrow);
    hr__type_unref(wide);
    hr__type_unref(whole);
    hr__type_unref(pairs);
}

/* An int64 that no double is was rounded without a word. Slices see their own rows only, and of lists their own
 * items. */
static void no_double(void **state)
{
    const int64_t large = (1ll << 53) + 1, some[] = { 1, large, 1ll << 60, INT64_MIN, 5, -large };
    hr_type *doubles = list_of(HR_T_LIST, hr__type_simple(HR_T_FLOAT64), 0), *ints,
            *f64 = hr__type_simple(HR_T_FLOAT64);
    static const struct {
        int64_t begin, n;
        const char *wrong;
    } cases[] = { { 0, 6, "row 1: no double is 9007199254740993" },
                  { 1, 1, "row 0: no double is 9007199254740993" },
                  { 0, 1, NULL },
                  { 2, 3, NULL },
                  { 2, 4, "row 3: no double is -9007199254740993" } };
    hr_array *a = array_of_ints(some, 6), *part, *list, *some_lists, *got;
    hr_error err = HR_ERROR_INIT;
    hr_mem mem = { NULL, NULL };
    hr_buffer *offsets;

    (void)state;
    ints = list_of(HR_T_LIST, a->type, 0);
    assert_ok(hr__buffer_new(&mem, 7 * 4, &offsets, &err), &err);
    for (int i = 0; i <= 6; i++)
        ((int32_t *)(void *)offsets->data)[i] = i;
    assert_ok(hr__array_new(ints, 6, 0, (hr_buffer *[3]){ NULL, offsets, NULL }, (hr_array *[]){ hr__array_ref(a) }, 1,
                            &list, &err),
              &err);
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_status want = cases[i].wrong ? HR_TYPE : HR_OK;

        assert_ok(hr__array_slice(a, cases[i].begin, cases[i].n, &part, &err), &err);
        assert_ok(hr__array_slice(list, cases[i].begin, cases[i].n, &some_lists, &err), &err);
        assert_status(hr__array_unify(&mem, part, f64, &got, &err), want, &err);
        if (cases[i].wrong)
            assert_string_equal(err.text, cases[i].wrong);
        hr__array_unref(got);
        hr_error_clear(&err);
        assert_status(hr__array_unify(&mem, some_lists, doubles, &got, &err), want, &err);
        if (cases[i].wrong)
            assert_contains(err.text, "no doubles are [");
        hr__array_unref(got);
        hr_error_clear(&err);
        hr__array_unref(part);
        hr__array_unref(some_lists);
    }
    hr__array_unref(list);
    hr__array_unref(a);
    hr__type_unref(ints);
    hr__type_unref(doubles);
}

static void finer_units(void **state)
{
    hr_type *s = time_of(HR_T_TIMESTAMP, HR_SECOND, NULL), *ns = time_of(HR_T_TIMESTAMP, HR_NANO, NULL);
    hr_array *a = array_of_ints((const int64_t[]){ -1, INT64_MIN, 1700000000 }, 3), *got = NULL, *times;
    hr_error err = HR_ERROR_INIT;
    hr_mem mem = { NULL, NULL };

    (void)state;
    assert_ok(hr__array_new(s, 3, -1, (hr_buffer *[3]){ hr__buffer_ref(a->buffers[0]), hr__buffer_ref(a->buffers[1]) },
                            NULL, 0, &times, NULL),
              NULL);
    assert_ok(hr__array_unify(&mem, times, ns, &got, &err), &err);
    assert_true(hr__array_is_null(got, 1));
    assert_int_equal(((const int64_t *)(const void *)hr__array_values(got))[0], -1000000000);
    assert_int_equal(((const int64_t *)(const void *)hr__array_values(got))[2], 1700000000000000000);
    hr__array_unref(got);
    hr__array_unref(times);
    hr__array_unref(a);
    a = array_of_ints((const int64_t[]){ INT64_C(99999999999) }, 1);
    assert_ok(hr__array_new(s, 1, 0, (hr_buffer *[3]){ NULL, hr__buffer_ref(a->buffers[1]) }, NULL, 0, &times, NULL),
              NULL);
    assert_status(hr__array_unify(&mem, times, ns, &got, &err), HR_TYPE, &err);
    assert_contains(err.text, "row 0: the time 99999999999 does not fit the finer unit");
    hr__array_unref(times);
    hr__array_unref(a);
    hr__type_unref(s);
    hr__type_unref(ns);
    hr_error_clear(&err);
}

static hr_status unify_with_faults(void *context, hr_error *err)
{
    hr_type **types = context, *from = types[0], *to = types[1];
    hr_array *got = NULL, *a = NULL;
    hr_type *both = NULL;
    hr_mem mem = { NULL, NULL };
    hr_status st = HR_OK;

    HR_GO(hr__array_nulls(&mem, from, 5, &a, err));
    HR_GO(hr__type_unify(from, to, &both, err));
    HR_GO(hr__array_unify(&mem, a, both, &got, err));
done:
    hr__array_unref(a);
    hr__array_unref(got);
    hr__type_unref(both);
    return st;
}

static void faults(void **state)
{
    hr_type *types[] = { struct_of("a", HR_T_INT16, "b", HR_T_STRING),
                         struct_of("b", HR_T_LARGE_STRING, "c", HR_T_BOOL) };

    (void)state;
    run_with_faults_on(unify_with_faults, types, HR_FAULT_MEMORY);
    hr__type_unref(types[0]);
    hr__type_unref(types[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),         cmocka_unit_test(more_types), cmocka_unit_test(values),
        cmocka_unit_test(nested_values), cmocka_unit_test(no_double),  cmocka_unit_test(finer_units),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
