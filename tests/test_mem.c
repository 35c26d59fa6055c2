/* test_mem.c - counted allocation, growing arrays, texts, JSON strings. */
#include "base/pages.h"
#include "harness.h"

#include <stdio.h>

enum { HEAD = 16 }; /* bytes charged with each block */

static void counted(void **state)
{
    live_memory before = live_now();
    hr_account *a = hr__account_new("a", NULL, 0);
    int64_t root = hr_memory_used();
    char *p, *q;

    (void)state;
    p = hr__alloc(a, 100);
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_int_equal(hr__account_used(a), 100 + HEAD);
    assert_int_equal(hr_memory_used(), root + 100 + HEAD);
    q = hr__zalloc(a, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(q[i], 0);
    memset(p, 7, 100);
    p = hr__realloc(NULL, p, 5000); /* keeps its account */
    assert_int_equal(hr__account_used(a), 6000 + 2 * HEAD);
    for (int i = 0; i < 100; i++)
        assert_int_equal(p[i], 7);
    p = hr__realloc(a, p, 10);
    assert_int_equal(hr__account_used(a), 1010 + 2 * HEAD);
    assert_int_equal(hr__account_peak(a), 6000 + 2 * HEAD);
    hr__free(q);
    hr__free(NULL);
    assert_int_equal(hr__account_used(a), 10 + HEAD);
    hr__account_unref(a); /* the block keeps it */
    assert_int_equal(live_now().blocks, before.blocks + 2);
    hr__free(p);
    assert_no_leak(before);
}

static void odd_sizes(void **state)
{
    live_memory before = live_now();
    void *p = hr__alloc(NULL, 0), *q = hr__realloc(NULL, NULL, 0);

    (void)state;
    assert_non_null(p);
    assert_non_null(q);
    assert_ptr_not_equal(p, q);
    assert_null(hr__alloc(NULL, SIZE_MAX));
    assert_null(hr__zalloc(NULL, SIZE_MAX - 8));
    assert_null(hr__alloc(NULL, PTRDIFF_MAX));
    assert_null(hr__realloc(NULL, p, SIZE_MAX - 3)); /* p stays */
    if (!SANITIZED) { /* what malloc itself refuses; sanitizers end the program instead */
        assert_null(hr__realloc(NULL, p, PTRDIFF_MAX / 2));
        assert_null(hr__alloc(NULL, PTRDIFF_MAX / 2));
    }
    assert_non_null(p = hr__realloc(NULL, p, 0));
    hr__free(p);
    hr__free(q);
    assert_no_leak(before);
}

/* Blocks from 256 KiB on are blocks of pages: charged as such, and in the pool when they are free. */
static void large_blocks(void **state)
{
    live_memory before = live_now();
    hr_account *a = hr__account_new("a", NULL, 0);
    size_t border = 256 << 10;
    char *p, *q;

    (void)state;
    hr__pool_trim(0);
    p = hr__alloc(a, border - 1);
    assert_int_equal(hr__account_used(a), (int64_t)border - 1 + HEAD);
    hr__free(p);
    assert_int_equal(hr__pool_bytes(), 0);
    p = hr__alloc(a, border);
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_int_equal(hr__account_used(a),
                     hr__pages_charged(hr__pages_class((int64_t)border))); /* the head is no matter */
    hr__pool_trim(0);
    memset(p, 7, border);
    hr__free(p);
    assert_true(hr__pool_bytes() >= (int64_t)border);
    q = hr__zalloc(a, border); /* what was used is made zero */
    assert_ptr_equal(p, q);
    assert_int_equal(hr__pool_bytes(), 0);
    for (size_t i = 0; i < border; i++)
        if (q[i])
            fail_msg("byte %zu is %d", i, q[i]);
    hr__free(q);
    hr__pool_trim(0);
    assert_int_equal(hr__account_used(a), 0);
    assert_null(hr__alloc(a, (size_t)hr__pages_most() + 1));
    hr__account_unref(a);
    assert_no_leak(before);
}

/* From small to large, within large, and back: what was there stays. */
static void large_blocks_change_size(void **state)
{
    static const size_t sizes[] = { 10,     1000,    262143,        262144, 262145,  300000,  327680,
                                    327681, 1 << 20, 600000,        500000, 1 << 22, 3 << 20, 1 << 24,
                                    1000,   1 << 20, (1 << 20) + 1, 262143, 0,       1 << 21 };
    live_memory before = live_now();
    hr_account *a = hr__account_new("a", NULL, 0);
    size_t had = 0;
    char *p = NULL, *was;

    (void)state;
    for (int i = 0; i < HR_LEN(sizes); i++) {
        size_t n = sizes[i], kept = HR_MIN(n, had);
        assert_non_null(p = hr__realloc(a, p, n));
        for (size_t j = 0; j < kept; j++)
            if (p[j] != (char)(j * 31 >> 3))
                fail_msg("byte %zu after %zu bytes became %zu", j, had, n);
        for (size_t j = 0; j < n; j++)
            p[j] = (char)(j * 31 >> 3);
        assert_in_range(hr__account_used(a), n, 2 * n + 8192);
        had = n;
    }
    was = p; /* no move where it fits */
    assert_ptr_equal(p = hr__realloc(a, p, (1 << 21) - 1000), was);
    assert_ptr_equal(p = hr__realloc(a, p, 1 << 21), was);
    hr__fault_arm(HR_FAULT_MEMORY, 0);
    assert_null(hr__realloc(a, p, 1 << 23)); /* p stays */
    assert_true(hr__fault_disarm());
    assert_int_equal(p[1000], (char)(1000 * 31 >> 3));
    hr__free(p);
    assert_int_equal(hr__account_used(a), 0);
    hr__account_unref(a);
    assert_no_leak(before);
}

static void strings(void **state)
{
    live_memory before = live_now();
    char *a = hr__strdup(NULL, "abc"), *b = hr__strndup(NULL, "abcdef", 4), *c = hr__printf(NULL, "%d-%s", 7, "x");
    char *d = hr__printf(NULL, "%600d", 1);

    (void)state;
    assert_string_equal(a, "abc");
    assert_string_equal(b, "abcd");
    assert_string_equal(c, "7-x");
    assert_int_equal(strlen(d), 600);
    assert_null(hr__strdup(NULL, NULL));
    assert_null(hr__strndup(NULL, NULL, 3));
    hr__free(a);
    hr__free(b);
    hr__free(c);
    hr__free(d);
    assert_no_leak(before);
}

static void growing(void **state)
{
    live_memory before = live_now();
    void *items = NULL;
    int64_t cap = 0, times = 0, last = 0;

    (void)state;
    for (int64_t n = 1; n <= 10000; n++) {
        assert_true(hr__grow(NULL, &items, &cap, n, sizeof(int64_t)));
        assert_true(cap >= n);
        times += cap != last;
        last = cap;
        ((int64_t *)items)[n - 1] = n;
    }
    assert_in_range(times, 5, 14); /* doubling */
    for (int64_t n = 1; n <= 10000; n++)
        assert_int_equal(((int64_t *)items)[n - 1], n);
    assert_false(hr__grow(NULL, &items, &cap, INT64_MAX, sizeof(int64_t)));
    assert_false(hr__grow(NULL, &items, &cap, INT64_MAX / 8, sizeof(int64_t)));
    assert_int_equal(cap, last);
    assert_int_equal(((int64_t *)items)[9999], 10000);
    hr__free(items);
    assert_no_leak(before);
}

static void texts(void **state)
{
    live_memory before = live_now();
    hr_text t = { 0 };
    char want[3000] = "";
    int n = 0;

    (void)state;
    for (int i = 0; i < 200; i++) {
        hr__text_add(&t, "%d,", i);
        n += snprintf(want + n, sizeof want - (size_t)n, "%d,", i);
    }
    assert_string_equal(t.data, want);
    assert_int_equal(t.n, n);
    hr__text_add(&t, "%-1000d", 5); /* longer than the buffer inside */
    assert_int_equal(t.n, n + 1000);
    assert_int_equal(strlen(t.data), n + 1000);
    hr__text_add_bytes(&t, "a\0b", 3);
    assert_memory_equal(t.data + t.n - 3, "a\0b", 4);
    hr__text_add_bytes(&t, NULL, 0);
    hr__text_clear(&t);
    assert_null(t.data);
    hr__text_add(&t, "%s", "");
    assert_string_equal(t.data, "");
    hr__text_clear(&t);
    assert_no_leak(before);
}

static void failed_texts_stay_valid(void **state)
{
    hr_text t = { 0 };

    (void)state;
    hr__text_add(&t, "abc");
    hr__fault_arm(HR_FAULT_MEMORY, 0);
    hr__text_add(&t, "%200d", 1);
    assert_true(hr__fault_disarm());
    assert_true(t.failed);
    assert_string_equal(t.data, "abc");
    hr__text_add(&t, "d"); /* no holes */
    assert_string_equal(t.data, "abc");
    assert_int_equal(t.n, 3);
    hr__text_clear(&t);
    assert_false(t.failed);
}

static const struct {
    const char *in, *want;
} json[] = {
    { "plain", "\"plain\"" },
    { "", "\"\"" },
    { NULL, "null" },
    { "a\"b\\c/", "\"a\\\"b\\\\c/\"" },
    { "\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"" },
    { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x8e", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x8e\"" },
    { "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80", "\"\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80\"" }, /* the last ones */
    { "a\xff"
      "b\x80",
      "\"a\\ufffdb\\ufffd\"" },
    { "\xc3", "\"\\ufffd\"" },                       /* cut */
    { "\xe2\x82", "\"\\ufffd\\ufffd\"" },            /* cut */
    { "\xc0\x80", "\"\\ufffd\\ufffd\"" },            /* overlong */
    { "\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\"" }, /* overlong */
    { "\xf0\x8f\xbf\xbf", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
    { "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" },            /* a surrogate */
    { "\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" }, /* above 10FFFF */
    { "\xe2\x82x", "\"\\ufffd\\ufffdx\"" },
};

static void json_strings(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(json); i++) {
        hr_text t = { 0 };
        hr__text_add_json(&t, json[i].in);
        assert_string_equal(t.data, json[i].want);
        hr__text_clear(&t);
    }
}

/* Everything that allocates, once. */
static hr_status allocate_all(hr_error *err)
{
    hr_status st = HR_OK;
    hr_account *a = hr__account_new("all", NULL, 0);
    void *items = NULL, *p;
    char *s[4] = { NULL };
    hr_text t = { .account = a };
    int64_t cap = 0;

    hr__pool_trim(0); /* each time the same */
    if (!a || !(s[0] = hr__alloc(a, 10)) || !(s[1] = hr__strdup(a, "x")) || !(s[2] = hr__printf(a, "%d", 1)) ||
        !(s[3] = hr__zalloc(a, 10)) || !hr__grow(a, &items, &cap, 10, 4) || !hr__grow(a, &items, &cap, 100, 4))
        HR_FAIL(HR_NO_MEMORY, "no memory");
    if (!(p = hr__realloc(a, s[0], 100)))
        HR_FAIL(HR_NO_MEMORY, "no memory");
    s[0] = p;
    if (!(p = hr__realloc(a, s[0], 1 << 20)))
        HR_FAIL(HR_NO_MEMORY, "no memory");
    s[0] = p;
    hr__text_add(&t, "%300d", 3);
    hr__text_add_json(&t, "\n");
    if (t.failed)
        HR_FAIL(HR_NO_MEMORY, "no memory");
done:
    for (int i = 0; i < 4; i++)
        hr__free(s[i]);
    hr__free(items);
    hr__text_clear(&t);
    hr__account_unref(a);
    return st;
}

static void faults(void **state)
{
    (void)state;
    assert_int_equal(run_with_faults(allocate_all, HR_FAULT_MEMORY), 12);
    assert_int_equal(run_with_faults(allocate_all, HR_FAULT_MEMORY | HR_FAULT_IO), 12);
}

/* Blocks are freed by other threads than those that made them; sums must come out even. */
enum { THREADS = 4, ROUNDS = 2000, SLOTS = 64 };

typedef struct exchange {
    hr_account *accounts[THREADS];
    _Atomic(void *) slots[SLOTS];
} exchange;

static void exchange_blocks(void *arg, int thread)
{
    exchange *x = arg;
    uint64_t random = (uint64_t)thread;

    for (int i = 0; i < ROUNDS; i++) {
        size_t n = (size_t)random_below(&random, i % 50 ? 300 : 2 << 20);
        char *p = hr__alloc(x->accounts[thread], n);
        memset(p, thread, n);
        if (i % 3 == 0)
            p = hr__realloc(NULL, p, n + 50);
        hr__free(atomic_exchange(&x->slots[random_below(&random, SLOTS)], p));
    }
}

static void threads(void **state)
{
    live_memory before = live_now();
    hr_account *run = hr__account_new("run", NULL, 0);
    exchange x = { 0 };

    (void)state;
    for (int i = 0; i < THREADS; i++)
        x.accounts[i] = hr__account_new("thread", run, 0);
    run_threads(THREADS, exchange_blocks, &x);
    for (int i = 0; i < THREADS; i++)
        hr__account_unref(x.accounts[i]);
    assert_true(hr__account_used(run) > 0);
    for (int i = 0; i < SLOTS; i++)
        hr__free(x.slots[i]);
    assert_int_equal(hr__account_used(run), 0);
    hr__account_unref(run);
    assert_no_leak(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted),
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(strings),
        cmocka_unit_test(large_blocks),
        cmocka_unit_test(large_blocks_change_size),
        cmocka_unit_test(growing),
        cmocka_unit_test(texts),
        cmocka_unit_test(failed_texts_stay_valid),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(faults),
        cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
