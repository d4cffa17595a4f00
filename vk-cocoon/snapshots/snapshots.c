#include "snapshots/snapshots.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/text.h"
#include "obs/log.h"
#include "snapshots/snapshots_internal.h"

#define PULL_BUDGET_MIB 2048 /* the library's own default is larger (contract/05 7) */

int vk_snapshots_new(struct cc_loop *loop, const struct vk_snapshots_options *options, struct vk_snapshots **ret,
                     struct cc_err *err) {
    struct cc_push_plan plan;
    int rc = cc_push_plan_make(&options->knobs, &plan, err);

    if (rc == 0)
        rc = vk_spool_prepare(options->spool_directory, err);
    if (rc != 0)
        return rc;
    /* Before any pod is served: a restore of the last life must not be taken for one of this (contract/05 13.3). */
    if (!cc_text_is_empty(options->staging_directory))
        vk_staging_sweep(options->staging_directory);

    struct vk_snapshots *snapshots = CC_NEW(struct vk_snapshots);
    snapshots->runtime = options->runtime;
    snapshots->has_registry = options->registry != NULL;
    if (options->registry)
        snapshots->registry = *options->registry;
    snapshots->node_name = cc_xstrdup(cc_text_or(options->node_name, ""));
    snapshots->spool_directory = cc_xstrdup(options->spool_directory);
    snapshots->staging_directory = cc_xstrdup(cc_text_or(options->staging_directory, ""));
    snapshots->knobs = options->knobs;
    snapshots->pull_budget_mib = options->pull_budget_mib > 0 ? options->pull_budget_mib : PULL_BUDGET_MIB;
    snapshots->peers = options->peers;
    cc_semaphore_init(&snapshots->pull_gate, options->pulls_at_once > 0 ? options->pulls_at_once : VK_PULLS_AT_ONCE);
    cc_semaphore_init(&snapshots->peer_gate,
                      options->peer_restores_at_once > 0 ? options->peer_restores_at_once : VK_PEER_RESTORES_AT_ONCE);
    cc_semaphore_init(&snapshots->push_gate, options->pushes_at_once > 0 ? options->pushes_at_once : VK_PUSHES_AT_ONCE);
    snapshots->pulls = cc_flights_new(loop);
    snapshots->images = cc_flights_new(loop);
    *ret = snapshots;
    return 0;
}

void vk_snapshots_free(struct vk_snapshots *snapshots) {
    if (!snapshots)
        return;
    cc_flights_free(snapshots->pulls);
    cc_flights_free(snapshots->images);
    cc_arena_done(&snapshots->boot_arena);
    free(snapshots->node_name);
    free(snapshots->spool_directory);
    free(snapshots->staging_directory);
    free(snapshots);
}

const struct cc_registry *vk_snapshots_registry(const struct vk_snapshots *snapshots) {
    return snapshots->has_registry ? &snapshots->registry : NULL;
}

int vk_snapshots_check_space(const struct vk_snapshots *snapshots, int64_t bytes, struct cc_err *err) {
    struct statvfs status;

    if (statvfs(snapshots->spool_directory, &status) != 0)
        return cc_err_errno(err, errno, "free space of spool directory %s", snapshots->spool_directory);
    uint64_t available = (uint64_t)status.f_bavail * (uint64_t)status.f_frsize;
    if (bytes > 0 && available < (uint64_t)bytes)
        return cc_err_set(err, CC_LIMIT,
                          "no space left for a push: spool directory %s has %" PRIu64 " of %" PRId64 " bytes free",
                          snapshots->spool_directory, available, bytes);
    return 0;
}

/* --- push --------------------------------------------------------------------------------------------------------- */

struct push {
    struct vk_snapshots *snapshots;
    struct vk_transfer *transfer;
};

static int finish_export(void *ctx, struct cc_err *err) {
    struct push *push = ctx;
    const struct vk_runtime *runtime = &push->snapshots->runtime;

    return runtime->ops->transfer_finish(runtime->ctx, push->transfer, err);
}

/* One export and push, not yet read back. */
static int push_once(struct vk_snapshots *snapshots, const struct cc_snapshot_push_options *options,
                     struct cc_snapshot_push_result *ret, struct cc_err *err) {
    const struct vk_runtime *runtime = &snapshots->runtime;
    struct push push = {.snapshots = snapshots};
    struct cc_reader archive;
    int rc = runtime->ops->snapshot_export(runtime->ctx, options->repository, &push.transfer, &archive, err);

    if (rc != 0)
        return rc;
    rc = cc_snapshot_push(&snapshots->registry, options, &archive, finish_export, &push, ret, err);
    runtime->ops->transfer_free(runtime->ctx, push.transfer);
    return rc;
}

