#include "oci/snapshot_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "oci/go_json.h"
#include "oci/media_types.h"

#define NAME_BYTES_MAX 255

/* --- names and types -------------------------------------------------------------------------------------------------
 */

bool cc_snapshot_name_is_plain(const char *name) {
    size_t bytes = strlen(name);
    return bytes > 0 && bytes <= NAME_BYTES_MAX && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

const char *cc_snapshot_media_type(const char *file_name) {
    static const char *const exact[][2] = {{"config.json", CC_TYPE_VM_CONFIG},
                                           {"state.json", CC_TYPE_VM_STATE},
                                           {"memory-ranges", CC_TYPE_VM_MEMORY},
                                           {"cidata.img", CC_TYPE_VM_CIDATA}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(exact); i++)
        if (strcmp(file_name, exact[i][0]) == 0)
            return exact[i][1];
    if (cc_text_ends_with(file_name, ".qcow2"))
        return CC_TYPE_DISK_QCOW2;
    return cc_text_ends_with(file_name, ".raw") ? CC_TYPE_DISK_RAW : CC_TYPE_OCTET_STREAM;
}

bool cc_snapshot_media_type_is_known(const char *media_type, bool *ret_zstd) {
    static const char *const known[] = {CC_TYPE_VM_CONFIG,  CC_TYPE_VM_STATE, CC_TYPE_VM_MEMORY,   CC_TYPE_VM_CIDATA,
                                        CC_TYPE_DISK_QCOW2, CC_TYPE_DISK_RAW, CC_TYPE_OCTET_STREAM};
    *ret_zstd = cc_text_ends_with(media_type, CC_TYPE_ZSTD_SUFFIX);
    size_t bytes = strlen(media_type) - (*ret_zstd ? strlen(CC_TYPE_ZSTD_SUFFIX) : 0);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(known); i++)
        if (strlen(known[i]) == bytes && strncmp(known[i], media_type, bytes) == 0)
            return true;
    return false;
}

/* --- members that both documents have, under two spellings
 * ------------------------------------------------------------- */

enum spelling { CONFIG_BLOB, ENVELOPE };
enum member {
    ID,
    DESCRIPTION,
    IMAGE,
    IMAGE_DIGEST,
    IMAGE_TYPE,
    BLOB_IDS,
    HYPERVISOR,
    CPU,
    MEMORY,
    STORAGE,
    NICS,
    NETWORK,
    WINDOWS,
    MEMBER_COUNT
};
static const char *const spellings[MEMBER_COUNT][2] = {
    [ID] = {"snapshotId", "id"},
    [DESCRIPTION] = {"description", "description"},
    [IMAGE] = {"image", "image"},
    [IMAGE_DIGEST] = {"imageDigest", "image_digest"},
    [IMAGE_TYPE] = {"imageType", "image_type"},
    [BLOB_IDS] = {"imageBlobIds", "image_blob_ids"},
    [HYPERVISOR] = {"hypervisor", "hypervisor"},
    [CPU] = {"cpu", "cpu"},
    [MEMORY] = {"memory", "memory"},
    [STORAGE] = {"storage", "storage"},
    [NICS] = {"nics", "nics"},
    [NETWORK] = {"network", "network"},
    [WINDOWS] = {"windows", "windows"},
};

static int wrong_type(struct cc_err *err, const char *what) {
    return cc_err_set(err, CC_PROTOCOL, "%s has the wrong JSON type", what);
}

static int check_type(const json_t *object, const char *key, bool (*is)(const json_t *), struct cc_err *err) {
    const json_t *value = cc_json_member(object, key);
    return value && !is(value) ? wrong_type(err, key) : 0;
}

static bool is_text(const json_t *value) {
    return json_is_string(value);
}

static bool is_integer(const json_t *value) {
    return json_is_integer(value);
}

static bool is_boolean(const json_t *value) {
    return json_is_boolean(value);
}

static bool is_object(const json_t *value) {
    return json_is_object(value);
}

