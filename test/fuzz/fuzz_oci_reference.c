/* Two texts, one a line: what counts as a repository, tag, base or reference fits into a URL path and a local name. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "oci/reference.h"
#include "oci/snapshot_config.h"

static void check_base(const char *text, struct cc_arena *arena) {
    struct cc_registry_base base;
    struct cc_err err = {0};
    int rc = cc_registry_base_parse(text, arena, &base, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        fuzz_require(rc == CC_INVALID && strstr(err.msg, "OCI_REGISTRY"));
        return;
    }
    fuzz_require(*base.host && !strpbrk(base.host, "/ @") && base.path[0] != '/');
    fuzz_require(strlen(base.host) + (*base.path ? 1 : 0) + strlen(base.path) == strlen(text));
}

static void check_reference(const char *ref, struct cc_arena *arena) {
    const char *repository, *tag;
    cc_ref_split(ref, arena, &repository, &tag);
    fuzz_require(strncmp(ref, repository, strlen(repository)) == 0);
    if (cc_ref_is_relative(ref)) {
        fuzz_require(cc_tag_is_valid(tag) && !strstr(repository, "..") && !strchr(repository, ':'));
        fuzz_require(strlen(repository) < 2 || strlen(repository) > 255 || cc_repository_is_valid(repository));
    }
    const char *local = cc_local_snapshot_name(repository, tag, arena);
    fuzz_require(strlen(local) <= 63);
    fuzz_require(strcmp(local, cc_local_snapshot_name(repository, tag, arena)) == 0);
}

static void check_names(const char *text) {
    if (cc_repository_is_valid(text))
        fuzz_require(!strpbrk(text, "?#% :@\\") && text[0] != '/' && !strstr(text, "//") && strcmp(text, "..") != 0);
    if (cc_tag_is_valid(text))
        fuzz_require(!strpbrk(text, "/?#% :") && strlen(text) <= 128);
    if (cc_snapshot_name_is_plain(text))
        fuzz_require(*text && !strchr(text, '/') && strcmp(text, ".") != 0 && strcmp(text, "..") != 0 &&
                     strlen(text) <= 255);
    bool zstd;
    if (cc_snapshot_media_type_is_known(text, &zstd) && zstd)
        fuzz_require(strlen(text) > 5 && strcmp(text + strlen(text) - 5, "+zstd") == 0);
    fuzz_require(cc_snapshot_media_type_is_known(cc_snapshot_media_type(text), &zstd) && !zstd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *first cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *second cc_cleanup(cc_free_p) = fuzz_line(&input);
    struct cc_arena arena = {0};
    check_base(first, &arena);
    check_reference(second, &arena);
    check_names(first);
    check_names(second);
    cc_arena_done(&arena);
    return 0;
}
