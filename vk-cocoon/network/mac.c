#include "network/mac.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define MAC_BYTES 6

static int hex_digit(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)tolower((unsigned char)digit);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* bytes_a_group: 1 for aa:bb:.., 2 for aabb.ccdd... */
static bool read_groups(const char *text, char separator, size_t bytes_a_group, unsigned char ret[MAC_BYTES]) {
    for (size_t i = 0; i < MAC_BYTES; i++) {
        if (i > 0 && i % bytes_a_group == 0 && *text++ != separator)
            return false;
        int high = hex_digit(text[0]);
        int low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0)
            return false;
        ret[i] = (unsigned char)(high * 16 + low);
        text += 2;
    }
    return *text == '\0';
}

bool vk_mac_canonical(const char *text, char ret[VK_MAC_TEXT_BYTES]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[MAC_BYTES];

    if (!text ||
        (!read_groups(text, ':', 1, bytes) && !read_groups(text, '-', 1, bytes) && !read_groups(text, '.', 2, bytes)))
        return false;
    for (size_t i = 0; i < MAC_BYTES; i++) {
        ret[3 * i] = digits[bytes[i] >> 4];
        ret[3 * i + 1] = digits[bytes[i] & 15];
        ret[3 * i + 2] = i + 1 < MAC_BYTES ? ':' : '\0';
    }
    return true;
}

void vk_macs_to_release(const struct vk_vm *vm, struct cc_arena *arena, struct cc_strlist *ret) {
    if (vm->nic_count == 0 && !cc_text_is_empty(vm->mac))
        cc_strlist_add(ret, arena, vm->mac);
    for (size_t i = 0; i < vm->nic_count; i++) {
        if (vm->nics[i].is_static)
            continue;
        char *mac = cc_text_trim(vm->nics[i].mac);
        for (char *at = mac; *at; at++)
            *at = (char)tolower((unsigned char)*at);
        if (*mac)
            cc_strlist_add_unique(ret, arena, mac);
        free(mac);
    }
}
