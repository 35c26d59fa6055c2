/* scan.c - scans: the functions of all kinds, and the scan of files.
 *
 * A scan of files lists its paths when it is made, and opens the first file when its schema is first needed. It stores
 * the result by one atomic exchange, without a lock, so that a scan survives a fork at any moment: two threads may both
 * open the file, and one result is dropped.
 *
 * The schema is the caller's, or the first file's, or (unify) the schema of all files, whose footers the pool's threads
 * read. The columns of folder names (partition.c) and the path follow. hr__scan_open opens a file with the scan's
 * columns that the file has, and add_file_columns.c adds the others. Columns that only later files have are ignored. */
#include "format/scan/scan.h"

#include <stdlib.h>

#define FILES_A_THREAD 16              /* with fewer files, a thread costs more than it gains */
#define ORDER_OF_FILES 0x73656c6966ull /* the purpose of the random bits */
/* A hash of a file reads some of its blocks: the more files, the fewer blocks, so that hashing all files is fast. */
#define BLOCKS_OF_ALL_FILES 512
#define MAX_BLOCKS 32
#define BLOCK_BYTES (16 << 10)
#define SMALL_BLOCK_BYTES (4 << 10) /* for many files: two blocks, the first and the last */
#define READERS 16                  /* threads, which mostly wait for disks */
#define MOST_TOLD 5                 /* names in a warning */
#define NOT_KNOWN 1                 /* instead of a hash: the file could not be read */

typedef struct scan_types {
    hr_schema *files, *whole; /* the columns of files; the same with columns of folders and the path */
    hr_array **folders;       /* for each column of folders an array: a row for each file, of the type in `whole` */
    int n_folders;
    bool names_repeat; /* two columns of `files` have one name */
} scan_types;

typedef struct file_scan {
    hr_scan base;
    hr_paths paths;
    const hr_format *format;
    void *options;     /* options of the format; NULL: it has none */
    hr_text settings;  /* as given, for the fingerprint */
    char *path_column; /* NULL: none */
    hr_partitions partitions;
    hr_schema *given; /* NULL: none */
    bool unify;
    atomic_bool told_unread; /* see tell_unread */
    bool shuffle, shuffle_once, has_seed;
    uint64_t seed;
    _Atomic(hr_scan_file *) first;     /* the first file, with all of its columns */
    _Atomic(hr_source *) first_source; /* of `first`, if its bytes travel: runs copy what it has; NULL: none */
    _Atomic(scan_types *) types;
    int64_t shared;                     /* bytes of the folder that all paths begin with */
    _Atomic(_Atomic uint64_t *) hashes; /* by file, see hash_file; 0: not computed yet; NULL: no hash computed */
} file_scan;

/* ----------------------------------------------------------------------------------------------------------- common */

hr_scan *hr__scan_ref(hr_scan *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__scan_unref(hr_scan *s)
{
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        s->cls->free(s);
}

bool hr__scan_calls(const hr_scan *s) { return s->calls; }

int hr__scan_n_files(const hr_scan *s) { return s->n_files; }
const char *hr__scan_file_name(const hr_scan *s, int file) { return s->cls->file_name(s, file); }

const char *hr__scan_file_path(const hr_scan *s, int file)
{
    return (s->cls->file_path ? s->cls->file_path : s->cls->file_name)(s, file);
}
hr_status hr__scan_schema(hr_scan *s, hr_schema **out, hr_error *err)
{
    *out = NULL;
    return s->cls->schema(s, out, err);
}

hr_status hr__scan_open(hr_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_open mine = *how;

    *out = NULL;
    if (file < 0 || file >= s->n_files)
        return hr_error_set(err, HR_BUG, "file %d of a scan of %d", file, s->n_files);
    if (mine.projection && mine.projection->n < 0)
        mine.projection = NULL;
    HR_TRY(s->cls->open(s, file, &mine, out, err));
    if ((*out)->file != file) /* the first file is shared, and has the right number */
        (*out)->file = file;
    return HR_OK;
}

hr_status hr__scan_count(hr_scan *s, int64_t *out, hr_error *err)
{
    *out = -1;
    return s->cls->count(s, out, err);
}

int64_t hr__scan_file_rows(const hr_scan *s, int file)
{
    const int64_t *rows = atomic_load_explicit(&s->file_rows, memory_order_acquire);

    return rows ? rows[file] : -1;
}

int64_t hr__scan_row_bytes(const hr_scan *s, int file) { return s->cls->row_bytes ? s->cls->row_bytes(s, file) : -1; }
int hr__scan_files_left(const hr_scan *s, hr_expr *filter)
{
    return s->cls->files_left ? s->cls->files_left(s, filter) : -1;
}

int64_t hr__scan_guess_rows(const hr_scan *s) { return s->cls->guess_rows ? s->cls->guess_rows(s) : -1; }
const char *hr__scan_image_column(const hr_scan *s) { return s->cls->image_column ? s->cls->image_column(s) : NULL; }
void hr__scan_describe(const hr_scan *s, hr_text *out) { s->cls->describe(s, out); }
void hr__scan_fingerprint(const hr_scan *s, hr_hash *h) { s->cls->fingerprint(s, h); }
int64_t hr__scan_floor_bytes(const hr_scan *s) { return s->cls->floor_bytes(s); }
bool hr__scan_orders_files(const hr_scan *s) { return s->cls->order != NULL; }
int hr__scan_n_inputs(const hr_scan *s) { return s->cls->input ? s->n_files : 0; }
void hr__scan_input(const hr_scan *s, int i, hr_scan_input *out) { s->cls->input(s, i, out); }
uint64_t hr__scan_memory_digest(hr_scan *s, const atomic_bool *stop)
{
    return s->cls->memory_digest ? s->cls->memory_digest(s, stop) : 0;
}

hr_status hr__scan_input_hashes(hr_scan *s, int begin, int end, uint64_t *out, hr_error *err)
{
    return s->cls->input_hashes(s, begin, end, out, err);
}

hr_status hr__scan_order(const hr_scan *s, uint64_t seed, int64_t epoch, int32_t **out, hr_error *err)
{
    *out = NULL;
    return s->cls->order ? s->cls->order(s, seed, epoch, out, err) : HR_OK;
}

/* Position of a projected name in the schema; HR_INVALID lists the existing names. */
static hr_status column_at(const hr_schema *s, const char *name, int *out, hr_error *err)
{
    *out = hr__schema_find(s, name);
    return *out < 0 ? hr__schema_missing(s, name, err) : HR_OK;
}

hr_status hr__scan_project(hr_schema *all, const hr_projection *projection, hr_schema **out, hr_error *err)
{
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!projection) {
        *out = hr__schema_ref(all);
        return HR_OK;
    }
    fields = hr__alloc(NULL, (size_t)projection->n * sizeof *fields);
    if (!fields)
        return hr__error_memory(err, "projection", projection->n * (int64_t)sizeof *fields);
    for (int i = 0; i < projection->n; i++) {
        int at;

        HR_GO(column_at(all, projection->names[i], &at, err));
        fields[i] = all->fields[at]; /* borrowed */
    }
    HR_GO(hr__schema_new(fields, projection->n, out, err));
done:
    hr__free(fields);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ files */

static const char *name_of(const file_scan *s, int file) { return hr__paths_shown(&s->paths, file); }

/* Fragments, positions and estimates depend on the listed sizes: a file with another size has other rows. */
static hr_status check_size(const file_scan *s, int file, const hr_source *source, hr_error *err)
{
    int64_t listed = s->paths.items[file].n_bytes;

    if (source->n_bytes == listed)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "%s: has %lld bytes, %lld when it was listed", source->name,
                        (long long)source->n_bytes, (long long)listed);
}

static hr_status open_source(file_scan *s, int file, const hr_open *how, hr_source **out, hr_error *err)
{
    hr_source *first = file == 0 ? atomic_load_explicit(&s->first_source, memory_order_acquire) : NULL;

    *out = how->source ? hr__source_ref(how->source) : first ? hr__source_again(first, how->account) : NULL;
    return *out ? HR_OK : hr__paths_open(&s->paths, file, how->account, out, err);
}

static hr_status open_file(file_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_open mine = *how;
    hr_source *source = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    mine.options = s->options;
    HR_GO(open_source(s, file, how, &source, err));
    HR_GO(check_size(s, file, source, err));
    HR_GO(s->format->open(source, &mine, out, err));
    (*out)->file = file;
    (*out)->is_remote = hr__source_is_remote(source);
done:
    hr__source_unref(source);
    return st;
}

