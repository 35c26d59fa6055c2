/* catalog.c - lists formats, functions and aggregates with their options, for headrace.h.
 *
 * The lists come from the tables with which the engine parses options, so they cannot differ from what it does.
 *
 * Tests: test_public_api.c. */
#include "plan/plan.h"

hr_status hr_format_at(int i, hr_format_info *out, hr_error *err)
{
    HR_NEED(out);

    hr_format_info info = { 0 };
    int n = 0;

    HR_TRY(hr__struct_fill("hr_format_info", out, NULL, 0, err));
    while (hr__formats[n])
        n++;
    if (i < 0 || i >= n)
        return hr_error_set(err, HR_NOT_FOUND, "format %d of %d", i, n);
    info.name = hr__formats[i]->name;
    info.suffixes = hr__formats[i]->suffixes;
    info.doc = hr__formats[i]->doc;
    info.can_write = hr__formats[i]->create != NULL;
    return hr__struct_fill("hr_format_info", out, &info, sizeof info, err);
}

const char *hr_format_of_path(const char *path)
{
    const hr_format *f = path ? hr__format_guess(path, (hr_view){ NULL, 0 }) : NULL;

    return f ? f->name : NULL;
}

/* The table as text; takes nothing. */
static hr_status options_text(const hr_option *table, char **out, hr_error *err)
{
    hr_text text = { 0 };

    hr__options_print(table, &text);
    hr__text_add_bytes(&text, "", 0); /* a table without options is an empty text, not NULL */
    if (text.failed) {
        hr__text_clear(&text);
        return hr__error_memory(err, "options", text.n);
    }
    *out = text.data;
    return HR_OK;
}

static hr_status no_format(const char *name, hr_error *err)
{
    hr_near near;

    hr__format_near(name, &near);
    return hr_error_set(err, HR_NOT_FOUND, "no format '%s'%s; `headrace formats` lists them", name,
                        hr__near_hint(&near));
}

hr_status hr_format_options(const char *format, hr_direction direction, char **out, hr_error *err)
{
    HR_NEED(format, out);

    const hr_format *f = hr__format_by_name(format);

    *out = NULL;
    if (!f)
        return no_format(format, err);
    if ((int)direction < HR_READ || direction > HR_WRITE)
        return hr_error_set(err, HR_INVALID, "format options: direction %d, expected 0 or 1", (int)direction);
    if (direction == HR_WRITE && !f->create)
        return hr_error_set(err, HR_UNSUPPORTED, "%s files can be read, not written", format);
    return options_text(direction == HR_READ ? f->options : f->write_options, out, err);
}

/* Function number i; NULL: there are fewer, *n is their number. */
static const hr_expr_function *function_at(int i, int *n)
{
    *n = 0;
    for (int k = 0; hr__expr_tables[k]; k++)
        for (const hr_expr_function *f = hr__expr_tables[k]; f->name; f++)
            if ((*n)++ == i)
                return f;
    return NULL;
}

hr_status hr_function_at(int i, hr_function_info *out, hr_error *err)
{
    HR_NEED(out);

    hr_function_info info = { 0 };
    const hr_expr_function *f;
    int n;

    HR_TRY(hr__struct_fill("hr_function_info", out, NULL, 0, err));
    if ((f = function_at(i, &n))) {
        info.name = f->name;
        info.symbol = f->symbol;
        info.doc = f->doc;
        info.min_args = f->min_args;
        info.max_args = f->max_args;
    } else {
        info.is_aggregate = true;
        info.min_args = 0;
        info.max_args = 1;
        info.name = i < n ? NULL : hr__aggregate_at(i - n, &info.doc);
    }
    if (!info.name)
        return hr_error_set(err, HR_NOT_FOUND, "there is no function %d", i);
    return hr__struct_fill("hr_function_info", out, &info, sizeof info, err);
}

hr_status hr_function_options(const char *function, char **out, hr_error *err)
{
    HR_NEED(function, out);

    const hr_expr_function *f = hr__expr_function(function);

    *out = NULL;
    if (!f)
        return hr_error_set(err, HR_NOT_FOUND, "no function '%s'; `headrace functions` lists what there is", function);
    return options_text(f->options, out, err);
}

/* ----------------------------------------------------------------------------------------------------------- files */

hr_scan *hr__scan_of(const hr_plan *p)
{
    while (p->kind == HR_PLAN_OP && p->n_inputs == 1)
        p = p->inputs[0];
    return p->kind == HR_PLAN_SCAN ? p->scan : NULL;
}

