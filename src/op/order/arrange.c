/* arrange.c - orders rows by the place that each row carries.
 *
 * A partitioned join emits its rows partition by partition. Each row carries its place in the whole output; rows with
 * the same place stay in the order in which they came. The operator divides the rows into ranges of places, which spill
 * (partition_store.h); each range is a block part. A range that does not fit in memory (a key with many rows on both
 * sides) is divided again, into smaller ranges. The rows of a single place need no sorting: they go on table by table.
 * Tables without places are in order already and go on as they come.
 *
 * Tests: test_keyed.c. */
#include "op/operators.h"
#include "op/store/partition_store.h"

#include <inttypes.h>
#include <stdlib.h>

#define RANGES 512
#define SMALLER 64 /* ranges into which a range is divided again */
#define LEVELS 12  /* of division, at most: 64^9 is 2^54 places */

typedef struct arrange_run {
    hr_schema *in, *out; /* with places, and without */
    int64_t step;        /* places per range */
    hr_spill_file *spill;
    hr_partition_store *store;
    int64_t n_rows[RANGES + 1]; /* rows of each range; after the input has ended: rows before each range */
} arrange_run;

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
    hr__partition_store_free(a->store);
    hr__spill_file_unref(a->spill);
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
    HR_TRY(hr__spill_file_new(NULL, "arrange", run->account, &a->spill, err));
    return hr__partition_store_new(RANGES, in, a->spill, run->account, &a->store, err);
}

static const int64_t *places_of(const hr_table *t)
{
    return (const int64_t *)hr__array_values(t->columns[t->schema->n - 1]);
}

/* Adds the rows of t to n ranges of `step` places each, the first of which begins at place `first`; counts them in
 * n_rows (may be NULL). Places rise within a table of a join, except where its right rows begin, so each range gets a
 * few stretches. */
static hr_status divide_places(hr_partition_store *store, const hr_table *t, int64_t first, int64_t step, int n,
                               int64_t *n_rows, hr_error *err)
{
    const int64_t *places = places_of(t);
    hr_table *part = NULL;

    for (int64_t i = 0, k; i < t->n_rows; i = k) {
        int64_t range = HR_MIN(n - 1, (places[i] - first) / step);
        int64_t begin = first + range * step, end = range == n - 1 ? INT64_MAX : begin + step;

        for (k = i + 1; k < t->n_rows && places[k] >= begin && places[k] < end; k++)
            ;
        HR_TRY(hr_table_slice(t, i, k - i, &part, err));
        if (n_rows)
            n_rows[range] += k - i;
        HR_TRY(hr__partition_store_add(store, (int)range, part, err));
    }
    return HR_OK;
}

static hr_status arrange_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    arrange_run *a = run->state;
    hr_table *same = NULL;

    (void)op;
    if (!has_places(in->schema)) {
        same = hr_table_ref((hr_table *)in);
        return hr__task_emit(task, &same, err);
    }
    if (!a->store)
        HR_TRY(begin(a, in->schema, run, err));
    HR_TRY(divide_places(a->store, in, 0, a->step, RANGES, a->n_rows, err));
    return hr__partition_store_held(a->store) > hr__op_allowance(run) ? hr__partition_store_spill(a->store, 0, err)
                                                                      : HR_OK;
}

