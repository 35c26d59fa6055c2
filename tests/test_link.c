/* test_link.c - links: tables of every type travel and come back, memory is returned however a peer ends, and nothing
 * that a damaged peer sends does harm.
 *
 * Most tests have both ends in one process. Some start this program again as a child, which then does what `child_main`
 * says. HEADRACE_WRITE_CORPUS=folder: writes the packets of some messages there, as fuzz_link reads them. */
#include "arrays.h"

#include "share/share.h"
#include "share/process_link.h"
#include "share/exchange_arena.h"
#include "op/call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if THREADS_ARE_WATCHED
#define SCALE(n) ((n) / 10)
#define N_FLIPS 1
#else
#define SCALE(n) (n)
#define N_FLIPS 3
#endif

#define MIB ((int64_t)1 << 20)
#define WAIT_MS 20000

/* ---------------------------------------------------------------------------------------------------------- helpers */

typedef struct pair {
    hr_arena *arena; /* of the left end */
    hr_link *left, *right;
} pair;

static const char *program; /* argv[0]: under valgrind /proc/self/exe is valgrind */

static hr_arena *arena_new(const char *name)
{
    hr_error err = HR_ERROR_INIT;
    hr_arena *a = NULL;

    assert_ok(hr__arena_new(NULL, name, &a, &err), &err);
    return a;
}

