/* exec.h - runs a plan: the scheduler, markers, counters.
 *
 * A plan is an immutable tree. A run cuts it into *stages*: a leaf reads a scan; each stage runs its map operators on
 * many tickets at once and then, serially and in canonical order, the stream operator at its end, whose tables are the
 * next stage's tickets. See sched.c. */
#ifndef HR_EXEC_H
#define HR_EXEC_H

#include "plan/plan.h"

/* --- late.c */
/* The schema; runs the plan for its first table if a function declares no schema. */
hr_status hr__plan_schema(hr_plan *p, hr_schema **out, hr_error *err) HR_MUST_USE;

/* --- marker.c: positions */
struct hr_marker {
    hr_coord at;    /* the row before which it lies: source instance, file, fragment, row */
    hr_coord *more; /* downstream of an operator of several inputs: the rows of its other sources */
    int n_more;
    int n_states, cap_states;
    struct {
        int op_index;
        char *text;
    } *states;
};
hr_status hr__marker_new(hr_coord at, hr_marker **out, hr_error *err) HR_MUST_USE;
/* Adds the state of operator `op_index`: n bytes of text; NULL: it passed the marker and has no state. Borrows. */
hr_status hr__marker_add(hr_marker *m, int op_index, const char *text, int64_t n, hr_error *err) HR_MUST_USE;
/* Adds the state, or replaces the one that the operator added before. */
hr_status hr__marker_set(hr_marker *m, int op_index, const char *text, hr_error *err) HR_MUST_USE;
const char *hr__marker_state(const hr_marker *m,
                             int op_index); /* borrowed; NULL: the operator did not pass the marker */
const hr_coord *hr__marker_at(const hr_marker *m, int32_t instance); /* its row of that source; borrowed, NULL: none */
/* A marker alone as text, appended to `out`; and back. *out is new. HR_INVALID: the text is no marker. */
void hr__marker_print(const hr_marker *m, hr_text *out);
hr_status hr__marker_parse(const char *text, hr_marker **out, hr_error *err) HR_MUST_USE;
/* {"v":2,"epoch":0,"plan":"<32 hex>","at":[instance,file,fragment,row],"more":[[instance,file,fragment,row],...],
 * "ops":{"2":"..."},"discard":1024,"extra":{...},
 * "code":"...","files":3,"names":"<16 hex>","sizes":"...","memory":"...","groups":"...","sum":"<16 hex, of all
 * before>"} */
typedef struct hr_position {
    int64_t epoch;
    uint64_t seed;
    char plan[33];    /* nodes and arguments: hr__plan_digest */
    bool whole;       /* has inputs and code; without them only this process can use it: see hr__position_make_whole */
    hr_inputs inputs; /* not whole: only `memory`, as long as the tables have yet to be compared with it; else 0 */
    char code[HR_MAX_CODES * HR_CODE_DIGITS + 1];
    hr_marker *marker;    /* NULL: from the start */
    bool other_code;      /* set by a comparison: some functions of the plan differ from `code` */
    int64_t discard_rows; /* rows of the run's output after the marker */
    bool at_end;          /* the epoch was finished */
    char extra[512];      /* the feed's own, a JSON object or empty (split: step) */
} hr_position;
hr_status hr__position_print(const hr_position *p, char **out, hr_error *err) HR_MUST_USE;
/* HR_INVALID: the text is not a position, was changed or cut, or has another version. */
hr_status hr__position_parse(const char *text, hr_position *out, hr_error *err) HR_MUST_USE;
/* Adds the plan's inputs (hr__inputs_of, with contents) and its code. HR_MISMATCH: see hr_position.inputs. */
hr_status hr__position_make_whole(const hr_plan *plan, const hr_inputs *inputs, hr_position *p,
                                  hr_error *err) HR_MUST_USE;
/* The integer member `name` of p->extra; false: it has none, or no integer. */
bool hr__position_extra(const hr_position *p, const char *name, int64_t *out);
uint64_t hr__position_sum(const char *text,
                          int64_t n); /* the checksum at the end of a position's text, over the n bytes before it */
void hr__position_clear(hr_position *p);

/* --- run_state.c, run.c, sched.c: one run of a plan */
/* Tables that may be ahead of n consumers, `prefetch` at least: small ones as many for each as fit in HR_SMALL_BYTES,
 * so that no thread waits for another one at each table. table_bytes: of the last table; -1: none yet. */
