/* For the files of base/json only. */
#ifndef CC_BASE_JSON_INTERNAL_H
#define CC_BASE_JSON_INTERNAL_H

#include <jansson.h>
#include <stddef.h>

/* Exactly one document of what API servers write: integers below 10^18, no surrogate pairs in escapes, at most
 * CC_JSON_DEPTH_MAX levels. Gives the tree that jansson would give, in a quarter of the time. NULL: malformed, or legal
 * beyond that; jansson finds out which. */
json_t *cc_json_read(const char *bytes, size_t count);

#endif
