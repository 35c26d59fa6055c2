/* test_utf8.c - UTF-8: cases, all short sequences by a decoder written another way, and each kernel like the scalar
 * one. */
#include "harness.h"

static const struct {
    const char *text;
    bool valid;
} cases[] = {
    { "", true },
    { "plain", true },
    { "Gr\xC3\xBC\xC3\x9F"
      "e",
      true },
    { "\xE6\x97\xA5\xE6\x9C\xAC", true },
    { "\xF0\x9F\x98\x80", true },
    { "\xF4\x8F\xBF\xBF", true },
    { "\xED\x9F\xBF", true },
    { "\xEE\x80\x80", true },
    { "\x80", false },
    { "\xC0\x80", false },
    { "\xC1\xBF", false },
    { "\xC3", false },
    { "\xC3(", false },
    { "\xE0\x80\x80", false },
    { "\xE0\x9F\xBF", false },
    { "\xED\xA0\x80", false }, /* a surrogate */
    { "\xF0\x80\x80\x80", false },
    { "\xF4\x90\x80\x80", false },
    { "\xF5\x80\x80\x80", false },
    { "\xFF", false },
    { "0123456789012345678901234567890123456789\xE6\x97\xA5", true },
    { "0123456789012345678901234567890123456789\xE6\x97", false },
    { "0123456789012345678901234567\xC3\xBC"
      "9012345678901234567890123456789\x80",
      false },
};

static void known_cases(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++)
        assert_int_equal(hr__utf8_valid(cases[i].text, (int64_t)strlen(cases[i].text)), cases[i].valid);
}

/* All sequences of up to three bytes out of the interesting ones, by a decoder written another way. */
static bool utf8_slow(const uint8_t *s, int n)
{
    for (int i = 0; i < n;) {
        uint32_t c = s[i];
        int more = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : c >> 3 == 30 ? 3 : -1;
        static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };

        if (more < 0 || i + more >= n)
            return false;
        c &= more ? 0x3Fu >> more : 0x7Fu;
        for (int k = 1; k <= more; k++) {
            if (s[i + k] >> 6 != 2)
                return false;
            c = c << 6 | (s[i + k] & 0x3F);
        }
        if (c < least[more] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
            return false;
        i += more + 1;
    }
    return true;
}

static void another_decoder(void **state)
{
    static const uint8_t bytes[] = { 'a',  0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2,
                                     0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF3, 0xF4, 0xF5 };
    uint8_t s[4];

    (void)state;
    for (int a = 0; a < HR_LEN(bytes); a++)
        for (int b = 0; b < HR_LEN(bytes); b++)
            for (int c = 0; c < HR_LEN(bytes); c++)
                for (int d = 0; d < HR_LEN(bytes); d++)
                    for (int n = 1; n <= 4; n++) {
                        s[0] = bytes[a], s[1] = bytes[b], s[2] = bytes[c], s[3] = bytes[d];
                        bool want = utf8_slow(s, n);

                        if (hr__utf8_valid_by(0, s, n) != want || hr__utf8_valid_by(hr__cpu_features(), s, n) != want)
                            fail_msg("%02x %02x %02x %02x, %d of them", s[0], s[1], s[2], s[3], n);
                    }
}

/* Valid and nearly valid text of all lengths, at all places of a block: every kernel says what the scalar one says. */
static void kernels_agree(void **state)
{
    static const char *const parts[] = { "a",
                                         "0123456789",
                                         "\xC3\xBC",
                                         "\xE6\x97\xA5",
                                         "\xF0\x9F\x98\x80",
                                         "\xF4\x8F\xBF\xBF",
                                         "\xED\x9F\xBF",
                                         "\xEE\x80\x80",
                                         "\xE0\xA0\x80",
                                         "\xF0\x90\x80\x80" };
    uint64_t seed = 1;
    int n_valid = 0;

    (void)state;
    for (int round = 0; round < 100000; round++) {
        int64_t n = 0, most = random_below(&seed, 150), less = random_below(&seed, 4), cut;
        uint8_t text[200];
        char *exact;
        bool want;

        while (n < most) {
            const char *part = parts[random_below(&seed, random_below(&seed, 3) ? 2 : HR_LEN(parts))];

            memcpy(text + n, part, strlen(part));
            n += (int64_t)strlen(part);
        }
        cut = random_below(&seed, 3) ? n : n - HR_MIN(n, less);
        if (cut && random_below(&seed, 2))
            text[random_below(&seed, cut)] = (uint8_t)next_random(&seed);
        exact = test_malloc((size_t)cut + 1);
        memcpy(exact, text, (size_t)cut);
        want = hr__utf8_valid_by(0, exact, cut);
        assert_int_equal(hr__utf8_valid_by(hr__cpu_features(), exact, cut), want);
        assert_int_equal(hr__utf8_valid(exact, cut), want);
        n_valid += want;
        test_free(exact);
    }
    assert_in_range(n_valid, 20000, 90000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases),
        cmocka_unit_test(another_decoder),
        cmocka_unit_test(kernels_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
