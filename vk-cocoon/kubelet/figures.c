#include "kubelet/figures.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#define FILE_BYTES_MAX ((size_t)1024 * 1024)

struct vm_metrics {
    struct cc_metric *cpu, *throttled_seconds, *throttled_periods, *memory, *disk, *rx, *tx;
};
struct vk_figures {
    struct vk_figures_options options;
    const struct vk_kubelet_host *host;
    struct cc_wall started;
    struct vk_sample *sample, *exported; /* NULL before the first */
    struct cc_metrics *metrics;
    struct vm_metrics vm;
    struct cc_metric *node_cpu, *node_memory, *storage_available, *storage_total;
};

void vk_sample_unref(struct vk_sample *sample) {
    if (!sample || --sample->references > 0)
        return;
    for (size_t i = 0; i < sample->vm_count; i++) {
        cc_pod_unref(sample->vms[i].pod);
        vk_vm_unref(sample->vms[i].vm);
    }
    free(sample->vms);
    free(sample);
}

struct vk_figures *vk_figures_new(const struct vk_figures_options *options, const struct vk_kubelet_host *host,
                                  struct cc_wall now) {
    struct vk_figures *figures = CC_NEW(struct vk_figures);
    figures->options = *options;
    figures->host = host;
    figures->started = now;
    return figures;
}

struct cc_wall vk_figures_started(const struct vk_figures *figures) {
    return figures->started;
}

/* --- sampling -------------------------------------------------------------------------------------------------------
 */

/* "" when it cannot be read. The caller frees both. */
static char *read_text(char *take_path) {
    struct cc_buf text;
    cc_buf_init(&text, FILE_BYTES_MAX);
    if (cc_file_read(take_path, &text, NULL) != 0)
        cc_buf_clear(&text);
    free(take_path);
    return cc_buf_steal(&text);
}

static void read_node(const struct vk_figures *figures, struct vk_node_figures *ret) {
    struct statvfs storage;
    char *stat cc_cleanup(cc_free_p) = read_text(cc_xasprintf("%s/stat", figures->options.proc));
    char *meminfo cc_cleanup(cc_free_p) = read_text(cc_xasprintf("%s/meminfo", figures->options.proc));
    ret->cpu_seconds = vk_figures_node_seconds(stat);
    ret->memory_bytes = vk_figures_node_memory(meminfo);
    if (statvfs(figures->options.root_directory, &storage) == 0) {
        ret->storage_available_bytes = (int64_t)(storage.f_bavail * storage.f_frsize);
        ret->storage_total_bytes = (int64_t)(storage.f_blocks * storage.f_frsize);
    }
}

/* Allocated blocks: an overlay is as long as the guest's disk from its first day (decision 81). */
static int64_t overlay_bytes(const char *root, const char *id) {
    static const char *const names[] = {"cloudhypervisor/%s/overlay.qcow2", "cloudhypervisor/%s/cow.raw",
                                        "firecracker/%s/cow.raw"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        struct stat status;
        size_t stem = strcspn(names[i], "%");
        char *path cc_cleanup(cc_free_p) =
            cc_xasprintf("%s/run/%.*s%s%s", root, (int)stem, names[i], id, names[i] + stem + 2);
        if (stat(path, &status) == 0)
            return (int64_t)status.st_blocks * 512;
    }
    return 0;
}

static void read_cgroup(const struct vk_figures *figures, const struct vk_vm *vm, struct vk_vm_figures *ret) {
    const struct vk_figures_options *options = &figures->options;
    char *cpu cc_cleanup(cc_free_p) =
        read_text(cc_xasprintf("%s/%s/vm-%s.scope/cpu.stat", options->cgroups, options->cgroup_parent, vm->id));
    vk_figures_cpu_stat(cpu, ret);
    ret->disk_bytes = overlay_bytes(options->root_directory, vm->id);
}

/* A macOS guest has no slice and no overlay of cocoon's (contract/06 11.1). */
static void read_macos(const struct vk_vm *vm, const char *stat_text, struct vk_vm_figures *ret) {
    struct stat status;
    ret->cpu_seconds = vk_figures_process_seconds(stat_text);
    if (!cc_text_is_empty(vm->disk) && stat(vm->disk, &status) == 0)
        ret->disk_bytes = status.st_size;
}

static void read_vm(const struct vk_figures *figures, const struct vk_vm *vm, struct vk_vm_figures *ret) {
    const struct vk_figures_options *options = &figures->options;
    char *stat_text cc_cleanup(cc_free_p) = read_text(cc_xasprintf("%s/%lld/stat", options->proc, (long long)vm->pid));
    char *net cc_cleanup(cc_free_p) = read_text(cc_xasprintf("%s/%lld/net/dev", options->proc, (long long)vm->pid));
    if (vk_vm_is_macos(vm))
        read_macos(vm, stat_text, ret);
    else
        read_cgroup(figures, vm, ret);
    ret->memory_bytes = vk_figures_rss(stat_text, sysconf(_SC_PAGESIZE));
    vk_figures_interface(net, vm->nic_count > 0 ? vm->nics[0].tap : "", &ret->rx_bytes, &ret->tx_bytes);
}

static void read_vms(const struct vk_figures *figures, struct vk_sample *sample) {
    struct cc_object_list pods = {0};
    figures->host->ops->all_pods(figures->host->ctx, &pods);
    sample->vms = cc_xcalloc(pods.count + 1, sizeof *sample->vms);
    for (size_t i = 0; i < pods.count; i++) {
        const struct cc_object_meta *meta = &pods.items[i]->meta;
        const struct vk_vm *vm = figures->host->ops->vm(figures->host->ctx, meta->namespace, meta->name);
        if (!vm || vm->pid <= 0) {
            vk_vm_unref(vm);
            continue;
        }
        struct vk_vm_sample *entry = &sample->vms[sample->vm_count++];
        entry->pod = cc_pod_ref(cc_pod_of(pods.items[i]));
        entry->vm = vm;
        read_vm(figures, vm, &entry->figures);
    }
    cc_object_list_done(&pods);
}

