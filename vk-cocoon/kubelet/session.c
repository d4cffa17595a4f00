#include "kubelet/session.h"

#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kubelet/respond.h"
#include "kubelet/session_internal.h"
#include "kubelet/upgrade.h"

#define ROOM_LOOK_MS 1000

static bool is_set(const struct cc_http_server_request *request, const char *name) {
    char *text cc_cleanup(cc_free_p) = cc_http_server_query(request, name);
    bool value = false;
    return cc_parse_bool(text ? text : "", &value) && value;
}

bool vk_session_wants_of(const struct cc_http_server_request *request, struct cc_http_server_response *response,
                         struct vk_session_wants *ret) {
    *ret = (struct vk_session_wants){.tty = is_set(request, "tty")};
    ret->channels[VK_STDIN] = is_set(request, "input");
    ret->channels[VK_STDOUT] = is_set(request, "output");
    /* A terminal has one output: as a kubelet does, the other is not opened. */
    bool error = is_set(request, "error");
    ret->channels[VK_STDERR] = error && !ret->tty;
    if (ret->channels[VK_STDIN] || ret->channels[VK_STDOUT] || error)
        return true;
    vk_respond_text(response, 400, "you must specify at least one of stdin, stdout, stderr");
    return false;
}

/* --- life
 * ------------------------------------------------------------------------------------------------------------- */

struct vk_session *vk_session_open(const struct cc_http_server_request *request,
                                   struct cc_http_server_response *response, const struct vk_session_wants *wants) {
    struct vk_session *session = CC_NEW(struct vk_session);
    session->response = response;
    session->wants = *wants;
    session->channel = -1;
    cc_buf_init(&session->input, VK_SESSION_INPUT_BYTES + VK_LINK_READ_BYTES);
    vk_spdy_link_init(&session->link);
    bool is_websocket = vk_upgrade_asks_for(request, "websocket");
    session->ops = is_websocket ? &vk_session_websocket : &vk_session_spdy;
    if (is_websocket ? vk_session_open_websocket(session, request, response)
                     : vk_session_open_spdy(session, request, response))
        return session;
    vk_session_free(session);
    return NULL;
}

void vk_session_free(struct vk_session *session) {
    if (!session)
        return;
    vk_spdy_link_done(&session->link);
    cc_buf_done(&session->input);
    free(session);
}

const char *vk_session_protocol(const struct vk_session *session) {
    return session->protocol;
}

const char *vk_session_transport(const struct vk_session *session) {
    return session->ops == &vk_session_websocket ? "WebSocket" : "SPDY";
}

int vk_session_wait_ready(struct vk_session *session, struct cc_err *err) {
    CC_DEADLINE_MS(VK_SESSION_STREAMS_MS);
    return cc_event_wait(&session->ready, err);
}

/* --- input
 * ------------------------------------------------------------------------------------------------------------ */

/* Nothing is read meanwhile, so that a client that goes would not be noticed for as long as the command takes nothing.
 */
static int await_room(struct vk_session *session, struct cc_err *err) {
    CC_DEADLINE_MS(ROOM_LOOK_MS);
    int rc = cc_event_wait(&session->input_went, err);
    if (rc != CC_TIMEOUT)
        return rc;
    return cc_http_server_client_has_gone(session->response)
               ? cc_err_set(err, CC_UNAVAILABLE, "the client has gone before its input was taken")
               : 0;
}

int vk_session_take_input(struct vk_session *session, const void *bytes, size_t count, struct cc_err *err) {
    while (session->input.len + count > VK_SESSION_INPUT_BYTES && session->input.len > 0) {
        cc_event_clear(&session->input_went);
        int rc = await_room(session, err);
        if (rc != 0)
            return rc;
    }
    if (session->input_ended)
        return 0;
    cc_buf_append(&session->input, bytes, count);
    cc_event_set(&session->input_came);
    return cc_buf_check(&session->input, "stdin", err);
}

void vk_session_end_input(struct vk_session *session) {
    session->input_ended = true;
    cc_event_set(&session->input_came);
}

int vk_session_read(struct vk_session *session, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    *ret_count = 0;
    while (session->input.len == 0) {
        if (session->input_ended)
            return 0;
        cc_event_clear(&session->input_came);
        int rc = cc_event_wait(&session->input_came, err);
        if (rc != 0)
            return rc;
    }
    *ret_count = session->input.len < capacity ? session->input.len : capacity;
    memcpy(bytes, session->input.data, *ret_count);
    cc_buf_consume(&session->input, *ret_count);
    cc_event_set(&session->input_went);
    return 0;
}

/* --- output
 * ----------------------------------------------------------------------------------------------------------- */

int vk_session_send(struct vk_session *session, enum vk_channel channel, const void *bytes, size_t count,
                    struct cc_err *err) {
    /* With a terminal everything is one output. */
    if (channel == VK_STDERR && session->wants.tty)
        channel = VK_STDOUT;
    if (!session->wants.channels[channel] || session->is_reset[channel] || count == 0)
        return 0;
    return session->ops->send(session, channel, bytes, count, err);
}

static void add_cause(json_t *status, const char *reason, const char *message) {
    json_t *cause = json_object(), *causes = json_array(), *details = json_object();
    cc_json_set_text_nonempty(cause, "reason", reason);
    cc_json_set_text(cause, "message", message);
    cc_json_append_new(causes, cause);
    cc_json_set_new(details, "causes", causes);
    cc_json_set_new(status, "details", details);
}

char *vk_session_status_json(int exit_code, const char *failure) {
    json_t *status cc_cleanup(cc_json_decref_p) = json_object();
    char *message cc_cleanup(cc_free_p) = NULL;
    cc_json_set_new(status, "metadata", json_object());
    cc_json_set_text(status, "status", exit_code == 0 ? "Success" : "Failure");
    if (exit_code > 0) {
        char *code cc_cleanup(cc_free_p) = cc_xasprintf("%d", exit_code);
        message = cc_xasprintf("command terminated with non-zero exit code: exit status %d", exit_code);
        cc_json_set_text(status, "message", message);
        cc_json_set_text(status, "reason", "NonZeroExitCode");
        add_cause(status, "ExitCode", code);
    } else if (exit_code < 0) {
        message = cc_xasprintf("Internal error occurred: %s", failure);
        cc_json_set_text(status, "message", message);
        cc_json_set_text(status, "reason", "InternalError");
        add_cause(status, "", failure);
        cc_json_set_int(status, "code", 500);
    }
    return cc_json_dump(status);
}

/* Before v4: text, and nothing on success. */
static char *status_text(int exit_code, const char *failure) {
    return exit_code == 0  ? cc_xstrdup("")
           : exit_code > 0 ? cc_xasprintf("command terminated with non-zero exit code: exit status %d", exit_code)
                           : cc_xasprintf("Internal error occurred: %s", failure);
}

int vk_session_finish(struct vk_session *session, int exit_code, const char *failure, struct cc_err *err) {
    char *status cc_cleanup(cc_free_p) =
        session->has_json_status ? vk_session_status_json(exit_code, failure) : status_text(exit_code, failure);
    int rc = session->ops->end(session, VK_STDOUT, err);
    if (rc == 0)
        rc = session->ops->end(session, VK_STDERR, err);
    /* The client reads the outputs to their end before it looks here (F21). */
    if (rc == 0 && *status)
        rc = session->ops->send(session, VK_STATUS, status, strlen(status), err);
    if (rc == 0)
        rc = session->ops->end(session, VK_STATUS, err);
    return rc == 0 ? session->ops->close(session, err) : rc;
}
