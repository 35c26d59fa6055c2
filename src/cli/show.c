/* show.c - rows as a table for people: columns side by side, one line a row.
 *
 * Files are not trusted: whatever bytes a cell holds, the table prints one line a row, no control characters and
 * nothing but valid UTF-8. Everything goes to standard output, whose errors main() reports.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Integers, floats, decimals: they stand at the right. */
static bool is_number(const struct ArrowSchema *column)
{
    const char *f = column->format;

    return !column->dictionary && ((f[0] && !f[1] && strchr("cCsSiIlLefg", f[0])) || !strncmp(f, "d:", 2));
}

static bool is_continuation(uint8_t c) { return (c & 0xc0) == 0x80; }

/* Bytes of the valid UTF-8 character at s[0 .. n), 0 if there is none. */
static int character_bytes(const uint8_t *s, int64_t n)
{
    int bytes = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;

    if (bytes > n)
        return 0;
    for (int i = 1; i < bytes; i++)
        if (!is_continuation(s[i]))
            return 0;
    if (bytes == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0)))
        return 0; /* longer than it must be; a surrogate */
    if (bytes == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)))
        return 0; /* longer than it must be; above U+10FFFF */
    return bytes;
}

/* U+0000 to U+001F and U+007F to U+009F. */
static bool is_control(const uint8_t *s) { return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0); }

/* Puts what may be shown of `s` into g->cell, at most g->width characters (0: all). Returns their number. A cell has no
 * more bytes than `s`, and three for the ellipsis. */
static int clean_cell(grid *g, const char *s, int64_t n)
{
    int64_t last = 0; /* where the last character that fits begins, in the cell */
    int n_chars = 0;

    g->n_cell = 0;
    for (int64_t i = 0; i < n; n_chars++) {
        const uint8_t *at = (const uint8_t *)s + i;
        int bytes = character_bytes(at, n - i);

        if (g->width && n_chars == g->width) { /* one too many: the last gives its place away */
            memcpy(g->cell + last, "\u2026", 3);
            g->n_cell = last + 3;
            return n_chars;
        }
        last = g->n_cell;
        if (bytes && !is_control(at)) {
            memcpy(g->cell + g->n_cell, at, (size_t)bytes);
            g->n_cell += bytes;
        } else {
            g->cell[g->n_cell++] = *at == '\n' || *at == '\t' ? ' ' : '?';
        }
        i += bytes ? bytes : 1;
    }
    return n_chars;
}

static hr_status grow_cells(grid *g, int64_t cap, hr_error *err)
{
    char *raw = realloc(g->raw, (size_t)cap), *cell;

    if (raw)
        g->raw = raw;
    cell = raw ? realloc(g->cell, (size_t)cap + 3) : NULL;
    if (!cell)
        return cli_no_memory(err, "a cell", cap);
    g->cell = cell;
    g->cap = cap;
    return HR_OK;
}

/* Puts the value's text, cut and clean, into g->cell; *n_chars: its characters. */
static hr_status print_cell(grid *g, const hr_table *t, int64_t row, int column, int *n_chars, hr_error *err)
{
    int64_t n = hr_table_print_value(t, row, column, g->raw, (size_t)g->cap);

    while (!g->width && n >= g->cap - 4) {
        HR_TRY(grow_cells(g, 2 * g->cap, err));
        n = hr_table_print_value(t, row, column, g->raw, (size_t)g->cap);
    }
    *n_chars = clean_cell(g, g->raw, n);
    return HR_OK;
}

static hr_status print_name(grid *g, int column, int *n_chars, hr_error *err)
{
    const char *name = g->schema->children[column]->name;
    int64_t n = (int64_t)strlen(name);

    if (n > g->cap)
        HR_TRY(grow_cells(g, n, err));
    *n_chars = clean_cell(g, name, n);
    return HR_OK;
}

