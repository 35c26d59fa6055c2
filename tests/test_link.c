/* test_link.c - links: tables of every type travel and come back, memory is returned however a peer ends, and nothing that a
 * damaged peer sends does harm.
 *
 * Most tests have both ends in one process. Some start this program again as a child, which then does what `child_main` says.
 * HEADRACE_WRITE_CORPUS=folder: writes the packets of some messages there, as fuzz_link reads them. */
#include "arrays.h"

#include "core/share.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#endif
#ifdef UNDER_TSAN
#define SCALE(n) ((n) / 10)
#else
#define SCALE(n) (n)
#endif

#define MIB ((int64_t)1 << 20)
#define WAIT_MS 20000

/* -------------------------------------------------------------------------------------------------------------- helpers */

typedef struct pair {
    hr_arena *arena; /* of the left end */
    hr_link *left, *right;
} pair;

static pair pair_new(void)
{
    hr_error err = HR_ERROR_INIT;
    pair p = { 0 };
    int fds[2];

    assert_int_equal(hr__socket_pair(fds), 0);
    assert_ok(hr__arena_new(NULL, "left", &p.arena, &err), &err);
    assert_ok(hr__link_new(fds[0], NULL, p.arena, &p.left, &err), &err);
    assert_ok(hr__link_new(fds[1], NULL, NULL, &p.right, &err), &err);
    return p;
}

static void pair_free(pair *p)
{
    hr__link_unref(p->left);
    hr__link_unref(p->right);
    hr__arena_unref(p->arena);
}

static void send_table(hr_link *l, uint64_t tag, const hr_table *t)
{
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__link_send(l, 1, tag, NULL, 0, t, &err), &err);
}

static hr_message receive(hr_link *l)
{
    hr_error err = HR_ERROR_INIT;
    hr_message m;

    assert_ok(hr__link_recv(l, WAIT_MS, &m, &err), &err);
    return m;
}

/* Lets l take in what has come, which is no message. */
static void settle(hr_link *l)
{
    hr_message m;

    assert_int_equal(hr__link_recv(l, 0, &m, NULL), HR_PENDING);
}

static void assert_same_table(const hr_table *got, const hr_table *want)
{
    assert_true(hr__schema_equal(got->schema, want->schema));
    assert_int_equal(got->n_rows, want->n_rows);
    for (int i = 0; i < want->schema->n; i++)
        assert_same_array(got->columns[i], want->columns[i]);
}

/* One column "x" of n int64, i * factor; in the arena if it is not NULL. */
static hr_table *ints_table(hr_arena *arena, int64_t n, int64_t factor)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b[3] = { NULL };
    hr_array *a = NULL;
    hr_field f = { 0 };
    hr_schema *s = NULL;
    hr_table *t = NULL;

    assert_ok(hr__buffer_new(&(hr_mem){ .arena = arena }, n * 8, &b[1], &err), &err);
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)(void *)b[1]->data)[i] = i * factor;
    assert_ok(hr__array_new(hr__type_simple(HR_T_INT64), n, 0, b, NULL, 0, &a, &err), &err);
    assert_ok(hr__field_init(&f, "x", a->type, true, &err), &err);
    assert_ok(hr__schema_new(&f, 1, &s, &err), &err);
    assert_ok(hr__table_new(s, &a, n, NULL, &t, &err), &err);
    t->sole = true;
    hr__field_clear(&f);
    hr__schema_unref(s);
    return t;
}

static int64_t int_at(const hr_table *t, int64_t row)
{
    return ((const int64_t *)(const void *)hr__array_values(t->columns[0]))[row];
}

static void assert_ints(const hr_table *t, int64_t n, int64_t factor)
{
    assert_int_equal(t->n_rows, n);
    for (int64_t i = 0; i < n; i++)
        if (int_at(t, i) != i * factor)
            fail_msg("row %lld is %lld, not %lld", (long long)i, (long long)int_at(t, i), (long long)(i * factor));
}

