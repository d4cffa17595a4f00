/* Goal: the CLI adapter calls exactly what contract/06 says, and takes nothing for granted that cocoon did not
 * positively say. Method: a shell script written by each test plays cocoon; it logs its arguments. Rows of the contract
 * that need waiting are in test_runtime_save_procedure. */
#include <check.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/text.h"
#include "obs/log.h"
#include "provider/provider_internal.h"
#include "runtime/cocoon_cli.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

static char directory[64], binary[128], log_path[128];
static struct vk_cocoon_cli *cli;
static struct vk_runtime runtime;

static void set_up(void) {
    snprintf(directory, sizeof directory, "/tmp/vk-cli-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(binary, sizeof binary, "%s/cocoon", directory);
    snprintf(log_path, sizeof log_path, "%s/log", directory);
    cli = vk_cocoon_cli_new(&(struct vk_cocoon_cli_options){.binary = binary, .restore_mode = "mmap"});
    runtime = vk_cocoon_cli_port(cli);
    cc_log_set_level(CC_LOG_ERROR);
}

static void tear_down(void) {
    char path[160];

    vk_cocoon_cli_free(cli);
    unlink(binary);
    unlink(log_path);
    snprintf(path, sizeof path, "%s/data", directory);
    unlink(path);
    rmdir(directory);
}

/* The body sees the arguments as $*; $D is the test's directory. */
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
    static struct cc_buf log;

    cc_buf_done(&log);
    cc_buf_init(&log, 65536);
    cc_ignore(cc_file_read(log_path, &log, NULL), "no call, no log");
    return log.data;
}

static void forget_log(void) {
    unlink(log_path);
}

#define RUNNING "{\"id\":\"ABCDEFGHIJKLMNOPQRSTUVWXYZ\",\"state\":\"running\",\"pid\":7,\"config\":{\"name\":\"a\"}}"

/* --- inspect ------------------------------------------------------------------------------------------------------ */

static int inspect(const char *body, struct cc_err *err) {
    const struct vk_vm *vm = NULL;

    write_script(body);
    int rc = runtime.ops->inspect(runtime.ctx, "x", &vm, err);
    vk_vm_unref(vm);
    return rc;
}

static void inspects(void *arg) {
    struct cc_err err;

    (void)arg;
    ck_assert_int_eq(inspect("echo noise >&2; echo '" RUNNING "'", &err), 0);
    ck_assert_str_eq(calls(), "vm inspect x\n");
    ck_assert_int_eq(inspect("echo 'Error: inspect: vm x: VM not found' >&2; exit 1", &err), CC_NOT_FOUND);
    ck_assert_int_eq(err.code, CC_NOT_FOUND);
    CC_VECTOR("06-34");
    ck_assert_int_eq(inspect("echo 'no such vm' >&2; exit 1", &err), CC_NOT_FOUND);
    CC_VECTOR("06-35");
    ck_assert_int_eq(inspect("echo 'Error: config file not found' >&2; exit 1", &err), CC_IO);
    ck_assert_str_eq(err.msg, "cocoon vm inspect x: exit status 1 (stderr: Error: config file not found)");
    ck_assert_int_eq(inspect("echo 'permission denied' >&2; exit 1", &err), CC_IO);
    /* Said on stdout, or with success, it means nothing. */
    ck_assert_int_eq(inspect("echo 'vm not found'; exit 1", &err), CC_IO);
    ck_assert_int_eq(inspect("echo 'vm not found' >&2; exit 0", &err), CC_PROTOCOL);
    ck_assert_int_eq(inspect("kill -9 $$", &err), CC_IO);
    ck_assert_str_eq(err.msg, "cocoon vm inspect x: signal: SIGKILL (stderr: )");

    const struct vk_vm *vm = NULL;
    unlink(binary);
    ck_assert_int_eq(runtime.ops->inspect(runtime.ctx, "x", &vm, &err), CC_IO);
    ck_assert_int_eq(err.code, CC_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "vm inspect"));
    ck_assert_ptr_nonnull(strstr(err.msg, binary));
    CC_VECTOR("06-36");
}

START_TEST(cli__inspect_tells_absent_from_unknown) {
    cc_test_run(inspects, NULL);
}
END_TEST

