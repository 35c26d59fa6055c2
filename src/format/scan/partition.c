/* partition.c - columns from folder names.
 *
 * hive: folders "key=value", anywhere in the path below the base; keys in the order of their first appearance in paths;
 * a path without a key has a null. Keys and values are URL-decoded; __HIVE_DEFAULT_PARTITION__ is null, an empty value
 * is an empty text. dir: the folders below the base are the values of the given names, unchanged, and their number is
 * the number of names; without a base the last folders. A file directly in the base has nulls; a folder whose name is
 * NULL makes no column.
 *
 * A column has the caller's type, else string (partition_text), or int64 if all its values in all paths are integers,
 * and string otherwise: the type is known when the plan is made, without opening a file. Only if the files have a
 * column of the same name and the caller gives no type, the column gets the files' type later (hr__partitions_as,
 * scan.c). Each column is one array with a row per file, beside the texts of the folders. */
#include "expr/expr.h"
#include "format/scan/scan.h"
#include "io/http/remote.h"

#include <stdlib.h>
#include <strings.h>

#define MAX_KEYS 256
#define HIVE_NULL "__HIVE_DEFAULT_PARTITION__"

typedef struct finder {
    const hr_paths *paths;
    const hr_read_options *options;
    hr_schema *schema; /* the caller's types; NULL: none */
    bool hive;
    char *base;           /* NULL: none */
    char *keys[MAX_KEYS]; /* dir: NULL: no column for the folder */
    int n_keys;
    hr_text text; /* the value last found */
} finder;

/* The part of the path after the base; NULL: the path is not below the base. */
static const char *below_base(const finder *f, const char *path)
{
    size_t n = f->base ? strlen(f->base) : 0;

    while (n > 0 && f->base[n - 1] == '/')
        n--;
    if (!f->base)
        return path;
    if (strncmp(path, f->base, n) != 0 || path[n] != '/')
        return NULL;
    return path + n;
}

/* The next folder of *rest, without its slashes; false: the rest is the file's name. */
static bool next_folder(const char **rest, const char **name, size_t *n)
{
    const char *begin = *rest + strspn(*rest, "/");

    *n = strcspn(begin, "/");
    *name = begin;
    *rest = begin + *n;
    return **rest == '/';
}

static int count_folders(const char *rest)
{
    const char *name;
    size_t n;
    int count = 0;

    while (next_folder(&rest, &name, &n))
        count++;
    return count;
}

/* hive: URL-decoded; a value may hold zero bytes. */
static hr_status set_text(finder *f, const char *data, size_t n, hr_error *err)
{
    f->text.n = 0;
    hr__text_add_bytes(&f->text, data, (int64_t)n);
    if (f->text.failed)
        return hr__error_memory(err, "partitions", (int64_t)n);
    if (f->hive)
        f->text.n = hr__percent_decode(f->text.data);
    return HR_OK;
}

/* The same for a name. */
static hr_status set_key(finder *f, const char *path, const char *data, size_t n, hr_error *err)
{
    HR_TRY(set_text(f, data, n, err));
    if (memchr(f->text.data, 0, (size_t)f->text.n))
        return hr_error_set(err, HR_BAD_DATA, "%s: folder '%.*s=': a partition column's name holds a zero byte", path,
                            (int)HR_MIN(n, 200), data);
    return HR_OK;
}

static hr_status add_key(finder *f, const char *path, const char *data, size_t n, hr_error *err)
{
    HR_TRY(set_key(f, path, data, n, err));
    for (int i = 0; i < f->n_keys; i++) {
        if (strcmp(f->keys[i], f->text.data) == 0)
            return HR_OK;
    }
    if (f->n_keys == MAX_KEYS)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: more than %d partition columns", path, MAX_KEYS);
    f->keys[f->n_keys] = hr__strdup(NULL, f->text.data);
    if (!f->keys[f->n_keys])
        return hr__error_memory(err, path, f->text.n);
    f->n_keys++;
    return HR_OK;
}

static hr_status given_keys(finder *f, hr_error *err)
{
    for (int i = 0; i < f->options->n_partition_names; i++) {
        const char *name = f->options->partition_names[i];

        if (!name && f->hive)
            return hr_error_set(err, HR_INVALID, "partitioning 'hive': name %d is NULL", i);
        f->keys[i] = name ? hr__strdup(NULL, name) : NULL;
        if (name && !f->keys[i])
            return hr__error_memory(err, "partitions", (int64_t)strlen(name));
        f->n_keys++;
    }
    return HR_OK;
}

