#include "kubelet/logs.h"

#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "kubelet/respond.h"
#include "meta/keys.h"

/* --- the query ------------------------------------------------------------------------------------------------------
 */

static int read_number(const struct cc_http_server_request *request, const char *name, int64_t min, int64_t *ret,
                       struct cc_err *err) {
    char *text cc_cleanup(cc_free_p) = cc_http_server_query(request, name);
    *ret = -1;
    if (!cc_text_is_empty(text) && !cc_parse_int64(text, min, INT64_MAX, ret))
        return cc_err_set(err, CC_INVALID, "%s=\"%s\": not a whole number of at least %lld", name, text,
                          (long long)min);
    return 0;
}

static int read_bool(const struct cc_http_server_request *request, const char *name, bool *ret, struct cc_err *err) {
    char *text cc_cleanup(cc_free_p) = cc_http_server_query(request, name);
    *ret = false;
    if (!cc_text_is_empty(text) && !cc_parse_bool(text, ret))
        return cc_err_set(err, CC_INVALID, "%s=\"%s\": neither true nor false", name, text);
    return 0;
}

static int read_since_time(const struct cc_http_server_request *request, bool *ret, struct cc_err *err) {
    char *text cc_cleanup(cc_free_p) = cc_http_server_query(request, "sinceTime");
    struct cc_wall time;
    *ret = !cc_text_is_empty(text);
    if (*ret && !cc_rfc3339_parse(text, &time))
        return cc_err_set(err, CC_INVALID, "sinceTime=\"%s\": not an RFC 3339 time", text);
    return 0;
}

int vk_log_query_parse(const struct cc_http_server_request *request, struct vk_log_query *ret, struct cc_err *err) {
    *ret = (struct vk_log_query){0};
    int rc = read_number(request, "tailLines", 0, &ret->tail_lines, err);
    if (!rc)
        rc = read_number(request, "limitBytes", 1, &ret->limit_bytes, err);
    if (!rc)
        rc = read_number(request, "sinceSeconds", 1, &ret->since_seconds, err);
    if (!rc)
        rc = read_bool(request, "follow", &ret->follow, err);
    if (!rc)
        rc = read_bool(request, "previous", &ret->previous, err);
    if (!rc)
        rc = read_bool(request, "timestamps", &ret->timestamps, err);
    if (!rc)
        rc = read_since_time(request, &ret->has_since_time, err);
    if (!rc && ret->since_seconds > 0 && ret->has_since_time)
        rc = cc_err_set(err, CC_INVALID, "sinceSeconds and sinceTime: at most one of them");
    return rc;
}

/* --- following ------------------------------------------------------------------------------------------------------
 */

size_t vk_log_overlap(const char *before, size_t before_bytes, const char *now, size_t now_bytes) {
    /* The longest first: start at the oldest line of `before` that may be the first line of `now`. */
    for (size_t at = before_bytes > now_bytes ? before_bytes - now_bytes : 0; at < before_bytes; at++) {
        if (at > 0 && before[at - 1] != '\n')
            continue;
        if (memcmp(before + at, now, before_bytes - at) == 0)
            return before_bytes - at;
    }
    return 0;
}

struct log_stream {
    const struct vk_kubelet_host *host;
    const char *namespace, *name;
    struct cc_http_server_response *response;
    int64_t left; /* of limitBytes; -1 = no limit */
};

static int send_bytes(struct log_stream *stream, const char *bytes, size_t count, struct cc_err *err) {
    if (stream->left >= 0 && (uint64_t)count > (uint64_t)stream->left)
        count = (size_t)stream->left;
    if (stream->left >= 0)
        stream->left -= (int64_t)count;
    return cc_http_server_write(stream->response, bytes, count, err);
}

static int read_logs(const struct log_stream *stream, const struct vk_vm *vm, int64_t lines, struct cc_buf *into,
                     struct cc_err *err) {
    CC_DEADLINE_MS(VK_LOG_CALL_MS);
    return stream->host->ops->vm_logs(stream->host->ctx, vm->id, lines, into, err);
}

/* Best effort: the CLI cannot follow, so look again and again for as long as the VM is this one. */
static void follow(struct log_stream *stream, const char *vm_id, struct cc_buf *seen) {
    while (stream->left != 0 && cc_sleep_ms(VK_LOG_FOLLOW_MS, NULL) == 0) {
        if (cc_http_server_client_has_gone(stream->response))
            return; /* a log that says nothing new would not show it */
        const struct vk_vm *vm = stream->host->ops->vm(stream->host->ctx, stream->namespace, stream->name);
        bool same = vm && cc_text_equal(vm->id, vm_id);
        struct cc_buf now;
        cc_buf_init(&now, VK_LOG_BYTES_MAX);
        int rc = same ? read_logs(stream, vm, VK_LOG_FOLLOW_LINES, &now, NULL) : CC_GONE;
        vk_vm_unref(vm);
        if (rc == 0) {
            /* A line that is still being written waits for its end. */
            const char *last = memrchr(now.data, '\n', now.len);
            size_t whole = last ? (size_t)(last - now.data) + 1 : 0;
            size_t old = vk_log_overlap(seen->data, seen->len, now.data, whole);
            if (whole > old)
                rc = send_bytes(stream, now.data + old, whole - old, NULL);
            now.len = whole;
        }
        cc_buf_done(seen);
        *seen = now;
        if (rc)
            return;
    }
}

static void say_no_vm(const struct cc_pod *pod, struct cc_http_server_response *response) {
    const char *state = cc_pod_annotation(pod, CC_KEY_LIFECYCLE_STATE);
    if (cc_text_equal(state, CC_STATE_HIBERNATED))
        cc_buf_puts(&response->body, "vk-cocoon: pod is hibernated: it has no VM, and so no log, until it wakes\n");
    else
        cc_buf_puts(&response->body, "vk-cocoon: pod has no live VM\n");
}

void vk_logs_serve(const struct vk_kubelet_host *host, const char *namespace, const char *name,
                   const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct vk_log_query query;
    struct cc_err err = {0};
    if (vk_log_query_parse(request, &query, &err))
        return vk_respond_text(response, 400, err.msg);
    const struct cc_pod *pod = host->ops->pod(host->ctx, namespace, name);
    if (!pod)
        return vk_respond_format(response, 404, "pod %s/%s is not on this node", namespace, name);
    const struct vk_vm *vm = host->ops->vm(host->ctx, namespace, name);
    if (!vm) {
        say_no_vm(pod, response);
        cc_pod_unref(pod);
        return;
    }
    cc_pod_unref(pod);
    if (vk_vm_is_macos(vm)) {
        cc_buf_puts(&response->body, "vk-cocoon: cocoon keeps no log of macOS guests\n");
        vk_vm_unref(vm);
        return;
    }
    struct log_stream stream = {
        .host = host, .namespace = namespace, .name = name, .response = response, .left = query.limit_bytes};
    struct cc_buf text;
    cc_buf_init(&text, VK_LOG_BYTES_MAX);
    int64_t lines = query.tail_lines <= 0 ? VK_LOG_LINES_DEFAULT : query.tail_lines;
    if (read_logs(&stream, vm, lines < VK_LOG_LINES_MAX ? lines : VK_LOG_LINES_MAX, &text, &err))
        vk_respond_text(response, 500, err.msg);
    else if (cc_http_server_stream(response, -1, NULL) == 0 && send_bytes(&stream, text.data, text.len, NULL) == 0 &&
             query.follow)
        follow(&stream, vm->id, &text);
    cc_buf_done(&text);
    vk_vm_unref(vm);
}
