/* An upgraded connection that speaks SPDY/3.1: one fiber receives, several send. contract/08 4.5. */
#ifndef VK_KUBELET_SPDY_LINK_H
#define VK_KUBELET_SPDY_LINK_H

#include "aio/io.h"
#include "aio/sync.h"
#include "base/attributes.h"
#include "base/error.h"
#include "http/spdy.h"

#define VK_IDLE_MS INT64_C(14400000) /* without a byte in either direction */
#define VK_LINK_READ_BYTES ((size_t)32 * 1024)

struct vk_spdy_link {
    struct cc_reader reader;
    struct cc_writer writer;
    struct cc_mutex writing; /* a frame is sent whole */
    struct cc_spdy *spdy;
    uint32_t last_stream; /* that the client opened */
    struct cc_mono last_activity;
};
void vk_spdy_link_init(struct vk_spdy_link *link);
void vk_spdy_link_done(struct vk_spdy_link *link);

/* Receives until the client closes (0), breaks the protocol, says nothing for VK_IDLE_MS (TIMEOUT), or the handler
 * gives an error. Pings are answered here; the handler gets streams, data, resets and GOAWAYs. Stream ids of the client
 * are odd and rise: anything else is PROTOCOL. */
typedef CC_YIELDS int (*vk_spdy_handler)(void *ctx, const struct cc_spdy_event *event, struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_spdy_link_run(struct vk_spdy_link *link, vk_spdy_handler handler, void *ctx,
                                           struct cc_err *err);

/* One data frame; at most VK_LINK_READ_BYTES. Waits while the client takes nothing. */
CC_YIELDS CC_MUST_USE int vk_spdy_link_data(struct vk_spdy_link *link, uint32_t stream, bool is_final,
                                            const void *bytes, size_t count, struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_spdy_link_reply(struct vk_spdy_link *link, uint32_t stream, struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_spdy_link_reset(struct vk_spdy_link *link, uint32_t stream, uint32_t status,
                                             struct cc_err *err);
CC_YIELDS CC_MUST_USE int vk_spdy_link_goaway(struct vk_spdy_link *link, struct cc_err *err);

/* For both kinds of connections: one read, where only silence in both directions is TIMEOUT. */
CC_YIELDS CC_MUST_USE int vk_read_until_idle(struct cc_reader *reader, struct cc_mono *last_activity, void *bytes,
                                             size_t capacity, size_t *ret_count, struct cc_err *err);

#endif
