/* row_leaf.c - a leaf whose rows are cached: it reads those that the cache has, and computes the others.
 *
 * The rows of the plan below the cache, in their order, are a chain of *stretches* (format/spill/row_cache.h). Each
 * begins at a marker, and says at which marker the next one begins. A ticket is one stretch:
 *
 *   in the cache      pool threads read the tables of several stretches at the same time
 *   not in the cache  the ticket starts a run of the plan below, at the marker, and takes its tables until the stretch
 *                     ends. It passes them on and writes them. Only then is it known where the next stretch begins, so
 *                     the stage makes no ticket meanwhile; the next ticket goes on with the same run
 *   damaged           the ticket starts a run of its own at the stretch's marker, for as many rows as are missing
 *
 * 1. The inner run has the numbers of operators and sources that its plan would have without the cache, so rows have
 *    the same coordinates, random numbers and markers. Its epoch is 0.
 * 2. A stretch ends where a marker lies and another fragment, or another part of a large one, begins. That depends on
 *    the marker and on bytes, mostly not on where the run began: so a run that resumes in the middle of a stretch comes
 *    back to the stretches of the others.
 * 3. Map operators downstream of a plan of one scan and map operators run on the stretches, as they would on the scan's
 *    tickets: a stretch then begins at a multiple of BLOCK_ROWS in its fragment. After other plans each table is a
 *    ticket of the next stage, as after a stream operator (hr__row_leaf_gives_tables).
 * 4. A run that computes goes on to compute, without writing, unless SWITCH_AFTER stretches follow in the cache: else
 *    two processes that fill one cache side by side would stop and start a run at each stretch.
 *
 * Locks. `lock` guards the list of inner runs, and each inner run's `lock` its waiting ticket; both are taken without
 * run->lock. `computes` is guarded by run->lock. The thread that makes a ticket (window.taking), or else the ticket
 * that computes, owns `next` and `spare`.
 *
 * Tests: test_row_cache.c, test_row_cache.py. */
#include "exec/run.h"
#include "format/spill/row_cache.h"

#include <inttypes.h>

#define BLOCK_ROWS 4096
#define STRETCH_BYTES (64 << 20) /* a stretch ends when it has these */
#define LEAST_BYTES (1 << 20)    /* and not before, unless: */
#define STRETCH_FILES 16         /* the number of the file passed a multiple of this */
#define STRETCH_ROWS (16 << 12)  /* a large fragment is cut at multiples of this */
#define SWITCH_AFTER 4

/* What the operators of inner runs did, of all that were closed. */
typedef struct op_sum {
    char *name;
    int64_t calls, rows_in, rows_out, busy_ns, cpu_ns, wait_ns, bytes_out, peak, spill_written, spill_read;
} op_sum;

/* A run of the plan below. */
typedef struct inner {
    struct hr_row_leaf *cache;
    hr_run *run;
    hr_table *ahead; /* the run gave it, and nobody has taken it; NULL: none */
    hr_marker *ahead_at;
    hr_mutex lock;
    hr_resume *waiting; /* the ticket that waits for news; NULL: none */
    bool news;
    struct inner *next; /* in the list */
} inner;

typedef struct hr_row_leaf {
    hr_plan *plan; /* borrowed: the plan below */
    hr_row_cache *rows;
    hr_op_state *op; /* of the cache node: counters */
    int first_op, n_ops, first_instance, n_instances;
    int64_t block_rows, align;
    bool gives_tables;
    char *next;    /* where the next stretch begins; NULL: there is none */
    inner *spare;  /* a run that stands at `next` */
    bool computes; /* a ticket computes the stretch that ends at the next `next` */
    hr_mutex lock;
    inner *runs;
    op_sum *sums;
    int n_sums;
    hr_run_counts counts;
    int64_t read_ns;
    _Atomic int64_t cached_rows, computed_rows, stretches;
} hr_row_leaf;

