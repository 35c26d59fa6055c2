/* cpu.h - the instructions that this CPU has. */
#ifndef HR_CPU_H
#define HR_CPU_H

#include "base/base.h"

enum {
    HR_CPU_SSE42 = 1,
    HR_CPU_AVX2 = 2,
    HR_CPU_BMI2 = 4,
    HR_CPU_AVX512 = 8,
    HR_CPU_NEON = 16,
    HR_CPU_PCLMUL = 32,
    HR_CPU_VBMI = 64 /* AVX-512 with VBMI and VNNI */
};
unsigned hr__cpu_features(void); /* masked by HR_CPU=scalar or a list of names; read once */

#endif
