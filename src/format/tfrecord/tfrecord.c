/* tfrecord.c - TFRecord files: tf.train.Example, a column for each feature; or just the records, in the column `bytes`.
 *
 *     uint64 length | masked CRC-32C of it | payload | masked CRC-32C of it
 *
 * Opening a plain file walks all lengths (with large reads; it skips payloads larger than a window), which checks that
 * the file is whole and cuts it into fragments: a fragment begins at the first record that is FRAGMENT_BYTES or more
 * after the begin of the fragment before. A compressed file is one fragment.
 *
 * Examples have no schema. The records in the first `sample` bytes of the first file, or tf_schema, decide which
 * features are columns and which of these are lists. Later files get the columns of the first. */
#include "format/tfrecord/tfrecord.h"
#include "format/walks.h"
#include "format/window.h"

#define MAX_RECORD_BYTES (1 << 30)
#define FRAGMENT_BYTES (4 << 20)
#define SMALL_WINDOW_BYTES (4 << 10) /* window after a long payload that was skipped */

typedef struct tf_options {
    char *tf_schema;
    int64_t sample;
    bool raw;
    bool check;
} tf_options;

static const hr_option tf_option_table[] = {
    { .name = "tf_schema",
      .kind = HR_OPT_TEXT,
      .at = offsetof(tf_options, tf_schema),
      .text = "",
      .doc = "lines `type name`, with a type of bytes, float, int64 or list<...>; other features are not read" },
    { .name = "sample",
      .kind = HR_OPT_BYTES,
      .at = offsetof(tf_options, sample),
      .min = 1,
      .max = 1 << 30,
      .value = 8 << 20,
      .doc = "bytes of the first file in which to look for features and lists" },
    { .name = "raw",
      .kind = HR_OPT_BOOL,
      .at = offsetof(tf_options, raw),
      .doc = "read whole records into the column `bytes`" },
    { .name = "check",
      .kind = HR_OPT_BOOL,
      .at = offsetof(tf_options, check),
      .value = 1,
      .doc = "check the checksums of payloads; the checksums of lengths are always checked" },
    { 0 },
};

/* ---------------------------------------------------------------------------------------------------------- records */

/* The records of a file, or of a part of it, in order. */
typedef struct tf_records {
    const char *name; /* of the file, borrowed */
    hr_window window; /* records that begin at its end belong to other readers */
    bool check;       /* check the checksums of payloads */
    int64_t number;   /* of the next record, counted from the first one of the reader, for errors */
} tf_records;

uint32_t tf__masked_crc(const void *data, int64_t n)
{
    uint32_t c = hr__crc32c(0, data, n);

    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static uint64_t load(const uint8_t *p, int n)
{
    uint64_t v = 0;

    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

static void clear_records(tf_records *r) { hr__window_clear(&r->window); }

/* The header of the next record: the payload's length; -1 at the end. */
static hr_status head(tf_records *r, int64_t most, int64_t *n, hr_error *err)
{
    hr_window *w = &r->window;
    int64_t left;
    const uint8_t *p;

    *n = -1;
    if (w->at >= w->end)
        return HR_OK;
    HR_TRY(hr__window_fill(w, 12, most, err));
    left = hr__window_left(w);
    if (left == 0)
        return HR_OK;
    if (left < 12)
        return hr_error_set(err, HR_BAD_DATA,
                            "%s: record %lld at byte %lld: the file ends after %lld of 12 bytes of header", r->name,
                            (long long)r->number, (long long)w->at, (long long)left);
    p = hr__window_data(w);
    if (tf__masked_crc(p, 8) != load(p + 8, 4))
        return hr_error_set(err, HR_BAD_DATA,
                            "%s: record %lld at byte %lld: the length's checksum is 0x%08x, expected 0x%08x", r->name,
                            (long long)r->number, (long long)w->at, (unsigned)load(p + 8, 4), tf__masked_crc(p, 8));
    if (load(p, 8) > MAX_RECORD_BYTES)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: record %lld at byte %lld: %llu bytes, expected at most 1 GiB",
                            r->name, (long long)r->number, (long long)w->at, (unsigned long long)load(p, 8));
    *n = (int64_t)load(p, 8);
    return HR_OK;
}

static hr_status cut_short(const tf_records *r, int64_t n, int64_t has, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: record %lld at byte %lld: %lld bytes, the file ends after %lld", r->name,
                        (long long)r->number, (long long)r->window.at, (long long)(n + TF_FRAME_BYTES), (long long)has);
}

