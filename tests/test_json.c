/* test_json.c - JSON: the index by all kernels, layouts, guessed types, errors and their places, borders of fragments
 * and blocks at every place, typed columns, rows left out. */
#include "arrays.h"
#include "format/json/json.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_SETTINGS 4

typedef struct reading {
    const char *settings[MAX_SETTINGS];
    hr_schema *schema;            /* NULL: guess */
    const hr_projection *columns; /* NULL: all */
    int64_t max_bytes;            /* 0: 1 MiB */
    int64_t row, n_rows;          /* of each fragment; n_rows 0: all */
} reading;

static void print_schema(const hr_schema *s, hr_text *out)
{
    for (int i = 0; i < s->n; i++) {
        hr__text_add(out, "%s%s:", i ? " " : "", s->fields[i].name);
        hr__type_print(s->fields[i].type, out);
    }
    hr__text_add(out, "; ");
}

static hr_status read_fragment(hr_scan_file *f, int fragment, const reading *how, hr_text *out, hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;
    int64_t row = how->row;

    HR_GO(f->cls->read(f, fragment, how->row, how->n_rows ? how->n_rows : -1, &mem, &r, err));
    for (;;) {
        HR_GO(hr__reader_next(r, how->max_bytes ? how->max_bytes : 1 << 20, &t, err));
        if (!t)
            break;
        HR_GO(hr__table_check(t, true, err));
        assert_true(t->n_rows > 0);
        assert_int_equal(hr__origin_at(t->origin, 0).row, row);
        assert_int_equal(hr__origin_at(t->origin, 0).fragment, fragment);
        row += t->n_rows;
        for (int64_t i = 0; out && i < t->n_rows; i++, hr__text_add(out, "|")) {
            for (int k = 0; k < t->schema->n; k++) {
                hr__text_add(out, k ? " " : "");
                hr__array_print_value(t->columns[k], i, out);
            }
        }
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr_table_unref(t);
    hr__reader_close(r);
    return st;
}

/* Schema and rows of a file as text. */
static hr_status read_json(const char *name, const void *data, int64_t n, const reading *how, hr_text *out,
                           hr_error *err)
{
    hr_json_options options;
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_status st = HR_OK;
    int n_settings = 0;

    while (n_settings < MAX_SETTINGS && how->settings[n_settings])
        n_settings++;
    assert_int_equal(hr__format_json.options_bytes, sizeof options);
    hr__options_default(hr__format_json.options, &options);
    HR_GO(hr__options_parse(hr__format_json.options, how->settings, n_settings, &options, err));
    HR_GO(hr__source_new_memory(name, data, n, NULL, &source, err));
    HR_GO(hr__format_json.open(
        source, &(hr_open){ .options = &options, .schema = how->schema, .projection = how->columns }, &f, err));
    if (out)
        print_schema(f->schema, out);
    for (int i = 0; i < f->n_fragments; i++)
        HR_GO(read_fragment(f, i, how, out, err));
done:
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

#define BYTES(s) s, (int)sizeof(s) - 1

typedef struct sample {
    const char *data;
    int n;
    const char *want; /* schema and rows; or a part of the error's text, which begins with "!" */
    const char *settings[MAX_SETTINGS];
} sample;

static void check_sample(const sample *s)
{
    hr_error err = HR_ERROR_INIT;
    hr_text got = { 0 };
    reading how = { 0 };
    hr_status st;

    memcpy(how.settings, s->settings, sizeof how.settings);
    st = read_json("a.json", s->data, s->n, &how, &got, &err);
    if (s->want[0] == '!') {
        assert_int_not_equal(st, HR_OK);
        assert_contains(err.text, "a.json");
        assert_contains(err.text, s->want + 1);
    } else {
        assert_ok(st, &err);
        assert_string_equal(got.data ? got.data : "", s->want);
    }
    hr__text_clear(&got);
    hr_error_clear(&err);
}

#define SKIP { "on_error=skip" }

static const sample samples[] = {
    /* layouts */
    { BYTES(""), "; ", { 0 } },
    { BYTES("\n \r\n\n"), "; ", { 0 } },
    { BYTES("\xef\xbb\xbf"), "; ", { 0 } },
    { BYTES("\xef\xbb\xbf{\"a\":1}"), "a:int64; 1|", { 0 } },
    { BYTES("{}"), "; |", { 0 } },
    { BYTES("{}\n{}\n"), "; ||", { 0 } },
    { BYTES("{\"a\":1}\r\n\r\n{\"a\":2}\r\n"), "a:int64; 1|2|", { 0 } },
    { BYTES("{\"a\":1}{\"a\":2} {\"a\":3}\n"), "a:int64; 1|2|3|", { 0 } },
    { BYTES("{\"a\":1,\n\"b\":[1,\n2]}\n{\"b\":[]}"), "a:int64 b:list<item: int64>; 1 [1, 2]|null []|", { 0 } },
    { BYTES(" [ {\"a\":1} ,\n{\"a\":2}]\n"), "a:int64; 1|2|", { 0 } },
    { BYTES("[]"), "; ", { 0 } },
    { BYTES("[{}]"), "; |", { 0 } },
    { BYTES("[{\"a\":1}]"), "!line 1, column 1: expected an object (a row), found an array", { "layout=lines" } },
    { BYTES("{\"a\":1}"), "!line 1, column 1: expected '['", { "layout=array" } },
    /* types */
    { BYTES("{\"a\":null}\n{\"a\":true}\n{\"a\":false}"), "a:bool; null|true|false|", { 0 } },
    { BYTES("{\"a\":null}"), "a:null; null|", { 0 } },
    { BYTES("{\"a\":1}\n{\"a\":2.5}\n{\"a\":-1e2}"), "a:double; 1.0|2.5|-100.0|", { 0 } },
    { BYTES("{\"a\":-9223372036854775808}\n{\"a\":9223372036854775807}"),
      "a:int64; -9223372036854775808|9223372036854775807|",
      { 0 } },
    { BYTES("{\"a\":9223372036854775808}\n{\"a\":18446744073709551615}\n{\"a\":0}"),
      "a:uint64; 9223372036854775808|18446744073709551615|0|",
      { 0 } },
    { BYTES("{\"a\":1}\n{\"a\":18446744073709551616}"),
      "!line 2, column 6: column 'a': an integer that fits neither int64 nor uint64",
      { 0 } },
    { BYTES("{\"a\":-1}\n{\"a\":9223372036854775808}"),
      "!line 2, column 6: column 'a': an integer that fits uint64 only, and others are negative",
      { 0 } },
    { BYTES("{\"a\":-1}\n{\"a\":9223372036854775808}"),
      "a:double; -1.0|9.223372036854776e+18|",
      { "big_integers=double" } },
    { BYTES("{\"a\":-1}\n{\"a\":123456789012345678901234567890}"),
      "a:string; -1|123456789012345678901234567890|",
      { "big_integers=string" } },
    { BYTES("{\"a\":[[1],[],null,[2.5]]}"), "a:list<item: list<item: double>>; [[1.0], [], null, [2.5]]|", { 0 } },
    { BYTES("{\"a\":{\"b\":[{\"c\":1}]}}\n{\"a\":{\"b\":[{\"d\":\"x\"},null]}}\n{\"a\":null}\n{}"),
      "a:struct<b: list<item: struct<c: int64, d: string>>>; {b: [{c: 1, d: null}]}|{b: [{c: null, d: \"x\"}, "
      "null]}|null|null|",
      { 0 } },
    { BYTES("{\"b\":1,\"a\":2}\n{\"a\":3,\"b\":4}\n{\"c\":5}"),
      "b:int64 a:int64 c:int64; 1 2 null|4 3 null|null null 5|",
      { 0 } },
    { BYTES("{\"a\":1}\n{\"a\":\"x\"}"),
      "!line 2, column 6: column 'a': found a string, but line 1, column 6 has a number",
      { 0 } },
    { BYTES("{\"a\":{\"b\":[1]}}\n{\"a\":{\"b\":[{}]}}"),
      "!line 2, column 12: column 'a.b[]': found an object, but line 1, column 12 has a number",
      { 0 } },
    { BYTES("{\"a\":1}\n{\"a\":\"x\"}"),
      "!line 2, column 6: column 'a': expected int64, found a string",
      { "sample_bytes=1" } },
    { BYTES("{\"a\":1}\n{\"a\":1.0}"),
      "!line 2, column 6: column 'a': expected int64, found 1.0",
      { "sample_bytes=1" } },
    { BYTES("{\"a\":[[1]]}\n{\"a\":[[1, null, true]]}"),
      "!line 2, column 17: column 'a[][]': expected int64, found true",
      { "sample_bytes=1" } },
    { BYTES("{\"a\":1}\n{\"b\":1,\"a\":2}"), "!line 2, column 2: key 'b' is not in the schema", { "sample_bytes=1" } },
    { BYTES("{\"a\":1}\n{\"b\":[{\"x\":[\"]\"]}],\"a\":2}"),
      "a:int64; 1|2|",
      { "sample_bytes=1", "unexpected=ignore" } },
    { BYTES("{\"a\":1}\n{\"b\":[1}],\"a\":2}"),
      "!line 2, column 8: expected a value or its end, found '}'",
      { "sample_bytes=1", "unexpected=ignore" } },
    { BYTES("{\"a\":{}}\n{\"a\":{\"b\":1}}"), /* found by fuzzing: the look-up had no table */
      "!line 2, column 7: column 'a': key 'b' is not in the schema",
      { "sample_bytes=1" } },
    /* strings */
    { BYTES("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20ac\\ud83d\\ude39\"}"),
      "a:string; \"\\/\\x08\\x0c\\n\\r\\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\xb9|",
      { 0 } },
    { BYTES("{\"a\\u0062\\n\":1}\n{\"ab\\n\":2}\n{\"ab\\u000a\":3}"), "ab\n:int64; 1|2|3|", { 0 } },
    { BYTES("{\"a\":\"a string of more than sixteen bytes\"}"),
      "a:string; a string of more than sixteen bytes|",
      { 0 } },
    { BYTES("{\"a\":\"\\ud83d\"}"), "!line 1, column 7: column 'a': an invalid escape", { 0 } },
    { BYTES("{\"a\":\"\\ude39\\ud83d\"}"), "!column 7: column 'a': an invalid escape", { 0 } },
    { BYTES("{\"a\":\"\\x\"}"), "!column 7: column 'a': an invalid escape", { 0 } },
    { BYTES("{\"\\ud83d\":1}"), "!column 3: an invalid escape in a key", { 0 } },
    { BYTES("{\"a\":\"b\tc\"}"), "!line 1, column 8: control character 0x09 in a string: expected \\u0009", { 0 } },
    { BYTES("{\"a\":1}\n{\"a\":\"b\n{\"a\":1}"), "!line 2, column 8: the line ends within a string", { 0 } },
    { BYTES("{\"a\":\"b\xff\"}"), "!line 1, column 8: 0xff is not UTF-8", { 0 } },
    { BYTES("{\"a\":1}\n{\"\xed\xa0\x80\":1}"), "!line 2, column 3: 0xed is not UTF-8", { 0 } },
    { BYTES("\xff\xfe{\0\"\0"), "!line 1, column 1: 0xff is not UTF-8", { 0 } },
    /* invalid JSON */
    { BYTES("{\"a\":01}"), "!line 1, column 6: expected a value", { 0 } },
    { BYTES("{\"a\":1.}"), "!a.json: line 1", { 0 } },
    { BYTES("{\"a\":.5}"), "!a.json: line 1", { 0 } },
    { BYTES("{\"a\":1e}"), "!a.json: line 1", { 0 } },
    { BYTES("{\"a\":-}"), "!a.json: line 1", { 0 } },
    { BYTES("{\"a\":+1}"), "!a.json: line 1", { 0 } },
    { BYTES("{\"a\":1 2}"), "!column 8: expected ',' or '}' in an object, found a number", { 0 } },
    { BYTES("{\"a\":nul}"), "!column 6: expected a value", { 0 } },
    { BYTES("{\"a\":truefalse}"), "!column 6: expected a value", { 0 } },
    { BYTES("{\"a\":1,}"), "!column 8: expected a key in quotes, found '}'", { 0 } },
    { BYTES("{\"a\":[1,]}"), "!column 9", { 0 } },
    { BYTES("{\"a\" 1}"), "!column 6: expected ':' after a key, found a number", { 0 } },
    { BYTES("{a:1}"), "!column 2: expected a key in quotes", { 0 } },
    { BYTES("{\"a\":1"), "!line 1, column 7: expected ',' or '}' in an object, found the end of the line", { 0 } },
    { BYTES("{\"a\":1}]"), "!column 8: expected an object (a row), found ']'", { 0 } },
    { BYTES("{\"a\":1},{\"a\":2}"), "!column 8: expected an object", { 0 } },
    { BYTES("[{\"a\":1},]"), "!column 10: expected an object", { 0 } },
    { BYTES("[{\"a\":1}"), "!the file ends within the array of rows", { 0 } },
    { BYTES("[{\"a\":1}]x"), "!column 10: expected the end of the file after the array", { 0 } },
    { BYTES("[{\"a\":1} {\"a\":1}]"), "!column 10: expected ',' or ']' after an element, found an object", { 0 } },
    { BYTES("{\"a\":\n{\"b\":1}"), "!a.json: line", { 0 } },
    { BYTES("{\n\"a\":\"x"), "!a.json: line 2", { 0 } },
    { BYTES("{\"a\":1,\"a\":1}"), "!line 1, column 8: key 'a' occurs twice in an object", { 0 } },
    { BYTES("{\"a\":{\"b\":1,\"c\":2,\"b\":1}}"),
      "!line 1, column 19: column 'a': key 'b' occurs twice in an object",
      { 0 } },
    { BYTES("7\n"), "!line 1, column 1: expected an object (a row), found a number", { 0 } },
    { BYTES("{\"a\\u0000b\":1}"), "!a key with a NUL in it", { 0 } },
    { BYTES("{\"a\":\"b\\u0000c\"}"), "a:string; b\\x00c|", { 0 } },
    { BYTES("{\"a\":1e999}"), "!line 1, column 6: column 'a': a number beyond the range of a double", { 0 } },
    { BYTES("{\"a\":1e-999}"), "a:double; 0.0|", { 0 } },
    { BYTES("{\"a\":NaN}"), "!line 1, column 6", { 0 } },
    { BYTES("{\"a\":NaN}\n{\"a\":-Infinity}\n{\"a\":Infinity}\n{\"a\":1}"),
      "a:double; nan|-inf|inf|1.0|",
      { "allow_nan=true" } },
    { BYTES("{\"a\":0.1}\n{\"a\":123456789012345678}\n{\"a\":2.2250738585072011e-308}\n{\"a\":9007199254740993}"),
      "a:double; 0.1|1.2345678901234568e+17|2.225073858507201e-308|9007199254740992.0|",
      { 0 } },
    /* times: all of the column's strings are some, all with a zone or all without */
    { BYTES("{\"a\":\"2026-11-21\"}\n{\"a\":null}\n{\"a\":\"2026-11-21T10:00:01\"}\n{\"a\":\"2026-11-21 10:00\"}"),
      "a:timestamp[s]; 2026-11-21T00:00:00|null|2026-11-21T10:00:01|2026-11-21T10:00:00|",
      { 0 } },
    { BYTES("{\"a\":\"2026-11-21T10:00:00Z\"}\n{\"a\":\"2026-11-21T10:00:00+0230\"}"),
      "a:timestamp[s, tz=UTC]; 2026-11-21T10:00:00Z|2026-11-21T07:30:00Z|",
      { 0 } },
    { BYTES("{\"a\":\"2026-11-21T10:00:00Z\"}\n{\"a\":\"2026-11-21T10:00:00\"}"),
      "a:string; 2026-11-21T10:00:00Z|2026-11-21T10:00:00|",
      { 0 } },
    { BYTES("{\"a\":\"2026-11-21\"}\n{\"a\":\"2026-11-21T10:00:00.5\"}"),
      "a:string; 2026-11-21|2026-11-21T10:00:00.5|",
      { 0 } },
    { BYTES("{\"a\":\"2026-11-21\",\"b\":\"10:00\"}\n{\"a\":\"\",\"b\":\"2026-02-30\"}"),
      "a:string b:string; 2026-11-21 10:00| 2026-02-30|",
      { 0 } },
    { BYTES("{\"a\":\"2026-11-21\"}"), "a:string; 2026-11-21|", { "times=false" } },
    { BYTES("{\"a\":[\"2026-11-21\"],\"b\":{\"c\":\"2026-11-21\"}}"),
      "a:list<item: timestamp[s]> b:struct<c: timestamp[s]>; [2026-11-21T00:00:00] {c: 2026-11-21T00:00:00}|",
      { 0 } },
    { BYTES("{\"a\":\"2026-11-21\"}\n{\"a\":\"soon\"}"),
      "!line 2, column 6: column 'a': expected timestamp[s] as ISO 8601, found 'soon'; times=False reads them as "
      "strings",
      { "sample_bytes=1" } },
    { BYTES("{\"a\":\"2026-11-21\"}\n{\"a\":\"2026-11-21T10:00:00.5\"}"),
      "!line 2, column 6: column 'a': expected timestamp[s] as ISO 8601, found '2026-11-21T10:00:00.5'; times=False",
      { "sample_bytes=1" } },
    { BYTES("{\"a\":\"2026-11-21\"}\n{\"a\":\"2026-11-21T10:00:00Z\"}"),
      "!line 2, column 6: column 'a': expected timestamp[s] as ISO 8601 without a zone, found",
      { "sample_bytes=1" } },
    { BYTES("{\"a\":\"2026-11-21T10:00Z\"}\n{\"a\":\"2026-11-21T10:00:00\"}"),
      "!line 2, column 6: column 'a': expected timestamp[s, tz=UTC] as ISO 8601 with a zone, found",
      { "sample_bytes=1" } },
    { BYTES("{\"a\":\"2026-11-21\"}\n{\"a\":5}"),
      "!line 2, column 6: column 'a': expected timestamp[s], found 5; schema= or a larger sample_bytes=",
      { "sample_bytes=1" } },
    /* rows that are left out */
    { BYTES("{\"a\":1}\nxx\n{\"a\":2}\n{\"a\":\n{\"a\":3"), "a:int64; 1|2|", SKIP },
    { BYTES("{\"a\":1}\n{\"a\":2,\"b\":[\"y\",{\"c\":1}]}\n{\"a\":3.5}\n"),
      "a:int64; 1|2|",
      { "on_error=skip", "unexpected=ignore", "sample_bytes=1" } },
    { BYTES("{\"a\":1,\"b\":[1,2]}\n{\"a\":5,\"b\":[3,\"x\"]}\n{\"a\":2}\n{\"b\":[4],\"a\":\"x\"}\n{\"b\":[5]}"),
      "a:int64 b:list<item: int64>; 1 [1, 2]|2 null|null [5]|", SKIP },
    { BYTES("{\"a\":\"x\"}\n{\"a\":\"y\n{\"a\":\"z\xff\"}\n{\"a\":\"u\"}\n"), "a:string; x|u|", SKIP },
    { BYTES("[{\"a\":1},7,{\"a\":true},{\"a\":2}]"), "a:int64; 1|2|", SKIP },
};

static void test_samples(void **state)
{
    live_memory before = live_now();
    int64_t block = hr__json_block_bytes;

    (void)state;
    for (int i = 0; i < HR_LEN(samples); i++)
        check_sample(&samples[i]);
    hr__json_block_bytes = 1;
    for (int i = 0; i < HR_LEN(samples); i++)
        check_sample(&samples[i]);
    hr__json_block_bytes = block;
    assert_no_leak(before);
}

/* Deep nesting is refused, neither by the stack's end nor late. */
static void test_depth(void **state)
{
    static const char *const settings[] = { NULL, "unexpected=ignore" };
    int64_t n = 1 << 20;
    char *data = malloc((size_t)n + 64);

    (void)state;
    for (int k = 0; k < 4; k++) {
        hr_error err = HR_ERROR_INIT;
        reading how = { .settings = { settings[k & 1], k & 1 ? "sample_bytes=1" : NULL } };
        int at = sprintf(data, "{\"b\":1}\n{\"a\":");

        memset(data + at, k < 2 ? '[' : '{', (size_t)n);
        if (k >= 2)
            for (int64_t i = 0; i + 5 < n; i += 5)
                memcpy(data + at + i, "{\"a\":", 5);
        assert_int_not_equal(read_json("a.json", data, at + n, &how, NULL, &err), HR_OK);
        assert_contains(err.text, "nested deeper than");
        hr_error_clear(&err);
    }
    free(data);
}

/* ---------------------------------------------------------------------------------------------------------- borders */

static const char lines[] = "{\"a\": 1, \"b\": \"x\\\"y\"}\r\n\n{\"a\": 22, \"b\": \"\xc3\xa4{\\\\\"}\n"
                            "{\"b\": \"\", \"a\": 333}\n \r\n{\"a\": null}{\"a\":4}\n{\"a\":5,\"b\":\"[\\\\\\\"\"}";

/* Every size of fragments and of blocks gives the same rows. */
static void test_borders(void **state)
{
    int64_t block = hr__json_block_bytes, fragment = hr__json_fragment_bytes;
    const char *want = "a:int64 b:string; 1 x\"y|22 \xc3\xa4{\\|333 |null null|4 null|5 [\\\"|";

    (void)state;
    for (int64_t i = 1; i < (int64_t)sizeof lines + 2; i++) {
        for (int k = 0; k < 3; k++) {
            hr_error err = HR_ERROR_INIT;
            hr_text got = { 0 };

            hr__json_fragment_bytes = i;
            hr__json_block_bytes = k == 0 ? 1 : k == 1 ? 7 : 64;
            assert_ok(
                read_json("a.json", lines, sizeof lines - 1, &(reading){ .max_bytes = k ? 1 << 20 : 1 }, &got, &err),
                &err);
            assert_string_equal(got.data, want);
            hr__text_clear(&got);
        }
    }
    hr__json_fragment_bytes = fragment;
    for (int64_t i = 1; i < 100; i++) { /* an array */
        static const char array[] =
            "[{\"a\": [1, 2.5]}, {\"a\" : [ ], \"b\": {\"c\": \"],[\"}}\n,{\"b\":{\"c\":\"\xe2\x82\xac\"}}]\n";
        hr_error err = HR_ERROR_INIT;
        hr_text got = { 0 };

        hr__json_block_bytes = i;
        assert_ok(read_json("a.json", array, sizeof array - 1, &(reading){ 0 }, &got, &err), &err);
        assert_string_equal(
            got.data,
            "a:list<item: double> b:struct<c: string>; [1.0, 2.5] null|[] {c: \"],[\"}|null {c: \"\xe2\x82\xac\"}|");
        hr__text_clear(&got);
    }
    hr__json_block_bytes = block;
}

/* Rows of a part, as after a resume. */
static void test_rows(void **state)
{
    static const struct {
        int64_t row, n;
        const char *want;
    } parts[] = { { 0, 0, "1|2|3|4|" }, { 0, 2, "1|2|" }, { 2, 1, "3|" }, { 3, 9, "4|" }, { 4, 1, "" } };
    static const char data[] = "{\"a\":1}\n{\"a\":2}\n{\"a\":}\n{\"a\":3}\n{\"a\":4}";

    (void)state;
    for (int i = 0; i < HR_LEN(parts); i++) {
        for (int64_t max_bytes = 1; max_bytes < 1000000; max_bytes *= 100) {
            reading how = { .settings = SKIP, .row = parts[i].row, .n_rows = parts[i].n, .max_bytes = max_bytes };
            hr_error err = HR_ERROR_INIT;
            hr_text got = { 0 };

            assert_ok(read_json("a.json", data, sizeof data - 1, &how, &got, &err), &err);
            assert_string_equal(got.data + strlen("a:int64; "), parts[i].want);
            hr__text_clear(&got);
        }
    }
}

/* ---------------------------------------------------------------------------------------------------- typed columns */

static hr_schema *schema_of(const char *name, hr_type *type)
{
    hr_error err = HR_ERROR_INIT;
    hr_field field = { 0 };
    hr_schema *s = NULL;

    assert_ok(hr__field_init(&field, name, type, true, &err), &err);
    assert_ok(hr__schema_new(&field, 1, &s, &err), &err);
    hr__field_clear(&field);
    return s;
}

static void check_typed(hr_type *takes, const char *data, const char *want)
{
    hr_schema *s = schema_of("a", takes);
    hr_error err = HR_ERROR_INIT;
    hr_text got = { 0 };
    hr_status st = read_json("a.json", data, (int64_t)strlen(data), &(reading){ .schema = s }, &got, &err);

    if (want[0] == '!') {
        assert_int_not_equal(st, HR_OK);
        assert_contains(err.text, "a.json: line ");
        assert_contains(err.text, want + 1);
    } else {
        assert_ok(st, &err);
        assert_string_equal(strstr(got.data, "; ") + 2, want);
    }
    hr__text_clear(&got);
    hr_error_clear(&err);
    hr__schema_unref(s);
    hr__type_unref(takes);
}

static hr_type *unit_type(hr_type_id id, hr_unit unit, const char *zone)
{
    hr_type *t = NULL;

    assert_ok(hr__type_unit(id, unit, zone, &t, NULL), NULL);
    return t;
}

static hr_type *decimal_type(hr_type_id id, int precision, int scale)
{
    hr_type *t = NULL;

    assert_ok(hr__type_decimal(id, precision, scale, &t, NULL), NULL);
    return t;
}

static hr_type *list_type(hr_type_id id, hr_type *item, int width)
{
    hr_field f = { 0 };
    hr_type *t = NULL;

    assert_ok(hr__field_init(&f, "item", item, true, NULL), NULL);
    assert_ok(hr__type_list(id, &f, width, &t, NULL), NULL);
    hr__field_clear(&f);
    return t;
}

static hr_type *map_type(hr_type_id key)
{
    hr_field pair[2] = { 0 }, entries = { 0 };
    hr_type *s = NULL, *t = NULL;

    assert_ok(hr__field_init(&pair[0], "key", hr__type_simple(key), false, NULL), NULL);
    assert_ok(hr__field_init(&pair[1], "value", hr__type_simple(HR_T_INT64), true, NULL), NULL);
    assert_ok(hr__type_struct(pair, 2, &s, NULL), NULL);
    assert_ok(hr__field_init(&entries, "entries", s, false, NULL), NULL);
    assert_ok(hr__type_list(HR_T_MAP, &entries, 0, &t, NULL), NULL);
    hr__field_clear(&pair[0]);
    hr__field_clear(&pair[1]);
    hr__field_clear(&entries);
    hr__type_unref(s);
    return t;
}

static hr_type *tensor_type(void)
{
    hr_type *t = NULL;

    assert_ok(hr__type_tensor(hr__type_simple(HR_T_INT32), (int64_t[]){ 2, 2 }, 2, &t, NULL), NULL);
    return t;
}

static hr_type *fixed_type(int width)
{
    hr_type *t = NULL;

    assert_ok(hr__type_fixed_binary(width, &t, NULL), NULL);
    return t;
}

static void test_typed(void **state)
{
    hr_type *small = hr__type_simple(HR_T_INT8);

    (void)state;
    check_typed(small, "{\"a\":-128}\n{\"a\":127}\n{\"b\":1}\n", "!line 3, column 2: key 'b' is not in the schema");
    check_typed(small, "{\"a\":-128}\n{}\n{\"a\":127}", "-128|null|127|");
    check_typed(small, "{\"a\":128}", "!column 'a': expected int8, found 128");
    check_typed(hr__type_simple(HR_T_UINT16), "{\"a\":65535}", "65535|");
    check_typed(hr__type_simple(HR_T_UINT16), "{\"a\":-1}", "!expected uint16, found -1");
    check_typed(hr__type_simple(HR_T_FLOAT32), "{\"a\":0.5}\n{\"a\":7}", "0.5|7.0|");
    check_typed(hr__type_simple(HR_T_FLOAT16), "{\"a\":0.5}\n{\"a\":null}", "0.5|null|");
    check_typed(hr__type_simple(HR_T_LARGE_STRING), "{\"a\":\"x\"}\n{\"a\":null}", "x|null|");
    check_typed(hr__type_simple(HR_T_BINARY), "{\"a\":\"AAH/\"}\n{\"a\":\"AQ==\"}\n{\"a\":\"\"}",
                "\\x00\\x01\\xff|\\x01||");
    check_typed(hr__type_simple(HR_T_BINARY), "{\"a\":\"AAH\"}", "!expected binary as base64, found 'AAH'");
    check_typed(fixed_type(2), "{\"a\":\"AQI=\"}\n{}\n{\"a\":\"AQM=\"}", "\\x01\\x02|null|\\x01\\x03|");
    check_typed(fixed_type(2), "{\"a\":\"AQ==\"}", "!as base64");
    check_typed(hr__type_simple(HR_T_DATE32), "{\"a\":\"1970-01-02\"}", "1970-01-02|");
    check_typed(hr__type_simple(HR_T_DATE32), "{\"a\":\"1970-13-02\"}",
                "!expected date32[day] as YYYY-MM-DD, found '1970-13-02'");
    check_typed(unit_type(HR_T_TIMESTAMP, HR_MILLI, NULL), "{\"a\":\"1970-01-01T00:00:01.5\"}",
                "1970-01-01T00:00:01.5|");
    check_typed(unit_type(HR_T_TIMESTAMP, HR_MILLI, NULL), "{\"a\":5}", "!expected timestamp[ms], found 5");
    check_typed(unit_type(HR_T_TIME32, HR_SECOND, NULL), "{\"a\":\"00:01:02\"}", "00:01:02|");
    check_typed(unit_type(HR_T_DURATION, HR_MICRO, NULL), "{\"a\":-7}", "-7us|");
    check_typed(decimal_type(HR_T_DECIMAL128, 6, 2),
                "{\"a\":1.5}\n{\"a\":\"-1234.56\"}\n{\"a\":1e3}\n{\"a\":0.0}\n{\"a\":5.10000}",
                "1.50|-1234.56|1000.00|0.00|5.10|");
    check_typed(decimal_type(HR_T_DECIMAL128, 6, 2), "{\"a\":1.555}", "!found 1.555");
    check_typed(decimal_type(HR_T_DECIMAL128, 6, 2), "{\"a\":12345.5}", "!found 12345.5");
    check_typed(decimal_type(HR_T_DECIMAL128, 6, 2), "{\"a\":1e99999}", "!found 1e99999");
    check_typed(list_type(HR_T_LARGE_LIST, small, 0), "{\"a\":[1,2]}\n{\"a\":[]}\n{\"a\":null}", "[1, 2]|[]|null|");
    check_typed(list_type(HR_T_FIXED_LIST, small, 2), "{\"a\":[1,2]}\n{\"a\":null}\n{\"a\":[3,null]}",
                "[1, 2]|null|[3, null]|");
    check_typed(list_type(HR_T_FIXED_LIST, small, 2), "{\"a\":[1,2,3]}", "!expected an array of 2 values, found 3");
    check_typed(map_type(HR_T_STRING),
                "{\"a\":{\"x\":1,\"y\\n\":null}}\n{\"a\":[{\"key\":\"k\",\"value\":2}]}\n{\"a\":{}}\n{\"a\":null}",
                "{\"x\": 1, \"y\\n\": null}|{\"k\": 2}|{}|null|");
    check_typed(map_type(HR_T_INT64), "{\"a\":{\"x\":1}}", "!but only an array [key, value]");
    check_typed(tensor_type(), "{\"a\":[[1,2],[3,4]]}\n{\"a\":[5,6,7,8]}", "[[1, 2], [3, 4]]|[[5, 6], [7, 8]]|");
    check_typed(tensor_type(), "{\"a\":[[1,2],[3]]}", "!expected 2 values along dimension 1, found 1");
}

static void test_columns(void **state)
{
    static const char data[] =
        "{\"a\":1,\"b\":{\"x\":[1,{\"y\":\"}\"}]},\"c\":\"q\"}\n{\"b\":nonsense,\"c\":\"r\"}\n{\"a\":2}";
    static const char *const names[] = { "c", "a" };
    hr_projection some = { 2, names }, none = { 0, names };
    hr_type *types[3] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING), hr__type_simple(HR_T_STRING) };
    static const char *const all[] = { "a", "b", "c" };
    hr_field fields[3] = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_text got = { 0 };
    hr_schema *s = NULL;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_ok(hr__field_init(&fields[i], all[i], types[i], true, &err), &err);
    assert_ok(hr__schema_new(fields, 3, &s, &err), &err);
    assert_ok(read_json("a.json", data, sizeof data - 1, &(reading){ .schema = s, .columns = &some }, &got, &err),
              &err);
    assert_string_equal(got.data, "c:string a:int64; q 1|r null|null 2|");
    hr__text_clear(&got);
    assert_ok(read_json("a.json", data, sizeof data - 1, &(reading){ .schema = s, .columns = &none }, &got, &err),
              &err);
    assert_string_equal(got.data, "; |||");
    hr__text_clear(&got);
    some.names = (const char *const[]){ "c", "z" };
    assert_int_not_equal(
        read_json("a.json", data, sizeof data - 1, &(reading){ .schema = s, .columns = &some }, NULL, &err), HR_OK);
    assert_contains(err.text, "a.json");
    assert_contains(err.text, "'z'");
    hr_error_clear(&err);
    for (int i = 0; i < 3; i++)
        hr__field_clear(&fields[i]);
    hr__schema_unref(s);
}