/* The stretch of one ticket. */
typedef struct hr_row_part {
    char *from;
    const hr_stretch *stretch; /* NULL: it is computed */
    int64_t at_table;
    int64_t rows_given;
    bool decides;      /* it finds out where the next stretch begins */
    int64_t rows_end;  /* of a damaged stretch: its rows; < 0: not known */
    int64_t rows_skip; /* of the inner run: given already */
    inner *run;
    hr_stretch_writer *writer;
    bool begun;
    hr_coord begin; /* of its first marker */
    int64_t bytes;
} hr_row_part;

/* ------------------------------------------------------------------------------------------------------ inner runs */

/* The inner run has a table, its end, an error or an inline call. Any thread, no locks. */
static void inner_ready(void *context)
{
    inner *r = context;
    hr_resume *waiting;

    hr__lock(&r->lock);
    r->news = true;
    waiting = r->waiting;
    r->waiting = NULL;
    hr__unlock(&r->lock);
    if (waiting)
        hr__resume(waiting, HR_OK, NULL);
}

static hr_run_options inner_options(const hr_stage *s)
{
    const hr_run_options *outer = &s->run->options;
    const hr_row_leaf *c = s->cache;

    return (hr_run_options){
        .seed = outer->seed,
        .num_threads = outer->num_threads,
        .memory_limit = outer->memory_limit,
        .prefetch = 4,
        .small_for = 1,
        .careful = s->window.begins_small,
        .other_code = outer->other_code,
        .first_op = c->first_op,
        .first_instance = c->first_instance,
        .block_rows = c->block_rows,
        .outer = s->run,
    };
}

/* few: not many rows are needed. */
static hr_status inner_open(hr_stage *s, const char *from, bool few, inner **out, hr_error *err)
{
    hr_run_options o = inner_options(s);
    inner *r = hr__zalloc(s->run->account, sizeof *r);
    hr_marker *m = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, "cache", sizeof *r);
    hr__mutex_init(&r->lock);
    r->cache = s->cache;
    if (*from)
        HR_GO(hr__marker_parse(from, &m, err));
    o.from = m;
    o.careful = o.careful || few;
    o.ready = inner_ready;
    o.ready_context = r;
    HR_GO(hr__run_start(s->cache->plan, &o, &r->run, err));
    hr__lock(&s->cache->lock);
    r->next = s->cache->runs;
    s->cache->runs = r;
    hr__unlock(&s->cache->lock);
    *out = r;
    r = NULL;
done:
    hr__marker_drop(m);
    if (r)
        hr__mutex_clear(&r->lock);
    hr__free(r);
    return st;
}

static void add_op(op_sum *sum, const hr_op_state *o)
{
    hr_call_sums times = hr__call_sums(&o->times);

    sum->calls += times.calls;
    sum->rows_in += o->rows_in;
    sum->rows_out += o->rows_out;
    sum->busy_ns += times.busy_ns;
    sum->cpu_ns += times.cpu_ns;
    sum->wait_ns += o->pending_ns;
    sum->bytes_out += o->bytes_out;
    sum->peak = HR_MAX(sum->peak, hr__account_peak(o->run.account));
    sum->spill_written += hr__account_spill_written(o->run.account);
    sum->spill_read += hr__account_spill_read(o->run.account);
}

static void add_counts(hr_run_counts *to, hr_run *run)
{
    hr_run_counts c;

    hr__run_counts(run, &c);
    to->files_opened += c.files_opened;
    to->fragments_read += c.fragments_read;
    to->rows_read += c.rows_read;
    to->fragments_skipped += c.fragments_skipped;
    to->rows_skipped += c.rows_skipped;
    to->pages_skipped += c.pages_skipped;
    to->bloom_hits += c.bloom_hits;
    to->bad_rows += c.bad_rows;
}

