#include "kube/work_queue.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "aio/fiber.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "kube/work_queue_internal.h"

#define BACKOFF_BASE_MS 5
#define BACKOFF_CAP_MS 300000 /* decision 56 */

enum priority { NORMAL, LOW, PRIORITIES };

/* A key is in at most one of: ready (in a list), waiting (timer armed), idle; and it may be processed at the same time,
 * then `again` stands for ready. */
struct item {
    UT_hash_handle hh;
    struct item *prev, *next;
    struct cc_work_queue *queue;
    struct cc_timer timer;
    enum priority priority; /* of the ready list, or of `again` */
    bool ready, processing, again;
    size_t failures;
    struct cc_mono ready_at, started_at;
    char key[];
};

struct queue_metrics {
    struct cc_metrics *registry;
    struct cc_metric *depth, *adds, *retries, *wait_s, *work_s, *unfinished_s, *longest_s;
};

struct cc_work_queue {
    struct cc_loop *loop;
    const char *name;
    int64_t backoff_base_ms, backoff_cap_ms;
    struct item *items; /* by key */
    struct item *ready[PRIORITIES];
    size_t ready_count[PRIORITIES], processing_count;
    struct cc_event available; /* set while a key is ready */
    struct queue_metrics metrics;
};

/* --- metrics (contract/04 B7) ------------------------------------------------------------------------------------- */

static const double duration_bounds[] = {1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000};

static double seconds_since(const struct cc_work_queue *queue, struct cc_mono start) {
    return (double)(cc_loop_now_mono(queue->loop).ns - start.ns) / 1e9;
}

static const char *const *labels_of(const struct cc_work_queue *queue, const char *labels[2]) {
    labels[0] = labels[1] = queue->name;
    return labels;
}

static void show_depth(const struct cc_work_queue *queue, enum priority priority) {
    cc_metric_set(queue->metrics.depth, (double)queue->ready_count[priority],
                  (const char *[]){queue->name, queue->name, priority == LOW ? "-100" : "0"});
}

static void collect_running(void *ctx) {
    struct cc_work_queue *queue = ctx;
    const char *labels[2];
    double sum = 0, longest = 0;

    for (const struct item *item = queue->items; item; item = item->hh.next) {
        double seconds = item->processing ? seconds_since(queue, item->started_at) : 0;

        sum += seconds;
        longest = seconds > longest ? seconds : longest;
    }
    cc_metric_set(queue->metrics.unfinished_s, sum, labels_of(queue, labels));
    cc_metric_set(queue->metrics.longest_s, longest, labels_of(queue, labels));
}

static void declare_metrics(struct cc_work_queue *queue, struct cc_metrics *registry) {
    static const char *const labels[] = {"name", "controller", NULL};
    static const char *const depth_labels[] = {"name", "controller", "priority", NULL};
    struct queue_metrics *metrics = &queue->metrics;
    const char *values[2];

    metrics->registry = registry;
    metrics->depth = cc_queue_gauge(registry, "workqueue_depth", "Keys that are ready.", depth_labels);
    metrics->adds = cc_queue_counter(registry, "workqueue_adds_total", "Keys added.", labels);
    metrics->retries = cc_queue_counter(registry, "workqueue_retries_total", "Keys added with a delay.", labels);
    metrics->wait_s = cc_queue_histogram(registry, "workqueue_queue_duration_seconds", "Time from ready to taken.",
                                         labels, duration_bounds, CC_ARRAY_LENGTH(duration_bounds));
    metrics->work_s = cc_queue_histogram(registry, "workqueue_work_duration_seconds", "Time of processing.", labels,
                                         duration_bounds, CC_ARRAY_LENGTH(duration_bounds));
    metrics->unfinished_s = cc_queue_gauge(registry, "workqueue_unfinished_work_seconds",
                                           "Time spent so far on keys being processed.", labels);
    metrics->longest_s = cc_queue_gauge(registry, "workqueue_longest_running_processor_seconds",
                                        "Time spent so far on the oldest key being processed.", labels);
    cc_metric_add(metrics->adds, 0, labels_of(queue, values));
    cc_metric_add(metrics->retries, 0, labels_of(queue, values));
    show_depth(queue, NORMAL);
    if (registry)
        cc_metrics_on_collect(registry, collect_running, queue);
}

