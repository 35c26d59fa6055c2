/* tfrecord.h - types and functions shared by the files of the TFRecord reader: the frame of a record, and tf.Example as
 * columns. */
#ifndef HR_TFRECORD_H
#define HR_TFRECORD_H

#include "format/format.h"

#define TF_FRAME_BYTES 16 /* length, its checksum, the payload's checksum */

/* --- records: tfrecord.c */

uint32_t tf__masked_crc(const void *data, int64_t n);

/* --- examples: tf_example.c */

typedef enum tf_kind { TF_NONE, TF_BYTES, TF_FLOAT, TF_INT64 } tf_kind; /* the numbers of tf.train.Feature's fields */

typedef struct tf_column {
    char *name;
    int64_t n_name;
    tf_kind kind;
    tf_kind of_empty; /* kind of its empty lists: the kind of the column if there are no values */
    bool is_list;
    int out; /* the column that it becomes; -1: none */
} tf_column;

/* Features by name, sorted. */
typedef struct tf_features {
    hr_account *account;
    tf_column *items;
    int64_t n, cap;
    bool others_are_fine; /* other features are ignored */
} tf_features;
void tf__features_clear(tf_features *f);
/* Widens `f` by the features of a record. `where`: for errors. */
hr_status tf__features_see(tf_features *f, hr_view record, const char *name, int64_t number, hr_error *err) HR_MUST_USE;
hr_status tf__features_of_schema(tf_features *f, const hr_schema *schema, const char *name, hr_error *err) HR_MUST_USE;
/* Lines "type name", type one of bytes, float, int64, or list<...> of it. */
hr_status tf__features_of_text(tf_features *f, const char *text, hr_error *err) HR_MUST_USE;
hr_status tf__features_schema(tf_features *f, hr_schema **out, hr_error *err) HR_MUST_USE;

/* Rows being made of records. */
typedef struct tf_rows tf_rows;
hr_status tf__rows_new(const tf_features *f, int n_columns, const char *name, const hr_mem *mem, tf_rows **out,
                       hr_error *err) HR_MUST_USE;
void tf__rows_free(tf_rows *r);
hr_status tf__rows_add(tf_rows *r, hr_view record, int64_t number, hr_error *err) HR_MUST_USE;
int64_t tf__rows_bytes(const tf_rows *r); /* made so far, about */
/* The columns of n rows, new, into arrays[0, n_columns). */
hr_status tf__rows_finish(tf_rows *r, int64_t n, hr_array **arrays, hr_error *err) HR_MUST_USE;

/* tf_write.c */
hr_status tf__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                     hr_error *err) HR_MUST_USE;

#endif
