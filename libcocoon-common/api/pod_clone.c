/* A deep copy that takes no more room than it must: arrays of the right length, shared words. It is also how a freshly
 * decoded pod gets compact. One that only held on to its original would chain the past of a pod together, since copies
 * of copies are what a node keeps. */
#include <string.h>

#include "api/decode_internal.h"
#include "api/pod.h"
#include "base/alloc.h"

static void copy_text(const char **text, struct cc_arena *arena) {
    *text = cc_api_text_of(*text, arena);
}

static void *copy_array(const void *items, size_t count, size_t item_bytes, struct cc_arena *arena) {
    if (count == 0)
        return NULL;
    return memcpy(cc_arena_alloc(arena, count * item_bytes), items, count * item_bytes);
}

static void copy_resource_list(struct cc_resource_list *list, struct cc_arena *arena) {
    list->items = copy_array(list->items, list->count, sizeof *list->items, arena);
    for (size_t i = 0; i < list->count; i++) {
        copy_text(&list->items[i].name, arena);
        copy_text(&list->items[i].quantity, arena);
    }
}

static void copy_meta(struct cc_object_meta *meta, const struct cc_object_meta *from, struct cc_arena *arena) {
    copy_text(&meta->name, arena);
    copy_text(&meta->namespace, arena);
    copy_text(&meta->uid, arena);
    copy_text(&meta->resource_version, arena);
    cc_api_strmap_copy(&meta->labels, arena, &from->labels);
    cc_api_strmap_copy(&meta->annotations, arena, &from->annotations);
    cc_strlist_copy(&meta->finalizers, arena, &from->finalizers);
    meta->owners = copy_array(from->owners, from->owner_count, sizeof *from->owners, arena);
    for (size_t i = 0; i < meta->owner_count; i++) {
        copy_text(&meta->owners[i].api_version, arena);
        copy_text(&meta->owners[i].kind, arena);
        copy_text(&meta->owners[i].name, arena);
        copy_text(&meta->owners[i].uid, arena);
    }
}

static void copy_spec(struct cc_pod *pod, const struct cc_pod *from, struct cc_arena *arena) {
    copy_text(&pod->node_name, arena);
    copy_text(&pod->service_account, arena);
    copy_text(&pod->restart_policy, arena);
    cc_api_strmap_copy(&pod->node_selector, arena, &from->node_selector);
    pod->tolerations = copy_array(from->tolerations, from->toleration_count, sizeof *from->tolerations, arena);
    for (size_t i = 0; i < pod->toleration_count; i++) {
        copy_text(&pod->tolerations[i].key, arena);
        copy_text(&pod->tolerations[i].operator_, arena);
        copy_text(&pod->tolerations[i].value, arena);
        copy_text(&pod->tolerations[i].effect, arena);
    }
    pod->containers = copy_array(from->containers, from->container_count, sizeof *from->containers, arena);
    for (size_t i = 0; i < pod->container_count; i++) {
        copy_text(&pod->containers[i].name, arena);
        copy_text(&pod->containers[i].image, arena);
        copy_text(&pod->containers[i].env_from, arena);
        copy_resource_list(&pod->containers[i].resources.limits, arena);
        copy_resource_list(&pod->containers[i].resources.requests, arena);
    }
    pod->required_hostnames =
        copy_array(from->required_hostnames, from->required_hostname_count, sizeof *from->required_hostnames, arena);
    for (size_t i = 0; i < pod->required_hostname_count; i++)
        cc_strlist_copy(&pod->required_hostnames[i], arena, &from->required_hostnames[i]);
}

static void copy_status(struct cc_pod *pod, const struct cc_pod *from, struct cc_arena *arena) {
    copy_text(&pod->phase, arena);
    copy_text(&pod->reason, arena);
    copy_text(&pod->message, arena);
    copy_text(&pod->pod_ip, arena);
    copy_text(&pod->host_ip, arena);
    pod->conditions = copy_array(from->conditions, from->condition_count, sizeof *from->conditions, arena);
    for (size_t i = 0; i < pod->condition_count; i++) {
        copy_text(&pod->conditions[i].type, arena);
        copy_text(&pod->conditions[i].status, arena);
        copy_text(&pod->conditions[i].reason, arena);
        copy_text(&pod->conditions[i].message, arena);
    }
    pod->container_statuses =
        copy_array(from->container_statuses, from->container_status_count, sizeof *from->container_statuses, arena);
    for (size_t i = 0; i < pod->container_status_count; i++) {
        copy_text(&pod->container_statuses[i].name, arena);
        copy_text(&pod->container_statuses[i].reason, arena);
        copy_text(&pod->container_statuses[i].message, arena);
    }
}

struct cc_pod *cc_pod_clone(const struct cc_pod *pod) {
    struct cc_pod *clone = CC_NEW(struct cc_pod);

    *clone = *pod;
    cc_arena_init(&clone->base.arena);
    clone->base.references = 1;
    clone->base.destroy = NULL;
    copy_meta(&clone->base.meta, &pod->base.meta, &clone->base.arena);
    copy_spec(clone, pod, &clone->base.arena);
    copy_status(clone, pod, &clone->base.arena);
    return clone;
}
