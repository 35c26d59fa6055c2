/* pack.c - packs documents of tokens (lists) into rows of seq_len tokens.
 *
 * Documents come in canonical order; pack_bins.c chooses an open row for each one. The operator closes and emits a row
 * that is full, or that must make room for another one (pack_rows.c). The output rows are new rows with new numbers.
 *
 * Markers. A marker that arrives while rows are open waits until they are closed, since they hold earlier documents. To
 * resume there, a run needs only the fill of these rows, not their tokens: it fills them again with the documents after
 * the marker, makes the same decisions, and drops the first `skip` rows that it closes, which the first run emitted
 * before it passed the marker. So the state is always small:
 *
 *   row=<rows closed before the marker> skip=<rows closed after it, up to where it was passed> bins=<tokens>:<age>,...
 *
 * Two markers wait: the older one until its rows are closed, and the newest. The operator closes a bin at the latest
 * when it has closed HR_BIN_AGE * open_bins rows since it opened the bin, so a marker waits for no more rows. */
#include "op/rows/pack.h"

#include <inttypes.h>
#include <stdio.h>

#define DEFAULT_BINS 64
#define MAX_BINS 1024
#define MAX_SEQ_LEN (1 << 27)
#define READ_BYTES (256 << 10) /* a quarter of a millisecond's work */

typedef struct pack_op {
    hr_op base;
    int64_t seq_len;
    hr_pack_strategy strategy;
    hr_pack_long_documents overlong;
    int open_bins;
    bool drop_last;
    char **names; /* n_names columns of tokens; none: all lists of numbers */
    int n_names;
    int64_t *pads, *boses, *eoses;                /* of each column, or one; NULL: 0, none, none */
    char *segment_ids, *position_ids, *loss_mask; /* NULL: no such column */
    int64_t row_bytes;                            /* of the tokens of a row; a guess where the types are not known */
} pack_op;

/* The counters of a run, for stats(). */
typedef struct pack_counts {
    _Atomic int64_t rows, tokens, padding, truncated, dropped, left_out;
} pack_counts;

/* A marker that waits until all bins are closed that were open at its arrival. */
typedef struct waiting_marker {
    hr_marker *marker; /* NULL: none */
    char *bins;
    int64_t row;
    int64_t last_bin; /* number of the youngest of these bins */
} waiting_marker;

typedef struct pack_state {
    hr_pack_layout layout; /* in NULL: there was no table yet */
    hr_bins bins;
    hr_pack_rows rows;
    int64_t skip; /* rows to close and drop */
    waiting_marker wait[2];
    char *restored; /* bins, until the first table */
} pack_state;

/* One document: n tokens of row `row`, with bos and eos. */
typedef struct document {
    const hr_array *const *values; /* of each column */
    const int64_t *begin;
    int64_t n;
    int64_t n_list; /* without bos and eos */
} document;

/* ------------------------------------------------------------------------------------------------------- the layout */

static bool is_number(const hr_type *t)
{
    return hr__type_is_int(t) || t->id == HR_T_FLOAT16 || t->id == HR_T_FLOAT32 || t->id == HR_T_FLOAT64;
}

/* The type of the tokens in a column of this type; NULL: the column has no tokens. */
static hr_type *token_type(const hr_type *t)
{
    if (hr__type_is_ragged(t) && t->n_dims == 1)
        t = t->children[0].type; /* the values' list */
    else if (t->id == HR_T_TENSOR && t->n_dims != 1)
        return NULL;
    if (t->id != HR_T_LIST && t->id != HR_T_LARGE_LIST && !hr__type_is_fixed_list(t))
        return NULL;
    return is_number(t->children[0].type) ? t->children[0].type : NULL;
}

static void layout_clear(hr_pack_layout *l)
{
    hr__schema_unref(l->in);
    hr__schema_unref(l->out);
    hr__free(l->columns);
    *l = (hr_pack_layout){ 0 };
}

/* v as a value of this type. */
static hr_status put_value(const char *what, const char *column, int64_t v, const hr_type *t, uint8_t *to,
                           hr_error *err)
{
    int bits = 8 * hr__type_bytes(t);
    double d = (double)v;
    float f = (float)v;
    uint16_t h = hr__half_of((double)v);

    if (t->id == HR_T_FLOAT64)
        memcpy(to, &d, 8);
    else if (t->id == HR_T_FLOAT32)
        memcpy(to, &f, 4);
    else if (t->id == HR_T_FLOAT16)
        memcpy(to, &h, 2);
    else if (hr__type_is_unsigned(t) ? v < 0 || (bits < 64 && v >> bits) : bits < 64 && v >> (bits - 1) != -(v < 0))
        return hr_error_set(err, HR_INVALID, "pack: %s is %" PRId64 ", no value of column '%s', which holds %s", what,
                            v, column, hr__type_format(t));
    else
        memcpy(to, &v, (size_t)bits / 8);
    return HR_OK;
}

