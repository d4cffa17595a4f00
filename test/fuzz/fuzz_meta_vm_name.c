/* Namespace, set, toolbox or VM name, slot, one a line: a name that we build gives its slot back, and no other name
 * does. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "meta/vm_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *namespace cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *set cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *other cc_cleanup(cc_free_p) = fuzz_line(&input);
    int32_t slot = (int32_t)(fuzz_number(&input) & INT32_MAX);
    struct cc_arena arena = {0};

    const char *vm_name = cc_agent_vm_name(namespace, set, slot, &arena);
    fuzz_require(strcmp(vm_name, cc_vm_name(namespace, cc_agent_pod_name(set, slot, &arena), &arena)) == 0);
    fuzz_require(strncmp(vm_name, "vk-", 3) == 0 && cc_agent_slot(namespace, set, vm_name) == slot);

    int32_t claimed = cc_agent_slot(namespace, set, other);
    fuzz_require(claimed >= -1);
    if (claimed >= 0)
        fuzz_require(strcmp(cc_agent_vm_name(namespace, set, claimed, &arena), other) == 0);
    fuzz_require((cc_role_from_slot(claimed) == CC_ROLE_IS_TOOLBOX) == (claimed < 0));

    /* A toolbox is never taken for an agent, unless it is called like a slot. */
    const char *toolbox = cc_vm_name(namespace, cc_toolbox_pod_name(set, other, &arena), &arena);
    int32_t toolbox_slot = cc_agent_slot(namespace, set, toolbox);
    fuzz_require(toolbox_slot < 0 || strcmp(cc_arena_printf(&arena, "%d", toolbox_slot), other) == 0);
    cc_arena_done(&arena);
    return 0;
}
