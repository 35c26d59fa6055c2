/* queue.c - a ring of tables with the markers that lie before them.
 *
 * Not thread-safe: its owner holds run->lock, or owns the ticket or stage that it belongs to.
 *
 * Tests: test_keyed.c, test_run.c. */
#include "exec/run.h"

void hr__item_clear(hr_item *i)
{
    hr_table_unref(i->table);
    hr__marker_drop(i->marker);
    *i = (hr_item){ 0 };
}

static hr_status queue_grow(hr_queue *q, hr_account *a, hr_error *err)
{
    int64_t cap = q->cap ? q->cap * 2 : 8;
    hr_item *items = hr__alloc(a, (size_t)cap * sizeof *items);

    if (!items)
        return hr__error_memory(err, "queue", cap * (int64_t)sizeof *items);
    for (int64_t i = 0; i < q->n; i++)
        items[i] = q->items[(q->head + i) % q->cap];
    hr__free(q->items);
    q->items = items;
    q->cap = cap;
    q->head = 0;
    return HR_OK;
}

hr_status hr__queue_push(hr_queue *q, hr_account *a, hr_item takes, hr_error *err)
{
    hr_status st = HR_OK;

    if (q->n == q->cap)
        HR_GO(queue_grow(q, a, err));
    q->items[(q->head + q->n++) % q->cap] = takes;
    takes = (hr_item){ 0 };
done:
    hr__item_clear(&takes);
    return st;
}

bool hr__queue_pop(hr_queue *q, hr_item *out)
{
    if (!q->n)
        return false;
    *out = q->items[q->head];
    q->head = (q->head + 1) % q->cap;
    q->n--;
    return true;
}

void hr__queue_clear(hr_queue *q)
{
    hr_item i;

    while (hr__queue_pop(q, &i))
        hr__item_clear(&i);
    hr__free(q->items);
    *q = (hr_queue){ 0 };
}