/* The source of the first file, opened once. */
static hr_status begin_first(file_scan *s, hr_error *err)
{
    hr_source *none = NULL, *made;

    if (atomic_load_explicit(&s->first_source, memory_order_acquire))
        return HR_OK;
    HR_TRY(hr__paths_open(&s->paths, 0, NULL, &made, err));
    if (!atomic_compare_exchange_strong(&s->first_source, &none, made)) /* another thread was faster */
        hr__source_unref(made);
    return HR_OK;
}

/* The bytes from which a file's types come, and more behind them, which the run needs next. */
static void announce_types(const file_scan *s, hr_source *first, const hr_open *how)
{
    const hr_format *f = s->format;
    int64_t n = f->type_bytes && !hr__codec_by_suffix(first->name) ? f->type_bytes(s->options) : 0;

    if (!n)
        return;
    hr__source_ahead(first, 0, n);
    if (how)
        hr__source_ahead(how->source, n, how->ahead - n);
}

/* The first file, opened once. Borrowed from the scan. */
static hr_status first_file(file_scan *s, hr_scan_file **out, hr_error *err)
{
    hr_scan_file *none = NULL;

    *out = atomic_load_explicit(&s->first, memory_order_acquire);
    if (*out)
        return HR_OK;
    if (hr__paths_is_remote(&s->paths, 0)) {
        HR_TRY(begin_first(s, err));
        announce_types(s, atomic_load(&s->first_source), NULL);
    }
    HR_TRY(open_file(s, 0, &(hr_open){ .source = atomic_load(&s->first_source) }, out, err));
    if (!atomic_compare_exchange_strong(&s->first, &none, *out)) { /* another thread was faster */
        hr__scan_file_unref(*out);
        *out = none;
    }
    return HR_OK;
}

/* --- all files at once */

static _Atomic(hr_each *) run_each; /* see hr__scan_set_each */

void hr__scan_set_each(hr_each *each) { atomic_store(&run_each, each); }

#define FILES_BEGUN 64 /* over a network: the files ahead of the next one whose opening is announced */

/* source: of the file, announced; NULL: look opens it. */
typedef hr_status look_fn(file_scan *s, int file, hr_source *source, void *context, hr_error *err);

typedef struct files_call {
    file_scan *s;
    int first, end;
    look_fn *look;
    void *context;
    hr_mutex lock;     /* for the rest; held for no request */
    hr_source **begun; /* of files first + i, until they are looked at; NULL: nothing is announced */
    int64_t n_begun;
} files_call;

static hr_status begin_file(file_scan *s, int file, bool filtered, hr_account *account, hr_source **out, hr_error *err);

/* Announces the files up to FILES_BEGUN after i. A file that could not be begun is opened by its look. */
static void begin_ahead(files_call *c, int64_t i)
{
    int64_t end = HR_MIN(c->end - c->first, i + FILES_BEGUN);

    hr__lock(&c->lock);
    while (c->n_begun < end) {
        int64_t k = c->n_begun++;

        if (hr__paths_is_remote(&c->s->paths, c->first + k) &&
            begin_file(c->s, c->first + (int)k, false, NULL, &c->begun[k], NULL))
            c->begun[k] = NULL;
    }
    hr__unlock(&c->lock);
}

static hr_source *take_begun(files_call *c, int64_t i)
{
    hr_source *source;

    if (!c->begun)
        return NULL;
    begin_ahead(c, i);
    hr__lock(&c->lock);
    source = c->begun[i];
    c->begun[i] = NULL;
    hr__unlock(&c->lock);
    return source;
}

static hr_status look_at(void *context, int64_t i, hr_error *err)
{
    files_call *c = context;
    hr_source *source = take_begun(c, i);
    hr_status st = c->look(c->s, c->first + (int)i, source, c->context, err);

    hr__source_unref(source);
    return st;
}

static hr_status look_at_all(files_call *c, int n_threads, bool waits, hr_error *err)
{
    hr_each *each = atomic_load(&run_each);
    int n = HR_MIN(n_threads, (c->end - c->first) / FILES_A_THREAD);

    if (each && n > 1)
        return each(c->end - c->first, n, waits, look_at, c, err);
    for (int i = 0; i < c->end - c->first; i++)
        HR_TRY(look_at(c, i, err));
    return HR_OK;
}

/* Calls look for files [first, end) on up to n_threads: reading 10,000 footers one by one would take as long as reading
 * the data. Returns the error of the first file that fails. */
static hr_status each_file(file_scan *s, int first, int end, int n_threads, bool waits, look_fn *look, void *context,
                           hr_error *err)
{
    files_call c = { .s = s, .first = first, .end = end, .look = look, .context = context };

    return look_at_all(&c, n_threads, waits, err);
}

/* The same for looks that open the files: over a network, many files are under way at the same time. */
static hr_status open_each_file(file_scan *s, int first, int end, look_fn *look, void *context, hr_error *err)
{
    files_call c = { .s = s, .first = first, .end = end, .look = look, .context = context };
    bool remote = first < end && hr__paths_is_remote(&s->paths, first);
    hr_status st;

    if (!remote)
        return look_at_all(&c, hr_num_threads(), false, err);
    if (!(c.begun = hr__zalloc(NULL, (size_t)(end - first) * sizeof(hr_source *))))
        return hr__error_memory(err, "files", (end - first) * (int64_t)sizeof(hr_source *));
    hr__mutex_init(&c.lock);
    st = look_at_all(&c, READERS, true, err);
    for (int i = 0; i < end - first; i++)
        hr__source_unref(c.begun[i]);
    hr__mutex_clear(&c.lock);
    hr__free(c.begun);
    return st;
}

/* --- the schema */

static hr_status type_differs(const char *path, const hr_field *found, const char *other, const hr_field *expected,
                              const char *hint, hr_error *err)
{
    hr_text a = { 0 }, b = { 0 };
    hr_status st;

    hr__type_print(found->type, &a);
    hr__type_print(expected->type, &b);
    st = hr_error_set(err, HR_TYPE, "%s: column '%s' is %s, in %s it is %s%s", path, found->name, a.data ? a.data : "?",
                      other, b.data ? b.data : "?", hint);
    hr__text_clear(&a);
    hr__text_clear(&b);
    return st;
}

/* The columns of all files seen so far. */
typedef struct merger {
    hr_field *fields;
    int *from; /* for each column, the file that changed its type last */
    int64_t n, cap, from_cap;
} merger;

static hr_status merge_field(const file_scan *s, merger *m, int file, const hr_field *f, hr_error *err)
{
    hr_type *both = NULL;
    hr_field *mine = NULL;

    for (int64_t i = 0; i < m->n && !mine; i++) {
        if (strcmp(m->fields[i].name, f->name) != 0)
            continue;
        mine = &m->fields[i];
        HR_TRY(hr__type_unify(mine->type, f->type, &both, err));
        if (!both)
            return type_differs(name_of(s, file), f, name_of(s, m->from[i]), mine, "", err);
        if (!hr__type_equal(both, mine->type))
            m->from[i] = file;
        hr__type_unref(mine->type);
        mine->type = both;
        mine->nullable = true;
    }
    if (mine)
        return HR_OK;
    if (!hr__grow(NULL, (void **)&m->fields, &m->cap, m->n + 1, sizeof *m->fields) ||
        !hr__grow(NULL, (void **)&m->from, &m->from_cap, m->n + 1, sizeof *m->from))
        return hr__error_memory(err, name_of(s, file), (m->n + 1) * (int64_t)sizeof *m->fields);
    HR_TRY(hr__field_copy(&m->fields[m->n], f, err));
    m->fields[m->n].nullable = true;
    m->from[m->n++] = file;
    return HR_OK;
}

static hr_status note_schema(file_scan *s, int file, hr_source *source, void *context, hr_error *err)
{
    hr_schema **schemas = context;
    hr_scan_file *f = NULL;

    HR_TRY(open_file(s, file, &(hr_open){ .source = source }, &f, err));
    schemas[file] = hr__schema_ref(hr__schema_equal(f->schema, schemas[0]) ? schemas[0] : f->schema);
    hr__scan_file_unref(f);
    return HR_OK;
}

