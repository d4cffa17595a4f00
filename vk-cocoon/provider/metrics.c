/* The cocoon_vk_* families of contract/07 chapter 20 that the provider counts itself. */
#include "provider/provider_internal.h"

#include "base/text.h"

static const char *const no_labels[] = {NULL};
static const char *const op_result_reason[] = {"op", "result", "reason", NULL};
static const char *const namespace_mode_backend[] = {"namespace", "mode", "backend", NULL};
static const char *const by_result[] = {"result", NULL};
static const char *const by_namespace[] = {"namespace", NULL};
static const char *const by_verdict[] = {"verdict", NULL};
static const char *const by_outcome[] = {"outcome", NULL};
static const char *const by_op[] = {"op", NULL};
static const char *const namespace_phase_result[] = {"namespace", "phase", "result", NULL};
static const char *const namespace_result[] = {"namespace", "result", NULL};
static const char *const kind_result[] = {"kind", "result", NULL};

static const double boot_bounds[] = {0.5, 1, 2, 5, 10, 30, 60, 120, 300};
static const double save_bounds[] = {1, 2, 5, 10, 30, 60, 120};
static const double transfer_bounds[] = {1, 5, 10, 30, 60, 120, 300};
static const double peer_bounds[] = {1, 2.5, 5, 7.5, 10, 15, 30, 60, 120};
static const double attempt_bounds[] = {1, 2, 5, 10, 20, 40, 60};
static const double probe_bounds[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5};

#define HISTOGRAM(name, help, labels, bounds)                                                                          \
    cc_metrics_histogram(metrics, "cocoon_vk_" name, (help), (labels), (bounds), CC_ARRAY_LENGTH(bounds))
#define COUNTER(name, help, labels) cc_metrics_counter(metrics, "cocoon_vk_" name, (help), (labels))

static void declare_transfers(struct cc_metrics *metrics, struct vk_provider_metrics *ret) {
    ret->snapshot_save = COUNTER("snapshot_save_total", "Local snapshot saves.", by_result);
    ret->snapshot_push = COUNTER("snapshot_push_total", "Snapshot pushes to the registry.", by_result);
    ret->snapshot_pull = COUNTER("snapshot_pull_total", "Snapshots made available locally.", by_result);
    ret->save_seconds =
        HISTOGRAM("snapshot_save_duration_seconds", "Time to save a snapshot.", by_namespace, save_bounds);
    ret->push_seconds =
        HISTOGRAM("snapshot_push_duration_seconds", "Time to push a snapshot.", by_namespace, transfer_bounds);
    ret->pull_seconds =
        HISTOGRAM("snapshot_pull_duration_seconds", "Time to pull a snapshot.", no_labels, transfer_bounds);
    ret->peer_restore = COUNTER("snapshot_peer_restore_total", "Snapshots fetched from other nodes.", by_result);
    ret->peer_seconds = HISTOGRAM("snapshot_peer_restore_duration_seconds", "Time to fetch a snapshot from a node.",
                                  by_namespace, peer_bounds);
    ret->snapshot_verify = COUNTER("snapshot_verify_total", "Local snapshots compared with the registry.", by_result);
    ret->clone_from_dir = COUNTER("clone_from_dir_total", "Clones from a host directory.", by_result);
}

static void declare_transitions(struct cc_metrics *metrics, struct vk_provider_metrics *ret) {
    ret->hibernate_evidence =
        COUNTER("hibernate_evidence_total", "Verdicts on hibernated state found at create.", by_verdict);
    ret->hibernate = COUNTER("hibernate_total", "Hibernate phases.", namespace_phase_result);
    ret->wake = COUNTER("wake_total", "Wakes, at their outcome.", by_result);
    ret->wake_ip_wait = COUNTER("wake_ip_wait_total", "Waits for an address.", namespace_result);
    ret->wake_renew_nudge = COUNTER("wake_renew_nudge_total", "DHCP renewals asked for in windows guests.", by_result);
    ret->post_clone = COUNTER("postclone_total", "Guest fixups after a clone.", kind_result);
    ret->post_clone_attempts =
        HISTOGRAM("postclone_retry_attempts", "Attempts that a guest fixup took.", by_result, attempt_bounds);
}

void vk_metrics_declare(struct cc_metrics *metrics, struct vk_provider_metrics *ret) {
    ret->pod_lifecycle = COUNTER("pod_lifecycle_total", "Pod operations.", op_result_reason);
    ret->vm_boot_seconds =
        HISTOGRAM("vm_boot_duration_seconds", "Time to bring up a VM.", namespace_mode_backend, boot_bounds);
    declare_transfers(metrics, ret);
    declare_transitions(metrics, ret);
    ret->lease_release = COUNTER("lease_release_total", "DHCP leases released.", by_result);
    ret->probe_seconds =
        HISTOGRAM("probe_duration_seconds", "Time of one readiness probe.", by_namespace, probe_bounds);
    ret->vm_table_size =
        cc_metrics_gauge(metrics, "cocoon_vk_vm_table_size", "Tracked VMs of a namespace.", by_namespace);
    ret->orphan_vm = COUNTER("orphan_vm_total", "VMs without a pod found at start.", no_labels);
    ret->inspect_transient_fail =
        COUNTER("vm_inspect_transient_fail_total", "Inconclusive inspects after a VM event.", no_labels);
    ret->evict_failure = COUNTER("pod_evict_failure_total", "Evictions that the API server did not take.", no_labels);
    ret->adopt_by_name = COUNTER("reconcile_adopt_by_name_total", "VMs adopted by name at start.", no_labels);
    ret->stale_create = COUNTER("stale_create_reconcile_total", "Answers about stale creates.", by_outcome);
    ret->startup_resume = COUNTER("startup_resume_total", "Operations resumed after a restart.", by_op);
}

void vk_count1(struct cc_metric *metric, const char *label) {
    cc_metric_add(metric, 1, (const char *[]){label});
}

void vk_count2(struct cc_metric *metric, const char *first, const char *second) {
    cc_metric_add(metric, 1, (const char *[]){first, second});
}

void vk_count3(struct cc_metric *metric, const char *first, const char *second, const char *third) {
    cc_metric_add(metric, 1, (const char *[]){first, second, third});
}

void vk_count_lifecycle(struct vk_provider *provider, const char *op, const char *result, const char *reason) {
    vk_count3(provider->metrics.pod_lifecycle, op, result, reason);
}

void vk_observe_since(struct cc_metric *metric, struct cc_mono start, const char *label) {
    double seconds = (double)(cc_now_mono().ns - start.ns) / (double)CC_NS_PER_S;

    cc_metric_observe(metric, seconds, label ? (const char *[]){label} : NULL);
}

void vk_count_table(struct vk_provider *provider, const char *namespace) {
    struct vk_entry *entry, *next;
    size_t count = 0;

    HASH_ITER (hh, provider->entries, entry, next)
        count += entry->vm && cc_text_equal(entry->namespace, namespace);
    if (count == 0)
        cc_metric_remove(provider->metrics.vm_table_size, (const char *[]){namespace});
    else
        cc_metric_set(provider->metrics.vm_table_size, (double)count, (const char *[]){namespace});
}
