/* mem.c - the only caller of malloc: counted, charged to an account, able to fail on request. Growing arrays and texts.
 *
 * A block begins with 16 bytes: its account and its size. So hr__free() needs no more than the pointer, a block may be
 * freed by any thread long after the operator that made it, and it keeps its account alive until then. What is charged
 * is the block with its head; what malloc itself adds is not seen. */
#include "core/core.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct block {
    alignas(16) hr_account *account;
    size_t n; /* bytes asked for */
} block;

static block *block_of(void *p) { return (block *)p - 1; }
static int64_t block_bytes(size_t n) { return (int64_t)(n + sizeof(block)); }

/* Whether n is a size at all, and today is not the day to fail. */
static bool may_alloc(size_t n) { return n <= PTRDIFF_MAX - sizeof(block) && !hr__fault(HR_FAULT_MEMORY); }

static void *alloc(hr_account *a, size_t n, bool zero)
{
    block *b;

    if (!may_alloc(n))
        return NULL;
    hr__account_add(a, block_bytes(n), 1);
    b = zero ? calloc(1, n + sizeof *b) : malloc(n + sizeof *b);
    if (!b) {
        hr__account_add(a, -block_bytes(n), -1);
        return NULL;
    }
    b->account = a;
    b->n = n;
    return b + 1;
}

void *hr__alloc(hr_account *a, size_t n) { return alloc(a, n, false); }
void *hr__zalloc(hr_account *a, size_t n) { return alloc(a, n, true); }

void *hr__realloc(hr_account *a, void *p, size_t n)
{
    block *b = p ? block_of(p) : NULL;
    int64_t more;

    if (!b)
        return hr__alloc(a, n);
    if (!may_alloc(n))
        return NULL;
    a = b->account;
    more = block_bytes(n) - block_bytes(b->n);
    if (more > 0)
        hr__account_add(a, more, 0);
    if (!(b = realloc(b, n + sizeof *b))) {
        if (more > 0)
            hr__account_add(a, -more, 0);
        return NULL;
    }
    b->n = n;
    if (more < 0)
        hr__account_add(a, more, 0);
    return b + 1;
}

void hr__free(void *p)
{
    block *b;
    hr_account *a;
    size_t n;

    if (!p)
        return;
    b = block_of(p);
    a = b->account;
    n = b->n;
    free(b);
    hr__account_add(a, -block_bytes(n), -1); /* last: whoever is woken by it finds the memory free */
}

char *hr__strndup(hr_account *a, const char *s, size_t n)
{
    char *copy = s ? hr__alloc(a, n + 1) : NULL;

    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

char *hr__strdup(hr_account *a, const char *s) { return s ? hr__strndup(a, s, strlen(s)) : NULL; }

char *hr__printf(hr_account *a, const char *fmt, ...)
{
    va_list args;
    char *s = NULL;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !(s = hr__alloc(a, (size_t)n + 1)))
        return NULL;
    va_start(args, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, args);
    va_end(args);
    return s;
}

bool hr__grow(hr_account *a, void **items, int64_t *cap, int64_t n, size_t item_bytes)
{
    int64_t most = (int64_t)(PTRDIFF_MAX / 2 / item_bytes), to;
    void *p;

    if (n <= *cap)
        return true;
    if (n > most)
        return false;
    to = HR_MIN(most, HR_MAX(n, HR_MAX(8, *cap <= most / 2 ? *cap * 2 : most)));
    if (!(p = hr__realloc(a, *items, (size_t)to * item_bytes)))
        return false;
    *items = p;
    *cap = to;
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- texts */

/* Room for n more bytes and a NUL. */
static bool text_room(hr_text *t, int64_t n)
{
    void *data = t->data;

    if (t->failed || n < 0 || n >= INT64_MAX - t->n || !hr__grow(t->account, &data, &t->cap, t->n + n + 1, 1)) {
        t->failed = true;
        return false;
    }
    t->data = data;
    return true;
}

void hr__text_add_bytes(hr_text *t, const void *data, int64_t n)
{
    if (!text_room(t, n))
        return;
    if (n)
        memcpy(t->data + t->n, data, (size_t)n);
    t->n += n;
    t->data[t->n] = 0;
}

void hr__text_add(hr_text *t, const char *fmt, ...)
{
    char small[256];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(small, sizeof small, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        hr__text_add_bytes(t, small, n);
        return;
    }
    if (!text_room(t, n))
        return;
    va_start(args, fmt);
    vsnprintf(t->data + t->n, (size_t)n + 1, fmt, args);
    va_end(args);
    t->n += n;
}

/* Bytes of the UTF-8 character at s (which ends with NUL), 0 if it is none: overlong, a surrogate, cut, above 10FFFF. */
static int utf8_length(const unsigned char *s)
{
    int n = 1;

    if (s[0] >= 0x80)
        n = s[0] < 0xC2 || s[0] > 0xF4 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] >= 0xA0) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] >= 0x90))
        return 0;
    return n;
}

/* The letter after the backslash; 0: the byte has no short form. */
static char json_letter(unsigned char c)
{
    static const char bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = c ? strchr(bytes, c) : NULL;

    return at ? letters[at - bytes] : 0;
}

void hr__text_add_json(hr_text *t, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;

    if (!s) {
        hr__text_add(t, "null");
        return;
    }
    hr__text_add_bytes(t, "\"", 1);
    while (*p) {
        int n = utf8_length(p);
        if (json_letter(*p))
            hr__text_add(t, "\\%c", json_letter(*p));
        else if (*p < 0x20)
            hr__text_add(t, "\\u%04x", *p);
        else if (!n)
            hr__text_add(t, "\\ufffd");
        else
            hr__text_add_bytes(t, p, n);
        p += n ? n : 1;
    }
    hr__text_add_bytes(t, "\"", 1);
}

void hr__text_clear(hr_text *t)
{
    hr_account *a = t->account;

    hr__free(t->data);
    *t = (hr_text){ .account = a };
}
