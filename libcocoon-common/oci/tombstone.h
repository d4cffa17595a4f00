/* Tombstones (decision 63): what a tag names for a moment while it is deleted from a registry that deletes by digest
 * only and where another tag names the same manifest. A tombstone reads as absent. */
#ifndef CC_OCI_TOMBSTONE_H
#define CC_OCI_TOMBSTONE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "oci/registry.h"
#include "oci/snapshot.h"

/* A HEAD that gives a larger size cannot be of a tombstone. */
#define CC_TOMBSTONE_BYTES_MAX 1024

bool cc_manifest_is_tombstone(const struct cc_manifest *manifest);
/* The same on raw bytes; what cannot be parsed is none. */
bool cc_bytes_are_tombstone(const char *bytes, size_t count);
/* A tombstone that no other is equal to. `into` is initialised by the caller. Uses the running fiber's random numbers.
 */
void cc_tombstone_make(struct cc_buf *into);
/* Completes the deletion of a tombstone that was found: deletes its manifest, by digest. Failure is only logged at
 * debug: the tag reads as absent either way. */
CC_YIELDS void cc_tombstone_finish(const struct cc_registry *registry, const char *repository, const char *bytes,
                                   size_t count);

#endif
