/* option.c - option tables: defaults, "name=value" texts, the help text. C, the command and Python read them alike.
 *
 * A TEXT option that is not set points at its default in the table; one that is set is a copy. So setting the defaults
 * cannot fail, and hr__options_clear() frees only copies. Of two settings of one option the last counts. */
#include "base/all.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *field_of(const hr_option *o, void *options) { return (char *)options + o->at; }

void hr__options_default(const hr_option *table, void *options)
{
    for (const hr_option *o = table; o && o->name; o++) {
        void *field = field_of(o, options);
        switch (o->kind) {
        case HR_OPT_BOOL: *(bool *)field = o->value != 0; break;
        case HR_OPT_INT:
        case HR_OPT_BYTES: *(int64_t *)field = (int64_t)o->value; break;
        case HR_OPT_DOUBLE: *(double *)field = o->value; break;
        case HR_OPT_CHAR: *(char *)field = (char)o->value; break;
        case HR_OPT_TEXT: *(char **)field = (char *)(uintptr_t)o->text; break;
        case HR_OPT_CHOICE: *(int *)field = (int)o->value; break;
        }
    }
}

static void text_clear(const hr_option *o, char **field)
{
    if (*field != o->text)
        hr__free(*field);
    *field = (char *)(uintptr_t)o->text;
}

void hr__options_clear(const hr_option *table, void *options)
{
    for (const hr_option *o = table; o && o->name; o++)
        if (o->kind == HR_OPT_TEXT)
            text_clear(o, field_of(o, options));
}

/* --------------------------------------------------------------------------------------------------------- parsing */

static const char *const kind_names[] = { "true or false", "a whole number", "a number of bytes, such as 4096 or 1MiB",
                                          "a number",      "one byte",       "a text" };

static bool parse_bool(const char *s, bool *out)
{
    static const char *const words[] = { "false", "true", "no", "yes", "off", "on", "0", "1" };

    for (int i = 0; i < HR_LEN(words); i++)
        if (!strcmp(s, words[i])) {
            *out = i & 1;
            return true;
        }
    return false;
}

static bool parse_int(const char *s, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(s, &end, 10);
    return !errno && end != s && !*end;
}

/* With a point, whatever the program's locale is. */
static bool parse_double(const char *s, double *out)
{
    const char *point = localeconv()->decimal_point;
    char copy[64], *end;
    char *at;

    if (strlen(s) >= sizeof copy || strchr(s, ','))
        return false;
    strcpy(copy, s);
    if ((at = strchr(copy, '.')) && strlen(point) == 1)
        *at = *point;
    *out = strtod(copy, &end);
    return end != copy && !*end && isfinite(*out);
}

/* "," or an escape such as "\t", for bytes that are hard to type; "" is the byte 0, which readers take for "none". */
static bool parse_char(const char *s, char *out)
{
    static const char letters[] = "tnr0\\", bytes[] = "\t\n\r\0\\";
    const char *at = s[0] == '\\' && s[1] && !s[2] ? strchr(letters, s[1]) : NULL;

    if (!at && s[0] && s[1])
        return false;
    *out = at ? bytes[at - letters] : s[0];
    return true;
}

/* The index of a word among names separated by blanks; -1: none. */
static int parse_choice(const char *names, const char *s)
{
    size_t n = strlen(s);
    int i = 0;

    for (const char *p = names; *p; i++) {
        size_t here = strcspn(p, " ");
        if (here == n && !strncmp(p, s, n))
            return i;
        p += here;
        p += strspn(p, " ");
    }
    return -1;
}

static bool in_range(const hr_option *o, double v)
{
    return (o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max);
}

/* Stores the value of `s`; false: it is not of o's kind, or out of o's range. */
static bool parse_value(const hr_option *o, const char *s, void *field)
{
    int64_t n;
    double d;
    int i;

    switch (o->kind) {
    case HR_OPT_BOOL: return parse_bool(s, field);
    case HR_OPT_CHAR: return parse_char(s, field);
    case HR_OPT_INT:
    case HR_OPT_BYTES:
        if (o->kind == HR_OPT_INT ? !parse_int(s, &n) : hr_parse_bytes(s, &n, NULL) != HR_OK)
            return false;
        if (!in_range(o, (double)n))
            return false;
        *(int64_t *)field = n;
        return true;
    case HR_OPT_DOUBLE:
        if (!parse_double(s, &d) || !in_range(o, d))
            return false;
        *(double *)field = d;
        return true;
    case HR_OPT_CHOICE:
        if ((i = parse_choice(o->text, s)) < 0)
            return false;
        *(int *)field = i;
        return true;
    case HR_OPT_TEXT: break; /* stored by the caller: it can fail for memory */
    }
    return false;
}

static hr_status set_text(const hr_option *o, const char *s, char **field, hr_error *err)
{
    char *copy = hr__strdup(NULL, s);

    if (!copy)
        return hr__error_memory(err, o->name, (int64_t)strlen(s) + 1);
    text_clear(o, field);
    *field = copy;
    return HR_OK;
}

