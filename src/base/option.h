/* option.h - options as tables, which C, the command and Python read alike. */
#ifndef HR_OPTION_H
#define HR_OPTION_H

#include "base/text.h"

typedef enum hr_option_kind {
    HR_OPT_BOOL,
    HR_OPT_INT,
    HR_OPT_BYTES,
    HR_OPT_DOUBLE,
    HR_OPT_CHAR,
    HR_OPT_TEXT,
    HR_OPT_CHOICE
} hr_option_kind;
/* One line of an option table; the table ends with a zero entry. Defaults, checks, `headrace formats`, and docstrings
 * come from it. */
typedef struct hr_option {
    const char *name;
    hr_option_kind kind;
    size_t at;        /* offsetof in the options struct: bool, int64_t, int64_t, double, char, char *, int */
    double min, max;  /* INT, BYTES, DOUBLE; both 0: any */
    double value;     /* default of BOOL, INT, BYTES, DOUBLE, CHAR, CHOICE (index) */
    const char *text; /* default of TEXT; CHOICE: the names, separated by blanks */
    const char *doc;
} hr_option;
/* A NULL table has no options. */
void hr__options_default(const hr_option *table, void *options);
/* "name=value" strings into `options`; HR_INVALID names the option, its kind and the text that was found. TEXT is
 * copied. */
hr_status hr__options_parse(const hr_option *table, const char *const *settings, int n, void *options,
                            hr_error *err) HR_MUST_USE;
void hr__options_clear(const hr_option *table, void *options);
void hr__options_print(const hr_option *table, hr_text *out); /* one "name=default  doc" a line */

#endif
