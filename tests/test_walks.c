/* test_walks.c - what walks have found, kept and taken by several threads. */
#include "harness.h"

#include "format/walks.h"

#include <stdio.h>

#define THREADS 4
#define VERSIONS 40
#define ROUNDS 3000

/* The versions of sources are what follows the name's first letter. */
static bool add_version(const hr_source *s, hr_hash *h)
{
    hr__hash_text(h, s->name + 1);
    return s->name[1] != 0;
}

static hr_source *source_of(const char *name)
{
    static hr_source_class cls; /* the same for all */
    hr_source *s = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__source_new_memory(name, "x", 1, NULL, &s, &err), &err);
    if (!cls.add_version) {
        cls = *s->cls;
        cls.add_version = add_version;
    }
    s->cls = &cls;
    return s;
}

static int64_t length_of(int version, uint64_t how) { return 1 + (version * 131 + (int64_t)how * 17) % 1500; }

/* The bytes of one version and one way to walk; -> whether they were known. */
static bool take(const hr_source *s, int version, uint64_t how)
{
    uint8_t *bytes;
    int64_t n;

    if (!hr__walk_take(s, (hr_bits128){ how, 7 }, NULL, &bytes, &n))
        return false;
    assert_int_equal(n, length_of(version, how));
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(bytes[i], (version + (int)how) & 255);
    hr__free(bytes);
    return true;
}

static void keep(const hr_source *s, int version, uint64_t how, hr_account *account)
{
    uint8_t bytes[1500];

    memset(bytes, (version + (int)how) & 255, sizeof bytes);
    hr__walk_keep(s, (hr_bits128){ how, 7 }, account, bytes, length_of(version, how));
}

typedef struct shared {
    hr_source *sources[VERSIONS];
    hr_account *account;
    atomic_int known;
} shared;

static void use(void *arg, int thread)
{
    shared *x = arg;
    uint64_t random = (uint64_t)thread + 1;

    for (int i = 0; i < ROUNDS; i++) {
        int version;
        uint64_t how;

        random = random * 6364136223846793005u + 1442695040888963407u;
        version = (int)(random >> 33) % VERSIONS;
        how = random >> 62;
        if (take(x->sources[version], version, how))
            atomic_fetch_add(&x->known, 1);
        else
            keep(x->sources[version], version, how, x->account);
    }
}

static void threads_share_the_list(void **state)
{
    shared x = { .account = hr__account_new("walks", NULL, 2 << 20) }; /* 32 KiB of walks: they push each other out */

    (void)state;
    assert_non_null(x.account);
    for (int i = 0; i < VERSIONS; i++) {
        char name[16];

        snprintf(name, sizeof name, "v%d", i);
        x.sources[i] = source_of(name);
    }
    run_threads(THREADS, use, &x);
    assert_in_range(atomic_load(&x.known), 1, THREADS * ROUNDS - VERSIONS);
    for (int i = 0; i < VERSIONS; i++)
        hr__source_unref(x.sources[i]);
    hr__account_unref(x.account);
}

/* The walk that was used last stays, the others go when there are too many. */
static void the_last_used_stay(void **state)
{
    hr_account *account = hr__account_new("walks", NULL, 2 << 20);
    hr_source *first = source_of("a1001"), *others = source_of("a1002"), *none = source_of("a");

    (void)state;
    keep(first, 1, 0, account);
    for (uint64_t how = 0; how < 200; how++) {
        keep(others, 2, how, account);
        assert_true(take(first, 1, 0));
        assert_true(take(others, 2, how));
    }
    assert_false(take(others, 2, 0));
    assert_false(take(first, 1, 1));
    keep(none, 3, 0, account);
    assert_false(take(none, 3, 0)); /* it has no version */
    hr__source_unref(first);
    hr__source_unref(others);
    hr__source_unref(none);
    hr__account_unref(account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_the_list),
        cmocka_unit_test(the_last_used_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
