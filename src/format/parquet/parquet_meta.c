/* parquet_meta.c - footer and page headers: Thrift's compact protocol -> pq_meta and pq_page.
 *
 * pq_meta holds only what every reader uses; the parser skips statistics and encodings of columns, and parquet_index.c
 * reads them from the footer's bytes when they are needed. pq_meta keeps these bytes, and names point into them.
 *
 * Bounds. The length of a list is valid if the bytes that are left can hold its elements, each with the fewest bytes of
 * a valid element; so the tables of a footer are at most about 30 times as large as the footer. The nesting of skipped
 * structs is limited. check_chunks checks offsets and sizes of column chunks against the file, once. */
#include "format/parquet/parquet_meta.h"

#define MAX_SKIP_DEPTH 32
#define TAIL_BYTES (64 << 10) /* the first read, from the file's end: holds most footers whole */
#define MIN_ELEMENT_BYTES 3   /* a name's header and length, and the end */
#define MIN_CHUNK_BYTES 4
#define MIN_GROUP_BYTES 4
#define MAX_DICTIONARY_HEADER 100
#define NO_CONVERTED INT64_MIN

/* ----------------------------------------------------------------------------------------------------------- Thrift */

static void fail(pq_thrift *t, const char *wrong)
{
    if (!t->wrong)
        t->wrong = wrong;
    t->at = t->end;
}

static void fail_short(pq_thrift *t)
{
    if (!t->wrong)
        t->short_of = true;
    fail(t, "it is cut off");
}

static uint8_t byte(pq_thrift *t)
{
    if (t->at < t->end)
        return *t->at++;
    fail_short(t);
    return 0;
}

static uint64_t varint(pq_thrift *t)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t b = byte(t);

        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    fail(t, "a number has more than 64 bits");
    return 0;
}

static int64_t zigzag(pq_thrift *t)
{
    uint64_t v = varint(t);

    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

bool pq__thrift_next(pq_thrift *t, pq_slot *f)
{
    uint8_t b = byte(t);

    f->type = b & 15;
    if (t->wrong || f->type == 0)
        return false;
    f->id = b >> 4 ? f->id + (b >> 4) : (int)(int16_t)zigzag(t);
    if (f->type > PQ_T_STRUCT)
        fail(t, "a field has an unknown type");
    f->seen |= f->id >= 0 && f->id < 32 ? PQ_FIELD(f->id) : 0;
    return !t->wrong;
}

/* At the end of a struct: sets t->wrong unless it had all these fields. */
static void thrift_require(pq_thrift *t, const pq_slot *f, uint32_t fields, const char *wrong)
{
    if ((f->seen & fields) != fields)
        fail(t, wrong);
}

int64_t pq__thrift_int(pq_thrift *t, const pq_slot *f)
{
    if (f->type == PQ_T_I8)
        return (int8_t)byte(t);
    if (f->type >= PQ_T_I16 && f->type <= PQ_T_I64)
        return zigzag(t);
    fail(t, "a field is not an integer");
    return 0;
}

static bool thrift_bool(pq_thrift *t, const pq_slot *f)
{
    if (f->type != PQ_T_TRUE && f->type != PQ_T_FALSE)
        fail(t, "a field is not a boolean");
    return f->type == PQ_T_TRUE;
}

static hr_view bytes(pq_thrift *t)
{
    uint64_t n = varint(t);
    hr_view v = { t->at, (int64_t)n };

    if (n > (uint64_t)(t->end - t->at)) {
        fail_short(t);
        return (hr_view){ (const uint8_t *)"", 0 };
    }
    t->at += n;
    return v;
}

hr_view pq__thrift_bytes(pq_thrift *t, const pq_slot *f)
{
    if (f->type == PQ_T_BINARY)
        return bytes(t);
    fail(t, "a field is not a text");
    return (hr_view){ (const uint8_t *)"", 0 };
}

hr_view pq__thrift_item_bytes(pq_thrift *t) { return bytes(t); }
int64_t pq__thrift_item_int(pq_thrift *t) { return zigzag(t); }
bool pq__thrift_item_bool(pq_thrift *t) { return byte(t) == PQ_T_TRUE; }

static uint64_t list_header(pq_thrift *t, int *type)
{
    uint8_t b = byte(t);

    *type = b & 15;
    return b >> 4 == 15 ? varint(t) : b >> 4;
}

int64_t pq__thrift_list(pq_thrift *t, const pq_slot *f, int type, int64_t min_bytes)
{
    int found = 0;
    uint64_t n;

    if (f->type != PQ_T_LIST) {
        fail(t, "a field is not a list");
        return 0;
    }
    n = list_header(t, &found);
    if (type == PQ_T_TRUE && found == PQ_T_FALSE)
        found = PQ_T_TRUE; /* writers use both types for lists of booleans */
    if (n > 0 && found != type) {
        fail(t, "a list has elements of another type");
    } else if (n > (uint64_t)(t->end - t->at) / (uint64_t)min_bytes) {
        t->short_of = !t->wrong;
        fail(t, "a list is longer than the bytes that are left");
    }
    return t->wrong ? 0 : (int64_t)n;
}

bool pq__thrift_struct(pq_thrift *t, const pq_slot *f)
{
    if (f->type != PQ_T_STRUCT)
        fail(t, "a field is not a struct");
    return !t->wrong;
}

static void skip(pq_thrift *t, int type, int depth);

static void skip_elements(pq_thrift *t, int type, uint64_t n, int depth)
{
    if (n > (uint64_t)(t->end - t->at)) /* each element takes a byte at least; so does a boolean in a list */
        fail_short(t);
    for (uint64_t i = 0; i < n && !t->wrong; i++) {
        if (type == PQ_T_TRUE || type == PQ_T_FALSE)
            byte(t);
        else
            skip(t, type, depth);
    }
}

static void skip(pq_thrift *t, int type, int depth)
{
    pq_slot f = { 0 };
    int element = 0;
    uint64_t n;

    if (depth > MAX_SKIP_DEPTH)
        fail(t, "structs are nested too deep");
    switch (type) {
    case PQ_T_TRUE:
    case PQ_T_FALSE: break;
    case PQ_T_I8: byte(t); break;
    case PQ_T_I16:
    case PQ_T_I32:
    case PQ_T_I64: varint(t); break;
    case PQ_T_DOUBLE:
        if (t->end - t->at < 8)
            fail_short(t);
        else
            t->at += 8;
        break;
    case PQ_T_BINARY: bytes(t); break;
    case PQ_T_LIST:
    case PQ_T_SET:
        n = list_header(t, &element);
        skip_elements(t, element, n, depth + 1);
        break;
    case PQ_T_MAP:
        n = varint(t);
        element = n ? byte(t) : 0;
        for (uint64_t i = 0; i < n && !t->wrong; i++) {
            skip_elements(t, element >> 4, 1, depth + 1);
            skip_elements(t, element & 15, 1, depth + 1);
        }
        break;
    case PQ_T_STRUCT:
        while (pq__thrift_next(t, &f))
            skip(t, f.type, depth + 1);
        break;
    default: fail(t, "a field has an unknown type");
    }
}

void pq__thrift_skip(pq_thrift *t, const pq_slot *f) { skip(t, f->type, 0); }

/* ----------------------------------------------------------------------------------------------------------- schema */

/* TimeUnit is a union of empty structs: the one field that it has is the unit. */
static uint8_t read_unit(pq_thrift *t, const pq_slot *in)
{
    pq_slot f = { 0 };

    if (!pq__thrift_struct(t, in))
        return HR_MILLI;
    while (pq__thrift_next(t, &f))
        pq__thrift_skip(t, &f);
    switch (f.seen) {
    case PQ_FIELD(1): return HR_MILLI;
    case PQ_FIELD(2): return HR_MICRO;
    case PQ_FIELD(3): return HR_NANO;
    default: fail(t, "the unit of a time is unknown"); return HR_MILLI;
    }
}

static void read_decimal(pq_thrift *t, pq_element *e)
{
    pq_slot f = { 0 };

    while (pq__thrift_next(t, &f)) {
        if (f.id == 1)
            e->scale = (int32_t)pq__thrift_int(t, &f);
        else if (f.id == 2)
            e->precision = (int32_t)pq__thrift_int(t, &f);
        else
            pq__thrift_skip(t, &f);
    }
    thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2), "a decimal lacks its scale or precision");
}

