/* marker.c - markers and positions: where a run can resume, and the text form.
 *
 * A marker says "just before this row of this source" and holds, for each stream operator downstream, its state when
 * the marker passed (see op.h). A position adds the rows that the consumer took after it, and the plan's inputs and
 * code (inputs.c). The text is JSON of at most 4 kB, plus the columns of functions (16 KiB each at most), the open bins
 * of packs (10 bytes each) and the states of instances of users' classes (1 MiB each at most); a small strict parser
 * reads it, since it comes from users' checkpoints. It ends with a checksum: a changed number would skip rows
 * silently.
 *
 * Tests: test_inputs.c, test_feed.c. */
#include "exec/exec.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#define MAX_POSITION_BYTES (16 << 20)
#define POSITION_VERSION 2
#define SUM_BEGIN ",\"sum\":\"" /* then 16 hex digits and the end */
#define SUM_BYTES (sizeof SUM_BEGIN - 1 + 16 + 2)

hr_status hr__marker_new(hr_coord at, hr_marker **out, hr_error *err)
{
    hr_marker *m = hr__zalloc(NULL, sizeof *m);

    *out = NULL;
    if (!m)
        return hr__error_memory(err, "marker", sizeof *m);
    m->at = at;
    *out = m;
    return HR_OK;
}

void hr__marker_drop(hr_marker *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->n_states; i++)
        hr__free(m->states[i].text);
    hr__free(m->states);
    hr__free(m->more);
    hr__free(m);
}

hr_status hr__marker_add(hr_marker *m, int op_index, const char *text, int64_t n, hr_error *err)
{
    int64_t cap = m->cap_states;
    char *copy = hr__strndup(NULL, text ? text : "", text ? (size_t)n : 0);

    if (!copy || !hr__grow(NULL, (void **)&m->states, &cap, m->n_states + 1, sizeof *m->states)) {
        hr__free(copy);
        return hr__error_memory(err, "marker", n);
    }
    m->cap_states = (int)cap;
    m->states[m->n_states].op_index = op_index;
    m->states[m->n_states++].text = copy;
    return HR_OK;
}

hr_status hr__marker_set(hr_marker *m, int op_index, const char *text, hr_error *err)
{
    for (int i = 0; i < m->n_states; i++)
        if (m->states[i].op_index == op_index) {
            char *copy = hr__strdup(NULL, text);

            if (!copy)
                return hr__error_memory(err, "marker", (int64_t)strlen(text));
            hr__free(m->states[i].text);
            m->states[i].text = copy;
            return HR_OK;
        }
    return hr__marker_add(m, op_index, text, (int64_t)strlen(text), err);
}

/* Adds a row of another source. */
static hr_status add_at(hr_marker *m, const hr_coord *at, hr_error *err)
{
    int64_t cap = m->n_more;

    if (!hr__grow(NULL, (void **)&m->more, &cap, m->n_more + 1, sizeof *m->more))
        return hr__error_memory(err, "marker", (m->n_more + 1) * (int64_t)sizeof *m->more);
    m->more[m->n_more++] = *at;
    return HR_OK;
}

hr_status hr__marker_copy(const hr_marker *m, hr_marker **out, hr_error *err)
{
    return hr__marker_join(&m, 1, out, err);
}

hr_status hr__marker_join(const hr_marker *const *markers, int n, hr_marker **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_marker *c = NULL;

    *out = NULL;
    for (int k = 0; k < n; k++) {
        const hr_marker *m = markers[k];

        if (!m)
            continue;
        if (c)
            HR_GO(add_at(c, &m->at, err));
        else
            HR_GO(hr__marker_new(m->at, &c, err));
        for (int i = 0; i < m->n_more; i++)
            HR_GO(add_at(c, &m->more[i], err));
        for (int i = 0; i < m->n_states; i++)
            HR_GO(hr__marker_add(c, m->states[i].op_index, m->states[i].text, (int64_t)strlen(m->states[i].text), err));
    }
    *out = c;
    c = NULL;
done:
    hr__marker_drop(c);
    return st;
}

const hr_coord *hr__marker_at(const hr_marker *m, int32_t instance)
{
    if (m->at.instance == instance)
        return &m->at;
    for (int i = 0; i < m->n_more; i++)
        if (m->more[i].instance == instance)
            return &m->more[i];
    return NULL;
}

