/* expr.c - expressions as trees: constructors, text, comparison.
 *
 * A tree is immutable and its nodes are counted, so trees share parts. Constructors bound depth and size: code that
 * walks a tree may recurse, and `e = e & e`, sixty times, is an error and not an endless loop. */
#include "expr/fn.h"

#include <inttypes.h>

enum { MAX_DEPTH = 1000, MAX_SIZE = 200000 };

const hr_expr_function *hr__expr_function(const char *name)
{
    for (int i = 0; hr__expr_tables[i]; i++)
        for (const hr_expr_function *f = hr__expr_tables[i]; f->name; f++)
            if (!strcmp(f->name, name))
                return f;
    return NULL;
}

/* ----------------------------------------------------------------------------------------------------- making nodes */

static hr_status expr_new(hr_expr_kind kind, hr_expr **out, hr_error *err)
{
    hr_expr *e = hr__zalloc(NULL, sizeof *e);

    *out = e;
    if (!e)
        return hr__error_memory(err, "expression", sizeof *e);
    atomic_init(&e->refs, 1);
    e->kind = kind;
    e->depth = 1;
    e->size = 1;
    return HR_OK;
}

hr_expr *hr_expr_ref(hr_expr *e)
{
    if (e)
        atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void hr_expr_unref(hr_expr *e)
{
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (int i = 0; i < e->n_args; i++)
        hr_expr_unref(e->args[i]);
    for (int i = 0; i < e->n_settings; i++)
        hr__free(e->settings[i]);
    if (e->options)
        hr__options_clear(e->function->options, e->options);
    hr__free(e->args);
    hr__free(e->settings);
    hr__free(e->options);
    hr__free(e->name);
    hr__array_unref(e->value);
    hr__free(e);
}

hr_status hr_expr_column(const char *name, hr_expr **out, hr_error *err)
{
    HR_NEED(name, out);

    HR_TRY(expr_new(HR_EXPR_COLUMN, out, err));
    if (((*out)->name = hr__strdup(NULL, name)))
        return HR_OK;
    hr_expr_unref(*out);
    *out = NULL;
    return hr__error_memory(err, "column", (int64_t)strlen(name));
}

hr_status hr__expr_value(hr_array *takes, bool weak, hr_expr **out, hr_error *err)
{
    hr_status st = HR_OK;

    *out = NULL;
    if (takes->length != 1)
        HR_FAIL(HR_INVALID, "literal: %" PRId64 " values, expected one", takes->length);
    HR_GO(expr_new(HR_EXPR_LITERAL, out, err));
    (*out)->value = takes;
    (*out)->weak = weak;
    takes = NULL; /* moved */
done:
    hr__array_unref(takes);
    return st;
}

hr_status hr_expr_literal(struct ArrowSchema *type, struct ArrowArray *value, hr_expr **out, hr_error *err)
{
    HR_NEED(type, value, out);

    hr_array *a = NULL;
    hr_status st = hr__array_import(value, type, &a, err);

    *out = NULL;
    if (type->release)
        type->release(type);
    if (!st)
        st = hr__array_check(a, true, err);
    if (!st)
        st = hr__array_check_values(a, true, err);
    if (!st) {
        st = hr__expr_value(a, false, out, err);
        a = NULL; /* taken */
    }
    hr__array_unref(a);
    return st;
}

/* A literal of one value, which `add` appends. */
static hr_status literal_of(hr_type_id id, hr_status (*add)(hr_builder *b, const void *v, hr_error *err), const void *v,
                            bool weak, hr_expr **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    hr_builder *b = NULL;
    hr_array *a = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__builder_new(&mem, hr__type_simple(id), &b, err));
    HR_GO(add(b, v, err));
    HR_GO(hr__builder_finish(b, &a, err));
    st = hr__expr_value(a, weak, out, err);
done:
    hr__builder_free(b);
    return st;
}