static hr_table *in_arena(hr_arena *a, hr_table *t)
{
    hr_error err = HR_ERROR_INIT;
    hr_table *out = NULL;

    assert_ok(hr__table_concat(&(hr_mem){ .arena = a }, t->schema, &t, 1, &out, &err), &err);
    return out;
}

/* ---------------------------------------------------------------------------------------------------------------- bytes */

static void bytes_of_all_sizes_travel(void **state)
{
    live_memory before = live_now();
    static const int64_t sizes[] = { 0, 1, 100, 59000, 59920, 59921, 60000, 65536, 1 << 20 };
    pair p = pair_new();
    uint8_t *data = test_malloc(1 << 20);

    (void)state;
    for (int i = 0; i < 1 << 20; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < HR_LEN(sizes); i++) {
            hr_message m;
            assert_ok(hr__link_send(p.left, 7, (uint64_t)i, data, sizes[i], NULL, NULL), NULL);
            m = receive(p.right);
            assert_int_equal(m.kind, 7);
            assert_int_equal(m.tag, i);
            assert_null(m.table);
            assert_int_equal(m.n_bytes, sizes[i]);
            if (sizes[i]) {
                assert_memory_equal(m.bytes, data, sizes[i]);
                assert_int_equal(((char *)m.bytes)[sizes[i]], 0);
            }
            hr__message_clear(&m);
            settle(p.left);
            assert_int_equal(hr__arena_used(p.arena), 0);
        }
    assert_int_equal(hr__link_send(p.left, 0x8000, 0, NULL, 0, NULL, NULL), HR_INVALID);
    test_free(data);
    pair_free(&p);
    assert_no_leak(before);
}

static void waiting_has_a_limit(void **state)
{
    pair p = pair_new();
    int64_t begin = hr__clock_ns();
    hr_message m;

    (void)state;
    assert_int_equal(hr__link_recv(p.left, 150, &m, NULL), HR_PENDING);
    assert_true(hr__clock_ns() - begin >= 140000000);
    pair_free(&p);
}

/* --------------------------------------------------------------------------------------------------------------- tables */

static void tables_of_every_type_survive(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    uint64_t seed = 1;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++)
        for (int round = 0; round < 4; round++) {
            hr_type *type = sample_type(k);
            hr_table *plain = random_table(&seed, &type, 1, random_below(&seed, 100)), *shared = in_arena(p.arena, plain),
                     *part = NULL, *sent[3];
            int64_t n = plain->n_rows;
            assert_ok(hr_table_slice(shared, n / 3, n / 2, &part, NULL), NULL);
            sent[0] = plain;
            sent[1] = shared;
            sent[2] = part;
            for (int i = 0; i < 3; i++) {
                hr_message m, back;
                send_table(p.left, 5, sent[i]);
                m = receive(p.right);
                assert_same_table(m.table, sent[i]);
                assert_null(m.table->origin);
                send_table(p.right, 6, m.table);
                back = receive(p.left);
                assert_same_table(back.table, sent[i]);
                hr__message_clear(&m);
                hr__message_clear(&back);
            }
            hr_table_unref(plain);
            hr_table_unref(shared);
            hr_table_unref(part);
            hr__type_unref(type);
            settle(p.right);
            settle(p.left);
            assert_int_equal(hr__link_outstanding(p.left), 0);
            assert_int_equal(hr__link_outstanding(p.right), 0);
            assert_int_equal(hr__arena_used(p.arena), 0);
        }
    pair_free(&p);
    assert_no_leak(before);
}

static void many_columns_of_random_types(void **state)
{
    pair p = pair_new();
    uint64_t seed = 77;

    (void)state;
    for (int round = 0; round < 10; round++) {
        hr_type *types[60];
        int n = 1 + (int)random_below(&seed, HR_LEN(types));
        hr_table *t;
        hr_message m;
        for (int i = 0; i < n; i++)
            types[i] = sample_type((int)random_below(&seed, n_sample_types()));
        t = random_table(&seed, types, n, random_below(&seed, 40));
        send_table(p.left, 1, t);
        m = receive(p.right);
        assert_same_table(m.table, t);
        hr__message_clear(&m);
        hr_table_unref(t);
        for (int i = 0; i < n; i++)
            hr__type_unref(types[i]);
    }
    settle(p.left);
    assert_int_equal(hr__arena_used(p.arena), 0);
    pair_free(&p);
}