static hr_status unify_files(file_scan *s, hr_schema **out, hr_error *err)
{
    hr_schema **schemas = hr__zalloc(NULL, (size_t)s->base.n_files * sizeof *schemas);
    hr_scan_file *first;
    hr_status st = HR_OK;
    merger m = { 0 };

    if (!schemas)
        return hr__error_memory(err, "schemas", s->base.n_files * (int64_t)sizeof *schemas);
    HR_GO(first_file(s, &first, err));
    schemas[0] = hr__schema_ref(first->schema);
    HR_GO(open_each_file(s, 1, s->base.n_files, note_schema, schemas, err));
    for (int i = 0; i < s->base.n_files; i++) {
        for (int k = 0; k < schemas[i]->n && (i == 0 || schemas[i] != schemas[i - 1]); k++)
            HR_GO(merge_field(s, &m, i, &schemas[i]->fields[k], err));
    }
    HR_GO(hr__schema_new(m.fields, (int)m.n, out, err));
done:
    for (int i = 0; i < s->base.n_files; i++)
        hr__schema_unref(schemas[i]);
    for (int64_t i = 0; i < m.n; i++)
        hr__field_clear(&m.fields[i]);
    hr__free(m.fields);
    hr__free(m.from);
    hr__free(schemas);
    return st;
}

static int partition_at(const file_scan *s, const char *name)
{
    for (int i = 0; i < s->partitions.n; i++) {
        if (strcmp(s->partitions.fields[i].name, name) == 0)
            return i;
    }
    return -1;
}

static bool is_path(const file_scan *s, const char *name)
{
    return s->path_column && strcmp(name, s->path_column) == 0;
}

static hr_status path_is_taken(const file_scan *s, const hr_schema *files, hr_error *err)
{
    int at = s->path_column ? hr__schema_find(files, s->path_column) : -1;

    if (s->path_column && partition_at(s, s->path_column) >= 0)
        return hr_error_set(err, HR_INVALID, "%s: the folders have a column '%s': include_paths needs another name",
                            name_of(s, 0), s->path_column);
    if (at < 0 || (s->given && files->fields[at].type->id == HR_T_STRING))
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "%s: has a column '%s' of its own: include_paths needs another name",
                        name_of(s, 0), s->path_column);
}

/* The type of partition column `at` if files have a column of that name: the files' type, unless the caller gives
 * one. */
static hr_field folder_field(const file_scan *s, int at, const hr_field *own)
{
    hr_field f = s->partitions.fields[at];

    if (!s->partitions.given[at] && own->type->id != HR_T_NULL)
        f.type = own->type;
    return f;
}

/* The files' columns, the partition columns (in the place of a column of the same name, or after the others), and the
 * path. */
static hr_status whole_schema(const file_scan *s, hr_schema *files, hr_schema **out, hr_error *err)
{
    hr_field *fields, path = { 0 };
    hr_status st = HR_OK;
    int n = files->n;

    HR_TRY(path_is_taken(s, files, err));
    if (s->partitions.n == 0 && !s->path_column) {
        *out = hr__schema_ref(files);
        return HR_OK;
    }
    fields = hr__alloc(NULL, ((size_t)n + (size_t)s->partitions.n + 1) * sizeof *fields); /* borrowed ones */
    if (!fields)
        return hr__error_memory(err, "schema", (n + s->partitions.n + 1) * (int64_t)sizeof *fields);
    for (int i = 0; i < n; i++) {
        int at = partition_at(s, files->fields[i].name);

        fields[i] = at >= 0 ? folder_field(s, at, &files->fields[i]) : files->fields[i];
    }
    for (int i = 0; i < s->partitions.n; i++) {
        if (hr__schema_find(files, s->partitions.fields[i].name) < 0)
            fields[n++] = s->partitions.fields[i];
    }
    if (s->path_column && hr__schema_find(files, s->path_column) < 0) {
        HR_GO(hr__field_init(&path, s->path_column, hr__type_simple(HR_T_STRING), false, err));
        fields[n++] = path;
    }
    HR_GO(hr__schema_new(fields, n, out, err));
done:
    hr__field_clear(&path);
    hr__free(fields);
    return st;
}

static void types_free(scan_types *t)
{
    if (t) {
        hr__schema_unref(t->files);
        hr__schema_unref(t->whole);
        for (int i = 0; t->folders && i < t->n_folders; i++)
            hr__array_unref(t->folders[i]);
        hr__free(t->folders);
    }
    hr__free(t);
}

static hr_status find_folders(const file_scan *s, scan_types *t, hr_error *err)
{
    t->n_folders = s->partitions.n;
    t->folders = hr__zalloc(NULL, ((size_t)t->n_folders + 1) * sizeof *t->folders);
    if (!t->folders)
        return hr__error_memory(err, "partitions", t->n_folders * (int64_t)sizeof *t->folders);
    for (int i = 0; i < t->n_folders; i++) {
        int at = hr__schema_find(t->whole, s->partitions.fields[i].name);

        HR_TRY(hr__partitions_as(&s->partitions, &s->paths, i, t->whole->fields[at].type, &t->folders[i], err));
    }
    return HR_OK;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static hr_status find_repeated_names(const hr_schema *s, bool *out, hr_error *err)
{
    const char **names = hr__alloc(NULL, ((size_t)s->n + 1) * sizeof *names);

    if (!names)
        return hr__error_memory(err, "schema", s->n * (int64_t)sizeof *names);
    for (int i = 0; i < s->n; i++)
        names[i] = s->fields[i].name;
    qsort(names, (size_t)s->n, sizeof *names, compare_names);
    for (int i = 1; i < s->n && !*out; i++)
        *out = strcmp(names[i - 1], names[i]) == 0;
    hr__free(names);
    return HR_OK;
}

static hr_status find_types(file_scan *s, scan_types *out, hr_error *err)
{
    hr_scan_file *first;

    if (s->given) {
        out->files = hr__schema_ref(s->given);
    } else if (s->unify) {
        HR_TRY(unify_files(s, &out->files, err));
    } else {
        HR_TRY(first_file(s, &first, err));
        out->files = hr__schema_ref(first->schema);
    }
    HR_TRY(find_repeated_names(out->files, &out->names_repeat, err));
    HR_TRY(whole_schema(s, out->files, &out->whole, err));
    return find_folders(s, out, err);
}

/* Computed once, like the first file. Borrowed from the scan. */
static hr_status types_of(file_scan *s, const scan_types **out, hr_error *err)
{
    scan_types *found = atomic_load_explicit(&s->types, memory_order_acquire), *none = NULL;
    hr_status st;

    if (!found) {
        found = hr__zalloc(NULL, sizeof *found);
        if (!found)
            return hr__error_memory(err, "schema", sizeof *found);
        st = find_types(s, found, err);
        if (st) {
            types_free(found);
            return st;
        }
        if (!atomic_compare_exchange_strong(&s->types, &none, found)) { /* another thread was faster */
            types_free(found);
            found = none;
        }
    }
    *out = found;
    return HR_OK;
}

static hr_status files_schema(hr_scan *base, hr_schema **out, hr_error *err)
{
    const scan_types *types;

    HR_TRY(types_of((file_scan *)base, &types, err));
    *out = hr__schema_ref(types->whole);
    return HR_OK;
}

/* --- one file */

/* The projected columns of the scan, and the names of the columns that files can have. */
typedef struct wanted {
    hr_schema *schema;
    hr_projection own;
    const char **names;
} wanted;

static void wanted_clear(wanted *w)
{
    hr__schema_unref(w->schema);
    hr__free(w->names);
}

static hr_status find_wanted(const file_scan *s, const scan_types *types, const hr_projection *projection, wanted *out,
                             hr_error *err)
{
    HR_TRY(hr__scan_project(types->whole, projection, &out->schema, err));
    out->names = hr__alloc(NULL, ((size_t)out->schema->n + 1) * sizeof *out->names);
    if (!out->names)
        return hr__error_memory(err, "projection", out->schema->n * (int64_t)sizeof *out->names);
    for (int i = 0; i < out->schema->n; i++) {
        const char *name = out->schema->fields[i].name;

        if (!is_path(s, name) && partition_at(s, name) < 0)
            out->names[out->own.n++] = name;
    }
    out->own.names = out->names;
    return HR_OK;
}

/* Columns that a file lacks are null, but not all of them. */
static hr_status check_shared_columns(const file_scan *s, int file, const hr_schema *found, const hr_schema *wanted,
                                      hr_error *err)
{
    if (s->unify || s->given)
        return HR_OK;
    for (int i = 0; i < wanted->n; i++)
        if (hr__schema_find(found, wanted->fields[i].name) >= 0)
            return HR_OK;
    return hr_error_set(err, HR_TYPE, "%s: has none of the columns of %s ('%s', ...)", name_of(s, file), name_of(s, 0),
                        wanted->fields[0].name);
}

/* The file lacks some columns: opens it with the columns that it has. */
static hr_status open_part(file_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_open mine = *how;
    hr_projection part = { 0, NULL };
    hr_scan_file *all = NULL;
    const char **names = NULL;
    hr_status st = HR_OK;

    mine.projection = NULL;
    mine.filter = NULL;
    HR_GO(open_file(s, file, &mine, &all, err));
    HR_GO(check_shared_columns(s, file, all->schema, how->schema, err));
    names = hr__alloc(NULL, ((size_t)how->projection->n + 1) * sizeof *names);
    if (!names)
        HR_GO(hr__error_memory(err, name_of(s, file), how->projection->n * (int64_t)sizeof *names));
    for (int i = 0; i < how->projection->n; i++) {
        if (hr__schema_find(all->schema, how->projection->names[i]) >= 0)
            names[part.n++] = how->projection->names[i];
    }
    part.names = names;
    mine.projection = &part;
    mine.options = s->options;
    HR_GO(all->cls->project ? all->cls->project(all, &mine, out, err) : open_file(s, file, &mine, out, err));
done:
    hr__free(names);
    hr__scan_file_unref(all);
    return st;
}

static hr_status open_own(file_scan *s, int file, const hr_open *how, bool all, hr_scan_file **out, hr_error *err)
{
    /* A run of a remote file has a source of its own, whose bytes are the run's. */
    bool alone = s->given || file > 0 || hr__paths_is_remote(&s->paths, file);
    hr_scan_file *first = alone ? NULL : atomic_load_explicit(&s->first, memory_order_acquire);
    hr_open mine = *how;
    hr_status st;

    if (!first || s->unify) {
        st = open_file(s, file, how, out, err);
        if (st == HR_NOT_FOUND &&
            how->projection) { /* a missing column; or a missing file, which the next call reports */
            hr_error_clear(err);
            st = open_part(s, file, how, out, err);
        }
        return st;
    }
    if (all && !first->cls->project && !how->image_steps) {
        *out = hr__scan_file_ref(first);
        return HR_OK;
    }
    if (all)
        mine.projection = NULL;
    mine.options = s->options;
    return first->cls->project ? first->cls->project(first, &mine, out, err) : open_file(s, 0, &mine, out, err);
}

/* The column `name` that follows `before` others of this name; if the file has fewer, its first one. -1: none. */
static int nth_column(const hr_schema *s, const char *name, int before)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->fields[i].name, name) == 0 && before-- == 0)
            return i;
    return hr__schema_find(s, name);
}