static pair pair_new(void)
{
    hr_error err = HR_ERROR_INIT;
    pair p = { 0 };
    int fds[2];

    assert_int_equal(local_sockets(fds), 0);
    p.arena = arena_new("left");
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

/* ------------------------------------------------------------------------------------------------------------ bytes */

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

/* ----------------------------------------------------------------------------------------------------------- tables */

static void tables_of_every_type_survive(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    uint64_t seed = 1;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++)
        for (int round = 0; round < 4; round++) {
            hr_type *type = sample_type(k);
            hr_table *plain = random_table(&seed, &type, 1, random_below(&seed, 100)),
                     *shared = in_arena(p.arena, plain), *part = NULL, *sent[3];
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
    assert_memory_equal(
        hr__metadata_get(m.table->schema->fields[0].metadata, m.table->schema->fields[0].metadata_bytes, "unit", &n),
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

/* ------------------------------------------------------------------------------------------------ memory comes back */

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

static atomic_int n_told;

static bool count_told(hr_link *l)
{
    (void)l;
    atomic_fetch_add(&n_told, 1);
    return true;
}

/* A queue of releases, too, may be all that the peer waits for. A message is not held up by them. */
static void backlogs_are_reported_once(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    const int n = 3000;
    hr_message *held = calloc((size_t)n, sizeof *held), m;
    int64_t left;

    (void)state;
    for (int i = 0; i < n; i++) {
        hr_table *t = ints_table(p.arena, 10, i);

        send_table(p.left, (uint64_t)i, t);
        hr_table_unref(t);
        held[i] = receive(p.right);
    }
    hr__link_set_backlog(p.right, count_told);
    atomic_store(&n_told, 0);
    for (int i = 0; i < n; i++)
        hr__message_clear(&held[i]); /* the left one reads none of it */
    assert_int_equal(n_told, 1);
    hr__link_settled(p.right); /* too early: reported again */
    assert_int_equal(n_told, 2);
    assert_ok(hr__link_send(p.right, 1, 7, NULL, 0, NULL, NULL), NULL);
    settle(p.left); /* reads what the socket took of the releases */
    left = hr__link_outstanding(p.left);
    assert_true(left > 0);
    assert_ok(hr__link_flush(p.right, 0, NULL), NULL); /* many releases make one packet now */
    m = receive(p.left);
    assert_int_equal(m.tag, 7);
    assert_int_equal(hr__link_outstanding(p.left), left); /* it went before the others */
    hr__message_clear(&m);
    while (hr__link_flush(p.right, 0, NULL) == HR_PENDING)
        settle(p.left);
    hr__link_settled(p.right);
    settle(p.left);
    assert_int_equal(hr__link_outstanding(p.left), 0);
    assert_int_equal(n_told, 2);
    free(held);
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
        arena_give_back(p.arena);
        assert_int_equal(hr__arena_bytes(p.arena), 0);
    }
    pair_free(&p);
}

/* ------------------------------------------------------------------------------------------------------------- ends */

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
    arena_give_back(p.arena);
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

/* The socket is so full that the receiver cannot even say that it still reads: its end is not seen before it stops. */
static void contents_stay_when_goodbye_cannot_be_said(void **state)
{
    live_memory before = live_now();
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 5000, 17);
    hr_message m, n;
    hr_status st;

    (void)state;
    send_table(p.left, 0, t);
    hr_table_unref(t);
    m = receive(p.right);
    while (!(st = hr__link_flush(p.right, 0, NULL)))
        assert_ok(hr__link_send(p.right, 1, 1, "flood", 5, NULL, NULL), NULL);
    assert_int_equal(st, HR_PENDING);
    hr__link_close(p.right);
    while (!(st = hr__link_recv(p.left, 0, &n, NULL)))
        hr__message_clear(&n);
    assert_int_equal(st, HR_PENDING);
    assert_int_equal(hr__link_outstanding(p.left), 1);
    overwrite(p.arena);
    assert_ints(m.table, 5000, 17);
    hr__message_clear(&m);
    assert_ended(p.left);
    pair_free(&p);
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
    assert_true(hr__clock_ns() - begin < 60000000000);
    pair_free(&p);
}

/* -------------------------------------------------------------------------------------------------- other processes */

/* This program again, at the other end of `fd` (taken), as child_main(what). */
static pid_t start_child(const char *what, int fd, const char *address)
{
    char number[16];
    pid_t pid;

    snprintf(number, sizeof number, "%d", fd);
    pid = fork();
    if (pid == 0) {
        fcntl(fd, F_SETFD, 0);
        execl(program, "test_link", "child", what, number, address, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    hr__file_close(fd);
    return pid;
}

static int end_of_child(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Sends back what comes, copied if `copies`, until the other end closes. */
static int child_echo(hr_link *l, bool copies)
{
    hr_arena *a = arena_new("other");
    hr_message m;

    while (!hr__link_recv(l, WAIT_MS, &m, NULL)) {
        if (copies && m.table) {
            hr_table *copy = in_arena(a, m.table);
            hr_table_unref(m.table);
            m.table = copy;
        }
        if (hr__link_send(l, m.kind, m.tag, m.bytes, m.n_bytes, m.table, NULL))
            return 1;
        hr__message_clear(&m);
    }
    hr__arena_unref(a);
    return 0;
}

/* Keeps what comes, says so, and waits for its end; "exit": ends by itself after the last, which has tag 0. */
static int child_hold(hr_link *l, bool exits)
{
    hr_message m;

    while (!hr__link_recv(l, WAIT_MS, &m, NULL)) {
        if (!m.table || hr__link_send(l, 2, m.tag, NULL, 0, NULL, NULL))
            return 1;
        if (exits && m.tag == 0)
            _exit(0); /* without telling anybody */
    }
    return 2;
}

static int child_main(const char *what, int fd, const char *address)
{
    hr_link *l = NULL;
    int rc = 3;

    if (address ? hr__link_connect(address, NULL, &l, NULL) : hr__link_new(fd, NULL, NULL, &l, NULL))
        return 4;
    if (!strcmp(what, "echo") || !strcmp(what, "copy"))
        rc = child_echo(l, !strcmp(what, "copy"));
    if (!strcmp(what, "hold") || !strcmp(what, "exit"))
        rc = child_hold(l, !strcmp(what, "exit"));
    hr__link_unref(l);
    return rc;
}

static hr_link *link_to_child(const char *what, hr_arena *arena, pid_t *pid)
{
    hr_error err = HR_ERROR_INIT;
    hr_link *l = NULL;
    int fds[2];

    assert_int_equal(local_sockets(fds), 0);
    *pid = start_child(what, fds[1], NULL);
    assert_ok(hr__link_new(fds[0], NULL, arena, &l, &err), &err);
    return l;
}

static void tables_come_back_from_another_process(void **state)
{
    live_memory before = live_now();
    static const char *const ways[] = { "echo", "copy" };
    uint64_t seed = 5;

    (void)state;
    for (int way = 0; way < 2; way++) {
        hr_arena *a = arena_new("other");
        pid_t pid;
        hr_link *l = link_to_child(ways[way], a, &pid);
        for (int i = 0; i < 200; i++) {
            hr_type *types[3];
            hr_table *t;
            hr_message m;
            for (int k = 0; k < 3; k++)
                types[k] = sample_type((int)random_below(&seed, n_sample_types()));
            t = random_table(&seed, types, 3, random_below(&seed, 200));
            if (i % 2) {
                hr_table *shared = in_arena(a, t);
                hr_table_unref(t);
                t = shared;
            }
            assert_ok(hr__link_send(l, 9, (uint64_t)i, "bytes", 5, t, NULL), NULL);
            m = receive(l);
            assert_same_table(m.table, t);
            assert_string_equal(m.bytes, "bytes");
            hr__message_clear(&m);
            hr_table_unref(t);
            for (int k = 0; k < 3; k++)
                hr__type_unref(types[k]);
        }
        hr__link_close(l);
        assert_int_equal(end_of_child(pid), 0);
        hr__link_unref(l);
        hr__arena_unref(a);
    }
    assert_no_leak(before);
}

static void a_killed_child_gives_everything_back(void **state)
{
    live_memory before = live_now();
    hr_arena *a = arena_new("other");
    int64_t bytes = 0;

    (void)state;
    for (int round = 0; round < 6; round++) {
        bool exits = round % 2;
        pid_t pid;
        hr_link *l = link_to_child(exits ? "exit" : "hold", a, &pid);
        hr_message m;
        for (int i = 20; i-- > 0;) {
            hr_table *t = ints_table(i % 2 ? a : NULL, 40000, i);
            send_table(l, (uint64_t)i, t);
            hr_table_unref(t);
        }
        for (int i = 0; i < 20; i++) {
            m = receive(l);
            hr__message_clear(&m);
        }
        assert_int_equal(hr__link_outstanding(l), 20);
        if (!round)
            bytes = hr__arena_bytes(a);
        assert_int_equal(hr__arena_bytes(a), bytes); /* the memory of the one before */
        if (!exits)
            kill(pid, SIGKILL);
        assert_ended(l);
        assert_int_equal(hr__arena_used(a), 0);
        end_of_child(pid);
        hr__link_unref(l);
    }
    hr__arena_unref(a);
    assert_no_leak(before);
}

static void a_forked_child_has_no_link(void **state)
{
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 100, 1);
    hr_message m;
    pid_t pid;

    (void)state;
    send_table(p.left, 0, t);
    m = receive(p.right);
    pid = fork();
    if (pid == 0) {
        hr_message n;
        bool ok = hr__link_send(p.left, 1, 1, NULL, 0, NULL, NULL) == HR_PEER &&
                  hr__link_recv(p.right, 0, &n, NULL) == HR_PEER && int_at(m.table, 99) == 99;
        hr__message_clear(&m); /* is the parent's to give back */
        hr_table_unref(t);
        pair_free(&p);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(end_of_child(pid), 0);
    settle(p.left);
    assert_int_equal(hr__link_outstanding(p.left), 1);
    assert_ints(m.table, 100, 1);
    hr__message_clear(&m);
    settle(p.left);
    assert_int_equal(hr__link_outstanding(p.left), 0);
    hr_table_unref(t);
    pair_free(&p);
}

/* ---------------------------------------------------------------------------------------------------------- meeting */

static hr_link *accept_one(hr_listener *l, int timeout_ms)
{
    hr_link *link = NULL;
    hr_status st = HR_PENDING;
    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000;

    while (st == HR_PENDING && hr__clock_ns() < until) {
        st = hr__listener_accept(l, NULL, NULL, &link, NULL);
        if (st == HR_PENDING)
            (void)hr__wait_readable(hr__listener_fd(l), 10);
    }
    return link;
}

static void a_child_connects_with_the_token(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_listener *l = NULL;
    hr_link *link, *none = NULL;
    hr_table *t = ints_table(NULL, 1000, 3);
    hr_message m;
    pid_t pid;

    (void)state;
    assert_ok(hr__listener_open(NULL, &l, &err), &err);
    assert_int_equal(hr__listener_accept(l, NULL, NULL, &none, &err), HR_PENDING);
    pid = start_child("echo", -1, hr__listener_address(l));
    link = accept_one(l, WAIT_MS);
    assert_non_null(link);
    send_table(link, 1, t);
    m = receive(link);
    assert_ints(m.table, 1000, 3);
    hr__message_clear(&m);
    hr__link_unref(link);
    assert_int_equal(end_of_child(pid), 0);
    hr_table_unref(t);
    hr__listener_close(l);
    assert_no_leak(before);
}

static void assert_turned_away(hr_listener *l, const char *address)
{
    hr_link *c = NULL;
    hr_message m;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__link_connect(address, NULL, &c, &err), &err);
    (void)!hr__link_send(c, 1, 1, "let me in", 9, NULL, NULL);
    assert_null(accept_one(l, 30));
    assert_int_equal(hr__link_recv(c, WAIT_MS, &m, &err), HR_PEER);
    hr__link_unref(c);
}

static void a_wrong_token_is_turned_away(void **state)
{
    live_memory before = live_now();
    hr_listener *l = NULL, *open = NULL;
    hr_link *c[40] = { NULL }, *link;
    char wrong[128];
    size_t n;

    (void)state;
    assert_ok(hr__listener_open(NULL, &l, NULL), NULL);
    n = strlen(hr__listener_address(l));
    for (size_t i = n - 32; i < n; i += 31) { /* the first and the last digit */
        strcpy(wrong, hr__listener_address(l));
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_turned_away(l, wrong);
    }
    wrong[n - 33] = 0; /* no token at all */
    assert_turned_away(l, wrong);
    for (int i = 0; i < HR_LEN(c); i++) /* guests that say nothing do not keep others out */
        assert_ok(hr__link_connect(wrong, NULL, &c[i], NULL), NULL);
    assert_null(accept_one(l, 20));
    for (int i = 0; i < HR_LEN(c); i++)
        hr__link_unref(c[i]);
    assert_ok(hr__link_connect(hr__listener_address(l), NULL, &c[0], NULL), NULL);
    assert_non_null(link = accept_one(l, WAIT_MS));
    hr__link_unref(link);
    hr__link_unref(c[0]);
    hr__listener_close(l);
    assert_ok(hr__listener_open("headrace-test-open", &open, NULL), NULL); /* a NULL token needs none */
    assert_ok(hr__link_connect("headrace-test-open", NULL, &c[0], NULL), NULL);
    assert_non_null(link = accept_one(open, WAIT_MS));
    hr__link_unref(link);
    hr__link_unref(c[0]);
    hr__listener_close(open);
    assert_no_leak(before);
}

static void addresses_are_checked(void **state)
{
    static const struct {
        const char *address;
        hr_status st;
    } cases[] = {
        { "", HR_INVALID },
        { ":", HR_INVALID },
        { "name:", HR_INVALID },
        { "name:123", HR_INVALID },
        { "name:0123456789abcdef0123456789abcdeg", HR_INVALID },
        { ":0123456789abcdef0123456789abcdef", HR_INVALID },
        { "headrace-nobody:0123456789abcdef0123456789abcdef", HR_PEER },
        { "headrace-nobody", HR_PEER },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_link *c = NULL;
        assert_status(hr__link_connect(cases[i].address, NULL, &c, &err), cases[i].st, &err);
        assert_null(c);
        assert_true(err.text[0]);
        assert_null(strstr(err.text, "0123456789abcdef")); /* tokens do not get into logs */
    }
}

/* ----------------------------------------------------------------------------------------------------------- damage */

/* What one end sent, packet by packet. */
typedef struct recording {
    int n;
    int64_t bytes[16];
    uint64_t *packets[16];
    int fds[16]; /* -1: none */
} recording;

static void record(int raw, recording *r)
{
    static uint64_t buffer[8192];
    int64_t n;
    int n_fds;

    for (r->n = 0; r->n < 16; r->n++) {
        r->fds[r->n] = -1;
        n = hr__socket_recv(raw, buffer, sizeof buffer, &r->fds[r->n], 1, &n_fds);
        if (n <= 0)
            break;
        r->bytes[r->n] = n;
        r->packets[r->n] = test_malloc((size_t)n + 8);
        memcpy(r->packets[r->n], buffer, (size_t)n);
    }
}

static void recording_free(recording *r)
{
    for (int i = 0; i < r->n; i++) {
        test_free(r->packets[i]);
        hr__file_close(r->fds[i]);
    }
}

/* Sends the recording to a new link. -> what receiving gives. */
static hr_status replay(const recording *r)
{
    hr_error err = HR_ERROR_INIT;
    hr_link *l = NULL;
    hr_message m;
    hr_status st;
    int fds[2];

    assert_int_equal(local_sockets(fds), 0);
    assert_ok(hr__link_new(fds[0], NULL, NULL, &l, &err), &err);
    for (int i = 0; i < r->n; i++)
        (void)hr__socket_send(fds[1], r->packets[i], r->bytes[i], &r->fds[i], r->fds[i] >= 0);
    while (!(st = hr__link_recv(l, 0, &m, &err)))
        hr__message_clear(&m);
    if (st != HR_PENDING)
        assert_true(err.status == st && err.text[0]);
    hr__link_unref(l);
    hr__file_close(fds[1]);
    return st;
}

static void record_table(hr_arena *a, const hr_table *t, const void *bytes, int64_t n_bytes, recording *r)
{
    hr_link *l = NULL;
    int fds[2];

    assert_int_equal(local_sockets(fds), 0);
    assert_ok(hr__link_new(fds[0], NULL, a, &l, NULL), NULL);
    assert_ok(hr__link_send(l, 3, 4, bytes, n_bytes, t, NULL), NULL);
    record(fds[1], r);
    hr__link_unref(l);
    hr__file_close(fds[1]);
}

static void expect_harmless(const recording *r)
{
    hr_status st = replay(r);

    if (st != HR_PENDING && st != HR_BAD_DATA && st != HR_PEER)
        fail_msg("a damaged packet gave %s", hr_status_name(st));
}

static void damage_all(recording *r)
{
    static const uint8_t flips[3] = { 1, 0x80, 0xFF };

    assert_int_equal(replay(r), HR_PENDING);
    for (int i = 0; i < r->n; i++) {
        uint8_t *p = (uint8_t *)r->packets[i];
        int64_t n = r->bytes[i];
        for (int64_t k = 0; k < n; k++)
            for (int f = 0; f < N_FLIPS; f++) {
                p[k] ^= flips[f];
                expect_harmless(r);
                p[k] ^= flips[f];
            }
        for (r->bytes[i] = 1; r->bytes[i] < n; r->bytes[i]++)
            expect_harmless(r);
        r->bytes[i] = n + 8;
        expect_harmless(r);
        r->bytes[i] = n;
    }
}

static void damaged_packets_do_no_harm(void **state)
{
    live_memory before = live_now();
    static const char *const names[] = { "int64", "string", "list<item: string>", "list<item: list<item: double>>" };
    uint64_t seed = 3;

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++) {
        hr_arena *a = arena_new("other");
        hr_type *type = type_named(names[i]);
        hr_table *t = random_table(&seed, &type, 1, 20), *shared = in_arena(a, t);
        recording r;
        record_table(a, shared, "text", 4, &r);
        damage_all(&r);
        recording_free(&r);
        hr_table_unref(t);
        hr_table_unref(shared);
        hr__type_unref(type);
        hr__arena_unref(a);
    }
    assert_no_leak(before);
}

/* A descriptor for which there is no room is not the peer's fault. */
static void no_room_for_a_descriptor(void **state)
{
    hr_error err = HR_ERROR_INIT;
    live_memory before = live_now();
    pair p = pair_new();
    hr_table *t = ints_table(p.arena, 10, 1);
    struct rlimit was, few;
    hr_message m = { 0 };
    int lowest;
    hr_status st;

    (void)state;
    send_table(p.left, 1, t);
    lowest = dup(0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    st = hr__link_recv(p.right, 0, &m, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    if (!st && getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "vgpreload"))
        print_message("valgrind lets messages bring more descriptors than there may be\n");
    else
        assert_status(st, HR_IO, &err);
    if (st)
        assert_contains(err.text, "descriptor");
    hr_error_clear(&err);
    hr__message_clear(&m);
    hr_table_unref(t);
    pair_free(&p);
    assert_no_leak(before);
}

static void damaged_contents_are_found(void **state)
{
    hr_arena *a = arena_new("other");
    hr_array *column = array_of_strings((const char *const[]){ "some", "words", "here" }, 3);
    hr_field f = { 0 };
    hr_schema *s = NULL;
    hr_table *t = NULL, *shared;
    recording r;

    (void)state;
    assert_ok(hr__field_init(&f, "word", column->type, true, NULL), NULL);
    assert_ok(hr__schema_new(&f, 1, &s, NULL), NULL);
    assert_ok(hr__table_new(s, &column, 3, NULL, &t, NULL), NULL);
    shared = in_arena(a, t);
    record_table(a, shared, NULL, 0, &r);
    assert_int_equal(replay(&r), HR_PENDING);
    ((int32_t *)(void *)shared->columns[0]->buffers[1]->data)[1] = 1000000;
    assert_int_equal(replay(&r), HR_BAD_DATA);
    recording_free(&r);
    hr_table_unref(shared);
    hr_table_unref(t);
    hr__schema_unref(s);
    hr__field_clear(&f);
    hr__arena_unref(a);
}

static void descriptors_are_checked(void **state)
{
    int fds[2], memfd = hr__memfd("test", 1 << 20);
    hr_packet_segment head = { .head = hr__packet_head(HR_PACKET_SEGMENT), .id = 5, .n_bytes = 1 << 20 };
    uint64_t packet[3];
    recording r = { .n = 1, .bytes = { sizeof head }, .packets = { packet }, .fds = { memfd } };
    FILE *file = tmpfile();

    (void)state;
    memcpy(packet, &head, sizeof head);
    assert_int_equal(replay(&r), HR_PENDING);
    r.fds[0] = -1;
    assert_int_equal(replay(&r), HR_BAD_DATA);
    assert_int_equal(pipe(fds), 0);
    r.fds[0] = fds[0];
    assert_int_equal(replay(&r), HR_BAD_DATA);
    assert_int_equal(ftruncate(fileno(file), 1 << 20), 0);
    r.fds[0] = fileno(file); /* could shrink while it is read */
    assert_int_equal(replay(&r), HR_BAD_DATA);
    head.n_bytes++;
    memcpy(packet, &head, sizeof head);
    r.fds[0] = memfd;
    assert_int_equal(replay(&r), HR_BAD_DATA);
    head.head.version = 9;
    memcpy(packet, &head, sizeof head);
    assert_int_equal(replay(&r), HR_BAD_DATA);
    fclose(file);
    close(fds[0]);
    close(fds[1]);
    hr__file_close(memfd);
}

/* -------------------------------------------------------------------------------------------------- threads, faults */

enum { N_SENDERS = 3 };

typedef struct crowd {
    pair p;
    int per_sender;
    hr_mutex lock;
    hr_cond more;
    hr_message *to_release;
    int n, n_released;
} crowd;

static void crowd_send(crowd *c, int thread)
{
    for (int i = 0; i < c->per_sender; i++) {
        hr_table *t = ints_table(i % 2 ? c->p.arena : NULL, 500 + i % 700, i);
        send_table(c->p.left, (uint64_t)(thread * c->per_sender + i), t);
        hr_table_unref(t);
    }
}

/* Receives all, sends some back, leaves all to the releasing threads. */
static void crowd_echo(crowd *c)
{
    for (int i = 0; i < N_SENDERS * c->per_sender; i++) {
        hr_message m = receive(c->p.right);
        assert_int_equal(int_at(m.table, 499), (int64_t)(m.tag % (uint64_t)c->per_sender) * 499);
        if (m.tag % 3 == 0)
            send_table(c->p.right, m.tag, m.table);
        hr__lock(&c->lock);
        c->to_release[c->n++] = m;
        hr__cond_broadcast(&c->more);
        hr__unlock(&c->lock);
    }
    assert_ok(hr__link_flush(c->p.right, WAIT_MS, NULL), NULL);
}

static void crowd_release(crowd *c)
{
    int all = N_SENDERS * c->per_sender;

    for (;;) {
        hr_message m = { 0 };
        hr__lock(&c->lock);
        while (c->n_released == c->n && c->n < all)
            hr__cond_wait(&c->more, &c->lock);
        if (c->n_released < c->n)
            m = c->to_release[c->n_released++];
        hr__unlock(&c->lock);
        if (!m.table)
            return;
        hr__message_clear(&m);
    }
}

static void crowd_receive(crowd *c)
{
    for (int i = 0; i < N_SENDERS * c->per_sender; i++)
        if (i % 3 == 0) {
            hr_message m = receive(c->p.left);
            assert_int_equal(int_at(m.table, 499), (int64_t)(m.tag % (uint64_t)c->per_sender) * 499);
            hr__message_clear(&m);
        }
}

static void crowd_thread(void *arg, int thread)
{
    crowd *c = arg;

    if (thread < N_SENDERS)
        crowd_send(c, thread);
    else if (thread == N_SENDERS)
        crowd_echo(c);
    else if (thread == N_SENDERS + 1)
        crowd_receive(c);
    else
        crowd_release(c);
}

static void threads_send_receive_and_release(void **state)
{
    live_memory before = live_now();
    crowd c = { .p = pair_new(), .per_sender = SCALE(3000) };

    (void)state;
    c.to_release = test_calloc((size_t)(N_SENDERS * c.per_sender), sizeof *c.to_release);
    hr__mutex_init(&c.lock);
    hr__cond_init(&c.more);
    run_threads(N_SENDERS + 4, crowd_thread, &c);
    while (hr__link_outstanding(c.p.left) || hr__link_outstanding(c.p.right)) {
        settle(c.p.right);
        settle(c.p.left);
    }
    assert_int_equal(hr__arena_used(c.p.arena), 0);
    pair_free(&c.p);
    hr__cond_clear(&c.more);
    hr__mutex_clear(&c.lock);
    test_free(c.to_release);
    assert_no_leak(before);
}

static hr_status there_and_back(hr_link *left, hr_link *right, hr_table *t, hr_error *err)
{
    hr_status st = HR_OK;
    hr_message m = { 0 }, back = { 0 };

    HR_GO(hr__link_send(left, 1, 2, "bytes", 5, t, err));
    HR_GO(hr__link_recv(right, 1000, &m, err));
    HR_GO(hr__link_send(right, 1, 2, m.bytes, m.n_bytes, m.table, err));
    HR_GO(hr__link_recv(left, 1000, &back, err));
    if (back.table->n_rows != t->n_rows)
        HR_FAIL(HR_BUG, "rows were lost");
done:
    hr__message_clear(&m);
    hr__message_clear(&back);
    return st;
}

static hr_status use_links(void *context, hr_error *err)
{
    hr_status st = HR_OK;
    hr_table **tables = context;
    hr_listener *listener = NULL;
    hr_link *left = NULL, *right = NULL;

    HR_GO(hr__listener_open(NULL, &listener, err));
    HR_GO(hr__link_connect(hr__listener_address(listener), NULL, &left, err));
    if ((st = hr__listener_accept(listener, NULL, NULL, &right, err)) == HR_PENDING)
        HR_FAIL(HR_PEER, "nobody at the door"); /* the guest was turned away for want of memory */
    HR_GO(st);
    for (int i = 0; i < 3; i++)
        HR_GO(there_and_back(left, right, tables[i], err));
done:
    hr__link_unref(left);
    hr__link_unref(right);
    hr__listener_close(listener);
    return st;
}

static void faults(void **state)
{
    uint64_t seed = 9;
    hr_type *types[4];
    hr_table *tables[3];
    char *text = test_malloc(70000);

    (void)state;
    for (int k = 0; k < 4; k++)
        types[k] = sample_type(n_sample_types() - 1 - 3 * k);
    tables[0] = random_table(&seed, types, 4, 30);
    tables[1] = ints_table(NULL, 1000, 1);
    memset(text, 'x', 70000);
    text[69999] = 0;
    tables[2] = named_table(text); /* travels outside of its packet */
    run_with_faults_on(use_links, tables, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    for (int k = 0; k < 4; k++)
        hr__type_unref(types[k]);
    for (int i = 0; i < 3; i++)
        hr_table_unref(tables[i]);
    test_free(text);
}

/* A message that could not be received for want of memory is not lost. */
static void after_no_memory_it_is_received_again(void **state)
{
    live_memory before = live_now();
    uint64_t seed = 10;

    (void)state;
    for (int64_t call = 0, hit = 1; hit; call++) {
        pair p = pair_new();
        hr_type *type = type_named("list<item: string>");
        hr_table *t = random_table(&seed, &type, 1, 10);
        hr_message m;
        hr_status st;
        send_table(p.left, 0, t);
        hr__fault_arm(HR_FAULT_MEMORY, call);
        st = hr__link_recv(p.right, 0, &m, NULL);
        hit = hr__fault_disarm();
        assert_int_equal(st, hit ? HR_NO_MEMORY : HR_OK);
        if (st)
            m = receive(p.right);
        assert_same_table(m.table, t);
        hr__message_clear(&m);
        settle(p.left);
        assert_int_equal(hr__link_outstanding(p.left), 0);
        hr_table_unref(t);
        hr__type_unref(type);
        pair_free(&p);
    }
    assert_no_leak(before);
}

/* ------------------------------------------------------------------------------------------- a corpus for fuzz_link */

static void put_part(FILE *f, const void *data, int64_t n)
{
    uint32_t n32 = (uint32_t)n;

    fwrite(&n32, sizeof n32, 1, f);
    fwrite(data, 1, (size_t)n, f);
}

/* The bytes of the segment that the table lies in; NULL: it has none. */
static void find_segment(void *context, hr_buffer *b)
{
    int64_t at;
    hr_segment *s = hr__buffer_segment(b, &at);

    if (s)
        *(const uint8_t **)context = s->data;
}

static void write_corpus(const char *folder)
{
    uint64_t seed = 21;

    for (int k = 0; k < 12; k++) {
        hr_arena *a = arena_new("other");
        hr_type *types[3];
        hr_table *t, *shared;
        recording r;
        char path[1024];
        uint8_t nothing[64] = { 0 };
        const uint8_t *segment = NULL;
        FILE *f;
        for (int i = 0; i < 3; i++)
            types[i] = sample_type((k * 11 + i * 5) % n_sample_types());
        t = random_table(&seed, types, 3, 4 + k);
        shared = in_arena(a, t);
        record_table(a, shared, "some bytes", 10, &r);
        for (int i = 0; i < 3; i++)
            hr__array_buffers(shared->columns[i], find_segment, &segment);
        snprintf(path, sizeof path, "%s/message_%02d", folder, k);
        assert_non_null(f = fopen(path, "wb"));
        put_part(f, segment ? segment : nothing, segment ? HR_MIN(hr__arena_used(a), 16384) : 64);
        for (int i = 0; i < r.n; i++)
            put_part(f, r.packets[i], r.bytes[i]);
        fclose(f);
        recording_free(&r);
        hr_table_unref(t);
        hr_table_unref(shared);
        for (int i = 0; i < 3; i++)
            hr__type_unref(types[i]);
        hr__arena_unref(a);
    }
}

/* ------------------------------------------------------------------------------------------------ reading what came */

/* Each error names what is read, the place, what was expected and what is there; a read that fails moves nothing. */
static void test_reader(void **state)
{
    const int32_t numbers[] = { 7, -1, 3 };
    hr_wire_reader r = hr__wire_reader("a list", numbers, sizeof numbers);
    hr_error err = HR_ERROR_INIT;
    const uint8_t *bytes;
    int64_t wide = 0;
    int32_t n = 0;

    (void)state;
    assert_ok(hr__wire_get_int32(&r, "the count", 0, 7, &n, &err), &err);
    assert_int_equal(n, 7);
    assert_int_equal(hr__wire_get_int32(&r, "the size", 0, 9, &n, &err), HR_BAD_DATA);
    assert_string_equal(err.text, "link: a list: before byte 8: the size is -1, expected 0 to 9");
    assert_int_equal(hr__wire_get_int64(&r, "the offset", 0, 9, &wide, &err), HR_BAD_DATA);
    assert_string_equal(err.text, "link: a list: byte 8: the offset takes 8 bytes, 4 are left");
    assert_int_equal(hr__wire_get_bytes(&r, "a name", -1, &bytes, &err), HR_BAD_DATA);
    assert_int_equal(hr__wire_get_end(&r, &err), HR_BAD_DATA);
    assert_string_equal(err.text, "link: a list: ends at byte 8, 4 bytes follow");
    assert_ok(hr__wire_get_struct(&r, "the rest", &n, sizeof n, &err), &err);
    assert_int_equal(n, 3);
    assert_ok(hr__wire_get_end(&r, &err), &err);
    hr_error_clear(&err);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader),
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
        cmocka_unit_test(backlogs_are_reported_once),
        cmocka_unit_test(segments_that_were_given_back_are_forgotten),
        cmocka_unit_test(what_was_sent_arrives_after_the_end),
        cmocka_unit_test(contents_stay_when_the_sender_closes),
        cmocka_unit_test(contents_stay_when_the_receiver_closes),
        cmocka_unit_test(contents_stay_when_goodbye_cannot_be_said),
        cmocka_unit_test(a_receiver_that_held_nothing_costs_nothing),
        cmocka_unit_test(tables_outlive_their_link),
        cmocka_unit_test(closing_wakes_who_waits),
        cmocka_unit_test(tables_come_back_from_another_process),
        cmocka_unit_test(a_killed_child_gives_everything_back),
        cmocka_unit_test(a_forked_child_has_no_link),
        cmocka_unit_test(a_child_connects_with_the_token),
        cmocka_unit_test(a_wrong_token_is_turned_away),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(damaged_packets_do_no_harm),
        cmocka_unit_test(no_room_for_a_descriptor),
        cmocka_unit_test(damaged_contents_are_found),
        cmocka_unit_test(descriptors_are_checked),
        cmocka_unit_test(threads_send_receive_and_release),
        cmocka_unit_test(faults),
        cmocka_unit_test(after_no_memory_it_is_received_again),
    };

    program = argv[0];
    if (argc >= 4 && !strcmp(argv[1], "child"))
        return child_main(argv[2], atoi(argv[3]), argv[4]);
    if (getenv("HEADRACE_WRITE_CORPUS"))
        write_corpus(getenv("HEADRACE_WRITE_CORPUS"));
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