#define HR_SMALL_AHEAD 16
#define HR_SMALL_BYTES (1 << 21)
/* Calls of functions in workers that are under way at a time, for each thread of the run. */
#define HR_CALLS_A_THREAD 4
int hr__ahead(int prefetch, int n, int64_t table_bytes);
typedef struct hr_run hr_run;
typedef struct hr_run_options {
    int64_t epoch;
    uint64_t seed;
    bool any_order;        /* drains tickets as they complete: no canonical order, no positions */
    int num_threads;       /* 0: all */
    bool autotune;         /* their number may be moved, if it is not fixed (run_threads.c), and prefetch, */
    hr_plan *learns;       /* and begins where the last run of this plan ended. Borrowed; NULL: at the default */
    int reserved_cpus;     /* left to the consumer: hr_feed_options */
    int first_threads;     /* where their number begins, if it moves and nothing was learned; 0: at the default */
    int64_t memory_limit;  /* 0: the process's */
    int prefetch;          /* tables to hold in the output queue; */
    int most_prefetch;     /* moved up to this by measurement; prefetch or less: it stays */
    int small_for;         /* consumers for which small tables may go further ahead (hr__ahead); 0: none */
    bool careful;          /* begins with one ticket at a time: the consumer may take few rows */
    const hr_marker *from; /* borrowed; NULL: the start */
    bool other_code;       /* `from` was saved with other functions, or other code of functions */
    hr_arena *arena; /* another process reads the output: hr__op_gather, the last operator, writes here; or NULL */
    const char *trace_path;
    /* For a run that computes rows which another run caches (row_leaf.c): the numbers of its first operator and source;
     * the rows of a block that functions of the other run count (0: none count); that run, whose consumer serves inline
     * calls, and whose account counts this one's. NULL: it is no such run. */
    int first_op, first_instance;
    int64_t block_rows;
    struct hr_run *outer;
    bool is_trial; /* it is built, and never starts */
    /* A table, the end, an error or an inline call waits. Called without locks; NULL: none. */
    void (*ready)(void *context);
    void *ready_context;
} hr_run_options;
/* Starts a run of the rewritten p. */
hr_status hr__run_start(hr_plan *p, const hr_run_options *options, hr_run **out, hr_error *err) HR_MUST_USE;
/* *out NULL with HR_OK: the end. HR_PENDING: no table within timeout_ms (< 0: no limit; 0: does not wait), or an inline
 * call waits for the consumer's thread. *marker (may be NULL; new) is the newest marker that lies before *out. */
hr_status hr__run_next(hr_run *r, int timeout_ms, hr_table **out, hr_marker **marker, hr_error *err) HR_MUST_USE;
/* Whether a scan has rows that no ticket has: its files are not read to the end. */
bool hr__run_reads(hr_run *r);
bool hr__run_has_table(hr_run *r); /* whether the consumer would get its next table at once */
void hr__run_learned(hr_run *r);   /* keeps what it learned (run_threads.c) for the next run with the same `learns` */
bool hr__run_keeps_rows(const hr_run *r); /* has a block operator */
bool hr__run_fits_twice(const hr_run *r); /* whether the memory limit has room for another run like this one */
hr_status hr__run_stats(hr_run *r, hr_text *out, hr_error *err) HR_MUST_USE; /* JSON */
/* ,"name":[counts of classes], without the empty ones behind the last. */
void hr__print_classes(const char *name, const int64_t *n, int n_classes, hr_text *out);
bool hr__run_traces(const hr_run *r);                   /* into a file */
void hr__run_trace_stats(hr_run *r, const char *stats); /* JSON, for the trace's file; copied */
/* From now on the run keeps what it does in memory, for hr__run_news. Times of the news count from zero_ns. */
hr_status hr__run_watch(hr_run *r, int64_t zero_ns, hr_error *err) HR_MUST_USE;
/* Adds what is new since the last call: JSON arrays [track, begin in us, us, name, how many spans], with commas between
 * them and after what `out` has. Track -1: so many are lost. Not watched: nothing. */
hr_status hr__run_news(hr_run *r, hr_text *out, hr_error *err) HR_MUST_USE;
/* What a rank of a split did then. Spans of a rank never overlap. name: a literal. */
void hr__run_trace_rank(hr_run *r, int rank, const char *name, int64_t begin_ns, int64_t end_ns);
void hr__run_cancel(hr_run *r); /* wakes all threads; hr__run_next returns HR_CANCELLED */
void hr__run_close(hr_run *r);  /* cancels; waits until running tasks ended and every
                                * suspended ticket was resumed (hr_op_class.cancel). NULL is fine */

