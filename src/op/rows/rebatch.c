/* rebatch.c - cuts the same rows into tables that do not depend on the input's cuts: of exactly n rows, or fragments.
 *
 * Rows wait in `parts`, in order, until they make a batch. A batch from one table is a slice of it; a batch from
 * several tables is copied.
 *
 * A marker inside an open batch (p of its n rows came before, p > 0) waits until the batch is emitted, since these p
 * rows wait, too. A run that starts at the marker first gets the other n - p rows of that batch, which the first run
 * has emitted: the state says to skip them. Of several markers in one batch only the newest waits. Without pending
 * rows a marker passes at once.
 *
 *   rows      . . . . . . . . . . . .      n = 5; marker M comes after row 7
 *   batches   [0 . . . .][1 . M . . .][2   passes after batch 1, with skip=3 ordinal=2
 *
 * If a function gets the batches (run.marks), a marker lies before each batch: the last marker, with the number of rows
 * emitted since as its skip. So a run that resumes there repeats no call, only the work for the skipped rows.
 *
 * A fragment ends where the rows say so (fragment_cut.c): then n is known only when the fragment is complete.
 *
 * All tables must have nearly one schema (data/conform.c). Here a function that returns int64 first and double later
 * gets its error: in canonical order, so that the message is the same with any number of threads. */
#include "format/scan/materialized.h"
#include "op/operators.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct rebatch_op {
    hr_op base;
    int64_t n_rows; /* 0: fragments */
    bool drop_last;
    bool any_size; /* batches may be larger than the memory limit */
} rebatch_op;

typedef struct rebatch_state {
    hr_schema *schema; /* of the first table; NULL: there was none yet */
    hr_table **parts;  /* counted; rows of the open batch, then the rest of the newest table */
    int64_t n_parts, cap_parts;
    int64_t n_pending;  /* rows of all parts */
    int64_t most_bytes; /* their bytes at most: the first part may be shorter */
    int64_t skip;       /* input rows that an earlier run has emitted */
    int64_t ordinal;    /* of the open batch */
    hr_marker *held;    /* waits for the open batch; NULL: none */
    int64_t held_at;    /* the rows of the open batch at its arrival */
    hr_fragment_cut cut;
    int64_t n_cut;     /* fragments: rows of the open batch that the cut has seen */
    hr_marker *base;   /* run.marks: the last marker, unchanged; NULL: none */
    int64_t base_skip; /* rows between it and the open batch */
} rebatch_state;

/* The start of a batch at or before this row, and at or after it. Fragments may begin with any row. */
static int64_t begin_before(const hr_op *op, int64_t row)
{
    return row - row % HR_MAX(1, ((const rebatch_op *)op)->n_rows);
}

static int64_t begin_after(const hr_op *op, int64_t row)
{
    return begin_before(op, row + HR_MAX(1, ((const rebatch_op *)op)->n_rows) - 1);
}

static hr_status rebatch_state_of(const hr_op *op, hr_task *task, rebatch_state **out, hr_error *err)
{
    void **slot = hr__task_state(task);
    int64_t first;

    if (!*slot) {
        if (!(*slot = hr__zalloc(hr__task_run(task)->account, sizeof **out)))
            return hr__error_memory(err, "rebatch", sizeof **out);
        first = hr__task_first_row(task, 0);
        (*(rebatch_state **)slot)->skip = begin_after(op, first) - first;
    }
    *out = *slot;
    return HR_OK;
}

