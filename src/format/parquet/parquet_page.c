/* parquet_page.c - the encodings: runs of small integers, plain values, values by dictionary, by differences (with
 * parquet_delta.c) and split into streams of bytes.
 *
 * Values are written directly into the buffer of the array; only indices pass through a small array. Each inner loop is
 * a function, so that parquet_kernel.c can have faster forms. Loops may read up to HR_SLACK bytes after the end of a
 * page and trust nothing else: the caller checks counts against bytes before the loop, and indices against the
 * dictionary after each block.
 *
 * A page with too few bytes is an error when the caller requests the missing values, not before. After all values that
 * its levels announce, a page must have neither values nor bytes left (pq__values_end): in a file without checksums
 * this finds damage that still decodes. */
#include "format/parquet/parquet_page.h"
#include "base/decimal.h"
#include "format/parquet/parquet_kernel.h"

/* --------------------------------------------------------------------------------------------------- small integers */

void pq__runs_init(pq_runs *r, const uint8_t *at, const uint8_t *end, int width)
{
    *r = (pq_runs){ .at = at, .end = end, .width = width };
    if (width == 0)
        r->left = INT64_MAX; /* a run of zeros without an end */
}

static bool run_header(pq_runs *r, uint64_t *header)
{
    *header = 0;
    for (int shift = 0; shift < 35 && r->at < r->end; shift += 7) {
        uint8_t b = *r->at++;

        *header |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return true;
    }
    return false;
}

bool pq__runs_next(pq_runs *r)
{
    while (r->left == 0) {
        int n_value = (r->width + 7) / 8;
        uint64_t h;

        if (r->bad || !run_header(r, &h)) {
            r->bad = true;
            return false;
        }
        r->packed = h & 1;
        if (r->packed) {
            /* The last group may be cut off: the values whose bytes exist count. */
            int64_t n_bytes = HR_MIN((int64_t)(h >> 1) * r->width, (int64_t)(r->end - r->at));

            r->left = HR_MIN((int64_t)(h >> 1) * 8, n_bytes * 8 / r->width);
            r->cut = (int64_t)(h >> 1) * 8 - r->left;
            r->bits = r->at;
            r->bit = 0;
            r->at += n_bytes;
            if (r->left == 0 && h >> 1) {
                r->bad = true;
                return false;
            }
        } else {
            if (r->end - r->at < n_value) {
                r->bad = true;
                return false;
            }
            r->left = (int64_t)(h >> 1);
            r->value = 0;
            for (int i = 0; i < n_value; i++)
                r->value |= (uint32_t)r->at[i] << (8 * i);
            if (r->width < 32 && r->value >> r->width)
                r->bad = true;
            r->at += n_value;
            if (r->bad) {
                r->left = 0;
                return false;
            }
        }
    }
    return true;
}

void pq__runs_skip(pq_runs *r, int64_t n)
{
    while (n > 0 && (r->left > 0 || pq__runs_next(r))) {
        int64_t k = HR_MIN(n, r->left);

        r->bit += r->packed ? k * r->width : 0;
        r->left -= k;
        n -= k;
    }
}

#define MAX_PADDING 512 /* announced values of a packed run that may be missing: usually up to 8, DuckDB up to 256 */
#define EMPTY_GROUPS 32 /* of the run that DuckDB writes after the last value */

/* The runs of a stream of width 0, which has headers and no values. */
static bool zeros_ended(const pq_runs *r, int64_t n)
{
    pq_runs walk = *r;
    uint64_t h = 0;

    while (walk.at < walk.end) {
        if (n <= 0 || !run_header(&walk, &h))
            return false;
        n -= h & 1 ? (int64_t)(h >> 1) * 8 : (int64_t)(h >> 1);
    }
    return n == 0 || (n < 0 && (h & 1) && n > -MAX_PADDING);
}

/* Whether a packed run whose values are used up ends correctly: only its last group may be cut off. */
static bool packed_ended(const pq_runs *r) { return r->cut > 0 ? r->left + r->cut < 8 : r->left < MAX_PADDING; }

bool pq__runs_ended(const pq_runs *r, int64_t n, unsigned padding)
{
    pq_runs rest = *r;
    uint64_t h;

    if (r->width == 0)
        return r->at == r->end || zeros_ended(r, n); /* some writers write none */
    if (r->bad || (r->packed ? !packed_ended(r) : r->left > 0))
        return false;
    for (int i = 0; padding & PQ_PADS_ZEROS && i < PQ_MAX_ZEROS && rest.at < rest.end && rest.end[-1] == 0; i++)
        rest.end--;
    if (rest.at == rest.end)
        return true;
    return padding & (PQ_PADS_RUNS | PQ_PADS_ZEROS) && run_header(&rest, &h) && (h & 1) && h >> 1 <= EMPTY_GROUPS &&
           rest.end - rest.at == (int64_t)(h >> 1) * r->width;
}

