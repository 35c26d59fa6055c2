/* test_plan.c - plans as data: checks when a node is made, schemas, counts, explain, fingerprints, and what the rules
 * push down. */
#include "harness.h"

#include "exec/exec.h"

#include <stdio.h>
#include <stdlib.h>

/* Two int64 columns a, b and a string column s; row i is (first + i, -i, "row i"). */
static hr_table *sample(int64_t n, int64_t first)
{
    static const char *const names[] = { "a", "b", "s" };
    hr_mem mem = { 0 };
    hr_field fields[3];
    hr_array *columns[3];
    hr_schema *schema = NULL;
    hr_table *t = NULL;

    for (int c = 0; c < 3; c++) {
        hr_builder *b = NULL;
        hr_type *type = hr__type_simple(c < 2 ? HR_T_INT64 : HR_T_STRING);
        char text[32];

        assert_ok(hr__builder_new(&mem, type, &b, NULL), NULL);
        for (int64_t i = 0; i < n; i++) {
            snprintf(text, sizeof text, "row %d", (int)i);
            if (c < 2)
                assert_ok(hr__builder_int(b, c ? -i : first + i, NULL), NULL);
            else
                assert_ok(hr__builder_bytes(b, text, (int64_t)strlen(text), NULL), NULL);
        }
        assert_ok(hr__builder_finish(b, &columns[c], NULL), NULL);
        hr__builder_free(b);
        assert_ok(hr__field_init(&fields[c], names[c], type, true, NULL), NULL);
    }
    assert_ok(hr__schema_new(fields, 3, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, n, NULL, &t, NULL), NULL);
    hr__schema_unref(schema);
    for (int c = 0; c < 3; c++)
        hr__field_clear(&fields[c]);
    return t;
}

static hr_plan *sample_plan(int n_tables, int64_t rows)
{
    hr_table *tables[8] = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    for (int i = 0; i < n_tables; i++)
        tables[i] = sample(rows, i * rows);
    assert_ok(hr_plan_tables(tables, n_tables, &p, &err), &err);
    for (int i = 0; i < n_tables; i++)
        hr_table_unref(tables[i]);
    return p;
}

static void assert_schema(hr_plan *p, const char *want)
{
    hr_error err = HR_ERROR_INIT;
    hr_schema *s = NULL;
    hr_text t = { 0 };

    assert_ok(hr__plan_schema(p, &s, &err), &err);
    hr__schema_print(s, &t);
    assert_string_equal(t.data, want);
    hr__text_clear(&t);
    hr__schema_unref(s);
}

static void test_project_is_checked_at_once(void **state)
{
    const char *good[] = { "s", "a" }, *bad[] = { "a", "x" }, *twice[] = { "a", "a" };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = sample_plan(2, 10), *q = NULL;

    (void)state;
    assert_ok(hr_plan_project(p, good, NULL, 2, &q, &err), &err);
    assert_schema(q, "s: string\na: int64\n");
    hr_plan_unref(q);
    assert_int_equal(hr_plan_project(p, bad, NULL, 2, &q, &err), HR_INVALID);
    assert_contains(err.text, "x");
    assert_null(q);
    assert_int_equal(hr_plan_project(p, twice, NULL, 2, &q, &err), HR_INVALID);
    assert_null(q);
    hr_plan_unref(p);
}

static void test_union_is_checked_at_once(void **state)
{
    const char *names[] = { "a", "s" }, *new_names[] = { "s", "a" }, *others[] = { "a", "new" };
    hr_schema *schema = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_plan *ins[2] = { sample_plan(1, 10), NULL }, *u = NULL;

    (void)state;
    assert_ok(hr_plan_project(ins[0], names, new_names, 2, &ins[1], &err), &err);
    assert_int_equal(hr_plan_union(ins, 2, &u, &err), HR_TYPE);
    assert_contains(err.text, "input 1");
    assert_null(u);
    hr_plan_unref(ins[1]);
    assert_ok(hr_plan_project(ins[0], names, others, 2, &ins[1], &err), &err);
    assert_ok(hr_plan_union(ins, 2, &u, &err), &err); /* each lacks a column of the other */
    assert_ok(hr__plan_schema_early(u, &schema, &err), &err);
    assert_int_equal(schema->n, 4);
    assert_string_equal(schema->fields[0].name, "a");
    assert_string_equal(schema->fields[2].name, "s");
    assert_string_equal(schema->fields[3].name, "new");
    hr__schema_unref(schema);
    hr_plan_unref(u);
    assert_int_equal(hr_plan_union(ins, 0, &u, &err), HR_INVALID);
    hr_plan_unref(ins[0]);
    hr_plan_unref(ins[1]);
}

static void test_counts_from_metadata(void **state)
{
    hr_plan *p = sample_plan(3, 10), *first = NULL, *both = NULL, *batches = NULL, *ins[2] = { p, NULL };
    hr_error err = HR_ERROR_INIT;
    int64_t n = 0;

    (void)state;
    assert_ok(hr_plan_count(p, &n, &err), &err);
    assert_int_equal(n, 30);
    assert_ok(hr_plan_limit(p, 12, &first, &err), &err);
    assert_ok(hr_plan_count(first, &n, &err), &err);
    assert_int_equal(n, 12);
    ins[1] = first;
    assert_ok(hr_plan_union(ins, 2, &both, &err), &err);
    assert_ok(hr_plan_count(both, &n, &err), &err);
    assert_int_equal(n, 42);
    assert_ok(hr_plan_rebatch(both, 10, true, &batches, &err), &err);
    assert_ok(hr_plan_count(batches, &n, &err), &err);
    assert_int_equal(n, 40);
    hr_plan_unref(batches);
    hr_plan_unref(both);
    hr_plan_unref(first);
    hr_plan_unref(p);
}