static int64_t read_ns_of(const hr_run *run)
{
    int64_t ns = 0;

    for (int i = 0; i < run->n_stages; i++)
        ns += hr__call_sums(&run->stages[i]->counts.reads).busy_ns + hr__row_leaf_read_ns(run->stages[i]);
    return ns;
}

int64_t hr__row_leaf_read_ns(const hr_stage *s)
{
    hr_row_leaf *c = s->cache;
    int64_t ns;

    if (!c)
        return 0;
    hr__lock(&c->lock);
    ns = c->read_ns;
    for (inner *r = c->runs; r; r = r->next)
        ns += read_ns_of(r->run);
    hr__unlock(&c->lock);
    return ns;
}

static void inner_close(inner *r)
{
    hr_row_leaf *c;

    if (!r)
        return;
    c = r->cache;
    hr__lock(&c->lock);
    for (inner **at = &c->runs; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    for (int i = 0; i < HR_MIN(r->run->n_ops, c->n_sums); i++)
        add_op(&c->sums[i], r->run->ops[i]);
    add_counts(&c->counts, r->run);
    c->read_ns += read_ns_of(r->run);
    hr__unlock(&c->lock);
    hr__run_close(r->run);
    hr_table_unref(r->ahead);
    hr__marker_drop(r->ahead_at);
    hr__mutex_clear(&r->lock);
    hr__free(r);
}

void hr__row_leaf_cancel(hr_run *outer)
{
    for (int i = 0; i < outer->n_stages; i++) {
        hr_row_leaf *c = outer->stages[i]->cache;

        if (!c)
            continue;
        hr__lock(&c->lock);
        for (inner *r = c->runs; r; r = r->next)
            hr__run_cancel(r->run);
        hr__unlock(&c->lock);
    }
}

/* The next table of the run, and the marker before it (NULL: none). *table NULL: the end. HR_PENDING: the ticket is
 * suspended until the run has news. */
static hr_status inner_next(inner *r, hr_ticket *t, hr_table **table, hr_marker **at)
{
    hr_resume *resume = NULL;
    hr_status st;
    bool news;

    if (r->ahead) {
        *table = r->ahead;
        *at = r->ahead_at;
        r->ahead = NULL;
        r->ahead_at = NULL;
        return HR_OK;
    }
    for (;;) {
        hr__lock(&r->lock);
        r->news = false;
        hr__unlock(&r->lock);
        if ((st = hr__run_next(r->run, 0, table, at, &t->err)) != HR_PENDING)
            return st;
        HR_TRY(hr__ticket_suspend(t, &resume, &t->err));
        hr__lock(&r->lock);
        news = r->news;
        if (!news)
            r->waiting = resume;
        hr__unlock(&r->lock);
        if (!news)
            return HR_PENDING;
        hr__ticket_stay(resume);
    }
}

/* ---------------------------------------------------------------------------------------------------- the stage */

/* A scan and map operators, whose tickets are ranges of its rows. */
static bool is_of_scan(const hr_plan *p)
{
    while (p->kind == HR_PLAN_OP && p->op->cls->kind == HR_OP_MAP && !p->op->cls->new_rows && !p->op->caches &&
           !p->op->closes)
        p = p->inputs[0];
    return p->kind == HR_PLAN_SCAN;
}

static int64_t common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b;

    while (y) {
        int64_t rest = x % y;

        x = y;
        y = rest;
    }
    return a / x * b;
}

