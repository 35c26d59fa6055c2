/* json_schema.c - infers the types of a file from its first rows.
 *
 * A tree of facts describes the rows: a node for the row, each key, each array's items. Facts only grow: null and T are
 * T, integers and numbers with fractions are double, objects have all keys of all rows, in the order of their first
 * appearance. A string and a number in one node are an error that names both places: no type holds both without loss.
 *
 * Strings that are all dates or times of whole seconds, all with a zone or all without, are timestamps, as in
 * pyarrow.json. Integers are int64, or uint64 if none is negative; integers that fit neither are an error, double, or
 * text, by option.
 *
 * Tests: test_json.c. */
#include "base/number.h"
#include "format/json/json_value.h"

#include <stdio.h>

#define MAX_FIELDS (16 << 10) /* keys of all objects: files that use keys as values would make columns without end */
#define MAX_TYPE_DEPTH (HR_MAX_DEPTH - 2)

enum { F_BOOL, F_STRING, F_LIST, F_OBJECT, F_INT, F_NEGATIVE, F_UINT, F_BIG, F_REAL, N_FACTS };
/* Strings: a time without a zone, a time with a zone, any other text. */
enum { TEXT_NAIVE = 1, TEXT_ZONED = 2, TEXT_OTHER = 4 };
#define NUMBERS (1u << F_INT | 1u << F_NEGATIVE | 1u << F_UINT | 1u << F_BIG | 1u << F_REAL)

static const char *const fact_names[N_FACTS] = { "true or false", "a string", "an array", "an object", "a number",
                                                 "a number",      "a number", "a number", "a number" };

typedef struct guess guess;
struct guess {
    const guess *parent;
    char *name; /* NULL: the row, or an item */
    int64_t name_bytes;
    unsigned facts;
    unsigned texts;      /* kinds of strings seen: TEXT_NAIVE ... */
    int64_t at[N_FACTS]; /* where each fact first appeared */
    guess *item;
    guess **fields;
    int64_t n, cap;
    int64_t next; /* the next field by the order of the row before */
    int32_t *table;
    int64_t table_size;
};

typedef struct guesser {
    const hr_json_options *options;
    const hr_json_rows *rows;
    hr_account *account;
    const uint8_t *data;
    const uint32_t *at;
    int64_t token;
    hr_text key;
    int64_t n_fields;
    bool of_row; /* the error concerns only this row */
} guesser;

/* ------------------------------------------------------------------------------------------------------------ nodes */

static void guess_free(guess *g)
{
    if (!g)
        return;
    for (int64_t i = 0; i < g->n; i++)
        guess_free(g->fields[i]);
    guess_free(g->item);
    hr__free(g->fields);
    hr__free(g->table);
    hr__free(g->name);
    hr__free(g);
}

static guess *guess_new(hr_account *account, const guess *parent, const char *name, int64_t n)
{
    guess *g = hr__zalloc(account, sizeof *g);

    if (!g)
        return NULL;
    g->parent = parent;
    g->name_bytes = n;
    if (name && !(g->name = hr__strndup(account, name, (size_t)n))) {
        hr__free(g);
        return NULL;
    }
    return g;
}

static uint64_t name_hash(const char *name, int64_t n)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__hash_add(&h, name, (size_t)n);
    return hr__hash_end(&h).lo;
}

/* Doubles the table and inserts all fields again. */
static bool widen_table(hr_account *account, guess *g)
{
    int64_t size = HR_MAX(g->table_size * 2, 16);
    int32_t *table = hr__alloc(account, (size_t)size * sizeof *table);

    if (!table)
        return false;
    for (int64_t i = 0; i < size; i++)
        table[i] = -1;
    for (int64_t i = 0; i < g->n; i++) {
        uint64_t at = name_hash(g->fields[i]->name, g->fields[i]->name_bytes);

        while (table[at & (uint64_t)(size - 1)] >= 0)
            at++;
        table[at & (uint64_t)(size - 1)] = (int32_t)i;
    }
    hr__free(g->table);
    g->table = table;
    g->table_size = size;
    return true;
}

static bool is_named(const guess *g, const char *name, int64_t n)
{
    return g->name_bytes == n && memcmp(g->name, name, (size_t)n) == 0;
}

