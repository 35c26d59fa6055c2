/* fn_set.c - is_in and not_in: whether a value is one of many; and for other functions its place among them.
 *
 * The values are a constant list. The binder casts them to the column's type, drops those that the type cannot hold (no
 * row can have them), and puts the rest into a hash table with open addressing; a short list is searched in turn. As in
 * Arrow (and unlike SQL) the result is never null: a null is in the list if the list has a null. NaN is in no list.
 *
 * Tests: test_prune.c, test_eval.c. */
#include "expr/fn.h"

#include <inttypes.h>
#include <math.h>

enum { FEW = 8, BLOCK = 1024, MOST_TRIED = 4096 /* most values that push-down compares with a range of rows */ };

struct hr_set {
    hr_array *values; /* distinct values, without null and NaN; of the column's type */
    bool has_null;
    hr_comparing *comparing; /* of the type with itself; for ranges */
    int32_t *slots;          /* indexes in values, -1: free; n_slots is a power of two */
    uint32_t n_slots;
    uint64_t *keys;  /* of fixed width up to 8 bytes: the values as numbers; NULL: by bytes */
    int64_t *places; /* of each value in the list as it was given */
};

void hr__set_free(hr_set *s)
{
    if (!s)
        return;
    hr__array_unref(s->values);
    hr__free(s->comparing);
    hr__free(s->slots);
    hr__free(s->keys);
    hr__free(s->places);
    hr__free(s);
}

static void state_free(void *state) { hr__set_free(state); }

/* ------------------------------------------------------------------------------------------------------------- keys */

/* n values as numbers that are equal where the values are; 0.0 and -0.0 are. */
static void load_keys(const hr_array *a, int64_t begin, int64_t n, uint64_t *out)
{
    const uint8_t *p = hr__array_values(a);

#define HR_LOAD(T, value)                                                                                              \
    {                                                                                                                  \
        const T *v = (const T *)(const void *)p + begin;                                                               \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = (uint64_t)(value);                                                                                \
    }                                                                                                                  \
    break
    if (a->type->id == HR_T_BOOL) {
        for (int64_t i = 0; i < n; i++)
            out[i] = hr__bit(a->buffers[1]->data, a->offset + begin + i);
        return;
    }
    if (a->type->id == HR_T_FLOAT32 || a->type->id == HR_T_FLOAT64) {
        for (int64_t i = 0; i < n; i++) {
            double d;
            float f;

            if (a->type->id == HR_T_FLOAT32) {
                memcpy(&f, p + (begin + i) * 4, 4);
                d = (double)f;
            } else {
                memcpy(&d, p + (begin + i) * 8, 8);
            }
            d += 0.0;
            memcpy(&out[i], &d, 8);
        }
        return;
    }
    switch (hr__type_bytes(a->type)) {
    case 1: HR_LOAD(uint8_t, v[i]);
    case 2: HR_LOAD(uint16_t, v[i]);
    case 4: HR_LOAD(uint32_t, v[i]);
    default: HR_LOAD(uint64_t, v[i]);
    }
#undef HR_LOAD
}

static bool has_number_keys(const hr_type *t)
{
    return t->id == HR_T_BOOL || (hr__type_bytes(t) > 0 && hr__type_bytes(t) <= 8 && t->id != HR_T_FIXED_BINARY);
}

static uint32_t hash_number(uint64_t key)
{
    key ^= key >> 32;
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(key >> 32);
}

/* Bytes of a string, a decimal or a fixed binary. */
static const uint8_t *bytes_at(const hr_array *a, int64_t i, int64_t *n)
{
    if (hr__type_is_decimal(a->type)) {
        *n = hr__type_bytes(a->type);
        return hr__array_values(a) + i * *n;
    }
    return hr__array_bytes(a, i, n);
}

static uint32_t hash_bytes(const uint8_t *p, int64_t n)
{
    uint64_t h = (uint64_t)n * UINT64_C(0x9E3779B97F4A7C15), v;

    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        h = (h ^ v) * UINT64_C(0xBF58476D1CE4E5B9);
        h ^= h >> 29;
    }
    v = 0;
    if (n)
        memcpy(&v, p, (size_t)n);
    h = (h ^ v) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(h >> 32);
}

