/* ipc.h - types and functions shared by the files of the Arrow IPC format. Private to src/format.
 *
 *   ipc_schema.c  the schema message: flatbuffer -> ipc_schema, hr_schema; hr_schema -> message
 *   ipc_tables.c  which tables messages have, to verify them
 *   ipc_body.c    a record batch's buffers -> arrays
 *   ipc.c         files and streams: messages, dictionaries, fragments
 *   ipc_write.c   the writer
 *
 * https://arrow.apache.org/docs/format/Columnar.html and Message.fbs, Schema.fbs, File.fbs of that project. */
#ifndef HR_IPC_H
#define HR_IPC_H

#include "format/arrow/flatbuffer.h"
#include "format/format.h"

/* A field of the file, with its encoding. */
typedef struct ipc_field {
    char *name;
    char *format; /* Arrow's, of the values (of a dictionary's values); NULL: unknown type */
    char index;   /* format of a dictionary's indices; 0: not dictionary-encoded */
    int64_t id;   /* of the dictionary */
    int64_t type; /* of the flatbuffer's union */
    uint8_t *metadata;
    int64_t metadata_bytes;
    bool nullable, sorted_keys;
    int n_children;
    struct ipc_field *children;
} ipc_field;

typedef struct ipc_schema {
    hr_account *account;
    int n;
    ipc_field *fields;
    bool big_endian;
    uint8_t *metadata;
    int64_t metadata_bytes;
} ipc_schema;

extern const hr_flat_table ipc__message_table, ipc__footer_table; /* ipc_tables.c */

/* From the table of a Schema in f. HR_BAD_DATA, HR_UNSUPPORTED. *out is new. */
hr_status ipc__schema_read(hr_flat *f, int64_t table, hr_account *account, ipc_schema **out, hr_error *err) HR_MUST_USE;
void ipc__schema_free(ipc_schema *s); /* NULL is fine */
/* Whether two schemas have the same columns: names, types, encodings, order of bytes. */
bool ipc__schema_same(const ipc_schema *a, const ipc_schema *b);
/* One field as the C struct for hr__array_import: with its dictionaries if `encoded`, else with the type of its values.
 * Fields of an unknown format are HR_UNSUPPORTED, or null if `lenient`. Free *out by its release. */
hr_status ipc__field_export(const ipc_field *f, bool encoded, bool lenient, struct ArrowSchema *out,
                            hr_error *err) HR_MUST_USE;
hr_status ipc__schema_types(const ipc_schema *s, bool lenient, hr_schema **out, hr_error *err) HR_MUST_USE;

/* A whole encapsulated schema message, as a file or stream begins with it. *out is new. */
hr_status hr__ipc_schema_message(const hr_schema *s, const hr_mem *mem, hr_buffer **out, hr_error *err) HR_MUST_USE;
/* The Schema table in a builder, for message and footer. */
int64_t ipc__schema_put(hr_flat_builder *b, const hr_schema *s, hr_error *err);
/* Continuation, length, flatbuffer, padded to 8 bytes. */
hr_status ipc__message_wrap(hr_view flatbuffer, const hr_mem *mem, hr_buffer **out, hr_error *err) HR_MUST_USE;

/* ------------------------------------------------------------------------------------------------------ ipc_write.c */

typedef struct ipc_write_options {
    bool stream;
    int compression;
} ipc_write_options;
extern const hr_option ipc__write_options[];
hr_status ipc__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                      hr_error *err) HR_MUST_USE;

/* ------------------------------------------------------------------------------------------------------- ipc_body.c */

enum { IPC_CHECK_USUAL, IPC_CHECK_ALL, IPC_CHECK_NONE }; /* option check_values */

/* A RecordBatch table, and where its body lies in the source. Borrows the message. */
typedef struct ipc_batch {
    hr_flat flat;
    int64_t n_rows;
    int64_t nodes, n_nodes; /* places and numbers of structs in the message */
    int64_t buffers, n_buffers;
    int64_t variadic, n_variadic;
    const hr_codec *codec;       /* NULL: not compressed */
    int64_t body_at, body_bytes; /* in the source */
    int check_values;
} ipc_batch;
hr_status ipc__batch_read(hr_flat *f, int64_t table, int64_t body_at, int64_t body_bytes, ipc_batch *out,
                          hr_error *err) HR_MUST_USE;

/* Values of dictionaries, decoded. `find` gives a borrowed array, NULL with HR_OK if there is none. */
typedef struct ipc_dictionaries {
    void *context;
    hr_status (*find)(void *context, int64_t id, hr_array **out, hr_error *err);
} ipc_dictionaries;

/* Where a column's nodes and buffers begin in a batch. */
typedef struct ipc_place {
    int64_t node, buffer, variadic;
} ipc_place;
hr_status ipc__places(const ipc_schema *s, const ipc_batch *b, ipc_place *out, hr_error *err) HR_MUST_USE; /* s->n */
/* Column i of a batch, which begins at `at`, decoded; reads no buffers of other columns. *out is new. */
hr_status ipc__column_read(const ipc_schema *s, const ipc_batch *b, int i, ipc_place at, hr_source *source,
                           const hr_mem *mem, const ipc_dictionaries *d, hr_array **out, hr_error *err) HR_MUST_USE;
/* The one column of a dictionary's batch: the values of field f. */
hr_status ipc__values_read(const ipc_schema *s, const ipc_field *f, const ipc_batch *b, hr_source *source,
                           const hr_mem *mem, const ipc_dictionaries *d, hr_array **out, hr_error *err) HR_MUST_USE;

#endif