/* Wanted columns before column `at` that have its name. */
static int n_same_before(const wanted *w, int at)
{
    int n = 0;

    for (int i = 0; i < at; i++)
        n += strcmp(w->own.names[i], w->own.names[at]) == 0;
    return n;
}

/* The file's column for wanted column `at`, after a check of its type. -1: the file has none. before: as for
 * nth_column; -1: no name repeats, and the file most likely has the column at the same place. */
static hr_status own_column(const file_scan *s, int file, const hr_scan_file *f, const hr_field *want, int at,
                            int before, int *out, hr_error *err)
{
    hr_type *both = NULL;
    hr_status st = HR_OK;
    bool widens, unifies;

    *out = before < 0 && at < f->schema->n && !strcmp(f->schema->fields[at].name, want->name)
               ? at
               : nth_column(f->schema, want->name, before);
    if (*out < 0)
        return HR_OK;
    HR_GO(hr__type_widens(f->schema->fields[*out].type, want->type, &widens, err));
    if (widens)
        goto done;
    HR_GO(hr__type_unify(want->type, f->schema->fields[*out].type, &both, err));
    unifies = both != NULL;
    st = type_differs(name_of(s, file), &f->schema->fields[*out], s->given ? "the schema" : name_of(s, 0), want,
                      unifies ? " (unify=\"all\" finds a type for both)" : "", err);
done:
    hr__type_unref(both);
    return st;
}

/* An image column has the type that the reader's steps make. */
static hr_status want_images(const file_scan *s, const hr_scan_file *f, wanted *w, hr_error *err)
{
    hr_schema *old = w->schema;
    const char *name = s->format->image_column(s->options);
    int from = hr__schema_find(f->schema, name), to = hr__schema_find(old, name);
    hr_field *fields;
    hr_status st;

    if (from < 0 || to < 0)
        return HR_OK;
    fields = hr__alloc(NULL, (size_t)old->n * sizeof *fields); /* borrowed ones */
    if (!fields)
        return hr__error_memory(err, f->name, old->n * (int64_t)sizeof *fields);
    memcpy(fields, old->fields, (size_t)old->n * sizeof *fields);
    fields[to].type = f->schema->fields[from].type;
    st = hr__schema_new(fields, old->n, &w->schema, err);
    hr__free(fields);
    if (st)
        w->schema = old;
    else
        hr__schema_unref(old);
    return st;
}

static bool same_columns(const hr_scan_file *f, const wanted *w)
{
    return w->own.n == w->schema->n && hr__schema_equal(f->schema, w->schema);
}

static hr_status add_constant(const file_scan *s, const scan_types *types, int file, const char *name,
                              hr_file_column *out, hr_error *err)
{
    int at = partition_at(s, name);
    hr_builder *b = NULL;
    hr_status st = HR_OK;

    if (at >= 0)
        return hr__array_slice(types->folders[at], file, 1, &out->value, err);
    HR_GO(hr__builder_new(NULL, hr__type_simple(HR_T_STRING), &b, err));
    HR_GO(hr__builder_bytes(b, name_of(s, file), (int64_t)strlen(name_of(s, file)), err));
    HR_GO(hr__builder_finish(b, &out->value, err));
done:
    hr__builder_free(b);
    return st;
}

/* Takes f, even on failure. */
static hr_status add_file_columns(const file_scan *s, const scan_types *types, int file, hr_scan_file *f,
                                  const wanted *w, hr_account *account, hr_scan_file **out, hr_error *err)
{
    hr_file_column *columns = NULL;
    hr_status st = HR_OK;
    int n = w->schema->n, n_own = 0;

    if (same_columns(f, w)) {
        *out = f;
        return HR_OK;
    }
    columns = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *columns);
    if (!columns)
        HR_GO(hr__error_memory(err, name_of(s, file), n * (int64_t)sizeof *columns));
    for (int i = 0; i < n; i++) {
        const hr_field *want = &w->schema->fields[i];

        columns[i].inner = -1;
        if (is_path(s, want->name) || partition_at(s, want->name) >= 0)
            HR_GO(add_constant(s, types, file, want->name, &columns[i], err));
        else {
            HR_GO(own_column(s, file, f, want, n_own, types->names_repeat ? n_same_before(w, n_own) : -1,
                             &columns[i].inner, err));
            n_own++;
        }
    }
    st = hr__scan_add_file_columns(f, w->schema, columns, account, out, err);
    f = NULL; /* taken */
done:
    for (int i = 0; columns && i < n; i++)
        hr__array_unref(columns[i].value);
    hr__free(columns);
    hr__scan_file_unref(f);
    return st;
}

/* Says once that a file has columns that the first one lacks: nobody asked to leave them out. `found`: the file with
 * those that the first one has. */
static hr_status tell_unread(file_scan *s, const scan_types *types, int file, const hr_open *how,
                             const hr_scan_file *found, hr_error *err)
{
    hr_scan_file *whole = NULL;
    hr_text names = { 0 };
    int n = 0;

    if (found->n_columns <= found->schema->n || atomic_exchange(&s->told_unread, true))
        return HR_OK;
    HR_TRY(open_file(s, file, &(hr_open){ .account = how->account, .source = how->source }, &whole, err));
    for (int i = 0; i < whole->schema->n; i++) {
        const char *name = whole->schema->fields[i].name;

        if (hr__schema_find(types->whole, name) < 0 && n++ < MOST_TOLD)
            hr__text_add(&names, "%s'%.100s'", n > 1 ? ", " : "", name);
    }
    hr__scan_file_unref(whole);
    if (names.failed)
        return hr__error_memory(err, name_of(s, file), names.n);
    if (n > 0)
        hr__log(HR_LOG_WARNING, "%s: %s%s: not read, since %s lacks %s; unify=\"all\" reads the columns of all files",
                name_of(s, file), names.data, n > MOST_TOLD ? ", ..." : "", name_of(s, 0), n > 1 ? "them" : "it");
    hr__text_clear(&names);
    return HR_OK;
}

/* --- filters */

/* A file for which a filter is evaluated: partition columns and the path have one value in it. */
typedef struct one_file {
    const file_scan *s;
    const scan_types *types;
    int file;
    hr_file_column value; /* of the last column that was looked up */
} one_file;

