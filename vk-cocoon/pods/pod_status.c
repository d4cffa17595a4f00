#include "pods/pod_status.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "meta/keys.h"

/* Runtime, lifecycle and post-clone annotations: contract/02 chapter 3. */
static const char *const own_keys[] = {
    CC_KEY_VM_ID,
    CC_KEY_IP,
    CC_KEY_VNC_PORT,
    CC_KEY_LIFECYCLE_STATE,
    CC_KEY_LIFECYCLE_GENERATION,
    CC_KEY_LIFECYCLE_MESSAGE,
    CC_KEY_POST_CLONE_HINT,
    CC_KEY_POST_CLONE_STATE,
    CC_KEY_POST_CLONE_ERRORS,
};

static bool is_own_key(const char *key) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(own_keys); i++)
        if (cc_text_equal(key, own_keys[i]))
            return true;
    return false;
}

/* Every annotation of `a` that is not ours is in `b` with the same value. */
static bool has_others_annotations(const struct cc_strmap *a, const struct cc_strmap *b) {
    for (size_t i = 0; i < a->count; i++) {
        const char *value = cc_strmap_get(b, a->items[i].key);
        if (!is_own_key(a->items[i].key) && (!value || !cc_text_equal(value, a->items[i].value)))
            return false;
    }
    return true;
}

bool vk_pod_changed_by_others(const struct cc_pod *old_pod, const struct cc_pod *new_pod) {
    const struct cc_object_meta *a = &old_pod->base.meta, *b = &new_pod->base.meta;
    if (!vk_pod_changed(old_pod, new_pod))
        return false;
    bool is_ours = cc_text_equal(a->uid, b->uid) && a->deletion.ns == b->deletion.ns &&
                   a->deletion_grace_s == b->deletion_grace_s && cc_strmap_equal(&a->labels, &b->labels) &&
                   !cc_strmap_equal(&a->annotations, &b->annotations) &&
                   has_others_annotations(&a->annotations, &b->annotations) &&
                   has_others_annotations(&b->annotations, &a->annotations);
    return !is_ours;
}

bool vk_pod_changed(const struct cc_pod *old_pod, const struct cc_pod *new_pod) {
    const struct cc_object_meta *a = &old_pod->base.meta, *b = &new_pod->base.meta;
    return old_pod->relevant_digest != new_pod->relevant_digest || a->deletion.ns != b->deletion.ns ||
           a->deletion_grace_s != b->deletion_grace_s || !cc_text_equal(a->uid, b->uid);
}

bool vk_pod_is_running(const struct cc_pod *pod) {
    for (size_t i = 0; i < pod->container_status_count; i++) {
        enum cc_container_state state = pod->container_statuses[i].state;
        if (state != CC_STATE_TERMINATED && state != CC_STATE_WAITING)
            return true;
    }
    return false;
}

bool vk_pod_is_finished(const struct cc_pod *pod) {
    return cc_text_equal(pod->phase, "Failed") || cc_text_equal(pod->phase, "Succeeded");
}

/* Body exactly {"metadata":{"uid"},"status":{...}}: pods/status would store other metadata too (contract/08 3.6.1), and
 * the uid keeps it off a successor (F13). */
static json_t *new_patch(const struct cc_pod *pod, json_t *take_status) {
    json_t *metadata = json_object();
    cc_json_set_text(metadata, "uid", pod->base.meta.uid);
    json_t *patch = json_object();
    cc_json_set_new(patch, "metadata", metadata);
    cc_json_set_new(patch, "status", take_status);
    return patch;
}

json_t *vk_pod_failure_patch(const struct cc_pod *pod, const char *message) {
    char *text cc_cleanup(cc_free_p) = cc_utf8_publishable(message, VK_STATUS_MESSAGE_BYTES_MAX);
    const char *phase = cc_text_equal(pod->restart_policy, "Never") ? "Failed" : "Pending";
    if (cc_text_equal(pod->phase, phase) && cc_text_equal(pod->reason, VK_REASON_PROVIDER_FAILED) &&
        cc_text_equal(pod->message, text))
        return NULL;
    json_t *status = json_object();
    cc_json_set_text(status, "phase", phase);
    cc_json_set_text(status, "reason", VK_REASON_PROVIDER_FAILED);
    cc_json_set_text(status, "message", text);
    return new_patch(pod, status);
}

json_t *vk_pod_recovery_patch(const struct cc_pod *pod) {
    if (!cc_text_equal(pod->reason, VK_REASON_PROVIDER_FAILED))
        return NULL;
    json_t *status = json_object();
    cc_json_set_text(status, "reason", NULL);
    cc_json_set_text(status, "message", NULL);
    return new_patch(pod, status);
}
