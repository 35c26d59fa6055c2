/* test_gather.c - take, concat and gather, compared with copying value by value, for every type. */
#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>

/* --------------------------------------------------------------------------------------- compared with the slow way */

static void random_takes(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);

        for (int round = 0; round < 12; round++) {
            int64_t n_rows = round ? random_below(&seed, 60) : 0, n = random_below(&seed, 90), idx[90];
            hr_array *a = random_array(&seed, type, n_rows), *got = NULL, *got32 = NULL, *want;
            hr_builder *b = builder_of(type);
            hr_error err = HR_ERROR_INIT;
            int32_t idx32[90];
            bool nulls = n_rows == 0 || random_below(&seed, 2), ascending = random_below(&seed, 3) == 0;

            for (int64_t i = 0; i < n; i++) {
                idx[i] = nulls && random_below(&seed, 4) == 0 ? -1 : n_rows ? random_below(&seed, n_rows) : -1;
                if (ascending && n_rows)
                    idx[i] = i % n_rows;
                idx32[i] = (int32_t)idx[i];
                if (idx[i] < 0)
                    assert_int_equal(hr__builder_null(b, NULL), HR_OK);
                else
                    append_value(b, a, idx[i]);
            }
            want = finish(b);
            assert_ok(hr__array_take(NULL, a, idx, 8, n, &got, &err), &err);
            assert_ok(hr__array_take(NULL, a, idx32, 4, n, &got32, &err), &err);
            assert_ok(hr__array_check(got, true, &err), &err);
            assert_ok(hr__array_check(got32, true, &err), &err);
            assert_int_equal(got->offset, 0);
            assert_same_array(got, want);
            assert_same_array(got32, want);
            assert_int_equal(hr__array_null_count(got), hr__array_null_count(want));
            hr__array_unref(got);
            hr__array_unref(got32);
            hr__array_unref(want);
            hr__array_unref(a);
        }
        hr__type_unref(type);
    }
}

static void random_gathers(void **state)
{
    uint64_t seed = 2;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);

        for (int round = 0; round < 12; round++) {
            hr_span spans[24];
            hr_array *parts[24], *got = NULL, *want;
            hr_builder *b = builder_of(type);
            hr_error err = HR_ERROR_INIT;
            int n = (int)random_below(&seed, HR_LEN(spans));

            for (int i = 0; i < n; i++) {
                parts[i] = random_array(&seed, type, random_below(&seed, 20));
                spans[i].array = random_below(&seed, 6) ? parts[i] : NULL;
                spans[i].begin = random_below(&seed, parts[i]->length + 1);
                spans[i].n = random_below(&seed, parts[i]->length - spans[i].begin + 1);
                for (int64_t r = 0; r < spans[i].n; r++) {
                    if (spans[i].array)
                        append_value(b, parts[i], spans[i].begin + r);
                    else
                        assert_int_equal(hr__builder_null(b, NULL), HR_OK);
                }
            }
            want = finish(b);
            assert_ok(hr__array_gather(NULL, type, spans, n, &got, &err), &err);
            assert_ok(hr__array_check(got, true, &err), &err);
            assert_same_array(got, want);
            hr__array_unref(got);
            hr__array_unref(want);
            for (int i = 0; i < n; i++)
                hr__array_unref(parts[i]);
        }
        hr__type_unref(type);
    }
}

static void random_concats(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);

        for (int n = 0; n < 20; n += n < 4 ? 1 : 15) {
            hr_array *parts[20], *got = NULL, *want;
            hr_builder *b = builder_of(type);
            hr_error err = HR_ERROR_INIT;

            for (int i = 0; i < n; i++) {
                parts[i] = random_array(&seed, type, random_below(&seed, 40));
                for (int64_t r = 0; r < parts[i]->length; r++)
                    append_value(b, parts[i], r);
            }
            want = finish(b);
            assert_ok(hr__array_concat(NULL, type, parts, n, &got, &err), &err);
            assert_ok(hr__array_check(got, true, &err), &err);
            assert_same_array(got, want);
            if (n == 1 && got->buffers[1])
                assert_ptr_not_equal(got->buffers[1], parts[0]->buffers[1]); /* a copy */
            hr__array_unref(got);
            hr__array_unref(want);
            for (int i = 0; i < n; i++)
                hr__array_unref(parts[i]);
        }
        hr__type_unref(type);
    }
}

