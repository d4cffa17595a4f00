#include <stdlib.h>

#include "aio/sync.h"
#include "aio/waitlist.h"
#include "base/alloc.h"
#include "base/assert.h"

struct cc_channel {
    size_t capacity, head, count;
    bool closed;
    void (*drop)(void *item);
    struct cc_waitlist senders, receivers;
    void *items[];
};

static bool can_send(const void *object, const struct cc_waiter *waiter CC_UNUSED) {
    const struct cc_channel *channel = object;
    return channel->closed || channel->count < channel->capacity;
}

static bool can_receive(const void *object, const struct cc_waiter *waiter CC_UNUSED) {
    const struct cc_channel *channel = object;
    return channel->closed || channel->count > 0;
}

struct cc_channel *cc_channel_new(size_t capacity, void (*drop)(void *item)) {
    cc_assert(capacity > 0 && capacity <= CC_CHANNEL_ITEMS_MAX);
    struct cc_channel *channel = cc_xcalloc(1, sizeof *channel + capacity * sizeof channel->items[0]);
    channel->capacity = capacity;
    channel->drop = drop;
    return channel;
}

static void *take_first(struct cc_channel *channel) {
    void *item = channel->items[channel->head];
    channel->head = (channel->head + 1) % channel->capacity;
    channel->count--;
    return item;
}

void cc_channel_free(struct cc_channel *channel) {
    if (!channel)
        return;
    cc_assert(!channel->senders.first && !channel->receivers.first);
    while (channel->count > 0) {
        void *item = take_first(channel);
        if (channel->drop)
            channel->drop(item);
    }
    free(channel);
}

/* Both sides get a look: the one that made room or an item, and the next of one's own kind. */
static void pass_on(struct cc_channel *channel) {
    cc_waitlist_pass_on(&channel->senders, can_send, channel);
    cc_waitlist_pass_on(&channel->receivers, can_receive, channel);
}

static void put_last(struct cc_channel *channel, void *item) {
    channel->items[(channel->head + channel->count) % channel->capacity] = item;
    channel->count++;
    pass_on(channel);
}

int cc_channel_send(struct cc_channel *channel, void *item, struct cc_err *err) {
    int rc = cc_waitlist_wait(&channel->senders, can_send, channel, 0, "room in a channel", err);
    if (rc != 0)
        return rc;
    if (channel->closed) {
        pass_on(channel);
        return cc_err_set(err, CC_GONE, "the channel is closed");
    }
    put_last(channel, item);
    return 0;
}

bool cc_channel_try_send(struct cc_channel *channel, void *item) {
    if (channel->closed || channel->count == channel->capacity || channel->senders.first)
        return false;
    put_last(channel, item);
    return true;
}

int cc_channel_receive(struct cc_channel *channel, void **ret, struct cc_err *err) {
    int rc = cc_waitlist_wait(&channel->receivers, can_receive, channel, 0, "an item of a channel", err);
    if (rc != 0)
        return rc;
    bool empty = channel->count == 0;
    if (!empty)
        *ret = take_first(channel);
    pass_on(channel);
    return empty ? cc_err_set(err, CC_GONE, "the channel is closed") : 0;
}

bool cc_channel_try_receive(struct cc_channel *channel, void **ret) {
    if (channel->count == 0 || channel->receivers.first)
        return false;
    *ret = take_first(channel);
    pass_on(channel);
    return true;
}

void cc_channel_close(struct cc_channel *channel) {
    channel->closed = true;
    pass_on(channel);
}

size_t cc_channel_count(const struct cc_channel *channel) {
    return channel->count;
}
