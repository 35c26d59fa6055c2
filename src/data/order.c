/* order.c - keys of rows, as bytes that memcmp orders (see keys.h).
 *
 * A column of fixed width has zeros for a null or NaN, as many bytes as for a value, so that the next column's place is
 * fixed; a text has its own length. Prefixes are made column by column: word w holds bytes 8w to 8w + 7 of the key, the
 * first one highest. They stop within the first text, since the bytes after it have another place in each row. After
 * the text's end the prefix is filled with the text's end byte, which no text has twice in a row: two end bytes at the
 * end of a prefix mean that it holds the whole text, if both can only belong to the text. */
#include "data/keys.h"

enum { FLAGS = 3, WIDEST = 32 /* decimal256 */ };

bool hr__type_is_orderable(const hr_type *t)
{
    return t->id <= HR_T_DECIMAL256 && !t->pickled; /* the entries are in the order of the types */
}

/* Bytes of a value in the key, without its flag; 0: it varies (text). */
static int64_t key_width(const hr_type *t)
{
    if (t->id == HR_T_BOOL)
        return 1;
    return hr__type_is_bytes(t) ? 0 : hr__type_bytes(t);
}

static int flag_bytes(const hr_order_key *k) { return k->bare ? 0 : 1; }

static bool is_sized(const hr_type *t) { return !hr__type_is_bytes(t); }

static hr_status check_key(const hr_schema *schema, const hr_order_key *k, hr_error *err)
{
    hr_text type = { 0 };
    hr_status st = HR_OK;

    if (k->column < 0 || k->column >= schema->n)
        return hr_error_set(err, HR_BUG, "order: column %d of %d", k->column, schema->n);
    if (hr__type_is_orderable(schema->fields[k->column].type))
        return HR_OK;
    hr__type_print(schema->fields[k->column].type, &type);
    st = hr_error_set(err, HR_TYPE,
                      "column '%s' is %s, whose values have no order; numbers, times, text, bytes and bool have one",
                      schema->fields[k->column].name, type.data ? type.data : "?");
    hr__text_clear(&type);
    return st;
}

hr_status hr__order_new(const hr_schema *schema, const hr_order_key *keys, int n, hr_account *account, hr_order **out,
                        hr_error *err)
{
    size_t n_bytes = sizeof(hr_order) + (size_t)n * sizeof(hr_order_key);
    int64_t width = 0;
    hr_order *o;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_BUG, "order: no keys");
    for (int i = 0; i < n; i++)
        HR_TRY(check_key(schema, &keys[i], err));
    if (!(o = hr__zalloc(account, n_bytes)))
        return hr__error_memory(err, "order", (int64_t)n_bytes);
    o->n = n;
    o->keys = (hr_order_key *)(o + 1);
    memcpy(o->keys, keys, (size_t)n * sizeof *keys);
    o->exact = true;
    for (int i = 0; i < n && o->exact; i++) {
        const hr_type *t = schema->fields[keys[i].column].type;

        o->exact = is_sized(t) && (width += flag_bytes(&keys[i]) + key_width(t)) <= HR_ORDER_WORDS * 8;
    }
    o->words = o->exact && width <= 8 ? 1 : HR_ORDER_WORDS;
    width = 0;
    for (int i = 0; i < n && !o->exact; i++) {
        const hr_type *t = schema->fields[keys[i].column].type;

        width += flag_bytes(&keys[i]) + key_width(t);
        if (is_sized(t))
            continue;
        o->ends = i == n - 1 &&
                  width + 2 <= HR_ORDER_WORDS * 8; /* the first text is the last key, and begins in the prefix */
        o->end = keys[i].descending ? 0xFFFF : 0;
        break;
    }
    *out = o;
    return HR_OK;
}

void hr__order_free(hr_order *o) { hr__free(o); }

/* ----------------------------------------------------------------------------------------------------------- values */

/* The flag byte: a value, NaN, null. */
enum { VALUE, NOT_A_NUMBER, MISSING };

static uint8_t flag_of(const hr_order_key *k, int what) { return (uint8_t)(k->nulls_first ? 2 - what : what); }

static uint64_t ordered_16(uint64_t b, bool *nan)
{
    *nan = (b & 0x7FFF) > 0x7C00;
    b = b & 0x7FFF ? b : 0;
    return b & 0x8000 ? ~b & 0xFFFF : b | 0x8000;
}
static uint64_t ordered_32(uint64_t b, bool *nan)
{
    *nan = (b & 0x7FFFFFFF) > 0x7F800000;
    b = b & 0x7FFFFFFF ? b : 0;
    return b & 0x80000000 ? ~b & 0xFFFFFFFF : b | 0x80000000;
}
static uint64_t ordered_64(uint64_t b, bool *nan)
{
    const uint64_t sign = (uint64_t)1 << 63;

    *nan = (b & ~sign) > 0x7FF0000000000000;
    b = b & ~sign ? b : 0;
    return b & sign ? ~b : b | sign;
}