/* The error is in the last line; what comes before is noise of any length. */
static void inspects_noise(void *arg) {
    struct cc_err err;

    (void)arg;
    ck_assert_int_eq(inspect("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
                             "echo \"level=info msg=working on something that takes a long line\" >&2; done; "
                             "echo 'Error: write: no space left on device' >&2; exit 3",
                             &err),
                     CC_IO);
    ck_assert_int_eq(err.status, 3);
    ck_assert_ptr_nonnull(strstr(err.msg, "no space left on device)"));
    ck_assert_ptr_nonnull(strstr(err.msg, "exit status 3 (stderr: ..."));
    ck_assert_int_eq(inspect("head -c 5000000 /dev/zero", &err), CC_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, binary));
    ck_assert_int_eq(inspect("echo '<html>'", &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, binary));
    ck_assert_ptr_nonnull(strstr(err.msg, "vm inspect"));
}

START_TEST(cli__messages_survive_noise) {
    cc_test_run(inspects_noise, NULL);
}
END_TEST

/* --- bring-up ----------------------------------------------------------------------------------------------------- */

static void brings_up(void *arg) {
    const struct vk_clone_options clone = {.name = "a", .snapshot = "s", .nics = -1, .cpu = {.weight = 1}};
    const struct vk_run_options run = {.name = "a", .image = "i"};
    const struct vk_vm *vm = NULL;
    struct cc_err err;

    (void)arg;
    write_script("echo '{}'");
    ck_assert_int_eq(runtime.ops->clone(runtime.ctx, &clone, &vm, &err), CC_PROTOCOL);
    ck_assert_ptr_null(vm);
    CC_VECTOR("06-32");
    write_script("echo '" RUNNING "'");
    ck_assert_int_eq(runtime.ops->clone(runtime.ctx, &clone, &vm, &err), 0);
    ck_assert_str_eq(vm->name, "a");
    ck_assert_str_eq(calls(), "vm clone --output json --name a --restore-mode mmap --cpu-weight 1 s\n");
    vk_vm_unref(vm);

    write_script("case $2 in run) echo '{\"id\":\"A2\",\"state\":\"created\",\"pid\":0}';; *) echo '{\"id\":\"A2\","
                 "\"state\":\"running\",\"pid\":9}';; esac");
    ck_assert_int_eq(runtime.ops->run(runtime.ctx, &run, &vm, &err), 0);
    ck_assert_int_eq(vm->pid, 9);
    ck_assert_str_eq(calls(), "vm run --output json --name a i\nvm inspect A2\n");
    CC_VECTOR("06-33");
    vk_vm_unref(vm);

    /* The VM was made: a look that says nothing does not lose it. */
    write_script("case $2 in run) echo '{\"id\":\"A2\",\"state\":\"created\",\"pid\":0}';; *) exit 1;; esac");
    ck_assert_int_eq(runtime.ops->run(runtime.ctx, &run, &vm, &err), 0);
    ck_assert_str_eq(vm->state, "created");
    vk_vm_unref(vm);

    write_script("echo '" RUNNING "'");
    ck_assert_int_eq(runtime.ops->run(runtime.ctx, &run, &vm, &err), 0);
    ck_assert_str_eq(calls(), "vm run --output json --name a i\n");
    vk_vm_unref(vm);
}

START_TEST(cli__bring_up) {
    cc_test_run(brings_up, NULL);
}
END_TEST

/* --- verbs without output ----------------------------------------------------------------------------------------- */

