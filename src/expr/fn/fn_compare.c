/* fn_compare.c - the comparisons == != < <= > >= of every type that has an order.
 *
 * The binder decides once how two types compare (hr_comparing). Then one loop over values of one machine type, which
 * the compiler vectorises, writes bytes of 0 and 1, and a second one packs them into bits. Pairs that no machine type
 * holds compare exactly: int64 with uint64, times of different units, decimals of different scales. An integer and a
 * float compare as doubles. Floats follow IEEE: NaN is unequal to everything and neither less nor greater. Strings and
 * binary compare by bytes.
 *
 * Tests: test_prune.c, test_eval.c. */
#include "expr/fn.h"

#include <math.h>

enum { BLOCK = 2048 };

/* suffix and C type of the machine types */
#define NUMBERS(X)                                                                                                     \
    X(i8, int8_t)                                                                                                      \
    X(u8, uint8_t)                                                                                                     \
    X(i16, int16_t)                                                                                                    \
    X(u16, uint16_t)                                                                                                   \
    X(i32, int32_t)                                                                                                    \
    X(u32, uint32_t)                                                                                                   \
    X(i64, int64_t)                                                                                                    \
    X(u64, uint64_t)                                                                                                   \
    X(f32, float)                                                                                                      \
    X(f64, double)

typedef enum how_kind {
#define HR_X(name, T) HOW_##name,
    NUMBERS(HR_X)
#undef HR_X
        HOW_NULL, /* one side is always null */
    HOW_BOOL,
    HOW_BYTES,
    HOW_MIXED,   /* int64 with uint64 */
    HOW_SCALED,  /* integers of different units */
    HOW_DECIMAL, /* at least one decimal; the other may be an integer */
} how_kind;

struct hr_comparing {
    how_kind how;
    int64_t scale_a, scale_b;   /* SCALED: factors to the finer unit */
    int32_t digits_a, digits_b; /* DECIMAL: powers of ten to the greater scale */
};

/* ---------------------------------------------------------------------------------------------------------- kernels */

typedef void number_fn(const void *a, const void *b, int64_t n, uint8_t *out);

#define HR_LOOP(name, T, what, test)                                                                                   \
    static void name##_##what(const void *pa, const void *pb, int64_t n, uint8_t *out)                                 \
    {                                                                                                                  \
        const T *a = pa, *b = pb;                                                                                      \
        const T c = *b;                                                                                                \
                                                                                                                       \
        (void)c;                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = (uint8_t)(test);                                                                                  \
    }
#define HR_X(name, T)                                                                                                  \
    HR_LOOP(name, T, eq, a[i] == b[i])                                                                                 \
    HR_LOOP(name, T, ne, a[i] != b[i])                                                                                 \
    HR_LOOP(name, T, lt, a[i] < b[i])                                                                                  \
    HR_LOOP(name, T, le, a[i] <= b[i])                                                                                 \
    HR_LOOP(name, T, eq_c, a[i] == c)                                                                                  \
    HR_LOOP(name, T, ne_c, a[i] != c)                                                                                  \
    HR_LOOP(name, T, lt_c, a[i] < c)                                                                                   \
    HR_LOOP(name, T, le_c, a[i] <= c)                                                                                  \
    HR_LOOP(name, T, gt_c, a[i] > c)                                                                                   \
    HR_LOOP(name, T, ge_c, a[i] >= c)
NUMBERS(HR_X)
#undef HR_X