static uint32_t one_packed(const pq_runs *r, int64_t bit)
{
    return (uint32_t)(hr__load_le64(r->bits + (bit >> 3)) >> (bit & 7) & ((1ull << r->width) - 1));
}

/* n <= r->left packed values; values that do not begin or end at a byte are read one by one. */
static void packed_u32(pq_runs *r, uint32_t *out, int64_t n)
{
    int64_t i = 0, groups;

    for (; i < n && (r->bit & 7); i++, r->bit += r->width)
        out[i] = one_packed(r, r->bit);
    groups = (n - i) / 8;
    pq__kernels()->unpack_u32(r->bits + (r->bit >> 3), r->width, out + i, groups);
    r->bit += groups * 8 * r->width;
    for (i += groups * 8; i < n; i++, r->bit += r->width)
        out[i] = one_packed(r, r->bit);
    r->left -= n;
}

static void packed_u8(pq_runs *r, uint8_t *out, int64_t n)
{
    int64_t i = 0, groups;

    for (; i < n && (r->bit & 7); i++, r->bit += r->width)
        out[i] = (uint8_t)one_packed(r, r->bit);
    groups = (n - i) / 8;
    pq__kernels()->unpack_u8(r->bits + (r->bit >> 3), r->width, out + i, groups);
    r->bit += groups * 8 * r->width;
    for (i += groups * 8; i < n; i++, r->bit += r->width)
        out[i] = (uint8_t)one_packed(r, r->bit);
    r->left -= n;
}

void pq__runs_u32(pq_runs *r, uint32_t *out, int64_t n)
{
    while (n > 0) {
        int64_t k;

        if (r->left == 0 && !pq__runs_next(r)) {
            memset(out, 0, (size_t)n * sizeof *out);
            return;
        }
        k = HR_MIN(n, r->left);
        if (r->packed) {
            packed_u32(r, out, k);
        } else {
            for (int64_t i = 0; i < k; i++)
                out[i] = r->value;
            r->left -= k;
        }
        out += k;
        n -= k;
    }
}

void pq__runs_u8(pq_runs *r, uint8_t *out, int64_t n)
{
    while (n > 0) {
        int64_t k;

        if (r->left == 0 && !pq__runs_next(r)) {
            memset(out, 0, (size_t)n);
            return;
        }
        k = HR_MIN(n, r->left);
        if (r->packed) {
            packed_u8(r, out, k);
        } else {
            memset(out, (int)r->value, (size_t)k);
            r->left -= k;
        }
        out += k;
        n -= k;
    }
}

void pq__bit_packed_u8(const uint8_t *at, int width, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        unsigned v = 0;

        for (int64_t bit = i * width; bit < (i + 1) * width; bit++)
            v = v << 1 | (at[bit >> 3] >> (7 - (bit & 7)) & 1);
        out[i] = (uint8_t)v;
    }
}

/* ------------------------------------------------------------------------------------------------------ conversions */

static void store_le(uint8_t *out, int width, uint64_t low, uint64_t fill)
{
    for (int i = 0; i < width; i += 8) {
        uint64_t v = i ? fill : low;

        memcpy(out + i, &v, 8);
    }
}

/* Big-endian two's complement of n bytes -> `width` bytes in the machine's order. False: the number does not fit. */
static bool decimal_from_bytes(const uint8_t *in, int64_t n, uint8_t *out, int width)
{
    uint8_t sign = n > 0 && in[0] & 0x80 ? 0xff : 0;

    for (; n > width; in++, n--) {
        if (in[0] != sign)
            return false;
    }
    if (n == width && ((in[0] ^ sign) & 0x80))
        return false;
    memset(out, sign, (size_t)width);
    for (int64_t i = 0; i < n; i++)
        out[n - 1 - i] = in[i];
    return true;
}

static void narrow_1(const uint8_t *in, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = in[4 * i];
}

static void narrow_2(const uint8_t *in, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(out + 2 * i, in + 4 * i, 2);
}

/* Nanoseconds within the day, then the Julian day. Days out of range wrap, as they do everywhere. */
static void times_from_int96(const uint8_t *in, uint8_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t day = hr__load_le32(in + 12 * i + 8), ns = hr__load_le64(in + 12 * i);
        uint64_t v = (day - 2440588) * 86400000000000ull + ns;

        memcpy(out + 8 * i, &v, 8);
    }
}

/* Whether n decimals have no more digits than the column's type. */
static bool digits_fit(const pq_leaf *l, const uint8_t *p, int64_t n)
{
    int128 limit = hr__power_of_ten(HR_MIN(l->digits, 38)), v, high;
    bool fit = true;

    if (l->digits == 0)
        return true;
    for (int64_t i = 0; i < n && l->width == 16; i++) {
        memcpy(&v, p + 16 * i, 16);
        fit &= v < limit && v > -limit;
    }
    for (int64_t i = 0; i < n && l->width == 32; i++) {
        memcpy(&v, p + 32 * i, 16);
        memcpy(&high, p + 32 * i + 16, 16);
        if (high != (v < 0 ? -1 : 0) || l->digits < 39) { /* otherwise at most 39 digits */
            hr_wide wide = hr__wide_load(p + 32 * i, 32);

            fit = fit && hr__wide_has_digits(&wide, l->digits);
        }
    }
    return fit;
}

