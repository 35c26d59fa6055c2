/* webdataset.c - tar archives of samples: a row for consecutive members with one key, a column for each suffix.
 *
 * A member "train/0001.seg.png" has the key "train/0001" and the suffix "seg.png": the name up to the first dot after
 * its last slash, and the rest in lower case. The reader skips members without a key or suffix, folders, links, and
 * names that begin with "__x__". Members of a sample are consecutive.
 *
 * Opening a plain archive walks its headers and skips data: columns are all suffixes of the first archive, sorted; a
 * fragment begins at the first sample that is FRAGMENT_BYTES (less, if images are decoded) or more after the begin of
 * the fragment before. A compressed archive is one fragment, with the suffixes in its first `sample` bytes. A reader
 * walks the same headers again, and reads data into the columns, without a copy if they are long; if the projection
 * needs little of the archive, it reads little more.
 *
 * Tests: test_tar.c. */
#include "image/image_chain.h"
#include "base/number.h"
#include "format/format.h"
#include "format/tar/tar.h"
#include "format/walks.h"

#define FRAGMENT_BYTES (4 << 20)
#define IMAGES_FRAGMENT_BYTES (512 << 10) /* the images of one fragment must not delay other tickets for long */
#define MAX_MEMBER_BYTES (1 << 30)
#define MAX_SUFFIXES 10000
#define IMAGE_GROWTH 13 /* of a usual JPEG */
#define KEY "__key__"

typedef enum wds_kind { WDS_BYTES, WDS_TEXT, WDS_INT, WDS_IMAGE } wds_kind;

typedef struct wds_options {
    bool decode;
    int images; /* 0: bytes, else a hr_pixel_mode plus one */
    int64_t sample;
} wds_options;

static const hr_option wds_option_table[] = {
    { .name = "decode",
      .kind = HR_OPT_BOOL,
      .at = offsetof(wds_options, decode),
      .doc = "read the suffixes txt, text, transcript as strings and cls, cls2, index, inx, id, count as int64" },
    { .name = "images",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(wds_options, images),
      .text = "bytes stored L LA RGB RGBA",
      .doc = "read the suffixes jpg, jpeg, png, webp, gif, bmp, tif, tiff as bytes, or as pixels (height, width, "
             "channels)" },
    { .name = "sample",
      .kind = HR_OPT_BYTES,
      .at = offsetof(wds_options, sample),
      .min = 1,
      .max = (double)(1ll << 40),
      .value = 64 << 20,
      .doc = "bytes of the first archive to search for suffixes, if it is compressed" },
    { 0 },
};

typedef struct wds_suffix {
    char *name;
    wds_kind kind;
    int out;         /* its column; -1: none */
    int64_t n_bytes; /* of its members in this archive, if it is plain */
} wds_suffix;

typedef struct wds_file {
    hr_scan_file base;
    hr_source *source;
    const hr_codec *codec; /* NULL: plain */
    bool others_are_fine;  /* other suffixes are ignored */
    hr_image_chain chain;  /* steps on images; without steps: none */
    hr_type *image_type;
    bool has_images;      /* among the columns that are read */
    int key_out;          /* the key's column; -1: none */
    wds_suffix *suffixes; /* sorted by name */
    int64_t n_suffixes, cap_suffixes;
    struct wds_part {
        int64_t at, n_rows;
    } *parts;
    int64_t cap_parts;
} wds_file;

/* ---------------------------------------------------------------------------------------------------------- samples */

/* A member's name as key and suffix. */
typedef struct wds_name {
    int64_t n_key; /* of the member's name */
    char *suffix;  /* in lower case; in `text` */
    hr_text text;
} wds_name;

static void name_clear(wds_name *n) { hr__text_clear(&n->text); }

/* Whether the name has a key and a suffix, and does not begin with "__x__". The first dot after the last
 * slash separates them: "a/.b" is "a/", "b". */
