/* write_cut.c - rows into write chunks; one chunk becomes one encoded chunk of a file.
 *
 * A chunk ends by its number of rows, by its bytes, or where a file must end, counted from the first row on: never
 * where a reader or a thread cut. Sizes are sums of bits of values (fixed widths, differences of offsets): the sum over
 * slices equals the size of the whole table. Numbers that the writer widens count with their wider size. A chunk holds
 * slices; no row is copied here.
 *
 * With partition columns each folder has its waiting rows (`group`). All groups together hold at most MAX_WAITING bytes
 * (fewer under a small memory limit); beyond that the fullest group emits its rows as a short chunk.
 *
 * Tests: test_write.c. */
#include "op/write/write.h"

#include <inttypes.h>
#include <stdio.h>

#define DEFAULT_ROWS (64 << 10)
#define DEFAULT_BYTES ((int64_t)4 << 20)
#define MAX_WAITING ((int64_t)256 << 20)
#define BLOCK_ROWS                                                                                                     \
    4096 /* rows divided among folders at once, counted from the first row: rows alone decide which is full first */
#define NULL_FOLDER "__HIVE_DEFAULT_PARTITION__"

/* Waiting rows of one folder. */
typedef struct group {
    char *folder; /* NULL: there are no partitions */
    hr_table **parts;
    int64_t n_parts, cap_parts;
    int64_t n_rows, n_bits;
    int64_t file_rows; /* rows since the last file border that max_rows_per_file set */
} group;

typedef struct cut_state {
    const hr_writer *writer;
    int64_t chunk_rows, chunk_bits, file_rows;
    group **groups;
    int64_t n_groups, cap_groups;
    int64_t *slots; /* hash table: 1 + group; 0: free */
    int64_t n_slots;
    int64_t waiting_bits, max_waiting_bits;
    int64_t n_chunks;
    hr_table **block; /* with partitions: rows of the incomplete block */
    int64_t n_block, cap_block, block_rows;
} cut_state;

/* ------------------------------------------------------------------------------------------------------------ sizes */

static int64_t offset_at(const hr_array *a, int64_t i)
{
    const uint8_t *p = a->buffers[1]->data;

    i += a->offset;
    return hr__type_offset_bytes(a->type) == 4 ? ((const int32_t *)(const void *)p)[i]
                                               : ((const int64_t *)(const void *)p)[i];
}

/* Bits of elements [begin, begin + n) of an array, not counting a->offset; a number counts as `least` bytes at
 * least. */
static int64_t array_bits(const hr_array *a, int64_t begin, int64_t n, int least)
{
    int64_t bits = a->buffers[0] ? n : 0, first;

    if (n == 0)
        return 0;
    if (a->type->id == HR_T_BOOL)
        return bits + n;
    if (hr__type_bytes(a->type))
        return bits + n * 8 * HR_MAX(least, hr__type_bytes(a->type));
    if (hr__type_offset_bytes(a->type)) {
        first = offset_at(a, begin);
        bits += n * 8 * hr__type_offset_bytes(a->type);
        n = offset_at(a, begin + n) - first;
        return bits + (hr__type_is_bytes(a->type) ? 8 * n : array_bits(a->children[0], first, n, least));
    }
    if (hr__type_is_fixed_list(a->type))
        return bits + array_bits(a->children[0], (a->offset + begin) * a->type->width, n * a->type->width, least);
    for (int i = 0; i < a->n_children; i++)
        bits += array_bits(a->children[i], a->offset + begin, n, least);
    return bits;
}

static int64_t table_bits(const hr_table *t, int64_t begin, int64_t n, int least)
{
    int64_t bits = 0;

    for (int i = 0; i < t->schema->n; i++)
        bits += array_bits(t->columns[i], begin, n, least);
    return bits;
}

