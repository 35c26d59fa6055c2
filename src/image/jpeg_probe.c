/* jpeg_probe.c - checks that the running libjpeg has the struct layout of the header of our build.
 *
 * jpeg_huffman.c puts a function of its own into libjpeg-turbo's private struct jpeg_entropy_decoder and reads one
 * field of struct jpeg_input_controller. libjpeg checks its version and its public structs (jpeg_CreateDecompress), not
 * these. No function returns the version of libjpeg-turbo, and builds of one version differ between distributions; so
 * the code tries the places out, once a process:
 *
 * 1. The field at the place of decode_mcu is a pointer into the library's code.
 * 2. The library calls a function put there once for each group of blocks, and the picture is the same as without it.
 * 3. The field at the place of has_multiple_scans is 0 for a baseline file, and 1 for a progressive one.
 *
 * If any of these fails, libjpeg decodes alone.
 *
 * Tests: test_pixels.c. */
#include "data/data.h"

#ifdef HR_HAVE_JPEG
#include "image/jpeg_huffman.h"

#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && __has_include(<jpegint.h>)
#include <jpegint.h>
#include <setjmp.h>
#include <stdlib.h>

enum { WIDTH = 40, HEIGHT = 24, GROUPS = WIDTH / 8 * (HEIGHT / 8) };
#define NEAR ((uintptr_t)64 << 20) /* functions of one library lie within this distance */

typedef boolean decode_fn(j_decompress_ptr j, JBLOCKROW *blocks);

typedef struct probe {
    struct jpeg_error_mgr errors; /* first: libjpeg has its address */
    jmp_buf failed;
    decode_fn *own; /* the library's */
    int n_calls;
} probe;

static void on_error(j_common_ptr j) { longjmp(((probe *)(void *)j->err)->failed, 1); }
static void on_message(j_common_ptr j, int level) { (void)j, (void)level; }

static boolean count_group(j_decompress_ptr j, JBLOCKROW *blocks)
{
    probe *p = (probe *)(void *)j->err;

    p->n_calls++;
    return p->own(j, blocks);
}

static void errors_of(probe *p)
{
    jpeg_std_error(&p->errors);
    p->errors.error_exit = on_error;
    p->errors.emit_message = on_message;
}

/* A grey picture as a file from malloc. false: the library cannot make it. */
static bool encode(bool progressive, unsigned char **out, unsigned long *n)
{
    struct jpeg_compress_struct j;
    probe p = { .n_calls = 0 };

    *out = NULL;
    *n = 0;
    j.err = &p.errors;
    errors_of(&p);
    if (setjmp(p.failed)) {
        jpeg_destroy_compress(&j);
        return false;
    }
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, out, n);
    j.image_width = WIDTH;
    j.image_height = HEIGHT;
    j.input_components = 1;
    j.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&j);
    if (progressive)
        jpeg_simple_progression(&j);
    jpeg_start_compress(&j, TRUE);
    while (j.next_scanline < j.image_height) {
        unsigned char row[WIDTH], *rows[] = { row };

        for (unsigned x = 0; x < WIDTH; x++)
            row[x] = (unsigned char)(x * x * 3 + j.next_scanline * 11 + (x ^ j.next_scanline) * 5);
        jpeg_write_scanlines(&j, rows, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    return true;
}

static bool is_near(uintptr_t x, uintptr_t y) { return (x > y ? x - y : y - x) < NEAR; }

/* Replaces the library's function by ours. false: the field is no function. */
static bool hook(probe *p, j_decompress_ptr j, const hr_jpeg_layout *at)
{
    char *place = (char *)j->entropy + at->decode_mcu;
    decode_fn *mine = count_group;

    memcpy(&p->own, place, sizeof p->own);
    if (!is_near((uintptr_t)p->own, (uintptr_t)j->mem->alloc_small))
        return false;
    memcpy(place, &mine, sizeof mine);
    return true;
}

static int scans_of(j_decompress_ptr j, const hr_jpeg_layout *at)
{
    boolean v;

    memcpy(&v, (const char *)j->inputctl + at->has_multiple_scans, sizeof v);
    return v;
}

/* Decodes a file. *scans: the field at the place of has_multiple_scans; -1: it changes. */
static bool decode(const unsigned char *bytes, unsigned long n, const hr_jpeg_layout *at, bool hooked, int *n_calls,
                   int *scans, unsigned char *pixels)
{
    struct jpeg_decompress_struct j;
    probe p = { .n_calls = 0 };

    j.err = &p.errors;
    errors_of(&p);
    if (setjmp(p.failed)) {
        jpeg_destroy_decompress(&j);
        return false;
    }
    jpeg_create_decompress(&j);
    jpeg_mem_src(&j, bytes, n);
    if (jpeg_read_header(&j, TRUE) != JPEG_HEADER_OK)
        longjmp(p.failed, 1);
    *scans = scans_of(&j, at);
    if (!jpeg_start_decompress(&j) || j.output_width != WIDTH || j.output_height != HEIGHT ||
        j.output_components != 1 || (hooked && !hook(&p, &j, at)))
        longjmp(p.failed, 1);
    *scans = *scans == scans_of(&j, at) ? *scans : -1;
    while (j.output_scanline < HEIGHT) {
        unsigned char *row = pixels + j.output_scanline * WIDTH;

        jpeg_read_scanlines(&j, &row, 1);
    }
    jpeg_finish_decompress(&j);
    *scans = *scans == scans_of(&j, at) ? *scans : -1; /* eoi_reached, its neighbour, is 1 by now */
    jpeg_destroy_decompress(&j);
    *n_calls = p.n_calls;
    return true;
}

bool hr__jpeg_layout_is(const hr_jpeg_layout *at)
{
    unsigned char *baseline = NULL, *progressive = NULL, plain[WIDTH * HEIGHT], counted[WIDTH * HEIGHT];
    unsigned long n_baseline, n_progressive;
    int calls = 0, one = -1, many = -1;
    bool is = encode(false, &baseline, &n_baseline) && encode(true, &progressive, &n_progressive) &&
              decode(progressive, n_progressive, at, false, &calls, &many, plain) &&
              decode(baseline, n_baseline, at, false, &calls, &one, plain) && calls == 0 &&
              decode(baseline, n_baseline, at, true, &calls, &one, counted);

    is = is && calls == GROUPS && one == FALSE && many == TRUE && !memcmp(plain, counted, sizeof plain);
    free(baseline);
    free(progressive);
    return is;
}

const hr_jpeg_layout hr__jpeg_layout = { .decode_mcu = offsetof(struct jpeg_entropy_decoder, decode_mcu),
                                         .has_multiple_scans =
                                             offsetof(struct jpeg_input_controller, has_multiple_scans) };

static bool is_known;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look(void) { is_known = hr__jpeg_layout_is(&hr__jpeg_layout); }

bool hr__jpeg_layout_is_known(void)
{
    pthread_once(&once, look);
    return is_known;
}
#else
const hr_jpeg_layout hr__jpeg_layout = { 0, 0 };
bool hr__jpeg_layout_is(const hr_jpeg_layout *at) { return at == NULL; }
bool hr__jpeg_layout_is_known(void) { return false; }
#endif
#endif
