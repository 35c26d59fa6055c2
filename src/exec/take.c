/* take.c - makes the next ticket of a leaf: a range of rows of a fragment, in canonical order.
 *
 * One thread at a time walks a scan (window.taking); it opens files, which may read footers, without the lock, while
 * other threads decode. It cuts a fragment that may be split at multiples of BLOCK_ROWS; the budget decides the length
 * of a cut, so nothing else may depend on the cuts.
 *
 * Tests: test_run.c, test_custom_scan.c. */
#include "exec/run.h"

#define JOINED_BYTES (8 << 20)
#define MOST_JOINED 64
#define BLOCK_ROWS 4096
/* Over a network, neighbouring cuts share pages, which are fetched again if memory is short: so there are fewer cuts. A
 * ticket gives its rows in steps, however long it is. */
#define LEAST_REMOTE_BYTES (8 << 20)

static void next_fragment(hr_stage *s)
{
    s->at.block++;
    s->at.row = 0;
    s->at.asked = false;
}

static hr_open_fragment fragment_at_hand(const hr_stage *s) { return hr__stage_fragment(s, s->at.block); }

/* The number of rows from at_row for one ticket; -1: to the fragment's end, which is unknown. */
static int64_t rows_of_ticket(const hr_stage *s)
{
    const hr_fragment *f = &s->at.fragment;
    int64_t rest = f->n_rows - s->at.row, want, row_bytes, least = s->run->step_bytes * 2;

    if (f->n_rows < 0)
        return -1;
    if (s->at.open.files[fragment_at_hand(s).file]->is_remote)
        least = HR_MAX(least, LEAST_REMOTE_BYTES);
    if (f->splittable && f->memory_bytes > least) {
        int64_t block = HR_MAX(BLOCK_ROWS, s->leaf.block_rows);

        row_bytes = HR_MAX(1, f->memory_bytes / HR_MAX(1, f->n_rows));
        want = HR_MAX(block, HR_MIN(least, INT64_C(1) << 40) / row_bytes / block * block);
        rest = HR_MIN(rest, want - s->at.row % block);
    }
    return s->leaf.rows_left < 0 ? rest : HR_MIN(rest, s->leaf.rows_left);
}

/* Closes the open files if all of their fragments were taken. */
static void close_taken(hr_stage *s)
{
    int n = s->at.open.n;

    if (!n || s->at.block < s->at.open.n_blocks)
        return;
    hr__stage_close_files(s);
    s->at.file += n;
    s->at.block = 0;
    s->at.row = 0;
}

/* Opens the next files if none are open. wait: while they are on their way, it returns HR_PENDING. */
static hr_status open_next(hr_stage *s, bool wait, hr_error *err)
{
    for (close_taken(s); s->at.file < hr__scan_n_files(s->scan) && !s->at.open.n; close_taken(s)) {
        if (wait) {
            hr_status st = hr__stage_await_files(s, err);

            if (st)
                return st;
        }
        HR_TRY(hr__stage_open_files(s, err));
        s->at.asked = false;
    }
    return HR_OK;
}

/* Fills at.fragment for the current block; the file may read pages for that. */
static hr_status ask_fragment(hr_stage *s, hr_error *err)
{
    hr_open_fragment b = fragment_at_hand(s);

    if (!s->at.asked)
        HR_TRY(s->at.open.files[b.file]->cls->fragment(s->at.open.files[b.file], b.fragment, &s->at.fragment, err));
    s->at.asked = true;
    return HR_OK;
}

/* How many bytes ahead of the tickets are announced: over a network enough to fill it while they are decoded. */
static int64_t bytes_ahead(const hr_stage *s, const hr_scan_file *f)
{
    if (!f->is_remote || s->window.begins_small)
        return 1;
    return hr__stage_bytes_ahead(s);
}

/* Announces what is read soon. Fragments that were announced before cost nothing. Over a network the next one is a
 * request of its own, as it leaves first; small ones after it travel together, in requests of about JOINED_BYTES. On a
 * disk the next one is about to be read, and the one after it is announced. */
static void announce(hr_stage *s)
{
    const hr_scan_file *at_hand = s->at.open.files[fragment_at_hand(s).file];
    int64_t left = bytes_ahead(s, at_hand), each = HR_MAX(1, s->at.fragment.stored_bytes);
    int together = (int)HR_MIN(HR_MAX(1, JOINED_BYTES / each), MOST_JOINED);
    int first = (int)HR_MIN(s->at.open.n_blocks, s->at.block + (at_hand->is_remote ? 1 : 2));
    int end = (int)HR_MIN(s->at.open.n_blocks, first + (left + each - 1) / each);

    left -= (end - first) * each;
    if (end < s->at.open.n_blocks && end - first > together) /* the others of a request come with it */
        end -= end % together;
    for (int block = first; block < end; block++) {
        hr_open_fragment b = hr__stage_fragment(s, block);
        hr_scan_file *f = s->at.open.files[b.file];

        if (f->cls->ahead)
            f->cls->ahead(f, b.fragment);
        hr__aheads_begin();
    }
    hr__aheads_end();
    if (!s->window.begins_small && left > 0 && s->at.open.files[0]->is_remote)
        hr__stage_begin_files(s, left);
}

