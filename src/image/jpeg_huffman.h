/* jpeg_huffman.h - the Huffman decoding of baseline JPEG, put in place of libjpeg's own.
 *
 * It takes most of the time that a JPEG takes, and libjpeg looks at one code at a time, then at the bits behind it.
 * Here a table gives for most codes at once what they say and the value behind them. Only sound data is decoded: at
 * anything else (a code that is none, a marker too early, the end of the file) `trouble` is called, and the image is to
 * be decoded again from its beginning without this, so that what damaged files give is what libjpeg makes of them. */
#ifndef HR_JPEG_HUFFMAN_H
#define HR_JPEG_HUFFMAN_H

#include "data/data.h"

#include <stdio.h>

#include <jpeglib.h>

typedef struct hr_jpeg_huffman hr_jpeg_huffman;
hr_jpeg_huffman *hr__jpeg_huffman_new(void (*trouble)(
    j_decompress_ptr j)); /* trouble does not return. NULL: no memory, or a libjpeg that we do not know */
void hr__jpeg_huffman_free(hr_jpeg_huffman *h); /* NULL is fine */
/* After jpeg_start_decompress, all bytes of the file in the source's buffer: decodes this image, if it is of a kind
 * that it knows. */
void hr__jpeg_huffman_use(hr_jpeg_huffman *h, j_decompress_ptr j);
hr_jpeg_huffman *hr__jpeg_huffman_of(j_decompress_ptr j); /* jpeg.c's: which one the decompressor uses */

/* --- jpeg_probe.c: offsets in private structs of libjpeg-turbo, as we were compiled with */
typedef struct hr_jpeg_layout {
    size_t decode_mcu, has_multiple_scans;
} hr_jpeg_layout;
extern const hr_jpeg_layout hr__jpeg_layout;
bool hr__jpeg_layout_is(const hr_jpeg_layout *at); /* of the library that runs; tries it out */
bool hr__jpeg_layout_is_known(void);               /* that it is hr__jpeg_layout; tried out once */

#endif