static int64_t value_of(const pack_op *o, const int64_t *values, int i)
{
    return values ? values[o->n_names ? i : 0] : 0;
}

static hr_status add_column(const pack_op *o, hr_pack_layout *l, int index, hr_error *err)
{
    const hr_field *f = &l->in->fields[index];
    hr_pack_column *c = &l->columns[l->n];
    const hr_type *t = token_type(f->type);

    if (!t) {
        hr_text text = { 0 };
        hr_status st;

        hr__type_print(f->type, &text);
        st = hr_error_set(err, HR_TYPE, "pack: column '%s' is %s, expected a list of numbers", f->name,
                          text.data ? text.data : "of another type");
        hr__text_clear(&text);
        return st;
    }
    c->index = index;
    c->bytes = hr__type_bytes(t);
    c->at = l->row_bytes;
    l->row_bytes += o->seq_len * c->bytes;
    HR_TRY(put_value("pad", f->name, value_of(o, o->pads, l->n), t, c->pad, err));
    HR_TRY(put_value("bos", f->name, value_of(o, o->boses, l->n), t, c->bos, err));
    HR_TRY(put_value("eos", f->name, value_of(o, o->eoses, l->n), t, c->eos, err));
    l->n++;
    return HR_OK;
}

static hr_status add_columns(const pack_op *o, hr_pack_layout *l, hr_error *err)
{
    if (!(l->columns = hr__zalloc(NULL, ((size_t)l->in->n + 1) * sizeof *l->columns)))
        return hr__error_memory(err, "pack", l->in->n * (int64_t)sizeof *l->columns);
    for (int i = 0; i < o->n_names; i++) {
        int index = hr__schema_find(l->in, o->names[i]);

        if (index < 0)
            return hr__schema_missing(l->in, o->names[i], err);
        HR_TRY(add_column(o, l, index, err));
    }
    for (int i = 0; !o->n_names && i < l->in->n; i++)
        if (token_type(l->in->fields[i].type))
            HR_TRY(add_column(o, l, i, err));
    if (!l->n) {
        char names[300];

        hr__schema_names(l->in, names, sizeof names);
        return hr_error_set(err, HR_TYPE, "pack: no column is a list of numbers; columns: %s", names);
    }
    if (!o->n_names && l->n > 1 && (o->pads || o->boses || o->eoses))
        return hr_error_set(err, HR_INVALID,
                            "pack: one value of pad, bos or eos for %d columns; name the columns, and a value for each",
                            l->n);
    return HR_OK;
}

static hr_status add_field(const pack_op *o, hr_schema **s, const char *name, hr_type *value, hr_error *err)
{
    hr_schema *more = NULL;
    hr_type *type = NULL;
    hr_status st = HR_OK;

    if (!name)
        return HR_OK;
    if (hr__schema_find(*s, name) >= 0)
        return hr_error_set(err, HR_INVALID, "pack: two columns would be called '%s'", name);
    HR_TRY(hr__type_tensor(value, &o->seq_len, 1, &type, err));
    st = hr__schema_append(*s, name, type, false, &more, err);
    hr__type_unref(type);
    if (st)
        return st;
    hr__schema_unref(*s);
    *s = more;
    return HR_OK;
}

static hr_status layout_of(const pack_op *o, const hr_schema *in, hr_pack_layout *l, hr_error *err)
{
    hr_type *int32 = hr__type_simple(HR_T_INT32);
    hr_status st = HR_OK;

    *l = (hr_pack_layout){ .in = hr__schema_ref((hr_schema *)(uintptr_t)in) };
    HR_GO(add_columns(o, l, err));
    HR_GO(hr__schema_new(NULL, 0, &l->out, err));
    for (int i = 0; i < l->n; i++) {
        const hr_field *f = &in->fields[l->columns[i].index];

        HR_GO(add_field(o, &l->out, f->name, token_type(f->type), err));
    }
    HR_GO(add_field(o, &l->out, o->segment_ids, int32, err));
    HR_GO(add_field(o, &l->out, o->position_ids, int32, err));
    HR_GO(add_field(o, &l->out, o->loss_mask, hr__type_simple(HR_T_BOOL), err));
done:
    if (st)
        layout_clear(l);
    return st;
}