/* "option 'level': expected one of 'fast', 'best', found 'slow'", with the nearest one. */
static hr_status wrong_choice(const hr_option *o, const char *found, hr_error *err)
{
    char known[400] = "";
    size_t used = 0;
    hr_near near;

    hr__near_begin(&near, found, strlen(found));
    for (const char *word = o->text; *word; word += strspn(word, " ")) {
        const size_t n = strcspn(word, " ");
        hr__near_try(&near, word, n);
        if (used < sizeof known - 64)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s'%.*s'", used ? ", " : "",
                                     (int)HR_MIN(n, 50), word);
        word += n;
    }
    return hr_error_set(err, HR_INVALID, "option '%s': expected one of %s, found '%s'%s", o->name, known, found,
                        hr__near_hint(&near));
}

/* "option 'level': expected a whole number from 1 to 9, found 'slow'", with the range if there is one. */
static hr_status wrong_value(const hr_option *o, const char *found, hr_error *err)
{
    char range[80] = "";

    if (o->kind == HR_OPT_CHOICE)
        return wrong_choice(o, found, err);
    if (o->min != 0 || o->max != 0)
        snprintf(range, sizeof range, " from %.15g to %.15g", o->min, o->max);
    return hr_error_set(err, HR_INVALID, "option '%s': expected %s%s, found '%s'", o->name, kind_names[o->kind], range,
                        found);
}

static hr_status unknown_option(const hr_option *table, const char *name, size_t n, hr_error *err)
{
    char known[600] = "";
    size_t used = 0;
    hr_near near;

    hr__near_begin(&near, name, n);
    for (const hr_option *o = table; o && o->name; o++) {
        hr__near_try(&near, o->name, strlen(o->name));
        if (used < sizeof known - 64)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%.50s", used ? ", " : "", o->name);
    }
    return hr_error_set(err, HR_INVALID, "no option '%.*s'; there are: %s%s", (int)HR_MIN(n, 100), name,
                        used ? known : "none", hr__near_hint(&near));
}

static hr_status parse_setting(const hr_option *table, const char *setting, void *options, hr_error *err)
{
    size_t n = strcspn(setting, "=");

    if (!setting[n])
        return hr_error_set(err, HR_INVALID, "option '%s': expected name=value", setting);
    for (const hr_option *o = table; o && o->name; o++) {
        const char *value = setting + n + 1;
        if (strlen(o->name) != n || strncmp(o->name, setting, n))
            continue;
        if (o->kind == HR_OPT_TEXT)
            return set_text(o, value, field_of(o, options), err);
        return parse_value(o, value, field_of(o, options)) ? HR_OK : wrong_value(o, value, err);
    }
    return unknown_option(table, setting, n, err);
}

hr_status hr__options_parse(const hr_option *table, const char *const *settings, int n, void *options, hr_error *err)
{
    for (int i = 0; i < n; i++)
        HR_TRY(parse_setting(table, settings[i], options, err));
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- printing */

static void print_char(char c, hr_text *out)
{
    static const char bytes[] = "\t\n\r\\", letters[] = "tnr\\";
    const char *at = c ? strchr(bytes, c) : NULL;

    if (at)
        hr__text_add(out, "\\%c", letters[at - bytes]);
    else if (c)
        hr__text_add(out, "%c", c);
}

static void print_choice(const hr_option *o, hr_text *out)
{
    const char *p = o->text;

    for (int i = (int)o->value; i > 0; i--) {
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    hr__text_add(out, "%.*s (of %s)", (int)strcspn(p, " "), p, o->text);
}

/* Uses whole units only, so that the text parses to the same number. */
static void print_bytes(int64_t n, hr_text *out)
{
    static const char *const units[] = { "", "KiB", "MiB", "GiB", "TiB" };
    int i = 0;

    for (; i < HR_LEN(units) - 1 && n && n % 1024 == 0; i++)
        n /= 1024;
    hr__text_add(out, "%lld%s", (long long)n, units[i]);
}

static void print_double(double v, hr_text *out)
{
    const char *point = localeconv()->decimal_point;
    char text[40], *at;

    snprintf(text, sizeof text, "%.15g", v);
    if (strlen(point) == 1 && (at = strchr(text, *point)))
        *at = '.';
    hr__text_add(out, "%s", text);
}

static void print_default(const hr_option *o, hr_text *out)
{
    switch (o->kind) {
    case HR_OPT_BOOL: hr__text_add(out, "%s", o->value != 0 ? "true" : "false"); break;
    case HR_OPT_INT: hr__text_add(out, "%lld", (long long)o->value); break;
    case HR_OPT_BYTES: print_bytes((int64_t)o->value, out); break;
    case HR_OPT_DOUBLE: print_double(o->value, out); break;
    case HR_OPT_CHAR: print_char((char)o->value, out); break;
    case HR_OPT_TEXT: hr__text_add(out, "%s", o->text ? o->text : ""); break;
    case HR_OPT_CHOICE: print_choice(o, out); break;
    }
}

void hr__options_print(const hr_option *table, hr_text *out)
{
    for (const hr_option *o = table; o && o->name; o++) {
        hr__text_add(out, "%s=", o->name);
        print_default(o, out);
        hr__text_add(out, "  %s\n", o->doc ? o->doc : "");
    }
}
