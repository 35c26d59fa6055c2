/* regex.c - regular expressions by PCRE2, with the settings that make it agree with RE2, Arrow's library.
 *
 * \d, \w and \s are ASCII, a dot is any character but a newline, $ is the very end of the text. Features that RE2 lacks
 * (look-around, back references) work as well; limits on steps and memory end a pattern that would run for ever.
 * Threads share compiled patterns; a matcher has the memory of a match. PCRE2 allocates through hr__alloc: charged, and
 * able to fail in tests.
 *
 * Tests: test_fn_regex.c. */
#include "expr/fn/regex.h"

#ifdef HR_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>

enum { MOST_STEPS = 2000000, MOST_HEAP_KIB = 64 << 10, MOST_PATTERN = 1 << 16 };

struct hr_regex {
    pcre2_code *code;
    bool utf8;
    bool jit; /* compiled to machine code */
};

struct hr_matcher {
    const hr_regex *regex;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

static void *get_memory(PCRE2_SIZE n, void *unused)
{
    (void)unused;
    return hr__alloc(NULL, n);
}

static void give_memory(void *p, void *unused)
{
    (void)unused;
    hr__free(p);
}

static hr_status no_memory(hr_error *err) { return hr__error_memory(err, "regular expression", 1024); }

static hr_status compile(const char *who, hr_view pattern, uint32_t options, uint32_t extra, hr_regex *r, hr_error *err)
{
    pcre2_general_context *general = pcre2_general_context_create(get_memory, give_memory, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    PCRE2_UCHAR text[200];
    PCRE2_SIZE at;
    int code;
    hr_status st = HR_OK;

    if (!context)
        HR_GO(no_memory(err));
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_compile_extra_options(context, extra);
    if (!(r->code = pcre2_compile(pattern.data, (PCRE2_SIZE)pattern.n, options, &code, &at, context))) {
        if (code == PCRE2_ERROR_HEAP_FAILED || code == 121)
            HR_GO(no_memory(err));
        pcre2_get_error_message(code, text, sizeof text);
        HR_FAIL(HR_INVALID, "%s: pattern '%.*s': %s, at place %d", who, (int)HR_MIN(pattern.n, 200),
                (const char *)pattern.data, (const char *)text, (int)at);
    }
    r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0; /* without a JIT the pattern is interpreted */
done:
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    return st;
}

hr_status hr__regex_new(const char *who, hr_view pattern, unsigned flags, hr_regex **out, hr_error *err)
{
    hr_regex *r = hr__zalloc(NULL, sizeof *r);
    uint32_t options = PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return no_memory(err);
    r->utf8 = flags & HR_REGEX_UTF8;
    if (pattern.n > MOST_PATTERN)
        HR_FAIL(HR_INVALID, "%s: a pattern has %" PRId64 " bytes, expected at most %d", who, pattern.n, MOST_PATTERN);
    if (flags & HR_REGEX_LITERAL)
        options = PCRE2_LITERAL;
    options |= (flags & HR_REGEX_UTF8 ? PCRE2_UTF : 0u) | (flags & HR_REGEX_IGNORE_CASE ? PCRE2_CASELESS : 0u) |
               (flags & HR_REGEX_START ? PCRE2_ANCHORED : 0u) | (flags & HR_REGEX_END ? PCRE2_ENDANCHORED : 0u) |
               (flags & HR_REGEX_DOT_ALL ? PCRE2_DOTALL : 0u);
    HR_GO(compile(who, pattern, options, 0, r, err));
    *out = r;
    r = NULL; /* moved to the caller */
done:
    hr__regex_free(r);
    return st;
}

void hr__regex_free(hr_regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    hr__free(r);
}

int hr__regex_groups(const hr_regex *r)
{
    uint32_t n = 0;

    pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &n);
    return (int)n;
}

const char *hr__regex_group_name(const hr_regex *r, int g)
{
    uint32_t n = 0, entry = 0;
    PCRE2_SPTR table = NULL;

    pcre2_pattern_info(r->code, PCRE2_INFO_NAMECOUNT, &n);
    pcre2_pattern_info(r->code, PCRE2_INFO_NAMEENTRYSIZE, &entry);
    pcre2_pattern_info(r->code, PCRE2_INFO_NAMETABLE, &table);
    for (uint32_t i = 0; i < n; i++) /* two bytes of number, then the name */
        if ((table[i * entry] << 8 | table[i * entry + 1]) == g)
            return (const char *)table + i * entry + 2;
    return NULL;
}

hr_status hr__matcher_new(const hr_regex *r, hr_matcher **out, hr_error *err)
{
    pcre2_general_context *general = pcre2_general_context_create(get_memory, give_memory, NULL);
    hr_matcher *m = hr__zalloc(NULL, sizeof *m);

    *out = NULL;
    if (general && m) {
        m->regex = r;
        m->data = pcre2_match_data_create_from_pattern(r->code, general);
        m->context = pcre2_match_context_create(general);
    }
    pcre2_general_context_free(general);
    if (!m || !m->data || !m->context) {
        hr__matcher_free(m);
        return no_memory(err);
    }
    pcre2_set_match_limit(m->context, MOST_STEPS);
    pcre2_set_heap_limit(m->context, MOST_HEAP_KIB);
    *out = m;
    return HR_OK;
}

void hr__matcher_free(hr_matcher *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    hr__free(m);
}

hr_status hr__matcher_find(hr_matcher *m, const uint8_t *p, int64_t n, int64_t from, int64_t *begin, int64_t *end,
                           hr_error *err)
{
    const uint32_t options = m->regex->utf8 ? PCRE2_NO_UTF_CHECK : 0; /* the caller has checked */
    const PCRE2_SIZE *places;
    const pcre2_code *code = m->regex->code;
    int found = m->regex->jit /* separate, since it skips the check of the arguments */
                    ? pcre2_jit_match(code, p, (PCRE2_SIZE)n, (PCRE2_SIZE)from, 0, m->data, m->context)
                    : pcre2_match(code, p, (PCRE2_SIZE)n, (PCRE2_SIZE)from, options, m->data, m->context);
    PCRE2_UCHAR text[200];

    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code, p, (PCRE2_SIZE)n, (PCRE2_SIZE)from, options | PCRE2_NO_JIT, m->data, m->context);
    *begin = *end = -1;
    if (found == PCRE2_ERROR_NOMATCH)
        return HR_OK;
    if (found == PCRE2_ERROR_NOMEMORY)
        return no_memory(err);
    if (found < 0) {
        pcre2_get_error_message(found, text, sizeof text);
        return hr_error_set(err, HR_BAD_DATA, "the pattern on a text of %" PRId64 " bytes: %s", n, (const char *)text);
    }
    places = pcre2_get_ovector_pointer(m->data);
    *begin = (int64_t)places[0];
    *end = HR_MAX((int64_t)places[1], *begin); /* \K in look-around can swap them */
    return HR_OK;
}

