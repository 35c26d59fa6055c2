/* cache_rows.c - passes rows on, and says where the rows of its input are cached.
 *
 * The operator itself does nothing: a run reads the rows that the cache has, and computes its input for the others
 * (exec/row_leaf.c). A run that knows no caches gives the same rows.
 *
 * Tests: test_row_cache.c, test_row_cache.py. */
#include "op/operators.h"

#include <inttypes.h>

typedef struct cache_op {
    hr_op base;
    hr_cache_place place;
    hr_cache_state state;
    char *folder, *version;
} cache_op;

static hr_status cache_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_table *same = hr_table_ref((hr_table *)in);

    (void)op;
    return hr__task_emit(task, &same, err);
}

static void cache_describe(const hr_op *op, hr_text *out)
{
    const cache_op *c = (const cache_op *)op;

    hr__text_add(out, "cache('%s'", c->folder);
    if (c->place.limit < INT64_MAX)
        hr__text_add(out, ", limit=%" PRId64, c->place.limit);
    if (*c->version)
        hr__text_add(out, ", version='%s'", c->version);
    hr__text_add(out, ")");
}

static void cache_free(hr_op *op)
{
    cache_op *c = (cache_op *)op;

    hr__free(c->folder);
    hr__free(c->version);
    hr__free(c);
}

static const hr_op_class cache_class = {
    .name = "cache",
    .doc = "the same rows, from a folder of this machine if they are there",
    .kind = HR_OP_MAP,
    .same_rows = true,
    .schema = hr__kept_schema,
    .push = cache_push,
    .describe = cache_describe,
    .free = cache_free,
};

hr_status hr__op_cache(const char *folder, int64_t limit, const char *version, hr_op **out, hr_error *err)
{
    cache_op *c;

    *out = NULL;
    if (!*folder)
        return hr_error_set(err, HR_INVALID, "cache: the name of the folder is empty");
    if (limit < 0)
        return hr_error_set(err, HR_INVALID, "cache: a limit of %" PRId64 " bytes; expected 0 or more", limit);
    if (!(c = hr__zalloc(NULL, sizeof *c)))
        return hr__error_memory(err, "cache", sizeof *c);
    hr__op_init(&c->base, &cache_class);
    c->folder = hr__strdup(NULL, folder);
    c->version = hr__strdup(NULL, version ? version : "");
    if (!c->folder || !c->version) {
        cache_free(&c->base);
        return hr__error_memory(err, "cache", (int64_t)strlen(folder));
    }
    c->place = (hr_cache_place){ c->folder, limit ? limit : INT64_MAX, c->version, &c->state };
    c->base.caches = &c->place;
    *out = &c->base;
    return HR_OK;
}
