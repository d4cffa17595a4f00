/* JSON merge patch (RFC 7386) and the strategic merge patch with the merge keys of pods, nodes and metadata. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "support/fake_kube_internal.h"

static json_t *without_nulls(const json_t *value) {
    const char *key;
    json_t *member;

    if (!json_is_object(value))
        return json_incref((json_t *)value);
    json_t *copy = json_object();
    json_object_foreach ((json_t *)value, key, member) {
        if (!json_is_null(member))
            cc_json_set_new(copy, key, without_nulls(member));
    }
    return copy;
}

json_t *fake_patch_merge(const json_t *target, const json_t *patch) {
    const char *key;
    json_t *member;

    if (!json_is_object(patch))
        return json_incref((json_t *)patch);
    if (!json_is_object(target))
        return without_nulls(patch);
    json_t *result = json_copy((json_t *)target);
    json_object_foreach ((json_t *)patch, key, member) {
        if (json_is_null(member))
            json_object_del(result, key);
        else
            cc_json_set_new(result, key, fake_patch_merge(json_object_get(target, key), member));
    }
    return result;
}

/* --- strategic ---------------------------------------------------------------------------------------------------- */

/* All other lists are replaced whole: containerStatuses, tolerations and taints too (tried on 1.36). */
static const struct {
    const char *list, *merge_key; /* "" = a set of primitive values */
} merge_lists[] = {
    {"conditions", "type"},
    {"addresses", "type"},
    {"podIPs", "ip"},
    {"hostIPs", "ip"},
    {"containers", "name"},
    {"initContainers", "name"},
    {"volumes", "name"},
    {"volumeMounts", "mountPath"},
    {"env", "name"},
    {"ports", "containerPort"},
    {"imagePullSecrets", "name"},
    {"hostAliases", "ip"},
    {"ownerReferences", "uid"},
    {"finalizers", ""},
};

static const char *merge_key_of(const char *list) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(merge_lists); i++) {
        if (strcmp(merge_lists[i].list, list) == 0)
            return merge_lists[i].merge_key;
    }
    return NULL;
}

static size_t index_of(const json_t *list, const char *merge_key, const json_t *wanted) {
    size_t i;
    json_t *item;

    json_array_foreach (list, i, item) {
        const json_t *value = *merge_key ? json_object_get(item, merge_key) : item;

        if (value && json_equal(value, wanted))
            return i;
    }
    return SIZE_MAX;
}

static bool is_directive(const char *key) {
    return key[0] == '$';
}

static const json_t *key_of(const json_t *item, const char *merge_key) {
    return *merge_key ? json_object_get(item, merge_key) : item;
}

/* What only the server has and what the patch names, each in its own order; between the two the server's order counts,
 * and what the server does not have yet goes first. */
static json_t *in_order(const json_t *target, const json_t *merged, const json_t *named, const char *merge_key) {
    json_t *left = json_array(), *right = json_array(), *result = json_array(), *item;
    size_t i, l = 0, r = 0;

    json_array_foreach (merged, i, item)
        if (index_of(named, merge_key, key_of(item, merge_key)) == SIZE_MAX)
            json_array_append(left, item);
    json_array_foreach (named, i, item) {
        size_t at = index_of(merged, merge_key, key_of(item, merge_key));
        if (at != SIZE_MAX)
            json_array_append(right, json_array_get(merged, at));
    }
    while (l < json_array_size(left) || r < json_array_size(right)) {
        const json_t *a = json_array_get(left, l), *b = json_array_get(right, r);
        size_t place_a = a ? index_of(target, merge_key, key_of(a, merge_key)) : SIZE_MAX;
        size_t place_b = b ? index_of(target, merge_key, key_of(b, merge_key)) : SIZE_MAX;
        bool takes_left = !b || (a && place_b != SIZE_MAX && place_a != SIZE_MAX && place_a < place_b);

        json_array_append(result, takes_left ? json_array_get(left, l++) : json_array_get(right, r++));
    }
    json_decref(left);
    json_decref(right);
    return result;
}

static json_t *strategic_list(const json_t *target, const json_t *patch, const char *merge_key, const json_t *order) {
    json_t *merged = json_array(), *named = json_array();
    json_t *item;
    size_t i;

    json_array_foreach (target, i, item)
        json_array_append(merged, item);
    json_array_foreach (patch, i, item) {
        const json_t *key = key_of(item, merge_key);
        const char *directive = cc_json_text(item, "$patch");
        size_t at = key ? index_of(merged, merge_key, key) : SIZE_MAX;

        if (directive && strcmp(directive, "replace") == 0) {
            json_array_clear(merged);
            continue;
        }
        if (directive && strcmp(directive, "delete") == 0) {
            if (at != SIZE_MAX)
                json_array_remove(merged, at);
            continue;
        }
        json_array_append(named, item);
        if (at == SIZE_MAX)
            cc_json_append_new(merged, fake_patch_strategic(NULL, item));
        else
            json_array_set_new(merged, at, fake_patch_strategic(json_array_get(merged, at), item));
    }
    json_t *result = in_order(target, merged, order ? order : named, merge_key);
    json_decref(merged);
    json_decref(named);
    return result;
}

/* "$setElementOrder/<list>" of the patch; NULL when it has none. */
static const json_t *order_of(const json_t *patch, const char *list) {
    char key[128];

    snprintf(key, sizeof key, "$setElementOrder/%s", list);
    return cc_json_member(patch, key);
}

static void delete_primitives(json_t *result, const char *list, const json_t *values) {
    json_t *copy = json_array();
    json_t *item;
    size_t i;

    json_array_foreach (json_object_get(result, list), i, item) {
        if (index_of(values, "", item) == SIZE_MAX)
            json_array_append(copy, item);
    }
    cc_json_set_new(result, list, copy);
}

json_t *fake_patch_strategic(const json_t *target, const json_t *patch) {
    static const char delete_from[] = "$deleteFromPrimitiveList/";
    const char *directive = cc_json_text(patch, "$patch");
    const char *key;
    json_t *member;

    if (!json_is_object(patch))
        return json_incref((json_t *)patch);
    bool replace = directive && strcmp(directive, "replace") == 0;
    json_t *result = json_is_object(target) && !replace ? json_copy((json_t *)target) : json_object();
    json_object_foreach ((json_t *)patch, key, member) {
        json_t *old = json_object_get(result, key);
        const char *merge_key = merge_key_of(key);

        if (strncmp(key, delete_from, sizeof delete_from - 1) == 0)
            delete_primitives(result, key + sizeof delete_from - 1, member);
        else if (is_directive(key))
            continue;
        else if (json_is_null(member))
            json_object_del(result, key);
        else if (json_is_array(member) && merge_key)
            cc_json_set_new(result, key, strategic_list(old, member, merge_key, order_of(patch, key)));
        else
            cc_json_set_new(result, key, fake_patch_strategic(old, member));
    }
    return result;
}
