/* pack_bins.c - chooses an open row for each document of tokens.
 *
 * Bin packing with a bounded number of open bins (Csirik and Johnson, "Bounded space on-line bin packing: best is
 * better than first"): a document goes to the first bin with room (first fit), or to the one that it leaves the least
 * room in (best fit). If no bin has room and all are open, the fullest is closed. A bin that no document fits would
 * stay open for ever, and positions could not pass it: so a bin that is much older than the others is closed.
 *
 * Concatenation is the same with one bin, which takes documents in parts.
 *
 * The lengths alone decide, never the tokens, so that a resumed run repeats the decisions from the lengths of the
 * documents.
 *
 * Tests: test_pack.c. */
#include "op/rows/pack.h"

#include <inttypes.h>
#include <stdlib.h>

hr_status hr__bins_init(hr_bins *b, hr_account *account, hr_pack_strategy strategy, int64_t seq_len, int64_t row_bytes,
                        int most, hr_error *err)
{
    *b = (hr_bins){ .account = account, .strategy = strategy, .seq_len = seq_len, .row_bytes = row_bytes };
    b->most = most;
    b->open = hr__zalloc(account, (size_t)most * sizeof *b->open);
    b->spare = hr__zalloc(account, ((size_t)most + 1) * sizeof *b->spare); /* one bin is in no list */
    return b->open && b->spare ? HR_OK : hr__error_memory(err, "pack", most * (int64_t)sizeof *b->open);
}

static void bin_free(hr_bin *bin)
{
    if (bin)
        hr__free(bin->segments);
    hr__free(bin);
}

void hr__bins_clear(hr_bins *b)
{
    for (int i = 0; i < b->n; i++)
        bin_free(b->open[i]);
    for (int i = 0; i < b->n_spare; i++)
        bin_free(b->spare[i]);
    hr__free(b->open);
    hr__free(b->spare);
    *b = (hr_bins){ 0 };
}

int hr__bins_find(const hr_bins *b, int64_t n)
{
    int64_t most = b->seq_len - n, best_used = -1; /* most tokens of a bin with room */
    int best = -1;

    for (int i = 0; i < b->n; i++) {
        int64_t used = b->open[i]->used;

        if (used > most || used <= best_used)
            continue;
        best = i;
        best_used = used;
        if (b->strategy == HR_PACK_FIRST_FIT)
            break;
    }
    return best;
}

int hr__bins_fullest(const hr_bins *b)
{
    int best = 0;

    for (int i = 1; i < b->n; i++)
        if (b->open[i]->used > b->open[best]->used)
            best = i;
    return best;
}

int hr__bins_aged(const hr_bins *b)
{
    return b->n && b->n_closed - b->open[0]->opened_at >= HR_BIN_AGE * (int64_t)b->most ? 0 : -1;
}

hr_status hr__bins_new(hr_bins *b, hr_bin **out, hr_error *err)
{
    hr_bin *bin = b->n_spare ? b->spare[--b->n_spare] : hr__zalloc(b->account, sizeof *bin + (size_t)b->row_bytes);

    *out = bin;
    if (!bin)
        return hr__error_memory(err, "pack", (int64_t)sizeof *bin + b->row_bytes);
    bin->used = bin->n_segments = 0;
    bin->has_tokens = true;
    return HR_OK;
}

void hr__bins_recycle(hr_bins *b, hr_bin *takes)
{
    if (takes)
        b->spare[b->n_spare++] = takes;
}

hr_status hr__bins_open(hr_bins *b, hr_bin **out, hr_error *err)
{
    HR_TRY(hr__bins_new(b, out, err));
    (*out)->number = b->next_number++;
    (*out)->opened_at = b->n_closed;
    b->open[b->n++] = *out;
    return HR_OK;
}

hr_bin *hr__bins_take(hr_bins *b, int i)
{
    hr_bin *bin = b->open[i];

    memmove(b->open + i, b->open + i + 1, (size_t)(--b->n - i) * sizeof *b->open);
    return bin;
}

hr_status hr__bin_add_segment(hr_bins *b, hr_bin *bin, int64_t n, hr_error *err)
{
    void *items = bin->segments;

    if (!hr__grow(b->account, &items, &bin->cap_segments, bin->n_segments + 1, sizeof *bin->segments))
        return hr__error_memory(err, "pack", (bin->n_segments + 1) * (int64_t)sizeof *bin->segments);
    bin->segments = items;
    bin->segments[bin->n_segments++] = (int32_t)n;
    bin->used += n;
    return HR_OK;
}

void hr__bins_print(const hr_bins *b, hr_text *out)
{
    for (int i = 0; i < b->n; i++)
        hr__text_add(out, "%s%" PRId64 ":%" PRId64, i ? "," : "", b->open[i]->used,
                     b->n_closed - b->open[i]->opened_at);
    if (!b->n)
        hr__text_add(out, "-");
}

/* Digits and `end`; NULL: no such number up to `most`. */
static const char *read_number(const char *p, int64_t most, char end, int64_t *out)
{
    char *stop = NULL;

    if (*p < '0' || *p > '9')
        return NULL;
    *out = strtoll(p, &stop, 10);
    return *out <= most && *stop == end ? stop + 1 : NULL;
}

bool hr__bins_parse(hr_bins *b, const char *text, hr_status *st, hr_error *err)
{
    size_t n = strcspn(text, " ");
    const char *end = text + n;

    *st = HR_OK;
    if (n == 1 && *text == '-')
        return true;
    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, ',', (size_t)(end - p));
        int64_t used, age;
        hr_bin *bin = NULL;

        if (b->n == b->most || !(p = read_number(p, b->seq_len, ':', &used)) || !used)
            return false;
        if (!(p = read_number(p, b->n_closed, stop ? ',' : *end, &age)))
            return false;
        if ((*st = hr__bins_open(b, &bin, err)))
            return false;
        bin->used = used;
        bin->opened_at = b->n_closed - age;
        bin->has_tokens = false;
        if (!stop)
            return true;
    }
    return false;
}
