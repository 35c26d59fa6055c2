/* fn_string.c - functions of the characters of a text: length, case, classes, trim, pad, slice, repeat.
 *
 * Results equal those of Arrow's utf8_ kernels. Lengths, places and widths count characters (code points), except in
 * byte_len. unicode.c has the properties of characters (case, classes, blanks); for texts beyond ASCII a build without
 * utf8proc returns an error. Text that is all ASCII is processed by bytes. */
#include "expr/fn/text_rows.h"

#include <inttypes.h>

enum { PAD_LEFT = 1, PAD_RIGHT = 2, MOST_REPEATED = 1 << 28 };

/* The bound call. */
typedef struct string_state {
    hr_view text; /* the characters to strip, the padding, or the replacement */
    int64_t start, stop, step, width;
    bool has_stop;
    bool ascii_only; /* the column is ASCII: computed in each evaluation, in a copy of the state */
} string_state;

static hr_status new_state(hr_bound_call *call, string_state **out, hr_error *err)
{
    if (!(*out = call->state = hr__zalloc(NULL, sizeof **out)))
        return hr__error_memory(err, call->expr->function->name, sizeof **out);
    return HR_OK;
}

/* HR_UNSUPPORTED if the column has characters that this build does not know. */
static hr_status check_known(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool *ascii,
                             hr_error *err)
{
    hr_rows rows = hr__rows_of(a);
    hr_view all = hr__rows_all(&rows, how->n_rows);

    *ascii = hr__ascii_only(all.data, all.n);
    if (*ascii || hr__unicode_known())
        return HR_OK;
    return hr_error_set(err, HR_UNSUPPORTED, "%s: text beyond ASCII needs utf8proc, which this build does not have",
                        call->expr->function->name);
}

/* ---------------------------------------------------------------------------------------------------------- lengths */

static int64_t count_chars(void *context, const uint8_t *p, int64_t n)
{
    (void)context;
    return hr__utf8_count(p, n);
}

static int64_t count_bytes(void *context, const uint8_t *p, int64_t n)
{
    (void)context, (void)p;
    return n;
}

static hr_status length_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(hr__bind_text(call, !strcmp(call->expr->function->name, "str_byte_len"), err));
    call->type = hr__length_type(call->input_types[0]);
    return HR_OK;
}

static hr_status str_len_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                              hr_error *err)
{
    hr_rows rows = hr__rows_of(args[0]);
    hr_view all = hr__rows_all(&rows, how->n_rows);

    return hr__map_int(call, how, args[0], hr__ascii_only(all.data, all.n) ? count_bytes : count_chars, NULL, out, err);
}

static hr_status str_byte_len_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                   hr_error *err)
{
    return hr__map_int(call, how, args[0], count_bytes, NULL, out, err);
}

/* ------------------------------------------------------------------------------------------------------------- case */

/* Maps character c, the i-th; `cased`: the one before is a letter with a case. */
typedef uint32_t recase_fn(uint32_t c, int64_t i, bool cased);

static uint32_t upper_char(uint32_t c, int64_t i, bool cased)
{
    (void)i, (void)cased;
    return hr__unicode_upper(c);
}

static uint32_t lower_char(uint32_t c, int64_t i, bool cased)
{
    (void)i, (void)cased;
    return hr__unicode_lower(c);
}

static uint32_t capitalize_char(uint32_t c, int64_t i, bool cased)
{
    (void)cased;
    return i == 0 ? hr__unicode_upper(c) : hr__unicode_lower(c);
}

static uint32_t title_char(uint32_t c, int64_t i, bool cased)
{
    (void)i;
    if (!(hr__unicode_class(c) & HR_CHAR_CASED))
        return c;
    return cased ? hr__unicode_lower(c) : hr__unicode_upper(c);
}

static uint32_t swapcase_char(uint32_t c, int64_t i, bool cased)
{
    unsigned class = hr__unicode_class(c);

    (void)i, (void)cased;
    return class & HR_CHAR_UPPER ? hr__unicode_lower(c) : class & HR_CHAR_LOWER ? hr__unicode_upper(c) : c;
}

