/* snappy.c - Snappy's raw blocks, as in Parquet. Our own code, since the format is short and libsnappy is C++.
 *
 * A block is its length, then elements, each with a tag byte: literal bytes, or a copy of up to 64 bytes from up to 4
 * GiB before (compressors use 64 KiB). Most elements are short, and the branch on each and the short copies take the
 * time. So, while both sides have 64 bytes of room, copies move whole 16-byte words and may write beyond the element; a
 * careful loop decodes the last bytes of a block. Snappy has no files of its own.
 *
 * Tests: test_codec.c, test_parquet_write.c. */
#include "codec/codec.h"

#define ROOM 64 /* bytes that a fast copy may touch after its end */

static uint32_t load16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t load32(const uint8_t *p) { return load16(p) | load16(p + 2) << 16; }

/* Copies n <= 64 bytes from `offset` before; the ranges may overlap. Writes up to ROOM bytes. */
static inline void copy_loose(uint8_t *out, uint32_t offset, uint32_t n)
{
    const uint8_t *from = out - offset;

    if (offset >= 16) {
        memcpy(out, from, 16);
        if (n > 16) {
            memcpy(out + 16, from + 16, 16);
            if (n > 32) {
                memcpy(out + 32, from + 32, 16);
                memcpy(out + 48, from + 48, 16);
            }
        }
        return;
    }
    if (offset >= 8) {
        for (uint32_t i = 0; i < n; i += 8)
            memcpy(out + i, from + i, 8);
        return;
    }
    /* A pattern shorter than a word: writes one word of it, then copies words from a multiple of the pattern's length
     * before. */
    for (uint32_t i = 0; i < 8; i++)
        out[i] = from[i];
    offset *= 7 / offset + 1;
    for (uint32_t i = 8; i < n; i += 8)
        memcpy(out + i, out + i - offset, 8);
}

static void copy_exact(uint8_t *out, uint32_t offset, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (out + i)[-(int64_t)offset];
}

/* The length of a literal longer than 60 bytes: `k` bytes at `in`. */
static uint64_t literal_length(const uint8_t *in, uint32_t k)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < k; i++)
        n |= (uint64_t)in[i] << (8 * i);
    return n + 1;
}

/* Returns the end of the output; NULL: malformed. `part`: cuts off output that does not fit, instead of an error. */
static uint8_t *decode(const uint8_t *in, const uint8_t *end, uint8_t *out, uint8_t *out_end, bool part)
{
    uint8_t *at = out;

    while (in < end && !(part && at == out_end)) {
        uint32_t tag = *in++, n = (tag >> 2) + 1, offset;

        if ((tag & 3) == 0) {
            uint64_t length = n;

            if (n <= 16 && end - in >= ROOM && out_end - at >= ROOM) {
                memcpy(at, in, 16);
                at += n;
                in += n;
                continue;
            }
            if (n > 60) {
                if (end - in < (int64_t)n - 60)
                    return NULL;
                length = literal_length(in, n - 60);
                in += n - 60;
            }
            if (part)
                length = HR_MIN(length, (uint64_t)(out_end - at));
            if (length > (uint64_t)(end - in) || length > (uint64_t)(out_end - at))
                return NULL;
            memcpy(at, in, (size_t)length);
            at += length;
            in += length;
            continue;
        }
        if ((tag & 3) == 1) {
            if (in == end)
                return NULL;
            n = 4 + (tag >> 2 & 7);
            offset = tag >> 5 << 8 | *in++;
        } else if ((tag & 3) == 2) {
            if (end - in < 2)
                return NULL;
            offset = load16(in);
            in += 2;
        } else {
            if (end - in < 4)
                return NULL;
            offset = load32(in);
            in += 4;
        }
        if (part)
            n = (uint32_t)HR_MIN((int64_t)n, (int64_t)(out_end - at));
        if (offset == 0 || offset > (uint64_t)(at - out) || n > (uint64_t)(out_end - at))
            return NULL;
        if (out_end - at >= ROOM)
            copy_loose(at, offset, n);
        else
            copy_exact(at, offset, n);
        at += n;
    }
    return at;
}

/* Reads the length at the beginning of a block; moves *in after it. */
static hr_status read_length(const uint8_t **in, const uint8_t *end, int64_t *n, hr_error *err)
{
    bool more = true;

    *n = 0;
    for (int shift = 0; more; shift += 7) {
        if (*in == end || shift > 28)
            return hr_error_set(err, HR_BAD_DATA, "snappy: the block's length is malformed");
        *n |= (int64_t)(**in & 0x7f) << shift;
        more = *(*in)++ & 0x80;
    }
    return HR_OK;
}

static hr_status snappy_block(hr_view v, uint8_t *out, int64_t n_out, hr_error *err)
{
    const uint8_t *in = v.data, *end = in + v.n;
    int64_t n;

    HR_TRY(read_length(&in, end, &n, err));
    if (n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "snappy: the block has %lld bytes, expected %lld", (long long)n,
                            (long long)n_out);
    if (decode(in, end, out, out + n_out, false) != out + n_out)
        return hr_error_set(err, HR_BAD_DATA, "snappy: malformed block of %lld bytes", (long long)v.n);
    return HR_OK;
}