static void changes(void *arg) {
    enum vk_reclaim_outcome outcome;
    struct vk_vm_list list;
    struct cc_err err;

    (void)arg;
    write_script("exit 0");
    ck_assert_int_eq(runtime.ops->start(runtime.ctx, "A1", &err), 0);
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, "A1", &err), 0);
    ck_assert_int_eq(runtime.ops->resize_nics(runtime.ctx, "A1", 0, &err), 0);
    ck_assert_int_eq(runtime.ops->list(runtime.ctx, &list, &err), 0);
    ck_assert_uint_eq(list.count, 0);
    vk_vm_list_done(&list);
    ck_assert_str_eq(calls(), "vm start A1\nvm rm --force A1\nvm net --nics 0 A1\nvm list -o json\n");

    write_script("echo log line; echo 'Error: vm A1: VM not found' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, "A1", &err), CC_NOT_FOUND);
    ck_assert_str_eq(err.msg, "cocoon vm rm A1: exit status 1 (output: log line\nError: vm A1: VM not found)");
    CC_VECTOR("06-47");
    ck_assert_int_eq(runtime.ops->start(runtime.ctx, "A1", &err), CC_IO);
    ck_assert_int_eq(runtime.ops->remove(runtime.ctx, "--all", &err), CC_INVALID);

    write_script("echo '{\"id\":\"x\"}'");
    ck_assert_int_eq(runtime.ops->reclaim_stale_create(runtime.ctx, "x", &outcome, &err), CC_PROTOCOL);
    CC_VECTOR("06-39");
    write_script("echo '{\"id\":\"x\",\"outcome\":\"busy\"}'");
    ck_assert_int_eq(runtime.ops->reclaim_stale_create(runtime.ctx, "x", &outcome, &err), 0);
    ck_assert_int_eq(outcome, VK_RECLAIM_BUSY);
    ck_assert_str_eq(calls(), "vm reconcile-stale-create x -o json\n");
}

START_TEST(cli__changes_of_a_vm) {
    cc_test_run(changes, NULL);
}
END_TEST

/* --- guest commands ----------------------------------------------------------------------------------------------- */

static void executes(void *arg) {
    const char *words[] = {"sh", "-c", "x"};
    struct vk_exec_options options = {.vm_id = "A1", .argv = words, .argc = 3};
    struct cc_buf output cc_cleanup(cc_buf_done) = {0};
    struct cc_err err;
    int code = -1;

    (void)arg;
    cc_buf_init(&output, 16);
    write_script("echo out; echo err >&2; exit 7");
    ck_assert_int_eq(runtime.ops->exec(runtime.ctx, &options, &output, &code, &err), 0);
    ck_assert_int_eq(code, 7);
    ck_assert_str_eq(output.data, "out\nerr\n");
    ck_assert_str_eq(calls(), "vm exec A1 -- sh -c x\n");
    ck_assert_int_eq(runtime.ops->exec(runtime.ctx, &options, NULL, &code, &err), 0);
    ck_assert_int_eq(code, 7);

    /* Decision 45: 128 + signal, not the -1 of the contract. */
    write_script("kill -15 $$");
    ck_assert_int_eq(runtime.ops->exec(runtime.ctx, &options, NULL, &code, &err), 0);
    ck_assert_int_eq(code, 143);

    forget_log();
    options.argc = 0;
    ck_assert_int_eq(runtime.ops->exec(runtime.ctx, &options, NULL, &code, &err), CC_INVALID);
    options.argc = 3;
    options.vm_id = "";
    ck_assert_int_eq(runtime.ops->exec(runtime.ctx, &options, NULL, &code, &err), CC_INVALID);
    ck_assert_str_eq(calls(), "");
    CC_VECTOR("06-12");

    options.vm_id = "A1";
    unlink(binary);
    ck_assert_int_eq(runtime.ops->exec(runtime.ctx, &options, NULL, &code, &err), CC_IO);
    CC_VECTOR("06-48");
}

START_TEST(cli__exec) {
    cc_test_run(executes, NULL);
}
END_TEST

/* A hung guest command is abandoned at the deadline, and its cocoon with it. */
static void executes_for_ever(void *arg) {
    const char *words[] = {"sleep"};
    struct vk_exec_options options = {.vm_id = "A1", .argv = words, .argc = 1};
    struct cc_err err;
    int code;

    (void)arg;
    write_script("exec sleep 100");
    CC_DEADLINE_MS(30);
    ck_assert_int_eq(runtime.ops->exec(runtime.ctx, &options, NULL, &code, &err), CC_TIMEOUT);
    ck_assert_int_eq(err.code, CC_TIMEOUT);
}

START_TEST(cli__exec_hangs) {
    cc_test_run(executes_for_ever, NULL);
}
END_TEST

