/* test_prune.c - what a predicate can be where only bounds are known, against what it is: random predicates over random
 * rows.
 *
 * The one rule: NEVER means that no row is kept, ALWAYS that all are. And so that a test of "always MAYBE" would not
 * pass: with exact bounds many are told apart. */
#include "arrays.h"
#include "expr/fn.h"

#include <math.h>

enum { N_TYPES = 12, N_ROWS = 9 };

static hr_type *type_of(int k)
{
    static const char *const names[N_TYPES] = {
        "int8",   "uint8",  "int32", "int64",       "uint64",        "float",
        "double", "string", "bool",  "date32[day]", "timestamp[us]", "decimal128(10, 2)",
    };
    hr_type *t = NULL;

    assert_ok(hr__type_parse(names[k % N_TYPES], &t, NULL), NULL);
    return t;
}

/* --- few different values, so that bounds decide now and then */

static void add_value(uint64_t *random, hr_type *type, hr_builder *b)
{
    static const double floats[] = { -1, -0.0, 0.0, 1.5, 2, NAN, INFINITY, -INFINITY };
    static const char *const texts[] = { "", "a", "ab", "b", "\x7f" };
    int64_t k = random_below(random, 6);
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    if (type->id == HR_T_FLOAT32 || type->id == HR_T_FLOAT64)
        st = hr__builder_double(b, floats[random_below(random, HR_LEN(floats))], &err);
    else if (type->id == HR_T_STRING)
        st = hr__builder_bytes(b, texts[k % 5], (int64_t)strlen(texts[k % 5]), &err);
    else if (type->id == HR_T_DECIMAL128)
        st = hr__builder_bytes(b, (uint8_t[16]){ (uint8_t)(50 * k) }, 16, &err);
    else if (type->id == HR_T_UINT64)
        st = hr__builder_bytes(b, &(uint64_t){ k == 5 ? UINT64_MAX : (uint64_t)k }, 8, &err);
    else if (type->id == HR_T_BOOL)
        st = hr__builder_int(b, k & 1, &err);
    else
        st = hr__builder_int(b, hr__type_is_unsigned(type) ? k : k - 2, &err);
    assert_ok(st, &err);
}

static hr_array *few_values(uint64_t *random, hr_type *type, int64_t n)
{
    int64_t mode = random_below(random, 4); /* no nulls, some, all; one value */
    hr_builder *b = builder_of(type);
    uint64_t seed = *random;

    for (int64_t i = 0; i < n; i++) {
        if (mode == 2 || (mode == 1 && random_below(random, 3) == 0)) {
            assert_ok(hr__builder_null(b, NULL), NULL);
            continue;
        }
        if (mode == 3)
            *random = seed;
        add_value(random, type, b);
    }
    return finish(b);
}

/* --- random predicates */

static hr_expr *call_of(const char *name, hr_expr *a, hr_expr *b)
{
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL;

    assert_ok(hr_expr_call(name, (hr_expr *[]){ a, b }, b ? 2 : 1, NULL, 0, &e, &err), &err);
    hr_expr_unref(a);
    hr_expr_unref(b);
    return e;
}

static hr_expr *column_of(const hr_table *t, int64_t i)
{
    hr_expr *e = NULL;

    assert_ok(hr_expr_column(t->schema->fields[i].name, &e, NULL), NULL);
    return e;
}

static hr_expr *constant_of(uint64_t *random, hr_type *type)
{
    hr_expr *e = NULL;

    if (hr__type_is_int(type) && random_below(random, 3) == 0) { /* weak ones, also such as the type does not hold */
        assert_ok(hr_expr_int(random_below(random, 400) - 100, &e, NULL), NULL);
        return e;
    }
    if (hr__type_is_number(type) && random_below(random, 3) == 0) {
        assert_ok(hr_expr_double((double)random_below(random, 9) / 2 - 1, &e, NULL), NULL);
        return e;
    }
    assert_ok(hr__expr_value(few_values(random, type, 1), false, &e, NULL), NULL);
    return e;
}

