/* Goal: every choice that decides over a guest is a table, and the tables are the contract's. contract/07
 * 4, 5.3, 5.4, 8.2, 13.1, 14.3. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "provider/provider_internal.h"
#include "support/api_objects.h"
#include "support/vectors.h"

static const struct cc_pod *pod_with(const char *annotations, const char *rest) {
    char *text cc_cleanup(cc_free_p) = cc_xasprintf(
        "{'metadata':{'name':'demo-0','namespace':'ns','uid':'u','annotations':{%s}}%s}", annotations, rest);

    return api_pod(text);
}

START_TEST(gate__compares_classes) {
    static const struct {
        const char *own, *phase;
        bool passes;
        const char *word;
    } rows[] = {{"a", "Running", true, NULL},
                {"", "Running", false, "unclassified"},
                {"b", "Running", false, "class"},
                {"b", "Succeeded", true, NULL},
                {"", "Failed", true, NULL}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        char *rest cc_cleanup(cc_free_p) =
            cc_xasprintf(",'spec':{'nodeSelector':{'cocoonstack.io/snapshot-cpu-class':'a'}},'status':{'phase':'%s'}",
                         rows[i].phase);
        const struct cc_pod *pod = pod_with("", rest);
        struct cc_err err = {0};

        ck_assert_int_eq(vk_cpu_class_check(pod, rows[i].own, "n1", &err) == 0, rows[i].passes);
        if (rows[i].word)
            ck_assert_ptr_nonnull(strstr(err.msg, rows[i].word));
        cc_pod_unref(pod);
    }
}
END_TEST

START_TEST(evidence__follows_the_table) {
    static const struct {
        bool marked;
        enum vk_evidence_kind kind;
        bool explicit_source;
        const char *recorded, *pod;
        enum vk_verdict verdict;
    } rows[] = {
        {false, VK_EVIDENCE_NONE, true, "", "i:1", VK_VERDICT_FRESH},
        {false, VK_EVIDENCE_NONE, false, "", "i:1", VK_VERDICT_FRESH},
        {false, VK_EVIDENCE_UNAVAILABLE, false, "", "i:1", VK_VERDICT_UNAVAILABLE},
        {false, VK_EVIDENCE_FOUND, true, "", "i:1", VK_VERDICT_SOURCE_CONFLICT},
        {false, VK_EVIDENCE_FOUND, false, "i:1", "i:2", VK_VERDICT_IMAGE_CONFLICT},
        {false, VK_EVIDENCE_FOUND, false, "i:1", "i:1", VK_VERDICT_RESTORE_FOUND},
        {false, VK_EVIDENCE_FOUND, false, "", "i:2", VK_VERDICT_RESTORE_FOUND},
        {true, VK_EVIDENCE_UNAVAILABLE, false, "", "i:1", VK_VERDICT_UNAVAILABLE},
        {true, VK_EVIDENCE_FOUND, true, "i:1", "i:2", VK_VERDICT_IMAGE_CONFLICT},
        {true, VK_EVIDENCE_FOUND, true, "i:1", "i:1", VK_VERDICT_RESTORE_MARKED},
        {true, VK_EVIDENCE_FOUND, true, "", "i:2", VK_VERDICT_RESTORE_MARKED},
        {true, VK_EVIDENCE_NONE, true, "", "i:1", VK_VERDICT_RESTORE_MARKED},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++)
        ck_assert_int_eq(
            vk_evidence_judge(rows[i].marked, rows[i].kind, rows[i].explicit_source, rows[i].recorded, rows[i].pod),
            rows[i].verdict);
}
END_TEST

START_TEST(path__follows_the_order) {
    static const struct {
        bool managed;
        const char *mode, *fork, *dir;
        bool restore;
        int rc;
        enum vk_path path;
    } rows[] = {
        {false, "run", "s", "rel", false, 0, VK_PATH_UNMANAGED},
        {true, "run", "s", "", true, 0, VK_PATH_RESTORE},
        {true, "run", "", "", false, 0, VK_PATH_RUN},
        {true, "RUN", "", "", false, 0, VK_PATH_RUN},
        {true, "", "", "", false, 0, VK_PATH_CLONE},
        {true, "odd", "", "", false, 0, VK_PATH_CLONE},
        {true, "run", "s", "", false, 0, VK_PATH_FORK},
        {true, "clone", "", " /var/lib/x ", false, 0, VK_PATH_FROM_DIR},
        {true, "clone", "", "  ", false, 0, VK_PATH_CLONE},
        {true, "run", "", "/var/lib/x", false, CC_INVALID, 0},
        {true, "clone", "s", "/var/lib/x", false, CC_INVALID, 0},
        {true, "clone", "", "rel/p", false, CC_INVALID, 0},
        {true, "clone", "", "/a/../b", false, CC_INVALID, 0},
        {true, "clone", "", "/a//b", false, CC_INVALID, 0},
        {true, "clone", "", "/a/", false, CC_INVALID, 0},
        {true, "clone", "", "/a/./b", false, CC_INVALID, 0},
        {true, "clone", "", "/a/...", false, 0, VK_PATH_FROM_DIR},
        {true, "clone", "", "/a/../b", true, CC_INVALID, 0},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_vm_spec spec = {.managed = rows[i].managed, .mode = rows[i].mode, .fork_from = rows[i].fork};
        struct cc_arena arena = {0};
        enum vk_path path = VK_PATH_CLONE;
        const char *dir = "";

        ck_assert_int_eq(vk_path_choose(&spec, rows[i].dir, rows[i].restore, &arena, &path, &dir, NULL), rows[i].rc);
        if (rows[i].rc == 0)
            ck_assert_int_eq(path, rows[i].path);
        if (rows[i].rc == 0 && path == VK_PATH_FROM_DIR)
            ck_assert_int_eq(dir[0], '/');
        cc_arena_done(&arena);
    }
    CC_VECTOR("07-P2");
}
END_TEST

START_TEST(action__follows_the_table) {
    static const struct {
        struct vk_action_input input;
        enum vk_action action;
    } rows[] = {
        {{true, true, false, false, "ready", false, false}, VK_ACTION_HIBERNATE},
        {{true, true, false, true, "failed", false, false}, VK_ACTION_HIBERNATE},
        {{false, false, false, false, "hibernated", false, false}, VK_ACTION_WAKE},
        {{false, false, false, false, "failed", false, false}, VK_ACTION_WAKE},
        {{true, false, false, false, "hibernated", false, false}, VK_ACTION_NONE},
        {{true, false, false, false, "hibernating", false, false}, VK_ACTION_SETTLE},
        {{true, false, false, false, "", false, false}, VK_ACTION_SETTLE},
        {{false, true, false, false, "ready", false, false}, VK_ACTION_NONE},
        {{false, true, false, false, "failed", false, false}, VK_ACTION_NONE},
        {{false, true, false, true, "failed", false, false}, VK_ACTION_RECOVER},
        {{false, true, false, false, "creating", true, false}, VK_ACTION_RECOVER},
        /* Its wake could not say so: an operator that lagged had set the generation back meanwhile. */
        {{false, true, false, false, "hibernated", false, false}, VK_ACTION_RECOVER},
        {{false, true, false, false, "failed", false, true}, VK_ACTION_JUDGE},
        {{true, true, false, false, "failed", false, true}, VK_ACTION_HIBERNATE},
        {{true, true, false, false, "creating", true, false}, VK_ACTION_HIBERNATE},
        {{false, true, false, false, "hibernating", false, false}, VK_ACTION_RECOVER},
        {{false, true, true, true, "failed", false, false}, VK_ACTION_REMOVE},
        {{true, true, true, true, "failed", false, false}, VK_ACTION_REMOVE},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++)
        ck_assert_int_eq(vk_action_choose(&rows[i].input), rows[i].action);
}
END_TEST

