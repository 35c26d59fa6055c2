/* file_rows.c - a file in memory, read by a format, and its rows as text. */
#include "file_rows.h"

#include <stdio.h>
#include <stdlib.h>

void file_rows_add(file_rows *r, const void *text, int64_t n)
{
    if (r->n + n + 2 > r->cap) {
        r->cap = (r->n + n + 2) * 2;
        r->text = realloc(r->text, (size_t)r->cap);
        assert_non_null(r->text);
    }
    memcpy(r->text + r->n, text, (size_t)n);
    r->n += n;
    r->text[r->n] = 0;
}

static void add_cell(file_rows *r, const hr_array *a, int64_t row)
{
    hr_text text = { 0 };
    int64_t n;

    if (hr__array_is_null(a, row)) {
        file_rows_add(r, "~", 1);
    } else if (hr__type_is_bytes(a->type)) {
        const uint8_t *s = hr__array_bytes(a, row, &n);

        file_rows_add(r, s, n);
    } else {
        hr__array_print_value(a, row, &text);
        file_rows_add(r, text.data, text.n);
    }
    hr__text_clear(&text);
}

static void add_table(file_rows *r, const hr_table *t, char row_end)
{
    for (int64_t i = 0; i < t->n_rows; i++) {
        for (int k = 0; k < t->schema->n; k++) {
            file_rows_add(r, "|", k > 0);
            add_cell(r, t->columns[k], i);
        }
        file_rows_add(r, row_end ? &row_end : "\n", 1);
    }
    r->n_rows += t->n_rows;
}

static void add_schema(file_rows *r, const hr_schema *s)
{
    hr_text types = { 0 };

    for (int i = 0; i < s->n; i++) {
        hr__text_add(&types, "%s%s:", i ? " " : "", s->fields[i].name);
        hr__type_print(s->fields[i].type, &types);
    }
    hr__text_add(&types, "\n");
    file_rows_add(r, types.data, types.n);
    hr__text_clear(&types);
}

hr_status file_open(const file_request *q, file_opened *out, hr_error *err)
{
    const hr_format *format = q->format;
    hr_source *source = NULL;
    hr_status st = HR_OK;
    char name[40];
    int n = 0;

    *out = (file_opened){ .request = q, .options = calloc(1, format->options_bytes + 1) };
    assert_non_null(out->options);
    snprintf(name, sizeof name, "a.%.*s", (int)strcspn(format->suffixes, " "), format->suffixes);
    while (n < HR_LEN(q->settings) && q->settings[n])
        n++;
    hr__options_default(format->options, out->options);
    HR_GO(hr__options_parse(format->options, q->settings, n, out->options, err));
    HR_GO(hr__source_new_memory(q->name ? q->name : name, q->data, q->n, NULL, &source, err));
    HR_GO(format->open(source, &(hr_open){ .options = out->options, .projection = q->projection }, &out->file, err));
done:
    hr__source_unref(source);
    return st;
}

void file_close(file_opened *f)
{
    hr__scan_file_unref(f->file);
    hr__options_clear(f->request->format->options, f->options);
    free(f->options);
    *f = (file_opened){ 0 };
}

hr_status file_read_rows(const file_opened *f, int fragment, int64_t row, int64_t n, hr_error *err)
{
    const file_request *q = f->request;
    hr_mem mem = { NULL, NULL };
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(f->file->cls->read(f->file, fragment, row, n, &mem, &r, err));
    for (;;) {
        HR_GO(hr__reader_next(r, q->max_bytes ? q->max_bytes : 1 << 20, &t, err));
        if (!t)
            break;
        HR_GO(hr__table_check(t, true, err));
        assert_true(t->n_rows > 0);
        assert_int_equal(hr__origin_at(t->origin, 0).row, row);
        assert_int_equal(hr__origin_at(t->origin, 0).fragment, fragment);
        row += t->n_rows;
        if (q->out)
            add_table(q->out, t, q->row_end);
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr_table_unref(t);
    hr__reader_close(r);
    return st;
}

hr_status file_read(void *context, hr_error *err)
{
    const file_request *q = context;
    file_opened f;
    hr_status st = HR_OK;

    HR_GO(file_open(q, &f, err));
    if (q->schema && q->out)
        add_schema(q->out, f.file->schema);
    for (int i = 0, n = f.file->n_fragments; i < n; i++)
        HR_GO(file_read_rows(&f, q->backwards ? n - 1 - i : i, 0, -1, err));
done:
    file_close(&f);
    return st;
}

void file_check_ranges(file_request q, int64_t n_rows)
{
    hr_error err = HR_ERROR_INIT;
    file_rows r = { 0 };
    file_opened f;

    q.out = &r;
    assert_ok(file_open(&q, &f, &err), &err);
    for (int64_t begin = 0; begin < n_rows + 2; begin++) {
        for (int64_t n = 0; n < n_rows + 2; n++) {
            r.n = r.n_rows = 0;
            assert_ok(file_read_rows(&f, 0, begin, n, &err), &err);
            assert_int_equal(r.n_rows, HR_MIN(HR_MAX(n_rows - begin, 0), n));
            if (r.n_rows)
                assert_int_equal(r.text[0], '1' + begin);
        }
    }
    file_close(&f);
    free(r.text);
}
