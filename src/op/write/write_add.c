/* write_add.c - encoded chunks into files, in order, and at the end their names.
 *
 * No file has a name before all files are complete: a run that fails, is stopped or is killed leaves no file
 * (io/sink.c). Until then a finished file is an open descriptor; beyond MAX_HELD descriptors it is a hidden file. At
 * the end commit() names the files one after another; if one name fails, commit() removes the files that already have
 * names. Files that an overwrite replaces go last: a reader that lists the folder at that moment can see old and new
 * files together, but never too few.
 *
 * A file is open as long as chunks for it come. With partition columns at most MAX_OPEN files are open. One more file
 * ends the file whose last chunk is the oldest; the next chunk of that folder begins a new file.
 *
 * Tests: test_write.c. */
#include "op/write/write.h"

#include "io/http/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_FILE_BYTES ((int64_t)512 << 20)
#define MAX_OPEN 64
#define MAX_HELD 256
#define REMOTE_FILE_BYTES ((int64_t)8 << 20)

/* A file being written. */
typedef struct open_file {
    hr_sink *sink;
    void *state; /* the format's */
    char *folder;
    int64_t index, n_rows;
    int64_t used; /* clock of the last chunk */
} open_file;

/* A finished file, without its name yet. */
typedef struct done_file {
    hr_sink *sink; /* NULL: the file has its name */
    char *path;
    int64_t index, n_rows, n_bytes;
} done_file;

typedef struct made_folder {
    char *path, *made;
} made_folder;

typedef struct add_state {
    hr_account *account;
    const hr_writer *writer;
    char job[40];
    open_file *open;
    int64_t n_open, cap_open;
    done_file *done;
    int64_t n_done, cap_done, n_held, max_held;
    hr_leases *leases;   /* of hidden files; NULL: there are none */
    hr_uploads *uploads; /* of a job that writes to a store; NULL: it does not */
    made_folder *folders;
    int64_t n_folders, cap_folders;
    int64_t n_files, clock;
    int lock; /* a descriptor that locks the folder; <= 0: none */
    bool committed;
} add_state;

/* -------------------------------------------------------------------------------------------------------- the state */

static void open_file_clear(const add_state *s, open_file *f)
{
    if (f->state && s->writer->cls->file_clear)
        s->writer->cls->file_clear(s->writer, f->state);
    hr__free(f->state);
    hr__free(f->folder);
    hr__sink_drop(f->sink);
    *f = (open_file){ 0 };
}

