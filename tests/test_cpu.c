/* test_cpu.c - features and their mask. They are read once a process, so each mask is tried in a child of its own. */
#include "harness.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* hr__cpu_features() of a fresh child with HR_CPU = mask (NULL: unset). */
static unsigned features_with(const char *mask)
{
    int to_us[2], status;
    unsigned got = 0;
    pid_t child;

    assert_int_equal(pipe(to_us), 0);
    if ((child = fork()) == 0) {
        if (mask)
            setenv("HR_CPU", mask, 1);
        else
            unsetenv("HR_CPU");
        got = hr__cpu_features();
        if (got != hr__cpu_features() || write(to_us[1], &got, sizeof got) != sizeof got)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(read(to_us[0], &got, sizeof got), sizeof got);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(to_us[0]);
    close(to_us[1]);
    return got;
}

static const struct {
    const char *mask;
    unsigned keeps;
} masks[] = {
    { "scalar", 0 },
    { "", ~0u },
    { "avx2", HR_CPU_AVX2 },
    { "avx2,bmi2", HR_CPU_AVX2 | HR_CPU_BMI2 },
    { "sse42 avx2  pclmul", HR_CPU_SSE42 | HR_CPU_AVX2 | HR_CPU_PCLMUL },
    { "avx", 0 },
    { "avx2x", 0 },
    { "neon,sse42,avx2,bmi2,avx512,pclmul,avx512vbmi", ~0u },
};

static void masked(void **state)
{
    unsigned all = features_with(NULL);

    (void)state;
    for (int i = 0; i < HR_LEN(masks); i++)
        assert_int_equal(features_with(masks[i].mask), all & masks[i].keeps);
}

static void plausible(void **state)
{
    unsigned all = features_with(NULL);

    (void)state;
    assert_int_equal(all & ~127u, 0);
#if defined(__AVX2__)
    assert_true(all & HR_CPU_AVX2);
#endif
#if defined(__aarch64__)
    assert_int_equal(all, HR_CPU_NEON);
#elif defined(__x86_64__)
    assert_false(all & HR_CPU_NEON);
    if (all & HR_CPU_AVX2) /* no CPU has the one without the other */
        assert_true(all & HR_CPU_SSE42);
    if (all & HR_CPU_AVX512)
        assert_true(all & HR_CPU_AVX2);
    if (all & HR_CPU_VBMI)
        assert_true(all & HR_CPU_AVX512);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(plausible), cmocka_unit_test(masked) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