static hr_expr *list_of_values(uint64_t *random, hr_type *type)
{
    hr_array *values = few_values(random, type, random_below(random, 4)), *list = NULL;
    const int32_t offsets[2] = { 0, (int32_t)values->length };
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_field item = { 0 };
    hr_type *list_type = NULL;
    hr_expr *e = NULL;
    hr_mem mem = { 0 };

    assert_ok(hr__field_init(&item, "item", type, true, NULL), NULL);
    assert_ok(hr__type_list(HR_T_LIST, &item, 0, &list_type, NULL), NULL);
    assert_ok(hr__buffer_copy(&mem, offsets, sizeof offsets, &buffers[1], NULL), NULL);
    assert_ok(hr__array_new(list_type, 1, 0, buffers, &values, 1, &list, NULL), NULL);
    assert_ok(hr__expr_value(list, false, &e, NULL), NULL);
    hr__field_clear(&item);
    hr__type_unref(list_type);
    return e;
}

static hr_expr *leaf_of(uint64_t *random, const hr_table *t)
{
    static const char *const compare[] = { "equal", "not_equal", "less", "less_equal", "greater", "greater_equal" };
    int64_t at = random_below(random, t->schema->n);
    hr_type *type = t->schema->fields[at].type;
    const char *op = compare[random_below(random, 6)];
    hr_expr *c = column_of(t, at), *cast = NULL;

    switch (random_below(random, 9)) {
    case 0: return call_of(op, constant_of(random, type), c);
    case 1: return call_of(random_below(random, 2) ? "is_null" : "is_not_null", c, NULL);
    case 2: return call_of(random_below(random, 2) ? "is_in" : "not_in", c, list_of_values(random, type));
    case 3: return call_of(op, c, column_of(t, at));
    case 4:
        if (type->id == HR_T_BOOL)
            return c;
        break;
    case 5:
        if (hr__type_is_number(type))
            return call_of("is_nan", c, NULL);
        break;
    case 6:
        if (!hr__type_is_number(type))
            break;
        assert_ok(hr_expr_call("cast", &c, 1, (const char *[]){ "to=double" }, 1, &cast, NULL), NULL);
        hr_expr_unref(c);
        return call_of(op, cast, constant_of(random, hr__type_simple(HR_T_FLOAT64)));
    case 7:
        for (int i = 0; i < t->schema->n; i++)
            if (i != at && hr__type_equal(t->schema->fields[i].type, type))
                return call_of(op, c, column_of(t, i));
        break;
    default: break;
    }
    return call_of(op, c, constant_of(random, type));
}

static hr_expr *predicate_of(uint64_t *random, const hr_table *t, int depth)
{
    static const char *const logic[] = { "and", "or", "xor" };
    hr_expr *a;

    if (depth == 0 || random_below(random, 4) == 0)
        return leaf_of(random, t);
    a = predicate_of(random, t, depth - 1);
    if (random_below(random, 4) == 0)
        return call_of("not", a, NULL);
    return call_of(logic[random_below(random, 3)], a, predicate_of(random, t, depth - 1));
}

/* --- bounds of what is there */

typedef struct known {
    const hr_table *t;
    uint64_t random;
    bool exact; /* else some are missing */
    hr_array *least, *most;
} known;

static hr_comparing *comparing_of(hr_type *type)
{
    hr_type *types[2] = { type, type }, *casts[2] = { NULL, NULL };
    const hr_array *constants[2] = { NULL, NULL };
    bool weak[2] = { false, false };
    hr_bound_call call = { .n_inputs = 2, .input_types = types, .casts = casts, .constants = constants, .weak = weak };
    hr_comparing *c = NULL;

    assert_ok(hr__comparing_bind(&call, 0, 1, &c, NULL), NULL);
    return c;
}

static bool is_nan_at(const hr_array *a, int64_t i)
{
    if (a->type->id == HR_T_FLOAT32)
        return isnan(((const float *)(const void *)hr__array_values(a))[i]);
    return a->type->id == HR_T_FLOAT64 && isnan(((const double *)(const void *)hr__array_values(a))[i]);
}

