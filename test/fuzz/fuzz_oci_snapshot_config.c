/* The config blob and the archive's envelope, from the same bytes: what is accepted is within bounds, sorted, and
 * written again it reads the same and is byte-stable. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "oci/snapshot_config.h"

static bool same_texts(const struct cc_snapshot_config *a, const struct cc_snapshot_config *b) {
    return fuzz_same_text(a->snapshot_id, b->snapshot_id) && fuzz_same_text(a->description, b->description) &&
           fuzz_same_text(a->image, b->image) && fuzz_same_text(a->image_digest, b->image_digest) &&
           fuzz_same_text(a->image_type, b->image_type) && fuzz_same_text(a->hypervisor, b->hypervisor) &&
           fuzz_same_text(a->network, b->network) && cc_strlist_equal(&a->image_blob_ids, &b->image_blob_ids) &&
           a->cpu == b->cpu && a->memory == b->memory && a->storage == b->storage && a->nics == b->nics &&
           a->windows == b->windows;
}

static bool same_files(const struct cc_snapshot_config *a, const struct cc_snapshot_config *b) {
    if (a->file_count != b->file_count)
        return false;
    for (size_t i = 0; i < a->file_count; i++) {
        const struct cc_snapshot_file *x = &a->files[i], *y = &b->files[i];
        if (!fuzz_same_text(x->name, y->name) || x->mode != y->mode || !fuzz_same_text(x->sparse_map, y->sparse_map) ||
            (x->sparse_map && x->sparse_size != y->sparse_size) || x->size != y->size)
            return false;
    }
    return true;
}

static void check_config(const char *bytes, size_t count) {
    struct cc_arena arena = {0};
    struct cc_snapshot_config config = {0}, again = {0};
    struct cc_buf text cc_cleanup(cc_buf_done), second cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&text, CC_SNAPSHOT_CONFIG_BYTES_MAX);
    cc_buf_init(&second, CC_SNAPSHOT_CONFIG_BYTES_MAX);
    int rc = cc_snapshot_config_parse(bytes, count, &arena, &config, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 || rc == CC_PROTOCOL || rc == CC_LIMIT);
    if (rc == 0) {
        fuzz_require(config.file_count <= CC_SNAPSHOT_FILES_MAX);
        for (size_t i = 0; i < config.file_count; i++)
            fuzz_require(cc_snapshot_config_file(&config, config.files[i].name));
        cc_snapshot_config_encode(&config, &text);
        fuzz_require(!text.overflown && cc_snapshot_config_parse(text.data, text.len, &arena, &again, &err) == 0);
        fuzz_require(same_texts(&config, &again) && same_files(&config, &again));
        cc_snapshot_config_encode(&again, &second);
        fuzz_require(strcmp(text.data, second.data) == 0);
    }
    cc_arena_done(&arena);
}

static void check_envelope(const char *bytes, size_t count) {
    struct cc_arena arena = {0};
    struct cc_snapshot_config config = {0}, again = {0};
    struct cc_buf text cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&text, CC_SNAPSHOT_ENVELOPE_BYTES_MAX * 8);
    int rc = cc_snapshot_envelope_parse(bytes, count, &arena, &config, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 || rc == CC_PROTOCOL || rc == CC_LIMIT);
    if (rc == 0) {
        cc_snapshot_envelope_encode(&config, &text);
        fuzz_require(cc_snapshot_envelope_parse(text.data, text.len, &arena, &again, &err) == 0);
        fuzz_require(same_texts(&config, &again) && fuzz_same_text(config.name, again.name));
    }
    cc_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_config((const char *)data, size);
    check_envelope((const char *)data, size);
    return 0;
}
