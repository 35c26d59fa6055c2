/* apply.c - the operator whose function runs in worker processes, Python threads or the consumer's thread.
 *
 * Rows are cut into batches: of the source as for map.c, each table as it is, or groups (groups.c). One call is one
 * batch, or several short ones. A few calls become a call set; then the task is suspended, and the thread goes on with
 * other tickets. `resumed` emits results in the order of the batches (a generator's as they come, others when the
 * earlier calls are done) and submits the next set. So a push of many rows gives its first results soon and holds the
 * results of one set at most. The number of servers, their speed and the number of batches per call decide only the
 * time: each batch has its own random bits, and results have the coordinates of their batch.
 *
 * The function's first table in canonical order defines its columns (first_columns.c): until it is known, only the
 * first ticket emits. Positions contain these columns, since a resumed run sees another table first. A function that
 * makes one column from others (call_columns.c) gets only those; the other columns wait here for the result. A filter's
 * function returns which rows to keep, and the operator emits the input's own rows.
 *
 * A class with one instance sees its batches in the order of the rows (turns.c): the operator reports when all calls of
 * a ticket are submitted. The rows of finish() come last, in the stage's last ticket. The instance's state is saved
 * before the first batch after a marker; a marker whose ticket has no batch is dropped.
 *
 * Tests: test_calls.c, test_process.c, test_compute_matrix.py. */
#include "op/call/calls.h"
#include "share/exchange_arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK_ROWS 4096
#define MIN_CALLS 2                     /* calls: the one that a server runs, and one more */
#define FIRST_BYTES (8 << 20)           /* of a call whose results nobody has seen */
#define CALL_NS (2 * INT64_C(1000000))  /* batches of this total duration (estimated) make one call */
#define GROUPS_NS (10 * CALL_NS)        /* the same for groups, of which many may be small */
#define SAVE_NS (10 * INT64_C(1000000)) /* a state may have 1 MiB, so that it is not saved before each call */
#define GROUPED_ROWS 4096               /* rows of the groups in one call, about */
#define GROUPED_BATCHES 2048

typedef struct apply_op {
    hr_op base;
    hr_calls *calls;
    hr_function rules; /* name and schema are owned */
    char *name;
    char *qualified;
    bool as_is;
    int64_t block_rows, batch_bytes;
    int64_t max_batches, max_errored;
    char **keys; /* of groups; NULL: none */
    int n_keys;
    hr_call_columns columns;
    hr_calls_class of_class;
    bool filter;
    bool inline_calls;
    bool shows_doubles;
    int64_t pieces, piece_bytes; /* of hr_served */
} apply_op;

typedef struct apply_task {
    hr_batch_cutter *cutter;
    hr_groups *groups;
    hr_call_set *set;        /* the call set that the task waits for; NULL: none */
    bool last;               /* the ticket has no more input */
    bool complete;           /* all input is in calls */
    bool turn_done;          /* all calls are submitted, and the queue knows */
    bool finishing;          /* the call of finish() is among them */
    hr_call *saves;          /* the call that saves the state for the marker; NULL: none, or done. Only for comparing */
    int64_t n_calls;         /* so far */
    int64_t *batch_rows_out; /* rows that each batch of the current call has given */
    int64_t at_batch;        /* the last batch that gave rows */
    uint8_t *keep;           /* a filter's: which rows of the current call to keep; n_kept are known */
    int64_t n_kept;
} apply_task;

/* --------------------------------------------------------------------------------------------------- runs and tasks */

static hr_status apply_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;

    if (!(run->state = hr__zalloc(run->account, sizeof(hr_calls_run))))
        return hr__error_memory(err, a->name, sizeof(hr_calls_run));
    hr__calls_run_begin(a->calls, run->state, &a->of_class);
    return HR_OK;
}

/* "<bytes>:<columns><state of the instance>" */
static void apply_remember(const hr_op *op, const hr_op_run *run, const char *state, hr_text *out)
{
    const hr_calls_run *r = run->state;
    bool settled = atomic_load_explicit(&run->settled, memory_order_acquire);
    const char *columns = settled && r->first.remembered.text ? r->first.remembered.text : "";

    (void)op;
    if (*columns || state)
        hr__text_add(out, "%zu:%s%s", strlen(columns), columns, state ? state : "");
}

static hr_status apply_restore(const hr_op *op, hr_op_run *run, const char *state, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    hr_calls_run *r = run->state;
    char *columns = NULL;
    unsigned long n = strtoul(state, &columns, 10);
    bool known = false;

    if (*columns++ != ':' || n > strlen(columns))
        return hr_error_set(err, HR_INVALID, "position: the state of %s is damaged", a->name);
    if (n && !run->other_code)
        HR_TRY(hr__first_columns_recall(&r->first, columns, (int64_t)n, &known, err));
    if (known)
        atomic_store_explicit(&run->settled, true, memory_order_release);
    return columns[n] ? hr__calls_run_restore(a->calls, r, columns + n, err) : HR_OK;
}

