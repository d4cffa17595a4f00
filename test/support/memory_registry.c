#include "support/memory_registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"

#define TRACE_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define BLOB_BYTES_MAX ((size_t)64 * 1024 * 1024)

enum entry_kind { ENTRY_TAG = 't', ENTRY_MANIFEST = 'm', ENTRY_BLOB = 'b' };

/* A tag's bytes are the digest it names. */
struct entry {
    char *key;        /* kind, repository, "\n", tag or digest */
    const char *name; /* into key: the tag or digest */
    char *bytes;
    size_t count;
    char media_type[128];
    UT_hash_handle hh;
};

struct fault {
    int skip; /* calls that still pass */
    int left; /* calls that then fail; < 0 = for ever; 0 = no rule */
    int code, status;
    char reason[40];
    bool after_effect;
};

struct cc_memory_registry {
    struct entry *entries;
    uint64_t tag_changes;
    struct cc_memory_registry_manner manner;
    struct fault faults[CC_REGISTRY_OP_COUNT];
    int calls[CC_REGISTRY_OP_COUNT];
    struct cc_buf trace;
    cc_memory_registry_hook hook;
    void *hook_ctx;
};

/* --- storage ----------------------------------------------------------------------------------------------------- */

static char *key_of(enum entry_kind kind, const char *repository, const char *name) {
    size_t repository_bytes = strlen(repository), name_bytes = strlen(name);
    char *key = cc_xmalloc(repository_bytes + name_bytes + 3);

    key[0] = (char)kind;
    memcpy(key + 1, repository, repository_bytes);
    key[1 + repository_bytes] = '\n';
    memcpy(key + 2 + repository_bytes, name, name_bytes + 1);
    return key;
}

static struct entry *find(const struct cc_memory_registry *registry, enum entry_kind kind, const char *repository,
                          const char *name) {
    char *key cc_cleanup(cc_free_p) = key_of(kind, repository, name);
    struct entry *found = NULL;
    HASH_FIND_STR(registry->entries, key, found);
    return found;
}

static void drop(struct cc_memory_registry *registry, struct entry *entry) {
    if (!entry)
        return;
    registry->tag_changes += entry->key[0] == ENTRY_TAG;
    HASH_DEL(registry->entries, entry);
    free(entry->key);
    free(entry->bytes);
    free(entry);
}

static struct entry *store(struct cc_memory_registry *registry, enum entry_kind kind, const char *repository,
                           const char *name, const void *bytes, size_t count, const char *media_type) {
    drop(registry, find(registry, kind, repository, name));
    struct entry *entry = CC_NEW(struct entry);
    registry->tag_changes += kind == ENTRY_TAG;
    entry->key = key_of(kind, repository, name);
    entry->name = strchr(entry->key, '\n') + 1;
    entry->bytes = (char *)cc_xmalloc(count + 1);
    if (count > 0)
        memcpy(entry->bytes, bytes, count);
    entry->bytes[count] = '\0';
    entry->count = count;
    snprintf(entry->media_type, sizeof entry->media_type, "%s", media_type ? media_type : "");
    HASH_ADD_KEYPTR(hh, registry->entries, entry->key, strlen(entry->key), entry);
    return entry;
}

static bool entry_is_of(const struct entry *entry, enum entry_kind kind, const char *repository) {
    size_t length = strlen(repository);
    return entry->key[0] == (char)kind && strncmp(entry->key + 1, repository, length) == 0 &&
           entry->key[1 + length] == '\n';
}

static struct entry *find_manifest(const struct cc_memory_registry *registry, const char *repository,
                                   const char *reference) {
    if (strchr(reference, ':'))
        return find(registry, ENTRY_MANIFEST, repository, reference);
    struct entry *tag = find(registry, ENTRY_TAG, repository, reference);
    return tag ? find(registry, ENTRY_MANIFEST, repository, tag->bytes) : NULL;
}

/* --- faults and counting ------------------------------------------------------------------------------------------ */

