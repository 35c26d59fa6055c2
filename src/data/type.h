/* type.h - types of columns, fields and schemas. */
#ifndef HR_TYPE_H
#define HR_TYPE_H

#include "base/number.h"
#include "base/text.h"
#include "data/buffer.h"

/* id, name as printed, Arrow format (NULL: made by hand), bytes a value (0: not fixed or bits) */
#define HR_TYPE_LIST(X)                                                                                                \
    X(HR_T_NULL, "null", "n", 0)                                                                                       \
    X(HR_T_BOOL, "bool", "b", 0)                                                                                       \
    X(HR_T_INT8, "int8", "c", 1)                                                                                       \
    X(HR_T_UINT8, "uint8", "C", 1)                                                                                     \
    X(HR_T_INT16, "int16", "s", 2)                                                                                     \
    X(HR_T_UINT16, "uint16", "S", 2)                                                                                   \
    X(HR_T_INT32, "int32", "i", 4)                                                                                     \
    X(HR_T_UINT32, "uint32", "I", 4)                                                                                   \
    X(HR_T_INT64, "int64", "l", 8)                                                                                     \
    X(HR_T_UINT64, "uint64", "L", 8)                                                                                   \
    X(HR_T_FLOAT16, "halffloat", "e", 2)                                                                               \
    X(HR_T_FLOAT32, "float", "f", 4)                                                                                   \
    X(HR_T_FLOAT64, "double", "g", 8)                                                                                  \
    X(HR_T_STRING, "string", "u", 0)                                                                                   \
    X(HR_T_LARGE_STRING, "large_string", "U", 0)                                                                       \
    X(HR_T_BINARY, "binary", "z", 0)                                                                                   \
    X(HR_T_LARGE_BINARY, "large_binary", "Z", 0)                                                                       \
    X(HR_T_FIXED_BINARY, "fixed_size_binary", NULL, 0) /* width */                                                     \
    X(HR_T_DATE32, "date32[day]", "tdD", 4)                                                                            \
    X(HR_T_DATE64, "date64[ms]", "tdm", 8)                                                                             \
    X(HR_T_TIME32, "time32", NULL, 4)          /* unit s, ms */                                                        \
    X(HR_T_TIME64, "time64", NULL, 8)          /* unit us, ns */                                                       \
    X(HR_T_TIMESTAMP, "timestamp", NULL, 8)    /* unit, zone */                                                        \
    X(HR_T_DURATION, "duration", NULL, 8)      /* unit */                                                              \
    X(HR_T_DECIMAL128, "decimal128", NULL, 16) /* precision, scale */                                                  \
    X(HR_T_DECIMAL256, "decimal256", NULL, 32)                                                                         \
    X(HR_T_MONTHS, "month_interval", "tiM", 4)                   /* int32 */                                           \
    X(HR_T_DAY_TIME, "day_time_interval", "tiD", 8)              /* int32 days, int32 milliseconds */                  \
    X(HR_T_MONTH_DAY_NANO, "month_day_nano_interval", "tin", 16) /* int32 months, int32 days, int64 nanoseconds */     \
    X(HR_T_LIST, "list", "+l", 0)                                                                                      \
    X(HR_T_LARGE_LIST, "large_list", "+L", 0)                                                                          \
    X(HR_T_FIXED_LIST, "fixed_size_list", NULL, 0) /* width = values a list */                                         \
    X(HR_T_STRUCT, "struct", "+s", 0)              /* n_dims > 0: arrow.variable_shape_tensor, see hr__type_ragged */  \
    X(HR_T_MAP, "map", "+m", 0)                    /* child: struct<key, value> */                                     \
    X(HR_T_TENSOR, "tensor", NULL, 0) /* arrow.fixed_shape_tensor: layout of a FIXED_LIST of prod(shape) values */

typedef enum hr_type_id {
#define HR_X(id, name, format, bytes) id,
    HR_TYPE_LIST(HR_X)
#undef HR_X
        HR_N_TYPES
} hr_type_id;

#define HR_MAX_DIMS 8
#define HR_MAX_DEPTH 64 /* levels of nesting; deeper input is an error */

typedef struct hr_type hr_type;
typedef struct hr_field {
    char *name; /* never NULL; may be invalid UTF-8 */
    hr_type *type;
    bool nullable;
    uint8_t *metadata; /* Arrow's encoding (int32 count, then int32-sized keys and values), NULL: none */
    int64_t metadata_bytes;
} hr_field;

