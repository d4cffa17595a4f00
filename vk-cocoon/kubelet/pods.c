#include "kubelet/pods.h"

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kubelet/respond.h"

static const char list_head[] = "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[";

static void put_item(struct cc_buf *into, const json_t *item) {
    char *text cc_cleanup(cc_free_p) = cc_json_dump(item);
    if (!cc_text_ends_with(into->data, "["))
        cc_buf_putc(into, ',');
    cc_buf_puts(into, text);
}

static void restart_list(void *ctx) {
    struct cc_buf *body = ctx;
    cc_buf_clear(body);
    cc_buf_puts(body, list_head);
}

static int take_item(void *ctx, const json_t *item, struct cc_err *err) {
    struct cc_buf *body = ctx;
    put_item(body, item);
    return cc_buf_check(body, "pod list", err);
}

void vk_pods_serve(const struct cc_kube *kube, const char *node_name, struct cc_http_server_response *response) {
    char *selector cc_cleanup(cc_free_p) = cc_xasprintf("spec.nodeName=%s", node_name);
    struct cc_kube_selection selection = {.resource = &cc_pod_resource, .namespace = "", .field_selector = selector};
    struct cc_err err = {0};
    CC_DEADLINE_MS(VK_PODS_CALL_MS);
    restart_list(&response->body);
    if (cc_kube_list(kube, &selection, take_item, restart_list, &response->body, NULL, &err)) {
        vk_respond_text(response, 500, err.msg);
        return;
    }
    cc_buf_puts(&response->body, "]}");
    response->content_type = "application/json";
}

static json_t *summary_of(const struct cc_pod *pod) {
    const struct cc_object_meta *meta = &pod->base.meta;
    json_t *object = json_object(), *metadata = json_object(), *spec = json_object(), *containers = json_array();
    cc_json_set_text(metadata, "name", meta->name);
    cc_json_set_text(metadata, "namespace", meta->namespace);
    cc_json_set_text(metadata, "uid", meta->uid);
    cc_json_set_new(object, "metadata", metadata);
    for (size_t i = 0; i < pod->container_count; i++) {
        json_t *container = json_object();
        cc_json_set_text(container, "name", pod->containers[i].name);
        cc_json_set_text_nonempty(container, "image", pod->containers[i].image);
        cc_json_append_new(containers, container);
    }
    cc_json_set_new(spec, "containers", containers);
    cc_json_set_text_nonempty(spec, "nodeName", pod->node_name);
    cc_json_set_new(object, "spec", spec);
    cc_json_set_new(object, "status", json_object());
    return object;
}

void vk_running_pods_serve(const struct vk_kubelet_host *host, struct cc_http_server_response *response) {
    struct cc_object_list pods = {0};
    host->ops->all_pods(host->ctx, &pods);
    restart_list(&response->body);
    for (size_t i = 0; i < pods.count; i++) {
        json_t *item cc_cleanup(cc_json_decref_p) = summary_of(cc_pod_of(pods.items[i]));
        put_item(&response->body, item);
    }
    cc_object_list_done(&pods);
    cc_buf_puts(&response->body, "]}");
    response->content_type = "application/json";
}
