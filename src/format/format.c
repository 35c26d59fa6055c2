/* format.c - finds formats by name and by a file's first bytes; the common part of open files and readers.
 *
 * Tests: test_write.c, test_scan.c. */
#include "format/format.h"

#include <strings.h>

const hr_format *hr__format_by_name(const char *name)
{
    for (const hr_format *const *f = hr__formats; *f; f++) {
        if (strcmp((*f)->name, name) == 0)
            return *f;
    }
    return NULL;
}

void hr__format_near(const char *name, hr_near *out)
{
    hr__near_begin(out, name, strlen(name));
    for (const hr_format *const *f = hr__formats; *f; f++)
        hr__near_try(out, (*f)->name, strlen((*f)->name));
}

/* Whether path[0, n) ends in one of the suffixes. */
static bool has_suffix(const char *path, size_t n, const char *suffixes)
{
    for (const char *s = suffixes; *s; s += strcspn(s, " "), s += strspn(s, " ")) {
        size_t m = strcspn(s, " ");

        if (n > m && path[n - m - 1] == '.' && strncasecmp(path + n - m, s, m) == 0)
            return true;
    }
    return false;
}

/* Length of the path without the suffix of a codec: "a.txt.gz" -> "a.txt". */
static size_t plain_length(const char *path)
{
    size_t n = strlen(path);

    for (const hr_codec *const *c = hr__codecs; *c; c++) {
        if ((*c)->suffixes && has_suffix(path, n, (*c)->suffixes))
            return (size_t)(strrchr(path, '.') - path);
    }
    return n;
}

static const char *suffix_of(const char *path, size_t *n)
{
    const char *end = path + plain_length(path), *at = end;

    while (at > path && at[-1] != '.' && at[-1] != '/')
        at--;
    *n = (size_t)(end - at);
    return at;
}

bool hr__format_same_suffix(const char *a, const char *b)
{
    size_t n_a, n_b;
    const char *of_a = suffix_of(a, &n_a), *of_b = suffix_of(b, &n_b);

    return n_a == n_b && strncasecmp(of_a, of_b, n_a) == 0;
}

const hr_format *hr__format_guess(const char *path, hr_view head)
{
    const hr_format *best = NULL;
    int best_bits = 0;

    for (const hr_format *const *f = hr__formats; *f; f++) {
        int bits = (*f)->bid && head.n > 0 ? (*f)->bid(head) : 0;

        if (bits > best_bits) {
            best = *f;
            best_bits = bits;
        }
    }
    for (const hr_format *const *f = hr__formats; *f && !best; f++) {
        if (has_suffix(path, strlen(path), (*f)->suffixes) || has_suffix(path, plain_length(path), (*f)->suffixes))
            best = *f;
    }
    return best;
}

/* --- opened files and readers */

hr_status hr__scan_file_new(const hr_scan_file_class *cls, size_t bytes, const char *name, hr_account *account,
                            hr_scan_file **out, hr_error *err)
{
    hr_scan_file *f = hr__zalloc(account, bytes);

    *out = NULL;
    if (!f)
        return hr__error_memory(err, name, (int64_t)bytes);
    f->name = hr__strdup(account, name);
    if (!f->name) {
        hr__free(f);
        return hr__error_memory(err, name, (int64_t)strlen(name) + 1);
    }
    f->cls = cls;
    f->account = hr__account_ref(account);
    atomic_init(&f->refs, 1);
    *out = f;
    return HR_OK;
}

static hr_status only_column(const char *path, const char *only, const char *name, hr_error *err)
{
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    hr__near_try(&near, only, strlen(only));
    return hr__near_error(&near, HR_NOT_FOUND, path, name, err);
}

hr_status hr__one_column_schema(const char *name, hr_type *type, bool nullable, const hr_projection *projection,
                                const char *path, hr_schema **out, hr_error *err)
{
    hr_field field = { 0 };
    hr_status st = HR_OK;

    for (int i = 0; projection && i < projection->n; i++) {
        if (i > 0 || strcmp(projection->names[i], name) != 0)
            return only_column(path, name, projection->names[i], err);
    }
    HR_GO(hr__field_init(&field, name, type, nullable, err));
    HR_GO(hr__schema_new(&field, projection ? projection->n : 1, out, err));
done:
    hr__field_clear(&field);
    return st;
}

hr_scan_file *hr__scan_file_ref(hr_scan_file *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

void hr__scan_file_unref(hr_scan_file *f)
{
    hr_account *account;

    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    account = f->account;
    f->cls->close(f);
    hr__schema_unref(f->schema);
    hr__free(f->name);
    hr__free(f);
    hr__account_unref(account);
}

hr_status hr__reader_next(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err)
{
    *out = NULL;
    return r->cls->next(r, HR_MAX(max_bytes, 1), out, err);
}

void hr__reader_close(hr_reader *r)
{
    if (r)
        r->cls->close(r);
}

hr_status hr__file_table(const hr_scan_file *f, int fragment, int64_t row, int64_t n_rows, hr_array **takes,
                         hr_table **out, hr_error *err)
{
    hr_run_coords run = { .first = { .file = f->file, .fragment = fragment, .row = row }, .n = n_rows };
    hr_origin *origin = NULL;
    hr_status st = hr__origin_new(&run, 1, &origin, err);

    if (!st)
        st = hr__table_new(f->schema, takes, n_rows, origin, out, err);
    else
        for (int i = 0; i < f->schema->n; i++)
            hr__array_unref(takes[i]);
    for (int i = 0; i < f->schema->n; i++)
        takes[i] = NULL;
    hr__origin_unref(origin);
    return st;
}

void hr__count_bad(hr_skipped *skipped, int64_t n)
{
    if (skipped)
        atomic_fetch_add_explicit(&skipped->bad, n, memory_order_relaxed);
}

void hr__encoded_chunk_clear(hr_encoded_chunk *p)
{
    hr__buffer_unref(p->bytes);
    if (p->notes && p->notes_free)
        p->notes_free(p->notes);
    *p = (hr_encoded_chunk){ 0 };
}
