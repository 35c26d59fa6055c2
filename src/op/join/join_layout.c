/* join_layout.c - the output columns of a join: the left side's, then the right side's without its keys.
 *
 * A name on both sides gets the suffix of each side, if one is given; a left key keeps its name. Semi and anti joins
 * have the left columns only.
 *
 * Tests: test_keyed.c. */
#include "data/keys.h"
#include "op/join/join.h"

static bool left_only(hr_join_kind kind) { return kind == HR_JOIN_SEMI || kind == HR_JOIN_ANTI; }

static int key_of(const char *const *keys, int n, const char *name)
{
    for (int k = 0; k < n; k++)
        if (!strcmp(keys[k], name))
            return k;
    return -1;
}

/* The error for key k: the types differ; `right` NULL: the type cannot be a key. */
static hr_status key_types(const hr_join_names *names, int k, const hr_type *left, const hr_type *right, hr_error *err)
{
    hr_text a = { 0 }, b = { 0 };

    hr__type_print(left, &a);
    if (right) {
        hr__type_print(right, &b);
        (void)hr_error_set(err, HR_TYPE, "join: left key '%s' is %s, right key '%s' is %s; cast one of them",
                           names->left_keys[k], a.data ? a.data : "", names->right_keys[k], b.data ? b.data : "");
    } else {
        (void)hr_error_set(err, HR_TYPE,
                           "join: column '%s' of type %s cannot be a key; expected numbers, times, text or bytes",
                           names->left_keys[k], a.data ? a.data : "");
    }
    hr__text_clear(&a);
    hr__text_clear(&b);
    return HR_TYPE;
}

static hr_status check_keys(const hr_join_names *names, const hr_schema *left, const hr_schema *right, hr_error *err)
{
    for (int k = 0; k < names->n_keys; k++) {
        int l = hr__schema_find(left, names->left_keys[k]), r = hr__schema_find(right, names->right_keys[k]);

        if (l < 0)
            return hr__error_at(err, hr__schema_missing(left, names->left_keys[k], err), "join: left side");
        if (r < 0)
            return hr__error_at(err, hr__schema_missing(right, names->right_keys[k], err), "join: right side");
        if (!hr__type_equal(left->fields[l].type, right->fields[r].type))
            return key_types(names, k, left->fields[l].type, right->fields[r].type, err);
        if (!hr__type_is_groupable(left->fields[l].type))
            return key_types(names, k, left->fields[l].type, NULL, err);
    }
    return HR_OK;
}

/* Whether `others` has an output column of this name. */
static bool clashes(const char *name, const hr_schema *others, const char *const *skipped, int n_skipped)
{
    return hr__schema_find(others, name) >= 0 && key_of(skipped, n_skipped, name) < 0;
}

static hr_status add_column(hr_join_layout *l, const char *from, const char *suffix, bool right, int key, hr_error *err)
{
    hr_join_column *c = &l->columns[l->n_columns];

    *c = (hr_join_column){ .right = right, .key = key };
    c->from = hr__strdup(NULL, from);
    c->name = hr__printf(NULL, "%s%s", from, suffix ? suffix : "");
    l->n_columns++;
    return c->from && c->name ? HR_OK : hr__error_memory(err, "join", 64);
}

static hr_status add_columns(hr_join_layout *l, const hr_join_names *names, const hr_schema *left,
                             const hr_schema *right, hr_error *err)
{
    for (int i = 0; i < left->n; i++) {
        const char *name = left->fields[i].name;
        int key = key_of(names->left_keys, names->n_keys, name);
        bool clash = key < 0 && !left_only(l->kind) && clashes(name, right, names->right_keys, names->n_keys);

        HR_TRY(add_column(l, name, clash ? names->left_suffix : NULL, false, key, err));
    }
    for (int i = 0; i < right->n && !left_only(l->kind); i++) {
        const char *name = right->fields[i].name;

        if (key_of(names->right_keys, names->n_keys, name) < 0)
            HR_TRY(add_column(l, name, clashes(name, left, NULL, 0) ? names->right_suffix : NULL, true, -1, err));
    }
    for (int i = 0; i < l->n_columns; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(l->columns[i].name, l->columns[k].name))
                return hr_error_set(err, HR_INVALID,
                                    "join: two output columns have the name '%s'; set left_suffix or right_suffix",
                                    l->columns[i].name);
    return HR_OK;
}

