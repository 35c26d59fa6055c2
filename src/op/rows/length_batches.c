/* length_batches.c - the open batches of batch_by_length, one per bucket.
 *
 * While a table is at hand, a batch has the numbers of its rows there. A batch that closes then copies them once.
 * Before the next table, the rows of open batches move to small tables of their own, so that no batch keeps a whole
 * table in memory.
 *
 * Tests: test_batch_by_length.c. */
#include "op/rows/length_batches.h"

#include <inttypes.h>
#include <stdlib.h>

#define MAX_PARTS 1024 /* of a batch; more become one */

hr_status hr__length_batches_init(hr_length_batches *b, const int64_t *bounds, int n_bounds, hr_error *err)
{
    b->n_bounds = n_bounds;
    if (n_bounds)
        memcpy(b->bounds, bounds, (size_t)n_bounds * sizeof *bounds);
    b->open = hr__zalloc(b->account, ((size_t)n_bounds + 2) * sizeof *b->open);
    return b->open ? HR_OK : hr__error_memory(err, "batch_by_length", (n_bounds + 2) * (int64_t)sizeof *b->open);
}

static void parts_drop(hr_length_batch *o)
{
    while (o->n_parts)
        hr_table_unref(o->parts[--o->n_parts]);
}

void hr__length_batches_clear(hr_length_batches *b)
{
    for (int k = 0; b->open && k < b->n_bounds + 2; k++) {
        parts_drop(&b->open[k]);
        hr__free(b->open[k].parts);
        hr__free(b->open[k].picks);
    }
    hr__free(b->open);
    b->open = NULL;
}

