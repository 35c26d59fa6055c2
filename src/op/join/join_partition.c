/* join_partition.c - joins a left and a right partition, for sides that do not fit in memory.
 *
 * The right rows become a table of keys; the left rows are looked up in it, table by table. If the right rows exceed
 * the operator's share of memory (even those of a single key), they are loaded in *rounds*, as many as fit, and the
 * left rows are read again in each round. Only after the last round is it known whether a left row has a partner: a bit
 * per left row records it, and output rows that depend on it come at the end. The output carries the places of its rows
 * (join_mode_partitioned.c), which restore the order.
 *
 * Tests: test_keyed.c. */
#include "op/join/join.h"

#include <inttypes.h>
#include <stdio.h>

/* ----------------------------------------------------------------------------------------------------------- places */

hr_status hr__join_with_places(const hr_table *t, hr_schema *schema, hr_buffer *places, hr_table **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, places, NULL };
    hr_array *column = NULL;

    *out = NULL;
    HR_TRY(hr__array_new(hr__type_simple(HR_T_INT64), t->n_rows, 0, buffers, NULL, 0, &column, err));
    return hr__table_append(t, schema, column, NULL, out, err);
}

hr_status hr__join_schema_with_places(const hr_schema *s, int64_t n_places, hr_schema **out, hr_error *err)
{
    char text[32];
    hr_status st;

    HR_TRY(hr__schema_append(s, HR_PLACE_COLUMN, hr__type_simple(HR_T_INT64), false, out, err));
    if (n_places < 0)
        return HR_OK;
    snprintf(text, sizeof text, "%" PRId64, n_places);
    st =
        hr__metadata_set(&(*out)->metadata, &(*out)->metadata_bytes, HR_PLACE_COLUMN, text, (int64_t)strlen(text), err);
    if (st) {
        hr__schema_unref(*out);
        *out = NULL;
    }
    return st;
}

