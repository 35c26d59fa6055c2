/* zarr_arrays.c - the arrays of a Zarr store, by their metadata: in a folder, or at a URL.
 *
 * A store has .zarray or .zgroup (version 2) or zarr.json (version 3) at its root. Members of a folder are the folders
 * below it. Those of a URL stand in the consolidated metadata of the root, or a list of all objects below the root has
 * them; web servers have no lists. The engine fetches the metadata of URLs as it fetches any file, by the format
 * "binary", with the storage options of the command.
 *
 * The metadata is JSON of a few known members: value_of() finds the text of a member at the top of an object.
 *
 * Tests: test_file_advice.py. */
#include "cli/cli.h"

#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST_DEPTH 8            /* of groups in groups */
#define MOST_METADATA (4 << 20) /* a file of metadata may have attributes */

/* ------------------------------------------------------------------------------------------------------------- JSON */

static const char *after_space(const char *at) { return at + strspn(at, " \t\r\n"); }

/* The end of the text that begins with '"'. */
static const char *text_end(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1])
            at++;
    return *at ? at + 1 : at;
}

/* The end of the value at `at`. */
static const char *value_end(const char *at)
{
    int depth = 0;

    do {
        if (*at == '"') {
            at = text_end(at);
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        if (depth < 0 || (!depth && *at == ','))
            break;
        at += *at != 0;
    } while (*at && (depth || (at[-1] != '}' && at[-1] != ']' && at[-1] != '"')));
    return at;
}

/* The members of the object at `at`, for next_member; NULL: it is no object. */
static const char *members_of(const char *at) { return at && *(at = after_space(at)) == '{' ? at + 1 : NULL; }

/* One member: its name, not yet unescaped, and its value. */
typedef struct member {
    const char *name;
    int n_name;
    const char *value;
} member;

/* Moves *at behind the next member. false: there is none. */
static bool next_member(const char **at, member *out)
{
    const char *from = *at ? after_space(*at) : "", *end;

    from = *from == ',' ? after_space(from + 1) : from;
    if (*from != '"')
        return false;
    end = text_end(from);
    *out = (member){ .name = from + 1, .n_name = (int)(end - from) - 2, .value = after_space(end) };
    if (*out->value != ':')
        return false;
    out->value = after_space(out->value + 1);
    *at = value_end(out->value);
    return true;
}

/* The value of a member of the object at `at`; NULL: it has none, or is no object. */
static const char *value_of(const char *at, const char *name)
{
    const char *next = members_of(at);
    int n = (int)strlen(name);
    member m;

    while (next_member(&next, &m))
        if (m.n_name == n && !strncmp(m.name, name, (size_t)n))
            return m.value;
    return NULL;
}

/* The integers of a list; their number, -1: it is no such list. */
static int integers_of(const char *at, int64_t *out)
{
    int n = 0;

    if (!at || *at != '[')
        return -1;
    for (at = after_space(at + 1); *at != ']'; at = after_space(at + (*at == ','))) {
        char *end;

        if (n == ZARR_MOST_AXES)
            return -1;
        out[n++] = strtoll(at, &end, 10);
        if (end == at || out[n - 1] < 0)
            return -1;
        at = after_space(end);
    }
    return n;
}

static void text_of(const char *at, char *out, size_t cap)
{
    size_t n = at && *at == '"' ? (size_t)(text_end(at) - at) - 2 : 0;

    snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), at && n ? at + 1 : "");
}

static bool is_text(const char *at, const char *text)
{
    char found[64];

    text_of(at, found, sizeof found);
    return !strcmp(found, text);
}

/* ----------------------------------------------------------------------------------------------------------- arrays */

/* "<f4" or "float32" -> 4; 1: of values of another kind, whose sizes differ. */
static int64_t item_bytes_of(const char *type)
{
    const char *digits = type + strcspn(type, "0123456789");
    long long n = strtoll(digits, NULL, 10);
    bool is_bits = strchr("iufc", type[0]) && strlen(type) > 3; /* version 3: in bits */

    if (!strcmp(type, "bool") || n > 1 << 20)
        return 1;
    if (is_bits || !strncmp(type, "bfloat", 6))
        return n >= 8 ? n / 8 : 1;
    return n >= 1 ? n * (type[0] && type[1] == 'U' ? 4 : 1) : 1;
}

