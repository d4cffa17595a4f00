/* Goal: a macOS guest is launched once, kept up by its probe, never doubled, never saved, and its delete is believed
 * only when the CLI says so. contract/07 chapter 17, contract/06 chapter 10. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "options.h"
#include "support/fiber_test.h"
#include "support/node/provider_bench.h"
#include "support/vectors.h"

#define MAC_POD                                                                                                        \
    "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/image=m:1,"           \
    "cocoonset.cocoonstack.io/os=macos,cocoonset.cocoonstack.io/mode=run,cocoonset.cocoonstack.io/generation=1"
#define BIG_POD MAC_POD ",cocoonset.cocoonstack.io/storage=100Gi"
#define IP "10.44.1.60"

static void with(bool vnc, void (*body)(struct provider_bench *bench)) {
    provider_bench_run(&(struct provider_bench_options){.macos = true, .vnc = vnc}, body);
}

#define MACOS_TEST(name, body)                                                                                         \
    START_TEST(name) {                                                                                                 \
        with(true, body);                                                                                              \
    }                                                                                                                  \
    END_TEST

static struct vk_entry *entry_of(struct provider_bench *bench) {
    return vk_entry_find(bench->provider, "ns", "demo-0");
}

static double boots(struct provider_bench *bench) {
    return provider_bench_metric(bench, bench->provider->metrics.vm_boot_seconds, "ns", "run", "qemu");
}

static const char *vnc_of(struct provider_bench *bench, const char *pod) {
    return provider_bench_annotation(bench, pod, CC_KEY_VNC_PORT);
}

/* The guest has an address and answers on it. */
static void connect_guest(struct provider_bench *bench) {
    fake_host_set_lease(bench->host, fake_macos_mac(bench->macos, N), IP);
    fake_host_set_neighbour(bench->host, IP);
}

static void make_ready(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    provider_bench_make(bench, "demo-0", MAC_POD);
    connect_guest(bench);
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    fake_macos_log_clear(bench->macos);
}

/* --- create ------------------------------------------------------------------------------------------------------- */

static void first_boot(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    provider_bench_make(bench, "demo-0", BIG_POD);
    ck_assert_str_eq(fake_macos_log(bench->macos), "vm inspect " N "\nimage inspect m:1\n"
                                                   "vm run " N " cpus=4 memory=8192 vnc=0 storage=107374182400 "
                                                   "image=m:1\nvm inspect " N "\n");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_VM_ID), "qemu-" N);
    ck_assert_str_eq(vnc_of(bench, "demo-0"), "5900");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating"); /* ready comes from the probe */
    provider_bench_sleep(2000);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Running");
    ck_assert_str_eq(entry_of(bench)->probe.message, "waiting for guest dhcp lease");
    CC_VECTOR("07-M1");
    connect_guest(bench);
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    ck_assert_str_eq(provider_bench_annotation(bench, "demo-0", CC_KEY_IP), IP);
    ck_assert_str_eq(entry_of(bench)->probe.message, "ssh ok");
    ck_assert_str_eq(fake_host_log(bench->host), ""); /* cocoon is never asked */
    ck_assert_int_eq(cc_memory_registry_calls(bench->store, CC_REGISTRY_OP_COUNT), 0);
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0); /* delivered again */
    ck_assert_uint_eq(fake_macos_launches(bench->macos), 1);
}
MACOS_TEST(macos__first_boot, first_boot)

