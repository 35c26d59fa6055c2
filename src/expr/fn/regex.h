/* regex.h - regular expressions; only regex.c includes PCRE2. For src/expr only. */
#ifndef HR_EXPR_REGEX_H
#define HR_EXPR_REGEX_H

#include "expr/fn.h"

enum {
    HR_REGEX_LITERAL = 1,     /* the pattern is literal text */
    HR_REGEX_IGNORE_CASE = 2, /* also beyond ASCII */
    HR_REGEX_UTF8 = 4,        /* patterns and texts are characters; else bytes */
    HR_REGEX_START = 8,       /* only at the beginning of the text */
    HR_REGEX_END = 16,        /* only up to the end of the text */
    HR_REGEX_DOT_ALL = 32,    /* a dot matches a newline, too */
};

typedef struct hr_regex hr_regex;     /* compiled; serves many threads */
typedef struct hr_matcher hr_matcher; /* for one thread */

/* HR_INVALID shows pattern and place; HR_UNSUPPORTED in a build without PCRE2. `who` names the function. */
hr_status hr__regex_new(const char *who, hr_view pattern, unsigned flags, hr_regex **out, hr_error *err) HR_MUST_USE;
void hr__regex_free(hr_regex *r); /* NULL is fine */
int hr__regex_groups(const hr_regex *r);
/* The name of group g (from 1), borrowed; NULL: it has none. */
const char *hr__regex_group_name(const hr_regex *r, int g);

hr_status hr__matcher_new(const hr_regex *r, hr_matcher **out, hr_error *err) HR_MUST_USE;
void hr__matcher_free(hr_matcher *m);
/* The first match in p[from, n); the text before `from` counts for anchors. *begin < 0: none. A UTF-8 regex needs UTF-8
 * texts. HR_BAD_DATA: too many steps. */
hr_status hr__matcher_find(hr_matcher *m, const uint8_t *p, int64_t n, int64_t from, int64_t *begin, int64_t *end,
                           hr_error *err) HR_MUST_USE;
/* A column of booleans, places or counts, of the type of `call`; checks first that the rows of `a` are UTF-8. */
typedef enum hr_regex_use { HR_REGEX_MATCH, HR_REGEX_FIND, HR_REGEX_COUNT } hr_regex_use;
hr_status hr__regex_column(const hr_bound_call *call, const hr_eval *how, const hr_array *a, const hr_regex *r,
                           hr_regex_use use, hr_array **out, hr_error *err) HR_MUST_USE; /* fn_regex.c */
/* Group g of the last match; false: the group has no match. */
bool hr__matcher_group(const hr_matcher *m, int g, int64_t *begin, int64_t *end);

#endif
