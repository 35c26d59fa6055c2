/* arrange.c - rows that come with their places are brought into that order.
 *
 * What a join gives of partitions is in the order of the partitions. Its rows carry the place that they have among all (several may
 * share one: they stay in the order in which they came). They are dealt to ranges of places, which spill (store.h), and each range
 * is a piece. Tables without places are in order already: they go on as they come. */
#include "op/op.h"
#include "op/store.h"

#include <inttypes.h>
#include <stdlib.h>

#define RANGES 512

typedef struct arrange_run {
    hr_schema *in, *out; /* with places, and without */
    int64_t step;        /* places a range */
    hr_spill *spill;
    hr_store *store;
    int64_t n_rows[RANGES + 1]; /* of each range; then, before it */
} arrange_run;

static hr_status arrange_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)err;
    *out = hr__schema_ref((hr_schema *)in);
    return HR_OK;
}

static hr_status arrange_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                               hr_error *err)
{
    (void)op;
    (void)input;
    if (n < 0)
        out->n = -1;
    for (int i = 0; i < n; i++)
        HR_TRY(hr__needs_add(out, wanted[i], err));
    return HR_OK;
}

static hr_status arrange_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    (void)op;
    run->state = hr__zalloc(run->account, sizeof(arrange_run));
    return run->state ? HR_OK : hr__error_memory(err, "arrange", sizeof(arrange_run));
}

static void arrange_stop(const hr_op *op, hr_op_run *run)
{
    arrange_run *a = run->state;

    (void)op;
    if (!a)
        return;
    hr__store_free(a->store);
    hr__spill_unref(a->spill);
    hr__schema_unref(a->in);
    hr__schema_unref(a->out);
    hr__free(a);
}

static bool has_places(const hr_schema *s) { return s->n && !strcmp(s->fields[s->n - 1].name, HR_PLACE_COLUMN); }

static hr_status begin(arrange_run *a, hr_schema *in, hr_op_run *run, hr_error *err)
{
    int64_t n = 0, n_places = 0;
    const char *text = hr__metadata_get(in->metadata, in->metadata_bytes, HR_PLACE_COLUMN, &n);
    char copy[32] = { 0 };

    memcpy(copy, text ? text : "", text ? (size_t)HR_MIN(n, 31) : 0);
    n_places = strtoll(copy, NULL, 10);
    a->step = HR_MAX(1, (n_places + RANGES - 1) / RANGES);
    a->in = hr__schema_ref(in);
    HR_TRY(hr__schema_new(in->fields, in->n - 1, &a->out, err));
    HR_TRY(hr__spill_new(NULL, "arrange", run->account, &a->spill, err));
    return hr__store_new(RANGES, in, a->spill, run->account, &a->store, err);
}

static const int64_t *places_of(const hr_table *t)
{
    return (const int64_t *)hr__array_values(t->columns[t->schema->n - 1]);
}

/* Places rise within a table of a join but for where its right rows begin: so a table is a few stretches of each range. */
static hr_status arrange_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    arrange_run *a = run->state;
    const int64_t *places;
    hr_table *part = NULL;

    (void)op;
    if (!has_places(in->schema)) {
        part = hr_table_ref((hr_table *)in);
        return hr__task_emit(task, &part, err);
    }
    if (!a->store)
        HR_TRY(begin(a, in->schema, run, err));
    places = places_of(in);
    for (int64_t i = 0, k; i < in->n_rows; i = k) {
        int64_t range = HR_MIN(RANGES - 1, places[i] / a->step);

        for (k = i + 1; k < in->n_rows && HR_MIN(RANGES - 1, places[k] / a->step) == range; k++)
            ;
        HR_TRY(hr_table_slice(in, i, k - i, &part, err));
        a->n_rows[range] += k - i;
        HR_TRY(hr__store_add(a->store, (int)range, part, err));
    }
    return hr__store_held(a->store) > run->allowance ? hr__store_spill(a->store, 0, err) : HR_OK;
}

