/* stat_zarr.c - headrace stat of Zarr stores: the metadata of their arrays, and advice on their chunks.
 *
 * The engine has no reader of Zarr: read_zarr of the Python package reads slabs of whole chunks along the first axis,
 * by threads, and a chunk costs some 0.2 ms besides the decoding of its bytes. So chunks are too small if they have
 * less than SMALL_CHUNK bytes and there are many, and too large if the first axis has fewer than there are threads, or
 * if those that threads hold at once do not fit into the memory limit. Bytes are those in memory.
 *
 * Tests: test_file_advice.py. */
#include "cli/cli.h"

#include <inttypes.h>

#define SMALL_CHUNK (128 << 10)
#define GOOD_CHUNK (1 << 20)
#define LARGE_CHUNK (64 << 20) /* what the advice proposes where chunks are too large */
#define MANY_CHUNKS 200
#define WORTH_BYTES (64 << 20) /* less is read in a moment, however it is cut */
#define CHUNK_NS 200e3         /* of a chunk, besides its bytes */
#define BYTES_A_SECOND 1e9

static void print_shape(const char *name, const int64_t *of, int n)
{
    fputs(name, stdout);
    for (int i = 0; i < n; i++)
        printf("%s%" PRId64, i ? ", " : "", of[i]);
    putchar(']');
}

static void print_array(const zarr_array *a)
{
    char each[32];

    pipes_print(stdout, a->path, true);
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

static void print_json(const zarr_array *a)
{
    fputs("{\"path\":", stdout);
    print_text(a->path);
    fputs(",\"format\":\"zarr\",\"type\":", stdout);
    print_text(a->type);
    print_shape(",\"shape\":[", a->shape, a->n_axes);
    print_shape(",\"chunks\":[", a->chunks, a->n_axes);
    if (a->has_shards)
        print_shape(",\"shards\":[", a->shards, a->n_axes);
    printf(",\"n_chunks\":%" PRId64 ",\"chunk_bytes\":%" PRId64 "}\n", a->n_chunks, a->chunk_bytes);
}

/* Chunks of which each costs more than its bytes. */
static bool advise_on_small(const zarr_array *a)
{
    double bytes = (double)a->n_chunks * (double)a->chunk_bytes, ns = bytes / BYTES_A_SECOND * 1e9;
    double few = bytes > GOOD_CHUNK ? bytes / GOOD_CHUNK : 1;
    char each[32], good[32];

    if (a->chunk_bytes >= SMALL_CHUNK || a->n_chunks < MANY_CHUNKS)
        return false;
    fputs("advice: ", stdout);
    pipes_print(stdout, a->path, true);
    printf(": %" PRId64 " chunks have %s each, and each takes about as long as one of %s; chunks of that size would be "
           "%.0f, and read about %.0f times as fast\n",
           a->n_chunks, cli_bytes((double)a->chunk_bytes, each), cli_bytes(GOOD_CHUNK, good), few,
           (ns + CHUNK_NS * (double)a->n_chunks) / (ns + CHUNK_NS * few));
    return true;
}

/* Chunks that leave threads without work, or that do not fit into memory beside one another. */
static void advise_on_large(const zarr_array *a)
{
    int64_t first = a->n_axes ? zarr_pieces(a->shape[0], a->chunks[0]) : 1, across = a->n_chunks / (first ? first : 1);
    double slab = (double)a->chunk_bytes * (double)across, all = slab * (double)first, good = all / LARGE_CHUNK;
    int threads = hr_num_threads();
    int64_t at_once = first < threads ? first : threads;
    double most = good < threads ? good : threads;
    char each[32], text[32], limit[32];

    if (all >= WORTH_BYTES && most >= 1.5 * (double)at_once) {
        fputs("advice: ", stdout);
        pipes_print(stdout, a->path, true);
        printf(": the first axis has %" PRId64
               " chunk%s of %s, each for one of %d threads; chunks of %s would be read up to "
               "%.1f times as fast\n",
               first, first == 1 ? "" : "s", cli_bytes(slab, each), threads, cli_bytes(LARGE_CHUNK, text),
               most / (double)at_once);
    } else if (slab > LARGE_CHUNK && 2 * slab * (double)at_once > (double)hr_memory_limit()) {
        fputs("advice: ", stdout);
        pipes_print(stdout, a->path, true);
        printf(": %" PRId64
               " chunks of %s at once need about %s, the limit is %s, so fewer threads read; chunks of %s let "
               "all of them read\n",
               at_once, cli_bytes(slab, each), cli_bytes(2 * slab * (double)at_once, text),
               cli_bytes((double)hr_memory_limit(), limit), "67.1 MB");
    }
}

hr_status stat_zarr(const char *path, const input *in, bool *done, hr_error *err)
{
    zarr_arrays arrays = { 0 };
    hr_status st = zarr_find(path, in, &arrays, err);

    *done = arrays.is_store;
    for (int64_t i = 0; !st && i < arrays.n; i++)
        (in->json ? print_json : print_array)(&arrays.items[i]);
    if (!st && arrays.is_store && !arrays.n) {
        pipes_print(stdout, path, true);
        puts(": zarr, no arrays");
    }
    for (int64_t i = 0; !st && !in->json && i < arrays.n; i++)
        if (!advise_on_small(&arrays.items[i]))
            advise_on_large(&arrays.items[i]);
    zarr_clear(&arrays);
    return st;
}
