/* csv_options.c - the options of the CSV reader, and the parser of options that are lists or types.
 *
 * Tests: test_csv.c, test_csv.py. */
#include "format/csv/csv.h"

#include <stdlib.h>
#include <strings.h>

#define NULLS                                                                                                          \
    ",#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,N/A,NA,NULL,NaN,n/a,nan,null" /* pyarrow's */

#define OPTION(kind_, field, ...) { .name = #field, .kind = kind_, .at = offsetof(csv_options, field), __VA_ARGS__ }

const hr_option hr__csv_options[] = {
    OPTION(HR_OPT_CHAR, delimiter, .value = ',', .doc = "byte between fields"),
    OPTION(HR_OPT_CHAR, quote, .value = '"', .doc = "byte around fields that hold delimiters or newlines; empty: none"),
    OPTION(HR_OPT_BOOL, double_quote, .value = 1, .doc = "inside quotes, two quotes in a row are one"),
    OPTION(HR_OPT_CHAR, escape, .value = 0,
           .doc = "byte that takes the special meaning from the byte after it; empty: none"),
    OPTION(HR_OPT_CHAR, comment, .value = 0, .doc = "skip lines that begin with this byte; empty: none"),
    OPTION(
        HR_OPT_CHOICE, header, .text = "auto first none",
        .doc =
            "where the names of columns are: the first row (auto: unless `names` is given), or nowhere: f0, f1, ..."),
    OPTION(HR_OPT_TEXT, names, .doc = "names of the columns, separated by commas"),
    OPTION(HR_OPT_INT, skip_rows, .max = 1e15, .doc = "lines to skip before the names"),
    OPTION(HR_OPT_INT, skip_rows_after_names, .max = 1e15, .doc = "rows to skip after the names"),
    OPTION(HR_OPT_BOOL, ignore_empty_lines, .value = 1,
           .doc = "skip empty lines; false: an empty line is a row of nulls"),
    OPTION(HR_OPT_CHOICE, ragged, .text = "error pad truncate fit skip",
           .doc = "rows with another number of fields: an error; fill short rows with nulls; cut long rows; both; "
                  "or skip the row"),
    OPTION(HR_OPT_TEXT, null_values, .text = NULLS, .doc = "texts that mean null, separated by commas"),
    OPTION(HR_OPT_BOOL, strings_can_be_null, .value = 0, .doc = "null_values mean null in string columns, too"),
    OPTION(HR_OPT_BOOL, quoted_strings_can_be_null, .value = 1, .doc = "null_values mean null inside quotes, too"),
    OPTION(HR_OPT_TEXT, true_values, .text = "1,True,TRUE,true", .doc = "texts that mean true, separated by commas"),
    OPTION(HR_OPT_TEXT, false_values, .text = "0,False,FALSE,false",
           .doc = "texts that mean false, separated by commas"),
    OPTION(HR_OPT_CHAR, decimal_point, .value = '.', .doc = "byte before the fraction of a number"),
    OPTION(HR_OPT_TEXT, dtypes, .doc = "types of columns, \"name:type\" separated by commas; others are inferred"),
    OPTION(HR_OPT_TEXT, default_type, .doc = "type of columns that dtypes does not name; empty: inferred"),
    OPTION(HR_OPT_BYTES, infer_bytes, .value = 4 << 20, .min = 1, .max = 1 << 30,
           .doc = "bytes at the beginning of the file from which types are inferred"),
    OPTION(HR_OPT_TEXT, encoding, .text = "utf-8", .doc = "encoding of the text: any name that iconv knows"),
    OPTION(HR_OPT_CHOICE, encoding_errors, .text = "strict replace ignore",
           .doc = "bytes that are invalid in the encoding: an error; write U+FFFD instead; or skip them"),
    OPTION(HR_OPT_BYTES, max_line_bytes, .value = 256 << 20, .min = 1, .max = 1 << 30, .doc = "maximum bytes of a row"),
    OPTION(HR_OPT_BYTES, fragment_bytes, .value = 4 << 20, .min = 1, .max = 1 << 30,
           .doc =
               "bytes of a fragment; fragments are read in parallel, and the coordinates of rows depend on their size"),
    { 0 },
};

/* ------------------------------------------------------------------------------------------------------------ lists */

void hr__csv_list_clear(csv_list *l)
{
    hr__free(l->items);
    *l = (csv_list){ 0 };
}

/* Copies the next item to `out`; -> the place after its separator; NULL: it is the last item. */
static const char *next_item(const char *text, char separator, char *out)
{
    for (; *text && *text != separator; text++) {
        if (*text == '\\' && text[1])
            text++;
        *out++ = *text;
    }
    *out = 0;
    return *text ? text + 1 : NULL;
}

