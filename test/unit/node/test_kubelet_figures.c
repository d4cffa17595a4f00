/* Figures for metrics-server, Prometheus and the scheduler. contract/08 4.8, 4.9, 5.2. */
#include "kubelet/figures.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/process.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "http/server_internal.h"
#include "kubelet/stats.h"
#include "support/fiber_test.h"
#include "support/node/kubelet_world.h"
#include "support/observed.h"
#include "support/vectors.h"

#define STAT_LINE "1234 (a (b) c) R 1 1 1 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 4 0 12345 999424 512 1"

START_TEST(figures__process) {
    ck_assert_int_eq(vk_figures_rss(STAT_LINE, 4096), 2097152);
    ck_assert_double_eq(vk_figures_process_seconds(STAT_LINE), 4.0);
    CC_VECTOR("08-10.57");
    static const char *const bad[] = {"",  "1234 a R 1 1 1", "1234 (a) R 1 1 1 0",
                                      ")", "1 (a)",          "1 (a) R x x x x x x x x x x x x x x x x x x x x x x x"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        ck_assert_int_eq(vk_figures_rss(bad[i], 4096), 0);
        ck_assert_double_eq(vk_figures_process_seconds(bad[i]), 0);
    }
    struct vk_vm_figures figures = {.cpu_seconds = 9};
    vk_figures_cpu_stat("usage_usec abc\n", &figures);
    ck_assert_double_eq(figures.cpu_seconds, 0);
    vk_figures_cpu_stat("usage_usec\nnr_throttled 3", &figures);
    ck_assert_double_eq(figures.cpu_seconds, 0);
    ck_assert_int_eq(figures.throttled_periods, 3);
    vk_figures_cpu_stat("", &figures);
    ck_assert_int_eq(figures.throttled_periods, 0);
    CC_VECTOR("08-10.58");
    vk_figures_cpu_stat("usage_usec 2500000\nuser_usec 1\nnr_periods 10\nnr_throttled 7\nthrottled_usec 1500000\n",
                        &figures);
    ck_assert_double_eq(figures.cpu_seconds, 2.5);
    ck_assert_int_eq(figures.throttled_periods, 7);
    ck_assert_double_eq(figures.throttled_seconds, 1.5);
    CC_VECTOR("08-10.59");
}
END_TEST

START_TEST(figures__node) {
    /* 100 user, 10 nice, 20 system, 5000 idle, 300 iowait, 4 irq, 5 softirq, 6 steal, 70 guest, 8 guest_nice */
    ck_assert_double_eq_tol(vk_figures_node_seconds("cpu  100 10 20 5000 300 4 5 6 70 8\ncpu0 1 1 1\n"), 1.45, 1e-9);
    ck_assert_double_eq(vk_figures_node_seconds("cpu0 1 1 1\n"), 0);
    ck_assert_double_eq(vk_figures_node_seconds(""), 0);
    ck_assert_int_eq(vk_figures_node_memory("MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n"),
                     600 * 1024);
    ck_assert_int_eq(vk_figures_node_memory(""), 0);
    int64_t rx, tx;
    static const char dev[] = "Inter-|   Receive                            |  Transmit\n face |bytes    packets\n"
                              "  tap01: 9 9 9 9 9 9 9 9 9 9\n   tap0: 11 2 0 0 0 0 0 0 22 3 0 0 0 0 0 0\n";
    vk_figures_interface(dev, "tap0", &rx, &tx);
    ck_assert_int_eq(rx, 11);
    ck_assert_int_eq(tx, 22);
    vk_figures_interface(dev, "tap", &rx, &tx);
    ck_assert(rx == 0 && tx == 0);
    vk_figures_interface(dev, "", &rx, &tx);
    ck_assert(rx == 0 && tx == 0);
}
END_TEST

/* --- a machine
 * -------------------------------------------------------------------------------------------------------- */

struct machine {
    char folder[32], proc[64], cgroups[64];
    struct kubelet_world world;
    struct vk_figures *figures;
};

static void put_file(const struct machine *machine, const char *path, const char *text) {
    char *whole = cc_xasprintf("%s/%s", machine->folder, path);
    for (char *at = whole + strlen(machine->folder) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(whole, 0700);
        *at = '/';
    }
    ck_assert_int_eq(cc_file_replace(whole, text, strlen(text), 0600, NULL), 0);
    free(whole);
}

