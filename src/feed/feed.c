/* feed.c - a feed: one epoch of a plan as tables of exact sizes, with the consumer's position.
 *
 * A feed is a run (exec/) of the plan, to which it appends a local shuffle (if the options request it), hr__op_rebatch
 * and, if batches need their own memory, hr__op_gather. It adds the consumer's side: interruptible waiting, and
 * positions.
 *
 * 1. A position counts rows that the consumer has *taken*, not prefetched rows: it is the newest marker at or before
 *    the next row, and the number of rows taken since. A resumed run starts at the marker and discards these rows.
 * 2. Each mark is a marker and the number of the row before which it lies, counted from the feed's first row (a
 *    restored marker lies before the rows to discard: its number is negative). A plain consumer needs only the newest
 *    mark; a split, whose ranks lag behind the rows that it took, keeps older ones until hr__feed_forget.
 * 3. With lanes (plan/plan_lanes.c) a feed is two runs, one after the other: the turns of this host's lanes, for whole
 *    steps of all hosts; then, of all lanes, what follows these steps. A position is the number of rows that all hosts
 *    have taken, which is a place in each lane; it needs no marker.
 * 4. The digest in a position covers the plan without the feed's operators; the feed's options are compared separately,
 *    so that a message can name the difference. The first position hashes the plan's inputs. Locks: `lock` guards marks
 *    and counters, because other threads may request positions and stats during hr__feed_next. It is a leaf. */
#include "feed/memory_check.h"
#include "feed/stall.h"
#include "feed/verdict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_PREFETCH 2
#define MOST_PREFETCH 64
#define INTERRUPT_MS 100 /* a waiting consumer checks for signals at this interval */

/* A marker and the row before which it lies; NULL: the start of the epoch. */
typedef struct mark {
    hr_marker *marker;
    int64_t row;
} mark;

typedef struct feed_lanes {
    hr_feed_lanes how;
    hr_lane_order order;
    int64_t own_steps;        /* of the first run */
    int64_t next_turn;        /* the first turn of the second run */
    hr_plan *plan;            /* of all lanes, with the feed's operators that work in each lane */
    _Atomic(hr_run *) before; /* the first run, after its end */
} feed_lanes;

struct hr_feed {
    int pid;
    hr_plan *plan;         /* the user's plan */
    hr_plan *whole;        /* the plan with the feed's operators */
    _Atomic(hr_run *) run; /* NULL: the position was the end of the epoch */
    atomic_bool watched;   /* hr__feed_watch: runs that begin later are, too */
    int64_t watch_zero_ns;
    feed_lanes lanes;    /* order.n_lanes 0: none */
    bool all_follow;     /* the run is the first one of two */
    int64_t row_counts;  /* rows of all hosts that a row of the run counts for */
    hr_feed_extra extra; /* for the second run */
    hr_feed_options options;
    bool keep_positions;
    hr_memory_check *memory;     /* compares the values in memory with the position's; NULL: no need */
    _Atomic uint64_t unverified; /* their hash in the position; 0: no need, or they are equal */
    atomic_bool cancelled;       /* hr_feed_cancel */
    hr_inputs inputs;            /* what the plan reads; set by the first position */
    bool inputs_known;           /* `inputs` is set; guarded by the lock */
    bool of_split, drop_last;    /* the positions are a split's, and whether it drops a short last step */
    int64_t said_rows;           /* batch_rows of positions */
    char digest[33];
    uint64_t shuffle_seed; /* options.shuffle_seed points here */
    bool (*interrupt)(void *context);
    void *interrupt_context;
    void (*progress)(void *context, const hr_progress *done);
    void *progress_context;
    int64_t progress_ns,
        progressed_ns;    /* interval of `progress`, and time of its last call; the consumer's thread only */
    atomic_int event;     /* hr_feed_descriptor; -1: none yet */
    int64_t discard_rows; /* rows that are still to be discarded */
    hr_status failed;     /* an error lost rows: the feed gives no more, since later rows would hide the gap */

    hr_mutex lock;
    mark *marks;
    int64_t n_marks, cap_marks;
    int64_t run_rows;   /* next row of the run, as counted in marks */
    int64_t begin_rows; /* rows of the epoch that were taken before this feed began */
    int64_t n_tables, wait_ns;
    hr_steps steps;
    hr_stall_watch stall; /* of the thread in hr__feed_next */
    bool ended;
    bool other_code; /* it resumes from a position that was saved with other code */
};

/* ------------------------------------------------------------------------------------------------------------ marks */

/* Adds a mark; replaces all older ones unless positions are kept. Takes m, even on failure. */
static hr_status marks_add(hr_feed *f, hr_marker *m, int64_t row, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&f->lock);
    if (!hr__grow(NULL, (void **)&f->marks, &f->cap_marks, f->n_marks + 1, sizeof *f->marks)) {
        hr__marker_drop(m);
        st = hr__error_memory(err, "feed", (f->n_marks + 1) * (int64_t)sizeof *f->marks);
        goto done;
    }
    if (!f->keep_positions) {
        while (f->n_marks)
            hr__marker_drop(f->marks[--f->n_marks].marker);
    } else if (f->n_marks && f->marks[f->n_marks - 1].row == row) {
        hr__marker_drop(f->marks[--f->n_marks].marker); /* a later marker of the same row knows more */
    }
    f->marks[f->n_marks++] = (mark){ m, row };
done:
    hr__unlock(&f->lock);
    return st;
}

/* The newest mark that lies at or before `row`; -1: none. */
static int64_t marks_find_locked(const hr_feed *f, int64_t row)
{
    int64_t i = f->n_marks - 1;

    while (i >= 0 && f->marks[i].row > row)
        i--;
    return i;
}

