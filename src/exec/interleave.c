/* interleave.c - the files that a leaf has open, and the order of their blocks.
 *
 * One file is open at a time, and its fragments come in the order of their numbers. For a random order of blocks, a
 * leaf opens HR_FILES_AT_ONCE files together, in the (random) order of files, and permutes their fragments as one list:
 * so a window of a local shuffle sees rows of many files at once, even if each file holds rows of one kind.
 *
 * The place in the order alone decides which files are open together: the files from a multiple of HR_FILES_AT_ONCE up
 * to the next. So a position can return to any place. A file of a single row is open alone; small_files.c reads many of
 * them at once.
 *
 * Tests: test_combine.c, test_run.c. */
#include "exec/run.h"

enum { OF_FILES = 3, OF_FRAGMENTS }; /* a local shuffle uses 1 and 2 */

/* A random order of n items; `what` and `which` distinguish it from other random orders. NULL: no memory. */
static int32_t *random_order(const hr_stage *s, int n, uint64_t what, uint64_t which)
{
    int32_t *order = hr__alloc(s->run->account, ((size_t)n + 1) * sizeof *order);

    for (int i = 0; order && i < n; i++)
        order[i] = i;
    if (order)
        hr__random_permute((uint32_t *)order, n, hr__random_bits(s->order.seed, s->order.epoch, what, which).lo);
    return order;
}

int hr__stage_file(const hr_stage *s, int place) { return s->order.files ? s->order.files[place] : place; }

hr_status hr__stage_order_files(hr_stage *s, hr_error *err)
{
    int n = hr__scan_n_files(s->scan);

    if (s->order.known)
        return HR_OK;
    HR_TRY(hr__scan_order(s->scan, s->run->options.seed, s->run->options.epoch, &s->order.files, err));
    if (s->order.random_blocks && !s->order.files && n > 1 &&
        !(s->order.files = random_order(s, n, OF_FILES, (uint32_t)s->leaf.instance)))
        return hr__error_memory(err, "order of files", n * (int64_t)sizeof *s->order.files);
    s->order.known = true;
    return HR_OK;
}

hr_status hr__stage_open(hr_stage *s, int place, hr_source *source, hr_scan_file **out, hr_error *err)
{
    const hr_run_options *o = &s->run->options;
    const hr_open how = { .projection = &s->leaf.columns,
                          .filter = s->leaf.filter,
                          .loose = s->leaf.loose,
                          .image_steps = s->leaf.image_steps.n ? &s->leaf.image_steps : NULL,
                          .dice = { .seed = o->seed, .epoch = o->epoch, .at = { .instance = s->leaf.instance } },
                          .account = s->run->account,
                          .skipped = &s->counts.skipped,
                          .source = source,
                          .ahead = s->window.begins_small ? 0 : hr__stage_bytes_ahead(s) };

    HR_TRY(hr__scan_open(s->scan, hr__stage_file(s, place), &how, out, err));
    atomic_fetch_add_explicit(&s->counts.files_opened, 1, memory_order_relaxed);
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------- files together */

static bool stands_alone(const hr_stage *s, int place)
{
    return !s->order.random_blocks || hr__scan_row_bytes(s->scan, hr__stage_file(s, place)) >= 0;
}

/* Place of the first of the files that are open together with the file at `place`. */
static int first_with(const hr_stage *s, int place)
{
    if (!stands_alone(s, place))
        while (place % HR_FILES_AT_ONCE && !stands_alone(s, place - 1))
            place--;
    return place;
}

int hr__stage_files_from(const hr_stage *s, int place)
{
    int end = place + 1;

    if (!stands_alone(s, place))
        while (end % HR_FILES_AT_ONCE && end < hr__scan_n_files(s->scan) && !stands_alone(s, end))
            end++;
    return end - place;
}

void hr__stage_pass_files(hr_stage *s, int64_t *rows)
{
    while (s->at.file < hr__scan_n_files(s->scan)) {
        int n = hr__stage_files_from(s, s->at.file);
        int64_t sum = 0;

        for (int i = 0; i < n; i++) {
            int64_t of_file = hr__scan_file_rows(s->scan, hr__stage_file(s, s->at.file + i));

            if (of_file < 0)
                return;
            sum += of_file;
        }
        if (sum > *rows)
            return;
        *rows -= sum;
        s->at.file += n;
    }
}

void hr__stage_close_files(hr_stage *s)
{
    hr_open_files *o = &s->at.open;

    while (o->n)
        hr__scan_file_unref(o->files[--o->n]);
    hr__free(o->order);
    o->order = NULL;
    o->n_blocks = 0;
}

hr_status hr__stage_open_files(hr_stage *s, hr_error *err)
{
    int n = hr__stage_files_from(s, s->at.file);
    uint64_t which = (uint64_t)(uint32_t)s->leaf.instance << 32 | (uint32_t)hr__stage_file(s, s->at.file);
    hr_open_files *o = &s->at.open;
    hr_status st = HR_OK;

    hr__stage_begin_files(s, 0);
    for (; o->n < n; o->n++) {
        hr_source *source;

        hr__stage_take_begun(s, s->at.file + o->n, &source, &o->files[o->n]);
        if (!o->files[o->n])
            st = hr__stage_open(s, s->at.file + o->n, source, &o->files[o->n], err);
        hr__source_unref(source);
        HR_GO(st);
        o->n_blocks += o->files[o->n]->n_fragments;
    }
    if (s->order.random_blocks && o->n_blocks > 1 && !(o->order = random_order(s, o->n_blocks, OF_FRAGMENTS, which)))
        st = hr__error_memory(err, "order of blocks", o->n_blocks * (int64_t)sizeof *o->order);
done:
    if (st)
        hr__stage_close_files(s);
    return st;
}

hr_open_fragment hr__stage_fragment(const hr_stage *s, int place)
{
    hr_open_fragment b = { .fragment = s->at.open.order ? s->at.open.order[place] : place };

    while (b.fragment >= s->at.open.files[b.file]->n_fragments)
        b.fragment -= s->at.open.files[b.file++]->n_fragments;
    return b;
}

hr_status hr__stage_open_at(hr_stage *s, int place, int fragment, hr_error *err)
{
    int n_before;
    hr_open_fragment b = { 0 };

    s->at.file = first_with(s, place);
    n_before = place - s->at.file;
    HR_TRY(hr__stage_open_files(s, err));
    for (s->at.block = 0; s->at.block < s->at.open.n_blocks; s->at.block++) {
        b = hr__stage_fragment(s, s->at.block);
        if (b.file == n_before && b.fragment == fragment)
            return HR_OK;
    }
    return hr_error_set(err, HR_MISMATCH, "position: names fragment %d, the plan has %d in %s", fragment,
                        s->at.open.files[n_before]->n_fragments, s->at.open.files[n_before]->name);
}
