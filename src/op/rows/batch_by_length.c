/* batch_by_length.c - puts rows of about one length into batches of up to max_tokens tokens, padding included.
 *
 * Rows come in canonical order. A row goes to the open batch of its bucket (length_batches.c); the batch is emitted as
 * one table when the next row of the bucket would not fit, or might not. A batch that is open while max_wait others are
 * emitted goes out as it is. The rows are copied, and get new numbers. Without given bounds the first rows are held,
 * and their lengths choose the bounds (length_bounds.c).
 *
 * Markers work as in pack.c: a marker that arrives while batches are open waits until these are emitted. To resume
 * there, a run needs only the size of these batches, not their rows: it makes the same decisions for the rows after the
 * marker, and drops the first `skip` batches, which the first run emitted before it passed the marker:
 *
 *   row=<output rows before the marker> skip=<batches emitted after it> open=<bucket>:<rows>:<longest>:<age>,...
 *   bounds=<lengths>
 *
 * Two markers wait: the older one until its batches are emitted, and the newest. max_wait limits the time. While the
 * bounds are not known, no marker passes but one before the first row. */
#include "op/rows/length_batches.h"

#include <inttypes.h>
#include <stdio.h>

#define DEFAULT_BUCKETS 32
#define DEFAULT_WAIT 256
#define MAX_TOKENS (INT64_C(1) << 40)
#define FIRST_ROWS 4096 /* choose the bounds; fewer if they have FIRST_TOKENS tokens */
#define FIRST_TOKENS (1 << 24)

typedef struct length_op {
    hr_op base;
    char *column;
    int64_t max_tokens, max_rows;
    int64_t bounds[HR_MAX_BUCKETS];
    int n_bounds;  /* 0: the first rows choose them */
    int n_buckets; /* then */
    hr_long_rows overlong;
    int64_t max_wait;
    bool drop_last;
    int64_t token_bytes; /* about */
} length_op;

/* The counters of a run, for stats(). */
typedef struct length_counts {
    _Atomic int64_t batches, tokens, padding, dropped, waited;
    _Atomic int64_t bounds[HR_MAX_BUCKETS];
    atomic_int n_bounds;
} length_counts;

/* A marker that waits until all batches are emitted that were open at its arrival. */
typedef struct waiting_marker {
    hr_marker *marker; /* NULL: none */
    char *open;
    int64_t row, batch; /* the numbers of rows and batches before it */
    int64_t last;       /* number of the youngest of these batches */
} waiting_marker;

typedef struct length_state {
    hr_schema *schema; /* of the rows; NULL: there was no table yet */
    hr_length_batches batches;
    int64_t row;     /* number of the next row that is emitted */
    int64_t skip;    /* batches to close and drop */
    hr_table **held; /* the first tables, until the bounds are known */
    int64_t n_held, cap_held;
    int64_t *first; /* their lengths */
    int64_t n_first, cap_first, first_tokens;
    waiting_marker wait[2];
} length_state;

/* The length of rows of one table. */
typedef struct lengths {
    const hr_array *column, *lists; /* lists NULL: the column has the lengths */
    int64_t offset;
} lengths;

/* ------------------------------------------------------------------------------------------------------- the column */

/* The lists in a column of this type; NULL: it holds none. */
static const hr_type *list_type(const hr_type *t)
{
    if (hr__type_is_ragged(t) && t->n_dims == 1)
        t = t->children[0].type;
    return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || hr__type_is_fixed_list(t) ? t : NULL;
}

/* *index: of the column. */
static hr_status find_column(const length_op *o, const hr_schema *s, int *index, hr_error *err)
{
    hr_text text = { 0 };
    const hr_type *t;
    hr_status st;

    if ((*index = hr__schema_find(s, o->column)) < 0)
        return hr__schema_missing(s, o->column, err);
    t = s->fields[*index].type;
    if (list_type(t) || hr__type_is_int(t))
        return HR_OK;
    hr__type_print(t, &text);
    st = hr_error_set(err, HR_TYPE, "batch_by_length: column '%s' is %s, expected lists, or integers that are lengths",
                      o->column, text.data ? text.data : "of another type");
    hr__text_clear(&text);
    return st;
}

static hr_status length_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    int index;

    *out = NULL;
    HR_TRY(find_column((const length_op *)op, in, &index, err));
    return hr__kept_schema(op, in, out, err);
}

