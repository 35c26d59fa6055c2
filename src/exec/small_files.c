/* small_files.c - small files that are one row each, many to a ticket.
 *
 * A ticket for each file would cost as much as reading it, and a batch would copy its one row again. The order and
 * sizes of the files alone decide which files share a ticket, so that a position means the same in any run; a table may
 * hold fewer files, by the budget. If the consumer may take few rows, the first tickets have one file each, and each
 * later ticket has twice as many as the one before, so that a request for three rows does not open 64 files. The thread
 * that reads a file opens it. A file that cannot be read fails its ticket after the rows of the files before it.
 *
 * Tests: test_image_rule.c, test_images.py. */
#include "exec/run.h"

#define SMALL_FILES_BYTES (8 << 20)
#define ALONE 4              /* the first tickets, of one file each */
#define LARGE_ROW (64 << 10) /* a row of this size stays a table of its own, since a batch copies it next */

static int files_at_most(const hr_stage *s)
{
    if (!s->window.begins_small || s->window.n_taken >= ALONE + 16)
        return HR_SMALL_FILES;
    return s->window.n_taken < ALONE ? 1 : HR_MIN(HR_SMALL_FILES, 2 << (s->window.n_taken - ALONE));
}

int hr__small_files(const hr_stage *s, int64_t *n_bytes)
{
    int n = 0, n_max = files_at_most(s);

    *n_bytes = 0;
    if ((s->leaf.rows_left >= 0 && !s->n_lanes) || s->at.open.n || s->at.block || s->at.row)
        return 0; /* a limited number of rows, or the middle of a file: one file per ticket */
    if (s->n_lanes)
        n_max = (int)HR_MIN(n_max, s->leaf.rows_left);
    for (; n < n_max && s->at.file + n < hr__scan_n_files(s->scan); n++) {
        int64_t more = hr__scan_row_bytes(s->scan, hr__stage_file(s, s->at.file + n));

        if (more < 0 || (n > 0 && *n_bytes + more > SMALL_FILES_BYTES))
            break;
        *n_bytes += more;
    }
    return n;
}

static hr_status read_fragment(hr_ticket *t, hr_scan_file *f, int fragment, const hr_mem *mem, hr_small_tables *p,
                               int64_t *n_bytes)
{
    hr_reader *reader = NULL;
    hr_table *table = NULL;
    hr_status st = HR_OK;

    HR_GO(f->cls->read(f, fragment, 0, -1, mem, &reader, &t->err));
    while (true) {
        HR_GO(hr__reader_next(reader, t->stage->run->step_bytes, &table, &t->err));
        if (!table)
            break;
        if (p->n == HR_SMALL_FILES)
            HR_GO(hr_error_set(&t->err, HR_BUG, "%s: gives more than one row", f->name));
        *n_bytes += hr__table_bytes_used(table);
        p->tables[p->n++] = table;
        table = NULL;
    }
done:
    hr_table_unref(table);
    hr__reader_close(reader);
    return st;
}

static hr_status read_file(hr_ticket *t, int place, const hr_mem *mem, hr_small_tables *p, int64_t *n_bytes)
{
    hr_stage *s = t->stage;
    hr_scan_file *f = NULL;
    hr_fragment fragment;
    hr_source *source = t->sources ? t->sources[place - t->place] : NULL;
    hr_status st = hr__stage_open(s, place, source, &f, &t->err);

    if (source) { /* the file has it now: its bytes go when its rows are made */
        hr__source_unref(source);
        t->sources[place - t->place] = NULL;
    }

    for (int i = 0; !st && i < f->n_fragments; i++) {
        if ((st = f->cls->fragment(f, i, &fragment, &t->err)))
            break;
        hr__stage_counts_fragment(s, &fragment);
        st = read_fragment(t, f, i, mem, p, n_bytes);
    }
    hr__scan_file_unref(f);
    return st;
}

static bool goes_into_batches(const hr_stage *s)
{
    return s->n_ops == 0 && s->gate.stream && s->gate.stream->run.op->table_rows > 0;
}

static void tables_clear(hr_small_tables *p)
{
    while (p->n)
        hr_table_unref(p->tables[--p->n]);
}

/* The tables as one. */
static hr_status join(hr_ticket *t, const hr_mem *mem, hr_small_tables *p)
{
    hr_error err = HR_ERROR_INIT; /* t->err may hold the error of a late file */
    hr_table *whole = NULL;
    hr_status st = hr__table_concat(mem, NULL, p->tables, p->n, &whole, &err);

    if (st)
        hr__error_move(&t->err, &err);
    hr_error_clear(&err);
    tables_clear(p);
    if (!st)
        p->tables[p->n++] = whole;
    return st;
}

hr_status hr__small_files_read(hr_ticket *t, const hr_mem *mem, hr_small_tables *out)
{
    hr_status st = t->late; /* status of the file after the rows returned last */
    int64_t n_bytes = 0;

    out->n = 0;
    t->late = HR_OK;
    while (!st && t->at_file < t->n_files && n_bytes < t->stage->run->step_bytes &&
           !atomic_load_explicit(&t->stage->run->stop, memory_order_relaxed))
        st = read_file(t, t->place + t->at_file++, mem, out, &n_bytes);
    if (st && out->n) {
        t->late = st;
        t->at_file = t->n_files;
        st = HR_OK;
    }
    if (!st && out->n > 1 && (n_bytes < LARGE_ROW * out->n || !goes_into_batches(t->stage)))
        st = join(t, mem, out);
    if (st)
        tables_clear(out);
    t->input_done = t->at_file == t->n_files && !t->late;
    return st;
}
