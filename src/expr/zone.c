/* zone.c - time zones from the system's database (TZif files, RFC 8536), and fixed offsets.
 *
 * A file lists the instants at which the offset changed, and ends with a rule (POSIX TZ) for all time after the last of
 * them. The folder is TZDIR, or /usr/share/zoneinfo. The code does not trust the system's files: it checks every count
 * against the size, and every index against its count. */
#include "expr/zone.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FAR INT64_C(1000000000000000) /* 30 million years: no summer time beyond */
enum { MOST_BYTES = 1 << 20, HEADER = 44, NAME_BYTES = 16, DAY = 86400 };

/* When a rule's daylight time begins or ends. */
typedef struct rule_day {
    char kind; /* 'M': month, week, day of the week; 'J': day 1 to 365 without 29 February; 'D': day 0 to 365 */
    int month, week, day;
    int32_t seconds; /* of local time, from midnight; may be negative or beyond a day */
} rule_day;

typedef struct offset_type {
    int32_t offset;
    char name[NAME_BYTES];
} offset_type;

struct hr_zone {
    int64_t *times; /* n_times, ascending; at each begins types[which[i]] */
    uint8_t *which;
    int64_t n_times;
    offset_type *types;
    int n_types;
    bool has_rule, has_summer;
    offset_type standard, summer; /* of the rule */
    rule_day start, stop;
};

/* --------------------------------------------------------------------------------------------------------- the rule */

typedef struct cursor {
    const char *p, *end;
    bool bad;
} cursor;

static char peek(const cursor *c) { return c->p < c->end ? *c->p : 0; }

static bool take(cursor *c, char wanted)
{
    if (peek(c) != wanted)
        return false;
    c->p++;
    return true;
}

static int take_int(cursor *c, int most)
{
    int v = 0, digits = 0;

    for (; peek(c) >= '0' && peek(c) <= '9' && digits < 6; c->p++, digits++)
        v = v * 10 + (*c->p - '0');
    c->bad = c->bad || digits == 0 || v > most;
    return v > most ? most : v; /* a refused number still does not overflow the computation */
}

/* "CET" or "<+0330>" */
static void take_name(cursor *c, char out[NAME_BYTES])
{
    bool quoted = take(c, '<');
    int n = 0;

    for (; peek(c) && n < NAME_BYTES - 1; c->p++) {
        char v = *c->p;

        if (quoted ? v == '>' : !((v >= 'a' && v <= 'z') || (v >= 'A' && v <= 'Z')))
            break;
        out[n++] = v;
    }
    out[n] = 0;
    c->bad = c->bad || n == 0 || (quoted && !take(c, '>'));
}

/* "-3", "5:30", "167:00:00" */
static int32_t take_time(cursor *c)
{
    int sign = take(c, '-') ? -1 : 1;
    int32_t v;

    if (sign > 0)
        take(c, '+');
    v = take_int(c, 200) * 3600;
    if (take(c, ':'))
        v += take_int(c, 59) * 60;
    if (take(c, ':'))
        v += take_int(c, 59);
    return sign * v;
}

static rule_day take_day(cursor *c)
{
    rule_day d = { .kind = 'D', .seconds = 2 * 3600 };

    if (take(c, 'M')) {
        d.kind = 'M';
        d.month = take_int(c, 12);
        c->bad = c->bad || !take(c, '.');
        d.week = take_int(c, 5);
        c->bad = c->bad || !take(c, '.') || d.month < 1 || d.week < 1;
        d.day = take_int(c, 6);
    } else if (take(c, 'J')) {
        d.kind = 'J';
        d.day = take_int(c, 365);
        c->bad = c->bad || d.day < 1;
    } else {
        d.day = take_int(c, 365);
    }
    if (take(c, '/'))
        d.seconds = take_time(c);
    return d;
}

/* The search for a local time covers this distance from the same time in UTC. */
static bool is_offset(int32_t seconds) { return seconds >= -2 * DAY && seconds <= 2 * DAY; }

