/* What a peer says that it has: an accepted plan stays inside its files and its directory, and reads the same when it
 * is written again. */
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "oci/snapshot_config.h"
#include "snapshots/peer_plan.h"

static void check_file(const struct vk_peer_file *file) {
    fuzz_require(cc_snapshot_name_is_plain(file->name) && file->size >= 0);
    for (size_t i = 0; i < file->slice_count; i++) {
        const struct vk_slice *slice = &file->slices[i];
        fuzz_require(slice->offset >= 0 && slice->length > 0 && slice->length <= file->size);
        fuzz_require(slice->offset <= file->size - slice->length);
    }
    size_t each = vk_slices_of_stream(file->slice_count);
    fuzz_require(each >= 1 && (file->slice_count + each - 1) / each <= VK_PEER_STREAMS_OF_FILE);
}

static void check_same(const struct vk_peer_plan *a, const struct vk_peer_plan *b) {
    fuzz_require(fuzz_same_text(a->snapshot_id, b->snapshot_id) && a->file_count == b->file_count);
    for (size_t i = 0; i < a->file_count; i++) {
        const struct vk_peer_file *x = &a->files[i], *y = &b->files[i];
        fuzz_require(fuzz_same_text(x->name, y->name) && x->size == y->size && x->slice_count == y->slice_count);
        fuzz_require(x->slice_count == 0 || memcmp(x->slices, y->slices, x->slice_count * sizeof *x->slices) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_buf text cc_cleanup(cc_buf_done);
    struct vk_peer_plan plan, again;
    struct cc_err err = {0};
    int rc = vk_peer_plan_parse((const char *)data, size, &arena, &plan, &err);
    fuzz_require_error(rc, &err);
    cc_buf_init(&text, VK_PEER_PLAN_BYTES_MAX);
    if (rc != 0) {
        fuzz_require(rc == CC_PROTOCOL || rc == CC_LIMIT);
        return 0;
    }
    for (size_t i = 0; i < plan.file_count; i++)
        check_file(&plan.files[i]);
    vk_peer_plan_encode(&plan, &text);
    rc = vk_peer_plan_parse(text.data, text.len, &arena, &again, &err);
    fuzz_require(rc == 0);
    check_same(&plan, &again);
    return 0;
}
