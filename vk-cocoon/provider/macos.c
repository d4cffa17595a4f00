/* Pods with macOS guests: contract/07 chapter 17. They can be neither saved nor hibernated, and no other path of the
 * provider touches them. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

static char *refusal_of(const struct cc_pod *pod) {
    return cc_xasprintf("macOS guest %s does not support hibernate", cc_pod_annotation(pod, CC_KEY_VM_NAME));
}

/* Failed only because a hibernate was refused. A server that did not take the text was given the state without it. */
static bool is_refused(const struct vk_entry *entry) {
    char *refusal cc_cleanup(cc_free_p) = refusal_of(entry->pod);

    return entry->intent.present && cc_text_equal(entry->intent.state, CC_STATE_FAILED) &&
           (cc_text_equal(entry->intent.message, refusal) || cc_text_is_empty(entry->intent.message));
}

static int refuse(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod, struct cc_err *err) {
    char *refusal cc_cleanup(cc_free_p) = refusal_of(pod);

    vk_count_lifecycle(provider, "update", "failed", "");
    vk_event_warn(provider, pod, "HibernateUnsupported", "update: %s", refusal);
    vk_lifecycle_publish(provider, entry, pod, CC_STATE_FAILED, refusal);
    return cc_err_set(err, CC_UNSUPPORTED, "%s", refusal);
}

/* The refusal is lifted: `ready` must follow `creating` (10.3), and comes at once when the guest answers. */
static void lift(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod) {
    vk_lifecycle_publish(provider, entry, pod, CC_STATE_CREATING, "");
    if (vk_entry_is(entry, pod->base.meta.uid))
        vk_macos_settle(provider, entry);
}

void vk_macos_settle(struct vk_provider *provider, struct vk_entry *entry) {
    const char *state = vk_entry_state(entry);

    if (entry->vm && entry->probe.ready && !entry->deleting && !vk_entry_wants_sleep(entry) &&
        !cc_text_equal(state, CC_STATE_READY) && !cc_text_equal(state, CC_STATE_FAILED)) {
        const struct cc_pod *pod = cc_pod_ref(entry->pod);

        vk_endpoint_sync(provider, entry);
        if (vk_entry_is(entry, pod->base.meta.uid) && entry->vm && entry->probe.ready)
            vk_lifecycle_publish(provider, entry, pod, CC_STATE_READY, "");
        cc_pod_unref(pod);
    }
    vk_refresh(provider, entry);
}

int vk_macos_create(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
                    struct cc_err *err) {
    const char *name = cc_pod_annotation(pod, CC_KEY_VM_NAME);
    const struct vk_vm *vm = NULL;
    bool is_adopted = false;
    int rc;

    if (!provider->options.macos.ops)
        return cc_err_set(err, CC_UNSUPPORTED, "macOS guest %s is not supported by this node", name);
    if (cc_text_is_empty(cc_pod_annotation(pod, CC_KEY_IMAGE)))
        return cc_err_set(err, CC_INVALID, "macOS guest %s has no image (%s)", name, CC_KEY_IMAGE);
    rc = vk_macos_bring_up(provider, entry, pod, &vm, &is_adopted, err);
    if (rc != 0)
        return rc;
    /* Nobody else knows it by name: the delete that waits, or the successor, finds its record. */
    if (!vk_entry_is(entry, pod->base.meta.uid) || entry->deleting) {
        vk_vm_unref(vm);
        return cc_err_set(err, CC_CONFLICT, "pod %s was superseded while macOS guest %s was made", entry->key, name);
    }
    vk_entry_bind(provider, entry, vm);
    vk_vm_unref(vm);
    vk_endpoint_publish(provider, entry);
    vk_probe_start(provider, entry);
    vk_macos_settle(provider, entry);
    vk_count_lifecycle(provider, "create", "ok", is_adopted ? "adopted" : "");
    return 0;
}

