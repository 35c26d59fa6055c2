/* sorter_runs.c - runs of an external sort, and the jobs that write several runs as one (see sorter_parts.h).
 *
 * A job is divided into slices of the order. Any thread does the next slice (hr__sorter_help); the thread that finishes
 * the last one puts the pages together.
 *
 * Tests: test_sorter.c, test_keyed.c. */
#include "op/order/sorter_parts.h"

void hr__sort_run_free(hr_sorter *s, hr_sort_run *r)
{
    if (!r)
        return;
    hr_table_unref(r->table);
    for (int64_t i = 0; i < r->n_pages; i++) {
        hr__spill_file_forget(s->spill, &r->pages[i].place);
        hr__cut_clear(&r->pages[i].first);
    }
    hr__free(r->pages);
    hr__free(r);
}

void hr__sort_job_free(hr_sorter *s, hr_sort_job *j)
{
    for (int64_t i = 0; i < j->n_inputs; i++)
        hr__sort_run_free(s, j->inputs[i]);
    for (int64_t i = 0; j->slices && i < j->n_slices; i++) {
        for (int64_t p = 0; p < j->slices[i].n_pages; p++) {
            hr__spill_file_forget(s->spill, &j->slices[i].pages[p].place);
            hr__cut_clear(&j->slices[i].pages[p].first);
        }
        hr__free(j->slices[i].pages);
    }
    hr__cuts_free(j->cuts, j->n_slices - 1);
    hr__free(j->slices);
    hr__free(j->inputs);
    hr__free(j);
}

/* -------------------------------------------------------------------------------------------------- pages on disk */

static hr_status add_page(hr_sorter *s, hr_sort_run *to, const hr_table *t, hr_error *err)
{
    void *pages = to->pages;
    hr_sort_page p = { .first_row = to->n_rows };

    if (!hr__grow(s->account, &pages, &to->cap, to->n_pages + 1, sizeof *to->pages))
        return hr__error_memory(err, s->name, (to->n_pages + 1) * (int64_t)sizeof *to->pages);
    to->pages = pages;
    HR_TRY(hr__cut_at(s, t, 0, &p.first, err));
    if (hr__spill_file_write(s->spill, t, &p.place, err)) {
        hr_status st = err ? err->status : HR_IO;

        hr__cut_clear(&p.first);
        return st;
    }
    to->pages[to->n_pages++] = p;
    to->n_rows += t->n_rows;
    to->n_bytes += hr__table_bytes_used(t);
    return HR_OK;
}

static hr_status add_pages(hr_sorter *s, hr_sort_run *to, const hr_table *t, hr_error *err)
{
    int64_t n_bytes = hr__table_bytes_used(t), n = HR_MAX(1, (n_bytes + s->page_bytes / 2) / s->page_bytes);
    int64_t step = (t->n_rows + n - 1) / n;

    for (int64_t at = 0; at < t->n_rows; at += step) {
        hr_table *part = NULL;
        hr_status st;

        HR_TRY(hr_table_slice(t, at, HR_MIN(step, t->n_rows - at), &part, err));
        st = add_page(s, to, part, err);
        hr_table_unref(part);
        HR_TRY(st);
    }
    return HR_OK;
}

/* Tables that wait until they fill a page. */
typedef struct pending {
    hr_table *tables[64];
    int n;
    int64_t n_bytes;
} pending;

static hr_status flush_pending(hr_sorter *s, hr_sort_run *to, pending *p, hr_error *err)
{
    const hr_mem mem = { .account = s->account };
    hr_table *all = NULL;
    hr_status st = HR_OK;

    if (p->n == 1)
        all = hr_table_ref(p->tables[0]);
    else if (p->n > 1)
        HR_GO(hr__table_concat(&mem, s->schema, p->tables, p->n, &all, err));
    if (all)
        HR_GO(add_pages(s, to, all, err));
done:
    hr_table_unref(all);
    for (int i = 0; i < p->n; i++)
        hr_table_unref(p->tables[i]);
    p->n = 0;
    p->n_bytes = 0;
    return st;
}

static hr_status do_slice(hr_sorter *s, hr_sort_job *j, int64_t slice, hr_sort_space *space, hr_error *err)
{
    const hr_mem mem = { .account = s->account };
    hr_sort_run *to = &j->slices[slice];
    pending wait = { .n = 0 };
    hr_table *t = NULL;
    hr_status st = HR_OK;
    hr_reader *m = NULL;

    HR_GO(hr__merge_open(s, j->inputs, j->n_inputs, slice ? &j->cuts[slice - 1] : NULL,
                         slice < j->n_slices - 1 ? &j->cuts[slice] : NULL, s->schema, &mem, space, 0, &m, err));
    for (;;) {
        HR_GO(hr__reader_next(m, 0, &t, err));
        if (!t)
            break;
        wait.n_bytes += hr__table_bytes_used(t);
        wait.tables[wait.n++] = t;
        t = NULL;
        if (wait.n == HR_LEN(wait.tables) || wait.n_bytes >= s->page_bytes)
            HR_GO(flush_pending(s, to, &wait, err));
    }
    HR_GO(flush_pending(s, to, &wait, err));
done:
    for (int i = 0; i < wait.n; i++)
        hr_table_unref(wait.tables[i]);
    hr__reader_close(m);
    return st;
}

