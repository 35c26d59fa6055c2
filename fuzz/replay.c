/* replay.c - runs a fuzz target over files, as an ordinary test: fuzz_NAME FILE_OR_FOLDER...
 *
 * Each input is copied into a block of just its size, so that a sanitizer sees a read beyond its end. An input that
 * takes more than a few seconds fails: a hang is as bad as a crash. */
#include "data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECONDS 20 /* for one input, sanitizers included */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_inputs;

static int run_file(const char *path, int64_t n_bytes)
{
    uint8_t *data = malloc((size_t)n_bytes + !n_bytes);
    int fd = hr__file_open(path);
    int64_t n = fd < 0 || !data ? -1 : hr__file_read_at(fd, data, n_bytes, 0);

    if (fd >= 0)
        hr__file_close(fd);
    if (n != n_bytes) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        return 1;
    }
    fprintf(stderr, "%s\n", path); /* the last printed name is the input that failed */
    alarm(SECONDS);
    LLVMFuzzerTestOneInput(data, (size_t)n);
    alarm(0);
    free(data);
    n_inputs++;
    return 0;
}

static int run_path(const char *path)
{
    hr_stat info;
    char **names = NULL, file[4096];
    int n, failed = 0;

    if (hr__file_stat(path, &info) < 0) {
        fprintf(stderr, "%s: not there\n", path);
        return 1;
    }
    if (!info.is_dir)
        return run_file(path, info.n_bytes);
    n = hr__dir_list(path, &names);
    for (int i = 0; i < n && !failed; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        failed = run_path(file);
    }
    hr__dir_list_free(names, n);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc && !failed; i++)
        failed = run_path(argv[i]);
    printf("%d inputs\n", n_inputs);
    return failed || n_inputs == 0;
}
