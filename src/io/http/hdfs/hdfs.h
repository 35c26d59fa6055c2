/* hdfs.h - what the files of this folder know of each other: FileStatus, lists, hidden folders of uploads. */
#ifndef HR_HDFS_H
#define HR_HDFS_H

#include "io/http/http.h"

#define HR_HDFS_CREATE "op=CREATE&overwrite=true"
#define HR_HDFS_PARTS "_headrace_parts_" /* names of files and folders of uploads begin so; no list has them */

typedef struct hr_hdfs_status {
    char *name; /* owned; "": of the file itself */
    bool is_file, is_folder;
    int64_t n_bytes, version;
    int64_t file_id; /* of the inode; < 0: the server does not say it */
} hr_hdfs_status;

/* --- hdfs.c */
/* The status of the file or folder. HR_NOT_FOUND: there is none. The caller frees out->name. */
hr_status hr__hdfs_status(hr_store *s, const char *url, hr_hdfs_status *out, hr_error *err) HR_MUST_USE;
/* One FileStatus. *out is cleared by the caller. */
hr_status hr__hdfs_read_status(const char *url, const char *json, const char *end, hr_hdfs_status *out,
                               hr_error *err) HR_MUST_USE;
/* Where the value of "FileStatus" begins: '{' or '['. NULL: the answer has none. */
const char *hr__hdfs_value(const hr_text *body, char first);
/* The end of the object that begins at `at`, behind its '}'; NULL: it has none. */
const char *hr__hdfs_object_end(const char *at, const char *end);
hr_status hr__hdfs_no_status(const char *url, hr_error *err);

/* --- hdfs_list.c */
hr_status hr__hdfs_find(hr_store *s, const char *url, const char *pattern, const hr_paths_options *options,
                        hr_paths *out, hr_error *err) HR_MUST_USE;
/* Records of jobs below the prefix; in its folder alone, if a name follows the folder. */
hr_status hr__hdfs_records(hr_store *s, const char *url, const char *prefix, hr_paths *out, hr_error *err) HR_MUST_USE;
/* What uploads have left in the folder of this key; deep: and below it. */
hr_status hr__hdfs_parts(hr_store *s, const char *url, const char *folder, bool deep, hr_paths *out,
                         hr_error *err) HR_MUST_USE;

/* --- hdfs_write.c */
extern const hr_upload_kind hr__hdfs_upload;

#endif