#define MANAGED "'cocoonset.cocoonstack.io/managed':'true','vm.cocoonstack.io/name':'v',"
#define STATE(text) "'vm.cocoonstack.io/lifecycle-state':'" text "'"
#define MARK(text) "'vm.cocoonstack.io/post-clone-state':'" text "'"
#define GENERATIONS(observed, wanted)                                                                                  \
    "'vm.cocoonstack.io/lifecycle-observed-generation':'" observed "','cocoonset.cocoonstack.io/generation':'" wanted  \
    "'"
#define WINDOWS "'cocoonset.cocoonstack.io/os':'windows','vm.cocoonstack.io/backend':'cloud-hypervisor'"
#define SLEEP "'vm.cocoonstack.io/hibernate':'true'"

START_TEST(resume__follows_the_table) {
    static const struct {
        const char *annotations;
        enum vk_resume resume;
    } rows[] = {
        {MANAGED STATE("ready") "," SLEEP, VK_RESUME_HIBERNATE},
        {MANAGED STATE("ready"), VK_RESUME_NONE},
        {MANAGED STATE("failed"), VK_RESUME_NONE},
        /* A hibernate that failed and was then taken back. */
        {MANAGED STATE("failed") "," GENERATIONS("1", "2"), VK_RESUME_READY_WAIT},
        {MANAGED STATE("failed") "," GENERATIONS("2", "2"), VK_RESUME_READY_WAIT},
        {MANAGED STATE("failed") "," MARK("failed") "," GENERATIONS("1", "2"), VK_RESUME_NONE},
        {MANAGED MARK("failed") "," STATE("creating"), VK_RESUME_NONE},
        {MANAGED MARK("running") "," STATE("creating"), VK_RESUME_POST_CLONE},
        {MANAGED MARK("done") "," STATE("creating"), VK_RESUME_READY_WAIT},
        {MANAGED MARK("done"), VK_RESUME_READY_WAIT},
        {MANAGED STATE("creating") "," WINDOWS, VK_RESUME_CLASSIFY},
        {MANAGED STATE("creating") ",'vm.cocoonstack.io/backend':'firecracker'", VK_RESUME_POST_CLONE},
        {MANAGED STATE("creating"), VK_RESUME_READY_WAIT},
        {MANAGED STATE("hibernating"), VK_RESUME_READY_WAIT},
        /* Adopted by name before any state was written. */
        {MANAGED "'cocoonset.cocoonstack.io/mode':'run'", VK_RESUME_READY_WAIT},
        {MANAGED "'vm.cocoonstack.io/backend':'firecracker'", VK_RESUME_POST_CLONE},
        {"'vm.cocoonstack.io/name':'v'," STATE("creating"), VK_RESUME_NONE},
        {MANAGED STATE("creating") ",'cocoonset.cocoonstack.io/os':'macos'", VK_RESUME_NONE},
    };
    struct vk_vm *vm = vk_vm_new();

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct cc_pod *pod = pod_with(rows[i].annotations, "");

        ck_assert_msg(vk_resume_choose(pod, vm) == rows[i].resume, "row %zu", i);
        cc_pod_unref(pod);
    }
    vk_vm_unref(vm);
}
END_TEST

