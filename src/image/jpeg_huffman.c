/* jpeg_huffman.c - see jpeg_huffman.h.
 *
 * Tests: test_pixels.c. */
#include "data/data.h"

#ifdef HR_HAVE_JPEG
#include "image/jpeg_huffman.h"

#include <stdlib.h>

#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && __has_include(<jpegint.h>)
#include <jpegint.h>

#define LOOK 11              /* bits of an index into a table */
#define END 64               /* a step of this many coefficients: the block has no more */
#define BEHIND 4096          /* zeros after the data: more than one group of blocks can consume */
#define MOST_BYTES (4 << 20) /* of a scan; libjpeg decodes larger ones, so that a thread keeps no more memory */

/* The meaning of the next bits: one coefficient, two, or none. */
typedef struct look {
    uint8_t n_bits; /* bits consumed; with NOT_ALL: by the code alone, 0 if it has more than LOOK bits */
    uint8_t first;  /* the step to the coefficient, and its value; with NOT_ALL: `value` is the symbol */
    uint8_t second; /* the step to the second one; 0: none, and its value is the first's */
    uint8_t not_all;
    int16_t value, next; /* the second value */
} look;

typedef struct codes {
    JHUFF_TBL from; /* its source */
    bool made;
    look look[1 << LOOK];
    int32_t most[18];   /* the greatest code of each length; -1: none */
    int32_t offset[18]; /* the distance from a code of that length to the index of its symbol */
} codes;

/* Passed by value, so that a loop keeps it in registers. */
typedef struct reader {
    const uint8_t *at;
    uint64_t bits; /* from the highest bit on */
    int n;         /* valid bits */
} reader;

struct hr_jpeg_huffman {
    void (*trouble)(j_decompress_ptr j);
    codes dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
    uint8_t *bytes; /* the bytes of a scan, without the 0x00 that follows each 0xff */
    size_t room;
    /* of this image */
    const uint8_t *end;
    reader from;
    int last_dc[MAX_COMPS_IN_SCAN];
    JBLOCK nowhere;
};

/* The place of each stored coefficient in a block. */
static const uint8_t natural[64] = { 0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                     12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                     35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                     58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63 };

hr_jpeg_huffman *hr__jpeg_huffman_new(void (*trouble)(j_decompress_ptr j))
{
    hr_jpeg_huffman *h = hr__jpeg_layout_is_known() ? calloc(1, sizeof *h) : NULL; /* not charged: it is the thread's */

    if (h)
        h->trouble = trouble;
    return h;
}

void hr__jpeg_huffman_free(hr_jpeg_huffman *h)
{
    if (h)
        free(h->bytes);
    free(h);
}

/* ----------------------------------------------------------------------------------------------------------- tables */

/* The number of n bits: negative if the first bit is 0. */
static inline int extended(int v, int n) { return v < 1 << (n - 1) ? v - (1 << n) + 1 : v; }

/* Fills the entries of all LOOK bits that begin with a code of `length` for `symbol`. */
static look look_of(uint32_t bits, int length, int symbol, bool is_dc)
{
    int n = symbol & 15, run = is_dc ? 0 : symbol >> 4, rest = LOOK - length;
    look l = { .n_bits = (uint8_t)length };

    if (n == 0) {
        l.first = is_dc ? 0 : run == 15 ? 15 : END;
    } else if (n > rest) {
        l.not_all = 1;
        l.value = (int16_t)symbol;
    } else {
        l.n_bits = (uint8_t)(length + n);
        l.first = (uint8_t)run;
        l.value = (int16_t)extended((int)(bits >> (rest - n) & ((1U << n) - 1)), n);
    }
    l.next = l.value;
    return l;
}

/* Adds the second coefficient to entries whose bits contain it whole. */
static void pair(look *all)
{
    look one[1 << LOOK];

    memcpy(one, all, sizeof one);
    for (uint32_t bits = 0; bits < 1U << LOOK; bits++) {
        const look *a = &one[bits], *b = &one[bits << a->n_bits & ((1U << LOOK) - 1)];

        if (a->not_all || a->first == END || b->not_all || a->n_bits + b->n_bits > LOOK)
            continue;
        all[bits].n_bits = (uint8_t)(a->n_bits + b->n_bits);
        all[bits].second = (uint8_t)(b->first == END ? END : b->first + 1);
        all[bits].next = b->value;
    }
}