static guess *find_field(guess *g, const char *name, int64_t n)
{
    uint64_t at;

    if (g->next < g->n && is_named(g->fields[g->next], name, n))
        return g->fields[g->next++];
    at = name_hash(name, n);
    for (; g->table_size; at++) {
        int32_t i = g->table[at & (uint64_t)(g->table_size - 1)];

        if (i < 0)
            return NULL;
        if (is_named(g->fields[i], name, n)) {
            g->next = i + 1;
            return g->fields[i];
        }
    }
    return NULL;
}

/* NULL: no memory. */
static guess *add_field(guesser *p, guess *g, const char *name, int64_t n)
{
    guess *field;
    uint64_t at;

    if (g->n * 2 >= g->table_size && !widen_table(p->account, g))
        return NULL;
    if (!hr__grow(p->account, (void **)&g->fields, &g->cap, g->n + 1, sizeof *g->fields) ||
        !(field = guess_new(p->account, g, name, n)))
        return NULL;
    for (at = name_hash(name, n); g->table[at & (uint64_t)(g->table_size - 1)] >= 0; at++)
        ;
    g->table[at & (uint64_t)(g->table_size - 1)] = (int32_t)g->n;
    g->fields[g->n++] = field;
    g->next = g->n;
    p->n_fields++;
    return field;
}

/* ----------------------------------------------------------------------------------------------------------- errors */

static void add_path(const guess *g, hr_text *out)
{
    if (g->parent)
        add_path(g->parent, out);
    if (g->parent && !g->name)
        hr__text_add(out, "[]");
    else if (g->name)
        hr__text_add(out, "%s%s", out->n ? "." : "", g->name);
}

static hr_status bad(guesser *p, int64_t token, const char *expected, hr_error *err)
{
    int64_t at = p->at[token];

    p->of_row = true;
    return hr__json_error(p->rows, at, err, HR_BAD_DATA, "expected %s, found %s", expected,
                          hr__json_what(p->data + at));
}

/* An error at byte `at` of the block. */
static hr_status refuse(guesser *p, const guess *g, int64_t at, hr_status status, const char *what, hr_error *err)
{
    hr_text path = { 0 };
    hr_status st;

    p->of_row = true;
    if (g)
        add_path(g, &path);
    if (path.data)
        st = hr__json_error(p->rows, at, err, status, "column '%s': %s", path.data, what);
    else
        st = hr__json_error(p->rows, at, err, status, "%s", what);
    hr__text_clear(&path);
    return st;
}

static hr_status conflict(guesser *p, const guess *g, int fact, int64_t at, hr_error *err)
{
    int64_t column = 0, line = 0;
    char what[200];
    int other = 0;

    while (other < N_FACTS - 1 && !(g->facts >> other & 1))
        other++;
    if (err)
        line = hr__json_line(p->rows->file, g->at[other], &column);
    snprintf(what, sizeof what,
             "found %s, but line %lld, column %lld has %s; schema= sets the type, on_error=\"skip\" skips the row",
             fact_names[fact], (long long)line, (long long)column, fact_names[other]);
    return refuse(p, g, at, HR_TYPE, what, err);
}

/* ------------------------------------------------------------------------------------------------------------ facts */

static hr_status add_fact(guesser *p, guess *g, int fact, hr_error *err)
{
    unsigned bit = 1u << fact, same = bit & NUMBERS ? NUMBERS : bit;
    int64_t at = p->at[p->token];

    if (!g || (g->facts & bit))
        return HR_OK;
    if (g->facts & ~same)
        return conflict(p, g, fact, at, err);
    g->facts |= bit;
    g->at[fact] = p->rows->base + at;
    return HR_OK;
}

static hr_status guess_value(guesser *p, guess *g, int depth, hr_error *err);

static hr_status guess_number(guesser *p, guess *g, hr_error *err)
{
    const uint8_t *text = p->data + p->at[p->token];
    hr_json_number n;
    int fact;

    hr__json_number(text, &n);
    if (n.kind == HR_JSON_NO_NUMBER) {
        if (p->options->allow_nan &&
            (memcmp(text, "NaN", 3) == 0 || memcmp(text, "Infinity", 8) == 0 || memcmp(text, "-Infinity", 9) == 0))
            n.kind = HR_JSON_REAL;
        else
            return bad(p, p->token, "a value", err);
    }
    fact = n.kind == HR_JSON_REAL ? F_REAL : n.kind == HR_JSON_UINT ? F_UINT : n.kind == HR_JSON_BIG ? F_BIG : F_INT;
    HR_TRY(add_fact(p, g, fact, err));
    if (n.negative && fact != F_REAL)
        HR_TRY(add_fact(p, g, F_NEGATIVE, err));
    p->token++;
    return HR_OK;
}

