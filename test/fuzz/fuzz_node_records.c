/* cocoon's JSON: VM and snapshot records, their lists, and the reclaim outcome, all from the same bytes. An id that is
 * accepted is safe as an argument and in a path; "no VMs" is never concluded from something that cannot be read. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "network/mac.h"
#include "runtime/cli_phrases.h"
#include "runtime/cli_records.h"

static void check_rc(int rc, const struct cc_err *err) {
    fuzz_require_error(rc, err);
    fuzz_require(rc == 0 || rc == CC_PROTOCOL || rc == CC_LIMIT);
}

static void check_id(const char *id) {
    fuzz_require(*id && *id != '-' && *id != '.' && !strpbrk(id, "/ \t\n") && strlen(id) <= VK_ID_BYTES_MAX);
}

static void check_vm(const struct vk_vm *vm) {
    const char *const texts[] = {vm->id, vm->name, vm->hypervisor, vm->state, vm->image, vm->mac, vm->ip};
    struct cc_arena arena = {0};
    struct cc_strlist macs = {0};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++)
        fuzz_require(texts[i]);
    check_id(vm->id);
    fuzz_require(vm->references == 1 && vm->nic_count <= VK_NICS_MAX && vm->pid >= 0);
    for (size_t i = 0; i < vm->nic_count; i++) {
        fuzz_require(vm->nics[i].tap && vm->nics[i].mac && vm->nics[i].ip && vm->nics[i].gateway);
        fuzz_require(vm->nics[i].is_static == (*vm->nics[i].ip != '\0'));
    }
    vk_macs_to_release(vm, &arena, &macs);
    fuzz_require(macs.count <= vm->nic_count + 1);
    struct vk_vm *copy = vk_vm_clone(vm);
    fuzz_require(fuzz_same_text(copy->id, vm->id) && copy->nic_count == vm->nic_count && copy->references == 1);
    vk_vm_unref(copy);
    cc_arena_done(&arena);
}

static bool is_blank(const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strchr(" \t\r\n", bytes[i]) || !bytes[i])
            return false;
    return true;
}

/* What may be read as a list without a VM. */
static bool says_none(const char *bytes, size_t count) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    if (is_blank(bytes, count) || (!memchr(bytes, '\0', count) && vk_output_is_empty_list(bytes)))
        return true;
    if (cc_json_parse(bytes, count, SIZE_MAX, &root, NULL) != 0)
        return false;
    size_t i;
    json_t *item;
    json_array_foreach (root, i, item)
        if (!cc_text_is_empty(cc_json_text(item, "id")))
            return false;
    return json_is_null(root) || json_is_array(root);
}

static void check_vms(const char *bytes, size_t count) {
    const struct vk_vm *vm = NULL;
    struct vk_vm_list list = {0};
    struct cc_err err = {0};
    int rc = vk_vm_parse(bytes, count, &vm, &err);
    check_rc(rc, &err);
    fuzz_require((rc == 0) == (vm != NULL));
    if (vm)
        check_vm(vm);
    vk_vm_unref(vm);

    rc = vk_vm_list_parse(bytes, count, &list, &err);
    check_rc(rc, &err);
    fuzz_require(list.count <= VK_VMS_MAX && (rc == 0 || list.count == 0));
    for (size_t i = 0; i < list.count; i++)
        check_vm(list.items[i]);
    if (rc == 0 && list.count == 0)
        fuzz_require(is_blank(bytes, count) || says_none(bytes, count));
    vk_vm_list_done(&list);
}

static void check_snapshots(const char *bytes, size_t count) {
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;
    struct vk_snapshot_list list = {0};
    enum vk_reclaim_outcome outcome;
    struct cc_err err = {0};
    int rc = vk_snapshot_parse(bytes, count, &record, &err);
    check_rc(rc, &err);
    fuzz_require((rc == 0) == (record != NULL));
    if (record)
        check_id(record->id);
    rc = vk_snapshot_list_parse(bytes, count, &list, &err);
    check_rc(rc, &err);
    fuzz_require(list.count <= VK_SNAPSHOTS_MAX);
    for (size_t i = 0; i < list.count; i++) {
        check_id(list.items[i].id);
        fuzz_require(*list.items[i].name);
    }
    vk_snapshot_list_done(&list);
    check_rc(vk_reclaim_parse(bytes, count, &outcome, &err), &err);
}

static void check_phrases(const char *text) {
    struct cc_arena arena = {0};
    const char *holder = vk_snapshot_holder(text, "own-name", &arena);
    fuzz_require(*holder && *holder != '-' && !strpbrk(holder, " \t\r\n"));
    cc_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    size_t count;
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, &count);
    check_vms(text, count);
    check_snapshots(text, count);
    check_phrases(text);
    return 0;
}
