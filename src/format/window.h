/* window.h - bytes of a file as formats walk them: forward, by pieces whose length they learn on the way. */
#ifndef HR_WINDOW_H
#define HR_WINDOW_H

#include "codec/codec.h"

typedef struct hr_window {
    hr_source *source; /* borrowed */
    hr_stream *stream; /* of a compressed file; NULL: the source's bytes. Its own */
    hr_mem mem;
    int64_t at; /* in the file (decompressed): what stands at buffer->data[pos] */
    hr_buffer *buffer;
    int64_t pos, has; /* bytes of buffer: used, there */
    bool ended;       /* nothing comes behind them */
    int64_t end;      /* in the file: what stands behind it is read only if it is wanted, not ahead */
} hr_window;

#define HR_WINDOW_BYTES (1 << 20)

/* Shares nothing: the source has to live longer. codec NULL: plain. */
hr_status hr__window_open(hr_window *w, hr_source *source, const hr_codec *codec, int64_t at, hr_account *account,
                          hr_error *err) HR_MUST_USE;
void hr__window_clear(hr_window *w);
/* The bytes at hand: valid until the next fill or read; skip moves inside them. */
static inline const uint8_t *hr__window_data(const hr_window *w) { return w->buffer ? w->buffer->data + w->pos : NULL; }
static inline int64_t hr__window_left(const hr_window *w) { return w->has - w->pos; }
/* Has `want` bytes at hand unless the file ends; asks for up to `most`. What is asked for is believed only as far as
 * bytes come. */
hr_status hr__window_fill(hr_window *w, int64_t want, int64_t most, hr_error *err) HR_MUST_USE;
/* Passes over n bytes. *n_passed < n: the file ends there. */
hr_status hr__window_skip(hr_window *w, int64_t n, int64_t *n_passed, hr_error *err) HR_MUST_USE;
/* The next n bytes into `out`. *n_read < n: the file ends there. */
hr_status hr__window_read(hr_window *w, uint8_t *out, int64_t n, int64_t *n_read, hr_error *err) HR_MUST_USE;

#endif