bool hr__matcher_group(const hr_matcher *m, int g, int64_t *begin, int64_t *end)
{
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(m->data);

    if (g >= (int)pcre2_get_ovector_count(m->data) || places[2 * g] == PCRE2_UNSET || places[2 * g] > places[2 * g + 1])
        return false;
    *begin = (int64_t)places[2 * g];
    *end = (int64_t)places[2 * g + 1];
    return true;
}

#else

hr_status hr__regex_new(const char *who, hr_view pattern, unsigned flags, hr_regex **out, hr_error *err)
{
    (void)pattern, (void)flags;
    *out = NULL;
    return hr_error_set(err, HR_UNSUPPORTED, "%s: needs PCRE2, which this build does not have", who);
}

void hr__regex_free(hr_regex *r) { (void)r; }

int hr__regex_groups(const hr_regex *r)
{
    (void)r;
    return 0;
}

const char *hr__regex_group_name(const hr_regex *r, int g)
{
    (void)r, (void)g;
    return NULL;
}

hr_status hr__matcher_new(const hr_regex *r, hr_matcher **out, hr_error *err)
{
    (void)r;
    *out = NULL;
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no PCRE2");
}

void hr__matcher_free(hr_matcher *m) { (void)m; }

hr_status hr__matcher_find(hr_matcher *m, const uint8_t *p, int64_t n, int64_t from, int64_t *begin, int64_t *end,
                           hr_error *err)
{
    (void)m, (void)p, (void)n, (void)from;
    *begin = *end = -1;
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no PCRE2");
}

bool hr__matcher_group(const hr_matcher *m, int g, int64_t *begin, int64_t *end)
{
    (void)m, (void)g, (void)begin, (void)end;
    return false;
}
#endif
