/* core/v1 Events with count aggregation: 04 B6, F05. Recording never fails the caller and never waits: a bounded queue
 * is drained by a fiber of its own. */
#ifndef CC_KUBE_EVENT_RECORDER_H
#define CC_KUBE_EVENT_RECORDER_H

#include "aio/loop.h"
#include "base/attributes.h"
#include "kube/client.h"
#include "kube/object.h"

#define CC_EVENT_MESSAGE_BYTES_MAX 1024
#define CC_EVENT_QUEUE_MAX 1000 /* then dropped, one warning a minute */
#define CC_EVENT_CACHE_MAX 4096

struct cc_event_recorder;
/* component: source.component and reportingComponent; host: source.host, may be "". Copied. kube is borrowed. */
struct cc_event_recorder *cc_event_recorder_new(struct cc_loop *loop, const struct cc_kube *kube, const char *component,
                                                const char *host);
/* Sends what is queued for at most 5 s, then drops it. NULL is fine. */
CC_YIELDS void cc_event_recorder_free(struct cc_event_recorder *recorder);

enum cc_event_type { CC_EVENT_NORMAL, CC_EVENT_WARNING };

/* What an event is about. All copied. */
struct cc_event_object {
    const struct cc_kube_resource *resource;
    const char *namespace, *name, *uid, *resource_version;
};
/* A NULL recorder is silent. The message is made publishable (decision 46) and cut. */
void cc_event_record(struct cc_event_recorder *recorder, const struct cc_event_object *object, enum cc_event_type type,
                     const char *reason, const char *format, ...) CC_PRINTF(5, 6);
/* Tests and simulators: called for every recorded event, before correlation. */
void cc_event_recorder_set_tap(struct cc_event_recorder *recorder,
                               void (*tap)(void *ctx, const struct cc_event_object *object, enum cc_event_type type,
                                           const char *reason, const char *message),
                               void *ctx);

#endif
