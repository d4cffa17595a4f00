/* vk-cocoon/pods/rate_limit.c and pod_status.c: contract/08 3.2, 3.7. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "pods/pod_status.h"
#include "pods/rate_limit.h"
#include "support/vectors.h"

#define MS CC_NS_PER_MS

static struct cc_mono at_ms(int64_t ms) {
    return (struct cc_mono){INT64_C(1000) * 1000 * MS + ms * MS};
}

static int64_t delay_of(struct vk_rate_limit *limit, int number, int64_t now_ms) {
    char key[32];
    snprintf(key, sizeof(key), "ns/pod-%d", number);
    return vk_rate_limit_delay_ns(limit, key, at_ms(now_ms));
}

START_TEST(rate_limit__a_full_bucket_delays_nobody) {
    struct vk_rate_limit *limit = vk_rate_limit_new(100, 400);
    for (int i = 0; i < 400; i++)
        ck_assert_int_le(delay_of(limit, i, 0), 5 * MS);
    int64_t next = delay_of(limit, 400, 0);
    ck_assert_int_gt(next, 5 * MS);
    ck_assert_int_le(next, 10 * MS);
    CC_VECTOR("08-10.17");
    vk_rate_limit_free(limit);
}
END_TEST

START_TEST(rate_limit__zero_means_the_defaults_of_client_go) {
    struct vk_rate_limit *limit = vk_rate_limit_new(0, 0);
    for (int i = 0; i < 10; i++)
        ck_assert_int_le(delay_of(limit, i, 0), 5 * MS);
    int64_t next = delay_of(limit, 10, 0);
    ck_assert_int_gt(next, 5 * MS);
    ck_assert_int_le(next, 200 * MS);
    CC_VECTOR("08-10.18");
    /* The bucket fills again, and never beyond its size. */
    for (int i = 11; i < 21; i++)
        ck_assert_int_le(delay_of(limit, i, 3600000), 5 * MS);
    ck_assert_int_gt(delay_of(limit, 21, 3600000), 5 * MS);
    vk_rate_limit_free(limit);
}
END_TEST

START_TEST(rate_limit__negative_rate_means_no_bucket) {
    struct vk_rate_limit *limit = vk_rate_limit_new(-1, 1);
    for (int i = 0; i < 5000; i++)
        ck_assert_int_le(delay_of(limit, i, 0), 5 * MS);
    CC_VECTOR("08-10.19");
    vk_rate_limit_free(limit);
}
END_TEST

START_TEST(rate_limit__a_key_without_success_waits_twice_as_long_each_time) {
    struct vk_rate_limit *limit = vk_rate_limit_new(-1, 1);
    ck_assert_int_eq(delay_of(limit, 1, 0), 5 * MS);
    ck_assert_int_eq(delay_of(limit, 1, 0), 10 * MS);
    CC_VECTOR("08-10.20");
    ck_assert_int_eq(delay_of(limit, 1, 0), 20 * MS);
    ck_assert_int_eq(delay_of(limit, 2, 0), 5 * MS);
    for (int i = 0; i < 100; i++)
        ck_assert_int_le(delay_of(limit, 1, 0), VK_RATE_CAP_MS * MS);
    ck_assert_int_eq(delay_of(limit, 1, 0), VK_RATE_CAP_MS * MS);
    vk_rate_limit_forget(limit, "ns/pod-1");
    vk_rate_limit_forget(limit, "ns/pod-1");
    ck_assert_uint_eq(vk_rate_limit_count(limit), 1);
    ck_assert_int_eq(delay_of(limit, 1, 0), 5 * MS);
    vk_rate_limit_free(limit);
    vk_rate_limit_free(NULL);
}
END_TEST

/* --- pod_status --------------------------------------------------------------------------------------------------- */

