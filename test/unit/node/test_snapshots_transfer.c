/* Goal: a push counts only when the registry proves to hold it, and a pull leaves a whole snapshot or none. contract/05
 * 8, 9, 12, decisions 42, 58, 70. Method: simulated hosts whose snapshots carry a number, a registry in memory, virtual
 * time; spools are real directories. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "obs/log.h"
#include "runtime/cocoon_cli.h"
#include "snapshots/snapshots.h"
#include "support/fiber_test.h"
#include "support/memory_registry.h"
#include "support/node/fake_host.h"

#define NAME "vk-ns-demo-0-505043"

static char directory[64], spool[96];
static struct fake_host *host;
static struct cc_memory_registry *memory;
static struct cc_registry registry;
static struct vk_snapshots *snapshots;

static void set_up(void) {
    cc_log_set_level(CC_LOG_ERROR);
    snprintf(directory, sizeof directory, "/tmp/vk-transfer-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(spool, sizeof spool, "%s/staging/spool", directory);
    host = fake_host_new(1);
    memory = cc_memory_registry_new();
    registry = cc_memory_registry_port(memory);
}

static void tear_down(void) {
    char parent[96];

    snprintf(parent, sizeof parent, "%s/staging", directory);
    cc_memory_registry_free(memory);
    fake_host_free(host);
    rmdir(spool);
    rmdir(parent);
    rmdir(directory);
}

static struct vk_snapshots *open_on(struct fake_host *on, bool with_registry) {
    const struct vk_snapshots_options options = {
        .runtime = fake_host_runtime(on),
        .registry = with_registry ? &registry : NULL,
        .node_name = "node-a",
        .spool_directory = spool,
    };
    struct vk_snapshots *opened = NULL;
    struct cc_err err;

    ck_assert_msg(vk_snapshots_new(cc_loop_current(), &options, &opened, &err) == 0, "%s", err.msg);
    return opened;
}

static void start(uint64_t value) {
    snapshots = open_on(host, true);
    fake_host_set_memory_padding(host, 50000);
    fake_host_add_snapshot(host,
                           &(struct fake_snapshot_spec){
                               .name = NAME, .image = "r:1", .image_digest = "sha256:1", .nics = 1, .memory = value});
}

static size_t spool_entries(void) {
    DIR *stream = opendir(spool);
    size_t count = 0;

    for (struct dirent *entry; stream && (entry = readdir(stream));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return count;
}

/* --- push --------------------------------------------------------------------------------------------------------- */

static void pushes_and_pulls(void *arg) {
    struct fake_host *other = fake_host_new(2);
    struct cc_arena arena = {0};
    struct cc_snapshot_identity identity;
    struct cc_err err;

    (void)arg;
    start(77);
    ck_assert_msg(vk_snapshots_push(snapshots, NAME, "hibernate", "r:1", &err) == 0, "%s", err.msg);
    ck_assert_str_eq(fake_host_log(host), "snapshot export " NAME "\n");
    ck_assert_uint_eq(spool_entries(), 0);
    ck_assert_int_eq(cc_snapshot_identify(&registry, NAME, "hibernate", &arena, &identity, &err), 0);
    ck_assert_str_eq(identity.snapshot_id, fake_host_snapshot_id(host, NAME));
    ck_assert_str_eq(identity.base_image, "r:1");
    ck_assert_str_eq(identity.from_node, "node-a");
    vk_snapshots_free(snapshots);

    struct vk_snapshots *there = open_on(other, true);
    ck_assert_msg(vk_snapshots_pull(there, NAME, "hibernate", NAME "-hibernate-import", false, &err) == 0, "%s",
                  err.msg);
    ck_assert_uint_eq(fake_host_snapshot_memory(other, NAME "-hibernate-import"), 77);
    ck_assert_str_ne(fake_host_snapshot_id(other, NAME "-hibernate-import"), identity.snapshot_id);
    vk_snapshots_free(there);
    fake_host_free(other);
    cc_arena_done(&arena);
}

