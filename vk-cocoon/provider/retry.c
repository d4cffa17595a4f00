/* Owed retries: contract/07 13.1, decision 33. One loop for all. */
#include "provider/provider_internal.h"

#include "obs/log.h"

#define FIRST_DELAY_MS 15000
#define LONGEST_DELAY_MS 300000
#define BUSY_DELAY_MS 500

int64_t vk_retry_delay_ms(int64_t last_ms) {
    int64_t delay_ms = last_ms == 0 ? FIRST_DELAY_MS : last_ms * 2;

    return delay_ms > LONGEST_DELAY_MS ? LONGEST_DELAY_MS : delay_ms;
}

void vk_retry_owe(struct vk_provider *provider, struct vk_entry *entry) {
    struct vk_retry *retry = &entry->retry;

    retry->delay_ms = vk_retry_delay_ms(retry->delay_ms);
    retry->due = cc_mono_add_ms(cc_loop_now_mono(provider->loop), retry->delay_ms);
    retry->owed = true;
    cc_event_set(&provider->retry_changed);
}

void vk_retry_clear(struct vk_entry *entry) {
    entry->retry = (struct vk_retry){0};
}

static void run_retry(void *argument) {
    struct vk_job *job = argument;
    struct vk_provider *provider = job->provider;
    struct vk_entry *entry = job->entry;

    if (!vk_entry_is(entry, job->uid))
        return;
    if (entry->deleting || entry->resumed || !cc_mutex_try_lock(&entry->work)) {
        /* Busy: it stays owed, unless whoever is busy has just failed and owes the next try. */
        if (!entry->retry.owed) {
            entry->retry.owed = true;
            entry->retry.due = cc_mono_add_ms(cc_now_mono(), BUSY_DELAY_MS);
            cc_event_set(&provider->retry_changed);
        }
        return;
    }
    cc_log_info("retrying a failed update", CC_KV("pod", entry->key));
    vk_update_dispatch(provider, entry, true);
    cc_mutex_unlock(&entry->work);
}

/* Starts what is due and gives the next due time. */
static struct cc_mono start_due(struct vk_provider *provider) {
    struct cc_mono now = cc_now_mono(), next_due = CC_MONO_NEVER;
    struct vk_entry *entry, *next;

    HASH_ITER (hh, provider->entries, entry, next) {
        if (!entry->retry.owed)
            continue;
        if (cc_mono_is_before(now, entry->retry.due)) {
            next_due = cc_mono_is_before(entry->retry.due, next_due) ? entry->retry.due : next_due;
            continue;
        }
        /* The delay stays for the next failure; success or a new wish clears it. */
        entry->retry.owed = false;
        vk_task_start(provider, "owed retry", true, run_retry, vk_job_new(provider, entry, "update", false),
                      vk_job_free);
    }
    return next_due;
}

static int wait_changed(struct vk_provider *provider, struct cc_mono due) {
    int64_t wait_ms = due.ns == CC_MONO_NEVER.ns ? 0 : cc_mono_diff_ms(due, cc_now_mono()) + 1;
    int rc;

    if (due.ns == CC_MONO_NEVER.ns)
        return cc_event_wait(&provider->retry_changed, NULL);
    CC_DEADLINE_MS(wait_ms);
    rc = cc_event_wait(&provider->retry_changed, NULL);
    return rc == CC_TIMEOUT ? 0 : rc;
}

void vk_retry_loop(void *argument) {
    struct vk_provider *provider = argument;

    for (;;) {
        cc_event_clear(&provider->retry_changed);
        if (wait_changed(provider, start_due(provider)) != 0)
            return;
    }
}
