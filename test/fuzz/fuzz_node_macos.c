/* What cocoon-macos prints about a guest. A record that is accepted has a name, and its numbers are within what the
 * provider counts with. */
#include <stdlib.h>

#include "base/text.h"
#include "fuzz/fuzz.h"
#include "runtime/macos.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    struct cc_arena arena = {0};
    struct vk_macos_record record = {0};
    struct cc_err err = {0};
    struct fuzz_input input = fuzz_input_of(bytes, count);
    char *text = fuzz_rest(&input, NULL);
    int rc = vk_macos_record_parse(text, count, &arena, &record, &err);

    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 || rc == CC_PROTOCOL || rc == CC_LIMIT);
    if (rc == 0) {
        const char *const texts[] = {record.name, record.image, record.mac, record.tap, record.disk};

        for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++)
            fuzz_require(texts[i]);
        fuzz_require(*record.name && record.pid >= 0 && record.pid <= INT32_MAX);
        fuzz_require(record.vnc_display >= VK_MACOS_VNC_OFF && record.vnc_display <= 65535);
    } else {
        fuzz_require(!record.name);
    }
    free(text);
    cc_arena_done(&arena);
    return 0;
}
