#include "cocoonset/pass.h"

#include <stdarg.h>
#include <stdlib.h>

#include "api/cocoonhibernation.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "cocoonset/status.h"
#include "kube/patch.h"
#include "pods/live.h"
#include "meta/keys.h"
#include "meta/vm_spec.h"
#include "obs/log.h"
#include "oci/reference.h"

/* Records that were edited by hand count as empty (contract/02 chapter 5); whoever did it must be able to see that. */
static void report_malformed(struct op_pass *pass, const char *key, const char *wanted) {
    op_pass_event(pass, CC_EVENT_WARNING, OP_EVENT_MALFORMED_ANNOTATION, "annotation %s is not %s: it counts as empty",
                  key, wanted);
}

static void check_history(struct op_pass *pass) {
    const char *text = op_pass_set_annotation(pass, CC_KEY_REBUILD_HISTORY);
    json_t *json cc_cleanup(cc_json_decref_p) = NULL;
    if (cc_text_is_empty(text))
        return;
    if (cc_json_parse(text, strlen(text), CC_RECORD_BYTES_MAX, &json, NULL) != 0 || !json_is_object(json))
        report_malformed(pass, CC_KEY_REBUILD_HISTORY, "a JSON object");
}

void op_pass_init(struct op_pass *pass, struct op_cocoonset *controller, const struct cc_cocoonset *take_set) {
    *pass = (struct op_pass){.controller = controller, .set = take_set, .generation = take_set->base.meta.generation};
    cc_arena_init(&pass->arena);
    if (!cc_reclaim_parse(cc_strmap_get(&take_set->base.meta.annotations, CC_KEY_HIBERNATE_RECLAIM), &pass->arena,
                          &pass->record))
        report_malformed(pass, CC_KEY_HIBERNATE_RECLAIM, "a record of VM names");
    check_history(pass);
}

void op_pass_done(struct op_pass *pass) {
    op_pods_done(&pass->pods);
    if (pass->hibernations_listed)
        cc_object_list_done(&pass->hibernations);
    for (size_t i = 0; i < pass->retired_count; i++)
        cc_object_unref(pass->retired[i]);
    free(pass->retired);
    cc_object_unref(&pass->set->base);
    cc_arena_done(&pass->arena);
}

static void retire(struct op_pass *pass, const struct cc_object *object) {
    if (pass->retired_count == pass->retired_capacity) {
        pass->retired_capacity = pass->retired_capacity ? 2 * pass->retired_capacity : 16;
        pass->retired = cc_xrealloc(pass->retired, pass->retired_capacity * sizeof(struct cc_object *));
    }
    pass->retired[pass->retired_count++] = object;
}

const char *op_pass_namespace(const struct op_pass *pass) {
    return pass->set->base.meta.namespace;
}

const char *op_pass_set_name(const struct op_pass *pass) {
    return pass->set->base.meta.name;
}

const char *op_pass_set_annotation(const struct op_pass *pass, const char *key) {
    return cc_strmap_text(&pass->set->base.meta.annotations, key);
}

const struct cc_registry *op_pass_registry(const struct op_pass *pass) {
    return pass->controller->options.registry;
}

bool op_pass_phase_is(const struct op_pass *pass, const char *phase) {
    return cc_text_equal(pass->set->status.phase, phase);
}

void op_pass_list_pods(struct op_pass *pass, bool with_terminating) {
    const struct op_cocoonset *controller = pass->controller;
    struct cc_object_list listed;
    const char *key = cc_object_key(&pass->set->base.meta, &pass->arena);
    cc_cache_by_index(controller->options.pods, controller->pods_by_set, key, &listed);
    op_pods_done(&pass->pods);
    op_classify(pass->set, listed.items, listed.count, with_terminating, &pass->arena, &pass->pods);
    cc_object_list_done(&listed);
}

const struct cc_object_list *op_pass_hibernations(struct op_pass *pass) {
    const struct op_cocoonset *controller = pass->controller;
    if (!pass->hibernations_listed) {
        cc_cache_by_index(controller->options.hibernations, controller->hibernations_by_namespace,
                          op_pass_namespace(pass), &pass->hibernations);
        pass->hibernations_listed = true;
    }
    return &pass->hibernations;
}