/* The most by which another case grows a text: three bytes for two. */
static hr_status recase(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    recase_fn *fn = *(recase_fn **)context;
    uint8_t *to, *start;
    bool cased = false;

    HR_TRY(hr__writer_room(out, n + n / 2 + 4, &start, err));
    to = start;
    for (int64_t at = 0, i = 0; at < n; i++) {
        int bytes;
        uint32_t c = hr__utf8_next(p + at, n - at, &bytes);

        if (to - start > n + n / 2) { /* impossible with today's Unicode data, which we do not control */
            hr__writer_took(out, to - start);
            HR_TRY(hr__writer_room(out, 4 * (n - at) + 4, &start, err));
            to = start;
        }
        to += bytes == 1 && c >= 0x80 ? (*to = (uint8_t)c, 1) : hr__utf8_put(to, fn(c, i, cased));
        cased = fn == title_char && (hr__unicode_class(c) & HR_CHAR_CASED);
        at += bytes;
    }
    hr__writer_took(out, to - start);
    return HR_OK;
}

/* Upper or lower case of a whole column of ASCII: the same offsets, other bytes. */
static hr_status recase_ascii(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool upper,
                              hr_array **out, hr_error *err)
{
    const uint8_t first = upper ? 'a' : 'A';
    hr_rows rows = hr__rows_of(a);
    hr_view all = hr__rows_all(&rows, how->n_rows);
    hr_buffer *validity = NULL, *offsets = NULL, *bytes = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__buffer_new(how->mem, all.n, &bytes, err));
    for (int64_t i = 0; i < all.n; i++)
        bytes->data[i] = (uint8_t)(all.data[i] ^ ((uint8_t)(all.data[i] - first) < 26) << 5);
    HR_GO(hr__buffer_new(how->mem, (how->n_rows + 1) * (rows.at64 ? 8 : 4), &offsets, err));
    for (int64_t i = 0; i <= how->n_rows; i++) {
        int64_t at = how->n_rows ? hr__row_begin(&rows, i) - hr__row_begin(&rows, 0) : 0;

        if (rows.at64)
            ((int64_t *)(void *)offsets->data)[i] = at;
        else
            ((int32_t *)(void *)offsets->data)[i] = (int32_t)at;
    }
    st = hr__eval_array(call->type, how->n_rows, validity, offsets, bytes, out, err);
    validity = offsets = bytes = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(offsets);
    hr__buffer_unref(bytes);
    return st;
}

static hr_status text_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(hr__bind_text(call, false, err));
    call->type = hr__type_simple(call->input_types[0]->id == HR_T_LARGE_STRING ? HR_T_LARGE_STRING : HR_T_STRING);
    return HR_OK;
}

static hr_status recase_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, recase_fn *fn,
                             hr_array **out, hr_error *err)
{
    bool ascii;

    *out = NULL;
    HR_TRY(check_known(call, how, args[0], &ascii, err));
    if (ascii && (fn == upper_char || fn == lower_char))
        return recase_ascii(call, how, args[0], fn == upper_char, out, err);
    return hr__map_text(call, how, args[0], recase, &fn, 0, out, err);
}