static void apply_cancel(const hr_op *op, hr_op_run *run)
{
    if (run->state)
        hr__calls_run_cancel(((const apply_op *)op)->calls, run->state);
}

static void apply_stop(const hr_op *op, hr_op_run *run)
{
    if (run->state) {
        hr__calls_run_end(((const apply_op *)op)->calls, run->state);
        hr__first_columns_clear(&((hr_calls_run *)run->state)->first);
    }
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
    hr__batch_cutter_free(t->cutter);
    hr__groups_free(t->groups);
    hr__call_set_free(t->set);
    hr__free(t->batch_rows_out);
    hr__free(t->keep);
    hr__free(t);
    *hr__task_state(task) = NULL;
}

/* ----------------------------------------------------------------------------------------------- batches into calls */

/* The random bits depend on the batch's first coordinate, not on its ordinal: after a resume the coordinate is the
 * same, whether or not earlier batches were counted. */
static hr_call_place place_of(hr_task *task, const hr_table *in, int64_t row, int64_t ordinal)
{
    const hr_op_run *run = hr__task_run(task);
    hr_call_place p;
    hr_bits128 key;
    hr_hash h;

    memset(&p, 0, sizeof p); /* it is sent as bytes, padding included */
    p.run = ((const hr_calls_run *)run->state)->id;
    p.seed = run->seed;
    p.epoch = run->epoch;
    p.op_index = run->index;
    p.ordinal = ordinal;
    p.limit_bytes = hr__account_limit(run->account);
    p.begin = in->origin ? hr__origin_at(in->origin, row) : hr__task_begin(task);
    hr__hash_init(&h, 0);
    hr__hash_int(&h, p.op_index);
    hr__hash_add(&h, &p.begin, sizeof p.begin);
    key = hr__hash_end(&h);
    p.random = hr__random_bits(p.seed, (uint64_t)p.epoch, key.hi, key.lo).lo;
    return p;
}

/* Memory for batches that are made of several tables: the reader's, if there is only one reader. */
static hr_mem batch_mem(const apply_op *a, hr_task *task)
{
    return (hr_mem){ hr__task_run(task)->account, a->columns.made ? NULL : hr__calls_arena(a->calls) };
}

/* Whether the next call, which begins with the batch of this number, is to save the state of the instance: the ticket's
 * first call if a marker lies before it; where tickets are single batches, and in the middle of a ticket, if the last
 * state is not from just now. */
static bool saves_now(const apply_op *a, hr_task *task, const apply_task *t, int64_t ordinal)
{
    hr_calls_run *run = hr__task_run(task)->state;
    int64_t now = hr__clock_ns(), last = atomic_load_explicit(&run->saved_ns, memory_order_relaxed);

    if (!a->of_class.saves || t->finishing ||
        (t->n_calls == 0 ? !hr__task_marked(task) : !t->cutter || !hr__batch_begins_block(ordinal)))
        return false;
    if ((t->n_calls > 0 || a->as_is) && last && now - last < SAVE_NS)
        return false;
    atomic_store_explicit(&run->saved_ns, now, memory_order_relaxed);
    return true;
}

static uint32_t flags_of(const apply_op *a, hr_task *task, const apply_task *t, int64_t ordinal)
{
    uint32_t flags = a->of_class.at_a_time ? HR_CALL_IN_ORDER : 0;

    if (saves_now(a, task, t, ordinal))
        flags |= HR_CALL_SAVE;
    else if (a->of_class.saves && t->n_calls == 0 && hr__task_marked(task))
        hr__task_save(task, NULL);
    return flags | (t->finishing ? HR_CALL_LAST : 0);
}

/* Copies input for worker processes into their arena here, on a pool thread: sending it then takes a few hundred bytes,
 * which one poller thread can do for all. Takes batches, whose rows and ordinals are set. */