static hr_status add_int(hr_builder *b, const void *v, hr_error *err)
{
    return hr__builder_int(b, *(const int64_t *)v, err);
}

static hr_status add_double(hr_builder *b, const void *v, hr_error *err)
{
    return hr__builder_double(b, *(const double *)v, err);
}

static hr_status add_string(hr_builder *b, const void *v, hr_error *err)
{
    if (!hr__utf8_valid(v, (int64_t)strlen(v)))
        return hr_error_set(err, HR_INVALID, "literal: the text is not UTF-8");
    return hr__builder_bytes(b, v, (int64_t)strlen(v), err);
}

hr_status hr_expr_int(int64_t v, hr_expr **out, hr_error *err)
{
    HR_NEED(out);

    return literal_of(HR_T_INT64, add_int, &v, true, out, err);
}

hr_status hr_expr_double(double v, hr_expr **out, hr_error *err)
{
    HR_NEED(out);

    return literal_of(HR_T_FLOAT64, add_double, &v, true, out, err);
}

hr_status hr_expr_string(const char *v, hr_expr **out, hr_error *err)
{
    HR_NEED(v, out);

    return literal_of(HR_T_STRING, add_string, v, false, out, err);
}

/* ------------------------------------------------------------------------------------------------------------ calls */

static hr_status set_args(hr_expr *e, hr_expr *const *args, int n, hr_error *err)
{
    if (!(e->args = hr__zalloc(NULL, ((size_t)n + 1) * sizeof(hr_expr *))))
        return hr__error_memory(err, e->function->name, n * (int64_t)sizeof(hr_expr *));
    for (int i = 0; i < n; i++) {
        e->args[e->n_args++] = hr_expr_ref(args[i]);
        e->depth = HR_MAX(e->depth, args[i]->depth + 1);
        e->size += args[i]->size;
    }
    if (e->depth > MAX_DEPTH)
        return hr_error_set(err, HR_INVALID, "%s: the expression is nested more than %d levels deep", e->function->name,
                            MAX_DEPTH);
    if (e->size > MAX_SIZE)
        return hr_error_set(err, HR_INVALID, "%s: the expression has more than %d parts", e->function->name, MAX_SIZE);
    return HR_OK;
}

static hr_status set_settings(hr_expr *e, const char *const *settings, int n, hr_error *err)
{
    const hr_expr_function *f = e->function;

    if (f->options && !(e->options = hr__zalloc(NULL, f->options_bytes)))
        return hr__error_memory(err, f->name, (int64_t)f->options_bytes);
    hr__options_default(f->options, e->options);
    if (!(e->settings = hr__zalloc(NULL, ((size_t)n + 1) * sizeof(char *))))
        return hr__error_memory(err, f->name, n * (int64_t)sizeof(char *));
    for (int i = 0; i < n; i++) {
        if (!(e->settings[i] = hr__strdup(NULL, settings[i])))
            return hr__error_memory(err, f->name, (int64_t)strlen(settings[i]));
        e->n_settings++;
    }
    return hr__options_parse(f->options, settings, n, e->options, err);
}

static hr_status function_missing(const char *name, hr_error *err)
{
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    for (int k = 0; hr__expr_tables[k]; k++)
        for (const hr_expr_function *f = hr__expr_tables[k]; f->name; f++)
            hr__near_try(&near, f->name, strlen(f->name));
    return hr_error_set(err, HR_NOT_FOUND, "no function '%s'%s; `headrace functions` lists the functions", name,
                        hr__near_hint(&near));
}

