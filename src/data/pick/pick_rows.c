/* pick_rows.c - rows of several columns of numbers at once.
 *
 * A value of a random row costs a load, an address and often a cache miss; for each column again. Where the values of a
 * row lie side by side, one load brings them all. So the code lays a *group* of columns out as rows of 32 bytes in a
 * room, takes the rows in their order, and lays the columns out again:
 *
 *     columns             room            places         columns
 *     a0 a1 a2 ...        a0 b0 c0        7 2 0 ...      a7 a2 a0 ...
 *     b0 b1 b2 ...   ->   a1 b1 c1   ->             ->   b7 b2 b0 ...
 *     c0 c1 c2 ...        a2 b2 c2                       c7 c2 c0 ...
 *                         ...
 *
 * Both ways are transpositions in registers, of 8 x 8 values of 4 bytes or 4 x 4 of 8 bytes. These are twice the copies
 * in less time than a gather, from three columns of 4 bytes or two of 8 on: a sort of ten columns takes 0.73 of it.
 *
 * Columns with nulls and those of other widths stay out: pick.c and pick_runs.c take them one by one, and all columns
 * where the CPU has no such registers. */
#include "data/pick/pick.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#define INLINE __attribute__((always_inline)) inline
#endif

#define ROW_BYTES 32                 /* of the room; a row lies in one cache line */
#define MOST_COLUMNS (ROW_BYTES / 4) /* of a group */
#define LEAST_ROWS 64                /* fewer do not pay for the room */
#define ROOM_ROWS (1 << 20)          /* larger rooms lie outside of all caches */
#define ROOM_SHARE 16                /* a room takes at most this part of the memory limit */
#define STRETCHES_AHEAD 4            /* stretches by which the prefetch is ahead */
#define AHEAD 32                     /* rows by which the prefetch is ahead */
#define LINE_BYTES 64
#define NEAR_ROWS 512 /* so many lie in the first-level cache: no prefetch */

/* Columns of one width whose rows lie side by side. */
typedef struct group {
    int width; /* bytes of a value */
    int n;
    int columns[MOST_COLUMNS];
} group;

/* One group's copy. */
typedef struct copying {
    const hr_picked_rows *rows;
    const uint8_t **bases; /* column c of part i begins at bases[c * n_parts + i] */
    int n_parts;
    uint8_t *room; /* of rows->n_from rows */
    uint8_t *to[MOST_COLUMNS];
} copying;

/* The fewest columns of a width that pay, 0: none; the most that a row has room for. */
static int least_columns(int64_t width) { return width == 4 ? 3 : width == 8 ? 2 : 0; }

static int most_columns(int64_t width) { return (int)(ROW_BYTES / width); }

/* Whether column k is of numbers of `width` bytes, without nulls. */
static bool fits(const hr_schema *schema, hr_table *const *parts, int n_parts, int k, int64_t width)
{
    const hr_type *type = schema->fields[k].type;

    if (type->n_children || type->id == HR_T_BOOL || type->id == HR_T_NULL || hr__type_is_bytes(type) ||
        hr__type_bytes(type) != width)
        return false;
    for (int i = 0; i < n_parts; i++)
        if (may_be_null(parts[i]->columns[k]))
            return false;
    return true;
}

#if HAVE_X86
/* --------------------------------------------------------------------------------------------------- transpositions */

/* r[c] has a value of each of 8 rows, then r[i] has the values of row i; and the other way round. */
AVX2 static INLINE void turn_4_bytes(__m256i r[8])
{
    __m256i a[8], b[8];

    for (int k = 0; k < 4; k++) {
        a[2 * k] = _mm256_unpacklo_epi32(r[2 * k], r[2 * k + 1]);
        a[2 * k + 1] = _mm256_unpackhi_epi32(r[2 * k], r[2 * k + 1]);
    }
    for (int k = 0; k < 8; k += 4)
        for (int half = 0; half < 2; half++) {
            b[k + 2 * half] = _mm256_unpacklo_epi64(a[k + half], a[k + half + 2]);
            b[k + 2 * half + 1] = _mm256_unpackhi_epi64(a[k + half], a[k + half + 2]);
        }
    for (int k = 0; k < 4; k++) {
        r[k] = _mm256_permute2x128_si256(b[k], b[k + 4], 0x20);
        r[k + 4] = _mm256_permute2x128_si256(b[k], b[k + 4], 0x31);
    }
}

