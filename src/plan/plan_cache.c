/* plan_cache.c - a plan whose rows are cached: what may be below a cache, and the key of its rows.
 *
 * 1. The key is a hash of all that the rows depend on: the nodes and their arguments, the names, sizes and times of
 *    files (a remote file: its version), values in memory, the code of functions, the run's seed, and the numbers of
 *    operators and sources, which random numbers depend on. A change of any of them gives another key, never old rows.
 * 2. What has no hash is an error, unless the caller names a version for it: a function of C, a function that cannot be
 *    pickled, a source of the user's.
 * 3. Cached rows are those of epoch 0. An operator that gives other rows in each epoch is an error below a cache.
 *    Functions below it see epoch 0.
 * 4. A cache of a union is the union of caches: each input has a key of its own.
 *
 * Tests: test_row_cache.c, test_row_cache.py. */
#include "plan/plan.h"

static void print_op(const hr_op *op, hr_text *out)
{
    if (op->cls->describe)
        op->cls->describe(op, out);
    else
        hr__text_add(out, "%s", op->cls->name);
}

static hr_status refuse(const hr_plan *p, const char *why, hr_error *err)
{
    hr_text name = { 0 };
    hr_status st;

    if (p->op)
        print_op(p->op, &name);
    else
        hr__scan_describe(p->scan, &name);
    st = hr_error_set(err, HR_INVALID, "cache: %s %s", name.data && !name.failed ? name.data : "a step", why);
    hr__text_clear(&name);
    return st;
}

static hr_status check_epochs(const hr_plan *p, hr_error *err)
{
    for (int i = 0; i < p->n_inputs; i++)
        HR_TRY(check_epochs(p->inputs[i], err));
    if (p->op && p->op->by_epoch)
        return refuse(p,
                      "gives other rows in each epoch, and a cache after it would give those of one epoch in all of "
                      "them; put it after cache()",
                      err);
    return HR_OK;
}

/* Whether the plan has a function or a source whose rows no hash describes. */
static hr_status check_hashes(const hr_plan *p, hr_error *err)
{
    char code[HR_CODE_DIGITS + 1] = "-";

    for (int i = 0; i < p->n_inputs; i++)
        HR_TRY(check_hashes(p->inputs[i], err));
    if (p->scan && hr__scan_calls(p->scan))
        return refuse(p, "is a source of yours, whose rows have no hash; name a version for them: cache(..., version=)",
                      err);
    if (!p->op || !(p->op->calls || p->op->cls->calls))
        return HR_OK;
    if (p->op->cls->code)
        p->op->cls->code(p->op, code);
    if (code[0] == '-')
        return refuse(p, "calls a function whose code has no hash; name a version for it: cache(..., version=)", err);
    return HR_OK;
}

static hr_status cache_of_union(hr_plan *in, const char *folder, const hr_cache_options *options, hr_plan **out,
                                hr_error *err)
{
    hr_plan **cached = hr__zalloc(NULL, (size_t)in->n_inputs * sizeof(hr_plan *));
    hr_status st = HR_OK;

    if (!cached)
        return hr__error_memory(err, "cache", in->n_inputs * (int64_t)sizeof(hr_plan *));
    for (int i = 0; i < in->n_inputs; i++)
        HR_GO(hr_plan_cache(in->inputs[i], folder, options, &cached[i], err));
    st = hr__plan_like(in, cached, out, err);
done:
    for (int i = 0; i < in->n_inputs; i++)
        hr_plan_unref(cached[i]);
    hr__free(cached);
    return st;
}

hr_status hr_plan_cache(hr_plan *in, const char *folder, const hr_cache_options *options, hr_plan **out, hr_error *err)
{
    HR_NEED(in, folder, out);

    hr_cache_options o;
    hr_op *op = NULL;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_cache_options, options, &o));
    HR_TRY(check_epochs(in, err));
    if (in->kind == HR_PLAN_UNION)
        return cache_of_union(in, folder, &o, out, err);
    HR_TRY(hr__op_cache(folder, o.limit_bytes, o.version, &op, err));
    return hr__plan_op(in, op, out, err);
}

hr_status hr__plan_cache_key(const hr_plan *p, uint64_t seed, const int64_t *numbers, int n, hr_bits128 *out,
                             hr_error *err)
{
    const char *version = p->op->caches->version;
    char digest[33], code[HR_MAX_CODES * HR_CODE_DIGITS + 1];
    hr_plan *in = p->inputs[0];
    hr_inputs inputs;
    hr_hash h;

    if (!*version)
        HR_TRY(check_hashes(in, err));
    HR_TRY(hr__plan_data_digest(in, digest, err));
    HR_TRY(hr__inputs_of(in, false, &inputs, err));
    hr__plan_code(in, code);
    hr__hash_init(&h, 1);
    hr__hash_text(&h, HR_VERSION_TEXT);
    hr__hash_text(&h, version);
    hr__hash_text(&h, digest);
    hr__hash_text(&h, code);
    hr__hash_int(&h, (int64_t)seed);
    for (int64_t i = 0; i < HR_MIN(inputs.n, HR_INPUT_GROUPS); i++)
        hr__hash_int(&h, (int64_t)inputs.groups[i].times);
    for (int i = 0; i < n; i++)
        hr__hash_int(&h, numbers[i]);
    *out = hr__hash_end(&h);
    return HR_OK;
}
