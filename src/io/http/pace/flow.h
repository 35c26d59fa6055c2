/* flow.h - how many requests may be in flight to one host; see flow.c. Time and samples in, a level out: no clock, no
 * lock, no memory. */
#ifndef HR_FLOW_H
#define HR_FLOW_H

#include <stdbool.h>
#include <stdint.h>

typedef enum hr_flow_phase {
    HR_FLOW_RISE,
    HR_FLOW_HOLD,
    HR_FLOW_UP,
    HR_FLOW_DOWN,
    HR_FLOW_CUT,
    HR_FLOW_FALLEN
} hr_flow_phase;

/* Fields are for flow.c and its tests. Zero and hr__flow_init make one. */
typedef struct hr_flow {
    int level, least, most;
    int ceiling; /* until ceiling_until_ns; 0: none */
    int64_t ceiling_until_ns;
    hr_flow_phase phase;
    double plateau; /* amount per second at `good` */
    int good;       /* the level that is kept */
    bool goes_down; /* the next trial is a lower level */
    int n_low;      /* measures in a row under half of the plateau; in RISE: without a gain */
    int n_deep;     /* measures in a row of a trickle */
    double before_rate;
    int before; /* level before a cut, or a fall */
    int64_t fell_ns;
    int64_t rest_ns; /* how long the ceiling of the last fall stands; 0: there was none, or its level is good again */
    int proven;      /* the highest level that was kept for long since then */
    int64_t hold_until_ns, hold_ns;
    int64_t cut_ns;     /* of the last answer 429 or 503 that counted */
    int64_t latency_ns; /* of a first byte, smoothed */
    /* The present tick. */
    int64_t tick_ns; /* its begin; 0: none */
    double amount;
    bool is_full, skip;
    /* The present measure. */
    double sum_rate;
    int n_ticks;
} hr_flow;

void hr__flow_init(hr_flow *f, int first, int least, int most);
/* `amount` of bytes or requests came. */
void hr__flow_add(hr_flow *f, double amount);
void hr__flow_first_byte(hr_flow *f, int64_t latency_ns);
/* Called often. is_full: a request waits because f->level are in flight. */
void hr__flow_tick(hr_flow *f, bool is_full, int64_t now_ns);
/* The host answered 429 or 503. */
void hr__flow_throttled(hr_flow *f, int64_t now_ns);

#endif