#define HR_RECASE(name)                                                                                                \
    static hr_status str_##name##_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,           \
                                       hr_array **out, hr_error *err)                                                  \
    {                                                                                                                  \
        return recase_eval(call, how, args, name##_char, out, err);                                                    \
    }
HR_RECASE(upper)
HR_RECASE(lower)
HR_RECASE(capitalize)
HR_RECASE(title)
HR_RECASE(swapcase)

/* ---------------------------------------------------------------------------------------------------------- classes */

/* True if all characters are of the class, and at least one exists. */
static bool all_are(void *context, const uint8_t *p, int64_t n)
{
    unsigned class = *(unsigned *)context;
    int bytes;

    for (int64_t at = 0; at < n; at += bytes)
        if (!(hr__unicode_class(hr__utf8_next(p + at, n - at, &bytes)) & class))
            return false;
    return n > 0;
}

static bool all_printable(void *context, const uint8_t *p, int64_t n) { return n == 0 || all_are(context, p, n); }

/* True if all letters that have a case have this one, and at least one exists. */
static bool all_of_case(void *context, const uint8_t *p, int64_t n)
{
    unsigned wanted = *(unsigned *)context;
    bool some = false;
    int bytes;

    for (int64_t at = 0; at < n; at += bytes) {
        unsigned class = hr__unicode_class(hr__utf8_next(p + at, n - at, &bytes)) & HR_CHAR_CASED;

        if (class && !(class & wanted))
            return false;
        some = some || class;
    }
    return some;
}

/* True if upper-case letters follow only characters without case, lower-case letters only letters with case, and at
 * least one exists. */
static bool is_title(void *context, const uint8_t *p, int64_t n)
{
    bool cased = false, some = false;
    int bytes;

    (void)context;
    for (int64_t at = 0; at < n; at += bytes) {
        unsigned class = hr__unicode_class(hr__utf8_next(p + at, n - at, &bytes)) & HR_CHAR_CASED;

        if (class & HR_CHAR_LOWER ? !cased : class && cased)
            return false;
        some = some || (class && !(class & HR_CHAR_LOWER));
        cased = class;
    }
    return some;
}

static bool is_ascii(void *context, const uint8_t *p, int64_t n)
{
    (void)context;
    return hr__ascii_only(p, n);
}

static hr_status bool_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(hr__bind_text(call, false, err));
    call->type = hr__type_simple(HR_T_BOOL);
    return HR_OK;
}

#define HR_CLASS(name, fn, bits)                                                                                       \
    static hr_status str_is_##name##_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,        \
                                          hr_array **out, hr_error *err)                                               \
    {                                                                                                                  \
        unsigned class = bits;                                                                                         \
        bool ascii;                                                                                                    \
                                                                                                                       \
        *out = NULL;                                                                                                   \
        if (class)                                                                                                     \
            HR_TRY(check_known(call, how, args[0], &ascii, err));                                                      \
        return hr__map_bool(call, how, args[0], fn, &class, out, err);                                                 \
    }
HR_CLASS(alpha, all_are, HR_CHAR_ALPHA)
HR_CLASS(alnum, all_are, HR_CHAR_ALNUM)
HR_CLASS(digit, all_are, HR_CHAR_DIGIT)
HR_CLASS(decimal, all_are, HR_CHAR_DECIMAL)
HR_CLASS(numeric, all_are, HR_CHAR_NUMERIC)
HR_CLASS(space, all_are, HR_CHAR_SPACE)
HR_CLASS(lower, all_of_case, HR_CHAR_LOWER)
HR_CLASS(upper, all_of_case, HR_CHAR_UPPER)
HR_CLASS(title, is_title, HR_CHAR_TITLE)
HR_CLASS(printable, all_printable, HR_CHAR_PRINTABLE)
HR_CLASS(ascii, is_ascii, 0)

/* --------------------------------------------------------------------------------------------------------- trimming */

/* Strips the characters of `text`; NULL: blanks. */
static bool goes(const string_state *s, uint32_t c)
{
    int bytes;

    if (!s->text.data)
        return hr__unicode_class(c) & HR_CHAR_SPACE;
    for (int64_t at = 0; at < s->text.n; at += bytes)
        if (hr__utf8_next(s->text.data + at, s->text.n - at, &bytes) == c)
            return true;
    return false;
}

static hr_status strip(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const string_state *s = context;
    int64_t begin = 0, end = n;
    int bytes;

    while (s->width & PAD_LEFT && begin < end && goes(s, hr__utf8_next(p + begin, end - begin, &bytes)))
        begin += bytes;
    while (s->width & PAD_RIGHT && begin < end) {
        int64_t last = end - 1;

        while (last > begin && !hr__utf8_starts(p[last]))
            last--;
        if (!goes(s, hr__utf8_next(p + last, end - last, &bytes)))
            break;
        end = last;
    }
    return hr__writer_add(out, p + begin, end - begin, err);
}

