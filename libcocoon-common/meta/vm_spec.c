/* VMSpec and VMRuntime on a pod: contract/02 chapters 5 and 6. */
#include "meta/vm_spec.h"

#include <stddef.h>
#include <stdio.h>

#include "api/enums.h"
#include "base/quantity.h"
#include "base/text.h"
#include "kube/patch.h"

#define TRUE_TEXT "true"

struct text_field {
    const char *key;
    size_t offset;
};
static const struct text_field TEXTS[] = {
    {CC_KEY_VM_NAME, offsetof(struct cc_vm_spec, vm_name)},
    {CC_KEY_IMAGE, offsetof(struct cc_vm_spec, image)},
    {CC_KEY_MODE, offsetof(struct cc_vm_spec, mode)},
    {CC_KEY_OS, offsetof(struct cc_vm_spec, os)},
    {CC_KEY_STORAGE, offsetof(struct cc_vm_spec, storage)},
    {CC_KEY_NETWORK, offsetof(struct cc_vm_spec, network)},
    {CC_KEY_SNAPSHOT_POLICY, offsetof(struct cc_vm_spec, snapshot_policy)},
    {CC_KEY_FORK_FROM, offsetof(struct cc_vm_spec, fork_from)},
    {CC_KEY_CONN_TYPE, offsetof(struct cc_vm_spec, conn_type)},
    {CC_KEY_BACKEND, offsetof(struct cc_vm_spec, backend)},
    {CC_KEY_PROBE_PORT, offsetof(struct cc_vm_spec, probe_port)},
};
static const struct text_field FLAGS[] = {
    {CC_KEY_MANAGED, offsetof(struct cc_vm_spec, managed)},
    {CC_KEY_FORCE_PULL, offsetof(struct cc_vm_spec, force_pull)},
    {CC_KEY_NO_DIRECT_IO, offsetof(struct cc_vm_spec, no_direct_io)},
};

static const char *text_of(const struct cc_vm_spec *spec, const struct text_field *field) {
    return *(const char *const *)((const char *)spec + field->offset);
}
static bool flag_of(const struct cc_vm_spec *spec, const struct text_field *field) {
    return *(const bool *)((const char *)spec + field->offset);
}

void cc_vm_spec_parse(const struct cc_strmap *annotations, struct cc_vm_spec *ret) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++)
        *(const char **)((char *)ret + TEXTS[i].offset) = cc_strmap_text(annotations, TEXTS[i].key);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(FLAGS); i++)
        *(bool *)((char *)ret + FLAGS[i].offset) = cc_flag_is_set(annotations, FLAGS[i].key);
}

void cc_vm_spec_apply(const struct cc_vm_spec *spec, struct cc_strmap *annotations, struct cc_arena *arena) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++) {
        if (!cc_text_is_empty(text_of(spec, &TEXTS[i])))
            cc_strmap_set(annotations, arena, TEXTS[i].key, text_of(spec, &TEXTS[i]));
    }
    for (size_t i = 0; i < CC_ARRAY_LENGTH(FLAGS); i++) {
        if (flag_of(spec, &FLAGS[i]))
            cc_strmap_set(annotations, arena, FLAGS[i].key, TRUE_TEXT);
    }
}

bool cc_vm_spec_equal(const struct cc_vm_spec *a, const struct cc_vm_spec *b) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++) {
        if (!cc_text_equal(text_of(a, &TEXTS[i]), text_of(b, &TEXTS[i])))
            return false;
    }
    for (size_t i = 0; i < CC_ARRAY_LENGTH(FLAGS); i++) {
        if (flag_of(a, &FLAGS[i]) != flag_of(b, &FLAGS[i]))
            return false;
    }
    return true;
}

/* ---- From the custom resource: contract/02 5.3 ---- */

static int apply_options(const struct cc_cocoonset *set, const struct cc_vm_options *options, struct cc_arena *arena,
                         struct cc_vm_spec *ret, struct cc_err *err) {
    ret->os = cc_enum_default(CC_ENUM_OS, options->os);
    ret->network = cc_text_or(options->network, "");
    ret->snapshot_policy = cc_enum_default(CC_ENUM_SNAPSHOT_POLICY, set->snapshot_policy);
    ret->force_pull = options->force_pull;
    ret->no_direct_io = options->no_direct_io;
    ret->conn_type = cc_text_or(options->conn_type, "");
    ret->backend = cc_enum_default(CC_ENUM_BACKEND, options->backend);
    ret->probe_port = options->probe_port > 0 ? cc_arena_printf(arena, "%d", options->probe_port) : "";
    ret->storage = "";
    if (cc_text_is_empty(options->storage))
        return 0;
    if (cc_quantity_canonical(options->storage, arena, &ret->storage, err) < 0)
        return cc_err_wrap(err, "storage");
    return 0;
}

