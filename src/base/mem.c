/* mem.c - the only caller of malloc: blocks charged to an account, growing arrays, texts.
 *
 * A block begins with 16 bytes: its account and its size. So hr__free() needs only the pointer, any thread may free a
 * block long after the operator that made it has ended, and the block keeps its account alive until then. The charge is
 * the block with its head, without what malloc adds. Tests make an allocation fail by hr__fault().
 *
 * Blocks from 256 KiB on come from the pool of pages (pages.c) and are charged as such: malloc would keep most of the
 * freed memory, uncounted, while the pool is counted and trimmed when memory is short. Under AddressSanitizer the bytes
 * after their end are poisoned, as malloc does. */
#include "base/pages.h"

#include "base/poison.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGE_BYTES ((size_t)256 << 10)

typedef struct block {
    alignas(16) hr_account *account;
    uint64_t n : 56;    /* requested bytes */
    uint64_t pages : 8; /* class + 1 of a block of pages, 0: malloc's */
} block;

_Static_assert(sizeof(block) == 16 && sizeof(block) <= HR_PAGES_SLACK, "blocks are aligned, and a head fits behind");

static block *block_of(void *p) { return (block *)p - 1; }
static int64_t block_bytes(size_t n) { return (int64_t)(n + sizeof(block)); }

/* Whether n is a possible size, and no fault is armed. */
static bool may_alloc(size_t n) { return n <= PTRDIFF_MAX - sizeof(block) && !hr__fault(HR_FAULT_MEMORY); }

/* --- large ones */

static uint8_t *pages_end(block *b) { return (uint8_t *)b + hr__pages_charged(b->pages - 1); }

static void large_resize(block *b, size_t n)
{
    uint8_t *end = (uint8_t *)(b + 1) + n;

    b->n = n;
    ASAN_UNPOISON_MEMORY_REGION(b, (size_t)(pages_end(b) - (uint8_t *)b));
    ASAN_POISON_MEMORY_REGION(end, (size_t)(pages_end(b) - end));
    (void)end;
}

static void *large_alloc(hr_account *a, size_t n, bool zero)
{
    bool fresh;
    int class;
    block *b = hr__pages_new(a, (int64_t)n, &class, &fresh);

    if (!b)
        return NULL;
    b->account = a;
    b->pages = (uint8_t)(class + 1);
    large_resize(b, n);
    if (zero && !fresh)
        memset(b + 1, 0, n);
    return b + 1;
}

static void large_free(block *b)
{
    large_resize(b, 0);
    ASAN_UNPOISON_MEMORY_REGION(b, (size_t)(pages_end(b) - (uint8_t *)b));
    hr__pages_free(b->account, b, b->pages - 1);
}

/* Whether n bytes may stay in this block: they fit, and fill more than half of it. */
static bool large_holds(const block *b, size_t n)
{
    int64_t has = hr__pages_bytes(b->pages - 1);

    return n >= LARGE_BYTES && (int64_t)n <= has && (int64_t)n > has / 2;
}

/* --- small ones */

static void *small_alloc(hr_account *a, size_t n, bool zero)
{
    block *b;

    hr__account_add(a, block_bytes(n), 1);
    b = zero ? calloc(1, n + sizeof *b) : malloc(n + sizeof *b);
    if (!b) {
        hr__account_add(a, -block_bytes(n), -1);
        return NULL;
    }
    *b = (block){ .account = a, .n = n };
    return b + 1;
}

static void *small_resize(block *b, size_t n)
{
    hr_account *a = b->account;
    int64_t more = (int64_t)n - (int64_t)b->n;

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

static void small_free(block *b)
{
    hr_account *a = b->account;
    int64_t n = block_bytes(b->n);

    free(b);
    hr__account_add(a, -n, -1); /* last: the waiter that it wakes finds the memory free */
}

/* --- both */

static void *alloc(hr_account *a, size_t n, bool zero)
{
    if (!may_alloc(n))
        return NULL;
    return n < LARGE_BYTES ? small_alloc(a, n, zero) : large_alloc(a, n, zero);
}

void *hr__alloc(hr_account *a, size_t n) { return alloc(a, n, false); }
void *hr__zalloc(hr_account *a, size_t n) { return alloc(a, n, true); }

/* Moves a block to the allocator for blocks of n bytes. */
static void *block_move(block *b, size_t n)
{
    void *p = n < LARGE_BYTES ? small_alloc(b->account, n, false) : large_alloc(b->account, n, false);

    if (!p)
        return NULL;
    memcpy(p, b + 1, HR_MIN(n, (size_t)b->n));
    hr__free(b + 1);
    return p;
}

void *hr__realloc(hr_account *a, void *p, size_t n)
{
    block *b = p ? block_of(p) : NULL;

    if (!b)
        return hr__alloc(a, n);
    if (!may_alloc(n))
        return NULL;
    if (!b->pages && n < LARGE_BYTES)
        return small_resize(b, n);
    if (b->pages && large_holds(b, n)) {
        large_resize(b, n);
        return p;
    }
    return block_move(b, n);
}

void hr__free(void *p)
{
    block *b = p ? block_of(p) : NULL;

    if (b && b->pages)
        large_free(b);
    else if (b)
        small_free(b);
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

void hr__text_reserve(hr_text *t, int64_t n) { (void)text_room(t, n); }

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

hr_label hr__bytes_label(double n)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
    int k = 0;
    hr_label s;

    for (; n >= 999.95 && k < HR_LEN(units) - 1; k++)
        n /= 1000;
    snprintf(s.text, sizeof s.text, k ? "%.1f %s" : "%.0f %s", n, units[k]);
    return s;
}

/* Bytes of the UTF-8 character at s (which ends with NUL); 0: malformed (overlong, a surrogate, cut, above 10FFFF). */
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

/* The letter of the escape, as 'n' of "\n"; 0: the byte has no short form. */
static char json_letter(unsigned char c)
{
    static const char bytes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *at = c ? strchr(bytes, c) : NULL;

    return at ? letters[at - bytes] : 0;
}

/* ASCII letters from p on that JSON has as they are. */
static int plain_length(const unsigned char *p)
{
    int n = 0;

    while (n < INT16_MAX && p[n] >= 0x20 && p[n] < 0x7f && !json_letter(p[n]))
        n++;
    return n;
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
        int n = plain_length(p);
        if (!n)
            n = utf8_length(p);
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
