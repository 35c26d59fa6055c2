/* wire_schema.c - schemas as bytes, for wire.c.
 *
 *   schema   fields; int64 n, metadata
 *   fields   int32 n, field * n
 *   field    int32 n, name; int32 n, Arrow format; int32 flags (nullable, keys sorted, pickles); int64 n, metadata;
 *            fields
 *
 * Tensors travel as their storage with its metadata, as in Arrow. The reader trusts nothing: the number of bytes
 * limits counts, HR_MAX_DEPTH limits nesting, and metadata must be whole, since users get it unchanged.
 *
 * Tests: test_remembered_columns.c, test_link.c. */
#include "share/share.h"

#define MAX_FIELDS (1 << 20)
#define MIN_FIELD_BYTES 24

/* Checks that there are as many pairs as the count says, and that they end where the bytes end: later readers trust
 * the metadata. */
static bool metadata_valid(const uint8_t *m, int64_t n_bytes)
{
    const char *key, *value;
    int64_t at = 0, n_key, n_value;
    int32_t n;

    if (n_bytes < (int64_t)sizeof n)
        return false;
    memcpy(&n, m, sizeof n);
    for (int32_t i = 0; i < n; i++)
        if (!hr__metadata_next(m, n_bytes, &at, &key, &n_key, &value, &n_value))
            return false;
    return n >= 0 && HR_MAX(at, (int64_t)sizeof n) == n_bytes;
}

/* ----------------------------------------------------------------------------------------------------- schemas, out */

enum { FIELD_NULLABLE = 1, FIELD_SORTED = 2, FIELD_PICKLED = 4 };

static void put_int32(hr_text *out, int64_t v)
{
    int32_t v32 = (int32_t)v;

    hr__text_add_bytes(out, &v32, sizeof v32);
}

static void put_text(hr_text *out, const char *s)
{
    put_int32(out, (int64_t)strlen(s));
    hr__text_add_bytes(out, s, (int64_t)strlen(s));
}

/* Damaged metadata has no keys, and the peer would refuse it. */
static void put_metadata(hr_text *out, const uint8_t *m, int64_t n)
{
    n = m && metadata_valid(m, n) ? n : 0;
    hr__text_add_bytes(out, &n, sizeof n);
    hr__text_add_bytes(out, m, n);
}

static hr_status put_field(const hr_field *f, hr_text *out, hr_error *err)
{
    const hr_type *t = f->type;
    int n_children = t->id == HR_T_TENSOR ? 1 : t->n_children;
    uint8_t *metadata = NULL;
    int64_t n_metadata = 0;

    HR_TRY(hr__field_storage_metadata(f, &metadata, &n_metadata, err));
    put_text(out, f->name);
    put_text(out, hr__type_format(t));
    put_int32(out, (f->nullable ? FIELD_NULLABLE : 0) | (t->keys_sorted ? FIELD_SORTED : 0) |
                       (t->pickled ? FIELD_PICKLED : 0));
    put_metadata(out, metadata, n_metadata);
    hr__free(metadata);
    put_int32(out, n_children);
    for (int i = 0; i < n_children; i++)
        HR_TRY(put_field(&t->children[i], out, err));
    return HR_OK;
}

