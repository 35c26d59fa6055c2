/* fn_time.c - functions of dates and times: their parts, their text, and rounding to units of the calendar.
 *
 * A timestamp with a time zone counts in its zone (zone.c), one without as local time. Results equal those of Arrow's
 * kernels: parts are int64, Monday is day 0 of the week, weeks are ISO's and begin on Monday; rounding goes to the
 * nearest multiple, up from the middle. If clocks are set back, a time that occurs twice means the first one; rounding
 * to units shorter than a day never changes the offset. */
#include "base/number.h"
#include "expr/fn/text_rows.h"
#include "expr/zone.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { DAY = 86400 };

/* name, dates have it, times of day have it */
#define FIELDS(X)                                                                                                      \
    X(year, true, false)                                                                                               \
    X(quarter, true, false)                                                                                            \
    X(month, true, false)                                                                                              \
    X(day, true, false)                                                                                                \
    X(hour, false, true)                                                                                               \
    X(minute, false, true)                                                                                             \
    X(second, false, true)                                                                                             \
    X(millisecond, false, true)                                                                                        \
    X(microsecond, false, true)                                                                                        \
    X(nanosecond, false, true)                                                                                         \
    X(day_of_week, true, false)                                                                                        \
    X(day_of_year, true, false)                                                                                        \
    X(iso_week, true, false)                                                                                           \
    X(iso_year, true, false)

typedef enum field {
#define HR_X(name, dates, times) F_##name,
    FIELDS(HR_X)
#undef HR_X
} field;

typedef enum time_unit {
    U_YEAR,
    U_QUARTER,
    U_MONTH,
    U_WEEK,
    U_DAY,
    U_HOUR,
    U_MINUTE,
    U_SECOND,
    U_MILLI,
    U_MICRO,
    U_NANO
} time_unit;
typedef enum rounding { R_FLOOR, R_CEIL, R_ROUND } rounding;

typedef struct time_state {
    hr_zone *zone;         /* NULL: none */
    int64_t ticks;         /* a second */
    int64_t seconds_scale; /* of date32: the seconds of a tick */
    field field;
    rounding rounding;
    time_unit unit;
    const char *format;
} time_state;

/* An instant in parts. */
typedef struct moment {
    int64_t day;    /* days since 1970, local */
    int32_t second; /* seconds of the day */
    int64_t ticks;  /* nanoseconds of the second */
} moment;

