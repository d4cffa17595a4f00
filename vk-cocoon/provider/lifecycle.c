/* The lifecycle triple: contract/07 chapter 10, contract/02 chapter 8. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/patch.h"
#include "obs/log.h"

const char *vk_entry_state(const struct vk_entry *entry) {
    if (entry->intent.present && (!entry->pod || vk_entry_is(entry, entry->intent.uid)))
        return entry->intent.state;
    return vk_entry_annotation(entry, CC_KEY_LIFECYCLE_STATE);
}

static struct cc_lifecycle lifecycle_of(const struct vk_intent *intent) {
    return (struct cc_lifecycle){intent->state, intent->generation, intent->message};
}

/* contract/07 10.3 */
static bool is_accepted(const struct vk_entry *entry, const char *uid, int64_t generation, const char *state) {
    const struct vk_intent *intent = &entry->intent;

    if (entry->pod && !vk_entry_is(entry, uid))
        return false;
    if (!entry->pod && !(intent->present && cc_text_equal(intent->uid, uid)))
        return false;
    if (!intent->present || !cc_text_equal(intent->uid, uid))
        return true;
    if (generation < intent->generation)
        return false;
    if (generation > intent->generation || !cc_text_equal(intent->state, CC_STATE_FAILED))
        return true;
    return cc_text_equal(state, CC_STATE_FAILED) || cc_text_equal(state, CC_STATE_CREATING) ||
           cc_text_equal(state, CC_STATE_HIBERNATING);
}

bool vk_lifecycle_stage(struct vk_entry *entry, const char *uid, int64_t generation, const char *state,
                        const char *message) {
    struct vk_intent *intent = &entry->intent;
    char *text;

    if (vk_entry_is(entry, uid)) {
        int64_t tracked = cc_generation_of(&entry->pod->base.meta.annotations, CC_KEY_GENERATION);

        generation = tracked > generation ? tracked : generation;
    }
    if (!is_accepted(entry, uid, generation, state)) {
        cc_log_debug("lifecycle state dropped", CC_KV("pod", entry->key), CC_KV("state", state));
        return false;
    }
    text = cc_utf8_publishable(message ? message : "", VK_LIFECYCLE_MESSAGE_BYTES);
    vk_text_replace(&intent->uid, uid);
    vk_text_replace(&intent->state, state);
    free(intent->message);
    intent->message = text;
    intent->generation = generation;
    intent->present = true;
    intent->flushed = intent->status_done = false;
    intent->serial++;
    if (!cc_text_equal(state, CC_STATE_FAILED))
        entry->hibernate_failed = entry->inspect_timed_out = false;
    entry->wait_abandoned = false;
    if (vk_entry_is(entry, uid)) {
        struct cc_pod *copy = vk_entry_edit(entry);
        struct cc_lifecycle lifecycle = lifecycle_of(intent);

        cc_lifecycle_apply(&lifecycle, &copy->base.meta.annotations, &copy->base.arena);
    }
    return true;
}

/* One patch of the three keys. A message that the server refuses must not keep the state away (decision 46). */
static int write_intent(struct vk_provider *provider, struct vk_entry *entry, struct cc_err *err) {
    struct cc_lifecycle lifecycle = lifecycle_of(&entry->intent);
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_annotations(entry->intent.uid);
    int rc;

    cc_lifecycle_patch(&lifecycle, patch);
    rc = vk_annotations_patch(provider, entry, patch, err);
    if (rc != CC_INVALID || err->uid_mismatch || cc_text_is_empty(entry->intent.message))
        return rc;
    cc_log_warn("lifecycle message refused, publishing the state without it", CC_KV("pod", entry->key),
                CC_KV("error", err->msg));
    vk_text_replace(&entry->intent.message, "");
    lifecycle = lifecycle_of(&entry->intent);
    json_decref(patch);
    patch = cc_patch_annotations(entry->intent.uid);
    cc_lifecycle_patch(&lifecycle, patch);
    return vk_annotations_patch(provider, entry, patch, err);
}

/* 10.4: the status that carries Ready=True lands before the annotation. */
static bool push_ready_status(struct vk_provider *provider, struct vk_entry *entry, uint64_t serial) {
    struct cc_err err = {0};

    for (int attempt = 0; attempt < VK_WRITE_ATTEMPTS; attempt++) {
        if (attempt > 0 && cc_sleep_ms(VK_WRITE_PAUSE_MS, &err) != 0)
            return false;
        /* Of a pod that is over no status is written, so nothing of ready may be seen either. */
        if (entry->intent.serial != serial || !entry->pod || vk_entry_is_over(entry))
            return false;
        if (vk_status_push(provider, entry, false, &err) == 0) {
            if (entry->intent.serial == serial)
                entry->intent.status_done = true;
            return entry->intent.serial == serial;
        }
        if (err.code == CC_CANCELED)
            return false;
    }
    cc_log_warn("status before ready could not be written, trying again later", CC_KV("pod", entry->key),
                CC_KV("error", err.msg));
    return false;
}

