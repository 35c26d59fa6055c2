/* take.c - the next ticket of a leaf: which rows of which fragment, in canonical order.
 *
 * One thread at a time walks a scan (stage->taking); opening a file, which may read a footer, happens without the lock, while
 * others decode. A fragment that may be split is cut at multiples of BLOCK_ROWS; how long a cut is depends on the budget, which is
 * why nothing else may depend on the cuts. */
#include "exec/run.h"

#define BLOCK_ROWS 4096

static void next_fragment(hr_stage *s)
{
    s->at_fragment++;
    s->at_row = 0;
    s->asked = false;
}

/* How many rows from at_row one ticket takes; -1: to the fragment's end, which is not known. */
static int64_t rows_of_ticket(const hr_stage *s)
{
    const hr_fragment *f = &s->fragment;
    int64_t rest = f->n_rows - s->at_row, want, row_bytes;

    if (f->n_rows < 0)
        return -1;
    if (f->splittable && f->memory_bytes > 2 * s->run->step_bytes) {
        int64_t block = HR_MAX(BLOCK_ROWS, s->block_rows);

        row_bytes = HR_MAX(1, f->memory_bytes / HR_MAX(1, f->n_rows));
        want = HR_MAX(block, HR_MIN(s->run->step_bytes * 2, INT64_C(1) << 40) / row_bytes / block * block);
        rest = HR_MIN(rest, want - s->at_row % block);
    }
    return s->rows_left < 0 ? rest : HR_MIN(rest, s->rows_left);
}

/* A random order of n things, which `what` and `which` tell from other such. NULL without memory. */
static int32_t *random_order(const hr_stage *s, int n, uint64_t what, uint64_t which)
{
    int32_t *order = hr__alloc(s->run->account, ((size_t)n + 1) * sizeof *order);

    for (int i = 0; order && i < n; i++)
        order[i] = i;
    if (order)
        hr__random_permute((uint32_t *)order, n, hr__random_bits(s->block_seed, s->block_epoch, what, which).lo);
    return order;
}

enum { OF_FILES = 3, OF_FRAGMENTS }; /* 1 and 2 are a local shuffle's */

static int fragment_at(const hr_stage *s, int place) { return s->fragments ? s->fragments[place] : place; }

static void close_file(hr_stage *s)
{
    hr__scan_file_unref(s->open_file);
    s->open_file = NULL;
    hr__free(s->fragments);
    s->fragments = NULL;
}

int hr__stage_file(const hr_stage *s, int place) { return s->order ? s->order[place] : place; }

static hr_status find_order(hr_stage *s, hr_error *err)
{
    if (s->ordered)
        return HR_OK;
    HR_TRY(hr__scan_order(s->scan, s->run->options.seed, s->run->options.epoch, &s->order, err));
    if (s->random_blocks && !s->order && hr__scan_n_files(s->scan) > 1 &&
        !(s->order = random_order(s, hr__scan_n_files(s->scan), OF_FILES, (uint32_t)s->instance)))
        return hr__error_memory(err, "order of files", hr__scan_n_files(s->scan) * (int64_t)sizeof *s->order);
    s->ordered = true;
    return HR_OK;
}

/* The order of the fragments of the file that was opened. */
static hr_status find_fragments(hr_stage *s, hr_error *err)
{
    int n = s->open_file->n_fragments;
    uint64_t which = (uint64_t)(uint32_t)s->instance << 32 | (uint32_t)hr__stage_file(s, s->at_file);

    if (s->random_blocks && n > 1 && !(s->fragments = random_order(s, n, OF_FRAGMENTS, which)))
        return hr__error_memory(err, "order of fragments", n * (int64_t)sizeof *s->fragments);
    return HR_OK;
}

hr_status hr__stage_open(hr_stage *s, int place, hr_scan_file **out, hr_error *err)
{
    const hr_run_options *o = &s->run->options;
    const hr_open how = { .projection = &s->columns,
                          .filter = s->filter,
                          .image_steps = s->image_steps.n ? &s->image_steps : NULL,
                          .dice = { .seed = o->seed, .epoch = o->epoch, .at = { .instance = s->instance } },
                          .account = s->run->account,
                          .skipped = &s->skipped };

    HR_TRY(hr__scan_open(s->scan, hr__stage_file(s, place), &how, out, err));
    atomic_fetch_add_explicit(&s->files_opened, 1, memory_order_relaxed);
    return HR_OK;
}

/* Opens the next file if none is open. */
static hr_status open_next(hr_stage *s, hr_error *err)
{
    while (s->at_file < hr__scan_n_files(s->scan)) {
        if (!s->open_file) {
            HR_TRY(hr__stage_open(s, s->at_file, &s->open_file, err));
            HR_TRY(find_fragments(s, err));
            s->asked = false;
        }
        if (s->at_fragment < s->open_file->n_fragments)
            return HR_OK;
        close_file(s);
        s->at_file++;
        s->at_fragment = 0;
        s->at_row = 0;
    }
    return HR_OK;
}

/* What is known of the fragment at hand; finding that out may read pages. */
static hr_status ask_fragment(hr_stage *s, hr_error *err)
{
    if (!s->asked)
        HR_TRY(s->open_file->cls->fragment(s->open_file, fragment_at(s, s->at_fragment), &s->fragment, err));
    s->asked = true;
    return HR_OK;
}

