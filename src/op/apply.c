/* apply.c - a function that runs elsewhere: in worker processes, in Python threads, or in the consumer's own.
 *
 * Rows are cut into batches as for map.c: pieces of the source, or each table as it is. A few batches at a time become a
 * group of calls, the task is suspended, and the thread goes on with other tickets; when the group is complete, `resumed`
 * emits the results by the order of the batches and submits the next group. A push of many rows thus gives its first results
 * soon, and never holds the results of more than a group: they may be a thousand times larger than what went in. How many
 * servers there are, and how fast each is, decides nothing but time.
 *
 * A filter's function says which rows to keep, and what goes on are the input's own columns: its rows need not travel back. */
#include "op/calls.h"

#include <inttypes.h>

#define PIECE_ROWS 4096
#define MIN_GROUP 2 /* calls: what one server has in hand, and one more */
#define MAX_GROUP 16

typedef struct apply_op {
    hr_op base;
    hr_calls *calls;
    hr_function rules; /* name and schema are owned */
    char *name;
    char *qualified;
    bool as_is;
    int64_t piece_rows, piece_bytes;
    bool filter;
    bool inline_calls;
} apply_op;

typedef struct apply_task {
    hr_pieces *pieces;
    hr_call_group *group; /* what is waited for; NULL: nothing */
    bool last;            /* the ticket has no more input */
} apply_task;

/* ---------------------------------------------------------------------------------------------------- runs and tasks */

static hr_status apply_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    if (!(run->state = hr__zalloc(run->account, sizeof(hr_calls_run))))
        return hr__error_memory(err, ((const apply_op *)op)->name, sizeof(hr_calls_run));
    return HR_OK;
}

static void apply_cancel(const hr_op *op, hr_op_run *run)
{
    if (run->state)
        hr__calls_run_cancel(((const apply_op *)op)->calls, run->state);
}

static void apply_stop(const hr_op *op, hr_op_run *run)
{
    (void)op;
    hr__free(run->state);
    run->state = NULL;
}

static hr_status apply_task_of(const apply_op *a, hr_task *task, apply_task **out, hr_error *err)
{
    void **slot = hr__task_state(task);

    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof **out)))
        return hr__error_memory(err, a->name, sizeof **out);
    *out = *slot;
    return HR_OK;
}

static void apply_task_clear(const hr_op *op, hr_task *task)
{
    apply_task *t = *hr__task_state(task);

    (void)op;
    if (!t)
        return;
    hr__pieces_free(t->pieces);
    hr__group_free(t->group);
    hr__free(t);
    *hr__task_state(task) = NULL;
}

/* ------------------------------------------------------------------------------------------------ batches into calls */

/* The random bits are made of the batch's first coordinate and not of its ordinal: the former is the same after a resume
 * whether or not anybody counted the batches before. */
static hr_call_place place_of(hr_task *task, const hr_table *in, int64_t ordinal)
{
    const hr_op_run *run = hr__task_run(task);
    hr_call_place p;
    hr_bits128 key;
    hr_hash h;

    memset(&p, 0, sizeof p); /* it travels as it is, padding and all */
    p.seed = run->seed;
    p.epoch = run->epoch;
    p.op_index = run->index;
    p.ordinal = ordinal;
    p.begin = in->origin ? hr__origin_at(in->origin, 0) : hr__task_begin(task);
    hr__hash_init(&h, 0);
    hr__hash_int(&h, p.op_index);
    hr__hash_add(&h, &p.begin, sizeof p.begin);
    key = hr__hash_end(&h);
    p.random = hr__random_bits(p.seed, (uint64_t)p.epoch, key.hi, key.lo).lo;
    return p;
}

/* Input for worker processes is put into their arena here, on a pool thread: sending it is then a matter of a few hundred
 * bytes, which the poller's only thread can do for all. */
static hr_status add_call(const apply_op *a, hr_task *task, apply_task *t, hr_table *in, int64_t ordinal, hr_error *err)
{
    const hr_mem mem = { hr__task_run(task)->account, hr__calls_arena(a->calls) };
    hr_call_place place = place_of(task, in, ordinal);
    hr_status st = HR_OK;
    hr_table *copy = NULL;

    if (!t->group)
        HR_GO(hr__group_new(a->calls, mem.account, &t->group, err));
    if (mem.arena && !hr__table_in_arena(in, mem.arena))
        HR_GO(hr__table_concat(&mem, in->schema, &in, 1, &copy, err));
    HR_GO(hr__group_add(t->group, copy ? copy : in, &place, err));
done:
    hr_table_unref(copy);
    return st;
}