hr_status hr__join_layout(hr_join_kind kind, const hr_join_names *names, const hr_schema *left, const hr_schema *right,
                          hr_join_layout **out, hr_error *err)
{
    hr_join_layout *l = hr__zalloc(NULL, sizeof *l);
    hr_status st = HR_OK;

    *out = NULL;
    if (!l || !(l->columns = hr__zalloc(NULL, (size_t)(left->n + right->n + 1) * sizeof *l->columns)))
        HR_GO(hr__error_memory(err, "join", sizeof *l));
    l->kind = kind;
    l->n_keys = names->n_keys;
    HR_GO(check_keys(names, left, right, err));
    HR_GO(add_columns(l, names, left, right, err));
    *out = l;
    l = NULL;
done:
    hr__join_layout_free(l);
    return st;
}

void hr__join_layout_free(hr_join_layout *l)
{
    if (!l)
        return;
    for (int i = 0; l->columns && i < l->n_columns; i++) {
        hr__free(l->columns[i].name);
        hr__free(l->columns[i].from);
    }
    hr__free(l->columns);
    hr__free(l);
}

hr_status hr__join_bind(const hr_join_layout *l, const hr_join_names *names, hr_schema *left, hr_schema *right,
                        hr_join_bound **out, hr_error *err)
{
    hr_join_bound *b = hr__zalloc(NULL, sizeof *b);
    hr_field *fields = hr__zalloc(NULL, ((size_t)l->n_columns + 1) * sizeof *fields);
    size_t n = (size_t)l->n_columns + 1;
    hr_status st = HR_OK;

    *out = NULL;
    if (!b || !fields)
        HR_GO(hr__error_memory(err, "join", sizeof *b));
    b->kind = l->kind;
    b->n_keys = l->n_keys;
    b->left_in = hr__schema_ref(left);
    b->right_in = hr__schema_ref(right);
    b->left_keys = hr__zalloc(NULL, (size_t)(l->n_keys + 1) * sizeof(int));
    b->right_keys = hr__zalloc(NULL, (size_t)(l->n_keys + 1) * sizeof(int));
    b->from = hr__zalloc(NULL, n * sizeof(int));
    b->key = hr__zalloc(NULL, n * sizeof(int));
    b->right = hr__zalloc(NULL, n * sizeof(bool));
    if (!b->left_keys || !b->right_keys || !b->from || !b->key || !b->right)
        HR_GO(hr__error_memory(err, "join", (int64_t)n * 16));
    HR_GO(check_keys(names, left, right, err));
    for (int k = 0; k < l->n_keys; k++) {
        b->left_keys[k] = hr__schema_find(left, names->left_keys[k]);
        b->right_keys[k] = hr__schema_find(right, names->right_keys[k]);
    }
    for (int i = 0; i < l->n_columns; i++) {
        const hr_join_column *c = &l->columns[i];
        int at = hr__schema_find(c->right ? right : left, c->from);

        if (at < 0)
            continue;                                                 /* not read, since no operator needs it */
        fields[b->n_columns] = (c->right ? right : left)->fields[at]; /* borrowed */
        fields[b->n_columns].name = c->name;
        fields[b->n_columns].nullable = true;
        b->from[b->n_columns] = at;
        b->key[b->n_columns] = c->key;
        b->right[b->n_columns++] = c->right;
    }
    HR_GO(hr__schema_new(fields, b->n_columns, &b->out, err));
    *out = b;
    b = NULL;
done:
    hr__free(fields);
    hr__join_bound_free(b);
    return st;
}

void hr__join_bound_free(hr_join_bound *b)
{
    if (!b)
        return;
    hr__free(b->left_keys);
    hr__free(b->right_keys);
    hr__free(b->from);
    hr__free(b->key);
    hr__free(b->right);
    hr__schema_unref(b->left_in);
    hr__schema_unref(b->right_in);
    hr__schema_unref(b->out);
    hr__free(b);
}
