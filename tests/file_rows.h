/* file_rows.h - a file in memory, read by a format as the scheduler reads it, and its rows as text: for tests of text
 * formats. */
#ifndef FILE_ROWS_H
#define FILE_ROWS_H

#include "arrays.h"
#include "format/format.h"

/* Cells joined by "|", rows by the request's row_end; nulls are "~". Zero is empty; free(text). */
typedef struct file_rows {
    char *text; /* NULL: nothing was added */
    int64_t n, cap;
    int64_t n_rows;
} file_rows;
void file_rows_add(file_rows *r, const void *text, int64_t n);

typedef struct file_request {
    const hr_format *format;
    const char *name; /* of the file; NULL: "a." and the format's first suffix */
    const void *data;
    int64_t n;
    const char *settings[8];
    const hr_projection *projection; /* NULL: all columns */
    int64_t max_bytes;               /* of a table; 0: 1 MiB */
    char row_end;                    /* 0: "\n" */
    bool backwards;                  /* fragments from the last to the first */
    bool schema;                     /* the line "name:type name:type" comes first */
    file_rows *out;                  /* NULL: only reads */
} file_request;

/* An open file with its options. */
typedef struct file_opened {
    const file_request *request; /* borrowed */
    void *options;
    hr_scan_file *file;
} file_opened;
hr_status file_open(const file_request *q, file_opened *out, hr_error *err);
void file_close(file_opened *f); /* also after a failure */
/* Rows [row, row + n) of a fragment (n < 0: to its end) after those in the request's `out`. Checks tables and
 * origins. */
hr_status file_read_rows(const file_opened *f, int fragment, int64_t row, int64_t n, hr_error *err);
/* Every range of rows of fragment 0, whose n_rows rows (at most 9) begin with 1, 2, 3, ...: each row once. */
void file_check_ranges(file_request q, int64_t n_rows);
/* Opens, reads all fragments, closes: `context` is a file_request. */
hr_status file_read(void *context, hr_error *err);

#endif