static bool is_unsigned(const hr_type *t)
{
    return t->id == HR_T_UINT8 || t->id == HR_T_UINT16 || t->id == HR_T_UINT32 || t->id == HR_T_UINT64;
}

/* A value of at most eight bytes as a number of `bytes` bytes, in the order of the values. */
static inline uint64_t ordered(const hr_array *a, int64_t i, bool *nan)
{
    int width = hr__type_bytes(a->type);
    uint64_t v;

    *nan = false;
    if (a->type->id == HR_T_BOOL)
        return hr__bit(a->buffers[1]->data, a->offset + i);
    v = hr__array_uint(a, i);
    switch (a->type->id) {
    case HR_T_FLOAT16: return ordered_16(v, nan);
    case HR_T_FLOAT32: return ordered_32(v, nan);
    case HR_T_FLOAT64: return ordered_64(v, nan);
    default: return is_unsigned(a->type) ? v : v ^ (uint64_t)1 << (8 * width - 1);
    }
}

static bool is_small(const hr_type *t) /* the types that `ordered` knows */
{
    return t->id == HR_T_BOOL || (hr__type_bytes(t) > 0 && hr__type_bytes(t) <= 8 && t->id != HR_T_FIXED_BINARY);
}

/* The bytes of a wide value of fixed width in comparable form; the value's own bytes or `out`. */
static const uint8_t *wide_bytes(const hr_array *a, int64_t i, uint8_t out[WIDEST])
{
    int width = hr__type_bytes(a->type);
    const uint8_t *p = hr__array_values(a) + i * width;

    if (a->type->id == HR_T_FIXED_BINARY)
        return p;
    for (int k = 0; k < width; k++) /* decimals lie little-endian */
        out[k] = p[width - 1 - k];
    out[0] ^= 0x80;
    return out;
}

/* --------------------------------------------------------------------------------------------------------- prefixes */

/* The place of a column's bytes in the prefixes. */
typedef struct slot {
    uint64_t *out;
    int words;
    int64_t at; /* of the flag byte in the key */
    const hr_order_key *key;
    bool nulls; /* the column may have nulls */
} slot;

static inline void put_byte(const slot *s, int64_t i, int64_t at, uint8_t b)
{
    if (at < 8 * s->words)
        s->out[i * s->words + at / 8] |= (uint64_t)b << (56 - at % 8 * 8);
}

static inline void put_flag(const slot *s, int64_t i, uint8_t b)
{
    if (!s->key->bare)
        put_byte(s, i, s->at, b);
}

/* Puts the highest bytes of `left` at a place of the key. */
static inline void put_word(const slot *s, int64_t i, int64_t at, uint64_t left)
{
    uint64_t *to = s->out + i * s->words + at / 8;
    int shift = (int)(at % 8 * 8);

    if (at >= 8 * s->words)
        return;
    to[0] |= left >> shift;
    if (shift && at / 8 + 1 < s->words)
        to[1] |= left << (64 - shift);
}

/* One loop a type. VALUE_OF(v, nan): the stored bits as an ordered number; `turn`: the bits that "descending"
 * inverts. */
#define PREFIX_LOOP(name, bits_type, VALUE_OF)                                                                         \
    static void name(const slot *s, const hr_array *a, int64_t begin, int64_t n)                                       \
    {                                                                                                                  \
        const int width = (int)sizeof(bits_type), left = 64 - 8 * width;                                               \
        const int64_t at = s->at + flag_bytes(s->key);                                                                 \
        const uint64_t turn = s->key->descending ? UINT64_MAX >> left : 0;                                             \
        const uint8_t *from = hr__array_values(a) + begin * width;                                                     \
        const uint8_t value = flag_of(s->key, VALUE), none = flag_of(s->key, NOT_A_NUMBER),                            \
                      null = flag_of(s->key, MISSING);                                                                 \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            bool nan = false;                                                                                          \
            bits_type bits;                                                                                            \
            uint64_t v;                                                                                                \
                                                                                                                       \
            if (s->nulls && hr__array_is_null(a, begin + i)) {                                                         \
                put_flag(s, i, null);                                                                                  \
                continue;                                                                                              \
            }                                                                                                          \
            memcpy(&bits, from + i * width, sizeof bits);                                                              \
            v = VALUE_OF;                                                                                              \
            put_flag(s, i, nan ? none : value);                                                                        \
            put_word(s, i, at, nan ? 0 : (v ^ turn) << left);                                                          \
        }                                                                                                              \
    }
