/* The registry port of one daemon. */
#include <stdio.h>
#include <string.h>

#include "base/strmap.h"
#include "oci/reference.h"
#include "sim.h"

struct sim_call {
    struct sim_passage passage;
    struct cc_registry server;
};

static int refuse(const struct sim_passage *passage, struct cc_err *err) {
    struct sim_world *world = passage->daemon->world;
    int rc;

    switch ((int)passage->fault) {
    case SIM_REGISTRY_BROKEN:
        rc = cc_err_set(err, CC_UNAVAILABLE, "registry: 500 internal error");
        if (err)
            err->status = 500;
        return rc;
    case SIM_REGISTRY_DENIED:
        rc = cc_err_set(err, CC_DENIED, "registry: %s", sim_random_below(&world->faults_random, 2) ? "401" : "403");
        if (err)
            err->status = 401;
        return rc;
    default:
        return cc_err_set(err, CC_UNAVAILABLE, "registry: connection refused");
    }
}

/* The adapter bounds each call, so this does too. Opens the caller's scope; the caller ends it with `leave`. */
static int enter(struct sim_daemon *daemon, bool writes, const char *verb, const char *repository,
                 const char *reference, struct sim_call *ret, struct cc_err *err) {
    char what[192];

    snprintf(what, sizeof what, "registry %s %s%s%s", verb, repository, reference ? ":" : "",
             reference ? reference : "");
    ret->server = cc_memory_registry_port(daemon->world->store);
    int rc = sim_port_enter(daemon, SIM_PORT_REGISTRY, writes, what, &ret->passage, err);
    if (rc == 0 && ret->passage.way == SIM_WAY_REFUSED)
        rc = refuse(&ret->passage, err);
    return rc == 0 && !writes && daemon->slow_registry_ms > 0 ? cc_sleep_ms(daemon->slow_registry_ms, err) : rc;
}

static int leave(struct sim_call *call, int rc, struct cc_err *err) {
    rc = sim_port_leave(&call->passage, rc, err);
    if (rc == 0 && call->passage.way == SIM_WAY_LOST)
        rc = cc_err_set(err, call->passage.writes ? CC_OUTCOME_UNKNOWN : CC_UNAVAILABLE, "registry: answer lost");
    return rc;
}

/* Whether the last answer about a tag said something. */
static void note_tag(struct sim_daemon *daemon, const char *repository, const char *reference, int rc) {
    char tag[160];

    if (strchr(reference, ':') || rc == CC_CANCELED)
        return;
    snprintf(tag, sizeof tag, "%s:%s", repository, reference);
    if (rc == 0 || rc == CC_NOT_FOUND)
        sim_doubt_settle(daemon, "tag", tag);
    else
        sim_doubt_open(daemon, "tag", tag);
}

static int has_manifest(void *ctx, const char *repository, const char *reference, bool *ret_present, char *ret_digest,
                        int64_t *ret_bytes, struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = enter(daemon, false, "HEAD", repository, reference, &call, err);

    if (rc == 0) {
        rc = call.server.ops->has_manifest(call.server.ctx, repository, reference, ret_present, ret_digest, ret_bytes,
                                           err);
        rc = leave(&call, rc, err);
    }
    note_tag(daemon, repository, reference, rc);
    return rc;
}

static int get_manifest(void *ctx, const char *repository, const char *reference, struct cc_manifest_bytes *ret,
                        struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct cc_manifest_bytes manifest = {0};
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = enter(daemon, false, "GET", repository, reference, &call, err);

    if (rc == 0) {
        rc = call.server.ops->get_manifest(call.server.ctx, repository, reference, &manifest, err);
        int seen = leave(&call, rc, err);
        if (rc == 0 && seen != 0)
            cc_manifest_bytes_done(&manifest);
        else if (rc == 0)
            *ret = manifest;
        rc = seen;
    }
    note_tag(daemon, repository, reference, rc);
    return rc;
}

