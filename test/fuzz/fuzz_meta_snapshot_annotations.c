/* Annotations that a pod asks for on its manifests: accepted ones are texts under keys that are not ours; a refusal
 * gives none at all. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "meta/vm_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    struct cc_arena arena = {0};
    struct cc_strmap map, again;
    struct cc_err err = {0};
    int rc = cc_snapshot_annotations_parse(text, &arena, &map, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 || (rc == CC_INVALID && map.count == 0 && strstr(err.msg, CC_KEY_SNAPSHOT_ANNOTATIONS)));
    for (size_t i = 0; i < map.count; i++)
        fuzz_require(strncmp(map.items[i].key, "cocoonstack.", 12) != 0 && map.items[i].value);
    json_t *object cc_cleanup(cc_json_decref_p) = cc_json_from_strmap(&map);
    char *written cc_cleanup(cc_free_p) = cc_json_dump(object);
    fuzz_require(cc_snapshot_annotations_parse(written, &arena, &again, &err) == 0 && cc_strmap_equal(&map, &again));
    cc_arena_done(&arena);
    return 0;
}
