/* What node and VMs use, read from /proc and cgroups. contract/08 4.8, 5.2. What cannot be read counts as 0. */
#ifndef VK_KUBELET_FIGURES_H
#define VK_KUBELET_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "kubelet/host.h"
#include "obs/metrics.h"

#define VK_FIGURES_SHARED_MS 2000 /* so long a sample serves everybody */

struct vk_figures_options {
    const char *proc, *cgroups; /* "/proc", "/sys/fs/cgroup" */
    const char *cgroup_parent;  /* COCOON_CGROUP_PARENT */
    const char *root_directory; /* COCOON_ROOT_DIR */
};

struct vk_node_figures {
    double cpu_seconds; /* without idle and iowait, guest time once */
    int64_t memory_bytes;
    int64_t storage_available_bytes, storage_total_bytes;
};
struct vk_vm_figures {
    double cpu_seconds, throttled_seconds;
    int64_t throttled_periods;
    int64_t memory_bytes, disk_bytes, rx_bytes, tx_bytes;
};
struct vk_vm_sample {
    const struct cc_pod *pod; /* references */
    const struct vk_vm *vm;
    struct vk_vm_figures figures;
};
struct vk_sample {
    unsigned references;
    struct cc_mono at;
    struct cc_wall time;
    struct vk_node_figures node;
    struct vk_vm_sample *vms; /* only those whose process is known */
    size_t vm_count;
};
void vk_sample_unref(struct vk_sample *sample); /* NULL is fine */

struct vk_figures;
/* Options and host are borrowed. */
struct vk_figures *vk_figures_new(const struct vk_figures_options *options, const struct vk_kubelet_host *host,
                                  struct cc_wall now);
void vk_figures_free(struct vk_figures *figures); /* NULL is fine */
/* A reference to the present sample; reads anew when it is older than VK_FIGURES_SHARED_MS. Small files only, and never
 * the CLI. */
struct vk_sample *vk_figures_sample(struct vk_figures *figures);
struct cc_wall vk_figures_started(const struct vk_figures *figures);
/* Declares the per-scrape families of 5.2 and fills them at each scrape. metrics must outlive figures. */
void vk_figures_export(struct vk_figures *figures, struct cc_metrics *metrics);

/* Pure; 0 for what is absent or malformed. */
int64_t vk_figures_rss(const char *stat, int64_t page_bytes);
double vk_figures_process_seconds(const char *stat); /* at 100 ticks a second */
void vk_figures_cpu_stat(const char *text, struct vk_vm_figures *ret);
void vk_figures_interface(const char *net_dev, const char *interface, int64_t *ret_rx, int64_t *ret_tx);
double vk_figures_node_seconds(const char *stat);
int64_t vk_figures_node_memory(const char *meminfo);

#endif