/* Drawn, or ordered by a story. */
static bool forgets(struct sim_world *world) {
    if (world->forgotten_tags == 0)
        return sim_fault_hits(world, SIM_REGISTRY_FORGETS, true);
    world->forgotten_tags--;
    return true;
}

static int put_manifest(void *ctx, const char *repository, const char *reference, const char *media_type,
                        const void *bytes, size_t count, struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = enter(daemon, true, "PUT", repository, reference, &call, err);

    if (rc != 0)
        return rc;
    /* A tombstone that replaces a snapshot is the deletion of its tag. */
    if (strstr(bytes, "vnd.cocoonstack.tombstone"))
        sim_check_tag_delete(daemon, repository, reference);
    else if (strcmp(reference, CC_TAG_HIBERNATE) == 0 && forgets(daemon->world))
        return leave(&call, 0, err);
    rc = call.server.ops->put_manifest(call.server.ctx, repository, reference, media_type, bytes, count, err);
    return leave(&call, rc, err);
}

static int delete_manifest(void *ctx, const char *repository, const char *reference, struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = enter(daemon, true, "DELETE", repository, reference, &call, err);

    if (rc != 0)
        return rc;
    sim_check_tag_delete(daemon, repository, reference);
    rc = call.server.ops->delete_manifest(call.server.ctx, repository, reference, err);
    return leave(&call, rc, err);
}

static int list_tags(void *ctx, const char *repository, struct cc_arena *arena, struct cc_strlist *ret,
                     struct cc_err *err) {
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = enter(ctx, false, "TAGS", repository, NULL, &call, err);

    if (rc != 0)
        return rc;
    rc = call.server.ops->list_tags(call.server.ctx, repository, arena, ret, err);
    return leave(&call, rc, err);
}

static int has_blob(void *ctx, const char *repository, const char *digest, bool *ret_present, struct cc_err *err) {
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_CALL_MS);
    int rc = enter(ctx, false, "HEAD blob", repository, NULL, &call, err);

    if (rc != 0)
        return rc;
    rc = call.server.ops->has_blob(call.server.ctx, repository, digest, ret_present, err);
    return leave(&call, rc, err);
}

static int put_blob(void *ctx, const char *repository, const char *digest, int64_t size, const struct cc_reader *body,
                    int (*rewind)(void *ctx), bool force, struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_STALL_MS);
    int rc = enter(daemon, true, "PUT blob", repository, NULL, &call, err);

    if (rc != 0)
        return rc;
    if (daemon->is_unpushed)
        return leave(&call, cc_err_set(err, CC_UNAVAILABLE, "registry: 503 service unavailable"), err);
    if (sim_fault_hits(daemon->world, SIM_REGISTRY_CUT_PUSH, true)) {
        char some[64];
        size_t count = 0;
        cc_ignore(body->read(body->ctx, some, sizeof some, &count, NULL), "the connection breaks anyway");
        return leave(&call, cc_err_set(err, CC_UNAVAILABLE, "registry: connection reset in the body"), err);
    }
    rc = call.server.ops->put_blob(call.server.ctx, repository, digest, size, body, rewind, force, err);
    return leave(&call, rc, err);
}

static int get_blob(void *ctx, const char *repository, const char *digest, int64_t size, const struct cc_writer *sink,
                    struct cc_err *err) {
    struct sim_call call;
    CC_DEADLINE_MS(CC_REGISTRY_STALL_MS);
    int rc = enter(ctx, false, "GET blob", repository, NULL, &call, err);

    if (rc != 0)
        return rc;
    rc = call.server.ops->get_blob(call.server.ctx, repository, digest, size, sink, err);
    return leave(&call, rc, err);
}

void sim_registry_port(struct sim_daemon *daemon) {
    static const struct cc_registry_ops ops = {
        .has_manifest = has_manifest,
        .get_manifest = get_manifest,
        .put_manifest = put_manifest,
        .delete_manifest = delete_manifest,
        .list_tags = list_tags,
        .has_blob = has_blob,
        .put_blob = put_blob,
        .get_blob = get_blob,
    };
    daemon->registry = (struct cc_registry){&ops, daemon};
}
