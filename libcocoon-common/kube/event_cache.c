#include "kube/event_cache.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/alloc.h"

/* --- tables that forget the least recently used ------------------------------------------------------------------- */

struct entry {
    UT_hash_handle hh;
    char *key;
    /* similar messages of a group */
    char *messages[CC_EVENT_SIMILAR_MAX];
    unsigned message_count;
    struct cc_wall last;
    /* an Event that was made */
    char *name;
    int64_t count;
    struct cc_wall first;
    /* budget of an object */
    double tokens;
};

struct table {
    struct entry *entries; /* in order of use: uthash keeps the order of insertion */
    unsigned capacity;
};

struct cc_event_cache {
    struct table groups, events, budgets;
};

static void drop_entry(struct table *table, struct entry *entry) {
    HASH_DELETE(hh, table->entries, entry);
    for (unsigned i = 0; i < entry->message_count; i++)
        free(entry->messages[i]);
    free(entry->name);
    free(entry->key);
    free(entry);
}

static void clear(struct table *table) {
    struct entry *entry, *next;

    HASH_ITER (hh, table->entries, entry, next) {
        drop_entry(table, entry);
    }
}

/* The entry, now the most recently used; *ret_new when it had to be made. */
static struct entry *use(struct table *table, const char *key, bool *ret_new) {
    struct entry *entry = NULL;

    HASH_FIND_STR(table->entries, key, entry);
    *ret_new = !entry;
    if (entry) {
        HASH_DELETE(hh, table->entries, entry);
    } else {
        if (HASH_COUNT(table->entries) >= table->capacity)
            drop_entry(table, table->entries);
        entry = CC_NEW(struct entry);
        entry->key = cc_xstrdup(key);
    }
    HASH_ADD_KEYPTR(hh, table->entries, entry->key, strlen(entry->key), entry);
    return entry;
}

struct cc_event_cache *cc_event_cache_new(unsigned capacity) {
    struct cc_event_cache *cache = CC_NEW(struct cc_event_cache);

    cache->groups.capacity = cache->events.capacity = cache->budgets.capacity = capacity;
    return cache;
}

void cc_event_cache_free(struct cc_event_cache *cache) {
    if (!cache)
        return;
    clear(&cache->groups);
    clear(&cache->events);
    clear(&cache->budgets);
    free(cache);
}

unsigned cc_event_cache_count(const struct cc_event_cache *cache) {
    return HASH_COUNT(cache->groups.entries) + HASH_COUNT(cache->events.entries) + HASH_COUNT(cache->budgets.entries);
}

/* --- the rules
 * -------------------------------------------------------------------------------------------------------- */

static int64_t seconds_between(struct cc_wall earlier, struct cc_wall later) {
    return (later.ns - earlier.ns) / CC_NS_PER_S;
}

static bool has_message(const struct entry *group, const char *message) {
    for (unsigned i = 0; i < group->message_count; i++) {
        if (strcmp(group->messages[i], message) == 0)
            return true;
    }
    return false;
}

static void forget_messages(struct entry *group) {
    for (unsigned i = 0; i < group->message_count; i++)
        free(group->messages[i]);
    group->message_count = 0;
}

/* True when this message is one of too many different ones. One is forgotten then, so that the set never grows beyond
 * the limit and the earlier messages still count for themselves. */
static bool is_combined(struct cc_event_cache *cache, const char *group_key, const char *message, struct cc_wall now) {
    bool is_new;
    struct entry *group = use(&cache->groups, group_key, &is_new);

    if (!is_new && seconds_between(group->last, now) > CC_EVENT_SIMILAR_WINDOW_S)
        forget_messages(group);
    group->last = now;
    if (has_message(group, message))
        return false;
    group->messages[group->message_count++] = cc_xstrdup(message);
    if (group->message_count < CC_EVENT_SIMILAR_MAX)
        return false;
    free(group->messages[0]);
    memmove(&group->messages[0], &group->messages[1], (CC_EVENT_SIMILAR_MAX - 1) * sizeof group->messages[0]);
    group->message_count--;
    return true;
}

static bool is_within_budget(struct cc_event_cache *cache, const char *spam_key, struct cc_wall now) {
    bool is_new;
    struct entry *budget = use(&cache->budgets, spam_key, &is_new);

    if (is_new)
        budget->tokens = CC_EVENT_BURST;
    else if (now.ns > budget->last.ns)
        budget->tokens += (double)(now.ns - budget->last.ns) / ((double)CC_EVENT_REFILL_S * 1e9);
    if (budget->tokens > CC_EVENT_BURST)
        budget->tokens = CC_EVENT_BURST;
    budget->last = now;
    if (budget->tokens < 1)
        return false;
    budget->tokens -= 1;
    return true;
}

void cc_event_cache_add(struct cc_event_cache *cache, const char *spam_key, const char *group_key, const char *message,
                        const char *name, struct cc_wall now, struct cc_event_verdict *ret) {
    bool combined = is_combined(cache, group_key, message, now);
    /* 0x1f is in no name and no message that is published as one line. */
    char *event_key cc_cleanup(cc_free_p) =
        combined ? cc_xasprintf("%s\x1f", group_key) : cc_xasprintf("%s\x1f\x1f%s", group_key, message);
    bool is_new;
    struct entry *event = use(&cache->events, event_key, &is_new);

    if (is_new) {
        event->name = cc_xstrdup(name);
        event->first = now;
    }
    event->count++;
    *ret = (struct cc_event_verdict){
        .drop = !is_within_budget(cache, spam_key, now),
        .combined = combined,
        .count = event->count,
        .name = is_new ? "" : event->name,
        .first = event->first,
    };
}