hr_status hr_expr_call(const char *function, hr_expr *const *args, int n_args, const char *const *settings,
                       int n_settings, hr_expr **out, hr_error *err)
{
    HR_NEED(function, out);

    const hr_expr_function *f = hr__expr_function(function);
    hr_expr *e = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!f)
        HR_GO(function_missing(function, err));
    if (n_args < f->min_args || (f->max_args >= 0 && n_args > f->max_args))
        HR_FAIL(HR_INVALID, "%s: %d arguments, expected %d%s", f->name, n_args, f->min_args,
                f->max_args == f->min_args ? ""
                : f->max_args < 0          ? " or more"
                                           : " at least");
    HR_GO(expr_new(HR_EXPR_CALL, &e, err));
    e->function = f;
    HR_GO(set_args(e, args, n_args, err));
    if ((st = set_settings(e, settings, n_settings, err))) {
        st = hr__error_at(err, st, "%s", f->name);
        goto done;
    }
    *out = e;
    e = NULL; /* moved to the caller */
done:
    hr_expr_unref(e);
    return st;
}

/* --------------------------------------------------------------------------------------------------- walking a tree */

static bool has_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

typedef struct columns {
    const char **names;
    int n;
    int64_t cap;
} columns;

static hr_status add_columns(const hr_expr *e, columns *c, hr_error *err)
{
    if (e->kind == HR_EXPR_COLUMN && !has_name(c->names, c->n, e->name)) {
        if (!hr__grow(NULL, (void **)&c->names, &c->cap, c->n + 1, sizeof *c->names))
            return hr__error_memory(err, "columns", (c->n + 1) * (int64_t)sizeof *c->names);
        c->names[c->n++] = e->name;
    }
    for (int i = 0; i < e->n_args; i++)
        HR_TRY(add_columns(e->args[i], c, err));
    return HR_OK;
}

hr_status hr__expr_columns(const hr_expr *e, const char ***names, int *n, hr_error *err)
{
    columns c = { 0 };
    hr_status st = add_columns(e, &c, err);

    if (st) {
        hr__free(c.names);
        c = (columns){ 0 };
    }
    *names = c.names;
    *n = c.n;
    return st;
}

int64_t hr__expr_reads(const hr_expr *e, const char *column)
{
    int64_t n = e->kind == HR_EXPR_COLUMN && !strcmp(e->name, column);

    for (int i = 0; i < e->n_args; i++)
        n += hr__expr_reads(e->args[i], column);
    return n;
}

bool hr__expr_row_random(const hr_expr *e)
{
    if (e->kind == HR_EXPR_CALL && e->function->row_random)
        return true;
    for (int i = 0; i < e->n_args; i++)
        if (hr__expr_row_random(e->args[i]))
            return true;
    return false;
}

bool hr__expr_by_epoch(const hr_expr *e)
{
    if (e->kind == HR_EXPR_CALL && e->function->by_epoch && e->function->by_epoch(e->options))
        return true;
    for (int i = 0; i < e->n_args; i++)
        if (hr__expr_by_epoch(e->args[i]))
            return true;
    return false;
}

bool hr__expr_is_total(const hr_expr *e)
{
    static const char *const total[] = { "equal",         "not_equal",   "less",   "less_equal", "greater",
                                         "greater_equal", "and",         "or",     "not",        "xor",
                                         "is_null",       "is_not_null", "is_nan", "is_in",      "not_in" };
    bool known = e->kind != HR_EXPR_CALL;

    for (int i = 0; i < HR_LEN(total) && !known; i++)
        known = !strcmp(e->function->name, total[i]);
    for (int i = 0; i < e->n_args && known; i++)
        known = hr__expr_is_total(e->args[i]);
    return known;
}

/* How to rewrite the nodes of a tree. */
typedef struct exchange {
    const char *const *names, *const *new_names; /* columns, and their new names */
    int n;
    const hr_expr *part; /* this node becomes `with`; NULL: none */
    hr_expr *with;
} exchange;