static void put_cell(const grid *g, int column, int n_chars)
{
    bool last = column == g->n_columns - 1, right = is_number(g->schema->children[column]);
    int pad = g->widths[column] > n_chars ? g->widths[column] - n_chars : 0;

    if (column)
        fputs("  ", stdout);
    if (right)
        printf("%*s", pad, "");
    fwrite(g->cell, 1, (size_t)g->n_cell, stdout);
    if (!right && !last)
        printf("%*s", pad, "");
    if (last)
        putchar('\n');
}

hr_status grid_init(grid *g, const struct ArrowSchema *schema, int width, hr_error *err)
{
    g->schema = schema;
    g->n_columns = (int)schema->n_children;
    g->width = width;
    g->colours = cli_colours(stdout);
    g->widths = calloc((size_t)g->n_columns + 1, sizeof *g->widths);
    if (!g->widths)
        return cli_no_memory(err, "the widths of columns", g->n_columns);
    HR_TRY(grow_cells(g, width ? 4 * (int64_t)width + 9 : 256, err));
    for (int c = 0; c < g->n_columns; c++)
        HR_TRY(print_name(g, c, &g->widths[c], err));
    return HR_OK;
}

void grid_clear(grid *g)
{
    free(g->raw);
    free(g->cell);
    free(g->widths);
    *g = (grid){ 0 };
}

hr_status grid_fit(grid *g, const hr_table *t, hr_error *err)
{
    for (int c = 0; c < g->n_columns; c++)
        for (int64_t row = 0; row < hr_table_rows(t); row++) {
            int n_chars;

            HR_TRY(print_cell(g, t, row, c, &n_chars, err));
            if (n_chars > g->widths[c])
                g->widths[c] = n_chars;
        }
    return HR_OK;
}

hr_status grid_head(grid *g, hr_error *err)
{
    for (int c = 0; c < g->n_columns; c++) {
        int n_chars;

        HR_TRY(print_name(g, c, &n_chars, err));
        if (g->colours)
            fputs("\033[1m", stdout);
        put_cell(g, c, n_chars);
        if (g->colours)
            fputs("\033[0m", stdout);
    }
    return HR_OK;
}

hr_status grid_rows(grid *g, const hr_table *t, hr_error *err)
{
    for (int64_t row = 0; row < hr_table_rows(t); row++)
        for (int c = 0; c < g->n_columns; c++) {
            int n_chars;

            HR_TRY(print_cell(g, t, row, c, &n_chars, err));
            put_cell(g, c, n_chars);
        }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ JSON */

void json_text(const char *s, int64_t n)
{
    putchar('"');
    for (int64_t i = 0; i < n;) {
        const uint8_t *at = (const uint8_t *)s + i;
        int bytes = character_bytes(at, n - i);

        if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (!bytes)
            fputs("\\ufffd", stdout);
        else if (is_control(at))
            printf("\\u%04x", bytes == 2 ? at[1] : at[0]);
        else
            fwrite(at, 1, (size_t)bytes, stdout);
        i += bytes ? bytes : 1;
    }
    putchar('"');
}

/* A line "name=default  what it does" at `line`. */
static void json_option(const char *kind, const char *line, int64_t n)
{
    const char *equals = memchr(line, '=', (size_t)n), *doc = strstr(line, "  ");

    if (!equals || !doc || doc > line + n || equals > doc)
        return;
    printf("{\"%s\": ", kind);
    json_text(line, equals - line);
    fputs(", \"default\": ", stdout);
    json_text(equals + 1, doc - equals - 1);
    while (*doc == ' ')
        doc++;
    fputs(", \"doc\": ", stdout);
    json_text(doc, line + n - doc);
    fputs("}\n", stdout);
}

void json_options(const char *kind, const char *lines)
{
    while (*lines) {
        int64_t n = (int64_t)strcspn(lines, "\n");

        json_option(kind, lines, n);
        lines += n + (lines[n] == '\n');
    }
}
