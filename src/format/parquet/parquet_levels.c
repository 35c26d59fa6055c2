/* parquet_levels.c - definition and repetition levels -> validity bitmaps and list offsets, for any nesting.
 *
 * Each entry of a column has a repetition level r (which list it goes on with; 0: it begins a row) and a definition
 * level d (how much of the path to the value exists). With `rep` and `def_*` of a node (parquet_schema.c):
 *     the node gets a slot    if r <= rep and d >= def_slot
 *     the slot is valid       if d >= def_valid
 *     a list gets an item     if r <= rep + 1 and d >= def_item
 * The leaf gets a slot if d >= its def_slot and a value if d == max_def. So each node is built on its own from the same
 * two arrays, with one short loop; the slots of a leaf and the items of the list around it are counted by the same
 * condition, so malformed levels never give offsets outside the values.
 *
 * Malformed levels are still an error: no level is above its maximum, and an entry that continues a list (r > 0) is an
 * item of the list and follows an item of the list: d >= def_items[r] for this entry and the one before.
 *
 * Most levels are runs, and a run is never expanded into single levels: 1. A flat column's bit-packed levels of one bit
 * *are* the validity bitmap; a run of ones costs nothing at all. 2. Long lists are runs of r == max_rep: they only add
 * to the innermost list's items. What is left goes in blocks of PQ_BLOCK entries.
 *
 * Tests: test_parquet_read.c, test_parquet_page.c. */
#include "format/parquet/parquet_page.h"
#include "format/parquet/parquet_kernel.h"

#define FEW 64 /* fewer entries than this are not turned into bits */

/* --------------------------------------------------------------------------------------------------------- validity */

/* Room for n more bits. The bitmap begins with the first null: all slots before it are valid. */
static hr_status bits_room(pq_bits *b, int64_t n, hr_error *err)
{
    int64_t has = b->bytes.buffer ? b->bytes.buffer->n_bytes : 0, needed = hr__bits_bytes(b->n + n);
    bool begins = !b->bytes.buffer;

    HR_TRY(hr__growbuf_reserve(&b->bytes, needed - has, err));
    b->bytes.buffer->n_bytes = needed;
    if (begins)
        hr__bits_fill(b->bytes.buffer->data, 0, b->n, true);
    return HR_OK;
}

static hr_status bits_fill(pq_bits *b, int64_t n, bool valid, hr_error *err)
{
    if (n > 0 && (!valid || b->bytes.buffer)) {
        HR_TRY(bits_room(b, n, err));
        hr__bits_fill(b->bytes.buffer->data, b->n, n, valid);
    }
    b->n += n;
    b->n_nulls += valid ? 0 : n;
    return HR_OK;
}

static hr_status bits_copy(pq_bits *b, const uint8_t *bits, int64_t at, int64_t n, int64_t ones, hr_error *err)
{
    if (ones == n || ones == 0)
        return bits_fill(b, n, ones > 0, err);
    HR_TRY(bits_room(b, n, err));
    hr__bits_copy(b->bytes.buffer->data, b->n, bits, at, n);
    b->n += n;
    b->n_nulls += n - ones;
    return HR_OK;
}

/* n <= PQ_BLOCK bytes of 0 or 1. */
static hr_status bits_pack(pq_bits *b, const uint8_t *valid, int64_t n, hr_error *err)
{
    uint8_t packed[PQ_BLOCK / 8 + 8];
    int64_t ones = 0, i;

    for (i = 0; i < n; i++)
        ones += valid[i];
    if (ones == n || ones == 0)
        return bits_fill(b, n, ones > 0, err);
    for (i = 0; i + 8 <= n; i += 8) {
        uint64_t v;

        memcpy(&v, valid + i, 8);
        packed[i / 8] = (uint8_t)(v * 0x0102040810204080ull >> 56); /* byte j's lowest bit comes to bit j */
    }
    if (i < n)
        packed[i / 8] = 0;
    for (; i < n; i++)
        packed[i / 8] |= (uint8_t)(valid[i] << (i & 7));
    return bits_copy(b, packed, 0, n, ones, err);
}

/* ------------------------------------------------------------------------------------------------------------- flat */

