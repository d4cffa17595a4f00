/* CRC-32C (Castagnoli), which guards the transport between peers: contract/05 13.2. Pure. */
#ifndef VK_SNAPSHOTS_CRC32C_H
#define VK_SNAPSHOTS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc: 0 at the start, then the last result. Uses the CPU's instruction where there is one. */
uint32_t vk_crc32c(uint32_t crc, const void *bytes, size_t count);
/* The portable form, for tests. */
uint32_t vk_crc32c_portable(uint32_t crc, const void *bytes, size_t count);

#define VK_CRC32C_TEXT_BYTES 9
/* Lower-case hex without leading zeros, as in the trailer. */
void vk_crc32c_format(uint32_t crc, char ret[VK_CRC32C_TEXT_BYTES]);

#endif