/* Asks a run that never starts for its numbers and for the names of its operators. */
static hr_status number(hr_stage *s, hr_error *err)
{
    hr_row_leaf *c = s->cache;
    hr_run_options o = inner_options(s);
    hr_run *run = NULL;
    hr_status st = HR_OK;

    o.is_trial = true;
    HR_GO(hr__run_new(c->plan, &o, &run, err));
    c->n_ops = run->n_plan_ops;
    c->n_sums = run->n_ops;
    c->n_instances = run->n_instances - c->first_instance;
    if (!(c->sums = hr__zalloc(s->run->account, ((size_t)c->n_sums + 1) * sizeof *c->sums)))
        HR_GO(hr__error_memory(err, "cache", c->n_sums * (int64_t)sizeof *c->sums));
    for (int i = 0; i < run->n_ops; i++) {
        const hr_op *op = run->ops[i]->run.op;
        hr_text name = { 0 };

        if (op->cls->describe)
            op->cls->describe(op, &name);
        c->sums[i].name = hr__strdup(NULL, name.data && !name.failed ? name.data : op->cls->name);
        hr__text_clear(&name);
        if (!c->sums[i].name)
            HR_GO(hr__error_memory(err, "cache", 64));
    }
done:
    hr__run_close(run);
    return st;
}

static hr_status key_of(const hr_row_leaf *c, const hr_plan *p, uint64_t seed, hr_bits128 *out, hr_error *err)
{
    const int64_t numbers[] = { c->first_op, c->first_instance, c->block_rows, c->align };

    return hr__plan_cache_key(p, seed, numbers, HR_LEN(numbers), out, err);
}

hr_status hr__row_leaf_build(hr_stage *s, hr_plan *p, int64_t blocks, hr_error *err)
{
    hr_run *r = s->run;
    const hr_cache_place *place = p->op->caches;
    hr_row_leaf *c = s->cache = hr__zalloc(r->account, sizeof *c);
    hr_bits128 key;

    if (!c)
        return hr__error_memory(err, "cache", sizeof *c);
    hr__mutex_init(&c->lock);
    c->plan = p->inputs[0];
    c->first_op = r->options.first_op + r->n_ops + r->n_other_ops;
    c->first_instance = r->n_instances;
    c->gives_tables = !is_of_scan(c->plan);
    c->align = c->gives_tables ? 1 : common_multiple(BLOCK_ROWS, HR_MAX(1, blocks));
    c->block_rows = c->gives_tables ? blocks : 0;
    if (!(c->next = hr__strdup(r->account, "")))
        return hr__error_memory(err, "cache", 1);
    HR_TRY(number(s, err));
    r->n_other_ops += c->n_ops;
    r->n_instances += c->n_instances;
    HR_TRY(hr__op_state_new(r, p->op, -1, &c->op, err));
    if (r->options.is_trial)
        return HR_OK;
    HR_TRY(key_of(c, p, r->options.seed, &key, err));
    return hr__row_cache_new(place->folder, place->limit, key, place->state, c->op->run.account, &c->rows, err);
}

void hr__row_leaf_free(hr_stage *s)
{
    hr_row_leaf *c = s->cache;

    if (!c)
        return;
    inner_close(c->spare);
    for (int i = 0; c->sums && i < c->n_sums; i++)
        hr__free(c->sums[i].name);
    hr__free(c->sums);
    hr__free(c->next);
    hr__row_cache_free(c->rows);
    if (c->op)
        hr__op_state_free(s->run, c->op);
    hr__mutex_clear(&c->lock);
    hr__free(c);
    s->cache = NULL;
}

bool hr__row_leaf_gives_tables(const hr_stage *s) { return s->cache && s->cache->gives_tables; }

bool hr__row_leaf_waits(const hr_stage *s)
{
    hr__assert_stage_locked(s);
    return s->cache && s->cache->computes;
}

/* --------------------------------------------------------------------------------------------------------- taking */

/* The stretch at `from` if the stage should read it, new: a run that computes stops only for several of them. NULL: it
 * is computed. *exists: the cache has it. */
static const hr_stretch *choose(hr_row_leaf *c, const char *from, bool *exists)
{
    const hr_stretch *s = hr__row_cache_find(c->rows, from), *next = s;
    int n = 1;

    *exists = s != NULL;
    if (!s || !c->spare)
        return s;
    for (; next && next->next && n < SWITCH_AFTER; n++) {
        const hr_stretch *after = hr__row_cache_find(c->rows, next->next);

        if (next != s)
            hr__stretch_close(next);
        next = after;
    }
    if (next && next != s)
        hr__stretch_close(next);
    if (next)
        return s;
    hr__stretch_close(s);
    return NULL;
}

