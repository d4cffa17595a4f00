#include "kubelet/spdy_link.h"

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/assert.h"

#define FRAME_BYTES_MAX (VK_LINK_READ_BYTES + CC_SPDY_CONTROL_BYTES_MAX + 64)

void vk_spdy_link_init(struct vk_spdy_link *link) {
    link->spdy = cc_spdy_new();
    link->last_activity = cc_now_mono();
}

void vk_spdy_link_done(struct vk_spdy_link *link) {
    cc_spdy_free(link->spdy);
    link->spdy = NULL;
}

/* --- sending --------------------------------------------------------------------------------------------------------
 */

static int send_frame(struct vk_spdy_link *link, const struct cc_buf *frame, struct cc_err *err) {
    int rc = cc_buf_check(frame, "SPDY frame", err);
    if (rc == 0)
        rc = link->writer.write(link->writer.ctx, frame->data, frame->len, err);
    link->last_activity = cc_now_mono();
    return rc;
}

enum frame { FRAME_REPLY, FRAME_DATA, FRAME_RESET, FRAME_PING, FRAME_GOAWAY };
struct frame_content {
    enum frame type;
    uint32_t stream, status;
    bool is_final;
    const void *bytes;
    size_t count;
};

static int send_content(struct vk_spdy_link *link, const struct frame_content *content, struct cc_err *err) {
    struct cc_buf frame cc_cleanup(cc_buf_done);
    cc_buf_init(&frame, FRAME_BYTES_MAX);
    int rc = cc_mutex_lock(&link->writing, err);
    if (rc != 0)
        return rc;
    /* Inside the lock: compressed headers must leave in the order in which they were compressed. */
    switch (content->type) {
    case FRAME_REPLY:
        cc_spdy_put_reply(link->spdy, content->stream, &frame);
        break;
    case FRAME_DATA:
        cc_spdy_put_data_header(content->stream, content->is_final, content->count, &frame);
        cc_buf_append(&frame, content->bytes, content->count);
        break;
    case FRAME_RESET:
        cc_spdy_put_reset(content->stream, content->status, &frame);
        break;
    case FRAME_PING:
        cc_spdy_put_ping(content->stream, &frame);
        break;
    case FRAME_GOAWAY:
        cc_spdy_put_goaway(content->stream, &frame);
        break;
    }
    rc = send_frame(link, &frame, err);
    cc_mutex_unlock(&link->writing);
    return rc;
}

int vk_spdy_link_data(struct vk_spdy_link *link, uint32_t stream, bool is_final, const void *bytes, size_t count,
                      struct cc_err *err) {
    cc_assert(count <= VK_LINK_READ_BYTES);
    struct frame_content content = {
        .type = FRAME_DATA, .stream = stream, .is_final = is_final, .bytes = bytes, .count = count};
    return send_content(link, &content, err);
}

int vk_spdy_link_reply(struct vk_spdy_link *link, uint32_t stream, struct cc_err *err) {
    return send_content(link, &(struct frame_content){.type = FRAME_REPLY, .stream = stream}, err);
}

int vk_spdy_link_reset(struct vk_spdy_link *link, uint32_t stream, uint32_t status, struct cc_err *err) {
    return send_content(link, &(struct frame_content){.type = FRAME_RESET, .stream = stream, .status = status}, err);
}

int vk_spdy_link_goaway(struct vk_spdy_link *link, struct cc_err *err) {
    return send_content(link, &(struct frame_content){.type = FRAME_GOAWAY, .stream = link->last_stream}, err);
}

/* --- receiving ------------------------------------------------------------------------------------------------------
 */

int vk_read_until_idle(struct cc_reader *reader, struct cc_mono *last_activity, void *bytes, size_t capacity,
                       size_t *ret_count, struct cc_err *err) {
    for (;;) {
        int64_t silent_ms = cc_mono_diff_ms(cc_now_mono(), *last_activity);
        if (silent_ms >= VK_IDLE_MS)
            return cc_err_set(err, CC_TIMEOUT, "the session was silent for %lld h", (long long)(VK_IDLE_MS / 3600000));
        int rc;
        {
            CC_DEADLINE_MS(VK_IDLE_MS - silent_ms);
            rc = reader->read(reader->ctx, bytes, capacity, ret_count, err);
        }
        if (rc == 0)
            *last_activity = cc_now_mono();
        /* What was sent meanwhile has moved the end. */
        if (rc != CC_TIMEOUT)
            return rc;
        rc = cc_yield(err);
        if (rc != 0)
            return rc;
    }
}

static int handle(struct vk_spdy_link *link, const struct cc_spdy_event *event, vk_spdy_handler handler, void *ctx,
                  struct cc_err *err) {
    switch (event->type) {
    case CC_SPDY_NOTHING:
        return 0;
    case CC_SPDY_PING: /* an even id would be the answer to a ping of ours: we send none */
        return event->stream % 2 == 0
                   ? 0
                   : send_content(link, &(struct frame_content){.type = FRAME_PING, .stream = event->stream}, err);
    case CC_SPDY_STREAM:
        if (event->stream % 2 == 0 || event->stream <= link->last_stream)
            return cc_err_set(err, CC_PROTOCOL, "SPDY: stream %u was opened after %u", event->stream,
                              link->last_stream);
        link->last_stream = event->stream;
        break;
    case CC_SPDY_DATA:
    case CC_SPDY_RESET:
    case CC_SPDY_GOAWAY:
        break;
    }
    return handler(ctx, event, err);
}

int vk_spdy_link_run(struct vk_spdy_link *link, vk_spdy_handler handler, void *ctx, struct cc_err *err) {
    uint8_t *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    for (;;) {
        size_t count = 0;
        int rc = vk_read_until_idle(&link->reader, &link->last_activity, bytes, VK_LINK_READ_BYTES, &count, err);
        if (rc != 0 || count == 0)
            return rc;
        for (size_t at = 0, used = 0; at < count; at += used) {
            struct cc_spdy_event event;
            rc = cc_spdy_feed(link->spdy, bytes + at, count - at, &used, &event, err);
            if (rc == 0)
                rc = handle(link, &event, handler, ctx, err);
            if (rc == 0)
                rc = cc_yield_if_due(err);
            if (rc != 0)
                return rc;
        }
    }
}
