/* partition.c - columns that stand in folder names, not in files.
 *
 * hive: folders "key=value", anywhere in the path below the base; keys in the order in which paths show them, a path without one
 * of them has a null there. Keys and values are URL-decoded; __HIVE_DEFAULT_PARTITION__ is null, an empty value is an empty text.
 * dir: the folders below the base are the values of the given names, as many as there are names; without a base the last ones.
 *
 * A column's type is what was asked for, else int64 if all its values in all paths are such, else string: so it is known when the plan
 * is made, without opening a file. Each column is one array with a row a file. */
#include "format/scan.h"

#include <stdlib.h>
#include <strings.h>

#define MAX_KEYS 256
#define HIVE_NULL "__HIVE_DEFAULT_PARTITION__"

typedef struct finder {
    const hr_paths *paths;
    const hr_read_options *options;
    hr_schema *schema; /* types that were asked for; NULL */
    bool hive;
    char *base; /* NULL: none */
    char *keys[MAX_KEYS];
    int n_keys;
    hr_text text; /* the value last found */
} finder;

/* What stands behind the base; NULL: the path is not below it. */
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

/* The next folder of *rest, without its slashes; false: what is left is the file's name. */
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

static hr_status set_text(finder *f, const char *data, size_t n, hr_error *err)
{
    f->text.n = 0;
    hr__text_add_bytes(&f->text, data, (int64_t)n);
    if (f->text.failed)
        return hr__error_memory(err, "partitions", (int64_t)n);
    hr__percent_decode(f->text.data);
    f->text.n = (int64_t)strlen(f->text.data);
    return HR_OK;
}

static hr_status add_key(finder *f, const char *path, const char *data, size_t n, hr_error *err)
{
    HR_TRY(set_text(f, data, n, err));
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

        f->keys[i] = hr__strdup(NULL, name);
        if (!f->keys[i])
            return hr__error_memory(err, "partitions", (int64_t)strlen(name));
        f->n_keys++;
    }
    return HR_OK;
}

static hr_status hive_keys(finder *f, hr_error *err)
{
    for (int64_t i = 0; i < f->paths->n; i++) {
        const char *path = hr__paths_name(f->paths, i), *rest = below_base(f, path), *name;
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
        HR_TRY(set_text(f, name, (size_t)(equals - name), err));
        if (strcmp(f->text.data, f->keys[k]) == 0) {
            value = equals + 1;
            n_value = (size_t)(name + n - value);
        }
    }
    *found = value != NULL;
    if (!value)
        return HR_OK;
    HR_TRY(set_text(f, value, n_value, err));
    *found = strcmp(f->text.data, HIVE_NULL) != 0;
    return HR_OK;
}

static hr_status dir_value(finder *f, const char *path, int k, bool *found, hr_error *err)
{
    const char *rest = below_base(f, path), *name = NULL;
    int n_folders = rest ? count_folders(rest) : 0, skip = f->base ? 0 : n_folders - f->n_keys;
    size_t n = 0;

    *found = rest != NULL;
    if (!rest)
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
    const char *path = hr__paths_name(f->paths, file);

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
            return false; /* below zero, where there is one value more */
    }
    if (!negative && v == INT64_MIN)
        return false;
    *out = negative ? v : -v;
    return true;
}

static hr_status infer_type(finder *f, int k, hr_type **out, hr_error *err)
{
    bool any = false, found;
    int64_t v;

    for (int64_t i = 0; i < f->paths->n; i++) {
        HR_TRY(value_of(f, i, k, &found, err));
        if (found && !parse_int(f->text.data, &v)) {
            *out = hr__type_ref(hr__type_simple(HR_T_STRING));
            return HR_OK;
        }
        any = any || found;
    }
    *out = hr__type_ref(hr__type_simple(any ? HR_T_INT64 : HR_T_STRING));
    return HR_OK;
}

