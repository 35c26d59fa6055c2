/* codec.h - compression and decompression: whole blocks of known size, and streams over a source.
 *
 * Each codec is one file around one library. If this build lacks a library, its codec stays in the table without
 * functions, so that an error can name the codec of a file.
 * 1. The stored size of a block is untrusted input: hr__codec_check() refuses a size that the codec can never reach
 *    (see max_ratio), before the caller allocates the buffer.
 * 2. Each thread has its own decoding context, freed when the thread ends. */
#ifndef HR_CODEC_H
#define HR_CODEC_H

#include "data/data.h"
#include "io/io.h"

#include <iconv.h>

typedef struct hr_codec {
    const char *name;
    const char *suffixes; /* separated by blanks, without dots; NULL: no files of its own */
    const char *magic;    /* the first bytes of a file; NULL: none */
    const char *library;  /* the library that the build needs */
    int64_t max_ratio;    /* no valid block grows by a larger factor */
    /* Decodes to exactly n_out bytes. NULL: not in this build. The caller adds the place to an error. */
    hr_status (*block)(hr_view in, uint8_t *out, int64_t n_out, hr_error *err);
    /* HR_BAD_DATA: the block contradicts itself, and `block` may not see it. all: also what every release of the
     * library decodes. NULL: `block` sees every contradiction. */
    hr_status (*check)(hr_view in, bool all, hr_error *err);
    /* Decodes up to n_out bytes from the block's beginning; *n_made < n_out only if the block has no more. NULL: whole
     * blocks only. */
    hr_status (*prefix)(hr_view in, uint8_t *out, int64_t n_out, int64_t *n_made, hr_error *err);
    /* Takes `below`, even on failure. NULL: not in this build. `name`: for errors, borrowed while the stream lives. */
    hr_status (*stream)(hr_stream *below, const char *name, hr_account *account, hr_stream **out, hr_error *err);
    /* Compresses to one whole block of *n_out <= cap bytes. For codecs with files of their own (gzip, zstd, lz4_frame),
     * consecutive blocks are such a file. level 0: the codec's default; codecs without levels ignore it. HR_INVALID
     * names a level that the codec does not have. NULL: not in this build. */
    hr_status (*pack)(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err);
    /* The same, for a file: with a checksum, by which readers detect damage. NULL: `pack` writes one, or the codec has
     * none. */
    hr_status (*pack_file)(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err);
    int64_t (*max_packed_bytes)(int64_t n); /* the `cap` that always suffices for n bytes, for pack and pack_file */
} hr_codec;

extern const hr_codec *const hr__codecs[]; /* ends with NULL */
extern const hr_codec hr__codec_zstd, hr__codec_snappy, hr__codec_gzip, hr__codec_brotli;
extern const hr_codec hr__codec_lz4, hr__codec_lz4_hadoop; /* raw blocks, as in Parquet */
extern const hr_codec hr__codec_lz4_frame;                 /* .lz4 files, Arrow IPC */

const hr_codec *hr__codec_by_name(const char *name);             /* NULL: none */
const hr_codec *hr__codec_by_suffix(const char *path);           /* NULL: none */
const hr_codec *hr__codec_guess(const char *path, hr_view head); /* NULL: not compressed */
/* HR_UNSUPPORTED if the codec is not in this build; HR_BAD_DATA if no block of n_in bytes can decompress to n_out. */
hr_status hr__codec_check(const hr_codec *c, int64_t n_in, int64_t n_out, hr_error *err) HR_MUST_USE;
hr_status hr__codec_block(const hr_codec *c, hr_view in, uint8_t *out, int64_t n_out, hr_error *err) HR_MUST_USE;
/* hr__codec_block with a choice of checks. NONE: the caller has compared a checksum of the bytes. USUAL: the checks of
 * hr__codec_block. ALL: all checks. */
typedef enum hr_codec_verify { HR_VERIFY_NONE, HR_VERIFY_USUAL, HR_VERIFY_ALL } hr_codec_verify;
hr_status hr__codec_block_verified(const hr_codec *c, hr_codec_verify verify, hr_view in, uint8_t *out, int64_t n_out,
                                   hr_error *err) HR_MUST_USE;
hr_status hr__codec_pack(const hr_codec *c, hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out,
                         hr_error *err) HR_MUST_USE;
hr_status hr__codec_pack_file(const hr_codec *c, hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out,
                              hr_error *err) HR_MUST_USE;
/* The source's bytes, decompressed if `c` is not NULL. Shares the source. */
hr_status hr__codec_stream(const hr_codec *c, hr_source *source, hr_account *account, hr_stream **out,
                           hr_error *err) HR_MUST_USE;

/* From this encoding, as users write it, to UTF-8; (iconv_t)-1: the system does not know it. */
iconv_t hr__encoding_open(const char *encoding);
/* A stream that turns text in this encoding ("latin-1", "utf-16", as users write it) into UTF-8: recode.c. Takes
 * `below`, even on failure. HR_INVALID names an unknown encoding. `name`: for errors, borrowed while the stream
 * lives. */
hr_status hr__recode_stream(hr_stream *takes_below, const char *encoding, const char *name, hr_account *account,
                            hr_stream **out, hr_error *err) HR_MUST_USE;
bool hr__encoding_is_utf8(const char *name); /* "utf-8", "UTF8", ... */

/* For the codecs: a context per thread. The first use in a thread calls `make`, the thread's end calls `drop`. */
typedef struct hr_codec_local {
    pthread_once_t once;
    pthread_key_t key;
} hr_codec_local;
#define HR_CODEC_LOCAL_INIT { PTHREAD_ONCE_INIT, 0 }
void *hr__codec_local(hr_codec_local *l, void (*init)(void), void *(*make)(void)); /* NULL without memory */

/* Checksums, crc.c: continues `crc` (0: the start) with n bytes. */
uint32_t hr__crc32(uint32_t crc, const void *data, int64_t n);
uint32_t hr__crc32c(uint32_t crc, const void *data, int64_t n);
/* The same in plain C, or with the given CPU features, for tests. */
uint32_t hr__crc32_by(unsigned cpu, uint32_t crc, const void *data, int64_t n);
uint32_t hr__crc32c_by(unsigned cpu, uint32_t crc, const void *data, int64_t n);

#endif