void hr__feed_forget(hr_feed *f, int64_t row)
{
    int64_t n;

    hr__lock(&f->lock);
    n = marks_find_locked(f, row);
    for (int64_t i = 0; i < n; i++)
        hr__marker_drop(f->marks[i].marker);
    if (n > 0) {
        f->n_marks -= n;
        memmove(f->marks, f->marks + n, (size_t)f->n_marks * sizeof *f->marks);
    }
    hr__unlock(&f->lock);
}

/* -------------------------------------------------------------------------------------------------------- positions */

static int64_t extra_int(const hr_position *p, const char *name, int64_t missing)
{
    int64_t v;

    return hr__position_extra(p, name, &v) ? v : missing;
}

/* Prints the position's fields beside the plan: the feed's options and the row in the epoch; the seed as a signed
 * number. */
static void print_extra(const hr_feed *f, int64_t row, char *text, size_t cap)
{
    const hr_feed_options *o = &f->options;
    int n = snprintf(text, cap, "{\"batch_rows\":%" PRId64 ",\"rows\":%" PRId64 ",\"drop_last\":%d,\"split\":%d",
                     f->said_rows, f->begin_rows + row, f->drop_last, f->of_split);

    if (o->shuffle_rows)
        n += snprintf(text + n, cap - (size_t)n, ",\"shuffle_rows\":%" PRId64, o->shuffle_rows);
    if (o->shuffle_rows && o->shuffle_seed)
        n += snprintf(text + n, cap - (size_t)n, ",\"seeded\":1,\"shuffle_seed\":%" PRId64, (int64_t)*o->shuffle_seed);
    if (f->lanes.order.n_lanes)
        n += snprintf(text + n, cap - (size_t)n, ",\"lanes\":%d", f->lanes.order.n_lanes);
    snprintf(text + n, cap - (size_t)n, "}");
}

/* The seed of a local shuffle in a position. */
typedef struct shuffle_seed {
    bool given;
    int64_t value;
} shuffle_seed;

static bool seeds_equal(const shuffle_seed *a, const shuffle_seed *b)
{
    return a->given == b->given && (!a->given || a->value == b->value);
}

static hr_status seeds_differ(const shuffle_seed *was, const shuffle_seed *is, hr_error *err)
{
    char texts[2][24] = { "none", "none" };

    if (was->given)
        snprintf(texts[0], sizeof texts[0], "%" PRIu64, (uint64_t)was->value);
    if (is->given)
        snprintf(texts[1], sizeof texts[1], "%" PRIu64, (uint64_t)is->value);
    return hr_error_set(err, HR_MISMATCH, "position was saved with local shuffle seed %s; this feed has %s", texts[0],
                        texts[1]);
}

/* Checks that batches and local shuffle of a position equal the feed's. The start of an epoch fits any batches. */
static hr_status batches_fit(const hr_feed *f, const hr_position *p, hr_error *err)
{
    const hr_feed_options *o = &f->options;
    int64_t rows = extra_int(p, "shuffle_rows", 0);
    const shuffle_seed was = { extra_int(p, "seeded", 0) != 0, extra_int(p, "shuffle_seed", 0) };
    const shuffle_seed is = { o->shuffle_seed != NULL, o->shuffle_seed ? (int64_t)*o->shuffle_seed : 0 };
    int64_t lanes = extra_int(p, "lanes", 1);

    if (extra_int(p, "batch_rows", -1) < 0)
        return HR_OK;
    if (extra_int(p, "split", 0) != f->of_split)
        return hr_error_set(err, HR_MISMATCH, "position was saved by %s; this feed is %s",
                            f->of_split ? "a pass over all rows" : "a split",
                            f->of_split ? "a split" : "a pass over all rows");
    if (lanes != hr__feed_n_lanes(f))
        return hr_error_set(err, HR_MISMATCH,
                            "position was saved in the order of %" PRId64 " lanes; this feed has the order of %d",
                            lanes, hr__feed_n_lanes(f));
    if (o->batch_rows && extra_int(p, "drop_last", 0) != f->drop_last)
        return hr_error_set(err, HR_MISMATCH, "position was saved with drop_last=%s; this feed has drop_last=%s",
                            f->drop_last ? "False" : "True", f->drop_last ? "True" : "False");
    if (rows != o->shuffle_rows)
        return hr_error_set(err, HR_MISMATCH,
                            "position was saved with a local shuffle of %" PRId64 " rows; this feed has %" PRId64
                            " (0: none)",
                            rows, o->shuffle_rows);
    if (rows && !seeds_equal(&was, &is))
        return seeds_differ(&was, &is, err);
    return HR_OK;
}

hr_status hr__feed_position_bare(hr_feed *f, int64_t row, hr_position *out, hr_error *err)
{
    hr_position p = { .epoch = f->options.epoch, .seed = f->options.seed };
    hr_status st = HR_OK;
    int64_t i;

    *out = (hr_position){ 0 };
    memcpy(p.plan, f->digest, sizeof p.plan);
    hr__lock(&f->lock);
    row = row < 0 ? HR_MAX(f->run_rows, 0) : row; /* under the lock, because another thread may take rows */
    if (f->options.any_order)
        HR_FAIL(HR_UNSUPPORTED, "position: a feed in any order (any_order, preserve_order=False) has no position");
    i = f->lanes.order.n_lanes ? 0 : marks_find_locked(f, row);
    if (i < 0 || row > HR_MAX(f->run_rows, 0))
        HR_FAIL(HR_BUG, "feed: no position at row %" PRId64 "; its marks were forgotten, or the row is not taken yet",
                row);
    p.discard_rows = f->lanes.order.n_lanes ? 0 : row - f->marks[i].row;
    p.inputs.memory = atomic_load(&f->unverified);
    p.at_end = f->ended && row == HR_MAX(f->run_rows, 0);
    print_extra(f, row, p.extra, sizeof p.extra);
    if (f->marks[i].marker && !f->lanes.order.n_lanes)
        HR_GO(hr__marker_copy(f->marks[i].marker, &p.marker, err));
    *out = p;
    p.marker = NULL; /* moved */
done:
    hr__unlock(&f->lock);
    hr__position_clear(&p);
    return st;
}