static hr_status length_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                              hr_error *err)
{
    HR_TRY(hr__same_needs(op, input, wanted, n, out, err));
    return out->n < 0 ? HR_OK : hr__needs_add(out, ((const length_op *)op)->column, err);
}

static bool length_looks_at(const hr_op *op, const char *column)
{
    return !strcmp(((const length_op *)op)->column, column);
}

static hr_status bad_row(hr_task *task, const hr_table *in, int64_t row, const char *what, hr_error *err)
{
    hr_origin *one = NULL;
    hr_text where = { 0 };
    hr_status st;

    if (in->origin && !hr__origin_slice(in->origin, row, 1, &one, NULL))
        hr__task_where(task, one, &where);
    st = hr_error_set(err, HR_BAD_DATA, "batch_by_length: %s%s%s", what, where.data ? ", " : "",
                      where.data ? where.data : "");
    hr__text_clear(&where);
    hr__origin_unref(one);
    return st;
}

static hr_status lengths_of(const length_op *o, const hr_table *in, lengths *out, hr_error *err)
{
    int index;

    HR_TRY(find_column(o, in->schema, &index, err));
    *out = (lengths){ .column = in->columns[index] };
    if (hr__type_is_int(out->column->type))
        return HR_OK;
    out->lists = out->column;
    if (hr__type_is_ragged(out->column->type)) {
        out->lists = out->column->children[0];
        out->offset = out->column->offset;
    }
    return HR_OK;
}

/* The length of a row. A null list has none. */
static hr_status length_at(const length_op *o, hr_task *task, const hr_table *in, const lengths *l, int64_t row,
                           int64_t *out, hr_error *err)
{
    bool null = hr__array_is_null(l->column, row);
    int64_t begin;
    char text[200];

    *out = 0;
    if (l->lists) {
        if (!null && !hr__array_is_null(l->lists, row + l->offset))
            hr__array_range(l->lists, row + l->offset, &begin, out);
        return HR_OK;
    }
    *out = null ? -1 : hr__array_int(l->column, row);
    if (*out >= 0)
        return HR_OK;
    snprintf(text, sizeof text, "the length in '%.100s' is %s", o->column, null ? "null" : "negative");
    return bad_row(task, in, row, text, err);
}

static hr_status too_long(const length_op *o, hr_task *task, const hr_table *in, int64_t row, int64_t length,
                          hr_error *err)
{
    char text[300];

    snprintf(text, sizeof text,
             "expected at most max_tokens=%" PRId64 ", found %" PRId64
             " in '%.100s' (long_rows drops such a row, or makes it a batch alone)",
             o->max_tokens, length, o->column);
    return bad_row(task, in, row, text, err);
}

/* -------------------------------------------------------------------------------------------------------- the state */

static hr_status length_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    (void)op;
    run->state = hr__zalloc(run->account, sizeof(length_counts));
    return run->state ? HR_OK : hr__error_memory(err, "batch_by_length", sizeof(length_counts));
}

static void length_stop(const hr_op *op, hr_op_run *run)
{
    (void)op;
    hr__free(run->state);
    run->state = NULL;
}

static void count(_Atomic int64_t *counter, int64_t n) { atomic_fetch_add_explicit(counter, n, memory_order_relaxed); }

/* The bounds are known: makes room for the batches. */
static hr_status set_bounds(length_state *s, hr_task *task, const int64_t *bounds, int n, hr_error *err)
{
    length_counts *counts = hr__task_run(task)->state;

    HR_TRY(hr__length_batches_init(&s->batches, bounds, n, err));
    for (int i = 0; i < n; i++)
        atomic_store_explicit(&counts->bounds[i], bounds[i], memory_order_relaxed);
    atomic_store_explicit(&counts->n_bounds, n, memory_order_release);
    return HR_OK;
}

static hr_status state_of(const hr_op *op, hr_task *task, length_state **out, hr_error *err)
{
    const length_op *o = (const length_op *)op;
    void **slot = hr__task_state(task);
    hr_account *account = hr__task_run(task)->account;
    length_state *s = *slot;

    *out = s;
    if (s)
        return HR_OK;
    if (!(*slot = *out = s = hr__zalloc(account, sizeof *s)))
        return hr__error_memory(err, "batch_by_length", sizeof *s);
    s->batches.account = account;
    s->batches.max_tokens = o->max_tokens;
    s->batches.max_rows = o->max_rows;
    return o->n_bounds ? set_bounds(s, task, o->bounds, o->n_bounds, err) : HR_OK;
}

