/* test_tune.c - the controllers of a run's threads and of the tables ahead of it, against simulated machines. */
#include "exec/tune.h"

#include <math.h>
#include <string.h>

#include "harness.h"

enum { CPUS = 4 };

/* A pipeline on CPUS cores. With n threads it could make `each` * n rows a second while they wait (off_cpu of their
 * time) for a disk that gives `disk` rows a second at most; the consumer takes `trainer` rows a second. */
typedef struct machine {
    double each, disk, trainer;
    double off_cpu;
    double slows; /* the consumer's rate falls by this part for each thread beyond CPUS - 1, if the CPUs are full */
    double noise; /* part of each rate */
    bool disturbed;
    uint64_t random;
} machine;

static double uniform(machine *m)
{
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(m->random >> 11) / (double)(UINT64_C(1) << 53);
}

static hr_tune_look run_with(machine *m, int threads)
{
    double cpus = fmin(CPUS, threads * (1 - m->off_cpu)), makes = fmin(m->each * threads, m->disk), takes = m->trainer;
    hr_tune_look l = { .seconds = 0.25, .off_cpu = m->off_cpu, .disk = m->off_cpu, .disturbed = m->disturbed };

    if (m->off_cpu < 0.1)
        makes = fmin(makes, m->each * CPUS);
    if (threads > CPUS - 1)
        takes *= 1 - m->slows * (threads - CPUS + 1);
    l.hungry = makes < takes ? 1 - makes / takes : 0;
    l.rows = 0.25 * fmin(makes, takes) * (1 + m->noise * (2 * uniform(m) - 1));
    l.cpus = cpus;
    l.cpus_used = cpus * fmin(1, takes / makes) / CPUS + (m->slows > 0 ? 0.25 : 0);
    return l;
}

/* n intervals. Returns the number of moves. */
static int64_t pass(hr_tuner *t, machine *m, int n)
{
    int64_t before = t->n_moves;

    for (int i = 0; i < n; i++) {
        hr_tune_look l = run_with(m, t->threads);
        bool moved = hr__tuner_look(t, &l);

        assert_true(t->threads >= 1 && t->threads <= t->most);
        assert_true(!moved || strlen(t->reason) > 0);
    }
    return t->n_moves - before;
}

static hr_tuner new_tuner(void)
{
    hr_tuner t;

    hr__tuner_init(&t, CPUS, 4 * CPUS, CPUS);
    return t;
}

/* Threads that wait for a slow disk: more of them, up to what the disk gives, within 20 s. */
static void test_slow_disk(void **unused)
{
    machine m = { .each = 10, .disk = 90, .trainer = 1000, .off_cpu = 0.9, .noise = 0.02 };
    hr_tuner t = new_tuner();

    (void)unused;
    pass(&t, &m, 50);
    assert_in_range(t.threads, 8, 16);
    pass(&t, &m, 500); /* and it stays about there: a trial a minute at most, in the end */
    assert_true(pass(&t, &m, 1500) <= 2 * (1500 / 150));
    assert_in_range(t.threads, 8, 16);
}

/* All threads compute, and the trainer waits: nothing is tried. */
static void test_busy_threads(void **unused)
{
    machine m = { .each = 10, .disk = 1e9, .trainer = 1000, .off_cpu = 0.02, .noise = 0.05 };
    hr_tuner t = new_tuner();

    (void)unused;
    assert_int_equal(pass(&t, &m, 500), 0);
    assert_int_equal(t.threads, CPUS);
}

/* A trainer that is fed, with idle CPUs: nothing is tried. */
static void test_idle_machine(void **unused)
{
    machine m = { .each = 1000, .disk = 1e9, .trainer = 100, .off_cpu = 0.02, .noise = 0.05 };
    hr_tuner t = new_tuner();

    (void)unused;
    assert_int_equal(pass(&t, &m, 500), 0);
}