/* Decision 42: a tag is durable only when the registry names it. */
static int push_verified(struct vk_snapshots *snapshots, struct cc_snapshot_push_options *options, struct cc_err *err) {
    struct cc_snapshot_push_result result = {0};
    char bytes[32];
    int rc = push_once(snapshots, options, &result, err);

    if (rc != 0)
        return rc;
    rc = cc_snapshot_read_back(&snapshots->registry, options->repository, options->tag, result.digest, err);
    if (rc == CC_NOT_FOUND || rc == CC_CONFLICT) {
        cc_log_warn("the registry does not name the snapshot that was just pushed, pushing all of it again",
                    CC_KV("repository", options->repository), CC_KV("tag", options->tag),
                    CC_KV("error", err ? err->msg : NULL));
        options->force_blobs = true;
        rc = push_once(snapshots, options, &result, err);
        if (rc == 0)
            rc = cc_snapshot_read_back(&snapshots->registry, options->repository, options->tag, result.digest, err);
        /* For the caller this is a failed push, not an absent thing. */
        if (rc == CC_NOT_FOUND || rc == CC_CONFLICT)
            rc = cc_err_set(err, CC_PROTOCOL, "the registry accepted the manifest %s twice and does not name it",
                            result.digest);
    }
    if (rc != 0)
        return rc;
    snprintf(bytes, sizeof bytes, "%" PRId64, result.bytes);
    cc_log_info("snapshot pushed", CC_KV("repository", options->repository), CC_KV("tag", options->tag),
                CC_KV("digest", result.digest), CC_KV("bytes", bytes));
    return 0;
}

int vk_snapshots_push(struct vk_snapshots *snapshots, const char *vm_name, const char *tag, const char *base_image,
                      struct cc_err *err) {
    struct cc_snapshot_push_options options = {
        .repository = vm_name,
        .tag = tag,
        .base_image = base_image,
        .from_node = snapshots->node_name,
        .spool_directory = snapshots->spool_directory,
        .knobs = snapshots->knobs,
    };

    if (!snapshots->has_registry)
        return cc_err_set(err, CC_UNSUPPORTED, "push snapshot %s: no registry is configured", vm_name);
    int rc = cc_semaphore_acquire(&snapshots->push_gate, 1, err);
    if (rc != 0)
        return cc_err_wrap(err, "push snapshot %s: wait for the push gate", vm_name), rc;
    rc = push_verified(snapshots, &options, err);
    cc_semaphore_release(&snapshots->push_gate, 1);
    return rc == 0 ? 0 : (cc_err_wrap(err, "push snapshot %s:%s", vm_name, tag), rc);
}

/* --- pull --------------------------------------------------------------------------------------------------------- */

struct pull {
    struct vk_snapshots *snapshots;
    char *repository, *tag, *local;
    bool skip_if_local;
};

static void free_pull(void *arg) {
    struct pull *pull = arg;

    free(pull->repository);
    free(pull->tag);
    free(pull->local);
    free(pull);
}

static int run_pull(void *arg, struct cc_err *err) {
    const struct pull *pull = arg;
    const struct vk_runtime *runtime = &pull->snapshots->runtime;
    struct vk_import import = {.runtime = runtime, .name = pull->local};
    struct cc_writer sink = vk_import_sink(&import);

    if (pull->skip_if_local) {
        struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
        int rc = runtime->ops->snapshot_inspect(runtime->ctx, pull->local, &record, err);

        /* contract/07 5.5 E2: found is used, everything else leads to the pull. */
        if (rc == 0 || rc == CC_CANCELED || rc == CC_TIMEOUT)
            return rc;
    }
    struct cc_snapshot_pull_options options = {
        .repository = pull->repository,
        .tag = pull->tag,
        .spool_directory = pull->snapshots->spool_directory,
        .concurrency = pull->snapshots->knobs.concurrency,
        .budget_mib = pull->snapshots->pull_budget_mib,
        .gate = &pull->snapshots->pull_gate,
    };
    int rc = cc_snapshot_pull_with(&pull->snapshots->registry, &options, &sink, err);
    rc = vk_import_end(&import, rc, err);
    if (rc != 0)
        return cc_err_wrap(err, "pull snapshot %s:%s as %s", pull->repository, pull->tag, pull->local), rc;
    cc_log_info("snapshot pulled", CC_KV("repository", pull->repository), CC_KV("tag", pull->tag),
                CC_KV("snapshot", pull->local));
    return 0;
}

int vk_snapshots_pull(struct vk_snapshots *snapshots, const char *repository, const char *tag, const char *local,
                      bool skip_if_local, struct cc_err *err) {
    if (!snapshots->has_registry)
        return cc_err_set(err, CC_UNSUPPORTED, "pull snapshot %s:%s: no registry is configured", repository, tag);

    struct pull *pull = CC_NEW(struct pull);
    *pull = (struct pull){
        .snapshots = snapshots,
        .repository = cc_xstrdup(repository),
        .tag = cc_xstrdup(tag),
        .local = cc_xstrdup(local),
        .skip_if_local = skip_if_local,
    };
    return cc_flights_do(snapshots->pulls, local, VK_FLIGHT_MS, run_pull, pull, free_pull, err);
}
