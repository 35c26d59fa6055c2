/* fuzz_parquet.c - any bytes as a Parquet file: reads all rows, the description, and the rows behind filters. Also runs
 * the parsers alone, which a damaged footer would hide. */
#include "format/parquet/parquet_read.h"
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_parts(const uint8_t *data, size_t size)
{
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    pq_place *places = NULL;
    pq_page page;
    int64_t n;

    (void)!pq__page_parse((hr_view){ data, (int64_t)size }, &page, &n, &err);
    (void)!pq__index_parse((hr_view){ data, (int64_t)size }, NULL, &places, &n, &err);
    (void)!pq__arrow_schema_parse((hr_view){ data, (int64_t)size }, NULL, &schema, &err);
    hr__free(places);
    hr__schema_unref(schema);
    hr_error_clear(&err);
}

static void parse_page_stats(const uint8_t *data, size_t size)
{
    hr_error err = HR_ERROR_INIT;
    hr_mem mem = { NULL, NULL };
    hr_buffer *bytes = NULL;
    pq_page_stats stats;

    if (!hr__buffer_copy(&mem, data, (int64_t)size, &bytes, &err) &&
        !pq__page_stats_parse(bytes, size % 5, NULL, &stats, &err))
        pq__page_stats_clear(&stats);
    hr_error_clear(&err);
}

/* Filters a file by a comparison with a number, or with a text (NULL: none): no more rows than the file has, and no
 * fault. */
static void read_filtered(hr_source *source, const char *column, const char *function, int64_t value, const char *text)
{
    hr_error err = HR_ERROR_INIT;
    hr_expr *args[2] = { NULL, NULL }, *e = NULL;
    hr_skipped skipped = { 0 };
    hr_open how = { .skipped = &skipped };
    hr_scan_file *f = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_expr_column(column, &args[0], &err));
    HR_GO(text ? hr_expr_string(text, &args[1], &err) : hr_expr_int(value, &args[1], &err));
    HR_GO(hr_expr_call(function, args, 2, NULL, 0, &e, &err));
    how.filter = e;
    HR_GO(hr__format_parquet.open(source, &how, &f, &err));
    for (int i = 0; i < f->n_fragments && i < 20; i++) {
        hr_mem mem = { NULL, NULL };
        hr_reader *r = NULL;
        hr_table *t = NULL;
        int64_t rows = 0;

        st = f->cls->read(f, i, 0, -1, &mem, &r, &err);
        while (!st && !(st = hr__reader_next(r, 1 << 16, &t, &err)) && t && rows < 100000) {
            rows += t->n_rows;
            hr_table_unref(t);
            t = NULL;
        }
        hr_table_unref(t);
        hr__reader_close(r);
    }
done:
    hr__scan_file_unref(f);
    hr_expr_unref(e);
    hr_expr_unref(args[0]);
    hr_expr_unref(args[1]);
    hr_error_clear(&err);
}

static void filter_and_describe(const uint8_t *data, size_t size)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__source_new_memory("input.parquet", data, (int64_t)size, NULL, &source, &err));
    HR_GO(hr__format_parquet.open(source, &(hr_open){ 0 }, &f, &err));
    for (int i = -1; i < f->n_fragments && i < 20 && text.n < 1 << 20; i++)
        for (int json = 0; json < 2; json++)
            HR_GO(f->cls->describe(f, i, json, &text, &err));
    for (int i = 0; i < f->schema->n && i < 4; i++) {
        read_filtered(source, f->schema->fields[i].name, "equal", (int64_t)(size % 300), NULL);
        read_filtered(source, f->schema->fields[i].name, "less", (int64_t)(size % 100), NULL);
        read_filtered(source, f->schema->fields[i].name, "equal", 0, size % 2 ? "a" : "text 7");
    }
done:
    hr__text_clear(&text);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    hr_error_clear(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse_parts(data, size);
    parse_page_stats(data, size);
    filter_and_describe(data, size);
    scan_all(&hr__format_parquet, NULL, "input.parquet", data, size);
    return 0;
}
