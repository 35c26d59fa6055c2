/* window.c - a buffer that moves forward over a source, or over its decompressed bytes.
 *
 * Tests: test_tar.c, test_tfrecord.c, test_fwf.c. */
#include "format/window.h"

#define LINE_BYTES (4 << 10)       /* how many more bytes of a line are wanted, at least */
#define SHORT_UNIT_BYTES (1 << 20) /* over a network, a request for a header takes the time of as many bytes */
#define FEW_UNITS 8                /* that say nothing about the others */
#define WALK_AHEAD_BYTES (1 << 20) /* at the beginning of a walk over short units */

hr_status hr__window_open(hr_window *w, hr_source *source, const hr_codec *codec, int64_t at, hr_account *account,
                          hr_error *err)
{
    *w = (hr_window){ .source = source, .mem = { account, NULL }, .at = at, .end = INT64_MAX };
    return codec ? hr__codec_stream(codec, source, account, &w->stream, err) : HR_OK;
}

void hr__window_clear(hr_window *w)
{
    hr__stream_close(w->stream);
    hr__buffer_unref(w->buffer);
    w->stream = NULL;
    w->buffer = NULL;
}

/* Reads up to n bytes after the window. */
static hr_status more(hr_window *w, uint8_t *out, int64_t n, int64_t *n_read, hr_error *err)
{
    if (w->stream)
        HR_TRY(hr__stream_read(w->stream, out, n, n_read, err));
    else
        HR_TRY(hr__source_read_some(w->source, out, w->at + hr__window_left(w), n, n_read, err));
    w->ended = *n_read < n;
    return HR_OK;
}

hr_status hr__window_fill(hr_window *w, int64_t want, int64_t most, hr_error *err)
{
    most = HR_MIN(most, w->end - w->at);
    while (hr__window_left(w) < want && !w->ended) {
        int64_t left = hr__window_left(w), room = HR_MIN(want, HR_MAX(left * 2, HR_WINDOW_BYTES)), n;
        hr_buffer *b = w->buffer;

        if (!b || b->n_bytes - w->pos < room) {
            if (!b || b->n_bytes < room)
                HR_TRY(hr__buffer_new(&w->mem, HR_MAX(room, HR_WINDOW_BYTES), &b, err));
            if (left)
                memmove(b->data, w->buffer->data + w->pos, (size_t)left);
            if (b != w->buffer)
                hr__buffer_unref(w->buffer);
            w->buffer = b;
            w->pos = 0;
            w->has = left;
        }
        HR_TRY(more(w, b->data + w->has, HR_MIN(b->n_bytes - w->has, HR_MAX(most, want) - left), &n, err));
        w->has += n;
    }
    return HR_OK;
}

const uint8_t *hr__window_newline(hr_window *w, int64_t most, hr_status *st, hr_error *err)
{
    int64_t left = hr__window_left(w), seen = -1;
    const uint8_t *newline = NULL;

    while (!newline && left > seen && left <= most) {
        seen = left;
        *st = hr__window_fill(w, HR_MAX(left * 2, left + LINE_BYTES), HR_WINDOW_BYTES, err); /* twice: few copies */
        if (*st)
            return NULL;
        left = hr__window_left(w);
        if (left > seen)
            newline = memchr(hr__window_data(w) + seen, '\n', (size_t)(left - seen));
    }
    return newline;
}

hr_status hr__window_skip(hr_window *w, int64_t n, int64_t *n_passed, hr_error *err)
{
    int64_t step = HR_MIN(n, hr__window_left(w));

    *n_passed = step;
    w->pos += step;
    w->at += step;
    if (step < n && !w->stream) {
        step = HR_MAX(HR_MIN(n - step, w->source->n_bytes - w->at), 0);
        w->at += step;
        *n_passed += step;
        w->ended = false; /* it is read again from there */
        return HR_OK;
    }
    while (*n_passed < n) {
        HR_TRY(hr__window_fill(w, 1, HR_WINDOW_BYTES, err));
        step = HR_MIN(n - *n_passed, hr__window_left(w));
        if (step == 0)
            break;
        w->pos += step;
        w->at += step;
        *n_passed += step;
    }
    return HR_OK;
}

hr_status hr__window_read_on(hr_window *w, hr_window_walk *walk, int64_t n, hr_error *err)
{
    walk->n_units++;
    if (w->stream || !hr__source_is_remote(w->source) || walk->n_units < FEW_UNITS ||
        w->at / walk->n_units > SHORT_UNIT_BYTES)
        return HR_OK;
    if (!walk->read_on.most)
        walk->read_on = hr__read_on(w->source, WALK_AHEAD_BYTES, hr__account_limit(w->mem.account));
    hr__source_read_on(w->source, &walk->read_on, w->at);
    return hr__window_fill(w, HR_MIN(n, SHORT_UNIT_BYTES), HR_WINDOW_BYTES, err);
}

hr_status hr__window_read(hr_window *w, uint8_t *out, int64_t n, int64_t *n_read, hr_error *err)
{
    int64_t step = HR_MIN(n, hr__window_left(w));

    if (step)
        memcpy(out, hr__window_data(w), (size_t)step);
    w->pos += step;
    w->at += step;
    *n_read = step;
    if (step < n && !w->ended) {
        HR_TRY(more(w, out + step, n - step, &step, err));
        w->at += step;
        *n_read += step;
    }
    return HR_OK;
}
