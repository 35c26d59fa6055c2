/* test_buffer.c - buffers of all kinds, shrinking, growing, bitmaps against naive loops. */
#include "harness.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)

/* Around every border: inline and pooled, quarter steps, huge pages. */
static const int64_t sizes[] = { 0,       1,           63,          64,      65,          4095,    4096,
                                 65535,   65536,       65537,       81920,   81921,       98304,   114688,
                                 131072,  131073,      262144,      MIB - 1, MIB,         MIB + 1, 2 * MIB,
                                 3000000, 4 * MIB - 1, 5 * MIB + 7, 8 * MIB, 8 * MIB + 1, 9999999, 16 * MIB + 1 };

static bool is_zero(const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

/* Fresh and from the pool: aligned, writable to the end, zero after it, charged for at least its size. */
static void all_sizes(void **state)
{
    live_memory before = live_now();
    hr_account *a = hr__account_new("a", NULL, 0);
    hr_mem mem = { .account = a };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < HR_LEN(sizes); i++) {
            hr_buffer *b = NULL;
            int64_t n = sizes[i];
            assert_ok(hr__buffer_new(&mem, n, &b, &err), &err);
            assert_int_equal((uintptr_t)b->data % 64, 0);
            assert_int_equal(b->n_bytes, n);
            assert_true(b->capacity >= n);
            assert_true(is_zero(b->data + n, HR_SLACK));
            assert_true(hr__account_used(a) >= n + HR_SLACK);
            assert_true(hr__account_used(a) <= n + n / 2 + 8192);
            memset(b->data, 0xEE, (size_t)b->capacity + HR_SLACK); /* what comes back dirty is not seen by the next */
            assert_true(hr__buffer_sole(b));
            hr__buffer_unref(b);
            assert_int_equal(hr__account_used(a), 0);
        }
    hr__account_unref(a);
    assert_no_leak(before);
}

static void impossible_sizes(void **state)
{
    static const int64_t bad[] = { -1, INT64_MIN, INT64_MAX, (int64_t)1 << 60, (int64_t)1 << 47 };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(bad); i++) {
        hr_buffer *b = (hr_buffer *)&err;
        assert_status(hr__buffer_new(NULL, bad[i], &b, &err), HR_NO_MEMORY, &err);
        assert_null(b);
        assert_contains(err.text, "buffer: no memory for");
    }
    assert_no_leak(before);
}

static void copies_and_references(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL;

    (void)state;
    assert_ok(hr__buffer_copy(NULL, "hello", 5, &b, &err), &err);
    assert_memory_equal(b->data, "hello\0\0\0", 8);
    assert_ptr_equal(hr__buffer_ref(b), b);
    assert_false(hr__buffer_sole(b));
    hr__buffer_unref(b);
    assert_true(hr__buffer_sole(b));
    hr__buffer_unref(b);
    assert_ok(hr__buffer_copy(NULL, NULL, 0, &b, &err), &err);
    assert_non_null(b->data);
    hr__buffer_unref(b);
    hr__buffer_unref(NULL);
    assert_null(hr__buffer_ref(NULL));
    assert_no_leak(before);
}

static void slices(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL, *s = NULL, *t = NULL, *bad = NULL;

    (void)state;
    assert_ok(hr__buffer_copy(NULL, "0123456789", 10, &b, &err), &err);
    assert_ok(hr__buffer_slice(b, 2, 6, &s, &err), &err);
    assert_ok(hr__buffer_slice(s, 1, 3, &t, &err), &err);
    assert_memory_equal(s->data, "234567", 6);
    assert_memory_equal(t->data, "345", 3);
    assert_int_equal(t->n_bytes, 3);
    assert_ptr_equal(t->owner, b); /* not a chain */
    assert_status(hr__buffer_slice(b, 8, 3, &bad, &err), HR_INVALID, &err);
    assert_status(hr__buffer_slice(b, -1, 3, &bad, &err), HR_INVALID, &err);
    assert_status(hr__buffer_slice(b, 0, -1, &bad, &err), HR_INVALID, &err);
    assert_status(hr__buffer_slice(b, 5, INT64_MAX, &bad, &err), HR_INVALID, &err);
    assert_status(hr__buffer_slice(s, 6, 1, &bad, &err), HR_INVALID, &err); /* a slice hides the rest */
    assert_null(bad);
    hr__buffer_unref(s);
    hr__buffer_unref(b);
    assert_memory_equal(t->data, "345", 3); /* alive by its slice */
    assert_true(hr__buffer_sole(t));
    assert_ok(hr__buffer_slice(t, 3, 0, &s, &err), &err);
    assert_false(hr__buffer_sole(t)); /* the parent has two */
    hr__buffer_unref(t);
    hr__buffer_unref(s);
    assert_no_leak(before);
}

