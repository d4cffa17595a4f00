#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "kube/watch_cache.h"
#include "obs/log.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/vectors.h"
#include "support/widget.h"

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

/* What the handler saw, as text: "+a=1! ~a=1>2 -a=2", '!' = initial. */
struct world {
    struct fake_kube *fake;
    struct cc_kube kube;
    struct cc_cache *cache;
    size_t by_group;
    char seen[4096];
    int errors;
    int max_size; /* of kept widgets; 0 = all */
};

static void on_change(void *ctx, const struct cc_object *old_object, const struct cc_object *new_object, bool initial) {
    struct world *w = ctx;
    char text[128];
    const char *mark = initial ? "!" : "";

    if (!old_object)
        snprintf(text, sizeof text, "+%s=%d%s ", new_object->meta.name, (int)widget_of(new_object)->size, mark);
    else if (!new_object)
        snprintf(text, sizeof text, "-%s=%d%s ", old_object->meta.name, (int)widget_of(old_object)->size, mark);
    else
        snprintf(text, sizeof text, "~%s=%d>%d%s ", new_object->meta.name, (int)widget_of(old_object)->size,
                 (int)widget_of(new_object)->size, mark);
    ck_assert_uint_lt(strlen(w->seen) + strlen(text), sizeof w->seen);
    strcat(w->seen, text);
}

static const char *group_of(const struct cc_object *object, struct cc_arena *arena CC_UNUSED) {
    return widget_of(object)->group;
}

static bool keep_small(void *ctx, const struct cc_object *object) {
    const struct world *w = ctx;

    return w->max_size == 0 || widget_of(object)->size <= w->max_size;
}

static void count_errors(void *ctx, enum cc_log_level level, const char *message CC_UNUSED,
                         const struct cc_log_field *fields CC_UNUSED, size_t count CC_UNUSED) {
    struct world *w = ctx;

    w->errors += level == CC_LOG_ERROR;
}

static void world_open(struct world *w) {
    *w = (struct world){.fake = fake_kube_new(cc_loop_current())};
    w->kube.transport = fake_kube_transport(w->fake);
    widget_register(w->fake);
    cc_log_set_sink(count_errors, w);
    struct cc_cache_options options = {
        .kube = &w->kube,
        .selection = {.resource = &widget_resource, .namespace = ""},
        .keep = keep_small,
        .keep_ctx = w,
    };
    w->cache = cc_cache_new(cc_loop_current(), &options);
    w->by_group = cc_cache_add_index(w->cache, group_of);
    cc_cache_add_handler(w->cache, on_change, w);
}

static void world_start(struct world *w) {
    struct cc_err err = {0};

    cc_cache_start(w->cache);
    ck_assert_msg(cc_cache_wait_synced(w->cache, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
}

static void settle(void) {
    ck_assert_int_eq(cc_sleep_ms(10, NULL), 0);
}

static void check_seen(struct world *w, const char *wanted) {
    ck_assert_str_eq(w->seen, wanted);
    w->seen[0] = '\0';
}

static void world_close(struct world *w) {
    cc_cache_free(w->cache);
    cc_log_set_sink(NULL, NULL);
    ck_assert_uint_eq(fake_kube_watch_count(w->fake, NULL), 0);
    fake_kube_free(w->fake);
}

static void check_names(struct cc_object_list *list, const char *wanted) {
    char text[512] = "";

    for (size_t i = 0; i < list->count; i++) {
        strcat(text, list->items[i]->meta.name);
        strcat(text, " ");
    }
    cc_object_list_done(list);
    ck_assert_str_eq(text, wanted);
}

FIBER_TEST(cache__follows_the_server) {
    struct world w;
    struct cc_object_list list;

    world_open(&w);
    widget_put(w.fake, "b", 2, "x");
    widget_put(w.fake, "a", 1, "y");
    ck_assert(!cc_cache_is_synced(w.cache));
    world_start(&w);
    check_seen(&w, "+a=1! +b=2! ");
    widget_put(w.fake, "c", 3, "x");
    widget_put(w.fake, "a", 7, "x");
    fake_kube_drop(w.fake, "widgets", "ns", "b");
    settle();
    check_seen(&w, "+c=3 ~a=1>7 -b=2 ");
    ck_assert_uint_eq(cc_cache_count(w.cache), 2);
    const struct cc_object *object = cc_cache_get(w.cache, "ns", "a");
    ck_assert_int_eq(widget_of(object)->size, 7);
    cc_object_unref(object);
    ck_assert_ptr_null(cc_cache_get(w.cache, "ns", "b"));
    ck_assert_ptr_null(cc_cache_get(w.cache, "other", "a"));
    cc_cache_list(w.cache, &list);
    check_names(&list, "a c ");
    cc_cache_by_index(w.cache, w.by_group, "x", &list);
    check_names(&list, "a c ");
    cc_cache_by_index(w.cache, w.by_group, "y", &list);
    check_names(&list, "");
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 1);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "WATCH", NULL), 1);
    world_close(&w);
}