static const int64_t *places_of(const hr_table *t)
{
    return (const int64_t *)(const void *)hr__array_values(t->columns[t->schema->n - 1]);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

typedef enum phase { LOAD, LEFT, UNMATCHED, REST, DONE } phase;

typedef struct part_reader {
    hr_reader base;
    const hr_join_partitions *parts;
    hr_account *account;
    hr_mem mem;
    hr_schema *out;      /* with places */
    hr_join_bound round; /* the join of one round; borrows from parts->bound */
    phase phase;
    int64_t n_right, n_loaded; /* right rows of the partition; of all rounds so far */
    hr_partition_store_cursor right, left;
    hr_join_table *table;            /* of the round */
    int64_t *places;                 /* of the round's right rows */
    int64_t row;                     /* the next of them to check for a partner */
    uint8_t *had;                    /* several rounds: bits of the left rows with a partner; NULL: one round */
    int64_t first_left;              /* number of the first row of left_rows */
    hr_table *left_rows, *walk_rows; /* the current left table, with places and without */
    hr_join_walk walk;
} part_reader;

static bool keeps_right(hr_join_kind kind) { return kind == HR_JOIN_RIGHT || kind == HR_JOIN_FULL; }

/* Whether output rows depend on a left row having any partner. */
static bool has_rest(hr_join_kind kind) { return kind != HR_JOIN_INNER && kind != HR_JOIN_RIGHT; }

static void forget_left(part_reader *r)
{
    hr__join_walk_end(&r->walk);
    hr_table_unref(r->left_rows);
    hr_table_unref(r->walk_rows);
    r->left_rows = r->walk_rows = NULL;
}

static void forget_round(part_reader *r)
{
    forget_left(r);
    hr__join_table_free(r->table);
    hr__free(r->places);
    r->table = NULL;
    r->places = NULL;
}

static void part_close(hr_reader *base)
{
    part_reader *r = (part_reader *)base;

    forget_round(r);
    hr__free(r->had);
    hr__schema_unref(r->out);
    hr__free(r);
}

/* Loads the next right tables, as many as fit, as one table. *out is new. */
static hr_status load_tables(part_reader *r, hr_table **out, hr_error *err)
{
    const hr_mem mem = { .account = r->account };
    hr_table **tables = NULL, *t = NULL;
    int64_t n = 0, cap = 0, n_bytes = 0;
    hr_status st = HR_OK;

    *out = NULL;
    while (!r->had || n_bytes < r->parts->share) {
        HR_GO(hr__partition_store_next(&r->right, &mem, &t, err));
        if (!t)
            break;
        if (!hr__grow(r->account, (void **)&tables, &cap, n + 1, sizeof *tables)) {
            hr_table_unref(t);
            HR_GO(hr__error_memory(err, "join", n * 8));
        }
        n_bytes += hr__table_bytes_used(t);
        tables[n++] = t;
    }
    st = hr__table_concat(&mem, r->parts->right_schema, tables, (int)n, out, err);
done:
    for (int64_t i = 0; i < n; i++)
        hr_table_unref(tables[i]);
    hr__free(tables);
    return st;
}

static hr_status load_round(part_reader *r, hr_error *err)
{
    const hr_join_bound *b = r->parts->bound;
    hr_table *all = NULL, *rows = NULL;
    hr_status st = HR_OK;

    HR_GO(load_tables(r, &all, err));
    r->n_loaded += all->n_rows;
    if (!(r->places = hr__alloc(r->account, (size_t)(all->n_rows + 1) * sizeof *r->places)))
        HR_GO(hr__error_memory(err, "join", all->n_rows * 8));
    if (all->n_rows)
        memcpy(r->places, places_of(all), (size_t)all->n_rows * 8);
    HR_GO(hr__table_first(all, b->right_in, &rows, err));
    st = hr__join_table_new(b->right_keys, b->n_keys, rows, NULL, r->account, &r->table, err);
    r->left.at = r->first_left = r->row = 0;
    r->left.drain = r->n_loaded >= r->n_right && !(r->had && has_rest(b->kind));
done:
    hr_table_unref(all);
    return st;
}

/* The next left table of the partition; left_rows NULL: no more. */
static hr_status next_left(part_reader *r, hr_error *err)
{
    const hr_mem mem = { .account = r->account };

    if (r->left_rows)
        r->first_left += r->left_rows->n_rows;
    forget_left(r);
    if (r->parts->left)
        HR_TRY(hr__partition_store_next(&r->left, &mem, &r->left_rows, err));
    return r->left_rows ? hr__table_first(r->left_rows, r->parts->bound->left_in, &r->walk_rows, err) : HR_OK;
}

/* Adds the places of its rows to the table found: places[picks[i]] + more. */
static hr_status place_rows(part_reader *r, const hr_table *found, const int32_t *picks, const int64_t *places,
                            int64_t more, hr_table **out, hr_error *err)
{
    hr_table *placed = NULL;
    hr_origin *origin = NULL;
    hr_buffer *b = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__buffer_new(&r->mem, found->n_rows * 8, &b, err));
    for (int64_t i = 0; i < found->n_rows; i++)
        ((int64_t *)(void *)b->data)[i] = places[picks[i]] + more;
    HR_GO(hr__join_with_places(found, r->out, b, &placed, err));
    HR_GO(hr__origin_new(&(hr_run_coords){ .n = found->n_rows }, 1, &origin, err));
    st = hr__table_with_origin(placed, origin, out, err);
done:
    hr__origin_unref(origin);
    hr_table_unref(placed);
    return st;
}

/* Output rows of the current left table, or of the next one. *found NULL: none yet, call again. */
static hr_status step_left(part_reader *r, hr_table **found, int32_t **picks, hr_error *err)
{
    hr_join_kind kind = r->parts->bound->kind;

    if (r->walk.left) {
        HR_TRY(hr__join_walk_next(&r->walk, &r->round, r->table, &r->mem, found, picks, err));
        if (*found)
            return HR_OK;
    }
    HR_TRY(next_left(r, err));
    if (!r->left_rows) {
        r->phase = UNMATCHED;
        return HR_OK;
    }
    HR_TRY(hr__join_walk_begin(&r->walk, &r->round, r->table, r->walk_rows, err));
    if (r->had && has_rest(kind))
        hr__join_walk_mark(&r->walk, r->table, r->had, r->first_left);
    if (r->had && kind >= HR_JOIN_SEMI)
        hr__join_walk_end(&r->walk);
    return HR_OK;
}

