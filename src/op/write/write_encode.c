/* write_encode.c - rows of a write chunk become encoded chunks, on all threads.
 *
 * Tests: test_write.c, test_parquet_write.c. */
#include "op/write/write.h"

/* All rows in one table, contiguous; a single part is shared. */
static hr_status gather_rows(const hr_mem *mem, const hr_write_chunk *in, hr_table **out, hr_error *err)
{
    if (in->n_parts == 1) {
        *out = hr_table_ref(in->parts[0]);
        return HR_OK;
    }
    return hr__table_concat(mem, in->parts[0]->schema, in->parts, (int)in->n_parts, out, err);
}

/* *out: the columns of the file. *names: the column that names files, borrowed from t; NULL: files are numbered. */
static hr_status written_columns(const hr_write_job *job, hr_table *t, hr_table **out, const hr_array **names,
                                 hr_error *err)
{
    hr_status st = HR_OK;
    int n = 0, k = job->settings.name_column ? hr__schema_find(t->schema, job->settings.name_column) : -1;
    hr_field *fields = NULL;
    hr_array **columns = NULL;
    hr_schema *schema = NULL;

    *names = k >= 0 ? t->columns[k] : NULL;
    if (k < 0) {
        *out = hr_table_ref(t);
        return HR_OK;
    }
    fields = hr__alloc(NULL, (size_t)t->schema->n * sizeof *fields);
    columns = hr__alloc(NULL, (size_t)t->schema->n * sizeof(hr_array *));
    if (!fields || !columns)
        HR_GO(hr__error_memory(err, "write", t->schema->n * 64));
    for (int i = 0; i < t->schema->n; i++)
        if (i != k)
            fields[n++] = t->schema->fields[i];
    HR_GO(hr__schema_new(fields, n, &schema, err));
    for (int i = 0, j = 0; i < t->schema->n; i++)
        if (i != k)
            columns[j++] = hr__array_ref(t->columns[i]);
    HR_GO(hr__table_new(schema, columns, t->n_rows, t->origin, out, err));
done:
    hr__schema_unref(schema);
    hr__free(fields);
    hr__free(columns);
    return st;
}

static hr_status file_name(const hr_array *names, int64_t row, char **out, hr_error *err)
{
    const uint8_t *s;
    int64_t n = 0;

    if (hr__array_is_null(names, row))
        return hr_error_set(err, HR_INVALID, "write: the file name of a row is null");
    s = hr__array_bytes(names, row, &n);
    if (n == 0 || memchr(s, 0, (size_t)n) || memchr(s, '/', (size_t)n))
        return hr_error_set(err, HR_INVALID, "write: '%.*s' cannot be the name of a file", (int)HR_MIN(n, 200),
                            (const char *)s);
    *out = hr__strndup(NULL, (const char *)s, (size_t)n);
    return *out ? HR_OK : hr__error_memory(err, "write", n);
}

static hr_status encode_rows(const hr_writer *w, const hr_mem *mem, const hr_table *t, const hr_array *names,
                             hr_write_chunk *out, hr_error *err)
{
    hr_status st = HR_OK;

    if (!w->file_for_each_row) {
        HR_TRY(w->cls->encode(w, mem, t, &out->encoded[0], err));
        out->n_encoded = 1;
        return HR_OK;
    }
    if (names && !(out->names = hr__zalloc(NULL, (size_t)t->n_rows * sizeof *out->names)))
        return hr__error_memory(err, "write", t->n_rows * 8);
    for (int64_t i = 0; i < t->n_rows; i++) {
        hr_table *row = NULL;

        HR_TRY(hr_table_slice(t, i, 1, &row, err));
        st = w->cls->encode(w, mem, row, &out->encoded[i], err);
        hr_table_unref(row);
        out->n_encoded = i + 1;
        if (!st && names)
            st = file_name(names, i, &out->names[i], err);
        if (st)
            return st;
    }
    return HR_OK;
}

static hr_status encode_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_status st = HR_OK;
    hr_write_job *job = hr__write_job_of(op);
    const hr_writer *w = job->writer; /* set before the first chunk was made */
    hr_account *account = hr__task_run(task)->account;
    hr_write_chunk *from = NULL, *to = NULL;
    hr_table *rows = NULL, *written = NULL, *made = NULL;
    const hr_array *names = NULL;

    HR_TRY(hr__write_chunk_of(in, &from, err));
    if (!(to = hr__zalloc(account, sizeof *to)) ||
        !(to->encoded =
              hr__zalloc(account, (w->file_for_each_row ? (size_t)from->n_rows : 1) * sizeof(hr_encoded_chunk))))
        HR_GO(hr__error_memory(err, "write", from->n_rows));
    if (from->folder && !(to->folder = hr__strdup(account, from->folder)))
        HR_GO(hr__error_memory(err, "write", (int64_t)strlen(from->folder)));
    to->n_rows = from->n_rows;
    HR_GO(gather_rows(hr__task_mem(task), from, &rows, err));
    HR_GO(written_columns(job, rows, &written, &names, err));
    HR_GO(encode_rows(w, hr__task_mem(task), written, names, to, err));
    for (int64_t i = 0; i < to->n_encoded; i++)
        to->n_bytes += to->encoded[i].bytes ? to->encoded[i].bytes->n_bytes : 0;
    st = hr__write_chunk_table(to, &made, err);
    to = NULL;
    HR_GO(st);
    HR_GO(hr__task_emit(task, &made, err));
done:
    hr_table_unref(made);
    hr_table_unref(written);
    hr_table_unref(rows);
    hr__write_chunk_free(to);
    return st;
}

static void encode_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "encode(%s)", hr__write_job_of(op)->format->name);
}

const hr_op_class hr__write_encode = {
    .name = "encode",
    .doc = "rows as a format's bytes",
    .kind = HR_OP_MAP,
    .schema = hr__kept_schema,
    .push = encode_push,
    .describe = encode_describe,
    .fingerprint = hr__write_op_fingerprint,
    .free = hr__write_op_free,
};
