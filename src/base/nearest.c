/* nearest.c - the known name that a mistyped one is most like, for the "did you mean" of messages.
 *
 * Like is counted in edits: characters to insert, delete, replace, or to swap with their neighbour, where case does not
 * count (F. Damerau, 1964; each character takes part in one edit). A third of the name may differ; more would be a
 * guess. */
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MOST_EDITS 4

void hr__near_begin(hr_near *near, const char *name, size_t n)
{
    *near = (hr_near){ .n = n < HR_NEAR_CHARACTERS ? n : 0 };
    memcpy(near->name, name, near->n);
    near->fewest = near->n ? (int)HR_MIN((near->n + 1) / 3 + 1, MOST_EDITS + 1) : 0;
    if (near->n == 1)
        near->fewest = 1; /* only its case may differ */
}

static int least(int a, int b) { return a < b ? a : b; }

static bool differ(char a, char b) { return tolower((unsigned char)a) != tolower((unsigned char)b); }

/* The number of edits that make the n characters of `known` of the name. */
static int edits(const hr_near *near, const char *known, size_t n)
{
    int rows[3][HR_NEAR_CHARACTERS + 1], *row = rows[0], *above = rows[1], *two_above = rows[2];

    for (size_t j = 0; j <= n; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= near->n; i++) {
        const char *at = near->name + i - 1;
        int *oldest = two_above;

        two_above = above;
        above = row;
        row = oldest;
        row[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + differ(*at, known[j - 1]));
            if (i > 1 && j > 1 && !differ(*at, known[j - 2]) && !differ(at[-1], known[j - 1]))
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return row[n];
}

/* Adds to the list, as long as it has room for the dots. */
static void list(hr_near *near, const char *known, size_t n)
{
    static const char dots[] = ", ...";
    size_t left = HR_NEAR_KNOWN - near->n_known - sizeof dots;

    if (near->n_known >= HR_NEAR_KNOWN - sizeof dots)
        return;
    if (n + 2 > left) {
        memcpy(near->known + near->n_known, dots, sizeof dots);
        near->n_known = HR_NEAR_KNOWN;
        return;
    }
    near->n_known +=
        (size_t)snprintf(near->known + near->n_known, left, "%s%.*s", near->n_known ? ", " : "", (int)n, known);
}

void hr__near_try(hr_near *near, const char *known, size_t n)
{
    int found;

    list(near, known, n);
    if (near->fewest == 0 || n >= HR_NEAR_CHARACTERS || n == 0 || (found = edits(near, known, n)) >= near->fewest)
        return;
    near->fewest = found;
    memcpy(near->found, known, n);
    near->found[n] = 0;
}

const char *hr__near_hint(hr_near *near)
{
    if (near->found[0])
        snprintf(near->hint, sizeof near->hint, "; did you mean '%s'?", near->found);
    return near->hint;
}

hr_status hr__near_error(hr_near *near, hr_status st, const char *where, const char *name, hr_error *err)
{
    if (!near->n_known)
        return hr_error_set(err, st, "%s: no column '%.100s', nor any other", where, name);
    return hr_error_set(err, st, "%s: no column '%.100s'; there are: %s%s", where, name, near->known,
                        hr__near_hint(near));
}
