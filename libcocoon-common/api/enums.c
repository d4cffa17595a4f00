#include "api/enums.h"

#include <string.h>

#include "base/text.h"

#define ENUM_TEXTS_MAX 4

/* contract/01 5.1. The first column is the default, NULL where there is none. */
struct enum_texts {
    const char *fallback;
    const char *texts[ENUM_TEXTS_MAX];
};
static const struct enum_texts ENUMS[] = {
    [CC_ENUM_AGENT_MODE] = {"clone", {"clone", "run"}},
    [CC_ENUM_TOOLBOX_MODE] = {"run", {"run", "clone", "static"}},
    [CC_ENUM_OS] = {"linux", {"linux", "windows", "android", "macos"}},
    [CC_ENUM_SNAPSHOT_POLICY] = {"always", {"always", "main-only", "never"}},
    [CC_ENUM_HIBERNATE_POLICY] = {"retain", {"retain", "release"}},
    [CC_ENUM_BACKEND] = {"cloud-hypervisor", {"cloud-hypervisor", "firecracker"}},
    [CC_ENUM_CONN_TYPE] = {NULL, {"ssh", "rdp", "vnc", "adb"}},
    [CC_ENUM_DESIRE] = {NULL, {"Hibernate", "Wake"}},
};

bool cc_enum_is_valid(enum cc_enum which, const char *text) {
    for (size_t i = 0; i < ENUM_TEXTS_MAX && ENUMS[which].texts[i]; i++) {
        if (cc_text_equal(ENUMS[which].texts[i], text))
            return true;
    }
    return false;
}

const char *cc_enum_default(enum cc_enum which, const char *text) {
    return cc_text_or(text, cc_text_or(ENUMS[which].fallback, ""));
}
