/* What cocoon's output is taken to mean: the only place where its texts are looked at. contract/06 2.4 and 2.6. Pure.
 *
 * A bare "not found" must never match: "executable file not found in $PATH" or "config file not found" says nothing
 * about a VM. Whatever is not in this table is inconclusive. */
#ifndef VK_RUNTIME_CLI_PHRASES_H
#define VK_RUNTIME_CLI_PHRASES_H

#include <stdbool.h>

#include "base/arena.h"

enum vk_phrase {
    VK_PHRASE_VM_ABSENT,
    VK_PHRASE_SNAPSHOT_ABSENT,
    VK_PHRASE_IMAGE_ABSENT,
    VK_PHRASE_SNAPSHOT_NAME_TAKEN,
    VK_PHRASE_SNAPSHOT_LOCKED,
};
/* Substring match, ASCII case-insensitive. */
bool vk_output_says(const char *output, enum vk_phrase phrase);
/* Who holds the name after a failed save: the id that the output names, else the snapshot's own name (06 2.4 step 3).
 */
const char *vk_snapshot_holder(const char *output, const char *snapshot, struct cc_arena *arena);
/* Old versions print a sentence in place of an empty JSON list (06 3.2). */
bool vk_output_is_empty_list(const char *output);

#endif