static int released;
static void release(void *owner) { released += *(int *)owner; }

static void foreign(void **state)
{
    live_memory before = live_now();
    int64_t used = hr_memory_used();
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL, *s = NULL;
    int one = 1;

    (void)state;
    released = 0;
    assert_ok(hr__buffer_wrap("abcdef", 6, release, &one, &b, &err), &err);
    assert_true(hr_memory_used() - used < 256); /* the struct alone */
    assert_ok(hr__buffer_slice(b, 1, 2, &s, &err), &err);
    assert_false(hr__buffer_sole(b));
    hr__buffer_unref(b);
    assert_false(hr__buffer_sole(s)); /* not ours to write */
    hr__buffer_shrink(s, 1);          /* nor what follows it */
    assert_memory_equal(s->data, "bcdef", 5);
    assert_int_equal(released, 0);
    hr__buffer_unref(s);
    assert_int_equal(released, 1);
    assert_ok(hr__buffer_wrap(NULL, 0, NULL, NULL, &b, &err), &err);
    assert_ok(hr__buffer_slice(b, 0, 0, &s, &err), &err);
    hr__buffer_unref(b);
    hr__buffer_unref(s);
    assert_no_leak(before);
}

static hr_buffer *buffer_of(int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL;

    assert_ok(hr__buffer_new(NULL, n, &b, &err), &err);
    return b;
}

/* The results of functions that lie in pyarrow's memory did not count: a run grew to twenty times its limit. */
static void foreign_that_is_charged(void **state)
{
    const int64_t n = 1 << 20;
    live_memory before = live_now();
    int64_t used = hr_memory_used();
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL, *s = NULL;
    int one = 1;

    (void)state;
    assert_ok(hr__buffer_wrap("abcdef", 6, release, &one, &b, &err), &err);
    assert_ok(hr__buffer_slice(b, 1, 2, &s, &err), &err);
    hr__buffer_charge(b, 0);
    hr__buffer_charge(s, n);     /* the one that it is a slice of */
    hr__buffer_charge(b, 2 * n); /* once */
    assert_in_range(hr_memory_used() - used, n, n + 512);
    hr__buffer_unref(b);
    assert_in_range(hr_memory_used() - used, n, n + 512);
    hr__buffer_unref(s);
    assert_no_leak(before);
    b = buffer_of(10);
    used = hr_memory_used();
    hr__buffer_charge(b, n); /* our own is charged from the beginning */
    assert_int_equal(hr_memory_used(), used);
    hr__buffer_unref(b);
}

static void shrinking(void **state)
{
    live_memory before = live_now();
    hr_account *a = hr__account_new("a", NULL, 0);
    hr_mem mem = { .account = a };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int warm = 0; warm < 2; warm++) /* with and without a small free block to move to */
        for (int64_t to = 0; to <= 8 * MIB; to = to ? to * 3 : 1) {
            hr_buffer *b = NULL, *small = NULL;
            hr__pool_trim(0);
            assert_ok(hr__buffer_new(&mem, HR_MAX(to, 65536), &small, &err), &err);
            assert_ok(hr__buffer_new(&mem, 8 * MIB, &b, &err), &err);
            if (warm)
                hr__buffer_unref(small);
            memset(b->data, 0x5A, (size_t)b->capacity);
            hr__buffer_shrink(b, to);
            if (!warm)
                hr__buffer_unref(small);
            assert_int_equal(b->n_bytes, to);
            for (int64_t i = 0; i < to; i++)
                if (b->data[i] != 0x5A)
                    fail_msg("byte %lld of %lld", (long long)i, (long long)to);
            assert_true(is_zero(b->data + to, HR_SLACK));
            if (to <= 4 * MIB)
                assert_true(hr__account_used(a) <= HR_MAX(to + to / 2, 100000) + 10000);
            memset(b->data, 1, (size_t)b->capacity + HR_SLACK);
            hr__buffer_unref(b);
            assert_int_equal(hr__account_used(a), 0);
        }
    hr__account_unref(a);
    assert_no_leak(before);
}

