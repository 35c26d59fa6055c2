/* parquet_schema.c - the tree of stored columns -> Arrow columns, typed as Arrow's own reader types them.
 *
 * Parquet stores only leaves. Two numbers at each value (Dremel's levels) say how often and how deep the value is
 * repeated or missing; this file computes, for every node, at which levels it exists:
 *     def_slot   there is a place for it (the innermost list around it has an item here)
 *     def_valid  ... and it is not null
 *     def_item   ... and, for a list, it is not empty
 *
 * Lists have the three-level form (group LIST { repeated group { element } }) or older forms with two levels or one;
 * the rules of the format's specification distinguish them by name and number of children. The embedded Arrow schema
 * restores what Parquet cannot express: time zones, durations, 64-bit offsets, fixed sizes, extension types. The reader
 * applies it field by field where its shape agrees, and ignores it elsewhere.
 *
 * Tests: test_parquet_meta.c, test_parquet_read.c. */
#include "format/parquet/parquet_meta.h"

#include <stdio.h>

typedef struct levels {
    int def, rep;
    int slot; /* definition level at which the innermost list has an item */
} levels;

typedef struct build {
    const pq_meta *m;
    pq_schema *s;
    const char *file;
    int at;     /* the next element */
    int column; /* the next leaf's chunk */
    int depth;
    int cap_leaves;
    hr_text path;                        /* path of the current node: a.list.element */
    uint8_t def_items[PQ_MAX_LEVEL + 1]; /* as in pq_leaf, of the lists around the current node */
    hr_error *err;
} build;

static hr_status no_memory(build *b, size_t n) { return hr__error_memory(b->err, b->file, (int64_t)n); }

static hr_status malformed(build *b, const char *what)
{
    return hr_error_set(b->err, HR_BAD_DATA, "%s: column '%s': %s", b->file, b->path.data ? b->path.data : "", what);
}

/* ------------------------------------------------------------------------------------------------------- leaf types */

static const char *const physical_names[] = { "BOOLEAN", "INT32",  "INT64",      "INT96",
                                              "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY" };
static const char *const logical_names[] = { "none", "string", "map",       "list",     "enum",    "decimal",
                                             "date", "time",   "timestamp", "interval", "integer", "null",
                                             "JSON", "BSON",   "UUID",      "float16",  "unknown" };

static hr_status set_simple(pq_leaf *l, hr_type **out, pq_kind kind, int width, hr_type_id id)
{
    l->kind = kind;
    l->width = width;
    *out = hr__type_simple(id);
    return HR_OK;
}

static hr_status misfit(build *b, const pq_element *e)
{
    return hr_error_set(b->err, HR_BAD_DATA, "%s: column '%s': logical type %s does not fit %s", b->file,
                        b->path.data ? b->path.data : "", logical_names[e->logical], physical_names[e->physical]);
}

static hr_status decimal_type(build *b, const pq_element *e, pq_leaf *l, hr_type **out)
{
    int max = e->physical == PQ_INT32 ? 9 : e->physical == PQ_INT64 ? 18 : 76;
    bool wide = e->precision > 38;

    if (e->precision < 1 || e->precision > max || e->scale < 0 || e->scale > e->precision)
        return hr_error_set(b->err, HR_BAD_DATA, "%s: column '%s': decimal(%d, %d) in %s", b->file, b->path.data,
                            (int)e->precision, (int)e->scale, physical_names[e->physical]);
    l->kind = PQ_K_DECIMAL;
    l->width = wide ? 32 : 16;
    l->digits = e->precision;
    return hr__type_decimal(wide ? HR_T_DECIMAL256 : HR_T_DECIMAL128, e->precision, e->scale, out, b->err);
}

