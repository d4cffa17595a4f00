/* A connection of a port-forward session: the client's streams on one side, TCP to the guest on the other. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "aio/io.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "kubelet/port_forward_internal.h"

#define ROOM_LOOK_MS 1000

/* --- the guest's side
 * ------------------------------------------------------------------------------------------------- */

static int guest_address(const struct vk_forward *forward, const char *port, struct sockaddr_storage *ret,
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

static int connect_guest(struct vk_forward_pair *pair, struct cc_err *err) {
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
    struct vk_forward_pair *pair = arg;
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

static int copy(struct vk_forward_pair *pair, struct cc_err *err) {
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    struct cc_fiber *sender = cc_fiber_start(cc_loop_current(), "port-forward send", send_to_guest, pair);
    int rc = sender ? 0 : cc_err_set(err, CC_LIMIT, "too many connections");
    size_t count = 1;
    while (rc == 0 && count > 0) {
        rc = cc_io_read(pair->fd, bytes, VK_LINK_READ_BYTES, &count, err);
        if (rc == 0 && count > 0)
            rc = pair->forward->ops->send(pair, bytes, count, err);
    }
    cc_fiber_join_p(&sender);
    return rc;
}

/* --- life
 * ------------------------------------------------------------------------------------------------------------- */

static int await_complete(struct vk_forward_pair *pair, struct cc_err *err) {
    CC_DEADLINE_MS(VK_FORWARD_PAIR_MS);
    return cc_event_wait(&pair->complete, err);
}

/* The text for the client, NULL = none. */
static char *connect_and_copy(struct vk_forward_pair *pair) {
    const struct vk_session_target *target = pair->forward->target;
    struct cc_err err = {0};
    int rc = await_complete(pair, &err);
    if (rc == CC_TIMEOUT)
        return cc_xasprintf("timed out waiting for the other stream of request %s", pair->key);
    if (rc == 0 && connect_guest(pair, &err) == 0) {
        /* A connection that the guest broke is the client's to notice; a text here would end the whole session. */
        cc_ignore(copy(pair, &err), "its end is told by the end of the streams");
        return NULL;
    }
    return cc_xasprintf("error forwarding port %s to pod %s, uid %s: %s", pair->port, target->pod, target->uid,
                        err.msg);
}

static void serve_pair(struct vk_forward_pair *pair) {
    char *text cc_cleanup(cc_free_p) = connect_and_copy(pair);
    /* Cancelled because the client has gone: nobody is to be told. Because the client gave this connection up: its end
     * of the error stream is still due. Else we are stopping. */
    bool is_canceled = cc_fiber_is_canceled();
    CC_SHIELD_MS(VK_FORWARD_GOODBYE_MS);
    if (pair->forward->is_gone)
        return;
    const char *told = !is_canceled ? cc_text_or(text, "") : pair->is_reset ? "" : "the node agent is stopping";
    cc_ignore(pair->forward->ops->finish(pair, told, NULL), "the client has gone");
}

static void pair_main(void *arg) {
    struct vk_forward_pair *pair = arg;
    serve_pair(pair);
    cc_fd_close(pair->fd);
    pair->fd = -1;
    pair->input_ended = true;
    cc_event_set(&pair->input_went);
    pair->is_done = true;
    cc_event_set(&pair->forward->changed);
}

void vk_forward_reap(struct vk_forward *forward, bool all) {
    for (struct vk_forward_pair **at = &forward->pairs; *at;) {
        struct vk_forward_pair *pair = *at;
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

struct vk_forward_pair *vk_forward_pair_new(struct vk_forward *forward, const char *key, const char *port) {
    struct vk_forward_pair *pair = CC_NEW(struct vk_forward_pair);
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

/* Nothing is read meanwhile, so that a client that goes would not be noticed for as long as the guest takes nothing. */
static int await_room(struct vk_forward_pair *pair, struct cc_err *err) {
    CC_DEADLINE_MS(ROOM_LOOK_MS);
    cc_event_clear(&pair->input_went);
    int rc = cc_event_wait(&pair->input_went, err);
    if (rc != CC_TIMEOUT)
        return rc;
    return cc_http_server_client_has_gone(pair->forward->response)
               ? cc_err_set(err, CC_UNAVAILABLE, "the client has gone before the guest took its data")
               : 0;
}

int vk_forward_take_data(struct vk_forward_pair *pair, const void *bytes, size_t count, bool is_final,
                         struct cc_err *err) {
    while (!pair->input_ended && pair->input.len + count > VK_FORWARD_BYTES && pair->input.len > 0) {
        int rc = await_room(pair, err);
        if (rc != 0)
            return rc;
    }
    if (pair->input_ended)
        return 0;
    cc_buf_append(&pair->input, bytes, count);
    pair->input_ended = is_final;
    cc_event_set(&pair->input_came);
    return cc_buf_check(&pair->input, "data of a connection", err);
}
