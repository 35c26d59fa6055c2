/* parse.c - hr_expr_parse: an expression from its text, by recursive descent.
 *
 *   or     := and (("or" | "|" | "^") and)*
 *   and    := not (("and" | "&") not)*
 *   not    := "not" not | compare
 *   compare:= sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum | ["not"] "in" list | "is" ["not"] ("null" | "None"))?
 *   sum    := product (("+" | "-") product)*
 *   product:= unary (("*" | "/" | "//" | "%") unary)*
 *   unary  := ("-" | "~") unary | primary
 *   primary:= number | text | "true" | "false" | "null" | list | "(" or ")" | name | name "(" arguments ")"
 *   list   := "[" constants "]", after "in" also "(" constants ")"
 *
 * A name is a column; col('any name') is one as well. An argument "name=value" is a setting of the function. "&" and
 * "|" bind as "and" and "or" do, so `a > 1 & b < 2` needs no parentheses; hr_expr_print() writes parentheses around
 * every operand that is an operation, so its texts mean the same here. True, False and None are Python's names of true,
 * false and null. The depth of the text is bounded, since parsing recurses.
 *
 * Tests: test_public_api.c, test_expr.c. */
#include "expr/fn.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 100, MOST_ARGS = 64, MOST_NAME = 256 };

typedef struct parser {
    const char *text;
    const char *at;
    int depth;
} parser;

static hr_status parse_or(parser *p, hr_expr **out, hr_error *err);

/* The number of the character at p->at, from 1. */
static int character(const parser *p)
{
    int n = 1;

    for (const char *s = p->text; s < p->at; s++)
        n += (*s & 0xc0) != 0x80; /* a continuation byte of UTF-8 begins no character */
    return n;
}

static hr_status wrong(const parser *p, const char *expected, hr_error *err)
{
    int n = 20;

    while (n > 0 && (p->at[strnlen(p->at, (size_t)n)] & 0xc0) == 0x80)
        n--; /* cuts no character in two */
    return hr_error_set(err, HR_INVALID, "expression: character %d, at '%.*s': expected %s", character(p), n, p->at,
                        expected);
}

static void skip_blanks(parser *p)
{
    while (*p->at && isspace((unsigned char)*p->at))
        p->at++;
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80; }

/* Takes this sign or word if it comes next; a word must end there, and a sign must not be the start of a longer one. */
static bool take(parser *p, const char *token)
{
    size_t n = strlen(token);
    char next;

    skip_blanks(p);
    if (strncmp(p->at, token, n) != 0)
        return false;
    next = p->at[n];
    if (is_name(token[0]) ? is_name(next) : (strchr("<>=!", token[0]) && n == 1 && strchr("=>", next) && next))
        return false;
    if (n == 1 && strchr("/&|", token[0]) && next == token[0])
        return false;
    p->at += n;
    return true;
}

/* function(*left, right) in the place of *left; drops both. */
static hr_status call2(const char *function, hr_expr **left, hr_expr *right, hr_error *err)
{
    hr_expr *args[2] = { *left, right };
    hr_status st = hr_expr_call(function, args, 2, NULL, 0, left, err);

    hr_expr_unref(args[0]);
    hr_expr_unref(args[1]);
    return st;
}

static hr_status call1(const char *function, hr_expr *takes, hr_expr **out, hr_error *err)
{
    hr_status st = hr_expr_call(function, &takes, 1, NULL, 0, out, err);

    hr_expr_unref(takes);
    return st;
}

typedef struct infix {
    const char *token, *function;
} infix;

/* operand (token operand)*, with the tokens of a table that ends with NULL. */
static hr_status parse_chain(parser *p, const infix *table, hr_status (*operand)(parser *, hr_expr **, hr_error *),
                             bool once, hr_expr **out, hr_error *err)
{
    hr_status st = operand(p, out, err);

    for (bool more = true; more && !st;) {
        more = false;
        for (const infix *i = table; i->token && !more && !st; i++)
            if (take(p, i->token)) {
                hr_expr *right = NULL;

                more = true;
                if ((st = operand(p, &right, err)))
                    break;
                st = call2(i->function, out, right, err);
            }
        more = more && !once;
    }
    if (st) {
        hr_expr_unref(*out);
        *out = NULL;
    }
    return st;
}

/* ------------------------------------------------------------------------------------------------------- constants */