static void pulls_an_absent_image(struct provider_bench *bench) {
    struct cc_err err = {0};

    provider_bench_make(bench, "demo-0", MAC_POD);
    ck_assert_str_eq(fake_macos_log(bench->macos),
                     "vm inspect " N "\nimage inspect m:1\nimage pull m:1\nimage inspect m:1\n"
                     "vm run " N " cpus=4 memory=8192 vnc=0 image=m:1\nvm inspect " N "\n");
    CC_VECTOR("06-85");
    fake_macos_set_empty_pulls(bench->macos, true);
    fake_kube_put_pod(bench->server, "ns", "other", "n1", NULL,
                      "vm.cocoonstack.io/name=vk-other,cocoonset.cocoonstack.io/managed=true,"
                      "cocoonset.cocoonstack.io/image=m:2,cocoonset.cocoonstack.io/os= MacOS ");
    ck_assert_int_ne(provider_bench_create(bench, "other", &err), 0);
    ck_assert_msg(strstr(err.msg, "ensure macOS image m:2"), "%s", err.msg);
    ck_assert(provider_bench_has_event(bench, "Warning CreateBringUpFailed: create: ensure macOS image m:2"));
    ck_assert_str_eq(provider_bench_state(bench, "other"), "failed");
    ck_assert(!fake_macos_has_guest(bench->macos, "vk-other"));
    ck_assert_int_eq(vk_entry_find(bench->provider, "ns", "other")->vnc_port, 0);
}
MACOS_TEST(macos__pulls_an_absent_image, pulls_an_absent_image)

static void adopts_the_living(struct provider_bench *bench) {
    fake_macos_add_guest(bench->macos, N, true, 7);
    provider_bench_make(bench, "demo-0", MAC_POD);
    ck_assert_str_eq(fake_macos_log(bench->macos), "vm inspect " N "\n");
    ck_assert_str_eq(vnc_of(bench, "demo-0"), "5907");
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.pod_lifecycle, "create", "ok", "adopted"),
                        1);
    ck_assert_double_eq(boots(bench), 0);
}

static void starts_the_dead(struct provider_bench *bench) {
    fake_macos_add_guest(bench->macos, N, false, 7);
    provider_bench_make(bench, "demo-0", MAC_POD ",vm.cocoonstack.io/vnc-port=5950");
    ck_assert_str_eq(fake_macos_log(bench->macos), "vm inspect " N "\nvm start " N " vnc=50\nvm inspect " N "\n");
    ck_assert_str_eq(vnc_of(bench, "demo-0"), "5950");
    ck_assert(fake_macos_is_up(bench->macos, N));
    ck_assert_double_eq(boots(bench), 1);
}

START_TEST(macos__takes_what_is_there) {
    with(true, adopts_the_living);
    with(true, starts_the_dead);
    CC_VECTOR("07-M2");
    CC_VECTOR("06-86");
}
END_TEST

/* Unknown is not absent: nothing is run over a record that could not be read. */
static void unknown_is_not_run(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_macos_add_image(bench->macos, "m:1");
    fake_macos_add_guest(bench->macos, N, true, -1);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, MAC_POD);
    fake_macos_fail_next(bench->macos, "vm inspect", 0, "exit status 2", false);
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", &err), 0);
    ck_assert_msg(strstr(err.msg, "inspect macOS guest " N), "%s", err.msg);
    ck_assert_str_eq(fake_macos_log(bench->macos), "vm inspect " N "\n");
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_macos_launches(bench->macos), 1);
    ck_assert_str_eq(vnc_of(bench, "demo-0"), "");
}
MACOS_TEST(macos__unknown_is_not_run, unknown_is_not_run)

/* A run that failed is never answered with a remove: it may have met a living guest. */
static void failed_run(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, MAC_POD);
    fake_macos_fail_next(bench->macos, "vm run", 0, "answer lost", true);
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_int_eq(entry_of(bench)->vnc_port, 5900); /* it may be running with that display */
    ck_assert_ptr_null(strstr(fake_macos_log(bench->macos), "vm rm"));
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_uint_eq(fake_macos_launches(bench->macos), 1);
    ck_assert_str_eq(vnc_of(bench, "demo-0"), "5900");

    fake_kube_put_pod(bench->server, "ns", "other", "n1", NULL,
                      "vm.cocoonstack.io/name=vk-other,cocoonset.cocoonstack.io/managed=true,"
                      "cocoonset.cocoonstack.io/image=m:1,cocoonset.cocoonstack.io/os=macos");
    fake_macos_fail_next(bench->macos, "vm run", 0, "no memory", false);
    ck_assert_int_ne(provider_bench_create(bench, "other", NULL), 0);
    ck_assert_int_eq(vk_entry_find(bench->provider, "ns", "other")->vnc_port, 0); /* known not to be there */
}
MACOS_TEST(macos__failed_run, failed_run)