static void streams(void *arg) {
    const char *words[] = {"cat"};
    struct vk_exec_options options = {.vm_id = "A1", .argv = words, .argc = 1};
    struct cc_buf into cc_cleanup(cc_buf_done) = {0};
    struct cc_process *process = NULL;
    struct cc_exit status;
    char answer[16] = {0};
    size_t count;

    (void)arg;
    write_script("exec cat");
    ck_assert_int_eq(vk_cocoon_cli_exec_start(cli, &options, true, &process, NULL), 0);
    ck_assert_int_eq(cc_io_write_all(cc_process_in(process), "hello", 5, NULL), 0);
    cc_process_close_in(process);
    ck_assert_int_eq(cc_io_read(cc_process_out(process), answer, sizeof answer - 1, &count, NULL), 0);
    ck_assert_str_eq(answer, "hello");
    ck_assert_int_eq(cc_process_wait(process, &status, NULL), 0);
    ck_assert_int_eq(vk_exec_code_of(&status), 0);
    cc_process_free(process);
    ck_assert_str_eq(calls(), "vm exec -i A1 -- cat\n");

    cc_buf_init(&into, 1024);
    write_script("echo line; echo noise >&2");
    ck_assert_int_eq(vk_cocoon_cli_logs(cli, "A1", 0, &into, NULL), 0);
    ck_assert_str_eq(into.data, "line\n");
    ck_assert_str_eq(calls(), "vm logs --tail 200 A1\n");
}

START_TEST(cli__exec_with_streams_and_logs) {
    cc_test_run(streams, NULL);
}
END_TEST

/* --- snapshots and images ----------------------------------------------------------------------------------------- */