static void time_free(void *state)
{
    time_state *s = state;

    if (s)
        hr__zone_free(s->zone);
    hr__free(s);
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* ---------------------------------------------------------------------------------------------------------- binding */

static bool has_date(const hr_type *t)
{
    return t->id == HR_T_TIMESTAMP || t->id == HR_T_DATE32 || t->id == HR_T_DATE64;
}
static bool has_time(const hr_type *t)
{
    return t->id == HR_T_TIMESTAMP || t->id == HR_T_TIME32 || t->id == HR_T_TIME64;
}

/* The state for input 0, which may be a date or a time if the caller allows it. */
static hr_status time_bind(hr_bound_call *call, bool dates, bool times, time_state **out, hr_error *err)
{
    static const int64_t per_second[] = { 1, 1000, 1000000, 1000000000 };
    hr_type *t = call->input_types[0];
    time_state *s = NULL;

    if (t->id == HR_T_NULL) {
        hr_type *plain = NULL;

        HR_TRY(hr__type_unit(HR_T_TIMESTAMP, HR_MICRO, NULL, &plain, err));
        hr__call_cast(call, 0, plain);
        hr__type_unref(plain);
    } else if (!(dates && has_date(t)) && !(times && has_time(t))) {
        return hr__call_type_error(call,
                                   dates ? times ? "expected a date or time" : "expected a date or timestamp"
                                         : "expected a time or timestamp",
                                   err);
    }
    if (!(s = call->state = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    s->ticks = t->id == HR_T_DATE32   ? 1
               : t->id == HR_T_DATE64 ? 1000
               : t->id == HR_T_NULL   ? 1000000
                                      : per_second[t->unit];
    s->seconds_scale = t->id == HR_T_DATE32 ? DAY : 1;
    *out = s;
    if (t->id == HR_T_TIMESTAMP && t->zone)
        return hr__zone_new(t->zone, &s->zone, err);
    return HR_OK;
}

static int64_t tick_at(const time_state *s, const hr_array *a, int64_t i)
{
    return hr__array_int(a, i) * s->seconds_scale;
}

/* Local time of an instant. */
static moment moment_of(const time_state *s, int64_t t, hr_zone_span *span)
{
    int64_t second = floor_div(t, s->ticks);
    moment m = { .ticks = t - second * s->ticks };

    if (s->zone) {
        hr__zone_at(s->zone, second, span);
        if (__builtin_add_overflow(second, span->offset, &second))
            second = span->offset > 0 ? INT64_MAX : INT64_MIN;
    }
    m.day = floor_div(second, DAY);
    m.second = (int32_t)(second - m.day * DAY);
    return m;
}

/* ------------------------------------------------------------------------------------------------------------ parts */

static int weekday_of(int64_t day) { return (int)(((day + 3) % 7 + 7) % 7); } /* 0: Monday; 1970 began on a Thursday */

static void iso_week_of(int64_t day, int64_t *year, int *week)
{
    int64_t thursday = day - weekday_of(day) + 3;
    int month, d;

    hr__date_of(thursday, year, &month, &d);
    *week = (int)((thursday - hr__days_of(*year, 1, 1)) / 7) + 1;
}

static int64_t date_part(field f, int64_t day)
{
    int64_t year;
    int month, d, week;

    if (f == F_day_of_week)
        return weekday_of(day);
    if (f == F_iso_week || f == F_iso_year) {
        iso_week_of(day, &year, &week);
        return f == F_iso_week ? week : year;
    }
    hr__date_of(day, &year, &month, &d);
    switch (f) {
    case F_year: return year;
    case F_quarter: return (month - 1) / 3 + 1;
    case F_month: return month;
    case F_day: return d;
    default: return day - hr__days_of(year, 1, 1) + 1;
    }
}

/* Digits `skip` to skip + 3 after the point; the column has as many digits as its unit. */
static int64_t fraction_part(const time_state *s, const moment *m, int64_t per_second)
{
    int64_t scaled = s->ticks >= per_second ? m->ticks / (s->ticks / per_second) : m->ticks * (per_second / s->ticks);

    return scaled % 1000;
}

static int64_t part_of(const time_state *s, const moment *m)
{
    switch (s->field) {
    case F_hour: return m->second / 3600;
    case F_minute: return m->second / 60 % 60;
    case F_second: return m->second % 60;
    case F_millisecond: return fraction_part(s, m, 1000);
    case F_microsecond: return s->ticks < 1000000 ? 0 : fraction_part(s, m, 1000000);
    case F_nanosecond: return s->ticks < 1000000000 ? 0 : fraction_part(s, m, 1000000000);
    default: return date_part(s->field, m->day);
    }
}

static hr_status part_bind(hr_bound_call *call, field f, bool dates, bool times, hr_error *err)
{
    time_state *s = NULL;

    HR_TRY(time_bind(call, dates, times, &s, err));
    s->field = f;
    call->type = hr__type_simple(HR_T_INT64);
    return HR_OK;
}

/* A column of one number a row: fn(state, moment). */
static hr_status each(const hr_bound_call *call, const hr_eval *how, const hr_array *a,
                      int64_t (*fn)(const time_state *s, const moment *m), hr_array **out, hr_error *err)
{
    const time_state *s = call->state;
    const int bytes = hr__type_bytes(call->type);
    hr_buffer *validity = NULL, *made = NULL;
    hr_zone_span span = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, (hr_array *const *)&a, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__buffer_new(how->mem, how->n_rows * bytes, &made, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t v = 0;

        if (hr__is_valid(validity, i)) {
            moment m = moment_of(s, tick_at(s, a, i), &span);

            v = fn(s, &m);
        }
        hr__put_int(made, bytes, i, v);
    }
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

static hr_status part_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                           hr_error *err)
{
    return each(call, how, args[0], part_of, out, err);
}

static int64_t day_of(const time_state *s, const moment *m)
{
    (void)s;
    return HR_MAX(INT32_MIN, HR_MIN(INT32_MAX, m->day));
}

static hr_status dt_date_bind(hr_bound_call *call, hr_error *err)
{
    time_state *s = NULL;

    HR_TRY(time_bind(call, true, false, &s, err));
    call->type = hr__type_simple(HR_T_DATE32);
    return HR_OK;
}

static hr_status dt_date_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                              hr_error *err)
{
    return each(call, how, args[0], day_of, out, err);
}

/* --------------------------------------------------------------------------------------------------------- rounding */

typedef struct round_options {
    int unit;
} round_options;

static const hr_option round_settings[] = {
    { .name = "unit",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(round_options, unit),
      .value = U_DAY,
      .text = "year quarter month week day hour minute second millisecond microsecond nanosecond",
      .doc = "unit of the calendar or the clock" },
    { 0 },
};

/* The ticks of a unit of fixed length; 0: a month or longer, or shorter than a tick. */
static int64_t ticks_of(const time_state *s)
{
    switch (s->unit) {
    case U_WEEK: return 7 * DAY * s->ticks;
    case U_DAY: return DAY * s->ticks;
    case U_HOUR: return 3600 * s->ticks;
    case U_MINUTE: return 60 * s->ticks;
    case U_SECOND: return s->ticks;
    case U_MILLI: return s->ticks / 1000;
    case U_MICRO: return s->ticks / 1000000;
    case U_NANO: return s->ticks / 1000000000;
    default: return 0;
    }
}

/* The beginning of the unit that contains local time `t`, and of the next one. false: out of the range of 64 bits. */
static bool unit_around(const time_state *s, int64_t t, int64_t *begin, int64_t *next)
{
    static const int months_of[] = { 12, 3, 1 };
    int64_t length = ticks_of(s), year, rest, days, last;
    int month, day, months;

    if (length) {
        int64_t shift = s->unit == U_WEEK ? 3 * DAY * s->ticks : 0; /* 1970 began on a Thursday */

        if (__builtin_add_overflow(t, shift, &rest))
            return false;
        rest %= length;
        return !__builtin_sub_overflow(t, rest < 0 ? rest + length : rest, begin) &&
               !__builtin_add_overflow(*begin, length, next);
    }
    hr__date_of(floor_div(t, DAY * s->ticks), &year, &month, &day);
    months = months_of[s->unit];
    month = (month - 1) / months * months + 1;
    days = hr__days_of(year, month, 1);
    month += months;
    last = month > 12 ? hr__days_of(year + 1, month - 12, 1) : hr__days_of(year, month, 1);
    return !__builtin_mul_overflow(days, DAY * s->ticks, begin) && !__builtin_mul_overflow(last, DAY * s->ticks, next);
}

static bool round_one(const time_state *s, int64_t t, hr_zone_span *span, int64_t *out)
{
    int64_t offset = 0, local, begin = 0, next = 0, found, second;

    if (s->unit > U_SECOND && ticks_of(s) == 0) { /* finer than the column */
        *out = t;
        return true;
    }
    if (s->zone) {
        hr__zone_at(s->zone, floor_div(t, s->ticks), span);
        offset = span->offset * s->ticks;
    }
    if (__builtin_add_overflow(t, offset, &local) || !unit_around(s, local, &begin, &next))
        return false;
    if (begin == local || s->rounding == R_FLOOR)
        found = begin;
    else
        found = s->rounding == R_CEIL || local - begin >= next - local ? next : begin;
    if (!s->zone || s->unit > U_DAY || found == local)
        return !__builtin_sub_overflow(found, offset, out);
    second = hr__zone_instant(s->zone, found / s->ticks, span); /* whole days: no remainder of ticks */
    return !__builtin_mul_overflow(second, s->ticks, out);
}

static hr_status round_bind(hr_bound_call *call, rounding r, hr_error *err)
{
    const round_options *o = call->expr->options;
    time_state *s = NULL;

    HR_TRY(time_bind(call, true, false, &s, err));
    s->rounding = r;
    s->unit = (time_unit)o->unit;
    if (call->input_types[0]->id == HR_T_NULL)
        return hr__type_unit(HR_T_TIMESTAMP, HR_MICRO, NULL, &call->type, err);
    call->type = hr__type_ref(call->input_types[0]);
    return HR_OK;
}

static hr_status round_refuse(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int64_t row,
                              hr_error *err)
{
    hr_text value = { 0 };
    char place[HR_PLACE_BYTES];
    hr_status st;

    hr__array_print_some(a, row, 60, &value);
    st = hr_error_set(err, HR_BAD_DATA, "%s: %s(%.60s) is beyond the range of times", hr__eval_place(how, row, place),
                      call->expr->function->name, value.data ? value.data : "?");
    hr__text_clear(&value);
    return st;
}

static hr_status round_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                            hr_error *err)
{
    const time_state *s = call->state;
    const hr_array *a = args[0];
    const int bytes = hr__type_bytes(call->type);
    hr_buffer *validity = NULL, *made = NULL;
    hr_zone_span span = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__buffer_new(how->mem, how->n_rows * bytes, &made, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t v = 0;

        if (hr__is_valid(validity, i) && !round_one(s, tick_at(s, a, i), &span, &v))
            HR_GO(round_refuse(call, how, a, i, err));
        v /= s->seconds_scale;
        hr__put_int(made, bytes, i, v);
    }
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- as text */

typedef struct strftime_options {
    char *format;
} strftime_options;

static const hr_option strftime_settings[] = {
    { .name = "format",
      .kind = HR_OPT_TEXT,
      .at = offsetof(strftime_options, format),
      .text = "%Y-%m-%dT%H:%M:%S",
      .doc = "as in C's strftime; %S with the digits of the column's unit" },
    { 0 },
};

static const char *const day_names[] = { "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday" };
static const char *const month_names[] = { "January", "February", "March",     "April",   "May",      "June",
                                           "July",    "August",   "September", "October", "November", "December" };
#define KNOWN_FORMATS "aAbBcCdDeFgGhHIjmMnprRStTuUVwWxXyYzZ%"

static hr_status dt_strftime_bind(hr_bound_call *call, hr_error *err)
{
    const strftime_options *o = call->expr->options;
    time_state *s = NULL;

    HR_TRY(time_bind(call, true, true, &s, err));
    s->format = o->format;
    call->type = hr__type_simple(HR_T_STRING);
    for (const char *p = s->format; *p; p++) {
        if (*p != '%')
            continue;
        if (!*++p || !strchr(KNOWN_FORMATS, *p))
            return hr_error_set(err, HR_INVALID, "dt_strftime: '%.100s': %%%c is unknown", s->format, *p ? *p : ' ');
        if ((*p == 'z' || *p == 'Z') && !s->zone)
            return hr_error_set(err, HR_INVALID, "dt_strftime: '%.100s': the column has no time zone", s->format);
    }
    return HR_OK;
}

typedef struct broken {
    moment m;
    int64_t year, iso_year;
    int month, day, weekday, day_of_year, iso_week;
    const hr_zone_span *span;
} broken;

static hr_status put(hr_writer *w, hr_error *err, const char *fmt, ...) HR_PRINTF(3, 4);
static hr_status put(hr_writer *w, hr_error *err, const char *fmt, ...)
{
    char text[80];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return hr__writer_add(w, text, n, err);
}

static hr_status put_year(hr_writer *w, int64_t year, hr_error *err)
{
    return put(w, err, "%s%04" PRId64, year < 0 ? "-" : "", year < 0 ? -year : year);
}

static hr_status put_clock(const time_state *s, hr_writer *w, const moment *m, bool hours, hr_error *err)
{
    int digits = s->ticks == 1000 ? 3 : s->ticks == 1000000 ? 6 : s->ticks == 1000000000 ? 9 : 0;

    if (hours)
        HR_TRY(put(w, err, "%02d:%02d:", m->second / 3600, m->second / 60 % 60));
    HR_TRY(put(w, err, "%02d", m->second % 60));
    return digits ? put(w, err, ".%0*" PRId64, digits, m->ticks) : HR_OK;
}

static hr_status put_field(const time_state *s, hr_writer *w, const broken *b, char what, hr_error *err)
{
    const moment *m = &b->m;
    int hour = m->second / 3600, minute = m->second / 60 % 60, second = m->second % 60, east;
    int twelve = hour % 12 ? hour % 12 : 12;

    switch (what) {
    case 'a': return put(w, err, "%.3s", day_names[b->weekday]);
    case 'A': return put(w, err, "%s", day_names[b->weekday]);
    case 'b':
    case 'h': return put(w, err, "%.3s", month_names[b->month - 1]);
    case 'B': return put(w, err, "%s", month_names[b->month - 1]);
    case 'c':
        return put(w, err, "%.3s %.3s %2d %02d:%02d:%02d %" PRId64, day_names[b->weekday], month_names[b->month - 1],
                   b->day, hour, minute, second, b->year);
    case 'C': return put(w, err, "%02" PRId64, floor_div(b->year, 100));
    case 'd': return put(w, err, "%02d", b->day);
    case 'D':
    case 'x': return put(w, err, "%02d/%02d/%02d", b->month, b->day, (int)(((b->year % 100) + 100) % 100));
    case 'e': return put(w, err, "%2d", b->day);
    case 'F': HR_TRY(put_year(w, b->year, err)); return put(w, err, "-%02d-%02d", b->month, b->day);
    case 'g': return put(w, err, "%02d", (int)(((b->iso_year % 100) + 100) % 100));
    case 'G': return put_year(w, b->iso_year, err);
    case 'H': return put(w, err, "%02d", hour);
    case 'I': return put(w, err, "%02d", twelve);
    case 'j': return put(w, err, "%03d", b->day_of_year);
    case 'm': return put(w, err, "%02d", b->month);
    case 'M': return put(w, err, "%02d", minute);
    case 'n': return put(w, err, "\n");
    case 'p': return put(w, err, "%s", hour < 12 ? "AM" : "PM");
    case 'r': return put(w, err, "%02d:%02d:%02d %s", twelve, minute, second, hour < 12 ? "AM" : "PM");
    case 'R': return put(w, err, "%02d:%02d", hour, minute);
    case 'S': return put_clock(s, w, m, false, err);
    case 't': return put(w, err, "\t");
    case 'T': return put_clock(s, w, m, true, err);
    case 'u': return put(w, err, "%d", b->weekday + 1);
    case 'U': return put(w, err, "%02d", (b->day_of_year + 6 - (b->weekday + 1) % 7) / 7);
    case 'V': return put(w, err, "%02d", b->iso_week);
    case 'w': return put(w, err, "%d", (b->weekday + 1) % 7);
    case 'W': return put(w, err, "%02d", (b->day_of_year + 6 - b->weekday) / 7);
    case 'X': return put(w, err, "%02d:%02d:%02d", hour, minute, second);
    case 'y': return put(w, err, "%02d", (int)(((b->year % 100) + 100) % 100));
    case 'Y': return put_year(w, b->year, err);
    case 'z':
        east = b->span->offset < 0 ? -b->span->offset / 60 : b->span->offset / 60;
        return put(w, err, "%c%02d%02d", b->span->offset < 0 ? '-' : '+', east / 60, east % 60);
    case 'Z': return put(w, err, "%s", b->span->name);
    default: return put(w, err, "%c", what);
    }
}

static hr_status put_moment(const time_state *s, hr_writer *w, int64_t t, hr_zone_span *span, hr_error *err)
{
    broken b = { .m = moment_of(s, t, span), .span = span };

    hr__date_of(b.m.day, &b.year, &b.month, &b.day);
    b.weekday = weekday_of(b.m.day);
    b.day_of_year = (int)(b.m.day - hr__days_of(b.year, 1, 1)) + 1;
    iso_week_of(b.m.day, &b.iso_year, &b.iso_week);
    for (const char *p = s->format; *p; p++) {
        size_t plain = strcspn(p, "%");

        HR_TRY(hr__writer_add(w, p, (int64_t)plain, err));
        p += plain;
        if (!*p)
            break;
        HR_TRY(put_field(s, w, &b, *++p, err));
    }
    return HR_OK;
}

static hr_status dt_strftime_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                  hr_error *err)
{
    const time_state *s = call->state;
    hr_buffer *validity = NULL;
    hr_zone_span span = { 0 };
    hr_writer w = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__writer_open(&w, how, call->type, how->n_rows, how->n_rows * 20, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        if (hr__is_valid(validity, i))
            HR_GO(put_moment(s, &w, tick_at(s, args[0], i), &span, err));
        HR_GO(hr__writer_end_row(&w, err));
    }
    st = hr__writer_finish(&w, validity, out, err);
    validity = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__writer_clear(&w);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- ranges */

/* Years, days and rounded times keep the order, unless a zone sets clocks back. */
static void time_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem, .n_rows = 1 };
    const time_state *s = call->state;
    hr_array *least = in->least, *most = in->most;

    (void)p;
    if (s->zone || call->input_types[0]->id == HR_T_NULL)
        return;
    out->can_null = in->can_null;
    out->can_value = in->can_value;
    out->can_nan = false;
    if (least && call->expr->function->eval(call, &how, &least, &out->least, NULL))
        out->least = NULL;
    if (most && call->expr->function->eval(call, &how, &most, &out->most, NULL))
        out->most = NULL;
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_X(name, dates, times)                                                                                       \
    static hr_status dt_##name##_bind(hr_bound_call *call, hr_error *err)                                              \
    {                                                                                                                  \
        return part_bind(call, F_##name, dates, times, err);                                                           \
    }
FIELDS(HR_X)
#undef HR_X

#define HR_ROUNDING(name, how)                                                                                         \
    static hr_status dt_##name##_bind(hr_bound_call *call, hr_error *err) { return round_bind(call, how, err); }
HR_ROUNDING(floor, R_FLOOR)
HR_ROUNDING(ceil, R_CEIL)
HR_ROUNDING(round, R_ROUND)

#define HR_ENTRY(fn, evaluator, text, ...)                                                                             \
    { .name = #fn,                                                                                                     \
      .doc = text,                                                                                                     \
      .min_args = 1,                                                                                                   \
      .max_args = 1,                                                                                                   \
      .bind = fn##_bind,                                                                                               \
      .eval = evaluator,                                                                                               \
      .state_free = time_free,                                                                                         \
      __VA_ARGS__ }
#define HR_UNIT .options = round_settings, .options_bytes = sizeof(round_options), .range = time_range

const hr_expr_function hr__fn_time[] = {
    HR_ENTRY(dt_year, part_eval, "the year", .range = time_range),
    HR_ENTRY(dt_quarter, part_eval, "the quarter, 1 to 4", ),
    HR_ENTRY(dt_month, part_eval, "the month, 1 to 12", ),
    HR_ENTRY(dt_day, part_eval, "the day of the month, 1 to 31", ),
    HR_ENTRY(dt_hour, part_eval, "the hour, 0 to 23", ),
    HR_ENTRY(dt_minute, part_eval, "the minute", ),
    HR_ENTRY(dt_second, part_eval, "the second", ),
    HR_ENTRY(dt_millisecond, part_eval, "milliseconds since the last second", ),
    HR_ENTRY(dt_microsecond, part_eval, "microseconds since the last millisecond", ),
    HR_ENTRY(dt_nanosecond, part_eval, "nanoseconds since the last microsecond", ),
    HR_ENTRY(dt_day_of_week, part_eval, "0 for Monday to 6 for Sunday", ),
    HR_ENTRY(dt_day_of_year, part_eval, "the day of the year, from 1", ),
    HR_ENTRY(dt_iso_week, part_eval, "the ISO 8601 week, 1 to 53", ),
    HR_ENTRY(dt_iso_year, part_eval, "the year that the ISO 8601 week belongs to", .range = time_range),
    HR_ENTRY(dt_date, dt_date_eval, "the day, as date32", .range = time_range),
    HR_ENTRY(dt_floor, round_eval, "the beginning of the unit that contains the time", HR_UNIT),
    HR_ENTRY(dt_ceil, round_eval, "the beginning of the next unit, unless the time is one", HR_UNIT),
    HR_ENTRY(dt_round, round_eval, "the nearest beginning of a unit, up from the middle", HR_UNIT),
    HR_ENTRY(dt_strftime, dt_strftime_eval, "the time as text", .options = strftime_settings,
             .options_bytes = sizeof(strftime_options)),
    { 0 },
};
