/* Is there hibernated state under this VM name? contract/07 5.3. */
#include "provider/provider_internal.h"

#include "base/text.h"
#include "oci/reference.h"

static void lookup_registry(const struct cc_registry *registry, const char *vm_name, struct cc_arena *arena,
                            struct vk_evidence *ret) {
    bool is_found = false;

    if (cc_registry_base_image(registry, vm_name, CC_TAG_HIBERNATE, arena, &is_found, &ret->image, &ret->error) != 0) {
        ret->kind = VK_EVIDENCE_UNAVAILABLE;
        cc_ignore(cc_err_wrap(&ret->error, "hibernate tag of %s is unknown, refusing fresh boot", vm_name),
                  "the code is kept");
        return;
    }
    ret->kind = is_found ? VK_EVIDENCE_FOUND : VK_EVIDENCE_NONE;
}

static void lookup_local(const struct vk_runtime *runtime, const char *vm_name, struct vk_evidence *ret) {
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
    int rc = runtime->ops->snapshot_inspect(runtime->ctx, vm_name, &record, &ret->error);

    if (rc == 0) {
        ret->kind = VK_EVIDENCE_FOUND;
    } else if (rc != CC_NOT_FOUND) {
        ret->kind = VK_EVIDENCE_UNAVAILABLE;
        cc_ignore(cc_err_wrap(&ret->error, "local snapshot of %s is unknown, refusing fresh boot", vm_name),
                  "the code is kept");
    }
}

void vk_evidence_lookup(struct vk_provider *provider, const char *vm_name, struct cc_arena *arena,
                        struct vk_evidence *ret) {
    const struct cc_registry *registry = vk_snapshots_registry(provider->options.snapshots);

    *ret = (struct vk_evidence){.kind = VK_EVIDENCE_NONE, .image = ""};
    if (registry)
        lookup_registry(registry, vm_name, arena, ret);
    else
        lookup_local(&provider->options.runtime, vm_name, ret);
    ret->image = cc_text_or(ret->image, "");
}

enum vk_verdict vk_evidence_judge(bool is_marked, enum vk_evidence_kind kind, bool has_explicit_source,
                                  const char *recorded_image, const char *pod_image) {
    switch (kind) {
    case VK_EVIDENCE_UNAVAILABLE:
        return VK_VERDICT_UNAVAILABLE;
    case VK_EVIDENCE_NONE:
        return is_marked ? VK_VERDICT_RESTORE_MARKED : VK_VERDICT_FRESH;
    case VK_EVIDENCE_FOUND:
        break;
    }
    if (!is_marked && has_explicit_source)
        return VK_VERDICT_SOURCE_CONFLICT;
    /* By reference, byte for byte: another ref says that another image is wanted. */
    if (!cc_text_is_empty(recorded_image) && !cc_text_equal(recorded_image, pod_image))
        return VK_VERDICT_IMAGE_CONFLICT;
    return is_marked ? VK_VERDICT_RESTORE_MARKED : VK_VERDICT_RESTORE_FOUND;
}
