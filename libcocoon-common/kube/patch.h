/* Merge-patch builders: key-level, nobody concatenates JSON. All return new objects (json_decref). contract/02 14,
 * decisions 15, 53. */
#ifndef CC_KUBE_PATCH_H
#define CC_KUBE_PATCH_H

#include <jansson.h>

#include "base/attributes.h"
#include "base/strmap.h"
#include "kube/object.h"

/* {"metadata":{"uid":uid?,"annotations":{...}}}; uid NULL or "" = left out. Add keys with cc_patch_annotation. */
json_t *cc_patch_annotations(const char *uid);
/* value NULL removes the key (JSON null). */
void cc_patch_annotation(json_t *patch, const char *key, const char *value);
/* Number of annotation keys in the patch. */
size_t cc_patch_annotation_count(const json_t *patch);
/* {"metadata":{"resourceVersion":rv,"finalizers":[...]}} with one finalizer added or removed (decision 15). NULL when
 * nothing would change. */
json_t *cc_patch_add_finalizer(const struct cc_object_meta *meta, const char *finalizer);
json_t *cc_patch_remove_finalizer(const struct cc_object_meta *meta, const char *finalizer);
/* RFC 7386 difference of two objects: changed and new members, null for removed ones, arrays whole. Empty object when
 * equal. */
json_t *cc_patch_difference(const json_t *from, const json_t *to);

#endif
