/* link_life.c - references of a link, and the error of a link that has ended.
 *
 * Tests: test_link.c. */
#include "share/link.h"

hr_status hr__link_not_ours(const hr_link *l, hr_error *err)
{
    return hr_error_set(err, HR_PEER, "link: belongs to process %d; its forked child %d cannot use it", l->pid,
                        hr__pid());
}

hr_status hr__link_gone(hr_error *err)
{
    return hr_error_set(err, HR_PEER, "link: the other process has closed its end or died");
}

hr_status hr__link_closed(hr_error *err) { return hr_error_set(err, HR_PEER, "link: was closed here"); }

void hr__link_part_unref(hr_link *l)
{
    if (atomic_fetch_sub_explicit(&l->parts, 1, memory_order_acq_rel) > 1)
        return;
    hr__file_close(l->fd);
    hr__file_close(l->in_fd);
    for (int64_t i = 0; i < l->n_known; i++)
        hr__segment_unref(l->known[i]);
    hr__free(l->known);
    hr__free(l->slots);
    for (int i = 0; i < HR_WIRE_SCHEMAS; i++) {
        hr__schema_unref(l->schemas[i].schema);
        hr__text_clear(&l->schemas[i].bytes);
    }
    hr__peer_clear(&l->peer);
    hr__free(l->in);
    hr__mutex_clear(&l->send_lock);
    hr__mutex_clear(&l->recv_lock);
    hr__mutex_clear(&l->lock);
    hr__arena_unref(l->mem.arena);
    hr__account_unref(l->account);
    hr__free(l);
}
