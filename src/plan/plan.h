/* plan.h - plans: immutable trees of scans, operators and unions; the rules that rewrite them; their inputs. */
#ifndef HR_PLAN_H
#define HR_PLAN_H

#include "format/scan/materialized.h"
#include "op/operators.h"

/* --- plan.c */
/* Semi-join hint of a scan: a row can be dropped unless its value of this column is key `key` of a row that operator
 * `op`, downstream, already has. */
typedef struct hr_partner {
    const hr_op *op; /* the plan's */
    int key;
    char *column;
} hr_partner;
#define HR_MAX_PARTNERS 8
/* The rules of rules.c; see there. */
typedef enum hr_rule {
    HR_RULE_COLUMNS,
    HR_RULE_NARROW,
    HR_RULE_UNCALLED,
    HR_RULE_ROWS,
    HR_RULE_SKIP,
    HR_RULE_SORTED,
    HR_RULE_FIRST_ROWS,
    HR_RULE_FILTER,
    HR_RULE_SIDES,
    HR_RULE_PARTNERS,
    HR_RULE_FIRST_INPUT,
    HR_RULE_BLOCKS,
    HR_RULE_PERMUTED,
    HR_RULE_IMAGES,
    HR_N_RULES
} hr_rule;
/* A range of a scan's rows, counted in the order in which the epoch reads them. */
typedef struct hr_lane {
    bool on;
    int number;
    int64_t begin, end; /* its rows */
    int64_t from;       /* rows before this one are not needed, but it may give them */
    bool fixed_order;   /* no rule may change the order of the rows */
} hr_lane;
typedef enum hr_plan_kind { HR_PLAN_SCAN, HR_PLAN_OP, HR_PLAN_UNION } hr_plan_kind;
struct hr_plan {
    atomic_int refs;
    hr_plan_kind kind;
    hr_scan *scan;         /* SCAN */
    hr_projection columns; /* SCAN, set by rules: the columns to read (n < 0: all); names owned */
    int64_t limit_rows;    /* SCAN, set by rules: the maximum of rows needed (< 0: all) */
    bool random_blocks;    /* SCAN, set by rules: a random order of files and of their fragments, by block_seed */
    hr_shuffle_seed block_seed;
    hr_lane lane;      /* SCAN: the rows of a lane alone (plan_lanes.c) */
    int64_t skip_rows; /* SCAN, set by rules: rows at the beginning to skip, if their number is known without reading */
    hr_expr *filter; /* SCAN, set by rules: rows for which it is not true can be dropped (NULL: all rows are needed) */
    hr_expr *images; /* SCAN, set by rules: image functions that its readers apply to its image column (NULL: none) */
    hr_partner partners[HR_MAX_PARTNERS]; /* SCAN, set by rules: semi-join hints */
    int n_partners;
    unsigned rules;  /* set by rules: bits 1 << hr_rule of the rules that fired here */
    hr_op *op;       /* OP */
    int first_input; /* set by rules: the input to begin with, of several that are read in turn */
    hr_plan **inputs;
    int n_inputs;
    hr_mutex lock;     /* guards schema and learned */
    hr_schema *schema; /* NULL: not known yet */
    bool schema_late;  /* known only after the first table */
    void *learned;     /* by its last run (exec/run_threads.c): one block; NULL: nothing */
};
hr_status hr__plan_scan(hr_scan *scan, hr_plan **out, hr_error *err) HR_MUST_USE; /* shares */
hr_scan *hr__scan_of(const hr_plan *p); /* of a plan of one input; NULL: it has several */
/* hr_plan_range in blocks (hr__scan_new_range). */
hr_status hr__plan_range(int64_t n, int64_t n_blocks, const char *name, hr_plan **out, hr_error *err) HR_MUST_USE;
/* Checks the operator against the input's schema if that is known without running a function. Shares in; takes op, even
 * on failure. */
hr_status hr__plan_op(hr_plan *in, hr_op *op, hr_plan **out, hr_error *err) HR_MUST_USE;
/* The same for an operator with several inputs. */
hr_status hr__plan_op_n(hr_plan *const *ins, int n, hr_op *op, hr_plan **out, hr_error *err) HR_MUST_USE;
/* Whether each table of a run is a batch whose rows belong together: the plan ends with an operator that makes such
 * batches, and maps that make one table of each. */
bool hr__plan_makes_batches(const hr_plan *p);
/* What the fragments of the materialized rows are: TABLES if the plan's own arguments say which rows are in one table,
 * and no function downstream of them makes others. */
hr_fragments_of hr__plan_fragments_of(const hr_plan *p);
/* The same rows; which of them are in one table of a run depends on the rows and on the plan's arguments alone. */
hr_status hr__plan_fragments(hr_plan *in, hr_plan **out, hr_error *err) HR_MUST_USE;
/* plan_distinct.c: hr_plan_distinct of an input whose n columns the caller knows. */
hr_status hr__plan_distinct(hr_plan *in, const char *const *columns, int n, const char *const *keys, int n_keys,
                            hr_keep keep, hr_plan **out, hr_error *err) HR_MUST_USE;
/* A node like `p` (scan or operator shared) over other inputs (shared); without p's rules. */
hr_status hr__plan_like(hr_plan *p, hr_plan *const *inputs, hr_plan **out, hr_error *err) HR_MUST_USE;
/* The schema if it is known without running functions; opens the first file if necessary. *out NULL: only a run can
 * know it. */