/* The same for 4 rows of 4 values. */
AVX2 static INLINE void turn_8_bytes(__m256i r[4])
{
    __m256i a[4] = { _mm256_unpacklo_epi64(r[0], r[1]), _mm256_unpackhi_epi64(r[0], r[1]),
                     _mm256_unpacklo_epi64(r[2], r[3]), _mm256_unpackhi_epi64(r[2], r[3]) };

    for (int k = 0; k < 2; k++) {
        r[k] = _mm256_permute2x128_si256(a[k], a[k + 2], 0x20);
        r[k + 2] = _mm256_permute2x128_si256(a[k], a[k + 2], 0x31);
    }
}

/* --------------------------------------------------------------------------------------------------- columns, rows */

/* `columns` and `width` are constants wherever these functions are called, so that the compiler unrolls the loops over
 * columns and rows and keeps the values in registers. */

AVX2 static INLINE void turn(__m256i r[MOST_COLUMNS], int width)
{
    if (width == 4)
        turn_4_bytes(r);
    else
        turn_8_bytes(r);
}

/* Turns ROW_BYTES / width rows, row `at` of each column and its successors. */
AVX2 static INLINE void lay_block(const uint8_t *const *from, int64_t at, int columns, int width, uint8_t *to)
{
    __m256i r[MOST_COLUMNS];

    for (int k = 0; k < ROW_BYTES / width; k++)
        r[k] = k < columns ? _mm256_loadu_si256((const __m256i *)(const void *)(from[k] + at * width))
                           : _mm256_setzero_si256();
    turn(r, width);
    for (int k = 0; k < ROW_BYTES / width; k++)
        _mm256_store_si256((__m256i *)(void *)(to + k * ROW_BYTES), r[k]);
}

/* Lays the rows of all stretches out in the room. */
AVX2 static INLINE void lay(const copying *c, int columns, int width)
{
    const hr_picked_rows *rows = c->rows;
    const uint8_t *from[MOST_COLUMNS] = { NULL };
    uint8_t *to = c->room;

    for (int64_t s = 0; s < rows->n_stretches; s++) {
        const hr_stretch here = rows->stretches[s];
        const hr_stretch soon = rows->stretches[HR_MIN(s + STRETCHES_AHEAD, rows->n_stretches - 1)];
        int64_t i = 0;

        for (int k = 0; k < columns; k++) {
            uintptr_t next = (uintptr_t)(c->bases[k * c->n_parts + part_of(soon.pick)] + row_of(soon.pick) * width);

            from[k] = c->bases[k * c->n_parts + part_of(here.pick)] + row_of(here.pick) * width;
            for (int at = 0; at < 16 * width; at += LINE_BYTES) /* perhaps beyond the part's end: not a pointer */
                __builtin_prefetch((const void *)(next + (uintptr_t)at));
        }
        for (; i + ROW_BYTES / width <= here.n; i += ROW_BYTES / width, to += ROW_BYTES / width * ROW_BYTES)
            lay_block(from, i, columns, width, to);
        for (; i < here.n; i++, to += ROW_BYTES) {
            memset(to, 0, ROW_BYTES);
            for (int k = 0; k < columns; k++)
                memcpy(to + k * width, from[k] + i * width, (size_t)width);
        }
    }
}

/* Takes the rows at the places out of the room. */
AVX2 static INLINE void take(const copying *c, int columns, int width)
{
    const uint8_t *room = c->room;
    const uint32_t *places = c->rows->places;
    uint8_t *to[MOST_COLUMNS] = { NULL };
    int64_t i = 0, n = c->rows->n, some = ROW_BYTES / width;
    int64_t far = c->rows->n_from > NEAR_ROWS ? n - AHEAD - some : 0;

    for (int k = 0; k < columns; k++)
        to[k] = c->to[k];
    for (; i + some <= n; i += some) {
        __m256i r[MOST_COLUMNS];

        for (int k = 0; i < far && k < some; k++)
            __builtin_prefetch(room + (size_t)places[i + AHEAD + k] * ROW_BYTES);
        for (int k = 0; k < some; k++)
            r[k] = _mm256_load_si256((const __m256i *)(const void *)(room + (size_t)places[i + k] * ROW_BYTES));
        turn(r, width);
        for (int k = 0; k < columns; k++)
            _mm256_storeu_si256((__m256i *)(void *)(to[k] + i * width), r[k]);
    }
    for (; i < n; i++)
        for (int k = 0; k < columns; k++)
            memcpy(to[k] + i * width, room + (size_t)places[i] * ROW_BYTES + k * width, (size_t)width);
}

AVX2 static INLINE void copy(const copying *c, int columns, int width)
{
    lay(c, columns, width);
    take(c, columns, width);
}

