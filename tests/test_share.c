/* test_share.c - arenas: blocks that do not overlap, memory that is used again and given back, in several threads. */
#include "arrays.h"

#include "share/share.h"
#include "share/exchange_arena.h"

#include <sys/wait.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)

static hr_arena *arena_new(void)
{
    hr_error err = HR_ERROR_INIT;
    hr_arena *a = NULL;

    assert_ok(hr__arena_new(NULL, "test", &a, &err), &err);
    return a;
}

static hr_buffer *buffer_new(hr_arena *a, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL;

    assert_ok(hr__buffer_new(&(hr_mem){ .arena = a }, n, &b, &err), &err);
    return b;
}

static bool is_zero(const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (p[i])
            return false;
    return true;
}

static void buffers_have_alignment_and_slack(void **state)
{
    live_memory before = live_now();
    static const int64_t sizes[] = { 0, 1, 63, 64, 65, 4096, 100000, MIB - 64, MIB, 5 * MIB, 40 * MIB };
    hr_arena *a = arena_new();

    (void)state;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < HR_LEN(sizes); i++) {
            hr_buffer *b = buffer_new(a, sizes[i]);
            assert_int_equal(b->kind, HR_BUFFER_ARENA);
            assert_int_equal((uintptr_t)b->data % 64, 0);
            assert_true(b->capacity >= sizes[i]);
            assert_true(is_zero(b->data + sizes[i], HR_SLACK));
            assert_true(hr__buffer_sole(b));
            memset(b->data, 0xAB, (size_t)sizes[i]);
            hr__buffer_unref(b);
            assert_int_equal(hr__arena_used(a), 0);
        }
    hr__arena_unref(a);
    assert_no_leak(before);
}

static void a_buffer_outlives_its_arenas_owner(void **state)
{
    live_memory before = live_now();
    hr_arena *a = arena_new();
    hr_buffer *b = buffer_new(a, 1000), *s = NULL;

    (void)state;
    hr__arena_unref(a);
    memset(b->data, 7, 1000);
    assert_ok(hr__buffer_slice(b, 500, 500, &s, NULL), NULL);
    hr__buffer_unref(b);
    assert_int_equal(s->data[499], 7);
    hr__buffer_unref(s);
    assert_no_leak(before);
}

static void warm_blocks_come_first(void **state)
{
    hr_arena *a = arena_new();
    hr_buffer *b = buffer_new(a, 300000), *small = buffer_new(a, 10);
    const uint8_t *was = b->data;

    (void)state;
    hr__buffer_unref(b);
    b = buffer_new(a, 300000);
    assert_ptr_equal(b->data, was);
    hr__buffer_unref(b);
    b = buffer_new(a, 290000);
    assert_ptr_equal(b->data, was);
    hr__buffer_unref(b);
    hr__buffer_unref(small);
    hr__arena_unref(a);
}

/* --- a model: what is live, with a pattern in it that any overlap would spoil */

typedef struct live_block {
    hr_buffer *buffer;
    uint8_t pattern;
} live_block;

static void check_and_free(live_block *l)
{
    if (!l->buffer)
        return;
    for (int64_t i = 0; i < l->buffer->n_bytes; i += 1 + i / 16)
        assert_int_equal(l->buffer->data[i], l->pattern);
    assert_true(is_zero(l->buffer->data + l->buffer->n_bytes, HR_SLACK));
    hr__buffer_unref(l->buffer);
    l->buffer = NULL;
}

static int64_t random_size(uint64_t *seed)
{
    static const int64_t limits[] = { 200, 5000, 70000, 600000 };

    return random_below(seed, limits[random_below(seed, HR_LEN(limits))]);
}

static void churn(hr_arena *a, uint64_t seed, int n_steps, int n_live)
{
    live_block *live = test_calloc((size_t)n_live, sizeof *live);

    for (int i = 0; i < n_steps; i++) {
        live_block *l = &live[random_below(&seed, n_live)];
        check_and_free(l);
        l->buffer = buffer_new(a, random_size(&seed));
        l->pattern = (uint8_t)next_random(&seed);
        memset(l->buffer->data, l->pattern, (size_t)l->buffer->n_bytes);
        if (random_below(&seed, 4) == 0)
            hr__buffer_shrink(l->buffer, random_below(&seed, l->buffer->n_bytes + 1));
    }
    for (int i = 0; i < n_live; i++)
        check_and_free(&live[i]);
    test_free(live);
}

static void blocks_never_overlap(void **state)
{
    live_memory before = live_now();
    hr_arena *a = arena_new();

    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        churn(a, seed, 3000, 60);
        assert_int_equal(hr__arena_used(a), 0);
    }
    assert_true(hr__arena_bytes(a) <= 48 * MIB); /* 60 blocks of 80 kB on average */
    hr__arena_unref(a);
    assert_no_leak(before);
}

