/* type.c - logical types and fields.
 *
 * A type is immutable and counted; it is compared by value. Types without parameters are static singletons, whose
 * references are not counted, so that columns of plain numbers never write a shared cache line.
 *
 * 1. The text of a type is pyarrow's, because users compare it with that.
 * 2. Constructors bound the nesting (HR_MAX_DEPTH), so that code that walks a type may recurse.
 * 3. The name of a list's items ("item", "element") or a map's entries is a writer's habit, not a part of the type:
 *    equality ignores it. Equality ignores nullability, too: it is a promise about rows, not about layout. */
#include "data/data.h"

#include <math.h>
#include <stdlib.h>

static const struct {
    const char *name;
    const char *format;
    int bytes;
} types[HR_N_TYPES] = {
#define HR_X(id, name, format, bytes) [id] = { name, format, bytes },
    HR_TYPE_LIST(HR_X)
#undef HR_X
};

static hr_type simple_types[HR_N_TYPES] = {
#define HR_X(type_id, name, format, bytes) [type_id] = { .id = type_id, .is_static = true },
    HR_TYPE_LIST(HR_X)
#undef HR_X
};

static hr_type pickled_type = { .id = HR_T_LARGE_BINARY, .is_static = true, .pickled = true };

static const char *const unit_names[] = { "s", "ms", "us", "ns" };

hr_type *hr__type_simple(hr_type_id id)
{
    if ((int)id < 0 || id >= HR_N_TYPES || !types[id].format || types[id].format[0] == '+')
        return NULL;
    return &simple_types[id];
}

hr_type *hr__type_pickled(void) { return &pickled_type; }

bool hr__type_has_pickles(const hr_type *t)
{
    for (int32_t i = 0; i < t->n_children; i++)
        if (hr__type_has_pickles(t->children[i].type))
            return true;
    return t->pickled;
}

hr_status hr__refuse_pickles(const char *what, const hr_field *f, hr_error *err)
{
    hr_text type = { 0 };

    if (!hr__type_has_pickles(f->type))
        return HR_OK;
    hr__type_print(f->type, &type);
    hr_error_set(err, HR_TYPE, "%s: column '%s' is %s: only Python functions can read Python objects", what, f->name,
                 type.data ? type.data : "?");
    hr__text_clear(&type);
    return HR_TYPE;
}

static hr_status type_new(hr_type_id id, int n_children, hr_type **out, hr_error *err)
{
    size_t n_bytes = sizeof(hr_type) + (size_t)n_children * sizeof(hr_field);
    hr_type *t = hr__zalloc(NULL, n_bytes);

    if (!t)
        return hr__error_memory(err, "type", (int64_t)n_bytes);
    t->id = id;
    atomic_init(&t->refs, 1);
    t->n_children = n_children;
    t->children = n_children ? (hr_field *)(t + 1) : NULL;
    *out = t;
    return HR_OK;
}

