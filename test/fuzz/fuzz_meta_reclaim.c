/* The hibernate-reclaim annotation: what was read is written to a text that reads the same, and forgetting a VM removes
 * it from every list. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "meta/records.h"

static bool is_same(const struct cc_reclaim_record *a, const struct cc_reclaim_record *b) {
    return a->generation == b->generation && cc_strlist_equal(&a->vms, &b->vms) &&
           cc_strlist_equal(&a->restore, &b->restore) && cc_strlist_equal(&a->suspended, &b->suspended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    struct cc_arena arena = {0};
    struct cc_reclaim_record record, again;
    cc_reclaim_parse(text, &arena, &record);
    const char *written = cc_reclaim_encode(&record, &arena);
    fuzz_require((written == NULL) == (record.vms.count == 0));
    if (written) {
        cc_reclaim_parse(written, &arena, &again);
        fuzz_require(is_same(&record, &again));
        fuzz_require(strcmp(cc_reclaim_encode(&again, &arena), written) == 0);
        const char *first = record.vms.items[0];
        fuzz_require(*first && cc_reclaim_forget(&record, first));
        fuzz_require(!cc_strlist_has(&record.vms, first) && !cc_strlist_has(&record.restore, first) &&
                     !cc_strlist_has(&record.suspended, first));
        fuzz_require(!cc_reclaim_forget(&record, first));
    }
    cc_arena_done(&arena);
    return 0;
}
