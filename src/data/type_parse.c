/* type_parse.c - a type from its text: the text of hr__type_print, and the names of other libraries.
 *
 *     int64  uint8  float  float32  double  str  bool  binary  date32[day]  timestamp[us, tz=UTC]  duration[ms]
 *     time64[ns]
 *     decimal128(10, 2)  fixed_size_binary[16]  list<int64>  list<item: int64>  fixed_size_list<float>[3]  ...
 *
 * Blanks between words do not count. The parser does not read struct and map types: users do not write them by hand.
 *
 * Tests: test_eval.c, test_remembered_columns.c. */
#include "data/data.h"

#include <ctype.h>
#include <stdlib.h>

typedef struct parser {
    const char *text, *at;
    int depth;
} parser;

static const struct {
    const char *name;
    hr_type_id id;
} names[] = {
    { "null", HR_T_NULL },
    { "bool", HR_T_BOOL },
    { "boolean", HR_T_BOOL },
    { "int8", HR_T_INT8 },
    { "uint8", HR_T_UINT8 },
    { "int16", HR_T_INT16 },
    { "uint16", HR_T_UINT16 },
    { "int32", HR_T_INT32 },
    { "uint32", HR_T_UINT32 },
    { "int64", HR_T_INT64 },
    { "uint64", HR_T_UINT64 },
    { "int", HR_T_INT64 },
    { "halffloat", HR_T_FLOAT16 },
    { "float16", HR_T_FLOAT16 },
    { "float", HR_T_FLOAT32 },
    { "float32", HR_T_FLOAT32 },
    { "double", HR_T_FLOAT64 },
    { "float64", HR_T_FLOAT64 },
    { "string", HR_T_STRING },
    { "str", HR_T_STRING },
    { "utf8", HR_T_STRING },
    { "large_string", HR_T_LARGE_STRING },
    { "binary", HR_T_BINARY },
    { "bytes", HR_T_BINARY },
    { "large_binary", HR_T_LARGE_BINARY },
    { "date32", HR_T_DATE32 },
    { "date", HR_T_DATE32 },
    { "date64", HR_T_DATE64 },
    { "timestamp", HR_T_TIMESTAMP },
    { "time32", HR_T_TIME32 },
    { "time64", HR_T_TIME64 },
    { "duration", HR_T_DURATION },
    { "decimal128", HR_T_DECIMAL128 },
    { "decimal256", HR_T_DECIMAL256 },
    { "fixed_size_binary", HR_T_FIXED_BINARY },
    { "month_interval", HR_T_MONTHS },
    { "day_time_interval", HR_T_DAY_TIME },
    { "month_day_nano_interval", HR_T_MONTH_DAY_NANO },
    { "list", HR_T_LIST },
    { "large_list", HR_T_LARGE_LIST },
    { "fixed_size_list", HR_T_FIXED_LIST },
};

static hr_status unknown(const parser *p, hr_error *err)
{
    return hr_error_set(err, HR_INVALID, "type '%.100s': expected a name such as int64, float32, string, timestamp[us]",
                        p->text);
}

static void skip_blanks(parser *p)
{
    while (*p->at == ' ')
        p->at++;
}