static void read_time(pq_thrift *t, pq_element *e)
{
    pq_slot f = { 0 };

    while (pq__thrift_next(t, &f)) {
        if (f.id == 1)
            e->utc = thrift_bool(t, &f);
        else if (f.id == 2)
            e->unit = read_unit(t, &f);
        else
            pq__thrift_skip(t, &f);
    }
    thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2), "a time lacks its unit or its zone");
}

static void read_integer(pq_thrift *t, pq_element *e)
{
    pq_slot f = { 0 };

    while (pq__thrift_next(t, &f)) {
        if (f.id == 1)
            e->bits = (int32_t)pq__thrift_int(t, &f);
        else if (f.id == 2)
            e->is_signed = thrift_bool(t, &f);
        else
            pq__thrift_skip(t, &f);
    }
    thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2), "an integer lacks its width or sign");
}

/* The union LogicalType. A kind that is newer than this reader leaves the stored type as it is. */
static void read_logical(pq_thrift *t, const pq_slot *in, pq_element *e)
{
    static const uint8_t kinds[] = { [1] = PQ_L_STRING,   [2] = PQ_L_MAP,     [3] = PQ_L_LIST,  [4] = PQ_L_ENUM,
                                     [5] = PQ_L_DECIMAL,  [6] = PQ_L_DATE,    [7] = PQ_L_TIME,  [8] = PQ_L_TIMESTAMP,
                                     [10] = PQ_L_INTEGER, [11] = PQ_L_NULL,   [12] = PQ_L_JSON, [13] = PQ_L_BSON,
                                     [14] = PQ_L_UUID,    [15] = PQ_L_FLOAT16 };
    pq_slot f = { 0 };

    if (!pq__thrift_struct(t, in))
        return;
    while (pq__thrift_next(t, &f)) {
        e->logical = f.id > 0 && f.id < HR_LEN(kinds) && kinds[f.id] ? kinds[f.id] : PQ_L_OTHER;
        if (!pq__thrift_struct(t, &f))
            return;
        switch (e->logical) {
        case PQ_L_DECIMAL: read_decimal(t, e); break;
        case PQ_L_TIME:
        case PQ_L_TIMESTAMP: read_time(t, e); break;
        case PQ_L_INTEGER: read_integer(t, e); break;
        default: pq__thrift_skip(t, &f);
        }
    }
    if (f.seen & (f.seen - 1))
        fail(t, "a column has two logical types");
}

