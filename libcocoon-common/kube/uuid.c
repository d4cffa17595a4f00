#include "kube/uuid.h"

#include <inttypes.h>
#include <stdio.h>

const char *cc_uuid_random(struct cc_loop *loop, char ret[CC_UUID_BYTES]) {
    uint64_t high = cc_loop_random(loop);
    uint64_t low = cc_loop_random(loop);

    snprintf(ret, CC_UUID_BYTES, "%08" PRIx32 "-%04" PRIx32 "-4%03" PRIx32 "-%04" PRIx32 "-%012" PRIx64,
             (uint32_t)(high >> 32), (uint32_t)(high >> 16) & 0xffff, (uint32_t)high & 0xfff,
             ((uint32_t)(low >> 48) & 0x3fff) | 0x8000, low & UINT64_C(0xffffffffffff));
    return ret;
}
