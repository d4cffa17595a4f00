/* Snapshots between nodes: contract/05 chapter 13. Real loop, loopback, files on disk. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "http/client.h"
#include "snapshots/crc32c.h"
#include "snapshots/peer_client.h"
#include "snapshots/peer_nodes.h"
#include "snapshots/peer_plan.h"
#include "snapshots/peer_server.h"
#include "snapshots/staging.h"
#include "support/fake_http.h"
#include "support/fiber_test.h"
#include "support/raw_http.h"
#include "support/vectors.h"

#define MIB ((size_t)1048576)
#define ID "3QKZ7M5XW2N4YB6TPLDRA2CVHE"
#define VM "vk-demo-web-0"

/* --- pure ----------------------------------------------------------------------------------------------------------
 */

START_TEST(crc32c__known_sums) {
    static const char zeros[32];
    static const struct {
        const char *bytes;
        size_t count;
        const char *text;
    } cases[] = {{"123456789", 9, "e3069283"}, {zeros, 32, "8a9136aa"}, {"slice-261", 9, "17adc9"}, {"", 0, "0"}};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        char text[VK_CRC32C_TEXT_BYTES];
        vk_crc32c_format(vk_crc32c(0, cases[i].bytes, cases[i].count), text);
        ck_assert_str_eq(text, cases[i].text);
        vk_crc32c_format(vk_crc32c_portable(0, cases[i].bytes, cases[i].count), text);
        ck_assert_str_eq(text, cases[i].text);
    }
    /* In parts, at any alignment. */
    char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7);
    uint32_t whole = vk_crc32c_portable(0, bytes, sizeof bytes);
    for (size_t cut = 0; cut < 40; cut++)
        ck_assert_uint_eq(vk_crc32c(vk_crc32c(0, bytes, cut), bytes + cut, sizeof bytes - cut), whole);
    CC_VECTOR("05-16.56");
}
END_TEST

START_TEST(peer_plan__slices) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    int64_t mib = (int64_t)MIB;
    struct vk_slice runs[] = {{0, 100}, {200, 100}, {10 * mib, 100}, {20 * mib, 100}}, *slices;
    static const size_t streams[][2] = {{1, 1}, {8, 1}, {9, 2}, {16, 2}, {17, 3}, {40, 5}, {0, 1}};

    ck_assert_uint_eq(vk_slices_join(runs, 4, 4 * mib), 3);
    ck_assert(runs[0].offset == 0 && runs[0].length == 300 && runs[1].offset == 10 * mib && runs[1].length == 100 &&
              runs[2].offset == 20 * mib && runs[2].length == 100);
    ck_assert_uint_eq(vk_slices_join(runs, 0, 1), 0);
    CC_VECTOR("05-16.57");
    struct vk_slice whole = {0, 10 * mib};
    ck_assert_uint_eq(vk_slices_cut(&whole, 1, 4 * mib, &arena, &slices), 3);
    ck_assert(slices[0].offset == 0 && slices[0].length == 4 * mib && slices[1].offset == 4 * mib &&
              slices[1].length == 4 * mib && slices[2].offset == 8 * mib && slices[2].length == 2 * mib);
    CC_VECTOR("05-16.58");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(streams); i++)
        ck_assert_uint_eq(vk_slices_of_stream(streams[i][0]), streams[i][1]);
    CC_VECTOR("05-16.59");
}
END_TEST

#define BEYOND "{\"offset\":9223372036854775807,\"length\":9223372036854775807}"