/* Immutable, counted. Primitive types are static singletons: refs on them do nothing. */
struct hr_type {
    hr_type_id id;
    atomic_int refs;
    bool is_static;
    hr_unit unit;
    int32_t width; /* FIXED_BINARY bytes, FIXED_LIST and TENSOR values a row */
    int32_t precision, scale;
    char *zone;     /* TIMESTAMP; NULL: none */
    int32_t n_dims; /* TENSOR: without the row dimension; STRUCT: of a ragged tensor, 0: a plain struct */
    int64_t shape[HR_MAX_DIMS];
    int32_t n_children;
    hr_field *children; /* list, fixed list, tensor: one, the values; map: one, the entries struct */
    bool keys_sorted;   /* MAP */
    bool pickled;       /* LARGE_BINARY: Python objects, see hr__type_pickled */
    bool image;         /* STRUCT, ragged: see hr__type_ragged_image */
    char *format;       /* Arrow's, for types with parameters; read it by hr__type_format */
};

hr_type *hr__type_simple(hr_type_id id); /* a singleton; never NULL for ids without parameters */
hr_status hr__type_unit(hr_type_id id, hr_unit unit, const char *zone, hr_type **out, hr_error *err) HR_MUST_USE;
hr_status hr__type_fixed_binary(int32_t width, hr_type **out, hr_error *err) HR_MUST_USE;
hr_status hr__type_decimal(hr_type_id id, int32_t precision, int32_t scale, hr_type **out, hr_error *err) HR_MUST_USE;
/* LIST, LARGE_LIST, FIXED_LIST (width), MAP (child must be struct of two). Shares the child's type; copies the
 * field. */
hr_status hr__type_list(hr_type_id id, const hr_field *child, int32_t width, hr_type **out, hr_error *err) HR_MUST_USE;
hr_status hr__type_struct(const hr_field *fields, int n, hr_type **out, hr_error *err) HR_MUST_USE;
hr_status hr__type_tensor(hr_type *value, const int64_t *shape, int n_dims, hr_type **out, hr_error *err) HR_MUST_USE;
/* Tensors whose shape differs from row to row: struct<data: list<value>, shape: fixed_size_list<int32>[n_dims]>. Code
 * for structs works on them. Outside they are `arrow.variable_shape_tensor`. */
hr_status hr__type_ragged(hr_type *value, int n_dims, hr_type **out, hr_error *err) HR_MUST_USE;
/* Images (height, width, channels). The rows of an image with one channel have the shape (height, width), as grey
 * images have in Pillow. Outside the dimensions have these names. */
hr_status hr__type_ragged_image(hr_type *value, hr_type **out, hr_error *err) HR_MUST_USE;
static inline bool hr__type_is_ragged(const hr_type *t) { return t->id == HR_T_STRUCT && t->n_dims > 0; }
/* Python objects, each as its pickle: large_binary that only Python reads. Code that moves binary moves them; no code
 * compares them or computes with them. Only bytes that this process or its workers pickled have this type. Outside it
 * is binary marked as `headrace.pickle`, and stays binary when it comes from a file, since unpickling runs code in the
 * bytes. */
hr_type *hr__type_pickled(void); /* a singleton */
/* Whether the type holds pickles, at any depth. */
bool hr__type_has_pickles(const hr_type *t);
/* HR_TYPE if it does: "WHAT: column 'x' is ...: WHY". */
hr_status hr__refuse_pickles(const char *what, const hr_field *f, hr_error *err) HR_MUST_USE;
hr_type *hr__type_ref(hr_type *t);
void hr__type_unref(hr_type *t);
bool hr__type_equal(const hr_type *a, const hr_type *b); /* names of list items and of map entries are ignored */
int hr__type_bytes(const hr_type *t);                    /* bytes a value if of fixed width and byte-aligned, else 0 */
int hr__type_align(const hr_type *t);                    /* values lie at multiples of this: 1, 2, 4 or 8 bytes */
int hr__type_offset_bytes(const hr_type *t); /* 4 or 8 for what has offsets (string, binary, list, map), else 0 */
/* string, binary and their large ones */
static inline bool hr__type_is_bytes(const hr_type *t) { return t->id >= HR_T_STRING && t->id <= HR_T_LARGE_BINARY; }
/* Spans of calendar time: months, days, parts of a day, which do not convert into each other. The engine passes them on
 * and does not compute with them. */
static inline bool hr__type_is_int(const hr_type *t) { return t->id >= HR_T_INT8 && t->id <= HR_T_UINT64; }
static inline bool hr__type_is_unsigned(const hr_type *t)
{
    return t->id == HR_T_UINT8 || t->id == HR_T_UINT16 || t->id == HR_T_UINT32 || t->id == HR_T_UINT64;
}
static inline bool hr__type_is_decimal(const hr_type *t)
{
    return t->id == HR_T_DECIMAL128 || t->id == HR_T_DECIMAL256;
}
static inline bool hr__type_is_interval(const hr_type *t)
{
    return t->id >= HR_T_MONTHS && t->id <= HR_T_MONTH_DAY_NANO;
}
/* fixed list and tensor: t->width values a row */
static inline bool hr__type_is_fixed_list(const hr_type *t) { return t->id == HR_T_FIXED_LIST || t->id == HR_T_TENSOR; }
const char *
hr__type_format(const hr_type *t); /* Arrow's format string, borrowed: "tsu:UTC", "+w:3" (tensors as well) */
void hr__type_print(const hr_type *t, hr_text *out); /* "list<item: int64>", "timestamp[us, tz=UTC]", as pyarrow */
/* A type from that text (except struct and map), or from NumPy's names: "float32", "str". HR_INVALID shows the text. */
hr_status hr__type_parse(const char *text, hr_type **out, hr_error *err) HR_MUST_USE;
/* Borrows the children. HR_UNSUPPORTED names the format. */
hr_status hr__type_from_format(const char *format, hr_field *children, int n_children, hr_type **out,
                               hr_error *err) HR_MUST_USE;

