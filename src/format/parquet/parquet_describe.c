/* parquet_describe.c - the metadata of a Parquet file as lines of text for people, or as JSON: headrace stat.
 *
 * One line for each stored column of each row group: type, codec, encodings, bytes in the file and before compression,
 * nulls, least and greatest value if the order of the type is defined, and the indexes.
 *
 * Tests: test_cli.py. */
#include "format/parquet/parquet_read.h"

#include <stdio.h>

#define MAX_BOUND_BYTES 24 /* to show of a least or greatest value */

static const char *const codecs[] = { "none", "snappy", "gzip", "lzo", "brotli", "lz4_hadoop", "zstd", "lz4" };
static const char *const encodings[] = { "plain",        "group_varint", "dictionary",  "rle",        "bit_packed",
                                         "delta_binary", "delta_length", "delta_bytes", "dictionary", "byte_split" };

static const char *codec_name(int codec) { return codec < HR_LEN(codecs) ? codecs[codec] : "unknown codec"; }

/* Their names with `between` between them. */
static void add_encodings(uint32_t bits, const char *between, hr_text *out)
{
    bool first = true;

    if (bits & 1u << PQ_RLE_DICTIONARY)
        bits &= ~(1u << PQ_PLAIN_DICTIONARY); /* two numbers of one encoding */
    for (int i = 0; i < HR_LEN(encodings); i++) {
        if (!(bits >> i & 1))
            continue;
        hr__text_add(out, "%s%s", first ? "" : between, encodings[i]);
        first = false;
    }
}

static hr_status add_bound(const pq_leaf *l, hr_type *type, hr_view v, bool is_most, hr_text *out, hr_error *err)
{
    hr_array *a = NULL;

    HR_TRY(pq__bound_decode(l, type, v, is_most, out->account, &a, err));
    if (a)
        hr__array_print_some(a, 0, MAX_BOUND_BYTES, out);
    else
        hr__text_add(out, "?");
    hr__array_unref(a);
    return HR_OK;
}

static const pq_node *node_of(const pq_node *n, int leaf)
{
    for (int i = 0; n->leaf != leaf && i < n->n_children; i++) {
        const pq_node *found = node_of(&n->children[i], leaf);

        if (found)
            return found;
    }
    return n->leaf == leaf ? n : NULL;
}

/* The type of the column's values, if its statistics bound them; NULL: they do not. */
static hr_type *bounded_type(const pq_file *f, int leaf, const pq_detail *d)
{
    const pq_leaf *l = &f->schema->leaves[leaf];
    const pq_node *node = NULL;

    for (int i = 0; !node && i < f->schema->n_nodes; i++)
        node = leaf < f->schema->node_leaf[i + 1] ? node_of(&f->schema->nodes[i], leaf) : NULL;
    if (!node || !d->stats.least.data || !d->stats.most.data ||
        !pq__has_order(f->meta, l, node->field.type, d->stats.deprecated))
        return NULL;
    return node->field.type;
}

static hr_status add_stats(const pq_file *f, int leaf, const pq_detail *d, hr_text *out, hr_error *err)
{
    const pq_leaf *l = &f->schema->leaves[leaf];
    hr_type *type = bounded_type(f, leaf, d);

    if (d->stats.null_count >= 0)
        hr__text_add(out, ", %lld nulls", (long long)d->stats.null_count);
    if (type) {
        hr__text_add(out, ", ");
        HR_TRY(add_bound(l, type, d->stats.least, false, out, err));
        hr__text_add(out, " .. ");
        HR_TRY(add_bound(l, type, d->stats.most, true, out, err));
    }
    return HR_OK;
}

/* `, "least": "..."`: the value as people read it, whatever its type. */
static hr_status add_json_bound(const pq_leaf *l, hr_type *type, hr_view v, bool is_most, hr_text *out, hr_error *err)
{
    hr_text value = { .account = out->account };
    hr_status st = add_bound(l, type, v, is_most, &value, err);

    if (!st) {
        hr__text_add(out, ", \"%s\": ", is_most ? "most" : "least");
        hr__text_add_json(out, value.data ? value.data : "");
        out->failed = out->failed || value.failed;
    }
    hr__text_clear(&value);
    return st;
}