hr_type *hr__type_ref(hr_type *t)
{
    if (t && !t->is_static)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void hr__type_unref(hr_type *t)
{
    if (!t || t->is_static || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (int32_t i = 0; i < t->n_children; i++)
        hr__field_clear(&t->children[i]);
    hr__free(t->zone);
    hr__free(t->format);
    hr__free(t);
}

/* The last step of a constructor: *t has its parameters and gets its format string; on failure it is freed. */
static hr_status type_done(hr_type **t, char *format, hr_error *err)
{
    (*t)->format = format;
    if (format)
        return HR_OK;
    hr__type_unref(*t);
    *t = NULL;
    return hr__error_memory(err, "type", 16);
}

/* ----------------------------------------------------------------------------------------------------------- fields */

hr_status hr__name_check(const void *name, int64_t n, const char *what, hr_error *err)
{
    const char *p = name;
    hr_text shown = { 0 };
    hr_status st;

    if (n <= 0 || !memchr(p, 0, (size_t)n))
        return HR_OK;
    for (int64_t i = 0; i < HR_MIN(n, 100); i++)
        hr__text_add_bytes(&shown, p[i] ? &p[i] : "\\0", p[i] ? 1 : 2);
    st = hr_error_set(err, HR_BAD_DATA, "%s holds a zero byte: '%s'", what, shown.data ? shown.data : "?");
    hr__text_clear(&shown);
    return st;
}

hr_status hr__field_init(hr_field *f, const char *name, hr_type *type, bool nullable, hr_error *err)
{
    *f = (hr_field){ .nullable = nullable };
    f->name = hr__strdup(NULL, name ? name : "");
    if (!f->name)
        return hr__error_memory(err, "field", name ? (int64_t)strlen(name) + 1 : 1);
    f->type = hr__type_ref(type);
    return HR_OK;
}

hr_status hr__field_copy(hr_field *to, const hr_field *from, hr_error *err)
{
    HR_TRY(hr__field_init(to, from->name, from->type, from->nullable, err));
    if (!from->metadata)
        return HR_OK;
    to->metadata = hr__alloc(NULL, (size_t)from->metadata_bytes);
    if (!to->metadata) {
        hr__field_clear(to);
        return hr__error_memory(err, "field", from->metadata_bytes);
    }
    memcpy(to->metadata, from->metadata, (size_t)from->metadata_bytes);
    to->metadata_bytes = from->metadata_bytes;
    return HR_OK;
}

void hr__field_clear(hr_field *f)
{
    hr__free(f->name);
    hr__free(f->metadata);
    hr__type_unref(f->type);
    *f = (hr_field){ 0 };
}

/* ----------------------------------------------------------------------------------------------------- constructors */

hr_status hr__type_unit(hr_type_id id, hr_unit unit, const char *zone, hr_type **out, hr_error *err)
{
    bool fits = id == HR_T_TIMESTAMP || id == HR_T_DURATION || (id == HR_T_TIME32 && unit <= HR_MILLI) ||
                (id == HR_T_TIME64 && unit >= HR_MICRO);
    const char *name = id == HR_T_TIMESTAMP ? "ts" : id == HR_T_DURATION ? "tD" : "tt";
    hr_type *t = NULL;

    *out = NULL;
    if (!fits || (int)unit < 0 || unit > HR_NANO)
        return hr_error_set(err, HR_INVALID, "type %d has no unit %d", (int)id, (int)unit);
    HR_TRY(type_new(id, 0, &t, err));
    t->unit = unit;
    if (id == HR_T_TIMESTAMP && zone && zone[0] && !(t->zone = hr__strdup(NULL, zone))) {
        hr__type_unref(t);
        return hr__error_memory(err, "type", (int64_t)strlen(zone) + 1);
    }
    *out = t;
    return type_done(
        out, hr__printf(NULL, "%s%c%s%s", name, "smun"[unit], id == HR_T_TIMESTAMP ? ":" : "", t->zone ? t->zone : ""),
        err);
}

hr_status hr__type_fixed_binary(int32_t width, hr_type **out, hr_error *err)
{
    *out = NULL;
    if (width < 0)
        return hr_error_set(err, HR_INVALID, "fixed_size_binary has %d bytes, expected 0 or more", (int)width);
    HR_TRY(type_new(HR_T_FIXED_BINARY, 0, out, err));
    (*out)->width = width;
    return type_done(out, hr__printf(NULL, "w:%d", (int)width), err);
}

hr_status hr__type_decimal(hr_type_id id, int32_t precision, int32_t scale, hr_type **out, hr_error *err)
{
    int32_t most = id == HR_T_DECIMAL128 ? 38 : 76;

    *out = NULL;
    if (id != HR_T_DECIMAL128 && id != HR_T_DECIMAL256)
        return hr_error_set(err, HR_INVALID, "type %d is not a decimal", (int)id);
    if (precision < 1 || precision > most)
        return hr_error_set(err, HR_INVALID, "%s has %d digits, expected 1 to %d", types[id].name, (int)precision,
                            (int)most);
    HR_TRY(type_new(id, 0, out, err));
    (*out)->precision = precision;
    (*out)->scale = scale;
    return type_done(
        out, hr__printf(NULL, id == HR_T_DECIMAL128 ? "d:%d,%d" : "d:%d,%d,256", (int)precision, (int)scale), err);
}

static int type_depth(const hr_type *t)
{
    int deepest = 0;

    for (int32_t i = 0; i < t->n_children; i++) {
        int d = type_depth(t->children[i].type);

        deepest = HR_MAX(deepest, d);
    }
    return deepest + 1;
}

/* A type with copies of these fields as children. */
static hr_status type_nested(hr_type_id id, const hr_field *fields, int n, hr_type **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_type *t = NULL;

    for (int i = 0; i < n; i++)
        if (type_depth(fields[i].type) >= HR_MAX_DEPTH)
            HR_FAIL(HR_UNSUPPORTED, "a type has more than %d levels", HR_MAX_DEPTH);
    HR_GO(type_new(id, n, &t, err));
    for (int i = 0; i < n; i++)
        HR_GO(hr__field_copy(&t->children[i], &fields[i], err));
    *out = t;
    t = NULL;
done:
    hr__type_unref(t);
    return st;
}

hr_status hr__type_list(hr_type_id id, const hr_field *child, int32_t width, hr_type **out, hr_error *err)
{
    *out = NULL;
    if (id != HR_T_LIST && id != HR_T_LARGE_LIST && id != HR_T_FIXED_LIST && id != HR_T_MAP)
        return hr_error_set(err, HR_INVALID, "type %d is not a list", (int)id);
    if (id == HR_T_MAP && (child->type->id != HR_T_STRUCT || child->type->n_children != 2))
        return hr_error_set(err, HR_INVALID, "the entries of a map are no struct of key and value");
    if (id == HR_T_FIXED_LIST && width < 0)
        return hr_error_set(err, HR_INVALID, "fixed_size_list has %d values, expected 0 or more", (int)width);
    HR_TRY(type_nested(id, child, 1, out, err));
    if (id != HR_T_FIXED_LIST)
        return HR_OK;
    (*out)->width = width;
    return type_done(out, hr__printf(NULL, "+w:%d", (int)width), err);
}

hr_status hr__type_struct(const hr_field *fields, int n, hr_type **out, hr_error *err)
{
    *out = NULL;
    return type_nested(HR_T_STRUCT, fields, n, out, err);
}

hr_status hr__type_ragged_image(hr_type *value, hr_type **out, hr_error *err)
{
    HR_TRY(hr__type_ragged(value, 3, out, err));
    (*out)->image = true;
    return HR_OK;
}

hr_status hr__type_ragged(hr_type *value, int n_dims, hr_type **out, hr_error *err)
{
    hr_field item = { 0 }, size = { 0 }, parts[2] = { { 0 }, { 0 } };
    hr_type *data = NULL, *shape = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (n_dims < 1 || n_dims > HR_MAX_DIMS)
        return hr_error_set(err, HR_UNSUPPORTED, "a tensor has %d dimensions, expected 1 to %d", n_dims, HR_MAX_DIMS);
    HR_GO(hr__field_init(&item, "item", value, true, err));
    HR_GO(hr__type_list(HR_T_LIST, &item, 0, &data, err));
    HR_GO(hr__field_init(&size, "item", hr__type_simple(HR_T_INT32), true, err));
    HR_GO(hr__type_list(HR_T_FIXED_LIST, &size, n_dims, &shape, err));
    HR_GO(hr__field_init(&parts[0], "data", data, true, err));
    HR_GO(hr__field_init(&parts[1], "shape", shape, true, err));
    HR_GO(hr__type_struct(parts, 2, out, err));
    (*out)->n_dims = n_dims;
done:
    hr__field_clear(&item);
    hr__field_clear(&size);
    hr__field_clear(&parts[0]);
    hr__field_clear(&parts[1]);
    hr__type_unref(data);
    hr__type_unref(shape);
    return st;
}

hr_status hr__type_tensor(hr_type *value, const int64_t *shape, int n_dims, hr_type **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field item = { 0 };
    int64_t width = 1;

    *out = NULL;
    if (n_dims < 0 || n_dims > HR_MAX_DIMS)
        return hr_error_set(err, HR_UNSUPPORTED, "a tensor has %d dimensions, expected at most %d", n_dims,
                            HR_MAX_DIMS);
    for (int i = 0; i < n_dims; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(width, shape[i], &width) || width > INT32_MAX)
            return hr_error_set(err, HR_UNSUPPORTED, "dimension %d of a tensor is %lld: negative, or too large", i,
                                (long long)shape[i]);
    HR_GO(hr__field_init(&item, "item", value, true, err));
    HR_GO(type_nested(HR_T_TENSOR, &item, 1, out, err));
    (*out)->width = (int32_t)width;
    (*out)->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++)
        (*out)->shape[i] = shape[i];
    st = type_done(out, hr__printf(NULL, "+w:%d", (int)width), err);
done:
    hr__field_clear(&item);
    return st;
}

/* --------------------------------------------------------------------------------------------- equality, size, text */

int hr__type_align(const hr_type *t)
{
    int n = types[t->id].bytes;

    return n ? HR_MIN(n, 8) : 1;
}

int hr__type_offset_bytes(const hr_type *t)
{
    switch (t->id) {
    case HR_T_STRING:
    case HR_T_BINARY:
    case HR_T_LIST:
    case HR_T_MAP: return 4;
    case HR_T_LARGE_STRING:
    case HR_T_LARGE_BINARY:
    case HR_T_LARGE_LIST: return 8;
    default: return 0;
    }
}

static bool children_equal(const hr_type *a, const hr_type *b, bool by_name)
{
    for (int32_t i = 0; i < a->n_children; i++)
        if ((by_name && strcmp(a->children[i].name, b->children[i].name) != 0) ||
            !hr__type_equal(a->children[i].type, b->children[i].type))
            return false;
    return true;
}

bool hr__type_equal(const hr_type *a, const hr_type *b)
{
    if (a == b)
        return true;
    if (a->id != b->id || a->unit != b->unit || a->width != b->width || a->precision != b->precision ||
        a->scale != b->scale || a->n_dims != b->n_dims || a->n_children != b->n_children ||
        a->keys_sorted != b->keys_sorted || a->pickled != b->pickled || a->image != b->image)
        return false;
    if (!a->zone != !b->zone || (a->zone && strcmp(a->zone, b->zone) != 0))
        return false;
    if (memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof a->shape[0]) != 0)
        return false;
    if (a->id == HR_T_MAP)
        return children_equal(a->children[0].type, b->children[0].type, false);
    return children_equal(a, b, a->id == HR_T_STRUCT);
}