static void needs_an_image(struct provider_bench *bench) {
    struct cc_err err = {0};

    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL,
                      "vm.cocoonstack.io/name=" N ",cocoonset.cocoonstack.io/managed=true,"
                      "cocoonset.cocoonstack.io/os=macos");
    ck_assert_int_ne(provider_bench_create(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "has no image"));
    ck_assert_str_eq(fake_macos_log(bench->macos), "");
}
MACOS_TEST(macos__needs_an_image, needs_an_image)

/* --- VNC, resources ------------------------------------------------------------------------------------------------
 */

static void claims(struct provider_bench *bench) {
    const struct {
        const char *name, *cpu;
        int preferred, port;
    } rows[] = {{"a", "1", 0, 5900}, {"b", "500m", 0, 5901}, {"c", "3", 5950, 5950}, {"d", "", 5950, 5902}};
    static const char *const cpus[] = {"cpus=2 ", "cpus=2 ", "cpus=4 ", "cpus=4 "};

    fake_macos_add_image(bench->macos, "m:1");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        char annotations[500], patch[300], port[16], line[100];

        snprintf(annotations, sizeof annotations,
                 "vm.cocoonstack.io/name=vk-%s,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/"
                 "image=m:1,cocoonset.cocoonstack.io/os=macos%s",
                 rows[i].name, rows[i].preferred ? ",vm.cocoonstack.io/vnc-port=5950" : "");
        fake_kube_put_pod(bench->server, "ns", rows[i].name, "n1", NULL, annotations);
        snprintf(patch, sizeof patch,
                 "{'spec':{'containers':[{'name':'agent','image':'x','resources':{'requests':{'cpu':'%s'}}}]}}",
                 rows[i].cpu);
        if (*rows[i].cpu)
            ck_assert(fake_kube_touch(bench->server, "pods", "ns", rows[i].name, patch));
        ck_assert_int_eq(provider_bench_create(bench, rows[i].name, NULL), 0);
        snprintf(port, sizeof port, "%d", rows[i].port);
        ck_assert_str_eq(vnc_of(bench, rows[i].name), port);
        snprintf(line, sizeof line, "vm run vk-%s %s", rows[i].name, cpus[i]);
        ck_assert_msg(strstr(fake_macos_log(bench->macos), line), "%s in %s", line, fake_macos_log(bench->macos));
    }
    CC_VECTOR("07-M3");
    ck_assert_int_eq(provider_bench_delete(bench, "a", NULL), 0);
    provider_bench_make(bench, "e",
                        "vm.cocoonstack.io/name=vk-e,cocoonset.cocoonstack.io/managed=true,"
                        "cocoonset.cocoonstack.io/image=m:1,cocoonset.cocoonstack.io/os=macos");
    ck_assert_str_eq(vnc_of(bench, "e"), "5900"); /* free again */
}
MACOS_TEST(macos__vnc_claims, claims)

static void none_left(struct provider_bench *bench) {
    char name[16];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "p%d", i);
        struct vk_entry *entry = vk_entry_take(bench->provider, "ns", name);

        ck_assert_int_eq(vk_vnc_claim(bench->provider, entry, 0), 5900 + i);
        vk_entry_unpin(bench->provider, entry); /* the claim keeps it */
    }
    fake_macos_add_image(bench->macos, "m:1");
    provider_bench_make(bench, "demo-0", MAC_POD);
    ck_assert_ptr_nonnull(strstr(fake_macos_log(bench->macos), "vm run " N " cpus=4 memory=8192 image=m:1\n"));
    ck_assert_str_eq(vnc_of(bench, "demo-0"), "");
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "p%d", i);
        struct vk_entry *entry = vk_entry_find(bench->provider, "ns", name);

        vk_entry_pin(entry);
        entry->vnc_port = 0;
        vk_entry_unpin(bench->provider, entry);
    }
}
MACOS_TEST(macos__vnc_runs_out, none_left)

