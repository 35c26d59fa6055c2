/* test_eval.c - every function over every type that it takes: a row alone has the same result as among others, slices
 * as copies, constants as columns; results are well-formed; and every failing allocation leads to an error. */
#include "arrays.h"
#include "expr/fn.h"

#include <stdio.h>

#define N_ROWS (SANITIZED ? 11 : 23) /* more than a byte of a bitmap, or two */

static const char *const settings_of[][2] = { /* a function, and a setting that it needs */
                                              { "cast", "to=int32" },
                                              { "cast", "to=string" },
                                              { "cast", "to=double" },
                                              { "cast", "to=timestamp[us]" }
};

static hr_schema *schema_of(hr_type *const *types, int n)
{
    hr_field fields[3] = { 0 };
    hr_schema *s = NULL;

    for (int i = 0; i < n; i++)
        assert_ok(hr__field_init(&fields[i], (const char *[]){ "a", "b", "c" }[i], types[i], true, NULL), NULL);
    assert_ok(hr__schema_new(fields, n, &s, NULL), NULL);
    for (int i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    return s;
}

static hr_table *rows_of(uint64_t *random, hr_type *const *types, int n, int64_t n_rows)
{
    hr_schema *schema = schema_of(types, n);
    hr_array *columns[3];
    hr_table *t = NULL;

    for (int i = 0; i < n; i++)
        columns[i] = random_array(random, types[i], n_rows);
    assert_ok(hr__table_new(schema, columns, n_rows, NULL, &t, NULL), NULL);
    hr__schema_unref(schema);
    return t;
}

/* Over the columns; where `constants` has bit i, argument i is the first row of column i, as a literal. */
static hr_expr *call_over(const hr_expr_function *f, const hr_table *t, int n, unsigned constants, const char *setting)
{
    hr_expr *args[3] = { NULL, NULL, NULL }, *e = NULL;
    hr_error err = HR_ERROR_INIT;

    for (int i = 0; i < n; i++) {
        hr_array *one = NULL;

        if (!(constants >> i & 1)) {
            assert_ok(hr_expr_column(t->schema->fields[i].name, &args[i], NULL), NULL);
            continue;
        }
        assert_ok(hr__array_slice(t->columns[i], 0, 1, &one, NULL), NULL);
        assert_ok(hr__expr_value(one, false, &args[i], NULL), NULL);
    }
    assert_ok(hr_expr_call(f->name, args, n, &setting, setting ? 1 : 0, &e, &err), &err);
    for (int i = 0; i < n; i++)
        hr_expr_unref(args[i]);
    return e;
}

static hr_status eval_bound(hr_bound *b, hr_table *t, hr_array **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };

    *out = NULL;
    return hr__bound_eval(b, &how, t, out, err);
}

static hr_status eval_over(hr_expr *e, hr_table *t, hr_array **out, hr_error *err)
{
    hr_bound *b = NULL;
    hr_status st = hr__expr_bind(e, t->schema, &b, err);

    *out = NULL;
    if (!st)
        st = eval_bound(b, t, out, err);
    hr__bound_free(b);
    return st;
}

/* The rows one by one, joined. A status of the first row that has one. */
static hr_status row_by_row(hr_bound *b, const hr_table *t, hr_array **out)
{
    const hr_mem mem = { 0 };
    hr_array *parts[N_ROWS];
    hr_status st = HR_OK;
    int n = 0;

    *out = NULL;
    for (int64_t i = 0; i < t->n_rows && !st; i++) {
        hr_table *one = NULL;

        assert_ok(hr_table_slice(t, i, 1, &one, NULL), NULL);
        st = eval_bound(b, one, &parts[n], NULL);
        n += !st;
        hr_table_unref(one);
    }
    if (!st)
        assert_ok(hr__array_concat(&mem, parts[0]->type, parts, n, out, NULL), NULL);
    for (int i = 0; i < n; i++)
        hr__array_unref(parts[i]);
    return st;
}

