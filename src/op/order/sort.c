/* sort.c - all rows in another order: by columns (sort), by random bits of each row's coordinate (random_shuffle) or of
 * a block of neighbouring rows (shuffle_blocks), or by a hash of columns (hash_partition: rows with equal keys go into
 * the same one of n tables).
 *
 * sorter.c does the work; this file has the operators. The front sorts each table on all threads; push() collects the
 * tables in canonical order; reading a block part merges its share of the whole order.
 *
 * A shuffle is a sort by a hidden column: 64 bits for each row, the high ones of hr__random_coord of (seed, epoch,
 * coordinate). Rows with equal bits (among a billion rows the probability of one pair is 1 in 40) stay in canonical
 * order. So the order depends only on seed, epoch and coordinates. shuffle_blocks is the same with the bits of a
 * block's first row for all its rows: block_rows neighbours in a fragment of the source stay together and in order.
 *
 * hash_partition sorts by a hidden column, the row's partition, and then by the keys if `sorted`.
 *
 * Tests: test_ordering.c. */
#include "data/keys.h"
#include "op/operators.h"
#include "op/order/sorter.h"

#define MOST_PARTS 65536 /* each is a block part */

typedef struct sort_op {
    hr_op base;
    int n_keys, n_hidden;
    hr_sort_column *keys;
    hr_shuffle_seed seed;
    int64_t block_rows; /* of shuffle_blocks: this many rows stay together; 0: each row alone */
    int64_t n_first;    /* > 0: the plan wants only the first n_first rows */
    int64_t n_parts;    /* > 0: hash_partition, into n_parts tables */
    bool sorted;        /* each partition in the order of the keys */
} sort_op;

/* State of one run. */
typedef struct sort_state {
    hr_mutex lock; /* guards the creation of the sorter by the thread that has the first table */
    hr_sorter *sorter;
    hr_schema *in;     /* of the first table; all tables must have it */
    hr_schema *schema; /* the same, with the key that the front makes */
} sort_state;

typedef struct front_op {
    hr_op base;
    const sort_op *of; /* shared */
} front_op;

static bool is_shuffle(const sort_op *s) { return s->n_keys == 0; }

/* Whether the front adds the column that orders the rows. */
static bool has_made_key(const sort_op *s) { return is_shuffle(s) || s->n_parts; }

/* -------------------------------------------------------------------------------------------------- the first table */

static hr_status find_keys(const sort_op *s, const hr_schema *schema, hr_order_key *keys, hr_error *err)
{
    for (int i = 0; i < s->n_keys; i++) {
        keys[i] = (hr_order_key){ .column = hr__schema_find(schema, s->keys[i].name),
                                  .descending = s->keys[i].descending,
                                  .nulls_first = s->keys[i].nulls_first };
        if (keys[i].column < 0)
            return hr__schema_missing(schema, s->keys[i].name, err);
    }
    return HR_OK;
}

static hr_status make_sorter(const sort_op *s, const hr_op_run *run, sort_state *state, hr_schema *in, hr_error *err)
{
    hr_sorter_options options = { .name = s->base.cls->name,
                                  .n_keys = has_made_key(s) ? 1 + (s->sorted ? s->n_keys : 0) : s->n_keys,
                                  .n_hidden = has_made_key(s) ? 1 : s->n_hidden,
                                  .n_parts = s->n_parts,
                                  .n_first = s->n_first,
                                  .allowance = run->allowance,
                                  .step_bytes = run->step_bytes,
                                  .account = run->account };
    hr_order_key *keys = hr__zalloc(run->account, (size_t)(s->n_keys + 1) * sizeof *keys);
    hr_schema *schema = NULL;
    hr_status st = HR_OK;

    if (!keys)
        return hr__error_memory(err, options.name, options.n_keys * (int64_t)sizeof *keys);
    if (has_made_key(s)) {
        keys[0] = (hr_order_key){ .column = in->n, .bare = true };
        HR_GO(find_keys(s, in, keys + 1, err));
        HR_GO(hr__schema_append(in, "(key)", hr__type_simple(HR_T_UINT64), false, &schema, err)); /* hidden */
    } else {
        schema = hr__schema_ref(in);
        HR_GO(find_keys(s, in, keys, err));
    }
    options.keys = keys;
    HR_GO(hr__sorter_new(schema, &options, &state->sorter, err));
    state->in = hr__schema_ref(in);
    state->schema = hr__schema_ref(schema);
done:
    hr__schema_unref(schema);
    hr__free(keys);
    return st;
}

