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

void vk_session_serve(struct vk_session *session, vk_session_work work, void *ctx) {
    session->work = work;
    session->work_ctx = ctx;
    struct cc_fiber *receiver = cc_fiber_start(cc_loop_current(), "session receive", receive_main, session);
    struct cc_fiber *worker = receiver ? cc_fiber_start(cc_loop_current(), "session", work_main, session) : NULL;
    int rc = worker ? 0 : CC_LIMIT;
    while (rc == 0 && !session->is_work_done && !session->is_gone)
        rc = await_change(session);
    cc_fiber_join_p(&worker);
    if (rc == 0 && !session->is_gone) {
        CC_DEADLINE_MS(VK_SESSION_GOODBYE_MS);
        while (rc == 0 && !session->is_gone)
            rc = await_change(session);
    }
    cc_fiber_join_p(&receiver);
}
