/* array.h - one column of values, immutable, in Arrow's layout. */
#ifndef HR_ARRAY_H
#define HR_ARRAY_H

#include "data/type.h"

/* One column, Arrow layout, immutable, counted. Row i of the array is element offset + i of its buffers (and, for
 * struct, fixed list and tensor, of its children, as Arrow says). Buffers:
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

/* Shares type; takes buffers (three, NULL where none) and children, even on failure. The caller guarantees that the
 * lengths match. */
hr_status hr__array_new(hr_type *type, int64_t length, int64_t null_count, hr_buffer *const buffers[3],
                        hr_array *const *children, int n_children, hr_array **out, hr_error *err) HR_MUST_USE;
hr_array *hr__array_ref(hr_array *a);
void hr__array_unref(hr_array *a);
hr_status hr__array_slice(const hr_array *a, int64_t begin, int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;
/* Full structural check for data from outside: buffer sizes and alignment, offsets in order and in range, children's
 * lengths; UTF-8 if check_utf8. */
hr_status hr__array_check(const hr_array *a, bool check_utf8, hr_error *err) HR_MUST_USE;
/* Refuses values of a checked array that its type does not allow (times beyond the day, null keys; if `exact`, decimals
 * with more digits than their precision, which Arrow for Java wrote and its golden files contain). */
hr_status hr__array_check_values(const hr_array *a, bool exact, hr_error *err) HR_MUST_USE;
int64_t hr__array_null_count(const hr_array *a); /* counts once */
static inline bool hr__array_is_null(const hr_array *a, int64_t i)
{
    return a->type->id == HR_T_NULL || (a->buffers[0] && !hr__bit(a->buffers[0]->data, a->offset + i));
}
/* First value of a fixed-width array. */
static inline const uint8_t *hr__array_values(const hr_array *a)
{
    return a->buffers[1] ? a->buffers[1]->data + a->offset * hr__type_bytes(a->type) : NULL;
}
/* Row i of an array of integers, dates, times or durations, of 1 to 8 bytes; undefined for a null. _int extends the
 * sign, _uint returns the stored bits. */
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
/* True if the array, its children and its buffers have one reference each and lie in our own memory: the holder may
 * write. */
bool hr__array_sole(const hr_array *a);
/* Bytes that the rows use (not the capacity after a slice): validity, offsets, values, children. */
int64_t hr__array_bytes_used(const hr_array *a);
void hr__array_charge(const hr_array *a); /* hr__buffer_charge for the bytes that its rows use */
/* Rows idx[0..n) as a new contiguous array (int32 or int64 by idx_bytes 4 or 8; -1: a null). */
hr_status hr__array_take(const hr_mem *mem, const hr_array *a, const void *idx, int idx_bytes, int64_t n,
                         hr_array **out, hr_error *err) HR_MUST_USE;
/* The same rows of several arrays: out[i] is new; on failure some are new, the others NULL, and *failed (NULL is fine)
 * is the index of the array that failed. */
hr_status hr__arrays_take(const hr_mem *mem, hr_array *const *arrays, int n_arrays, const void *idx, int idx_bytes,
                          int64_t n, hr_array **out, int *failed, hr_error *err) HR_MUST_USE;
/* Rows of all parts, one after the other, contiguous, offset 0 (parts: same type; n = 0 needs `type`). HR_BUDGET text
 * names 2 GiB if 32-bit offsets would overflow. n_parts = 1 also makes the slice contiguous. Parallel-safe. */
hr_status hr__array_concat(const hr_mem *mem, hr_type *type, hr_array *const *parts, int n_parts, hr_array **out,
                           hr_error *err) HR_MUST_USE;
/* The same for ranges of arrays: rows [begin, begin + n) of each; array NULL: n nulls. */
typedef struct hr_span {
    const hr_array *array;
    int64_t begin, n;
} hr_span;
hr_status hr__array_gather(const hr_mem *mem, hr_type *type, const hr_span *spans, int64_t n_spans, hr_array **out,
                           hr_error *err) HR_MUST_USE;
/* pick.c: rows of up to HR_PICK_PARTS arrays, of at most HR_PICK_ROWS rows each, in any order. A pick is the number of
 * a part, shifted up by HR_PICK_BITS, and the number of a row of it. */
#define HR_PICK_BITS 20
#define HR_PICK_ROWS (1 << HR_PICK_BITS)
#define HR_PICK_PARTS (1 << (32 - HR_PICK_BITS))
hr_status hr__array_pick(const hr_mem *mem, hr_type *type, hr_array *const *parts, int n_parts, const uint32_t *picks,
                         int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;
/* An array of n nulls, or of no rows, of any type. */
hr_status hr__array_nulls(const hr_mem *mem, hr_type *type, int64_t n, hr_array **out, hr_error *err) HR_MUST_USE;
/* True if all values are equal (null equals null, NaN equals NaN); for tests and for peers that must agree. */
bool hr__array_equal(const hr_array *a, const hr_array *b);
bool hr__values_equal(const hr_array *a, int64_t i, const hr_array *b, int64_t j); /* the same, of two rows */
void hr__array_print_value(const hr_array *a, int64_t row, hr_text *out);
/* The same, but stops soon after max_bytes: values can be images. */
void hr__array_print_some(const hr_array *a, int64_t row, int64_t max_bytes, hr_text *out);
/* The text of a float16, float32 or float64 that is no null; `out` has room for HR_NUMBER_CHARS. -> bytes, no NUL. */
int hr__array_print_float(const hr_array *a, int64_t row, char *out);
/* The dense view of a column: true if no row is null, all lists (nested ones too) have one length and the values have a
 * fixed width. Fills shape[0..*n_dims), *values (borrowed) and *begin (the first value in it). false: ragged, a null,
 * or other values. Tensors and fixed lists without nulls are always dense; ragged tensors if all shapes are equal
 * (images of one channel have height and width). Plain fixed-width columns have n_dims = 0. Booleans count as fixed
 * width: `values` is an array of bits. */
bool hr__array_dense(const hr_array *a, int *n_dims, int64_t shape[HR_MAX_DIMS], const hr_array **values,
                     int64_t *begin);

/* The rows of a tensor without nulls as ragged tensors that share its values, for columns whose other rows may have
 * other shapes. HR_TYPE: the array is no tensor or has nulls. *out is new. */
hr_status hr__array_as_ragged(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err) HR_MUST_USE;

/* The same rows without nulls: NaN in their place, integers as float64; NaT for dates and times, which become int64.
 * HR_TYPE: values of this type have neither. */
hr_status hr__array_fill_nulls(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err) HR_MUST_USE;
/* The first row of a double array that is no value of this integer type; NaN and null count as null. -1: all are
 * values. Up to 2^53. */
int64_t hr__array_not_whole(const hr_array *a, const hr_type *type);
/* That array as the integer type, null where it is NaN or null. */
hr_status hr__array_of_whole(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out,
                             hr_error *err) HR_MUST_USE;
int64_t hr__array_not_exact(const hr_array *a); /* the first row of an integer array that is beyond 2^53; -1: none */

#endif