static bool take(parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static bool take_word(parser *p, char *word, size_t cap)
{
    size_t n = 0;

    skip_blanks(p);
    while (isalnum((unsigned char)*p->at) || *p->at == '_') {
        if (n + 1 >= cap)
            return false;
        word[n++] = *p->at++;
    }
    word[n] = 0;
    return n > 0;
}

static bool take_number(parser *p, int32_t *out)
{
    char *end = NULL;
    long v;

    skip_blanks(p);
    v = strtol(p->at, &end, 10);
    if (end == p->at || v < -1000 || v > INT32_MAX)
        return false;
    p->at = end;
    *out = (int32_t)v;
    return true;
}

/* "[us]", "[us, tz=Europe/Berlin]" */
static hr_status parse_unit(parser *p, hr_type_id id, hr_type **out, hr_error *err)
{
    static const char *const units[] = { "s", "ms", "us", "ns" };
    char word[8], *zone = NULL;
    hr_unit unit = id == HR_T_TIME64 ? HR_NANO : id == HR_T_TIME32 ? HR_MILLI : HR_MICRO;
    hr_status st = HR_OK;

    if (take(p, '[')) {
        int k = 0;

        if (!take_word(p, word, sizeof word))
            return unknown(p, err);
        while (k < 4 && strcmp(units[k], word) != 0)
            k++;
        if (k == 4)
            return unknown(p, err);
        unit = (hr_unit)k;
        if (take(p, ',')) {
            size_t n;

            skip_blanks(p);
            if (strncmp(p->at, "tz=", 3) != 0 || id != HR_T_TIMESTAMP)
                return unknown(p, err);
            p->at += 3;
            n = strcspn(p->at, "]");
            if (!(zone = hr__strndup(NULL, p->at, n)))
                return hr__error_memory(err, "type", (int64_t)n);
            p->at += n;
        }
        if (!take(p, ']'))
            st = unknown(p, err);
    }
    if (!st)
        st = hr__type_unit(id, unit, zone, out, err);
    hr__free(zone);
    return st;
}

static hr_status parse_decimal(parser *p, hr_type_id id, hr_type **out, hr_error *err)
{
    int32_t precision, scale = 0;

    if (!take(p, '(') || !take_number(p, &precision) || (take(p, ',') && !take_number(p, &scale)) || !take(p, ')'))
        return unknown(p, err);
    return hr__type_decimal(id, precision, scale, out, err);
}

static hr_status parse(parser *p, hr_type **out, hr_error *err);

/* "<int64>", "<item: int64>", and for fixed lists "[3]" */
static hr_status parse_list(parser *p, hr_type_id id, hr_type **out, hr_error *err)
{
    char name[64] = "item";
    const char *before;
    hr_field item = { 0 };
    hr_type *inner = NULL;
    int32_t width = 0;
    hr_status st = HR_OK;

    if (!take(p, '<') || ++p->depth > HR_MAX_DEPTH)
        return unknown(p, err);
    before = p->at;
    if (!take_word(p, name, sizeof name) || !take(p, ':')) {
        strcpy(name, "item");
        p->at = before;
    }
    HR_GO(parse(p, &inner, err));
    if (!take(p, '>') || (id == HR_T_FIXED_LIST && (!take(p, '[') || !take_number(p, &width) || !take(p, ']'))))
        HR_GO(unknown(p, err));
    HR_GO(hr__field_init(&item, name, inner, true, err));
    HR_GO(hr__type_list(id, &item, width, out, err));
done:
    hr__field_clear(&item);
    hr__type_unref(inner);
    return st;
}

static hr_status parse_named(parser *p, hr_type_id id, hr_type **out, hr_error *err)
{
    int32_t width;

    switch (id) {
    case HR_T_TIMESTAMP:
    case HR_T_TIME32:
    case HR_T_TIME64:
    case HR_T_DURATION: return parse_unit(p, id, out, err);
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: return parse_decimal(p, id, out, err);
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST: return parse_list(p, id, out, err);
    case HR_T_FIXED_BINARY:
        if (!take(p, '[') || !take_number(p, &width) || !take(p, ']'))
            return unknown(p, err);
        return hr__type_fixed_binary(width, out, err);
    case HR_T_DATE32:
    case HR_T_DATE64: /* pyarrow prints "date32[day]" */
        if (take(p, '[') && (!take_word(p, (char[8]){ 0 }, 8) || !take(p, ']')))
            return unknown(p, err);
        break;
    default: break;
    }
    *out = hr__type_simple(id);
    return HR_OK;
}

static hr_status parse(parser *p, hr_type **out, hr_error *err)
{
    char word[32];

    if (take_word(p, word, sizeof word))
        for (int i = 0; i < HR_LEN(names); i++)
            if (!strcmp(names[i].name, word))
                return parse_named(p, names[i].id, out, err);
    return unknown(p, err);
}

hr_status hr__type_parse(const char *text, hr_type **out, hr_error *err)
{
    parser p = { text, text, 0 };

    *out = NULL;
    HR_TRY(parse(&p, out, err));
    skip_blanks(&p);
    if (!*p.at)
        return HR_OK;
    hr__type_unref(*out);
    *out = NULL;
    return unknown(&p, err);
}