static hr_status integer_type(build *b, const pq_element *e, pq_leaf *l, hr_type **out)
{
    bool s = e->is_signed;

    if (e->bits == 64 && e->physical == PQ_INT64)
        return set_simple(l, out, PQ_K_COPY, 8, s ? HR_T_INT64 : HR_T_UINT64);
    if (e->physical != PQ_INT32)
        return misfit(b, e);
    switch (e->bits) {
    case 8: return set_simple(l, out, PQ_K_NARROW, 1, s ? HR_T_INT8 : HR_T_UINT8);
    case 16: return set_simple(l, out, PQ_K_NARROW, 2, s ? HR_T_INT16 : HR_T_UINT16);
    case 32: return set_simple(l, out, PQ_K_COPY, 4, s ? HR_T_INT32 : HR_T_UINT32);
    default: return misfit(b, e);
    }
}

static hr_status int32_type(build *b, const pq_element *e, pq_leaf *l, hr_type **out)
{
    switch (e->logical) {
    case PQ_L_DATE: return set_simple(l, out, PQ_K_COPY, 4, HR_T_DATE32);
    case PQ_L_TIME:
        if (e->unit != HR_MILLI)
            return misfit(b, e);
        l->kind = PQ_K_COPY;
        l->width = 4;
        return hr__type_unit(HR_T_TIME32, HR_MILLI, NULL, out, b->err);
    case PQ_L_NONE:
    case PQ_L_OTHER: return set_simple(l, out, PQ_K_COPY, 4, HR_T_INT32);
    default: return misfit(b, e);
    }
}

static hr_status int64_type(build *b, const pq_element *e, pq_leaf *l, hr_type **out)
{
    l->kind = PQ_K_COPY;
    l->width = 8;
    switch (e->logical) {
    case PQ_L_TIME:
        if (e->unit == HR_MILLI)
            return misfit(b, e);
        return hr__type_unit(HR_T_TIME64, (hr_unit)e->unit, NULL, out, b->err);
    case PQ_L_TIMESTAMP: return hr__type_unit(HR_T_TIMESTAMP, (hr_unit)e->unit, e->utc ? "UTC" : NULL, out, b->err);
    case PQ_L_NONE:
    case PQ_L_OTHER: return set_simple(l, out, PQ_K_COPY, 8, HR_T_INT64);
    default: return misfit(b, e);
    }
}

static hr_status bytes_type(build *b, const pq_element *e, pq_leaf *l, hr_type **out)
{
    switch (e->logical) {
    case PQ_L_STRING:
    case PQ_L_JSON: l->is_text = true; return set_simple(l, out, PQ_K_BYTES, 4, HR_T_STRING);
    case PQ_L_NONE:
    case PQ_L_ENUM:
    case PQ_L_BSON:
    case PQ_L_OTHER: return set_simple(l, out, PQ_K_BYTES, 4, HR_T_BINARY);
    default: return misfit(b, e);
    }
}

static hr_status fixed_type(build *b, const pq_element *e, pq_leaf *l, hr_type **out)
{
    if (e->width <= 0)
        return malformed(b, "a fixed size of 0 bytes or less");
    l->stored_width = e->width;
    switch (e->logical) {
    case PQ_L_FLOAT16: return e->width == 2 ? set_simple(l, out, PQ_K_COPY, 2, HR_T_FLOAT16) : misfit(b, e);
    case PQ_L_UUID:
    case PQ_L_INTERVAL:
        if (e->width != (e->logical == PQ_L_UUID ? 16 : 12))
            return misfit(b, e);
        break;
    case PQ_L_NONE:
    case PQ_L_OTHER: break;
    default: return misfit(b, e);
    }
    l->kind = PQ_K_COPY;
    l->width = e->width;
    return hr__type_fixed_binary(e->width, out, b->err);
}

