/* zone.h - time zones: from an instant to local time, and back. For src/expr only. */
#ifndef HR_EXPR_ZONE_H
#define HR_EXPR_ZONE_H

#include "data/data.h"

typedef struct hr_zone hr_zone; /* immutable; serves many threads */

/* A stretch of instants (seconds since 1970, UTC) with one offset. */
typedef struct hr_zone_span {
    int64_t begin, end; /* [begin, end) */
    int32_t offset;     /* seconds east of UTC */
    const char *name;   /* "CET"; borrowed from the zone */
} hr_zone_span;

/* By its name, "Europe/Berlin", in the system's database, or an offset, "+05:30". NULL, "" and "UTC": UTC. HR_NOT_FOUND
 * names the searched folder. */
hr_status hr__zone_new(const char *name, hr_zone **out, hr_error *err) HR_MUST_USE;
/* From the bytes of a file of the database (TZif, RFC 8536). HR_BAD_DATA. */
hr_status hr__zone_parse(const uint8_t *data, int64_t n, hr_zone **out, hr_error *err) HR_MUST_USE;
void hr__zone_free(hr_zone *z); /* NULL is fine */
/* The stretch that holds `t`. *span of an earlier call makes it fast; all zero at first. */
void hr__zone_at(const hr_zone *z, int64_t t, hr_zone_span *span);
/* The first instant with this local time; if clocks skip it, the instant of the skip. */
int64_t hr__zone_instant(const hr_zone *z, int64_t local, hr_zone_span *span);

#endif