int64_t zarr_pieces(int64_t n, int64_t each) { return n / each + (n % each != 0); }

static int64_t product(const int64_t *of, int n)
{
    double all = 1;

    for (int i = 0; i < n; i++)
        all *= (double)of[i];
    return all < 9e18 ? (int64_t)all : INT64_MAX;
}

/* Version 3: the codec "sharding_indexed" has the chunks, and the grid's are shards. */
static void take_shards(const char *json, zarr_array *a)
{
    const char *codec = value_of(json, "codecs");

    if (!codec || *codec != '[')
        return;
    codec = after_space(codec + 1);
    if (!is_text(value_of(codec, "name"), "sharding_indexed"))
        return;
    memcpy(a->shards, a->chunks, sizeof a->shards);
    a->has_shards = integers_of(value_of(value_of(codec, "configuration"), "chunk_shape"), a->chunks) == a->n_axes;
    if (!a->has_shards)
        memcpy(a->chunks, a->shards, sizeof a->chunks);
}

/* false: the JSON describes no array that this understands. */
static bool parse(const char *json, zarr_array *a)
{
    const char *grid = value_of(value_of(json, "chunk_grid"), "configuration");
    const char *chunks = grid ? value_of(grid, "chunk_shape") : value_of(json, "chunks");
    int64_t along[ZARR_MOST_AXES];

    *a = (zarr_array){ 0 };
    a->n_axes = integers_of(value_of(json, "shape"), a->shape);
    if (a->n_axes < 0 || integers_of(chunks, a->chunks) != a->n_axes)
        return false;
    text_of(value_of(json, grid ? "data_type" : "dtype"), a->type, sizeof a->type);
    take_shards(json, a);
    for (int i = 0; i < a->n_axes; i++) {
        if (a->chunks[i] < 1)
            return false;
        along[i] = zarr_pieces(a->shape[i], a->chunks[i]);
    }
    a->item_bytes = item_bytes_of(a->type);
    a->n_chunks = product(along, a->n_axes);
    for (int i = 0; i < a->n_axes; i++)
        along[i] = a->chunks[i] < a->shape[i] ? a->chunks[i] : a->shape[i];
    a->chunk_bytes = product(along, a->n_axes);
    a->chunk_bytes = a->chunk_bytes < INT64_MAX / a->item_bytes ? a->chunk_bytes * a->item_bytes : INT64_MAX;
    return true;
}

/* The code point of "\\uXXXX" at `at`, and of a pair of them; *n_read: its length. -1: there is none. */
static long code_point(const char *at, int *n_read)
{
    unsigned high = 0, low = 0;

    *n_read = 6;
    if (sscanf(at, "\\u%4x", &high) != 1 || !high)
        return -1;
    if (high < 0xD800 || high > 0xDFFF)
        return (long)high;
    *n_read = 12;
    if (sscanf(at + 6, "\\u%4x", &low) != 1 || high > 0xDBFF || low < 0xDC00 || low > 0xDFFF)
        return -1;
    return 0x10000 + (long)((high - 0xD800) << 10 | (low - 0xDC00));
}