/* The older ConvertedType, used if the element has no logical type. */
static void apply_converted(pq_element *e, int64_t converted)
{
    static const struct {
        uint8_t logical, unit, bits;
        bool is_signed;
    } table[] = {
        { PQ_L_STRING, 0, 0, 0 },
        { PQ_L_MAP, 0, 0, 0 },
        { PQ_L_MAP, 0, 0, 0 },
        { PQ_L_LIST, 0, 0, 0 },
        { PQ_L_ENUM, 0, 0, 0 },
        { PQ_L_DECIMAL, 0, 0, 0 },
        { PQ_L_DATE, 0, 0, 0 },
        { PQ_L_TIME, HR_MILLI, 0, 0 },
        { PQ_L_TIME, HR_MICRO, 0, 0 },
        { PQ_L_TIMESTAMP, HR_MILLI, 0, 0 },
        { PQ_L_TIMESTAMP, HR_MICRO, 0, 0 },
        { PQ_L_INTEGER, 0, 8, false },
        { PQ_L_INTEGER, 0, 16, false },
        { PQ_L_INTEGER, 0, 32, false },
        { PQ_L_INTEGER, 0, 64, false },
        { PQ_L_INTEGER, 0, 8, true },
        { PQ_L_INTEGER, 0, 16, true },
        { PQ_L_INTEGER, 0, 32, true },
        { PQ_L_INTEGER, 0, 64, true },
        { PQ_L_JSON, 0, 0, 0 },
        { PQ_L_BSON, 0, 0, 0 },
        { PQ_L_INTERVAL, 0, 0, 0 },
    };

    if (converted == 24) { /* "NA": parquet-cpp wrote it for nulls before there was a logical type for them */
        e->logical = PQ_L_NULL;
        return;
    }
    if (converted < 0 || converted >= HR_LEN(table))
        return;
    e->logical = table[converted].logical;
    e->unit = table[converted].unit;
    e->utc = true;
    if (table[converted].bits) {
        e->bits = table[converted].bits;
        e->is_signed = table[converted].is_signed;
    }
}

/* Writers write types in the new form and in the old one, which gets no new types: both must agree. */
static void check_converted(pq_thrift *t, const pq_element *e, int64_t converted)
{
    pq_element old = { 0 };

    if (converted == NO_CONVERTED)
        return;
    apply_converted(&old, converted);
    if (old.logical == PQ_L_NONE)
        fail(t, "a column has an unknown converted type");
    else if (e->logical != PQ_L_NONE &&
             (e->logical != old.logical ||
              ((old.logical == PQ_L_TIME || old.logical == PQ_L_TIMESTAMP) && e->unit != old.unit) ||
              (old.logical == PQ_L_INTEGER && (e->bits != old.bits || e->is_signed != old.is_signed))))
        fail(t, "a column's logical and converted types differ");
}

static void read_element(pq_thrift *t, pq_element *e)
{
    int64_t converted = NO_CONVERTED, n;
    bool has_logical = false;
    pq_slot f = { 0 };

    *e = (pq_element){ .name = { (const uint8_t *)"", 0 }, .physical = -1, .field_id = -1 };
    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 1:
            n = pq__thrift_int(t, &f);
            if (n < 0 || n >= PQ_N_PHYSICAL)
                fail(t, "a column has an unknown physical type");
            e->physical = (int8_t)n;
            break;
        case 2: e->width = (int32_t)pq__thrift_int(t, &f); break;
        case 3:
            n = pq__thrift_int(t, &f);
            if (n < PQ_REQUIRED || n > PQ_REPEATED)
                fail(t, "a column has an unknown repetition type");
            e->repetition = (uint8_t)n;
            break;
        case 4: e->name = pq__thrift_bytes(t, &f); break;
        case 5:
            n = pq__thrift_int(t, &f);
            if (n < 0 || n > INT32_MAX)
                fail(t, "a group has a negative number of children");
            e->n_children = (int32_t)n;
            break;
        case 6: converted = pq__thrift_int(t, &f); break;
        case 7: e->scale = (int32_t)pq__thrift_int(t, &f); break;
        case 8: e->precision = (int32_t)pq__thrift_int(t, &f); break;
        case 9: e->field_id = (int32_t)pq__thrift_int(t, &f); break;
        case 10:
            read_logical(t, &f, e);
            has_logical = e->logical != PQ_L_NONE && e->logical != PQ_L_OTHER;
            break;
        default: pq__thrift_skip(t, &f);
        }
    }
    thrift_require(t, &f, PQ_FIELD(4), "a column has no name");
    check_converted(t, e, converted);
    if (!has_logical)
        apply_converted(e, converted);
    if (e->n_children > 0 && e->logical != PQ_L_NONE && e->logical != PQ_L_LIST && e->logical != PQ_L_MAP &&
        e->logical != PQ_L_OTHER)
        fail(t, "a group has the type of a value");
}