static hr_table *copied(const hr_table *t)
{
    const hr_mem mem = { 0 };
    hr_table *copy = NULL;

    assert_ok(hr__table_concat(&mem, t->schema, &(hr_table *){ (hr_table *)t }, 1, &copy, NULL), NULL);
    return copy;
}

/* -> whether the function takes these types; `one` is a row of them, for the constants */
static bool check_call(const hr_expr_function *f, uint64_t *random, hr_type *const *types, int n, const hr_table *one,
                       unsigned constants, const char *setting)
{
    hr_table *t = NULL, *same = NULL, *none = NULL;
    hr_expr *e = call_over(f, one, n, constants, setting);
    hr_array *whole = NULL, *single = NULL, *copy = NULL, *empty = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_bound *b = NULL;
    hr_status st = hr__expr_bind(e, one->schema, &b, &err);
    bool takes = !st;

    if (takes) {
        t = rows_of(random, types, n, N_ROWS);
        same = copied(t);
        st = eval_bound(b, t, &whole, &err);
        assert_int_equal(row_by_row(b, t, &single), st);
        assert_int_equal(eval_over(e, same, &copy, NULL), st);
#ifndef HR_HAVE_UTF8PROC
        if (st == HR_UNSUPPORTED)
            st = HR_OK;
#endif
        assert_true(st == HR_OK || (st == HR_BAD_DATA && strstr(err.text, "row ")));
        assert_ok(hr_table_slice(t, 5, 0, &none, NULL), NULL);
        assert_ok(eval_over(e, none, &empty, NULL), NULL);
        assert_true(hr__type_equal(empty->type, hr__bound_type(b)));
    } else {
        assert_true(st == HR_TYPE || st == HR_INVALID || st == HR_BAD_DATA || st == HR_UNSUPPORTED);
        assert_true(err.text[0]);
    }
    if (whole) {
        assert_ok(hr__array_check(whole, true, &err), &err);
        assert_true(hr__type_equal(whole->type, hr__bound_type(b)));
        assert_same_array(single, whole);
        assert_same_array(copy, whole);
    }
    hr__array_unref(whole);
    hr__array_unref(single);
    hr__array_unref(copy);
    hr__array_unref(empty);
    hr__bound_free(b);
    hr_expr_unref(e);
    hr_table_unref(t);
    hr_table_unref(same);
    hr_table_unref(none);
    return takes;
}

static int n_arguments(const hr_expr_function *f) { return f->max_args < 0 ? HR_MAX(f->min_args, 2) : f->min_args; }

static int check_function(const hr_expr_function *f, uint64_t *random, const char *setting)
{
    int n = n_arguments(f), n_taken = 0, n_types = n_sample_types();
    bool of_text = !strncmp(f->name, "str_", 4);

    for (int i = 0; i < n_types; i++)
        for (int k = 0; k < (n > 1 ? n_types : 1); k++) {
            hr_type *types[3] = { sample_type(i), sample_type(k), NULL };
            hr_table *one;

            if (n > 1 && i != k && (n > 2 || of_text || random_below(random, 4)) &&
                repeats(10) == 1) { /* not all pairs */
                hr__type_unref(types[0]);
                hr__type_unref(types[1]);
                continue;
            }
            types[2] = hr__type_ref(types[n == 3 ? 1 : 0]);
            one = rows_of(random, types, n, 1);
            for (unsigned constants = 0; constants < (1u << n) && constants < 7; constants += constants == 3 ? 3 : 1)
                n_taken += check_call(f, random, types, n, one, constants, setting);
            hr_table_unref(one);
            for (int j = 0; j < 3; j++)
                hr__type_unref(types[j]);
        }
    return n_taken;
}