static bool value_bounds(void *context, const char *column, hr_bounds *out)
{
    one_file *f = context;
    bool is_null;

    if (!is_path(f->s, column) && partition_at(f->s, column) < 0)
        return false;
    hr__array_unref(f->value.value);
    f->value.value = NULL;
    if (add_constant(f->s, f->types, f->file, column, &f->value, NULL))
        return false;
    is_null = hr__array_is_null(f->value.value, 0);
    *out = (hr_bounds){ .n_rows = 1, .null_count = is_null };
    if (!is_null)
        out->least = out->most = f->value.value;
    return true;
}

/* The filter for files whose names have a part in it; NULL: they have none. */
static hr_bound *filter_of_names(const file_scan *s, const scan_types *types, hr_expr *filter)
{
    hr_bound *bound = NULL;

    if (!filter || (s->partitions.n == 0 && !s->path_column))
        return NULL;
    return hr__expr_bind_filter(filter, types->whole, &bound, NULL) ? NULL : bound;
}

static bool never_passes(const file_scan *s, const scan_types *types, int file, const hr_bound *bound)
{
    one_file f = { .s = s, .types = types, .file = file };
    hr_pruner pruner = { .context = &f, .bounds = value_bounds };
    bool never = hr__bound_prune(bound, &pruner) == HR_TRUTH_NEVER;

    hr__array_unref(f.value.value);
    return never;
}

/* Whether no row of the file can pass the filter, so that no reader opens it. */
static bool ruled_out(const file_scan *s, const scan_types *types, int file, hr_expr *filter)
{
    hr_bound *bound = filter_of_names(s, types, filter);
    bool never = bound && never_passes(s, types, file, bound);

    hr__bound_free(bound);
    return never;
}

static int files_left(const hr_scan *base, hr_expr *filter)
{
    const file_scan *s = (const file_scan *)base;
    const scan_types *types = atomic_load_explicit(&s->types, memory_order_acquire);
    hr_bound *bound = types ? filter_of_names(s, types, filter) : NULL;
    int n = 0;

    if (!bound)
        return -1;
    for (int i = 0; i < base->n_files; i++)
        n += !never_passes(s, types, i, bound);
    hr__bound_free(bound);
    return n;
}

typedef struct own_terms {
    const file_scan *s;
    hr_expr *all;
} own_terms;

static hr_status add_own_term(void *context, hr_expr *term, hr_error *err)
{
    own_terms *t = context;
    const char **names = NULL;
    hr_expr *both = NULL;
    bool own = true;
    int n = 0;

    HR_TRY(hr__expr_columns(term, &names, &n, err));
    for (int i = 0; i < n; i++)
        own = own && !is_path(t->s, names[i]) && partition_at(t->s, names[i]) < 0;
    hr__free(names);
    if (!own)
        return HR_OK;
    HR_TRY(hr__expr_and(t->all, term, &both, err));
    hr_expr_unref(t->all);
    t->all = both;
    return HR_OK;
}

/* The terms of a filter over the file's own columns. A partition column hides a column of the file, whose values may
 * differ. */
static hr_status own_filter(const file_scan *s, hr_expr *filter, hr_expr **out, hr_error *err)
{
    own_terms t = { .s = s };
    hr_status st = filter ? hr__expr_each_term(filter, add_own_term, &t, err) : HR_OK;

    if (st)
        hr_expr_unref(t.all);
    else
        *out = t.all;
    return st;
}

/* A filter over values of other types than the scan's may mean something else (an integer's division). */
static bool other_types(const hr_scan_file *f, const wanted *w)
{
    for (int i = 0; i < f->schema->n; i++) {
        int at = hr__schema_find(w->schema, f->schema->fields[i].name);

        if (at >= 0 && !hr__type_equal(f->schema->fields[i].type, w->schema->fields[at].type))
            return true;
    }
    return false;
}

/* The first file is opened before its schema is known: what has come for the run serves the schema, and what the schema
 * needs beyond it serves the run. */
static hr_status share_first(file_scan *s, const hr_open *how, hr_error *err)
{
    hr_source *none = NULL, *made = hr__source_again(how->source, NULL);
    const scan_types *types;

    if (made && !atomic_compare_exchange_strong(&s->first_source, &none, made))
        hr__source_unref(made);
    if (made)
        announce_types(s, atomic_load(&s->first_source), how);
    HR_TRY(types_of(s, &types, err));
    if (made)
        hr__source_take(how->source, atomic_load(&s->first_source));
    return HR_OK;
}

static hr_status files_open(hr_scan *base, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    file_scan *s = (file_scan *)base;
    const scan_types *types;
    hr_open mine = *how;
    hr_scan_file *f = NULL;
    hr_expr *filter = NULL;
    wanted w = { 0 };
    bool all = !how->projection && s->partitions.n == 0, whole;
    hr_status st = HR_OK;

    if (file == 0 && how->source && !atomic_load(&s->first) && !s->given)
        HR_GO(share_first(s, how, err));
    HR_GO(types_of(s, &types, err));
    HR_GO(find_wanted(s, types, how->projection, &w, err));
    if (ruled_out(s, types, file, how->filter)) {
        HR_GO(hr__scan_file_empty(name_of(s, file), w.schema, how->account, out, err));
        goto done;
    }
    HR_GO(own_filter(s, how->filter, &filter, err));
    /* Names find only the first of the columns that share one, so all columns are opened. */
    whole = types->names_repeat && !how->projection;
    mine.projection = whole ? NULL : &w.own;
    mine.schema = types->files;
    mine.declared = s->given != NULL;
    mine.filter = filter;
    HR_GO(open_own(s, file, &mine, all, &f, err));
    if (filter && other_types(f, &w)) {
        hr__scan_file_unref(f);
        f = NULL;
        mine.filter = NULL;
        HR_GO(open_own(s, file, &mine, all, &f, err));
    }
    if (file > 0 && !how->projection && !s->given && !s->unify && (st = tell_unread(s, types, file, how, f, err))) {
        hr__scan_file_unref(f);
        goto done;
    }
    if (whole && file > 0 && (st = check_shared_columns(s, file, f->schema, types->files, err))) {
        hr__scan_file_unref(f);
        goto done;
    }
    if (f->file != file)
        f->file = file; /* origins carry the number of the scan's file */
    if (how->image_steps && (st = want_images(s, f, &w, err))) {
        hr__scan_file_unref(f);
        goto done;
    }
    st = add_file_columns(s, types, file, f, &w, how->account, out, err);
done:
    hr_expr_unref(filter);
    wanted_clear(&w);
    return st;
}

/* --- facts about all files */

static hr_status rows_of_file(file_scan *s, int file, hr_source *source, void *context, hr_error *err)
{
    static const hr_projection nothing = { 0, NULL };
    int64_t *rows = context;
    hr_scan_file *f = NULL;

    HR_TRY(open_file(s, file, &(hr_open){ .projection = &nothing, .source = source }, &f, err));
    rows[file] = f->n_rows;
    hr__scan_file_unref(f);
    return HR_OK;
}

/* The sum of the rows of all files; -1: a file does not know its own. */
static hr_status sum_rows(const file_scan *s, const int64_t *rows, int64_t *out, hr_error *err)
{
    *out = 0;
    for (int i = 0; i < s->base.n_files; i++) {
        if (rows[i] < 0) {
            *out = -1;
            return HR_OK;
        }
        if (rows[i] > INT64_MAX - *out)
            return hr_error_set(err, HR_BAD_DATA, "%s: more than 2^63 rows", name_of(s, i));
        *out += rows[i];
    }
    return HR_OK;
}

static hr_status files_count(hr_scan *base, int64_t *out, hr_error *err)
{
    file_scan *s = (file_scan *)base;
    hr_scan_file *first = atomic_load_explicit(&s->first, memory_order_acquire);
    int64_t *rows = atomic_load_explicit(&base->file_rows, memory_order_acquire), *none = NULL;
    hr_status st = HR_OK;

    if (rows)
        return sum_rows(s, rows, out, err);
    if (!(rows = hr__zalloc(NULL, ((size_t)base->n_files + 1) * sizeof *rows)))
        return hr__error_memory(err, "count", base->n_files * (int64_t)sizeof *rows);
    if (!first && hr__paths_is_remote(&s->paths, 0))
        HR_GO(first_file(s, &first, err)); /* what comes serves the schema and the rows, too */
    if (first)
        rows[0] = first->n_rows;
    else
        HR_GO(rows_of_file(s, 0, NULL, rows, err));
    if (rows[0] < 0) { /* then no other file knows its rows */
        *out = -1;
        goto done;
    }
    HR_GO(open_each_file(s, 1, base->n_files, rows_of_file, rows, err));
    HR_GO(sum_rows(s, rows, out, err));
    if (*out >= 0 && atomic_compare_exchange_strong(&base->file_rows, &none, rows))
        rows = NULL; /* moved */
done:
    hr__free(rows);
    return st;
}

