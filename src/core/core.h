/* core.h - what the other folders may use of core: errors, memory, types, arrays, tables, shared memory.
 *
 * core starts no thread and opens no data. Names: hr_ types, hr__ functions shared between our own files.
 * Ownership words (borrows, takes, shares, new) as in headrace.h.
 *
 * 1. Errors: one funnel. Whoever detects writes the message by HR_FAIL, whoever passes on may add *where* by hr__error_at.
 * 2. Memory: every byte for data comes from hr__alloc (small) or hr__buffer_new (pooled), is charged to an account, and
 *    accounts form a tree under the process's one budget.
 * 3. Data: immutable Arrow layout. A column is a hr_array, a hr_table is a schema, arrays and an *origin*, the
 *    coordinates of its rows.
 * 4. Exchange arenas: the only memory that other processes see. */
#ifndef HR_CORE_H
#define HR_CORE_H

#include "core/os.h"
#include "headrace.h"
#include "headrace_config.h"

#include <stdatomic.h>
#include <string.h>

#define HR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HR_MAX(a, b) ((a) > (b) ? (a) : (b))
#define HR_LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define HR_ROUND_UP(n, to) (((n) + (to) - 1) / (to) * (to))

/* ---------------------------------------------------------------------------------------------------- errors: status.c */

/* HR_TRY returns at once (nothing owned yet); HR_GO and HR_FAIL go to `done` with `st` set. */
#define HR_TRY(e)                                                                                                      \
    do {                                                                                                               \
        hr_status try_ = (e);                                                                                          \
        if (try_)                                                                                                      \
            return try_;                                                                                               \
    } while (0)
#define HR_GO(e)                                                                                                       \
    do {                                                                                                               \
        if ((st = (e)))                                                                                                \
            goto done;                                                                                                 \
    } while (0)
#define HR_FAIL(code, ...)                                                                                             \
    do {                                                                                                               \
        st = hr_error_set(err, (code), __VA_ARGS__);                                                                   \
        goto done;                                                                                                     \
    } while (0)

/* Puts "where: " before err's text and returns err's status (or st if err is NULL). */
hr_status hr__error_at(hr_error *err, hr_status st, const char *fmt, ...) HR_PRINTF(3, 4);
/* An -errno as a status with text "path: what: No such file or directory". ENOENT -> HR_NOT_FOUND, ENOMEM -> HR_NO_MEMORY. */
hr_status hr__error_os(hr_error *err, int64_t minus_errno, const char *path, const char *what);
/* Moves *from into *to (to's older content freed; NULL `to` drops it) and resets *from. */
void hr__error_move(hr_error *to, hr_error *from);
/* The one text for a refused allocation: "where: no memory for n bytes". */
hr_status hr__error_memory(hr_error *err, const char *where, int64_t n_bytes);

/* True for a number that is a status; false for HR_OK where it has to be an error. HR_PENDING is none. */
bool hr__status_is_error(int64_t st);
/* Statuses are also places in tables: [0, HR__N_STATUS), -1: no status. */
enum { HR__N_STATUS = 16 };
int hr__status_place(hr_status st);

/* ------------------------------------------------------------------------------------------ callers' structs: structs.c
 *
 * `out`, of n_bytes, becomes what the caller's struct says: its fields, and zero for those that it lacks. HR_INVALID: struct_bytes
 * is 0, or cannot be a size. HR_UNSUPPORTED: a field that we do not know is set. On failure nothing of the struct is taken. */
hr_status hr__struct_read(const char *name, const void *from, void *out, size_t n_bytes, hr_error *err) HR_MUST_USE;
/* The same; read: NULL is all zero, need: NULL is HR_INVALID. */
hr_status hr__struct_need(const char *name, const void *from, void *out, size_t n_bytes, hr_error *err) HR_MUST_USE;
/* n of them, one behind the other as the caller's compiler lays them: all with one struct_bytes. */
hr_status hr__structs_read(const char *name, const void *from, int n, void *out, size_t n_bytes,
                           hr_error *err) HR_MUST_USE;
/* The other way: what the caller knows of `from` (NULL: zeros) goes into *to, whose struct_bytes is set. */
hr_status hr__struct_fill(const char *name, void *to, const void *from, size_t n_bytes, hr_error *err) HR_MUST_USE;
#define HR_STRUCT_READ(type, from, out) hr__struct_read(#type, (from), (out), sizeof(type), err)
#define HR_STRUCT_NEED(type, from, out) hr__struct_need(#type, (from), (out), sizeof(type), err)
#define HR_STRUCTS_READ(type, from, n, out) hr__structs_read(#type, (from), (n), (out), sizeof(type), err)

/* ------------------------------------------------------------------------------------------- accounts: budget.c, mem.c */

/* An account counts the bytes of one operator or run. Blocks keep their account alive; an account keeps its parent.
 * All functions are thread-safe. NULL means the process's root account. */
typedef struct hr_account hr_account;

/* limit_bytes 0: no own limit (its ancestors' hold). `name` is copied. NULL without memory. */
hr_account *hr__account_new(const char *name, hr_account *parent, int64_t limit_bytes);
hr_account *hr__account_ref(hr_account *a);
void hr__account_unref(hr_account *a);
const char *hr__account_name(const hr_account *a);
int64_t hr__account_used(const hr_account *a);
int64_t hr__account_peak(const hr_account *a);
int64_t hr__account_limit(const hr_account *a); /* the smallest of its own and its ancestors' limits */
void hr__account_charge(hr_account *a,
                        int64_t n_bytes); /* memory we did not allocate (a worker's private bytes); n may be < 0 */
/* Bytes that were written to, or read from, spill files for `a`: counts, in all levels. */
void hr__account_spilled(hr_account *a, int64_t written, int64_t was_read);
int64_t hr__account_spill_written(const hr_account *a);
int64_t hr__account_spill_read(const hr_account *a);
/* For those who allocate by themselves (mem.c, buffer.c, arena.c): charged, and counted as live. Each block is a reference
 * on `a`; give back by the negative numbers. Before the memory is asked for, so that the pool makes room first. */
void hr__account_add(hr_account *a, int64_t n_bytes, int n_blocks);