static void nulls_of_every_type(void **state)
{
    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_error err = HR_ERROR_INIT;

        for (int64_t n = 0; n < 20; n += 9) {
            hr_array *a = NULL;

            assert_ok(hr__array_nulls(NULL, type, n, &a, &err), &err);
            assert_ok(hr__array_check(a, true, &err), &err);
            assert_int_equal(a->length, n);
            assert_int_equal(hr__array_null_count(a), n);
            for (int64_t i = 0; i < n; i++)
                assert_true(hr__array_is_null(a, i));
            hr__array_unref(a);
        }
        hr__type_unref(type);
    }
}

/* ----------------------------------------------------------------------------------------------------- single cases */

static void validity_is_dropped_where_nothing_is_null(void **state)
{
    static const int64_t values[] = { 1, INT64_MIN, 3 }, idx[] = { 0, 2, 2 };
    hr_array *a = array_of_ints(values, 3), *taken = NULL, *part = NULL, *joined = NULL;
    hr_span span = { a, 2, 1 };

    (void)state;
    assert_int_equal(hr__array_take(NULL, a, idx, 8, 3, &taken, NULL), HR_OK);
    assert_string_equal(values_text(taken), "1 3 3");
    assert_null(taken->buffers[0]);
    assert_int_equal(hr__array_gather(NULL, a->type, &span, 1, &joined, NULL), HR_OK);
    assert_null(joined->buffers[0]);
    hr__array_unref(joined);
    hr__array_unref(taken);
    hr__array_unref(part);
    hr__array_unref(a);
}

static void rows_outside(void **state)
{
    static const int64_t values[] = { 1, 2, 3 };
    static const int64_t outside[][2] = { { 0, 3 }, { -2, 0 } };
    hr_array *a = array_of_ints(values, 3), *taken = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(outside); i++) {
        assert_status(hr__array_take(NULL, a, outside[i], 8, 2, &taken, &err), HR_BUG, &err);
        assert_null(taken);
    }
    assert_status(hr__array_take(NULL, a, outside, 2, 1, &taken, &err), HR_BUG, &err);
    hr__array_unref(a);
}

static void concat_of_other_types(void **state)
{
    static const int64_t values[] = { 1 };
    static const char *const texts[] = { "a" };
    hr_array *parts[2] = { array_of_ints(values, 1), array_of_strings(texts, 1) }, *joined = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_status(hr__array_concat(NULL, NULL, parts, 2, &joined, &err), HR_BUG, &err);
    assert_status(hr__array_concat(NULL, NULL, NULL, 0, &joined, &err), HR_BUG, &err);
    assert_null(joined);
    hr__array_unref(parts[0]);
    hr__array_unref(parts[1]);
}

/* Text whose size only the offsets claim: a refused array is never read. */
static hr_array *huge(hr_type *type, int32_t n_bytes)
{
    static const uint8_t byte = 'x';
    const int32_t offsets[2] = { 0, n_bytes };
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array *a = NULL, *child = NULL;
    hr_type *null = hr__type_simple(HR_T_NULL);

    assert_int_equal(hr__buffer_copy(NULL, offsets, sizeof offsets, &buffers[1], NULL), HR_OK);
    if (type->n_children)
        assert_int_equal(hr__array_new(null, n_bytes, n_bytes, NULL, NULL, 0, &child, NULL), HR_OK);
    else
        assert_int_equal(hr__buffer_wrap(&byte, n_bytes, NULL, NULL, &buffers[2], NULL), HR_OK);
    assert_int_equal(hr__array_new(type, 1, 0, buffers, &child, child != NULL, &a, NULL), HR_OK);
    return a;
}

static void offsets_of_32_bits(void **state)
{
    static const int64_t idx[] = { 0, 0 };
    hr_type *list = type_named("list<item: null>"), *types[2];

    (void)state;
    types[0] = hr__type_simple(HR_T_STRING);
    types[1] = list;
    for (int i = 0; i < 2; i++) {
        hr_error err = HR_ERROR_INIT;
        hr_array *a = huge(types[i], INT32_MAX - 5), *b = huge(types[i], 5), *over = NULL;
        hr_array *parts[3] = { a, b, b };

        assert_status(hr__array_take(NULL, a, idx, 8, 2, &over, &err), HR_BUDGET, &err);
        assert_contains(err.text, "2 GiB");
        assert_status(hr__array_concat(NULL, types[i], parts, 3, &over, &err), HR_BUDGET, &err);
        assert_contains(err.text, i ? "list<item: null>" : "large_string");
        assert_null(over);
        if (i) { /* 2^31 - 1 values of no bytes are fine */
            assert_ok(hr__array_concat(NULL, types[i], parts, 2, &over, &err), &err);
            assert_int_equal(over->children[0]->length, INT32_MAX);
        }
        hr__array_unref(over);
        hr__array_unref(a);
        hr__array_unref(b);
    }
    hr__type_unref(list);
}

