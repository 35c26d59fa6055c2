/* pick.c - rows of several arrays, in any order, as one new array.
 *
 * As `take`, but from many arrays, which need no copy into one: the windows of a shuffle. A *pick* of 32 bits names an
 * array and a row. The code works by column, by width, and reads the bytes once, as gather.c; nested columns become
 * ranges and go there. Several columns of numbers go by rows instead (pick_rows.c).
 *
 * Random rows of much data are cache misses. A CPU that gathers eight values at once (AVX-512) has more of the loads in
 * flight, while the data are not too far. Otherwise the code prefetches some rows ahead, unless the data are small.
 * Data that fit the second-level cache are read from front to back first if enough of their rows are picked: that loads
 * the cache several times faster than scattered rows would. */
#include "data/pick/pick.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512vl,avx512dq")))
#endif

#define AHEAD 48               /* rows by which the prefetch is ahead */
#define FAR_BYTES (512 << 10)  /* larger data are prefetched */
#define WARM_BYTES (2 << 20)   /* the second-level cache of today's CPUs */
#define GATHER_BYTES (4 << 20) /* up to here a gather is faster; beyond it, a prefetch */
#define LINE_BYTES 64
#define NEAR_ENOUGH (32 << 10) /* less data than this get into the cache soon enough */
#define SPARE 4 /* a part of the rows: if more than that stays unpicked, laying all rows out does not pay */

typedef struct picking {
    const hr_mem *mem;
    hr_type *type;
    hr_array *const *parts;
    int n_parts;
    const uint32_t *picks;
    int64_t n;
} picking;

static hr_status pick_array(const picking *p, hr_array **out, hr_error *err);

/* Reads data ahead, see the head of this file: the parts have n_bytes together, `width` a row, part i's at bases[i]. */
static void warm(const picking *p, int64_t n_bytes, const uint8_t *const *bases, int64_t width)
{
    unsigned sum = 0;

    if (n_bytes < NEAR_ENOUGH || n_bytes > WARM_BYTES || p->n < n_bytes / LINE_BYTES / 2)
        return;
    for (int i = 0; i < p->n_parts; i++)
        for (int64_t at = 0; at < p->parts[i]->length * width; at += LINE_BYTES)
            sum += bases[i][at];
    __asm__ volatile("" : : "r"(sum)); /* keeps the compiler from dropping the reads */
}

/* Room for an entry of `bytes` for each of n_parts parts. */
static hr_status new_bases(const picking *p, size_t bytes, void **out, hr_error *err)
{
    *out = hr__alloc(p->mem->account, (size_t)p->n_parts * bytes);
    return *out ? HR_OK : hr__error_memory(err, "pick", p->n_parts * (int64_t)bytes);
}

static hr_status new_values(const picking *p, int64_t n, int64_t item_bytes, hr_buffer **out, hr_error *err)
{
    int64_t n_bytes = 0;

    if (__builtin_mul_overflow(n, item_bytes, &n_bytes))
        return hr__error_memory(err, "pick", INT64_MAX);
    return hr__buffer_new(p->mem, n_bytes, out, err);
}

/* ------------------------------------------------------------------------------------------------------------- bits */

typedef struct bit_base {
    const uint8_t *bits; /* NULL: all true */
    int64_t offset;
} bit_base;

static hr_status pick_bits(const picking *p, const bit_base *bases, hr_buffer **out, hr_error *err)
{
    const uint32_t *picks = p->picks;
    uint8_t *to;

    HR_TRY(new_values(p, hr__bits_bytes(p->n), 1, out, err));
    to = (*out)->data;
    for (int64_t i = 0; i < p->n; i += 8) {
        int64_t n = HR_MIN(p->n - i, 8);
        unsigned byte = 0;

        for (int64_t k = 0; k < n; k++) {
            const bit_base *b = &bases[part_of(picks[i + k])];

            byte |= (unsigned)(!b->bits || hr__bit(b->bits, b->offset + row_of(picks[i + k]))) << k;
        }
        to[i >> 3] = (uint8_t)byte;
    }
    return HR_OK;
}