static hr_status type_of(finder *f, int k, hr_type **out, hr_error *err)
{
    const hr_read_options *o = f->options;
    int at = f->schema ? hr__schema_find(f->schema, f->keys[k]) : -1;

    *out = NULL;
    if (o->partition_types && k < o->n_partition_names && o->partition_types[k])
        return hr__type_from_format(o->partition_types[k], NULL, 0, out, err);
    if (at >= 0) {
        *out = hr__type_ref(f->schema->fields[at].type);
        return HR_OK;
    }
    return infer_type(f, k, out, err);
}

static hr_status does_not_fit(const char *path, const char *key, const char *value, const hr_type *type, hr_error *err)
{
    hr_text text = { 0 };
    hr_status st;

    hr__type_print(type, &text);
    st = hr_error_set(err, HR_TYPE, "%s: partition column '%s': '%.100s' is no %s", path, key, value,
                      text.data ? text.data : "?");
    hr__text_clear(&text);
    return st;
}

static hr_status add_value(finder *f, hr_builder *b, const hr_type *type, int64_t file, int k, hr_error *err)
{
    const char *path = hr__paths_name(f->paths, file), *text = f->text.data;
    hr_status st = HR_TYPE;
    char *end = NULL;
    int64_t v;
    double d;

    if (hr__type_is_bytes(type)) {
        if ((type->id == HR_T_STRING || type->id == HR_T_LARGE_STRING) && !hr__utf8_valid(text, f->text.n))
            return hr_error_set(err, HR_BAD_DATA, "%s: partition column '%s': its value is not UTF-8", path,
                                f->keys[k]);
        return hr__builder_bytes(b, text, f->text.n, err);
    }
    if (type->id >= HR_T_INT8 && type->id <= HR_T_UINT64 && parse_int(text, &v)) {
        st = hr__builder_int(b, v, err);
    } else if (type->id >= HR_T_FLOAT16 && type->id <= HR_T_FLOAT64) {
        d = strtod(text, &end);
        if (end > text && !*end)
            st = hr__builder_double(b, d, err);
    } else if (type->id == HR_T_BOOL && (!strcasecmp(text, "true") || !strcasecmp(text, "false"))) {
        st = hr__builder_int(b, (text[0] | 32) == 't', err);
    }
    return st == HR_TYPE ? does_not_fit(path, f->keys[k], text, type, err) : st;
}

static hr_status build(finder *f, int k, hr_partitions *out, hr_error *err)
{
    hr_builder *b = NULL;
    hr_type *type = NULL;
    hr_status st = HR_OK;
    bool found;

    HR_GO(type_of(f, k, &type, err));
    HR_GO(hr__builder_new(NULL, type, &b, err));
    for (int64_t i = 0; i < f->paths->n; i++) {
        HR_GO(value_of(f, i, k, &found, err));
        HR_GO(found ? add_value(f, b, type, i, k, err) : hr__builder_null(b, err));
    }
    HR_GO(hr__builder_finish(b, &out->values[k], err));
    HR_GO(hr__field_init(&out->fields[k], f->keys[k], type, true, err));
done:
    hr__builder_free(b);
    hr__type_unref(type);
    return st;
}

void hr__partitions_clear(hr_partitions *p)
{
    for (int i = 0; i < p->n; i++) {
        hr__field_clear(&p->fields[i]);
        hr__array_unref(p->values[i]);
    }
    hr__free(p->fields);
    hr__free(p->values);
    *p = (hr_partitions){ 0 };
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
        HR_TRY(hr__path_of_url(o->partition_base, NULL, &f->base, err));
    return o->n_partition_names > 0 ? given_keys(f, err) : hive_keys(f, err);
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
    if (!out->fields || !out->values)
        HR_GO(hr__error_memory(err, "partitions", f.n_keys * (int64_t)sizeof *out->fields));
    out->n = f.n_keys;
    for (int k = 0; k < f.n_keys; k++)
        HR_GO(build(&f, k, out, err));
done:
    if (st)
        hr__partitions_clear(out);
    for (int i = 0; i < f.n_keys; i++)
        hr__free(f.keys[i]);
    hr__free(f.base);
    hr__text_clear(&f.text);
    return st;
}
