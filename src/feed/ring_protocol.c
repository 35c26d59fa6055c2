/* ring_protocol.c - encodes and decodes the messages of a ring; decoding checks every field.
 *
 * Tests: test_ring.c. */
#include "feed/ring_protocol.h"

#include <inttypes.h>
#include <stdio.h>

/* ---------------------------------------------------------------------------------------------------------- structs */

hr_status hr__ring_put_request(const hr_split_request *q, hr_ring_request *out, hr_error *err)
{
    if (q->batch_rows < 0 || q->shuffle_rows < 0)
        return hr_error_set(err, HR_INVALID,
                            "ring: batch_rows is %" PRId64 ", shuffle_rows %" PRId64 "; expected 0 or more",
                            q->batch_rows, q->shuffle_rows);
    *out = (hr_ring_request){ .batch_rows = q->batch_rows,
                              .shuffle_rows = q->shuffle_rows,
                              .shuffle_seed = q->shuffle_seed,
                              .prefetch = HR_MIN(HR_MAX(q->prefetch, 0), HR_RING_MOST_PREFETCH),
                              .drop_last = q->drop_last,
                              .own_memory = q->own_memory,
                              .has_shuffle_seed = q->has_shuffle_seed,
                              .by_row = q->by_row,
                              .ahead = q->ahead,
                              .has_epoch = q->has_epoch,
                              .epoch = q->has_epoch ? q->epoch : 0 };
    snprintf(out->extra, sizeof out->extra, "%s", q->extra);
    return HR_OK;
}

/* Whether all bytes from the first zero on are zero, and there is one. */
static bool is_padded(const char *text, size_t cap)
{
    size_t n = strnlen(text, cap);

    for (size_t i = n; i < cap; i++)
        if (text[i])
            return false;
    return n < cap;
}

bool hr__ring_get_request(const hr_message *m, hr_split_request *out)
{
    static const uint8_t none[sizeof((hr_ring_request *)NULL)->zero];
    hr_ring_request w;

    if (m->n_bytes != sizeof w)
        return false;
    memcpy(&w, m->bytes, sizeof w);
    if (w.drop_last > 1 || w.own_memory > 1 || w.has_shuffle_seed > 1 || w.by_row > 1 || w.ahead > 1 ||
        w.has_epoch > 1 || memcmp(w.zero, none, sizeof none) || w.batch_rows < 0 || w.shuffle_rows < 0 || w.epoch < 0 ||
        (w.epoch && !w.has_epoch) || w.prefetch > HR_RING_MOST_PREFETCH || !is_padded(w.extra, sizeof w.extra))
        return false;
    *out = (hr_split_request){ .batch_rows = w.batch_rows,
                               .drop_last = w.drop_last,
                               .prefetch = HR_MAX(w.prefetch, 0),
                               .own_memory = w.own_memory,
                               .shuffle_rows = w.shuffle_rows,
                               .has_shuffle_seed = w.has_shuffle_seed,
                               .shuffle_seed = w.shuffle_seed,
                               .by_row = w.by_row,
                               .ahead = w.ahead,
                               .has_epoch = w.has_epoch,
                               .epoch = w.epoch };
    memcpy(out->extra, w.extra, sizeof out->extra);
    return true;
}

bool hr__ring_get_hello(const hr_message *m, hr_ring_hello *out)
{
    if (m->n_bytes != sizeof *out)
        return false;
    memcpy(out, m->bytes, sizeof *out);
    return is_padded(out->key, sizeof out->key);
}

bool hr__ring_get_welcome(const hr_message *m, hr_ring_welcome *out)
{
    if (m->n_bytes != sizeof *out)
        return false;
    memcpy(out, m->bytes, sizeof *out);
    return out->rank >= -1;
}

bool hr__ring_get_taken(const hr_message *m, hr_ring_taken *out)
{
    if (m->n_bytes != sizeof *out)
        return false;
    memcpy(out, m->bytes, sizeof *out);
    return out->n_steps >= 0 && out->wait_ns >= 0 && out->convert_ns >= 0;
}

/* ----------------------------------------------------------------------------------------------------------- errors */

hr_status hr__ring_send_error(hr_link *l, uint32_t kind, uint64_t tag, const hr_error *what)
{
    size_t n_text = strlen(what->text) + 1, n = sizeof(int32_t) + n_text + what->detail_bytes;
    char *bytes = hr__alloc(NULL, n);
    int32_t status = what->status;
    hr_status st;

    if (!bytes)
        return hr__link_send_patiently(l, kind, tag, &status, sizeof status, NULL, NULL);
    memcpy(bytes, &status, sizeof status);
    memcpy(bytes + sizeof status, what->text, n_text);
    if (what->detail_bytes)
        memcpy(bytes + sizeof status + n_text, what->detail, what->detail_bytes);
    st = hr__link_send_patiently(l, kind, tag, bytes, (int64_t)n, NULL, NULL);
    hr__free(bytes);
    return st;
}

hr_status hr__ring_read_error(const hr_message *m, hr_error *err)
{
    int32_t status = HR_BUG;
    const char *text;
    size_t n, n_text;

    if (m->n_bytes >= (int64_t)sizeof status)
        memcpy(&status, m->bytes, sizeof status);
    if (!hr__status_is_error(status))
        status = HR_BUG;
    if (m->n_bytes <= (int64_t)sizeof status)
        return hr_error_set(err, (hr_status)status, "%s", hr_status_text((hr_status)status));
    text = (const char *)m->bytes + sizeof status;
    n = (size_t)m->n_bytes - sizeof status;
    n_text = strnlen(text, n);
    hr_error_set(err, (hr_status)status, "%.*s", (int)HR_MIN(n_text, 999), text);
    if (n_text + 1 < n)
        hr_error_set_detail(err, text + n_text + 1, n - n_text - 1);
    return (hr_status)status;
}

/* -------------------------------------------------------------------------------------------------------- positions */

char *hr__ring_put_restore(const char *position, const hr_position_how *how)
{
    return hr__printf(NULL, "%d%s", how ? how->moved + 2 * how->strict : 0, position);
}

const char *hr__ring_get_restore(const char *text, hr_position_how *how)
{
    int flags = *text ? *text - '0' : 0;

    how->moved = flags & 1;
    how->strict = flags & 2;
    return *text ? text + 1 : text;
}