static const char *password;
static const char *getenv_of(void *ctx, const char *name) {
    (void)ctx;
    return strcmp(name, "COCOON_MACOS_VNC_PASSWORD") == 0 ? password : NULL;
}

static void off(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    provider_bench_make(bench, "demo-0", MAC_POD ",vm.cocoonstack.io/vnc-port=5901");
    ck_assert_ptr_nonnull(strstr(fake_macos_log(bench->macos), "vm run " N " cpus=4 memory=8192 image=m:1\n"));
    ck_assert_str_eq(vnc_of(bench, "demo-0"), "");
}

START_TEST(macos__vnc_password) {
    static const char *const bad[] = {"123456789", "12 45678", "12\"45678"};
    const struct vk_environment environment = {.getenv = getenv_of};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        struct vk_options options = {0};
        struct cc_err err = {0};

        password = bad[i];
        ck_assert_int_eq(vk_options_read_identity(&environment, &options, &err), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, "COCOON_MACOS_VNC_PASSWORD"));
        ck_assert_ptr_null(strstr(err.msg, bad[i]));
        vk_options_done(&options);
    }
    CC_VECTOR("06-89");
    with(false, off);
    CC_VECTOR("07-M4");
}
END_TEST

static void memory(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, MAC_POD);
    ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0",
                              "{'spec':{'containers':[{'name':'agent','image':'x','resources':{'limits':{'cpu':'3'},"
                              "'requests':{'memory':'6000Mi'}}}]}}"));
    ck_assert_int_eq(provider_bench_create(bench, "demo-0", NULL), 0);
    ck_assert_ptr_nonnull(strstr(fake_macos_log(bench->macos), "vm run " N " cpus=4 memory=6000 "));
    CC_VECTOR("06-87");
    CC_VECTOR("06-88");
}
MACOS_TEST(macos__memory_and_cpus, memory)

/* --- probe and self-repair ------------------------------------------------------------------------------------------
 */

static void probes_the_banner(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    fake_host_set_banner(bench->host, "HTTP/1.1 400");
    provider_bench_make(bench, "demo-0", MAC_POD);
    connect_guest(bench);
    provider_bench_sleep(5000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_ptr_nonnull(strstr(entry_of(bench)->probe.message, "ssh probe:"));
    fake_host_set_banner(bench->host, "SSH-2.0-OpenSSH");
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    fake_host_set_banner(bench->host, "");

    /* A declared port wins (decision 31). */
    fake_host_close_port(bench->host, 22);
    provider_bench_make(bench, "other",
                        "vm.cocoonstack.io/name=vk-o,cocoonset.cocoonstack.io/managed=true,cocoonset.cocoonstack.io/"
                        "image=m:1,cocoonset.cocoonstack.io/os=macos,vm.cocoonstack.io/probe-port=8080");
    fake_host_set_lease(bench->host, fake_macos_mac(bench->macos, "vk-o"), IP);
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "other"), "ready");
}
MACOS_TEST(macos__probes_the_banner, probes_the_banner)

static void repairs_itself(struct provider_bench *bench) {
    make_ready(bench);
    fake_macos_kill_guest(bench->macos, N);
    provider_bench_sleep(40000);
    ck_assert(fake_macos_is_up(bench->macos, N));
    ck_assert_str_eq(fake_macos_log(bench->macos), "vm inspect " N "\nvm start " N " vnc=0\nvm inspect " N "\n");
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    ck_assert_int_eq(entry_of(bench)->vm->pid, 4002);

    /* A start that fails is tried every 10 s at most. */
    fake_macos_log_clear(bench->macos);
    fake_macos_kill_guest(bench->macos, N);
    fake_macos_fail_next(bench->macos, "vm start", 0, "no", false);
    provider_bench_sleep(40000);
    ck_assert_str_eq(fake_macos_log(bench->macos), "vm inspect " N "\nvm start " N " vnc=0\n"
                                                   "vm inspect " N "\nvm start " N " vnc=0\nvm inspect " N "\n");
}
MACOS_TEST(macos__repairs_itself, repairs_itself)

