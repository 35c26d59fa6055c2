/* cpu.c - which instructions this CPU has, masked by the variable HR_CPU ("scalar", or a list of names: "sse42 avx2").
 *
 * Kernels exist in several forms (csv_kernel.h, parquet_kernel.h and others): tests run each of them by masking. */
#include "base/all.h"

#include <stdlib.h>

#define KNOWN ((unsigned)1 << 31) /* set once the features were read */

static const struct {
    const char *name;
    unsigned bit;
} names[] = {
    { "sse42", HR_CPU_SSE42 }, { "avx2", HR_CPU_AVX2 },     { "bmi2", HR_CPU_BMI2 },       { "avx512", HR_CPU_AVX512 },
    { "neon", HR_CPU_NEON },   { "pclmul", HR_CPU_PCLMUL }, { "avx512vbmi", HR_CPU_VBMI },
};

static unsigned cpu_detect(void)
{
    unsigned f = 0;

#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"))
        f |= HR_CPU_SSE42;
    if (__builtin_cpu_supports("avx2"))
        f |= HR_CPU_AVX2;
    if (__builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
        f |= HR_CPU_BMI2;
    if (__builtin_cpu_supports("pclmul"))
        f |= HR_CPU_PCLMUL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        f |= HR_CPU_AVX512;
    if ((f & HR_CPU_AVX512) && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni"))
        f |= HR_CPU_VBMI;
#elif defined(__aarch64__)
    f |= HR_CPU_NEON; /* every aarch64 has it */
#endif
    return f;
}

/* The bits that the list allows. An unknown name allows nothing: a typing error costs speed only. */
static unsigned cpu_mask(const char *list)
{
    unsigned mask = 0;

    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ,");
        for (int i = 0; i < HR_LEN(names); i++)
            if (strlen(names[i].name) == n && !strncmp(names[i].name, p, n))
                mask |= names[i].bit;
        p += n;
        p += strspn(p, " ,");
    }
    return mask;
}

unsigned hr__cpu_features(void)
{
    static atomic_uint cached;
    unsigned f = atomic_load_explicit(&cached, memory_order_relaxed);
    const char *list;

    if (!f) {
        list = getenv("HR_CPU");
        f = (list && *list ? cpu_detect() & cpu_mask(list) : cpu_detect()) | KNOWN;
        atomic_store(&cached, f);
    }
    return f & ~KNOWN;
}
