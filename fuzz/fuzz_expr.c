/* fuzz_expr.c - any bytes as an expression: built, bound to a table of every type, evaluated. The result for all rows
 * equals those for ranges of them, and if one row fails, the whole fails.
 *
 * The bytes are a program for a stack: columns, constants, and calls of any function with any settings. */
#include "expr/fn.h"

#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_STACK = 12, MOST_CALLS = 40, MOST_GROWING = 2, CUT = 5 };

static const char *const texts[] = { "1",   "-7",   NULL,    "0",          "2.5",         "nan", "-inf",
                                     "127", "true", "false", "2024-02-29", "x",           "é ß", "2023-10-29T01:30:00",
                                     NULL,  "",     "a,b",   "1e300",      "99999999.99", "%_",  "A1b2" };
static const char *const types[] = { "string",
                                     "int8",
                                     "uint64",
                                     "int32",
                                     "int64",
                                     "float",
                                     "double",
                                     "halffloat",
                                     "bool",
                                     "decimal128(10, 2)",
                                     "decimal256(50, 4)",
                                     "decimal128(38, 38)",
                                     "date32",
                                     "timestamp[us, tz=Europe/Berlin]",
                                     "timestamp[ns]",
                                     "large_string",
                                     "binary" };

static void must(hr_status st, const hr_error *err)
{
    if (st) {
        fprintf(stderr, "%s\n", err->text);
        abort();
    }
}

/* -------------------------------------------------------------------------------------------------------- the table */

static hr_array *text_column(hr_error *err)
{
    const hr_mem mem = { 0 };
    hr_buffer *b[3] = { 0 };
    hr_array *out = NULL;
    int32_t at = 0;

    must(hr__buffer_new(&mem, 8, &b[0], err), err);
    must(hr__buffer_new(&mem, (HR_LEN(texts) + 1) * 4, &b[1], err), err);
    must(hr__buffer_new(&mem, 1000, &b[2], err), err);
    memset(b[0]->data, 0, 8);
    for (int i = 0; i <= HR_LEN(texts); i++) {
        ((int32_t *)(void *)b[1]->data)[i] = at;
        if (i == HR_LEN(texts) || !texts[i])
            continue;
        hr__bit_set(b[0]->data, i);
        memcpy(b[2]->data + at, texts[i], strlen(texts[i]));
        at += (int32_t)strlen(texts[i]);
    }
    must(hr__array_new(hr__type_simple(HR_T_STRING), HR_LEN(texts), -1, b, NULL, 0, &out, err), err);
    return out;
}

/* The texts cast to each type; null if a text is no such value. */
static hr_table *make_table(void)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };
    hr_error err = HR_ERROR_INIT;
    hr_field text = { .name = (char *)(uintptr_t)"t", .type = hr__type_simple(HR_T_STRING), .nullable = true };
    hr_field fields[HR_LEN(types)] = { 0 };
    hr_array *columns[HR_LEN(types)], *from = text_column(&err);
    hr_schema *schema = NULL;
    hr_table *source = NULL, *out = NULL;
    char names[HR_LEN(types)][16];

    must(hr__schema_new(&text, 1, &schema, &err), &err);
    must(hr__table_new(schema, &from, HR_LEN(texts), NULL, &source, &err), &err);
    hr__schema_unref(schema);
    for (int i = 0; i < HR_LEN(types); i++) {
        char to[80];
        const char *settings[] = { to, "safe=false" };
        hr_expr *t = NULL, *e = NULL;
        hr_bound *b = NULL;

        snprintf(to, sizeof to, "to=%s", types[i]);
        must(hr_expr_column("t", &t, &err), &err);
        must(hr_expr_call("cast", &t, 1, settings, 2, &e, &err), &err);
        must(hr__expr_bind(e, source->schema, &b, &err), &err);
        must(hr__bound_eval(b, &how, source, &columns[i], &err), &err);
        snprintf(names[i], sizeof names[i], "c%d", i);
        fields[i] = (hr_field){ .name = names[i], .type = columns[i]->type, .nullable = true };
        hr__bound_free(b);
        hr_expr_unref(t);
        hr_expr_unref(e);
    }
    must(hr__schema_new(fields, HR_LEN(types), &schema, &err), &err);
    must(hr__table_new(schema, columns, HR_LEN(texts), NULL, &out, &err), &err);
    hr__schema_unref(schema);
    hr_table_unref(source);
    return out;
}

/* ------------------------------------------------------------------------------------------------------ the program */

typedef struct program {
    const uint8_t *p, *end;
    hr_expr *stack[MOST_STACK];
    int n, n_calls, n_growing;
} program;

static unsigned next_byte(program *g) { return g->p < g->end ? *g->p++ : 0; }

static void push(program *g, hr_expr *e)
{
    if (e && g->n == MOST_STACK)
        hr_expr_unref(e);
    else if (e)
        g->stack[g->n++] = e;
}

static void next_text(program *g, char *out, int most)
{
    int n = (int)(next_byte(g) % (unsigned)most);

    for (int i = 0; i < n; i++)
        out[i] = (char)next_byte(g);
    out[n] = 0;
}

