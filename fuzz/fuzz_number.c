/* fuzz_number.c - any text as a number, date or time: an accepted text has the C library's value, and prints back. */
#include "base/number.h"

#include "require.h"

#include <math.h>

#define MAX_TEXT 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_numbers(const uint8_t *p, int64_t n)
{
    char out[HR_NUMBER_CHARS + HR_SLACK] = { 0 };
    int64_t i, i_again;
    double d, d_again;
    float f;

    if (hr__parse_int64(p, n, &i)) {
        REQUIRE(i == strtoll((const char *)p, NULL, 10));
        REQUIRE(hr__parse_int64((uint8_t *)out, hr__print_int64(i, out), &i_again) && i == i_again);
    }
    if (hr__parse_double(p, n, true, &d)) {
        double want = strtod((const char *)p, NULL);

        REQUIRE(isnan(d) ? isnan(want) : memcmp(&d, &want, 8) == 0);
        REQUIRE(hr__parse_double((uint8_t *)out, hr__print_double(d, out), true, &d_again));
        REQUIRE(isnan(d) || memcmp(&d, &d_again, 8) == 0);
        REQUIRE(hr__parse_float(p, n, true, &f) && (isnan(f) || f == strtof((const char *)p, NULL)));
    } else {
        REQUIRE(!hr__parse_double(p, n, false, &d) && !hr__parse_float(p, n, true, &f));
    }
}

static void try_times(const uint8_t *p, int64_t n)
{
    char out[HR_NUMBER_CHARS + HR_SLACK] = { 0 };
    int64_t v, again;
    int32_t days;
    int zone;

    if (hr__parse_date(p, n, &days)) {
        REQUIRE(hr__print_date(days, out) == n && memcmp(out, p, (size_t)n) == 0);
        REQUIRE(hr__parse_timestamp(p, n, HR_SECOND, &v, &zone) && v == (int64_t)days * 86400 && !zone);
    }
    for (hr_unit unit = HR_SECOND; unit <= HR_NANO; unit++) {
        if (hr__parse_timestamp(p, n, unit, &v, &zone)) {
            int made = hr__print_timestamp(v, unit, zone, out);

            REQUIRE(made >= 19 && made <= HR_NUMBER_CHARS);
            if (out[0] != '-' && made - zone < 30 &&
                out[4] == '-') /* a zone may move the time out of the readable years */
                REQUIRE(hr__parse_timestamp((uint8_t *)out, made, unit, &again, &zone) && again == v);
        }
        if (hr__parse_time(p, n, unit, &v))
            REQUIRE(hr__parse_time((uint8_t *)out, hr__print_time(v, unit, out), unit, &again) && again == v);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t text[MAX_TEXT + HR_SLACK] = { 0 };

    if (size > MAX_TEXT || memchr(data, 0, size))
        return 0;
    memcpy(text, data, size);
    try_numbers(text, (int64_t)size);
    try_times(text, (int64_t)size);
    return 0;
}