/* The next group of complete pieces; none: no group. */
static hr_status add_pieces(const apply_op *a, hr_task *task, apply_task *t, hr_error *err)
{
    int n_max = HR_MAX(MIN_GROUP, HR_MIN(MAX_GROUP, 2 * hr__calls_n_servers(a->calls)));

    while (!t->group || t->group->n < n_max) {
        hr_table *piece = NULL;
        int64_t ordinal;
        hr_status st;

        HR_TRY(hr__pieces_next(t->pieces, t->last, &piece, &ordinal, err));
        if (!piece)
            return HR_OK;
        st = add_call(a, task, t, piece, ordinal, err);
        hr_table_unref(piece);
        HR_TRY(st);
    }
    return HR_OK;
}

/* Suspends the task until its group is complete. */
static hr_status submit(const apply_op *a, hr_task *task, apply_task *t, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);

    if (!t->group)
        return HR_OK;
    HR_TRY(hr__task_suspend(task, &t->group->resume, err));
    hr__group_submit(t->group, run->state);
    if (a->inline_calls && run->notify)
        run->notify(run->notify_context);
    return HR_PENDING;
}

static hr_status apply_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = NULL;

    if (in->n_rows == 0)
        return HR_OK;
    HR_TRY(apply_task_of(a, task, &t, err));
    if (a->as_is) {
        HR_TRY(add_call(a, task, t, (hr_table *)in, hr__task_ordinal(task), err));
    } else {
        const hr_mem mem = { hr__task_run(task)->account, hr__calls_arena(a->calls) };

        if (!t->pieces)
            HR_TRY(hr__pieces_new(a->piece_rows, a->piece_bytes, &mem, &t->pieces, err));
        HR_TRY(hr__pieces_add(t->pieces, in, err));
        HR_TRY(add_pieces(a, task, t, err));
    }
    return submit(a, task, t, err);
}

static hr_status apply_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = *hr__task_state(task);

    if (!t || !t->pieces)
        return HR_OK;
    t->last = true;
    HR_TRY(add_pieces(a, task, t, err));
    return submit(a, task, t, err);
}

/* ---------------------------------------------------------------------------------------------------- results into rows */

/* Unpacks one result of a filter behind the `n` rows that are known; -> how many are now, -1: it is not what it should be. */
static int64_t unpack_keep(const hr_table *found, uint8_t *keep, int64_t n, int64_t n_rows)
{
    const hr_array *a = found->schema->n == 1 ? found->columns[0] : NULL;

    if (!a || a->type->id != HR_T_BOOL || n + found->n_rows > n_rows)
        return -1;
    for (int64_t i = 0; i < found->n_rows; i++)
        keep[n + i] = !hr__array_is_null(a, i) && hr__bit(a->buffers[1]->data, a->offset + i);
    return n + found->n_rows;
}

static hr_status emit_kept(const apply_op *a, hr_task *task, const hr_call *call, hr_error *err)
{
    const hr_table *in = call->input;
    uint8_t *keep = hr__alloc(hr__task_run(task)->account, (size_t)in->n_rows);
    hr_status st = HR_OK;
    hr_table *out = NULL;
    int64_t n = 0;

    if (!keep) {
        st = hr__error_memory(err, a->name, in->n_rows);
        goto done;
    }
    for (int64_t i = 0; i < call->n_results && n >= 0; i++)
        n = unpack_keep(call->results[i], keep, n, in->n_rows);
    if (n != in->n_rows)
        HR_FAIL(HR_CALLBACK, "%s: did not give one boolean for each of %" PRId64 " rows", a->name, in->n_rows);
    HR_GO(hr__table_keep(hr__task_mem(task), in, keep, &out, err));
    if (out)
        HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(out);
    hr__free(keep);
    return st;
}

static hr_status emit_results(const apply_op *a, hr_task *task, const hr_call *call, hr_error *err)
{
    int64_t n_rows = 0;

    for (int64_t i = 0; i < call->n_results; i++)
        n_rows += call->results[i]->n_rows;
    HR_TRY(hr__function_rows(&a->rules, call->input, n_rows, err));
    n_rows = 0;
    for (int64_t i = 0; i < call->n_results; i++) {
        hr_table *found = call->results[i], *out = NULL;

        if (found->n_rows == 0)
            continue;
        HR_TRY(hr__function_result(&a->rules, call->input, n_rows, found, &out, err));
        n_rows += found->n_rows;
        HR_TRY(hr__task_emit(task, &out, err));
    }
    return HR_OK;
}

