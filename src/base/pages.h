/* pages.h - large blocks of memory, and the pool of free ones: what buffers and large blocks of hr__alloc are made of.
 *
 * A block belongs to a class, the least that holds what was asked for, or the next one. It begins at a page; of its
 * hr__pages_charged() bytes the last HR_PAGES_SLACK are its user's as well, so that a head or a few zeros behind the
 * end do not make it one of the next class. Any thread may take and give back. */
#ifndef HR_PAGES_H
#define HR_PAGES_H

#include "base/all.h"

#define HR_PAGES_LEAST ((int64_t)64 << 10) /* bytes of the least class */
#define HR_PAGES_SLACK 4096

/* No block is larger than the machine's memory: a length that lies is refused before the kernel overcommits. */
int64_t hr__pages_most(void);
int hr__pages_class(int64_t n); /* the least class that holds n bytes, at most hr__pages_most() */
int64_t hr__pages_bytes(int class);
int64_t hr__pages_charged(int class); /* what is mapped, and counted */

/* A block for n bytes, charged to `a` as one; its class in *class, *fresh: all zero. NULL without memory, and for
 * more than the most. Faults are the caller's to ask for. */
void *hr__pages_new(hr_account *a, int64_t n, int *class, bool *fresh);
void hr__pages_free(hr_account *a, void *p, int class);
/* Below these two, for who moves a block's bytes where no memory may be asked for: a free block of *class or the next
 * one, not charged, NULL if there is none; and a block that is no longer charged, taken. */
void *hr__pages_take(int *class);
void hr__pages_put(void *takes, int class);

#endif