/* Admission, between operator calls: reserves n bytes if used + reserved + n <= limit at every level; false otherwise, and
 * then the waiter is called once when bytes come back. `force` (the oldest ticket) always reserves. Give back by release. */
bool hr__account_reserve(hr_account *a, int64_t n_bytes, bool force);
void hr__account_release(hr_account *a, int64_t n_bytes);
/* Called from any thread when bytes came back after a refusal, without locks of ours, but inside of whatever call freed
 * them: it must not take a lock under which anybody frees. One per process (the scheduler's wake-up). */
void hr__budget_set_waiter(void (*fn)(void));
/* Called, without locks, by hr_set_num_threads with the new number. One per process (the scheduler). */
void hr__threads_set_hook(void (*fn)(int n_threads));
extern _Thread_local bool
    hr__is_pool_thread; /* set by exec/pool.c: such a thread must not wait for threads of the pool */
/* Live blocks and bytes of the whole process, without pooled free buffers: what a test compares before and after. */
int64_t hr__live_bytes(void);
int64_t hr__live_blocks(void);

/* malloc, counted. 16-byte aligned. NULL without memory (or when a fault is armed). n = 0 gives a valid block. */
void *hr__alloc(hr_account *a, size_t n);
void *hr__zalloc(hr_account *a, size_t n);
void *hr__realloc(hr_account *a, void *p, size_t n); /* p NULL: alloc; keeps p's account; on failure p stays */
void hr__free(void *p);                              /* NULL is fine */
char *hr__strdup(hr_account *a, const char *s);      /* NULL gives NULL */
char *hr__strndup(hr_account *a, const char *s, size_t n);
char *hr__printf(hr_account *a, const char *fmt, ...) HR_PRINTF(2, 3); /* new string; NULL without memory */

/* A growing array: HR_PUSH(&v, item) style is left to the caller; this grows *items to hold at least n of size each,
 * doubling. Returns false without memory, *items unchanged. */
bool hr__grow(hr_account *a, void **items, int64_t *cap, int64_t n, size_t item_bytes);

/* A growing text, for messages, JSON and explain(). After a failed append `failed` stays set, text stays valid. */
typedef struct hr_text {
    hr_account *account;
    char *data; /* NUL-terminated once non-NULL */
    int64_t n, cap;
    bool failed;
} hr_text;
void hr__text_add(hr_text *t, const char *fmt, ...) HR_PRINTF(2, 3);
void hr__text_add_bytes(hr_text *t, const void *data, int64_t n);
void hr__text_add_json(hr_text *t, const char *s); /* a quoted, escaped JSON string; invalid UTF-8 as \ufffd */
void hr__text_add_base64(hr_text *t, const uint8_t *data, int64_t n);
void hr__text_clear(hr_text *t);
/* Bytes of base64 into `out`, which has room for n_text / 4 * 3 + 3; -1: a letter is none of its. Padding may lack. */
int64_t hr__base64_read(const uint8_t *text, int64_t n_text, uint8_t *out);

/* ------------------------------------------------------------------------------------------------ buffers: buffer.c */

typedef struct hr_arena hr_arena; /* memory that other processes can map: below */

/* Where new bytes go. The plan decides it when an operator starts: arena non-NULL means "another process will read it". */
typedef struct hr_mem {
    hr_account *account;
    hr_arena *arena;
} hr_mem;

/* hr_buffer.kind. arena.c and wire.c make the last two; hr__buffer_unref hands them to hr__arena_buffer_free. */
enum {
    HR_BUFFER_INLINE, /* small: the bytes follow the struct, one hr__alloc */
    HR_BUFFER_POOLED, /* a map of our own */
    HR_BUFFER_SLICE,  /* owner: the parent, never a slice itself */
    HR_BUFFER_WRAP,   /* owner: whatever release() takes */
    HR_BUFFER_ARENA,  /* in an arena of ours */
    HR_BUFFER_PEER    /* in a peer's arena: to be written only as a part of a sole table */
};

#define HR_SLACK 64 /* readable bytes after the end of every buffer that we allocate; data is 64-byte aligned */

typedef struct hr_buffer {
    uint8_t *data; /* written by its maker before it is shared, then never */
    int64_t n_bytes;
    atomic_int refs;
    uint8_t kind; /* private to buffer.c, arena.c, wire.c */
    int64_t capacity;
    hr_account *account;
    void *owner;                  /* arena, parent buffer, or foreign owner */
    void (*release)(void *owner); /* foreign memory only */
    int64_t place;                /* arena.c, wire.c: offset in its segment */
} hr_buffer;

/* Contents undefined, but the slack is zero. From the pool: fresh pages are the exception. */
hr_status hr__buffer_new(const hr_mem *mem, int64_t n_bytes, hr_buffer **out, hr_error *err) HR_MUST_USE;
/* A copy of n bytes. Borrows. */
hr_status hr__buffer_copy(const hr_mem *mem, const void *data, int64_t n_bytes, hr_buffer **out,
                          hr_error *err) HR_MUST_USE;
/* Foreign memory, not charged; `release(owner)` runs once, on whatever thread drops the last reference. No slack is
 * promised. On failure release is not called. */
hr_status hr__buffer_wrap(const void *data, int64_t n_bytes, void (*release)(void *), void *owner, hr_buffer **out,
                          hr_error *err) HR_MUST_USE;
/* Bytes [begin, begin + n) of `b`, sharing. */
hr_status hr__buffer_slice(hr_buffer *b, int64_t begin, int64_t n, hr_buffer **out, hr_error *err) HR_MUST_USE;
hr_buffer *hr__buffer_ref(hr_buffer *b); /* NULL is fine */
void hr__buffer_unref(hr_buffer *b);
/* Only its maker, before sharing: says that just n bytes are used; the rest goes back to the pool when that pays. */
void hr__buffer_shrink(hr_buffer *b, int64_t n_bytes);
bool hr__buffer_sole(const hr_buffer *b); /* one reference, and memory of our own: its holder may write */
/* A buffer being built. grow: at least n bytes of capacity, doubling. All-zero (with mem) is an empty builder. */
typedef struct hr_growbuf {
    const hr_mem *mem;
    hr_buffer *buffer; /* n_bytes of it are used */
} hr_growbuf;
hr_status hr__growbuf_reserve(hr_growbuf *g, int64_t n_more,
                              hr_error *err) HR_MUST_USE; /* room for n_more after n_bytes */
