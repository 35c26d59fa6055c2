/* write_job.c - the arguments of a write, and the chunks in which rows travel.
 *
 * Tests: test_write.c, test_parquet_write.c. */
#include "op/write/write.h"

#include "io/http/remote.h"

#include <inttypes.h>

/* --- the job */

static hr_write_job *job_ref(hr_write_job *job)
{
    atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);
    return job;
}

static void job_unref(hr_write_job *job)
{
    if (!job || atomic_fetch_sub_explicit(&job->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (job->writer)
        job->writer->cls->free(job->writer);
    if (job->options)
        hr__options_clear(job->format->write_options, job->options);
    if (job->settings.name_context_free)
        job->settings.name_context_free(job->settings.name_context);
    for (int i = 0; i < job->n_partitions; i++)
        hr__free(job->partitions[i]);
    hr__free(job->partitions);
    for (int i = 0; i < job->n_storage; i++)
        hr__free(job->storage[i]);
    hr__free(job->storage);
    hr__free((char *)job->settings.job);
    hr__free((char *)job->settings.name_column);
    hr__schema_unref(job->schema);
    hr__mutex_clear(&job->lock);
    hr__free(job->options);
    hr__free(job->path);
    hr__free(job);
}

/* Whether the column names a folder or a file, and so is not in the files. */
static bool leaves_out(const hr_write_job *job, const char *column)
{
    for (int i = 0; i < job->n_partitions; i++)
        if (!strcmp(job->partitions[i], column))
            return true;
    return job->settings.name_column && !strcmp(job->settings.name_column, column);
}

static hr_status check_columns(const hr_write_job *job, const hr_schema *s, int n_left, hr_error *err)
{
    const char *name = job->settings.name_column;
    int k;

    for (int i = 0; i < job->n_partitions; i++) {
        k = hr__schema_find(s, job->partitions[i]);
        if (k < 0)
            return hr__schema_missing(s, job->partitions[i], err);
        if (s->fields[k].type->n_children || s->fields[k].type->id == HR_T_TENSOR)
            return hr_error_set(err, HR_TYPE, "write: column '%s' is nested, so its values cannot name folders",
                                job->partitions[i]);
    }
    k = name ? hr__schema_find(s, name) : 0;
    if (k < 0)
        return hr__schema_missing(s, name, err);
    if (name && s->fields[k].type->id != HR_T_STRING && s->fields[k].type->id != HR_T_LARGE_STRING)
        return hr_error_set(err, HR_TYPE, "write: column '%s' is not of a string type, so it cannot name files", name);
    if (n_left == 0 && s->n > 0)
        return hr_error_set(err, HR_INVALID, "write: all columns name folders or files; none is left to write");
    return HR_OK;
}

/* A file named .gz must hold gzip: readers go by the name. The same for the other codecs. */
static hr_status check_name(const hr_write_job *job, const hr_writer *w, hr_error *err)
{
    const hr_codec *named = job->settings.single_file ? hr__codec_by_suffix(job->path) : NULL;
    const hr_codec *made = hr__codec_by_suffix(w->suffix);

    if (!named || named == made)
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "%s: the name says %s, but with these options a %s file is %s%s", job->path,
                        named->name, job->format->name, made ? "compressed by " : "not compressed as a whole",
                        made ? made->name : "");
}

/* Makes a writer for all columns except those that name folders and files. */
static hr_status make_writer(hr_write_job *job, const hr_schema *s, hr_writer **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field *fields = hr__alloc(NULL, ((size_t)s->n + 1) * sizeof *fields);
    hr_schema *written = NULL;
    int n = 0;

    if (!fields)
        return hr__error_memory(err, "write", s->n * (int64_t)sizeof *fields);
    for (int i = 0; i < s->n; i++)
        if (!leaves_out(job, s->fields[i].name))
            fields[n++] = s->fields[i];
    HR_GO(check_columns(job, s, n, err));
    HR_GO(hr__schema_new(fields, n, &written, err));
    if (s->metadata) {
        if (!(written->metadata = hr__alloc(NULL, (size_t)s->metadata_bytes)))
            HR_GO(hr__error_memory(err, "write", s->metadata_bytes));
        memcpy(written->metadata, s->metadata, (size_t)s->metadata_bytes);
        written->metadata_bytes = s->metadata_bytes;
    }
    HR_GO(job->format->create(written, job->options, NULL, out, err));
    st = check_name(job, *out, err);
    if (st) {
        (*out)->cls->free(*out);
        *out = NULL;
    }
done:
    hr__schema_unref(written);
    hr__free(fields);
    return st;
}

hr_status hr__write_job_writer(hr_write_job *job, const hr_schema *schema, const hr_writer **out, hr_error *err)
{
    hr_status st = HR_OK;

    *out = NULL;
    hr__lock(&job->lock);
    if (!job->writer && !(st = make_writer(job, schema, &job->writer, err)))
        job->schema = hr__schema_ref((hr_schema *)schema);
    *out = job->writer;
    hr__unlock(&job->lock);
    return st;
}

hr_schema *hr__write_job_schema(hr_write_job *job)
{
    hr_schema *s;

    hr__lock(&job->lock);
    s = job->schema;
    hr__unlock(&job->lock);
    return s;
}

static hr_status check_options(const hr_format *format, const char *path, const hr_write_options *o, hr_error *err)
{
    if (!format->create)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: format %s can be read, not written", path, format->name);
    if (!path[0])
        return hr_error_set(err, HR_INVALID, "write: the path is empty");
    if (o->min_rows_per_file < 0 || o->max_rows_per_file < 0 ||
        (o->max_rows_per_file && o->min_rows_per_file > o->max_rows_per_file))
        return hr_error_set(err, HR_INVALID,
                            "%s: min_rows_per_file is %" PRId64 ", max_rows_per_file is %" PRId64
                            "; expected 0 <= min <= max",
                            path, o->min_rows_per_file, o->max_rows_per_file);
    if (o->single_file && path[strlen(path) - 1] == '/')
        return hr_error_set(err, HR_INVALID, "%s: expected the name of a file, found the name of a folder", path);
    if (!o->single_file && hr__sink_streams(path))
        return hr_error_set(err, HR_INVALID,
                            "%s: expected a folder for files, found a pipe or a device; one file "
                            "(single_file) can go there",
                            path);
    if (o->single_file && (o->n_partition_columns || o->max_rows_per_file))
        return hr_error_set(err, HR_INVALID, "%s: a single file cannot have partition columns or max_rows_per_file",
                            path);
    if ((int)o->sync < HR_SYNC_NONE || o->sync > HR_SYNC_ALL)
        return hr_error_set(err, HR_INVALID, "%s: sync %d, expected 0, 1 or 2", path, (int)o->sync);
    return HR_OK;
}

static hr_status copy_texts(hr_write_job *job, const hr_write_options *o, hr_error *err)
{
    hr_write_options *s = &job->settings;

    s->name_column = hr__strdup(NULL, o->name_column);
    s->job = hr__strdup(NULL, o->job);
    job->partitions = hr__zalloc(NULL, ((size_t)o->n_partition_columns + 1) * sizeof *job->partitions);
    if (!job->path || (o->name_column && !s->name_column) || (o->job && !s->job) || !job->partitions)
        return hr__error_memory(err, "write", 256);
    for (int i = 0; i < o->n_partition_columns; i++)
        if (!(job->partitions[job->n_partitions++] = hr__strdup(NULL, o->partition_columns[i])))
            return hr__error_memory(err, "write", 256);
    if (!(job->storage = hr__zalloc(NULL, ((size_t)o->n_storage_options + 1) * sizeof *job->storage)))
        return hr__error_memory(err, "write", 256);
    for (int i = 0; i < o->n_storage_options; i++)
        if (!(job->storage[job->n_storage++] = hr__strdup(NULL, o->storage_options[i])))
            return hr__error_memory(err, "write", 256);
    return HR_OK;
}

/* Parses the format's options. The suffix of a single file's name chooses the codec, if the format compresses whole
 * files. */
static hr_status parse_options(hr_write_job *job, const char *path, const hr_write_options *o, hr_error *err)
{
    const hr_codec *codec = o->single_file ? hr__codec_by_suffix(path) : NULL;
    const char *implied = codec == &hr__codec_gzip        ? "compression=gzip"
                          : codec == &hr__codec_zstd      ? "compression=zstd"
                          : codec == &hr__codec_lz4_frame ? "compression=lz4"
                                                          : NULL;
    hr_error none = HR_ERROR_INIT;
    hr_status st;

    hr__options_default(job->format->write_options, job->options);
    if (implied && hr__options_parse(job->format->write_options, &implied, 1, job->options, &none))
        hr_error_clear(&none); /* the format has no option "compression": check_name reports that */
    st = hr__options_parse(job->format->write_options, o->format_options, o->n_format_options, job->options, err);
    return st ? hr__error_at(err, st, "write_%s", job->format->name) : HR_OK;
}

static hr_status refuse(const char *path, hr_error *err)
{
    (void)hr_error_set(err, HR_UNSUPPORTED,
                       "headrace writes to local paths and to s3://, gs://, az:// and hdfs:// URLs");
    return hr__url_error(err, HR_UNSUPPORTED, path);
}

static hr_status take_local(hr_write_job *job, const char *path, hr_error *err)
{
    hr_status st = hr__path_of_url(path, NULL, &job->path, err);

    return st == HR_UNSUPPORTED ? refuse(path, err) : st;
}

static hr_status take_path(hr_write_job *job, const char *path, hr_error *err)
{
    job->remote = hr__url_is_store(path);
    if (!job->remote)
        return take_local(job, path, err);
    if (!(job->path = hr__strdup(NULL, path)))
        return hr__error_memory(err, "write", (int64_t)strlen(path));
    if (!job->settings.single_file)
        hr__url_trim(job->path);
    return HR_OK;
}

static hr_status job_new(const hr_format *format, const char *path, const hr_write_options *o, hr_write_job **out,
                         hr_error *err)
{
    hr_status st = HR_OK;
    hr_write_job *job = hr__zalloc(NULL, sizeof *job);

    *out = NULL;
    if (!job) {
        if (o->name_context_free)
            o->name_context_free(o->name_context);
        return hr__error_memory(err, "write", sizeof *job);
    }
    atomic_init(&job->refs, 1);
    hr__mutex_init(&job->lock);
    job->format = format;
    job->settings = *o;
    job->settings.job = job->settings.name_column = NULL; /* copy_texts copies them */
    HR_GO(check_options(format, path, o, err));
    HR_GO(take_path(job, path, err));
    HR_GO(copy_texts(job, o, err));
    if (!(job->options = hr__zalloc(NULL, format->write_options_bytes + 1)))
        HR_GO(hr__error_memory(err, "write", (int64_t)format->write_options_bytes));
    HR_GO(parse_options(job, path, o, err));
    *out = job;
    job = NULL;
done:
    job_unref(job);
    return st;
}

/* --- chunks */

void hr__write_chunk_free(hr_write_chunk *c)
{
    if (!c)
        return;
    for (int64_t i = 0; i < c->n_parts; i++)
        hr_table_unref(c->parts[i]);
    for (int64_t i = 0; i < c->n_encoded; i++)
        hr__encoded_chunk_clear(&c->encoded[i]);
    for (int64_t i = 0; c->names && i < c->n_encoded; i++)
        hr__free(c->names[i]);
    hr__free(c->names);
    hr__free(c->encoded);
    hr__free(c->parts);
    hr__free(c->folder);
    hr__free(c);
}

static int64_t chunk_bytes(const hr_payload *p) { return ((const hr_write_chunk *)p)->n_bytes; }

static void chunk_free(hr_payload *p) { hr__write_chunk_free((hr_write_chunk *)p); }

static const hr_payload_class chunk_class = { .name = "a write chunk", .bytes = chunk_bytes, .free = chunk_free };

hr_status hr__write_chunk_table(hr_write_chunk *takes, hr_table **out, hr_error *err)
{
    hr_origin *origin = NULL;
    hr_status st = hr__origin_made((hr_coord){ 0 }, 1, &origin, err);

    *out = NULL;
    if (st)
        hr__write_chunk_free(takes);
    else
        st = hr__table_of_payload(&takes->base, &chunk_class, 1, origin, out, err);
    hr__origin_unref(origin);
    return st;
}

hr_status hr__write_chunk_of(const hr_table *t, hr_write_chunk **out, hr_error *err)
{
    hr_payload *p = NULL;
    hr_status st = hr__table_payload(t, &chunk_class, &p, err);

    *out = (hr_write_chunk *)p;
    return st;
}

/* --- the operators */

void hr__write_op_free(hr_op *op)
{
    job_unref(hr__write_job_of(op));
    hr__free(op);
}

void hr__write_op_fingerprint(const hr_op *op, hr_hash *h)
{
    const hr_write_job *job = hr__write_job_of(op);

    hr__hash_text(h, job->format->name);
    hr__hash_text(h, job->path);
}

static hr_status op_new(const hr_op_class *cls, hr_write_job *job, hr_op **out, hr_error *err)
{
    hr_write_op *op = hr__alloc(NULL, sizeof *op);

    if (!op)
        return hr__error_memory(err, cls->name, sizeof *op);
    hr__op_init(&op->base, cls);
    op->job = job_ref(job);
    *out = &op->base;
    return HR_OK;
}

hr_status hr__op_write(hr_schema *schema, const hr_format *format, const char *path, const hr_write_options *options,
                       hr_op *out[3], hr_error *err)
{
    static const hr_op_class *const classes[] = { &hr__write_cut, &hr__write_encode, &hr__write_add };
    hr_status st = HR_OK;
    hr_write_job *job = NULL;
    const hr_writer *writer;

    HR_GO(job_new(format, path, options, &job, err));
    if (schema)
        HR_GO(hr__write_job_writer(job, schema, &writer, err));
    for (int i = 0; i < HR_LEN(classes); i++)
        HR_GO(op_new(classes[i], job, &out[i], err));
done:
    job_unref(job);
    return st;
}

hr_status hr__write_schema(hr_schema **out, hr_error *err)
{
    hr_field fields[] = {
        { .name = (char *)"path", .type = hr__type_simple(HR_T_STRING) },
        { .name = (char *)"rows", .type = hr__type_simple(HR_T_INT64) },
        { .name = (char *)"bytes", .type = hr__type_simple(HR_T_INT64) },
    };

    return hr__schema_new(fields, HR_LEN(fields), out, err);
}

hr_status hr__write_exists(const char *path, const hr_write_options *o, bool *out, hr_error *err)
{
    hr_paths_options options = { .ignore_missing = true,
                                 .plain = true,
                                 .store_options = o->storage_options,
                                 .n_store_options = o->n_storage_options };
    hr_paths found = { 0 };

    *out = false;
    if (hr__sink_streams(path))
        return HR_OK;
    if (hr__url_is_remote(path) && !hr__url_is_store(path))
        return refuse(path, err); /* no question to its host */
    HR_TRY(hr__paths_list(&path, 1, &options, NULL, &found, err));
    *out = found.n > 0;
    hr__paths_clear(&found);
    return HR_OK;
}
