/* npy.h - types and functions shared by the files of the NumPy reader: headers of .npy, and raw rows that become
 * columns. */
#ifndef HR_NPY_H
#define HR_NPY_H

#include "format/format.h"

typedef enum npy_kind {
    NPY_BOOL,    /* a byte a value; anything but 0 is true */
    NPY_PLAIN,   /* integers and floats, as they are */
    NPY_COMPLEX, /* two floats: one dimension more, of 2 */
    NPY_TIME,    /* datetime64, timedelta64: int64, the least one is a null */
    NPY_BYTES,   /* S: padded with zeros */
    NPY_UNICODE, /* U: UCS-4, padded with zeros */
    NPY_VOID     /* V: bytes that mean nothing to NumPy */
} npy_kind;

/* A column: the array itself, or a field of a structured one. */
typedef struct npy_field {
    char *name; /* of a structured array's field; NULL: the array is not structured */
    npy_kind kind;
    bool swap;          /* stored in the other byte order */
    int64_t item_bytes; /* of one value */
    int64_t at;         /* in a record */
    int64_t n_items;    /* values a record: product of shape */
    int n_dims;
    int64_t shape[HR_MAX_DIMS];
    int64_t factor; /* NPY_TIME: what a stored unit is in units of the type */
    hr_type *value; /* what a value becomes */
    hr_type *type;  /* of the column: `value`, or tensors or lists of it */
    int64_t row_items;
} npy_field;

/* The header of an array. A record is one element of the array, a row is all records of one index of the first axis. */
typedef struct npy_header {
    hr_account *account;
    int64_t data_at; /* bytes of the header itself */
    bool fortran;    /* the first index varies fastest */
    int n_dims;
    int64_t shape[HR_MAX_DIMS + 1];
    int64_t record_bytes;
    int64_t n_rows, row_records, row_bytes;
    int64_t data_bytes;
    int n_fields;
    npy_field *fields;
} npy_header;

/* npy_write.c */
hr_status npy__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                      hr_error *err) HR_MUST_USE;

#define NPY_MAX_HEADER_BYTES (1 << 20)
#define NPY_HEAD_BYTES 12 /* of the beginning that npy__header_bytes needs */

/* Length of the whole header from the file's first NPY_HEAD_BYTES bytes. */
hr_status npy__header_bytes(const uint8_t *head, int64_t n, const char *name, int64_t *out, hr_error *err) HR_MUST_USE;
/* Parses a whole header. `n_bytes`: of header and data, as far as is known: what the shape may claim. */
hr_status npy__header_parse(npy_header *h, const uint8_t *p, int64_t n, int64_t n_bytes, const char *name,
                            hr_account *account, hr_error *err) HR_MUST_USE;
void npy__header_clear(npy_header *h);

/* n rows in C order in `raw` as a column of the field's type. `raw` may be NULL only if the rows have no bytes. `name`,
 * `row`: the file and the first row, for errors. */
hr_status npy__column(const npy_header *h, const npy_field *f, const char *name, int64_t row, hr_buffer *raw, int64_t n,
                      const hr_mem *mem, hr_array **out, hr_error *err) HR_MUST_USE;
/* Whether the raw rows are already the column's values, so that the reader reads them into the table's memory. */
bool npy__is_values(const npy_header *h, const npy_field *f);
/* Copies column-major records into rows: `from` holds columns [first, first + n_columns) of the file, `stride` records
 * of each, of which n are used; `to` gets them at their places in n rows. A column is the records that differ only in
 * the index of the first axis. */
void npy__scatter(const npy_header *h, const uint8_t *from, int64_t stride, int64_t first, int64_t n_columns, int64_t n,
                  uint8_t *to);

#endif
