/* split.c - a split: one feed divided among N ranks by step.
 *
 * Step s of rank r is rows [(s*N + r)*B, +B) of the epoch, so the feed's batches of B rows go round robin. The split
 * has no thread: a rank with an empty queue pulls from the feed for all ranks (one rank at a time); the others wait for
 * the batches.
 *
 * The phases of an epoch. Calls of ranks move the split on. RELOCKS: without the lock.
 *
 *      BETWEEN  ranks send requests (hr__split_begin)
 *       ^   |
 *       |   |  all remaining ranks have sent one: begin_epoch_relocks()
 *       |   v
 *       | OPENING  one rank opens the feed, RELOCKS
 *       |   |  |
 *       |<--+  |  on failure all ranks get the error
 *       |      v  on success all ranks are in the epoch
 *       |    RUNNING  a rank whose queue is empty pulls, if the slowest rank is near enough: pull_relocks()
 *       |      |  ^
 *       |      v  |  a batch came (batch_came_locked() releases full steps), or nothing within the time
 *       |    PULLING  one rank is in hr__feed_next, RELOCKS
 *       |      |  |
 *       |      |  +---> ENDED   the feed has ended: feed_ended_locked() divides the rest by the tail's rule
 *       |      +------> FAILED  ranks get feed_err after their queued batches: feed_failed_locked()
 *       |
 *       +-- RUNNING, ENDED, FAILED: the last rank has left, or the split is closed: feed_drop_relocks()
 *
 * Rules.
 * 1. An epoch begins when all remaining ranks have requested one with the same arguments. It has a feed of its own.
 * 2. A step is released to all ranks at once, when it has a batch for each. The tail's rule divides the rest at the
 *    end.
 * 3. No rank is more than prefetch + 1 steps ahead of the slowest: no rank pulls the next step until the slowest has
 *    taken its batch. Small batches go further (hr__split_ahead).
 * 4. A rank that leaves or is closed gives up its batches and does not hold up the others; a rank lost with an error
 *    ends the split.
 * 5. By rows (hr_split_request.by_row) row i of the epoch goes to rank i % N, as with batches of one row, but a step
 *    has many rows for each rank, as one table. A position lies between rows, so the consumer says how many it has
 *    taken (hr__split_report_rows).
 * 6. By tables (batch_rows 0, of a plan that makes batches) each table of the feed is a batch. A rest of fewer batches
 *    than ranks is dropped, delivered as it is, or filled up with its first batches, by the tail's rule.
 * 7. If the ranks say that they repeat (hr_split_request.ahead), or another epoch is likely (next_is_likely_locked),
 *    the feed of the next epoch opens when the sources of this one have been read, so that an epoch's first steps do
 *    not wait for it.
 * 8. With lanes (hr__split_lanes) the feed has, for the first hr__feed_own_steps steps, only the batches of this host's
 *    ranks, in their order. Later steps are as without lanes: the split drops the batches of ranks elsewhere.
 * 9. The steps that a rank has *taken* may lag behind the steps handed to it (the ring sends ahead). Positions count
 *    taken steps. A step is *done* when every rank has taken a later one; the feed keeps its markers back to there.
 *
 * Locks: `lock` guards all state, except the feed while PULLING and OPENING. `ready_lock`, taken after `lock`, is held
 * while ready() runs, so that hr__split_serve can wait for its end. X_locked keeps `lock`; X_relocks releases and
 * retakes it. */
#include "feed/verdict.h"
#include "share/exchange_arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_NEWS (4 << 20)                /* bytes of text */
#define PULL_MS 100                       /* a pulling rank checks for changes at this interval */
#define MAX_PREFETCH 4096                 /* steps; limits the memory of a mistyped value */
#define MAX_BATCH_ROWS (INT64_C(1) << 40) /* so that counts of rows of all ranks do not overflow */
#define USUAL_ROWS 4096                   /* of a batch, if the rank gives no number and the plan makes no batches */
#define STEP_ROWS 4096                    /* by rows: the most rows of a rank in a step */
#define STEP_ROWS_OF_ALL (1 << 19)        /* the same for all ranks, unless there are more ranks */

typedef enum split_phase { BETWEEN, OPENING, RUNNING, PULLING, ENDED, FAILED } split_phase;

typedef enum rank_state {
    RANK_OUT,   /* in no epoch */
    RANK_ASKED, /* waits in hr__split_begin */
    RANK_IN,
    RANK_GONE
} rank_state;

typedef struct split_rank {
    rank_state state;
    hr_split_request request;
    int64_t pass;  /* number of its requests for an epoch */
    bool answered; /* `answer` has what hr__split_begin returns */
    hr_error answer;
    hr_table **queue; /* released batches; a ring of s->cap_queue */
    int head, n;
    int64_t handed, taken;   /* steps of this epoch */
    int64_t reported;        /* by rows: rows of this epoch that its consumer has reported as taken */
    bool finished;           /* it took the end of this epoch */
    int64_t n_rows, wait_ns; /* of this epoch */
    hr_steps steps;          /* of this epoch */
    int64_t counted_wait_ns; /* of wait_ns, what the steps have */
    int64_t drawn_ns;        /* the trace has all until then */
    int64_t held_from_ns;    /* it wants a batch and is too far ahead of rank held_by, since then; 0: no */
    int64_t held_ns;         /* the same, of the step that it waits for */
    int held_by;
    int64_t holds_ns; /* time that other ranks waited for it, in all */
    int64_t asked_ns; /* time of its request: waiting for other ranks counts */
    bool came;        /* it has joined, or begun */
    int pid;          /* of its process; 0: not known */
    int64_t seen_ns;  /* time of its last call */
} split_rank;

struct hr_split {
    atomic_int refs;
    hr_plan *plan;
    int n_ranks;
    int n_replicas;    /* ranks that get the same batches: r / n_replicas is the share of rank r */
    int n_shares;      /* n_ranks / n_replicas */
    int n_here;        /* ranks that will come; the others' shares are dropped */
    int n_lanes;       /* of the next feed, if its plan and its batches have lanes */
    int feed_lanes;    /* of this feed, or of the last one; 0: there was none */
    int n_hosts, host; /* the ranks are on n_hosts hosts, in equal numbers; host: this one, -1: not known */
    bool in_turn;      /* rank r is on host r % n_hosts; else the ranks of a host are consecutive */
    int64_t own_steps; /* of this feed, from its first step on: it has only batches for the ranks here */
    hr_split_tail tail;
    hr_split_request usual; /* the request of hr_split_begin */
    hr_feed_options options;
    char *trace_path; /* of options */
    hr_mutex lock;
    hr_cond changed;
    split_rank *ranks;

    hr_feed *feed;    /* of this epoch; NULL: none */
    bool turned_away; /* while PULLING a rank that does not wait got nothing */
    hr_account *account;
    hr_arena *arena;      /* for coming epochs */
    hr_arena *feed_arena; /* of this epoch's batches */
    hr_feed *ahead;       /* of the epoch after it, opened early for these requests; NULL: none */
    hr_arena *ahead_arena;
    hr_split_request ahead_request;
    bool looked_ahead; /* in this epoch */
    bool loops;        /* another epoch is likely: next_is_likely_locked() */
    bool any_ended;    /* `ended` has the request of the last epoch that ended */
    hr_split_request ended;
    int64_t epoch;        /* of the feed */
    int run_mark;         /* the last one of its run; -1: none */
    bool resumed;         /* the feed's epoch began at a restored position */
    int64_t next_epoch;   /* of the next begin, unless `restored` gives one */
    char *restored;       /* position for the next begin */
    bool moved;           /* hr_feed_options.moved for it */
    int64_t restored_row; /* of its epoch, next_epoch; -1: no rank has restored it since the last epoch began */
    hr_inputs inputs;     /* what the plan reads; set by the first position */
    bool inputs_known;
    hr_split_request agreed;
    split_phase phase;
    hr_table **parts; /* batches of the incomplete step */
    int n_parts;
    int cap_queue;
    int64_t *step_rows; /* by rows: rows of each rank up to the end of step n, at [n % cap_steps]; by tables: of all */
    int cap_steps;
    hr_table *rest, *big; /* by rows, of the pulling rank: fewer rows than ranks; then rows from big_at on */
    int64_t big_at;
    int64_t step_each;   /* rows of each rank in the step that it has made */
    bool *wanted;        /* whose rows it makes */
    int64_t n_steps;     /* released */
    int64_t batch_bytes; /* of the newest step's largest batch; -1: no step is released yet */
    int64_t dropped_rows, padded_rows;
    bool end_waits;                              /* the end of this epoch came, and no rank has taken it */
    int64_t all_epochs, all_dropped, all_padded; /* of all epochs whose end a rank has taken */
    hr_status feed_st;
    hr_error feed_err;
    hr_status lost_st; /* a rank was lost */
    hr_error lost_err;
    bool closed;
    char *run_stats; /* of the feed that was closed last */
    hr_trace *watch; /* what ranks do, between epochs too; NULL: nobody watches */
    int64_t watch_zero_ns;
    hr_text news;  /* of feeds that were closed */
    char *verdict; /* the same */

    hr_mutex ready_lock;
    void (*ready)(void *context);
    void *ready_context;
};

/* ---------------------------------------------------------------------------------------------------------- helpers */

/* Notifies the ring that a rank may have a batch. */
static void split_tell(hr_split *s)
{
    hr__lock(&s->ready_lock);
    if (s->ready)
        s->ready(s->ready_context);
    hr__unlock(&s->ready_lock);
}

static void feed_ready(void *context) { split_tell(context); }

static void changed_locked(hr_split *s)
{
    hr__cond_broadcast(&s->changed);
    split_tell(s);
}

/* A pull has ended without a batch. The ring hears of it only if it was turned away: it asks again each time it hears
 * something, and its own pulls would wake it for ever. */
static void nothing_came_locked(hr_split *s)
{
    if (s->turned_away)
        changed_locked(s);
    else
        hr__cond_broadcast(&s->changed);
}

/* Changes the phase; asserts that the diagram has the arrow. */
static void enter_locked(hr_split *s, split_phase to)
{
#ifndef NDEBUG
    static const unsigned from[] = {
        [BETWEEN] = 1u << OPENING | 1u << RUNNING | 1u << ENDED | 1u << FAILED,
        [OPENING] = 1u << BETWEEN,
        [RUNNING] = 1u << OPENING | 1u << PULLING,
        [PULLING] = 1u << RUNNING,
        [ENDED] = 1u << PULLING,
        [FAILED] = 1u << PULLING,
    };

    if (!(from[to] >> s->phase & 1))
        abort();
#endif
    s->phase = to;
}

static bool anyone_in_locked(const hr_split *s)
{
    for (int r = 0; r < s->n_ranks; r++)
        if (s->ranks[r].state == RANK_IN)
            return true;
    return false;
}

