/* contract/05 9.4 */
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"
#include "oci/snapshot.h"

#define CHILDREN_MAX 10000

static const char *architecture_of(const json_t *child) {
    const json_t *platform = cc_json_member(child, "platform");
    return json_is_object(platform) ? cc_text_or(cc_json_text(platform, "architecture"), "") : NULL;
}

static bool is_ours(const json_t *child) {
    return cc_text_equal(architecture_of(child), "amd64") &&
           cc_text_equal(cc_json_text(cc_json_member(child, "platform"), "os"), "linux");
}

static bool is_usable(const json_t *child) {
    const char *architecture = architecture_of(child);
    return architecture && strcmp(architecture, "unknown") != 0;
}

static const json_t *choose(const json_t *children) {
    const json_t *first = NULL;
    size_t index;
    json_t *child;
    json_array_foreach (children, index, child) {
        if (is_ours(child))
            return child;
        if (!first && is_usable(child))
            first = child;
    }
    return first;
}

int cc_manifest_index_child(const char *bytes, size_t count, char ret_digest[CC_DIGEST_BYTES], struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(bytes, count, CC_MANIFEST_BYTES_MAX, &root, err);
    if (rc) {
        cc_err_wrap(err, "image-index");
        return rc;
    }
    const json_t *children = cc_json_member(root, "manifests");
    if (children && !json_is_array(children))
        return cc_err_set(err, CC_PROTOCOL, "image-index: manifests has the wrong JSON type");
    if (json_array_size(children) > CHILDREN_MAX)
        return cc_err_set(err, CC_LIMIT, "image-index has more than %d children", CHILDREN_MAX);
    const json_t *child = choose(children);
    if (!child)
        return cc_err_set(err, CC_PROTOCOL, "image-index has no usable platform child");
    const char *digest = cc_text_or(cc_json_text(child, "digest"), "");
    if (!cc_digest_is_valid(digest))
        return cc_err_set(err, CC_PROTOCOL, "image-index: digest \"%.80s\" is malformed", digest);
    snprintf(ret_digest, CC_DIGEST_BYTES, "%s", digest);
    return 0;
}
