#include "api/decode_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

/* Words that fill thousands of cached pods, in byte order. A word that is missing here costs memory and nothing else.
 */
/* clang-format off */
static const char *const SHARED_WORDS[] = {
    "0", "1", "2", "3", "Active", "AgentsNotReady", "AllAgentsReady", "Always", "CocoonSet", "ContainersNotReady",
    "ContainersReady", "DiskPressure", "Done", "Exists", "ExternalIP", "Failed", "False", "Hibernate", "Hibernated",
    "Hibernating", "Hostname", "Initialized", "InternalIP", "MemoryPressure", "Migrating", "NetworkUnavailable",
    "NoExecute", "NoSchedule", "PIDPressure", "Pending", "PodReadyToStartContainers", "PodScheduled", "Progressing",
    "Ready", "Reconciling", "Running", "Scaling", "Stable", "Succeeded", "Suspended", "Suspending", "True",
    "Unknown", "Unschedulable", "Wake", "Waking", "[]", "agent", "always", "android", "app.kubernetes.io/name",
    "clone", "cloud-hypervisor", "cocoonset.cocoonstack.io/dead-letter", "cocoonset.cocoonstack.io/delete-vm-names",
    "cocoonset.cocoonstack.io/force-pull", "cocoonset.cocoonstack.io/generation",
    "cocoonset.cocoonstack.io/hibernate-reclaim", "cocoonset.cocoonstack.io/hibernated-on-node",
    "cocoonset.cocoonstack.io/image", "cocoonset.cocoonstack.io/managed", "cocoonset.cocoonstack.io/mode",
    "cocoonset.cocoonstack.io/name", "cocoonset.cocoonstack.io/network", "cocoonset.cocoonstack.io/os",
    "cocoonset.cocoonstack.io/rebuild-history", "cocoonset.cocoonstack.io/role", "cocoonset.cocoonstack.io/slot",
    "cocoonset.cocoonstack.io/snapshot-policy", "cocoonset.cocoonstack.io/storage",
    "cocoonset.cocoonstack.io/suspending-since", "cocoonset.cocoonstack.io/v1", "cocoonstack.io/pool",
    "cocoonstack.io/snapshot-cpu-class", "cpu", "creating", "default", "ephemeral-storage", "failed", "firecracker",
    "ghcr.io/cocoonstack/placeholder:latest", "hibernated", "hibernating", "kubernetes.io/hostname", "linux",
    "macos", "main", "main-only", "memory", "never", "node-role.kubernetes.io/cocoon-vm",
    "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "rdp", "ready", "run", "ssh", "static",
    "sub-agent", "toolbox", "true", "virtual-kubelet.io/provider", "vm.cocoonstack.io/backend",
    "vm.cocoonstack.io/conn-type", "vm.cocoonstack.io/fork-from", "vm.cocoonstack.io/hibernate",
    "vm.cocoonstack.io/id", "vm.cocoonstack.io/ip", "vm.cocoonstack.io/keep-snapshot-on-delete",
    "vm.cocoonstack.io/lifecycle-observed-generation", "vm.cocoonstack.io/lifecycle-state",
    "vm.cocoonstack.io/lifecycle-state-message", "vm.cocoonstack.io/name", "vm.cocoonstack.io/no-direct-io",
    "vm.cocoonstack.io/probe-port", "vm.cocoonstack.io/restore-from-hibernate", "vm.cocoonstack.io/vnc-port", "vnc",
    "windows",
};
/* clang-format on */

static int compare_words(const void *key, const void *item) {
    return strcmp((const char *)key, *(const char *const *)item);
}

const char *cc_api_text_of(const char *text, struct cc_arena *arena) {
    const char *const *shared;

    if (!text || !*text)
        return "";
    shared = bsearch(text, SHARED_WORDS, CC_ARRAY_LENGTH(SHARED_WORDS), sizeof *SHARED_WORDS, compare_words);
    return shared ? *shared : cc_arena_strdup(arena, text);
}