/* All slices are done: the new run is their pages in order. */
static hr_status assemble(hr_sorter *s, hr_sort_job *j, hr_error *err)
{
    hr_sort_run *to = j->target;
    int64_t n = 0;

    for (int64_t i = 0; i < j->n_slices; i++)
        n += j->slices[i].n_pages;
    if (!(to->pages = hr__alloc(s->account, (size_t)HR_MAX(1, n) * sizeof *to->pages)))
        return hr__error_memory(err, s->name, n * (int64_t)sizeof *to->pages);
    to->cap = n;
    to->n_rows = 0;
    for (int64_t i = 0; i < j->n_slices; i++) {
        for (int64_t p = 0; p < j->slices[i].n_pages; p++) {
            to->pages[to->n_pages] = j->slices[i].pages[p];
            to->pages[to->n_pages++].first_row += to->n_rows;
        }
        to->n_rows += j->slices[i].n_rows;
        j->slices[i].n_pages = 0; /* moved */
    }
    return HR_OK;
}

static void unlink_job_locked(hr_sorter *s, const hr_sort_job *j)
{
    for (hr_sort_job **at = &s->jobs; *at; at = &(*at)->next) {
        if (*at == j) {
            *at = j->next;
            return;
        }
    }
}

hr_status hr__sorter_help(hr_sorter *s, hr_sort_space *space, bool *did, hr_error *err)
{
    int64_t slice = 0;
    bool last = false;
    hr_sort_job *j;

    hr__lock(&s->lock);
    for (j = s->jobs; j && j->next_slice == j->n_slices;)
        j = j->next;
    if (j)
        slice = j->next_slice++;
    hr__unlock(&s->lock);
    *did = j != NULL;
    if (!j)
        return HR_OK;
    HR_TRY(do_slice(s, j, slice, space, err));
    hr__lock(&s->lock);
    last = ++j->n_done == j->n_slices;
    if (last)
        unlink_job_locked(s, j);
    hr__unlock(&s->lock);
    if (last) {
        hr_status st = assemble(s, j, err);

        hr__sort_job_free(s, j);
        return st;
    }
    return HR_OK;
}

/* Starts a job that replaces runs [from, from + n) by one. */
hr_status hr__sorter_start_job(hr_sorter *s, int64_t from, int64_t n, int64_t slice_bytes, hr_error *err)
{
    hr_sort_job *j = hr__zalloc(s->account, sizeof *j);
    hr_status st = HR_OK;

    if (!j || !(j->target = hr__zalloc(s->account, sizeof *j->target)) ||
        !(j->inputs = hr__zalloc(s->account, (size_t)n * sizeof *j->inputs)))
        HR_GO(hr__error_memory(err, s->name, n * (int64_t)sizeof *j->inputs));
    for (int64_t i = 0; i < n; i++) {
        j->n_bytes += s->runs[from + i]->n_bytes;
        j->target->n_rows += s->runs[from + i]->n_rows;
    }
    j->target->n_bytes = j->n_bytes;
    j->n_slices = HR_MAX(1, j->n_bytes / slice_bytes);
    HR_GO(hr__choose_cuts(s, s->runs + from, n, &j->n_slices, &j->cuts, err));
    if (!(j->slices = hr__zalloc(s->account, (size_t)j->n_slices * sizeof *j->slices)))
        HR_GO(hr__error_memory(err, s->name, j->n_slices * (int64_t)sizeof *j->slices));
    memcpy(j->inputs, s->runs + from, (size_t)n * sizeof *j->inputs);
    j->n_inputs = n;
    s->runs[from] = j->target;
    memmove(s->runs + from + 1, s->runs + from + n, (size_t)(s->n_runs - from - n) * sizeof *s->runs);
    s->n_runs -= n - 1;
    hr__lock(&s->lock);
    j->next = NULL;
    for (hr_sort_job **at = &s->jobs;; at = &(*at)->next) {
        if (!*at) {
            *at = j;
            break;
        }
    }
    hr__unlock(&s->lock);
    return HR_OK;
done:
    if (j) {
        hr__free(j->target);
        hr__sort_job_free(s, j);
    }
    return st;
}
