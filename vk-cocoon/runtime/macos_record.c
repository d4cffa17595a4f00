/* What cocoon-macos prints about a guest: contract/06 10.2. */
#include "runtime/macos.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/text.h"

#define VNC_DISPLAY_MAX 65535

int vk_macos_record_parse(const char *bytes, size_t count, struct cc_arena *arena, struct vk_macos_record *ret,
                          struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(bytes, count, VK_MACOS_RECORD_BYTES_MAX, &root, err);

    if (rc != 0)
        return rc;
    if (!json_is_object(root))
        return cc_err_set(err, CC_PROTOCOL, "not a JSON object");
    char *name = cc_text_trim(cc_text_or(cc_json_text(root, "name"), ""));
    bool has_name = *name != '\0';

    free(name);
    if (!has_name)
        return cc_err_set(err, CC_PROTOCOL, "record has no name");
    int64_t pid = cc_json_int(root, "pid", 0), display = cc_json_int(root, "vnc", VK_MACOS_VNC_OFF);

    *ret = (struct vk_macos_record){
        .name = cc_json_text_dup(root, "name", arena),
        .image = cc_json_text_dup(root, "image", arena),
        .mac = cc_json_text_dup(root, "mac", arena),
        .tap = cc_json_text_dup(root, "tap", arena),
        .disk = cc_json_text_dup(root, "disk", arena),
        .pid = pid > 0 && pid <= INT32_MAX ? pid : 0,
        .vnc_display = display >= 0 && display <= VNC_DISPLAY_MAX ? (int)display : VK_MACOS_VNC_OFF,
    };
    return 0;
}
