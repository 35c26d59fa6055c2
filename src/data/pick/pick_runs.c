/* pick_runs.c - rows of several arrays in two steps: copies runs of rows together, then takes the rows one by one.
 *
 * For rows that are far apart, pick.c costs a cache miss a value and, from some megabytes on, a walk through the page
 * tables. An order in which rows come in runs (a shuffle's first layer moves 16 neighbours at a time) allows better:
 * the code copies the runs into a room that fits the second-level cache, and takes the values from there in any order.
 * That is twice the copies at a fraction of the waiting time. Several columns of numbers do both steps by rows
 * (pick_rows.c).
 *
 * It works by column. Numbers and text without nulls take this way; all other columns take that of pick.c. */
#include "data/pick/pick.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512vl,avx512dq")))
#endif

#define RUN_ROWS 16
#define AHEAD 16     /* runs by which the prefetch is ahead */
#define LEAST_RUNS 4 /* rows a run on average: with fewer it does not pay */

typedef struct picking {
    const hr_mem *mem;
    hr_array *const *parts;
    int n_parts;
    const hr_stretch *runs; /* of 1 to RUN_ROWS rows */
    int64_t n_runs;
    const uint32_t *picks, *order;
    int64_t n;
    uint32_t *ordered; /* the picks in their order, made at the first request */
} picking;

/* -------------------------------------------------------------------------------------------------------- stretches */

/* The number of leading picks of picks[0, n) that are consecutive rows of one part. */
static uint32_t run_rows(const uint32_t *picks, int64_t n)
{
    uint32_t first = picks[0], most = (uint32_t)HR_MIN(n, HR_MIN(RUN_ROWS, HR_PICK_ROWS - row_of(first))), k = 1;

    if (most == RUN_ROWS) {
        uint32_t differs = 0;

        for (uint32_t i = 0; i < RUN_ROWS; i++)
            differs |= picks[i] ^ (first + i);
        if (!differs)
            return RUN_ROWS;
    }
    while (k < most && picks[k] == first + k)
        k++;
    return k;
}

