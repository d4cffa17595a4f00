/* Condition merge rule: contract/01 3.3. */
#ifndef CC_API_CONDITIONS_H
#define CC_API_CONDITIONS_H

#include "api/pod.h"
#include "base/arena.h"
#include "base/time.h"

/* Merges `wanted` into the array (items, count): found by type; status changed or new type: last_transition = now;
 * reason, message, observed_generation always taken; others kept in order. The result is a new array in the arena; the
 * old one, which may belong to a cached object, is left alone. */
void cc_condition_merge(struct cc_condition **items, size_t *count, struct cc_arena *arena,
                        const struct cc_condition *wanted, struct cc_wall now);
/* {type,status,reason,message,lastTransitionTime,observedGeneration}. New reference. */
json_t *cc_condition_encode(const struct cc_condition *condition);
/* Reads status.conditions of an object; texts in the arena. */
void cc_conditions_decode(const json_t *array, struct cc_arena *arena, struct cc_condition **ret, size_t *ret_count);

#endif
