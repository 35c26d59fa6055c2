/* pickle.c - writes plain values as Python's pickles.
 *
 * A function's column may hold objects without a common type in one table (hr__type_pickled) and only integers in the
 * next. This file turns the second into pickles, too, by the few opcodes of protocol 3 for numbers, text, bytes, lists
 * and dicts, and by the constructors of `datetime` for dates and times. Python's None is a null, not a pickle of None.
 *
 * Only Python reads pickles. */
#include "data/data.h"

#define MICROS_A_DAY INT64_C(86400000000)

static void put_byte(hr_text *out, int c)
{
    uint8_t byte = (uint8_t)c;

    hr__text_add_bytes(out, &byte, 1);
}

static void put_little(hr_text *out, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        put_byte(out, (int)(v >> (8 * i) & 0xff));
}

/* BININT, or LONG1 of nine bytes at most, which are two's complement. */
static void put_int(hr_text *out, int64_t v, bool is_unsigned)
{
    bool large = is_unsigned && v < 0;

    if (v >= INT32_MIN && v <= INT32_MAX && !large) {
        put_byte(out, 'J');
        put_little(out, (uint64_t)v, 4);
        return;
    }
    put_byte(out, 0x8a);
    put_byte(out, large ? 9 : 8);
    put_little(out, (uint64_t)v, 8);
    if (large)
        put_byte(out, 0);
}

/* BINFLOAT: big-endian. */
static void put_double(hr_text *out, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, 8);
    put_byte(out, 'G');
    for (int i = 7; i >= 0; i--)
        put_byte(out, (int)(bits >> (8 * i) & 0xff));
}

/* BINUNICODE, BINBYTES: of less than 4 GiB. */
static void put_bytes(hr_text *out, int op, const uint8_t *p, int64_t n)
{
    put_byte(out, op);
    put_little(out, (uint64_t)n, 4);
    hr__text_add_bytes(out, p, n);
}

/* The day `days` after 1970-01-01 in the Gregorian calendar; false: outside the years that Python has. */
static bool put_day(hr_text *out, int64_t days)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of_era = z - era * 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * of_year + 2) / 153, year;

    month = month < 10 ? month + 3 : month - 9;
    year = year_of_era + era * 400 + (month <= 2);
    if (days < -719162 || days > 2932896)
        return false;
    put_int(out, year, false);
    put_int(out, month, false);
    put_int(out, of_year - (153 * ((5 * of_year + 2) / 153) + 2) / 5 + 1, false);
    return true;
}

/* datetime.datetime(year, month, day, hour, minute, second, microsecond) */
static bool put_time(hr_text *out, int64_t v, hr_unit unit)
{
    static const int64_t to_micros[] = { 1000000, 1000, 1, 0 };
    int64_t micros, days;

    if (__builtin_mul_overflow(v, to_micros[unit], &micros))
        return false;
    days = micros / MICROS_A_DAY - (micros % MICROS_A_DAY < 0);
    micros -= days * MICROS_A_DAY;
    hr__text_add(out, "cdatetime\ndatetime\n(");
    if (!put_day(out, days))
        return false;
    put_int(out, micros / 3600000000, false);
    put_int(out, micros / 60000000 % 60, false);
    put_int(out, micros / 1000000 % 60, false);
    put_int(out, micros % 1000000, false);
    hr__text_add(out, "tR");
    return true;
}

static bool put_date(hr_text *out, int64_t days)
{
    hr__text_add(out, "cdatetime\ndate\n(");
    if (!put_day(out, days))
        return false;
    hr__text_add(out, "tR");
    return true;
}

static bool put_value(hr_text *out, const hr_array *a, int64_t i);

/* Items [begin, begin + n) of the child as a list. */
static bool put_list(hr_text *out, const hr_array *child, int64_t begin, int64_t n)
{
    hr__text_add(out, "](");
    for (int64_t k = begin; k < begin + n; k++)
        if (!put_value(out, child, k))
            return false;
    put_byte(out, 'e');
    return true;
}

