/* test_verdict.c - verdicts as a function of what is known, and the steps of a consumer. */
#include "harness.h"

#include "feed/verdict.h"

#include <stdio.h>

#define MS INT64_C(1000000)

/* A run of one leaf with a map and a serial operator, in a period of 1 s of 100 steps, of which `wait` ms are waits. */
typedef struct scene {
    hr_stage_view stage;
    hr_op_view ops[2];
    hr_run_view run;
    hr_evidence e;
} scene;

static scene *scene_new(int64_t wait_ms)
{
    static scene s;

    s = (scene){ 0 };
    s.stage = (hr_stage_view){ .is_leaf = true,
                               .window = 10,
                               .all_tickets = 20,
                               .all_ticket_rows = 20000,
                               .all_ticket_ns = 200 * MS,
                               .rows_read = 20000,
                               .fragments = 20 };
    s.stage.longest = (hr_slow_ticket){ { .file = 3, .fragment = 7, .row = 4000 }, 1000, 10 * MS, 0 };
    s.stage.longest_file = s.stage.held_file = (char *)"c.parquet";
    s.stage.reads = (hr_call_sums){ 20, 100 * MS, 90 * MS };
    s.ops[0] = (hr_op_view){ .name = (char *)"map(f)" };
    s.ops[1] = (hr_op_view){ .name = (char *)"rebatch(8)", .is_serial = true, .table_rows = 8 };
    s.run = (hr_run_view){
        .stages = &s.stage, .n_stages = 1, .ops = s.ops, .n_ops = 2, .n_threads = 4, .n_cpus = 4, .limit_bytes = 1 << 30
    };
    s.run.sums.cpu_ns = 1000 * MS;
    s.e = (hr_evidence){ .run = &s.run, .n_ranks = 1, .steps = { 100, wait_ms * MS, (1000 - wait_ms) * MS, 0, 5 } };
    return &s;
}

static void caused(scene *s, hr_cause cause, int64_t ms) { s->stage.sums.cause_ns[cause] = ms * MS; }

static void served(scene *s, int64_t servers, bool here, int64_t busy_ms, int64_t cpu_ms)
{
    s->ops[0].calls = true;
    s->ops[0].sums.wait_ns = 1000 * MS;
    s->ops[0].sums.served =
        (hr_served){ .calls = 100, .busy_ns = busy_ms * MS, .cpu_ns = cpu_ms * MS, .servers = servers, .here = here };
    caused(s, HR_CAUSE_FUNCTION, 500);
}

static void network(scene *s, int64_t first_ms, int64_t throttled)
{
    s->run.sums.io[HR_IO_NETWORK] =
        (hr_io_sums){ .requests = 100, .bytes = 100 << 20, .ns = 10000 * MS, .first_ns = first_ms * 100 * MS };
    s->run.sums.throttled = throttled;
    caused(s, HR_CAUSE_NETWORK, 500);
}