/* *out stays NULL if no row is null. */
static hr_status pick_validity(const picking *p, hr_buffer **out, int64_t *n_null, hr_error *err)
{
    hr_status st = HR_OK;
    bit_base *bases = NULL;
    bool any = false;

    *n_null = 0;
    for (int i = 0; i < p->n_parts; i++)
        any = any || may_be_null(p->parts[i]);
    if (!any)
        return HR_OK;
    HR_GO(new_bases(p, sizeof *bases, (void **)&bases, err));
    for (int i = 0; i < p->n_parts; i++)
        bases[i] = (bit_base){ may_be_null(p->parts[i]) ? p->parts[i]->buffers[0]->data : NULL, p->parts[i]->offset };
    HR_GO(pick_bits(p, bases, out, err));
    *n_null = p->n - hr__bits_count((*out)->data, 0, p->n);
    if (*n_null == 0) {
        hr__buffer_unref(*out);
        *out = NULL;
    }
done:
    hr__free(bases);
    return st;
}

static hr_status pick_bools(const picking *p, hr_buffer **out, hr_error *err)
{
    hr_status st = HR_OK;
    bit_base *bases = NULL;

    HR_GO(new_bases(p, sizeof *bases, (void **)&bases, err));
    for (int i = 0; i < p->n_parts; i++)
        bases[i] = (bit_base){ p->parts[i]->buffers[1] ? p->parts[i]->buffers[1]->data : NULL, p->parts[i]->offset };
    st = pick_bits(p, bases, out, err);
done:
    hr__free(bases);
    return st;
}

/* ------------------------------------------------------------------------------------------------------ fixed width */

typedef struct bytes16 {
    uint64_t a[2];
} bytes16;
typedef struct bytes32 {
    uint64_t a[4];
} bytes32;

#define PICK_LOOP(name, value_type)                                                                                    \
    static void name(uint8_t *to, const uint8_t *const *bases, const uint32_t *picks, int64_t n, bool far)             \
    {                                                                                                                  \
        const int64_t width = sizeof(value_type);                                                                      \
        value_type v;                                                                                                  \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        for (; far && i < n - AHEAD; i++) {                                                                            \
            __builtin_prefetch(bases[part_of(picks[i + AHEAD])] + row_of(picks[i + AHEAD]) * width);                   \
            memcpy(&v, bases[part_of(picks[i])] + row_of(picks[i]) * width, sizeof v);                                 \
            memcpy(to + i * width, &v, sizeof v);                                                                      \
        }                                                                                                              \
        for (; i < n; i++) {                                                                                           \
            memcpy(&v, bases[part_of(picks[i])] + row_of(picks[i]) * width, sizeof v);                                 \
            memcpy(to + i * width, &v, sizeof v);                                                                      \
        }                                                                                                              \
    }
PICK_LOOP(pick_1, uint8_t)
PICK_LOOP(pick_2, uint16_t)
PICK_LOOP(pick_4, uint32_t)
PICK_LOOP(pick_8, uint64_t)
PICK_LOOP(pick_16, bytes16)
PICK_LOOP(pick_32, bytes32)
#undef PICK_LOOP

#if HAVE_X86
enum { TABLE = 16 }; /* the bases of 16 parts lie in two registers */

typedef struct base_table {
    const uint8_t *const *bases;
    __m512i low, high;
    bool all; /* of the existing parts */
} base_table;

AVX512 static base_table table_of(const uint8_t *const *bases, int n_parts)
{
    unsigned has = n_parts >= TABLE ? (1u << TABLE) - 1 : (1u << n_parts) - 1;

    return (base_table){ .bases = bases,
                         .low = _mm512_maskz_loadu_epi64((__mmask8)has, bases),
                         .high = _mm512_maskz_loadu_epi64((__mmask8)(has >> 8), bases + (n_parts > 8 ? 8 : 0)),
                         .all = n_parts <= TABLE };
}

/* The addresses of the values of eight picks, of 2^log bytes each. */
AVX512 static inline __m512i places_of(const base_table *t, const uint32_t *picks, unsigned log)
{
    __m512i pick = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(const void *)picks));
    __m512i part = _mm512_srli_epi64(pick, HR_PICK_BITS);
    __m512i row = _mm512_and_si512(pick, _mm512_set1_epi64(HR_PICK_ROWS - 1));
    __m512i base =
        t->all ? _mm512_permutex2var_epi64(t->low, part, t->high) : _mm512_i64gather_epi64(part, t->bases, 8);

    return _mm512_add_epi64(base, _mm512_slli_epi64(row, log));
}