static hr_status add_json_column(const pq_file *f, const pq_group *g, int leaf, hr_text *out, hr_error *err)
{
    const pq_leaf *l = &f->schema->leaves[leaf];
    const pq_chunk *c = &g->chunks[l->column];
    hr_type *type;
    pq_detail d;

    pq__detail_read(f->meta, c, &d);
    hr__text_add(out, "{\"name\": ");
    hr__text_add_json(out, l->name);
    hr__text_add(out, ", \"codec\": \"%s\", \"encodings\": [\"", codec_name(c->codec));
    add_encodings(d.encodings, "\", \"", out);
    hr__text_add(out, "\"], \"stored_bytes\": %lld, \"memory_bytes\": %lld, \"values\": %lld", (long long)c->n_bytes,
                 (long long)c->memory_bytes, (long long)c->n_values);
    if (d.stats.null_count >= 0)
        hr__text_add(out, ", \"nulls\": %lld", (long long)d.stats.null_count);
    if ((type = bounded_type(f, leaf, &d))) {
        HR_TRY(add_json_bound(l, type, d.stats.least, false, out, err));
        HR_TRY(add_json_bound(l, type, d.stats.most, true, out, err));
    }
    hr__text_add(out, ", \"page_index\": %s, \"bloom_filter\": %s, \"encrypted\": %s}",
                 d.column_index_bytes || c->index_at ? "true" : "false", d.bloom_at > 0 ? "true" : "false",
                 c->encrypted ? "true" : "false");
    return HR_OK;
}

static hr_status add_column(const pq_file *f, const pq_group *g, int leaf, hr_text *out, hr_error *err)
{
    const pq_leaf *l = &f->schema->leaves[leaf];
    const pq_chunk *c = &g->chunks[l->column];
    pq_detail d;

    pq__detail_read(f->meta, c, &d);
    hr__text_add(out, "  %s: %s, ", l->name, codec_name(c->codec));
    add_encodings(d.encodings, "+", out);
    hr__text_add(out, ", %lld bytes", (long long)c->n_bytes);
    if (c->codec)
        hr__text_add(out, " of %lld", (long long)c->memory_bytes);
    if (c->n_values != g->n_rows)
        hr__text_add(out, ", %lld values", (long long)c->n_values);
    HR_TRY(add_stats(f, leaf, &d, out, err));
    if (d.column_index_bytes || c->index_at)
        hr__text_add(out, ", page index");
    if (d.bloom_at > 0)
        hr__text_add(out, ", bloom filter");
    if (c->encrypted)
        hr__text_add(out, ", encrypted");
    if (c->elsewhere)
        hr__text_add(out, ", in another file");
    hr__text_add(out, "\n");
    return HR_OK;
}

static hr_status describe_json(const pq_file *f, int fragment, hr_text *out, hr_error *err)
{
    if (fragment < 0) {
        char by[201];

        snprintf(by, sizeof by, "%.*s", (int)HR_MIN(f->meta->created_by.n, 200),
                 (const char *)f->meta->created_by.data);
        hr__text_add(out, ", \"columns\": %d, \"stored_columns\": %d, \"written_by\": ", f->schema->n_nodes,
                     f->schema->n_leaves);
        hr__text_add_json(out, by);
        return HR_OK;
    }
    hr__text_add(out, ", \"columns\": [");
    for (int i = 0; i < f->schema->n_leaves; i++) {
        hr__text_add(out, i ? ", " : "");
        HR_TRY(add_json_column(f, &f->meta->groups[fragment], i, out, err));
    }
    hr__text_add(out, "]");
    return HR_OK;
}

hr_status pq__describe(hr_scan_file *base, int fragment, bool json, hr_text *out, hr_error *err)
{
    const pq_file *f = (const pq_file *)base;

    if (json)
        return describe_json(f, fragment, out, err);
    if (fragment < 0) {
        hr__text_add(out, "%d columns stored as %d, written by '%.*s'\n", f->schema->n_nodes, f->schema->n_leaves,
                     (int)HR_MIN(f->meta->created_by.n, 200), (const char *)f->meta->created_by.data);
        return HR_OK;
    }
    for (int i = 0; i < f->schema->n_leaves; i++)
        HR_TRY(add_column(f, &f->meta->groups[fragment], i, out, err));
    return HR_OK;
}
