#include "kubelet/port_forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "kubelet/respond.h"
#include "kubelet/spdy_link.h"
#include "kubelet/upgrade.h"
#include "obs/log.h"

/* One TCP connection of the client: an error and a data stream. */
struct pair {
    struct pair *next;
    struct forward *forward;
    struct cc_fiber *fiber;
    char key[VK_FORWARD_REQUEST_ID_BYTES];
    char port[8];
    uint32_t error_stream, data_stream;  /* 0 = not there */
    struct cc_event complete;            /* both are */
    struct cc_buf input;                 /* of the client, for the guest */
    bool input_ended, is_reset, is_done; /* is_reset: the client gave its connection up */
    struct cc_event input_came, input_went;
    int fd;
};

struct forward {
    const struct vk_kubelet_host *host;
    const struct vk_session_target *target;
    struct vk_spdy_link link;
    struct pair *pairs;
    size_t pair_count;
    bool is_closing; /* the session has ended */
};

/* --- the guest's side
 * ------------------------------------------------------------------------------------------------- */

static int guest_address(const struct forward *forward, const char *port, struct sockaddr_storage *ret,
                         socklen_t *ret_bytes, struct cc_err *err) {
    const struct vk_session_target *target = forward->target;
    const struct vk_kubelet_host *host = forward->host;
    const struct vk_vm *vm = host->ops->vm(host->ctx, target->namespace, target->pod);
    const struct cc_pod *pod = host->ops->pod(host->ctx, target->namespace, target->pod);
    char *ip cc_cleanup(cc_free_p) = cc_xstrdup(vm ? cc_text_or(vm->ip, pod ? cc_text_or(pod->pod_ip, "") : "") : "");
    bool has_vm = vm != NULL;
    int32_t number = 0;
    vk_vm_unref(vm);
    cc_pod_unref(pod);
    if (!has_vm)
        return cc_err_set(err, CC_NOT_FOUND, "pod %s/%s has no live VM", target->namespace, target->pod);
    *ret = (struct sockaddr_storage){0};
    cc_ignore(cc_parse_int32(port, 1, 65535, &number), "it was checked when the stream came");
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)ret;
    if (inet_pton(AF_INET, ip, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)number);
        *ret_bytes = sizeof *v4;
    } else if (inet_pton(AF_INET6, ip, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)number);
        *ret_bytes = sizeof *v6;
    } else {
        return cc_err_set(err, CC_UNAVAILABLE, "the guest has no address yet");
    }
    return 0;
}