static hr_status add_call(const apply_op *a, hr_task *task, apply_task *t, hr_table *whole, hr_batch_place *batches,
                          int64_t n_batches, hr_error *err)
{
    const hr_mem mem = { hr__task_run(task)->account, hr__calls_arena(a->calls) };
    hr_call_place place = place_of(task, whole, 0, batches[0].ordinal);
    int64_t row = 0;
    hr_status st = HR_OK;
    hr_table *in = whole, *some = NULL, *copy = NULL;

    place.flags = flags_of(a, task, t, batches[0].ordinal);
    for (int64_t i = 0; i < n_batches; i++) {
        batches[i].random = place_of(task, in, row, batches[i].ordinal).random;
        row += batches[i].n_rows;
    }
    if (!t->set)
        HR_GO(hr__call_set_new(a->calls, mem.account, &t->set, err));
    if (a->columns.made) {
        HR_GO(hr__call_columns_input(&a->columns, whole, &some, err));
        in = some;
    }
    if (mem.arena && !hr__table_in_arena(in, mem.arena))
        HR_GO(hr__table_concat(&mem, in->schema, &in, 1, &copy, err));
    st = hr__call_set_add(t->set, copy ? copy : in, some ? whole : NULL, &place, batches, n_batches,
                          hr__task_turn(task), t->n_calls++, err);
    batches = NULL;
    if (!st && (place.flags & HR_CALL_SAVE) && t->n_calls == 1)
        t->saves = t->set->items[t->set->n - 1];
done:
    hr__free(batches);
    hr_table_unref(some);
    hr_table_unref(copy);
    return st;
}

static hr_status add_table(const apply_op *a, hr_task *task, apply_task *t, const hr_table *in, hr_error *err)
{
    hr_batch_place *batch = hr__zalloc(NULL, sizeof *batch);

    if (!batch)
        return hr__error_memory(err, a->name, sizeof *batch);
    batch->n_rows = in->n_rows;
    batch->ordinal = hr__task_ordinal(task);
    return add_call(a, task, t, (hr_table *)in, batch, 1, err);
}

/* The number of batches for the next call: few enough that no batch waits long for the others. ns: of a batch. */
static int64_t batches_in(const apply_op *a, int64_t ns)
{
    if (a->max_batches <= 1 || !ns)
        return 1;
    return HR_MAX(1, HR_MIN(a->max_batches, (a->keys ? GROUPS_NS : CALL_NS) / ns));
}

static int64_t batches_wanted(const apply_op *a)
{
    return a->max_batches > 1 ? batches_in(a, hr__calls_batch_cost(a->calls).ns) : 1;
}

/* The number of calls of the next set: enough for all servers, if their results take a part of the memory only. */
static int calls_wanted(const apply_op *a, hr_task *task)
{
    int n = HR_MAX(MIN_CALLS, HR_MIN(HR_SET_CALLS, 2 * hr__calls_n_servers(a->calls)));
    int64_t room = hr__account_limit(hr__task_run(task)->account) / HR_SET_SHARE;
    hr_batch_cost batch = hr__calls_batch_cost(a->calls);
    int64_t each = batch.bytes * batches_in(a, batch.ns);

    return each ? (int)HR_MAX(1, HR_MIN(n, room / each)) : (int)HR_MAX(MIN_CALLS, HR_MIN(n, room / FIRST_BYTES));
}

/* Up to n_max batches as one table; *out NULL: there is none. */
static hr_status take_batches(const apply_op *a, apply_task *t, const hr_mem *mem, int64_t n_max, hr_table **out,
                              hr_batch_place **batches, int64_t *n, hr_error *err)
{
    hr_table **tables = hr__zalloc(NULL, (size_t)n_max * sizeof(hr_table *));
    hr_status st = HR_OK;

    *out = NULL;
    *n = 0;
    if (!(*batches = hr__zalloc(NULL, (size_t)n_max * sizeof **batches)) || !tables) {
        st = hr__error_memory(err, a->name, n_max * (int64_t)sizeof **batches);
        goto done;
    }
    while (*n < n_max) {
        HR_GO(hr__batch_cutter_next(t->cutter, t->last, &tables[*n], &(*batches)[*n].ordinal, err));
        if (!tables[*n])
            break;
        (*batches)[*n].n_rows = tables[*n]->n_rows;
        ++*n;
    }
    if (*n == 1)
        *out = hr_table_ref(tables[0]);
    else if (*n)
        HR_GO(hr__table_concat(mem, tables[0]->schema, tables, (int)*n, out, err));
done:
    for (int64_t i = 0; tables && i < *n; i++)
        hr_table_unref(tables[i]);
    hr__free(tables);
    if (st || !*out) {
        hr__free(*batches);
        *batches = NULL;
    }
    return st;
}

/* Makes the next call set from complete batches or groups; t->set stays NULL if there are none. */
static hr_status add_batches(const apply_op *a, hr_task *task, apply_task *t, hr_error *err)
{
    const hr_mem mem = batch_mem(a, task);
    int n_max = calls_wanted(a, task);

    while (!t->set || t->set->n < n_max) {
        hr_table *batch = NULL;
        hr_batch_place *batches = NULL;
        int64_t n = 0;
        hr_status st;

        if (t->groups)
            HR_TRY(hr__groups_next(t->groups, t->last, batches_wanted(a), &batch, &batches, &n, err));
        else
            HR_TRY(take_batches(a, t, &mem, batches_wanted(a), &batch, &batches, &n, err));
        if (!batch) {
            t->complete = t->last;
            return HR_OK;
        }
        st = add_call(a, task, t, batch, batches, n, err);
        hr_table_unref(batch);
        HR_TRY(st);
    }
    return HR_OK;
}

