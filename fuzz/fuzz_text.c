/* fuzz_text.c - any bytes as text: plain, or compressed if they begin like compressed data. The first byte decides
 * whether empty lines count. */
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hr_format *format = &hr__format_text;
    const char *settings[] = { size && data[0] & 1 ? "drop_empty_lines=true" : "drop_empty_lines=false" };
    hr_error err = HR_ERROR_INIT;
    void *options = calloc(1, format->options_bytes);

    if (!options || size == 0)
        goto done;
    hr__options_default(format->options, options);
    REQUIRE(hr__options_parse(format->options, settings, 1, options, &err) == HR_OK, &err);
    scan_all(format, options, "input.txt", data + 1, size - 1);
    hr__options_clear(format->options, options);
done:
    free(options);
    return 0;
}
