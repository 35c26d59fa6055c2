/* scan.h - the kinds of scans. Private to src/format: others see only hr_scan. */
#ifndef HR_SCAN_H
#define HR_SCAN_H

#include "format/format.h"

typedef struct hr_scan_class {
    hr_status (*schema)(hr_scan *s, hr_schema **out, hr_error *err);
    hr_status (*open)(hr_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err);
    hr_status (*count)(hr_scan *s, int64_t *out, hr_error *err);
    const char *(*file_name)(const hr_scan *s, int file);
    void (*describe)(const hr_scan *s, hr_text *out);
    void (*fingerprint)(const hr_scan *s, hr_hash *h);
    int64_t (*floor_bytes)(const hr_scan *s);
    void (*free)(hr_scan *s); /* frees all of it */
} hr_scan_class;

struct hr_scan {
    const hr_scan_class *cls;
    atomic_int refs;
    int n_files;
};

/* Position of a projected name in the schema; HR_INVALID with the names there are. */
hr_status hr__scan_column(const hr_schema *s, const char *name, int *out, hr_error *err) HR_MUST_USE;
/* The projected fields of `all`. *out is new (shared, if all are wanted). */
hr_status hr__scan_project(hr_schema *all, const hr_projection *projection, hr_schema **out, hr_error *err) HR_MUST_USE;

#endif
