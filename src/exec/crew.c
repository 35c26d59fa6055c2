/* crew.c - the parts of one operator's call, done by all threads that have a hand free.
 *
 * A call that no other work of the run can go on without (the table of a join's right side) is cut into parts by its
 * operator. They wait in the run's list; the calling thread does them one after the other, and threads that come by do
 * so too, before anything else. The caller then waits for those that others have begun: they run, and wait for nothing,
 * so that this takes as long as one part. */
#include "exec/run.h"

struct hr_crew {
    hr_crew *next;
    hr_part_fn *fn;
    void *context;
    int64_t n, at, busy; /* parts; the next one; that run now */
    hr_status st;        /* of the first that failed */
    hr_error err;
};

/* Does the next part, without the lock. */
static void do_part_relocks(hr_run *r, hr_crew *c)
{
    int64_t i = c->at++;
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    hr__assert_locked(r);
    c->busy++;
    hr__run_unlock(r);
    st = c->fn(c->context, i, &err);
    hr__run_lock(r);
    if (st && !c->st) {
        c->st = st;
        hr__error_move(&c->err, &err);
        c->at = c->n;
    }
    hr_error_clear(&err);
    if (--c->busy == 0)
        hr__cond_broadcast(&r->crew_done);
}

static hr_crew *open_crew(const hr_run *r)
{
    hr_crew *c = r->crews;

    while (c && c->at >= c->n)
        c = c->next;
    return c;
}

bool hr__crew_waits(const hr_run *r) { return open_crew(r) != NULL; }

void hr__crew_help(hr_run *r)
{
    hr_crew *c;

    hr__run_lock(r);
    while ((c = open_crew(r)))
        do_part_relocks(r, c);
    hr__run_unlock(r);
}

static void leave_locked(hr_run *r, hr_crew *c)
{
    hr_crew **at = &r->crews;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

hr_status hr__task_share(hr_task *task, int64_t n, hr_part_fn *fn, void *context, hr_error *err)
{
    hr_crew c = { .fn = fn, .context = context, .n = n };
    hr_run *r = task ? task->run : NULL;
    hr_status st = HR_OK;

    if (n < 2 || !r) {
        for (int64_t i = 0; i < n && !st; i++)
            st = fn(context, i, err);
        return st;
    }
    hr__run_lock(r);
    c.next = r->crews;
    r->crews = &c;
    hr__run_unlock(r);
    hr__pool_wake();
    hr__run_lock(r);
    while (c.at < c.n)
        do_part_relocks(r, &c);
    while (c.busy)
        hr__run_wait(r, &r->crew_done);
    leave_locked(r, &c);
    hr__run_unlock(r);
    if (c.st)
        hr__error_move(err, &c.err);
    hr_error_clear(&c.err);
    return c.st;
}