static hr_status leaf_type(build *b, const pq_element *e, pq_leaf *l, hr_type **out)
{
    static const uint8_t widths[] = { [PQ_INT32] = 4, [PQ_INT64] = 8,  [PQ_INT96] = 12,
                                      [PQ_FLOAT] = 4, [PQ_DOUBLE] = 8, [PQ_FIXED] = 0 };

    l->physical = (pq_physical)e->physical;
    l->stored_width = widths[e->physical];
    l->no_order = e->physical == PQ_INT96 || e->logical == PQ_L_INTERVAL || e->logical == PQ_L_OTHER;
    if (e->logical == PQ_L_NULL) {
        l->stored_width = e->physical == PQ_FIXED ? e->width : l->stored_width;
        return set_simple(l, out, PQ_K_NULL, 0, HR_T_NULL);
    }
    if (e->logical == PQ_L_DECIMAL && e->physical != PQ_BOOLEAN && e->physical != PQ_INT96 && e->physical != PQ_FLOAT &&
        e->physical != PQ_DOUBLE) {
        if (e->physical == PQ_FIXED && e->width <= 0)
            return malformed(b, "a fixed size of 0 bytes or less");
        l->stored_width = e->physical == PQ_FIXED ? e->width : l->stored_width;
        return decimal_type(b, e, l, out);
    }
    if (e->logical == PQ_L_INTEGER)
        return integer_type(b, e, l, out);
    switch (l->physical) {
    case PQ_INT32: return int32_type(b, e, l, out);
    case PQ_INT64: return int64_type(b, e, l, out);
    case PQ_BYTE_ARRAY: return bytes_type(b, e, l, out);
    case PQ_FIXED: return fixed_type(b, e, l, out);
    case PQ_INT96: /* only used for times; every reader ignores its other annotations */
        l->kind = PQ_K_INT96;
        l->width = 8;
        return hr__type_unit(HR_T_TIMESTAMP, HR_NANO, NULL, out, b->err);
    default: break;
    }
    if (e->logical != PQ_L_NONE && e->logical != PQ_L_OTHER)
        return misfit(b, e);
    if (l->physical == PQ_BOOLEAN)
        return set_simple(l, out, PQ_K_BOOL, 0, HR_T_BOOL);
    if (l->physical == PQ_FLOAT)
        return set_simple(l, out, PQ_K_COPY, 4, HR_T_FLOAT32);
    return set_simple(l, out, PQ_K_COPY, 8, HR_T_FLOAT64);
}

