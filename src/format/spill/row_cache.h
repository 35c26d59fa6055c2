/* row_cache.h - rows of a plan in a folder of this machine, in stretches: files that all processes and later runs
 * share.
 *
 * A stretch holds tables that follow each other in the order of the plan's rows. Its name is where it begins: a text
 * of the caller's (a marker), "" for the first row. It says where the next stretch begins. So a reader goes from one
 * stretch to the next, and computes what is missing.
 *
 * 1. What is not here, is damaged or of another key is no error: hr__row_cache_find gives NULL.
 * 2. A stretch gets its name when it is complete. Two processes that compute the same stretch write the same.
 * 3. Writing stops while there is no room (io/cache_folder.h). Nothing that fails in writing fails a run.
 * 4. All functions are thread-safe; one thread at a time uses a stretch, or a writer. */
#ifndef HR_ROW_CACHE_H
#define HR_ROW_CACHE_H

#include "data/data.h"
#include "io/cache_folder.h"

typedef struct hr_row_cache hr_row_cache;

/* `key` identifies the plan, its files and its code. state (borrowed): one for all caches of a folder. HR_IO: the
 * folder can be neither read nor made. */
hr_status hr__row_cache_new(const char *folder, int64_t limit, hr_bits128 key, hr_cache_state *state,
                            hr_account *account, hr_row_cache **out, hr_error *err) HR_MUST_USE;
void hr__row_cache_free(hr_row_cache *c); /* NULL is fine */

typedef struct hr_row_cache_counts {
    int64_t read_bytes, written_bytes, damaged; /* damaged: stretches that were removed */
} hr_row_cache_counts;
hr_row_cache_counts hr__row_cache_counts(const hr_row_cache *c);

typedef struct hr_stretch {
    const char *next; /* where the next stretch begins; NULL: this is the last one */
    int64_t n_tables, n_rows;
    int64_t table_bytes; /* of its largest table in memory, about */
} hr_stretch;
/* The stretch that begins at `from`; new (hr__stretch_close). NULL: there is none. */
const hr_stretch *hr__row_cache_find(hr_row_cache *c, const char *from);
/* Table i. *at: where it begins, borrowed; NULL: not known. HR_BAD_DATA: it is damaged, and the stretch was removed. */
hr_status hr__stretch_read(const hr_stretch *s, int64_t i, const hr_mem *mem, hr_table **out, const char **at,
                           hr_error *err) HR_MUST_USE;
void hr__stretch_close(const hr_stretch *s); /* NULL is fine */

/* Writes the stretch that begins at `from`; NULL: nothing is written now. */
typedef struct hr_stretch_writer hr_stretch_writer;
hr_stretch_writer *hr__stretch_writer_new(hr_row_cache *c, const char *from);
/* at: where the table begins, NULL: not known. After a failure the writer ignores more. */
void hr__stretch_writer_add(hr_stretch_writer *w, const hr_table *t, const char *at);
void hr__stretch_writer_end(hr_stretch_writer *takes, const char *next); /* NULL: no more rows follow. NULL is fine */
void hr__stretch_writer_drop(hr_stretch_writer *takes);                  /* NULL is fine */

#endif
