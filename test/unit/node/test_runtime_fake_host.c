/* Goal: the simulated host can be trusted: it moves guest memory as a real one does, and lies only when told to. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/fiber_test.h"
#include "support/node/fake_host.h"

static struct fake_host *host;
static struct vk_runtime runtime;

static void set_up(void) {
    host = fake_host_new(1);
    runtime = fake_host_runtime(host);
}

static void tear_down(void) {
    fake_host_free(host);
}

static void runs_and_clones(void *arg) {
    const struct vk_vm *vm = NULL;
    struct cc_err err;

    (void)arg;
    fake_host_add_image(host, "i:1", NULL);
    ck_assert_int_eq(runtime.ops->run(runtime.ctx,
                                      &(struct vk_run_options){.name = "a", .image = "i:1", .cpu = {.weight = 1}}, &vm,
                                      &err),
                     0);
    ck_assert_uint_eq(fake_host_vm_memory(host, "a"), 0);
    ck_assert_str_eq(fake_host_lease(host, vm->mac), "10.44.1.3");
    fake_host_set_vm_memory(host, "a", 41);
    ck_assert_int_eq(runtime.ops->snapshot_save(runtime.ctx, "a", vm->id, &err), 0);
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, vm->id, &err), 0);
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, vm->id, &err), CC_NOT_FOUND);
    vk_vm_unref(vm);

    ck_assert_int_eq(
        runtime.ops->clone(runtime.ctx,
                           &(struct vk_clone_options){
                               .name = "a", .snapshot = "a", .pull = true, .nics = -1, .cpu = {39, 100000, 100000}},
                           &vm, &err),
        0);
    ck_assert_uint_eq(fake_host_vm_memory(host, "a"), 41);
    ck_assert_int_eq(runtime.ops->resize_nics(runtime.ctx, vm->id, 0, &err), 0);
    ck_assert_uint_eq(fake_host_vm_nics(host, "a"), 0);
    ck_assert_int_eq(runtime.ops->resize_nics(runtime.ctx, vm->id, 1, &err), 0);
    ck_assert_str_ne(fake_host_vm_mac(host, "a", 0), vm->mac);
    vk_vm_unref(vm);
    ck_assert_str_eq(fake_host_log(host), "vm run name=a image=i:1 weight=1\n"
                                          "snapshot save a vm=a\n"
                                          "vm rm a\n"
                                          "vm rm VMAAAAAAAABAAAAAAAAAAAAAAB\n"
                                          "vm clone name=a snapshot=a pull weight=39 quota=100000 period=100000\n"
                                          "vm net nics=0 a\n"
                                          "vm net nics=1 a\n");
    ck_assert_uint_eq(fake_host_calls(host, "vm rm"), 2);
    ck_assert_uint_eq(fake_host_calls(host, "vm rm a"), 1);
}

START_TEST(fake__memory_follows_the_snapshot) {
    cc_test_run_virtual(runs_and_clones, NULL);
}
END_TEST

/* Moves a snapshot to another host through a real archive; stop_after > 0 cuts the stream there. */
static int move(struct fake_host *to, size_t stop_after, struct cc_err *err) {
    struct vk_runtime other = fake_host_runtime(to);
    struct vk_transfer *out = NULL, *in = NULL;
    struct cc_reader reader;
    struct cc_writer writer;
    char bytes[700];
    size_t count, total = 0;

    ck_assert_int_eq(runtime.ops->snapshot_export(runtime.ctx, "s", &out, &reader, err), 0);
    ck_assert_int_eq(other.ops->snapshot_import(other.ctx, "t", &in, &writer, err), 0);
    for (;;) {
        ck_assert_int_eq(reader.read(reader.ctx, bytes, sizeof bytes, &count, err), 0);
        if (stop_after > 0 && total + count > stop_after)
            count = stop_after - total;
        if (count == 0)
            break;
        ck_assert_int_eq(writer.write(writer.ctx, bytes, count, err), 0);
        total += count;
    }
    int rc = stop_after > 0 ? 0 : runtime.ops->transfer_finish(runtime.ctx, out, err);
    runtime.ops->transfer_free(runtime.ctx, out);
    if (rc == 0)
        rc = other.ops->transfer_finish(other.ctx, in, err);
    other.ops->transfer_free(other.ctx, in);
    return rc;
}