START_TEST(push__carries_the_memory_to_another_host) {
    cc_test_run_virtual(pushes_and_pulls, NULL);
}
END_TEST

/* The knobs reach the artifact, and a node without them reads it. */
static void writes_v2(void *arg) {
    struct fake_host *other = fake_host_new(2);
    struct vk_snapshots_options options = {.runtime = fake_host_runtime(host),
                                           .registry = &registry,
                                           .node_name = "node-a",
                                           .spool_directory = spool,
                                           .knobs = {.zstd_level = 3, .chunk_mib = 1}};
    struct cc_err err;

    (void)arg;
    ck_assert_int_eq(vk_snapshots_new(cc_loop_current(), &options, &snapshots, &err), 0);
    fake_host_set_memory_padding(host, (size_t)3 * 1024 * 1024);
    fake_host_add_snapshot(host, &(struct fake_snapshot_spec){.name = NAME, .memory = 77});
    ck_assert_msg(vk_snapshots_push(snapshots, NAME, "hibernate", "r:1", &err) == 0, "%s", err.msg);
    const char *manifest =
        cc_memory_registry_manifest(memory, NAME, cc_memory_registry_tag(memory, NAME, "hibernate"), NULL);
    ck_assert_ptr_nonnull(strstr(manifest, "snapshot.v2+json"));
    ck_assert_ptr_nonnull(strstr(manifest, "+zstd"));
    ck_assert_ptr_nonnull(strstr(manifest, "cocoonstack.chunk.count"));
    vk_snapshots_free(snapshots);

    struct vk_snapshots *there = open_on(other, true);
    ck_assert_msg(vk_snapshots_pull(there, NAME, "hibernate", "local", false, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(fake_host_snapshot_memory(other, "local"), 77);
    ck_assert_uint_eq(spool_entries(), 0);
    /* A piece that the registry has lost: nothing is left under the name. */
    char digest[CC_DIGEST_BYTES];
    snprintf(digest, sizeof digest, "%.71s", strstr(strstr(manifest, "+zstd"), "sha256:"));
    cc_memory_registry_drop_blob(memory, NAME, digest);
    ck_assert_int_eq(vk_snapshots_pull(there, NAME, "hibernate", "local", false, &err), CC_PROTOCOL);
    ck_assert(!fake_host_has_snapshot(other, "local"));
    ck_assert_uint_eq(spool_entries(), 0);
    vk_snapshots_free(there);
    fake_host_free(other);
}

START_TEST(push__v2_is_read_by_every_node) {
    cc_test_run_virtual(writes_v2, NULL);
}
END_TEST

static void refuses_knobs(void *arg) {
    struct vk_snapshots_options options = {.runtime = fake_host_runtime(host), .spool_directory = spool};
    struct cc_err err;

    (void)arg;
    options.knobs = (struct cc_transfer_knobs){.chunk_mib = 1024, .budget_mib = 4095};
    ck_assert_int_eq(vk_snapshots_new(cc_loop_current(), &options, &snapshots, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "memory budget of at least 4096 MiB"));
}

START_TEST(push__knobs_that_no_push_could_use_are_refused_at_start) {
    cc_test_run_virtual(refuses_knobs, NULL);
}
END_TEST

/* However the export goes wrong, the tag is not written. */
static void fails_to_export(void *arg) {
    static const enum fake_fault_kind kinds[] = {FAKE_FAIL, FAKE_CUT, FAKE_FAIL_AFTER};
    struct cc_err err;

    (void)arg;
    start(77);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(kinds); i++) {
        fake_host_fail_nth(host, "snapshot export", 1,
                           (struct fake_fault){.kind = kinds[i], .message = "exit status 1"});
        ck_assert_int_ne(vk_snapshots_push(snapshots, NAME, "hibernate", "r:1", &err), 0);
        ck_assert_int_ne(err.code, CC_NOT_FOUND);
        ck_assert_ptr_null(cc_memory_registry_tag(memory, NAME, "hibernate"));
        ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 0);
        ck_assert_uint_eq(spool_entries(), 0);
    }
    ck_assert_int_ne(vk_snapshots_push(snapshots, "vk-unknown", "hibernate", "", &err), 0);
    ck_assert_int_ne(err.code, CC_NOT_FOUND);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 0);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "r:1", &err), 0);
    vk_snapshots_free(snapshots);
}