static const hr_expr_function *next_function(program *g)
{
    unsigned k = next_byte(g), n = 0;

    for (int pass = 0; pass < 2; pass++) {
        unsigned i = 0;

        for (int t = 0; hr__expr_tables[t]; t++)
            for (const hr_expr_function *f = hr__expr_tables[t]; f->name; f++, i++)
                if (pass && i == k % n)
                    return f;
        n = i;
    }
    return NULL;
}

/* Texts must not grow without bounds: few calls of functions that lengthen them, and small numbers. */
static bool grows(const hr_expr_function *f)
{
    return strstr(f->name, "repeat") || strstr(f->name, "pad") || strstr(f->name, "center") ||
           strstr(f->name, "zfill") || strstr(f->name, "replace") || strstr(f->name, "resize") ||
           strstr(f->name, "crop") || !strcmp(f->name, "add");
}

static int next_settings(program *g, const hr_expr_function *f, char text[3][64], const char *settings[3])
{
    int n = f->options ? (int)(next_byte(g) % 3) : 0, n_options = 0;

    while (f->options && f->options[n_options].name)
        n_options++;
    for (int i = 0; i < n; i++) {
        const hr_option *o = &f->options[next_byte(g) % (unsigned)n_options];
        char value[40];

        if (o->kind == HR_OPT_INT)
            snprintf(value, sizeof value, "%d", (int)(next_byte(g) % 40) - 10);
        else if (!strcmp(o->name, "to"))
            snprintf(value, sizeof value, "%s", types[next_byte(g) % HR_LEN(types)]);
        else
            next_text(g, value, 16);
        snprintf(text[i], 64, "%s=%s", o->name, value);
        settings[i] = text[i];
    }
    return n;
}

static void next_call(program *g)
{
    const hr_expr_function *f = next_function(g);
    int n = f->max_args < 0 ? f->min_args + (int)(next_byte(g) % 3) : f->max_args;
    const char *settings[3];
    char text[3][64];
    hr_expr *e = NULL;
    hr_error err = HR_ERROR_INIT;
    int n_settings = next_settings(g, f, text, settings);

    if (n > g->n || ++g->n_calls > MOST_CALLS || (grows(f) && ++g->n_growing > MOST_GROWING))
        return;
    if (hr_expr_call(f->name, g->stack + g->n - n, n, settings, n_settings, &e, &err))
        REQUIRE(!e && err.text[0]);
    hr_error_clear(&err);
    if (!e)
        return;
    for (int i = 0; i < n; i++)
        hr_expr_unref(g->stack[--g->n]);
    push(g, e);
}

static void run(program *g)
{
    while (g->p < g->end) {
        unsigned op = next_byte(g);
        char text[24];
        hr_expr *e = NULL;

        if (op < 80) {
            snprintf(text, sizeof text, "c%u", op % (HR_LEN(types) + 1)); /* one does not exist */
            (void)!hr_expr_column(text, &e, NULL);
        } else if (op < 95) {
            (void)!hr_expr_int((int8_t)next_byte(g), &e, NULL);
        } else if (op < 110) {
            next_text(g, text, 16);
            (void)!hr_expr_string(text, &e, NULL);
        } else {
            next_call(g);
        }
        push(g, e);
    }
}

/* ------------------------------------------------------------------------------------------------------- what holds */

static void same_rows(const hr_array *whole, int64_t begin, const hr_array *piece)
{
    for (int64_t i = 0; i < piece->length; i++) {
        hr_text a = { 0 }, b = { 0 };

        hr__array_print_value(whole, begin + i, &a);
        hr__array_print_value(piece, i, &b);
        REQUIRE(a.n == b.n && (a.n == 0 || !memcmp(a.data, b.data, (size_t)a.n)));
        hr__text_clear(&a);
        hr__text_clear(&b);
    }
}

static void evaluate(const hr_bound *b, hr_table *t, bool is_random)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };
    const int64_t begins[] = { 0, CUT, t->n_rows };
    hr_error err = HR_ERROR_INIT;
    hr_array *whole = NULL;
    hr_status st = hr__bound_eval(b, &how, t, &whole, &err), parts = HR_OK;

    REQUIRE(!st == (whole != NULL));
    hr_error_clear(&err);
    for (int i = 0; i < 2 && !is_random; i++) {
        hr_table *cut = NULL;
        hr_array *piece = NULL;
        hr_status found;

        must(hr_table_slice(t, begins[i], begins[i + 1] - begins[i], &cut, &err), &err);
        if ((found = hr__bound_eval(b, &how, cut, &piece, &err)))
            parts = found;
        else if (whole)
            same_rows(whole, begins[i], piece);
        hr_error_clear(&err);
        hr__array_unref(piece);
        hr_table_unref(cut);
    }
    REQUIRE(is_random || !st == !parts);
    hr__array_unref(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hr_table *t;
    program g = { .p = data, .end = data + size };
    hr_error err = HR_ERROR_INIT;

    if (!t)
        t = make_table();
    run(&g);
    for (int i = 0; i < g.n; i++) {
        char *text = NULL;
        hr_bound *b = NULL;

        must(hr_expr_print(g.stack[i], &text, &err), &err);
        hr_string_free(text);
        if (!hr__expr_bind(g.stack[i], t->schema, &b, &err))
            evaluate(b, t, hr__expr_row_random(g.stack[i]));
        else
            REQUIRE(!b && err.text[0]);
        hr_error_clear(&err);
        hr__bound_free(b);
        hr_expr_unref(g.stack[i]);
    }
    return 0;
}