static void two_thousand_columns_do_not_fit_into_a_packet(void **state)
{
    live_memory before = live_now();
    enum { N = 2000 };
    pair p = pair_new();
    hr_table *narrow = ints_table(NULL, 7, 5), *t = NULL;
    hr_field *fields = test_calloc(N, sizeof *fields);
    hr_array **columns = test_calloc(N, sizeof(hr_array *));
    hr_schema *s = NULL;

    (void)state;
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "column %d", i);
        assert_ok(hr__field_init(&fields[i], name, hr__type_simple(HR_T_INT64), true, NULL), NULL);
        columns[i] = hr__array_ref(narrow->columns[0]);
    }
    assert_ok(hr__schema_new(fields, N, &s, NULL), NULL);
    assert_ok(hr__table_new(s, columns, 7, NULL, &t, NULL), NULL);
    for (int i = 0; i < 3; i++) { /* the second time the schema is known */
        hr_message m;
        send_table(p.left, 0, t);
        m = receive(p.right);
        assert_same_table(m.table, t);
        hr__message_clear(&m);
    }
    for (int i = 0; i < N; i++)
        hr__field_clear(&fields[i]);
    test_free(fields);
    test_free(columns);
    hr__schema_unref(s);
    hr_table_unref(t);
    hr_table_unref(narrow);
    pair_free(&p);
    assert_no_leak(before);
}

static void what_is_in_an_arena_is_not_copied(void **state)
{
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 100000, 3), *part = NULL;
    int64_t used = hr__arena_used(p.arena);
    hr_message m, back;

    (void)state;
    assert_ok(hr_table_slice(t, 1000, 500, &part, NULL), NULL);
    send_table(p.left, 0, part);
    assert_int_equal(hr__arena_used(p.arena), used);
    m = receive(p.right);
    assert_int_equal(int_at(m.table, 0), 3000);
    ((int64_t *)(void *)t->columns[0]->buffers[1]->data)[1000] = -5; /* never do this */
    assert_int_equal(int_at(m.table, 0), -5);
    send_table(p.right, 0, m.table); /* goes back as it came */
    back = receive(p.left);
    assert_ptr_equal(back.table->columns[0]->buffers[1]->owner, p.arena);
    assert_ptr_equal(hr__array_values(back.table->columns[0]), hr__array_values(part->columns[0]));
    assert_int_equal(hr__arena_used(p.arena), used);
    hr__message_clear(&m);
    hr_table_unref(part);
    hr_table_unref(t);
    settle(p.right);
    settle(p.left);
    assert_int_equal(hr__arena_used(p.arena), used); /* held by what came back */
    hr__message_clear(&back);
    assert_int_equal(hr__arena_used(p.arena), 0);
    pair_free(&p);
}

static void sole_tables_are_the_receivers_to_write(void **state)
{
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 1000, 1), *again;
    hr_message m;

    (void)state;
    send_table(p.left, 0, t);
    hr_table_unref(t);
    m = receive(p.right);
    assert_true(m.table->sole);
    memset(m.table->columns[0]->buffers[1]->data, 1, 8000);
    hr__message_clear(&m);
    settle(p.left);
    t = ints_table(p.arena, 1000, 1);
    assert_ints(t, 1000, 1);
    again = hr_table_ref(t); /* somebody else looks at it */
    send_table(p.left, 0, t);
    m = receive(p.right);
    assert_false(m.table->sole);
    hr__message_clear(&m);
    hr_table_unref(again);
    t->sole = false;
    send_table(p.left, 0, t);
    m = receive(p.right);
    assert_false(m.table->sole);
    hr__message_clear(&m);
    hr_table_unref(t);
    t = ints_table(NULL, 1000, 2); /* a copy travels */
    t->sole = false;
    send_table(p.left, 0, t);
    m = receive(p.right);
    assert_true(m.table->sole);
    memset(m.table->columns[0]->buffers[1]->data, 1, 8000);
    assert_ints(t, 1000, 2);
    hr__message_clear(&m);
    hr_table_unref(t);
    pair_free(&p);
}