static hr_status make_ticket(hr_stage *s, int64_t n_rows, hr_ticket **out, hr_error *err)
{
    hr_ticket *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__ticket_new(s, &t, err));
    t->file = hr__scan_file_ref(s->open_file);
    t->fragment = fragment_at(s, s->at_fragment);
    t->row_begin = s->at_row;
    t->n_rows = n_rows;
    t->begin = (hr_coord){
        .instance = s->instance, .file = hr__stage_file(s, s->at_file), .fragment = t->fragment, .row = s->at_row
    };
    t->ordinal = s->at_row / BLOCK_ROWS;
    t->estimate = HR_MIN(s->fragment.memory_bytes, s->run->step_bytes + s->run->step_bytes / 2) + (256 << 10);
    HR_GO(hr__marker_new(t->begin, &t->before, err));
    if (s->open_file->cls->ahead && s->at_fragment + 2 < s->open_file->n_fragments)
        s->open_file->cls->ahead(s->open_file, fragment_at(s, s->at_fragment + 2));
    *out = t;
    t = NULL;
done:
    hr__ticket_free(t);
    return st;
}

/* Many files, one row each. */
static hr_status make_group(hr_stage *s, int n_files, int64_t n_bytes, hr_ticket **out, hr_error *err)
{
    hr_ticket *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__ticket_new(s, &t, err));
    t->place = s->at_file;
    t->n_files = n_files;
    t->begin = (hr_coord){ .instance = s->instance, .file = hr__stage_file(s, s->at_file) };
    t->estimate = HR_MIN(n_bytes, s->run->step_bytes + s->run->step_bytes / 2) + (256 << 10);
    HR_GO(hr__marker_new(t->begin, &t->before, err));
    s->at_file += n_files;
    *out = t;
    t = NULL;
done:
    hr__ticket_free(t);
    return st;
}

/* Leaves out rows at the beginning that the slice behind the stage would drop: whole fragments, and of one that may be split, whole
 * blocks. */
static hr_status skip_rows(hr_stage *s, hr_error *err)
{
    int64_t left = s->skip_rows;

    HR_TRY(find_order(s, err));
    while (left > 0) {
        int64_t n;

        HR_TRY(open_next(s, err));
        if (!s->open_file)
            break;
        HR_TRY(ask_fragment(s, err));
        n = s->fragment.n_rows;
        if (n < 0 || (n > left && !s->fragment.splittable))
            break;
        if (n > left) {
            int64_t block = HR_MAX(BLOCK_ROWS, s->block_rows);

            s->at_row = left / block * block;
            left -= s->at_row;
            break;
        }
        left -= n;
        next_fragment(s);
    }
    atomic_store(&s->stream->run.skipped_rows, s->skip_rows - left);
    if (s->rows_left >= 0)
        s->rows_left = HR_MAX(0, s->rows_left - (s->skip_rows - left));
    s->skip_rows = 0;
    return HR_OK;
}

hr_status hr__stage_take(hr_stage *s, hr_ticket **out, hr_error *err)
{
    *out = NULL;
    if (s->skip_rows > 0 && s->stream)
        HR_TRY(skip_rows(s, err));
    while (s->rows_left != 0) {
        int64_t n, n_rows;
        int n_files;

        HR_TRY(find_order(s, err));
        if ((n_files = hr__group_files(s, &n)) > 0)
            return make_group(s, n_files, n, out, err);
        HR_TRY(open_next(s, err));
        if (!s->open_file)
            return HR_OK;
        HR_TRY(ask_fragment(s, err));
        n_rows = s->fragment.n_rows;
        if (n_rows >= 0 && s->at_row >= n_rows) {
            next_fragment(s);
            continue;
        }
        n = rows_of_ticket(s);
        HR_TRY(make_ticket(s, n, out, err));
        if (s->at_row == 0)
            atomic_fetch_add_explicit(&s->fragments_read, 1, memory_order_relaxed);
        if (s->rows_left > 0 && n >= 0)
            s->rows_left -= n;
        if (n < 0 || s->at_row + n >= n_rows)
            next_fragment(s);
        else
            s->at_row += n;
        return HR_OK;
    }
    return HR_OK;
}

/* Where fragment number `fragment` of the file at hand stands in its order. */
static hr_status seek_fragment(hr_stage *s, int fragment, hr_error *err)
{
    int n;

    s->at_fragment = 0;
    HR_TRY(hr__stage_open(s, s->at_file, &s->open_file, err));
    HR_TRY(find_fragments(s, err));
    n = s->open_file->n_fragments;
    while (s->at_fragment < n && fragment_at(s, s->at_fragment) != fragment)
        s->at_fragment++;
    s->asked = false;
    if (s->at_fragment == n)
        return hr_error_set(err, HR_MISMATCH, "position: fragment %d of %d in %s", fragment, n, s->open_file->name);
    return HR_OK;
}

hr_status hr__stage_seek(hr_stage *s, const hr_coord *at, hr_error *err)
{
    int n_files = hr__scan_n_files(s->scan), place = 0;

    if (at->file > n_files)
        return hr_error_set(err, HR_MISMATCH, "position: file %d of %d", at->file, n_files);
    HR_TRY(find_order(s, err));
    while (place < n_files && hr__stage_file(s, place) != at->file)
        place++;
    s->at_file = place;
    s->at_fragment = at->fragment;
    if (s->random_blocks && place < n_files)
        HR_TRY(seek_fragment(s, at->fragment, err));
    s->at_row = at->row;
    s->skip_rows = 0;
    s->rows_left = -1; /* the limit operator, restored too, knows better */
    return HR_OK;
}
