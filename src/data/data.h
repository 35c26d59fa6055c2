/* data.h - all headers of base and data in one line; the folders above include it. */
#ifndef HR_DATA_H
#define HR_DATA_H

#include "base/cpu.h"
#include "base/hash.h"
#include "base/option.h"
#include "data/builder.h"
#include "data/conform.h"
#include "data/cdata/cdata.h"
#include "data/random.h"
#include "data/table.h"

#endif
