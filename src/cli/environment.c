/* environment.c - the environment variables HEADRACE_*: refuses wrong values, and warns of names that nothing reads.
 *
 * The library uses its default and logs a warning when a value is wrong; the command and Python refuse it.
 *
 * Tests: test_environment.py, test_cli.py. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

extern char **environ;

#define PREFIX "HEADRACE_"
#define LONGEST 64

/* The variables of Python and of launchers as well: one environment may serve both. */
static const char *const known[] = {
    "HEADRACE_AUTOTUNE",
    "HEADRACE_CACHE_DIR",
    "HEADRACE_CACHE_SIZE",
    "HEADRACE_DEBUG",
    "HEADRACE_LAUNCHER",
    "HEADRACE_LOCAL_WORLD_SIZE",
    "HEADRACE_MEMORY_LIMIT",
    "HEADRACE_NETWORK_THREADS",
    "HEADRACE_NODE_RANK",
    "HEADRACE_NUM_THREADS",
    "HEADRACE_PROGRESS",
    "HEADRACE_RANK",
    "HEADRACE_RULES",
    "HEADRACE_RUN_ID",
    "HEADRACE_SHARE_CREDENTIALS",
    "HEADRACE_SPILL_DIR",
    "HEADRACE_SPILL_QUOTA",
    "HEADRACE_STALL_TIMEOUT",
    "HEADRACE_STALL_WARNING",
    "HEADRACE_TRACE",
    "HEADRACE_WORLD_SIZE",
    "HEADRACE_BUILD",
    "HEADRACE_EXAMPLES",
    "HEADRACE_HUGE",
    "HEADRACE_LIB",
    "HEADRACE_RAY",
    "HEADRACE_THOROUGH", /* the last six: of the project's tests */
};
#define N_KNOWN ((int)(sizeof known / sizeof *known))
#define N_OF_USERS (N_KNOWN - 6)

static int least(int a, int b) { return a < b ? a : b; }

/* The number of characters to insert, delete, replace, or swap with their neighbour, to make `b` of `a`, both shorter
 * than LONGEST. */
static int edits(const char *a, const char *b)
{
    int n = (int)strlen(b), rows[3][LONGEST + 1], *row = rows[0], *above = rows[1], *two_above = rows[2];

    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int *oldest = two_above;

        two_above = above;
        above = row;
        row = oldest;
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return row[n];
}

const char *cli_nearest(const char *name, const char *const *names, int n_names)
{
    const char *found = NULL;
    int fewest = least(5, (int)strlen(name) / 2 + 1);

    for (int i = 0; i < n_names && strlen(name) < LONGEST; i++) {
        int n = edits(name, names[i]);

        if (n < fewest) {
            fewest = n;
            found = names[i];
        }
    }
    return found;
}

const char *cli_hint(const char *name, const char *const *names, int n_names, char *out, size_t cap)
{
    const char *near = cli_nearest(name, names, n_names);

    *out = 0;
    if (near)
        snprintf(out, cap, "; did you mean '%s'?", near);
    return out;
}

static bool is_known(const char *name)
{
    for (int i = 0; i < N_KNOWN; i++)
        if (!strcmp(name, known[i]))
            return true;
    return false;
}

static void warn_of_unknown(void)
{
    char name[LONGEST], hint[2 * LONGEST];

    for (char **at = environ; at && *at; at++) {
        size_t n = strcspn(*at, "=");

        if (strncmp(*at, PREFIX, strlen(PREFIX)) != 0 || n >= sizeof name)
            continue;
        memcpy(name, *at, n);
        name[n] = 0;
        if (is_known(name))
            continue;
        cli_warn("%s: Headrace has no such environment variable%s", name,
                 cli_hint(name, known, N_OF_USERS, hint, sizeof hint));
    }
}

/* A number from 1 to `most`, if there is one. */
static hr_status check_number(const char *name, int most, hr_error *err)
{
    const char *text = getenv(name);
    char *end = NULL;
    long n;

    if (!text || !*text)
        return HR_OK;
    errno = 0;
    n = strtol(text, &end, 10);
    if (errno || *end || n < 1 || n > most)
        return hr_error_set(err, HR_INVALID, "%s: '%s', expected a number from 1 to %d", name, text, most);
    return HR_OK;
}

/* A number of seconds, as "10" or "2.5", if there is one. */
static hr_status check_seconds(const char *name, hr_error *err)
{
    static const char digits[] = "0123456789";
    const char *text = getenv(name), *rest;
    size_t n = text ? strspn(text, digits) : 0;

    if (!text || !*text)
        return HR_OK;
    rest = text[n] == '.' ? text + n + 1 : text + n;
    if (n < 1 || n > 8 || rest[text[n] == '.' ? strspn(rest, digits) : 0])
        return hr_error_set(err, HR_INVALID, "%s: '%s', expected a number of seconds", name, text);
    return HR_OK;
}

hr_status cli_check_environment(hr_error *err)
{
    static const char *const sizes[] = { "HEADRACE_MEMORY_LIMIT", "HEADRACE_CACHE_SIZE" };
    const char *autotune = getenv("HEADRACE_AUTOTUNE");
    const char *share = getenv("HEADRACE_SHARE_CREDENTIALS");
    int64_t n_bytes;
    int seconds;

    warn_of_unknown();
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        const char *size = getenv(sizes[i]);

        if (size && *size && hr_parse_bytes(size, &n_bytes, err))
            return hr_error_set(err, HR_INVALID, "%s: %s", sizes[i], err->text);
    }
    HR_TRY(hr_set_spill_quota(-1, err));
    if (!cli_progress_seconds(getenv("HEADRACE_PROGRESS"), &seconds))
        return hr_error_set(err, HR_INVALID,
                            "HEADRACE_PROGRESS: '%s', expected auto, off, or whole seconds between lines",
                            getenv("HEADRACE_PROGRESS"));
    if (share && share[0] && strcmp(share, "on") != 0 && strcmp(share, "off") != 0)
        return hr_error_set(err, HR_INVALID, "HEADRACE_SHARE_CREDENTIALS: '%s', expected on or off", share);
    if (autotune && *autotune && strcmp(autotune, "on") != 0 && strcmp(autotune, "off") != 0)
        return hr_error_set(err, HR_INVALID, "HEADRACE_AUTOTUNE: '%s', expected on or off", autotune);
    HR_TRY(check_seconds("HEADRACE_STALL_TIMEOUT", err));
    HR_TRY(check_seconds("HEADRACE_STALL_WARNING", err));
    HR_TRY(check_number("HEADRACE_NUM_THREADS", 1024, err));
    return check_number("HEADRACE_NETWORK_THREADS", 9, err);
}