/* Gives the part the stretch that begins at c->next. */
static hr_status begin_part(hr_stage *s, hr_row_part *p, hr_error *err)
{
    hr_row_leaf *c = s->cache;
    char *next = NULL;
    bool exists;

    p->rows_end = -1;
    p->stretch = choose(c, c->next, &exists);
    if (p->stretch && p->stretch->next && !(next = hr__strdup(s->run->account, p->stretch->next)))
        return hr__error_memory(err, "cache", (int64_t)strlen(p->stretch->next));
    p->from = c->next;
    c->next = next;
    if (p->stretch) {
        inner_close(c->spare);
        c->spare = NULL;
        return HR_OK;
    }
    p->decides = true;
    p->run = c->spare;
    c->spare = NULL;
    c->computes = true; /* window.taking is set: no other thread looks at it */
    if (!exists)
        p->writer = hr__stretch_writer_new(c->rows, p->from);
    return HR_OK;
}

/* How much of the rows has tickets, by files: nobody knows the number of stretches. */
static void count_taken(hr_stage *s, const hr_coord *at)
{
    const hr_plan *p = s->cache->plan;

    while (p->n_inputs)
        p = p->inputs[0];
    if (!s->cache->gives_tables && hr__scan_n_files(p->scan) > 0)
        atomic_store_explicit(&s->counts.taken, (int)((int64_t)TAKEN_ALL * at->file / hr__scan_n_files(p->scan)),
                              memory_order_relaxed);
}

hr_status hr__row_leaf_take(hr_stage *s, hr_ticket **out, hr_error *err)
{
    hr_ticket *t = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!s->cache->next)
        return HR_OK;
    HR_GO(hr__ticket_new(s, &t, err));
    if (!(t->part = hr__zalloc(s->run->account, sizeof *t->part)))
        HR_GO(hr__error_memory(err, "cache", sizeof *t->part));
    HR_GO(begin_part(s, t->part, err));
    if (*t->part->from)
        HR_GO(hr__marker_parse(t->part->from, &t->before, err));
    t->begin = t->before ? t->before->at : (hr_coord){ .instance = s->cache->first_instance };
    t->ordinal = t->begin.row / BLOCK_ROWS;
    count_taken(s, &t->begin);
    t->estimate = (256 << 10) + (t->part->stretch ? t->part->stretch->table_bytes : 2 * s->run->step_bytes);
    *out = t;
    t = NULL;
done:
    hr__ticket_free(t);
    return st;
}

void hr__row_leaf_part_free(hr_ticket *t)
{
    hr_row_part *p = t->part;

    if (!p)
        return;
    inner_close(p->run);
    hr__stretch_writer_drop(p->writer);
    hr__stretch_close(p->stretch);
    hr__free(p->from);
    hr__free(p);
    t->part = NULL;
}

/* --------------------------------------------------------------------------------------------------------- reading */

/* Passes a table on. Takes table and marker, even on failure. */
static hr_status give(hr_ticket *t, hr_table *table, hr_marker *at)
{
    hr_stage *s = t->stage;
    hr_item item = { .table = table, .marker = at };

    if (table->n_rows == 0) {
        hr__item_clear(&item);
        return HR_OK;
    }
    t->part->rows_given += table->n_rows;
    atomic_fetch_add_explicit(&s->cache->op->rows_out, table->n_rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->cache->op->bytes_out, hr__table_bytes_used(table), memory_order_relaxed);
    if (!t->before && !t->before_passed && at) { /* the first table of all: its marker is known only now */
        t->before = at;
        item.marker = NULL;
    }
    return hr__queue_push(s->n_ops ? &t->tasks[0].inbox : &t->out, s->run->account, item, &t->err);
}

