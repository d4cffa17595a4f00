/* What a Windows guest's serial console says of its networks: anything, since the guest writes to that line too.
 * Numbers are each listed once, every one of them with an address. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "runtime/sac.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    struct vk_sac_nets *nets = CC_NEW(struct vk_sac_nets);
    struct fuzz_input input = fuzz_input_of(bytes, count);
    char *text = fuzz_rest(&input, NULL);

    vk_sac_nets_parse(text, nets);
    fuzz_require(nets->line_count <= VK_SAC_NETS_MAX && nets->number_count <= nets->line_count);
    for (size_t i = 0; i < nets->line_count; i++) {
        const char *ip = nets->lines[i].ip;

        fuzz_require(*ip && strlen(ip) < VK_SAC_IP_BYTES && !strpbrk(ip, " \t\r\n"));
        fuzz_require(strstr(text, ip) && vk_sac_nets_have(nets, nets->lines[i].number, ip));
    }
    for (size_t i = 0; i < nets->number_count; i++) {
        for (size_t j = 0; j < i; j++)
            fuzz_require(nets->numbers[i] != nets->numbers[j]);
    }
    free(text);
    free(nets);
    return 0;
}