static hr_status parse_quoted(parser *p, hr_text *out, hr_error *err)
{
    char quote = *p->at++, c;

    hr__text_add_bytes(out, "", 0);
    while (*p->at && *p->at != quote) {
        if (*p->at != '\\') {
            hr__text_add_bytes(out, p->at++, 1);
            continue;
        }
        c = *++p->at;
        if (c == 'x' && isxdigit((unsigned char)p->at[1]) && isxdigit((unsigned char)p->at[2])) {
            const char digits[3] = { p->at[1], p->at[2], 0 };

            c = (char)strtol(digits, NULL, 16);
            p->at += 2;
        } else if (c == 'n' || c == 't') {
            c = c == 'n' ? '\n' : '\t';
        } else if (c != '\\' && c != '\'' && c != '"') {
            return wrong(p, "\\\\, \\', \\\", \\n, \\t or \\xHH", err);
        }
        hr__text_add_bytes(out, &c, 1);
        p->at++;
    }
    if (!*p->at)
        return wrong(p, "the end of the text, a quote", err);
    p->at++;
    if (out->failed)
        return hr__error_memory(err, "expression", out->n);
    return memchr(out->data, 0, (size_t)out->n) ? wrong(p, "a text without zero bytes", err) : HR_OK;
}

static hr_status parse_text(parser *p, hr_expr **out, hr_error *err)
{
    hr_text text = { 0 };
    hr_status st = parse_quoted(p, &text, err);

    if (!st)
        st = hr_expr_string(text.data, out, err);
    hr__text_clear(&text);
    return st;
}

static hr_status parse_number(parser *p, bool negative, hr_expr **out, hr_error *err)
{
    char number[64];
    const char *from = p->at;
    size_t n = strspn(from, "0123456789"), whole = n;
    char *end;
    long long v;

    if (from[n] == '.')
        n += 1 + strspn(from + n + 1, "0123456789");
    if (from[n] == 'e' || from[n] == 'E') {
        size_t sign = from[n + 1] == '-' || from[n + 1] == '+';

        n += 1 + sign + strspn(from + n + 1 + sign, "0123456789");
    }
    if (n >= sizeof number - 1 || is_name(from[n]))
        return wrong(p, "a number", err);
    snprintf(number, sizeof number, "%s%.*s", negative ? "-" : "", (int)n, from);
    errno = 0;
    v = strtoll(number, &end, 10);
    if (n == whole && errno)
        return wrong(p, "an integer of 64 bits", err);
    p->at += n;
    return n == whole ? hr_expr_int(v, out, err) : hr_expr_double(strtod(number, NULL), out, err);
}

/* A literal of the type that the text names, of one null or of one integer. */
static hr_status constant(const char *type_text, bool is_null, int64_t v, hr_expr **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    hr_builder *b = NULL;
    hr_type *type = NULL;
    hr_array *a = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__type_parse(type_text, &type, err));
    HR_GO(hr__builder_new(&mem, type, &b, err));
    if (is_null)
        HR_GO(hr__builder_null(b, err));
    else
        HR_GO(hr__builder_int(b, v, err));
    HR_GO(hr__builder_finish(b, &a, err));
    st = hr__expr_value(a, false, out, err);
done:
    hr__builder_free(b);
    hr__type_unref(type);
    return st;
}

/* One value of a list literal. */
static hr_status add_item(hr_builder *items, const hr_expr *e, hr_type_id id, hr_error *err)
{
    const uint8_t *bytes;
    int64_t n, v;
    double d;

    if (id == HR_T_STRING) {
        bytes = hr__array_bytes(e->value, 0, &n);
        return hr__builder_bytes(items, bytes, n, err);
    }
    if (e->value->type->id == HR_T_INT64) {
        memcpy(&v, hr__array_values(e->value), sizeof v);
        return id == HR_T_INT64 ? hr__builder_int(items, v, err) : hr__builder_double(items, (double)v, err);
    }
    memcpy(&d, hr__array_values(e->value), sizeof d);
    return hr__builder_double(items, d, err);
}

