/* json_value.c - single values of a JSON text: strings with escapes, numbers, words for messages.
 *
 * Strict (RFC 8259): no leading zeros, no "1." or ".5", only the escapes of the RFC; half a surrogate pair is an error,
 * since UTF-8 cannot express it. This file computes a number with up to 19 digits and a small power of ten exactly (W.
 * Clinger: How to Read Floating Point Numbers Accurately, 1990); base/number.h does the rest.
 *
 * Tests: test_json.c. */
#include "base/number.h"
#include "format/json/json_value.h"

const uint8_t hr__json_class[256] = {
    ['\t'] = 3, ['\n'] = 3, ['\r'] = 3, [' '] = 3, [','] = 1, [':'] = 1,
    ['{'] = 1,  ['}'] = 1,  ['['] = 1,  [']'] = 1, ['"'] = 1,
};

/* ---------------------------------------------------------------------------------------------------------- strings */

/* Four hexadecimal digits; -1. */
static int hex4(const uint8_t *p, const uint8_t *end)
{
    int v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i], lower = c | 0x20;

        if (c >= '0' && c <= '9')
            v = v * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            v = v * 16 + (lower - 'a' + 10);
        else
            return -1;
    }
    return v;
}

static int put_utf8(int c, uint8_t *out)
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}

/* The escape after "\u". -> bytes used; 0: malformed. */
static int unicode_escape(const uint8_t *p, const uint8_t *end, int *c)
{
    int low;

    *c = hex4(p, end);
    if (*c < 0xD800 || *c > 0xDFFF)
        return *c < 0 ? 0 : 4;
    if (*c > 0xDBFF || end - p < 10 || p[4] != '\\' || p[5] != 'u')
        return 0;
    low = hex4(p + 6, end);
    if (low < 0xDC00 || low > 0xDFFF)
        return 0;
    *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
    return 10;
}

int64_t hr__json_unescape(const uint8_t *p, int64_t n, uint8_t *out, int64_t *bad)
{
    static const uint8_t simple[256] = { ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                         ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t' };
    const uint8_t *begin = p, *end = p + n, *next;
    uint8_t *to = out;
    int c, used;

    for (;; p = next) {
        next = memchr(p, '\\', (size_t)(end - p));
        if (!next)
            next = end;
        memcpy(to, p, (size_t)(next - p));
        to += next - p;
        if (next == end)
            return to - out;
        *bad = next - begin;
        if (end - next < 2)
            return -1;
        if (simple[next[1]]) {
            *to++ = simple[next[1]];
            next += 2;
            continue;
        }
        if (next[1] != 'u' || !(used = unicode_escape(next + 2, end, &c)))
            return -1;
        to += put_utf8(c, to);
        next += 2 + used;
    }
}

/* ---------------------------------------------------------------------------------------------------------- numbers */

void hr__json_number(const uint8_t *p, hr_json_number *out) { hr__json_scan_number(p, out); }

bool hr__json_double(const uint8_t *p, const hr_json_number *n, double *out)
{
    static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                     1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

    if (n->n_digits <= 19 && n->u <= 1ull << 53 && n->exponent >= -22 && n->exponent <= 22) {
        double v = (double)n->u;

        v = n->exponent < 0 ? v / powers[-n->exponent] : v * powers[n->exponent];
        *out = n->negative ? -v : v;
        return true;
    }
    return hr__parse_double(p, n->length, false, out);
}

const char *hr__json_what(const uint8_t *p)
{
    static const struct {
        char first;
        const char *what;
    } words[] = { { '"', "a string" },
                  { '{', "an object" },
                  { '[', "an array" },
                  { 't', "true" },
                  { 'f', "false" },
                  { 'n', "null" },
                  { '}', "'}'" },
                  { ']', "']'" },
                  { ',', "','" },
                  { ':', "':'" },
                  { '\n', "the end of the line" } };

    for (int i = 0; i < HR_LEN(words); i++)
        if (words[i].first == (char)*p)
            return words[i].what;
    if (*p == '-' || (*p >= '0' && *p <= '9'))
        return "a number";
    return *p == 0 ? "a NUL byte" : "something that is not JSON";
}
