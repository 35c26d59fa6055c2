/* test_rules.c - every rule of a plan: a plan on which it fires, one near it on which it must not, and the same rows
 * as without rules where a count shows it.
 *
 * The table has a line for each hr_rule; a rule without one fails test_each_rule_has_a_case. */
#include "harness.h"

#include "exec/exec.h"
#include "op/call.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[64]; /* with one picture, a bitmap */

static int make_folder(void **state)
{
    hr_mem mem = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_buffer *bytes = NULL;
    hr_image image = { 0 };

    (void)state;
    setenv("HEADRACE_RULES", "strict", 1);
    temp_dir_new(folder);
    assert_ok(hr__image_new(&mem, HR_PIXELS_RGB, 20, 31, &image, &err), &err);
    memset(image.data, 7, (size_t)(image.stride * image.height));
    assert_ok(hr__bmp_encode(&image, &(hr_image_save){ 0 }, &mem, &bytes, &err), &err);
    temp_file(folder, "0.bmp", bytes->data, bytes->n_bytes);
    hr__buffer_unref(bytes);
    hr__image_clear(&image);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    temp_dir_free(folder);
    unsetenv("HEADRACE_RULES");
    return 0;
}

/* ------------------------------------------------------------------------------- plans: each step takes its input */

static hr_plan *range(int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    assert_ok(hr_plan_range(n, "id", &p, &err), &err);
    return p;
}

static hr_plan *next(hr_plan *in, hr_plan *out, hr_status st, hr_error *err)
{
    assert_ok(st, err);
    hr_plan_unref(in);
    return out;
}

static hr_plan *project(hr_plan *in, const char *name, const char *new_name)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_project(in, &name, &new_name, 1, &out, &err);

    return next(in, out, st, &err);
}

static hr_plan *limit(hr_plan *in, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_limit(in, n, &out, &err);

    return next(in, out, st, &err);
}

static hr_plan *slice(hr_plan *in, int64_t begin, int64_t end)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_slice(in, begin, end, &out, &err);

    return next(in, out, st, &err);
}

static hr_plan *number_rows(hr_plan *in)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_number_rows(in, "number", &out, &err);

    return next(in, out, st, &err);
}

static hr_plan *sort(hr_plan *in, const char *column)
{
    hr_sort_key key = { .struct_bytes = sizeof key, .column = column, .descending = true };
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_sort(in, &key, 1, &out, &err);

    return next(in, out, st, &err);
}

static hr_plan *repartition(hr_plan *in)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_repartition(in, 3, NULL, &out, &err);

    return next(in, out, st, &err);
}

static hr_plan *random_blocks(hr_plan *in)
{
    const uint64_t seed = 1;
    hr_shuffle_options o = { .struct_bytes = sizeof o, .seed = &seed };
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_randomize_block_order(in, &o, &out, &err);

    return next(in, out, st, &err);
}

/* function(column, 5) */
static hr_expr *with_five(const char *function, const char *column)
{
    hr_error err = HR_ERROR_INIT;
    hr_expr *args[2] = { NULL }, *e = NULL;

    assert_ok(hr_expr_column(column, &args[0], &err), &err);
    assert_ok(hr_expr_int(5, &args[1], &err), &err);
    assert_ok(hr_expr_call(function, args, 2, NULL, 0, &e, &err), &err);
    hr_expr_unref(args[0]);
    hr_expr_unref(args[1]);
    return e;
}

/* column < 5 */
static hr_plan *filter(hr_plan *in, const char *column)
{
    hr_expr *e = with_five("less", column);
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_filter_expr(in, e, &out, &err);

    hr_expr_unref(e);
    return next(in, out, st, &err);
}

/* And `name`, which is `column` + 5. */
static hr_plan *compute(hr_plan *in, const char *name, const char *column)
{
    hr_expr *e = with_five("add", column);
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_with_columns(in, &name, &e, 1, &out, &err);

    hr_expr_unref(e);
    return next(in, out, st, &err);
}

