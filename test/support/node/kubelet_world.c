#include "support/node/kubelet_world.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

/* --- reviews --------------------------------------------------------------------------------------------------------
 */

struct answer {
    char *text;
    size_t at;
};

static json_t *review_token(struct kubelet_world *world, const json_t *review, int *ret_status) {
    static const char *const known[] = {"admin", "weak", "metrics", "proxy", "broken-access"};
    const char *token = cc_json_text(cc_json_member(review, "spec"), "token");
    world->token_reviews++;
    if (cc_text_equal(token, "broken"))
        return *ret_status = 500, json_object();
    for (size_t i = 0; i < CC_ARRAY_LENGTH(known); i++)
        if (cc_text_equal(token, known[i]))
            return json_pack("{s:{s:b, s:{s:s, s:s, s:[s], s:{s:[s]}}}}", "status", "authenticated", 1, "user",
                             "username", token, "uid", "u1", "groups", "system:authenticated", "extra", "scope", "one");
    return json_pack("{s:{s:b, s:s}}", "status", "authenticated", 0, "error", "no such token");
}

static json_t *review_access(struct kubelet_world *world, const json_t *review, int *ret_status) {
    const json_t *spec = cc_json_member(review, "spec"), *attributes = cc_json_member(spec, "resourceAttributes");
    const char *user = cc_json_text(spec, "user"), *subresource = cc_json_text(attributes, "subresource");
    bool is_get = cc_text_equal(cc_json_text(attributes, "verb"), "get");
    world->access_reviews++;
    json_decref(world->last_access);
    world->last_access = json_deep_copy(spec);
    if (cc_text_equal(user, "broken-access"))
        return *ret_status = 500, json_object();
    bool allowed =
        cc_text_equal(user, "admin") || (is_get && (cc_text_equal(user, "metrics") || cc_text_equal(user, "proxy")) &&
                                         cc_text_equal(user, subresource));
    return json_pack("{s:{s:b}}", "status", "allowed", allowed);
}

static json_t *sign(struct kubelet_world *world, const json_t *body, int *ret_status) {
    if (body) {
        const char *name = cc_json_text(cc_json_member(body, "metadata"), "name");
        bool is_known =
            world->signing && cc_text_equal(name, cc_json_text(cc_json_member(world->signing, "metadata"), "name"));
        world->signing_posts++;
        if (world->signing_refusal || is_known)
            return *ret_status = world->signing_refusal ? world->signing_refusal : 409, json_object();
        json_decref(world->signing);
        return json_incref(world->signing = json_deep_copy(body));
    }
    if (!world->signing)
        return *ret_status = 404, json_object();
    *ret_status = 200;
    json_t *answer = json_deep_copy(world->signing);
    if (world->signing_status)
        json_object_set(answer, "status", world->signing_status);
    return answer;
}

static int kube_open(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                     struct cc_err *err) {
    struct kubelet_world *world = ctx;
    json_t *body cc_cleanup(cc_json_decref_p) = NULL, *answer cc_cleanup(cc_json_decref_p) = NULL;
    (void)err;
    snprintf(world->last_path, sizeof world->last_path, "%s %s", exchange->method, exchange->path);
    if (exchange->body)
        ck_assert_int_eq(cc_json_parse(exchange->body, exchange->body_bytes, 1 << 20, &body, NULL), 0);
    *ret = (struct cc_kube_answer){.status = 201};
    struct answer *stream = CC_NEW(struct answer);
    if (cc_text_equal(exchange->path, "/apis/authentication.k8s.io/v1/tokenreviews")) {
        answer = review_token(world, body, &ret->status);
    } else if (cc_text_equal(exchange->path, "/apis/authorization.k8s.io/v1/subjectaccessreviews")) {
        answer = review_access(world, body, &ret->status);
    } else if (cc_text_contains(exchange->path, "/certificatesigningrequests")) {
        answer = sign(world, body, &ret->status);
    } else {
        const char *text = cc_text_contains(exchange->path, "/pods") ? world->pod_list : world->config_map;
        ret->status = text ? 200 : 404;
        stream->text = cc_xstrdup(text ? text : "{}");
    }
    if (answer)
        stream->text = cc_json_dump(answer);
    ret->stream = stream;
    return 0;
}

static int kube_read(void *ctx, void *opaque, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct answer *stream = opaque;
    (void)ctx, (void)err;
    *ret_count = strlen(stream->text + stream->at);
    *ret_count = *ret_count < capacity ? *ret_count : capacity;
    memcpy(bytes, stream->text + stream->at, *ret_count);
    stream->at += *ret_count;
    return 0;
}

static void kube_close(void *ctx, void *opaque) {
    struct answer *stream = opaque;
    (void)ctx;
    free(stream->text);
    free(stream);
}