static const char *const verbs[CC_REGISTRY_OP_COUNT] = {
    [CC_REGISTRY_HAS_MANIFEST] = "HEAD",      [CC_REGISTRY_GET_MANIFEST] = "GET", [CC_REGISTRY_PUT_MANIFEST] = "PUT",
    [CC_REGISTRY_DELETE_MANIFEST] = "DELETE", [CC_REGISTRY_LIST_TAGS] = "TAGS",   [CC_REGISTRY_HAS_BLOB] = "BLOB?",
    [CC_REGISTRY_PUT_BLOB] = "BLOB+",         [CC_REGISTRY_GET_BLOB] = "BLOB",
};

struct call {
    struct cc_memory_registry *registry;
    enum cc_registry_op op;
    bool lose_answer;
    struct fault fault;
};

static int fault_error(const struct call *call, struct cc_err *err) {
    const struct fault *fault = &call->fault;
    cc_err_set(err, (enum cc_code)fault->code, "%s: injected fault, status %d", verbs[call->op], fault->status);
    if (err) {
        err->status = fault->status;
        snprintf(err->reason, sizeof err->reason, "%s", fault->reason);
    }
    return fault->code;
}

/* Counts the call and decides its fate: other than 0 = fails before any effect. */
static int begin(struct call *call, const char *repository, const char *reference, struct cc_err *err) {
    struct cc_memory_registry *registry = call->registry;
    registry->calls[call->op]++;
    cc_ignore(cc_buf_printf(&registry->trace, "%s %s%s%s\n", verbs[call->op], repository,
                            !reference               ? ""
                            : strchr(reference, ':') ? "@"
                                                     : ":",
                            reference ? reference : ""),
              "a trace beyond its bound is cut");
    struct fault *fault = &registry->faults[call->op];
    bool fails = fault->left != 0 && fault->skip == 0;
    if (fault->left != 0 && fault->skip > 0)
        fault->skip--;
    if (fails) {
        call->fault = *fault;
        if (fault->left > 0)
            fault->left--;
    }
    if (registry->hook) {
        int rc = registry->hook(registry->hook_ctx, call->op, repository, reference, err);
        if (rc)
            return rc;
    }
    if (fails && !call->fault.after_effect)
        return fault_error(call, err);
    call->lose_answer = fails;
    return 0;
}

static int finish(const struct call *call, struct cc_err *err) {
    return call->lose_answer ? fault_error(call, err) : 0;
}

#define CALL(name, operation) struct call name = {.registry = (struct cc_memory_registry *)ctx, .op = (operation)}

/* --- the port ------------------------------------------------------------------------------------------------------
 */

static int has_manifest(void *ctx, const char *repository, const char *reference, bool *ret_present, char *ret_digest,
                        int64_t *ret_bytes, struct cc_err *err) {
    CALL(call, CC_REGISTRY_HAS_MANIFEST);
    int rc = begin(&call, repository, reference, err);
    if (rc == 0)
        rc = finish(&call, err);
    if (rc)
        return rc;
    const struct entry *manifest = find_manifest(call.registry, repository, reference);
    *ret_present = manifest != NULL;
    if (ret_digest)
        snprintf(ret_digest, CC_DIGEST_BYTES, "%s",
                 manifest && !call.registry->manner.hide_digest ? manifest->name : "");
    if (ret_bytes)
        *ret_bytes = manifest && !call.registry->manner.hide_size ? (int64_t)manifest->count : -1;
    return 0;
}

static int get_manifest(void *ctx, const char *repository, const char *reference, struct cc_manifest_bytes *ret,
                        struct cc_err *err) {
    CALL(call, CC_REGISTRY_GET_MANIFEST);
    int rc = begin(&call, repository, reference, err);
    if (rc == 0)
        rc = finish(&call, err);
    if (rc)
        return rc;
    const struct entry *manifest = find_manifest(call.registry, repository, reference);
    if (!manifest)
        return cc_err_set(err, CC_NOT_FOUND, "no manifest %s in %s", reference, repository);
    cc_buf_init(&ret->body, CC_MANIFEST_BYTES_MAX);
    cc_ignore(cc_buf_append(&ret->body, manifest->bytes, manifest->count), "stored manifests are within the limit");
    snprintf(ret->media_type, sizeof ret->media_type, "%s", manifest->media_type);
    snprintf(ret->digest, sizeof ret->digest, "%s", call.registry->manner.hide_digest ? "" : manifest->name);
    return 0;
}