static hr_status strip_bind(hr_bound_call *call, hr_error *err)
{
    const char *name = call->expr->function->name;
    string_state *s;

    HR_TRY(text_bind(call, err));
    HR_TRY(new_state(call, &s, err));
    s->width = name[4] == 'l' ? PAD_LEFT : name[4] == 'r' ? PAD_RIGHT : PAD_LEFT | PAD_RIGHT;
    return call->n_inputs == 1 ? HR_OK : hr__constant_text(call, 1, "characters", &s->text, err);
}

static hr_status strip_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                            hr_error *err)
{
    string_state s = *(const string_state *)call->state;

    *out = NULL;
    if (!s.text.data)
        HR_TRY(check_known(call, how, args[0], &s.ascii_only, err));
    return hr__map_text(call, how, args[0], strip, &s, 0, out, err);
}

/* ---------------------------------------------------------------------------------------------------------- padding */

typedef struct width_options {
    int64_t width;
} width_options;

static const hr_option width_settings[] = {
    { .name = "width",
      .kind = HR_OPT_INT,
      .at = offsetof(width_options, width),
      .min = 0,
      .max = MOST_REPEATED,
      .doc = "characters; longer texts stay unchanged" },
    { 0 },
};

static hr_status add_padding(const string_state *s, int64_t times, hr_writer *out, hr_error *err)
{
    uint8_t *to;

    if (times <= 0)
        return HR_OK;
    HR_TRY(hr__writer_room(out, times * s->text.n, &to, err));
    if (s->text.n == 1)
        memset(to, s->text.data[0], (size_t)times);
    else
        for (int64_t i = 0; i < times; i++)
            memcpy(to + i * s->text.n, s->text.data, (size_t)s->text.n);
    hr__writer_took(out, times * s->text.n);
    return HR_OK;
}

static hr_status pad(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const string_state *s = context;
    int64_t missing = s->width - hr__utf8_count(p, n);
    int64_t left = s->start == PAD_LEFT ? missing : s->start == PAD_RIGHT ? 0 : missing / 2;

    HR_TRY(add_padding(s, left, out, err));
    HR_TRY(hr__writer_add(out, p, n, err));
    return add_padding(s, missing - left, out, err);
}

/* Puts zeros after a sign. */
static hr_status zfill(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const string_state *s = context;
    int64_t sign = n > 0 && (p[0] == '-' || p[0] == '+');

    HR_TRY(hr__writer_add(out, p, sign, err));
    HR_TRY(add_padding(s, s->width - hr__utf8_count(p, n), out, err));
    return hr__writer_add(out, p + sign, n - sign, err);
}

static hr_status pad_bind(hr_bound_call *call, hr_error *err)
{
    const char *name = call->expr->function->name;
    const width_options *o = call->expr->options;
    string_state *s;

    HR_TRY(text_bind(call, err));
    HR_TRY(new_state(call, &s, err));
    s->width = o->width;
    s->start = name[4] == 'l' ? PAD_LEFT : name[4] == 'r' ? PAD_RIGHT : PAD_LEFT | PAD_RIGHT;
    s->text = (hr_view){ (const uint8_t *)(name[4] == 'z' ? "0" : " "), 1 };
    if (call->n_inputs > 1)
        HR_TRY(hr__constant_text(call, 1, "the padding", &s->text, err));
    if (hr__utf8_count(s->text.data, s->text.n) != 1)
        return hr_error_set(err, HR_INVALID, "%s: the padding has %" PRId64 " characters, expected one", name,
                            hr__utf8_count(s->text.data, s->text.n));
    return HR_OK;
}

static hr_status pad_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                          hr_error *err)
{
    string_state s = *(const string_state *)call->state;
    int64_t rows = HR_MIN(how->n_rows, (INT64_C(1) << 40) / (s.width * s.text.n + 1));

    return hr__map_text(call, how, args[0], call->expr->function->name[4] == 'z' ? zfill : pad, &s,
                        HR_MIN(rows * s.width * s.text.n, 1 << 20), out, err);
}

/* ----------------------------------------------------------------------------------------------------------- slices */

typedef struct slice_options {
    int64_t start, stop, step;
} slice_options;