START_TEST(push__failed_export_writes_no_tag) {
    cc_test_run_virtual(fails_to_export, NULL);
}
END_TEST

/* The registry forgets what it has just accepted, so many times. */
static int forget_tag(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                      struct cc_err *err) {
    int *times = ctx;

    (void)err;
    if (op == CC_REGISTRY_HAS_MANIFEST && *times > 0) {
        (*times)--;
        cc_memory_registry_drop_tag(memory, repository, reference);
    }
    return 0;
}

/* Counts blobs that are sent without asking first. */
static const struct cc_registry_ops *inner;
static size_t sent, forced;

static int count_blob(void *ctx, const char *repository, const char *digest, int64_t size, const struct cc_reader *body,
                      int (*rewind)(void *ctx), bool force, struct cc_err *err) {
    sent++;
    forced += force;
    return inner->put_blob(ctx, repository, digest, size, body, rewind, force, err);
}

static void reads_back(void *arg) {
    struct cc_err err;
    int times = 1;

    (void)arg;
    inner = registry.ops;
    struct cc_registry_ops counting = *inner;
    counting.put_blob = count_blob;
    registry.ops = &counting;
    start(77);
    cc_memory_registry_set_hook(memory, forget_tag, &times);
    ck_assert_msg(vk_snapshots_push(snapshots, NAME, "hibernate", "r:1", &err) == 0, "%s", err.msg);
    ck_assert_ptr_nonnull(cc_memory_registry_tag(memory, NAME, "hibernate"));
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 2);
    ck_assert_uint_eq(fake_host_calls(host, "snapshot export"), 2);
    /* Three files and the config, twice; the second time all of them without asking. */
    ck_assert_uint_eq(sent, 8);
    ck_assert_uint_eq(forced, 4);

    cc_memory_registry_forget_calls(memory);
    times = 2;
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "r:1", &err), CC_PROTOCOL);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 2);
    ck_assert_ptr_nonnull(strstr(err.msg, "does not name it"));
    vk_snapshots_free(snapshots);
}

START_TEST(push__is_read_back_and_repeated_once) {
    cc_test_run_virtual(reads_back, NULL);
}
END_TEST

/* A read-back that says nothing is no proof, and no reason to send all again. */
static void cannot_read_back(void *arg) {
    struct cc_err err;

    (void)arg;
    start(77);
    cc_memory_registry_fail(memory, CC_REGISTRY_HAS_MANIFEST, 1, -1, CC_UNAVAILABLE, 503, NULL, false);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "r:1", &err), CC_UNAVAILABLE);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 1);
    vk_snapshots_free(snapshots);
}

START_TEST(push__unreadable_registry_is_a_failure) {
    cc_test_run_virtual(cannot_read_back, NULL);
}
END_TEST

/* --- real processes ----------------------------------------------------------------------------------------------- */

static void write_file(const char *name, const void *bytes, size_t count, unsigned mode) {
    char path[160];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    ck_assert_int_eq(cc_file_replace(path, bytes, count, mode, NULL), 0);
}

static void remove_file(const char *name) {
    char path[160];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    unlink(path);
}

