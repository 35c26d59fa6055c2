/* hedge.h - which requests of a host are so slow that they are sent a second time; see hedge.c. Samples in, an answer
 * out: no clock, no lock, no memory. */
#ifndef HR_HEDGE_H
#define HR_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

#define HR_HEDGE_CLASSES 4
#define HR_HEDGE_STEPS 72

/* Fields are for hedge.c and its tests. Zero is a host that nothing is known of. */
typedef struct hr_hedge {
    uint16_t n_took[HR_HEDGE_CLASSES][HR_HEDGE_STEPS]; /* requests of a class of sizes, by how long they took */
    int n[HR_HEDGE_CLASSES];                           /* their sum */
    int tokens;
    int64_t off_until_ns;
} hr_hedge;

/* A request for a range begins: it adds a part of a hedge to the bucket. */
void hr__hedge_begun(hr_hedge *h);
/* A request for n_bytes took ns. */
void hr__hedge_took(hr_hedge *h, int64_t n_bytes, int64_t ns);
/* The host answered 429 or 503. */
void hr__hedge_throttled(hr_hedge *h, int64_t now_ns);
/* How long a request for n_bytes lasts before it can be called slow; INT64_MAX: too few have come. */
int64_t hr__hedge_delay(const hr_hedge *h, int64_t n_bytes);
/* Whether a request that has n_got of n_bytes after ns gets a hedge, which is taken out of the bucket. */
bool hr__hedge_take(hr_hedge *h, int64_t n_bytes, int64_t n_got, int64_t ns, int64_t now_ns);

#endif