static int connect_guest(struct pair *pair, struct cc_err *err) {
    struct sockaddr_storage address;
    socklen_t bytes = 0, size = sizeof(int);
    int failure = 0, yes = 1;
    int rc = guest_address(pair->forward, pair->port, &address, &bytes, err);
    if (rc != 0)
        return rc;
    pair->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (pair->fd < 0)
        return cc_err_errno(err, errno, "socket");
    (void)setsockopt(pair->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(pair->fd, (struct sockaddr *)&address, bytes) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return cc_err_errno(err, errno, "connect");
    CC_DEADLINE_MS(VK_FORWARD_CONNECT_MS);
    rc = cc_io_wait(pair->fd, CC_IO_WRITE, err);
    if (rc == CC_TIMEOUT)
        return cc_err_set(err, CC_TIMEOUT, "connect: no answer within %d s", VK_FORWARD_CONNECT_MS / 1000);
    if (rc == 0 && (getsockopt(pair->fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0))
        return cc_err_errno(err, failure, "connect");
    return rc;
}

/* What the client sent, to the guest; its end is the end of our half. */
static void send_to_guest(void *arg) {
    struct pair *pair = arg;
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    int rc = 0;
    while (rc == 0) {
        size_t count = pair->input.len < VK_LINK_READ_BYTES ? pair->input.len : VK_LINK_READ_BYTES;
        if (count > 0) {
            memcpy(bytes, pair->input.data, count);
            cc_buf_consume(&pair->input, count);
            cc_event_set(&pair->input_went);
            rc = cc_io_write_all(pair->fd, bytes, count, NULL);
        } else if (pair->input_ended) {
            shutdown(pair->fd, SHUT_WR);
            return;
        } else {
            cc_event_clear(&pair->input_came);
            rc = cc_event_wait(&pair->input_came, NULL);
        }
    }
    /* The guest takes nothing more: neither do we wait for it. */
    pair->input_ended = true;
    cc_event_set(&pair->input_went);
}

static int copy(struct pair *pair, struct cc_err *err) {
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    struct cc_fiber *sender = cc_fiber_start(cc_loop_current(), "port-forward send", send_to_guest, pair);
    int rc = sender ? 0 : cc_err_set(err, CC_LIMIT, "too many connections");
    size_t count = 1;
    while (rc == 0 && count > 0) {
        rc = cc_io_read(pair->fd, bytes, VK_LINK_READ_BYTES, &count, err);
        if (rc == 0 && count > 0)
            rc = vk_spdy_link_data(&pair->forward->link, pair->data_stream, false, bytes, count, err);
    }
    cc_fiber_join_p(&sender);
    return rc;
}

/* --- pairs
 * ------------------------------------------------------------------------------------------------------------ */

/* Both streams always end, or the client would wait for ever. */
static int finish(struct pair *pair, const char *text, struct cc_err *err) {
    struct vk_spdy_link *link = &pair->forward->link;
    int rc = 0;
    if (pair->data_stream && !pair->is_reset)
        rc = vk_spdy_link_data(link, pair->data_stream, true, "", 0, err);
    if (rc == 0 && pair->error_stream)
        rc = vk_spdy_link_data(link, pair->error_stream, true, text, strlen(text), err);
    return rc;
}

static int await_complete(struct pair *pair, struct cc_err *err) {
    CC_DEADLINE_MS(VK_FORWARD_PAIR_MS);
    return cc_event_wait(&pair->complete, err);
}

static void serve_pair(struct pair *pair) {
    const struct vk_session_target *target = pair->forward->target;
    struct cc_err err = {0};
    char *text cc_cleanup(cc_free_p) = NULL;
    int rc = await_complete(pair, &err);
    if (rc == CC_TIMEOUT) {
        text = cc_xasprintf("timed out waiting for the other stream of request %s", pair->key);
    } else if (rc == 0) {
        rc = connect_guest(pair, &err);
        bool is_connected = rc == 0;
        if (is_connected)
            rc = copy(pair, &err);
        /* A connection that the guest broke is the client's to notice; a text here would end the whole session. */
        if (rc != 0 && !is_connected)
            text = cc_xasprintf("error forwarding port %s to pod %s, uid %s: %s", pair->port, target->pod, target->uid,
                                err.msg);
    }
    /* Cancelled with the session, nobody is there; given up by the client, its end of the error stream is still due. */
    bool is_canceled = cc_fiber_is_canceled();
    CC_SHIELD_MS(VK_FORWARD_CONNECT_MS);
    if (!is_canceled || (pair->is_reset && !pair->forward->is_closing))
        cc_ignore(finish(pair, text ? text : "", NULL), "the client has gone");
}

static void pair_main(void *arg) {
    struct pair *pair = arg;
    serve_pair(pair);
    cc_fd_close(pair->fd);
    pair->fd = -1;
    pair->input_ended = true;
    cc_event_set(&pair->input_went);
    pair->is_done = true;
}

/* Frees those that have ended; all of them when asked to, after their fibers have unwound. */
static void reap(struct forward *forward, bool all) {
    for (struct pair **at = &forward->pairs; *at;) {
        struct pair *pair = *at;
        if (!all && !pair->is_done) {
            at = &pair->next;
            continue;
        }
        cc_fiber_join_p(&pair->fiber);
        *at = pair->next;
        forward->pair_count--;
        cc_buf_done(&pair->input);
        free(pair);
    }
}

static struct pair *pair_of_key(struct forward *forward, const char *key) {
    struct pair *pair = forward->pairs;
    while (pair && (pair->is_done || !cc_text_equal(pair->key, key)))
        pair = pair->next;
    return pair;
}

static struct pair *pair_of_data(struct forward *forward, uint32_t stream) {
    struct pair *pair = forward->pairs;
    while (pair && pair->data_stream != stream)
        pair = pair->next;
    return pair;
}

static struct pair *pair_new(struct forward *forward, const char *key, const char *port) {
    struct pair *pair = CC_NEW(struct pair);
    pair->forward = forward;
    pair->fd = -1;
    snprintf(pair->key, sizeof pair->key, "%s", key);
    snprintf(pair->port, sizeof pair->port, "%s", port);
    cc_buf_init(&pair->input, VK_FORWARD_BYTES + VK_LINK_READ_BYTES);
    pair->fiber = cc_fiber_start(cc_loop_current(), "port-forward", pair_main, pair);
    if (!pair->fiber) {
        cc_buf_done(&pair->input);
        free(pair);
        return NULL;
    }
    pair->next = forward->pairs;
    forward->pairs = pair;
    forward->pair_count++;
    return pair;
}

/* --- the client's side
 * ------------------------------------------------------------------------------------------------ */

struct opened {
    uint32_t stream;
    bool is_error, is_final;
    char key[VK_FORWARD_REQUEST_ID_BYTES], port[8];
};

/* False when the stream must be refused. */
static bool read_stream(const struct cc_spdy_event *event, struct opened *ret) {
    const char *type = cc_spdy_event_header(event, "streamtype"), *port = cc_spdy_event_header(event, "port");
    const char *id = cc_spdy_event_header(event, "requestid");
    int32_t number;
    *ret =
        (struct opened){.stream = event->stream, .is_error = cc_text_equal(type, "error"), .is_final = event->is_final};
    if ((!ret->is_error && !cc_text_equal(type, "data")) || !cc_parse_int32(port ? port : "", 1, 65535, &number) ||
        strlen(cc_text_or(id, "")) + 2 > sizeof ret->key)
        return false;
    snprintf(ret->port, sizeof ret->port, "%d", (int)number);
    /* Old clients number nothing: their data stream comes right after its error stream. */
    if (cc_text_is_empty(id))
        snprintf(ret->key, sizeof ret->key, "#%u", ret->is_error ? event->stream : event->stream - 2);
    else
        snprintf(ret->key, sizeof ret->key, "=%s", id);
    return true;
}

static int refuse_duplicate(struct forward *forward, const struct pair *pair, const struct opened *opened,
                            struct cc_err *err) {
    static const char text[] = "a stream of this type exists already for this request";
    uint32_t told = opened->is_error ? opened->stream : pair->error_stream;
    int rc = told ? vk_spdy_link_data(&forward->link, told, opened->is_error, text, sizeof text - 1, err) : 0;
    return rc == 0 && !opened->is_error
               ? vk_spdy_link_reset(&forward->link, opened->stream, CC_SPDY_PROTOCOL_ERROR, err)
               : rc;
}

static int take_stream(struct forward *forward, const struct cc_spdy_event *event, struct cc_err *err) {
    struct opened opened;
    reap(forward, false);
    struct pair *pair = NULL;
    bool is_fine = read_stream(event, &opened);
    if (is_fine) {
        pair = pair_of_key(forward, opened.key);
        if (!pair && forward->pair_count < VK_FORWARD_PAIRS_MAX)
            pair = pair_new(forward, opened.key, opened.port);
    }
    if (!pair)
        return vk_spdy_link_reset(&forward->link, event->stream, CC_SPDY_REFUSED, err);
    uint32_t *slot = opened.is_error ? &pair->error_stream : &pair->data_stream;
    bool is_duplicate = *slot != 0;
    if (!is_duplicate)
        *slot = opened.stream;
    if (!opened.is_error && opened.is_final)
        pair->input_ended = true;
    int rc = vk_spdy_link_reply(&forward->link, opened.stream, err);
    /* The reply yields; only this fiber frees pairs. */
    if (rc == 0 && is_duplicate)
        return refuse_duplicate(forward, pair, &opened, err);
    if (rc == 0 && pair->error_stream && pair->data_stream)
        cc_event_set(&pair->complete);
    return rc;
}

static int take_data(struct pair *pair, const struct cc_spdy_event *event, struct cc_err *err) {
    while (!pair->input_ended && pair->input.len + event->count > VK_FORWARD_BYTES && pair->input.len > 0) {
        cc_event_clear(&pair->input_went);
        int rc = cc_event_wait(&pair->input_went, err);
        if (rc != 0)
            return rc;
    }
    if (pair->input_ended)
        return 0;
    cc_buf_append(&pair->input, event->bytes, event->count);
    pair->input_ended = event->is_final;
    cc_event_set(&pair->input_came);
    return cc_buf_check(&pair->input, "data of a connection", err);
}

static int take_event(void *ctx, const struct cc_spdy_event *event, struct cc_err *err) {
    struct forward *forward = ctx;
    if (event->type == CC_SPDY_STREAM)
        return take_stream(forward, event, err);
    struct pair *pair = event->type == CC_SPDY_GOAWAY ? NULL : pair_of_data(forward, event->stream);
    if (!pair)
        return 0; /* what comes on an error stream says nothing */
    if (event->type == CC_SPDY_DATA)
        return take_data(pair, event, err);
    pair->is_reset = true;
    cc_fiber_cancel(pair->fiber);
    return 0;
}

static bool open_link(struct forward *forward, const struct cc_http_server_request *request,
                      struct cc_http_server_response *response) {
    static const char *const protocols[] = {"portforward.k8s.io", NULL};
    bool any_offered;
    if (!vk_upgrade_asks_for(request, "SPDY/3.1"))
        return vk_respond_text(response, 400, "an upgrade to SPDY/3.1 is needed"), false;
    if (!vk_upgrade_choose(request, "X-Stream-Protocol-Version", protocols, &any_offered)) {
        vk_respond_text(response, any_offered ? 403 : 400, "X-Stream-Protocol-Version: portforward.k8s.io is needed");
        if (any_offered)
            cc_http_server_set_header(response, "X-Accepted-Stream-Protocol-Versions", protocols[0]);
        return false;
    }
    cc_http_server_set_header(response, "Upgrade", "SPDY/3.1");
    cc_http_server_set_header(response, "X-Stream-Protocol-Version", protocols[0]);
    return cc_http_server_upgrade(response, &forward->link.reader, &forward->link.writer, NULL) == 0;
}

void vk_port_forward_serve(const struct vk_kubelet_host *host, const struct vk_session_target *target,
                           const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct forward forward = {.host = host, .target = target};
    vk_spdy_link_init(&forward.link);
    if (open_link(&forward, request, response)) {
        struct cc_err err = {0};
        char *pod cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", target->namespace, target->pod);
        cc_log_info("port-forward session", CC_KV("user", target->user), CC_KV("pod", pod),
                    CC_KV("peer", request->peer));
        if (vk_spdy_link_run(&forward.link, take_event, &forward, &err) != 0 && !cc_fiber_is_canceled())
            cc_log_debug("port-forward session broke", CC_KV("error", err.msg));
        forward.is_closing = true;
        reap(&forward, true);
    }
    vk_spdy_link_done(&forward.link);
}