/* The archive of the simulated host's snapshot, whole. */
static void read_archive(struct cc_buf *into) {
    struct vk_runtime runtime = fake_host_runtime(host);
    struct vk_transfer *transfer;
    struct cc_reader reader;
    size_t count;

    ck_assert_int_eq(runtime.ops->snapshot_export(runtime.ctx, NAME, &transfer, &reader, NULL), 0);
    do {
        ck_assert_int_eq(reader.read(reader.ctx, cc_buf_reserve(into, 8192), 8192, &count, NULL), 0);
        cc_buf_commit(into, count);
    } while (count > 0);
    ck_assert_int_eq(runtime.ops->transfer_finish(runtime.ctx, transfer, NULL), 0);
    runtime.ops->transfer_free(runtime.ctx, transfer);
}

static void write_archive(const struct cc_buf *archive) {
    struct vk_runtime runtime = fake_host_runtime(host);
    struct vk_transfer *transfer;
    struct cc_writer writer;
    struct cc_err err;

    ck_assert_int_eq(runtime.ops->snapshot_import(runtime.ctx, "back", &transfer, &writer, &err), 0);
    ck_assert_int_eq(writer.write(writer.ctx, archive->data, archive->len, &err), 0);
    ck_assert_msg(runtime.ops->transfer_finish(runtime.ctx, transfer, &err) == 0, "%s", err.msg);
    runtime.ops->transfer_free(runtime.ctx, transfer);
}

/* More than the pipes hold: export and import wait for the registry, and the other way round. */
static void moves_through_pipes(void *arg) {
    struct vk_snapshots_options options = {.registry = &registry, .node_name = "node-a", .spool_directory = spool};
    char binary[160], script[512], path[160];
    struct cc_buf archive cc_cleanup(cc_buf_done) = {0}, back cc_cleanup(cc_buf_done) = {0};
    struct cc_err err;

    (void)arg;
    fake_host_set_memory_padding(host, (size_t)10 * 1024 * 1024);
    fake_host_add_snapshot(host, &(struct fake_snapshot_spec){.name = NAME, .memory = 4711});
    cc_buf_init(&archive, (size_t)16 * 1024 * 1024);
    cc_buf_init(&back, (size_t)16 * 1024 * 1024);
    read_archive(&archive);
    write_file("archive", archive.data, archive.len, 0644);
    snprintf(script, sizeof script,
             "#!/bin/sh\nD=%s\ncase $2 in export) cat $D/archive; exit $(cat $D/code);; import) cat >$D/imported;; "
             "rm) echo 'snapshot not found' >&2; exit 1;; esac\n",
             directory);
    write_file("cocoon", script, strlen(script), 0755);
    snprintf(binary, sizeof binary, "%s/cocoon", directory);
    struct vk_cocoon_cli *cli = vk_cocoon_cli_new(&(struct vk_cocoon_cli_options){.binary = binary});
    options.runtime = vk_cocoon_cli_port(cli);
    ck_assert_int_eq(vk_snapshots_new(cc_loop_current(), &options, &snapshots, &err), 0);

    /* A whole archive from an exporter that says that it failed. */
    write_file("code", "3", 1, 0644);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "", &err), CC_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "exit status 3"));
    ck_assert_ptr_null(cc_memory_registry_tag(memory, NAME, "hibernate"));
    write_file("code", "0", 1, 0644);
    ck_assert_msg(vk_snapshots_push(snapshots, NAME, "hibernate", "", &err) == 0, "%s", err.msg);
    ck_assert_msg(vk_snapshots_pull(snapshots, NAME, "hibernate", "local", false, &err) == 0, "%s", err.msg);
    snprintf(path, sizeof path, "%s/imported", directory);
    ck_assert_int_eq(cc_file_read(path, &back, NULL), 0);
    write_archive(&back);
    ck_assert_uint_eq(fake_host_snapshot_memory(host, "back"), 4711);

    vk_snapshots_free(snapshots);
    vk_cocoon_cli_free(cli);
    remove_file("cocoon");
    remove_file("archive");
    remove_file("imported");
    remove_file("code");
}