static void metadata_nullability_and_order_travel(void **state)
{
    pair p = pair_new();
    hr_table *t = ints_table(NULL, 3, 1), *u = NULL;
    uint8_t *meta = NULL;
    int64_t n_meta = 0, n;
    hr_field f = { 0 };
    hr_schema *s = NULL;
    hr_message m;

    (void)state;
    assert_ok(hr__metadata_set(&meta, &n_meta, "unit", "seconds", 7, NULL), NULL);
    assert_ok(hr__field_init(&f, "name with \n and Ä", hr__type_simple(HR_T_INT64), false, NULL), NULL);
    f.metadata = meta;
    f.metadata_bytes = n_meta;
    assert_ok(hr__schema_new(&f, 1, &s, NULL), NULL);
    assert_ok(hr__metadata_set(&s->metadata, &s->metadata_bytes, "pandas", "{}", 2, NULL), NULL);
    assert_ok(hr__table_with_schema(t, s, &u, NULL), NULL);
    send_table(p.left, 0, u);
    m = receive(p.right);
    assert_string_equal(m.table->schema->fields[0].name, f.name);
    assert_false(m.table->schema->fields[0].nullable);
    assert_memory_equal(hr__metadata_get(m.table->schema->fields[0].metadata, m.table->schema->fields[0].metadata_bytes,
                                         "unit", &n),
                        "seconds", 7);
    assert_non_null(hr__metadata_get(m.table->schema->metadata, m.table->schema->metadata_bytes, "pandas", &n));
    hr__message_clear(&m);
    s->metadata[0] = 9; /* damaged: it says nine keys */
    send_table(p.left, 0, u);
    m = receive(p.right);
    hr__message_clear(&m);
    hr_table_unref(u);
    hr_table_unref(t);
    hr__field_clear(&f);
    hr__schema_unref(s);
    pair_free(&p);
}

/* A table without rows and with one column of this name. */
static hr_table *named_table(const char *name)
{
    hr_table *t = NULL;
    hr_field f = { 0 };
    hr_schema *s = NULL;

    assert_ok(hr__field_init(&f, name, hr__type_simple(HR_T_INT32), true, NULL), NULL);
    assert_ok(hr__schema_new(&f, 1, &s, NULL), NULL);
    assert_ok(hr__table_empty(s, &t, NULL), NULL);
    hr__field_clear(&f);
    hr__schema_unref(s);
    return t;
}

static void schemas_come_and_go(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    char *name = test_malloc(100001);

    (void)state;
    for (int i = 0; i < 500; i++) {
        int k = i % 3 == 0 ? i : i % 100; /* some are seen again, some long after they were forgotten */
        hr_table *t;
        hr_message m;
        memset(name, 'a' + k % 26, 100000);
        name[i % 50 ? snprintf(name, 100000, "column %d", k) : 100000] = 0;
        t = named_table(name);
        send_table(p.left, 0, t);
        m = receive(p.right);
        assert_same_table(m.table, t);
        hr__message_clear(&m);
        hr_table_unref(t);
    }
    test_free(name);
    pair_free(&p);
    assert_no_leak(before);
}

/* ------------------------------------------------------------------------------------------------------- memory comes back */

