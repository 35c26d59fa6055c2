/* memory.c - a source over bytes in memory: for tests, fuzzing and data that are no file.
 *
 * It calls hr__fault() as a file does, so that a test can make any read fail without a file system.
 *
 * Tests: test_csv.c, test_codec.c. */
#include "io/io.h"

typedef struct memory_source {
    hr_source base;
    const uint8_t *data;
} memory_source;

static hr_status memory_read_at(hr_source *base, void *out, int64_t offset, int64_t n, int64_t *n_read, hr_error *err)
{
    memory_source *s = (memory_source *)base;

    if (hr__fault(HR_FAULT_IO))
        return hr_error_set(err, HR_IO, "%s: read: injected fault", base->name);
    *n_read = HR_MIN(n, base->n_bytes - offset); /* the caller has checked that offset < n_bytes */
    memcpy(out, s->data + offset, (size_t)*n_read);
    return HR_OK;
}

static void memory_close(hr_source *base) { (void)base; }

static const hr_source_class memory_class = { .read_at = memory_read_at, .close = memory_close };

hr_status hr__source_new_memory(const char *name, const void *data, int64_t n_bytes, hr_account *account,
                                hr_source **out, hr_error *err)
{
    HR_TRY(hr__source_new(&memory_class, sizeof(memory_source), name, n_bytes, account, out, err));
    ((memory_source *)*out)->data = data;
    return HR_OK;
}