/* Constant lists as the second and the third argument, which the types above do not combine to. */
static int check_lookup(const hr_expr_function *f, uint64_t *random)
{
    static const char *const keys[][2] = { { "int32", "list<item: int32>" },
                                           { "string", "list<item: string>" },
                                           { "double", "list<item: double>" } };
    int n_taken = 0;

    for (int i = 0; i < 30 * HR_LEN(keys); i++) {
        hr_type *types[3] = { NULL, NULL, NULL };
        hr_table *one;

        assert_ok(hr__type_parse(keys[i % HR_LEN(keys)][0], &types[0], NULL), NULL);
        assert_ok(hr__type_parse(keys[i % HR_LEN(keys)][1], &types[1], NULL), NULL);
        types[2] = hr__type_ref(types[1]);
        one = rows_of(random, types, 3, 1);
        n_taken += check_call(f, random, types, 3, one, 6, i % 2 ? "strict=true" : NULL);
        hr_table_unref(one);
        for (int j = 0; j < 3; j++)
            hr__type_unref(types[j]);
    }
    return n_taken;
}

static void test_every_function_over_every_type(void **unused)
{
    live_memory before = live_now();
    uint64_t random = 3;

    (void)unused;
    for (int i = 0; hr__expr_tables[i]; i++)
        for (const hr_expr_function *f = hr__expr_tables[i]; f->name; f++) {
            bool set = false;

            if (!strncmp(f->name, "image_", 6) || f->row_random)
                continue; /* of images only, which no sample type is: see the tests of image expressions in Python */
            for (int k = 0; k < HR_LEN(settings_of); k++)
                if (!strcmp(settings_of[k][0], f->name)) {
                    assert_true(check_function(f, &random, settings_of[k][1]) > 0);
                    set = true;
                }
            if (!strcmp(f->name, "lookup")) {
                assert_true(check_lookup(f, &random) > 0);
                set = true;
            }
            if (!set && !check_function(f, &random, NULL) && strncmp(f->name, "str_", 4) != 0) /* a random pattern */
                fail_msg("%s takes nothing", f->name);
        }
    assert_no_leak(before);
}

/* --- faults: each function over types that it takes */

typedef struct faulty {
    hr_expr *e;
    hr_table *t;
} faulty;

static hr_status bind_and_eval(void *context, hr_error *err)
{
    faulty *f = context;
    hr_array *a = NULL;
    hr_status st = eval_over(f->e, f->t, &a, err);

    hr__array_unref(a);
    return st;
}

static void check_faults(const hr_expr_function *f, const char *types_text, const char *setting)
{
    hr_type *types[3] = { NULL, NULL, NULL };
    char word[40];
    uint64_t random = 5;
    faulty context;
    int n = 0,
        recovers = strstr(types_text, "list") ? MAY_RECOVER : 0; /* the text of an error that a list's value made */

    for (const char *p = types_text; n == 0 || *p++ == '|'; p += strcspn(p, "|")) {
        size_t length = strcspn(p, "|");

        assert_true(length < sizeof word);
        memcpy(word, p, length);
        word[length] = 0;
        assert_ok(hr__type_parse(word, &types[n++], NULL), NULL);
    }
    context.t = rows_of(&random, types, n, 6);
    context.e = call_over(f, context.t, n, strstr(types_text, "list") ? 2 : 0, setting);
    if (bind_and_eval(&context, NULL) == HR_OK)
        run_with_faults_on(bind_and_eval, &context, HR_FAULT_MEMORY | recovers);
    hr_expr_unref(context.e);
    hr_table_unref(context.t);
    for (int i = 0; i < n; i++)
        hr__type_unref(types[i]);
}