/* A function of workers that makes column `name` of `id`. */
static hr_plan *call(hr_plan *in, const char *name)
{
    static const char *const columns[] = { "id" };
    hr_calls_options o = { .name = "f", .one_to_one = true, .made = name, .columns = columns, .n_columns = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_calls *calls = NULL;
    hr_plan *out = NULL;
    hr_op *op = NULL;
    hr_status st;

    assert_ok(hr__calls_new("f", &calls, &err), &err);
    assert_ok(hr__op_calls(calls, &o, &op, &err), &err);
    hr__calls_unref(calls);
    st = hr__plan_op(in, op, &out, &err);
    return next(in, out, st, &err);
}

static hr_plan *join(hr_plan *left, hr_plan *right, hr_join_kind kind)
{
    static const char *const keys[] = { "id" };
    hr_join_options o = { .struct_bytes = sizeof o, .kind = kind, .left_keys = keys, .n_keys = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *out = NULL;
    hr_status st = hr_plan_join(left, right, &o, &out, &err);

    hr_plan_unref(right);
    return next(left, out, st, &err);
}

/* Images, made smaller; `sees`: somebody looks at them as they were. */
static hr_plan *images(bool sees)
{
    static const char *const settings[] = { "height=8", "width=9" }, *mode = "mode=RGB";
    const char *urls[] = { folder }, *name = sees ? "small" : "image";
    hr_read_options options = { .struct_bytes = sizeof options, .format_options = &mode, .n_format_options = 1 };
    hr_expr *image = NULL, *small = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = NULL, *out = NULL;
    hr_status st;

    assert_ok(hr_plan_read(urls, 1, "images", &options, &in, &err), &err);
    assert_ok(hr_expr_column("image", &image, &err), &err);
    assert_ok(hr_expr_call("image_resize", &image, 1, settings, 2, &small, &err), &err);
    st = hr_plan_with_columns(in, &name, &small, 1, &out, &err);
    hr_expr_unref(image);
    hr_expr_unref(small);
    return next(in, out, st, &err);
}

/* ------------------------------------------------------------------------------------------------------- the table */

static hr_plan *columns_fires(void) { return project(compute(range(100), "x", "id"), "x", "x"); }
static hr_plan *columns_not(void) { return compute(range(100), "x", "id"); }
static hr_plan *narrow_fires(void) { return project(compute(range(100), "x", "id"), "id", "id"); }
static hr_plan *narrow_not(void) { return project(range(100), "id", "id"); }
static hr_plan *uncalled_fires(void) { return project(call(range(100), "x"), "id", "id"); }
static hr_plan *uncalled_not(void) { return project(call(range(100), "x"), "x", "x"); }
static hr_plan *rows_fires(void) { return limit(project(range(100), "id", "n"), 7); }
static hr_plan *rows_not(void) { return limit(filter(range(100), "id"), 7); }
static hr_plan *skip_fires(void) { return slice(range(100), 10, 20); }
static hr_plan *skip_not(void) { return slice(filter(range(100), "id"), 10, 20); }
static hr_plan *first_rows_fires(void) { return limit(sort(range(100), "id"), 7); }
static hr_plan *first_rows_not(void) { return limit(filter(sort(range(100), "id"), "id"), 7); }
static hr_plan *sorted_fires(void) { return sort(project(sort(range(100), "id"), "id", "n"), "n"); }
static hr_plan *sorted_not(void) { return sort(compute(sort(range(100), "id"), "x", "id"), "x"); }
static hr_plan *filter_fires(void) { return filter(project(range(100), "id", "n"), "n"); }
static hr_plan *filter_not(void) { return filter(compute(range(100), "x", "id"), "x"); }
static hr_plan *sides_fires(void)
{
    return filter(join(range(100), compute(range(10), "x", "id"), HR_JOIN_LEFT), "id");
}
static hr_plan *sides_not(void) { return filter(join(range(100), compute(range(10), "x", "id"), HR_JOIN_LEFT), "x"); }
static hr_plan *partners_fires(void) { return join(range(100), compute(range(10), "x", "id"), HR_JOIN_INNER); }
static hr_plan *partners_not(void) { return join(range(100), compute(range(10), "x", "id"), HR_JOIN_LEFT); }
static hr_plan *first_input_fires(void) { return join(range(10), range(100000), HR_JOIN_INNER); }
static hr_plan *first_input_not(void) { return join(range(10), range(10), HR_JOIN_INNER); }
static hr_plan *blocks_fires(void) { return random_blocks(filter(range(100), "id")); }
static hr_plan *blocks_not(void) { return random_blocks(limit(range(100), 50)); }
static hr_plan *permuted_fires(void) { return random_blocks(repartition(range(100))); }
static hr_plan *permuted_not(void) { return random_blocks(number_rows(repartition(range(100)))); }
static hr_plan *images_fires(void) { return images(false); }
static hr_plan *images_not(void) { return images(true); }

static const struct {
    hr_plan *(*fires)(void), *(*near)(void);
    int64_t n_rows[2]; /* of both plans; -1: a function that nobody serves */
} cases[HR_N_RULES] = {
    [HR_RULE_COLUMNS] = { columns_fires, columns_not, { 100, 100 } },
    [HR_RULE_NARROW] = { narrow_fires, narrow_not, { 100, 100 } },
    [HR_RULE_UNCALLED] = { uncalled_fires, uncalled_not, { 100, -1 } },
    [HR_RULE_ROWS] = { rows_fires, rows_not, { 7, 5 } },
    [HR_RULE_SKIP] = { skip_fires, skip_not, { 10, 0 } },
    [HR_RULE_SORTED] = { sorted_fires, sorted_not, { 100, 100 } },
    [HR_RULE_FIRST_ROWS] = { first_rows_fires, first_rows_not, { 7, 5 } },
    [HR_RULE_FILTER] = { filter_fires, filter_not, { 5, 0 } },
    [HR_RULE_SIDES] = { sides_fires, sides_not, { 5, 0 } },
    [HR_RULE_PARTNERS] = { partners_fires, partners_not, { 10, 100 } },
    [HR_RULE_FIRST_INPUT] = { first_input_fires, first_input_not, { 10, 10 } },
    [HR_RULE_BLOCKS] = { blocks_fires, blocks_not, { 5, 50 } },
    [HR_RULE_PERMUTED] = { permuted_fires, permuted_not, { 100, 100 } },
    [HR_RULE_IMAGES] = { images_fires, images_not, { 1, 1 } },
};

static int64_t rows_of(hr_plan *p)
{
    hr_run_options options = { .prefetch = 1, .num_threads = 2, .seed = 5 };
    hr_error err = HR_ERROR_INIT;
    hr_run *run = NULL;
    hr_table *t = NULL;
    int64_t n = 0;

    assert_ok(hr__run_start(p, &options, &run, &err), &err);
    do {
        assert_ok(hr__run_next(run, -1, &t, NULL, &err), &err);
        n += t ? t->n_rows : 0;
        hr_table_unref(t);
    } while (t);
    hr__run_close(run);
    return n;
}

static const char *const rule_names[HR_N_RULES] = {
    "columns", "narrow", "uncalled", "rows",        "skip",   "sorted",   "first_rows",
    "filter",  "sides",  "partners", "first_input", "blocks", "permuted", "images",
};

static void check(hr_rule rule, hr_plan *p, bool fires, int64_t n_rows)
{
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_plan *rewritten = NULL;

    assert_ok(hr__plan_schema_early(p, &schema, &err), &err); /* for HEADRACE_RULES=strict */
    assert_ok(hr__plan_rewrite(p, &rewritten, &err), &err);
    if ((hr__plan_rules(rewritten) >> rule & 1) != fires)
        fail_msg("rule %s %s", rule_names[rule], fires ? "does not fire" : "fires beside its plan");
    if (n_rows >= 0)
        assert_int_equal(rows_of(p), n_rows);
    hr__schema_unref(schema);
    hr_plan_unref(rewritten);
    hr_plan_unref(p);
}

static void test_each_rule_has_a_case(void **unused)
{
    (void)unused;
    for (int i = 0; i < HR_N_RULES; i++) {
        assert_non_null(rule_names[i]);
        if (!cases[i].fires || !cases[i].near)
            fail_msg("rule %s has no plan on which it fires, or none near it", rule_names[i]);
    }
}

static void test_rules_fire(void **unused)
{
    (void)unused;
    for (int i = 0; i < HR_N_RULES; i++)
        check((hr_rule)i, cases[i].fires(), true, cases[i].n_rows[0]);
}

static void test_rules_do_not_fire_beside(void **unused)
{
    (void)unused;
    for (int i = 0; i < HR_N_RULES; i++)
        check((hr_rule)i, cases[i].near(), false, cases[i].n_rows[1]);
}

/* An operator whose narrow() forgets a column. */
static const hr_op_class forgetful;

static hr_status forget(const hr_op *op, const char *const *wanted, int n, hr_op **out, hr_error *err)
{
    (void)op;
    (void)wanted;
    (void)n;
    return hr__op_project((const char *[]){ "id" }, (const char *[]){ "gone" }, 1, out, err);
}

static void forgetful_free(hr_op *op) { hr__free(op); }

static const hr_op_class forgetful = { .name = "forgetful",
                                       .kind = HR_OP_MAP,
                                       .schema = hr__kept_schema,
                                       .needs = hr__same_needs,
                                       .narrow = forget,
                                       .free = forgetful_free };

static void test_strict_finds_a_bad_trait(void **unused)
{
    hr_plan *in = range(10), *p = NULL, *top, *rewritten = NULL;
    hr_op *op = hr__zalloc(NULL, sizeof *op);
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;

    (void)unused;
    hr__op_init(op, &forgetful);
    assert_ok(hr__plan_op(in, op, &p, &err), &err);
    top = sort(p, "id"); /* of which all columns are wanted: the operator is left alone */
    assert_ok(hr__plan_schema_early(top, &schema, &err), &err);
    assert_ok(hr__plan_rewrite(top, &rewritten, &err), &err);
    hr_plan_unref(rewritten);
    hr__schema_unref(schema);
    top = compute(project(top, "id", "id"), "x", "id");
    assert_ok(hr__plan_schema_early(top, &schema, &err), &err);
    assert_int_not_equal(hr__plan_rewrite(top, &rewritten, &err), HR_OK);
    assert_null(rewritten);
    hr__schema_unref(schema);
    hr_error_clear(&err);
    setenv("HEADRACE_RULES", "", 1); /* nobody looks */
    assert_ok(hr__plan_rewrite(top, &rewritten, &err), &err);
    setenv("HEADRACE_RULES", "strict", 1);
    hr_plan_unref(rewritten);
    hr_plan_unref(top);
    hr_plan_unref(in);
}

/* A suffix that a name has stays, though the column that it clashes with is not read. */
static void test_narrowed_join_keeps_its_names(void **unused)
{
    static const char *const keys[] = { "id" }, *const wanted[] = { "x_right" };
    hr_join_options o = { .struct_bytes = sizeof o, .left_keys = keys, .n_keys = 1, .right_suffix = "_right" };
    hr_plan *left = compute(range(9), "x", "id"), *right = compute(range(9), "x", "id"), *p = NULL, *top = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    assert_ok(hr_plan_join(left, right, &o, &p, &err), &err);
    assert_ok(hr_plan_project(p, wanted, NULL, 1, &top, &err), &err);
    check(HR_RULE_NARROW, top, true, 9);
    hr_plan_unref(p);
    hr_plan_unref(left);
    hr_plan_unref(right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rule_has_a_case),     cmocka_unit_test(test_rules_fire),
        cmocka_unit_test(test_rules_do_not_fire_beside), cmocka_unit_test(test_narrowed_join_keeps_its_names),
        cmocka_unit_test(test_strict_finds_a_bad_trait),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