static hr_status snappy_prefix(hr_view v, uint8_t *out, int64_t n_out, int64_t *n_made, hr_error *err)
{
    const uint8_t *in = v.data, *end = in + v.n, *made;
    int64_t n;

    *n_made = 0;
    HR_TRY(read_length(&in, end, &n, err));
    made = decode(in, end, out, out + n_out, true);
    if (!made)
        return hr_error_set(err, HR_BAD_DATA, "snappy: malformed block of %lld bytes", (long long)v.n);
    *n_made = made - out;
    return HR_OK;
}

/* --- packing
 *
 * One pass, 64 KiB at a time, so that offsets fit 16 bits: a table maps a hash of four bytes to their last offset. The
 * longer nothing repeats, the larger the steps, so that incompressible bytes cost little. */

#define SPAN (64 << 10)
#define TABLE_BITS 13

static uint8_t *put_literal(uint8_t *at, const uint8_t *from, uint32_t n)
{
    if (n == 0)
        return at;
    if (n <= 60) {
        *at++ = (uint8_t)((n - 1) << 2);
    } else {
        uint32_t k = n - 1 < 256 ? 1 : 2; /* n <= SPAN */

        *at++ = (uint8_t)((59 + k) << 2);
        for (uint32_t i = 0; i < k; i++)
            *at++ = (uint8_t)((n - 1) >> (8 * i));
    }
    memcpy(at, from, n);
    return at + n;
}

static uint8_t *put_copy(uint8_t *at, uint32_t offset, uint32_t n)
{
    while (n >= 4) {
        uint32_t part = n <= 64 ? n : n < 68 ? 60 : 64; /* never leaves less than 4 */

        if (part < 12 && offset < 2048) {
            *at++ = (uint8_t)(offset >> 8 << 5 | (part - 4) << 2 | 1);
            *at++ = (uint8_t)offset;
        } else {
            *at++ = (uint8_t)((part - 1) << 2 | 2);
            *at++ = (uint8_t)offset;
            *at++ = (uint8_t)(offset >> 8);
        }
        n -= part;
    }
    return at;
}

/* The number of equal bytes from a and b on; b < end is the later one. */
static uint32_t alike(const uint8_t *a, const uint8_t *b, const uint8_t *end)
{
    const uint8_t *begin = b;

    while (end - b >= 8) {
        uint64_t x, y;

        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        if (x != y)
            break;
        a += 8;
        b += 8;
    }
    while (b < end && *a == *b) {
        a++;
        b++;
    }
    return (uint32_t)(b - begin);
}

static uint32_t slot_of(uint32_t word) { return word * 2654435761U >> (32 - TABLE_BITS); }

static uint8_t *pack_span(const uint8_t *in, uint32_t n, uint8_t *at, uint16_t *table)
{
    const uint8_t *end = in + n, *p = in + 1, *plain = in; /* the bytes that are not written yet */

    if (n < 16)
        return put_literal(at, in, n);
    memset(table, 0, sizeof(uint16_t) << TABLE_BITS);
    for (uint32_t misses = 32; end - p >= 8;) {
        uint32_t word = load32(p), slot = slot_of(word), length;
        const uint8_t *before = in + table[slot];

        table[slot] = (uint16_t)(p - in);
        if (load32(before) != word || before == p) {
            p += misses++ >> 5;
            continue;
        }
        length = 4 + alike(before + 4, p + 4, end);
        at = put_literal(at, plain, (uint32_t)(p - plain));
        at = put_copy(at, (uint32_t)(p - before), length);
        p += length;
        plain = p;
        if (end - p >= 8)
            table[slot_of(load32(p - 1))] = (uint16_t)(p - 1 - in);
        misses = 32;
    }
    return put_literal(at, plain, (uint32_t)(end - plain));
}

/* The most bytes: one tag for each literal; a copy is never longer than the bytes that it replaces. */
static int64_t snappy_max_packed(int64_t n) { return 8 + n + n / 6; }

static hr_status snappy_pack(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    uint16_t table[1 << TABLE_BITS];
    uint8_t *at = out;

    (void)level;
    if (in.n > UINT32_MAX || cap < snappy_max_packed(in.n))
        return hr_error_set(err, HR_INVALID, "snappy: a block has %lld bytes, the output room for %lld",
                            (long long)in.n, (long long)cap);
    for (uint64_t n = (uint64_t)in.n;; n >>= 7) {
        *at++ = (uint8_t)((n & 0x7f) | (n > 0x7f ? 0x80 : 0));
        if (n <= 0x7f)
            break;
    }
    for (int64_t i = 0; i < in.n; i += SPAN)
        at = pack_span(in.data + i, (uint32_t)HR_MIN(in.n - i, SPAN), at, table);
    *n_out = at - out;
    return HR_OK;
}

/* A copy of 64 bytes takes 3, or 2 where it is near and short. */
const hr_codec hr__codec_snappy = {
    .name = "snappy",
    .library = "snappy",
    .max_ratio = 32,
    .block = snappy_block,
    .prefix = snappy_prefix,
    .pack = snappy_pack,
    .max_packed_bytes = snappy_max_packed,
};
