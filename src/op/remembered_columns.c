/* remembered_columns.c - the columns that the first rows of a run define, as text for positions.
 *
 * A resumed run sees other rows first, which may lack columns or have other types. So a position contains the columns:
 * "<mark of each column, 0 or 1>;<base64 of the schema as wire_schema.c encodes it>". If that text is too long for a
 * position, it is "#<hash>": then the first rows after the position must define the same columns, or it is an error. */
#include "share/share.h"
#include "op/operators.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_BYTES (16 << 10) /* about 400 columns */

void hr__remembered_clear(hr_remembered *m)
{
    hr__free(m->text);
    m->text = NULL;
}

static hr_status hash_of(const hr_schema *s, char out[18], hr_error *err)
{
    hr_hash h;
    hr_text types = { 0 };
    hr_status st = HR_OK;

    hr__schema_print(s, &types);
    if (types.failed)
        HR_GO(hr__error_memory(err, "columns", types.n));
    hr__hash_init(&h, 0);
    hr__hash_text(&h, types.data ? types.data : "");
    snprintf(out, 18, "#%016" PRIx64, hr__hash_end(&h).lo);
done:
    hr__text_clear(&types);
    return st;
}

hr_status hr__remembered_set(hr_remembered *m, const hr_schema *s, const bool *marks, hr_error *err)
{
    hr_text bytes = { 0 }, text = { 0 };
    hr_status st = HR_OK;
    char hash[18];

    HR_GO(hr__wire_schema(s, &bytes, err));
    for (int i = 0; i < s->n; i++)
        hr__text_add(&text, "%d", marks && marks[i]);
    hr__text_add(&text, ";");
    hr__text_add_base64(&text, (const uint8_t *)bytes.data, bytes.n);
    HR_GO(hash_of(s, hash, err));
    if (m->expected[0] && strcmp(hash, m->expected) != 0)
        HR_FAIL(
            HR_TYPE,
            "the first rows after the position have %d columns that differ from those before it, which are too many "
            "to be kept in a position: give all columns in every batch, in the same types",
            s->n);
    if (text.n > MAX_BYTES) {
        hr__text_clear(&text);
        hr__text_add(&text, "%s", hash);
    }
    if (text.failed)
        HR_GO(hr__error_memory(err, "columns", text.n));
    m->text = text.data;
    text = (hr_text){ 0 };
done:
    hr__text_clear(&bytes);
    hr__text_clear(&text);
    return st;
}

static hr_status damaged(hr_error *err)
{
    return hr_error_set(err, HR_INVALID, "position: what it says of a function's columns is damaged");
}

static hr_status read_schema(const char *text, int64_t n, hr_schema **out, hr_error *err)
{
    uint8_t *bytes = hr__alloc(NULL, (size_t)(n / 4 * 3 + 4));
    int64_t n_bytes = bytes ? hr__base64_read((const uint8_t *)text, n, bytes) : 0;
    hr_status st = HR_OK;

    if (!bytes)
        return hr__error_memory(err, "columns", n);
    if (n_bytes < 0)
        HR_GO(damaged(err));
    st = hr__wire_read_schema(hr__wire_reader("a schema", bytes, n_bytes), out, err);
    if (st && st != HR_NO_MEMORY)
        st = damaged(err);
done:
    hr__free(bytes);
    return st;
}

hr_status hr__remembered_recall(hr_remembered *m, const char *text, int64_t n, hr_schema **out, bool **marks,
                                hr_error *err)
{
    const char *end = memchr(text, ';', (size_t)n);
    hr_schema *s = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    *marks = NULL;
    if (n == sizeof m->expected - 1 && text[0] == '#') {
        memcpy(m->expected, text, (size_t)n);
        return HR_OK;
    }
    if (!end)
        return damaged(err);
    HR_GO(read_schema(end + 1, text + n - end - 1, &s, err));
    if (end - text != s->n)
        HR_GO(damaged(err));
    if (!(*marks = hr__zalloc(NULL, (size_t)s->n + 1)) || !(m->text = hr__strndup(NULL, text, (size_t)n)))
        HR_GO(hr__error_memory(err, "columns", n));
    for (int i = 0; i < s->n; i++)
        (*marks)[i] = text[i] == '1';
    *out = s;
    s = NULL;
done:
    if (st) {
        hr__free(*marks);
        *marks = NULL;
    }
    hr__schema_unref(s);
    return st;
}
