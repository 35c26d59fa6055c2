/* test_crc.c - checksums: published values, every length and place, all kernels alike. */
#include "codec/codec.h"
#include "harness.h"

static void test_published(void **state)
{
    static const uint8_t zeros[32];

    (void)state;
    assert_int_equal(hr__crc32(0, "123456789", 9), 0xcbf43926);
    assert_int_equal(hr__crc32_by(0, 0, "123456789", 9), 0xcbf43926);
    assert_int_equal(hr__crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(hr__crc32c_by(0, 0, "123456789", 9), 0xe3069283);
    assert_int_equal(hr__crc32c(0, zeros, 32), 0x8a9136aa); /* RFC 3720 */
    assert_int_equal(hr__crc32c(0, "", 0), 0);
}

/* Bit by bit. */
static uint32_t slow(uint32_t poly, uint32_t c, const uint8_t *p, int64_t n)
{
    c = ~c;
    while (n-- > 0) {
        c ^= *p++;
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? poly : 0);
    }
    return ~c;
}

static void test_lengths(void **state)
{
    static uint8_t data[20000];
    uint64_t random = 11;

    (void)state;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)next_random(&random);
    for (int i = 0; i < 400; i++) {
        int64_t n = i < 100 ? i : random_below(&random, 12000), at = random_below(&random, 4000);
        uint32_t begin = (uint32_t)next_random(&random), want = slow(0x82f63b78u, begin, data + at, n);

        assert_int_equal(hr__crc32c(begin, data + at, n), want);
        assert_int_equal(hr__crc32c_by(0, begin, data + at, n), want);
        want = slow(0xedb88320u, begin, data + at, n);
        assert_int_equal(hr__crc32(begin, data + at, n), want);
        assert_int_equal(hr__crc32_by(0, begin, data + at, n), want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_published), cmocka_unit_test(test_lengths) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
