/* fn_random.c - random numbers and identifiers as functions of a row's coordinate, so that threads and tables never
 * matter.
 *
 * random() depends on the run's seed and the epoch, or on its own seed. `stream` distinguishes the calls of a program:
 * two calls with one stream return the same numbers. uuid() depends only on its own seed and the row, so that a row
 * keeps its identifier.
 *
 * Tests: test_expr_functions.py. */
#include "expr/fn/text_rows.h"

#include <stdio.h>

typedef struct random_options {
    int64_t seed, stream;
    bool seeded, reseed;
} random_options;

static const hr_option random_settings[] = {
    { .name = "stream",
      .kind = HR_OPT_INT,
      .at = offsetof(random_options, stream),
      .doc = "another number gives other random values" },
    { .name = "seeded",
      .kind = HR_OPT_BOOL,
      .at = offsetof(random_options, seeded),
      .doc = "uses `seed`, not the run's" },
    { .name = "seed", .kind = HR_OPT_INT, .at = offsetof(random_options, seed), .doc = "seed instead of the run's" },
    { .name = "reseed",
      .kind = HR_OPT_BOOL,
      .at = offsetof(random_options, reseed),
      .value = 1,
      .doc = "each epoch has other values" },
    { 0 },
};

static const hr_option uuid_settings[] = {
    { .name = "seed",
      .kind = HR_OPT_INT,
      .at = offsetof(random_options, seed),
      .doc = "another number gives other identifiers" },
    { 0 },
};

/* The coordinate of row i; its index in the table if the table has no origin. */
static hr_coord coord_at(const hr_eval *how, int64_t i)
{
    return how->origin ? hr__origin_at(how->origin, i) : (hr_coord){ .row = i };
}

/* The rows from i on with consecutive coordinates; -> their number, and the first coordinate. */
static int64_t stretch_at(const hr_eval *how, int64_t i, hr_run_coords *out)
{
    if (how->origin) {
        *out = hr__origin_run(how->origin, i);
    } else {
        *out = (hr_run_coords){ .first = coord_at(how, i), .n = how->n_rows - i };
    }
    return HR_MIN(out->n, how->n_rows - i);
}

static hr_coord coord_in(const hr_run_coords *run, int64_t k)
{
    hr_coord c = run->first;

    if (run->by_ordinal)
        c.ordinal += k;
    else
        c.row += k;
    return c;
}

static hr_status random_bind(hr_bound_call *call, hr_error *err)
{
    (void)err;
    call->type = hr__type_simple(HR_T_FLOAT64);
    return HR_OK;
}

static bool random_by_epoch(const void *options) { return ((const random_options *)options)->reseed; }

static hr_status random_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                             hr_error *err)
{
    const random_options *o = call->expr->options;
    const uint64_t seed = hr__philox(o->seeded ? (uint64_t)o->seed : how->seed, 0x72616E646F6D, (uint64_t)o->stream).lo;
    const uint64_t epoch = o->reseed ? (uint64_t)how->epoch : 0;
    hr_buffer *made = NULL;
    hr_run_coords run;
    double *y;

    (void)args;
    *out = NULL;
    HR_TRY(hr__buffer_new(how->mem, how->n_rows * 8, &made, err));
    y = (double *)(void *)made->data;
    for (int64_t i = 0, n; i < how->n_rows; i += n) {
        n = stretch_at(how, i, &run);
        for (int64_t k = 0; k < n; k++) {
            hr_coord c = coord_in(&run, k);

            y[i + k] = (double)(hr__random_coord(seed, epoch, &c).hi >> 11) * 0x1p-53;
        }
    }
    return hr__eval_array(call->type, how->n_rows, NULL, made, NULL, out, err);
}

static hr_status uuid_bind(hr_bound_call *call, hr_error *err)
{
    (void)err;
    call->type = hr__type_simple(HR_T_STRING);
    return HR_OK;
}

static hr_status uuid_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                           hr_error *err)
{
    static const char digits[] = "0123456789abcdef";
    const uint64_t seed = (uint64_t)((const random_options *)call->expr->options)->seed;
    hr_writer w = { 0 };
    hr_status st = HR_OK;

    (void)args;
    *out = NULL;
    HR_GO(hr__writer_open(&w, how, call->type, how->n_rows, how->n_rows * 36, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        hr_coord c = coord_at(how, i);
        hr_bits128 bits = hr__random_coord(seed, 0x75756964, &c);
        uint8_t *p;

        bits.hi = (bits.hi & ~UINT64_C(0xF000)) | 0x4000;            /* version 4: random */
        bits.lo = (bits.lo & (UINT64_MAX >> 2)) | UINT64_C(1) << 63; /* the variant of RFC 9562 */
        HR_GO(hr__writer_room(&w, 36, &p, err));
        for (int k = 0, at = 0; k < 32; k++) {
            uint64_t half = k < 16 ? bits.hi : bits.lo;

            if (k == 8 || k == 12 || k == 16 || k == 20)
                p[at++] = '-';
            p[at++] = (uint8_t)digits[half >> (60 - 4 * (k % 16)) & 15];
        }
        hr__writer_took(&w, 36);
        HR_GO(hr__writer_end_row(&w, err));
    }
    st = hr__writer_finish(&w, NULL, out, err);
done:
    hr__writer_clear(&w);
    return st;
}

const hr_expr_function hr__fn_random[] = {
    {
        .name = "random",
        .doc = "a random number of [0, 1) for each row",
        .options = random_settings,
        .options_bytes = sizeof(random_options),
        .row_random = true,
        .by_epoch = random_by_epoch,
        .bind = random_bind,
        .eval = random_eval,
    },
    {
        .name = "uuid",
        .doc = "a random identifier (version 4) for each row",
        .options = uuid_settings,
        .options_bytes = sizeof(random_options),
        .row_random = true,
        .bind = uuid_bind,
        .eval = uuid_eval,
    },
    { 0 },
};
