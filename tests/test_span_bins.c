/* test_span_bins.c - bins of spans: what they cover, how many begin, what is refused; against sums by small steps. */
#include "harness.h"

#include "exec/exec.h"

#include <math.h>

#define MOST 10000

typedef struct found {
    hr_span_bin *list;
    int64_t n;
} found;

static found bins_of(const hr_track_span *spans, int64_t n, double width)
{
    hr_error err = HR_ERROR_INIT;
    found f;

    assert_ok(hr__span_bins(spans, n, width, MOST, &f.list, &f.n, &err), &err);
    return f;
}

static void assert_bin(const found *f, int64_t i, int64_t index, int kind, double share, int many)
{
    assert_true(i < f->n);
    assert_int_equal(f->list[i].index, index);
    assert_int_equal(f->list[i].kind, kind);
    assert_int_equal(f->list[i].many, many);
    assert_float_equal(f->list[i].share, share, 1e-9);
}

/* Two kinds over three bins; a gap without bins; a span without a length. */
static void test_places(void **state)
{
    static const hr_track_span spans[] = {
        { 0, 0.5, 0 }, { 0.5, 2.25, 1 }, { 2.5, 3, 0 }, { 7, 7, 1 }, { 7.5, 7.75, 0 }
    };
    found f = bins_of(spans, HR_LEN(spans), 1);

    (void)state;
    assert_int_equal(f.n, 7);
    assert_bin(&f, 0, 0, 0, 0.5, 1);
    assert_bin(&f, 1, 0, 1, 0.5, 1);
    assert_bin(&f, 2, 1, 1, 1, 0);
    assert_bin(&f, 3, 2, 0, 0.5, 1);
    assert_bin(&f, 4, 2, 1, 0.25, 0);
    assert_bin(&f, 5, 7, 0, 0.25, 1);
    assert_bin(&f, 6, 7, 1, 0, 1);
    hr__free(f.list);
}

/* What two spans of a kind cover counts once; what lies before 0 does not count. */
static void test_overlaps(void **state)
{
    static const hr_track_span spans[] = { { -1, 0.25, 0 }, { 1, 3, 0 }, { 1.5, 2, 0 }, { 2.5, 3.5, 0 } };
    found f = bins_of(spans, HR_LEN(spans), 1);

    (void)state;
    assert_int_equal(f.n, 4);
    assert_bin(&f, 0, 0, 0, 0.25, 1);
    assert_float_equal(f.list[1].share + f.list[2].share + f.list[3].share, 2.5, 1e-9);
    assert_int_equal(f.list[1].many + f.list[2].many + f.list[3].many, 3);
    hr__free(f.list);
}

static void test_random(void **state)
{
    enum { N = 400, KINDS = 3 };
    uint64_t at = 7;

    (void)state;
    for (int round = 0; round < 50; round++) {
        hr_track_span spans[N];
        double now = 0, of[KINDS] = { 0 }, width = 0.01 * (double)(1 + random_below(&at, 500));
        int64_t many = 0;

        for (int i = 0; i < N; i++) {
            double takes = 0.001 * (double)random_below(&at, 3000);

            now += 0.001 * (double)random_below(&at, 1000);
            spans[i] = (hr_track_span){ now, now + takes, (int32_t)random_below(&at, KINDS) };
            of[spans[i].kind] += takes;
            now += takes;
        }
        found f = bins_of(spans, N, width);

        for (int64_t i = 0; i < f.n; i++) {
            const hr_span_bin *b = &f.list[i], *last = i ? b - 1 : NULL;

            assert_true(b->share >= 0 && b->share <= 1 + 1e-9);
            assert_true(!last || last->index < b->index || (last->index == b->index && last->kind < b->kind));
            many += b->many;
            of[b->kind] -= b->share * width;
        }
        assert_int_equal(many, N);
        for (int k = 0; k < KINDS; k++)
            assert_float_equal(of[k], 0, 1e-6);
        hr__free(f.list);
    }
}

static void test_too_many(void **state)
{
    static const hr_track_span span = { 0, 10, 0 };
    hr_error err = HR_ERROR_INIT;
    hr_span_bin *list;
    int64_t n;

    (void)state;
    assert_ok(hr__span_bins(&span, 1, 1, 10, &list, &n, &err), &err);
    assert_int_equal(n, 10);
    hr__free(list);
    assert_ok(hr__span_bins(&span, 1, 1, 9, &list, &n, &err), &err);
    assert_int_equal(n, -1);
    hr__free(list);
    assert_ok(hr__span_bins(NULL, 0, 1, 9, &list, &n, &err), &err);
    assert_int_equal(n, 0);
    hr__free(list);
}

static void test_wrong(void **state)
{
    static const struct {
        hr_track_span spans[2];
        double width;
        const char *words;
    } cases[] = {
        { { { 0, 1, 0 }, { 1, 2, 0 } }, 0, "width" },
        { { { 0, 1, 0 }, { 1, 2, 0 } }, NAN, "width" },
        { { { 1, 2, 0 }, { 0, 1, 0 } }, 1, "found 0 after 1" },
        { { { 0, 1, 0 }, { 2, 1, 0 } }, 1, "kind 0 from 2 to 1" },
        { { { 0, 1, 0 }, { 1, 2, -1 } }, 1, "kind -1" },
        { { { 0, 1, 0 }, { 1, 2, HR_MOST_SPAN_KINDS } }, 1, "kind 4096" },
        { { { 0, 1, 0 }, { 1, INFINITY, 0 } }, 1, "inf" },
        { { { 0, 1, 0 }, { NAN, NAN, 0 } }, 1, "nan" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_span_bin *list;
        int64_t n;

        assert_int_equal(hr__span_bins(cases[i].spans, 2, cases[i].width, MOST, &list, &n, &err), HR_INVALID);
        assert_non_null(strstr(err.text, cases[i].words));
        assert_null(list);
    }
}

static hr_status one(hr_error *err)
{
    static const hr_track_span span = { 0, 10, 3 };
    hr_span_bin *list;
    int64_t n;

    HR_TRY(hr__span_bins(&span, 1, 1, 10, &list, &n, err));
    hr__free(list);
    return HR_OK;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(run_with_faults(one, HR_FAULT_MEMORY) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),   cmocka_unit_test(test_overlaps), cmocka_unit_test(test_random),
        cmocka_unit_test(test_too_many), cmocka_unit_test(test_wrong),    cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
