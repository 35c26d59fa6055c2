/* fuzz_fwf.c - any bytes as text of fixed width. The first two say which options; no split may
 * change the rows' number, whatever they are. */
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const choices[][2] = {
    { "widths=2,1,5", "widths=" },
    { "header=auto", "header=none" },
    { "ignore_empty_lines=true", "ignore_empty_lines=false" },
    { "default_type=", "default_type=string" },
    { "fragment_bytes=4MiB", "fragment_bytes=7" },
    { "encoding=utf-8", "encoding=utf-16" },
    { "strings_can_be_null=false", "strings_can_be_null=true" },
    { "infer_bytes=4MiB", "infer_bytes=10" },
    { "fill= ", "fill=.*" },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hr_format *format = &hr__format_fwf;
    const char *settings[HR_LEN(choices) + 1];
    hr_error err = HR_ERROR_INIT;
    void *options = calloc(1, format->options_bytes);
    unsigned bits;

    if (!options || size < 2)
        goto done;
    bits = data[0] | (unsigned)data[1] << 8;
    for (int i = 0; i < HR_LEN(choices); i++)
        settings[i] = choices[i][bits >> i & 1];
    settings[HR_LEN(choices)] = bits & 1 ? "colspecs=3:,0:2,1:9" : "colspecs="; /* one of the two says where */
    hr__options_default(format->options, options);
    REQUIRE(hr__options_parse(format->options, settings, HR_LEN(settings), options, &err) == HR_OK, &err);
    scan_all(format, options, "input.fwf", data + 2, size - 2);
    hr__options_clear(format->options, options);
done:
    free(options);
    return 0;
}
