/* test_zstd_check.c - what the check of Zstandard frames finds, and that it refuses no sound frame. */
#include "codec/codec.h"
#include "codec/zstd_check.h"
#include "harness.h"

#include <stdlib.h>

#define BYTES(s) { (const uint8_t *)(s), (int64_t)sizeof(s) - 1 }

/* ---------------------------------------------------------------------------------------------------- damaged frames
 *
 * Each is a sound frame with a bit changed. libzstd 1.5.4 decodes all of them, to other bytes; 1.5.7 refuses them. */
static const struct {
    const char *what;
    hr_view in;
} damaged[] = {
    { "sequences take more bits than there are",
      BYTES("\x28\xb5\x2f\xfd\x20\x3e\x55\x00\x00\x10\x65\x6a\x02\x00\xd0\x21\x92\x09\xae") },
    { "sequences leave bits",
      BYTES("\x28\xb5\x2f\xfd\x20\x22\x6d\x00\x00\x18\x6b\x6b\x71\x03\x00\x77\x19\x80\x75\x3b\x80\x05") },
    { "an offset of 0", BYTES("\x28\xb5\x2f\xfd\x20\x25\x55\x00\x00\x10\x33\x79\x02\x00\x7b\x0f\xa0\x00\x2c") },
    { "one stream of literals, sequences behind it",
      BYTES(
          "\x28\xb5\x2f\xfd\x20\x27\x8d\x00\x00\x42\x41\x02\x05\xe0\x0f\x21\xa0\x0f\x49\x02\x10\x01\x00\x12\x80\x04") },
    { "four streams of literals",
      BYTES("\x28\xb5\x2f\xfd\x60\x36\x00\x95\x03\x00\xb6\x90\x17\x0a\xd0\x65\x38\x84\x90\xbd\x13\x00\xc0\x57\x1b\x00"
            "\x14\x00\x12\x00\x62\x4b\x2f\x46\xd2\x31\x35\xc8\x11\xd2\xb6\xf4\x83\x6b\xa4\xed\x07\x3d\x40\x7d\xff\x4c"
            "\xe2\x5e\x32\x8c\x74\x68\x5b\x1a\x46\x4a\xda\x61\x66\x24\xed\x28\x02\xf7\xae\x85\xdb\x68\xa9\x91\x05\x1d"
            "\x0a\x8d\x2e\xec\x80\xe1\x7b\xb7\x04\x0d\x87\x0e\x58\x10\x7e\x3f\x78\x19\xe1\x98\x3a\xa6\x1d\xe4\x63\xf6"
            "\x04\x68\x0c\x05\x00\x0a\xaa\x3c\x9c\x99\xa1\x9c\xfb\x07\xa2\x1a\x72\x8d\xc2\x04") },
    { "reserved bits",
      BYTES("\x28\xb5\x2f\xfd\x20\x18\x6d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x20\x0a\x01\x01\x99\x4b\x11") },
    { "bytes behind a section that says it is empty",
      BYTES("\x28\xb5\x2f\xfd\x20\x07\x5d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x20\x0a\x00\x99\x4b") },
    { "more literals than the window",
      BYTES("\x28\xb5\x2f\xfd\x20\x06\x4d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x20\x0a\x00\x00") },
};

static void test_damaged(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(damaged); i++) {
        if (hr__zstd_is_sound(damaged[i].in))
            fail_msg("%s", damaged[i].what);
    }
}

