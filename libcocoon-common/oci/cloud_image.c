/* contract/05 chapter 10 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"

#define LAYERS_MAX 4096 /* parts are about 1.9 GiB each */

static bool is_disk(const char *media_type) {
    static const char *const types[] = {CC_TYPE_DISK_QCOW2, CC_TYPE_DISK_RAW, CC_TYPE_WINDOWS_DISK_QCOW2,
                                        CC_TYPE_WINDOWS_DISK_RAW};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(types); i++)
        if (cc_text_starts_with(media_type, types[i]) &&
            (strcmp(media_type + strlen(types[i]), "") == 0 ||
             strcmp(media_type + strlen(types[i]), CC_TYPE_PART_SUFFIX) == 0))
            return true;
    return false;
}

struct part {
    const struct cc_descriptor *layer;
    size_t position; /* in the manifest: equal titles stay in its order */
};

static const char *title_of(const struct cc_descriptor *layer) {
    return cc_strmap_text(&layer->annotations, CC_ANNOTATION_TITLE);
}

static int compare_parts(const void *a, const void *b) {
    const struct part *x = (const struct part *)a, *y = (const struct part *)b;
    int order = strcmp(title_of(x->layer), title_of(y->layer));
    return order != 0 ? order : x->position < y->position ? -1 : 1;
}

static CC_YIELDS int get_part(const struct cc_registry *registry, const char *repository,
                              const struct cc_descriptor *layer, const struct cc_writer *sink, struct cc_err *err) {
    int rc = registry->ops->get_blob(registry->ctx, repository, layer->digest, layer->size, sink, err);
    if (rc == CC_NOT_FOUND)
        rc = cc_err_set(err, CC_PROTOCOL, "blob %s is missing in the registry", layer->digest);
    if (rc)
        cc_err_wrap(err, "disk part %.100s", title_of(layer));
    return rc;
}

int cc_cloud_image_pull(const struct cc_registry *registry, const char *repository, const struct cc_manifest *manifest,
                        const struct cc_writer *sink, struct cc_err *err) {
    enum cc_artifact_kind kind = cc_manifest_kind(manifest);
    if (kind != CC_ARTIFACT_CLOUD_IMAGE)
        return cc_err_set(err, CC_INVALID, "manifest is %s, not a cloud-image", cc_artifact_kind_name(kind));
    if (manifest->layer_count > LAYERS_MAX)
        return cc_err_set(err, CC_LIMIT, "cloud image has %zu layers, at most %d are accepted", manifest->layer_count,
                          LAYERS_MAX);
    struct part *parts cc_cleanup(cc_free_p) = (struct part *)cc_xcalloc(manifest->layer_count + 1, sizeof *parts);
    size_t count = 0;
    for (size_t i = 0; i < manifest->layer_count; i++) {
        const struct cc_descriptor *layer = &manifest->layers[i];
        if (!is_disk(layer->media_type))
            continue;
        if (layer->size < 0)
            return cc_err_set(err, CC_PROTOCOL, "disk part %.100s has a negative size", title_of(layer));
        parts[count++] = (struct part){layer, i};
    }
    if (count == 0)
        return cc_err_set(err, CC_PROTOCOL, "cloud image has no disk layer");
    qsort(parts, count, sizeof *parts, compare_parts);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = get_part(registry, repository, parts[i].layer, sink, err);
    return rc;
}
