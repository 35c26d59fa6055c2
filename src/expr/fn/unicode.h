/* unicode.h - properties of characters for functions of text: case, classes, UTF-8. For src/expr only.
 *
 * utf8proc has the data beyond ASCII; a build without it knows only ASCII (hr__unicode_known), and functions that need
 * more return an error. Case mapping is character by character (no "ss" for "ß"); classes are those of Arrow's utf8_
 * kernels. */
#ifndef HR_EXPR_UNICODE_H
#define HR_EXPR_UNICODE_H

#include "data/data.h"

enum {
    HR_CHAR_ALPHA = 1,
    HR_CHAR_DECIMAL = 2, /* digits 0 to 9 of any script */
    HR_CHAR_DIGIT = 4,   /* and superscripts, fractions and the like */
    HR_CHAR_NUMERIC = 8, /* and letters that are numbers */
    HR_CHAR_SPACE = 16,
    HR_CHAR_LOWER = 32,
    HR_CHAR_UPPER = 64,
    HR_CHAR_TITLE = 128, /* one character that is an upper and a lower letter */
    HR_CHAR_CASED = HR_CHAR_LOWER | HR_CHAR_UPPER | HR_CHAR_TITLE,
    HR_CHAR_PRINTABLE = 256,
    HR_CHAR_ALNUM = HR_CHAR_ALPHA | HR_CHAR_NUMERIC,
};

bool hr__unicode_known(void); /* false: characters from 128 on have no class and no case */
unsigned hr__unicode_class(uint32_t c);
uint32_t hr__unicode_upper(uint32_t c);
uint32_t hr__unicode_lower(uint32_t c);

/* The character at p, with n >= 1 bytes; *bytes: its length. A byte that is no UTF-8 counts as a character. */
static inline uint32_t hr__utf8_next(const uint8_t *p, int64_t n, int *bytes)
{
    *bytes = 1;
    if (p[0] < 0xC0)
        return p[0];
    if (p[0] < 0xE0 && n >= 2) {
        *bytes = 2;
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    }
    if (p[0] >= 0xE0 && p[0] < 0xF0 && n >= 3) {
        *bytes = 3;
        return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    if (p[0] >= 0xF0 && n >= 4) {
        *bytes = 4;
        return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    }
    return p[0];
}

/* Writes the character at p, which has room for 4 bytes; -> its length. */
static inline int hr__utf8_put(uint8_t *p, uint32_t c)
{
    if (c < 0x80) {
        p[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        p[0] = (uint8_t)(0xC0 | c >> 6);
        p[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        p[0] = (uint8_t)(0xE0 | c >> 12);
        p[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        p[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    p[0] = (uint8_t)(0xF0 | c >> 18);
    p[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    p[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    p[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

static inline bool hr__utf8_starts(uint8_t byte) { return (byte & 0xC0) != 0x80; }

int64_t hr__utf8_count(const uint8_t *p, int64_t n); /* characters */
bool hr__ascii_only(const uint8_t *p, int64_t n);
/* The offset of the k-th character from the left; n if the text has fewer. */
int64_t hr__utf8_skip(const uint8_t *p, int64_t n, int64_t k);

#endif