/* A row without columns: the origin of the rows of finish(). */
static hr_status last_input(hr_task *task, hr_table **out, hr_error *err)
{
    const hr_run_coords row = { { .instance = hr__task_run(task)->last_instance }, 1, false };
    hr_schema *schema = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__schema_new(NULL, 0, &schema, err));
    HR_GO(hr__origin_new(&row, 1, &origin, err));
    HR_GO(hr__table_new(schema, NULL, 1, origin, out, err));
done:
    hr__schema_unref(schema);
    hr__origin_unref(origin);
    return st;
}

/* Adds the last call of the run, for finish(). */
static hr_status add_last(const apply_op *a, hr_task *task, apply_task *t, hr_error *err)
{
    hr_table *row = NULL;
    hr_status st;

    t->finishing = true;
    HR_TRY(last_input(task, &row, err));
    st = add_table(a, task, t, row, err);
    hr_table_unref(row);
    return st;
}

/* Makes the next call set; after the ticket's last one the call of finish(). */
static hr_status add_next(const apply_op *a, hr_task *task, apply_task *t, hr_error *err)
{
    if (t->cutter || t->groups)
        HR_TRY(add_batches(a, task, t, err));
    else
        t->complete = t->last;
    return t->complete && !t->finishing && a->of_class.finishes && hr__task_closes(task) ? add_last(a, task, t, err)
                                                                                         : HR_OK;
}

/* Suspends the task until its call set has a result to collect. */
static hr_status await(hr_task *task, apply_task *t, hr_error *err)
{
    hr_resume *resume = NULL;

    HR_TRY(hr__task_suspend(task, &resume, err));
    if (!hr__call_set_wait(t->set, resume)) /* there is a result: resume at once */
        hr__resume(resume, HR_OK, NULL);
    return HR_PENDING;
}

static void notify(const apply_op *a, const hr_op_run *run)
{
    if (a->inline_calls && run->notify)
        run->notify(run->notify_context);
}

static hr_status submit(const apply_op *a, hr_task *task, apply_task *t, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    bool all = a->of_class.at_a_time && t->complete && !t->turn_done;
    hr_status st;

    if (t->set && (st = hr__call_set_submit(t->set, run->state, err)))
        return hr__function_failed(a->name, st, err);
    if (all) {
        t->turn_done = true;
        HR_TRY(hr__calls_turn_done(a->calls, run->state, hr__task_turn(task), err));
    }
    if (t->set || all)
        notify(a, run);
    return t->set ? await(task, t, err) : HR_OK;
}

static hr_status apply_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = NULL;

    if (in->n_rows == 0)
        return HR_OK;
    HR_TRY(apply_task_of(a, task, &t, err));
    if (a->of_class.at_a_time)
        t->last = hr__task_last(task);
    if (a->keys) {
        if (!t->groups)
            HR_TRY(hr__groups_new((const char *const *)a->keys, a->n_keys, GROUPED_ROWS,
                                  hr__table_bytes_wanted(hr__account_limit(hr__task_run(task)->account)),
                                  a->max_errored ? 1 : GROUPED_BATCHES, hr__task_run(task)->account, &t->groups, err));
        HR_TRY(hr__groups_add(t->groups, in, err));
        HR_TRY(add_batches(a, task, t, err));
    } else if (a->as_is) {
        HR_TRY(add_table(a, task, t, in, err));
        t->complete = t->last;
    } else {
        const hr_mem mem = batch_mem(a, task);

        if (!t->cutter) {
            HR_TRY(hr__batch_cutter_new(a->block_rows, a->batch_bytes, &mem, &t->cutter, err));
            hr__batch_cutter_refuse(t->cutter, hr__account_limit(mem.account));
        }
        HR_TRY(hr__batch_cutter_add(t->cutter, in, err));
        HR_TRY(add_batches(a, task, t, err));
    }
    return submit(a, task, t, err);
}

static hr_status apply_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = *hr__task_state(task);

    if (a->of_class.at_a_time)
        HR_TRY(apply_task_of(a, task, &t, err));
    else if (!t || (!t->cutter && !t->groups))
        return HR_OK;
    t->last = true;
    HR_TRY(add_next(a, task, t, err));
    if (a->of_class.saves && t->n_calls == 0)
        hr__task_save(task, NULL);
    return submit(a, task, t, err);
}

/* ------------------------------------------------------------------------------------------------ results into rows */

