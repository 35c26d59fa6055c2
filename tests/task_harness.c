/* task_harness.c - implements task_harness.h: a task and a scheduler for one operator. */
#include "task_harness.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_THREAD_STATES 1

struct hr_task {
    rig *rig;
    void *state;
    void *thread_state;
    hr_resume *resume;
    bool more;
};

struct hr_resume {
    hr_mutex lock;
    hr_cond changed;
    bool done;
    hr_status st;
    hr_error err;
};

/* ---------------------------------------------------------------------------------------- calls of an operator */

static rig_item *add_item(rig *r)
{
    if (r->n_out == r->cap_out) {
        r->cap_out = r->cap_out ? 2 * r->cap_out : 16;
        r->out = realloc(r->out, (size_t)r->cap_out * sizeof *r->out);
        assert_non_null(r->out);
    }
    r->out[r->n_out] = (rig_item){ 0 };
    return &r->out[r->n_out++];
}

hr_status hr__task_emit(hr_task *task, hr_table **takes, hr_error *err)
{
    (void)err;
    assert_non_null(*takes);
    add_item(task->rig)->table = *takes;
    *takes = NULL;
    return HR_OK;
}

void hr__task_enough(hr_task *task) { task->rig->enough = true; }
void **hr__task_state(hr_task *task) { return &task->state; }
void **hr__task_thread_state(hr_task *task) { return &task->thread_state; }
hr_op_run *hr__task_run(hr_task *task) { return &task->rig->run; }
const hr_mem *hr__task_mem(hr_task *task) { return &task->rig->mem; }
hr_status hr__task_share(hr_task *task, int64_t n, hr_share_fn *fn, void *context, hr_error *err)
{
    (void)task;
    for (int64_t i = 0; i < n; i++)
        HR_TRY(fn(context, i, err));
    return HR_OK;
}

bool hr__task_cancelled(const hr_task *task) { return task->rig->cancelled; }
hr_coord hr__task_begin(const hr_task *task) { return task->rig->begin; }
int64_t hr__task_ordinal(const hr_task *task) { return task->rig->ordinal; }
int64_t hr__task_turn(const hr_task *task) { return task->rig->ordinal; }
bool hr__task_last(const hr_task *task) { return task->rig->last; }
bool hr__task_closes(const hr_task *task) { return task->rig->closes; }
bool hr__task_marked(const hr_task *task) { return task->rig->marked; }
void hr__task_save(hr_task *task, const char *state)
{
    snprintf(task->rig->saved, sizeof task->rig->saved, "%s", state ? state : "none");
    task->rig->marked = false;
}

void hr__task_save_at(hr_task *task, const hr_coord *at, const char *state)
{
    (void)task;
    (void)at;
    (void)state;
}

void hr__task_source(const hr_task *task, hr_coord row, hr_text *out)
{
    (void)task;
    hr__text_add(out, " of the harness, fragment %d", row.fragment);
}

void hr__task_where(const hr_task *task, const hr_origin *o, hr_text *out)
{
    (void)task;
    hr__text_add(out, "row %d", (int)hr__origin_at(o, 0).row);
}

void hr__task_pass(hr_task *task, hr_marker *takes, const char *state)
{
    rig_item *i = add_item(task->rig);

    i->marker = takes;
    snprintf(i->state, sizeof i->state, "%s", state ? state : "");
}

void hr__marker_drop(hr_marker *m) { free(m); }

hr_status hr__marker_copy(const hr_marker *m, hr_marker **out, hr_error *err)
{
    return hr__marker_join(&m, 1, out, err);
}

/* The first one that there is. */
hr_status hr__marker_join(const hr_marker *const *markers, int n, hr_marker **out, hr_error *err)
{
    (void)err;
    *out = NULL;
    for (int i = 0; i < n && !*out; i++)
        if (markers[i]) {
            assert_non_null(*out = malloc(sizeof **out));
            **out = *markers[i];
        }
    return HR_OK;
}

void hr__task_end_input(hr_task *task, int input)
{
    (void)task;
    (void)input;
}

int hr__task_input(const hr_task *task) { return task->rig->input; }
void hr__task_want(hr_task *task, int input) { task->rig->wanted = input; }

int64_t hr__task_first_row(const hr_task *task, int input)
{
    (void)task;
    (void)input;
    return 0;
}