static void ten_thousand_messages_do_not_grow_the_arena(void **state)
{
    pair p = pair_new();
    hr_message held[4] = { 0 };
    int64_t bytes = 0;

    (void)state;
    for (int i = 0; i < SCALE(10000); i++) {
        hr_table *t = ints_table(i % 3 ? p.arena : NULL, 5000 + i % 1000, i);
        send_table(p.left, (uint64_t)i, t);
        hr_table_unref(t);
        hr__message_clear(&held[i % 4]);
        held[i % 4] = receive(p.right);
        settle(p.left);
        assert_int_equal(held[i % 4].tag, i);
        assert_int_equal(int_at(held[i % 4].table, 4999), (int64_t)4999 * i);
        if (i == SCALE(500))
            bytes = hr__arena_bytes(p.arena);
    }
    assert_int_equal(hr__arena_bytes(p.arena), bytes);
    assert_true(bytes <= 2 * MIB);
    for (int i = 0; i < 4; i++)
        hr__message_clear(&held[i]);
    settle(p.left);
    assert_int_equal(hr__link_outstanding(p.left), 0);
    pair_free(&p);
}

static void what_the_socket_does_not_take_waits(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    const int n = SCALE(5000);

    (void)state;
    for (int i = 0; i < n; i++) { /* nobody receives */
        hr_table *t = ints_table(p.arena, 10, i);
        send_table(p.left, (uint64_t)i, t);
        hr_table_unref(t);
    }
    assert_int_equal(hr__link_flush(p.left, 20, NULL), HR_PENDING);
    assert_int_equal(hr__link_outstanding(p.left), n);
    for (int i = 0; i < n; i++) {
        hr_message m;
        while (hr__link_recv(p.right, 0, &m, NULL) == HR_PENDING)
            assert_int_not_equal(hr__link_flush(p.left, 0, NULL), HR_PEER);
        assert_int_equal(m.tag, i);
        assert_ints(m.table, 10, i);
        hr__message_clear(&m);
    }
    assert_ok(hr__link_flush(p.left, 0, NULL), NULL);
    settle(p.left);
    settle(p.right);
    settle(p.left);
    assert_int_equal(hr__link_outstanding(p.left), 0);
    pair_free(&p);
    assert_no_leak(before);
}

static void segments_that_were_given_back_are_forgotten(void **state)
{
    pair p = pair_new();
    hr_message m;

    (void)state;
    for (int i = 0; i < 50; i++) {
        hr_table *t = ints_table(p.arena, 300000, i);
        send_table(p.left, 0, t);
        hr_table_unref(t);
        m = receive(p.right);
        assert_ints(m.table, 300000, i);
        hr__message_clear(&m);
        settle(p.left);
        hr__arena_trim(p.arena, 0);
        assert_int_equal(hr__arena_bytes(p.arena), 0);
    }
    pair_free(&p);
}

/* ----------------------------------------------------------------------------------------------------------------- ends */

static void assert_ended(hr_link *l)
{
    hr_error err = HR_ERROR_INIT;
    hr_message m;

    assert_int_equal(hr__link_recv(l, WAIT_MS, &m, &err), HR_PEER);
    assert_int_equal(err.status, HR_PEER);
    assert_int_equal(hr__link_send(l, 1, 1, NULL, 0, NULL, &err), HR_PEER);
    assert_int_equal(hr__link_outstanding(l), 0);
}

static void what_was_sent_arrives_after_the_end(void **state)
{
    pair p = pair_new();
    hr_table *t = ints_table(NULL, 100, 1);
    hr_message m;

    (void)state;
    send_table(p.left, 3, t);
    hr__link_close(p.left);
    m = receive(p.right);
    assert_ints(m.table, 100, 1);
    assert_ended(p.right);
    assert_ended(p.left);
    assert_ints(m.table, 100, 1);
    hr__message_clear(&m);
    hr_table_unref(t);
    pair_free(&p);
}

/* Uses as much of the arena as was used before. */
static void overwrite(hr_arena *a)
{
    for (int i = 0; i < 20; i++) {
        hr_table *t = ints_table(a, 5000 + 1000 * i, -1);
        hr_table_unref(t);
    }
}