static void rebatch_task_clear(const hr_op *op, hr_task *task)
{
    rebatch_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    for (int64_t i = 0; i < s->n_parts; i++)
        hr_table_unref(s->parts[i]);
    hr__free(s->parts);
    hr__schema_unref(s->schema);
    hr__marker_drop(s->held);
    hr__marker_drop(s->base);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* ----------------------------------------------------------------------------------------------------- the markers */

/* `skip` rows lie between it and the next batch. */
static void pass(const rebatch_state *s, hr_task *task, hr_marker *takes, int64_t skip)
{
    char text[80];

    snprintf(text, sizeof text, "skip=%" PRId64 " ordinal=%" PRId64, skip, s->ordinal);
    hr__task_pass(task, takes, text);
}

/* A marker arrives. The batches after it use a copy; without memory for it, they use an earlier marker. */
static void pass_new(rebatch_state *s, hr_task *task, hr_marker *takes, int64_t skip)
{
    if (hr__task_run(task)->marks) {
        hr__marker_drop(s->base);
        s->base_skip = skip;
        if (hr__marker_copy(takes, &s->base, NULL))
            s->base = NULL;
    }
    pass(s, task, takes, skip);
}

/* After the output of a batch of n rows, which would have `all` if it were complete: passes the waiting marker, or the
 * last marker again with more rows to skip. */
static void pass_behind(rebatch_state *s, hr_task *task, int64_t n, int64_t all)
{
    hr_marker *m = s->held;

    s->held = NULL;
    s->base_skip += n;
    if (m)
        pass_new(s, task, m, all - s->held_at);
    else if (s->base && !hr__marker_copy(s->base, &m, NULL))
        pass(s, task, m, s->base_skip);
}

static hr_status rebatch_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    rebatch_state *s = NULL;
    hr_status st = rebatch_state_of(op, task, &s, err);

    (void)op;
    if (st) {
        hr__marker_drop(takes);
        return st;
    }
    if (s->n_pending == 0) {
        pass_new(s, task, takes, s->skip);
        return HR_OK;
    }
    hr__marker_drop(s->held);
    s->held = takes;
    s->held_at = s->n_pending;
    return HR_OK;
}

static hr_status rebatch_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    rebatch_state *s = NULL;
    int64_t skip = -1, ordinal = -1;

    if (!hr__state_int(state, "skip", &skip) || !hr__state_int(state, "ordinal", &ordinal) || skip < 0)
        return hr_error_set(err, HR_INVALID, "rebatch: '%s' is not a position in batches of %" PRId64 " rows", state,
                            ((const rebatch_op *)op)->n_rows);
    HR_TRY(rebatch_state_of(op, task, &s, err));
    s->skip = skip;
    s->ordinal = ordinal;
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- the rows */

/* The common schema of this table and the earlier ones: converts the waiting tables if `in` has wider types. */
static hr_status check_schema(rebatch_state *s, hr_task *task, const hr_table *in, hr_error *err)
{
    bool wider;

    HR_TRY(hr__schema_widen(&s->schema, in->schema, "rebatch: a table", &wider, err));
    for (int64_t i = 0; wider && i < s->n_parts; i++)
        HR_TRY(hr__table_conform_in_place(hr__task_mem(task), &s->parts[i], s->schema, err));
    return HR_OK;
}

/* Adds the rows of `in` except skipped ones. */
static hr_status add(rebatch_state *s, hr_task *task, const hr_table *in, hr_error *err)
{
    int64_t skip = HR_MIN(s->skip, in->n_rows);
    hr_table *part = NULL;

    s->skip -= skip;
    if (skip == in->n_rows)
        return HR_OK;
    if (!hr__grow(hr__task_run(task)->account, (void **)&s->parts, &s->cap_parts, s->n_parts + 1, sizeof *s->parts))
        return hr__error_memory(err, "rebatch", (s->n_parts + 1) * (int64_t)sizeof *s->parts);
    if (skip == 0)
        part = hr_table_ref((hr_table *)in);
    else
        HR_TRY(hr_table_slice(in, skip, in->n_rows - skip, &part, err));
    s->parts[s->n_parts++] = part;
    s->n_pending += part->n_rows;
    s->most_bytes += hr__table_bytes_used(part);
    return HR_OK;
}

/* The bytes of the first n rows. */
static hr_status bytes_of(const rebatch_state *s, int64_t n, int64_t *out, hr_error *err)
{
    *out = 0;
    for (int64_t i = 0; i < s->n_parts && n > 0; i++) {
        hr_table *part = NULL;

        HR_TRY(hr_table_slice(s->parts[i], 0, HR_MIN(n, s->parts[i]->n_rows), &part, err));
        *out += hr__table_bytes_used(part);
        n -= part->n_rows;
        hr_table_unref(part);
    }
    return HR_OK;
}