static struct vk_nic nics[] = {
    {.mac = "02:00:00:00:00:01", .is_static = true, .ip = "10.0.0.2", .gateway = "10.0.0.1", .prefix = 24},
    {.mac = "02:00:00:00:00:02", .ip = "", .gateway = ""},
};

static const char *script_of(const char *backend, bool is_cloud_image, struct cc_arena *arena) {
    struct cc_vm_spec spec = {.managed = true, .vm_name = "vk-a", .backend = backend, .os = "linux"};
    struct vk_vm vm = {.id = "i", .name = "vk-a", .nics = nics, .nic_count = 2};
    const char *const *argv;
    const char *hint;
    size_t argc;

    vk_post_clone_command(&spec, &vm, is_cloud_image, arena, &argv, &argc, &hint);
    ck_assert_uint_eq(argc, 3);
    ck_assert_str_eq(argv[0], "sh");
    ck_assert_str_eq(argv[1], "-c");
    ck_assert_str_eq(argv[2], hint);
    return hint;
}

START_TEST(post_clone__linux_scripts) {
    struct cc_arena arena = {0};

    ck_assert_str_eq(
        script_of("firecracker", false, &arena),
        "echo 3 > /proc/sys/vm/drop_caches\n"
        "echo vk-a > /etc/hostname\n"
        "ip link set dev eth0 down && ip link set dev eth0 address 02:00:00:00:00:01 && ip link set dev eth0 up\n"
        "ip link set dev eth1 down && ip link set dev eth1 address 02:00:00:00:00:02 && ip link set dev eth1 up\n"
        "rm -f /etc/systemd/network/10-*.network\n"
        "printf '[Match]\\nMACAddress=02:00:00:00:00:01\\n\\n[Network]\\nAddress=10.0.0.2/24\\nGateway=10.0.0.1\\n' > "
        "/etc/systemd/network/10-020000000001.network\n"
        "printf "
        "'[Match]\\nMACAddress=02:00:00:00:00:02\\n\\n[Network]\\nDHCP=ipv4\\n\\n[DHCPv4]\\nClientIdentifier=mac\\n' "
        "> /etc/systemd/network/10-020000000002.network\n"
        "systemctl restart systemd-networkd");
    ck_assert_str_eq(
        script_of("cloud-hypervisor", false, &arena),
        "echo 3 > /proc/sys/vm/drop_caches\n"
        "echo vk-a > /etc/hostname\n"
        "rm -f /etc/systemd/network/10-*.network\n"
        "printf '[Match]\\nMACAddress=02:00:00:00:00:01\\n\\n[Network]\\nAddress=10.0.0.2/24\\nGateway=10.0.0.1\\n' > "
        "/etc/systemd/network/10-020000000001.network\n"
        "printf "
        "'[Match]\\nMACAddress=02:00:00:00:00:02\\n\\n[Network]\\nDHCP=ipv4\\n\\n[DHCPv4]\\nClientIdentifier=mac\\n' "
        "> /etc/systemd/network/10-020000000002.network\n"
        "systemctl restart systemd-networkd");
    ck_assert_str_eq(script_of("cloud-hypervisor", true, &arena),
                     "echo 3 > /proc/sys/vm/drop_caches\n"
                     "echo vk-a > /etc/hostname\n"
                     "rm -f /etc/systemd/network/10-*.network\n"
                     "cloud-init clean --logs --seed --configs network && cloud-init init --local && cloud-init init\n"
                     "cloud-init modules --mode=config && systemctl restart systemd-networkd");
    cc_arena_done(&arena);
    CC_VECTOR("06-77");
    CC_VECTOR("06-78");
    CC_VECTOR("06-79");
}
END_TEST