AVX512 static void pick_4_avx512(uint8_t *to, const uint8_t *const *bases, int n_parts, const uint32_t *picks,
                                 int64_t n)
{
    base_table t = table_of(bases, n_parts);
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_si256((__m256i *)(void *)(to + 4 * i),
                            _mm512_i64gather_epi32(places_of(&t, picks + i, 2), NULL, 1));
    pick_4(to + 4 * i, bases, picks + i, n - i, false);
}

AVX512 static void pick_8_avx512(uint8_t *to, const uint8_t *const *bases, int n_parts, const uint32_t *picks,
                                 int64_t n)
{
    base_table t = table_of(bases, n_parts);
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm512_storeu_si512(to + 8 * i, _mm512_i64gather_epi64(places_of(&t, picks + i, 3), NULL, 1));
    pick_8(to + 8 * i, bases, picks + i, n - i, false);
}
#endif

typedef void pick_fn(uint8_t *to, const uint8_t *const *bases, const uint32_t *picks, int64_t n, bool far);
typedef void gather_fn(uint8_t *to, const uint8_t *const *bases, int n_parts, const uint32_t *picks, int64_t n);

static const struct {
    int64_t width;
    pick_fn *run;
    gather_fn *gather; /* with HR_CPU_AVX512; NULL: none */
} pick_loops[] = {
    { 1, pick_1, NULL },          { 2, pick_2, NULL },
#if HAVE_X86
    { 4, pick_4, pick_4_avx512 }, { 8, pick_8, pick_8_avx512 },
#else
    { 4, pick_4, NULL },   { 8, pick_8, NULL },
#endif
    { 16, pick_16, NULL },        { 32, pick_32, NULL },
};

static void pick_any_width(uint8_t *to, const uint8_t *const *bases, const picking *p, int64_t width)
{
    for (int64_t i = 0; i < p->n; i++)
        memcpy(to + i * width, bases[part_of(p->picks[i])] + row_of(p->picks[i]) * width, (size_t)width);
}

/* Values of `width` bytes, part i's first at bases[i]. */
static hr_status pick_fixed(const picking *p, const uint8_t *const *bases, int64_t width, hr_buffer **out,
                            hr_error *err)
{
    int64_t n_rows = 0;
    int k = 0;

    HR_TRY(new_values(p, p->n, width, out, err));
    while (k < HR_LEN(pick_loops) && pick_loops[k].width != width)
        k++;
    for (int i = 0; i < p->n_parts; i++)
        n_rows += p->parts[i]->length;
    if (k < HR_LEN(pick_loops) && pick_loops[k].gather && n_rows * width <= GATHER_BYTES &&
        hr__cpu_features() & HR_CPU_AVX512) {
        pick_loops[k].gather((*out)->data, bases, p->n_parts, p->picks, p->n);
        return HR_OK;
    }
    warm(p, n_rows * width, bases, width);
    if (k < HR_LEN(pick_loops))
        pick_loops[k].run((*out)->data, bases, p->picks, p->n, n_rows >= FAR_BYTES / width);
    else if (width)
        pick_any_width((*out)->data, bases, p, width);
    return HR_OK;
}

static hr_status pick_numbers(const picking *p, hr_buffer **out, hr_error *err)
{
    hr_status st = HR_OK;
    const uint8_t **bases = NULL;

    HR_GO(new_bases(p, sizeof *bases, (void **)&bases, err));
    for (int i = 0; i < p->n_parts; i++)
        bases[i] = hr__array_values(p->parts[i]);
    st = pick_fixed(p, bases, hr__type_bytes(p->type), out, err);
done:
    hr__free(bases);
    return st;
}

/* --------------------------------------------------------------------------------------------------- text and bytes */

typedef struct text_base {
    const void *offsets; /* of row 0 */
    const uint8_t *bytes, *end;
} text_base;

static text_base text_base_of(const hr_array *a)
{
    int width = hr__type_offset_bytes(a->type);

    if (a->length == 0 || !a->buffers[1])
        return (text_base){ NULL, NULL, NULL };
    return (text_base){ .offsets = a->buffers[1]->data + a->offset * width,
                        .bytes = a->buffers[2] ? a->buffers[2]->data : NULL,
                        .end = a->buffers[2] ? a->buffers[2]->data + a->buffers[2]->n_bytes : NULL };
}

