/* scan_all.h - for fuzz targets of formats: opens the bytes as a file, reads all of it in several ways, checks the
 * tables.
 *
 * The tables must be valid Arrow data, readers of all rows and of ranges must agree, and no memory may stay allocated.
 * The number of rows read is limited: a few bytes may legally describe a million rows. */
#ifndef SCAN_ALL_H
#define SCAN_ALL_H

#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_ROWS (1 << 20)
#define MAX_TABLES 200
#define MAX_FRAGMENTS 8

#define REQUIRE(condition, err)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s: %s\n", #condition, (err)->text);                                                      \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Reads rows of a fragment from `row` on, at most n (< 0: all); -> their number; -1 after an error. */
static int64_t read_rows(hr_scan_file *f, int fragment, int64_t row, int64_t n, int64_t max_bytes)
{
    hr_mem mem = { NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    hr_reader *r = NULL;
    int64_t rows = 0;
    hr_status st = f->cls->read(f, fragment, row, n, &mem, &r, &err);

    for (int i = 0; !st && i < MAX_TABLES && rows < MAX_ROWS; i++) {
        hr_table *t = NULL;

        st = hr__reader_next(r, max_bytes, &t, &err);
        if (st || !t)
            break;
        REQUIRE(t->n_rows > 0 && hr__table_check(t, true, &err) == HR_OK, &err);
        REQUIRE(t->origin && hr__origin_rows(t->origin) == t->n_rows, &err);
        REQUIRE(hr__origin_at(t->origin, 0).row == row + rows, &err);
        rows += t->n_rows;
        hr_table_unref(t);
    }
    REQUIRE(!st || (st == err.status && err.text[0]), &err);
    hr__reader_close(r);
    hr_error_clear(&err);
    return st ? -1 : rows;
}

static void read_fragment(hr_scan_file *f, int fragment)
{
    hr_error err = HR_ERROR_INIT;
    hr_fragment info;
    int64_t whole, half;

    REQUIRE(f->cls->fragment(f, fragment, &info, &err) == HR_OK, &err);
    whole = read_rows(f, fragment, 0, -1, 64 << 10);
    if (whole < 0 || whole >= MAX_ROWS)
        return;
    if (info.n_rows >= 0 && whole < MAX_ROWS / 2)
        read_rows(f, fragment, info.n_rows / 2, -1, 1000);
    half = read_rows(f, fragment, whole / 2, whole - whole / 2, 1 << 20);
    REQUIRE(half == -1 || half == whole - whole / 2, &err);
}

static void scan_all(const hr_format *format, const void *options, const char *name, const uint8_t *data, size_t size)
{
    int64_t blocks = hr__live_blocks();
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_status st;

    REQUIRE(hr__source_new_memory(name, data, (int64_t)size, NULL, &source, &err) == HR_OK, &err);
    st = format->open(source, &(hr_open){ .options = options }, &f, &err);
    REQUIRE(!st || (st == err.status && strstr(err.text, name)), &err);
    for (int i = 0; !st && i < HR_MIN(f->n_fragments, MAX_FRAGMENTS); i++)
        read_fragment(f, i);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    REQUIRE(hr__live_blocks() == blocks, &err);
    hr_error_clear(&err);
}

#endif