FIBER_TEST(cache__goes_on_from_a_bookmark) {
    struct world w;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    world_start(&w);
    for (int i = 0; i < 49; i++)
        fake_kube_put_pod(w.fake, "ns", "other", NULL, NULL, NULL);
    ck_assert_int_eq(fake_kube_resource_version(w.fake), 50);
    ck_assert_int_eq(cc_sleep_ms(2000, NULL), 0);
    fake_kube_bookmark(w.fake, NULL);
    settle();
    fake_kube_end_watches(w.fake, NULL, 0);
    settle();
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 1);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "WATCH", NULL), 2);
    ck_assert_ptr_nonnull(strstr(fake_kube_request_at(w.fake, "WATCH", NULL, 1)->path, "&resourceVersion=50&"));
    CC_VECTOR("04-77");
    const char *path = fake_kube_request_at(w.fake, "WATCH", NULL, 1)->path;
    ck_assert(strstr(path, "watch=1") && strstr(path, "allowWatchBookmarks=true"));
    const char *timeout = strstr(path, "timeoutSeconds=") + strlen("timeoutSeconds=");
    ck_assert_int_ge(atoi(timeout), 300);
    ck_assert_int_le(atoi(timeout), 600);
    world_close(&w);
}

FIBER_TEST(cache__lists_again_after_410_and_deletes_what_is_gone) {
    struct world w;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    widget_put(w.fake, "b", 2, NULL);
    world_start(&w);
    check_seen(&w, "+a=1! +b=2! ");
    fake_kube_hold_watches(w.fake, true);
    fake_kube_drop(w.fake, "widgets", "ns", "a");
    widget_put(w.fake, "b", 5, NULL);
    widget_put(w.fake, "c", 3, NULL);
    fake_kube_end_watches(w.fake, NULL, 410);
    settle();
    check_seen(&w, "-a=1 ~b=2>5 +c=3 ");
    fake_kube_hold_watches(w.fake, false);
    widget_put(w.fake, "d", 4, NULL);
    settle();
    check_seen(&w, "+d=4 ");
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 2);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "WATCH", NULL), 2);
    CC_VECTOR("04-78");

    /* The same by HTTP status. */
    fake_kube_hold_watches(w.fake, true);
    fake_kube_drop(w.fake, "widgets", "ns", "d");
    fake_kube_compact(w.fake);
    ck_assert_int_eq(cc_sleep_ms(2000, NULL), 0);
    fake_kube_end_watches(w.fake, NULL, 0);
    ck_assert_int_eq(cc_sleep_ms(5000, NULL), 0);
    check_seen(&w, "-d=4 ");
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 3);
    world_close(&w);
}

FIBER_TEST(cache__waits_out_a_throttled_watch) {
    struct world w;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    fake_kube_fail(w.fake,
                   &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS, .method = "WATCH", .status = 429, .count = 2});
    world_start(&w);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "WATCH", NULL), 1);
    ck_assert_int_eq(cc_sleep_ms(5500, NULL), 0);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "WATCH", "resourceVersion=1&"), 3);
    const struct cc_mono first = fake_kube_request_at(w.fake, "WATCH", NULL, 0)->at;
    const struct cc_mono second = fake_kube_request_at(w.fake, "WATCH", NULL, 1)->at;
    const struct cc_mono third = fake_kube_request_at(w.fake, "WATCH", NULL, 2)->at;
    ck_assert_int_ge(cc_mono_diff_ms(second, first), 800);
    ck_assert_int_le(cc_mono_diff_ms(second, first), 1600);
    ck_assert_int_ge(cc_mono_diff_ms(third, second), 1600);
    ck_assert_int_le(cc_mono_diff_ms(third, second), 3200);
    widget_put(w.fake, "a", 2, NULL);
    settle();
    check_seen(&w, "+a=1! ~a=1>2 ");
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 1);
    CC_VECTOR("04-79");
    world_close(&w);
}