static hr_status too_many_digits(const pq_leaf *l, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "a decimal of more than %d digits", l->digits);
}

static bool decimals(const pq_leaf *l, const uint8_t *in, uint8_t *out, int64_t n)
{
    bool fits = true;

    for (int64_t i = 0; i < n; i++) {
        const uint8_t *p = in + i * l->stored_width;
        int64_t v;

        if (l->physical == PQ_FIXED) {
            fits = decimal_from_bytes(p, l->stored_width, out + i * l->width, l->width) && fits;
            continue;
        }
        v = l->physical == PQ_INT32 ? (int64_t)(int32_t)hr__load_le32(p) : (int64_t)hr__load_le64(p);
        store_le(out + i * l->width, l->width, (uint64_t)v, v < 0 ? ~0ull : 0);
    }
    return fits;
}

/* n stored values of fixed width -> Arrow values. */
static hr_status convert(const pq_leaf *l, const uint8_t *in, uint8_t *out, int64_t n, hr_error *err)
{
    switch (l->kind) {
    case PQ_K_COPY: memcpy(out, in, (size_t)(n * l->width)); break;
    case PQ_K_NARROW: (l->width == 1 ? narrow_1 : narrow_2)(in, out, n); break;
    case PQ_K_INT96: times_from_int96(in, out, n); break;
    case PQ_K_DECIMAL:
        if (!decimals(l, in, out, n))
            return hr_error_set(err, HR_BAD_DATA, "a decimal does not fit in %d bytes", l->width);
        if (!digits_fit(l, out, n))
            return too_many_digits(l, err);
        break;
    default: return hr_error_set(err, HR_BUG, "kind %d is not of fixed width", (int)l->kind);
    }
    return HR_OK;
}

bool pq__value_convert(const pq_leaf *l, hr_view stored, uint8_t *out)
{
    if (l->physical == PQ_BYTE_ARRAY)
        return decimal_from_bytes(stored.data, stored.n, out, l->width);
    return stored.n == l->stored_width && convert(l, stored.data, out, 1, NULL) == HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- plain */

static hr_status too_few(int64_t has, int64_t wanted, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "bytes for %lld values, the page announces %lld", (long long)has,
                        (long long)wanted);
}

static hr_status plain_fixed(pq_values *v, uint8_t *out, int64_t n, hr_error *err)
{
    const pq_leaf *l = v->leaf;
    int64_t has = (v->end - v->at) / l->stored_width;

    if (has < n)
        return too_few(has, n, err);
    if (out)
        HR_TRY(convert(l, v->at, out, n, err));
    v->at += n * l->stored_width;
    return HR_OK;
}

/* One byte array; false if its bytes are missing. */
static inline bool plain_view(const uint8_t **at, const uint8_t *end, hr_view *out)
{
    uint32_t n;

    if (end - *at < 4)
        return false;
    n = hr__load_le32(*at);
    if (n > (uint64_t)(end - *at - 4))
        return false;
    *out = (hr_view){ *at + 4, n };
    *at += 4 + (int64_t)n;
    return true;
}

static hr_status plain_views(pq_values *v, hr_view *out, int64_t n, int64_t *sum, hr_error *err)
{
    const uint8_t *at = v->at;
    int64_t total = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!plain_view(&at, v->end, &out[i]))
            return too_few(i, n, err);
        total += out[i].n;
    }
    v->at = at;
    *sum = total;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------- dictionaries */

bool pq__is_ascii(const uint8_t *p, int64_t n)
{
    uint64_t any = 0;
    int64_t i = 0;

    for (; i + 32 <= n; i += 32)
        any |= hr__load_le64(p + i) | hr__load_le64(p + i + 8) | hr__load_le64(p + i + 16) | hr__load_le64(p + i + 24);
    for (; i < n; i++)
        any |= p[i];
    return !(any & 0x8080808080808080ull);
}

/* An error unless each value is UTF-8. One look at all bytes finds that they are ASCII, which suffices. */
static hr_status check_dict_text(const pq_dict *d, hr_error *err)
{
    const uint32_t *offsets = (const uint32_t *)(const void *)d->values->data;

    if (pq__is_ascii(d->bytes->data, offsets[d->n]))
        return HR_OK;
    for (int64_t i = 0; i < d->n; i++)
        if (!hr__utf8_valid(d->bytes->data + offsets[i], offsets[i + 1] - offsets[i]))
            return hr_error_set(err, HR_BAD_DATA, "value %lld of the dictionary is not UTF-8", (long long)i);
    return HR_OK;
}