/* A string, whose end is known. After one string that is not a time, the field is text, and later strings are not
 * parsed. */
static hr_status guess_string(guesser *p, guess *g, hr_error *err)
{
    int64_t at = p->at[p->token], n = p->at[p->token + 1] - at - 1, v;
    int zone;

    HR_TRY(add_fact(p, g, F_STRING, err));
    if (g && !(g->texts & TEXT_OTHER))
        g->texts |= !hr__parse_timestamp(p->data + at + 1, n, HR_SECOND, &v, &zone) ? TEXT_OTHER
                    : zone                                                          ? TEXT_ZONED
                                                                                    : TEXT_NAIVE;
    p->token += 2;
    return HR_OK;
}

static hr_status guess_list(guesser *p, guess *g, int depth, hr_error *err)
{
    HR_TRY(add_fact(p, g, F_LIST, err));
    if (g && !g->item && !(g->item = guess_new(p->account, g, NULL, 0)))
        return hr__error_memory(err, p->rows->file->source->name, sizeof *g);
    p->token++;
    if (p->data[p->at[p->token]] == ']') {
        p->token++;
        return HR_OK;
    }
    for (;; p->token++) {
        HR_TRY(guess_value(p, g ? g->item : NULL, depth + 1, err));
        if (p->data[p->at[p->token]] == ']')
            break;
        if (p->data[p->at[p->token]] != ',')
            return bad(p, p->token, "',' or ']' in an array", err);
    }
    p->token++;
    return HR_OK;
}

/* The key at p->token, in p->key if it has escapes; moves after its colon. */
static hr_status guess_key(guesser *p, const char **name, int64_t *n, hr_error *err)
{
    int64_t begin = p->at[p->token] + 1, end, wrong;

    if (p->data[begin - 1] != '"')
        return bad(p, p->token, "a key in quotes", err);
    end = p->at[p->token + 1];
    if (p->data[end] != '"' || p->data[p->at[p->token + 2]] != ':')
        return bad(p, p->token + 2, "':' after a key", err);
    p->token += 3;
    *name = (const char *)p->data + begin;
    *n = end - begin;
    if (!memchr(*name, '\\', (size_t)*n))
        return HR_OK;
    p->key.n = 0;
    hr__text_add_bytes(&p->key, *name, *n);
    if (p->key.failed)
        return hr__error_memory(err, p->rows->file->source->name, *n);
    *n = hr__json_unescape(p->data + begin, *n, (uint8_t *)p->key.data, &wrong);
    if (*n < 0)
        return refuse(p, NULL, begin + wrong, HR_BAD_DATA, "an invalid escape in a key, or half a surrogate pair", err);
    *name = p->key.data;
    if (memchr(*name, 0, (size_t)*n))
        return refuse(p, NULL, begin, HR_UNSUPPORTED, "a key with a NUL in it", err);
    return HR_OK;
}

static hr_status guess_member(guesser *p, guess *g, int depth, hr_error *err)
{
    int64_t token = p->token, n = 0;
    guess *field = NULL;
    const char *name = NULL;
    char what[120];

    HR_TRY(guess_key(p, &name, &n, err));
    if (g && !(field = find_field(g, name, n))) {
        if (p->n_fields == MAX_FIELDS) {
            snprintf(what, sizeof what, "more than %d different keys; schema= names the columns", MAX_FIELDS);
            HR_TRY(refuse(p, g, p->at[token], HR_UNSUPPORTED, what, err));
        }
        if (!(field = add_field(p, g, name, n)))
            return hr__error_memory(err, p->rows->file->source->name, sizeof *field);
    }
    return guess_value(p, field, depth, err);
}