#define NO_STOP INT64_MIN
static const hr_option slice_settings[] = {
    { .name = "start",
      .kind = HR_OPT_INT,
      .at = offsetof(slice_options, start),
      .doc = "first character; from the end if negative" },
    { .name = "stop",
      .kind = HR_OPT_INT,
      .at = offsetof(slice_options, stop),
      .value = (double)NO_STOP,
      .doc = "the first character that is not taken; the least integer: none" },
    { .name = "step",
      .kind = HR_OPT_INT,
      .at = offsetof(slice_options, step),
      .value = 1,
      .doc = "distance between characters" },
    { 0 },
};

/* Python's slice of n: the places first, first + step, ..., and their number. */
static int64_t slice_indices(const string_state *s, int64_t n, int64_t *first)
{
    int64_t low = s->step < 0 ? -1 : 0, high = s->step < 0 ? n - 1 : n, stop = s->stop, start = s->start;

    start = start < 0 ? HR_MAX(start + n, low) : HR_MIN(start, high);
    if (!s->has_stop)
        stop = s->step < 0 ? -1 : n;
    else
        stop = stop < 0 ? HR_MAX(stop + n, low) : HR_MIN(stop, high);
    *first = start;
    if (s->step > 0)
        return start < stop ? (stop - start - 1) / s->step + 1 : 0;
    return start > stop ? (start - stop - 1) / -s->step + 1 : 0;
}

/* Copies every step-th character; no two of them are adjacent. */
static hr_status slice_steps(const string_state *s, const uint8_t *p, int64_t n, int64_t first, int64_t count,
                             hr_writer *out, hr_error *err)
{
    int64_t at = hr__utf8_skip(p, n, first);
    int bytes;

    for (int64_t i = 0; i < count; i++) {
        hr__utf8_next(p + at, n - at, &bytes);
        HR_TRY(hr__writer_add(out, p + at, bytes, err));
        for (int64_t k = 0; k < s->step && at < n; k++) {
            hr__utf8_next(p + at, n - at, &bytes);
            at += bytes;
        }
        for (int64_t k = 0; k > s->step && at > 0; k--)
            do
                at--;
            while (at > 0 && !hr__utf8_starts(p[at]));
    }
    return HR_OK;
}

static hr_status slice_text(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const string_state *s = context;
    int64_t first, begin, count = slice_indices(s, s->ascii_only ? n : hr__utf8_count(p, n), &first);

    if (count <= 0)
        return HR_OK;
    if (s->step != 1)
        return slice_steps(s, p, n, first, count, out, err);
    if (s->ascii_only)
        return hr__writer_add(out, p + first, count, err);
    begin = hr__utf8_skip(p, n, first);
    return hr__writer_add(out, p + begin, hr__utf8_skip(p + begin, n - begin, count), err);
}

static hr_status slice_bind(hr_bound_call *call, hr_error *err)
{
    const slice_options *o = call->expr->options;
    string_state *s;

    HR_TRY(text_bind(call, err));
    HR_TRY(new_state(call, &s, err));
    s->start = o->start;
    s->stop = o->stop;
    s->step = o->step;
    s->has_stop = o->stop != NO_STOP;
    if (o->step == 0 || o->step == INT64_MIN)
        return hr_error_set(err, HR_INVALID, "str_slice: step is %" PRId64, o->step);
    return HR_OK;
}

static hr_status slice_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                            hr_error *err)
{
    string_state s = *(const string_state *)call->state;
    hr_rows rows = hr__rows_of(args[0]);
    hr_view all = hr__rows_all(&rows, how->n_rows);

    s.ascii_only = hr__ascii_only(all.data, all.n);
    return hr__map_text(call, how, args[0], slice_text, &s, 0, out, err);
}

/* Replaces characters [start, stop) by the text. */
static hr_status replace_slice(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    const string_state *s = context;
    int64_t chars = hr__utf8_count(p, n), start = s->start, stop = s->stop, begin, end;

    start = HR_MIN(HR_MAX(start < 0 ? start + chars : start, 0), chars);
    stop = HR_MIN(HR_MAX(stop < 0 ? stop + chars : stop, start), chars);
    begin = hr__utf8_skip(p, n, start);
    end = begin + hr__utf8_skip(p + begin, n - begin, stop - start);
    HR_TRY(hr__writer_add(out, p, begin, err));
    HR_TRY(hr__writer_add(out, s->text.data, s->text.n, err));
    return hr__writer_add(out, p + end, n - end, err);
}

