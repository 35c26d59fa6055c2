/* own_aggregate.c - an aggregate of one's own: the largest gap between numbers that follow each other, by group.
 *
 *     cc own_aggregate.c $(pkg-config --cflags --libs headrace) -o own_aggregate
 *
 * A group's state has the first number, the last one and the largest gap so far: so states of consecutive rows can be
 * merged. */
#include <headrace.h>

#include <inttypes.h>
#include <stdio.h>

typedef struct gap {
    int64_t n, first, last, largest; /* all zero: no rows yet */
} gap;

static void add(gap *to, const gap *g)
{
    if (!g->n)
        return;
    if (!to->n)
        to->first = g->first;
    else if (g->first - to->last > to->largest)
        to->largest = g->first - to->last;
    if (g->largest > to->largest)
        to->largest = g->largest;
    to->last = g->last;
    to->n += g->n;
}

static hr_status update(void *context, const hr_table *rows, const uint32_t *groups, void *states, hr_error *err)
{
    hr_column_view numbers = { .struct_bytes = sizeof numbers };
    hr_status st = hr_table_column_view(rows, 0, &numbers, err);

    (void)context;
    for (int64_t i = 0; !st && i < numbers.n_rows; i++) {
        int64_t v = ((const int64_t *)numbers.data)[i];

        add((gap *)states + groups[i], &(gap){ .n = 1, .first = v, .last = v });
    }
    return st;
}

static hr_status merge(void *context, const void *from, int64_t n, const uint32_t *groups, void *states, hr_error *err)
{
    (void)context;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        add((gap *)states + groups[i], (const gap *)from + i);
    return HR_OK;
}

static hr_status result(void *context, const void *states, int64_t n, void *values, uint8_t *valid, hr_error *err)
{
    const gap *g = states;

    (void)context;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        ((int64_t *)values)[i] = g[i].largest;
        valid[i] = g[i].n > 1; /* a single number has no gap: null */
    }
    return HR_OK;
}

/* The numbers below n, grouped by the last digit of their squares. */
static hr_status grouped(int64_t n, hr_plan **out, hr_error *err)
{
    const hr_aggregate_function own = { .struct_bytes = sizeof own,
                                        .state_bytes = sizeof(gap),
                                        .result_type = "int64",
                                        .update = update,
                                        .merge = merge,
                                        .result = result };
    const hr_aggregate aggregates[] = {
        { .struct_bytes = sizeof(hr_aggregate), .function = "largest_gap", .column = "id", .own = &own },
    };
    const char *key = "digit";
    hr_plan *numbers = NULL, *digits = NULL;
    hr_expr *id = NULL, *square = NULL, *ten = NULL, *digit = NULL;
    hr_status st = hr_plan_range(n, "id", &numbers, err);

    if (!st)
        st = hr_expr_column("id", &id, err);
    if (!st)
        st = hr_expr_call("multiply", (hr_expr *[]){ id, id }, 2, NULL, 0, &square, err);
    if (!st)
        st = hr_expr_int(10, &ten, err);
    if (!st)
        st = hr_expr_call("modulo", (hr_expr *[]){ square, ten }, 2, NULL, 0, &digit, err);
    if (!st)
        st = hr_plan_with_columns(numbers, &key, &digit, 1, &digits, err);
    if (!st)
        st = hr_plan_group(digits, &key, 1, aggregates, 1, out, err);
    hr_expr_unref(id);
    hr_expr_unref(square);
    hr_expr_unref(ten);
    hr_expr_unref(digit);
    hr_plan_unref(numbers);
    hr_plan_unref(digits);
    return st;
}

static hr_status print(hr_plan *p, hr_error *err)
{
    hr_feed *f = NULL;
    hr_table *t = NULL;
    char digit[40], gap_text[40];
    hr_status st = hr_feed_open(p, NULL, &f, err);

    while (!st && !(st = hr_feed_next(f, &t, err)) && t) {
        for (int64_t row = 0; row < hr_table_rows(t); row++) {
            hr_table_print_value(t, row, 0, digit, sizeof digit);
            hr_table_print_value(t, row, 1, gap_text, sizeof gap_text);
            printf("squares that end in %s are at most %s apart\n", digit, gap_text);
        }
        hr_table_unref(t);
    }
    hr_feed_close(f);
    return st;
}

int main(void)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    if (grouped(1000000, &p, &err) || print(p, &err)) {
        fprintf(stderr, "%s\n", err.text);
        hr_error_clear(&err);
        hr_plan_unref(p);
        return 1;
    }
    hr_plan_unref(p);
    return 0;
}