static const struct cc_pod *pod_of(const char *metadata, const char *spec, const char *status) {
    char text[2048];
    snprintf(text, sizeof(text),
             "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'demo-0','namespace':'ns','uid':'A'%s%s},'spec':{%s},"
             "'status':{%s}}",
             *metadata ? "," : "", metadata, spec, status);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    json_t *json = json_loads(text, 0, NULL);
    ck_assert_msg(json != NULL, "%s", text);
    struct cc_object *pod = NULL;
    struct cc_err err = {0};
    ck_assert_msg(cc_pod_decode(json, &pod, &err) == CC_OK, "%s", err.msg);
    json_decref(json);
    return cc_pod_of(pod);
}

static bool changed(const char *old_metadata, const char *old_status, const char *new_metadata,
                    const char *new_status) {
    const struct cc_pod *old_pod = pod_of(old_metadata, "'containers':[{'name':'agent'}]", old_status);
    const struct cc_pod *new_pod = pod_of(new_metadata, "'containers':[{'name':'agent'}]", new_status);
    bool result = vk_pod_changed(old_pod, new_pod);
    cc_pod_unref(old_pod);
    cc_pod_unref(new_pod);
    return result;
}

START_TEST(pod_status__only_relevant_changes_count) {
    ck_assert(!changed("", "'phase':'Pending'", "", "'phase':'Running','podIP':'10.0.0.1'"));
    ck_assert(!changed("'resourceVersion':'1'", "", "'resourceVersion':'2'", ""));
    CC_VECTOR("08-10.21");
    ck_assert(changed("", "", "'labels':{'a':'b'}", ""));
    ck_assert(changed("", "", "'annotations':{'a':'b'}", ""));
    ck_assert(changed("", "", "'deletionTimestamp':'2026-08-30T12:00:00Z','deletionGracePeriodSeconds':30", ""));
    ck_assert(changed("'deletionTimestamp':'2026-08-30T12:00:00Z','deletionGracePeriodSeconds':30", "",
                      "'deletionTimestamp':'2026-08-30T12:00:00Z','deletionGracePeriodSeconds':1", ""));
    CC_VECTOR("08-10.22");
    ck_assert(changed("", "", "'uid':'B'", "")); /* recreated under its name, seen as one update */
}
END_TEST

static bool changed_by_others(const char *old_metadata, const char *new_metadata) {
    const struct cc_pod *old_pod = pod_of(old_metadata, "'containers':[{'name':'agent'}]", "");
    const struct cc_pod *new_pod = pod_of(new_metadata, "'containers':[{'name':'agent'}]", "");
    bool result = vk_pod_changed_by_others(old_pod, new_pod);
    cc_pod_unref(old_pod);
    cc_pod_unref(new_pod);
    return result;
}

START_TEST(pod_status__own_annotations_are_told_from_wishes_of_others) {
#define READY "'vm.cocoonstack.io/lifecycle-state':'ready'"
#define FAILED "'vm.cocoonstack.io/lifecycle-state':'failed','vm.cocoonstack.io/lifecycle-state-message':'x'"
    ck_assert(!changed_by_others("", ""));
    ck_assert(!changed_by_others("", "'annotations':{" READY "}"));
    ck_assert(!changed_by_others("'annotations':{" READY ",'vm.cocoonstack.io/id':'1'}", "'annotations':{" FAILED "}"));
    ck_assert(changed_by_others("'annotations':{" READY "}",
                                "'annotations':{" FAILED ",'vm.cocoonstack.io/hibernate':'true'}"));
    ck_assert(changed_by_others("'annotations':{" READY ",'vm.cocoonstack.io/hibernate':'true'}",
                                "'annotations':{" FAILED "}"));
    ck_assert(changed_by_others("'annotations':{'a':'1'}", "'annotations':{'a':'2'}"));
    ck_assert(changed_by_others("", "'labels':{'a':'b'}"));
    ck_assert(changed_by_others("", "'deletionTimestamp':'2026-08-30T12:00:00Z','annotations':{" READY "}"));
    ck_assert(changed_by_others("", "'uid':'B'"));
}
END_TEST

