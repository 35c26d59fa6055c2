/* exchange_arena.h - memory that other processes see: exchange arenas. */
#ifndef HR_EXCHANGE_ARENA_H
#define HR_EXCHANGE_ARENA_H

#include "data/table.h"

/* An arena is a set of memfd segments owned (allocated from) by one process and mapped by its peers. Buffers made with
 * hr_mem.arena lie there; the block is free again after the last reference, own or a peer's. Counted: buffers keep the
 * arena alive. A forked child can read buffers but not make any. */
hr_status hr__arena_new(hr_account *account, const char *name, hr_arena **out, hr_error *err) HR_MUST_USE;
hr_arena *hr__arena_ref(hr_arena *a);
void hr__arena_unref(hr_arena *a);
int64_t hr__arena_bytes(const hr_arena *a); /* For tests: bytes of all segments; at most this is charged. */
int64_t hr__arena_used(const hr_arena *a);  /* in live blocks */
void hr__arena_trim(hr_arena *a);           /* Frees its empty segments. */
/* Contents undefined, slack zero: hr__buffer_new with hr_mem.arena. */
hr_status hr__arena_buffer(hr_arena *a, int64_t n_bytes, hr_buffer **out, hr_error *err) HR_MUST_USE;

bool hr__table_in_arena(const hr_table *t, const hr_arena *arena); /* all of its buffers */

#endif
