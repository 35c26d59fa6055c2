/* sort_rows.c - sorts the rows of one or several tables (see sort_rows.h).
 *
 * 1. The prefixes of all rows show which bits differ; the 64 bits from the first differing bit on become the items'
 *    keys. Bits that all rows share (null flags, the sign of non-negative numbers, a common beginning of texts) cost
 *    nothing.
 * 2. Radix sort from the lowest digit up, only over the highest bits of the keys, as many as distinguish n random rows.
 *    Then each group of equal high bits is sorted: a short group by insertion, a long group by radix again.
 * 3. Rows with equal keys are sorted by the bits of the prefix after the key, if there are more.
 * 4. Rows with equal prefixes that are not the whole sort key are merge sorted by comparison.
 *
 * Tests: test_sorter.c, test_ordering.c. */
#include "op/order/sort_rows.h"

enum { DIGIT = 11, FEW = 24 /* FEW rows: insertion is faster */ };

void hr__sort_space_clear(hr_sort_space *s)
{
    hr__free(s->items);
    hr__free(s->spare);
    hr__free(s->words);
    hr__free(s->bases);
    *s = (hr_sort_space){ .account = s->account };
}

static hr_status room(hr_sort_space *s, int64_t n, hr_error *err)
{
    hr_account *a = s->account;
    int64_t cap = HR_MAX(1, n);

    if (n <= s->cap)
        return HR_OK;
    hr__sort_space_clear(s);
    s->items = hr__alloc(a, (size_t)cap * sizeof *s->items);
    s->spare = hr__alloc(a, (size_t)cap * sizeof *s->items);
    s->words = hr__alloc(a, (size_t)cap * HR_ORDER_WORDS * sizeof *s->words);
    if (!s->items || !s->spare || !s->words) {
        hr__sort_space_clear(s);
        return hr__error_memory(err, "sort", cap * (int64_t)(2 * sizeof *s->items + HR_ORDER_WORDS * sizeof *s->words));
    }
    s->cap = cap;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ radix */

static bool is_sorted(const hr_sort_item *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (items[i].key < items[i - 1].key)
            return false;
    return true;
}

static void insertion(hr_sort_item *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        hr_sort_item x = items[i];
        int64_t k = i;

        for (; k > 0 && items[k - 1].key > x.key; k--)
            items[k] = items[k - 1];
        items[k] = x;
    }
}

/* Digits of the keys from bit `shift` on; the result is in `to`. */
static void one_pass(const hr_sort_item *from, hr_sort_item *to, int64_t n, int shift)
{
    uint32_t at[1 << DIGIT] = { 0 }, sum = 0;

    for (int64_t i = 0; i < n; i++)
        at[from[i].key >> shift & ((1 << DIGIT) - 1)]++;
    for (int d = 0; d < 1 << DIGIT; d++) {
        uint32_t here = at[d];

        at[d] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < n; i++)
        to[at[from[i].key >> shift & ((1 << DIGIT) - 1)]++] = from[i];
}

static void radix(hr_sort_item *items, hr_sort_item *spare, int64_t n);

/* Items are sorted by their bits from `shift` on: sorts each group of equal bits by the lower bits. */
static void finish_groups(hr_sort_item *items, hr_sort_item *spare, int64_t n, int shift)
{
    for (int64_t i = 0, end; i < n; i = end) {
        bool order = true;

        for (end = i + 1; end < n && items[end].key >> shift == items[i].key >> shift; end++)
            order = order && items[end - 1].key <= items[end].key;
        if (order)
            continue;
        if (end - i <= FEW)
            insertion(items + i, end - i);
        else
            radix(items + i, spare + i, end - i);
    }
}

static void radix(hr_sort_item *items, hr_sort_item *spare, int64_t n)
{
    uint64_t differ = 0;
    int high, bits, n_passes, shift;

    if (n <= FEW) {
        insertion(items, n);
        return;
    }
    for (int64_t i = 1; i < n; i++)
        differ |= items[i].key ^ items[0].key;
    if (!differ || is_sorted(items, n))
        return;
    high = 64 - __builtin_clzll(differ); /* higher bits are equal */
    bits = 64 - __builtin_clzll((uint64_t)n) + 4;
    n_passes = (HR_MIN(bits, high) + DIGIT - 1) / DIGIT;
    shift = HR_MAX(0, high - n_passes * DIGIT);
    for (int p = 0; p < n_passes; p++) {
        one_pass(p % 2 ? spare : items, p % 2 ? items : spare, n, shift + p * DIGIT);
    }
    if (n_passes % 2)
        memcpy(items, spare, (size_t)n * sizeof *items);
    if (shift)
        finish_groups(items, spare, n, shift);
}

/* ---------------------------------------------------------------------------------------------------------- compare */

static bool after(const hr_order *o, const hr_sort_range *r, const hr_sort_item *a, const hr_sort_item *b)
{
    return hr__order_compare(o, r[a->range].table, a->row, r[b->range].table, b->row) > 0;
}