PREFIX_LOOP(prefix_u8, uint8_t, bits)
PREFIX_LOOP(prefix_u16, uint16_t, bits)
PREFIX_LOOP(prefix_u32, uint32_t, bits)
PREFIX_LOOP(prefix_u64, uint64_t, bits)
PREFIX_LOOP(prefix_i8, uint8_t, (uint64_t)(bits ^ 0x80u))
PREFIX_LOOP(prefix_i16, uint16_t, (uint64_t)(bits ^ 0x8000u))
PREFIX_LOOP(prefix_i32, uint32_t, (uint64_t)(bits ^ 0x80000000u))
PREFIX_LOOP(prefix_i64, uint64_t, bits ^ (uint64_t)1 << 63)
PREFIX_LOOP(prefix_f16, uint16_t, ordered_16(bits, &nan))
PREFIX_LOOP(prefix_f32, uint32_t, ordered_32(bits, &nan))
PREFIX_LOOP(prefix_f64, uint64_t, ordered_64(bits, &nan))
#undef PREFIX_LOOP

typedef void prefix_loop(const slot *s, const hr_array *a, int64_t begin, int64_t n);

static prefix_loop *loop_of(const hr_type *t)
{
    static prefix_loop *const floats[] = { prefix_f16, prefix_f32, prefix_f64 };
    bool no_sign = is_unsigned(t);

    if (t->id >= HR_T_FLOAT16 && t->id <= HR_T_FLOAT64)
        return floats[t->id - HR_T_FLOAT16];
    switch (is_small(t) ? hr__type_bytes(t) : 0) {
    case 1: return no_sign ? prefix_u8 : prefix_i8;
    case 2: return no_sign ? prefix_u16 : prefix_i16;
    case 4: return no_sign ? prefix_u32 : prefix_i32;
    case 8: return no_sign ? prefix_u64 : prefix_i64;
    default: return NULL;
    }
}

/* Writes up to `room` bytes of a text as in the key; -> their number. */
static int64_t escape(const uint8_t *p, int64_t n, uint8_t turn, uint8_t *out, int64_t room)
{
    int64_t at = 0;

    for (int64_t k = 0; k < n && at < room; k++) {
        out[at++] = p[k] ^ turn;
        if (p[k] == 0 && at < room)
            out[at++] = 0xFF ^ turn;
    }
    for (int k = 0; k < 2 && at < room; k++)
        out[at++] = turn;
    return at;
}

static uint64_t load_big(const uint8_t *p) { return __builtin_bswap64(hr__load_le64(p)); }

static void prefix_text(const slot *s, const hr_array *a, int64_t begin, int64_t n)
{
    int64_t at = s->at + flag_bytes(s->key), room = 8 * s->words - at, n_bytes = 0;
    uint8_t turn = s->key->descending ? 0xFF : 0;

    for (int64_t i = 0; i < n; i++) {
        bool null = hr__array_is_null(a, begin + i);
        uint8_t bytes[8 * HR_ORDER_WORDS];
        const uint8_t *p;

        put_flag(s, i, flag_of(s->key, null ? MISSING : VALUE));
        if (room <= 0)
            continue;
        memset(bytes, turn, sizeof bytes);
        if (!null) {
            p = hr__array_bytes(a, begin + i, &n_bytes);
            escape(p, n_bytes, turn, bytes, room);
        }
        put_word(s, i, at, load_big(bytes));
        put_word(s, i, at + 8, load_big(bytes + 8));
    }
}

/* Booleans, and values wider than eight bytes. */
static void prefix_any(const slot *s, const hr_array *a, int64_t begin, int64_t n)
{
    int64_t width = key_width(a->type), at = s->at + flag_bytes(s->key), room = HR_MIN(width, 8 * s->words - at);
    uint8_t turn = s->key->descending ? 0xFF : 0, made[WIDEST];

    for (int64_t i = 0; i < n; i++) {
        bool null = hr__array_is_null(a, begin + i);
        const uint8_t *p = made;

        put_flag(s, i, flag_of(s->key, null ? MISSING : VALUE));
        if (null || room <= 0)
            continue;
        if (a->type->id == HR_T_BOOL)
            made[0] = hr__bit(a->buffers[1]->data, a->offset + begin + i);
        else
            p = wide_bytes(a, begin + i, made);
        for (int64_t k = 0; k < room; k++)
            put_byte(s, i, at + k, p[k] ^ turn);
    }
}

void hr__order_prefixes(const hr_order *o, const hr_table *t, int64_t begin, int64_t n, uint64_t *out)
{
    slot s = { .out = out, .words = o->words };

    memset(out, 0, (size_t)(n * o->words) * sizeof *out);
    for (int i = 0; i < o->n && s.at < 8 * o->words; i++) {
        const hr_array *a = t->columns[o->keys[i].column];
        prefix_loop *loop = loop_of(a->type);

        s.key = &o->keys[i];
        s.nulls = hr__array_null_count(a) > 0;
        if (loop)
            loop(&s, a, begin, n);
        else if (is_sized(a->type))
            prefix_any(&s, a, begin, n);
        else
            prefix_text(&s, a, begin, n);
        if (!is_sized(a->type))
            return;
        s.at += flag_bytes(s.key) + key_width(a->type);
    }
}

