/* file_advice.c - whether files suit this machine: enough pieces for its threads, small enough for its memory, large
 * enough that opening and asking for them costs little.
 *
 * A piece is what one thread reads: a fragment, or a part of one that may be split. Reading ends no earlier than the
 * thread with the largest piece. So `reading at once` is min(threads, all bytes / bytes of the largest piece), and what
 * cutting gains is threads / that number. Bytes are those of tables in memory, since decoding them takes the time.
 *
 * Tests: test_file_advice.py. */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>

#define WORTH_BYTES (64 << 20) /* less is read in a moment, however it is cut */
#define PIECE_BYTES (64 << 20) /* what the advice proposes for a fragment: 8 of them are one request of a store each */
#define WORTH_GAIN 1.5
#define LARGE_BYTES (128 << 20) /* a fragment that threads divide, and that others take whole */
#define MANY 1000               /* so many files or fragments have a cost of their own */
#define SOME 100                /* so many tiny ones have, too */
#define SMALL_FILE (1 << 20)    /* stored */
#define SMALL_LOCAL (64 << 10)  /* stored; a fragment that takes about as long to begin as to read */
#define SMALL_REMOTE (1 << 20)  /* stored; a request takes longer than its bytes */
#define LARGE_FILE (128 << 20)  /* what the advice proposes for a file */

typedef struct survey {
    int64_t n_files, n_fragments, n_whole; /* n_whole: fragments that may not be split */
    int64_t stored, memory;                /* bytes of all fragments */
    int64_t largest;                       /* bytes in memory of the largest piece */
    int largest_fragment;
    char *largest_file;
    int64_t whole; /* bytes in memory of the largest fragment, divided or not */
    bool remote;
} survey;

static hr_status survey_fragment(survey *v, hr_scan_file *f, int i, hr_error *err)
{
    hr_fragment fragment;
    int64_t piece;

    HR_TRY(f->cls->fragment(f, i, &fragment, err));
    piece = fragment.splittable ? HR_MIN(fragment.memory_bytes, PIECE_BYTES) : fragment.memory_bytes;
    v->n_fragments++;
    v->n_whole += !fragment.splittable;
    v->stored += fragment.stored_bytes;
    v->memory += fragment.memory_bytes;
    v->whole = HR_MAX(v->whole, fragment.memory_bytes);
    if (piece <= v->largest)
        return HR_OK;
    v->largest = piece;
    v->largest_fragment = i;
    hr__free(v->largest_file);
    if (!(v->largest_file = hr__strdup(NULL, f->name)))
        return hr__error_memory(err, f->name, (int64_t)strlen(f->name));
    return HR_OK;
}

static hr_status survey_files(survey *v, hr_scan *scan, hr_error *err)
{
    for (int i = 0; i < hr__scan_n_files(scan); i++) {
        hr_scan_file *f = NULL;
        hr_status st = HR_OK;

        HR_TRY(hr__scan_open(scan, i, &(hr_open){ 0 }, &f, err));
        v->n_files++;
        v->remote = v->remote || f->is_remote;
        for (int k = 0; k < f->n_fragments && !st; k++)
            st = survey_fragment(v, f, k, err);
        hr__scan_file_unref(f);
        HR_TRY(st);
    }
    return HR_OK;
}

static int64_t pieces_of(int64_t bytes, int64_t each) { return HR_MAX(1, (bytes + each - 1) / each); }

/* One piece, or a few large ones, leave threads idle. */
static void advise_on_threads(const survey *v, int threads, hr_text *out)
{
    double together = v->largest ? HR_MIN((double)threads, (double)v->memory / (double)v->largest) : threads;
    double best = HR_MIN((double)threads, (double)pieces_of(v->memory, PIECE_BYTES));

    if (v->memory < WORTH_BYTES || best < together * WORTH_GAIN)
        return;
    hr__text_add(out, "%s: fragment %d has %s in memory of %s, and one thread reads it: %.1f of %d threads have work",
                 v->largest_file, v->largest_fragment, hr__bytes_label((double)v->largest).text,
                 hr__bytes_label((double)v->memory).text, together, threads);
    hr__text_add(out, "; fragments of %s would be read up to %.1f times as fast\n",
                 hr__bytes_label((double)PIECE_BYTES).text, best / together);
}

