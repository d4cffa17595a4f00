#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "api/cocoonset.h"
#include "base/json.h"
#include "support/api_objects.h"

#define TIME "'lastTransitionTime':'2026-08-12T04:11:05Z'"
#define STATUS                                                                                                         \
    "{'observedGeneration':3,'phase':'Running','readyAgents':2,'desiredAgents':2,'readyToolboxes':1,"                  \
    "'desiredToolboxes':1,'agents':[{'slot':0,'role':'main','podName':'demo-0','vmName':'v0','vmID':'7f3a',"           \
    "'ip':'10.88.0.12','phase':'Running'},{'slot':1,'role':'sub-agent','podName':'demo-1','vmName':'v1',"              \
    "'phase':'Running','forkedFrom':'v0'}],'toolboxes':[{'name':'tb','podName':'demo-tb','vmName':'vt',"               \
    "'phase':'Running','connType':'vnc','vncPort':5901}],'conditions':[{'type':'Ready','status':'True',"               \
    "'reason':'AllAgentsReady','message':'m'," TIME ",'observedGeneration':3}]}"

static const struct cc_cocoonset *set_with_status(const char *status) {
    json_t *json = api_json("{'metadata':{'name':'demo'}}");
    const struct cc_cocoonset *set;

    json_object_set_new(json, "status", api_json(status));
    set = api_set_of(json);
    json_decref(json);
    return set;
}

START_TEST(status__survives_a_round_trip) {
    const struct cc_cocoonset *set = set_with_status(STATUS);
    json_t *encoded = cc_cocoonset_status_encode(&set->status);
    json_t *wanted = api_json(STATUS);

    ck_assert_msg(json_equal(encoded, wanted), "%s", json_dumps(encoded, 0));
    json_decref(encoded);
    json_decref(wanted);
    api_set_free(set);
}
END_TEST

START_TEST(status__writes_counters_always_and_empty_members_never) {
    struct cc_cocoonset_status empty = {0};
    struct cc_agent_status main_agent = {.slot = 0, .role = "main"};
    json_t *json = cc_cocoonset_status_encode(&empty);
    char *text = cc_json_dump_sorted(json);

    ck_assert_str_eq(text, "{\"desiredAgents\":0,\"desiredToolboxes\":0,\"readyAgents\":0,\"readyToolboxes\":0}");
    free(text);
    json_decref(json);
    empty.agents = &main_agent;
    empty.agent_count = 1;
    json = cc_cocoonset_status_encode(&empty);
    text = cc_json_dump_sorted(json_object_get(json, "agents"));
    ck_assert_str_eq(text, "[{\"role\":\"main\",\"slot\":0}]");
    free(text);
    json_decref(json);
}
END_TEST

static char *patch_text(const char *from, const char *to) {
    const struct cc_cocoonset *a = set_with_status(from), *b = set_with_status(to);
    json_t *patch = cc_cocoonset_status_patch(&a->status, &b->status);
    char *text = patch ? cc_json_dump_sorted(patch) : NULL;

    ck_assert_int_eq(cc_cocoonset_status_equal(&a->status, &b->status), patch == NULL);
    json_decref(patch);
    api_set_free(a);
    api_set_free(b);
    return text;
}

START_TEST(status__patch_carries_changed_members_only) {
    static const struct {
        const char *from, *to, *patch;
    } ROWS[] = {
        {STATUS, STATUS, NULL},
        {"{}", "{'agents':[],'conditions':[],'phase':'','observedGeneration':0}", NULL},
        {"{'phase':'Pending'}", "{'phase':'Running','readyAgents':1}",
         "{\"status\":{\"phase\":\"Running\",\"readyAgents\":1}}"},
        {"{'agents':[{'slot':0,'role':'main'}],'phase':'Running'}", "{'phase':'Running'}",
         "{\"status\":{\"agents\":null}}"},
        {"{'agents':[{'slot':0,'role':'main'}]}", "{'agents':[{'slot':0,'role':'main','ip':'1.2.3.4'}]}",
         "{\"status\":{\"agents\":[{\"ip\":\"1.2.3.4\",\"role\":\"main\",\"slot\":0}]}}"},
        {"{'phase':'Failed'}", "{}", "{\"status\":{\"phase\":null}}"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        char *text = patch_text(ROWS[i].from, ROWS[i].to);
        if (ROWS[i].patch)
            ck_assert_str_eq(text, ROWS[i].patch);
        else
            ck_assert_ptr_null(text);
        free(text);
    }
}
END_TEST

START_TEST(status__condition_times_are_no_difference) {
    static const char *const OLD =
        "{'conditions':[{'type':'Ready','status':'True','reason':'R','message':'m'," TIME "}]}";
    static const char *const NEW = "{'conditions':[{'type':'Ready','status':'True','reason':'R','message':'m',"
                                   "'lastTransitionTime':'2027-01-01T00:00:00Z'}],'readyAgents':1}";
    char *text = patch_text(OLD, NEW);

    ck_assert_str_eq(text, "{\"status\":{\"readyAgents\":1}}");
    free(text);
}
END_TEST

START_TEST(status__differences_of_each_member_are_seen) {
    static const char *const CHANGES[][2] = {
        {"'slot':1", "'slot':2"},
        {"'sub-agent'", "'main'"},
        {"'demo-1'", "'demo-2'"},
        {"'v1'", "'v2'"},
        {"'7f3a'", "'7f3b'"},
        {"10.88.0.12", "10.88.0.13"},
        {"'forkedFrom':'v0'", "'forkedFrom':'v9'"},
        {"'name':'tb'", "'name':'tc'"},
        {"5901", "5902"},
        {"'vnc'", "'rdp'"},
        {"AllAgentsReady", "Other"},
        {"'message':'m'", "'message':'n'"},
        {"'status':'True'", "'status':'False'"},
        {"'observedGeneration':3}]", "'observedGeneration':4}]"},
        {"'readyAgents':2", "'readyAgents':1"},
        {"'desiredToolboxes':1", "'desiredToolboxes':2"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(CHANGES); i++) {
        const char *at = strstr(STATUS, CHANGES[i][0]);
        char changed[2048];
        char *text;
        ck_assert_ptr_nonnull(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - STATUS), STATUS, CHANGES[i][1],
                 at + strlen(CHANGES[i][0]));
        text = patch_text(STATUS, changed);
        ck_assert_msg(text != NULL, "%s", CHANGES[i][0]);
        free(text);
    }
}
END_TEST

START_TEST(status__of_a_wrong_type_reads_as_absent) {
    const struct cc_cocoonset *set = set_with_status("{'phase':7,'readyAgents':'x','agents':{},'toolboxes':[1],"
                                                     "'observedGeneration':'3','desiredAgents':99999999999}");

    ck_assert_str_eq(set->status.phase, "");
    ck_assert_int_eq(set->status.ready_agents, 0);
    ck_assert_int_eq(set->status.desired_agents, 0);
    ck_assert_uint_eq(set->status.agent_count, 0);
    ck_assert_str_eq(set->status.toolboxes[0].name, "");
    api_set_free(set);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cocoonset_status");
    TCase *tcase = tcase_create("cocoonset_status");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, status__survives_a_round_trip);
    tcase_add_test(tcase, status__writes_counters_always_and_empty_members_never);
    tcase_add_test(tcase, status__patch_carries_changed_members_only);
    tcase_add_test(tcase, status__condition_times_are_no_difference);
    tcase_add_test(tcase, status__differences_of_each_member_are_seen);
    tcase_add_test(tcase, status__of_a_wrong_type_reads_as_absent);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
