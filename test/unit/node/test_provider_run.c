/* Goal: mode run boots from the right image with the pod's resources. contract/07 5.5 F and 6, decisions 34 and 43. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define BENCH_TEST(name, body)                                                                                         \
    START_TEST(name) {                                                                                                 \
        provider_bench_run(NULL, body);                                                                                \
    }                                                                                                                  \
    END_TEST

static void put(struct provider_bench *bench, const char *image, const char *mode, const char *resources) {
    char text[900];

    snprintf(text, sizeof text,
             "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'demo-0','namespace':'ns','annotations':{"
             "'vm.cocoonstack.io/name':'vk-a','cocoonset.cocoonstack.io/managed':'true',"
             "'cocoonset.cocoonstack.io/mode':'%s','cocoonset.cocoonstack.io/image':'%s',"
             "'cocoonset.cocoonstack.io/storage':'20Gi'}},"
             "'spec':{'nodeName':'n1','containers':[{'name':'sidecar','resources':{'limits':{'cpu':'64'}}},"
             "{'name':'agent','image':'i','resources':%s}]}}",
             mode, image, resources);
    fake_kube_drop(bench->server, "pods", "ns", "demo-0");
    fake_kube_put_text(bench->server, text);
    fake_host_log_clear(bench->host);
}

static void create(struct provider_bench *bench) {
    struct cc_err err = {0};

    ck_assert_msg(provider_bench_create(bench, "demo-0", &err) == 0, "%s", err.msg);
}

static void drop(struct provider_bench *bench) {
    provider_bench_annotate(bench, "demo-0", "cocoonset.cocoonstack.io/snapshot-policy=never");
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
}

static void has_line(struct provider_bench *bench, const char *line) {
    ck_assert_msg(strstr(fake_host_log(bench->host), line), "no '%s' in\n%s", line, fake_host_log(bench->host));
}

static void resources(struct provider_bench *bench) {
    static const struct {
        const char *resources, *flags;
    } rows[] = {
        {"{'requests':{'cpu':'500m'},'limits':{'cpu':'2'}}",
         " cpus=2 storage=21474836480 weight=20 quota=200000 period=100000\n"},
        {"{'limits':{'cpu':'1'}}", " cpus=1 storage=21474836480 weight=39 quota=100000 period=100000\n"},
        {"{'requests':{'cpu':'2'}}", " cpus=2 storage=21474836480 weight=79\n"},
        {"{'limits':{'cpu':'5m'}}", " cpus=1 storage=21474836480 weight=1 quota=1000 period=100000\n"},
        {"{}", " image=r/y:1 storage=21474836480 weight=1\n"},
        {"{'requests':{'memory':'2Gi'},'limits':{'memory':'4Gi'}}",
         " image=r/y:1 memory=2147483648 storage=21474836480 weight=1\n"},
        {"{'limits':{'memory':'4Gi'}}", " image=r/y:1 memory=4294967296 storage=21474836480 weight=1\n"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        put(bench, "r/y:1", "run", rows[i].resources);
        create(bench);
        has_line(bench, rows[i].flags);
        drop(bench);
    }
    CC_VECTOR("07-R1");
    CC_VECTOR("07-R2");
    CC_VECTOR("07-R3");
    CC_VECTOR("07-R5");
    fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){.name = "r/y:1"});
    put(bench, "r/y:1", "clone", "{'requests':{'cpu':'1'},'limits':{'cpu':'1500m'}}");
    create(bench);
    has_line(bench, "vm clone name=vk-a snapshot=r/y:1 weight=39 quota=150000 period=100000\n");
    CC_VECTOR("07-R4");
}
BENCH_TEST(run__resources, resources)

static void cloud_image(struct provider_bench *bench) {
    const char *disk = cc_memory_registry_put_blob(bench->store, "ubuntu", "qcow", 4);
    char manifest[600];

    snprintf(manifest, sizeof manifest,
             "{\"schemaVersion\":2,\"artifactType\":\"application/vnd.cocoonstack.os-image.v1+json\",\"config\":{"
             "\"mediaType\":\"application/vnd.oci.empty.v1+json\",\"digest\":\"%s\",\"size\":4},\"layers\":[{"
             "\"mediaType\":\"application/vnd.cocoonstack.disk.qcow2\",\"digest\":\"%s\",\"size\":4}]}",
             disk, disk);
    cc_memory_registry_put_tag(bench->store, "ubuntu", "latest", manifest);
    put(bench, "ubuntu", "run", "{}");
    create(bench);
    ck_assert_str_eq(fake_host_log(bench->host), "snapshot rm fork-vk-a\n"
                                                 "image import ubuntu:latest\n"
                                                 "vm run name=vk-a image=ubuntu:latest storage=21474836480 weight=1\n");
    CC_VECTOR("07-P9");
}
BENCH_TEST(run__cloud_image, cloud_image)

static void snapshot_artifact(struct provider_bench *bench) {
    struct cc_err err = {0};

    provider_bench_publish(bench, "r/snap", "1", 5, NULL, NULL, false);
    put(bench, "r/snap:1", "run", "{}");
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", &err), 0);
    ck_assert_msg(strstr(err.msg, "snapshot artifact") && strstr(err.msg, "mode=clone"), "%s", err.msg);
    ck_assert_uint_eq(fake_host_calls(bench->host, "image pull"), 0);
    ck_assert_uint_eq(fake_host_vm_count(bench->host), 0);
    CC_VECTOR("07-P10");
}
BENCH_TEST(run__snapshot_artifact, snapshot_artifact)

static int refuse_image(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                        struct cc_err *err) {
    (void)ctx;
    (void)reference;
    if (op == CC_REGISTRY_GET_MANIFEST && strcmp(repository, "r/y") == 0)
        return cc_err_set(err, CC_UNAVAILABLE, "HTTP 500");
    return 0;
}

static void falls_through(struct provider_bench *bench) {
    cc_memory_registry_put_tag(bench->store, "r/y", "1", "no json");
    put(bench, "r/y:1", "run", "{}");
    create(bench);
    has_line(bench, "image pull r/y:1\nvm run name=vk-a image=r/y:1 ");
    drop(bench);
    cc_memory_registry_set_hook(bench->store, refuse_image, NULL);
    put(bench, "r/y:1", "run", "{}");
    create(bench);
    has_line(bench, "vm run name=vk-a image=r/y:1 ");
    drop(bench);
    cc_memory_registry_forget_calls(bench->store);
    put(bench, "https://h/i.img", "run", "{}");
    create(bench);
    has_line(bench, "image pull https://h/i.img\nvm run name=vk-a image=https://h/i.img ");
    ck_assert_ptr_null(strstr(cc_memory_registry_trace(bench->store), "h/i.img"));
    CC_VECTOR("07-P11");
}
BENCH_TEST(run__falls_through_to_the_host, falls_through)

int main(void) {
    Suite *suite = suite_create("provider run");
    TCase *tcase = tcase_create("run");

    tcase_add_test(tcase, run__resources);
    tcase_add_test(tcase, run__cloud_image);
    tcase_add_test(tcase, run__snapshot_artifact);
    tcase_add_test(tcase, run__falls_through_to_the_host);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
