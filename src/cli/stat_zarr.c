/* stat_zarr.c - headrace stat of Zarr stores: the metadata of their arrays, and advice on their chunks.
 *
 * A store is a folder with .zarray or .zgroup (version 2) or zarr.json (version 3). Its members are the folders below
 * it. The engine has no reader of Zarr: read_zarr of the Python package reads slabs of whole chunks along the first
 * axis, by threads, and a chunk costs some 0.2 ms besides the decoding of its bytes. So chunks are too small if they
 * have less than SMALL_CHUNK bytes and there are many, and too large if the first axis has fewer than there are
 * threads, or if those that threads hold at once do not fit into the memory limit. Bytes are those in memory.
 *
 * The metadata is JSON of a few known members: value_of() finds the text of a member at the top of an object.
 *
 * Tests: test_file_advice.py. */
#include "cli/cli.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

#define MOST_AXES 32
#define MOST_DEPTH 8            /* of groups in groups */
#define MOST_METADATA (4 << 20) /* a file of metadata may have attributes */
#define SMALL_CHUNK (128 << 10)
#define GOOD_CHUNK (1 << 20)
#define LARGE_CHUNK (64 << 20) /* what the advice proposes where chunks are too large */
#define MANY_CHUNKS 200
#define WORTH_BYTES (64 << 20) /* less is read in a moment, however it is cut */
#define CHUNK_NS 200e3         /* of a chunk, besides its bytes */
#define BYTES_A_SECOND 1e9

typedef struct array {
    char type[64];
    int n_axes;
    int64_t shape[MOST_AXES], chunks[MOST_AXES], shards[MOST_AXES];
    bool has_shards;
    int64_t item_bytes, n_chunks, chunk_bytes;
} array;

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

