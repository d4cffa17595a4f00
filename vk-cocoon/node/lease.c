#include "node/lease.h"

#include "aio/fiber.h"
#include "aio/sync.h"
#include "api/node.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "obs/log.h"

struct vk_lease {
    const struct cc_kube *kube;
    char *node_name, *node_uid;
    json_t *last; /* as the server answered last, NULL = read or create first */
    struct cc_event owner_changed;
};

struct vk_lease *vk_lease_new(const struct cc_kube *kube, const char *node_name) {
    struct vk_lease *lease = CC_NEW(struct vk_lease);
    lease->kube = kube;
    lease->node_name = cc_xstrdup(node_name);
    lease->node_uid = cc_xstrdup("");
    return lease;
}

void vk_lease_free(struct vk_lease *lease) {
    if (!lease)
        return;
    json_decref(lease->last);
    free(lease->node_name);
    free(lease->node_uid);
    free(lease);
}

void vk_lease_set_owner(struct vk_lease *lease, const char *node_uid) {
    if (cc_text_equal(lease->node_uid, node_uid))
        return;
    free(lease->node_uid);
    lease->node_uid = cc_xstrdup(node_uid);
    cc_event_set(&lease->owner_changed);
}

/* --- content ------------------------------------------------------------------------------------------------------ */

static bool has_only_owner(const json_t *metadata, const char *node_uid) {
    const json_t *owners = cc_json_member(metadata, "ownerReferences");
    return json_array_size(owners) == 1 && cc_text_equal(cc_json_text(json_array_get(owners, 0), "uid"), node_uid);
}

static json_t *build_owners(const char *node_name, const char *node_uid) {
    json_t *owner = json_object();
    cc_json_set_text(owner, "apiVersion", "v1");
    cc_json_set_text(owner, "kind", "Node");
    cc_json_set_text(owner, "name", node_name);
    cc_json_set_text(owner, "uid", node_uid);
    json_t *owners = json_array();
    cc_json_append_new(owners, owner);
    return owners;
}

json_t *vk_lease_build(const json_t *have, const char *node_name, const char *node_uid, struct cc_wall now) {
    json_t *lease = have ? json_deep_copy(have) : json_object();
    if (!have) {
        cc_json_set_text(lease, "apiVersion", "coordination.k8s.io/v1");
        cc_json_set_text(lease, "kind", "Lease");
    }
    if (!cc_json_member(lease, "metadata"))
        cc_json_set_new(lease, "metadata", json_object());
    if (!cc_json_member(lease, "spec"))
        cc_json_set_new(lease, "spec", json_object());

    json_t *metadata = json_object_get(lease, "metadata");
    cc_json_set_text(metadata, "name", node_name);
    cc_json_set_text(metadata, "namespace", VK_LEASE_NAMESPACE);
    /* A Lease whose owner is gone would be collected; a recreated Node has a new uid (F15). */
    if (*node_uid && !has_only_owner(metadata, node_uid))
        cc_json_set_new(metadata, "ownerReferences", build_owners(node_name, node_uid));

    char buffer[CC_RFC3339_BYTES];
    json_t *spec = json_object_get(lease, "spec");
    cc_json_set_text(spec, "holderIdentity", node_name);
    cc_json_set_int(spec, "leaseDurationSeconds", VK_LEASE_DURATION_S);
    cc_json_set_text(spec, "renewTime", cc_rfc3339_micros(now, buffer));
    return lease;
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

static struct cc_kube_ref ref_of(const struct vk_lease *lease) {
    return (struct cc_kube_ref){
        .resource = &cc_lease_resource, .namespace = VK_LEASE_NAMESPACE, .name = lease->node_name};
}

static void keep(struct vk_lease *lease, json_t *take_answer) {
    json_decref(lease->last);
    lease->last = take_answer;
}

static int put(struct vk_lease *lease, struct cc_err *err) {
    CC_DEADLINE_MS(VK_LEASE_CALL_MS);
    struct cc_kube_ref ref = ref_of(lease);
    json_t *wanted cc_cleanup(cc_json_decref_p) =
        vk_lease_build(lease->last, lease->node_name, lease->node_uid, cc_now_wall());
    json_t *answer = NULL;
    int rc = cc_kube_update(lease->kube, &ref, wanted, &answer, err);
    if (!rc)
        keep(lease, answer);
    return rc;
}

/* Reads the Lease, or creates it (then *ret_created: a fresh one needs no renewal in this round). */
static int get_or_create(struct vk_lease *lease, bool *ret_created, struct cc_err *err) {
    CC_DEADLINE_MS(VK_LEASE_CALL_MS);
    struct cc_kube_ref ref = ref_of(lease);
    json_t *answer = NULL;
    *ret_created = false;
    int rc = cc_kube_get(lease->kube, &ref, &answer, err);
    if (rc == CC_NOT_FOUND) {
        json_t *wanted cc_cleanup(cc_json_decref_p) =
            vk_lease_build(NULL, lease->node_name, lease->node_uid, cc_now_wall());
        rc = cc_kube_create(lease->kube, &ref, wanted, &answer, err);
        *ret_created = rc == CC_OK;
    }
    if (!rc)
        keep(lease, answer);
    return rc;
}

/* Up to VK_LEASE_ATTEMPTS at once, as contract/08 2.5 asks. */
static int try_put(struct vk_lease *lease, struct cc_err *err) {
    int rc = CC_OK;
    for (int attempt = 0; attempt < VK_LEASE_ATTEMPTS; attempt++) {
        rc = put(lease, err);
        if (!rc || cc_fiber_is_canceled())
            return rc;
        if (rc == CC_CONFLICT || rc == CC_NOT_FOUND) {
            bool created = false;
            rc = get_or_create(lease, &created, err);
            if (created)
                return CC_OK;
        }
    }
    return rc;
}

int vk_lease_renew(struct vk_lease *lease, struct cc_err *err) {
    struct cc_err cause = {0};
    int rc = lease->last ? try_put(lease, &cause) : CC_NOT_FOUND;
    int64_t delay_ms = VK_LEASE_BACKOFF_MS;
    bool was_told = false;
    while (rc) {
        bool created = false;
        rc = get_or_create(lease, &created, &cause);
        if (!rc && !created)
            rc = try_put(lease, &cause);
        if (!rc)
            break;
        if (!was_told && !cc_fiber_is_canceled())
            cc_log_warn("the node lease cannot be renewed", CC_KV("node", lease->node_name), CC_KV("error", cause.msg));
        was_told = true;
        int slept = cc_sleep_ms(delay_ms, err);
        if (slept)
            return slept;
        delay_ms = delay_ms * 2 < VK_LEASE_BACKOFF_MAX_MS ? delay_ms * 2 : VK_LEASE_BACKOFF_MAX_MS;
    }
    if (was_told)
        cc_log_info("the node lease is renewed again", CC_KV("node", lease->node_name));
    return CC_OK;
}

/* Until the next renewal is due; a new owner is written at once, before the garbage collector comes for the old one. */
static int await_next(struct vk_lease *lease, struct cc_mono due, struct cc_err *err) {
    CC_DEADLINE_MS(cc_mono_diff_ms(due, cc_now_mono()));
    return cc_event_wait(&lease->owner_changed, err);
}

void vk_lease_run(struct vk_lease *lease) {
    for (;;) {
        struct cc_mono next = cc_mono_add_ms(cc_now_mono(), VK_LEASE_RENEW_MS);
        cc_event_clear(&lease->owner_changed);
        if (vk_lease_renew(lease, NULL) || await_next(lease, next, NULL) == CC_CANCELED)
            return;
    }
}
