#include "support/node/provider_bench.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "obs/log.h"
#include "support/fiber_test.h"
#include "support/observed.h"

/* --- the crash plan: every call that leaves the process passes here ----------------------------------------------- */

enum passage { PASS, PASS_THEN_DIE, DEAD };

static enum passage pass(struct provider_bench *bench) {
    size_t vms = fake_host_vm_count(bench->host);

    if (vms > bench->most_vms)
        bench->most_vms = vms;
    if (bench->is_dead)
        return DEAD;
    if (++bench->calls != bench->die_at)
        return PASS;
    bench->is_dead = true;
    cc_fiber_cancel(bench->victim);
    return bench->die_after ? PASS_THEN_DIE : DEAD;
}

static struct fake_fault on_host_call(void *ctx, const char *verb, const char *line) {
    struct provider_bench *bench = ctx;

    bool was_alive = !bench->is_dead;
    enum passage passage;

    /* A lease look-up or a ping changes nothing: no place to die at. */
    if (strcmp(verb, "lease") == 0 || strcmp(verb, "ping") == 0 || strcmp(verb, "tcp") == 0 ||
        strcmp(verb, "vm status") == 0)
        return (struct fake_fault){.kind = bench->is_dead ? FAKE_FAIL : FAKE_OK, .code = CC_CANCELED};
    passage = pass(bench);
    if (passage == DEAD && was_alive && bench->half_remove && strncmp(line, "vm rm ", 6) == 0) {
        fake_host_set_vm_memory(bench->host, line + 6, 0);
        fake_host_set_vm_state(bench->host, line + 6, "stopped", false);
    }
    switch (passage) {
    case PASS:
        return (struct fake_fault){.kind = FAKE_OK};
    case PASS_THEN_DIE:
        return (struct fake_fault){.kind = FAKE_FAIL_AFTER, .code = CC_CANCELED, .message = "crash"};
    case DEAD:
        return (struct fake_fault){.kind = FAKE_FAIL, .code = CC_CANCELED, .message = "crash"};
    }
    return (struct fake_fault){.kind = FAKE_OK};
}

static int on_registry_call(void *ctx, enum cc_registry_op op, const char *repository, const char *reference,
                            struct cc_err *err) {
    struct provider_bench *bench = ctx;

    (void)repository;
    (void)reference;
    /* Tag commits are counted where they can also die after their effect. */
    if (op == CC_REGISTRY_PUT_MANIFEST || op == CC_REGISTRY_DELETE_MANIFEST)
        return 0;
    return pass(bench) == PASS ? 0 : cc_err_set(err, CC_CANCELED, "crash");
}

static struct provider_bench *only; /* the registry's ops get its own context */

static int put_manifest(void *ctx, const char *repository, const char *reference, const char *media_type,
                        const void *bytes, size_t count, struct cc_err *err) {
    enum passage passage = pass(only);

    if (passage == DEAD)
        return cc_err_set(err, CC_CANCELED, "crash");
    int rc = only->inner_registry_ops->put_manifest(ctx, repository, reference, media_type, bytes, count, err);

    return passage == PASS ? rc : cc_err_set(err, CC_CANCELED, "crash");
}

static int delete_manifest(void *ctx, const char *repository, const char *reference, struct cc_err *err) {
    enum passage passage = pass(only);

    if (passage == DEAD)
        return cc_err_set(err, CC_CANCELED, "crash");
    int rc = only->inner_registry_ops->delete_manifest(ctx, repository, reference, err);

    return passage == PASS ? rc : cc_err_set(err, CC_CANCELED, "crash");
}

static int open_exchange(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                         struct cc_err *err) {
    struct provider_bench *bench = ctx;
    /* Events are told, not relied on. */
    enum passage passage = strstr(exchange->path, "/events") && !bench->is_dead ? PASS : pass(bench);

    if (passage == DEAD)
        return cc_err_set(err, CC_CANCELED, "crash");
    int rc = bench->inner_transport.ops->open(bench->inner_transport.ctx, exchange, ret, err);

    if (passage == PASS || rc != 0)
        return rc;
    bench->inner_transport.ops->close(bench->inner_transport.ctx, ret->stream);
    return cc_err_set(err, CC_CANCELED, "crash");
}

static int read_exchange(void *ctx, void *stream, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct provider_bench *bench = ctx;

    return bench->inner_transport.ops->read(bench->inner_transport.ctx, stream, bytes, capacity, ret_count, err);
}

static void close_exchange(void *ctx, void *stream) {
    struct provider_bench *bench = ctx;

    bench->inner_transport.ops->close(bench->inner_transport.ctx, stream);
}

