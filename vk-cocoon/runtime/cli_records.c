#include "runtime/cli_records.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/cli_phrases.h"

/* Ids become arguments and parts of paths: one word, no slash, no leading '-'. */
static bool is_plain_id(const char *id) {
    size_t bytes = strlen(id);

    if (bytes > VK_ID_BYTES_MAX || id[0] == '-' || id[0] == '.')
        return false;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)id[i] <= ' ' || id[i] == '/' || (unsigned char)id[i] >= 0x7f)
            return false;
    return true;
}

static int read_nics(const json_t *record, struct vk_vm *vm, struct cc_err *err) {
    const json_t *configs = cc_json_member(record, "network_configs");
    size_t count = 0;

    if (!configs)
        return 0;
    if (!json_is_array(configs))
        return cc_err_set(err, CC_PROTOCOL, "network_configs is not an array");
    if (json_array_size(configs) > VK_NICS_MAX)
        return cc_err_set(err, CC_LIMIT, "VM has %zu NICs, at most %d are accepted", json_array_size(configs),
                          VK_NICS_MAX);
    vm->nics = CC_ARENA_ARRAY(&vm->arena, struct vk_nic, json_array_size(configs) + 1);
    for (size_t i = 0; i < json_array_size(configs); i++) {
        const json_t *config = json_array_get(configs, i);
        const json_t *network;

        if (!json_is_object(config)) /* whether a null element can occur is not determined: it is no NIC */
            continue;
        network = cc_json_member(config, "network");

        struct vk_nic *nic = &vm->nics[count++];
        nic->tap = cc_json_text_dup(config, "tap", &vm->arena);
        nic->mac = cc_json_text_dup(config, "mac", &vm->arena);
        nic->ip = cc_json_text_dup(network, "ip", &vm->arena);
        nic->gateway = cc_json_text_dup(network, "gateway", &vm->arena);
        int64_t prefix = cc_json_int(network, "prefix", 0);
        nic->prefix = prefix >= 0 && prefix <= 128 ? (int)prefix : 0;
        nic->is_static = nic->ip[0] != '\0';
    }
    vm->nic_count = count;
    if (count > 0) {
        vm->mac = vm->nics[0].mac;
        vm->ip = vm->nics[0].ip;
    }
    return 0;
}

static int read_vm(const json_t *record, const struct vk_vm **ret, struct cc_err *err) {
    struct vk_vm *vm = vk_vm_new();
    const json_t *config = cc_json_member(record, "config");

    vm->id = cc_json_text_dup(record, "id", &vm->arena);
    vm->name = cc_json_text_dup(config, "name", &vm->arena);
    vm->hypervisor = cc_json_text_dup(record, "hypervisor", &vm->arena);
    vm->state = cc_json_text_dup(record, "state", &vm->arena);
    vm->image = cc_json_text_dup(config, "image", &vm->arena);
    vm->pid = cc_json_int(record, "pid", 0);
    if (vm->pid < 0 || vm->pid > INT32_MAX)
        vm->pid = 0;

    int rc = 0;
    if (!is_plain_id(vm->id))
        rc = cc_err_set(err, CC_PROTOCOL, "VM id \"%.40s\" is malformed", vm->id);
    if (rc == 0)
        rc = read_nics(record, vm, err);
    if (rc == 0)
        *ret = vm;
    else
        vk_vm_unref(vm);
    return rc;
}

static int parse_object(const char *bytes, size_t count, size_t limit, json_t **ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(bytes, count, limit, &root, err);

    if (rc != 0)
        return rc;
    if (!json_is_object(root))
        return cc_err_set(err, CC_PROTOCOL, "not a JSON object");
    *ret = cc_take(root);
    return 0;
}

static int parse_array(const char *bytes, size_t count, size_t elements_max, json_t **ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(bytes, count, VK_LIST_BYTES_MAX, &root, err);

    if (rc != 0)
        return rc;
    /* A nil Go slice prints as null. */
    if (json_is_null(root)) {
        *ret = json_array();
        return 0;
    }
    if (!json_is_array(root))
        return cc_err_set(err, CC_PROTOCOL, "not a JSON array");
    if (json_array_size(root) > elements_max)
        return cc_err_set(err, CC_LIMIT, "list has %zu elements, at most %zu are accepted", json_array_size(root),
                          elements_max);
    *ret = cc_take(root);
    return 0;
}

int vk_vm_parse(const char *bytes, size_t count, const struct vk_vm **ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = parse_object(bytes, count, VK_RECORD_BYTES_MAX, &root, err);

    if (rc != 0)
        return rc;
    if (cc_text_is_empty(cc_json_text(root, "id")))
        return cc_err_set(err, CC_PROTOCOL, "VM record has no id");
    return read_vm(root, ret, err);
}

/* A NUL would end the text for who looks at it, and hide a list behind it. */
static bool says_empty(const char *bytes, size_t count) {
    return memchr(bytes, '\0', count) == NULL && vk_output_is_empty_list(bytes);
}