/* Steps that the slowest rank in the epoch has taken. */
static int64_t slowest_locked(const hr_split *s)
{
    int64_t least = INT64_MAX;

    for (int r = 0; r < s->n_ranks; r++)
        if (s->ranks[r].state == RANK_IN)
            least = HR_MIN(least, s->ranks[r].taken);
    return least == INT64_MAX ? s->n_steps : least;
}

/* Steps that every rank in the epoch has done: it has taken a later one. */
static int64_t done_locked(const hr_split *s) { return HR_MAX(slowest_locked(s) - 1, 0); }

/* In this epoch a batch is a table of the feed. */
static bool by_table(const hr_split *s) { return s->agreed.batch_rows == 0; }

/* Rows of each rank in its first n steps, of this feed; by tables: of all ranks. By rows and by tables n is at most
 * cap_steps - 1 steps before the newest. */
static int64_t rows_of_steps(const hr_split *s, int64_t n_steps)
{
    if (s->agreed.by_row || by_table(s))
        return n_steps > 0 ? s->step_rows[n_steps % s->cap_steps] : 0;
    return n_steps * s->agreed.batch_rows;
}

/* The number of rows of all ranks, of a number that rows_of_steps returned. */
static int64_t rows_of_all(const hr_split *s, int64_t rows) { return by_table(s) ? rows : rows * s->n_shares; }

/* The first row after n steps, of this feed's rows. */
static int64_t row_of_step(const hr_split *s, int64_t n_steps) { return rows_of_all(s, rows_of_steps(s, n_steps)); }

static void queue_drop_locked(hr_split *s, split_rank *r)
{
    for (; r->n > 0; r->n--, r->head = (r->head + 1) % s->cap_queue)
        hr_table_unref(r->queue[r->head]);
}

static void parts_drop_locked(hr_split *s)
{
    while (s->n_parts)
        hr_table_unref(s->parts[--s->n_parts]);
}

/* By rows: what the pulling rank has left. */
static void left_drop(hr_split *s)
{
    hr_table_unref(s->rest);
    hr_table_unref(s->big);
    s->rest = s->big = NULL;
}

/* The mean rank's steps, and the rank for which the others waited. */
static void evidence_locked(const hr_split *s, hr_evidence *e, int *mark)
{
    int n = 0;

    *e = (hr_evidence){ .n_ranks = s->n_ranks };
    *mark = -1;
    for (int r = 0; r < s->n_ranks; r++) {
        int its_mark;
        hr_step_sums sums = hr__steps_steady(&s->ranks[r].steps, &its_mark);

        if (!s->ranks[r].steps.taken)
            continue;
        *mark = n ? HR_MIN(*mark, its_mark) : its_mark;
        n++;
        e->steps.n += sums.n;
        e->steps.wait_ns += sums.wait_ns;
        e->steps.step_ns += sums.step_ns;
        e->steps.convert_ns += sums.convert_ns;
        e->steps.n_ready += sums.n_ready;
        if (s->ranks[r].holds_ns > s->ranks[e->slow_rank].holds_ns)
            e->slow_rank = r;
    }
    if (!n)
        return;
    if (n > 1) {
        int its_mark;
        hr_step_sums slow = hr__steps_steady(&s->ranks[e->slow_rank].steps, &its_mark);

        e->held_ns = s->ranks[e->slow_rank].holds_ns / (n - 1);
        e->others_step_ns = (e->steps.step_ns - slow.step_ns) / (n - 1);
    }
    e->steps.n /= n;
    e->steps.wait_ns /= n;
    e->steps.step_ns /= n;
    e->steps.convert_ns /= n;
    e->steps.n_ready /= n;
}

/* What limits the ranks, as JSON. *out is new; NULL: no memory. */
static char *verdict_of(hr_run *run, hr_evidence *e, int mark)
{
    hr_text text = { 0 };
    hr_run_view view;
    hr_verdict v;

    if (!run || hr__run_view(run, mark, &view, NULL))
        return NULL;
    e->run = &view;
    hr__verdict_of(e, &v);
    hr__verdict_print(&v, &text);
    hr__run_view_clear(&view);
    if (text.failed)
        hr__text_clear(&text);
    return text.data;
}

/* Keeps the news of a feed for hr__split_news, the newest if nobody fetches them. Clears `news`. */
static void add_news_locked(hr_split *s, hr_text *news)
{
    if (s->news.n > MAX_NEWS)
        hr__text_clear(&s->news);
    if (news->n)
        hr__text_add(&s->news, "%s%s", s->news.n ? "," : "", news->data);
    hr__text_clear(news);
}

/* Those of the feed, for the time after it. */
static void keep_stats_locked(hr_split *s)
{
    hr_evidence e;
    int mark;

    hr_string_free(s->run_stats);
    hr__free(s->verdict);
    evidence_locked(s, &e, &mark);
    s->verdict = verdict_of(hr__feed_run(s->feed), &e, mark);
    if (hr_feed_stats(s->feed, &s->run_stats, NULL))
        s->run_stats = NULL;
}

/* If no rank is left in the epoch: ends its feed, BETWEEN. */
static void feed_drop_relocks(hr_split *s)
{
    hr_feed *f = s->feed;
    hr_arena *arena = s->feed_arena;
    hr_text news = { 0 };

    if (s->phase == BETWEEN || s->phase == OPENING || s->phase == PULLING || (anyone_in_locked(s) && !s->closed))
        return;
    enter_locked(s, BETWEEN);
    keep_stats_locked(s); /* before the feed goes: others ask for them meanwhile */
    s->feed = NULL;
    s->feed_arena = NULL;
    parts_drop_locked(s);
    left_drop(s);
    hr__unlock(&s->lock);
    if (hr__feed_news(f, &news, NULL))
        hr__text_clear(&news);
    hr_feed_close(f);
    hr__arena_unref(arena);
    hr__lock(&s->lock);
    add_news_locked(s, &news);
    changed_locked(s);
}

/* Closes the feed of the next epoch. */
static void ahead_drop_relocks(hr_split *s)
{
    hr_feed *f = s->ahead;
    hr_arena *arena = s->ahead_arena;

    if (!f)
        return;
    s->ahead = NULL;
    s->ahead_arena = NULL;
    hr__unlock(&s->lock);
    hr_feed_close(f);
    hr__arena_unref(arena);
    hr__lock(&s->lock);
}

/* ----------------------------------------------------------------------------------------------- making and freeing */

static void split_free(hr_split *s)
{
    hr_feed_close(s->feed);
    hr_feed_close(s->ahead);
    hr__arena_unref(s->ahead_arena);
    for (int r = 0; s->ranks && r < s->n_ranks; r++) {
        if (s->ranks[r].queue)
            queue_drop_locked(s, &s->ranks[r]);
        hr__free(s->ranks[r].queue);
        hr_error_clear(&s->ranks[r].answer);
    }
    if (s->parts)
        parts_drop_locked(s);
    left_drop(s);
    hr__free(s->ranks);
    hr__free(s->parts);
    hr__free(s->step_rows);
    hr__free(s->wanted);
    hr__free(s->restored);
    hr_string_free(s->run_stats);
    hr__free(s->trace_path);
    hr__trace_close(s->watch, false);
    hr__text_clear(&s->news);
    hr__free(s->verdict);
    hr_error_clear(&s->feed_err);
    hr_error_clear(&s->lost_err);
    hr__arena_unref(s->arena);
    hr__arena_unref(s->feed_arena);
    hr__account_unref(s->account);
    hr_plan_unref(s->plan);
    hr__cond_clear(&s->changed);
    hr__mutex_clear(&s->ready_lock);
    hr__mutex_clear(&s->lock);
    hr__free(s);
}

/* The column of HR_TAIL_PAD is added to the rows, so they must not have it. */
static hr_status check_pad_column(hr_plan *p, hr_error *err)
{
    hr_schema *schema = NULL;
    bool has;

    HR_TRY(hr__plan_schema_early(p, &schema, err));
    has = schema && hr__schema_find(schema, HR_PAD_COLUMN) >= 0;
    hr__schema_unref(schema);
    if (has)
        return hr_error_set(err, HR_INVALID,
                            "split: the rows have a column " HR_PAD_COLUMN
                            " already, which HR_TAIL_PAD adds; rename it");
    return HR_OK;
}

hr_status hr__split_new(hr_plan *p, int n_ranks, hr_split_tail tail, const hr_feed_options *options, hr_split **out,
                        hr_error *err)
{
    hr_status st = HR_OK;
    hr_split *s = NULL;

    hr_feed_options own;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_feed_options, options, &own));
    if (n_ranks < 1 || n_ranks > 65536)
        return hr_error_set(err, HR_INVALID, "split: n_ranks is %d; give 1 to 65536", n_ranks);
    if (tail != HR_TAIL_EQUAL && tail != HR_TAIL_UNEVEN && tail != HR_TAIL_PAD)
        return hr_error_set(err, HR_INVALID, "split: tail is %d; give a hr_split_tail", (int)tail);
    if (tail == HR_TAIL_PAD)
        HR_TRY(check_pad_column(p, err));
    s = hr__zalloc(NULL, sizeof *s);
    if (!s)
        return hr__error_memory(err, "split", sizeof *s);
    atomic_init(&s->refs, 1);
    hr__mutex_init(&s->lock);
    hr__mutex_init(&s->ready_lock);
    hr__cond_init(&s->changed);
    s->plan = hr_plan_ref(p);
    s->n_ranks = s->n_here = s->n_shares = n_ranks;
    s->n_replicas = s->n_lanes = s->n_hosts = 1;
    s->tail = tail;
    s->options = own;
    s->options.position = NULL;
    if (own.trace_path && !(s->trace_path = hr__strdup(NULL, own.trace_path)))
        HR_FAIL(HR_NO_MEMORY, "split: no memory for a path");
    s->options.trace_path = s->trace_path;
    s->next_epoch = s->options.epoch;
    s->restored_row = -1;
    s->account = hr__account_new("split", NULL, 0);
    s->ranks = hr__zalloc(s->account, (size_t)n_ranks * sizeof *s->ranks);
    s->parts = hr__zalloc(s->account, (size_t)n_ranks * sizeof *s->parts);
    s->wanted = hr__zalloc(s->account, (size_t)n_ranks * sizeof *s->wanted);
    if (!s->account || !s->ranks || !s->parts || !s->wanted)
        HR_FAIL(HR_NO_MEMORY, "split: no memory for %d ranks", n_ranks);
    if (own.position)
        HR_GO(hr__split_restore(s, own.position, &(hr_position_how){ .moved = own.moved, .strict = own.strict }, err));
    *out = s;
    s = NULL;
done:
    if (s)
        split_free(s);
    return st;
}

