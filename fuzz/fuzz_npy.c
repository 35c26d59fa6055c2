/* fuzz_npy.c - any bytes as an array or an archive of arrays. */
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scan_all(&hr__format_numpy, NULL, "input.npy", data, size);
    return 0;
}
