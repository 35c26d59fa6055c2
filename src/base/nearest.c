/* nearest.c - the known name that a mistyped one is most like, for the "did you mean" of messages.
 *
 * Like is counted in edits: characters to insert, delete or replace, where case does not count (V. Levenshtein, 1966).
 * A third of the name may differ; more would be a guess. */
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
    int row[HR_NEAR_CHARACTERS + 1];

    for (size_t j = 0; j <= n; j++)
        row[j] = (int)j;
    for (size_t i = 0; i < near->n; i++) {
        int corner = row[0];

        row[0] = (int)i + 1;
        for (size_t j = 1; j <= n; j++) {
            int above = row[j];

            row[j] = least(least(above, row[j - 1]) + 1, corner + differ(near->name[i], known[j - 1]));
            corner = above;
        }
    }
    return row[n];
}

void hr__near_try(hr_near *near, const char *known, size_t n)
{
    int found;

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
