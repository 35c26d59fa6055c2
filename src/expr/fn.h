/* fn.h - shared by the files of src/expr alone: the inside of bound expressions, and helpers of functions.
 *
 * A function file is a table of functions, the types that each accepts (bind), loops over values (eval), and what it
 * makes of ranges of values (range, for push-down). Loops run over all rows, nulls too: a null has some value under it,
 * and no function reads the result there. If a value can be wrong (overflow, a text that is no number), a second loop
 * checks whether a wrong one was valid. */
#ifndef HR_EXPR_FN_H
#define HR_EXPR_FN_H

#include "base/decimal.h"
#include "expr/expr.h"

/* --- the functions, by file */
extern const hr_expr_function hr__fn_compare[], hr__fn_logic[], hr__fn_arith[], hr__fn_set[], hr__fn_cast[],
    hr__fn_image[], hr__fn_math[], hr__fn_choose[], hr__fn_string[], hr__fn_search[], hr__fn_regex[], hr__fn_time[],
    hr__fn_nested[], hr__fn_random[], hr__fn_features[];

/* --- expr.c */
bool hr__literal_equal(const hr_array *a, const hr_array *b); /* one row each */

/* --- bind.c: a bound expression is a list of nodes, each after those that it needs */
typedef enum hr_node_kind { HR_NODE_COLUMN, HR_NODE_CONSTANT, HR_NODE_CALL } hr_node_kind;
typedef struct hr_node {
    hr_node_kind kind;
    hr_type *type;
    int column;                       /* COLUMN: position in the schema */
    hr_array *value;                  /* CONSTANT: one row */
    bool weak;                        /* CONSTANT: a plain number */
    const hr_expr_function *function; /* CALL */
    hr_bound_call call;               /* `expr` is NULL for a cast that the binder added */
    int *inputs;                      /* nodes, call.n_inputs */
    bool used;
    int last_use; /* the last node that needs this one; INT32_MAX: it is a result */
} hr_node;
struct hr_bound {
    hr_expr **exprs;
    int n_exprs;
    int *roots; /* node of each expression */
    hr_schema *schema;
    hr_node *nodes;
    int n_nodes;
    int64_t cap_nodes;
};
/* The single row of `a`, n times. */
hr_status hr__constant_rows(const hr_mem *mem, const hr_array *a, int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;

/* --- eval.c */

/* The place of a row for error texts: "row 17", with file and fragment if they are known. */
#define HR_PLACE_BYTES 400
const char *hr__eval_place(const hr_eval *how, int64_t row, char text[HR_PLACE_BYTES]);
/* The validity of rows that are valid in all of the arrays (of n rows, or constants of one): *out NULL if all rows are;
 * *all_null if a constant is null. *out is new, its first row is bit 0. */
hr_status hr__eval_validity(const hr_eval *how, hr_array *const *args, int n_args, hr_buffer **out, bool *all_null,
                            hr_error *err) HR_MUST_USE;
/* An array of `type` with these buffers (validity, values, more). Takes them, even on failure. */
hr_status hr__eval_array(hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *values, hr_buffer *more,
                         hr_array **out, hr_error *err) HR_MUST_USE;
/* A bitmap of n bits (zeroed slack bits), first bit 0. */
hr_status hr__eval_bits(const hr_eval *how, int64_t n, hr_buffer **out, hr_error *err) HR_MUST_USE;
/* Packs 8 rows into a byte: bytes[i] is 0 or 1. Rounds n up; both have room for it. */
void hr__pack_bits(const uint8_t *bytes, int64_t n, uint8_t *bits);
/* The bits of a bitmap from `bit` on, starting at bit 0: `data` itself if `bit` starts a byte, else a copy in *copy
 * (hr__free). */
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
/* The common type of two numbers of the call, by NumPy's rules with weak literals; NULL: one is no number, or no type
 * holds both (uint64 with a signed one). A singleton. */
hr_type *hr__call_common_number(const hr_bound_call *call, int a, int b);
hr_type *hr__common_number(hr_type *a, hr_type *b); /* the same, of two types of numbers */
/* The type that holds the inputs from `first` on, by the same rules, and those of unify.c for other types; sets the
 * casts. *out is new. HR_TYPE: no type holds them. */
hr_status hr__call_common(hr_bound_call *call, int first, hr_type **out, hr_error *err) HR_MUST_USE;
/* Sets the cast of input i to `type`, unless it has this type. */
void hr__call_cast(hr_bound_call *call, int i, hr_type *type);
/* "add of int64 and string: expected numbers": HR_TYPE, naming the function and the types of its inputs. */
hr_status hr__call_type_error(const hr_bound_call *call, const char *expected, hr_error *err);
const hr_expr_function *hr__cast_function(void);
/* Turns a clean call into a call of `cast`, without an expression. HR_TYPE: this cast does not exist. */
hr_status hr__cast_bind_to(hr_bound_call *call, const hr_type *from, hr_type *to, bool safe, hr_error *err) HR_MUST_USE;

/* The error for a value that the cast's type does not hold. */
hr_status hr__cast_refuse(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int64_t row, hr_error *err);
/* Replaces *validity (NULL: all rows are valid) by a writable copy, whose first row is bit 0. */
hr_status hr__own_validity(const hr_eval *how, hr_buffer **validity, hr_error *err) HR_MUST_USE;

/* --- casts from and to text: cast_text.c */
bool hr__cast_parses(const hr_type *to);   /* whether a cast from text exists */
bool hr__cast_prints(const hr_type *from); /* and one to text */
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
/* The bound call: the machine type that computes; none for texts. */
typedef struct hr_arith_state {
    hr_type_id machine;
    int up[2], digits_in[2]; /* of decimals: the places to add to each operand, and the digits before */
    int digits;              /* the most digits of the result */
    bool narrow;             /* 128 bits hold each of the operands */
} hr_arith_state;
/* "row 3: 99.9 + 0.1 does not fit decimal128(3, 1)"; `at`: the places of the operands in args. */
hr_status hr__arith_overflow(const hr_bound_call *call, hr_arith_op op, const hr_eval *how, hr_array *const *args,
                             const int64_t at[2], int64_t row, hr_error *err);

/* --- decimals: arith_decimal.c, for fn_arith.c and fn_math.c */
hr_status hr__decimal_arith_bind(hr_bound_call *call, hr_arith_op op, hr_error *err) HR_MUST_USE;
/* Computes into `out`, of the call's type; divisions by 0 become nulls. */
hr_status hr__decimal_arith(const hr_bound_call *call, hr_arith_op op, const hr_eval *how, hr_array *const *args,
                            hr_buffer **validity, uint8_t *out, hr_error *err) HR_MUST_USE;
int hr__digits_of_int(const hr_type *t); /* the most digits of the type, as Arrow counts them */
void hr__decimal_negate(const hr_array *a, int64_t n, uint8_t *out);
typedef enum hr_rounding { HR_ROUND_FLOOR, HR_ROUND_CEIL, HR_ROUND_TRUNC, HR_ROUND_NEAREST } hr_rounding;
/* Rounds to a multiple of 10^zeros. false: the result has more than `digits` digits. */
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
typedef struct hr_comparing hr_comparing; /* how to compare values of two types */
/* Finds how to compare inputs a and b of the call; sets casts. *out is new (hr__free). HR_TYPE: they do not compare. */
hr_status hr__comparing_bind(hr_bound_call *call, int a, int b, hr_comparing **out, hr_error *err) HR_MUST_USE;
/* Compares one value with one value, both valid. */
bool hr__comparing_one(const hr_comparing *c, hr_compare_op op, const hr_array *a, int64_t i, const hr_array *b,
                       int64_t j);

/* --- a constant list of values in a hash table: fn_set.c */
typedef struct hr_set hr_set;
/* Of the list that is input `list` of the call, for values of input 0; sets its cast. Values that its type does not
 * hold, null and NaN stay out. HR_TYPE: the input is no constant list, or its values do not compare with input 0. *out
 * is new. */
hr_status hr__set_new(hr_bound_call *call, int list, hr_set **out, hr_error *err) HR_MUST_USE;
void hr__set_free(hr_set *s); /* NULL is fine */
/* out[i]: the place in the list of row i of `a`; -1: it is not there, or null. */
void hr__set_places(const hr_set *s, const hr_array *a, int64_t *out);
/* Whether row i, which is not null, is the NaN of a float or double. */
static inline bool hr__value_is_nan(const hr_array *a, int64_t i)
{
    if (a->type->id == HR_T_FLOAT64) {
        double d = ((const double *)(const void *)hr__array_values(a))[i];

        return d != d;
    }
    if (a->type->id == HR_T_FLOAT32) {
        float f = ((const float *)(const void *)hr__array_values(a))[i];

        return f != f;
    }
    return false;
}

/* --- ranges: prune.c */
/* Whether a bloom filter shows that no row of this column has the value (one row, of the column's type). Never for 0.0,
 * whose two forms are equal and hash differently. */
bool hr__range_absent(const hr_pruner *p, const hr_range *column, const hr_array *value);

#endif