static void churn_thread(void *arg, int thread) { churn(arg, (uint64_t)thread + 100, 1500, 20); }

static void threads_share_an_arena(void **state)
{
    live_memory before = live_now();
    hr_arena *a = arena_new();

    (void)state;
    run_threads(4, churn_thread, a);
    assert_int_equal(hr__arena_used(a), 0);
    hr__arena_unref(a);
    assert_no_leak(before);
}

/* --------------------------------------------------------------------------------------------- growing, giving back */

static void it_grows_in_steps_and_is_charged(void **state)
{
    hr_account *account = hr__account_new("arena", NULL, 0);
    hr_arena *a = NULL;
    hr_buffer *held[100];

    (void)state;
    assert_ok(hr__arena_new(account, "test", &a, NULL), NULL);
    assert_int_equal(hr__arena_bytes(a), 0);
    held[0] = buffer_new(a, 100);
    assert_int_equal(hr__arena_bytes(a), MIB);
    assert_in_range(hr__account_used(account), 65536, MIB / 4); /* what may have been touched */
    for (int i = 1; i < 100; i++)
        held[i] = buffer_new(a, MIB - 64);
    assert_true(hr__arena_bytes(a) >= 99 * MIB && hr__arena_bytes(a) <= 128 * MIB);
    assert_true(hr__account_used(account) >= 99 * MIB - 64 * 100);
    for (int i = 0; i < 100; i++)
        hr__buffer_unref(held[i]);
    assert_true(hr__account_used(account) >= 80 * MIB); /* its pages are still there */
    assert_true(hr__arena_bytes(a) >= 99 * MIB);        /* it was used just now */
    arena_give_back(a);
    assert_int_equal(hr__arena_bytes(a), 0);
    assert_true(hr__account_used(account) < MIB);
    hr__arena_unref(a);
    hr__account_unref(account);
}

/* What the kernel says that there is, is what is charged, whoever writes it in which order. */
static void what_is_touched_is_charged(void **state)
{
    hr_account *account = hr__account_new("arena", NULL, 0);
    hr_arena *a = NULL;
    int64_t empty, offset;
    hr_buffer *b[5];
    struct stat st;

    (void)state;
    assert_ok(hr__arena_new(account, "test", &a, NULL), NULL);
    b[0] = buffer_new(a, 12 * MIB);
    empty = hr__account_used(account) - 12 * MIB;
    assert_in_range(empty, 0, 256 * 1024);
    hr__buffer_unref(b[0]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5; i++) {
            b[i] = buffer_new(a, MIB);
            memset(b[i]->data, 1, (size_t)MIB);
        }
        assert_int_equal(fstat(hr__buffer_segment(b[4], &offset)->fd, &st), 0);
        assert_in_range((int64_t)st.st_blocks * 512, 5 * MIB, 6 * MIB);
        for (int i = 0; i < 5; i++)
            hr__buffer_unref(b[i]);
        assert_in_range(hr__account_used(account), 12 * MIB, 12 * MIB + 256 * 1024);
    }
    arena_give_back(a);
    assert_true(hr__account_used(account) < MIB / 4);
    for (int i = 0; i < 3; i++) {
        b[i] = buffer_new(a, (MIB << i) - 64);
        memset(b[i]->data, 1, (size_t)b[i]->n_bytes);
        assert_in_range(hr__account_used(account), ((MIB << (i + 1)) - MIB), (MIB << (i + 1)) - MIB + MIB / 2);
    }
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(b[i]);
    hr__arena_unref(a);
    hr__account_unref(account);
}

static void peaks_are_forgotten_after_seconds(void **state)
{
    hr_arena *a = arena_new();
    hr_buffer *held[12];

    (void)state;
    for (int i = 0; i < 12; i++)
        held[i] = buffer_new(a, 8 * MIB);
    for (int i = 0; i < 12; i++)
        hr__buffer_unref(held[i]);
    assert_true(hr__arena_bytes(a) >= 96 * MIB);
    for (int i = 0; i < 3; i++) {
        usleep(1050000);
        hr__buffer_unref(buffer_new(a, 1000));
    }
    assert_true(hr__arena_bytes(a) <= 48 * MIB);
    hr__arena_unref(a);
}

static void over_the_limit_nothing_is_kept(void **state)
{
    hr_account *account = hr__account_new("arena", NULL, 8 * MIB);
    hr_arena *a = NULL;
    hr_buffer *b;

    (void)state;
    assert_ok(hr__arena_new(account, "test", &a, NULL), NULL);
    b = buffer_new(a, 3 * MIB);
    hr__buffer_unref(b);
    assert_true(hr__arena_bytes(a) > 0); /* within */
    b = buffer_new(a, 12 * MIB);
    hr__buffer_unref(b);
    assert_int_equal(hr__arena_bytes(a), 0);
    hr__arena_unref(a);
    hr__account_unref(account);
}