/* Whether the first n rows, the next batch, fit in the limit. A slice of one table takes no memory. */
static hr_status check_bytes(const hr_op *op, rebatch_state *s, hr_task *task, int64_t n, hr_error *err)
{
    int64_t limit = hr__account_limit(hr__task_run(task)->account), bytes;

    if (((const rebatch_op *)op)->any_size || s->most_bytes <= limit || n <= s->parts[0]->n_rows)
        return HR_OK;
    HR_TRY(bytes_of(s, n, &bytes, err));
    if (n == s->n_pending)
        s->most_bytes = bytes;
    return bytes <= limit ? HR_OK : hr__batch_too_large(n, bytes, limit, n < ((const rebatch_op *)op)->n_rows, err);
}

/* The first part loses its first n rows. */
static hr_status shorten(rebatch_state *s, int64_t n, hr_error *err)
{
    hr_table *rest = NULL, *first = s->parts[0];

    if (n < first->n_rows)
        HR_TRY(hr_table_slice(first, n, first->n_rows - n, &rest, err));
    hr_table_unref(first);
    if (rest)
        s->parts[0] = rest;
    else
        memmove(s->parts, s->parts + 1, (size_t)--s->n_parts * sizeof *s->parts);
    s->n_pending -= n;
    return HR_OK;
}

/* The first n rows, all in the first part: shared. */
static hr_status take_slice(rebatch_state *s, int64_t n, hr_table **out, hr_error *err)
{
    if (n == s->parts[0]->n_rows)
        *out = hr_table_ref(s->parts[0]);
    else
        HR_TRY(hr_table_slice(s->parts[0], 0, n, out, err));
    return shorten(s, n, err);
}

/* The first n rows, copied from all parts. */
static hr_status take_copy(rebatch_state *s, hr_task *task, int64_t n, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t i_last = s->n_parts - 1;
    int64_t n_behind = s->n_pending - n;
    hr_table *last = s->parts[i_last], *head = NULL, *tail = NULL;

    if (n_behind) {
        HR_GO(hr_table_slice(last, 0, last->n_rows - n_behind, &head, err));
        HR_GO(hr_table_slice(last, last->n_rows - n_behind, n_behind, &tail, err));
        s->parts[i_last] = head;
    }
    st = hr__table_concat(hr__task_mem(task), s->schema, s->parts, (int)s->n_parts, out, err);
    s->parts[i_last] = last;
    if (st)
        goto done;
    for (int64_t i = 0; i < s->n_parts; i++)
        hr_table_unref(s->parts[i]);
    s->n_parts = 0;
    if (tail)
        s->parts[s->n_parts++] = tail;
    s->n_pending = n_behind;
    tail = NULL;
done:
    hr_table_unref(head);
    hr_table_unref(tail);
    return st;
}

/* Emits the open batch, of n rows. */
static hr_status emit(const hr_op *op, rebatch_state *s, hr_task *task, int64_t n, hr_error *err)
{
    int64_t all = ((const rebatch_op *)op)->n_rows;

    hr_status st = HR_OK;
    hr_table *batch = NULL;

    if (n <= s->parts[0]->n_rows)
        HR_GO(take_slice(s, n, &batch, err));
    else
        HR_GO(take_copy(s, task, n, &batch, err));
    HR_GO(hr__task_emit(task, &batch, err));
    s->ordinal++;
    pass_behind(s, task, n, all ? all : n);
done:
    hr_table_unref(batch);
    return st;
}

/* Emits all complete batches of n rows. */
static hr_status emit_exact(const hr_op *op, rebatch_state *s, hr_task *task, int64_t n, hr_error *err)
{
    while (s->n_pending >= n && !hr__task_cancelled(task)) {
        HR_TRY(check_bytes(op, s, task, n, err));
        HR_TRY(emit(op, s, task, n, err));
    }
    return HR_OK;
}

