/* fn_search.c - functions of a text in a text: starts with, ends with, contains, find, count, replace, split.
 *
 * The search compares bytes: valid UTF-8 never matches inside a character. As in Arrow, places are bytes. With
 * ignore_case the text becomes a literal regular expression (fn_regex.c). `contains` searches the bytes of all rows at
 * once, which pays if few rows have the text, and looks up the row of each match. */
#include "expr/fn/regex.h"
#include "expr/fn/text_rows.h"

#include <inttypes.h>

typedef struct search_state {
    hr_view pattern, replacement;
    hr_regex *regex; /* with ignore_case */
    int64_t most;    /* < 0: all */
    bool backwards;
} search_state;

typedef struct search_options {
    bool ignore_case, reverse;
    int64_t most;
} search_options;

static const uint8_t *look_for(const uint8_t *p, int64_t n, hr_view text)
{
    return text.n > n ? NULL : memmem(p, (size_t)n, text.data, (size_t)text.n);
}

/* ---------------------------------------------------------------------------------------------------------- binding */

static hr_status search_bind(hr_bound_call *call, unsigned regex_flags, hr_error *err)
{
    const search_options *o = call->expr->options;
    search_state *s;

    HR_TRY(hr__bind_text(call, true, err));
    if (!(s = call->state = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    s->most = o ? o->most : -1;
    s->backwards = o && o->reverse;
    HR_TRY(hr__constant_text(call, 1, "the text to find", &s->pattern, err));
    if (!o || !o->ignore_case)
        return HR_OK;
    if (hr__type_is_text(call->input_types[0]))
        regex_flags |= HR_REGEX_UTF8;
    return hr__regex_new(call->expr->function->name, s->pattern, regex_flags | HR_REGEX_LITERAL | HR_REGEX_IGNORE_CASE,
                         &s->regex, err);
}

static void search_free(void *state)
{
    search_state *s = state;

    if (s)
        hr__regex_free(s->regex);
    hr__free(s);
}

static hr_status truth_bind(hr_bound_call *call, hr_error *err)
{
    const char *name = call->expr->function->name;
    unsigned flags = !strcmp(name, "str_starts_with") ? HR_REGEX_START
                     : !strcmp(name, "str_ends_with") ? HR_REGEX_END
                                                      : 0;

    HR_TRY(search_bind(call, flags, err));
    call->type = hr__type_simple(HR_T_BOOL);
    return HR_OK;
}

static hr_status place_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(search_bind(call, 0, err));
    call->type = hr__length_type(call->input_types[0]);
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------- truths, places */

static bool starts_with(void *context, const uint8_t *p, int64_t n)
{
    const search_state *s = context;

    return n >= s->pattern.n && !memcmp(p, s->pattern.data, (size_t)s->pattern.n);
}

static bool ends_with(void *context, const uint8_t *p, int64_t n)
{
    const search_state *s = context;

    return n >= s->pattern.n && !memcmp(p + n - s->pattern.n, s->pattern.data, (size_t)s->pattern.n);
}

static hr_status str_starts_with_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                      hr_array **out, hr_error *err)
{
    const search_state *s = call->state;

    if (s->regex)
        return hr__regex_column(call, how, args[0], s->regex, HR_REGEX_MATCH, out, err);
    return hr__map_bool(call, how, args[0], starts_with, call->state, out, err);
}

static hr_status str_ends_with_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                    hr_array **out, hr_error *err)
{
    const search_state *s = call->state;

    if (s->regex)
        return hr__regex_column(call, how, args[0], s->regex, HR_REGEX_MATCH, out, err);
    return hr__map_bool(call, how, args[0], ends_with, call->state, out, err);
}

/* Sets the bits of the rows that have the text. */
static void contains_run(hr_view text, const hr_rows *rows, int64_t n_rows, uint8_t *bits)
{
    hr_view all = hr__rows_all(rows, n_rows);
    const uint8_t *at = all.data, *end = all.data + all.n, *hit;
    int64_t row = 0;

    while (row < n_rows && (hit = look_for(at, end - at, text))) {
        int64_t place = hit - rows->bytes;

        while (row < n_rows && hr__row_begin(rows, row + 1) <= place)
            row++;
        if (row == n_rows)
            break;
        if (place + text.n <= hr__row_begin(rows, row + 1)) {
            hr__bit_set(bits, row);
            at = rows->bytes + hr__row_begin(rows, row + 1);
            row++;
        } else {
            at = hit + 1; /* the match spans two rows */
        }
    }
}

static hr_status str_contains_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                   hr_error *err)
{
    const search_state *s = call->state;
    hr_rows rows = hr__rows_of(args[0]);
    hr_buffer *validity = NULL, *bits = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    if (s->regex)
        return hr__regex_column(call, how, args[0], s->regex, HR_REGEX_MATCH, out, err);
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__eval_bits(how, how->n_rows, &bits, err));
    memset(bits->data, s->pattern.n ? 0 : 0xFF, (size_t)bits->n_bytes);
    if (s->pattern.n)
        contains_run(s->pattern, &rows, how->n_rows, bits->data);
    st = hr__eval_array(call->type, how->n_rows, validity, bits, NULL, out, err);
    validity = bits = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(bits);
    return st;
}