struct vk_sample *vk_figures_sample(struct vk_figures *figures) {
    struct cc_mono now = cc_now_mono();
    if (!figures->sample || cc_mono_diff_ms(now, figures->sample->at) >= VK_FIGURES_SHARED_MS) {
        struct vk_sample *sample = CC_NEW(struct vk_sample);
        sample->references = 1;
        sample->at = now;
        sample->time = cc_now_wall();
        read_node(figures, &sample->node);
        read_vms(figures, sample);
        vk_sample_unref(figures->sample);
        figures->sample = sample;
    }
    figures->sample->references++;
    return figures->sample;
}

/* --- the agent's own metrics
 * ------------------------------------------------------------------------------------------ */

static void each_metric(const struct vm_metrics *metrics, const struct vk_vm_sample *vm, bool is_removal) {
    const char *const labels[] = {vm->vm->name, vm->pod->base.meta.name, vm->pod->base.meta.namespace,
                                  vm->vm->hypervisor};
    const struct vk_vm_figures *figures = &vm->figures;
    const struct {
        struct cc_metric *metric;
        double value;
    } values[] = {{metrics->cpu, figures->cpu_seconds},
                  {metrics->throttled_seconds, figures->throttled_seconds},
                  {metrics->throttled_periods, (double)figures->throttled_periods},
                  {metrics->memory, (double)figures->memory_bytes},
                  {metrics->disk, (double)figures->disk_bytes},
                  {metrics->rx, (double)figures->rx_bytes},
                  {metrics->tx, (double)figures->tx_bytes}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(values); i++) {
        /* Counters are the kernel's: a series is made anew with its whole value. */
        cc_metric_remove(values[i].metric, labels);
        if (!is_removal)
            cc_metric_add(values[i].metric, values[i].value, labels);
    }
}

static void collect(void *ctx) {
    struct vk_figures *figures = ctx;
    struct vk_sample *sample = vk_figures_sample(figures);
    /* VMs that are gone have no series. */
    for (size_t i = 0; figures->exported && i < figures->exported->vm_count; i++)
        each_metric(&figures->vm, &figures->exported->vms[i], true);
    vk_sample_unref(figures->exported);
    figures->exported = sample;
    for (size_t i = 0; i < sample->vm_count; i++)
        each_metric(&figures->vm, &sample->vms[i], false);
    static const char *const none[] = {NULL};
    cc_metric_remove(figures->node_cpu, none);
    cc_metric_add(figures->node_cpu, sample->node.cpu_seconds, none);
    cc_metric_set(figures->node_memory, (double)sample->node.memory_bytes, none);
    cc_metric_set(figures->storage_available, (double)sample->node.storage_available_bytes, none);
    cc_metric_set(figures->storage_total, (double)sample->node.storage_total_bytes, none);
}

void vk_figures_export(struct vk_figures *figures, struct cc_metrics *metrics) {
    static const char *const labels[] = {"vm", "pod", "namespace", "backend", NULL}, *const none[] = {NULL};
    figures->metrics = metrics;
    figures->vm = (struct vm_metrics){
        .cpu = cc_metrics_counter(metrics, "cocoon_vk_vm_cpu_seconds_total", "CPU time of the VM.", labels),
        .throttled_seconds = cc_metrics_counter(metrics, "cocoon_vk_vm_cpu_throttled_seconds_total",
                                                "Time the VM was throttled by its CPU quota.", labels),
        .throttled_periods = cc_metrics_counter(metrics, "cocoon_vk_vm_cpu_throttled_periods_total",
                                                "Periods in which the VM was throttled.", labels),
        .memory =
            cc_metrics_gauge(metrics, "cocoon_vk_vm_memory_rss_bytes", "Resident memory of the hypervisor.", labels),
        .disk = cc_metrics_gauge(metrics, "cocoon_vk_vm_disk_cow_bytes", "Bytes allocated by the VM's disk overlay.",
                                 labels),
        .rx = cc_metrics_counter(metrics, "cocoon_vk_vm_network_rx_bytes_total", "Bytes received on the VM's TAP.",
                                 labels),
        .tx = cc_metrics_counter(metrics, "cocoon_vk_vm_network_tx_bytes_total", "Bytes sent on the VM's TAP.", labels),
    };
    figures->node_cpu =
        cc_metrics_counter(metrics, "cocoon_vk_node_cpu_seconds_total", "CPU time used on the node.", none);
    figures->node_memory =
        cc_metrics_gauge(metrics, "cocoon_vk_node_memory_used_bytes", "Memory in use on the node.", none);
    figures->storage_available = cc_metrics_gauge(metrics, "cocoon_vk_node_storage_available_bytes",
                                                  "Free space of the root directory's file system.", none);
    figures->storage_total = cc_metrics_gauge(metrics, "cocoon_vk_node_storage_total_bytes",
                                              "Size of the root directory's file system.", none);
    cc_metrics_on_collect(metrics, collect, figures);
}

void vk_figures_free(struct vk_figures *figures) {
    if (!figures)
        return;
    if (figures->metrics)
        cc_metrics_off_collect(figures->metrics, collect, figures);
    vk_sample_unref(figures->sample);
    vk_sample_unref(figures->exported);
    free(figures);
}