hr_status hr__wire_schema(const hr_schema *s, hr_text *out, hr_error *err)
{
    put_int32(out, s->n);
    for (int i = 0; i < s->n; i++)
        HR_TRY(put_field(&s->fields[i], out, err));
    put_metadata(out, s->metadata, s->metadata_bytes);
    return out->failed ? hr__error_memory(err, "link", out->n) : HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ schemas, in */

/* A new string of `cap` bytes at most. */
static hr_status take_text(hr_wire_reader *r, int64_t cap, char **out, hr_error *err)
{
    const uint8_t *name;
    int32_t n = 0;

    *out = NULL;
    HR_TRY(hr__wire_get_int32(r, "the length of a name", 0, cap, &n, err));
    HR_TRY(hr__wire_get_bytes(r, "a name", n, &name, err));
    HR_TRY(hr__name_check(name, n, "link: a name", err));
    *out = hr__strndup(NULL, (const char *)name, (size_t)n);
    return *out ? HR_OK : hr__error_memory(err, "link", n + 1);
}

static hr_status take_metadata(hr_wire_reader *r, uint8_t **out, int64_t *n_bytes, hr_error *err)
{
    const uint8_t *pairs;
    int64_t n = 0;

    *out = NULL;
    *n_bytes = 0;
    HR_TRY(hr__wire_get_int64(r, "the size of metadata", 0, INT64_MAX, &n, err));
    HR_TRY(hr__wire_get_bytes(r, "metadata", n, &pairs, err));
    if (!n)
        return HR_OK;
    if (!metadata_valid(pairs, n))
        return hr_error_set(err, HR_BAD_DATA, "link: a schema: byte %lld: metadata of %lld bytes is damaged",
                            (long long)(pairs - r->begin), (long long)n);
    if (!(*out = hr__alloc(NULL, (size_t)n)))
        return hr__error_memory(err, "link", n);
    memcpy(*out, pairs, (size_t)n);
    *n_bytes = n;
    return HR_OK;
}

static hr_status take_fields(hr_wire_reader *r, int depth, hr_field **out, int *n_out, hr_error *err);

static void fields_free(hr_field *f, int n)
{
    for (int i = 0; i < n; i++)
        hr__field_clear(&f[i]);
    hr__free(f);
}

/* Reads the rest of a field, after its name and format. */
static hr_status take_type(hr_wire_reader *r, const char *format, int depth, hr_field *f, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field *children = NULL;
    int32_t flags = 0;
    int n = 0;

    HR_TRY(hr__wire_get_int32(r, "the flags of a field", INT32_MIN, INT32_MAX, &flags, err));
    f->nullable = flags & FIELD_NULLABLE;
    HR_GO(take_metadata(r, &f->metadata, &f->metadata_bytes, err));
    HR_GO(take_fields(r, depth + 1, &children, &n, err));
    if ((st = hr__type_from_format(format, children, n, &f->type, err))) {
        if (st != HR_NO_MEMORY)
            st = hr_error_set(err, HR_BAD_DATA, "link: a field of type '%.40s' with %d children", format, n);
        goto done;
    }
    if (f->type->id == HR_T_MAP)
        f->type->keys_sorted = flags & FIELD_SORTED;
    HR_GO(hr__field_from_storage(f, err));
    if ((flags & FIELD_PICKLED) &&
        hr__field_is_marked_pickle(f)) /* both ends of a link belong to one run and trust each other */
        HR_GO(hr__field_become_pickle(f, err));
done:
    fields_free(children, n);
    return st;
}

static hr_status take_field(hr_wire_reader *r, int depth, hr_field *f, hr_error *err)
{
    hr_status st = HR_OK;
    char *format = NULL;

    HR_GO(take_text(r, INT32_MAX, &f->name, err));
    HR_GO(take_text(r, 1024, &format, err));
    st = take_type(r, format, depth, f, err);
done:
    hr__free(format);
    return st;
}

static hr_status take_fields(hr_wire_reader *r, int depth, hr_field **out, int *n_out, hr_error *err)
{
    int32_t n = 0;

    *out = NULL;
    *n_out = 0;
    HR_TRY(hr__wire_get_int32(r, "the number of fields", 0, MAX_FIELDS, &n, err));
    HR_TRY(hr__wire_check(r, "the number of fields", n, 0, hr__wire_left(r) / MIN_FIELD_BYTES, err));
    if (depth > HR_MAX_DEPTH)
        return hr_error_set(err, HR_BAD_DATA, "link: types are nested more than %d deep", HR_MAX_DEPTH);
    if (!n)
        return HR_OK;
    if (!(*out = hr__zalloc(NULL, (size_t)n * sizeof **out)))
        return hr__error_memory(err, "link", n);
    for (*n_out = 0; *n_out < n;) {
        hr_status st = take_field(r, depth, &(*out)[(*n_out)++], err);
        if (st) {
            fields_free(*out, *n_out);
            *out = NULL;
            *n_out = 0;
            return st;
        }
    }
    return HR_OK;
}

hr_status hr__wire_read_schema(hr_wire_reader r, hr_schema **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_schema *s = NULL;
    hr_field *fields = NULL;
    int n = 0;

    *out = NULL;
    HR_GO(take_fields(&r, 0, &fields, &n, err));
    HR_GO(hr__schema_new(fields, n, &s, err));
    HR_GO(take_metadata(&r, &s->metadata, &s->metadata_bytes, err));
    HR_GO(hr__wire_get_end(&r, err));
    *out = s;
    s = NULL;
done:
    hr__schema_unref(s);
    fields_free(fields, n);
    return st;
}