static int64_t find(void *context, const uint8_t *p, int64_t n)
{
    const search_state *s = context;
    const uint8_t *hit = look_for(p, n, s->pattern);

    return hit ? hit - p : -1;
}

static int64_t count(void *context, const uint8_t *p, int64_t n)
{
    const search_state *s = context;
    const uint8_t *end = p + n, *hit;
    int64_t found = 0;

    if (s->pattern.n == 0)
        return n + 1;
    for (; (hit = look_for(p, end - p, s->pattern)); p = hit + s->pattern.n)
        found++;
    return found;
}

static hr_status str_find_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                               hr_error *err)
{
    const search_state *s = call->state;

    if (s->regex)
        return hr__regex_column(call, how, args[0], s->regex, HR_REGEX_FIND, out, err);
    return hr__map_int(call, how, args[0], find, call->state, out, err);
}

static hr_status str_count_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                hr_error *err)
{
    const search_state *s = call->state;

    if (s->regex)
        return hr__regex_column(call, how, args[0], s->regex, HR_REGEX_COUNT, out, err);
    return hr__map_int(call, how, args[0], count, call->state, out, err);
}

/* -------------------------------------------------------------------------------------------------------- replacing */

static hr_status replace_row(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const search_state *s = context;
    const uint8_t *end = p + n, *hit;

    for (int64_t k = 0; k != s->most && (hit = look_for(p, end - p, s->pattern)); k++) {
        HR_TRY(hr__writer_add(out, p, hit - p, err));
        HR_TRY(hr__writer_add(out, s->replacement.data, s->replacement.n, err));
        p = hit + s->pattern.n;
    }
    return hr__writer_add(out, p, end - p, err);
}

static hr_status not_empty(const hr_bound_call *call, hr_error *err)
{
    const search_state *s = call->state;

    if (s->pattern.n)
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "%s: the text to find is empty", call->expr->function->name);
}

static hr_status replace_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(search_bind(call, 0, err));
    HR_TRY(not_empty(call, err));
    call->type = hr__type_simple(call->input_types[0]->id == HR_T_NULL ? HR_T_STRING : call->input_types[0]->id);
    return hr__constant_text(call, 2, "the replacement", &((search_state *)call->state)->replacement, err);
}

static hr_status str_replace_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                  hr_error *err)
{
    return hr__map_text(call, how, args[0], replace_row, call->state, 0, out, err);
}

/* -------------------------------------------------------------------------------------------------------- splitting */

/* The next separator in p[0, n); *begin < 0: none. */
typedef void separator_fn(const search_state *s, const uint8_t *p, int64_t n, int64_t *begin, int64_t *end);

static void next_text(const search_state *s, const uint8_t *p, int64_t n, int64_t *begin, int64_t *end)
{
    const uint8_t *hit = look_for(p, n, s->pattern);

    *begin = hit ? hit - p : -1;
    *end = *begin + s->pattern.n;
}

static void last_text(const search_state *s, const uint8_t *p, int64_t n, int64_t *begin, int64_t *end)
{
    for (*begin = n - s->pattern.n; *begin >= 0; --*begin)
        if (!memcmp(p + *begin, s->pattern.data, (size_t)s->pattern.n))
            break;
    *end = *begin + s->pattern.n;
}

static void next_blank(const search_state *s, const uint8_t *p, int64_t n, int64_t *begin, int64_t *end)
{
    int bytes;

    (void)s;
    *begin = -1;
    for (int64_t at = 0; at < n; at += bytes) {
        bool blank = hr__unicode_class(hr__utf8_next(p + at, n - at, &bytes)) & HR_CHAR_SPACE;

        if (blank && *begin < 0)
            *begin = at;
        if (!blank && *begin >= 0) {
            *end = at;
            return;
        }
    }
    *end = n;
}

static void last_blank(const search_state *s, const uint8_t *p, int64_t n, int64_t *begin, int64_t *end)
{
    int bytes;

    (void)s;
    *begin = -1;
    for (int64_t at = n - 1; at >= 0; at--) {
        bool blank;

        if (!hr__utf8_starts(p[at]))
            continue;
        blank = hr__unicode_class(hr__utf8_next(p + at, n - at, &bytes)) & HR_CHAR_SPACE;
        if (blank && *begin < 0)
            *end = at + bytes;
        if (blank)
            *begin = at;
        if (!blank && *begin >= 0)
            return;
    }
}

typedef struct splitting {
    const search_state *s;
    separator_fn *next, *last;
} splitting;

/* Counts separators from the right, at most `most`; -> their number, and where the first of them begins. */
static int64_t count_from_right(const splitting *x, const uint8_t *p, int64_t n)
{
    int64_t k = 0, begin, end;

    for (; k != x->s->most; k++) {
        x->last(x->s, p, n, &begin, &end);
        if (begin < 0)
            break;
        n = begin;
    }
    return k;
}

