/* zip.h - members of zip archives, for formats that are archives. */
#ifndef HR_ZIP_H
#define HR_ZIP_H

#include "codec/codec.h"

typedef struct zip_member {
    char *name;
    int64_t header_at;    /* of its local header */
    int64_t stored_bytes; /* as they lie in the file */
    int64_t bytes;
    uint32_t crc;
    int method; /* 0: stored, 8: deflate */
} zip_member;

typedef struct zip_list {
    hr_account *account;
    zip_member *items;
    int64_t n;
} zip_list;

/* The central directory. Members that are encrypted or compressed by another method are HR_UNSUPPORTED when they are
 * opened. */
hr_status zip__list(hr_source *source, hr_account *account, zip_list *out, hr_error *err) HR_MUST_USE;
void zip__list_clear(zip_list *l);
/* A member's bytes. Its end is reported only after length and CRC-32 were found right. Borrows m while the stream
 * lives. */
hr_status zip__stream(hr_source *source, const zip_member *m, hr_account *account, hr_stream **out,
                      hr_error *err) HR_MUST_USE;

#endif