/* The list literal of these constants: integers, numbers, or texts. */
static hr_status list_of(const parser *p, hr_expr *const *items, int n, hr_expr **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    hr_type_id id = n ? items[0]->value->type->id : HR_T_INT64;
    hr_builder *b = NULL;
    hr_type *type = NULL;
    hr_array *a = NULL;
    hr_status st = HR_OK;

    for (int i = 0; i < n; i++) {
        hr_type_id one = items[i]->value->type->id;

        if ((id == HR_T_STRING) != (one == HR_T_STRING) ||
            (one != HR_T_STRING && one != HR_T_INT64 && one != HR_T_FLOAT64))
            return wrong(p, "a list of numbers or a list of texts", err);
        id = one == HR_T_FLOAT64 ? one : id;
    }
    HR_GO(hr__type_parse(id == HR_T_STRING    ? "list<item: string>"
                         : id == HR_T_FLOAT64 ? "list<item: double>"
                                              : "list<item: int64>",
                         &type, err));
    HR_GO(hr__builder_new(&mem, type, &b, err));
    for (int i = 0; i < n; i++)
        HR_GO(add_item(hr__builder_child(b, 0), items[i], id, err));
    HR_GO(hr__builder_end(b, err));
    HR_GO(hr__builder_finish(b, &a, err));
    st = hr__expr_value(a, false, out, err);
done:
    hr__builder_free(b);
    hr__type_unref(type);
    return st;
}

static hr_status parse_constant(parser *p, hr_expr **out, hr_error *err)
{
    bool negative = take(p, "-");

    skip_blanks(p);
    if (isdigit((unsigned char)*p->at))
        return parse_number(p, negative, out, err);
    if (!negative && (*p->at == '\'' || *p->at == '"'))
        return parse_text(p, out, err);
    return wrong(p, "a number or a text", err);
}

/* After the sign that opens it; `close` ends it. */
static hr_status parse_list(parser *p, const char *close, hr_expr **out, hr_error *err)
{
    hr_expr **items = NULL;
    int64_t n = 0, cap = 0;
    hr_status st = HR_OK;

    while (!take(p, close)) {
        if (n && !take(p, ","))
            HR_GO(wrong(p, *close == ']' ? "',' or ']'" : "',' or ')'", err));
        if (n && take(p, close)) /* (1,) is Python's list of one */
            break;
        if (!hr__grow(NULL, (void **)&items, &cap, n + 1, sizeof(hr_expr *)))
            HR_GO(hr__error_memory(err, "expression", n));
        items[n] = NULL;
        HR_GO(parse_constant(p, &items[n], err));
        n++;
    }
    st = list_of(p, items, (int)n, out, err);
done:
    for (int64_t i = 0; i < n; i++)
        hr_expr_unref(items[i]);
    hr__free(items);
    return st;
}

/* ----------------------------------------------------------------------------------------------- names and calls */

static size_t name_bytes(const char *s)
{
    size_t n = 0;

    while (is_name(s[n]))
        n++;
    return n;
}

/* col('any name'), after the word. */
static hr_status parse_col(parser *p, hr_expr **out, hr_error *err)
{
    hr_text name = { 0 };
    hr_status st = HR_OK;

    skip_blanks(p);
    if (*p->at != '\'' && *p->at != '"')
        return wrong(p, "a column's name in quotes", err);
    HR_GO(parse_quoted(p, &name, err));
    if (!take(p, ")"))
        HR_GO(wrong(p, "')'", err));
    st = hr_expr_column(name.data, out, err);
done:
    hr__text_clear(&name);
    return st;
}

typedef struct call_parts {
    hr_expr *args[MOST_ARGS];
    char *settings[MOST_ARGS];
    int n_args, n_settings;
} call_parts;

/* "name=value" if that comes next: the value is a text in quotes, or goes to the next ',' or ')'. */
static hr_status parse_setting(parser *p, call_parts *c, bool *found, hr_error *err)
{
    size_t n = name_bytes(p->at);
    const char *value = p->at + n;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    value += strspn(value, " ");
    *found = n > 0 && value[0] == '=' && value[1] != '=';
    if (!*found)
        return HR_OK;
    hr__text_add(&text, "%.*s=", (int)n, p->at);
    p->at = value + 1;
    skip_blanks(p);
    if (*p->at == '\'' || *p->at == '"') {
        HR_GO(parse_quoted(p, &text, err));
    } else {
        n = strcspn(p->at, ",)");
        hr__text_add_bytes(&text, p->at, (int64_t)n);
        p->at += n;
    }
    if (text.failed)
        HR_GO(hr__error_memory(err, "expression", text.n));
    c->settings[c->n_settings++] = text.data;
    text.data = NULL;
done:
    hr__text_clear(&text);
    return st;
}

