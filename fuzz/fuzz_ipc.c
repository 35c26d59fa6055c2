/* fuzz_ipc.c - any bytes as an Arrow IPC file or stream; the bytes themselves decide which. */
#include "scan_all.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scan_all(&hr__format_arrow, NULL, "input.arrow", data, size);
    return 0;
}