/* The largest number of first rows of `t`, from 1 to n_max, whose size is at most `bits`. */
static int64_t rows_within(const hr_table *t, int64_t bits, int64_t n_max, int least)
{
    int64_t low = 1, high = n_max;

    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;

        if (table_bits(t, 0, middle, least) <= bits)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* ----------------------------------------------------------------------------------------------------------- chunks */

static hr_status emit_group(cut_state *s, group *g, hr_task *task, hr_error *err)
{
    hr_status st = HR_OK;
    hr_account *account = hr__task_run(task)->account;
    hr_write_chunk *p = hr__zalloc(account, sizeof *p);
    hr_table *made = NULL;

    if (!p || (g->folder && !(p->folder = hr__strdup(account, g->folder)))) {
        hr__write_chunk_free(p);
        return hr__error_memory(err, "write", sizeof *p);
    }
    p->n_rows = g->n_rows;
    p->n_bytes = g->n_bits / 8;
    p->parts = g->parts;
    p->n_parts = g->n_parts;
    s->waiting_bits -= g->n_bits;
    g->parts = NULL;
    g->n_parts = g->cap_parts = g->n_rows = g->n_bits = 0;
    HR_TRY(hr__write_chunk_table(p, &made, err));
    s->n_chunks++;
    st = hr__task_emit(task, &made, err);
    hr_table_unref(made);
    return st;
}

static hr_status hold(cut_state *s, group *g, hr_task *task, hr_table *t, int64_t bits, hr_error *err)
{
    if (!hr__grow(hr__task_run(task)->account, (void **)&g->parts, &g->cap_parts, g->n_parts + 1, sizeof *g->parts))
        return hr__error_memory(err, "write", (g->n_parts + 1) * 8);
    g->parts[g->n_parts++] = hr_table_ref(t);
    g->n_rows += t->n_rows;
    g->file_rows += t->n_rows;
    g->n_bits += bits;
    s->waiting_bits += bits;
    return HR_OK;
}

/* Adds rows to a group and emits each chunk that is full. */
static hr_status add_rows(cut_state *s, group *g, hr_task *task, hr_table *t, hr_error *err)
{
    hr_status st = HR_OK;
    hr_table *left = hr_table_ref(t), *head = NULL, *tail = NULL;

    while (left->n_rows) {
        int64_t room = s->chunk_rows - g->n_rows, n, bits;

        if (s->file_rows)
            room = HR_MIN(room, s->file_rows - g->file_rows);
        n = HR_MIN(room, left->n_rows);
        bits = table_bits(left, 0, n, s->writer->value_bytes);
        if (g->n_rows && g->n_bits + bits > s->chunk_bits &&
            g->n_bits + table_bits(left, 0, 1, s->writer->value_bytes) > s->chunk_bits) {
            HR_GO(emit_group(s, g, task, err)); /* no further row fits */
            continue;
        }
        if (g->n_bits + bits > s->chunk_bits) {
            n = rows_within(left, s->chunk_bits - g->n_bits, n, s->writer->value_bytes);
            bits = table_bits(left, 0, n, s->writer->value_bytes);
        }
        HR_GO(hr_table_slice(left, 0, n, &head, err));
        HR_GO(hr_table_slice(left, n, left->n_rows - n, &tail, err));
        HR_GO(hold(s, g, task, head, bits, err));
        hr_table_unref(head);
        hr_table_unref(left);
        left = tail;
        head = tail = NULL;
        if (g->n_rows == s->chunk_rows || g->n_bits >= s->chunk_bits || (s->file_rows && g->file_rows == s->file_rows))
            HR_GO(emit_group(s, g, task, err));
        if (s->file_rows && g->file_rows == s->file_rows)
            g->file_rows = 0;
    }
done:
    hr_table_unref(left);
    hr_table_unref(head);
    hr_table_unref(tail);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- groups */

static uint64_t folder_hash(const char *folder)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__hash_text(&h, folder);
    return hr__hash_end(&h).lo;
}

static hr_status grow_slots(cut_state *s, hr_account *a, hr_error *err)
{
    int64_t n = HR_MAX(64, s->n_slots * 2), *slots = hr__zalloc(a, (size_t)n * sizeof *slots);

    if (!slots)
        return hr__error_memory(err, "write", n * 8);
    for (int64_t i = 0; i < s->n_groups; i++) {
        uint64_t at = s->groups[i]->folder ? folder_hash(s->groups[i]->folder) : 0;

        while (slots[at % (uint64_t)n])
            at++;
        slots[at % (uint64_t)n] = i + 1;
    }
    hr__free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    return HR_OK;
}

/* *out: the index of the group of a folder (NULL: the only group). */
static hr_status find_group(cut_state *s, hr_account *a, const char *folder, int64_t *out, hr_error *err)
{
    uint64_t at = folder ? folder_hash(folder) : 0;
    group *g;

    if (s->n_groups * 2 >= s->n_slots)
        HR_TRY(grow_slots(s, a, err));
    for (;; at++) {
        int64_t k = s->slots[at % (uint64_t)s->n_slots];

        if (!k)
            break;
        g = s->groups[k - 1];
        if (!folder || !strcmp(g->folder, folder)) {
            *out = k - 1;
            return HR_OK;
        }
    }
    if (!hr__grow(a, (void **)&s->groups, &s->cap_groups, s->n_groups + 1, sizeof(group *)) ||
        !(g = hr__zalloc(a, sizeof *g)))
        return hr__error_memory(err, "write", sizeof *g);
    if (folder && !(g->folder = hr__strdup(a, folder))) {
        hr__free(g);
        return hr__error_memory(err, "write", (int64_t)strlen(folder));
    }
    s->groups[s->n_groups] = g;
    s->slots[at % (uint64_t)s->n_slots] = ++s->n_groups;
    *out = s->n_groups - 1;
    return HR_OK;
}

/* Escapes as Hive does: characters with a meaning in a path become %XX. */
static void add_escaped(hr_text *out, const char *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c < 0x20 || c == 0x7f || strchr("\"#%'*/:=?\\{[]^", c))
            hr__text_add(out, "%%%02X", c);
        else
            hr__text_add_bytes(out, &c, 1);
    }
}

