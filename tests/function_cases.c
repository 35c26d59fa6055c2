#include "function_cases.h"

#include <stdio.h>
#include <stdlib.h>

/* Rows of text, unchanged; "null" is a null. *out is new. */
static hr_array *text_rows(const char *rows, char separator)
{
    hr_builder *b = builder_of(hr__type_simple(HR_T_STRING));

    for (const char *p = rows;; p++) {
        const char *end = strchr(p, separator);
        size_t n = end ? (size_t)(end - p) : strlen(p);

        if (n == 4 && !memcmp(p, "null", 4))
            assert_ok(hr__builder_null(b, NULL), NULL);
        else
            assert_ok(hr__builder_bytes(b, p, (int64_t)n, NULL), NULL);
        if (!(p = end))
            break;
    }
    return finish(b);
}

static hr_array *cast_of(hr_array *texts, const char *type)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };
    hr_field field = { 0 };
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    hr_expr *column = NULL, *cast = NULL;
    hr_bound *bound = NULL;
    hr_array *out = NULL;
    char setting[80];

    snprintf(setting, sizeof setting, "to=%s", type);
    assert_ok(hr__field_init(&field, "x", texts->type, true, NULL), NULL);
    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, &texts, texts->length, NULL, &t, NULL), NULL);
    assert_ok(hr_expr_column("x", &column, NULL), NULL);
    assert_ok(hr_expr_call("cast", &column, 1, (const char *[]){ setting }, 1, &cast, NULL), NULL);
    assert_ok(hr__expr_bind(cast, schema, &bound, NULL), NULL);
    assert_ok(hr__bound_eval(bound, &how, t, &out, NULL), NULL);
    hr__bound_free(bound);
    hr_expr_unref(cast);
    hr_expr_unref(column);
    hr_table_unref(t);
    hr__schema_unref(schema);
    hr__field_clear(&field);
    return out;
}

static hr_array *values_of(const char *type, const char *rows);

/* Rows of lists: casts all items at once. */
static hr_array *list_rows(const char *type, const char *rows)
{
    hr_type *t = NULL;
    hr_builder *b;
    hr_array *out, *items;
    char item[60] = "", row[200];

    assert_ok(hr__type_parse(type, &t, NULL), NULL);
    snprintf(item, sizeof item, "%.*s", (int)(strrchr(type, '>') - strchr(type, '<') - 1), strchr(type, '<') + 1);
    b = builder_of(t);
    for (const char *p = rows;; p++) {
        const char *end = strchr(p, '|');

        snprintf(row, sizeof row, "%.*s", end ? (int)(end - p) : (int)strlen(p), p);
        if (!strcmp(row, "null")) {
            assert_ok(hr__builder_null(b, NULL), NULL);
        } else {
            for (char *s = row; *s; s++)
                if (*s == ',')
                    *s = '|';
            items = values_of(item, row);
            for (int64_t i = 0; row[0] && i < items->length; i++)
                append_value(hr__builder_child(b, 0), items, i);
            assert_ok(hr__builder_end(b, NULL), NULL);
            hr__array_unref(items);
        }
        if (!(p = end))
            break;
    }
    out = finish(b);
    hr__type_unref(t);
    return out;
}

static hr_array *values_of(const char *type, const char *rows)
{
    hr_array *out;

    if (strstr(type, "list<"))
        return list_rows(type, rows);
    out = text_rows(!rows[0] && strcmp(type, "string") != 0 ? "null" : rows, '|');
    return strcmp(type, "string") ? cast_of(out, type) : out;
}

typedef struct prepared {
    hr_expr *e;
    hr_table *t;
} prepared;