/* Determines once what the plan reads, without the lock, so that rows can be taken meanwhile. */
static hr_status feed_inputs(hr_feed *f, hr_inputs *out, hr_error *err)
{
    bool known;

    hr__lock(&f->lock);
    known = f->inputs_known;
    *out = f->inputs;
    hr__unlock(&f->lock);
    if (known)
        return HR_OK;
    HR_TRY(hr__inputs_of(f->plan, true, out, err));
    hr__lock(&f->lock);
    f->inputs = *out;
    f->inputs_known = true;
    hr__unlock(&f->lock);
    return HR_OK;
}

hr_status hr__feed_position_at(hr_feed *f, int64_t row, bool whole, char **out, hr_error *err)
{
    hr_position p;
    hr_status st = HR_OK;
    hr_inputs read;

    *out = NULL;
    HR_GO(hr__feed_position_bare(f, row, &p, err));
    if (whole) {
        HR_GO(feed_inputs(f, &read, err));
        HR_GO(hr__position_make_whole(f->plan, &read, &p, err));
    }
    st = hr__position_print(&p, out, err);
done:
    hr__position_clear(&p);
    return st;
}

hr_status hr_feed_position(hr_feed *f, char **out, hr_error *err)
{
    HR_NEED(f, out);

    return hr__feed_position_at(f, -1, true, out, err);
}

int64_t hr__feed_rows(hr_feed *f)
{
    int64_t n;

    hr__lock(&f->lock);
    n = HR_MAX(f->run_rows, 0);
    hr__unlock(&f->lock);
    return n;
}

/* Finds functions whose code differs from the position's: their names go to how->differs, or are an error. */
static hr_status code_fits(hr_plan *plan, hr_position *p, const hr_position_how *how, hr_error *err)
{
    hr_status st = HR_OK;
    char *differs = NULL;

    HR_TRY(hr__plan_code_check(plan, p->code, &differs, err));
    p->other_code = differs != NULL;
    if (differs && how->strict)
        HR_FAIL(HR_MISMATCH, "position was saved with other code or data of %s (strict=True)", differs);
    if (how->differs) {
        *how->differs = differs;
        differs = NULL;
    } else if (differs) {
        hr__log(HR_LOG_WARNING, "position: the code or the data of %s changed since it was saved", differs);
    }
done:
    hr__free(differs);
    return st;
}

hr_status hr__feed_position_fits(hr_plan *plan, const char *text, int64_t batch_rows, const hr_position_how *how,
                                 hr_position *out, hr_error *err)
{
    static const hr_position_how usual;
    hr_status st = HR_OK;
    char digest[33];
    int64_t was;

    how = how ? how : &usual;
    if (how->differs)
        *how->differs = NULL;
    HR_TRY(hr__position_parse(text, out, err));
    hr__plan_digest(plan, digest);
    if (strcmp(digest, out->plan) != 0)
        HR_FAIL(HR_MISMATCH,
                "position was saved by another plan: its steps, their order or their arguments differ, as explain() "
                "shows them (its fingerprint is %s, this plan's is %s)",
                out->plan, digest);
    if (!out->whole)
        HR_FAIL(HR_INVALID, "not a position: the text does not say what the plan reads");
    was = extra_int(out, "batch_rows", batch_rows);
    if (batch_rows >= 0 && was != batch_rows)
        HR_FAIL(HR_MISMATCH, "position was saved with batches of %" PRId64 " rows, this feed makes %" PRId64, was,
                batch_rows);
    HR_GO(hr__inputs_check(plan, &out->inputs, how->moved, how->later, err));
    HR_GO(code_fits(plan, out, how, err));
done:
    if (st)
        hr__position_clear(out);
    return st;
}

/* ------------------------------------------------------------------------------------------------- opening, closing */

static hr_status append_op(hr_plan **plan, hr_op *takes, hr_error *err)
{
    hr_plan *p = NULL;

    HR_TRY(hr__plan_op(*plan, takes, &p, err));
    hr_plan_unref(*plan);
    *plan = p;
    return HR_OK;
}

/* Appends the operators that work in each lane. */
static hr_status append_in_lane(const hr_feed *f, bool pad_column, hr_plan **plan, hr_error *err)
{
    hr_op *op = NULL;

    if (pad_column) {
        const char *name = HR_PAD_COLUMN;
        hr_expr *no = NULL;
        hr_status st;

        HR_TRY(hr_expr_parse("false", &no, err));
        st = hr__op_with_columns(&name, &no, 1, &op, err);
        hr_expr_unref(no);
        if (st)
            return st;
        HR_TRY(append_op(plan, op, err));
    }
    if (f->options.shuffle_rows > 0) {
        HR_TRY(hr__op_local_shuffle(f->options.shuffle_rows, f->options.shuffle_seed, &op, err));
        HR_TRY(append_op(plan, op, err));
        HR_TRY(hr__op_local_gather(&op, err));
        HR_TRY(append_op(plan, op, err));
    }
    return HR_OK;
}

static hr_status append_batches(const hr_feed *f, bool gather, hr_plan **plan, hr_error *err)
{
    hr_op *op = NULL;

    if (f->options.batch_rows > 0) {
        HR_TRY(hr__op_rebatch(f->options.batch_rows, f->options.drop_last, &op, err));
        HR_TRY(append_op(plan, op, err));
    }
    if (gather) {
        HR_TRY(hr__op_gather(&op, err));
        HR_TRY(append_op(plan, op, err));
    }
    return HR_OK;
}

