/* The rebuild-history annotation: byte-stable, sorted, never a negative count; what is put in is found. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "meta/records.h"

static bool keep_none(void *ctx CC_UNUSED, const char *pod_name CC_UNUSED) {
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    struct cc_arena arena = {0};
    struct cc_rebuild_history history, again;
    cc_rebuild_parse(text, &arena, &history);
    for (size_t i = 0; i < history.count; i++) {
        const struct cc_rebuild_entry *entry = &history.items[i];
        fuzz_require(entry->count >= 0 && cc_rebuild_find(&history, entry->pod_name) == entry);
        fuzz_require(i == 0 || strcmp(history.items[i - 1].pod_name, entry->pod_name) < 0);
        fuzz_require(cc_rebuild_backoff_ms(entry->count) >= 0 && cc_rebuild_backoff_ms(entry->count) <= 30000);
    }
    const char *written = cc_rebuild_encode(&history, &arena);
    fuzz_require((written == NULL) == (history.count == 0));
    if (written) {
        cc_rebuild_parse(written, &arena, &again);
        fuzz_require(again.count == history.count);
        for (size_t i = 0; i < again.count; i++) {
            const struct cc_rebuild_entry *a = &history.items[i], *b = &again.items[i];
            fuzz_require(strcmp(a->pod_name, b->pod_name) == 0 && a->count == b->count &&
                         a->generation == b->generation && a->parked == b->parked);
            fuzz_require(a->last_deleted.ns == b->last_deleted.ns || a->last_deleted.ns == INT64_MIN);
        }
        fuzz_require(strcmp(cc_rebuild_encode(&again, &arena), written) == 0);
    }
    size_t count = history.count;
    bool was_there = cc_rebuild_find(&history, "new-0") != NULL;
    struct cc_rebuild_entry *put = cc_rebuild_put(&history, &arena, "new-0");
    fuzz_require(put == cc_rebuild_find(&history, "new-0") && history.count == count + !was_there);
    cc_rebuild_remove(&history, "new-0");
    fuzz_require(!cc_rebuild_find(&history, "new-0"));
    cc_rebuild_prune(&history, keep_none, NULL);
    fuzz_require(history.count == 0 && !cc_rebuild_encode(&history, &arena));
    cc_arena_done(&arena);
    return 0;
}