static const struct cc_kube_transport_ops transport_ops = {open_exchange, read_exchange, close_exchange};

/* --- the daemon --------------------------------------------------------------------------------------------------- */

static void on_event(void *ctx, const struct cc_event_object *object, enum cc_event_type type, const char *reason,
                     const char *message) {
    struct provider_bench *bench = ctx;

    (void)object;
    cc_observed_event("node", type, reason);
    cc_buf_printf(&bench->events, "%s %s: %s\n", type == CC_EVENT_WARNING ? "Warning" : "Normal", reason, message);
}

static int add_pod(void *ctx, const json_t *item, struct cc_err *err) {
    struct cc_object_list *list = ctx;
    struct cc_object *object = NULL;
    int rc = cc_pod_decode(item, &object, err);

    if (rc != 0)
        return rc;
    list->items = cc_xrealloc(list->items, (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = object;
    return 0;
}

static void list_pods(struct provider_bench *bench, struct cc_object_list *ret) {
    json_t *answer = NULL;
    json_t *item;
    size_t index;

    *ret = (struct cc_object_list){.items = cc_xcalloc(1, sizeof *ret->items)};
    ck_assert_int_eq(fake_kube_request(bench->server, "GET", "/api/v1/pods", NULL, NULL, &answer), 200);
    json_array_foreach (json_object_get(answer, "items"), index, item)
        ck_assert_int_eq(add_pod(ret, item, NULL), 0);
    json_decref(answer);
}

int provider_bench_start(struct provider_bench *bench, struct cc_err *err) {
    struct cc_object_list pods;
    struct vk_macos macos = {0};
    struct vk_console console = {0};
    int rc;

    if (bench->options.macos)
        macos = fake_macos_port(bench->macos, bench->options.vnc);
    if (bench->options.has_console)
        console = fake_console_port(&bench->console);
    bench->is_dead = false;
    bench->die_at = 0;
    bench->metrics = cc_metrics_new();
    bench->recorder = cc_event_recorder_new(bench->loop, &bench->kube, "vk-cocoon", "n1");
    cc_event_recorder_set_tap(bench->recorder, on_event, bench);
    rc = vk_snapshots_new(
        bench->loop,
        &(struct vk_snapshots_options){.runtime = fake_host_runtime(bench->host),
                                       .registry = bench->options.no_registry ? NULL : &bench->registry,
                                       .node_name = "n1",
                                       .spool_directory = bench->spool,
                                       .peers = bench->options.peers},
        &bench->snapshots, err);
    ck_assert_int_eq(rc, 0);
    bench->provider = vk_provider_new(bench->loop, &(struct vk_provider_options){
                                                       .kube = &bench->kube,
                                                       .runtime = fake_host_runtime(bench->host),
                                                       .network = fake_host_network(bench->host),
                                                       .macos = macos,
                                                       .console = console,
                                                       .snapshots = bench->snapshots,
                                                       .events = bench->recorder,
                                                       .metrics = bench->metrics,
                                                       .node_name = "n1",
                                                       .node_ip = "10.0.0.1",
                                                       .snapshot_cpu_class = bench->options.cpu_class,
                                                       .root_directory = bench->spool,
                                                       .orphan_policy = bench->options.orphan_policy,
                                                   });
    list_pods(bench, &pods);
    rc = vk_provider_startup(bench->provider, &pods, err);
    cc_object_list_done(&pods);
    if (rc == 0)
        vk_provider_start(bench->provider);
    return rc;
}

void provider_bench_stop(struct provider_bench *bench) {
    if (bench->metrics)
        cc_observed_metrics("node", bench->metrics);
    vk_provider_free(cc_take(bench->provider));
    vk_snapshots_free(cc_take(bench->snapshots));
    cc_event_recorder_free(cc_take(bench->recorder));
    cc_metrics_free(cc_take(bench->metrics));
}

void provider_bench_restart(struct provider_bench *bench) {
    struct cc_err err = {0};

    provider_bench_stop(bench);
    ck_assert_msg(provider_bench_start(bench, &err) == 0, "start: %s", err.msg);
}

struct bench_body {
    struct provider_bench *bench;
    void (*body)(struct provider_bench *bench);
};

static void run_body(void *argument) {
    struct bench_body *run = argument;
    struct provider_bench *bench = run->bench;
    struct cc_err err = {0};

    cc_log_set_level(CC_LOG_ERROR);
    cc_buf_init(&bench->events, 4 << 20);
    bench->host = fake_host_new(1);
    fake_host_on_call(bench->host, on_host_call, bench);
    bench->macos = fake_macos_new();
    fake_macos_on_call(bench->macos, on_host_call, bench);
    fake_console_init(&bench->console);
    bench->server = fake_kube_new(bench->loop);
    bench->inner_transport = fake_kube_transport(bench->server);
    bench->kube = (struct cc_kube){.transport = {&transport_ops, bench}};
    bench->store = cc_memory_registry_new();
    cc_memory_registry_set_hook(bench->store, on_registry_call, bench);
    bench->registry = cc_memory_registry_port(bench->store);
    bench->inner_registry_ops = bench->registry.ops;
    bench->registry_ops = *bench->registry.ops;
    bench->registry_ops.put_manifest = put_manifest;
    bench->registry_ops.delete_manifest = delete_manifest;
    bench->registry.ops = &bench->registry_ops;
    only = bench;
    snprintf(bench->spool, sizeof bench->spool, "/tmp/provider-bench-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(bench->spool));
    ck_assert_int_eq(provider_bench_start(bench, &err), 0);
    run->body(bench);
    if (bench->provider)
        provider_bench_stop(bench);
    rmdir(bench->spool);
    cc_memory_registry_free(bench->store);
    fake_kube_free(bench->server);
    fake_host_free(bench->host);
    fake_macos_free(bench->macos);
    fake_console_done(&bench->console);
    cc_buf_done(&bench->events);
}

void provider_bench_run(const struct provider_bench_options *options, void (*body)(struct provider_bench *bench)) {
    struct provider_bench bench = {0};

    if (options)
        bench.options = *options;
    bench.loop = cc_test_loop_seeded(bench.options.seed);
    cc_test_run_on(bench.loop, run_body, &(struct bench_body){&bench, body});
    cc_loop_free(bench.loop);
}

/* --- pods --------------------------------------------------------------------------------------------------------- */

const struct cc_pod *provider_bench_pod(struct provider_bench *bench, const char *name) {
    const json_t *json = fake_kube_get(bench->server, "pods", "ns", name);
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    if (!json)
        return NULL;
    ck_assert_msg(cc_pod_decode(json, &object, &err) == 0, "%s", err.msg);
    return cc_pod_of(object);
}

typedef int (*provider_call)(struct vk_provider *provider, const struct cc_pod *pod, struct cc_err *err);

static int call(struct provider_bench *bench, provider_call fn, const char *name, struct cc_err *err) {
    const struct cc_pod *pod = provider_bench_pod(bench, name);
    struct cc_err local = {0};

    ck_assert_ptr_nonnull(pod);
    vk_provider_observe(bench->provider, pod);
    int rc = fn(bench->provider, pod, err ? err : &local);

    cc_pod_unref(pod);
    return rc;
}

int provider_bench_create(struct provider_bench *bench, const char *name, struct cc_err *err) {
    return call(bench, vk_provider_create, name, err);
}

int provider_bench_update(struct provider_bench *bench, const char *name, struct cc_err *err) {
    return call(bench, vk_provider_update, name, err);
}

int provider_bench_delete(struct provider_bench *bench, const char *name, struct cc_err *err) {
    return call(bench, vk_provider_delete, name, err);
}

void provider_bench_make(struct provider_bench *bench, const char *name, const char *annotations) {
    struct cc_err err = {0};

    fake_kube_put_pod(bench->server, "ns", name, "n1", NULL, annotations);
    ck_assert_msg(provider_bench_create(bench, name, &err) == 0, "create: %s", err.msg);
}

void provider_bench_annotate(struct provider_bench *bench, const char *name, const char *change) {
    const char *equal = strchr(change, '=');
    char *key cc_cleanup(cc_free_p) = equal ? cc_xstrndup(change, (size_t)(equal - change)) : cc_xstrdup(change);
    char *patch cc_cleanup(cc_free_p) = equal ? cc_xasprintf("{'metadata':{'annotations':{'%s':'%s'}}}", key, equal + 1)
                                              : cc_xasprintf("{'metadata':{'annotations':{'%s':null}}}", key);

    ck_assert(fake_kube_touch(bench->server, "pods", "ns", name, patch));
}

int provider_bench_change(struct provider_bench *bench, const char *name, const char *change, struct cc_err *err) {
    provider_bench_annotate(bench, name, change);
    return provider_bench_update(bench, name, err);
}

void provider_bench_sleep(int64_t ms) {
    ck_assert_int_eq(cc_sleep_ms(ms, NULL), 0);
}

static void drive_one(struct provider_bench *bench, const struct cc_pod *pod) {
    const struct cc_object_meta *meta = &pod->base.meta;
    const struct cc_pod *known = vk_provider_get(bench->provider, meta->namespace, meta->name);
    bool is_over = cc_text_equal(pod->phase, "Failed") || cc_text_equal(pod->phase, "Succeeded");

    vk_provider_observe(bench->provider, pod);
    if (cc_object_is_deleting(meta)) {
        if (vk_provider_delete(bench->provider, pod, NULL) == 0)
            fake_kube_drop(bench->server, "pods", meta->namespace, meta->name);
    } else if (!known && !is_over) {
        cc_ignore(vk_provider_create(bench->provider, pod, NULL), "tried again in the next round");
    } else if (known && !is_over) {
        cc_ignore(vk_provider_update(bench->provider, pod, NULL), "tried again in the next round");
    }
    cc_pod_unref(known);
}

void provider_bench_drive(struct provider_bench *bench, int64_t ms) {
    for (int64_t passed = 0; passed < ms; passed += 1000) {
        struct cc_object_list pods;

        list_pods(bench, &pods);
        for (size_t i = 0; i < pods.count; i++)
            drive_one(bench, cc_pod_of(pods.items[i]));
        cc_object_list_done(&pods);
        provider_bench_sleep(1000);
    }
}

void provider_bench_drop_local(struct provider_bench *bench, const char *name) {
    struct vk_runtime runtime = fake_host_runtime(bench->host);

    ck_assert_int_eq(runtime.ops->snapshot_remove(runtime.ctx, name, NULL), 0);
    fake_host_log_clear(bench->host);
}

const char *provider_bench_publish(struct provider_bench *bench, const char *repository, const char *tag,
                                   uint64_t memory, const char *base_image, const char *image, bool keep_local) {
    static char id[64];
    struct cc_err err = {0};

    snprintf(id, sizeof id, "%s",
             fake_host_add_snapshot(bench->host, &(struct fake_snapshot_spec){
                                                     .name = repository, .image = image, .memory = memory, .nics = 1}));
    ck_assert_msg(vk_snapshots_push(bench->snapshots, repository, tag, base_image, &err) == 0, "%s", err.msg);
    if (!keep_local)
        provider_bench_drop_local(bench, repository);
    fake_host_log_clear(bench->host);
    cc_memory_registry_forget_calls(bench->store);
    return id;
}

void provider_bench_break_registry(struct provider_bench *bench, enum cc_registry_op op, int count) {
    cc_memory_registry_fail(bench->store, op, 1, count, CC_UNAVAILABLE, 503, NULL, false);
}

/* --- what can be seen --------------------------------------------------------------------------------------------- */

const char *provider_bench_annotation(struct provider_bench *bench, const char *name, const char *key) {
    const json_t *pod = fake_kube_get(bench->server, "pods", "ns", name);

    return cc_text_or(cc_json_text(cc_json_path(pod, "metadata", "annotations", NULL), key), "");
}

const char *provider_bench_state(struct provider_bench *bench, const char *name) {
    return provider_bench_annotation(bench, name, CC_KEY_LIFECYCLE_STATE);
}

const char *provider_bench_status(struct provider_bench *bench, const char *name, const char *path) {
    char *whole cc_cleanup(cc_free_p) = cc_xasprintf("status/%s", path);

    return cc_text_or(fake_kube_text(bench->server, "pods", "ns", name, whole), "");
}

const char *provider_bench_condition(struct provider_bench *bench, const char *name, const char *type) {
    const json_t *conditions =
        cc_json_path(fake_kube_get(bench->server, "pods", "ns", name), "status", "conditions", NULL);
    json_t *condition;
    size_t index;

    json_array_foreach (conditions, index, condition)
        if (cc_text_equal(cc_json_text(condition, "type"), type))
            return cc_json_text(condition, "status");
    return "";
}

bool provider_bench_has_event(struct provider_bench *bench, const char *text) {
    return strstr(bench->events.data, text) != NULL;
}

size_t provider_bench_count_events(struct provider_bench *bench, const char *text) {
    size_t count = 0;

    for (const char *at = bench->events.data; (at = strstr(at, text)); at++)
        count++;
    return count;
}

double provider_bench_metric(struct provider_bench *bench, struct cc_metric *metric, const char *a, const char *b,
                             const char *c) {
    (void)bench;
    return cc_metric_value(metric, (const char *[]){a, b, c});
}

int provider_bench_patch_position(struct provider_bench *bench, bool is_status, const char *text) {
    const struct fake_kube_request_log *entry;

    for (size_t i = 0; (entry = fake_kube_request_at(bench->server, NULL, NULL, i)); i++) {
        bool is_it = strcmp(entry->method, "PATCH") == 0 && (strstr(entry->path, "/status") != NULL) == is_status;
        char *body cc_cleanup(cc_free_p) = entry->body ? cc_json_dump(entry->body) : NULL;

        if (is_it && body && strstr(body, text))
            return (int)i;
    }
    return -1;
}