static hr_status too_high(const char *which, int64_t level, int most, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "a %s level of %lld, expected at most %d", which, (long long)level, most);
}

/* Whether one of n levels is above `most`: eight at a time. Reads up to 7 bytes after the last level. */
static inline bool any_above(const uint8_t *block, int64_t n, int most)
{
    const uint64_t ones = 0x0101010101010101ull, high = ones << 7;
    uint64_t above = 0, v = 0;

    for (int64_t i = 0; i < n; i += 8) {
        v = hr__load_le64(block + i);
        v &= n - i < 8 ? (1ull << (8 * (n - i))) - 1 : ~0ull;
        above |= v | (most < 0x7f ? v + (uint64_t)(0x7f - most) * ones : 0);
    }
    return above & high;
}

/* An error if one of n levels is above its maximum, which the bits of a level may allow. */
static hr_status check_most(const pq_runs *r, const uint8_t *block, int64_t n, int most, const char *which,
                            hr_error *err)
{
    uint8_t highest = 0;

    if (most + 1 == 1 << r->width || !any_above(block, n, most))
        return HR_OK;
    for (int64_t i = 0; i < n; i++)
        highest = HR_MAX(highest, block[i]);
    return highest > most ? too_high(which, highest, most, err) : HR_OK;
}

static hr_status flat_run(pq_levels *lv, pq_take *t, int64_t n, hr_error *err)
{
    uint32_t d = lv->def.value;

    if (d > lv->leaf->max_def)
        return too_high("definition", d, lv->leaf->max_def, err);
    for (int i = 0; i < t->n_tracks; i++)
        HR_TRY(bits_fill(&t->tracks[i].valid, n, d >= t->tracks[i].node->def_valid, err));
    if (t->valid)
        HR_TRY(bits_fill(t->valid, n, d == lv->leaf->max_def, err));
    t->n_values += d == lv->leaf->max_def ? n : 0;
    lv->def.left -= n;
    return HR_OK;
}

/* Levels of one bit: the bits are the bitmap. */
static hr_status flat_bits(pq_levels *lv, pq_take *t, int64_t n, hr_error *err)
{
    pq_runs *r = &lv->def;
    int64_t ones = hr__bits_count(r->bits, r->bit, n);

    if (t->valid)
        HR_TRY(bits_copy(t->valid, r->bits, r->bit, n, ones, err));
    t->n_values += ones;
    r->bit += n;
    r->left -= n;
    return HR_OK;
}

/* Words of bits, n <= PQ_BLOCK. */
static hr_status bits_words(pq_bits *b, uint64_t *words, int64_t n, hr_error *err)
{
    int64_t ones = hr__bits_count((const uint8_t *)words, 0, n);

    return bits_copy(b, (const uint8_t *)words, 0, n, ones, err);
}

static hr_status flat_block(pq_levels *lv, pq_take *t, int64_t n, hr_error *err)
{
    uint64_t words[PQ_BLOCK / 64];

    pq__runs_u8(&lv->def, lv->def_block, n);
    HR_TRY(check_most(&lv->def, lv->def_block, n, lv->leaf->max_def, "definition", err));
    for (int i = 0; i < t->n_tracks; i++) {
        pq__kernels()->at_least(lv->def_block, n, t->tracks[i].node->def_valid, words);
        HR_TRY(bits_words(&t->tracks[i].valid, words, n, err));
    }
    pq__kernels()->at_least(lv->def_block, n, lv->leaf->max_def, words);
    t->n_values += hr__bits_count((const uint8_t *)words, 0, n);
    return t->valid ? bits_words(t->valid, words, n, err) : HR_OK;
}