static hr_status get_sorter(const sort_op *s, hr_op_run *run, const hr_table *in, hr_error *err)
{
    sort_state *state = run->state;
    hr_status st = HR_OK;

    hr__lock(&state->lock);
    if (!state->sorter)
        st = make_sorter(s, run, state, in->schema, err);
    hr__unlock(&state->lock);
    return st;
}

static hr_status check_schema(const sort_state *state, const hr_table *t, hr_error *err)
{
    char text[600];

    if (t->schema == state->in || hr__schema_equal(t->schema, state->in))
        return HR_OK;
    hr__schema_difference(t->schema, state->in, text, sizeof text);
    return hr_error_set(err, HR_TYPE, "tables of one input have different schemas: %s", text);
}

/* ------------------------------------------------------------------------------------------------------------ front */

/* All rows of a block get the bits of its first row. */
static void block_bits(uint64_t seed, uint64_t epoch, int64_t block_rows, hr_run_coords rows, uint64_t *to)
{
    while (rows.n > 0) {
        int64_t in_block = rows.first.row % block_rows, n = HR_MIN(rows.n, block_rows - in_block);
        hr_run_coords one = { .first = rows.first, .n = 1 };

        one.first.row -= in_block;
        hr__random_rows(seed, epoch, &one, to);
        for (int64_t i = 1; i < n; i++)
            to[i] = to[0];
        to += n;
        rows.first.row += n;
        rows.n -= n;
    }
}

static void random_bits(const sort_op *s, const hr_op_run *run, const hr_table *in, uint64_t *to)
{
    uint64_t epoch, seed = hr__shuffle_seed_of(&s->seed, run, &epoch);

    seed ^= (uint64_t)run->index << 32; /* two shuffles in one plan draw different orders */
    for (int64_t at = 0; at < in->n_rows;) {
        hr_run_coords rows = hr__origin_run(in->origin, at);

        rows.n = HR_MIN(rows.n, in->n_rows - at);
        if (s->block_rows)
            block_bits(seed, epoch, s->block_rows, rows, to + at);
        else
            hr__random_rows(seed, epoch, &rows, to + at);
        at += rows.n;
    }
}

static hr_status part_numbers(const sort_op *s, const hr_op_run *run, const hr_table *in, uint64_t *to, hr_error *err)
{
    int *columns = hr__alloc(run->account, (size_t)s->n_keys * sizeof *columns);
    hr_status st = HR_OK;

    if (!columns)
        return hr__error_memory(err, s->base.cls->name, s->n_keys * (int64_t)sizeof *columns);
    for (int i = 0; i < s->n_keys; i++)
        if ((columns[i] = hr__schema_find(in->schema, s->keys[i].name)) < 0)
            HR_GO(hr__schema_missing(in->schema, s->keys[i].name, err));
        else
            HR_GO(hr__refuse_pickles(s->base.cls->name, &in->schema->fields[columns[i]], err));
    hr__rows_hash(in, columns, s->n_keys, 0, in->n_rows, to);
    for (int64_t i = 0; i < in->n_rows; i++)
        to[i] %= (uint64_t)s->n_parts;
done:
    hr__free(columns);
    return st;
}

