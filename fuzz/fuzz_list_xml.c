/* fuzz_list_xml.c - any bytes as one page of a list of objects. A key that comes out is a text of sane size. */
#include "require.h"

#include "io/http/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hr_error err = HR_ERROR_INIT;
    hr_list_page page;
    hr_status st = hr__list_parse((const char *)data, (int64_t)size, &page, &err);

    if (st)
        REQUIRE(err.text[0] && page.n == 0 && !page.items);
    for (int64_t i = 0; i < page.n; i++) {
        REQUIRE(page.items[i].key && strlen(page.items[i].key) <= size);
        REQUIRE(page.items[i].n_bytes >= 0);
    }
    hr__list_clear(&page);
    hr_error_clear(&err);
    return 0;
}
