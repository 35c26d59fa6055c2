/* span_bins.c - how much of each bin of a time line its spans cover: what a page draws where a pixel holds many spans.
 *
 * A bin has, for each kind of span, the share of its time that spans of that kind cover, and how many of them begin
 * there. Bins without any are left out, so the number of bins may be large. The shares are exact: a page that draws
 * bins narrower than its pixels shows the same as one that draws each span.
 *
 * Tests: test_span_bins.c, test_trace.py. */
#include "exec/exec.h"

#include <math.h>
#include <stdlib.h>

typedef struct of_kind {
    double end;     /* of its spans so far */
    int64_t newest; /* its last bin in the list, -1: none */
} of_kind;

typedef struct binning {
    double width;
    of_kind *kinds;
    hr_span_bin *list;
    int64_t n, most;
} binning;

/* The bin of that index, which is not before the last one of its kind. NULL: there are too many. */
static hr_span_bin *bin_at(binning *b, int kind, int64_t index)
{
    int64_t newest = b->kinds[kind].newest;

    if (newest >= 0 && b->list[newest].index >= index)
        return &b->list[newest];
    if (b->n == b->most)
        return NULL;
    b->list[b->n] = (hr_span_bin){ .index = index, .kind = kind };
    b->kinds[kind].newest = b->n;
    return &b->list[b->n++];
}

/* false: there are too many bins. */
static bool add(binning *b, const hr_track_span *s)
{
    of_kind *k = &b->kinds[s->kind];
    double begin = HR_MAX(s->begin, k->end), end = s->end;
    int64_t at = (int64_t)(HR_MAX(s->begin, 0) / b->width);
    hr_span_bin *bin = bin_at(b, s->kind, at);

    if (!bin)
        return false;
    bin->many++;
    at = HR_MAX(at, (int64_t)(begin / b->width));
    for (; begin < end; begin = (double)++at * b->width) {
        if (!(bin = bin_at(b, s->kind, at)))
            return false;
        bin->share += HR_MAX(HR_MIN(end, (double)(at + 1) * b->width) - begin, 0) / b->width;
    }
    k->end = HR_MAX(k->end, end);
    return true;
}

static int by_place(const void *a, const void *b)
{
    const hr_span_bin *x = a, *y = b;

    return x->index != y->index ? (x->index < y->index ? -1 : 1) : (x->kind > y->kind) - (x->kind < y->kind);
}

static hr_status check(const hr_track_span *spans, int64_t n, double width, int *n_kinds, hr_error *err)
{
    *n_kinds = 0;
    if (!(width > 0) || !isfinite(width))
        return hr_error_set(err, HR_INVALID, "span_bins: width: expected a positive number, found %g", width);
    for (int64_t i = 0; i < n; i++) {
        const hr_track_span *s = &spans[i];

        if (!(s->end >= s->begin) || !(s->end / width < 1e15) || s->kind < 0 || s->kind >= HR_MOST_SPAN_KINDS)
            return hr_error_set(err, HR_INVALID,
                                "span_bins: expected spans of kinds 0 to %d that end after they begin, found kind %d "
                                "from %g to %g",
                                HR_MOST_SPAN_KINDS - 1, s->kind, s->begin, s->end);
        if (i && s->begin < spans[i - 1].begin)
            return hr_error_set(err, HR_INVALID,
                                "span_bins: expected spans in the order of their begin, found %g "
                                "after %g",
                                s->begin, spans[i - 1].begin);
        *n_kinds = HR_MAX(*n_kinds, s->kind + 1);
    }
    return HR_OK;
}

hr_status hr__span_bins(const hr_track_span *spans, int64_t n, double width, int64_t most, hr_span_bin **out,
                        int64_t *n_out, hr_error *err)
{
    binning b = { .width = width, .most = most };
    int n_kinds;
    bool fits = true;

    *out = NULL;
    *n_out = 0;
    HR_TRY(check(spans, n, width, &n_kinds, err));
    b.kinds = hr__zalloc(NULL, (size_t)n_kinds * sizeof *b.kinds);
    b.list = hr__alloc(NULL, (size_t)most * sizeof *b.list);
    if (!b.kinds || !b.list) {
        hr__free(b.kinds);
        hr__free(b.list);
        return hr__error_memory(err, "span_bins", (size_t)most * sizeof *b.list);
    }
    for (int k = 0; k < n_kinds; k++)
        b.kinds[k].newest = -1;
    for (int64_t i = 0; fits && i < n; i++)
        fits = add(&b, &spans[i]);
    hr__free(b.kinds);
    if (fits)
        qsort(b.list, (size_t)b.n, sizeof *b.list, by_place);
    *out = b.list;
    *n_out = fits ? b.n : -1;
    return HR_OK;
}
