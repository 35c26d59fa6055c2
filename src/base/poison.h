/* poison.h - marks free memory of the pools, so that AddressSanitizer reports its use. */
#ifndef HR_POISON_H
#define HR_POISON_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HR_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define HR_POISON 1
#endif
#ifdef HR_POISON
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#endif