/* After the last round: the output rows that depend on the bits. */
static hr_status step_rest(part_reader *r, hr_table **found, int32_t **picks, hr_error *err)
{
    HR_TRY(next_left(r, err));
    if (!r->left_rows) {
        r->phase = DONE;
        return HR_OK;
    }
    return hr__join_rest(r->parts->bound, r->table, r->walk_rows, r->had, r->first_left, &r->mem, found, picks, err);
}

static hr_status begin_round(part_reader *r, hr_error *err)
{
    r->phase = LEFT;
    if (!r->table || r->n_loaded < r->n_right) {
        forget_round(r);
        return load_round(r, err);
    }
    r->phase = r->had && has_rest(r->parts->bound->kind) ? REST : DONE;
    r->left.at = r->first_left = 0;
    r->left.drain = true;
    return HR_OK;
}

static hr_status next_of_part(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    part_reader *r = (part_reader *)base;
    int32_t *picks = NULL;
    hr_table *found = NULL;
    bool rights = false;
    hr_status st = HR_OK;

    (void)max_bytes;
    *out = NULL;
    while (!found && r->phase != DONE) {
        rights = r->phase == UNMATCHED;
        if (r->phase == LOAD)
            HR_GO(begin_round(r, err));
        else if (r->phase == LEFT)
            HR_GO(step_left(r, &found, &picks, err));
        else if (r->phase == REST)
            HR_GO(step_rest(r, &found, &picks, err));
        else {
            if (keeps_right(r->round.kind))
                HR_GO(hr__join_unmatched(&r->round, r->table, &r->row, &r->mem, &found, &picks, err));
            if (!found)
                r->phase = LOAD;
        }
    }
    if (found)
        st = rights ? place_rows(r, found, picks, r->places, r->parts->n_left, out, err)
                    : place_rows(r, found, picks, places_of(r->left_rows), 0, out, err);
done:
    hr__free(picks);
    hr_table_unref(found);
    return st;
}

static const hr_reader_class part_reading = { .next = next_of_part, .close = part_close };

/* The right rows do not fit: prepares bits for the left rows, and rounds without rows that have no partner. */
static hr_status begin_rounds(part_reader *r, int64_t n_left, hr_error *err)
{
    hr_join_kind kind = r->round.kind;

    if (!(r->had = hr__zalloc(r->account, (size_t)hr__bits_bytes(n_left) + 1)))
        return hr__error_memory(err, "join", n_left / 8);
    if (kind == HR_JOIN_LEFT)
        r->round.kind = HR_JOIN_INNER;
    else if (kind == HR_JOIN_FULL)
        r->round.kind = HR_JOIN_RIGHT;
    return HR_OK;
}

hr_status hr__join_partition_read(const hr_join_partitions *p, int part, hr_account *account, const hr_mem *mem,
                                  hr_reader **out, int64_t *estimate, hr_error *err)
{
    hr_partition_store_size right = hr__partition_store_size(p->right, part), left = { 0 };
    int64_t n_bytes = right.memory_bytes + right.disk_bytes;
    part_reader *r = hr__zalloc(account, sizeof *r);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, "join", sizeof *r);
    if (p->left)
        left = hr__partition_store_size(p->left, part);
    r->base.cls = &part_reading;
    r->parts = p;
    r->account = account;
    r->mem = *mem;
    r->round = *p->bound;
    r->n_right = right.rows;
    r->right = (hr_partition_store_cursor){ .store = p->right, .part = part, .drain = true };
    r->left = (hr_partition_store_cursor){ .store = p->left, .part = part };
    if (!left.rows && !keeps_right(p->bound->kind))
        r->phase = DONE;
    else if (n_bytes > p->share)
        HR_GO(begin_rounds(r, left.rows, err));
    HR_GO(hr__join_schema_with_places(p->bound->out, p->n_left + p->n_right, &r->out, err));
    *estimate = HR_MAX(*estimate, 2 * HR_MIN(n_bytes, p->share + HR_PARTITION_STORE_PAGE) + left.rows / 8);
    *out = &r->base;
    r = NULL;
done:
    if (r)
        part_close(&r->base);
    return st;
}