static hr_status hive_keys(finder *f, hr_error *err)
{
    for (int64_t i = 0; i < f->paths->n; i++) {
        const char *path = hr__paths_shown(f->paths, i), *rest = below_base(f, path), *name;
        size_t n;

        while (rest && next_folder(&rest, &name, &n)) {
            const char *equals = memchr(name, '=', n);

            if (equals && equals > name)
                HR_TRY(add_key(f, path, name, (size_t)(equals - name), err));
        }
    }
    return HR_OK;
}

/* The value of key k in a hive path, decoded in f->text; the last one counts. */
static hr_status hive_value(finder *f, const char *path, int k, bool *found, hr_error *err)
{
    const char *rest = below_base(f, path), *name, *value = NULL;
    size_t n, n_value = 0;

    while (rest && next_folder(&rest, &name, &n)) {
        const char *equals = memchr(name, '=', n);

        if (!equals)
            continue;
        HR_TRY(set_key(f, path, name, (size_t)(equals - name), err));
        if (strcmp(f->text.data, f->keys[k]) == 0) {
            value = equals + 1;
            n_value = (size_t)(name + n - value);
        }
    }
    *found = value != NULL;
    if (!value)
        return HR_OK;
    HR_TRY(set_text(f, value, n_value, err));
    *found = f->text.n != sizeof HIVE_NULL - 1 || memcmp(f->text.data, HIVE_NULL, sizeof HIVE_NULL - 1) != 0;
    return HR_OK;
}

static hr_status dir_value(finder *f, const char *path, int k, bool *found, hr_error *err)
{
    const char *rest = below_base(f, path), *name = NULL;
    int n_folders = rest ? count_folders(rest) : 0, skip = f->base ? 0 : n_folders - f->n_keys;
    size_t n = 0;

    *found = rest && n_folders > 0;
    if (!*found)
        return HR_OK;
    if (skip < 0 || (f->base && n_folders != f->n_keys))
        return hr_error_set(err, HR_INVALID, "%s: %d folders%s%s for %d partition columns", path, n_folders,
                            f->base ? " below " : "", f->base ? f->base : "", f->n_keys);
    for (int i = 0; i <= skip + k; i++)
        next_folder(&rest, &name, &n);
    return set_text(f, name, n, err);
}

static hr_status value_of(finder *f, int64_t file, int k, bool *found, hr_error *err)
{
    const char *path = hr__paths_shown(f->paths, file);

    return f->hive ? hive_value(f, path, k, found, err) : dir_value(f, path, k, found, err);
}

/* --- types and values */

static bool parse_int(const char *s, int64_t *out)
{
    bool negative = *s == '-';
    int64_t v = 0;

    s += negative;
    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s - '0', &v))
            return false; /* INT64_MIN, whose magnitude is one larger */
    }
    if (!negative && v == INT64_MIN)
        return false;
    *out = negative ? v : -v;
    return true;
}

/* The text of row i, NUL-terminated in `out`. */
static hr_status text_at(const hr_array *texts, int64_t i, hr_text *out, hr_error *err)
{
    int64_t n = 0;
    const uint8_t *data = hr__array_bytes(texts, i, &n);

    out->n = 0;
    hr__text_add_bytes(out, (const char *)data, n);
    return out->failed ? hr__error_memory(err, "partitions", n) : HR_OK;
}

static hr_status infer_type(finder *f, const hr_array *texts, hr_type **out, hr_error *err)
{
    bool any = false;
    int64_t v;

    for (int64_t i = 0; i < texts->length; i++) {
        if (hr__array_is_null(texts, i))
            continue;
        HR_TRY(text_at(texts, i, &f->text, err));
        if (memchr(f->text.data, 0, (size_t)f->text.n) || !parse_int(f->text.data, &v)) {
            *out = hr__type_ref(hr__type_simple(HR_T_STRING));
            return HR_OK;
        }
        any = true;
    }
    *out = hr__type_ref(hr__type_simple(any ? HR_T_INT64 : HR_T_STRING));
    return HR_OK;
}

/* The Arrow format of the caller's type for key k; NULL: none. */
static const char *given_format(const finder *f, int k)
{
    const hr_read_options *o = f->options;

    if (!o->partition_types)
        return NULL;
    if (!o->partition_others)
        return k < o->n_partition_names ? o->partition_types[k] : NULL;
    for (int i = 0; i < o->n_partition_names; i++) {
        if (o->partition_names[i] && strcmp(o->partition_names[i], f->keys[k]) == 0)
            return o->partition_types[i];
    }
    return NULL;
}

