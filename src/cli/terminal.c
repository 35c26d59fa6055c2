/* terminal.c - what a person at a terminal gets beside the results: colours, and how far a run is.
 *
 * Tests: test_cli_terminal.py. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define FIRST_SHOWN_S 1.0
#define INTERVAL_MS 200

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value && strcmp(value, "0") != 0;
}

static bool is_terminal(FILE *f)
{
    const char *term = getenv("TERM");

    return isatty(fileno(f)) && !(term && !strcmp(term, "dumb"));
}

bool cli_colours(FILE *to)
{
    const char *no = getenv("NO_COLOR"); /* no-color.org: any value but "" */

    if (no && *no)
        return false;
    return is_set("CLICOLOR_FORCE") || is_terminal(to);
}

static double seconds_since(const struct timespec *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

/* 1234567 -> "1,234,567" */
static const char *grouped(int64_t n, char out[32])
{
    char digits[24];
    int n_digits = snprintf(digits, sizeof digits, "%" PRId64, n), k = 0;

    for (int i = 0; i < n_digits; i++) {
        if (i && (n_digits - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = 0;
    return out;
}

/* The rows of all files as their metadata gives them; -1: it does not, or asking failed. */
static int64_t rows_of_files(hr_plan *files)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n = -1;

    if (files && hr_plan_count(files, &n, &err)) {
        hr_error_clear(&err);
        n = -1;
    }
    return n;
}

static void show_line(void *context, const hr_progress *done)
{
    progress *p = context;
    double s = seconds_since(&p->began), speed = (double)done->rows_read / s;
    char read[32], all[32];

    if (s < FIRST_SHOWN_S)
        return;
    if (!p->shown)
        p->n_rows = rows_of_files(p->files);
    p->shown = true;
    fprintf(stderr, "\r%.0f s: %s", s, grouped(done->rows_read, read));
    if (p->n_rows > 0)
        fprintf(stderr, " of %s rows read, %d %%", grouped(p->n_rows, all),
                (int)(100.0 * (double)done->rows_read / (double)p->n_rows));
    else
        fprintf(stderr, " rows read");
    fprintf(stderr, ", %.3g million rows/s, %" PRId64 " MB in memory\033[K", speed / 1e6, done->memory_bytes / 1000000);
    fflush(stderr);
}

void progress_watch(progress *p, hr_plan *files, hr_feed *f)
{
    *p = (progress){ .files = files, .n_rows = -1 };
    clock_gettime(CLOCK_MONOTONIC, &p->began);
    if (is_terminal(stderr))
        hr_feed_set_progress(f, show_line, p, INTERVAL_MS);
}

void progress_end(progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
