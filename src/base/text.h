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
void hr__text_reserve(hr_text *t, int64_t n); /* room for n bytes more */
void hr__text_add_bytes(hr_text *t, const void *data, int64_t n);
void hr__text_add_json(hr_text *t, const char *s); /* a quoted, escaped JSON string; invalid UTF-8 becomes \ufffd */
void hr__text_add_base64(hr_text *t, const uint8_t *data, int64_t n);
void hr__text_clear(hr_text *t);

/* A short text: a number with its unit, or a name. */
typedef struct hr_label {
    char text[32];
} hr_label;
hr_label hr__bytes_label(double n); /* "1.5 MB" */

bool hr__utf8_valid(const void *data, int64_t n);
bool hr__utf8_valid_by(unsigned cpu, const void *data, int64_t n); /* with these CPU features: for tests */
/* Bytes of base64 into `out`, which has room for n_text / 4 * 3 + 3; -1: a letter is not of base64. Padding is
 * optional. */
int64_t hr__base64_read(const uint8_t *text, int64_t n_text, uint8_t *out);

/* json_text.c: the value of the first member of this name in a small JSON document, at any depth: a text without its
 * escapes, or the letters of a number. New; NULL: there is none, it is an object, a list, null or a word, the document
 * is damaged before it, or no memory. */
char *hr__json_text(const char *json, int64_t n, const char *name);

/* program.c: runs a command of words and quotes, without a shell, and waits for its end. Adds what it prints, at most 1
 * MiB. HR_IO: it ends with another status than 0, or does not end in time. */
hr_status hr__run_program(const char *command, int timeout_ms, hr_text *out, hr_error *err) HR_MUST_USE;

/* nearest.c: which known name a mistyped one is most like. hr__near_begin() with the name, hr__near_try() for each
 * known one; then hr__near_hint() gives the end of a message: "; did you mean 'x'?", or "". */
#define HR_NEAR_CHARACTERS 64 /* longer names are like none */
#define HR_NEAR_KNOWN 500     /* bytes of the list of known names; the rest becomes "..." */
typedef struct hr_near {
    char name[HR_NEAR_CHARACTERS], found[HR_NEAR_CHARACTERS], hint[HR_NEAR_CHARACTERS + 24];
    char known[HR_NEAR_KNOWN]; /* as a list: "a, b, ..." */
    size_t n, n_known;
    int fewest; /* one more than the edits that are still allowed */
} hr_near;
void hr__near_begin(hr_near *near, const char *name, size_t n);
void hr__near_try(hr_near *near, const char *known, size_t n);
const char *hr__near_hint(hr_near *near);
/* The error for a column that is not there: "WHERE: no column 'NAME'; there are: a, b; did you mean 'b'?" -> st */
hr_status hr__near_error(hr_near *near, hr_status st, const char *where, const char *name, hr_error *err);

#endif
