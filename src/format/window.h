/* window.h - a window over the bytes of a file, which formats read forward, in units of unknown length. */
#ifndef HR_WINDOW_H
#define HR_WINDOW_H

#include "codec/codec.h"

typedef struct hr_window {
    hr_source *source; /* borrowed */
    hr_stream *stream; /* of a compressed file, owned; NULL: the source's bytes */
    hr_mem mem;
    int64_t at; /* offset of buffer->data[pos] in the (decompressed) file */
    hr_buffer *buffer;
    int64_t pos, has; /* bytes of buffer: used; available */
    bool ended;       /* no bytes follow */
    int64_t end;      /* offset in the file; bytes after it are read only on request, not ahead */
} hr_window;

#define HR_WINDOW_BYTES (1 << 20)

/* Borrows the source, which must outlive the window. codec NULL: plain. */
hr_status hr__window_open(hr_window *w, hr_source *source, const hr_codec *codec, int64_t at, hr_account *account,
                          hr_error *err) HR_MUST_USE;
void hr__window_clear(hr_window *w);
/* The available bytes: valid until the next fill or read; skip moves inside them. */
static inline const uint8_t *hr__window_data(const hr_window *w) { return w->buffer ? w->buffer->data + w->pos : NULL; }
static inline int64_t hr__window_left(const hr_window *w) { return w->has - w->pos; }
/* Makes `want` bytes available unless the file ends; reads up to `most`. The buffer grows only as bytes arrive, so a
 * wrong length allocates little. */
hr_status hr__window_fill(hr_window *w, int64_t want, int64_t most, hr_error *err) HR_MUST_USE;
/* For hr__window_line, where no newline is at hand: reads on. NULL: an error, the file's end, or more than `most` bytes
 * without one. */
const uint8_t *hr__window_newline(hr_window *w, int64_t most, hr_status *st, hr_error *err);
/* The line that begins here, without its end: "\n", "\r\n", or the end of the file. *step: its bytes with the end, for
 * skip; 0: the file ends here; -1: the line has more than `most` bytes. */
static inline hr_status hr__window_line(hr_window *w, int64_t most, hr_view *line, int64_t *step, hr_error *err)
{
    int64_t left = hr__window_left(w);
    const uint8_t *newline = left ? memchr(hr__window_data(w), '\n', (size_t)left) : NULL;
    hr_status st = HR_OK;

    if (!newline)
        newline = hr__window_newline(w, most, &st, err);
    *line = (hr_view){ hr__window_data(w), newline ? newline - hr__window_data(w) : hr__window_left(w) };
    *step = newline ? line->n + 1 : line->n <= most ? line->n : -1;
    if (line->n > 0 && line->data[line->n - 1] == '\r')
        line->n--;
    return st;
}
/* Skips n bytes. *n_passed < n: the file ends there. */
hr_status hr__window_skip(hr_window *w, int64_t n, int64_t *n_passed, hr_error *err) HR_MUST_USE;
/* A walk over units from the file's beginning, of which it wants the headers. Before it skips n bytes: where most units
 * are short and each header is a request over a network, reads these bytes instead, and lets what follows travel ahead
 * as a stream does. Else nothing happens. */
typedef struct hr_window_walk {
    int64_t n_units; /* so far */
    hr_read_on read_on;
} hr_window_walk;
hr_status hr__window_read_on(hr_window *w, hr_window_walk *walk, int64_t n, hr_error *err) HR_MUST_USE;
/* The next n bytes into `out`. *n_read < n: the file ends there. */
hr_status hr__window_read(hr_window *w, uint8_t *out, int64_t n, int64_t *n_read, hr_error *err) HR_MUST_USE;

#endif