/* Loops by comparison and operator: two arrays (> and >= swap the sides), then an array and a constant. */
static const struct {
    number_fn *arrays[4], *constant[6];
} number_fns[] = {
#define HR_X(name, T)                                                                                                  \
    [HOW_##name] = { { name##_eq, name##_ne, name##_lt, name##_le },                                                   \
                     { name##_eq_c, name##_ne_c, name##_lt_c, name##_le_c, name##_gt_c, name##_ge_c } },
    NUMBERS(HR_X)
#undef HR_X
};

static int number_bytes(how_kind how)
{
    switch (how) {
#define HR_X(name, T)                                                                                                  \
    case HOW_##name: return sizeof(T);
        NUMBERS(HR_X)
#undef HR_X
    default: return 0;
    }
}

static bool holds(hr_compare_op op, int order)
{
    switch (op) {
    case HR_EQUAL: return order == 0;
    case HR_NOT_EQUAL: return order != 0;
    case HR_LESS: return order < 0;
    case HR_LESS_EQUAL: return order <= 0;
    case HR_GREATER: return order > 0;
    default: return order >= 0;
    }
}

static hr_compare_op swapped(hr_compare_op op)
{
    static const hr_compare_op other[] = {
        HR_EQUAL, HR_NOT_EQUAL, HR_GREATER, HR_GREATER_EQUAL, HR_LESS, HR_LESS_EQUAL,
    };

    return other[op];
}

/* --- bytes */

static int bytes_order(const uint8_t *a, int64_t n, const uint8_t *b, int64_t m)
{
    int64_t least = HR_MIN(n, m);
    int order = least ? memcmp(a, b, (size_t)least) : 0;

    return order ? order : (n > m) - (n < m);
}

/* --- integers that no machine type holds together */

static int64_t int_at(const hr_array *a, int64_t i)
{
    int32_t v32;
    int64_t v64;

    if (hr__type_bytes(a->type) == 4) {
        memcpy(&v32, hr__array_values(a) + i * 4, 4);
        return v32;
    }
    memcpy(&v64, hr__array_values(a) + i * 8, 8);
    return v64;
}

static int mixed_order(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    int64_t x = int_at(a, i), y = int_at(b, j);

    if (hr__type_is_unsigned(a->type))
        return y < 0 || (uint64_t)x > (uint64_t)y ? 1 : -((uint64_t)x < (uint64_t)y);
    return x < 0 || (uint64_t)x<(uint64_t)y ? -1 : (uint64_t)x>(uint64_t) y;
}

__extension__ typedef __int128 int128;

static int scaled_order(const hr_comparing *c, const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    int128 x = (int128)int_at(a, i) * c->scale_a, y = (int128)int_at(b, j) * c->scale_b;

    return (x > y) - (x < y);
}

/* --- decimals: sign and magnitude of 256 bits and one more word, which shows an overflow of scaling by 10^76 */

typedef struct wide {
    int sign;         /* -1, 0, 1 */
    uint32_t word[9]; /* magnitude, least first; the last is not 0 after an overflow */
} wide;

static wide wide_at(const hr_array *a, int64_t i)
{
    int n = hr__type_bytes(a->type);
    const uint8_t *p = hr__array_values(a) + i * n;
    bool negative = !hr__type_is_unsigned(a->type) && p[n - 1] & 0x80;
    uint64_t carry = negative;
    wide w = { 0 };

    memset(w.word, negative ? 0xFF : 0, 32);
    memcpy(w.word, p, (size_t)n);
    for (int k = 0; k < 8; k++) { /* two's complement to magnitude */
        uint64_t v = (negative ? (uint32_t)~w.word[k] : w.word[k]) + carry;

        w.word[k] = (uint32_t)v;
        carry = negative ? v >> 32 : 0;
        w.sign |= w.word[k] != 0;
    }
    if (negative)
        w.sign = -1;
    return w;
}

static void wide_scale(wide *w, int32_t digits)
{
    for (; digits > 0 && !w->word[8]; digits--) {
        uint64_t carry = 0;

        for (int k = 0; k < 9; k++) {
            uint64_t v = (uint64_t)w->word[k] * 10 + carry;

            w->word[k] = (uint32_t)v;
            carry = v >> 32;
        }
    }
}

static int decimal_order(const hr_comparing *c, const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    wide x = wide_at(a, i), y = wide_at(b, j);

    if (x.sign != y.sign)
        return x.sign < y.sign ? -1 : 1;
    wide_scale(&x, c->digits_a);
    wide_scale(&y,
               c->digits_b); /* one of the two factors is 0: the other side may stop early, when it exceeds 256 bits */
    for (int k = 8; k >= 0; k--)
        if (x.word[k] != y.word[k])
            return (x.word[k] < y.word[k] ? -1 : 1) * x.sign;
    return 0;
}

/* --- any of these */

static int order_of(const hr_comparing *c, const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    const uint8_t *x, *y;
    int64_t n, m;

    switch (c->how) {
    case HOW_BOOL: {
        int p = hr__bit(a->buffers[1]->data, a->offset + i), q = hr__bit(b->buffers[1]->data, b->offset + j);

        return p - q;
    }
    case HOW_BYTES:
        x = hr__array_bytes(a, i, &n);
        y = hr__array_bytes(b, j, &m);
        return bytes_order(x, n, y, m);
    case HOW_MIXED: return mixed_order(a, i, b, j);
    case HOW_SCALED: return scaled_order(c, a, i, b, j);
    case HOW_DECIMAL: return decimal_order(c, a, i, b, j);
    default: return 0;
    }
}

bool hr__comparing_one(const hr_comparing *c, hr_compare_op op, const hr_array *a, int64_t i, const hr_array *b,
                       int64_t j)
{
    int bytes = number_bytes(c->how);
    uint8_t found = 0;

    if (!bytes)
        return holds(op, order_of(c, a, i, b, j));
    number_fns[c->how].constant[op](hr__array_values(a) + i * bytes, hr__array_values(b) + j * bytes, 1, &found);
    return found;
}

/* ----------------------------------------------------------------------------------------------------- whole arrays */

static void numbers_run(how_kind how, hr_compare_op op, const hr_array *a, const hr_array *b, bool constant, int64_t n,
                        uint8_t *bits)
{
    const int bytes = number_bytes(how);
    const uint8_t *x = hr__array_values(a), *y = hr__array_values(b);
    uint8_t block[BLOCK];

    if (!constant && op >= HR_GREATER) {
        const uint8_t *z = x;

        x = y;
        y = z;
        op = swapped(op);
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = HR_MIN(BLOCK, n - i);

        if (constant)
            number_fns[how].constant[op](x + i * bytes, y, m, block);
        else
            number_fns[how].arrays[op](x + i * bytes, y + i * bytes, m, block);
        hr__pack_bits(block, m, bits + i / 8);
    }
}

/* The other types: strings by their own loop. */
static void others_run(const hr_comparing *c, hr_compare_op op, const hr_array *a, const hr_array *b, bool constant,
                       int64_t n, uint8_t *bits)
{
    uint8_t block[BLOCK];

    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = HR_MIN(BLOCK, n - i);

        for (int64_t k = 0; k < m; k++)
            block[k] = holds(op, order_of(c, a, i + k, b, constant ? 0 : i + k));
        hr__pack_bits(block, m, bits + i / 8);
    }
}

static inline bool same_words(const uint8_t *p, const uint8_t *q, int64_t n, size_t width)
{
    uint64_t a[2] = { 0 }, b[2] = { 0 };

    memcpy(&a[0], p, width);
    memcpy(&b[0], q, width);
    memcpy(&a[1], p + n - width, width); /* overlaps the first word if n is less than two words */
    memcpy(&b[1], q + n - width, width);
    return a[0] == b[0] && a[1] == b[1];
}

/* Compares n > 0 bytes: most constant texts are short. */
static inline bool same_bytes(const uint8_t *p, const uint8_t *q, int64_t n)
{
    if (n > 16)
        return !memcmp(p, q, (size_t)n);
    if (n >= 8)
        return same_words(p, q, n, 8);
    return n >= 4 ? same_words(p, q, n, 4) : n >= 2 ? same_words(p, q, n, 2) : *p == *q;
}

/* Equal strings have equal lengths: the length and the first bytes decide most rows. */
#define HR_X(name, T)                                                                                                  \
    static void equals_text_##name(const hr_array *a, const uint8_t *text, int64_t length, bool want, int64_t n,       \
                                   uint8_t *bits)                                                                      \
    {                                                                                                                  \
        const T *offsets = (const T *)(const void *)a->buffers[1]->data + a->offset;                                   \
        const uint8_t *bytes = a->buffers[2] ? a->buffers[2]->data : NULL;                                             \
        uint8_t block[BLOCK];                                                                                          \
                                                                                                                       \
        for (int64_t i = 0; i < n; i += BLOCK) {                                                                       \
            int64_t m = HR_MIN(BLOCK, n - i);                                                                          \
                                                                                                                       \
            for (int64_t k = 0; k < m; k++)                                                                            \
                block[k] = (uint8_t)(offsets[i + k + 1] - offsets[i + k] == length);                                   \
            for (int64_t k = 0; k < m; k++)                                                                            \
                if (block[k] && length)                                                                                \
                    block[k] = (uint8_t)same_bytes(bytes + offsets[i + k], text, length);                              \
            for (int64_t k = 0; k < m; k++)                                                                            \
                block[k] ^= !want;                                                                                     \
            hr__pack_bits(block, m, bits + i / 8);                                                                     \
        }                                                                                                              \
    }