/* Readers cannot distinguish this text from null, escaped or not. */
static hr_status unnameable(const char *column, const uint8_t *p, int64_t n, hr_error *err)
{
    if (n == (int64_t)strlen(NULL_FOLDER) && memcmp(p, NULL_FOLDER, (size_t)n) == 0)
        return hr_error_set(err, HR_TYPE, "partition column '%s': the value %s names the folder of null values", column,
                            NULL_FOLDER);
    return HR_OK;
}

/* A time as pyarrow and Ray name folders: "2024-02-29 12:30:00.500000", all digits of the unit. text: as it is printed,
 * "2024-02-29T12:30:00.5". */
static void add_moment(hr_text *out, const hr_type *type, const char *text, int64_t n)
{
    const char *z = n && text[n - 1] == 'Z' ? "Z" : "", *point = memchr(text, '.', (size_t)n);
    int64_t end = n - (int64_t)strlen(z), digits = point ? text + end - point - 1 : 0;
    const char *t = memchr(text, 'T', (size_t)n);

    if (t) {
        add_escaped(out, text, t - text);
        add_escaped(out, " ", 1);
        end -= t + 1 - text;
        text = t + 1;
    }
    add_escaped(out, text, end);
    if (!point && type->unit != HR_SECOND)
        add_escaped(out, ".", 1);
    add_escaped(out, "000000000", 3 * (int64_t)type->unit - digits);
    add_escaped(out, z, (int64_t)strlen(z));
}

/* An empty text adds nothing: "p=". */
static hr_status add_value(hr_text *out, hr_text *scratch, const char *column, const hr_array *a, int64_t row,
                           hr_error *err)
{
    int64_t n = 0;
    const uint8_t *p;

    if (hr__array_is_null(a, row)) {
        hr__text_add(out, NULL_FOLDER);
        return HR_OK;
    }
    if (hr__type_is_bytes(a->type)) {
        p = hr__array_bytes(a, row, &n);
        HR_TRY(unnameable(column, p, n, err));
        add_escaped(out, (const char *)p, n);
        return HR_OK;
    }
    scratch->n = 0;
    hr__array_print_value(a, row, scratch);
    if (scratch->failed)
        return HR_OK; /* the caller looks */
    if (a->type->id != HR_T_DURATION && memchr(scratch->data, ':', (size_t)scratch->n))
        add_moment(out, a->type, scratch->data, scratch->n);
    else
        add_escaped(out, scratch->data, scratch->n);
    return HR_OK;
}

static hr_status folder_of(const hr_write_job *job, const hr_table *t, int64_t row, hr_text *out, hr_text *scratch,
                           hr_error *err)
{
    out->n = 0;
    for (int i = 0; i < job->n_partitions; i++) {
        if (i)
            hr__text_add(out, "/");
        add_escaped(out, job->partitions[i], (int64_t)strlen(job->partitions[i]));
        hr__text_add(out, "=");
        HR_TRY(add_value(out, scratch, job->partitions[i], t->columns[hr__schema_find(t->schema, job->partitions[i])],
                         row, err));
    }
    return out->failed || scratch->failed ? hr__error_memory(err, "write", out->n) : HR_OK;
}

