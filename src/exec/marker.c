/* marker.c - where a run can be taken up again, and its text form.
 *
 * A marker says "just before this row of this source" and, for each stream operator below, what it remembered when the
 * marker came by (see op.h). A position adds what the consumer took after it. The text is JSON of at most 4 kB that
 * holds no data; it is parsed by a small strict reader of our own, since it comes from users' checkpoints. */
#include "exec/exec.h"

#include <inttypes.h>
#include <limits.h>

#define MAX_POSITION_BYTES 4096

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

hr_status hr__marker_copy(const hr_marker *m, hr_marker **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_marker *c = NULL;

    *out = NULL;
    HR_GO(hr__marker_new(m->at, &c, err));
    for (int i = 0; i < m->n_states; i++)
        HR_GO(hr__marker_add(c, m->states[i].op_index, m->states[i].text, (int64_t)strlen(m->states[i].text), err));
    *out = c;
    c = NULL;
done:
    hr__marker_drop(c);
    return st;
}

const char *hr__marker_state(const hr_marker *m, int op_index)
{
    for (int i = 0; m && i < m->n_states; i++)
        if (m->states[i].op_index == op_index)
            return m->states[i].text;
    return NULL;
}

/* --- printing */

static void print_marker(const hr_marker *m, hr_text *t)
{
    hr__text_add(t, ",\"at\":[%" PRId32 ",%" PRId32 ",%" PRId32 ",%" PRId64 "],\"ops\":{", m->at.instance, m->at.file,
                 m->at.fragment, m->at.row);
    for (int i = 0; i < m->n_states; i++) {
        hr__text_add(t, "%s\"%d\":", i ? "," : "", m->states[i].op_index);
        hr__text_add_json(t, m->states[i].text);
    }
    hr__text_add(t, "}");
}

hr_status hr__position_print(const hr_position *p, char **out, hr_error *err)
{
    hr_text t = { 0 };

    *out = NULL;
    hr__text_add(&t, "{\"epoch\":%" PRId64 ",\"seed\":%" PRIu64 ",\"plan\":\"%s\"", p->epoch, p->seed, p->plan);
    if (p->marker)
        print_marker(p->marker, &t);
    hr__text_add(&t, ",\"discard\":%" PRId64 ",\"end\":%s", p->discard_rows, p->at_end ? "true" : "false");
    if (p->extra[0])
        hr__text_add(&t, ",\"extra\":%s", p->extra);
    hr__text_add(&t, "}");
    if (t.failed || t.n > MAX_POSITION_BYTES) {
        bool failed = t.failed;
        int64_t n = t.n;

        hr__text_clear(&t);
        return failed ? hr__error_memory(err, "position", n)
                      : hr_error_set(err, HR_UNSUPPORTED, "position: %" PRId64 " bytes, at most %d are allowed", n,
                                     MAX_POSITION_BYTES);
    }
    *out = t.data;
    return HR_OK;
}

/* --- parsing: a cursor over the text; every function leaves it behind what it read */

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

/* A string into buf, with the escapes that hr__text_add_json writes for ASCII. */
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

static bool read_states(cursor *c, hr_marker *m, hr_status *st, hr_error *err)
{
    char key[16], text[1024];

    if (!eat(c, '{'))
        return false;
    while (!eat(c, '}')) {
        cursor k;
        uint64_t index;

        if ((m->n_states && !eat(c, ',')) || !read_string(c, key, sizeof key) || !eat(c, ':') ||
            !read_string(c, text, sizeof text))
            return false;
        k = (cursor){ key, key + strlen(key) };
        if (!read_int(&k, INT32_MAX, &index) || k.p != k.end)
            return false;
        if ((*st = hr__marker_add(m, (int)index, text, (int64_t)strlen(text), err)))
            return false;
    }
    return true;
}

/* Copies a JSON object as it stands. */
static bool read_object(cursor *c, char *buf, size_t cap)
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
        else if (*c->p == '{')
            depth++;
        else if (*c->p == '}' && --depth <= 0)
            break;
    }
    if (c->p >= c->end || *begin != '{' || (size_t)(++c->p - begin) >= cap)
        return false;
    memcpy(buf, begin, (size_t)(c->p - begin));
    buf[c->p - begin] = 0;
    return true;
}

static bool read_member(cursor *c, const char *key, hr_position *p, hr_status *st, hr_error *err)
{
    uint64_t v;

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
    return !strcmp(key, "ops") && read_states(c, p->marker, st, err);
}

hr_status hr__position_parse(const char *text, hr_position *out, hr_error *err)
{
    cursor c = { text, text + strlen(text) };
    char key[16];
    bool first = true, good = c.end - c.p <= MAX_POSITION_BYTES && eat(&c, '{');
    hr_status st = HR_OK;

    *out = (hr_position){ 0 };
    while (good && !eat(&c, '}')) {
        good = (first || eat(&c, ',')) && read_string(&c, key, sizeof key) && eat(&c, ':') &&
               read_member(&c, key, out, &st, err);
        first = false;
    }
    skip_space(&c);
    if (good && c.p == c.end && out->plan[0])
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
