/* npy_header.c - the header of a .npy file: a Python dict as text, with the type of a record, the order of axes, the
 * shape.
 *
 *     "\x93NUMPY" major minor length {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
 *
 * The length has 2 bytes in version 1 and 4 in versions 2 and 3; the text is Latin-1 before version 3, then UTF-8.
 * `descr` is the text of a type, or a list of (name, type) and (name, type, shape) for structured arrays. The parser
 * knows only this part of Python's grammar.
 *
 * Tests: test_npy.c. */
#include "format/numpy/npy.h"

#define MAX_FIELDS 10000

typedef struct cursor {
    const uint8_t *p, *begin, *end;
    const char *name; /* of the file */
    hr_account *account;
    bool is_latin1; /* before version 3 */
} cursor;

static hr_status bad(const cursor *c, const char *expected, hr_error *err)
{
    char found[40];
    int n = 0;

    for (const uint8_t *p = c->p; p < c->end && n < 30; p++)
        found[n++] = *p >= ' ' && *p < 127 ? (char)*p : '?';
    found[n] = 0;
    return hr_error_set(err, HR_BAD_DATA, "%s: header, byte %lld: expected %s, found '%s'", c->name,
                        (long long)(c->p - c->begin), expected, found);
}

static void skip_blanks(cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

/* Takes `ch` if it is the next character. */
static bool take(cursor *c, char ch)
{
    skip_blanks(c);
    if (c->p >= c->end || *c->p != (uint8_t)ch)
        return false;
    c->p++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    size_t n = strlen(word);

    skip_blanks(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return false;
    c->p += n;
    return true;
}

static int hex_digit(uint8_t ch)
{
    return ch >= '0' && ch <= '9'   ? ch - '0'
           : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
           : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                    : -1;
}

static void add_code(hr_text *out, uint32_t u)
{
    uint8_t b[4];
    int n = u < 0x80 ? 1 : u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;

    for (int i = n - 1; i > 0; i--, u >>= 6)
        b[i] = (uint8_t)(0x80 | (u & 63));
    b[0] = (uint8_t)(n == 1 ? u : u | (0xf00 >> n & 0xff));
    hr__text_add_bytes(out, b, n);
}

/* The escape after a backslash. */
static hr_status take_escape(cursor *c, hr_text *out, hr_error *err)
{
    uint8_t ch = c->p < c->end ? *c->p++ : 0;
    int digits = ch == 'x' ? 2 : ch == 'u' ? 4 : ch == 'U' ? 8 : 0;
    uint32_t u = 0;

    if (digits == 0) {
        ch = ch == 'n' ? '\n' : ch == 't' ? '\t' : ch == 'r' ? '\r' : ch;
        hr__text_add_bytes(out, &ch, 1);
        return HR_OK;
    }
    for (int i = 0; i < digits; i++, c->p++) {
        int d = c->p < c->end ? hex_digit(*c->p) : -1;

        if (d < 0)
            return bad(c, "a hexadecimal digit", err);
        u = u << 4 | (uint32_t)d;
    }
    if (u > 0x10ffff)
        return bad(c, "a Unicode character before here", err);
    add_code(out, u);
    return HR_OK;
}

/* A string literal; *out is new (hr__free). */
static hr_status take_string(cursor *c, char **out, hr_error *err)
{
    hr_text text = { .account = c->account };
    hr_status st = HR_OK;
    uint8_t quote;

    skip_blanks(c);
    if (c->p < c->end && (*c->p == 'u' || *c->p == 'b')) /* Python 2 wrote u'...' now and then */
        c->p++;
    if (c->p >= c->end || (*c->p != '\'' && *c->p != '"'))
        HR_GO(bad(c, "a string", err));
    quote = *c->p++;
    while (c->p < c->end && *c->p != quote) {
        if (*c->p == 0)
            HR_GO(bad(c, "a character, not a NUL", err));
        if (*c->p == '\\') {
            c->p++;
            HR_GO(take_escape(c, &text, err));
        } else if (c->is_latin1) {
            add_code(&text, *c->p++);
        } else {
            hr__text_add_bytes(&text, c->p++, 1);
        }
    }
    if (c->p >= c->end)
        HR_GO(bad(c, "the string's end", err));
    c->p++;
    if (memchr(text.data ? text.data : "", 0, (size_t)text.n))
        HR_GO(bad(c, "a text without a NUL before here", err));
    *out = text.failed ? NULL : hr__strndup(c->account, text.data ? text.data : "", (size_t)text.n);
    if (!*out)
        HR_GO(hr__error_memory(err, c->name, text.n));
done:
    hr__text_clear(&text);
    return st;
}

static hr_status take_int(cursor *c, int64_t *out, hr_error *err)
{
    const uint8_t *begin;
    int64_t v = 0;

    skip_blanks(c);
    for (begin = c->p; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->p - '0', &v))
            return bad(c, "a dimension below 2^63", err);
    }
    if (c->p == begin)
        return bad(c, "a number", err);
    if (c->p < c->end && *c->p == 'L') /* Python 2 */
        c->p++;
    *out = v;
    return HR_OK;
}