static bool blob_is_missing(const struct cc_memory_registry *registry, const char *repository, const json_t *descriptor,
                            char missing[CC_DIGEST_BYTES]) {
    const char *digest = cc_json_text(descriptor, "digest");
    if (!digest || find(registry, ENTRY_BLOB, repository, digest))
        return false;
    snprintf(missing, CC_DIGEST_BYTES, "%s", digest);
    return true;
}

static int check_blobs(const struct cc_memory_registry *registry, const char *repository, const void *bytes,
                       size_t count, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse((const char *)bytes, count, CC_MANIFEST_BYTES_MAX, &root, err);
    if (rc)
        return cc_err_set(err, CC_INVALID, "put manifest: 400 MANIFEST_INVALID");
    char missing[CC_DIGEST_BYTES];
    bool dangling = blob_is_missing(registry, repository, cc_json_member(root, "config"), missing);
    size_t index;
    json_t *layer;
    json_array_foreach (cc_json_member(root, "layers"), index, layer) {
        dangling = dangling || blob_is_missing(registry, repository, layer, missing);
    }
    if (!dangling)
        return 0;
    cc_err_set(err, CC_INVALID, "put manifest: 400 MANIFEST_BLOB_UNKNOWN: %s", missing);
    if (err) {
        err->status = 400;
        snprintf(err->reason, sizeof err->reason, "MANIFEST_BLOB_UNKNOWN");
    }
    return CC_INVALID;
}

static int put_manifest(void *ctx, const char *repository, const char *reference, const char *media_type,
                        const void *bytes, size_t count, struct cc_err *err) {
    CALL(call, CC_REGISTRY_PUT_MANIFEST);
    int rc = begin(&call, repository, reference, err);
    if (rc == 0 && !call.registry->manner.accept_dangling)
        rc = check_blobs(call.registry, repository, bytes, count, err);
    if (rc)
        return rc;
    char digest[CC_DIGEST_BYTES];
    cc_digest_of(bytes, count, digest);
    store(call.registry, ENTRY_MANIFEST, repository, digest, bytes, count, media_type);
    if (!strchr(reference, ':'))
        store(call.registry, ENTRY_TAG, repository, reference, digest, strlen(digest), NULL);
    return finish(&call, err);
}

static int refuse_delete(int status, const char *reason, struct cc_err *err) {
    cc_err_set(err, CC_UNSUPPORTED, "delete manifest: %d %s", status, reason);
    if (err) {
        err->status = status;
        snprintf(err->reason, sizeof err->reason, "%s", reason);
    }
    return CC_UNSUPPORTED;
}

/* As registries do: with the manifest go all tags that name it. */
static void delete_digest(struct cc_memory_registry *registry, const char *repository, const char *digest) {
    struct entry *entry, *next;
    HASH_ITER (hh, registry->entries, entry, next) {
        if (entry_is_of(entry, ENTRY_TAG, repository) && strcmp(entry->bytes, digest) == 0)
            drop(registry, entry);
    }
    drop(registry, find(registry, ENTRY_MANIFEST, repository, digest));
}

static int delete_manifest(void *ctx, const char *repository, const char *reference, struct cc_err *err) {
    CALL(call, CC_REGISTRY_DELETE_MANIFEST);
    int rc = begin(&call, repository, reference, err);
    if (rc)
        return rc;
    if (call.registry->manner.refuse_all_deletes)
        return refuse_delete(405, "UNSUPPORTED", err);
    bool is_digest = strchr(reference, ':') != NULL;
    if (!is_digest && call.registry->manner.refuse_tag_delete)
        return refuse_delete(400, "DIGEST_INVALID", err);
    if (is_digest)
        delete_digest(call.registry, repository, reference);
    else
        drop(call.registry, find(call.registry, ENTRY_TAG, repository, reference));
    return finish(&call, err);
}

