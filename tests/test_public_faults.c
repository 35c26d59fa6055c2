/* test_public_faults.c - each allocation and each system call fails in turn under calls of the public header: splits,
 * parsed expressions, text views, waits with a limit and by descriptor, cancelling, shutdown. */
#include "harness.h"

#include "headrace.h"

#include <poll.h>
#include <stdio.h>

static hr_status parse(hr_error *err)
{
    static const char *const texts[] = { "a > 1 and not is_null(b)", "is_in(k, [1, 2, 3]) | (col('any name') == 'x')",
                                         "cast(x + 1.5, to='string')" };
    hr_status st = HR_OK;
    hr_expr *e = NULL;
    char *text = NULL;

    for (int i = 0; i < HR_LEN(texts); i++) {
        HR_GO(hr_expr_parse(texts[i], &e, err));
        HR_GO(hr_expr_print(e, &text, err));
        hr_string_free(text);
        hr_expr_unref(e);
        text = NULL;
        e = NULL;
    }
done:
    hr_string_free(text);
    hr_expr_unref(e);
    return st;
}

/* Columns x, 0, 1, ... and s, the same as text. */
static hr_status plan_new(int64_t n, hr_plan **out, hr_error *err)
{
    const char *name = "s";
    hr_plan *range = NULL;
    hr_status st = HR_OK;
    hr_expr *e = NULL;

    HR_GO(hr_plan_range(n, "x", &range, err));
    HR_GO(hr_expr_parse("cast(x, to='string')", &e, err));
    HR_GO(hr_plan_with_columns(range, &name, &e, 1, out, err));
done:
    hr_expr_unref(e);
    hr_plan_unref(range);
    return st;
}

/* Column s is the text of column x. */
static hr_status check_texts(const hr_table *t, hr_error *err)
{
    hr_column_view x = { .struct_bytes = sizeof x };
    hr_text_view s = { .struct_bytes = sizeof s };
    char want[24];

    HR_TRY(hr_table_column_view(t, 0, &x, err));
    HR_TRY(hr_table_text_view(t, 1, &s, err));
    for (int64_t i = 0; i < s.n_rows; i++) {
        int64_t n, length = snprintf(want, sizeof want, "%lld", (long long)((const int64_t *)x.data)[i]);
        const char *text = hr_text_at(&s, i, &n);

        assert_int_equal(n, length);
        assert_memory_equal(text, want, (size_t)n);
    }
    return HR_OK;
}

/* The next table by the feed's descriptor; *out NULL: the end. */
static hr_status next_polled(hr_feed *f, int fd, hr_table **out, hr_error *err)
{
    hr_status st;

    while ((st = hr_feed_next_within(f, 0, out, err)) == HR_PENDING) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        assert_true(poll(&p, 1, 60000) > 0); /* a limit that only a hang reaches */
    }
    return st;
}

static hr_status wait_and_cancel(hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 7, .prefetch = 1 };
    hr_status st = HR_OK;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    int fd;

    HR_GO(plan_new(40, &p, err));
    HR_GO(hr_feed_open(p, &o, &f, err));
    HR_GO(hr_feed_descriptor(f, &fd, err));
    for (int i = 0; i < 3; i++) {
        HR_GO(i == 1 ? hr_feed_next_within(f, -1, &t, err) : next_polled(f, fd, &t, err));
        assert_non_null(t);
        HR_GO(check_texts(t, err));
        hr_table_unref(t);
        t = NULL;
    }
    hr_feed_cancel(f);
    st = hr_feed_next_within(f, -1, &t, err);
    assert_int_equal(st, HR_CANCELLED);
    st = HR_OK;
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    return st;
}

/* Two ranks served by one thread, which waits for none. */
static hr_status split_pass(hr_split *s, hr_error *err)
{
    bool begun[2] = { false, false }, ended[2] = { false, false };
    hr_status st = HR_OK;
    hr_table *t = NULL;

    while (!ended[0] || !ended[1]) {
        for (int r = 0; r < 2; r++) {
            if (ended[r])
                continue;
            st = begun[r] ? hr_split_next(s, r, 1, &t, err) : hr_split_begin(s, r, 0, err);
            if (st && st != HR_PENDING)
                return st;
            ended[r] = !st && begun[r] && !t;
            begun[r] |= !st;
            hr_table_unref(t);
            t = NULL;
        }
    }
    return HR_OK;
}

static hr_status split(hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 4, .prefetch = 1 };
    char *at = NULL, *stats = NULL;
    hr_status st = HR_OK;
    hr_split *s = NULL;
    hr_plan *p = NULL;

    HR_GO(hr_plan_range(30, "x", &p, err));
    HR_GO(hr_split_open(p, 2, HR_TAIL_EQUAL, &o, &s, err));
    HR_GO(split_pass(s, err));
    HR_GO(hr_split_stats(s, &stats, err));
    HR_GO(hr_split_position(s, &at, err));
    HR_GO(hr_split_restore(s, at, err));
    HR_GO(split_pass(s, err));
done:
    hr_string_free(at);
    hr_string_free(stats);
    hr_split_close(s);
    hr_split_unref(s);
    hr_plan_unref(p);
    return st;
}

/* Threads start again after each shutdown. */
static hr_status run_and_shut_down(hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 7 };
    hr_status st = HR_OK;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;

    HR_GO(plan_new(20, &p, err));
    HR_GO(hr_feed_open(p, &o, &f, err));
    HR_GO(hr_feed_next(f, &t, err));
    hr_feed_close(f);
    f = NULL;
    HR_GO(hr_shutdown(err));
    HR_GO(check_texts(t, err)); /* tables stay */
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    return st;
}

static void test_parse(void **unused)
{
    (void)unused;
    assert_true(run_with_faults(parse, HR_FAULT_MEMORY) > 20);
}

/* Pool threads meet the faults in another order each time, and may be done before the fault that a run asks for. */
static void test_wait_and_cancel(void **unused)
{
    (void)unused;
    assert_true(run_with_faults(wait_and_cancel, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER) > 20);
}

static void test_split(void **unused)
{
    (void)unused;
    assert_true(run_with_faults(split, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER) > 20);
}

static void test_shutdown(void **unused)
{
    (void)unused;
    assert_true(run_with_faults(run_and_shut_down, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_wait_and_cancel),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_shutdown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