static hr_status flat_take(pq_levels *lv, pq_take *t, hr_error *err)
{
    int64_t todo = HR_MIN(HR_MIN(t->max_entries, t->rows), lv->left);

    t->n_entries = t->n_slots = todo;
    t->rows -= todo;
    lv->left -= todo;
    while (todo > 0) {
        int64_t n;

        if (lv->def.left == 0 && !pq__runs_next(&lv->def))
            break;
        n = HR_MIN(todo, lv->def.left);
        if (!lv->def.packed) {
            HR_TRY(flat_run(lv, t, n, err));
        } else if (lv->def.width == 1 && t->n_tracks == 0) {
            HR_TRY(flat_bits(lv, t, n, err));
        } else {
            n = HR_MIN(n, PQ_BLOCK);
            HR_TRY(flat_block(lv, t, n, err));
        }
        todo -= n;
    }
    if (lv->def.bad)
        return hr_error_set(err, HR_BAD_DATA, "definition levels end early or are malformed: %lld are missing",
                            (long long)(todo + lv->left));
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- repeated */

static hr_status too_many_items(hr_error *err)
{
    return hr_error_set(err, HR_UNSUPPORTED,
                        "more than 2147483647 list items in one row, which only a large_list can hold");
}

static hr_status add_offsets(pq_track *k, const int64_t *offsets, int64_t n, hr_error *err)
{
    uint8_t *out;

    HR_TRY(hr__growbuf_reserve(&k->offsets, n * k->offset_bytes, err));
    out = k->offsets.buffer->data + k->offsets.buffer->n_bytes;
    if (k->offset_bytes == 8) {
        memcpy(out, offsets, (size_t)n * 8);
    } else {
        for (int64_t i = 0; i < n; i++) {
            int32_t v = (int32_t)offsets[i];

            memcpy(out + 4 * i, &v, 4);
        }
    }
    k->offsets.buffer->n_bytes += n * k->offset_bytes;
    return k->offset_bytes == 4 && k->items > INT32_MAX ? too_many_items(err) : HR_OK;
}

static hr_status list_block(pq_track *k, const uint8_t *def, const uint8_t *rep, int64_t n, hr_error *err)
{
    const pq_node *node = k->node;
    uint8_t valid[PQ_BLOCK + 1];
    int64_t offsets[PQ_BLOCK + 1], n_slots = 0, items = k->items;

    for (int64_t i = 0; i < n; i++) {
        offsets[n_slots] = items;
        valid[n_slots] = def[i] >= node->def_valid;
        n_slots += (rep[i] <= node->rep) & (def[i] >= node->def_slot);
        items += (rep[i] <= node->rep + 1) & (def[i] >= node->def_item);
    }
    k->items = items;
    if (n_slots == 0)
        return k->offset_bytes == 4 && items > INT32_MAX ? too_many_items(err) : HR_OK;
    HR_TRY(bits_pack(&k->valid, valid, n_slots, err));
    return add_offsets(k, offsets, n_slots, err);
}

static hr_status struct_block(pq_track *k, const uint8_t *def, const uint8_t *rep, int64_t n, hr_error *err)
{
    const pq_node *node = k->node;
    uint8_t valid[PQ_BLOCK + 1];
    int64_t n_slots = 0;

    for (int64_t i = 0; i < n; i++) {
        valid[n_slots] = def[i] >= node->def_valid;
        n_slots += (rep[i] <= node->rep) & (def[i] >= node->def_slot);
    }
    return bits_pack(&k->valid, valid, n_slots, err);
}

static hr_status leaf_block(const pq_leaf *l, pq_take *t, const uint8_t *def, int64_t n, hr_error *err)
{
    uint8_t valid[PQ_BLOCK + 1];
    int64_t n_slots = 0, n_values = 0;

    for (int64_t i = 0; i < n; i++) {
        valid[n_slots] = def[i] == l->max_def;
        n_values += valid[n_slots];
        n_slots += def[i] >= l->def_slot;
    }
    t->n_slots += n_slots;
    t->n_values += n_values;
    return t->valid ? bits_pack(t->valid, valid, n_slots, err) : HR_OK;
}

static hr_status take_block(pq_levels *lv, pq_take *t, int64_t n, hr_error *err)
{
    const uint8_t *def = lv->def_block + lv->at, *rep = lv->rep_block + lv->at;

    for (int i = 0; i < t->n_tracks; i++) {
        pq_track *k = &t->tracks[i];

        HR_TRY((k->is_list ? list_block : struct_block)(k, def, rep, n, err));
    }
    HR_TRY(leaf_block(lv->leaf, t, def, n, err));
    lv->at += (int)n;
    lv->left -= n;
    t->n_entries += n;
    return HR_OK;
}

static hr_status no_item(hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "a repetition level goes on with a list that has no item");
}