hr_split *hr__split_ref(hr_split *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__split_unref(hr_split *s)
{
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        split_free(s);
}

int hr__split_n_ranks(const hr_split *s) { return s->n_ranks; }

hr_status hr__split_replicate(hr_split *s, int n_replicas, hr_error *err)
{
    if (n_replicas < 1 || s->n_ranks % n_replicas)
        return hr_error_set(err, HR_INVALID, "split: replicas is %d; give a divisor of the %d ranks", n_replicas,
                            s->n_ranks);
    s->n_replicas = n_replicas;
    s->n_shares = s->n_ranks / n_replicas;
    return HR_OK;
}

hr_status hr__split_lanes(hr_split *s, int n_lanes, int n_hosts, hr_error *err)
{
    if (n_lanes < 1 || n_lanes > HR_MAX_LANES)
        return hr_error_set(err, HR_INVALID, "split: lanes is %d; give 1 to %d", n_lanes, HR_MAX_LANES);
    if (n_hosts < 1 || n_hosts > s->n_ranks)
        return hr_error_set(err, HR_INVALID, "split: hosts is %d; give 1 to %d, the number of ranks", n_hosts,
                            s->n_ranks);
    if (s->n_replicas > 1 && n_lanes > 1)
        return hr_error_set(err, HR_INVALID, "split: lanes and replicas are not possible together");
    s->n_lanes = n_lanes;
    s->n_hosts = n_hosts;
    return HR_OK;
}

hr_split_request *hr__split_usual(hr_split *s) { return &s->usual; }

void hr__split_serve(hr_split *s, hr_arena *arena, void (*ready)(void *context), void *context)
{
    hr_arena *old;

    hr__lock(&s->ready_lock);
    s->ready = ready;
    s->ready_context = context;
    hr__unlock(&s->ready_lock);
    hr__lock(&s->lock);
    old = s->arena;
    s->arena = arena ? hr__arena_ref(arena) : NULL;
    hr__unlock(&s->lock);
    hr__arena_unref(old);
}

hr_status hr__split_schema(hr_split *s, hr_schema **out, hr_error *err)
{
    hr_schema *plain = NULL;
    hr_status st;

    if (s->tail != HR_TAIL_PAD)
        return hr__plan_schema(s->plan, out, err);
    HR_TRY(hr__plan_schema(s->plan, &plain, err));
    st = hr__schema_append(plain, HR_PAD_COLUMN, hr__type_simple(HR_T_BOOL), true, out, err);
    hr__schema_unref(plain);
    return st;
}

void hr__split_close(hr_split *s)
{
    hr__lock(&s->lock);
    s->closed = true;
    if (s->phase == PULLING && hr__feed_run(s->feed))
        hr__run_cancel(hr__feed_run(s->feed)); /* the pulling rank returns and drops the feed */
    else
        feed_drop_relocks(s);
    if (s->phase != PULLING)
        ahead_drop_relocks(s);
    changed_locked(s);
    hr__unlock(&s->lock);
}

/* ---------------------------------------------------------------------------------------------------------- running */

/* Queues a batch for a rank. Takes it. */
static void queue_rank_locked(hr_split *s, int rank, hr_table *takes)
{
    split_rank *r = &s->ranks[rank];

    if (r->state != RANK_IN)
        hr_table_unref(takes);
    else
        r->queue[(r->head + r->n++) % s->cap_queue] = takes;
}

/* Queues a batch for the ranks of a share, each of which may write to its own. Takes it, even on failure. */
static hr_status queue_locked(hr_split *s, int share, hr_table *takes, hr_error *err)
{
    const hr_mem mem = { s->account, s->feed_arena };
    int first = share * s->n_replicas;
    hr_status st = HR_OK;

    for (int r = first + 1; r < first + s->n_replicas && !st; r++) {
        hr_table *copy = NULL;

        if (s->ranks[r].state != RANK_IN)
            continue;
        st = hr__table_concat(&mem, takes->schema, &takes, 1, &copy, err);
        if (!st)
            queue_rank_locked(s, r, copy);
    }
    queue_rank_locked(s, first, takes);
    return st;
}

/* By rows: the next step has this many rows for each rank. */
static void count_rows_locked(hr_split *s, int64_t each)
{
    s->step_rows[(s->n_steps + 1) % s->cap_steps] = rows_of_steps(s, s->n_steps) + each;
}

static int64_t rest_rows_locked(const hr_split *s)
{
    int64_t n = 0;

    for (int i = 0; i < s->n_parts; i++)
        n += hr_table_rows(s->parts[i]);
    return n;
}

/* The batches of the open step are only those of the ranks here. */
static bool own_step(const hr_split *s) { return s->n_steps < s->own_steps; }

/* How many batches of the feed make the open step. */
static int parts_of_step(const hr_split *s) { return own_step(s) ? s->n_shares / s->n_hosts : s->n_shares; }

/* The share of batch i of the open step. */
static int share_of_part(const hr_split *s, int i)
{
    if (!own_step(s))
        return i;
    return s->in_turn ? i * s->n_hosts + s->host : s->host * (s->n_shares / s->n_hosts) + i;
}

static hr_status release_step_locked(hr_split *s, hr_error *err)
{
    hr_status st = HR_OK;

    if (s->agreed.by_row || by_table(s))
        count_rows_locked(s, by_table(s) ? rest_rows_locked(s) : s->step_each);
    s->batch_bytes = -1;
    for (int r = 0; r < s->n_parts; r++) {
        if (s->parts[r])
            s->batch_bytes = HR_MAX(s->batch_bytes, hr__table_bytes_used(s->parts[r]));
        if (s->parts[r] && !st)
            st = queue_locked(s, share_of_part(s, r), s->parts[r], err);
        else
            hr_table_unref(s->parts[r]);
    }
    s->n_parts = 0;
    s->n_steps++;
    hr__feed_forget(s->feed, row_of_step(s, done_locked(s)));
    return st;
}

/* Adds the slices of the remaining rows [begin, begin + n) to `slices`. */
static hr_status rest_slices_locked(hr_split *s, int64_t begin, int64_t n, hr_table **slices, int *n_slices,
                                    hr_error *err)
{
    int64_t at = 0;

    for (int i = 0; i < s->n_parts; i++) {
        int64_t rows = hr_table_rows(s->parts[i]), from = HR_MAX(begin, at), to = HR_MIN(begin + n, at + rows);

        if (from < to) {
            HR_TRY(hr_table_slice(s->parts[i], from - at, to - from, &slices[*n_slices], err));
            (*n_slices)++;
        }
        at += rows;
    }
    return HR_OK;
}

/* n of the remaining rows, from `begin` on, as one table with its own memory. After the last remaining row the first
 * one follows again. */
static hr_status rest_slice_locked(hr_split *s, int64_t begin, int64_t n, hr_table **out, hr_error *err)
{
    const hr_mem mem = { s->account, s->feed_arena };
    int64_t rest = rest_rows_locked(s), cap = s->n_parts * (n / rest + 2);
    hr_status st = HR_OK;
    hr_table **slices = hr__zalloc(s->account, (size_t)cap * sizeof *slices);
    int n_slices = 0;

    if (!slices)
        return hr__error_memory(err, "split", cap * (int64_t)sizeof *slices);
    for (int64_t at = begin, end = begin + n, more; at < end; at += more) {
        more = HR_MIN(end - at, rest - at % rest);
        HR_GO(rest_slices_locked(s, at % rest, more, slices, &n_slices, err));
    }
    HR_GO(hr__table_concat(&mem, s->parts[0]->schema, slices, n_slices, out, err));
done:
    for (int i = 0; i < n_slices; i++)
        hr_table_unref(slices[i]);
    hr__free(slices);
    return st;
}

/* The last step of HR_TAIL_EQUAL: the same number of rows for each rank. */
static hr_status tail_equal_locked(hr_split *s, hr_error *err)
{
    int64_t rest = rest_rows_locked(s), each;
    hr_status st = HR_OK;

    each = s->agreed.drop_last || by_table(s) ? 0 : rest / s->n_shares;
    s->dropped_rows = rest - each * s->n_shares;
    if (each > 0) {
        for (int r = 0; r < s->n_shares && !st; r++) {
            hr_table *t = NULL;

            st = rest_slice_locked(s, r * each, each, &t, err);
            if (!st)
                st = queue_locked(s, r, t, err);
        }
        s->n_steps++;
    }
    parts_drop_locked(s);
    return st;
}

/* Marks the rows [begin, end) of a new table, which has its own memory, as padding. */
static hr_status mark_padding(hr_table *t, int64_t begin, int64_t end, hr_error *err)
{
    int at = hr__schema_find(t->schema, HR_PAD_COLUMN);
    const hr_array *a = at < 0 ? NULL : t->columns[at];

    if (!a || a->type->id != HR_T_BOOL || !a->buffers[1])
        return hr_error_set(err, HR_BUG, "split: the rows have no column " HR_PAD_COLUMN);
    for (int64_t i = begin; i < end; i++)
        hr__bit_set(a->buffers[1]->data, a->offset + i);
    return HR_OK;
}

/* The last step of HR_TAIL_PAD: the remaining rows, then the first ones again, so that all ranks get equally many. */
static hr_status tail_pad_locked(hr_split *s, hr_error *err)
{
    int64_t rest = rest_rows_locked(s), each = (rest + s->n_shares - 1) / s->n_shares;
    hr_status st = HR_OK;

    if (s->agreed.drop_last && each < s->agreed.batch_rows) {
        s->dropped_rows = rest;
        each = 0;
    }
    if (each > 0) {
        for (int r = 0; r < s->n_shares && !st; r++) {
            int64_t real = HR_MAX(0, HR_MIN(rest - r * each, each));
            hr_table *t = NULL;

            st = rest_slice_locked(s, r * each, each, &t, err);
            if (!st && real < each)
                st = mark_padding(t, real, each, err);
            if (st)
                hr_table_unref(t);
            else
                st = queue_locked(s, r, t, err);
        }
        s->padded_rows = each * s->n_shares - rest;
        if (s->agreed.by_row)
            count_rows_locked(s, each);
        s->n_steps++;
    }
    parts_drop_locked(s);
    return st;
}

/* By tables, the last step of HR_TAIL_PAD: the remaining batches, then the first of them again, marked as padding. */
static hr_status tail_pad_tables_locked(hr_split *s, hr_error *err)
{
    int64_t rest = rest_rows_locked(s);
    int n = s->n_parts;

    if (n == 0)
        return HR_OK;
    if (s->agreed.drop_last) {
        s->dropped_rows = rest;
        parts_drop_locked(s);
        return HR_OK;
    }
    for (; s->n_parts < s->n_shares; s->n_parts++) {
        const hr_mem mem = { s->account, s->feed_arena };
        hr_table *from = s->parts[s->n_parts - n], *t = NULL;
        int64_t n_rows = hr_table_rows(from);

        HR_TRY(hr__table_concat(&mem, from->schema, &from, 1, &t, err));
        s->parts[s->n_parts] = t;
        if (mark_padding(t, 0, n_rows, err)) {
            s->n_parts++;
            return HR_BUG;
        }
        s->padded_rows += n_rows;
    }
    HR_TRY(release_step_locked(s, err));
    s->step_rows[s->n_steps % s->cap_steps] -= s->padded_rows; /* they are not the feed's */
    return HR_OK;
}

/* The last step of HR_TAIL_UNEVEN: the remaining batches as they are. */
static hr_status tail_uneven_locked(hr_split *s, hr_error *err)
{
    int64_t rest = rest_rows_locked(s);
    hr_status st = HR_OK;

    if (s->n_parts == 0)
        return HR_OK;
    for (int r = 0; r < s->n_parts; r++) {
        hr_table *t = s->parts[r];

        if (s->agreed.drop_last && hr_table_rows(t) < s->agreed.batch_rows) {
            s->dropped_rows += hr_table_rows(t);
            hr_table_unref(t);
        } else {
            st = st ? (hr_table_unref(t), st) : queue_locked(s, r, t, err);
        }
    }
    s->n_parts = 0;
    if (s->agreed.by_row || by_table(s))
        count_rows_locked(s, by_table(s) ? rest : 1);
    s->n_steps++;
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- by rows */

/* Appends the next n rows of `big` to `rest`, which has fewer rows than there are ranks. */
static hr_status rest_append(hr_split *s, int64_t n, hr_error *err)
{
    const hr_mem mem = { s->account, NULL };
    hr_table *slices[2], *made = NULL, *more = NULL;
    int n_slices = 0;
    hr_status st = HR_OK;

    if (n == 0)
        return HR_OK;
    HR_TRY(hr_table_slice(s->big, s->big_at, n, &more, err));
    if (s->rest)
        slices[n_slices++] = s->rest;
    slices[n_slices++] = more;
    st = hr__table_concat(&mem, more->schema, slices, n_slices, &made, err);
    hr_table_unref(more);
    if (st)
        return st;
    hr_table_unref(s->rest);
    s->rest = made;
    s->big_at += n;
    return HR_OK;
}

/* The rows of one rank in a step: rows r, r + N, ... of `rest` and `big`. */
static hr_status rows_of_rank(hr_split *s, int rank, uint32_t *picks, hr_table *const *slices, int n_slices,
                              hr_table **out, hr_error *err)
{
    const hr_mem mem = { s->account, s->feed_arena };
    int64_t n_rest = s->rest ? hr_table_rows(s->rest) : 0;

    for (int64_t i = 0; i < s->step_each; i++) {
        int64_t row = i * s->n_shares + rank;

        picks[i] = row < n_rest ? (uint32_t)row : (uint32_t)(n_slices - 1) << HR_PICK_BITS | (uint32_t)(row - n_rest);
    }
    return hr__table_pick(&mem, slices[0]->schema, slices, n_slices, picks, s->step_each, NULL, out, err);
}

/* Makes a step in s->parts from the first rows of `rest` and `big`. */
static hr_status make_step(hr_split *s, hr_error *err)
{
    int64_t n_rest = s->rest ? hr_table_rows(s->rest) : 0, from_big = s->step_each * s->n_shares - n_rest;
    uint32_t *picks = hr__alloc(s->account, (size_t)s->step_each * sizeof *picks);
    hr_table *slices[2], *more = NULL;
    int n_slices = 0;
    hr_status st = HR_OK;

    if (!picks)
        return hr__error_memory(err, "split", s->step_each * (int64_t)sizeof *picks);
    HR_GO(hr_table_slice(s->big, s->big_at, from_big, &more, err));
    if (s->rest)
        slices[n_slices++] = s->rest;
    slices[n_slices++] = more;
    for (; s->n_parts < s->n_shares; s->n_parts++) {
        s->parts[s->n_parts] = NULL;
        if (s->wanted[s->n_parts])
            HR_GO(rows_of_rank(s, s->n_parts, picks, slices, n_slices, &s->parts[s->n_parts], err));
    }
    hr_table_unref(s->rest);
    s->rest = NULL;
    s->big_at += from_big;
done:
    hr_table_unref(more);
    hr__free(picks);
    return st;
}

/* PULLING, without the lock: makes a step in s->parts, unless the feed's table has too few rows. *end: the feed has
 * ended. */
static hr_status pull_rows(hr_split *s, hr_feed *f, int timeout_ms, bool *end, hr_error *err)
{
    int64_t n;

    if (!s->big) {
        HR_TRY(hr__feed_next(f, timeout_ms, &s->big, err));
        s->big_at = 0;
        *end = !s->big;
    }
    if (!s->big)
        return HR_OK;
    n = (s->rest ? hr_table_rows(s->rest) : 0) + hr_table_rows(s->big) - s->big_at;
    s->step_each = HR_MIN(HR_MIN(n / s->n_shares, STEP_ROWS), HR_MAX(STEP_ROWS_OF_ALL / s->n_shares, 1));
    if (s->step_each > 0)
        HR_TRY(make_step(s, err));
    else
        HR_TRY(rest_append(s, hr_table_rows(s->big) - s->big_at, err));
    if (s->big_at == hr_table_rows(s->big)) {
        hr_table_unref(s->big);
        s->big = NULL;
    }
    return HR_OK;
}

/* The feed has ended: the remaining rows become the batches of the incomplete step. */
static hr_status rest_to_parts_locked(hr_split *s, hr_error *err)
{
    int64_t n = s->rest ? hr_table_rows(s->rest) : 0;

    for (int64_t i = 0; i < n; i++, s->n_parts++)
        HR_TRY(hr_table_slice(s->rest, i, 1, &s->parts[s->n_parts], err));
    return HR_OK;
}

/* RUNNING: a batch goes to the next rank of the incomplete step. */
static hr_status batch_came_locked(hr_split *s, hr_table *takes, hr_error *err)
{
    if (s->n_parts == parts_of_step(s)) {
        hr_table_unref(takes);
        return hr_error_set(err, HR_BUG, "split: a batch came after a short one");
    }
    s->parts[s->n_parts++] = takes;
    if (s->n_parts == parts_of_step(s) && (by_table(s) || hr_table_rows(takes) == s->agreed.batch_rows))
        return release_step_locked(s, err);
    return HR_OK;
}

/* ENDED: the remaining batches make the last step. */
static hr_status feed_ended_locked(hr_split *s, hr_error *err)
{
    if (s->agreed.by_row)
        HR_TRY(rest_to_parts_locked(s, err));
    if (s->tail == HR_TAIL_EQUAL)
        HR_TRY(tail_equal_locked(s, err));
    else if (s->tail == HR_TAIL_PAD && by_table(s))
        HR_TRY(tail_pad_tables_locked(s, err));
    else if (s->tail == HR_TAIL_PAD)
        HR_TRY(tail_pad_locked(s, err));
    else
        HR_TRY(tail_uneven_locked(s, err));
    s->ended = s->agreed;
    s->any_ended = true;
    s->end_waits = true;
    return HR_OK;
}

/* FAILED: ranks get the error after their queued batches. */
static void feed_failed_locked(hr_split *s, hr_status st, hr_error *moved)
{
    s->feed_st = st;
    hr__error_move(&s->feed_err, moved);
}

/* Without memory for it the feed is not watched. */
static void watch_feed_locked(hr_split *s, hr_feed *f)
{
    hr_error e = HR_ERROR_INIT;

    if (s->watch && hr__feed_watch(f, s->watch_zero_ns, &e))
        hr_error_clear(&e);
}

hr_status hr__split_watch(hr_split *s, int64_t zero_ns, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&s->lock);
    if (!s->watch) {
        st = hr__trace_watch_new(s->account, zero_ns, &s->watch, err);
        s->watch_zero_ns = zero_ns;
        if (s->feed)
            watch_feed_locked(s, s->feed);
        if (s->ahead)
            watch_feed_locked(s, s->ahead);
    }
    hr__unlock(&s->lock);
    return st;
}

hr_status hr__split_news(hr_split *s, hr_text *out, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&s->lock);
    if (s->news.n)
        hr__text_add(out, "%s%s", out->n ? "," : "", s->news.data);
    hr__text_clear(&s->news);
    if (s->feed)
        st = hr__feed_news(s->feed, out, err);
    if (!st && s->watch)
        st = hr__trace_news(s->watch, out, err);
    hr__unlock(&s->lock);
    return st;
}

