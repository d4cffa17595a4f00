/* The three documents of a snapshot and their codecs: the envelope snapshot.json of an archive (contract/05 5), the
 * config blob (contract/05 4) and the manifest. Pure. */
#ifndef CC_OCI_SNAPSHOT_CONFIG_H
#define CC_OCI_SNAPSHOT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/strmap.h"
#include "oci/snapshot.h"

#define CC_SNAPSHOT_ENVELOPE "snapshot.json"
#define CC_SNAPSHOT_ENVELOPE_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define CC_SNAPSHOT_FILES_MAX 10000
#define CC_SNAPSHOT_MODE_DEFAULT 0640

struct cc_snapshot_file {
    const char *name;
    uint32_t mode;          /* permission bits; 0 = not recorded */
    const char *sparse_map; /* JSON text, NULL = the file is not sparse */
    int64_t sparse_size;
    int64_t size; /* of the tar entry; 0 = not recorded (v1 never does) */
    struct cc_strlist chunks;
};

/* Texts are "" and numbers 0 when absent. */
struct cc_snapshot_config {
    const char *schema_version; /* "v1" or "v2"; the config blob's only */
    const char *snapshot_id;
    const char *name; /* the envelope's only */
    const char *description, *image, *image_digest, *image_type;
    struct cc_strlist image_blob_ids; /* sorted */
    const char *hypervisor;
    int64_t cpu, memory, storage, nics;
    const char *network;
    bool windows;
    struct cc_snapshot_file *files; /* sorted by name; the config blob's only */
    size_t file_count;
    const char *created_at; /* the config blob's only */
};

/* PROTOCOL when malformed, of another version than 1, or without an object `config`. */
CC_MUST_USE int cc_snapshot_envelope_parse(const char *bytes, size_t count, struct cc_arena *arena,
                                           struct cc_snapshot_config *ret, struct cc_err *err);
/* With a line end. */
void cc_snapshot_envelope_encode(const struct cc_snapshot_config *config, struct cc_buf *into);
/* Foreign members are ignored. PROTOCOL when malformed, also a sparseMap without sparseSize. */
CC_MUST_USE int cc_snapshot_config_parse(const char *bytes, size_t count, struct cc_arena *arena,
                                         struct cc_snapshot_config *ret, struct cc_err *err);
/* Compact, no line end. Sorts `files`. */
void cc_snapshot_config_encode(struct cc_snapshot_config *config, struct cc_buf *into);
/* NULL when the config has no such file. */
const struct cc_snapshot_file *cc_snapshot_config_file(const struct cc_snapshot_config *config, const char *name);

/* Indented, no line end. Uses artifact_type, config, layers and annotations. */
void cc_snapshot_manifest_encode(const struct cc_manifest *manifest, struct cc_buf *into);

/* Layer type of a file by its name (contract/05 1). */
const char *cc_snapshot_media_type(const char *file_name);
/* Types that a reader accepts in a snapshot; a trailing "+zstd" is allowed and told. */
bool cc_snapshot_media_type_is_known(const char *media_type, bool *ret_zstd);
/* A name that is one path component and no "." or "..", of at most 255 bytes. */
bool cc_snapshot_name_is_plain(const char *name);

#endif