/* An error if bytes follow the values of a dictionary. */
static hr_status check_rest(int64_t left, int64_t n, hr_error *err)
{
    return left == 0 ? HR_OK
                     : hr_error_set(err, HR_BAD_DATA, "%lld bytes are left after the dictionary's %lld values",
                                    (long long)left, (long long)n);
}

static hr_status dict_bytes(const pq_leaf *l, hr_view page, unsigned padding, const hr_mem *mem, pq_dict *d,
                            hr_error *err)
{
    const uint8_t *at = page.data, *end = at + page.n;
    uint32_t *offsets;
    int64_t n = 0;

    if (page.n / 4 < d->n)
        return too_few(page.n / 4, d->n, err);
    HR_TRY(hr__buffer_new(mem, (d->n + 1) * 4, &d->values, err));
    HR_TRY(hr__buffer_new(mem, page.n, &d->bytes, err)); /* the values need fewer bytes */
    offsets = (uint32_t *)(void *)d->values->data;
    for (int64_t i = 0; i < d->n; i++) {
        hr_view v;

        if (!plain_view(&at, end, &v))
            return too_few(i, d->n, err);
        offsets[i] = (uint32_t)n;
        if (v.n <= 16 && end - v.data >= 16 && page.n - n >= 16)
            memcpy(d->bytes->data + n, v.data, 16); /* most are short */
        else
            memcpy(d->bytes->data + n, v.data, (size_t)v.n);
        n += v.n;
        d->longest = HR_MAX(d->longest, v.n);
    }
    offsets[d->n] = (uint32_t)n;
    if (!(padding & PQ_PADS_DICTIONARY) || end - at < 4) /* a duplicate has a length */
        HR_TRY(check_rest(end - at, d->n, err));
    return l->is_text ? check_dict_text(d, err) : HR_OK;
}

/* Byte arrays that become fixed width: decimals. */
static hr_status dict_decimals(const pq_leaf *l, hr_view page, const hr_mem *mem, pq_dict *d, hr_error *err)
{
    pq_values v = { .leaf = l, .at = page.data, .end = page.data + page.n, .encoding = PQ_PLAIN };

    if (page.n / 4 < d->n)
        return too_few(page.n / 4, d->n, err);
    HR_TRY(hr__buffer_new(mem, d->n * l->width, &d->values, err));
    HR_TRY(pq__values_fixed(&v, d->values->data, d->n, err));
    return check_rest(v.end - v.at, d->n, err);
}

hr_status pq__dict_new(const pq_leaf *l, hr_view page, int64_t n_values, unsigned padding, const hr_mem *mem,
                       hr_buffer **held, pq_dict **out, hr_error *err)
{
    pq_dict *d = hr__zalloc(mem->account, sizeof *d);
    hr_status st = HR_OK;

    *out = NULL;
    if (!d)
        return hr__error_memory(err, "dictionary", sizeof *d);
    atomic_init(&d->refs, 1);
    d->n = n_values;
    d->longest = l->width;
    if (l->kind == PQ_K_BOOL)
        HR_FAIL(HR_BAD_DATA, "a dictionary of booleans");
    if (l->kind == PQ_K_BYTES) {
        HR_GO(dict_bytes(l, page, padding, mem, d, err));
    } else if (l->kind == PQ_K_NULL) {
        d->n = 0;
    } else if (l->physical == PQ_BYTE_ARRAY) {
        HR_GO(dict_decimals(l, page, mem, d, err));
    } else {
        if (page.n / l->stored_width < n_values)
            HR_GO(too_few(page.n / l->stored_width, n_values, err));
        HR_GO(check_rest(page.n - n_values * l->stored_width, n_values, err));
        if (l->kind == PQ_K_COPY && *held && (*held)->data == page.data) {
            d->values = *held;
            *held = NULL;
        } else {
            HR_GO(hr__buffer_new(mem, n_values * l->width, &d->values, err));
            HR_GO(convert(l, page.data, d->values->data, n_values, err));
        }
    }
    *out = d;
    d = NULL; /* moved to the caller */
done:
    pq__dict_unref(d);
    return st;
}

pq_dict *pq__dict_ref(pq_dict *d)
{
    atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

void pq__dict_unref(pq_dict *d)
{
    if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1)
        return;
    hr__buffer_unref(d->values);
    hr__buffer_unref(d->bytes);
    hr__free(d);
}

static hr_status bad_index(const pq_values *v, hr_error *err)
{
    if (v->runs.bad)
        return hr_error_set(err, HR_BAD_DATA, "dictionary indices end early or are malformed");
    return hr_error_set(err, HR_BAD_DATA, "an index is outside the dictionary of %lld values", (long long)v->dict->n);
}

#define GATHER(type, name)                                                                                             \
    static void name(const uint8_t *restrict dict, const uint32_t *restrict index, uint8_t *restrict out, int64_t n)   \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type v;                                                                                                    \
            memcpy(&v, dict + (size_t)index[i] * sizeof v, sizeof v);                                                  \
            memcpy(out + (size_t)i * sizeof v, &v, sizeof v);                                                          \
        }                                                                                                              \
    }