/* "(2, 3)", "(2,)", "()", or "2" where a field's shape stands. */
static hr_status take_shape(cursor *c, int most, int *n_dims, int64_t *shape, hr_error *err)
{
    *n_dims = 0;
    if (!take(c, '(')) {
        *n_dims = 1;
        return take_int(c, &shape[0], err);
    }
    while (!take(c, ')')) {
        if (*n_dims == most)
            return hr_error_set(err, HR_UNSUPPORTED, "%s: an array of more than %d dimensions", c->name, most);
        HR_TRY(take_int(c, &shape[(*n_dims)++], err));
        if (!take(c, ',') && !(c->p < c->end && *c->p == ')'))
            return bad(c, "',' or ')'", err);
    }
    return HR_OK;
}

/* --- types of values */

/* datetime64 and timedelta64: "[ns]", "[25us]", or nothing. A unit that Arrow lacks becomes the next finer one. */
static hr_status time_type(cursor *c, const char *text, bool is_span, npy_field *f, hr_error *err)
{
    static const struct {
        const char *name;
        hr_unit unit;
        int64_t factor;
    } units[] = { { "ns", HR_NANO, 1 },      { "us", HR_MICRO, 1 },     { "ms", HR_MILLI, 1 },
                  { "s", HR_SECOND, 1 },     { "m", HR_SECOND, 60 },    { "h", HR_SECOND, 3600 },
                  { "D", HR_SECOND, 86400 }, { "W", HR_SECOND, 604800 } };
    const char *p = text;
    int64_t times = 0;

    f->kind = NPY_TIME;
    f->factor = 1;
    if (*p == 0 || strcmp(p, "[generic]") == 0) { /* without a unit it is a number */
        f->kind = NPY_PLAIN;
        f->value = hr__type_simple(HR_T_INT64);
        return HR_OK;
    }
    for (p++; *p >= '0' && *p <= '9' && times < 100000000; p++)
        times = times * 10 + (*p - '0');
    for (int i = 0; text[0] == '[' && i < HR_LEN(units); i++) {
        size_t n = strlen(units[i].name);

        if (strncmp(p, units[i].name, n) != 0 || strcmp(p + n, "]") != 0)
            continue;
        f->factor = units[i].factor * HR_MAX(times, 1);
        return hr__type_unit(is_span ? HR_T_DURATION : HR_T_TIMESTAMP, units[i].unit, NULL, &f->value, err);
    }
    return hr_error_set(err, HR_UNSUPPORTED, "%s: times in units of %s, expected W, D, h, m, s, ms, us or ns", c->name,
                        text);
}