static void trimming_frees_what_is_empty(void **state)
{
    hr_arena *a = arena_new();
    hr_buffer *b = buffer_new(a, 1000), *c = buffer_new(a, 5 * MIB);

    (void)state;
    memset(b->data, 9, 1000);
    hr__buffer_unref(c);
    assert_true(hr__arena_bytes(a) > 5 * MIB); /* kept for the next one */
    hr__arena_trim(a);
    assert_int_equal(hr__arena_bytes(a), MIB);
    assert_int_equal(b->data[999], 9);
    hr__buffer_unref(b);
    hr__arena_trim(a);
    assert_int_equal(hr__arena_bytes(a), 0);
    hr__arena_unref(a);
}

static void shrinking_gives_the_rest_back(void **state)
{
    hr_arena *a = arena_new();
    hr_buffer *b = buffer_new(a, 500000), *c;

    (void)state;
    memset(b->data, 9, 500000);
    hr__buffer_shrink(b, 1000);
    assert_true(hr__arena_used(a) < 2000);
    assert_true(is_zero(b->data + 1000, HR_SLACK));
    c = buffer_new(a, 400000);
    memset(c->data, 1, 400000);
    assert_int_equal(b->data[999], 9);
    assert_int_equal(hr__arena_bytes(a), MIB);
    hr__buffer_unref(c);
    hr__buffer_unref(b);
    c = buffer_new(a, MIB - 64); /* all is one block again */
    assert_int_equal(hr__arena_bytes(a), MIB);
    hr__buffer_unref(c);
    hr__arena_unref(a);
}

static void a_retired_segment_is_not_used_again(void **state)
{
    live_memory before = live_now();
    hr_arena *a = arena_new();
    hr_buffer *b = buffer_new(a, 1000), *c = buffer_new(a, 1000), *d;
    int64_t at;
    hr_segment *s = hr__buffer_segment(b, &at);

    (void)state;
    hr__segment_ref(s);
    hr__segment_retire(s);
    hr__buffer_unref(b);
    d = buffer_new(a, 1000);
    assert_ptr_not_equal(hr__buffer_segment(d, &at), s);
    hr__buffer_shrink(c, 10);
    assert_false(s->gone);
    hr__buffer_unref(c);
    assert_true(s->gone);
    hr__segment_unref(s);
    hr__buffer_unref(d);
    hr__arena_unref(a);
    assert_no_leak(before);
}

/* ---------------------------------------------------------------------------------------------------- forks, faults */

static void a_forked_child_only_reads(void **state)
{
    hr_arena *a = arena_new();
    hr_buffer *b = buffer_new(a, 1000), *c = NULL;
    int status = -1;
    pid_t pid;

    (void)state;
    memset(b->data, 5, 1000);
    pid = fork();
    if (pid == 0) {
        int64_t used = hr__arena_used(a);
        bool ok = b->data[999] == 5 && hr__arena_buffer(a, 10, &c, NULL) == HR_INVALID;
        hr__buffer_unref(b); /* the parent's block stays what it is */
        ok = ok && hr__arena_used(a) == used;
        hr__arena_unref(a);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(b->data[999], 5);
    hr__buffer_unref(b);
    b = buffer_new(a, 1000);
    assert_true(is_zero(b->data + 1000, HR_SLACK));
    hr__buffer_unref(b);
    hr__arena_unref(a);
}

static hr_status use_an_arena(hr_error *err)
{
    hr_status st = HR_OK;
    hr_arena *a = NULL;
    hr_buffer *b[4] = { NULL };

    HR_GO(hr__arena_new(NULL, "test", &a, err));
    for (int i = 0; i < 4; i++)
        HR_GO(hr__arena_buffer(a, 400000 * (i + 1), &b[i], err));
    hr__buffer_unref(b[1]);
    HR_GO(hr__arena_buffer(a, 100, &b[1], err));
done:
    for (int i = 0; i < 4; i++)
        hr__buffer_unref(b[i]);
    hr__arena_unref(a);
    return st;
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(use_an_arena, HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_have_alignment_and_slack), cmocka_unit_test(a_buffer_outlives_its_arenas_owner),
        cmocka_unit_test(warm_blocks_come_first),           cmocka_unit_test(blocks_never_overlap),
        cmocka_unit_test(threads_share_an_arena),           cmocka_unit_test(it_grows_in_steps_and_is_charged),
        cmocka_unit_test(what_is_touched_is_charged),       cmocka_unit_test(peaks_are_forgotten_after_seconds),
        cmocka_unit_test(over_the_limit_nothing_is_kept),   cmocka_unit_test(trimming_frees_what_is_empty),
        cmocka_unit_test(shrinking_gives_the_rest_back),    cmocka_unit_test(a_retired_segment_is_not_used_again),
        cmocka_unit_test(a_forked_child_only_reads),        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