HR_X(32, int32_t)
HR_X(64, int64_t)
#undef HR_X

static bool equals_text(hr_compare_op op, const hr_array *a, const hr_array *b, int64_t n, uint8_t *bits)
{
    const uint8_t *text;
    int64_t length;

    if (op > HR_NOT_EQUAL || !hr__type_is_bytes(a->type))
        return false;
    text = hr__array_bytes(b, 0, &length);
    if (hr__type_offset_bytes(a->type) == 4)
        equals_text_32(a, text, length, op == HR_EQUAL, n, bits);
    else
        equals_text_64(a, text, length, op == HR_EQUAL, n, bits);
    return true;
}

static hr_status compare_eval(hr_compare_op op, const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                              hr_array **out, hr_error *err)
{
    const hr_comparing *c = call->state;
    const hr_array *a = args[0], *b = args[1];
    hr_buffer *validity = NULL, *bits = NULL;
    hr_status st = HR_OK;
    bool all_null, constant = call->constants[1];

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 2, &validity, &all_null, err));
    if (all_null || c->how == HOW_NULL) {
        hr__buffer_unref(validity);
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    }
    HR_GO(hr__eval_bits(how, how->n_rows, &bits, err));
    if (!constant && call->constants[0]) {
        a = args[1];
        b = args[0];
        op = swapped(op);
        constant = true;
    }
    if (how->n_rows && number_bytes(c->how))
        numbers_run(c->how, op, a, b, constant, how->n_rows, bits->data);
    else if (how->n_rows && !(c->how == HOW_BYTES && constant && equals_text(op, a, b, how->n_rows, bits->data))) {
        hr_comparing mine = *c;

        if (a != args[0]) { /* the sides are swapped */
            mine.scale_a = c->scale_b;
            mine.scale_b = c->scale_a;
            mine.digits_a = c->digits_b;
            mine.digits_b = c->digits_a;
        }
        others_run(&mine, op, a, b, constant, how->n_rows, bits->data);
    }
    st = hr__eval_array(call->type, how->n_rows, validity, bits, NULL, out, err);
    validity = bits = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(bits);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- binding */

