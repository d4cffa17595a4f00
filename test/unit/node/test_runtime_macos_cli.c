/* Goal: cocoon-macos is called exactly as contract/06 chapter 10 says, takes nothing for absent that it did not say,
 * and is asked to end before it is killed. Method: a shell script plays the CLI and logs its arguments. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "obs/log.h"
#include "runtime/macos_cli.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

static char directory[64], binary[128], log_path[128];
static struct vk_macos_cli *cli;
static struct vk_macos macos;

static void set_up(void) {
    snprintf(directory, sizeof directory, "/tmp/vk-macos-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(binary, sizeof binary, "%s/cocoon-macos", directory);
    snprintf(log_path, sizeof log_path, "%s/log", directory);
    cli = vk_macos_cli_new(&(struct vk_macos_cli_options){.binary = binary, .vnc_password = "s3cret", .grace_ms = 700});
    macos = vk_macos_cli_port(cli);
    cc_log_set_level(CC_LOG_ERROR);
}

static void tear_down(void) {
    vk_macos_cli_free(cli);
    unlink(binary);
    unlink(log_path);
    rmdir(directory);
}

static void write_script(const char *body) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    fprintf(file, "#!/bin/sh\nD=%s\nprintf '%%s\\n' \"$*\" >>$D/log\n%s\n", directory, body);
    fclose(file);
    ck_assert_int_eq(cc_file_replace(binary, text, bytes, 0755, NULL), 0);
    free(text);
    unlink(log_path);
}

static const char *calls(void) {
    static char text[4096];
    FILE *file = fopen(log_path, "r");
    size_t count = file ? fread(text, 1, sizeof text - 1, file) : 0;

    text[count] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void words_are_exact(void *arg) {
    struct vk_macos_run_options options = {
        .name = "a", .image = "m:1", .cpus = 4, .memory_mib = 8192, .vnc_display = 7, .storage = "107374182400"};
    bool present = false;

    (void)arg;
    write_script("echo 'a (pid 3)'");
    ck_assert(macos.has_vnc);
    ck_assert_int_eq(macos.ops->run(macos.ctx, &options, NULL), 0);
    options = (struct vk_macos_run_options){
        .name = "a", .image = "m:1", .cpus = 2, .memory_mib = 100, .vnc_display = VK_MACOS_VNC_OFF, .storage = ""};
    ck_assert_int_eq(macos.ops->run(macos.ctx, &options, NULL), 0);
    ck_assert_int_eq(macos.ops->start(macos.ctx, "a", 0, NULL), 0);
    ck_assert_int_eq(macos.ops->start(macos.ctx, "a", VK_MACOS_VNC_OFF, NULL), 0);
    ck_assert_int_eq(macos.ops->remove(macos.ctx, "a", NULL), 0);
    ck_assert_int_eq(macos.ops->image_present(macos.ctx, "m:1", &present, NULL), 0);
    ck_assert(present);
    ck_assert_int_eq(macos.ops->image_pull(macos.ctx, "m:1", NULL), 0);
    ck_assert_str_eq(calls(), "vm run --name a --cpus 4 --memory 8192 --vnc 7 --vnc-password s3cret "
                              "--storage 107374182400 --exit-on-reboot --random-smbios --net cni m:1\n"
                              "vm run --name a --cpus 2 --memory 100 --exit-on-reboot --random-smbios --net cni m:1\n"
                              "vm start --vnc 0 --vnc-password s3cret a\n"
                              "vm start a\n"
                              "vm rm a\n"
                              "image inspect m:1\n"
                              "image pull m:1\n");
    unlink(log_path);
    ck_assert_int_eq(macos.ops->start(macos.ctx, "-a", 0, NULL), CC_INVALID);
    ck_assert_int_eq(macos.ops->remove(macos.ctx, "", NULL), CC_INVALID);
    options.image = "--help";
    ck_assert_int_eq(macos.ops->run(macos.ctx, &options, NULL), CC_INVALID);
    ck_assert_str_eq(calls(), "");
}
START_TEST(macos_cli__words_are_exact) {
    set_up();
    cc_test_run(words_are_exact, NULL);
    tear_down();
}
END_TEST

static void reads_records(void *arg) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct vk_macos_record record;

    (void)arg;
    write_script("echo noise >&2; echo '{\"name\":\"a\",\"image\":\"m:1\",\"pid\":77,\"mac\":\"02:00:00:00:00:01\","
                 "\"tap\":\"t0\",\"disk\":\"/d.qcow2\",\"vnc\":7,\"more\":[1]}'");
    ck_assert_int_eq(macos.ops->inspect(macos.ctx, "a", &arena, &record, NULL), 0);
    ck_assert_str_eq(record.name, "a");
    ck_assert_str_eq(record.mac, "02:00:00:00:00:01");
    ck_assert_str_eq(record.tap, "t0");
    ck_assert_str_eq(record.disk, "/d.qcow2");
    ck_assert_int_eq(record.pid, 77);
    ck_assert_int_eq(record.vnc_display, 7);
    write_script("echo '{\"name\":\"a\",\"pid\":-4,\"vnc\":\"x\"}'");
    ck_assert_int_eq(macos.ops->inspect(macos.ctx, "a", &arena, &record, NULL), 0);
    ck_assert_int_eq(record.pid, 0);
    ck_assert_int_eq(record.vnc_display, VK_MACOS_VNC_OFF);
    ck_assert(macos.ops->is_alive(macos.ctx, getpid()));
    ck_assert(!macos.ops->is_alive(macos.ctx, 0));
}

/* Absent is what the CLI says; garbage, a missing binary and other failures are inconclusive. */
static void absent_and_unknown(void *arg) {
    static const struct {
        const char *script;
        int code;
    } rows[] = {
        {"echo 'read vm record: open /v/a/vm.json: no such file or directory' >&2; exit 1", CC_NOT_FOUND},
        {"echo 'VM Not Found'; exit 1", CC_NOT_FOUND},
        {"echo 'permission denied' >&2; exit 1", CC_IO},
        {"exit 1", CC_IO},
        {"echo '{}'", CC_PROTOCOL},
        {"echo '{\"name\":\"  \"}'", CC_PROTOCOL},
        {"echo 'no such luck'", CC_PROTOCOL},
        {"echo '[]'", CC_PROTOCOL},
        {"kill -9 $$", CC_IO},
    };
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct vk_macos_record record;
    struct cc_err err = {0};

    (void)arg;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        write_script(rows[i].script);
        ck_assert_msg(macos.ops->inspect(macos.ctx, "a", &arena, &record, &err) == rows[i].code, "%s: %s",
                      rows[i].script, err.msg);
    }
    unlink(binary);
    ck_assert_int_eq(macos.ops->inspect(macos.ctx, "a", &arena, &record, &err), CC_IO);
    ck_assert_int_eq(macos.ops->remove(macos.ctx, "a", &err), CC_IO);
    bool present = true;
    ck_assert_int_eq(macos.ops->image_present(macos.ctx, "m", &present, &err), CC_IO);
    write_script("echo 'rm: open vm.json: no such file' >&2; exit 1");
    ck_assert_int_eq(macos.ops->remove(macos.ctx, "a", &err), CC_NOT_FOUND);
    CC_VECTOR("06-90");
    ck_assert_int_eq(macos.ops->image_present(macos.ctx, "m", &present, &err), 0);
    ck_assert(!present);
}
START_TEST(macos_cli__records) {
    set_up();
    cc_test_run(reads_records, NULL);
    cc_test_run(absent_and_unknown, NULL);
    tear_down();
}
END_TEST

