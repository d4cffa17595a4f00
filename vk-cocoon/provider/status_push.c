/* Pushing the status: contract/07 11.2, contract/08 3.6. One writer a pod at a time, and the status is built under that
 * lock: what lands last is what was true last. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "obs/log.h"

static void build(struct vk_provider *provider, struct vk_entry *entry, struct vk_status *ret) {
    const char *ip = vk_address_of(provider, entry);

    vk_status_build(&(struct vk_status_input){.pod = entry->pod,
                                              .has_vm = entry->vm != NULL,
                                              .wants_sleep = vk_entry_wants_sleep(entry),
                                              .ip = ip,
                                              .lifecycle = vk_entry_state(entry),
                                              .probe_ready = entry->probe.ready,
                                              .probe_message = entry->probe.message,
                                              .before = &entry->status,
                                              .now = cc_now_wall()},
                    ret);
    entry->status = ret->times;
}

static int send(struct vk_provider *provider, const char *namespace, const char *name, const json_t *body,
                json_t **ret_answer, struct cc_err *err) {
    CC_DEADLINE_MS(VK_ANNOTATION_CALL_MS);
    return cc_kube_patch(
        provider->options.kube,
        &(struct cc_kube_ref){
            .resource = &cc_pod_resource, .namespace = namespace, .name = name, .subresource = "status"},
        CC_PATCH_STRATEGIC, body, ret_answer, err);
}

/* The server's answer is the newest version that we can know of. */
static void observe_answer(struct vk_entry *entry, const json_t *answer) {
    struct cc_object *object = NULL;

    if (!answer || cc_pod_decode(answer, &object, NULL) != 0)
        return;
    vk_entry_observe(entry, cc_pod_of(object));
    cc_object_unref(object);
}

bool vk_entry_is_over(const struct vk_entry *entry) {
    const struct cc_pod *server = entry->observed;
    return server && (cc_text_equal(server->phase, "Failed") || cc_text_equal(server->phase, "Succeeded"));
}

static int push_locked(struct vk_provider *provider, struct vk_entry *entry, bool only_if_different,
                       struct cc_err *err) {
    const char *node_ip = provider->options.node_ip;
    /* Twice at most: a foreign hostIP is removed by one patch and ours set by the next. */
    for (int round = 0; round < 2; round++) {
        json_t *body cc_cleanup(cc_json_decref_p) = NULL;
        json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
        struct vk_status status;
        int rc;

        if (!entry->pod || vk_entry_is_over(entry))
            return 0;
        build(provider, entry, &status);
        if ((only_if_different || round > 0) && !vk_status_differs(&status, entry->observed, node_ip))
            return 0;
        char *uid cc_cleanup(cc_free_p) = cc_xstrdup(entry->pod->base.meta.uid);
        bool had_foreign_host = entry->observed && !cc_text_is_empty(node_ip) &&
                                !cc_text_is_empty(entry->observed->host_ip) &&
                                !cc_text_equal(entry->observed->host_ip, node_ip);

        body = vk_status_patch(&status, uid, entry->observed, node_ip);
        rc = send(provider, entry->namespace, entry->name, body, &answer, err);
        if (rc != 0)
            return rc;
        observe_answer(entry, answer);
        if (!had_foreign_host)
            return 0;
    }
    return 0;
}

int vk_status_push(struct vk_provider *provider, struct vk_entry *entry, bool only_if_different, struct cc_err *err) {
    int rc = cc_mutex_lock(&entry->status_writes, err);

    if (rc != 0)
        return rc;
    rc = push_locked(provider, entry, only_if_different, err);
    cc_mutex_unlock(&entry->status_writes);
    return rc;
}

/* --- in the background
 * ------------------------------------------------------------------------------------------------- */

static void refresh_once(struct vk_provider *provider, struct vk_entry *entry) {
    struct cc_err err = {0};

    if (cc_semaphore_acquire(&provider->push_slots, 1, NULL) != 0)
        return;
    vk_endpoint_sync(provider, entry);
    int rc = vk_status_push(provider, entry, true, &err);

    cc_semaphore_release(&provider->push_slots, 1);
    /* A superseded write is dropped (F13); any other is repeated by the next drift pass, and told once. */
    if (rc != 0 && rc != CC_CANCELED && !cc_kube_is_superseded(&err) && !entry->status_failed_before)
        cc_log_warn("pod status could not be written, trying again later", CC_KV("pod", entry->key),
                    CC_KV("error", err.msg));
    entry->status_failed_before = rc != 0;
}

static void refresh_task(void *argument) {
    struct vk_job *job = argument;
    struct vk_entry *entry = job->entry;

    do {
        entry->refresh_again = false;
        refresh_once(job->provider, entry);
    } while (entry->refresh_again && !cc_fiber_is_canceled());
}

static void refresh_done(void *argument) {
    struct vk_job *job = argument;

    job->entry->refresh_running = false;
    vk_job_free(job);
}

void vk_refresh(struct vk_provider *provider, struct vk_entry *entry) {
    if (!entry->pod || provider->stopping)
        return;
    if (entry->refresh_running) {
        entry->refresh_again = true;
        return;
    }
    entry->refresh_running = true;
    vk_task_start(provider, "status push", false, refresh_task, vk_job_new(provider, entry, "status", false),
                  refresh_done);
}

void vk_status_push_terminal(struct vk_provider *provider, const struct cc_pod *pod, const char *phase,
                             const char *reason, const char *message, int exit_code) {
    json_t *body cc_cleanup(cc_json_decref_p) = NULL;
    char *text cc_cleanup(cc_free_p) = cc_utf8_publishable(message, CC_EVENT_MESSAGE_BYTES_MAX);
    const struct cc_object_meta *meta = &pod->base.meta;
    struct vk_status status;
    struct cc_err err = {0};

    vk_status_terminal(pod, phase, reason, text, exit_code, cc_now_wall(), &status);
    /* hostIP stays as it is: nobody reads it any more. */
    body = vk_status_patch(&status, meta->uid, NULL, "");
    if (send(provider, meta->namespace, meta->name, body, NULL, &err) != 0 && !cc_kube_is_superseded(&err))
        cc_log_warn("final pod status could not be written", CC_KV("pod", meta->name), CC_KV("phase", phase),
                    CC_KV("error", err.msg));
}

static bool is_tracked(const struct vk_entry *entry) {
    return entry->pod != NULL;
}

void vk_drift_loop(void *argument) {
    struct vk_provider *provider = argument;
    int64_t delay_ms = VK_DRIFT_FIRST_MS;

    while (cc_sleep_ms(delay_ms, NULL) == 0) {
        struct vk_entry_list list;

        vk_entries_collect(provider, is_tracked, &list);
        for (size_t i = 0; i < list.count; i++)
            vk_refresh(provider, list.items[i]);
        vk_entries_done(provider, &list);
        delay_ms = VK_DRIFT_PASS_MS;
    }
}
