/* Correlation of events (contract/04 B6): which become new objects, which raise a count, which are dropped. No I/O, no
 * clock: for event_recorder.c and its tests. */
#ifndef CC_KUBE_EVENT_CACHE_H
#define CC_KUBE_EVENT_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define CC_EVENT_SIMILAR_MAX 10 /* the tenth different message within the window is combined */
#define CC_EVENT_SIMILAR_WINDOW_S 600
#define CC_EVENT_BURST 25     /* per source, object and type */
#define CC_EVENT_REFILL_S 300 /* one more event */
#define CC_EVENT_COMBINED_PREFIX "(combined from similar events): "

struct cc_event_cache;
/* capacity: entries of each of its three tables, the least recently used go first. */
struct cc_event_cache *cc_event_cache_new(unsigned capacity);
void cc_event_cache_free(struct cc_event_cache *cache);

struct cc_event_verdict {
    bool drop;        /* over the object's budget */
    bool combined;    /* the message gets the prefix */
    int64_t count;    /* 1 = a new Event, else the count of the earlier one goes up to this */
    const char *name; /* of the earlier Event, "" for a new one; borrowed until the next call */
    struct cc_wall first;
};
/* spam_key: source, object and type. group_key: that and the reason. name: of the Event that is made if it is new. The
 * cache remembers the event as sent. */
void cc_event_cache_add(struct cc_event_cache *cache, const char *spam_key, const char *group_key, const char *message,
                        const char *name, struct cc_wall now, struct cc_event_verdict *ret);
/* How many of the three tables' entries there are, for tests. */
unsigned cc_event_cache_count(const struct cc_event_cache *cache);

#endif
