/* What was built. CC_VERSION comes from the build; revision and time are given where packages are built. */
#ifndef OP_VERSION_H
#define OP_VERSION_H

#ifndef CC_VERSION
#define CC_VERSION "dev"
#endif
#ifndef CC_REVISION
#define CC_REVISION "unknown"
#endif
#ifndef CC_BUILD_TIME
#define CC_BUILD_TIME "unknown"
#endif

#endif
