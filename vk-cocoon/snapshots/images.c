/* Images that bring-up needs: contract/06 2.5, contract/05 chapter 10, contract/07 5.5 E3 and F. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "oci/reference.h"
#include "obs/log.h"
#include "snapshots/snapshots_internal.h"

/* Names of images that were made available, for the callers that shared a flight. Beyond this many they are forgotten
 * and resolved again. */
#define BOOT_NAMES_MAX 1024

/* A name changes only when an artifact of another kind was pushed under the same ref: the arena hardly grows. */
static void remember_boot_name(struct vk_snapshots *snapshots, const char *key, const char *name) {
    if (cc_text_equal(cc_strmap_get(&snapshots->boot_names, key), name))
        return;
    if (snapshots->boot_names.count >= BOOT_NAMES_MAX) {
        cc_arena_done(&snapshots->boot_arena);
        snapshots->boot_names = (struct cc_strmap){0};
    }
    cc_strmap_set(&snapshots->boot_names, &snapshots->boot_arena, key, name);
}

static bool is_url(const char *image) {
    return cc_text_starts_with(image, "http://") || cc_text_starts_with(image, "https://");
}

static int import_cloud_image(struct vk_snapshots *snapshots, const char *repository, const char *local,
                              const struct cc_manifest *manifest, struct cc_err *err) {
    struct vk_import import = {.runtime = &snapshots->runtime, .name = local, .is_image = true};
    struct cc_writer sink = vk_import_sink(&import);
    int rc = cc_cloud_image_pull(&snapshots->registry, repository, manifest, &sink, err);

    return vk_import_end(&import, rc, err);
}

/* --- run images --------------------------------------------------------------------------------------------------- */

struct ensure {
    struct vk_snapshots *snapshots;
    char *key, *image;
    bool force;
};

static void free_ensure(void *arg) {
    struct ensure *ensure = arg;

    free(ensure->key);
    free(ensure->image);
    free(ensure);
}

static int pull_image(const struct ensure *ensure, struct cc_err *err) {
    const struct vk_runtime *runtime = &ensure->snapshots->runtime;
    int rc = runtime->ops->image_pull(runtime->ctx, ensure->image, ensure->force, err);

    if (rc == 0)
        remember_boot_name(ensure->snapshots, ensure->key, ensure->image);
    return rc;
}

static int ensure_cloud_image(const struct ensure *ensure, const char *repository, const char *tag,
                              const struct cc_manifest *manifest, struct cc_err *err) {
    const struct vk_runtime *runtime = &ensure->snapshots->runtime;
    char *local cc_cleanup(cc_free_p) = cc_xasprintf("%s:%s", repository, tag);
    bool present = false;
    int rc = 0;

    if (!ensure->force)
        rc = runtime->ops->image_present(runtime->ctx, local, &present, err);
    if (rc == 0 && !present)
        rc = import_cloud_image(ensure->snapshots, repository, local, manifest, err);
    if (rc == 0)
        remember_boot_name(ensure->snapshots, ensure->key, local);
    return rc;
}

/* The manifest that the configured registry has under the ref; NULL when the ref is none of its, or the registry cannot
 * say: this path fails open to cocoon's own pull (contract/05 chapter 10 step 3). CANCELED alone is an error. */
static int peek(const struct ensure *ensure, const char *repository, const char *tag, struct cc_manifest **ret,
                struct cc_err *err) {
    const struct cc_registry *registry = &ensure->snapshots->registry;
    struct cc_manifest_bytes bytes;
    struct cc_err why;

    *ret = NULL;
    if (!cc_repository_is_valid(repository) || !cc_tag_is_valid(tag))
        return 0;
    int rc = registry->ops->get_manifest(registry->ctx, repository, tag, &bytes, &why);
    if (rc == 0) {
        rc = cc_manifest_parse(bytes.body.data, bytes.body.len, ret, &why);
        cc_manifest_bytes_done(&bytes);
    }
    if (rc == CC_CANCELED) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc != 0)
        cc_log_info("the registry has no usable manifest of the image, cocoon pulls it", CC_KV("image", ensure->image),
                    CC_KV("error", why.msg));
    return 0;
}

static int run_ensure(void *arg, struct cc_err *err) {
    const struct ensure *ensure = arg;
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = NULL;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *repository, *tag;

    if (!ensure->snapshots->has_registry || is_url(ensure->image))
        return pull_image(ensure, err);
    cc_ref_split(ensure->image, &arena, &repository, &tag);
    int rc = peek(ensure, repository, tag, &manifest, err);
    if (rc != 0)
        return rc;

    enum cc_artifact_kind kind = manifest ? cc_manifest_kind(manifest) : CC_ARTIFACT_UNKNOWN;
    if (kind == CC_ARTIFACT_SNAPSHOT)
        return cc_err_set(err, CC_INVALID, "image %s is a snapshot artifact; use mode=clone instead of mode=run",
                          ensure->image);
    if (kind == CC_ARTIFACT_CLOUD_IMAGE)
        return ensure_cloud_image(ensure, repository, tag, manifest, err);
    return pull_image(ensure, err);
}

int vk_snapshots_ensure_run_image(struct vk_snapshots *snapshots, const char *image, bool force, struct cc_arena *arena,
                                  const char **ret, struct cc_err *err) {
    if (cc_text_is_empty(image)) {
        *ret = "";
        return 0;
    }
    /* Force and non-force flights are kept apart; the image is an exact text. */
    const char *key = cc_arena_printf(arena, "%s %s", force ? "force" : "keep", image);
    struct ensure *ensure = CC_NEW(struct ensure);
    *ensure = (struct ensure){
        .snapshots = snapshots,
        .key = cc_xstrdup(key),
        .image = cc_xstrdup(image),
        .force = force,
    };
    int rc = cc_flights_do(snapshots->images, key, VK_FLIGHT_MS, run_ensure, ensure, free_ensure, err);
    if (rc != 0)
        return cc_err_wrap(err, "ensure image %s", image), rc;
    *ret = cc_arena_strdup(arena, cc_text_or(cc_strmap_get(&snapshots->boot_names, key), image));
    return 0;
}

int vk_snapshots_ensure_base_image(struct vk_snapshots *snapshots, const struct vk_snapshot_record *record,
                                   struct cc_err *err) {
    const struct vk_runtime *runtime = &snapshots->runtime;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *name;
    bool present = false;
    int rc = 0;

    /* cocoon's own --pull handles http(s) bases. */
    if (cc_text_is_empty(record->image) || is_url(record->image))
        return 0;
    if (!cc_text_is_empty(record->image_digest))
        rc = runtime->ops->image_present(runtime->ctx, record->image_digest, &present, err);
    if (rc == 0 && !present)
        rc = vk_snapshots_ensure_run_image(snapshots, record->image, false, &arena, &name, err);
    return rc == 0 ? 0 : (cc_err_wrap(err, "ensure snapshot base image %s", record->image), rc);
}
