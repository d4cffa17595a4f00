/* Events on pods: contract/07 chapter 19. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"

CC_PRINTF(5, 0)
static void record(struct vk_provider *provider, const struct cc_pod *pod, enum cc_event_type type, const char *reason,
                   const char *format, va_list arguments) {
    char *text cc_cleanup(cc_free_p) = cc_xvasprintf(format, arguments);
    char *message cc_cleanup(cc_free_p) = cc_utf8_publishable(text, VK_EVENT_MESSAGE_BYTES);
    const struct cc_object_meta *meta = &pod->base.meta;

    cc_event_record(provider->options.events,
                    &(struct cc_event_object){.resource = &cc_pod_resource,
                                              .namespace = meta->namespace,
                                              .name = meta->name,
                                              .uid = meta->uid,
                                              .resource_version = meta->resource_version},
                    type, reason, "%s", message);
}

void vk_event_warn(struct vk_provider *provider, const struct cc_pod *pod, const char *reason, const char *format,
                   ...) {
    va_list arguments;

    va_start(arguments, format);
    record(provider, pod, CC_EVENT_WARNING, reason, format, arguments);
    va_end(arguments);
}

void vk_event_normal(struct vk_provider *provider, const struct cc_pod *pod, const char *reason, const char *format,
                     ...) {
    va_list arguments;

    va_start(arguments, format);
    record(provider, pod, CC_EVENT_NORMAL, reason, format, arguments);
    va_end(arguments);
}