static void add_task_clear(const hr_op *op, hr_task *task)
{
    add_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    for (int64_t i = 0; i < s->n_open; i++)
        open_file_clear(s, &s->open[i]);
    for (int64_t i = 0; i < s->n_done; i++) {
        hr__sink_drop(s->done[i].sink);
        hr__free(s->done[i].path);
    }
    hr__uploads_free(s->uploads);
    hr__leases_free(s->leases); /* folders must be empty to go */
    if (s->lock > 0)
        hr__file_close(s->lock);
    for (int64_t i = s->n_folders - 1; i >= 0; i--) {
        if (!s->committed)
            hr__folder_unmake(s->folders[i].path, s->folders[i].made);
        hr__free(s->folders[i].path);
        hr__free(s->folders[i].made);
    }
    hr__free(s->open);
    hr__free(s->done);
    hr__free(s->folders);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

static hr_status name_job(const hr_write_job *job, add_state *s, hr_error *err)
{
    uint64_t random[2];

    if (job->settings.job) {
        if (strlen(job->settings.job) >= sizeof s->job || strchr(job->settings.job, '/') || !job->settings.job[0])
            return hr_error_set(err, HR_INVALID, "write: '%s' cannot be the prefix of file names", job->settings.job);
        snprintf(s->job, sizeof s->job, "%s", job->settings.job);
        return HR_OK;
    }
    if (hr__random_secret(random, sizeof random) < 0)
        return hr_error_set(err, HR_IO, "write: the system gave no random numbers for the file names");
    snprintf(s->job, sizeof s->job, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return HR_OK;
}

static hr_status add_state_of(const hr_op *op, hr_task *task, add_state **out, hr_error *err)
{
    const hr_write_job *job = hr__write_job_of(op);
    void **slot = hr__task_state(task);
    add_state *s = *slot;

    *out = s;
    if (s)
        return HR_OK;
    if (!(s = *slot = hr__zalloc(hr__task_run(task)->account, sizeof *s)))
        return hr__error_memory(err, "write", sizeof *s);
    s->account = hr__task_run(task)->account;
    s->writer = job->writer;
    s->max_held = HR_MAX(1, HR_MIN(MAX_HELD, hr__files_limit() / 4));
    *out = s;
    HR_TRY(name_job(job, s, err));
    if (!job->remote)
        return HR_OK;
    HR_TRY(hr__uploads_new(job->path,
                           job->settings.single_file ? HR_UPLOADS_FILE
                           : job->settings.job       ? HR_UPLOADS_JOB
                                                     : HR_UPLOADS_NEW_JOB,
                           s->job, (const char *const *)job->storage, job->n_storage, s->account, &s->uploads, err));
    hr__uploads_never_wait(s->uploads);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status file_name(const hr_write_job *job, const add_state *s, const char *given, char *out, size_t cap,
                           hr_error *err)
{
    const hr_write_options *o = &job->settings;
    int n;

    if (given)
        n = snprintf(out, cap, "%s", given);
    else if (o->name) {
        HR_TRY(o->name(o->name_context, s->n_files, s->writer->suffix, out, cap, err));
        n = (int)strlen(out);
    } else
        n = snprintf(out, cap, s->writer->file_for_each_row ? "%s_%09" PRId64 "%s" : "%s_%06" PRId64 "_000000%s",
                     s->job, s->n_files, s->writer->suffix);
    if (n <= 0 || n >= (int)cap || strchr(out, '/') || !strcmp(out, ".") || !strcmp(out, ".."))
        return hr_error_set(err, HR_INVALID, "write: '%.200s' cannot be the name of a file", out);
    return HR_OK;
}

/* Creates the folder of a file if it does not exist, and remembers it so that add_task_clear can remove it. */
static hr_status make_folder(const hr_write_job *job, add_state *s, const char *folder, char **out, hr_error *err)
{
    char *path = folder ? hr__printf(s->account, "%s/%s", job->path, folder) : hr__strdup(s->account, job->path);
    char *made = NULL, *kept = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!path || !hr__grow(s->account, (void **)&s->folders, &s->cap_folders, s->n_folders + 1, sizeof *s->folders))
        HR_GO(hr__error_memory(err, job->path, 256));
    if (!job->remote)
        HR_GO(hr__folder_make(path, s->account, &made, err));
    if (made) {
        if (!(kept = hr__strdup(s->account, path))) {
            hr__folder_unmake(path, made);
            HR_GO(hr__error_memory(err, path, 256));
        }
        s->folders[s->n_folders++] = (made_folder){ kept, made };
        made = NULL;
    }
    *out = path;
    path = NULL;
done:
    hr__free(made);
    hr__free(path);
    return st;
}

static hr_status open_at(const hr_write_job *job, const add_state *s, const char *path, hr_sink **out, hr_error *err)
{
    hr_upload *upload;

    if (!job->remote)
        return hr__sink_open(path, job->settings.mode == HR_WRITE_OVERWRITE, s->account, out, err);
    HR_TRY(hr__upload_begin(s->uploads, path, &upload, err));
    return hr__sink_open_upload(upload, path, s->account, out, err);
}

static hr_status open_sink(const hr_write_job *job, add_state *s, const char *folder, const char *given, hr_sink **out,
                           hr_error *err)
{
    hr_status st = HR_OK;
    char name[256], *where = NULL, *path = NULL;

    if (job->settings.single_file)
        return open_at(job, s, job->path, out, err);
    HR_TRY(file_name(job, s, given, name, sizeof name, err));
    HR_GO(make_folder(job, s, folder, &where, err));
    if (s->n_files == 0 && !job->remote)
        hr__part_sweep(where);
    path = hr__printf(s->account, "%s%s%s", where, where[strlen(where) - 1] == '/' ? "" : "/", name);
    if (!path)
        HR_GO(hr__error_memory(err, where, 256));
    HR_GO(open_at(job, s, path, out, err));
done:
    hr__free(path);
    hr__free(where);
    return st;
}

static hr_status begin_file(const hr_write_job *job, add_state *s, const char *folder, const char *given,
                            open_file **out, hr_error *err)
{
    const hr_writer *w = s->writer;
    open_file *f;

    if (!hr__grow(s->account, (void **)&s->open, &s->cap_open, s->n_open + 1, sizeof *s->open))
        return hr__error_memory(err, job->path, 256);
    f = &s->open[s->n_open];
    *f = (open_file){ .index = s->n_files };
    s->n_open++;
    f->state = hr__zalloc(s->account, w->cls->file_bytes + 1);
    if (!f->state || (folder && !(f->folder = hr__strdup(s->account, folder))))
        return hr__error_memory(err, job->path, (int64_t)w->cls->file_bytes);
    HR_TRY(open_sink(job, s, folder, given, &f->sink, err));
    s->n_files++;
    if (w->cls->begin)
        HR_TRY(w->cls->begin(w, f->state, f->sink, err));
    *out = f;
    return HR_OK;
}

/* Keeps the finished file as a descriptor; beyond max_held descriptors, as a hidden file. */
static hr_status hold(add_state *s, done_file *d, hr_error *err)
{
    if (s->uploads || s->n_held < s->max_held) {
        s->n_held++;
        return HR_OK;
    }
    if (!s->leases && !(s->leases = hr__leases_new(s->account)))
        return hr__error_memory(err, d->path, 64);
    return hr__sink_park(d->sink, s->leases, err);
}

/* Completes the file, except its name. */
static hr_status end_file(const hr_write_job *job, add_state *s, int64_t i, hr_error *err)
{
    open_file *f = &s->open[i];
    done_file *d;

    if (s->writer->cls->finish)
        HR_TRY(s->writer->cls->finish(s->writer, f->state, f->sink, err));
    if (!hr__grow(s->account, (void **)&s->done, &s->cap_done, s->n_done + 1, sizeof *s->done))
        return hr__error_memory(err, job->path, 256);
    d = &s->done[s->n_done];
    *d = (done_file){ NULL, hr__strdup(s->account, hr__sink_name(f->sink)), f->index, f->n_rows,
                      hr__sink_bytes(f->sink) };
    if (!d->path)
        return hr__error_memory(err, job->path, 256);
    s->n_done++;
    d->sink = f->sink;
    f->sink = NULL;
    open_file_clear(s, f);
    s->open[i] = s->open[--s->n_open];
    HR_TRY(hr__sink_finish(d->sink, job->settings.sync, err));
    return hold(s, d, err);
}

static bool is_full(const hr_write_job *job, const open_file *f, int64_t n_more)
{
    const hr_write_options *o = &job->settings;
    int64_t most = o->max_file_bytes ? o->max_file_bytes : DEFAULT_FILE_BYTES;

    if (o->single_file)
        return false;
    if (o->max_rows_per_file && f->n_rows + n_more > o->max_rows_per_file)
        return true;
    return most > 0 && f->n_rows > 0 && hr__sink_bytes(f->sink) >= most && f->n_rows >= o->min_rows_per_file;
}

static int64_t find_open(const add_state *s, const char *folder)
{
    for (int64_t i = 0; i < s->n_open; i++)
        if (folder ? s->open[i].folder && !strcmp(s->open[i].folder, folder) : !s->open[i].folder)
            return i;
    return -1;
}

/* Each file of a store that is open has up to a part in memory. */
static int64_t most_open(const add_state *s)
{
    int64_t bytes = HR_MAX(REMOTE_FILE_BYTES, hr__uploads_part_bytes(s->uploads));

    return HR_MAX(1, HR_MIN(MAX_OPEN, hr__account_limit(s->account) / 4 / bytes));
}

static hr_status make_room(const hr_write_job *job, add_state *s, hr_error *err)
{
    int64_t oldest = 0;

    if (s->n_open < (s->uploads ? most_open(s) : MAX_OPEN))
        return HR_OK;
    for (int64_t i = 1; i < s->n_open; i++)
        if (s->open[i].used < s->open[oldest].used)
            oldest = i;
    return end_file(job, s, oldest, err);
}

/* Finds or begins the file for the rows of a chunk. */
static hr_status file_for(const hr_write_job *job, add_state *s, const hr_write_chunk *p, open_file **out,
                          hr_error *err)
{
    int64_t i = find_open(s, p->folder);

    if (i >= 0 && is_full(job, &s->open[i], p->n_rows)) {
        HR_TRY(end_file(job, s, i, err));
        i = -1;
    }
    if (i < 0) {
        HR_TRY(make_room(job, s, err));
        HR_TRY(begin_file(job, s, p->folder, NULL, out, err));
    } else
        *out = &s->open[i];
    (*out)->used = ++s->clock;
    return HR_OK;
}

static hr_status add_encoded(add_state *s, open_file *f, hr_encoded_chunk *p, hr_error *err)
{
    const hr_writer *w = s->writer;
    int64_t n = p->n_rows;

    if (w->cls->add)
        HR_TRY(w->cls->add(w, f->state, f->sink, p, err));
    else if (p->bytes)
        HR_TRY(hr__sink_write_buffer(f->sink, p->bytes, err));
    f->n_rows += n;
    hr__encoded_chunk_clear(p);
    return HR_OK;
}

static bool add_accepts(const void *state)
{
    const add_state *s = state;

    return !s || !s->uploads || hr__uploads_have_room(s->uploads);
}

static hr_status add_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const hr_write_job *job = hr__write_job_of(op);
    hr_write_chunk *p = NULL;
    add_state *s = NULL;
    open_file *f = NULL;

    HR_TRY(hr__write_chunk_of(in, &p, err));
    HR_TRY(add_state_of(op, task, &s, err));
    for (int64_t i = 0; i < p->n_encoded; i++) {
        if (s->writer->file_for_each_row)
            HR_TRY(begin_file(job, s, p->folder, p->names ? p->names[i] : NULL, &f, err));
        else
            HR_TRY(file_for(job, s, p, &f, err));
        HR_TRY(add_encoded(s, f, &p->encoded[i], err));
        if (s->writer->file_for_each_row)
            HR_TRY(end_file(job, s, s->n_open - 1, err));
    }
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the end */

static int by_index(const void *a, const void *b)
{
    int64_t x = ((const done_file *)a)->index, y = ((const done_file *)b)->index;

    return (x > y) - (x < y);
}

static int by_path(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The files in the folder and its subfolders. remove_old removes those of a known format only. */
static hr_status old_files(const hr_write_job *job, hr_paths *out, hr_error *err)
{
    const char *path = job->path;
    hr_paths_options options = { .ignore_missing = true,
                                 .plain = true,
                                 .store_options = (const char *const *)job->storage,
                                 .n_store_options = job->n_storage };

    if (job->settings.mode != HR_WRITE_OVERWRITE || job->settings.single_file)
        return HR_OK;
    return hr__paths_list(&path, 1, &options, NULL, out, err);
}

static void remove_old(const hr_write_job *job, add_state *s, const hr_paths *old)
{
    char **mine = hr__alloc(s->account, ((size_t)s->n_done + 1) * sizeof *mine);

    for (int64_t i = 0; mine && i < s->n_done; i++)
        mine[i] = s->done[i].path;
    if (mine)
        qsort(mine, (size_t)s->n_done, sizeof *mine, by_path);
    for (int64_t i = 0; mine && i < old->n; i++) {
        char *path = old->items[i].path, *slash;

        if (bsearch(&path, mine, (size_t)s->n_done, sizeof *mine, by_path) ||
            !hr__format_guess(path, (hr_view){ NULL, 0 }) || hr__file_remove(path))
            continue;
        while ((slash = strrchr(path, '/')) &&
               slash > path + strlen(job->path)) { /* folders of partitions that no longer exist */
            *slash = 0;
            if (hr__dir_remove(path))
                break;
        }
    }
    hr__free(mine);
}

/* Of the old files those that go: of a known format, and not replaced by one of the same name. */
static hr_status files_that_go(const hr_write_job *job, const add_state *s, hr_paths *out, hr_error *err)
{
    char **mine = hr__alloc(s->account, ((size_t)s->n_done + 1) * sizeof *mine);
    hr_paths old = { 0 };
    hr_status st = mine ? old_files(job, &old, err) : hr__error_memory(err, job->path, 256);

    for (int64_t i = 0; !st && i < s->n_done; i++)
        mine[i] = s->done[i].path;
    if (!st)
        qsort(mine, (size_t)s->n_done, sizeof *mine, by_path);
    for (int64_t i = 0; !st && i < old.n; i++) {
        char *path = old.items[i].path, *tag = NULL;

        if (!bsearch(&path, mine, (size_t)s->n_done, sizeof *mine, by_path) &&
            hr__format_guess(path, (hr_view){ NULL, 0 })) {
            tag = hr__path_tag(&old.items[i]);
            st = tag ? hr__paths_add(out, path, tag[0] ? tag : NULL, old.items[i].n_bytes, 0, err)
                     : hr__error_memory(err, path, 64);
        }
        hr__free(tag);
    }
    hr__paths_clear(&old);
    hr__free(mine);
    return st;
}

/* The same in a store. */
static hr_status commit_uploads(const hr_write_job *job, add_state *s, hr_error *err)
{
    hr_paths old = { 0 };
    hr_status st = files_that_go(job, s, &old, err);

    if (!st)
        st = hr__uploads_commit(s->uploads, job->settings.single_file, job->settings.mode == HR_WRITE_OVERWRITE, &old,
                                err);
    s->committed = !st;
    hr__paths_clear(&old);
    return st;
}

/* Names all files. On failure removes the files that were named, unless the mode replaces files. */
static hr_status commit(const hr_write_job *job, add_state *s, hr_error *err)
{
    hr_status st = HR_OK;
    hr_paths old = { 0 };
    int64_t i = 0;

    if (s->uploads)
        return commit_uploads(job, s, err);
    HR_GO(old_files(job, &old, err));
    for (; i < s->n_done; i++) {
        hr_sink *sink = s->done[i].sink;

        s->done[i].sink = NULL;
        HR_GO(hr__sink_commit(sink, s->done[i].path, err));
    }
    s->committed = true;
    hr__leases_free(s->leases);
    s->leases = NULL;
    remove_old(job, s, &old);
done:
    while (st && i-- > 0 && job->settings.mode != HR_WRITE_OVERWRITE)
        if (hr__file_remove(s->done[i].path) == -EIO)
            (void)hr__file_remove(s->done[i].path);
    hr__paths_clear(&old);
    return st;
}

/* Whether the mode demands that no files are there. The plan has looked; others may have written since. A single file
 * replaces none by itself. */
static bool needs_empty(const hr_write_job *job)
{
    return !job->settings.single_file &&
           (job->settings.mode == HR_WRITE_CREATE || job->settings.mode == HR_WRITE_IGNORE);
}

/* Takes the folder for this job, until its state goes. *taken: it has files, or another job names its own now. */
static hr_status take_folder(const hr_write_job *job, add_state *s, bool *taken, hr_error *err)
{
    const hr_write_options options = { .storage_options = (const char *const *)job->storage,
                                       .n_storage_options = job->n_storage };

    *taken = false;
    if (s->uploads) {
        HR_TRY(hr__uploads_claim(s->uploads, taken, err));
    } else {
        s->lock = hr__dir_lock(job->path); /* a file system without locks: what follows is all there is */
        *taken = s->lock == -EAGAIN;
    }
    return *taken ? HR_OK : hr__write_exists(job->path, &options, taken, err);
}

static void drop_files(add_state *s)
{
    while (s->n_done > 0) {
        done_file *f = &s->done[--s->n_done];

        hr__sink_drop(f->sink);
        hr__free(f->path);
    }
}

static hr_status report(add_state *s, hr_task *task, hr_error *err)
{
    hr_status st = HR_OK;
    const hr_mem *mem = hr__task_mem(task);
    hr_builder *columns[3] = { NULL };
    hr_array *arrays[3] = { NULL };
    hr_schema *schema = NULL;
    hr_origin *origin = NULL;
    hr_table *t = NULL;

    HR_GO(hr__write_schema(&schema, err));
    for (int i = 0; i < 3; i++)
        HR_GO(hr__builder_new(mem, schema->fields[i].type, &columns[i], err));
    for (int64_t i = 0; i < s->n_done; i++) {
        HR_GO(hr__builder_bytes(columns[0], s->done[i].path, (int64_t)strlen(s->done[i].path), err));
        HR_GO(hr__builder_int(columns[1], s->done[i].n_rows, err));
        HR_GO(hr__builder_int(columns[2], s->done[i].n_bytes, err));
    }
    for (int i = 0; i < 3; i++)
        HR_GO(hr__builder_finish(columns[i], &arrays[i], err));
    HR_GO(hr__origin_made((hr_coord){ 0 }, s->n_done, &origin, err));
    st = hr__table_new(schema, arrays, s->n_done, origin, &t, err);
    memset(arrays, 0, sizeof arrays);
    HR_GO(st);
    HR_GO(hr__task_emit(task, &t, err));
done:
    for (int i = 0; i < 3; i++) {
        hr__builder_free(columns[i]);
        hr__array_unref(arrays[i]);
    }
    hr_table_unref(t);
    hr__origin_unref(origin);
    hr__schema_unref(schema);
    return st;
}

/* Mode "ignore": another job may fill the folder after all, until the commit. */
static hr_status commit_or_ignore(const hr_write_job *job, add_state *s, hr_task *task, hr_error *err)
{
    hr_status st = commit(job, s, err);

    if (!st)
        return report(s, task, err);
    if (!hr__uploads_are_late(s->uploads))
        return st;
    hr_error_clear(err);
    drop_files(s);
    return HR_OK;
}

static hr_status add_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    const hr_write_job *job = hr__write_job_of(op);
    add_state *s = NULL;
    bool taken = false;

    HR_TRY(add_state_of(op, task, &s, err));
    while (s->n_open)
        HR_TRY(end_file(job, s, 0, err));
    if (hr__task_cancelled(task))
        return hr_error_set(err, HR_CANCELLED, "the run was stopped");
    if (s->n_done && needs_empty(job))
        HR_TRY(take_folder(job, s, &taken, err));
    if (taken && job->settings.mode == HR_WRITE_CREATE)
        return hr_error_set(err, HR_IO, "%s: contains files of another program by now (mode is \"create\")", job->path);
    if (taken) {
        drop_files(s);
        return HR_OK;
    }
    if (!s->n_done)
        return commit(job, s, err);
    qsort(s->done, (size_t)s->n_done, sizeof *s->done, by_index);
    if (s->uploads && job->settings.mode == HR_WRITE_IGNORE)
        return commit_or_ignore(job, s, task, err);
    HR_TRY(report(s, task, err)); /* the task passes the table on only if add_finish succeeds */
    return commit(job, s, err);
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static hr_status add_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    (void)op;
    (void)task;
    (void)err;
    hr__marker_drop(takes);
    return HR_OK;
}

static hr_status add_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)in;
    return hr__write_schema(out, err);
}

static void add_describe(const hr_op *op, hr_text *out)
{
    const hr_write_job *job = hr__write_job_of(op);

    hr__text_add(out, "write_%s(%s)", job->format->name, job->path);
}

const hr_op_class hr__write_add = {
    .name = "write",
    .doc = "a format's bytes into files",
    .kind = HR_OP_STREAM,
    .schema = add_schema,
    .accepts = add_accepts,
    .push = add_push,
    .finish = add_finish,
    .task_clear = add_task_clear,
    .marker = add_marker,
    .describe = add_describe,
    .fingerprint = hr__write_op_fingerprint,
    .free = hr__write_op_free,
};
