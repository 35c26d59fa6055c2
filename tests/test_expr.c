/* test_expr.c - expressions as trees: making, printing, comparing, taking apart; and that every call that fails is
 * survived, from the tree to the rows. */
#include "arrays.h"
#include "expr/expr.h"

static hr_expr *column(const char *name)
{
    hr_expr *e = NULL;

    assert_ok(hr_expr_column(name, &e, NULL), NULL);
    return e;
}

static hr_expr *number(int64_t v)
{
    hr_expr *e = NULL;

    assert_ok(hr_expr_int(v, &e, NULL), NULL);
    return e;
}

/* Takes the arguments; b may be NULL. */
static hr_expr *call(const char *name, hr_expr *a, hr_expr *b)
{
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL, *args[2] = { a, b };

    assert_ok(hr_expr_call(name, args, b ? 2 : 1, NULL, 0, &e, &err), &err);
    hr_expr_unref(a);
    hr_expr_unref(b);
    return e;
}

static void assert_text(hr_expr *takes, const char *want)
{
    char *text = NULL;

    assert_ok(hr_expr_print(takes, &text, NULL), NULL);
    assert_string_equal(text, want);
    hr_string_free(text);
    hr_expr_unref(takes);
}

static void test_print(void **unused)
{
    const char *settings[] = { "to=int32", "safe=false" };
    hr_expr *x = column("x"), *e = NULL;

    (void)unused;
    assert_text(call("and", call("greater", column("x"), number(3)), call("is_null", column("y"), NULL)),
                "(col('x') > 3) & is_null(col('y'))");
    assert_text(call("not", call("or", column("a"), column("b")), NULL), "~(col('a') | col('b'))");
    assert_text(call("negate", call("subtract", number(1), call("subtract", number(2), number(3))), NULL),
                "-(1 - (2 - 3))");
    assert_text(column("it's\n\\"), "col('it\\'s\\x0a\\\\')");
    assert_ok(hr_expr_string("a'b", &e, NULL), NULL);
    assert_text(e, "'a\\'b'");
    assert_ok(hr_expr_double(0.1, &e, NULL), NULL);
    assert_text(e, "0.1");
    assert_ok(hr_expr_call("cast", &x, 1, settings, 2, &e, NULL), NULL);
    assert_text(e, "cast(col('x'), to=int32, safe=false)");
    hr_expr_unref(x);
}

static void test_refused(void **unused)
{
    static const struct {
        const char *function;
        int n_args;
        const char *setting, *want;
        hr_status st;
    } cases[] = {
        { "no_such", 1, NULL, "no function 'no_such'", HR_NOT_FOUND },
        { "add", 1, NULL, "add: 1 arguments, expected 2", HR_INVALID },
        { "not", 2, NULL, "not: 2 arguments, expected 1", HR_INVALID },
        { "cast", 1, "too=x", "cast: no option 'too'", HR_INVALID },
        { "cast", 1, "safe=perhaps", "option 'safe'", HR_INVALID },
        { "add", 2, "x=1", "add: no option 'x'", HR_INVALID },
    };
    hr_expr *x = column("x"), *args[2] = { x, x }, *e = NULL;

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;

        assert_status(hr_expr_call(cases[i].function, args, cases[i].n_args, &cases[i].setting,
                                   cases[i].setting ? 1 : 0, &e, &err),
                      cases[i].st, &err);
        assert_contains(err.text, cases[i].want);
        assert_null(e);
    }
    assert_int_equal(hr_expr_string("\xff", &e, NULL), HR_INVALID);
    hr_expr_unref(x);
}

/* e = e & e doubles the tree each time, and a chain is as deep as it is long: both end in an error, soon. */
static void test_bounds(void **unused)
{
    for (int shape = 0; shape < 2; shape++) {
        hr_expr *e = column("x"), *y = column("y");
        hr_error err = HR_ERROR_INIT;
        hr_status st = HR_OK;

        for (int i = 0; i < 100000 && !st; i++) {
            hr_expr *next = NULL, *args[2] = { e, shape ? y : e };

            st = hr_expr_call("and", args, 2, NULL, 0, &next, &err);
            if (!st) {
                hr_expr_unref(e);
                e = next;
            }
        }
        assert_status(st, HR_INVALID, &err);
        assert_contains(err.text, shape ? "deep" : "parts");
        hr_expr_unref(e);
        hr_expr_unref(y);
    }
    (void)unused;
}

