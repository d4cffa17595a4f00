/* Two kinds of time that do not mix. Nobody reads the system clock but aio/loop: time comes from cc_now_mono() and
 * cc_now_wall(), so that a simulator can own it. */
#ifndef CC_BASE_TIME_H
#define CC_BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"

struct cc_mono {
    int64_t ns; /* since an arbitrary start; for deadlines and durations */
};
struct cc_wall {
    int64_t ns; /* since 1970-01-01T00:00:00Z; 0 = "not set"; for what is shown or stored */
};

#define CC_NS_PER_MS INT64_C(1000000)
#define CC_NS_PER_S INT64_C(1000000000)
#define CC_MONO_NEVER ((struct cc_mono){INT64_MAX})

/* Saturating. */
struct cc_mono cc_mono_add_ms(struct cc_mono time, int64_t ms);
/* a - b in milliseconds, rounded down. */
int64_t cc_mono_diff_ms(struct cc_mono a, struct cc_mono b);
bool cc_mono_is_before(struct cc_mono a, struct cc_mono b);
bool cc_wall_is_set(struct cc_wall time);

/* RFC 3339 with optional fraction (1..9 digits) and Z or an offset; years 0001..9999; times
 * outside of 1678..2261 saturate. False = malformed, *ret alone. */
bool cc_rfc3339_parse(const char *text, struct cc_wall *ret);

#define CC_RFC3339_BYTES 40
/* UTC: 2026-08-30T12:00:00Z. buffer holds CC_RFC3339_BYTES; returned for convenience. */
const char *cc_rfc3339_seconds(struct cc_wall time, char buffer[CC_RFC3339_BYTES]);
/* UTC with exactly six fractional digits (Lease times). */
const char *cc_rfc3339_micros(struct cc_wall time, char buffer[CC_RFC3339_BYTES]);
/* UTC with up to nine fractional digits, trailing zeros trimmed (Go's RFC3339Nano). */
const char *cc_rfc3339_nanos(struct cc_wall time, char buffer[CC_RFC3339_BYTES]);

#endif