static hr_status pack_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    hr_pack_layout l;

    *out = NULL;
    HR_TRY(layout_of((const pack_op *)op, in, &l, err));
    *out = hr__schema_ref(l.out);
    layout_clear(&l);
    return HR_OK;
}

static hr_status pack_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    const pack_op *o = (const pack_op *)op;

    (void)input, (void)wanted, (void)n;
    out->n = o->n_names ? 0 : -1;
    for (int i = 0; i < o->n_names; i++)
        HR_TRY(hr__needs_add(out, o->names[i], err));
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- the state */

static hr_status pack_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    (void)op;
    run->state = hr__zalloc(run->account, sizeof(pack_counts));
    return run->state ? HR_OK : hr__error_memory(err, "pack", sizeof(pack_counts));
}

static void pack_stop(const hr_op *op, hr_op_run *run)
{
    (void)op;
    hr__free(run->state);
    run->state = NULL;
}

static void count(_Atomic int64_t *counter, int64_t n) { atomic_fetch_add_explicit(counter, n, memory_order_relaxed); }

static hr_status state_of(const hr_op *op, hr_task *task, pack_state **out, hr_error *err)
{
    void **slot = hr__task_state(task);

    (void)op;
    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof **out)))
        return hr__error_memory(err, "pack", sizeof **out);
    *out = *slot;
    return HR_OK;
}

static void wait_clear(waiting_marker *w)
{
    hr__marker_drop(w->marker);
    hr__free(w->bins);
    *w = (waiting_marker){ 0 };
}