static hr_status plain_type(char kind, int64_t bytes, npy_field *f)
{
    static const hr_type_id ints[] = { 0, HR_T_INT8, HR_T_INT16, 0, HR_T_INT32, 0, 0, 0, HR_T_INT64 };
    static const hr_type_id uints[] = { 0, HR_T_UINT8, HR_T_UINT16, 0, HR_T_UINT32, 0, 0, 0, HR_T_UINT64 };
    static const hr_type_id floats[] = { 0, 0, HR_T_FLOAT16, 0, HR_T_FLOAT32, 0, 0, 0, HR_T_FLOAT64 };
    hr_type_id id = HR_T_NULL;

    f->kind = NPY_PLAIN;
    if (kind == 'c') {
        f->kind = NPY_COMPLEX;
        bytes = bytes == 8 || bytes == 16 ? bytes / 2 : 0;
        kind = 'f';
    }
    if (bytes >= 1 && bytes <= 8)
        id = kind == 'i' ? ints[bytes] : kind == 'u' ? uints[bytes] : floats[bytes];
    if (kind == 'b' && bytes == 1) {
        f->kind = NPY_BOOL;
        id = HR_T_BOOL;
    }
    if (id == HR_T_NULL)
        return HR_UNSUPPORTED;
    f->value = hr__type_simple(id);
    return HR_OK;
}

/* "<f8", "|S5", ">U3", "<M8[ns]" */
static hr_status value_type(cursor *c, const char *text, npy_field *f, hr_error *err)
{
    const char *p = text;
    char order = *p && strchr("<>|=", *p) ? *p++ : '=', kind = *p ? *p++ : 0;
    int64_t n = 0;

    if (!*p && kind == '?')
        return value_type(c, "|b1", f, err);
    if (kind == 'O')
        return hr_error_set(err, HR_UNSUPPORTED,
                            "%s: an array of Python objects, which only unpickling can read; that could run any code",
                            c->name);
    if (!*p && kind != 'S' && kind != 'U' && kind != 'V')
        kind = 0;
    for (; *p >= '0' && *p <= '9' && n < INT32_MAX / 16; p++)
        n = n * 10 + (*p - '0');
    f->swap = order == '>';
    f->item_bytes = kind == 'U' ? n * 4 : n;
    if (n > INT32_MAX / 16 || (*p && kind != 'M' && kind != 'm'))
        kind = 0;
    switch (kind) {
    case 'S':
    case 'a':
        f->kind = NPY_BYTES;
        f->value = hr__type_simple(HR_T_BINARY);
        return HR_OK;
    case 'U':
        f->kind = NPY_UNICODE;
        f->value = hr__type_simple(HR_T_STRING);
        return HR_OK;
    case 'V': f->kind = NPY_VOID; return hr__type_fixed_binary((int32_t)n, &f->value, err);
    case 'M':
    case 'm':
        if (n == 8)
            return time_type(c, p, kind == 'm', f, err);
        break;
    case 'b':
    case 'i':
    case 'u':
    case 'f':
    case 'c':
        if (plain_type(kind, n, f) == HR_OK)
            return HR_OK;
        break;
    default: break;
    }
    return hr_error_set(err, HR_UNSUPPORTED, "%s: values of type '%.40s'", c->name, text);
}

/* --- descr */