/* *given: the type is the caller's. */
static hr_status type_of(finder *f, int k, const hr_array *texts, hr_type **out, bool *given, hr_error *err)
{
    int at = f->schema ? hr__schema_find(f->schema, f->keys[k]) : -1;
    const char *format = given_format(f, k);

    *out = NULL;
    *given = format || at >= 0;
    if (format)
        return hr__type_from_format(format, NULL, 0, out, err);
    if (*given || f->options->partition_text) {
        *out = hr__type_ref(*given ? f->schema->fields[at].type : hr__type_simple(HR_T_STRING));
        return HR_OK;
    }
    return infer_type(f, texts, out, err);
}

static hr_status does_not_fit(const char *path, const char *key, const char *value, const hr_type *type, hr_error *err)
{
    hr_text text = { 0 };
    hr_status st;

    hr__type_print(type, &text);
    st = hr_error_set(err, HR_TYPE, "%s: partition column '%s': expected %s, found '%.100s'", path, key,
                      text.data ? text.data : "?", value);
    hr__text_clear(&text);
    return st;
}

static hr_status add_value(const hr_paths *paths, const char *key, hr_builder *b, const hr_type *type, int64_t file,
                           const hr_text *value, hr_error *err)
{
    const char *path = hr__paths_shown(paths, file), *text = value->data;
    hr_status st = HR_TYPE;
    char *end = NULL;
    int64_t v;
    double d;

    if (hr__type_is_bytes(type)) {
        if ((type->id == HR_T_STRING || type->id == HR_T_LARGE_STRING) && !hr__utf8_valid(text, value->n))
            return hr_error_set(err, HR_BAD_DATA, "%s: partition column '%s': its value is not UTF-8", path, key);
        return hr__builder_bytes(b, text, value->n, err);
    }
    if (memchr(text, 0, (size_t)value->n))
        return does_not_fit(path, key, text, type, err);
    if (type->id >= HR_T_INT8 && type->id <= HR_T_UINT64 && parse_int(text, &v)) {
        st = hr__builder_int(b, v, err);
    } else if (type->id >= HR_T_FLOAT16 && type->id <= HR_T_FLOAT64) {
        d = strtod(text, &end);
        if (end > text && !*end)
            st = hr__builder_double(b, d, err);
    } else if (type->id == HR_T_BOOL && (!strcasecmp(text, "true") || !strcasecmp(text, "false"))) {
        st = hr__builder_int(b, (text[0] | 32) == 't', err);
    }
    return st == HR_TYPE ? does_not_fit(path, key, text, type, err) : st;
}

static hr_status plain_values(const hr_paths *paths, const char *key, const hr_array *texts, hr_type *type,
                              hr_array **out, hr_error *err)
{
    hr_builder *b = NULL;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__builder_new(NULL, type, &b, err));
    for (int64_t i = 0; i < texts->length; i++) {
        if (hr__array_is_null(texts, i)) {
            HR_GO(hr__builder_null(b, err));
            continue;
        }
        HR_GO(text_at(texts, i, &text, err));
        HR_GO(add_value(paths, key, b, type, i, &text, err));
    }
    HR_GO(hr__builder_finish(b, out, err));
done:
    hr__builder_free(b);
    hr__text_clear(&text);
    return st;
}

/* cast(column `key`, type), bound to a table that has this one column of texts. */
static hr_status bind_cast(const char *key, const hr_type *type, hr_schema *schema, hr_bound **out, hr_error *err)
{
    hr_expr *column = NULL, *cast = NULL;
    hr_text setting = { 0 };
    hr_status st = HR_OK;

    hr__text_add(&setting, "to=");
    hr__type_print(type, &setting);
    if (setting.failed)
        HR_GO(hr__error_memory(err, "partitions", setting.n));
    HR_GO(hr_expr_column(key, &column, err));
    HR_GO(hr_expr_call("cast", &column, 1, (const char *[]){ setting.data }, 1, &cast, err));
    st = hr__expr_bind(cast, schema, out, err);
    if (st == HR_TYPE)
        HR_GO(hr_error_set(err, HR_TYPE, "partition column '%s': a folder name cannot be a %s", key, setting.data + 3));
done:
    hr__text_clear(&setting);
    hr_expr_unref(cast);
    hr_expr_unref(column);
    return st;
}