int hr__task_lane(const hr_task *task)
{
    (void)task;
    return 0;
}

void hr__task_more(hr_task *task) { task->more = true; }

bool hr__task_is_first(const hr_task *task) /* one ticket after the other */
{
    (void)task;
    return true;
}

void hr__task_await_turn(hr_task *task)
{
    (void)task;
    fail_msg("the first ticket waits for its turn");
}

hr_status hr__task_suspend(hr_task *task, hr_resume **out, hr_error *err)
{
    hr_resume *resume;

    if (hr__fault(HR_FAULT_MEMORY))
        return hr__error_memory(err, "harness", 1);
    resume = calloc(1, sizeof *resume);
    assert_non_null(resume);
    assert_null(task->resume);
    hr__mutex_init(&resume->lock);
    hr__cond_init(&resume->changed);
    task->resume = *out = resume;
    task->rig->n_suspended++;
    return HR_OK;
}

void hr__resume(hr_resume *takes, hr_status st, hr_error *moved)
{
    hr__lock(&takes->lock);
    assert_false(takes->done); /* exactly once */
    takes->done = true;
    takes->st = st;
    hr__error_move(&takes->err, moved);
    hr__cond_signal(&takes->changed);
    hr__unlock(&takes->lock);
}

/* ---------------------------------------------------------------------------------------------------- the scheduler */

static void notified(void *context) { atomic_fetch_add(&((rig *)context)->n_notified, 1); }

hr_status rig_open(rig *r, const hr_op *op, hr_arena *arena, hr_error *err)
{
    hr_status st = HR_OK;

    if (!r->task) {
        r->task = calloc(1, sizeof *r->task);
        assert_non_null(r->task);
    }
    r->task->rig = r;
    r->op = op;
    r->run.op = op;
    r->run.arena = r->mem.arena = arena;
    r->run.to_process = arena;
    r->run.notify = notified;
    r->run.notify_context = r;
    if (op->cls->start)
        st = op->cls->start(op, &r->run, err);
    if (st) {
        free(r->task);
        r->task = NULL;
    }
    return st;
}

/* st: the status of push, finish or resumed. */
static hr_status settle(rig *r, hr_status st, hr_error *err)
{
    while (st == HR_PENDING || (st == HR_OK && r->task->more)) {
        hr_resume *resume = r->task->resume;

        if (st == HR_OK) {
            r->task->more = false;
            st = r->op->cls->more(r->op, r->task, err);
            continue;
        }
        assert_non_null(resume);
        if (r->while_suspended)
            r->while_suspended(r);
        hr__lock(&resume->lock);
        while (!resume->done)
            hr__cond_wait(&resume->changed, &resume->lock);
        hr__unlock(&resume->lock);
        r->task->resume = NULL;
        if ((st = resume->st))
            hr__error_move(err, &resume->err);
        else
            st = r->op->cls->resumed(r->op, r->task, err);
        hr_error_clear(&resume->err);
        hr__mutex_clear(&resume->lock);
        hr__cond_clear(&resume->changed);
        free(resume);
    }
    assert_null(r->task->resume); /* suspended, but not HR_PENDING */
    return st;
}

hr_status rig_push(rig *r, const hr_table *t, hr_error *err)
{
    return settle(r, r->op->cls->push(r->op, r->task, t, err), err);
}

hr_status rig_finish(rig *r, hr_error *err)
{
    return r->op->cls->finish ? settle(r, r->op->cls->finish(r->op, r->task, err), err) : HR_OK;
}

hr_status rig_mark(rig *r, int64_t at, hr_error *err)
{
    hr_marker *m = malloc(sizeof *m);

    assert_non_null(m);
    m->at = at;
    return r->op->cls->marker(r->op, r->task, m, err);
}

hr_status rig_restore(rig *r, const char *state, hr_error *err)
{
    return r->op->cls->restore(r->op, r->task, state, err);
}

static void end_task(rig *r)
{
    if (r->op->cls->task_clear)
        r->op->cls->task_clear(r->op, r->task);
    else
        hr__free(r->task->state);
    r->task->state = NULL;
}

void rig_next_ticket(rig *r)
{
    end_task(r);
    r->ordinal++;
}

