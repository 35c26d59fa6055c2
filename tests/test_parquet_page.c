/* test_parquet_page.c - runs, bit widths, levels and values against slow and obvious versions, over random input. */
#include "arrays.h"
#include "format/parquet/parquet_page.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------------------------------------- runs, written */

/* 1 .. most, but no more than are left. HR_MIN would draw twice. */
static int64_t some_of(uint64_t *random, int64_t most, int64_t left)
{
    int64_t n = 1 + random_below(random, most);

    return HR_MIN(n, left);
}

typedef struct writer {
    uint8_t *data;
    int64_t n, cap;
} writer;

static void put(writer *w, uint64_t v, int n_bytes)
{
    if (w->n + n_bytes + HR_SLACK > w->cap) {
        w->cap = (w->n + n_bytes + HR_SLACK) * 2;
        w->data = realloc(w->data, (size_t)w->cap);
    }
    for (int i = 0; i < n_bytes; i++)
        w->data[w->n++] = (uint8_t)(v >> (8 * i));
}

static void put_varint(writer *w, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put(w, v | 0x80, 1);
    put(w, v, 1);
}

static void put_packed(writer *w, const uint32_t *values, int64_t n, int width)
{
    int64_t groups = (n + 7) / 8;
    uint64_t held = 0;
    int bits = 0;

    put_varint(w, (uint64_t)groups << 1 | 1);
    for (int64_t i = 0; i < groups * 8; i++) {
        held |= (uint64_t)(i < n ? values[i] : 0) << bits;
        for (bits += width; bits >= 8; bits -= 8, held >>= 8)
            put(w, held, 1);
    }
}

/* n values as runs of both kinds, by chance; packed runs before the last have full groups. */
static void put_runs(writer *w, uint64_t *random, const uint32_t *values, int64_t n, int width)
{
    for (int64_t i = 0; i < n;) {
        int64_t same = 1, k;

        while (i + same < n && values[i + same] == values[i])
            same++;
        if (same >= 8 || random_below(random, 4) == 0) {
            put_varint(w, (uint64_t)same << 1);
            put(w, values[i], (width + 7) / 8);
            i += same;
        } else {
            k = 8 * some_of(random, 40, n);
            k = HR_MIN(k, n - i);
            put_packed(w, values + i, k, width);
            i += k;
        }
    }
}

/* Random values of `width` bits, in stretches of one value and stretches of many. */
static void random_values(uint64_t *random, uint32_t *values, int64_t n, uint64_t below)
{
    for (int64_t i = 0; i < n;) {
        int64_t k = some_of(random, random_below(random, 2) ? 200 : 5, n - i);
        bool one = random_below(random, 2);
        uint32_t v = (uint32_t)random_below(random, (int64_t)below);

        for (; k > 0; k--)
            values[i++] = one ? v : (uint32_t)random_below(random, (int64_t)below);
    }
}

static void test_runs(void **state)
{
    static uint32_t values[5000], got[5000];
    uint64_t random = 11;

    (void)state;
    for (int width = 1; width <= 32; width++) {
        for (int round = 0; round < 20; round++) {
            int64_t n = random_below(&random, 5000), at = 0;
            writer w = { 0 };
            pq_runs r;

            random_values(&random, values, n, width == 32 ? 1ull << 32 : 1ull << width);
            put(&w, 0, 0);
            put_runs(&w, &random, values, n, width);
            pq__runs_init(&r, w.data, w.data + w.n, width);
            while (at < n) { /* read, and skipped, in pieces of any length */
                int64_t k = some_of(&random, 300, n - at);

                if (random_below(&random, 3) == 0) {
                    pq__runs_skip(&r, k);
                    memcpy(got + at, values + at, (size_t)k * 4);
                } else {
                    pq__runs_u32(&r, got + at, k);
                }
                at += k;
            }
            assert_false(r.bad);
            assert_memory_equal(got, values, (size_t)n * 4);
            if (width <= 8) {
                static uint8_t bytes[5000];

                pq__runs_init(&r, w.data, w.data + w.n, width);
                pq__runs_u8(&r, bytes, n);
                for (int64_t i = 0; i < n; i++)
                    assert_int_equal(bytes[i], values[i]);
            }
            free(w.data);
        }
    }
}