/* Few entries, one by one. */
static bool few_follow(const pq_levels *lv, int64_t n)
{
    uint8_t before = lv->last_def, wrong = 0;

    for (int64_t i = 0; i < n; i++) {
        wrong |= HR_MIN(lv->def_block[i], before) < lv->leaf->def_items[lv->rep_block[i]];
        before = lv->def_block[i];
    }
    return !wrong;
}

/* Many, as bits. */
static bool many_follow(const pq_levels *lv, int64_t n)
{
    uint64_t reps[PQ_BLOCK / 64], defs[PQ_BLOCK / 64], wrong = 0;
    const pq_leaf *l = lv->leaf;

    for (int r = 1; r <= l->max_rep; r++) {
        uint64_t before = lv->last_def >= l->def_items[r];

        pq__kernels()->at_least(lv->rep_block, n, (uint8_t)r, reps);
        pq__kernels()->at_least(lv->def_block, n, l->def_items[r], defs);
        for (int64_t i = 0; i < (n + 63) / 64; i++) {
            wrong |= reps[i] & ~(defs[i] & (defs[i] << 1 | before));
            before = defs[i] >> 63;
        }
    }
    return !wrong;
}

/* Checks entries [0, n) of the blocks, n > 0. d: the definition level of all entries; -1: they differ. */
static hr_status check_any_block(pq_levels *lv, int64_t n, int d, hr_error *err)
{
    const pq_leaf *l = lv->leaf;
    bool follow;

    HR_TRY(check_most(&lv->rep, lv->rep_block, n, l->max_rep, "repetition", err));
    if (d > l->max_def)
        return too_high("definition", d, l->max_def, err);
    if (d < 0)
        HR_TRY(check_most(&lv->def, lv->def_block, n, l->max_def, "definition", err));
    if (d >= l->def_items[l->max_rep])
        follow = lv->last_def >= l->def_items[lv->rep_block[0]];
    else
        follow = n < FEW ? few_follow(lv, n) : many_follow(lv, n);
    lv->last_def = lv->def_block[n - 1];
    return follow ? HR_OK : no_item(err);
}

/* Most blocks are short, and none of their values is null. */
static inline hr_status check_block(pq_levels *lv, int64_t n, int d, hr_error *err)
{
    const pq_leaf *l = lv->leaf;

    if (d == l->max_def && lv->last_def == d && n <= 8 && !any_above(lv->rep_block, n, l->max_rep))
        return HR_OK;
    return check_any_block(lv, n, d, err);
}

/* Takes n entries that continue the innermost list, all with definition level d. */
static hr_status take_run(pq_levels *lv, pq_take *t, int64_t n, hr_error *err)
{
    const pq_leaf *l = lv->leaf;
    uint32_t d = lv->def.value;

    if (d > l->max_def)
        return too_high("definition", d, l->max_def, err);
    if (HR_MIN(d, lv->last_def) < l->def_items[l->max_rep])
        return no_item(err);
    lv->last_def = (uint8_t)d;
    for (int i = 0; i < t->n_tracks; i++) {
        pq_track *k = &t->tracks[i];

        if (k->is_list && k->node->rep + 1 == l->max_rep)
            k->items += d >= k->node->def_item ? n : 0;
        else if (!k->is_list && k->node->rep == l->max_rep && d >= k->node->def_slot)
            HR_TRY(bits_fill(&k->valid, n, d >= k->node->def_valid, err));
        if (k->is_list && k->offset_bytes == 4 && k->items > INT32_MAX)
            return too_many_items(err);
    }
    if (d >= l->def_slot) {
        if (t->valid)
            HR_TRY(bits_fill(t->valid, n, d == l->max_def, err));
        t->n_slots += n;
        t->n_values += d == l->max_def ? n : 0;
    }
    lv->def.left -= n;
    lv->rep.left -= n;
    lv->left -= n;
    t->n_entries += n;
    return HR_OK;
}

/* How many of the n entries at lv->at belong to rows that may begin; subtracts the rows that begin from t->rows. */
static int64_t within_rows(const pq_levels *lv, pq_take *t, int64_t n)
{
    const uint8_t *rep = lv->rep_block + lv->at;

    for (int64_t i = 0; i < n;) {
        const uint8_t *zero = memchr(rep + i, 0, (size_t)(n - i));

        if (!zero)
            return n;
        if (t->rows == 0)
            return zero - rep;
        t->rows--;
        i = zero - rep + 1;
    }
    return n;
}