START_TEST(transfer__through_real_processes) {
    cc_test_run(moves_through_pipes, NULL);
}
END_TEST

/* --- the gate ----------------------------------------------------------------------------------------------------- */

static size_t transfers, most_transfers;

static int slow_registry(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                         struct cc_err *err) {
    (void)ctx;
    (void)repository;
    (void)reference;
    if (op != CC_REGISTRY_PUT_BLOB)
        return 0;
    if (++transfers > most_transfers)
        most_transfers = transfers;
    int rc = cc_sleep_ms(1000, err);
    transfers--;
    return rc;
}

struct pusher {
    const char *name;
    int rc;
};

static void push_one(void *arg) {
    struct pusher *pusher = arg;

    pusher->rc = vk_snapshots_push(snapshots, pusher->name, "hibernate", "", NULL);
}

static void takes_turns(void *arg) {
    struct pusher pushers[] = {{NAME, -1}, {"vk-b", -1}, {"vk-c", -1}};
    struct cc_fiber *fibers[3];

    (void)arg;
    start(1);
    fake_host_add_snapshot(host, &(struct fake_snapshot_spec){.name = "vk-b", .memory = 2});
    fake_host_add_snapshot(host, &(struct fake_snapshot_spec){.name = "vk-c", .memory = 3});
    cc_memory_registry_set_hook(memory, slow_registry, NULL);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        fibers[i] = cc_fiber_start(cc_loop_current(), "push", push_one, &pushers[i]);
    ck_assert_int_eq(cc_sleep_ms(500, NULL), 0);
    ck_assert_uint_eq(fake_host_calls(host, "snapshot export"), 1);
    /* The one that waits gives up; the gate is not lost with it. */
    cc_fiber_cancel(fibers[1]);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        cc_fiber_join(fibers[i]);
    ck_assert_int_eq(pushers[0].rc, 0);
    ck_assert_int_eq(pushers[1].rc, CC_CANCELED);
    ck_assert_int_eq(pushers[2].rc, 0);
    ck_assert_uint_eq(fake_host_calls(host, "snapshot export"), 2);
    ck_assert_uint_eq(most_transfers, 1);
    vk_snapshots_free(snapshots);
}

START_TEST(push__one_at_a_time) {
    cc_test_run_virtual(takes_turns, NULL);
}
END_TEST

static void two_at_once(void *arg) {
    struct pusher pushers[] = {{NAME, -1}, {"vk-b", -1}, {"vk-c", -1}};
    struct cc_fiber *fibers[3];

    const struct vk_snapshots_options options = {
        .runtime = fake_host_runtime(host),
        .registry = &registry,
        .node_name = "node-a",
        .spool_directory = spool,
        .pushes_at_once = 2,
    };

    (void)arg;
    start(1);
    vk_snapshots_free(snapshots);
    ck_assert_int_eq(vk_snapshots_new(cc_loop_current(), &options, &snapshots, NULL), 0);
    fake_host_add_snapshot(host, &(struct fake_snapshot_spec){.name = "vk-b", .memory = 2});
    fake_host_add_snapshot(host, &(struct fake_snapshot_spec){.name = "vk-c", .memory = 3});
    cc_memory_registry_set_hook(memory, slow_registry, NULL);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++)
        fibers[i] = cc_fiber_start(cc_loop_current(), "push", push_one, &pushers[i]);
    ck_assert_int_eq(cc_sleep_ms(500, NULL), 0);
    ck_assert_uint_eq(fake_host_calls(host, "snapshot export"), 2);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++) {
        cc_fiber_join(fibers[i]);
        ck_assert_int_eq(pushers[i].rc, 0);
    }
    ck_assert_uint_eq(fake_host_calls(host, "snapshot export"), 3);
    vk_snapshots_free(snapshots);
}

START_TEST(push__as_many_at_once_as_is_asked_for) {
    cc_test_run_virtual(two_at_once, NULL);
}
END_TEST

