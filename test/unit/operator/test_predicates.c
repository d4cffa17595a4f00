/* Which watch events cause a pass: contract/03 part E. */
#include "cocoonset/predicates.h"

#include <check.h>

#include "support/api_objects.h"
#include "support/vectors.h"

static bool set_is_relevant(const char *before, const char *after) {
    json_t *old_json = api_json(before), *new_json = api_json(after);
    const struct cc_cocoonset *old_set = api_set_of(old_json), *new_set = api_set_of(new_json);
    bool relevant = op_set_update_is_relevant(old_set, new_set);

    api_set_free(old_set);
    api_set_free(new_set);
    json_decref(old_json);
    json_decref(new_json);
    return relevant;
}

static bool pod_is_relevant(const char *before, const char *after) {
    const struct cc_pod *old_pod = api_pod(before), *new_pod = api_pod(after);
    bool relevant = op_pod_update_is_relevant(old_pod, new_pod);

    cc_pod_unref(old_pod);
    cc_pod_unref(new_pod);
    return relevant;
}

#define SET(generation, more, status)                                                                                  \
    "{'metadata':{'name':'demo','namespace':'ns','uid':'u','generation':" generation more "},'spec':{'agent':{'image'" \
    ":'i'}},'status':" status "}"
#define IDLE                                                                                                           \
    "{'phase':'Running','readyAgents':1,'conditions':[{'type':'Ready','status':'True','reason':'A','message':'',"      \
    "'lastTransitionTime':'2026-08-30T12:00:00Z'}]}"
#define IDLE_LATER                                                                                                     \
    "{'phase':'Running','readyAgents':1,'conditions':[{'type':'Ready','status':'True','reason':'A',"                   \
    "'message':'','lastTransitionTime':'2026-08-30T12:00:05Z'}]}"

START_TEST(predicates__of_a_set) {
    const char *base = SET("1", "", IDLE);

    ck_assert(set_is_relevant(base, SET("2", "", IDLE)));
    ck_assert(set_is_relevant(base, SET("1", "", "{'phase':'Scaling','readyAgents':1}")));
    ck_assert(!set_is_relevant(base, SET("1", ",'annotations':{'a':'b'},'finalizers':['f']", IDLE)));
    ck_assert(!set_is_relevant(base, base));
    CC_VECTOR("03-129");
    /* Condition times are no change; the beginning of the deletion is one whatever the generation says. */
    ck_assert(!set_is_relevant(base, SET("1", "", IDLE_LATER)));
    ck_assert(set_is_relevant(base, SET("1", ",'deletionTimestamp':'2026-08-30T12:00:00Z'", IDLE)));
}
END_TEST

#define POD(more_meta, spec, status)                                                                                   \
    "{'metadata':{'name':'p','namespace':'ns','uid':'u'" more_meta "},'spec':" spec ",'status':" status "}"
#define UP "{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}"

START_TEST(predicates__of_a_pod) {
    const char *base = POD("", "{}", UP);

    ck_assert(
        !pod_is_relevant(base, POD("", "{}",
                                   "{'phase':'Running','conditions':[{'type':'Ready','status':'True'}],"
                                   "'containerStatuses':[{'name':'agent','ready':true,'state':{'running':{}}}]}")));
    ck_assert(!pod_is_relevant(base, POD("", "{'nodeName':'node-a'}", UP)));
    ck_assert(pod_is_relevant(base, POD(",'annotations':{'a':'b'}", "{}", UP)));
    ck_assert(
        pod_is_relevant(base, POD("", "{}", "{'phase':'Running','conditions':[{'type':'Ready','status':'False'}]}")));
    ck_assert(pod_is_relevant(base, POD(",'deletionTimestamp':'2026-08-30T12:00:00Z'", "{}", UP)));
    CC_VECTOR("03-130");
    ck_assert(pod_is_relevant(base, POD(",'labels':{'a':'b'}", "{}", UP)));
    ck_assert(
        pod_is_relevant(base, POD("", "{}", "{'phase':'Failed','conditions':[{'type':'Ready','status':'True'}]}")));
    ck_assert(!pod_is_relevant(base, base));
}
END_TEST

#define OWNED(kind, api, controller)                                                                                   \
    POD(",'ownerReferences':[{'apiVersion':'" api "','kind':'" kind                                                    \
        "','name':'demo','uid':'x','controller':" controller "}]",                                                     \
        "{}", UP)

START_TEST(predicates__map_a_pod_to_its_set) {
    static const struct {
        const char *pod;
        const char *want;
    } rows[] = {
        {OWNED("CocoonSet", "cocoonset.cocoonstack.io/v1", "true"), "demo"},
        {OWNED("CocoonSet", "cocoonset.cocoonstack.io/v1", "false"), NULL},
        {OWNED("CocoonSet", "other.example/v1", "true"), NULL},
        {OWNED("ReplicaSet", "apps/v1", "true"), NULL},
        {POD("", "{}", UP), NULL},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct cc_pod *pod = api_pod(rows[i].pod);
        ck_assert_pstr_eq(op_pod_set_name(pod), rows[i].want);
        cc_pod_unref(pod);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator predicates");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, predicates__of_a_set);
    tcase_add_test(tests, predicates__of_a_pod);
    tcase_add_test(tests, predicates__map_a_pod_to_its_set);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
