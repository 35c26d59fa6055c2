/* local_gather.c - the second half of a local shuffle: copies the rows of a pick list.
 *
 * A pick list says where each of its rows lies; this operator copies the rows column by column. It also draws the last
 * permutation of a leaf.
 *
 * Tests: test_local_shuffle.c. */
#include "op/order/local_shuffle.h"

/* Conforms a part that came before a table with more exact types. *owned: the new part (caller's), which replaces
 * *part; NULL: *part stays. */
static hr_status fit(const hr_mem *mem, hr_schema *schema, hr_table **part, hr_table **owned, hr_error *err)
{
    *owned = NULL;
    if ((*part)->schema == schema || hr__schema_equal((*part)->schema, schema))
        return HR_OK;
    HR_TRY(hr__table_conform(mem, *part, schema, owned, err));
    *part = *owned;
    return HR_OK;
}

/* The rows of a pick list that is not drawn yet. */
static hr_status permuted(const hr_mem *mem, const hr_pick_list *list, hr_table *const *parts, int n_parts,
                          hr_origin *origin, hr_table **out, hr_error *err)
{
    uint32_t *order = hr__alloc(mem->account, (size_t)list->n * sizeof *order);
    hr_status st;

    if (!order)
        return hr__error_memory(err, "local_shuffle", list->n * (int64_t)sizeof *order);
    hr__random_order(order, list->n, list->key);
    st = hr__table_pick_runs(mem, list->schema, parts, n_parts, list->picks, order, list->n, origin, out, err);
    hr__free(order);
    return st;
}

static hr_status gather(const hr_mem *mem, const hr_pick_list *list, hr_origin *origin, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t n_before = list->before ? list->before->n_parts : 0, n_parts = n_before + list->after->n_parts, n_owned = 0;
    hr_table **parts = hr__alloc(mem->account, (size_t)n_parts * sizeof *parts);
    hr_table **owned = hr__zalloc(mem->account, (size_t)n_parts * sizeof *owned);

    if (!parts || !owned)
        HR_GO(hr__error_memory(err, "local_shuffle", n_parts * (int64_t)sizeof *parts));
    for (; n_owned < n_parts; n_owned++) {
        parts[n_owned] = n_owned < n_before ? list->before->parts[n_owned] : list->after->parts[n_owned - n_before];
        HR_GO(fit(mem, list->schema, &parts[n_owned], &owned[n_owned], err));
    }
    if (list->drawn)
        st = hr__table_pick(mem, list->schema, parts, (int)n_parts, list->picks, list->n, origin, out, err);
    else
        st = permuted(mem, list, parts, (int)n_parts, origin, out, err);
done:
    for (int64_t i = 0; i < n_owned; i++)
        hr_table_unref(owned[i]);
    hr__free(owned);
    hr__free(parts);
    return st;
}

static hr_status gather_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_payload *list = NULL;
    hr_status st = HR_OK;
    hr_table *out = NULL;

    (void)op;
    HR_GO(hr__table_payload(in, &hr__pick_list_class, &list, err));
    HR_GO(gather(hr__task_mem(task), (const hr_pick_list *)list, in->origin, &out, err));
    HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(out);
    return st;
}

static const hr_op_class local_gather_class = {
    .name = "local_gather",
    .doc = "copies rows in a random order within windows",
    .kind = HR_OP_MAP,
    .one_to_one = true,
    .new_rows = true,
    .same_rows = true,
    .needs = hr__same_needs,
    .schema = hr__kept_schema,
    .push = gather_push,
    .free = hr__op_plain_free,
};

hr_status hr__op_local_gather(hr_op **out, hr_error *err) { return hr__op_plain(&local_gather_class, out, err); }
