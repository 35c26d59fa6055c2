/* parquet_kernel.h - the inner loops of Parquet's encodings, each in several forms: one per family of instructions.
 *
 * pq__kernels() is the table of the best forms for this CPU, chosen once; a table has the plain form of a loop that its
 * instructions do not make faster. Reader and writer use the same table. A loop may read up to HR_SLACK bytes after the
 * end of its input; it writes no byte beyond its output. */
#ifndef HR_PARQUET_KERNEL_H
#define HR_PARQUET_KERNEL_H

#include "data/data.h"

typedef struct pq_kernels {
    const char *name;
    unsigned needs; /* HR_CPU_* */
    /* 8 * n_groups values of `width` bits, least significant first: width 1 to 32, 0 to 64, 1 to 8. */
    void (*unpack_u32)(const uint8_t *in, int width, uint32_t *out, int64_t n_groups);
    void (*unpack_u64)(const uint8_t *in, int width, uint64_t *out, int64_t n_groups);
    void (*unpack_u8)(const uint8_t *in, int width, uint8_t *out, int64_t n_groups);
    /* out[i] = dict[index[i]] of 4 or 8 bytes. False if an index is n_dict or more (n_dict < 2^31): then `out` is
     * undefined. */
    bool (*gather_4)(const uint8_t *dict, int64_t n_dict, const uint32_t *index, uint8_t *out, int64_t n);
    bool (*gather_8)(const uint8_t *dict, int64_t n_dict, const uint32_t *index, uint8_t *out, int64_t n);
    /* Spreads n_values items at `data` in place: item k moves to the place of the k-th one in bits [at, at + n) of
     * `valid`; the other places become zero. These bits have n_values ones. */
    void (*spread_4)(uint8_t *data, int64_t n, int64_t n_values, const uint8_t *valid, int64_t at);
    void (*spread_8)(uint8_t *data, int64_t n, int64_t n_values, const uint8_t *valid, int64_t at);
    /* Bit i of the words is level[i] >= least; bits beyond n are zero. Reads no byte beyond level[n - 1]. */
    void (*at_least)(const uint8_t *level, int64_t n, uint8_t least, uint64_t *words);
    /* BYTE_STREAM_SPLIT: n values of w bytes out of w streams, `stride` bytes apart; and the other way round. */
    void (*join)(const uint8_t *in, int64_t stride, int w, uint8_t *out, int64_t n);
    void (*split)(const uint8_t *in, int w, uint8_t *out, int64_t stride, int64_t n);
} pq_kernels;

const pq_kernels *pq__kernels(void);
/* All tables for this family of CPUs, the best first, the plain one last. */
const pq_kernels *pq__kernels_all(int *n);

/* Whether all indices are below n_dict < 2^31. */
bool pq__indices_fit(const uint32_t *index, int64_t n, int64_t n_dict);
/* spread_4 and spread_8 for items of any width. */
void pq__spread(uint8_t *data, int64_t w, int64_t n, int64_t n_values, const uint8_t *valid, int64_t at);

#endif