/* Adds one result of a filter to t->keep; false: the result is malformed. */
static bool unpack_keep(apply_task *t, const hr_table *found, int64_t n_rows)
{
    const hr_array *a = found->schema->n == 1 ? found->columns[0] : NULL;

    if (!a || a->type->id != HR_T_BOOL || t->n_kept + found->n_rows > n_rows)
        return false;
    for (int64_t i = 0; i < found->n_rows; i++)
        t->keep[t->n_kept + i] = !hr__array_is_null(a, i) && hr__bit(a->buffers[1]->data, a->offset + i);
    t->n_kept += found->n_rows;
    return true;
}

static hr_status kept_results(const apply_op *a, hr_task *task, apply_task *t, const hr_call *call, hr_results *r,
                              bool done, hr_error *err)
{
    const hr_table *in = call->input;
    hr_status st = HR_OK;
    hr_table *out = NULL;

    if (!t->keep && !(t->keep = hr__alloc(hr__task_run(task)->account, (size_t)in->n_rows)))
        return hr__error_memory(err, a->name, in->n_rows);
    for (int64_t i = 0; i < r->n; i++)
        if (!unpack_keep(t, r->items[i].table, in->n_rows))
            done = true, t->n_kept = -1;
    if (!done)
        return HR_OK;
    if (t->n_kept != in->n_rows)
        HR_FAIL(HR_CALLBACK, "%s: the function did not return one boolean for each of %" PRId64 " rows", a->name,
                in->n_rows);
    HR_GO(hr__table_keep(hr__task_mem(task), in, t->keep, &out, err));
    if (out)
        HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(out);
    return st;
}

/* Row at which a batch begins. */
static int64_t batch_begin(const hr_call *call, int64_t batch)
{
    int64_t row = 0;

    for (int64_t i = 0; i < batch; i++)
        row += call->batches[i].n_rows;
    return row;
}

/* The origin of a table of results. A table of several batches has the coordinates of each. */
static hr_status coordinates(const apply_op *a, apply_task *t, const hr_call *call, const hr_result *r, hr_origin **out,
                             hr_error *err)
{
    int64_t n_runs = HR_MAX(r->n_counts, 1), row = batch_begin(call, r->batch);
    hr_run_coords *runs = hr__zalloc(NULL, (size_t)n_runs * sizeof *runs);
    int64_t n = 0;
    hr_status st = HR_OK;

    if (!runs)
        return hr__error_memory(err, a->name, n_runs * (int64_t)sizeof *runs);
    for (int64_t i = 0; i < n_runs; i++) {
        int64_t batch = r->batch + i, n_rows = r->counts ? r->counts[i] : r->table->n_rows;
        hr_coord first = hr__origin_at(call->input->origin, row);

        first.ordinal += t->batch_rows_out[batch];
        t->batch_rows_out[batch] += n_rows;
        if (n_rows)
            runs[n++] = (hr_run_coords){ first, n_rows, true };
        row += call->batches[batch].n_rows;
    }
    st = hr__origin_new(runs, n, out, err);
    hr__free(runs);
    return st;
}

/* Whether a result names existing batches in order. */
static bool makes_sense(apply_task *t, const hr_call *call, const hr_result *r)
{
    int64_t n = 0, last = r->batch + HR_MAX(r->n_counts, 1) - 1;

    if (r->batch < t->at_batch || last >= call->n_batches)
        return false;
    for (int64_t i = 0; i < r->n_counts; i++) {
        if (r->counts[i] < 0)
            return false;
        n += r->counts[i];
    }
    t->at_batch = last;
    return !r->counts || n == r->table->n_rows;
}

/* Checks for each batch that a function that promised one row per row kept its promise. */
static hr_status check_promise(const apply_op *a, const apply_task *t, const hr_call *call, bool done, hr_error *err)
{
    for (int64_t i = 0; a->rules.one_to_one && i < call->n_batches; i++)
        if (t->batch_rows_out[i] > call->batches[i].n_rows ||
            (t->batch_rows_out[i] < call->batches[i].n_rows && (done || i < t->at_batch)))
            return hr_error_set(err, HR_CALLBACK, "%s: gave %" PRId64 " rows for a batch of %" PRId64, a->name,
                                t->batch_rows_out[i], call->batches[i].n_rows);
    return HR_OK;
}

/* Whether the first table defines the columns: until it is known, other tickets wait for their turn. */
static bool needs_first(const apply_op *a) { return !a->filter && !a->rules.schema; }

static bool may_emit(const apply_op *a, hr_task *task)
{
    return !needs_first(a) || atomic_load_explicit(&hr__task_run(task)->settled, memory_order_acquire) ||
           hr__task_is_first(task);
}

