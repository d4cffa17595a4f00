/* Goal: every cocoon call has exactly the words of contract/06. Method: the pure builders against the contract's
 * vectors. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "runtime/cli_arguments.h"
#include "runtime/resources.h"
#include "support/vectors.h"

static struct cc_arena arena;

static void tear_down(void) {
    cc_arena_done(&arena);
}

static const char *clone_words(struct vk_clone_options options, const char *restore_mode) {
    struct vk_arguments arguments = {.arena = &arena};
    struct cc_err err;

    ck_assert_msg(vk_arguments_clone(&arguments, &options, restore_mode, &err) == 0, "%s", err.msg);
    return vk_arguments_text(&arguments);
}

static const char *run_words(struct vk_run_options options) {
    struct vk_arguments arguments = {.arena = &arena};
    struct cc_err err;

    ck_assert_msg(vk_arguments_run(&arguments, &options, &err) == 0, "%s", err.msg);
    return vk_arguments_text(&arguments);
}

START_TEST(arguments__run) {
    ck_assert_str_eq(
        run_words((struct vk_run_options){
            .name = "a", .os = "linux", .backend = "cloud-hypervisor", .image = "r/y:1", .cpu = {.weight = 1}}),
        "vm run --output json --name a --cpu-weight 1 r/y:1");
    CC_VECTOR("06-1");
    ck_assert_str_eq(run_words((struct vk_run_options){
                         .name = "b", .backend = "firecracker", .image = "r/y:1", .cpu = {.weight = 1}}),
                     "vm run --output json --name b --cpu-weight 1 --fc r/y:1");
    CC_VECTOR("06-2");
    ck_assert_str_eq(run_words((struct vk_run_options){.name = "c", .os = "Windows", .image = "w"}),
                     "vm run --output json --name c --windows w");
    CC_VECTOR("06-3");
    ck_assert_str_eq(run_words((struct vk_run_options){.name = "d",
                                                       .cpus = 2,
                                                       .memory = vk_size_flag("4Gi", &arena),
                                                       .storage = vk_size_flag("20Gi", &arena),
                                                       .network = "n",
                                                       .image = "IMG",
                                                       .cpu = {.weight = 39}}),
                     "vm run --output json --name d --cpu 2 --cpu-weight 39 --memory 4294967296 "
                     "--storage 21474836480 --network n IMG");
    CC_VECTOR("06-4");
    ck_assert_str_eq(run_words((struct vk_run_options){.name = "e",
                                                       .no_direct_io = true,
                                                       .os = "windows",
                                                       .backend = "firecracker",
                                                       .image = "",
                                                       .cpu = {1, 100000, 100000}}),
                     "vm run --output json --name e --cpu-weight 1 --cpu-quota-us 100000 --cpu-period-us 100000 "
                     "--windows --fc --no-direct-io ");
}
END_TEST

START_TEST(arguments__clone) {
    ck_assert_str_eq(
        clone_words((struct vk_clone_options){.name = "v", .snapshot = "s", .backend = "cloud-hypervisor", .nics = 1},
                    "copy"),
        "vm clone --output json --name v --restore-mode copy --nics 1 s");
    CC_VECTOR("06-5");
    ck_assert_str_eq(
        clone_words((struct vk_clone_options){.name = "v", .snapshot = "s", .backend = "firecracker", .nics = 1},
                    "copy"),
        "vm clone --output json --name v s");
    CC_VECTOR("06-6");
    ck_assert_str_eq(clone_words((struct vk_clone_options){.name = "v", .from_dir = "/d/x", .nics = -1}, ""),
                     "vm clone --output json --name v --pull --from-dir /d/x");
    CC_VECTOR("06-7");
    ck_assert_str_eq(
        clone_words((struct vk_clone_options){.name = "v", .snapshot = "s", .nics = 0, .backend = "cloud-hypervisor"},
                    "mmap"),
        "vm clone --output json --name v --restore-mode mmap --nics 0 s");
    CC_VECTOR("06-8");
    ck_assert_str_eq(
        clone_words(
            (struct vk_clone_options){
                .name = "v", .network = "n", .no_direct_io = true, .pull = true, .snapshot = "s", .nics = -1},
            ""),
        "vm clone --output json --name v --network n --no-direct-io --pull s");
    CC_VECTOR("06-9");
    ck_assert_str_eq(
        clone_words((struct vk_clone_options){.name = "v", .snapshot = "s", .nics = -1, .cpu = {39, 100000, 100000}},
                    ""),
        "vm clone --output json --name v --cpu-weight 39 --cpu-quota-us 100000 --cpu-period-us 100000 s");
    CC_VECTOR("06-9a");
    /* Windows restores with copy whatever the node says. */
    ck_assert_str_eq(
        clone_words((struct vk_clone_options){.name = "v", .snapshot = "s", .nics = -1, .os = "windows"}, "mmap"),
        "vm clone --output json --name v --restore-mode copy s");
}
END_TEST