/* Half precision. Rounds to the nearest, ties to even; too large is infinite. */
uint16_t hr__half_of(double v);
double hr__half_value(uint16_t h);

/* Names end at a zero byte: HR_BAD_DATA if one of the n bytes is zero. what: "a column's name", for the error. */
hr_status hr__name_check(const void *name, int64_t n, const char *what, hr_error *err);
hr_status hr__field_init(hr_field *f, const char *name, hr_type *type, bool nullable,
                         hr_error *err) HR_MUST_USE; /* shares type */
hr_status hr__field_copy(hr_field *to, const hr_field *from, hr_error *err) HR_MUST_USE;
void hr__field_clear(hr_field *f);

/* Named, typed columns. Immutable, counted. Names may repeat, as in files; look-up finds the first. */
typedef struct hr_schema {
    atomic_int refs;
    int n;
    hr_field *fields;
    uint8_t *metadata;
    int64_t metadata_bytes;
} hr_schema;
hr_status hr__schema_new(const hr_field *fields, int n, hr_schema **out, hr_error *err) HR_MUST_USE; /* copies fields */
/* The fields of s and one more, which shares `type`; with the metadata of s. */
hr_status hr__schema_append(const hr_schema *s, const char *name, hr_type *type, bool nullable, hr_schema **out,
                            hr_error *err) HR_MUST_USE;
hr_schema *hr__schema_ref(hr_schema *s);
void hr__schema_unref(hr_schema *s);
int hr__schema_find(const hr_schema *s, const char *name);     /* -1: none */
bool hr__schema_equal(const hr_schema *a, const hr_schema *b); /* names, types, order; not metadata, not nullability */
/* "column 'x' is int64, expected double" for the first difference; call only when unequal. */
void hr__schema_difference(const hr_schema *found, const hr_schema *expected, char *text, size_t cap);
void hr__schema_print(const hr_schema *s, hr_text *out);           /* one "name: type" a line */
void hr__schema_names(const hr_schema *s, char *text, size_t cap); /* "'a', 'b', ...", for errors; "none" */
/* HR_INVALID that names the column and the existing columns. */
hr_status hr__schema_missing(const hr_schema *s, const char *name, hr_error *err);
/* The same as `st`, for a reader or an operator that names itself or its file. */
hr_status hr__schema_missing_in(const char *where, hr_status st, const hr_schema *s, const char *name, hr_error *err);
/* The value of `key` in Arrow-encoded metadata (NULL: none), borrowed, with its length. */
const char *hr__metadata_get(const uint8_t *metadata, int64_t n_bytes, const char *key, int64_t *n_value);
/* The pair at *at (0: the first), borrowed; false at the end and where the metadata is damaged. */
bool hr__metadata_next(const uint8_t *metadata, int64_t n_bytes, int64_t *at, const char **key, int64_t *n_key,
                       const char **value, int64_t *n_value);
/* Sets `key` in *metadata (replaced: hr__alloc'ed or NULL); value NULL removes the key. *metadata must not be
 * shared. */
hr_status hr__metadata_set(uint8_t **metadata, int64_t *n_bytes, const char *key, const void *value, int64_t n_value,
                           hr_error *err) HR_MUST_USE;
/* Outside, a tensor is a fixed list with the metadata of `arrow.fixed_shape_tensor`, a ragged tensor a struct with that
 * of `arrow.variable_shape_tensor`. If a field that was just read has this metadata, its type becomes the tensor and
 * the two keys are removed. The field stays as it is if the metadata has a permutation, names of dimensions other than
 * those of images, or a partly uniform shape. */
hr_status hr__field_from_storage(hr_field *f, hr_error *err) HR_MUST_USE;
/* Whether a field that was just read is marked as pickles; the second makes it one, if its bytes are known to be
 * ours. */
bool hr__field_is_marked_pickle(const hr_field *f);
hr_status hr__field_become_pickle(hr_field *f, hr_error *err) HR_MUST_USE;
/* The metadata to write for f: its own and, for a tensor or pickles, the extension's. *out is new (hr__free), NULL if
 * none. */
hr_status hr__field_storage_metadata(const hr_field *f, uint8_t **out, int64_t *n_bytes, hr_error *err) HR_MUST_USE;

#endif