hr_status hr__plan_schema_early(hr_plan *p, hr_schema **out, hr_error *err) HR_MUST_USE;
hr_schema *hr__plan_known_schema(hr_plan *p);         /* new; NULL: not known yet */
void hr__plan_learn_schema(hr_plan *p, hr_schema *s); /* a run saw the first table of `p` */
/* image_rule.c: for a node that computes columns, of whose output `columns` are used (n < 0: all): moves image
 * functions on a scan's images, which nothing else reads, to the reader. *images: these functions, of the scan's
 * column; *op: the rest of the computation. NULL: the rule does not apply; else both are new. */
hr_status hr__image_rule(const hr_plan *p, const char *const *columns, int n, hr_expr **images, hr_op **op,
                         hr_error *err) HR_MUST_USE;
bool hr__plan_has_instances(const hr_plan *p); /* a function of it makes instances for each run */
bool hr__plan_calls(const hr_plan *p);         /* a run calls functions of the user */
bool hr__plan_is_remote(const hr_plan *p);     /* the first file of a source is read over a network */
/* rules.c: whether `name` is one of n names. */
bool hr__has_name(const char *const *names, int n, const char *name);
/* rules.c: applies all rules. *out is new. */
hr_status hr__plan_rewrite(hr_plan *p, hr_plan **out, hr_error *err) HR_MUST_USE;
int64_t hr__plan_guess_rows(const hr_plan *p); /* rules.c: about the number of its rows; -1: unknown */
unsigned hr__plan_rules(const hr_plan *p); /* rules.c; of a rewritten plan: bits 1 << hr_rule of the rules that fired */
/* plan.c: a hash of nodes and arguments, without inputs, as 32 hex digits. */
void hr__plan_digest(const hr_plan *p, char out[33]);

/* --- plan_lanes.c: a plan as L lanes, ranges of its rows, whose batches come in turn. Lane l of T rows has the rows
 * [T * l / L, T * (l + 1) / L). F is the number of full batches that every lane has: the order of all rows is F rounds
 * of one batch of each lane, then what is left of each lane, in the order of the lanes. */
#define HR_MAX_LANES 4096
typedef struct hr_lane_order {
    int n_lanes;        /* L */
    int64_t n_rows;     /* T */
    int64_t batch_rows; /* B */
} hr_lane_order;
/* The operator, or the scan, for which the plan has no lanes; borrowed, NULL: it may have lanes. Without I/O. */
const hr_plan *hr__plan_no_lanes(const hr_plan *p);
void hr__plan_print_no_lanes(const hr_plan *why, hr_text *out); /* of such a node */
/* The number of rows of a plan that may have lanes, from the files' metadata. *out -1: it has no lanes, because only a
 * run knows the number. */
hr_status hr__plan_lane_rows(hr_plan *p, int64_t *out, hr_error *err) HR_MUST_USE;
int64_t hr__lane_turns(const hr_lane_order *o); /* F * L: turn t is batch t / L of lane t % L */
/* The rows of the turns first, first + step, ... of which there are n; then, if `rest`, those after all turns, without
 * the first skip_rest of these. */
typedef struct hr_lane_part {
    int64_t first, step, n;
    bool rest;
    int64_t skip_rest;
} hr_lane_part;
hr_status hr__plan_lanes(hr_plan *p, const hr_lane_order *o, const hr_lane_part *part, hr_plan **out,
                         hr_error *err) HR_MUST_USE;

/* --- plan_cache.c: the key of the rows below cache node p, in a run with this seed. numbers: n more that they depend
 * on. HR_INVALID names a step whose rows no hash describes. */
hr_status hr__plan_cache_key(const hr_plan *p, uint64_t seed, const int64_t *numbers, int n, hr_bits128 *out,
                             hr_error *err) HR_MUST_USE;

/* --- inputs.c: what a plan reads, as a position keeps it */
#define HR_INPUT_GROUPS 32
#define HR_CODE_DIGITS 16
#define HR_MAX_CODES 32
typedef struct hr_inputs {
    int64_t n;             /* files */
    uint64_t names, sizes; /* of all files */
    uint64_t memory;       /* hash of tables in memory; 0: there are none */
    struct {
        uint64_t times, contents; /* times: with sizes. contents 0: not known */
    } groups[HR_INPUT_GROUPS];    /* the first min(n, HR_INPUT_GROUPS), each of about equally many files */
} hr_inputs;
#define HR_OTHER_VALUES "position: the data in memory have other values than when it was saved"
/* contents: also hashes the contents of files and tables; reads them for that unless their hashes are known. */
hr_status hr__inputs_of(hr_plan *p, bool contents, hr_inputs *out, hr_error *err) HR_MUST_USE;
/* Equal in processes that would read the same: nodes and arguments, names and sizes of files, values in memory. */
hr_status hr__plan_data_digest(hr_plan *p, char out[33], hr_error *err) HR_MUST_USE;
/* HR_MISMATCH names the difference. moved: neither names nor times of files count, and contents only if both are
 * known. *later: the values in memory have yet to be hashed, and hr__inputs_check_memory has to follow. later NULL: it
 * hashes them. */
hr_status hr__inputs_check(hr_plan *p, const hr_inputs *saved, bool moved, bool *later, hr_error *err) HR_MUST_USE;
/* Compares all values in memory with hr_inputs.memory. Soon after *stop is true (NULL: never) it returns HR_OK. */
hr_status hr__inputs_check_memory(hr_plan *p, uint64_t saved, const atomic_bool *stop, hr_error *err) HR_MUST_USE;
/* Hashes of the code of the plan's functions, HR_CODE_DIGITS characters each; '-': not known. */
void hr__plan_code(const hr_plan *p, char out[HR_MAX_CODES * HR_CODE_DIGITS + 1]);
/* *differs: names of functions whose code differs, separated by ", "; new (hr__free), NULL: none. */
hr_status hr__plan_code_check(const hr_plan *p, const char *saved, char **differs, hr_error *err) HR_MUST_USE;

#endif