static hr_status made_key(const sort_op *s, const hr_op_run *run, const hr_mem *mem, const hr_table *in, hr_array **out,
                          hr_error *err)
{
    hr_buffer *buffers[3] = { 0 };
    hr_status st = HR_OK;

    HR_TRY(hr__buffer_new(mem, in->n_rows * 8, &buffers[1], err));
    if (s->n_parts)
        st = part_numbers(s, run, in, (uint64_t *)(void *)buffers[1]->data, err);
    else
        random_bits(s, run, in, (uint64_t *)(void *)buffers[1]->data);
    if (!st)
        return hr__array_new(hr__type_simple(HR_T_UINT64), in->n_rows, 0, buffers, NULL, 0, out, err);
    hr__buffer_unref(buffers[1]);
    return st;
}

static hr_status with_key(const sort_op *s, const hr_op_run *run, const hr_mem *mem, hr_schema *schema,
                          const hr_table *in, hr_table **out, hr_error *err)
{
    hr_array *key = NULL;

    *out = NULL;
    HR_TRY(made_key(s, run, mem, in, &key, err));
    return hr__table_append(in, schema, key, NULL, out, err);
}

static hr_sort_space *space_of(hr_task *task)
{
    void **slot = hr__task_thread_state(task);
    hr_sort_space *space = *slot;

    if (!space && (space = *slot = hr__zalloc(hr__task_run(task)->account, sizeof *space)))
        space->account = hr__task_run(task)->account;
    return space;
}

static hr_status front_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const sort_op *s = ((const front_op *)op)->of;
    hr_op_run *run = hr__task_run(task)->partner;
    sort_state *state = run->state;
    hr_sort_space *space = space_of(task);
    hr_table *t = NULL, *sorted = NULL, *out = NULL;
    hr_origin *origin = NULL;
    hr_run_coords at = { 0 };
    hr_status st = HR_OK;
    bool did;

    if (!space)
        return hr__error_memory(err, s->base.cls->name, sizeof *space);
    if (!in->n_rows)
        return HR_OK;
    HR_GO(get_sorter(s, run, in, err));
    HR_GO(check_schema(state, in, err)); /* before the column is added under the schema of the first table */
    HR_GO(hr__sorter_help(state->sorter, space, &did, err));
    if (has_made_key(s))
        HR_GO(with_key(s, run, hr__task_mem(task), state->schema, in, &t, err));
    else
        t = hr_table_ref((hr_table *)in);
    HR_GO(hr__sorter_sort(state->sorter, hr__task_mem(task), space, t, &sorted, err));
    if (!sorted->n_rows)
        goto done;
    at.n = sorted->n_rows;
    at.first =
        hr__origin_run(in->origin, 0).first; /* the origin names the rows of the table as a whole, not each row */
    HR_GO(hr__origin_new(&at, 1, &origin, err));
    HR_GO(hr__table_with_origin(sorted, origin, &out, err));
    HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(t);
    hr_table_unref(sorted);
    hr_table_unref(out);
    hr__origin_unref(origin);
    return st;
}

static hr_status front_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)in;
    (void)err;
    *out = NULL;
    return HR_OK;
}

static void front_thread_clear(const hr_op *op, hr_op_run *run, void *thread_state)
{
    hr_sort_space *space = thread_state;

    (void)op;
    (void)run;
    if (space)
        hr__sort_space_clear(space);
    hr__free(space);
}

static void front_free(hr_op *op)
{
    front_op *f = (front_op *)op;

    hr__op_unref((hr_op *)&f->of->base);
    hr__free(f);
}

static void front_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "%s: tables", ((const front_op *)op)->of->base.cls->name);
}

static const hr_op_class front_class = {
    .name = "sort_tables",
    .doc = "sorts the rows of each table",
    .kind = HR_OP_MAP,
    .schema = front_schema,
    .push = front_push,
    .thread_clear = front_thread_clear,
    .describe = front_describe,
    .free = front_free,
};

