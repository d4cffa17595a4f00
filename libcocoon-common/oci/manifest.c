#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "oci/media_types.h"
#include "oci/snapshot.h"

const char *cc_artifact_kind_name(enum cc_artifact_kind kind) {
    switch (kind) {
    case CC_ARTIFACT_SNAPSHOT:
        return "snapshot";
    case CC_ARTIFACT_CLOUD_IMAGE:
        return "cloud-image";
    case CC_ARTIFACT_CONTAINER_IMAGE:
        return "container-image";
    case CC_ARTIFACT_IMAGE_INDEX:
        return "image-index";
    case CC_ARTIFACT_UNKNOWN:
        break;
    }
    return "unknown";
}

static int wrong_type(struct cc_err *err, const char *what) {
    return cc_err_set(err, CC_PROTOCOL, "manifest: %s has the wrong JSON type", what);
}

/* Absent and null read as "". */
static int take_text(const json_t *object, const char *key, struct cc_arena *arena, const char **ret,
                     struct cc_err *err) {
    const json_t *value = cc_json_member(object, key);
    if (value && !json_is_string(value))
        return wrong_type(err, key);
    *ret = cc_json_text_dup(object, key, arena);
    return 0;
}

static int take_annotations(const json_t *object, struct cc_arena *arena, struct cc_strmap *ret, struct cc_err *err) {
    const json_t *map = cc_json_member(object, "annotations");
    if (!map)
        return 0;
    if (!json_is_object(map))
        return wrong_type(err, "annotations");
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)map, key, value) {
        if (!json_is_string(value))
            return wrong_type(err, key);
    }
    cc_json_strmap(map, arena, ret);
    return 0;
}

static int take_descriptor(const json_t *object, struct cc_arena *arena, struct cc_descriptor *ret,
                           struct cc_err *err) {
    if (!json_is_object(object))
        return wrong_type(err, "descriptor");
    const json_t *size = cc_json_member(object, "size");
    if (size && !json_is_integer(size))
        return wrong_type(err, "size");
    ret->size = cc_json_int(object, "size", 0);
    int rc = take_text(object, "mediaType", arena, &ret->media_type, err);
    if (rc == 0)
        rc = take_text(object, "digest", arena, &ret->digest, err);
    return rc ? rc : take_annotations(object, arena, &ret->annotations, err);
}

static int take_layers(const json_t *root, struct cc_manifest *manifest, struct cc_err *err) {
    const json_t *layers = cc_json_member(root, "layers");
    if (!layers)
        return 0;
    if (!json_is_array(layers))
        return wrong_type(err, "layers");
    manifest->layer_count = json_array_size(layers);
    manifest->layers = CC_ARENA_ARRAY(&manifest->arena, struct cc_descriptor, manifest->layer_count + 1);
    for (size_t i = 0; i < manifest->layer_count; i++) {
        int rc = take_descriptor(json_array_get(layers, i), &manifest->arena, &manifest->layers[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int take_manifest(const json_t *root, struct cc_manifest *manifest, struct cc_err *err) {
    if (!json_is_object(root))
        return wrong_type(err, "the document");
    manifest->config = (struct cc_descriptor){.media_type = "", .digest = ""};
    int rc = take_text(root, "mediaType", &manifest->arena, &manifest->media_type, err);
    if (rc == 0)
        rc = take_text(root, "artifactType", &manifest->arena, &manifest->artifact_type, err);
    if (rc == 0 && cc_json_member(root, "config"))
        rc = take_descriptor(cc_json_member(root, "config"), &manifest->arena, &manifest->config, err);
    if (rc == 0)
        rc = take_layers(root, manifest, err);
    return rc ? rc : take_annotations(root, &manifest->arena, &manifest->annotations, err);
}

int cc_manifest_parse(const char *bytes, size_t count, struct cc_manifest **ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(bytes, count, CC_MANIFEST_BYTES_MAX, &root, err);
    if (rc) {
        cc_err_wrap(err, "manifest");
        return rc;
    }
    struct cc_manifest *manifest cc_cleanup(cc_manifest_free_p) = CC_NEW(struct cc_manifest);
    cc_arena_init(&manifest->arena);
    rc = take_manifest(root, manifest, err);
    if (rc)
        return rc;
    *ret = cc_take(manifest);
    return 0;
}

void cc_manifest_free(struct cc_manifest *manifest) {
    if (!manifest)
        return;
    cc_arena_done(&manifest->arena);
    free(manifest);
}

enum cc_artifact_kind cc_manifest_kind(const struct cc_manifest *manifest) {
    static const struct {
        const char *artifact, *config, *manifest;
        enum cc_artifact_kind kind;
    } rules[] = {
        /* contract/05 2: the first that matches; the HTTP content type takes no part. */
        {CC_TYPE_CLOUD_IMAGE, NULL, NULL, CC_ARTIFACT_CLOUD_IMAGE},
        {CC_TYPE_CLOUD_IMAGE_LEGACY, NULL, NULL, CC_ARTIFACT_CLOUD_IMAGE},
        {CC_TYPE_SNAPSHOT_V1, NULL, NULL, CC_ARTIFACT_SNAPSHOT},
        {CC_TYPE_SNAPSHOT_V2, NULL, NULL, CC_ARTIFACT_SNAPSHOT},
        {NULL, CC_TYPE_OCI_CONFIG, NULL, CC_ARTIFACT_CONTAINER_IMAGE},
        {NULL, CC_TYPE_DOCKER_CONFIG, NULL, CC_ARTIFACT_CONTAINER_IMAGE},
        {NULL, NULL, CC_TYPE_OCI_INDEX, CC_ARTIFACT_IMAGE_INDEX},
        {NULL, NULL, CC_TYPE_DOCKER_LIST, CC_ARTIFACT_IMAGE_INDEX},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rules); i++) {
        if ((!rules[i].artifact || cc_text_equal(rules[i].artifact, manifest->artifact_type)) &&
            (!rules[i].config || cc_text_equal(rules[i].config, manifest->config.media_type)) &&
            (!rules[i].manifest || cc_text_equal(rules[i].manifest, manifest->media_type)))
            return rules[i].kind;
    }
    return CC_ARTIFACT_UNKNOWN;
}