static void pack_task_clear(const hr_op *op, hr_task *task)
{
    pack_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    hr__pack_rows_clear(&s->rows);
    hr__bins_clear(&s->bins);
    layout_clear(&s->layout);
    wait_clear(&s->wait[0]);
    wait_clear(&s->wait[1]);
    hr__free(s->restored);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* -------------------------------------------------------------------------------------------------- rows that close */

static hr_status emit(pack_state *s, hr_task *task, hr_error *err)
{
    hr_table *t = NULL;

    if (!s->rows.n)
        return HR_OK;
    HR_TRY(hr__pack_rows_finish(&s->rows, &t, err));
    hr__table_claim(t);
    return hr__task_emit(task, &t, err);
}

static hr_status pass(hr_task *task, hr_marker *takes, int64_t row, int64_t skip, const char *bins, hr_error *err)
{
    hr_text text = { 0 };

    hr__text_add(&text, "row=%" PRId64 " skip=%" PRId64 " bins=%s", row, skip, bins);
    if (text.failed) {
        hr__text_clear(&text);
        hr__marker_drop(takes);
        return hr__error_memory(err, "pack", (int64_t)strlen(bins));
    }
    hr__task_pass(task, takes, text.data);
    hr__text_clear(&text);
    return HR_OK;
}

/* Passes markers that no open row precedes, after the output of all closed rows. */
static hr_status pass_waiting(pack_state *s, hr_task *task, hr_error *err)
{
    waiting_marker *w = &s->wait[0];

    while (w->marker && (!s->bins.n || s->bins.open[0]->number > w->last_bin)) {
        hr_marker *m = w->marker;

        HR_TRY(emit(s, task, err));
        w->marker = NULL;
        HR_TRY(pass(task, m, w->row, s->skip + s->bins.n_closed - w->row, w->bins, err));
        wait_clear(w);
        s->wait[0] = s->wait[1];
        s->wait[1] = (waiting_marker){ 0 };
    }
    return HR_OK;
}

static hr_status other_rows(hr_error *err)
{
    return hr_error_set(err, HR_MISMATCH, "pack: the rows are not those that the position was saved with");
}

/* A row is complete. Takes `bin`, which is in no list, even on failure. */
static hr_status close_row(const pack_op *o, pack_state *s, hr_task *task, hr_bin *bin, hr_error *err)
{
    pack_counts *counts = hr__task_run(task)->state;
    hr_status st = HR_OK;

    if (s->skip > 0) {
        s->skip--;
    } else if (!bin->has_tokens) {
        st = other_rows(err);
    } else if (!(st = hr__pack_rows_add(&s->rows, bin, s->bins.n_closed, err))) {
        count(&counts->rows, 1);
        count(&counts->tokens, bin->used);
        count(&counts->padding, o->seq_len - bin->used);
        if (s->rows.n == s->rows.cap)
            st = emit(s, task, err);
    }
    s->bins.n_closed++;
    hr__bins_recycle(&s->bins, bin);
    return st ? st : pass_waiting(s, task, err);
}

static hr_status close_aged(const pack_op *o, pack_state *s, hr_task *task, hr_error *err)
{
    int i;

    while ((i = hr__bins_aged(&s->bins)) >= 0)
        HR_TRY(close_row(o, s, task, hr__bins_take(&s->bins, i), err));
    return HR_OK;
}

static hr_status close_bin(const pack_op *o, pack_state *s, hr_task *task, int i, hr_error *err)
{
    HR_TRY(close_row(o, s, task, hr__bins_take(&s->bins, i), err));
    return close_aged(o, s, task, err);
}

/* -------------------------------------------------------------------------------------------------------- documents */

/* Appends tokens [at, at + n) of a document to the bin. */
static hr_status put(const pack_op *o, pack_state *s, hr_bin *bin, const document *d, int64_t at, int64_t n,
                     hr_error *err)
{
    int64_t n_bos = o->boses != NULL;
    bool bos = n_bos && at == 0, eos = at + n > n_bos + d->n_list;
    int64_t n_list = n - bos - eos;

    for (int i = 0; i < s->layout.n; i++) {
        const hr_pack_column *c = &s->layout.columns[i];
        uint8_t *to = bin->tokens + c->at + bin->used * c->bytes;

        if (bos) {
            memcpy(to, c->bos, (size_t)c->bytes);
            to += c->bytes;
        }
        if (n_list)
            memcpy(to, hr__array_values(d->values[i]) + (d->begin[i] + at + bos - n_bos) * c->bytes,
                   (size_t)(n_list * c->bytes));
        if (eos)
            memcpy(to + n_list * c->bytes, c->eos, (size_t)c->bytes);
    }
    return hr__bin_add_segment(&s->bins, bin, n, err);
}

/* Makes a whole row of one document. */
static hr_status put_row(const pack_op *o, pack_state *s, hr_task *task, const document *d, int64_t at, hr_error *err)
{
    hr_bin *bin = NULL;
    hr_status st;

    HR_TRY(hr__bins_new(&s->bins, &bin, err));
    if ((st = put(o, s, bin, d, at, o->seq_len, err))) {
        hr__bins_recycle(&s->bins, bin);
        return st;
    }
    HR_TRY(close_row(o, s, task, bin, err));
    return close_aged(o, s, task, err);
}

/* Puts tokens [at, at + n) of a document into the bin for them, n < seq_len. */
static hr_status place(const pack_op *o, pack_state *s, hr_task *task, const document *d, int64_t at, int64_t n,
                       hr_error *err)
{
    int i = hr__bins_find(&s->bins, n);
    hr_bin *bin = NULL;

    if (i < 0) {
        if (s->bins.n == s->bins.most)
            HR_TRY(close_bin(o, s, task, hr__bins_fullest(&s->bins), err));
        HR_TRY(hr__bins_open(&s->bins, &bin, err));
        i = s->bins.n - 1;
    }
    bin = s->bins.open[i];
    HR_TRY(put(o, s, bin, d, at, n, err));
    return bin->used == o->seq_len ? close_bin(o, s, task, i, err) : HR_OK;
}

/* Puts tokens from `at` on into the open row, as many as it has room for. */
static hr_status append(const pack_op *o, pack_state *s, hr_task *task, const document *d, int64_t at, int64_t *n,
                        hr_error *err)
{
    hr_bin *bin = NULL;

    if (!s->bins.n)
        HR_TRY(hr__bins_open(&s->bins, &bin, err));
    bin = s->bins.open[0];
    *n = HR_MIN(d->n - at, o->seq_len - bin->used);
    HR_TRY(put(o, s, bin, d, at, *n, err));
    return bin->used == o->seq_len ? close_bin(o, s, task, 0, err) : HR_OK;
}

static hr_status add_document(const pack_op *o, pack_state *s, hr_task *task, document *d, hr_error *err)
{
    pack_counts *counts = hr__task_run(task)->state;
    int64_t at = 0, n = 0;

    if (d->n > o->seq_len && o->overlong == HR_PACK_DROP) {
        count(&counts->dropped, d->n);
        return HR_OK;
    }
    if (d->n > o->seq_len && o->overlong == HR_PACK_TRUNCATE) {
        count(&counts->truncated, d->n - o->seq_len);
        d->n = o->seq_len;
    }
    for (; o->strategy == HR_PACK_CONCAT && at < d->n; at += n)
        HR_TRY(append(o, s, task, d, at, &n, err));
    for (; d->n - at >= o->seq_len; at += o->seq_len)
        HR_TRY(put_row(o, s, task, d, at, err));
    return at < d->n ? place(o, s, task, d, at, d->n - at, err) : HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- markers */

/* Keeps the marker as the newest; the oldest stays. */
static hr_status wait_for_bins(pack_state *s, hr_marker *takes, hr_error *err)
{
    waiting_marker *w = &s->wait[s->wait[0].marker != NULL];
    hr_text bins = { 0 };

    hr__bins_print(&s->bins, &bins);
    if (bins.failed) {
        hr__text_clear(&bins);
        hr__marker_drop(takes);
        return hr__error_memory(err, "pack", 100);
    }
    wait_clear(w);
    *w = (waiting_marker){
        .marker = takes, .bins = bins.data, .row = s->bins.n_closed, .last_bin = s->bins.open[s->bins.n - 1]->number
    };
    return HR_OK;
}

static hr_status pack_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    pack_state *s = NULL;
    hr_status st = state_of(op, task, &s, err);

    if (st) {
        hr__marker_drop(takes);
        return st;
    }
    if (s->bins.n)
        return wait_for_bins(s, takes, err);
    return pass(task, takes, s->bins.n_closed, s->skip, s->restored ? s->restored : "-", err);
}

/* ------------------------------------------------------------------------------------------------------------ input */

/* The lists of column c, and the index of row i among them. */
static const hr_array *lists_of(const hr_table *in, const hr_pack_column *c, int64_t *i)
{
    const hr_array *a = in->columns[c->index];

    if (!hr__type_is_ragged(a->type))
        return a;
    *i += a->offset;
    return a->children[0];
}

static hr_status bad_row(hr_task *task, const hr_table *in, int64_t row, hr_status st, const char *what, hr_error *err)
{
    hr_origin *one = NULL;
    hr_text where = { 0 };

    if (in->origin && !hr__origin_slice(in->origin, row, 1, &one, NULL))
        hr__task_where(task, one, &where);
    st = hr_error_set(err, st, "pack: %s%s%s", what, where.data ? ", " : "", where.data ? where.data : "");
    hr__text_clear(&where);
    hr__origin_unref(one);
    return st;
}

static hr_status other_length(hr_task *task, const hr_table *in, const hr_pack_layout *l, int64_t row, int i,
                              int64_t found, int64_t expected, hr_error *err)
{
    char text[400];

    snprintf(text, sizeof text, "'%.100s' has %" PRId64 " tokens, '%.100s' has %" PRId64,
             l->in->fields[l->columns[0].index].name, expected, l->in->fields[l->columns[i].index].name, found);
    return bad_row(task, in, row, HR_BAD_DATA, text, err);
}

static hr_status null_token(hr_task *task, const hr_table *in, const hr_pack_layout *l, int64_t row, int i,
                            hr_error *err)
{
    char text[200];

    snprintf(text, sizeof text, "a token of '%.100s' is null", l->in->fields[l->columns[i].index].name);
    return bad_row(task, in, row, HR_BAD_DATA, text, err);
}

static bool has_null(const hr_array *values, int64_t begin, int64_t n)
{
    if (!values->buffers[0] || hr__array_null_count(values) == 0)
        return false;
    for (int64_t i = begin; i < begin + n; i++)
        if (hr__array_is_null(values, i))
            return true;
    return false;
}

/* The document of a row. n = 0: it has none. */
static hr_status read_document(const pack_op *o, const pack_state *s, hr_task *task, const hr_table *in, int64_t row,
                               const hr_array **values, int64_t *begin, document *d, hr_error *err)
{
    const hr_pack_layout *l = &s->layout;

    *d = (document){ .values = values, .begin = begin };
    for (int i = 0; i < l->n; i++) {
        int64_t at = row, n = 0;
        const hr_array *lists = lists_of(in, &l->columns[i], &at);

        if (!hr__array_is_null(in->columns[l->columns[i].index], row) && !hr__array_is_null(lists, at))
            hr__array_range(lists, at, &begin[i], &n);
        values[i] = lists->children[0];
        if (i == 0)
            d->n_list = n;
        else if (n != d->n_list)
            return other_length(task, in, l, row, i, n, d->n_list, err);
        if (n && has_null(values[i], begin[i], n))
            return null_token(task, in, l, row, i, err);
    }
    if (d->n_list)
        d->n = d->n_list + (o->boses != NULL) + (o->eoses != NULL);
    return HR_OK;
}

static hr_status add_documents(const pack_op *o, pack_state *s, hr_task *task, const hr_table *in, hr_error *err)
{
    size_t n = (size_t)s->layout.n;
    pack_counts *counts = hr__task_run(task)->state;
    const hr_array **values = hr__zalloc(hr__task_run(task)->account, n * (sizeof *values + sizeof(int64_t)));
    hr_status st = HR_OK;
    document d;

    if (!values)
        return hr__error_memory(err, "pack", (int64_t)(n * sizeof *values));
    for (int64_t row = 0; row < in->n_rows && !hr__task_cancelled(task); row++) {
        HR_GO(read_document(o, s, task, in, row, values, (int64_t *)(void *)(values + n), &d, err));
        if (d.n)
            HR_GO(add_document(o, s, task, &d, err));
        else
            count(&counts->left_out, 1);
    }
done:
    hr__free(values);
    return st;
}

/* Takes the columns from the first table. */
static hr_status begin(const pack_op *o, pack_state *s, hr_task *task, const hr_table *in, hr_error *err)
{
    int64_t n_closed = s->bins.n_closed;
    hr_status st;

    HR_TRY(layout_of(o, in->schema, &s->layout, err));
    s->rows = (hr_pack_rows){
        .layout = &s->layout,
        .mem = hr__task_mem(task),
        .seq_len = o->seq_len,
        .segments = o->segment_ids != NULL,
        .positions = o->position_ids != NULL,
        .mask = o->loss_mask != NULL,
    };
    st = hr__bins_init(&s->bins, hr__task_run(task)->account, o->strategy, o->seq_len, s->layout.row_bytes,
                       o->open_bins, err);
    s->bins.n_closed = n_closed;
    if (!st && s->restored && !hr__bins_parse(&s->bins, s->restored, &st, err) && !st)
        st = hr_error_set(err, HR_BUG, "pack: '%s' was a position before", s->restored);
    hr__free(s->restored);
    s->restored = NULL;
    return st;
}

static hr_status pack_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const pack_op *o = (const pack_op *)op;
    pack_state *s = NULL;
    hr_status st;

    HR_TRY(state_of(op, task, &s, err));
    if (!s->layout.in)
        HR_TRY(begin(o, s, task, in, err));
    if ((st = hr__same_schema(in->schema, s->layout.in, "", err)))
        return hr__error_at(err, st, "pack");
    HR_TRY(add_documents(o, s, task, in, err));
    return emit(s, task, err);
}