/* ------------------------------------------------------------------------------------------------------- row groups */

/* The schema's tree from leaves to root, to check the path that a column chunk gives. */
typedef struct tree {
    const pq_element *elements;
    int *parents; /* by element; NULL: not known, as in a footer whose schema follows its row groups */
    int *leaves;  /* by column: its element */
} tree;

/* A histogram has one count for each level from 0 to `max`; -1: not known. */
static void check_histogram(pq_thrift *t, const pq_slot *f, int max)
{
    int64_t n = pq__thrift_list(t, f, PQ_T_I64, 1);

    if (max >= 0 && n > 0 && n != max + 1)
        fail(t, "a histogram has a count for another number of levels than its column has");
    for (int64_t i = 0; i < n && !t->wrong; i++)
        varint(t);
}

/* The greatest level of this column: definition levels also count what is optional. -1: not known. */
static int max_level(const tree *of, int column, bool definition)
{
    int max = 0;

    if (!of->parents)
        return -1;
    for (int at = of->leaves[column]; at > 0; at = of->parents[at]) {
        uint8_t repetition = of->elements[at].repetition;

        max += repetition == PQ_REPEATED || (definition && repetition == PQ_OPTIONAL);
    }
    return max;
}

static void read_sizes(pq_thrift *t, const pq_slot *in, const tree *of, int column, pq_chunk *c)
{
    pq_slot f = { 0 };

    if (!pq__thrift_struct(t, in))
        return;
    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 1: c->text_bytes = pq__thrift_int(t, &f); break;
        case 2: check_histogram(t, &f, max_level(of, column, false)); break;
        case 3: check_histogram(t, &f, max_level(of, column, true)); break;
        default: pq__thrift_skip(t, &f);
        }
    }
}

/* An error unless the path of texts is the path of this column. */
static void check_path(pq_thrift *t, const pq_slot *f, const tree *of, int column)
{
    int64_t n = pq__thrift_list(t, f, PQ_T_BINARY, 1);
    hr_view path[HR_MAX_DEPTH];
    int at;

    for (int64_t i = 0; i < n && !t->wrong; i++)
        path[HR_MIN(i, HR_MAX_DEPTH - 1)] = pq__thrift_item_bytes(t);
    if (!of->parents || n > HR_MAX_DEPTH || t->wrong)
        return;
    for (at = of->leaves[column]; n > 0 && at > 0; at = of->parents[at]) {
        const hr_view *name = &of->elements[at].name;

        n--;
        if (path[n].n != name->n || memcmp(path[n].data, name->data, (size_t)name->n))
            break;
    }
    if (n != 0 || at != 0)
        fail(t, "a column chunk belongs to another column than the schema says");
}

static void read_column_meta(pq_thrift *t, const pq_slot *in, const tree *of, int column, pq_chunk *c)
{
    int64_t data_at = 0, dictionary_at = 0, n;
    pq_slot f = { 0 };

    if (!pq__thrift_struct(t, in))
        return;
    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 3: check_path(t, &f, of, column); break;
        case 1:
            n = pq__thrift_int(t, &f);
            c->physical = (int8_t)(n >= 0 && n < PQ_N_PHYSICAL ? n : -1);
            break;
        case 4:
            n = pq__thrift_int(t, &f);
            c->codec = (uint8_t)(n >= 0 && n < 255 ? n : 255);
            break;
        case 5: c->n_values = pq__thrift_int(t, &f); break;
        case 6: c->memory_bytes = pq__thrift_int(t, &f); break;
        case 7: c->n_bytes = pq__thrift_int(t, &f); break;
        case 9: data_at = pq__thrift_int(t, &f); break;
        case 11: dictionary_at = pq__thrift_int(t, &f); break;
        case 16: read_sizes(t, &f, of, column, c); break;
        default: pq__thrift_skip(t, &f);
        }
    }
    thrift_require(t, &f,
                   PQ_FIELD(1) | PQ_FIELD(2) | PQ_FIELD(3) | PQ_FIELD(4) | PQ_FIELD(5) | PQ_FIELD(6) | PQ_FIELD(7) |
                       PQ_FIELD(9),
                   "a column chunk lacks a field");
    /* For "no dictionary" some writers give 0, others an offset after the data. */
    c->begin = dictionary_at > 0 && dictionary_at < data_at ? dictionary_at : data_at;
    c->dict_bytes = data_at - c->begin;
}

static void read_chunk(pq_thrift *t, const uint8_t *footer, const tree *of, int column, pq_chunk *c)
{
    pq_slot f = { 0 };

    *c = (pq_chunk){ .physical = -1, .text_bytes = -1, .at = (uint32_t)(t->at - footer) };
    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 1:
            pq__thrift_skip(t, &f);
            c->elsewhere = true;
            break;
        case 3: read_column_meta(t, &f, of, column, c); break;
        case 4: c->index_at = pq__thrift_int(t, &f); break;
        case 5: c->index_bytes = (int32_t)pq__thrift_int(t, &f); break;
        case 8:
        case 9:
            pq__thrift_skip(t, &f);
            c->encrypted = true;
            break;
        default: pq__thrift_skip(t, &f);
        }
    }
    thrift_require(t, &f, PQ_FIELD(2), "a column chunk has no offset");
}

