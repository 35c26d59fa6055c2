/* walks.h - what a walk over the units of a file over a network has found, for the next open of the same version. */
#ifndef HR_WALKS_H
#define HR_WALKS_H

#include "base/hash.h"
#include "io/io.h"

/* False: its walk would not be kept. */
static inline bool hr__walk_can_be_kept(const hr_source *s) { return s->cls->add_version != NULL; }
/* The bytes that hr__walk_keep got for this version of the source and `how`, what the walk looked for; new. False:
 * there are none, or no memory, or the source has no version: the file is walked. */
bool hr__walk_take(const hr_source *source, hr_bits128 how, hr_account *account, uint8_t **bytes, int64_t *n);
/* Copies the bytes. Those that were used longest ago go, so that all are within 1/64 of the account's limit. */
void hr__walk_keep(const hr_source *source, hr_bits128 how, hr_account *account, const void *bytes, int64_t n);

#endif