/* Field case F08. */
FIBER_TEST(cache__one_malformed_object_fails_only_itself) {
    struct world w;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    widget_put_malformed(w.fake, "b");
    widget_put_malformed(w.fake, "d");
    widget_put(w.fake, "e", 5, NULL);
    world_start(&w);
    check_seen(&w, "+a=1! +e=5! ");
    ck_assert_int_eq(w.errors, 2);
    widget_put_malformed(w.fake, "b");
    fake_kube_drop(w.fake, "widgets", "ns", "d");
    settle();
    ck_assert_int_eq(w.errors, 3);
    /* The restart point follows the malformed ones too. */
    fake_kube_end_watches(w.fake, NULL, 0);
    ck_assert_int_eq(cc_sleep_ms(3000, NULL), 0);
    ck_assert_ptr_nonnull(strstr(fake_kube_request_at(w.fake, "WATCH", NULL, 1)->path, "resourceVersion=6&"));
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 1);
    ck_assert_int_eq(w.errors, 3);
    check_seen(&w, "");

    /* A known object that becomes unreadable is not a deleted one, also over a relist, and is logged once a version. */
    widget_put_malformed(w.fake, "e");
    settle();
    ck_assert_int_eq(w.errors, 4);
    fake_kube_end_watches(w.fake, NULL, 410);
    settle();
    check_seen(&w, "");
    ck_assert_int_eq(w.errors, 4);
    ck_assert_uint_eq(cc_cache_count(w.cache), 2);
    widget_put(w.fake, "e", 6, NULL);
    fake_kube_drop(w.fake, "widgets", "ns", "a");
    settle();
    check_seen(&w, "~e=5>6 -a=1 ");
    world_close(&w);
}

FIBER_TEST(cache__survives_malformed_frames) {
    struct world w;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    world_start(&w);
    fake_kube_inject(w.fake, "widgets", "{\"type\":\"MODIFIED\",\"object\":[]}\n");
    ck_assert_int_eq(cc_sleep_ms(4000, NULL), 0);
    widget_put(w.fake, "a", 2, NULL);
    settle();
    check_seen(&w, "+a=1! ~a=1>2 ");
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 2);
    world_close(&w);
}

FIBER_TEST(cache__filters) {
    struct world w;

    world_open(&w);
    w.max_size = 10;
    widget_put(w.fake, "a", 1, NULL);
    widget_put(w.fake, "b", 20, NULL);
    world_start(&w);
    check_seen(&w, "+a=1! ");
    widget_put(w.fake, "b", 2, NULL);
    widget_put(w.fake, "a", 11, NULL);
    widget_put(w.fake, "a", 12, NULL);
    settle();
    check_seen(&w, "+b=2 -a=1 ");
    fake_kube_drop(w.fake, "widgets", "ns", "a");
    settle();
    check_seen(&w, "");
    world_close(&w);
}

FIBER_TEST(cache__tells_an_object_made_again_from_a_changed_one) {
    struct world w;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    world_start(&w);
    fake_kube_hold_watches(w.fake, true);
    fake_kube_drop(w.fake, "widgets", "ns", "a");
    widget_put(w.fake, "a", 2, NULL);
    fake_kube_end_watches(w.fake, NULL, 410);
    settle();
    check_seen(&w, "+a=1! -a=1 +a=2 ");
    world_close(&w);
}

FIBER_TEST(cache__observes_own_writes_but_never_goes_back) {
    struct world w;
    struct cc_object *newer = NULL;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    world_start(&w);
    w.seen[0] = '\0';
    fake_kube_hold_watches(w.fake, true);
    widget_put(w.fake, "a", 2, NULL);
    widget_put(w.fake, "a", 3, NULL);
    ck_assert_int_eq(widget_decode(fake_kube_get(w.fake, "widgets", "ns", "a"), &newer, NULL), 0);
    cc_cache_observe(w.cache, newer);
    cc_cache_observe(w.cache, newer);
    check_seen(&w, "~a=1>3 ");
    fake_kube_step_watches(w.fake, 1);
    settle();
    check_seen(&w, "");
    fake_kube_hold_watches(w.fake, false);
    settle();
    check_seen(&w, "");
    widget_put(w.fake, "a", 4, NULL);
    settle();
    check_seen(&w, "~a=3>4 ");
    cc_cache_observe(w.cache, newer);
    check_seen(&w, "");
    fake_kube_drop(w.fake, "widgets", "ns", "a");
    settle();
    check_seen(&w, "-a=4 ");
    cc_cache_observe(w.cache, newer);
    check_seen(&w, "");
    ck_assert_uint_eq(cc_cache_count(w.cache), 0);
    cc_object_unref(newer);
    world_close(&w);
}

/* Field case F09 (a): the server throttles the first list for 34 s. */
FIBER_TEST(cache__waits_for_a_server_that_is_not_ready) {
    struct world w;
    struct cc_mono start = cc_now_mono();

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    fake_kube_fail(w.fake,
                   &(struct fake_kube_fault){
                       .kind = FAKE_KUBE_STATUS, .method = "LIST", .status = 429, .retry_after_s = 1, .count = 34});
    world_start(&w);
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 45000);
    ck_assert_uint_le(fake_kube_requests(w.fake, "LIST", NULL), 40);
    world_close(&w);
}