AVX2 static void copy_4(const copying *c, int columns)
{
    switch (columns) {
    case 3: copy(c, 3, 4); break;
    case 4: copy(c, 4, 4); break;
    case 5: copy(c, 5, 4); break;
    case 6: copy(c, 6, 4); break;
    case 7: copy(c, 7, 4); break;
    default: copy(c, 8, 4); break;
    }
}

AVX2 static void copy_8(const copying *c, int columns)
{
    switch (columns) {
    case 2: copy(c, 2, 8); break;
    case 3: copy(c, 3, 8); break;
    default: copy(c, 4, 8); break;
    }
}

static bool has_kernels(void) { return (hr__cpu_features() & HR_CPU_AVX2) != 0; }
#else
static void copy_4(const copying *c, int columns) { (void)c, (void)columns; }
static void copy_8(const copying *c, int columns) { (void)c, (void)columns; }
static bool has_kernels(void) { return false; }
#endif

/* ----------------------------------------------------------------------------------------------------------- groups */

static hr_status copy_group(const hr_mem *mem, const hr_schema *schema, const group *g, copying *c,
                            hr_table *const *parts, hr_array **columns, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t n = c->rows->n;
    hr_buffer *buffers[MOST_COLUMNS][3] = { { NULL } };

    for (int k = 0; k < g->n; k++) {
        HR_GO(hr__buffer_new(mem, n * g->width, &buffers[k][1], err));
        c->to[k] = buffers[k][1]->data;
        for (int i = 0; i < c->n_parts; i++)
            c->bases[k * c->n_parts + i] = hr__array_values(parts[i]->columns[g->columns[k]]);
    }
    (g->width == 4 ? copy_4 : copy_8)(c, g->n);
    for (int k = 0; k < g->n; k++) {
        int at = g->columns[k];

        st = hr__array_new(schema->fields[at].type, n, 0, buffers[k], NULL, 0, &columns[at], err);
        buffers[k][1] = NULL; /* taken */
        HR_GO(st);
    }
done:
    for (int k = 0; k < g->n; k++)
        hr__buffer_unref(buffers[k][1]);
    return st;
}

/* The next n columns of `width` bytes from column *next on. */
static group next_group(const hr_schema *schema, hr_table *const *parts, int n_parts, int width, int n, int *next)
{
    group g = { .width = width };

    for (; g.n < n; (*next)++)
        if (fits(schema, parts, n_parts, *next, width))
            g.columns[g.n++] = *next;
    return g;
}

static int count_columns(const hr_schema *schema, hr_table *const *parts, int n_parts, int width)
{
    int n = 0;

    for (int k = 0; k < schema->n; k++)
        n += fits(schema, parts, n_parts, k, width);
    return n >= least_columns(width) ? n : 0;
}

/* Whether a room of so many rows is worth its memory. */
static bool has_room(const hr_mem *mem, int64_t n_rows)
{
    int64_t limit = hr__account_limit(mem->account);

    return n_rows <= ROOM_ROWS && (limit <= 0 || n_rows * ROW_BYTES <= limit / ROOM_SHARE);
}

bool hr__goes_by_rows(const hr_mem *mem, const hr_schema *schema, hr_table *const *parts, int n_parts, int64_t n,
                      int64_t n_from)
{
    return n >= LEAST_ROWS && has_kernels() && has_room(mem, n_from) &&
           (count_columns(schema, parts, n_parts, 4) || count_columns(schema, parts, n_parts, 8));
}

hr_status hr__pick_rows(const hr_mem *mem, const hr_schema *schema, hr_table *const *parts, int n_parts,
                        const hr_picked_rows *rows, hr_array **columns, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t room_bytes = rows->n_from * ROW_BYTES;
    copying c = { .rows = rows, .n_parts = n_parts };
    uint8_t *room = hr__alloc(mem->account, (size_t)room_bytes + ROW_BYTES);

    c.bases = hr__alloc(mem->account, (size_t)n_parts * MOST_COLUMNS * sizeof *c.bases);
    if (!room || !c.bases)
        HR_GO(hr__error_memory(err, "pick", room_bytes));
    c.room = room + (ROW_BYTES - (uintptr_t)room % ROW_BYTES);
    for (int width = 4; width <= 8; width += 4) {
        int left = count_columns(schema, parts, n_parts, width), next = 0;

        /* groups of equal size, if that is possible */
        for (int n_groups = (left + most_columns(width) - 1) / most_columns(width); n_groups; n_groups--) {
            group g = next_group(schema, parts, n_parts, width, left / n_groups, &next);

            HR_GO(copy_group(mem, schema, &g, &c, parts, columns, err));
            left -= g.n;
        }
    }
done:
    hr__free(c.bases);
    hr__free(room);
    return st;
}
