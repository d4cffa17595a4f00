/* First line: a MAC. Then a lease file: an address is given only when the file is sound and says so, and never after
 * its expiry. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "network/lease_file.h"
#include "network/mac.h"

static int look_up(struct vk_lease_file *file, const char *mac, int64_t now_ns, struct cc_arena *arena,
                   const char **ret) {
    struct cc_err err = {0};
    *ret = NULL;
    int rc = vk_lease_file_lookup(file, mac, (struct cc_wall){now_ns}, arena, ret, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 ? *ret != NULL : rc != CC_NOT_FOUND);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *mac cc_cleanup(cc_free_p) = fuzz_line(&input);
    size_t count;
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, &count);
    struct vk_lease_file *file = vk_lease_file_new(fuzz_file(text, count));
    struct cc_arena arena = {0};
    struct in_addr address;
    const char *early, *late;
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    bool sound = cc_json_parse(text, count, VK_LEASE_FILE_BYTES_MAX, &root, NULL) == 0 &&
                 (json_is_array(root) || json_is_null(root));
    int rc = look_up(file, mac, INT64_MIN, &arena, &early);
    fuzz_require(sound || rc != 0);
    if (rc == 0) {
        fuzz_require(!*early || inet_pton(AF_INET, early, &address) == 1);
        fuzz_require(look_up(file, mac, INT64_MAX, &arena, &late) == 0 && !*late);
        fuzz_require(vk_lease_file_reads(file) == 1);
        fuzz_require(*mac || !*early);
    }
    char canonical[VK_MAC_TEXT_BYTES], twice[VK_MAC_TEXT_BYTES];
    if (vk_mac_canonical(mac, canonical))
        fuzz_require(strlen(canonical) == VK_MAC_TEXT_BYTES - 1 && vk_mac_canonical(canonical, twice) &&
                     strcmp(canonical, twice) == 0);
    vk_lease_file_free(file);
    cc_arena_done(&arena);
    return 0;
}