/* The call, over columns a, b, ... or constants. */
static void prepare(const function_case *c, prepared *out)
{
    hr_field fields[4] = { 0 };
    hr_array *columns[4];
    hr_expr *args[4] = { 0 };
    hr_schema *schema = NULL;
    hr_error err = HR_ERROR_INIT;
    int n_args = 0, n = 0, n_settings = 0;
    int64_t n_rows = 0;

    for (; n_args < 4 && c->args[n_args]; n_args++) {
        const char *arg = c->args[n_args], *colon = strstr(arg, ": ");
        bool constant = arg[0] == '=';
        char type[60], name[2] = { (char)('a' + n), 0 };
        hr_array *values;

        assert_non_null(colon);
        snprintf(type, sizeof type, "%.*s", (int)(colon - arg) - constant, arg + constant);
        if (constant && !strcmp(type, "string"))
            values = text_rows(colon + 2, '\n'); /* newlines, because patterns contain bars */
        else
            values = values_of(type, colon + 2);
        if (constant) {
            assert_ok(hr__expr_value(values, false, &args[n_args], NULL), NULL);
            continue;
        }
        assert_ok(hr__field_init(&fields[n], name, values->type, true, NULL), NULL);
        assert_ok(hr_expr_column(name, &args[n_args], NULL), NULL);
        n_rows = values->length;
        columns[n++] = values;
    }
    if (n == 0) { /* a column only for the number of rows */
        columns[0] = values_of("int8", "1|2|3");
        assert_ok(hr__field_init(&fields[0], "a", columns[0]->type, true, NULL), NULL);
        n_rows = 3;
        n = 1;
    }
    while (n_settings < 3 && c->settings[n_settings])
        n_settings++;
    assert_ok(hr__schema_new(fields, n, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, n_rows, NULL, &out->t, &err), &err);
    assert_ok(hr_expr_call(c->function, args, n_args, c->settings, n_settings, &out->e, &err), &err);
    for (int i = 0; i < n_args; i++)
        hr_expr_unref(args[i]);
    for (int i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    hr__schema_unref(schema);
}

static hr_status run_over(hr_expr *e, hr_table *t, hr_array **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };
    hr_bound *b = NULL;
    hr_status st = hr__expr_bind(e, t->schema, &b, err);

    *out = NULL;
    if (!st)
        st = hr__bound_eval(b, &how, t, out, err);
    hr__bound_free(b);
    return st;
}

static hr_status run_prepared(void *context, hr_error *err)
{
    prepared *p = context;
    hr_array *a = NULL;
    hr_status st = run_over(p->e, p->t, &a, err);

    hr__array_unref(a);
    return st;
}

/* The second half of the rows repeated: a slice with an odd offset gives the same. */
static void check_slice(const prepared *p, const hr_array *want)
{
    const hr_mem mem = { 0 };
    hr_table *twice = NULL, *half = NULL;
    hr_array *got = NULL;

    assert_ok(hr__table_concat(&mem, p->t->schema, (hr_table *[]){ p->t, p->t }, 2, &twice, NULL), NULL);
    assert_ok(hr_table_slice(twice, p->t->n_rows, p->t->n_rows, &half, NULL), NULL);
    assert_ok(run_over(p->e, half, &got, NULL), NULL);
    assert_ok(hr__array_check(got, true, NULL), NULL);
    assert_same_array(got, want);
    hr__array_unref(got);
    hr_table_unref(twice);
    hr_table_unref(half);
}

/* The library then does without machine code. */
static bool uses_regex(const function_case *c)
{
    bool found = c->settings[0] && !strcmp(c->settings[0], "ignore_case=true");

    for (const hr_expr_function *f = hr__fn_regex; f->name; f++)
        found = found || !strcmp(f->name, c->function);
    return found;
}

static bool lacks_library(void)
{
#if defined(HR_HAVE_PCRE2) && defined(HR_HAVE_UTF8PROC)
    return false;
#else
    return true;
#endif
}

static void check_case(const function_case *c)
{
    prepared p = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_array *got = NULL;
    hr_status st;
    char text[1000];

    prepare(c, &p);
    st = run_over(p.e, p.t, &got, &err);
    if (st == HR_UNSUPPORTED && lacks_library()) {
        assert_contains(err.text, "which this build does not have");
        goto done;
    }
    if (st != c->st)
        fail_msg("%s(%s): status %d, expected %d: %s", c->function, c->args[0] ? c->args[0] : "", (int)st, (int)c->st,
                 err.text);
    if (st) {
        assert_contains(err.text, c->want);
    } else {
        snprintf(text, sizeof text, "%s: ", type_text(got->type)); /* both share their memory */
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s", values_text(got));
        if (strcmp(text, c->want) != 0)
            fail_msg("%s(%s): %s; expected %s", c->function, c->args[0] ? c->args[0] : "", text, c->want);
        check_slice(&p, got);
        run_with_faults_on(run_prepared, &p, HR_FAULT_MEMORY | (uses_regex(c) ? MAY_RECOVER : 0));
    }
done:
    hr__array_unref(got);
    hr_error_clear(&err);
    hr_expr_unref(p.e);
    hr_table_unref(p.t);
}

void check_function_cases(const function_case *cases, int n)
{
    live_memory before = live_now();

    for (int i = 0; i < n; i++)
        check_case(&cases[i]);
    assert_no_leak(before);
}