/* Returns the number of bytes in `out`, at most 4. */
static int put_utf8(long code, char *out)
{
    int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = { 0, 0, 0xC0, 0xE0, 0xF0 };

    for (int i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(first[n] | code);
    return n;
}

/* The path of a member of a store at `root`: `name` is JSON text, "" is the root. NULL: no memory. */
static char *member_path(const char *root, const char *name, int n)
{
    size_t cap = strlen(root) + (size_t)n + 2, at;
    char *path = malloc(cap);

    if (!path)
        return NULL;
    at = (size_t)snprintf(path, cap, "%s%s", root, n ? "/" : "");
    for (int i = 0; i < n; i++) {
        int n_read = 0;
        long code = name[i] == '\\' && name[i + 1] == 'u' ? code_point(name + i, &n_read) : -1;

        if (code > 0 && i + n_read <= n) {
            at += (size_t)put_utf8(code, path + at);
            i += n_read - 1;
            continue;
        }
        i += name[i] == '\\' && i + 1 < n && strchr("\"\\/", name[i + 1]);
        path[at++] = name[i];
    }
    path[at] = 0;
    return path;
}

/* Adds the array that `json` describes; nothing if it describes none. */
static hr_status add_array(zarr_arrays *all, const char *root, const char *name, int n, const char *json, hr_error *err)
{
    zarr_array a;

    if (!parse(json, &a))
        return HR_OK;
    a.path = member_path(root, name, n);
    if (!a.path || !cli_grow(&all->items, &all->cap, all->n + 1, sizeof *all->items)) {
        free(a.path);
        return cli_no_memory(err, "zarr", (int64_t)sizeof a);
    }
    all->items[all->n++] = a;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- folders */

/* The text of a file; NULL: there is none, or it is too long. The caller frees it. */
static char *text_of_file(const char *folder, const char *name)
{
    char path[PATH_MAX], *text = NULL;
    FILE *f = NULL;
    size_t n;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path)
        f = fopen(path, "re");
    if (!f)
        return NULL;
    if ((text = malloc(MOST_METADATA + 1))) {
        n = fread(text, 1, MOST_METADATA, f);
        text[n] = 0;
        if (n == MOST_METADATA || ferror(f)) {
            free(text);
            text = NULL;
        }
    }
    fclose(f);
    return text;
}

/* The metadata of an array or a group; NULL: the folder is no node of a store. */
static char *metadata_of(const char *folder)
{
    char *text = text_of_file(folder, "zarr.json");

    if (!text)
        text = text_of_file(folder, ".zarray");
    return text ? text : text_of_file(folder, ".zgroup");
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

/* Adds the array, or those of a group, in the order of their names. */
static hr_status visit(const char *folder, int depth, zarr_arrays *out, hr_error *err)
{
    struct dirent **members = NULL;
    char *text = metadata_of(folder);
    int64_t n_before = out->n;
    int n = 0;
    hr_status st = HR_OK;

    out->is_store |= text != NULL;
    if (text)
        st = add_array(out, folder, "", 0, text, err);
    if (text && out->n == n_before && depth < MOST_DEPTH)
        n = scandir(folder, &members, visible, alphasort);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];

        if (!st && snprintf(path, sizeof path, "%s/%s", folder, members[i]->d_name) < (int)sizeof path)
            st = visit(path, depth + 1, out, err);
        free(members[i]);
    }
    free(members);
    free(text);
    return st;
}

/* Adds the arrays of all stores that a pattern matches; none if something else matches, too. */
static hr_status visit_matches(const char *pattern, zarr_arrays *out, hr_error *err)
{
    glob_t found = { 0 };
    bool all = !glob(pattern, 0, NULL, &found);
    hr_status st = HR_OK;

    for (size_t i = 0; all && i < found.gl_pathc; i++) {
        char *text = metadata_of(found.gl_pathv[i]);

        all = text != NULL;
        free(text);
    }
    for (size_t i = 0; all && !st && i < found.gl_pathc; i++)
        st = visit(found.gl_pathv[i], 0, out, err);
    globfree(&found);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------- URLs */

/* The texts of some objects, in their order, and their paths as people may see them. */
typedef struct texts {
    char **paths, **texts;
    int64_t n, cap_paths, cap_texts;
} texts;

static void texts_clear(texts *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        free(t->paths[i]);
        free(t->texts[i]);
    }
    free(t->paths);
    free(t->texts);
    *t = (texts){ 0 };
}

static char *text_at(const hr_text_view *v, int64_t row)
{
    int64_t n = 0;
    const char *at = hr_text_at(v, row, &n);

    return strndup(at ? at : "", at ? (size_t)n : 0);
}

