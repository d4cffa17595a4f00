/* Lines of the event stream: an accepted one names its VM, by id or by name. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "runtime/cli_records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    while (input.at < input.end) {
        char *line cc_cleanup(cc_free_p) = fuzz_line(&input);
        const struct vk_vm *vm = NULL;
        enum vk_event_type type = (enum vk_event_type)99;
        struct cc_err err = {0};
        int rc = vk_event_parse(line, strlen(line), &type, &vm, &err);
        fuzz_require_error(rc, &err);
        fuzz_require((rc == 0) == (vm != NULL));
        if (rc != 0) {
            fuzz_require(rc == CC_PROTOCOL || rc == CC_LIMIT || rc == CC_INVALID);
            continue;
        }
        fuzz_require(type == VK_EVENT_ADDED || type == VK_EVENT_MODIFIED || type == VK_EVENT_DELETED);
        fuzz_require(*vm->id || *vm->name);
        vk_vm_unref(vm);
    }
    return 0;
}
