/* Work that a restart left unfinished: contract/07 14.3, decision 48. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"

#define CLASSIFY_FIRST_DELAY_MS 1000
#define CLASSIFY_LONGEST_DELAY_MS 30000
#define CLASSIFY_BUDGET_MS ((int64_t)30 * 60 * 1000)

/* --- the choice: pure
 * ---------------------------------------------------------------------------------------------------- */

enum vk_resume vk_resume_choose(const struct cc_pod *pod, const struct vk_vm *vm) {
    const struct cc_strmap *annotations = &pod->base.meta.annotations;
    const char *state = cc_strmap_text(annotations, CC_KEY_LIFECYCLE_STATE);
    const char *mark = cc_strmap_text(annotations, CC_KEY_POST_CLONE_STATE);
    struct cc_vm_spec spec;

    cc_vm_spec_parse(annotations, &spec);
    if (cc_object_is_deleting(&pod->base.meta) || !spec.managed || vk_is_macos_guest(&spec) || cc_pod_is_failed(pod) ||
        cc_text_equal(pod->phase, "Succeeded"))
        return VK_RESUME_NONE;
    if (cc_flag_is_set(annotations, CC_KEY_HIBERNATE))
        return VK_RESUME_HIBERNATE;
    /* The wish to sleep was withdrawn while the daemon was away and the VM still lives: back to ready. */
    if (cc_text_equal(state, CC_STATE_HIBERNATING) || cc_text_equal(state, CC_STATE_HIBERNATED))
        return VK_RESUME_READY_WAIT;
    /* So was that of a hibernate that failed, unless the failure was of a fixup. A pin or a CocoonHibernation that was
     * taken back raises no generation of the set. */
    if (cc_text_equal(state, CC_STATE_FAILED) && (cc_text_is_empty(mark) || cc_text_equal(mark, "done")) &&
        cc_strmap_has(annotations, CC_KEY_GENERATION) &&
        cc_generation_of(annotations, CC_KEY_LIFECYCLE_GENERATION) <= cc_generation_of(annotations, CC_KEY_GENERATION))
        return VK_RESUME_READY_WAIT;
    /* No state at all is unfinished too: a VM adopted by name whose pod never got `creating` written, since the daemon
     * or the API server went away first. Nobody else would ever make it ready. */
    if (!cc_text_equal(state, CC_STATE_CREATING) && !cc_text_is_empty(state))
        return VK_RESUME_NONE;
    if (cc_text_equal(mark, "failed"))
        return VK_RESUME_NONE;
    if (cc_text_equal(mark, "running"))
        return VK_RESUME_POST_CLONE;
    if (cc_text_equal(mark, "done"))
        return VK_RESUME_READY_WAIT;
    if (vk_needs_nic_drop(&spec))
        return VK_RESUME_CLASSIFY;
    return vk_post_clone_is_needed(&spec, vm) && !cc_text_equal_fold(spec.mode, "run") ? VK_RESUME_POST_CLONE
                                                                                       : VK_RESUME_READY_WAIT;
}

const char *vk_resume_name(enum vk_resume resume) {
    switch (resume) {
    case VK_RESUME_NONE:
        return "";
    case VK_RESUME_HIBERNATE:
        return "hibernate";
    case VK_RESUME_POST_CLONE:
        return "post_clone";
    case VK_RESUME_READY_WAIT:
        return "ready_wait";
    case VK_RESUME_CLASSIFY:
        return "classify_drop_nic";
    }
    return "";
}

/* --- doing it
 * -------------------------------------------------------------------------------------------------------------- */

struct resumption {
    struct vk_job *job;
    enum vk_resume resume;
    bool had_id;
};

static void resumption_free(void *argument) {
    struct resumption *resumption = argument;

    resumption->job->entry->resumed = NULL;
    vk_job_free(resumption->job);
    free(resumption);
}

static void resume_hibernate(struct resumption *resumption) {
    struct vk_job *job = resumption->job;
    struct vk_provider *provider = job->provider;
    struct vk_entry *entry = job->entry;
    const char *reason = "ResumeStartFailed";
    bool is_finish = false;
    struct cc_err err = {0};
    int rc = vk_hibernate_prepare(provider, entry, resumption->had_id, true, &is_finish, &err);

    if (rc != 0 && rc != CC_CANCELED && vk_job_is_current(job)) {
        const struct cc_pod *pod = cc_pod_ref(entry->pod);

        vk_event_warn(provider, pod, reason, "reconcile: %s", err.msg);
        vk_lifecycle_publish(provider, entry, pod, CC_STATE_FAILED, err.msg);
        /* Once the wish to sleep is taken back the VM is as good as before, as after any hibernate that failed: unless
         * it is one whose remove had begun. */
        entry->unjudged = vk_job_is_current(job);
        vk_retry_owe(provider, entry);
        cc_pod_unref(pod);
    }
    if (rc != 0 || !vk_entry_is(entry, job->uid))
        return;
    if (!entry->vm) {
        vk_update_dispatch(provider, entry, false); /* it vanished: decision 48 */
        return;
    }
    if (!is_finish) {
        entry->endpoint_hidden = false;
        vk_endpoint_sync(provider, entry);
    }
    rc = is_finish ? vk_hibernate_finish(provider, entry, &reason, &err) : vk_hibernate(provider, entry, &reason, &err);
    if (rc != 0)
        vk_update_failed(provider, entry, job->uid, reason, false, &err);
    else if (vk_entry_is(entry, job->uid) && entry->vm)
        vk_update_dispatch(provider, entry, false); /* spared, since it came up again */
    vk_refresh(provider, entry);
}