void cc_api_strmap_copy(struct cc_strmap *to, struct cc_arena *arena, const struct cc_strmap *from) {
    *to = (struct cc_strmap){0};
    if (from->count == 0)
        return;
    to->items = CC_ARENA_ARRAY(arena, struct cc_pair, from->count);
    to->count = to->capacity = from->count;
    for (size_t i = 0; i < from->count; i++) {
        to->items[i].key = cc_api_text_of(from->items[i].key, arena);
        to->items[i].value = cc_api_text_of(from->items[i].value, arena);
    }
}

const char *cc_api_text(const json_t *object, const char *key, struct cc_arena *arena) {
    return cc_api_text_of(cc_json_text(object, key), arena);
}

int32_t cc_api_int32(const json_t *object, const char *key, int32_t fallback) {
    int64_t value = cc_json_int(object, key, fallback);

    return value < INT32_MIN || value > INT32_MAX ? fallback : (int32_t)value;
}

struct cc_wall cc_api_time(const json_t *object, const char *key) {
    const char *text = cc_json_text(object, key);
    struct cc_wall time = {0};

    if (text && !cc_rfc3339_parse(text, &time))
        time.ns = 0;
    return time;
}

/* ---- Resources ---- */

static const char *quantity_text(const json_t *value, struct cc_arena *arena) {
    if (json_is_string(value))
        return cc_api_text_of(json_string_value(value), arena);
    if (json_is_integer(value))
        return cc_arena_printf(arena, "%lld", (long long)json_integer_value(value));
    return NULL;
}

static int compare_entries(const void *a, const void *b) {
    return strcmp(((const struct cc_resource_entry *)a)->name, ((const struct cc_resource_entry *)b)->name);
}

static void resource_list(const json_t *object, struct cc_arena *arena, struct cc_resource_list *ret) {
    const char *name;
    json_t *value;

    if (!json_is_object(object) || json_object_size(object) == 0)
        return;
    ret->items = CC_ARENA_ARRAY(arena, struct cc_resource_entry, json_object_size(object));
    json_object_foreach ((json_t *)object, name, value) {
        const char *quantity = quantity_text(value, arena);
        if (quantity)
            ret->items[ret->count++] = (struct cc_resource_entry){cc_api_text_of(name, arena), quantity};
    }
    if (ret->count > 1)
        qsort(ret->items, ret->count, sizeof *ret->items, compare_entries);
}

void cc_api_resources(const json_t *resources, struct cc_arena *arena, struct cc_resources *ret) {
    *ret = (struct cc_resources){0};
    resource_list(cc_json_member(resources, "limits"), arena, &ret->limits);
    resource_list(cc_json_member(resources, "requests"), arena, &ret->requests);
}

/* ---- envFrom ---- */

/* An unset name and an empty one are the same to Kubernetes; absent and false `optional` are not. */
static void env_source(const json_t *item, const char *key, json_t *into) {
    const json_t *source = cc_json_member(item, key);
    const json_t *optional = cc_json_member(source, "optional");
    json_t *copy;

    if (!json_is_object(source))
        return;
    copy = json_object();
    cc_json_set_text(copy, "name", cc_text_or(cc_json_text(source, "name"), ""));
    if (json_is_boolean(optional))
        cc_json_set_bool(copy, "optional", json_is_true(optional));
    cc_json_set_new(into, key, copy);
}

const char *cc_api_env_from(const json_t *env_from, struct cc_arena *arena) {
    json_t *canonical;
    char *text;
    const char *ret;
    size_t i;
    json_t *item;

    if (json_array_size(env_from) == 0)
        return "[]";
    canonical = json_array();
    json_array_foreach (env_from, i, item) {
        json_t *copy = json_object();
        /* Only members that we know: a newer API server's defaults must not look like drift. */
        cc_json_set_text_nonempty(copy, "prefix", cc_json_text(item, "prefix"));
        env_source(item, "configMapRef", copy);
        env_source(item, "secretRef", copy);
        cc_json_append_new(canonical, copy);
    }
    text = cc_json_dump_sorted(canonical);
    json_decref(canonical);
    ret = cc_arena_strdup(arena, text);
    free(text);
    return ret;
}

/* ---- Strict readers ---- */

static int wrong(const char *path, const char *key, const char *accepted, struct cc_err *err) {
    return cc_err_set(err, CC_INVALID, "%s.%s: must be %s", path, key, accepted);
}

