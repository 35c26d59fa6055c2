/* zstd_check.h - checks Zstandard frames for damage that libzstd does not report; zstd_check.c lists it. */
#ifndef HR_ZSTD_CHECK_H
#define HR_ZSTD_CHECK_H

#include "io/io.h"

/* Whether the blocks of `in` are sound; also true for a frame that is cut, and for bytes that are no frame. Follows
 * each bit stream, which takes about as long as decompression. */
bool hr__zstd_is_sound(hr_view in);

/* The same for frames that arrive in parts. */
typedef struct hr_zstd_check hr_zstd_check;
#define HR_ZSTD_CHECK_BYTES (140 << 10)                                  /* about */
hr_zstd_check *hr__zstd_check_new(hr_account *account);                  /* NULL without memory */
bool hr__zstd_check_next(hr_zstd_check *c, const uint8_t *p, int64_t n); /* p: the bytes that follow the last call's */
void hr__zstd_check_free(hr_zstd_check *c);                              /* NULL is fine */

#endif