static hr_status replace_slice_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(slice_bind(call, err));
    return hr__constant_text(call, 1, "the replacement", &((string_state *)call->state)->text, err);
}

static hr_status replace_slice_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                    hr_array **out, hr_error *err)
{
    return hr__map_text(call, how, args[0], replace_slice, call->state, 0, out, err);
}

/* --------------------------------------------------------------------------------------------- repeating, reversing */

typedef struct repeat_options {
    int64_t n;
} repeat_options;

static const hr_option repeat_settings[] = {
    { .name = "n",
      .kind = HR_OPT_INT,
      .at = offsetof(repeat_options, n),
      .min = 0,
      .max = MOST_REPEATED,
      .value = 1,
      .doc = "the number of repetitions" },
    { 0 },
};

static hr_status repeat(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    int64_t times = *(const int64_t *)context;
    uint8_t *to;

    if (n == 0 || times == 0)
        return HR_OK;
    if (n > INT64_MAX / times)
        return hr__error_memory(err, "str_repeat", INT64_MAX);
    if (!out->wide && n * times > INT32_MAX) /* checked before the allocation */
        return hr_error_set(err, HR_BAD_DATA,
                            "more than 2 GiB of text in one column of 32-bit offsets; cast to a large type first");
    HR_TRY(hr__writer_room(out, n * times, &to, err));
    for (int64_t i = 0; i < times; i++)
        memcpy(to + i * n, p, (size_t)n);
    hr__writer_took(out, n * times);
    return HR_OK;
}

static hr_status str_repeat_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                 hr_error *err)
{
    int64_t n = ((const repeat_options *)call->expr->options)->n;

    return hr__map_text(call, how, args[0], repeat, &n, 0, out, err);
}

static hr_status reverse(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err)
{
    uint8_t *to;
    int bytes;

    (void)context;
    HR_TRY(hr__writer_room(out, n, &to, err));
    for (int64_t at = 0; at < n; at += bytes) {
        hr__utf8_next(p + at, n - at, &bytes);
        memcpy(to + n - at - bytes, p + at, (size_t)bytes);
    }
    hr__writer_took(out, n);
    return HR_OK;
}

static hr_status str_reverse_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                  hr_error *err)
{
    return hr__map_text(call, how, args[0], reverse, NULL, 0, out, err);
}

/* ---------------------------------------------------------------------------------------------------- concatenation */

/* `+` of texts: fn_arith.c binds and runs it. */
hr_status hr__concat_bind(hr_bound_call *call, hr_error *err) { return hr__call_common(call, 0, &call->type, err); }

