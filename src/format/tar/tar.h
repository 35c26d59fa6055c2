/* tar.h - the members of tar archives, one after another. */
#ifndef HR_TAR_H
#define HR_TAR_H

#include "format/format.h"
#include "data/data.h"
#include "format/window.h"

typedef struct tar_member {
    const char *name; /* with folders; valid until the next */
    int64_t n_name;
    int64_t begin; /* offset in the file of its first header, with the headers that describe it */
    int64_t bytes; /* of its data, which is next in the window */
    bool regular;  /* a file; false: a folder, a link, a device */
} tar_member;

typedef struct tar_walk {
    const char *file; /* for errors, borrowed */
    hr_window window;
    hr_text name;
    int64_t padding;  /* after the data of the last member */
    int64_t left;     /* bytes of that data not yet read */
    bool passes_most; /* most data are skipped: one read fetches only headers and short members */
} tar_walk;

hr_status tar__open(tar_walk *t, hr_source *source, const hr_codec *codec, int64_t at, hr_account *account,
                    hr_error *err) HR_MUST_USE;
void tar__clear(tar_walk *t);
/* Where in the archive the next member begins. */
static inline int64_t tar__at(const tar_walk *t) { return t->window.at + t->left + t->padding; }
/* The next member; skips unread data of the last one. *found false: the end. */
hr_status tar__next(tar_walk *t, tar_member *out, bool *found, hr_error *err) HR_MUST_USE;
/* Appends the data of the current member to `to`. */
hr_status tar__read(tar_walk *t, const tar_member *m, hr_growbuf *to, hr_error *err) HR_MUST_USE;
bool tar__is(const uint8_t *block); /* 512 bytes look like a header: their checksum is right */

/* webdataset_write.c */
hr_status wds__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                      hr_error *err) HR_MUST_USE;

#endif