/* Arguments up to the ')'. */
static hr_status parse_arguments(parser *p, call_parts *c, hr_error *err)
{
    while (!take(p, ")")) {
        bool is_setting;

        if (c->n_args + c->n_settings && !take(p, ","))
            return wrong(p, "',' or ')'", err);
        if (c->n_args == MOST_ARGS || c->n_settings == MOST_ARGS)
            return wrong(p, "no more arguments", err);
        skip_blanks(p);
        HR_TRY(parse_setting(p, c, &is_setting, err));
        if (is_setting)
            continue;
        HR_TRY(parse_or(p, &c->args[c->n_args], err));
        c->n_args++;
    }
    return HR_OK;
}

static hr_status parse_call(parser *p, const char *function, hr_expr **out, hr_error *err)
{
    const char *from = p->at;
    call_parts *c = hr__zalloc(NULL, sizeof *c);
    hr_status st = HR_OK;

    if (!c)
        return hr__error_memory(err, "expression", sizeof *c);
    HR_GO(parse_arguments(p, c, err));
    st = hr_expr_call(function, c->args, c->n_args, (const char *const *)c->settings, c->n_settings, out, err);
    if (st)
        st = hr__error_at(err, st, "expression: character %d", (int)(from - p->text));
done:
    for (int i = 0; i < c->n_args; i++)
        hr_expr_unref(c->args[i]);
    for (int i = 0; i < c->n_settings; i++)
        hr__free(c->settings[i]);
    hr__free(c);
    return st;
}

static hr_status parse_name(parser *p, hr_expr **out, hr_error *err)
{
    char name[MOST_NAME];
    size_t n = name_bytes(p->at);

    if (n == 0 || n >= sizeof name)
        return wrong(p, "a value, a column or a function", err);
    memcpy(name, p->at, n);
    name[n] = 0;
    p->at += n;
    if (!take(p, "("))
        return hr_expr_column(name, out, err);
    return strcmp(name, "col") ? parse_call(p, name, out, err) : parse_col(p, out, err);
}

/* ------------------------------------------------------------------------------------------------------ operators */

/* `expected`, or what to write instead of what other languages write. */
static const char *expected_at(const parser *p, const char *expected)
{
    static const struct {
        const char *theirs, *ours;
    } words[] = { { "&&", "'and' instead of '&&'" },
                  { "||", "'or' instead of '||'" },
                  { "=", "'==' instead of '='" },
                  { "<>", "'!=' instead of '<>'" },
                  { ".", "a function, as is_null(x) or struct_field(x, name='a'), instead of a method or field" } };

    for (int i = 0; i < HR_LEN(words); i++)
        if (strncmp(p->at, words[i].theirs, strlen(words[i].theirs)) == 0)
            return words[i].ours;
    return expected;
}

static hr_status parse_primary(parser *p, hr_expr **out, hr_error *err)
{
    hr_status st;

    skip_blanks(p);
    if (isdigit((unsigned char)*p->at))
        return parse_number(p, false, out, err);
    if (*p->at == '\'' || *p->at == '"')
        return parse_text(p, out, err);
    if (take(p, "true") || take(p, "True"))
        return constant("bool", false, 1, out, err);
    if (take(p, "false") || take(p, "False"))
        return constant("bool", false, 0, out, err);
    if (take(p, "null") || take(p, "None"))
        return constant("null", true, 0, out, err);
    if (take(p, "["))
        return parse_list(p, "]", out, err);
    if (!take(p, "("))
        return parse_name(p, out, err);
    st = parse_or(p, out, err);
    if (st || take(p, ")"))
        return st;
    hr_expr_unref(*out);
    *out = NULL;
    return wrong(p, expected_at(p, "')'"), err);
}

static hr_status parse_unary(parser *p, hr_expr **out, hr_error *err)
{
    hr_expr *e = NULL;

    if (++p->depth > MOST_DEPTH)
        return hr_error_set(err, HR_INVALID, "expression: nested more than %d deep", MOST_DEPTH);
    if (take(p, "~")) {
        HR_TRY(parse_unary(p, &e, err));
        HR_TRY(call1("not", e, out, err));
    } else if (take(p, "-")) {
        skip_blanks(p);
        if (isdigit((unsigned char)*p->at)) {
            HR_TRY(parse_number(p, true, out, err));
        } else {
            HR_TRY(parse_unary(p, &e, err));
            HR_TRY(call1("negate", e, out, err));
        }
    } else {
        HR_TRY(parse_primary(p, out, err));
    }
    p->depth--;
    return HR_OK;
}

