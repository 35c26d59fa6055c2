/* waiting.c - rows of one of several inputs, which wait until rows of the others are there (side_by_side.c, mix.c).
 *
 * Tests: test_combine.c. */
#include "op/rows/waiting.h"

hr_status hr__waiting_add(hr_waiting *w, hr_account *account, const hr_table *t, hr_error *err)
{
    if (t->n_rows == 0)
        return HR_OK;
    if (w->head && w->head + w->n == w->cap) {
        memmove(w->tables, w->tables + w->head, (size_t)w->n * sizeof *w->tables);
        w->head = 0;
    }
    if (!hr__grow(account, (void **)&w->tables, &w->cap, w->head + w->n + 1, sizeof *w->tables))
        return hr__error_memory(err, "waiting rows", (w->n + 1) * (int64_t)sizeof *w->tables);
    w->tables[w->head + w->n++] = hr_table_ref((hr_table *)t);
    w->n_rows += t->n_rows;
    w->n_seen += t->n_rows;
    return HR_OK;
}

hr_table *hr__waiting_first(const hr_waiting *w) { return w->n ? w->tables[w->head] : NULL; }

int64_t hr__waiting_left(const hr_waiting *w) { return w->n ? w->tables[w->head]->n_rows - w->at : 0; }

void hr__waiting_take(hr_waiting *w, int64_t n)
{
    w->at += n;
    w->n_rows -= n;
    if (w->n && w->at == w->tables[w->head]->n_rows) {
        hr_table_unref(w->tables[w->head++]);
        w->n--;
        w->at = 0;
    }
}

void hr__waiting_drop(hr_waiting *w)
{
    while (w->n)
        hr__waiting_take(w, hr__waiting_left(w));
}

void hr__waiting_clear(hr_waiting *w)
{
    hr__waiting_drop(w);
    hr__free(w->tables);
    *w = (hr_waiting){ 0 };
}