/* Makes f->whole: the user's plan with the feed's operators. With lanes: those that work in each lane. */
static hr_status feed_plan(hr_feed *f, const hr_feed_extra *extra, hr_error *err)
{
    f->whole = hr_plan_ref(f->plan);
    HR_TRY(append_in_lane(f, extra->pad_column, &f->whole, err));
    if (f->lanes.order.n_lanes) {
        f->lanes.plan = hr_plan_ref(f->whole);
        return HR_OK;
    }
    return append_batches(f, extra->own_memory || extra->arena, &f->whole, err);
}

/* ------------------------------------------------------------------------------------------------------------ lanes */

int hr__feed_n_lanes(const hr_feed *f) { return HR_MAX(1, f->lanes.order.n_lanes); }
int64_t hr__feed_own_steps(const hr_feed *f) { return f->lanes.own_steps; }

/* Decides whether the feed has lanes: every host decides alike. */
static hr_status lanes_choose(hr_feed *f, const hr_feed_extra *extra, hr_error *err)
{
    const hr_feed_lanes *how = &extra->lanes;
    int64_t n_rows;

    f->row_counts = 1;
    if (how->n_lanes < 2 || f->options.batch_rows < 1 || extra->by_row || f->options.any_order)
        return HR_OK;
    HR_TRY(hr__plan_lane_rows(f->plan, &n_rows, err));
    if (n_rows < 0)
        return HR_OK;
    if (how->host < 0)
        return hr_error_set(err, HR_INVALID,
                            "lanes: %d ranks on %d hosts: each host must have equally many, numbered host by host or "
                            "in turn; with one lane (shard(lanes=1)) each host reads all rows",
                            how->n_shares, how->n_hosts);
    if (how->n_lanes % how->n_hosts)
        hr__log(HR_LOG_WARNING, "lanes: %d hosts have no equal shares of %d lanes: each host reads more than its rows",
                how->n_hosts, how->n_lanes);
    f->lanes.how = *how;
    f->lanes.order = (hr_lane_order){ how->n_lanes, n_rows, f->options.batch_rows };
    return HR_OK;
}

/* The turns of this host from `turn` on, for n steps of all hosts. */
static hr_lane_part own_turns(const hr_feed_lanes *how, int64_t turn, int64_t n_steps)
{
    int64_t first = turn + ((how->host - turn) % how->n_hosts + how->n_hosts) % how->n_hosts;

    return (hr_lane_part){ .first = first, .step = how->n_hosts, .n = n_steps * (how->n_shares / how->n_hosts) };
}

/* Makes f->whole of some rows of the lanes. */
static hr_status lanes_plan(hr_feed *f, const hr_lane_part *part, hr_error *err)
{
    hr_plan_unref(f->whole);
    f->whole = NULL;
    HR_TRY(hr__plan_lanes(f->lanes.plan, &f->lanes.order, part, &f->whole, err));
    return append_batches(f, f->extra.own_memory || f->extra.arena, &f->whole, err);
}

/* All rows from turn lanes.next_turn on; after all turns without the first skip_rest rows. */
static hr_status lanes_plan_of_all(hr_feed *f, int64_t skip_rest, hr_error *err)
{
    int64_t turn = f->lanes.next_turn, n = hr__lane_turns(&f->lanes.order);
    const hr_lane_part part = {
        .first = turn, .step = 1, .n = HR_MAX(0, n - turn), .rest = true, .skip_rest = skip_rest
    };

    f->row_counts = 1;
    return lanes_plan(f, &part, err);
}

/* Plans the first run, which begins after begin_rows rows of the epoch. */
static hr_status lanes_begin(hr_feed *f, hr_error *err)
{
    const hr_feed_lanes *how = &f->lanes.how;
    int64_t batch = f->lanes.order.batch_rows, turn = f->begin_rows / batch, n = hr__lane_turns(&f->lanes.order);
    hr_lane_part part;

    if (turn < n && f->begin_rows % batch)
        return hr_error_set(err, HR_INVALID, "position: row %" PRId64 " begins no batch of %" PRId64 " rows",
                            f->begin_rows, batch);
    f->lanes.own_steps = turn < n ? (n - turn) / how->n_shares : 0;
    f->lanes.next_turn = turn + f->lanes.own_steps * how->n_shares;
    if (!f->lanes.own_steps)
        return lanes_plan_of_all(f, HR_MAX(0, f->begin_rows - n * batch), err);
    part = own_turns(how, turn, f->lanes.own_steps);
    f->all_follow = true;
    f->row_counts = how->n_hosts;
    return lanes_plan(f, &part, err);
}

/* Reads options->position; *from (new, may be NULL): the marker at which the run begins. */
static hr_status feed_restore(hr_feed *f, char **differs, hr_marker **from, hr_error *err)
{
    bool later = false;
    const hr_position_how how = {
        .moved = f->options.moved, .strict = f->options.strict, .differs = differs, .later = &later
    };
    hr_position p = { 0 };
    hr_status st;

    HR_TRY(hr__feed_position_fits(f->plan, f->options.position, f->said_rows, &how, &p, err));
    if ((st = batches_fit(f, &p, err))) {
        hr__position_clear(&p);
        return st;
    }
    f->options.epoch = p.epoch;
    f->options.seed = p.seed;
    f->discard_rows = p.discard_rows;
    f->begin_rows = extra_int(&p, "rows", 0);
    f->ended = p.at_end;
    f->other_code = p.other_code;
    atomic_store(&f->unverified, later ? p.inputs.memory : 0);
    *from = p.marker;
    p.marker = NULL;
    hr__position_clear(&p);
    return HR_OK;
}