/* -------------------------------------------------------------------------------------------------------- the table */

/* The slot of value i of a: its own, or the free one where it belongs. */
static uint32_t slot_of_bytes(const hr_set *s, const uint8_t *p, int64_t n)
{
    uint32_t at = hash_bytes(p, n) & (s->n_slots - 1);

    for (;; at = (at + 1) & (s->n_slots - 1)) {
        const uint8_t *q;
        int64_t m;

        if (s->slots[at] < 0)
            return at;
        q = bytes_at(s->values, s->slots[at], &m);
        if (n == m && (n == 0 || !memcmp(p, q, (size_t)n)))
            return at;
    }
}

static uint32_t slot_of_number(const hr_set *s, uint64_t key)
{
    uint32_t at = hash_number(key) & (s->n_slots - 1);

    while (s->slots[at] >= 0 && s->keys[s->slots[at]] != key)
        at = (at + 1) & (s->n_slots - 1);
    return at;
}

static hr_status fill_table(hr_set *s, hr_error *err)
{
    int64_t n = s->values->length;

    if (n > INT32_MAX / 4)
        return hr_error_set(err, HR_UNSUPPORTED, "is_in: a list of %" PRId64 " values", n);
    for (s->n_slots = 16; s->n_slots < 2 * (uint64_t)n;)
        s->n_slots *= 2;
    if (!(s->slots = hr__alloc(NULL, s->n_slots * sizeof *s->slots)))
        return hr__error_memory(err, "is_in", s->n_slots * (int64_t)sizeof *s->slots);
    memset(s->slots, 0xFF, s->n_slots * sizeof *s->slots);
    if (has_number_keys(s->values->type)) {
        if (!(s->keys = hr__alloc(NULL, ((size_t)n + 1) * sizeof *s->keys)))
            return hr__error_memory(err, "is_in", n * (int64_t)sizeof *s->keys);
        load_keys(s->values, 0, n, s->keys);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes = 0;
        const uint8_t *p = s->keys ? NULL : bytes_at(s->values, i, &bytes);

        s->slots[s->keys ? slot_of_number(s, s->keys[i]) : slot_of_bytes(s, p, bytes)] = (int32_t)i;
    }
    return HR_OK;
}

static void find_numbers(const hr_set *s, const hr_array *a, int64_t begin, int64_t n, uint8_t *found)
{
    uint64_t keys[BLOCK];

    load_keys(a, begin, n, keys);
    if (s->values->length <= FEW) {
        memset(found, 0, (size_t)n);
        for (int64_t k = 0; k < s->values->length; k++)
            for (int64_t i = 0; i < n; i++)
                found[i] |= keys[i] == s->keys[k];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        found[i] = s->slots[slot_of_number(s, keys[i])] >= 0;
}

static void find_bytes(const hr_set *s, const hr_array *a, int64_t begin, int64_t n, uint8_t *found)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t length;
        const uint8_t *p;

        found[i] = 0;
        if (hr__array_is_null(a, begin + i)) /* may have any offsets */
            continue;
        p = bytes_at(a, begin + i, &length);
        found[i] = s->slots[slot_of_bytes(s, p, length)] >= 0;
    }
}

static void places_of_numbers(const hr_set *s, const hr_array *a, int64_t begin, int64_t n, int64_t *out)
{
    uint64_t keys[BLOCK];

    load_keys(a, begin, n, keys);
    if (s->values->length <= FEW) {
        for (int64_t i = 0; i < n; i++)
            out[i] = -1;
        for (int64_t k = 0; k < s->values->length; k++)
            for (int64_t i = 0; i < n; i++)
                out[i] = keys[i] == s->keys[k] ? s->places[k] : out[i];
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t found = s->slots[slot_of_number(s, keys[i])];

        out[i] = found < 0 ? -1 : s->places[found];
    }
}