static void be_serial(scene *s)
{
    caused(s, HR_CAUSE_SERIAL, 500);
    s->ops[1].sums.call = (hr_call_sums){ 100, 950 * MS, 900 * MS };
}
static void be_spilling(scene *s)
{
    be_serial(s);
    s->ops[1].is_block = true;
    s->run.spilled = s->ops[1].spilled = 5 << 20;
}
/* Its thread did not run: other threads had the CPUs. */
static void be_preempted(scene *s)
{
    caused(s, HR_CAUSE_SERIAL, 500);
    s->ops[1].sums.call.busy_ns = 20 * MS;
    s->ops[0].sums.call = (hr_call_sums){ 100, 3900 * MS, 3800 * MS };
}
static void be_computing(scene *s)
{
    caused(s, HR_CAUSE_THREADS, 400);
    caused(s, HR_CAUSE_HANDOVER, 100);
    s->ops[0].sums.call = (hr_call_sums){ 100, 3900 * MS, 3800 * MS };
}
static void be_reading(scene *s)
{
    caused(s, HR_CAUSE_THREADS, 500);
    s->stage.reads = (hr_call_sums){ 100, 3900 * MS, 100 * MS };
    s->run.sums.cpu_ns = 300 * MS;
    s->run.sums.io[HR_IO_FILE] = (hr_io_sums){ .requests = 200, .bytes = 10 << 20, .ns = 3700 * MS };
}
/* A fifth of the waits is for few fragments, which are read late for the same disk. */
static void be_reading_and_short(scene *s)
{
    be_reading(s);
    caused(s, HR_CAUSE_FEW, 120);
    s->ops[0].sums.call.busy_ns = 300 * MS;
}
static void be_too_many(scene *s)
{
    be_computing(s);
    s->run.n_threads = 16;
    s->ops[0].sums.call.cpu_ns = 1000 * MS;
    s->run.sums.cpu_ns = 3900 * MS;
}
static void be_locked(scene *s)
{
    be_computing(s);
    s->ops[0].sums.call.cpu_ns = 500 * MS;
}
static void be_latent(scene *s) { network(s, 95, 0); }
static void be_narrow(scene *s) { network(s, 10, 0); }
static void be_throttled(scene *s) { network(s, 95, 20); }
static void be_tight(scene *s) { caused(s, HR_CAUSE_MEMORY, 500); }
/* Threads work by turns, in small pieces. The half of 2.4 s of work is page faults; the rest needs 0.3 s of 4 CPUs. */
static void be_tight_and_slow(scene *s)
{
    caused(s, HR_CAUSE_MEMORY, 400);
    caused(s, HR_CAUSE_TICKET, 200);
    caused(s, HR_CAUSE_THREADS, 200);
    s->stage.reads = (hr_call_sums){ 100, 2400 * MS, 2400 * MS };
    s->run.sums.cpu_ns = 2400 * MS;
    s->run.sums.kernel_ns = 1200 * MS;
    s->run.sums.faults = 1000000;
}
/* Two threads work, and a third of the time waits for memory; half of the work is page faults. */
static void be_faulting(scene *s)
{
    be_tight_and_slow(s);
    caused(s, HR_CAUSE_MEMORY, 270);
    caused(s, HR_CAUSE_TICKET, 0);
    caused(s, HR_CAUSE_THREADS, 530);
}
/* Nothing is refused: the faults are of other work. */
static void be_faulting_at_ease(scene *s)
{
    be_faulting(s);
    caused(s, HR_CAUSE_MEMORY, 20);
}
/* Most of the kernel's time is not for pages. */
static void be_tight_and_copying(scene *s)
{
    be_tight_and_slow(s);
    s->run.sums.faults = 1000;
}
/* A quarter of the waits is for something else. */
static void be_tight_and_remote(scene *s)
{
    caused(s, HR_CAUSE_MEMORY, 600);
    caused(s, HR_CAUSE_NETWORK, 200);
}
static void be_opening(scene *s) { caused(s, HR_CAUSE_OPENING, 500); }
static void be_single(scene *s) { served(s, 1, false, 980, 900); }
/* The same function in two inputs of a union. */
static void be_in_union(scene *s, int64_t busy_ms)
{
    served(s, 1, false, busy_ms, 5);
    s->ops[1] = s->ops[0];
    s->run.sums.cpu_ns = 20 * MS;
}
static void be_in_union_by_turns(scene *s) { be_in_union(s, 490); }
static void be_in_union_at_once(scene *s) { be_in_union(s, 980); }
static void be_beside_another(scene *s)
{
    be_in_union(s, 980);
    s->ops[1].name = (char *)"map(g)";
}
static void be_all_cpus(scene *s) { served(s, 4, false, 3900, 3800); }
/* In threads of this process; lock_ms: waits for Python's lock, delay_ms: for CPUs. */
static void locked(scene *s, int64_t servers, int64_t calls, int64_t busy_ms, int64_t cpu_ms, int64_t lock_ms,
                   int64_t delay_ms)
{
    served(s, servers, true, busy_ms, cpu_ms);
    s->ops[0].sums.served.calls = calls;
    s->ops[0].sums.served.lock_ns = lock_ms * MS;
    s->ops[0].sums.served.delay_ns = delay_ms * MS;
}
static void be_taking_turns(scene *s) { locked(s, 4, 100, 3900, 990, 700, 0); }
/* Of 4.65 ms, shorter than the 5 ms after which a thread lets go of the lock: one thread works, the others wait after
 * their calls. The story: only waits before calls counted, 2.5 %, and a serial operator was named. */
