/* parquet_delta.c - DELTA_BINARY_PACKED: integers as differences, in blocks of miniblocks of their own bit width.
 *
 * The same stream also holds lengths: of byte arrays (DELTA_LENGTH_BYTE_ARRAY), and of the prefixes that neighbours
 * share (DELTA_BYTE_ARRAY). There the bytes follow the stream, so the reader must know the end of the stream before it
 * uses the first value: pq__delta_init walks over the headers of the blocks, which is cheap; the state is only the
 * current position.
 *
 * All sums wrap around, as the format requires. A miniblock without values has a width byte and no bits.
 *
 * Tests: test_parquet_page.c, test_parquet_read.c. */
#include "format/parquet/parquet_page.h"
#include "format/parquet/parquet_kernel.h"

#define MAX_BLOCK (1 << 16) /* values; writers use 128 */
#define MAX_MINIBLOCKS (1 << 10)

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t b = *(*at)++;

        *out |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return true;
    }
    return false;
}

static int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

/* The next block's header; false if it is missing or malformed. */
static bool next_block(pq_delta *d)
{
    uint64_t v;

    if (!read_varint(&d->at, d->end, &v) || d->end - d->at < d->n_mini)
        return false;
    d->least = unzigzag(v);
    d->widths = d->at;
    d->at += d->n_mini;
    d->mini = 0;
    for (int i = 0; i < d->n_mini; i++) {
        if (d->widths[i] > d->most_width && (int64_t)i * d->per_mini < d->left)
            return false;
    }
    return true;
}

/* The next miniblock: d->bits points to its bits, d->at moves after them. */
static bool next_mini(pq_delta *d)
{
    int64_t used, n_bytes;

    if (d->mini == d->n_mini && !next_block(d))
        return false;
    used = HR_MIN(d->per_mini, d->left);
    d->width = d->widths[d->mini++];
    n_bytes = (int64_t)d->per_mini * d->width / 8; /* the last miniblock is padded to full size */
    if (n_bytes > d->end - d->at)
        return false;
    d->bits = d->at;
    d->bit = 0;
    d->mini_left = used;
    d->at += n_bytes;
    return true;
}

static hr_status malformed(hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "delta-encoded integers end early or are malformed");
}

/* Where the stream ends: walks over all blocks. */
static bool find_end(pq_delta *d, const uint8_t **out)
{
    pq_delta walk = *d;

    while (walk.left > 0) {
        if (!next_mini(&walk))
            return false;
        walk.left -= walk.mini_left;
    }
    *out = walk.at;
    return true;
}

hr_status pq__delta_init(pq_delta *d, int bits, hr_view in, hr_view *rest, hr_error *err)
{
    const uint8_t *end = in.data;
    uint64_t block, n_mini, n, first;

    *d = (pq_delta){ .at = in.data, .end = in.data + in.n, .most_width = bits };
    *rest = (hr_view){ d->end, 0 };
    if (in.n == 0)
        return HR_OK; /* no values: some writers write no header either */
    if (!read_varint(&d->at, d->end, &block) || !read_varint(&d->at, d->end, &n_mini) ||
        !read_varint(&d->at, d->end, &n) || !read_varint(&d->at, d->end, &first) || block == 0 || block > MAX_BLOCK ||
        n_mini == 0 || n_mini > MAX_MINIBLOCKS || block % n_mini || block / n_mini % 8 || n > INT32_MAX)
        return malformed(err);
    d->n_mini = d->mini = (int)n_mini;
    d->per_mini = (int)(block / n_mini);
    d->total = (int64_t)n;
    d->last = unzigzag(first);
    d->has_first = n > 0;
    d->left = (int64_t)n - (n > 0);
    if (!find_end(d, &end))
        return malformed(err);
    *rest = (hr_view){ end, d->end - end };
    d->end = end;
    return HR_OK;
}

/* `width` bits at bit `at`. Reads up to 9 bytes from there. */
static inline uint64_t bits_at(const uint8_t *bits, int64_t at, int width)
{
    const uint8_t *p = bits + (at >> 3);
    int shift = (int)(at & 7);
    uint64_t v = hr__load_le64(p) >> shift;

    if (width + shift > 64)
        v |= (uint64_t)p[8] << (64 - shift);
    return width == 64 ? v : v & ((1ull << width) - 1);
}

/* k <= d->mini_left differences, before the least one is added: eight at a time where they begin at a byte. */
static void unpack(pq_delta *d, uint64_t *out, int64_t k)
{
    int64_t i = 0, groups;

    for (; i < k && (d->bit & 7); i++, d->bit += d->width)
        out[i] = bits_at(d->bits, d->bit, d->width);
    groups = (k - i) / 8;
    pq__kernels()->unpack_u64(d->bits + (d->bit >> 3), d->width, out + i, groups);
    d->bit += groups * 8 * d->width;
    for (i += groups * 8; i < k; i++, d->bit += d->width)
        out[i] = d->width ? bits_at(d->bits, d->bit, d->width) : 0;
}

hr_status pq__delta_read(pq_delta *d, int64_t *out, int64_t n, hr_error *err)
{
    if (n > d->left + d->has_first)
        return hr_error_set(err, HR_BAD_DATA, "delta-encoded integers end early: %lld are missing",
                            (long long)(n - d->left - d->has_first));
    if (n > 0 && d->has_first) {
        *out++ = d->last;
        n--;
        d->has_first = false;
    }
    while (n > 0) {
        uint64_t last = (uint64_t)d->last, *to = (uint64_t *)(void *)out;
        int64_t k;

        if (d->mini_left == 0 && !next_mini(d))
            return malformed(err);
        k = HR_MIN(n, d->mini_left);
        unpack(d, to, k);
        for (int64_t i = 0; i < k; i++)
            to[i] = last += (uint64_t)d->least + to[i];
        d->last = (int64_t)last;
        d->mini_left -= k;
        d->left -= k;
        out += k;
        n -= k;
    }
    return HR_OK;
}