static hr_status parse_product(parser *p, hr_expr **out, hr_error *err)
{
    static const infix table[] = {
        { "*", "multiply" }, { "//", "floor_divide" }, { "/", "divide" }, { "%", "modulo" }, { NULL, NULL }
    };

    return parse_chain(p, table, parse_unary, false, out, err);
}

static hr_status parse_sum(parser *p, hr_expr **out, hr_error *err)
{
    static const infix table[] = { { "+", "add" }, { "-", "subtract" }, { NULL, NULL } };

    return parse_chain(p, table, parse_product, false, out, err);
}

/* After "in" or "not in": function(*out, list) in the place of *out. */
static hr_status parse_in(parser *p, const char *function, hr_expr **out, hr_error *err)
{
    hr_expr *list = NULL;
    bool square = take(p, "[");

    if (!square && !take(p, "("))
        return wrong(p, "a list, as [1, 2]", err);
    HR_TRY(parse_list(p, square ? "]" : ")", &list, err));
    return call2(function, out, list, err);
}

/* After "is". */
static hr_status parse_is(parser *p, hr_expr **out, hr_error *err)
{
    const char *function = take(p, "not") ? "is_not_null" : "is_null";
    hr_expr *value = *out;

    if (!take(p, "null") && !take(p, "None") && !take(p, "NULL"))
        return wrong(p, "null after 'is'", err);
    *out = NULL;
    return call1(function, value, out, err);
}

/* "in [...]", "not in [...]", "is null", "is not null" after a value. *out is NULL after an error. */
static hr_status parse_membership(parser *p, hr_expr **out, hr_error *err)
{
    const char *from = p->at;
    hr_status st = HR_OK;

    if (take(p, "is")) {
        st = parse_is(p, out, err);
    } else if (take(p, "in")) {
        st = parse_in(p, "is_in", out, err);
    } else if (take(p, "not")) {
        if (take(p, "in"))
            st = parse_in(p, "not_in", out, err);
        else
            p->at = from;
    }
    if (st) {
        hr_expr_unref(*out);
        *out = NULL;
    }
    return st;
}

static hr_status parse_compare(parser *p, hr_expr **out, hr_error *err)
{
    static const infix table[] = { { "==", "equal" }, { "!=", "not_equal" },     { "<=", "less_equal" },
                                   { "<", "less" },   { ">=", "greater_equal" }, { ">", "greater" },
                                   { NULL, NULL } };

    HR_TRY(parse_chain(p, table, parse_sum, true, out, err));
    return parse_membership(p, out, err);
}

static hr_status parse_not(parser *p, hr_expr **out, hr_error *err)
{
    hr_expr *e = NULL;

    if (!take(p, "not"))
        return parse_compare(p, out, err);
    if (++p->depth > MOST_DEPTH)
        return hr_error_set(err, HR_INVALID, "expression: nested more than %d deep", MOST_DEPTH);
    HR_TRY(parse_not(p, &e, err));
    p->depth--;
    return call1("not", e, out, err);
}

static hr_status parse_and(parser *p, hr_expr **out, hr_error *err)
{
    static const infix table[] = { { "and", "and" }, { "&", "and" }, { NULL, NULL } };

    return parse_chain(p, table, parse_not, false, out, err);
}

static hr_status parse_or(parser *p, hr_expr **out, hr_error *err)
{
    static const infix table[] = { { "or", "or" }, { "|", "or" }, { "^", "xor" }, { NULL, NULL } };

    return parse_chain(p, table, parse_and, false, out, err);
}

hr_status hr_expr_parse(const char *text, hr_expr **out, hr_error *err)
{
    HR_NEED(text, out);

    parser p = { text, text, 0 };

    *out = NULL;
    HR_TRY(parse_or(&p, out, err));
    skip_blanks(&p);
    if (!*p.at)
        return HR_OK;
    hr_expr_unref(*out);
    *out = NULL;
    return wrong(&p, expected_at(&p, "an operator or the end"), err);
}