typedef struct parse {
    pq_thrift t;
    pq_meta *m;
    hr_account *account;
    int64_t data_end;
    const char *name;
    bool encrypted;
    tree tree;
    hr_error *err;
} parse;

static hr_status no_memory(parse *p, int64_t n) { return hr__error_memory(p->err, p->name, n); }

static hr_status read_group(parse *p, pq_group *g)
{
    pq_thrift *t = &p->t;
    hr_error *err = p->err;
    hr_status st = HR_OK;
    int64_t n;
    pq_slot f = { 0 };

    while (pq__thrift_next(t, &f)) {
        if (f.id == 3) {
            g->n_rows = pq__thrift_int(t, &f);
        } else if (f.id == 1 && !g->chunks) {
            n = pq__thrift_list(t, &f, PQ_T_STRUCT, MIN_CHUNK_BYTES);
            if (t->wrong)
                break;
            if (n != p->m->n_leaves)
                HR_FAIL(HR_BAD_DATA, "%s: row group %d: %lld columns, the schema has %d", p->name,
                        (int)(g - p->m->groups), (long long)n, p->m->n_leaves);
            g->chunks = hr__alloc(p->account, (size_t)n * sizeof *g->chunks);
            if (!g->chunks)
                HR_GO(no_memory(p, n * (int64_t)sizeof *g->chunks));
            for (int64_t i = 0; i < n; i++)
                read_chunk(t, p->m->bytes->data, &p->tree, (int)i, &g->chunks[i]);
        } else {
            pq__thrift_skip(t, &f);
        }
    }
    thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2) | PQ_FIELD(3), "a row group lacks a field");
    if (!t->wrong && !g->chunks && p->m->n_leaves > 0)
        HR_FAIL(HR_BAD_DATA, "%s: row group %d has no columns", p->name, (int)(g - p->m->groups));
    if (!t->wrong && g->n_rows < 0)
        HR_FAIL(HR_BAD_DATA, "%s: row group %d has %lld rows", p->name, (int)(g - p->m->groups), (long long)g->n_rows);
done:
    return st;
}

static hr_status read_groups(parse *p, const pq_slot *f)
{
    pq_meta *m = p->m;
    int64_t n = pq__thrift_list(&p->t, f, PQ_T_STRUCT, MIN_GROUP_BYTES);
    hr_status st = HR_OK;

    if (p->t.wrong || m->groups)
        return HR_OK;
    m->groups = hr__zalloc(p->account, (size_t)n * sizeof *m->groups);
    if (!m->groups)
        return no_memory(p, n * (int64_t)sizeof *m->groups);
    m->n_groups = (int)n;
    for (int64_t i = 0; i < n && !p->t.wrong; i++)
        HR_GO(read_group(p, &m->groups[i]));
done:
    return st;
}

/* The file stores elements depth first. parquet_schema.c refuses elements that no group counts as a child. */
static hr_status climb(parse *p)
{
    const pq_meta *m = p->m;
    int *left = hr__alloc(p->account, (size_t)m->n_elements * sizeof *left), at = 0, leaf = 0;
    hr_status st = HR_OK;

    p->tree.elements = m->elements;
    p->tree.parents = hr__alloc(p->account, (size_t)m->n_elements * sizeof *left);
    p->tree.leaves = hr__zalloc(p->account, (size_t)m->n_leaves * sizeof *left);
    if (!left || !p->tree.parents || !p->tree.leaves)
        HR_GO(no_memory(p, 3 * m->n_elements * (int64_t)sizeof *left));
    for (int i = 0; i < m->n_elements; i++) {
        while (at > 0 && left[at] == 0)
            at = p->tree.parents[at];
        p->tree.parents[i] = at;
        left[i] = m->elements[i].n_children;
        left[at] -= i > 0;
        if (i > 0 && left[i] == 0)
            p->tree.leaves[leaf++] = i;
        else
            at = i;
    }
done:
    hr__free(left);
    return st;
}

static hr_status read_elements(parse *p, const pq_slot *f)
{
    pq_meta *m = p->m;
    int64_t n = pq__thrift_list(&p->t, f, PQ_T_STRUCT, MIN_ELEMENT_BYTES);

    if (p->t.wrong || m->elements)
        return HR_OK;
    m->elements = hr__alloc(p->account, (size_t)n * sizeof *m->elements);
    if (!m->elements)
        return no_memory(p, n * (int64_t)sizeof *m->elements);
    m->n_elements = (int)n;
    for (int64_t i = 0; i < n; i++) {
        read_element(&p->t, &m->elements[i]);
        m->n_leaves += i > 0 && m->elements[i].n_children == 0;
    }
    return p->t.wrong || n == 0 ? HR_OK : climb(p);
}