static hr_status options_check(const hr_feed_options *o, hr_error *err)
{
    if (o->batch_rows < 0)
        return hr_error_set(err, HR_INVALID, "batch_rows is %" PRId64 "; give 1 or more, or 0 for tables as they come",
                            o->batch_rows);
    if (o->shuffle_rows < 0)
        return hr_error_set(err, HR_INVALID, "shuffle_rows is %" PRId64 "; give the rows of a window, or 0 for none",
                            o->shuffle_rows);
    if (o->num_threads < 0 || o->memory_limit < 0 || o->epoch < 0)
        return hr_error_set(err, HR_INVALID,
                            "num_threads is %d, memory_limit %" PRId64 ", epoch %" PRId64 "; expected 0 or more",
                            o->num_threads, o->memory_limit, o->epoch);
    if (o->reserved_cpus < 0 || o->first_threads < 0)
        return hr_error_set(err, HR_INVALID, "reserved_cpus is %d, first_threads %d; expected 0 or more",
                            o->reserved_cpus, o->first_threads);
    if (o->most_prefetch < 0)
        return hr_error_set(err, HR_INVALID, "most_prefetch is %d; expected 0 or more", o->most_prefetch);
    return HR_OK;
}

static int most_prefetch(const hr_feed_options *o)
{
    if (o->most_prefetch)
        return o->most_prefetch;
    return o->prefetch ? o->prefetch : MOST_PREFETCH;
}

/* The run calls it, on any thread without locks, when a table, the end or an error waits. */
static void feed_ready(void *context)
{
    hr_feed *f = context;
    int fd = atomic_load(&f->event);

    if (fd >= 0)
        hr__event_set(fd);
}

static hr_status feed_start(hr_feed *f, const hr_marker *from, hr_error *err)
{
    const hr_feed_extra *extra = &f->extra;
    hr_run *run = NULL;
    hr_run_options o = {
        .epoch = f->options.epoch,
        .seed = f->options.seed,
        .any_order = f->options.any_order,
        .num_threads = f->options.num_threads,
        .autotune = !f->options.no_autotune,
        .learns = f->plan,
        .reserved_cpus = f->options.reserved_cpus,
        .first_threads = f->options.first_threads,
        .memory_limit = f->options.memory_limit,
        .prefetch = f->options.prefetch == 0 ? DEFAULT_PREFETCH : HR_MAX(f->options.prefetch, 0),
        .most_prefetch = most_prefetch(&f->options),
        .small_for = extra->small_for,
        .careful = f->options.prefetch < 0,
        .from = from,
        .other_code = f->other_code,
        .arena = extra->arena,
        .trace_path = f->options.trace_path,
        .ready = extra->ready,
        .ready_context = extra->ready_context,
    };

    HR_TRY(hr__run_start(f->whole, &o, &run, err));
    atomic_store(&f->run, run);
    return atomic_load(&f->watched) ? hr__run_watch(run, f->watch_zero_ns, err) : HR_OK;
}

/* The first run has ended: starts the one of what follows. The first one stays open for statistics. */
static hr_status lanes_go_on(hr_feed *f, hr_error *err)
{
    f->all_follow = false;
    atomic_store(&f->lanes.before, f->run);
    f->options.trace_path = NULL;
    HR_TRY(lanes_plan_of_all(f, 0, err));
    return feed_start(f, NULL, err);
}

hr_status hr__feed_open(hr_plan *p, const hr_feed_options *options, const hr_feed_extra *extra, hr_feed **out,
                        hr_error *err)
{
    static const hr_feed_extra none;
    hr_status st = HR_OK;
    hr_marker *from = NULL, *first = NULL;
    hr_feed *f;

    hr_feed_options own;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_feed_options, options, &own));
    f = hr__zalloc(NULL, sizeof *f);
    if (!f)
        return hr__error_memory(err, "feed", sizeof *f);
    hr__mutex_init(&f->lock);
    atomic_init(&f->event, -1);
    f->pid = hr__pid();
    f->plan = hr_plan_ref(p);
    f->options = own;
    if (f->options.shuffle_seed) {
        f->shuffle_seed = *f->options.shuffle_seed;
        f->options.shuffle_seed = &f->shuffle_seed;
    }
    extra = extra ? extra : &none;
    f->keep_positions = extra->keep_positions;
    f->of_split = extra->of_split;
    hr__stall_init(&f->stall);
    f->said_rows = extra->by_row ? 1 : f->options.batch_rows;
    f->drop_last = extra->of_split ? extra->split_drop_last : f->options.drop_last;
    HR_GO(options_check(&f->options, err));
    f->extra = *extra;
    f->extra.differs = NULL; /* the caller's */
    if (!f->extra.ready) {
        f->extra.ready = feed_ready;
        f->extra.ready_context = f;
    }
    hr__plan_digest(p, f->digest);
    HR_GO(lanes_choose(f, extra, err));
    HR_GO(feed_plan(f, extra, err));
    if (f->options.position)
        HR_GO(feed_restore(f, extra->differs, &from, err));
    if (f->lanes.order.n_lanes && !f->ended)
        HR_GO(lanes_begin(f, err));
    f->run_rows = -f->discard_rows;
    if (from)
        HR_GO(hr__marker_copy(from, &first, err));
    HR_GO(marks_add(f, first, f->run_rows, err));
    if (f->ended) /* the position is the end of the epoch: no run */
        f->run_rows = 0;
    else
        HR_GO(feed_start(f, from, err));
    if (atomic_load(&f->unverified))
        HR_GO(hr__memory_check_start(f->plan, atomic_load(&f->unverified), f->extra.ready, f->extra.ready_context,
                                     &f->memory, err));
    f->options.position = NULL; /* the caller's */
    f->options.trace_path = NULL;
    *out = f;
    f = NULL;
done:
    hr__marker_drop(from);
    hr_feed_close(f);
    return st;
}

hr_status hr_feed_open(hr_plan *p, const hr_feed_options *options, hr_feed **out, hr_error *err)
{
    HR_NEED(p, out);

    return hr__feed_open(p, options, NULL, out, err);
}

