/* npy_write.c - a column as .npy files: rows along the first axis.
 *
 * Rows of numbers, booleans and times, of tensors of them, or of lists of equal length; a null, or a row of another
 * length, is an error. The header has the number of rows, so the writer writes it last, into the room at the beginning
 * of the file.
 *
 * Tests: test_writers.c, test_numpy.py. */
#include "format/numpy/npy.h"

#include <stdio.h>

#define HEADER_BYTES 384 /* enough for any shape; a multiple of 64, as NumPy requires */

typedef struct npy_writer {
    hr_writer base;
    char *column;
} npy_writer;

/* The common shape of all write chunks of a file. */
typedef struct npy_shape {
    char descr[16]; /* "<f4" */
    int n_dims;
    int64_t shape[HR_MAX_DIMS];
} npy_shape;

typedef struct npy_out {
    npy_shape shape;
    bool known;
    int64_t n_rows;
} npy_out;

/* NumPy's name of a type; false: it has none. */
static bool describe(const hr_type *t, char out[16])
{
    static const char *const units[] = { "s", "ms", "us", "ns" };
    int bytes = hr__type_bytes(t);

    switch (t->id) {
    case HR_T_BOOL: snprintf(out, 16, "|b1"); return true;
    case HR_T_INT8: snprintf(out, 16, "|i1"); return true;
    case HR_T_UINT8: snprintf(out, 16, "|u1"); return true;
    case HR_T_INT16:
    case HR_T_INT32:
    case HR_T_INT64: snprintf(out, 16, "<i%d", bytes); return true;
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: snprintf(out, 16, "<u%d", bytes); return true;
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: snprintf(out, 16, "<f%d", bytes); return true;
    case HR_T_TIMESTAMP: snprintf(out, 16, "<M8[%s]", units[t->unit]); return true;
    case HR_T_DURATION: snprintf(out, 16, "<m8[%s]", units[t->unit]); return true;
    default: return false;
    }
}

/* The type of single values. */
static const hr_type *innermost(const hr_type *t)
{
    while (t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || hr__type_is_fixed_list(t))
        t = t->children[0].type;
    return t;
}

static hr_status not_dense(const npy_writer *w, const hr_array *a, hr_error *err)
{
    for (int64_t i = 0; i < a->length; i++) {
        if (hr__array_is_null(a, i))
            return hr_error_set(err, HR_TYPE, "npy: column '%s' has a null, which a NumPy array cannot hold",
                                w->column);
    }
    return hr_error_set(err, HR_TYPE, "npy: column '%s': rows have different lengths, or hold nulls", w->column);
}

/* The least int64 means NaT in NumPy, and would be read back as a null: an error. */
static hr_status check_times(const npy_writer *w, const hr_array *values, int64_t begin, int64_t n, int64_t n_rows,
                             hr_error *err)
{
    if (values->type->id != HR_T_TIMESTAMP && values->type->id != HR_T_DURATION)
        return HR_OK;
    for (int64_t i = begin; i < begin + n; i++)
        if (hr__array_int(values, i) == INT64_MIN)
            return hr_error_set(
                err, HR_TYPE,
                "npy: column '%s', row %lld of the write chunk: the value %lld means NaT in NumPy, not a time",
                w->column, (long long)((i - begin) / (n / n_rows)), (long long)INT64_MIN);
    return HR_OK;
}

/* Values [begin, begin + n) as NumPy stores them. */
static void copy_values(const hr_array *values, int64_t begin, int64_t n, uint8_t *out)
{
    int width = hr__type_bytes(values->type);

    if (values->type->id != HR_T_BOOL) {
        memcpy(out, hr__array_values(values) + begin * width, (size_t)(n * width));
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = hr__bit(values->buffers[1]->data, values->offset + begin + i);
}

static hr_status npy_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                            hr_error *err)
{
    const npy_writer *w = (const npy_writer *)base;
    const hr_array *a = t->columns[0], *values;
    npy_shape *shape;
    int64_t begin, n = a->length;

    if (a->length == 0)
        return HR_OK;
    shape = hr__zalloc(mem->account, sizeof *shape);
    if (!shape)
        return hr__error_memory(err, "npy", sizeof *shape);
    out->notes = shape;
    out->notes_free = hr__free;
    if (!hr__array_dense(a, &shape->n_dims, shape->shape, &values, &begin))
        return not_dense(w, a, err);
    if (!describe(values->type, shape->descr))
        return hr_error_set(err, HR_TYPE, "npy: column '%s': NumPy has no type for it", w->column);
    for (int i = 0; i < shape->n_dims; i++)
        n *= shape->shape[i];
    HR_TRY(check_times(w, values, begin, n, a->length, err));
    HR_TRY(hr__buffer_new(mem, n * HR_MAX(1, hr__type_bytes(values->type)), &out->bytes, err));
    copy_values(values, begin, n, out->bytes->data);
    out->n_rows = a->length;
    return HR_OK;
}