static void places_of_bytes(const hr_set *s, const hr_array *a, int64_t begin, int64_t n, int64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t found = -1;
        int64_t length;
        const uint8_t *p;

        if (!hr__array_is_null(a, begin + i)) { /* a null may have any offsets */
            p = bytes_at(a, begin + i, &length);
            found = s->slots[slot_of_bytes(s, p, length)];
        }
        out[i] = found < 0 ? -1 : s->places[found];
    }
}

void hr__set_places(const hr_set *s, const hr_array *a, int64_t *out)
{
    bool some_null = a->type->id != HR_T_NULL && a->buffers[0] && hr__array_null_count(a);

    for (int64_t i = 0; i < a->length; i += BLOCK) {
        int64_t n = HR_MIN(BLOCK, a->length - i);

        if (a->type->id == HR_T_NULL)
            memset(out + i, 0xFF, (size_t)n * sizeof *out);
        else if (s->keys)
            places_of_numbers(s, a, i, n, out + i);
        else
            places_of_bytes(s, a, i, n, out + i);
        for (int64_t k = 0; some_null && k < n; k++)
            if (hr__array_is_null(a, i + k))
                out[i + k] = -1;
    }
}

static hr_status set_eval(bool want, const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                          hr_array **out, hr_error *err)
{
    const hr_set *s = call->state;
    const hr_array *a = args[0];
    bool no_values = a->type->id == HR_T_NULL, some_null = no_values || (a->buffers[0] && hr__array_null_count(a));
    hr_buffer *bits = NULL;
    uint8_t found[BLOCK];

    *out = NULL;
    HR_TRY(hr__eval_bits(how, how->n_rows, &bits, err));
    for (int64_t i = 0; i < how->n_rows; i += BLOCK) {
        int64_t n = HR_MIN(BLOCK, how->n_rows - i);

        if (!no_values && s->keys)
            find_numbers(s, a, i, n, found);
        else if (!no_values)
            find_bytes(s, a, i, n, found);
        for (int64_t k = 0; some_null && k < n; k++)
            if (hr__array_is_null(a, i + k))
                found[k] = s->has_null;
        for (int64_t k = 0; !want && k < n; k++)
            found[k] ^= 1;
        hr__pack_bits(found, n, bits->data + i / 8);
    }
    return hr__eval_array(call->type, how->n_rows, NULL, bits, NULL, out, err);
}

/* ---------------------------------------------------------------------------------------------------------- binding */

/* The values that fit, as `type`; nulls stay null. Tries to cast all at once first. *out is new; places[i] becomes that
 * of its value i in `values`, and has room for all of them. */
static hr_status cast_values(const hr_array *values, hr_type *type, int64_t *places, hr_array **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    hr_eval how = { .mem = &mem, .n_rows = values->length };
    hr_bound_call call = { .n_inputs = 1 };
    hr_array *all = (hr_array *)values, **parts = NULL;
    int64_t n_parts = 0;
    hr_error why = HR_ERROR_INIT;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__cast_bind_to(&call, values->type, type, true, err));
    st = hr__cast_function()->eval(&call, &how, &all, out, &why);
    if (st != HR_BAD_DATA || hr__type_is_bytes(values->type)) { /* a text that is no date is a mistake */
        hr__error_move(err, &why);
        goto done;
    }
    hr_error_clear(&why);
    how.n_rows = 1;
    if (!(parts = hr__zalloc(NULL, ((size_t)values->length + 1) * sizeof(hr_array *))))
        HR_GO(hr__error_memory(err, "is_in", values->length * (int64_t)sizeof(hr_array *)));
    for (int64_t i = 0; i < values->length; i++) {
        hr_array *one = NULL;

        HR_GO(hr__array_slice(values, i, 1, &one, err));
        st = hr__cast_function()->eval(&call, &how, &one, &parts[n_parts], &why);
        hr__array_unref(one);
        if (!st)
            places[n_parts++] = i;
        else if (st != HR_BAD_DATA) {
            hr__error_move(err, &why);
            goto done;
        }
        hr_error_clear(&why);
    }
    st = hr__array_concat(&mem, type, parts, (int)n_parts, out, err);