static struct cc_kube_ref set_ref(const struct op_pass *pass, const char *subresource) {
    return (struct cc_kube_ref){.resource = &cc_cocoonset_resource,
                                .namespace = op_pass_namespace(pass),
                                .name = op_pass_set_name(pass),
                                .subresource = subresource};
}

int op_pass_replace_set(struct op_pass *pass, const json_t *json, struct cc_err *err) {
    struct cc_object *newer = NULL;
    int rc = cc_cocoonset_resource.decode(json, &newer, err);
    if (rc != 0)
        return cc_err_wrap(err, "cocoonset %s/%s", op_pass_namespace(pass), op_pass_set_name(pass));
    retire(pass, &pass->set->base);
    pass->set = cc_cocoonset_of(newer);
    /* The next pass must not read a record, a phase or a stash that is older than what this one wrote. */
    cc_cache_observe(pass->controller->options.sets, newer);
    return 0;
}

static int patch_set(struct op_pass *pass, const char *subresource, const json_t *patch, struct cc_err *err) {
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_kube_ref ref = set_ref(pass, subresource);
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, &answer, err);
    if (rc != 0)
        return rc;
    return op_pass_replace_set(pass, answer, err);
}

int op_pass_annotate_set(struct op_pass *pass, const char *key, const char *value, struct cc_err *err) {
    if (cc_text_equal(cc_strmap_get(&pass->set->base.meta.annotations, key), value) &&
        cc_strmap_has(&pass->set->base.meta.annotations, key) == (value != NULL))
        return 0;
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_annotations(pass->set->base.meta.uid);
    cc_patch_annotation(patch, key, value);
    int rc = patch_set(pass, NULL, patch, err);
    if (rc != 0)
        return cc_err_wrap(err, "write annotation %s", key);
    return 0;
}

int op_pass_annotate_pod(struct op_pass *pass, struct op_owned_pod *owned, const char *key, const char *value,
                         struct cc_err *err) {
    const struct cc_object_meta *meta = &owned->pod->base.meta;
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_annotations(meta->uid);
    cc_patch_annotation(patch, key, value);
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = meta->namespace, .name = meta->name};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *newer = NULL;
    int rc = cc_kube_patch(pass->controller->options.kube, &ref, CC_PATCH_MERGE, patch, &answer, err);
    if (rc == 0)
        rc = cc_pod_resource.decode(answer, &newer, err);
    if (rc != 0)
        return cc_err_wrap(err, "write annotation %s of pod %s/%s", key, meta->namespace, meta->name);
    retire(pass, &owned->pod->base);
    owned->pod = cc_pod_of(newer);
    return 0;
}

int op_pass_hibernate_pod(struct op_pass *pass, struct op_owned_pod *owned, bool want, struct cc_err *err) {
    if (cc_pod_is_hibernating(owned->pod) == want)
        return 0;
    return op_pass_annotate_pod(pass, owned, CC_KEY_HIBERNATE, want ? "true" : NULL, err);
}

int op_pass_read_pod(struct op_pass *pass, struct op_owned_pod *owned, bool *ret_present, struct cc_err *err) {
    const struct cc_object_meta *meta = &owned->pod->base.meta;
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = meta->namespace, .name = meta->name};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_object *live = NULL;
    int rc = cc_kube_get(pass->controller->options.kube, &ref, &answer, err);
    *ret_present = false;
    if (rc == CC_NOT_FOUND)
        return 0;
    if (rc == 0)
        rc = cc_pod_resource.decode(answer, &live, err);
    if (rc != 0)
        return cc_err_wrap(err, "read pod %s/%s", meta->namespace, meta->name);
    if (!cc_text_equal(live->meta.uid, meta->uid)) {
        cc_object_unref(live);
        return 0;
    }
    retire(pass, &owned->pod->base);
    owned->pod = cc_pod_of(live);
    *ret_present = true;
    return 0;
}