static hr_status read_key_values(parse *p, const pq_slot *in)
{
    int64_t n = pq__thrift_list(&p->t, in, PQ_T_STRUCT, 1);
    hr_error *err = p->err;
    hr_status st = HR_OK;
    char *text = NULL;

    for (int64_t i = 0; i < n && !p->t.wrong; i++) {
        hr_view key = { (const uint8_t *)"", 0 }, value = { 0 };
        pq_slot f = { 0 };

        while (pq__thrift_next(&p->t, &f)) {
            if (f.id == 1)
                key = pq__thrift_bytes(&p->t, &f);
            else if (f.id == 2 && f.type == PQ_T_BINARY)
                value = pq__thrift_bytes(&p->t, &f);
            else
                pq__thrift_skip(&p->t, &f); /* fastparquet once wrote values that are numbers */
        }
        thrift_require(&p->t, &f, PQ_FIELD(1), "a key has no text");
        if (p->t.wrong)
            break;
        if (key.n == 12 && memcmp(key.data, "ARROW:schema", 12) == 0) {
            p->m->arrow_schema = value;
            continue;
        }
        st = hr__name_check(key.data, key.n, "a key of the file's metadata", p->err);
        if (st)
            HR_GO(hr__error_at(p->err, st, "%s", p->name));
        if (i >= 256)
            continue; /* setting is quadratic; no real schema has more */
        hr__free(text);
        text = hr__strndup(p->account, (const char *)key.data, (size_t)key.n);
        if (!text)
            HR_GO(no_memory(p, key.n));
        HR_GO(hr__metadata_set(&p->m->metadata, &p->m->metadata_bytes, text, value.n ? value.data : (const uint8_t *)"",
                               value.n, err));
    }
done:
    hr__free(text);
    return st;
}

static bool is_writer(hr_view writer, const char *name)
{
    int64_t n = (int64_t)strlen(name);

    return writer.n >= n && memcmp(writer.data, name, (size_t)n) == 0;
}

/* Whether the writer "NAME version A.B.C ..." in the footer is program `name` before version `fixed`. A writer without
 * a version counts as older than any. */
static bool writer_before(hr_view writer, const char *name, const int fixed[3])
{
    static const char then[] = " version ";
    int64_t at = (int64_t)strlen(name);

    if (!is_writer(writer, name))
        return false;
    if (writer.n == at)
        return true;
    if (writer.n - at < (int64_t)sizeof then - 1 || memcmp(writer.data + at, then, sizeof then - 1))
        return false; /* another program whose name begins with `name` */
    at += sizeof then - 1;
    for (int i = 0; i < 3; i++, at++) {
        int v = 0;

        for (; at < writer.n && writer.data[at] >= '0' && writer.data[at] <= '9' && v < 1000; at++)
            v = 10 * v + writer.data[at] - '0';
        if (v != fixed[i])
            return v < fixed[i];
    }
    return false;
}

/* Checks that offsets lie within the file and sizes are not negative: other code adds and subtracts them without
 * checks. */
static hr_status check_chunks(const parse *p)
{
    /* parquet-mr left the dictionary's header out of the sizes of column chunks. */
    int64_t more = writer_before(p->m->created_by, "parquet-mr", (int[]){ 1, 2, 9 }) ? MAX_DICTIONARY_HEADER : 0;

    for (int g = 0; g < p->m->n_groups; g++) {
        for (int i = 0; i < p->m->n_leaves; i++) {
            pq_chunk *c = &p->m->groups[g].chunks[i];

            if (c->encrypted || c->elsewhere)
                continue; /* readers refuse it */
            if (c->n_values == 0 && p->m->groups[g].n_rows == 0) {
                *c = (pq_chunk){
                    .physical = c->physical, .begin = 4, .text_bytes = -1, .at = c->at
                }; /* nothing uses its offset */
                continue;
            }
            if (c->n_values < 0 || c->begin < 4 || c->n_bytes < 0 || c->begin > p->data_end ||
                c->n_bytes > p->data_end - c->begin)
                return hr_error_set(p->err, HR_BAD_DATA,
                                    "%s: row group %d, column %d: %lld values in %lld bytes at %lld, data ends at %lld",
                                    p->name, g, i, (long long)c->n_values, (long long)c->n_bytes, (long long)c->begin,
                                    (long long)p->data_end);
            c->slack = HR_MIN(more, p->data_end - c->begin - c->n_bytes);
            c->n_bytes += c->slack;
            c->memory_bytes = HR_MAX(c->memory_bytes, 0);
            if (c->index_at < 4 || c->index_bytes <= 0 || c->index_at > p->data_end - c->index_bytes)
                c->index_at = 0; /* an offset index is optional: without it the reader finds pages one by one */
        }
    }
    return HR_OK;
}

/* ColumnOrder is a union: field 1 says that the order of statistics is the order of the type, the only order
 * defined. */
static hr_status read_orders(parse *p, const pq_slot *in)
{
    int64_t n = pq__thrift_list(&p->t, in, PQ_T_STRUCT, 1);

    if (p->t.wrong || p->m->ordered)
        return HR_OK;
    p->m->ordered = hr__zalloc(p->account, (size_t)n + 1);
    if (!p->m->ordered)
        return no_memory(p, n + 1);
    p->m->n_ordered = (int)n;
    for (int64_t i = 0; i < n && !p->t.wrong; i++) {
        pq_slot f = { 0 };

        while (pq__thrift_next(&p->t, &f)) {
            p->m->ordered[i] = f.id == 1;
            pq__thrift_skip(&p->t, &f);
        }
    }
    return HR_OK;
}

