/* late.c - the schema of a plan whose functions declare none: runs the plan until its first table.
 *
 * Tests: test_plan.c. */
#include "exec/exec.h"

/* The schema of the first table; an error if there is none. */
static hr_status late(hr_plan *p, hr_schema **out, hr_error *err)
{
    hr_run_options options = { .prefetch = 1 };
    hr_plan *one = NULL;
    hr_run *run = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_plan_limit(p, 1, &one, err));
    HR_GO(hr__run_start(one, &options, &run, err));
    st = hr__run_next(run, -1, &t, NULL, err);
    if (st == HR_PENDING)
        HR_FAIL(HR_UNSUPPORTED,
                "schema unknown: a function that runs in the consumer's thread declares no schema; take a row first");
    HR_GO(st);
    if (!t)
        HR_FAIL(HR_NOT_FOUND, "schema unknown: the function declares no schema and produced no rows");
    *out = hr__schema_ref(t->schema);
    hr__plan_learn_schema(p, *out);
done:
    hr_table_unref(t);
    hr__run_close(run);
    hr_plan_unref(one);
    return st;
}

hr_status hr__plan_schema(hr_plan *p, hr_schema **out, hr_error *err)
{
    HR_TRY(hr__plan_schema_early(p, out, err));
    return *out ? HR_OK : late(p, out, err);
}

hr_status hr_plan_schema(hr_plan *p, struct ArrowSchema *out, hr_error *err)
{
    HR_NEED(p, out);

    hr_schema *s = NULL;
    hr_status st;

    HR_TRY(hr__plan_schema(p, &s, err));
    st = hr__schema_export(s, out, err);
    hr__schema_unref(s);
    return st;
}

hr_status hr_plan_print_schema(hr_plan *p, char **out, hr_error *err)
{
    HR_NEED(p, out);

    hr_schema *s = NULL;
    hr_text text = { 0 };

    *out = NULL;
    HR_TRY(hr__plan_schema(p, &s, err));
    hr__text_add_bytes(&text, "", 0);
    hr__schema_print(s, &text);
    hr__schema_unref(s);
    if (text.failed) {
        hr__text_clear(&text);
        return hr__error_memory(err, "schema", text.n);
    }
    *out = text.data;
    return HR_OK;
}