static hr_status sort_front(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err)
{
    front_op *f = hr__zalloc(NULL, sizeof *f);

    (void)input;
    (void)first_input;
    if (!f)
        return hr__error_memory(err, op->cls->name, sizeof *f);
    hr__op_init(&f->base, &front_class);
    f->of = (const sort_op *)hr__op_ref((hr_op *)op);
    *out = &f->base;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static hr_status sort_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const sort_op *s = (const sort_op *)op;
    hr_order_key *keys = NULL;
    hr_order *order = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!is_shuffle(s)) { /* checks that the keys exist and have an order */
        if (!(keys = hr__alloc(NULL, (size_t)s->n_keys * sizeof *keys)))
            return hr__error_memory(err, "sort", s->n_keys * (int64_t)sizeof *keys);
        HR_GO(find_keys(s, in, keys, err));
        if (!s->n_parts || s->sorted)
            HR_GO(hr__order_new(in, keys, s->n_keys, NULL, &order, err));
    }
    if (!s->n_hidden)
        *out = hr__schema_ref((hr_schema *)in);
    else
        st = hr__schema_new(in->fields, in->n - s->n_hidden, out, err);
done:
    hr__order_free(order);
    hr__free(keys);
    return st;
}

static hr_status sort_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    const sort_op *s = (const sort_op *)op;

    (void)input;
    if (n < 0) {
        out->n = -1;
        return HR_OK;
    }
    for (int i = 0; i < n; i++)
        HR_TRY(hr__needs_add(out, wanted[i], err));
    for (int i = 0; i < s->n_keys; i++)
        HR_TRY(hr__needs_add(out, s->keys[i].name, err));
    return HR_OK;
}

static hr_status sort_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    sort_state *state = hr__zalloc(run->account, sizeof *state);

    if (!state)
        return hr__error_memory(err, op->cls->name, sizeof *state);
    hr__mutex_init(&state->lock);
    run->state = state;
    return HR_OK;
}

static void sort_stop(const hr_op *op, hr_op_run *run)
{
    sort_state *state = run->state;

    (void)op;
    hr__sorter_free(state->sorter);
    hr__schema_unref(state->in);
    hr__schema_unref(state->schema);
    hr__mutex_clear(&state->lock);
    hr__free(state);
    run->state = NULL;
}

static hr_status sort_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    sort_state *state = hr__task_run(task)->state;
    hr_table *t = NULL;

    (void)op;
    HR_TRY(hr__table_with_origin(in, NULL, &t, err));
    hr__sorter_may_hold(state->sorter, hr__op_allowance(hr__task_run(task)));
    return hr__sorter_add(state->sorter, t, err);
}

