/* References: the configured base (OCI_REGISTRY) and image refs. contract/05 11.1, contract/02 11.4-11.5. */
#ifndef CC_OCI_REFERENCE_H
#define CC_OCI_REFERENCE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"

#define CC_TAG_HIBERNATE "hibernate"
#define CC_TAG_LATEST "latest"

struct cc_registry_base {
    const char *host; /* host[:port] as written */
    const char *path; /* without slashes at the ends, "" when none */
};
/* Rejects a scheme, a trailing slash, a first component that is no host, bad repository characters; the message names
 * OCI_REGISTRY. Texts live in the arena. */
CC_MUST_USE int cc_registry_base_parse(const char *text, struct cc_arena *arena, struct cc_registry_base *ret,
                                       struct cc_err *err);
bool cc_repository_is_valid(const char *repository); /* characters and length of the whole path */
bool cc_tag_is_valid(const char *tag);

/* Splits at the FIRST colon; no colon, or a leading one: (ref, "latest"). */
void cc_ref_split(const char *ref, struct cc_arena *arena, const char **ret_repository, const char **ret_tag);
/* 02 11.4: strict form of a registry-relative ref. */
bool cc_ref_is_relative(const char *ref);
/* Local snapshot name of a clone source: `repo`, or `repo:tag` when the tag is neither empty nor latest; longer than 63
 * bytes: 50 bytes + "-" + 12 hex digits. */
const char *cc_local_snapshot_name(const char *repository, const char *tag, struct cc_arena *arena);

#endif