/* *out is new: *n runs. */
static hr_status find_runs(const hr_mem *mem, hr_table *const *parts, int n_parts, const uint32_t *picks, int64_t n,
                           hr_stretch **out, int64_t *n_runs, hr_error *err)
{
    hr_stretch *runs = hr__alloc(mem->account, (size_t)n * sizeof *runs);
    int64_t m = 0;

    *out = runs;
    if (!runs)
        return hr__error_memory(err, "pick", n * (int64_t)sizeof *runs);
    for (int64_t i = 0; i < n; i += runs[m++].n) {
        runs[m] = (hr_stretch){ picks[i], run_rows(picks + i, n - i) };
        if (part_of(picks[i]) >= (uint32_t)n_parts || row_of(picks[i]) + runs[m].n > parts[part_of(picks[i])]->n_rows)
            return hr_error_set(err, HR_BUG, "pick: rows %lld to %lld of part %u of %d", (long long)row_of(picks[i]),
                                (long long)row_of(picks[i]) + runs[m].n - 1, part_of(picks[i]), n_parts);
    }
    *n_runs = m;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- numbers */

#define NUMBER_LOOPS(bits)                                                                                             \
    static void collect_##bits(const picking *p, const uint8_t *const *bases, uint8_t *to)                             \
    {                                                                                                                  \
        const int64_t width = (bits) / 8;                                                                              \
                                                                                                                       \
        for (int64_t i = 0; i < p->n_runs; i++) {                                                                      \
            const uint8_t *from = bases[part_of(p->runs[i].pick)] + row_of(p->runs[i].pick) * width;                   \
            uint32_t next = p->runs[HR_MIN(i + AHEAD, p->n_runs - 1)].pick;                                            \
            const uint8_t *soon = bases[part_of(next)] + row_of(next) * width;                                         \
                                                                                                                       \
            __builtin_prefetch(soon);                                                                                  \
            __builtin_prefetch(soon + RUN_ROWS * ((bits) / 8) - 1);                                                    \
            if (p->runs[i].n == RUN_ROWS)                                                                              \
                memcpy(to, from, RUN_ROWS * ((bits) / 8));                                                             \
            else                                                                                                       \
                memcpy(to, from, p->runs[i].n * (size_t)width);                                                        \
            to += p->runs[i].n * width;                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void spread_##bits(const uint8_t *room, const uint32_t *order, int64_t n, uint8_t *out)                     \
    {                                                                                                                  \
        const uint##bits##_t *from = (const void *)room;                                                               \
        uint##bits##_t *to = (void *)out;                                                                              \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            to[i] = from[order[i]];                                                                                    \
    }
NUMBER_LOOPS(8)
NUMBER_LOOPS(16)
NUMBER_LOOPS(32)
NUMBER_LOOPS(64)
#undef NUMBER_LOOPS

#if HAVE_X86
AVX512 static void spread_32_avx512(const uint8_t *room, const uint32_t *order, int64_t n, uint8_t *out)
{
    int64_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_si512(out + 4 * i, _mm512_i32gather_epi32(_mm512_loadu_si512(order + i), room, 4));
    spread_32(room, order + i, n - i, out + 4 * i);
}

AVX512 static void spread_64_avx512(const uint8_t *room, const uint32_t *order, int64_t n, uint8_t *out)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm512_storeu_si512(out + 8 * i, _mm512_i32gather_epi64(
                                             _mm256_loadu_si256((const __m256i *)(const void *)(order + i)), room, 8));
    spread_64(room, order + i, n - i, out + 8 * i);
}
#endif

typedef void collect_fn(const picking *p, const uint8_t *const *bases, uint8_t *to);
typedef void spread_fn(const uint8_t *room, const uint32_t *order, int64_t n, uint8_t *out);

static const struct {
    int64_t width;
    collect_fn *collect;
    spread_fn *spread, *spread_avx512;
} number_loops[] = {
    { 1, collect_8, spread_8, spread_8 },
    { 2, collect_16, spread_16, spread_16 },
#if HAVE_X86
    { 4, collect_32, spread_32, spread_32_avx512 },
    { 8, collect_64, spread_64, spread_64_avx512 },
#else
    { 4, collect_32, spread_32, spread_32 },
    { 8, collect_64, spread_64, spread_64 },
#endif
};

/* The index of the run; -1: none. */
static int number_loop(const hr_type *type)
{
    int64_t width = type->n_children || type->id == HR_T_BOOL ? 0 : hr__type_bytes(type);

    for (int i = 0; i < HR_LEN(number_loops); i++)
        if (number_loops[i].width == width)
            return i;
    return -1;
}

static hr_status run_numbers(const picking *p, hr_type *type, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    int k = number_loop(type);
    int64_t n_bytes = p->n * number_loops[k].width;
    const uint8_t **bases = hr__alloc(p->mem->account, (size_t)p->n_parts * sizeof *bases);
    uint8_t *room = hr__alloc(p->mem->account, (size_t)n_bytes);
    hr_buffer *buffers[3] = { NULL };

    if (!bases || !room) {
        st = hr__error_memory(err, "pick", n_bytes);
        goto done;
    }
    HR_GO(hr__buffer_new(p->mem, n_bytes, &buffers[1], err));
    for (int i = 0; i < p->n_parts; i++)
        bases[i] = hr__array_values(p->parts[i]);
    number_loops[k].collect(p, bases, room);
    (hr__cpu_features() & HR_CPU_AVX512 ? number_loops[k].spread_avx512 : number_loops[k].spread)(room, p->order, p->n,
                                                                                                  buffers[1]->data);
    st = hr__array_new(type, p->n, 0, buffers, NULL, 0, out, err);
done:
    hr__free(room);
    hr__free(bases);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------- text */

/* The text of all runs, one after the other. */
typedef struct text_room {
    uint32_t *starts; /* n + 1 */
    uint8_t *bytes;   /* with NEAR_BYTES of room after them */
    int64_t n_bytes;
} text_room;

static const void *offset_place(const hr_array *a, int64_t row)
{
    return a->buffers[1]->data + (a->offset + row) * hr__type_offset_bytes(a->type);
}

static int64_t offset_at(const hr_array *a, int64_t row)
{
    const uint8_t *offsets = a->buffers[1]->data;

    return hr__type_offset_bytes(a->type) == 4 ? ((const int32_t *)(const void *)offsets)[a->offset + row]
                                               : ((const int64_t *)(const void *)offsets)[a->offset + row];
}

/* The bytes of all runs. */
static int64_t text_bytes(const picking *p)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < p->n_runs; i++) {
        const hr_array *a = p->parts[part_of(p->runs[i].pick)];
        int64_t row = row_of(p->runs[i].pick);
        uint32_t next = p->runs[HR_MIN(i + AHEAD, p->n_runs - 1)].pick;

        __builtin_prefetch(offset_place(p->parts[part_of(next)], row_of(next)));
        sum += offset_at(a, row + p->runs[i].n) - offset_at(a, row);
    }
    return sum;
}

#define TEXT_LOOP(name, offset_type)                                                                                   \
    static void name(const picking *p, const text_room *room)                                                          \
    {                                                                                                                  \
        uint32_t at = 0, *starts = room->starts;                                                                       \
                                                                                                                       \
        for (int64_t i = 0; i < p->n_runs; i++) {                                                                      \
            const hr_array *a = p->parts[part_of(p->runs[i].pick)];                                                    \
            const offset_type *from =                                                                                  \
                (const offset_type *)(const void *)a->buffers[1]->data + a->offset + row_of(p->runs[i].pick);          \
            uint32_t next = p->runs[HR_MIN(i + AHEAD, p->n_runs - 1)].pick;                                            \
            const hr_array *soon = p->parts[part_of(next)];                                                            \
            const uint8_t *soon_bytes =                                                                                \
                soon->buffers[2]->data +                                                                               \
                ((const offset_type *)(const void *)soon->buffers[1]->data)[soon->offset + row_of(next)];              \
            uint32_t n = p->runs[i].n, bytes = (uint32_t)(from[n] - from[0]), shift = at - (uint32_t)from[0];          \
                                                                                                                       \
            __builtin_prefetch(soon_bytes);                                                                            \
            __builtin_prefetch(soon_bytes + 64);                                                                       \
            if (n == RUN_ROWS)                                                                                         \
                for (uint32_t k = 0; k < RUN_ROWS; k++)                                                                \
                    starts[k] = (uint32_t)from[k] + shift;                                                             \
            else                                                                                                       \
                for (uint32_t k = 0; k < n; k++)                                                                       \
                    starts[k] = (uint32_t)from[k] + shift;                                                             \
            if (bytes)                                                                                                 \
                memcpy(room->bytes + at, a->buffers[2]->data + from[0], bytes);                                        \
            starts += n;                                                                                               \
            at += bytes;                                                                                               \
        }                                                                                                              \
        *starts = at;                                                                                                  \
    }                                                                                                                  \
                                                                                                                       \
    static void spread_##name(const text_room *room, const uint32_t *order, int64_t n, hr_buffer *const *buffers)      \
    {                                                                                                                  \
        offset_type *offsets = (void *)buffers[1]->data;                                                               \
        uint8_t *to = buffers[2]->data;                                                                                \
        int64_t at = 0, near = room->n_bytes - NEAR_BYTES;                                                             \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            uint32_t begin = room->starts[order[i]], bytes = room->starts[order[i] + 1] - begin;                       \
                                                                                                                       \
            offsets[i] = (offset_type)at;                                                                              \
            if (bytes <= NEAR_BYTES && at <= near)                                                                     \
                memcpy(to + at, room->bytes + begin, NEAR_BYTES);                                                      \
            else if (bytes)                                                                                            \
                memcpy(to + at, room->bytes + begin, bytes);                                                           \
            at += bytes;                                                                                               \
        }                                                                                                              \
        offsets[n] = (offset_type)at;                                                                                  \
    }