static bool same_keys(const hr_write_job *job, const hr_table *t, int64_t row)
{
    for (int i = 0; i < job->n_partitions; i++) {
        const hr_array *a = t->columns[hr__schema_find(t->schema, job->partitions[i])];
        int width = hr__type_bytes(a->type);

        if (!width || a->buffers[0])
            return false;
        if (memcmp(hr__array_values(a) + row * width, hr__array_values(a) + (row - 1) * width, (size_t)width) != 0)
            return false;
    }
    return true;
}

/* The table without partition columns. */
static hr_status without_keys(const hr_write_job *job, hr_table *t, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    int n = 0, m = 0;
    hr_field *fields = NULL;
    hr_array **columns = NULL;
    hr_schema *schema = NULL;

    if (!job->n_partitions) {
        *out = hr_table_ref(t);
        return HR_OK;
    }
    fields = hr__alloc(NULL, ((size_t)t->schema->n + 1) * sizeof *fields);
    columns = hr__alloc(NULL, ((size_t)t->schema->n + 1) * sizeof(hr_array *));
    if (!fields || !columns)
        HR_GO(hr__error_memory(err, "write", t->schema->n * 64));
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < t->schema->n; i++) {
            bool is_key = false;

            for (int k = 0; k < job->n_partitions; k++)
                is_key = is_key || !strcmp(job->partitions[k], t->schema->fields[i].name);
            if (is_key)
                continue;
            if (pass == 0)
                fields[n++] = t->schema->fields[i];
            else
                columns[m++] = hr__array_ref(t->columns[i]);
        }
        if (pass == 0)
            HR_GO(hr__schema_new(fields, n, &schema, err));
    }
    HR_GO(hr__table_new(schema, columns, t->n_rows, t->origin, out, err));
done:
    hr__schema_unref(schema);
    hr__free(fields);
    hr__free(columns);
    return st;
}

/* Sets group_of[row] to the index of the row's group. */
static hr_status assign(cut_state *s, const hr_write_job *job, hr_account *a, const hr_table *t, int32_t *group_of,
                        hr_error *err)
{
    hr_status st = HR_OK;
    hr_text folder = { .account = a }, scratch = { .account = a };
    int64_t g = 0;

    for (int64_t i = 0; i < t->n_rows; i++) {
        if (i == 0 || !same_keys(job, t, i)) {
            HR_GO(folder_of(job, t, i, &folder, &scratch, err));
            HR_GO(find_group(s, a, folder.data, &g, err));
        }
        group_of[i] = (int32_t)g;
    }
done:
    hr__text_clear(&folder);
    hr__text_clear(&scratch);
    return st;
}

/* Emits the fullest groups until waiting_bits is within its bound. */
static hr_status relieve(cut_state *s, hr_task *task, hr_error *err)
{
    while (s->waiting_bits > s->max_waiting_bits) {
        group *most = s->groups[0];

        for (int64_t i = 1; i < s->n_groups; i++)
            if (s->groups[i]->n_bits > most->n_bits)
                most = s->groups[i];
        if (!most->n_rows)
            return HR_OK;
        HR_TRY(emit_group(s, most, task, err));
    }
    return HR_OK;
}

