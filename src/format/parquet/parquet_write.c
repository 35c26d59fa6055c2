/* parquet_write.c - the Parquet writer: the schema, row groups as write chunks, the footer.
 *
 * One thread encodes a row group as the bytes that the file will hold; their offset is unknown until the writer adds
 * them. Page indexes and the footer come last. Everything is nullable except the keys of maps, because a later table
 * may hold nulls. The writer embeds the Arrow schema, so that a reader restores what Parquet cannot express (time
 * zones, durations, 64-bit offsets, fixed sizes, tensors). */
#include "format/arrow/ipc.h"
#include "format/parquet/parquet_write.h"

#include <stdio.h>

#define CREATED_BY "headrace version " HR_VERSION_TEXT

const hr_option pw__options[] = {
    { "compression", HR_OPT_CHOICE, offsetof(pw_options, codec), 0, 0, 5, "none snappy gzip brotli lz4 zstd",
      "codec of the pages" },
    { "compression_level", HR_OPT_INT, offsetof(pw_options, level), -1000, 1000, 0, NULL,
      "level of the codec; 0: its default, which is 1 for zstd" },
    { "row_group_rows", HR_OPT_INT, offsetof(pw_options, row_group_rows), 1, 1 << 30, 262144, NULL,
      "maximum rows of a row group" },
    { "row_group_bytes", HR_OPT_BYTES, offsetof(pw_options, row_group_bytes), 1, 1 << 30, 64 << 20, NULL,
      "maximum bytes of a row group's values in memory (a number counts as 4 bytes or more); if less, 1/16 of the "
      "memory limit" },
    { "page_bytes", HR_OPT_BYTES, offsetof(pw_options, page_bytes), 1, 1 << 30, 1 << 20, NULL,
      "approximate bytes of a page before compression" },
    { "page_version", HR_OPT_INT, offsetof(pw_options, page_version), 1, 2, 1, NULL, "format of data pages, 1 or 2" },
    { "dictionary", HR_OPT_BOOL, offsetof(pw_options, dictionary), 0, 0, 1, NULL,
      "use a dictionary where it makes a column smaller" },
    { "statistics", HR_OPT_BOOL, offsetof(pw_options, statistics), 0, 0, 1, NULL,
      "write the least and greatest value and the number of nulls" },
    { "page_index", HR_OPT_BOOL, offsetof(pw_options, page_index), 0, 0, 1, NULL,
      "write where pages begin and which values they hold" },
    { "page_checksum", HR_OPT_BOOL, offsetof(pw_options, page_checksum), 0, 0, 1, NULL,
      "write a CRC-32 of each page, so that readers find damage" },
    { 0 },
};

static const struct {
    const hr_codec *codec;
    int number; /* in the format */
} codecs[] = {
    { NULL, 0 },           { &hr__codec_snappy, 1 }, { &hr__codec_gzip, 2 }, { &hr__codec_brotli, 4 },
    { &hr__codec_lz4, 7 }, { &hr__codec_zstd, 6 },
};

typedef struct pw_writer {
    hr_writer base;
    pw_options options;
    const hr_codec *codec;
    hr_schema *schema;
    pw_leaf *leaves;
    int n_leaves;
    int64_t cap_leaves;
    hr_text arrow; /* base64 */
} pw_writer;

/* A write chunk: its bytes, and what the footer says about them. */
typedef struct pw_group {
    int64_t n_rows, n_bytes;
    int n_chunks;
    pw_chunk chunks[];
} pw_group;

typedef struct pw_file {
    pw_group **groups;
    int64_t n_groups, cap_groups;
} pw_file;

/* ---------------------------------------------------------------------------------------------------------- leaves */

static int decimal_width(int precision)
{
    static const uint8_t digits[] = { 0,  2,  4,  6,  9,  11, 14, 16, 18, 21, 23, 26, 28, 31, 33, 35, 38,
                                      40, 43, 45, 47, 50, 52, 55, 57, 59, 62, 64, 67, 69, 71, 74, 76 };
    int n = 1;

    while (digits[n] < precision)
        n++;
    return n;
}