static hr_status pack_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    const pack_op *o = (const pack_op *)op;
    pack_counts *counts = hr__task_run(task)->state;
    pack_state *s = *hr__task_state(task);

    if (!s)
        return HR_OK;
    while (s->bins.n && !o->drop_last)
        HR_TRY(close_row(o, s, task, hr__bins_take(&s->bins, 0), err));
    for (int i = 0; i < s->bins.n; i++)
        count(&counts->dropped, s->bins.open[i]->used);
    return s->skip ? other_rows(err) : emit(s, task, err);
}

/* ------------------------------------------------------------------------------------------------------ going on */

/* The text after "bins="; NULL: there is none. */
static const char *bins_in(const char *state)
{
    const char *p = strstr(state, " bins=");

    return p ? p + strlen(" bins=") : NULL;
}

/* Whether the text describes bins: reads it. */
static hr_status check_bins(const pack_op *o, hr_account *account, const char *text, int64_t n_closed, bool *good,
                            hr_error *err)
{
    hr_bins bins = { 0 };
    hr_status st = hr__bins_init(&bins, account, o->strategy, o->seq_len, 0, o->open_bins, err);

    bins.n_closed = n_closed;
    *good = !st && hr__bins_parse(&bins, text, &st, err);
    hr__bins_clear(&bins);
    return st;
}