START_TEST(arguments__exec) {
    const char *words[] = {"sh", "-c", "x"};
    struct cc_strmap env = {0};
    struct vk_exec_options options = {.vm_id = "id", .argv = words, .argc = 3, .env = &env};
    struct vk_arguments with_stdin = {.arena = &arena}, without = {.arena = &arena}, bad = {.arena = &arena};
    struct cc_err err;

    cc_strmap_set(&env, &arena, "B", "2");
    cc_strmap_set(&env, &arena, "A", "1");
    ck_assert_int_eq(vk_arguments_exec(&with_stdin, &options, true, &err), 0);
    ck_assert_str_eq(vk_arguments_text(&with_stdin), "vm exec -i -e A=1 -e B=2 id -- sh -c x");
    CC_VECTOR("06-10");
    options.env = NULL;
    ck_assert_int_eq(vk_arguments_exec(&without, &options, false, &err), 0);
    ck_assert_str_eq(vk_arguments_text(&without), "vm exec id -- sh -c x");
    CC_VECTOR("06-11");
    options.argc = 0;
    ck_assert_int_eq(vk_arguments_exec(&bad, &options, false, &err), CC_INVALID);
    options.argc = 3;
    options.vm_id = "";
    ck_assert_int_eq(vk_arguments_exec(&bad, &options, false, &err), CC_INVALID);
}
END_TEST

static const char *restore_mode_variable;

static const char *read_variable(void *ctx, const char *name) {
    (void)ctx;
    return strcmp(name, "VK_RESTORE_MODE") == 0 ? restore_mode_variable
           : strcmp(name, "OCI_REGISTRY") == 0  ? "none"
                                                : NULL;
}