static int list_tags(void *ctx, const char *repository, struct cc_arena *arena, struct cc_strlist *ret,
                     struct cc_err *err) {
    CALL(call, CC_REGISTRY_LIST_TAGS);
    int rc = begin(&call, repository, NULL, err);
    if (rc == 0)
        rc = finish(&call, err);
    if (rc)
        return rc;
    struct entry *entry, *next;
    HASH_ITER (hh, call.registry->entries, entry, next) {
        if (entry_is_of(entry, ENTRY_TAG, repository))
            cc_strlist_add(ret, arena, entry->name);
    }
    cc_strlist_sort(ret);
    return 0;
}

static int has_blob(void *ctx, const char *repository, const char *digest, bool *ret_present, struct cc_err *err) {
    CALL(call, CC_REGISTRY_HAS_BLOB);
    int rc = begin(&call, repository, digest, err);
    if (rc == 0)
        rc = finish(&call, err);
    if (rc)
        return rc;
    *ret_present = find(call.registry, ENTRY_BLOB, repository, digest) != NULL;
    return 0;
}

static int read_whole(const struct cc_reader *body, struct cc_buf *into, struct cc_err *err) {
    for (;;) {
        char *room = cc_buf_reserve(into, 64 * 1024);
        if (!room)
            return cc_err_set(err, CC_LIMIT, "blob larger than %zu bytes", into->limit);
        size_t count = 0;
        int rc = body->read(body->ctx, room, 64 * 1024, &count, err);
        if (rc || count == 0)
            return rc;
        cc_buf_commit(into, count);
    }
}

static int put_blob(void *ctx, const char *repository, const char *digest, int64_t size, const struct cc_reader *body,
                    int (*rewind)(void *ctx), bool force, struct cc_err *err) {
    CALL(call, CC_REGISTRY_PUT_BLOB);
    (void)rewind;
    int rc = begin(&call, repository, digest, err);
    if (rc)
        return rc;
    if (!force && find(call.registry, ENTRY_BLOB, repository, digest))
        return finish(&call, err);
    struct cc_buf bytes cc_cleanup(cc_buf_done);
    cc_buf_init(&bytes, BLOB_BYTES_MAX);
    rc = read_whole(body, &bytes, err);
    if (rc)
        return rc;
    char actual[CC_DIGEST_BYTES];
    cc_digest_of(bytes.data, bytes.len, actual);
    if ((int64_t)bytes.len != size || strcmp(actual, digest) != 0)
        return cc_err_set(err, CC_INVALID, "put blob: 400 DIGEST_INVALID: %zu of %" PRId64 " bytes", bytes.len, size);
    store(call.registry, ENTRY_BLOB, repository, digest, bytes.data, bytes.len, NULL);
    return finish(&call, err);
}

static int get_blob(void *ctx, const char *repository, const char *digest, int64_t size, const struct cc_writer *sink,
                    struct cc_err *err) {
    CALL(call, CC_REGISTRY_GET_BLOB);
    int rc = begin(&call, repository, digest, err);
    if (rc)
        return rc;
    const struct entry *blob = find(call.registry, ENTRY_BLOB, repository, digest);
    if (!blob)
        return cc_err_set(err, CC_NOT_FOUND, "no blob %s in %s", digest, repository);
    char actual[CC_DIGEST_BYTES];
    cc_digest_of(blob->bytes, blob->count, actual);
    /* A copy: the sink may yield, and the blob may be dropped meanwhile. */
    char *bytes cc_cleanup(cc_free_p) = (char *)cc_xmalloc(blob->count + 1);
    size_t count = blob->count;
    memcpy(bytes, blob->bytes, count);
    for (size_t at = 0; at < count; at += 64 * 1024) {
        size_t piece = count - at < 64 * 1024 ? count - at : 64 * 1024;
        rc = sink->write(sink->ctx, bytes + at, piece, err);
        if (rc)
            return rc;
    }
    if (size >= 0 && (int64_t)count != size)
        return cc_err_set(err, CC_PROTOCOL, "blob %s is %s manifest size", digest,
                          (int64_t)count < size ? "shorter than" : "longer than");
    if (strcmp(actual, digest) != 0)
        return cc_err_set(err, CC_PROTOCOL, "blob %s: content has digest %s", digest, actual);
    return finish(&call, err);
}

