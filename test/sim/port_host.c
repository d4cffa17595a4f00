/* The host's ports of one node agent: cocoon CLI and network. Most of it is the simulated host itself, which asks
 * `decide` before each call; the calls that judge and destroy are watched as well. */
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "support/node/fake_host_internal.h"

#define HANG_MIN_MS 20000
#define HANG_MAX_MS 240000
#define SLOW_MAX_MS 20000

/* Only here does a call find its daemon: the host's own operations take the host as their context. */
static struct sim_daemon *daemon_of(void *ctx) {
    return ((struct fake_host *)ctx)->decide_ctx;
}

static bool is_verb(const char *verb, const char *wanted) {
    return strcmp(verb, wanted) == 0;
}

static bool changes_host(const char *verb) {
    static const char *const verbs[] = {
        "vm clone",      "vm run",      "vm start",        "vm rm",      "vm net",  "vm reconcile-stale-create",
        "snapshot save", "snapshot rm", "snapshot import", "image pull", "release", "image import"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(verbs); i++)
        if (is_verb(verb, verbs[i]))
            return true;
    return false;
}

static struct fake_fault failure(enum fake_fault_kind kind, int code, const char *message) {
    return (struct fake_fault){.kind = kind, .code = code, .message = message};
}

static struct fake_fault canceled(enum fake_fault_kind kind) {
    return failure(kind, CC_CANCELED, "the process has ended");
}

/* --- faults that leave something behind ----------------------------------------------------------------------------
 */

static const char *value_after(const char *line, const char *key, char *into, size_t bytes) {
    const char *at = strstr(line, key);
    size_t length = at ? strcspn(at + strlen(key), " ") : 0;

    snprintf(into, bytes, "%.*s", (int)length, at ? at + strlen(key) : "");
    return into;
}

/* The guest is stopped, its record still there. */
static void half_remove(struct sim_world *world, size_t index, const char *line) {
    const char *name = line + strlen("vm rm ");

    if (!fake_host_has_vm(world->hosts[index], name))
        return;
    fake_host_set_vm_memory(world->hosts[index], name, 0);
    fake_host_set_vm_state(world->hosts[index], name, "stopped", true);
}

static void half_create(struct sim_world *world, size_t index, const char *line) {
    char name[128];

    value_after(line, "name=", name, sizeof name);
    if (!fake_host_has_vm(world->hosts[index], name))
        fake_host_add_vm(world->hosts[index], &(struct fake_vm_spec){.name = name, .state = "creating"});
}

static bool needs_disk(const char *verb) {
    return is_verb(verb, "snapshot save") || is_verb(verb, "snapshot import") || is_verb(verb, "vm clone") ||
           is_verb(verb, "vm run") || is_verb(verb, "image pull");
}

static bool is_cut(struct sim_world *world, const char *verb) {
    return (is_verb(verb, "snapshot export") || is_verb(verb, "snapshot import")) &&
           sim_fault_hits(world, SIM_CLI_CUT, true);
}

/* Calls of which something is left when their process dies with the daemon. */
static bool can_stop_half(const char *verb) {
    return is_verb(verb, "vm rm") || is_verb(verb, "vm run") || is_verb(verb, "vm clone") ||
           is_verb(verb, "snapshot import");
}

static void leave_half(struct sim_daemon *daemon, const char *verb, const char *line) {
    if (is_verb(verb, "vm rm"))
        half_remove(daemon->world, daemon->index, line);
    else if (is_verb(verb, "vm run") || is_verb(verb, "vm clone"))
        half_create(daemon->world, daemon->index, line);
}

static void note_half_call(struct sim_world *world, const char *verb) {
    struct sim_result *result = world->result;

    if (can_stop_half(verb) && result->half_call_count < SIM_HALF_CALLS_MAX)
        result->half_calls[result->half_call_count++] = (uint32_t)world->calls;
}

/* Of the faults that a story has ordered. */
static bool take_one(unsigned *left) {
    if (*left == 0)
        return false;
    --*left;
    return true;
}

static struct fake_fault half_done(struct sim_daemon *daemon, const char *verb, const char *line) {
    struct sim_world *world = daemon->world;

    if (is_verb(verb, "vm rm") &&
        (take_one(&world->half_removes) || sim_fault_hits(world, SIM_CLI_HALF_REMOVE, true))) {
        half_remove(world, daemon->index, line);
        return failure(FAKE_FAIL, CC_IO, "exit status 1 (output: Error: remove: device busy)");
    }
    if ((is_verb(verb, "vm run") || is_verb(verb, "vm clone")) && sim_fault_hits(world, SIM_CLI_HALF_CREATE, true)) {
        half_create(world, daemon->index, line);
        return failure(FAKE_FAIL, CC_IO, "exit status 1 (output: Error: create: interrupted)");
    }
    if ((is_verb(verb, "vm rm") || is_verb(verb, "snapshot save")) && sim_fault_hits(world, SIM_CLI_PRETENDS, true))
        return failure(FAKE_SKIP, 0, NULL);
    if (is_cut(world, verb))
        return failure(FAKE_CUT, CC_IO, "signal: killed");
    if (needs_disk(verb) && sim_clock_ms(&world->clock) < world->disk_full_until_ms[daemon->index])
        return failure(FAKE_FAIL, CC_IO, "exit status 1 (output: Error: no space left on device)");
    return (struct fake_fault){.kind = FAKE_OK};
}

