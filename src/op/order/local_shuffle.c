/* local_shuffle.c - the first half of a local shuffle: draws the order of rows within two windows.
 *
 * Two layers of permutations over the input rows; a window has W rows, H = W / 2:
 *
 *   rows           0 . . . . . . . W . . . . . . .2W . . . . . . .3W
 *   first layer   [   window 0   ][   window 1   ][   window 2   ]
 *   second layer  [  0  ][   window 1    ][    window 2   ][  3 ...      over the result of the first
 *
 * so that a row can move by up to a window and a half, forwards and backwards, and no border keeps rows apart. Each
 * permutation is a function of (seed, epoch, layer, window number) and of the window's length, which is W except for
 * the last windows. So the order does not depend on cuts of tables, threads or memory, and each epoch has its own
 * order.
 *
 * A window of MANY_ROWS rows or more does not fit in a cache. There the first layer only deals groups of 16 neighbours
 * to the two windows of the second layer that share its rows; the second layer takes the groups apart. A window larger
 * than a leaf deals groups to its leaves, which are then permuted row by row: one copy handles one leaf, and reads its
 * groups in the order in which they lie in memory. For input sorted by class this makes batches a few hundredths less
 * even than chance (docs/shuffling.md has the figures).
 *
 * Window k of the second layer needs the windows k - 1 and k of the first layer. So rows wait in *chunks*: one window,
 * or several small ones. When a chunk is full, the operator emits every row whose place this chunk and the one before
 * it determine, as *pick lists* of moderate size; local_gather.c makes tables of them. A pick list that is a leaf is
 * not drawn here: groups of its rows still lie together, which makes copying them cheaper (data/pick). Both layers
 * permute pick lists, so each row is copied once. A pick list shares its chunks: the rows live until the last pick list
 * is copied.
 *
 * Markers. A run that resumes after the rows that chunk c completed needs the rows from the start of chunk c on. So the
 * operator keeps the newest marker at or before that place; the marker's state is c and the number of rows between
 * marker and chunk. The resumed run collects chunk c, emits nothing, and goes on with chunk c + 1: it reads two chunks
 * before its first row.
 *
 * The output rows are new ones, numbered in order. */
#include "op/order/local_shuffle.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_WINDOW_ROWS (INT64_C(1) << 29)
#define LEAST_CHUNK_ROWS 16384
#define PICK_LIST_ROWS 131072 /* many rows make use of a column that is in the cache */
#define LEAF_ROWS 131072
#define MANY_ROWS 65536
#define GROUP_ROWS 16
#define LOT_BYTES (8 << 20)
#define SMALL_PARTS                                                                                                    \
    512 /* parts below 1/512 of a chunk are small: they are concatenated, so that picks can number parts */

typedef struct shuffle_op {
    hr_op base;
    int64_t window_rows;
    bool has_seed;
    uint64_t seed;
} shuffle_op;

typedef struct shuffle_state {
    hr_schema *schema; /* of the rows so far; NULL: no table came yet */
    int64_t window, half, chunk_rows;
    int64_t chunk; /* number of the chunk that is being filled */
    hr_chunk *before, *filling;
    int64_t before_bytes, filling_bytes;
    int64_t n_small, small_rows; /* the last n_small parts of `filling` are small, of small_rows rows */
    int64_t skip;                /* input rows to skip before the first wanted chunk */
    bool begins;                 /* restored: an earlier run emitted what the first chunk completes */
    hr_marker *mark,
        *mark_next; /* the newest marker at or before the start of `filling`; before the next chunk. NULL: none */
    int64_t mark_skip, mark_next_row;
} shuffle_state;

/* -------------------------------------------------------------------------------------------- chunks and pick lists */

static hr_chunk *chunk_ref(hr_chunk *c)
{
    if (c)
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

static void chunk_unref(hr_chunk *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int64_t i = 0; i < c->n_parts; i++)
        hr_table_unref(c->parts[i]);
    hr__free(c->parts);
    hr__free(c->order);
    hr__free(c);
}