static how_kind how_of_number(hr_type_id id)
{
    static const how_kind hows[] = {
        [HR_T_INT8] = HOW_i8,     [HR_T_UINT8] = HOW_u8,    [HR_T_INT16] = HOW_i16, [HR_T_UINT16] = HOW_u16,
        [HR_T_INT32] = HOW_i32,   [HR_T_UINT32] = HOW_u32,  [HR_T_INT64] = HOW_i64, [HR_T_UINT64] = HOW_u64,
        [HR_T_FLOAT32] = HOW_f32, [HR_T_FLOAT64] = HOW_f64,
    };

    return hows[id];
}

static void bind_numbers(hr_bound_call *call, int a, int b, hr_comparing *c)
{
    hr_type *common = hr__call_common_number(call, a, b);

    if (common && common->id == HR_T_FLOAT16)
        common = hr__type_simple(HR_T_FLOAT32);
    if (common) {
        hr__call_cast(call, a, common);
        hr__call_cast(call, b, common);
        c->how = how_of_number(common->id);
        return;
    }
    hr__call_cast(call, hr__type_is_signed(call->input_types[a]) ? a : b, hr__type_simple(HR_T_INT64));
    c->how = HOW_MIXED;
}

static bool is_text_or_binary(const hr_type *t) { return hr__type_is_bytes(t) || t->id == HR_T_FIXED_BINARY; }