typedef struct place {
    uint64_t key;
    int32_t file;
} place;

static int by_key(const void *a, const void *b)
{
    const place *x = a, *y = b;

    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->file > y->file) - (x->file < y->file);
}

static hr_status files_order(const hr_scan *base, uint64_t seed, int64_t epoch, int32_t **out, hr_error *err)
{
    const file_scan *s = (const file_scan *)base;
    int n = base->n_files;
    place *places;

    if (!s->shuffle)
        return HR_OK;
    places = hr__alloc(NULL, (size_t)n * sizeof *places);
    *out = hr__alloc(NULL, (size_t)n * sizeof **out);
    if (!places || !*out) {
        hr__free(places);
        hr__free(*out);
        *out = NULL;
        return hr__error_memory(err, "order of files", n * (int64_t)sizeof *places);
    }
    for (int i = 0; i < n; i++)
        places[i] = (place){ hr__random_bits(s->has_seed ? s->seed : seed, s->shuffle_once ? 0 : (uint64_t)epoch,
                                             ORDER_OF_FILES, (uint64_t)i)
                                 .lo,
                             i };
    qsort(places, (size_t)n, sizeof *places, by_key);
    for (int i = 0; i < n; i++)
        (*out)[i] = places[i].file;
    hr__free(places);
    return HR_OK;
}

static int64_t files_row_bytes(const hr_scan *base, int file)
{
    const file_scan *s = (const file_scan *)base;
    int64_t n = s->paths.items[file].n_bytes;

    return s->format->row_growth && n >= 0 && n < INT32_MAX ? n * s->format->row_growth : -1;
}

#define TEXT_ROW_BYTES 50 /* assumed for a file that does not know its number of rows */

static int64_t files_guess_rows(const hr_scan *base)
{
    const file_scan *s = (const file_scan *)base;
    const hr_scan_file *first = atomic_load_explicit(&s->first, memory_order_acquire);
    double sum = 0;

    for (int i = 0; i < base->n_files; i++)
        sum += s->paths.items[i].n_bytes > 0 ? (double)s->paths.items[i].n_bytes : 0;
    if (!first || first->n_rows < 0 || s->paths.items[0].n_bytes <= 0)
        return sum > 0 ? (int64_t)(sum / TEXT_ROW_BYTES) : -1;
    return (int64_t)((double)first->n_rows * sum / (double)s->paths.items[0].n_bytes);
}

static const char *files_image_column(const hr_scan *base)
{
    const file_scan *s = (const file_scan *)base;
    const char *name = s->format->image_column ? s->format->image_column(s->options) : NULL;

    return name && !s->given && partition_at(s, name) < 0 && !is_path(s, name) ? name : NULL;
}

static const char *files_name(const hr_scan *base, int file)
{
    return file >= 0 && file < base->n_files ? name_of((const file_scan *)base, file) : NULL;
}

static const char *files_path(const hr_scan *base, int file)
{
    return file >= 0 && file < base->n_files ? hr__paths_name(&((const file_scan *)base)->paths, file) : NULL;
}

static void add_size(hr_text *out, int64_t n)
{
    if (n < 1000)
        hr__text_add(out, "%lld bytes", (long long)n);
    else if (n < 1000000)
        hr__text_add(out, "%.1f kB", (double)n / 1e3);
    else if (n < 1000000000)
        hr__text_add(out, "%.1f MB", (double)n / 1e6);
    else
        hr__text_add(out, "%.1f GB", (double)n / 1e9);
}

static void files_describe(const hr_scan *base, hr_text *out)
{
    const file_scan *s = (const file_scan *)base;
    int64_t n_bytes = 0;

    for (int i = 0; i < base->n_files; i++)
        n_bytes += s->paths.items[i].n_bytes;
    hr__text_add(out, "read_%s [%d file%s, ", s->format->name, base->n_files, base->n_files == 1 ? "" : "s");
    add_size(out, n_bytes);
    hr__text_add(out, "] %s%s", name_of(s, 0), base->n_files > 1 ? " ..." : "");
    for (int i = 0; i < s->partitions.n; i++)
        hr__text_add(out, "%s%s", i ? ", " : " partitions=", s->partitions.fields[i].name);
    hr__text_add(out, "%s%s%s", s->given ? " schema=given" : "", s->unify ? " unify=all" : "",
                 s->shuffle ? " shuffle=files" : "");
}

static void files_fingerprint(const hr_scan *base, hr_hash *h)
{
    const file_scan *s = (const file_scan *)base;
    hr_text schema = { 0 };

    hr__hash_text(h, "files");
    hr__hash_text(h, s->format->name);
    hr__hash_text(h, s->settings.data);
    hr__hash_text(h, s->path_column);
    for (int i = 0; i < s->partitions.n; i++) {
        hr__hash_text(h, s->partitions.fields[i].name);
        hr__hash_text(h, hr__type_format(s->partitions.fields[i].type));
        /* names below the shared folder do not contain the values */
        hr__array_digest(s->partitions.values[i], h, NULL);
    }
    if (s->given) {
        hr__schema_print(s->given, &schema);
        hr__hash_text(h, schema.data);
    }
    hr__text_clear(&schema);
    if (s->unify || s->given || s->shuffle || s->partitions.n)
        hr__hash_int(h, s->unify + 2 * s->shuffle + 4 * s->shuffle_once + 8 * s->has_seed + 16 * (s->given != NULL));
    if (s->has_seed)
        hr__hash_int(h, (int64_t)s->seed);
}

/* --- hashes of files, for positions */

/* Bytes of the folder that all files lie in, with its '/': every path begins with it. */
static int64_t shared_folder(const hr_paths *p)
{
    const char *first = hr__paths_shown(p, 0), *slash = strrchr(first, '/');
    int64_t n = slash ? slash + 1 - first : 0;

    for (int64_t i = 1; i < p->n && n > 0; i++) {
        const char *path = hr__paths_shown(p, i);
        int64_t k = 0;

        while (k < n && path[k] == first[k])
            k++;
        while (k > 0 && first[k - 1] != '/')
            k--;
        n = k;
    }
    return n;
}

static void files_input(const hr_scan *base, int i, hr_scan_input *out)
{
    const file_scan *s = (const file_scan *)base;

    *out = (hr_scan_input){ name_of(s, i) + s->shared, s->paths.items[i].n_bytes, s->paths.items[i].mtime_ns };
}

/* The offset of block i of n in the file. The blocks of a small file cover it. */
static int64_t block_at(int64_t n_bytes, int i, int n, int64_t block)
{
    return n_bytes <= n * block ? i * block : (int64_t)((double)(n_bytes - block) * i / (n - 1));
}

static hr_status hash_blocks(hr_source *source, int n, int64_t block, uint64_t *out, hr_error *err)
{
    uint8_t bytes[BLOCK_BYTES];
    hr_hash h;

    hr__hash_init(&h, 1);
    hr__hash_int(&h, source->n_bytes);
    for (int i = 0; i < n; i++) {
        int64_t got = 0;

        HR_TRY(hr__source_read_some(source, bytes, block_at(source->n_bytes, i, n, block), block, &got, err));
        if (!got)
            break;
        hr__hash_add(&h, bytes, (size_t)got);
    }
    *out = HR_MAX(hr__hash_end(&h).lo, NOT_KNOWN + 1);
    return HR_OK;
}

/* Fills the file's place in s->hashes. A file that cannot be read is NOT_KNOWN, not an error: the comparison of hashes
 * decides whether it matters. */
static hr_status hash_file(file_scan *s, int file, hr_source *none, void *context, hr_error *err)
{
    _Atomic uint64_t *place = (_Atomic uint64_t *)context + file;
    const hr_path *listed = &s->paths.items[file];
    int n_files = s->base.n_files, n = HR_MAX(2, HR_MIN(MAX_BLOCKS, BLOCKS_OF_ALL_FILES / n_files));
    hr_source *source = NULL;
    uint64_t found = NOT_KNOWN;
    hr_status st;

    (void)none;
    if (atomic_load_explicit(place, memory_order_relaxed))
        return HR_OK;
    if (listed->tag) { /* the object's version, which every request requires */
        atomic_store_explicit(place, HR_MAX((uint64_t)listed->mtime_ns, NOT_KNOWN + 1), memory_order_relaxed);
        return HR_OK;
    }
    st = hr__paths_open(&s->paths, file, NULL, &source, err);
    if (!st && source->n_bytes == listed->n_bytes && source->mtime_ns == listed->mtime_ns)
        st = hash_blocks(source, n, n_files > BLOCKS_OF_ALL_FILES ? SMALL_BLOCK_BYTES : BLOCK_BYTES, &found, err);
    hr__source_unref(source);
    if (st == HR_NO_MEMORY)
        return st;
    if (st)
        hr_error_clear(err);
    atomic_store_explicit(place, found, memory_order_relaxed);
    return HR_OK;
}