/* A trainer whose steps are slower beside a full machine: fewer threads. */
static void test_slowed_trainer(void **unused)
{
    machine m = { .each = 50, .disk = 1e9, .trainer = 140, .off_cpu = 0.02, .slows = 0.1, .noise = 0.005 };
    hr_tuner t = new_tuner();

    (void)unused;
    pass(&t, &m, 50);
    assert_int_equal(t.threads, 3);
    m.trainer = 1000; /* another load: the trainer waits now, and the default comes back at once */
    pass(&t, &m, 2);
    assert_int_equal(t.threads, CPUS);
}

/* A core is left to the trainer: the run begins below the default. */
static hr_tuner new_reserving(void)
{
    hr_tuner t = new_tuner();

    t.threads = CPUS - 1;
    return t;
}

/* Fed with a core less, on a full machine: the core stays the trainer's. */
static void test_a_reserved_core_stays(void **unused)
{
    machine m = { .each = 50, .disk = 1e9, .trainer = 149, .off_cpu = 0.02, .slows = 0.1, .noise = 0.005 };
    hr_tuner t = new_reserving();

    (void)unused;
    for (int i = 0; i < 50; i++) { /* fewer are tried now and then, since the CPUs are full; never more */
        pass(&t, &m, 10);
        assert_true(t.threads < CPUS);
    }
    assert_int_equal(t.phase == HR_TUNE_WATCH ? t.threads : t.before, CPUS - 1);
}

/* A trainer that waits has no use for its core: all threads within a second, and they stay. */
static void test_a_reserved_core_is_given_back(void **unused)
{
    machine m = { .each = 50, .disk = 1e9, .trainer = 1000, .off_cpu = 0.02, .noise = 0.02 };
    hr_tuner t = new_reserving();

    (void)unused;
    assert_int_equal(pass(&t, &m, 4), 1);
    assert_int_equal(t.threads, CPUS);
    assert_int_equal(pass(&t, &m, 500), 0);
}

/* Between both: with the core the trainer is fed, and its steps are slower; without it, it waits a little. A trial now
 * and then, and ever fewer. */
static void test_a_reserved_core_does_not_oscillate(void **unused)
{
    machine m = { .each = 50, .disk = 1e9, .trainer = 165, .off_cpu = 0.02, .slows = 0.05, .noise = 0.005 };
    hr_tuner t = new_reserving();

    (void)unused;
    pass(&t, &m, 100);
    assert_true(pass(&t, &m, 1000) <= 2 * (1000 / 100));
    assert_in_range(t.threads, CPUS - 1, CPUS);
}

/* Noise alone: no gain is kept, and trials become rare. */
static void test_noise(void **unused)
{
    machine m = { .each = 1000, .disk = 40, .trainer = 1000, .off_cpu = 0.9, .noise = 0.02 };
    hr_tuner t = new_tuner();

    (void)unused;
    pass(&t, &m, 200);
    assert_int_equal(t.phase == HR_TUNE_WATCH ? t.threads : t.before, CPUS);
    assert_true(pass(&t, &m, 1000) <= 20);
}

/* A load that changes is followed soon, even after long quiet. */
static void test_change(void **unused)
{
    machine m = { .each = 10, .disk = 1e9, .trainer = 20, .off_cpu = 0.9, .noise = 0.01 };
    hr_tuner t = new_tuner();

    (void)unused;
    pass(&t, &m, 300);
    assert_int_equal(t.threads, CPUS);
    m.trainer = 1000;
    pass(&t, &m, 50); /* 20 s */
    assert_int_equal(t.threads, 4 * CPUS);
}

/* Spills, refused memory and refused requests decide nothing, and end a trial. */
static void test_disturbed(void **unused)
{
    machine m = { .each = 10, .disk = 90, .trainer = 1000, .off_cpu = 0.9 };
    hr_tuner t = new_tuner();

    (void)unused;
    while (t.phase == HR_TUNE_WATCH)
        pass(&t, &m, 1);
    assert_int_equal(t.threads, 2 * CPUS);
    m.disturbed = true;
    pass(&t, &m, 1);
    assert_int_equal(t.threads, CPUS);
    assert_int_equal(pass(&t, &m, 100), 0);
}

