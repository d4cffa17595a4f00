/* The two fibers of a session. */
#include "aio/fiber.h"
#include "kubelet/session_internal.h"
#include "obs/log.h"

void vk_session_tell_gone(struct vk_session *session) {
    session->is_gone = true;
    cc_event_set(&session->changed);
}

bool vk_session_is_gone(const struct vk_session *session) {
    return session->is_gone;
}

static void work_main(void *arg) {
    struct vk_session *session = arg;
    session->work(session->work_ctx);
    session->is_work_done = true;
    cc_event_set(&session->changed);
}

static void receive_main(void *arg) {
    struct vk_session *session = arg;
    struct cc_err err = {0};
    if (session->ops->run(session, &err) != 0 && !cc_fiber_is_canceled())
        cc_log_debug("session broke", CC_KV("error", err.msg));
    vk_session_tell_gone(session);
}

static int await_change(struct vk_session *session) {
    cc_event_clear(&session->changed);
    return cc_event_wait(&session->changed, NULL);
}

static int await_work(struct vk_session *session) {
    int rc = 0;
    while (rc == 0 && !session->is_work_done && !session->is_gone)
        rc = await_change(session);
    return rc;
}

/* The client reads the status and closes; were the connection closed before, what is under way could be lost. */
static void await_goodbye(struct vk_session *session) {
    int rc = 0;
    CC_SHIELD_MS(VK_SESSION_GOODBYE_MS);
    while (rc == 0 && !session->is_gone)
        rc = await_change(session);
}

/* To a client that reads on: nothing more comes (contract/08 4.5, session 4). */
static void leave(struct vk_session *session) {
    CC_SHIELD_MS(VK_SESSION_GOODBYE_MS);
    if (session->ops == &vk_session_spdy)
        cc_ignore(vk_spdy_link_goaway(&session->link, NULL), "the client has gone");
}

static void end_work(struct vk_session *session, vk_session_stop stop) {
    CC_SHIELD_MS(VK_SESSION_STOP_MS);
    stop(session->work_ctx);
    cc_ignore(await_work(session), "work is cancelled then");
}

void vk_session_serve(struct vk_session *session, vk_session_work work, vk_session_stop stop, void *ctx) {
    session->work = work;
    session->work_ctx = ctx;
    struct cc_fiber *receiver = cc_fiber_start(cc_loop_current(), "session receive", receive_main, session);
    struct cc_fiber *worker = receiver ? cc_fiber_start(cc_loop_current(), "session", work_main, session) : NULL;
    if (worker && await_work(session) == CC_CANCELED)
        end_work(session, stop);
    cc_fiber_join_p(&worker);
    if (session->is_work_done)
        await_goodbye(session);
    if (!session->is_gone)
        leave(session);
    cc_fiber_join_p(&receiver);
}