static hr_bits128 fingerprint(const hr_expr *e)
{
    hr_hash h;

    hr__hash_init(&h, 1);
    hr__expr_fingerprint(e, &h);
    return hr__hash_end(&h);
}

static void test_equal(void **unused)
{
    hr_expr *e[9] = {
        call("add", column("x"), number(1)),
        call("add", column("x"), number(1)),
        call("add", column("y"), number(1)),
        call("add", column("x"), number(2)),
        call("subtract", column("x"), number(1)),
        column("x"),
        call("is_null", column("x"), NULL),
        NULL,
        NULL,
    };

    (void)unused;
    assert_ok(hr_expr_double(0.0, &e[7], NULL), NULL);
    assert_ok(hr_expr_double(-0.0, &e[8], NULL), NULL);
    for (int i = 0; i < HR_LEN(e); i++)
        for (int k = 0; k < HR_LEN(e); k++) {
            hr_bits128 a = fingerprint(e[i]), b = fingerprint(e[k]);
            bool want = i == k || (i < 2 && k < 2);

            assert_int_equal(hr__expr_equal(e[i], e[k]), want);
            assert_int_equal(a.lo == b.lo && a.hi == b.hi, want);
        }
    for (int i = 0; i < HR_LEN(e); i++)
        hr_expr_unref(e[i]);
}

static hr_status count_term(void *context, hr_expr *term, hr_error *err)
{
    (void)term, (void)err;
    ++*(int *)context;
    return HR_OK;
}

static void test_parts(void **unused)
{
    hr_expr *e = call("and", call("less", column("a"), column("b")),
                      call("and", column("c"), call("or", column("a"), column("d"))));
    hr_expr *renamed = NULL;
    const char **names = NULL;
    int n = 0, n_terms = 0;

    (void)unused;
    assert_ok(hr__expr_columns(e, &names, &n, NULL), NULL);
    assert_int_equal(n, 4);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[3], "d");
    hr__free(names);
    assert_ok(hr__expr_each_term(e, count_term, &n_terms, NULL), NULL);
    assert_int_equal(n_terms, 3);
    assert_false(hr__expr_row_random(e));
    assert_ok(hr__expr_rename(e, (const char *[]){ "a", "c" }, (const char *[]){ "c", "z" }, 2, &renamed, NULL), NULL);
    assert_text(renamed, "(col('c') < col('b')) & (col('z') & (col('c') | col('d')))");
    hr_expr_unref(e);
}

/* Every function has a unique name and a description, and can be bound. */
static void test_tables(void **unused)
{
    (void)unused;
    for (int i = 0; hr__expr_tables[i]; i++)
        for (const hr_expr_function *f = hr__expr_tables[i]; f->name; f++) {
            assert_ptr_equal(hr__expr_function(f->name), f);
            assert_non_null(f->doc);
            assert_non_null(f->bind);
            assert_non_null(f->eval);
            assert_true(f->max_args < 0 || f->max_args >= f->min_args);
            assert_true(!f->options == !f->options_bytes);
        }
    assert_null(hr__expr_function(""));
}

