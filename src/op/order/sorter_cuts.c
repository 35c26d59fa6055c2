/* sorter_cuts.c - cuts: places in the whole order of an external sort, and the choice of cuts for parts (see
 * sorter_parts.h).
 *
 * Tests: test_sorter.c, test_keyed.c. */
#include "op/order/sorter_parts.h"

enum {
    KEY_BYTES = 256, /* of a cut at most */
    SAMPLES = 16,    /* for each cut */
};

void hr__cut_clear(hr_cut *c)
{
    hr__free(c->bytes);
    c->bytes = NULL;
}

void hr__cuts_free(hr_cut *cuts, int64_t n)
{
    for (int64_t i = 0; cuts && i < n; i++)
        hr__cut_clear(&cuts[i]);
    hr__free(cuts);
}

/* The cut before a row of a table. */
hr_status hr__cut_at(const hr_sorter *s, const hr_table *t, int64_t row, hr_cut *out, hr_error *err)
{
    hr_text bytes = { .account = s->account };

    *out = (hr_cut){ .whole = true };
    hr__order_prefixes(s->order, t, row, 1, out->words);
    if (s->order->exact)
        return HR_OK;
    hr__order_bytes(s->order, t, row, &bytes);
    if (bytes.failed) {
        hr__text_clear(&bytes);
        return hr__error_memory(err, s->name, KEY_BYTES);
    }
    out->whole = bytes.n <= KEY_BYTES;
    out->n_bytes = HR_MIN(bytes.n, KEY_BYTES);
    if (!(out->bytes = hr__alloc(s->account, (size_t)out->n_bytes))) {
        hr__text_clear(&bytes);
        return hr__error_memory(err, s->name, out->n_bytes);
    }
    memcpy(out->bytes, bytes.data, (size_t)out->n_bytes);
    hr__text_clear(&bytes);
    return HR_OK;
}

static hr_status cut_copy(const hr_sorter *s, const hr_cut *from, hr_cut *to, hr_error *err)
{
    *to = *from;
    if (!from->bytes)
        return HR_OK;
    if (!(to->bytes = hr__alloc(s->account, (size_t)from->n_bytes)))
        return hr__error_memory(err, s->name, from->n_bytes);
    memcpy(to->bytes, from->bytes, (size_t)from->n_bytes);
    return HR_OK;
}

static int compare_words(const hr_order *o, const uint64_t *a, const uint64_t *b)
{
    for (int w = 0; w < o->words; w++)
        if (a[w] != b[w])
            return a[w] < b[w] ? -1 : 1;
    return 0;
}

static int compare_bytes(const uint8_t *a, int64_t n, const uint8_t *b, int64_t m)
{
    int64_t least = HR_MIN(n, m);

    return least ? memcmp(a, b, (size_t)least) : 0;
}

int hr__compare_places(int64_t run_a, int64_t row_a, int64_t run_b, int64_t row_b)
{
    if (run_a != run_b)
        return run_a < run_b ? -1 : 1;
    return (row_a > row_b) - (row_a < row_b);
}

/* A cut with an incomplete key comes before all rows that begin with it. */
int hr__compare_cuts(const hr_sorter *s, const hr_cut *a, const hr_cut *b)
{
    int c = compare_words(s->order, a->words, b->words);

    if (!c && a->bytes && b->bytes)
        c = compare_bytes(a->bytes, a->n_bytes, b->bytes, b->n_bytes);
    if (c || !a->whole || !b->whole)
        return c;
    return hr__compare_places(a->run, a->row, b->run, b->row);
}

/* Whether row `row` of t (row `place` of run `run`) comes before the cut. */
static bool is_before(const hr_sorter *s, const hr_table *t, int64_t row, int64_t run, int64_t place, const hr_cut *c,
                      hr_text *scratch)
{
    uint64_t words[HR_ORDER_WORDS];
    int d;

    hr__order_prefixes(s->order, t, row, 1, words);
    d = compare_words(s->order, words, c->words);
    if (!d && c->bytes) {
        scratch->n = 0;
        hr__order_bytes(s->order, t, row, scratch);
        d = compare_bytes((const uint8_t *)scratch->data, scratch->n, c->bytes, c->n_bytes);
    }
    if (d || !c->whole)
        return d < 0;
    return hr__compare_places(run, place, c->run, c->row) < 0;
}