static hr_status pack_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    const pack_op *o = (const pack_op *)op;
    hr_account *account = hr__task_run(task)->account;
    const char *bins = bins_in(state);
    int64_t row = -1, skip = -1;
    pack_state *s = NULL;
    bool good = bins && hr__state_int(state, "row", &row) && hr__state_int(state, "skip", &skip) && row >= 0 &&
                skip >= 0 && row <= INT64_MAX / 4 && skip <= INT64_MAX / 4;

    if (good)
        HR_TRY(check_bins(o, account, bins, row, &good, err));
    if (!good)
        return hr_error_set(err, HR_INVALID, "pack: '%.200s' is not a position in rows of %" PRId64 " tokens", state,
                            o->seq_len);
    HR_TRY(state_of(op, task, &s, err));
    s->bins.n_closed = row;
    s->skip = skip;
    if (bins[0] != '-' && !(s->restored = hr__strndup(account, bins, strcspn(bins, " "))))
        return hr__error_memory(err, "pack", (int64_t)strlen(bins));
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static const char *const strategies[] = { "concat", "first_fit", "best_fit" };

static int64_t pack_floor(const hr_op *op)
{
    const pack_op *o = (const pack_op *)op;

    return (o->open_bins + 2) * o->row_bytes;
}

static void pack_describe(const hr_op *op, hr_text *out)
{
    const pack_op *o = (const pack_op *)op;

    hr__text_add(out, "pack(%" PRId64 ", %s", o->seq_len, strategies[o->strategy]);
    if (o->strategy != HR_PACK_CONCAT)
        hr__text_add(out, ", %d open bins", o->open_bins);
    hr__text_add(out, ")");
}