hr_status hr__growbuf_add(hr_growbuf *g, const void *data, int64_t n, hr_error *err) HR_MUST_USE;
/* What was built, shrunk, with its slack; *out is new, of no bytes if nothing was added; g is empty. On failure g stays. */
hr_status hr__growbuf_finish(hr_growbuf *g, hr_buffer **out, hr_error *err) HR_MUST_USE;
void hr__growbuf_clear(hr_growbuf *g);
/* Frees pooled buffers down to `keep_bytes`; called when the budget is short. Returns the bytes freed. */
int64_t hr__pool_trim(int64_t keep_bytes);
int64_t hr__pool_bytes(void); /* in free pooled buffers */

/* Columns are Arrow's in memory, files and messages are little-endian, and kernels look at bytes of words: all of it is written for
 * little-endian machines alone. Files of the other order (npy '>f4', Arrow IPC, decimals of Parquet) are swapped when they are read. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headrace runs on little-endian machines");

/* Little-endian words at any address. */
static inline uint64_t hr__load_le64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}
static inline uint32_t hr__load_le32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

/* bits, LSB first */
static inline bool hr__bit(const uint8_t *bits, int64_t i) { return (bits[i >> 3] >> (i & 7)) & 1; }
static inline void hr__bit_set(uint8_t *bits, int64_t i) { bits[i >> 3] |= (uint8_t)(1u << (i & 7)); }
static inline void hr__bit_clear(uint8_t *bits, int64_t i) { bits[i >> 3] &= (uint8_t)~(1u << (i & 7)); }
static inline int64_t hr__bits_bytes(int64_t n_bits) { return (n_bits + 7) / 8; }
int64_t hr__bits_count(const uint8_t *bits, int64_t begin, int64_t n); /* ones */
void hr__bits_copy(uint8_t *to, int64_t to_bit, const uint8_t *from, int64_t from_bit, int64_t n);
void hr__bits_fill(uint8_t *to, int64_t to_bit, int64_t n, bool value);

/* -------------------------------------------------------------------------------------------- types: type.c, schema.c */

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

typedef enum hr_unit { HR_SECOND, HR_MILLI, HR_MICRO, HR_NANO } hr_unit;

#define HR_MAX_DIMS 8
#define HR_MAX_DEPTH 64 /* nesting of types; deeper input is refused */

