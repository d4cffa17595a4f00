/* Which way a pod gets its VM: contract/07 5.4, 5.5 D. Pure. */
#include "provider/provider_internal.h"

#include "base/alloc.h"
#include "base/text.h"

static const char *trimmed(const char *text, struct cc_arena *arena) {
    char *copy cc_cleanup(cc_free_p) = cc_text_trim(cc_text_or(text, ""));

    return cc_arena_strdup(arena, copy);
}

bool vk_has_explicit_source(const struct cc_vm_spec *spec, const char *clone_from_dir) {
    char *copy cc_cleanup(cc_free_p) = cc_text_trim(cc_text_or(clone_from_dir, ""));

    return *copy || !cc_text_is_empty(spec->fork_from);
}

bool vk_is_macos_guest(const struct cc_vm_spec *spec) {
    char *os cc_cleanup(cc_free_p) = cc_text_trim(cc_text_or(spec->os, ""));

    return spec->managed && cc_text_equal_fold(os, "macos");
}

bool vk_needs_nic_drop(const struct cc_vm_spec *spec) {
    return cc_text_equal(spec->backend, "cloud-hypervisor") && cc_text_equal(spec->os, "windows");
}

/* Absolute, and equal to its own lexical cleaning. */
static bool is_canonical(const char *path) {
    if (path[0] != '/')
        return false;
    if (path[1] == '\0')
        return true;
    for (const char *at = path; *at;) {
        const char *name = at + 1; /* at is a slash */
        size_t length = strcspn(name, "/");

        if (length == 0 || (length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        at = name + length;
    }
    return true;
}

int vk_path_choose(const struct cc_vm_spec *spec, const char *clone_from_dir, bool is_restore, struct cc_arena *arena,
                   enum vk_path *ret_path, const char **ret_dir, struct cc_err *err) {
    const char *dir = trimmed(clone_from_dir, arena);
    bool is_run = cc_text_equal_fold(spec->mode, "run");

    *ret_dir = "";
    if (!spec->managed) {
        *ret_path = VK_PATH_UNMANAGED;
        return 0;
    }
    /* Looked at before a restore too: a malformed value fails even that. */
    if (*dir && !is_canonical(dir))
        return cc_err_set(err, CC_INVALID, "%s %s must be an absolute path without . .. // or a trailing slash",
                          CC_KEY_CLONE_FROM_DIR, dir);
    if (is_restore) {
        *ret_path = VK_PATH_RESTORE;
        return 0;
    }
    if (*dir && is_run)
        return cc_err_set(err, CC_INVALID, "%s %s conflicts with mode run", CC_KEY_CLONE_FROM_DIR, dir);
    if (*dir && !cc_text_is_empty(spec->fork_from))
        return cc_err_set(err, CC_INVALID, "%s %s conflicts with %s", CC_KEY_CLONE_FROM_DIR, dir, CC_KEY_FORK_FROM);
    *ret_dir = dir;
    *ret_path = *dir                                 ? VK_PATH_FROM_DIR
                : !cc_text_is_empty(spec->fork_from) ? VK_PATH_FORK
                : is_run                             ? VK_PATH_RUN
                                                     : VK_PATH_CLONE;
    return 0;
}