static void moves(void *arg) {
    struct fake_host *to = fake_host_new(2);
    struct cc_err err;

    (void)arg;
    fake_host_set_memory_padding(host, 20000);
    fake_host_add_snapshot(host, &(struct fake_snapshot_spec){
                                     .name = "s", .image = "i:1", .image_digest = "sha256:1", .nics = 1, .memory = 77});
    ck_assert_msg(move(to, 0, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(fake_host_snapshot_memory(to, "t"), 77);
    ck_assert_str_ne(fake_host_snapshot_id(to, "t"), fake_host_snapshot_id(host, "s"));

    /* Cut inside an entry: refused. Cut at an entry boundary: an older cocoon takes it, and the memory is gone. */
    ck_assert_int_eq(move(to, 700, &err), CC_IO);
    ck_assert(!fake_host_has_snapshot(to, "t"));
    ck_assert_int_eq(move(to, 1024, &err), 0);
    ck_assert_uint_eq(fake_host_snapshot_memory(to, "t"), 0);

    fake_host_fail_nth(host, "snapshot export", 1,
                       (struct fake_fault){.kind = FAKE_FAIL_AFTER, .message = "exit status 4"});
    ck_assert_int_eq(move(to, 0, &err), CC_IO);
    ck_assert_str_eq(err.msg, "exit status 4");
    fake_host_free(to);
}

START_TEST(fake__archives_carry_the_memory) {
    cc_test_run_virtual(moves, NULL);
}
END_TEST

static void fails(void *arg) {
    struct cc_err err;

    (void)arg;
    fake_host_add_vm(host, &(struct fake_vm_spec){.name = "a", .nics = 1});
    fake_host_fail_nth(host, "vm rm", 2, (struct fake_fault){.kind = FAKE_FAIL_AFTER, .message = "lost"});
    fake_host_fail_nth(host, "vm rm", 1, (struct fake_fault){.kind = FAKE_FAIL, .code = CC_DENIED});
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, "a", &err), CC_DENIED);
    ck_assert(fake_host_has_vm(host, "a"));
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, "a", &err), CC_IO);
    ck_assert_str_eq(err.msg, "lost");
    ck_assert(!fake_host_has_vm(host, "a"));

    fake_host_add_vm(host, &(struct fake_vm_spec){.name = "b"});
    fake_host_fail_nth(host, "vm rm", 1, (struct fake_fault){.kind = FAKE_HANG_AFTER});
    CC_DEADLINE_MS(1000);
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, "b", &err), CC_TIMEOUT);
    ck_assert(!fake_host_has_vm(host, "b"));
}

START_TEST(fake__faults) {
    cc_test_run_virtual(fails, NULL);
}
END_TEST

static void count_event(void *ctx, const struct vk_event *event) {
    int *counts = ctx;

    counts[event->type]++;
    if (event->type == VK_EVENT_DELETED)
        fake_host_end_stream(host);
}

static void change_things(void *arg) {
    (void)arg;
    ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
    fake_host_set_vm_state(host, "a", "stopped (stale)", true);
    fake_host_lose_vm(host, "a", true);
}

static void watches(void *arg) {
    int counts[3] = {0};

    (void)arg;
    fake_host_add_vm(host, &(struct fake_vm_spec){.name = "a"});
    ck_assert(cc_fiber_spawn(cc_loop_current(), "change", change_things, NULL));
    ck_assert_int_eq(runtime.ops->watch(runtime.ctx, count_event, NULL, counts, NULL), 0);
    ck_assert_int_eq(counts[VK_EVENT_ADDED], 1);
    ck_assert_int_eq(counts[VK_EVENT_MODIFIED], 1);
    ck_assert_int_eq(counts[VK_EVENT_DELETED], 1);
    ck_assert_uint_eq(fake_host_watchers(host), 0);
}

START_TEST(fake__events) {
    cc_test_run_virtual(watches, NULL);
}
END_TEST

static void probes(void *arg) {
    struct vk_network network = fake_host_network(host);
    struct cc_arena arena = {0};
    const char *ip = NULL;

    (void)arg;
    fake_host_add_vm(host, &(struct fake_vm_spec){.name = "a", .nics = 1});
    ck_assert_int_eq(network.ops->lease(network.ctx, fake_host_vm_mac(host, "a", 0), &arena, &ip, NULL), 0);
    ck_assert_str_ne(ip, "");
    ck_assert_int_eq(network.ops->ping(network.ctx, ip, NULL), 0);
    fake_host_set_vm_answers(host, "a", false);
    {
        CC_DEADLINE_MS(3000);
        ck_assert_int_eq(network.ops->ping(network.ctx, ip, NULL), CC_TIMEOUT);
    }
    fake_host_set_vm_answers(host, "a", true);
    fake_host_close_port(host, 22);
    ck_assert_int_eq(network.ops->tcp_connect(network.ctx, ip, 22, NULL), CC_UNAVAILABLE);
    ck_assert_int_eq(network.ops->tcp_connect(network.ctx, ip, 80, NULL), 0);
    ck_assert_int_eq(network.ops->release(network.ctx, fake_host_vm_mac(host, "a", 0), NULL), 0);
    ck_assert_int_eq(network.ops->lease(network.ctx, fake_host_vm_mac(host, "a", 0), &arena, &ip, NULL), 0);
    ck_assert_str_eq(ip, "");
    fake_host_set_leases_broken(host, true);
    ck_assert_int_eq(network.ops->lease(network.ctx, "x", &arena, &ip, NULL), CC_PROTOCOL);
    cc_arena_done(&arena);
}

START_TEST(fake__leases_and_probes) {
    cc_test_run_virtual(probes, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime_fake_host");
    TCase *cases = tcase_create("fake");

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, fake__memory_follows_the_snapshot);
    tcase_add_test(cases, fake__archives_carry_the_memory);
    tcase_add_test(cases, fake__faults);
    tcase_add_test(cases, fake__events);
    tcase_add_test(cases, fake__leases_and_probes);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
