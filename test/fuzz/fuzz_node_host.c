/* Texts and packets that the host gives: /proc/meminfo, a size of a pod as a flag, and packets from a raw ICMP socket.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "network/icmp.h"
#include "node/capacity.h"
#include "runtime/resources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    struct vk_host_facts facts = {0};
    vk_meminfo_parse(text, &facts);
    fuzz_require(facts.memory_bytes >= 0 && facts.hugepages_total >= 0 && facts.hugepage_bytes >= 0);

    struct cc_arena arena = {0};
    const char *flag = vk_size_flag(text, &arena);
    fuzz_require(strcmp(flag, vk_size_flag(flag, &arena)) == 0);
    cc_arena_done(&arena);

    const struct in_addr here = {0x0100007f}, there = {0x0200007f};
    bool is_reply = vk_icmp_is_reply(data, size, 0x1234, here, here);
    fuzz_require(!is_reply || size >= 28);
    fuzz_require(!vk_icmp_is_reply(data, size, 0x1234, here, there));
    fuzz_require(!(is_reply && vk_icmp_is_reply(data, size, 0x4321, here, here)));
    return 0;
}