static void rows_that_no_number_counts(void **state)
{
    hr_type *null = hr__type_simple(HR_T_NULL), *wide = NULL;
    hr_span spans[2] = { { NULL, 0, INT64_MAX / 2 }, { NULL, 0, INT64_MAX / 2 + 9 } };
    hr_field item = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_array *a = NULL;

    (void)state;
    assert_status(hr__array_gather(NULL, null, spans, 2, &a, &err), HR_NO_MEMORY, &err);
    assert_ok(hr__field_init(&item, "item", null, true, &err), &err);
    assert_ok(hr__type_list(HR_T_FIXED_LIST, &item, INT32_MAX, &wide, &err), &err);
    assert_status(hr__array_nulls(NULL, wide, (int64_t)1 << 40, &a, &err), HR_NO_MEMORY, &err);
    assert_status(hr__array_nulls(NULL, hr__type_simple(HR_T_INT64), (int64_t)1 << 61, &a, &err), HR_NO_MEMORY, &err);
    assert_null(a);
    hr__type_unref(wide);
    hr__field_clear(&item);
}

/* Text next to the end of foreign memory: copies of 16 bytes must not reach beyond. The sanitizer watches. */
static void short_text_at_the_end(void **state)
{
    (void)state;
    for (int n = 0; n <= 20; n++) {
        char *text = test_malloc((size_t)n + 1);
        int32_t offsets[2] = { 0, n };
        int64_t idx[3] = { 0, -1, 0 };
        hr_buffer *buffers[3] = { NULL, NULL, NULL };
        hr_array *a = NULL, *got = NULL;
        char want[80];

        memset(text, 'a' + n, (size_t)n);
        text[n] = 0;
        snprintf(want, sizeof want, "%s null %s", text, text);
        assert_int_equal(hr__buffer_copy(NULL, offsets, sizeof offsets, &buffers[1], NULL), HR_OK);
        assert_int_equal(hr__buffer_wrap(text, n, NULL, NULL, &buffers[2], NULL), HR_OK);
        assert_int_equal(hr__array_new(hr__type_simple(HR_T_STRING), 1, 0, buffers, NULL, 0, &a, NULL), HR_OK);
        assert_int_equal(hr__array_take(NULL, a, idx, 8, 3, &got, NULL), HR_OK);
        assert_string_equal(values_text(got), want);
        hr__array_unref(got);
        hr__array_unref(a);
        test_free(text);
    }
}

/* -------------------------------------------------------------------------------------------------- faults, threads */

static hr_status take_and_concat(void *context, hr_error *err)
{
    static const int64_t idx[] = { 3, 1, -1, 4, 4, 0 };
    hr_array *a = context, *parts[18], *taken = NULL, *joined = NULL;
    hr_status st = HR_OK;

    for (int i = 0; i < HR_LEN(parts); i++)
        parts[i] = a;
    HR_GO(hr__array_take(NULL, a, idx, 8, HR_LEN(idx), &taken, err));
    HR_GO(hr__array_concat(NULL, a->type, parts, HR_LEN(parts), &joined, err));
done:
    hr__array_unref(taken);
    hr__array_unref(joined);
    return st;
}

static void faults(void **state)
{
    uint64_t seed = 4;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_array *a = random_array(&seed, type, 5);

        run_with_faults_on(take_and_concat, a, HR_FAULT_MEMORY);
        hr__array_unref(a);
        hr__type_unref(type);
    }
}

static void take_on_thread(void *arg, int thread)
{
    hr_error err = HR_ERROR_INIT;

    (void)thread;
    for (int i = 0; i < 50; i++)
        if (take_and_concat(arg, &err))
            abort();
}

static void threads(void **state)
{
    uint64_t seed = 5;
    hr_type *type = sample_type(n_sample_types() - 41 + 21);
    hr_array *a = random_array(&seed, type, 5);

    (void)state;
    run_threads(4, take_on_thread, a);
    hr__array_unref(a);
    hr__type_unref(type);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_takes),
        cmocka_unit_test(random_gathers),
        cmocka_unit_test(random_concats),
        cmocka_unit_test(nulls_of_every_type),
        cmocka_unit_test(validity_is_dropped_where_nothing_is_null),
        cmocka_unit_test(rows_outside),
        cmocka_unit_test(concat_of_other_types),
        cmocka_unit_test(offsets_of_32_bits),
        cmocka_unit_test(rows_that_no_number_counts),
        cmocka_unit_test(short_text_at_the_end),
        cmocka_unit_test(faults),
        cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