static hr_status exchanged(hr_expr *e, const exchange *x, hr_expr **out, hr_error *err)
{
    hr_expr **args = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    for (int i = 0; i < x->n && e->kind == HR_EXPR_COLUMN; i++)
        if (!strcmp(x->names[i], e->name))
            return hr_expr_column(x->new_names[i], out, err);
    if (e == x->part || e->kind != HR_EXPR_CALL) {
        e = e == x->part ? x->with : e;
        *out = hr_expr_ref(e);
        return HR_OK;
    }
    if (!(args = hr__zalloc(NULL, ((size_t)e->n_args + 1) * sizeof(hr_expr *))))
        return hr__error_memory(err, e->function->name, e->n_args * (int64_t)sizeof(hr_expr *));
    for (int i = 0; i < e->n_args; i++)
        HR_GO(exchanged(e->args[i], x, &args[i], err));
    HR_GO(hr_expr_call(e->function->name, args, e->n_args, (const char *const *)e->settings, e->n_settings, out, err));
done:
    for (int i = 0; i < e->n_args; i++)
        hr_expr_unref(args[i]);
    hr__free(args);
    return st;
}

hr_status hr__expr_rename(hr_expr *e, const char *const *names, const char *const *new_names, int n, hr_expr **out,
                          hr_error *err)
{
    return exchanged(e, &(exchange){ .names = names, .new_names = new_names, .n = n }, out, err);
}

hr_status hr__expr_replace(hr_expr *e, const hr_expr *part, hr_expr *with, hr_expr **out, hr_error *err)
{
    return exchanged(e, &(exchange){ .part = part, .with = with }, out, err);
}

hr_status hr__expr_and(hr_expr *a, hr_expr *b, hr_expr **out, hr_error *err)
{
    *out = NULL;
    if (a && b)
        return hr_expr_call("and", (hr_expr *[]){ a, b }, 2, NULL, 0, out, err);
    *out = hr_expr_ref(a ? a : b);
    return HR_OK;
}