static void contents_stay_when_the_sender_closes(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 5000, 11);
    hr_message m;

    (void)state;
    send_table(p.left, 0, t);
    hr_table_unref(t);
    m = receive(p.right);
    hr__link_close(p.left);
    overwrite(p.arena);
    assert_ints(m.table, 5000, 11);
    hr__arena_trim(p.arena, 0);
    pair_free(&p);
    assert_ints(m.table, 5000, 11);
    hr__message_clear(&m);
    assert_no_leak(before);
}

static void contents_stay_when_the_receiver_closes(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 5000, 13);
    hr_message m, n;

    (void)state;
    send_table(p.left, 0, t);
    hr_table_unref(t);
    m = receive(p.right);
    hr__link_close(p.right);
    assert_int_equal(hr__link_send(p.left, 1, 1, NULL, 0, NULL, NULL), HR_PEER); /* EPIPE comes before BYE is read */
    assert_int_equal(hr__link_recv(p.left, 0, &n, NULL), HR_PEER);
    assert_int_equal(hr__link_outstanding(p.left), 0);
    overwrite(p.arena);
    assert_ints(m.table, 5000, 13);
    pair_free(&p);
    assert_ints(m.table, 5000, 13);
    hr__message_clear(&m);
    assert_no_leak(before);
}

static void a_receiver_that_held_nothing_costs_nothing(void **state)
{
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 5000, 13);
    int64_t bytes = hr__arena_bytes(p.arena);

    (void)state;
    send_table(p.left, 0, t); /* never received */
    hr_table_unref(t);
    hr__link_close(p.right);
    assert_ended(p.left);
    assert_int_equal(hr__arena_used(p.arena), 0);
    t = ints_table(p.arena, 5000, 1);
    assert_int_equal(hr__arena_bytes(p.arena), bytes); /* the same memory */
    hr_table_unref(t);
    pair_free(&p);
}

static void tables_outlive_their_link(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 100, 2);
    hr_message m;

    (void)state;
    send_table(p.left, 0, t);
    hr_table_unref(t);
    m = receive(p.right);
    pair_free(&p);
    assert_ints(m.table, 100, 2);
    hr__message_clear(&m);
    assert_no_leak(before);
}

typedef struct closing {
    hr_link *link;
    hr_status st;
} closing;

static void close_or_wait(void *arg, int thread)
{
    closing *c = arg;
    hr_message m;

    if (thread == 0) {
        c->st = hr__link_recv(c->link, -1, &m, NULL);
        return;
    }
    usleep(50000);
    hr__link_close(c->link);
}

static void closing_wakes_who_waits(void **state)
{
    pair p = pair_new();
    closing c = { p.left, HR_OK };
    int64_t begin = hr__clock_ns();

    (void)state;
    run_threads(2, close_or_wait, &c);
    assert_int_equal(c.st, HR_PEER);
    assert_true(hr__clock_ns() - begin < 5000000000);
    pair_free(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_all_sizes_travel),
        cmocka_unit_test(waiting_has_a_limit),
        cmocka_unit_test(tables_of_every_type_survive),
        cmocka_unit_test(many_columns_of_random_types),
        cmocka_unit_test(two_thousand_columns_do_not_fit_into_a_packet),
        cmocka_unit_test(what_is_in_an_arena_is_not_copied),
        cmocka_unit_test(sole_tables_are_the_receivers_to_write),
        cmocka_unit_test(metadata_nullability_and_order_travel),
        cmocka_unit_test(schemas_come_and_go),
        cmocka_unit_test(ten_thousand_messages_do_not_grow_the_arena),
        cmocka_unit_test(what_the_socket_does_not_take_waits),
        cmocka_unit_test(segments_that_were_given_back_are_forgotten),
        cmocka_unit_test(what_was_sent_arrives_after_the_end),
        cmocka_unit_test(contents_stay_when_the_sender_closes),
        cmocka_unit_test(contents_stay_when_the_receiver_closes),
        cmocka_unit_test(a_receiver_that_held_nothing_costs_nothing),
        cmocka_unit_test(tables_outlive_their_link),
        cmocka_unit_test(closing_wakes_who_waits),
    };

    (void)argc;
    (void)argv;
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