START_TEST(peer_plan__refusals) {
    static const char *const bad[] = {
        "",
        "x",
        "[]",
        "{}",
        "{\"snapshotId\":7,\"files\":[]}",
        "{\"snapshotId\":\"A\",\"files\":{}}",
        "{\"snapshotId\":\"A\",\"files\":[7]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\"}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"../a\",\"size\":1}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"..\",\"size\":1}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"\",\"size\":1}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a/b\",\"size\":1}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":-1}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":1,\"slices\":7}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":1,\"slices\":[{}]}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":1,\"slices\":[{\"offset\":0,\"length\":0}]}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":1,\"slices\":[{\"offset\":0,\"length\":-1}]}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":1,\"slices\":[{\"offset\":-1,\"length\":1}]}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":1,\"slices\":[{\"offset\":1,\"length\":1}]}]}",
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":9,\"slices\":[" BEYOND "]}]}",
    };
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct vk_peer_plan plan;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_msg(vk_peer_plan_parse(bad[i], strlen(bad[i]), &arena, &plan, NULL) == CC_PROTOCOL, "%s", bad[i]);
    static const char good[] =
        "{\"snapshotId\":\"A\",\"files\":[{\"name\":\"a\",\"size\":0,\"slices\":null},{\"name\":\"b\",\"size\":9,"
        "\"slices\":[]},{\"name\":\"c\",\"size\":9,\"slices\":[{\"offset\":8,\"length\":1}],\"x\":1}]}";
    ck_assert_int_eq(vk_peer_plan_parse(good, strlen(good), &arena, &plan, NULL), 0);
    ck_assert_uint_eq(plan.file_count, 3);
    ck_assert_uint_eq(plan.files[2].slice_count, 1);
}
END_TEST

START_TEST(peers__names_and_addresses) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};

    ck_assert_str_eq(vk_staging_prefix("vk/ns:a_b", &arena), "vk_ns_a_b-");
    ck_assert_str_eq(vk_staging_prefix("vk-ns-demo.0", &arena), "vk-ns-demo.0-");
    CC_VECTOR("05-16.68");
    ck_assert(vk_same_address("10.0.0.1", "::ffff:10.0.0.1"));
    ck_assert(vk_same_address("fd00::1", "fd00:0::1"));
    ck_assert(!vk_same_address("10.0.0.1", "10.0.0.2"));
    ck_assert(!vk_same_address("", ""));
    ck_assert(!vk_same_address("::1", "127.0.0.1"));
}
END_TEST

static void fill_example(char *bytes) {
    memset(bytes, 0, 6 * MIB);
    memset(bytes, 0xAA, MIB);
    memset(bytes + 3 * MIB, 0xBB, MIB);
    bytes[5 * MIB + 100] = (char)0xCC;
}

START_TEST(peers__zero_mibs_are_left_out) {
    char path[] = "/tmp/vk-sparse-XXXXXX";
    int fd = mkstemp(path);
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(6 * MIB), *back cc_cleanup(cc_free_p) = cc_xmalloc(6 * MIB);
    size_t count = 5 * MIB + 124;
    struct stat status;

    unlink(path);
    fill_example(bytes);
    bytes[5 * MIB + 123] = 1;
    ck_assert_int_eq(ftruncate(fd, (off_t)count), 0);
    ck_assert_int_eq(vk_write_sparse(fd, 0, bytes, count, NULL), 0);
    ck_assert_int_eq(pread(fd, back, count, 0), (ssize_t)count);
    ck_assert(memcmp(bytes, back, count) == 0);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_le(status.st_blocks * 512, (off_t)(3 * MIB)); /* two MiBs of data and the last one's part */
    ck_assert_int_eq(lseek(fd, (off_t)MIB, SEEK_DATA), (off_t)(3 * MIB));
    close(fd);
    CC_VECTOR("05-16.66");
}
END_TEST

/* --- a node that serves --------------------------------------------------------------------------------------------
 */

struct scene {
    char folder[64], store[128], staging[128];
    struct vk_peer_server *server;
    struct vk_peer_client *client;
    struct cc_arena arena;
    char *base_url;
    int inspect_code; /* of snapshot inspect; 0 = found when the name is VM */
    bool refuses;
};

static int inspect(void *ctx, const char *snapshot, struct vk_snapshot_record **ret, struct cc_err *err) {
    struct scene *scene = ctx;

    if (scene->inspect_code)
        return cc_err_set(err, (enum cc_code)scene->inspect_code, "inspect failed");
    if (strcmp(snapshot, VM) != 0)
        return cc_err_set(err, CC_NOT_FOUND, "no such snapshot");
    struct vk_snapshot_record *record = CC_NEW(struct vk_snapshot_record);
    record->id = ID;
    record->name = VM;
    *ret = record;
    return 0;
}
static const struct vk_runtime_ops runtime_ops = {.snapshot_inspect = inspect};