/* Replaces *table, made from the result `r`, by a table with the columns of the first one. */
static hr_status fit_to_first(const apply_op *a, hr_task *task, const hr_call *call, const hr_result *r,
                              hr_table **table, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    hr_first_columns *first = &((hr_calls_run *)run->state)->first;
    hr_shown shown = { .in = a->shows_doubles ? call->input : NULL, .begin = batch_begin(call, r->batch) };
    hr_table *fitting = NULL;
    hr_text where = { 0 };
    hr_status st;

    if (!atomic_load_explicit(&run->settled, memory_order_acquire)) {
        shown.n = batch_begin(call, r->batch + HR_MAX(r->n_counts, 1)) - shown.begin;
        HR_TRY(hr__first_columns_set(first, hr__task_mem(task), *table, &shown, err));
        atomic_store_explicit(&run->settled, true, memory_order_release);
    }
    st = hr__first_columns_fit(first, hr__task_mem(task), *table, &fitting, err);
    if (st == HR_TYPE && (*table)->origin) {
        hr__task_where(task, (*table)->origin, &where);
        st = where.data && !where.failed ? hr__error_at(err, st, "%s", where.data) : st;
        hr__text_clear(&where);
    }
    HR_TRY(st);
    hr_table_unref(*table);
    *table = fitting;
    return HR_OK;
}

static hr_status emit_result(const apply_op *a, hr_task *task, apply_task *t, const hr_call *call, hr_result *r,
                             hr_error *err)
{
    hr_status st = HR_OK;
    hr_origin *origin = NULL;
    hr_table *typed = NULL, *out = NULL;
    int64_t before = batch_begin(call, r->batch);

    if (!makes_sense(t, call, r))
        HR_FAIL(HR_CALLBACK, "%s: a result of batch %" PRId64 " of %" PRId64, a->name, r->batch, call->n_batches);
    if (r->table->n_rows == 0)
        goto done;
    if (a->rules.one_to_one)
        before += t->batch_rows_out[r->batch];
    HR_GO(coordinates(a, t, call, r, &origin, err));
    HR_GO(check_promise(a, t, call, false, err));
    HR_GO(hr__function_result(&a->rules, call->input, before, r->table, &typed, err));
    if (call->whole) {
        HR_GO(hr__call_columns_join(&a->columns, call->whole, before, typed, &out, err));
    } else if (a->rules.one_to_one) {
        out = typed;
        typed = NULL;
    } else
        HR_GO(hr__table_with_origin(typed, origin, &out, err));
    if (needs_first(a))
        HR_GO(fit_to_first(a, task, call, r, &out, err));
    HR_GO(hr__task_emit(task, &out, err));
done:
    hr__origin_unref(origin);
    hr_table_unref(typed);
    hr_table_unref(out);
    return st;
}

static hr_status emit_results(const apply_op *a, hr_task *task, apply_task *t, const hr_call *call, hr_results *r,
                              bool done, hr_error *err)
{
    if (!t->batch_rows_out && !(t->batch_rows_out = hr__zalloc(hr__task_run(task)->account,
                                                               (size_t)call->n_batches * sizeof *t->batch_rows_out)))
        return hr__error_memory(err, a->name, call->n_batches * (int64_t)sizeof *t->batch_rows_out);
    for (int64_t i = 0; i < r->n; i++)
        HR_TRY(emit_result(a, task, t, call, &r->items[i], err));
    return done ? check_promise(a, t, call, true, err) : HR_OK;
}

/* The function failed: fails the run, or leaves out the batch. */
static hr_status failed(const apply_op *a, hr_task *task, hr_call *call, hr_error *err)
{
    hr_calls_run *run = hr__task_run(task)->state;
    hr_text where = { 0 };
    hr_status st = call->st;
    bool its_own = st == HR_CALLBACK || call->n_deaths > 0;

    if (call->place.flags & HR_CALL_LAST)
        hr__text_add(&where, "finish()");
    else if (its_own && call->input->origin)
        hr__task_where(task, call->input->origin, &where);
    if (its_own && !(a->of_class.keeps && call->n_deaths)) {
        int64_t n = hr__calls_count_errored(a->calls, run);

        if (a->max_errored < 0 || n <= a->max_errored) {
            hr__calls_left_out(a->calls, call, where.data ? where.data : "");
            hr__text_clear(&where);
            return HR_OK;
        }
    }
    hr__error_move(err, &call->err);
    if (where.data && !where.failed && err)
        st = hr__error_at(err, st, "%s", where.data);
    hr__text_clear(&where);
    return hr__function_failed(a->name, st, err);
}

static void next_call(apply_task *t)
{
    hr__free(t->batch_rows_out);
    hr__free(t->keep);
    t->batch_rows_out = NULL;
    t->keep = NULL;
    t->n_kept = t->at_batch = 0;
}

/* Adds the state that a call saved to a marker: the ticket's own marker for its first call; for a later call a marker
 * before the call's first block of rows. */
