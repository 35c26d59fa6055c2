/* snappy.c - Snappy by libsnappy: raw blocks, as Parquet has them. There is no file of it on its own. */
#include "codec/codec.h"

#ifdef HR_HAVE_SNAPPY
#include <snappy-c.h>

static hr_status snappy_block(hr_view in, uint8_t *out, int64_t n_out, hr_error *err)
{
    size_t n = 0;

    if (snappy_uncompressed_length((const char *)in.data, (size_t)in.n, &n) != SNAPPY_OK)
        return hr_error_set(err, HR_BAD_DATA, "snappy: the block's length is malformed");
    if ((int64_t)n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "snappy: makes %lld bytes, %lld are announced", (long long)n,
                            (long long)n_out);
    if (snappy_uncompress((const char *)in.data, (size_t)in.n, (char *)out, &n) != SNAPPY_OK)
        return hr_error_set(err, HR_BAD_DATA, "snappy: malformed block of %lld bytes", (long long)in.n);
    return HR_OK;
}
#else
#define snappy_block NULL
#endif

/* A copy of 64 bytes takes 3, or 2 where it is near and short. */
const hr_codec hr__codec_snappy = { .name = "snappy", .library = "libsnappy", .max_ratio = 32, .block = snappy_block };
