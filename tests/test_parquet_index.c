/* test_parquet_index.c - bloom filters (hash, blocks) and column indexes, valid and damaged. */
#include "format/parquet/parquet_read.h"
#include "harness.h"

#include <stdlib.h>

/* By the reference implementation, of bytes i * 7 + 3. */
static const struct {
    int n;
    uint64_t hash;
} hashes[] = {
    { 0, 0xef46db3751d8e999 },   { 1, 0x1f25c8d0bc1f4bb6 },   { 3, 0x31d2363f52e564c9 },  { 4, 0x9bb64b7d66ee9fda },
    { 7, 0x9a7b149959ce60d8 },   { 8, 0xdab99d95c6f90092 },   { 15, 0x1b47cb8243cc8e32 }, { 31, 0xa2aa5f33cc4a6119 },
    { 32, 0x23c3c17ef790fd97 },  { 33, 0x50a7cfc7ba588784 },  { 63, 0x5e3e54b431c7493c }, { 64, 0x0eb64b3ef6eeb01f },
    { 100, 0xa61f8d4c170fe531 }, { 200, 0xa6cb3c09bc829b24 },
};

static void test_hash(void **state)
{
    uint8_t bytes[200];

    (void)state;
    for (int i = 0; i < 200; i++)
        bytes[i] = (uint8_t)(i * 7 + 3);
    for (int i = 0; i < HR_LEN(hashes); i++)
        assert_true(pq__xxh64(bytes, hashes[i].n) == hashes[i].hash);
}

/* numBytes 64; BLOCK; XXHASH; UNCOMPRESSED. */
#define BLOOM_HEADER "\x15\x80\x01\x1c\x1c\0\0\x1c\x1c\0\0\x1c\x1c\0\0\0"

static bool may_have(const uint8_t *data, int64_t n, int64_t at, uint64_t hash)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *s = NULL;
    bool answer;

    assert_ok(hr__source_new_memory("bloom", data, n, NULL, &s, &err), &err);
    answer = pq__bloom_may_have(s, at, hash);
    hr__source_unref(s);
    return answer;
}

static void test_bloom(void **state)
{
    const int64_t n_header = sizeof BLOOM_HEADER - 1, n = 4 + n_header + 64;
    const uint64_t hash = 0xf123456789abcdefULL; /* in the second block */
    uint8_t *data = calloc(1, (size_t)n);
    int own = 0;

    (void)state;
    memcpy(data + 4, BLOOM_HEADER, (size_t)n_header);
    assert_false(may_have(data, n, 4, hash)); /* nothing is in it */
    memset(data + 4 + n_header + 32, 0xff, 32);
    assert_true(may_have(data, n, 4, hash));
    assert_false(may_have(data, n, 4, hash & ~(1ull << 63))); /* in the first */
    for (int i = 0; i < 32 * 8; i++) {                        /* some eight bits are its own, one in each word */
        data[4 + n_header + 32 + i / 8] ^= (uint8_t)(1 << i % 8);
        if (!may_have(data, n, 4, hash))
            own++;
        data[4 + n_header + 32 + i / 8] ^= (uint8_t)(1 << i % 8);
    }
    assert_int_equal(own, 8);
    assert_true(may_have(data, n - 1, 4, hash)); /* cut short: rules out nothing */
    assert_true(may_have(data, 10, 4, hash));
    assert_true(may_have(data, n, n, hash));
    assert_true(may_have(data, n, -5, hash));
    memset(data + 4 + n_header, 0, 64);
    data[4 + 8] = 0x2c; /* another hash function */
    assert_true(may_have(data, n, 4, hash));
    free(data);
}

/* Three pages: all null; "a" .. "cd" with one null; "" .. "z". */
#define INDEX                                                                                                          \
    "\x19\x31\x01\x02\x02"                                                                                             \
    "\x19\x38\x00\x01"                                                                                                 \
    "a\x00"                                                                                                            \
    "\x19\x38\x00\x02"                                                                                                 \
    "cd\x01z"                                                                                                          \
    "\x15\x00"                                                                                                         \
    "\x19\x36\x0a\x02\x00"                                                                                             \
    "\x00"

static hr_status parse(const char *bytes, int64_t n_bytes, int64_t n_pages, pq_page_stats *out, hr_error *err)
{
    hr_mem mem = { 0 };
    hr_buffer *b = NULL;

    HR_TRY(hr__buffer_copy(&mem, bytes, n_bytes, &b, err));
    return pq__page_stats_parse(b, n_pages, NULL, out, err);
}

static hr_status index_with_faults(hr_error *err)
{
    pq_page_stats s;

    HR_TRY(parse(INDEX, sizeof INDEX - 1, 3, &s, err));
    pq__page_stats_clear(&s);
    return HR_OK;
}

static void test_column_index(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    pq_page_stats s;

    (void)state;
    assert_ok(parse(INDEX, sizeof INDEX - 1, 3, &s, &err), &err);
    assert_true(s.all_null[0] && !s.all_null[1] && !s.all_null[2]);
    assert_null(s.pages[0].least.data);
    assert_int_equal(s.pages[0].null_count, 5);
    assert_true(s.pages[1].least.n == 1 && s.pages[1].most.n == 2 && memcmp(s.pages[1].most.data, "cd", 2) == 0);
    assert_int_equal(s.pages[1].null_count, 1);
    assert_true(s.pages[2].least.data && s.pages[2].least.n == 0 && s.pages[2].most.n == 1);
    pq__page_stats_clear(&s);
    assert_status(parse(INDEX, sizeof INDEX - 1, 2, &s, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "column index: it has another number of pages");
    hr_error_clear(&err);
    assert_status(parse(INDEX, sizeof INDEX - 1, 1 << 20, &s, &err), HR_BAD_DATA, &err);
    hr_error_clear(&err);
    for (int64_t n = 1; n < (int64_t)sizeof INDEX - 1; n++) {
        assert_status(parse(INDEX, n, 3, &s, &err), HR_BAD_DATA, &err);
        hr_error_clear(&err);
    }
    assert_status(parse("\0", 1, 0, &s, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "a list is missing");
    hr_error_clear(&err);
    assert_no_leak(before);
    run_with_faults(index_with_faults, HR_FAULT_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_bloom),
        cmocka_unit_test(test_column_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