const char *hr__marker_state(const hr_marker *m, int op_index)
{
    for (int i = 0; m && i < m->n_states; i++)
        if (m->states[i].op_index == op_index)
            return m->states[i].text;
    return NULL;
}

/* --- printing */

static void print_at(const hr_coord *at, hr_text *t)
{
    hr__text_add(t, "[%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId64 "]", at->instance, at->file, at->fragment, at->row);
}

static void print_marker(const hr_marker *m, hr_text *t)
{
    hr__text_add(t, ",\"at\":");
    print_at(&m->at, t);
    for (int i = 0; i < m->n_more; i++) {
        hr__text_add(t, i ? "," : ",\"more\":[");
        print_at(&m->more[i], t);
    }
    hr__text_add(t, "%s,\"ops\":{", m->n_more ? "]" : "");
    for (int i = 0; i < m->n_states; i++) {
        hr__text_add(t, "%s\"%d\":", i ? "," : "", m->states[i].op_index);
        hr__text_add_json(t, m->states[i].text);
    }
    hr__text_add(t, "}");
}

void hr__marker_print(const hr_marker *m, hr_text *out)
{
    hr__text_add(out, "{\"marker\":1");
    print_marker(m, out);
    hr__text_add(out, "}");
}

static void print_memory(const hr_inputs *in, hr_text *t)
{
    hr__text_add(t, ",\"memory\":\"%016" PRIx64 "\"", in->memory);
}

static void print_inputs(const hr_position *p, hr_text *t)
{
    const hr_inputs *in = &p->inputs;

    hr__text_add(t, ",\"code\":\"%s\",\"files\":%" PRId64 ",\"names\":\"%016" PRIx64 "\",\"sizes\":\"%016" PRIx64 "\"",
                 p->code, in->n, in->names, in->sizes);
    print_memory(in, t);
    hr__text_add(t, ",\"groups\":\"");
    for (int64_t i = 0; i < HR_MIN(in->n, HR_INPUT_GROUPS); i++)
        hr__text_add(t, "%016" PRIx64 "%016" PRIx64, in->groups[i].times, in->groups[i].contents);
    hr__text_add(t, "\"");
}

uint64_t hr__position_sum(const char *text, int64_t n)
{
    hr_hash h;

    hr__hash_init(&h, POSITION_VERSION);
    hr__hash_add(&h, text, (size_t)n);
    return hr__hash_end(&h).lo;
}

hr_status hr__position_print(const hr_position *p, char **out, hr_error *err)
{
    hr_text t = { 0 };

    *out = NULL;
    hr__text_add(&t, "{\"v\":%d,\"epoch\":%" PRId64 ",\"seed\":%" PRIu64 ",\"plan\":\"%s\"", POSITION_VERSION, p->epoch,
                 p->seed, p->plan);
    if (p->marker)
        print_marker(p->marker, &t);
    hr__text_add(&t, ",\"discard\":%" PRId64 ",\"end\":%s", p->discard_rows, p->at_end ? "true" : "false");
    if (p->extra[0])
        hr__text_add(&t, ",\"extra\":%s", p->extra);
    if (p->whole)
        print_inputs(p, &t);
    else if (p->inputs.memory)
        print_memory(&p->inputs, &t);
    if (!t.failed)
        hr__text_add(&t, SUM_BEGIN "%016" PRIx64 "\"}", hr__position_sum(t.data, t.n));
    if (t.failed || t.n > MAX_POSITION_BYTES) {
        bool failed = t.failed;
        int64_t n = t.n;

        hr__text_clear(&t);
        return failed ? hr__error_memory(err, "position", n)
                      : hr_error_set(err, HR_UNSUPPORTED,
                                     "position: its text has %" PRId64 " bytes, at most %d are possible", n,
                                     MAX_POSITION_BYTES);
    }
    *out = t.data;
    return HR_OK;
}

/* --- parsing: a cursor over the text; every function leaves it after the text that it read */

typedef struct cursor {
    const char *p, *end;
} cursor;