static const struct cc_registry_ops memory_ops = {
    .has_manifest = has_manifest,
    .get_manifest = get_manifest,
    .put_manifest = put_manifest,
    .delete_manifest = delete_manifest,
    .list_tags = list_tags,
    .has_blob = has_blob,
    .put_blob = put_blob,
    .get_blob = get_blob,
};

/* --- for tests ------------------------------------------------------------------------------------------------------
 */

struct cc_memory_registry *cc_memory_registry_new(void) {
    struct cc_memory_registry *registry = CC_NEW(struct cc_memory_registry);
    cc_buf_init(&registry->trace, TRACE_BYTES_MAX);
    return registry;
}

void cc_memory_registry_free(struct cc_memory_registry *registry) {
    if (!registry)
        return;
    struct entry *entry, *next;
    HASH_ITER (hh, registry->entries, entry, next) {
        drop(registry, entry);
    }
    cc_buf_done(&registry->trace);
    free(registry);
}

struct cc_registry cc_memory_registry_port(struct cc_memory_registry *registry) {
    return (struct cc_registry){&memory_ops, registry};
}

struct cc_memory_registry_manner *cc_memory_registry_manner(struct cc_memory_registry *registry) {
    return &registry->manner;
}

void cc_memory_registry_fail(struct cc_memory_registry *registry, enum cc_registry_op op, int k, int count, int code,
                             int status, const char *reason, bool after_effect) {
    cc_assert(op < CC_REGISTRY_OP_COUNT);
    struct fault *fault = &registry->faults[op];
    *fault = (struct fault){0};
    if (k <= 0)
        return;
    cc_assert(code < 0);
    fault->skip = k - 1;
    fault->left = count;
    fault->code = code;
    fault->status = status;
    fault->after_effect = after_effect;
    snprintf(fault->reason, sizeof fault->reason, "%s", reason ? reason : "");
}

void cc_memory_registry_heal(struct cc_memory_registry *registry) {
    memset(registry->faults, 0, sizeof registry->faults);
    registry->hook = NULL;
}

void cc_memory_registry_set_hook(struct cc_memory_registry *registry, cc_memory_registry_hook hook, void *ctx) {
    registry->hook = hook;
    registry->hook_ctx = ctx;
}

int cc_memory_registry_calls(const struct cc_memory_registry *registry, enum cc_registry_op op) {
    if (op < CC_REGISTRY_OP_COUNT)
        return registry->calls[op];
    int all = 0;
    for (size_t i = 0; i < CC_REGISTRY_OP_COUNT; i++)
        all += registry->calls[i];
    return all;
}

const char *cc_memory_registry_trace(const struct cc_memory_registry *registry) {
    return registry->trace.data;
}

void cc_memory_registry_forget_calls(struct cc_memory_registry *registry) {
    memset(registry->calls, 0, sizeof registry->calls);
    cc_buf_clear(&registry->trace);
}

const char *cc_memory_registry_tag(const struct cc_memory_registry *registry, const char *repository, const char *tag) {
    const struct entry *entry = find(registry, ENTRY_TAG, repository, tag);
    return entry ? entry->bytes : NULL;
}

uint64_t cc_memory_registry_tag_changes(const struct cc_memory_registry *registry) {
    return registry->tag_changes;
}

size_t cc_memory_registry_tag_count(const struct cc_memory_registry *registry) {
    size_t count = 0;
    struct entry *entry, *next;
    HASH_ITER (hh, registry->entries, entry, next) {
        count += entry->key[0] == ENTRY_TAG;
    }
    return count;
}

static const char *content(const struct entry *entry, size_t *ret_count) {
    if (entry && ret_count)
        *ret_count = entry->count;
    return entry ? entry->bytes : NULL;
}

const char *cc_memory_registry_manifest(const struct cc_memory_registry *registry, const char *repository,
                                        const char *digest, size_t *ret_count) {
    return content(find(registry, ENTRY_MANIFEST, repository, digest), ret_count);
}

const char *cc_memory_registry_blob(const struct cc_memory_registry *registry, const char *repository,
                                    const char *digest, size_t *ret_count) {
    return content(find(registry, ENTRY_BLOB, repository, digest), ret_count);
}