void rig_close(rig *r)
{
    if (r->task) {
        end_task(r);
        if (r->task->thread_state && r->op->cls->thread_clear)
            r->op->cls->thread_clear(r->op, &r->run, r->task->thread_state);
        if (r->op->cls->stop)
            r->op->cls->stop(r->op, &r->run);
    }
    for (int i = 0; i < r->n_out; i++) {
        hr_table_unref(r->out[i].table);
        hr__marker_drop(r->out[i].marker);
    }
    free(r->out);
    free(r->task);
    *r = (rig){ 0 };
}

hr_status rig_run(rig *r, hr_table *const *tables, int n, hr_error *err)
{
    for (int i = 0; i < n; i++)
        HR_TRY(rig_push(r, tables[i], err));
    return rig_finish(r, err);
}

typedef struct rig_job {
    hr_status (*make)(hr_op **out, hr_error *err);
    hr_table *in;
    bool mark;
} rig_job;

static hr_status run_job(void *context, hr_error *err)
{
    rig_job *job = context;
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(job->make(&op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    if (job->mark)
        HR_GO(rig_mark(&r, 0, err));
    HR_GO(rig_run(&r, &job->in, 1, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    return st;
}

void rig_faults(hr_status (*make)(hr_op **out, hr_error *err), bool mark)
{
    rig_job job = { make, numbers(0, 30), mark };

    run_with_faults_on(run_job, &job, HR_FAULT_MEMORY);
    hr_table_unref(job.in);
}

int64_t rig_rows(const rig *r)
{
    int64_t n = 0;

    for (int i = 0; i < r->n_out; i++)
        n += r->out[i].table ? r->out[i].table->n_rows : 0;
    return n;
}

int rig_tables(const rig *r)
{
    int n = 0;

    for (int i = 0; i < r->n_out; i++)
        n += r->out[i].table != NULL;
    return n;
}

hr_table *rig_table(const rig *r, int i)
{
    for (int k = 0; k < r->n_out; k++)
        if (r->out[k].table && i-- == 0)
            return r->out[k].table;
    fail_msg("too few tables came out");
    return NULL;
}

hr_table *rig_joined(const rig *r)
{
    int n = rig_tables(r);
    hr_table **all = calloc((size_t)n + 1, sizeof(hr_table *));
    hr_table *t;

    assert_non_null(all);
    for (int i = 0; i < n; i++)
        all[i] = rig_table(r, i);
    t = n ? join(all, n) : NULL;
    free(all);
    return t;
}

/* ----------------------------------------------------------------------------------------------------------- tables */

static const hr_mem plain = { NULL, NULL };

static hr_array *finish(hr_builder *b)
{
    hr_array *a = NULL;

    assert_ok(hr__builder_finish(b, &a, NULL), NULL);
    hr__builder_free(b);
    return a;
}

static hr_builder *builder(hr_type *type)
{
    hr_builder *b = NULL;

    assert_ok(hr__builder_new(&plain, type, &b, NULL), NULL);
    hr__type_unref(type);
    return b;
}

static hr_array *x_column(int64_t begin, int64_t n)
{
    hr_builder *b = builder(hr__type_simple(HR_T_INT64));

    for (int64_t i = 0; i < n; i++)
        assert_ok(hr__builder_int(b, begin + i, NULL), NULL);
    return finish(b);
}

static hr_array *s_column(int64_t begin, int64_t n)
{
    hr_builder *b = builder(hr__type_simple(HR_T_STRING));
    char text[80];

    for (int64_t i = begin; i < begin + n; i++) {
        int length = snprintf(text, sizeof text, "%.*s%lld", (int)(i * 7 % 31), "abcdefghijklmnopqrstuvwxyzabcdef",
                              (long long)i);

        assert_ok(i % 5 == 3 ? hr__builder_null(b, NULL) : hr__builder_bytes(b, text, length, NULL), NULL);
    }
    return finish(b);
}

static hr_array *v_column(int64_t begin, int64_t n)
{
    hr_field item = { .name = "item", .type = hr__type_simple(HR_T_INT32), .nullable = true };
    hr_type *type = NULL;
    hr_builder *b;

    assert_ok(hr__type_list(HR_T_LIST, &item, 0, &type, NULL), NULL);
    b = builder(type);
    for (int64_t i = begin; i < begin + n; i++) {
        for (int64_t k = 0; k < i * 11 % 9; k++)
            assert_ok(hr__builder_int(hr__builder_child(b, 0), i + k, NULL), NULL);
        assert_ok(hr__builder_end(b, NULL), NULL);
    }
    return finish(b);
}

static hr_array *b_column(int64_t begin, int64_t n)
{
    hr_builder *b = builder(hr__type_simple(HR_T_BOOL));

    for (int64_t i = begin; i < begin + n; i++)
        assert_ok(hr__builder_int(b, i * 5 % 3 == 0, NULL), NULL);
    return finish(b);
}

hr_table *numbers_at(int32_t file, int32_t fragment, int64_t begin, int64_t n)
{
    hr_array *columns[4] = { x_column(begin, n), s_column(begin, n), v_column(begin, n), b_column(begin, n) };
    static const char *const names[4] = { "x", "s", "v", "b" };
    hr_run_coords run = { .first = { .file = file, .fragment = fragment, .row = begin }, .n = n };
    hr_field fields[4] = { 0 };
    hr_origin *origin = NULL;
    hr_schema *schema = NULL;
    hr_table *t = NULL;

    for (int i = 0; i < 4; i++)
        fields[i] = (hr_field){ .name = (char *)names[i], .type = columns[i]->type, .nullable = true };
    assert_ok(hr__schema_new(fields, 4, &schema, NULL), NULL);
    assert_ok(hr__origin_new(&run, n > 0, &origin, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, n, origin, &t, NULL), NULL);
    hr__schema_unref(schema);
    hr__origin_unref(origin);
    return t;
}

hr_table *numbers(int64_t begin, int64_t n) { return numbers_at(0, 0, begin, n); }

hr_table *slice(const hr_table *t, int64_t begin, int64_t n)
{
    hr_table *part = NULL;

    assert_ok(hr_table_slice(t, begin, n, &part, NULL), NULL);
    return part;
}

hr_table *join(hr_table *const *tables, int n)
{
    hr_table *t = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__table_concat(&plain, tables[0]->schema, tables, n, &t, &err), &err);
    return t;
}

int cut_randomly(const hr_table *t, uint64_t *random, hr_table **parts, int max_parts)
{
    int64_t at = 0;
    int n = 0;

    while (at < t->n_rows) {
        int64_t left = t->n_rows - at, most = 1 + random_below(random, 2 * t->n_rows / max_parts + 2);
        int64_t rows = n == max_parts - 1 ? left : random_below(random, HR_MIN(left, most) + 1); /* empty parts, too */

        parts[n++] = slice(t, at, rows);
        at += rows;
    }
    return n;
}

void unref_all(hr_table **tables, int n)
{
    for (int i = 0; i < n; i++)
        hr_table_unref(tables[i]);
}

int64_t x_at(const hr_table *t, int64_t row) { return ((const int64_t *)hr__array_values(t->columns[0]))[row]; }

bool coords_equal(hr_coord a, hr_coord b)
{
    return a.instance == b.instance && a.file == b.file && a.fragment == b.fragment && a.row == b.row &&
           a.ordinal == b.ordinal;
}

bool tables_equal(const hr_table *a, const hr_table *b)
{
    if (a->n_rows != b->n_rows || !hr__schema_equal(a->schema, b->schema))
        return false;
    for (int i = 0; i < a->schema->n; i++)
        if (!hr__array_equal(a->columns[i], b->columns[i]))
            return false;
    for (int64_t i = 0; i < a->n_rows; i++)
        if (!coords_equal(hr__origin_at(a->origin, i), hr__origin_at(b->origin, i)))
            return false;
    return true;
}

hr_status doubled(const hr_mem *mem, const hr_table *in, hr_type_id type, int times, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field field = { .name = "y", .type = hr__type_simple(type) };
    hr_schema *schema = NULL;
    hr_builder *b = NULL;
    hr_array *a = NULL;

    HR_GO(hr__schema_new(&field, 1, &schema, err));
    HR_GO(hr__builder_new(mem, field.type, &b, err));
    for (int64_t i = 0; i < in->n_rows * times; i++)
        HR_GO(type == HR_T_INT64 ? hr__builder_int(b, 2 * x_at(in, i % in->n_rows), err)
                                 : hr__builder_double(b, 1, err));
    HR_GO(hr__builder_finish(b, &a, err));
    HR_GO(hr__table_new(schema, &a, in->n_rows * times, NULL, out, err));
done:
    hr__builder_free(b);
    hr__schema_unref(schema);
    return st;
}