/* "CET-1CEST,M3.5.0,M10.5.0/3"; its offsets count west of UTC. */
static bool parse_rule(hr_zone *z, const char *text, int64_t n)
{
    cursor c = { text, text + n, false };

    take_name(&c, z->standard.name);
    z->standard.offset = -take_time(&c);
    if (c.p < c.end) {
        z->has_summer = true;
        take_name(&c, z->summer.name);
        z->summer.offset = z->standard.offset + 3600;
        if (peek(&c) && peek(&c) != ',')
            z->summer.offset = -take_time(&c);
        c.bad = c.bad || !take(&c, ',');
        z->start = take_day(&c);
        c.bad = c.bad || !take(&c, ',');
        z->stop = take_day(&c);
    }
    z->has_rule = true;
    return !c.bad && c.p == c.end && is_offset(z->standard.offset) && is_offset(z->summer.offset);
}

static bool is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

/* Local seconds since 1970 of the day in that year. */
static int64_t rule_time(const rule_day *d, int64_t year)
{
    int64_t first = hr__days_of(year, 1, 1), day = first + d->day;

    if (d->kind == 'J') {
        day = first + d->day - 1 + (is_leap(year) && d->day >= 60);
    } else if (d->kind == 'M') {
        int64_t month = hr__days_of(year, d->month, 1);
        int64_t next = d->month == 12 ? hr__days_of(year + 1, 1, 1) : hr__days_of(year, d->month + 1, 1);
        int64_t weekday = ((month + 4) % 7 + 7) % 7; /* 0: Sunday */

        day = month + (d->day - weekday + 7) % 7 + 7 * (d->week - 1);
        while (day >= next)
            day -= 7;
    }
    return day * DAY + d->seconds;
}

/* The stretch of the rule that t is in. */
static void rule_at(const hr_zone *z, int64_t t, hr_zone_span *out)
{
    int64_t year, days = t / DAY - (t % DAY < 0);
    int month, day;
    int64_t begin = INT64_MIN, end = INT64_MAX;
    bool summer = false;

    if (z->has_summer && t > -FAR && t < FAR) {
        hr__date_of(days, &year, &month, &day);
        for (int64_t y = year - 2; y <= year + 2; y++) /* a time of day may be 167 hours before or after the day */
            for (int k = 0; k < 2; k++) {
                int64_t at =
                    k ? rule_time(&z->stop, y) - z->summer.offset : rule_time(&z->start, y) - z->standard.offset;

                if (at <= t && at >= begin) {
                    begin = at;
                    summer = k == 0;
                } else if (at > t && at < end) {
                    end = at;
                }
            }
    }
    *out = (hr_zone_span){ begin, end, summer ? z->summer.offset : z->standard.offset,
                           summer ? z->summer.name : z->standard.name };
}

/* --------------------------------------------------------------------------------------------------------- the file */

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t big_time(const uint8_t *p, int bytes)
{
    return bytes == 4 ? (int32_t)big32(p) : (int64_t)((uint64_t)big32(p) << 32 | big32(p + 4));
}

typedef struct counts {
    int64_t utc, std, leap, times, types, chars;
} counts;

/* The bytes of the block after a header; < 0: no header. */
static int64_t block_size(const uint8_t *p, int64_t n, int time_bytes, counts *c)
{
    int64_t size;

    if (n < HEADER || memcmp(p, "TZif", 4) != 0)
        return -1;
    *c = (counts){ big32(p + 20), big32(p + 24), big32(p + 28), big32(p + 32), big32(p + 36), big32(p + 40) };
    size = c->times * (time_bytes + 1) + c->types * 6 + c->chars + c->leap * (time_bytes + 4) + c->std + c->utc;
    return size > n - HEADER || c->types < 1 || c->types > 255 || c->chars < 1 ? -1 : size;
}

static hr_status bad_zone(hr_error *err, const char *what)
{
    return hr_error_set(err, HR_BAD_DATA, "time zone file: %s", what);
}