static hr_status physical_of(const hr_type *t, const char *name, pq_physical *out, int *width, hr_error *err)
{
    static const uint8_t widths[] = { [PQ_INT32] = 4, [PQ_INT64] = 8, [PQ_FLOAT] = 4, [PQ_DOUBLE] = 8, [PQ_FIXED] = 0 };

    *width = 0;
    switch (t->id) {
    case HR_T_BOOL: *out = PQ_BOOLEAN; break;
    case HR_T_INT64:
    case HR_T_UINT64:
    case HR_T_TIME64:
    case HR_T_TIMESTAMP:
    case HR_T_DURATION: *out = PQ_INT64; break;
    case HR_T_FLOAT32: *out = PQ_FLOAT; break;
    case HR_T_FLOAT64: *out = PQ_DOUBLE; break;
    case HR_T_STRING:
    case HR_T_LARGE_STRING:
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY: *out = PQ_BYTE_ARRAY; break;
    case HR_T_FLOAT16:
        *out = PQ_FIXED;
        *width = 2;
        return HR_OK;
    case HR_T_FIXED_BINARY:
        if (t->width < 1)
            return hr_error_set(err, HR_TYPE, "column '%s': Parquet has no fixed bytes of size %d", name,
                                (int)t->width);
        *out = PQ_FIXED;
        *width = t->width;
        return HR_OK;
    case HR_T_MONTHS:
    case HR_T_DAY_TIME:
    case HR_T_MONTH_DAY_NANO:
        return hr_error_set(err, HR_TYPE, "column '%s': intervals cannot be written to Parquet", name);
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256:
        if (t->scale < 0 || t->scale > t->precision)
            return hr_error_set(err, HR_TYPE, "column '%s': Parquet has no decimal(%d, %d)", name, (int)t->precision,
                                (int)t->scale);
        *out = t->precision <= 9 ? PQ_INT32 : t->precision <= 18 ? PQ_INT64 : PQ_FIXED;
        if (*out == PQ_FIXED) {
            *width = decimal_width(t->precision);
            return HR_OK;
        }
        break;
    default: *out = PQ_INT32; break;
    }
    if (*out != PQ_BOOLEAN && *out != PQ_BYTE_ARRAY)
        *width = widths[*out];
    return HR_OK;
}

/* The path to a leaf during the walk of the tree. */
typedef struct way {
    pw_writer *w;
    pw_leaf at;
    hr_error *err;
} way;

static hr_status add_leaf(way *y, const hr_field *f)
{
    pw_writer *w = y->w;
    pw_leaf *l;

    if (!hr__grow(NULL, (void **)&w->leaves, &w->cap_leaves, w->n_leaves + 1, sizeof *w->leaves))
        return hr__error_memory(y->err, "Parquet schema", sizeof *w->leaves);
    l = &w->leaves[w->n_leaves++];
    *l = y->at;
    l->path = (hr_text){ 0 };
    hr__text_add_bytes(&l->path, y->at.path.data, y->at.path.n);
    if (l->path.failed)
        return hr__error_memory(y->err, "Parquet schema", y->at.path.n);
    l->type = f->type;
    return physical_of(f->type, f->name, &l->physical, &l->width, y->err);
}

static void add_name(way *y, const char *name)
{
    hr__text_add_bytes(&y->at.path, name, (int64_t)strlen(name) + 1);
    y->at.n_path++;
}

static hr_status walk_field(way *y, const hr_field *f, const char *name, bool is_key);

/* Walks child i of the current type; the path is unchanged afterwards. */
static hr_status walk_child(way *y, const hr_type *t, int i, const char *name, bool is_key)
{
    pw_leaf kept = y->at;
    hr_status st;

    if (y->at.n_steps >= HR_MAX_DEPTH)
        return hr_error_set(y->err, HR_TYPE, "column '%s': nested deeper than %d", y->at.path.data, HR_MAX_DEPTH);
    y->at.steps[y->at.n_steps++] = i;
    st = walk_field(y, &t->children[i], name, is_key);
    kept.path = y->at.path;
    kept.path.n = y->at.path.failed ? 0 : kept.path.n;
    y->at = kept;
    return st;
}

