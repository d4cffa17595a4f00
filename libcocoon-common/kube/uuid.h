/* Random (version 4) UUIDs from the loop's randomness. */
#ifndef CC_KUBE_UUID_H
#define CC_KUBE_UUID_H

#include "aio/loop.h"

#define CC_UUID_BYTES 37 /* with the NUL */

/* Writes "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx"; returns ret. */
const char *cc_uuid_random(struct cc_loop *loop, char ret[CC_UUID_BYTES]);

#endif