static hr_status make_all(hr_error *err)
{
    hr_growbuf g = { 0 };
    hr_buffer *b[5] = { NULL };
    hr_status st = HR_OK;

    HR_GO(hr__buffer_new(NULL, 100, &b[0], err));
    HR_GO(hr__buffer_new(NULL, MIB, &b[1], err));
    HR_GO(hr__buffer_slice(b[1], 10, 20, &b[2], err));
    HR_GO(hr__buffer_copy(NULL, "x", 1, &b[3], err));
    hr__buffer_shrink(b[1], 5);
    for (int i = 0; i < 3; i++)
        HR_GO(hr__growbuf_add(&g, b[0]->data, 50, err));
    HR_GO(hr__growbuf_reserve(&g, 100000, err));
    HR_GO(hr__growbuf_finish(&g, &b[4], err));
done:
    for (int i = 0; i < 5; i++)
        hr__buffer_unref(b[i]);
    hr__growbuf_clear(&g);
    return st;
}

static hr_status wrap_one(hr_error *err)
{
    hr_buffer *b = NULL;
    int one = 1, before = released;
    hr_status st = hr__buffer_wrap("abc", 3, release, &one, &b, err);

    assert_int_equal(released, before); /* on failure not called */
    hr__buffer_unref(b);
    return st;
}

static void faults(void **state)
{
    hr_buffer *warm = buffer_of(MIB);

    (void)state;
    run_with_faults(make_all, HR_FAULT_MEMORY);
    hr__buffer_unref(warm); /* and once more with a pool that could help */
    run_with_faults(make_all, HR_FAULT_MEMORY);
    assert_int_equal(run_with_faults(wrap_one, HR_FAULT_MEMORY), 1);
}

/* Buffers of many sizes change hands between threads: contents stay, sums come out even. */
enum { THREADS = 4, ROUNDS = 1500, SLOTS = 32 };

static struct exchange {
    hr_account *account;
    _Atomic(hr_buffer *) slots[SLOTS];
} exchange;

static void check_filled(const hr_buffer *b)
{
    int64_t step = HR_MAX(1, b->n_bytes / 50);

    for (int64_t i = 0; i < b->n_bytes; i += step)
        if (b->data[i] != (uint8_t)b->n_bytes)
            abort();
    if (!is_zero(b->data + b->n_bytes, HR_SLACK))
        abort();
}

static void exchange_buffers(void *arg, int thread)
{
    uint64_t random = (uint64_t)thread * 77;
    hr_mem mem = { .account = exchange.account };

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t n = random_below(&random, (int64_t)1 << (6 + random_below(&random, 14)));
        hr_buffer *b = NULL;
        if (hr__buffer_new(&mem, n, &b, NULL))
            abort();
        memset(b->data, (uint8_t)n, (size_t)n);
        if (i % 5 == 0) {
            memset(b->data, (uint8_t)(n / 3), (size_t)n);
            hr__buffer_shrink(b, n / 3);
        }
        if (i % 100 == 0)
            hr__pool_trim(MIB / 2);
        b = atomic_exchange(&exchange.slots[random_below(&random, SLOTS)], b);
        if (b)
            check_filled(b);
        hr__buffer_unref(b);
    }
}

static void threads(void **state)
{
    live_memory before = live_now();

    (void)state;
    exchange.account = hr__account_new("exchange", NULL, 0);
    run_threads(THREADS, exchange_buffers, NULL);
    for (int i = 0; i < SLOTS; i++) {
        if (exchange.slots[i])
            check_filled(exchange.slots[i]);
        hr__buffer_unref(exchange.slots[i]);
        exchange.slots[i] = NULL;
    }
    assert_int_equal(hr__account_used(exchange.account), 0);
    hr__account_unref(exchange.account);
    assert_no_leak(before);
}

/* --------------------------------------------------------------------------------------------------------- growing */

static void growing(void **state)
{
    live_memory before = live_now();
    hr_account *a = hr__account_new("a", NULL, 0);
    hr_mem mem = { .account = a };
    hr_growbuf g = { .mem = &mem };
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL;
    int moves = 0;

    (void)state;
    for (int i = 0; i < 300000; i++) {
        uint8_t *was = g.buffer ? g.buffer->data : NULL;
        assert_ok(hr__growbuf_add(&g, &i, sizeof i, &err), &err);
        moves += g.buffer->data != was;
    }
    assert_in_range(moves, 5, 20);
    assert_ok(hr__growbuf_finish(&g, &b, &err), &err);
    assert_null(g.buffer);
    assert_int_equal(b->n_bytes, 300000 * sizeof(int));
    assert_true(is_zero(b->data + b->n_bytes, HR_SLACK));
    for (int i = 0; i < 300000; i++)
        assert_memory_equal(b->data + (size_t)i * sizeof i, &i, sizeof i);
    hr__buffer_unref(b);
    assert_ok(hr__growbuf_finish(&g, &b, &err), &err); /* nothing added */
    assert_int_equal(b->n_bytes, 0);
    assert_non_null(b->data);
    hr__buffer_unref(b);
    assert_ok(hr__growbuf_add(&g, NULL, 0, &err), &err);
    assert_ok(hr__growbuf_reserve(&g, 5 * MIB, &err), &err);
    assert_true(g.buffer->capacity >= 5 * MIB);
    assert_int_equal(g.buffer->n_bytes, 0);
    assert_ok(hr__growbuf_add(&g, "abc", 3, &err), &err);
    assert_status(hr__growbuf_reserve(&g, INT64_MAX, &err), HR_NO_MEMORY, &err);
    assert_memory_equal(g.buffer->data, "abc", 3); /* stays */
    hr__growbuf_clear(&g);
    hr__growbuf_clear(&g);
    hr__account_unref(a);
    assert_no_leak(before);
}

