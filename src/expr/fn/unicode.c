/* unicode.c - classes and case of characters by utf8proc, and positions in UTF-8.
 *
 * The classes are unions of general categories, as in Arrow, so that results agree: utf8proc has no properties for
 * "digit", "cased" and the like. ASCII needs only a table, not the library.
 *
 * Tests: test_fn_string.c, test_eval.c. */
#include "expr/fn/unicode.h"

#ifdef HR_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

bool hr__unicode_known(void)
{
#ifdef HR_HAVE_UTF8PROC
    return true;
#else
    return false;
#endif
}

static unsigned ascii_class(uint32_t c)
{
    unsigned found = c >= 0x20 && c < 0x7F ? HR_CHAR_PRINTABLE : 0;

    if (c >= 'a' && c <= 'z')
        return found | HR_CHAR_ALPHA | HR_CHAR_LOWER;
    if (c >= 'A' && c <= 'Z')
        return found | HR_CHAR_ALPHA | HR_CHAR_UPPER;
    if (c >= '0' && c <= '9')
        return found | HR_CHAR_DECIMAL | HR_CHAR_DIGIT | HR_CHAR_NUMERIC;
    if (c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F))
        return found | HR_CHAR_SPACE;
    return found;
}

#ifdef HR_HAVE_UTF8PROC
/* Categories as bits. */
#define IN(...) category_in(category, (const int[]){ __VA_ARGS__, -1 })

static bool category_in(int category, const int *list)
{
    for (; *list >= 0; list++)
        if (*list == category)
            return true;
    return false;
}

static unsigned case_class(uint32_t c, int category)
{
    bool has_upper = hr__unicode_upper(c) != c, has_lower = hr__unicode_lower(c) != c;

    if (category == UTF8PROC_CATEGORY_LT)
        return HR_CHAR_TITLE;
    return (category == UTF8PROC_CATEGORY_LL || (has_upper && !has_lower) ? HR_CHAR_LOWER : 0u) |
           (category == UTF8PROC_CATEGORY_LU || (has_lower && !has_upper) ? HR_CHAR_UPPER : 0u);
}

unsigned hr__unicode_class(uint32_t c)
{
    const utf8proc_property_t *p;
    int category;
    unsigned found = 0;

    if (c < 0x80)
        return ascii_class(c);
    p = utf8proc_get_property((utf8proc_int32_t)c);
    category = p->category;
    if (IN(UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LM,
           UTF8PROC_CATEGORY_LO))
        found |= HR_CHAR_ALPHA;
    if (category == UTF8PROC_CATEGORY_ND)
        found |= HR_CHAR_DECIMAL;
    if (IN(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO))
        found |= HR_CHAR_DIGIT;
    if (IN(UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO))
        found |= HR_CHAR_NUMERIC;
    if (category == UTF8PROC_CATEGORY_ZS || p->bidi_class == UTF8PROC_BIDI_CLASS_WS ||
        p->bidi_class == UTF8PROC_BIDI_CLASS_B || p->bidi_class == UTF8PROC_BIDI_CLASS_S)
        found |= HR_CHAR_SPACE;
    if (!IN(UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CS,
            UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZL, UTF8PROC_CATEGORY_ZP))
        found |= HR_CHAR_PRINTABLE;
    return found | case_class(c, category);
}

uint32_t hr__unicode_upper(uint32_t c)
{
    return c < 0x80 ? (c >= 'a' && c <= 'z' ? c - 32 : c) : (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}

uint32_t hr__unicode_lower(uint32_t c)
{
    return c < 0x80 ? (c >= 'A' && c <= 'Z' ? c + 32 : c) : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}
#else
unsigned hr__unicode_class(uint32_t c) { return c < 0x80 ? ascii_class(c) : 0; }
uint32_t hr__unicode_upper(uint32_t c) { return c >= 'a' && c <= 'z' ? c - 32 : c; }
uint32_t hr__unicode_lower(uint32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }
#endif

int64_t hr__utf8_count(const uint8_t *p, int64_t n)
{
    int64_t count = 0;

    for (int64_t i = 0; i < n; i++)
        count += hr__utf8_starts(p[i]);
    return count;
}

bool hr__ascii_only(const uint8_t *p, int64_t n)
{
    uint8_t all = 0;

    for (int64_t i = 0; i < n; i++)
        all |= p[i];
    return all < 0x80;
}

int64_t hr__utf8_skip(const uint8_t *p, int64_t n, int64_t k)
{
    int64_t i = 0;

    for (; i < n; i++)
        if (hr__utf8_starts(p[i]) && k-- <= 0)
            break;
    return i;
}