static void is_cancelled(void *arg) {
    struct pusher pusher = {NAME, -1};

    (void)arg;
    start(1);
    cc_memory_registry_set_hook(memory, slow_registry, NULL);
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "push", push_one, &pusher);
    ck_assert_int_eq(cc_sleep_ms(1500, NULL), 0);
    cc_fiber_cancel(fiber);
    cc_fiber_join(fiber);
    ck_assert_int_eq(pusher.rc, CC_CANCELED);
    ck_assert_ptr_null(cc_memory_registry_tag(memory, NAME, "hibernate"));
    ck_assert_uint_eq(spool_entries(), 0);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "", NULL), 0);
    vk_snapshots_free(snapshots);
}

START_TEST(push__cancelled_in_the_middle) {
    cc_test_run_virtual(is_cancelled, NULL);
}
END_TEST

/* --- the spool ---------------------------------------------------------------------------------------------------- */

static void sweeps(void *arg) {
    char path[192], folder[160];
    struct stat status;
    struct cc_err err;

    (void)arg;
    vk_snapshots_free(open_on(host, true));
    ck_assert_int_eq(stat(spool, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0700);
    snprintf(path, sizeof path, "%s/left", spool);
    ck_assert_int_eq(cc_file_replace(path, "guest memory", 12, 0600, NULL), 0);
    snprintf(folder, sizeof folder, "%s/folder", spool);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/left", folder);
    ck_assert_int_eq(cc_file_replace(path, "x", 1, 0600, NULL), 0);
    ck_assert_int_eq(chmod(spool, 0755), 0);
    snapshots = open_on(host, true);
    ck_assert_uint_eq(spool_entries(), 0);
    ck_assert_int_eq(stat(spool, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0700);

    ck_assert_int_eq(vk_snapshots_check_space(snapshots, 1, &err), 0);
    ck_assert_int_eq(vk_snapshots_check_space(snapshots, INT64_MAX, &err), CC_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, spool));
    ck_assert_ptr_nonnull(strstr(err.msg, "9223372036854775807"));
    ck_assert_ptr_nonnull(strstr(err.msg, "no space left"));
    vk_snapshots_free(snapshots);
}

START_TEST(spool__is_private_and_swept) {
    cc_test_run_virtual(sweeps, NULL);
}
END_TEST

static void refuses_links(void *arg) {
    struct vk_snapshots_options options = {.runtime = fake_host_runtime(host), .spool_directory = spool};
    char parent[96], target[96];
    struct cc_err err;

    (void)arg;
    snprintf(parent, sizeof parent, "%s/staging", directory);
    snprintf(target, sizeof target, "%s/target", directory);
    ck_assert_int_eq(mkdir(parent, 0755), 0);
    ck_assert_int_eq(mkdir(target, 0755), 0);
    ck_assert_int_eq(symlink(target, spool), 0);
    ck_assert_int_eq(vk_snapshots_new(cc_loop_current(), &options, &snapshots, &err), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(err.msg, spool));
    unlink(spool);
    rmdir(target);
    options.spool_directory = "relative";
    ck_assert_int_eq(vk_snapshots_new(cc_loop_current(), &options, &snapshots, &err), CC_INVALID);
}

START_TEST(spool__is_no_link) {
    cc_test_run_virtual(refuses_links, NULL);
}
END_TEST

/* --- pull --------------------------------------------------------------------------------------------------------- */

static void pulls_what_is_absent(void *arg) {
    struct cc_err err;

    (void)arg;
    start(5);
    /* The copy under the name stays: nothing is known to replace it. */
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "hibernate", NAME, false, &err), CC_NOT_FOUND);
    ck_assert_str_eq(fake_host_log(host), "");
    ck_assert_uint_eq(fake_host_snapshot_memory(host, NAME), 5);
    cc_memory_registry_fail(memory, CC_REGISTRY_GET_MANIFEST, 1, 1, CC_UNAVAILABLE, 503, NULL, false);
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "hibernate", NAME, false, &err), CC_UNAVAILABLE);
    ck_assert_uint_eq(fake_host_snapshot_memory(host, NAME), 5);
    vk_snapshots_free(snapshots);
}