static hr_status npy_begin(const hr_writer *w, void *file, hr_sink *sink, hr_error *err)
{
    static const char room[HEADER_BYTES];

    (void)w;
    (void)file;
    hr__sink_keep_first(sink); /* npy_finish writes the header */
    return hr__sink_write(sink, room, sizeof room, err);
}

static void print_shape(const npy_shape *s, char *out, size_t cap)
{
    int n = snprintf(out, cap, "(");

    for (int i = 0; i < s->n_dims; i++)
        n += snprintf(out + n, cap - (size_t)n, "%s%lld", i ? ", " : "", (long long)s->shape[i]);
    snprintf(out + n, cap - (size_t)n, ")");
}

static hr_status npy_add(const hr_writer *base, void *file, hr_sink *sink, hr_encoded_chunk *p, hr_error *err)
{
    const npy_shape *shape = p->notes;
    npy_out *out = file;
    char found[200], before[200];

    if (!shape)
        return HR_OK;
    if (!out->known)
        out->shape = *shape;
    out->known = true;
    if (memcmp(&out->shape, shape, sizeof *shape) != 0) {
        print_shape(shape, found, sizeof found);
        print_shape(&out->shape, before, sizeof before);
        return hr_error_set(err, HR_TYPE, "%s: column '%s': rows of shape %s after rows of %s", hr__sink_name(sink),
                            ((const npy_writer *)base)->column, found, before);
    }
    out->n_rows += p->n_rows;
    return hr__sink_write_buffer(sink, p->bytes, err);
}

static hr_status npy_finish(const hr_writer *w, void *file, hr_sink *sink, hr_error *err)
{
    const npy_out *out = file;
    char header[HEADER_BYTES + 1] = "\x93NUMPY\x01";
    int n = 10;

    (void)w;
    header[8] = (char)((HEADER_BYTES - 10) & 0xff);
    header[9] = (char)((HEADER_BYTES - 10) >> 8);
    n += snprintf(header + n, sizeof header - (size_t)n, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,",
                  out->known ? out->shape.descr : "<f8", (long long)out->n_rows);
    for (int i = 0; i < out->shape.n_dims; i++)
        n += snprintf(header + n, sizeof header - (size_t)n, " %lld,", (long long)out->shape.shape[i]);
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    memset(header + n, ' ', (size_t)(HEADER_BYTES - n));
    header[HEADER_BYTES - 1] = '\n';
    return hr__sink_write_at(sink, 0, header, HEADER_BYTES, err);
}

static void npy_free(hr_writer *base)
{
    hr__free(((npy_writer *)base)->column);
    hr__free(base);
}

static const hr_writer_class npy_writer_class = {
    .file_bytes = sizeof(npy_out),
    .encode = npy_encode,
    .begin = npy_begin,
    .add = npy_add,
    .finish = npy_finish,
    .free = npy_free,
};

hr_status npy__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err)
{
    char descr[16];
    npy_writer *w;

    (void)options;
    *out = NULL;
    if (schema->n != 1)
        return hr_error_set(err, HR_TYPE, "npy: a file holds one column, found %d", schema->n);
    if (!describe(innermost(schema->fields[0].type), descr)) {
        hr_text type = { 0 };

        hr__type_print(schema->fields[0].type, &type);
        hr_error_set(err, HR_TYPE, "npy: column '%s' is %s, for which NumPy has no type", schema->fields[0].name,
                     type.data ? type.data : "?");
        hr__text_clear(&type);
        return HR_TYPE;
    }
    if (!(w = hr__zalloc(account, sizeof *w)))
        return hr__error_memory(err, "npy", sizeof *w);
    w->base = (hr_writer){ .cls = &npy_writer_class, .suffix = ".npy" };
    w->column = hr__strdup(account, schema->fields[0].name);
    if (!w->column) {
        npy_free(&w->base);
        return hr__error_memory(err, "npy", (int64_t)strlen(schema->fields[0].name));
    }
    *out = &w->base;
    return HR_OK;
}