/* The stretch is damaged: the ticket computes the rows that it has not given. */
static hr_status compute_instead(hr_ticket *t)
{
    hr_row_part *p = t->part;

    p->rows_end = p->stretch->n_rows;
    p->rows_skip = p->rows_given;
    hr__stretch_close(p->stretch);
    p->stretch = NULL;
    p->writer = NULL;
    return HR_OK;
}

static hr_status read_table(hr_ticket *t, const hr_mem *mem)
{
    hr_row_part *p = t->part;
    hr_table *table = NULL;
    hr_marker *m = NULL;
    const char *at;
    hr_status st;

    if (p->at_table >= p->stretch->n_tables) {
        t->input_done = true;
        return HR_OK;
    }
    st = hr__stretch_read(p->stretch, p->at_table, mem, &table, &at, &t->err);
    if (st == HR_BAD_DATA) {
        hr_error_clear(&t->err);
        return compute_instead(t);
    }
    HR_TRY(st);
    if (at && (p->at_table || !*p->from) && hr__marker_parse(at, &m, NULL))
        m = NULL; /* no memory: a resume goes back further */
    p->at_table++;
    atomic_fetch_add_explicit(&t->stage->cache->cached_rows, table->n_rows, memory_order_relaxed);
    return give(t, table, m);
}

/* ------------------------------------------------------------------------------------------------------- computing */

/* Whether a stretch that holds rows ends at the marker. */
static bool ends_at(const hr_row_leaf *c, const hr_row_part *p, const hr_marker *m)
{
    const hr_coord *a = &p->begin, *b = &m->at;
    bool other = a->instance != b->instance || a->file != b->file || a->fragment != b->fragment ||
                 a->row / STRETCH_ROWS != b->row / STRETCH_ROWS;

    if (!p->begun || b->row % c->align)
        return false;
    if (p->bytes >= STRETCH_BYTES)
        return true;
    return other && (p->bytes >= LEAST_BYTES || a->file / STRETCH_FILES != b->file / STRETCH_FILES);
}

/* The stretch is complete; the next one begins at `at` (NULL: there is none). */
static hr_status end_part(hr_ticket *t, const hr_marker *at)
{
    hr_stage *s = t->stage;
    hr_row_leaf *c = s->cache;
    hr_row_part *p = t->part;
    hr_text text = { .account = s->run->account };

    if (at)
        hr__marker_print(at, &text);
    if (text.failed) {
        hr__text_clear(&text);
        return hr__error_memory(&t->err, "cache", 64);
    }
    hr__stretch_writer_end(p->writer, text.data);
    p->writer = NULL;
    t->input_done = true;
    atomic_fetch_add_explicit(&c->stretches, 1, memory_order_relaxed);
    c->next = text.data;
    c->spare = p->run;
    p->run = NULL;
    if (!at) { /* the run has ended */
        inner_close(c->spare);
        c->spare = NULL;
    }
    hr__run_lock(s->run);
    c->computes = false;
    hr__run_unlock(s->run);
    return HR_OK;
}

/* Rows of a damaged stretch: drops those that were given before, and those after its end. */
static hr_status cut_to_rest(hr_ticket *t, hr_table **table)
{
    hr_row_part *p = t->part;
    int64_t skip = HR_MIN(p->rows_skip, (*table)->n_rows);
    int64_t n = HR_MIN((*table)->n_rows - skip, p->rows_end - p->rows_given);
    hr_table *rest = NULL;

    p->rows_skip -= skip;
    if (n == (*table)->n_rows)
        return HR_OK;
    HR_TRY(hr_table_slice(*table, skip, n, &rest, &t->err));
    hr_table_unref(*table);
    *table = rest;
    return HR_OK;
}

