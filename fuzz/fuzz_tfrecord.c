/* fuzz_tfrecord.c - any bytes as records, and as the payload of a record whose checksums are right. The first byte
 * decides which. */
#include "format/tfrecord/tfrecord.h"
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(uint8_t *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8)
        p[i] = (uint8_t)v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hr_format *format = &hr__format_tfrecords;
    const char *settings[] = { "check=false" };
    void *options = calloc(1, format->options_bytes);
    uint8_t *file = malloc(size + 2 * TF_FRAME_BYTES);
    hr_error err = HR_ERROR_INIT;
    size_t half, at = 0;

    if (!options || !file || size < 2)
        goto done;
    hr__options_default(format->options, options);
    if (data[0] == 0) {
        scan_all(format, options, "input.tfrecord", data + 1, size - 1);
        goto done;
    }
    REQUIRE(hr__options_parse(format->options, settings, 1, options, &err) == HR_OK, &err);
    half = size / 2; /* two records, so that one can differ from the other */
    for (int i = 0; i < 2; i++) {
        size_t n = i ? size - 1 - half : half;

        put(file + at, n, 8);
        put(file + at + 8, tf__masked_crc(file + at, 8), 4);
        memcpy(file + at + 12, data + 1 + (i ? half : 0), n);
        put(file + at + 12 + n, 0, 4);
        at += n + TF_FRAME_BYTES;
    }
    scan_all(format, options, "input.tfrecord", file, at);
done:
    if (options)
        hr__options_clear(format->options, options);
    free(options);
    free(file);
    return 0;
}