/* Not needed by the runtime port itself, but the server frees its record with it. */
static bool allows(void *ctx, const char *address) {
    const struct scene *scene = ctx;
    return !scene->refuses && vk_same_address(address, "127.0.0.1");
}

static void write_file(const struct scene *scene, const char *name, const void *bytes, size_t count, int64_t at,
                       int64_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/" ID "/%s", scene->store, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0640);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, count, at), (ssize_t)count);
    if (size > 0)
        ck_assert_int_eq(ftruncate(fd, size), 0);
    close(fd);
}

static void scene_open(struct scene *scene) {
    snprintf(scene->folder, sizeof scene->folder, "/tmp/vk-peers-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene->folder));
    snprintf(scene->store, sizeof scene->store, "%s/store", scene->folder);
    snprintf(scene->staging, sizeof scene->staging, "%s/staging", scene->folder);
    char *directory cc_cleanup(cc_free_p) = cc_xasprintf("%s/" ID, scene->store);
    ck_assert(mkdir(scene->store, 0755) == 0 && mkdir(directory, 0755) == 0);
    struct vk_peer_server_options options = {
        .runtime = {&runtime_ops, scene}, .store_directory = scene->store, .allows = allows, .ctx = scene};
    scene->server = vk_peer_server_new(cc_loop_current(), &options);
    ck_assert_int_eq(vk_peer_server_listen(scene->server, "127.0.0.1:0", NULL), 0);
    scene->client = vk_peer_client_new(cc_loop_current());
    scene->base_url = cc_xasprintf("http://127.0.0.1:%d", vk_peer_server_port(scene->server));
}

static int remove_entry(const char *path, const struct stat *status CC_UNUSED, int type CC_UNUSED,
                        struct FTW *place CC_UNUSED) {
    return remove(path);
}

static void scene_close(struct scene *scene) {
    vk_peer_client_free(scene->client);
    vk_peer_server_free(scene->server);
    cc_arena_done(&scene->arena);
    free(scene->base_url);
    nftw(scene->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

#define SCENE_TEST(name)                                                                                               \
    static void name##_scene(struct scene *scene);                                                                     \
    static void name##_body(void *arg) {                                                                               \
        scene_open(arg);                                                                                               \
        name##_scene(arg);                                                                                             \
        scene_close(arg);                                                                                              \
    }                                                                                                                  \
    START_TEST(name) {                                                                                                 \
        struct scene scene = {0};                                                                                      \
        cc_test_run(name##_body, &scene);                                                                              \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_scene(struct scene *scene)

static int restore(struct scene *scene, const char *id, const char **ret, struct cc_err *err) {
    struct cc_snapshot_config config = {.schema_version = "v1",
                                        .snapshot_id = id,
                                        .name = "",
                                        .description = "",
                                        .image = "images/debian:13",
                                        .image_digest = "",
                                        .image_type = "",
                                        .hypervisor = "cloud-hypervisor",
                                        .network = "",
                                        .cpu = 2};
    struct vk_peer_request request = {
        .base_url = scene->base_url, .vm_name = VM, .config = &config, .staging_root = scene->staging};
    return vk_peer_client_restore(scene->client, &request, &scene->arena, ret, err);
}

static size_t entries_of(const char *path) {
    DIR *stream = opendir(path);
    size_t count = 0;

    while (stream && readdir(stream))
        count++;
    if (stream)
        closedir(stream);
    return count > 2 ? count - 2 : 0;
}

static char *read_text(const char *directory, const char *name, size_t *ret_count) {
    struct cc_buf text;
    char path[400];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    cc_buf_init(&text, 64 * MIB);
    ck_assert_msg(cc_file_read(path, &text, NULL) == 0, "%s", path);
    *ret_count = text.len;
    return cc_buf_steal(&text);
}

/* Gives status, and the whole text into `ret` when wanted. */
static int ask(struct scene *scene, const char *method, const char *target, char **ret) {
    char request[512];
    snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method, target);
    char *text = cc_raw_exchange(vk_peer_server_port(scene->server), request);
    int status = cc_raw_status(text);
    if (ret)
        *ret = text;
    else
        free(text);
    return status;
}

/* contract/05 15.4 */
SCENE_TEST(peers__worked_exchange) {
    char *text;

    write_file(scene, "state.json", "{\"state\":\"Paused\"}", 18, 0, 0);
    write_file(scene, "memory-ranges", "HEADDATA", 8, 0, 8192);
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-plan?name=" VM, &text), 200);
    ck_assert_ptr_nonnull(strstr(text, "Content-Type: application/json\r\n"));
    /* The memory's first block is data and the rest a hole: on a file system without holes it would be 8192. */
    ck_assert_ptr_nonnull(strstr(text,
                                 "{\"snapshotId\":\"" ID "\",\"files\":[{\"name\":\"memory-ranges\",\"size\":8192,"
                                 "\"slices\":[{\"offset\":0,\"length\":"));
    ck_assert_ptr_nonnull(
        strstr(text, "{\"name\":\"state.json\",\"size\":18,\"slices\":[{\"offset\":0,\"length\":18}]}]}"));
    free(text);
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-slice?id=" ID "&file=state.json&offset=0&length=18", &text), 200);
    ck_assert_ptr_nonnull(strstr(text, "Transfer-Encoding: chunked\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "Trailer: X-Slice-Crc32c\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "Content-Type: application/octet-stream\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "12\r\n{\"state\":\"Paused\"}\r\n0\r\nX-Slice-Crc32c: 6701124d\r\n\r\n"));
    free(text);
    /* Beyond the end: the body ends early and the trailer is absent. */
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-slice?id=" ID "&file=state.json&offset=0&length=19", &text), 200);
    ck_assert_ptr_null(strstr(text, "X-Slice-Crc32c: "));
    free(text);
}

SCENE_TEST(peers__server_refusals) {
    static const char *const bad[] = {
        "/v1/snapshot-slice?id=..&file=a&offset=0&length=1",
        "/v1/snapshot-slice?id=" ID "&file=..%2Ff&offset=0&length=1",
        "/v1/snapshot-slice?id=" ID "&file=a&offset=0&length=0",
        "/v1/snapshot-plan?name=",
        "/v1/snapshot-plan",
        "/v1/snapshot-slice?id=&file=a&offset=0&length=1",
        "/v1/snapshot-slice?id=" ID "&file=.&offset=0&length=1",
        "/v1/snapshot-slice?id=" ID "&file=a&offset=-1&length=1",
        "/v1/snapshot-slice?id=" ID "&file=a&offset=x&length=1",
        "/v1/snapshot-slice?id=" ID "&file=a&offset=0",
        "/v1/snapshot-slice?id=" ID "&file=a&offset=9223372036854775807&length=9223372036854775807",
    };
    write_file(scene, "a", "x", 1, 0, 0);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_msg(ask(scene, "GET", bad[i], NULL) == 400, "%s", bad[i]);
    CC_VECTOR("05-16.60");
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-plan?name=other", NULL), 404);
    CC_VECTOR("05-16.61");
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-slice?id=" ID "&file=b&offset=0&length=1", NULL), 404);
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-slice?id=OTHER&file=a&offset=0&length=1", NULL), 404);
    ck_assert_int_eq(ask(scene, "POST", "/v1/snapshot-plan?name=" VM, NULL), 405);
    ck_assert_int_eq(ask(scene, "GET", "/v1/other", NULL), 404);
    ck_assert_int_eq(ask(scene, "HEAD", "/v1/snapshot-plan?name=" VM, NULL), 200);
    ck_assert_int_eq(ask(scene, "HEAD", "/v1/snapshot-slice?id=" ID "&file=a&offset=0&length=1", NULL), 200);
    scene->inspect_code = CC_IO;
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-plan?name=" VM, NULL), 500);
    scene->inspect_code = 0;
    /* A link out of the store is no file of it. */
    char *link cc_cleanup(cc_free_p) = cc_xasprintf("%s/" ID "/passwd", scene->store);
    ck_assert_int_eq(symlink("/etc/passwd", link), 0);
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-slice?id=" ID "&file=passwd&offset=0&length=1", NULL), 404);
    /* Decision 26. */
    scene->refuses = true;
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-plan?name=" VM, NULL), 403);
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-slice?id=" ID "&file=a&offset=0&length=1", NULL), 403);
    scene->refuses = false;
    char *file cc_cleanup(cc_free_p) = cc_xasprintf("%s/" ID "/a", scene->store);
    unlink(file);
    unlink(link);
    ck_assert_int_eq(ask(scene, "GET", "/v1/snapshot-plan?name=" VM, NULL), 500); /* no regular file */
}

SCENE_TEST(peers__restore) {
    char *guest cc_cleanup(cc_free_p) = cc_xmalloc(5 * MIB);
    struct cc_err err = {0};
    const char *directory;
    size_t count;
    struct stat status;

    for (size_t i = 0; i < 5 * MIB; i++)
        guest[i] = (char)(i * i >> 11);
    write_file(scene, "sparse", guest, 64 * 1024, 0, 0);
    write_file(scene, "sparse", guest, 32 * 1024, (int64_t)(3 * MIB), (int64_t)(4 * MIB));
    write_file(scene, "memory-ranges", guest, 5 * MIB, 0, 0);
    write_file(scene, "empty", "", 0, 0, 0);
    write_file(scene, "hole", "", 0, 0, (int64_t)MIB);
    write_file(scene, "snapshot.json", "a peer's own", 12, 0, 0);
    int rc = restore(scene, ID, &directory, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(strncmp(directory, scene->staging, strlen(scene->staging)), 0);
    char *text = read_text(directory, "sparse", &count);
    ck_assert_uint_eq(count, 4 * MIB);
    ck_assert(memcmp(text, guest, 64 * 1024) == 0 && memcmp(text + 3 * MIB, guest, 32 * 1024) == 0);
    memset(text + 3 * MIB, 0, 32 * 1024);
    ck_assert(text[64 * 1024] == 0 && memcmp(text + 64 * 1024, text + 64 * 1024 + 1, 4 * MIB - 64 * 1024 - 1) == 0);
    free(text);
    CC_VECTOR("05-16.65");
    text = read_text(directory, "memory-ranges", &count);
    ck_assert(count == 5 * MIB && memcmp(text, guest, count) == 0);
    free(text);
    free(read_text(directory, "empty", &count));
    ck_assert_uint_eq(count, 0);
    free(read_text(directory, "hole", &count));
    ck_assert_uint_eq(count, MIB);
    text = read_text(directory, "snapshot.json", &count);
    ck_assert_ptr_nonnull(strstr(text, "\"version\": 1"));
    ck_assert_ptr_nonnull(strstr(text, "\"id\": \"" ID "\""));
    ck_assert_ptr_nonnull(strstr(text, "\"name\": \"" VM "\""));
    free(text);
    ck_assert_int_eq(stat(scene->staging, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0750);
    ck_assert_uint_eq(entries_of(scene->staging), 1);
    vk_staging_remove(directory);
    ck_assert_uint_eq(entries_of(scene->staging), 0);

    /* The registry says another id: nothing is made, not even the root. */
    ck_assert_int_eq(rmdir(scene->staging), 0);
    ck_assert_int_eq(restore(scene, "OTHER", &directory, &err), CC_CONFLICT);
    ck_assert_ptr_nonnull(strstr(err.msg, "peer has snapshot " ID ", registry says OTHER"));
    ck_assert_int_ne(access(scene->staging, F_OK), 0);
    CC_VECTOR("05-16.62");
    scene->refuses = true;
    ck_assert_int_eq(restore(scene, ID, &directory, &err), CC_UNAVAILABLE);
    ck_assert_int_eq(err.status, 403);
    scene->refuses = false;
}

SCENE_TEST(peers__sweep) {
    char path[256];

    ck_assert_int_eq(mkdir(scene->staging, 0750), 0);
    static const char *const names[] = {"spool", "vk-a-1", "vk-b-2"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", scene->staging, names[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s/%s/file", scene->staging, names[i]);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        close(fd);
    }
    vk_staging_sweep(scene->staging);
    ck_assert_uint_eq(entries_of(scene->staging), 1);
    snprintf(path, sizeof path, "%s/spool/file", scene->staging);
    ck_assert_int_eq(access(path, F_OK), 0);
    vk_staging_sweep("/tmp/vk-no-such-staging");
}

/* --- a peer that misbehaves ----------------------------------------------------------------------------------------
 */

enum fault { NO_FAULT, FLIP, NO_TRAILER, SHORT, LONG, WRONG_STATUS, RESET, TWICE, ESCAPE, HUGE_FILE, FAULT_COUNT };
struct liar {
    enum fault fault;
    int slices;
};
#define BODY "{\"state\":\"Paused\"}"

static void answer(void *ctx, const struct fake_http_request *request, struct fake_http_reply *reply) {
    struct liar *liar = ctx;
    const char *name = liar->fault == ESCAPE ? "../escape" : "state.json";

    if (strstr(request->target, "snapshot-plan")) {
        fake_http_set_text(reply,
                           "{\"snapshotId\":\"" ID "\",\"files\":[{\"name\":\"%s\",\"size\":%s,\"slices\":["
                           "{\"offset\":0,\"length\":18}]}%s]}",
                           name, liar->fault == HUGE_FILE ? "9223372036854775807" : "18",
                           liar->fault == TWICE ? ",{\"name\":\"state.json\",\"size\":0,\"slices\":null}" : "");
        return;
    }
    liar->slices++;
    reply->chunked = true;
    fake_http_add_header(reply, "Trailer", "X-Slice-Crc32c");
    if (liar->fault != NO_TRAILER)
        reply->trailers = "X-Slice-Crc32c: 6701124d\r\n";
    fake_http_set_text(reply, "%s", liar->fault == SHORT ? "{\"state\"" : liar->fault == LONG ? BODY "!" : BODY);
    if (liar->fault == FLIP)
        reply->body[3] ^= 1;
    if (liar->fault == WRONG_STATUS)
        reply->status = 503;
    reply->reset = liar->fault == RESET;
}

SCENE_TEST(peers__faults_leave_nothing) {
    static const char *const parts[FAULT_COUNT] = {
        [FLIP] = "checksum mismatch", [NO_TRAILER] = "server sent no checksum trailer",
        [SHORT] = "shorter than",     [LONG] = "longer than",
        [WRONG_STATUS] = "503",       [ESCAPE] = "not plain",
        [TWICE] = "state.json",
    };
    struct liar liar = {0};
    struct fake_http *server = fake_http_start(&(struct fake_http_script){.handle = answer, .ctx = &liar});
    const char *directory;

    free(scene->base_url);
    scene->base_url = cc_xasprintf("http://127.0.0.1:%d", fake_http_port(server));
    for (int fault = NO_FAULT; fault < FAULT_COUNT; fault++) {
        struct cc_err err = {0};
        liar.fault = (enum fault)fault;
        int rc = restore(scene, ID, &directory, &err);
        ck_assert_msg((rc == 0) == (fault == NO_FAULT), "fault %d: %s", fault, rc ? err.msg : "");
        if (rc == 0)
            vk_staging_remove(directory);
        else
            ck_assert_msg(strstr(err.msg, parts[fault] ? parts[fault] : "") != NULL, "%s", err.msg);
        ck_assert_msg(entries_of(scene->staging) == 0, "fault %d", fault);
    }
    CC_VECTOR("05-16.63");
    CC_VECTOR("05-16.64");
    fake_http_stop(server);
    struct cc_err err = {0};
    ck_assert_int_eq(restore(scene, ID, &directory, &err), CC_UNAVAILABLE); /* the port is closed */
    ck_assert_uint_eq(entries_of(scene->staging), 0);
}

int main(void) {
    Suite *suite = suite_create("snapshots_peers");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, crc32c__known_sums);
    tcase_add_test(tests, peer_plan__slices);
    tcase_add_test(tests, peer_plan__refusals);
    tcase_add_test(tests, peers__names_and_addresses);
    tcase_add_test(tests, peers__zero_mibs_are_left_out);
    tcase_add_test(tests, peers__worked_exchange);
    tcase_add_test(tests, peers__server_refusals);
    tcase_add_test(tests, peers__restore);
    tcase_add_test(tests, peers__sweep);
    tcase_add_test(tests, peers__faults_leave_nothing);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
