#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"
#include "kube/cache_store.h"

struct member {
    UT_hash_handle hh;
    char key[];
};

struct cc_key_set {
    struct member *members;
};

struct cc_key_set *cc_key_set_new(void) {
    return CC_NEW(struct cc_key_set);
}

void cc_key_set_add(struct cc_key_set *set, const char *key) {
    size_t length = strlen(key);

    if (cc_key_set_has(set, key))
        return;
    struct member *member = cc_xcalloc(1, sizeof *member + length + 1);
    memcpy(member->key, key, length + 1);
    HASH_ADD_KEYPTR(hh, set->members, member->key, length, member);
}

bool cc_key_set_has(const struct cc_key_set *set, const char *key) {
    struct member *member = NULL;

    HASH_FIND_STR(set->members, key, member);
    return member != NULL;
}

void cc_key_set_clear(struct cc_key_set *set) {
    struct member *member, *next;

    HASH_ITER (hh, set->members, member, next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the key lies in the member that is freed after its removal */
        HASH_DELETE(hh, set->members, member);
        free(member);
    }
}

void cc_key_set_free(struct cc_key_set *set) {
    if (!set)
        return;
    cc_key_set_clear(set);
    free(set);
}

void cc_key_list_add(struct cc_key_list *list, const char *key) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 16;
        list->items = cc_xrealloc(list->items, list->capacity * sizeof *list->items);
    }
    list->items[list->count++] = cc_xstrdup(key);
}

void cc_key_list_done(struct cc_key_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct cc_key_list){0};
}