typedef struct bytes16 {
    uint64_t v[2];
} bytes16;
typedef struct bytes32 {
    uint64_t v[4];
} bytes32;
GATHER(uint8_t, gather_1)
GATHER(uint16_t, gather_2)
GATHER(bytes16, gather_16)
GATHER(bytes32, gather_32)

/* False: an index is outside the dictionary. */
static bool gather(const pq_values *v, const uint32_t *index, uint8_t *out, int64_t n)
{
    const uint8_t *dict = v->dict->values->data;
    int64_t w = v->leaf->width;

    if (w == 4)
        return pq__kernels()->gather_4(dict, v->dict->n, index, out, n);
    if (w == 8)
        return pq__kernels()->gather_8(dict, v->dict->n, index, out, n);
    if (!pq__indices_fit(index, n, v->dict->n))
        return false;
    switch (w) {
    case 1: gather_1(dict, index, out, n); break;
    case 2: gather_2(dict, index, out, n); break;
    case 16: gather_16(dict, index, out, n); break;
    case 32: gather_32(dict, index, out, n); break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * w, dict + (int64_t)index[i] * w, (size_t)w);
    }
    return true;
}

/* One value n times: doubling copies. */
static void repeat(const uint8_t *value, int64_t width, uint8_t *out, int64_t n)
{
    int64_t total = n * width, done = HR_MIN(width, total);

    memcpy(out, value, (size_t)done);
    while (done < total) {
        int64_t k = HR_MIN(done, total - done);

        memcpy(out + done, out, (size_t)k);
        done += k;
    }
}

static hr_status dict_fixed(pq_values *v, uint8_t *out, int64_t n, hr_error *err)
{
    uint32_t index[PQ_BLOCK];
    int64_t w = v->leaf->width;

    while (n > 0) {
        pq_runs *r = &v->runs;
        int64_t k;

        if (r->left == 0 && !pq__runs_next(r))
            return bad_index(v, err);
        k = HR_MIN(n, r->left);
        if (!r->packed) {
            if (r->value >= v->dict->n)
                return bad_index(v, err);
            repeat(v->dict->values->data + r->value * w, w, out, k);
            r->left -= k;
        } else {
            k = HR_MIN(k, PQ_BLOCK);
            packed_u32(r, index, k);
            if (!gather(v, index, out, k))
                return bad_index(v, err);
        }
        out += k * w;
        n -= k;
    }
    return HR_OK;
}

hr_status pq__values_codes(pq_values *v, uint32_t *out, int64_t n, hr_error *err)
{
    pq__runs_u32(&v->runs, out, n);
    return v->runs.bad || !pq__indices_fit(out, n, v->dict->n) ? bad_index(v, err) : HR_OK;
}

