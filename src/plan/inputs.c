/* inputs.c - the inputs and the code of a plan, as a position stores them, so that a changed input is found.
 *
 * A position describes any number of files in about a kilobyte, is made without reading them all, and recognizes them
 * on another mount, or after `touch`.
 *
 * 1. File names are relative to the folder that all files of their scan share: the place of that folder does not count.
 * 2. The files of all scans of the plan are one list, cut into at most HR_INPUT_GROUPS groups of neighbours. Of each
 *    group a position has a hash of the files' sizes and times, and one of their contents (some blocks of each file:
 *    format/scan/scan.c).
 * 3. On load, a group with equal sizes and times is unchanged. Otherwise its contents decide. With up to VERIFIED_FILES
 *    files the check compares contents in any case, since that is fast.
 * 4. The check compares tables in memory by all their values. A caller may do that beside other work.
 * 5. It compares functions by hashes of their code, which their maker gave (hr__calls_set_code): a difference of code
 *    is reported, and is an error only in strict mode. */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>

#define VERIFIED_FILES 512
#define HASHES_AT_ONCE 512 /* of a group, mostly all */

/* The scans of a plan, inputs first; a scan that occurs twice is listed twice. */
typedef struct scan_list {
    hr_scan **items; /* borrowed */
    int64_t n, cap;
    int64_t n_files;
} scan_list;

static hr_status add_scans(const hr_plan *p, scan_list *l, hr_error *err)
{
    for (int i = 0; i < p->n_inputs; i++)
        HR_TRY(add_scans(p->inputs[i], l, err));
    if (p->kind != HR_PLAN_SCAN)
        return HR_OK;
    if (!hr__grow(NULL, (void **)&l->items, &l->cap, l->n + 1, sizeof(hr_scan *)))
        return hr__error_memory(err, "plan", (l->n + 1) * (int64_t)sizeof(hr_scan *));
    l->items[l->n++] = p->scan;
    l->n_files += hr__scan_n_inputs(p->scan);
    return HR_OK;
}

static int n_groups(int64_t n_files) { return (int)HR_MIN(n_files, HR_INPUT_GROUPS); }
static int64_t group_begin(int64_t n_files, int group) { return n_files * group / HR_MAX(n_groups(n_files), 1); }

/* The scan of file `file` of the list; *own: its number in that scan. */
static hr_scan *scan_of(const scan_list *l, int64_t file, int *own)
{
    int64_t i = 0;

    while (file >= hr__scan_n_inputs(l->items[i]))
        file -= hr__scan_n_inputs(l->items[i++]);
    *own = (int)file;
    return l->items[i];
}

static void list_files(const scan_list *l, hr_inputs *out)
{
    hr_hash names, sizes, times;
    int64_t file = 0;
    int group = 0;

    hr__hash_init(&names, 1);
    hr__hash_init(&sizes, 2);
    hr__hash_init(&times, 3);
    for (int64_t i = 0; i < l->n; i++) {
        for (int k = 0; k < hr__scan_n_inputs(l->items[i]); k++) {
            hr_scan_input f;

            hr__scan_input(l->items[i], k, &f);
            hr__hash_text(&names, f.name);
            hr__hash_int(&sizes, f.n_bytes);
            hr__hash_int(&times, f.n_bytes);
            hr__hash_int(&times, f.mtime_ns);
            if (++file < group_begin(l->n_files, group + 1))
                continue;
            out->groups[group++].times = hr__hash_end(&times).lo;
            hr__hash_init(&times, 3);
        }
        hr__hash_int(&names, -1); /* where a scan ends */
    }
    out->n = l->n_files;
    out->names = hr__hash_end(&names).lo;
    out->sizes = hr__hash_end(&sizes).lo;
}

/* 0: there are no values in memory, or *stop came true. */
static uint64_t memory_digest(const scan_list *l, const atomic_bool *stop)
{
    bool any = false;
    hr_hash h;

    hr__hash_init(&h, 1);
    for (int64_t i = 0; i < l->n; i++) {
        uint64_t digest = hr__scan_memory_digest(l->items[i], stop);

        if (!digest && hr__is_stopped(stop))
            return 0;
        any = any || digest;
        if (digest)
            hr__hash_int(&h, (int64_t)digest);
    }
    return any ? hr__hash_end(&h).lo : 0;
}