START_TEST(pull__absent_tag_touches_nothing_local) {
    cc_test_run_virtual(pulls_what_is_absent, NULL);
}
END_TEST

/* The stream breaks off at each blob in turn: before the first byte, and at entry boundaries, where an older cocoon
 * would take the half for the whole. */
static void breaks_off(void *arg) {
    struct cc_err err;

    (void)arg;
    start(5);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "", &err), 0);
    for (int k = 1; k <= 4; k++) {
        fake_host_log_clear(host);
        cc_memory_registry_fail(memory, CC_REGISTRY_GET_BLOB, k, 1, CC_PROTOCOL, 0, NULL, false);
        ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "hibernate", "import", false, &err), CC_PROTOCOL);
        ck_assert(!fake_host_has_snapshot(host, "import"));
        if (fake_host_calls(host, "snapshot import import") == 1)
            ck_assert_str_eq(fake_host_log(host), "snapshot import import\nsnapshot rm import\n");
        else
            ck_assert_str_eq(fake_host_log(host), "");
    }
    cc_memory_registry_heal(memory);
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "hibernate", "import", false, &err), 0);
    ck_assert_uint_eq(fake_host_snapshot_memory(host, "import"), 5);
    vk_snapshots_free(snapshots);
}

START_TEST(pull__broken_stream_leaves_nothing) {
    cc_test_run_virtual(breaks_off, NULL);
}
END_TEST

static void is_refused_by_the_importer(void *arg) {
    struct cc_err err;

    (void)arg;
    start(5);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "", &err), 0);
    fake_host_log_clear(host);
    /* The second kind registers the snapshot and fails all the same. */
    fake_host_fail_nth(host, "snapshot import", 1, (struct fake_fault){.kind = FAKE_FAIL, .message = "exit status 1"});
    fake_host_fail_nth(host, "snapshot import", 2, (struct fake_fault){.kind = FAKE_FAIL_AFTER});
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "hibernate", "import", false, &err), CC_IO);
    ck_assert_ptr_nonnull(strstr(err.msg, "exit status 1"));
    ck_assert_str_eq(fake_host_log(host), "snapshot import import\nsnapshot rm import\n");
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "hibernate", "import", false, &err), CC_IO);
    ck_assert(!fake_host_has_snapshot(host, "import"));
    vk_snapshots_free(snapshots);
}

START_TEST(pull__importer_has_the_last_word) {
    cc_test_run_virtual(is_refused_by_the_importer, NULL);
}
END_TEST

struct puller {
    bool skip;
    int rc;
};

static void pull_one(void *arg) {
    struct puller *puller = arg;

    puller->rc = vk_snapshots_pull(snapshots, NAME, "latest", "golden", puller->skip, NULL);
}

