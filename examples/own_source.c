/* own_source.c - a source of one's own: squares of numbers, computed on reading, in batches of 1,000 rows.
 *
 *     cc own_source.c $(pkg-config --cflags --libs headrace) -o own_source
 *
 * A fragment is an Arrow stream, and a stream is a struct of four functions. Here each gives one array of ROWS rows. */
#include <headrace.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAGMENTS 20
#define ROWS 2500

/* --- Arrow structs: who gets one calls its release */

static void schema_release(struct ArrowSchema *s)
{
    if (s->children)
        free(s->children[0]);
    free(s->children);
    s->release = NULL;
}

/* struct<square: int64> */
static int squares_schema(struct ArrowSchema *out)
{
    struct ArrowSchema *column = calloc(1, sizeof *column);

    *out = (struct ArrowSchema){ .format = "+s", .name = "", .n_children = 1, .release = schema_release };
    out->children = malloc(sizeof(struct ArrowSchema *));
    if (!column || !out->children) {
        free(column);
        free(out->children);
        return 12; /* ENOMEM */
    }
    *column = (struct ArrowSchema){ .format = "l", .name = "square", .release = schema_release };
    out->children[0] = column;
    return 0;
}

/* An array and everything that it points to, in one block. */
typedef struct squares {
    struct ArrowArray column;
    struct ArrowArray *children[1];
    const void *column_buffers[2], *row_buffers[1];
    int64_t values[ROWS];
} squares;

static void column_release(struct ArrowArray *a) { a->release = NULL; }

static void rows_release(struct ArrowArray *a)
{
    free(a->private_data);
    a->release = NULL;
}

typedef struct place {
    int fragment;
    bool given;
} place;

static int next_rows(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    place *p = s->private_data;
    squares *made;

    *out = (struct ArrowArray){ 0 }; /* without release: the end */
    if (p->given)
        return 0;
    made = calloc(1, sizeof *made);
    if (!made)
        return 12;
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t v = (int64_t)p->fragment * ROWS + i;

        made->values[i] = v * v;
    }
    made->column_buffers[1] = made->values; /* [0], the bitmap of nulls, is missing: no value is null */
    made->column = (struct ArrowArray){
        .length = ROWS, .n_buffers = 2, .buffers = made->column_buffers, .release = column_release
    };
    made->children[0] = &made->column;
    *out = (struct ArrowArray){ .length = ROWS,
                                .n_buffers = 1,
                                .buffers = made->row_buffers,
                                .n_children = 1,
                                .children = made->children,
                                .release = rows_release,
                                .private_data = made };
    p->given = true;
    return 0;
}

static int stream_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    (void)s;
    return squares_schema(out);
}

static const char *stream_error(struct ArrowArrayStream *s)
{
    (void)s;
    return "no memory";
}

static void stream_release(struct ArrowArrayStream *s)
{
    free(s->private_data);
    s->release = NULL;
}

/* --- the source */

static hr_status source_schema(void *context, struct ArrowSchema *out, hr_error *err)
{
    (void)context;
    return squares_schema(out) ? hr_error_set(err, HR_NO_MEMORY, "no memory for a schema") : HR_OK;
}

static hr_status source_read(void *context, int fragment, const char *const *columns, int n_columns,
                             struct ArrowArrayStream *out, hr_error *err)
{
    place *p = calloc(1, sizeof *p);

    (void)context;
    (void)columns; /* there is but one */
    (void)n_columns;
    if (!p)
        return hr_error_set(err, HR_NO_MEMORY, "no memory for a stream");
    p->fragment = fragment;
    *out = (struct ArrowArrayStream){ stream_schema, next_rows, stream_error, stream_release, p };
    return HR_OK;
}

static int64_t source_rows(void *context, int fragment)
{
    (void)context;
    (void)fragment;
    return ROWS;
}

static hr_status run(hr_error *err)
{
    hr_source_functions functions = { .struct_bytes = sizeof functions,
                                      .name = "squares",
                                      .n_fragments = FRAGMENTS,
                                      .schema = source_schema,
                                      .read = source_read,
                                      .n_rows = source_rows };
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = 1000 };
    hr_plan *plan = NULL;
    hr_feed *feed = NULL;
    hr_table *batch = NULL;
    hr_column_view view = { .struct_bytes = sizeof view };
    int64_t n_rows = 0, last = 0;
    hr_status st;

    st = hr_plan_source(&functions, &plan, err);
    if (!st)
        st = hr_feed_open(plan, &options, &feed, err);
    while (!st && !(st = hr_feed_next(feed, &batch, err)) && batch) {
        st = hr_table_column_view(batch, 0, &view, err);
        if (!st)
            last = ((const int64_t *)view.data)[view.n_rows - 1];
        n_rows += hr_table_rows(batch);
        hr_table_unref(batch);
    }
    hr_feed_close(feed);
    hr_plan_unref(plan);
    if (!st)
        printf("%" PRId64 " rows, the last is %" PRId64 "\n", n_rows, last);
    if (!st && (n_rows != FRAGMENTS * ROWS || last != (n_rows - 1) * (n_rows - 1)))
        st = hr_error_set(err, HR_BUG, "%d rows are expected, and another square", FRAGMENTS * ROWS);
    return st;
}

int main(void)
{
    hr_error err = HR_ERROR_INIT;

    if (!run(&err))
        return 0;
    fprintf(stderr, "own_source: %s\n", err.text);
    hr_error_clear(&err);
    return 1;
}