hr_status hr_plan_files(hr_plan *p, int *out, hr_error *err)
{
    HR_NEED(p, out);

    hr_scan *scan = hr__scan_of(p);

    *out = 0;
    if (!scan)
        return hr_error_set(err, HR_INVALID, "files: the plan has several inputs");
    *out = hr__scan_orders_files(scan) ? hr__scan_n_files(scan) : 0;
    return HR_OK;
}

static hr_status describe_part(hr_scan_file *f, int fragment, bool json, hr_text *text, hr_error *err)
{
    return f->cls->describe ? f->cls->describe(f, fragment, json, text, err) : HR_OK;
}

static hr_status describe_fragment(hr_scan_file *f, int i, hr_text *text, hr_error *err)
{
    hr_fragment fragment;

    HR_TRY(f->cls->fragment(f, i, &fragment, err));
    hr__text_add(text, "fragment %d: ", i);
    if (fragment.n_rows >= 0)
        hr__text_add(text, "%lld rows, ", (long long)fragment.n_rows);
    hr__text_add(text, "%lld bytes stored, about %lld in memory\n", (long long)fragment.stored_bytes,
                 (long long)fragment.memory_bytes);
    return describe_part(f, i, false, text, err);
}

static hr_status describe_lines(hr_scan_file *f, hr_text *text, hr_error *err)
{
    hr__text_add(text, "%s: ", f->name);
    if (f->n_rows >= 0)
        hr__text_add(text, "%lld rows in ", (long long)f->n_rows);
    hr__text_add(text, "%d fragment%s\n", f->n_fragments, f->n_fragments == 1 ? "" : "s");
    HR_TRY(describe_part(f, -1, false, text, err));
    for (int i = 0; i < f->n_fragments && !text->failed; i++)
        HR_TRY(describe_fragment(f, i, text, err));
    return HR_OK;
}

/* "rows": null: only reading finds it out. */
static void add_rows(int64_t n, hr_text *text)
{
    if (n >= 0)
        hr__text_add(text, "\"rows\": %lld", (long long)n);
    else
        hr__text_add(text, "\"rows\": null");
}

static hr_status describe_json(hr_scan_file *f, hr_text *text, hr_error *err)
{
    hr__text_add(text, "{\"path\": ");
    hr__text_add_json(text, f->name);
    hr__text_add(text, ", ");
    add_rows(f->n_rows, text);
    HR_TRY(describe_part(f, -1, true, text, err));
    hr__text_add(text, ", \"fragments\": [");
    for (int i = 0; i < f->n_fragments && !text->failed; i++) {
        hr_fragment fragment;

        HR_TRY(f->cls->fragment(f, i, &fragment, err));
        hr__text_add(text, i ? ", {" : "{");
        add_rows(fragment.n_rows, text);
        hr__text_add(text, ", \"stored_bytes\": %lld, \"memory_bytes\": %lld", (long long)fragment.stored_bytes,
                     (long long)fragment.memory_bytes);
        HR_TRY(describe_part(f, i, true, text, err));
        hr__text_add(text, "}");
    }
    hr__text_add(text, "]}\n");
    return HR_OK;
}

/* As print says, lines or JSON. */
static hr_status describe(hr_plan *p, int i, hr_status (*print)(hr_scan_file *f, hr_text *text, hr_error *err),
                          char **out, hr_error *err)
{
    hr_scan_file *f = NULL;
    hr_text text = { 0 };
    hr_status st = HR_OK;
    int n;

    *out = NULL;
    HR_TRY(hr_plan_files(p, &n, err));
    if (i < 0 || i >= n)
        return hr_error_set(err, HR_INVALID, "file %d of %d", i, n);
    HR_TRY(hr__scan_open(hr__scan_of(p), i, &(hr_open){ 0 }, &f, err));
    HR_GO(print(f, &text, err));
    if (text.failed)
        HR_GO(hr__error_memory(err, f->name, text.n));
    *out = text.data;
    text.data = NULL;
done:
    hr__text_clear(&text);
    hr__scan_file_unref(f);
    return st;
}

hr_status hr_plan_describe_file(hr_plan *p, int i, char **out, hr_error *err)
{
    HR_NEED(p, out);
    return describe(p, i, describe_lines, out, err);
}

hr_status hr_plan_describe_file_json(hr_plan *p, int i, char **out, hr_error *err)
{
    HR_NEED(p, out);
    return describe(p, i, describe_json, out, err);
}
