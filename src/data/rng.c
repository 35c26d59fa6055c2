/* rng.c - random bits as a function of (seed, epoch, coordinate): without state, so independent of order and threads.
 *
 * Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11. The
 * counter's words are, from the lowest, those of counter_lo and counter_hi; the key's those of `key`; the result's
 * those of lo and hi.
 *
 * A coordinate has more bits than the counter. Row and ordinal are the counter. The fields that are the same for a
 * whole fragment are mixed into the key, with seed and epoch, by the finaliser of SplitMix64 (Steele, Lea, Flood,
 * OOPSLA'14), a bijection, once a word. Two of a million fragments share a key with probability 3e-8; then rows of
 * equal number get equal bits, and every user breaks the tie by coordinate.
 *
 * These functions must never change: positions and published results depend on them. tests/test_rng.c has their
 * values. */
#include "data/data.h"

static void philox_round(uint32_t x[4], uint32_t k0, uint32_t k1)
{
    uint64_t p0 = (uint64_t)0xD2511F53 * x[0], p1 = (uint64_t)0xCD9E8D57 * x[2];

    x[0] = (uint32_t)(p1 >> 32) ^ x[1] ^ k0;
    x[1] = (uint32_t)p1;
    x[2] = (uint32_t)(p0 >> 32) ^ x[3] ^ k1;
    x[3] = (uint32_t)p0;
}

hr_bits128 hr__philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo)
{
    uint32_t x[4] = { (uint32_t)counter_lo, (uint32_t)(counter_lo >> 32), (uint32_t)counter_hi,
                      (uint32_t)(counter_hi >> 32) };
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int i = 0; i < 10; i++) {
        philox_round(x, k0, k1);
        k0 += 0x9E3779B9; /* golden ratio, and sqrt(3) - 1 */
        k1 += 0xBB67AE85;
    }
    return (hr_bits128){ .lo = (uint64_t)x[1] << 32 | x[0], .hi = (uint64_t)x[3] << 32 | x[2] };
}

static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

static uint64_t key_of(uint64_t seed, uint64_t epoch) { return mix(mix(seed) ^ epoch); }

hr_bits128 hr__random_bits(uint64_t seed, uint64_t epoch, uint64_t counter_hi, uint64_t counter_lo)
{
    return hr__philox(key_of(seed, epoch), counter_hi, counter_lo);
}

hr_bits128 hr__random_coord(uint64_t seed, uint64_t epoch, const hr_coord *c)
{
    uint64_t key = mix(key_of(seed, epoch) ^ ((uint64_t)(uint32_t)c->instance << 32 | (uint32_t)c->file));

    return hr__philox(mix(key ^ (uint32_t)c->fragment), (uint64_t)c->ordinal, (uint64_t)c->row);
}

/* The high half of a * n: a number below n; all are equally likely up to n / 2^64. n < 2^32. */
static uint64_t scaled(uint64_t a, uint64_t n) { return ((a >> 32) * n + ((a & UINT32_MAX) * n >> 32)) >> 32; }

/* Fisher and Yates from the end; the choice among `left` is a function of key and `left`. The code makes several
 * choices ahead, so that it can prefetch their targets. */
void hr__random_permute(uint32_t *v, int64_t n, uint64_t key)
{
    enum { AT_ONCE = 32 };
    uint32_t at[AT_ONCE];

    for (int64_t left = n, k; left > 1; left -= k) {
        k = HR_MIN(left - 1, AT_ONCE);
        for (int64_t i = 0; i < k; i++) {
            at[i] = (uint32_t)scaled(mix(key + (uint64_t)(left - i)), (uint64_t)(left - i));
            __builtin_prefetch(v + at[i], 1);
        }
        for (int64_t i = 0; i < k; i++) {
            uint32_t other = v[at[i]];

            v[at[i]] = v[left - 1 - i];
            v[left - 1 - i] = other;
        }
    }
}

/* What hr__random_shuffle chooses for PLACES rows from `first` on: for each a place up to the row itself. A draw of 64
 * bits makes two choices. */
enum { PLACES = 32 };

static void draw_places(uint32_t *at, int64_t first, uint64_t key)
{
    for (int k = 0; k < PLACES; k += 2) {
        uint64_t bits = mix(key + (uint64_t)(first + k)), row = (uint64_t)(first + k);

        at[k] = (uint32_t)((bits >> 32) * (row + 1) >> 32);
        at[k + 1] = (uint32_t)((bits & UINT32_MAX) * (row + 2) >> 32);
    }
}

/* Fisher and Yates from the start: each row changes places with one up to itself. numbers: row i has the value i, and
 * v need not be set before: a row that stays reads its own place, and is set after. */
static inline void draw(uint32_t *v, int64_t n, uint64_t key, bool numbers)
{
    uint32_t at[PLACES];

    for (int64_t first = 0; first < n; first += PLACES) {
        int64_t some = HR_MIN(n - first, PLACES);

        draw_places(at, first, key);
        for (int64_t k = 0; k < some; k++) {
            uint32_t here = numbers ? (uint32_t)(first + k) : v[first + k];

            v[first + k] = v[at[k]];
            v[at[k]] = here;
        }
    }
}

void hr__random_shuffle(uint32_t *v, int64_t n, uint64_t key) { draw(v, n, key, false); }
void hr__random_order(uint32_t *out, int64_t n, uint64_t key) { draw(out, n, key, true); }

/* hr__random_coord for rows that follow each other, eight at a time: the rounds of eight counters stand side by side
 * in vectors. */
enum { LANES = 8 };

static void philox_lanes(uint64_t key, uint64_t counter_hi, const uint64_t *counter_lo, uint64_t *hi)
{
    uint32_t x0[LANES], x1[LANES], x2[LANES], x3[LANES];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    for (int l = 0; l < LANES; l++) {
        x0[l] = (uint32_t)counter_lo[l];
        x1[l] = (uint32_t)(counter_lo[l] >> 32);
        x2[l] = (uint32_t)counter_hi;
        x3[l] = (uint32_t)(counter_hi >> 32);
    }
    for (int i = 0; i < 10; i++) {
        for (int l = 0; l < LANES; l++) {
            uint64_t p0 = (uint64_t)0xD2511F53 * x0[l], p1 = (uint64_t)0xCD9E8D57 * x2[l];

            x0[l] = (uint32_t)(p1 >> 32) ^ x1[l] ^ k0;
            x1[l] = (uint32_t)p1;
            x2[l] = (uint32_t)(p0 >> 32) ^ x3[l] ^ k1;
            x3[l] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    for (int l = 0; l < LANES; l++)
        hi[l] = (uint64_t)x3[l] << 32 | x2[l];
}

void hr__random_rows(uint64_t seed, uint64_t epoch, const hr_run_coords *run, uint64_t *out)
{
    const hr_coord *c = &run->first;
    uint64_t key = mix(key_of(seed, epoch) ^ ((uint64_t)(uint32_t)c->instance << 32 | (uint32_t)c->file));
    int64_t i = 0;

    key = mix(key ^ (uint32_t)c->fragment);
    for (; !run->by_ordinal && i + LANES <= run->n; i += LANES) {
        uint64_t rows[LANES];

        for (int l = 0; l < LANES; l++)
            rows[l] = (uint64_t)(c->row + i + l);
        philox_lanes(key, (uint64_t)c->ordinal, rows, out + i);
    }
    for (; i < run->n; i++)
        out[i] = hr__philox(key, (uint64_t)(c->ordinal + (run->by_ordinal ? i : 0)),
                            (uint64_t)(c->row + (run->by_ordinal ? 0 : i)))
                     .hi;
}