#define POD(name, namespace, status)                                                                                   \
    "{'metadata':{'name':'" name "','namespace':'" namespace "','uid':'uid-" name "'},"                                \
                                                             "'spec':{'containers':[{'name':'agent'}]}" status "}"

static void machine_open(struct machine *machine) {
    *machine = (struct machine){.folder = "/tmp/test-figures-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(machine->folder));
    snprintf(machine->proc, sizeof machine->proc, "%s/proc", machine->folder);
    snprintf(machine->cgroups, sizeof machine->cgroups, "%s/cgroup", machine->folder);
    put_file(machine, "proc/stat", "cpu  100 0 0 5000 0 0 0 0 0 0\n");
    put_file(machine, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n");
    put_file(machine, "proc/77/stat", STAT_LINE);
    put_file(machine, "proc/77/net/dev", "  tap0: 11 2 0 0 0 0 0 0 22 3\n");
    put_file(machine, "cgroup/cocoon.slice/vm-A.scope/cpu.stat",
             "usage_usec 2500000\nnr_throttled 7\nthrottled_usec 1500000\n");
    put_file(machine, "run/cloudhypervisor/A/overlay.qcow2", "0123456789");
    kubelet_world_open(&machine->world);
    kubelet_world_add_pod(&machine->world, POD("demo-0", "staging", ",'status':{'startTime':'2026-09-07T10:00:00Z'}"),
                          "A", 77);
    kubelet_world_add_pod(&machine->world, POD("starting", "staging", ""), "B", 0);
    kubelet_world_add_pod(&machine->world, POD("idle", "testing", ""), "C", 78);
    kubelet_world_add_pod(&machine->world, POD("asleep", "testing", ""), NULL, 0);
    struct vk_figures_options options = {.proc = machine->proc,
                                         .cgroups = machine->cgroups,
                                         .cgroup_parent = "cocoon.slice",
                                         .root_directory = machine->folder};
    machine->figures = vk_figures_new(&options, &machine->world.host, cc_now_wall());
}

static void machine_close(struct machine *machine) {
    const char *const argv[] = {"/bin/rm", "-rf", machine->folder, NULL};
    struct cc_buf out;
    struct cc_exit result;
    vk_figures_free(machine->figures);
    kubelet_world_close(&machine->world);
    cc_buf_init(&out, 1000);
    ck_assert_int_eq(cc_process_run(argv, NULL, 0, &out, NULL, &result, NULL), 0);
    cc_buf_done(&out);
}

static char *serve(struct machine *machine, bool is_summary) {
    struct cc_http_server_response response;
    cc_http_response_init(&response);
    if (is_summary)
        vk_stats_summary_serve(machine->figures, "host1", &response);
    else
        vk_metrics_resource_serve(machine->figures, &response);
    ck_assert_str_eq(response.content_type, is_summary ? "application/json" : "text/plain; version=0.0.4");
    char *text = cc_buf_steal(&response.body);
    cc_http_response_done(&response);
    return text;
}

static void assert_has(const char *text, const char *part) {
    ck_assert_msg(cc_text_contains(text, part), "no '%s' in '%s'", part, text);
}

static void renders(void *arg) {
    (void)arg;
    struct machine machine;
    machine_open(&machine);
    char *summary = serve(&machine, true), *resource = serve(&machine, false);
    assert_has(summary, "{\"node\":{\"nodeName\":\"host1\",\"startTime\":\"");
    assert_has(summary, "\"usageCoreNanoSeconds\":1000000000}");
    assert_has(summary, "\"workingSetBytes\":614400}");
    assert_has(summary, "{\"podRef\":{\"name\":\"demo-0\",\"namespace\":\"staging\",\"uid\":\"uid-demo-0\"},"
                        "\"startTime\":\"2026-09-07T10:00:00Z\",\"containers\":[{\"name\":\"agent\","
                        "\"startTime\":\"2026-09-07T10:00:00Z\",\"cpu\":{\"time\":\"");
    assert_has(summary, "\"usageCoreNanoSeconds\":2500000000}");
    assert_has(summary, "\"name\":\"tap0\",\"rxBytes\":11,\"txBytes\":22}");
    ck_assert(!cc_text_contains(summary, "starting") && !cc_text_contains(summary, "asleep"));
    assert_has(summary, "\"name\":\"idle\"");
    assert_has(resource, "# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total 1 ");
    assert_has(resource, "\nnode_memory_working_set_bytes 614400 ");
    assert_has(resource,
               "\ncontainer_cpu_usage_seconds_total{namespace=\"staging\",pod=\"demo-0\",container=\"agent\"} 2.5 ");
    assert_has(
        resource,
        "\ncontainer_cpu_cfs_throttled_seconds_total{namespace=\"staging\",pod=\"demo-0\",container=\"agent\"} 1.5 ");
    assert_has(
        resource,
        "\ncontainer_cpu_cfs_throttled_periods_total{namespace=\"staging\",pod=\"demo-0\",container=\"agent\"} 7 ");
    assert_has(resource, "\npod_cpu_usage_seconds_total{namespace=\"testing\",pod=\"idle\"} 0 ");
    assert_has(resource,
               "\ncontainer_start_time_seconds{namespace=\"staging\",pod=\"demo-0\",container=\"agent\"} 1788775200 ");
    ck_assert(!cc_text_contains(resource, "container_start_time_seconds{namespace=\"testing\""));
    CC_VECTOR("08-10.61");
    free(summary);
    free(resource);
    machine_close(&machine);
}
START_TEST(figures__renders) {
    cc_test_run(renders, NULL);
}
END_TEST

static void shares(void *arg) {
    (void)arg;
    struct machine machine;
    machine_open(&machine);
    struct vk_sample *first = vk_figures_sample(machine.figures);
    put_file(&machine, "cgroup/cocoon.slice/vm-A.scope/cpu.stat", "usage_usec 9000000\n");
    ck_assert_int_eq(cc_sleep_ms(20, NULL), 0);
    struct vk_sample *second = vk_figures_sample(machine.figures);
    ck_assert_ptr_eq(first, second);
    ck_assert_double_eq(second->vms[0].figures.cpu_seconds, 2.5);
    first->at.ns -= VK_FIGURES_SHARED_MS * CC_NS_PER_MS; /* two seconds later */
    struct vk_sample *third = vk_figures_sample(machine.figures);
    ck_assert_ptr_ne(first, third);
    ck_assert_double_eq(third->vms[0].figures.cpu_seconds, 9);
    CC_VECTOR("08-10.60");
    vk_sample_unref(first);
    vk_sample_unref(second);
    vk_sample_unref(third);
    machine_close(&machine);
}
START_TEST(figures__shares_samples) {
    cc_test_run(shares, NULL);
}
END_TEST

static long long allocated(const struct machine *machine, const char *path) {
    struct stat status;
    char *whole = cc_xasprintf("%s/%s", machine->folder, path);
    ck_assert_int_eq(stat(whole, &status), 0);
    free(whole);
    return (long long)status.st_blocks * 512;
}

/* What metrics-server makes of two looks at a line: CPU seconds by the seconds between them. */
static double rate_of(const char *first, const char *second, const char *line) {
    double values[2], times[2];
    const char *const texts[] = {first, second};
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(texts[i], line);
        ck_assert_ptr_nonnull(at);
        char *end;
        values[i] = strtod(at + strlen(line), &end);
        times[i] = strtod(end, NULL) / 1000;
    }
    return (values[1] - values[0]) / (times[1] - times[0]);
}

static void top(void *arg) {
    (void)arg;
    struct machine machine;
    machine_open(&machine);
    char *first = serve(&machine, false);
    struct vk_sample *old = vk_figures_sample(machine.figures);
    /* 15 s later: one guest was busy on one and a half cores, the other asleep; the node was three quarters idle. */
    put_file(&machine, "cgroup/cocoon.slice/vm-A.scope/cpu.stat", "usage_usec 25000000\n");
    put_file(&machine, "proc/stat", "cpu  1600 0 100 9500 0 0 0 0 1500 0\n");
    old->at.ns -= VK_FIGURES_SHARED_MS * CC_NS_PER_MS;
    struct vk_sample *fresh = vk_figures_sample(machine.figures);
    fresh->time.ns = old->time.ns + 15 * CC_NS_PER_S;
    char *second = serve(&machine, false);
    ck_assert_double_eq_tol(
        rate_of(first, second, "\npod_cpu_usage_seconds_total{namespace=\"staging\",pod=\"demo-0\"} "), 1.5, 1e-6);
    ck_assert_double_eq_tol(
        rate_of(first, second, "\npod_cpu_usage_seconds_total{namespace=\"testing\",pod=\"idle\"} "), 0, 1e-6);
    ck_assert_double_eq_tol(rate_of(first, second, "\nnode_cpu_usage_seconds_total "), 16.0 / 15, 1e-6);
    vk_sample_unref(old);
    vk_sample_unref(fresh);
    free(first);
    free(second);
    machine_close(&machine);
}
START_TEST(figures__top) {
    cc_test_run(top, NULL);
}
END_TEST

/* The figures of a macOS guest come from its process and its own disk (contract/06 11.1). */
static void macos(void *arg) {
    (void)arg;
    struct machine machine;
    machine_open(&machine);
    char disk[80];
    snprintf(disk, sizeof disk, "%s/run/cloudhypervisor/A/overlay.qcow2", machine.folder);
    machine.world.vms[0]->hypervisor = "qemu";
    machine.world.vms[0]->disk = disk;
    struct vk_sample *sample = vk_figures_sample(machine.figures);
    const struct vk_vm_figures *figures = &sample->vms[0].figures;
    ck_assert_double_eq(figures->cpu_seconds, 4.0);
    ck_assert_double_eq(figures->throttled_seconds, 0);
    ck_assert_int_eq(figures->throttled_periods, 0);
    ck_assert_int_eq(figures->disk_bytes, 10);
    ck_assert_int_gt(figures->memory_bytes, 0);
    vk_sample_unref(sample);
    machine_close(&machine);
}
START_TEST(figures__macos) {
    cc_test_run(macos, NULL);
}
END_TEST

static void exports(void *arg) {
    (void)arg;
    struct machine machine;
    struct cc_buf text;
    machine_open(&machine);
    struct cc_metrics *metrics = cc_metrics_new();
    vk_figures_export(machine.figures, metrics);
    cc_buf_init(&text, 1000000);
    cc_metrics_write(metrics, &text);
    assert_has(text.data,
               "\ncocoon_vk_vm_cpu_seconds_total{vm=\"vk-A\",pod=\"demo-0\",namespace=\"staging\",backend=\"\"} 2.5\n");
    char *disk = cc_xasprintf("\ncocoon_vk_vm_disk_cow_bytes{vm=\"vk-A\",pod=\"demo-0\",namespace=\"staging\","
                              "backend=\"\"} %lld\n",
                              allocated(&machine, "run/cloudhypervisor/A/overlay.qcow2"));
    assert_has(text.data, disk);
    free(disk);
    assert_has(
        text.data,
        "\ncocoon_vk_vm_network_tx_bytes_total{vm=\"vk-A\",pod=\"demo-0\",namespace=\"staging\",backend=\"\"} 22\n");
    assert_has(text.data,
               "\ncocoon_vk_vm_memory_rss_bytes{vm=\"vk-C\",pod=\"idle\",namespace=\"testing\",backend=\"\"} 0\n");
    ck_assert(!cc_text_contains(text.data, "starting"));
    assert_has(text.data, "\ncocoon_vk_node_cpu_seconds_total 1\n");
    assert_has(text.data, "\ncocoon_vk_node_storage_total_bytes ");
    /* A VM that is gone has no series. */
    vk_vm_unref(machine.world.vms[0]);
    machine.world.vms[0] = NULL;
    struct vk_sample *sample = vk_figures_sample(machine.figures);
    sample->at.ns -= VK_FIGURES_SHARED_MS * CC_NS_PER_MS;
    vk_sample_unref(sample);
    cc_buf_clear(&text);
    cc_metrics_write(metrics, &text);
    ck_assert(!cc_text_contains(text.data, "vk-A"));
    assert_has(text.data, "vk-C");
    cc_buf_done(&text);
    cc_observed_metrics("node", metrics);
    machine_close(&machine);
    cc_metrics_free(metrics);
}
START_TEST(figures__exports) {
    cc_test_run(exports, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kubelet figures");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, figures__process);
    tcase_add_test(all, figures__node);
    tcase_add_test(all, figures__renders);
    tcase_add_test(all, figures__shares_samples);
    tcase_add_test(all, figures__top);
    tcase_add_test(all, figures__macos);
    tcase_add_test(all, figures__exports);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