/* The error for the first file whose text the cast refuses. */
static hr_status refuse_value(const hr_paths *paths, const char *key, const hr_array *texts, const hr_type *type,
                              const hr_bound *bound, const hr_table *all, hr_error *err)
{
    hr_eval how = { .mem = &(hr_mem){ 0 }, .n_rows = 1 };
    hr_array *value = NULL;
    hr_table *row = NULL;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    for (int64_t i = 0; i < texts->length && !st; i++) {
        HR_GO(hr_table_slice(all, i, 1, &row, err));
        st = hr__bound_eval(bound, &how, row, &value, err);
        if (st == HR_BAD_DATA || st == HR_TYPE) {
            HR_GO(text_at(texts, i, &text, err));
            st = does_not_fit(hr__paths_shown(paths, i), key, text.data, type, err);
        }
        hr__array_unref(value);
        value = NULL;
        hr_table_unref(row);
        row = NULL;
    }
done:
    hr_table_unref(row);
    hr__text_clear(&text);
    return st;
}

/* Types for which the expressions' cast reads texts: dates, times, decimals. */
static hr_status cast_values(const hr_paths *paths, const char *key, const hr_array *texts, hr_type *type,
                             hr_array **out, hr_error *err)
{
    hr_eval how = { .mem = &(hr_mem){ 0 }, .n_rows = texts->length };
    hr_field field = { 0 };
    hr_schema *schema = NULL;
    hr_array *column = NULL;
    hr_table *all = NULL;
    hr_bound *bound = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__field_init(&field, key, hr__type_simple(HR_T_STRING), true, err));
    HR_GO(hr__schema_new(&field, 1, &schema, err));
    HR_GO(plain_values(paths, key, texts, field.type, &column, err));
    HR_GO(hr__table_new(schema, &column, texts->length, NULL, &all, err)); /* takes the column */
    HR_GO(bind_cast(key, type, schema, &bound, err));
    st = hr__bound_eval(bound, &how, all, out, err);
    if (st == HR_BAD_DATA || st == HR_TYPE)
        st = refuse_value(paths, key, texts, type, bound, all, err);
done:
    hr__bound_free(bound);
    hr_table_unref(all);
    hr__schema_unref(schema);
    hr__field_clear(&field);
    return st;
}

hr_status hr__partitions_as(const hr_partitions *p, const hr_paths *paths, int k, hr_type *type, hr_array **out,
                            hr_error *err)
{
    const hr_array *texts = p->texts[k];

    if (p->values[k] && hr__type_equal(type, p->fields[k].type)) {
        *out = hr__array_ref(p->values[k]);
        return HR_OK;
    }
    if (type->id == HR_T_BOOL || hr__type_is_bytes(type) || (type->id >= HR_T_INT8 && type->id <= HR_T_FLOAT64))
        return plain_values(paths, p->fields[k].name, texts, type, out, err);
    return cast_values(paths, p->fields[k].name, texts, type, out, err);
}

static hr_status find_texts(finder *f, int k, hr_array **out, hr_error *err)
{
    hr_builder *b = NULL;
    hr_status st = HR_OK;
    bool found = false;

    HR_GO(hr__builder_new(NULL, hr__type_simple(HR_T_BINARY), &b, err));
    for (int64_t i = 0; i < f->paths->n; i++) {
        HR_GO(value_of(f, i, k, &found, err));
        HR_GO(found ? hr__builder_bytes(b, f->text.data, f->text.n, err) : hr__builder_null(b, err));
    }
    HR_GO(hr__builder_finish(b, out, err));
done:
    hr__builder_free(b);
    return st;
}

/* Column `at` of `out`, of key k. */
static hr_status build(finder *f, int k, int at, hr_partitions *out, hr_error *err)
{
    hr_type *type = NULL;
    hr_status st = HR_OK;

    HR_GO(find_texts(f, k, &out->texts[at], err));
    HR_GO(type_of(f, k, out->texts[at], &type, &out->given[at], err));
    HR_GO(hr__field_init(&out->fields[at], f->keys[k], type, true, err));
    st = hr__partitions_as(out, f->paths, at, type, &out->values[at], err);
done:
    hr__type_unref(type);
    return st;
}

