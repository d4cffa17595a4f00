/* Whatever is accepted can be written and read back, and is not deeper than promised. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "fuzz/fuzz.h"

#define LIMIT ((size_t)1024 * 1024)

static size_t depth_of(const json_t *value) {
    size_t deepest = 0, i;
    const char *key;
    json_t *member;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        size_t depth = depth_of(member);
        deepest = depth > deepest ? depth : deepest;
    }
    json_array_foreach (value, i, member) {
        size_t depth = depth_of(member);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + (json_is_object(value) || json_is_array(value));
}

static void check_dump(const json_t *value, char *(*dump)(const json_t *value)) {
    char *text cc_cleanup(cc_free_p) = dump(value);
    fuzz_require(cc_utf8_is_valid(text, strlen(text)));
    json_t *again cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err err;
    fuzz_require(cc_json_parse(text, strlen(text), SIZE_MAX, &again, &err) == 0);
    fuzz_require(json_equal(value, again));
    char *second cc_cleanup(cc_free_p) = dump(again);
    fuzz_require(strcmp(text, second) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *value cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err err = {0};
    int rc = cc_json_parse((const char *)data, size, LIMIT, &value, &err);
    fuzz_require_error(rc, &err);
    fuzz_require((rc == CC_LIMIT) == (size > LIMIT));
    if (rc != 0) {
        fuzz_require(!value && (rc == CC_LIMIT || rc == CC_PROTOCOL));
        return 0;
    }
    fuzz_require(depth_of(value) <= CC_JSON_DEPTH_MAX);
    check_dump(value, cc_json_dump);
    check_dump(value, cc_json_dump_sorted);

    struct cc_arena arena = {0};
    struct cc_strmap map;
    cc_json_strmap(value, &arena, &map);
    fuzz_require(map.count <= json_object_size(value));
    for (size_t i = 0; i < map.count; i++) {
        fuzz_require(i == 0 || strcmp(map.items[i - 1].key, map.items[i].key) < 0);
        fuzz_require(fuzz_same_text(cc_json_text(value, map.items[i].key), map.items[i].value));
    }
    cc_arena_done(&arena);
    return 0;
}
