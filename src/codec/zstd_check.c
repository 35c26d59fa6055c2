/* zstd_check.c - checks Zstandard frames beyond libzstd: whether each bit stream ends where it must.
 *
 * A frame without a checksum shows damage only where a block contradicts itself (RFC 8878). libzstd decodes some of
 * these blocks. Releases before 1.5.6 decode blocks with reserved bits, bytes after a section that says it is empty,
 * more literals than the window, sequences that read more bits than their stream has or leave some, offsets of 0, and
 * streams of literals that end early; with these releases the codec checks every frame. Later releases still decode
 * literals whose four streams do not end where they must, since the fast loop looks only at where the bytes end; with
 * them the codec checks a frame if the caller requests it (Parquet's option verify).
 *
 * The check follows a stream by counting bits. The values of literals do not matter; of a sequence only the offset
 * matters, since only an offset can be 0. A check takes about as long as decompression.
 *
 * Every libzstd refuses some of the same frames; the check runs after libzstd, whose error says more. The check accepts
 * a frame that is cut, and bytes that are no frame: libzstd reports both. */
#include "codec/zstd_check.h"

#include "base/bits.h"

#define MAGIC 0xfd2fb528u
#define SKIPPABLE 0x184d2a50u /* and the 15 after it */
#define BLOCK_BYTES (128 << 10)
#define BEFORE 8 /* bytes before a block that the check may read: a frame's header has more */
#define MAX_LOG 9
#define MAX_CODE_LOG 12
#define MAX_HEADER 18
#define CODES 5 /* whole codes in one word of bits, if no code has more than 11 bits */

enum { LITERALS, OFFSETS, MATCHES, N_KINDS, WEIGHTS = N_KINDS, N_TABLES };

/* A state of a table: its meaning, and the next state. */
typedef struct fse_cell {
    uint8_t extra; /* bits after the code; of offsets the code itself, of weights the weight */
    uint8_t zero;  /* the code is 0 */
    uint8_t bits;  /* of the next state, which are added to `next` */
    uint16_t next;
} fse_cell;

typedef struct fse_table {
    fse_cell cells[1 << MAX_LOG];
    int log;
} fse_table;

/* The values that a block of a frame passes to the next block. */
typedef struct frame_state {
    int64_t block_max; /* bytes of a block, and of its literals */
    bool has_tables, has_code;
    fse_table tables[N_KINDS];
    uint64_t last[3]; /* offsets */
    int code_log;
    uint8_t lengths[1 << MAX_CODE_LOG]; /* of the Huffman code at the beginning of these bits */
} frame_state;

/* ------------------------------------------------------------------------------------------------------ FSE tables */