/* *out: a hash of the contents of the group's files; 0: one of them is not known, *unknown says which. */
static hr_status group_contents(const scan_list *l, int group, uint64_t *out, int64_t *unknown, hr_error *err)
{
    int64_t at = group_begin(l->n_files, group), end = group_begin(l->n_files, group + 1);
    uint64_t some[HASHES_AT_ONCE];
    hr_hash h;

    *out = 0;
    hr__hash_init(&h, 1);
    while (at < end) {
        int own, n;
        hr_scan *s = scan_of(l, at, &own);

        n = (int)HR_MIN(HR_MIN(end - at, HASHES_AT_ONCE), hr__scan_n_inputs(s) - own);
        HR_TRY(hr__scan_input_hashes(s, own, own + n, some, err));
        for (int i = 0; i < n; i++) {
            if (!some[i]) {
                *unknown = at + i;
                return HR_OK;
            }
            hr__hash_int(&h, (int64_t)some[i]);
        }
        at += n;
    }
    *out = HR_MAX(hr__hash_end(&h).lo, 1);
    return HR_OK;
}

hr_status hr__inputs_of(hr_plan *p, bool contents, hr_inputs *out, hr_error *err)
{
    hr_status st = HR_OK;
    scan_list l = { 0 };
    int64_t unknown;

    *out = (hr_inputs){ 0 };
    HR_GO(add_scans(p, &l, err));
    list_files(&l, out);
    if (!contents)
        goto done;
    out->memory = memory_digest(&l, NULL);
    for (int g = 0; g < n_groups(l.n_files); g++)
        HR_GO(group_contents(&l, g, &out->groups[g].contents, &unknown, err));
done:
    hr__free(l.items);
    return st;
}

hr_status hr__plan_data_digest(hr_plan *p, char out[33], hr_error *err)
{
    char plan[33];
    scan_list l = { 0 };
    hr_status st = HR_OK;
    hr_inputs in = { 0 };
    hr_hash h;

    hr__plan_digest(p, plan);
    HR_GO(add_scans(p, &l, err));
    list_files(&l, &in);
    hr__hash_init(&h, 1);
    hr__hash_text(&h, plan);
    hr__hash_int(&h, (int64_t)in.names);
    hr__hash_int(&h, (int64_t)in.sizes);
    hr__hash_int(&h, (int64_t)memory_digest(&l, NULL));
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, hr__hash_end(&h).hi, hr__hash_end(&h).lo);
done:
    hr__free(l.items);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- comparing */

static const char *file_name(const scan_list *l, int64_t file)
{
    int own;
    hr_scan *s = scan_of(l, file, &own);

    return hr__scan_file_name(s, own);
}

/* "a.parquet" or "one of 313 files, a.parquet to b.parquet". */
static void print_group(const scan_list *l, int group, hr_text *t)
{
    int64_t begin = group_begin(l->n_files, group), end = group_begin(l->n_files, group + 1);

    if (end - begin == 1)
        hr__text_add(t, "%s", file_name(l, begin));
    else
        hr__text_add(t, "one of %" PRId64 " files, %s to %s,", end - begin, file_name(l, begin), file_name(l, end - 1));
}

/* Checks the contents of a group whose times differ, or that is always compared. */
static hr_status check_group(const scan_list *l, int group, const hr_inputs *saved, const hr_inputs *now, bool moved,
                             hr_error *err)
{
    bool same_times = saved->groups[group].times == now->groups[group].times;
    uint64_t was = saved->groups[group].contents, contents = 0;
    int64_t unknown = group_begin(l->n_files, group);
    hr_text which = { 0 };
    hr_status st = HR_OK;

    if (was)
        HR_TRY(group_contents(l, group, &contents, &unknown, err));
    if (was == contents && (was || moved || same_times))
        return HR_OK;
    print_group(l, group, &which);
    if (was && contents)
        st = hr_error_set(
            err, HR_MISMATCH,
            "position: %s has other contents than when the position was saved; the rows before it were made of "
            "those",
            which.data ? which.data : "a file");
    else if (was)
        st = hr_error_set(err, HR_MISMATCH, "position: %s: cannot be read, or changed while it is compared",
                          file_name(l, unknown));
    else
        st = hr_error_set(
            err, HR_MISMATCH,
            "position: %s has another size or time than when the position was saved, which has no hash of "
            "its contents (%s); load it with moved=True if they are the same",
            which.data ? which.data : "a file",
            l->n_files > HR_MAX_HASHED_FILES ? "there are too many files" : "the file had changed since it was listed");
    hr__text_clear(&which);
    return st;
}

hr_status hr__inputs_check_memory(hr_plan *p, uint64_t saved, const atomic_bool *stop, hr_error *err)
{
    hr_status st = HR_OK;
    scan_list l = { 0 };

    HR_GO(add_scans(p, &l, err));
    if (memory_digest(&l, stop) != saved && !hr__is_stopped(stop))
        HR_FAIL(HR_MISMATCH, HR_OTHER_VALUES);
done:
    hr__free(l.items);
    return st;
}