static void snapshots(void *arg) {
    struct vk_snapshot_record *record = NULL;
    struct vk_snapshot_list list;
    struct cc_err err;
    bool present = true;

    (void)arg;
    write_script("echo 'Error: inspect: snapshot not found' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->snapshot_inspect(runtime.ctx, "n", &record, &err), CC_NOT_FOUND);
    CC_VECTOR("06-37");
    write_script("echo 'Error: store not found' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->snapshot_inspect(runtime.ctx, "n", &record, &err), CC_IO);
    write_script("echo 'image \"x\": not found in any backend'; exit 1");
    ck_assert_int_eq(runtime.ops->image_present(runtime.ctx, "x", &present, &err), 0);
    ck_assert(!present);
    CC_VECTOR("06-38");
    write_script("echo whatever");
    ck_assert_int_eq(runtime.ops->image_present(runtime.ctx, "x", &present, &err), 0);
    ck_assert(present);
    write_script("echo 'not found' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->image_present(runtime.ctx, "x", &present, &err), CC_IO);

    write_script("echo 'Error: rm: resolve \"n\": snapshot not found' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->snapshot_remove(runtime.ctx, "n", &err), 0);
    CC_VECTOR("06-46");
    write_script("echo 'snapshot A is in use by an active clone/restore/export' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->snapshot_remove(runtime.ctx, "n", &err), CC_IO);
    ck_assert_str_eq(calls(), "snapshot rm n\n");

    write_script("echo '[{\"id\":\"A1\",\"name\":\"n\"}]'");
    ck_assert_int_eq(runtime.ops->snapshot_list(runtime.ctx, &list, &err), 0);
    ck_assert_uint_eq(list.count, 1);
    ck_assert_str_eq(calls(), "snapshot list -o json\n");
    vk_snapshot_list_done(&list);
    ck_assert_int_eq(runtime.ops->image_pull(runtime.ctx, "r", true, &err), 0);
    ck_assert_str_eq(calls(), "snapshot list -o json\nimage pull --force r\n");

    write_script("case \"$1 $2\" in 'snapshot save') if [ ! -e $D/data ]; then touch $D/data; "
                 "echo 'snapshot name \"n\" already in use by ABC' >&2; exit 1; fi;; "
                 "'vm inspect') echo '" RUNNING "';; esac");
    ck_assert_int_eq(runtime.ops->snapshot_save(runtime.ctx, "n", "A1", &err), 0);
    ck_assert_str_eq(calls(), "snapshot save --name n A1\nvm inspect A1\nsnapshot rm ABC\nsnapshot save --name n A1\n");
}

START_TEST(cli__snapshots_and_images) {
    cc_test_run(snapshots, NULL);
}
END_TEST

/* --- transfers ---------------------------------------------------------------------------------------------------- */

static void exports(void *arg) {
    struct vk_transfer *transfer = NULL;
    struct cc_reader reader;
    char bytes[64];
    size_t count, total = 0;
    struct cc_err err;

    (void)arg;
    write_script("echo noise >&2; printf archive; exit 0");
    ck_assert_int_eq(runtime.ops->snapshot_export(runtime.ctx, "n", &transfer, &reader, &err), 0);
    do {
        ck_assert_int_eq(reader.read(reader.ctx, bytes + total, sizeof bytes - total, &count, &err), 0);
        total += count;
    } while (count > 0);
    ck_assert_uint_eq(total, 7);
    ck_assert_int_eq(runtime.ops->transfer_finish(runtime.ctx, transfer, &err), 0);
    runtime.ops->transfer_free(runtime.ctx, transfer);
    ck_assert_str_eq(calls(), "snapshot export n -o -\n");

    /* The whole stream came, and yet the child says no. */
    write_script("printf archive; exit 4");
    ck_assert_int_eq(runtime.ops->snapshot_export(runtime.ctx, "n", &transfer, &reader, &err), 0);
    do
        ck_assert_int_eq(reader.read(reader.ctx, bytes, sizeof bytes, &count, &err), 0);
    while (count > 0);
    ck_assert_int_eq(runtime.ops->transfer_finish(runtime.ctx, transfer, &err), CC_IO);
    ck_assert_str_eq(err.msg, "cocoon snapshot export n: exit status 4");
    runtime.ops->transfer_free(runtime.ctx, transfer);

    /* It says why, after more noise than a pipe holds. */
    write_script("head -c 9000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo 'Error: disk on fire' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->snapshot_export(runtime.ctx, "n", &transfer, &reader, &err), 0);
    ck_assert_int_eq(reader.read(reader.ctx, bytes, sizeof bytes, &count, &err), 0);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(runtime.ops->transfer_finish(runtime.ctx, transfer, &err), CC_IO);
    ck_assert_msg(strstr(err.msg, "cocoon snapshot export n: exit status 1 (stderr: ..."), "%s", err.msg);
    ck_assert_msg(strstr(err.msg, "Error: disk on fire)"), "%s", err.msg);
    runtime.ops->transfer_free(runtime.ctx, transfer);

    /* Given up in the middle: the child is killed. */
    write_script("exec cat /dev/zero");
    ck_assert_int_eq(runtime.ops->snapshot_export(runtime.ctx, "n", &transfer, &reader, &err), 0);
    ck_assert_int_eq(reader.read(reader.ctx, bytes, sizeof bytes, &count, &err), 0);
    runtime.ops->transfer_free(runtime.ctx, transfer);

    unlink(binary);
    ck_assert_int_eq(runtime.ops->snapshot_export(runtime.ctx, "n", &transfer, &reader, &err), CC_IO);
}

START_TEST(cli__export) {
    cc_test_run(exports, NULL);
}
END_TEST

static const char *data(void) {
    static struct cc_buf content;
    char path[160];

    snprintf(path, sizeof path, "%s/data", directory);
    cc_buf_done(&content);
    cc_buf_init(&content, 65536);
    cc_ignore(cc_file_read(path, &content, NULL), "absent reads as empty");
    return content.data;
}

static void imports(void *arg) {
    struct vk_transfer *transfer = NULL;
    struct cc_writer writer;
    struct cc_err err;

    (void)arg;
    write_script("case $2 in import) cat >$D/data;; rm) echo 'snapshot not found' >&2; exit 1;; esac");
    ck_assert_int_eq(runtime.ops->snapshot_import(runtime.ctx, "n", &transfer, &writer, &err), 0);
    ck_assert_int_eq(writer.write(writer.ctx, "archive", 7, &err), 0);
    ck_assert_int_eq(runtime.ops->transfer_finish(runtime.ctx, transfer, &err), 0);
    runtime.ops->transfer_free(runtime.ctx, transfer);
    ck_assert_str_eq(data(), "archive");
    ck_assert_str_eq(calls(), "snapshot rm n\nsnapshot import --name n\n");

    /* Fail-closed: no import over a copy that could not be removed. */
    write_script("echo 'I/O error' >&2; exit 1");
    ck_assert_int_eq(runtime.ops->snapshot_import(runtime.ctx, "n", &transfer, &writer, &err), CC_IO);
    ck_assert_str_eq(calls(), "snapshot rm n\n");

    /* The importer refuses; its exit status is the verdict. */
    write_script("case $2 in import) cat >/dev/null; exit 1;; esac");
    ck_assert_int_eq(runtime.ops->snapshot_import(runtime.ctx, "n", &transfer, &writer, &err), 0);
    ck_assert_int_eq(writer.write(writer.ctx, "archive", 7, &err), 0);
    ck_assert_int_eq(runtime.ops->transfer_finish(runtime.ctx, transfer, &err), CC_IO);
    runtime.ops->transfer_free(runtime.ctx, transfer);

    /* It ends before it has read all: what it said counts, not the broken pipe. */
    static char much[65536];
    write_script("case $2 in import) echo 'Error: no room' >&2; exit 3;; esac");
    ck_assert_int_eq(runtime.ops->snapshot_import(runtime.ctx, "n", &transfer, &writer, &err), 0);
    int rc = 0;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 1000 && rc == 0; i++)
        rc = writer.write(writer.ctx, much, sizeof much, &err);
    ck_assert_int_eq(rc, CC_IO);
    ck_assert_str_eq(err.msg, "cocoon snapshot import n: exit status 3 (stderr: Error: no room)");
    runtime.ops->transfer_free(runtime.ctx, transfer);
    calls();

    write_script("cat >$D/data");
    ck_assert_int_eq(runtime.ops->image_import(runtime.ctx, "r:t", &transfer, &writer, &err), 0);
    ck_assert_int_eq(writer.write(writer.ctx, "QFI", 3, &err), 0);
    ck_assert_int_eq(runtime.ops->transfer_finish(runtime.ctx, transfer, &err), 0);
    runtime.ops->transfer_free(runtime.ctx, transfer);
    ck_assert_str_eq(data(), "QFI");
    ck_assert_str_eq(calls(), "image import r:t\n");
}

START_TEST(cli__import) {
    cc_test_run(imports, NULL);
}
END_TEST

/* contract/05 chapter 9, hazard: an importer that saw the end of a cut stream would take it for a whole one. It writes
 * its mark only after the end of its input. */
static void abandons_import(void *arg) {
    struct vk_transfer *transfer = NULL;
    struct cc_writer writer;

    (void)arg;
    for (int i = 0; i < 10; i++) {
        write_script("case $2 in import) while read -r line; do :; done; echo registered >$D/data;; esac");
        ck_assert_int_eq(runtime.ops->snapshot_import(runtime.ctx, "n", &transfer, &writer, NULL), 0);
        ck_assert_int_eq(writer.write(writer.ctx, "half\n", 5, NULL), 0);
        runtime.ops->transfer_free(runtime.ctx, transfer);
        ck_assert_str_eq(data(), "");
    }
}

START_TEST(cli__abandoned_import_registers_nothing) {
    cc_test_run(abandons_import, NULL);
}
END_TEST

/* --- events ------------------------------------------------------------------------------------------------------- */

struct seen {
    char text[1024];
    int started;
};

static void see(void *ctx, const struct vk_event *event) {
    static const char *const words[] = {"ADDED", "MODIFIED", "DELETED"};
    struct seen *seen = ctx;
    size_t used = strlen(seen->text);

    snprintf(seen->text + used, sizeof seen->text - used, "%s %s %s\n", words[event->type],
             *event->vm->id ? event->vm->id : event->vm->name, event->vm->state);
    /* Handlers may yield: the next event waits. */
    ck_assert_int_eq(cc_yield(NULL), 0);
}

static void see_start(void *ctx) {
    struct seen *seen = ctx;

    seen->started++;
}

static void watches(void *arg) {
    struct seen seen = {.text = ""};
    struct cc_err err;

    (void)arg;
    write_script(
        "echo '{\"event\":'; echo; echo '{\"event\":\"ADDED\",\"vm\":{\"id\":\"A1\",\"state\":\"running\"}}'; "
        "echo '{\"event\":\"MODIFIED\",\"vm\":{}}'; echo noise >&2; "
        "echo '{\"event\":\"DELETED\",\"vm\":{\"config\":{\"name\":\"n\"},\"state\":\"stopped (stale)\"}}'; exit 3");
    ck_assert_int_eq(runtime.ops->watch(runtime.ctx, see, see_start, &seen, &err), 0);
    ck_assert_str_eq(seen.text, "ADDED A1 running\nDELETED n stopped (stale)\n");
    ck_assert_int_eq(seen.started, 1);
    ck_assert_str_eq(calls(), "vm status --event --format json\n");
    CC_VECTOR("06-57");

    unlink(binary);
    ck_assert_int_eq(runtime.ops->watch(runtime.ctx, see, see_start, &seen, &err), CC_IO);
    ck_assert_int_eq(seen.started, 1);
}

START_TEST(cli__watch) {
    cc_test_run(watches, NULL);
}
END_TEST

/* A line of exactly 1 MiB passes; a longer one ends the stream although the child lives on. */
static void watches_long_lines(void *arg) {
    struct seen seen = {.text = ""};
    struct cc_err err;

    (void)arg;
    write_script(
        "printf '{\"event\":\"ADDED\",\"vm\":{\"id\":\"A1\",\"x\":\"'; head -c 1048535 /dev/zero | tr '\\0' x; "
        "printf '\"}}\\n'");
    ck_assert_int_eq(runtime.ops->watch(runtime.ctx, see, NULL, &seen, &err), 0);
    ck_assert_str_eq(seen.text, "ADDED A1 \n");

    seen.text[0] = '\0';
    write_script("echo '{\"event\":\"ADDED\",\"vm\":{\"id\":\"A1\"}}'; head -c 1048577 /dev/zero | tr '\\0' x; "
                 "echo; echo '{\"event\":\"ADDED\",\"vm\":{\"id\":\"A2\"}}'; exec sleep 100");
    CC_DEADLINE_MS(20000);
    ck_assert_int_eq(runtime.ops->watch(runtime.ctx, see, NULL, &seen, &err), 0);
    ck_assert_str_eq(seen.text, "ADDED A1 \n");
}

START_TEST(cli__watch_ends_at_a_line_over_1_mib) {
    cc_test_run(watches_long_lines, NULL);
}
END_TEST

#define STREAM_CALL "vm status --event --format json\n"

static size_t count_streams(const char *text) {
    size_t streams = 0;

    while ((text = strstr(text, STREAM_CALL))) {
        streams++;
        text += strlen(STREAM_CALL);
    }
    return streams;
}

/* The consumer: a stream that has ended is opened again after 2 s. */
static void long_line_restarts(void *arg) {
    struct cc_metrics *metrics = cc_metrics_new();
    struct vk_provider *provider =
        vk_provider_new(cc_loop_current(), &(struct vk_provider_options){.runtime = runtime, .metrics = metrics});
    struct cc_mono start = cc_now_mono();

    (void)arg;
    write_script("head -c 1048577 /dev/zero | tr '\\0' x; exec sleep 100");
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "exits", vk_exits_loop, provider);
    while (count_streams(calls()) < 2 && cc_mono_diff_ms(cc_now_mono(), start) < 20000)
        ck_assert_int_eq(cc_sleep_ms(20, NULL), 0);
    ck_assert_int_ge(cc_mono_diff_ms(cc_now_mono(), start), 2000);
    ck_assert_uint_eq(count_streams(calls()), 2); /* and lists of what happened meanwhile */
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    vk_tasks_stop(provider);
    vk_provider_free(provider);
    cc_metrics_free(metrics);
}

START_TEST(cli__watch_is_opened_again) {
    cc_test_run(long_line_restarts, NULL);
    CC_VECTOR("06-58");
}
END_TEST

static void watches_until_cancelled(void *arg) {
    struct seen seen = {.text = ""};
    struct cc_err err;

    (void)arg;
    write_script("exec sleep 100");
    CC_DEADLINE_MS(30);
    ck_assert_int_eq(runtime.ops->watch(runtime.ctx, see, NULL, &seen, &err), CC_TIMEOUT);
}

START_TEST(cli__watch_is_cancelled) {
    cc_test_run(watches_until_cancelled, NULL);
}
END_TEST

/* Decision 77. Method: this process leaves its host name behind in a UTS namespace of its own; its children find that
 * of the parent process, which plays pid 1. The cgroup is a plain directory. */
static void leaves_the_container(void *arg) {
    char slice[160], leaf[192], procs[224], host_name[65] = "", expected[96];
    const char *words[] = {"x"};
    struct vk_exec_options exec = {.vm_id = "A1", .argv = words, .argc = 1};
    char namespaces[64];
    struct vk_host_namespaces_options options = {
        .namespaces_directory = namespaces, .cgroup_root = directory, .cgroup_parent = "test.slice"};
    struct vk_cocoon_cli *moved =
        vk_cocoon_cli_new(&(struct vk_cocoon_cli_options){.binary = binary, .host_namespaces = &options});
    struct vk_runtime port = vk_cocoon_cli_port(moved);
    struct cc_buf output cc_cleanup(cc_buf_done) = {0};
    struct cc_err err;
    int code = -1;

    (void)arg;
    snprintf(namespaces, sizeof namespaces, "/proc/%d/ns", (int)getppid());
    cc_buf_init(&output, 4096);
    ck_assert_int_eq(gethostname(host_name, sizeof host_name), 0);
    snprintf(slice, sizeof slice, "%s/test.slice", directory);
    snprintf(leaf, sizeof leaf, "%s/vk-cocoon-cli.scope", slice);
    snprintf(procs, sizeof procs, "%s/cgroup.procs", leaf);
    write_script("uname -n");
    bool is_root = unshare(CLONE_NEWUTS) == 0 && sethostname("inside", 6) == 0;
    /* No cgroup to join: the child would die with the pod, so it does not start. */
    ck_assert_int_eq(port.ops->exec(port.ctx, &exec, &output, &code, &err), CC_IO);
    ck_assert_str_eq(calls(), "");
    if (is_root) {
        ck_assert_int_eq(access(leaf, F_OK), 0);
        ck_assert_int_eq(cc_file_replace(procs, "", 0, 0644, NULL), 0);
        ck_assert_msg(port.ops->exec(port.ctx, &exec, &output, &code, &err) == 0, "%s", err.msg);
        snprintf(expected, sizeof expected, "%s\n", host_name);
        ck_assert_str_eq(output.data, expected);
    }
    unlink(procs);
    rmdir(leaf);
    rmdir(slice);
    vk_cocoon_cli_free(moved);
}

START_TEST(cli__children_leave_the_container) {
    cc_test_run(leaves_the_container, NULL);
}
END_TEST

static void has_no_host(void *arg) {
    struct vk_host_namespaces_options options = {.namespaces_directory = directory};
    struct vk_cocoon_cli *moved =
        vk_cocoon_cli_new(&(struct vk_cocoon_cli_options){.binary = binary, .host_namespaces = &options});
    struct vk_runtime port = vk_cocoon_cli_port(moved);
    const struct vk_vm *vm;
    struct cc_err err;

    (void)arg;
    write_script("exit 0");
    /* The missing namespace file is not a missing VM. */
    ck_assert_int_eq(port.ops->inspect(port.ctx, "A1", &vm, &err), CC_IO);
    ck_assert_int_eq(err.code, CC_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "VK_HOST_NAMESPACES"));
    ck_assert_str_eq(calls(), "");
    vk_cocoon_cli_free(moved);
}

START_TEST(cli__host_namespaces_that_cannot_be_opened) {
    cc_test_run(has_no_host, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime_cocoon_cli");
    TCase *cases = tcase_create("cli");

    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, cli__inspect_tells_absent_from_unknown);
    tcase_add_test(cases, cli__messages_survive_noise);
    tcase_add_test(cases, cli__bring_up);
    tcase_add_test(cases, cli__changes_of_a_vm);
    tcase_add_test(cases, cli__exec);
    tcase_add_test(cases, cli__exec_hangs);
    tcase_add_test(cases, cli__exec_with_streams_and_logs);
    tcase_add_test(cases, cli__snapshots_and_images);
    tcase_add_test(cases, cli__export);
    tcase_add_test(cases, cli__import);
    tcase_add_test(cases, cli__abandoned_import_registers_nothing);
    tcase_add_test(cases, cli__watch);
    tcase_add_test(cases, cli__watch_ends_at_a_line_over_1_mib);
    tcase_add_test(cases, cli__watch_is_opened_again);
    tcase_add_test(cases, cli__watch_is_cancelled);
    tcase_add_test(cases, cli__children_leave_the_container);
    tcase_add_test(cases, cli__host_namespaces_that_cannot_be_opened);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
