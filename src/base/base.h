/* base.h - errors and the macros that pass them on, structs of callers. Everything begins with it.
 *
 * Names: hr_ types, hr__ functions shared between our own files. Ownership words (borrows, takes, shares, new) as in
 * headrace.h. Errors have one funnel: the function that detects an error writes its text by HR_FAIL, a function that
 * passes it on may add *where* by hr__error_at. */
#ifndef HR_BASE_H
#define HR_BASE_H

#include "base/os.h"
#include "headrace.h"
#include "headrace_config.h"

#include <stdatomic.h>
#include <string.h>

#define HR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HR_MAX(a, b) ((a) > (b) ? (a) : (b))
#define HR_LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define HR_ROUND_UP(n, to) (((n) + (to) - 1) / (to) * (to))

/* ------------------------------------------------------------------------------------------------- errors: status.c */

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
/* Sets the status and the text of an -errno: "path: what: No such file or directory". ENOENT -> HR_NOT_FOUND, ENOMEM ->
 * HR_NO_MEMORY. */
hr_status hr__error_os(hr_error *err, int64_t minus_errno, const char *path, const char *what);
/* Moves *from into *to (to's older content freed; NULL `to` drops it) and resets *from. */
void hr__error_move(hr_error *to, hr_error *from);
/* With its detail; NULL `to` drops it. Returns the status. */
hr_status hr__error_copy(hr_error *to, const hr_error *from);
/* The one text for a refused allocation: "where: no memory for n bytes". */
hr_status hr__error_memory(hr_error *err, const char *where, int64_t n_bytes);

/* The first line of a public function: HR_INVALID names the function and the argument that is NULL. */
#define HR_NEED(...)                                                                                                   \
    HR_TRY(hr__need(__func__, #__VA_ARGS__, (const void *const[]){ __VA_ARGS__ },                                      \
                    HR_LEN(((const void *const[]){ __VA_ARGS__ })), err))
hr_status hr__need(const char *function, const char *names, const void *const *pointers, int n,
                   hr_error *err) HR_MUST_USE;

/* log.c: one line to the function that hr_set_log set. The caller may hold locks. */
void hr__log(hr_log_level level, const char *fmt, ...) HR_PRINTF(2, 3);

/* True if the number is the status of an error: not HR_OK, not HR_PENDING. */
bool hr__status_is_error(int64_t st);
/* The index of a status in tables: [0, HR__N_STATUS); -1: the number is no status. */
enum { HR__N_STATUS = 16 };
int hr__status_place(hr_status st);

/* ----------------------------------------------------------------------------------------- callers' structs: structs.c
 *
 * Copies the caller's struct into `out` of n_bytes; fields that the caller's struct lacks become zero. HR_INVALID:
 * struct_bytes is 0, or cannot be a size. HR_UNSUPPORTED: a field that we do not know is set. On failure nothing of the
 * struct is taken. */
hr_status hr__struct_read(const char *name, const void *from, void *out, size_t n_bytes, hr_error *err) HR_MUST_USE;
/* The same, but a NULL struct is HR_INVALID; hr__struct_read takes NULL for all zero. */
hr_status hr__struct_need(const char *name, const void *from, void *out, size_t n_bytes, hr_error *err) HR_MUST_USE;
/* An array of n structs as the caller's compiler lays it out: all have the same struct_bytes. */
hr_status hr__structs_read(const char *name, const void *from, int n, void *out, size_t n_bytes,
                           hr_error *err) HR_MUST_USE;
/* The other way: copies the fields of `from` (NULL: zeros) that the caller's *to has; to->struct_bytes is set. */
hr_status hr__struct_fill(const char *name, void *to, const void *from, size_t n_bytes, hr_error *err) HR_MUST_USE;
#define HR_STRUCT_READ(type, from, out) hr__struct_read(#type, (from), (out), sizeof(type), err)
#define HR_STRUCT_NEED(type, from, out) hr__struct_need(#type, (from), (out), sizeof(type), err)
#define HR_STRUCTS_READ(type, from, n, out) hr__structs_read(#type, (from), (n), (out), sizeof(type), err)

/* One of n shares of a call that several threads do: number i. */
typedef hr_status hr_share_fn(void *context, int64_t i, hr_error *err);

#endif