int cc_vm_spec_of_agent(const struct cc_cocoonset *set, const char *vm_name, const char *fork_from,
                        struct cc_arena *arena, struct cc_vm_spec *ret, struct cc_err *err) {
    struct cc_vm_spec spec = {
        .vm_name = cc_text_or(vm_name, ""),
        .image = cc_text_or(set->agent.image, ""),
        .mode = cc_enum_default(CC_ENUM_AGENT_MODE, set->agent.mode),
        .fork_from = cc_text_or(fork_from, ""),
        .managed = true,
    };

    if (apply_options(set, &set->agent.vm, arena, &spec, err) < 0) {
        cc_ignore(cc_err_wrap(err, "spec.agent"), "only the message changes");
        return CC_INVALID;
    }
    *ret = spec;
    return 0;
}

int cc_vm_spec_of_toolbox(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox, const char *vm_name,
                          struct cc_arena *arena, struct cc_vm_spec *ret, struct cc_err *err) {
    struct cc_vm_spec spec = {
        .vm_name = cc_text_or(vm_name, ""),
        .image = cc_text_or(toolbox->image, ""),
        .mode = cc_enum_default(CC_ENUM_TOOLBOX_MODE, toolbox->mode),
        .fork_from = "",
        .managed = !cc_toolbox_is_static(toolbox),
    };

    if (apply_options(set, &toolbox->vm, arena, &spec, err) < 0) {
        cc_ignore(cc_err_wrap(err, "toolbox %s", toolbox->name), "only the message changes");
        return CC_INVALID;
    }
    *ret = spec;
    return 0;
}

bool cc_toolbox_is_static(const struct cc_toolbox_spec *toolbox) {
    return cc_text_equal(toolbox->mode, "static");
}

/* ---- Runtime: contract/02 chapter 6 ---- */

void cc_vm_runtime_parse(const struct cc_strmap *annotations, struct cc_vm_runtime *ret) {
    *ret = (struct cc_vm_runtime){.vm_id = cc_strmap_text(annotations, CC_KEY_VM_ID),
                                  .ip = cc_strmap_text(annotations, CC_KEY_IP)};
    /* Unreadable is none; a negative port passes and nobody takes it for one. contract/02 section 4.3 */
    cc_ignore(cc_parse_int32(cc_strmap_text(annotations, CC_KEY_VNC_PORT), INT32_MIN, INT32_MAX, &ret->vnc_port),
              "0 stays");
}

void cc_vm_runtime_apply(const struct cc_vm_runtime *runtime, struct cc_strmap *annotations, struct cc_arena *arena) {
    if (!cc_text_is_empty(runtime->vm_id))
        cc_strmap_set(annotations, arena, CC_KEY_VM_ID, runtime->vm_id);
    if (!cc_text_is_empty(runtime->ip))
        cc_strmap_set(annotations, arena, CC_KEY_IP, runtime->ip);
    if (runtime->vnc_port > 0)
        cc_strmap_set(annotations, arena, CC_KEY_VNC_PORT, cc_arena_printf(arena, "%d", runtime->vnc_port));
}

/* ---- Flags and generations: contract/02 chapters 4 and 7 ---- */

bool cc_flag_is_set(const struct cc_strmap *annotations, const char *key) {
    return cc_text_equal(cc_strmap_text(annotations, key), TRUE_TEXT);
}

void cc_flag_apply(struct cc_strmap *annotations, const char *key, bool wanted, struct cc_arena *arena) {
    if (wanted)
        cc_strmap_set(annotations, arena, key, TRUE_TEXT);
    else
        cc_strmap_remove(annotations, key);
}

bool cc_flag_patch(const struct cc_strmap *annotations, const char *key, bool wanted, json_t *patch) {
    if (cc_flag_is_set(annotations, key) == wanted)
        return false;
    cc_patch_annotation(patch, key, wanted ? TRUE_TEXT : NULL);
    return true;
}

int64_t cc_generation_of(const struct cc_strmap *annotations, const char *key) {
    int64_t generation = 0;

    cc_ignore(cc_parse_int64(cc_strmap_text(annotations, key), INT64_MIN, INT64_MAX, &generation), "0 stays");
    return generation;
}

bool cc_generation_patch(const struct cc_strmap *annotations, int64_t generation, json_t *patch) {
    char text[24];

    if (cc_generation_of(annotations, CC_KEY_GENERATION) == generation)
        return false;
    snprintf(text, sizeof text, "%lld", (long long)generation);
    cc_patch_annotation(patch, CC_KEY_GENERATION, text);
    return true;
}