int cc_api_read_object(const json_t *parent, const char *path, const char *key, const json_t **ret,
                       struct cc_err *err) {
    const json_t *value = cc_json_member(parent, key);

    if (value && !json_is_object(value))
        return *path ? wrong(path, key, "an object", err) : cc_err_set(err, CC_INVALID, "%s: must be an object", key);
    *ret = value;
    return 0;
}

static int read_int32(const json_t *value, const char *path, const char *key, int32_t *ret, struct cc_err *err) {
    double real = json_number_value(value);

    /* 1.0 is an integer to the API server. */
    if (!json_is_number(value) || real < INT32_MIN || real > INT32_MAX || real != floor(real))
        return wrong(path, key, "an integer of 32 bits", err);
    *ret = (int32_t)real;
    return 0;
}

static int check_resources(const json_t *value, const char *path, const char *key, struct cc_err *err) {
    static const char *const LISTS[] = {"limits", "requests"};

    if (!json_is_object(value))
        return wrong(path, key, "an object", err);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(LISTS); i++) {
        json_t *list = cc_json_member(value, LISTS[i]);
        const char *name;
        json_t *quantity;
        if (list && !json_is_object(list))
            return cc_err_set(err, CC_INVALID, "%s.%s.%s: must be an object", path, key, LISTS[i]);
        json_object_foreach (list, name, quantity) {
            if (!json_is_string(quantity) && !json_is_integer(quantity))
                return cc_err_set(err, CC_INVALID, "%s.%s.%s.%.64s: must be a quantity (text or integer)", path, key,
                                  LISTS[i], name);
        }
    }
    return 0;
}

static int check_env_from(const json_t *value, const char *path, const char *key, struct cc_err *err) {
    size_t i;
    json_t *item;

    if (!json_is_array(value))
        return wrong(path, key, "a list", err);
    json_array_foreach (value, i, item) {
        if (!json_is_object(item))
            return cc_err_set(err, CC_INVALID, "%s.%s[%zu]: must be an object", path, key, i);
    }
    return 0;
}

static int read_field(const json_t *value, const char *path, const struct cc_api_field *field, struct cc_arena *arena,
                      void *target, struct cc_err *err) {
    int rc;

    switch (field->type) {
    case CC_API_TEXT:
        if (!json_is_string(value))
            return wrong(path, field->key, "a string", err);
        *(const char **)target = cc_api_text_of(json_string_value(value), arena);
        return 0;
    case CC_API_BOOL:
        if (!json_is_boolean(value))
            return wrong(path, field->key, "true or false", err);
        *(bool *)target = json_is_true(value);
        return 0;
    case CC_API_INT32:
        return read_int32(value, path, field->key, target, err);
    case CC_API_QUANTITY:
        if (!json_is_string(value) && !json_is_integer(value))
            return wrong(path, field->key, "a quantity (text or integer)", err);
        *(const char **)target = quantity_text(value, arena);
        return 0;
    case CC_API_RESOURCES:
        rc = check_resources(value, path, field->key, err);
        if (rc == 0)
            cc_api_resources(value, arena, target);
        return rc;
    case CC_API_ENV_FROM:
        rc = check_env_from(value, path, field->key, err);
        if (rc == 0)
            *(const char **)target = cc_api_env_from(value, arena);
        return rc;
    }
    return 0;
}

/* Texts are never NULL in decoded objects. */
static void set_absent(const struct cc_api_field *field, void *target) {
    switch (field->type) {
    case CC_API_TEXT:
    case CC_API_QUANTITY:
        *(const char **)target = "";
        return;
    case CC_API_ENV_FROM:
        *(const char **)target = "[]";
        return;
    case CC_API_BOOL:
    case CC_API_INT32:
    case CC_API_RESOURCES:
        return;
    }
}

int cc_api_read_fields(const json_t *object, const char *path, const struct cc_api_field *fields, size_t count,
                       struct cc_arena *arena, void *into, struct cc_err *err) {
    for (size_t i = 0; i < count; i++) {
        const json_t *value = cc_json_member(object, fields[i].key);
        void *target = (char *)into + fields[i].offset;
        int rc;

        set_absent(&fields[i], target);
        if (!value)
            continue;
        rc = read_field(value, path, &fields[i], arena, target, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}
