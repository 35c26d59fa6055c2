/* fuzz_json.c - any bytes as JSON: lines, arrays, sequences. The first byte chooses options and the size of blocks and
 * fragments. */
#include "format/json/json.h"
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const layouts[] = { "layout=auto", "layout=lines", "layout=array", "layout=sequence" };
    const hr_format *format = &hr__format_json;
    uint8_t flags = size ? data[0] : 0;
    const char *settings[] = { layouts[flags & 3],
                               flags & 4 ? "on_error=skip" : "on_error=error",
                               flags & 8 ? "sample_bytes=1" : "sample_bytes=0",
                               flags & 16 ? "unexpected=ignore" : "unexpected=error",
                               flags & 32 ? "big_integers=string" : "big_integers=error",
                               flags & 64 ? "allow_nan=true" : "allow_nan=false" };
    hr_error err = HR_ERROR_INIT;
    hr_json_options options;

    if (size == 0)
        return 0;
    hr__json_block_bytes = flags & 128 ? 64 : 256 << 10;
    hr__json_fragment_bytes = flags & 128 ? HR_MAX(16, (int64_t)size / 4) : 4 << 20;
    hr__options_default(format->options, &options);
    REQUIRE(hr__options_parse(format->options, settings, HR_LEN(settings), &options, &err) == HR_OK, &err);
    scan_all(format, &options, "input.json", data + 1, size - 1);
    return 0;
}
