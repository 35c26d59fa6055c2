/* structs.c - reads structs of callers that were compiled with an older or a newer headrace.h.
 *
 * A struct of the public header begins with the size that its caller knows. New fields are added at the end of a
 * struct, and zero is their default. So a field that the caller lacks is zero here, and a field that this library lacks
 * must be zero there: otherwise the caller uses a feature that this library does not have. A function copies a struct
 * once, before it reads any field. */
#include "base/all.h"

#define MOST_BYTES 4096 /* larger than any struct: the caller did not initialize its memory */

static hr_status check(const char *name, const void *from, size_t known, hr_error *err)
{
    const char *bytes = from;
    size_t n;

    memcpy(&n, from, sizeof n);
    if (n == 0)
        return hr_error_set(err, HR_INVALID, "%s.struct_bytes is 0; set it to sizeof(%s)", name, name);
    if (n > MOST_BYTES || n % sizeof n)
        return hr_error_set(err, HR_INVALID, "%s.struct_bytes is %zu, which is no possible size; set it to sizeof(%s)",
                            name, n, name);
    for (size_t i = known; i < n; i++)
        if (bytes[i])
            return hr_error_set(err, HR_UNSUPPORTED,
                                "%s has %zu bytes, and byte %zu is set; headrace %s knows the first %zu", name, n, i,
                                HR_VERSION_TEXT, known);
    return HR_OK;
}

hr_status hr__struct_read(const char *name, const void *from, void *out, size_t n_bytes, hr_error *err)
{
    size_t n;

    memset(out, 0, n_bytes);
    if (from) {
        HR_TRY(check(name, from, n_bytes, err));
        memcpy(&n, from, sizeof n);
        memcpy(out, from, HR_MIN(n, n_bytes));
    }
    memcpy(out, &n_bytes, sizeof n_bytes);
    return HR_OK;
}

hr_status hr__struct_need(const char *name, const void *from, void *out, size_t n_bytes, hr_error *err)
{
    if (!from)
        return hr_error_set(err, HR_INVALID, "%s is NULL; it has no default", name);
    return hr__struct_read(name, from, out, n_bytes, err);
}

hr_status hr__structs_read(const char *name, const void *from, int n, void *out, size_t n_bytes, hr_error *err)
{
    size_t stride = 0, own;

    if (n > 0 && !from)
        return hr_error_set(err, HR_INVALID, "%s is NULL, expected %d of them", name, n);
    if (n > 0)
        memcpy(&stride, from, sizeof stride);
    for (int i = 0; i < n; i++) {
        const char *one = (const char *)from + (size_t)i * stride;

        HR_TRY(hr__struct_read(name, one, (char *)out + (size_t)i * n_bytes, n_bytes, err));
        memcpy(&own, one, sizeof own);
        if (own != stride)
            return hr_error_set(err, HR_INVALID, "%s %d of %d has struct_bytes %zu, the first has %zu", name, i, n, own,
                                stride);
    }
    return HR_OK;
}

hr_status hr__struct_fill(const char *name, void *to, const void *from, size_t n_bytes, hr_error *err)
{
    size_t n;

    if (!to)
        return hr_error_set(err, HR_INVALID, "%s is NULL", name);
    memcpy(&n, to, sizeof n);
    if (n == 0 || n > MOST_BYTES || n % sizeof n)
        return hr_error_set(err, HR_INVALID, "%s.struct_bytes is %zu; set it to sizeof(%s)", name, n, name);
    memset((char *)to + sizeof n, 0, n - sizeof n);
    if (from)
        memcpy((char *)to + sizeof n, (const char *)from + sizeof n, HR_MIN(n, n_bytes) - sizeof n);
    return HR_OK;
}