static void pack_stats(const hr_op *op, const hr_op_run *run, hr_text *out)
{
    const pack_counts *c = run->state;
    int64_t tokens, padding;

    (void)op;
    if (!c)
        return;
    tokens = atomic_load_explicit(&c->tokens, memory_order_relaxed);
    padding = atomic_load_explicit(&c->padding, memory_order_relaxed);
    hr__text_add(out, ",\"tokens\":%" PRId64 ",\"padding_tokens\":%" PRId64 ",\"padding_rate\":%.6f", tokens, padding,
                 tokens + padding ? (double)padding / (double)(tokens + padding) : 0.0);
    hr__text_add(out, ",\"truncated_tokens\":%lld,\"dropped_tokens\":%lld,\"empty_documents\":%lld",
                 (long long)atomic_load_explicit(&c->truncated, memory_order_relaxed),
                 (long long)atomic_load_explicit(&c->dropped, memory_order_relaxed),
                 (long long)atomic_load_explicit(&c->left_out, memory_order_relaxed));
}

static void hash_values(hr_hash *h, const int64_t *values, int n)
{
    hr__hash_int(h, values ? n : -1);
    for (int i = 0; values && i < n; i++)
        hr__hash_int(h, values[i]);
}

static void pack_fingerprint(const hr_op *op, hr_hash *h)
{
    const pack_op *o = (const pack_op *)op;
    int n_values = HR_MAX(o->n_names, 1);

    hr__hash_int(h, 1); /* the version of the packing: a position resumes with its own version */
    hr__hash_int(h, o->seq_len);
    hr__hash_int(h, o->strategy);
    hr__hash_int(h, o->overlong);
    hr__hash_int(h, o->open_bins);
    hr__hash_int(h, o->drop_last);
    hr__hash_int(h, o->n_names);
    for (int i = 0; i < o->n_names; i++)
        hr__hash_text(h, o->names[i]);
    hash_values(h, o->pads, n_values);
    hash_values(h, o->boses, n_values);
    hash_values(h, o->eoses, n_values);
    hr__hash_text(h, o->segment_ids);
    hr__hash_text(h, o->position_ids);
    hr__hash_text(h, o->loss_mask);
}

static void pack_free(hr_op *op)
{
    pack_op *o = (pack_op *)op;

    for (int i = 0; i < o->n_names; i++)
        hr__free(o->names[i]);
    hr__free(o->names);
    hr__free(o->pads);
    hr__free(o->boses);
    hr__free(o->eoses);
    hr__free(o->segment_ids);
    hr__free(o->position_ids);
    hr__free(o->loss_mask);
    hr__free(o);
}

static const hr_op_class pack_class = {
    .name = "pack",
    .doc = "documents of tokens as rows of one length",
    .kind = HR_OP_STREAM,
    .new_rows = true,
    .schema = pack_schema,
    .needs = pack_needs,
    .start = pack_start,
    .stop = pack_stop,
    .push = pack_push,
    .finish = pack_finish,
    .task_clear = pack_task_clear,
    .marker = pack_marker,
    .restore = pack_restore,
    .reads_bytes = READ_BYTES,
    .floor_bytes = pack_floor,
    .describe = pack_describe,
    .stats = pack_stats,
    .fingerprint = pack_fingerprint,
    .free = pack_free,
};