static hr_status parse_types(hr_zone *z, const uint8_t *types, const counts *c, hr_error *err)
{
    const uint8_t *chars = types + c->types * 6;

    for (int i = 0; i < z->n_types; i++) {
        const uint8_t *p = types + i * 6;
        int at = p[5], n = 0;

        z->types[i].offset = (int32_t)big32(p);
        if (at >= c->chars || !is_offset(z->types[i].offset))
            return bad_zone(err, "an offset is out of range");
        while (n < NAME_BYTES - 1 && at + n < c->chars && chars[at + n]) {
            z->types[i].name[n] = (char)chars[at + n];
            n++;
        }
    }
    return HR_OK;
}

static hr_status parse_block(hr_zone *z, const uint8_t *p, int time_bytes, const counts *c, hr_error *err)
{
    const uint8_t *which = p + c->times * time_bytes, *types = which + c->times;

    z->n_times = c->times;
    z->n_types = (int)c->types;
    z->times = hr__zalloc(NULL, ((size_t)z->n_times + 1) * sizeof *z->times);
    z->which = hr__zalloc(NULL, (size_t)z->n_times + 1);
    z->types = hr__zalloc(NULL, (size_t)z->n_types * sizeof *z->types);
    if (!z->times || !z->which || !z->types)
        return hr__error_memory(err, "time zone", z->n_times * 9);
    for (int64_t i = 0; i < z->n_times; i++) {
        z->times[i] = big_time(p + i * time_bytes, time_bytes);
        z->which[i] = which[i];
        if (which[i] >= z->n_types || (i && z->times[i] <= z->times[i - 1]))
            return bad_zone(err, "the changes are out of order");
    }
    return parse_types(z, types, c, err);
}

hr_status hr__zone_parse(const uint8_t *data, int64_t n, hr_zone **out, hr_error *err)
{
    hr_zone *z = hr__zalloc(NULL, sizeof *z);
    const uint8_t *end = data + n, *footer;
    int time_bytes = 4;
    hr_status st = HR_OK;
    int64_t size;
    counts c;

    *out = NULL;
    if (!z)
        return hr__error_memory(err, "time zone", sizeof *z);
    if ((size = block_size(data, n, 4, &c)) < 0)
        HR_GO(bad_zone(err, "not TZif"));
    if (data[4] >= '2') { /* the second block has 64 bits */
        data += HEADER + size;
        time_bytes = 8;
        if ((size = block_size(data, end - data, 8, &c)) < 0)
            HR_GO(bad_zone(err, "it lacks the second block"));
    }
    HR_GO(parse_block(z, data + HEADER, time_bytes, &c, err));
    data += HEADER + size;
    if (time_bytes == 8 && end - data > 2 && data[0] == '\n') {
        footer = memchr(data + 1, '\n', (size_t)(end - data - 1));
        if (!footer || (footer > data + 1 && !parse_rule(z, (const char *)data + 1, footer - data - 1)))
            HR_GO(bad_zone(err, "its rule is malformed"));
    }
    *out = z;
    z = NULL; /* moved to the caller */
done:
    hr__zone_free(z);
    return st;
}

/* "+05:30", "-0800", "+02"; false: the text is no offset */
static bool parse_offset(const char *name, hr_zone *z)
{
    const char *digits = name + 1;
    int hours, minutes = 0;
    size_t n = strlen(name);

    if ((name[0] != '+' && name[0] != '-') || n < 3 || strspn(digits, "0123456789:") != n - 1)
        return false;
    hours = (digits[0] - '0') * 10 + digits[1] - '0';
    digits += 2;
    digits += *digits == ':';
    if (strlen(digits) == 2 && digits[0] != ':' && digits[1] != ':')
        minutes = (digits[0] - '0') * 10 + digits[1] - '0';
    else if (*digits)
        return false;
    z->standard.offset = (hours * 60 + minutes) * (name[0] == '-' ? -60 : 60);
    snprintf(z->standard.name, NAME_BYTES, "%.15s", name);
    return hours < 24 && minutes < 60;
}

/* A name is a path below the database: refuses names of other files. */
static bool is_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";

    return name[0] != '/' && name[0] != '-' && strspn(name, letters) == strlen(name) && strlen(name) < 64;
}