/* A windows clone that may be a fresh one (fixup) or a restore (none): only the evidence tells. */
static void resume_classify(struct resumption *resumption) {
    struct vk_job *job = resumption->job;
    struct vk_provider *provider = job->provider;
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), CLASSIFY_BUDGET_MS);
    int64_t delay_ms = CLASSIFY_FIRST_DELAY_MS;
    struct vk_evidence evidence = {.kind = VK_EVIDENCE_UNAVAILABLE};
    struct cc_arena arena = {0};

    for (;;) {
        {
            CC_DEADLINE_MS(cc_mono_diff_ms(end, cc_now_mono()) + 1);
            vk_evidence_lookup(provider, vk_entry_annotation(job->entry, CC_KEY_VM_NAME), &arena, &evidence);
        }
        if (evidence.kind != VK_EVIDENCE_UNAVAILABLE || cc_fiber_is_canceled() || !vk_job_is_current(job) ||
            !cc_mono_is_before(cc_now_mono(), end) || cc_sleep_ms(delay_ms, NULL) != 0)
            break;
        delay_ms = delay_ms * 2 > CLASSIFY_LONGEST_DELAY_MS ? CLASSIFY_LONGEST_DELAY_MS : delay_ms * 2;
    }
    cc_arena_done(&arena);
    if (cc_fiber_is_canceled() || !vk_job_is_current(job))
        return;
    switch (evidence.kind) {
    case VK_EVIDENCE_FOUND:
        job->is_wake = true;
        vk_ready_wait(job);
        return;
    case VK_EVIDENCE_NONE:
        vk_post_clone(job, "");
        return;
    case VK_EVIDENCE_UNAVAILABLE:
        break;
    }
    const struct cc_pod *pod = cc_pod_ref(job->entry->pod);

    vk_event_warn(provider, pod, "ResumeClassifyFailed", "reconcile: %s", evidence.error.msg);
    vk_lifecycle_publish(provider, job->entry, pod, CC_STATE_FAILED, evidence.error.msg);
    cc_pod_unref(pod);
}

static void resume_ready_wait(struct vk_job *job) {
    /* After a withdrawn hibernate the state is still of that; ready must follow creating. */
    if (vk_job_is_current(job) && !cc_text_equal(vk_entry_state(job->entry), CC_STATE_CREATING)) {
        const struct cc_pod *pod = cc_pod_ref(job->entry->pod);

        vk_lifecycle_publish(job->provider, job->entry, pod, CC_STATE_CREATING, "");
        cc_pod_unref(pod);
    }
    vk_nic_make_sure(job);
    /* The mark `done` is written before the addresses are set (14.3). */
    if (vk_static_address_set(job))
        vk_ready_wait(job);
}

static void resume_run(void *argument) {
    struct resumption *resumption = argument;

    switch (resumption->resume) {
    case VK_RESUME_HIBERNATE:
        resume_hibernate(resumption);
        return;
    case VK_RESUME_POST_CLONE:
        vk_post_clone(resumption->job, "");
        return;
    case VK_RESUME_READY_WAIT:
        resume_ready_wait(resumption->job);
        return;
    case VK_RESUME_CLASSIFY:
        resume_classify(resumption);
        return;
    case VK_RESUME_NONE:
        return;
    }
}

static void start(struct vk_provider *provider, struct vk_entry *entry, enum vk_resume resume, bool had_id) {
    struct resumption *resumption = CC_NEW(struct resumption);

    *resumption = (struct resumption){vk_job_new(provider, entry, "reconcile", false), resume, had_id};
    entry->resumed = vk_resume_name(resume);
    vk_task_start(provider, "resumed operation", resume == VK_RESUME_HIBERNATE, resume_run, resumption,
                  resumption_free);
}

void vk_resume_dispatch(struct vk_provider *provider, struct vk_entry *entry, bool had_id) {
    enum vk_resume resume;

    if (!entry->pod || !entry->vm)
        return;
    resume = vk_resume_choose(entry->pod, entry->vm);
    if (resume == VK_RESUME_NONE)
        return;
    cc_log_info("resuming after restart", CC_KV("pod", entry->key), CC_KV("op", vk_resume_name(resume)));
    vk_count1(provider->metrics.startup_resume, vk_resume_name(resume));
    vk_event_normal(provider, entry->pod, "ResumedAfterRestart", "op=%s", vk_resume_name(resume));
    start(provider, entry, resume, had_id);
}

/* --- asleep, but never said so
 * ------------------------------------------------------------------------------------------------ */

static void settle_run(void *argument) {
    struct vk_job *job = argument;

    if (cc_mutex_lock(&job->entry->work, NULL) != 0)
        return;
    if (vk_entry_is(job->entry, job->uid) && !job->entry->deleting)
        vk_update_dispatch(job->provider, job->entry, false);
    cc_mutex_unlock(&job->entry->work);
}

void vk_settle_dispatch(struct vk_provider *provider, struct vk_entry *entry) {
    vk_task_start(provider, "settle hibernate", true, settle_run, vk_job_new(provider, entry, "reconcile", false),
                  vk_job_free);
}
