#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "oci/media_types.h"
#include "oci/snapshot_internal.h"

/* Layers by digest and files by name: foreign lists may be long, so that nothing here looks for anything twice. */
struct known {
    const char *text;
    const struct cc_descriptor *layer;
    UT_hash_handle hh;
};
struct planner {
    const struct cc_manifest *manifest;
    const struct cc_snapshot_config *config;
    struct cc_arena *arena;
    struct known *storage; /* two for each layer */
    size_t used;
    struct known *layers, *names;
    struct cc_pull_plan plan;
};

static void planner_done(struct planner *planner) {
    HASH_CLEAR(hh, planner->layers);
    HASH_CLEAR(hh, planner->names);
    free(planner->storage);
}

static const struct cc_descriptor *find_layer(const struct planner *planner, const char *digest) {
    struct known *known;
    HASH_FIND_STR(planner->layers, digest, known);
    return known ? known->layer : NULL;
}

static bool is_known_name(const struct planner *planner, const char *name) {
    struct known *known;
    HASH_FIND_STR(planner->names, name, known);
    return known != NULL;
}

static struct known *next_known(struct planner *planner, const char *text, const struct cc_descriptor *layer) {
    struct known *known = &planner->storage[planner->used++];
    *known = (struct known){.text = text, .layer = layer};
    return known;
}

static const char *title_of(const struct cc_descriptor *layer) {
    return cc_strmap_text(&layer->annotations, CC_ANNOTATION_TITLE);
}

/* --- layers ---------------------------------------------------------------------------------------------------------
 */

static int check_layer(const struct planner *planner, const struct cc_descriptor *layer, struct cc_err *err) {
    const char *title = title_of(layer);
    bool is_v2 = strcmp(planner->manifest->artifact_type, CC_TYPE_SNAPSHOT_V2) == 0;
    bool zstd;
    if (layer->size < 0)
        return cc_err_set(err, CC_PROTOCOL, "negative size");
    if (!cc_snapshot_media_type_is_known(layer->media_type, &zstd))
        return cc_err_set(err, CC_PROTOCOL, "unsupported mediaType \"%s\"", layer->media_type);
    if (!*title)
        return cc_err_set(err, CC_PROTOCOL, "no title");
    if (zstd && !is_v2)
        return cc_err_set(err, CC_PROTOCOL, "layer is compressed (v2), but manifest is not");
    const struct cc_snapshot_file *file = cc_snapshot_config_file(planner->config, title);
    if (file && file->chunks.count > 0 && !is_v2)
        return cc_err_set(err, CC_PROTOCOL, "file %s is chunked (v2), but manifest is not", title);
    if (!cc_snapshot_name_is_plain(title) || strcmp(title, CC_SNAPSHOT_ENVELOPE) == 0)
        return cc_err_set(err, CC_PROTOCOL, "title \"%.100s\" is no file name that a snapshot may have", title);
    if (!cc_digest_is_valid(layer->digest))
        return cc_err_set(err, CC_PROTOCOL, "digest \"%.80s\" is malformed", layer->digest);
    return 0;
}