static hr_status check_options(int64_t seq_len, const hr_pack_options *p, hr_error *err)
{
    if (seq_len < 1 || seq_len > MAX_SEQ_LEN)
        return hr_error_set(err, HR_INVALID, "pack: rows of %" PRId64 " tokens; expected 1 to %d", seq_len,
                            MAX_SEQ_LEN);
    if ((unsigned)p->strategy > HR_PACK_BEST_FIT)
        return hr_error_set(err, HR_INVALID, "pack: strategy %d, expected 0 to %d", (int)p->strategy, HR_PACK_BEST_FIT);
    if ((unsigned)p->long_documents > HR_PACK_DROP)
        return hr_error_set(err, HR_INVALID, "pack: long_documents %d, expected 0 to %d", (int)p->long_documents,
                            HR_PACK_DROP);
    if (p->open_bins < 0 || p->open_bins > MAX_BINS)
        return hr_error_set(err, HR_INVALID, "pack: %d open bins, expected 1 to %d, or 0 for %d", p->open_bins,
                            MAX_BINS, DEFAULT_BINS);
    if (p->n_columns < 0 || (p->columns != NULL) != (p->n_columns > 0))
        return hr_error_set(err, HR_INVALID, "pack: %d columns%s", p->n_columns, p->columns ? "" : " without names");
    for (int i = 0; i < p->n_columns; i++)
        if (!p->columns[i])
            return hr_error_set(err, HR_INVALID, "pack: the name of column %d is NULL", i);
    return HR_OK;
}

static hr_status copy_values(const int64_t *from, int n, int64_t **out, hr_error *err)
{
    if (!from)
        return HR_OK;
    if (!(*out = hr__alloc(NULL, (size_t)n * sizeof **out)))
        return hr__error_memory(err, "pack", n * (int64_t)sizeof **out);
    memcpy(*out, from, (size_t)n * sizeof **out);
    return HR_OK;
}

/* name NULL: the default, which may be NULL; "": none. */
static hr_status copy_name(const char *name, const char *normal, char **out, hr_error *err)
{
    name = name ? name : normal;
    if (name && *name && !(*out = hr__strdup(NULL, name)))
        return hr__error_memory(err, "pack", (int64_t)strlen(name));
    return HR_OK;
}

static hr_status copy_arguments(pack_op *o, const hr_pack_options *p, hr_error *err)
{
    int n_values = HR_MAX(p->n_columns, 1);

    if (!(o->names = hr__zalloc(NULL, (size_t)n_values * sizeof *o->names)))
        return hr__error_memory(err, "pack", n_values * (int64_t)sizeof *o->names);
    for (; o->n_names < p->n_columns; o->n_names++)
        if (!(o->names[o->n_names] = hr__strdup(NULL, p->columns[o->n_names])))
            return hr__error_memory(err, "pack", 100);
    HR_TRY(copy_values(p->pad, n_values, &o->pads, err));
    HR_TRY(copy_values(p->bos, n_values, &o->boses, err));
    HR_TRY(copy_values(p->eos, n_values, &o->eoses, err));
    HR_TRY(copy_name(p->segment_ids, "segment_ids", &o->segment_ids, err));
    HR_TRY(copy_name(p->position_ids, "position_ids", &o->position_ids, err));
    return copy_name(p->loss_mask, NULL, &o->loss_mask, err);
}

/* Checks the columns against the schema, if known, and sets the bytes of a row. */
static hr_status resolve(pack_op *o, const hr_schema *schema, hr_error *err)
{
    hr_pack_layout l = { 0 };
    hr_status st = HR_OK;

    o->row_bytes = o->seq_len * 8 * HR_MAX(o->n_names, 1);
    if (!schema)
        return HR_OK;
    HR_TRY(layout_of(o, schema, &l, err));
    o->row_bytes = l.row_bytes;
    if (!o->n_names) {
        char **names = hr__zalloc(NULL, (size_t)l.n * sizeof *names);

        if (!names)
            HR_GO(hr__error_memory(err, "pack", l.n * (int64_t)sizeof *names));
        hr__free(o->names);
        o->names = names;
        for (; o->n_names < l.n; o->n_names++)
            if (!(names[o->n_names] = hr__strdup(NULL, schema->fields[l.columns[o->n_names].index].name)))
                HR_GO(hr__error_memory(err, "pack", 100));
    }
done:
    layout_clear(&l);
    return st;
}

hr_status hr__op_pack(const hr_schema *schema, int64_t seq_len, const hr_pack_options *options, hr_op **out,
                      hr_error *err)
{
    pack_op *o = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(check_options(seq_len, options, err));
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "pack", sizeof *o);
    hr__op_init(&o->base, &pack_class);
    o->seq_len = seq_len;
    o->strategy = options->strategy;
    o->overlong = options->long_documents;
    o->open_bins = o->strategy == HR_PACK_CONCAT ? 1 : options->open_bins ? options->open_bins : DEFAULT_BINS;
    o->drop_last = options->drop_last;
    if (!(st = copy_arguments(o, options, err)))
        st = resolve(o, schema, err);
    if (st) {
        pack_free(&o->base);
        return st;
    }
    *out = &o->base;
    return HR_OK;
}
