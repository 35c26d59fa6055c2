/* open_ahead.c - files of a network that a leaf opens before their turn.
 *
 * 1. What opening a file reads (a footer, a head, a small file as a whole) is announced up to HR_FILES_BEGUN files
 *    ahead, as long as these bytes are within OPENS_SHARE of the memory limit. With a limit in the plan, no more files
 *    than the window holds tickets.
 * 2. A larger file is opened when these bytes are here, and its fragments are announced, as long as what is announced
 *    ahead of the tickets stays within hr__stage_bytes_ahead.
 * 3. If the bytes of the next file are not here, the stage takes no ticket until they are: hr__stage_await_files
 *    returns HR_PENDING, and the thread goes on with other work.
 *
 * The taking thread (window.taking) owns all of this, except window.awaits and window.wait.
 *
 * Tests: test_open_ahead.c, test_stores.py. */
#include "exec/run.h"

#define AHEAD_BYTES (64 << 20) /* half a second at 1 Gbit/s */
#define OPENS_SHARE 8

int64_t hr__stage_bytes_ahead(const hr_stage *s)
{
    return HR_MIN(AHEAD_BYTES, hr__account_limit(s->run->account) / 16);
}

static hr_begun_file *slot(hr_stage *s, int place) { return &s->at.begun[place % HR_FILES_BEGUN]; }

static void forget(hr_begun_file *b)
{
    hr__source_unref(b->source);
    hr__scan_file_unref(b->file);
    *b = (hr_begun_file){ 0 };
}

void hr__stage_forget_begun(hr_stage *s)
{
    for (int i = 0; i < HR_FILES_BEGUN; i++)
        forget(&s->at.begun[i]);
    hr__wait_unref(s->window.wait);
    s->window.wait = NULL;
}

void hr__stage_take_begun(hr_stage *s, int place, hr_source **source, hr_scan_file **file)
{
    hr_begun_file *b = slot(s, place);

    *source = NULL;
    *file = NULL;
    if (b->place != place)
        return;
    *source = b->source;
    *file = b->file;
    *b = (hr_begun_file){ 0 };
}

/* The file's opening is announced. False: it is not, and no later file is to be begun. */
static bool begin(hr_stage *s, int place)
{
    hr_begun_file *b = slot(s, place);

    if (b->place == place && (b->source || b->file))
        return true;
    forget(b);
    b->place = place;
    return hr__scan_begin(s->scan, hr__stage_file(s, place), s->leaf.filter, s->run->account, &b->source, NULL) ==
           HR_OK;
}

/* Opens the file if its bytes are here. A file that fails is opened again when its turn comes, and fails then. */
static void open_if_here(hr_stage *s, hr_begun_file *b)
{
    if (!b->source || !hr__scan_has(s->scan, b->source))
        return;
    if (hr__stage_open(s, b->place, b->source, &b->file, NULL))
        b->file = NULL;
    hr__source_unref(b->source);
    b->source = NULL;
}

/* -> what is left of `left`. */
static int64_t announce(const hr_stage *s, hr_begun_file *b, int64_t left)
{
    int64_t each = HR_MAX(1, s->at.fragment.stored_bytes); /* of the fragment at hand: the others are like it */

    left -= b->n_announced * each;
    for (; left > 0 && b->n_announced < b->file->n_fragments; left -= each) {
        if (b->file->cls->ahead)
            b->file->cls->ahead(b->file, b->n_announced);
        b->n_announced++;
    }
    return left;
}

/* Bytes that may be announced for the opening of files. */
static int64_t bytes_of_opens(const hr_stage *s)
{
    return s->window.begins_small ? 0 : hr__account_limit(s->run->account) / OPENS_SHARE;
}

void hr__stage_begin_files(hr_stage *s, int64_t left)
{
    int first = s->at.file + s->at.open.n, end = HR_MIN(hr__scan_n_files(s->scan), s->at.file + HR_FILES_BEGUN);
    int64_t opens = bytes_of_opens(s);

    for (int place = first; place < end; place++) {
        bool whole;

        if (!hr__scan_is_remote(s->scan, hr__stage_file(s, place)))
            continue;
        if ((opens <= 0 && place >= s->at.file + s->window.limit) || !begin(s, place))
            return;
        opens -= hr__scan_open_bytes(s->scan, hr__stage_file(s, place), &whole);
        if (whole || left <= 0)
            continue;
        open_if_here(s, slot(s, place));
        /* Fragments leave in order: those of a file whose bytes are not here go before those of later files. */
        left = slot(s, place)->file ? announce(s, slot(s, place), left) : 0;
    }
}

/* ---------------------------------------------------------------------------------------------------------- waiting */

static void files_came(void *context)
{
    hr_stage *s = context;
    hr_run *r = s->run;

    hr__run_lock(r);
    s->window.awaits = false;
    if (--r->n_pending == 0)
        hr__cond_broadcast(&r->idle);
    hr__run_unlock(r);
    hr__pool_wake();
    hr__run_unref(r);
}

static void announce_next(hr_stage *s)
{
    int end = s->at.file + hr__stage_files_from(s, s->at.file);

    for (int place = s->at.file; place < end; place++) {
        const hr_begun_file *b = slot(s, place);

        if (b->place == place && b->source)
            hr__scan_announce(s->scan, b->source);
    }
    s->at.awaited = end;
}

hr_status hr__stage_await_files(hr_stage *s, hr_error *err)
{
    hr_run *r = s->run;
    hr_wait *w, *old;

    if (s->at.awaited > s->at.file || !hr__scan_is_remote(s->scan, hr__stage_file(s, s->at.file)))
        return HR_OK;
    hr__stage_begin_files(s, 0);
    HR_TRY(hr__wait_begin(hr__account_limit(r->account) / 2, &w, err));
    announce_next(s);
    hr__run_ref(r);
    hr__run_lock(r);
    old = s->window.wait;
    s->window.wait = w;
    s->window.awaits = true;
    r->n_pending++;
    hr__run_unlock(r);
    hr__wait_unref(old);
    if (hr__wait_end(w, files_came, s))
        return HR_PENDING;
    files_came(s);
    return HR_OK;
}