static hr_status add_texts(texts *out, const hr_table *t, hr_error *err)
{
    hr_text_view bytes = { .struct_bytes = sizeof bytes }, paths = { .struct_bytes = sizeof paths };

    HR_TRY(hr_table_text_view(t, hr_table_column_index(t, "bytes"), &bytes, err));
    HR_TRY(hr_table_text_view(t, hr_table_column_index(t, "path"), &paths, err));
    for (int64_t i = 0; i < hr_table_rows(t); i++) {
        if (!cli_grow(&out->paths, &out->cap_paths, out->n + 1, sizeof *out->paths) ||
            !cli_grow(&out->texts, &out->cap_texts, out->n + 1, sizeof *out->texts))
            return cli_no_memory(err, "zarr", out->n);
        out->paths[out->n] = text_at(&paths, i);
        out->texts[out->n++] = text_at(&bytes, i);
        if (!out->paths[out->n - 1] || !out->texts[out->n - 1])
            return cli_no_memory(err, "zarr", MOST_METADATA);
    }
    return HR_OK;
}

/* Those of the objects that exist. */
static hr_status fetch(const char *const *urls, int n, const input *in, texts *out, hr_error *err)
{
    hr_read_options options = { .struct_bytes = sizeof options,
                                .ignore_missing_paths = true,
                                .include_paths = "path",
                                .storage_options = in->storage,
                                .n_storage_options = (int)in->n_storage };
    hr_feed_options run = { .struct_bytes = sizeof run };
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_plan_read(urls, n, "binary", &options, &p, err));
    HR_GO(hr_feed_open(p, &run, &f, err));
    do {
        hr_table_unref(t);
        t = NULL;
        HR_GO(hr_feed_next(f, &t, err));
        if (t)
            HR_GO(add_texts(out, t, err));
    } while (t);
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    return st;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);

    return n >= n_end && !strcmp(text + n - n_end, end);
}

/* The objects below `root` of this name, also of the root. */
static hr_status list(const char *root, const char *name, const input *in, hr_table **out, hr_error *err)
{
    char *pattern = NULL;
    hr_status st;

    if (asprintf(&pattern, "%s/**/%s", root, name) < 0)
        return cli_no_memory(err, "zarr", (int64_t)strlen(root));
    st = hr_list((const char *const *)&pattern, 1, in->storage, (int)in->n_storage, out, err);
    free(pattern);
    if (st == HR_NOT_FOUND) { /* none matches */
        hr_error_clear(err);
        st = HR_OK;
    }
    return st;
}

/* Adds the arrays whose metadata, objects of this name, a list of all objects below `root` has. */
static hr_status add_listed(const char *root, const char *name, const input *in, zarr_arrays *out, hr_error *err)
{
    hr_text_view names = { .struct_bytes = sizeof names };
    const char **urls = NULL;
    int64_t n = 0;
    texts found = { 0 };
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_TRY(list(root, name, in, &t, err));
    if (!t)
        return HR_OK;
    HR_GO(hr_table_text_view(t, 0, &names, err));
    if (!(urls = calloc((size_t)names.n_rows + 1, sizeof *urls)))
        HR_GO(cli_no_memory(err, "zarr", names.n_rows));
    for (; n < names.n_rows; n++)
        if (!(urls[n] = text_at(&names, n)))
            HR_GO(cli_no_memory(err, "zarr", n));
    HR_GO(fetch(urls, (int)n, in, &found, err));
    for (int64_t i = 0; i < found.n; i++) {
        *strrchr(found.paths[i], '/') = 0;
        HR_GO(add_array(out, found.paths[i], "", 0, found.texts[i], err));
    }
done:
    for (int64_t i = 0; i < n; i++)
        free((void *)urls[i]);
    free(urls);
    texts_clear(&found);
    hr_table_unref(t);
    return st;
}

/* Adds the arrays that consolidated metadata names: "a/b" of version 3, "a/b/.zarray" of version 2. */
static hr_status add_consolidated(const char *root, const char *all, zarr_arrays *out, hr_error *err)
{
    const char *next = members_of(all), *end = "/.zarray";
    int n_end = (int)strlen(end);
    member m;

    while (next_member(&next, &m)) {
        if (m.n_name > n_end && !strncmp(m.name + m.n_name - n_end, end, (size_t)n_end))
            m.n_name -= n_end;
        HR_TRY(add_array(out, root, m.name, m.n_name, m.value, err));
    }
    return HR_OK;
}