/* The next record, borrowed until the next call; *found false: the end. */
static hr_status next_record(tf_records *r, hr_view *out, bool *found, hr_error *err)
{
    hr_window *w = &r->window;
    int64_t n;
    const uint8_t *p;

    *found = false;
    HR_TRY(head(r, HR_WINDOW_BYTES, &n, err));
    if (n < 0)
        return HR_OK;
    HR_TRY(hr__window_fill(w, n + TF_FRAME_BYTES, HR_WINDOW_BYTES, err));
    if (hr__window_left(w) < n + TF_FRAME_BYTES)
        return cut_short(r, n, hr__window_left(w), err);
    p = hr__window_data(w) + 12;
    if (r->check && tf__masked_crc(p, n) != load(p + n, 4))
        return hr_error_set(err, HR_BAD_DATA,
                            "%s: record %lld at byte %lld: the payload's checksum is 0x%08x, expected 0x%08x", r->name,
                            (long long)r->number, (long long)w->at, (unsigned)load(p + n, 4), tf__masked_crc(p, n));
    *out = (hr_view){ p, n };
    *found = true;
    r->number++;
    return hr__window_skip(w, n + TF_FRAME_BYTES, &n, err); /* the available bytes stay there */
}

/* The next record, without its payload. walk NULL: its bytes travel already. */
static hr_status skip_record(tf_records *r, hr_window_walk *walk, bool *found, hr_error *err)
{
    hr_window *w = &r->window;
    bool small = w->buffer && hr__window_left(w) == 0; /* the last one was long */
    int64_t n, left;
    hr_view payload;

    *found = false;
    if (w->stream)
        return next_record(r, &payload, found, err);
    HR_TRY(head(r, small ? SMALL_WINDOW_BYTES : HR_WINDOW_BYTES, &n, err));
    if (n < 0)
        return HR_OK;
    left = w->source->n_bytes - w->at;
    if (n + TF_FRAME_BYTES > left)
        return cut_short(r, n, left, err);
    *found = true;
    r->number++;
    if (walk)
        HR_TRY(hr__window_read_on(w, walk, n + TF_FRAME_BYTES, err));
    return hr__window_skip(w, n + TF_FRAME_BYTES, &n, err);
}

/* ---------------------------------------------------------------------------------------------------------- readers */

typedef struct tf_file {
    hr_scan_file base;
    hr_source *source;
    const hr_codec *codec; /* NULL: plain */
    bool raw, check;
    tf_features features;
    int64_t cap;
    struct tf_part {
        int64_t at, first, n_rows; /* byte, record of the file */
    } *parts;                      /* fragments of a plain file */
} tf_file;

typedef struct tf_reader {
    hr_reader base;
    tf_file *file;
    int fragment;
    int64_t row, end; /* of the fragment */
    hr_mem mem;
    tf_records records;
} tf_reader;