static bool put_struct(hr_text *out, const hr_array *a, int64_t i)
{
    hr__text_add(out, "}(");
    for (int k = 0; k < a->n_children; k++) {
        const char *name = a->type->children[k].name;

        put_bytes(out, 'X', (const uint8_t *)name, (int64_t)strlen(name));
        if (!put_value(out, a->children[k], a->offset + i))
            return false;
    }
    put_byte(out, 'u');
    return true;
}

static double float_value(const hr_array *a, int64_t i)
{
    const uint8_t *p = hr__array_values(a) + i * hr__type_bytes(a->type);
    uint16_t half;
    float single;
    double v;

    switch (hr__type_bytes(a->type)) {
    case 2: memcpy(&half, p, 2); return hr__half_value(half);
    case 4: memcpy(&single, p, 4); return (double)single;
    default: memcpy(&v, p, 8); return v;
    }
}

/* false: Python has no such value. */
static bool put_value(hr_text *out, const hr_array *a, int64_t i)
{
    const uint8_t *p;
    int64_t begin, n;

    if (hr__array_is_null(a, i)) {
        put_byte(out, 'N');
        return true;
    }
    switch (a->type->id) {
    case HR_T_BOOL: put_byte(out, hr__bit(a->buffers[1]->data, a->offset + i) ? 0x88 : 0x89); return true;
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: put_int(out, (int64_t)hr__array_uint(a, i), true); return true;
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: put_double(out, float_value(a, i)); return true;
    case HR_T_DATE32: return put_date(out, hr__array_int(a, i));
    case HR_T_TIMESTAMP: return put_time(out, hr__array_int(a, i), a->type->unit);
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST: hr__array_range(a, i, &begin, &n); return put_list(out, a->children[0], begin, n);
    case HR_T_STRUCT: return put_struct(out, a, i);
    default: break;
    }
    if (!hr__type_is_bytes(a->type)) {
        put_int(out, hr__array_int(a, i), false);
        return true;
    }
    p = hr__array_bytes(a, i, &n);
    if (n > UINT32_MAX)
        return false;
    if (a->type->id == HR_T_STRING || a->type->id == HR_T_LARGE_STRING)
        put_bytes(out, 'X', p, n);
    else
        put_bytes(out, 'B', p, n);
    return true;
}

bool hr__type_can_pickle(const hr_type *t)
{
    if (t->pickled || hr__type_is_ragged(t))
        return false;
    if (t->id == HR_T_TIMESTAMP)
        return !t->zone && t->unit != HR_NANO;
    if (t->id == HR_T_STRUCT || t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || t->id == HR_T_FIXED_LIST) {
        for (int32_t i = 0; i < t->n_children; i++)
            if (!hr__type_can_pickle(t->children[i].type))
                return false;
        return true;
    }
    return t->id <= HR_T_FLOAT64 || hr__type_is_bytes(t) || t->id == HR_T_DATE32;
}

hr_status hr__array_pickle(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err)
{
    hr_builder *made = NULL;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__builder_new(mem, hr__type_pickled(), &made, err));
    for (int64_t i = 0; i < a->length; i++) {
        if (hr__array_is_null(a, i)) {
            HR_GO(hr__builder_null(made, err));
            continue;
        }
        text.n = 0;
        hr__text_add_bytes(&text, "\x80\x03", 2); /* protocol 3: the first with bytes */
        if (!put_value(&text, a, i))
            HR_FAIL(HR_TYPE, "row %lld: Python has no object for the value", (long long)i);
        put_byte(&text, '.');
        if (text.failed)
            HR_GO(hr__error_memory(err, "pickle", text.n));
        HR_GO(hr__builder_bytes(made, text.data, text.n, err));
    }
    st = hr__builder_finish(made, out, err);
done:
    hr__builder_free(made);
    hr__text_clear(&text);
    return st;
}