/* ------------------------------------------------------------------------------------------------------------ index */

/* The plain one, byte after byte. */
static int64_t index_slowly(const uint8_t *p, int64_t n, bool newlines, uint32_t *out, int64_t *control)
{
    bool in_string = false, follows = false, escaped = false;
    int64_t n_out = 0;

    *control = -1;
    for (int64_t i = 0; i < n; i++) {
        uint8_t c = p[i];
        bool quote = c == '"' && !escaped, blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
        bool operator_ = c && (strchr("{}[],:", c) || c == 0x0C || c == 0x1A);

        escaped = c == '\\' && !escaped;
        if (in_string && !quote && c < 0x20 && *control < 0)
            *control = i;
        if (quote || (!in_string && (operator_ || (!blank && !follows) || (newlines && c == '\n'))))
            out[n_out++] = (uint32_t)i;
        in_string ^= quote;
        follows = !quote && !blank && !operator_;
    }
    return n_out;
}

static void test_index(void **state)
{
    static const char alphabet[] = "\"\"\\\\\\{}[],: \n\r\tab01-\x0c\x1a\x01\xc3\xa4\x80";
    static const unsigned cpus[] = { 0, HR_CPU_NEON, HR_CPU_AVX2 | HR_CPU_BMI2 | HR_CPU_PCLMUL };
    uint8_t *data = malloc(700 + HR_SLACK);
    uint32_t want[700];
    uint64_t random = 3;
    hr_mem mem = { NULL, NULL };

    (void)state;
    for (int i = 0; i < 3000; i++) {
        int64_t n = random_below(&random, 700), begin = n ? random_below(&random, (int64_t)HR_MIN(n, 70)) : 0, control;
        bool newlines = random_below(&random, 2);
        int64_t n_want;

        for (int64_t k = 0; k < n; k++)
            data[k] = random_below(&random, 3) ? 'x' : (uint8_t)alphabet[random_below(&random, sizeof alphabet - 1)];
        n_want = index_slowly(data + begin, n - begin, newlines, want, &control);
        for (int k = 0; k < HR_LEN(cpus); k++) {
            hr_json_tokens t = { 0 };
            hr_error err = HR_ERROR_INIT;

            if ((cpus[k] & hr__cpu_features()) != cpus[k])
                continue;
            assert_ok(hr__json_index_by(cpus[k], &mem, data, begin, n, newlines, &t, &err), &err);
            assert_int_equal(t.n, n_want);
            assert_int_equal(t.control, control < 0 ? -1 : control + begin);
            for (int64_t m = 0; m < n_want; m++)
                assert_int_equal(t.at[m], want[m] + begin);
            hr__json_tokens_clear(&t);
        }
    }
    free(data);
}