static bool bounds_of(void *context, const char *name, hr_bounds *out)
{
    known *k = context;
    const hr_array *a = k->t->columns[hr__schema_find(k->t->schema, name)];
    hr_comparing *c = comparing_of(a->type);
    int64_t least = -1, most = -1;
    bool has_nan = false;

    hr__array_unref(k->least);
    hr__array_unref(k->most);
    k->least = k->most = NULL;
    for (int64_t i = 0; i < a->length; i++) {
        if (hr__array_is_null(a, i))
            continue;
        if (is_nan_at(a, i)) {
            has_nan = true;
            continue;
        }
        if (least < 0 || hr__comparing_one(c, HR_LESS, a, i, a, least))
            least = i;
        if (most < 0 || hr__comparing_one(c, HR_GREATER, a, i, a, most))
            most = i;
    }
    hr__free(c);
    if (least >= 0 && (k->exact || random_below(&k->random, 3)))
        assert_ok(hr__array_slice(a, least, 1, &k->least, NULL), NULL);
    if (most >= 0 && (k->exact || random_below(&k->random, 3)))
        assert_ok(hr__array_slice(a, most, 1, &k->most, NULL), NULL);
    *out = (hr_bounds){ .least = k->least, .most = k->most, .n_rows = a->length };
    out->null_count = k->exact || random_below(&k->random, 3) ? hr__array_null_count(a) : -1;
    out->may_have_nan = has_nan || (!k->exact && random_below(&k->random, 2));
    return k->exact || random_below(&k->random, 5) > 0;
}

/* As an exact bloom filter would say, or one that errs now and then. */
static bool contains(void *context, const char *name, const hr_array *value)
{
    known *k = context;
    const hr_array *a = k->t->columns[hr__schema_find(k->t->schema, name)];
    hr_comparing *c = comparing_of(a->type);
    bool found = !k->exact && random_below(&k->random, 3) == 0;

    assert_true(hr__type_equal(a->type, value->type));
    for (int64_t i = 0; i < a->length && !found; i++)
        found = !hr__array_is_null(a, i) && !is_nan_at(a, i) && hr__comparing_one(c, HR_EQUAL, a, i, value, 0);
    hr__free(c);
    return found;
}

static int64_t kept_of(const hr_bound *b, const hr_table *t)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };
    uint8_t keep[N_ROWS];
    int64_t n = -1;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__bound_keep(b, &how, t, keep, &n, &err), &err);
    return n;
}

static hr_table *few_rows(uint64_t *random)
{
    hr_field fields[3] = { 0 };
    hr_array *columns[3];
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    int64_t n = 1 + random_below(random, N_ROWS), kind = random_below(random, N_TYPES);

    for (int i = 0; i < 3; i++) {
        hr_type *type = type_of((int)(i < 2 ? kind : random_below(random, N_TYPES)));

        assert_ok(hr__field_init(&fields[i], (const char *[]){ "x", "y", "z" }[i], type, true, NULL), NULL);
        columns[i] = few_values(random, type, n);
        hr__type_unref(type);
    }
    assert_ok(hr__schema_new(fields, 3, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, n, NULL, &t, NULL), NULL);
    for (int i = 0; i < 3; i++)
        hr__field_clear(&fields[i]);
    hr__schema_unref(schema);
    return t;
}

static void test_never_wrong(void **unused)
{
    int found[2][3] = { { 0 } }, n_runs = repeats(SANITIZED ? 200000 : 500000);
    live_memory before = live_now();
    uint64_t random = 11;

    (void)unused;
    for (int i = 0; i < n_runs; i++) {
        hr_table *t = few_rows(&random);
        known k = { .t = t, .random = (uint64_t)i, .exact = i % 2 };
        hr_pruner p = { &k, bounds_of, i % 3 ? contains : NULL };
        hr_expr *e = predicate_of(&random, t, (int)random_below(&random, 4));
        hr_error err = HR_ERROR_INIT;
        hr_bound *b = NULL;
        hr_truth truth;
        int64_t kept;

        assert_ok(hr__expr_bind(e, t->schema, &b, &err), &err);
        truth = hr__bound_prune(b, &p);
        kept = kept_of(b, t);
        if ((truth == HR_TRUTH_NEVER && kept > 0) || (truth == HR_TRUTH_ALWAYS && kept < t->n_rows)) {
            char *text = NULL;

            assert_ok(hr_expr_print(e, &text, NULL), NULL);
            for (int c = 0; c < 3; c++)
                print_message("%s: %s\n", type_text(t->columns[c]->type), values_text(t->columns[c]));
            fail_msg("run %d: %s: truth %d, but %d of %d rows are kept", i, text, truth, (int)kept, (int)t->n_rows);
        }
        found[k.exact][truth]++;
        hr__array_unref(k.least);
        hr__array_unref(k.most);
        hr__bound_free(b);
        hr_expr_unref(e);
        hr_table_unref(t);
    }
    assert_true(found[1][HR_TRUTH_NEVER] > n_runs / 8);
    assert_true(found[1][HR_TRUTH_ALWAYS] > n_runs / 16);
    assert_true(found[0][HR_TRUTH_NEVER] > n_runs / 20);
    assert_no_leak(before);
}

