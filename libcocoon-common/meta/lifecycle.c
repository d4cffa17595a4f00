/* The lifecycle triple: contract/02 chapter 8. One unit: state, generation and message change together. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "kube/patch.h"
#include "meta/vm_spec.h"

#define GENERATION_BYTES 24

static const char *generation_text(int64_t generation, char buffer[GENERATION_BYTES]) {
    snprintf(buffer, GENERATION_BYTES, "%lld", (long long)generation);
    return buffer;
}

void cc_lifecycle_parse(const struct cc_strmap *annotations, struct cc_lifecycle *ret) {
    ret->state = cc_strmap_text(annotations, CC_KEY_LIFECYCLE_STATE);
    ret->observed_generation = cc_generation_of(annotations, CC_KEY_LIFECYCLE_GENERATION);
    ret->message = cc_strmap_text(annotations, CC_KEY_LIFECYCLE_MESSAGE);
}

void cc_lifecycle_apply(const struct cc_lifecycle *lifecycle, struct cc_strmap *annotations, struct cc_arena *arena) {
    char generation[GENERATION_BYTES];

    cc_strmap_set(annotations, arena, CC_KEY_LIFECYCLE_STATE, cc_text_or(lifecycle->state, ""));
    cc_strmap_set(annotations, arena, CC_KEY_LIFECYCLE_GENERATION,
                  generation_text(lifecycle->observed_generation, generation));
    if (cc_text_is_empty(lifecycle->message))
        cc_strmap_remove(annotations, CC_KEY_LIFECYCLE_MESSAGE);
    else
        cc_strmap_set(annotations, arena, CC_KEY_LIFECYCLE_MESSAGE, lifecycle->message);
}

void cc_lifecycle_patch(const struct cc_lifecycle *lifecycle, json_t *patch) {
    char generation[GENERATION_BYTES];

    cc_patch_annotation(patch, CC_KEY_LIFECYCLE_STATE, cc_text_or(lifecycle->state, ""));
    cc_patch_annotation(patch, CC_KEY_LIFECYCLE_GENERATION,
                        generation_text(lifecycle->observed_generation, generation));
    cc_patch_annotation(patch, CC_KEY_LIFECYCLE_MESSAGE,
                        cc_text_is_empty(lifecycle->message) ? NULL : lifecycle->message);
}

const char *cc_lifecycle_key(const struct cc_lifecycle *lifecycle, struct cc_arena *arena, size_t *ret_bytes) {
    char generation[GENERATION_BYTES];
    const char *parts[3] = {cc_text_or(lifecycle->state, ""),
                            generation_text(lifecycle->observed_generation, generation),
                            cc_text_or(lifecycle->message, "")};
    size_t bytes = 0, at = 0;
    char *key;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(parts); i++)
        bytes += strlen(parts[i]) + 1;
    key = cc_arena_alloc(arena, bytes);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(parts); i++) {
        memcpy(key + at, parts[i], strlen(parts[i]) + 1);
        at += strlen(parts[i]) + 1;
    }
    *ret_bytes = bytes - 1;
    return key;
}

bool cc_lifecycle_equal(const struct cc_lifecycle *a, const struct cc_lifecycle *b) {
    return a->observed_generation == b->observed_generation && cc_text_equal(a->state, b->state) &&
           cc_text_equal(a->message, b->message);
}

bool cc_lifecycle_is_terminal(const char *state) {
    return cc_text_equal(state, CC_STATE_READY) || cc_text_equal(state, CC_STATE_HIBERNATED) ||
           cc_text_equal(state, CC_STATE_FAILED);
}