static void test_faults(void **unused)
{
    static const struct {
        const char *function, *types, *setting;
    } cases[] = {
        { "equal", "int8|int64", NULL },
        { "less", "string|large_string", NULL },
        { "less", "decimal128(10, 2)|int32", NULL },
        { "greater", "timestamp[s]|date32", NULL },
        { "and", "bool|bool", NULL },
        { "or", "bool|null", NULL },
        { "not", "bool", NULL },
        { "is_null", "string", NULL },
        { "is_nan", "float", NULL },
        { "add", "double|float", NULL },
        { "divide", "int16|int32", NULL },
        { "floor_divide", "int64|int64", NULL },
        { "modulo", "int32|int32", NULL },
        { "negate", "double", NULL },
        { "subtract", "timestamp[s]|timestamp[us]", NULL },
        { "abs", "int32", NULL },
        { "ceil", "decimal128(10, 2)", NULL },
        { "ln", "int8", NULL },
        { "round", "double", "ndigits=2" },
        { "power", "int16|float", NULL },
        { "if_else", "bool|int8|int16", NULL },
        { "if_else", "bool|string|large_string", NULL },
        { "coalesce", "double|float", NULL },
        { "coalesce", "string|string", NULL },
        { "greatest", "timestamp[s]|timestamp[us]", NULL },
        { "is_in", "int32|list<int64>", NULL },
        { "is_in", "string|list<string>", NULL },
        { "not_in", "double|list<double>", NULL },
        { "lookup", "int32|list<int64>|list<int64>", NULL },
        { "lookup", "string|list<string>|list<string>", "strict=true" },
        { "one_hot", "double|list<double>", NULL },
        { "vector", "int32|double", NULL },
        { "vector", "int16|fixed_size_list<item: float>[3]", "to=double" },
        { "cast", "int8", "to=double" },
        { "cast", "bool", "to=int32" },
        { "cast", "double", "to=bool" },
        { "cast", "halffloat", "to=float" },
        { "cast", "float", "to=halffloat" },
        { "cast", "string", "to=large_string" },
        { "cast", "decimal128(10, 2)", "to=double" },
        { "cast", "timestamp[s]", "to=date32" },
        { "cast", "decimal128(10, 2)", "to=string" },
        { "cast", "int64", "to=string" },
    };

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++)
        check_faults(hr__expr_function(cases[i].function), cases[i].types, cases[i].setting);
}

/* --- shared parts are computed once, constant and unused ones never */

static hr_expr *call2(const char *name, hr_expr *a, hr_expr *b)
{
    hr_expr *e = NULL;

    assert_ok(hr_expr_call(name, (hr_expr *[]){ a, b }, 2, NULL, 0, &e, NULL), NULL);
    hr_expr_unref(a);
    hr_expr_unref(b);
    return e;
}

static int n_used_calls(const hr_bound *b)
{
    int n = 0;

    for (int i = 0; i < b->n_nodes; i++)
        n += b->nodes[i].used && b->nodes[i].kind == HR_NODE_CALL;
    return n;
}

static void test_shared(void **unused)
{
    hr_type *types[2] = { hr__type_simple(HR_T_INT32), hr__type_simple(HR_T_INT64) };
    hr_schema *schema = schema_of(types, 2);
    hr_expr *a = NULL, *b = NULL, *one = NULL, *two = NULL, *e[2];
    hr_bound *bound = NULL;

    (void)unused;
    assert_ok(hr_expr_column("a", &a, NULL), NULL);
    assert_ok(hr_expr_column("b", &b, NULL), NULL);
    assert_ok(hr_expr_int(1, &one, NULL), NULL);
    assert_ok(hr_expr_int(2, &two, NULL), NULL);
    /* (a + b) * (a + b), and (a + b) > 1 + 2: a cast, a sum, a product, a comparison */
    e[0] =
        call2("multiply", call2("add", hr_expr_ref(a), hr_expr_ref(b)), call2("add", hr_expr_ref(a), hr_expr_ref(b)));
    e[1] = call2("greater", call2("add", hr_expr_ref(a), hr_expr_ref(b)),
                 call2("add", hr_expr_ref(one), hr_expr_ref(two)));
    assert_ok(hr__exprs_bind(e, 2, schema, &bound, NULL), NULL);
    assert_int_equal(n_used_calls(bound), 4);
    assert_int_equal(hr__bound_type_of(bound, 0)->id, HR_T_INT64);
    assert_int_equal(hr__bound_type_of(bound, 1)->id, HR_T_BOOL);
    hr__bound_free(bound);
    for (int i = 0; i < 2; i++)
        hr_expr_unref(e[i]);
    hr_expr_unref(a);
    hr_expr_unref(b);
    hr_expr_unref(one);
    hr_expr_unref(two);
    hr__schema_unref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_every_function_over_every_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