static hr_status sort_block_parts(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
{
    sort_state *state = hr__task_run(task)->state;

    (void)op;
    *n = 0;
    if (!state->sorter)
        return HR_OK;
    hr__sorter_may_hold(state->sorter, hr__op_allowance(hr__task_run(task)));
    return hr__sorter_end(state->sorter, n, err);
}

static hr_status sort_read(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                           int64_t *estimate, hr_error *err)
{
    sort_state *state = run->state;

    (void)op;
    return hr__sorter_read(state->sorter, block_part, mem, out, estimate, err);
}

static void describe_first(const sort_op *s, hr_text *out)
{
    if (s->n_first)
        hr__text_add(out, ": keeps the first %lld rows", (long long)s->n_first);
}

static void sort_describe(const hr_op *op, hr_text *out)
{
    const sort_op *s = (const sort_op *)op;

    hr__text_add(out, "sort(");
    for (int i = 0; i < s->n_keys; i++)
        hr__text_add(out, "%s%s%s%s", i ? ", " : "", s->keys[i].text ? s->keys[i].text : s->keys[i].name,
                     s->keys[i].descending ? " descending" : "", s->keys[i].nulls_first ? " nulls first" : "");
    hr__text_add(out, ")");
    describe_first(s, out);
}

static void sort_fingerprint(const hr_op *op, hr_hash *h)
{
    const sort_op *s = (const sort_op *)op;

    for (int i = 0; i < s->n_keys; i++) {
        hr__hash_text(h, s->keys[i].name);
        hr__hash_int(h, s->keys[i].descending + 2 * s->keys[i].nulls_first);
    }
    hr__hash_int(h, s->n_hidden);
}

static void shuffle_describe(const hr_op *op, hr_text *out)
{
    const sort_op *s = (const sort_op *)op;

    if (s->seed.own)
        hr__text_add(out, "random_shuffle(seed=%llu%s)", (unsigned long long)s->seed.seed,
                     s->seed.once ? "" : ", each epoch anew");
    else
        hr__text_add(out, "random_shuffle(%s)", s->seed.once ? "each epoch alike" : "");
    describe_first(s, out);
}

static void shuffle_fingerprint(const hr_op *op, hr_hash *h)
{
    const sort_op *s = (const sort_op *)op;

    hr__shuffle_fingerprint(&s->seed, h);
    if (s->block_rows)
        hr__hash_int(h, s->block_rows);
}

static void blocks_describe(const hr_op *op, hr_text *out)
{
    const sort_op *s = (const sort_op *)op;

    hr__text_add(out, "shuffle_blocks(%lld rows", (long long)s->block_rows);
    if (s->seed.own)
        hr__text_add(out, ", seed=%llu%s", (unsigned long long)s->seed.seed, s->seed.once ? "" : ", each epoch anew");
    hr__text_add(out, ")");
    describe_first(s, out);
}

static void partition_describe(const hr_op *op, hr_text *out)
{
    const sort_op *s = (const sort_op *)op;

    hr__text_add(out, "repartition(%lld by ", (long long)s->n_parts);
    for (int i = 0; i < s->n_keys; i++)
        hr__text_add(out, "%s%s", i ? ", " : "", s->keys[i].name);
    hr__text_add(out, s->sorted ? ", sorted)" : ")");
}

static void partition_fingerprint(const hr_op *op, hr_hash *h)
{
    const sort_op *s = (const sort_op *)op;

    sort_fingerprint(op, h);
    hr__hash_int(h, s->n_parts);
    hr__hash_int(h, s->sorted);
}

static void sort_free(hr_op *op)
{
    sort_op *s = (sort_op *)op;

    for (int i = 0; i < s->n_keys; i++) {
        hr__free((char *)s->keys[i].name);
        hr__free((char *)s->keys[i].text);
    }
    hr__free(s->keys);
    hr__free(s);
}

static hr_status sort_new(const hr_op_class *cls, const hr_sort_column *keys, int n, sort_op **out, hr_error *err);

static hr_status sort_first_rows(const hr_op *op, int64_t n_rows, hr_op **out, hr_error *err)
{
    const sort_op *of = (const sort_op *)op;
    sort_op *s;

    *out = NULL;
    HR_TRY(sort_new(op->cls, of->keys, of->n_keys, &s, err));
    s->n_hidden = of->n_hidden;
    s->seed = of->seed;
    s->block_rows = of->block_rows;
    s->n_first = HR_MAX(1, n_rows);
    *out = &s->base;
    return HR_OK;
}

static int sort_order_keys(const hr_op *op, const char **names, int most)
{
    const sort_op *s = (const sort_op *)op;
    int n = s->n_hidden ? 0 : HR_MIN(s->n_keys, most);

    for (int i = 0; i < n; i++)
        names[i] = s->keys[i].name;
    return n;
}

/* Members that the three classes share. */
#define REORDERS                                                                                                       \
    .kind = HR_OP_BLOCK, .same_rows = true, .numbered = true, .schema = sort_schema, .needs = sort_needs,              \
    .front = sort_front, .start = sort_start, .stop = sort_stop, .push = sort_push, .block_parts = sort_block_parts,   \
    .read = sort_read, .free = sort_free

static const hr_op_class sort_class = {
    .name = "sort",
    .doc = "all rows, ordered by columns",
    .filter_upstream = true,
    .order_keys = sort_order_keys,
    .first_rows = sort_first_rows,
    .describe = sort_describe,
    .fingerprint = sort_fingerprint,
    REORDERS,
};

static const hr_op_class random_shuffle_class = {
    .name = "random_shuffle",
    .doc = "all rows, in random order",
    .first_rows = sort_first_rows,
    .describe = shuffle_describe,
    .fingerprint = shuffle_fingerprint,
    REORDERS,
};

static const hr_op_class shuffle_blocks_class = {
    .name = "shuffle_blocks",
    .doc = "all rows, blocks of neighbours in random order",
    .first_rows = sort_first_rows,
    .describe = blocks_describe,
    .fingerprint = shuffle_fingerprint,
    REORDERS,
};

static const hr_op_class hash_partition_class = {
    .name = "repartition_by_keys",
    .doc = "rows with equal keys into the same one of n tables",
    .filter_upstream = true,
    .describe = partition_describe,
    .fingerprint = partition_fingerprint,
    REORDERS,
};

static hr_status copy_keys(sort_op *s, const hr_sort_column *keys, int n, hr_error *err)
{
    if (!(s->keys = hr__zalloc(NULL, (size_t)n * sizeof *s->keys)))
        return hr__error_memory(err, "sort", n * (int64_t)sizeof *s->keys);
    for (s->n_keys = 0; s->n_keys < n;) {
        hr_sort_column *k = &s->keys[s->n_keys++];

        *k = keys[s->n_keys - 1];
        k->name = hr__strdup(NULL, k->name);
        k->text = hr__strdup(NULL, k->text);
        if (!k->name || (keys[s->n_keys - 1].text && !k->text))
            return hr__error_memory(err, "sort", n);
    }
    return HR_OK;
}

static hr_status sort_new(const hr_op_class *cls, const hr_sort_column *keys, int n, sort_op **out, hr_error *err)
{
    sort_op *s = hr__zalloc(NULL, sizeof *s);
    hr_status st;

    *out = NULL;
    if (!s)
        return hr__error_memory(err, cls->name, sizeof *s);
    hr__op_init(&s->base, cls);
    if ((st = copy_keys(s, keys, n, err))) {
        sort_free(&s->base);
        return st;
    }
    *out = s;
    return HR_OK;
}

hr_status hr__op_sort(const hr_sort_column *keys, int n, int n_hidden, hr_op **out, hr_error *err)
{
    sort_op *s;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "sort: at least one key is needed");
    HR_TRY(sort_new(&sort_class, keys, n, &s, err));
    s->n_hidden = n_hidden;
    *out = &s->base;
    return HR_OK;
}

