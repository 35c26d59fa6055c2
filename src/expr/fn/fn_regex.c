/* fn_regex.c - functions of patterns in text: match, find, count, replace, split, extract; also text without regard to
 * case.
 *
 * Results equal those of Arrow's *_regex kernels: places are bytes; a replacement is \0 to \9 and text; an empty match
 * right behind a match is not replaced, and an empty match separates nothing. LIKE patterns become regular expressions,
 * and so does a literal text with ignore_case. The code checks once that the texts of a column are UTF-8, before the
 * library reads them. */
#include "expr/fn/regex.h"
#include "expr/fn/text_rows.h"

#include <inttypes.h>

typedef enum regex_use {
    MATCH = HR_REGEX_MATCH,
    FIND = HR_REGEX_FIND,
    COUNT = HR_REGEX_COUNT,
    REPLACE,
    SPLIT,
    EXTRACT
} regex_use;

typedef struct regex_state {
    hr_regex *regex;
    hr_view replacement;
    int64_t most; /* replacements or splits; < 0: all */
} regex_state;

typedef struct regex_options {
    bool ignore_case;
    int64_t most;
} regex_options;

static void state_free(void *state)
{
    regex_state *s = state;

    if (s)
        hr__regex_free(s->regex);
    hr__free(s);
}

/* ---------------------------------------------------------------------------------------------------------- binding */

/* A LIKE pattern as a regular expression: % is any text, _ any character, \ makes the next character literal. */
static hr_status like_to_regex(hr_view like, hr_text *out, hr_error *err)
{
    static const char special[] = "\\^$.|?*+()[]{}#-&~";

    for (int64_t i = 0; i < like.n; i++) {
        char c = (char)like.data[i];

        if (c == '%') {
            hr__text_add(out, ".*");
            continue;
        }
        if (c == '_') {
            hr__text_add(out, ".");
            continue;
        }
        if (c == '\\' && i + 1 < like.n)
            c = (char)like.data[++i];
        if (c && strchr(special, c))
            hr__text_add(out, "\\");
        hr__text_add_bytes(out, &c, 1);
    }
    return out->failed ? hr__error_memory(err, "str_like", like.n) : HR_OK;
}

/* Checks that \1 and the like name groups of the pattern. */
static hr_status check_replacement(const regex_state *s, hr_view text, hr_error *err)
{
    for (int64_t i = 0; i < text.n; i++) {
        if (text.data[i] != '\\')
            continue;
        if (++i == text.n || (text.data[i] != '\\' && (text.data[i] < '0' || text.data[i] > '9')))
            return hr_error_set(err, HR_INVALID,
                                "str_replace_regex: the replacement '%.*s': expected a digit or \\ after \\",
                                (int)HR_MIN(text.n, 100), (const char *)text.data);
        if (text.data[i] != '\\' && text.data[i] - '0' > hr__regex_groups(s->regex))
            return hr_error_set(err, HR_INVALID, "str_replace_regex: the replacement '%.*s': the pattern has %d groups",
                                (int)HR_MIN(text.n, 100), (const char *)text.data, hr__regex_groups(s->regex));
    }
    return HR_OK;
}

/* A struct of the named groups, as texts. */
static hr_status extract_type(hr_bound_call *call, const hr_regex *r, hr_error *err)
{
    int n = hr__regex_groups(r);
    hr_field *fields = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *fields);
    hr_status st = HR_OK;

    if (!fields)
        return hr__error_memory(err, "str_extract", n * (int64_t)sizeof *fields);
    for (int i = 0; i < n; i++) {
        const char *name = hr__regex_group_name(r, i + 1);

        if (!name)
            HR_FAIL(HR_INVALID, "str_extract: group %d of the pattern has no name; write (?P<name>...)", i + 1);
        fields[i] = (hr_field){ .name = (char *)(uintptr_t)name,
                                .type = hr__type_simple(
                                    call->input_types[0]->id == HR_T_LARGE_STRING ? HR_T_LARGE_STRING : HR_T_STRING),
                                .nullable = true };
    }
    st = hr__type_struct(fields, n, &call->type, err);