START_TEST(pod_status__running_and_finished) {
    static const struct {
        const char *status;
        bool running, finished;
    } rows[] = {
        {"", false, false},
        {"'phase':'Running','containerStatuses':[]", false, false},
        {"'phase':'Running','containerStatuses':[{'name':'agent','state':{'running':{}}}]", true, false},
        {"'phase':'Running','containerStatuses':[{'name':'agent','state':{}}]", true, false},
        {"'phase':'Running','containerStatuses':[{'name':'agent','state':{'waiting':{'reason':'Hibernated'}}}]", false,
         false},
        {"'phase':'Failed','containerStatuses':[{'name':'agent','state':{'terminated':{'exitCode':1}}}]", false, true},
        {"'phase':'Succeeded'", false, true},
        {"'phase':'Running','containerStatuses':[{'name':'a','state':{'waiting':{}}},"
         "{'name':'b','state':{'running':{}}}]",
         true, false},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct cc_pod *pod = pod_of("", "", rows[i].status);
        ck_assert_msg(vk_pod_is_running(pod) == rows[i].running, "row %zu", i);
        ck_assert_msg(vk_pod_is_finished(pod) == rows[i].finished, "row %zu", i);
        cc_pod_unref(pod);
    }
}
END_TEST

static void expect_patch(json_t *take_patch, const char *single_quoted) {
    char *text = take_patch ? json_dumps(take_patch, JSON_SORT_KEYS | JSON_COMPACT) : strdup("none");
    char *wanted = strdup(single_quoted);
    for (char *c = wanted; *c; c++)
        if (*c == '\'')
            *c = '"';
    ck_assert_str_eq(text, wanted);
    free(text);
    free(wanted);
    json_decref(take_patch);
}

START_TEST(pod_status__failure_depends_on_the_restart_policy) {
    const struct cc_pod *pod = pod_of("", "'restartPolicy':'Always'", "'phase':'Pending'");
    expect_patch(
        vk_pod_failure_patch(pod, "no image"),
        "{'metadata':{'uid':'A'},'status':{'message':'no image','phase':'Pending','reason':'ProviderFailed'}}");
    expect_patch(vk_pod_recovery_patch(pod), "none");
    cc_pod_unref(pod);
    pod = pod_of("", "'restartPolicy':'Never'", "'phase':'Pending'");
    expect_patch(vk_pod_failure_patch(pod, "no image"),
                 "{'metadata':{'uid':'A'},'status':{'message':'no image','phase':'Failed','reason':'ProviderFailed'}}");
    cc_pod_unref(pod);
    pod = pod_of("", "", "'phase':'Pending','reason':'ProviderFailed','message':'no image'");
    expect_patch(vk_pod_failure_patch(pod, "no image"), "none");
    expect_patch(vk_pod_failure_patch(pod, "bad \xff byte"),
                 "{'metadata':{'uid':'A'},'status':{'message':'bad \xef\xbf\xbd byte','phase':'Pending',"
                 "'reason':'ProviderFailed'}}");
    expect_patch(vk_pod_recovery_patch(pod), "{'metadata':{'uid':'A'},'status':{'message':null,'reason':null}}");
    cc_pod_unref(pod);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pods");
    TCase *tests = tcase_create("queue");
    tcase_add_test(tests, rate_limit__a_full_bucket_delays_nobody);
    tcase_add_test(tests, rate_limit__zero_means_the_defaults_of_client_go);
    tcase_add_test(tests, rate_limit__negative_rate_means_no_bucket);
    tcase_add_test(tests, rate_limit__a_key_without_success_waits_twice_as_long_each_time);
    tcase_add_test(tests, pod_status__only_relevant_changes_count);
    tcase_add_test(tests, pod_status__own_annotations_are_told_from_wishes_of_others);
    tcase_add_test(tests, pod_status__running_and_finished);
    tcase_add_test(tests, pod_status__failure_depends_on_the_restart_policy);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
