/* test_parquet_kernel.c - each form of each inner loop that this CPU can run, compared with loops of one value at a
 * time: all widths, lengths of 0 to 200, any alignment, and not a byte written too many. */
#include "format/parquet/parquet_kernel.h"
#include "harness.h"

#include <stdlib.h>

#define MOST 200
#define GUARD 64

static uint64_t seed;

static uint64_t number(void) { return next_random(&seed); }

static void fill_random(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)number();
}

typedef void check(const pq_kernels *k);

static void each(check *fn)
{
    int n, done = 0;
    const pq_kernels *all = pq__kernels_all(&n);

    for (int i = 0; i < n; i++) {
        if ((all[i].needs & hr__cpu_features()) != all[i].needs)
            continue;
        seed = 7;
        fn(&all[i]);
        done++;
    }
    assert_true(done >= 1);
    assert_string_equal(all[n - 1].name, "scalar");
}

/* Value i of `width` bits, bit by bit. */
static uint64_t slow_value(const uint8_t *in, int width, int64_t i)
{
    uint64_t v = 0;

    for (int b = 0; b < width; b++)
        v |= (uint64_t)hr__bit(in, i * width + b) << b;
    return v;
}

static void check_guard(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], 0xa5);
}

#define CHECK_UNPACK(name, type, least, most)                                                                          \
    static void name(const pq_kernels *k)                                                                              \
    {                                                                                                                  \
        static uint8_t in[MOST * 8 + HR_SLACK + 8], room[MOST * sizeof(type) + GUARD + 8];                             \
        for (int width = least; width <= (most); width++)                                                              \
            for (int64_t groups = 0; groups <= MOST / 8; groups++) {                                                   \
                int shift = (int)(number() & 7), to = (int)(number() % (8 / sizeof(type)) * sizeof(type));             \
                type *out = (type *)(void *)(room + to);                                                               \
                fill_random(in, sizeof in);                                                                            \
                memset(room, 0xa5, sizeof room);                                                                       \
                k->name(in + shift, width, out, groups);                                                               \
                for (int64_t i = 0; i < groups * 8; i++)                                                               \
                    assert_true(out[i] == (type)slow_value(in + shift, width, i));                                     \
                check_guard((uint8_t *)(out + groups * 8), GUARD);                                                     \
            }                                                                                                          \
    }
CHECK_UNPACK(unpack_u8, uint8_t, 1, 8)
CHECK_UNPACK(unpack_u32, uint32_t, 1, 32)
CHECK_UNPACK(unpack_u64, uint64_t, 0, 64)

static void unpacking(void **state)
{
    (void)state;
    each(unpack_u8);
    each(unpack_u32);
    each(unpack_u64);
}

static void gather_width(const pq_kernels *k, int w)
{
    static uint8_t dict[1000 * 8 + HR_SLACK], out[MOST * 8 + GUARD + 8];
    static uint32_t index[MOST + HR_SLACK];
    const int64_t sizes[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 1000 };

    fill_random(dict, sizeof dict);
    for (int s = 0; s < HR_LEN(sizes); s++)
        for (int64_t n = 0; n <= MOST; n++)
            for (int bad = 0; bad < 2; bad++) {
                int64_t n_dict = sizes[s], wrong = bad && n ? (int64_t)(number() % (uint64_t)n) : -1;
                uint8_t *to = out + number() % 8;
                bool ok, want = wrong < 0 && (n_dict > 0 || n == 0);

                for (int64_t i = 0; i < n; i++)
                    index[i] = n_dict ? (uint32_t)(number() % (uint64_t)n_dict) : 0;
                if (wrong >= 0)
                    index[wrong] = number() & 1 ? (uint32_t)n_dict : (uint32_t)number() | 0x80000000u;
                memset(out, 0xa5, sizeof out);
                ok = (w == 4 ? k->gather_4 : k->gather_8)(dict, n_dict, index, to, n);
                assert_int_equal(ok, want);
                for (int64_t i = 0; i < n && ok; i++)
                    assert_memory_equal(to + i * w, dict + (int64_t)index[i] * w, (size_t)w);
                check_guard(to + n * w, GUARD);
            }
}