/* Decodes some entries, until both streams are in runs again. -> their definition level; -1: they differ. */
static int fill_block(pq_levels *lv)
{
    int64_t def = lv->def.left, rep = lv->rep.left, n;
    int d;

    if (lv->def.packed || lv->rep.packed)
        n = HR_MAX(lv->def.packed ? def : 0, lv->rep.packed ? rep : 0);
    else
        n = HR_MIN(def, rep);
    n = HR_MIN(HR_MIN(n, lv->left), PQ_BLOCK);
    d = !lv->def.packed && n <= def ? (int)HR_MIN(lv->def.value, 255) : -1;
    pq__runs_u8(&lv->def, lv->def_block, n);
    pq__runs_u8(&lv->rep, lv->rep_block, n);
    lv->at = 0;
    lv->n = (int)n;
    return d;
}

static hr_status repeated_take(pq_levels *lv, pq_take *t, hr_error *err)
{
    while (lv->left > 0 && t->n_entries < t->max_entries) {
        int64_t most = HR_MIN(lv->left, t->max_entries - t->n_entries), n, some;
        int d;

        if (lv->at == lv->n) {
            if ((lv->def.left == 0 && !pq__runs_next(&lv->def)) || (lv->rep.left == 0 && !pq__runs_next(&lv->rep)))
                break;
            if (!lv->def.packed && !lv->rep.packed && lv->rep.value == lv->leaf->max_rep) {
                HR_TRY(take_run(lv, t, HR_MIN(most, HR_MIN(lv->def.left, lv->rep.left)), err));
                continue;
            }
            d = fill_block(lv);
            if (lv->def.bad || lv->rep.bad)
                break; /* the block holds zeros instead of levels */
            HR_TRY(check_block(lv, lv->n, d, err));
        }
        n = HR_MIN(most, lv->n - lv->at);
        some = within_rows(lv, t, n);
        HR_TRY(take_block(lv, t, some, err));
        if (some < n)
            return HR_OK; /* the next entry begins a row after the requested ones */
    }
    if (lv->def.bad || lv->rep.bad)
        return hr_error_set(err, HR_BAD_DATA, "%s levels end early or are malformed: %lld are missing",
                            lv->def.bad ? "definition" : "repetition", (long long)lv->left);
    return HR_OK;
}

hr_status pq__levels_take(pq_levels *lv, pq_take *t, hr_error *err)
{
    int64_t rows = t->rows;

    t->n_entries = t->n_slots = t->n_values = 0;
    HR_TRY(lv->leaf->max_rep ? repeated_take(lv, t, err) : flat_take(lv, t, err));
    lv->taken += t->n_entries;
    lv->rows += rows - t->rows;
    lv->n_values += t->n_values;
    return HR_OK;
}

hr_status pq__levels_end(const pq_levels *lv, unsigned padding, hr_error *err)
{
    bool rep = pq__runs_ended(&lv->rep, lv->taken, padding);

    if (rep && pq__runs_ended(&lv->def, lv->taken, padding))
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "%s levels go on after the page's %lld values",
                        rep ? "definition" : "repetition", (long long)lv->taken);
}

hr_status pq__count_rows(pq_runs *rep, int64_t n, int64_t *rows, hr_error *err)
{
    uint8_t block[PQ_BLOCK];

    *rows = 0;
    while (n > 0 && (rep->left > 0 || pq__runs_next(rep))) {
        int64_t k = HR_MIN(n, rep->left);

        if (!rep->packed) {
            *rows += rep->value == 0 ? k : 0;
            rep->left -= k;
        } else {
            k = HR_MIN(k, PQ_BLOCK);
            pq__runs_u8(rep, block, k);
            for (int64_t i = 0; i < k; i++)
                *rows += block[i] == 0;
        }
        n -= k;
    }
    if (rep->bad)
        return hr_error_set(err, HR_BAD_DATA, "repetition levels end early or are malformed: %lld are missing",
                            (long long)n);
    return HR_OK;
}