static void merge_sort(const hr_order *o, const hr_sort_range *r, hr_sort_item *items, hr_sort_item *spare, int64_t n)
{
    int64_t half = n / 2, i = 0, k = half, at = 0;

    if (n <= 8) {
        for (int64_t a = 1; a < n; a++) {
            hr_sort_item x = items[a];
            int64_t b = a;

            for (; b > 0 && after(o, r, &items[b - 1], &x); b--)
                items[b] = items[b - 1];
            items[b] = x;
        }
        return;
    }
    merge_sort(o, r, items, spare, half);
    merge_sort(o, r, items + half, spare + half, n - half);
    if (!after(o, r, &items[half - 1], &items[half]))
        return;
    memcpy(spare, items, (size_t)half * sizeof *items);
    while (i < half && k < n)
        items[at++] = after(o, r, &spare[i], &items[k]) ? items[k++] : spare[i++];
    memcpy(items + at, spare + i, (size_t)(half - i) * sizeof *items);
}

/* --------------------------------------------------------------------------------------------------------- the keys */

static hr_status room_for_bases(hr_sort_space *s, int n_ranges, hr_error *err)
{
    void *bases = s->bases;

    if (!hr__grow(s->account, &bases, &s->cap_bases, n_ranges, sizeof *s->bases))
        return hr__error_memory(err, "sort", n_ranges * (int64_t)sizeof *s->bases);
    s->bases = bases;
    return HR_OK;
}

/* Items in the order of the ranges. Returns the first bit of the prefixes after the keys; 128: none. */
static int make_items(hr_sort_space *s, const hr_order *o, const hr_sort_range *ranges, int n_ranges)
{
    uint64_t differ[HR_ORDER_WORDS] = { 0 };
    int words = o->words, shift;
    int64_t n = 0;

    for (int r = 0; r < n_ranges; r++) {
        s->bases[r] = n - ranges[r].begin;
        hr__order_prefixes(o, ranges[r].table, ranges[r].begin, ranges[r].n, s->words + n * words);
        for (int64_t i = 0; i < ranges[r].n; i++) {
            s->items[n + i].range = (uint32_t)r;
            s->items[n + i].row = (uint32_t)(ranges[r].begin + i);
        }
        n += ranges[r].n;
    }
    for (int64_t i = 1; i < n; i++)
        for (int w = 0; w < words; w++)
            differ[w] |= s->words[i * words + w] ^ s->words[w];
    if (words == 1 || !differ[0]) {
        for (int64_t i = 0; i < n; i++)
            s->items[i].key = s->words[i * words + words - 1];
        return 128;
    }
    shift = __builtin_clzll(differ[0]);
    for (int64_t i = 0; i < n; i++)
        s->items[i].key = shift ? s->words[2 * i] << shift | s->words[2 * i + 1] >> (64 - shift) : s->words[2 * i];
    return differ[1] << shift ? 64 + shift : 128;
}

/* State of one sort. */
typedef struct sorting {
    hr_sort_space *space;
    const hr_order *order;
    const hr_sort_range *ranges;
    int rest; /* the first bit after the keys */
    bool in_order;
} sorting;

static const uint64_t *prefix_of(const sorting *x, const hr_sort_item *item)
{
    return x->space->words + (x->space->bases[item->range] + item->row) * x->order->words;
}

/* Sorts rows with equal prefixes. */
static void sort_equal(sorting *x, hr_sort_item *items, int64_t n)
{
    if (n < 2 || hr__order_decides(x->order, prefix_of(x, items)))
        return;
    for (int64_t i = 1; i < n && x->in_order; i++)
        x->in_order = !after(x->order, x->ranges, &items[i - 1], &items[i]);
    merge_sort(x->order, x->ranges, items, x->space->spare, n);
}

/* Sorts rows with equal keys by the bits after the keys. */
static void sort_rest(sorting *x, hr_sort_item *items, int64_t n)
{
    if (n < 2)
        return;
    if (x->rest == 128) {
        sort_equal(x, items, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        items[i].key = prefix_of(x, &items[i])[1] << (x->rest - 64);
    if (!is_sorted(items, n)) {
        x->in_order = false;
        radix(items, x->space->spare, n);
    }
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && items[end].key == items[i].key;)
            end++;
        sort_equal(x, items + i, end - i);
    }
}

hr_status hr__sort_rows(hr_sort_space *s, const hr_order *o, const hr_sort_range *ranges, int n_ranges, int64_t *n,
                        bool *in_order, hr_error *err)
{
    sorting x = { .space = s, .order = o, .ranges = ranges, .in_order = true };
    int64_t n_rows = 0;

    for (int r = 0; r < n_ranges; r++)
        n_rows += ranges[r].n;
    *n = n_rows;
    *in_order = true;
    if (n_rows > INT32_MAX)
        return hr_error_set(err, HR_UNSUPPORTED, "sort: %lld rows at once are too many", (long long)n_rows);
    HR_TRY(room(s, n_rows, err));
    HR_TRY(room_for_bases(s, n_ranges, err));
    x.rest = make_items(s, o, ranges, n_ranges);
    x.in_order = is_sorted(s->items, n_rows);
    if (!x.in_order)
        radix(s->items, s->spare, n_rows);
    for (int64_t i = 0, end; !(x.rest == 128 && o->exact) && i < n_rows; i = end) {
        uint64_t key = s->items[i].key;

        for (end = i + 1; end < n_rows && s->items[end].key == key;)
            end++;
        sort_rest(&x, s->items + i, end - i);
    }
    *in_order = x.in_order;
    return HR_OK;
}

