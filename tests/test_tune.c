/* test_tune.c - the controller of a run's threads, against simulated machines. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_disk),      cmocka_unit_test(test_busy_threads), cmocka_unit_test(test_idle_machine),
        cmocka_unit_test(test_slowed_trainer), cmocka_unit_test(test_noise),        cmocka_unit_test(test_change),
        cmocka_unit_test(test_disturbed),      cmocka_unit_test(test_reserved_cpu), cmocka_unit_test(test_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