static void save(const apply_op *a, hr_task *task, apply_task *t, hr_call *call)
{
    hr_coord at = call->place.begin;
    char *state;

    if (!(call->place.flags & HR_CALL_SAVE))
        return;
    state = hr__call_take_saved(call);
    if (t->saves == call) {
        hr__task_save(task, state);
        t->saves = NULL;
    } else if (state) {
        at.row -= at.row % a->block_rows;
        hr__task_save_at(task, &at, state);
    }
    hr__free(state);
}

/* Emits the results that can be collected now. *all: the call set is done. */
static hr_status collect(const apply_op *a, hr_task *task, apply_task *t, bool *all, hr_error *err)
{
    hr_call_set *g = t->set;
    bool done = true;

    while (g->next < g->n && done) {
        hr_call *call = g->items[g->next];
        hr_results r;
        bool again;
        hr_status st;

        done = hr__call_set_collect(g, &r, &again);
        if (again)
            notify(a, hr__task_run(task));
        save(a, task, t, call);
        if (done && call->st && !call->streams && call->n_batches == 1)
            st = HR_OK; /* results before the failure are incomplete */
        else
            st = a->filter ? kept_results(a, task, t, call, &r, done && !call->st, err)
                           : emit_results(a, task, t, call, &r, done && !call->st, err);
        hr__results_clear(&r);
        HR_TRY(st);
        if (done && call->st)
            HR_TRY(failed(a, task, call, err));
        if (done)
            next_call(t);
    }
    *all = done;
    return HR_OK;
}

static hr_status apply_resumed(const hr_op *op, hr_task *task, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = *hr__task_state(task);
    bool all = false;

    if (hr__call_set_cancelled(t->set))
        return hr_error_set(err, HR_CANCELLED, "%s: the run was stopped", a->name);
    if (!may_emit(a, task)) {
        hr__task_await_turn(task);
        return HR_PENDING;
    }
    HR_TRY(collect(a, task, t, &all, err));
    if (all) {
        hr__call_set_free(t->set);
        t->set = NULL;
    }
    if (!all || t->cutter || t->groups)
        hr__task_more(task); /* makes the next call set when these results have gone on */
    return HR_OK;
}

static hr_status apply_more(const hr_op *op, hr_task *task, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;
    apply_task *t = *hr__task_state(task);

    if (t->set)
        return await(task, t, err);
    HR_TRY(add_next(a, task, t, err));
    return submit(a, task, t, err);
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static hr_status apply_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const apply_op *a = (const apply_op *)op;

    *out = NULL;
    if (a->columns.made && in && a->rules.schema)
        return hr__call_columns_schema(&a->columns, in, a->rules.schema, out, err);
    if (!a->columns.made)
        *out = hr__schema_ref(a->filter ? (hr_schema *)in : a->rules.schema);
    return HR_OK;
}

static hr_status apply_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    (void)input;
    return hr__call_columns_needs(&((const apply_op *)op)->columns, wanted, n, out, err);
}

static void apply_code(const hr_op *op, char out[17])
{
    hr__calls_code(((const apply_op *)op)->calls, out);
    if (strlen(out) != 16)
        snprintf(out, 17, "----------------");
}

static hr_arena *apply_input_arena(const hr_op *op)
{
    const apply_op *a = (const apply_op *)op;

    return a->columns.made ? NULL : hr__calls_arena(a->calls);
}

static void apply_describe(const hr_op *op, hr_text *out) { hr__text_add(out, "%s", ((const apply_op *)op)->name); }

static void apply_fingerprint(const hr_op *op, hr_hash *h)
{
    const apply_op *a = (const apply_op *)op;

    hr__hash_text(h, a->name);
    hr__hash_text(h, a->qualified);
    hr__hash_int(h, a->as_is);
    hr__hash_int(h, a->as_is ? 0 : a->block_rows);
    hr__hash_int(h, a->as_is ? 0 : a->batch_bytes);
    hr__hash_int(h, op->one_to_one);
    hr__hash_int(h, a->filter);
    for (int i = 0; i < a->n_keys; i++)
        hr__hash_text(h, a->keys[i]);
    hr__call_columns_fingerprint(&a->columns, h);
    if (a->of_class.keeps)
        hr__hash_int(h, a->of_class.finishes + 2 * a->of_class.saves);
}

static void apply_stats(const hr_op *op, const hr_op_run *run, hr_text *out)
{
    hr__calls_stats(((const apply_op *)op)->calls, run->state, out);
}

static void apply_served(const hr_op *op, const hr_op_run *run, hr_served *out)
{
    const apply_op *a = (const apply_op *)op;

    hr__calls_served(a->calls, run->state, out);
    out->pieces = a->pieces;
    out->piece_bytes = a->piece_bytes;
}