done:
    for (int64_t i = 0; i < n_parts; i++)
        hr__array_unref(parts[i]);
    hr__free(parts);
    hr__free(call.state);
    hr__type_unref(call.type);
    return st;
}

/* Drops nulls (noted) and NaN. For a column of nulls only the null counts. */
static hr_status keep_values(hr_set *s, hr_array *values, bool only_null, hr_error *err)
{
    const hr_mem mem = { 0 };
    int64_t *index = hr__alloc(NULL, ((size_t)values->length + 1) * sizeof *index), n = 0;
    hr_status st;

    if (!index)
        return hr__error_memory(err, "is_in", values->length * (int64_t)sizeof *index);
    for (int64_t i = 0; i < values->length; i++) {
        if (hr__array_is_null(values, i)) {
            s->has_null = true;
            continue;
        }
        if (only_null || hr__value_is_nan(values, i))
            continue;
        s->places[n] = s->places[i];
        index[n++] = i;
    }
    st = hr__array_take(&mem, values, index, 8, n, &s->values, err);
    hr__free(index);
    return st;
}

static bool is_list(const hr_type *t)
{
    return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || t->id == HR_T_FIXED_LIST;
}

/* Whether the column and the values compare: binds a comparison of both. */
static hr_status check_types(const hr_bound_call *call, const hr_array *list, hr_type *column, hr_type *value,
                             hr_comparing **out, hr_error *err)
{
    hr_type *types[2] = { column, value }, *casts[2] = { NULL, NULL };
    const hr_array *constants[2] = { NULL, list };
    bool weak[2] = { false, false };
    hr_bound_call two = *call;
    hr_status st;

    two.n_inputs = 2;
    two.input_types = types;
    two.casts = casts;
    two.constants = constants;
    two.weak = weak;
    st = hr__comparing_bind(&two, 0, 1, out, err);
    hr__type_unref(casts[0]);
    hr__type_unref(casts[1]);
    return st;
}

/* The type in which the column is compared. */
static hr_type *machine_type(hr_bound_call *call)
{
    if (call->input_types[0]->id != HR_T_FLOAT16)
        return call->input_types[0];
    hr__call_cast(call, 0, hr__type_simple(HR_T_FLOAT32));
    return hr__type_simple(HR_T_FLOAT32);
}

static hr_status find_values(hr_bound_call *call, const hr_array *list, hr_set *s, hr_error *err)
{
    hr_type *type = machine_type(call);
    hr_array *given = NULL, *cast = NULL;
    hr_comparing *unused = NULL;
    int64_t begin, n;
    hr_status st = HR_OK;
    bool as_bytes;

    hr__array_range(list, 0, &begin, &n);
    HR_GO(hr__array_slice(list->children[0], begin, n, &given, err));
    if (!(s->places = hr__alloc(NULL, ((size_t)n + 1) * sizeof *s->places)))
        HR_GO(hr__error_memory(err, "is_in", n * (int64_t)sizeof *s->places));
    for (int64_t i = 0; i < n; i++)
        s->places[i] = i;
    HR_GO(check_types(call, list, call->input_types[0], given->type, &unused, err));
    HR_GO(check_types(call, list, type, type, &s->comparing, err));
    as_bytes = hr__type_is_bytes(type) || type->id == HR_T_FIXED_BINARY || type->id == HR_T_NULL;
    if (hr__type_is_decimal(type) && !hr__type_equal(type, given->type) && given->type->id != HR_T_NULL)
        HR_FAIL(HR_TYPE,
                "is_in: the values for a decimal column have another type, expected the column's; a cast may help");
    if (!as_bytes)
        HR_GO(cast_values(given, type, s->places, &cast, err));
    HR_GO(keep_values(s, cast ? cast : given, type->id == HR_T_NULL, err));
    HR_GO(fill_table(s, err));
done:
    hr__array_unref(given);
    hr__array_unref(cast);
    hr__free(unused);
    return st;
}

