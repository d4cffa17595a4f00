/* The channels of one exec or attach session, over SPDY/3.1 (v2 to v4) or WebSocket (v4 and its elders).
 * contract/08 4.5. */
#ifndef VK_KUBELET_SESSION_H
#define VK_KUBELET_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/error.h"
#include "http/server.h"

#define VK_SESSION_INPUT_BYTES ((size_t)1024 * 1024) /* of stdin that nobody has taken; then the client has to wait */
#define VK_SESSION_STREAMS_MS 30000                  /* until all streams must be there */
#define VK_SESSION_GOODBYE_MS 2000                   /* for the client to close after the status */
#define VK_SESSION_STOP_MS 3000                      /* for the last output and the status, when the agent stops */
#define VK_SESSION_STREAMS_MAX 16                    /* opened by one client; further ones are refused */

enum vk_channel { VK_STDIN, VK_STDOUT, VK_STDERR, VK_STATUS, VK_RESIZE, VK_CHANNELS };
struct vk_session_wants {
    bool channels[VK_CHANNELS]; /* stdin, stdout, stderr; the others follow from them */
    bool tty;
};
/* The query's input, output, error and tty. False with the response filled when none is asked for. */
bool vk_session_wants_of(const struct cc_http_server_request *request, struct cc_http_server_response *response,
                         struct vk_session_wants *ret);

struct vk_session;
/* Chooses transport and protocol and upgrades. NULL: refused, the response is filled, or the client has gone. */
CC_YIELDS struct vk_session *vk_session_open(const struct cc_http_server_request *request,
                                             struct cc_http_server_response *response,
                                             const struct vk_session_wants *wants);
void vk_session_free(struct vk_session *session);                   /* NULL is fine */
const char *vk_session_protocol(const struct vk_session *session);  /* for logs */
const char *vk_session_transport(const struct vk_session *session); /* the same */

/* Runs work on one fiber and receives on another until one of them ends. A client that goes cancels work: that is not
 * the end of stdin, so work ends what it does before its input. After work the client has VK_SESSION_GOODBYE_MS to
 * close. When the fiber that serves is cancelled (the agent stops), stop(ctx) makes work come to its end, which it
 * tells the client; work has VK_SESSION_STOP_MS for that. */
typedef CC_YIELDS void (*vk_session_work)(void *ctx);
typedef void (*vk_session_stop)(void *ctx);
CC_YIELDS void vk_session_serve(struct vk_session *session, vk_session_work work, vk_session_stop stop, void *ctx);
/* For work: a send has failed, so nobody is there; and whether that is known. */
void vk_session_tell_gone(struct vk_session *session);
bool vk_session_is_gone(const struct vk_session *session);
/* Waits until all streams that the client asked for are there; TIMEOUT after VK_SESSION_STREAMS_MS. */
CC_YIELDS CC_MUST_USE int vk_session_wait_ready(struct vk_session *session, struct cc_err *err);
/* Bytes of stdin; *ret_count 0 = end. */
CC_YIELDS CC_MUST_USE int vk_session_read(struct vk_session *session, void *bytes, size_t capacity, size_t *ret_count,
                                          struct cc_err *err);
/* At most VK_LINK_READ_BYTES to stdout or stderr; waits while the client takes nothing. What the client did not ask
 * for, or has reset, is dropped. */
CC_YIELDS CC_MUST_USE int vk_session_send(struct vk_session *session, enum vk_channel channel, const void *bytes,
                                          size_t count, struct cc_err *err);
/* The end of the outputs, then how it went: exit code 0 to 255, or -1 and the text of what went wrong. */
CC_YIELDS CC_MUST_USE int vk_session_finish(struct vk_session *session, int exit_code, const char *failure,
                                            struct cc_err *err);

/* The status as protocol v4 sends it; the caller frees it. Pure. */
char *vk_session_status_json(int exit_code, const char *failure);

#endif