/* The value of a member of the object at `at`; NULL: it has none, or is no object. */
static const char *value_of(const char *at, const char *name)
{
    size_t n = strlen(name);

    if (!at || *(at = after_space(at)) != '{')
        return NULL;
    for (at = after_space(at + 1); *at == '"'; at = after_space(at + (*at == ','))) {
        const char *key = at + 1, *end = text_end(at);
        bool same = (size_t)(end - 1 - key) == n && !strncmp(key, name, n);

        at = after_space(end);
        if (*at != ':')
            return NULL;
        at = after_space(at + 1);
        if (same)
            return at;
        at = after_space(value_end(at));
    }
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

        if (n == MOST_AXES)
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

static int64_t pieces_of(int64_t n, int64_t each) { return n / each + (n % each != 0); }

static int64_t product(const int64_t *of, int n)
{
    double all = 1;

    for (int i = 0; i < n; i++)
        all *= (double)of[i];
    return all < 9e18 ? (int64_t)all : INT64_MAX;
}

/* Version 3: the codec "sharding_indexed" has the chunks, and the grid's are shards. */
static void take_shards(const char *json, array *a)
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
static bool parse(const char *json, array *a)
{
    const char *grid = value_of(value_of(json, "chunk_grid"), "configuration");
    const char *chunks = grid ? value_of(grid, "chunk_shape") : value_of(json, "chunks");
    int64_t along[MOST_AXES];

    *a = (array){ 0 };
    a->n_axes = integers_of(value_of(json, "shape"), a->shape);
    if (a->n_axes < 0 || integers_of(chunks, a->chunks) != a->n_axes)
        return false;
    text_of(value_of(json, grid ? "data_type" : "dtype"), a->type, sizeof a->type);
    take_shards(json, a);
    for (int i = 0; i < a->n_axes; i++) {
        if (a->chunks[i] < 1)
            return false;
        along[i] = pieces_of(a->shape[i], a->chunks[i]);
    }
    a->item_bytes = item_bytes_of(a->type);
    a->n_chunks = product(along, a->n_axes);
    for (int i = 0; i < a->n_axes; i++)
        along[i] = a->chunks[i] < a->shape[i] ? a->chunks[i] : a->shape[i];
    a->chunk_bytes = product(along, a->n_axes);
    a->chunk_bytes = a->chunk_bytes < INT64_MAX / a->item_bytes ? a->chunk_bytes * a->item_bytes : INT64_MAX;
    return true;
}

/* --------------------------------------------------------------------------------------------------------- printing */

static void print_shape(const char *name, const int64_t *of, int n)
{
    fputs(name, stdout);
    for (int i = 0; i < n; i++)
        printf("%s%" PRId64, i ? ", " : "", of[i]);
    putchar(']');
}

static void print_array(const char *path, const array *a)
{
    char each[32];

    pipes_print(stdout, path, true);
    fputs(": zarr, ", stdout);
    pipes_print(stdout, a->type[0] ? a->type : "another type", true);
    print_shape(" [", a->shape, a->n_axes);
    print_shape(", chunks [", a->chunks, a->n_axes);
    if (a->has_shards)
        print_shape(" in shards [", a->shards, a->n_axes);
    printf(": %" PRId64 " of %s in memory\n", a->n_chunks, cli_bytes((double)a->chunk_bytes, each));
}

/* A JSON text. */
static void print_text(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        printf(*c < 32 || *c == '"' || *c == '\\' ? "\\u%04x" : "%c", *c);
    putchar('"');
}

static void print_json(const char *path, const array *a)
{
    fputs("{\"path\":", stdout);
    print_text(path);
    fputs(",\"format\":\"zarr\",\"type\":", stdout);
    print_text(a->type);
    print_shape(",\"shape\":[", a->shape, a->n_axes);
    print_shape(",\"chunks\":[", a->chunks, a->n_axes);
    if (a->has_shards)
        print_shape(",\"shards\":[", a->shards, a->n_axes);
    printf(",\"n_chunks\":%" PRId64 ",\"chunk_bytes\":%" PRId64 "}\n", a->n_chunks, a->chunk_bytes);
}

/* Chunks of which each costs more than its bytes. */
static bool advise_on_small(const char *path, const array *a)
{
    double bytes = (double)a->n_chunks * (double)a->chunk_bytes, ns = bytes / BYTES_A_SECOND * 1e9;
    double few = bytes > GOOD_CHUNK ? bytes / GOOD_CHUNK : 1;
    char each[32], good[32];

    if (a->chunk_bytes >= SMALL_CHUNK || a->n_chunks < MANY_CHUNKS)
        return false;
    fputs("advice: ", stdout);
    pipes_print(stdout, path, true);
    printf(": %" PRId64 " chunks have %s each, and each takes about as long as one of %s; chunks of that size would be "
           "%.0f, and read about %.0f times as fast\n",
           a->n_chunks, cli_bytes((double)a->chunk_bytes, each), cli_bytes(GOOD_CHUNK, good), few,
           (ns + CHUNK_NS * (double)a->n_chunks) / (ns + CHUNK_NS * few));
    return true;
}

/* Chunks that leave threads without work, or that do not fit into memory beside one another. */
static void advise_on_large(const char *path, const array *a)
{
    int64_t first = a->n_axes ? pieces_of(a->shape[0], a->chunks[0]) : 1, across = a->n_chunks / (first ? first : 1);
    double slab = (double)a->chunk_bytes * (double)across, all = slab * (double)first, good = all / LARGE_CHUNK;
    int threads = hr_num_threads();
    int64_t at_once = first < threads ? first : threads;
    double most = good < threads ? good : threads;
    char each[32], text[32], limit[32];

    if (all >= WORTH_BYTES && most >= 1.5 * (double)at_once) {
        fputs("advice: ", stdout);
        pipes_print(stdout, path, true);
        printf(": the first axis has %" PRId64
               " chunk%s of %s, each for one of %d threads; chunks of %s would be read up to "
               "%.1f times as fast\n",
               first, first == 1 ? "" : "s", cli_bytes(slab, each), threads, cli_bytes(LARGE_CHUNK, text),
               most / (double)at_once);
    } else if (slab > LARGE_CHUNK && 2 * slab * (double)at_once > (double)hr_memory_limit()) {
        fputs("advice: ", stdout);
        pipes_print(stdout, path, true);
        printf(": %" PRId64
               " chunks of %s at once need about %s, the limit is %s, so fewer threads read; chunks of %s let "
               "all of them read\n",
               at_once, cli_bytes(slab, each), cli_bytes(2 * slab * (double)at_once, text),
               cli_bytes((double)hr_memory_limit(), limit), "67.1 MB");
    }
}

/* ----------------------------------------------------------------------------------------------------------- stores */

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

/* The array, or those of a group, in the order of their names. Returns their number. */
static int visit(const char *folder, int depth, void (*tell)(const char *path, const array *a, bool json), bool json)
{
    struct dirent **members = NULL;
    char *text = metadata_of(folder);
    array a;
    int n_arrays = 0, n = 0;

    if (text && parse(text, &a)) {
        tell(folder, &a, json);
        n_arrays = 1;
    } else if (text && depth < MOST_DEPTH) {
        n = scandir(folder, &members, visible, alphasort);
    }
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];

        if (snprintf(path, sizeof path, "%s/%s", folder, members[i]->d_name) < (int)sizeof path)
            n_arrays += visit(path, depth + 1, tell, json);
        free(members[i]);
    }
    free(members);
    free(text);
    return n_arrays;
}

static void tell_array(const char *path, const array *a, bool json)
{
    if (json)
        print_json(path, a);
    else
        print_array(path, a);
}

static void tell_advice(const char *path, const array *a, bool json)
{
    (void)json;
    if (!advise_on_small(path, a))
        advise_on_large(path, a);
}

bool stat_zarr(const char *path, bool json, bool advice)
{
    char *text = metadata_of(path);

    free(text);
    if (!text)
        return false;
    if (advice) {
        if (!json)
            visit(path, 0, tell_advice, json);
    } else if (!visit(path, 0, tell_array, json)) {
        pipes_print(stdout, path, true);
        puts(": zarr, no arrays");
    }
    return true;
}