/* Without the lock, while no request changes (OPENING, PULLING): opens the feed of an epoch for the agreed request. */
static hr_status open_feed(hr_split *s, hr_arena *arena, int64_t epoch, const char *position, hr_feed **out,
                           hr_error *err)
{
    hr_feed_options o = s->options;
    uint64_t shuffle_seed = s->agreed.shuffle_seed;
    hr_feed_extra extra = { .own_memory = s->agreed.own_memory,
                            .arena = arena,
                            .keep_positions = true,
                            .ready = feed_ready,
                            .ready_context = s,
                            .small_for = s->agreed.prefetch > 0 ? s->n_shares : 0,
                            .of_split = true,
                            .by_row = s->agreed.by_row,
                            .pad_column = s->tail == HR_TAIL_PAD,
                            .split_drop_last = s->agreed.drop_last,
                            .lanes = { s->n_lanes, s->n_hosts, s->host, s->n_shares } };

    o.batch_rows = s->agreed.by_row ? 0 : s->agreed.batch_rows;
    o.shuffle_rows = s->agreed.shuffle_rows;
    o.shuffle_seed = s->agreed.has_shuffle_seed ? &shuffle_seed : NULL;
    o.drop_last = false; /* the tail's rule handles short steps, which depend on all ranks */
    o.prefetch = s->n_shares * HR_MAX(s->agreed.prefetch, 1);
    if (s->agreed.prefetch > 0 && o.most_prefetch > 0)
        o.most_prefetch = s->n_shares * HR_MIN(o.most_prefetch, MAX_PREFETCH);
    o.epoch = epoch;
    o.position = position;
    o.moved = s->moved;
    o.strict = false; /* hr__split_restore has checked it */
    return hr__feed_open(s->plan, &o, &extra, out, err);
}

/* PULLING, without the lock: opens the feed of the next epoch if it is time. If that fails, its begin tries
 * again and reports it. */
static hr_feed *open_ahead(hr_split *s, hr_arena *arena, int64_t epoch)
{
    hr_error e = HR_ERROR_INIT;
    hr_feed *f = NULL;

    if (open_feed(s, arena, epoch, NULL, &f, &e))
        f = NULL;
    hr_error_clear(&e);
    return f;
}

/* PULLING: looks once per epoch. */
static void look_ahead_relocks(hr_split *s)
{
    hr_arena *arena;
    hr_feed *f;

    if (!(s->agreed.ahead || s->loops) || s->looked_ahead || s->ahead || s->closed || hr__feed_delays_next(s->feed))
        return;
    s->looked_ahead = true;
    if (!s->agreed.ahead && !hr__feed_may_open_next(s->feed))
        return;
    arena = s->arena ? hr__arena_ref(s->arena) : NULL;
    hr__unlock(&s->lock);
    f = open_ahead(s, arena, s->epoch + 1);
    hr__lock(&s->lock);
    if (!f) {
        hr__arena_unref(arena);
        return;
    }
    s->ahead = f;
    s->ahead_arena = arena;
    s->ahead_request = s->agreed;
    watch_feed_locked(s, f);
}

/* RUNNING, then PULLING: takes one batch from the feed and queues it. HR_PENDING: no batch came; other results are in
 * the split. */