static hr_status walk_children(way *y, const hr_field *f)
{
    const hr_type *t = f->type, *entries;
    hr_status st = HR_OK;

    switch (t->id) {
    case HR_T_STRUCT:
        if (t->n_children == 0)
            return hr_error_set(y->err, HR_TYPE, "column '%s': Parquet has no struct without fields", f->name);
        for (int i = 0; i < t->n_children && !st; i++)
            st = walk_child(y, t, i, t->children[i].name, false);
        return st;
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST:
    case HR_T_TENSOR:
        add_name(y, "list");
        y->at.max_def++;
        y->at.max_rep++;
        return walk_child(y, t, 0, "element", false);
    case HR_T_MAP:
        entries = t->children[0].type;
        add_name(y, "key_value");
        y->at.max_def++;
        y->at.max_rep++;
        y->at.steps[y->at.n_steps++] = 0;
        for (int i = 0; i < 2 && !st; i++)
            st = walk_child(y, entries, i, i ? "value" : "key", i == 0);
        return st;
    default: return add_leaf(y, f);
    }
}

static hr_status walk_field(way *y, const hr_field *f, const char *name, bool is_key)
{
    int64_t n = y->at.path.n;
    hr_status st;

    add_name(y, name);
    y->at.max_def = (uint8_t)(y->at.max_def + !is_key);
    if (y->at.max_def > PQ_MAX_LEVEL || y->at.n_steps > HR_MAX_DEPTH - 4)
        return hr_error_set(y->err, HR_TYPE, "column '%s': nested deeper than %d", y->at.path.data, HR_MAX_DEPTH - 4);
    st = walk_children(y, f);
    y->at.path.n = n;
    return st;
}

