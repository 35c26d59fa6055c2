/* remote.c - tickets whose bytes travel over a network: announced when a ticket is made, awaited before its first read.
 *
 * 1. A ticket announces what it will read when it is made: all tickets of the window are under way at once. The budget
 *    may refuse that.
 * 2. Before its first read the ticket announces again. What is not here suspends the ticket (HR_PENDING), and the
 *    pool's thread goes on with other work. Then the budget refuses nothing as long as less than three quarters of the
 *    memory limit are in use. A ticket that was refused bytes in (1) is admitted when they fit below these, or as the
 *    oldest one, whose reads fetch what they need, and wait (5).
 * 3. take.c announces fragments beyond the window as well, up to 64 MiB or a sixteenth of the memory limit: the window
 *    is as large as the threads need, which is too little for a network.
 * 4. Files are opened before their turn: see open_ahead.c.
 * 5. A reader that reads beyond the announcement (a page index, the end of a line in the next fragment) waits in
 *    io/http/url_source.c. Meanwhile a spare thread of the pool works in the place of the one that waits (pool.c).
 *
 * Tests: test_stores.py, test_waiting_threads.py. */
#include "exec/run.h"

hr_status hr__ticket_begin_files(hr_ticket *t, hr_error *err)
{
    hr_stage *s = t->stage;

    if (!hr__scan_is_remote(s->scan, hr__stage_file(s, t->place)))
        return HR_OK;
    (void)hr__aheads_refused();
    t->sources = hr__zalloc(s->run->account, (size_t)t->n_files * sizeof(hr_source *));
    if (!t->sources)
        return hr__error_memory(err, "ticket", t->n_files * (int64_t)sizeof(hr_source *));
    for (int i = 0; i < t->n_files; i++)
        HR_TRY(hr__scan_begin(s->scan, hr__stage_file(s, t->place + i), s->leaf.filter, s->run->account, &t->sources[i],
                              err));
    t->missing_bytes = hr__aheads_refused();
    return HR_OK;
}

static bool is_whole(const hr_ticket *t)
{
    return t->n_rows < 0 || t->fragment_rows < 0 || (t->row_begin == 0 && t->n_rows >= t->fragment_rows);
}

void hr__ticket_announce(hr_ticket *t)
{
    const hr_scan_file_class *cls = t->file ? t->file->cls : NULL;

    (void)hr__aheads_refused();
    for (int i = 0; t->sources && i < t->n_files; i++)
        if (t->sources[i])
            hr__scan_announce(t->stage->scan, t->sources[i]);
    if (cls && is_whole(t)) {
        if (cls->ahead)
            cls->ahead(t->file, t->fragment);
    } else if (cls && cls->ahead_rows) {
        cls->ahead_rows(t->file, t->fragment, t->row_begin, t->n_rows);
    }
    t->missing_bytes = hr__aheads_refused();
}

int64_t hr__ticket_missing_bytes(const hr_ticket *t)
{
    int64_t limit = hr__account_limit(t->stage->run->account);

    return t->awaited || !t->missing_bytes ? 0 : limit / 4 + HR_MIN(t->missing_bytes, limit / 8);
}

static void bytes_came(void *context) { hr__resume(context, HR_OK, NULL); }

hr_status hr__ticket_await(hr_ticket *t)
{
    int64_t least = t->is_first ? hr__account_limit(t->stage->run->account) / 32 : 0;
    hr_resume *resume = NULL;
    hr_status st;

    if (t->awaited || (!t->sources && !(t->file && t->file->is_remote)))
        return HR_OK;
    t->awaited = true;
    HR_TRY(hr__wait_begin(least, &t->wait, &t->err));
    hr__ticket_announce(t);
    st = hr__ticket_suspend(t, &resume, &t->err);
    if (!st && hr__wait_end(t->wait, bytes_came, resume))
        return HR_PENDING;
    if (!st)
        hr__ticket_stay(resume);
    else
        hr__wait_drop(t->wait);
    return st;
}

void hr__waits_cancel(hr_run *r)
{
    hr_wait *some[16];
    int n = 0;

    hr__run_lock(r);
    for (hr_ticket *t = r->waiting; t && n < HR_LEN(some); t = t->next_waiting)
        if (t->state == HR_TICKET_PENDING && t->wait)
            some[n++] = hr__wait_ref(t->wait);
    for (int i = 0; i < r->n_stages && n < HR_LEN(some); i++)
        if (r->stages[i]->window.awaits && !r->stages[i]->window.taking)
            some[n++] = hr__wait_ref(r->stages[i]->window.wait);
    hr__run_unlock(r);
    for (int i = 0; i < n; i++) {
        hr__wait_cancel(some[i]);
        hr__wait_unref(some[i]);
    }
}
