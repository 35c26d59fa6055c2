/* flatbuffer.h - the part of FlatBuffers that Arrow's messages need: a reader that trusts no input, and a builder.
 *
 * The format (https://flatbuffers.dev/internals): a table begins with the distance back to its vtable, which gives the
 * place of each field; a reference to a string, vector or table is the distance ahead. Parts can be shared, so a small
 * buffer can describe a huge tree: code that walks a tree must count its steps. */
#ifndef HR_FLATBUFFER_H
#define HR_FLATBUFFER_H

#include "io/io.h"

/* --- reading. A place is an offset from `data`; 0 stands for "not there". The first access beyond the end sets `bad`;
 * later reads give 0. */
typedef struct hr_flat {
    const uint8_t *data;
    int64_t n;
    bool bad;
} hr_flat;

static inline uint64_t hr__flat_load(hr_flat *f, int64_t at, int n_bytes)
{
    uint64_t v = 0;

    if (at < 0 || at > f->n - n_bytes) {
        f->bad = true;
        return 0;
    }
    for (int i = 0; i < n_bytes; i++)
        v |= (uint64_t)f->data[at + i] << (8 * i);
    return v;
}

/* The place of field i of a table; 0: it has its default. */
int64_t hr__flat_slot(hr_flat *f, int64_t table, int i);
/* The table that field i refers to. */
int64_t hr__flat_table(hr_flat *f, int64_t table, int i);
/* A signed number of n_bytes (1: unsigned). */
int64_t hr__flat_number(hr_flat *f, int64_t table, int i, int n_bytes, int64_t missing);
hr_view hr__flat_text(hr_flat *f, int64_t table, int i);
/* A vector: its length, and the place of its elements of item_bytes. */
int64_t hr__flat_vector(hr_flat *f, int64_t table, int i, int item_bytes, int64_t *first);
/* The table that element i of a vector of offsets refers to. */
int64_t hr__flat_element(hr_flat *f, int64_t first, int64_t i);

/* --- verifying: is all of a buffer what its schema says? What reads a verified buffer never sets `bad`. */

typedef enum hr_flat_kind {
    HR_FLAT_NUMBER, /* of `bytes` bytes */
    HR_FLAT_TEXT,
    HR_FLAT_VECTOR, /* of numbers or structs of `bytes` bytes */
    HR_FLAT_TABLE,  /* as `of` says */
    HR_FLAT_TABLES, /* a vector of them */
    HR_FLAT_UNION   /* members[n] of its table; n is the byte in the field before. NULL there: not verified */
} hr_flat_kind;

typedef struct hr_flat_table hr_flat_table;
typedef struct hr_flat_field {
    hr_flat_kind kind;
    int bytes;
    const hr_flat_table *of;
} hr_flat_field;
struct hr_flat_table {
    const char *name;
    int n;
    const hr_flat_field *fields; /* n, by their number */
    int n_union;                 /* tables of its union field */
    const hr_flat_table *const *members;
};
/* HR_BAD_DATA names the table and the field. Checks the same as FlatBuffers' own verifier (bounds, alignment, ends of
 * texts), and that fields lie within their table, no two in one place. *root: the table. */
hr_status hr__flat_verify(hr_flat *f, const hr_flat_table *type, int64_t *root, hr_error *err) HR_MUST_USE;

/* --- building, from the end to the beginning: parts before what refers to them. A part is named by its distance from
 * the end. A failed allocation sets `failed`, and all that follows does nothing. */
#define HR_FLAT_FIELDS 8
typedef struct hr_flat_builder {
    hr_account *account;
    uint8_t *data; /* the last n bytes of cap are used */
    int64_t n, cap;
    bool failed;
    int64_t slots[HR_FLAT_FIELDS]; /* of the table being built; 0: default */
    int64_t table_from;
} hr_flat_builder;

void hr__flat_clear(hr_flat_builder *b);
int64_t hr__flat_put_text(hr_flat_builder *b, const void *data, int64_t n);
/* A vector of references to parts, or of structs and numbers as they lie in memory (aligned to 8 if is_wide). */
int64_t hr__flat_put_refs(hr_flat_builder *b, const int64_t *parts, int64_t n);
int64_t hr__flat_put_items(hr_flat_builder *b, const void *items, int64_t n, int item_bytes, bool is_wide);
/* A table: begin, its fields in any order, end. */
void hr__flat_begin(hr_flat_builder *b);
void hr__flat_add_number(hr_flat_builder *b, int i, int64_t v, int n_bytes);
void hr__flat_add_ref(hr_flat_builder *b, int i, int64_t part); /* part 0: nothing */
int64_t hr__flat_end(hr_flat_builder *b);
/* The whole buffer, padded to 8 bytes; borrowed from b. */
hr_view hr__flat_finish(hr_flat_builder *b, int64_t root);

#endif