static void tf_reader_close(hr_reader *base)
{
    tf_reader *r = (tf_reader *)base;

    clear_records(&r->records);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

/* Records for the column `bytes`. */
static hr_status raw_rows(tf_reader *r, int64_t max_bytes, int64_t *n, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_growbuf ends = { .mem = &r->mem }, data = { .mem = &r->mem };
    int32_t end = 0;
    hr_status st = HR_OK;
    bool found = true;
    hr_view record;

    HR_GO(hr__growbuf_add(&ends, &end, 4, err));
    while (r->row + *n < r->end && end < max_bytes) {
        HR_GO(next_record(&r->records, &record, &found, err));
        if (!found)
            break;
        HR_GO(hr__growbuf_add(&data, record.data, record.n, err)); /* below max_bytes and 1 GiB: fits 32 bits */
        end += (int32_t)record.n;
        HR_GO(hr__growbuf_add(&ends, &end, 4, err));
        ++*n;
    }
    HR_GO(hr__growbuf_finish(&ends, &buffers[1], err));
    HR_GO(hr__growbuf_finish(&data, &buffers[2], err));
    st = hr__array_new(hr__type_simple(HR_T_BINARY), *n, 0, buffers, NULL, 0, out, err);
    memset(buffers, 0, sizeof buffers); /* taken */
done:
    hr__buffer_unref(buffers[1]);
    hr__growbuf_clear(&ends);
    hr__growbuf_clear(&data);
    return st;
}

static hr_status example_rows(tf_reader *r, int64_t max_bytes, int64_t *n, hr_array **arrays, hr_error *err)
{
    tf_rows *rows = NULL;
    hr_status st = HR_OK;
    bool found = true;
    hr_view record;

    HR_GO(tf__rows_new(&r->file->features, r->file->base.schema->n, r->file->base.name, &r->mem, &rows, err));
    while (r->row + *n < r->end && tf__rows_bytes(rows) < max_bytes) {
        int64_t number = r->records.number;

        HR_GO(next_record(&r->records, &record, &found, err));
        if (!found)
            break;
        HR_GO(tf__rows_add(rows, record, number, err));
        ++*n;
    }
    HR_GO(tf__rows_finish(rows, *n, arrays, err));
done:
    tf__rows_free(rows);
    return st;
}

static hr_status tf_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    tf_reader *r = (tf_reader *)base;
    int64_t n_rows = 0;
    int n_columns = r->file->base.schema->n;
    hr_array **arrays = NULL;
    hr_status st = HR_OK;

    if (r->row >= r->end)
        return HR_OK;
    max_bytes = HR_MIN(max_bytes, 256 << 20); /* offsets have 32 bits */
    arrays = hr__zalloc(r->mem.account, (size_t)HR_MAX(n_columns, 1) * sizeof(hr_array *));
    if (!arrays)
        return hr__error_memory(err, r->file->base.name, n_columns * (int64_t)sizeof(hr_array *));
    if (r->file->raw && n_columns)
        HR_GO(raw_rows(r, max_bytes, &n_rows, arrays, err));
    else
        HR_GO(example_rows(r, max_bytes, &n_rows, arrays, err));
    if (n_rows == 0) {
        r->end = r->row;
        goto done;
    }
    st = hr__file_table(&r->file->base, r->fragment, r->row, n_rows, arrays, out, err);
    r->row += n_rows;
done:
    for (int i = 0; i < n_columns; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    return st;
}

static const hr_reader_class tf_reader_class = { tf_next, tf_reader_close };

static hr_status begin_records(tf_file *f, hr_account *account, bool check, tf_records *out, hr_error *err)
{
    *out = (tf_records){ .name = f->base.name, .check = check };
    return hr__window_open(&out->window, f->source, f->codec, 0, account, err);
}

static hr_status tf_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                         hr_reader **out, hr_error *err)
{
    tf_file *f = (tf_file *)base;
    tf_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;
    bool found = true;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &tf_reader_class;
    r->file = f;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->mem = *mem;
    row_begin = HR_MAX(row_begin, 0);
    r->end = hr__rows_end(row_begin, n_rows);
    HR_GO(begin_records(f, mem->account, f->check, &r->records, err));
    if (!f->codec) {
        const struct tf_part *part = &f->parts[fragment];

        r->records.window.at = part->at;
        r->records.number = part->first;
        r->records.window.end = fragment + 1 < base->n_fragments ? part[1].at : f->source->n_bytes;
        r->end = HR_MIN(r->end, part->n_rows);
    }
    while (r->row < row_begin && r->row < r->end && found) {
        HR_GO(skip_record(&r->records, NULL, &found, err));
        r->row += found;
    }
    if (r->row < row_begin)
        r->end = r->row;
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        tf_reader_close(&r->base);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status tf_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    tf_file *f = (tf_file *)base;

    (void)err;
    *out = (hr_fragment){ .n_rows = -1, .stored_bytes = f->source->n_bytes };
    if (!f->codec) {
        const struct tf_part *part = &f->parts[fragment];

        out->n_rows = part->n_rows;
        out->stored_bytes = (fragment + 1 < base->n_fragments ? part[1].at : f->source->n_bytes) - part->at;
    }
    out->memory_bytes = out->stored_bytes * (f->codec ? 6 : 2);
    return HR_OK;
}