/* --- trace.c: a trace beside those of runs, in memory */
typedef struct hr_trace hr_trace;
hr_status hr__trace_watch_new(hr_account *a, int64_t zero_ns, hr_trace **out, hr_error *err) HR_MUST_USE;
void hr__trace_rank(hr_trace *t, int rank, const char *name, int64_t begin_ns, int64_t end_ns); /* NULL is fine */
hr_status hr__trace_news(hr_trace *t, hr_text *out, hr_error *err) HR_MUST_USE;                 /* as hr__run_news */
void hr__trace_close(hr_trace *t, bool write); /* a file, if it has one. NULL is fine */

/* --- span_bins.c: spans of a track, summed up for a page */

#define HR_MOST_SPAN_KINDS 4096
typedef struct hr_track_span {
    double begin, end; /* in any unit, as width; what lies before 0 counts for nothing */
    int32_t kind;
} hr_track_span;
typedef struct hr_span_bin {
    int64_t index; /* the bin from index * width to (index + 1) * width */
    int32_t kind;
    int32_t many; /* spans that begin in it */
    double share; /* of its width that spans of the kind cover, 0 to 1; what two of them cover counts once */
} hr_span_bin;
/* *out (the caller's, by hr__free): the bins of n spans, which are in the order of their begin, by index and kind.
 * *n_out -1: there are more than `most`. HR_INVALID: a span ends before it begins, or is out of order. */
hr_status hr__span_bins(const hr_track_span *spans, int64_t n, double width, int64_t most, hr_span_bin **out,
                        int64_t *n_out, hr_error *err) HR_MUST_USE;

/* --- observe.c: what the dispatcher records. All times are ns; sums count from the start, or from a mark. */

/* What a stage does. "Awaits": it does nothing, for want of that. */
typedef enum hr_stage_does {
    HR_STAGE_AWAITS_INPUT, /* the first: also before the first look */
    HR_STAGE_WORKS,
    HR_STAGE_AWAITS_OUTPUT, /* room downstream */
    HR_STAGE_AWAITS_MEMORY, /* the budget refuses its next step */
    HR_STAGE_AWAITS_FUNCTION,
    HR_STAGE_AWAITS_NETWORK,
    HR_STAGE_AWAITS_THREAD,
    HR_STAGE_ENDED,
    HR_N_STAGE_DOES
} hr_stage_does;

/* What a consumer that wants a table waits for. */
typedef enum hr_cause {
    HR_CAUSE_SERIAL,   /* a serial operator works, on one thread */
    HR_CAUSE_THREADS,  /* all threads of the run work */
    HR_CAUSE_TICKET,   /* the oldest ticket runs, its window is full, threads are idle */
    HR_CAUSE_FEW,      /* the oldest ticket runs, there are no more tickets, threads are idle */
    HR_CAUSE_FUNCTION, /* the oldest ticket waits for a function of the user's */
    HR_CAUSE_NETWORK,  /* for bytes of a network */
    HR_CAUSE_MEMORY,   /* the budget refuses the next step */
    HR_CAUSE_OPENING,  /* the next ticket is made: files are opened */
    HR_CAUSE_HANDOVER, /* work waits for a thread that has been woken */
    HR_N_CAUSES
} hr_cause;

/* Calls of an operator, or of a leaf's readers: busy_ns by the clock, cpu_ns (estimated from samples) on CPUs. */
typedef struct hr_call_sums {
    int64_t calls, busy_ns, cpu_ns;
} hr_call_sums;

typedef struct hr_op_sums {
    hr_call_sums call;
    int64_t rows_in, rows_out, bytes_out;
    int64_t wait_ns; /* of its tickets, for a function */
    hr_served served;
} hr_op_sums;

typedef struct hr_stage_sums {
    int64_t does_ns[HR_N_STAGE_DOES];
    int64_t cause_ns[HR_N_CAUSES];           /* while the consumer waited and the cause was here */
    int64_t queue_ns, window_ns;             /* tables at its input, and tickets, times ns */
    int64_t tickets, ticket_rows, ticket_ns; /* ended tickets, rows of their input, time of all steps */
    int64_t receiving_ns;                    /* of its tickets, for the network */
} hr_stage_sums;