static hr_status dict_views(pq_values *v, hr_view *out, int64_t n, int64_t *sum, hr_error *err)
{
    const uint32_t *offsets = (const uint32_t *)(const void *)v->dict->values->data;
    const uint8_t *bytes = v->dict->bytes->data;
    uint32_t index[PQ_BLOCK];
    int64_t total = 0;

    HR_TRY(pq__values_codes(v, index, n, err));
    for (int64_t i = 0; i < n; i++) {
        uint32_t begin = offsets[index[i]], length = offsets[index[i] + 1] - begin;

        out[i] = (hr_view){ bytes + begin, length };
        total += length;
    }
    *sum = total;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------- differences, split bytes */

#define SPELLED_BYTES (16 << 20) /* of texts put together at once; one longer text is put together alone */

/* n delta-encoded integers -> Arrow values; out NULL: skips them. */
static hr_status delta_fixed(pq_values *v, uint8_t *out, int64_t n, hr_error *err)
{
    int64_t wide[PQ_BLOCK];
    int32_t narrow[PQ_BLOCK];

    while (n > 0) {
        int64_t k = HR_MIN(n, PQ_BLOCK);

        HR_TRY(pq__delta_read(&v->delta, wide, k, err));
        for (int64_t i = 0; i < k && v->leaf->physical == PQ_INT32; i++)
            narrow[i] = (int32_t)(uint32_t)(uint64_t)wide[i];
        if (out) {
            const void *in = v->leaf->physical == PQ_INT32 ? (const void *)narrow : wide;

            HR_TRY(convert(v->leaf, in, out, k, err));
            out += k * v->leaf->width;
        }
        n -= k;
    }
    return HR_OK;
}

static hr_status length_views(pq_values *v, hr_view *out, int64_t n, int64_t *sum, hr_error *err)
{
    int64_t lengths[PQ_BLOCK];

    HR_TRY(pq__delta_read(&v->delta, lengths, n, err));
    for (int64_t i = 0; i < n; i++) {
        if (lengths[i] < 0 || lengths[i] > v->end - v->at)
            return hr_error_set(err, HR_BAD_DATA, "a value of %lld bytes, %lld are left", (long long)lengths[i],
                                (long long)(v->end - v->at));
        out[i] = (hr_view){ v->at, lengths[i] };
        v->at += lengths[i];
        *sum += lengths[i];
    }
    return HR_OK;
}

/* How many of n values, of prefix + suffix bytes each, to put together at once, and their bytes. */
static hr_status fit_spelled(const pq_values *v, const int64_t *prefixes, const hr_view *suffixes, int64_t *n,
                             int64_t *sum, hr_error *err)
{
    int64_t last = v->last_n;

    for (int64_t i = 0; i < *n; i++) {
        if (prefixes[i] < 0 || prefixes[i] > last)
            return hr_error_set(err, HR_BAD_DATA, "a prefix of %lld bytes, the value before has %lld",
                                (long long)prefixes[i], (long long)last);
        last = prefixes[i] + suffixes[i].n;
        if (i > 0 && *sum + last > SPELLED_BYTES) {
            *n = i;
            break;
        }
        *sum += last;
    }
    return HR_OK;
}

/* Values that share a prefix with the value before. Lengths that were read ahead and did not fit are read again. */
static hr_status prefix_views(pq_values *v, hr_view *out, int64_t *n, int64_t *sum, hr_error *err)
{
    pq_delta prefixes_before = v->prefixes, suffixes_before = v->delta;
    const uint8_t *at_before = v->at;
    int64_t prefixes[PQ_BLOCK], wanted = *n, ignored = 0, at = 0;
    hr_buffer *spelled = NULL;
    const uint8_t *last;

    HR_TRY(pq__delta_read(&v->prefixes, prefixes, *n, err));
    HR_TRY(length_views(v, out, *n, &ignored, err));
    HR_TRY(fit_spelled(v, prefixes, out, n, sum, err));
    if (*n < wanted) {
        v->prefixes = prefixes_before;
        v->delta = suffixes_before;
        v->at = at_before;
        HR_TRY(pq__delta_read(&v->prefixes, prefixes, *n, err));
        HR_TRY(length_views(v, out, *n, &ignored, err));
    }
    HR_TRY(hr__buffer_new(&v->mem, *sum, &spelled, err));
    last = v->spelled ? v->spelled->data + v->last_at : NULL;
    for (int64_t i = 0; i < *n; i++) {
        int64_t length = prefixes[i] + out[i].n;
        uint8_t *to = spelled->data + at;

        if (prefixes[i])
            memcpy(to, last, (size_t)prefixes[i]);
        memcpy(to + prefixes[i], out[i].data, (size_t)out[i].n);
        out[i] = (hr_view){ to, length };
        last = to;
        v->last_at = at;
        v->last_n = length;
        at += length;
    }
    hr__buffer_unref(v->spelled);
    v->spelled = spelled;
    return HR_OK;
}

static hr_status split_fixed(pq_values *v, uint8_t *out, int64_t n, hr_error *err)
{
    const pq_leaf *l = v->leaf;
    int64_t w = l->stored_width, most = HR_MAX(PQ_BLOCK / w, 1) * 8;
    hr_buffer *joined = NULL;
    hr_status st = HR_OK;

    if (v->bit + n > v->n_split)
        return too_few(v->n_split - v->bit, n, err);
    if (!out || l->kind == PQ_K_COPY) { /* as they are */
        if (out)
            pq__kernels()->join(v->at, v->n_split, l->stored_width, out, n);
        v->at += n;
        v->bit += n;
        return HR_OK;
    }
    HR_GO(hr__buffer_new(&v->mem, most * w, &joined, err));
    while (n > 0) {
        int64_t k = HR_MIN(n, most);

        pq__kernels()->join(v->at, v->n_split, l->stored_width, joined->data, k);
        HR_GO(convert(l, joined->data, out, k, err));
        out += k * l->width;
        v->at += k;
        v->bit += k;
        n -= k;
    }
done:
    hr__buffer_unref(joined);
    return st;
}

/* ------------------------------------------------------------------------------------------------- values of a page */

static const char *encoding_name(int encoding)
{
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"
    };

    return encoding >= 0 && encoding < HR_LEN(names) ? names[encoding] : "of unknown number";
}

static hr_status init_dictionary(pq_values *v, hr_view bytes, hr_error *err)
{
    int width = bytes.n > 0 ? bytes.data[0] : 0;

    if (!v->dict)
        return hr_error_set(err, HR_BAD_DATA, "dictionary-encoded values in a column without a dictionary");
    if (width > 32)
        return hr_error_set(err, HR_BAD_DATA, "dictionary indices of %d bits", width);
    v->at = v->end;
    pq__runs_init(&v->runs, bytes.data + 1, bytes.data + HR_MAX(bytes.n, 1), width);
    return HR_OK;
}

