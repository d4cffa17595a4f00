/* The argument lists of every cocoon call, byte for byte. contract/06 2.1-2.5, chapter 4, 6.1, 6.5. Pure: a list is
 * made in the caller's arena and holds the words after the program's name.
 *
 * A positional word (VM id, snapshot name, image) that is empty or starts with '-' would be read as an option: INVALID.
 */
#ifndef VK_RUNTIME_CLI_ARGUMENTS_H
#define VK_RUNTIME_CLI_ARGUMENTS_H

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "base/strmap.h"
#include "runtime/runtime.h"

#define VK_LOG_LINES_DEFAULT 200

/* The words of a call under construction. */
struct vk_arguments {
    struct cc_arena *arena; /* borrowed */
    struct cc_strlist words;
};

/* VK_RESTORE_MODE (06 2.8): copy, ondemand or mmap, trimmed, in any case; *ret is a literal. INVALID names the
 * variable. */
CC_MUST_USE int vk_restore_mode_parse(const char *text, const char **ret, struct cc_err *err);

/* restore_mode: the node's (copy, ondemand, mmap; "" = no flag). OS windows always restores with copy; firecracker
 * takes neither --restore-mode nor --nics. */
CC_MUST_USE int vk_arguments_clone(struct vk_arguments *ret, const struct vk_clone_options *options,
                                   const char *restore_mode, struct cc_err *err);
/* An empty image stays an empty last word (07 5.5 F1). */
CC_MUST_USE int vk_arguments_run(struct vk_arguments *ret, const struct vk_run_options *options, struct cc_err *err);
CC_MUST_USE int vk_arguments_vm_inspect(struct vk_arguments *ret, const char *id_or_name, struct cc_err *err);
void vk_arguments_vm_list(struct vk_arguments *ret);
CC_MUST_USE int vk_arguments_vm_start(struct vk_arguments *ret, const char *id, struct cc_err *err);
CC_MUST_USE int vk_arguments_vm_remove(struct vk_arguments *ret, const char *id, struct cc_err *err);
CC_MUST_USE int vk_arguments_vm_net(struct vk_arguments *ret, const char *id, int nics, struct cc_err *err);
/* INVALID also for an empty command. Environment in ascending key order; with_stdin adds -i. */
CC_MUST_USE int vk_arguments_exec(struct vk_arguments *ret, const struct vk_exec_options *options, bool with_stdin,
                                  struct cc_err *err);
/* lines <= 0: VK_LOG_LINES_DEFAULT. */
CC_MUST_USE int vk_arguments_logs(struct vk_arguments *ret, const char *id, int64_t lines, struct cc_err *err);
CC_MUST_USE int vk_arguments_reclaim(struct vk_arguments *ret, const char *id, struct cc_err *err);
void vk_arguments_events(struct vk_arguments *ret);

CC_MUST_USE int vk_arguments_snapshot_save(struct vk_arguments *ret, const char *snapshot, const char *vm_id,
                                           struct cc_err *err);
CC_MUST_USE int vk_arguments_snapshot_inspect(struct vk_arguments *ret, const char *snapshot, struct cc_err *err);
CC_MUST_USE int vk_arguments_snapshot_remove(struct vk_arguments *ret, const char *snapshot, struct cc_err *err);
void vk_arguments_snapshot_list(struct vk_arguments *ret);
CC_MUST_USE int vk_arguments_snapshot_import(struct vk_arguments *ret, const char *snapshot, struct cc_err *err);
CC_MUST_USE int vk_arguments_snapshot_export(struct vk_arguments *ret, const char *snapshot, struct cc_err *err);

CC_MUST_USE int vk_arguments_image_inspect(struct vk_arguments *ret, const char *name_or_digest, struct cc_err *err);
CC_MUST_USE int vk_arguments_image_pull(struct vk_arguments *ret, const char *ref, bool force, struct cc_err *err);
CC_MUST_USE int vk_arguments_image_import(struct vk_arguments *ret, const char *name, struct cc_err *err);

/* program followed by the words and NULL, in the arena: what a child process takes. */
const char *const *vk_arguments_vector(const struct vk_arguments *arguments, const char *program);
/* The words joined by blanks, for logs. */
const char *vk_arguments_text(const struct vk_arguments *arguments);

#endif
