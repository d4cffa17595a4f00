#include "base/version.h"

#include <string.h>
#include <sys/utsname.h>

#include "base/alloc.h"

#ifndef CC_VERSION
#define CC_VERSION "unknown"
#endif
#ifndef CC_REVISION
#define CC_REVISION "unknown"
#endif
#ifndef CC_BUILD_TIME
#define CC_BUILD_TIME "unknown"
#endif

const char *cc_version(void) {
    return CC_VERSION;
}

const char *cc_revision(void) {
    return CC_REVISION;
}

const char *cc_build_time(void) {
    return CC_BUILD_TIME;
}

char *cc_user_agent_new(const char *program) {
    struct utsname host;
    const char *machine = uname(&host) == 0 ? host.machine : "unknown";
    if (strcmp(machine, "x86_64") == 0)
        machine = "amd64";
    else if (strcmp(machine, "aarch64") == 0)
        machine = "arm64";
    return cc_xasprintf("%s/%s (linux/%s)", program, cc_version(), machine);
}