static int check_types(const json_t *object, enum spelling spelling, struct cc_err *err) {
    static bool (*const checks[MEMBER_COUNT])(const json_t *) = {
        [ID] = is_text,         [DESCRIPTION] = is_text, [IMAGE] = is_text,      [IMAGE_DIGEST] = is_text,
        [IMAGE_TYPE] = is_text, [BLOB_IDS] = is_object,  [HYPERVISOR] = is_text, [CPU] = is_integer,
        [MEMORY] = is_integer,  [STORAGE] = is_integer,  [NICS] = is_integer,    [NETWORK] = is_text,
        [WINDOWS] = is_boolean,
    };
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        int rc = check_type(object, spellings[i][spelling], checks[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int take_members(const json_t *object, enum spelling spelling, struct cc_arena *arena,
                        struct cc_snapshot_config *config, struct cc_err *err) {
    int rc = check_types(object, spelling, err);
    if (rc)
        return rc;
#define NAME(member) spellings[member][spelling]
    config->snapshot_id = cc_json_text_dup(object, NAME(ID), arena);
    config->description = cc_json_text_dup(object, NAME(DESCRIPTION), arena);
    config->image = cc_json_text_dup(object, NAME(IMAGE), arena);
    config->image_digest = cc_json_text_dup(object, NAME(IMAGE_DIGEST), arena);
    config->image_type = cc_json_text_dup(object, NAME(IMAGE_TYPE), arena);
    config->hypervisor = cc_json_text_dup(object, NAME(HYPERVISOR), arena);
    config->network = cc_json_text_dup(object, NAME(NETWORK), arena);
    config->cpu = cc_json_int(object, NAME(CPU), 0);
    config->memory = cc_json_int(object, NAME(MEMORY), 0);
    config->storage = cc_json_int(object, NAME(STORAGE), 0);
    config->nics = cc_json_int(object, NAME(NICS), 0);
    config->windows = cc_json_bool(object, NAME(WINDOWS));
    const char *key;
    json_t *value;
    json_object_foreach (cc_json_member(object, NAME(BLOB_IDS)), key, value) {
        cc_strlist_add(&config->image_blob_ids, arena, key);
    }
    cc_strlist_sort(&config->image_blob_ids);
    return 0;
}

static void put_blob_ids(struct cc_go_json *json, const struct cc_snapshot_config *config, const char *key) {
    if (config->image_blob_ids.count == 0)
        return;
    cc_go_json_open(json, key, '{');
    for (size_t i = 0; i < config->image_blob_ids.count; i++)
        cc_go_json_raw(json, config->image_blob_ids.items[i], "{}");
    cc_go_json_close(json, '}');
}

/* Everything after the id (and the envelope's name), in the order of both documents. */
static void put_members(struct cc_go_json *json, const struct cc_snapshot_config *config, enum spelling spelling) {
    cc_go_json_text_nonempty(json, NAME(DESCRIPTION), config->description);
    cc_go_json_text_nonempty(json, NAME(IMAGE), config->image);
    cc_go_json_text_nonempty(json, NAME(IMAGE_DIGEST), config->image_digest);
    cc_go_json_text_nonempty(json, NAME(IMAGE_TYPE), config->image_type);
    put_blob_ids(json, config, NAME(BLOB_IDS));
    cc_go_json_text_nonempty(json, NAME(HYPERVISOR), config->hypervisor);
    cc_go_json_int_nonzero(json, NAME(CPU), config->cpu);
    cc_go_json_int_nonzero(json, NAME(MEMORY), config->memory);
    cc_go_json_int_nonzero(json, NAME(STORAGE), config->storage);
    cc_go_json_int_nonzero(json, NAME(NICS), config->nics);
    cc_go_json_text_nonempty(json, NAME(NETWORK), config->network);
    if (config->windows)
        cc_go_json_raw(json, NAME(WINDOWS), "true");
}

/* --- envelope
 * ------------------------------------------------------------------------------------------------------------ */

static int take_envelope(const json_t *root, struct cc_arena *arena, struct cc_snapshot_config *ret,
                         struct cc_err *err) {
    struct cc_snapshot_config config = {.schema_version = "", .created_at = ""};
    const json_t *version = cc_json_member(root, "version");
    const json_t *object = cc_json_member(root, "config");
    if (version && (!json_is_integer(version) || json_integer_value(version) != 1))
        return cc_err_set(err, CC_PROTOCOL, "the version is not 1");
    if (!json_is_object(object))
        return cc_err_set(err, CC_PROTOCOL, "config must be a JSON object");
    int rc = check_type(object, "name", is_text, err);
    if (rc == 0)
        rc = take_members(object, ENVELOPE, arena, &config, err);
    if (rc)
        return rc;
    config.name = cc_json_text_dup(object, "name", arena);
    *ret = config;
    return 0;
}

int cc_snapshot_envelope_parse(const char *bytes, size_t count, struct cc_arena *arena, struct cc_snapshot_config *ret,
                               struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(bytes, count, CC_SNAPSHOT_ENVELOPE_BYTES_MAX, &root, err);
    if (rc == 0)
        rc = take_envelope(root, arena, ret, err);
    if (rc)
        cc_err_wrap(err, CC_SNAPSHOT_ENVELOPE);
    return rc;
}

void cc_snapshot_envelope_encode(const struct cc_snapshot_config *config, struct cc_buf *into) {
    struct cc_go_json json;
    cc_go_json_init(&json, into, true);
    cc_go_json_open(&json, NULL, '{');
    cc_go_json_int(&json, "version", 1);
    cc_go_json_open(&json, "config", '{');
    cc_go_json_text(&json, spellings[ID][ENVELOPE], config->snapshot_id);
    cc_go_json_text(&json, "name", config->name);
    put_members(&json, config, ENVELOPE);
    cc_go_json_close(&json, '}');
    cc_go_json_close(&json, '}');
    cc_ignore(cc_buf_putc(into, '\n'), "the buffer remembers that it has overflown");
}

/* --- config blob
 * ------------------------------------------------------------------------------------------------------------ */

static int compare_files(const void *a, const void *b) {
    return strcmp(((const struct cc_snapshot_file *)a)->name, ((const struct cc_snapshot_file *)b)->name);
}

static void sort_files(struct cc_snapshot_config *config) {
    if (config->file_count > 1)
        qsort(config->files, config->file_count, sizeof config->files[0], compare_files);
}

static int take_chunks(const json_t *object, struct cc_arena *arena, struct cc_strlist *ret, struct cc_err *err) {
    const json_t *chunks = cc_json_member(object, "chunks");
    if (chunks && !json_is_array(chunks))
        return wrong_type(err, "chunks");
    for (size_t i = 0; i < json_array_size(chunks); i++) {
        const char *digest = json_string_value(json_array_get(chunks, i));
        if (!digest)
            return wrong_type(err, "chunks");
        cc_strlist_add(ret, arena, digest);
    }
    return 0;
}

static int take_file(const json_t *object, const char *name, struct cc_arena *arena, struct cc_snapshot_file *ret,
                     struct cc_err *err) {
    if (!json_is_object(object))
        return wrong_type(err, "the entry");
    int rc = check_type(object, "mode", is_integer, err);
    if (rc == 0)
        rc = check_type(object, "sparseMap", is_text, err);
    if (rc == 0)
        rc = check_type(object, "sparseSize", is_integer, err);
    if (rc == 0)
        rc = check_type(object, "size", is_integer, err);
    if (rc)
        return rc;
    struct cc_snapshot_file file = {
        .name = cc_arena_strdup(arena, name),
        .mode = (uint32_t)(cc_json_int(object, "mode", 0) & 07777),
        .sparse_map = cc_json_text_dup(object, "sparseMap", arena),
        .sparse_size = cc_json_int(object, "sparseSize", 0),
        .size = cc_json_int(object, "size", 0),
    };
    if (!*file.sparse_map)
        file.sparse_map = NULL;
    /* Without the size the holes at the end would be lost, without a word. */
    if (file.sparse_map && file.sparse_size <= 0)
        return cc_err_set(err, CC_PROTOCOL, "sparseMap without sparseSize");
    rc = take_chunks(object, arena, &file.chunks, err);
    if (rc == 0)
        *ret = file;
    return rc;
}

static int take_files(const json_t *root, struct cc_arena *arena, struct cc_snapshot_config *config,
                      struct cc_err *err) {
    const json_t *files = cc_json_member(root, "files");
    if (!files)
        return 0;
    if (!json_is_object(files))
        return wrong_type(err, "files");
    if (json_object_size(files) > CC_SNAPSHOT_FILES_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %d files", CC_SNAPSHOT_FILES_MAX);
    config->files = CC_ARENA_ARRAY(arena, struct cc_snapshot_file, json_object_size(files) + 1);
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)files, name, value) {
        int rc = take_file(value, name, arena, &config->files[config->file_count++], err);
        if (rc) {
            cc_err_wrap(err, "files[\"%s\"]", name);
            return rc;
        }
    }
    sort_files(config);
    return 0;
}

int cc_snapshot_config_parse(const char *bytes, size_t count, struct cc_arena *arena, struct cc_snapshot_config *ret,
                             struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_snapshot_config config = {.name = ""};
    int rc = cc_json_parse(bytes, count, CC_SNAPSHOT_CONFIG_BYTES_MAX, &root, err);
    if (rc == 0 && !json_is_object(root))
        rc = wrong_type(err, "the document");
    if (rc == 0)
        rc = take_members(root, CONFIG_BLOB, arena, &config, err);
    if (rc == 0)
        rc = take_files(root, arena, &config, err);
    if (rc) {
        cc_err_wrap(err, "snapshot config");
        return rc;
    }
    config.schema_version = cc_json_text_dup(root, "schemaVersion", arena);
    config.created_at = cc_json_text_dup(root, "createdAt", arena);
    *ret = config;
    return 0;
}

static void put_file(struct cc_go_json *json, const struct cc_snapshot_file *file) {
    cc_go_json_open(json, file->name, '{');
    cc_go_json_int_nonzero(json, "mode", (int64_t)file->mode);
    if (file->sparse_map) {
        cc_go_json_text(json, "sparseMap", file->sparse_map);
        cc_go_json_int_nonzero(json, "sparseSize", file->sparse_size);
    }
    cc_go_json_int_nonzero(json, "size", file->size);
    if (file->chunks.count > 0) {
        cc_go_json_open(json, "chunks", '[');
        for (size_t i = 0; i < file->chunks.count; i++)
            cc_go_json_text(json, NULL, file->chunks.items[i]);
        cc_go_json_close(json, ']');
    }
    cc_go_json_close(json, '}');
}

void cc_snapshot_config_encode(struct cc_snapshot_config *config, struct cc_buf *into) {
    struct cc_go_json json;
    sort_files(config);
    cc_go_json_init(&json, into, false);
    cc_go_json_open(&json, NULL, '{');
    cc_go_json_text(&json, "schemaVersion", config->schema_version);
    cc_go_json_text(&json, spellings[ID][CONFIG_BLOB], config->snapshot_id);
    put_members(&json, config, CONFIG_BLOB);
    if (config->file_count > 0) {
        cc_go_json_open(&json, "files", '{');
        for (size_t i = 0; i < config->file_count; i++)
            put_file(&json, &config->files[i]);
        cc_go_json_close(&json, '}');
    }
    cc_go_json_text_nonempty(&json, "createdAt", config->created_at);
    cc_go_json_close(&json, '}');
}

const struct cc_snapshot_file *cc_snapshot_config_file(const struct cc_snapshot_config *config, const char *name) {
    if (config->file_count == 0)
        return NULL;
    const struct cc_snapshot_file key = {.name = name};
    return (const struct cc_snapshot_file *)bsearch(&key, config->files, config->file_count, sizeof key, compare_files);
}

/* --- manifest
 * --------------------------------------------------------------------------------------------------------------- */

static void put_descriptor(struct cc_go_json *json, const char *key, const struct cc_descriptor *descriptor) {
    cc_go_json_open(json, key, '{');
    cc_go_json_text(json, "mediaType", descriptor->media_type);
    cc_go_json_text(json, "digest", descriptor->digest);
    cc_go_json_int(json, "size", descriptor->size);
    cc_go_json_map_nonempty(json, "annotations", &descriptor->annotations);
    cc_go_json_close(json, '}');
}

void cc_snapshot_manifest_encode(const struct cc_manifest *manifest, struct cc_buf *into) {
    struct cc_go_json json;
    cc_go_json_init(&json, into, true);
    cc_go_json_open(&json, NULL, '{');
    cc_go_json_int(&json, "schemaVersion", 2);
    cc_go_json_text(&json, "mediaType", CC_TYPE_OCI_MANIFEST);
    cc_go_json_text(&json, "artifactType", manifest->artifact_type);
    put_descriptor(&json, "config", &manifest->config);
    if (manifest->layer_count == 0) {
        cc_go_json_raw(&json, "layers", "null");
    } else {
        cc_go_json_open(&json, "layers", '[');
        for (size_t i = 0; i < manifest->layer_count; i++)
            put_descriptor(&json, NULL, &manifest->layers[i]);
        cc_go_json_close(&json, ']');
    }
    cc_go_json_map_nonempty(&json, "annotations", &manifest->annotations);
    cc_go_json_close(&json, '}');
}