typedef struct hr_run_sums {
    int64_t at_ns;      /* the time of the sums; since a mark: the time since then */
    int64_t cpu_ns;     /* of the process */
    int64_t kernel_ns;  /* of cpu_ns, in the kernel */
    int64_t faults;     /* of pages, of the process */
    int64_t hungry_ns;  /* in which the consumer wanted a table and there was none */
    int64_t active_ns;  /* threads that worked for the run, times ns */
    int64_t out_ns;     /* tables that were ready for the consumer, times ns */
    int64_t machine_ns; /* CPU time of all processes; 0: not known. Views and marks alone have it */
    int64_t throttled;  /* answers of stores to this process that refuse a request (429, 503) */
    hr_io_sums io[HR_N_IO];
} hr_run_sums;

/* A ticket that took long: where it began, its rows, the time of its steps, and the time in which the consumer waited
 * for it alone. */
typedef struct hr_slow_ticket {
    hr_coord begin;
    int64_t rows, busy_ns, blamed_ns;
} hr_slow_ticket;

typedef struct hr_stage_view {
    bool is_leaf, all_taken; /* all_taken: no more tickets can be made */
    int window;
    hr_stage_sums sums;
    hr_call_sums reads;                  /* of a leaf */
    int64_t rows_read, fragments, files; /* of the whole run */
    int64_t fragment_rows;               /* of these fragments, also those that were not read; 0: not known */
    int64_t stored_bytes;                /* of these fragments, of the projected columns; 0: not of files */
    /* of the whole run: ended tickets, as in the sums; */
    int64_t all_tickets, all_ticket_rows, all_ticket_ns;
    hr_slow_ticket longest, held;
    char *longest_file, *held_file; /* NULL: not known */
    /* now */
    hr_stage_does does;
    int n_running, n_calling, n_receiving;
    int64_t n_queue, n_window;
    hr_coord oldest;   /* where its oldest ticket begins */
    char *oldest_file; /* NULL: not known, or there is no ticket */
} hr_stage_view;

typedef struct hr_op_view {
    char *name;
    int stage;
    bool is_serial, is_block, calls; /* calls: a function of the user's */
    int64_t table_rows;              /* > 0: it only cuts its rows into tables of so many */
    int64_t spilled;                 /* bytes of the whole run */
    hr_op_sums sums;
} hr_op_view;

typedef struct hr_run_view {
    hr_run_sums sums;
    hr_stage_view *stages; /* upstream before downstream */
    int n_stages;
    hr_op_view *ops;
    int n_ops, n_threads, n_cpus;
    hr_io_sums all_io[HR_N_IO]; /* of the whole run */
    int n_machine_cpus;         /* that sums.machine_ns is of; 0: not known */
    int64_t used_bytes, limit_bytes, peak_bytes, spilled;
    /* now */
    bool hungry;
    hr_cause cause;  /* while hungry */
    int cause_stage; /* -1: none */
    int64_t moved_ns;
    int n_active;
    int64_t n_out;
} hr_run_view;

enum { HR_MARK_FIRST, HR_MARK_WARM, HR_N_MARKS }; /* the consumer took its first table; it has taken many */
void hr__run_mark(hr_run *r, int mark);
int64_t hr__run_moved_ns(hr_run *r); /* when a step last began or ended, a table passed on, or a ticket resumed */
/* What the run has done since the mark; mark < 0: since its start. */
hr_status hr__run_view(hr_run *r, int mark, hr_run_view *out, hr_error *err) HR_MUST_USE;
void hr__run_view_clear(hr_run_view *v);

/* Counters that tests and stats read. */
typedef struct hr_run_counts {
    int64_t files_opened, fragments_read, rows_read, tables_out, rows_out, tickets;
    int64_t fragments_skipped, rows_skipped, pages_skipped, bloom_hits; /* skipped by the filter in the reader */
    int64_t bad_rows;                                                   /* skipped by the reader: on_error="skip" */
    int64_t bytes_out;   /* of the last operator's tables; 0: there is no operator */
    int64_t rows_made;   /* by the last operator that has made any; of a write: that it has taken */
    double done;         /* 0 to 1: an estimate of how much of the work has passed; see run_done_locked() */
    const char *slowest; /* a static text: the operator that was busy longest, or "read"; NULL: none was */
} hr_run_counts;
void hr__run_counts(hr_run *r, hr_run_counts *out);

#endif