/* ---------------------------------------------------------------------------------------------------------- writing */

/* The table's lines; NULL after an error. */
static hr_buffer *write_lines(const hr_table *t, const char *const *settings, int n_settings, hr_error *err)
{
    hr_json_write_options options;
    hr_mem mem = { NULL, NULL };
    hr_writer *w = NULL;
    hr_encoded_chunk piece = { 0 };
    hr_buffer *out = NULL;

    hr__options_default(hr__format_json.write_options, &options);
    if (hr__options_parse(hr__format_json.write_options, settings, n_settings, &options, err) == HR_OK &&
        hr__format_json.create(t->schema, &options, NULL, &w, err) == HR_OK &&
        w->cls->encode(w, &mem, t, &piece, err) == HR_OK) {
        assert_int_equal(piece.n_rows, t->n_rows);
        out = hr__buffer_ref(piece.bytes);
    }
    hr__encoded_chunk_clear(&piece);
    if (w)
        w->cls->free(w);
    return out;
}

/* A type's table as lines, and those lines as that type. */
static void check_round_trip(hr_type *type, uint64_t *random, int64_t n_rows, const char *compression)
{
    const char *settings[] = { "nan=literal", compression };
    hr_table *t = random_table(random, &type, 1, n_rows), *back = NULL;
    hr_json_options options;
    hr_mem mem = { NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_buffer *lines_of = write_lines(t, settings, 2, &err);

    assert_status(err.status, HR_OK, &err);
    hr__options_default(hr__format_json.options, &options);
    options.allow_nan = true;
    assert_ok(hr__source_new_memory("a.json", lines_of->data, lines_of->n_bytes, NULL, &source, &err), &err);
    assert_ok(hr__format_json.open(source, &(hr_open){ .options = &options, .schema = t->schema }, &f, &err), &err);
    assert_ok(f->cls->read(f, 0, 0, -1, &mem, &r, &err), &err);
    assert_ok(hr__reader_next(r, 1 << 30, &back, &err), &err);
    assert_int_equal(back->n_rows, t->n_rows);
    assert_ok(hr__table_check(back, true, &err), &err);
    assert_same_array(back->columns[0], t->columns[0]);
    hr_table_unref(back);
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    hr__buffer_unref(lines_of);
    hr_table_unref(t);
}

/* What a text has no room for: days with hours, structs without keys below lists of width 0, more digits than a
 * decimal's. */
static bool comes_back(const hr_type *t)
{
    if (hr__type_has_pickles(t)) /* an error: test_objects.py */
        return false;
    if (t->id == HR_T_DATE64 || t->id == HR_T_NULL || t->id == HR_T_DATE32 || t->id == HR_T_TIMESTAMP ||
        t->id == HR_T_TIME32 || t->id == HR_T_TIME64 || t->id == HR_T_DECIMAL128 || t->id == HR_T_DECIMAL256)
        return false;
    for (int i = 0; i < t->n_children; i++)
        if (!comes_back(t->children[i].type))
            return false;
    return true;
}

static void test_round_trips(void **state)
{
    uint64_t random = 5;
    int n_tried = 0;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);

        for (int64_t n = 1; comes_back(type) && n < 300; n = n * 4 + 1, n_tried++)
            check_round_trip(type, &random, n, "compression=none");
        if (comes_back(type) && hr__codec_gzip.pack)
            check_round_trip(type, &random, 50, "compression=gzip");
        hr__type_unref(type);
    }
    assert_true(n_tried > 50);
}