/* --- every call -----------------------------------------------------------------------------------------------------
 */

static struct fake_fault of_way(struct sim_passage *passage, const char *verb, const char *line) {
    struct sim_daemon *daemon = passage->daemon;
    struct sim_world *world = daemon->world;
    struct fake_fault fault = failure(FAKE_OK, CC_IO, "exit status 1 (output: Error: injected)");

    switch (passage->way) {
    case SIM_WAY_KILL_BEFORE:
        sim_daemon_kill(daemon, "before a call");
        return canceled(FAKE_FAIL);
    case SIM_WAY_KILL_AFTER:
        sim_daemon_kill(daemon, "after a call");
        return canceled(FAKE_FAIL_AFTER);
    case SIM_WAY_REFUSED:
        fault.kind = FAKE_FAIL;
        return fault;
    case SIM_WAY_LOST:
        fault.kind = passage->fault == SIM_CLI_HANGS_AFTER ? FAKE_HANG_AFTER : FAKE_FAIL_AFTER;
        break;
    case SIM_WAY_HANG:
        fault.kind = FAKE_HANG;
        break;
    case SIM_WAY_HALF:
        leave_half(daemon, verb, line);
        sim_daemon_kill(daemon, "amid a call");
        return canceled(is_verb(verb, "snapshot import") ? FAKE_CUT : FAKE_FAIL);
    case SIM_WAY_DONE:
    case SIM_WAY_COUNT:
        fault = half_done(daemon, verb, line);
        break;
    }
    if (fault.kind == FAKE_HANG || fault.kind == FAKE_HANG_AFTER)
        fault.delay_ms = sim_random_between(&world->latency_random, HANG_MIN_MS, HANG_MAX_MS);
    else if (fault.kind == FAKE_OK && world->latency_max_ms > 0)
        fault = (struct fake_fault){.kind = FAKE_DELAY,
                                    .delay_ms = sim_random_between(&world->latency_random, 0, world->latency_max_ms)};
    return fault;
}

static struct fake_fault decide(void *ctx, const char *verb, const char *line) {
    struct sim_daemon *daemon = ctx;
    struct sim_passage passage;

    if (daemon->is_dead)
        return canceled(FAKE_FAIL);
    if (is_verb(verb, "release"))
        sim_check_lease_release(daemon, line + strlen("release "));
    if (is_verb(verb, "snapshot rm"))
        sim_check_snapshot_remove(daemon, line + strlen("snapshot rm "));
    /* Looks that change nothing and decide nothing: no place to die at. */
    if (is_verb(verb, "lease") || is_verb(verb, "ping") || is_verb(verb, "tcp") || is_verb(verb, "vm status"))
        return (struct fake_fault){.kind = FAKE_OK};
    sim_port_decide(daemon, SIM_PORT_HOST, changes_host(verb), line, &passage);
    note_half_call(daemon->world, verb);
    return of_way(&passage, verb, line);
}

/* --- calls that are watched ------------------------------------------------------------------------------------------
 */

static const struct vk_runtime_ops *host_ops(void *ctx) {
    return fake_host_runtime(ctx).ops;
}

static int after_call(struct sim_daemon *daemon, int rc, struct cc_err *err) {
    sim_ledger_observe(daemon->world);
    return daemon->is_dead ? sim_port_canceled(err) : rc;
}

/* The output was made a while ago. */
static int get_stale(struct sim_daemon *daemon, int rc, struct cc_err *err) {
    struct sim_world *world = daemon->world;

    if (rc == 0 && sim_fault_hits(world, SIM_CLI_SLOW, false))
        rc = cc_sleep_ms(sim_random_between(&world->faults_random, 100, SLOW_MAX_MS), err);
    return after_call(daemon, rc, err);
}

static int vm_list(void *ctx, struct vk_vm_list *ret, struct cc_err *err) {
    struct sim_daemon *daemon = daemon_of(ctx);
    struct vk_vm_list list = {0};
    int rc = host_ops(ctx)->list(ctx, &list, err);

    rc = get_stale(daemon, rc, err);
    if (rc != 0)
        vk_vm_list_done(&list);
    else
        *ret = list;
    return rc;
}