/* Threads become more only as far as they leave the reserved CPU to the consumer. */
static void test_reserved_cpu(void **unused)
{
    machine m = { .each = 10, .disk = 1e9, .trainer = 1000, .off_cpu = 0.6, .noise = 0.01 };
    hr_tuner t;

    (void)unused;
    hr__tuner_init(&t, CPUS - 1, 4 * (CPUS - 1), CPUS - 1);
    pass(&t, &m, 400);
    assert_int_equal(t.threads, 7); /* of 0.4 CPUs each */
}

/* A run goes on where an earlier one ended, in the middle of a trial too, unless the machine is another one. */
static void test_go_on(void **unused)
{
    machine m = { .each = 10, .disk = 1e9, .trainer = 1000, .off_cpu = 0.9 };
    hr_tuner t = new_tuner(), later = new_tuner(), other;

    (void)unused;
    while (t.phase != HR_TUNE_TRIAL)
        pass(&t, &m, 1);
    hr__tuner_go_on(&later, &t);
    assert_int_equal(later.threads, t.threads);
    assert_int_equal(later.n_moves, 0);
    assert_int_equal(later.phase, HR_TUNE_SETTLE);
    pass(&later, &m, 100);
    assert_int_equal(later.threads, 4 * CPUS);
    hr__tuner_init(&other, CPUS / 2, 2 * CPUS, CPUS);
    hr__tuner_go_on(&other, &later);
    assert_int_equal(other.threads, CPUS / 2);
}

/* --------------------------------------------------------------------------------------------------- tables ahead */

/* A feed that rests while as many tables as may be are ahead, and stops for so many steps of the consumer at a time. */
typedef struct feed {
    int stops;      /* a stop is as many steps long, */
    int every;      /* and comes once in so many steps; 0: never */
    int room;       /* by memory */
    bool cured;     /* more tables ahead would help, */
    bool elsewhere; /* but not the rate */
    bool disturbed;
    int waits; /* steps that the present stop still takes */
    int step;  /* of the consumer, since the last stop */
} feed;

/* An interval: 25 steps of 10 ms, in which waits also take steps. */
static hr_ahead_look feed_with(feed *f, int depth)
{
    hr_ahead_look l = { .seconds = 0.25, .least = depth, .most = depth, .room = f->room, .disturbed = f->disturbed };

    for (int i = 0; i < 25; i++) {
        if (f->waits > 0) {
            f->waits--;
            l.spared_seconds += 0.01;
            continue;
        }
        l.rows++;
        if (!f->every || ++f->step % f->every)
            continue;
        l.least = HR_MIN(l.least, HR_MAX(0, depth - f->stops));
        f->waits = HR_MAX(0, f->stops - (f->cured ? depth : 0));
        l.lacked = HR_MAX(l.lacked, f->waits);
    }
    if (f->elsewhere)
        l.rows = 10;
    return l;
}

static int64_t feeds(hr_ahead_tuner *t, feed *f, int n)
{
    int64_t before = t->n_moves;

    for (int i = 0; i < n; i++) {
        hr_ahead_look l = feed_with(f, t->depth);
        bool moved = hr__ahead_look(t, &l);

        assert_in_range(t->depth, t->first, t->largest);
        assert_true(!moved || strlen(t->reason) > 0);
    }
    return t->n_moves - before;
}

static hr_ahead_tuner new_ahead(void)
{
    hr_ahead_tuner t;

    hr__ahead_init(&t, 1, 64);
    return t;
}

/* Stops of 20 steps, which 20 tables ahead hide: found within 20 s, and left alone. */
static void test_stops_are_hidden(void **unused)
{
    feed f = { .stops = 20, .every = 50, .room = 1000, .cured = true };
    hr_ahead_tuner t = new_ahead();

    (void)unused;
    feeds(&t, &f, 80);
    assert_in_range(t.depth, 20, 41);
    assert_true(feeds(&t, &f, 4000) <= 12); /* a try of less, ever more seldom */
    assert_in_range(t.depth, 15, 41);
}