static hr_status make_ticket(hr_stage *s, int64_t n_rows, hr_ticket **out, hr_error *err)
{
    hr_open_fragment b = fragment_at_hand(s);
    hr_ticket *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__ticket_new(s, &t, err));
    t->file = hr__scan_file_ref(s->at.open.files[b.file]);
    t->fragment = b.fragment;
    t->row_begin = s->at.row;
    t->n_rows = n_rows;
    t->fragment_rows = s->at.fragment.n_rows;
    t->begin = (hr_coord){ .instance = s->leaf.instance,
                           .file = hr__stage_file(s, s->at.file + b.file),
                           .fragment = t->fragment,
                           .row = s->at.row };
    t->ordinal = s->at.row / BLOCK_ROWS;
    t->estimate = HR_MIN(s->at.fragment.memory_bytes, s->run->step_bytes + s->run->step_bytes / 2) + (256 << 10);
    HR_GO(hr__marker_new(t->begin, &t->before, err));
    if (t->file->is_remote)
        hr__ticket_announce(t);
    announce(s);
    *out = t;
    t = NULL;
done:
    hr__ticket_free(t);
    return st;
}

/* A ticket of many files, one row each. */
static hr_status make_small_files(hr_stage *s, int n_files, int64_t n_bytes, hr_ticket **out, hr_error *err)
{
    hr_ticket *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__ticket_new(s, &t, err));
    t->place = s->at.file;
    t->n_files = n_files;
    t->begin = (hr_coord){ .instance = s->leaf.instance, .file = hr__stage_file(s, s->at.file) };
    t->estimate = HR_MIN(n_bytes, s->run->step_bytes + s->run->step_bytes / 2) + (256 << 10);
    HR_GO(hr__marker_new(t->begin, &t->before, err));
    HR_GO(hr__ticket_begin_files(t, err));
    s->at.file += n_files;
    if (s->leaf.rows_left > 0)
        s->leaf.rows_left -= n_files; /* of a lane: each of its files is known to have one row */
    *out = t;
    t = NULL;
done:
    hr__ticket_free(t);
    return st;
}

/* Passes whole fragments of at most *left rows in all, which it subtracts. *stop: the rows of the fragment that has
 * more; -1: it does not know; 0: nothing is left, or no fragment. */
static hr_status pass_fragments(hr_stage *s, int64_t *left, int64_t *stop, hr_error *err)
{
    *stop = 0;
    while (*left > 0) {
        int64_t n;

        HR_TRY(open_next(s, false, err));
        if (!s->at.open.n)
            break;
        HR_TRY(ask_fragment(s, err));
        n = s->at.fragment.n_rows;
        if (n < 0 || n > *left) {
            *stop = n;
            break;
        }
        *left -= n;
        next_fragment(s);
    }
    return HR_OK;
}

/* Skips rows at the beginning that the slice downstream would drop: whole fragments, and whole blocks of a fragment
 * that may be split. */
static hr_status skip_rows(hr_stage *s, hr_error *err)
{
    int64_t left = s->leaf.skip_rows, block = HR_MAX(BLOCK_ROWS, s->leaf.block_rows), stop;

    HR_TRY(hr__stage_order_files(s, err));
    HR_TRY(pass_fragments(s, &left, &stop, err));
    if (stop > left && s->at.fragment.splittable) {
        s->at.row = left / block * block;
        left -= s->at.row;
    }
    atomic_store(&s->gate.stream->run.skipped_rows, s->leaf.skip_rows - left);
    if (s->leaf.rows_left >= 0)
        s->leaf.rows_left = HR_MAX(0, s->leaf.rows_left - (s->leaf.skip_rows - left));
    s->leaf.skip_rows = 0;
    return HR_OK;
}

/* The first table of the lane begins with row `row` of it: reports that to the operators downstream. */
static void report_first_row(hr_stage *s, int number, int64_t row)
{
    for (; s; s = s->next) {
        const hr_op_class *cls = s->gate.stream ? s->gate.stream->run.op->cls : NULL;

        if (cls && cls->inputs != HR_INPUTS_ONE)
            return;
        s->lane = number;
        s->lane_in = row;
        if (cls && cls->lane_gives)
            row = cls->lane_gives(s->gate.stream->run.op, row);
        s->lane_out = row;
    }
}