/* Ids and names of one VM are one thing. */
static const char *vm_of(void *ctx, const char *id_or_name, char *into, size_t bytes) {
    const struct sim_daemon *daemon = daemon_of(ctx);
    const char *name = fake_vm_shown(ctx, id_or_name);

    for (const struct sim_vm *vm = daemon->world->vms; vm; vm = vm->next)
        if (strcmp(vm->last_ids[daemon->index], id_or_name) == 0)
            name = vm->name;
    snprintf(into, bytes, "%s", name);
    return into;
}

static int vm_inspect(void *ctx, const char *id_or_name, const struct vk_vm **ret, struct cc_err *err) {
    struct sim_daemon *daemon = daemon_of(ctx);
    const struct vk_vm *vm = NULL;
    char name[128];

    vm_of(ctx, id_or_name, name, sizeof name);
    int rc = host_ops(ctx)->inspect(ctx, id_or_name, &vm, err);
    rc = get_stale(daemon, rc, err);
    if (rc == 0 || rc == CC_NOT_FOUND)
        sim_doubt_settle(daemon, "vm", name);
    else if (rc != CC_CANCELED)
        sim_doubt_open(daemon, "vm", name);
    if (rc != 0)
        vk_vm_unref(vm);
    else
        *ret = vm;
    return rc;
}

static int vm_remove(void *ctx, const char *id, struct cc_err *err) {
    struct sim_daemon *daemon = daemon_of(ctx);
    char name[128];

    vm_of(ctx, id, name, sizeof name);
    if (!daemon->is_dead)
        sim_check_vm_remove(daemon, name);
    int rc = host_ops(ctx)->remove(ctx, id, err);
    /* It was spared: nobody knows for how long, and it works on meanwhile. */
    struct sim_vm *vm = sim_ledger_vm(daemon->world, name);
    if (vm && fake_host_has_vm(ctx, name))
        vm->is_quiesced = false;
    return after_call(daemon, rc, err);
}

static int vm_clone(void *ctx, const struct vk_clone_options *options, const struct vk_vm **ret, struct cc_err *err) {
    const struct vk_vm *vm = NULL;
    if (!daemon_of(ctx)->is_dead && options->snapshot)
        sim_check_fork(daemon_of(ctx), options->name, options->snapshot);
    int rc = after_call(daemon_of(ctx), host_ops(ctx)->clone(ctx, options, &vm, err), err);

    if (rc == 0)
        *ret = vm;
    else
        vk_vm_unref(vm);
    return rc;
}

static int vm_run(void *ctx, const struct vk_run_options *options, const struct vk_vm **ret, struct cc_err *err) {
    const struct vk_vm *vm = NULL;
    int rc = after_call(daemon_of(ctx), host_ops(ctx)->run(ctx, options, &vm, err), err);

    if (rc == 0)
        *ret = vm;
    else
        vk_vm_unref(vm);
    return rc;
}

static int vm_reclaim(void *ctx, const char *id, enum vk_reclaim_outcome *ret, struct cc_err *err) {
    return after_call(daemon_of(ctx), host_ops(ctx)->reclaim_stale_create(ctx, id, ret, err), err);
}

static int snapshot_save(void *ctx, const char *snapshot, const char *vm_id, struct cc_err *err) {
    struct sim_daemon *daemon = daemon_of(ctx);
    struct sim_vm *vm = sim_ledger_vm(daemon->world, snapshot);

    /* Until the daemon says that the VM is ready again, nobody works in it: what is saved now is the newest. */
    if (vm && !daemon->is_dead)
        vm->is_quiesced = true;
    char name[128];
    vm_of(ctx, vm_id, name, sizeof name);
    int rc = host_ops(ctx)->snapshot_save(ctx, snapshot, vm_id, err);
    if (rc == 0) /* it is there, and runs */
        sim_doubt_settle(daemon, "vm", name);
    return after_call(daemon, rc, err);
}

static int transfer_finish(void *ctx, struct vk_transfer *transfer, struct cc_err *err) {
    return after_call(daemon_of(ctx), host_ops(ctx)->transfer_finish(ctx, transfer, err), err);
}

void sim_host_port(struct sim_daemon *daemon) {
    struct fake_host *host = daemon->world->hosts[daemon->index];

    daemon->runtime = fake_host_runtime(host);
    daemon->runtime_ops = *daemon->runtime.ops;
    daemon->runtime_ops.list = vm_list;
    daemon->runtime_ops.inspect = vm_inspect;
    daemon->runtime_ops.remove = vm_remove;
    daemon->runtime_ops.clone = vm_clone;
    daemon->runtime_ops.run = vm_run;
    daemon->runtime_ops.reclaim_stale_create = vm_reclaim;
    daemon->runtime_ops.snapshot_save = snapshot_save;
    daemon->runtime_ops.transfer_finish = transfer_finish;
    daemon->runtime.ops = &daemon->runtime_ops;
    daemon->network = fake_host_network(host);
    fake_host_on_call(host, decide, daemon);
}