static void tf_ahead(hr_scan_file *base, int fragment)
{
    tf_file *f = (tf_file *)base;

    hr__source_ahead(f->source, f->codec ? 0 : f->parts[fragment].at, FRAGMENT_BYTES);
}

static void tf_close(hr_scan_file *base)
{
    tf_file *f = (tf_file *)base;

    tf__features_clear(&f->features);
    hr__free(f->parts);
    hr__source_unref(f->source);
}

static const hr_scan_file_class tf_file_class = {
    .fragment = tf_fragment,
    .read = tf_read,
    .ahead = tf_ahead,
    .close = tf_close,
};

static hr_bits128 walk_key(void)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__hash_text(&h, "tfrecords");
    return hr__hash_end(&h);
}

/* The fragments that an earlier open found in this version of the file. */
static bool known_records(tf_file *f)
{
    uint8_t *bytes;
    int64_t n;

    if (!hr__walk_take(f->source, walk_key(), f->base.account, &bytes, &n))
        return false;
    f->parts = (struct tf_part *)bytes;
    f->base.n_fragments = (int)(n / (int64_t)sizeof *f->parts);
    for (int i = 0; i < f->base.n_fragments; i++)
        f->base.n_rows += f->parts[i].n_rows;
    return true;
}

/* Walks a plain file's records: finds fragments and their numbers of rows. */
static hr_status index_records(tf_file *f, hr_error *err)
{
    hr_window_walk walk = { 0 };
    tf_records r;
    hr_status st = HR_OK;
    void *parts = NULL;

    HR_GO(begin_records(f, f->base.account, false, &r, err));
    for (;;) {
        int64_t at = r.window.at, number = r.number;
        struct tf_part *last = f->base.n_fragments ? &f->parts[f->base.n_fragments - 1] : NULL;
        bool found;

        HR_GO(skip_record(&r, &walk, &found, err));
        if (!found)
            break;
        f->base.n_rows++;
        if (last && at - last->at < FRAGMENT_BYTES) {
            last->n_rows++;
            continue;
        }
        parts = f->parts;
        if (!hr__grow(f->base.account, &parts, &f->cap, f->base.n_fragments + 1, sizeof *f->parts))
            HR_GO(hr__error_memory(err, f->base.name, f->cap * (int64_t)sizeof *f->parts));
        f->parts = parts;
        f->parts[f->base.n_fragments++] = (struct tf_part){ at, number, 1 };
    }
    hr__walk_keep(f->source, walk_key(), f->base.account, f->parts, f->base.n_fragments * (int64_t)sizeof *f->parts);
done:
    clear_records(&r);
    return st;
}

/* Features of the records that begin in the first `sample` bytes. */
static hr_status sample_records(tf_file *f, int64_t sample, hr_error *err)
{
    tf_records r;
    hr_status st = HR_OK;
    bool found = true;
    hr_view record;

    HR_GO(begin_records(f, f->base.account, f->check, &r, err));
    while (r.window.at < sample && found) {
        int64_t number = r.number;

        HR_GO(next_record(&r, &record, &found, err));
        if (found)
            HR_GO(tf__features_see(&f->features, record, f->base.name, number, err));
    }
done:
    clear_records(&r);
    return st;
}