done:
    hr__free(fields);
    return st;
}

static hr_status result_type(hr_bound_call *call, regex_use use, const hr_regex *r, hr_error *err)
{
    const hr_type *t = call->input_types[0];

    switch (use) {
    case MATCH: call->type = hr__type_simple(HR_T_BOOL); return HR_OK;
    case FIND:
    case COUNT: call->type = hr__length_type(t); return HR_OK;
    case REPLACE: call->type = hr__type_simple(t->id == HR_T_NULL ? HR_T_STRING : t->id); return HR_OK;
    case SPLIT: return hr__list_of_text(t, &call->type, err);
    default: return extract_type(call, r, err);
    }
}

static hr_status compile_for(hr_bound_call *call, unsigned flags, hr_error *err)
{
    hr_view pattern = { 0 };
    regex_state *s;

    HR_TRY(hr__constant_text(call, 1, "the pattern", &pattern, err));
    if (!(s = call->state = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    s->most = -1;
    if (hr__type_is_text(call->input_types[0]) || call->input_types[0]->id == HR_T_NULL)
        flags |= HR_REGEX_UTF8;
    return hr__regex_new(call->expr->function->name, pattern, flags, &s->regex, err);
}

static hr_status regex_bind(hr_bound_call *call, regex_use use, hr_error *err)
{
    const regex_options *o = call->expr->options;
    regex_state *s;

    HR_TRY(hr__bind_text(call, use < SPLIT, err));
    HR_TRY(compile_for(call, o && o->ignore_case ? HR_REGEX_IGNORE_CASE : 0, err));
    s = call->state;
    s->most = o ? o->most : -1;
    if (use == REPLACE) {
        HR_TRY(hr__constant_text(call, 2, "the replacement", &s->replacement, err));
        HR_TRY(check_replacement(s, s->replacement, err));
    }
    return result_type(call, use, s->regex, err);
}

static hr_status like_bind(hr_bound_call *call, hr_error *err)
{
    const regex_options *o = call->expr->options;
    unsigned flags = HR_REGEX_START | HR_REGEX_END | HR_REGEX_DOT_ALL | HR_REGEX_UTF8;
    hr_view like = { 0 };
    hr_text text = { 0 };
    regex_state *s;
    hr_status st;

    HR_TRY(hr__bind_text(call, false, err));
    HR_TRY(hr__constant_text(call, 1, "the pattern", &like, err));
    if (!(s = call->state = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, "str_like", sizeof *s);
    call->type = hr__type_simple(HR_T_BOOL);
    if (!(st = like_to_regex(like, &text, err)))
        st = hr__regex_new("str_like", (hr_view){ (const uint8_t *)(text.data ? text.data : ""), text.n },
                           flags | (o->ignore_case ? HR_REGEX_IGNORE_CASE : 0), &s->regex, err);
    hr__text_clear(&text);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- evaluation */

typedef struct matching {
    const regex_state *s;
    hr_matcher *m;
} matching;

/* Checks that each text is UTF-8, before the library reads them. */
static hr_status check_utf8(const hr_eval *how, const hr_array *a, const hr_buffer *validity, hr_error *err)
{
    hr_rows rows = hr__rows_of(a);
    hr_view all = hr__rows_all(&rows, how->n_rows);
    bool good = hr__utf8_valid(all.data, all.n);
    int64_t n;

    for (int64_t i = 0; good && i < how->n_rows; i++) {
        const uint8_t *p = hr__row(&rows, i, &n);

        good = n == 0 || hr__utf8_starts(p[0]);
    }
    for (int64_t i = 0; !good && i < how->n_rows; i++) {
        const uint8_t *p = hr__row(&rows, i, &n);

        if (hr__is_valid(validity, i) && !hr__utf8_valid(p, n))
            return hr__at_row(how, i, hr_error_set(err, HR_BAD_DATA, "the text is not UTF-8"), err);
    }
    return HR_OK;
}

static hr_status begin(const hr_eval *how, const hr_array *a, const hr_regex *r, matching *m, hr_error *err)
{
    hr_buffer *validity = NULL;
    bool all_null;
    hr_status st = HR_OK;

    if (hr__type_is_text(a->type)) {
        HR_TRY(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
        if (!all_null)
            st = check_utf8(how, a, validity, err);
        hr__buffer_unref(validity);
    }
    return st ? st : hr__matcher_new(r, &m->m, err);
}

/* The place where the search continues after a match; after an empty match, one character further. */
static int64_t behind(const uint8_t *p, int64_t n, int64_t first, int64_t last)
{
    int bytes = 1;

    if (last > first)
        return last;
    if (last < n)
        hr__utf8_next(p + last, n - last, &bytes);
    return last + bytes;
}

static hr_status find_row(const matching *m, hr_regex_use use, const uint8_t *p, int64_t n, int64_t *out, hr_error *err)
{
    int64_t first, last;

    *out = 0;
    for (int64_t from = 0; from <= n; from = behind(p, n, first, last)) {
        HR_TRY(hr__matcher_find(m->m, p, n, from, &first, &last, err));
        if (use != HR_REGEX_COUNT) {
            *out = use == HR_REGEX_MATCH ? first >= 0 : first;
            break;
        }
        if (first < 0)
            break;
        ++*out;
    }
    return HR_OK;
}

/* A column of numbers or booleans. */
hr_status hr__regex_column(const hr_bound_call *call, const hr_eval *how, const hr_array *a, const hr_regex *r,
                           hr_regex_use use, hr_array **out, hr_error *err)
{
    hr_rows rows = hr__rows_of(a);
    hr_buffer *validity = NULL, *made = NULL;
    const int bytes = hr__type_bytes(call->type); /* 0: bits */
    matching m = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_GO(begin(how, a, r, &m, err));
    HR_GO(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null) {
        st = hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
        goto done;
    }
    if (bytes)
        HR_GO(hr__buffer_new(how->mem, how->n_rows * bytes, &made, err));
    else
        HR_GO(hr__eval_bits(how, how->n_rows, &made, err));
    memset(made->data, 0, (size_t)made->n_bytes);
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t n, v = 0;
        const uint8_t *p = hr__row(&rows, i, &n);

        if (!hr__is_valid(validity, i))
            continue;
        if ((st = find_row(&m, use, p, n, &v, err))) {
            st = hr__at_row(how, i, st, err);
            goto done;
        }
        if (bytes == 4)
            ((int32_t *)(void *)made->data)[i] = (int32_t)v;
        else if (bytes)
            ((int64_t *)(void *)made->data)[i] = v;
        else if (v)
            hr__bit_set(made->data, i);
    }
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    hr__matcher_free(m.m);
    return st;
}

/* --- replacing */

static hr_status put_replacement(const matching *m, const uint8_t *p, hr_writer *out, hr_error *err)
{
    hr_view text = m->s->replacement;
    int64_t first, last;

    for (int64_t i = 0; i < text.n; i++) {
        if (text.data[i] != '\\') {
            HR_TRY(hr__writer_add(out, text.data + i, 1, err));
        } else if (text.data[++i] == '\\') {
            HR_TRY(hr__writer_add(out, "\\", 1, err));
        } else if (hr__matcher_group(m->m, text.data[i] - '0', &first, &last)) {
            HR_TRY(hr__writer_add(out, p + first, last - first, err));
        }
    }
    return HR_OK;
}

static hr_status replace_row(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const matching *m = context;
    int64_t done = 0, from = 0, before = -1, first, last;

    for (int64_t k = 0; from <= n && k != m->s->most;) {
        HR_TRY(hr__matcher_find(m->m, p, n, from, &first, &last, err));
        if (first < 0)
            break;
        if (last > first || first != before) {
            HR_TRY(hr__writer_add(out, p + done, first - done, err));
            HR_TRY(put_replacement(m, p, out, err));
            done = before = last;
            k++;
        }
        from = behind(p, n, first, last);
    }
    return hr__writer_add(out, p + done, n - done, err);
}

/* --- splitting */

static hr_status split_row(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const matching *m = context;
    int64_t done = 0, from = 0, first, last;

    for (int64_t k = 0; from <= n && k != m->s->most;) {
        HR_TRY(hr__matcher_find(m->m, p, n, from, &first, &last, err));
        if (first < 0)
            break;
        from = behind(p, n, first, last);
        if (last == first)
            continue;
        HR_TRY(hr__writer_add(out, p + done, first - done, err));
        HR_TRY(hr__writer_end_row(out, err));
        done = last;
        k++;
    }
    HR_TRY(hr__writer_add(out, p + done, n - done, err));
    return hr__writer_end_row(out, err);
}

/* --- extracting */

static hr_status extract_rows(const hr_eval *how, const matching *m, const hr_rows *rows, hr_buffer *validity,
                              hr_writer *writers, int n_groups, hr_error *err)
{
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t n, first = -1, last = -1;
        const uint8_t *p = hr__row(rows, i, &n);
        hr_status st = HR_OK;

        if (hr__is_valid(validity, i) && (st = hr__matcher_find(m->m, p, n, 0, &first, &last, err)))
            return hr__at_row(how, i, st, err);
        if (first < 0)
            hr__bit_clear(validity->data, i);
        for (int g = 0; g < n_groups; g++) {
            int64_t from, to;

            if (first >= 0 && hr__matcher_group(m->m, g + 1, &from, &to))
                HR_TRY(hr__writer_add(&writers[g], p + from, to - from, err));
            HR_TRY(hr__writer_end_row(&writers[g], err));
        }
    }
    return HR_OK;
}

static hr_status str_extract_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                  hr_error *err)
{
    const int n_groups = call->type->n_children;
    hr_rows rows = hr__rows_of(args[0]);
    hr_writer *writers = hr__zalloc(how->mem->account, ((size_t)n_groups + 1) * sizeof *writers);
    hr_array **made = hr__zalloc(how->mem->account, ((size_t)n_groups + 1) * sizeof(hr_array *));
    hr_buffer *validity = NULL;
    matching m = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    if (!writers || !made)
        HR_GO(hr__error_memory(err, "str_extract", n_groups * (int64_t)sizeof *writers));
    m.s = call->state;
    HR_GO(begin(how, args[0], m.s->regex, &m, err));
    HR_GO(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null) {
        st = hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
        goto done;
    }
    HR_GO(hr__own_validity(how, &validity, err));
    for (int g = 0; g < n_groups; g++)
        HR_GO(hr__writer_open(&writers[g], how, call->type->children[g].type, how->n_rows, 0, err));
    HR_GO(extract_rows(how, &m, &rows, validity, writers, n_groups, err));
    for (int g = 0; g < n_groups; g++)
        HR_GO(hr__writer_finish(&writers[g], NULL, &made[g], err));
    st = hr__array_new(call->type, how->n_rows, -1, (hr_buffer *const[]){ validity, NULL, NULL }, made, n_groups, out,
                       err);
    validity = NULL; /* taken, as are the arrays */
    memset(made, 0, (size_t)n_groups * sizeof(hr_array *));
done:
    for (int g = 0; writers && g < n_groups; g++)
        hr__writer_clear(&writers[g]);
    for (int g = 0; made && g < n_groups; g++)
        hr__array_unref(made[g]);
    hr__free(writers);
    hr__free(made);
    hr__buffer_unref(validity);
    hr__matcher_free(m.m);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- the table */

static hr_status str_match_regex_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                      hr_array **out, hr_error *err)
{
    return hr__regex_column(call, how, args[0], ((const regex_state *)call->state)->regex, HR_REGEX_MATCH, out, err);
}

static hr_status str_find_regex_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                     hr_array **out, hr_error *err)
{
    return hr__regex_column(call, how, args[0], ((const regex_state *)call->state)->regex, HR_REGEX_FIND, out, err);
}

static hr_status str_count_regex_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                      hr_array **out, hr_error *err)
{
    return hr__regex_column(call, how, args[0], ((const regex_state *)call->state)->regex, HR_REGEX_COUNT, out, err);
}

