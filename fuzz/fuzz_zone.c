/* fuzz_zone.c - any bytes as a file of the time zone database: impossible offsets, and times that convert back. */
#include "expr/zone.h"

#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_time(const hr_zone *z, int64_t t)
{
    hr_zone_span span = { 0 }, again = { 0 };
    int64_t instant;

    hr__zone_at(z, t, &span);
    REQUIRE(span.begin <= t && (t < span.end || t == INT64_MAX));
    REQUIRE(span.name && span.offset > -1000000 && span.offset < 1000000);
    if (t < -(INT64_C(1) << 60) || t > INT64_C(1) << 60)
        return;
    instant = hr__zone_instant(z, t + span.offset, &again);
    REQUIRE(instant <= t); /* the first instant with this local time */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t times[] = { INT64_MIN, -(INT64_C(1) << 40), -2000000000, -1,        0,
                                     951782400, 1700000000,          4102444800,  INT64_MAX, INT64_C(1) << 40 };
    hr_zone *z = NULL;
    hr_error err = HR_ERROR_INIT;

    if (hr__zone_parse(data, (int64_t)size, &z, &err)) {
        REQUIRE(!z && err.text[0]);
        hr_error_clear(&err);
        return 0;
    }
    for (int i = 0; i < HR_LEN(times); i++)
        try_time(z, times[i]);
    for (int64_t i = 0; i < 40; i++)
        try_time(z, 1600000000 + i * 1000003);
    hr__zone_free(z);
    return 0;
}