static void test_bad_runs(void **state)
{
    static const struct {
        const char *data;
        int n, width;
    } cases[] = { { "", 0, 3 },         { "\x80", 1, 3 }, { "\x06", 1, 3 },
                  { "\x06\x08", 2, 3 }, { "\x03", 1, 3 }, { "\xff\xff\xff\xff\xff\xff", 6, 3 },
                  { "\0\0\0\0", 4, 32 } };
    uint8_t padded[100] = { 0 };
    uint32_t got[9];

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        pq_runs r;

        memcpy(padded, cases[i].data, (size_t)cases[i].n);
        pq__runs_init(&r, padded, padded + cases[i].n, cases[i].width);
        pq__runs_u32(&r, got, 9);
        assert_true(r.bad);
    }
}

static void test_bit_packed(void **state)
{
    /* from the format's specification: 0 .. 7 of three bits */
    static const uint8_t data[] = { 0x05, 0x39, 0x77 };
    uint8_t got[8];

    (void)state;
    pq__bit_packed_u8(data, 3, got, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(got[i], i);
}

/* ----------------------------------------------------------------------------------------------------------- levels */

/* What tracks and validity should be, entry by entry. */
typedef struct slow {
    int64_t n, n_nulls, items;
    int64_t offsets[20000];
    bool valid[20000];
} slow;

static void slow_entry(slow *s, bool is_list, const pq_node *n, int def, int rep)
{
    if (rep <= n->rep && def >= n->def_slot) {
        s->offsets[s->n] = s->items;
        s->valid[s->n] = def >= n->def_valid;
        s->n_nulls += !s->valid[s->n];
        s->n++;
    }
    if (is_list && rep <= n->rep + 1 && def >= n->def_item)
        s->items++;
}

static bool valid_at(const pq_bits *b, int64_t i) { return !b->bytes.buffer || hr__bit(b->bytes.buffer->data, i); }

static void check_bits(const pq_bits *got, const slow *want)
{
    assert_int_equal(got->n, want->n);
    assert_int_equal(got->n_nulls, want->n_nulls);
    for (int64_t i = 0; i < want->n; i++)
        assert_int_equal(valid_at(got, i), want->valid[i]);
}

/* optional list<optional struct<optional list<optional leaf>>>, and parts of it. */
typedef struct shape {
    int max_def, max_rep, def_slot;
    uint8_t def_items[3];
    int n_tracks;
    bool is_list[3];
    pq_node nodes[3];
} shape;

static const shape shapes[] = {
    { .max_def = 0 },
    { .max_def = 1 },
    { .max_def = 2, .n_tracks = 1, .nodes = { { .def_valid = 1 } } },
    { .max_def = 3,
      .max_rep = 1,
      .def_items = { 0, 2 },
      .def_slot = 2,
      .n_tracks = 1,
      .is_list = { true },
      .nodes = { { .def_valid = 1, .def_item = 2 } } },
    { .max_def = 1,
      .max_rep = 1,
      .def_items = { 0, 1 },
      .def_slot = 1,
      .n_tracks = 1,
      .is_list = { true },
      .nodes = { { .def_item = 1 } } },
    { .max_def = 6,
      .max_rep = 2,
      .def_items = { 0, 2, 5 },
      .def_slot = 5,
      .n_tracks = 3,
      .is_list = { true, false, true },
      .nodes = { { .def_valid = 1, .def_item = 2 },
                 { .rep = 1, .def_slot = 2, .def_valid = 3 },
                 { .rep = 1, .def_slot = 2, .def_valid = 4, .def_item = 5 } } },
};

/* Whether entry i may go on with list r. */
static bool may_go_on(const shape *s, const uint32_t *def, int64_t i, uint32_t r)
{
    return r == 0 || (i > 0 && HR_MIN(def[i], def[i - 1]) >= s->def_items[r]);
}

static int64_t random_levels(uint64_t *random, const shape *s, uint32_t *def, uint32_t *rep, int64_t most)
{
    int64_t n = random_below(random, most);

    for (int64_t i = 0; i < n;) {
        int64_t k = some_of(random, random_below(random, 2) ? 2000 : 4, n - i);
        bool long_list = s->max_rep && random_below(random, 2);

        for (int64_t j = 0; j < k; j++, i++) {
            def[i] = long_list && random_below(random, 50) ? (uint32_t)s->max_def
                                                           : (uint32_t)random_below(random, s->max_def + 1);
            rep[i] = long_list && j ? (uint32_t)s->max_rep : (uint32_t)random_below(random, s->max_rep + 1);
        }
    }
    for (int64_t i = 0; i < n; i++)
        while (!may_go_on(s, def, i, rep[i]))
            rep[i]--;
    return n;
}

static int bits_for(int max) { return max ? 32 - __builtin_clz((unsigned)max) : 0; }

/* Takes pages of random levels in steps of rows and entries, and compares with entry by entry. */
static void check_levels(uint64_t *random, const shape *s)
{
    static uint32_t def[20000], rep[20000];
    static slow want_leaf, want[3];
    const pq_node leaf_node = { .rep = (uint8_t)s->max_rep,
                                .def_slot = (uint8_t)s->def_slot,
                                .def_valid = (uint8_t)s->max_def };
    pq_leaf leaf = { .max_def = (uint8_t)s->max_def, .max_rep = (uint8_t)s->max_rep, .def_slot = (uint8_t)s->def_slot };
    hr_mem mem = { NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    pq_track tracks[3] = { 0 };
    pq_bits valid = { .bytes.mem = &mem };
    int64_t n = random_levels(random, s, def, rep, 20000), rows = 0, entries = 0, slots = 0, values = 0,
            want_values = 0;
    writer d = { 0 }, r = { 0 };
    pq_levels lv = { .leaf = &leaf, .left = n, .last_def = 255 };

    memcpy(leaf.def_items, s->def_items, sizeof s->def_items);
    memset(&want_leaf, 0, sizeof want_leaf);
    memset(want, 0, sizeof want);
    put(&d, 0, 0);
    put(&r, 0, 0);
    put_runs(&d, random, def, n, bits_for(s->max_def));
    put_runs(&r, random, rep, n, bits_for(s->max_rep));
    pq__runs_init(&lv.def, d.data, d.data + d.n, bits_for(s->max_def));
    pq__runs_init(&lv.rep, r.data, r.data + r.n, bits_for(s->max_rep));
    for (int i = 0; i < s->n_tracks; i++)
        tracks[i] = (pq_track){ .node = &s->nodes[i],
                                .is_list = s->is_list[i],
                                .offset_bytes = i ? 8 : 4,
                                .valid.bytes.mem = &mem,
                                .offsets.mem = &mem };
    for (int64_t i = 0; i < n; i++) {
        rows += rep[i] == 0;
        want_values += def[i] == (uint32_t)s->max_def && (int)def[i] >= s->def_slot;
        slow_entry(&want_leaf, false, &leaf_node, (int)def[i], (int)rep[i]);
        for (int k = 0; k < s->n_tracks; k++)
            slow_entry(&want[k], s->is_list[k], &s->nodes[k], (int)def[i], (int)rep[i]);
    }
    while (lv.left > 0) {
        int64_t some = 1 + random_below(random, 700);
        pq_take t = { .tracks = tracks,
                      .n_tracks = s->n_tracks,
                      .valid = &valid,
                      .rows = some,
                      .max_entries = 1 + random_below(random, 3000) };

        assert_ok(pq__levels_take(&lv, &t, &err), &err);
        rows -= some - t.rows;
        entries += t.n_entries;
        slots += t.n_slots;
        values += t.n_values;
        /* it stops at the limit of entries, at the end, or before a row too many */
        assert_true(t.n_entries == t.max_entries || lv.left == 0 || t.rows == 0);
        assert_true(lv.left == 0 || t.n_entries == t.max_entries || rep[entries] == 0);
    }
    assert_int_equal(rows, 0);
    assert_int_equal(entries, n);
    assert_int_equal(slots, want_leaf.n);
    assert_int_equal(values, want_values);
    check_bits(&valid, &want_leaf);
    for (int k = 0; k < s->n_tracks; k++) {
        check_bits(&tracks[k].valid, &want[k]);
        assert_int_equal(tracks[k].items, want[k].items);
        for (int64_t i = 0; s->is_list[k] && i < want[k].n; i++) {
            int64_t at = 0;

            memcpy(&at, tracks[k].offsets.buffer->data + i * tracks[k].offset_bytes, (size_t)tracks[k].offset_bytes);
            assert_int_equal(at, want[k].offsets[i]);
        }
        hr__growbuf_clear(&tracks[k].valid.bytes);
        hr__growbuf_clear(&tracks[k].offsets);
    }
    hr__growbuf_clear(&valid.bytes);
    free(d.data);
    free(r.data);
}

/* One entry of a page is changed into one that no column can have: the entry itself, or the one after it, is an error,
 * also where it stands in a run and where it is the last of a page. */
static void check_malformed(uint64_t *random, const shape *s)
{
    static uint32_t def[3000], rep[3000];
    pq_leaf leaf = { .max_def = (uint8_t)s->max_def, .max_rep = (uint8_t)s->max_rep, .def_slot = (uint8_t)s->def_slot };
    int64_t n = 1 + random_levels(random, s, def, rep, 2999), at = random_below(random, n);
    int def_bits = bits_for(s->max_def), rep_bits = bits_for(s->max_rep);
    bool too_high = s->max_def + 1 < 1 << def_bits && random_below(random, 2);
    pq_take t = { .rows = INT64_MAX, .max_entries = INT64_MAX };
    pq_levels lv = { .leaf = &leaf, .left = n, .last_def = 255 };
    hr_error err = HR_ERROR_INIT;
    writer d = { 0 }, r = { 0 };
    bool wrong;

    def[n - 1] = rep[n - 1] = 0;
    memcpy(leaf.def_items, s->def_items, sizeof s->def_items);
    if (too_high)
        def[at] = (uint32_t)s->max_def + 1;
    else if (s->max_rep)
        rep[at] = (uint32_t)s->max_rep;
    wrong = too_high || (at > 0 && !may_go_on(s, def, at, rep[at]));
    if (at == 0 && rep[0] > 0) {
        lv.last_def = (uint8_t)random_below(random, s->max_def + 1); /* the page before ended so */
        wrong = wrong || HR_MIN(lv.last_def, (int)def[0]) < s->def_items[rep[0]];
    }
    put(&d, 0, 0);
    put(&r, 0, 0);
    put_runs(&d, random, def, n, def_bits);
    put_runs(&r, random, rep, n, rep_bits);
    pq__runs_init(&lv.def, d.data, d.data + d.n, def_bits);
    pq__runs_init(&lv.rep, r.data, r.data + r.n, rep_bits);
    assert_status(pq__levels_take(&lv, &t, &err), wrong ? HR_BAD_DATA : HR_OK, &err);
    if (wrong)
        assert_contains(err.text, too_high ? "expected at most" : "goes on with a list that has no item");
    else
        assert_ok(pq__levels_end(&lv, 0, &err), &err);
    hr_error_clear(&err);
    free(d.data);
    free(r.data);
}

static void test_malformed_levels(void **state)
{
    uint64_t random = 6;

    (void)state;
    for (int i = 2; i < HR_LEN(shapes); i++) {
        for (int round = 0; round < 300; round++)
            check_malformed(&random, &shapes[i]);
    }
}

static void test_levels(void **state)
{
    live_memory before = live_now();
    uint64_t random = 5;

    (void)state;
    for (int i = 0; i < HR_LEN(shapes); i++) {
        for (int round = 0; round < 30; round++)
            check_levels(&random, &shapes[i]);
    }
    assert_no_leak(before);
}

/* ----------------------------------------------------------------------------------------------------------- values */

/* Values of a fixed width by dictionary and plain, read and skipped in pieces. */
static void check_values(uint64_t *random, int width, int64_t n_dict)
{
    pq_leaf leaf = { .physical = PQ_FIXED, .stored_width = width, .kind = PQ_K_COPY, .width = width };
    int64_t n = random_below(random, 4000), at = 0;
    uint32_t *index = malloc((size_t)n * 4 + 4);
    uint8_t *dict_page = malloc((size_t)(n_dict * width) + HR_SLACK), *got = malloc((size_t)(n * width) + 1);
    hr_mem mem = { NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    pq_dict *dict = NULL;
    hr_buffer *held = NULL;
    hr_view page = { NULL, n_dict * width };
    pq_values v = { 0 };
    writer w = { 0 };
    int bits = bits_for((int)n_dict - 1);

    for (int64_t i = 0; i < n_dict * width; i++)
        dict_page[i] = (uint8_t)next_random(random);
    random_values(random, index, n, (uint64_t)n_dict);
    put(&w, (uint64_t)bits, 1);
    if (bits)
        put_runs(&w, random, index, n, bits);
    page.data = dict_page;
    if (random_below(random, 2)) { /* the dictionary takes the page's buffer */
        assert_ok(hr__buffer_new(&mem, page.n, &held, &err), &err);
        page.data = memcpy(held->data, dict_page, (size_t)page.n);
    }
    assert_ok(pq__dict_new(&leaf, page, n_dict, 0, &mem, &held, &dict, &err), &err);
    assert_null(held);
    assert_ok(pq__values_init(&v, &leaf, dict, PQ_RLE_DICTIONARY, (hr_view){ w.data, w.n }, &err), &err);
    while (at < n) {
        int64_t k = some_of(random, 2500, n - at);

        if (random_below(random, 3) == 0) {
            assert_ok(pq__values_skip(&v, k, &err), &err);
        } else {
            assert_ok(pq__values_fixed(&v, got, k, &err), &err);
            for (int64_t i = 0; i < k; i++)
                assert_memory_equal(got + i * width, dict_page + index[at + i] * (size_t)width, (size_t)width);
        }
        at += k;
    }
    pq__dict_unref(dict);
    free(index);
    free(dict_page);
    free(got);
    free(w.data);
}

static void test_dictionaries(void **state)
{
    static const int widths[] = { 1, 2, 3, 4, 8, 12, 16, 32, 33 };
    uint64_t random = 9;

    (void)state;
    for (int i = 0; i < HR_LEN(widths); i++) {
        for (int64_t n_dict = 1; n_dict < 5000; n_dict = n_dict * 3 + 1)
            check_values(&random, widths[i], n_dict);
    }
}

/* Stored values of every kind of conversion. */
static void test_conversions(void **state)
{
    static const uint8_t in32[] = { 0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0 };
    static const uint8_t in96[] = { 1, 0, 0, 0, 0, 0, 0, 0, 0x8c, 0x3d, 0x25, 0,
                                    0, 0, 0, 0, 0, 0, 0, 0, 0x8b, 0x3d, 0x25, 0 };
    static const uint8_t be[] = { 0xff, 0xff, 0xfe, 0, 0, 7 };
    static const uint8_t long_be[20] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2 };
    static const uint8_t too_long[20] = { 1 };
    pq_leaf leaves[] = {
        { .physical = PQ_INT32, .stored_width = 4, .kind = PQ_K_NARROW, .width = 1 },
        { .physical = PQ_INT32, .stored_width = 4, .kind = PQ_K_NARROW, .width = 2 },
        { .physical = PQ_INT96, .stored_width = 12, .kind = PQ_K_INT96, .width = 8 },
        { .physical = PQ_INT32, .stored_width = 4, .kind = PQ_K_DECIMAL, .width = 16 },
        { .physical = PQ_FIXED, .stored_width = 3, .kind = PQ_K_DECIMAL, .width = 32 },
        { .physical = PQ_FIXED, .stored_width = 20, .kind = PQ_K_DECIMAL, .width = 16 },
        { .physical = PQ_FIXED, .stored_width = 20, .kind = PQ_K_DECIMAL, .width = 16 },
    };
    const hr_view in[] = { { in32, 8 }, { in32, 8 },     { in96, 24 },    { in32, 8 },
                           { be, 6 },   { long_be, 20 }, { too_long, 20 } };
    static const struct {
        int n;
        int64_t want[2];
        int64_t high; /* the first value's upper half */
        hr_status st;
    } out[] = { { 2, { 0xff, 5 }, 0, HR_OK }, { 2, { 0xffff, 5 }, 0, HR_OK }, { 2, { 1, -86400000000000 }, 0, HR_OK },
                { 2, { -1, 5 }, -1, HR_OK },  { 2, { -2, 7 }, -1, HR_OK },    { 1, { 258 }, 0, HR_OK },
                { 1, { 0 }, 0, HR_BAD_DATA } };

    (void)state;
    for (int i = 0; i < HR_LEN(leaves); i++) {
        uint8_t got[64] = { 0 };
        hr_error err = HR_ERROR_INIT;
        int64_t v = 0;
        pq_values values = { 0 };

        assert_ok(pq__values_init(&values, &leaves[i], NULL, PQ_PLAIN, in[i], &err), &err);
        assert_status(pq__values_fixed(&values, got, out[i].n, &err), out[i].st, &err);
        for (int k = 0; k < out[i].n && !out[i].st; k++) {
            memcpy(&v, got + k * leaves[i].width, (size_t)HR_MIN(leaves[i].width, 8));
            assert_int_equal(v, out[i].want[k]);
        }
        memcpy(&v, got + 8, 8);
        if (leaves[i].width > 8 && !out[i].st)
            assert_int_equal(v, out[i].high);
        assert_true(out[i].st || pq__values_fixed(&values, got, 1, &err) == HR_BAD_DATA); /* no more */
    }
}

static void test_booleans(void **state)
{
    static const uint8_t plain[] = { 0x35, 0x01 }, rle[] = { 4, 0, 0, 0, 6, 1, 3, 0x02 };
    pq_leaf leaf = { .physical = PQ_BOOLEAN, .kind = PQ_K_BOOL };
    hr_error err = HR_ERROR_INIT;
    uint8_t got[4] = { 0 };
    pq_values v = { 0 };

    (void)state;
    assert_ok(pq__values_init(&v, &leaf, NULL, PQ_PLAIN, (hr_view){ plain, 2 }, &err), &err);
    assert_ok(pq__values_bits(&v, got, 3, 4, &err), &err);
    assert_int_equal(got[0], 0x05 << 3);
    assert_ok(pq__values_skip(&v, 1, &err), &err);
    assert_ok(pq__values_bits(&v, got, 8, 4, &err), &err);
    assert_int_equal(got[1], 0x9);
    assert_status(pq__values_bits(&v, got, 0, 8, &err), HR_BAD_DATA, &err);
    memset(got, 0, sizeof got);
    assert_ok(pq__values_init(&v, &leaf, NULL, PQ_RLE, (hr_view){ rle, 8 }, &err), &err);
    assert_ok(pq__values_bits(&v, got, 0, 2, &err), &err);
    assert_ok(pq__values_skip(&v, 1, &err), &err);
    assert_ok(pq__values_bits(&v, got, 2, 8, &err), &err);
    assert_int_equal(got[0], 0x0b);
    assert_status(pq__values_bits(&v, got, 0, 1, &err), HR_BAD_DATA, &err);
}

static void test_texts(void **state)
{
    static uint8_t page[100] = "\3\0\0\0abc\0\0\0\0\1\0\0\0d";
    pq_leaf leaf = { .physical = PQ_BYTE_ARRAY, .kind = PQ_K_BYTES, .width = 4 };
    hr_error err = HR_ERROR_INIT;
    hr_view got[3];
    pq_values v = { 0 };
    int64_t sum, n = 2;

    (void)state;
    assert_ok(pq__values_init(&v, &leaf, NULL, PQ_PLAIN, (hr_view){ page, 16 }, &err), &err);
    assert_ok(pq__values_skip(&v, 1, &err), &err);
    assert_ok(pq__values_views(&v, got, &n, &sum, &err), &err);
    assert_int_equal(sum, 1);
    assert_int_equal(got[0].n, 0);
    assert_int_equal(got[1].data[0], 'd');
    assert_status(pq__values_views(&v, got, &n, &sum, &err), HR_BAD_DATA, &err);
    n = 3;
    for (int64_t cut = 0; cut < 16; cut++) {
        assert_ok(pq__values_init(&v, &leaf, NULL, PQ_PLAIN, (hr_view){ page, cut }, &err), &err);
        assert_status(pq__values_views(&v, got, &n, &sum, &err), HR_BAD_DATA, &err);
    }
    hr_error_clear(&err);
}

/* ------------------------------------------------------------------------------------------------------ differences */

static uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }

static void put_bits(writer *w, const uint64_t *values, int64_t n, int width)
{
    uint8_t held = 0;
    int bits = 0;

    for (int64_t i = 0; i < n; i++) {
        for (int b = 0; b < width; b++) {
            held |= (uint8_t)((values[i] >> b & 1) << bits);
            if (++bits == 8) {
                put(w, held, 1);
                held = 0;
                bits = 0;
            }
        }
    }
}

/* Blocks of 128 in 4 miniblocks, as all writers make them; the last ones may have no values and then no bits. */
static void put_delta(writer *w, const int64_t *values, int64_t n)
{
    put_varint(w, 128);
    put_varint(w, 4);
    put_varint(w, (uint64_t)n);
    put_varint(w, zigzag(n ? values[0] : 0));
    for (int64_t i = 1; i < n; i += 128) {
        int64_t k = HR_MIN(128, n - i), least = INT64_MAX;
        uint64_t deltas[128] = { 0 };
        int widths[4] = { 0 };

        for (int64_t j = 0; j < k; j++)
            least = HR_MIN(least, (int64_t)((uint64_t)values[i + j] - (uint64_t)values[i + j - 1]));
        for (int64_t j = 0; j < k; j++) {
            deltas[j] = (uint64_t)values[i + j] - (uint64_t)values[i + j - 1] - (uint64_t)least;
            while (widths[j / 32] < 64 && deltas[j] >> widths[j / 32])
                widths[j / 32]++;
        }
        put_varint(w, zigzag(least));
        for (int m = 0; m < 4; m++)
            put(w, (uint64_t)widths[m], 1);
        for (int m = 0; m * 32 < k; m++)
            put_bits(w, deltas + m * 32, 32, widths[m]);
    }
}

static void test_delta(void **state)
{
    static int64_t values[3000], got[3000];
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 21;

    (void)state;
    for (int round = 0; round < 300; round++) {
        int64_t n = random_below(&random, 3000), at = 0;
        int shift = (int)random_below(&random, 64);
        hr_view rest;
        writer w = { 0 };
        pq_delta d;

        for (int64_t i = 0; i < n; i++) {
            bool far = random_below(&random, 8) == 0;

            values[i] = far ? (int64_t)next_random(&random) : (int64_t)(next_random(&random) >> shift);
        }
        put_delta(&w, values, n);
        put(&w, 0x77, 1);
        assert_ok(pq__delta_init(&d, 64, (hr_view){ w.data, w.n }, &rest, &err), &err);
        assert_int_equal(rest.n, 1);
        assert_int_equal(rest.data[0], 0x77);
        for (int64_t k = 0; at < n; at += k) {
            k = some_of(&random, 400, n - at);
            assert_ok(pq__delta_read(&d, got + at, k, &err), &err);
        }
        assert_memory_equal(got, values, (size_t)n * 8);
        assert_status(pq__delta_read(&d, got, 1, &err), HR_BAD_DATA, &err);
        for (int64_t cut = 1; n > 300 && cut < w.n / 2; cut += 1 + w.n / 30) /* the end may lack padding */
            assert_status(pq__delta_init(&d, 64, (hr_view){ w.data, cut }, &rest, &err), HR_BAD_DATA, &err);
        free(w.data);
    }
    hr_error_clear(&err);
}

/* Texts by lengths, and by what they share with the one before; read in pieces, skipped in pieces. */
static void test_delta_texts(void **state)
{
    static int64_t prefixes[2000], lengths[2000];
    static char texts[2000][40];
    hr_mem mem = { NULL, NULL };
    uint64_t random = 23;

    (void)state;
    for (int round = 0; round < 60; round++) {
        bool shared = round % 2;
        pq_leaf leaf = { .physical = PQ_BYTE_ARRAY, .kind = PQ_K_BYTES, .width = 4 };
        int64_t n = 1 + random_below(&random, 1999), at = 0, k, sum;
        hr_error err = HR_ERROR_INIT;
        static hr_view got[PQ_BLOCK];
        writer w = { 0 };
        pq_values v = { .mem = mem };

        for (int64_t i = 0; i < n; i++) {
            int64_t had = i ? (int64_t)strlen(texts[i - 1]) : 0;

            prefixes[i] = shared && i ? random_below(&random, HR_MIN(had, 25) + 1) : 0;
            lengths[i] = random_below(&random, 12);
            memcpy(texts[i], texts[i ? i - 1 : 0], (size_t)prefixes[i]);
            for (int64_t j = 0; j < lengths[i]; j++)
                texts[i][prefixes[i] + j] = (char)('a' + random_below(&random, 26));
            texts[i][prefixes[i] + lengths[i]] = 0;
        }
        if (shared)
            put_delta(&w, prefixes, n);
        put_delta(&w, lengths, n);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < lengths[i]; j++)
                put(&w, (uint8_t)texts[i][prefixes[i] + j], 1);
        }
        assert_ok(
            pq__values_init(&v, &leaf, NULL, shared ? PQ_DELTA_BYTES : PQ_DELTA_LENGTH, (hr_view){ w.data, w.n }, &err),
            &err);
        for (; at < n; at += k) {
            k = some_of(&random, PQ_BLOCK, n - at);
            if (random_below(&random, 3) == 0) {
                assert_ok(pq__values_skip(&v, k, &err), &err);
                continue;
            }
            assert_ok(pq__values_views(&v, got, &k, &sum, &err), &err);
            for (int64_t i = 0; i < k; i++) {
                assert_int_equal(got[i].n, strlen(texts[at + i]));
                assert_memory_equal(got[i].data, texts[at + i], (size_t)got[i].n);
            }
        }
        k = 1;
        assert_status(pq__values_views(&v, got, &k, &sum, &err), HR_BAD_DATA, &err);
        pq__values_clear(&v);
        free(w.data);
        hr_error_clear(&err);
    }
}