static hr_status add_field(npy_header *h, cursor *c, char *name, hr_error *err)
{
    npy_field *f, *wider;
    char *type = NULL;
    hr_status st = HR_OK;

    if (h->n_fields == MAX_FIELDS)
        HR_FAIL(HR_UNSUPPORTED, "%s: more than %d fields", c->name, MAX_FIELDS);
    if ((h->n_fields & (h->n_fields - 1)) == 0) { /* room doubles */
        wider = hr__realloc(c->account, h->fields, (size_t)HR_MAX(h->n_fields * 2, 1) * sizeof *f);
        if (!wider)
            HR_GO(hr__error_memory(err, c->name, (h->n_fields + 1) * (int64_t)sizeof *f));
        h->fields = wider;
    }
    f = &h->fields[h->n_fields];
    *f = (npy_field){ .name = name, .n_items = 1, .at = h->record_bytes };
    name = NULL; /* moved */
    h->n_fields++;
    for (int i = 0; i + 1 < h->n_fields && f->name && f->name[0]; i++) /* padding has no name */
        if (strcmp(h->fields[i].name, f->name) == 0)
            HR_FAIL(HR_BAD_DATA, "%s: header: two fields are named '%s'", c->name, f->name);
    skip_blanks(c);
    if (c->p < c->end && *c->p == '[')
        HR_FAIL(HR_UNSUPPORTED, "%s: field '%s' is itself a structure", c->name, f->name ? f->name : "");
    HR_GO(take_string(c, &type, err));
    HR_GO(value_type(c, type, f, err));
    if (f->name && take(c, ','))
        HR_GO(take_shape(c, HR_MAX_DIMS, &f->n_dims, f->shape, err));
    for (int i = 0; i < f->n_dims; i++)
        if (__builtin_mul_overflow(f->n_items, f->shape[i], &f->n_items) || f->n_items > INT32_MAX)
            HR_FAIL(HR_UNSUPPORTED, "%s: field '%s' has more than 2^31 values", c->name, f->name);
    if (__builtin_add_overflow(h->record_bytes, f->n_items * f->item_bytes, &h->record_bytes) ||
        h->record_bytes > INT32_MAX)
        HR_FAIL(HR_UNSUPPORTED, "%s: records of more than 2 GiB", c->name);
done:
    hr__free(type);
    hr__free(name);
    return st;
}

/* A field's name: 'x', or ('title', 'x'). */
static hr_status take_name(cursor *c, char **name, hr_error *err)
{
    bool titled = take(c, '(');

    HR_TRY(take_string(c, name, err));
    if (!titled)
        return HR_OK;
    hr__free(*name);
    *name = NULL;
    if (!take(c, ','))
        return bad(c, "','", err);
    HR_TRY(take_string(c, name, err));
    return take(c, ')') ? HR_OK : bad(c, "')'", err);
}

/* Bytes between fields, which NumPy writes as fields without a name. */
static void drop_padding(npy_header *h)
{
    npy_field *last = &h->fields[h->n_fields - 1];

    if (last->kind == NPY_VOID && last->name[0] == 0) {
        hr__free(last->name);
        hr__type_unref(last->value);
        h->n_fields--;
        h->fields[h->n_fields] = (npy_field){ 0 };
    }
}

static hr_status take_descr(npy_header *h, cursor *c, hr_error *err)
{
    if (!take(c, '['))
        return add_field(h, c, NULL, err);
    while (!take(c, ']')) {
        char *name = NULL;
        hr_status st;

        if (!take(c, '('))
            return bad(c, "'(' or ']'", err);
        st = take_name(c, &name, err);
        if (!st && !take(c, ','))
            st = bad(c, "','", err);
        if (st) {
            hr__free(name);
            return st;
        }
        HR_TRY(add_field(h, c, name, err)); /* takes it */
        drop_padding(h);
        take(c, ',');
        if (!take(c, ')'))
            return bad(c, "')'", err);
        if (!take(c, ',') && !(c->p < c->end && *c->p == ']'))
            return bad(c, "',' or ']'", err);
    }
    return h->n_fields > 0 ? HR_OK : hr_error_set(err, HR_UNSUPPORTED, "%s: records without fields", c->name);
}