static hr_status find_leaves(pw_writer *w, hr_error *err)
{
    hr_status st = HR_OK;
    hr_text path = { 0 };

    for (int i = 0; i < w->schema->n && !st; i++) {
        way y = { .w = w, .at = { .column = i, .path = path }, .err = err };

        st = walk_field(&y, &w->schema->fields[i], w->schema->fields[i].name, false);
        path = y.at.path;
        path.n = 0;
        if (path.failed && !st)
            st = hr__error_memory(err, "Parquet schema", 256);
    }
    hr__text_clear(&path);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- the schema */

enum {
    C_UTF8 = 0,
    C_MAP,
    C_LIST = 3,
    C_DECIMAL = 5,
    C_DATE,
    C_TIME_MS,
    C_TIME_US,
    C_STAMP_MS,
    C_STAMP_US,
    C_UINT8,
    C_INT8 = 15
};

/* A member of a union that has no fields. */
static void empty_member(pw_thrift *t, int id) { pw__close(t, pw__open(t, id)); }

static void put_unit(pw_thrift *t, int id, hr_unit unit)
{
    int outer = pw__open(t, id);

    empty_member(t, unit <= HR_MILLI ? 1 : unit == HR_MICRO ? 2 : 3);
    pw__close(t, outer);
}

static void put_time(pw_thrift *t, int id, hr_unit unit, bool utc)
{
    int outer = pw__open(t, id);

    pw__bool(t, 1, utc);
    put_unit(t, 2, unit);
    pw__close(t, outer);
}

static void put_integer(pw_thrift *t, int bits, bool is_signed)
{
    int outer = pw__open(t, 10);

    pw__int(t, 1, PQ_T_I8, bits);
    pw__bool(t, 2, is_signed);
    pw__close(t, outer);
}

/* Converted type (6), for old readers; scale and precision (7, 8); logical type (10). */
static void put_logical(pw_thrift *t, const hr_type *type)
{
    int bits = 8 * hr__type_bytes(type), log = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3, outer;
    bool utc = type->zone != NULL;

    switch (type->id) {
    case HR_T_STRING:
    case HR_T_LARGE_STRING: pw__int(t, 6, PQ_T_I32, C_UTF8); break;
    case HR_T_MAP: pw__int(t, 6, PQ_T_I32, C_MAP); break;
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST:
    case HR_T_TENSOR: pw__int(t, 6, PQ_T_I32, C_LIST); break;
    case HR_T_INT8:
    case HR_T_INT16: pw__int(t, 6, PQ_T_I32, C_INT8 + log); break;
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: pw__int(t, 6, PQ_T_I32, C_UINT8 + log); break;
    case HR_T_DATE32:
    case HR_T_DATE64: pw__int(t, 6, PQ_T_I32, C_DATE); break;
    case HR_T_TIME32: pw__int(t, 6, PQ_T_I32, C_TIME_MS); break;
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256:
        pw__int(t, 6, PQ_T_I32, C_DECIMAL);
        pw__int(t, 7, PQ_T_I32, type->scale);
        pw__int(t, 8, PQ_T_I32, type->precision);
        break;
    default: break;
    }
    if (type->id == HR_T_TIMESTAMP && utc && type->unit <= HR_MICRO)
        pw__int(t, 6, PQ_T_I32, type->unit == HR_MICRO ? C_STAMP_US : C_STAMP_MS);
    if ((type->id >= HR_T_INT32 && type->id <= HR_T_INT64 && type->id != HR_T_UINT32) || type->id == HR_T_BOOL ||
        type->id == HR_T_FLOAT32 || type->id == HR_T_FLOAT64 || type->id == HR_T_BINARY ||
        type->id == HR_T_LARGE_BINARY || type->id == HR_T_FIXED_BINARY || type->id == HR_T_DURATION ||
        type->id == HR_T_STRUCT)
        return;
    outer = pw__open(t, 10);
    switch (type->id) {
    case HR_T_NULL: empty_member(t, 11); break;
    case HR_T_STRING:
    case HR_T_LARGE_STRING: empty_member(t, 1); break;
    case HR_T_MAP: empty_member(t, 2); break;
    case HR_T_DATE32:
    case HR_T_DATE64: empty_member(t, 6); break;
    case HR_T_FLOAT16: empty_member(t, 15); break;
    case HR_T_TIME32:
    case HR_T_TIME64: put_time(t, 7, type->unit, true); break;
    case HR_T_TIMESTAMP: put_time(t, 8, type->unit, utc); break;
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: {
        int inner = pw__open(t, 5);

        pw__int(t, 1, PQ_T_I32, type->scale);
        pw__int(t, 2, PQ_T_I32, type->precision);
        pw__close(t, inner);
        break;
    }
    case HR_T_INT8:
    case HR_T_INT16: put_integer(t, bits, true); break;
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: put_integer(t, bits, false); break;
    default: empty_member(t, 3); break; /* lists */
    }
    pw__close(t, outer);
}

static int count_elements(const hr_type *t)
{
    int n = 1;

    if (t->id == HR_T_MAP)
        return 2 + count_elements(t->children[0].type->children[0].type) +
               count_elements(t->children[0].type->children[1].type);
    if (t->n_children && t->id != HR_T_STRUCT)
        n++;
    for (int i = 0; i < t->n_children; i++)
        n += count_elements(t->children[i].type);
    return n;
}

/* A repeated group without a type of its own. */
static void put_repeated(pw_thrift *t, const char *name, int n_children)
{
    int outer = pw__open_item(t);

    pw__int(t, 3, PQ_T_I32, PQ_REPEATED);
    pw__bytes(t, 4, name, (int64_t)strlen(name));
    pw__int(t, 5, PQ_T_I32, n_children);
    pw__close(t, outer);
}

static void put_element(pw_thrift *t, const hr_type *type, const char *name, bool is_key)
{
    int outer = pw__open_item(t), width = 0;
    pq_physical physical;
    hr_status st = HR_OK;

    if (!type->n_children) {
        st = physical_of(type, name, &physical, &width, NULL); /* succeeds, because the walk called it before */
        if (!st)
            pw__int(t, 1, PQ_T_I32, physical);
        if (!st && physical == PQ_FIXED)
            pw__int(t, 2, PQ_T_I32, width);
    }
    pw__int(t, 3, PQ_T_I32, is_key ? PQ_REQUIRED : PQ_OPTIONAL);
    pw__bytes(t, 4, name, (int64_t)strlen(name));
    if (type->n_children)
        pw__int(t, 5, PQ_T_I32, type->id == HR_T_STRUCT ? type->n_children : 1);
    put_logical(t, type);
    pw__close(t, outer);
    if (type->id == HR_T_MAP) {
        const hr_type *entries = type->children[0].type;

        put_repeated(t, "key_value", 2);
        put_element(t, entries->children[0].type, "key", true);
        put_element(t, entries->children[1].type, "value", false);
    } else if (type->id == HR_T_STRUCT) {
        for (int i = 0; i < type->n_children; i++)
            put_element(t, type->children[i].type, type->children[i].name, false);
    } else if (type->n_children) {
        put_repeated(t, "list", 1);
        put_element(t, type->children[0].type, "element", false);
    }
}

static void put_schema(pw_thrift *t, const hr_schema *s)
{
    int64_t n = 1;
    int outer;

    for (int i = 0; i < s->n; i++)
        n += count_elements(s->fields[i].type);
    pw__list(t, 2, PQ_T_STRUCT, n);
    outer = pw__open_item(t);
    pw__bytes(t, 4, "schema", 6);
    pw__int(t, 5, PQ_T_I32, s->n);
    pw__close(t, outer);
    for (int i = 0; i < s->n; i++)
        put_element(t, s->fields[i].type, s->fields[i].name, false);
}

static hr_status embed_arrow(pw_writer *w, hr_error *err)
{
    hr_mem mem = { 0 };
    hr_buffer *message = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__ipc_schema_message(w->schema, &mem, &message, err));
    hr__text_add_base64(&w->arrow, message->data, message->n_bytes);
    if (w->arrow.failed)
        HR_GO(hr__error_memory(err, "Parquet schema", w->arrow.n));
done:
    hr__buffer_unref(message);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- row groups */

static void group_free(void *notes)
{
    pw_group *g = notes;

    for (int i = 0; g && i < g->n_chunks; i++)
        hr__free(g->chunks[i].pages);
    hr__free(g);
}

static hr_status parquet_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                                hr_error *err)
{
    const pw_writer *w = (const pw_writer *)base;
    pw_group *g = hr__zalloc(mem->account, sizeof *g + (size_t)w->n_leaves * sizeof(pw_chunk));
    hr_growbuf bytes = { .mem = mem };
    hr_status st = HR_OK;

    if (!g)
        return hr__error_memory(err, "Parquet row group", sizeof *g);
    out->n_rows = g->n_rows = t->n_rows;
    if (t->n_rows) /* frees what is not needed; growth would touch fresh pages again and again */
        HR_GO(hr__growbuf_reserve(&bytes, hr__table_bytes_used(t) / 2 + 4096, err));
    for (int i = 0; i < w->n_leaves && t->n_rows; i++, g->n_chunks++)
        HR_GO(pw__chunk_write(&w->leaves[i], &w->options, w->codec, t->columns[w->leaves[i].column], mem, &bytes,
                              &g->chunks[i], err));
    HR_GO(hr__growbuf_finish(&bytes, &out->bytes, err));
    g->n_bytes = out->bytes->n_bytes;
    out->notes = g;
    out->notes_free = group_free;
    g = NULL; /* moved into the write chunk */
done:
    if (g && st && g->n_chunks < w->n_leaves)
        g->n_chunks++; /* a chunk that failed may have pages */
    group_free(g);
    hr__growbuf_clear(&bytes);
    return st;
}