static hr_status arrange_block_parts(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
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

/* Ranges of places, and the next one to read. */
typedef struct level {
    hr_partition_store *store;
    int64_t first, step; /* places: where range 0 begins, and how many each has */
    int at, end;         /* ranges */
    bool streaming;      /* the current range goes on table by table: */
    hr_partition_store_cursor tables;
} level;

typedef struct arrange_reader {
    hr_reader base;
    arrange_run *run;
    hr_account *account;
    hr_mem mem;
    int64_t share;        /* bytes of rows that may be in memory at once */
    int64_t row;          /* index of the next row of the output */
    level levels[LEVELS]; /* the first is one range of the run's own store */
    int depth;
} arrange_reader;

static void arrange_close(hr_reader *base)
{
    arrange_reader *r = (arrange_reader *)base;

    for (int i = 1; i < LEVELS; i++)
        hr__partition_store_free(r->levels[i].store);
    hr__free(r);
}

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

/* For few rows of many places. */
static hr_status order_few(const int64_t *places, int64_t n, hr_account *account, int64_t *out, hr_error *err)
{
    placed *all = hr__alloc(account, (size_t)n * sizeof *all);

    if (!all)
        return hr__error_memory(err, "arrange", n * 16);
    for (int64_t i = 0; i < n; i++)
        all[i] = (placed){ places[i], i };
    qsort(all, (size_t)n, sizeof *all, by_place);
    for (int64_t i = 0; i < n; i++)
        out[i] = all[i].row;
    hr__free(all);
    return HR_OK;
}

/* By counting sort, for places [first, first + span). */
static hr_status order_many(const int64_t *places, int64_t n, int64_t first, int64_t span, hr_account *account,
                            int64_t *out, hr_error *err)
{
    int64_t *next = hr__zalloc(account, (size_t)(span + 1) * sizeof *next);

    if (!next)
        return hr__error_memory(err, "arrange", span * 8);
    for (int64_t i = 0; i < n; i++)
        next[places[i] - first + 1]++;
    for (int64_t p = 0; p < span; p++)
        next[p + 1] += next[p];
    for (int64_t i = 0; i < n; i++)
        out[next[places[i] - first]++] = i;
    hr__free(next);
    return HR_OK;
}

static hr_status order_of(const hr_table *rows, hr_account *account, int64_t **out, hr_error *err)
{
    const int64_t *places = places_of(rows);
    int64_t n = rows->n_rows, least = places[0], most = places[0];

    for (int64_t i = 1; i < n; i++) {
        least = HR_MIN(least, places[i]);
        most = HR_MAX(most, places[i]);
    }
    if (!(*out = hr__alloc(account, (size_t)n * sizeof **out)))
        return hr__error_memory(err, "arrange", n * 8);
    if (most - least < 2 * n)
        return order_many(places, n, least, most - least + 1, account, *out, err);
    return order_few(places, n, account, *out, err);
}

/* The rows in `order` (NULL: as they stand), without the column of places. */
static hr_status give_rows(arrange_reader *r, const hr_table *rows, const int64_t *order, hr_table **out, hr_error *err)
{
    hr_schema *schema = r->run->out;
    hr_array **columns = hr__zalloc(r->account, ((size_t)schema->n + 1) * sizeof(hr_array *));
    hr_run_coords at = { .first = { .row = r->row }, .n = rows->n_rows };
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    if (!columns)
        return hr__error_memory(err, "arrange", schema->n * 8);
    HR_GO(hr__origin_new(&at, 1, &origin, err));
    for (int i = 0; i < schema->n; i++)
        if (order)
            HR_GO(hr__array_take(&r->mem, rows->columns[i], order, 8, rows->n_rows, &columns[i], err));
        else
            columns[i] = hr__array_ref(rows->columns[i]);
    st = hr__table_new(schema, columns, rows->n_rows, origin, out, err);
    memset(columns, 0, (size_t)schema->n * sizeof *columns);
    r->row += rows->n_rows;
done:
    for (int i = 0; i < schema->n; i++)
        hr__array_unref(columns[i]);
    hr__free(columns);
    hr__origin_unref(origin);
    return st;
}

static hr_status give_range(arrange_reader *r, level *l, hr_table **out, hr_error *err)
{
    hr_table *rows = NULL;
    int64_t *order = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__partition_store_load(l->store, l->at++, &(hr_mem){ .account = r->account }, &rows, err));
    HR_GO(order_of(rows, r->account, &order, err));
    st = give_rows(r, rows, order, out, err);
done:
    hr__free(order);
    hr_table_unref(rows);
    return st;
}

/* The next table of a range of one place; *out NULL: the range has no more. */
static hr_status give_table(arrange_reader *r, level *l, hr_table **out, hr_error *err)
{
    hr_table *rows = NULL;
    hr_status st;

    HR_TRY(hr__partition_store_next(&l->tables, &(hr_mem){ .account = r->account }, &rows, err));
    if (!rows) {
        l->streaming = false;
        l->at++;
        return HR_OK;
    }
    st = give_rows(r, rows, NULL, out, err);
    hr_table_unref(rows);
    return st;
}