static void be_taking_short_turns(scene *s) { locked(s, 4, 215, 1020, 990, 400, 0); }
static void be_taking_long_turns(scene *s) { locked(s, 4, 5, 3900, 990, 90, 0); }
/* Other programs have half of the CPUs. */
static void be_taking_turns_beside_others(scene *s) { locked(s, 2, 45, 1540, 500, 200, 900); }
static void be_freeing_the_lock(scene *s) { locked(s, 4, 50, 3900, 990, 20, 0); }
/* The story: long calls that took all of one CPU in sum were enough. */
static void be_freeing_it_in_long_calls(scene *s) { locked(s, 4, 12, 3900, 990, 20, 0); }
static void be_freeing_it_on_two_cpus(scene *s) { locked(s, 4, 100, 3900, 1900, 700, 0); }
/* Threads wait for others that have the lock and no CPU. */
static void be_freeing_it_beside_others(scene *s) { locked(s, 8, 68, 7430, 670, 510, 5510); }
/* The lock is another thread's, such as the trainer's. */
static void be_light(scene *s) { locked(s, 4, 100, 500, 200, 300, 0); }
static void be_slow_row(scene *s)
{
    served(s, 4, false, 1000, 900);
    s->stage.held = (hr_slow_ticket){ { .file = 3, .fragment = 7, .row = 4000 }, 1000, 900 * MS, 400 * MS };
    s->stage.longest = s->stage.held;
    s->stage.all_ticket_ns += 900 * MS;
}
static void be_huge(scene *s)
{
    caused(s, HR_CAUSE_FEW, 500);
    s->stage.held = (hr_slow_ticket){ { .file = 3, .fragment = 7 }, 90000, 900 * MS, 400 * MS };
}
static void be_few(scene *s)
{
    caused(s, HR_CAUSE_FEW, 500);
    s->stage.all_tickets = s->stage.fragments = 1;
}
/* Other processes take 2.5 of 4 CPUs, in the second that the run has had. */
static void be_crowded(scene *s)
{
    s->run.sums.at_ns = 1000 * MS;
    s->run.n_machine_cpus = 4;
    s->run.sums.machine_ns = 4000 * MS;
}
static void be_crowded_out(scene *s)
{
    served(s, 2, false, 1900, 950);
    s->ops[0].sums.served.delay_ns = 900 * MS;
    s->run.sums.cpu_ns = 50 * MS;
    be_crowded(s);
}
static void be_crowded_out_unknown(scene *s)
{
    be_crowded_out(s);
    s->ops[0].sums.served.delay_ns = 0; /* not known */
}
/* Two workers that have their CPUs: more of them would take them from others. */
static void be_beside_others(scene *s)
{
    be_crowded_out(s);
    served(s, 2, false, 1900, 1880);
    s->ops[0].sums.served.delay_ns = MS;
}
/* It sleeps; it needs no CPU. */
static void be_asleep_beside_others(scene *s)
{
    served(s, 2, false, 1900, 400);
    s->ops[0].sums.served.delay_ns = 20 * MS;
    s->run.sums.cpu_ns = 50 * MS;
    be_crowded(s);
}
static void be_computing_beside_others(scene *s)
{
    be_locked(s);
    s->ops[0].sums.call.cpu_ns = 1500 * MS;
    be_crowded(s);
    s->run.sums.machine_ns = 3800 * MS;
}
static void be_serial_beside_others(scene *s)
{
    be_serial(s);
    s->ops[1].sums.call.cpu_ns = 475 * MS;
    be_crowded(s);
}
/* The story: a serial operator that sleeps was told to lack CPUs. */
static void be_serial_asleep_beside_others(scene *s)
{
    be_serial(s);
    s->ops[1].sums.call.cpu_ns = 20 * MS;
    be_crowded(s);
}
/* The CPUs are full with this process alone. */
static void be_alone_on_the_machine(scene *s)
{
    be_crowded_out(s);
    s->run.sums.cpu_ns = 3000 * MS;
}
/* The only ticket: nothing comes after it. */
static void be_alone(scene *s)
{
    caused(s, HR_CAUSE_TICKET, 500);
    s->stage.all_tickets = 1;
    s->stage.all_taken = true;
}
/* The only ticket, whose rows are many calls: once the verdict had no function then, and read its counters. */
static void be_alone_with_calls(scene *s)
{
    served(s, 4, false, 1000, 900);
    s->stage.all_tickets = 1;
    s->stage.all_taken = true;
    s->stage.held = s->stage.longest = (hr_slow_ticket){ .rows = 1000, .busy_ns = 900 * MS, .blamed_ns = 400 * MS };
}
static void be_alone_downstream(scene *s)
{
    be_alone(s);
    s->stage.is_leaf = false;
}
/* A reader of arrays: 5 calls of 200 chunks. */
static void be_in_small_chunks(scene *s)
{
    served(s, 4, true, 900, 90);
    s->ops[0].sums.served.calls = 5;
    s->ops[0].sums.served.pieces = 200;
    s->ops[0].sums.served.piece_bytes = 320;
}
/* All rows are one call, and it holds up everything. */
static void be_in_one_slab(scene *s)
{
    be_in_small_chunks(s);
    be_alone(s);
    caused(s, HR_CAUSE_TICKET, 0);
    s->stage.held = (hr_slow_ticket){ .rows = 1, .busy_ns = 900 * MS, .blamed_ns = 400 * MS };
}
static void be_in_one_large_chunk(scene *s)
{
    be_in_one_slab(s);
    s->ops[0].sums.served.calls = s->ops[0].sums.served.pieces = 1;
    s->ops[0].sums.served.piece_bytes = 200 << 20;
}
/* Its time is that of its bytes: chunks of 64 kB are a sixteenth of the proposed ones. */
static void be_in_chunks_of_64k(scene *s)
{
    be_in_small_chunks(s);
    s->ops[0].sums.served.busy_ns = 3900 * MS;
    s->ops[0].sums.served.piece_bytes = 1 << 16;
}
static void be_late(scene *s)
{
    s->e.n_ranks = 2;
    s->e.slow_rank = 1;
    s->e.held_ns = 800 * MS;
    s->e.others_step_ns = 250 * MS;
}
static void be_collating(scene *s) { s->e.steps.convert_ns = 400 * MS; }
static void be_nothing(scene *s) { (void)s; }

