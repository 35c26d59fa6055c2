/* fuzz_tar.c - any bytes as a tar archive of samples; corrects the checksums of headers first, unless the first byte
 * forbids it. */
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Corrects the checksum of each block that has a name and octal digits in the checksum's place. */
static void mend(uint8_t *p, size_t n)
{
    for (size_t at = 0; at + 512 <= n; at += 512) {
        uint8_t *block = p + at;
        unsigned sum = 8 * ' ';

        if (block[148] != '0')
            continue;
        for (int i = 0; i < 512; i++)
            sum += i >= 148 && i < 156 ? 0 : block[i];
        snprintf((char *)block + 148, 8, "%06o", sum);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hr_format *format = &hr__format_webdataset;
    const char *settings[] = { size && data[0] & 2 ? "decode=true" : "decode=false",
                               size && data[0] & 4 ? "images=stored" : "images=bytes" };
    void *options = calloc(1, format->options_bytes);
    uint8_t *file = malloc(size + 1);
    hr_error err = HR_ERROR_INIT;

    if (options && file && size > 0) {
        memcpy(file, data + 1, size - 1);
        if (data[0] & 1)
            mend(file, size - 1);
        hr__options_default(format->options, options);
        REQUIRE(hr__options_parse(format->options, settings, 2, options, &err) == HR_OK, &err);
        scan_all(format, options, "input.tar", file, size - 1);
        hr__options_clear(format->options, options);
    }
    free(options);
    free(file);
    return 0;
}
