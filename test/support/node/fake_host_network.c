#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "support/node/fake_host_internal.h"

static struct fake_lease *find_lease(const struct fake_host *host, const char *mac) {
    for (struct fake_lease *lease = host->leases; lease; lease = lease->next)
        if (cc_text_equal_fold(lease->mac, mac))
            return lease;
    return NULL;
}

void fake_host_set_lease(struct fake_host *host, const char *mac, const char *ip) {
    struct fake_lease *lease = find_lease(host, mac);

    if (!lease) {
        lease = CC_NEW(struct fake_lease);
        snprintf(lease->mac, sizeof lease->mac, "%s", mac);
        lease->next = host->leases;
        host->leases = lease;
    }
    snprintf(lease->ip, sizeof lease->ip, "%s", ip ? ip : "");
}

const char *fake_host_lease(const struct fake_host *host, const char *mac) {
    const struct fake_lease *lease = find_lease(host, mac);

    return lease ? lease->ip : "";
}

void fake_host_set_auto_lease(struct fake_host *host, bool on) {
    host->auto_lease = on;
}
void fake_host_set_leases_broken(struct fake_host *host, bool broken) {
    host->leases_broken = broken;
}

void fake_host_close_port(struct fake_host *host, int port) {
    if (host->closed_port_count == CC_ARRAY_LENGTH(host->closed_ports))
        abort();
    host->closed_ports[host->closed_port_count++] = port;
}

void fake_host_set_neighbour(struct fake_host *host, const char *ip) {
    snprintf(host->neighbour, sizeof host->neighbour, "%s", ip);
}

void fake_host_on_answers(struct fake_host *host, bool (*answers)(void *ctx, const char *ip), void *ctx) {
    host->answers = answers;
    host->answers_ctx = ctx;
}

static int network_lease(void *ctx, const char *mac, struct cc_arena *arena, const char **ret_ip, struct cc_err *err) {
    struct fake_host *host = ctx;
    int rc = fake_call_now(host, "lease", err);

    if (rc == 0 && host->leases_broken)
        rc = cc_err_set(err, CC_PROTOCOL, "lease file leases.json: not a JSON array");
    if (rc == 0)
        *ret_ip = cc_arena_strdup(arena, fake_host_lease(host, mac));
    return rc;
}

static int network_release(void *ctx, const char *mac, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    char line[64];

    snprintf(line, sizeof line, "release %s", mac);
    int rc = fake_call_begin(host, &call, "release", line, err);
    if (rc == 0) {
        fake_host_set_lease(host, mac, NULL);
        rc = fake_call_end(host, &call, err);
    }
    return rc;
}

static bool answers(const struct fake_host *host, const char *ip) {
    if (host->neighbour[0] && cc_text_equal(host->neighbour, ip))
        return true;
    if (host->answers && host->answers(host->answers_ctx, ip))
        return true;
    for (const struct fake_vm *vm = host->vms; vm; vm = vm->next) {
        if (!vm->answers || !vk_vm_is_running(vm->record))
            continue;
        for (size_t i = 0; i < vm->record->nic_count; i++) {
            const struct vk_nic *nic = &vm->record->nics[i];

            if (cc_text_equal(nic->is_static ? nic->ip : fake_host_lease(host, nic->mac), ip))
                return true;
        }
    }
    return false;
}

static int network_ping(void *ctx, const char *ip, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "ping", NULL, err);

    /* Nobody answers: the probe learns that from its own deadline only. */
    if (rc == 0 && !answers(host, ip))
        rc = cc_event_wait(&host->never, err);
    return rc == 0 ? fake_call_end(host, &call, err) : rc;
}

static int network_tcp(void *ctx, const char *ip, int port, struct cc_err *err) {
    struct fake_host *host = ctx;
    struct fake_call call;
    int rc = fake_call_begin(host, &call, "tcp", NULL, err);

    if (rc == 0 && !answers(host, ip))
        rc = cc_event_wait(&host->never, err);
    for (size_t i = 0; rc == 0 && i < host->closed_port_count; i++)
        if (host->closed_ports[i] == port)
            rc = cc_err_set(err, CC_UNAVAILABLE, "connect %s:%d: Connection refused", ip, port);
    return rc == 0 ? fake_call_end(host, &call, err) : rc;
}

static int network_banner(void *ctx, const char *ip, int port, const char *start, struct cc_err *err) {
    struct fake_host *host = ctx;
    int rc = network_tcp(ctx, ip, port, err);

    if (rc == 0 && host->banner[0] && strncmp(host->banner, start, strlen(start)) != 0)
        rc = cc_err_set(err, CC_PROTOCOL, "banner of %s port %d does not start with %s", ip, port, start);
    return rc;
}

void fake_host_set_banner(struct fake_host *host, const char *text) {
    snprintf(host->banner, sizeof host->banner, "%s", text);
}

static const struct vk_network_ops network_ops = {
    .lease = network_lease,
    .release = network_release,
    .ping = network_ping,
    .tcp_connect = network_tcp,
    .tcp_banner = network_banner,
};

struct vk_network fake_host_network(struct fake_host *host) {
    return (struct vk_network){.ops = &network_ops, .ctx = host, .has_leases = true, .has_release = true};
}