hr_status hr__expr_each_term(hr_expr *e, hr_status (*fn)(void *context, hr_expr *term, hr_error *err), void *context,
                             hr_error *err)
{
    if (e->kind != HR_EXPR_CALL || strcmp(e->function->name, "and") != 0)
        return fn(context, e, err);
    for (int i = 0; i < e->n_args; i++)
        HR_TRY(hr__expr_each_term(e->args[i], fn, context, err));
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- as text */

static bool is_infix(const hr_expr *e)
{
    return e->kind == HR_EXPR_CALL && e->function->symbol && e->n_args == 2 && e->n_settings == 0;
}

static void print_quoted(const char *s, int64_t n, hr_text *out)
{
    hr__text_add(out, "'");
    for (int64_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '\'' || c == '\\')
            hr__text_add(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            hr__text_add(out, "\\x%02x", c);
        else
            hr__text_add_bytes(out, &s[i], 1);
    }
    hr__text_add(out, "'");
}

enum { PRINTED_BYTES = 400 }; /* of one literal: a list can have a million values */

static void print_literal(const hr_array *a, hr_text *out)
{
    const uint8_t *bytes;
    int64_t n;

    if (hr__array_is_null(a, 0)) {
        hr__text_add(out, "null");
    } else if (hr__type_is_bytes(a->type)) {
        bytes = hr__array_bytes(a, 0, &n);
        if (a->type->id == HR_T_BINARY || a->type->id == HR_T_LARGE_BINARY)
            hr__text_add(out, "b");
        print_quoted((const char *)bytes, HR_MIN(n, PRINTED_BYTES), out);
        if (n > PRINTED_BYTES)
            hr__text_add(out, "...");
    } else {
        hr__array_print_some(a, 0, PRINTED_BYTES, out);
    }
}

static void print_arg(const hr_expr *e, hr_text *out)
{
    bool wrap = is_infix(e);

    if (wrap)
        hr__text_add(out, "(");
    hr__expr_print(e, out);
    if (wrap)
        hr__text_add(out, ")");
}

void hr__expr_print(const hr_expr *e, hr_text *out)
{
    if (e->kind == HR_EXPR_COLUMN) {
        hr__text_add(out, "col(");
        print_quoted(e->name, (int64_t)strlen(e->name), out);
        hr__text_add(out, ")");
    } else if (e->kind == HR_EXPR_LITERAL) {
        print_literal(e->value, out);
    } else if (is_infix(e)) {
        print_arg(e->args[0], out);
        hr__text_add(out, " %s ", e->function->symbol);
        print_arg(e->args[1], out);
    } else if (e->function->symbol && e->n_args == 1) {
        hr__text_add(out, "%s", e->function->symbol);
        print_arg(e->args[0], out);
    } else {
        hr__text_add(out, "%s(", e->function->name);
        for (int i = 0; i < e->n_args; i++) {
            hr__text_add(out, "%s", i ? ", " : "");
            hr__expr_print(e->args[i], out);
        }
        for (int i = 0; i < e->n_settings; i++)
            hr__text_add(out, "%s%s", i || e->n_args ? ", " : "", e->settings[i]);
        hr__text_add(out, ")");
    }
}

hr_status hr_expr_print(const hr_expr *e, char **out, hr_error *err)
{
    HR_NEED(e, out);

    hr_text t = { 0 };

    *out = NULL;
    hr__expr_print(e, &t);
    if (t.failed || !t.data) {
        hr__text_clear(&t);
        return hr__error_memory(err, "expression", t.n);
    }
    *out = t.data;
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------- fingerprint, equality */

static void hash_literal(const hr_expr *e, hr_hash *h)
{
    const hr_array *a = e->value;
    hr_text t = { 0 };

    hr__type_print(a->type, &t);
    hr__text_add(&t, e->weak ? " weak " : " ");
    if (hr__type_bytes(a->type) && !hr__array_is_null(a, 0))
        hr__hash_add(h, hr__array_values(a), (size_t)hr__type_bytes(a->type));
    else
        hr__array_print_value(a, 0, &t);
    hr__hash_add(h, t.data, (size_t)t.n);
    hr__text_clear(&t);
}

void hr__expr_fingerprint(const hr_expr *e, hr_hash *h)
{
    hr__hash_int(h, e->kind);
    if (e->kind == HR_EXPR_COLUMN)
        hr__hash_text(h, e->name);
    if (e->kind == HR_EXPR_LITERAL)
        hash_literal(e, h);
    if (e->kind != HR_EXPR_CALL)
        return;
    hr__hash_text(h, e->function->name);
    hr__hash_int(h, e->n_settings);
    for (int i = 0; i < e->n_settings; i++)
        hr__hash_text(h, e->settings[i]);
    hr__hash_int(h, e->n_args);
    for (int i = 0; i < e->n_args; i++)
        hr__expr_fingerprint(e->args[i], h);
}

/* Compares the bits of numbers: 0.0 and -0.0 are different literals. */
bool hr__literal_equal(const hr_array *a, const hr_array *b)
{
    int n = hr__type_bytes(a->type);

    if (!hr__type_equal(a->type, b->type) || hr__array_is_null(a, 0) != hr__array_is_null(b, 0))
        return false;
    if (hr__array_is_null(a, 0))
        return true;
    return n ? !memcmp(hr__array_values(a), hr__array_values(b), (size_t)n) : hr__array_equal(a, b);
}

bool hr__expr_equal(const hr_expr *a, const hr_expr *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->n_args != b->n_args || a->n_settings != b->n_settings || a->function != b->function ||
        a->size != b->size)
        return false;
    if (a->kind == HR_EXPR_COLUMN)
        return !strcmp(a->name, b->name);
    if (a->kind == HR_EXPR_LITERAL)
        return a->weak == b->weak && hr__literal_equal(a->value, b->value);
    for (int i = 0; i < a->n_settings; i++)
        if (strcmp(a->settings[i], b->settings[i]) != 0)
            return false;
    for (int i = 0; i < a->n_args; i++)
        if (!hr__expr_equal(a->args[i], b->args[i]))
            return false;
    return true;
}
