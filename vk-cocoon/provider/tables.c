#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

void vk_text_replace(char **text, const char *value) {
    char *copy = value ? cc_xstrdup(value) : NULL; /* value may point into the old text */

    free(*text);
    *text = copy;
}

void vk_intent_drop(struct vk_intent *intent) {
    uint64_t serial = intent->serial;

    free(intent->uid);
    free(intent->state);
    free(intent->message);
    /* A flush that is under way must notice that its intent is gone. */
    *intent = (struct vk_intent){.serial = serial + 1};
}

/* --- entries
 * ---------------------------------------------------------------------------------------------------------- */

struct vk_entry *vk_entry_find(const struct vk_provider *provider, const char *namespace, const char *name) {
    char *key cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", namespace, name);
    struct vk_entry *entry = NULL;

    HASH_FIND_STR(provider->entries, key, entry);
    return entry;
}

struct vk_entry *vk_entry_take(struct vk_provider *provider, const char *namespace, const char *name) {
    struct vk_entry *entry = vk_entry_find(provider, namespace, name);

    if (!entry) {
        entry = CC_NEW(struct vk_entry);
        entry->key = cc_xasprintf("%s/%s", namespace, name);
        entry->namespace = cc_xstrdup(namespace);
        entry->name = cc_xstrdup(name);
        HASH_ADD_KEYPTR(hh, provider->entries, entry->key, strlen(entry->key), entry);
    }
    vk_entry_pin(entry);
    return entry;
}

void vk_entry_pin(struct vk_entry *entry) {
    entry->pins++;
}

/* Everything that belongs to one incarnation; what belongs to the key (fence, locks, pins) stays. */
static void forget_incarnation(struct vk_entry *entry) {
    cc_pod_unref(entry->pod);
    cc_pod_unref(entry->observed);
    entry->pod = entry->observed = NULL;
    vk_text_replace(&entry->published_id, NULL);
    vk_text_replace(&entry->published_ip, NULL);
    vk_text_replace(&entry->post_clone_state, NULL);
    entry->endpoint_hidden = entry->remove_owed = entry->hibernate_failed = entry->inspect_timed_out = false;
    entry->wait_abandoned = entry->unjudged = entry->local_removal_owed = false;
    entry->published_vnc = 0;
    entry->status = (struct vk_status_memory){0};
    vk_retry_clear(entry);
    vk_probe_stop(entry);
}

void vk_entry_unpin(struct vk_provider *provider, struct vk_entry *entry) {
    if (!entry)
        return;
    cc_assert(entry->pins > 0);
    entry->pins--;
    if (entry->pins > 0 || entry->pod || entry->intent.present || entry->deleting || entry->resumed ||
        entry->vnc_port != 0)
        return;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the head is set while an entry is in the table */
    HASH_DEL(provider->entries, entry);
    vk_entry_forget_vm(provider, entry);
    forget_incarnation(entry);
    vk_intent_drop(&entry->intent);
    free(entry->restarted_id);
    free(entry->key);
    free(entry->namespace);
    free(entry->name);
    free(entry);
}

bool vk_entry_is(const struct vk_entry *entry, const char *uid) {
    return entry->pod && cc_text_equal(entry->pod->base.meta.uid, uid);
}

bool vk_entry_has_vm(const struct vk_entry *entry, const char *uid, const char *vm_id) {
    return vk_entry_is(entry, uid) && entry->vm && cc_text_equal(entry->vm->id, vm_id);
}

/* Keys that only this daemon writes: an informer copy may be older than what we know. */
static const char *const own_keys[] = {CC_KEY_VM_ID,
                                       CC_KEY_IP,
                                       CC_KEY_VNC_PORT,
                                       CC_KEY_POST_CLONE_STATE,
                                       CC_KEY_LIFECYCLE_STATE,
                                       CC_KEY_LIFECYCLE_GENERATION,
                                       CC_KEY_LIFECYCLE_MESSAGE};