typedef struct hr_type hr_type;
typedef struct hr_field {
    char *name; /* never NULL; valid UTF-8 is not promised */
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
/* LIST, LARGE_LIST, FIXED_LIST (width), MAP (child must be struct of two). Shares the child's type; copies the field. */
hr_status hr__type_list(hr_type_id id, const hr_field *child, int32_t width, hr_type **out, hr_error *err) HR_MUST_USE;
hr_status hr__type_struct(const hr_field *fields, int n, hr_type **out, hr_error *err) HR_MUST_USE;
hr_status hr__type_tensor(hr_type *value, const int64_t *shape, int n_dims, hr_type **out, hr_error *err) HR_MUST_USE;
/* Tensors whose shape differs from row to row: struct<data: list<value>, shape: fixed_size_list<int32>[n_dims]>. All that
 * knows structs knows them. Outside they are `arrow.variable_shape_tensor`. */
hr_status hr__type_ragged(hr_type *value, int n_dims, hr_type **out, hr_error *err) HR_MUST_USE;
/* Images (height, width, channels), of which one with a single channel is (height, width) for whoever looks at rows: grey images,
 * as Pillow has them. Outside the dimensions have these names. */
hr_status hr__type_ragged_image(hr_type *value, hr_type **out, hr_error *err) HR_MUST_USE;
static inline bool hr__type_is_ragged(const hr_type *t) { return t->id == HR_T_STRUCT && t->n_dims > 0; }
/* Python objects, each as its pickle: large_binary that nobody looks into but Python. All that moves binary moves them. They are
 * neither compared nor computed with, and only bytes that this process or its workers pickled are ever of this type: outside it is
 * binary marked as `headrace.pickle`, which from a file stays binary, since unpickling runs what the bytes say. */
hr_type *hr__type_pickled(void); /* a singleton */
/* Whether it holds such values, at any depth. */
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
/* Spans of calendar time, whose parts do not add up: months, days, parts of a day. They are passed on, not computed with. */
static inline bool hr__type_is_int(const hr_type *t) { return t->id >= HR_T_INT8 && t->id <= HR_T_UINT64; }
static inline bool hr__type_is_unsigned(const hr_type *t)
{
    return t->id == HR_T_UINT8 || t->id == HR_T_UINT16 || t->id == HR_T_UINT32 || t->id == HR_T_UINT64;
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
/* A type from such a text (not struct and map), or from names as NumPy has them: "float32", "str". HR_INVALID shows the text. */
hr_status hr__type_parse(const char *text, hr_type **out, hr_error *err) HR_MUST_USE;
/* Borrows the children. HR_UNSUPPORTED names the format. */
hr_status hr__type_from_format(const char *format, hr_field *children, int n_children, hr_type **out,
                               hr_error *err) HR_MUST_USE;

/* Half precision. Rounds to the nearest, ties to even; too large is infinite. */
uint16_t hr__half_of(double v);
double hr__half_value(uint16_t h);

/* Names end at a zero byte here: HR_BAD_DATA if one of `n` bytes holds one. what: "a column's name", as the error has it. */
hr_status hr__name_check(const void *name, int64_t n, const char *what, hr_error *err);
hr_status hr__field_init(hr_field *f, const char *name, hr_type *type, bool nullable,
                         hr_error *err) HR_MUST_USE; /* shares type */
hr_status hr__field_copy(hr_field *to, const hr_field *from, hr_error *err) HR_MUST_USE;
void hr__field_clear(hr_field *f);

/* Named, typed columns. Immutable, counted. Names may repeat (files have that); look-up gives the first. */
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
void hr__schema_names(const hr_schema *s, char *text, size_t cap); /* "'a', 'b', ...", as errors list them; "none" */
/* HR_INVALID, naming the column and the columns there are. */
hr_status hr__schema_missing(const hr_schema *s, const char *name, hr_error *err);
/* The value of `key` in Arrow-encoded metadata (NULL: none), borrowed, with its length. */
const char *hr__metadata_get(const uint8_t *metadata, int64_t n_bytes, const char *key, int64_t *n_value);
/* The pair at *at (0: the first), borrowed; false at the end and where the metadata is damaged. */
bool hr__metadata_next(const uint8_t *metadata, int64_t n_bytes, int64_t *at, const char **key, int64_t *n_key,
                       const char **value, int64_t *n_value);
/* Sets `key` in *metadata (replaced: hr__alloc'ed or NULL); value NULL takes it out. Only while nothing else uses it. */
hr_status hr__metadata_set(uint8_t **metadata, int64_t *n_bytes, const char *key, const void *value, int64_t n_value,
                           hr_error *err) HR_MUST_USE;
/* Outside, a tensor is a fixed list with the metadata of `arrow.fixed_shape_tensor`, a ragged one a struct with that of
 * `arrow.variable_shape_tensor`. A field just read: if so marked (and without permutation, names of dimensions but those of images, or a shape
 * that is partly uniform) its type becomes that tensor's and the two keys go; else it stays as it is. */
hr_status hr__field_from_storage(hr_field *f, hr_error *err) HR_MUST_USE;
/* A field that was just read and is marked as pickles, and what it becomes if its bytes are known to be ours. */
bool hr__field_is_marked_pickle(const hr_field *f);
hr_status hr__field_become_pickle(hr_field *f, hr_error *err) HR_MUST_USE;
/* The metadata to write for f: its own and, for a tensor or pickles, the extension's. *out is new (hr__free), NULL if none. */
hr_status hr__field_storage_metadata(const hr_field *f, uint8_t **out, int64_t *n_bytes, hr_error *err) HR_MUST_USE;

/* ------------------------------------------------------------------------------------------------- arrays: array.c */

/* One column, Arrow layout, immutable, counted. Row i of the array is element offset + i of its buffers (and, for struct,
 * fixed list and tensor, of its children, as Arrow says). Buffers:
 *   null: none · bool, fixed width: [0] validity [1] values · string, binary: [0] validity [1] offsets [2] bytes
 *   list, map: [0] validity [1] offsets · struct, fixed list, tensor: [0] validity.
 * A validity buffer of NULL means that no row is null. An offsets buffer may be NULL only if length is 0. */
typedef struct hr_array hr_array;
struct hr_array {
    atomic_int refs;
    hr_type *type;
    int64_t length;
    int64_t offset;
    _Atomic int64_t null_count; /* -1: not counted yet */
    hr_buffer *buffers[3];
    int n_children;
    hr_array **children;
};

/* Shares type; takes buffers (three, NULL where none) and children, even on failure. Lengths are the caller's to be right. */
hr_status hr__array_new(hr_type *type, int64_t length, int64_t null_count, hr_buffer *const buffers[3],
                        hr_array *const *children, int n_children, hr_array **out, hr_error *err) HR_MUST_USE;
hr_array *hr__array_ref(hr_array *a);
void hr__array_unref(hr_array *a);
hr_status hr__array_slice(const hr_array *a, int64_t begin, int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;
/* Full structural check for data from outside: buffer sizes and alignment, offsets in order and in range, children's lengths, UTF-8 if asked. */
hr_status hr__array_check(const hr_array *a, bool check_utf8, hr_error *err) HR_MUST_USE;
/* Of a checked array: values that its type does not allow (times beyond the day, null keys; if `exact`, decimals of
 * more digits than their precision: Arrow for Java wrote such, and its golden files have them). */
hr_status hr__array_check_values(const hr_array *a, bool exact, hr_error *err) HR_MUST_USE;
int64_t hr__array_null_count(const hr_array *a); /* counts once */
bool hr__utf8_valid(const void *data, int64_t n);
bool hr__utf8_valid_by(unsigned cpu, const void *data, int64_t n); /* with these CPU features: for tests */
static inline bool hr__array_is_null(const hr_array *a, int64_t i)
{
    return a->type->id == HR_T_NULL || (a->buffers[0] && !hr__bit(a->buffers[0]->data, a->offset + i));
}
/* First value of a fixed-width array. */
static inline const uint8_t *hr__array_values(const hr_array *a)
{
    return a->buffers[1] ? a->buffers[1]->data + a->offset * hr__type_bytes(a->type) : NULL;
}
/* Row i of an array of integers, dates, times or durations, of 1 to 8 bytes; undefined for a null. _int extends the sign, _uint
 * gives the bits as they are stored. */
static inline int64_t hr__array_int(const hr_array *a, int64_t i)
{
    int bytes = hr__type_bytes(a->type);
    const uint8_t *p = hr__array_values(a) + i * bytes;
    int16_t v16;
    int32_t v32;
    int64_t v64;

    switch (bytes) {
    case 1: return (int8_t)*p;
    case 2: memcpy(&v16, p, 2); return v16;
    case 4: memcpy(&v32, p, 4); return v32;
    default: memcpy(&v64, p, 8); return v64;
    }
}
static inline uint64_t hr__array_uint(const hr_array *a, int64_t i)
{
    return (uint64_t)hr__array_int(a, i) & UINT64_MAX >> (64 - 8 * hr__type_bytes(a->type));
}
/* Bytes of row i of string, binary (32 or 64-bit) and fixed binary; undefined for a null. Borrowed. */
const uint8_t *hr__array_bytes(const hr_array *a, int64_t i, int64_t *n);
/* Values range [*begin, *begin + *n) in children[0] of row i of any list, map, fixed list, tensor. */
void hr__array_range(const hr_array *a, int64_t i, int64_t *begin, int64_t *n);
/* One reference, to it and all below, whose memory is our own: its holder may write. */
bool hr__array_sole(const hr_array *a);
/* Bytes that the rows use (not the capacity behind a slice): validity, offsets, values, children. */
int64_t hr__array_bytes_used(const hr_array *a);
/* Rows idx[0..n) as a new contiguous array (int32 or int64 by idx_bytes 4 or 8; -1: a null). */
hr_status hr__array_take(const hr_mem *mem, const hr_array *a, const void *idx, int idx_bytes, int64_t n,
                         hr_array **out, hr_error *err) HR_MUST_USE;
/* The same rows of several: out[i] is new; on failure some are, the others NULL, and *failed (NULL is fine) says which one failed. */
hr_status hr__arrays_take(const hr_mem *mem, hr_array *const *arrays, int n_arrays, const void *idx, int idx_bytes,
                          int64_t n, hr_array **out, int *failed, hr_error *err) HR_MUST_USE;
/* Rows of all parts, one after the other, contiguous, offset 0 (parts: same type; n = 0 needs `type`). HR_BUDGET text names
 * 2 GiB if 32-bit offsets would overflow. n_parts = 1 also makes the slice contiguous. Parallel-safe. */
hr_status hr__array_concat(const hr_mem *mem, hr_type *type, hr_array *const *parts, int n_parts, hr_array **out,
                           hr_error *err) HR_MUST_USE;
/* The same for parts of arrays: rows [begin, begin + n) of each; array NULL: n nulls. */
typedef struct hr_span {
    const hr_array *array;
    int64_t begin, n;
} hr_span;
hr_status hr__array_gather(const hr_mem *mem, hr_type *type, const hr_span *spans, int64_t n_spans, hr_array **out,
                           hr_error *err) HR_MUST_USE;
/* pick.c: rows of up to HR_PICK_PARTS arrays, of at most HR_PICK_ROWS rows each, in any order. A pick is the number of a part, shifted
 * up by HR_PICK_BITS, and the number of a row of it. */
#define HR_PICK_BITS 20
#define HR_PICK_ROWS (1 << HR_PICK_BITS)
#define HR_PICK_PARTS (1 << (32 - HR_PICK_BITS))
hr_status hr__array_pick(const hr_mem *mem, hr_type *type, hr_array *const *parts, int n_parts, const uint32_t *picks,
                         int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;
/* An array of n nulls, or of no rows, of any type. */
hr_status hr__array_nulls(const hr_mem *mem, hr_type *type, int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;
/* Equal values (nulls equal, NaN equal to NaN); for tests and for peers that must agree. */
bool hr__array_equal(const hr_array *a, const hr_array *b);
bool hr__values_equal(const hr_array *a, int64_t i, const hr_array *b, int64_t j); /* the same, of two rows */
void hr__array_print_value(const hr_array *a, int64_t row, hr_text *out);
/* The same, but stops soon after max_bytes: values can be images. */
void hr__array_print_some(const hr_array *a, int64_t row, int64_t max_bytes, hr_text *out);
/* Lists (nested too) whose rows are all valid and all of one length: fills shape[0..*n_dims) and *values (borrowed) and
 * *begin (first value in it) so that rows are dense; false if ragged, null inside, or values not fixed-width.
 * For tensor and fixed list it always succeeds when nothing is null; for ragged tensors if all shapes are equal (of images of one
 * channel these are height and width). For plain fixed-width columns n_dims = 0. Booleans
 * count as fixed width: `values` is then an array of bits. */
bool hr__array_dense(const hr_array *a, int *n_dims, int64_t shape[HR_MAX_DIMS], const hr_array **values,
                     int64_t *begin);

/* The rows of a tensor, none of them null, as ragged tensors that share its values: for columns whose other rows may have other
 * shapes. HR_TYPE if it is none. *out is new. */
hr_status hr__array_as_ragged(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err) HR_MUST_USE;

/* Whether values of this type have a NaN or a NaT to say "none" with, once integers are float64 and dates 64 bits wide. */
bool hr__array_can_fill(const hr_type *t);
/* The same rows without nulls: NaN in their place, integers as float64; NaT of dates and times, which come as int64. */
hr_status hr__array_fill_nulls(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err) HR_MUST_USE;
/* The first row of a double array that is no value of this integer type, NaN and null being its null; -1: all are. Up to 2^53. */
int64_t hr__array_not_whole(const hr_array *a, const hr_type *type);
/* Such an array as that type, null where it is NaN or null. */
hr_status hr__array_of_whole(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                             hr_error *err) HR_MUST_USE;
int64_t hr__array_not_exact(const hr_array *a); /* of an integer array: the first row that is beyond 2^53; -1: none */

/* ----------------------------------------------------------------------------------------- tables: origin.c, table.c */

/* A row's coordinate: where in the sources it came from. Compared field by field in this order, it is the canonical order
 * of a source's rows. It never depends on threads, morsels or ranks, and is what seeds and positions are made of. */
typedef struct hr_coord {
    int32_t instance; /* which source of the plan, in canonical order: union(ds, ds) has two */
    int32_t file;
    int32_t fragment;
    int32_t spare;   /* zero */
    int64_t row;     /* in the fragment */
    int64_t ordinal; /* among the rows that one source row became (flat_map, generators) */
} hr_coord;

/* Coordinates that follow each other. Row j has `first` with row + j (by_ordinal false) or ordinal + j (true). */
typedef struct hr_run_coords {
    hr_coord first;
    int64_t n;
    bool by_ordinal;
} hr_run_coords;
typedef struct hr_origin hr_origin; /* immutable, counted */

hr_status hr__origin_new(const hr_run_coords *runs, int64_t n_runs, hr_origin **out,
                         hr_error *err) HR_MUST_USE; /* merges neighbours */
hr_origin *hr__origin_ref(hr_origin *o);
void hr__origin_unref(hr_origin *o);
int64_t hr__origin_rows(const hr_origin *o);
int64_t hr__origin_stretches(const hr_origin *o); /* as how many it is stored, each with picks or without */
/* The rows from `row` on that follow each other, as far as its stretch goes. */
hr_run_coords hr__origin_run(const hr_origin *o, int64_t row);
/* How many rows from `row` on are of its block: of the same instance, file, fragment and source row / block_rows. */
int64_t hr__origin_in_block(const hr_origin *o, int64_t row, int64_t block_rows);
hr_coord hr__origin_at(const hr_origin *o, int64_t row); /* binary search */
hr_status hr__origin_slice(const hr_origin *o, int64_t begin, int64_t n, hr_origin **out, hr_error *err) HR_MUST_USE;
hr_status hr__origin_concat(hr_origin *const *parts, int n, hr_origin **out, hr_error *err) HR_MUST_USE;
hr_status hr__origin_take(const hr_origin *o, const void *idx, int idx_bytes, int64_t n, hr_origin **out,
                          hr_error *err) HR_MUST_USE;
/* n rows made of the rows that begin at `first`: ordinals first.ordinal, +1, ... */
hr_status hr__origin_made(hr_coord first, int64_t n, hr_origin **out, hr_error *err) HR_MUST_USE;
/* The same, every instance field replaced. */
hr_status hr__origin_instance(const hr_origin *o, int32_t instance, hr_origin **out, hr_error *err) HR_MUST_USE;

struct hr_table {
    atomic_int refs;
    int64_t n_rows;
    hr_schema *schema;
    hr_array **columns; /* schema->n */
    hr_origin *origin;  /* NULL: unknown (a table from outside, before a plan reads it) */
    int64_t
        cargo_bytes; /* what its rows carry beside the columns (a writer's parcels): counted by hr__table_bytes_used */
    bool sole;       /* made for one consumer: its buffers may be written by the last holder */
};
/* Shares schema and origin; takes the arrays, even on failure. Checks that each has n_rows (HR_BUG otherwise). */
hr_status hr__table_new(hr_schema *schema, hr_array *const *columns, int64_t n_rows, hr_origin *origin, hr_table **out,
                        hr_error *err) HR_MUST_USE;
/* The same columns with another origin. */
hr_status hr__table_with_origin(const hr_table *t, hr_origin *origin, hr_table **out, hr_error *err) HR_MUST_USE;
/* The same columns under another schema of the same types (renames). */
hr_status hr__table_with_schema(const hr_table *t, hr_schema *schema, hr_table **out, hr_error *err) HR_MUST_USE;
/* The columns of t and one more, which is taken, even on failure, under a schema of hr__schema_append. */
hr_status hr__table_append(const hr_table *t, hr_schema *schema, hr_array *last, hr_origin *origin, hr_table **out,
                           hr_error *err) HR_MUST_USE;
/* The first schema->n columns of t, without an origin. */
hr_status hr__table_first(const hr_table *t, hr_schema *schema, hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__table_take(const hr_mem *mem, const hr_table *t, const void *idx, int idx_bytes, int64_t n,
                         hr_table **out, hr_error *err) HR_MUST_USE;
/* Rows of several tables of this schema (see hr__array_pick), with this origin. Sets `sole`. */
hr_status hr__table_pick(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts,
                         const uint32_t *picks, int64_t n, hr_origin *origin, hr_table **out,
                         hr_error *err) HR_MUST_USE;
/* The same of picks[order[i]]: order has each of [0, n) once. It pays where picks of rows that follow each other stand together, 16 and more,
 * and rows are far apart otherwise. */
hr_status hr__table_pick_runs(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts,
                              const uint32_t *picks, const uint32_t *order, int64_t n, hr_origin *origin,
                              hr_table **out, hr_error *err) HR_MUST_USE;
/* Contiguous; n_parts = 0 needs `schema`; origins concatenated if all parts have one. Sets `sole`. */
hr_status hr__table_concat(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts, hr_table **out,
                           hr_error *err) HR_MUST_USE;
hr_status hr__table_empty(hr_schema *schema, hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__table_check(const hr_table *t, bool check_utf8, hr_error *err) HR_MUST_USE;
int64_t hr__table_bytes_used(const hr_table *t);
/* A hash of the rows' values: digest.c. Equal rows have equal ones, however they are stored. */
uint64_t hr__table_digest(const hr_table *t);
/* By its only holder: sets `sole` if nobody else has any of its columns. */
void hr__table_claim(hr_table *t);

/* --------------------------------------------------------------------------------------- types that nearly agree: conform.c */

/* The type that holds values of both (null and T, tensors and lists of lists); *out is new, NULL with HR_OK if there is none. */
hr_status hr__type_conform(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err) HR_MUST_USE;
/* Whether values of the type can be pickled here: pickle.c. */
bool hr__type_can_pickle(const hr_type *t);
/* Such values as Python's pickle would have them, of hr__type_pickled. */
hr_status hr__array_pickle(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err) HR_MUST_USE;
/* The array as `type`, which hr__type_conform of its own and others gave. *out is new; values are shared where they can be. */
hr_status hr__array_conform(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                            hr_error *err) HR_MUST_USE;
/* The schema that tables of both can have, columns in the order of a; a itself if it will do. HR_TYPE says what differs. */
hr_status hr__schema_conform(hr_schema *a, const hr_schema *b, hr_schema **out, hr_error *err) HR_MUST_USE;
hr_status hr__table_conform(const hr_mem *mem, const hr_table *t, hr_schema *schema, hr_table **out,
                            hr_error *err) HR_MUST_USE;

/* --------------------------------------------------------------------------- one column in many files: unify.c */

/* The least type that holds the values of both, by the rules at the top of unify.c; *out is new, NULL with HR_OK: none. */
hr_status hr__type_unify(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err) HR_MUST_USE;
/* Whether values of `from` can be had as `to`: it is what the two unify to. */
hr_status hr__type_widens(const hr_type *from, const hr_type *to, bool *out, hr_error *err) HR_MUST_USE;
/* The array as `type`, which its own widens to. *out is new; values are shared where they can be. HR_TYPE names the row whose
 * value a double cannot be, or a finer unit of time cannot hold. */
hr_status hr__array_unify(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                          hr_error *err) HR_MUST_USE;

/* ------------------------------------------------------------------------------------------- building: builder.c */

/* Appends values one by one; for tests, text, JSON and Python objects, not for hot readers. */
typedef struct hr_builder hr_builder;
hr_status hr__builder_new(const hr_mem *mem, hr_type *type, hr_builder **out, hr_error *err) HR_MUST_USE;
void hr__builder_free(hr_builder *b);
hr_status hr__builder_null(hr_builder *b, hr_error *err) HR_MUST_USE;
hr_status hr__builder_int(hr_builder *b, int64_t v,
                          hr_error *err) HR_MUST_USE; /* any integer, date, time, bool; HR_TYPE if out of range */
hr_status hr__builder_uint(hr_builder *b, uint64_t v, hr_error *err) HR_MUST_USE;
hr_status hr__builder_double(hr_builder *b, double v, hr_error *err) HR_MUST_USE; /* any float type */
hr_status hr__builder_bytes(hr_builder *b, const void *data, int64_t n,
                            hr_error *err) HR_MUST_USE; /* string, binary, fixed binary, any fixed width as its bytes */
/* For list-like: append the items to child 0, then call `hr__builder_end` once a row; struct: one value to each child, then end. */
hr_builder *hr__builder_child(hr_builder *b, int i);
hr_status hr__builder_end(hr_builder *b, hr_error *err) HR_MUST_USE;
int64_t hr__builder_rows(const hr_builder *b);
hr_status hr__builder_finish(hr_builder *b, hr_array **out, hr_error *err) HR_MUST_USE; /* empties b */

/* --------------------------------------------------------------------------------------------------- Arrow: arrow.c */

hr_status hr__schema_export(const hr_schema *s, struct ArrowSchema *out, hr_error *err) HR_MUST_USE;
hr_status hr__schema_import(struct ArrowSchema *in, hr_schema **out, hr_error *err) HR_MUST_USE; /* takes in */
hr_status hr__type_export(const hr_type *t, struct ArrowSchema *out, hr_error *err) HR_MUST_USE;
hr_status hr__array_export(hr_array *a, struct ArrowArray *out, hr_error *err) HR_MUST_USE; /* shares a */
/* Takes `in`, even on failure. Dictionary-encoded, string_view, list_view and run-end arrays are decoded into plain ones. */
hr_status hr__array_import(struct ArrowArray *in, struct ArrowSchema *schema_borrowed, hr_array **out,
                           hr_error *err) HR_MUST_USE;

/* -------------------------------------------------------------------------------------------------- options: option.c */

typedef enum hr_option_kind {
    HR_OPT_BOOL,
    HR_OPT_INT,
    HR_OPT_BYTES,
    HR_OPT_DOUBLE,
    HR_OPT_CHAR,
    HR_OPT_TEXT,
    HR_OPT_CHOICE
} hr_option_kind;
/* One line of an option table; the table ends with a zero entry. Defaults, checks, `headrace formats`, and docstrings come from it. */
typedef struct hr_option {
    const char *name;
    hr_option_kind kind;
    size_t at;        /* offsetof in the options struct: bool, int64_t, int64_t, double, char, char *, int */
    double min, max;  /* INT, BYTES, DOUBLE; both 0: any */
    double value;     /* default of BOOL, INT, BYTES, DOUBLE, CHAR, CHOICE (index) */
    const char *text; /* default of TEXT; CHOICE: the names, separated by blanks */
    const char *doc;
} hr_option;
/* A table of NULL is one without options. */
void hr__options_default(const hr_option *table, void *options);
/* "name=value" strings into `options`; HR_INVALID names the option, its kind and what was found. TEXT is copied. */
hr_status hr__options_parse(const hr_option *table, const char *const *settings, int n, void *options,
                            hr_error *err) HR_MUST_USE;
void hr__options_clear(const hr_option *table, void *options);
void hr__options_print(const hr_option *table, hr_text *out); /* one "name=default  doc" a line */

/* ------------------------------------------------------------------------------------------- random bits, hash, CPU */

/* Philox4x32-10 (Salmon et al., SC'11): 128 bits that are a function of key and counter, so that no state exists. */
typedef struct hr_bits128 {
    uint64_t lo, hi;
} hr_bits128;
hr_bits128 hr__philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo); /* the published function itself */
hr_bits128 hr__random_bits(uint64_t seed, uint64_t epoch, uint64_t counter_hi, uint64_t counter_lo);
hr_bits128 hr__random_coord(uint64_t seed, uint64_t epoch, const hr_coord *c);
/* Puts v[0..n), n < 2^32, into one of its n! orders, which is a function of `key` and n alone. */
void hr__random_permute(uint32_t *v, int64_t n, uint64_t key);
/* The high words of the same for each row of a stretch. */
void hr__random_rows(uint64_t seed, uint64_t epoch, const hr_run_coords *run, uint64_t *out);
/* 128-bit hash of bytes, for fingerprints and keys; stable across machines and versions: MurmurHash3_x64_128 (Appleby).
 * Each add is a part of its own: adding "ab", then "c", is not adding "abc". Not for secrets. */
typedef struct hr_hash {
    uint64_t a, b, n;
} hr_hash;
void hr__hash_init(hr_hash *h, uint64_t seed);
void hr__hash_add(hr_hash *h, const void *data, size_t n);
void hr__hash_text(hr_hash *h, const char *s); /* with its length, so that ("ab","c") != ("a","bc"); NULL is fine */
void hr__hash_int(hr_hash *h, int64_t v);
hr_bits128 hr__hash_end(const hr_hash *h);
void hr__array_digest(const hr_array *a, hr_hash *h); /* a column's values: digest.c */

enum {
    HR_CPU_SSE42 = 1,
    HR_CPU_AVX2 = 2,
    HR_CPU_BMI2 = 4,
    HR_CPU_AVX512 = 8,
    HR_CPU_NEON = 16,
    HR_CPU_PCLMUL = 32,
    HR_CPU_VBMI = 64 /* AVX-512 with VBMI and VNNI */
};
unsigned hr__cpu_features(void); /* masked by HR_CPU=scalar or a list of names; read once */

/* ---------------------------------------------- shared memory between processes: arena.c, wire.c, link.c, listener.c */

/* An arena is a set of memfd segments owned (allocated from) by one process and mapped by its peers. Buffers made with
 * hr_mem.arena live there; when the last reference, own or a peer's, goes, the block is free again. Counted: buffers keep it.
 * In a forked child its buffers can be read, but none be made. */
hr_status hr__arena_new(hr_account *account, const char *name, hr_arena **out, hr_error *err) HR_MUST_USE;
hr_arena *hr__arena_ref(hr_arena *a);
void hr__arena_unref(hr_arena *a);
int64_t hr__arena_bytes(const hr_arena *a); /* of all segments: at most this is charged */
int64_t hr__arena_used(const hr_arena *a);  /* in live blocks */
/* Gives back empty segments as long as keep_bytes stay. Returns the bytes given back. An arena does so by itself, down to
 * what was used in the last seconds; whoever knows that it will be idle may do more. */
int64_t hr__arena_trim(hr_arena *a, int64_t keep_bytes);
/* For buffer.c: contents undefined, slack zero; the last unref of it or of a peer's calls hr__arena_buffer_free. */
hr_status hr__arena_buffer(hr_arena *a, int64_t n_bytes, hr_buffer **out, hr_error *err) HR_MUST_USE;
void hr__arena_buffer_shrink(hr_buffer *b, int64_t n_bytes); /* gives back what is not needed for n_bytes, if it pays */
void hr__arena_buffer_free(hr_buffer *b);

/* A link is one end of a local socket over which tables and small messages travel between two processes: descriptors by
 * the socket, bytes by shared memory. Sending shares the table's buffers until the peer says that it dropped them (or is
 * gone); buffers that are not in an arena are copied into the link's. What was received over a link goes back over it
 * without a copy. All functions are thread-safe. A link belongs to the process that made it: in a forked child HR_PEER. */
typedef struct hr_link hr_link;
typedef struct hr_message {
    uint32_t kind; /* the user's, below 0x8000 */
    uint64_t tag;  /* the user's */
    void *bytes;   /* new, n_bytes, NUL-terminated beyond; hr__free; NULL if none */
    int64_t n_bytes;
    /* New; NULL if none. Its buffers map the sender's memory; unref tells the sender. They are writable if the table is
     * `sole`: it was when it was sent, or all that was sent are copies. Otherwise a write is a fault. It has no origin. */
    hr_table *table;
} hr_message;
/* Takes the socket, even on failure. `arena`: where copies for sending go (shared; NULL: an own one is made). */
hr_status hr__link_new(int fd, hr_account *account, hr_arena *arena, hr_link **out, hr_error *err) HR_MUST_USE;
hr_link *hr__link_ref(hr_link *l);
void hr__link_unref(hr_link *l);   /* the last one closes */
int hr__link_fd(const hr_link *l); /* to poll for reading */
/* Borrows table and bytes (either may be NULL). A sole table of which this is the only reference becomes the peer's to write:
 * it is not to be looked at again. Never blocks on the peer: what the socket does not take now is queued and
 * goes out with the next send, receive, release or flush. What the peer dropped is given back by hr__link_recv, so that even
 * who expects no messages has to call it. HR_PEER if the peer is gone: then, too, hr__link_recv gives what it
 * sent before, and the tables that it had are dropped when that reports the end, or by hr__link_close. */
hr_status hr__link_send(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                        const hr_table *table, hr_error *err) HR_MUST_USE;
/* The next message. HR_PENDING: none within timeout_ms (0: do not wait; < 0: no limit). HR_PEER: the peer closed or died.
 * Descriptors are checked against the segments' sizes, tables by hr__table_check: a damaged peer cannot crash us, gives
 * HR_BAD_DATA, and is left: the link is closed. After HR_NO_MEMORY the message can be received again. */
hr_status hr__link_recv(hr_link *l, int timeout_ms, hr_message *out, hr_error *err) HR_MUST_USE;
/* The same, but what the system has no memory for is tried again, for two seconds at most: a moment's lack of memory must not look like
 * the loss of a process. HR_NO_MEMORY after that: nothing is lost, a later call can do it. */
hr_status hr__link_send_patiently(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                                  const hr_table *table, hr_error *err) HR_MUST_USE;
hr_status hr__link_recv_patiently(hr_link *l, int timeout_ms, hr_message *out, hr_error *err) HR_MUST_USE;
/* Waits until all is sent: HR_PENDING after timeout_ms. Who only sends calls it with 0 now and then. */
hr_status hr__link_flush(hr_link *l, int timeout_ms, hr_error *err) HR_MUST_USE;
/* Before its first use, for links that may be silent while something is queued. `fn` is called on any thread, without the
 * link's locks, when something had to be queued; if it returns true, it has hr__link_flush called now and then until that
 * is not HR_PENDING, then calls hr__link_settled. Until that the link's memory stays. */
void hr__link_set_backlog(hr_link *l, bool (*fn)(hr_link *l));
void hr__link_settled(hr_link *l);
void hr__message_clear(hr_message *m);
int64_t hr__link_outstanding(const hr_link *l); /* messages with tables that the peer still holds */
/* Ends the connection: what is queued is tried once more, outstanding references are dropped, later calls give HR_PEER.
 * Received tables stay valid, here and at the peer, contents included. */
void hr__link_close(hr_link *l);

/* Where processes meet: an abstract socket. An address is "name" or "name:token"; who connects has to be of the same user
 * and, if there is a token (32 hexadecimal digits), to know it. */
typedef struct hr_listener hr_listener;
/* address NULL: a random name and token. */
hr_status hr__listener_open(const char *address, hr_listener **out, hr_error *err) HR_MUST_USE;
void hr__listener_close(hr_listener *l);                /* NULL is fine */
const char *hr__listener_address(const hr_listener *l); /* with the token: a secret. Borrowed from l */
int hr__listener_fd(const hr_listener *l);              /* readable when accept may have something to do */
/* The next link, its arguments as for hr__link_new. HR_PENDING: none now. Who must not come in is turned away silently. */
hr_status hr__listener_accept(hr_listener *l, hr_account *account, hr_arena *arena, hr_link **out,
                              hr_error *err) HR_MUST_USE;
/* HR_PEER: nobody listens there. A listener that turns us away ends the link: HR_PEER from the first receive. */
hr_status hr__link_connect(const char *address, hr_account *account, hr_link **out, hr_error *err) HR_MUST_USE;

#endif
