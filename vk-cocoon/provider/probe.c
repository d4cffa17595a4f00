/* Readiness probes: contract/07 11.3, contract/08 6. */
#include "provider/provider_internal.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/text.h"

#define FIRST_INTERVAL_NS (100 * CC_NS_PER_MS)
#define LONGEST_INTERVAL_NS (1000 * CC_NS_PER_MS)
#define READY_INTERVAL_NS (5000 * CC_NS_PER_MS)
#define FAILURES_TO_FLIP 3
#define SSH_PORT 22

struct outcome {
    bool ready, gone;
    char message[sizeof(((struct vk_probe *)NULL)->message)];
};

static int probe_guest(struct vk_provider *provider, const char *ip, const char *port_text, struct outcome *ret,
                       struct cc_err *err) {
    const struct vk_network *network = &provider->options.network;
    int32_t port = 0;
    int rc;

    if (cc_text_is_empty(port_text)) {
        rc = network->ops->ping(network->ctx, ip, err);
        snprintf(ret->message, sizeof ret->message, rc == 0 ? "ping ok" : "ping failed: %.150s", err->msg);
        return rc;
    }
    if (!cc_parse_int32(port_text, 1, 65535, &port))
        rc = cc_err_set(err, CC_INVALID, "port must be 1..65535");
    else
        rc = network->ops->tcp_connect(network->ctx, ip, port, err);
    if (rc == 0)
        snprintf(ret->message, sizeof ret->message, "tcp ok");
    else
        snprintf(ret->message, sizeof ret->message, "tcp probe %.20s: %.150s", port_text, err->msg);
    return rc;
}

/* macOS answers no echo; the banner says that more than the port is up (contract/06 10.3). */
static int probe_ssh(struct vk_provider *provider, const char *ip, struct outcome *ret, struct cc_err *err) {
    const struct vk_network *network = &provider->options.network;
    int rc = network->ops->tcp_banner(network->ctx, ip, SSH_PORT, "SSH-", err);

    snprintf(ret->message, sizeof ret->message, rc == 0 ? "ssh ok" : "ssh probe: %.150s", err->msg);
    return rc;
}

/* False when cancelled. */
static bool probe_once(struct vk_provider *provider, struct vk_entry *entry, struct outcome *ret) {
    struct cc_mono start = cc_now_mono();
    struct cc_err err = {0};
    char ip[64];
    CC_DEADLINE_MS(VK_PROBE_MS);

    *ret = (struct outcome){0};
    if (!entry->vm) {
        ret->gone = true;
        snprintf(ret->message, sizeof ret->message, "vm gone");
        return true;
    }
    bool is_macos = vk_vm_is_macos(entry->vm);
    const char *unmet = is_macos ? vk_macos_unmet(provider, entry) : NULL;
    const char *port = vk_entry_annotation(entry, CC_KEY_PROBE_PORT);

    snprintf(ip, sizeof ip, "%s", vk_address_of(provider, entry));
    if (unmet) {
        snprintf(ret->message, sizeof ret->message, "%s", unmet);
    } else if (*ip) {
        ret->ready = (is_macos && cc_text_is_empty(port) ? probe_ssh(provider, ip, ret, &err)
                                                         : probe_guest(provider, ip, port, ret, &err)) == 0;
        if (err.code == CC_CANCELED)
            return false;
    } else {
        snprintf(ret->message, sizeof ret->message,
                 is_macos ? "waiting for guest dhcp lease" : "waiting for dhcp lease");
    }
    vk_observe_since(provider->metrics.probe_seconds, start, entry->namespace);
    return true;
}

/* Takes the result in; true when the debounced readiness flipped. */
static bool judge(struct vk_probe *probe, const struct outcome *outcome) {
    bool was_ready = probe->ready;

    if (outcome->ready) {
        probe->failures = 0;
        probe->ready = true;
        probe->interval_ns = READY_INTERVAL_NS;
    } else {
        probe->failures++;
        if (was_ready && !outcome->gone && probe->failures < FAILURES_TO_FLIP)
            return false; /* nobody sees a result that is not confirmed (08 6) */
        probe->ready = false;
        probe->interval_ns = was_ready || probe->interval_ns == 0 ? FIRST_INTERVAL_NS : probe->interval_ns * 3 / 2;
        if (probe->interval_ns > LONGEST_INTERVAL_NS)
            probe->interval_ns = LONGEST_INTERVAL_NS;
    }
    snprintf(probe->message, sizeof probe->message, "%s", outcome->message);
    return was_ready != probe->ready;
}

struct agent {
    struct vk_job *job;
    unsigned serial;
};

static void agent_free(void *argument) {
    struct agent *agent = argument;

    if (agent->job->entry->probe.serial == agent->serial)
        agent->job->entry->probe.active = false;
    vk_job_free(agent->job);
    free(agent);
}

static void agent_run(void *argument) {
    struct agent *agent = argument;
    struct vk_entry *entry = agent->job->entry;
    struct vk_probe *probe = &entry->probe;
    struct outcome outcome;

    for (;;) {
        struct cc_mono due = {cc_now_mono().ns + probe->interval_ns};

        if (cc_sleep_until(due, NULL) != 0 || probe->serial != agent->serial)
            return;
        if (!probe_once(agent->job->provider, entry, &outcome) || probe->serial != agent->serial)
            return;
        bool is_flip = judge(probe, &outcome);

        /* Ready of a macOS guest comes from its probe (17.1 step 5). */
        if (is_flip && entry->vm && vk_vm_is_macos(entry->vm))
            vk_macos_settle(agent->job->provider, entry);
        else if (is_flip)
            vk_refresh(agent->job->provider, entry);
        if (outcome.gone)
            return; /* a wake starts a new agent */
    }
}

void vk_probe_start(struct vk_provider *provider, struct vk_entry *entry) {
    struct vk_probe *probe = &entry->probe;
    struct outcome outcome;
    unsigned serial;

    if (!entry->pod || cc_object_is_deleting(&entry->pod->base.meta))
        return;
    serial = ++probe->serial;
    probe->active = true;
    probe->ready = false;
    probe->failures = 0;
    probe->interval_ns = 0;
    probe->message[0] = '\0';
    if (!probe_once(provider, entry, &outcome) || probe->serial != serial)
        return;
    cc_ignore(judge(probe, &outcome), "the first result is not a flip");
    struct agent *agent = CC_NEW(struct agent);

    agent->job = vk_job_new(provider, entry, "probe", false);
    agent->serial = serial;
    vk_task_start(provider, "probe", false, agent_run, agent, agent_free);
}

void vk_probe_stop(struct vk_entry *entry) {
    entry->probe = (struct vk_probe){.serial = entry->probe.serial + 1};
}