/* The trace's file has the statistics. Without memory for them, it has not. */
static void trace_stats(hr_feed *f)
{
    char *stats = NULL;

    if (f->pid != hr__pid() || !f->run || !hr__run_traces(f->run) || hr_feed_stats(f, &stats, NULL))
        return;
    hr__run_trace_stats(f->run, stats);
    hr_string_free(stats);
}

void hr_feed_close(hr_feed *f)
{
    if (!f)
        return;
    trace_stats(f);
    /* An epoch that was opened early, and not read, may know less than the plan does by now. */
    if (f->run && f->pid == hr__pid() && f->n_tables > 0)
        hr__run_learned(f->run);
    hr__memory_check_close(f->memory);
    hr__run_close(f->run);
    if (f->lanes.before != f->run) /* equal: the second run did not start */
        hr__run_close(f->lanes.before);
    hr_plan_unref(f->lanes.plan);
    if (atomic_load(&f->event) >= 0)
        hr__file_close(atomic_load(&f->event));
    for (int64_t i = 0; i < f->n_marks; i++)
        hr__marker_drop(f->marks[i].marker);
    hr__free(f->marks);
    hr_plan_unref(f->whole);
    hr_plan_unref(f->plan);
    hr__mutex_clear(&f->lock);
    hr__free(f);
}

hr_status hr__feed_watch(hr_feed *f, int64_t zero_ns, hr_error *err)
{
    f->watch_zero_ns = zero_ns;
    atomic_store(&f->watched, true);
    return f->run ? hr__run_watch(f->run, zero_ns, err) : HR_OK;
}

hr_status hr__feed_news(hr_feed *f, hr_text *out, hr_error *err)
{
    hr_run *run = f->run, *before = f->lanes.before;

    if (before && before != run)
        HR_TRY(hr__run_news(before, out, err));
    return run ? hr__run_news(run, out, err) : HR_OK;
}

hr_run *hr__feed_run(hr_feed *f) { return f->run; }
int64_t hr__feed_epoch(const hr_feed *f) { return f->options.epoch; }
bool hr__feed_delays_next(hr_feed *f)
{
    int64_t n_tables;

    if (!f->run)
        return false;
    if (f->all_follow || hr__run_reads(f->run))
        return true;
    hr__lock(&f->lock);
    n_tables = f->n_tables;
    hr__unlock(&f->lock);
    return n_tables <= 1 && hr__run_has_table(f->run);
}

bool hr__feed_may_open_next(hr_feed *f)
{
    if (!f->run || hr__feed_delays_next(f) || hr__plan_has_instances(f->plan))
        return false;
    return hr__run_fits_twice(f->run);
}

bool hr__feed_guesses_next(hr_feed *f)
{
    int64_t all_ns, wait_ns, first_ns;

    if (!f->run || hr__run_keeps_rows(f->run) || hr__plan_calls(f->plan) || hr__plan_is_remote(f->plan))
        return false;
    hr__lock(&f->lock);
    wait_ns = f->steps.sums.wait_ns;
    all_ns = wait_ns + f->steps.sums.step_ns;
    first_ns = f->steps.first_wait_ns;
    hr__unlock(&f->lock);
    return all_ns >= 2 * first_ns && wait_ns <= all_ns / 4 && hr__feed_may_open_next(f);
}

/* ----------------------------------------------------------------------------------------------------------- tables */

/* Counts a table of the run, and drops its rows that a position has already taken. *t may become NULL. */
static hr_status feed_count(hr_feed *f, hr_table **t, hr_error *err)
{
    int64_t n_rows = hr_table_rows(*t), drop = HR_MIN(f->discard_rows, n_rows);
    hr_table *rest = NULL;

    if (drop > 0 && drop < n_rows)
        HR_TRY(hr_table_slice(*t, drop, n_rows - drop, &rest, err));
    hr__lock(&f->lock);
    f->run_rows += n_rows * f->row_counts;
    f->n_tables += drop < n_rows || n_rows == 0;
    hr__unlock(&f->lock);
    f->discard_rows -= drop;
    if (drop > 0) {
        hr_table_unref(*t);
        *t = rest;
    }
    return HR_OK;
}

/* Whether the values in memory are those of the position. HR_PENDING: not known yet. A cancelled feed has no rows. */
static hr_status memory_fits(hr_feed *f, int timeout_ms, hr_error *err)
{
    hr_status st;

    if (!atomic_load(&f->unverified) || atomic_load(&f->cancelled))
        return HR_OK;
    st = hr__memory_check_wait(f->memory, timeout_ms, err);
    if (!st)
        atomic_store(&f->unverified, 0);
    else if (st != HR_PENDING)
        f->failed = st;
    return st;
}

hr_status hr__feed_next(hr_feed *f, int timeout_ms, hr_table **out, hr_error *err)
{
    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000;
    hr_table *t = NULL;

    *out = NULL;
    if (f->pid != hr__pid())
        return hr_error_set(err, HR_INVALID, "this feed belongs to process %d; open one in the forked process %d",
                            f->pid, hr__pid());
    if (f->failed)
        return hr_error_set(err, f->failed, "feed: an earlier call failed; open a new feed at its position to resume");
    HR_TRY(memory_fits(f, timeout_ms, err));
    while (!f->ended && !*out) {
        hr_marker *marker = NULL;
        int64_t begin = hr__clock_ns(), now;
        int64_t since;
        int mark = -1;
        int wait = timeout_ms <= 0 ? timeout_ms : (int)HR_MAX(0, (until - begin + 999999) / 1000000);
        hr_status st;

        hr__lock(&f->lock);
        hr__steps_call(&f->steps, begin);
        hr__unlock(&f->lock);
        st = hr__run_next(f->run, wait, &t, &marker, err);
        hr__lock(&f->lock);
        now = hr__clock_ns();
        f->wait_ns += now - begin;
        if (!st && t)
            mark = hr__steps_took(&f->steps, now);
        since = f->steps.call_ns;
        hr__unlock(&f->lock);
        if (mark >= 0)
            hr__run_mark(f->run, mark);
        if (st == HR_PENDING && (st = hr__stall_look(&f->stall, f->run, since, err)) == HR_OK)
            st = HR_PENDING;
        if (!st && marker)
            st = f->failed = marks_add(f, marker, f->run_rows, err);
        if (!st && t)
            st = f->failed = feed_count(f, &t, err);
        else if (!st && f->all_follow)
            st = f->failed = lanes_go_on(f, err);
        else if (!st) {
            hr__lock(&f->lock);
            f->ended = true;
            hr__unlock(&f->lock);
        }
        if (st) {
            hr_table_unref(t);
            return st;
        }
        *out = t;
        t = NULL;
    }
    return HR_OK;
}