static void test_split(void **state)
{
    static const int widths[] = { 1, 2, 4, 8, 12 };
    hr_mem mem = { NULL, NULL };
    uint64_t random = 25;

    (void)state;
    for (int i = 0; i < HR_LEN(widths); i++) {
        int w = widths[i];
        pq_leaf leaf = { .physical = PQ_FIXED, .stored_width = w, .kind = PQ_K_COPY, .width = w };
        hr_error err = HR_ERROR_INIT;
        int64_t n = 3001, at = 0, k;
        uint8_t *values = malloc((size_t)(n * w)), *page = malloc((size_t)(n * w)), *got = malloc((size_t)(n * w));
        pq_values v = { .mem = mem };

        for (int64_t j = 0; j < n * w; j++) {
            values[j] = (uint8_t)next_random(&random);
            page[j % w * n + j / w] = values[j];
        }
        assert_ok(pq__values_init(&v, &leaf, NULL, PQ_BYTE_SPLIT, (hr_view){ page, n * w }, &err), &err);
        for (; at < n; at += k) {
            k = some_of(&random, 2000, n - at);
            if (random_below(&random, 3) == 0) {
                assert_ok(pq__values_skip(&v, k, &err), &err);
                continue;
            }
            assert_ok(pq__values_fixed(&v, got, k, &err), &err);
            assert_memory_equal(got, values + at * w, (size_t)(k * w));
        }
        assert_status(pq__values_fixed(&v, got, 1, &err), HR_BAD_DATA, &err);
        free(values);
        free(page);
        free(got);
    }
}

static void test_ascii(void **state)
{
    uint8_t text[200];

    (void)state;
    memset(text, 'a', sizeof text);
    for (int64_t n = 0; n < 130; n++) {
        for (int64_t i = 0; i < n; i++) {
            assert_true(pq__is_ascii(text + 1, n));
            text[1 + i] = 0x80;
            assert_false(pq__is_ascii(text + 1, n));
            text[1 + i] = 'a';
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_bad_runs),
        cmocka_unit_test(test_bit_packed),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_malformed_levels),
        cmocka_unit_test(test_dictionaries),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_booleans),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_delta),
        cmocka_unit_test(test_delta_texts),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_ascii),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
