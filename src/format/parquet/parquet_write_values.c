/* parquet_write_values.c - values as Parquet's bytes, and the Thrift of headers and footer.
 *
 * Tests: test_parquet_write.c. */
#include "format/parquet/parquet_write.h"

#include "format/parquet/parquet_kernel.h"

/* ----------------------------------------------------------------------------------------------------------- Thrift */

static void put(pw_thrift *t, const void *data, int64_t n)
{
    if (!t->st)
        t->st = hr__growbuf_add(t->out, data, n, t->err);
}

static int varint(uint64_t v, uint8_t *out)
{
    int n = 0;

    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

static uint64_t zigzag(int64_t v) { return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63); }

static void head(pw_thrift *t, int id, int type)
{
    uint8_t b[12];
    int n = 1, step = id - t->last;

    t->last = id;
    if (step > 0 && step <= 15) {
        b[0] = (uint8_t)(step << 4 | type);
    } else {
        b[0] = (uint8_t)type;
        n += varint(zigzag(id), b + 1);
    }
    put(t, b, n);
}

void pw__int(pw_thrift *t, int id, int type, int64_t v)
{
    uint8_t b[10];

    head(t, id, type);
    if (type == PQ_T_I8) {
        b[0] = (uint8_t)v;
        put(t, b, 1);
        return;
    }
    put(t, b, varint(zigzag(v), b));
}

void pw__bool(pw_thrift *t, int id, bool v) { head(t, id, v ? PQ_T_TRUE : PQ_T_FALSE); }

void pw__list_bytes(pw_thrift *t, const void *data, int64_t n)
{
    uint8_t b[10];

    put(t, b, varint((uint64_t)n, b));
    put(t, data, n);
}

void pw__bytes(pw_thrift *t, int id, const void *data, int64_t n)
{
    head(t, id, PQ_T_BINARY);
    pw__list_bytes(t, data, n);
}

int pw__open_item(pw_thrift *t)
{
    int outer = t->last;

    t->last = 0;
    return outer;
}

int pw__open(pw_thrift *t, int id)
{
    head(t, id, PQ_T_STRUCT);
    return pw__open_item(t);
}

void pw__close(pw_thrift *t, int outer)
{
    put(t, "", 1);
    t->last = outer;
}

void pw__list(pw_thrift *t, int id, int type, int64_t n)
{
    uint8_t b[11];
    int k = 1;

    head(t, id, PQ_T_LIST);
    b[0] = (uint8_t)((n < 15 ? n : 15) << 4 | type);
    if (n >= 15)
        k += varint((uint64_t)n, b + 1);
    put(t, b, k);
}

void pw__list_int(pw_thrift *t, int64_t v)
{
    uint8_t b[10];

    put(t, b, varint(zigzag(v), b));
}

void pw__list_bool(pw_thrift *t, bool v)
{
    uint8_t b = v ? PQ_T_TRUE : PQ_T_FALSE;

    put(t, &b, 1);
}

/* ------------------------------------------------------------------------------------------------------------ PLAIN */

static uint8_t *tail(hr_growbuf *g) { return g->buffer->data + g->buffer->n_bytes; }

static hr_status plain_bools(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err)
{
    uint8_t *to;

    HR_TRY(hr__growbuf_reserve(out, (n + 7) / 8, err));
    to = tail(out);
    memset(to, 0, (size_t)((n + 7) / 8));
    for (int64_t i = 0; i < n; i++)
        to[i >> 3] |= (uint8_t)(v->data[begin + i] << (i & 7));
    out->buffer->n_bytes += (n + 7) / 8;
    return HR_OK;
}

static int64_t text_bytes(const hr_view *v, int64_t n)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += v[i].n;
    return sum;
}

static hr_status plain_texts(const hr_view *v, int64_t n, hr_growbuf *out, hr_error *err)
{
    int64_t sum = text_bytes(v, n) + 4 * n;
    uint8_t *to;

    HR_TRY(hr__growbuf_reserve(out, sum + 16, err));
    to = tail(out);
    for (int64_t i = 0; i < n; i++) {
        uint32_t k = (uint32_t)v[i].n;

        memcpy(to, &k, 4);
        if (k)
            memcpy(to + 4, v[i].data, k);
        to += 4 + k;
    }
    out->buffer->n_bytes += sum;
    return HR_OK;
}