/* Adds the rows of t to their groups, in order; groups in the order of their first row in t. */
static hr_status divide(cut_state *s, const hr_write_job *job, hr_task *task, hr_table *t, hr_error *err)
{
    hr_status st = HR_OK;
    hr_account *a = hr__task_run(task)->account;
    int32_t *group_of = hr__alloc(a, (size_t)t->n_rows * sizeof *group_of);
    int64_t *index = hr__alloc(a, (size_t)t->n_rows * sizeof *index), *begin = NULL, n = t->n_rows;
    hr_table *rest = NULL, *taken = NULL;

    if (!group_of || !index)
        HR_GO(hr__error_memory(err, "write", n * 12));
    HR_GO(assign(s, job, a, t, group_of, err));
    HR_GO(without_keys(job, t, &rest, err));
    if (!(begin = hr__zalloc(a, ((size_t)s->n_groups + 1) * sizeof *begin)))
        HR_GO(hr__error_memory(err, "write", s->n_groups * 8));
    for (int64_t i = 0; i < n; i++)
        begin[group_of[i] + 1]++;
    for (int64_t g = 0; g < s->n_groups; g++)
        begin[g + 1] += begin[g];
    for (int64_t i = 0; i < n; i++)
        index[begin[group_of[i]]++] = i;
    for (int64_t g = 0, from = 0; g < s->n_groups; from = begin[g++]) { /* begin[g] is now the end of g */
        if (begin[g] == from)
            continue;
        HR_GO(hr__table_take(hr__task_mem(task), rest, index + from, 8, begin[g] - from, &taken, err));
        HR_GO(add_rows(s, s->groups[g], task, taken, err));
        hr_table_unref(taken);
        taken = NULL;
    }
    HR_GO(relieve(s, task, err));
done:
    hr_table_unref(taken);
    hr_table_unref(rest);
    hr__free(begin);
    hr__free(index);
    hr__free(group_of);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static hr_status cut_start(const hr_write_job *job, cut_state *s, hr_task *task, const hr_schema *schema, hr_error *err)
{
    const hr_write_options *o = &job->settings;

    HR_TRY(hr__write_job_writer((hr_write_job *)job, schema, &s->writer, err));
    s->chunk_rows = s->writer->chunk_rows > 0 ? s->writer->chunk_rows : DEFAULT_ROWS;
    s->chunk_bits = 8 * (s->writer->chunk_bytes > 0  ? s->writer->chunk_bytes
                         : s->writer->chunk_rows > 0 ? INT64_MAX / 16
                                                     : DEFAULT_BYTES);
    s->file_rows = s->writer->file_for_each_row ? 0 : o->max_rows_per_file;
    s->chunk_bits =
        HR_MIN(s->chunk_bits, HR_MAX(8, hr__account_limit(hr__task_run(task)->account) / HR_CHUNK_SHARE * 8));
    s->max_waiting_bits = 8 * HR_MIN(MAX_WAITING, hr__account_limit(hr__task_run(task)->account) / 4);
    return HR_OK;
}

static hr_status cut_state_of(const hr_op *op, hr_task *task, const hr_table *in, cut_state **out, hr_error *err)
{
    void **slot = hr__task_state(task);

    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof **out)))
        return hr__error_memory(err, "write", sizeof **out);
    *out = *slot;
    return (*out)->writer ? HR_OK : cut_start(hr__write_job_of(op), *out, task, in->schema, err);
}

/* Conforms a table to the schema of the first one: in a later table a column may have type null. */
static hr_status fit(hr_write_job *job, hr_task *task, const hr_table *in, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_schema *expected = hr__write_job_schema(job), *both = NULL;

    if (in->schema == expected || hr__schema_equal(in->schema, expected)) {
        *out = hr_table_ref((hr_table *)in);
        return HR_OK;
    }
    st = hr__schema_conform(expected, in->schema, &both, err);
    if (!st && !hr__schema_equal(both, expected)) {
        char text[300];

        hr__schema_difference(in->schema, expected, text, sizeof text);
        st = hr_error_set(err, HR_TYPE, "%s", text);
    }
    if (st == HR_TYPE)
        st = hr__error_at(err, st, "a table's schema differs from the schema of the first table");
    if (!st)
        st = hr__table_conform(hr__task_mem(task), in, expected, out, err);
    hr__schema_unref(both);
    return st;
}

/* Divides the block among groups; at the end it may be incomplete. */
static hr_status divide_block(cut_state *s, const hr_write_job *job, hr_task *task, hr_error *err)
{
    hr_mem scratch = { hr__task_run(task)->account, NULL };
    hr_table *whole = NULL;
    hr_status st = HR_OK;

    if (s->n_block == 0)
        return HR_OK;
    if (s->n_block > 1)
        HR_TRY(hr__table_concat(&scratch, s->block[0]->schema, s->block, (int)s->n_block, &whole, err));
    st = divide(s, job, task, whole ? whole : s->block[0], err);
    hr_table_unref(whole);
    while (s->n_block)
        hr_table_unref(s->block[--s->n_block]);
    s->block_rows = 0;
    return st;
}

/* Collects rows into blocks and divides each complete block. */
static hr_status add_to_block(cut_state *s, const hr_write_job *job, hr_task *task, const hr_table *t, hr_error *err)
{
    for (int64_t at = 0, n; at < t->n_rows; at += n) {
        n = HR_MIN(BLOCK_ROWS - s->block_rows, t->n_rows - at);
        if (!hr__grow(hr__task_run(task)->account, (void **)&s->block, &s->cap_block, s->n_block + 1,
                      sizeof(hr_table *)))
            return hr__error_memory(err, "write", (s->n_block + 1) * (int64_t)sizeof(hr_table *));
        HR_TRY(hr_table_slice(t, at, n, &s->block[s->n_block], err));
        s->n_block++;
        s->block_rows += n;
        if (s->block_rows == BLOCK_ROWS)
            HR_TRY(divide_block(s, job, task, err));
    }
    return HR_OK;
}