static const struct {
    void (*be)(scene *s);
    int64_t wait_ms;
    hr_verdict_kind kind;
    const char *text, *advice;
    double least_gain, most_gain;
} cases[] = {
    { be_serial, 500, HR_VERDICT_SERIAL, "rebatch(8) runs on one thread, which it kept busy 95 %", "rebatch(8)", 1.9,
      2.1 },
    { be_spilling, 500, HR_VERDICT_SPILL, "5.2 MB were spilled", "memory limit", 1.9, 2.1 },
    { be_preempted, 500, HR_VERDICT_CPU, "map(f) took 9", "map(f)", 1.9, 2.1 },
    { be_computing, 500, HR_VERDICT_CPU, "all 4 threads work: map(f) took 9", "map(f)", 1.9, 2.1 },
    { be_reading, 500, HR_VERDICT_DISK, "10.5 MB/s", "disk", 1.9, 2.1 },
    { be_too_many, 500, HR_VERDICT_THREADS, "16 threads share 4 CPUs", "num_threads to 4", 1.9, 2.1 },
    { be_locked, 500, HR_VERDICT_WAITS, "computed only 13 %", "locks", 1.9, 2.1 },
    { be_latent, 500, HR_VERDICT_LATENCY, "100.0 ms each, of which 95 % until the first byte", "cache", 1.9, 2.1 },
    { be_narrow, 500, HR_VERDICT_BANDWIDTH, "104.9 MB/s", "columns", 1.9, 2.1 },
    { be_throttled, 500, HR_VERDICT_THROTTLE, "20 of 100", "prefixes", 1.9, 2.1 },
    { be_tight, 500, HR_VERDICT_MEMORY, "1.1 GB", "memory limit", 1.9, 2.1 },
    { be_opening, 500, HR_VERDICT_OPENING, "1000 rows in each", "larger files", 1.9, 2.1 },
    { be_single, 500, HR_VERDICT_FUNCTION, "map(f): 1 worker was 98 % busy", "concurrency=2", 1.9, 2.1 },
    { be_in_union_by_turns, 750, HR_VERDICT_FUNCTION,
      "the 2 functions map(f): of each 1 worker was 98 % busy in its turn", "give each more workers (concurrency=4)",
      3.9, 4.1 },
    { be_in_union_at_once, 750, HR_VERDICT_FUNCTION, "the 2 functions map(f): of each 1 worker was 98 % busy, and it",
      "give each more workers (concurrency=4)", 3.9, 4.1 },
    { be_beside_another, 750, HR_VERDICT_FUNCTION, "the function map(f): 1 worker was 98 % busy", "it", 1, 1.1 },
    { be_all_cpus, 500, HR_VERDICT_FUNCTION, "map(f): 4 workers were 98 % busy", "make it cheaper", 1.9, 2.1 },
    { be_taking_turns, 500, HR_VERDICT_GIL, "4 threads of this process", "processes", 3.9, 4.1 },
    { be_taking_long_turns, 500, HR_VERDICT_GIL, "4 threads of this process", "processes", 3.9, 4.1 },
    { be_taking_short_turns, 500, HR_VERDICT_GIL, "4 threads of this process", "processes", 3.9, 4.1 },
    { be_taking_turns_beside_others, 500, HR_VERDICT_GIL, "2 threads of this process", "processes", 3.9, 4.1 },
    { be_taking_turns, 1, HR_VERDICT_GIL, "4 threads of this process", "processes", 3.9, 4.1 }, /* it slows the steps */
    { be_freeing_the_lock, 500, HR_VERDICT_FUNCTION, "4 workers were 98 % busy", "concurrency=8", 1.9, 2.1 },
    { be_freeing_it_in_long_calls, 500, HR_VERDICT_FUNCTION, "4 workers were 98 % busy", "concurrency=8", 1.9, 2.1 },
    { be_freeing_it_on_two_cpus, 500, HR_VERDICT_FUNCTION, "4 workers were 98 % busy", "concurrency=8", 1.9, 2.1 },
    { be_freeing_it_beside_others, 500, HR_VERDICT_FUNCTION, "8 workers were 93 % busy", "", 1.5, 2.1 },
    { be_light, 500, HR_VERDICT_FUNCTION, "4 workers", "", 1.9, 2.1 },
    { be_slow_row, 500, HR_VERDICT_HEAD, "900.0 ms against 10.5 ms: of c.parquet, fragment 7, from row 4000", "order",
      1.9, 2.1 },
    { be_huge, 500, HR_VERDICT_FRAGMENT, "90000 rows against 1000 of c.parquet, fragment 7", "row groups", 1.9, 2.1 },
    { be_few, 500, HR_VERDICT_GROUPS, "too few fragments for 4 threads: 1 of 20000 rows", "smaller row groups", 1.9,
      2.1 },
    { be_crowded_out, 500, HR_VERDICT_OTHERS, "other processes use 3.0 of the 4 CPUs: map(f) had work all of the time",
      "more workers or threads do not help", 1.9, 2.1 },
    { be_crowded_out_unknown, 500, HR_VERDICT_OTHERS, "computed 50 % of it", "do not help", 1.9, 2.1 },
    { be_beside_others, 500, HR_VERDICT_FUNCTION, "2 workers were 95 % busy", "make it cheaper, or end the other", 1.9,
      2.1 },
    { be_asleep_beside_others, 500, HR_VERDICT_FUNCTION, "2 workers", "concurrency=4", 1.9, 2.1 },
    { be_computing_beside_others, 500, HR_VERDICT_OTHERS, "2.8 of the 4 CPUs: map(f)", "end or move", 1.9, 2.1 },
    { be_serial_beside_others, 500, HR_VERDICT_OTHERS, "rebatch(8) had work", "end or move", 1.9, 2.1 },
    { be_serial_asleep_beside_others, 500, HR_VERDICT_SERIAL, "rebatch(8) runs on one thread", "rebatch(8)", 1.4, 2.1 },
    { be_alone_on_the_machine, 500, HR_VERDICT_FUNCTION, "2 workers", "make it cheaper: ", 1.3, 1.4 },
    { be_alone, 500, HR_VERDICT_GROUPS, "too few fragments for 4 threads", "smaller row groups", 1.9, 2.1 },
    { be_alone_with_calls, 500, HR_VERDICT_FUNCTION, "map(f): 4 workers were 25 % busy", "make it cheaper", 1.3, 2.1 },
    { be_alone_downstream, 500, HR_VERDICT_GROUPS, "one piece of work", "repartition", 1.9, 2.1 },
    { be_in_small_chunks, 500, HR_VERDICT_CHUNKS, "small chunks: 1000 of 320 B, which take 900 us each",
      "chunks of about 1.0 MB: 1 instead of 1000", 1.9, 2.1 },
    { be_in_one_slab, 500, HR_VERDICT_CHUNKS, "small chunks", "chunks of about 1.0 MB", 1.9, 2.1 },
    { be_in_one_large_chunk, 500, HR_VERDICT_GROUPS, "map(f) has too few pieces for 4 threads: 1, with 1 chunks",
      "smaller chunks", 1.9, 2.1 },
    { be_in_chunks_of_64k, 990, HR_VERDICT_CHUNKS, "65.5 kB", "instead of", 15, 17 },
    { be_late, 500, HR_VERDICT_RANK, "rank 1 takes its batches late", "rank 1", 3.9, 4.1 },
    { be_collating, 10, HR_VERDICT_COLLATE, "conversions and copies took 4.0 ms of each step, 40 %", "fewer columns",
      1.6, 1.7 },
    /* a part of the waits is of another cause; another resource is the next limit */
    { be_serial, 900, HR_VERDICT_SERIAL, "rebatch(8)", "rebatch(8)", 9.9, 10.1 },
    { be_tight_and_slow, 800, HR_VERDICT_MEMORY, "for want of memory 40 %", "memory limit", 3.3, 3.4 },
    { be_faulting, 800, HR_VERDICT_MEMORY, "50 % of the CPU time went into pages", "memory limit", 3.3, 3.4 },
    { be_faulting_at_ease, 800, HR_VERDICT_CPU, "read took", "columns", 4.1, 5.1 },
    { be_tight_and_copying, 800, HR_VERDICT_MEMORY, "memory", "memory limit", 1.6, 1.7 },
    { be_tight_and_remote, 800, HR_VERDICT_MEMORY, "memory", "memory limit", 2.4, 2.6 },
    { be_reading_and_short, 900, HR_VERDICT_DISK, "disk", "disk", 4.7, 4.9 },
    { be_nothing, 40, HR_VERDICT_TRAINER, "its steps take 9.6 ms, and it found 5 %", "", 1, 1 },
};