static void wait_clear(waiting_marker *w)
{
    hr__marker_drop(w->marker);
    hr__free(w->open);
    *w = (waiting_marker){ 0 };
}

static void held_clear(length_state *s)
{
    while (s->n_held)
        hr_table_unref(s->held[--s->n_held]);
    hr__free(s->held);
    hr__free(s->first);
    s->held = NULL;
    s->first = NULL;
    s->n_first = s->cap_first = s->cap_held = 0;
}

static void length_task_clear(const hr_op *op, hr_task *task)
{
    length_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    held_clear(s);
    hr__length_batches_clear(&s->batches);
    hr__schema_unref(s->schema);
    wait_clear(&s->wait[0]);
    wait_clear(&s->wait[1]);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* ---------------------------------------------------------------------------------------------------------- markers */

static hr_status pass(const length_op *o, const length_state *s, hr_task *task, hr_marker *takes, int64_t row,
                      int64_t skip, const char *open, hr_error *err)
{
    bool chosen = !o->n_bounds && s->batches.open;
    hr_text text = { 0 };

    hr__text_add(&text, "row=%" PRId64 " skip=%" PRId64 " open=%s bounds=", row, skip, open);
    hr__length_print_bounds(s->batches.bounds, chosen ? s->batches.n_bounds : 0, &text);
    if (text.failed) {
        hr__text_clear(&text);
        hr__marker_drop(takes);
        return hr__error_memory(err, "batch_by_length", 100);
    }
    hr__task_pass(task, takes, text.data);
    hr__text_clear(&text);
    return HR_OK;
}

/* After the output of a batch: passes markers that no open batch precedes. */
static hr_status pass_waiting(const length_op *o, length_state *s, hr_task *task, hr_error *err)
{
    waiting_marker *w = &s->wait[0];
    int oldest;

    if (!w->marker)
        return HR_OK;
    oldest = hr__length_oldest(&s->batches);
    while (w->marker && (oldest < 0 || s->batches.open[oldest].number > w->last)) {
        hr_marker *m = w->marker;

        w->marker = NULL;
        HR_TRY(pass(o, s, task, m, w->row, s->skip + s->batches.n_closed - w->batch, w->open, err));
        wait_clear(w);
        s->wait[0] = s->wait[1];
        s->wait[1] = (waiting_marker){ 0 };
    }
    return HR_OK;
}

/* Keeps the marker as the newest; the oldest stays. */
static hr_status wait_for_batches(length_state *s, hr_marker *takes, hr_error *err)
{
    waiting_marker *w = &s->wait[s->wait[0].marker != NULL];
    hr_text open = { 0 };

    hr__length_print(&s->batches, &open);
    if (open.failed) {
        hr__text_clear(&open);
        hr__marker_drop(takes);
        return hr__error_memory(err, "batch_by_length", 100);
    }
    wait_clear(w);
    *w = (waiting_marker){ .marker = takes,
                           .open = open.data,
                           .row = s->row,
                           .batch = s->batches.n_closed,
                           .last = s->batches.next_number - 1 };
    return HR_OK;
}

static hr_status length_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    length_state *s = NULL;
    hr_status st = state_of(op, task, &s, err);

    if (st || s->n_held) {
        hr__marker_drop(takes);
        return st;
    }
    if (s->batches.n_open)
        return wait_for_batches(s, takes, err);
    return pass((const length_op *)op, s, task, takes, s->row, s->skip, "-", err);
}

/* ---------------------------------------------------------------------------------------------------------- batches */

static hr_status other_rows(hr_error *err)
{
    return hr_error_set(err, HR_MISMATCH, "batch_by_length: the rows are not those that the position was saved with");
}