void cc_memory_registry_put_tag(struct cc_memory_registry *registry, const char *repository, const char *tag,
                                const char *manifest) {
    char digest[CC_DIGEST_BYTES];
    cc_digest_of(manifest, strlen(manifest), digest);
    store(registry, ENTRY_MANIFEST, repository, digest, manifest, strlen(manifest),
          "application/vnd.oci.image.manifest.v1+json");
    store(registry, ENTRY_TAG, repository, tag, digest, strlen(digest), NULL);
}

void cc_memory_registry_drop_tag(struct cc_memory_registry *registry, const char *repository, const char *tag) {
    drop(registry, find(registry, ENTRY_TAG, repository, tag));
}

const char *cc_memory_registry_put_blob(struct cc_memory_registry *registry, const char *repository, const void *bytes,
                                        size_t count) {
    char digest[CC_DIGEST_BYTES];
    cc_digest_of(bytes, count, digest);
    return store(registry, ENTRY_BLOB, repository, digest, bytes, count, NULL)->name;
}

void cc_memory_registry_drop_blob(struct cc_memory_registry *registry, const char *repository, const char *digest) {
    drop(registry, find(registry, ENTRY_BLOB, repository, digest));
}

static json_t *descriptor_of(struct cc_memory_registry *registry, const char *repository, const char *media_type,
                             const char *title, const char *content_text) {
    json_t *descriptor = json_object();
    cc_json_set_text(descriptor, "mediaType", media_type);
    cc_json_set_text(descriptor, "digest",
                     cc_memory_registry_put_blob(registry, repository, content_text, strlen(content_text)));
    cc_json_set_int(descriptor, "size", (int64_t)strlen(content_text));
    if (title)
        cc_json_set_new(descriptor, "annotations", json_pack("{s:s}", "org.opencontainers.image.title", title));
    return descriptor;
}

void cc_memory_registry_put_snapshot(struct cc_memory_registry *registry, const char *repository, const char *tag,
                                     const char *snapshot_id, const char *base_image, const char *from_node) {
    static const char *const layers[][3] = {
        {"config.json", "application/vnd.cocoonstack.vm.config+json", "{\"cpus\":2}"},
        {"memory-ranges", "application/vnd.cocoonstack.vm.memory", "memory of the guest"},
        {"overlay.qcow2", "application/vnd.cocoonstack.disk.qcow2", "QFI-overlay"},
        {"state.json", "application/vnd.cocoonstack.vm.state+json", "{\"state\":\"Paused\"}"},
    };
    char *config cc_cleanup(cc_free_p) = cc_xasprintf(
        "{\"schemaVersion\":\"v1\",\"snapshotId\":\"%s\",\"files\":{\"state.json\":{\"mode\":416}}}", snapshot_id);
    json_t *manifest cc_cleanup(cc_json_decref_p) = json_object();
    cc_json_set_int(manifest, "schemaVersion", 2);
    cc_json_set_text(manifest, "mediaType", "application/vnd.oci.image.manifest.v1+json");
    cc_json_set_text(manifest, "artifactType", "application/vnd.cocoonstack.snapshot.v1+json");
    cc_json_set_new(
        manifest, "config",
        descriptor_of(registry, repository, "application/vnd.cocoonstack.snapshot.config.v1+json", NULL, config));
    json_t *list = json_array();
    for (size_t i = 0; i < CC_ARRAY_LENGTH(layers); i++)
        cc_json_append_new(list, descriptor_of(registry, repository, layers[i][1], layers[i][0], layers[i][2]));
    cc_json_set_new(manifest, "layers", list);
    json_t *annotations = json_object();
    cc_json_set_text_nonempty(annotations, "cocoonstack.snapshot.baseimage", base_image ? base_image : "");
    cc_json_set_text_nonempty(annotations, "cocoonstack.snapshot.from-node", from_node ? from_node : "");
    cc_json_set_text(annotations, "org.opencontainers.image.created", "2026-09-01T08:30:00Z");
    cc_json_set_new(manifest, "annotations", annotations);
    char *text cc_cleanup(cc_free_p) = json_dumps(manifest, JSON_INDENT(2));
    cc_memory_registry_put_tag(registry, repository, tag, text);
}