/* The features that become columns, in the projection's order. *all is taken. */
static hr_status choose(tf_file *f, const hr_projection *projection, hr_schema *all, hr_error *err)
{
    hr_field *fields = NULL;
    hr_status st = HR_OK;
    int n = projection ? projection->n : all->n;

    fields = hr__zalloc(f->base.account, (size_t)HR_MAX(n, 1) * sizeof *fields);
    if (!fields)
        HR_GO(hr__error_memory(err, f->base.name, n));
    for (int i = 0; i < n; i++) {
        int at = projection ? hr__schema_find(all, projection->names[i]) : i;

        if (at < 0)
            HR_GO(hr__schema_missing_in(f->base.name, HR_NOT_FOUND, all, projection->names[i], err));
        fields[i] = all->fields[at]; /* borrowed */
        if (!f->raw)
            f->features.items[at].out = i;
    }
    HR_GO(hr__schema_new(fields, n, &f->base.schema, err));
done:
    hr__free(fields);
    hr__schema_unref(all);
    return st;
}

static hr_status raw_schema(hr_schema **out, hr_error *err)
{
    hr_field field = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__field_init(&field, "bytes", hr__type_simple(HR_T_BINARY), false, err));
    HR_GO(hr__schema_new(&field, 1, out, err));
done:
    hr__field_clear(&field);
    return st;
}

static hr_status find_columns(tf_file *f, const hr_open *how, hr_error *err)
{
    const tf_options *options = how->options;
    hr_schema *all = NULL;

    f->features.account = f->base.account;
    if (f->raw) {
        HR_TRY(raw_schema(&all, err));
        return choose(f, how->projection, all, err);
    }
    if (how->schema)
        HR_TRY(tf__features_of_schema(&f->features, how->schema, f->base.name, err));
    else if (options->tf_schema[0])
        HR_TRY(tf__features_of_text(&f->features, options->tf_schema, err));
    else
        HR_TRY(sample_records(f, options->sample, err));
    if (f->features.n > 100000)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: %lld features", f->base.name, (long long)f->features.n);
    HR_TRY(tf__features_schema(&f->features, &all, err));
    return choose(f, how->projection, all, err);
}

static hr_status tf_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    const tf_options *options = how->options;
    hr_status st = HR_OK;
    tf_file *f = NULL;
    uint8_t first[16];
    int64_t n;

    *out = NULL;
    HR_GO(hr__source_read_some(source, first, 0, sizeof first, &n, err));
    HR_GO(hr__scan_file_new(&tf_file_class, sizeof *f, source->name, how->account, out, err));
    f = (tf_file *)*out;
    f->source = hr__source_ref(source);
    f->raw = options->raw;
    f->check = options->check;
    if (n < 12 || tf__masked_crc(first, 8) != load(first + 8, 4)) /* a length can look like a codec's sign */
        f->codec = hr__codec_guess(source->name, (hr_view){ first, n });
    if (f->codec) {
        f->base.n_fragments = 1;
        f->base.n_rows = -1;
    } else if (!known_records(f)) {
        HR_GO(index_records(f, err));
    }
    HR_GO(find_columns(f, how, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static int tf_bid(hr_view v) { return v.n >= 12 && tf__masked_crc(v.data, 8) == load(v.data + 8, 4) ? 32 : 0; }

const hr_format hr__format_tfrecords = {
    .name = "tfrecords",
    .suffixes = "tfrecords tfrecord",
    .doc = "TFRecord files of tf.train.Example, a column per feature",
    .options = tf_option_table,
    .options_bytes = sizeof(tf_options),
    .bid = tf_bid,
    .open = tf_open,
    .create = tf__create,
};
