/* materialize.c - runs a plan once and makes a plan that reads its materialized rows. */
#include "feed/feed.h"
#include "format/scan/materialized.h"

hr_status hr_plan_materialize(hr_plan *p, const hr_feed_options *options, hr_plan **out, hr_error *err)
{
    HR_NEED(p, out);

    hr_feed_options o;
    int64_t limit;
    hr_schema *schema = NULL;
    hr_feed *f = NULL;
    hr_materialized *k = NULL;
    hr_scan *scan = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_feed_options, options, &o));
    limit = o.memory_limit > 0 ? HR_MIN(o.memory_limit, hr_memory_limit()) : 0;
    HR_GO(hr__materialized_new("materialize", limit / 2, hr__plan_fragments_of(p), &k, err));
    HR_GO(hr_feed_open(p, &o, &f, err));
    for (;;) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        HR_GO(hr__materialized_add(k, t, err));
    }
    HR_GO(hr__materialized_end(k, err));
    if (!hr__materialized_size(k).rows) { /* no rows: the plan may still know its columns */
        HR_GO(hr__plan_schema(p, &schema, err));
        HR_GO(hr__table_empty(schema, &t, err));
        HR_GO(hr__materialized_add(k, t, err));
    }
    HR_GO(hr__materialized_scan(k, &scan, err));
    st = hr__plan_scan(scan, out, err);
done:
    hr__schema_unref(schema);
    hr__scan_unref(scan);
    hr_feed_close(f);
    hr__materialized_free(k);
    return st;
}