static void test_each_cause(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        scene *s = scene_new(cases[i].wait_ms);
        hr_verdict v;

        cases[i].be(s);
        hr__verdict_of(&s->e, &v);
        if (v.kind != cases[i].kind || !strstr(v.text, cases[i].text) || !strstr(v.advice, cases[i].advice))
            fail_msg("case %d: found %d, \"%s\", \"%s\"", i, v.kind, v.text, v.advice);
        if (v.gain < cases[i].least_gain || v.gain > cases[i].most_gain)
            fail_msg("case %d (%d): gain %f", i, v.kind, v.gain);
        assert_int_equal(v.starved, cases[i].kind != HR_VERDICT_TRAINER);
        assert_int_equal(v.advice[0] == 0, !v.starved);
    }
}

/* 20 GB in 20 fragments of a million rows, of which all are read. */
static void of_large_files(scene *s)
{
    s->stage.files = 5;
    s->stage.rows_read = s->stage.fragment_rows = 20000000;
    s->stage.stored_bytes = INT64_C(20000000000);
    s->stage.sums.ticket_rows = s->stage.all_ticket_rows;
    s->run.sums.active_ns = 4000 * MS;
    be_computing(s);
}
static void of_small_files(scene *s)
{
    of_large_files(s);
    s->stage.files = s->stage.fragments = 3000;
    s->stage.stored_bytes = 3000 << 10;
    s->stage.rows_read = s->stage.fragment_rows = 30000;
    s->ops[0].sums.call = (hr_call_sums){ 0 };
}
/* Tables of 20 rows are put together, and each time the operator wants a thread. The story: these waits were no saving,
 * and a gain of 40 was told as 3.5. */
static void of_small_files_put_together(scene *s)
{
    of_small_files(s);
    caused(s, HR_CAUSE_THREADS, 300);
    caused(s, HR_CAUSE_HANDOVER, 0);
    caused(s, HR_CAUSE_SERIAL, 200);
    s->ops[1].sums.call = (hr_call_sums){ 3000, 20 * MS, 20 * MS };
    s->ops[1].sums.rows_out = 30000;
}
/* Each of 30 batches is then cut out of one table. The story: the time of putting 100 files together remained, and a
 * gain of 18 was told as 6.5. */