void hr__partitions_clear(hr_partitions *p)
{
    for (int i = 0; i < p->n; i++) {
        hr__field_clear(&p->fields[i]);
        hr__array_unref(p->values[i]);
        hr__array_unref(p->texts[i]);
    }
    hr__free(p->fields);
    hr__free(p->values);
    hr__free(p->texts);
    hr__free(p->given);
    *p = (hr_partitions){ 0 };
}

static hr_status has_key(const finder *f, const char *name, hr_error *err)
{
    hr_text known = { 0 };
    hr_status st;

    for (int i = 0; name && i < f->n_keys; i++) {
        if (strcmp(f->keys[i], name) == 0)
            return HR_OK;
    }
    for (int i = 0; i < f->n_keys; i++)
        hr__text_add(&known, "%s'%s'", i ? ", " : "", f->keys[i]);
    st = hr_error_set(err, HR_INVALID, "%s: no folder has a partition column '%s', there %s %s",
                      hr__paths_shown(f->paths, 0), name ? name : "(NULL)", f->n_keys == 1 ? "is" : "are",
                      known.data ? known.data : "none");
    hr__text_clear(&known);
    return st;
}

/* A base without files below it is an error: otherwise there would be no column. */
static hr_status check_base(const finder *f, hr_error *err)
{
    for (int64_t i = 0; i < f->paths->n; i++) {
        if (below_base(f, hr__paths_shown(f->paths, i)))
            return HR_OK;
    }
    if (f->paths->n == 0)
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "%s: no file lies below the partition base '%s'", hr__paths_shown(f->paths, 0),
                        f->base);
}

/* The base in the form of the paths. */
static hr_status take_base(finder *f, const char *base, hr_error *err)
{
    if (!hr__url_is_remote(base))
        return hr__path_of_url(base, NULL, &f->base, err);
    f->base = hr__url_shown(base, NULL);
    return f->base ? HR_OK : hr__error_memory(err, "partitions", (int64_t)strlen(base));
}

static hr_status begin(finder *f, hr_error *err)
{
    const hr_read_options *o = f->options;

    f->hive = strcmp(o->partitioning, "hive") == 0;
    if (!f->hive && strcmp(o->partitioning, "dir") != 0)
        return hr_error_set(err, HR_INVALID, "partitioning '%s': expected 'hive' or 'dir'", o->partitioning);
    if (!f->hive && o->n_partition_names < 1)
        return hr_error_set(err, HR_INVALID, "partitioning 'dir' needs the names of its columns");
    if (o->n_partition_names > MAX_KEYS)
        return hr_error_set(err, HR_UNSUPPORTED, "%d partition columns, at most %d", o->n_partition_names, MAX_KEYS);
    if (o->partition_base && o->partition_base[0])
        HR_TRY(take_base(f, o->partition_base, err));
    HR_TRY(check_base(f, err));
    if (o->n_partition_names > 0 && !(f->hive && o->partition_others))
        return given_keys(f, err);
    HR_TRY(hive_keys(f, err));
    for (int i = 0; i < o->n_partition_names; i++) /* they have types */
        HR_TRY(has_key(f, o->partition_names[i], err));
    return HR_OK;
}

hr_status hr__partitions_find(const hr_paths *paths, const hr_read_options *options, hr_schema *schema,
                              hr_partitions *out, hr_error *err)
{
    finder f = { .paths = paths, .options = options, .schema = schema };
    hr_status st = HR_OK;

    *out = (hr_partitions){ 0 };
    HR_GO(begin(&f, err));
    out->fields = hr__zalloc(NULL, ((size_t)f.n_keys + 1) * sizeof *out->fields);
    out->values = hr__zalloc(NULL, ((size_t)f.n_keys + 1) * sizeof *out->values);
    out->texts = hr__zalloc(NULL, ((size_t)f.n_keys + 1) * sizeof *out->texts);
    out->given = hr__zalloc(NULL, (size_t)f.n_keys + 1);
    if (!out->fields || !out->values || !out->texts || !out->given)
        HR_GO(hr__error_memory(err, "partitions", f.n_keys * (int64_t)sizeof *out->fields));
    for (int k = 0; k < f.n_keys; k++) {
        if (f.keys[k])
            HR_GO(build(&f, k, out->n++, out, err));
    }
done:
    if (st)
        hr__partitions_clear(out);
    for (int i = 0; i < f.n_keys; i++)
        hr__free(f.keys[i]);
    hr__free(f.base);
    hr__text_clear(&f.text);
    return st;
}