/* ------------------------------------------------------------------------------------------------------- whole keys */

static void add_text(const hr_array *a, int64_t row, uint8_t turn, hr_text *out)
{
    int64_t n = 0;
    const uint8_t *p = hr__array_bytes(a, row, &n);
    uint8_t escaped[64];

    for (int64_t at = 0; at < n; at += 32) { /* 64 bytes hold 32 escaped ones */
        int64_t some = HR_MIN(32, n - at), used = 0;

        for (int64_t k = 0; k < some; k++) {
            escaped[used++] = p[at + k] ^ turn;
            if (p[at + k] == 0)
                escaped[used++] = 0xFF ^ turn;
        }
        hr__text_add_bytes(out, escaped, used);
    }
    memset(escaped, turn, 2);
    hr__text_add_bytes(out, escaped, 2);
}

static void add_key(const hr_order_key *k, const hr_array *a, int64_t row, hr_text *out)
{
    uint8_t turn = k->descending ? 0xFF : 0, made[WIDEST] = { 0 }, flag;
    int64_t width = key_width(a->type);
    bool null = hr__array_is_null(a, row), nan = false;
    const uint8_t *p = made;
    uint64_t v = 0;

    if (!null && is_small(a->type))
        v = ordered(a, row, &nan);
    flag = flag_of(k, null ? MISSING : nan ? NOT_A_NUMBER : VALUE);
    hr__text_add_bytes(out, &flag, flag_bytes(k));
    if (!null && !is_sized(a->type)) {
        add_text(a, row, turn, out);
        return;
    }
    if (null && !is_sized(a->type))
        return;
    if (!null && !nan && is_small(a->type)) {
        for (int64_t b = 0; b < width; b++)
            made[b] = (uint8_t)(v >> (8 * (width - 1 - b))) ^ turn;
    } else if (!null && !nan) {
        p = wide_bytes(a, row, made);
        for (int64_t b = 0; b < width; b++) { /* fixed binary may be wider than `made` */
            uint8_t byte = p[b] ^ turn;
            hr__text_add_bytes(out, &byte, 1);
        }
        return;
    }
    for (int64_t b = 0; b < width; b += WIDEST)
        hr__text_add_bytes(out, made, HR_MIN(WIDEST, width - b));
}

void hr__order_bytes(const hr_order *o, const hr_table *t, int64_t row, hr_text *out)
{
    for (int i = 0; i < o->n; i++)
        add_key(&o->keys[i], t->columns[o->keys[i].column], row, out);
}

/* -------------------------------------------------------------------------------------------------------- comparing */

static int compare_text(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    int64_t n = 0, m = 0, least;
    const uint8_t *p = hr__array_bytes(a, i, &n), *q = hr__array_bytes(b, j, &m);
    int c;

    least = HR_MIN(n, m);
    c = least ? memcmp(p, q, (size_t)least) : 0;
    return c ? c : (n > m) - (n < m);
}

static int compare_values(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    uint8_t x[WIDEST], y[WIDEST];

    if (!is_sized(a->type))
        return compare_text(a, i, b, j);
    if (hr__type_bytes(a->type) == 0)
        return 0;
    return memcmp(wide_bytes(a, i, x), wide_bytes(b, j, y), (size_t)hr__type_bytes(a->type));
}

static int compare_key(const hr_order_key *k, const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    int what_a = hr__array_is_null(a, i) ? MISSING : VALUE, what_b = hr__array_is_null(b, j) ? MISSING : VALUE;
    uint64_t v = 0, w = 0;
    bool nan = false;
    int c;

    if (is_small(a->type)) {
        if (what_a == VALUE) {
            v = ordered(a, i, &nan);
            what_a = nan ? NOT_A_NUMBER : VALUE;
        }
        if (what_b == VALUE) {
            w = ordered(b, j, &nan);
            what_b = nan ? NOT_A_NUMBER : VALUE;
        }
    }
    if (what_a != what_b)
        return (int)flag_of(k, what_a) - (int)flag_of(k, what_b);
    if (what_a != VALUE)
        return 0;
    c = is_small(a->type) ? (v > w) - (v < w) : compare_values(a, i, b, j);
    return k->descending ? (c < 0) - (c > 0) : c;
}

int hr__order_compare(const hr_order *o, const hr_table *a, int64_t i, const hr_table *b, int64_t j)
{
    for (int k = 0; k < o->n; k++) {
        int column = o->keys[k].column, c = compare_key(&o->keys[k], a->columns[column], i, b->columns[column], j);

        if (c)
            return c;
    }
    return 0;
}