int hr__length_bucket(const hr_length_batches *b, int64_t length)
{
    int low = 0, high = b->n_bounds;

    if (length > b->max_tokens)
        return b->n_bounds + 1;
    while (low < high) {
        int middle = (low + high) / 2;

        if (length <= b->bounds[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool hr__length_fits(const hr_length_batches *b, int k, int64_t length)
{
    const hr_length_batch *o = &b->open[k];
    int64_t least = k > 0 && k <= b->n_bounds ? b->bounds[k - 1] + 1 : 1;
    int64_t longest = HR_MAX(HR_MAX(o->longest, length), least);

    return o->n_rows < b->max_rows && o->n_rows + 1 <= b->max_tokens / longest;
}

void hr__length_open(hr_length_batches *b, int k)
{
    hr_length_batch *o = &b->open[k];

    o->n_rows = o->longest = o->tokens = 0;
    o->number = b->next_number++;
    o->opened_at = b->n_closed;
    o->has_rows = true;
    b->n_open++;
}

hr_status hr__length_add(hr_length_batches *b, int k, uint32_t row, int64_t length, hr_error *err)
{
    hr_length_batch *o = &b->open[k];
    void *picks = o->picks;

    if (o->has_rows) {
        if (!hr__grow(b->account, &picks, &o->cap_picks, o->n_picks + 1, sizeof *o->picks))
            return hr__error_memory(err, "batch_by_length", (o->n_picks + 1) * (int64_t)sizeof *o->picks);
        o->picks = picks;
        o->picks[o->n_picks++] = row;
    }
    o->n_rows++;
    o->longest = HR_MAX(o->longest, length);
    o->tokens += length;
    return HR_OK;
}

/* The picks of all rows of the batch: those of the parts, then those of the table at hand, part n_parts. */
static void all_picks(const hr_length_batch *o, uint32_t *to)
{
    for (int64_t i = 0; i < o->n_parts; i++)
        for (int64_t row = 0; row < o->parts[i]->n_rows; row++)
            *to++ = (uint32_t)i << HR_PICK_BITS | (uint32_t)row;
    for (int64_t i = 0; i < o->n_picks; i++)
        *to++ = (uint32_t)o->n_parts << HR_PICK_BITS | o->picks[i];
}

hr_status hr__length_take(const hr_length_batches *b, int k, const hr_mem *mem, hr_schema *schema, hr_table *in,
                          int64_t place, hr_table **out, hr_error *err)
{
    const hr_length_batch *o = &b->open[k];
    hr_run_coords coords = { .first = { .row = place }, .n = o->n_rows };
    size_t n_parts = (size_t)o->n_parts + 1;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;
    hr_table **parts = hr__alloc(b->account, n_parts * sizeof *parts + (size_t)o->n_rows * sizeof(uint32_t));
    uint32_t *picks;

    *out = NULL;
    if (!parts)
        return hr__error_memory(err, "batch_by_length", o->n_rows * (int64_t)sizeof *picks);
    picks = (uint32_t *)(void *)(parts + n_parts);
    if (o->n_parts)
        memcpy(parts, o->parts, (size_t)o->n_parts * sizeof *parts);
    parts[o->n_parts] = in;
    all_picks(o, picks);
    HR_GO(hr__origin_new(&coords, 1, &origin, err));
    HR_GO(hr__table_pick(mem, schema, parts, (int)o->n_parts + (o->n_picks > 0), picks, o->n_rows, origin, out, err));
done:
    hr__origin_unref(origin);
    hr__free(parts);
    return st;
}

void hr__length_close(hr_length_batches *b, int k)
{
    hr_length_batch *o = &b->open[k];

    parts_drop(o);
    o->n_rows = o->n_picks = 0;
    b->n_open--;
    b->n_closed++;
}

int hr__length_oldest(const hr_length_batches *b)
{
    int oldest = -1;

    for (int k = 0; k < b->n_bounds + 2; k++)
        if (b->open[k].n_rows && (oldest < 0 || b->open[k].number < b->open[oldest].number))
            oldest = k;
    return oldest;
}

/* Makes one part of all parts. */
static hr_status join_parts(hr_length_batch *o, const hr_mem *mem, hr_schema *schema, hr_error *err)
{
    hr_table *whole = NULL;

    HR_TRY(hr__table_concat(mem, schema, o->parts, (int)o->n_parts, &whole, err));
    parts_drop(o);
    o->parts[o->n_parts++] = whole;
    return HR_OK;
}

static hr_status keep_rows(hr_length_batches *b, hr_length_batch *o, const hr_mem *mem, hr_schema *schema, hr_table *in,
                           hr_error *err)
{
    void *parts = o->parts;
    hr_table *own = NULL;

    if (o->n_parts == MAX_PARTS)
        HR_TRY(join_parts(o, mem, schema, err));
    if (!hr__grow(b->account, &parts, &o->cap_parts, o->n_parts + 1, sizeof *o->parts))
        return hr__error_memory(err, "batch_by_length", (o->n_parts + 1) * (int64_t)sizeof *o->parts);
    o->parts = parts;
    HR_TRY(hr__table_pick(mem, schema, &in, 1, o->picks, o->n_picks, NULL, &own, err));
    o->parts[o->n_parts++] = own;
    o->n_picks = 0;
    return HR_OK;
}

hr_status hr__length_keep(hr_length_batches *b, const hr_mem *mem, hr_schema *schema, hr_table *in, hr_error *err)
{
    for (int k = 0; k < b->n_bounds + 2; k++)
        if (b->open[k].n_picks)
            HR_TRY(keep_rows(b, &b->open[k], mem, schema, in, err));
    return HR_OK;
}

hr_status hr__length_conform(hr_length_batches *b, const hr_mem *mem, hr_schema *schema, hr_error *err)
{
    for (int k = 0; b->open && k < b->n_bounds + 2; k++)
        for (int64_t i = 0; i < b->open[k].n_parts; i++)
            HR_TRY(hr__table_conform_in_place(mem, &b->open[k].parts[i], schema, err));
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------- texts of positions */

void hr__length_print(const hr_length_batches *b, hr_text *out)
{
    int64_t after = -1;

    if (!b->n_open)
        hr__text_add(out, "-");
    for (int n = 0; n < b->n_open; n++) {
        const hr_length_batch *next = NULL;

        for (int k = 0; k < b->n_bounds + 2; k++) {
            const hr_length_batch *o = &b->open[k];

            if (o->n_rows && o->number > after && (!next || o->number < next->number))
                next = o;
        }
        if (!next)
            return;
        hr__text_add(out, "%s%d:%" PRId64 ":%" PRId64 ":%" PRId64, n ? "," : "", (int)(next - b->open), next->n_rows,
                     next->longest, b->n_closed - next->opened_at);
        after = next->number;
    }
}

/* Digits, at *p, up to `most`; moves *p after them. */
static bool read_number(const char **p, int64_t most, int64_t *out)
{
    char *stop = NULL;

    if (**p < '0' || **p > '9')
        return false;
    *out = strtoll(*p, &stop, 10);
    *p = stop;
    return *out <= most;
}

static bool read_char(const char **p, char c)
{
    if (**p != c)
        return false;
    ++*p;
    return true;
}

static bool ends(const char *p) { return *p == '\0' || *p == ' '; }

static bool parse_batch(hr_length_batches *b, const char **p)
{
    int64_t k, n_rows, longest, age;
    hr_length_batch *o;

    if (!read_number(p, b->n_bounds, &k) || !read_char(p, ':') || !read_number(p, b->max_rows, &n_rows) ||
        !read_char(p, ':') || !read_number(p, b->max_tokens, &longest) || !read_char(p, ':') ||
        !read_number(p, INT64_MAX / 4, &age))
        return false;
    o = &b->open[k];
    if (o->n_rows || !n_rows || n_rows > b->max_tokens / HR_MAX(longest, 1) || hr__length_bucket(b, longest) != (int)k)
        return false;
    hr__length_open(b, (int)k);
    o->n_rows = n_rows;
    o->longest = longest;
    o->opened_at = b->n_closed - age;
    o->has_rows = false;
    return true;
}

bool hr__length_parse(hr_length_batches *b, const char *text)
{
    if (read_char(&text, '-'))
        return ends(text);
    do {
        if (!parse_batch(b, &text))
            return false;
    } while (read_char(&text, ','));
    return ends(text);
}

void hr__length_print_bounds(const int64_t *bounds, int n, hr_text *out)
{
    for (int i = 0; i < n; i++)
        hr__text_add(out, "%s%" PRId64, i ? "," : "", bounds[i]);
    if (!n)
        hr__text_add(out, "-");
}

bool hr__length_parse_bounds(const char *text, int64_t *bounds, int *n)
{
    *n = 0;
    if (read_char(&text, '-'))
        return ends(text);
    do {
        if (*n == HR_MAX_BUCKETS || !read_number(&text, INT64_MAX / 4, &bounds[*n]))
            return false;
        if (*n && bounds[*n] <= bounds[*n - 1])
            return false;
        ++*n;
    } while (read_char(&text, ','));
    return ends(text);
}
