/* decode_jpeg.c - measures libjpeg-turbo alone: the upper limit for the benchmark of images.
 *
 *     decode_jpeg THREADS FILE...
 *
 * All files lie in memory before the clock starts. Each thread keeps one decompressor and takes the next file; rows of
 * all pixels come out as RGB, into the same few rows again and again. Prints seconds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jpeglib.h>

#define ROWS 16

static struct file {
    unsigned char *bytes;
    long n;
} *files;
static int n_files;
static atomic_int next;

static void decode(struct jpeg_decompress_struct *jpeg, const struct file *f, unsigned char *row, size_t n_row)
{
    JSAMPROW rows[ROWS];

    jpeg_mem_src(jpeg, f->bytes, (unsigned long)f->n);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = JCS_RGB;
    jpeg_start_decompress(jpeg);
    if (jpeg->output_width * 3UL > n_row)
        exit(1);
    for (int i = 0; i < ROWS; i++)
        rows[i] = row + (size_t)i * n_row;
    while (jpeg->output_scanline < jpeg->output_height)
        jpeg_read_scanlines(jpeg, rows, ROWS);
    jpeg_finish_decompress(jpeg);
}

static void *work(void *unused)
{
    size_t n_row = 65536 * 3;
    unsigned char *row = malloc(n_row * ROWS);
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;

    (void)unused;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    for (int i; row && (i = atomic_fetch_add(&next, 1)) < n_files;)
        decode(&jpeg, &files[i], row, n_row);
    jpeg_destroy_decompress(&jpeg);
    free(row);
    return NULL;
}

static int load(const char *path, struct file *out)
{
    FILE *f = fopen(path, "rb");

    if (!f || fseek(f, 0, SEEK_END) || (out->n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
        return 0;
    out->bytes = malloc((size_t)out->n + 1);
    if (!out->bytes || fread(out->bytes, 1, (size_t)out->n, f) != (size_t)out->n)
        return 0;
    return fclose(f) == 0;
}

int main(int argc, char **argv)
{
    int n_threads = argc > 2 ? atoi(argv[1]) : 0;
    struct timespec begin, end;
    pthread_t threads[256];

    files = calloc((size_t)argc, sizeof *files);
    if (n_threads < 1 || n_threads > 256 || !files)
        return 2;
    for (n_files = 0; n_files < argc - 2; n_files++) {
        if (!load(argv[n_files + 2], &files[n_files]))
            return perror(argv[n_files + 2]), 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < n_threads; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL))
            return 1;
    }
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.6f\n", (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    return 0;
}