static hr_status apply_resumed(const hr_op *op, hr_task *task, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = *hr__task_state(task);
    hr_call_group *g = t->group;
    hr_status st = HR_OK;

    t->group = NULL;
    for (int i = 0; i < g->failed; i++)
        HR_GO(a->filter ? emit_kept(a, task, g->items[i], err) : emit_results(a, task, g->items[i], err));
    if (g->failed < g->n) {
        hr__error_move(err, &g->err);
        st = hr__function_failed(a->name, g->st, err);
    } else if (t->pieces)
        hr__task_more(task); /* the next group, when these results have gone on */
done:
    hr__group_free(g);
    return st;
}

static hr_status apply_more(const hr_op *op, hr_task *task, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = *hr__task_state(task);

    HR_TRY(add_pieces(a, task, t, err));
    return submit(a, task, t, err);
}

/* ------------------------------------------------------------------------------------------------------ the operator */

static hr_status apply_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;

    (void)err;
    *out = hr__schema_ref(a->filter ? (hr_schema *)in : a->rules.schema);
    return HR_OK;
}

static void apply_describe(const hr_op *op, hr_text *out) { hr__text_add(out, "%s", ((const apply_op *)op)->name); }

static void apply_fingerprint(const hr_op *op, hr_hash *h)
{
    const apply_op *a = (const apply_op *)op;

    hr__hash_text(h, a->name);
    hr__hash_text(h, a->qualified);
    hr__hash_int(h, a->as_is);
    hr__hash_int(h, a->as_is ? 0 : a->piece_rows);
    hr__hash_int(h, a->as_is ? 0 : a->piece_bytes);
    hr__hash_int(h, op->one_to_one);
    hr__hash_int(h, a->filter);
}

static void apply_free(hr_op *op)
{
    apply_op *a = (apply_op *)op;

    hr__calls_unref(a->calls);
    hr__schema_unref(a->rules.schema);
    hr__free(a->name);
    hr__free(a->qualified);
    hr__free(a);
}

const hr_op_class hr__apply = {
    .name = "apply",
    .doc = "a function over tables, in other processes or Python threads",
    .kind = HR_OP_MAP,
    .schema = apply_schema,
    .start = apply_start,
    .cancel = apply_cancel,
    .stop = apply_stop,
    .push = apply_push,
    .resumed = apply_resumed,
    .more = apply_more,
    .finish = apply_finish,
    .task_clear = apply_task_clear,
    .describe = apply_describe,
    .fingerprint = apply_fingerprint,
    .free = apply_free,
};

hr_status hr__op_calls(hr_calls *calls, const hr_calls_options *o, hr_op **out, hr_error *err)
{
    hr_status st = HR_OK;
    const char *name = o->name ? o->name : "function";
    apply_op *a = NULL;
    hr_schema *schema = NULL;

    *out = NULL;
    if (o->schema)
        HR_GO(hr__schema_import(o->schema, &schema, err));
    if (o->piece_rows < 0 || o->piece_bytes < 0)
        HR_FAIL(HR_INVALID, "%s: pieces of %" PRId64 " rows, %" PRId64 " bytes", name, o->piece_rows, o->piece_bytes);
    if (!(a = hr__zalloc(NULL, sizeof *a)) || !(a->name = hr__strdup(NULL, name)) ||
        (o->qualified && !(a->qualified = hr__strdup(NULL, o->qualified)))) {
        st = hr__error_memory(err, name, sizeof *a);
        goto done;
    }
    hr__op_init(&a->base, &hr__apply);
    a->base.one_to_one = o->one_to_one && !o->filter;
    a->calls = hr__calls_ref(calls);
    a->rules = (hr_function){ a->name, schema, a->base.one_to_one };
    a->as_is = o->batch_rows != 0;
    a->piece_rows = o->piece_rows ? o->piece_rows : PIECE_ROWS;
    a->piece_bytes = o->piece_bytes;
    a->base.piece_rows = a->as_is ? 0 : a->piece_rows;
    a->filter = o->filter;
    a->inline_calls = o->inline_calls;
    *out = &a->base;
    return HR_OK;
done:
    hr__schema_unref(schema);
    if (a)
        hr__free(a->name);
    hr__free(a);
    return st;
}

hr_arena *hr__op_input_arena(const hr_op *op)
{
    return op->cls == &hr__apply ? hr__calls_arena(((const apply_op *)op)->calls) : NULL;
}
