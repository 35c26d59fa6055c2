/* slice.c - rows [begin, end) of the input. A stream operator, since the numbers of rows depend on the order.
 *
 * A reader that knows the rows of its fragments leaves out those before `begin` itself (rules.c, take.c), and sets
 * their number (hr_op_run.skipped_rows) before the first row or marker. */
#include "op/operators.h"

#include <inttypes.h>

typedef struct slice_op {
    hr_op base;
    int64_t begin, end;
} slice_op;

typedef struct slice_state {
    int64_t at; /* number of the next input row */
} slice_state;

static hr_status slice_state_of(hr_task *task, slice_state **out, hr_error *err)
{
    void **slot = hr__task_state(task);
    slice_state *s = *slot;

    if (!s) {
        if (!(s = *slot = hr__zalloc(hr__task_run(task)->account, sizeof *s)))
            return hr__error_memory(err, "slice", sizeof *s);
        s->at = atomic_load(&hr__task_run(task)->skipped_rows);
    }
    *out = s;
    return HR_OK;
}

static hr_status slice_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const slice_op *o = (const slice_op *)op;
    slice_state *s = NULL;
    hr_table *part = NULL;
    int64_t from, to;

    HR_TRY(slice_state_of(task, &s, err));
    from = HR_MIN(HR_MAX(o->begin - s->at, 0), in->n_rows);
    to = HR_MAX(from, HR_MIN(o->end - s->at, in->n_rows));
    s->at += in->n_rows;
    if (from < to) {
        HR_TRY(hr_table_slice(in, from, to - from, &part, err));
        HR_TRY(hr__task_emit(task, &part, err));
    }
    if (s->at >= o->end)
        hr__task_enough(task);
    return HR_OK;
}

static hr_status slice_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    slice_state *s = NULL;
    hr_status st = slice_state_of(task, &s, err);

    (void)op;
    if (st) {
        hr__marker_drop(takes);
        return st;
    }
    hr__task_pass_int(task, takes, "at", s->at);
    return HR_OK;
}

static hr_status slice_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    slice_state *s = NULL;
    int64_t at = -1;

    if (!hr__state_int(state, "at", &at))
        return hr_error_set(err, HR_INVALID, "slice: '%s' is not a position in a range of rows", state);
    HR_TRY(slice_state_of(task, &s, err));
    s->at = at;
    if (at >= ((const slice_op *)op)->end)
        hr__task_enough(task);
    return HR_OK;
}

static void slice_describe(const hr_op *op, hr_text *out)
{
    const slice_op *o = (const slice_op *)op;

    if (o->end == INT64_MAX)
        hr__text_add(out, "slice(%" PRId64 ":)", o->begin);
    else
        hr__text_add(out, "slice(%" PRId64 ":%" PRId64 ")", o->begin, o->end);
}

static void slice_fingerprint(const hr_op *op, hr_hash *h)
{
    hr__hash_int(h, ((const slice_op *)op)->begin);
    hr__hash_int(h, ((const slice_op *)op)->end);
}

static const hr_op_class slice_class = {
    .name = "slice",
    .doc = "rows from one number to another",
    .kind = HR_OP_STREAM,
    .schema = hr__kept_schema,
    .needs = hr__same_needs,
    .push = slice_push,
    .marker = slice_marker,
    .restore = slice_restore,
    .describe = slice_describe,
    .fingerprint = slice_fingerprint,
    .free = hr__op_plain_free,
};

hr_status hr__op_slice(int64_t begin, int64_t end, hr_op **out, hr_error *err)
{
    slice_op *o;

    *out = NULL;
    if (begin < 0 || end < begin)
        return hr_error_set(err, HR_INVALID, "slice: rows %" PRId64 " to %" PRId64, begin, end);
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "slice", sizeof *o);
    hr__op_init(&o->base, &slice_class);
    o->begin = begin;
    o->end = end;
    o->base.cuts = true;
    o->base.cut_begin = begin;
    o->base.cut_end = end < INT64_MAX ? end : -1;
    *out = &o->base;
    return HR_OK;
}