static void shares(void *arg) {
    struct puller pullers[16];
    struct cc_fiber *fibers[16];
    struct cc_err err;

    (void)arg;
    start(9);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "latest", "", &err), 0);
    cc_memory_registry_forget_calls(memory);
    fake_host_log_clear(host);
    fake_host_set_latency(host, "snapshot import", 1000);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(fibers); i++) {
        pullers[i] = (struct puller){.skip = true, .rc = -1};
        fibers[i] = cc_fiber_start(cc_loop_current(), "pull", pull_one, &pullers[i]);
    }
    ck_assert_int_eq(cc_sleep_ms(500, NULL), 0);
    /* The caller that started the flight leaves at once; the flight goes on for the others. */
    cc_fiber_cancel(fibers[0]);
    cc_fiber_join(fibers[0]);
    ck_assert_int_eq(pullers[0].rc, CC_CANCELED);
    ck_assert(!fake_host_has_snapshot(host, "golden"));
    for (size_t i = 1; i < CC_ARRAY_LENGTH(fibers); i++) {
        cc_fiber_join(fibers[i]);
        ck_assert_int_eq(pullers[i].rc, 0);
    }
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_GET_MANIFEST), 1);
    ck_assert_uint_eq(fake_host_calls(host, "snapshot import"), 1);
    ck_assert_uint_eq(fake_host_snapshot_memory(host, "golden"), 9);

    /* There now: no traffic at all. */
    cc_memory_registry_forget_calls(memory);
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "latest", "golden", true, &err), 0);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_OP_COUNT), 0);
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "latest", "golden", false, &err), 0);
    ck_assert_uint_eq(fake_host_calls(host, "snapshot import"), 2);
    vk_snapshots_free(snapshots);
}

START_TEST(pull__one_flight_for_a_local_name) {
    cc_test_run_virtual(shares, NULL);
}
END_TEST

/* The daemon stops while a pull runs: no half snapshot, no transfer left open. */
static void stops(void *arg) {
    struct puller puller = {.rc = -1};
    struct cc_err err;

    (void)arg;
    start(9);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "latest", "", &err), 0);
    fake_host_fail_nth(host, "snapshot import", 1, (struct fake_fault){.kind = FAKE_HANG});
    struct cc_fiber *fiber = cc_fiber_start(cc_loop_current(), "pull", pull_one, &puller);
    ck_assert_int_eq(cc_sleep_ms(500, NULL), 0);
    vk_snapshots_free(snapshots);
    cc_fiber_join(fiber);
    ck_assert_int_ne(puller.rc, 0);
    ck_assert(!fake_host_has_snapshot(host, "golden"));
}

START_TEST(pull__daemon_stops_in_the_middle) {
    cc_test_run_virtual(stops, NULL);
}
END_TEST

static void has_no_registry(void *arg) {
    struct cc_err err;

    (void)arg;
    snapshots = open_on(host, false);
    ck_assert_int_eq(vk_snapshots_push(snapshots, NAME, "hibernate", "", &err), CC_UNSUPPORTED);
    ck_assert_int_eq(vk_snapshots_pull(snapshots, NAME, "hibernate", NAME, false, &err), CC_UNSUPPORTED);
    ck_assert_str_eq(fake_host_log(host), "");
    vk_snapshots_free(snapshots);
}

START_TEST(transfer__without_a_registry) {
    cc_test_run_virtual(has_no_registry, NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("snapshots_transfer");
    TCase *cases = tcase_create("transfer");

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, push__carries_the_memory_to_another_host);
    tcase_add_test(cases, push__v2_is_read_by_every_node);
    tcase_add_test(cases, push__knobs_that_no_push_could_use_are_refused_at_start);
    tcase_add_test(cases, push__failed_export_writes_no_tag);
    tcase_add_test(cases, push__is_read_back_and_repeated_once);
    tcase_add_test(cases, push__unreadable_registry_is_a_failure);
    tcase_add_test(cases, push__one_at_a_time);
    tcase_add_test(cases, push__as_many_at_once_as_is_asked_for);
    tcase_add_test(cases, push__cancelled_in_the_middle);
    tcase_add_test(cases, spool__is_private_and_swept);
    tcase_add_test(cases, spool__is_no_link);
    tcase_add_test(cases, pull__absent_tag_touches_nothing_local);
    tcase_add_test(cases, pull__broken_stream_leaves_nothing);
    tcase_add_test(cases, pull__importer_has_the_last_word);
    tcase_add_test(cases, pull__one_flight_for_a_local_name);
    tcase_add_test(cases, pull__daemon_stops_in_the_middle);
    tcase_add_test(cases, transfer__without_a_registry);
    tcase_add_test(cases, transfer__through_real_processes);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
