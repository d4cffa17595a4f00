#include "snapshots/crc32c.h"

#include <stdio.h>
#include <string.h>

#define POLYNOMIAL_REVERSED 0x82f63b78u

/* Four bits at a time: a table of 16 words that the compiler can see through, for CPUs without the instruction. */
static uint32_t nibble_step(uint32_t crc) {
    for (int bit = 0; bit < 4; bit++)
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL_REVERSED : 0);
    return crc;
}

uint32_t vk_crc32c_portable(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    uint32_t table[16];

    for (uint32_t i = 0; i < 16; i++)
        table[i] = nibble_step(i);
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= at[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t hardware(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    uint64_t sum = (uint32_t)~crc;

    for (; count >= 8; at += 8, count -= 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        sum = __builtin_ia32_crc32di(sum, word);
    }
    for (; count > 0; at++, count--)
        sum = __builtin_ia32_crc32qi((uint32_t)sum, *at);
    return ~(uint32_t)sum;
}

uint32_t vk_crc32c(uint32_t crc, const void *bytes, size_t count) {
    return __builtin_cpu_supports("sse4.2") ? hardware(crc, bytes, count) : vk_crc32c_portable(crc, bytes, count);
}
#else
uint32_t vk_crc32c(uint32_t crc, const void *bytes, size_t count) {
    return vk_crc32c_portable(crc, bytes, count);
}
#endif

void vk_crc32c_format(uint32_t crc, char ret[VK_CRC32C_TEXT_BYTES]) {
    snprintf(ret, VK_CRC32C_TEXT_BYTES, "%x", crc);
}