/* Passes on and writes a table of the run. Takes both, even on failure. */
static hr_status give_computed(hr_ticket *t, hr_table *table, hr_marker *at)
{
    hr_row_part *p = t->part;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    if (at && !p->begun)
        p->begin = at->at;
    p->begun = p->begun || at != NULL;
    p->bytes += hr__table_bytes_used(table);
    if (p->writer) {
        if (at)
            hr__marker_print(at, &text);
        hr__stretch_writer_add(p->writer, table, text.failed ? NULL : text.data);
        hr__text_clear(&text);
    }
    if (p->rows_end >= 0)
        HR_GO(cut_to_rest(t, &table));
    if (p->rows_end >= 0 || (p->rows_given == 0 && *p->from)) {
        hr__marker_drop(at); /* the ticket's marker lies there, or rows before it are missing */
        at = NULL;
    }
    atomic_fetch_add_explicit(&t->stage->cache->computed_rows, table->n_rows, memory_order_relaxed);
    st = give(t, table, at);
    table = NULL;
    at = NULL;
    if (!st && p->rows_end >= 0 && p->rows_given >= p->rows_end)
        t->input_done = true;
done:
    hr_table_unref(table);
    hr__marker_drop(at);
    return st;
}

static hr_status rows_missing(hr_ticket *t)
{
    const hr_row_part *p = t->part;

    return hr_error_set(&t->err, HR_MISMATCH,
                        "the plan gives %" PRId64 " rows where it gave %" PRId64 " when they were cached: a function "
                        "or source below the cache does not give the same rows each time",
                        p->rows_given, p->rows_end);
}

static hr_status compute(hr_ticket *t)
{
    hr_row_part *p = t->part;
    hr_table *table = NULL;
    hr_marker *at = NULL;

    if (!p->run)
        HR_TRY(inner_open(t->stage, p->from, p->rows_end >= 0, &p->run, &t->err));
    HR_TRY(inner_next(p->run, t, &table, &at));
    if (!table && !p->decides)
        return rows_missing(t);
    if (!table)
        return end_part(t, NULL);
    if (p->decides && at && ends_at(t->stage->cache, p, at)) {
        p->run->ahead = table;
        p->run->ahead_at = at;
        return end_part(t, at);
    }
    return give_computed(t, table, at);
}