static hr_status take_dict(npy_header *h, cursor *c, hr_error *err)
{
    bool has_descr = false, has_order = false, has_shape = false;
    hr_status st = HR_OK;
    char *key = NULL;

    if (!take(c, '{'))
        HR_GO(bad(c, "'{'", err));
    while (!take(c, '}')) {
        hr__free(key);
        key = NULL;
        HR_GO(take_string(c, &key, err));
        if (!take(c, ':'))
            HR_GO(bad(c, "':'", err));
        if (strcmp(key, "descr") == 0 && !has_descr) {
            HR_GO(take_descr(h, c, err));
            has_descr = true;
        } else if (strcmp(key, "fortran_order") == 0) {
            h->fortran = take_word(c, "True");
            has_order = h->fortran || take_word(c, "False");
            if (!has_order)
                HR_GO(bad(c, "True or False", err));
        } else if (strcmp(key, "shape") == 0) {
            skip_blanks(c);
            if (c->p < c->end && *c->p != '(')
                HR_GO(bad(c, "'('", err));
            HR_GO(take_shape(c, HR_MAX_DIMS + 1, &h->n_dims, h->shape, err));
            has_shape = true;
        } else {
            HR_GO(bad(c, "'descr', 'fortran_order' and 'shape' once each before here", err));
        }
        if (!take(c, ',') && !(c->p < c->end && *c->p == '}'))
            HR_GO(bad(c, "',' or '}'", err));
    }
    if (!has_descr || !has_order || !has_shape)
        HR_FAIL(HR_BAD_DATA, "%s: header has no '%s'", c->name,
                !has_descr   ? "descr"
                : !has_order ? "fortran_order"
                             : "shape");
    skip_blanks(c);
    if (c->p < c->end)
        HR_GO(bad(c, "the end", err));
done:
    hr__free(key);
    return st;
}

/* --- shapes and types of columns */

/* The value's type, within all dimensions after the first: tensors of numbers, lists of the rest. */
static hr_status column_type(npy_field *f, const int64_t *dims, int n_dims, hr_error *err)
{
    hr_type *type = NULL, *outer;
    hr_status st = HR_OK;

    if (n_dims == 0) {
        f->type = hr__type_ref(f->value);
        return HR_OK;
    }
    if (f->kind != NPY_BYTES && f->kind != NPY_UNICODE && f->kind != NPY_VOID)
        return hr__type_tensor(f->value, dims, n_dims, &f->type, err);
    type = hr__type_ref(f->value);
    for (int i = n_dims - 1; i >= 0; i--) {
        hr_field item = { 0 };

        if (dims[i] > INT32_MAX)
            HR_FAIL(HR_UNSUPPORTED, "a list of %lld values", (long long)dims[i]);
        st = hr__field_init(&item, "item", type, true, err);
        if (!st)
            st = hr__type_list(HR_T_FIXED_LIST, &item, (int32_t)dims[i], &outer, err);
        hr__field_clear(&item);
        if (st)
            goto done;
        hr__type_unref(type);
        type = outer;
    }
    f->type = type;
    type = NULL; /* moved */
done:
    hr__type_unref(type);
    return st;
}

static hr_status field_type(const npy_header *h, npy_field *f, const char *name, hr_error *err)
{
    int64_t dims[2 * HR_MAX_DIMS + 2];
    hr_status st;
    int n = 0;

    for (int i = 1; i < h->n_dims; i++)
        dims[n++] = h->shape[i];
    for (int i = 0; i < f->n_dims; i++)
        dims[n++] = f->shape[i];
    if (f->kind == NPY_COMPLEX)
        dims[n++] = 2;
    if (n > HR_MAX_DIMS)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: rows of %d dimensions, expected at most %d", name, n,
                            HR_MAX_DIMS);
    if (__builtin_mul_overflow(h->row_records, f->n_items, &f->row_items) || f->row_items > INT32_MAX / 2)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: rows of more than 2^30 values", name);
    st = column_type(f, dims, n, err);
    return st ? hr__error_at(err, st, "%s", name) : HR_OK;
}