static hr_status cut_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_status st = HR_OK;
    hr_write_job *job = hr__write_job_of(op);
    cut_state *s = NULL;
    hr_table *t = NULL;
    int64_t g;

    HR_TRY(cut_state_of(op, task, in, &s, err));
    if (in->n_rows == 0)
        return HR_OK;
    HR_GO(fit(job, task, in, &t, err));
    if (job->n_partitions) {
        HR_GO(add_to_block(s, job, task, t, err));
        goto done;
    }
    HR_GO(find_group(s, hr__task_run(task)->account, NULL, &g, err));
    HR_GO(add_rows(s, s->groups[g], task, t, err));
done:
    hr_table_unref(t);
    return st;
}

/* No row came: writes one file without rows if the columns are known, so that a reader finds the columns. */
static hr_status emit_empty(const hr_op *op, hr_task *task, hr_error *err)
{
    hr_status st = HR_OK;
    hr_write_job *job = hr__write_job_of(op);
    hr_schema *schema = hr__write_job_schema(job);
    hr_account *account = hr__task_run(task)->account;
    hr_write_chunk *p = NULL;
    hr_table *made = NULL;

    if (!schema || job->n_partitions || job->writer->file_for_each_row)
        return HR_OK;
    p = hr__zalloc(account, sizeof *p);
    if (!p || !hr__grow(account, (void **)&p->parts, &p->cap_parts, 1, sizeof(hr_table *)))
        HR_GO(hr__error_memory(err, "write", sizeof *p));
    HR_GO(hr__table_empty(schema, &p->parts[0], err));
    p->n_parts = 1;
    st = hr__write_chunk_table(p, &made, err);
    p = NULL;
    HR_GO(st);
    HR_GO(hr__task_emit(task, &made, err));
done:
    hr_table_unref(made);
    hr__write_chunk_free(p);
    return st;
}

static hr_status cut_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    cut_state *s = *hr__task_state(task);

    if (s)
        HR_TRY(divide_block(s, hr__write_job_of(op), task, err));
    for (int64_t i = 0; s && i < s->n_groups; i++)
        if (s->groups[i]->n_rows)
            HR_TRY(emit_group(s, s->groups[i], task, err));
    return s && s->n_chunks ? HR_OK : emit_empty(op, task, err);
}

static void cut_task_clear(const hr_op *op, hr_task *task)
{
    cut_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    while (s->n_block)
        hr_table_unref(s->block[--s->n_block]);
    hr__free(s->block);
    for (int64_t i = 0; i < s->n_groups; i++) {
        group *g = s->groups[i];

        for (int64_t k = 0; k < g->n_parts; k++)
            hr_table_unref(g->parts[k]);
        hr__free(g->parts);
        hr__free(g->folder);
        hr__free(g);
    }
    hr__free(s->groups);
    hr__free(s->slots);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* A write has no positions: a run writes all rows or no file. */
static hr_status cut_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    (void)op;
    (void)task;
    (void)err;
    hr__marker_drop(takes);
    return HR_OK;
}

static hr_status cut_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)in;
    return hr__write_schema(out, err); /* of write_add's output: the three operators stand side by side in a plan */
}

static void cut_describe(const hr_op *op, hr_text *out)
{
    const hr_write_job *job = hr__write_job_of(op);

    hr__text_add(out, "cut(");
    for (int i = 0; i < job->n_partitions; i++)
        hr__text_add(out, "%s%s", i ? ", " : "", job->partitions[i]);
    hr__text_add(out, ")");
}

const hr_op_class hr__write_cut = {
    .name = "cut",
    .doc = "rows as a file's encoded chunks will hold them",
    .kind = HR_OP_STREAM,
    .schema = cut_schema,
    .push = cut_push,
    .finish = cut_finish,
    .task_clear = cut_task_clear,
    .marker = cut_marker,
    .describe = cut_describe,
    .fingerprint = hr__write_op_fingerprint,
    .free = hr__write_op_free,
};