static hr_status read_file(const char *path, hr_zone **out, hr_error *err)
{
    uint8_t *data = NULL;
    hr_status st = HR_OK;
    hr_stat info;
    int fd = hr__file_open(path);
    int64_t n;

    if (fd < 0)
        return hr__error_os(err, fd, path, "time zone");
    if ((n = hr__file_stat_fd(fd, &info)) < 0)
        HR_GO(hr__error_os(err, n, path, "time zone"));
    if (info.is_dir || info.n_bytes > MOST_BYTES)
        HR_FAIL(HR_NOT_FOUND, "%s: not a time zone", path);
    if (!(data = hr__alloc(NULL, (size_t)info.n_bytes + 1)))
        HR_GO(hr__error_memory(err, path, info.n_bytes));
    if ((n = hr__file_read_at(fd, data, info.n_bytes, 0)) < 0)
        HR_GO(hr__error_os(err, n, path, "time zone"));
    if ((st = hr__zone_parse(data, n, out, err)))
        st = hr__error_at(err, st, "%s", path);
done:
    hr__free(data);
    hr__file_close(fd);
    return st;
}

hr_status hr__zone_new(const char *name, hr_zone **out, hr_error *err)
{
    const char *folder = getenv("TZDIR");
    hr_zone *fixed = hr__zalloc(NULL, sizeof *fixed);
    char path[400];
    hr_status st;

    *out = NULL;
    if (!fixed)
        return hr__error_memory(err, "time zone", sizeof *fixed);
    fixed->has_rule = true;
    snprintf(fixed->standard.name, NAME_BYTES, "UTC");
    if (!name || !name[0] || !strcmp(name, "UTC") || !strcmp(name, "Z") || parse_offset(name, fixed)) {
        *out = fixed;
        return HR_OK;
    }
    hr__free(fixed);
    if (!folder || !folder[0])
        folder = "/usr/share/zoneinfo";
    if (!is_name(name) || strlen(folder) > 300)
        return hr_error_set(err, HR_NOT_FOUND, "time zone '%.80s': this is no name of a zone", name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    st = read_file(path, out, err);
    if (st == HR_NOT_FOUND)
        return hr_error_set(err, st,
                            "time zone '%s': not in %s (the system's package tzdata; TZDIR names another folder)", name,
                            folder);
    return st;
}

void hr__zone_free(hr_zone *z)
{
    if (!z)
        return;
    hr__free(z->times);
    hr__free(z->which);
    hr__free(z->types);
    hr__free(z);
}

/* ----------------------------------------------------------------------------------------------------------- asking */

void hr__zone_at(const hr_zone *z, int64_t t, hr_zone_span *span)
{
    int64_t low = 0, high = z->n_times;

    if (span->name && t >= span->begin && t < span->end)
        return;
    if (z->has_rule && (z->n_times == 0 || t >= z->times[z->n_times - 1])) {
        rule_at(z, t, span);
        if (z->n_times)
            span->begin = HR_MAX(span->begin, z->times[z->n_times - 1]);
        return;
    }
    while (low < high) { /* the first change after t */
        int64_t middle = low + (high - low) / 2;

        if (z->times[middle] <= t)
            low = middle + 1;
        else
            high = middle;
    }
    span->begin = low ? z->times[low - 1] : INT64_MIN;
    span->end = low < z->n_times ? z->times[low] : INT64_MAX;
    span->offset = z->types[low ? z->which[low - 1] : 0].offset;
    span->name = z->types[low ? z->which[low - 1] : 0].name;
}

int64_t hr__zone_instant(const hr_zone *z, int64_t local, hr_zone_span *span)
{
    hr_zone_span before = *span;

    if (local < INT64_MIN + 4 * DAY || local > INT64_MAX - 4 * DAY)
        return local;
    hr__zone_at(z, local - 2 * DAY, &before); /* certainly earlier: no offset is that large */
    while (local - before.offset >= before.end) {
        int64_t change = before.end;

        hr__zone_at(z, change, &before);
        if (local - before.offset < change)
            return change; /* clocks skip it */
    }
    return local - before.offset;
}
