/* parquet_write_levels.c - a nested column as Dremel's levels.
 *
 * Walks from the top-level column to one leaf. A *slot* is an entry of the leaf's stream; at the beginning there is one
 * for each row. At each type on the way
 *   what can be null   slots whose value is there go one definition level up, the others end
 *   a list             slots with items become as many slots, one level up, which repeat it but for the first; others
 *                      end
 *   a struct           nothing changes but the array
 * The elements that remain lie one after another in *spans* of the current array, in the order of the slots. Spans are
 * few if lists are whole: a column of lists of numbers is one span, and this file reads none of its values. Everything
 * stored is nullable, except the keys of maps.
 *
 * Tests: test_parquet_write.c. */
#include "format/parquet/parquet_write.h"

typedef struct walk {
    pw_levels *l;
    int64_t cap;  /* of def and rep */
    int def, rep; /* levels so far */
    int64_t n_alive;
    const hr_array *a;
    hr_error *err;
} walk;

static hr_status no_memory(walk *w, int64_t n) { return hr__error_memory(w->err, "Parquet levels", n); }

static hr_status add_span(pw_levels *l, pw_span **spans, int64_t *n, int64_t *cap, int64_t begin, int64_t count)
{
    if (count == 0)
        return HR_OK;
    if (*n && (*spans)[*n - 1].begin + (*spans)[*n - 1].n == begin) {
        (*spans)[*n - 1].n += count;
        return HR_OK;
    }
    if (!hr__grow(l->mem->account, (void **)spans, cap, *n + 1, sizeof **spans))
        return HR_NO_MEMORY;
    (*spans)[(*n)++] = (pw_span){ begin, count };
    return HR_OK;
}

static void replace_spans(pw_levels *l, pw_span *spans, int64_t n, int64_t cap)
{
    hr__free(l->spans);
    l->spans = spans;
    l->n_spans = n;
    l->cap_spans = cap;
}

static hr_status make_def(walk *w)
{
    pw_levels *l = w->l;

    if (l->def)
        return HR_OK;
    HR_TRY(hr__buffer_new(l->mem, l->n + 8, &l->def_memory, w->err));
    l->def = l->def_memory->data;
    memset(l->def, w->def, (size_t)l->n);
    return HR_OK;
}

static bool any_null(const walk *w)
{
    const hr_array *a = w->a;

    if (a->type->id == HR_T_NULL)
        return true;
    if (!a->buffers[0])
        return false;
    for (int64_t s = 0; s < w->l->n_spans; s++) {
        pw_span p = w->l->spans[s];

        if (hr__bits_count(a->buffers[0]->data, p.begin, p.n) != p.n)
            return true;
    }
    return false;
}

/* Slots whose value exists go one level up; spans lose the nulls. */
static hr_status up_if_valid(walk *w)
{
    pw_levels *l = w->l;
    const uint8_t *bits = w->a->type->id == HR_T_NULL ? NULL : w->a->buffers[0]->data;
    pw_span *spans = NULL;
    int64_t n = 0, cap = 0, at = 0, alive = 0;
    hr_status st = HR_OK;

    HR_TRY(make_def(w));
    for (int64_t s = 0; s < l->n_spans && !st; s++) {
        pw_span p = l->spans[s];

        for (int64_t i = p.begin; i < p.begin + p.n && !st;) {
            int64_t from = i;

            while (i < p.begin + p.n && bits && hr__bit(bits, i))
                i++;
            for (int64_t k = from; k < i; k++) {
                while (l->def[at] != w->def)
                    at++;
                l->def[at++]++;
            }
            alive += i - from;
            st = add_span(l, &spans, &n, &cap, from, i - from);
            for (; i < p.begin + p.n && !(bits && hr__bit(bits, i)); i++) {
                while (l->def[at] != w->def)
                    at++;
                at++;
            }
        }
    }
    if (st) {
        hr__free(spans);
        return no_memory(w, cap * (int64_t)sizeof *spans);
    }
    replace_spans(l, spans, n, cap);
    w->n_alive = alive;
    return HR_OK;
}

/* The current array is nullable: one level more. */
static hr_status nullable(walk *w)
{
    if (any_null(w))
        HR_TRY(up_if_valid(w));
    else if (w->l->def && w->n_alive == w->l->n)
        memset(w->l->def, w->def + 1, (size_t)w->l->n);
    else if (w->l->def)
        for (int64_t i = 0; i < w->l->n; i++)
            w->l->def[i] = (uint8_t)(w->l->def[i] + (w->l->def[i] == w->def));
    w->def++;
    return HR_OK;
}

static void item_range(const hr_array *a, int64_t i, int64_t *begin, int64_t *n)
{
    hr__array_range(a, i - a->offset, begin, n); /* spans count from the buffers' begin, arrays from their offset */
}

