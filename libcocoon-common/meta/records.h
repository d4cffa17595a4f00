/* The operator's own annotations on a CocoonSet: hibernate-reclaim, delete-vm-names, rebuild-history. contract/02 3.7,
 * contract/03 A.3, A.4, 11.3, decision 6. Pure; byte-stable encodings. */
#ifndef CC_META_RECORDS_H
#define CC_META_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/strmap.h"
#include "base/time.h"

#define CC_RECORD_BYTES_MAX (256 * 1024)

struct cc_reclaim_record {
    int64_t generation;
    struct cc_strlist vms, restore, suspended;
};
/* Absent, empty or malformed text: an empty record. False when it was malformed. */
bool cc_reclaim_parse(const char *text, struct cc_arena *arena, struct cc_reclaim_record *ret);
/* NULL when vms is empty (the annotation is to be removed). In the arena. */
const char *cc_reclaim_encode(const struct cc_reclaim_record *record, struct cc_arena *arena);
/* Removes the VM from all lists; true when it was in vms. */
bool cc_reclaim_forget(struct cc_reclaim_record *record, const char *vm_name);

void cc_delete_names_parse(const char *text, struct cc_arena *arena, struct cc_strlist *ret);
/* Sorted, unique, joined by ','; NULL when empty. */
const char *cc_delete_names_encode(struct cc_strlist *names, struct cc_arena *arena);

#define CC_REBUILD_BUDGET 4
struct cc_rebuild_entry {
    const char *pod_name;
    int64_t count;
    struct cc_wall last_deleted;
    int64_t generation; /* omitted when 0 */
    bool parked;
};
struct cc_rebuild_history {
    struct cc_rebuild_entry *items; /* sorted by pod name */
    size_t count;
};
void cc_rebuild_parse(const char *text, struct cc_arena *arena, struct cc_rebuild_history *ret);
struct cc_rebuild_entry *cc_rebuild_find(const struct cc_rebuild_history *history, const char *pod_name);
/* Finds or adds. */
struct cc_rebuild_entry *cc_rebuild_put(struct cc_rebuild_history *history, struct cc_arena *arena,
                                        const char *pod_name);
void cc_rebuild_remove(struct cc_rebuild_history *history, const char *pod_name);
/* Drops entries of pods that keep(ctx, pod_name) does not name. */
void cc_rebuild_prune(struct cc_rebuild_history *history, bool (*keep)(void *ctx, const char *pod_name), void *ctx);
/* NULL when empty. */
const char *cc_rebuild_encode(const struct cc_rebuild_history *history, struct cc_arena *arena);
/* 0 s, 1 s, 5 s, 30 s for 0, 1, 2, >= 3 deletes so far. */
int64_t cc_rebuild_backoff_ms(int64_t count);

#endif