static hr_status str_replace_regex_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                        hr_array **out, hr_error *err)
{
    matching m = { .s = call->state };
    hr_status st = begin(how, args[0], m.s->regex, &m, err);

    *out = NULL;
    if (!st)
        st = hr__map_text(call, how, args[0], replace_row, &m, 0, out, err);
    hr__matcher_free(m.m);
    return st;
}

static hr_status str_split_regex_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                      hr_array **out, hr_error *err)
{
    matching m = { .s = call->state };
    hr_status st = begin(how, args[0], m.s->regex, &m, err);

    *out = NULL;
    if (!st)
        st = hr__map_list(call, how, args[0], split_row, &m, out, err);
    hr__matcher_free(m.m);
    return st;
}

#define CASE_SETTING                                                                                                   \
    { .name = "ignore_case",                                                                                           \
      .kind = HR_OPT_BOOL,                                                                                             \
      .at = offsetof(regex_options, ignore_case),                                                                      \
      .doc = "ignores upper and lower case" }
#define MOST_SETTING(called)                                                                                           \
    { .name = called,                                                                                                  \
      .kind = HR_OPT_INT,                                                                                              \
      .at = offsetof(regex_options, most),                                                                             \
      .value = -1,                                                                                                     \
      .doc = "the limit; below 0: none" }