/* --- host -----------------------------------------------------------------------------------------------------------
 */

static void host_list(void *ctx, struct cc_object_list *ret) {
    struct kubelet_world *world = ctx;
    ret->items = cc_xcalloc(world->pod_count + 1, sizeof *ret->items);
    for (ret->count = 0; ret->count < world->pod_count; ret->count++)
        ret->items[ret->count] = cc_object_ref(world->pods[ret->count]);
}

static size_t find(const struct kubelet_world *world, const char *namespace, const char *name) {
    size_t i = 0;
    while (i < world->pod_count && !(cc_text_equal(world->pods[i]->meta.namespace, namespace) &&
                                     cc_text_equal(world->pods[i]->meta.name, name)))
        i++;
    return i;
}

static const struct cc_pod *host_get(void *ctx, const char *namespace, const char *name) {
    const struct kubelet_world *world = ctx;
    size_t i = find(world, namespace, name);
    return i < world->pod_count ? cc_pod_ref(cc_pod_of(world->pods[i])) : NULL;
}

static const struct vk_vm *host_vm(void *ctx, const char *namespace, const char *name) {
    const struct kubelet_world *world = ctx;
    size_t i = find(world, namespace, name);
    return i < world->pod_count && world->vms[i] ? vk_vm_ref(world->vms[i]) : NULL;
}

static int host_exec(void *ctx, const struct vk_exec_options *options, bool with_stdin, struct cc_process **ret,
                     struct cc_err *err) {
    struct kubelet_world *world = ctx;
    const char *argv[32] = {NULL};
    size_t used = 0;
    ck_assert_uint_lt(options->argc, CC_ARRAY_LENGTH(argv));
    world->exec_calls++;
    world->exec_with_stdin = with_stdin;
    for (size_t i = 0; i < options->argc; i++) {
        argv[i] = options->argv[i];
        used += (size_t)snprintf(world->exec_words + used, sizeof world->exec_words - used, "%s|", argv[i]);
    }
    struct cc_process_options process = {
        .argv = argv, .in = with_stdin ? CC_STDIO_PIPE : CC_STDIO_NULL, .out = CC_STDIO_PIPE, .error = CC_STDIO_PIPE};
    return cc_process_start(&process, ret, err);
}

static int host_logs(void *ctx, const char *id, int64_t lines, struct cc_buf *into, struct cc_err *err) {
    struct kubelet_world *world = ctx;
    world->log_lines = lines;
    world->log_calls++;
    if (!world->log_text)
        return cc_err_set(err, CC_IO, "no log of %s", id);
    return cc_buf_puts(into, world->log_text);
}

/* --- life -----------------------------------------------------------------------------------------------------------
 */

void kubelet_world_open(struct kubelet_world *world) {
    static const struct cc_kube_transport_ops kube_ops = {.open = kube_open, .read = kube_read, .close = kube_close};
    static const struct vk_kubelet_host_ops host_ops = {
        .all_pods = host_list, .pod = host_get, .vm = host_vm, .exec_start = host_exec, .vm_logs = host_logs};
    *world = (struct kubelet_world){.kube = {.transport = {&kube_ops, world}}, .host = {&host_ops, world}};
}

void kubelet_world_close(struct kubelet_world *world) {
    json_decref(world->last_access);
    json_decref(world->signing);
    json_decref(world->signing_status);
    for (size_t i = 0; i < world->pod_count; i++) {
        cc_object_unref(world->pods[i]);
        vk_vm_unref(world->vms[i]);
    }
}

void kubelet_world_add_pod(struct kubelet_world *world, const char *single_quoted, const char *vm_id, int64_t pid) {
    char *text = cc_xstrdup(single_quoted);
    json_t *json = NULL;
    for (char *at = text; *at; at++)
        if (*at == '\'')
            *at = '"';
    ck_assert_int_eq(cc_json_parse(text, strlen(text), 1 << 20, &json, NULL), 0);
    ck_assert_uint_lt(world->pod_count, CC_ARRAY_LENGTH(world->pods));
    ck_assert_int_eq(cc_pod_decode(json, &world->pods[world->pod_count], NULL), 0);
    if (vm_id) {
        struct vk_vm *vm = world->vms[world->pod_count] = vk_vm_new();
        vm->id = cc_arena_strdup(&vm->arena, vm_id);
        vm->name = cc_arena_printf(&vm->arena, "vk-%s", vm_id);
        vm->pid = pid;
        vm->nics = CC_ARENA_NEW(&vm->arena, struct vk_nic);
        vm->nic_count = 1;
        vm->nics[0] = (struct vk_nic){.tap = "tap0", .mac = "", .ip = "", .gateway = ""};
    }
    world->pod_count++;
    json_decref(json);
    free(text);
}