static void pick_list_free(hr_payload *p)
{
    hr_pick_list *list = (hr_pick_list *)p;

    if (!list)
        return;
    chunk_unref(list->before);
    chunk_unref(list->after);
    hr__schema_unref(list->schema);
    hr__free(list->picks);
    hr__free(list);
}

static int64_t pick_list_bytes(const hr_payload *p) { return ((const hr_pick_list *)p)->n_bytes; }

const hr_payload_class hr__pick_list_class = { .name = "a pick list",
                                               .bytes = pick_list_bytes,
                                               .free = pick_list_free };

/* Room for n rows of these chunks. */
static hr_status pick_list_new(shuffle_state *s, hr_account *account, int64_t n, hr_pick_list **out, hr_error *err)
{
    hr_pick_list *list = hr__zalloc(account, sizeof *list);

    *out = list;
    if (!list || !(list->picks = hr__alloc(account, (size_t)n * sizeof *list->picks)))
        return hr__error_memory(err, "local_shuffle", n * (int64_t)sizeof *list->picks);
    list->n = n;
    list->before = chunk_ref(s->before);
    list->after = chunk_ref(s->filling);
    list->schema = hr__schema_ref(s->schema);
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- the state */

static int64_t chunk_rows_of(const shuffle_op *o)
{
    return (LEAST_CHUNK_ROWS + o->window_rows - 1) / o->window_rows * o->window_rows;
}

/* The number of rows of the result that the chunks before `number` determine. */
static int64_t settled(const shuffle_state *s, int64_t number)
{
    return number == 0 ? 0 : number * s->chunk_rows - (s->window - s->half);
}

/* The input begins with row `first` of the lane: as in a restored run, at the next chunk. */
static void begin_in_lane(shuffle_state *s, int64_t first)
{
    if (first == 0)
        return;
    s->chunk = (first + s->chunk_rows - 1) / s->chunk_rows;
    s->skip = s->chunk * s->chunk_rows - first;
    s->begins = true;
}

static hr_status state_of(const hr_op *op, hr_task *task, shuffle_state **out, hr_error *err)
{
    const shuffle_op *o = (const shuffle_op *)op;
    void **slot = hr__task_state(task);
    shuffle_state *s = *slot;

    if (!s) {
        if (!(s = *slot = hr__zalloc(hr__task_run(task)->account, sizeof *s)))
            return hr__error_memory(err, "local_shuffle", sizeof *s);
        s->window = o->window_rows;
        s->half = s->window / 2;
        if (s->window >= MANY_ROWS)
            s->half -= s->half % GROUP_ROWS;
        s->chunk_rows = chunk_rows_of(o);
        begin_in_lane(s, hr__task_first_row(task, 0));
    }
    *out = s;
    return HR_OK;
}

static void shuffle_task_clear(const hr_op *op, hr_task *task)
{
    shuffle_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    chunk_unref(s->before);
    chunk_unref(s->filling);
    hr__schema_unref(s->schema);
    hr__marker_drop(s->mark);
    hr__marker_drop(s->mark_next);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* ---------------------------------------------------------------------------------------------------------- markers */

static hr_status shuffle_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    shuffle_state *s = NULL;
    hr_status st = state_of(op, task, &s, err);
    int64_t in_chunk = s && s->filling ? s->filling->n_rows : 0;

    if (st) {
        hr__marker_drop(takes);
    } else if (in_chunk == 0) {
        hr__marker_drop(s->mark);
        s->mark = takes;
        s->mark_skip = s->skip; /* rows to come before the chunk's first */
    } else {
        hr__marker_drop(s->mark_next);
        s->mark_next = takes;
        s->mark_next_row = in_chunk;
    }
    return st;
}

/* All rows that chunk `number` completes are emitted: passes its marker on. */
static void pass_mark(shuffle_state *s, hr_task *task, int64_t number)
{
    char text[100];
    hr_marker *m = s->mark;

    s->mark = NULL;
    if (!m)
        return;
    snprintf(text, sizeof text, "chunk=%" PRId64 " skip=%" PRId64, number, s->mark_skip);
    hr__task_pass(task, m, text);
}

static hr_status shuffle_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    shuffle_state *s = NULL;
    int64_t chunk = -1, skip = -1;

    if (!hr__state_int(state, "chunk", &chunk) || !hr__state_int(state, "skip", &skip) ||
        chunk > INT64_MAX / 2 / MAX_WINDOW_ROWS)
        return hr_error_set(err, HR_INVALID, "local_shuffle: '%s' is not a position in windows of %" PRId64 " rows",
                            state, ((const shuffle_op *)op)->window_rows);
    HR_TRY(state_of(op, task, &s, err));
    s->chunk = chunk;
    s->skip = skip;
    s->begins = true;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- drawing */

enum { FIRST_LAYER = 1, SECOND_LAYER, LEAVES = 16 /* LEAVES + i: leaf i of a window */ };

static uint64_t key_of(const hr_op *op, hr_task *task, int64_t layer, int64_t window)
{
    const shuffle_op *o = (const shuffle_op *)op;
    const hr_op_run *run = hr__task_run(task);

    return hr__random_bits(o->has_seed ? o->seed : run->seed, (uint64_t)run->epoch, (uint64_t)layer,
                           (uint64_t)hr__task_lane(task) << 48 | (uint64_t)window)
        .lo;
}

/* Deals the groups of rows[0, n) at random to sections of `section` rows, a multiple of GROUP_ROWS; the last section
 * may be shorter. Within a section groups are in ascending order: whoever reads its rows goes forwards through memory.
 * Rows that do not fill a group stay at the end. */
static hr_status deal_groups(hr_account *account, uint32_t *rows, int64_t n, int64_t section, uint64_t key,
                             hr_error *err)
{
    int64_t n_groups = n / GROUP_ROWS, n_sections = (n + section - 1) / section, each = section / GROUP_ROWS;
    int64_t n_room = 2 * n_groups + n_sections + n;
    uint32_t *order = hr__alloc(account, (size_t)n_room * sizeof *order);
    uint32_t *section_of, *next, *from;

    if (!order)
        return hr__error_memory(err, "local_shuffle", n_room * (int64_t)sizeof *order);
    section_of = order + n_groups;
    next = section_of + n_groups;
    from = next + n_sections;
    for (int64_t i = 0; i < n_groups; i++)
        order[i] = (uint32_t)i;
    hr__random_permute(order, n_groups, key);
    for (int64_t i = 0; i < n_groups; i++)
        section_of[order[i]] = (uint32_t)(i / each);
    for (int64_t i = 0; i < n_sections; i++)
        next[i] = (uint32_t)(i * section);
    memcpy(from, rows, (size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n_groups; i++) {
        uint32_t *at = &next[section_of[i]];

        memcpy(rows + *at, from + i * GROUP_ROWS, GROUP_ROWS * sizeof *rows);
        *at += GROUP_ROWS;
    }
    hr__free(order);
    return HR_OK;
}

/* Draws the first layer of the chunk `filling`. */
static hr_status draw_chunk(const hr_op *op, hr_task *task, shuffle_state *s, hr_error *err)
{
    hr_account *account = hr__task_run(task)->account;
    hr_chunk *c = s->filling;
    int64_t at = 0, windows = s->chunk_rows / s->window;

    if (!(c->order = hr__alloc(account, (size_t)c->n_rows * sizeof *c->order)))
        return hr__error_memory(err, "local_shuffle", c->n_rows * (int64_t)sizeof *c->order);
    for (int64_t i = 0; i < c->n_parts; i++)
        for (int64_t row = 0; row < c->parts[i]->n_rows; row++)
            c->order[at++] = (uint32_t)i << HR_PICK_BITS | (uint32_t)row;
    for (int64_t k = 0; k * s->window < c->n_rows; k++) {
        int64_t begin = k * s->window, n = HR_MIN(s->window, c->n_rows - begin);
        uint64_t key = key_of(op, task, FIRST_LAYER, s->chunk * windows + k);

        if (s->window >= MANY_ROWS)
            HR_TRY(deal_groups(account, c->order + begin, n, s->half, key, err));
        else
            hr__random_shuffle(c->order + begin, n, key);
    }
    return HR_OK;
}

/* The key of a window's second layer, or of its leaf i if the window has several. */
static uint64_t leaf_key(const hr_op *op, hr_task *task, int64_t window, int64_t i, int64_t n_leaves)
{
    return key_of(op, task, n_leaves > 1 ? LEAVES + i : SECOND_LAYER, window);
}

/* How many rows each part of n rows has, the last one aside, if a part may have `most`: equal parts, of whole groups
 * where that is possible. */
static int64_t part_rows(int64_t n, int64_t most)
{
    int64_t n_parts = (n + most - 1) / most, each = (n + n_parts - 1) / HR_MAX(n_parts, 1);

    return HR_MIN(most, (each + GROUP_ROWS - 1) / GROUP_ROWS * GROUP_ROWS);
}

/* Draws one window of the second layer. Not `drawn`: without the order within leaves. */
static hr_status draw_window(const hr_op *op, hr_task *task, int64_t window, uint32_t *rows, int64_t n, bool drawn,
                             hr_error *err)
{
    int64_t each = part_rows(n, LEAF_ROWS), n_leaves = (n + each - 1) / each;

    if (n_leaves > 1)
        HR_TRY(deal_groups(hr__task_run(task)->account, rows, n, each, key_of(op, task, SECOND_LAYER, window), err));
    if (!drawn)
        return HR_OK;
    for (int64_t i = 0, at = 0; i < n_leaves; i++, at += each)
        hr__random_shuffle(rows + at, HR_MIN(each, n - at), leaf_key(op, task, window, i, n_leaves));
    return HR_OK;
}

/* The window of the second layer that a row is in. */
static int64_t window_at(const shuffle_state *s, int64_t row)
{
    return row < s->half ? 0 : 1 + (row - s->half) / s->window;
}

/* Draws rows [begin, end) of the result: first layer, then second. `end` is the end of a window of the second layer or
 * of all rows. */
static hr_status draw_result(const hr_op *op, hr_task *task, const shuffle_state *s, int64_t begin, int64_t end,
                             bool drawn, uint32_t *out, hr_error *err)
{
    int64_t first = s->chunk * s->chunk_rows; /* row of `filling` */
    int64_t n_before = s->before ? HR_MAX(first - begin, 0) : 0;
    uint32_t first_part = s->before ? (uint32_t)s->before->n_parts << HR_PICK_BITS : 0;

    if (n_before)
        memcpy(out, s->before->order + (s->chunk_rows - n_before), (size_t)n_before * sizeof *out);
    for (int64_t i = n_before; i < end - begin; i++)
        out[i] = s->filling->order[begin - first + i] + first_part;
    while (begin < end) {
        int64_t k = window_at(s, begin), stop = HR_MIN(end, s->half + k * s->window);

        HR_TRY(draw_window(op, task, k, out, stop - begin, drawn, err));
        out += stop - begin;
        begin = stop;
    }
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- emitting */

static int64_t pick_list_rows(const shuffle_state *s, hr_task *task)
{
    int64_t most = HR_MIN(LOT_BYTES, hr__account_limit(hr__task_run(task)->account) / 32);
    int64_t n_rows = s->filling->n_rows + (s->before ? s->before->n_rows : 0);
    int64_t row_bytes = (s->before_bytes + s->filling_bytes) / HR_MAX(n_rows, 1) + 1, n = PICK_LIST_ROWS;

    while (n > 1 && n * row_bytes > most)
        n /= 2;
    return n;
}

/* Emits picks[at, at + n). `key` NULL: the picks are drawn. */
static hr_status emit_pick_list(shuffle_state *s, hr_task *task, const uint32_t *picks, int64_t at, int64_t n,
                                const uint64_t *key, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t n_rows = s->filling->n_rows + (s->before ? s->before->n_rows : 0);
    int64_t n_bytes = (s->before_bytes + s->filling_bytes) / HR_MAX(n_rows, 1) * n;
    hr_pick_list *list = NULL;
    hr_origin *origin = NULL;
    hr_table *t = NULL;

    HR_GO(pick_list_new(s, hr__task_run(task)->account, n, &list, err));
    memcpy(list->picks, picks, (size_t)n * sizeof *picks);
    list->drawn = !key;
    list->key = key ? *key : 0;
    list->n_bytes = n_bytes;
    HR_GO(hr__origin_new(&(hr_run_coords){ .first = { .row = at }, .n = n }, 1, &origin, err));
    st = hr__table_of_payload(&list->base, &hr__pick_list_class, n, origin, &t, err);
    list = NULL;
    HR_GO(st);
    HR_GO(hr__task_emit(task, &t, err));
done:
    hr__origin_unref(origin);
    if (list)
        pick_list_free(&list->base);
    return st;
}

/* Emits rows [begin, end) of the result, which `before` and `filling` determine. */
static hr_status emit(const hr_op *op, hr_task *task, shuffle_state *s, int64_t begin, int64_t end, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t most = pick_list_rows(s, task);
    int64_t each = part_rows(end - begin, most), n_lists = (end - begin + each - 1) / each;
    int64_t window = window_at(s, begin);
    /* Not drawn: each pick list is a leaf or a window of one, with rows in groups; local_gather.c draws it. */
    bool drawn = s->window < MANY_ROWS || most != LEAF_ROWS || window_at(s, end - 1) != window;
    uint32_t *picks = hr__alloc(hr__task_run(task)->account, (size_t)(end - begin) * sizeof *picks);

    if (!picks)
        return hr__error_memory(err, "local_shuffle", (end - begin) * (int64_t)sizeof *picks);
    HR_GO(draw_result(op, task, s, begin, end, drawn, picks, err));
    for (int64_t at = begin, n; at < end && !hr__task_cancelled(task); at += n) {
        uint64_t key = leaf_key(op, task, window, (at - begin) / each, n_lists);

        n = HR_MIN(each, end - at); /* equal sizes, so that freed buffers fit again */
        HR_GO(emit_pick_list(s, task, picks + (at - begin), at, n, drawn ? NULL : &key, err));
    }
done:
    hr__free(picks);
    return st;
}

static hr_status close_small_parts(shuffle_state *s, hr_task *task, hr_error *err)
{
    hr_chunk *c = s->filling;
    hr_table *one = NULL, **first = c->parts + (c->n_parts - s->n_small);

    if (s->n_small > 1) {
        HR_TRY(hr__table_concat(hr__task_mem(task), s->schema, first, (int)s->n_small, &one, err));
        for (int64_t i = 0; i < s->n_small; i++)
            hr_table_unref(first[i]);
        first[0] = one;
        c->n_parts -= s->n_small - 1;
    }
    s->n_small = s->small_rows = 0;
    return HR_OK;
}

/* `filling` is full: emits the rows that it completes, and begins the next chunk. */
static hr_status next_chunk(const hr_op *op, hr_task *task, shuffle_state *s, hr_error *err)
{
    HR_TRY(close_small_parts(s, task, err));
    HR_TRY(draw_chunk(op, task, s, err));
    if (!s->begins) {
        HR_TRY(emit(op, task, s, settled(s, s->chunk), settled(s, s->chunk + 1), err));
        pass_mark(s, task, s->chunk);
    }
    s->begins = false;
    chunk_unref(s->before);
    s->before = s->filling;
    s->before_bytes = s->filling_bytes;
    s->filling = NULL;
    s->filling_bytes = 0;
    s->chunk++;
    if (s->mark_next) {
        hr__marker_drop(s->mark);
        s->mark = s->mark_next;
        s->mark_skip = s->chunk_rows - s->mark_next_row;
        s->mark_next = NULL;
    } else if (s->mark) {
        s->mark_skip += s->chunk_rows; /* the marker was not passed on: this is the first chunk of a restored run */
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ input */

static hr_status too_much(const shuffle_state *s, int64_t limit, hr_error *err)
{
    return hr_error_set(err, HR_BUDGET,
                        "local_shuffle: %" PRId64 " rows take %" PRId64 " bytes, the memory limit is %" PRId64
                        "; windows of %" PRId64 " rows need twice their bytes: use smaller windows",
                        s->filling->n_rows + (s->before ? s->before->n_rows : 0), s->before_bytes + s->filling_bytes,
                        limit, s->window);
}

/* Adds rows to the chunk `filling`. Takes `part`, even on failure. */
static hr_status add_part(shuffle_state *s, hr_task *task, hr_table *part, hr_error *err)
{
    hr_account *account = hr__task_run(task)->account;
    int64_t limit = hr__account_limit(account), small = s->chunk_rows / SMALL_PARTS;
    hr_chunk *c = s->filling;

    if (!c) {
        if (!(c = s->filling = hr__zalloc(account, sizeof *c))) {
            hr_table_unref(part);
            return hr__error_memory(err, "local_shuffle", sizeof *c);
        }
        atomic_init(&c->refs, 1);
    }
    if (!hr__grow(account, (void **)&c->parts, &c->cap_parts, c->n_parts + 1, sizeof *c->parts)) {
        hr_table_unref(part);
        return hr__error_memory(err, "local_shuffle", (c->n_parts + 1) * (int64_t)sizeof *c->parts);
    }
    c->parts[c->n_parts++] = part;
    c->n_rows += part->n_rows;
    s->filling_bytes += hr__table_bytes_used(part);
    if (limit > 0 && s->before_bytes + s->filling_bytes > limit)
        return too_much(s, limit, err);
    if (part->n_rows >= small) {
        hr_table *last = c->parts[--c->n_parts]; /* not one of the small parts before it */
        hr_status st = close_small_parts(s, task, err);

        c->parts[c->n_parts++] = last;
        return st;
    }
    s->n_small++;
    s->small_rows += part->n_rows;
    return s->small_rows >= small ? close_small_parts(s, task, err) : HR_OK;
}

static hr_status shuffle_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    shuffle_state *s = NULL;
    hr_table *fitting = NULL;
    hr_status st = HR_OK;
    bool wider; /* the parts held so far stay as they are: other threads copy from them; local_gather.c conforms them */
    int64_t at;

    HR_TRY(state_of(op, task, &s, err));
    HR_TRY(hr__schema_widen(&s->schema, in->schema, "local_shuffle: a table", &wider, err));
    HR_GO(hr__table_conform(hr__task_mem(task), in, s->schema, &fitting, err));
    at = HR_MIN(s->skip, in->n_rows);
    s->skip -= at;
    while (at < in->n_rows && !hr__task_cancelled(task)) {
        int64_t room = s->chunk_rows - (s->filling ? s->filling->n_rows : 0);
        int64_t n = HR_MIN(HR_MIN(room, HR_PICK_ROWS), in->n_rows - at);
        hr_table *part = NULL;

        HR_GO(hr_table_slice(fitting, at, n, &part, err));
        HR_GO(add_part(s, task, part, err));
        at += n;
        if (n == room)
            HR_GO(next_chunk(op, task, s, err));
    }
done:
    hr_table_unref(fitting);
    return st;
}

/* The input has ended: emits the remaining rows. */
static hr_status shuffle_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    shuffle_state *s = *hr__task_state(task);
    int64_t begin, end;

    if (!s || (!s->before && !s->filling))
        return HR_OK;
    begin = settled(s, s->chunk);
    if (!s->filling) { /* the last chunk was full */
        s->filling = s->before;
        s->filling_bytes = s->before_bytes;
        s->before = NULL;
        s->before_bytes = 0;
        s->chunk--;
    } else if (s->begins) {
        return hr_error_set(err, HR_MISMATCH, "local_shuffle: the input ends in chunk %" PRId64 ", before its position",
                            s->chunk);
    } else {
        HR_TRY(close_small_parts(s, task, err));
        HR_TRY(draw_chunk(op, task, s, err));
    }
    end = s->chunk * s->chunk_rows + s->filling->n_rows;
    return begin < end ? emit(op, task, s, begin, end, err) : HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- in a lane */

/* The chunk before the one with this row: it is complete, and a run that begins there gives the row. */
static int64_t shuffle_needs(const hr_op *op, int64_t row)
{
    int64_t rows = chunk_rows_of((const shuffle_op *)op), chunk = row / rows - 1;

    return chunk > 0 ? chunk * rows : 0;
}

static int64_t shuffle_gives(const hr_op *op, int64_t row)
{
    const shuffle_op *o = (const shuffle_op *)op;
    shuffle_state s = { .window = o->window_rows, .half = o->window_rows / 2, .chunk_rows = chunk_rows_of(o) };

    if (row == 0)
        return 0;
    if (s.window >= MANY_ROWS)
        s.half -= s.half % GROUP_ROWS;
    begin_in_lane(&s, row);
    return settled(&s, s.chunk + 1);
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static void shuffle_describe(const hr_op *op, hr_text *out)
{
    const shuffle_op *o = (const shuffle_op *)op;

    hr__text_add(out, "local_shuffle(%" PRId64, o->window_rows);
    if (o->has_seed)
        hr__text_add(out, ", seed=%" PRIu64, o->seed);
    hr__text_add(out, ")");
}

static void shuffle_fingerprint(const hr_op *op, hr_hash *h)
{
    const shuffle_op *o = (const shuffle_op *)op;

    hr__hash_int(h, 3); /* version of the drawing: a position is valid for one version only */
    hr__hash_int(h, o->window_rows);
    hr__hash_int(h, o->has_seed);
    hr__hash_int(h, (int64_t)o->seed);
}

static void shuffle_free(hr_op *op) { hr__free(op); }

static const hr_op_class local_shuffle_class = {
    .name = "local_shuffle",
    .doc = "draws a random order of rows within windows",
    .kind = HR_OP_STREAM,
    .same_rows = true,
    .needs = hr__same_needs,
    .schema = hr__kept_schema,
    .push = shuffle_push,
    .finish = shuffle_finish,
    .task_clear = shuffle_task_clear,
    .lane_needs = shuffle_needs,
    .lane_gives = shuffle_gives,
    .marker = shuffle_marker,
    .restore = shuffle_restore,
    .describe = shuffle_describe,
    .fingerprint = shuffle_fingerprint,
    .free = shuffle_free,
};

hr_status hr__op_local_shuffle(int64_t window_rows, const uint64_t *seed, hr_op **out, hr_error *err)
{
    shuffle_op *o;

    *out = NULL;
    if (window_rows < 1 || window_rows > MAX_WINDOW_ROWS)
        return hr_error_set(err, HR_INVALID, "local_shuffle: windows of %" PRId64 " rows; expected 1 to %" PRId64,
                            window_rows, MAX_WINDOW_ROWS);
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "local_shuffle", sizeof *o);
    hr__op_init(&o->base, &local_shuffle_class);
    o->window_rows = window_rows;
    o->has_seed = seed != NULL;
    o->seed = seed ? *seed : 0;
    o->base.by_epoch = true;
    o->base.blocks = HR_BLOCKS_OF_FILES;
    o->base.blocks_seed = (hr_shuffle_seed){ .own = o->has_seed, .seed = o->seed };
    *out = &o->base;
    return HR_OK;
}
