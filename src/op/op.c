/* op.c - functions that all operators share: references, states of stream operators as text.
 *
 * Tests: test_aggregate_own.c, test_run.c. */
#include "op/operators.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAST_ALLOWANCE (256 << 10)

void hr__op_init(hr_op *op, const hr_op_class *cls)
{
    *op = (hr_op){ .cls = cls, .one_to_one = cls->one_to_one };
    atomic_init(&op->refs, 1);
}

const char *hr__op_column_upstream(const hr_op *op, const char *column)
{
    return op->cls->column_upstream ? op->cls->column_upstream(op, column) : column;
}

hr_op *hr__op_ref(hr_op *op)
{
    if (op)
        atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
    return op;
}

void hr__op_unref(hr_op *op)
{
    if (op && atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1)
        op->cls->free(op);
}

uint64_t hr__shuffle_seed_of(const hr_shuffle_seed *seed, const hr_op_run *run, uint64_t *epoch)
{
    *epoch = seed->once ? 0 : (uint64_t)run->epoch;
    return seed->own ? seed->seed : run->seed;
}

void hr__shuffle_fingerprint(const hr_shuffle_seed *seed, hr_hash *h)
{
    hr__hash_int(h, seed->own + 2 * seed->once);
    hr__hash_int(h, (int64_t)seed->seed);
}

static atomic_int n_holders;

void hr__op_holds(int n) { atomic_fetch_add(&n_holders, n); }

#define TABLE_BYTES (8 << 20)
#define MIN_TABLE_BYTES (256 << 10)
#define TABLES_IN_LIMIT 32 /* tables that are usually in memory at once */

int64_t hr__table_bytes_wanted(int64_t limit_bytes)
{
    return HR_MAX(MIN_TABLE_BYTES, HR_MIN(TABLE_BYTES, limit_bytes / TABLES_IN_LIMIT));
}

int64_t hr__op_allowance(const hr_op_run *run)
{
    int64_t limit = hr_memory_limit(), used = hr_memory_used() - hr__pool_bytes();
    int64_t fair = limit / 2 / HR_MAX(1, atomic_load(&n_holders));

    if (used <= limit - limit / 8)
        return run->allowance;
    if (used > limit) /* by what does not spill, or late: more is needed than to be fair */
        fair /= 4;
    return HR_MIN(run->allowance, HR_MAX(fair, LEAST_ALLOWANCE));
}

hr_status hr__needs_add(hr_needs *n, const char *name, hr_error *err)
{
    for (int i = 0; i < n->n; i++)
        if (!strcmp(n->names[i], name))
            return HR_OK;
    if (!hr__grow(NULL, (void **)&n->names, &n->cap, n->n + 1, sizeof *n->names))
        return hr__error_memory(err, "plan", (n->n + 1) * (int64_t)sizeof *n->names);
    n->names[n->n++] = name;
    return HR_OK;
}

hr_status hr__kept_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)err;
    *out = hr__schema_ref((hr_schema *)in);
    return HR_OK;
}

hr_status hr__same_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    (void)op;
    (void)input;
    out->n = HR_MIN(n, 0);
    for (int i = 0; i < n; i++)
        HR_TRY(hr__needs_add(out, wanted[i], err));
    return HR_OK;
}

hr_status hr__same_schema(const hr_schema *found, const hr_schema *first, const char *where, hr_error *err)
{
    char text[300];

    if (found == first || hr__schema_equal(found, first))
        return HR_OK;
    hr__schema_difference(found, first, text, sizeof text);
    return hr_error_set(err, HR_TYPE, "a table%s differs from the first one: %s", where, text);
}

/* "skip=12 ordinal=3": the number after "key=", at the beginning of a word. */
bool hr__state_int(const char *state, const char *key, int64_t *out)
{
    size_t n = strlen(key);

    for (const char *p = state; p && *p; p = strchr(p, ' '), p = p ? p + 1 : NULL) {
        char *end = NULL;
        long long v;

        if (strncmp(p, key, n) != 0 || p[n] != '=' || p[n + 1] < '0' || p[n + 1] > '9')
            continue;
        v = strtoll(p + n + 1, &end, 10);
        if (*end && *end != ' ')
            return false;
        *out = v;
        return true;
    }
    return false;
}

void hr__task_pass_int(hr_task *task, hr_marker *takes, const char *key, int64_t value)
{
    char text[60];

    snprintf(text, sizeof text, "%s=%" PRId64, key, value);
    hr__task_pass(task, takes, text);
}

hr_status hr__op_plain(const hr_op_class *cls, hr_op **out, hr_error *err)
{
    hr_op *op = hr__alloc(NULL, sizeof *op);

    *out = NULL;
    if (!op)
        return hr__error_memory(err, cls->name, sizeof *op);
    hr__op_init(op, cls);
    *out = op;
    return HR_OK;
}

void hr__op_plain_free(hr_op *op) { hr__free(op); }

hr_status hr__function_failed(const char *name, hr_status st, hr_error *err)
{
    if (!hr__status_is_error(st))
        st = HR_CALLBACK;
    if (!err)
        return st;
    if (!err->text[0])
        return hr_error_set(err, st, "%s: failed without saying why", name);
    err->status = st;
    if (strncmp(err->text, name, strlen(name)) == 0 && err->text[strlen(name)] == ':')
        return st; /* it says so already */
    return hr__error_at(err, st, "%s", name);
}

hr_status hr__batch_too_large(int64_t n_rows, int64_t n_bytes, int64_t limit, bool more, hr_error *err)
{
    return hr_error_set(err, HR_BUDGET,
                        "%s%" PRId64 " rows%s take %" PRId64 " bytes, the memory limit is %" PRId64
                        ": take fewer rows at a time",
                        more ? "" : "a batch: ", n_rows, more ? " of an incomplete batch" : "", n_bytes, limit);
}