static void stamp_own_keys(struct cc_pod *copy, const struct cc_pod *before) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(own_keys); i++) {
        const char *value = cc_strmap_get(&before->base.meta.annotations, own_keys[i]);

        if (value)
            cc_strmap_set(&copy->base.meta.annotations, &copy->base.arena, own_keys[i], value);
        else
            cc_strmap_remove(&copy->base.meta.annotations, own_keys[i]);
    }
    /* A restore that was derived from evidence stays one for this incarnation, in memory only (contract/07 5.3). */
    if (cc_flag_is_set(&before->base.meta.annotations, CC_KEY_RESTORE))
        cc_strmap_set(&copy->base.meta.annotations, &copy->base.arena, CC_KEY_RESTORE, "true");
}

void vk_entry_track(struct vk_provider *provider, struct vk_entry *entry, const struct cc_pod *incoming) {
    struct cc_pod *copy = cc_pod_clone(incoming);
    const char *uid = copy->base.meta.uid;
    bool is_same = vk_entry_is(entry, uid);

    if (is_same && cc_pod_is_managed(copy))
        stamp_own_keys(copy, entry->pod);
    if (entry->pod && !is_same) {
        vk_entry_forget_vm(provider, entry);
        forget_incarnation(entry);
    }
    if (entry->intent.present && !cc_text_equal(entry->intent.uid, uid))
        vk_intent_drop(&entry->intent);
    cc_pod_unref(entry->pod);
    entry->pod = copy;
    if (entry->intent.present)
        cc_lifecycle_apply(&(struct cc_lifecycle){entry->intent.state, entry->intent.generation, entry->intent.message},
                           &copy->base.meta.annotations, &copy->base.arena);
    vk_entry_observe(entry, incoming);
}

struct cc_pod *vk_entry_edit(struct vk_entry *entry) {
    struct cc_pod *copy;

    cc_assert(entry->pod);
    copy = cc_pod_clone(entry->pod);
    cc_pod_unref(entry->pod);
    entry->pod = copy;
    return copy;
}

void vk_entry_annotate(struct vk_entry *entry, const char *key, const char *value) {
    const char *present = entry->pod ? cc_strmap_get(&entry->pod->base.meta.annotations, key) : NULL;

    if (!entry->pod || (value ? present && cc_text_equal(present, value) : !present))
        return;
    struct cc_pod *copy = vk_entry_edit(entry);

    if (value)
        cc_strmap_set(&copy->base.meta.annotations, &copy->base.arena, key, value);
    else
        cc_strmap_remove(&copy->base.meta.annotations, key);
}

void vk_entry_observe(struct vk_entry *entry, const struct cc_pod *pod) {
    if (!vk_entry_is(entry, pod->base.meta.uid) || entry->observed == pod)
        return;
    cc_pod_unref(entry->observed);
    entry->observed = cc_pod_ref(pod);
}

void vk_entry_bind(struct vk_provider *provider, struct vk_entry *entry, const struct vk_vm *vm) {
    const struct vk_vm *old = entry->vm;

    entry->vm = vk_vm_ref(vm);
    if (old && !cc_text_equal(old->id, vm->id))
        vk_named_drop(provider, old->name, old->id);
    vk_vm_unref(old);
    vk_named_put(provider, vm);
    vk_count_table(provider, entry->namespace);
}

void vk_entry_replace_vm(struct vk_provider *provider, struct vk_entry *entry, const struct vk_vm *vm) {
    cc_assert(entry->vm && cc_text_equal(entry->vm->id, vm->id));
    vk_entry_bind(provider, entry, vm);
}

void vk_entry_forget_vm(struct vk_provider *provider, struct vk_entry *entry) {
    const struct vk_vm *vm = entry->vm;

    if (!vm)
        return;
    entry->vm = NULL;
    entry->remove_owed = false;
    entry->restarted = false;
    vk_named_drop(provider, vm->name, vm->id);
    vk_vm_unref(vm);
    vk_count_table(provider, entry->namespace);
}

