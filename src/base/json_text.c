/* json_text.c - finds a member in a small JSON document, without a tree of it.
 *
 * The letters are read once: a text that a colon follows is a name, and the value behind it is taken if the name is the
 * one that is looked for. Names with escapes are compared without them. A document that is not JSON has no members.
 *
 * Tests: test_credentials.c. */
#include "base/all.h"

#include <string.h>

typedef struct cursor {
    const char *p, *end;
} cursor;

static void skip_blanks(cursor *c)
{
    while (c->p < c->end && strchr(" \t\r\n", *c->p) && *c->p)
        c->p++;
}

/* Four digits of \uXXXX; -1: they are none. */
static int32_t read_unit(cursor *c)
{
    int32_t unit = 0;

    if (c->end - c->p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char d = *c->p++;
        int value = d >= '0' && d <= '9' ? d - '0' : (d | 32) >= 'a' && (d | 32) <= 'f' ? (d | 32) - 'a' + 10 : -1;

        if (value < 0)
            return -1;
        unit = unit << 4 | value;
    }
    return unit;
}

static void add_character(hr_text *out, int32_t c)
{
    char bytes[4];
    int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (int i = n - 1; i > 0; i--, c >>= 6)
        bytes[i] = (char)(0x80 | (c & 0x3f));
    bytes[0] = (char)(n == 1 ? c : (0xf00 >> n & 0xff) | c);
    hr__text_add_bytes(out, bytes, n);
}

/* What stands behind a backslash. */
static bool read_escape(cursor *c, hr_text *out)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *at;
    int32_t unit, low;

    if (c->p == c->end)
        return false;
    if (*c->p != 'u') {
        at = *c->p ? strchr(letters, *c->p++) : NULL;
        if (at)
            hr__text_add_bytes(out, &values[at - letters], 1);
        return at != NULL;
    }
    c->p++;
    unit = read_unit(c);
    if (unit >= 0xd800 && unit < 0xdc00) {
        if (c->end - c->p < 6 || c->p[0] != '\\' || c->p[1] != 'u')
            return false;
        c->p += 2;
        low = read_unit(c);
        if (low < 0xdc00 || low > 0xdfff)
            return false;
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    if (unit <= 0)
        return false; /* a NUL would end the text */
    add_character(out, unit);
    return true;
}

/* A text, from its first quote on. */
static bool read_text(cursor *c, hr_text *out)
{
    hr__text_add_bytes(out, "", 0);
    for (c->p++; c->p < c->end && *c->p != '"';) {
        if (*c->p == '\\') {
            c->p++;
            if (!read_escape(c, out))
                return false;
        } else {
            hr__text_add_bytes(out, c->p++, 1);
        }
    }
    if (c->p == c->end)
        return false;
    c->p++;
    return !out->failed;
}

/* The value behind a colon, if it is a text or a number. */
static char *read_value(cursor *c)
{
    hr_text out = { 0 };
    const char *begin;

    skip_blanks(c);
    if (c->p < c->end && *c->p == '"') {
        if (!read_text(c, &out))
            hr__text_clear(&out);
        else if (!out.data)
            return hr__strdup(NULL, "");
        return out.data;
    }
    for (begin = c->p; c->p < c->end && *c->p && strchr("0123456789+-.eE", *c->p);)
        c->p++;
    return c->p > begin ? hr__strndup(NULL, begin, (size_t)(c->p - begin)) : NULL;
}

char *hr__json_text(const char *json, int64_t n, const char *name)
{
    cursor c = { json, json + n };

    while (c.p < c.end) {
        hr_text text = { 0 };
        bool is_it;

        if (*c.p != '"') {
            c.p++;
            continue;
        }
        if (!read_text(&c, &text)) {
            hr__text_clear(&text);
            return NULL;
        }
        is_it = strcmp(text.data ? text.data : "", name) == 0;
        hr__text_clear(&text);
        skip_blanks(&c);
        if (c.p == c.end || *c.p != ':')
            continue; /* a value, or an element of a list */
        c.p++;
        if (is_it)
            return read_value(&c);
    }
    return NULL;
}
