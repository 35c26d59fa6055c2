/* steps.c - the steps of a consumer: how long it waits for a batch, and how long it works between two.
 *
 * The first batch of an epoch is apart: its wait is the start, or the border of two epochs. The sums begin after it,
 * and their marks let a verdict leave out the first steps, in which windows fill and workers start.
 *
 * Tests: test_verdict.c. */
#include "feed/verdict.h"

#include <inttypes.h>

static int class_of(int64_t us)
{
    int k = 0;

    for (; us > 0 && k < HR_STEP_CLASSES - 1; us /= 2)
        k++;
    return k;
}

void hr__steps_call(hr_steps *s, int64_t now)
{
    if (!s->call_ns)
        s->call_ns = now;
}

int hr__steps_add(hr_steps *s, int64_t wait_ns, int64_t step_ns)
{
    if (s->taken++ == 0) {
        s->first_wait_ns = wait_ns;
        return HR_MARK_FIRST;
    }
    s->sums.n++;
    s->sums.wait_ns += wait_ns;
    s->sums.step_ns += step_ns;
    s->sums.n_ready += wait_ns < HR_READY_NS;
    s->by_wait[class_of(wait_ns / 1000)]++;
    s->by_step[class_of(step_ns / 1000)]++;
    if (s->sums.n != HR_STEPS_WARM)
        return -1;
    s->marks[HR_MARK_WARM] = s->sums;
    return HR_MARK_WARM;
}

int hr__steps_took(hr_steps *s, int64_t now)
{
    int64_t call = s->call_ns ? s->call_ns : now, last = s->last_ns ? s->last_ns : call;

    s->call_ns = 0;
    s->last_ns = now;
    return hr__steps_add(s, now - call, call - last);
}

hr_step_sums hr__steps_steady(const hr_steps *s, int *mark)
{
    const hr_step_sums *from = &s->marks[HR_MARK_WARM];
    hr_step_sums sums = s->sums;

    *mark = s->taken > 0 ? HR_MARK_FIRST : -1;
    if (sums.n < 3 * HR_STEPS_WARM)
        return sums;
    *mark = HR_MARK_WARM;
    return (hr_step_sums){ sums.n - from->n, sums.wait_ns - from->wait_ns, sums.step_ns - from->step_ns,
                           sums.convert_ns - from->convert_ns, sums.n_ready - from->n_ready };
}

hr_step_sums hr__steps_all(const hr_steps *s)
{
    hr_step_sums sums = s->sums;

    if (!s->taken)
        return sums;
    sums.n++;
    sums.wait_ns += s->first_wait_ns;
    sums.step_ns += HR_MAX(0, s->call_ns - s->last_ns); /* after the last batch, until the call that found no more */
    return sums;
}

void hr__steps_print(const hr_steps *s, hr_text *out)
{
    hr__text_add(out, "{\"taken\":%" PRId64 ",\"first_wait_ns\":%" PRId64, s->taken, s->first_wait_ns);
    hr__text_add(out, ",\"wait_ns\":%" PRId64 ",\"step_ns\":%" PRId64 ",\"convert_ns\":%" PRId64 ",\"ready\":%" PRId64,
                 s->sums.wait_ns, s->sums.step_ns, s->sums.convert_ns, s->sums.n_ready);
    hr__print_classes("waits_by_log2_us", s->by_wait, HR_STEP_CLASSES, out);
    hr__print_classes("steps_by_log2_us", s->by_step, HR_STEP_CLASSES, out);
    hr__text_add(out, "}");
}