CC_YIELDS static int delete_pod(struct op_pass *pass, const struct cc_pod *pod, bool only_unchanged,
                                struct cc_err *err) {
    const struct cc_object_meta *meta = &pod->base.meta;
    struct cc_kube_ref ref = {.resource = &cc_pod_resource, .namespace = meta->namespace, .name = meta->name};
    struct cc_kube_delete_options options = {
        .uid = meta->uid, .grace_s = -1, .resource_version = only_unchanged ? meta->resource_version : NULL};
    struct cc_err failure = {0};
    int rc = cc_kube_delete(pass->controller->options.kube, &ref, &options, &failure);
    bool changed = only_unchanged && rc == CC_CONFLICT && !failure.uid_mismatch;
    if (rc != 0 && (changed || !cc_kube_is_superseded(&failure))) {
        if (err)
            *err = failure;
        cc_ignore(cc_err_wrap(err, "delete pod %s/%s", meta->namespace, meta->name), "the code is kept");
        return rc;
    }
    cc_log_info("pod deleted", CC_KV("pod", meta->name));
    return 0;
}

int op_pass_delete_pod(struct op_pass *pass, const struct cc_pod *pod, struct cc_err *err) {
    return delete_pod(pass, pod, false, err);
}

int op_pass_delete_pod_unchanged(struct op_pass *pass, const struct cc_pod *pod, struct cc_err *err) {
    return delete_pod(pass, pod, true, err);
}

int op_pass_keep_snapshot(struct op_pass *pass, struct op_owned_pod *owned, struct cc_err *err) {
    struct cc_err failure = {0};
    if (cc_flag_is_set(&owned->pod->base.meta.annotations, CC_KEY_KEEP_SNAPSHOT))
        return 0;
    int rc = op_pass_annotate_pod(pass, owned, CC_KEY_KEEP_SNAPSHOT, "true", &failure);
    if (rc == CC_CANCELED) {
        if (err)
            *err = failure;
        return rc;
    }
    if (rc != 0)
        cc_log_warn("pod not flagged to keep its local snapshot", CC_KV("pod", owned->pod->base.meta.name),
                    CC_KV("error", failure.msg));
    return 0;
}

int op_pass_drop_tag_of_woken(struct op_pass *pass, const struct cc_pod *pod, bool *ret_gone, struct cc_err *err) {
    const struct cc_registry *registry = op_pass_registry(pass);
    const char *vm_name = cc_pod_annotation(pod, CC_KEY_VM_NAME);
    bool present = false;
    bool awake = false;
    int rc = cc_registry_has_tag(registry, vm_name, CC_TAG_HIBERNATE, &present, err);
    if (rc == 0 && present)
        rc = op_confirm_awake(pass->controller->options.kube, pod, &awake, err);
    if (rc == 0 && present && awake)
        rc = cc_registry_delete_tag(registry, vm_name, CC_TAG_HIBERNATE, err);
    if (rc != 0)
        return cc_err_wrap(err, "drop the snapshot of %s", vm_name);
    *ret_gone = !present || awake;
    return 0;
}

int op_pass_stash(struct op_pass *pass, const struct cc_strlist *vm_names, struct cc_err *err) {
    struct cc_strlist names = {0};
    cc_delete_names_parse(op_pass_set_annotation(pass, CC_KEY_DELETE_VM_NAMES), &pass->arena, &names);
    for (size_t i = 0; i < vm_names->count; i++)
        if (!cc_text_is_empty(vm_names->items[i]))
            cc_strlist_add_unique(&names, &pass->arena, vm_names->items[i]);
    /* A pod that went away while suspended is in no status: only the record still knows its VM. */
    for (size_t i = 0; i < pass->record.vms.count; i++)
        cc_strlist_add_unique(&names, &pass->arena, pass->record.vms.items[i]);
    const char *text = cc_delete_names_encode(&names, &pass->arena);
    if (!text)
        return 0;
    return op_pass_annotate_set(pass, CC_KEY_DELETE_VM_NAMES, text, err);
}

int op_pass_write_record(struct op_pass *pass, struct cc_err *err) {
    return op_pass_annotate_set(pass, CC_KEY_HIBERNATE_RECLAIM, cc_reclaim_encode(&pass->record, &pass->arena), err);
}