/* --- construction
 * ----------------------------------------------------------------------------------------------------- */

struct cc_work_queue *cc_work_queue_new(struct cc_loop *loop, const struct cc_work_queue_options *options) {
    struct cc_work_queue *queue = CC_NEW(struct cc_work_queue);

    queue->loop = loop;
    queue->name = options->name;
    queue->backoff_base_ms = options->backoff_base_ms > 0 ? options->backoff_base_ms : BACKOFF_BASE_MS;
    queue->backoff_cap_ms = options->backoff_cap_ms > 0 ? options->backoff_cap_ms : BACKOFF_CAP_MS;
    declare_metrics(queue, options->metrics);
    return queue;
}

static void release(struct cc_work_queue *queue, struct item *item) {
    cc_timer_stop(queue->loop, &item->timer);
    HASH_DELETE(hh, queue->items, item);
    free(item);
}

void cc_work_queue_free(struct cc_work_queue *queue) {
    struct item *item, *next;

    if (!queue)
        return;
    cc_assert(queue->processing_count == 0);
    if (queue->metrics.registry)
        cc_metrics_off_collect(queue->metrics.registry, collect_running, queue);
    HASH_ITER (hh, queue->items, item, next) {
        release(queue, item);
    }
    free(queue);
}

/* --- items
 * ------------------------------------------------------------------------------------------------------------ */

static struct item *find(const struct cc_work_queue *queue, const char *key) {
    struct item *item = NULL;

    HASH_FIND_STR(queue->items, key, item);
    return item;
}

static void push(struct cc_work_queue *queue, struct item *item, enum priority priority) {
    item->ready = true;
    item->priority = priority;
    item->ready_at = cc_loop_now_mono(queue->loop);
    DL_APPEND(queue->ready[priority], item);
    queue->ready_count[priority]++;
    show_depth(queue, priority);
    cc_event_set(&queue->available);
}

static void unlink_ready(struct cc_work_queue *queue, struct item *item) {
    DL_DELETE(queue->ready[item->priority], item);
    queue->ready_count[item->priority]--;
    item->ready = false;
    show_depth(queue, item->priority);
    if (queue->ready_count[NORMAL] + queue->ready_count[LOW] == 0)
        cc_event_clear(&queue->available);
}

/* Runs as soon as a worker is free; a later due time is covered by that. */
static void make_ready(struct cc_work_queue *queue, struct item *item, enum priority priority) {
    const char *labels[2];
    bool is_new = !item->ready && !item->again;

    cc_timer_stop(queue->loop, &item->timer);
    if (is_new)
        cc_metric_add(queue->metrics.adds, 1, labels_of(queue, labels));
    if (item->processing) {
        item->priority = is_new || priority < item->priority ? priority : item->priority;
        item->again = true;
    } else if (is_new) {
        push(queue, item, priority);
    } else if (priority < item->priority) {
        struct cc_mono ready_at = item->ready_at;

        unlink_ready(queue, item);
        push(queue, item, priority);
        item->ready_at = ready_at;
    }
}

static void fire(struct cc_timer *timer) {
    struct item *item = cc_container_of(timer, struct item, timer);

    make_ready(item->queue, item, NORMAL);
}

static struct item *find_or_add(struct cc_work_queue *queue, const char *key) {
    struct item *item = find(queue, key);
    size_t length = strlen(key);

    if (item)
        return item;
    item = cc_xcalloc(1, sizeof *item + length + 1);
    memcpy(item->key, key, length + 1);
    item->queue = queue;
    item->timer.fire = fire;
    HASH_ADD_KEYPTR(hh, queue->items, item->key, length, item);
    return item;
}