/* Computes the offsets only; prefetches the bytes. `room` has space for p->n pointers. */
static void warm_text(const picking *p, const text_base *bases, const uint8_t **room)
{
    int width = hr__type_offset_bytes(p->type);
    int64_t n_rows = 0;

    for (int i = 0; i < p->n_parts; i++)
        n_rows += p->parts[i]->length;
    if (p->n_parts > p->n)
        return;
    for (int i = 0; i < p->n_parts; i++)
        room[i] = bases[i].offsets;
    warm(p, n_rows * width, room, width);
}

/* Computes the new offsets, and where each row's bytes begin. -> the number of all bytes. */
#define TEXT_LOOP(name, offset_type)                                                                                   \
    static int64_t name(const picking *p, const text_base *bases, offset_type *to, const uint8_t **from)               \
    {                                                                                                                  \
        const uint32_t *picks = p->picks;                                                                              \
        int64_t at = 0;                                                                                                \
                                                                                                                       \
        for (int64_t i = 0; i < p->n; i++) {                                                                           \
            const text_base *b = &bases[part_of(picks[i])];                                                            \
            const offset_type *row = (const offset_type *)b->offsets + row_of(picks[i]);                               \
                                                                                                                       \
            if (i + AHEAD < p->n)                                                                                      \
                __builtin_prefetch((const offset_type *)bases[part_of(picks[i + AHEAD])].offsets +                     \
                                   row_of(picks[i + AHEAD]));                                                          \
            from[i] = b->bytes + row[0];                                                                               \
            to[i] = (offset_type)at;                                                                                   \
            at += row[1] - row[0];                                                                                     \
        }                                                                                                              \
        to[p->n] = (offset_type)at;                                                                                    \
        return at;                                                                                                     \
    }
TEXT_LOOP(text_32, int32_t)
TEXT_LOOP(text_64, int64_t)
#undef TEXT_LOOP

static hr_status too_long(const hr_type *type, int64_t n_bytes, hr_error *err)
{
    return hr_error_set(
        err, HR_BUDGET,
        "%lld bytes together exceed the 2 GiB that 32-bit offsets reach, in a column of type %s: use large_%s",
        (long long)n_bytes, type->id == HR_T_STRING ? "string" : "binary",
        type->id == HR_T_STRING ? "string" : "binary");
}

static void copy_text(const picking *p, const text_base *bases, const uint8_t *const *from, hr_buffer *const *buffers)
{
    int width = hr__type_offset_bytes(p->type);
    const int32_t *at32 = (const int32_t *)(const void *)buffers[1]->data;
    const int64_t *at64 = (const int64_t *)(const void *)buffers[1]->data;
    uint8_t *to = buffers[2]->data, *to_end = to + buffers[2]->n_bytes;

    for (int64_t i = 0; i < p->n; i++) {
        int64_t n = width == 4 ? at32[i + 1] - at32[i] : at64[i + 1] - at64[i];

        if (i + AHEAD < p->n)
            __builtin_prefetch(from[i + AHEAD]);
        if (n <= NEAR_BYTES && to_end - to >= NEAR_BYTES && bases[part_of(p->picks[i])].end - from[i] >= NEAR_BYTES)
            memcpy(to, from[i], NEAR_BYTES);
        else if (n)
            memcpy(to, from[i], (size_t)n);
        to += n;
    }
}