/* The array of hashes, one for each file; the first caller makes it. */
static hr_status hashes_of(file_scan *s, _Atomic uint64_t **out, hr_error *err)
{
    _Atomic uint64_t *none = NULL, *made;

    *out = atomic_load_explicit(&s->hashes, memory_order_acquire);
    if (*out)
        return HR_OK;
    made = hr__zalloc(NULL, (size_t)s->base.n_files * sizeof *made);
    if (!made)
        return hr__error_memory(err, "hashes of files", s->base.n_files * (int64_t)sizeof *made);
    *out = made;
    if (!atomic_compare_exchange_strong(&s->hashes, &none, made)) { /* another thread was faster */
        hr__free((void *)made);
        *out = none;
    }
    return HR_OK;
}

static bool all_hashed(_Atomic uint64_t *hashes, int begin, int end)
{
    while (begin < end && atomic_load_explicit(&hashes[begin], memory_order_relaxed))
        begin++;
    return begin == end;
}

static hr_status files_hashes(hr_scan *base, int begin, int end, uint64_t *out, hr_error *err)
{
    file_scan *s = (file_scan *)base;
    _Atomic uint64_t *hashes;

    if (base->n_files > HR_MAX_HASHED_FILES) {
        memset(out, 0, (size_t)(end - begin) * sizeof *out);
        return HR_OK;
    }
    HR_TRY(hashes_of(s, &hashes, err));
    if (!all_hashed(hashes, begin, end))
        HR_TRY(each_file(s, begin, end, READERS, true, hash_file, (void *)hashes, err));
    for (int i = begin; i < end; i++) {
        uint64_t found = atomic_load_explicit(&hashes[i], memory_order_relaxed);

        out[i - begin] = found == NOT_KNOWN ? 0 : found;
    }
    return HR_OK;
}

/* A ticket's output and the bytes from which it is decoded; small files need a few times their size. */
static int64_t files_floor(const hr_scan *base)
{
    const file_scan *s = (const file_scan *)base;
    int64_t most = 0;

    for (int i = 0; i < base->n_files; i++)
        most = HR_MAX(most, s->paths.items[i].n_bytes);
    return HR_MIN(most, 1 << 20) * 4 + (64 << 10);
}

static void files_free(hr_scan *base)
{
    file_scan *s = (file_scan *)base;

    hr__scan_file_unref(atomic_load(&s->first));
    hr__source_unref(atomic_load(&s->first_source));
    hr__free(atomic_load(&base->file_rows));
    hr__free((void *)atomic_load(&s->hashes));
    types_free(atomic_load(&s->types));
    hr__partitions_clear(&s->partitions);
    hr__schema_unref(s->given);
    if (s->options && s->format->options)
        hr__options_clear(s->format->options, s->options);
    hr__free(s->options);
    hr__text_clear(&s->settings);
    hr__free(s->path_column);
    hr__paths_clear(&s->paths);
    hr__free(s);
}

/* --- files whose bytes travel: what opening them reads is announced before */

#define OPENS_BYTES (256 << 10) /* of the end of a file, or of a whole file */
#define HEAD_BYTES (64 << 10)

/* The ranges that opening a file of n bytes reads. -> how many. */
static int ranges_of_open(const hr_format *f, int64_t n, hr_file_range out[2])
{
    hr_opens opens = f->opens;
    int k = 0;

    if (f->row_growth || n <= OPENS_BYTES) {
        out[0] = (hr_file_range){ 0, n };
        return 1;
    }
    if (opens != HR_OPENS_TAIL)
        out[k++] = (hr_file_range){ 0, HEAD_BYTES };
    if (opens != HR_OPENS_HEAD)
        out[k++] = (hr_file_range){ n - OPENS_BYTES, OPENS_BYTES };
    return k;
}

static bool is_file_scan(const hr_scan *s);

bool hr__scan_is_remote(const hr_scan *base, int file)
{
    return is_file_scan(base) && hr__paths_is_remote(&((const file_scan *)base)->paths, file);
}

/* Whether what opening the file needs of a range is here: of an end, its last bytes. The schema may have read these
 * alone, and what is before them is read where a filter asks for indexes of pages. */
static bool has_range(hr_source *source, hr_file_range r)
{
    int64_t n = r.offset > 0 ? HEAD_BYTES : r.n;

    return hr__source_has(source, r.offset + r.n - n, n);
}

static void announce(const hr_format *f, hr_source *source, bool filtered)
{
    hr_file_range ranges[2];
    int n = ranges_of_open(f, source->n_bytes, ranges);

    for (int i = 0; i < n; i++)
        if (filtered || !has_range(source, ranges[i]))
            hr__source_ahead(source, ranges[i].offset, ranges[i].n);
}

void hr__scan_announce(const hr_scan *base, hr_source *source)
{
    announce(((const file_scan *)base)->format, source, false);
}

bool hr__scan_has(const hr_scan *base, hr_source *source)
{
    hr_file_range ranges[2];
    int n = ranges_of_open(((const file_scan *)base)->format, source->n_bytes, ranges);

    while (n > 0 && has_range(source, ranges[n - 1]))
        n--;
    return n == 0;
}

int64_t hr__scan_open_bytes(const hr_scan *base, int file, bool *whole)
{
    const file_scan *s = (const file_scan *)base;
    int64_t size = s->paths.items[file].n_bytes, sum = 0;
    hr_file_range ranges[2];
    int n = ranges_of_open(s->format, size, ranges);

    for (int i = 0; i < n; i++)
        sum += ranges[i].n;
    *whole = sum >= size;
    return sum;
}

static hr_status begin_file(file_scan *s, int file, bool filtered, hr_account *account, hr_source **out, hr_error *err)
{
    HR_TRY(open_source(s, file, &(hr_open){ .account = account }, out, err));
    announce(s->format, *out, filtered);
    return HR_OK;
}

hr_status hr__scan_begin(hr_scan *base, int file, hr_expr *filter, hr_account *account, hr_source **out, hr_error *err)
{
    file_scan *s = (file_scan *)base;
    const scan_types *types;

    *out = NULL;
    if (!hr__scan_is_remote(base, file))
        return HR_OK;
    if (filter) {
        HR_TRY(types_of(s, &types, err));
        if (ruled_out(s, types, file, filter))
            return HR_OK;
    }
    return begin_file(s, file, filter != NULL, account, out, err);
}

static const hr_scan_class file_scan_class = {
    files_schema, files_open,   files_count, files_name,      files_describe,     files_fingerprint,
    files_floor,  files_order,  files_free,  files_row_bytes, files_image_column, files_guess_rows,
    files_input,  files_hashes, NULL,        files_left,      files_path
};

static bool is_file_scan(const hr_scan *s) { return s->cls == &file_scan_class; }

/* ----------------------------------------------------------------------------------------------------------- making */

static hr_status unknown_format(const char *path, const char *name, hr_error *err)
{
    char known[200] = "";
    hr_near near;

    for (const hr_format *const *f = hr__formats; *f; f++) {
        strncat(known, f == hr__formats ? "" : ", ", sizeof known - strlen(known) - 1);
        strncat(known, (*f)->name, sizeof known - strlen(known) - 1);
    }
    if (name) {
        hr__format_near(name, &near);
        return hr_error_set(err, HR_INVALID, "format '%s' is unknown%s; formats are %s", name, hr__near_hint(&near),
                            known);
    }
    return hr_error_set(err, HR_INVALID,
                        "%s: neither the name nor the first bytes identify the format: --format (in Python a reader "
                        "of a format) names it; formats are %s",
                        path, known);
}

/* The first file decides for all. Another whose name says another format would be read as what it is not. */
static hr_status check_formats(const file_scan *s, hr_error *err)
{
    const int n = (int)s->paths.n;
    int last = 0;

    for (int i = 1; i < n; i++) {
        const hr_format *f;

        if (hr__format_same_suffix(name_of(s, i), name_of(s, last)))
            continue;
        last = i;
        f = hr__format_guess(name_of(s, i), (hr_view){ 0 });
        if (f && f != s->format)
            return hr_error_set(err, HR_INVALID,
                                "%s has the format %s, by its name, and %s, the first file, %s: a pattern such as "
                                "'folder/**/*%s' chooses files, and --format reads all as one format",
                                name_of(s, i), f->name, name_of(s, 0), s->format->name, strrchr(name_of(s, i), '.'));
    }
    return HR_OK;
}

