/* The port to macOS guests: contract/06 chapter 10, contract/07 chapter 17. Real adapter: runtime/macos_cli.h (the
 * `cocoon-macos` CLI). A guest is known by its name only, and its process is ours to look at.
 *
 * "Not there" is only what the CLI positively says: CC_NOT_FOUND. All calls yield and end with the scope's deadline or
 * cancellation. */
#ifndef VK_RUNTIME_MACOS_H
#define VK_RUNTIME_MACOS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

#define VK_MACOS_VNC_OFF (-1)
#define VK_MACOS_RECORD_BYTES_MAX ((size_t)1024 * 1024)

/* Texts "" when absent, in the arena of the caller. */
struct vk_macos_record {
    const char *name, *image, *mac, *tap, *disk;
    int64_t pid;     /* 0 = none */
    int vnc_display; /* VK_MACOS_VNC_OFF = off */
};
struct vk_macos_run_options {
    const char *name, *image;
    int64_t cpus, memory_mib;
    int vnc_display;     /* VK_MACOS_VNC_OFF = no VNC */
    const char *storage; /* bytes as text, "" = the image's own size */
};

struct vk_macos_ops {
    /* NOT_FOUND: the CLI says that there is no such guest. Anything else that gives no record is inconclusive. */
    CC_YIELDS int (*inspect)(void *ctx, const char *name, struct cc_arena *arena, struct vk_macos_record *ret,
                             struct cc_err *err);
    /* The process of a record, by signal 0. */
    CC_NO_YIELD bool (*is_alive)(void *ctx, int64_t pid);
    CC_YIELDS int (*image_present)(void *ctx, const char *image, bool *ret, struct cc_err *err);
    CC_YIELDS int (*image_pull)(void *ctx, const char *image, struct cc_err *err);
    /* First boot. A guest of that name makes it fail; nobody may answer a failure with remove. */
    CC_YIELDS int (*run)(void *ctx, const struct vk_macos_run_options *options, struct cc_err *err);
    /* VNC belongs to one launch: VK_MACOS_VNC_OFF turns it off. A guest that lives already is success. */
    CC_YIELDS int (*start)(void *ctx, const char *name, int vnc_display, struct cc_err *err);
    /* NOT_FOUND: nothing left to remove. */
    CC_YIELDS int (*remove)(void *ctx, const char *name, struct cc_err *err);
};
struct vk_macos {
    const struct vk_macos_ops *ops; /* NULL = this node has no macOS guests */
    void *ctx;
    bool has_vnc; /* a VNC password is configured */
};

/* Pure: one record of `vm inspect`. PROTOCOL for anything that is not an object with a name. */
CC_MUST_USE int vk_macos_record_parse(const char *bytes, size_t count, struct cc_arena *arena,
                                      struct vk_macos_record *ret, struct cc_err *err);

#endif