static bool is_waiting(const struct item *item) {
    return item->timer.slot != 0;
}

static void release_if_idle(struct cc_work_queue *queue, struct item *item) {
    if (!item->ready && !item->processing && item->failures == 0 && !is_waiting(item))
        release(queue, item);
}

void cc_work_queue_add(struct cc_work_queue *queue, const char *key, bool low_priority) {
    make_ready(queue, find_or_add(queue, key), low_priority ? LOW : NORMAL);
}

static void make_due(struct cc_work_queue *queue, struct item *item, int64_t delay_ms) {
    struct cc_mono due = cc_mono_add_ms(cc_loop_now_mono(queue->loop), delay_ms);
    const char *labels[2];

    cc_metric_add(queue->metrics.retries, 1, labels_of(queue, labels));
    if (item->ready || item->again || (is_waiting(item) && !cc_mono_is_before(due, item->timer.due)))
        return;
    cc_timer_start(queue->loop, &item->timer, due);
}

void cc_work_queue_add_after(struct cc_work_queue *queue, const char *key, int64_t delay_ms) {
    if (delay_ms <= 0)
        cc_work_queue_add(queue, key, false);
    else
        make_due(queue, find_or_add(queue, key), delay_ms);
}

static int64_t backoff_ms(const struct cc_work_queue *queue, size_t failures) {
    int64_t delay_ms = queue->backoff_base_ms;

    for (size_t i = 0; i < failures && delay_ms < queue->backoff_cap_ms; i++)
        delay_ms *= 2;
    return delay_ms < queue->backoff_cap_ms ? delay_ms : queue->backoff_cap_ms;
}

void cc_work_queue_add_rate_limited(struct cc_work_queue *queue, const char *key) {
    struct item *item = find_or_add(queue, key);

    make_due(queue, item, backoff_ms(queue, item->failures++));
}

void cc_work_queue_forget(struct cc_work_queue *queue, const char *key) {
    struct item *item = find(queue, key);

    if (!item)
        return;
    item->failures = 0;
    release_if_idle(queue, item);
}

size_t cc_work_queue_failures(const struct cc_work_queue *queue, const char *key) {
    const struct item *item = find(queue, key);

    return item ? item->failures : 0;
}

size_t cc_work_queue_depth(const struct cc_work_queue *queue) {
    return queue->ready_count[NORMAL] + queue->ready_count[LOW] + queue->processing_count;
}

/* --- taking
 * ----------------------------------------------------------------------------------------------------------- */

int cc_work_queue_get(struct cc_work_queue *queue, const char **ret_key, struct cc_err *err) {
    const char *labels[2];
    struct item *item;

    /* Another worker may have been faster: look again after each wait. */
    while (!(item = queue->ready[NORMAL] ? queue->ready[NORMAL] : queue->ready[LOW])) {
        int rc = cc_event_wait(&queue->available, err);

        if (rc)
            return rc;
    }
    if (cc_fiber_is_canceled())
        return cc_err_set(err, CC_CANCELED, "the worker is being stopped");
    unlink_ready(queue, item);
    item->processing = true;
    item->started_at = cc_loop_now_mono(queue->loop);
    queue->processing_count++;
    cc_metric_observe(queue->metrics.wait_s, seconds_since(queue, item->ready_at), labels_of(queue, labels));
    *ret_key = item->key;
    return 0;
}

void cc_work_queue_done(struct cc_work_queue *queue, const char *key) {
    struct item *item = find(queue, key);
    const char *labels[2];

    cc_assert(item && item->processing);
    item->processing = false;
    queue->processing_count--;
    cc_metric_observe(queue->metrics.work_s, seconds_since(queue, item->started_at), labels_of(queue, labels));
    if (item->again) {
        item->again = false;
        push(queue, item, item->priority);
    } else {
        release_if_idle(queue, item);
    }
}