static bool flush_locked(struct vk_provider *provider, struct vk_entry *entry, uint64_t serial) {
    struct cc_err err = {0};

    for (int attempt = 0; attempt < VK_WRITE_ATTEMPTS; attempt++) {
        if (attempt > 0 && cc_sleep_ms(VK_WRITE_PAUSE_MS, &err) != 0)
            return false;
        if (entry->intent.serial != serial || entry->intent.flushed)
            return entry->intent.serial == serial;
        int rc = write_intent(provider, entry, &err);

        if (rc == 0) {
            if (entry->intent.serial == serial)
                entry->intent.flushed = true;
            return true;
        }
        /* A 409 that does not speak of the uid may also be a patch that lost its races: the state is not given up for
         * it. */
        if (cc_kube_is_superseded(&err) && (err.code != CC_CONFLICT || err.uid_mismatch)) {
            if (entry->intent.serial == serial)
                vk_intent_drop(&entry->intent);
            return false;
        }
        if (rc == CC_CANCELED)
            return false;
    }
    cc_log_warn("lifecycle state could not be written, trying again later", CC_KV("pod", entry->key),
                CC_KV("error", err.msg));
    return false;
}

bool vk_lifecycle_flush(struct vk_provider *provider, struct vk_entry *entry) {
    uint64_t serial = entry->intent.serial;
    bool done;

    if (!entry->intent.present || entry->intent.flushed)
        return true;
    if (cc_text_equal(entry->intent.state, CC_STATE_READY) && !entry->intent.status_done &&
        !push_ready_status(provider, entry, serial))
        return false;
    if (cc_mutex_lock(&entry->annotation_writes, NULL) != 0)
        return false;
    done = flush_locked(provider, entry, serial);
    cc_mutex_unlock(&entry->annotation_writes);
    return done;
}

void vk_lifecycle_publish(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *pod,
                          const char *state, const char *message) {
    int64_t generation = cc_generation_of(&pod->base.meta.annotations, CC_KEY_GENERATION);

    if (vk_lifecycle_stage(entry, pod->base.meta.uid, generation, state, message))
        cc_ignore(vk_lifecycle_flush(provider, entry), "the 15 s loop repeats what did not land");
    vk_refresh(provider, entry);
}

void vk_lifecycle_echo(struct vk_provider *provider, struct vk_entry *entry) {
    struct vk_intent *intent = &entry->intent;
    bool was_flushed = intent->flushed;
    int64_t generation;

    if (!intent->present || !vk_entry_is(entry, intent->uid))
        return;
    generation = cc_generation_of(&entry->pod->base.meta.annotations, CC_KEY_GENERATION);
    if (generation <= intent->generation)
        return;
    char *uid cc_cleanup(cc_free_p) = cc_xstrdup(intent->uid);
    char *state cc_cleanup(cc_free_p) = cc_xstrdup(intent->state);
    char *message cc_cleanup(cc_free_p) = cc_xstrdup(intent->message);
    bool hibernate_failed = entry->hibernate_failed, inspect_timed_out = entry->inspect_timed_out;
    bool wait_abandoned = entry->wait_abandoned;

    if (!vk_lifecycle_stage(entry, uid, generation, state, message))
        return;
    entry->hibernate_failed = hibernate_failed;
    entry->inspect_timed_out = inspect_timed_out;
    entry->wait_abandoned = wait_abandoned;
    /* Ready=True is there since the last generation: an echo is one annotation patch (10.5). */
    intent->status_done = was_flushed;
    cc_ignore(vk_lifecycle_flush(provider, entry), "the 15 s loop repeats what did not land");
}

void vk_lifecycle_seed(struct vk_entry *entry) {
    struct vk_intent *intent = &entry->intent;
    struct cc_lifecycle lifecycle;

    cc_lifecycle_parse(&entry->pod->base.meta.annotations, &lifecycle);
    if (cc_text_is_empty(lifecycle.state))
        return;
    vk_text_replace(&intent->uid, entry->pod->base.meta.uid);
    vk_text_replace(&intent->state, lifecycle.state);
    vk_text_replace(&intent->message, lifecycle.message);
    intent->generation = lifecycle.observed_generation;
    intent->present = intent->flushed = intent->status_done = true;
    intent->serial++;
}

static bool is_unflushed(const struct vk_entry *entry) {
    return entry->intent.present && !entry->intent.flushed;
}

static int flush_one(void *argument, struct cc_err *err) {
    struct vk_job *job = argument;

    cc_ignore(err, "a failed flush is logged and repeated");
    cc_ignore(vk_lifecycle_flush(job->provider, job->entry), "the next pass repeats what did not land");
    vk_refresh(job->provider, job->entry);
    return 0;
}

static void flush_all(struct vk_provider *provider) {
    struct vk_entry_list list;
    struct cc_group group;

    vk_entries_collect(provider, is_unflushed, &list);
    struct vk_job *jobs = cc_xcalloc(list.count + 1, sizeof(struct vk_job));

    cc_group_init(&group, VK_PARALLEL);
    for (size_t i = 0; i < list.count; i++) {
        jobs[i] = (struct vk_job){.provider = provider, .entry = list.items[i]};
        cc_ignore(cc_group_go(&group, "flush lifecycle", flush_one, &jobs[i], NULL), "the next pass repeats it");
    }
    cc_ignore(cc_group_wait(&group, NULL), "a failed flush is logged and repeated");
    free(jobs);
    vk_entries_done(provider, &list);
}

void vk_lifecycle_loop(void *argument) {
    struct vk_provider *provider = argument;

    while (cc_sleep_ms(VK_LIFECYCLE_PASS_MS, NULL) == 0)
        flush_all(provider);
}