int vk_vm_list_parse(const char *bytes, size_t count, struct vk_vm_list *ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;

    if (says_empty(bytes, count)) {
        *ret = (struct vk_vm_list){0};
        return 0;
    }
    int rc = parse_array(bytes, count, VK_VMS_MAX, &root, err);
    if (rc != 0)
        return rc;

    struct vk_vm_list list = {.items = cc_xcalloc(json_array_size(root) + 1, sizeof *list.items)};
    for (size_t i = 0; i < json_array_size(root) && rc == 0; i++) {
        const json_t *element = json_array_get(root, i);

        /* A list that cannot be read whole proves nothing about the VMs in it. */
        if (!json_is_object(element))
            rc = cc_err_set(err, CC_PROTOCOL, "element %zu of the list is not an object", i);
        else if (!cc_text_is_empty(cc_json_text(element, "id")))
            rc = read_vm(element, &list.items[list.count], err);
        list.count += rc == 0 && list.items[list.count] != NULL;
    }
    if (rc == 0)
        *ret = list;
    else
        vk_vm_list_done(&list);
    return rc;
}

int vk_snapshot_parse(const char *bytes, size_t count, struct vk_snapshot_record **ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = parse_object(bytes, count, VK_RECORD_BYTES_MAX, &root, err);

    if (rc != 0)
        return rc;
    const char *id = cc_json_text(root, "id");
    if (cc_text_is_empty(id) || !is_plain_id(id))
        return cc_err_set(err, CC_PROTOCOL, "snapshot record has no usable id");

    struct vk_snapshot_record *record = CC_NEW(struct vk_snapshot_record);
    record->id = cc_json_text_dup(root, "id", &record->arena);
    record->name = cc_json_text_dup(root, "name", &record->arena);
    record->image = cc_json_text_dup(root, "image", &record->arena);
    record->image_digest = cc_json_text_dup(root, "image_digest", &record->arena);
    record->image_type = cc_json_text_dup(root, "image_type", &record->arena);
    record->hypervisor = cc_json_text_dup(root, "hypervisor", &record->arena);
    *ret = record;
    return 0;
}

int vk_snapshot_list_parse(const char *bytes, size_t count, struct vk_snapshot_list *ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    struct vk_snapshot_list list = {0};

    if (says_empty(bytes, count)) {
        *ret = list;
        return 0;
    }
    int rc = parse_array(bytes, count, VK_SNAPSHOTS_MAX, &root, err);
    if (rc != 0)
        return rc;
    list.items = cc_arena_alloc(&list.arena, (json_array_size(root) + 1) * sizeof *list.items);
    for (size_t i = 0; i < json_array_size(root); i++) {
        const json_t *element = json_array_get(root, i);
        const char *id = cc_json_text(element, "id");
        struct cc_wall created;

        /* A copy that cannot be named cannot be judged: it stays. */
        if (cc_text_is_empty(id) || !is_plain_id(id) || cc_text_is_empty(cc_json_text(element, "name")))
            continue;
        list.items[list.count].id = cc_json_text_dup(element, "id", &list.arena);
        list.items[list.count].name = cc_json_text_dup(element, "name", &list.arena);
        if (cc_rfc3339_parse(cc_text_or(cc_json_text(element, "created_at"), ""), &created))
            list.items[list.count].created_unix_s = created.ns / CC_NS_PER_S;
        list.count++;
    }
    *ret = list;
    return 0;
}

int vk_reclaim_parse(const char *bytes, size_t count, enum vk_reclaim_outcome *ret, struct cc_err *err) {
    static const struct {
        const char *word;
        enum vk_reclaim_outcome outcome;
    } words[] = {
        {"collected", VK_RECLAIM_COLLECTED},
        {"busy", VK_RECLAIM_BUSY},
        {"not-creating", VK_RECLAIM_NOT_CREATING},
        {"not-found", VK_RECLAIM_NOT_FOUND},
    };
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = parse_object(bytes, count, VK_RECORD_BYTES_MAX, &root, err);

    if (rc != 0)
        return rc;
    const char *outcome = cc_json_text(root, "outcome");
    if (cc_text_is_empty(outcome))
        return cc_err_set(err, CC_PROTOCOL, "no outcome");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(words); i++)
        if (cc_text_equal(words[i].word, outcome)) {
            *ret = words[i].outcome;
            return 0;
        }
    return cc_err_set(err, CC_PROTOCOL, "unknown outcome \"%.40s\"", outcome);
}

int vk_event_parse(const char *bytes, size_t count, enum vk_event_type *ret_type, const struct vk_vm **ret,
                   struct cc_err *err) {
    static const struct {
        const char *word;
        enum vk_event_type type;
    } words[] = {{"ADDED", VK_EVENT_ADDED}, {"MODIFIED", VK_EVENT_MODIFIED}, {"DELETED", VK_EVENT_DELETED}};
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = parse_object(bytes, count, VK_EVENT_LINE_BYTES_MAX, &root, err);

    if (rc != 0)
        return rc;
    const char *word = cc_text_or(cc_json_text(root, "event"), "");
    const json_t *record = cc_json_member(root, "vm");
    if (cc_text_is_empty(cc_json_text(record, "id")) &&
        cc_text_is_empty(cc_json_text(cc_json_member(record, "config"), "name")))
        return cc_err_set(err, CC_INVALID, "event names no VM");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(words); i++)
        if (cc_text_equal(words[i].word, word)) {
            rc = read_vm(record, ret, err);
            if (rc == 0)
                *ret_type = words[i].type;
            return rc;
        }
    return cc_err_set(err, CC_INVALID, "unknown event \"%.40s\"", word);
}