static void fill_progress(hr_feed *f, hr_progress *out)
{
    hr_run_counts c = { 0 };

    *out = (hr_progress){ .struct_bytes = sizeof *out };
    if (f->run)
        hr__run_counts(f->run, &c);
    out->files_opened = c.files_opened;
    out->rows_read = c.rows_read;
    out->bad_rows = c.bad_rows;
    out->bytes_out = c.bytes_out;
    out->done = c.done;
    out->slowest = c.slowest;
    out->rows_made = c.rows_made;
    hr__lock(&f->lock);
    out->rows_taken = HR_MAX(f->run_rows, 0);
    out->tables_taken = f->n_tables;
    out->wait_ns = f->wait_ns;
    hr__unlock(&f->lock);
    out->memory_bytes = hr_memory_used();
}

static void tell_progress(hr_feed *f)
{
    int64_t now = hr__clock_ns();
    hr_progress done;

    if (!f->progress || now - f->progressed_ns < f->progress_ns)
        return;
    f->progressed_ns = now;
    fill_progress(f, &done);
    f->progress(f->progress_context, &done);
}

/* Waits at most INTERRUPT_MS. HR_PENDING: no table yet. */
static hr_status next_slice(hr_feed *f, int timeout_ms, hr_table **out, hr_error *err)
{
    int fd = atomic_load(&f->event);
    hr_status st;

    if (fd >= 0)
        hr__event_clear(fd); /* first clear, then look: a later table sets it again */
    st = hr__feed_next(f, timeout_ms, out, err);
    if (fd >= 0 && st != HR_PENDING)
        hr__event_set(fd); /* more tables may wait */
    tell_progress(f);
    if (st == HR_PENDING && f->interrupt && f->interrupt(f->interrupt_context))
        return hr_error_set(err, HR_CANCELLED, "interrupted while waiting for data");
    return st;
}

hr_status hr_feed_next(hr_feed *f, hr_table **out, hr_error *err)
{
    HR_NEED(f, out);

    return hr_feed_next_within(f, -1, out, err);
}

hr_status hr_feed_next_within(hr_feed *f, int timeout_ms, hr_table **out, hr_error *err)
{
    HR_NEED(f, out);

    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000;

    for (;;) {
        int64_t left = timeout_ms < 0 ? INTERRUPT_MS : (until - hr__clock_ns() + 999999) / 1000000;
        hr_status st = next_slice(f, (int)HR_MAX(0, HR_MIN(left, INTERRUPT_MS)), out, err);

        if (st != HR_PENDING || (timeout_ms >= 0 && hr__clock_ns() >= until))
            return st;
    }
}

hr_status hr_feed_descriptor(hr_feed *f, int *out, hr_error *err)
{
    HR_NEED(f, out);

    int fd = atomic_load(&f->event);

    *out = -1;
    if (fd < 0) {
        if ((fd = hr__event_new()) < 0)
            return hr__error_os(err, fd, "feed", "cannot make an event descriptor");
        hr__event_set(fd); /* a table may wait already */
        atomic_store(&f->event, fd);
    }
    *out = fd;
    return HR_OK;
}

void hr_feed_cancel(hr_feed *f)
{
    if (f && f->run && f->pid == hr__pid()) {
        atomic_store(&f->cancelled, true);
        hr__run_cancel(f->run);
    }
}

hr_status hr_feed_progress(hr_feed *f, hr_progress *out, hr_error *err)
{
    HR_NEED(f, out);

    hr_progress done;

    fill_progress(f, &done);
    return hr__struct_fill("hr_progress", out, &done, sizeof done, err);
}

void hr_feed_set_progress(hr_feed *f, void (*progress)(void *context, const hr_progress *done), void *context,
                          int interval_ms)
{
    f->progress = progress;
    f->progress_context = context;
    f->progress_ns = (int64_t)HR_MAX(interval_ms, 0) * 1000000;
    f->progressed_ns = hr__clock_ns();
}

void hr_feed_set_interrupt(hr_feed *f, bool (*check)(void *context), void *context)
{
    f->interrupt = check;
    f->interrupt_context = context;
}

void hr__feed_converted(hr_feed *f, int64_t ns)
{
    hr__lock(&f->lock);
    if (f->steps.taken > 1 && ns > 0) /* the first batch is not in the sums */
        f->steps.sums.convert_ns += ns;
    hr__unlock(&f->lock);
}

/* The verdict on the period since a mark. */
static hr_status judge(hr_feed *f, hr_evidence *e, int mark, hr_verdict *out, hr_error *err)
{
    hr_run_view view;

    HR_TRY(hr__run_view(f->lanes.before ? f->lanes.before : f->run, mark, &view, err));
    e->run = &view;
    hr__verdict_of(e, out);
    e->run = NULL;
    hr__run_view_clear(&view);
    return HR_OK;
}