/* Each thread holds what it reads and what it has made of it. */
static void advise_on_memory(const survey *v, int threads, int64_t limit, hr_text *out)
{
    int64_t at_once = HR_MIN(threads, v->n_fragments);

    if (v->largest <= PIECE_BYTES || v->largest > INT64_MAX / 2 / HR_MAX(1, at_once) ||
        2 * v->largest * at_once <= limit)
        return;
    hr__text_add(out,
                 "%s: fragment %d has %s in memory; %" PRId64
                 " of that size at once need about %s, the limit is %s, so "
                 "fewer threads read; fragments of %s let all of them read\n",
                 v->largest_file, v->largest_fragment, hr__bytes_label((double)v->largest).text, at_once,
                 hr__bytes_label((double)(2 * v->largest * at_once)).text, hr__bytes_label((double)limit).text,
                 hr__bytes_label((double)PIECE_BYTES).text);
}

/* Threads divide it, but what chooses among fragments has no choice. */
static void advise_on_large(const survey *v, hr_text *out)
{
    if (v->whole < LARGE_BYTES)
        return;
    hr__text_add(out,
                 "the largest of %" PRId64 " fragments has %s in memory: threads divide it, but "
                 "randomize_block_order(), and filters by statistics, take it whole; fragments of %s would be %" PRId64
                 "\n",
                 v->n_fragments, hr__bytes_label((double)v->whole).text, hr__bytes_label((double)PIECE_BYTES).text,
                 pieces_of(v->memory, PIECE_BYTES));
}

static void advise_on_small(const survey *v, hr_text *out)
{
    int64_t small = v->remote ? SMALL_REMOTE : SMALL_LOCAL;

    if ((v->n_files >= MANY && v->stored / v->n_files < SMALL_FILE) ||
        (v->n_files >= SOME && v->stored / v->n_files < small))
        hr__text_add(out,
                     "%" PRId64 " files have %s each on average, and each is %s; files of %s would be %" PRId64 "\n",
                     v->n_files, hr__bytes_label((double)(v->stored / v->n_files)).text,
                     v->remote ? "one request at least" : "opened and its metadata read",
                     hr__bytes_label((double)LARGE_FILE).text, pieces_of(v->stored, LARGE_FILE));
    else if (v->n_fragments >= SOME && v->stored / v->n_fragments < small)
        hr__text_add(out, "%" PRId64 " fragments have %s each on average, %s; fragments of %s would be %" PRId64 "\n",
                     v->n_fragments, hr__bytes_label((double)(v->stored / v->n_fragments)).text,
                     v->remote ? "and a request takes longer than its bytes"
                               : "and beginning one takes about as long as reading it",
                     hr__bytes_label((double)(16 << 20)).text, pieces_of(v->stored, 16 << 20));
}

hr_status hr_plan_file_advice(hr_plan *p, char **out, hr_error *err)
{
    HR_NEED(p, out);

    hr_scan *scan = hr__scan_of(p);
    int threads = hr_num_threads();
    survey v = { 0 };
    hr_text text = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (!scan)
        return hr_error_set(err, HR_INVALID, "file advice: the plan has several inputs");
    if (hr__scan_orders_files(scan))
        HR_GO(survey_files(&v, scan, err));
    advise_on_threads(&v, threads, &text);
    advise_on_memory(&v, threads, hr_memory_limit(), &text);
    if (!text.n)
        advise_on_large(&v, &text);
    advise_on_small(&v, &text);
    if (text.failed || !(*out = hr__strdup(NULL, text.data ? text.data : "")))
        st = hr__error_memory(err, "file advice", text.n);
done:
    hr__free(v.largest_file);
    hr__text_clear(&text);
    return st;
}