static hr_status guess_format(file_scan *s, hr_error *err)
{
    hr_source *source = NULL;
    hr_status st = HR_OK;
    uint8_t head[64];
    int64_t n = 0;

    s->format = hr__format_guess(name_of(s, 0), (hr_view){ 0 });
    if (s->format)
        return HR_OK;
    HR_GO(hr__paths_open(&s->paths, 0, NULL, &source, err));
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    s->format = hr__format_guess(name_of(s, 0), (hr_view){ head, n });
    if (!s->format)
        HR_GO(unknown_format(name_of(s, 0), NULL, err));
done:
    hr__source_unref(source);
    return st;
}

static hr_status find_format(file_scan *s, const char *name, hr_error *err)
{
    if (!name) {
        HR_TRY(guess_format(s, err));
        return check_formats(s, err);
    }
    s->format = hr__format_by_name(name);
    return s->format ? HR_OK : unknown_format(NULL, name, err);
}

static hr_status set_options(file_scan *s, const hr_read_options *options, hr_error *err)
{
    static const hr_option nothing[] = { { 0 } };
    const hr_option *table = s->format->options ? s->format->options : nothing;

    s->options = hr__zalloc(NULL, HR_MAX(s->format->options_bytes, 1));
    if (!s->options)
        return hr__error_memory(err, s->format->name, (int64_t)s->format->options_bytes);
    if (s->format->options)
        hr__options_default(table, s->options);
    if (!options)
        return HR_OK;
    for (int i = 0; i < options->n_format_options; i++)
        hr__text_add(&s->settings, "%s\n", options->format_options[i]);
    if (s->settings.failed)
        return hr__error_memory(err, s->format->name, s->settings.n);
    return hr__options_parse(table, options->format_options, options->n_format_options, s->options, err);
}

/* The options that all formats share. */
static hr_status set_common(file_scan *s, const hr_read_options *o, hr_error *err)
{
    if (o->include_paths) {
        s->path_column = hr__strdup(NULL, o->include_paths);
        if (!s->path_column)
            return hr__error_memory(err, "scan", (int64_t)strlen(o->include_paths));
    }
    s->unify = o->unify;
    s->shuffle = o->shuffle_files;
    s->shuffle_once = o->shuffle_once;
    s->has_seed = o->shuffle_seed != NULL;
    s->seed = o->shuffle_seed ? *o->shuffle_seed : 0;
    return o->partitioning ? hr__partitions_find(&s->paths, o, s->given, &s->partitions, err) : HR_OK;
}

static hr_status take_schema(const hr_read_options *o, hr_schema **out, hr_error *err)
{
    if (!o || !o->schema)
        return HR_OK;
    return hr__schema_import(o->schema, out, err);
}

/* The first file of a list that goes on. */
typedef struct early {
    const char *format; /* NULL: the name says it */
    hr_source *source;  /* NULL: none yet */
} early;

/* Announces what opening the file reads first, so that it travels beside the rest of the list. An error is one of the
 * reads to come. */
static void begin_early(void *context, const hr_path *first, hr_store *store)
{
    early *e = context;
    hr_paths one = { .items = (hr_path *)first, .n = 1, .store = store };
    const hr_format *f = e->format ? hr__format_by_name(e->format) : hr__format_guess(first->path, (hr_view){ 0 });
    hr_error none = HR_ERROR_INIT;

    if (!e->source && f && first->n_bytes > 0 && !hr__paths_open(&one, 0, NULL, &e->source, &none))
        announce(f, e->source, false);
    hr_error_clear(&none);
}

/* The scan takes the early source if it is of its first file, and of the same version. */
static void keep_early(file_scan *s, early *e)
{
    const hr_path *first = &s->paths.items[0];

    if (!e->source || strcmp(e->source->name, name_of(s, 0)) != 0 || e->source->n_bytes != first->n_bytes ||
        e->source->mtime_ns != first->mtime_ns)
        return;
    atomic_store(&s->first_source, e->source);
    e->source = NULL;
}

/* Whether the caller names all partition columns and their types, for files that all lie below the base. */
static bool names_columns(const char *url, const hr_read_options *o)
{
    size_t n = o->partition_base ? strlen(o->partition_base) : 0;

    while (n > 0 && o->partition_base[n - 1] == '/')
        n--;
    if (o->n_partition_names == 0 || o->partition_others ||
        (n && (strncmp(url, o->partition_base, n) || (url[n] && url[n] != '/'))))
        return false;
    for (int i = 0; i < o->n_partition_names && !o->partition_text; i++)
        if (!o->partition_types || !o->partition_types[i])
            return false;
    return true;
}

/* Whether a pattern of files names the key of each folder: "day=*", but not "*", and no "**". */
static bool names_keys(const char *url, const hr_read_options *o)
{
    const char *name = strrchr(url, '/'), *end = strrchr(url, '.');
    bool any = false;

    if (!name || end < name || hr__has_pattern(end) || !hr__has_pattern(url))
        return false;
    for (const char *part = url, *slash; (slash = strchr(part, '/')); part = slash + 1) {
        const char *wild = strpbrk(part, "*?["), *equals = strchr(part, '=');

        if (!wild || wild > slash)
            continue;
        if (!equals || equals > wild || equals == part)
            return false;
        any = true;
    }
    return !any || o->partition_text;
}

/* Whether the columns of the first files are known without the others. Folders of which the list has not told yet can
 * make columns, unless their names are given. */
static hr_first_page first_page_of(const char *url, const hr_read_options *o)
{
    if (!o->first_page || o->unify || o->shuffle_files)
        return HR_FIRST_NEVER;
    if (!o->partitioning || names_columns(url, o))
        return HR_FIRST_OF_ANY;
    return strcmp(o->partitioning, "hive") == 0 && !o->partition_base && !o->n_partition_names && names_keys(url, o)
               ? HR_FIRST_OF_LEVEL
               : HR_FIRST_NEVER;
}

bool hr__scan_is_beginning(const hr_scan *s) { return is_file_scan(s) && ((const file_scan *)s)->paths.is_beginning; }

hr_status hr__scan_new_files(const char *const *urls, int n_urls, const char *format, const hr_read_options *options,
                             const hr_scan *begun, hr_scan **out, hr_error *err)
{
    hr_paths_options listing = { 0 };
    early early = { format, NULL };
    file_scan *s = hr__zalloc(NULL, sizeof *s);
    hr_status st = HR_OK;

    *out = NULL;
    if (!s) {
        if (options && options->schema && options->schema->release)
            options->schema->release(options->schema);
        return hr__error_memory(err, "scan", sizeof *s);
    }
    s->base.cls = &file_scan_class;
    atomic_init(&s->base.refs, 1);
    HR_GO(take_schema(options, &s->given, err));
    if (options)
        listing = (hr_paths_options){ .ignore_missing = options->ignore_missing_paths,
                                      .suffixes = options->suffixes,
                                      .n_suffixes = options->n_suffixes,
                                      .store_options = options->storage_options,
                                      .n_store_options = options->n_storage_options };
    if (options && n_urls == 1 && format)
        listing.first_page = first_page_of(urls[0], options);
    if (n_urls == 1 && begun && hr__scan_is_beginning(begun))
        listing.begun = &((const file_scan *)begun)->paths;
    listing.on_first = begin_early;
    listing.context = &early;
    HR_GO(hr__paths_list(urls, n_urls, &listing, NULL, &s->paths, err));
    if (s->paths.n == 0)
        HR_FAIL(HR_NOT_FOUND, "%s%s: no files there", n_urls > 0 ? urls[0] : "no path given",
                n_urls > 1 ? ", ..." : "");
    if (s->paths.n > INT32_MAX)
        HR_FAIL(HR_UNSUPPORTED, "%lld files in one scan", (long long)s->paths.n);
    s->base.n_files = (int)s->paths.n;
    keep_early(s, &early);
    s->shared = shared_folder(&s->paths);
    HR_GO(find_format(s, format, err));
    HR_GO(set_options(s, options, err));
    if (options)
        HR_GO(set_common(s, options, err));
    *out = &s->base;
    s = NULL; /* moved to the caller */
done:
    hr__source_unref(early.source);
    if (s)
        files_free(&s->base);
    return st;
}