static hr_status parquet_begin(const hr_writer *w, void *file, hr_sink *sink, hr_error *err)
{
    (void)w;
    (void)file;
    return hr__sink_write(sink, "PAR1", 4, err);
}

static hr_status parquet_add(const hr_writer *w, void *file, hr_sink *sink, hr_encoded_chunk *p, hr_error *err)
{
    pw_file *f = file;
    pw_group *g = p->notes;
    int64_t at = hr__sink_bytes(sink);

    (void)w;
    if (p->n_rows == 0)
        return HR_OK;
    if (!hr__grow(NULL, (void **)&f->groups, &f->cap_groups, f->n_groups + 1, sizeof(pw_group *)))
        return hr__error_memory(err, hr__sink_name(sink), f->n_groups * 8);
    HR_TRY(hr__sink_write_buffer(sink, p->bytes, err));
    for (int i = 0; i < g->n_chunks; i++) {
        pw_chunk *c = &g->chunks[i];

        c->begin += at;
        c->data_at += at;
        c->dict_at += c->dict_at >= 0 ? at : 0;
    }
    f->groups[f->n_groups++] = g;
    p->notes = NULL;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- indexes */

static void put_offset_index(pw_thrift *t, const pw_chunk *c)
{
    pw__list(t, 1, PQ_T_STRUCT, c->n_pages);
    for (int64_t i = 0; i < c->n_pages; i++) {
        int outer = pw__open_item(t);

        pw__int(t, 1, PQ_T_I64, c->begin + c->pages[i].at);
        pw__int(t, 2, PQ_T_I32, c->pages[i].n_bytes);
        pw__int(t, 3, PQ_T_I64, c->pages[i].first_row);
        pw__close(t, outer);
    }
    pw__close(t, 0);
}

static bool is_null_page(const pw_page *p) { return p->n_nulls == p->n_slots; }

/* Whether every page with values has bounds. */
static bool has_column_index(const pw_chunk *c)
{
    for (int64_t i = 0; i < c->n_pages; i++)
        if (!is_null_page(&c->pages[i]) && (!c->pages[i].bounds.has_min || !c->pages[i].bounds.has_max))
            return false;
    return c->n_pages > 0;
}

static void put_column_index(pw_thrift *t, const pw_chunk *c)
{
    pw__list(t, 1, PQ_T_FALSE, c->n_pages);
    for (int64_t i = 0; i < c->n_pages; i++)
        pw__list_bool(t, is_null_page(&c->pages[i]));
    pw__list(t, 2, PQ_T_BINARY, c->n_pages);
    for (int64_t i = 0; i < c->n_pages; i++)
        pw__list_bytes(t, c->pages[i].bounds.min, is_null_page(&c->pages[i]) ? 0 : c->pages[i].bounds.n_min);
    pw__list(t, 3, PQ_T_BINARY, c->n_pages);
    for (int64_t i = 0; i < c->n_pages; i++)
        pw__list_bytes(t, c->pages[i].bounds.max, is_null_page(&c->pages[i]) ? 0 : c->pages[i].bounds.n_max);
    pw__int(t, 4, PQ_T_I32, 0); /* unordered: the writer does not check the order of pages */
    pw__list(t, 5, PQ_T_I64, c->n_pages);
    for (int64_t i = 0; i < c->n_pages; i++)
        pw__list_int(t, c->pages[i].n_nulls);
    pw__close(t, 0);
}

static hr_status put_indexes(pw_file *f, hr_sink *sink, hr_growbuf *bytes, hr_error *err)
{
    int64_t at = hr__sink_bytes(sink);

    for (int pass = 0; pass < 2; pass++)
        for (int64_t g = 0; g < f->n_groups; g++)
            for (int i = 0; i < f->groups[g]->n_chunks; i++) {
                pw_chunk *c = &f->groups[g]->chunks[i];
                pw_thrift t = { .out = bytes, .err = err };
                int64_t before = bytes->buffer ? bytes->buffer->n_bytes : 0;

                if (c->n_pages == 0 || (pass == 0 && !has_column_index(c)))
                    continue;
                if (pass == 0)
                    put_column_index(&t, c);
                else
                    put_offset_index(&t, c);
                HR_TRY(t.st);
                if (pass == 0) {
                    c->column_index_at = at + before;
                    c->column_index_bytes = (int32_t)(bytes->buffer->n_bytes - before);
                } else {
                    c->offset_index_at = at + before;
                    c->offset_index_bytes = (int32_t)(bytes->buffer->n_bytes - before);
                }
            }
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- footer */

/* Booleans are one byte in bounds, as PLAIN has them. */
static void put_statistics(pw_thrift *t, const pw_leaf *l, const pw_chunk *c)
{
    const pw_bounds *b = &c->bounds;
    int outer = pw__open(t, 12);

    (void)l;
    pw__int(t, 3, PQ_T_I64, c->n_nulls);
    if (b->has_max)
        pw__bytes(t, 5, b->max, b->n_max);
    if (b->has_min)
        pw__bytes(t, 6, b->min, b->n_min);
    if (b->has_max)
        pw__bool(t, 7, b->max_exact);
    if (b->has_min)
        pw__bool(t, 8, b->min_exact);
    pw__close(t, outer);
}

static void put_chunk_meta(pw_thrift *t, const pw_writer *w, const pw_leaf *l, const pw_chunk *c)
{
    int outer = pw__open(t, 3);
    const char *name = l->path.data;

    pw__int(t, 1, PQ_T_I32, l->physical);
    pw__list(t, 2, PQ_T_I32, c->dict_at >= 0 ? 3 : 2);
    if (c->dict_at >= 0)
        pw__list_int(t, PQ_PLAIN);
    pw__list_int(t, PQ_RLE);
    pw__list_int(t, c->encoding);
    pw__list(t, 3, PQ_T_BINARY, l->n_path);
    for (int i = 0; i < l->n_path; i++, name += strlen(name) + 1)
        pw__list_bytes(t, name, (int64_t)strlen(name));
    pw__int(t, 4, PQ_T_I32, codecs[w->options.codec].number);
    pw__int(t, 5, PQ_T_I64, c->n_slots);
    pw__int(t, 6, PQ_T_I64, c->plain_bytes);
    pw__int(t, 7, PQ_T_I64, c->n_bytes);
    pw__int(t, 9, PQ_T_I64, c->data_at);
    if (c->dict_at >= 0)
        pw__int(t, 11, PQ_T_I64, c->dict_at);
    if (w->options.statistics)
        put_statistics(t, l, c);
    if (c->text_bytes >= 0) {
        int inner = pw__open(t, 16);

        pw__int(t, 1, PQ_T_I64, c->text_bytes);
        pw__close(t, inner);
    }
    pw__close(t, outer);
}

static void put_group(pw_thrift *t, const pw_writer *w, const pw_group *g, int64_t ordinal)
{
    int outer = pw__open_item(t);
    int64_t plain = 0;

    pw__list(t, 1, PQ_T_STRUCT, g->n_chunks);
    for (int i = 0; i < g->n_chunks; i++) {
        const pw_chunk *c = &g->chunks[i];
        int inner = pw__open_item(t);

        pw__int(t, 2, PQ_T_I64, 0); /* deprecated; 0: metadata is only in the footer */
        put_chunk_meta(t, w, &w->leaves[i], c);
        if (c->offset_index_bytes) {
            pw__int(t, 4, PQ_T_I64, c->offset_index_at);
            pw__int(t, 5, PQ_T_I32, c->offset_index_bytes);
        }
        if (c->column_index_bytes) {
            pw__int(t, 6, PQ_T_I64, c->column_index_at);
            pw__int(t, 7, PQ_T_I32, c->column_index_bytes);
        }
        pw__close(t, inner);
        plain += c->plain_bytes;
    }
    pw__int(t, 2, PQ_T_I64, plain);
    pw__int(t, 3, PQ_T_I64, g->n_rows);
    if (g->n_chunks)
        pw__int(t, 5, PQ_T_I64, g->chunks[0].begin);
    pw__int(t, 6, PQ_T_I64, g->n_bytes);
    if (ordinal <= INT16_MAX)
        pw__int(t, 7, PQ_T_I16, ordinal);
    pw__close(t, outer);
}

static void put_pair(pw_thrift *t, const char *key, int64_t n_key, const char *value, int64_t n_value)
{
    int outer = pw__open_item(t);

    pw__bytes(t, 1, key, n_key);
    pw__bytes(t, 2, value, n_value);
    pw__close(t, outer);
}

static void put_metadata(pw_thrift *t, const pw_writer *w)
{
    const hr_schema *s = w->schema;
    const char *key, *value;
    int64_t at = 0, n = 1, n_key, n_value;

    while (hr__metadata_next(s->metadata, s->metadata_bytes, &at, &key, &n_key, &value, &n_value))
        n++;
    pw__list(t, 5, PQ_T_STRUCT, n);
    for (at = 0; hr__metadata_next(s->metadata, s->metadata_bytes, &at, &key, &n_key, &value, &n_value);)
        put_pair(t, key, n_key, value, n_value);
    put_pair(t, "ARROW:schema", 12, w->arrow.data, w->arrow.n);
}

static hr_status put_footer(const pw_writer *w, pw_file *f, hr_growbuf *bytes, hr_error *err)
{
    pw_thrift t = { .out = bytes, .err = err };
    int64_t n_rows = 0;

    for (int64_t g = 0; g < f->n_groups; g++)
        n_rows += f->groups[g]->n_rows;
    pw__int(&t, 1, PQ_T_I32, 2);
    put_schema(&t, w->schema);
    pw__int(&t, 3, PQ_T_I64, n_rows);
    pw__list(&t, 4, PQ_T_STRUCT, f->n_groups);
    for (int64_t g = 0; g < f->n_groups && !t.st; g++)
        put_group(&t, w, f->groups[g], g);
    put_metadata(&t, w);
    pw__bytes(&t, 6, CREATED_BY, (int64_t)sizeof CREATED_BY - 1);
    pw__list(&t, 7, PQ_T_STRUCT, w->n_leaves);
    for (int i = 0; i < w->n_leaves; i++) {
        int outer = pw__open_item(&t);

        empty_member(&t, 1); /* field 1: the order of the type */
        pw__close(&t, outer);
    }
    pw__close(&t, 0);
    return t.st;
}

static hr_status parquet_finish(const hr_writer *base, void *file, hr_sink *sink, hr_error *err)
{
    const pw_writer *w = (const pw_writer *)base;
    hr_mem mem = { 0 };
    hr_growbuf bytes = { .mem = &mem };
    hr_status st = HR_OK;
    int64_t begin;
    uint32_t n;

    if (w->options.page_index)
        HR_GO(put_indexes(file, sink, &bytes, err));
    begin = bytes.buffer ? bytes.buffer->n_bytes : 0;
    HR_GO(put_footer(w, file, &bytes, err));
    if (bytes.buffer->n_bytes - begin > INT32_MAX)
        HR_FAIL(HR_UNSUPPORTED, "%s: a footer of %lld bytes", hr__sink_name(sink),
                (long long)(bytes.buffer->n_bytes - begin));
    n = (uint32_t)(bytes.buffer->n_bytes - begin);
    HR_GO(hr__growbuf_add(&bytes, &n, 4, err));
    HR_GO(hr__growbuf_add(&bytes, "PAR1", 4, err));
    HR_GO(hr__sink_write(sink, bytes.buffer->data, bytes.buffer->n_bytes, err));
done:
    hr__growbuf_clear(&bytes);
    return st;
}

static void parquet_file_clear(const hr_writer *w, void *file)
{
    pw_file *f = file;

    (void)w;
    for (int64_t i = 0; i < f->n_groups; i++)
        group_free(f->groups[i]);
    hr__free(f->groups);
}

/* ----------------------------------------------------------------------------------------------------------- writer */

static void parquet_free(hr_writer *base)
{
    pw_writer *w = (pw_writer *)base;

    for (int i = 0; i < w->n_leaves; i++)
        hr__text_clear(&w->leaves[i].path);
    hr__free(w->leaves);
    hr__text_clear(&w->arrow);
    hr__schema_unref(w->schema);
    hr__free(w);
}

static const hr_writer_class parquet_writer = {
    .file_bytes = sizeof(pw_file),
    .encode = parquet_encode,
    .begin = parquet_begin,
    .add = parquet_add,
    .finish = parquet_finish,
    .file_clear = parquet_file_clear,
    .free = parquet_free,
};

hr_status pw__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err)
{
    hr_status st = HR_OK;
    pw_writer *w = hr__zalloc(account, sizeof *w);

    *out = NULL;
    if (!w)
        return hr__error_memory(err, "Parquet writer", sizeof *w);
    w->options = *(const pw_options *)options;
    w->codec = codecs[w->options.codec].codec;
    if (w->codec == &hr__codec_zstd && w->options.level == 0)
        w->options.level =
            1; /* higher levels gain little on encoded values: level 3 takes 1.5 times as long for a few percent */
    w->schema = hr__schema_ref(schema);
    w->base =
        (hr_writer){ &parquet_writer, ".parquet", w->options.row_group_rows, w->options.row_group_bytes, 4, false };
    if (w->codec && !w->codec->pack)
        HR_FAIL(HR_UNSUPPORTED, "compression %s: this build was made without %s", w->codec->name, w->codec->library);
    if (schema->n == 0)
        HR_FAIL(HR_TYPE, "a Parquet file needs at least one column");
    HR_GO(find_leaves(w, err));
    HR_GO(embed_arrow(w, err));
    *out = &w->base;
    w = NULL;
done:
    if (w)
        parquet_free(&w->base);
    return st;
}
