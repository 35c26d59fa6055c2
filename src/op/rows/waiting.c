/* waiting.c - a queue of one input's rows that wait for rows of the other inputs (side_by_side.c, mix.c).
 *
 * Markers of an input wait with its rows: an input resumes at the newest marker before all waiting rows, and skips the
 * rows taken after it. The markers of all inputs make one. An input without markers, for example after a join, begins
 * at its start and skips all taken rows.
 *
 * Tests: test_combine.c, test_constant_resume.py. */
#include "op/rows/waiting.h"

#include <inttypes.h>
#include <stdio.h>

hr_status hr__waiting_add(hr_waiting *w, hr_account *account, const hr_table *t, hr_error *err)
{
    int64_t skip = HR_MIN(w->skip, t->n_rows);
    hr_table *part = NULL;

    if (w->head && w->head + w->n == w->cap) {
        memmove(w->tables, w->tables + w->head, (size_t)w->n * sizeof *w->tables);
        w->head = 0;
    }
    if (!hr__grow(account, (void **)&w->tables, &w->cap, w->head + w->n + 1, sizeof *w->tables))
        return hr__error_memory(err, "waiting rows", (w->n + 1) * (int64_t)sizeof *w->tables);
    if (skip == 0)
        part = hr_table_ref((hr_table *)t);
    else if (skip < t->n_rows)
        HR_TRY(hr_table_slice(t, skip, t->n_rows - skip, &part, err));
    w->skip -= skip;
    w->n_seen += t->n_rows;
    w->n_rows += t->n_rows - skip;
    if (part && part->n_rows)
        w->tables[w->head + w->n++] = part;
    else
        hr_table_unref(part);
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
    for (int64_t i = 0; i < w->n_marks; i++)
        hr__marker_drop(w->marks[i].marker);
    hr__free(w->marks);
    *w = (hr_waiting){ 0 };
}

/* --------------------------------------------------------------------------------------------------------- markers */

int64_t hr__waiting_taken(const hr_waiting *w) { return w->n_seen - w->n_rows + w->skip; }

/* Drops marks that are older than the newest one before all waiting rows. */
static void forget_old(hr_waiting *w)
{
    int64_t taken = hr__waiting_taken(w), n = 0;

    while (n + 1 < w->n_marks && w->marks[n + 1].row <= taken)
        hr__marker_drop(w->marks[n++].marker);
    if (n == 0)
        return;
    w->n_marks -= n;
    memmove(w->marks, w->marks + n, (size_t)w->n_marks * sizeof *w->marks);
}

void hr__waiting_mark(hr_waiting *w, hr_account *account, hr_marker *takes)
{
    forget_old(w);
    if (!hr__grow(account, (void **)&w->marks, &w->cap_marks, w->n_marks + 1, sizeof *w->marks)) {
        hr__marker_drop(takes);
        return;
    }
    w->marks[w->n_marks++] = (hr_waiting_mark){ takes, w->n_seen };
}

void hr__waiting_pass(hr_waiting *w, int n, hr_task *task)
{
    const hr_marker **markers = hr__zalloc(hr__task_run(task)->account, (size_t)n * sizeof *markers);
    hr_marker *all = NULL;
    hr_text text = { 0 };

    if (!markers)
        return;
    for (int i = 0; i < n; i++) {
        bool marked;

        forget_old(&w[i]);
        marked = w[i].n_marks && w[i].marks[0].row <= hr__waiting_taken(&w[i]);
        markers[i] = marked ? w[i].marks[0].marker : NULL;
        hr__text_add(&text, " taken%d=%" PRId64 " skip%d=%" PRId64, i, hr__waiting_taken(&w[i]), i,
                     hr__waiting_taken(&w[i]) - (marked ? w[i].marks[0].row : 0));
        if (w[i].ended && !w[i].n_rows)
            hr__text_add(&text, " ended%d=1", i);
    }
    if (!text.failed && !hr__marker_join(markers, n, &all, NULL) && all)
        hr__task_pass(task, all, text.data);
    hr__text_clear(&text);
    hr__free(markers);
}

static bool state_of_input(const char *state, const char *key, int i, int64_t *out)
{
    char name[32];

    snprintf(name, sizeof name, "%s%d", key, i);
    *out = -1;
    return hr__state_int(state, name, out) && *out >= 0;
}

hr_status hr__waiting_restore(hr_waiting *w, int n, hr_task *task, const char *state, hr_error *err)
{
    for (int i = 0; i < n; i++) {
        int64_t taken, skip, ended;

        if (!state_of_input(state, "taken", i, &taken) || !state_of_input(state, "skip", i, &skip) || skip > taken)
            return hr_error_set(err, HR_INVALID, "position: '%s' is not a position in %d inputs", state, n);
        w[i].ended = state_of_input(state, "ended", i, &ended);
        w[i].skip = w[i].ended ? 0 : skip;
        w[i].n_seen = taken - w[i].skip;
        if (w[i].ended)
            hr__task_end_input(task, i);
    }
    return HR_OK;
}