START_TEST(arguments__restore_mode) {
    const struct vk_environment environment = {.getenv = read_variable};
    struct vk_clone_options clone = {.name = "v", .snapshot = "s", .nics = -1};
    struct vk_options options = {0}, refused = {0};
    struct cc_err err;

    restore_mode_variable = " MMAP ";
    ck_assert_msg(vk_options_read_rest(&environment, &options, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(clone_words(clone, options.restore_mode), "vm clone --output json --name v --restore-mode mmap s");
    restore_mode_variable = "fast";
    ck_assert_int_ne(vk_options_read_rest(&environment, &refused, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, "VK_RESTORE_MODE"));
    clone.os = "windows";
    ck_assert_str_eq(clone_words(clone, options.restore_mode), "vm clone --output json --name v --restore-mode copy s");
    CC_VECTOR("06-24");
    vk_options_done(&options);
    vk_options_done(&refused);
}
END_TEST

#define WORDS(call)                                                                                                    \
    __extension__({                                                                                                    \
        struct vk_arguments words = {.arena = &arena};                                                                 \
        struct cc_err err;                                                                                             \
        ck_assert_int_eq((call), 0);                                                                                   \
        vk_arguments_text(&words);                                                                                     \
    })

START_TEST(arguments__vm_calls) {
    struct vk_arguments list = {.arena = &arena}, events = {.arena = &arena};

    ck_assert_str_eq(WORDS(vk_arguments_logs(&words, "id", 0, &err)), "vm logs --tail 200 id");
    CC_VECTOR("06-13");
    ck_assert_str_eq(WORDS(vk_arguments_logs(&words, "id", 7, &err)), "vm logs --tail 7 id");
    ck_assert_str_eq(WORDS(vk_arguments_vm_net(&words, "id", 0, &err)), "vm net --nics 0 id");
    CC_VECTOR("06-14");
    ck_assert_str_eq(WORDS(vk_arguments_vm_inspect(&words, "a", &err)), "vm inspect a");
    ck_assert_str_eq(WORDS(vk_arguments_vm_start(&words, "id", &err)), "vm start id");
    ck_assert_str_eq(WORDS(vk_arguments_vm_remove(&words, "id", &err)), "vm rm --force id");
    ck_assert_str_eq(WORDS(vk_arguments_reclaim(&words, "id", &err)), "vm reconcile-stale-create id -o json");
    vk_arguments_vm_list(&list);
    ck_assert_str_eq(vk_arguments_text(&list), "vm list -o json");
    vk_arguments_events(&events);
    ck_assert_str_eq(vk_arguments_text(&events), "vm status --event --format json");
}
END_TEST

START_TEST(arguments__snapshot_and_image_calls) {
    ck_assert_str_eq(WORDS(vk_arguments_image_pull(&words, "ref", true, &err)), "image pull --force ref");
    CC_VECTOR("06-15");
    ck_assert_str_eq(WORDS(vk_arguments_image_pull(&words, "ref", false, &err)), "image pull ref");
    ck_assert_str_eq(WORDS(vk_arguments_image_inspect(&words, "sha256:1", &err)), "image inspect sha256:1");
    ck_assert_str_eq(WORDS(vk_arguments_image_import(&words, "r:t", &err)), "image import r:t");
    ck_assert_str_eq(WORDS(vk_arguments_snapshot_save(&words, "n", "id", &err)), "snapshot save --name n id");
    ck_assert_str_eq(WORDS(vk_arguments_snapshot_inspect(&words, "n", &err)), "snapshot inspect n");
    ck_assert_str_eq(WORDS(vk_arguments_snapshot_remove(&words, "n", &err)), "snapshot rm n");
    ck_assert_str_eq(WORDS(vk_arguments_snapshot_import(&words, "n", &err)), "snapshot import --name n");
    ck_assert_str_eq(WORDS(vk_arguments_snapshot_export(&words, "n", &err)), "snapshot export n -o -");
}
END_TEST

/* Names come from annotations that anybody may have written. */
START_TEST(arguments__a_name_never_becomes_an_option) {
    struct vk_arguments words = {.arena = &arena};
    struct cc_err err;

    ck_assert_int_eq(vk_arguments_vm_remove(&words, "--all", &err), CC_INVALID);
    ck_assert_int_eq(vk_arguments_vm_remove(&words, "", &err), CC_INVALID);
    ck_assert_int_eq(vk_arguments_snapshot_remove(&words, "-f", &err), CC_INVALID);
    ck_assert_int_eq(vk_arguments_image_pull(&words, "--root-dir=/", false, &err), CC_INVALID);
    ck_assert_int_eq(vk_arguments_run(&words, &(struct vk_run_options){.name = "a", .image = "--fc"}, &err),
                     CC_INVALID);
    ck_assert_int_eq(
        vk_arguments_clone(&words, &(struct vk_clone_options){.name = "a", .snapshot = "-x", .nics = -1}, "", &err),
        CC_INVALID);
    ck_assert_int_eq(
        vk_arguments_clone(&words, &(struct vk_clone_options){.name = "a", .from_dir = "d", .nics = -1}, "", &err),
        CC_INVALID);
}
END_TEST

START_TEST(arguments__vector_starts_with_the_program) {
    struct vk_arguments words = {.arena = &arena};

    vk_arguments_vm_list(&words);
    const char *const *vector = vk_arguments_vector(&words, "/bin/cocoon");
    ck_assert_str_eq(vector[0], "/bin/cocoon");
    ck_assert_str_eq(vector[4], "json");
    ck_assert_ptr_null(vector[5]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime_arguments");
    TCase *cases = tcase_create("arguments");

    tcase_add_checked_fixture(cases, NULL, tear_down);
    tcase_add_test(cases, arguments__run);
    tcase_add_test(cases, arguments__clone);
    tcase_add_test(cases, arguments__restore_mode);
    tcase_add_test(cases, arguments__exec);
    tcase_add_test(cases, arguments__vm_calls);
    tcase_add_test(cases, arguments__snapshot_and_image_calls);
    tcase_add_test(cases, arguments__a_name_never_becomes_an_option);
    tcase_add_test(cases, arguments__vector_starts_with_the_program);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