hr_status hr__sort_not_above(hr_sort_space *s, const hr_order *o, const hr_table *t, const uint64_t *words, int64_t *n,
                             hr_error *err)
{
    int32_t *kept;

    *n = 0;
    HR_TRY(room(s, t->n_rows, err));
    hr__order_prefixes(o, t, 0, t->n_rows, s->words);
    kept = s->spare;
    for (int64_t i = 0; i < t->n_rows; i++) {
        const uint64_t *w = s->words + i * o->words;

        kept[*n] = (int32_t)i;
        *n += w[0] != words[0] || o->words == 1 ? w[0] <= words[0] : w[1] <= words[1];
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------- pick */

int64_t hr__sort_parts(int64_t n_rows) { return n_rows / HR_PICK_ROWS + 1; }

void hr__sort_add_range(hr_sort_range *ranges, int *n_ranges, hr_table *table, int64_t begin, int64_t n)
{
    for (int64_t some; n > 0; n -= some, begin += some) {
        some = HR_MIN(n, HR_PICK_ROWS);
        ranges[(*n_ranges)++] = (hr_sort_range){ table, begin, some };
    }
}

/* Picks the items [from, from + n) of s; they come from at most HR_PICK_PARTS ranges. */
static hr_status pick_some(hr_sort_space *s, const hr_mem *mem, hr_schema *schema, const hr_sort_range *ranges,
                           int n_ranges, int64_t from, int64_t n, hr_origin *origin, hr_table **out, hr_error *err)
{
    hr_table **parts = hr__zalloc(s->account, (size_t)(HR_MIN(n_ranges, HR_PICK_PARTS) + 1) * sizeof(hr_table *));
    int32_t *part_of = hr__alloc(s->account, (size_t)n_ranges * sizeof *part_of);
    uint32_t *picks = s->spare; /* large enough: items are wider, and no longer need it */
    hr_status st = HR_OK;
    int n_parts = 0;

    if (!parts || !part_of)
        HR_GO(hr__error_memory(err, "sort", n_ranges * (int64_t)sizeof *part_of));
    memset(part_of, -1, (size_t)n_ranges * sizeof *part_of);
    for (int64_t i = 0; i < n; i++) {
        const hr_sort_item *item = &s->items[from + i];
        const hr_sort_range *r = &ranges[item->range];

        if (part_of[item->range] < 0) {
            HR_GO(hr_table_slice(r->table, r->begin, r->n, &parts[n_parts], err));
            part_of[item->range] = n_parts++;
        }
        picks[i] = (uint32_t)part_of[item->range] << HR_PICK_BITS | (uint32_t)(item->row - r->begin);
    }
    HR_GO(hr__table_pick(mem, schema, parts, n_parts, picks, n, origin, out, err));
done:
    for (int i = 0; parts && i < n_parts; i++)
        hr_table_unref(parts[i]);
    hr__free(parts);
    hr__free(part_of);
    return st;
}

/* For more than HR_PICK_PARTS ranges: HR_PICK_PARTS rows at a time cannot come from more ranges than that. */
static hr_status pick_many(hr_sort_space *s, const hr_mem *mem, hr_schema *schema, const hr_sort_range *ranges,
                           int n_ranges, int64_t n, hr_table **out, hr_error *err)
{
    int64_t n_parts = (n + HR_PICK_PARTS - 1) / HR_PICK_PARTS, made = 0;
    hr_table **parts = hr__zalloc(s->account, (size_t)(n_parts + 1) * sizeof(hr_table *));
    hr_status st = HR_OK;

    if (!parts)
        return hr__error_memory(err, "sort", n_parts * (int64_t)sizeof(hr_table *));
    for (; made < n_parts; made++)
        HR_GO(pick_some(s, mem, schema, ranges, n_ranges, made * HR_PICK_PARTS,
                        HR_MIN(HR_PICK_PARTS, n - made * HR_PICK_PARTS), NULL, &parts[made], err));
    HR_GO(hr__table_concat(mem, schema, parts, (int)n_parts, out, err));
done:
    for (int64_t i = 0; i < made; i++)
        hr_table_unref(parts[i]);
    hr__free(parts);
    return st;
}

hr_status hr__sort_pick(hr_sort_space *s, const hr_mem *mem, hr_schema *schema, const hr_sort_range *ranges,
                        int n_ranges, int64_t n, hr_origin *origin, hr_table **out, hr_error *err)
{
    hr_table *bare = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (n_ranges <= HR_PICK_PARTS)
        return pick_some(s, mem, schema, ranges, n_ranges, 0, n, origin, out, err);
    HR_GO(pick_many(s, mem, schema, ranges, n_ranges, n, &bare, err));
    HR_GO(hr__table_with_origin(bare, origin, out, err));
done:
    hr_table_unref(bare);
    return st;
}