/* --- cases with names */

static const hr_array *fixed_least, *fixed_most;
static int64_t fixed_nulls;

static bool fixed_bounds(void *context, const char *name, hr_bounds *out)
{
    (void)context, (void)name;
    *out = (hr_bounds){ .least = fixed_least, .most = fixed_most, .null_count = fixed_nulls, .n_rows = 100 };
    return true;
}

static void test_cases(void **unused)
{
    static const struct {
        const char *op;
        int64_t constant, nulls;
        hr_truth want;
    } cases[] = {
        /* of a column from 10 to 20 */
        { "less", 10, 0, HR_TRUTH_NEVER },          { "less", 11, 0, HR_TRUTH_MAYBE },
        { "less", 21, 0, HR_TRUTH_ALWAYS },         { "less", 21, 1, HR_TRUTH_MAYBE },
        { "less", 21, -1, HR_TRUTH_MAYBE },         { "less_equal", 9, 0, HR_TRUTH_NEVER },
        { "less_equal", 10, 0, HR_TRUTH_MAYBE },    { "less_equal", 20, 0, HR_TRUTH_ALWAYS },
        { "greater", 20, 0, HR_TRUTH_NEVER },       { "greater", 9, 0, HR_TRUTH_ALWAYS },
        { "greater_equal", 21, 0, HR_TRUTH_NEVER }, { "greater_equal", 10, 0, HR_TRUTH_ALWAYS },
        { "equal", 9, 0, HR_TRUTH_NEVER },          { "equal", 21, 0, HR_TRUTH_NEVER },
        { "equal", 15, 0, HR_TRUTH_MAYBE },         { "not_equal", 9, 0, HR_TRUTH_ALWAYS },
        { "not_equal", 15, 0, HR_TRUTH_MAYBE },     { "not_equal", 9, 100, HR_TRUTH_NEVER },
        { "equal", 5000000000, 0, HR_TRUTH_NEVER }, { "less", 5000000000, 0, HR_TRUTH_ALWAYS },
        { "less", -5000000000, 0, HR_TRUTH_NEVER },
    };
    const int32_t ends[2] = { 10, 20 };
    hr_array *a = NULL, *least = NULL, *most = NULL;
    hr_buffer *values = NULL;
    hr_schema *schema = NULL;
    hr_field f = { 0 };
    hr_mem mem = { 0 };

    (void)unused;
    assert_ok(hr__buffer_copy(&mem, ends, sizeof ends, &values, NULL), NULL);
    assert_ok(hr__eval_array(hr__type_simple(HR_T_INT32), 2, NULL, values, NULL, &a, NULL), NULL);
    assert_ok(hr__array_slice(a, 0, 1, &least, NULL), NULL);
    assert_ok(hr__array_slice(a, 1, 1, &most, NULL), NULL);
    assert_ok(hr__field_init(&f, "x", a->type, true, NULL), NULL);
    assert_ok(hr__schema_new(&f, 1, &schema, NULL), NULL);
    fixed_least = least;
    fixed_most = most;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_pruner p = { NULL, fixed_bounds, NULL };
        hr_expr *x = NULL, *c = NULL, *e;
        hr_bound *b = NULL;

        fixed_nulls = cases[i].nulls;
        assert_ok(hr_expr_column("x", &x, NULL), NULL);
        assert_ok(hr_expr_int(cases[i].constant, &c, NULL), NULL);
        e = call_of(cases[i].op, x, c);
        assert_ok(hr__expr_bind(e, schema, &b, NULL), NULL);
        if (hr__bound_prune(b, &p) != cases[i].want)
            fail_msg("x %s %lld: %d, expected %d", cases[i].op, (long long)cases[i].constant, hr__bound_prune(b, &p),
                     cases[i].want);
        assert_int_equal(hr__bound_prune(b, &(hr_pruner){ 0 }), HR_TRUTH_MAYBE);
        hr__bound_free(b);
        hr_expr_unref(e);
    }
    hr__array_unref(a);
    hr__array_unref(least);
    hr__array_unref(most);
    hr__field_clear(&f);
    hr__schema_unref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_never_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
