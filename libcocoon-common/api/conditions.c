#include "api/conditions.h"

#include <string.h>

#include "api/decode_internal.h"
#include "base/json.h"
#include "base/text.h"

void cc_condition_merge(struct cc_condition **items, size_t *count, struct cc_arena *arena,
                        const struct cc_condition *wanted, struct cc_wall now) {
    /* The array may be that of a cached object, which nobody changes. */
    struct cc_condition *merged = CC_ARENA_ARRAY(arena, struct cc_condition, *count + 1);
    struct cc_condition *target = NULL;

    if (*count > 0)
        memcpy(merged, *items, *count * sizeof *merged);
    for (size_t i = 0; i < *count && !target; i++) {
        if (cc_text_equal(merged[i].type, wanted->type))
            target = &merged[i];
    }
    if (!target) {
        target = &merged[(*count)++];
        target->type = cc_api_text_of(wanted->type, arena);
    }
    if (!cc_text_equal(target->status, wanted->status)) {
        target->status = cc_api_text_of(wanted->status, arena);
        target->last_transition = now;
    }
    target->reason = cc_api_text_of(wanted->reason, arena);
    target->message = cc_api_text_of(wanted->message, arena);
    target->observed_generation = wanted->observed_generation;
    *items = merged;
}

json_t *cc_condition_encode(const struct cc_condition *condition) {
    char time[CC_RFC3339_BYTES];
    json_t *object = json_object();

    cc_json_set_text(object, "type", cc_text_or(condition->type, ""));
    cc_json_set_text(object, "status", cc_text_or(condition->status, ""));
    cc_json_set_text(object, "reason", cc_text_or(condition->reason, ""));
    cc_json_set_text(object, "message", cc_text_or(condition->message, ""));
    if (cc_wall_is_set(condition->last_transition))
        cc_json_set_text(object, "lastTransitionTime", cc_rfc3339_seconds(condition->last_transition, time));
    if (condition->observed_generation != 0)
        cc_json_set_int(object, "observedGeneration", condition->observed_generation);
    return object;
}

void cc_conditions_decode(const json_t *array, struct cc_arena *arena, struct cc_condition **ret, size_t *ret_count) {
    size_t count = json_array_size(array);

    *ret = NULL;
    *ret_count = 0;
    if (count > CC_POD_CONDITIONS_MAX)
        count = CC_POD_CONDITIONS_MAX;
    if (count == 0)
        return;
    *ret = CC_ARENA_ARRAY(arena, struct cc_condition, count);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        struct cc_condition *condition = &(*ret)[*ret_count];

        if (!json_is_object(item))
            continue;
        condition->type = cc_api_text(item, "type", arena);
        condition->status = cc_api_text(item, "status", arena);
        condition->reason = cc_api_text(item, "reason", arena);
        condition->message = cc_api_text(item, "message", arena);
        condition->observed_generation = cc_json_int(item, "observedGeneration", 0);
        condition->last_transition = cc_api_time(item, "lastTransitionTime");
        condition->last_heartbeat = cc_api_time(item, "lastHeartbeatTime");
        (*ret_count)++;
    }
}

const struct cc_condition *cc_condition_find(const struct cc_condition *items, size_t count, const char *type) {
    for (size_t i = 0; i < count; i++) {
        if (cc_text_equal(items[i].type, type))
            return &items[i];
    }
    return NULL;
}