hr_status pw__plain(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err)
{
    if (v->physical == PQ_BOOLEAN)
        return plain_bools(v, begin, n, out, err);
    if (v->physical == PQ_BYTE_ARRAY)
        return plain_texts(v->views + begin, n, out, err);
    return hr__growbuf_add(out, v->data + begin * v->width, n * v->width, err);
}

hr_status pw__split(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err)
{
    HR_TRY(hr__growbuf_reserve(out, n * v->width, err));
    pq__kernels()->split(v->data + begin * v->width, v->width, tail(out), n, n);
    out->buffer->n_bytes += n * v->width;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------- runs and packing */

/* A multiple of 8 values of `width` bits, least significant first. `to` has 8 bytes of room after them. */
static void pack_u32(const uint32_t *v, int64_t n, int width, uint8_t *to)
{
    uint64_t word = 0;
    int fill = 0;

    for (int64_t i = 0; i < n; i++) {
        word |= (uint64_t)v[i] << fill;
        fill += width;
        if (fill >= 32) {
            uint32_t low = (uint32_t)word;

            memcpy(to, &low, 4);
            to += 4;
            word >>= 32;
            fill -= 32;
        }
    }
    for (; fill > 0; fill -= 8) {
        *to++ = (uint8_t)word;
        word >>= 8;
    }
}

#define RUN_LEAST 8 /* fewer equal values are packed, not written as a run */

/* The length of the run of equal values at v. */
#define RUN_LENGTH(name, type)                                                                                         \
    static int64_t name(const type *v, int64_t n)                                                                      \
    {                                                                                                                  \
        int64_t k = 1;                                                                                                 \
        while (k < n && v[k] == v[0])                                                                                  \
            k++;                                                                                                       \
        return k;                                                                                                      \
    }
RUN_LENGTH(run_u32, uint32_t)

static int64_t run_u8(const uint8_t *v, int64_t n)
{
    uint64_t same = 0x0101010101010101u * v[0], word;
    int64_t k = 1;

    while (k + 8 <= n && (memcpy(&word, v + k, 8), word == same))
        k += 8;
    while (k < n && v[k] == v[0])
        k++;
    return k;
}

static hr_status put_run(uint32_t value, int64_t n, int width, hr_growbuf *out, hr_error *err)
{
    uint8_t b[16];
    int k = varint((uint64_t)n << 1, b);

    for (int i = 0; i < (width + 7) / 8; i++)
        b[k++] = (uint8_t)(value >> (8 * i));
    return hr__growbuf_add(out, b, k, err);
}

#define PACK_MOST (504 * 64) /* values of one packed run */

static hr_status put_packed(const uint32_t *v, int64_t n, int width, hr_growbuf *out, hr_error *err)
{
    while (n > 0) {
        int64_t some = HR_MIN(n, PACK_MOST), groups = (some + 7) / 8;
        uint32_t last[8] = { 0 };
        uint8_t b[10];

        HR_TRY(hr__growbuf_add(out, b, varint((uint64_t)groups << 1 | 1, b), err));
        HR_TRY(hr__growbuf_reserve(out, groups * width + 16, err));
        pack_u32(v, some / 8 * 8, width, tail(out));
        if (some % 8) {
            memcpy(last, v + some / 8 * 8, (size_t)(some % 8) * 4);
            pack_u32(last, 8, width, tail(out) + some / 8 * width);
        }
        out->buffer->n_bytes += groups * width;
        v += some;
        n -= some;
    }
    return HR_OK;
}

/* Every packed run except the last must hold a multiple of 8 values: the next run gives up some of its values for
 * that. */
hr_status pw__runs_u32(const uint32_t *v, int64_t n, int width, hr_growbuf *out, hr_error *err)
{
    int64_t from = 0, i = 0; /* values [from, i) wait to be packed */

    while (i < n) {
        int64_t k = run_u32(v + i, n - i), fill = (8 - (i - from) % 8) % 8;

        if (k - fill < RUN_LEAST) {
            i += k;
            continue;
        }
        if (i > from || fill)
            HR_TRY(put_packed(v + from, i + fill - from, width, out, err));
        HR_TRY(put_run(v[i], k - fill, width, out, err));
        i += k;
        from = i;
    }
    return n > from ? put_packed(v + from, n - from, width, out, err) : HR_OK;
}

static hr_status put_packed_u8(const uint8_t *v, int64_t n, int width, hr_growbuf *out, hr_error *err)
{
    uint32_t wide[512];
    int64_t groups = (n + 7) / 8;
    uint8_t b[10];

    HR_TRY(hr__growbuf_add(out, b, varint((uint64_t)groups << 1 | 1, b), err));
    HR_TRY(hr__growbuf_reserve(out, groups * width + 16, err));
    for (int64_t done = 0; done < n; done += 512) {
        int64_t some = HR_MIN(n - done, 512), whole = HR_ROUND_UP(some, 8);

        memset(wide, 0, sizeof wide);
        for (int64_t i = 0; i < some; i++)
            wide[i] = v[done + i];
        pack_u32(wide, whole, width, tail(out));
        out->buffer->n_bytes += whole / 8 * width;
    }
    return HR_OK;
}

hr_status pw__runs_u8(const uint8_t *v, int64_t n, int width, hr_growbuf *out, hr_error *err)
{
    int64_t from = 0, i = 0;

    while (i < n) {
        int64_t k = run_u8(v + i, n - i), fill = (8 - (i - from) % 8) % 8;

        if (k - fill < RUN_LEAST) {
            i += k;
            continue;
        }
        if (i > from || fill)
            HR_TRY(put_packed_u8(v + from, i + fill - from, width, out, err));
        HR_TRY(put_run(v[i], k - fill, width, out, err));
        i += k;
        from = i;
    }
    return n > from ? put_packed_u8(v + from, n - from, width, out, err) : HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ delta */

enum { DELTA_BLOCK = 128, DELTA_MINI = 32 };

static int bits_of(uint64_t v) { return v ? 64 - __builtin_clzll(v) : 0; }

/* 32 values of `width` bits. */
static void pack_mini(const uint64_t *v, int width, uint8_t *to)
{
    uint64_t word = 0;
    int fill = 0;

    for (int i = 0; i < DELTA_MINI && width; i++) {
        word |= v[i] << fill;
        fill += width;
        if (fill < 64)
            continue;
        memcpy(to, &word, 8);
        to += 8;
        fill -= 64;
        word = fill ? v[i] >> (width - fill) : 0;
    }
    memcpy(to, &word, 8); /* writes at most 8 bytes beyond the count: there is room */
}

/* One block of n <= DELTA_BLOCK differences (the rest are ignored); `narrow`: modulo 2^32. */
static hr_status delta_block(const int64_t *deltas, int n, bool narrow, hr_growbuf *out, hr_error *err)
{
    uint64_t v[DELTA_BLOCK] = { 0 };
    int64_t least = deltas[0];
    uint8_t *to, *widths;

    for (int i = 1; i < n; i++)
        least = HR_MIN(least, deltas[i]);
    for (int i = 0; i < n; i++)
        v[i] = narrow ? (uint32_t)((uint64_t)deltas[i] - (uint64_t)least) : (uint64_t)deltas[i] - (uint64_t)least;
    HR_TRY(hr__growbuf_reserve(out, 10 + 4 + DELTA_BLOCK * 8 + 16, err));
    to = tail(out);
    to += varint(zigzag(least), to);
    widths = to;
    to += DELTA_BLOCK / DELTA_MINI;
    for (int m = 0; m < DELTA_BLOCK / DELTA_MINI; m++) {
        uint64_t all = 0;

        for (int i = 0; i < DELTA_MINI; i++)
            all |= v[m * DELTA_MINI + i];
        widths[m] = m * DELTA_MINI < n ? (uint8_t)bits_of(all) : 0;
        if (m * DELTA_MINI < n) {
            pack_mini(v + m * DELTA_MINI, widths[m], to);
            to += widths[m] * DELTA_MINI / 8;
        }
    }
    out->buffer->n_bytes = to - out->buffer->data;
    return HR_OK;
}

typedef int64_t delta_get(const void *from, int64_t i);
static int64_t get_i32(const void *from, int64_t i) { return ((const int32_t *)from)[i]; }
static int64_t get_i64(const void *from, int64_t i) { return ((const int64_t *)from)[i]; }
static int64_t get_length(const void *from, int64_t i) { return ((const hr_view *)from)[i].n; }

static inline hr_status delta_stream(const void *from, int64_t n, delta_get *get, bool narrow, hr_growbuf *out,
                                     hr_error *err)
{
    uint8_t b[40];
    int k = varint(DELTA_BLOCK, b);
    int64_t deltas[DELTA_BLOCK], before = n ? get(from, 0) : 0;

    k += varint(DELTA_BLOCK / DELTA_MINI, b + k);
    k += varint((uint64_t)n, b + k);
    k += varint(zigzag(before), b + k);
    HR_TRY(hr__growbuf_add(out, b, k, err));
    for (int64_t i = 1; i < n;) {
        int m = 0;

        for (; m < DELTA_BLOCK && i < n; m++, i++) {
            int64_t x = get(from, i);

            deltas[m] = narrow ? (int32_t)((uint32_t)x - (uint32_t)before) : (int64_t)((uint64_t)x - (uint64_t)before);
            before = x;
        }
        HR_TRY(delta_block(deltas, m, narrow, out, err));
    }
    return HR_OK;
}

hr_status pw__delta(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err)
{
    const uint8_t *from = v->data + begin * v->width;

    return v->width == 4 ? delta_stream(from, n, get_i32, true, out, err)
                         : delta_stream(from, n, get_i64, false, out, err);
}

hr_status pw__delta_length(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err)
{
    const hr_view *views = v->views + begin;

    HR_TRY(delta_stream(views, n, get_length, true, out, err));
    HR_TRY(hr__growbuf_reserve(out, text_bytes(views, n), err));
    for (int64_t i = 0; i < n; i++) {
        if (views[i].n)
            memcpy(tail(out), views[i].data, (size_t)views[i].n);
        out->buffer->n_bytes += views[i].n;
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------- dictionary */

typedef struct slot {
    uint64_t key;    /* a number's bits, or the hash of bytes: most different values differ in the key already */
    uint32_t number; /* 1 + its place in the dictionary; 0: free */
} slot;

typedef struct table {
    slot *slots;
    uint64_t mask;
} table;

/* The low bits of a double are often zero, and so are the low bits of its product: the shift brings the high bits down
 * first. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ (x >> 32);
}

/* n < 8 bytes as a word. */
static uint64_t load_few(const uint8_t *p, int64_t n)
{
    if (n >= 4)
        return hr__load_le32(p) | (uint64_t)hr__load_le32(p + n - 4) << (8 * (n - 4));
    return n ? (uint64_t)p[0] | (uint64_t)p[n / 2] << (8 * (n / 2)) | (uint64_t)p[n - 1] << (8 * (n - 1)) : 0;
}

/* Byte strings of one length up to 8 have different hashes: each operation on the word is reversible. */
static uint64_t hash_bytes(const uint8_t *p, int64_t n)
{
    uint64_t h = (uint64_t)n * 0x9e3779b97f4a7c15u, word;

    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    h = (h ^ load_few(p, n)) * 0xff51afd7ed558ccdu;
    return h ^ (h >> 29);
}

static inline uint64_t load_value(const pw_values *v, int64_t i)
{
    uint64_t x = 0;

    if (v->width == 8)
        memcpy(&x, v->data + 8 * i, 8);
    else if (v->width == 4)
        memcpy(&x, v->data + 4 * i, 4);
    return x;
}

static hr_view value_bytes(const pw_values *v, int64_t i)
{
    return v->views ? v->views[i] : (hr_view){ v->data + i * v->width, v->width };
}

static uint64_t place_of(uint64_t key, bool is_word) { return is_word ? mix(key) : key; }

static hr_status table_grow(table *t, bool is_word, hr_account *a, hr_error *err)
{
    uint64_t n_old = t->mask ? t->mask + 1 : 0, n = n_old ? n_old * 4 : 1024;
    slot *slots = hr__zalloc(a, n * sizeof *slots);

    if (!slots)
        return hr__error_memory(err, "dictionary", (int64_t)(n * sizeof *slots));
    for (uint64_t i = 0; i < n_old; i++) {
        uint64_t at = place_of(t->slots[i].key, is_word);

        if (!t->slots[i].number)
            continue;
        while (slots[at & (n - 1)].number)
            at++;
        slots[at & (n - 1)] = t->slots[i];
    }
    hr__free(t->slots);
    t->slots = slots;
    t->mask = n - 1;
    return HR_OK;
}

static hr_status add_unique(pw_dict *d, const pw_values *v, int64_t i, hr_account *a, hr_error *err)
{
    if (!hr__grow(a, (void **)&d->uniques, &d->cap_uniques, d->n_uniques + 1, sizeof *d->uniques))
        return hr__error_memory(err, "dictionary", d->n_uniques * 8);
    d->uniques[d->n_uniques++] = i;
    d->bytes += v->views ? 4 + v->views[i].n : v->width;
    return HR_OK;
}

/* Columns that have mostly different values are given up early: when nearly all of the last LOOK_EVERY values are new,
 * and when most of all values are, after LOOK_LONG. */
#define LOOK_EVERY 4096
#define LOOK_LONG (16 * LOOK_EVERY)

static bool is_mostly_new(const pw_dict *d, int64_t seen) { return d->n_uniques > seen / 2; }

static bool is_hopeless(const pw_dict *d, int64_t n_before, int64_t seen)
{
    return d->n_uniques - n_before > LOOK_EVERY / 16 * 15 || (seen >= LOOK_LONG && is_mostly_new(d, seen));
}

/* Compares texts of more than 8 bytes that have the same hash. */
static inline bool same_bytes(const uint8_t *a, const uint8_t *b, int64_t n)
{
    uint64_t x[4];

    if (n > 16)
        return memcmp(a, b, (size_t)n) == 0;
    memcpy(&x[0], a, 8);
    memcpy(&x[1], b, 8);
    memcpy(&x[2], a + n - 8, 8);
    memcpy(&x[3], b + n - 8, 8);
    return ((x[0] ^ x[1]) | (x[2] ^ x[3])) == 0;
}

/* The slot of the value, or the free slot where it belongs. */
static inline slot *find(const table *t, const pw_values *v, const pw_dict *d, bool is_word, uint64_t key,
                         hr_view bytes)
{
    for (uint64_t at = place_of(key, is_word);; at++) {
        slot *s = &t->slots[at & t->mask];

        if (!s->number || (is_word && s->key == key))
            return s;
        if (!is_word && s->key == key) {
            hr_view old = value_bytes(v, d->uniques[s->number - 1]);

            if (old.n == bytes.n && (old.n <= 8 || same_bytes(old.data, bytes.data, old.n)))
                return s;
        }
    }
}

static inline hr_status dict_fill(const pw_values *v, int64_t max_bytes, bool is_word, hr_account *a, table *t,
                                  pw_dict *d, bool *found, hr_error *err)
{
    int64_t n_before = 0; /* uniques at the last look */

    for (int64_t i = 0; i < v->n; i++) {
        hr_view bytes = is_word ? (hr_view){ 0 } : value_bytes(v, i);
        uint64_t key = is_word ? load_value(v, i) : hash_bytes(bytes.data, bytes.n);
        slot *s;

        if ((i & (LOOK_EVERY - 1)) == 0) {
            if (is_hopeless(d, n_before, i))
                return HR_OK;
            n_before = d->n_uniques;
        }
        if (d->n_uniques * 2 >= (int64_t)t->mask)
            HR_TRY(table_grow(t, is_word, a, err));
        s = find(t, v, d, is_word, key, bytes);
        if (!s->number) {
            HR_TRY(add_unique(d, v, i, a, err));
            if (d->bytes > max_bytes)
                return HR_OK;
            *s = (slot){ key, (uint32_t)d->n_uniques };
        }
        d->codes[i] = s->number - 1;
    }
    *found = true;
    return HR_OK;
}

/* Numbers of a small range need no hashing: a table of their whole range. */
#define RANGE_MOST (1 << 20)

static bool int_range(const pw_values *v, int64_t *least, int64_t *range)
{
    int64_t low = INT64_MAX, high = INT64_MIN;

    if (v->physical == PQ_INT32) {
        const int32_t *p = (const int32_t *)(const void *)v->data;
        int32_t a = INT32_MAX, b = INT32_MIN;

        for (int64_t i = 0; i < v->n; i++) {
            a = HR_MIN(a, p[i]);
            b = HR_MAX(b, p[i]);
        }
        low = a;
        high = b;
    } else if (v->physical == PQ_INT64) {
        const int64_t *p = (const int64_t *)(const void *)v->data;

        for (int64_t i = 0; i < v->n; i++) {
            low = HR_MIN(low, p[i]);
            high = HR_MAX(high, p[i]);
        }
    } else
        return false;
    *least = low;
    return v->n > 0 && !__builtin_sub_overflow(high, low, range) && *range < RANGE_MOST && *range < 4 * v->n + 1024;
}

static hr_status range_fill(const pw_values *v, int64_t least, int64_t range, int64_t max_bytes, hr_account *a,
                            pw_dict *d, bool *found, hr_error *err)
{
    uint32_t *codes = hr__zalloc(a, ((size_t)range + 1) * sizeof *codes), *out = d->codes;
    const int32_t *narrow = (const int32_t *)(const void *)v->data;
    const int64_t *wide = (const int64_t *)(const void *)v->data;
    hr_status st = HR_OK;

    if (!codes)
        return hr__error_memory(err, "dictionary", range * 4);
    for (int64_t i = 0; i < v->n; i++) {
        uint32_t *slot = &codes[v->width == 4 ? (int64_t)narrow[i] - least : wide[i] - least];

        if (*slot == 0) {
            if (is_mostly_new(d, i + LOOK_LONG))
                goto done;
            HR_GO(add_unique(d, v, i, a, err));
            if (d->bytes > max_bytes)
                goto done;
            *slot = (uint32_t)d->n_uniques;
        }
        out[i] = *slot - 1;
    }
    *found = true;
done:
    hr__free(codes);
    return st;
}

hr_status pw__dict_make(const pw_values *v, int64_t max_bytes, const hr_mem *mem, pw_dict *out, bool *found,
                        hr_error *err)
{
    hr_account *a = mem->account;
    int64_t least, range;
    table t = { 0 };
    hr_status st;

    *found = false;
    *out = (pw_dict){ 0 };
    HR_TRY(hr__buffer_new(mem, (v->n + 1) * (int64_t)sizeof(uint32_t), &out->memory, err));
    out->codes = (uint32_t *)(void *)out->memory->data;
    if (int_range(v, &least, &range))
        st = range_fill(v, least, range, max_bytes, a, out, found, err);
    else if (!v->views && (v->width == 4 || v->width == 8))
        st = dict_fill(v, max_bytes, true, a, &t, out, found, err);
    else
        st = dict_fill(v, max_bytes, false, a, &t, out, found, err);
    hr__free(t.slots);
    if (st || !*found)
        pw__dict_clear(out);
    return st;
}

void pw__dict_clear(pw_dict *d)
{
    hr__buffer_unref(d->memory);
    hr__free(d->uniques);
    *d = (pw_dict){ 0 };
}