static hr_status emit(length_state *s, hr_task *task, hr_table *in, int k, hr_error *err)
{
    const hr_length_batch *b = &s->batches.open[k];
    length_counts *counts = hr__task_run(task)->state;
    hr_table *t = NULL;

    if (!b->has_rows)
        return other_rows(err);
    HR_TRY(hr__length_take(&s->batches, k, hr__task_mem(task), s->schema, in, s->row, &t, err));
    count(&counts->batches, 1);
    count(&counts->tokens, b->tokens);
    count(&counts->padding, b->longest * b->n_rows - b->tokens);
    return hr__task_emit(task, &t, err);
}

/* The batch of bucket k is complete. in NULL: no table is at hand. */
static hr_status close_one(const length_op *o, length_state *s, hr_task *task, hr_table *in, int k, hr_error *err)
{
    int64_t n_rows = s->batches.open[k].n_rows;

    if (s->skip > 0)
        s->skip--;
    else
        HR_TRY(emit(s, task, in, k, err));
    s->row += n_rows;
    hr__length_close(&s->batches, k);
    return pass_waiting(o, s, task, err);
}

static hr_status close_batch(const length_op *o, length_state *s, hr_task *task, hr_table *in, int k, hr_error *err)
{
    length_counts *counts = hr__task_run(task)->state;
    int oldest;

    HR_TRY(close_one(o, s, task, in, k, err));
    while ((oldest = hr__length_oldest(&s->batches)) >= 0 &&
           s->batches.n_closed - s->batches.open[oldest].opened_at >= o->max_wait) {
        count(&counts->waited, 1);
        HR_TRY(close_one(o, s, task, in, oldest, err));
    }
    return HR_OK;
}

static hr_status add_row(const length_op *o, length_state *s, hr_task *task, hr_table *in, int64_t row, int64_t length,
                         hr_error *err)
{
    hr_length_batches *b = &s->batches;
    length_counts *counts = hr__task_run(task)->state;
    int k = hr__length_bucket(b, length);

    if (length > o->max_tokens && o->overlong == HR_LONG_ROW_ERROR)
        return too_long(o, task, in, row, length, err);
    if (length > o->max_tokens && o->overlong == HR_LONG_ROW_DROP) {
        count(&counts->dropped, 1);
        return HR_OK;
    }
    if (b->open[k].n_rows && !hr__length_fits(b, k, length))
        HR_TRY(close_batch(o, s, task, in, k, err));
    if (!b->open[k].n_rows)
        hr__length_open(b, k);
    HR_TRY(hr__length_add(b, k, (uint32_t)row, length, err));
    return hr__length_fits(b, k, 0) ? HR_OK : close_batch(o, s, task, in, k, err);
}

/* ------------------------------------------------------------------------------------------------------------ input */

/* At most HR_PICK_ROWS rows. */
static hr_status add_slice(const length_op *o, length_state *s, hr_task *task, hr_table *in, hr_error *err)
{
    lengths l;

    HR_TRY(lengths_of(o, in, &l, err));
    for (int64_t row = 0; row < in->n_rows && !hr__task_cancelled(task); row++) {
        int64_t length;

        HR_TRY(length_at(o, task, in, &l, row, &length, err));
        HR_TRY(add_row(o, s, task, in, row, length, err));
    }
    return hr__length_keep(&s->batches, hr__task_mem(task), s->schema, in, err);
}

static hr_status add_rows(const length_op *o, length_state *s, hr_task *task, hr_table *in, hr_error *err)
{
    if (in->n_rows <= HR_PICK_ROWS)
        return add_slice(o, s, task, in, err);
    for (int64_t at = 0; at < in->n_rows; at += HR_PICK_ROWS) {
        hr_table *some = NULL;
        hr_status st;

        HR_TRY(hr_table_slice(in, at, HR_MIN(HR_PICK_ROWS, in->n_rows - at), &some, err));
        st = add_slice(o, s, task, some, err);
        hr_table_unref(some);
        if (st)
            return st;
    }
    return HR_OK;
}

static bool knows_enough(const length_state *s) { return s->n_first >= FIRST_ROWS || s->first_tokens >= FIRST_TOKENS; }