static void gather(const pq_kernels *k)
{
    gather_width(k, 4);
    gather_width(k, 8);
}

static void gathering(void **state)
{
    (void)state;
    each(gather);
}

static void spread_once(const pq_kernels *k, int w, int64_t n, int percent, int64_t at)
{
    static uint8_t data[MOST * 4 * 8 + GUARD + HR_SLACK], want[MOST * 4 * 8], valid[MOST + 32];
    int64_t n_values = 0;

    fill_random(data, sizeof data);
    memset(valid, 0, sizeof valid);
    memset(want, 0, sizeof want);
    for (int64_t i = 0; i < n; i++) {
        if ((int)(number() % 100) >= percent)
            continue;
        hr__bit_set(valid, at + i);
        memcpy(want + i * w, data + n_values++ * w, (size_t)w);
    }
    memset(data + n * w, 0xa5, GUARD);
    (w == 4 ? k->spread_4 : k->spread_8)(data, n, n_values, valid, at);
    assert_memory_equal(data, want, (size_t)(n * w));
    check_guard(data + n * w, GUARD);
}

static void spread(const pq_kernels *k)
{
    const int percents[] = { 0, 2, 50, 90, 99, 100 };

    for (int64_t n = 0; n <= 4 * MOST; n += n < MOST ? 1 : 37)
        for (int p = 0; p < HR_LEN(percents); p++) {
            spread_once(k, 4, n, percents[p], (int64_t)(number() % 100));
            spread_once(k, 8, n, percents[p], (int64_t)(number() % 100));
        }
}

static void spreading(void **state)
{
    (void)state;
    each(spread);
}

static void at_least(const pq_kernels *k)
{
    for (int64_t n = 0; n <= MOST; n++)
        for (int round = 0; round < 8; round++) {
            uint8_t *level = malloc((size_t)n + 1); /* at its very end: a byte read beyond would be seen */
            uint8_t least = round < 4 ? (uint8_t)round : (uint8_t)number();
            uint64_t words[MOST / 64 + 2];

            for (int64_t i = 0; i < n; i++)
                level[i + 1] = round < 4 ? (uint8_t)(number() & 3) : (uint8_t)number();
            memset(words, 0xa5, sizeof words);
            k->at_least(level + 1, n, least, words);
            for (int64_t i = 0; i < (n + 63) / 64 * 64; i++)
                assert_int_equal(words[i / 64] >> (i % 64) & 1, i < n && level[i + 1] >= least);
            check_guard((uint8_t *)&words[(n + 63) / 64], 8);
            free(level);
        }
}

static void levels(void **state)
{
    (void)state;
    each(at_least);
}

static void streams(const pq_kernels *k)
{
    const int widths[] = { 1, 2, 3, 4, 5, 8, 12, 16, 17 };
    static uint8_t joined[MOST * 17 + GUARD], apart[MOST * 17 + 256 + GUARD];

    for (int w = 0; w < HR_LEN(widths); w++)
        for (int64_t n = 0; n <= MOST; n++) {
            static uint8_t in[MOST * 17 + HR_SLACK + 4];
            int width = widths[w], shift = (int)(number() & 3);
            int64_t stride = n + (int64_t)(number() % 8);

            fill_random(in, sizeof in);
            memset(joined, 0xa5, sizeof joined);
            memset(apart, 0xa5, sizeof apart);
            k->split(in + shift, width, apart, stride, n);
            for (int64_t i = 0; i < n; i++)
                for (int b = 0; b < width; b++)
                    assert_int_equal(apart[b * stride + i], in[shift + i * width + b]);
            for (int b = 0; b < width; b++)
                check_guard(apart + b * stride + n, (size_t)(stride - n));
            check_guard(apart + width * stride, GUARD);
            k->join(apart, stride, width, joined, n);
            assert_memory_equal(joined, in + shift, (size_t)(n * width));
            check_guard(joined + n * width, GUARD);
        }
}

static void streams_of_bytes(void **state)
{
    (void)state;
    each(streams);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpacking), cmocka_unit_test(gathering),        cmocka_unit_test(spreading),
        cmocka_unit_test(levels),    cmocka_unit_test(streams_of_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
