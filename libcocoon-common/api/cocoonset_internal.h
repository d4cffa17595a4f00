/* Between the two halves of CocoonSet, for the files of api/ only. */
#ifndef CC_API_COCOONSET_INTERNAL_H
#define CC_API_COCOONSET_INTERNAL_H

#include "api/cocoonset.h"

/* Tolerant: a member of a wrong type reads as absent, since the next status write repairs it. NULL = no status. */
void cc_cocoonset_status_decode(const json_t *json, struct cc_arena *arena, struct cc_cocoonset_status *ret);

#endif
