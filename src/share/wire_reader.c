/* wire_reader.c - reads bytes of another process: typed, bounded, with errors that name the place.
 *
 * No read goes beyond `end`, and a read that fails leaves the reader where it was. Numbers are in the byte order of the
 * machine, which both ends share; they may lie at any address.
 *
 * Tests: test_link.c. */
#include "share/share.h"

hr_wire_reader hr__wire_reader(const char *name, const void *data, int64_t n_bytes)
{
    const uint8_t *begin = data;

    return (hr_wire_reader){ name, begin, begin, n_bytes > 0 ? begin + n_bytes : begin };
}

hr_status hr__wire_get_bytes(hr_wire_reader *r, const char *what, int64_t n, const uint8_t **out, hr_error *err)
{
    *out = r->at;
    if (n < 0 || n > hr__wire_left(r))
        return hr_error_set(err, HR_BAD_DATA, "link: %s: byte %lld: %s takes %lld bytes, %lld are left", r->name,
                            (long long)(r->at - r->begin), what, (long long)n, (long long)hr__wire_left(r));
    r->at += n;
    return HR_OK;
}

hr_status hr__wire_get_struct(hr_wire_reader *r, const char *what, void *out, int64_t n, hr_error *err)
{
    const uint8_t *bytes;

    HR_TRY(hr__wire_get_bytes(r, what, n, &bytes, err));
    if (n)
        memcpy(out, bytes, (size_t)n);
    return HR_OK;
}

/* The value ends before byte `behind`. */
static hr_status not_within(const hr_wire_reader *r, int64_t behind, const char *what, int64_t v, int64_t min,
                            int64_t max, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "link: %s: before byte %lld: %s is %lld, expected %lld to %lld", r->name,
                        (long long)behind, what, (long long)v, (long long)min, (long long)max);
}

hr_status hr__wire_check(const hr_wire_reader *r, const char *what, int64_t v, int64_t min, int64_t max, hr_error *err)
{
    return v >= min && v <= max ? HR_OK : not_within(r, r->at - r->begin, what, v, min, max, err);
}

hr_status hr__wire_get_int32(hr_wire_reader *r, const char *what, int64_t min, int64_t max, int32_t *out, hr_error *err)
{
    HR_TRY(hr__wire_get_struct(r, what, out, sizeof *out, err));
    return hr__wire_check(r, what, *out, min, max, err);
}

hr_status hr__wire_get_int64(hr_wire_reader *r, const char *what, int64_t min, int64_t max, int64_t *out, hr_error *err)
{
    HR_TRY(hr__wire_get_struct(r, what, out, sizeof *out, err));
    return hr__wire_check(r, what, *out, min, max, err);
}

hr_status hr__wire_get_end(const hr_wire_reader *r, hr_error *err)
{
    if (r->at == r->end)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "link: %s: ends at byte %lld, %lld bytes follow", r->name,
                        (long long)(r->at - r->begin), (long long)hr__wire_left(r));
}