static hr_status guess_object(guesser *p, guess *g, int depth, hr_error *err)
{
    HR_TRY(add_fact(p, g, F_OBJECT, err));
    if (g)
        g->next = 0;
    p->token++;
    if (p->data[p->at[p->token]] == '}') {
        p->token++;
        return HR_OK;
    }
    for (;; p->token++) {
        HR_TRY(guess_member(p, g, depth + 1, err));
        if (p->data[p->at[p->token]] == '}')
            break;
        if (p->data[p->at[p->token]] != ',')
            return bad(p, p->token, "',' or '}' in an object", err);
    }
    p->token++;
    return HR_OK;
}

static bool is_word(const uint8_t *p, const char *word, size_t n)
{
    return memcmp(p, word, n) == 0 && (hr__json_class[p[n]] & 1);
}

/* g NULL: checks the text only. */
static hr_status guess_value(guesser *p, guess *g, int depth, hr_error *err)
{
    const uint8_t *text = p->data + p->at[p->token];
    char what[80];

    if (depth > MAX_TYPE_DEPTH) {
        snprintf(what, sizeof what, "values nested deeper than %d", MAX_TYPE_DEPTH);
        return refuse(p, NULL, p->at[p->token], HR_UNSUPPORTED, what, err);
    }
    switch (*text) {
    case '{': return guess_object(p, g, depth, err);
    case '[': return guess_list(p, g, depth, err);
    case '"':
        if (p->data[p->at[p->token + 1]] != '"')
            return bad(p, p->token + 1, "'\"', the end of a string", err);
        return guess_string(p, g, err);
    case 't':
    case 'f':
        if (!is_word(text, "true", 4) && !is_word(text, "false", 5))
            return bad(p, p->token, "a value", err);
        HR_TRY(add_fact(p, g, F_BOOL, err));
        p->token++;
        return HR_OK;
    case 'n':
        if (!is_word(text, "null", 4))
            return bad(p, p->token, "a value", err);
        p->token++;
        return HR_OK;
    default: return guess_number(p, g, err);
    }
}

/* ------------------------------------------------------------------------------------------------------------ types */

/* An integer that fits neither int64 nor uint64 together with the other integers. */
static hr_status big_integer(guesser *p, const guess *g, hr_error *err)
{
    int64_t at = g->facts & 1u << F_BIG ? g->at[F_BIG] : g->at[F_UINT], column = 0, line = 0;
    hr_text path = { 0 };
    hr_status st;

    if (err)
        line = hr__json_line(p->rows->file, at, &column);
    add_path(g, &path);
    st = hr_error_set(err, HR_TYPE,
                      "%s: line %lld, column %lld: column '%s': an integer that %s; big_integers=\"double\" rounds it, "
                      "big_integers=\"string\" keeps its digits",
                      p->rows->file->source->name, (long long)line, (long long)column, path.data ? path.data : "",
                      g->facts & 1u << F_BIG ? "fits neither int64 nor uint64"
                                             : "fits uint64 only, and others are negative");
    hr__text_clear(&path);
    return st;
}

static hr_status number_type(guesser *p, const guess *g, hr_type **out, hr_error *err)
{
    bool is_big = g->facts & 1u << F_BIG || (g->facts & 1u << F_UINT && g->facts & 1u << F_NEGATIVE);
    hr_type_id id = HR_T_INT64;

    if (is_big && p->options->big_integers == HR_JSON_BIG_STRING)
        id = HR_T_STRING;
    else if (g->facts & 1u << F_REAL)
        id = HR_T_FLOAT64;
    else if (is_big && p->options->big_integers == HR_JSON_BIG_ERROR)
        return big_integer(p, g, err);
    else if (is_big)
        id = HR_T_FLOAT64;
    else if (g->facts & 1u << F_UINT)
        id = HR_T_UINT64;
    *out = hr__type_simple(id);
    return HR_OK;
}

static hr_status guess_type(guesser *p, const guess *g, hr_type **out, hr_error *err);

/* Fields of an object: *out is new, n of them, each cleared by the caller. */
static hr_status guess_fields(guesser *p, const guess *g, hr_field **out, hr_error *err)
{
    hr_type *type = NULL;
    hr_status st = HR_OK;
    hr_field *fields = hr__zalloc(p->account, ((size_t)g->n + 1) * sizeof *fields);

    *out = fields;
    if (!fields)
        return hr__error_memory(err, p->rows->file->source->name, g->n * (int64_t)sizeof *fields);
    for (int64_t i = 0; i < g->n; i++) {
        HR_GO(guess_type(p, g->fields[i], &type, err));
        HR_GO(hr__field_init(&fields[i], g->fields[i]->name, type, true, err));
        hr__type_unref(type);
        type = NULL;
    }
done:
    hr__type_unref(type);
    return st;
}

