/* all.h - all of base in one line. */
#ifndef HR_ALL_H
#define HR_ALL_H

#include "base/bits.h"
#include "base/cpu.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/option.h"
#include "base/text.h"

#endif
