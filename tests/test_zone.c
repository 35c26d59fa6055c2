/* test_zone.c - time zones: offsets at changes and by rules, local times that are there twice or not at all, files cut
 * anywhere. */
#include "expr/zone.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes of a file: a block of 32 bits that nobody reads, one of 64 bits with two changes, and a rule. */
static int64_t make_file(uint8_t *out, const char *rule)
{
    static const int64_t times[] = { 1679792400, 1698541200 }; /* 2023-03-26 and 2023-10-29, 01:00 UTC */
    static const uint8_t first[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 4 };
    static const uint8_t second[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 9 };
    uint8_t *p = out;

    for (int block = 0; block < 2; block++) {
        memset(p, 0, 44);
        memcpy(p, "TZif2", 5);
        memcpy(p + 20, block ? second : first, 24);
        p += 44;
        for (int i = 0; block && i < 2; i++)
            for (int k = 7; k >= 0; k--)
                *p++ = (uint8_t)(times[i] >> (8 * k));
        if (block) {
            *p++ = 1;
            *p++ = 0;
        }
        memcpy(p, (const uint8_t[]){ 0, 0, 0x0E, 0x10, 0, 0 }, 6); /* 3600 */
        p += 6;
        if (block) {
            memcpy(p, (const uint8_t[]){ 0, 0, 0x1C, 0x20, 1, 4 }, 6); /* 7200 */
            p += 6;
        }
        memcpy(p, "CET\0CEST\0", block ? 9 : 4);
        p += block ? 9 : 4;
    }
    return p - out + sprintf((char *)p, "\n%s\n", rule);
}

static hr_zone *zone_of(const char *rule)
{
    uint8_t file[400];
    hr_error err = HR_ERROR_INIT;
    hr_zone *z = NULL;

    assert_ok(hr__zone_parse(file, make_file(file, rule), &z, &err), &err);
    return z;
}

static void check_at(const hr_zone *z, int64_t t, int32_t offset, const char *name)
{
    hr_zone_span span = { 0 };

    hr__zone_at(z, t, &span);
    assert_int_equal(span.offset, offset);
    assert_string_equal(span.name, name);
    assert_true(span.begin <= t && t < span.end);
}

static void test_offsets(void **unused)
{
    hr_zone *z = zone_of("CET-1CEST,M3.5.0,M10.5.0/3"), *south = zone_of("<-03>3<-02>,J60/-1:30,364/26"),
            *none = zone_of("");

    (void)unused;
    check_at(z, INT64_MIN, 3600, "CET"); /* before all changes: the first type */
    check_at(z, 1679792399, 3600, "CET");
    check_at(z, 1679792400, 7200, "CEST");
    check_at(z, 1698541199, 7200, "CEST");
    check_at(z, 1698541200, 3600, "CET");
    check_at(z, 1711846799, 3600, "CET"); /* the rule: 2024-03-31, 01:00 UTC */
    check_at(z, 1711846800, 7200, "CEST");
    check_at(z, 1729990800, 3600, "CET");
    check_at(z, INT64_C(1) << 62, 3600, "CET");
    check_at(south, 1709169000 - 1, -10800,
             "-03"); /* 28 February 2024, 22:30, which is 1 March's -1:30 in a leap year */
    check_at(south, 1735700000, -10800, "-03");
    check_at(none, 1711846800, 3600, "CET");
    hr__zone_free(z);
    hr__zone_free(south);
    hr__zone_free(none);
}

static void test_instants(void **unused)
{
    hr_zone *z = zone_of("CET-1CEST,M3.5.0,M10.5.0/3");
    hr_zone_span span = { 0 };

    (void)unused;
    assert_int_equal(hr__zone_instant(z, 1679792400 + 3600 + 1800, &span), 1679792400); /* 02:30 is skipped */
    assert_int_equal(hr__zone_instant(z, 1679792400 + 7200, &span), 1679792400);
    assert_int_equal(hr__zone_instant(z, 1698541200 + 3600 + 1800, &span), 1698541200 - 1800); /* 02:30, twice */
    assert_int_equal(hr__zone_instant(z, 1700000000, &span), 1700000000 - 3600);
    assert_int_equal(hr__zone_instant(z, INT64_MAX, &span), INT64_MAX);
    hr__zone_free(z);
}

static void test_names(void **unused)
{
    static const struct {
        const char *name;
        int32_t offset;
    } cases[] = { { NULL, 0 }, { "", 0 }, { "UTC", 0 }, { "+05:30", 19800 }, { "-0800", -28800 }, { "+02", 7200 } };
    static const char *const bad[] = { "../etc/passwd", "/etc/passwd",   "+5",     "+25:00",
                                       "+05:3",         "Nowhere/There", "Eur ope" };
    hr_error err = HR_ERROR_INIT;
    hr_zone *z = NULL;

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_zone_span span = { 0 };

        assert_ok(hr__zone_new(cases[i].name, &z, &err), &err);
        hr__zone_at(z, 0, &span);
        assert_int_equal(span.offset, cases[i].offset);
        hr__zone_free(z);
    }
    for (int i = 0; i < HR_LEN(bad); i++) {
        assert_int_equal(hr__zone_new(bad[i], &z, &err), HR_NOT_FOUND);
        assert_contains(err.text, "time zone");
        hr_error_clear(&err);
    }
}

/* Cut at every place, and with every byte changed: an error, or a zone that answers. */
static void test_damaged(void **unused)
{
    uint8_t file[400], bad[400];
    int64_t n = make_file(file, "CET-1CEST,M3.5.0,M10.5.0/3");

    (void)unused;
    for (int64_t i = 0; i < 2 * n; i++) {
        uint8_t *exact = malloc((size_t)n); /* so that a read beyond is seen */
        int64_t length = i < n ? i : n;
        hr_zone *z = NULL;
        hr_zone_span span = { 0 };

        memcpy(bad, file, (size_t)n);
        if (i >= n)
            bad[i - n] ^= 0xFF;
        memcpy(exact, bad, (size_t)length);
        exact = realloc(exact, (size_t)length + (length == 0));
        if (hr__zone_parse(exact, length, &z, NULL) == HR_OK) {
            hr__zone_at(z, 1700000000, &span);
            assert_non_null(span.name);
            hr__zone_at(z, 0, &span);
        }
        hr__zone_free(z);
        free(exact);
    }
}

static hr_status parse_one(hr_error *err)
{
    uint8_t file[400];
    hr_zone *z = NULL;
    hr_status st = hr__zone_parse(file, make_file(file, "CET-1CEST,M3.5.0,M10.5.0/3"), &z, err);

    hr__zone_free(z);
    return st;
}

/* A database of our own. */
static hr_status find_one(hr_error *err)
{
    hr_zone *z = NULL;
    hr_status st = hr__zone_new("Test/Zone", &z, err);

    hr__zone_free(z);
    return st;
}

static void test_faults(void **unused)
{
    uint8_t file[400];
    char dir[64];

    (void)unused;
    run_with_faults(parse_one, HR_FAULT_MEMORY);
    temp_dir_new(dir);
    temp_file(dir, "Test/Zone", file, make_file(file, "UTC0"));
    setenv("TZDIR", dir, 1);
    run_with_faults(find_one, HR_FAULT_MEMORY | HR_FAULT_IO);
    unsetenv("TZDIR");
    temp_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets), cmocka_unit_test(test_instants), cmocka_unit_test(test_names),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
