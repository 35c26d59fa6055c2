/* split_api.c - hr_split_*: the splits of headrace.h, in which all ranks have the same request.
 *
 * split.c compares a request of each rank, as processes need it. Here the options of hr_split_open() are the request of
 * all ranks.
 *
 * Tests: test_public_api.c. */
#include "feed/feed.h"

hr_status hr_split_open(hr_plan *p, int n_ranks, hr_split_tail tail, const hr_feed_options *options, hr_split **out,
                        hr_error *err)
{
    HR_NEED(p, out);

    hr_feed_options o;
    hr_split_request *q;

    *out = NULL;
    HR_TRY(HR_STRUCT_NEED(hr_feed_options, options, &o));
    if (o.batch_rows < (hr__plan_makes_batches(p) && !o.shuffle_rows ? 0 : 1))
        return hr_error_set(err, HR_INVALID, "split: batch_rows is %lld; a split needs 1 or more",
                            (long long)o.batch_rows);
    HR_TRY(hr__split_new(p, n_ranks, tail, &o, out, err));
    q = hr__split_usual(*out);
    q->batch_rows = o.batch_rows;
    q->drop_last = o.drop_last;
    q->prefetch = o.prefetch == 0 ? 2 : o.prefetch;
    q->shuffle_rows = o.shuffle_rows;
    q->has_shuffle_seed = o.shuffle_seed != NULL;
    q->shuffle_seed = o.shuffle_seed ? *o.shuffle_seed : 0;
    return HR_OK;
}

hr_split *hr_split_ref(hr_split *s) { return hr__split_ref(s); }

void hr_split_unref(hr_split *s) { hr__split_unref(s); }

int hr_split_ranks(const hr_split *s) { return hr__split_n_ranks(s); }

hr_status hr_split_begin(hr_split *s, int rank, int timeout_ms, hr_error *err)
{
    HR_NEED(s);

    return hr__split_begin(s, rank, hr__split_usual(s), timeout_ms, err);
}

hr_status hr_split_next(hr_split *s, int rank, int timeout_ms, hr_table **out, hr_error *err)
{
    HR_NEED(s, out);

    return hr__split_next(s, rank, 0, timeout_ms, out, err);
}

void hr_split_leave(hr_split *s, int rank) { hr__split_leave(s, rank); }

void hr_split_lost(hr_split *s, int rank, const char *why)
{
    hr_error e = HR_ERROR_INIT;

    if (why)
        hr_error_set(&e, HR_PEER, "%s", why);
    hr__split_lost(s, rank, why ? &e : NULL);
    hr_error_clear(&e);
}

hr_status hr_split_position(hr_split *s, char **out, hr_error *err)
{
    HR_NEED(s, out);

    return hr__split_position(s, out, err);
}

hr_status hr_split_restore(hr_split *s, const char *position, hr_error *err)
{
    HR_NEED(s, position);

    return hr__split_restore(s, position, NULL, err);
}

hr_status hr_split_stats(hr_split *s, char **out, hr_error *err)
{
    HR_NEED(s, out);

    return hr__split_stats(s, out, err);
}

void hr_split_close(hr_split *s)
{
    if (s)
        hr__split_close(s);
}