int op_pass_forget(struct op_pass *pass, const struct cc_strlist *vm_names, struct cc_err *err) {
    bool listed = false;
    for (size_t i = 0; i < vm_names->count && !listed; i++)
        listed = cc_strlist_has(&pass->record.vms, vm_names->items[i]);
    if (!listed)
        return 0;
    int rc = cc_mutex_lock(&pass->record_lock, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < vm_names->count; i++)
        cc_ignore(cc_reclaim_forget(&pass->record, vm_names->items[i]), "one that is not listed needs no forgetting");
    rc = op_pass_write_record(pass, err);
    cc_mutex_unlock(&pass->record_lock);
    return rc;
}

/* An API server whose CRD is older than this program drops members that it does not know. Say so once and do not send
 * the same status again and again (F28). */
static void note_dropped_members(struct op_pass *pass, const struct cc_cocoonset_status *sent) {
    struct op_cocoonset *controller = pass->controller;
    unsigned answered = op_status_members(&pass->set->status);
    unsigned dropped = op_status_members(sent) & ~answered;
    unsigned news = dropped & ~controller->dropped_status_members;
    controller->dropped_status_members = (controller->dropped_status_members | dropped) & ~answered;
    if (news != 0)
        cc_log_warn("the API server drops members of the CocoonSet status: its CustomResourceDefinition "
                    "cocoonsets.cocoonset.cocoonstack.io is older than this operator",
                    CC_KV("members", op_status_member_names(news, &pass->arena)));
}

/* The condition is the one just computed, in the pass's arena. */
static void note_refusal(const struct op_pass *pass, struct cc_cocoonset_status *status) {
    for (size_t i = 0; pass->refusal && i < status->condition_count; i++) {
        if (!cc_text_equal(status->conditions[i].type, "Progressing"))
            continue;
        status->conditions[i].reason = OP_REASON_REGISTRY_REQUIRED;
        status->conditions[i].message = pass->refusal;
    }
}

int op_pass_write_status(struct op_pass *pass, const char *phase, struct cc_err *err) {
    const struct cc_cocoonset_status *present = &pass->set->status;
    struct cc_cocoonset_status wanted;
    /* The spec was edited under this pass: what it found out belongs to the old one. The edit brings the next pass. */
    if (pass->set->base.meta.generation != pass->generation)
        return 0;
    op_status_compute(pass->set, &pass->pods, phase, cc_now_wall(), &pass->arena, &wanted);
    note_refusal(pass, &wanted);
    if (op_status_equal_but(present, &wanted, pass->controller->dropped_status_members))
        return 0;
    json_t *patch cc_cleanup(cc_json_decref_p) = cc_cocoonset_status_patch(present, &wanted);
    if (!patch)
        return 0;
    const char *before = present->phase;
    int rc = patch_set(pass, "status", patch, err);
    if (rc != 0)
        return cc_err_wrap(err, "write status");
    note_dropped_members(pass, &wanted);
    if (!cc_text_equal(before, wanted.phase))
        cc_log_info("phase changed", CC_KV("from", before), CC_KV("to", wanted.phase));
    return 0;
}

void op_pass_event(struct op_pass *pass, enum cc_event_type type, const char *reason, const char *format, ...) {
    const struct cc_object_meta *meta = &pass->set->base.meta;
    struct cc_event_object object = {.resource = &cc_cocoonset_resource,
                                     .namespace = meta->namespace,
                                     .name = meta->name,
                                     .uid = meta->uid,
                                     .resource_version = meta->resource_version};
    va_list arguments;
    va_start(arguments, format);
    char *message cc_cleanup(cc_free_p) = cc_xvasprintf(format, arguments);
    va_end(arguments);
    cc_event_record(pass->controller->options.events, &object, type, reason, "%s", message);
}

void op_pass_count(struct op_pass *pass, struct cc_metric *family) {
    cc_metric_add(family, 1, (const char *[]){op_pass_namespace(pass), op_pass_set_name(pass)});
}