static hr_status pull_relocks(hr_split *s, int timeout_ms)
{
    hr_error e = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_feed *f = s->feed;
    split_phase then = RUNNING;
    bool by_row = s->agreed.by_row, end = false;
    hr_status st;

    enter_locked(s, PULLING);
    s->turned_away = false;
    for (int r = 0; r < s->n_ranks; r++)
        s->wanted[r / s->n_replicas] =
            (r % s->n_replicas && s->wanted[r / s->n_replicas]) || s->ranks[r].state == RANK_IN;
    hr__unlock(&s->lock);
    st = by_row ? pull_rows(s, f, timeout_ms, &end, &e) : hr__feed_next(f, timeout_ms, &t, &e);
    hr__lock(&s->lock);
    if (!st && t) {
        st = batch_came_locked(s, t, &e);
    } else if (!st && by_row && !end) {
        if (s->n_parts == s->n_shares)
            st = release_step_locked(s, &e);
    } else if (!st) {
        then = ENDED;
        st = feed_ended_locked(s, &e);
    }
    if (st && st != HR_PENDING) {
        then = FAILED;
        feed_failed_locked(s, st, &e);
    }
    if (!st)
        look_ahead_relocks(s);
    enter_locked(s, then);
    hr_error_clear(&e);
    feed_drop_relocks(s); /* all ranks may have left meanwhile */
    if (s->closed)
        ahead_drop_relocks(s);
    if (st == HR_PENDING)
        nothing_came_locked(s);
    else
        changed_locked(s);
    return st;
}

static hr_status check_rank(const hr_split *s, int rank, hr_error *err)
{
    if (rank < 0 || rank >= s->n_ranks)
        return hr_error_set(err, HR_INVALID, "split: rank %d of %d", rank, s->n_ranks);
    return HR_OK;
}

/* The error of every call after the split was closed or a rank was lost; otherwise HR_OK. A feed that failed in an
 * epoch is the reason for what ranks did then. */
static hr_status check_alive_locked(hr_split *s, hr_error *err)
{
    if (s->closed)
        return hr_error_set(err, HR_CANCELLED, "the split was closed");
    if (s->lost_st)
        return hr__error_copy(err, s->phase == FAILED ? &s->feed_err : &s->lost_err);
    return HR_OK;
}

/* Waits until something changes; false: the time is up. */
static bool wait_relocks(hr_split *s, int timeout_ms, int64_t until)
{
    int64_t left = until - hr__clock_ns();

    if (timeout_ms < 0) {
        hr__cond_wait(&s->changed, &s->lock);
        return true;
    }
    if (left <= 0)
        return false;
    hr__cond_wait_ns(&s->changed, &s->lock, left);
    return true;
}

static int64_t deadline(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : hr__clock_ns() + (int64_t)timeout_ms * 1000000;
}

/* Pulls for at most PULL_MS. HR_PENDING: the caller's time is up, or an inline call waits for a server. */
static hr_status pull_slice_relocks(hr_split *s, int64_t until)
{
    int64_t begin = hr__clock_ns(), left_ms = until == INT64_MAX ? PULL_MS : (until - begin + 999999) / 1000000;
    int slice = (int)HR_MAX(0, HR_MIN(left_ms, PULL_MS));
    hr_status st = pull_relocks(s, slice);
    int64_t now = hr__clock_ns();

    if (st != HR_PENDING)
        return HR_OK;
    return now >= until || now - begin < (int64_t)slice * 1000000 ? HR_PENDING : HR_OK;
}

int hr__split_ahead(int prefetch, int64_t batch_bytes)
{
    return prefetch > 0 ? hr__ahead(prefetch, 1, batch_bytes) : 0;
}

static int ahead_locked(const hr_split *s) { return hr__split_ahead(s->agreed.prefetch, s->batch_bytes); }

/* The rank wants a batch, and cannot get it before the slowest rank has taken one; or no longer. */
static void held_locked(hr_split *s, split_rank *r, bool held)
{
    if (!held) {
        r->held_ns += r->held_from_ns ? hr__clock_ns() - r->held_from_ns : 0;
        r->held_from_ns = 0;
        return;
    }
    if (r->held_from_ns)
        return;
    r->held_from_ns = hr__clock_ns();
    for (int i = 0; i < s->n_ranks; i++)
        if (s->ranks[i].state == RANK_IN && s->ranks[i].taken == slowest_locked(s))
            r->held_by = i;
}

/* Takes the rank's next batch, or the end (*out NULL). HR_PENDING: neither is here yet. */
static hr_status take_locked(hr_split *s, split_rank *r, hr_table **out, hr_error *err)
{
    if (r->n > 0 || s->phase != RUNNING)
        held_locked(s, r, false);
    if (r->n > 0) {
        *out = r->queue[r->head];
        r->head = (r->head + 1) % s->cap_queue;
        r->n--;
        r->handed++;
        r->n_rows += hr_table_rows(*out);
        return HR_OK;
    }
    if (s->feed_st)
        return hr__error_copy(err, &s->feed_err);
    return s->phase == ENDED ? HR_OK : HR_PENDING;
}

/* pass: the caller's pass; 0: any. The check prevents that two iterations of a rank share its rows. */
static hr_status next_of_pass(hr_split *s, int rank, int64_t pass, int timeout_ms, hr_table **out, hr_error *err)
{
    int64_t until = deadline(timeout_ms);
    split_rank *r;
    hr_status st;

    *out = NULL;
    HR_TRY(check_rank(s, rank, err));
    r = &s->ranks[rank];
    hr__lock(&s->lock);
    for (;;) {
        st = check_alive_locked(s, err);
        if (!st && pass && r->pass != pass)
            st = hr_error_set(err, HR_INVALID, "split: rank %d began a new iteration, which ended this one", rank);
        if (!st && r->state != RANK_IN)
            st = hr_error_set(err, HR_INVALID, "split: rank %d has not begun an epoch", rank);
        if (!st)
            st = take_locked(s, r, out, err);
        if (st != HR_PENDING)
            break;
        if ((s->phase == RUNNING || s->phase == PULLING) && s->n_steps > slowest_locked(s) + ahead_locked(s))
            held_locked(s, r, true);
        if (s->phase == RUNNING && s->n_steps <= slowest_locked(s) + ahead_locked(s)) {
            held_locked(s, r, false);
            if (pull_slice_relocks(s, until) == HR_PENDING)
                break;
        } else if (!wait_relocks(s, timeout_ms, until)) {
            s->turned_away = true;
            break;
        }
    }
    hr__unlock(&s->lock);
    return st;
}

hr_status hr__split_next_ahead(hr_split *s, int rank, int timeout_ms, hr_table **out, hr_error *err)
{
    return next_of_pass(s, rank, 0, timeout_ms, out, err);
}

int64_t hr__split_pass(hr_split *s, int rank)
{
    int64_t pass;

    hr__lock(&s->lock);
    pass = s->ranks[rank].pass;
    hr__unlock(&s->lock);
    return pass;
}

/* The trace gets what the rank did from begin on, after a part of its step. */
static void draw_locked(hr_split *s, split_rank *r, const char *what, int64_t begin, int64_t end)
{
    hr_run *run = s->feed ? hr__feed_run(s->feed) : NULL;
    int rank = (int)(r - s->ranks);

    begin = HR_MAX(begin, r->drawn_ns);
    if (run && end > begin) {
        hr__run_trace_rank(run, rank, "step", r->drawn_ns, begin);
        hr__run_trace_rank(run, rank, what, begin, end);
    }
    if (end > begin) {
        hr__trace_rank(s->watch, rank, "step", r->drawn_ns, begin);
        hr__trace_rank(s->watch, rank, what, begin, end);
    }
    r->drawn_ns = HR_MAX(r->drawn_ns, end);
}

/* The rank's last step ends with its epoch. */
static void draw_end_locked(hr_split *s, split_rank *r)
{
    if (r->state == RANK_IN && r->steps.taken)
        draw_locked(s, r, "step", r->drawn_ns, hr__clock_ns());
}

void hr__split_reported(hr_split *s, int rank, int64_t begin_ns, int64_t end_ns)
{
    split_rank *r;

    if (rank < 0 || rank >= s->n_ranks)
        return;
    r = &s->ranks[rank];
    hr__lock(&s->lock);
    if (!r->steps.taken) /* no step before it, as far as we know: a rank says late what it took */
        r->drawn_ns = HR_MAX(r->drawn_ns, begin_ns);
    draw_locked(s, r, "report", begin_ns, end_ns);
    hr__unlock(&s->lock);
}

/* The rank has taken a step; its waits in this epoch are wait_ns by now. */
static void step_locked(hr_split *s, split_rank *r, int64_t wait_ns)
{
    int64_t now = hr__clock_ns(), waited = HR_MAX(0, wait_ns - r->counted_wait_ns);
    int64_t since = r->steps.last_ns ? now - r->steps.last_ns : waited;
    hr_run *run = s->feed ? hr__feed_run(s->feed) : NULL;
    int mark = hr__steps_add(&r->steps, HR_MIN(waited, since), HR_MAX(0, since - waited));

    draw_locked(s, r, "wait", mark == HR_MARK_FIRST ? r->drawn_ns : now - waited, now);
    if (mark == HR_MARK_FIRST)
        r->held_ns = 0; /* the wait for the first batch is no step's */
    s->ranks[r->held_by].holds_ns += HR_MIN(r->held_ns, waited);
    r->held_ns = 0;
    r->counted_wait_ns = wait_ns;
    r->seen_ns = r->steps.last_ns = now;
    if (mark >= 0 && run && mark > s->run_mark) {
        s->run_mark = mark;
        hr__run_mark(run, mark);
    }
}

void hr__split_converted(hr_split *s, int rank, int64_t ns)
{
    if (rank < 0 || rank >= s->n_ranks)
        return;
    hr__lock(&s->lock);
    if (s->ranks[rank].steps.taken > 1)
        s->ranks[rank].steps.sums.convert_ns += ns;
    hr__unlock(&s->lock);
}

void hr__split_taken(hr_split *s, int rank, int64_t n_steps, int64_t wait_ns)
{
    split_rank *r;

    if (rank < 0 || rank >= s->n_ranks)
        return;
    r = &s->ranks[rank];
    hr__lock(&s->lock);
    r->wait_ns = wait_ns;
    if (n_steps > r->taken && n_steps <= r->handed) {
        r->taken = n_steps;
        step_locked(s, r, wait_ns);
        if (s->feed)
            hr__feed_forget(s->feed, row_of_step(s, done_locked(s)));
    }
    changed_locked(s);
    hr__unlock(&s->lock);
}

void hr__split_report_rows(hr_split *s, int rank, int64_t n_rows)
{
    if (rank < 0 || rank >= s->n_ranks)
        return;
    hr__lock(&s->lock);
    s->ranks[rank].reported = n_rows;
    hr__unlock(&s->lock);
}

/* Counts an epoch once, when the first rank has taken its end: then positions are those of the next epoch, and a
 * restart does not come by this end again. */