static hr_status init_booleans(pq_values *v, hr_view bytes, hr_error *err)
{
    uint32_t n = bytes.n >= 4 ? hr__load_le32(bytes.data) : 0;

    if (bytes.n > 0 && (bytes.n < 4 || n > bytes.n - 4))
        return hr_error_set(err, HR_BAD_DATA, "%lld bytes of booleans, the page announces %lld", (long long)bytes.n - 4,
                            (long long)n);
    v->at = bytes.data + HR_MIN(bytes.n, 4) + n;
    pq__runs_init(&v->runs, bytes.data + HR_MIN(bytes.n, 4), v->at, 1);
    return HR_OK;
}

/* Lengths, then bytes. */
static hr_status init_lengths(pq_values *v, hr_view bytes, hr_error *err)
{
    hr_view rest;

    HR_TRY(pq__delta_init(&v->delta, 32, bytes, &rest, err));
    v->at = rest.data;
    v->end = rest.data + rest.n;
    return HR_OK;
}

static hr_status misfit(int encoding, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "encoding %s does not fit the type of the values", encoding_name(encoding));
}

hr_status pq__values_init(pq_values *v, const pq_leaf *l, const pq_dict *dict, int encoding, hr_view bytes,
                          hr_error *err)
{
    bool is_bytes = l->physical == PQ_BYTE_ARRAY, is_integer = l->physical == PQ_INT32 || l->physical == PQ_INT64;
    hr_view rest;

    v->leaf = l;
    v->dict = NULL;
    v->encoding = encoding;
    v->at = bytes.data;
    v->end = bytes.data + bytes.n;
    v->bit = v->last_n = v->last_at = 0;
    switch (encoding) {
    case PQ_PLAIN: return HR_OK;
    case PQ_PLAIN_DICTIONARY:
    case PQ_RLE_DICTIONARY:
        v->encoding = PQ_RLE_DICTIONARY;
        v->dict = dict;
        return init_dictionary(v, bytes, err);
    case PQ_RLE: return l->physical == PQ_BOOLEAN ? init_booleans(v, bytes, err) : misfit(encoding, err);
    case PQ_DELTA_BINARY:
        if (!is_integer)
            return misfit(encoding, err);
        HR_TRY(pq__delta_init(&v->delta, l->physical == PQ_INT32 ? 32 : 64, bytes, &rest, err));
        v->at = rest.data;
        return HR_OK;
    case PQ_DELTA_LENGTH: return is_bytes ? init_lengths(v, bytes, err) : misfit(encoding, err);
    case PQ_DELTA_BYTES:
        if (!is_bytes && l->physical != PQ_FIXED)
            return misfit(encoding, err);
        HR_TRY(pq__delta_init(&v->prefixes, 32, bytes, &rest, err));
        return init_lengths(v, rest, err);
    case PQ_BYTE_SPLIT:
        if (l->stored_width == 0)
            return misfit(encoding, err);
        v->n_split = bytes.n / l->stored_width;
        return HR_OK;
    default:
        return hr_error_set(err, HR_UNSUPPORTED, "encoding %s (%d) is not supported", encoding_name(encoding),
                            encoding);
    }
}

void pq__values_clear(pq_values *v)
{
    hr__buffer_unref(v->spelled);
    v->spelled = NULL;
}

/* Byte arrays of any encoding -> values of fixed width; out NULL: skips them. */
static hr_status fixed_from_views(pq_values *v, uint8_t *out, int64_t n, hr_error *err)
{
    const pq_leaf *l = v->leaf;
    hr_view views[PQ_BLOCK];
    int64_t k, sum;

    for (; n > 0; n -= k) {
        k = HR_MIN(n, PQ_BLOCK);
        HR_TRY(pq__values_views(v, views, &k, &sum, err));
        for (int64_t i = 0; i < k && out; i++, out += l->width) {
            if (l->physical == PQ_FIXED && views[i].n != l->stored_width)
                return hr_error_set(err, HR_BAD_DATA, "a value of %lld bytes in a column of %d each",
                                    (long long)views[i].n, l->stored_width);
            if (l->physical == PQ_FIXED)
                HR_TRY(convert(l, views[i].data, out, 1, err));
            else if (!decimal_from_bytes(views[i].data, views[i].n, out, l->width))
                return hr_error_set(err, HR_BAD_DATA, "a decimal does not fit in %d bytes", l->width);
            else if (!digits_fit(l, out, 1))
                return too_many_digits(l, err);
        }
    }
    return HR_OK;
}

hr_status pq__values_fixed(pq_values *v, uint8_t *out, int64_t n, hr_error *err)
{
    switch (v->encoding) {
    case PQ_RLE_DICTIONARY: return dict_fixed(v, out, n, err);
    case PQ_DELTA_BINARY: return delta_fixed(v, out, n, err);
    case PQ_BYTE_SPLIT: return split_fixed(v, out, n, err);
    default: break;
    }
    return v->leaf->physical == PQ_BYTE_ARRAY || v->encoding == PQ_DELTA_BYTES ? fixed_from_views(v, out, n, err)
                                                                               : plain_fixed(v, out, n, err);
}