static void of_small_files_to_large_batches(scene *s)
{
    of_small_files_put_together(s);
    s->ops[1].name = (char *)"rebatch(1000)";
    s->ops[1].table_rows = 1000;
}
/* The operator itself takes the time. */
static void of_small_files_beside_serial(scene *s)
{
    of_small_files(s);
    caused(s, HR_CAUSE_THREADS, 0);
    caused(s, HR_CAUSE_HANDOVER, 0);
    be_serial(s);
}
static void of_small_fragments(scene *s)
{
    of_small_files(s);
    s->stage.files = 3;
}
/* Threads are busy with the function, and not with files. */
static void of_small_files_beside_work(scene *s)
{
    of_small_files(s);
    s->ops[0].sums.call = (hr_call_sums){ 100, 3950 * MS, 3900 * MS };
}
static void of_unwanted_rows(scene *s)
{
    of_large_files(s);
    s->stage.rows_read = 20000;
}
static void of_filtered_rows(scene *s)
{
    of_large_files(s);
    s->ops[0].name = (char *)"filter(col('x') > 3)";
    s->ops[0].sums.rows_in = 20000000;
    s->ops[0].sums.rows_out = 1000000;
}
static void of_one_large_fragment(scene *s)
{
    of_large_files(s);
    caused(s, HR_CAUSE_FEW, 500);
    s->stage.longest = (hr_slow_ticket){ { .fragment = 7 }, 9000, 900 * MS, 500 * MS };
    s->stage.all_ticket_rows = 19 * 1000 + 9000;
}
static void of_few_fragments(scene *s)
{
    of_large_files(s);
    caused(s, HR_CAUSE_THREADS, 0);
    caused(s, HR_CAUSE_FEW, 400);
    s->stage.all_tickets = 2;
    s->stage.longest.rows = s->stage.all_ticket_rows / 2;
}
static void of_small_requests(scene *s)
{
    of_large_files(s);
    s->ops[0].sums.call.busy_ns = 0;
    caused(s, HR_CAUSE_THREADS, 0);
    caused(s, HR_CAUSE_HANDOVER, 0);
    network(s, 80, 0);
    s->run.sums.io[HR_IO_NETWORK].bytes = 100 * 50000;
    s->run.all_io[HR_IO_NETWORK] = s->run.sums.io[HR_IO_NETWORK];
}
static void of_no_files(scene *s)
{
    of_small_files(s);
    s->stage.stored_bytes = 0;
}

static void test_findings_on_files(void **state)
{
    static const struct {
        void (*be)(scene *s);
        int64_t wait_ms;
        int n;
        const char *text, *advice;
        double gain;
    } of[] = {
        { of_large_files, 500, 0, NULL, NULL, 0 },
        { of_small_files, 500, 1, "3000 files of 1.0 kB each were read, 1328 us of each", "files of 16.8 MB: 1", 2 },
        { of_small_files_put_together, 900, 1, "3000 files of 1.0 kB each", "files of 16.8 MB: 1", 7.8 },
        { of_small_files_to_large_batches, 900, 1, "3000 files of 1.0 kB each", "files of 16.8 MB: 1", 9.6 },
        { of_small_files_beside_serial, 500, 0, NULL, NULL, 0 },
        { of_small_files, 20, 0, NULL, NULL, 0 }, /* the trainer does not wait */
        { of_small_fragments, 500, 1, "3000 fragments of 1.0 kB", "fragments (row groups, chunks) of 16.8 MB: 1", 2 },
        { of_small_files_beside_work, 500, 0, NULL, NULL, 0 },
        { of_unwanted_rows, 500, 1, "0.1 % of 20000000 rows were wanted, and their 20 fragments", "sort the files",
          1.9 },
        { of_filtered_rows, 500, 1,
          "5 % of 20000000 rows were wanted, and their 20 fragments (row groups) were read: fi", "sort the files",
          1.9 },
        { of_one_large_fragment, 500, 1, "fragment 7 of c.parquet has 9000 rows, others 1000: all waited for it",
          "one size: 1000 rows", 1.28 },
        { of_few_fragments, 500, 1, "2 pieces were read, for 4 threads", "files of 2500 rows", 1.25 },
        { of_small_requests, 500, 2, "100 requests for 5 files brought 50.0 kB each, and 80 % of their time",
          "chunks of 8.4 MB: about 1 request", 1.66 },
        { of_no_files, 500, 0, NULL, NULL, 0 },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(of); i++) {
        scene *s = scene_new(of[i].wait_ms);
        hr_text out = { 0 };
        hr_verdict v;

        of[i].be(s);
        hr__verdict_of(&s->e, &v);
        if (v.n_files != of[i].n)
            fail_msg("case %d: %d findings, \"%s\"", i, v.n_files, v.files[0].text);
        if (v.n_files && (!strstr(v.files[0].text, of[i].text) || !strstr(v.files[0].advice, of[i].advice) ||
                          v.files[0].gain < 0.97 * of[i].gain || v.files[0].gain > 1.03 * of[i].gain))
            fail_msg("case %d: \"%s\", \"%s\", %f", i, v.files[0].text, v.files[0].advice, v.files[0].gain);
        hr__verdict_print(&v, &out);
        assert_contains(out.data, v.n_files ? ",\"files\":[{\"text\":\"" : ",\"files\":[]}");
        hr__text_clear(&out);
    }
}

/* A store is slow: its files may stay on the disk. */
static void test_the_cache_is_advised(void **state)
{
    scene *s = scene_new(500);
    hr_verdict v;

    (void)state;
    of_small_requests(s);
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.n_files, 2);
    assert_contains(v.files[1].text, "the store brought 5.0 MB/s, and 50 % of the time was a wait for it");
    assert_contains(v.files[1].advice, "HEADRACE_CACHE_DIR");
    assert_true(v.files[1].gain > 1.99 && v.files[1].gain < 2.01);
}

/* A run with its start has one request at least. The story: 200 rows of a filter took 1.65 s, of which a request took
 * 0.42, and one large file promised to take 0.05. */
