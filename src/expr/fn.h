/* fn.h - what the files of src/expr share and nobody else sees: bound expressions from inside, and what functions need
 * in common.
 *
 * A function file is a table of functions, the types that each accepts (bind), loops over values (eval), and what it
 * makes of ranges of values (range, for push-down). Loops run over all rows, null or not: what lies under a null is
 * some value and the result there is never looked at. Only where a value can be wrong (overflow, a text that is no
 * number) does a second loop look whether a wrong one was valid. */
#ifndef HR_EXPR_FN_H
#define HR_EXPR_FN_H

#include "base/decimal.h"
#include "expr/expr.h"

/* --- the functions, by file */
extern const hr_expr_function hr__fn_compare[], hr__fn_logic[], hr__fn_arith[], hr__fn_set[], hr__fn_cast[],
    hr__fn_image[], hr__fn_math[], hr__fn_choose[], hr__fn_string[], hr__fn_search[], hr__fn_regex[], hr__fn_time[],
    hr__fn_nested[], hr__fn_random[];

/* --- expr.c */
bool hr__literal_equal(const hr_array *a, const hr_array *b); /* one row each */

/* --- bind.c: a bound expression is a list of nodes, each behind those that it needs */
typedef enum hr_node_kind { HR_NODE_COLUMN, HR_NODE_CONSTANT, HR_NODE_CALL } hr_node_kind;
typedef struct hr_node {
    hr_node_kind kind;
    hr_type *type;
    int column;                       /* COLUMN: position in the schema */
    hr_array *value;                  /* CONSTANT: one row */
    bool weak;                        /* CONSTANT: a plain number */
    const hr_expr_function *function; /* CALL */
    hr_bound_call call;               /* of a cast that the binder put in, `expr` is NULL */
    int *inputs;                      /* nodes, call.n_inputs */
    bool used;
    int last_use; /* the last node that needs it; INT32_MAX: it is a result */
} hr_node;
struct hr_bound {
    hr_expr **exprs;
    int n_exprs;
    int *roots; /* node of each expression */
    hr_schema *schema;
    hr_node *nodes;
    int n_nodes;
    int64_t cap_nodes;
    int *columns; /* that are read, ascending */
    int n_columns;
};
/* n rows of the one of `a`. */
hr_status hr__constant_rows(const hr_mem *mem, const hr_array *a, int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;

/* --- eval.c */

/* Where a row stands, for messages: "row 17", with file and fragment where they are known. */
const char *hr__eval_place(const hr_eval *how, int64_t row, char text[96]);
/* The rows that are valid in all of the arrays (of n rows, or constants of one): *out NULL if all are, *all_null if a
 * constant is null. *out is new, its first row is bit 0. */
hr_status hr__eval_validity(const hr_eval *how, hr_array *const *args, int n_args, hr_buffer **out, bool *all_null,
                            hr_error *err) HR_MUST_USE;
/* An array of type with these buffers (validity, values, more), which are taken, even on failure. */
hr_status hr__eval_array(hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *values, hr_buffer *more,
                         hr_array **out, hr_error *err) HR_MUST_USE;
/* A bitmap of n bits (zeroed slack bits), first bit 0. */
hr_status hr__eval_bits(const hr_eval *how, int64_t n, hr_buffer **out, hr_error *err) HR_MUST_USE;
/* 8 rows a byte: bytes[i] is 0 or 1; n is rounded up, so both have room for it. */
void hr__pack_bits(const uint8_t *bytes, int64_t n, uint8_t *bits);
/* The bits of a bitmap from `bit` on, as bytes from bit 0 on: `data` itself if it starts at a byte, else a copy in
 * *copy (hr__free). */
hr_status hr__aligned_bits(const hr_eval *how, const uint8_t *data, int64_t bit, int64_t n, const uint8_t **out,
                           uint8_t **copy, hr_error *err) HR_MUST_USE;
static inline bool hr__is_valid(const hr_buffer *validity, int64_t i)
{
    return !validity || hr__bit(validity->data, i);
}

/* --- types: fn_cast.c */
static inline bool hr__type_is_signed(const hr_type *t)
{
    return t->id == HR_T_INT8 || t->id == HR_T_INT16 || t->id == HR_T_INT32 || t->id == HR_T_INT64;
}
static inline bool hr__type_is_float(const hr_type *t) { return t->id >= HR_T_FLOAT16 && t->id <= HR_T_FLOAT64; }
static inline bool hr__type_is_number(const hr_type *t) { return hr__type_is_int(t) || hr__type_is_float(t); }
/* The type in which two numbers of the call meet, by the rules of NumPy with weak literals; NULL: they are not both
 * numbers, or (uint64 with a signed one) no type holds both. A singleton. */
hr_type *hr__call_common_number(const hr_bound_call *call, int a, int b);
/* The one type that holds the inputs from `first` on, by the same rules (and those of unify.c for what is no number);
 * asks for the casts. *out is new. HR_TYPE if there is none. */
hr_status hr__call_common(hr_bound_call *call, int first, hr_type **out, hr_error *err) HR_MUST_USE;
/* Asks for input i as `type`, unless it is that. */
void hr__call_cast(hr_bound_call *call, int i, hr_type *type);
/* "add: int64 and string: numbers expected": HR_TYPE, naming the function and the types of its inputs. */
hr_status hr__call_type_error(const hr_bound_call *call, const char *expected, hr_error *err);
const hr_expr_function *hr__cast_function(void);
/* Makes a clean call one of `cast`, without an expression. HR_TYPE if there is no such cast. */
hr_status hr__cast_bind_to(hr_bound_call *call, const hr_type *from, hr_type *to, bool safe, hr_error *err) HR_MUST_USE;

/* The error for a value that the cast's type does not hold. */
hr_status hr__cast_refuse(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int64_t row, hr_error *err);
/* A validity that one may write, first bit 0; made of *validity (NULL: all are valid), which it replaces. */
hr_status hr__own_validity(const hr_eval *how, hr_buffer **validity, hr_error *err) HR_MUST_USE;

/* --- casts from and to text: cast_text.c */
bool hr__cast_parses(const hr_type *to);   /* there is a way from text */
bool hr__cast_prints(const hr_type *from); /* and to it */
hr_status hr__cast_from_text(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool safe,
                             hr_buffer **validity, hr_buffer **out, hr_error *err) HR_MUST_USE;
hr_status hr__cast_to_text(const hr_bound_call *call, const hr_eval *how, const hr_array *a, const hr_buffer *validity,
                           hr_buffer **offsets, hr_buffer **bytes, hr_error *err) HR_MUST_USE;

/* --- `+` of texts: fn_string.c, for fn_arith.c */
hr_status hr__concat_bind(hr_bound_call *call, hr_error *err) HR_MUST_USE;
hr_status hr__concat_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                          hr_error *err) HR_MUST_USE;