hr_status hr__inputs_check(hr_plan *p, const hr_inputs *saved, bool moved, bool *later, hr_error *err)
{
    const atomic_bool at_once = true;
    hr_status st = HR_OK;
    scan_list l = { 0 };
    hr_inputs now = { 0 };
    bool waits;

    HR_GO(add_scans(p, &l, err));
    list_files(&l, &now);
    if (saved->n != now.n)
        HR_FAIL(HR_MISMATCH, "position: it was saved with %" PRId64 " files to read, this plan has %" PRId64, saved->n,
                now.n);
    waits = later && saved->memory && !memory_digest(&l, &at_once);
    if (later)
        *later = waits;
    if (!waits && saved->memory != memory_digest(&l, NULL))
        HR_FAIL(HR_MISMATCH, HR_OTHER_VALUES);
    if (!moved && saved->names != now.names)
        HR_FAIL(
            HR_MISMATCH,
            "position: the files have other names than when it was saved, or another order (the first is %s now); load "
            "it with moved=True if they are the same files in the same order",
            file_name(&l, 0));
    for (int g = 0; g < n_groups(l.n_files); g++)
        if (moved || l.n_files <= VERIFIED_FILES || saved->groups[g].times != now.groups[g].times)
            HR_GO(check_group(&l, g, saved, &now, moved, err));
    if (saved->sizes != now.sizes)
        HR_FAIL(HR_MISMATCH, "position: the files have other sizes than when it was saved");
done:
    hr__free(l.items);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------- code */

/* Adds the codes of the plan's functions to `out`, inputs first (HR_CODE_DIGITS digits each; the last one covers all
 * further functions). */
static void add_code(const hr_plan *p, char *out, int *n)
{
    char code[HR_CODE_DIGITS + 1];
    char *place;

    for (int i = 0; i < p->n_inputs; i++)
        add_code(p->inputs[i], out, n);
    if (p->kind != HR_PLAN_OP || !p->op->cls->code)
        return;
    p->op->cls->code(p->op, code);
    place = out + HR_MIN(*n, HR_MAX_CODES - 1) * HR_CODE_DIGITS;
    if (*n >= HR_MAX_CODES) {
        hr_hash h;

        hr__hash_init(&h, 1);
        hr__hash_add(&h, place, HR_CODE_DIGITS);
        hr__hash_text(&h, code);
        snprintf(code, sizeof code, "%016" PRIx64, hr__hash_end(&h).lo);
    }
    memcpy(place, code, HR_CODE_DIGITS + 1);
    ++*n;
}

void hr__plan_code(const hr_plan *p, char out[HR_MAX_CODES * HR_CODE_DIGITS + 1])
{
    int n = 0;

    out[0] = 0;
    add_code(p, out, &n);
}

typedef struct code_check {
    const char *saved;
    int n;
    hr_text names;
} code_check;

static void compare_code(const hr_plan *p, const char *now, code_check *c)
{
    char code[HR_CODE_DIGITS + 1];
    hr_text name = { 0 };
    const char *was;

    for (int i = 0; i < p->n_inputs; i++)
        compare_code(p->inputs[i], now, c);
    if (p->kind != HR_PLAN_OP || !p->op->cls->code)
        return;
    p->op->cls->code(p->op, code);
    was = c->saved + HR_MIN(c->n, HR_MAX_CODES - 1) * HR_CODE_DIGITS;
    now += HR_MIN(c->n, HR_MAX_CODES - 1) * HR_CODE_DIGITS;
    c->n++;
    if (*was == '-' || *now == '-' || !memcmp(was, now, HR_CODE_DIGITS))
        return;
    p->op->cls->describe(p->op, &name);
    hr__text_add(&c->names, "%s%s", c->names.n ? ", " : "", name.data ? name.data : "a function");
    hr__text_clear(&name);
}

hr_status hr__plan_code_check(const hr_plan *p, const char *saved, char **differs, hr_error *err)
{
    char now[HR_MAX_CODES * HR_CODE_DIGITS + 1];
    code_check c = { .saved = saved };

    *differs = NULL;
    hr__plan_code(p, now);
    if (strlen(now) != strlen(saved))
        return hr_error_set(err, HR_MISMATCH, "position: it was saved with %zu functions, this plan has %zu",
                            strlen(saved) / HR_CODE_DIGITS, strlen(now) / HR_CODE_DIGITS);
    compare_code(p, now, &c);
    if (c.names.failed) {
        hr__text_clear(&c.names);
        return hr__error_memory(err, "position", c.names.n);
    }
    *differs = c.names.data;
    return HR_OK;
}