static int check_layers(struct planner *planner, struct cc_err *err) {
    const struct cc_manifest *manifest = planner->manifest;
    if (manifest->layer_count > CC_PIECES_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %zu layers", CC_PIECES_MAX);
    planner->storage = (struct known *)cc_xcalloc(2 * manifest->layer_count + 1, sizeof *planner->storage);
    for (size_t i = 0; i < manifest->layer_count; i++) {
        const struct cc_descriptor *layer = &manifest->layers[i];
        int rc = check_layer(planner, layer, err);
        if (rc) {
            cc_err_wrap(err, "layer %zu", i);
            return rc;
        }
        if (find_layer(planner, layer->digest))
            continue;
        struct known *known = next_known(planner, layer->digest, layer);
        HASH_ADD_KEYPTR(hh, planner->layers, known->text, strlen(known->text), known);
    }
    return 0;
}

/* --- files ----------------------------------------------------------------------------------------------------------
 */

static int plan_pieces(struct planner *planner, const struct cc_descriptor *layer, const struct cc_snapshot_file *file,
                       struct cc_pull_file *ret, struct cc_err *err) {
    size_t count = file && file->chunks.count > 0 ? file->chunks.count : 1;
    if (count > CC_PIECES_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %zu chunks", CC_PIECES_MAX);
    struct cc_pull_piece *pieces = CC_ARENA_ARRAY(planner->arena, struct cc_pull_piece, count);
    pieces[0] = (struct cc_pull_piece){layer->digest, layer->size};
    for (size_t i = 0; file && i < file->chunks.count; i++) {
        /* By digest alone: a piece that several files have may bear another one's title. */
        const struct cc_descriptor *piece = find_layer(planner, file->chunks.items[i]);
        if (!piece)
            return cc_err_set(err, CC_PROTOCOL, "chunk %.80s is missing from manifest layers", file->chunks.items[i]);
        pieces[i] = (struct cc_pull_piece){piece->digest, piece->size};
    }
    ret->pieces = pieces;
    ret->piece_count = count;
    return 0;
}

/* What the stored pieces of a file that is not compressed add up to must be its size. */
static int check_sum(const struct cc_pull_file *file, struct cc_err *err) {
    int64_t sum = 0;
    for (size_t i = 0; i < file->piece_count; i++)
        if (__builtin_add_overflow(sum, file->pieces[i].size, &sum))
            return cc_err_set(err, CC_PROTOCOL, "its chunks are larger than a file can be");
    if (sum != file->size)
        return cc_err_set(err, CC_PROTOCOL, "reconstructed to %" PRId64 " bytes, want %" PRId64, sum, file->size);
    return 0;
}

static void note_sizes(struct planner *planner, const struct cc_pull_file *file) {
    struct cc_pull_plan *plan = &planner->plan;
    int64_t stored = 0;
    for (size_t i = 0; i < file->piece_count; i++)
        stored = file->pieces[i].size > stored ? file->pieces[i].size : stored;
    int64_t out = file->is_compressed ? cc_decoded_piece_bytes(file->size, file->piece_count) : stored;
    if (file->is_compressed && stored > plan->in_bytes)
        plan->in_bytes = stored;
    if (out > plan->out_bytes)
        plan->out_bytes = out;
}

static int plan_file(struct planner *planner, const struct cc_descriptor *layer, struct cc_err *err) {
    const char *title = title_of(layer);
    const struct cc_snapshot_file *file = cc_snapshot_config_file(planner->config, title);
    struct cc_pull_file planned = {
        .name = title,
        .mode = file && file->mode ? file->mode : CC_SNAPSHOT_MODE_DEFAULT,
        .sparse_map = file ? file->sparse_map : NULL,
        .sparse_size = file ? file->sparse_size : 0,
        .size = layer->size,
    };
    cc_snapshot_media_type_is_known(layer->media_type, &planned.is_compressed);
    bool is_encoded = planned.is_compressed || (file && file->chunks.count > 0);
    if (is_known_name(planner, title)) {
        if (is_encoded)
            return 0; /* a later piece of it */
        /* The importer would let the second one replace the first. */
        return cc_err_set(err, CC_PROTOCOL, "title twice");
    }
    if (planner->plan.file_count == CC_SNAPSHOT_FILES_MAX)
        return cc_err_set(err, CC_LIMIT, "more than %d files", CC_SNAPSHOT_FILES_MAX);
    if (is_encoded && (!file || file->size <= 0))
        return cc_err_set(err, CC_PROTOCOL, "missing files[].size");
    int rc = plan_pieces(planner, layer, file, &planned, err);
    if (rc == 0 && is_encoded) {
        planned.size = file->size;
        rc = planned.is_compressed ? 0 : check_sum(&planned, err);
        note_sizes(planner, &planned);
    }
    if (rc)
        return rc;
    struct known *known = next_known(planner, title, layer);
    HASH_ADD_KEYPTR(hh, planner->names, known->text, strlen(known->text), known);
    planner->plan.files[planner->plan.file_count++] = planned;
    return 0;
}

int cc_pull_plan_make(const struct cc_manifest *manifest, const struct cc_snapshot_config *config,
                      struct cc_arena *arena, struct cc_pull_plan *ret, struct cc_err *err) {
    struct planner planner cc_cleanup(planner_done) = {.manifest = manifest, .config = config, .arena = arena};
    int rc = check_layers(&planner, err);
    if (rc)
        return rc;
    size_t room = manifest->layer_count < CC_SNAPSHOT_FILES_MAX ? manifest->layer_count : CC_SNAPSHOT_FILES_MAX;
    planner.plan.files = CC_ARENA_ARRAY(arena, struct cc_pull_file, room + 1);
    for (size_t i = 0; i < manifest->layer_count; i++) {
        rc = plan_file(&planner, &manifest->layers[i], err);
        if (rc) {
            cc_err_wrap(err, "layer %zu, file %.100s", i, title_of(&manifest->layers[i]));
            return rc;
        }
    }
    *ret = planner.plan;
    return 0;
}