static void fields_free(hr_field *fields, int64_t n)
{
    for (int64_t i = 0; fields && i < n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
}

static hr_status guess_type(guesser *p, const guess *g, hr_type **out, hr_error *err)
{
    hr_field *fields = NULL, item = { 0 };
    hr_type *type = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (g->facts & NUMBERS) {
        HR_GO(number_type(p, g, out, err));
    } else if (g->facts & 1u << F_LIST) {
        HR_GO(guess_type(p, g->item, &type, err));
        HR_GO(hr__field_init(&item, "item", type, true, err));
        HR_GO(hr__type_list(HR_T_LIST, &item, 0, out, err));
    } else if (g->facts & 1u << F_OBJECT) {
        HR_GO(guess_fields(p, g, &fields, err));
        HR_GO(hr__type_struct(fields, (int)g->n, out, err));
    } else if (p->options->times && (g->texts == TEXT_NAIVE || g->texts == TEXT_ZONED)) {
        HR_GO(hr__type_unit(HR_T_TIMESTAMP, HR_SECOND, g->texts == TEXT_ZONED ? "UTC" : NULL, out, err));
    } else {
        *out = hr__type_simple(g->facts & 1u << F_BOOL     ? HR_T_BOOL
                               : g->facts & 1u << F_STRING ? HR_T_STRING
                                                           : HR_T_NULL);
    }
done:
    hr__field_clear(&item);
    fields_free(fields, g->n);
    hr__type_unref(type);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- sample */

/* One row. */
static hr_status guess_row(guesser *p, hr_json_rows *r, guess *root, hr_error *err)
{
    p->data = r->buffer->data;
    p->at = r->tokens.at;
    p->of_row = false;
    p->token = r->token;
    if (p->data[p->at[p->token]] != '{')
        return bad(p, p->token, "an object (a row)", err);
    if (p->options->on_error == HR_JSON_BAD_SKIP) { /* a bad row must add no columns */
        HR_TRY(guess_value(p, NULL, 0, err));
        p->token = r->token;
    }
    HR_TRY(guess_value(p, root, 0, err));
    hr__json_rows_parsed(r, p->token);
    return HR_OK;
}

static hr_status guess_rows(guesser *p, hr_json_rows *r, guess *root, hr_error *err)
{
    bool skip = p->options->on_error == HR_JSON_BAD_SKIP, more, skippable;
    hr_error *row_err = skip ? NULL : err; /* no error text for skipped rows */

    for (;;) {
        hr_status st = hr__json_rows_next(r, &more, &skippable, err);

        if (st && skip && skippable) {
            hr_error_clear(err);
            hr__json_rows_skip(r);
            continue;
        }
        if (st)
            return st;
        if (!more || (p->options->sample_bytes && r->base + r->row_begin >= p->options->sample_bytes))
            return HR_OK;
        st = guess_row(p, r, root, row_err);
        if (st && skip && p->of_row)
            hr__json_rows_skip(r);
        else if (st)
            return row_err ? st : hr_error_set(err, st, "%s: no memory for its schema", r->file->source->name);
    }
}

hr_status hr__json_infer(const hr_json_file *f, const hr_json_options *options, hr_account *account, hr_schema **out,
                         hr_error *err)
{
    guess *root = guess_new(account, NULL, NULL, 0);
    guesser p = { .options = options, .account = account, .key.account = account };
    hr_json_rows rows = { 0 };
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!root)
        return hr__error_memory(err, f->source->name, sizeof *root);
    p.rows = &rows;
    HR_GO(hr__json_rows_open(f, account, 0, INT64_MAX / 2, &rows, err));
    HR_GO(guess_rows(&p, &rows, root, err));
    HR_GO(guess_fields(&p, root, &fields, err));
    HR_GO(hr__schema_new(fields, (int)root->n, out, err));
done:
    fields_free(fields, root->n);
    hr__text_clear(&p.key);
    hr__json_rows_clear(&rows);
    guess_free(root);
    return st;
}