/* The password is in the arguments only. */
static void hides_the_password(void *arg) {
    struct cc_err err = {0};

    (void)arg;
    write_script("echo out; echo \"bad argument $4\" >&2; exit 3");
    ck_assert_int_eq(macos.ops->start(macos.ctx, "a", 1, &err), CC_IO);
    ck_assert_msg(strstr(err.msg, "exit status 3"), "%s", err.msg);
    ck_assert_ptr_nonnull(strstr(err.msg, "out"));
    ck_assert_ptr_null(strstr(err.msg, "s3cret"));
}
START_TEST(macos_cli__hides_the_password) {
    set_up();
    cc_test_run(hides_the_password, NULL);
    tear_down();
}
END_TEST

/* A launch that is given up cleans up after itself; one that does not listen is killed. */
static void ends_gently(void *arg) {
    struct cc_err err = {0};

    (void)arg;
    write_script("trap 'echo cleaned >>$D/log; exit 1' TERM; while :; do sleep 0.05; done");
    {
        CC_DEADLINE_MS(300);
        ck_assert_int_eq(macos.ops->start(macos.ctx, "a", -1, &err), CC_TIMEOUT);
    }
    ck_assert_str_eq(calls(), "vm start a\ncleaned\n");
    struct cc_mono start = cc_now_mono();

    write_script("trap '' TERM; while :; do sleep 0.05; done");
    {
        CC_DEADLINE_MS(300);
        ck_assert_int_eq(macos.ops->remove(macos.ctx, "a", &err), CC_TIMEOUT);
    }
    ck_assert_int_ge(cc_mono_diff_ms(cc_now_mono(), start), 900);
}
START_TEST(macos_cli__ends_gently) {
    set_up();
    cc_test_run(ends_gently, NULL);
    tear_down();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime macos cli");
    TCase *tcase = tcase_create("macos_cli");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, macos_cli__words_are_exact);
    tcase_add_test(tcase, macos_cli__records);
    tcase_add_test(tcase, macos_cli__hides_the_password);
    tcase_add_test(tcase, macos_cli__ends_gently);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
