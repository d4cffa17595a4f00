#include "runtime/cli_phrases.h"

#include <string.h>
#include <strings.h>

#include "base/attributes.h"
#include "base/text.h"

#define PHRASES_PER_MEANING 2

static const char *const phrases[][PHRASES_PER_MEANING] = {
    [VK_PHRASE_VM_ABSENT] = {"vm not found", "no such vm"},
    [VK_PHRASE_SNAPSHOT_ABSENT] = {"snapshot not found", "no such snapshot"},
    [VK_PHRASE_IMAGE_ABSENT] = {"not found in any backend", NULL},
    [VK_PHRASE_SNAPSHOT_NAME_TAKEN] = {"already exists", "already in use by"},
    [VK_PHRASE_SNAPSHOT_LOCKED] = {"is in use by an active", NULL},
};

bool vk_output_says(const char *output, enum vk_phrase phrase) {
    for (size_t i = 0; i < PHRASES_PER_MEANING; i++)
        if (phrases[phrase][i] && cc_text_contains_fold(output, phrases[phrase][i]))
            return true;
    return false;
}

/* The first word after `marker`, without one trailing ')'; NULL when there is none. */
static const char *word_after(const char *output, const char *marker, struct cc_arena *arena) {
    const char *found = strcasestr(output, marker);

    if (!found)
        return NULL;
    found += strlen(marker);
    found += strspn(found, " \t\r\n");
    size_t bytes = strcspn(found, " \t\r\n");
    if (bytes > 0 && found[bytes - 1] == ')')
        bytes--;
    return bytes > 0 ? cc_arena_strndup(arena, found, bytes) : NULL;
}

const char *vk_snapshot_holder(const char *output, const char *snapshot, struct cc_arena *arena) {
    static const char *const markers[] = {"already in use by ", "held by "};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(markers); i++) {
        const char *holder = word_after(output, markers[i], arena);

        if (holder && holder[0] != '-')
            return holder;
    }
    return snapshot;
}

bool vk_output_is_empty_list(const char *output) {
    output += strspn(output, " \t\r\n");
    return *output == '\0' || strncasecmp(output, "No VMs found", 12) == 0 ||
           strncasecmp(output, "No snapshots found", 18) == 0;
}