/* Depth that does not help goes back, and trials become rare. */
static void test_depth_without_gain(void **unused)
{
    feed f = { .stops = 20, .every = 50, .room = 1000 };
    hr_ahead_tuner t = new_ahead();

    (void)unused;
    assert_true(feeds(&t, &f, 100) >= 2);
    assert_true(feeds(&t, &f, 2000) <= 16);
    assert_int_equal(t.phase == HR_TUNE_WATCH ? t.depth : t.before, 1);
}

/* Waits that only go elsewhere: no gain. */
static void test_depth_without_rate(void **unused)
{
    feed f = { .stops = 20, .every = 50, .room = 1000, .cured = true, .elsewhere = true };
    hr_ahead_tuner t = new_ahead();

    (void)unused;
    feeds(&t, &f, 300);
    assert_true(feeds(&t, &f, 2000) <= 16);
    assert_int_equal(t.phase == HR_TUNE_WATCH ? t.depth : t.before, 1);
}

/* A steady feed: nothing is tried. */
static void test_steady_feed(void **unused)
{
    feed f = { .room = 1000, .cured = true };
    hr_ahead_tuner t = new_ahead();

    (void)unused;
    assert_int_equal(feeds(&t, &f, 1000), 0);
}

/* Stops that end: the depth is not used any more, and falls to the first one. */
static void test_depth_shrinks(void **unused)
{
    feed f = { .stops = 20, .every = 50, .room = 1000, .cured = true };
    hr_ahead_tuner t = new_ahead();

    (void)unused;
    feeds(&t, &f, 80);
    assert_true(t.depth > 15);
    f.every = 0;
    feeds(&t, &f, 4 * 640);
    assert_in_range(t.depth, 1, 3);
    f.every = 50; /* and they come again */
    feeds(&t, &f, 80);
    assert_in_range(t.depth, 20, 64);
}

/* Never beyond the room that memory has, also when tables grow; a refusal ends a trial. */
static void test_depth_and_memory(void **unused)
{
    feed f = { .stops = 20, .every = 50, .room = 8, .cured = true };
    hr_ahead_tuner t = new_ahead();

    (void)unused;
    feeds(&t, &f, 200);
    assert_in_range(t.depth, 1, 8);
    f.room = 2;
    feeds(&t, &f, 1);
    assert_in_range(t.depth, 1, 2);
    t = new_ahead();
    f.room = 1000;
    feeds(&t, &f, 5);
    assert_int_equal(t.phase, HR_TUNE_SETTLE);
    f.disturbed = true;
    assert_int_equal(feeds(&t, &f, 1), 1);
    assert_int_equal(t.depth, 1);
    assert_int_equal(feeds(&t, &f, 100), 0);
}

/* A later run begins with the depth of an earlier one with the same bounds. */
static void test_depth_goes_on(void **unused)
{
    feed f = { .stops = 20, .every = 50, .room = 1000, .cured = true };
    hr_ahead_tuner t = new_ahead(), next = new_ahead(), other;

    (void)unused;
    feeds(&t, &f, 80);
    hr__ahead_go_on(&next, &t);
    assert_int_equal(next.depth, t.depth);
    assert_int_equal(next.n_moves, 0);
    hr__ahead_init(&other, 2, 64);
    hr__ahead_go_on(&other, &t);
    assert_int_equal(other.depth, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_disk),
        cmocka_unit_test(test_busy_threads),
        cmocka_unit_test(test_idle_machine),
        cmocka_unit_test(test_slowed_trainer),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_a_reserved_core_stays),
        cmocka_unit_test(test_a_reserved_core_is_given_back),
        cmocka_unit_test(test_a_reserved_core_does_not_oscillate),
        cmocka_unit_test(test_change),
        cmocka_unit_test(test_disturbed),
        cmocka_unit_test(test_reserved_cpu),
        cmocka_unit_test(test_go_on),
        cmocka_unit_test(test_stops_are_hidden),
        cmocka_unit_test(test_depth_without_gain),
        cmocka_unit_test(test_depth_without_rate),
        cmocka_unit_test(test_steady_feed),
        cmocka_unit_test(test_depth_shrinks),
        cmocka_unit_test(test_depth_and_memory),
        cmocka_unit_test(test_depth_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