/* --- arithmetic: fn_arith.c */
typedef enum hr_arith_op {
    HR_ADD,
    HR_SUBTRACT,
    HR_MULTIPLY,
    HR_DIVIDE,
    HR_FLOOR_DIVIDE,
    HR_MODULO,
    HR_N_ARITH_OPS
} hr_arith_op;
/* The bound call: which machine type computes. Of texts there is none. */
typedef struct hr_arith_state {
    hr_type_id machine;
    int up[2], digits_in[2]; /* of decimals: each operand's places more, and digits before */
    int digits;              /* that the result has at most */
    bool narrow;             /* 128 bits hold each of the operands */
} hr_arith_state;
/* "row 3: 99.9 + 0.1 does not fit decimal128(3, 1)"; `at`: the places of the operands in args. */
hr_status hr__arith_overflow(const hr_bound_call *call, hr_arith_op op, const hr_eval *how, hr_array *const *args,
                             const int64_t at[2], int64_t row, hr_error *err);

/* --- decimals: arith_decimal.c, for fn_arith.c and fn_math.c */
hr_status hr__decimal_arith_bind(hr_bound_call *call, hr_arith_op op, hr_error *err) HR_MUST_USE;
/* Into `out`, of the call's type; divisions by 0 become nulls. */
hr_status hr__decimal_arith(const hr_bound_call *call, hr_arith_op op, const hr_eval *how, hr_array *const *args,
                            hr_buffer **validity, uint8_t *out, hr_error *err) HR_MUST_USE;
int hr__digits_of_int(const hr_type *t); /* that the type has at most, as Arrow counts them */
void hr__decimal_negate(const hr_array *a, int64_t n, uint8_t *out);
typedef enum hr_rounding { HR_ROUND_FLOOR, HR_ROUND_CEIL, HR_ROUND_TRUNC, HR_ROUND_NEAREST } hr_rounding;
/* To a multiple of 10^zeros. false: it has more than `digits` then. */
bool hr__decimal_round(hr_rounding how, const uint8_t *in, int bytes, int zeros, int digits, uint8_t *out);

/* --- casts to and from decimals: cast_decimal.c */
/* From integers, floats, decimals and text; from decimals to integers and floats. *out is new. */
hr_status hr__cast_to_decimal(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool safe,
                              hr_buffer **validity, hr_buffer **out, hr_error *err) HR_MUST_USE;
hr_status hr__cast_from_decimal(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool safe,
                                hr_buffer **validity, hr_buffer **out, hr_error *err) HR_MUST_USE;

/* --- comparing: fn_compare.c */
typedef enum hr_compare_op {
    HR_EQUAL,
    HR_NOT_EQUAL,
    HR_LESS,
    HR_LESS_EQUAL,
    HR_GREATER,
    HR_GREATER_EQUAL
} hr_compare_op;
typedef struct hr_comparing hr_comparing; /* how values of two types are compared */
/* How inputs a and b of the call are to be compared: asks for casts. *out is new (hr__free). HR_TYPE if they cannot
 * be. */
hr_status hr__comparing_bind(hr_bound_call *call, int a, int b, hr_comparing **out, hr_error *err) HR_MUST_USE;
/* One value with one value, both valid. */
bool hr__comparing_one(const hr_comparing *c, hr_compare_op op, const hr_array *a, int64_t i, const hr_array *b,
                       int64_t j);

/* --- ranges: prune.c */
/* The value (one row, of the column's type) is in no row of this column: a bloom filter says so. Never of 0.0, which
 * has two forms that are equal and hash differently. */
bool hr__range_absent(const hr_pruner *p, const hr_range *column, const hr_array *value);

#endif
