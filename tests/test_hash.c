/* test_hash.c - MurmurHash3_x64_128 against its author's verification value; parts; spread. */
#include "harness.h"

#include <stdlib.h>

static hr_bits128 hash_of(const void *data, size_t n, uint64_t seed)
{
    hr_hash h;

    hr__hash_init(&h, seed);
    hr__hash_add(&h, data, n);
    return hr__hash_end(&h);
}

static bool equal(hr_bits128 a, hr_bits128 b) { return a.lo == b.lo && a.hi == b.hi; }

static const struct {
    const char *text;
    uint64_t lo, hi;
} published[] = {
    { "", 0, 0 },
    { "hello", 0xcbd8a7b341bd9b02, 0x5b1e906a48ae1d19 },
    { "The quick brown fox jumps over the lazy dog", 0xe34bbc7bbc071b6c, 0x7a433ca9c49a9347 },
};

static void published_values(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(published); i++) {
        hr_bits128 got = hash_of(published[i].text, strlen(published[i].text), 0);
        assert_true(got.lo == published[i].lo && got.hi == published[i].hi);
    }
}

static void put_le(uint8_t *p, uint64_t w)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(w >> (8 * i));
}

/* SMHasher's check of an implementation: all lengths below 256, each with another seed, and the hash of the hashes. */
static void verification_value(void **state)
{
    uint8_t key[256], hashes[256 * 16];

    (void)state;
    for (int i = 0; i < 256; i++) {
        key[i] = (uint8_t)i;
        hr_bits128 h = hash_of(key, (size_t)i, (uint64_t)(256 - i));
        put_le(hashes + i * 16, h.lo);
        put_le(hashes + i * 16 + 8, h.hi);
    }
    assert_int_equal((uint32_t)hash_of(hashes, sizeof hashes, 0).lo, 0x6384BA69);
}

static void unaligned_data(void **state)
{
    uint8_t bytes[80];

    (void)state;
    for (int shift = 0; shift < 16; shift++) {
        memset(bytes, 0xEE, sizeof bytes);
        for (int i = 0; i < 60; i++)
            bytes[shift + i] = (uint8_t)(i * 7);
        if (shift == 0)
            continue;
        uint8_t aligned[60];
        memcpy(aligned, bytes + shift, 60);
        assert_true(equal(hash_of(bytes + shift, 60, 5), hash_of(aligned, 60, 5)));
    }
}

/* Sequences of parts that hold the same bytes, or nearly, but are not the same sequence: all hashes differ. */
static const struct {
    const char *parts[3];
    int n[3];
} sequences[] = {
    { { "abc" }, { 3 } },
    { { "ab", "c" }, { 2, 1 } },
    { { "a", "bc" }, { 1, 2 } },
    { { "a", "b", "c" }, { 1, 1, 1 } },
    { { "abc", "" }, { 3, 0 } },
    { { "abc", "\0" }, { 3, 1 } },
    { { "abc\0" }, { 4 } },
    { { "a\0", "b" }, { 2, 1 } },
    { { "a", "b\0" }, { 1, 2 } },
    { { "a", "\0b" }, { 1, 2 } },
    { { "0123456789abcdef" }, { 16 } },
    { { "01234567", "89abcdef" }, { 8, 8 } },
};

static void parts_are_parts(void **state)
{
    hr_bits128 got[HR_LEN(sequences)];

    (void)state;
    for (int i = 0; i < HR_LEN(sequences); i++) {
        hr_hash h;
        hr__hash_init(&h, 0);
        for (int k = 0; k < 3 && sequences[i].parts[k]; k++)
            hr__hash_add(&h, sequences[i].parts[k], (size_t)sequences[i].n[k]);
        got[i] = hr__hash_end(&h);
        assert_true(equal(got[i], hr__hash_end(&h))); /* hr__hash_end() may be called twice */
        for (int j = 0; j < i; j++)
            assert_false(equal(got[i], got[j]));
    }
}

static hr_bits128 hash_of_texts(const char *a, const char *b)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__hash_text(&h, a);
    hr__hash_text(&h, b);
    return hr__hash_end(&h);
}

/* Long data are hashed in pieces, so that it can stop between them. */
static void stopped(void **state)
{
    static const size_t lengths[] = { 0, 5, 1 << 20, (1 << 20) + 1, (1 << 20) + 16, (3 << 20) + 7 };
    uint8_t *data = calloc(1, (3 << 20) + 7);
    atomic_bool stop = false;

    (void)state;
    for (int i = 0; i < HR_LEN(lengths); i++) {
        hr_hash a, b, c;

        data[lengths[i] / 2] = 1;
        hr__hash_init(&a, 1);
        hr__hash_int(&a, 7);
        b = c = a;
        hr__hash_add(&a, data, lengths[i]);
        stop = false;
        hr__hash_add_until(&b, data, lengths[i], &stop);
        assert_true(hr__hash_end(&a).lo == hr__hash_end(&b).lo && hr__hash_end(&a).hi == hr__hash_end(&b).hi);
        stop = true;
        hr__hash_add_until(&c, data, lengths[i], &stop);
        assert_true((hr__hash_end(&a).lo == hr__hash_end(&c).lo) == (lengths[i] <= 1 << 20));
    }
    free(data);
}

static void texts_and_numbers(void **state)
{
    hr_hash h;
    uint8_t le[8];

    (void)state;
    assert_false(equal(hash_of_texts("ab", "c"), hash_of_texts("a", "bc")));
    assert_false(equal(hash_of_texts("", "c"), hash_of_texts("c", "")));
    assert_false(equal(hash_of_texts(NULL, "c"), hash_of_texts("", "c")));
    assert_true(equal(hash_of_texts("ab", "c"), hash_of_texts("ab", "c")));
    for (int64_t v = -3; v <= 3; v++) {
        hr__hash_init(&h, 9);
        hr__hash_int(&h, v * 0x0123456789ABCDEF);
        put_le(le, (uint64_t)v * 0x0123456789ABCDEF);
        assert_true(equal(hr__hash_end(&h), hash_of(le, 8, 9)));
    }
}

/* A flipped bit of a number, alone or after another part, changes half of the bits: keys are often small numbers. */
static void spread(void **state)
{
    int64_t changed = 0, n = 0;

    (void)state;
    for (int64_t v = 0; v < 300; v++)
        for (int bit = 0; bit < 64; bit++) {
            hr_hash a, b;
            hr__hash_init(&a, 0);
            hr__hash_int(&a, 7);
            b = a;
            hr__hash_int(&a, v);
            hr__hash_int(&b, v ^ (int64_t)((uint64_t)1 << bit));
            hr_bits128 x = hr__hash_end(&a), y = hr__hash_end(&b);
            int here = __builtin_popcountll(x.lo ^ y.lo) + __builtin_popcountll(x.hi ^ y.hi);
            assert_in_range(here, 25, 103);
            changed += here;
            n++;
        }
    assert_in_range(changed / n, 63, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values), cmocka_unit_test(verification_value), cmocka_unit_test(unaligned_data),
        cmocka_unit_test(parts_are_parts),  cmocka_unit_test(texts_and_numbers),  cmocka_unit_test(spread),
        cmocka_unit_test(stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