static void waits_for_the_record(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    fake_macos_set_macs(bench->macos, false);
    provider_bench_make(bench, "demo-0", MAC_POD);
    connect_guest(bench);
    provider_bench_sleep(25000);
    ck_assert_str_eq(entry_of(bench)->probe.message, "waiting for vm record");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    fake_macos_set_macs(bench->macos, true);
    provider_bench_sleep(15000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_uint_eq(fake_macos_launches(bench->macos), 1);
}
MACOS_TEST(macos__waits_for_the_record, waits_for_the_record)

/* cocoon's events are not about macOS guests, even of an equal name. */
static void ignores_cocoons_events(struct provider_bench *bench) {
    struct vk_vm *record = vk_vm_new();

    make_ready(bench);
    record->id = "X";
    record->name = N;
    record->state = "stopped";
    fake_host_emit(bench->host, VK_EVENT_DELETED, record);
    provider_bench_sleep(3000);
    vk_vm_unref(record);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm inspect"), 0);
    ck_assert_uint_eq(fake_host_calls(bench->host, "vm start"), 0);
}
MACOS_TEST(macos__ignores_cocoons_events, ignores_cocoons_events)

/* --- update ---------------------------------------------------------------------------------------------------------
 */

static void refuses_to_hibernate(struct provider_bench *bench) {
    struct cc_err err = {0};

    make_ready(bench);
    ck_assert_int_ne(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", &err), 0);
    ck_assert_str_eq(err.msg, "macOS guest " N " does not support hibernate");
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert(provider_bench_has_event(bench, "Warning HibernateUnsupported: update: macOS guest " N
                                              " does not support hibernate"));
    ck_assert_double_eq(provider_bench_metric(bench, bench->provider->metrics.pod_lifecycle, "update", "failed", ""),
                        1);
    provider_bench_sleep(60000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "False");
    ck_assert(fake_macos_is_up(bench->macos, N));
    ck_assert_str_eq(fake_macos_log(bench->macos), "");
    ck_assert_str_eq(fake_host_log(bench->host), "");
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    provider_bench_sleep(1000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");
    CC_VECTOR("07-M5");
}
MACOS_TEST(macos__refuses_to_hibernate, refuses_to_hibernate)

/* Nobody refused anything: it was asked to sleep before it was made, and no longer when it was up. */
/* The API server took the state only without the message that tells why. */
static void lifts_a_refusal_without_words(struct provider_bench *bench) {
    make_ready(bench);
    fake_kube_fail(bench->server,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "PATCH", .path = "/pods/demo-0", .count = 1, .status = 422});
    ck_assert_int_ne(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}
MACOS_TEST(macos__lifts_a_refusal_without_words, lifts_a_refusal_without_words)

static void wish_withdrawn_after_boot(struct provider_bench *bench) {
    fake_macos_add_image(bench->macos, "m:1");
    provider_bench_make(bench, "demo-0", MAC_POD "," CC_KEY_HIBERNATE "=true");
    connect_guest(bench);
    provider_bench_sleep(30000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert(fake_macos_is_up(bench->macos, N));
}
MACOS_TEST(macos__wish_to_sleep_withdrawn_after_boot, wish_withdrawn_after_boot)

/* Any other failure stays; a lifted refusal waits for the probe. */
static void lifts_only_its_refusal(struct provider_bench *bench) {
    make_ready(bench);
    const struct cc_pod *pod = provider_bench_pod(bench, "demo-0");
    vk_lifecycle_publish(bench->provider, entry_of(bench), pod, CC_STATE_FAILED, "something else");
    cc_pod_unref(pod);
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", "x=y", NULL), 0);
    provider_bench_sleep(20000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");

    ck_assert_int_ne(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE "=true", NULL), 0);
    fake_host_set_neighbour(bench->host, "");
    provider_bench_sleep(60000); /* it stops answering */
    ck_assert_int_eq(provider_bench_change(bench, "demo-0", CC_KEY_HIBERNATE, NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "creating");
    fake_host_set_neighbour(bench->host, IP);
    provider_bench_sleep(10000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}
MACOS_TEST(macos__lifts_only_its_refusal, lifts_only_its_refusal)

/* --- delete ---------------------------------------------------------------------------------------------------------
 */

static void deletes(struct provider_bench *bench) {
    struct cc_err err = {0};
    char mac[32], line[64];

    make_ready(bench);
    snprintf(mac, sizeof mac, "%s", fake_macos_mac(bench->macos, N));
    fake_macos_fail_next(bench->macos, "vm rm", 0, "exit status 1 (output: guest is busy)", false);
    ck_assert_int_ne(provider_bench_delete(bench, "demo-0", &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "remove vm qemu-" N));
    ck_assert_ptr_nonnull(entry_of(bench)->vm);
    ck_assert(!entry_of(bench)->probe.ready);
    ck_assert_str_eq(fake_host_log(bench->host), ""); /* no lease released */
    fake_macos_kill_guest(bench->macos, N);
    provider_bench_sleep(30000);
    ck_assert(!fake_macos_is_up(bench->macos, N)); /* the probe is stopped: nobody starts it again */
    fake_macos_fail_next(bench->macos, "vm rm", CC_NOT_FOUND, "vm not found", true);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    snprintf(line, sizeof line, "release %s\n", mac);
    ck_assert_str_eq(fake_host_log(bench->host), line);
    ck_assert_str_eq(provider_bench_status(bench, "demo-0", "phase"), "Succeeded");
    ck_assert_ptr_null(entry_of(bench));
    CC_VECTOR("07-M6");
}
MACOS_TEST(macos__deletes, deletes)

/* Nothing is tracked: by the name of the spec, its lease from the record. */
static void deletes_untracked(struct provider_bench *bench) {
    fake_macos_add_guest(bench->macos, N, false, -1);
    fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, MAC_POD);
    ck_assert_int_eq(provider_bench_delete(bench, "demo-0", NULL), 0);
    ck_assert(!fake_macos_has_guest(bench->macos, N));
    ck_assert_uint_eq(fake_host_calls(bench->host, "release"), 1);
    ck_assert_uint_eq(fake_host_calls(bench->host, "snapshot rm"), 0);
}
MACOS_TEST(macos__deletes_untracked, deletes_untracked)

/* --- restart --------------------------------------------------------------------------------------------------------
 */

static void survives_a_restart(struct provider_bench *bench) {
    make_ready(bench);
    provider_bench_restart(bench);
    ck_assert_str_eq(fake_macos_log(bench->macos), "vm inspect " N "\n");
    ck_assert_ptr_nonnull(entry_of(bench)->vm);
    ck_assert_int_eq(entry_of(bench)->vnc_port, 5900);
    provider_bench_sleep(5000);
    ck_assert_str_eq(provider_bench_condition(bench, "demo-0", "Ready"), "True");

    /* Down when the daemon comes back: CreatePod starts it. */
    provider_bench_stop(bench);
    fake_macos_kill_guest(bench->macos, N);
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    ck_assert_ptr_null(entry_of(bench));
    provider_bench_drive(bench, 10000);
    ck_assert(fake_macos_is_up(bench->macos, N));
    ck_assert_uint_eq(fake_macos_launches(bench->macos), 2);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");

    /* The wish came and went while nobody was here. */
    provider_bench_stop(bench);
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE "=true");
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "failed");
    provider_bench_stop(bench);
    provider_bench_annotate(bench, "demo-0", CC_KEY_HIBERNATE);
    ck_assert_int_eq(provider_bench_start(bench, NULL), 0);
    provider_bench_sleep(3000);
    ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
    ck_assert_uint_eq(fake_macos_launches(bench->macos), 2);
}
MACOS_TEST(macos__survives_a_restart, survives_a_restart)

/* --- crashes: every call of a create or delete, before and after its effect
 * ------------------------------------------- */

static size_t die_at, calls_seen;
static bool die_after, is_delete;

struct operation {
    struct provider_bench *bench;
    const struct cc_pod *pod;
};

static void operate(void *argument) {
    struct operation *operation = argument;
    struct vk_provider *provider = operation->bench->provider;

    cc_ignore(is_delete ? vk_provider_delete(provider, operation->pod, NULL)
                        : vk_provider_create(provider, operation->pod, NULL),
              "the world is looked at");
}

static void crash(struct provider_bench *bench) {
    struct operation operation = {.bench = bench};

    fake_macos_add_image(bench->macos, "m:1");
    if (is_delete) {
        make_ready(bench);
        ck_assert(fake_kube_touch(bench->server, "pods", "ns", "demo-0", "{'metadata':{'finalizers':['test/keep']}}"));
        ck_assert_int_eq(
            fake_kube_request(bench->server, "DELETE", "/api/v1/namespaces/ns/pods/demo-0", NULL, NULL, NULL), 200);
    } else {
        fake_kube_put_pod(bench->server, "ns", "demo-0", "n1", NULL, MAC_POD);
    }
    operation.pod = provider_bench_pod(bench, "demo-0");
    vk_provider_observe(bench->provider, operation.pod);
    bench->calls = 0;
    bench->die_at = die_at;
    bench->die_after = die_after;
    bench->victim = cc_fiber_start(bench->loop, "operation", operate, &operation);
    cc_fiber_join(bench->victim);
    bench->victim = NULL;
    calls_seen = bench->calls;
    bench->is_dead = true;
    cc_pod_unref(operation.pod);
    provider_bench_restart(bench);
    fake_host_set_neighbour(bench->host, IP);
    for (int i = 0; i < 40; i++) {
        provider_bench_drive(bench, 1000);
        fake_host_set_lease(bench->host, fake_macos_mac(bench->macos, N), IP);
    }
    ck_assert_uint_eq(fake_macos_has_guest(bench->macos, N), !is_delete);
    ck_assert_uint_le(fake_macos_launches(bench->macos), 1);
    if (is_delete)
        ck_assert_ptr_null(fake_kube_get(bench->server, "pods", "ns", "demo-0"));
    else
        ck_assert_str_eq(provider_bench_state(bench, "demo-0"), "ready");
}

START_TEST(macos__crashes) {
    for (int round = 0; round < 2; round++) {
        is_delete = round == 1;
        die_at = 0;
        with(true, crash);
        size_t calls = calls_seen;

        ck_assert_uint_ge(calls, 3);
        for (size_t at = 1; at <= calls; at += (size_t)cc_test_sweep_step()) {
            for (int after = 0; after < 2; after++) {
                die_at = at;
                die_after = after;
                with(true, crash);
            }
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("provider macos");
    TCase *tcase = tcase_create("macos");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, macos__first_boot);
    tcase_add_test(tcase, macos__pulls_an_absent_image);
    tcase_add_test(tcase, macos__takes_what_is_there);
    tcase_add_test(tcase, macos__unknown_is_not_run);
    tcase_add_test(tcase, macos__failed_run);
    tcase_add_test(tcase, macos__needs_an_image);
    tcase_add_test(tcase, macos__vnc_claims);
    tcase_add_test(tcase, macos__vnc_runs_out);
    tcase_add_test(tcase, macos__vnc_password);
    tcase_add_test(tcase, macos__memory_and_cpus);
    tcase_add_test(tcase, macos__probes_the_banner);
    tcase_add_test(tcase, macos__repairs_itself);
    tcase_add_test(tcase, macos__waits_for_the_record);
    tcase_add_test(tcase, macos__ignores_cocoons_events);
    tcase_add_test(tcase, macos__refuses_to_hibernate);
    tcase_add_test(tcase, macos__lifts_a_refusal_without_words);
    tcase_add_test(tcase, macos__wish_to_sleep_withdrawn_after_boot);
    tcase_add_test(tcase, macos__lifts_only_its_refusal);
    tcase_add_test(tcase, macos__deletes);
    tcase_add_test(tcase, macos__deletes_untracked);
    tcase_add_test(tcase, macos__survives_a_restart);
    tcase_add_test(tcase, macos__crashes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