static const struct {
    int max_symbol, max_log, usual_log;
    int8_t usual[53];
    uint8_t extra[53];
} kinds[N_TABLES] = {
    [LITERALS] = { 35,
                   9,
                   6,
                   { 4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                     2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1 },
                   { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  1,  1,
                     1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
    [OFFSETS] = { 31,
                  8,
                  5,
                  { 1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1 },
                  { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 } },
    [MATCHES] = { 52,
                  9,
                  6,
                  { 1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1 },
                  { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0, 0,
                    0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } },
    [WEIGHTS] = { 12, 6, 0, { 0 }, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 } }, /* "extra": the weight itself */
};

static fse_cell cell_of(int kind, int symbol, uint32_t next, int bits)
{
    return (fse_cell){ kinds[kind].extra[symbol], symbol == 0, (uint8_t)bits, (uint16_t)next };
}

/* shares[symbol]: cells of the symbol; -1: one cell, at the end. */
static void table_build(fse_table *t, int kind, const int16_t *shares, int log)
{
    int size = 1 << log, step = (size >> 1) + (size >> 3) + 3, high = size - 1, at = 0;
    uint8_t symbols[1 << MAX_LOG];
    uint16_t nexts[53];

    for (int s = 0; s <= kinds[kind].max_symbol; s++) {
        nexts[s] = (uint16_t)(shares[s] < 0 ? 1 : shares[s]);
        if (shares[s] < 0)
            symbols[high--] = (uint8_t)s;
    }
    for (int s = 0; s <= kinds[kind].max_symbol; s++) {
        for (int i = 0; i < shares[s]; i++) {
            symbols[at] = (uint8_t)s;
            do {
                at = (at + step) & (size - 1);
            } while (at > high);
        }
    }
    for (int i = 0; i < size; i++) {
        uint32_t next = nexts[symbols[i]]++;
        int bits = log - (31 - __builtin_clz(next));

        t->cells[i] = cell_of(kind, symbols[i], (next << bits) - (uint32_t)size, bits);
    }
    t->log = log;
}

/* 16 bits from bit `at`, zeros after the end. */
static uint32_t bits_at(const uint8_t *p, int64_t n, int64_t at)
{
    uint32_t v = 0;

    for (int i = 0; i < 3; i++)
        v |= (at >> 3) + i < n ? (uint32_t)p[(at >> 3) + i] << (8 * i) : 0;
    return v >> (at & 7) & 0xffff;
}

/* The table's description (RFC 8878, section 4.1.1). -> its bytes; -1: malformed. */
static int64_t table_read(fse_table *t, int kind, const uint8_t *p, int64_t n)
{
    int16_t shares[53] = { 0 };
    int log = (int)(bits_at(p, n, 0) & 15) + 5, left = (1 << log) + 1, symbol = 0;
    int64_t at = 4;

    if (log > kinds[kind].max_log)
        return -1;
    while (left > 1 && symbol <= kinds[kind].max_symbol) {
        int bits = 32 - __builtin_clz((unsigned)left), half = 1 << (bits - 1), few = 2 * half - 1 - left;
        int v = (int)bits_at(p, n, at), share = v & (half - 1);

        if (share >= few) {
            share = v & (2 * half - 1);
            share -= share >= half ? few : 0;
        }
        at += (v & (half - 1)) < few ? bits - 1 : bits;
        shares[symbol++] = (int16_t)--share;
        left -= share < 0 ? 1 : share;
        for (uint32_t zeros = 3; share == 0 && zeros == 3 && symbol <= kinds[kind].max_symbol; at += 2) {
            zeros = bits_at(p, n, at) & 3;
            symbol += (int)zeros;
        }
    }
    if (left != 1 || symbol > kinds[kind].max_symbol + 1 || (at + 7) / 8 > n)
        return -1;
    table_build(t, kind, shares, log);
    return (at + 7) / 8;
}

/* The table by its mode: predefined, one code, described, or the table of the block before. -> bytes read; -1:
 * malformed. */
static int64_t table_take(frame_state *f, int kind, int mode, const uint8_t *p, int64_t n)
{
    fse_table *t = &f->tables[kind];
    int16_t shares[53];

    switch (mode) {
    case 0:
        for (int s = 0; s <= kinds[kind].max_symbol; s++)
            shares[s] = kinds[kind].usual[s];
        table_build(t, kind, shares, kinds[kind].usual_log);
        return 0;
    case 1:
        if (n < 1 || p[0] > kinds[kind].max_symbol)
            return -1;
        t->cells[0] = cell_of(kind, p[0], 0, 0);
        t->log = 0;
        return 1;
    case 2: return table_read(t, kind, p, n);
    default: return f->has_tables ? 0 : -1;
    }
}

/* ------------------------------------------------------------------------------------------------------------- bits */

/* A bit stream, read from its end: the next bits are the topmost of those below `at`. */
typedef struct bit_reader {
    const uint8_t *p; /* BEFORE bytes before it can be read */
    int64_t at;
} bit_reader;

/* The next bits, at least 57 of them, at the top of a word. */
static inline uint64_t peek(const uint8_t *p, int64_t at)
{
    return hr__load_le64(p + ((at + 7) >> 3) - 8) << (-at & 7);
}

static inline uint32_t top_bits(uint64_t v, uint32_t n) { return (uint32_t)(v >> 1 >> (~n & 63)); }

/* n <= 32. After the end: zero, and at < 0. */
static inline uint32_t take_bits(bit_reader *r, uint32_t n)
{
    uint32_t v = r->at >= 0 ? top_bits(peek(r->p, r->at), n) : 0;

    r->at -= n;
    return v;
}

/* The bit stream of n bytes at p: its highest set bit is an end mark. False: it has none. */
static bool bits_open(bit_reader *r, const uint8_t *p, int64_t n)
{
    if (n < 1 || p[n - 1] == 0)
        return false;
    *r = (bit_reader){ p, 8 * n - 1 - (__builtin_clz(p[n - 1]) - 24) };
    return true;
}

/* --------------------------------------------------------------------------------------------------------- literals */

/* Weights that are compressed: two states take turns until the bits run out. -> how many; -1: malformed. */
static int weights_unpack(const uint8_t *p, int64_t n, uint8_t weights[256])
{
    fse_table t;
    int64_t used = table_read(&t, WEIGHTS, p, n);
    const fse_cell *cell[2];
    bit_reader r;
    int made = 0;

    if (used < 0 || !bits_open(&r, p + used, n - used))
        return -1;
    for (int i = 0; i < 2; i++)
        cell[i] = &t.cells[take_bits(&r, (uint32_t)t.log)];
    while (r.at >= 0 && made < 254) {
        const fse_cell *c = cell[made & 1];

        weights[made] = c->extra;
        cell[made & 1] = &t.cells[c->next + take_bits(&r, c->bits)];
        made++;
    }
    if (r.at >= 0 || made == 0)
        return -1;
    weights[made] = cell[made & 1]->extra;
    return made + 1;
}

/* The Huffman code's description (RFC 8878, section 4.2.1). -> its bytes; -1: malformed. Only lengths matter here: the
 * codes are in the order of their lengths, the longest first. */
static int64_t code_read(frame_state *f, const uint8_t *p, int64_t n)
{
    uint8_t weights[256], *to = f->lengths;
    int many[MAX_CODE_LOG + 2] = { 0 }, n_weights, sum = 0, log;
    int64_t used;

    if (n < 1)
        return -1;
    if (p[0] >= 128) {
        n_weights = p[0] - 127;
        used = 1 + (n_weights + 1) / 2;
        for (int i = 0; used <= n && i < n_weights; i++)
            weights[i] = i & 1 ? p[1 + i / 2] & 15 : p[1 + i / 2] >> 4;
    } else {
        used = 1 + p[0];
        n_weights = used <= n ? weights_unpack(p + 1, p[0], weights) : -1;
    }
    if (used > n || n_weights < 1)
        return -1;
    for (int i = 0; i < n_weights; i++) {
        if (weights[i] > MAX_CODE_LOG)
            return -1;
        many[weights[i]]++;
        sum += 1 << weights[i] >> 1;
    }
    log = sum ? 32 - __builtin_clz((unsigned)sum) : 99;
    if (log > MAX_CODE_LOG || ((1 << log) - sum) & ((1 << log) - sum - 1))
        return -1;
    many[32 - __builtin_clz((unsigned)((1 << log) - sum))]++;
    for (int w = 1; w <= log; w++) {
        memset(to, log + 1 - w, (size_t)many[w] << (w - 1));
        to += (size_t)many[w] << (w - 1);
    }
    f->code_log = log;
    f->has_code = true;
    return used;
}

/* Whether n codes take all bits and no more. */
static bool count_codes(const frame_state *f, bit_reader r, int64_t n)
{
    while (n-- > 0 && r.at >= 0)
        r.at -= f->lengths[peek(r.p, r.at) >> (64 - f->code_log)];
    return r.at == 0;
}

/* Bits of the next CODES codes, of 11 bits at most each. */
static inline uint32_t some_codes(const frame_state *f, bit_reader r)
{
    uint64_t v = peek(r.p, r.at);
    uint32_t sum = 0;

    for (int i = 0; i < CODES; i++) {
        uint32_t n = f->lengths[v >> (64 - f->code_log)];

        v <<= n;
        sum += n;
    }
    return sum;
}

/* Whether four streams of n codes each, the last of n_last <= n, take all bits and no more. The loop alternates between
 * the streams, so that the table look-ups of one do not delay the others. */
static bool count_four(const frame_state *f, bit_reader r[4], int64_t n, int64_t n_last)
{
    int64_t done = 0;

    for (; f->code_log <= 11 && n_last - done >= CODES; done += CODES) {
        if ((r[0].at | r[1].at | r[2].at | r[3].at) < 0)
            return false;
        for (int i = 0; i < 4; i++)
            r[i].at -= some_codes(f, r[i]);
    }
    return count_codes(f, r[0], n - done) && count_codes(f, r[1], n - done) && count_codes(f, r[2], n - done) &&
           count_codes(f, r[3], n_last - done);
}

/* Checks that one stream of n bytes, or four, has exactly the expected number of literals. */
static bool codes_check(const frame_state *f, const uint8_t *p, int64_t n, int64_t made, bool four)
{
    int64_t each = (made + 3) / 4, at = 6;
    bit_reader r[4];

    if (!four)
        return bits_open(r, p, n) && count_codes(f, r[0], made);
    if (made < 6 || made < 3 * each || n < 10)
        return false;
    for (int i = 0; i < 4; i++) {
        int64_t bytes = i < 3 ? p[2 * i] | p[2 * i + 1] << 8 : n - at;

        if (bytes > n - at || !bits_open(&r[i], p + at, bytes))
            return false;
        at += bytes;
    }
    return count_four(f, r, each, made - 3 * each);
}

/* -------------------------------------------------------------------------------------------------------- sequences */

/* Updates the last three offsets by a sequence's offset: `code` and the low bits of its value. -> false: the offset
 * is 0. */
static bool offset_next(uint64_t last[3], uint32_t code, uint32_t low, bool no_literals)
{
    uint32_t which = code == 0 ? no_literals : 1 + low + no_literals;
    uint64_t offset = code > 1 ? (1ull << code) + low - 3 : which < 3 ? last[which] : last[0] - 1;

    if (code > 1 || which > 1)
        last[2] = last[1];
    if (code > 1 || which > 0)
        last[1] = last[0];
    last[0] = offset;
    return offset != 0;
}

/* Whether n sequences take all bits and no more, and no offset is 0. No bits lead to a cell outside of a table. */
static bool follow_sequences(frame_state *f, bit_reader r, int64_t n)
{
    const fse_cell *literals = f->tables[LITERALS].cells, *offsets = f->tables[OFFSETS].cells;
    const fse_cell *matches = f->tables[MATCHES].cells, *a, *b, *c;

    a = literals + take_bits(&r, (uint32_t)f->tables[LITERALS].log);
    b = offsets + take_bits(&r, (uint32_t)f->tables[OFFSETS].log);
    c = matches + take_bits(&r, (uint32_t)f->tables[MATCHES].log);
    for (;;) {
        uint32_t low = take_bits(&r, b->extra), n_a = a->bits, n_b = b->bits, n_c = c->bits;
        uint64_t v;

        r.at -= a->extra + c->extra;
        if (!offset_next(f->last, b->extra, low, a->zero))
            return false;
        if (--n == 0 || r.at < 0)
            return n == 0 && r.at == 0;
        v = peek(r.p, r.at);
        r.at -= n_a + n_b + n_c;
        a = literals + a->next + top_bits(v, n_a);
        c = matches + c->next + top_bits(v << n_a, n_c);
        b = offsets + b->next + top_bits(v << (n_a + n_c), n_b);
    }
}

/* ----------------------------------------------------------------------------------------------------------- blocks */

/* The literals section's header. -> its bytes; -1: the section is more than n. `packed`: bytes after it. */
static int64_t literals_header(const uint8_t *p, int64_t n, int64_t *made, int64_t *packed)
{
    int type = p[0] & 3, format = p[0] >> 2 & 3, header, bits;
    uint64_t v = 0;

    if (type < 2) { /* raw, or one byte repeated */
        header = format == 1 ? 2 : format == 3 ? 3 : 1;
        bits = header == 1 ? 5 : header == 2 ? 12 : 20;
    } else {
        header = format < 2 ? 3 : format == 2 ? 4 : 5;
        bits = format < 2 ? 10 : format == 2 ? 14 : 18;
    }
    if (n < header)
        return -1;
    for (int i = 0; i < header; i++)
        v |= (uint64_t)p[i] << (8 * i);
    v >>= header == 1 ? 3 : 4;
    *made = (int64_t)(v & ((1u << bits) - 1));
    *packed = type == 0 ? *made : type == 1 ? 1 : (int64_t)(v >> bits & ((1u << bits) - 1));
    return header + *packed <= n ? header : -1;
}

/* The literals section; *used: its bytes. */
static bool literals_check(frame_state *f, const uint8_t *p, int64_t n, int64_t *used)
{
    int64_t made = 0, packed = 0, header = n > 0 ? literals_header(p, n, &made, &packed) : -1, code = 0;
    int type;

    if (header < 0 || made > f->block_max)
        return false;
    *used = header + packed;
    type = p[0] & 3;
    if (type < 2)
        return true;
    if (type == 2)
        code = code_read(f, p + header, packed);
    if (code < 0 || !f->has_code)
        return false;
    return codes_check(f, p + header + code, packed - code, made, p[0] >> 2 & 3);
}

/* The number of sequences; *at moves after it. -1: cut. */
static int64_t n_sequences(const uint8_t *p, int64_t n, int64_t *at)
{
    int64_t first = *at < n ? p[*at] : 255, more = first < 128 ? 0 : first < 255 ? 1 : 2;
    const uint8_t *q = p + *at + 1;

    if (*at + 1 + more > n)
        return -1;
    *at += 1 + more;
    return more == 0 ? first : more == 1 ? (first - 128) << 8 | q[0] : (q[0] | q[1] << 8) + 0x7f00;
}

/* A compressed block. */
static bool block_check(frame_state *f, const uint8_t *p, int64_t n)
{
    int64_t at = 0, n_seq;
    int modes;
    bit_reader r;

    if (n > f->block_max || !literals_check(f, p, n, &at))
        return false;
    n_seq = n_sequences(p, n, &at);
    if (n_seq <= 0)
        return n_seq == 0 && at == n;
    if (at == n || (modes = p[at++]) & 3)
        return false;
    for (int k = 0; k < N_KINDS; k++) {
        int64_t used = table_take(f, k, modes >> (6 - 2 * k) & 3, p + at, n - at);

        if (used < 0)
            return false;
        at += used;
    }
    if (!bits_open(&r, p + at, n - at))
        return false;
    f->has_tables = true;
    return follow_sequences(f, r, n_seq);
}

/* ----------------------------------------------------------------------------------------------------------- frames */

struct hr_zstd_check {
    frame_state frame;
    enum { FRAME_HEADER, BLOCK_HEADER, BLOCK, GONE } next;
    uint8_t header[MAX_HEADER];
    int n_header;
    int64_t pass;            /* bytes to skip before the next part */
    bool last, summed;       /* the frame's last block; the frame has a checksum */
    int64_t n_block, n_held; /* bytes of the block; those that came */
    uint8_t *held;           /* NULL: the check skips blocks that arrive in several parts */
};

/* The size of the frame's header, as far as its first n bytes show it; 0: it is no header. */
static int header_bytes(const uint8_t *p, int n)
{
    static const int id_bytes[] = { 0, 1, 2, 4 }, size_bytes[] = { 0, 2, 4, 8 };

    if (n < 5)
        return n < 4 || hr__load_le32(p) == MAGIC ? n + 1 : (hr__load_le32(p) & ~15u) == SKIPPABLE ? 8 : 0;
    if (hr__load_le32(p) != MAGIC)
        return 8;
    return 5 + !(p[4] & 0x20) + id_bytes[p[4] & 3] + (p[4] >> 6 || !(p[4] & 0x20) ? size_bytes[p[4] >> 6] : 1);
}

static void frame_begin(hr_zstd_check *c)
{
    const uint8_t *p = c->header;
    bool single = p[4] & 0x20;
    uint64_t window = 0;
    frame_state *f = &c->frame;

    c->n_header = 0;
    if (hr__load_le32(p) != MAGIC) {
        c->pass = hr__load_le32(p + 4);
        return;
    }
    if (single) {
        int n = p[4] >> 6 ? 1 << (p[4] >> 6) : 1, at = header_bytes(p, MAX_HEADER) - n;

        for (int i = 0; i < n; i++)
            window |= (uint64_t)p[at + i] << (8 * i);
        window += n == 2 ? 256 : 0;
    } else {
        window = (8ull + (p[5] & 7)) << (7 + (p[5] >> 3));
    }
    f->block_max = (int64_t)HR_MIN(window, BLOCK_BYTES);
    f->has_tables = f->has_code = false;
    f->last[0] = 1;
    f->last[1] = 4;
    f->last[2] = 8;
    c->summed = p[4] & 4;
    c->next = BLOCK_HEADER;
}

static void block_end(hr_zstd_check *c)
{
    c->n_held = 0;
    c->next = c->last ? FRAME_HEADER : BLOCK_HEADER;
    if (c->last && c->summed)
        c->pass += 4;
}

static void block_begin(hr_zstd_check *c)
{
    uint32_t v = c->header[0] | (uint32_t)c->header[1] << 8 | (uint32_t)c->header[2] << 16;
    int type = v >> 1 & 3;

    c->n_header = 0;
    c->last = v & 1;
    c->n_block = type == 1 ? 1 : v >> 3;
    if (type == 3 || (type == 2 && (c->n_block == 0 || c->n_block > BLOCK_BYTES))) {
        c->next = GONE;
    } else if (type == 2 && !c->summed) {
        c->next = BLOCK;
    } else {
        c->pass = c->n_block;
        block_end(c);
    }
}

/* Adds a byte of a header; begins the part that it completes. */
static void header_byte(hr_zstd_check *c, uint8_t byte)
{
    int n;

    c->header[c->n_header++] = byte;
    n = c->next == BLOCK_HEADER ? 3 : header_bytes(c->header, c->n_header);
    if (n == 0)
        c->next = GONE;
    else if (n == c->n_header && c->next == BLOCK_HEADER)
        block_begin(c);
    else if (n == c->n_header)
        frame_begin(c);
}

/* Bytes of the block, of n at p; `before`: readable ones before p. -> bytes used. */
static int64_t block_bytes(hr_zstd_check *c, const uint8_t *p, int64_t n, int64_t before, bool *ok)
{
    int64_t used = HR_MIN(n, c->n_block - c->n_held);
    bool whole = c->n_held == 0 && used == c->n_block && before >= BEFORE;

    if (!whole && c->held)
        memcpy(c->held + BEFORE + c->n_held, p, (size_t)used);
    c->n_held += used;
    if (c->n_held == c->n_block) {
        *ok = block_check(&c->frame, whole ? p : c->held + BEFORE, c->n_block);
        block_end(c);
    }
    return used;
}

bool hr__zstd_check_next(hr_zstd_check *c, const uint8_t *p, int64_t n)
{
    bool ok = true;
    int64_t used;

    for (int64_t at = 0; ok && at < n && c->next != GONE; at += used) {
        used = 1;
        if (c->pass > 0) {
            used = HR_MIN(c->pass, n - at);
            c->pass -= used;
        } else if (c->next == BLOCK) {
            used = block_bytes(c, p + at, n - at, at, &ok);
        } else {
            header_byte(c, p[at]);
        }
    }
    return ok;
}

static void check_init(hr_zstd_check *c, uint8_t *held)
{
    c->next = FRAME_HEADER;
    c->n_header = 0;
    c->pass = c->n_held = 0;
    c->held = held;
}

bool hr__zstd_is_sound(hr_view in)
{
    hr_zstd_check c;

    check_init(&c, NULL);
    return hr__zstd_check_next(&c, in.data, in.n);
}

hr_zstd_check *hr__zstd_check_new(hr_account *account)
{
    hr_zstd_check *c = hr__alloc(account, sizeof *c + BEFORE + BLOCK_BYTES);

    if (c)
        check_init(c, (uint8_t *)(c + 1));
    return c;
}

void hr__zstd_check_free(hr_zstd_check *c) { hr__free(c); }