static hr_status read_footer(parse *p)
{
    pq_thrift *t = &p->t;
    hr_error *err = p->err;
    hr_status st = HR_OK;
    uint64_t n_rows = 0;
    pq_slot f = { 0 };

    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 2: HR_GO(read_elements(p, &f)); break;
        case 3: p->m->n_rows = pq__thrift_int(t, &f); break;
        case 4: HR_GO(read_groups(p, &f)); break;
        case 5: HR_GO(read_key_values(p, &f)); break;
        case 6: p->m->created_by = pq__thrift_bytes(t, &f); break;
        case 7: HR_GO(read_orders(p, &f)); break;
        case 8: /* encryption_algorithm: the footer is plain, but not all columns are */
            p->encrypted = true;
            pq__thrift_skip(t, &f);
            break;
        default: pq__thrift_skip(t, &f);
        }
    }
    if (!t->wrong && t->at < t->end)
        fail(t, "bytes are left after it");
    if (p->m->n_elements > 0)
        thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2) | PQ_FIELD(3) | PQ_FIELD(4), "it lacks a field");
    if (t->wrong)
        HR_FAIL(HR_BAD_DATA, "%s: footer of %lld bytes: %s", p->name, (long long)p->m->bytes->n_bytes, t->wrong);
    if (p->encrypted)
        HR_FAIL(HR_UNSUPPORTED, "%s: encrypted columns are not supported", p->name);
    if (p->m->n_elements == 0)
        HR_FAIL(HR_BAD_DATA, "%s: footer without a schema", p->name);
    /* parquet-cpp compressed pages of version 2 and marked them as not compressed. */
    p->m->padding = (is_writer(p->m->created_by, "DuckDB") ? PQ_PADS_RUNS : 0) |
                    (is_writer(p->m->created_by, "fastparquet") ? PQ_PADS_ZEROS : 0) |
                    (is_writer(p->m->created_by, "parquet-cpp-arrow") ? PQ_PADS_DICTIONARY : 0);
    p->m->all_compressed = writer_before(p->m->created_by, "parquet-cpp", (int[]){ 2, 0, 0 });
    HR_GO(check_chunks(p));
    for (int i = 0; i < p->m->n_groups; i++)
        n_rows += (uint64_t)p->m->groups[i].n_rows; /* may wrap: file_new refuses that */
    if (n_rows != (uint64_t)p->m->n_rows)
        HR_FAIL(HR_BAD_DATA, "%s: %lld rows in row groups, the footer says %lld", p->name, (long long)n_rows,
                (long long)p->m->n_rows);
done:
    return st;
}

hr_status pq__meta_parse(hr_buffer *b, int64_t data_end, const char *name, hr_account *account, pq_meta **out,
                         hr_error *err)
{
    parse p = { .t = { .at = b->data, .end = b->data + b->n_bytes },
                .account = account,
                .data_end = data_end,
                .name = name,
                .err = err };
    hr_status st = HR_OK;

    *out = NULL;
    p.m = hr__zalloc(account, sizeof *p.m);
    if (!p.m) {
        hr__buffer_unref(b);
        return no_memory(&p, sizeof *p.m);
    }
    atomic_init(&p.m->refs, 1);
    p.m->bytes = b;
    HR_GO(read_footer(&p));
    *out = p.m;
    p.m = NULL; /* moved to the caller */
done:
    hr__free(p.tree.parents);
    hr__free(p.tree.leaves);
    pq__meta_unref(p.m);
    return st;
}

pq_meta *pq__meta_ref(pq_meta *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void pq__meta_unref(pq_meta *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int i = 0; i < m->n_groups; i++)
        hr__free(m->groups[i].chunks);
    hr__free(m->groups);
    hr__free(m->elements);
    hr__free(m->metadata);
    hr__free(m->ordered);
    hr__buffer_unref(m->bytes);
    hr__free(m);
}

hr_status pq__meta_read(hr_source *s, hr_account *account, pq_meta **out, hr_error *err)
{
    hr_mem mem = { account, NULL };
    int64_t n_tail = HR_MIN(s->n_bytes, TAIL_BYTES), n;
    hr_buffer *tail = NULL, *footer = NULL;
    hr_status st = HR_OK;
    const uint8_t *end;

    *out = NULL;
    if (s->n_bytes < 12)
        return hr_error_set(err, HR_BAD_DATA, "%s: %lld bytes are too few for a Parquet file", s->name,
                            (long long)s->n_bytes);
    HR_GO(hr__buffer_new(&mem, n_tail, &tail, err));
    HR_GO(hr__source_read(s, tail->data, s->n_bytes - n_tail, n_tail, err));
    end = tail->data + n_tail;
    if (memcmp(end - 4, "PARE", 4) == 0)
        HR_FAIL(HR_UNSUPPORTED, "%s: encrypted Parquet files are not supported", s->name);
    if (memcmp(end - 4, "PAR1", 4) != 0)
        HR_FAIL(HR_BAD_DATA, "%s: does not end with \"PAR1\": not a Parquet file, or cut off", s->name);
    n = hr__load_le32(end - 8);
    if (n > s->n_bytes - 12)
        HR_FAIL(HR_BAD_DATA, "%s: the footer has %lld bytes, the file %lld", s->name, (long long)n,
                (long long)s->n_bytes);
    if (n <= n_tail - 8) {
        HR_GO(hr__buffer_copy(&mem, end - 8 - n, n, &footer, err));
    } else {
        HR_GO(hr__buffer_new(&mem, n, &footer, err));
        HR_GO(hr__source_read(s, footer->data, s->n_bytes - 8 - n, n, err));
    }
    hr__buffer_unref(tail);
    tail = NULL;
    st = pq__meta_parse(footer, s->n_bytes - 8 - n, s->name, account, out, err);
    footer = NULL; /* taken */
done:
    hr__buffer_unref(tail);
    hr__buffer_unref(footer);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- page headers */

static void read_data_v1(pq_thrift *t, pq_page *p)
{
    pq_slot f = { 0 };

    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 1: p->n_values = pq__thrift_int(t, &f); break;
        case 2: p->encoding = (int)pq__thrift_int(t, &f); break;
        case 3: p->def_encoding = (int)pq__thrift_int(t, &f); break;
        case 4: p->rep_encoding = (int)pq__thrift_int(t, &f); break;
        default: pq__thrift_skip(t, &f);
        }
    }
    thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2) | PQ_FIELD(3) | PQ_FIELD(4), "a field is missing");
}