/* Divides the current range into smaller ones, one level deeper. */
static hr_status divide_again(arrange_reader *r, level *l, hr_error *err)
{
    hr_partition_store_cursor c = { .store = l->store, .part = l->at, .drain = true };
    level *smaller = &r->levels[r->depth];
    hr_table *t = NULL;
    hr_status st = HR_OK;

    *smaller =
        (level){ .first = l->first + l->at * l->step, .step = (l->step + SMALLER - 1) / SMALLER, .end = SMALLER };
    HR_TRY(hr__partition_store_new(SMALLER, r->run->in, r->run->spill, r->account, &smaller->store, err));
    for (;;) {
        HR_TRY(hr__partition_store_next(&c, &(hr_mem){ .account = r->account }, &t, err));
        if (!t)
            break;
        st = divide_places(smaller->store, t, smaller->first, smaller->step, SMALLER, NULL, err);
        hr_table_unref(t);
        HR_TRY(st);
        if (hr__partition_store_held(smaller->store) > r->share)
            HR_TRY(hr__partition_store_spill(smaller->store, 0, err));
    }
    l->at++;
    r->depth++;
    return HR_OK;
}

static hr_status arrange_next(hr_reader *reader, int64_t max_bytes, hr_table **out, hr_error *err)
{
    arrange_reader *r = (arrange_reader *)reader;

    (void)max_bytes;
    *out = NULL;
    while (!*out && r->depth > 0) {
        level *l = &r->levels[r->depth - 1];
        hr_partition_store_size size =
            l->at < l->end ? hr__partition_store_size(l->store, l->at) : (hr_partition_store_size){ 0 };

        if (l->streaming) {
            HR_TRY(give_table(r, l, out, err));
        } else if (l->at >= l->end) {
            if (--r->depth > 0) {
                hr__partition_store_free(l->store);
                l->store = NULL;
            }
        } else if (!size.rows) {
            l->at++;
        } else if (size.memory_bytes + size.disk_bytes <= r->share) {
            HR_TRY(give_range(r, l, out, err));
        } else if (l->step > 1 && r->depth < LEVELS) {
            HR_TRY(divide_again(r, l, err));
        } else {
            l->streaming = true;
            l->tables = (hr_partition_store_cursor){ .store = l->store, .part = l->at, .drain = true };
        }
    }
    return HR_OK;
}

static const hr_reader_class arrange_reading = { .next = arrange_next, .close = arrange_close };

static hr_status arrange_read(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                              int64_t *estimate, hr_error *err)
{
    arrange_run *a = run->state;
    hr_partition_store_size size = hr__partition_store_size(a->store, (int)block_part);
    arrange_reader *r = hr__zalloc(run->account, sizeof *r);

    (void)op;
    if (!r)
        return hr__error_memory(err, "arrange", sizeof *r);
    r->base.cls = &arrange_reading;
    r->run = a;
    r->account = run->account;
    r->mem = *mem;
    r->share = hr__op_allowance(run);
    r->row = a->n_rows[block_part];
    r->levels[0] = (level){ .store = a->store, .step = a->step, .at = (int)block_part, .end = (int)block_part + 1 };
    r->depth = 1;
    *estimate = HR_MAX(*estimate, 3 * HR_MIN(size.memory_bytes + size.disk_bytes, r->share + HR_PARTITION_STORE_PAGE));
    *out = &r->base;
    return HR_OK;
}

static void arrange_free(hr_op *op) { hr__free(op); }

static const hr_op_class arrange_class = { .name = "arrange",
                                           .doc = "orders rows by the place that a join gave them",
                                           .kind = HR_OP_BLOCK,
                                           .same_rows = true,
                                           .filter_upstream = true,
                                           .schema = hr__kept_schema,
                                           .needs = hr__same_needs,
                                           .start = arrange_start,
                                           .stop = arrange_stop,
                                           .push = arrange_push,
                                           .block_parts = arrange_block_parts,
                                           .read = arrange_read,
                                           .free = arrange_free };

hr_status hr__op_arrange(hr_op **out, hr_error *err)
{
    hr_op *op = hr__zalloc(NULL, sizeof *op);

    *out = NULL;
    if (!op)
        return hr__error_memory(err, "arrange", sizeof *op);
    hr__op_init(op, &arrange_class);
    *out = op;
    return HR_OK;
}