/* Holds one of the first tables, and looks at as many of its lengths as are needed. */
static hr_status hold(const length_op *o, length_state *s, hr_task *task, hr_table *in, hr_error *err)
{
    void *held = s->held, *first = s->first;
    lengths l;

    HR_TRY(lengths_of(o, in, &l, err));
    if (!hr__grow(s->batches.account, &held, &s->cap_held, s->n_held + 1, sizeof *s->held))
        return hr__error_memory(err, "batch_by_length", (s->n_held + 1) * (int64_t)sizeof *s->held);
    s->held = held;
    s->held[s->n_held++] = hr_table_ref(in);
    if (!hr__grow(s->batches.account, &first, &s->cap_first, HR_MIN(s->n_first + in->n_rows, FIRST_ROWS),
                  sizeof *s->first))
        return hr__error_memory(err, "batch_by_length", FIRST_ROWS * (int64_t)sizeof *s->first);
    s->first = first;
    for (int64_t row = 0; row < in->n_rows && !knows_enough(s); row++) {
        int64_t length;

        HR_TRY(length_at(o, task, in, &l, row, &length, err));
        if (length > o->max_tokens)
            continue;
        s->first[s->n_first++] = length;
        s->first_tokens += length;
    }
    return HR_OK;
}

/* The first tables choose the bounds, and become batches. */
static hr_status begin(const length_op *o, length_state *s, hr_task *task, hr_error *err)
{
    int64_t bounds[HR_MAX_BUCKETS];
    hr_status st = HR_OK;
    int n = 0;

    HR_TRY(hr__length_bounds(s->first, s->n_first, o->n_buckets, bounds, &n, err));
    if (n == 0)
        bounds[n++] = o->max_tokens; /* the bounds are known, and no other rows may change them */
    HR_TRY(set_bounds(s, task, bounds, n, err));
    for (int64_t i = 0; i < s->n_held && !st; i++) {
        hr_table *t = NULL;

        st = hr__table_conform(hr__task_mem(task), s->held[i], s->schema, &t, err);
        if (!st)
            st = add_rows(o, s, task, t, err);
        hr_table_unref(t);
    }
    held_clear(s);
    return st;
}

/* The common schema of this table and the earlier ones: converts waiting rows if `in` has wider types. */
static hr_status check_schema(length_state *s, hr_task *task, const hr_table *in, hr_error *err)
{
    bool wider;

    HR_TRY(hr__schema_widen(&s->schema, in->schema, "batch_by_length: a table", &wider, err));
    return wider ? hr__length_conform(&s->batches, hr__task_mem(task), s->schema, err) : HR_OK;
}

static hr_status length_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const length_op *o = (const length_op *)op;
    length_state *s = NULL;
    hr_table *fitting = NULL;
    hr_status st = HR_OK;

    HR_TRY(state_of(op, task, &s, err));
    HR_TRY(check_schema(s, task, in, err));
    HR_TRY(hr__table_conform(hr__task_mem(task), in, s->schema, &fitting, err));
    if (s->batches.open)
        st = add_rows(o, s, task, fitting, err);
    else if (in->n_rows && !(st = hold(o, s, task, fitting, err)) && knows_enough(s))
        st = begin(o, s, task, err);
    hr_table_unref(fitting);
    return st;
}

static hr_status length_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    const length_op *o = (const length_op *)op;
    length_counts *counts = hr__task_run(task)->state;
    length_state *s = *hr__task_state(task);
    int oldest;

    if (!s)
        return HR_OK;
    if (s->n_held)
        HR_TRY(begin(o, s, task, err));
    while (!o->drop_last && s->batches.open && (oldest = hr__length_oldest(&s->batches)) >= 0)
        HR_TRY(close_one(o, s, task, NULL, oldest, err));
    for (int k = 0; s->batches.open && k < s->batches.n_bounds + 2; k++)
        count(&counts->dropped, s->batches.open[k].n_rows);
    return s->skip ? other_rows(err) : HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- going on */

/* The text after " key="; NULL: there is none. */
static const char *text_of(const char *state, const char *key)
{
    const char *p = strstr(state, key);

    return p ? p + strlen(key) : NULL;
}

/* Reads the bounds and the open batches. *good: they are such. */
static hr_status restore_batches(const length_op *o, length_state *s, hr_task *task, const char *open,
                                 const char *bounds, bool *good, hr_error *err)
{
    int64_t found[HR_MAX_BUCKETS];
    int n = 0;

    *good = hr__length_parse_bounds(bounds, found, &n) && (!n || !o->n_bounds);
    if (*good && n)
        HR_TRY(set_bounds(s, task, found, n, err));
    if (*good)
        *good = s->batches.open ? hr__length_parse(&s->batches, open) : open[0] == '-';
    return HR_OK;
}

