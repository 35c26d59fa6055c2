/* rows.c - the first rows of a plan on standard output: as a table, or as JSON lines.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <errno.h>

#define PRINT_ROWS 1000 /* rows that are text at the same time */

static hr_status print_json(const hr_table *t, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_table_print_json(t, 0, hr_table_rows(t), &text, err));
    fputs(text, stdout);
    hr_string_free(text);
    return HR_OK;
}

/* The table's columns are as wide as its first PRINT_ROWS rows need; later cells may stick out. */
static hr_status print_grid(grid *g, const hr_table *t, bool first, hr_error *err)
{
    if (first && t)
        HR_TRY(grid_fit(g, t, err));
    if (first)
        HR_TRY(grid_head(g, err));
    return t ? grid_rows(g, t, err) : HR_OK;
}

/* Prints the table but for the rows beyond n_left. */
static hr_status print_some(grid *g, const show *how, const hr_table *t, bool first, int64_t n_left, hr_error *err)
{
    hr_table *few = NULL;
    hr_status st = HR_OK;

    if (t && hr_table_rows(t) > n_left)
        HR_TRY(hr_table_slice(t, 0, n_left, &few, err));
    if (!how->json)
        st = print_grid(g, few ? few : t, first, err);
    else if (t)
        st = print_json(few ? few : t, err);
    hr_table_unref(few);
    if (!st && ferror(stdout))
        return hr_error_set(err, HR_IO, "standard output: %s", strerror(errno));
    return st;
}

hr_status show_rows(hr_plan *p, const show *how, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = PRINT_ROWS };
    bool looks = how->counts_rest && how->n_rows < INT64_MAX; /* for one row more */
    struct ArrowSchema schema = { 0 };
    int64_t n_left = how->n_rows;
    progress bar = { 0 };
    grid g = { 0 };
    hr_plan *few = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_plan_schema(p, &schema, err));
    HR_GO(grid_init(&g, &schema, how->width, err));
    HR_GO(hr_plan_limit(p, how->n_rows + looks, &few, err));
    HR_GO(hr_feed_open(few, &options, &f, err));
    if (!how->quiet)
        progress_watch(&bar, f);
    for (bool first = true;; first = false) {
        int64_t n;

        HR_GO(hr_feed_next(f, &t, err));
        progress_end(&bar);
        n = t ? hr_table_rows(t) : 0;
        HR_GO(print_some(&g, how, t, first, n_left, err));
        if (n > n_left)
            puts("... and more rows: --json prints them all, OUT keeps them");
        n_left -= n < n_left ? n : n_left;
        if (!t)
            break;
        hr_table_unref(t);
        t = NULL;
    }
done:
    progress_end(&bar);
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(few);
    grid_clear(&g);
    if (schema.release)
        schema.release(&schema);
    return st;
}