void vk_entry_untrack(struct vk_provider *provider, struct vk_entry *entry) {
    vk_entry_forget_vm(provider, entry);
    forget_incarnation(entry);
}

void vk_entry_forget(struct vk_provider *provider, struct vk_entry *entry) {
    vk_entry_untrack(provider, entry);
    vk_intent_drop(&entry->intent);
    entry->vnc_port = 0;
}

void vk_entries_collect(struct vk_provider *provider, bool (*pass)(const struct vk_entry *entry),
                        struct vk_entry_list *ret) {
    struct vk_entry *entry, *next;

    ret->items = cc_xcalloc(HASH_COUNT(provider->entries) + 1, sizeof(struct vk_entry *));
    ret->count = 0;
    HASH_ITER (hh, provider->entries, entry, next) {
        if (pass && !pass(entry))
            continue;
        vk_entry_pin(entry);
        ret->items[ret->count++] = entry;
    }
}

void vk_entries_done(struct vk_provider *provider, struct vk_entry_list *list) {
    for (size_t i = 0; i < list->count; i++)
        vk_entry_unpin(provider, list->items[i]);
    free(list->items);
    *list = (struct vk_entry_list){0};
}

const char *vk_entry_annotation(const struct vk_entry *entry, const char *key) {
    return entry->pod ? cc_pod_annotation(entry->pod, key) : "";
}

bool vk_entry_is_managed(const struct vk_entry *entry) {
    return entry->pod && cc_pod_is_managed(entry->pod);
}

bool vk_entry_wants_sleep(const struct vk_entry *entry) {
    return entry->pod && cc_flag_is_set(&entry->pod->base.meta.annotations, CC_KEY_HIBERNATE);
}

/* --- VM names
 * ------------------------------------------------------------------------------------------------------------ */

struct vk_named *vk_named_find(const struct vk_provider *provider, const char *name, bool make) {
    struct vk_provider *mutable = (struct vk_provider *)provider;
    struct vk_named *named = NULL;

    HASH_FIND_STR(provider->named, name, named);
    if (named || !make)
        return named;
    named = CC_NEW(struct vk_named);
    named->name = cc_xstrdup(name);
    HASH_ADD_KEYPTR(hh, mutable->named, named->name, strlen(named->name), named);
    return named;
}

void vk_named_prune(struct vk_provider *provider, const char *name) {
    struct vk_named *named = vk_named_find(provider, name, false);

    if (!named || named->vm || named->suspect || named->watched)
        return;
    HASH_DEL(provider->named, named);
    free(named->name);
    free(named);
}

const struct vk_vm *vk_named_get(const struct vk_provider *provider, const char *name) {
    const struct vk_named *named = vk_named_find(provider, name, false);

    return named ? named->vm : NULL;
}

void vk_named_put(struct vk_provider *provider, const struct vk_vm *vm) {
    if (cc_text_is_empty(vm->name))
        return;
    struct vk_named *named = vk_named_find(provider, vm->name, true);
    const struct vk_vm *old = named->vm;

    named->vm = vk_vm_ref(vm);
    named->suspect = false;
    vk_vm_unref(old);
}

void vk_named_drop(struct vk_provider *provider, const char *name, const char *vm_id) {
    struct vk_named *named = vk_named_find(provider, name, false);
    const struct vk_vm *vm = named ? named->vm : NULL;

    if (!vm || !cc_text_equal(vm->id, vm_id))
        return;
    named->vm = NULL;
    vk_named_prune(provider, vm->name); /* name may live in the record: it goes last */
    vk_vm_unref(vm);
}

struct vk_entry *vk_entry_of_vm(const struct vk_provider *provider, const char *id, const char *name) {
    struct vk_entry *entry, *next;

    HASH_ITER (hh, provider->entries, entry, next) {
        if (!entry->vm)
            continue;
        if (!cc_text_is_empty(id) && cc_text_equal(entry->vm->id, id))
            return entry;
        if (!cc_text_is_empty(name) && cc_text_equal(entry->vm->name, name))
            return entry;
    }
    return NULL;
}