/* false: no codes, or not of this kind. */
static bool make(codes *c, const JHUFF_TBL *from, bool is_dc)
{
    int code = 0, place = 0;

    if (!from)
        return false;
    if (c->made && !memcmp(c->from.bits, from->bits, sizeof from->bits) &&
        !memcmp(c->from.huffval, from->huffval, sizeof from->huffval))
        return true;
    c->made = false;
    for (int i = 0; i < 1 << LOOK; i++)
        c->look[i] = (look){ .not_all = 1 };
    for (int length = 1; length <= 16; length++, code <<= 1) {
        c->offset[length] = place - code;
        c->most[length] = from->bits[length] ? code + from->bits[length] - 1 : -1;
        for (int i = 0; i < from->bits[length]; i++, code++, place++) {
            if (place >= 256 || code >= 1 << length || (is_dc && from->huffval[place] > 15))
                return false;
            for (uint32_t k = 0; length <= LOOK && k < 1U << (LOOK - length); k++) {
                uint32_t bits = (uint32_t)code << (LOOK - length) | k;

                c->look[bits] = look_of(bits, length, from->huffval[place], is_dc);
            }
        }
    }
    if (!is_dc)
        pair(c->look);
    c->from = *from;
    c->made = true;
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- bits */

#define INLINE static inline __attribute__((always_inline))

/* Loads at least 56 bits. Needs no check for the end of the data: zeros follow. */
INLINE void fill(reader *r)
{
    uint64_t v;

    memcpy(&v, r->at, 8);
    v = __builtin_bswap64(v);
    r->bits |= v >> r->n;
    r->at += (63 - r->n) >> 3;
    r->n |= 56;
}

INLINE void drop(reader *r, int n)
{
    r->bits <<= n;
    r->n -= n;
}

/* The number of the next n bits, at least one. */
INLINE int number(reader *r, int n)
{
    int v = (int)(r->bits >> (64 - n));

    drop(r, n);
    return extended(v, n);
}

/* The symbol of a code that the table lacks, and from bit 8 on its length; -1: no such code. */
static __attribute__((noinline)) int long_code(const codes *c, int bits)
{
    for (int length = 1; length <= 16; length++) {
        int code = bits >> (16 - length);

        if (c->most[length] >= 0 && code <= c->most[length])
            return c->from.huffval[(code + c->offset[length]) & 255] | length << 8;
    }
    return -1;
}

/* Consumes one code and returns its symbol; -1: no such code. */
INLINE int symbol_of(reader *r, const codes *c, const look *l)
{
    int found;

    if (l->not_all && l->n_bits) {
        drop(r, l->n_bits);
        return l->value;
    }
    found = long_code(c, (int)(r->bits >> 48));
    if (found < 0)
        return -1;
    drop(r, found >> 8);
    return found & 255;
}

/* ----------------------------------------------------------------------------------------------------------- blocks */

INLINE bool decode_dc(reader *r, const codes *c, int *last)
{
    const look *l;
    int symbol;

    fill(r);
    l = &c->look[r->bits >> (64 - LOOK)];
    if (!l->not_all) {
        drop(r, l->n_bits);
        *last += l->value;
    } else {
        symbol = symbol_of(r, c, l);
        if (symbol < 0)
            return false;
        if (symbol)
            *last += number(r, symbol);
    }
    return *last >= INT16_MIN && *last <= INT16_MAX;
}

/* Decodes one coefficient. *k: -1 if the code is wrong, 64 or more at the block's end. */
INLINE void decode_one(reader *r, const codes *c, JCOEF *block, int *k)
{
    int symbol, n;

    fill(r);
    symbol = symbol_of(r, c, &c->look[r->bits >> (64 - LOOK)]);
    n = symbol & 15;
    if (symbol < 0) {
        *k = -1;
    } else if (n == 0 && symbol != 0xf0) {
        *k = 64;
    } else if (*k + (symbol >> 4) >= 64) {
        *k = -1;
    } else {
        *k += symbol >> 4;
        block[natural[*k]] = (JCOEF)(n ? number(r, n) : 0);
        ++*k;
    }
}

/* Four look-ups consume at most 44 of the 56 bits. */
INLINE bool decode_ac(reader *r, const codes *c, JCOEF *block)
{
    int k = 1;

    while (k > 0 && k < 64) {
        fill(r);
        for (int i = 0; i < 4; i++) {
            const look *l = &c->look[r->bits >> (64 - LOOK)];

            if (__builtin_expect(l->not_all || k + l->first == 63, 0)) { /* no second one follows the last */
                decode_one(r, c, block, &k);
                break;
            }
            drop(r, l->n_bits);
            k += l->first;
            if (k >= 64)
                return l->first == END;
            block[natural[k]] = l->value;
            k += l->second;
            if (k >= 64)
                return l->second == END;
            block[natural[k]] = l->next;
            if (++k >= 64)
                return true;
        }
    }
    return k > 0;
}

static bool decode_blocks(hr_jpeg_huffman *h, j_decompress_ptr j, JBLOCKROW *blocks)
{
    reader r = h->from;

    for (int i = 0; i < j->blocks_in_MCU; i++) {
        int part = j->MCU_membership[i];
        const jpeg_component_info *info = j->cur_comp_info[part];
        JCOEF *block = blocks ? blocks[i][0] : h->nowhere;

        if (!decode_dc(&r, &h->dc[info->dc_tbl_no], &h->last_dc[part]))
            return false;
        block[0] = (JCOEF)h->last_dc[part];
        if (!decode_ac(&r, &h->ac[info->ac_tbl_no], block))
            return false;
    }
    h->from = r;
    return r.at - r.n / 8 <= h->end;
}

/* Replaces libjpeg's function: decodes one group of blocks, which are zero. A NULL block is skipped. */
static boolean decode_group(j_decompress_ptr j, JBLOCKROW *blocks)
{
    hr_jpeg_huffman *h = hr__jpeg_huffman_of(j);

    if (!decode_blocks(h, j, blocks))
        h->trouble(j);
    return TRUE;
}

static bool make_room(hr_jpeg_huffman *h, size_t n)
{
    uint8_t *bytes;

    if (n <= h->room)
        return true;
    if (n > MOST_BYTES || !(bytes = realloc(h->bytes, n + n / 4)))
        return false;
    h->bytes = bytes;
    h->room = n + n / 4;
    return true;
}

/* Copies the data up to the next marker, which must exist; the source then stands before the marker. */
static bool take_scan(hr_jpeg_huffman *h, j_decompress_ptr j)
{
    const uint8_t *from = j->src->next_input_byte, *end = from + j->src->bytes_in_buffer, *ff;
    uint8_t *to;

    if (!make_room(h, j->src->bytes_in_buffer + BEHIND))
        return false;
    for (to = h->bytes;; from = ff + 2) {
        ff = memchr(from, 0xff, (size_t)(end - from));
        if (!ff || end - ff < 2)
            return false;
        memcpy(to, from, (size_t)(ff - from));
        to += ff - from;
        if (ff[1] != 0)
            break;
        *to++ = 0xff;
    }
    memset(to, 0, BEHIND);
    h->end = to;
    h->from = (reader){ .at = h->bytes };
    j->src->next_input_byte = ff;
    j->src->bytes_in_buffer = (size_t)(end - ff);
    return true;
}

void hr__jpeg_huffman_use(hr_jpeg_huffman *h, j_decompress_ptr j)
{
    if (j->progressive_mode || j->arith_code || j->data_precision != 8 || j->inputctl->has_multiple_scans ||
        j->restart_interval || j->unread_marker)
        return;
    for (int i = 0; i < j->comps_in_scan; i++) {
        int dc = j->cur_comp_info[i]->dc_tbl_no, ac = j->cur_comp_info[i]->ac_tbl_no;

        if (dc < 0 || dc >= NUM_HUFF_TBLS || ac < 0 || ac >= NUM_HUFF_TBLS ||
            !make(&h->dc[dc], j->dc_huff_tbl_ptrs[dc], true) || !make(&h->ac[ac], j->ac_huff_tbl_ptrs[ac], false))
            return;
    }
    if (!take_scan(h, j))
        return;
    memset(h->last_dc, 0, sizeof h->last_dc);
    j->entropy->decode_mcu = decode_group;
}

#else /* a library that does not show where its parts are */
hr_jpeg_huffman *hr__jpeg_huffman_new(void (*trouble)(j_decompress_ptr j))
{
    (void)trouble;
    return NULL;
}

void hr__jpeg_huffman_free(hr_jpeg_huffman *h) { (void)h; }

void hr__jpeg_huffman_use(hr_jpeg_huffman *h, j_decompress_ptr j) { (void)h, (void)j; }
#endif
#endif