static void read_dictionary(pq_thrift *t, pq_page *p)
{
    pq_slot f = { 0 };

    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 1: p->n_values = pq__thrift_int(t, &f); break;
        case 2: p->encoding = (int)pq__thrift_int(t, &f); break;
        default: pq__thrift_skip(t, &f);
        }
    }
    thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2), "a field is missing");
}

static void read_data_v2(pq_thrift *t, pq_page *p)
{
    pq_slot f = { 0 };

    p->n_rows = 0;
    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 1: p->n_values = pq__thrift_int(t, &f); break;
        case 2: p->n_nulls = pq__thrift_int(t, &f); break;
        case 3: p->n_rows = pq__thrift_int(t, &f); break;
        case 4: p->encoding = (int)pq__thrift_int(t, &f); break;
        case 5: p->def_bytes = pq__thrift_int(t, &f); break;
        case 6: p->rep_bytes = pq__thrift_int(t, &f); break;
        case 7: p->compressed = thrift_bool(t, &f); break;
        default: pq__thrift_skip(t, &f);
        }
    }
    thrift_require(t, &f, PQ_FIELD(1) | PQ_FIELD(2) | PQ_FIELD(3) | PQ_FIELD(4) | PQ_FIELD(5) | PQ_FIELD(6),
                   "a field is missing");
}

hr_status pq__page_parse(hr_view in, pq_page *p, int64_t *n_used, hr_error *err)
{
    static const int wanted[] = { 5, 6, 7, 8 }; /* the field that each type of page must have */
    pq_thrift t = { .at = in.data, .end = in.data + in.n };
    bool has[9] = { false };
    pq_slot f = { 0 };

    *p = (pq_page){ .type = -1,
                    .n_rows = -1,
                    .n_nulls = -1,
                    .stored_bytes = -1,
                    .memory_bytes = -1,
                    .encoding = -1,
                    .def_encoding = PQ_RLE,
                    .rep_encoding = PQ_RLE,
                    .compressed = true };
    while (pq__thrift_next(&t, &f)) {
        if (f.id > 0 && f.id < HR_LEN(has))
            has[f.id] = true;
        switch (f.id) {
        case 1: p->type = (int)pq__thrift_int(&t, &f); break;
        case 2: p->memory_bytes = pq__thrift_int(&t, &f); break;
        case 3: p->stored_bytes = pq__thrift_int(&t, &f); break;
        case 4:
            p->crc = (uint32_t)pq__thrift_int(&t, &f);
            p->has_crc = true;
            break;
        case 5:
            if (pq__thrift_struct(&t, &f))
                read_data_v1(&t, p);
            break;
        case 7:
            if (pq__thrift_struct(&t, &f))
                read_dictionary(&t, p);
            break;
        case 8:
            if (pq__thrift_struct(&t, &f))
                read_data_v2(&t, p);
            break;
        default: pq__thrift_skip(&t, &f);
        }
    }
    *n_used = t.at - in.data;
    if (t.wrong)
        return t.short_of ? HR_PENDING : hr_error_set(err, HR_BAD_DATA, "page header: %s", t.wrong);
    if (p->type < 0 || p->stored_bytes < 0 || p->memory_bytes < 0 || p->stored_bytes > PQ_MAX_PAGE ||
        p->memory_bytes > PQ_MAX_PAGE)
        return hr_error_set(err, HR_BAD_DATA, "page header: type %d, %lld bytes, uncompressed %lld", p->type,
                            (long long)p->stored_bytes, (long long)p->memory_bytes);
    if (p->type < HR_LEN(wanted) && p->type != PQ_PAGE_INDEX &&
        (!has[wanted[p->type]] || p->n_values < 0 || p->n_values > INT32_MAX || p->def_bytes < 0 || p->rep_bytes < 0 ||
         p->n_rows < -1 || p->def_bytes > PQ_MAX_PAGE || p->rep_bytes > PQ_MAX_PAGE))
        return hr_error_set(err, HR_BAD_DATA, "page header: type %d with %lld values, %lld and %lld bytes of levels",
                            p->type, (long long)p->n_values, (long long)p->def_bytes, (long long)p->rep_bytes);
    return HR_OK;
}