int hr__type_bytes(const hr_type *t) { return t->id == HR_T_FIXED_BINARY ? t->width : types[t->id].bytes; }

const char *hr__type_format(const hr_type *t) { return t->format ? t->format : types[t->id].format; }

static void print_child(const hr_field *f, bool with_name, hr_text *out)
{
    if (with_name)
        hr__text_add(out, "%s: ", f->name);
    hr__type_print(f->type, out);
    if (with_name && !f->nullable)
        hr__text_add(out, " not null");
}

static void print_map(const hr_type *t, hr_text *out)
{
    const hr_type *entries = t->children[0].type;
    static const char *const usual[] = { "key", "value" };

    hr__text_add(out, "map<");
    for (int i = 0; i < 2; i++) {
        hr__text_add(out, i ? ", " : "");
        print_child(&entries->children[i], false, out);
        if (strcmp(entries->children[i].name, usual[i]) != 0)
            hr__text_add(out, " ('%s')", entries->children[i].name);
    }
    hr__text_add(out, t->keys_sorted ? ", keys_sorted" : "");
    if (strcmp(t->children[0].name, "entries") != 0)
        hr__text_add(out, " ('%s')", t->children[0].name);
    hr__text_add(out, ">");
}

static void print_tensor(const hr_type *t, hr_text *out)
{
    hr__text_add(out, "extension<arrow.fixed_shape_tensor[value_type=");
    hr__type_print(t->children[0].type, out);
    hr__text_add(out, ", shape=[");
    for (int32_t i = 0; i < t->n_dims; i++)
        hr__text_add(out, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    hr__text_add(out, "]]>");
}

static void print_ragged(const hr_type *t, hr_text *out)
{
    hr__text_add(out, "extension<arrow.variable_shape_tensor[value_type=");
    hr__type_print(t->children[0].type->children[0].type, out);
    hr__text_add(out, ", ndim=%d%s]>", (int)t->n_dims, t->image ? ", dim_names=[height,width,channels]" : "");
}

void hr__type_print(const hr_type *t, hr_text *out)
{
    switch (t->id) {
    case HR_T_FIXED_BINARY: hr__text_add(out, "fixed_size_binary[%d]", (int)t->width); return;
    case HR_T_TIME32:
    case HR_T_TIME64:
    case HR_T_DURATION: hr__text_add(out, "%s[%s]", types[t->id].name, unit_names[t->unit]); return;
    case HR_T_TIMESTAMP:
        hr__text_add(out, t->zone ? "timestamp[%s, tz=%s]" : "timestamp[%s]", unit_names[t->unit], t->zone);
        return;
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: hr__text_add(out, "%s(%d, %d)", types[t->id].name, (int)t->precision, (int)t->scale); return;
    case HR_T_MAP: print_map(t, out); return;
    case HR_T_TENSOR: print_tensor(t, out); return;
    default: break;
    }
    if (hr__type_is_ragged(t)) {
        print_ragged(t, out);
        return;
    }
    hr__text_add(out, "%s", t->pickled ? "extension<headrace.pickle>" : types[t->id].name);
    if (t->id != HR_T_STRUCT && t->n_children == 0)
        return;
    hr__text_add(out, "<");
    for (int32_t i = 0; i < t->n_children; i++) {
        hr__text_add(out, i ? ", " : "");
        print_child(&t->children[i], true, out);
    }
    hr__text_add(out, t->id == HR_T_FIXED_LIST ? ">[%d]" : ">", (int)t->width);
}

/* ------------------------------------------------------------------------------------------- Arrow's format strings */

/* The whole of `text` as a decimal number; false if it is none. */
static bool parse_int32(const char *text, const char *stop, int32_t *out)
{
    char *end = NULL;
    long v = strtol(text, &end, 10);

    *out = (int32_t)v;
    return end != text && end == stop && v >= INT32_MIN && v <= INT32_MAX;
}

static bool parse_unit(char c, hr_unit *out)
{
    static const char units[] = "smun";
    const char *at = c ? strchr(units, c) : NULL;

    if (at)
        *out = (hr_unit)(at - units);
    return at != NULL;
}

/* "w:16" */
static hr_status from_width(const char *format, hr_type **out, hr_error *err)
{
    int32_t width = -1;

    if (!parse_int32(format + 2, format + strlen(format), &width))
        width = -1;
    return hr__type_fixed_binary(width, out, err);
}

/* "d:10,2" and "d:10,2,256" */
static hr_status from_decimal(const char *format, hr_type **out, hr_error *err)
{
    const char *end = format + strlen(format), *comma = strchr(format, ','),
               *bits = comma ? strchr(comma + 1, ',') : NULL;
    int32_t precision = 0, scale = 0, n_bits = 128;

    if (!comma || !parse_int32(format + 2, comma, &precision) || !parse_int32(comma + 1, bits ? bits : end, &scale) ||
        (bits && !parse_int32(bits + 1, end, &n_bits)))
        return hr_error_set(err, HR_BAD_DATA, "decimal format '%s'", format);
    if (n_bits != 128 && n_bits != 256)
        return hr_error_set(err, HR_UNSUPPORTED, "decimals of %d bits", (int)n_bits);
    return hr__type_decimal(n_bits == 128 ? HR_T_DECIMAL128 : HR_T_DECIMAL256, precision, scale, out, err);
}

/* "tts", "ttm", "ttu", "ttn", "tDs", "tss:UTC"; the intervals "tiM", "tiD", "tin" */
static hr_status from_time(const char *format, hr_type **out, hr_error *err)
{
    hr_unit unit = HR_SECOND;
    size_t n = strlen(format);

    for (hr_type_id id = HR_T_MONTHS; id <= HR_T_MONTH_DAY_NANO; id++) {
        if (strcmp(format, types[id].format) == 0) {
            *out = hr__type_simple(id);
            return HR_OK;
        }
    }
    if (n < 3 || !parse_unit(format[2], &unit))
        return hr_error_set(err, HR_UNSUPPORTED, "format '%s' is not supported", format);
    if (format[1] == 't' && n == 3)
        return hr__type_unit(unit <= HR_MILLI ? HR_T_TIME32 : HR_T_TIME64, unit, NULL, out, err);
    if (format[1] == 'D' && n == 3)
        return hr__type_unit(HR_T_DURATION, unit, NULL, out, err);
    if (format[1] == 's' && format[3] == ':')
        return hr__type_unit(HR_T_TIMESTAMP, unit, format + 4, out, err);
    return hr_error_set(err, HR_UNSUPPORTED, "format '%s' is not supported", format);
}

static hr_status from_nested(const char *format, hr_field *children, int n_children, hr_type **out, hr_error *err)
{
    hr_type_id id = format[1] == 'l'   ? HR_T_LIST
                    : format[1] == 'L' ? HR_T_LARGE_LIST
                    : format[1] == 'm' ? HR_T_MAP
                                       : HR_T_FIXED_LIST;
    int32_t width = 0;

    if (strcmp(format, "+s") == 0)
        return hr__type_struct(children, n_children, out, err);
    if (format[1] == 'u')
        return hr_error_set(err, HR_UNSUPPORTED, "unions (format '%s') are not supported", format);
    if (format[1] == 'w' &&
        (format[2] != ':' || !parse_int32(format + 3, format + strlen(format), &width) || width < 0))
        return hr_error_set(err, HR_BAD_DATA, "format '%s'", format);
    if (!format[1] || !strchr("lLmw", format[1]) || (format[1] != 'w' && format[2]))
        return hr_error_set(err, HR_UNSUPPORTED, "format '%s' is not supported", format);
    if (n_children != 1)
        return hr_error_set(err, HR_BAD_DATA, "format '%s' has %d children, expected 1", format, n_children);
    if (id == HR_T_MAP && (children->type->id != HR_T_STRUCT || children->type->n_children != 2))
        return hr_error_set(err, HR_BAD_DATA, "the entries of a map are no struct of key and value");
    return hr__type_list(id, children, width, out, err);
}

hr_status hr__type_from_format(const char *format, hr_field *children, int n_children, hr_type **out, hr_error *err)
{
    *out = NULL;
    if (format[0] == '+')
        return from_nested(format, children, n_children, out, err);
    if (n_children)
        return hr_error_set(err, HR_BAD_DATA, "format '%s' has %d children, expected none", format, n_children);
    for (int i = 0; i < HR_N_TYPES; i++)
        if (types[i].format && strcmp(types[i].format, format) == 0) {
            *out = hr__type_simple((hr_type_id)i);
            return HR_OK;
        }
    if (format[0] == 'w' && format[1] == ':')
        return from_width(format, out, err);
    if (format[0] == 'd' && format[1] == ':')
        return from_decimal(format, out, err);
    if (format[0] == 't')
        return from_time(format, out, err);
    return hr_error_set(err, HR_UNSUPPORTED, "format '%s' is not supported", format);
}

/* --------------------------------------------------------------------------------------------------- half precision */

uint16_t hr__half_of(double v)
{
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double a = fabs(v), scaled;
    int exponent = 0;

    if (isnan(v))
        return sign | 0x7E00;
    if (a >= 65520.0)
        return sign | 0x7C00;
    if (a < 0x1p-14)
        return (uint16_t)(sign + (uint16_t)nearbyint(a * 0x1p24)); /* subnormal, or just not */
    scaled = frexp(a, &exponent);                                  /* in [0.5, 1) */
    return (uint16_t)(sign + ((exponent + 13) << 10) + (int)nearbyint(scaled * 2048.0));
}

double hr__half_value(uint16_t h)
{
    double sign = h & 0x8000 ? -1.0 : 1.0;
    int exponent = (h >> 10) & 31, fraction = h & 0x3FF;

    if (exponent == 31)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    return sign * ldexp(fraction + 1024, exponent - 25);
}