/* Slots and items after a list. */
static int64_t count_slots(const walk *w, bool *dense)
{
    int64_t n = w->l->n - w->n_alive, begin, items;

    *dense = w->n_alive == w->l->n;
    for (int64_t s = 0; s < w->l->n_spans; s++)
        for (int64_t i = w->l->spans[s].begin; i < w->l->spans[s].begin + w->l->spans[s].n; i++) {
            item_range(w->a, i, &begin, &items);
            n += HR_MAX(items, 1);
            *dense = *dense && items > 0;
        }
    return n;
}

static hr_status expand(walk *w, uint8_t *def, uint8_t *rep)
{
    pw_levels *l = w->l;
    pw_span *spans = NULL;
    int64_t n = 0, cap = 0, from = 0, to = 0, alive = 0;
    hr_status st = HR_OK;

    for (int64_t s = 0; s < l->n_spans && !st; s++)
        for (int64_t i = l->spans[s].begin; i < l->spans[s].begin + l->spans[s].n && !st; i++, from++) {
            int64_t begin, items, slots;

            for (; l->def && l->def[from] != w->def; from++, to++) { /* ended before: stays as it is */
                def[to] = l->def[from];
                rep[to] = l->rep ? l->rep[from] : 0;
            }
            item_range(w->a, i, &begin, &items);
            slots = HR_MAX(items, 1);
            if (def)
                memset(def + to, w->def + (items > 0), (size_t)slots);
            memset(rep + to, w->rep + 1, (size_t)slots);
            rep[to] = l->rep ? l->rep[from] : 0;
            to += slots;
            alive += items;
            st = add_span(l, &spans, &n, &cap, begin, items);
        }
    for (; from < l->n; from++, to++) {
        def[to] = l->def[from];
        rep[to] = l->rep ? l->rep[from] : 0;
    }
    if (st) {
        hr__free(spans);
        return no_memory(w, cap * (int64_t)sizeof *spans);
    }
    replace_spans(l, spans, n, cap);
    w->n_alive = alive;
    return HR_OK;
}

static hr_status list(walk *w)
{
    pw_levels *l = w->l;
    bool dense;
    int64_t n = count_slots(w, &dense);
    hr_buffer *def = NULL, *rep = NULL;
    hr_status st = HR_OK;

    if (!dense)
        HR_GO(hr__buffer_new(l->mem, n + 8, &def, w->err));
    HR_GO(hr__buffer_new(l->mem, n + 8, &rep, w->err));
    HR_GO(expand(w, def ? def->data : NULL, rep->data));
    hr__buffer_unref(l->def_memory);
    hr__buffer_unref(l->rep_memory);
    l->def_memory = def;
    l->rep_memory = rep;
    l->def = def ? def->data : NULL;
    l->rep = rep->data;
    def = rep = NULL;
    l->n = n;
    w->def++;
    w->rep++;
done:
    hr__buffer_unref(def);
    hr__buffer_unref(rep);
    return st;
}

/* Moves to the child: spans then count from the begin of its own buffers. */
static void descend(walk *w, const hr_array *child, int64_t shift)
{
    w->a = child;
    for (int64_t s = 0; s < w->l->n_spans; s++)
        w->l->spans[s].begin += shift;
}

hr_status pw__levels_make(const pw_leaf *leaf, const hr_array *column, const hr_mem *mem, pw_levels *out, hr_error *err)
{
    walk w = { .l = out, .a = column, .err = err, .n_alive = column->length };
    bool is_key = false;
    hr_status st = HR_OK;

    *out = (pw_levels){ .mem = mem, .n = column->length };
    if (add_span(out, &out->spans, &out->n_spans, &out->cap_spans, column->offset, column->length))
        HR_GO(no_memory(&w, 64));
    for (int i = 0;; i++) {
        const hr_array *a = w.a;

        if (!is_key)
            HR_GO(nullable(&w));
        if (i == leaf->n_steps)
            break;
        is_key = false;
        if (a->type->id == HR_T_STRUCT) {
            const hr_array *child = a->children[leaf->steps[i]];

            descend(&w, child, child->offset);
            continue;
        }
        HR_GO(list(&w));
        descend(&w, a->children[0], a->children[0]->offset);
        if (a->type->id == HR_T_MAP) { /* entries are never null: their struct has no level of its own */
            const hr_array *child = w.a->children[leaf->steps[++i]];

            is_key = leaf->steps[i] == 0;
            descend(&w, child, child->offset);
        }
    }
    out->leaf = w.a;
    for (int64_t s = 0; s < out->n_spans; s++)
        out->n_values += out->spans[s].n;
done:
    if (st)
        pw__levels_clear(out);
    return st;
}

void pw__levels_clear(pw_levels *l)
{
    hr__buffer_unref(l->def_memory);
    hr__buffer_unref(l->rep_memory);
    hr__free(l->spans);
    *l = (pw_levels){ .mem = l->mem };
}
