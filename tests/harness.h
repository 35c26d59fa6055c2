/* harness.h - what C tests share: cmocka, faults, threads, repeatable random numbers, a temporary folder.
 *
 * A test program is a table of cases and a few functions that walk it. `run_with_faults` asks the hard question: does
 * the code survive the failure of every single allocation and system call it makes? */
#ifndef HARNESS_H
#define HARNESS_H

/* cmocka wants these four before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/data.h"

/* Whether ASan or TSan watches: they are slow, take memory of their own, and do not fork well. */
#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Whether TSan watches. */
#if defined(__has_feature)
#define THREADS_ARE_WATCHED __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define THREADS_ARE_WATCHED 1
#else
#define THREADS_ARE_WATCHED 0
#endif

/* How often a test with random input repeats itself: n, or a tenth of it. HEADRACE_THOROUGH=1 asks for all. */
int repeats(int n);

/* Bits for `kinds`, beside HR_FAULT_MEMORY and HR_FAULT_IO. */
enum { MAY_RECOVER = 0x100 /* the code may answer HR_OK although a call failed: a hint, a cache, a detail left out */ };

/* Runs fn with call 0 failing, then 1, 2, ..., until a run in which nothing fails. fn makes all that it needs, and
 * frees it. Fails the test unless each failing run
 *   - returns a status other than HR_OK (see MAY_RECOVER), the same as in err, with a text,
 *   - leaves as many live blocks and bytes as before,
 * and unless the runs before and after, without a fault, give HR_OK. At least one call must have been hit: a test of
 * nothing passes always. Returns how many were. */
int run_with_faults(hr_status (*fn)(hr_error *err), int kinds);
int run_with_faults_on(hr_status (*fn)(void *context, hr_error *err), void *context, int kinds);

/* Runs fn(arg, 0) .. fn(arg, n - 1), each on a thread of its own, started together; waits for all. */
void run_threads(int n, void (*fn)(void *arg, int thread), void *arg);

/* Runs fn(state) in a child whose CPU has no vector instructions that we know of: HR_CPU is read once. */
void run_without_kernels(void (*fn)(void **state), void **state);

/* The next of a repeatable sequence (SplitMix64); `state` is any number. */
uint64_t next_random(uint64_t *state);
/* Of [0, n). */
int64_t random_below(uint64_t *state, int64_t n);

/* The two ends of a new local socket, of the kind that hr__socket_accept gives. -> 0, -errno */
int local_sockets(int fds[2]);

/* A new empty folder, and its removal with all that is in it. */
void temp_dir_new(char path[64]);
void temp_dir_free(const char *path);
/* Setup and teardown of a test, or of a group, that has one: its path is test_dir. */
extern char test_dir[64];
int test_dir_new(void **state);
int test_dir_free(void **state);
/* Writes a file; `name` may hold folders, which are made. */
void temp_file(const char *dir, const char *name, const void *data, int64_t n);

/* The status, and on failure its text in the message. */
#define assert_status(got, want, err) assert_status_at((got), (want), (err), __FILE__, __LINE__)
void assert_status_at(hr_status got, hr_status want, const hr_error *err, const char *file, int line);
#define assert_ok(got, err) assert_status((got), HR_OK, (err))
/* `text` holds `part`. */
#define assert_contains(text, part) assert_contains_at((text), (part), __FILE__, __LINE__)
void assert_contains_at(const char *text, const char *part, const char *file, int line);

/* Live memory before and after: assert_no_leak(before) at the end of a test that took `before` at its start. */
typedef struct live_memory {
    int64_t blocks, bytes;
} live_memory;
live_memory live_now(void);
#define assert_no_leak(before) assert_no_leak_at((before), __FILE__, __LINE__)
void assert_no_leak_at(live_memory before, const char *file, int line);

#endif
