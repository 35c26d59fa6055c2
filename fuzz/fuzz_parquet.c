/* fuzz_parquet.c - any bytes as a Parquet file. Also the parsers alone, which a damaged footer would hide. */
#include "format/parquet.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse_parts(data, size);
    scan_all(&hr__format_parquet, NULL, "input.parquet", data, size);
    return 0;
}