hr_status hr__row_leaf_read(hr_ticket *t, const hr_mem *mem)
{
    hr_op_state *o = t->stage->cache->op;
    hr_call_clock clock = hr__timing_begins(&o->times);
    hr_status st;

    hr__op_stall(o);
    st = t->part->stretch ? read_table(t, mem) : compute(t);
    hr__timing_ends(t->stage->run, &o->times, &clock, NULL, 0, 0);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- restoring */

static bool is_own(const hr_row_leaf *c, const hr_coord *at)
{
    return at->instance >= c->first_instance && at->instance < c->first_instance + c->n_instances;
}

bool hr__row_leaf_is_named(const hr_stage *s, const hr_marker *m)
{
    if (is_own(s->cache, &m->at))
        return true;
    for (int i = 0; i < m->n_more; i++)
        if (is_own(s->cache, &m->more[i]))
            return true;
    return false;
}

/* The marker's part that concerns the plan below. */
static hr_status own_marker(const hr_row_leaf *c, const hr_marker *m, hr_marker **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_marker *own = NULL, *both = NULL, *one = NULL;

    for (int i = -1; i < m->n_more; i++) {
        const hr_coord *at = i < 0 ? &m->at : &m->more[i];

        if (!is_own(c, at))
            continue;
        HR_GO(hr__marker_new(*at, &one, err));
        HR_GO(hr__marker_join((const hr_marker *const[]){ own, one }, 2, &both, err));
        hr__marker_drop(own);
        hr__marker_drop(one);
        own = both;
        both = one = NULL;
    }
    for (int i = 0; i < m->n_states; i++)
        if (m->states[i].op_index >= c->first_op && m->states[i].op_index < c->first_op + c->n_ops)
            HR_GO(
                hr__marker_add(own, m->states[i].op_index, m->states[i].text, (int64_t)strlen(m->states[i].text), err));
    *out = own;
    own = NULL;
done:
    hr__marker_drop(own);
    hr__marker_drop(one);
    return st;
}

hr_status hr__row_leaf_seek(hr_stage *s, const hr_marker *m, hr_error *err)
{
    hr_row_leaf *c = s->cache;
    hr_text text = { .account = s->run->account };
    hr_marker *own = NULL;

    HR_TRY(own_marker(c, m, &own, err));
    hr__marker_print(own, &text);
    hr__marker_drop(own);
    if (text.failed) {
        hr__text_clear(&text);
        return hr__error_memory(err, "cache", 64);
    }
    hr__free(c->next);
    c->next = text.data;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ statistics */

void hr__row_leaf_counts(const hr_stage *s, hr_run_counts *counts)
{
    hr_row_leaf *c = s->cache;

    if (!c)
        return;
    hr__lock(&c->lock);
    counts->files_opened += c->counts.files_opened;
    counts->fragments_read += c->counts.fragments_read;
    counts->rows_read += c->counts.rows_read;
    counts->fragments_skipped += c->counts.fragments_skipped;
    counts->rows_skipped += c->counts.rows_skipped;
    counts->pages_skipped += c->counts.pages_skipped;
    counts->bloom_hits += c->counts.bloom_hits;
    counts->bad_rows += c->counts.bad_rows;
    for (inner *r = c->runs; r; r = r->next)
        add_counts(counts, r->run);
    hr__unlock(&c->lock);
}

bool hr__row_leaf_is_before(const hr_stage *s, const hr_op_state *o)
{
    return !s->cache || o->run.index >= s->cache->first_op + s->cache->n_ops;
}

static void print_sum(const op_sum *sum, hr_text *out)
{
    hr__text_add(out, "{\"name\":");
    hr__text_add_json(out, sum->name);
    hr__text_add(out,
                 ",\"calls\":%" PRId64 ",\"rows_in\":%" PRId64 ",\"rows_out\":%" PRId64 ",\"busy_ns\":%" PRId64
                 ",\"cpu_ns\":%" PRId64 ",\"wait_ns\":%" PRId64 ",\"bytes_out\":%" PRId64 ",\"peak_bytes\":%" PRId64
                 ",\"spill_written_bytes\":%" PRId64 ",\"spill_read_bytes\":%" PRId64 "},",
                 sum->calls, sum->rows_in, sum->rows_out, sum->busy_ns, sum->cpu_ns, sum->wait_ns, sum->bytes_out,
                 sum->peak, sum->spill_written, sum->spill_read);
}

void hr__row_leaf_print(hr_stage *s, hr_text *out)
{
    hr_row_leaf *c = s->cache;
    hr_row_cache_counts n = c->rows ? hr__row_cache_counts(c->rows) : (hr_row_cache_counts){ 0 };
    int64_t length;

    hr__lock(&c->lock);
    for (int i = 0; i < c->n_sums && c->sums[i].name; i++) {
        op_sum sum = c->sums[i];

        for (inner *r = c->runs; r; r = r->next)
            if (i < r->run->n_ops)
                add_op(&sum, r->run->ops[i]);
        print_sum(&sum, out);
    }
    hr__unlock(&c->lock);
    length = out->n;
    hr__op_state_print(c->op, out);
    if (out->failed || out->n == length)
        return;
    out->n--; /* the brace */
    hr__text_add(out,
                 ",\"cached_rows\":%" PRId64 ",\"computed_rows\":%" PRId64 ",\"cache_read_bytes\":%" PRId64
                 ",\"cache_written_bytes\":%" PRId64 ",\"cache_damaged\":%" PRId64 "},",
                 atomic_load(&c->cached_rows), atomic_load(&c->computed_rows), n.read_bytes, n.written_bytes,
                 n.damaged);
}