/* What limits the consumer. A write or a sort has taken few tables at its end: the whole run is judged. */
static hr_status print_verdict(hr_feed *f, const hr_steps *steps, bool ended, hr_text *out, hr_error *err)
{
    hr_evidence e = { .n_ranks = 1 };
    hr_verdict v;
    int mark;

    e.steps = hr__steps_steady(steps, &mark);
    HR_TRY(judge(f, &e, mark, &v, err));
    if (v.kind == HR_VERDICT_SHORT && ended) {
        e.steps = hr__steps_all(steps);
        e.is_whole = hr__verdict_takes(&e.steps);
        if (e.is_whole)
            HR_TRY(judge(f, &e, -1, &v, err));
    }
    hr__verdict_print(&v, out);
    return HR_OK;
}

/* The numbers of lanes and hosts, and the rows that this one has read. */
static void print_lanes(const hr_feed *f, hr_text *out)
{
    const hr_feed_lanes *how = &f->lanes.how;
    hr_run *before = f->lanes.before, *run = f->run;
    hr_run_counts first = { 0 }, all = { 0 };

    if (before)
        hr__run_counts(before, &first);
    if (run && run != before)
        hr__run_counts(run, &all);
    hr__text_add(out, ",\"lanes\":{\"lanes\":%d,\"hosts\":%d,\"host\":%d,\"rows_read\":%" PRId64 "}", how->n_lanes,
                 how->n_hosts, how->host, first.rows_read + all.rows_read);
}

hr_status hr_feed_stats(hr_feed *f, char **out, hr_error *err)
{
    HR_NEED(f, out);

    hr_text t = { 0 }, run = { 0 };
    hr_steps steps;
    bool ended;
    hr_status st = HR_OK;

    *out = NULL;
    if (f->run)
        HR_GO(hr__run_stats(f->lanes.before ? f->lanes.before : f->run, &run, err));
    hr__lock(&f->lock);
    hr__text_add(&t,
                 "{\"epoch\":%" PRId64 ",\"taken_rows\":%" PRId64 ",\"taken_tables\":%" PRId64
                 ",\"consumer_wait_ns\":%" PRId64,
                 f->options.epoch, HR_MAX(f->run_rows, 0), f->n_tables, f->wait_ns);
    steps = f->steps;
    ended = f->ended;
    hr__unlock(&f->lock);
    if (!f->of_split) {
        hr__text_add(&t, ",\"steps\":");
        hr__steps_print(&steps, &t);
    }
    if (!f->of_split && f->run) {
        hr__text_add(&t, ",\"verdict\":");
        HR_GO(print_verdict(f, &steps, ended, &t, err));
    }
    if (f->lanes.order.n_lanes)
        print_lanes(f, &t);
    /* Adds the run's members to the same object. */
    hr__text_add(&t, "%s%s", run.n > 2 ? "," : "", run.n > 2 ? run.data + 1 : "}");
    if (t.failed || run.failed)
        HR_FAIL(HR_NO_MEMORY, "feed: out of memory for the statistics");
    *out = t.data;
    t.data = NULL;
done:
    hr__text_clear(&run);
    hr__text_clear(&t);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- Arrow stream */

typedef struct feed_stream {
    hr_feed *feed;
    hr_table *first; /* taken for its schema, not given yet */
    hr_error err;
} feed_stream;

/* Returns the errno that the stream interface requires; keeps the text for get_last_error. */
static int stream_failed(feed_stream *s, hr_status st)
{
    if (!s->err.text[0])
        hr_error_set(&s->err, st, "%s", hr_status_text(st));
    return st == HR_NO_MEMORY || st == HR_BUDGET ? ENOMEM
           : st == HR_CANCELLED                  ? ECANCELED
           : st == HR_INVALID                    ? EINVAL
                                                 : EIO;
}

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    feed_stream *s = stream->private_data;
    hr_schema *schema = NULL;
    hr_status st = HR_OK;

    hr_error_clear(&s->err);
    if (!s->first)
        st = hr__plan_schema_early(s->feed->whole, &schema, &s->err);
    if (!st && !s->first && !schema)
        st = hr_feed_next(s->feed, &s->first, &s->err);
    if (!st && s->first)
        schema = hr__schema_ref(s->first->schema);
    else if (!st && !schema) /* no rows: a function without a declared schema has the schema of an empty table */
        st = hr__plan_schema(s->feed->whole, &schema, &s->err);
    if (!st)
        st = hr__schema_export(schema, out, &s->err);
    hr__schema_unref(schema);
    return st ? stream_failed(s, st) : 0;
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    feed_stream *s = stream->private_data;
    hr_table *t = s->first;
    hr_status st = HR_OK;

    hr_error_clear(&s->err);
    *out = (struct ArrowArray){ 0 };
    s->first = NULL;
    if (!t)
        st = hr_feed_next(s->feed, &t, &s->err);
    if (!st && t)
        st = hr_table_export(t, NULL, out, &s->err);
    hr_table_unref(t);
    return st ? stream_failed(s, st) : 0;
}

static const char *stream_error(struct ArrowArrayStream *stream)
{
    feed_stream *s = stream->private_data;

    return s->err.text[0] ? s->err.text : NULL;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    feed_stream *s = stream->private_data;

    hr_table_unref(s->first);
    hr_feed_close(s->feed);
    hr_error_clear(&s->err);
    hr__free(s);
    stream->release = NULL;
}

hr_status hr_feed_export(hr_feed *f, struct ArrowArrayStream *out, hr_error *err)
{
    HR_NEED(f, out);

    feed_stream *s = hr__zalloc(NULL, sizeof *s);

    *out = (struct ArrowArrayStream){ 0 };
    if (!s) {
        hr_feed_close(f);
        return hr__error_memory(err, "feed", sizeof *s);
    }
    s->feed = f;
    *out = (struct ArrowArrayStream){ stream_schema, stream_next, stream_error, stream_release, s };
    return HR_OK;
}