hr_status hr__concat_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                          hr_error *err)
{
    const hr_rows a = hr__rows_of(args[0]), b = hr__rows_of(args[1]);
    const int64_t step_a = !call->constants[0], step_b = !call->constants[1];
    hr_buffer *validity = NULL;
    hr_writer w = { 0 };
    hr_status st = HR_OK;
    int64_t n, m, guess;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 2, &validity, &all_null, err));
    if (all_null || call->type->id == HR_T_NULL) {
        hr__buffer_unref(validity);
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    }
    guess = hr__rows_all(&a, step_a ? how->n_rows : 1).n * (step_a ? 1 : how->n_rows);
    guess += hr__rows_all(&b, step_b ? how->n_rows : 1).n * (step_b ? 1 : how->n_rows);
    HR_GO(hr__writer_open(&w, how, call->type, how->n_rows, HR_MIN(guess, INT32_MAX), err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        if (hr__is_valid(validity, i)) {
            const uint8_t *p = hr__row(&a, i * step_a, &n), *q = hr__row(&b, i * step_b, &m);

            HR_GO(hr__writer_add(&w, p, n, err));
            HR_GO(hr__writer_add(&w, q, m, err));
        }
        HR_GO(hr__writer_end_row(&w, err));
    }
    st = hr__writer_finish(&w, validity, out, err);
    validity = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__writer_clear(&w);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_ENTRY(fn, n, most, binder, evaluator, text, ...)                                                            \
    { .name = #fn,                                                                                                     \
      .doc = text,                                                                                                     \
      .min_args = n,                                                                                                   \
      .max_args = most,                                                                                                \
      .takes_constants = (most) > 1,                                                                                   \
      .bind = binder,                                                                                                  \
      .eval = evaluator,                                                                                               \
      __VA_ARGS__ }
#define HR_PLAIN(fn, binder, text) HR_ENTRY(fn, 1, 1, binder, fn##_eval, text, )
#define HR_WIDTH .options = width_settings, .options_bytes = sizeof(width_options)
#define HR_SLICE .options = slice_settings, .options_bytes = sizeof(slice_options)

const hr_expr_function hr__fn_string[] = {
    HR_PLAIN(str_len, length_bind, "the number of characters"),
    HR_PLAIN(str_byte_len, length_bind, "the number of bytes"),
    HR_PLAIN(str_upper, text_bind, "a in upper case"),
    HR_PLAIN(str_lower, text_bind, "a in lower case"),
    HR_PLAIN(str_capitalize, text_bind, "the first character in upper case, the others in lower case"),
    HR_PLAIN(str_title, text_bind, "each word's first letter in upper case, the others in lower case"),
    HR_PLAIN(str_swapcase, text_bind, "upper case for lower case and lower case for upper case"),
    HR_PLAIN(str_is_alpha, bool_bind, "all characters are letters, and at least one exists"),
    HR_PLAIN(str_is_alnum, bool_bind, "all are letters or numbers, and at least one exists"),
    HR_PLAIN(str_is_digit, bool_bind, "all are digits, superscripts and the like too, and at least one exists"),
    HR_PLAIN(str_is_decimal, bool_bind, "all are digits 0 to 9 of any script, and at least one exists"),
    HR_PLAIN(str_is_numeric, bool_bind, "all are numbers, and at least one exists"),
    HR_PLAIN(str_is_space, bool_bind, "all are blanks, and at least one exists"),
    HR_PLAIN(str_is_lower, bool_bind, "all letters with a case are in lower case, and at least one exists"),
    HR_PLAIN(str_is_upper, bool_bind, "all letters with a case are in upper case, and at least one exists"),
    HR_PLAIN(str_is_title, bool_bind, "each word begins in upper case and goes on in lower case"),
    HR_PLAIN(str_is_printable, bool_bind, "all are printable, or the text is empty"),
    HR_PLAIN(str_is_ascii, bool_bind, "all are ASCII, or the text is empty"),
    HR_ENTRY(str_strip, 1, 2, strip_bind, strip_eval, "a without blanks, or the characters of b, at both ends", ),
    HR_ENTRY(str_lstrip, 1, 2, strip_bind, strip_eval, "a without blanks, or the characters of b, on the left", ),
    HR_ENTRY(str_rstrip, 1, 2, strip_bind, strip_eval, "a without blanks, or the characters of b, on the right", ),
    HR_ENTRY(str_lpad, 1, 2, pad_bind, pad_eval, "a filled on the left with blanks, or b", HR_WIDTH),
    HR_ENTRY(str_rpad, 1, 2, pad_bind, pad_eval, "a filled on the right with blanks, or b", HR_WIDTH),
    HR_ENTRY(str_center, 1, 2, pad_bind, pad_eval, "a filled on both sides with blanks, or b", HR_WIDTH),
    HR_ENTRY(str_zfill, 1, 1, pad_bind, pad_eval, "a filled on the left with zeros, after a sign", HR_WIDTH),
    HR_ENTRY(str_slice, 1, 1, slice_bind, slice_eval, "some of the characters, as a slice in Python", HR_SLICE),
    HR_ENTRY(str_replace_slice, 2, 2, replace_slice_bind, replace_slice_eval, "a with b in place of a slice", HR_SLICE),
    HR_ENTRY(str_repeat, 1, 1, text_bind, str_repeat_eval, "a repeated n times", .options = repeat_settings,
             .options_bytes = sizeof(repeat_options)),
    HR_PLAIN(str_reverse, text_bind, "a from its last character to its first"),
    { 0 },
};
