/* number.h - numbers and times as text, both ways: what CSV, JSON and casts share. Exact: a parsed double is the
 * nearest one to the decimal, and a printed double reads back as the same. No locale. The text need not end with a NUL;
 * HR_SLACK bytes after it must be readable, with any content. */
#ifndef HR_NUMBER_H
#define HR_NUMBER_H

#include "base/all.h"

typedef enum hr_unit { HR_SECOND, HR_MILLI, HR_MICRO, HR_NANO } hr_unit;

/* The whole text is one number, without blanks. false: it is no number, or does not fit. A '-' may stand before an
 * int64 or a double; '+' is refused, as in JSON. Leading zeros are fine. */
bool hr__parse_int64(const uint8_t *p, int64_t n, int64_t *out);
bool hr__parse_uint64(const uint8_t *p, int64_t n, uint64_t *out);
/* JSON's grammar, and also: leading zeros, ".5", "5.", "inf", "infinity", "nan" in any case where `lax`. Too large is
 * infinite, too small is zero. */
bool hr__parse_double(const uint8_t *p, int64_t n, bool lax, double *out);
bool hr__parse_float(const uint8_t *p, int64_t n, bool lax, float *out); /* the nearest float: rounded once */
/* "2026-11-21"; days since 1970-01-01. */
bool hr__parse_date(const uint8_t *p, int64_t n, int32_t *days);
/* ISO 8601: date, 'T' or a blank, hh[:mm[:ss[.fffffffff]]], then nothing, 'Z', or +hh[[:]mm]. The value is in `unit`
 * since 1970 UTC. false: the fraction has more digits than the unit, or the value does not fit. *zone: 1 if the text
 * has a zone, which is applied; else 0. A date alone is midnight. */
bool hr__parse_timestamp(const uint8_t *p, int64_t n, hr_unit unit, int64_t *out, int *zone);
/* "hh:mm[:ss[.f]]", in `unit` since midnight. */
bool hr__parse_time(const uint8_t *p, int64_t n, hr_unit unit, int64_t *out);

/* The calendar: days since 1970-01-01 of a date that need not exist (month 1..12), and back. Proleptic Gregorian. */
int64_t hr__days_of(int64_t year, int month, int day);
void hr__date_of(int64_t days, int64_t *year, int *month, int *day);

/* Text of a value; `out` has room for HR_NUMBER_CHARS. -> bytes, no NUL. */
#define HR_NUMBER_CHARS 40
int hr__print_int64(int64_t v, char *out);
int hr__print_uint64(uint64_t v, char *out);
/* The shortest text that reads back the same, as Python's repr: "inf", "-inf", "nan", "1.0", "1e+16", "1e-05". */
int hr__print_double(double v, char *out);
int hr__print_float(float v, char *out);
int hr__print_half(uint16_t bits, char *out); /* bits: of a float16 */
int hr__print_date(int32_t days, char *out);
int hr__print_timestamp(int64_t v, hr_unit unit, bool utc, char *out); /* "2026-11-21T10:00:00.5Z", shortest fraction */
int hr__print_time(int64_t v, hr_unit unit, char *out);

#endif
