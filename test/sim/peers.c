/* The port to other nodes: what one host has of a snapshot appears in a directory of another. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "sim.h"
#include "snapshots/peers.h"

#define URL_PREFIX "sim://"
#define FETCH_MS 60000 /* the real one gives up when nothing moves for 30 s */
#define SLOW_MAX_MS 5000

static struct sim_daemon *find_peer(struct sim_world *world, const char *name) {
    for (size_t i = 0; i < world->node_count; i++)
        if (cc_text_equal(world->nodes[i].name, name))
            return &world->nodes[i];
    return NULL;
}

static CC_NO_YIELD int locate(void *ctx, const char *node_name, struct cc_arena *arena, const char **ret_url,
                              struct cc_err *err) {
    struct sim_daemon *daemon = ctx;

    if (!find_peer(daemon->world, node_name))
        return cc_err_set(err, CC_NOT_FOUND, "there is no cocoon node %.64s", node_name);
    *ret_url = cc_arena_printf(arena, URL_PREFIX "%s", node_name);
    return 0;
}

/* What the peer answers now; it may have died, or lost the snapshot, since it was asked. */
static int copy(struct sim_daemon *daemon, const char *url, const char *vm_name, const char *id, struct cc_arena *arena,
                const char **ret_directory, struct cc_err *err) {
    struct sim_world *world = daemon->world;
    struct sim_daemon *peer = find_peer(world, url + strlen(URL_PREFIX));

    if (!peer || !peer->is_running || peer->is_dead || peer->is_cut_off || daemon->is_cut_off)
        return cc_err_set(err, CC_UNAVAILABLE, "connection refused");
    struct fake_host *host = world->hosts[peer->index];
    if (!fake_host_has_snapshot(host, vm_name))
        return cc_err_set(err, CC_UNAVAILABLE, "the peer answered 404");
    if (!cc_text_equal(fake_host_snapshot_id(host, vm_name), id))
        return cc_err_set(err, CC_CONFLICT, "peer has snapshot %s, registry says %s",
                          fake_host_snapshot_id(host, vm_name), id);
    *ret_directory =
        cc_arena_printf(arena, "/sim/%s/%s-%016llx", daemon->name, vm_name, (unsigned long long)cc_random());
    fake_host_add_directory(world->hosts[daemon->index], *ret_directory, fake_host_snapshot_memory(host, vm_name));
    return 0;
}

static int fetch(void *ctx, const char *url, const char *vm_name, const struct cc_snapshot_config *config,
                 const char *staging_root, struct cc_arena *arena, const char **ret_directory, struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct sim_passage passage;
    char what[192];
    CC_DEADLINE_MS(FETCH_MS);

    (void)staging_root;
    snprintf(what, sizeof what, "peer fetch %s from %s", vm_name, url);
    int rc = sim_port_enter(daemon, SIM_PORT_HOST, false, what, &passage, err);
    if (rc != 0)
        return rc;
    if (passage.way == SIM_WAY_REFUSED)
        return cc_err_set(err, CC_PROTOCOL, "checksum mismatch");
    rc = cc_sleep_ms((int64_t)sim_random_below(&daemon->world->latency_random, SLOW_MAX_MS), err);
    if (rc == 0)
        rc = copy(daemon, url, vm_name, config->snapshot_id, arena, ret_directory, err);
    rc = sim_port_leave(&passage, rc, err);
    return rc == 0 && passage.way == SIM_WAY_LOST ? cc_err_set(err, CC_UNAVAILABLE, "connection reset") : rc;
}

struct vk_peer_port sim_peer_port(struct sim_daemon *daemon) {
    return (struct vk_peer_port){.locate = locate, .fetch = fetch, .ctx = daemon};
}