/* Field case F09 (b). */
FIBER_TEST(cache__asks_without_a_version_when_it_is_too_large) {
    struct world w;

    world_open(&w);
    widget_put(w.fake, "a", 1, NULL);
    world_start(&w);
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_STATUS,
                                                     .method = "WATCH",
                                                     .status = 504,
                                                     .cause_reason = "ResourceVersionTooLarge"});
    ck_assert_int_eq(cc_sleep_ms(2000, NULL), 0);
    fake_kube_end_watches(w.fake, NULL, 0);
    ck_assert_int_eq(cc_sleep_ms(60000, NULL), 0);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 2);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", "resourceVersion"), 0);
    check_seen(&w, "+a=1! ");
    world_close(&w);
}

FIBER_TEST(cache__gives_up_waiting_for_a_missing_crd) {
    struct world w;
    struct cc_err err = {0};
    struct cc_mono start = cc_now_mono();

    world_open(&w);
    fake_kube_remove_resource(w.fake, "widgets");
    cc_cache_start(w.cache);
    ck_assert_int_eq(cc_cache_wait_synced(w.cache, &err), CC_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "widgets"));
    ck_assert_int_ge(cc_mono_diff_ms(cc_now_mono(), start), 120000);
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 130000);
    ck_assert_uint_le(fake_kube_requests(w.fake, "LIST", NULL), 14);
    /* It may still come. */
    widget_register(w.fake);
    ck_assert_int_eq(cc_sleep_ms(11000, NULL), 0);
    ck_assert_int_eq(cc_cache_wait_synced(w.cache, &err), 0);
    world_close(&w);
}

/* A watch over a dead connection ends by our own clock (C4.9). */
FIBER_TEST(cache__notices_a_watch_that_never_ends) {
    struct world w;

    world_open(&w);
    world_start(&w);
    fake_kube_heal(w.fake);
    ck_assert_int_eq(cc_sleep_ms(700000, NULL), 0);
    ck_assert_uint_ge(fake_kube_requests(w.fake, "WATCH", NULL), 2);
    ck_assert_uint_le(fake_kube_requests(w.fake, "WATCH", NULL), 3);
    ck_assert_uint_eq(fake_kube_requests(w.fake, "LIST", NULL), 1);

    /* Opening one that hangs is bounded too. */
    fake_kube_fail(w.fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_HANG, .method = "WATCH"});
    fake_kube_end_watches(w.fake, NULL, 0);
    ck_assert_int_eq(cc_sleep_ms(32000, NULL), 0);
    ck_assert_uint_eq(fake_kube_watch_count(w.fake, NULL), 1);
    world_close(&w);
}

FIBER_TEST(cache__backs_off_from_watches_that_end_at_once) {
    struct world w;

    world_open(&w);
    world_start(&w);
    for (int i = 0; i < 100; i++) {
        fake_kube_end_watches(w.fake, NULL, 0);
        ck_assert_int_eq(cc_sleep_ms(600, NULL), 0);
    }
    /* 60 s: waits of 0.8, 1.6, 3.2, ... seconds. */
    ck_assert_uint_le(fake_kube_requests(w.fake, "WATCH", NULL), 8);
    world_close(&w);
}

int main(void) {
    Suite *suite = suite_create("kube/watch_cache");
    TCase *tcase = tcase_create("watch_cache");

    tcase_add_test(tcase, cache__follows_the_server);
    tcase_add_test(tcase, cache__goes_on_from_a_bookmark);
    tcase_add_test(tcase, cache__lists_again_after_410_and_deletes_what_is_gone);
    tcase_add_test(tcase, cache__waits_out_a_throttled_watch);
    tcase_add_test(tcase, cache__one_malformed_object_fails_only_itself);
    tcase_add_test(tcase, cache__survives_malformed_frames);
    tcase_add_test(tcase, cache__filters);
    tcase_add_test(tcase, cache__tells_an_object_made_again_from_a_changed_one);
    tcase_add_test(tcase, cache__observes_own_writes_but_never_goes_back);
    tcase_add_test(tcase, cache__waits_for_a_server_that_is_not_ready);
    tcase_add_test(tcase, cache__asks_without_a_version_when_it_is_too_large);
    tcase_add_test(tcase, cache__gives_up_waiting_for_a_missing_crd);
    tcase_add_test(tcase, cache__notices_a_watch_that_never_ends);
    tcase_add_test(tcase, cache__backs_off_from_watches_that_end_at_once);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