/* Restores a leaf's type from the embedded schema. `origin` may be NULL. Replaces *type. */
static hr_status restore_leaf(build *b, const hr_field *origin, pq_leaf *l, hr_type **type)
{
    const hr_type *o = origin ? origin->type : NULL;
    hr_type *better = NULL;

    if (!o)
        return HR_OK;
    switch ((*type)->id) {
    case HR_T_TIMESTAMP:
        if (o->id == HR_T_TIMESTAMP && (*type)->zone && o->zone)
            HR_TRY(hr__type_unit(HR_T_TIMESTAMP, (*type)->unit, o->zone, &better, b->err));
        break;
    case HR_T_INT64:
        if (o->id == HR_T_DURATION)
            HR_TRY(hr__type_unit(HR_T_DURATION, o->unit, NULL, &better, b->err));
        break;
    case HR_T_STRING:
    case HR_T_BINARY:
        if (o->id == ((*type)->id == HR_T_STRING ? HR_T_LARGE_STRING : HR_T_LARGE_BINARY)) {
            better = hr__type_simple(o->id);
            l->width = 8;
        }
        break;
    case HR_T_DECIMAL128:
        if (o->id == HR_T_DECIMAL256) {
            HR_TRY(hr__type_decimal(HR_T_DECIMAL256, (*type)->precision, (*type)->scale, &better, b->err));
            l->width = 32;
        }
        break;
    default: break;
    }
    if (better) {
        hr__type_unref(*type);
        *type = better;
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ nodes */

/* Takes `type`, even on failure. */
static hr_status finish_field(build *b, pq_node *n, const pq_element *e, hr_type *type, bool nullable,
                              const hr_field *origin)
{
    char *name = hr__strndup(b->s->account, (const char *)e->name.data, (size_t)e->name.n);
    hr_status st = HR_OK;

    if (!name)
        HR_GO(no_memory(b, (size_t)e->name.n));
    HR_GO(hr__name_check(e->name.data, e->name.n, "a column's name", b->err));
    HR_GO(hr__field_init(&n->field, name, type, nullable, b->err));
    if (origin) {
        HR_GO(hr__field_storage_metadata(origin, &n->field.metadata, &n->field.metadata_bytes, b->err));
        HR_GO(hr__field_from_storage(&n->field, b->err));
    }
done:
    hr__type_unref(type);
    hr__free(name);
    return st;
}

static hr_status make_node(build *b, levels l, const hr_field *origin, pq_node *n);

static hr_status make_leaf(build *b, levels l, bool nullable, const hr_field *origin, pq_node *n)
{
    const pq_element *e = &b->m->elements[b->at++];
    pq_schema *s = b->s;
    hr_type *type = NULL;
    hr_status st = HR_OK;
    pq_leaf *leaf;

    if (e->physical < 0)
        return malformed(b, "a group without children");
    if (s->n_leaves == b->cap_leaves)
        return malformed(b, "more leaves than the schema has");
    leaf = &s->leaves[s->n_leaves];
    *leaf = (pq_leaf){
        .column = b->column++, .max_def = (uint8_t)l.def, .max_rep = (uint8_t)l.rep, .def_slot = (uint8_t)l.slot
    };
    memcpy(leaf->def_items, b->def_items, (size_t)l.rep + 1);
    leaf->name = hr__strdup(s->account, b->path.data ? b->path.data : "");
    if (!leaf->name)
        return no_memory(b, (size_t)b->path.n);
    n->leaf = s->n_leaves++;
    n->rep = (uint8_t)l.rep;
    n->def_slot = (uint8_t)l.slot;
    n->def_valid = (uint8_t)l.def;
    HR_GO(leaf_type(b, e, leaf, &type));
    HR_GO(restore_leaf(b, origin, leaf, &type));
    st = finish_field(b, n, e, type, nullable, origin);
    type = NULL; /* taken */
done:
    hr__type_unref(type);
    return st;
}

static hr_status add_children(build *b, pq_node *n, int n_children)
{
    n->leaf = -1;
    n->children = hr__zalloc(b->s->account, (size_t)n_children * sizeof *n->children);
    if (!n->children)
        return no_memory(b, (size_t)n_children * sizeof *n->children);
    n->n_children = n_children;
    return HR_OK;
}

/* Children [b->at ...) of a group as a struct. `l`: inside the group. */
static hr_status make_struct(build *b, levels l, const pq_element *e, bool nullable, const hr_field *origin, pq_node *n)
{
    const hr_type *o =
        origin && origin->type->id == HR_T_STRUCT && origin->type->n_children == e->n_children ? origin->type : NULL;
    hr_field *fields = NULL;
    hr_type *type = NULL;
    hr_status st = HR_OK;

    HR_GO(add_children(b, n, e->n_children));
    n->rep = (uint8_t)l.rep;
    n->def_slot = (uint8_t)l.slot;
    n->def_valid = (uint8_t)l.def;
    fields = hr__alloc(b->s->account, (size_t)e->n_children * sizeof *fields);
    if (!fields)
        HR_GO(no_memory(b, (size_t)e->n_children * sizeof *fields));
    for (int i = 0; i < e->n_children; i++) {
        HR_GO(make_node(b, l, o ? &o->children[i] : NULL, &n->children[i]));
        fields[i] = n->children[i].field; /* borrowed */
    }
    HR_GO(hr__type_struct(fields, e->n_children, &type, b->err));
    st = finish_field(b, n, e, type, nullable, origin);
done:
    hr__free(fields);
    return st;
}

/* n's only child exists: n becomes a list of it. `outer`: the levels around the list; the list itself is valid at
 * def_valid. */
static hr_status finish_list(build *b, pq_node *n, const pq_element *e, levels outer, int def_valid, bool nullable,
                             const hr_field *origin)
{
    const hr_type *o = origin ? origin->type : NULL;
    hr_type_id id = o && hr__type_is_fixed_list(o)  ? HR_T_FIXED_LIST
                    : o && o->id == HR_T_LARGE_LIST ? o->id
                                                    : HR_T_LIST;
    hr_type *type = NULL;

    n->rep = (uint8_t)outer.rep;
    n->def_slot = (uint8_t)outer.slot;
    n->def_valid = (uint8_t)def_valid;
    n->def_item = (uint8_t)(def_valid + 1);
    HR_TRY(hr__type_list(id, &n->children[0].field, id == HR_T_FIXED_LIST ? o->width : 0, &type, b->err));
    return finish_field(b, n, e, type, nullable, origin);
}

static const hr_field *list_origin(const hr_field *origin)
{
    if (!origin ||
        (origin->type->id != HR_T_LIST && origin->type->id != HR_T_LARGE_LIST && !hr__type_is_fixed_list(origin->type)))
        return NULL;
    return &origin->type->children[0];
}

/* The levels of the items of a list that is valid at level l.def. */
static levels item_levels(build *b, levels l)
{
    b->def_items[l.rep + 1] =
        (uint8_t)(l.def + 1); /* columns come depth first: the entries of outer lists stay valid */
    return (levels){ l.def + 1, l.rep + 1, l.def + 1 };
}

static bool name_is(const pq_element *e, const char *text, size_t n)
{
    return (size_t)e->name.n == n && memcmp(e->name.data, text, n) == 0;
}

/* The older form where the repeated group is the item: named "array", or after its parent with "_tuple". */
static bool is_item_itself(const pq_element *repeated, const pq_element *parent)
{
    int64_t n = parent->name.n;

    return name_is(repeated, "array", 5) ||
           (repeated->name.n == n + 6 && memcmp(repeated->name.data, parent->name.data, (size_t)n) == 0 &&
            memcmp(repeated->name.data + n, "_tuple", 6) == 0);
}

static hr_status make_map(build *b, levels outer, levels l, const pq_element *e, bool nullable, const hr_field *origin,
                          pq_node *n);

static hr_status check_depth(build *b, levels l)
{
    if (b->depth > HR_MAX_DEPTH - 4 || l.def + 3 > PQ_MAX_LEVEL)
        return hr_error_set(b->err, HR_UNSUPPORTED, "%s: columns are nested deeper than %d", b->file, HR_MAX_DEPTH - 4);
    return HR_OK;
}

/* b->at is after a group LIST `e`; l: the levels inside it. */
static hr_status make_list(build *b, levels outer, levels l, const pq_element *e, bool nullable, const hr_field *origin,
                           pq_node *n)
{
    const hr_field *item = list_origin(origin);
    const pq_element *r = &b->m->elements[b->at];

    if (e->n_children != 1 || r->repetition != PQ_REPEATED)
        return malformed(b, "a list needs one repeated child");
    HR_TRY(check_depth(b, l));
    HR_TRY(add_children(b, n, 1));
    if (r->n_children == 0) {
        HR_TRY(make_leaf(b, item_levels(b, l), false, item, &n->children[0]));
    } else {
        const pq_element *child = &b->m->elements[b->at + 1];
        bool nested = r->n_children == 1 && child->repetition == PQ_REPEATED;

        if (nested && r->logical != PQ_L_LIST && r->logical != PQ_L_MAP)
            return malformed(b, "a group with one repeated child is not a list");
        b->at++;
        if (nested && r->logical == PQ_L_LIST) /* the repeated group is a list itself, in the two-level form */
            HR_TRY(make_list(b, item_levels(b, l), item_levels(b, l), r, false, item, &n->children[0]));
        else if (nested)
            HR_TRY(make_map(b, item_levels(b, l), item_levels(b, l), r, false, item, &n->children[0]));
        else if (r->n_children > 1 || is_item_itself(r, e))
            HR_TRY(make_struct(b, item_levels(b, l), r, false, item, &n->children[0]));
        else
            HR_TRY(make_node(b, item_levels(b, l), item, &n->children[0]));
    }
    return finish_list(b, n, e, outer, l.def, nullable, origin);
}

/* b->at is after a group MAP `e`; l: the levels inside it. */
static hr_status make_map(build *b, levels outer, levels l, const pq_element *e, bool nullable, const hr_field *origin,
                          pq_node *n)
{
    const hr_field *entries = origin && origin->type->id == HR_T_MAP ? &origin->type->children[0] : NULL;
    const pq_element *r = &b->m->elements[b->at];
    hr_type *type = NULL;

    if (e->n_children != 1 || r->repetition != PQ_REPEATED || r->n_children < 1 || r->n_children > 2)
        return malformed(b, "a map needs one repeated group of key and value");
    if (r->n_children == 1) /* a set: its keys as a list */
        return make_list(b, outer, l, e, nullable, NULL, n);
    HR_TRY(add_children(b, n, 1));
    b->at++;
    HR_TRY(make_struct(b, item_levels(b, l), r, false, entries, &n->children[0]));
    n->rep = (uint8_t)outer.rep;
    n->def_slot = (uint8_t)outer.slot;
    n->def_valid = (uint8_t)l.def;
    n->def_item = (uint8_t)(l.def + 1);
    HR_TRY(hr__type_list(HR_T_MAP, &n->children[0].field, 0, &type, b->err));
    return finish_field(b, n, e, type, nullable, origin);
}

/* A repeated field without a LIST around it: a list that is never null. */
static hr_status make_bare_list(build *b, levels l, const pq_element *e, const hr_field *origin, pq_node *n)
{
    const hr_field *item = list_origin(origin);

    HR_TRY(add_children(b, n, 1));
    if (e->n_children == 0) {
        HR_TRY(make_leaf(b, item_levels(b, l), false, item, &n->children[0]));
    } else {
        b->at++;
        HR_TRY(make_struct(b, item_levels(b, l), e, false, item, &n->children[0]));
    }
    return finish_list(b, n, e, l, l.def, false, origin);
}

static hr_status make_node_here(build *b, levels l, const hr_field *origin, pq_node *n)
{
    const pq_element *e = &b->m->elements[b->at];
    bool nullable = e->repetition == PQ_OPTIONAL;
    levels in = { l.def + nullable, l.rep, l.slot };

    HR_TRY(check_depth(b, in));
    if (e->repetition == PQ_REPEATED) {
        if (e->logical == PQ_L_LIST && e->n_children > 0) {
            levels item = item_levels(b, l);

            /* A repeated list: a list of lists without nulls. */
            HR_TRY(add_children(b, n, 1));
            b->at++;
            HR_TRY(make_list(b, item, item, e, false, NULL, &n->children[0]));
            return finish_list(b, n, e, l, l.def, false, NULL);
        }
        return make_bare_list(b, l, e, origin, n);
    }
    if (e->n_children == 0)
        return make_leaf(b, in, nullable, origin, n);
    b->at++;
    if (e->logical == PQ_L_LIST)
        return make_list(b, l, in, e, nullable, origin, n);
    if (e->logical == PQ_L_MAP)
        return make_map(b, l, in, e, nullable, origin, n);
    return make_struct(b, in, e, nullable, origin, n);
}

/* The element at b->at and its children. */
static hr_status make_node(build *b, levels l, const hr_field *origin, pq_node *n)
{
    hr_status st = HR_OK;
    int64_t had = b->path.n;
    const pq_element *e;

    n->leaf = -1;
    if (b->at >= b->m->n_elements)
        return malformed(b, "the schema ends before its last column");
    e = &b->m->elements[b->at];
    b->depth++;
    hr__text_add(&b->path, "%s%.*s", had ? "." : "", (int)HR_MIN(e->name.n, 200), (const char *)e->name.data);
    HR_GO(b->path.failed ? no_memory(b, 1) : HR_OK);
    HR_GO(make_node_here(b, l, origin, n));
done:
    b->depth--;
    if (b->path.data && !b->path.failed) {
        b->path.n = had;
        b->path.data[had] = 0;
    }
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- columns */

/* Where each top-level column begins. find_tops walks the tree by counting, without recursion, and checks that the
 * children of every element exist. */
typedef struct top {
    int element, column;
} top;

static hr_status find_tops(build *b, top **out)
{
    const pq_meta *m = b->m;
    int n = m->elements[0].n_children, column = 0;
    hr_status st = HR_OK;
    top *tops = NULL;
    int64_t at = 1;

    *out = NULL;
    if (n > m->n_elements - 1)
        return hr_error_set(b->err, HR_BAD_DATA, "%s: schema of %d columns in %d elements", b->file, n, m->n_elements);
    tops = hr__alloc(b->s->account, (size_t)n * sizeof *tops);
    if (!tops)
        return no_memory(b, (size_t)n * sizeof *tops);
    for (int i = 0; i < n; i++) {
        int64_t open = 1; /* announced elements that have not come yet */

        tops[i] = (top){ (int)at, column };
        for (; open > 0 && at < m->n_elements; at++) {
            open += m->elements[at].n_children - 1;
            column += m->elements[at].n_children == 0;
        }
        if (open > 0) {
            b->path.n = 0;
            HR_GO(malformed(b, "the schema ends before its last column"));
        }
    }
    if (at != m->n_elements)
        HR_GO(malformed(b, "the schema goes on after its last column"));
    *out = tops;
    tops = NULL; /* moved to the caller */
done:
    hr__free(tops);
    return st;
}

static int find_top(const pq_meta *m, const top *tops, const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < m->elements[0].n_children; i++) {
        if (name_is(&m->elements[tops[i].element], name, n))
            return i;
    }
    return -1;
}

static hr_status missing_column(build *b, const top *tops, const char *name)
{
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    for (int i = 0; i < b->m->elements[0].n_children; i++) {
        const pq_element *e = &b->m->elements[tops[i].element];

        hr__near_try(&near, (const char *)e->name.data, (size_t)e->name.n);
    }
    return hr__near_error(&near, HR_NOT_FOUND, b->file, name, b->err);
}

/* The embedded schema's field for top-level column i, if that schema has as many columns: names may have changed
 * since. */
static const hr_field *origin_of(const pq_meta *m, const hr_schema *arrow, int i)
{
    return arrow && arrow->n == m->elements[0].n_children ? &arrow->fields[i] : NULL;
}

static hr_status make_columns(build *b, const top *tops, const hr_schema *arrow, const hr_projection *projection)
{
    pq_schema *s = b->s;
    hr_field *fields = hr__alloc(s->account, (size_t)s->n_nodes * sizeof *fields);
    hr_status st = HR_OK;

    if (!fields)
        return no_memory(b, (size_t)s->n_nodes * sizeof *fields);
    for (int i = 0; i < s->n_nodes; i++) {
        int t = projection ? find_top(b->m, tops, projection->names[i]) : i;

        if (t < 0)
            HR_GO(missing_column(b, tops, projection->names[i]));
        b->at = tops[t].element;
        b->column = tops[t].column;
        s->node_leaf[i] = s->n_leaves;
        HR_GO(make_node(b, (levels){ 0, 0, 0 }, origin_of(b->m, arrow, t), &s->nodes[i]));
        fields[i] = s->nodes[i].field; /* borrowed */
    }
    s->node_leaf[s->n_nodes] = s->n_leaves;
    HR_GO(hr__schema_new(fields, s->n_nodes, &s->arrow, b->err));
    if (b->m->metadata) {
        s->arrow->metadata = hr__alloc(NULL, (size_t)b->m->metadata_bytes);
        if (!s->arrow->metadata)
            HR_GO(no_memory(b, (size_t)b->m->metadata_bytes));
        memcpy(s->arrow->metadata, b->m->metadata, (size_t)b->m->metadata_bytes);
        s->arrow->metadata_bytes = b->m->metadata_bytes;
    }
done:
    hr__free(fields);
    return st;
}

/* Leaves below all projected columns, for one allocation. A projection may name a column twice. */
static int64_t count_leaves(const pq_meta *m, const top *tops, const hr_projection *projection)
{
    int n_tops = m->elements[0].n_children;
    int64_t n = 0;

    for (int i = 0; projection && i < projection->n; i++) {
        int t = find_top(m, tops, projection->names[i]);

        if (t >= 0)
            n += (t + 1 < n_tops ? tops[t + 1].column : m->n_leaves) - tops[t].column;
    }
    return projection ? n : m->n_leaves;
}

hr_status pq__schema_new(const pq_meta *m, const hr_projection *projection, const char *name, hr_account *account,
                         pq_schema **out, hr_error *err)
{
    build b = { .m = m, .file = name, .path.account = account, .err = err };
    hr_schema *arrow = NULL;
    hr_status st = HR_OK;
    top *tops = NULL;

    *out = NULL;
    if (projection && projection->n < 0)
        projection = NULL;
    b.s = hr__zalloc(account, sizeof *b.s);
    if (!b.s)
        return no_memory(&b, sizeof *b.s);
    b.s->account = account;
    HR_GO(find_tops(&b, &tops));
    if (m->arrow_schema.n > 0)
        st = pq__arrow_schema_parse(m->arrow_schema, account, &arrow, err);
    if (st)
        HR_GO(hr__error_at(err, st, "%s", name));
    b.cap_leaves = (int)HR_MIN(count_leaves(m, tops, projection), INT32_MAX);
    b.s->n_nodes = projection ? projection->n : m->elements[0].n_children;
    b.s->nodes = hr__zalloc(account, (size_t)b.s->n_nodes * sizeof *b.s->nodes);
    b.s->node_leaf = hr__zalloc(account, ((size_t)b.s->n_nodes + 1) * sizeof *b.s->node_leaf);
    b.s->leaves = hr__zalloc(account, (size_t)b.cap_leaves * sizeof *b.s->leaves);
    if (!b.s->nodes || !b.s->node_leaf || !b.s->leaves)
        HR_GO(no_memory(&b, (size_t)b.s->n_nodes * sizeof *b.s->nodes));
    st = make_columns(&b, tops, arrow, projection);
    if (st && err && strncmp(err->text, name, strlen(name)) != 0)
        hr__error_at(err, st, "%s", name); /* the type functions do not know the file */
    HR_GO(st);
    *out = b.s;
    b.s = NULL; /* moved to the caller */
done:
    hr__text_clear(&b.path);
    hr__schema_unref(arrow);
    hr__free(tops);
    pq__schema_free(b.s);
    return st;
}

static void clear_node(pq_node *n)
{
    for (int i = 0; i < n->n_children; i++)
        clear_node(&n->children[i]);
    hr__free(n->children);
    hr__field_clear(&n->field);
}

void pq__schema_free(pq_schema *s)
{
    if (!s)
        return;
    for (int i = 0; s->nodes && i < s->n_nodes; i++)
        clear_node(&s->nodes[i]);
    for (int i = 0; i < s->n_leaves; i++)
        hr__free(s->leaves[i].name);
    hr__free(s->nodes);
    hr__free(s->node_leaf);
    hr__free(s->leaves);
    hr__schema_unref(s->arrow);
    hr__free(s);
}