/* The nanoseconds of one tick; 0: not a time. `family`: only times of one family compare. */
static int64_t tick_of(const hr_type *t, int *family)
{
    static const int64_t ticks[] = { 1000000000, 1000000, 1000, 1 };

    *family = t->id == HR_T_DURATION ? 3 : t->id == HR_T_TIME32 || t->id == HR_T_TIME64 ? 2 : 1;
    switch (t->id) {
    case HR_T_DATE32: return INT64_C(86400) * 1000000000;
    case HR_T_DATE64: return 1000000;
    case HR_T_TIME32:
    case HR_T_TIME64:
    case HR_T_DURATION: return ticks[t->unit];
    case HR_T_TIMESTAMP: *family = t->zone ? 4 : 1; return ticks[t->unit];
    default: return 0;
    }
}

static bool bind_times(const hr_type *a, const hr_type *b, hr_comparing *c)
{
    int family_a, family_b;
    int64_t tick_a = tick_of(a, &family_a), tick_b = tick_of(b, &family_b), finer = HR_MIN(tick_a, tick_b);

    if (!tick_a || !tick_b || family_a != family_b)
        return false;
    c->how = HOW_SCALED;
    c->scale_a = tick_a / finer;
    c->scale_b = tick_b / finer;
    if (tick_a == tick_b && hr__type_bytes(a) == hr__type_bytes(b))
        c->how = hr__type_bytes(a) == 4 ? HOW_i32 : HOW_i64;
    return true;
}

static bool bind_decimals(hr_bound_call *call, int a, int b, hr_comparing *c)
{
    const hr_type *x = call->input_types[a], *y = call->input_types[b];
    int32_t scale_a = hr__type_is_decimal(x) ? x->scale : 0, scale_b = hr__type_is_decimal(y) ? y->scale : 0;

    if (hr__type_is_float(x) || hr__type_is_float(y)) {
        hr__call_cast(call, a, hr__type_simple(HR_T_FLOAT64));
        hr__call_cast(call, b, hr__type_simple(HR_T_FLOAT64));
        c->how = HOW_f64;
        return true;
    }
    if ((!hr__type_is_decimal(x) && !hr__type_is_int(x)) || (!hr__type_is_decimal(y) && !hr__type_is_int(y)))
        return false;
    c->how = HOW_DECIMAL;
    c->digits_a = HR_MAX(0, scale_b - scale_a);
    c->digits_b = HR_MAX(0, scale_a - scale_b);
    return true;
}

/* A constant text beside a time is parsed: "2026-11-21" is that day. */
static bool is_text_of_time(const hr_bound_call *call, int text, int time)
{
    int family;
    const hr_type *t = call->input_types[text];

    return call->constants[text] && (t->id == HR_T_STRING || t->id == HR_T_LARGE_STRING) &&
           tick_of(call->input_types[time], &family) && family != 3;
}

