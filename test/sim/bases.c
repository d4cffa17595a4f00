/* Images that guests are cloned from: snapshots in the registry, each with a memory number of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "oci/snapshot.h"
#include "sim.h"
#include "support/node/fake_host_internal.h"

#define REPOSITORY "r/base"
#define ARCHIVE_BYTES_MAX ((size_t)64 * 1024)

static const char *const images[SIM_BASES] = {REPOSITORY ":1", REPOSITORY ":2"};

struct source {
    struct cc_buf archive;
    size_t at;
};

static int read_archive(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct source *source = ctx;
    size_t left = source->archive.len - source->at;

    (void)err;
    *ret_count = left < capacity ? left : capacity;
    memcpy(bytes, source->archive.data + source->at, *ret_count);
    source->at += *ret_count;
    return 0;
}

CC_YIELDS static void put(struct sim_world *world, size_t index) {
    struct fake_snapshot snapshot = {
        .hypervisor = "cloud-hypervisor", .image = "r/os:1", .image_type = "cloudimg", .nics = 1};
    struct cc_registry port = cc_memory_registry_port(world->store);
    struct cc_snapshot_push_options options = {
        .repository = REPOSITORY, .tag = strchr(images[index], ':') + 1, .spool_directory = world->directory};
    struct cc_snapshot_push_result result;
    struct source source = {0};
    const struct cc_reader reader = {read_archive, &source};
    struct cc_err err = {0};

    world->bases[index] = snapshot.memory = ++world->counter;
    snprintf(snapshot.id, sizeof snapshot.id, "BASE%zu", index + 1);
    snprintf(snapshot.name, sizeof snapshot.name, "%s", images[index]);
    snprintf(snapshot.image_digest, sizeof snapshot.image_digest, "sha256:%064d", 7);
    cc_buf_init(&source.archive, ARCHIVE_BYTES_MAX);
    fake_archive_write(world->hosts[0], &snapshot, &source.archive);
    if (cc_snapshot_push(&port, &options, &reader, NULL, NULL, &result, &err) != 0) {
        fprintf(stderr, "sim: %s: %s\n", images[index], err.msg);
        abort();
    }
    cc_buf_done(&source.archive);
}

void sim_bases_put(struct sim_world *world) {
    for (size_t i = 0; i < SIM_BASES; i++)
        put(world, i);
}

const char *sim_base_with(const struct sim_world *world, uint64_t memory) {
    for (size_t i = 0; i < SIM_BASES && memory > 0; i++)
        if (world->bases[i] == memory)
            return images[i];
    return NULL;
}

bool sim_is_base(const char *image) {
    return cc_text_equal(image, images[0]) || cc_text_equal(image, images[1]);
}

const char *sim_other_image(const char *image) {
    if (sim_is_base(image))
        return cc_text_equal(image, images[0]) ? images[1] : images[0];
    return cc_text_equal(image, "r/y:1") ? "r/y:2" : "r/y:1";
}
