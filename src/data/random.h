/* random.h - random bits as a function of seed, epoch and a row's coordinate; a hash of values. */
#ifndef HR_RANDOM_H
#define HR_RANDOM_H

#include "base/hash.h"
#include "data/table.h"

/* Philox4x32-10 (Salmon et al., SC'11): 128 bits as a function of key and counter, without state. */
hr_bits128 hr__philox(uint64_t key, uint64_t counter_hi, uint64_t counter_lo); /* the published function itself */
hr_bits128 hr__random_bits(uint64_t seed, uint64_t epoch, uint64_t counter_hi, uint64_t counter_lo);
hr_bits128 hr__random_coord(uint64_t seed, uint64_t epoch, const hr_coord *c);
/* Permutes v[0..n), n < 2^32; the order is a function of `key` and n alone. */
void hr__random_permute(uint32_t *v, int64_t n, uint64_t key);
/* The same with other orders in half of the time, for n up to 2^20: chances differ by n / 2^32 at most. */
void hr__random_shuffle(uint32_t *v, int64_t n, uint64_t key);
/* out[0..n) become what hr__random_shuffle makes of 0 to n - 1. */
void hr__random_order(uint32_t *out, int64_t n, uint64_t key);
/* The high words of hr__random_coord for each row of a stretch. */
void hr__random_rows(uint64_t seed, uint64_t epoch, const hr_run_coords *run, uint64_t *out);
/* A column's values: digest.c. stop: see hr__table_digest. */
void hr__array_digest(const hr_array *a, hr_hash *h, const atomic_bool *stop);

#endif
