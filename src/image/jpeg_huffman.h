/* jpeg_huffman.h - the Huffman decoder of baseline JPEG, which replaces libjpeg's own.
 *
 * Huffman decoding takes most of the time of a JPEG. libjpeg reads one code at a time, then the bits after it; here
 * one table look-up gives most codes together with the value after them. This decoder accepts only sound data: for
 * anything else (a wrong code, an early marker, the end of the file) it calls `trouble`, and the caller decodes the
 * image again from its beginning with libjpeg alone, so that damaged files give libjpeg's pixels. */
#ifndef HR_JPEG_HUFFMAN_H
#define HR_JPEG_HUFFMAN_H

#include "data/data.h"

#include <stdio.h>

#include <jpeglib.h>

typedef struct hr_jpeg_huffman hr_jpeg_huffman;
hr_jpeg_huffman *hr__jpeg_huffman_new(
    void (*trouble)(j_decompress_ptr j));       /* trouble does not return. NULL: no memory, or an unknown libjpeg */
void hr__jpeg_huffman_free(hr_jpeg_huffman *h); /* NULL is fine */
/* Call it after jpeg_start_decompress, with all bytes of the file in the source's buffer: takes over the image if it
 * knows its kind. */
void hr__jpeg_huffman_use(hr_jpeg_huffman *h, j_decompress_ptr j);
hr_jpeg_huffman *hr__jpeg_huffman_of(j_decompress_ptr j); /* jpeg.c's: the decoder that the decompressor uses */

/* --- jpeg_probe.c: offsets in private structs of libjpeg-turbo, as we were compiled with */
typedef struct hr_jpeg_layout {
    size_t decode_mcu, has_multiple_scans;
} hr_jpeg_layout;
extern const hr_jpeg_layout hr__jpeg_layout;
bool hr__jpeg_layout_is(const hr_jpeg_layout *at); /* of the running library; tried out */
bool hr__jpeg_layout_is_known(void);               /* true if it equals hr__jpeg_layout; tried out once */

#endif