static hr_status bind_text_of_time(hr_bound_call *call, int a, int b, hr_comparing *c)
{
    bool first = is_text_of_time(call, a, b);
    hr_type *time = call->input_types[first ? b : a];

    hr__call_cast(call, first ? a : b, time);
    bind_times(time, time, c);
    return HR_OK;
}

static hr_status bind_how(hr_bound_call *call, int a, int b, hr_comparing *c, hr_error *err)
{
    const hr_type *x = call->input_types[a], *y = call->input_types[b];

    if (x->id == HR_T_NULL || y->id == HR_T_NULL)
        c->how = HOW_NULL;
    else if (hr__type_is_number(x) && hr__type_is_number(y))
        bind_numbers(call, a, b, c);
    else if (x->id == HR_T_BOOL && y->id == HR_T_BOOL)
        c->how = HOW_BOOL;
    else if (is_text_or_binary(x) && is_text_or_binary(y))
        c->how = HOW_BYTES;
    else if ((hr__type_is_decimal(x) || hr__type_is_decimal(y)) && bind_decimals(call, a, b, c))
        return HR_OK;
    else if (is_text_of_time(call, a, b) || is_text_of_time(call, b, a))
        return bind_text_of_time(call, a, b, c);
    else if (!bind_times(x, y, c))
        return hr__call_type_error(call, "these types do not compare; a cast may help", err);
    return HR_OK;
}

hr_status hr__comparing_bind(hr_bound_call *call, int a, int b, hr_comparing **out, hr_error *err)
{
    hr_comparing *c = hr__zalloc(NULL, sizeof *c);
    hr_status st;

    *out = NULL;
    if (!c)
        return hr__error_memory(err, "comparison", sizeof *c);
    if ((st = bind_how(call, a, b, c, err)))
        hr__free(c);
    else
        *out = c;
    return st;
}

static bool is_null_word(const hr_expr *e) { return e->kind == HR_EXPR_LITERAL && e->value->type->id == HR_T_NULL; }

/* People who write x == None mean is_null. Without an error they would get no rows. */
static hr_status refuse_null(const hr_expr *e, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_expr_print(e, &text, err));
    hr_error_set(err, HR_INVALID, "%s is null in every row: is_null(x) and is_not_null(x) test for null", text);
    hr__free(text);
    return HR_INVALID;
}

