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

const char *cli_bytes(double n, char out[32])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
    int k = 0;

    for (; n >= 999.95 && k < LEN(units) - 1; k++)
        n /= 1000;
    snprintf(out, 32, k ? "%.1f %s" : "%.0f %s", n, units[k]);
    return out;
}

/* "12 s: 42 %, 3,400,000 rows read, 1,200,000 out (96 MB), 0.28 million rows/s, 17 s left, slowest: sort". Out: printed
 * or, where files are written, made for them. */
static void print_progress(const hr_progress *done, double s)
{
    char read[32], out[32], bytes[32];
    int64_t rows_out = done->rows_taken ? done->rows_taken : done->rows_made;

    fprintf(stderr, "%.0f s: %d %%, %s rows read", s, (int)(100 * done->done), grouped(done->rows_read, read));
    if (rows_out)
        fprintf(stderr, ", %s out", grouped(rows_out, out));
    if (done->bytes_out)
        fprintf(stderr, " (%s)", cli_bytes((double)done->bytes_out, bytes));
    fprintf(stderr, ", %.3g million rows/s", (double)done->rows_read / s / 1e6);
    if (done->done >= 0.02 && done->done < 1)
        fprintf(stderr, ", %.0f s left", s * (1 - done->done) / done->done);
    if (done->slowest)
        fprintf(stderr, ", slowest: %s", done->slowest);
    fprintf(stderr, ", %s in memory", cli_bytes((double)done->memory_bytes, bytes));
}

static void show_line(void *context, const hr_progress *done)
{
    progress *p = context;
    double s = seconds_since(&p->began);

    if (s < (p->every_s ? p->next_s : FIRST_SHOWN_S))
        return;
    p->next_s = s + p->every_s;
    fputs(p->every_s ? "headrace: " : "\r", stderr);
    print_progress(done, s);
    fputs(p->every_s ? "\n" : "\033[K", stderr);
    fflush(stderr);
    p->shown = !p->every_s;
}

bool cli_progress_seconds(const char *text, int *out)
{
    char *end = NULL;
    long n;

    *out = 0;
    if (!text || !*text || !strcmp(text, "auto"))
        return true;
    *out = -1;
    if (!strcmp(text, "off"))
        return true;
    n = strtol(text, &end, 10);
    *out = (int)n;
    return *text >= '1' && *text <= '9' && !*end && n <= 86400;
}

void progress_watch(progress *p, hr_feed *f)
{
    int seconds;

    *p = (progress){ 0 };
    clock_gettime(CLOCK_MONOTONIC, &p->began);
    if (!cli_progress_seconds(getenv("HEADRACE_PROGRESS"), &seconds) || seconds < 0)
        return;
    if (!is_terminal(stderr))
        p->every_s = p->next_s = seconds;
    if (is_terminal(stderr) || seconds)
        hr_feed_set_progress(f, show_line, p, INTERVAL_MS);
}

void progress_end(progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