int vk_macos_update(struct vk_provider *provider, struct vk_entry *entry, struct cc_err *err) {
    const struct cc_pod *pod = cc_pod_ref(entry->pod);
    int rc = 0;

    if (vk_entry_wants_sleep(entry)) {
        rc = refuse(provider, entry, pod, err);
    } else if (entry->vm && is_refused(entry)) {
        lift(provider, entry, pod);
        vk_count_lifecycle(provider, "update", "ok", "");
    } else {
        vk_lifecycle_echo(provider, entry);
        /* It came up while it was asked to sleep: its probe has turned, and does not turn again. */
        if (vk_entry_is(entry, pod->base.meta.uid) && cc_text_equal(vk_entry_state(entry), CC_STATE_CREATING))
            vk_macos_settle(provider, entry);
        vk_count_lifecycle(provider, "update", "skipped", "noop");
    }
    cc_pod_unref(pod);
    return rc;
}

const struct vk_vm *vk_macos_find(struct vk_provider *provider, const char *vm_name, int *ret_display) {
    const struct vk_macos *macos = &provider->options.macos;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct vk_macos_record record = {0};
    struct cc_err err = {0};
    int rc = macos->ops ? macos->ops->inspect(macos->ctx, vm_name, &arena, &record, &err) : CC_NOT_FOUND;

    if (rc != 0 && rc != CC_NOT_FOUND)
        cc_log_warn("macOS guest is unknown, its create will look again", CC_KV("vm", vm_name),
                    CC_KV("error", err.msg));
    if (rc != 0 || !cc_text_equal(record.name, vm_name) || !macos->ops->is_alive(macos->ctx, record.pid))
        return NULL;
    *ret_display = record.vnc_display;
    return vk_macos_vm(provider, &record);
}

/* --- delete (17.4) ------------------------------------------------------------------------------------------------ */

/* For its leases; *ret may stay NULL. */
static void find_record(struct vk_provider *provider, struct vk_entry *entry, const char *name,
                        const struct vk_vm **ret) {
    const struct vk_macos *macos = &provider->options.macos;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct vk_macos_record record = {0};

    if (entry->vm)
        *ret = vk_vm_ref(entry->vm);
    else if (macos->ops->inspect(macos->ctx, name, &arena, &record, NULL) == 0)
        *ret = vk_macos_vm(provider, &record);
}

static int remove_guest(struct vk_provider *provider, struct vk_entry *entry, const char *name, struct cc_err *err) {
    const struct vk_macos *macos = &provider->options.macos;
    const struct vk_vm *vm = NULL;
    int rc;

    find_record(provider, entry, name, &vm);
    rc = macos->ops->remove(macos->ctx, name, err);
    if (rc != 0 && rc != CC_NOT_FOUND) {
        vk_vm_unref(vm);
        vk_count_lifecycle(provider, "delete", "failed", "");
        return cc_err_wrap(err, "remove vm qemu-%s", name);
    }
    if (vm)
        vk_leases_release(provider, vm);
    vk_vm_unref(vm);
    return 0;
}

int vk_macos_delete(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
                    struct cc_err *err) {
    const char *uid = pod->base.meta.uid;
    char *name cc_cleanup(cc_free_p) = cc_xstrdup(entry->vm ? entry->vm->name : cc_pod_annotation(pod, CC_KEY_VM_NAME));
    bool is_known = !cc_text_is_empty(name);
    int rc;

    if (!provider->options.macos.ops && !cc_text_is_empty(cc_pod_annotation(pod, CC_KEY_VM_ID)))
        return cc_err_set(err, CC_UNSUPPORTED, "macOS guest %s cannot be removed by this node", name);
    /* Its repair would start the guest again. */
    vk_probe_stop(entry);
    rc = is_known && provider->options.macos.ops ? remove_guest(provider, entry, name, err) : 0;
    if (rc != 0)
        return rc;
    if (vk_entry_is(entry, uid) || (!entry->pod && cc_text_equal(entry->intent.uid, uid)))
        vk_entry_forget(provider, entry);
    entry->vnc_port = 0;
    vk_count_lifecycle(provider, "delete", is_known ? "ok" : "skipped", is_known ? "" : "no_vm");
    vk_status_push_terminal(provider, pod, "Succeeded", "Completed", "", 0);
    return 0;
}
