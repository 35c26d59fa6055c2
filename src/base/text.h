/* text.h - a growing text, and bytes as text. */
#ifndef HR_TEXT_H
#define HR_TEXT_H

#include "base/mem.h"

/* A growing text, for messages, JSON and explain(). After a failed append `failed` stays set, text stays valid. */
typedef struct hr_text {
    hr_account *account;
    char *data; /* NUL-terminated once non-NULL */
    int64_t n, cap;
    bool failed;
} hr_text;
void hr__text_add(hr_text *t, const char *fmt, ...) HR_PRINTF(2, 3);
void hr__text_add_bytes(hr_text *t, const void *data, int64_t n);
void hr__text_add_json(hr_text *t, const char *s); /* a quoted, escaped JSON string; invalid UTF-8 becomes \ufffd */
void hr__text_add_base64(hr_text *t, const uint8_t *data, int64_t n);
void hr__text_clear(hr_text *t);
bool hr__utf8_valid(const void *data, int64_t n);
bool hr__utf8_valid_by(unsigned cpu, const void *data, int64_t n); /* with these CPU features: for tests */
/* Bytes of base64 into `out`, which has room for n_text / 4 * 3 + 3; -1: a letter is not of base64. Padding is
 * optional. */
int64_t hr__base64_read(const uint8_t *text, int64_t n_text, uint8_t *out);

#endif