static hr_status length_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    const length_op *o = (const length_op *)op;
    const char *open = text_of(state, " open="), *bounds = text_of(state, " bounds=");
    int64_t row = -1, skip = -1;
    length_state *s = NULL;
    bool good = open && bounds && hr__state_int(state, "row", &row) && hr__state_int(state, "skip", &skip) &&
                row >= 0 && skip >= 0 && row <= INT64_MAX / 4 && skip <= INT64_MAX / 4;

    if (good) {
        HR_TRY(state_of(op, task, &s, err));
        HR_TRY(restore_batches(o, s, task, open, bounds, &good, err));
    }
    if (!good) {
        length_task_clear(op, task);
        return hr_error_set(err, HR_INVALID,
                            "batch_by_length: '%.200s' is not a position in batches of %" PRId64 " tokens", state,
                            o->max_tokens);
    }
    s->row = row;
    s->skip = skip;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static int n_buckets_of(const length_op *o) { return o->n_bounds ? o->n_bounds + 1 : o->n_buckets + 1; }

static int64_t length_floor(const hr_op *op)
{
    const length_op *o = (const length_op *)op;

    return (n_buckets_of(o) + 1) * HR_MIN(o->max_tokens, INT64_MAX / 4096) * o->token_bytes;
}

static void length_describe(const hr_op *op, hr_text *out)
{
    const length_op *o = (const length_op *)op;

    hr__text_add(out, "batch_by_length(%s, %" PRId64 " tokens, ", o->column, o->max_tokens);
    if (o->n_bounds) {
        hr__text_add(out, "buckets ");
        hr__length_print_bounds(o->bounds, o->n_bounds, out);
    } else {
        hr__text_add(out, "%d buckets", o->n_buckets);
    }
    hr__text_add(out, ")");
}

static int64_t counted(const _Atomic int64_t *counter) { return atomic_load_explicit(counter, memory_order_relaxed); }

static void length_stats(const hr_op *op, const hr_op_run *run, hr_text *out)
{
    const length_counts *c = run->state;
    int64_t tokens, padding;
    int n;

    (void)op;
    if (!c)
        return;
    tokens = counted(&c->tokens);
    padding = counted(&c->padding);
    n = atomic_load_explicit(&c->n_bounds, memory_order_acquire);
    hr__text_add(out, ",\"batches\":%" PRId64 ",\"tokens\":%" PRId64 ",\"padding_tokens\":%" PRId64,
                 counted(&c->batches), tokens, padding);
    hr__text_add(out, ",\"padding_rate\":%.6f", tokens + padding ? (double)padding / (double)(tokens + padding) : 0.0);
    hr__text_add(out, ",\"dropped_rows\":%" PRId64 ",\"waited_batches\":%" PRId64 ",\"buckets\":[",
                 counted(&c->dropped), counted(&c->waited));
    for (int i = 0; i < n; i++)
        hr__text_add(out, "%s%" PRId64, i ? "," : "", counted(&c->bounds[i]));
    hr__text_add(out, "]");
}

static void length_fingerprint(const hr_op *op, hr_hash *h)
{
    const length_op *o = (const length_op *)op;

    hr__hash_int(h, 1); /* the version of the decisions: a position resumes with its own version */
    hr__hash_text(h, o->column);
    hr__hash_int(h, o->max_tokens);
    hr__hash_int(h, o->max_rows);
    hr__hash_int(h, o->n_bounds);
    for (int i = 0; i < o->n_bounds; i++)
        hr__hash_int(h, o->bounds[i]);
    hr__hash_int(h, o->n_buckets);
    hr__hash_int(h, o->overlong);
    hr__hash_int(h, o->max_wait);
    hr__hash_int(h, o->drop_last);
}

static void length_free(hr_op *op)
{
    hr__free(((length_op *)op)->column);
    hr__free(op);
}

static const hr_op_class length_class = {
    .name = "batch_by_length",
    .doc = "rows of about one length in batches of up to max_tokens tokens",
    .kind = HR_OP_STREAM,
    .new_rows = true,
    .schema = length_schema,
    .needs = length_needs,
    .looks_at = length_looks_at,
    .start = length_start,
    .stop = length_stop,
    .push = length_push,
    .finish = length_finish,
    .task_clear = length_task_clear,
    .marker = length_marker,
    .restore = length_restore,
    .floor_bytes = length_floor,
    .describe = length_describe,
    .stats = length_stats,
    .fingerprint = length_fingerprint,
    .free = length_free,
};

