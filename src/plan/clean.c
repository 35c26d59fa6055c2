/* clean.c - what killed writes have left: completed where they had decided, removed where they had not.
 *
 * Tests: test_s3_write.py, test_store_write.py. */
#include "plan/plan.h"

#include "io/http/remote.h"

hr_status hr_clean(const char *path, const char *job, const char *const *storage_options, int n_storage_options,
                   char **out, hr_error *err)
{
    HR_NEED(path, out);

    hr_text report = { 0 };
    char *folder = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (hr__url_is_store(path)) {
        HR_GO(hr__store_clean(path, job, storage_options, n_storage_options, &report, err));
    } else {
        HR_GO(hr__path_of_url(path, NULL, &folder, err));
        hr__part_sweep(folder);
    }
    if (report.failed || !(*out = hr__strdup(NULL, report.data ? report.data : "")))
        st = hr__error_memory(err, path, report.n);
done:
    hr__text_clear(&report);
    hr__free(folder);
    return st;
}
