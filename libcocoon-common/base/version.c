#include "base/version.h"

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