/* From a tree to kept rows: ((x + 1) * 2 > 5) & (s == "b") & ~is_null(x) | is_in(x, ...) */
static hr_status whole(void *context, hr_error *err)
{
    hr_table *t = context;
    hr_mem mem = { 0 };
    hr_eval how = { .mem = &mem };
    hr_expr *e[12] = { 0 };
    hr_bound *b = NULL;
    hr_array *a = NULL;
    uint8_t keep[64];
    const char *to = "to=double";
    int64_t kept = 0;
    hr_status st = HR_OK;

    HR_GO(hr_expr_column("c0", &e[0], err));
    HR_GO(hr_expr_column("c1", &e[1], err));
    HR_GO(hr_expr_int(1, &e[2], err));
    HR_GO(hr_expr_string("b", &e[3], err));
    HR_GO(hr_expr_call("cast", (hr_expr *[]){ e[0] }, 1, &to, 1, &e[4], err));
    HR_GO(hr_expr_call("add", (hr_expr *[]){ e[4], e[2] }, 2, NULL, 0, &e[5], err));
    HR_GO(hr_expr_call("greater", (hr_expr *[]){ e[5], e[2] }, 2, NULL, 0, &e[6], err));
    HR_GO(hr_expr_call("less", (hr_expr *[]){ e[1], e[3] }, 2, NULL, 0, &e[7], err));
    HR_GO(hr_expr_call("or", (hr_expr *[]){ e[6], e[7] }, 2, NULL, 0, &e[8], err));
    HR_GO(hr_expr_call("is_null", (hr_expr *[]){ e[0] }, 1, NULL, 0, &e[9], err));
    HR_GO(hr_expr_call("xor", (hr_expr *[]){ e[8], e[9] }, 2, NULL, 0, &e[10], err));
    HR_GO(hr__expr_bind_filter(e[10], t->schema, &b, err));
    HR_GO(hr__bound_keep(b, &how, t, keep, &kept, err));
    HR_GO(hr__bound_eval(b, &how, t, &a, err));
done:
    hr__array_unref(a);
    hr__bound_free(b);
    for (int i = 0; i < HR_LEN(e); i++)
        hr_expr_unref(e[i]);
    return st;
}

/* --- equal parts are evaluated once */

static const hr_expr_function *counted_function;
static int n_evaluated;

static hr_status counting(const hr_bound_call *c, const hr_eval *how, hr_array *const *args, hr_array **out,
                          hr_error *err)
{
    n_evaluated++;
    return counted_function->eval(c, how, args, out, err);
}

/* f(x) + 1, f(x) * 2 and f(x) > 3 & f(x) < 9 bound together, each f made anew: one evaluation of f for each table. */
static void test_equal_parts_are_evaluated_once(void **unused)
{
    static hr_expr_function f;
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };
    uint64_t random = 7;
    hr_type *types[1] = { hr__type_simple(HR_T_FLOAT64) };
    hr_table *t = random_table(&random, types, 1, 50);
    hr_expr *calls[4], *es[3];
    hr_array *out[3];
    hr_bound *b = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    counted_function = hr__expr_function("sqrt");
    f = *counted_function;
    f.eval = counting;
    for (int i = 0; i < 4; i++) {
        calls[i] = call("sqrt", column(t->schema->fields[0].name), NULL);
        calls[i]->function = &f;
    }
    es[0] = call("add", calls[0], number(1));
    es[1] = call("multiply", calls[1], number(2));
    es[2] = call("and", call("greater", calls[2], number(3)), call("less", calls[3], number(9)));
    assert_ok(hr__exprs_bind(es, 3, t->schema, &b, &err), &err);
    for (int pass = 1; pass <= 2; pass++) {
        assert_ok(hr__bound_eval_all(b, &how, t, out, &err), &err);
        assert_int_equal(n_evaluated, pass);
        for (int i = 0; i < 3; i++)
            hr__array_unref(out[i]);
    }
    hr__bound_free(b);
    for (int i = 0; i < 3; i++)
        hr_expr_unref(es[i]);
    hr_table_unref(t);
}

static void test_faults(void **unused)
{
    uint64_t random = 7;
    hr_type *types[2] = { hr__type_simple(HR_T_INT32), hr__type_simple(HR_T_STRING) };
    hr_table *t = random_table(&random, types, 2, 50);
    live_memory before = live_now();

    (void)unused;
    run_with_faults_on(whole, t, HR_FAULT_MEMORY);
    assert_no_leak(before);
    hr_table_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_equal_parts_are_evaluated_once),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