/* Goes to the row lane.from; or to an earlier one, where a function's batch begins that holds this row. */
static hr_status begin_lane(hr_stage *s, hr_error *err)
{
    const hr_lane lane = s->leaf.lane;
    int64_t left = lane.from, back = 0, stop;

    s->leaf.lane.on = false;
    HR_TRY(hr__stage_order_files(s, err));
    hr__stage_pass_files(s, &left);
    HR_TRY(pass_fragments(s, &left, &stop, err));
    if (stop < 0)
        return hr_error_set(err, HR_MISMATCH, "%s: does not know its number of rows any more",
                            s->at.open.files[0]->name);
    if (stop > left)
        s->at.row = left;
    if (s->leaf.block_rows > 0)
        back = HR_MIN(s->at.row % s->leaf.block_rows, lane.from - lane.begin);
    s->at.row -= back;
    s->leaf.rows_left = lane.end - lane.from + back;
    report_first_row(s, lane.number, lane.from - back - lane.begin);
    return HR_OK;
}

/* Narrows the filter by the keys of operators downstream. When this scan's turn comes, their other inputs have
 * ended. */
static hr_status ask_partners(hr_stage *s, hr_error *err)
{
    hr_expr *more = NULL, *both = NULL;
    hr_status st = HR_OK;

    if (s->leaf.n_partners)
        s->leaf.loose = !s->leaf.filter;
    for (int i = 0; i < s->leaf.n_partners && !st; i++) {
        const hr_partner *p = &s->leaf.partners[i];

        if (!s->leaf.partner_runs[i])
            continue;
        HR_TRY(p->op->cls->partner_filter(p->op, s->leaf.partner_runs[i], p->key, p->column, &more, err));
        if (!more)
            continue;
        st = hr__expr_and(s->leaf.filter, more, &both, err);
        hr_expr_unref(more);
        if (!st) {
            hr_expr_unref(s->leaf.own_filter);
            s->leaf.filter = s->leaf.own_filter = both;
        }
    }
    s->leaf.n_partners = 0;
    return st;
}

/* Files count alike, and so do the fragments of a file. */
static void count_taken(hr_stage *s)
{
    int n_files = hr__scan_n_files(s->scan);
    double files = s->at.file;

    if (s->at.open.n_blocks > 0) {
        double rows = s->at.asked && s->at.fragment.n_rows > 0 ? (double)s->at.row / (double)s->at.fragment.n_rows : 0;

        files += (s->at.block + rows) / s->at.open.n_blocks * s->at.open.n;
    }
    if (n_files > 0)
        atomic_store_explicit(&s->counts.taken, (int)(HR_MIN(1, files / n_files) * TAKEN_ALL), memory_order_relaxed);
}

static hr_status take(hr_stage *s, hr_ticket **out, hr_error *err)
{
    HR_TRY(ask_partners(s, err));
    if (s->leaf.lane.on)
        HR_TRY(begin_lane(s, err));
    if (s->leaf.skip_rows > 0 && s->gate.stream)
        HR_TRY(skip_rows(s, err));
    while (s->leaf.rows_left != 0) {
        int64_t n, n_rows;
        int n_files;
        hr_status st;

        HR_TRY(hr__stage_order_files(s, err));
        if ((n_files = hr__small_files(s, &n)) > 0)
            return make_small_files(s, n_files, n, out, err);
        if ((st = open_next(s, true, err)))
            return st;
        if (!s->at.open.n)
            return HR_OK;
        HR_TRY(ask_fragment(s, err));
        n_rows = s->at.fragment.n_rows;
        if (n_rows >= 0 && s->at.row >= n_rows) {
            next_fragment(s);
            continue;
        }
        n = rows_of_ticket(s);
        HR_TRY(make_ticket(s, n, out, err));
        if (s->at.row == 0)
            hr__stage_counts_fragment(s, &s->at.fragment);
        if (s->leaf.rows_left > 0 && n >= 0)
            s->leaf.rows_left -= n;
        if (n < 0 || s->at.row + n >= n_rows)
            next_fragment(s);
        else
            s->at.row += n;
        return HR_OK;
    }
    return HR_OK;
}

hr_status hr__stage_take(hr_stage *s, hr_ticket **out, hr_error *err)
{
    hr_status st;

    *out = NULL;
    st = take(s, out, err);
    count_taken(s);
    return st;
}

hr_status hr__stage_seek(hr_stage *s, const hr_coord *at, hr_error *err)
{
    int n_files = hr__scan_n_files(s->scan), place = 0;

    if (at->file > n_files)
        return hr_error_set(err, HR_MISMATCH, "position: names file %d, the source has %d", at->file, n_files);
    HR_TRY(hr__stage_order_files(s, err));
    while (place < n_files && hr__stage_file(s, place) != at->file)
        place++;
    s->at.file = place;
    s->at.block = at->fragment;
    if (s->order.random_blocks && place < n_files)
        HR_TRY(hr__stage_open_at(s, place, at->fragment, err));
    s->at.asked = false;
    s->at.row = at->row;
    s->leaf.skip_rows = 0;
    s->leaf.rows_left = -1; /* the limit operator, which is restored too, counts the rows */
    return HR_OK;
}