/* ------------------------------------------------------------------------------------------------------------ bits */

static int64_t naive_count(const uint8_t *bits, int64_t begin, int64_t n)
{
    int64_t ones = 0;

    for (int64_t i = 0; i < n; i++)
        ones += hr__bit(bits, begin + i);
    return ones;
}

/* One case: all three functions against loops, in blocks that are just large enough, so that ASan sees a byte too
 * far. */
static void bits_case(uint64_t *random, int64_t from, int64_t to, int64_t n)
{
    size_t from_bytes = (size_t)hr__bits_bytes(from + n), to_bytes = (size_t)hr__bits_bytes(to + n);
    uint8_t *in = malloc(from_bytes + !from_bytes), *out = malloc(to_bytes + !to_bytes);
    uint8_t *want = malloc(to_bytes + !to_bytes);

    for (size_t i = 0; i < from_bytes; i++)
        in[i] = (uint8_t)next_random(random);
    for (size_t i = 0; i < to_bytes; i++)
        out[i] = want[i] = (uint8_t)next_random(random);
    for (int64_t i = 0; i < n; i++)
        hr__bit(in, from + i) ? hr__bit_set(want, to + i) : hr__bit_clear(want, to + i);
    hr__bits_copy(out, to, in, from, n);
    if (to_bytes && memcmp(out, want, to_bytes))
        fail_msg("copy from %lld to %lld, %lld bits", (long long)from, (long long)to, (long long)n);
    if (hr__bits_count(in, from, n) != naive_count(in, from, n))
        fail_msg("count from %lld, %lld bits", (long long)from, (long long)n);
    for (int value = 0; value < 2; value++) {
        for (int64_t i = 0; i < n; i++)
            value ? hr__bit_set(want, to + i) : hr__bit_clear(want, to + i);
        hr__bits_fill(out, to, n, value);
        if (to_bytes && memcmp(out, want, to_bytes))
            fail_msg("fill from %lld, %lld bits", (long long)to, (long long)n);
    }
    free(in);
    free(out);
    free(want);
}

static void bits_at_all_offsets(void **state)
{
    static const int64_t lengths[] = { 0,   1,   2,   3,   7,   8,   9,   15,  16,  17,  31,  32,
                                       33,  55,  56,  57,  63,  64,  65,  71,  72,  73,  120, 127,
                                       128, 129, 136, 191, 192, 193, 200, 255, 256, 257, 264 };
    uint64_t random = 1;

    (void)state;
    for (int64_t from = 0; from < 16; from++)
        for (int64_t to = 0; to < 16; to++)
            for (int i = 0; i < HR_LEN(lengths); i++)
                bits_case(&random, from, to, lengths[i]);
    for (int i = 0; i < 2000; i++)
        bits_case(&random, random_below(&random, 200), random_below(&random, 200), random_below(&random, 3000));
}

/* popcnt is a kernel: with and without it, the same. HR_CPU is read once, so the other half runs in a child. */
static void bits_without_popcnt(void **state)
{
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        uint8_t bits[64];
        uint64_t random = 5;
        for (int i = 0; i < 64; i++)
            bits[i] = (uint8_t)next_random(&random);
        setenv("HR_CPU", "scalar", 1);
        _exit(hr__bits_count(bits, 3, 500) != naive_count(bits, 3, 500) || hr__cpu_features());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_without_popcnt), /* first: before the features are read */
        cmocka_unit_test(bits_at_all_offsets),
        cmocka_unit_test(all_sizes),
        cmocka_unit_test(impossible_sizes),
        cmocka_unit_test(copies_and_references),
        cmocka_unit_test(slices),
        cmocka_unit_test(foreign),
        cmocka_unit_test(foreign_that_is_charged),
        cmocka_unit_test(shrinking),
        cmocka_unit_test(faults),
        cmocka_unit_test(threads),
        cmocka_unit_test(growing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
