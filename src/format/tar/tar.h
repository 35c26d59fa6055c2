/* tar.h - members of tar archives, one after the other. */
#ifndef HR_TAR_H
#define HR_TAR_H

#include "format/format.h"
#include "data/data.h"
#include "format/window.h"

typedef struct tar_member {
    const char *name; /* with folders; valid until the next */
    int64_t n_name;
    int64_t begin; /* of the file: its first header, with those that only describe it */
    int64_t bytes; /* of its data, which is next in the window */
    bool regular;  /* a file; false: a folder, a link, a device */
} tar_member;

typedef struct tar_walk {
    const char *file; /* for errors, borrowed */
    hr_window window;
    hr_text name;
    int64_t padding; /* behind the data of the last member */
    int64_t left;    /* of that data, not taken yet */
    bool
        passes_most; /* data are passed over as a rule: no more is read at a time than headers and short members take */
} tar_walk;

hr_status tar__open(tar_walk *t, hr_source *source, const hr_codec *codec, int64_t at, hr_account *account,
                    hr_error *err) HR_MUST_USE;
void tar__clear(tar_walk *t);
/* Where in the archive the next member begins. */
static inline int64_t tar__at(const tar_walk *t) { return t->window.at + t->left + t->padding; }
/* The next member; data of the last one that was not read is passed over. *found false: the end. */
hr_status tar__next(tar_walk *t, tar_member *out, bool *found, hr_error *err) HR_MUST_USE;
/* The data of the member at hand, behind what `to` holds. */
hr_status tar__read(tar_walk *t, const tar_member *m, hr_growbuf *to, hr_error *err) HR_MUST_USE;
bool tar__is(const uint8_t *block); /* 512 bytes look like a header: their checksum is right */

/* webdataset_write.c */
hr_status wds__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                      hr_error *err) HR_MUST_USE;

#endif