/* The caller says how much is checked; NONE is for bytes whose checksum was compared. */
static void test_verified(void **state)
{
    const hr_codec *c = &hr__codec_zstd;
    hr_error err = HR_ERROR_INIT;
    uint8_t out[62];

    (void)state;
    if (!c->block)
        return;
    assert_status(hr__codec_block_verified(c, HR_VERIFY_ALL, damaged[0].in, out, sizeof out, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "zstd: ");
    hr_error_clear(&err);
    if (!hr__codec_block_verified(c, HR_VERIFY_NONE, damaged[0].in, out, sizeof out, &err)) {
        assert_status(c->check(damaged[0].in, true, &err), HR_BAD_DATA, &err);
        assert_string_equal(err.text, "zstd: a block is malformed");
    }
    hr_error_clear(&err);
}

/* ----------------------------------------------------------------------------------------------------- sound frames */

/* Frames in parts of any length, as a stream brings them. */
static bool is_sound_in_parts(const uint8_t *p, int64_t n, uint64_t *random)
{
    hr_zstd_check *c = hr__zstd_check_new(NULL);
    bool ok = true;

    assert_non_null(c);
    for (int64_t at = 0, used; ok && at < n; at += used) {
        used = 1 + random_below(random, random_below(random, 2) ? 20 : 200000);
        used = HR_MIN(used, n - at);
        ok = hr__zstd_check_next(c, p + at, used);
    }
    hr__zstd_check_free(c);
    return ok;
}

/* Texts, numbers, runs, copies, noise: blocks have tables of all four kinds, repeated ones
 * too, literals of one stream and four, and blocks that are raw, or a run. */
static int64_t fill(uint8_t *p, int64_t n, uint64_t *random)
{
    int64_t kind = random_below(random, 6), at = 0;

    while (at < n) {
        int64_t far = at > 2 ? 1 + random_below(random, kind == 2 ? 3 : at - 1) : 0;
        int64_t length = 1 + random_below(random, kind == 3 ? 3000 : 12);

        for (; length > 0 && at < n; length--, at++)
            p[at] = kind == 0                                ? (uint8_t)"the quick brown fox\n"[at * 7 % 20]
                    : kind == 1 || !far || (length & 3) == 3 ? (uint8_t)next_random(random)
                    : kind == 4                              ? (uint8_t)"abcdefgh"[random_below(random, 8)]
                    : kind == 5                              ? (uint8_t)(at / 1000)
                                                             : p[at - far];
    }
    return n;
}

static int64_t packed_frame(uint8_t *packed, int64_t cap, const uint8_t *in, int64_t n, int level, bool file)
{
    const hr_codec *c = &hr__codec_zstd;
    hr_error err = HR_ERROR_INIT;
    int64_t made = 0;

    assert_ok((file ? c->pack_file : c->pack)((hr_view){ in, n }, packed, cap, level, &made, &err), &err);
    return made;
}

static void test_sound(void **state)
{
    enum { MOST = 600000 };
    static const int levels[] = { -5, -1, 1, 2, 3, 5, 7, 9, 12, 13, 16, 19 };
    static const int64_t sizes[] = { 0, 1, 7, 100, 900, 5000, 70000, MOST };
    uint8_t *in = malloc(MOST + 1), *packed = malloc(2 * MOST), *exact;
    uint64_t random = 5;

    (void)state;
    for (int i = 0; hr__codec_zstd.pack && i < HR_LEN(levels) * HR_LEN(sizes) * 6; i++) {
        int64_t size = sizes[i / HR_LEN(levels) % HR_LEN(sizes)], n;
        int level = levels[i % HR_LEN(levels)];

        if (size > 100000 && level > 9 && i % 5)
            continue; /* slow */
        n = packed_frame(packed, 2 * MOST, in, fill(in, size, &random), level, i % 7 == 0);
        n += packed_frame(packed + n, 2 * MOST - n, in, HR_MIN(size, 3000), level, i % 3 == 0);
        exact = malloc((size_t)n);
        memcpy(exact, packed, (size_t)n);
        if (!hr__zstd_is_sound((hr_view){ exact, n }) || !is_sound_in_parts(exact, n, &random))
            fail_msg("level %d, %lld bytes, step %d", level, (long long)size, i);
        free(exact);
    }
    free(in);
    free(packed);
}

/* A frame that may be passed over, with a sound frame and a damaged one after it. */
static void test_frames_behind_each_other(void **state)
{
#define SKIPPED "\x53\x2a\x4d\x18\x03\x00\x00\x00\x01\x02\x03"
#define HELLO "\x28\xb5\x2f\xfd\x20\x18\x6d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x20\x0a\x01\x00\x99\x4b\x11"
#define BROKEN "\x28\xb5\x2f\xfd\x20\x18\x6d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x20\x0a\x01\x01\x99\x4b\x11"
    static const hr_view sound = BYTES(SKIPPED HELLO SKIPPED HELLO), broken = BYTES(SKIPPED HELLO SKIPPED BROKEN);
    uint64_t random = 3;

    (void)state;
    for (int64_t n = 0; n <= sound.n; n++) /* a cut is for libzstd to find */
        assert_true(hr__zstd_is_sound((hr_view){ sound.data, n }));
    assert_false(hr__zstd_is_sound(broken));
    for (int i = 0; i < 50; i++) {
        assert_true(is_sound_in_parts(sound.data, sound.n, &random));
        assert_false(is_sound_in_parts(broken.data, broken.n, &random));
    }
}

/* Every bit of some frames is changed: the check refuses where libzstd does (but for what is cut, and headers of
 * frames), and a check in parts says the same as one of the whole. */
static void test_bits(void **state)
{
    static uint8_t in[4000], packed[6000], out[4000];
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 8;
    int64_t n_damaged = 0, n_bits = 0;

    (void)state;
    for (int round = 0; hr__codec_zstd.pack && round < 6; round++) {
        int64_t n = packed_frame(packed, sizeof packed, in, fill(in, sizeof in, &random), 1 + 3 * round, false);
        uint8_t *exact = malloc((size_t)n);

        memcpy(exact, packed, (size_t)n);
        for (int64_t bit = 0; bit < 8 * HR_MIN(n, 700); bit++, n_bits++) {
            bool sound;

            exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
            sound = hr__zstd_is_sound((hr_view){ exact, n });
            assert_int_equal(sound, is_sound_in_parts(exact, n, &random));
            n_damaged += !sound;
            if (sound &&
                hr__codec_block_verified(&hr__codec_zstd, HR_VERIFY_NONE, (hr_view){ exact, n }, out, sizeof out, &err))
                hr_error_clear(&err);
            exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        free(exact);
    }
    assert_true(!hr__codec_zstd.pack || (n_damaged > n_bits / 10 && n_damaged < n_bits));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_verified),
        cmocka_unit_test(test_sound),   cmocka_unit_test(test_frames_behind_each_other),
        cmocka_unit_test(test_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
