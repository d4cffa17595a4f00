#include "kubelet/upgrade.h"

#include <string.h>

#include "base/text.h"

/* The next value between commas, without blanks. False at the end. */
static bool next_value(const char **at, const char **ret, size_t *ret_bytes) {
    *at += strspn(*at, " \t,");
    if (!**at)
        return false;
    *ret = *at;
    *ret_bytes = strcspn(*at, ",");
    *at += *ret_bytes;
    while (*ret_bytes > 0 && strchr(" \t", (*ret)[*ret_bytes - 1]))
        (*ret_bytes)--;
    return true;
}

bool vk_upgrade_asks_for(const struct cc_http_server_request *request, const char *protocol) {
    static const char *const tokens[] = {"upgrade", NULL};
    bool any;
    return vk_upgrade_choose(request, "Connection", tokens, &any) &&
           cc_text_equal_fold(cc_http_server_header(request, "Upgrade"), protocol);
}

const char *vk_upgrade_choose(const struct cc_http_server_request *request, const char *header,
                              const char *const *supported, bool *ret_any) {
    const char *line;
    *ret_any = false;
    for (size_t k = 0; (line = cc_http_server_header_at(request, header, k)); k++) {
        const char *value;
        size_t bytes;
        while (next_value(&line, &value, &bytes)) {
            *ret_any = true;
            for (size_t i = 0; supported[i]; i++)
                if (strlen(supported[i]) == bytes && strncasecmp(supported[i], value, bytes) == 0)
                    return supported[i];
        }
    }
    return NULL;
}