static const hr_option case_settings[] = { CASE_SETTING, { 0 } };
static const hr_option replace_settings[] = { MOST_SETTING("max_replacements"), { 0 } };
static const hr_option split_settings[] = { MOST_SETTING("max_splits"), { 0 } };

#define HR_BIND(name, use)                                                                                             \
    static hr_status name##_bind(hr_bound_call *call, hr_error *err) { return regex_bind(call, use, err); }
HR_BIND(str_match_regex, MATCH)
HR_BIND(str_find_regex, FIND)
HR_BIND(str_count_regex, COUNT)
HR_BIND(str_replace_regex, REPLACE)
HR_BIND(str_split_regex, SPLIT)
HR_BIND(str_extract, EXTRACT)
#define str_like_bind like_bind
#define str_like_eval str_match_regex_eval

#define HR_SETTINGS(settings) .options = settings, .options_bytes = sizeof(regex_options)
#define HR_ENTRY(fn, n, text, ...)                                                                                     \
    {                                                                                                                  \
        .name = #fn,                                                                                                   \
        .doc = text,                                                                                                   \
        .min_args = n,                                                                                                 \
        .max_args = n,                                                                                                 \
        __VA_ARGS__,                                                                                                   \
        .takes_constants = true,                                                                                       \
        .bind = fn##_bind,                                                                                             \
        .eval = fn##_eval,                                                                                             \
        .state_free = state_free,                                                                                      \
    }

const hr_expr_function hr__fn_regex[] = {
    HR_ENTRY(str_like, 2, "a matches the SQL pattern b: % any text, _ any character", HR_SETTINGS(case_settings)),
    HR_ENTRY(str_match_regex, 2, "the regular expression b matches a part of a", HR_SETTINGS(case_settings)),
    HR_ENTRY(str_find_regex, 2, "the byte of the first match of b, -1: none", HR_SETTINGS(case_settings)),
    HR_ENTRY(str_count_regex, 2, "the number of matches of b", HR_SETTINGS(case_settings)),
    HR_ENTRY(str_replace_regex, 3, "a with c, where \\0 to \\9 are groups, in place of the matches of b",
             HR_SETTINGS(replace_settings)),
    HR_ENTRY(str_split_regex, 2, "a list of the texts between matches of b", HR_SETTINGS(split_settings)),
    HR_ENTRY(str_extract, 2, "a struct of the groups (?P<name>...) of b; null without a match", .options = NULL),
    { 0 },
};