static hr_status compare_bind(hr_bound_call *call, hr_error *err)
{
    hr_comparing *c = NULL;

    if (is_null_word(call->inputs[0]) || is_null_word(call->inputs[1]))
        return refuse_null(call->expr, err);
    HR_TRY(hr__comparing_bind(call, 0, 1, &c, err));
    call->state = c;
    call->type = hr__type_simple(HR_T_BOOL);
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- ranges */

/* Whether `op` certainly holds between the two ends; false if one is unknown. */
static bool surely(const hr_comparing *c, hr_compare_op op, const hr_array *a, const hr_array *b)
{
    return a && b && hr__comparing_one(c, op, a, 0, b, 0);
}

static unsigned can_be(const hr_comparing *c, hr_compare_op op, const hr_range *a, const hr_range *b)
{
    unsigned can = HR_CAN_TRUE | HR_CAN_FALSE;

    switch (op) {
    case HR_EQUAL:
    case HR_NOT_EQUAL:
        if (surely(c, HR_LESS, a->most, b->least) || surely(c, HR_GREATER, a->least, b->most))
            can = HR_CAN_FALSE;
        else if (surely(c, HR_EQUAL, a->least, b->most) && surely(c, HR_EQUAL, a->most, b->least))
            can = HR_CAN_TRUE;
        return op == HR_EQUAL || can == 5 ? can : can ^ 5;
    case HR_LESS:
        return surely(c, HR_LESS, a->most, b->least)            ? HR_CAN_TRUE
               : surely(c, HR_GREATER_EQUAL, a->least, b->most) ? HR_CAN_FALSE
                                                                : can;
    case HR_LESS_EQUAL:
        return surely(c, HR_LESS_EQUAL, a->most, b->least) ? HR_CAN_TRUE
               : surely(c, HR_GREATER, a->least, b->most)  ? HR_CAN_FALSE
                                                           : can;
    case HR_GREATER:
        return surely(c, HR_GREATER, a->least, b->most)      ? HR_CAN_TRUE
               : surely(c, HR_LESS_EQUAL, a->most, b->least) ? HR_CAN_FALSE
                                                             : can;
    default:
        return surely(c, HR_GREATER_EQUAL, a->least, b->most) ? HR_CAN_TRUE
               : surely(c, HR_LESS, a->most, b->least)        ? HR_CAN_FALSE
                                                              : can;
    }
}

static bool is_absent(const hr_pruner *p, const hr_bound_call *call, const hr_range *in, int column)
{
    const hr_array *constant = call->constants[1 - column];

    return constant && hr__type_equal(call->input_types[0], call->input_types[1]) &&
           hr__range_absent(p, &in[column], constant);
}

static void compare_range(hr_compare_op op, const hr_bound_call *call, const hr_pruner *p, const hr_range *in,
                          hr_range *out)
{
    const hr_comparing *c = call->state;
    const hr_range *a = &in[0], *b = &in[1];
    unsigned can = 0;

    if (c->how == HOW_NULL) {
        out->truth = HR_CAN_NULL;
        return;
    }
    if (a->can_value && b->can_value)
        can |= can_be(c, op, a, b);
    if (op == HR_EQUAL && (is_absent(p, call, in, 0) || is_absent(p, call, in, 1)))
        can = can ? HR_CAN_FALSE : 0;
    if ((a->can_nan && (b->can_nan || b->can_value)) || (b->can_nan && a->can_value))
        can |= op == HR_NOT_EQUAL ? HR_CAN_TRUE : HR_CAN_FALSE;
    if (a->can_null || b->can_null)
        can |= HR_CAN_NULL;
    out->truth = can;
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_COMPARE(name, op)                                                                                           \
    static hr_status name##_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out, \
                                 hr_error *err)                                                                        \
    {                                                                                                                  \
        return compare_eval(op, call, how, args, out, err);                                                            \
    }                                                                                                                  \
    static void name##_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)         \
    {                                                                                                                  \
        compare_range(op, call, p, in, out);                                                                           \
    }
HR_COMPARE(equal, HR_EQUAL)
HR_COMPARE(not_equal, HR_NOT_EQUAL)
HR_COMPARE(less, HR_LESS)
HR_COMPARE(less_equal, HR_LESS_EQUAL)
HR_COMPARE(greater, HR_GREATER)
HR_COMPARE(greater_equal, HR_GREATER_EQUAL)

#define HR_ENTRY(fn, sign, text)                                                                                       \
    {                                                                                                                  \
        .name = #fn,                                                                                                   \
        .symbol = sign,                                                                                                \
        .doc = text,                                                                                                   \
        .min_args = 2,                                                                                                 \
        .max_args = 2,                                                                                                 \
        .takes_constants = true,                                                                                       \
        .bind = compare_bind,                                                                                          \
        .eval = fn##_eval,                                                                                             \
        .range = fn##_range,                                                                                           \
    }

const hr_expr_function hr__fn_compare[] = {
    HR_ENTRY(equal, "==", "the values are equal"),
    HR_ENTRY(not_equal, "!=", "the values differ"),
    HR_ENTRY(less, "<", "the first is less"),
    HR_ENTRY(less_equal, "<=", "the first is less or equal"),
    HR_ENTRY(greater, ">", "the first is greater"),
    HR_ENTRY(greater_equal, ">=", "the first is greater or equal"),
    { 0 },
};
