/* Shared by the files of this folder only. */
#ifndef VK_SNAPSHOTS_SNAPSHOTS_INTERNAL_H
#define VK_SNAPSHOTS_SNAPSHOTS_INTERNAL_H

#include "snapshots/snapshots.h"
#include "snapshots/staging.h"

/* Bound of a shared pull, detached from its callers (06 2.7). */
#define VK_FLIGHT_MS (INT64_C(30) * 60 * 1000)
/* Clean-up of a local name after a failed stream (07 chapter 18). */
#define VK_CLEANUP_MS 10000

struct vk_snapshots {
    struct vk_runtime runtime;
    struct cc_registry registry;
    bool has_registry;
    char *node_name, *spool_directory, *staging_directory;
    struct cc_transfer_knobs knobs;
    int64_t pull_budget_mib;
    struct vk_peer_port peers;
    struct cc_semaphore push_gate, pull_gate, peer_gate;
    struct cc_flights *pulls;    /* key: local name */
    struct cc_flights *images;   /* key: force and image */
    struct cc_strmap boot_names; /* key of the flight -> name to boot from */
    struct cc_arena boot_arena;
};

/* spool.c: makes the directory (0700, not a link) and empties it. */
CC_YIELDS CC_MUST_USE int vk_spool_prepare(const char *directory, struct cc_err *err);

/* Makes the directories that lead to path, 0755; path is restored. Blocks. */
CC_MUST_USE int vk_make_parents(char *path, struct cc_err *err);

/* import.c: a sink that starts its importer at the first byte, so that nothing local is touched before the source has
 * proved usable. */
struct vk_import {
    const struct vk_runtime *runtime;
    const char *name;
    bool is_image;
    struct vk_transfer *transfer; /* NULL until the first byte */
    struct cc_writer writer;      /* of the importer */
};
struct cc_writer vk_import_sink(struct vk_import *import);
/* rc: how the stream ended. Takes the importer's verdict when it ended well, else kills the importer before its pipe
 * closes. A snapshot that may have been left under the name is removed after any failure. Gives the first failure. */
CC_YIELDS CC_MUST_USE int vk_import_end(struct vk_import *import, int rc, struct cc_err *err);

#endif