static void count_end_locked(hr_split *s)
{
    if (!s->end_waits)
        return;
    s->end_waits = false;
    s->all_epochs++;
    s->all_dropped += s->dropped_rows;
    s->all_padded += s->padded_rows;
}

void hr__split_finish(hr_split *s, int rank)
{
    split_rank *r;

    if (rank < 0 || rank >= s->n_ranks)
        return;
    r = &s->ranks[rank];
    hr__lock(&s->lock);
    if (r->state == RANK_IN && s->phase == ENDED) {
        r->taken = r->handed;
        draw_end_locked(s, r);
        r->finished = true;
        count_end_locked(s);
        r->state = RANK_OUT;
        r->seen_ns = hr__clock_ns();
        feed_drop_relocks(s);
    }
    changed_locked(s);
    hr__unlock(&s->lock);
}

hr_status hr__split_next(hr_split *s, int rank, int64_t pass, int timeout_ms, hr_table **out, hr_error *err)
{
    int64_t begin = hr__clock_ns();
    hr_status st = next_of_pass(s, rank, pass, timeout_ms, out, err);

    if (rank >= 0 && rank < s->n_ranks && (!pass || pass == hr__split_pass(s, rank))) {
        split_rank *r = &s->ranks[rank];
        int64_t handed, wait_ns;

        hr__lock(&s->lock);
        handed = r->handed;
        wait_ns = r->wait_ns + hr__clock_ns() - begin;
        hr__unlock(&s->lock);
        hr__split_taken(s, rank, !st && *out ? handed : 0, wait_ns);
        if (!st && !*out)
            hr__split_finish(s, rank);
    }
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- epochs */

/* Whether both are for the same batches of an epoch. */
static bool batches_equal(const hr_split_request *a, const hr_split_request *b)
{
    return a->batch_rows == b->batch_rows && a->drop_last == b->drop_last && a->prefetch == b->prefetch &&
           a->own_memory == b->own_memory && a->shuffle_rows == b->shuffle_rows && a->by_row == b->by_row &&
           a->has_shuffle_seed == b->has_shuffle_seed && a->shuffle_seed == b->shuffle_seed &&
           !strcmp(a->extra, b->extra);
}

static bool requests_equal(const hr_split_request *a, const hr_split_request *b)
{
    return batches_equal(a, b) && a->ahead == b->ahead && a->has_epoch == b->has_epoch && a->epoch == b->epoch;
}

static void request_print(const hr_split_request *q, hr_text *t)
{
    if (q->batch_rows)
        hr__text_add(t, "%s %" PRId64, q->by_row ? "rows, batch_size" : "batch_size", q->batch_rows);
    else
        hr__text_add(t, "the batches of the plan");
    hr__text_add(t, ", drop_last %s, prefetch %d%s", q->drop_last ? "yes" : "no", q->prefetch,
                 q->own_memory ? ", own memory" : "");
    if (q->shuffle_rows)
        hr__text_add(t, ", local_shuffle_buffer_size %" PRId64, q->shuffle_rows);
    if (q->has_shuffle_seed)
        hr__text_add(t, ", local_shuffle_seed %" PRIu64, q->shuffle_seed);
    hr__text_add(t, "%s", q->ahead ? ", repeated" : "");
    if (q->has_epoch)
        hr__text_add(t, ", epoch %" PRId64, q->epoch);
    hr__text_add(t, "%s%s", q->extra[0] ? ", " : "", q->extra);
}

/* Compares the requests. HR_OK: all are equal, and s->agreed has them. */
static hr_status agree_locked(hr_split *s, hr_error *err)
{
    const hr_split_request *first = NULL;
    hr_text t = { 0 };
    bool equal = true;

    for (int r = 0; r < s->n_ranks; r++) {
        if (s->ranks[r].state != RANK_ASKED)
            continue;
        first = first ? first : &s->ranks[r].request;
        equal = equal && requests_equal(first, &s->ranks[r].request);
        hr__text_add(&t, "%srank %d: ", t.n ? "; " : "", r);
        request_print(&s->ranks[r].request, &t);
    }
    if (equal)
        s->agreed = *first;
    else
        hr_error_set(err, HR_MISMATCH, "split: the ranks' requests differ: %s",
                     t.data ? t.data : "(out of memory for the list)");
    hr__text_clear(&t);
    return equal ? HR_OK : HR_MISMATCH;
}

static bool all_asked_locked(const hr_split *s)
{
    bool any = false;

    for (int r = 0; r < s->n_ranks; r++) {
        if (s->ranks[r].state == RANK_OUT || s->ranks[r].state == RANK_IN)
            return false;
        if (s->ranks[r].state == RANK_ASKED && s->ranks[r].answered)
            return false; /* a rank has not collected its last answer */
        any = any || s->ranks[r].state == RANK_ASKED;
    }
    return any;
}

/* Allocates queues for the steps that ranks may be ahead. */
static hr_status queues_locked(hr_split *s, hr_error *err)
{
    int cap = HR_MAX(s->agreed.prefetch, HR_SMALL_AHEAD) + 2;
    int64_t *rows = hr__realloc(s->account, s->step_rows, (size_t)(cap + 3) * sizeof *rows);

    if (!rows)
        return hr__error_memory(err, "split", (cap + 3) * (int64_t)sizeof *rows);
    s->step_rows = rows;
    s->cap_steps = cap + 3;
    for (int r = 0; r < s->n_ranks; r++) {
        hr_table **q;

        if (s->ranks[r].queue)
            queue_drop_locked(s, &s->ranks[r]);
        q = hr__realloc(s->account, s->ranks[r].queue, (size_t)cap * sizeof *q);
        if (!q)
            return hr__error_memory(err, "split", cap * (int64_t)sizeof *q);
        s->ranks[r].queue = q;
        s->ranks[r].head = s->ranks[r].n = 0;
    }
    s->batch_bytes = -1;
    s->cap_queue = cap;
    return HR_OK;
}

/* The number of the epoch that begins. */
static hr_status number_locked(const hr_split *s, int64_t *out, hr_error *err)
{
    *out = s->agreed.has_epoch ? s->agreed.epoch : s->next_epoch;
    if (s->restored && *out != s->next_epoch)
        return hr_error_set(err, HR_MISMATCH,
                            "split: the ranks begin epoch %" PRId64 ", and the restored position is in epoch %" PRId64,
                            *out, s->next_epoch);
    return HR_OK;
}

/* Whether another epoch of the same batches is likely after the one of `f`. After one epoch it is; ranks that begin
 * their first epoch train, so it is, too, but a wrong guess must not call functions for rows that nobody takes. */
static bool next_is_likely_locked(const hr_split *s, const hr_feed *f)
{
    if (s->restored ? hr__feed_epoch(f) > 0 : s->any_ended)
        return s->restored || batches_equal(&s->ended, &s->agreed);
    return !hr__plan_calls(s->plan);
}

/* OPENING: takes or opens the feed of the next epoch. */
static hr_status open_feed_relocks(hr_split *s, hr_error *err)
{
    int64_t epoch = 0;
    hr_status st = number_locked(s, &epoch, err);
    bool fits = !st && s->ahead && !s->restored && s->ahead_arena == s->arena && hr__feed_epoch(s->ahead) == epoch &&
                batches_equal(&s->ahead_request, &s->agreed);
    hr_arena *arena = s->arena && !st ? hr__arena_ref(s->arena) : NULL;
    hr_feed *f = NULL;

    if (st)
        return st;
    if (fits) {
        f = s->ahead;
        s->ahead = NULL;
        hr__arena_unref(s->ahead_arena);
        s->ahead_arena = NULL;
    } else {
        ahead_drop_relocks(s);
        hr__unlock(&s->lock);
        st = open_feed(s, arena, epoch, s->restored, &f, err);
        hr__lock(&s->lock);
    }
    if (st) {
        hr__arena_unref(arena);
        return st;
    }
    s->feed = f;
    s->feed_arena = arena;
    if (!fits)
        watch_feed_locked(s, f);
    s->looked_ahead = false;
    s->loops = next_is_likely_locked(s, f);
    s->epoch = hr__feed_epoch(f);
    s->feed_lanes = hr__feed_n_lanes(f);
    s->own_steps = hr__feed_own_steps(f);
    s->next_epoch = s->epoch + 1;
    s->resumed = s->restored != NULL;
    hr__free(s->restored);
    s->restored = NULL;
    return HR_OK;
}

/* The ranks here tell which host this is. -1: their numbers do not. */
static void find_host_locked(hr_split *s)
{
    int n = s->n_ranks / s->n_hosts, first = -1, n_came = 0;
    bool in_a_row = true, in_turn = true;

    for (int r = 0; r < s->n_ranks; r++) {
        if (!s->ranks[r].came)
            continue;
        first = n_came ? first : r;
        in_a_row = in_a_row && r == first + n_came;
        in_turn = in_turn && r == first + n_came * s->n_hosts;
        n_came++;
    }
    s->in_turn = false;
    s->host = s->n_hosts == 1 ? 0 : -1;
    if (n_came != n || s->n_ranks % s->n_hosts)
        return;
    if (in_a_row && first % n == 0) {
        s->host = first / n;
    } else if (in_turn && first < s->n_hosts) {
        s->host = first;
        s->in_turn = true;
    }
}

/* BETWEEN, then OPENING: all ranks have sent requests. Begins the epoch, or answers all with the error. */
static void begin_epoch_relocks(hr_split *s)
{
    hr_error e = HR_ERROR_INIT;
    hr_status st;

    enter_locked(s, OPENING);
    s->restored_row = -1;
    find_host_locked(s);
    st = agree_locked(s, &e);
    if (!st)
        st = queues_locked(s, &e);
    if (!st)
        st = open_feed_relocks(s, &e);
    enter_locked(s, st ? BETWEEN : RUNNING);
    if (!st) {
        s->n_steps = s->dropped_rows = s->padded_rows = 0;
        s->end_waits = false;
        s->run_mark = -1;
        s->feed_st = HR_OK;
        hr_error_clear(&s->feed_err);
    }
    for (int i = 0; i < s->n_ranks; i++) {
        split_rank *r = &s->ranks[i];

        if (r->state != RANK_ASKED)
            continue;
        r->answered = true;
        hr_error_clear(&r->answer);
        if (st) {
            hr__error_copy(&r->answer, &e);
            continue;
        }
        r->state = RANK_IN;
        r->finished = false;
        r->handed = r->taken = r->reported = r->n_rows = 0;
        r->counted_wait_ns = r->held_from_ns = r->held_ns = r->holds_ns = 0;
        r->drawn_ns = r->asked_ns;
        r->steps = (hr_steps){ 0 };
        r->wait_ns = hr__clock_ns() - r->asked_ns;
    }
    hr_error_clear(&e);
    feed_drop_relocks(s); /* the ranks may have left meanwhile */
    changed_locked(s);
}

static void leave_relocks(hr_split *s, split_rank *r)
{
    r->seen_ns = hr__clock_ns();
    if (r->state == RANK_IN || r->state == RANK_ASKED) {
        draw_end_locked(s, r);
        r->state = RANK_OUT;
        r->finished = false;
        r->answered = false;
        if (r->queue)
            queue_drop_locked(s, r);
        feed_drop_relocks(s);
    }
    changed_locked(s);
}

static hr_status check_request(const hr_split_request *q, hr_error *err)
{
    if (q->batch_rows < 0)
        return hr_error_set(err, HR_INVALID, "batch_size is %" PRId64 "; give 1 or more", q->batch_rows);
    if (q->by_row && (q->batch_rows != 1 || q->drop_last || q->own_memory))
        return hr_error_set(err, HR_INVALID, "by rows: expected batch_size 1, and neither drop_last nor own memory");
    if (q->batch_rows > MAX_BATCH_ROWS)
        return hr_error_set(err, HR_INVALID, "batch_size is %" PRId64 "; give at most %" PRId64, q->batch_rows,
                            MAX_BATCH_ROWS);
    if (q->has_epoch && (q->epoch < 0 || q->epoch >= INT64_C(1) << 62))
        return hr_error_set(err, HR_INVALID, "epoch is %" PRId64 "; give 0 or more", q->epoch);
    if (q->shuffle_rows < 0)
        return hr_error_set(err, HR_INVALID, "local_shuffle_buffer_size is %" PRId64 "; give 0 or more",
                            q->shuffle_rows);
    if (q->prefetch > MAX_PREFETCH)
        return hr_error_set(err, HR_INVALID, "prefetch is %d; give at most %d batches", q->prefetch, MAX_PREFETCH);
    return HR_OK;
}

/* The result of hr__split_begin, if it is decided. */
static hr_status answer_locked(split_rank *r, hr_error *err)
{
    hr_status st;

    if (!r->answered)
        return HR_PENDING;
    r->answered = false;
    st = r->answer.status;
    if (st) {
        r->state = RANK_OUT;
        hr__error_copy(err, &r->answer);
    }
    return st;
}

/* The rank has come. Once all expected ranks have come, the other ranks are elsewhere, and no rank waits for them. */
static void came_locked(hr_split *s, split_rank *r, int pid)
{
    int n = 0;

    r->seen_ns = hr__clock_ns();
    r->pid = pid ? pid : r->pid;
    if (r->came)
        return;
    r->came = true;
    for (int i = 0; i < s->n_ranks; i++)
        n += s->ranks[i].came;
    for (int i = 0; n == s->n_here && i < s->n_ranks; i++)
        if (!s->ranks[i].came)
            s->ranks[i].state = RANK_GONE;
    changed_locked(s);
}

void hr__split_expect(hr_split *s, int n_here)
{
    hr__lock(&s->lock);
    s->n_here = n_here;
    hr__unlock(&s->lock);
}

hr_status hr__split_begin(hr_split *s, int rank, const hr_split_request *q, int timeout_ms, hr_error *err)
{
    int64_t until = deadline(timeout_ms);
    split_rank *r;
    hr_status st;

    HR_TRY(check_rank(s, rank, err));
    HR_TRY(check_request(q, err));
    r = &s->ranks[rank];
    hr__lock(&s->lock);
    if (r->state == RANK_GONE && !s->lost_st) {
        hr__unlock(&s->lock);
        return hr_error_set(err, HR_INVALID, "split: rank %d was closed", rank);
    }
    if (r->state == RANK_IN && !r->answered)
        leave_relocks(s, r); /* a new pass before the end of the last one */
    if (r->state == RANK_OUT) {
        r->state = RANK_ASKED;
        r->pass++;
        changed_locked(s); /* wakes threads that wait for a batch of the last pass */
        r->answered = false;
        r->asked_ns = hr__clock_ns();
        came_locked(s, r, r->pid ? 0 : hr__pid());
    }
    if (r->state == RANK_ASKED && s->phase != OPENING) {
        r->request = *q;
        r->request.prefetch = HR_MAX(q->prefetch, 0);
        if (q->batch_rows == 0 && (q->shuffle_rows || !hr__plan_makes_batches(s->plan)))
            r->request.batch_rows = USUAL_ROWS;
    }
    for (;;) {
        /* The error of the epoch comes first: a rank that had it may have died of it. */
        bool failed = r->answered && r->answer.status;

        st = failed ? HR_OK : check_alive_locked(s, err);
        if (!st)
            st = answer_locked(r, err);
        if (st != HR_PENDING)
            break;
        if (s->phase == BETWEEN && all_asked_locked(s))
            begin_epoch_relocks(s);
        else if (!wait_relocks(s, timeout_ms, until))
            break;
    }
    hr__unlock(&s->lock);
    return st;
}

void hr__split_leave(hr_split *s, int rank)
{
    if (rank < 0 || rank >= s->n_ranks)
        return;
    hr__lock(&s->lock);
    leave_relocks(s, &s->ranks[rank]);
    hr__unlock(&s->lock);
}

void hr__split_lost(hr_split *s, int rank, const hr_error *why)
{
    if (rank < 0 || rank >= s->n_ranks)
        return;
    hr__lock(&s->lock);
    leave_relocks(s, &s->ranks[rank]);
    s->ranks[rank].state = RANK_GONE;
    if (why && !s->lost_st) {
        s->lost_st = HR_PEER;
        hr_error_set(&s->lost_err, HR_PEER, "rank %d: %s", rank, why->text);
    }
    changed_locked(s);
    hr__unlock(&s->lock);
}

void hr__split_join(hr_split *s, int rank, int pid)
{
    if (rank < 0 || rank >= s->n_ranks)
        return;
    hr__lock(&s->lock);
    if (s->ranks[rank].state == RANK_GONE)
        s->ranks[rank].state = RANK_OUT;
    came_locked(s, &s->ranks[rank], pid);
    hr__unlock(&s->lock);
}

/* -------------------------------------------------------------------------------------------------------- positions */

/* The start of the next epoch, or the restored position that has not begun. */
static hr_status position_between_locked(hr_split *s, char **out, hr_error *err)
{
    hr_position p = { .epoch = s->next_epoch, .seed = s->options.seed };

    if (s->n_lanes > 1)
        snprintf(p.extra, sizeof p.extra, "{\"lanes\":%d}", s->n_lanes);
    if (s->restored) {
        *out = hr__strdup(NULL, s->restored);
        return *out ? HR_OK : hr__error_memory(err, "position", (int64_t)strlen(s->restored));
    }
    hr__plan_digest(s->plan, p.plan);
    HR_TRY(hr__position_make_whole(s->plan, &s->inputs, &p, err));
    return hr__position_print(&p, out, err);
}

/* Rows of this epoch that rank r has taken; -1: by rows, somewhere within its last step. */
static int64_t taken_rows_locked(const hr_split *s, const split_rank *r)
{
    int64_t most = rows_of_steps(s, r->taken), least = rows_of_steps(s, HR_MAX(r->taken - 1, 0));

    if (!s->agreed.by_row || r->taken == 0)
        return most;
    return r->reported > least && r->reported <= most ? r->reported : -1;
}

/* Whether rank r has taken all its batches of the epoch. */
static bool at_end_locked(const hr_split *s, const split_rank *r)
{
    return r->finished || (s->phase == ENDED && r->state == RANK_IN && r->n == 0 && r->taken == r->handed &&
                           taken_rows_locked(s, r) == rows_of_steps(s, r->taken));
}

/* By rows: as common_step_locked(), in rows of each rank. A rank in another process reports the number of rows that it
 * has taken; before its report only its step is known. */
static hr_status common_row_locked(hr_split *s, int64_t *out, hr_error *err)
{
    int one = -1;

    for (int i = 0; i < s->n_ranks; i++) {
        split_rank *r = &s->ranks[i];
        int64_t n = taken_rows_locked(s, r);

        if ((r->state != RANK_IN && !r->finished) || n < 0)
            continue;
        if (one >= 0 && (n != *out || r->finished))
            return hr_error_set(err, HR_MISMATCH,
                                "position: the ranks are at different rows: rank %d has taken %" PRId64
                                ", rank %d %" PRId64 "%s",
                                one, *out, i, n, r->finished ? " and the end" : "");
        one = one >= 0 ? one : i;
        *out = n;
    }
    for (int i = 0; i < s->n_ranks; i++) {
        split_rank *r = &s->ranks[i];
        int64_t most = rows_of_steps(s, r->taken), least = rows_of_steps(s, HR_MAX(r->taken - 1, 0));

        if (r->state != RANK_IN || taken_rows_locked(s, r) >= 0)
            continue;
        if (one < 0)
            return hr_error_set(err, HR_MISMATCH, "position: rank %d has not said how many rows it has taken", i);
        if (*out <= least || *out > most)
            return hr_error_set(err, HR_MISMATCH,
                                "position: the ranks are at different rows: rank %d has taken %" PRId64
                                ", rank %d %" PRId64 " to %" PRId64,
                                one, *out, i, least + 1, most);
    }
    return HR_OK;
}

/* The common step of all ranks in the epoch, which are not all at the end. */
static hr_status common_step_locked(hr_split *s, int64_t *step, hr_error *err)
{
    int one = -1;

    for (int i = 0; i < s->n_ranks; i++) {
        split_rank *r = &s->ranks[i];

        if (r->state != RANK_IN && !r->finished)
            continue;
        if (one >= 0 && (r->taken != *step || r->finished))
            return hr_error_set(err, HR_MISMATCH,
                                "position: the ranks are at different steps: rank %d has taken %" PRId64
                                ", rank %d %" PRId64 "%s",
                                one, *step, i, r->taken, r->finished ? " and the end" : "");
        one = one >= 0 ? one : i;
        *step = r->taken;
    }
    return HR_OK;
}

/* The feed's row after each rank has taken `rows` rows. The last step may have fewer rows than others. Whether the
 * split knows yet that no step follows does not matter: a resume drops the rows of the tail again. */
static int64_t row_of_place_locked(const hr_split *s, int64_t rows)
{
    return HR_MIN(rows_of_all(s, rows), hr__feed_rows(s->feed));
}

/* Rows of each rank before the last n_ahead of its n_steps taken steps. The feed keeps no markers before the done
 * steps. */
static hr_status rows_before_locked(const hr_split *s, int64_t n_steps, int n_ahead, int64_t *rows, hr_error *err)
{
    if (n_ahead > n_steps - done_locked(s))
        return hr_error_set(err, HR_INVALID,
                            "position: %d steps are taken ahead, and the last %" PRId64 " of %" PRId64 " are known",
                            n_ahead, n_steps - done_locked(s), n_steps);
    *rows = rows_of_steps(s, n_steps - n_ahead);
    return HR_OK;
}

/* The same by rows: n_ahead rows are taken ahead. */
static hr_status row_before(int64_t row, int n_ahead, int64_t *out, hr_error *err)
{
    if (n_ahead > HR_MIN(row, 1))
        return hr_error_set(err, HR_INVALID, "position: %d rows are taken ahead, of %" PRId64, n_ahead, row);
    *out = row - n_ahead;
    return HR_OK;
}

/* The common place of all ranks in the epoch, before n_ahead steps (by rows: rows). *end: its end, which a rank has
 * seen; otherwise *row, the rows that each rank has taken. */
static hr_status common_place_locked(hr_split *s, int n_ahead, bool *end, int64_t *row, hr_error *err)
{
    int64_t step = 0, most = 0;
    bool all = true;

    for (int i = 0; i < s->n_ranks; i++) {
        const split_rank *r = &s->ranks[i];

        if (r->state != RANK_IN && !r->finished)
            continue;
        all = all && at_end_locked(s, r);
        *end = *end || r->finished;
        most = HR_MAX(most, r->taken);
    }
    *end = *end && all && !n_ahead;
    if (s->agreed.by_row) {
        *row = rows_of_steps(s, most);
        if (!all)
            HR_TRY(common_row_locked(s, row, err));
        return row_before(*row, n_ahead, row, err);
    }
    if (all)
        step = most;
    else
        HR_TRY(common_step_locked(s, &step, err));
    return rows_before_locked(s, step, n_ahead, row, err);
}

/* Determines once what the plan reads, without the lock, so that ranks go on meanwhile. */
static hr_status split_inputs(hr_split *s, hr_error *err)
{
    hr_inputs read;
    bool known;

    hr__lock(&s->lock);
    known = s->inputs_known;
    hr__unlock(&s->lock);
    if (known)
        return HR_OK;
    HR_TRY(hr__inputs_of(s->plan, true, &read, err));
    hr__lock(&s->lock);
    s->inputs = read;
    s->inputs_known = true;
    hr__unlock(&s->lock);
    return HR_OK;
}

/* done: after the done steps; otherwise before the last n_ahead of the taken steps, which must be equal for all
 * ranks. */
static hr_status position_of(hr_split *s, bool done, int n_ahead, char **out, hr_error *err)
{
    hr_position p = { 0 };
    hr_status st = HR_OK;
    int64_t row = 0;
    bool end = false;

    *out = NULL;
    HR_TRY(split_inputs(s, err));
    hr__lock(&s->lock);
    HR_GO(check_alive_locked(s, err));
    if (!s->feed || !anyone_in_locked(s))
        HR_GO(position_between_locked(s, out, err));
    else {
        if (done)
            row = rows_of_steps(s, done_locked(s));
        else
            HR_GO(common_place_locked(s, n_ahead, &end, &row, err));
        HR_GO(hr__feed_position_bare(s->feed, end ? hr__feed_rows(s->feed) : row_of_place_locked(s, row), &p, err));
        HR_GO(hr__position_make_whole(s->plan, &s->inputs, &p, err));
        HR_GO(hr__position_print(&p, out, err));
    }
done:
    hr__unlock(&s->lock);
    hr__position_clear(&p);
    return st;
}

hr_status hr__split_position(hr_split *s, char **out, hr_error *err) { return position_of(s, false, 0, out, err); }

hr_status hr__split_position_before(hr_split *s, int n_ahead, char **out, hr_error *err)
{
    return position_of(s, false, n_ahead, out, err);
}

hr_status hr__split_position_done(hr_split *s, char **out, hr_error *err) { return position_of(s, true, 0, out, err); }

hr_status hr__split_position_of(hr_split *s, int rank, int n_ahead, char **out, hr_error *err)
{
    hr_position p = { 0 };
    hr_status st = HR_OK;
    split_rank *r;
    int64_t row;

    *out = NULL;
    HR_TRY(check_rank(s, rank, err));
    HR_TRY(split_inputs(s, err));
    r = &s->ranks[rank];
    hr__lock(&s->lock);
    HR_GO(check_alive_locked(s, err));
    if (!s->feed || r->state != RANK_IN) {
        HR_GO(position_between_locked(s, out, err));
        goto done;
    }
    row = taken_rows_locked(s, r);
    if (row < 0)
        HR_FAIL(HR_INVALID, "position: rank %d has not said how many rows it has taken", rank);
    if (s->agreed.by_row)
        HR_GO(row_before(row, n_ahead, &row, err));
    else
        HR_GO(rows_before_locked(s, r->taken, n_ahead, &row, err));
    HR_GO(hr__feed_position_bare(s->feed, row_of_place_locked(s, row), &p, err));
    HR_GO(hr__position_make_whole(s->plan, &s->inputs, &p, err));
    HR_GO(hr__position_print(&p, out, err));
done:
    hr__unlock(&s->lock);
    hr__position_clear(&p);
    return st;
}

hr_status hr__split_restore(hr_split *s, const char *position, const hr_position_how *how, hr_error *err)
{
    hr_position p = { 0 };
    hr_status st = HR_OK;
    char *copy = NULL;
    int64_t row = 0, lanes = 1;
    bool known;

    HR_TRY(hr__feed_position_fits(s->plan, position, -1, how, &p, err));
    known = p.extra[0] != 0;
    if (hr__position_extra(&p, "lanes", &lanes) && (lanes < 1 || lanes > HR_MAX_LANES))
        st = hr_error_set(err, HR_INVALID, "position: %" PRId64 " lanes", lanes);
    if (!hr__position_extra(&p, "rows", &row))
        row = 0;
    copy = hr__strdup(s->account, position);
    if (!st && !copy)
        st = hr__error_memory(err, "position", (int64_t)strlen(position));
    hr__lock(&s->lock);
    if (!st && s->phase != BETWEEN)
        st = hr_error_set(err, HR_INVALID,
                          "position: an epoch is running; restore before it begins, or leave it on all ranks");
    if (!st && how && how->agree && s->restored_row >= 0 && (s->restored_row != row || s->next_epoch != p.epoch))
        st = hr_error_set(err, HR_MISMATCH,
                          "position: the ranks resume from different places: row %" PRId64 " of epoch %" PRId64
                          ", row %" PRId64 " of epoch %" PRId64,
                          s->restored_row, s->next_epoch, row, p.epoch);
    if (!st) {
        s->restored_row = row;
        hr__free(s->restored);
        s->restored = copy;
        s->moved = how && how->moved;
        s->next_epoch = p.epoch;
        s->n_lanes = known ? (int)lanes : s->n_lanes;
        copy = NULL;
    }
    hr__unlock(&s->lock);
    hr__free(copy);
    hr__position_clear(&p);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ stats */

static void print_ranks(const hr_split *s, const char *name, size_t at, hr_text *t)
{
    hr__text_add(t, ",\"%s\":[", name);
    for (int r = 0; r < s->n_ranks; r++)
        hr__text_add(t, "%s%" PRId64, r ? "," : "", *(const int64_t *)((const char *)&s->ranks[r] + at));
    hr__text_add(t, "]");
}

hr_status hr__split_stats(hr_split *s, char **out, hr_error *err)
{
    hr_text t = { 0 };
    char *run = NULL, *verdict = NULL;
    hr_status st = HR_OK;
    hr_evidence e;
    int mark;

    *out = NULL;
    hr__lock(&s->lock);
    hr__text_add(&t,
                 "{\"ranks\":%d,\"epoch\":%" PRId64 ",\"resumed\":%s,\"steps\":%" PRId64 ",\"dropped_rows\":%" PRId64
                 ",\"padded_rows\":%" PRId64 ",\"all_epochs\":{\"ended\":%" PRId64 ",\"dropped_rows\":%" PRId64
                 ",\"padded_rows\":%" PRId64 "}",
                 s->n_ranks, s->epoch, s->resumed ? "true" : "false", s->n_steps, s->dropped_rows, s->padded_rows,
                 s->all_epochs, s->all_dropped, s->all_padded);
    hr__text_add(&t, ",\"lanes\":%d", s->feed_lanes);
    print_ranks(s, "rows", offsetof(split_rank, n_rows), &t);
    print_ranks(s, "taken_steps", offsetof(split_rank, taken), &t);
    print_ranks(s, "wait_ns", offsetof(split_rank, wait_ns), &t);
    print_ranks(s, "held_others_ns", offsetof(split_rank, holds_ns), &t);
    hr__text_add(&t, ",\"rank_steps\":[");
    for (int r = 0; r < s->n_ranks; r++) {
        hr__text_add(&t, "%s", r ? "," : "");
        hr__steps_print(&s->ranks[r].steps, &t);
    }
    hr__text_add(&t, "]");
    if (s->feed) {
        evidence_locked(s, &e, &mark);
        verdict = verdict_of(hr__feed_run(s->feed), &e, mark);
        st = hr_feed_stats(s->feed, &run, err);
    }
    if (s->feed_st || s->lost_st) {
        hr__text_add(&t, ",\"error\":");
        hr__text_add_json(&t, s->feed_st ? s->feed_err.text : s->lost_err.text);
    }
    if (verdict || s->verdict)
        hr__text_add(&t, ",\"verdict\":%s", verdict ? verdict : s->verdict);
    hr__text_add(&t, ",\"run\":%s}", run ? run : s->run_stats ? s->run_stats : "null");
    hr__unlock(&s->lock);
    if (!st && t.failed)
        st = hr__error_memory(err, "split", t.n);
    hr_string_free(run);
    hr__free(verdict);
    if (st)
        hr__text_clear(&t);
    *out = t.data;
    return st;
}

static const char *state_name(const split_rank *r)
{
    static const char *const names[] = {
        [RANK_OUT] = "out", [RANK_ASKED] = "asked", [RANK_IN] = "in", [RANK_GONE] = "gone"
    };

    if (!r->came)
        return r->state == RANK_GONE ? "elsewhere" : "away";
    return names[r->state];
}

hr_status hr__split_describe_ranks(hr_split *s, char **out, hr_error *err)
{
    int64_t now = hr__clock_ns();
    hr_text t = { 0 };

    *out = NULL;
    hr__lock(&s->lock);
    hr__text_add(&t, "{\"epoch\":%" PRId64 ",\"running\":%s,\"steps\":%" PRId64 ",\"lead\":%d,\"ranks\":[",
                 s->phase == BETWEEN || s->phase == OPENING ? s->next_epoch : s->epoch,
                 s->phase == BETWEEN || s->phase == OPENING ? "false" : "true", s->n_steps, ahead_locked(s) + 1);
    for (int i = 0; i < s->n_ranks; i++) {
        const split_rank *r = &s->ranks[i];

        hr__text_add(
            &t, "%s{\"state\":\"%s\",\"pid\":%d,\"taken\":%" PRId64 ",\"ready\":%" PRId64 ",\"idle_ms\":%" PRId64 "}",
            i ? "," : "", state_name(r), r->pid, r->taken, r->n + r->handed - r->taken,
            r->seen_ns ? (now - r->seen_ns) / 1000000 : -1);
    }
    hr__unlock(&s->lock);
    hr__text_add(&t, "]}");
    if (t.failed) {
        int64_t n = t.n;

        hr__text_clear(&t);
        return hr__error_memory(err, "split", n);
    }
    *out = t.data;
    return HR_OK;
}