/* Emits all complete fragments. The rows that the cut has not seen are in the last part. */
static hr_status emit_fragments(const hr_op *op, rebatch_state *s, hr_task *task, hr_error *err)
{
    while (s->n_pending > s->n_cut && !hr__task_cancelled(task)) {
        const hr_table *last = s->parts[s->n_parts - 1];
        int64_t n;
        bool ends;

        s->n_cut += hr__fragment_cut(&s->cut, last, last->n_rows - (s->n_pending - s->n_cut), &ends);
        if (!ends)
            continue;
        n = s->n_cut;
        s->n_cut = 0;
        HR_TRY(emit(op, s, task, n, err));
    }
    return HR_OK;
}

static hr_status rebatch_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    int64_t n = ((const rebatch_op *)op)->n_rows;
    rebatch_state *s = NULL;
    hr_table *fitting = NULL;
    hr_status st = HR_OK;

    HR_TRY(rebatch_state_of(op, task, &s, err));
    HR_TRY(check_schema(s, task, in, err));
    HR_TRY(hr__table_conform(hr__task_mem(task), in, s->schema, &fitting, err));
    st = add(s, task, fitting, err);
    hr_table_unref(fitting);
    if (st)
        return st;
    HR_TRY(n ? emit_exact(op, s, task, n, err) : emit_fragments(op, s, task, err));
    if (!s->n_pending)
        s->most_bytes = 0;
    return check_bytes(op, s, task, s->n_pending, err); /* before it holds more rows */
}

static hr_status rebatch_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    rebatch_state *s = *hr__task_state(task);

    if (!s)
        return HR_OK;
    if (s->n_pending && !((const rebatch_op *)op)->drop_last)
        HR_TRY(emit(op, s, task, s->n_pending, err));
    pass_behind(s, task, 0, ((const rebatch_op *)op)->n_rows);
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------- the operator */

static void rebatch_describe(const hr_op *op, hr_text *out)
{
    const rebatch_op *r = (const rebatch_op *)op;

    if (!r->n_rows)
        hr__text_add(out, "fragments");
    else
        hr__text_add(out, "rebatch(%" PRId64 "%s)", r->n_rows, r->drop_last ? ", drop_last" : "");
}

static void rebatch_fingerprint(const hr_op *op, hr_hash *h)
{
    hr__hash_int(h, ((const rebatch_op *)op)->n_rows);
    hr__hash_int(h, ((const rebatch_op *)op)->drop_last);
}

static void rebatch_free(hr_op *op) { hr__free(op); }

/* Not one_to_one, though no row changes: a limit upstream or downstream changes where batches begin. */

static const hr_op_class rebatch_class = {
    .name = "rebatch",
    .doc = "the same rows in tables of exactly n rows",
    .kind = HR_OP_STREAM,
    .images_upstream = true,
    .schema = hr__kept_schema,
    .needs = hr__same_needs,
    .push = rebatch_push,
    .finish = rebatch_finish,
    .task_clear = rebatch_task_clear,
    .lane_needs = begin_before,
    .lane_gives = begin_after,
    .marker = rebatch_marker,
    .restore = rebatch_restore,
    .describe = rebatch_describe,
    .fingerprint = rebatch_fingerprint,
    .free = rebatch_free,
};

hr_status hr__op_rebatch_blocks(int64_t n_rows, hr_op **out, hr_error *err)
{
    HR_TRY(hr__op_rebatch(n_rows, false, out, err));
    ((rebatch_op *)*out)->any_size = true;
    return HR_OK;
}

hr_status hr__op_fragments(hr_op **out, hr_error *err)
{
    HR_TRY(hr__op_rebatch_blocks(1, out, err));
    ((rebatch_op *)*out)->n_rows = (*out)->table_rows = 0;
    return HR_OK;
}

hr_status hr__op_rebatch(int64_t n_rows, bool drop_last, hr_op **out, hr_error *err)
{
    rebatch_op *r = NULL;

    *out = NULL;
    if (n_rows < 1)
        return hr_error_set(err, HR_INVALID, "rebatch: batches of %" PRId64 " rows", n_rows);
    if (!(r = hr__zalloc(NULL, sizeof *r)))
        return hr__error_memory(err, "rebatch", sizeof *r);
    hr__op_init(&r->base, &rebatch_class);
    r->n_rows = r->base.table_rows = n_rows;
    r->drop_last = r->base.drops_rest = drop_last;
    *out = &r->base;
    return HR_OK;
}