/* The first of rows [begin, end) of t that does not come before the cut; cut NULL: begin. */
hr_status hr__cut_find(const hr_sorter *s, const hr_table *t, int64_t begin, int64_t end, int64_t run,
                       int64_t first_place, const hr_cut *c, int64_t *out, hr_error *err)
{
    hr_text scratch = { .account = s->account };

    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;

        if (is_before(s, t, middle, run, first_place + middle, c, &scratch))
            begin = middle + 1;
        else
            end = middle;
    }
    *out = begin;
    if (scratch.failed) {
        hr__text_clear(&scratch);
        return hr__error_memory(err, s->name, KEY_BYTES);
    }
    hr__text_clear(&scratch);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------- where to cut */

typedef struct samples {
    hr_cut *items;
    int64_t n, cap;
} samples;

static hr_status add_sample(hr_sorter *s, samples *x, hr_cut c, hr_error *err)
{
    void *items = x->items;

    if (!hr__grow(s->account, &items, &x->cap, x->n + 1, sizeof *x->items)) {
        hr__cut_clear(&c);
        return hr__error_memory(err, s->name, (x->n + 1) * (int64_t)sizeof *x->items);
    }
    x->items = items;
    x->items[x->n++] = c;
    return HR_OK;
}

/* Samples every stride-th row, counted over all runs; of a run on disk the first rows of pages. */
static hr_status take_samples(hr_sorter *s, hr_sort_run **runs, int64_t n_runs, int64_t stride, samples *out,
                              hr_error *err)
{
    int64_t at = stride / 2; /* in the run */
    hr_cut c;

    for (int64_t r = 0; r < n_runs; r++) {
        for (; runs[r]->table && at < runs[r]->n_rows; at += stride) {
            HR_TRY(hr__cut_at(s, runs[r]->table, at, &c, err));
            c.run = r;
            c.row = at;
            c.weight = stride;
            HR_TRY(add_sample(s, out, c, err));
        }
        if (runs[r]->table)
            at -= runs[r]->n_rows;
        for (int64_t p = 0; p < runs[r]->n_pages; p++) {
            HR_TRY(cut_copy(s, &runs[r]->pages[p].first, &c, err));
            c.run = r;
            c.row = runs[r]->pages[p].first_row;
            c.weight = runs[r]->pages[p].place.n_rows;
            HR_TRY(add_sample(s, out, c, err));
        }
    }
    return HR_OK;
}

static void sift(const hr_sorter *s, hr_cut *items, int64_t at, int64_t n)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        hr_cut x = items[at];

        if (child + 1 < n && hr__compare_cuts(s, &items[child], &items[child + 1]) < 0)
            child++;
        if (hr__compare_cuts(s, &items[at], &items[child]) >= 0)
            return;
        items[at] = items[child];
        items[child] = x;
    }
}

static void heap_sort(const hr_sorter *s, hr_cut *items, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        sift(s, items, i, n);
    for (int64_t end = n; end-- > 1;) {
        hr_cut x = items[0];

        items[0] = items[end];
        items[end] = x;
        sift(s, items, 0, end);
    }
}

/* *n: the wanted number of parts; becomes the actual number. *out: the cuts between them. */
hr_status hr__choose_cuts(hr_sorter *s, hr_sort_run **runs, int64_t n_runs, int64_t *n, hr_cut **out, hr_error *err)
{
    int64_t n_rows = 0, n_cuts = 0, sum = 0;
    hr_status st = HR_OK;
    samples x = { 0 };

    *out = NULL;
    for (int64_t r = 0; r < n_runs; r++)
        n_rows += runs[r]->n_rows;
    if (*n <= 1 || n_rows <= 1) {
        *n = 1;
        return HR_OK;
    }
    HR_GO(take_samples(s, runs, n_runs, HR_MAX(1, n_rows / *n / SAMPLES), &x, err));
    heap_sort(s, x.items, x.n);
    if (!(*out = hr__zalloc(s->account, (size_t)*n * sizeof **out)))
        HR_GO(hr__error_memory(err, s->name, *n * (int64_t)sizeof **out));
    for (int64_t i = 0; i < x.n && n_cuts < *n - 1; i++) {
        if (sum >= (n_rows * (n_cuts + 1) + *n - 1) / *n && sum > 0) {
            (*out)[n_cuts++] = x.items[i];
            x.items[i].bytes = NULL; /* moved */
        }
        sum += x.items[i].weight;
    }
    *n = n_cuts + 1;
done:
    for (int64_t i = 0; i < x.n; i++)
        hr__cut_clear(&x.items[i]);
    hr__free(x.items);
    return st;
}