hr_status hr__set_new(hr_bound_call *call, int list, hr_set **out, hr_error *err)
{
    const hr_array *values = call->constants[list];
    hr_status st;

    *out = NULL;
    if (!values || !is_list(values->type) || hr__array_is_null(values, 0))
        return hr__call_type_error(call, "expected a constant list of values", err);
    if (!(*out = hr__zalloc(NULL, sizeof **out)))
        return hr__error_memory(err, "is_in", sizeof **out);
    if ((st = find_values(call, values, *out, err))) {
        hr__set_free(*out);
        *out = NULL;
    }
    return st;
}

static hr_status set_bind(hr_bound_call *call, hr_error *err)
{
    hr_set *s = NULL;

    HR_TRY(hr__set_new(call, 1, &s, err));
    call->state = s;
    call->type = hr__type_simple(HR_T_BOOL);
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- ranges */

static bool can_hold(const hr_set *s, const hr_pruner *p, const hr_range *in, int64_t i)
{
    hr_array *value = NULL;
    bool can = true;

    if (in->least && hr__comparing_one(s->comparing, HR_LESS, s->values, i, in->least, 0))
        return false;
    if (in->most && hr__comparing_one(s->comparing, HR_GREATER, s->values, i, in->most, 0))
        return false;
    if (in->column && p->may_contain && !hr__array_slice(s->values, i, 1, &value, NULL))
        can = !hr__range_absent(p, in, value);
    hr__array_unref(value);
    return can;
}

static void set_range(bool want, const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)
{
    const hr_set *s = call->state;
    bool can_true = false, can_false = in->can_value || in->can_nan;

    if (call->input_types[0]->id == HR_T_BOOL || !hr__type_equal(s->values->type, call->input_types[0]))
        return; /* few values, or compared by bytes: not worth a table */
    for (int64_t i = 0; in->can_value && !can_true && i < s->values->length; i++)
        can_true = i >= MOST_TRIED || can_hold(s, p, in, i);
    if (can_true && !in->can_nan && in->least && in->most &&
        hr__comparing_one(s->comparing, HR_EQUAL, in->least, 0, in->most, 0))
        for (int64_t i = 0; can_false && i < HR_MIN(s->values->length, MOST_TRIED); i++)
            can_false = !hr__comparing_one(s->comparing, HR_EQUAL, s->values, i, in->least, 0);
    if (in->can_null) {
        can_true = can_true || s->has_null;
        can_false = can_false || !s->has_null;
    }
    out->truth =
        (can_true ? (want ? HR_CAN_TRUE : HR_CAN_FALSE) : 0u) | (can_false ? (want ? HR_CAN_FALSE : HR_CAN_TRUE) : 0u);
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_SET(name, want)                                                                                             \
    static hr_status name##_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out, \
                                 hr_error *err)                                                                        \
    {                                                                                                                  \
        return set_eval(want, call, how, args, out, err);                                                              \
    }                                                                                                                  \
    static void name##_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)         \
    {                                                                                                                  \
        set_range(want, call, p, in, out);                                                                             \
    }
HR_SET(is_in, true)
HR_SET(not_in, false)

#define HR_ENTRY(fn, text)                                                                                             \
    {                                                                                                                  \
        .name = #fn,                                                                                                   \
        .doc = text,                                                                                                   \
        .min_args = 2,                                                                                                 \
        .max_args = 2,                                                                                                 \
        .bind = set_bind,                                                                                              \
        .eval = fn##_eval,                                                                                             \
        .takes_constants = true,                                                                                       \
        .state_free = state_free,                                                                                      \
        .range = fn##_range,                                                                                           \
    }

const hr_expr_function hr__fn_set[] = {
    HR_ENTRY(is_in, "the value is one of a constant list; never null, a null is in a list that has one"),
    HR_ENTRY(not_in, "the value is none of a constant list"),
    { 0 },
};
