/* The runtime annotations of a pod (id, ip) and the marks of the guest fixup: contract/07 9.2, 8.3. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/patch.h"
#include "obs/log.h"

int vk_annotations_patch(struct vk_provider *provider, const struct vk_entry *entry, const json_t *patch,
                         struct cc_err *err) {
    CC_DEADLINE_MS(VK_ANNOTATION_CALL_MS);
    /* A merge patch that carries the uid (decision 53): a newer incarnation answers 422. */
    return cc_kube_patch(
        provider->options.kube,
        &(struct cc_kube_ref){.resource = &cc_pod_resource, .namespace = entry->namespace, .name = entry->name},
        CC_PATCH_MERGE, patch, NULL, err);
}

/* Up to three tries of a patch that stays true while uid is tracked. */
static bool patch_persistently(struct vk_provider *provider, struct vk_entry *entry, const char *uid,
                               const json_t *patch, const char *what) {
    struct cc_err err = {0};
    bool done = false;

    if (cc_mutex_lock(&entry->annotation_writes, NULL) != 0)
        return false;
    for (int attempt = 0; attempt < VK_WRITE_ATTEMPTS && !done; attempt++) {
        if (attempt > 0 && cc_sleep_ms(VK_WRITE_PAUSE_MS, &err) != 0)
            break;
        if (!vk_entry_is(entry, uid))
            break;
        done = vk_annotations_patch(provider, entry, patch, &err) == 0;
        /* A 409 that does not speak of the uid is a patch that lost its races, as in lifecycle.c: whether the id went
         * is what a restart tells a VM that is down from one whose remove had begun. */
        bool is_final = cc_kube_is_superseded(&err) && (err.code != CC_CONFLICT || err.uid_mismatch);
        if (!done && (is_final || err.code == CC_CANCELED))
            break;
    }
    cc_mutex_unlock(&entry->annotation_writes);
    if (!done && err.code != 0)
        cc_log_warn("pod annotations could not be written", CC_KV("pod", entry->key), CC_KV("what", what),
                    CC_KV("error", err.msg));
    return done;
}

/* Only macOS guests have a display of ours; a port that is off now must not stay (17.3). */
static void add_vnc_port(struct vk_entry *entry, json_t *patch, struct cc_arena *arena) {
    const char *port = entry->vnc_port != 0 ? cc_arena_printf(arena, "%d", entry->vnc_port) : NULL;

    if (!vk_vm_is_macos(entry->vm))
        return;
    if (port || entry->published_vnc != 0 || !cc_text_is_empty(vk_entry_annotation(entry, CC_KEY_VNC_PORT)))
        cc_patch_annotation(patch, CC_KEY_VNC_PORT, port);
    vk_entry_annotate(entry, CC_KEY_VNC_PORT, port);
}

static void publish(struct vk_provider *provider, struct vk_entry *entry, const char *ip) {
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_annotations(entry->pod->base.meta.uid);
    const struct vk_vm *vm = vk_vm_ref(entry->vm);
    const struct cc_pod *pod = cc_pod_ref(entry->pod);
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    int vnc_port = entry->vnc_port;
    char *address cc_cleanup(cc_free_p) = cc_xstrdup(ip); /* the record may be replaced while the patch is under way */

    /* An unknown address is written as the empty text, so that an old one does not stay. */
    cc_patch_annotation(patch, CC_KEY_VM_ID, vm->id);
    cc_patch_annotation(patch, CC_KEY_IP, address);
    add_vnc_port(entry, patch, &arena);
    vk_entry_annotate(entry, CC_KEY_VM_ID, vm->id);
    vk_entry_annotate(entry, CC_KEY_IP, address);
    if (patch_persistently(provider, entry, pod->base.meta.uid, patch, "vm id and ip") &&
        vk_entry_has_vm(entry, pod->base.meta.uid, vm->id)) {
        vk_text_replace(&entry->published_id, vm->id);
        vk_text_replace(&entry->published_ip, address);
        entry->published_vnc = vnc_port;
    }
    cc_pod_unref(pod);
    vk_vm_unref(vm);
}

void vk_endpoint_publish(struct vk_provider *provider, struct vk_entry *entry) {
    if (!entry->vm || !vk_entry_is_managed(entry))
        return;
    entry->endpoint_hidden = false;
    publish(provider, entry, vk_address_of(provider, entry));
}

void vk_endpoint_sync(struct vk_provider *provider, struct vk_entry *entry) {
    const char *ip;

    if (!entry->vm && entry->endpoint_hidden && entry->published_id) /* the removal did not land */
        cc_ignore(vk_endpoint_clear(provider, entry), "the next pass tries again");
    if (!entry->vm || entry->endpoint_hidden || !vk_entry_is_managed(entry))
        return;
    ip = vk_address_of(provider, entry);
    if (entry->published_id && cc_text_equal(entry->published_id, entry->vm->id) &&
        cc_text_equal(entry->published_ip, ip) &&
        (entry->published_vnc == entry->vnc_port || !vk_vm_is_macos(entry->vm)))
        return;
    publish(provider, entry, ip);
}

bool vk_endpoint_clear(struct vk_provider *provider, struct vk_entry *entry) {
    static const char *const keys[] = {CC_KEY_VM_ID, CC_KEY_IP, CC_KEY_POST_CLONE_STATE};
    const struct cc_pod *pod;
    json_t *patch cc_cleanup(cc_json_decref_p) = NULL;
    bool done;

    if (!entry->pod)
        return false;
    pod = cc_pod_ref(entry->pod);
    patch = cc_patch_annotations(pod->base.meta.uid);
    entry->endpoint_hidden = true;
    vk_text_replace(&entry->post_clone_state, NULL);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(keys); i++) {
        cc_patch_annotation(patch, keys[i], NULL);
        vk_entry_annotate(entry, keys[i], NULL);
    }
    done = patch_persistently(provider, entry, pod->base.meta.uid, patch, "removal of vm id and ip");
    if (done && vk_entry_is(entry, pod->base.meta.uid)) {
        vk_text_replace(&entry->published_id, NULL);
        vk_text_replace(&entry->published_ip, NULL);
    }
    cc_pod_unref(pod);
    return done;
}

void vk_post_clone_mark(struct vk_provider *provider, struct vk_entry *entry, const char *uid, const char *state,
                        const char *hint, const char *errors) {
    json_t *patch cc_cleanup(cc_json_decref_p) = NULL;

    /* A failed fixup stays failed until hibernate or wake clears it (8.3). */
    if (!vk_entry_is(entry, uid) || cc_text_equal(entry->post_clone_state, "failed"))
        return;
    vk_text_replace(&entry->post_clone_state, state);
    vk_entry_annotate(entry, CC_KEY_POST_CLONE_STATE, state);
    patch = cc_patch_annotations(uid);
    cc_patch_annotation(patch, CC_KEY_POST_CLONE_STATE, state);
    if (hint)
        cc_patch_annotation(patch, CC_KEY_POST_CLONE_HINT, hint);
    if (errors)
        cc_patch_annotation(patch, CC_KEY_POST_CLONE_ERRORS, errors);
    cc_ignore(patch_persistently(provider, entry, uid, patch, "post-clone state"), "logged there");
}