static hr_status rle_bits(pq_values *v, uint8_t *bits, int64_t at, int64_t n, hr_error *err)
{
    pq_runs *r = &v->runs;

    while (n > 0) {
        int64_t k;

        if (r->left == 0 && !pq__runs_next(r))
            return hr_error_set(err, HR_BAD_DATA, "booleans end early: %lld are missing", (long long)n);
        k = HR_MIN(n, r->left);
        if (r->packed)
            hr__bits_copy(bits, at, r->bits, r->bit, k);
        else
            hr__bits_fill(bits, at, k, r->value != 0);
        r->bit += r->packed ? k : 0;
        r->left -= k;
        at += k;
        n -= k;
    }
    return HR_OK;
}

hr_status pq__values_bits(pq_values *v, uint8_t *bits, int64_t at, int64_t n, hr_error *err)
{
    int64_t has = (v->end - v->at) * 8 - v->bit;

    if (v->encoding == PQ_RLE)
        return rle_bits(v, bits, at, n, err);
    if (v->encoding != PQ_PLAIN)
        return hr_error_set(err, HR_BAD_DATA, "dictionary-encoded booleans");
    if (has < n)
        return too_few(has, n, err);
    hr__bits_copy(bits, at, v->at, v->bit, n);
    v->bit += n;
    return HR_OK;
}

hr_status pq__values_views(pq_values *v, hr_view *out, int64_t *n, int64_t *sum, hr_error *err)
{
    *sum = 0;
    switch (v->encoding) {
    case PQ_RLE_DICTIONARY: return dict_views(v, out, *n, sum, err);
    case PQ_DELTA_LENGTH: return length_views(v, out, *n, sum, err);
    case PQ_DELTA_BYTES: return prefix_views(v, out, n, sum, err);
    default: return plain_views(v, out, *n, sum, err);
    }
}

/* Lengths give the place of the next values; shared prefixes need the values themselves. */
static hr_status skip_views(pq_values *v, int64_t n, hr_error *err)
{
    hr_view views[PQ_BLOCK];
    int64_t k, sum;

    for (; n > 0; n -= k) {
        k = HR_MIN(n, PQ_BLOCK);
        HR_TRY(pq__values_views(v, views, &k, &sum, err));
    }
    return HR_OK;
}

hr_status pq__values_skip(pq_values *v, int64_t n, hr_error *err)
{
    if (v->leaf->kind == PQ_K_NULL)
        return HR_OK;
    if (v->encoding == PQ_RLE_DICTIONARY || v->encoding == PQ_RLE) {
        pq__runs_skip(&v->runs, n);
        return v->runs.bad ? bad_index(v, err) : HR_OK;
    }
    if (v->leaf->kind == PQ_K_BOOL) {
        if ((v->end - v->at) * 8 - v->bit < n)
            return too_few((v->end - v->at) * 8 - v->bit, n, err);
        v->bit += n;
        return HR_OK;
    }
    return v->leaf->kind == PQ_K_BYTES ? skip_views(v, n, err) : pq__values_fixed(v, NULL, n, err);
}

static hr_status goes_on(const char *what, int64_t n, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s go on after the page's %lld values", what, (long long)n);
}

/* Bytes of the PLAIN and split values that were read: v->at does not count all of them. */
static int64_t used_bytes(const pq_values *v, int64_t n)
{
    if (v->encoding == PQ_BYTE_SPLIT)
        return n * v->leaf->stored_width - v->bit; /* v->at points into the first stream */
    return v->leaf->kind == PQ_K_BOOL ? (v->bit + 7) / 8 : 0;
}

static bool is_zero(const uint8_t *p, int64_t n)
{
    while (n > 0 && p[n - 1] == 0)
        n--;
    return n == 0;
}

hr_status pq__values_end(const pq_values *v, int64_t n, unsigned padding, hr_error *err)
{
    bool is_runs = v->encoding == PQ_RLE_DICTIONARY || v->encoding == PQ_RLE;
    bool is_delta = v->encoding >= PQ_DELTA_BINARY && v->encoding <= PQ_DELTA_BYTES;
    int64_t left;

    if (v->leaf->kind == PQ_K_NULL)
        return HR_OK;
    if (is_runs && !pq__runs_ended(&v->runs, n, padding))
        return goes_on(v->dict ? "dictionary indices" : "booleans", n, err);
    if (v->encoding == PQ_DELTA_BYTES && v->prefixes.left + v->prefixes.has_first > 0)
        return goes_on("prefixes", n, err);
    if (is_delta && v->delta.left + v->delta.has_first > 0)
        return goes_on("delta-encoded integers", n, err);
    left = v->end - v->at - (is_runs || is_delta ? 0 : used_bytes(v, n));
    if (padding & PQ_PADS_ZEROS && v->encoding == PQ_PLAIN && left <= PQ_MAX_ZEROS && is_zero(v->end - left, left))
        return HR_OK;
    if (left != 0)
        return hr_error_set(err, HR_BAD_DATA, "%lld bytes are left after the page's %lld values", (long long)left,
                            (long long)n);
    return HR_OK;
}