TEXT_LOOP(text_32, int32_t)
TEXT_LOOP(text_64, int64_t)
#undef TEXT_LOOP

static hr_status run_text(const picking *p, hr_type *type, int64_t n_bytes, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    int width = hr__type_offset_bytes(type);
    text_room room = { .starts = hr__alloc(p->mem->account, ((size_t)p->n + 1) * sizeof *room.starts),
                       .bytes = hr__alloc(p->mem->account, (size_t)n_bytes + NEAR_BYTES),
                       .n_bytes = n_bytes };
    hr_buffer *buffers[3] = { NULL };

    if (!room.starts || !room.bytes) {
        st = hr__error_memory(err, "pick", n_bytes + 4 * p->n);
        goto done;
    }
    HR_GO(hr__buffer_new(p->mem, (p->n + 1) * width, &buffers[1], err));
    HR_GO(hr__buffer_new(p->mem, n_bytes, &buffers[2], err));
    memset(room.bytes + n_bytes, 0, NEAR_BYTES);
    if (width == 4) {
        text_32(p, &room);
        spread_text_32(&room, p->order, p->n, buffers);
    } else {
        text_64(p, &room);
        spread_text_64(&room, p->order, p->n, buffers);
    }
    st = hr__array_new(type, p->n, 0, buffers, NULL, 0, out, err);
    buffers[1] = buffers[2] = NULL;
done:
    hr__buffer_unref(buffers[1]);
    hr__buffer_unref(buffers[2]);
    hr__free(room.bytes);
    hr__free(room.starts);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- tables */

static bool has_text(const hr_array *a) { return a->length == 0 || a->buffers[1]; }

/* Whether the column goes by runs. *n_bytes: of text. */
static bool by_runs(const picking *p, const hr_type *type, int64_t *n_bytes)
{
    bool is_text = hr__type_is_bytes(type);

    if (!is_text && number_loop(type) < 0)
        return false;
    for (int i = 0; i < p->n_parts; i++)
        if (may_be_null(p->parts[i]) || (is_text && !has_text(p->parts[i])))
            return false;
    *n_bytes = is_text ? text_bytes(p) : 0;
    return *n_bytes <= INT32_MAX - NEAR_BYTES;
}

static hr_status make_ordered(picking *p, hr_error *err)
{
    if (p->ordered)
        return HR_OK;
    if (!(p->ordered = hr__alloc(p->mem->account, (size_t)p->n * sizeof *p->ordered)))
        return hr__error_memory(err, "pick", p->n * (int64_t)sizeof *p->ordered);
    for (int64_t i = 0; i < p->n; i++)
        p->ordered[i] = p->picks[p->order[i]];
    return HR_OK;
}

static hr_status pick_column(void *context, hr_type *type, hr_array *const *parts, hr_array **out, hr_error *err)
{
    picking *p = context;
    int64_t n_bytes = 0;

    p->parts = parts;
    if (p->n_runs * LEAST_RUNS <= p->n && by_runs(p, type, &n_bytes))
        return hr__type_is_bytes(type) ? run_text(p, type, n_bytes, out, err) : run_numbers(p, type, out, err);
    HR_TRY(make_ordered(p, err));
    return hr__array_pick(p->mem, type, parts, p->n_parts, p->ordered, p->n, out, err);
}

hr_status hr__table_pick_runs(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts,
                              const uint32_t *picks, const uint32_t *order, int64_t n, hr_origin *origin,
                              hr_table **out, hr_error *err)
{
    picking p = { .mem = mem, .n_parts = n_parts, .picks = picks, .order = order, .n = n };
    hr_picked_rows rows = { .n_from = n, .places = order, .n = n };
    hr_stretch *runs = NULL;
    bool by_rows;
    hr_status st;

    *out = NULL;
    st = find_runs(mem, parts, n_parts, picks, n, &runs, &p.n_runs, err);
    p.runs = rows.stretches = runs;
    rows.n_stretches = p.n_runs;
    by_rows = !st && p.n_runs * LEAST_RUNS <= n && hr__goes_by_rows(mem, schema, parts, n_parts, n, n);
    if (!st)
        st =
            hr__pick_columns(mem, schema, parts, n_parts, n, by_rows ? &rows : NULL, origin, pick_column, &p, out, err);
    hr__free(p.ordered);
    hr__free(runs);
    return st;
}