static hr_status split_name(wds_name *out, const tar_member *m, const char *file, bool *is_part, hr_error *err)
{
    const char *slash = memrchr(m->name, '/', (size_t)m->n_name), *dot, *begin = slash ? slash + 1 : m->name;
    const char *end = m->name + m->n_name, *meta;

    *is_part = false;
    dot = memchr(begin, '.', (size_t)(end - begin));
    if (!m->regular || !dot || dot == m->name)
        return HR_OK;
    if (dot == begin) { /* "a/.x": the key is "a/", unless "a/" only follows another dot */
        const char *other = memrchr(m->name, '.', (size_t)(dot - m->name));

        if (other && !memchr(other + 1, '/', (size_t)HR_MAX(dot - other - 2, 0)))
            return HR_OK;
    }
    if (m->n_name > 3 && memcmp(m->name, "__", 2) == 0) {
        const char *stop = memchr(m->name + 2, '/', (size_t)m->n_name - 2);

        stop = stop ? stop : end;
        meta = memmem(m->name + 2, (size_t)(stop - m->name - 2), "__", 2);
        if (meta && stop[-1] == '_' && stop[-2] == '_')
            return HR_OK;
    }
    out->n_key = dot - m->name;
    out->text.n = 0;
    hr__text_add_bytes(&out->text, dot + 1, end - dot - 1);
    hr__text_add_bytes(&out->text, "", 1);
    if (out->text.failed)
        return hr__error_memory(err, file, m->n_name);
    if (!hr__utf8_valid(m->name, m->n_name) || memchr(m->name, 0, (size_t)m->n_name))
        return hr_error_set(err, HR_BAD_DATA, "%s: tar: byte %lld: the name '%.200s' is not UTF-8", file,
                            (long long)m->begin, m->name);
    out->suffix = out->text.data;
    for (char *p = out->suffix; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    *is_part = true;
    return HR_OK;
}

/* The place of the suffix among the file's; if it is new, the place where it belongs. */
static int64_t find_suffix(const wds_file *f, const char *name, bool *found)
{
    int64_t low = 0, high = f->n_suffixes;

    *found = false;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        int d = strcmp(f->suffixes[mid].name, name);

        if (d == 0) {
            *found = true;
            return mid;
        }
        if (d < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static wds_kind kind_of(const char *suffix, const wds_options *options)
{
    static const char *const texts = " txt text transcript ", *const ints = " cls cls2 index inx id count ",
                             *const images = " jpg jpeg png webp gif bmp tif tiff ";
    const char *dot = strrchr(suffix, '.'), *last = dot ? dot + 1 : suffix;
    char word[20] = " ";

    if (strlen(last) > 15 || strchr(last, ' ') || !*last)
        return WDS_BYTES;
    strcat(strcat(word, last), " ");
    if (options->images && strstr(images, word))
        return WDS_IMAGE;
    return !options->decode ? WDS_BYTES : strstr(texts, word) ? WDS_TEXT : strstr(ints, word) ? WDS_INT : WDS_BYTES;
}

static hr_status add_suffix(wds_file *f, const char *name, wds_kind kind, hr_error *err)
{
    bool found;
    int64_t at = find_suffix(f, name, &found);
    void *items = f->suffixes;
    char *copy;

    if (found)
        return HR_OK;
    if (f->n_suffixes == MAX_SUFFIXES)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: more than %d different suffixes", f->base.name, MAX_SUFFIXES);
    if (!hr__grow(f->base.account, &items, &f->cap_suffixes, f->n_suffixes + 1, sizeof *f->suffixes))
        return hr__error_memory(err, f->base.name, f->n_suffixes);
    f->suffixes = items;
    copy = hr__strdup(f->base.account, name);
    if (!copy)
        return hr__error_memory(err, f->base.name, (int64_t)strlen(name));
    memmove(&f->suffixes[at + 1], &f->suffixes[at], (size_t)(f->n_suffixes - at) * sizeof *f->suffixes);
    f->suffixes[at] = (wds_suffix){ .name = copy, .kind = kind, .out = -1 };
    f->n_suffixes++;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- readers */

/* A column being made: offsets and bytes, or numbers. */
typedef struct wds_column {
    const wds_suffix *suffix; /* NULL: the key */
    hr_growbuf valid;         /* a byte a row */
    hr_growbuf values;        /* int32 offsets, or int64 */
    hr_growbuf data;          /* numbers and images: the current member */
    hr_image_rows images;
    int64_t n_nulls;
    int64_t row; /* the last one that has a value; -1: none */
} wds_column;

typedef struct wds_reader {
    hr_reader base;
    wds_file *file;
    int fragment;
    int64_t row, end, stop; /* of the fragment; where in the archive the next one begins */
    hr_mem mem;
    tar_walk tar;
    tar_member member; /* the first of the next sample, if there is one */
    bool has_member, has_ended;
    wds_name name; /* of it */
    hr_text key;   /* key of the current sample */
    int n_columns;
    wds_column columns[];
} wds_reader;

static void clear_columns(wds_reader *r)
{
    for (int i = 0; i < r->n_columns; i++) {
        hr__growbuf_clear(&r->columns[i].valid);
        hr__growbuf_clear(&r->columns[i].values);
        hr__growbuf_clear(&r->columns[i].data);
        hr__image_rows_clear(&r->columns[i].images);
    }
}

static void wds_reader_close(hr_reader *base)
{
    wds_reader *r = (wds_reader *)base;

    clear_columns(r);
    tar__clear(&r->tar);
    name_clear(&r->name);
    hr__text_clear(&r->key);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

/* The next member of a sample of this fragment. */
static hr_status next_part(wds_reader *r, hr_error *err)
{
    bool found, is_part = false;

    r->has_member = false;
    while (!r->has_ended && !is_part) {
        if (tar__at(&r->tar) >= r->stop)
            break; /* of the next fragment */
        HR_TRY(tar__next(&r->tar, &r->member, &found, err));
        r->has_ended = !found;
        if (found)
            HR_TRY(split_name(&r->name, &r->member, r->file->base.name, &is_part, err));
    }
    r->has_ended = r->has_ended || !is_part;
    r->has_member = !r->has_ended;
    return HR_OK;
}

static hr_status wrong(const wds_reader *r, hr_status st, const char *what, hr_error *err)
{
    return hr_error_set(err, st, "%s: tar: byte %lld: '%.300s': %s", r->file->base.name, (long long)r->member.begin,
                        r->member.name, what);
}

/* A number as text, blanks around it allowed. */
static bool int_of(const hr_growbuf *text, int64_t *out)
{
    const uint8_t *p = text->buffer ? text->buffer->data : NULL;
    int64_t n = text->buffer ? text->buffer->n_bytes : 0;

    while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\n' || p[n - 1] == '\r' || p[n - 1] == '\t'))
        n--;
    for (; n > 0 && (*p == ' ' || *p == '\t'); p++)
        n--;
    return hr__parse_int64(p, n, out);
}

/* Adds the current image as pixels. */
static hr_status add_image(wds_reader *r, wds_column *c, hr_error *err)
{
    hr_image_dice dice = { 0 }; /* nothing is random */
    hr_image_plan p;
    hr_status st = hr__image_plan_bytes(&r->file->chain, (hr_view){ c->data.buffer->data, c->data.buffer->n_bytes },
                                        &dice, &p, err);

    if (!st)
        st = hr__image_rows_add(&c->images, &p, r->mem.account, err);
    return st ? hr__error_at(err, st, "%s: tar: byte %lld: '%.300s'", r->file->base.name, (long long)r->member.begin,
                             r->member.name)
              : HR_OK;
}

/* Adds the current member as the value of column c in row `row` of the table. */
static hr_status add_member(wds_reader *r, wds_column *c, int64_t row, hr_error *err)
{
    wds_kind kind = c->suffix->kind;
    bool made = kind == WDS_INT || kind == WDS_IMAGE; /* of bytes that do not stay */
    int64_t before, v = 0;

    if (c->row == row)
        return wrong(r, HR_BAD_DATA, "its sample already has a member with this suffix", err);
    if (r->member.bytes > MAX_MEMBER_BYTES)
        return wrong(r, HR_UNSUPPORTED, "more than 1 GiB", err);
    if (kind == WDS_INT && r->member.bytes > 100)
        return wrong(r, HR_BAD_DATA, "expected a number", err);
    c->row = row;
    if (made && c->data.buffer)
        c->data.buffer->n_bytes = 0;
    HR_TRY(hr__growbuf_reserve(&c->data, 0, err));
    before = c->data.buffer->n_bytes;
    HR_TRY(tar__read(&r->tar, &r->member, &c->data, err));
    if (kind == WDS_IMAGE)
        return add_image(r, c, err);
    if (kind == WDS_TEXT && !hr__utf8_valid(c->data.buffer->data + before, c->data.buffer->n_bytes - before))
        return wrong(r, HR_BAD_DATA, "a text that is not UTF-8", err);
    if (kind != WDS_INT)
        return HR_OK;
    if (!int_of(&c->data, &v))
        return wrong(r, HR_BAD_DATA, "expected a number", err);
    return hr__growbuf_add(&c->values, &v, 8, err);
}

/* Ends the column's value of the row: its offset, or a null if it has none. */
static hr_status end_value(wds_column *c, bool valid, hr_error *err)
{
    int32_t end = c->data.buffer ? (int32_t)c->data.buffer->n_bytes : 0;
    int64_t zero = 0;

    switch (c->suffix ? c->suffix->kind : WDS_TEXT) {
    case WDS_INT: return valid ? HR_OK : hr__growbuf_add(&c->values, &zero, 8, err);
    case WDS_IMAGE: return valid ? HR_OK : hr__image_rows_add_null(&c->images, err);
    default: return hr__growbuf_add(&c->values, &end, 4, err);
    }
}

/* Ends the row: offsets, and nulls for missing members. */
static hr_status end_row(wds_reader *r, int64_t row, hr_error *err)
{
    for (int i = 0; i < r->n_columns; i++) {
        wds_column *c = &r->columns[i];
        uint8_t valid = c->row == row || !c->suffix;

        if (!c->suffix)
            HR_TRY(hr__growbuf_add(&c->data, r->key.data, r->key.n, err));
        HR_TRY(end_value(c, valid, err));
        HR_TRY(hr__growbuf_add(&c->valid, &valid, 1, err));
        c->n_nulls += !valid;
    }
    return HR_OK;
}

/* The bytes that a member of this column added to the table. */
static int64_t added_bytes(const wds_reader *r, const wds_column *c, int64_t images_before)
{
    return c->suffix->kind == WDS_IMAGE ? hr__image_rows_bytes(&c->images) - images_before : r->member.bytes;
}

/* Adds the sample that begins with the current member as row `row` (< 0: skips it). Adds its size to *bytes. */
static hr_status add_sample(wds_reader *r, int64_t row, int64_t *bytes, hr_error *err)
{
    const wds_file *f = r->file;

    r->key.n = 0;
    hr__text_add_bytes(&r->key, r->member.name, r->name.n_key);
    if (r->key.failed)
        return hr__error_memory(err, f->base.name, r->name.n_key);
    while (r->has_member && r->name.n_key == r->key.n && memcmp(r->member.name, r->key.data, (size_t)r->key.n) == 0) {
        bool found;
        int64_t at = find_suffix(f, r->name.suffix, &found);

        if (!found && !f->others_are_fine)
            return wrong(r, HR_TYPE,
                         "no member in the searched bytes of the first archive has its suffix; raise the option sample",
                         err);
        if (found && f->suffixes[at].out >= 0 && row >= 0) {
            wds_column *c = &r->columns[f->suffixes[at].out];
            int64_t before = hr__image_rows_bytes(&c->images);

            HR_TRY(add_member(r, c, row, err));
            *bytes += added_bytes(r, c, before);
        }
        HR_TRY(next_part(r, err));
    }
    *bytes += r->key.n + 16;
    return row >= 0 ? end_row(r, row, err) : HR_OK;
}

static hr_status begin_columns(wds_reader *r, int64_t max_bytes, hr_error *err)
{
    static const uint8_t zero[4];
    const wds_file *f = r->file;
    /* Pixels of a table: growing by and by would copy each of them once. */
    int64_t left = f->codec ? 0 : HR_MIN(r->stop, f->source->n_bytes) - r->member.begin;
    int64_t pixels = HR_MIN(max_bytes + max_bytes / 4, left * IMAGE_GROWTH);

    for (int i = 0; i < r->n_columns; i++) {
        wds_column *c = &r->columns[i];

        c->n_nulls = 0;
        c->row = -1;
        if (!c->suffix || c->suffix->kind == WDS_BYTES || c->suffix->kind == WDS_TEXT)
            HR_TRY(hr__growbuf_add(&c->values, zero, 4, err));
        if (c->suffix && c->suffix->kind == WDS_IMAGE && pixels > 0)
            HR_TRY(hr__growbuf_reserve(&c->images.values, pixels, err));
    }
    return HR_OK;
}

static hr_status finish_column(wds_reader *r, wds_column *c, int64_t n, hr_array **out, hr_error *err)
{
    static const hr_type_id ids[] = { HR_T_BINARY, HR_T_STRING, HR_T_INT64 };
    wds_kind kind = c->suffix ? c->suffix->kind : WDS_TEXT;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_status st = HR_OK;

    if (c->n_nulls) {
        HR_GO(hr__buffer_new(&r->mem, hr__bits_bytes(n), &buffers[0], err));
        memset(buffers[0]->data, 0, (size_t)hr__bits_bytes(n));
        for (int64_t i = 0; i < n; i++)
            buffers[0]->data[i >> 3] |= (uint8_t)(c->valid.buffer->data[i] << (i & 7));
    }
    hr__growbuf_clear(&c->valid);
    if (kind == WDS_IMAGE)
        return hr__image_rows_finish(&c->images, n, buffers[0], out, err);
    HR_GO(hr__growbuf_finish(&c->values, &buffers[1], err));
    if (kind != WDS_INT)
        HR_GO(hr__growbuf_finish(&c->data, &buffers[2], err));
    return hr__array_new(hr__type_simple(ids[kind]), n, c->n_nulls, buffers, NULL, 0, out, err);
done:
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    return st;
}

static hr_status wds_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    wds_reader *r = (wds_reader *)base;
    int64_t n_rows = 0;
    hr_array **arrays = NULL;
    hr_status st = HR_OK;
    int64_t bytes = 0;

    max_bytes = HR_MIN(max_bytes, 512 << 20); /* offsets have 32 bits */
    if (!r->has_member || r->row >= r->end)
        return HR_OK;
    arrays = hr__zalloc(r->mem.account, (size_t)HR_MAX(r->n_columns, 1) * sizeof(hr_array *));
    if (!arrays)
        return hr__error_memory(err, r->file->base.name, r->n_columns * (int64_t)sizeof(hr_array *));
    HR_GO(begin_columns(r, max_bytes, err));
    while (r->has_member && r->row + n_rows < r->end && bytes < max_bytes) {
        HR_GO(add_sample(r, n_rows, &bytes, err));
        n_rows++;
    }
    for (int i = 0; i < r->n_columns; i++)
        HR_GO(finish_column(r, &r->columns[i], n_rows, &arrays[i], err));
    st = hr__file_table(&r->file->base, r->fragment, r->row, n_rows, arrays, out, err);
    r->row += n_rows;
done:
    if (st)
        clear_columns(r);
    for (int i = 0; i < r->n_columns; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    return st;
}

static const hr_reader_class wds_reader_class = { wds_next, wds_reader_close };

static void column_init(wds_reader *r, wds_column *c)
{
    c->valid.mem = c->values.mem = c->data.mem = &r->mem;
    hr__image_rows_begin(&c->images, &r->mem, r->file->image_type);
}

/* Whether the projected columns are a small part of the archive. */
static bool reads_little(const wds_file *f)
{
    int64_t n = 0;

    for (int64_t i = 0; i < f->n_suffixes; i++)
        n += f->suffixes[i].out >= 0 ? f->suffixes[i].n_bytes : 0;
    return n < f->source->n_bytes / 8;
}

static hr_status wds_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                          hr_reader **out, hr_error *err)
{
    wds_file *f = (wds_file *)base;
    int n = base->schema->n;
    size_t bytes = sizeof(wds_reader) + (size_t)n * sizeof(wds_column);
    wds_reader *r = hr__zalloc(mem->account, bytes);
    int64_t passed = 0;
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, (int64_t)bytes);
    r->base.cls = &wds_reader_class;
    r->file = f;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->mem = *mem;
    r->name.text.account = r->key.account = mem->account;
    r->n_columns = n;
    for (int64_t i = 0; i < f->n_suffixes; i++)
        if (f->suffixes[i].out >= 0)
            r->columns[f->suffixes[i].out].suffix = &f->suffixes[i];
    for (int i = 0; i < n; i++)
        column_init(r, &r->columns[i]);
    row_begin = HR_MAX(row_begin, 0);
    r->end = hr__rows_end(row_begin, n_rows);
    r->stop = f->codec || fragment + 1 == base->n_fragments ? INT64_MAX : f->parts[fragment + 1].at;
    HR_GO(tar__open(&r->tar, f->source, f->codec, f->codec ? 0 : f->parts[fragment].at, mem->account, err));
    r->tar.window.end = r->stop;
    r->tar.passes_most = reads_little(f);
    HR_GO(next_part(r, err));
    for (; r->row < row_begin && r->has_member; r->row++)
        HR_GO(add_sample(r, -1, &passed, err));
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        wds_reader_close(&r->base);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status wds_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    wds_file *f = (wds_file *)base;

    (void)err;
    *out = (hr_fragment){ .n_rows = -1, .stored_bytes = f->source->n_bytes };
    if (!f->codec) {
        const struct wds_part *part = &f->parts[fragment];

        out->n_rows = part->n_rows;
        out->stored_bytes = (fragment + 1 < base->n_fragments ? part[1].at : f->source->n_bytes) - part->at;
    }
    out->memory_bytes = out->stored_bytes * (f->codec ? 3 : 1) * (f->has_images ? IMAGE_GROWTH : 1);
    return HR_OK;
}

static void wds_ahead(hr_scan_file *base, int fragment)
{
    wds_file *f = (wds_file *)base;

    hr__source_ahead(f->source, f->codec ? 0 : f->parts[fragment].at, FRAGMENT_BYTES);
}

static void wds_close(hr_scan_file *base)
{
    wds_file *f = (wds_file *)base;

    for (int64_t i = 0; i < f->n_suffixes; i++)
        hr__free(f->suffixes[i].name);
    hr__free(f->suffixes);
    hr__type_unref(f->image_type);
    hr__free(f->parts);
    hr__source_unref(f->source);
}

static const hr_scan_file_class wds_file_class = {
    .fragment = wds_fragment,
    .read = wds_read,
    .ahead = wds_ahead,
    .close = wds_close,
};

/* A sample begins at byte `at`. */
static hr_status count_sample(wds_file *f, int64_t at, hr_error *err)
{
    struct wds_part *last = f->base.n_fragments ? &f->parts[f->base.n_fragments - 1] : NULL;
    void *parts = f->parts;

    f->base.n_rows++;
    if (last && at - last->at < (f->image_type ? IMAGES_FRAGMENT_BYTES : FRAGMENT_BYTES)) {
        last->n_rows++;
        return HR_OK;
    }
    if (!hr__grow(f->base.account, &parts, &f->cap_parts, f->base.n_fragments + 1, sizeof *f->parts))
        return hr__error_memory(err, f->base.name, f->cap_parts * (int64_t)sizeof *f->parts);
    f->parts = parts;
    f->parts[f->base.n_fragments++] = (struct wds_part){ at, 1 };
    return HR_OK;
}

static void count_bytes(wds_file *f, const char *suffix, int64_t n)
{
    bool found;
    int64_t at = find_suffix(f, suffix, &found);

    if (found)
        f->suffixes[at].n_bytes += n;
}

/* --- the walk of an earlier open: rows, fragments, and the bytes of each suffix */

/* find: the walk looked for all suffixes; else it counted the bytes of those of the schema. */
static hr_bits128 walk_key(const wds_file *f, bool find)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__hash_text(&h, "webdataset");
    hr__hash_int(&h, f->image_type != NULL);
    hr__hash_int(&h, find);
    for (int64_t i = 0; !find && i < f->n_suffixes; i++)
        hr__hash_text(&h, f->suffixes[i].name);
    return hr__hash_end(&h);
}

static void keep_samples(const wds_file *f, bool find)
{
    int64_t counts[3] = { f->base.n_rows, f->base.n_fragments, f->n_suffixes };
    hr_text text = { .account = f->base.account };

    hr__text_add_bytes(&text, counts, sizeof counts);
    if (f->parts)
        hr__text_add_bytes(&text, f->parts, f->base.n_fragments * (int64_t)sizeof *f->parts);
    for (int64_t i = 0; i < f->n_suffixes; i++) {
        hr__text_add_bytes(&text, &f->suffixes[i].n_bytes, sizeof f->suffixes[i].n_bytes);
        hr__text_add_bytes(&text, f->suffixes[i].name, (int64_t)strlen(f->suffixes[i].name) + 1);
    }
    if (!text.failed)
        hr__walk_keep(f->source, walk_key(f, find), f->base.account, text.data, text.n);
    hr__text_clear(&text);
}

static hr_status take_suffixes(wds_file *f, const wds_options *options, bool find, const uint8_t *at, int64_t n,
                               hr_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        const char *name = (const char *)at + sizeof(int64_t);
        int64_t n_bytes;

        memcpy(&n_bytes, at, sizeof n_bytes);
        if (find)
            HR_TRY(add_suffix(f, name, kind_of(name, options), err));
        count_bytes(f, name, n_bytes);
        at = (const uint8_t *)name + strlen(name) + 1;
    }
    return HR_OK;
}

/* *known: an earlier open has walked this version of the archive. */
static hr_status known_samples(wds_file *f, const wds_options *options, bool find, bool *known, hr_error *err)
{
    int64_t counts[3], n, n_parts;
    uint8_t *bytes;
    hr_status st = HR_OK;

    *known = !f->codec && (hr__walk_take(f->source, walk_key(f, true), f->base.account, &bytes, &n) ||
                           (!find && hr__walk_take(f->source, walk_key(f, false), f->base.account, &bytes, &n)));
    if (!*known)
        return HR_OK;
    memcpy(counts, bytes, sizeof counts);
    n_parts = counts[1] * (int64_t)sizeof *f->parts;
    f->parts = hr__alloc(f->base.account, (size_t)HR_MAX(n_parts, 1));
    if (!f->parts)
        HR_GO(hr__error_memory(err, f->base.name, n_parts));
    memcpy(f->parts, bytes + sizeof counts, (size_t)n_parts);
    f->base.n_rows = counts[0];
    f->base.n_fragments = (int)counts[1];
    HR_GO(take_suffixes(f, options, find, bytes + sizeof counts + n_parts, counts[2], err));
done:
    hr__free(bytes);
    return st;
}

/* Walks the headers: finds the samples of a plain archive and, with `find`, the suffixes. */
static hr_status index_samples(wds_file *f, const wds_options *options, bool find, hr_error *err)
{
    wds_name name = { .text = { .account = f->base.account } };
    hr_text key = { .account = f->base.account };
    int64_t limit = f->codec ? options->sample : INT64_MAX;
    bool found = true, is_part, any = false;
    hr_window_walk walk = { 0 };
    tar_member m;
    tar_walk t;
    hr_status st = HR_OK;

    HR_GO(tar__open(&t, f->source, f->codec, 0, f->base.account, err));
    while (t.window.at < limit) {
        HR_GO(tar__next(&t, &m, &found, err));
        if (!found)
            break;
        HR_GO(hr__window_read_on(&t.window, &walk, t.left + t.padding, err));
        HR_GO(split_name(&name, &m, f->base.name, &is_part, err));
        if (!is_part)
            continue;
        if (find)
            HR_GO(add_suffix(f, name.suffix, kind_of(name.suffix, options), err));
        count_bytes(f, name.suffix, m.bytes);
        if (f->codec || (any && key.n == name.n_key && memcmp(key.data, m.name, (size_t)key.n) == 0))
            continue;
        any = true;
        key.n = 0;
        hr__text_add_bytes(&key, m.name, name.n_key);
        if (key.failed)
            HR_GO(hr__error_memory(err, f->base.name, name.n_key));
        HR_GO(count_sample(f, m.begin, err));
    }
    if (!f->codec && hr__walk_can_be_kept(f->source))
        keep_samples(f, find);
done:
    tar__clear(&t);
    name_clear(&name);
    hr__text_clear(&key);
    return st;
}

/* A later archive gets the columns of the first one. */
static hr_status suffixes_of_schema(wds_file *f, const hr_schema *schema, hr_error *err)
{
    f->others_are_fine = true;
    for (int i = 0; i < schema->n; i++) {
        const hr_type *type = schema->fields[i].type;
        bool is_image = f->image_type && hr__type_equal(type, f->image_type);

        if (strcmp(schema->fields[i].name, KEY) == 0)
            continue;
        if (type->id != HR_T_BINARY && type->id != HR_T_STRING && type->id != HR_T_INT64 && !is_image)
            return hr_error_set(err, HR_TYPE, "%s: column '%s': expected binary, string or int64%s", f->base.name,
                                schema->fields[i].name, f->image_type ? ", or an image of uint8" : "");
        HR_TRY(add_suffix(f, schema->fields[i].name,
                          is_image                  ? WDS_IMAGE
                          : type->id == HR_T_BINARY ? WDS_BYTES
                          : type->id == HR_T_STRING ? WDS_TEXT
                                                    : WDS_INT,
                          err));
    }
    return HR_OK;
}

static hr_status missing_column(const wds_file *f, const char *name, hr_error *err)
{
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    hr__near_try(&near, KEY, strlen(KEY));
    for (int64_t i = 0; i < f->n_suffixes; i++)
        hr__near_try(&near, f->suffixes[i].name, strlen(f->suffixes[i].name));
    return hr__near_error(&near, HR_NOT_FOUND, f->base.name, name, err);
}

/* Column `name` becomes column number `out`. */
static hr_status choose(wds_file *f, const char *name, int out, hr_field *field, hr_error *err)
{
    static const hr_type_id ids[] = { HR_T_BINARY, HR_T_STRING, HR_T_INT64 };
    bool found;
    int64_t at;

    if (strcmp(name, KEY) == 0) {
        f->key_out = out;
        return hr__field_init(field, name, hr__type_simple(HR_T_STRING), false, err);
    }
    at = find_suffix(f, name, &found);
    if (!found)
        return missing_column(f, name, err);
    f->suffixes[at].out = out;
    if (f->suffixes[at].kind == WDS_IMAGE) {
        f->has_images = true;
        return hr__field_init(field, name, f->image_type, true, err);
    }
    return hr__field_init(field, name, hr__type_simple(ids[f->suffixes[at].kind]), true, err);
}

static hr_status make_schema(wds_file *f, const hr_projection *projection, hr_error *err)
{
    int n = projection ? projection->n : (int)f->n_suffixes + 1;
    hr_field *fields = hr__zalloc(f->base.account, (size_t)HR_MAX(n, 1) * sizeof *fields);
    hr_status st = HR_OK;

    if (!fields)
        return hr__error_memory(err, f->base.name, n * (int64_t)sizeof *fields);
    for (int i = 0; i < n; i++)
        HR_GO(choose(f, projection ? projection->names[i] : i ? f->suffixes[i - 1].name : KEY, i, &fields[i], err));
    HR_GO(hr__schema_new(fields, n, &f->base.schema, err));
done:
    for (int i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

static hr_status image_chain(wds_file *f, const wds_options *options, hr_error *err)
{
    hr_image_step decode = { .kind = HR_STEP_DECODE,
                             .mode = (hr_pixel_mode)(options->images - 1),
                             .exact = true,
                             .max_pixels = HR_IMAGE_MAX_PIXELS };

    if (!options->images)
        return HR_OK;
    HR_TRY(hr__image_chain_add(&f->chain, &decode, err));
    return hr__image_chain_type(&f->chain, NULL, &f->image_type, err);
}

static hr_status wds_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    const wds_options *options = how->options;
    hr_status st = HR_OK;
    wds_file *f = NULL;
    bool known;
    uint8_t head[512];
    int64_t n;

    *out = NULL;
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    HR_GO(hr__scan_file_new(&wds_file_class, sizeof *f, source->name, how->account, out, err));
    f = (wds_file *)*out;
    f->source = hr__source_ref(source);
    if (n < 512 || !tar__is(head)) /* a plain archive may have any name */
        f->codec = hr__codec_guess(source->name, (hr_view){ head, n });
    HR_GO(image_chain(f, options, err));
    if (how->schema)
        HR_GO(suffixes_of_schema(f, how->schema, err));
    if (f->codec) {
        f->base.n_fragments = 1;
        f->base.n_rows = -1;
    }
    HR_GO(known_samples(f, options, !how->schema, &known, err));
    if (!known && (!f->codec || !how->schema))
        HR_GO(index_samples(f, options, !how->schema, err));
    HR_GO(make_schema(f, how->projection, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static int wds_bid(hr_view head) { return head.n >= 512 && tar__is(head.data) ? 40 : 0; }

const hr_format hr__format_webdataset = {
    .name = "webdataset",
    .suffixes = "tar tgz",
    .doc = "tar archives of samples (WebDataset), a column per suffix",
    .options = wds_option_table,
    .options_bytes = sizeof(wds_options),
    .bid = wds_bid,
    .open = wds_open,
    .create = wds__create,
};
