#include "runtime/runtime.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

struct vk_vm *vk_vm_new(void) {
    struct vk_vm *vm = CC_NEW(struct vk_vm);

    vm->references = 1;
    vm->id = vm->name = vm->hypervisor = vm->state = vm->image = vm->mac = vm->ip = vm->disk = "";
    return vm;
}

const struct vk_vm *vk_vm_ref(const struct vk_vm *vm) {
    struct vk_vm *shared = (struct vk_vm *)vm;

    cc_assert(vm->references > 0);
    shared->references++;
    return vm;
}

void vk_vm_unref(const struct vk_vm *vm) {
    struct vk_vm *shared = (struct vk_vm *)vm;

    if (!vm)
        return;
    cc_assert(vm->references > 0);
    if (--shared->references > 0)
        return;
    cc_arena_done(&shared->arena);
    free(shared);
}

static const char *copy_text(struct cc_arena *arena, const char *text) {
    return text ? cc_arena_strdup(arena, text) : "";
}

struct vk_vm *vk_vm_clone(const struct vk_vm *vm) {
    struct vk_vm *copy = vk_vm_new();
    struct cc_arena *arena = &copy->arena;

    copy->id = copy_text(arena, vm->id);
    copy->name = copy_text(arena, vm->name);
    copy->hypervisor = copy_text(arena, vm->hypervisor);
    copy->state = copy_text(arena, vm->state);
    copy->image = copy_text(arena, vm->image);
    copy->pid = vm->pid;
    copy->mac = copy_text(arena, vm->mac);
    copy->ip = copy_text(arena, vm->ip);
    copy->disk = copy_text(arena, vm->disk);
    copy->nics = CC_ARENA_ARRAY(arena, struct vk_nic, vm->nic_count + 1);
    copy->nic_count = vm->nic_count;
    for (size_t i = 0; i < vm->nic_count; i++) {
        const struct vk_nic *from = &vm->nics[i];

        copy->nics[i] = (struct vk_nic){
            .tap = copy_text(arena, from->tap),
            .mac = copy_text(arena, from->mac),
            .is_static = from->is_static,
            .ip = copy_text(arena, from->ip),
            .gateway = copy_text(arena, from->gateway),
            .prefix = from->prefix,
        };
    }
    return copy;
}

bool vk_vm_is_running(const struct vk_vm *vm) {
    return cc_text_equal(vm->state, "running");
}

bool vk_vm_is_macos(const struct vk_vm *vm) {
    return cc_text_equal(vm->hypervisor, "qemu");
}

void vk_vm_list_done(struct vk_vm_list *list) {
    for (size_t i = 0; i < list->count; i++)
        vk_vm_unref(list->items[i]);
    free(list->items);
    *list = (struct vk_vm_list){0};
}

void vk_snapshot_record_free(struct vk_snapshot_record *record) {
    if (!record)
        return;
    cc_arena_done(&record->arena);
    free(record);
}

void vk_snapshot_list_done(struct vk_snapshot_list *list) {
    cc_arena_done(&list->arena);
    list->items = NULL;
    list->count = 0;
}