START_TEST(post_clone__windows_argv) {
    struct cc_vm_spec spec = {.managed = true, .vm_name = "vk-a", .backend = "cloud-hypervisor", .os = "windows"};
    struct vk_vm vm = {.id = "i", .name = "vk-a", .nics = &nics[1], .nic_count = 1};
    struct cc_arena arena = {0};
    const char *const *argv;
    const char *hint;
    size_t argc;

    ck_assert(vk_post_clone_is_needed(&spec, &vm));
    vk_post_clone_command(&spec, &vm, false, &arena, &argv, &argc, &hint);
    ck_assert_uint_eq(argc, 4);
    ck_assert_str_eq(argv[0], "powershell");
    ck_assert_str_eq(argv[1], "-nop");
    ck_assert_str_eq(argv[2], "-c");
    ck_assert_str_eq(argv[3], "$x=Get-PnpDevice -Class Net -PresentOnly;$x|Disable-PnpDevice -Confirm:$false;"
                              "$x|Enable-PnpDevice -Confirm:$false");
    ck_assert_str_eq(hint, "powershell -nop -c '$x=Get-PnpDevice -Class Net -PresentOnly;$x|Disable-PnpDevice "
                           "-Confirm:$false;$x|Enable-PnpDevice -Confirm:$false'");
    cc_arena_done(&arena);
    CC_VECTOR("07-L3");
    CC_VECTOR("06-80");
}
END_TEST

START_TEST(post_clone__needed_only_where_the_network_must_change) {
    static const struct {
        const char *os, *backend;
        size_t first, count;
        bool is_needed;
        const char *kind;
    } rows[] = {
        {"linux", "cloud-hypervisor", 1, 1, false, "linux_static"},
        {"linux", "", 1, 0, false, "linux_static"},
        {"linux", "cloud-hypervisor", 0, 2, true, "linux_static"},
        {"linux", "firecracker", 1, 1, true, "linux_fc"},
        {"windows", "", 1, 1, true, "windows"},
        {"windows", "firecracker", 1, 0, true, "windows"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_vm_spec spec = {.managed = true, .os = rows[i].os, .backend = rows[i].backend};
        struct vk_vm vm = {.nics = &nics[rows[i].first], .nic_count = rows[i].count};

        ck_assert_int_eq(vk_post_clone_is_needed(&spec, &vm), rows[i].is_needed);
        ck_assert_str_eq(vk_post_clone_kind(&spec), rows[i].kind);
    }
    CC_VECTOR("06-76"); /* the image plays no part in it */
}
END_TEST

int main(void) {
    Suite *suite = suite_create("provider choices");
    TCase *tcase = tcase_create("tables");

    tcase_add_test(tcase, gate__compares_classes);
    tcase_add_test(tcase, evidence__follows_the_table);
    tcase_add_test(tcase, path__follows_the_order);
    tcase_add_test(tcase, action__follows_the_table);
    tcase_add_test(tcase, resume__follows_the_table);
    tcase_add_test(tcase, post_clone__linux_scripts);
    tcase_add_test(tcase, post_clone__windows_argv);
    tcase_add_test(tcase, post_clone__needed_only_where_the_network_must_change);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