static void test_one_request_remains(void **state)
{
    scene *s = scene_new(990);
    hr_verdict v;

    (void)state;
    of_small_requests(s); /* 100 that take 80 % of the time before the first byte */
    s->e.is_whole = true;
    s->run.sums.io[HR_IO_NETWORK].ns = s->run.all_io[HR_IO_NETWORK].ns = 100 * 250 * MS;
    s->run.sums.io[HR_IO_NETWORK].first_ns = s->run.all_io[HR_IO_NETWORK].first_ns = 100 * 249 * MS;
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_LATENCY);
    assert_true(v.gain > 3.9 && v.gain < 4.1);
    assert_true(v.files[0].gain > 3.9 && v.files[0].gain < 4.1);
    assert_true(v.files[1].gain > 50); /* the cache needs none */
    s->stage.files = 1;
    hr__verdict_of(&s->e, &v);
    assert_contains(v.files[0].text, "100 requests for 1 file brought");
}

/* The story: a count of 10,000 rows took a second, in which two processes started that then worked for 3 % of it. "Give
 * it more workers (about 100.0 times as fast)", it said. */
static void test_the_start_of_workers_is_no_limit(void **state)
{
    scene *s = scene_new(990);
    hr_verdict v;

    (void)state;
    caused(s, HR_CAUSE_FUNCTION, 900);
    served(s, 2, false, 60, 5);
    s->e.is_whole = true;
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SHORT);
    assert_contains(v.text, "the workers of map(f) had to start");
    assert_true(!v.starved && v.gain == 1 && !v.advice[0] && !v.n_files);
    served(s, 1, false, 500, 5); /* half of the waits */
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_FUNCTION);
    assert_true(v.gain > 1.9 && v.gain < 2.1);
    /* The story: two processes took 1.7 of 2 s to start, then worked 0.4 s each. The first rows "took 38.8 ms against
     * 2.2 ms", and were to blame. */
    served(s, 2, false, 400, 40);
    s->stage.held = (hr_slow_ticket){ { .row = 0 }, 1000, 39 * MS, 850 * MS };
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SHORT);
    assert_contains(v.text, "the workers of map(f) had to start");
    served(s, 2, false, 900, 40); /* a worker was busy all the time in which the rows were held */
    s->stage.held.busy_ns = 850 * MS;
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_HEAD);
    s->stage.held = (hr_slow_ticket){ 0 };
    served(s, 2, false, 60, 5);
    s->e.is_whole = false; /* without the start */
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_FUNCTION);
}

/* The gain ends where the next resource is the limit. */
static void test_the_next_limit(void **state)
{
    scene *s = scene_new(800);
    hr_verdict v;

    (void)state;
    be_serial(s);
    s->stage.reads = (hr_call_sums){ 20, 2000 * MS, 2000 * MS }; /* 0.5 s on 4 threads */
    hr__verdict_of(&s->e, &v);
    assert_true(v.gain > 1.95 && v.gain < 2.05);
    assert_true(v.most > 4.9 && v.most < 5.1);
    s->stage.sums.cause_ns[HR_CAUSE_NETWORK] = 250 * MS; /* a third of the waits is not its fault */
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SERIAL);
    assert_true(v.gain > 1.95 && v.gain < 2.05);
    s->stage.sums.cause_ns[HR_CAUSE_NETWORK] = 499 * MS;
    hr__verdict_of(&s->e, &v);
    assert_true(v.gain > 1.6 && v.gain < 1.7);
}

/* The CPUs are the next limit: 800 ms of 1 s are waits. Without the operator's 900 ms the others need 400 on 4 CPUs. */
static void test_the_cpus(void **state)
{
    scene *s = scene_new(800);
    hr_verdict v;

    (void)state;
    be_serial(s);
    s->run.sums.cpu_ns = 2500 * MS;
    hr__verdict_of(&s->e, &v);
    assert_true(v.gain > 2.45 && v.gain < 2.55);
    s->run.sums.cpu_ns = 900 * MS; /* workers of a function have them */
    s->ops[0].calls = true;
    s->ops[0].sums.served = (hr_served){ .calls = 100, .busy_ns = 2000 * MS, .cpu_ns = 1600 * MS, .servers = 8 };
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SERIAL);
    assert_true(v.gain > 2.45 && v.gain < 2.55);
    s->ops[0].sums.served.here = true; /* threads: they are in the time of the process */
    s->run.sums.cpu_ns = 2500 * MS;
    hr__verdict_of(&s->e, &v);
    assert_true(v.gain > 2.45 && v.gain < 2.55);

    s = scene_new(800); /* the function's own time goes with it */
    served(s, 4, false, 3900, 3800);
    s->run.sums.cpu_ns = 1000 * MS;
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_FUNCTION);
    assert_contains(v.advice, "make it cheaper: ");
    assert_true(v.gain > 3.95 && v.gain < 4.05);

    s = scene_new(800); /* processes do the same work: 2 s on 4 CPUs */
    be_taking_turns(s);
    s->run.sums.cpu_ns = 2000 * MS;
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_GIL);
    assert_true(v.gain > 1.95 && v.gain < 2.05);
}

