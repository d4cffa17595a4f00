#include "kubelet/stats.h"

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

#define CONTAINER "agent"

/* --- summary --------------------------------------------------------------------------------------------------------
 */

static void set_time(json_t *object, const char *key, struct cc_wall time) {
    char text[CC_RFC3339_BYTES];
    cc_json_set_text(object, key, cc_rfc3339_seconds(time, text));
}

static void set_cpu_and_memory(json_t *object, struct cc_wall time, double cpu_seconds, int64_t memory_bytes) {
    json_t *cpu = json_object(), *memory = json_object();
    set_time(cpu, "time", time);
    cc_json_set_int(cpu, "usageCoreNanoSeconds", (int64_t)(cpu_seconds * 1e9));
    cc_json_set_new(object, "cpu", cpu);
    set_time(memory, "time", time);
    cc_json_set_int(memory, "workingSetBytes", memory_bytes);
    cc_json_set_new(object, "memory", memory);
}

static json_t *network_of(const struct vk_vm_sample *vm, struct cc_wall time) {
    json_t *network = json_object();
    set_time(network, "time", time);
    cc_json_set_text(network, "name", vm->vm->nics[0].tap);
    cc_json_set_int(network, "rxBytes", vm->figures.rx_bytes);
    cc_json_set_int(network, "txBytes", vm->figures.tx_bytes);
    return network;
}

static json_t *pod_summary(const struct vk_vm_sample *vm, struct cc_wall time) {
    const struct cc_object_meta *meta = &vm->pod->base.meta;
    struct cc_wall start = cc_wall_is_set(vm->pod->start_time) ? vm->pod->start_time : time;
    json_t *pod = json_object(), *reference = json_object(), *container = json_object(), *containers = json_array();
    cc_json_set_text(reference, "name", meta->name);
    cc_json_set_text(reference, "namespace", meta->namespace);
    cc_json_set_text(reference, "uid", meta->uid);
    cc_json_set_new(pod, "podRef", reference);
    set_time(pod, "startTime", start);
    cc_json_set_text(container, "name", CONTAINER);
    set_time(container, "startTime", start);
    set_cpu_and_memory(container, time, vm->figures.cpu_seconds, vm->figures.memory_bytes);
    cc_json_append_new(containers, container);
    cc_json_set_new(pod, "containers", containers);
    if (vm->figures.rx_bytes > 0 || vm->figures.tx_bytes > 0)
        cc_json_set_new(pod, "network", network_of(vm, time));
    return pod;
}

void vk_stats_summary_serve(struct vk_figures *figures, const char *node_name,
                            struct cc_http_server_response *response) {
    struct vk_sample *sample = vk_figures_sample(figures);
    json_t *summary cc_cleanup(cc_json_decref_p) = json_object();
    json_t *node = json_object(), *pods = json_array();
    cc_json_set_text(node, "nodeName", node_name);
    set_time(node, "startTime", vk_figures_started(figures));
    set_cpu_and_memory(node, sample->time, sample->node.cpu_seconds, sample->node.memory_bytes);
    cc_json_set_new(summary, "node", node);
    for (size_t i = 0; i < sample->vm_count; i++)
        cc_json_append_new(pods, pod_summary(&sample->vms[i], sample->time));
    cc_json_set_new(summary, "pods", pods);
    vk_sample_unref(sample);
    char *text cc_cleanup(cc_free_p) = cc_json_dump(summary);
    response->content_type = "application/json";
    cc_buf_puts(&response->body, text);
}

/* --- resource metrics
 * ------------------------------------------------------------------------------------------------- */

struct resource_family {
    const char *name, *help;
    bool is_counter, is_container;
    double (*value)(const struct vk_vm_sample *vm); /* negative = no sample */
};

static double cpu_of(const struct vk_vm_sample *vm) {
    return vm->figures.cpu_seconds;
}
static double memory_of(const struct vk_vm_sample *vm) {
    return (double)vm->figures.memory_bytes;
}
static double throttled_seconds_of(const struct vk_vm_sample *vm) {
    return vm->figures.throttled_seconds;
}
static double throttled_periods_of(const struct vk_vm_sample *vm) {
    return (double)vm->figures.throttled_periods;
}
static double start_of(const struct vk_vm_sample *vm) {
    return cc_wall_is_set(vm->pod->start_time) ? (double)vm->pod->start_time.ns / 1e9 : -1;
}

static const struct resource_family families[] = {
    {"container_cpu_usage_seconds_total", "Cumulative cpu time consumed by the container in core-seconds", true, true,
     cpu_of},
    {"container_memory_working_set_bytes", "Current working set of the container in bytes", false, true, memory_of},
    {"container_cpu_cfs_throttled_seconds_total", "Total time the container was throttled in seconds", true, true,
     throttled_seconds_of},
    {"container_cpu_cfs_throttled_periods_total", "Number of periods in which the container was throttled", true, true,
     throttled_periods_of},
    {"pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds", true, false, cpu_of},
    {"pod_memory_working_set_bytes", "Current working set of the pod in bytes", false, false, memory_of},
    {"container_start_time_seconds", "Start time of the container since unix epoch in seconds", false, true, start_of},
};

static void put_head(struct cc_buf *into, const char *name, const char *help, bool is_counter) {
    cc_buf_printf(into, "# HELP %s [STABLE] %s\n# TYPE %s %s\n", name, help, name, is_counter ? "counter" : "gauge");
}

static void put_node(struct cc_buf *into, const char *name, const char *help, bool is_counter, double value,
                     int64_t time_ms) {
    put_head(into, name, help, is_counter);
    cc_buf_printf(into, "%s %.15g %lld\n", name, value, (long long)time_ms);
}

static void put_family(struct cc_buf *into, const struct resource_family *family, const struct vk_sample *sample,
                       int64_t time_ms) {
    bool has_head = false;
    for (size_t i = 0; i < sample->vm_count; i++) {
        const struct cc_object_meta *meta = &sample->vms[i].pod->base.meta;
        double value = family->value(&sample->vms[i]);
        if (value < 0)
            continue;
        if (!has_head)
            put_head(into, family->name, family->help, family->is_counter);
        has_head = true;
        /* Names of namespaces and pods need no escapes. */
        cc_buf_printf(into, "%s{namespace=\"%s\",pod=\"%s\"%s} %.15g %lld\n", family->name, meta->namespace, meta->name,
                      family->is_container ? ",container=\"" CONTAINER "\"" : "", value, (long long)time_ms);
    }
}

void vk_metrics_resource_serve(struct vk_figures *figures, struct cc_http_server_response *response) {
    struct vk_sample *sample = vk_figures_sample(figures);
    int64_t time_ms = sample->time.ns / CC_NS_PER_MS;
    struct cc_buf *body = &response->body;
    put_node(body, "node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds", true,
             sample->node.cpu_seconds, time_ms);
    put_node(body, "node_memory_working_set_bytes", "Current working set of the node in bytes", false,
             (double)sample->node.memory_bytes, time_ms);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(families); i++)
        put_family(body, &families[i], sample, time_ms);
    vk_sample_unref(sample);
    response->content_type = "text/plain; version=0.0.4";
}