/* What the root's own objects say of the members. */
static hr_status add_members(const char *url, const char *root, const texts *own, const input *in, zarr_arrays *out,
                             hr_error *err)
{
    const char *all = NULL;
    bool is_third = false; /* version */

    for (int64_t i = 0; i < own->n && !all; i++) {
        const char *in_root = value_of(own->texts[i], "consolidated_metadata");

        is_third |= ends_with(own->paths[i], "/zarr.json");
        all = value_of(ends_with(own->paths[i], "/.zmetadata") ? own->texts[i] : in_root, "metadata");
    }
    if (members_of(all))
        return add_consolidated(root, all, out, err);
    if (!strncmp(url, "http", 4))
        return hr_error_set(err, HR_UNSUPPORTED,
                            "%s: a Zarr group without consolidated metadata: web servers list no members, so name "
                            "its arrays",
                            root);
    return add_listed(url, is_third ? "zarr.json" : ".zarray", in, out, err);
}

/* The root's own objects. Where none exists, and where the store refuses, `own` is empty. */
static hr_status fetch_root(const char *url, const char *query, const input *in, texts *own, hr_error *err)
{
    static const char *const names[] = { "zarr.json", ".zarray", ".zgroup", ".zmetadata" };
    char *urls[LEN(names)] = { NULL };
    hr_status st = HR_OK;

    for (int i = 0; i < LEN(names); i++)
        if (asprintf(&urls[i], "%s/%s%s", url, names[i], query) < 0) {
            urls[i] = NULL;
            HR_GO(cli_no_memory(err, "zarr", (int64_t)strlen(url)));
        }
    st = fetch((const char *const *)urls, LEN(names), in, own, err);
    if (st == HR_NOT_FOUND || (st && !strstr(url, ".zarr"))) { /* the plan has an error of its own */
        hr_error_clear(err);
        texts_clear(own);
        st = HR_OK;
    }
done:
    for (int i = 0; i < LEN(names); i++)
        free(urls[i]);
    return st;
}

static hr_status find_at_url(const char *path, const input *in, zarr_arrays *out, hr_error *err)
{
    size_t n = strncmp(path, "http", 4) ? strlen(path) : strcspn(path, "?");
    const char *query = path + n;
    char *url, *root = NULL;
    texts own = { 0 };
    hr_status st = HR_OK;

    while (n && path[n - 1] == '/')
        n--;
    if (!(url = strndup(path, n)))
        return cli_no_memory(err, "zarr", (int64_t)n);
    if (hr_format_of_path(url) || strpbrk(url, "*[{"))
        goto done;
    HR_GO(fetch_root(url, query, in, &own, err));
    if (!own.n)
        goto done;
    out->is_store = true;
    root = strndup(own.paths[0], (size_t)(strrchr(own.paths[0], '/') - own.paths[0]));
    if (!root)
        HR_GO(cli_no_memory(err, "zarr", (int64_t)n));
    for (int64_t i = 0; i < own.n && !out->n; i++)
        HR_GO(add_array(out, root, "", 0, own.texts[i], err));
    if (!out->n)
        HR_GO(add_members(url, root, &own, in, out, err));
done:
    texts_clear(&own);
    free(root);
    free(url);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------------ */

hr_status zarr_find(const char *path, const input *in, zarr_arrays *out, hr_error *err)
{
    if (!strncmp(path, "file://", 7))
        path += 7;
    if (strstr(path, "://"))
        return find_at_url(path, in, out, err);
    if (strpbrk(path, "*?[") && access(path, F_OK))
        return visit_matches(path, out, err);
    return visit(path, 0, out, err);
}

void zarr_clear(zarr_arrays *all)
{
    for (int64_t i = 0; i < all->n; i++)
        free(all->items[i].path);
    free(all->items);
    *all = (zarr_arrays){ 0 };
}
