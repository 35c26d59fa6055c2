/* ipc_tables.c - the tables of Arrow's messages, from Message.fbs, Schema.fbs and File.fbs, for hr__flat_verify.
 *
 * Tests: test_ipc.c. */
#include "format/arrow/ipc.h"

#define NUMBER(bytes_) { HR_FLAT_NUMBER, bytes_, NULL }
#define TEXT { HR_FLAT_TEXT, 0, NULL }
#define VECTOR(bytes_) { HR_FLAT_VECTOR, bytes_, NULL }
#define ONE(of_) { HR_FLAT_TABLE, 0, &of_ }
#define MANY(of_) { HR_FLAT_TABLES, 0, &of_ }
#define UNION { HR_FLAT_UNION, 0, NULL }
#define TABLE(name_, ...)                                                                                              \
    static const hr_flat_field name_##_fields[] = { __VA_ARGS__ };                                                     \
    static const hr_flat_table name_ = { #name_, HR_LEN(name_##_fields), name_##_fields, 0, NULL }

/* ------------------------------------------------------------------------------------------------------- Schema.fbs */

static const hr_flat_table Plain = { "Type", 0, NULL, 0, NULL }; /* Null, Binary, Utf8, Bool, List, Struct, ... */
TABLE(Int, NUMBER(4), NUMBER(1));
TABLE(FloatingPoint, NUMBER(2));
TABLE(Decimal, NUMBER(4), NUMBER(4), NUMBER(4));
TABLE(Date, NUMBER(2));
TABLE(Time, NUMBER(2), NUMBER(4));
TABLE(Timestamp, NUMBER(2), TEXT);
TABLE(Interval, NUMBER(2));
TABLE(Union, NUMBER(2), VECTOR(4));
TABLE(FixedSizeBinary, NUMBER(4));
TABLE(FixedSizeList, NUMBER(4));
TABLE(Map, NUMBER(1));
TABLE(Duration, NUMBER(2));

static const hr_flat_table *const types[] = {
    NULL,      &Plain,     &Int,      &FloatingPoint, &Plain, &Plain, &Plain,           &Decimal,       &Date,
    &Time,     &Timestamp, &Interval, &Plain,         &Plain, &Union, &FixedSizeBinary, &FixedSizeList, &Map,
    &Duration, &Plain,     &Plain,    &Plain,         &Plain, &Plain, &Plain,           &Plain,         &Plain,
};

TABLE(KeyValue, TEXT, TEXT);
TABLE(DictionaryEncoding, NUMBER(8), ONE(Int), NUMBER(1), NUMBER(2));

static const hr_flat_table Field;
static const hr_flat_field Field_fields[] = {
    TEXT, NUMBER(1), NUMBER(1), UNION, ONE(DictionaryEncoding), MANY(Field), MANY(KeyValue),
};
static const hr_flat_table Field = { "Field", HR_LEN(Field_fields), Field_fields, HR_LEN(types), types };

TABLE(Schema, NUMBER(2), MANY(Field), MANY(KeyValue), VECTOR(8));

/* ------------------------------------------------------------------------------------------- Message.fbs, File.fbs */

TABLE(BodyCompression, NUMBER(1), NUMBER(1));
TABLE(RecordBatch, NUMBER(8), VECTOR(16), VECTOR(16), ONE(BodyCompression), VECTOR(8));
TABLE(DictionaryBatch, NUMBER(8), ONE(RecordBatch), NUMBER(1));

static const hr_flat_table *const headers[] = { NULL, &Schema, &DictionaryBatch, &RecordBatch };
static const hr_flat_field Message_fields[] = { NUMBER(2), NUMBER(1), UNION, NUMBER(8), MANY(KeyValue) };
const hr_flat_table ipc__message_table = { "Message", HR_LEN(Message_fields), Message_fields, HR_LEN(headers),
                                           headers };

static const hr_flat_field Footer_fields[] = { NUMBER(2), ONE(Schema), VECTOR(24), VECTOR(24), MANY(KeyValue) };
const hr_flat_table ipc__footer_table = { "Footer", HR_LEN(Footer_fields), Footer_fields, 0, NULL };