/* As many workers as the advice says bring the gain: the next limit is the trainer, the CPUs, or the window. */
static void test_workers(void **state)
{
    static const struct {
        int64_t wait_ms, busy_ms, cpu_ms;
        int n_cpus;
        const char *advice;
        double gain;
    } with[] = {
        { 750, 990, 10, 4, "concurrency=4)", 4.0 },   /* it sleeps; steps of 250 ms */
        { 750, 770, 10, 4, "concurrency=3)", 3.9 },   /* 257 ms with 3 workers */
        { 990, 990, 10, 4, "concurrency=16)", 16.2 }, /* steps of 10 ms: the window has no more tickets */
        { 900, 990, 900, 4, "concurrency=4)", 4.0 },  /* it computes, as all CPUs do then */
        { 900, 930, 450, 2, "concurrency=4)", 4.2 },  /* half of it */
        { 900, 990, 980, 1, "make it cheaper: ", 10.0 },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(with); i++) {
        scene *s = scene_new(with[i].wait_ms);
        hr_verdict v;

        served(s, 1, false, with[i].busy_ms, with[i].cpu_ms);
        s->run.sums.cpu_ns = 20 * MS;
        s->run.n_cpus = with[i].n_cpus;
        hr__verdict_of(&s->e, &v);
        assert_int_equal(v.kind, HR_VERDICT_FUNCTION);
        assert_contains(v.advice, with[i].advice);
        if (v.gain < 0.94 * with[i].gain || v.gain > 1.06 * with[i].gain)
            fail_msg("case %d: gain %f", i, v.gain);
    }
}

static void test_too_short(void **state)
{
    scene *s = scene_new(900);
    hr_verdict v;

    (void)state;
    be_serial(s);
    s->e.steps = (hr_step_sums){ 7, 200 * MS, 10 * MS, 0, 0 };
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SHORT);
    assert_string_equal(v.text, "too short to judge: 7 steps in 210.0 ms");
    assert_false(v.starved);
    s->e.steps = (hr_step_sums){ 3, 3000 * MS, 10 * MS, 0, 0 }; /* few, but long */
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SERIAL);
    s->e.steps = (hr_step_sums){ 0 };
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SHORT);
}

/* One step, and its wait was the run: no trainer, and a verdict. */
static void test_a_whole_run(void **state)
{
    scene *s = scene_new(900);
    hr_step_sums long_step = { 1, 900 * MS, 1000 * MS, 0, 0 };
    hr_verdict v;

    (void)state;
    be_serial(s);
    s->e.is_whole = true;
    s->e.steps = (hr_step_sums){ 1, 900 * MS, MS, 0, 0 };
    assert_true(hr__verdict_takes(&s->e.steps));
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SHORT); /* less than a second */
    s->e.steps.wait_ns = 1100 * MS;
    hr__verdict_of(&s->e, &v);
    assert_int_equal(v.kind, HR_VERDICT_SERIAL);
    assert_true(v.starved);
    assert_false(hr__verdict_takes(&long_step));
    assert_false(hr__verdict_takes(&(hr_step_sums){ 0 }));
}

/* A name of the user's may be long, and have any character. */
static void test_long_names(void **state)
{
    char name[2000];
    scene *s = scene_new(500);
    hr_text out = { 0 };
    hr_verdict v;

    (void)state;
    memset(name, '"', sizeof name - 1);
    name[sizeof name - 1] = 0;
    be_serial(s);
    s->ops[1].name = name;
    hr__verdict_of(&s->e, &v);
    hr__verdict_print(&v, &out);
    assert_contains(out.data, "\\\"\\\"...");
    assert_contains(out.data, "\"kind\":\"serial\",\"starved\":true,\"wait_share\":0.5000");
    hr__text_clear(&out);
}

static void test_steps(void **state)
{
    hr_steps s = { 0 };
    hr_step_sums sums;
    hr_text out = { 0 };
    int64_t now = 1000 * MS;
    int mark;

    (void)state;
    sums = hr__steps_steady(&s, &mark);
    assert_int_equal(mark, -1);
    for (int i = 0; i < 100; i++) {
        int expected = i == 0 ? HR_MARK_FIRST : i == HR_STEPS_WARM ? HR_MARK_WARM : -1;

        hr__steps_call(&s, now);
        hr__steps_call(&s, now + MS); /* it waits on */
        now += i == 0 ? 700 * MS : i <= HR_STEPS_WARM ? 50 * MS : i % 2 ? 2 * MS : 1000;
        assert_int_equal(hr__steps_took(&s, now), expected);
        now += 10 * MS;
    }
    assert_int_equal(s.first_wait_ns, 700 * MS);
    assert_int_equal(s.sums.n, 99);
    sums = hr__steps_steady(&s, &mark);
    assert_int_equal(mark, HR_MARK_WARM);
    assert_int_equal(sums.n, 99 - HR_STEPS_WARM);
    assert_int_equal(sums.step_ns, (99 - HR_STEPS_WARM) * 10 * MS);
    assert_int_equal(sums.n_ready, 39);
    assert_int_equal(sums.wait_ns, 40 * 2 * MS + 39 * 1000);
    hr__steps_call(&s, now); /* there is no more */
    sums = hr__steps_all(&s);
    assert_int_equal(sums.n, 100);
    assert_int_equal(sums.wait_ns, (700 + 50 * HR_STEPS_WARM + 40 * 2) * MS + 39 * 1000);
    assert_int_equal(sums.step_ns, 100 * 10 * MS);
    hr__steps_print(&s, &out);
    assert_contains(out.data, "{\"taken\":100,\"first_wait_ns\":700000000,");
    hr__text_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_cause),
        cmocka_unit_test(test_the_next_limit),
        cmocka_unit_test(test_the_cpus),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_findings_on_files),
        cmocka_unit_test(test_the_cache_is_advised),
        cmocka_unit_test(test_one_request_remains),
        cmocka_unit_test(test_the_start_of_workers_is_no_limit),
        cmocka_unit_test(test_too_short),
        cmocka_unit_test(test_a_whole_run),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
