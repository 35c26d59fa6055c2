/* test_materialize.c - a plan's rows are kept and read again. */
#include "harness.h"

#include "feed/feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows 0, 1, 2, ... come out, n of them. */
static hr_status check_rows(hr_plan *p, int64_t n, hr_error *err)
{
    hr_feed *f = NULL;
    hr_table *t = NULL;
    int64_t next = 0;
    hr_status st;

    HR_GO(hr_feed_open(p, NULL, &f, err));
    for (;; hr_table_unref(t)) {
        hr_column_view v = { .struct_bytes = sizeof v };

        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        assert_int_equal(hr_table_column_view(t, 0, &v, NULL), HR_OK);
        for (int64_t i = 0; i < v.n_rows; i++)
            assert_int_equal(((const int64_t *)v.data)[i], next++);
    }
    assert_int_equal(next, n);
done:
    hr_feed_close(f);
    return st;
}

static hr_status materialize(int64_t n, int64_t limit, bool on_disk, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .memory_limit = limit };
    hr_plan *p = NULL, *q = NULL;
    int64_t counted = 0;
    char *text = NULL;
    hr_status st;

    HR_GO(hr_plan_range(n, "x", &p, err));
    HR_GO(hr_plan_materialize(p, &options, &q, err));
    HR_GO(hr_plan_count(q, &counted, err));
    assert_true(counted >= 0);
    assert_int_equal(counted, n);
    HR_GO(hr_plan_explain(q, &text, err));
    assert_contains(text, "memory [");
    assert_int_equal(strstr(text, "on disk") != NULL, on_disk);
    assert_int_equal(hr_spill_used() > 0, on_disk);
    HR_GO(check_rows(q, n, err));
    HR_GO(check_rows(q, n, err));
done:
    hr_string_free(text);
    hr_plan_unref(p);
    hr_plan_unref(q);
    assert_int_equal(hr_spill_used(), 0);
    return st;
}

static void test_sizes(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(materialize(0, 0, false, &err), &err);
    assert_ok(materialize(1, 0, false, &err), &err);
    assert_ok(materialize(100000, 0, false, &err), &err);
    assert_ok(materialize(2000000, 4 << 20, true, &err), &err);
    assert_no_leak(before);
}

static hr_status fail_late(void *context, void *thread, const hr_table *in, hr_table **out, hr_error *err)
{
    hr_column_view v = { .struct_bytes = sizeof v };

    (void)context;
    (void)thread;
    HR_TRY(hr_table_column_view(in, 0, &v, err));
    if (((const int64_t *)v.data)[0] > 1500000)
        return hr_error_set(err, HR_CALLBACK, "late");
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

/* An error after much that is on the disk: nothing of it stays. */
static void test_error(void **state)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .memory_limit = 4 << 20 };
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "late", .call = fail_late };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL, *q = NULL, *kept = NULL;

    (void)state;
    assert_ok(hr_plan_range(2000000, "x", &p, &err), &err);
    assert_ok(hr_plan_map(p, &fn, NULL, &q, &err), &err);
    assert_status(hr_plan_materialize(q, &options, &kept, &err), HR_CALLBACK, &err);
    assert_null(kept);
    assert_contains(err.text, "late");
    hr_plan_unref(p);
    hr_plan_unref(q);
    hr_error_clear(&err);
    assert_int_equal(hr_spill_used(), 0);
    assert_no_leak(before);
}

static hr_status with_faults(hr_error *err) { return materialize(3000, 0, false, err); }

static void test_faults(void **state)
{
    (void)state;
    run_with_faults(with_faults, HR_FAULT_MEMORY | MAY_RECOVER); /* markers are left out */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