static void skip_space(cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

static bool eat(cursor *c, char ch)
{
    skip_space(c);
    if (c->p >= c->end || *c->p != ch)
        return false;
    c->p++;
    return true;
}

static bool eat_word(cursor *c, const char *word)
{
    size_t n = strlen(word);

    skip_space(c);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return false;
    c->p += n;
    return true;
}

/* A non-negative integer of at most 64 bits. */
static bool read_int(cursor *c, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;
    const char *begin;

    skip_space(c);
    begin = c->p;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9') {
        unsigned digit = (unsigned)(*c->p - '0');

        if (v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
        c->p++;
    }
    *out = v;
    return c->p > begin;
}

/* Reads a string into buf, with the escapes that hr__text_add_json writes for ASCII. */
static bool read_string(cursor *c, char *buf, size_t cap)
{
    size_t n = 0;

    if (!eat(c, '"'))
        return false;
    while (c->p < c->end && *c->p != '"') {
        char ch = *c->p++;

        if (ch == '\\') {
            if (c->p >= c->end)
                return false;
            ch = *c->p++;
            if (ch == 'n')
                ch = '\n';
            else if (ch == 't')
                ch = '\t';
            else if (ch != '"' && ch != '\\' && ch != '/')
                return false;
        }
        if (n + 1 >= cap)
            return false;
        buf[n++] = ch;
    }
    buf[n] = 0;
    return eat(c, '"');
}

static bool read_at(cursor *c, hr_coord *at)
{
    uint64_t v[4];
    uint64_t max[4] = { INT32_MAX, INT32_MAX, INT32_MAX, INT64_MAX };

    if (!eat(c, '['))
        return false;
    for (int i = 0; i < 4; i++)
        if ((i && !eat(c, ',')) || !read_int(c, max[i], &v[i]))
            return false;
    *at =
        (hr_coord){ .instance = (int32_t)v[0], .file = (int32_t)v[1], .fragment = (int32_t)v[2], .row = (int64_t)v[3] };
    return eat(c, ']');
}

static bool read_more(cursor *c, hr_marker *m, hr_status *st, hr_error *err)
{
    hr_coord at;

    if (!eat(c, '['))
        return false;
    for (bool first = true; !eat(c, ']'); first = false)
        if ((!first && !eat(c, ',')) || !read_at(c, &at) || (*st = add_at(m, &at, err)))
            return false;
    return true;
}

/* "2":"left=5"; `text` has room for the rest of the text. */
static bool read_state(cursor *c, hr_marker *m, char *text, size_t cap, hr_status *st, hr_error *err)
{
    char key[16];
    cursor k;
    uint64_t index;

    if ((m->n_states && !eat(c, ',')) || !read_string(c, key, sizeof key) || !eat(c, ':') || !read_string(c, text, cap))
        return false;
    k = (cursor){ key, key + strlen(key) };
    if (!read_int(&k, INT32_MAX, &index) || k.p != k.end)
        return false;
    *st = hr__marker_add(m, (int)index, text, (int64_t)strlen(text), err);
    return !*st;
}

static bool read_states(cursor *c, hr_marker *m, hr_status *st, hr_error *err)
{
    size_t cap = (size_t)(c->end - c->p) + 1;
    char *text;
    bool good = true;

    if (!eat(c, '{'))
        return false;
    if (!(text = hr__alloc(NULL, cap))) {
        *st = hr__error_memory(err, "position", (int64_t)cap);
        return false;
    }
    while (good && !eat(c, '}'))
        good = read_state(c, m, text, cap, st, err);
    hr__free(text);
    return good;
}

static bool read_marker(cursor *c, hr_marker *m, hr_status *st, hr_error *err)
{
    char key[16];
    uint64_t v;
    bool good = eat(c, '{') && read_string(c, key, sizeof key) && eat(c, ':') && read_int(c, 1, &v);

    while (good && eat(c, ',')) {
        good = read_string(c, key, sizeof key) && eat(c, ':');
        if (good && !strcmp(key, "at"))
            good = read_at(c, &m->at);
        else if (good && !strcmp(key, "more"))
            good = read_more(c, m, st, err);
        else
            good = good && !strcmp(key, "ops") && read_states(c, m, st, err);
    }
    return good && eat(c, '}') && c->p == c->end;
}

hr_status hr__marker_parse(const char *text, hr_marker **out, hr_error *err)
{
    cursor c = { text, text + strlen(text) };
    hr_status st = HR_OK;
    hr_marker *m = NULL;

    *out = NULL;
    HR_TRY(hr__marker_new((hr_coord){ 0 }, &m, err));
    if (read_marker(&c, m, &st, err)) {
        *out = m;
        return HR_OK;
    }
    hr__marker_drop(m);
    return st ? st : hr_error_set(err, HR_INVALID, "not a marker: unexpected text at byte %td", c.p - text);
}

/* Skips any value, up to the ',', '}' or ']' after it. */
static bool skip_value(cursor *c)
{
    const char *begin;
    int depth = 0;
    bool quoted = false;

    skip_space(c);
    begin = c->p;
    for (; c->p < c->end; c->p++) {
        if (quoted)
            quoted = *c->p == '\\' ? (c->p++, true) : *c->p != '"';
        else if (*c->p == '"')
            quoted = true;
        else if (*c->p == '{' || *c->p == '[')
            depth++;
        else if (depth == 0 && (*c->p == ',' || *c->p == '}' || *c->p == ']'))
            break;
        else if (*c->p == '}' || *c->p == ']')
            depth--;
    }
    return c->p <= c->end && c->p > begin && depth == 0 && !quoted;
}

/* Copies a JSON object unchanged. */
static bool read_object(cursor *c, char *buf, size_t cap)
{
    const char *begin;

    skip_space(c);
    begin = c->p;
    if (begin >= c->end || *begin != '{' || !skip_value(c) || (size_t)(c->p - begin) >= cap)
        return false;
    memcpy(buf, begin, (size_t)(c->p - begin));
    buf[c->p - begin] = 0;
    return true;
}

static bool read_signed(cursor *c, int64_t *out)
{
    bool negative = eat(c, '-');
    uint64_t v;

    if (!read_int(c, (uint64_t)INT64_MAX + negative, &v))
        return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool hr__position_extra(const hr_position *p, const char *name, int64_t *out)
{
    cursor c = { p->extra, p->extra + strlen(p->extra) };
    char key[sizeof p->extra];
    bool more = eat(&c, '{');

    while (more && read_string(&c, key, sizeof key) && eat(&c, ':')) {
        if (!strcmp(key, name))
            return read_signed(&c, out);
        more = skip_value(&c) && eat(&c, ',');
    }
    return false;
}

/* 16 hex digits, as printed. */
static bool read_hex(const char *p, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        int digit = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10 : -1;

        if (digit < 0)
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

static bool read_hash(cursor *c, uint64_t *out)
{
    char text[17];

    return read_string(c, text, sizeof text) && strlen(text) == 16 && read_hex(text, out);
}

static bool read_groups(cursor *c, hr_inputs *in)
{
    char text[HR_INPUT_GROUPS * 32 + 1];
    int64_t n = HR_MIN(in->n, HR_INPUT_GROUPS);

    if (!read_string(c, text, sizeof text) || (int64_t)strlen(text) != n * 32)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (!read_hex(text + i * 32, &in->groups[i].times) || !read_hex(text + i * 32 + 16, &in->groups[i].contents))
            return false;
    return true;
}

static bool read_code(cursor *c, char *out, size_t cap)
{
    return read_string(c, out, cap) && strlen(out) % HR_CODE_DIGITS == 0;
}

static bool read_member(cursor *c, const char *key, hr_position *p, hr_status *st, hr_error *err)
{
    uint64_t v;

    if (!strcmp(key, "v"))
        return read_int(c, INT_MAX, &v) && v == POSITION_VERSION;
    if (!strcmp(key, "code"))
        return (p->whole = true) && read_code(c, p->code, sizeof p->code);
    if (!strcmp(key, "files")) {
        if (!read_int(c, INT64_MAX, &v))
            return false;
        p->inputs.n = (int64_t)v;
        return true;
    }
    if (!strcmp(key, "names"))
        return read_hash(c, &p->inputs.names);
    if (!strcmp(key, "sizes"))
        return read_hash(c, &p->inputs.sizes);
    if (!strcmp(key, "memory"))
        return read_hash(c, &p->inputs.memory);
    if (!strcmp(key, "groups"))
        return read_groups(c, &p->inputs);
    if (!strcmp(key, "epoch") || !strcmp(key, "discard")) {
        if (!read_int(c, INT64_MAX, &v))
            return false;
        *(key[0] == 'e' ? &p->epoch : &p->discard_rows) = (int64_t)v;
        return true;
    }
    if (!strcmp(key, "seed"))
        return read_int(c, UINT64_MAX, &p->seed);
    if (!strcmp(key, "plan"))
        return read_string(c, p->plan, sizeof p->plan) && strlen(p->plan) == 32;
    if (!strcmp(key, "end"))
        return (p->at_end = eat_word(c, "true")) || eat_word(c, "false");
    if (!strcmp(key, "extra"))
        return read_object(c, p->extra, sizeof p->extra);
    if (!p->marker && (*st = hr__marker_new((hr_coord){ 0 }, &p->marker, err)))
        return false;
    if (!strcmp(key, "at"))
        return read_at(c, &p->marker->at);
    if (!strcmp(key, "more"))
        return read_more(c, p->marker, st, err);
    return !strcmp(key, "ops") && read_states(c, p->marker, st, err);
}

/* Checks the checksum. *n: the bytes before it. */
static hr_status check_text(const char *text, size_t *n, hr_error *err)
{
    size_t all = strlen(text);
    uint64_t sum;
    int version;

    if (all > MAX_POSITION_BYTES)
        return hr_error_set(err, HR_INVALID, "not a position: the text has %zu bytes, a position has at most %d", all,
                            MAX_POSITION_BYTES);
    if (!strncmp(text, "{\"epoch\":", 9))
        return hr_error_set(err, HR_INVALID,
                            "not a position: the text is of an older version, this one reads version %d",
                            POSITION_VERSION);
    if (sscanf(text, "{\"v\":%9d,", &version) == 1 && version != POSITION_VERSION)
        return hr_error_set(err, HR_INVALID, "not a position: the text is of version %d, this one reads version %d",
                            version, POSITION_VERSION);
    *n = all - SUM_BYTES;
    if (all < SUM_BYTES || memcmp(text + *n, SUM_BEGIN, sizeof SUM_BEGIN - 1) != 0 ||
        strcmp(text + all - 2, "\"}") != 0 || !read_hex(text + all - 18, &sum))
        return hr_error_set(
            err, HR_INVALID,
            "not a position: the text of %zu bytes does not end with a checksum: it was cut, or is of something else",
            all);
    if (sum != hr__position_sum(text, (int64_t)*n))
        return hr_error_set(err, HR_INVALID,
                            "not a position: the text was changed: its checksum is %016" PRIx64
                            ", its contents have %016" PRIx64,
                            sum, hr__position_sum(text, (int64_t)*n));
    return HR_OK;
}

hr_status hr__position_parse(const char *text, hr_position *out, hr_error *err)
{
    cursor c = { text, text };
    char key[16];
    bool first = true, good;
    hr_status st = HR_OK;
    size_t n = 0;

    *out = (hr_position){ 0 };
    HR_TRY(check_text(text, &n, err));
    c.end = text + n;
    good = eat(&c, '{');
    while (good && c.p < c.end) {
        good = (first || eat(&c, ',')) && read_string(&c, key, sizeof key) && eat(&c, ':') &&
               read_member(&c, key, out, &st, err);
        first = false;
    }
    if (good && out->plan[0])
        return HR_OK;
    hr__position_clear(out);
    if (st)
        return st;
    return hr_error_set(err, HR_INVALID, "not a position: unexpected text at byte %td of %zu", c.p - text,
                        strlen(text));
}

void hr__position_clear(hr_position *p)
{
    hr__marker_drop(p->marker);
    *p = (hr_position){ 0 };
}

hr_status hr__position_make_whole(const hr_plan *plan, const hr_inputs *inputs, hr_position *p, hr_error *err)
{
    if (p->inputs.memory && p->inputs.memory != inputs->memory)
        return hr_error_set(err, HR_MISMATCH, HR_OTHER_VALUES);
    p->inputs = *inputs;
    hr__plan_code(plan, p->code);
    p->whole = true;
    return HR_OK;
}
