/* The table of VMs as a scrape shows it. contract/08 5.2. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kubelet/figures.h"
#include "kubelet/host.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

/* Tracks a pod with a VM. pid 0 = not known. */
static void track(struct provider_bench *bench, const char *namespace, const char *name, int64_t pid) {
    struct cc_object *object = NULL;
    json_t *json = json_pack("{s:{s:s, s:s, s:s}, s:{s:[{s:s}]}}", "metadata", "name", name, "namespace", namespace,
                             "uid", name, "spec", "containers", "name", "agent");
    ck_assert_int_eq(cc_pod_decode(json, &object, NULL), 0);
    json_decref(json);
    struct vk_vm *vm = vk_vm_new();
    vm->id = cc_arena_printf(&vm->arena, "VM-%s", name);
    vm->name = cc_arena_printf(&vm->arena, "vk-%s-%s", namespace, name);
    vm->pid = pid;
    struct vk_entry *entry = vk_entry_take(bench->provider, namespace, name);
    vk_entry_track(bench->provider, entry, cc_pod_of(object));
    vk_entry_bind(bench->provider, entry, vm);
    vk_entry_unpin(bench->provider, entry);
    vk_vm_unref(vm);
    cc_object_unref(object);
}

static void forget(struct provider_bench *bench, const char *namespace, const char *name) {
    struct vk_entry *entry = vk_entry_take(bench->provider, namespace, name);
    vk_entry_forget(bench->provider, entry);
    vk_entry_unpin(bench->provider, entry);
}

static size_t count(const char *text, const char *part) {
    size_t found = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        found++;
    return found;
}

static void is_counted(struct provider_bench *bench) {
    struct vk_figures_options options = {
        .proc = "/no/such/proc", .cgroups = "/no/such", .cgroup_parent = "x", .root_directory = "/"};
    struct vk_kubelet_parts parts = {.provider = bench->provider};
    struct vk_kubelet_host host = vk_kubelet_host_of(&parts);
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_buf table, series;
    track(bench, "staging", "a", 4000001);
    track(bench, "staging", "b", 0);
    track(bench, "testing", "c", 4000002);
    struct vk_figures *figures = vk_figures_new(&options, &host, cc_now_wall());
    vk_figures_export(figures, metrics);
    cc_buf_init(&table, 1000000);
    cc_buf_init(&series, 1000000);
    cc_metrics_write(bench->metrics, &table);
    cc_metrics_write(metrics, &series);
    ck_assert(cc_text_contains(table.data, "\ncocoon_vk_vm_table_size{namespace=\"staging\"} 2\n"));
    ck_assert(cc_text_contains(table.data, "\ncocoon_vk_vm_table_size{namespace=\"testing\"} 1\n"));
    ck_assert_uint_eq(count(series.data, "\ncocoon_vk_vm_memory_rss_bytes{"), 2);
    ck_assert_uint_eq(count(series.data, "\ncocoon_vk_vm_cpu_seconds_total{"), 2);
    ck_assert(!cc_text_contains(series.data, "pod=\"b\""));
    CC_VECTOR("08-10.62");
    /* A namespace without a VM has no series. */
    forget(bench, "testing", "c");
    cc_buf_clear(&table);
    cc_metrics_write(bench->metrics, &table);
    ck_assert_uint_eq(count(table.data, "\ncocoon_vk_vm_table_size{"), 1);
    forget(bench, "staging", "a");
    forget(bench, "staging", "b");
    cc_buf_done(&table);
    cc_buf_done(&series);
    vk_figures_free(figures);
    cc_metrics_free(metrics);
}
START_TEST(tables__are_counted) {
    provider_bench_run(&(struct provider_bench_options){0}, is_counted);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kubelet tables");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, tables__are_counted);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