/* The last k separators that do not overlap, counted from the right. */
static hr_status split_from_right(const splitting *x, const uint8_t *p, int64_t n, int64_t k, hr_writer *out,
                                  hr_error *err)
{
    int64_t begin = -1, end = 0, from = 0;

    for (; k > 0; k--) {
        int64_t left = n;

        for (int64_t i = 0; i < k; i++) {
            x->last(x->s, p, left, &begin, &end);
            left = begin;
        }
        HR_TRY(hr__writer_add(out, p + from, begin - from, err));
        HR_TRY(hr__writer_end_row(out, err));
        from = end;
    }
    HR_TRY(hr__writer_add(out, p + from, n - from, err));
    return hr__writer_end_row(out, err);
}

static hr_status split_row(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const splitting *x = context;
    int64_t begin, end;

    if (x->s->backwards && x->s->most >= 0)
        return split_from_right(x, p, n, count_from_right(x, p, n), out, err);
    for (int64_t k = 0; k != x->s->most; k++) {
        x->next(x->s, p, n, &begin, &end);
        if (begin < 0)
            break;
        HR_TRY(hr__writer_add(out, p, begin, err));
        HR_TRY(hr__writer_end_row(out, err));
        p += end;
        n -= end;
    }
    HR_TRY(hr__writer_add(out, p, n, err));
    return hr__writer_end_row(out, err);
}

static hr_status str_split_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(search_bind(call, 0, err));
    HR_TRY(not_empty(call, err));
    return hr__list_of_text(call->input_types[0], &call->type, err);
}

static hr_status str_split_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                hr_error *err)
{
    splitting x = { call->state, next_text, last_text };

    return hr__map_list(call, how, args[0], split_row, &x, out, err);
}

static hr_status str_split_whitespace_bind(hr_bound_call *call, hr_error *err)
{
    const search_options *o = call->expr->options;
    search_state *s;

    HR_TRY(hr__bind_text(call, false, err));
    if (!(s = call->state = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    s->most = o->most;
    s->backwards = o->reverse;
    return hr__list_of_text(call->input_types[0], &call->type, err);
}

static hr_status str_split_whitespace_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                           hr_array **out, hr_error *err)
{
    splitting x = { call->state, next_blank, last_blank };
    hr_rows rows = hr__rows_of(args[0]);
    hr_view all = hr__rows_all(&rows, how->n_rows);

    *out = NULL;
    if (!hr__unicode_known() && !hr__ascii_only(all.data, all.n))
        return hr_error_set(err, HR_UNSUPPORTED,
                            "str_split_whitespace: text beyond ASCII needs utf8proc, which this build does not have");
    return hr__map_list(call, how, args[0], split_row, &x, out, err);
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define MOST_SETTING(called)                                                                                           \
    { .name = called,                                                                                                  \
      .kind = HR_OPT_INT,                                                                                              \
      .at = offsetof(search_options, most),                                                                            \
      .value = -1,                                                                                                     \
      .doc = "the limit; below 0: none" }
static const hr_option case_settings[] = {
    { .name = "ignore_case",
      .kind = HR_OPT_BOOL,
      .at = offsetof(search_options, ignore_case),
      .doc = "ignores upper and lower case" },
    { 0 },
};
static const hr_option replace_settings[] = { MOST_SETTING("max_replacements"), { 0 } };
static const hr_option split_settings[] = {
    MOST_SETTING("max_splits"),
    { .name = "reverse",
      .kind = HR_OPT_BOOL,
      .at = offsetof(search_options, reverse),
      .doc = "counts the splits from the end" },
    { 0 },
};

#define HR_ENTRY(fn, n, binder, settings, text)                                                                        \
    {                                                                                                                  \
        .name = #fn,                                                                                                   \
        .doc = text,                                                                                                   \
        .min_args = n,                                                                                                 \
        .max_args = n,                                                                                                 \
        .options = settings,                                                                                           \
        .options_bytes = sizeof(search_options),                                                                       \
        .takes_constants = true,                                                                                       \
        .bind = binder,                                                                                                \
        .eval = fn##_eval,                                                                                             \
        .state_free = search_free,                                                                                     \
    }

const hr_expr_function hr__fn_search[] = {
    HR_ENTRY(str_starts_with, 2, truth_bind, case_settings, "a begins with b"),
    HR_ENTRY(str_ends_with, 2, truth_bind, case_settings, "a ends with b"),
    HR_ENTRY(str_contains, 2, truth_bind, case_settings, "a contains b"),
    HR_ENTRY(str_find, 2, place_bind, case_settings, "the byte where b first begins in a, -1: none"),
    HR_ENTRY(str_count, 2, place_bind, case_settings, "the number of times that a contains b"),
    HR_ENTRY(str_replace, 3, replace_bind, replace_settings, "a with c in place of b"),
    HR_ENTRY(str_split, 2, str_split_bind, split_settings, "a list of the texts between the separators b"),
    HR_ENTRY(str_split_whitespace, 1, str_split_whitespace_bind, split_settings, "a list of the texts between blanks"),
    { 0 },
};
