/* pages.h - large blocks of memory, and the pool of free ones, for buffers and for large blocks of hr__alloc.
 *
 * A block belongs to the smallest class that holds the requested bytes, or to the next one. It begins at a page. Beside
 * the bytes of its class it has HR_PAGES_SLACK bytes, so that a head or a few zeros after the end do not need the next
 * class. Any thread may take a block and give it back. */
#ifndef HR_PAGES_H
#define HR_PAGES_H

#include "base/all.h"

#define HR_PAGES_LEAST ((int64_t)64 << 10) /* bytes of the least class */
#define HR_PAGES_SLACK 4096

/* No block is larger than the machine's memory: a false length is refused before the kernel overcommits. */
int64_t hr__pages_most(void);
int hr__pages_class(int64_t n); /* the least class that holds n bytes, at most hr__pages_most() */
int64_t hr__pages_bytes(int class);
int64_t hr__pages_charged(int class); /* bytes that are mapped, and charged */

/* A block for n bytes, charged to `a` as one block; its class in *class; *fresh: it is all zero. NULL: no memory, or n
 * exceeds hr__pages_most(). The caller calls hr__fault(). */
void *hr__pages_new(hr_account *a, int64_t n, int *class, bool *fresh);
void hr__pages_free(hr_account *a, void *p, int class);
/* For a caller that moves a block's bytes and must not allocate. hr__pages_take: a free block of *class or the next
 * one, not charged; NULL: none is free. hr__pages_put: takes a block that is not charged any more. */
void *hr__pages_take(int *class);
void hr__pages_put(void *takes, int class);

#endif