static hr_status check_options(const char *column, int64_t max_tokens, const hr_length_options *p, hr_error *err)
{
    if (!column)
        return hr_error_set(err, HR_INVALID, "batch_by_length: the name of the column is NULL");
    if (max_tokens < 1 || max_tokens > MAX_TOKENS)
        return hr_error_set(err, HR_INVALID, "batch_by_length: max_tokens: expected 1 to %" PRId64 ", found %" PRId64,
                            MAX_TOKENS, max_tokens);
    if (p->n_buckets < 0 || p->n_buckets > HR_MAX_BUCKETS)
        return hr_error_set(err, HR_INVALID, "batch_by_length: buckets: expected 1 to %d, or 0 for %d, found %d",
                            HR_MAX_BUCKETS, DEFAULT_BUCKETS, p->n_buckets);
    if (p->buckets && !p->n_buckets)
        return hr_error_set(err, HR_INVALID, "batch_by_length: buckets: expected at least one length, found none");
    for (int i = 0; p->buckets && i < p->n_buckets; i++)
        if (p->buckets[i] < 1 || (i && p->buckets[i] <= p->buckets[i - 1]))
            return hr_error_set(err, HR_INVALID,
                                "batch_by_length: buckets: expected ascending lengths of at least 1, found %" PRId64
                                " at place %d",
                                p->buckets[i], i);
    if (p->max_rows < 0 || p->max_rows > HR_PICK_ROWS)
        return hr_error_set(err, HR_INVALID,
                            "batch_by_length: max_rows: expected 1 to %d, or 0 for that, found %" PRId64, HR_PICK_ROWS,
                            p->max_rows);
    if (p->max_wait < 0)
        return hr_error_set(err, HR_INVALID,
                            "batch_by_length: max_wait: expected at least 1, or 0 for %d, found %" PRId64, DEFAULT_WAIT,
                            p->max_wait);
    if ((unsigned)p->long_rows > HR_LONG_ROW_ALONE)
        return hr_error_set(err, HR_INVALID, "batch_by_length: long_rows %d, expected 0 to %d", (int)p->long_rows,
                            HR_LONG_ROW_ALONE);
    return HR_OK;
}

/* Checks the column against the schema, if known, and sets the bytes of a token. */
static hr_status resolve(length_op *o, const hr_schema *schema, hr_error *err)
{
    const hr_type *t;
    int index, bytes;

    o->token_bytes = 8;
    if (!schema)
        return HR_OK;
    HR_TRY(find_column(o, schema, &index, err));
    t = list_type(schema->fields[index].type);
    bytes = t ? hr__type_bytes(t->children[0].type) : 0;
    o->token_bytes = t && bytes <= 0 ? 8 : bytes;
    return HR_OK;
}

hr_status hr__op_batch_by_length(const hr_schema *schema, const char *column, int64_t max_tokens,
                                 const hr_length_options *options, hr_op **out, hr_error *err)
{
    length_op *o = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(check_options(column, max_tokens, options, err));
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "batch_by_length", sizeof *o);
    hr__op_init(&o->base, &length_class);
    o->base.makes_batches = true;
    o->max_tokens = max_tokens;
    o->max_rows = options->max_rows ? options->max_rows : HR_PICK_ROWS;
    o->max_wait = options->max_wait ? options->max_wait : DEFAULT_WAIT;
    o->n_bounds = options->buckets ? options->n_buckets : 0;
    if (o->n_bounds)
        memcpy(o->bounds, options->buckets, (size_t)o->n_bounds * sizeof *o->bounds);
    o->n_buckets = options->n_buckets ? options->n_buckets : DEFAULT_BUCKETS;
    o->overlong = options->long_rows;
    o->drop_last = options->drop_last;
    if (!(o->column = hr__strdup(NULL, column)))
        st = hr__error_memory(err, "batch_by_length", (int64_t)strlen(column));
    else
        st = resolve(o, schema, err);
    if (st) {
        length_free(&o->base);
        return st;
    }
    *out = &o->base;
    return HR_OK;
}