/* Tables are filtered by several threads at once. */
static hr_status keep_all(void *context, const hr_table *in, uint8_t *keep, hr_error *err)
{
    (void)err;
    atomic_store((atomic_int *)context, hr_table_columns(in));
    memset(keep, 1, (size_t)hr_table_rows(in));
    return HR_OK;
}

/* A projection narrows what is read, but not through a function, which sees every column. */
static void test_rules(void **state)
{
    atomic_int seen = 0;
    hr_filter_function fn = { .struct_bytes = sizeof fn, .name = "f", .context = &seen, .call = keep_all };
    const char *names[] = { "b" };
    hr_plan *p = sample_plan(2, 10), *filtered = NULL, *q = NULL, *first = NULL;
    hr_run_options options = { .prefetch = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_run *r = NULL;
    char *text = NULL;

    (void)state;
    assert_ok(hr_plan_project(p, names, NULL, 1, &q, &err), &err);
    assert_ok(hr_plan_limit(q, 3, &first, &err), &err);
    assert_ok(hr_plan_explain(first, &text, &err), &err);
    assert_contains(strstr(text, "runs as"), "columns=[b] rows<=3");
    assert_null(strstr(strstr(text, "plan:"), "columns=[b]") < strstr(text, "runs as") ? text : NULL);
    hr_string_free(text);
    hr_plan_unref(first);
    hr_plan_unref(q);

    assert_ok(hr_plan_filter_function(p, &fn, &filtered, &err), &err);
    assert_ok(hr_plan_project(filtered, names, NULL, 1, &q, &err), &err);
    assert_ok(hr__run_start(q, &options, &r, &err), &err);
    assert_ok(hr__run_next(r, -1, &t, NULL, &err), &err);
    assert_int_equal(hr_table_columns(t), 1);
    assert_int_equal(atomic_load(&seen), 3);
    hr_table_unref(t);
    hr__run_close(r);
    hr_plan_unref(q);
    hr_plan_unref(filtered);
    hr_plan_unref(p);
}

static hr_status halve(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    return hr_table_slice(in, 0, in->n_rows / 2, out, err);
}

static void test_late_schema(void **state)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "halve", .call = halve };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = sample_plan(1, 10), *q = NULL, *none = NULL, *empty = NULL;
    hr_schema *s = NULL;

    (void)state;
    assert_ok(hr_plan_map(p, &fn, NULL, &q, &err), &err);
    assert_ok(hr__plan_schema_early(q, &s, &err), &err);
    assert_null(s);
    assert_schema(q, "a: int64\nb: int64\ns: string\n");
    assert_ok(hr__plan_schema_early(q, &s, &err), &err);
    assert_non_null(s);
    hr__schema_unref(s);
    assert_ok(hr_plan_limit(p, 0, &none, &err), &err);
    assert_ok(hr_plan_map(none, &fn, NULL, &empty, &err), &err);
    assert_int_equal(hr__plan_schema(empty, &s, &err), HR_NOT_FOUND);
    hr_plan_unref(empty);
    hr_plan_unref(none);
    hr_plan_unref(q);
    hr_plan_unref(p);
}

static void test_fingerprints(void **state)
{
    hr_plan *p = sample_plan(1, 10), *a = NULL, *b = NULL, *c = NULL;
    char fa[33], fb[33], fc[33];

    (void)state;
    assert_ok(hr_plan_limit(p, 5, &a, NULL), NULL);
    assert_ok(hr_plan_limit(p, 5, &b, NULL), NULL);
    assert_ok(hr_plan_limit(p, 6, &c, NULL), NULL);
    assert_ok(hr_plan_fingerprint(a, fa, NULL), NULL);
    assert_ok(hr_plan_fingerprint(b, fb, NULL), NULL);
    assert_ok(hr_plan_fingerprint(c, fc, NULL), NULL);
    assert_string_equal(fa, fb);
    assert_string_not_equal(fa, fc);
    hr_plan_unref(a);
    hr_plan_unref(b);
    hr_plan_unref(c);
    hr_plan_unref(p);
}

static hr_status make_plans(hr_error *err)
{
    const char *names[] = { "id" }, *new_names[] = { "n" };
    hr_plan *p = NULL, *q = NULL, *r = NULL;
    char *text = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_plan_range(100, "id", &p, err));
    HR_GO(hr_plan_project(p, names, new_names, 1, &q, err));
    HR_GO(hr_plan_union((hr_plan *[]){ q, q }, 2, &r, err));
    HR_GO(hr_plan_explain(r, &text, err));
done:
    hr_string_free(text);
    hr_plan_unref(r);
    hr_plan_unref(q);
    hr_plan_unref(p);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(run_with_faults(make_plans, HR_FAULT_MEMORY) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_project_is_checked_at_once),
        cmocka_unit_test(test_union_is_checked_at_once),
        cmocka_unit_test(test_counts_from_metadata),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_late_schema),
        cmocka_unit_test(test_fingerprints),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