hr_status hr__csv_list(const char *text, char separator, csv_list *out, hr_error *err)
{
    size_t bytes = strlen(text) + 1, n = 1;
    char *at;

    for (const char *p = text; *p; p++)
        n += *p == separator;
    *out = (csv_list){ 0 };
    out->items = hr__alloc(NULL, n * sizeof *out->items + bytes);
    if (!out->items)
        return hr__error_memory(err, "csv", (int64_t)(n * sizeof *out->items + bytes));
    at = (char *)(out->items + n);
    while (text) {
        text = next_item(text, separator, at);
        out->items[out->n++] = at;
        at += strlen(at) + 1;
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ types */

static const struct {
    const char *name;
    hr_type_id id;
} simple_types[] = {
    { "null", HR_T_NULL },      { "bool", HR_T_BOOL },
    { "boolean", HR_T_BOOL },   { "int8", HR_T_INT8 },
    { "uint8", HR_T_UINT8 },    { "int16", HR_T_INT16 },
    { "uint16", HR_T_UINT16 },  { "int32", HR_T_INT32 },
    { "uint32", HR_T_UINT32 },  { "int64", HR_T_INT64 },
    { "uint64", HR_T_UINT64 },  { "int", HR_T_INT64 },
    { "float", HR_T_FLOAT32 },  { "float32", HR_T_FLOAT32 },
    { "double", HR_T_FLOAT64 }, { "float64", HR_T_FLOAT64 },
    { "string", HR_T_STRING },  { "str", HR_T_STRING },
    { "utf8", HR_T_STRING },    { "large_string", HR_T_LARGE_STRING },
    { "binary", HR_T_BINARY },  { "large_binary", HR_T_LARGE_BINARY },
    { "date32", HR_T_DATE32 },  { "date32[day]", HR_T_DATE32 },
    { "date64", HR_T_DATE64 },  { "date64[ms]", HR_T_DATE64 },
};

static int unit_of(const char *text, size_t n)
{
    static const char *const names[] = { "s", "ms", "us", "ns" };

    for (int i = 0; i < 4; i++) {
        if (strlen(names[i]) == n && memcmp(names[i], text, n) == 0)
            return i;
    }
    return -1;
}

/* "timestamp[us]", "timestamp[us, tz=UTC]", "time32[s]", "time64[us]"; *out stays NULL for anything else. */
static hr_status unit_type(const char *text, hr_type **out, hr_error *err)
{
    static const struct {
        const char *name;
        hr_type_id id;
        int least, most;
    } kinds[] = { { "timestamp[", HR_T_TIMESTAMP, 0, 3 },
                  { "time32[", HR_T_TIME32, 0, 1 },
                  { "time64[", HR_T_TIME64, 2, 3 } };
    char zone[64];

    for (int i = 0; i < HR_LEN(kinds); i++) {
        size_t n = strlen(kinds[i].name), length;
        const char *rest = text + n;
        int unit;

        if (strncmp(text, kinds[i].name, n) != 0)
            continue;
        length = strcspn(rest, ",]");
        unit = unit_of(rest, length);
        rest += length;
        zone[0] = 0;
        if (kinds[i].id == HR_T_TIMESTAMP && *rest == ',') {
            rest++;
            rest += strspn(rest, " ");
            rest += strncmp(rest, "tz=", 3) ? 0 : 3;
            length = strcspn(rest, "]");
            if (length == 0 || length >= sizeof zone)
                return HR_OK;
            memcpy(zone, rest, length);
            zone[length] = 0;
            rest += length;
        }
        if (unit < kinds[i].least || unit > kinds[i].most || strcmp(rest, "]") != 0)
            return HR_OK;
        return hr__type_unit(kinds[i].id, (hr_unit)unit, zone[0] ? zone : NULL, out, err);
    }
    return HR_OK;
}

hr_status hr__csv_type(const char *text, hr_type **out, hr_error *err)
{
    *out = NULL;
    for (int i = 0; i < HR_LEN(simple_types); i++) {
        if (strcasecmp(text, simple_types[i].name) == 0) {
            *out = hr__type_simple(simple_types[i].id);
            return HR_OK;
        }
    }
    HR_TRY(unit_type(text, out, err));
    if (!*out)
        return hr_error_set(
            err, HR_INVALID,
            "csv: no type '%.100s'; there are bool, int8 ... int64, uint8 ... uint64, float, double, string, "
            "binary, date32, date64, time32[s|ms], time64[us|ns], timestamp[s|ms|us|ns], timestamp[us, tz=UTC]",
            text);
    return HR_OK;
}