hr_status hr__op_hash_partition(const hr_sort_column *keys, int n, int64_t n_parts, bool sorted, hr_op **out,
                                hr_error *err)
{
    sort_op *s;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "repartition: at least one key is needed");
    if (n_parts < 1 || n_parts > MOST_PARTS)
        return hr_error_set(err, HR_INVALID, "repartition: %lld blocks by keys; expected 1 to %d", (long long)n_parts,
                            MOST_PARTS);
    HR_TRY(sort_new(&hash_partition_class, keys, n, &s, err));
    s->n_parts = n_parts;
    s->base.makes_blocks = true;
    s->sorted = sorted;
    *out = &s->base;
    return HR_OK;
}

static hr_status shuffle_new(const hr_op_class *cls, const hr_shuffle_seed *seed, int64_t block_rows, hr_op **out,
                             hr_error *err)
{
    sort_op *s = hr__zalloc(NULL, sizeof *s);

    *out = NULL;
    if (!s)
        return hr__error_memory(err, cls->name, sizeof *s);
    hr__op_init(&s->base, cls);
    s->seed = *seed;
    s->base.by_epoch = !seed->once;
    s->block_rows = block_rows;
    *out = &s->base;
    return HR_OK;
}

hr_status hr__op_random_shuffle(const hr_shuffle_seed *seed, hr_op **out, hr_error *err)
{
    return shuffle_new(&random_shuffle_class, seed, 0, out, err);
}

hr_status hr__op_shuffle_blocks(const hr_shuffle_seed *seed, int64_t block_rows, hr_op **out, hr_error *err)
{
    return shuffle_new(&shuffle_blocks_class, seed, block_rows, out, err);
}
