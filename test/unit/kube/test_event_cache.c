#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/event_cache.h"

static struct cc_wall at_s(int64_t seconds) {
    return (struct cc_wall){(1000000 + seconds) * CC_NS_PER_S};
}

static struct cc_event_verdict add(struct cc_event_cache *cache, const char *message, const char *name,
                                   int64_t second) {
    struct cc_event_verdict verdict;

    cc_event_cache_add(cache, "obj", "obj/reason", message, name, at_s(second), &verdict);
    return verdict;
}

START_TEST(event_cache__counts_the_same_message) {
    struct cc_event_cache *cache = cc_event_cache_new(10);
    struct cc_event_verdict verdict = add(cache, "m", "first", 0);

    ck_assert_int_eq(verdict.count, 1);
    ck_assert_str_eq(verdict.name, "");
    ck_assert(!verdict.combined && !verdict.drop);
    verdict = add(cache, "m", "second", 5);
    ck_assert_int_eq(verdict.count, 2);
    ck_assert_str_eq(verdict.name, "first");
    ck_assert_int_eq(verdict.first.ns, at_s(0).ns);
    verdict = add(cache, "other", "third", 6);
    ck_assert_int_eq(verdict.count, 1);
    cc_event_cache_free(cache);
}
END_TEST

START_TEST(event_cache__combines_the_tenth_different_message) {
    struct cc_event_cache *cache = cc_event_cache_new(100);
    struct cc_event_verdict verdict;
    char text[16];

    for (int i = 1; i <= 9; i++) {
        snprintf(text, sizeof text, "m%d", i);
        verdict = add(cache, text, text, i);
        ck_assert(!verdict.combined);
        ck_assert_int_eq(verdict.count, 1);
    }
    verdict = add(cache, "m10", "m10", 10);
    ck_assert(verdict.combined);
    ck_assert_int_eq(verdict.count, 1);
    verdict = add(cache, "m11", "m11", 11);
    ck_assert(verdict.combined);
    ck_assert_int_eq(verdict.count, 2);
    ck_assert_str_eq(verdict.name, "m10");
    /* One that is known still counts for itself. */
    verdict = add(cache, "m9", "new", 12);
    ck_assert(!verdict.combined);
    ck_assert_int_eq(verdict.count, 2);
    ck_assert_str_eq(verdict.name, "m9");
    /* Ten quiet minutes, and all begins anew. */
    verdict = add(cache, "m12", "m12", 12 + 601);
    ck_assert(!verdict.combined);
    cc_event_cache_free(cache);
}
END_TEST

START_TEST(event_cache__limits_an_object) {
    struct cc_event_cache *cache = cc_event_cache_new(100);
    struct cc_event_verdict verdict;

    for (int i = 0; i < 25; i++)
        ck_assert(!add(cache, "m", "n", 0).drop);
    ck_assert(add(cache, "m", "n", 1).drop);
    ck_assert(add(cache, "m", "n", 200).drop);
    ck_assert(!add(cache, "m", "n", 301).drop);
    ck_assert(add(cache, "m", "n", 302).drop);
    cc_event_cache_add(cache, "other object", "other object/reason", "m", "n", at_s(302), &verdict);
    ck_assert(!verdict.drop);
    cc_event_cache_free(cache);
}
END_TEST

START_TEST(event_cache__forgets_the_least_recently_used) {
    struct cc_event_cache *cache = cc_event_cache_new(3);

    add(cache, "a", "a", 0);
    add(cache, "b", "b", 1);
    add(cache, "c", "c", 2);
    add(cache, "a", "x", 3);
    add(cache, "d", "d", 4);
    ck_assert_int_eq(add(cache, "a", "x", 5).count, 3);
    ck_assert_int_eq(add(cache, "b", "x", 6).count, 1);
    ck_assert_uint_le(cc_event_cache_count(cache), 9);
    cc_event_cache_free(cache);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kube/event_cache");
    TCase *tcase = tcase_create("event_cache");

    tcase_add_test(tcase, event_cache__counts_the_same_message);
    tcase_add_test(tcase, event_cache__combines_the_tenth_different_message);
    tcase_add_test(tcase, event_cache__limits_an_object);
    tcase_add_test(tcase, event_cache__forgets_the_least_recently_used);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