/* Types whose random values may lie beyond what their text can say: chosen ones, there and back. */
static void test_texts(void **state)
{
    static const struct {
        hr_type_id id;
        hr_unit unit;
        const char *zone, *lines;
    } cases[] = {
        { HR_T_TIMESTAMP, HR_MICRO, NULL, "{\"a\":\"2026-11-21T10:00:00.5\"}\n{\"a\":null}\n" },
        { HR_T_TIMESTAMP, HR_SECOND, "UTC", "{\"a\":\"1969-12-31T23:59:59Z\"}\n" },
        { HR_T_TIME64, HR_NANO, NULL, "{\"a\":\"10:00:00.000000001\"}\n" },
        { HR_T_DURATION, HR_MILLI, NULL, "{\"a\":-1500}\n" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_type *type = unit_type(cases[i].id, cases[i].unit, cases[i].zone);
        hr_schema *s = schema_of("a", type);
        hr_json_options options;
        hr_mem mem = { NULL, NULL };
        hr_error err = HR_ERROR_INIT;
        hr_source *source = NULL;
        hr_scan_file *f = NULL;
        hr_reader *r = NULL;
        hr_table *t = NULL;
        hr_buffer *b;

        hr__options_default(hr__format_json.options, &options);
        assert_ok(hr__source_new_memory("a.json", cases[i].lines, (int64_t)strlen(cases[i].lines), NULL, &source, &err),
                  &err);
        assert_ok(hr__format_json.open(source, &(hr_open){ .options = &options, .schema = s }, &f, &err), &err);
        assert_ok(f->cls->read(f, 0, 0, -1, &mem, &r, &err), &err);
        assert_ok(hr__reader_next(r, 1 << 20, &t, &err), &err);
        b = write_lines(t, NULL, 0, &err);
        assert_status(err.status, HR_OK, &err);
        assert_int_equal(b->n_bytes, strlen(cases[i].lines));
        assert_memory_equal(b->data, cases[i].lines, (size_t)b->n_bytes);
        hr__buffer_unref(b);
        hr_table_unref(t);
        hr__reader_close(r);
        hr__scan_file_unref(f);
        hr__source_unref(source);
        hr__schema_unref(s);
        hr__type_unref(type);
    }
}

/* One column 'a' of a text that is no UTF-8 and of plain ones. */
static hr_table *broken_texts(void)
{
    hr_type *type = hr__type_simple(HR_T_STRING);
    hr_schema *s = schema_of("a", type);
    hr_builder *b = builder_of(type);
    hr_table *t = NULL;
    hr_array *a;

    assert_int_equal(hr__builder_bytes(b, "\xff\"b\xc3\xa4\xe2\x82", 7, NULL), HR_OK);
    assert_int_equal(hr__builder_bytes(b, "plain\x7f", 6, NULL), HR_OK);
    a = finish(b);
    assert_int_equal(hr__table_new(s, &a, 2, NULL, &t, NULL), HR_OK);
    hr__schema_unref(s);
    hr__type_unref(type);
    return t;
}

static hr_status print_with_faults(void *context, hr_error *err)
{
    char *text = NULL;
    hr_status st = hr_table_print_json(context, 0, 2, &text, err);

    hr_string_free(text);
    return st;
}

/* Foreign tables may hold such texts; whoever prints rows still wants JSON. */
static void test_printed(void **state)
{
    hr_table *t = broken_texts();
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;

    (void)state;
    assert_ok(hr_table_print_json(t, 0, 2, &text, &err), &err);
    assert_string_equal(text, "{\"a\":\"\xef\xbf\xbd\\\"b\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\"}\n{\"a\":\"plain\x7f\"}\n");
    hr_string_free(text);
    run_with_faults_on(print_with_faults, t, HR_FAULT_MEMORY);
    hr_table_unref(t);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

static hr_status read_with_faults(void *context, hr_error *err)
{
    static const char array[] = "[{\"a\": [1, 2.5]}, {\"a\" : [ ], \"b\": {\"c\\n\": \"\\t\"}}]";
    reading how = { .max_bytes = 100 };

    return context ? read_json("a.json", array, sizeof array - 1, &how, NULL, err)
                   : read_json("a.json", lines, sizeof lines - 1, &how, NULL, err);
}

static void test_faults(void **state)
{
    int64_t block = hr__json_block_bytes;

    (void)state;
    hr__json_block_bytes = 16;
    run_with_faults_on(read_with_faults, NULL, HR_FAULT_MEMORY | HR_FAULT_IO);
    run_with_faults_on(read_with_faults, "array", HR_FAULT_MEMORY | HR_FAULT_IO);
    hr__json_block_bytes = block;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index),   cmocka_unit_test(test_samples),     cmocka_unit_test(test_depth),
        cmocka_unit_test(test_borders), cmocka_unit_test(test_rows),        cmocka_unit_test(test_typed),
        cmocka_unit_test(test_columns), cmocka_unit_test(test_round_trips), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_faults),  cmocka_unit_test(test_printed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