static hr_status pick_text(const picking *p, hr_buffer *buffers[3], hr_error *err)
{
    hr_status st = HR_OK;
    int width = hr__type_offset_bytes(p->type);
    text_base *bases = NULL;
    const uint8_t **from = hr__alloc(p->mem->account, (size_t)p->n * sizeof *from);
    int64_t total;

    if (!from)
        HR_GO(hr__error_memory(err, "pick", p->n * (int64_t)sizeof *from));
    HR_GO(new_bases(p, sizeof *bases, (void **)&bases, err));
    for (int i = 0; i < p->n_parts; i++)
        bases[i] = text_base_of(p->parts[i]);
    warm_text(p, bases, from);
    HR_GO(new_values(p, p->n + 1, width, &buffers[1], err));
    total = width == 4 ? text_32(p, bases, (int32_t *)(void *)buffers[1]->data, from)
                       : text_64(p, bases, (int64_t *)(void *)buffers[1]->data, from);
    if (width == 4 && total > INT32_MAX)
        HR_GO(too_long(p->type, total, err));
    HR_GO(hr__buffer_new(p->mem, total, &buffers[2], err));
    if (total)
        copy_text(p, bases, from, buffers);
done:
    hr__free(bases);
    hr__free(from);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- nested */

/* Structs: picks the same rows of the children. */
static hr_status pick_members(const picking *p, hr_array **children, hr_error *err)
{
    hr_status st = HR_OK;
    hr_array **sliced = hr__zalloc(p->mem->account, (size_t)p->n_parts * sizeof(hr_array *));

    if (!sliced)
        return hr__error_memory(err, "pick", p->n_parts * (int64_t)sizeof(hr_array *));
    for (int k = 0; k < p->type->n_children; k++) {
        picking inner = *p;

        for (int i = 0; i < p->n_parts; i++) {
            const hr_array *a = p->parts[i];

            hr__array_unref(sliced[i]);
            sliced[i] = NULL;
            HR_GO(hr__array_slice(a->children[k], a->offset, a->length, &sliced[i], err));
        }
        inner.type = p->type->children[k].type;
        inner.parts = sliced;
        HR_GO(pick_array(&inner, &children[k], err));
    }
done:
    for (int i = 0; i < p->n_parts; i++)
        hr__array_unref(sliced[i]);
    hr__free(sliced);
    return st;
}

/* Fixed lists of plain numbers, an image or an embedding a row, are values of width * value bytes. */
static bool are_wide_values(const picking *p)
{
    if (!hr__type_is_fixed_list(p->type) || hr__type_bytes(p->type->children[0].type) == 0)
        return false;
    for (int i = 0; i < p->n_parts; i++)
        if (p->parts[i]->length && (!p->parts[i]->children[0]->buffers[1] || may_be_null(p->parts[i]->children[0])))
            return false;
    return true;
}

static hr_status pick_wide(const picking *p, hr_array **child, hr_error *err)
{
    hr_status st = HR_OK;
    hr_type *value = p->type->children[0].type;
    int64_t value_bytes = hr__type_bytes(value), width = p->type->width, n_values = 0;
    hr_buffer *buffers[3] = { NULL };
    const uint8_t **bases = NULL;

    if (__builtin_mul_overflow(p->n, width, &n_values))
        return hr__error_memory(err, "pick", INT64_MAX);
    HR_GO(new_bases(p, sizeof *bases, (void **)&bases, err));
    for (int i = 0; i < p->n_parts; i++) {
        const hr_array *a = p->parts[i], *values = a->children[0];

        bases[i] = a->length ? values->buffers[1]->data + (values->offset + a->offset * width) * value_bytes : NULL;
    }
    HR_GO(pick_fixed(p, bases, width * value_bytes, &buffers[1], err));
    st = hr__array_new(value, n_values, 0, buffers, NULL, 0, child, err);
done:
    hr__free(bases);
    return st;
}

/* Lists, maps and other fixed lists: gathers the child by ranges. Lists and maps get offsets in buffers[1]. */
static hr_status pick_lists(const picking *p, hr_buffer *buffers[3], hr_array **child, hr_error *err)
{
    hr_status st = HR_OK;
    int width = hr__type_offset_bytes(p->type);
    int64_t n_spans = 0, at = 0;
    hr_span *spans = hr__alloc(p->mem->account, (size_t)p->n * sizeof *spans);

    if (!spans)
        HR_GO(hr__error_memory(err, "pick", p->n * (int64_t)sizeof *spans));
    if (width)
        HR_GO(new_values(p, p->n + 1, width, &buffers[1], err));
    for (int64_t i = 0; i <= p->n; i++) {
        const hr_array *a = i < p->n ? p->parts[part_of(p->picks[i])] : NULL;
        hr_span s = { .n = 0 };

        if (width == 4)
            ((int32_t *)(void *)buffers[1]->data)[i] = (int32_t)at;
        else if (width)
            ((int64_t *)(void *)buffers[1]->data)[i] = at;
        if (!a)
            break;
        hr__array_range(a, row_of(p->picks[i]), &s.begin, &s.n);
        s.array = a->children[0];
        at += s.n;
        if (s.n)
            spans[n_spans++] = s;
    }
    if (width == 4 && at > INT32_MAX)
        HR_FAIL(HR_BUDGET,
                "%lld values together exceed the 2 Gi that 32-bit offsets reach, in a column of lists: use large_list",
                (long long)at);
    st = hr__array_gather(p->mem, p->type->children[0].type, spans, n_spans, child, err);
done:
    hr__free(spans);
    return st;
}

static hr_status pick_nested(const picking *p, hr_buffer *buffers[3], int64_t n_null, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    int n = p->type->n_children;
    hr_array **children = hr__zalloc(p->mem->account, ((size_t)n + 1) * sizeof(hr_array *));

    if (!children)
        return hr__error_memory(err, "pick", n * (int64_t)sizeof(hr_array *));
    if (p->type->id == HR_T_STRUCT)
        HR_GO(pick_members(p, children, err));
    else if (are_wide_values(p))
        HR_GO(pick_wide(p, &children[0], err));
    else
        HR_GO(pick_lists(p, buffers, &children[0], err));
    st = hr__array_new(p->type, p->n, n_null, buffers, children, n, out, err);
    memset(children, 0, (size_t)n * sizeof(hr_array *)); /* the call took both */
    buffers[0] = buffers[1] = buffers[2] = NULL;
done:
    for (int i = 0; i < n; i++)
        hr__array_unref(children[i]);
    hr__free(children);
    return st;
}

/* --------------------------------------------------------------------------------------------------- arrays, tables */

static hr_status pick_array(const picking *p, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL };
    int64_t n_null = 0;

    if (p->type->id == HR_T_NULL)
        return hr__array_new(p->type, p->n, p->n, buffers, NULL, 0, out, err);
    HR_GO(pick_validity(p, &buffers[0], &n_null, err));
    if (p->type->n_children || p->type->id == HR_T_STRUCT) {
        HR_GO(pick_nested(p, buffers, n_null, out, err));
        goto done;
    }
    if (hr__type_is_bytes(p->type))
        HR_GO(pick_text(p, buffers, err));
    else if (p->type->id == HR_T_BOOL)
        HR_GO(pick_bools(p, &buffers[1], err));
    else
        HR_GO(pick_numbers(p, &buffers[1], err));
    st = hr__array_new(p->type, p->n, n_null, buffers, NULL, 0, out, err);
    buffers[0] = buffers[1] = buffers[2] = NULL;
done:
    for (int i = 0; i < HR_LEN(buffers); i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

#define CHECK_PICKS(name, part_type, rows)                                                                             \
    static hr_status name(part_type *const *parts, int n_parts, const uint32_t *picks, int64_t n, hr_error *err)       \
    {                                                                                                                  \
        if (n_parts < 0 || n_parts > HR_PICK_PARTS)                                                                    \
            return hr_error_set(err, HR_BUG, "pick: %d parts, expected at most %d", n_parts, HR_PICK_PARTS);           \
        for (int64_t i = 0; i < n; i++)                                                                                \
            if (part_of(picks[i]) >= (uint32_t)n_parts || row_of(picks[i]) >= parts[part_of(picks[i])]->rows)          \
                return hr_error_set(err, HR_BUG, "pick: row %lld of part %u of %d", (long long)row_of(picks[i]),       \
                                    part_of(picks[i]), n_parts);                                                       \
        return HR_OK;                                                                                                  \
    }
CHECK_PICKS(check_picks, hr_array, length)
CHECK_PICKS(check_rows, hr_table, n_rows)
#undef CHECK_PICKS

hr_status hr__array_pick(const hr_mem *mem, hr_type *type, hr_array *const *parts, int n_parts, const uint32_t *picks,
                         int64_t n, hr_array **out, hr_error *err)
{
    static const hr_mem root_mem;
    picking p = { mem ? mem : &root_mem, type, parts, n_parts, picks, n };

    *out = NULL;
    HR_TRY(check_picks(parts, n_parts, picks, n, err));
    return pick_array(&p, out, err);
}

hr_status hr__pick_columns(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts, int64_t n,
                           const hr_picked_rows *rows, hr_origin *origin, hr_pick_column_fn *fn, void *context,
                           hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_array **arrays = hr__alloc(mem->account, ((size_t)n_parts + 1) * sizeof(hr_array *));
    hr_array **columns = hr__zalloc(mem->account, ((size_t)schema->n + 1) * sizeof(hr_array *));

    *out = NULL;
    if (!arrays || !columns)
        HR_GO(hr__error_memory(err, "pick", (n_parts + schema->n) * (int64_t)sizeof(hr_array *)));
    if (rows)
        HR_GO(hr__pick_rows(mem, schema, parts, n_parts, rows, columns, err));
    for (int k = 0; k < schema->n; k++) {
        if (columns[k])
            continue;
        for (int i = 0; i < n_parts; i++)
            arrays[i] = parts[i]->columns[k];
        st = fn(context, schema->fields[k].type, arrays, &columns[k], err);
        if (st) {
            st = hr__error_at(err, st, "column '%s'", schema->fields[k].name);
            goto done;
        }
    }
    st = hr__table_new(schema, columns, n, origin, out, err);
    memset(columns, 0, (size_t)schema->n * sizeof(hr_array *)); /* taken */
    if (!st)
        (*out)->sole = true;
done:
    for (int k = 0; columns && k < schema->n; k++)
        hr__array_unref(columns[k]);
    hr__free(columns);
    hr__free(arrays);
    return st;
}

static hr_status pick_column(void *context, hr_type *type, hr_array *const *parts, hr_array **out, hr_error *err)
{
    picking *p = context;

    p->type = type;
    p->parts = parts;
    return pick_array(p, out, err);
}

/* All rows of the parts, and where among them the picks are. */
static hr_status rows_of_parts(const picking *p, hr_table *const *parts, hr_picked_rows *out, hr_error *err)
{
    hr_stretch *stretches = hr__alloc(p->mem->account, (size_t)p->n_parts * sizeof *stretches);
    uint32_t *places = hr__alloc(p->mem->account, (size_t)p->n * sizeof *places), *begins = NULL, at = 0;

    *out = (hr_picked_rows){ stretches, p->n_parts, 0, places, p->n };
    begins = hr__alloc(p->mem->account, (size_t)p->n_parts * sizeof *begins);
    if (!stretches || !places || !begins) {
        hr__free(begins);
        return hr__error_memory(err, "pick", p->n * (int64_t)sizeof *places);
    }
    for (int i = 0; i < p->n_parts; i++) {
        stretches[i] = (hr_stretch){ (uint32_t)i << HR_PICK_BITS, (uint32_t)parts[i]->n_rows };
        begins[i] = at;
        at += (uint32_t)parts[i]->n_rows;
    }
    for (int64_t i = 0; i < p->n; i++)
        places[i] = begins[part_of(p->picks[i])] + (uint32_t)row_of(p->picks[i]);
    out->n_from = at;
    hr__free(begins);
    return HR_OK;
}

/* The rows of the parts, of which a pick reaches the first HR_PICK_ROWS; -1: a part has more. */
static int64_t rows_in_reach(hr_table *const *parts, int n_parts)
{
    int64_t n = 0;

    for (int i = 0; i < n_parts; i++) {
        if (parts[i]->n_rows > HR_PICK_ROWS)
            return -1;
        n += parts[i]->n_rows;
    }
    return n;
}

hr_status hr__table_pick(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts,
                         const uint32_t *picks, int64_t n, hr_origin *origin, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    picking p = { mem, NULL, NULL, n_parts, picks, n };
    int64_t n_from = rows_in_reach(parts, n_parts);
    bool by_rows = n_from >= 0 && n_from <= n + n / SPARE && hr__goes_by_rows(mem, schema, parts, n_parts, n, n_from);
    hr_picked_rows rows = { 0 };

    *out = NULL;
    HR_TRY(check_rows(parts, n_parts, picks, n, err));
    if (by_rows)
        HR_GO(rows_of_parts(&p, parts, &rows, err));
    st = hr__pick_columns(mem, schema, parts, n_parts, n, by_rows ? &rows : NULL, origin, pick_column, &p, out, err);
done:
    hr__free((void *)rows.stretches);
    hr__free((void *)rows.places);
    return st;
}
