/* fuzz_csv.c - any bytes as CSV. The first two choose the options; with any options, no split may change the number of
 * rows. */
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const choices[][2] = {
    { "ragged=error", "ragged=fit" },
    { "quote=\"", "quote=" },
    { "escape=", "escape=\\" },
    { "comment=", "comment=#" },
    { "header=auto", "header=none" },
    { "ignore_empty_lines=true", "ignore_empty_lines=false" },
    { "default_type=", "default_type=string" },
    { "encoding_errors=strict", "encoding_errors=replace" },
    { "fragment_bytes=4MiB", "fragment_bytes=7" },
    { "encoding=utf-8", "encoding=utf-16" },
    { "strings_can_be_null=false", "strings_can_be_null=true" },
    { "infer_bytes=4MiB", "infer_bytes=10" },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hr_format *format = &hr__format_csv;
    const char *settings[HR_LEN(choices)];
    hr_error err = HR_ERROR_INIT;
    void *options = calloc(1, format->options_bytes);
    unsigned bits;

    if (!options || size < 2)
        goto done;
    bits = data[0] | (unsigned)data[1] << 8;
    for (int i = 0; i < HR_LEN(choices); i++)
        settings[i] = choices[i][bits >> i & 1];
    hr__options_default(format->options, options);
    REQUIRE(hr__options_parse(format->options, settings, HR_LEN(choices), options, &err) == HR_OK, &err);
    scan_all(format, options, "input.csv", data + 2, size - 2);
    hr__options_clear(format->options, options);
done:
    free(options);
    return 0;
}