static hr_status arrange_pieces(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
{
    arrange_run *a = hr__task_run(task)->state;
    int64_t before = 0;

    (void)op;
    (void)err;
    *n = a->store ? RANGES : 0;
    for (int r = 0; r <= RANGES; r++) {
        int64_t some = a->n_rows[r];

        a->n_rows[r] = before;
        before += some;
    }
    return HR_OK;
}

typedef struct arrange_reader {
    hr_reader base;
    arrange_run *run;
    hr_account *account;
    hr_mem mem;
    int range;
    bool done;
} arrange_reader;

static void arrange_close(hr_reader *r) { hr__free(r); }

typedef struct placed {
    int64_t place, row;
} placed;

static int by_place(const void *a, const void *b)
{
    const placed *x = a, *y = b;

    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static hr_status order_of(const hr_table *rows, hr_account *account, int64_t **out, hr_error *err)
{
    const int64_t *places = places_of(rows);
    placed *all = hr__alloc(account, (size_t)rows->n_rows * sizeof *all);

    *out = hr__alloc(account, (size_t)rows->n_rows * sizeof **out);
    if (!all || !*out) {
        hr__free(all);
        return hr__error_memory(err, "arrange", rows->n_rows * 24);
    }
    for (int64_t i = 0; i < rows->n_rows; i++)
        all[i] = (placed){ places[i], i };
    qsort(all, (size_t)rows->n_rows, sizeof *all, by_place);
    for (int64_t i = 0; i < rows->n_rows; i++)
        (*out)[i] = all[i].row;
    hr__free(all);
    return HR_OK;
}

/* The rows in order, without places. */
static hr_status take_rows(arrange_reader *r, const hr_table *rows, const int64_t *order, hr_table **out, hr_error *err)
{
    hr_schema *schema = r->run->out;
    hr_array **columns = hr__zalloc(r->account, ((size_t)schema->n + 1) * sizeof(hr_array *));
    hr_run_coords at = { .first = { .row = r->run->n_rows[r->range] }, .n = rows->n_rows };
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    if (!columns)
        return hr__error_memory(err, "arrange", schema->n * 8);
    HR_GO(hr__origin_new(&at, 1, &origin, err));
    for (int i = 0; i < schema->n; i++)
        HR_GO(hr__array_take(&r->mem, rows->columns[i], order, 8, rows->n_rows, &columns[i], err));
    st = hr__table_new(schema, columns, rows->n_rows, origin, out, err);
    memset(columns, 0, (size_t)schema->n * sizeof *columns);
done:
    for (int i = 0; i < schema->n; i++)
        hr__array_unref(columns[i]);
    hr__free(columns);
    hr__origin_unref(origin);
    return st;
}

static hr_status arrange_next(hr_reader *reader, int64_t max_bytes, hr_table **out, hr_error *err)
{
    arrange_reader *r = (arrange_reader *)reader;
    hr_table *rows = NULL;
    int64_t *order = NULL;
    hr_status st = HR_OK;

    (void)max_bytes;
    *out = NULL;
    if (r->done)
        return HR_OK;
    r->done = true;
    HR_GO(hr__store_load(r->run->store, r->range, &(hr_mem){ .account = r->account }, &rows, err));
    if (!rows->n_rows)
        goto done;
    HR_GO(order_of(rows, r->account, &order, err));
    st = take_rows(r, rows, order, out, err);
done:
    hr__free(order);
    hr_table_unref(rows);
    return st;
}

static const hr_reader_class arrange_reading = { .next = arrange_next, .close = arrange_close };

static hr_status arrange_read(const hr_op *op, hr_op_run *run, int64_t piece, const hr_mem *mem, hr_reader **out,
                              int64_t *estimate, hr_error *err)
{
    arrange_run *a = run->state;
    hr_store_size size = hr__store_size(a->store, (int)piece);
    arrange_reader *r = hr__zalloc(run->account, sizeof *r);

    (void)op;
    if (!r)
        return hr__error_memory(err, "arrange", sizeof *r);
    r->base.cls = &arrange_reading;
    r->run = a;
    r->account = run->account;
    r->mem = *mem;
    r->range = (int)piece;
    *estimate = HR_MAX(*estimate, 3 * (size.memory_bytes + size.disk_bytes));
    *out = &r->base;
    return HR_OK;
}

static void arrange_free(hr_op *op) { hr__free(op); }

const hr_op_class hr__arrange = { .name = "arrange",
                                  .doc = "rows in the order of their places, where they have such",
                                  .kind = HR_OP_BLOCK,
                                  .same_rows = true,
                                  .schema = arrange_schema,
                                  .needs = arrange_needs,
                                  .start = arrange_start,
                                  .stop = arrange_stop,
                                  .push = arrange_push,
                                  .pieces = arrange_pieces,
                                  .read = arrange_read,
                                  .free = arrange_free };

hr_status hr__op_arrange(hr_op **out, hr_error *err)
{
    hr_op *op = hr__zalloc(NULL, sizeof *op);

    *out = NULL;
    if (!op)
        return hr__error_memory(err, "arrange", sizeof *op);
    hr__op_init(op, &hr__arrange);
    *out = op;
    return HR_OK;
}