/* Computes the numbers of rows, records and bytes; an error if the file cannot hold them. */
static hr_status measure(npy_header *h, int64_t n_bytes, const char *name, hr_error *err)
{
    int64_t items;

    h->n_rows = h->n_dims ? h->shape[0] : 1;
    h->row_records = 1;
    for (int i = 1; i < h->n_dims; i++)
        if (__builtin_mul_overflow(h->row_records, h->shape[i], &h->row_records))
            return hr_error_set(err, HR_BAD_DATA, "%s: its shape has more than 2^63 values", name);
    if (__builtin_mul_overflow(h->row_records, h->record_bytes, &h->row_bytes) ||
        __builtin_mul_overflow(h->row_bytes, h->n_rows, &h->data_bytes))
        return hr_error_set(err, HR_BAD_DATA, "%s: its shape has more than 2^63 bytes", name);
    if (h->data_bytes > n_bytes - h->data_at)
        return hr_error_set(err, HR_BAD_DATA, "%s: byte %lld: shape and type need %lld bytes of data, there are %lld",
                            name, (long long)h->data_at, (long long)h->data_bytes,
                            (long long)HR_MAX(n_bytes - h->data_at, 0));
    if (h->data_bytes < n_bytes - h->data_at)
        return hr_error_set(
            err, HR_BAD_DATA,
            "%s: byte %lld: shape and type need %lld bytes of data, there are %lld: more than one array, or a "
            "damaged shape",
            name, (long long)h->data_at, (long long)h->data_bytes, (long long)(n_bytes - h->data_at));
    if (__builtin_mul_overflow(h->n_rows, HR_MAX(h->row_records, 1), &items) || items - (1 << 20) > n_bytes)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: %lld rows of values without bytes", name, (long long)h->n_rows);
    if (h->row_bytes > INT32_MAX / 2)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: rows of %lld bytes, expected at most 1 GiB", name,
                            (long long)h->row_bytes);
    return HR_OK;
}

hr_status npy__header_bytes(const uint8_t *head, int64_t n, const char *name, int64_t *out, hr_error *err)
{
    int wide = n >= 8 && head[6] >= 2 ? 4 : 2;
    int64_t length = 0;

    if (n < 6 || memcmp(head, "\x93NUMPY", 6) != 0)
        return hr_error_set(err, HR_BAD_DATA, "%s: byte 0: expected \"\\x93NUMPY\", this is not a .npy file", name);
    if (n < 8 + wide)
        return hr_error_set(err, HR_BAD_DATA, "%s: ends at byte %lld, in the header", name, (long long)n);
    if (head[6] < 1 || head[6] > 3)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: version %d.%d of .npy, expected 1.0, 2.0 or 3.0", name, head[6],
                            head[7]);
    for (int i = wide - 1; i >= 0; i--)
        length = length << 8 | head[8 + i];
    if (length > NPY_MAX_HEADER_BYTES)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: byte 8: a header of %lld bytes, expected at most %d", name,
                            (long long)length, NPY_MAX_HEADER_BYTES);
    *out = 8 + wide + length;
    return HR_OK;
}

hr_status npy__header_parse(npy_header *h, const uint8_t *p, int64_t n, int64_t n_bytes, const char *name,
                            hr_account *account, hr_error *err)
{
    int wide = p[6] >= 2 ? 4 : 2;
    cursor c = { p + 8 + wide, p, p + n, name, account, p[6] < 3 };
    hr_status st = HR_OK;

    *h = (npy_header){ .account = account, .data_at = n };
    HR_GO(take_dict(h, &c, err));
    HR_GO(measure(h, n_bytes, name, err));
    for (int i = 0; i < h->n_fields; i++)
        HR_GO(field_type(h, &h->fields[i], name, err));
done:
    if (st)
        npy__header_clear(h);
    return st;
}

void npy__header_clear(npy_header *h)
{
    for (int i = 0; i < h->n_fields; i++) {
        hr__free(h->fields[i].name);
        hr__type_unref(h->fields[i].value);
        hr__type_unref(h->fields[i].type);
    }
    hr__free(h->fields);
    *h = (npy_header){ 0 };
}