static void apply_free(hr_op *op)
{
    apply_op *a = (apply_op *)op;

    hr__calls_unref(a->calls);
    hr__schema_unref(a->rules.schema);
    for (int i = 0; i < a->n_keys; i++)
        hr__free(a->keys[i]);
    hr__free(a->keys);
    hr__call_columns_clear(&a->columns);
    hr__free(a->name);
    hr__free(a->qualified);
    hr__free(a);
}

static const hr_op_class apply_class = {
    .name = "apply",
    .doc = "a function over tables, in other processes or Python threads",
    .kind = HR_OP_MAP,
    .calls = true,
    .schema = apply_schema,
    .needs = apply_needs,
    .input_arena = apply_input_arena,
    .code = apply_code,
    .start = apply_start,
    .cancel = apply_cancel,
    .stop = apply_stop,
    .push = apply_push,
    .resumed = apply_resumed,
    .more = apply_more,
    .finish = apply_finish,
    .task_clear = apply_task_clear,
    .restore_run = apply_restore,
    .remember = apply_remember,
    .describe = apply_describe,
    .stats = apply_stats,
    .served = apply_served,
    .fingerprint = apply_fingerprint,
    .free = apply_free,
};

static hr_status copy_keys(apply_op *a, const hr_calls_options *o, hr_error *err)
{
    if (o->n_group_keys <= 0)
        return HR_OK;
    if (!(a->keys = hr__zalloc(NULL, (size_t)o->n_group_keys * sizeof *a->keys)))
        return hr__error_memory(err, a->name, o->n_group_keys);
    for (; a->n_keys < o->n_group_keys; a->n_keys++)
        if (!(a->keys[a->n_keys] = hr__strdup(NULL, o->group_keys[a->n_keys])))
            return hr__error_memory(err, a->name, 100);
    return HR_OK;
}

hr_status hr__op_calls(hr_calls *calls, const hr_calls_options *o, hr_op **out, hr_error *err)
{
    hr_status st = HR_OK;
    const char *name = o->name ? o->name : "function";
    apply_op *a = NULL;
    hr_schema *schema = NULL;

    *out = NULL;
    if (o->schema)
        HR_GO(hr__schema_import(o->schema, &schema, err));
    if (o->made && (!o->one_to_one || o->filter || o->n_group_keys > 0))
        HR_FAIL(HR_INVALID, "%s: a function that makes column '%s' must return one row per row and cannot take groups",
                name, o->made);
    if (o->of_class.finishes && (o->filter || o->one_to_one || !o->of_class.at_a_time))
        HR_FAIL(HR_INVALID, "%s: finish() needs one instance, and a function that may return any number of rows", name);
    if (o->block_rows < 0 || o->batch_bytes < 0)
        HR_FAIL(HR_INVALID, "%s: batches of %" PRId64 " rows, %" PRId64 " bytes", name, o->block_rows, o->batch_bytes);
    if (!(a = hr__zalloc(NULL, sizeof *a))) {
        st = hr__error_memory(err, name, sizeof *a);
        goto done;
    }
    hr__op_init(&a->base, &apply_class);
    a->base.calls = true;
    a->calls = hr__calls_ref(calls);
    if (!(a->name = hr__strdup(NULL, name)) || (o->qualified && !(a->qualified = hr__strdup(NULL, o->qualified)))) {
        st = hr__error_memory(err, name, sizeof *a);
        goto done;
    }
    HR_GO(copy_keys(a, o, err));
    HR_GO(hr__call_columns_init(&a->columns, o, err));
    a->rules = (hr_function){ a->name, schema, o->one_to_one && !o->filter };
    a->base.one_to_one = a->rules.one_to_one && !o->max_errored; /* failed batches may be left out */
    schema = NULL;
    a->as_is = o->batch_rows != 0;
    a->block_rows = o->block_rows ? o->block_rows : BLOCK_ROWS;
    a->batch_bytes = o->batch_bytes;
    a->base.block_rows = a->as_is || a->keys ? 0 : a->block_rows;
    a->of_class = o->of_class;
    a->base.in_order = a->of_class.at_a_time > 0;
    a->base.instances = a->of_class.instances;
    a->base.closes = a->of_class.finishes;
    a->base.saves = a->of_class.saves;
    a->filter = o->filter;
    a->inline_calls = o->inline_calls;
    a->shows_doubles = o->shows_doubles;
    a->pieces = o->pieces;
    a->piece_bytes = o->piece_bytes;
    a->max_errored = o->max_errored;
    a->max_batches = o->max_errored ? 1
                     : a->keys      ? GROUPED_BATCHES
                                    : o->max_batches; /* a failed call must be one batch */
    if (o->max_errored)
        hr__calls_forgive(calls);
    a->base.made = a->base.one_to_one ? a->columns.made : NULL;
    *out = &a->base;
    a = NULL;
done:
    hr__schema_unref(schema);
    if (a)
        apply_free(&a->base);
    return st;
}
