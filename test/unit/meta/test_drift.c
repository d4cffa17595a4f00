/* Goal: a pod is called drifted when, and only when, a rebuild would change it for good.
 * Method: build the pod of a spec, let the API server's defaulting have its way with it, change one thing, compare. */
#include "meta/drift.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "meta/keys.h"
#include "meta/pod_factory.h"
#include "support/api_objects.h"
#include "support/vectors.h"

enum kind { MAIN, SUB_AGENT, TOOLBOX };

static json_t *build(const char *spec, enum kind kind) {
    const struct cc_cocoonset *set = api_set("ns", "demo", 11, spec);
    struct cc_pod_build_options options = {.main_vm_name = "M", .main_node = "N"};
    struct cc_err err = {0};
    json_t *pod = NULL;
    int rc = kind == TOOLBOX ? cc_build_toolbox_pod(set, &set->toolboxes[0], false, &pod, &err)
                             : cc_build_agent_pod(set, kind == MAIN ? 0 : 1, &options, &pod, &err);

    ck_assert_msg(rc == 0, "%s", err.msg);
    api_set_free(set);
    return pod;
}

/* The reason of the drift, NULL for a match. */
static const char *drift(const char *spec, enum kind kind, const json_t *pod_json) {
    const struct cc_cocoonset *set = api_set("ns", "demo", 12, spec);
    const struct cc_pod *pod = api_pod_of(pod_json);
    const char *reason = NULL;
    bool matches = kind == TOOLBOX ? cc_toolbox_pod_matches(set, &set->toolboxes[0], pod, &reason)
                                   : cc_agent_pod_matches(set, kind == MAIN ? 0 : 1, pod, &reason);

    ck_assert_int_eq(matches, reason == NULL);
    ck_assert_int_eq(matches, kind == TOOLBOX ? cc_toolbox_pod_matches(set, &set->toolboxes[0], pod, NULL)
                                              : cc_agent_pod_matches(set, kind == MAIN ? 0 : 1, pod, NULL));
    cc_pod_unref(pod);
    api_set_free(set);
    return reason;
}

/* The pod of one spec against another. */
static const char *drift_between(const char *pod_spec, const char *spec, enum kind kind) {
    json_t *pod = build(pod_spec, kind);
    const char *reason = drift(spec, kind, pod);

    json_decref(pod);
    return reason;
}

static void annotate(json_t *pod, const char *key, const char *value) {
    json_object_set_new(api_at(pod, "metadata", "annotations", NULL), key, json_string(value));
}

#define FULL                                                                                                           \
    "{'snapshotPolicy':'main-only','nodePool':'gpu','snapshotCompatibilityClass':'c1','agent':{'image':'img:1',"       \
    "'replicas':1,'mode':'run','os':'linux','backend':'firecracker','connType':'ssh','network':'n','forcePull':true,"  \
    "'noDirectIO':true,'probePort':22,'storage':'1024Mi','serviceAccountName':'sa','envFrom':[{'configMapRef':"        \
    "{'name':'c'}}],'resources':{'requests':{'cpu':'2'},'limits':{'cpu':4,'memory':'4Gi'}}},'toolboxes':[{'name':'tb'" \
    ","                                                                                                                \
    "'image':'t','storage':'0.1Gi','resources':{'limits':{'memory':'1Gi'}}}]}"
#define STATIC                                                                                                         \
    "{'toolboxes':[{'name':'tb','mode':'static','staticIP':'10.0.0.1','staticVMID':'qemu-1','vncPort':5901}]}"

START_TEST(drift__of_a_fresh_pod_is_none) {
    static const char *const SPECS[] = {FULL, "{'agent':{'image':'img'},'toolboxes':[{'name':'tb'}]}"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(SPECS); i++) {
        ck_assert_pstr_eq(drift_between(SPECS[i], SPECS[i], MAIN), NULL);
        ck_assert_pstr_eq(drift_between(SPECS[i], SPECS[i], SUB_AGENT), NULL);
        ck_assert_pstr_eq(drift_between(SPECS[i], SPECS[i], TOOLBOX), NULL);
    }
    ck_assert_pstr_eq(drift_between(STATIC, STATIC, TOOLBOX), NULL);
    CC_VECTOR("02-21.7.1");
}
END_TEST

START_TEST(drift__of_each_field_of_the_spec) {
    static const struct {
        const char *from, *to, *reason;
    } ROWS[] = {
        {"'image':'a'", "'image':'b'", "image"},
        {"'backend':'cloud-hypervisor'", "'backend':'firecracker'", "backend"},
        {"'probePort':22", "'probePort':23", "probePort"},
        {"'probePort':22", "'probePort':0", "probePort"},
        {"'mode':'run'", "'mode':'clone'", "mode"},
        {"'os':'linux'", "'os':'windows'", "os"},
        {"'storage':'1Gi'", "'storage':'2Gi'", "storage"},
        {"'storage':'1Gi'", "'storage':null", "storage"},
        {"'network':'a'", "'network':''", "network"},
        {"'connType':''", "'connType':'vnc'", "connType"},
        {"'forcePull':false", "'forcePull':true", "forcePull"},
        {"'forcePull':true", "'forcePull':false", "forcePull"},
        {"'noDirectIO':true", "'noDirectIO':false", "noDirectIO"},
        {"'resources':{'limits':{'cpu':'1'}}", "'resources':{'limits':{'cpu':'2'}}", "cpu"},
        {"'resources':{'requests':{'cpu':'1'}}", "'resources':{'requests':{'cpu':'2'}}", "cpu"},
        {"'resources':{'limits':{'memory':'1Gi'}}", "'resources':{'limits':{'memory':'1G'}}", "memory"},
        {"'resources':{}", "'resources':{'requests':{'memory':'1Gi'}}", "memory"},
        {"'resources':{}", "'resources':{'limits':{'memory':'1Gi'}}", "memory"},
    };
    char from[256], to[256];

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        snprintf(from, sizeof from, "{'agent':{%s},'toolboxes':[{'name':'tb',%s}]}", ROWS[i].from, ROWS[i].from);
        snprintf(to, sizeof to, "{'agent':{%s},'toolboxes':[{'name':'tb',%s}]}", ROWS[i].to, ROWS[i].to);
        for (enum kind kind = MAIN; kind <= TOOLBOX; kind++)
            ck_assert_pstr_eq(drift_between(from, to, kind), ROWS[i].reason);
    }
    for (enum kind kind = MAIN; kind <= TOOLBOX; kind++)
        ck_assert_pstr_eq(drift_between("{'snapshotPolicy':'always','agent':{},'toolboxes':[{'name':'tb'}]}",
                                        "{'snapshotPolicy':'never','agent':{},'toolboxes':[{'name':'tb'}]}", kind),
                          "snapshotPolicy");
    ck_assert_pstr_eq(drift_between("{'toolboxes':[{'name':'tb','mode':'run'}]}",
                                    "{'toolboxes':[{'name':'tb','mode':'static'}]}", TOOLBOX),
                      "mode");
    CC_VECTOR("02-21.7.2");
}
END_TEST

static json_t *container(json_t *pod) {
    return api_at(pod, "spec", "containers", "0", NULL);
}

/* What a pod looks like after an API server, and perhaps a LimitRange, have seen it: decisions 14 and 66. */
START_TEST(drift__ignores_what_others_filled_in) {
    static const struct {
        const char *spec, *present;
        const char *reason;
    } ROWS[] = {
        /* limits only: the server copies them to requests */
        {"{'limits':{'cpu':'1','memory':'1Gi'}}",
         "{'limits':{'cpu':'1','memory':'1Gi'},'requests':{'cpu':'1','memory':'1Gi'}}", NULL},
        {"{'limits':{'cpu':'1000m'}}", "{'limits':{'cpu':'1'},'requests':{'cpu':'1'}}", NULL},
        {"{'limits':{'cpu':'1'}}",
         "{'limits':{'cpu':'1','ephemeral-storage':'5Gi'},'requests':{'cpu':'1','ephemeral-storage':'5Gi'}}", NULL},
        /* a request for one resource, a limit for another */
        {"{'requests':{'cpu':'1'},'limits':{'memory':'1Gi'}}",
         "{'limits':{'memory':'1Gi'},'requests':{'cpu':'1','memory':'1Gi'}}", NULL},
        /* a LimitRange */
        {"{}", "{'limits':{'cpu':'1','memory':'1Gi'},'requests':{'cpu':'1','memory':'1Gi'}}", NULL},
        {"{'requests':{'cpu':'1'}}", "{'limits':{'cpu':'2','memory':'1Gi'},'requests':{'cpu':'1','memory':'1Gi'}}",
         NULL},
        {"{'limits':{'cpu':'2'}}", "{'limits':{'cpu':'2','memory':'1Gi'},'requests':{'cpu':'2','memory':'512Mi'}}",
         NULL},
        /* the server rounds up to thousandths */
        {"{'requests':{'cpu':'100u'}}", "{'requests':{'cpu':'1m'}}", NULL},
        /* what the spec does name still counts */
        {"{'requests':{'cpu':'1'},'limits':{'cpu':'2'}}", "{'limits':{'cpu':'2'},'requests':{'cpu':'2'}}", "cpu"},
        /* a server that copies nothing */
        {"{'limits':{'cpu':'1'}}", "{'limits':{'cpu':'1'}}", NULL},
        {"{'limits':{'cpu':'1'}}", "{'requests':{'cpu':'1'}}", "cpu"},
        {"{'limits':{'cpu':'1'}}", "{'limits':{'cpu':'1'},'requests':{'cpu':'500m'}}", "cpu"},
    };
    char spec[256];

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        snprintf(spec, sizeof spec, "{'agent':{'resources':%s},'toolboxes':[{'name':'tb','resources':%s}]}",
                 ROWS[i].spec, ROWS[i].spec);
        for (enum kind kind = MAIN; kind <= TOOLBOX; kind++) {
            json_t *pod = build(spec, kind);
            json_object_set_new(container(pod), "resources", api_json(ROWS[i].present));
            ck_assert_msg((drift(spec, kind, pod) == NULL) == (ROWS[i].reason == NULL), "row %zu", i);
            json_decref(pod);
        }
    }
    CC_VECTOR("02-21.7.3");
}
END_TEST

START_TEST(drift__service_account) {
    json_t *pod = build("{'agent':{}}", MAIN);

    json_object_set_new(api_at(pod, "spec", NULL), "serviceAccountName", json_string("default"));
    ck_assert_pstr_eq(drift("{'agent':{}}", MAIN, pod), NULL);
    ck_assert_pstr_eq(drift("{'agent':{'serviceAccountName':'default'}}", MAIN, pod), NULL);
    json_decref(pod);
    ck_assert_pstr_eq(
        drift_between("{'agent':{'serviceAccountName':'sa-old'}}", "{'agent':{'serviceAccountName':'sa-new'}}", MAIN),
        "serviceAccountName");
    CC_VECTOR("02-21.7.4");
}
END_TEST

START_TEST(drift__environment) {
    static const char *const OLD =
        "{'agent':{'envFrom':[{'configMapRef':{'name':'old'}}]},'toolboxes':[{'name':'tb'}]}";
    static const char *const NEW =
        "{'agent':{'envFrom':[{'configMapRef':{'name':'new'}}]},'toolboxes':[{'name':'tb'}]}";
    static const char *const NONE = "{'agent':{'envFrom':[]}}";
    json_t *pod = build(OLD, TOOLBOX);

    ck_assert_pstr_eq(drift_between(OLD, NEW, MAIN), "envFrom");
    ck_assert_pstr_eq(drift_between(OLD, NEW, SUB_AGENT), "envFrom");
    json_object_set_new(container(pod), "envFrom", api_json("[{'configMapRef':{'name':'x'}}]"));
    ck_assert_pstr_eq(drift(NEW, TOOLBOX, pod), NULL);
    json_decref(pod);
    CC_VECTOR("02-21.7.5");
    ck_assert_pstr_eq(drift_between("{'agent':{}}", NONE, MAIN), NULL);
    ck_assert_pstr_eq(drift_between(NONE, OLD, MAIN), "envFrom");
}
END_TEST

START_TEST(drift__node_pool) {
    ck_assert_pstr_eq(drift_between("{'nodePool':'gpu','agent':{}}", "{'nodePool':'cpu','agent':{}}", MAIN),
                      "nodePool");
    ck_assert_pstr_eq(drift_between("{'nodePool':'default','agent':{}}", "{'agent':{}}", MAIN), NULL);
    ck_assert_pstr_eq(drift_between("{'agent':{}}", "{'nodePool':'','agent':{}}", MAIN), NULL);
    CC_VECTOR("02-21.7.6");
}
END_TEST

START_TEST(drift__pin_never_counts) {
    ck_assert_pstr_eq(drift_between("{'agent':{}}", "{'nodeName':'node-b','agent':{}}", MAIN), NULL);
    ck_assert_pstr_eq(drift_between("{'nodeName':'node-a','agent':{}}", "{'nodeName':'node-b','agent':{}}", MAIN),
                      NULL);
    ck_assert_pstr_eq(drift_between("{'nodeName':'node-a','agent':{}}", "{'agent':{}}", SUB_AGENT), NULL);
    CC_VECTOR("02-21.7.7");
}
END_TEST

START_TEST(drift__fork_source) {
    static const char *const SPEC = "{'agent':{},'toolboxes':[{'name':'tb'}]}";
    static const enum kind KINDS[] = {MAIN, TOOLBOX, SUB_AGENT};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(KINDS); i++) {
        json_t *pod = build(SPEC, KINDS[i]);
        annotate(pod, CC_KEY_FORK_FROM, "other");
        ck_assert_pstr_eq(drift(SPEC, KINDS[i], pod), KINDS[i] == SUB_AGENT ? NULL : "fork-from");
        json_decref(pod);
    }
    CC_VECTOR("02-21.7.8");
}
END_TEST

START_TEST(drift__older_vm_names_are_kept) {
    json_t *pod = build("{'agent':{}}", MAIN);

    annotate(pod, CC_KEY_VM_NAME, "vk-ns-demo-0");
    ck_assert_pstr_eq(drift("{'agent':{}}", MAIN, pod), NULL);
    annotate(pod, CC_KEY_VM_NAME, "vk-ns.demo-0");
    ck_assert_pstr_eq(drift("{'agent':{}}", MAIN, pod), NULL);
    json_decref(pod);
    CC_VECTOR("02-21.7.9");
}
END_TEST

START_TEST(drift__snapshot_class) {
    static const char *const SPEC = "{'snapshotCompatibilityClass':'c1','agent':{}}";
    json_t *pod = build("{'snapshotCompatibilityClass':'c2','agent':{}}", MAIN);

    ck_assert_pstr_eq(drift(SPEC, MAIN, pod), "snapshotCompatibilityClass");
    json_decref(pod);
    pod = build("{'agent':{}}", MAIN);
    ck_assert_pstr_eq(drift(SPEC, MAIN, pod), NULL);
    json_object_set_new(pod, "status", api_json("{'phase':'Failed'}"));
    ck_assert_pstr_eq(drift(SPEC, MAIN, pod), "snapshotCompatibilityClass");
    /* Failed, but there is nothing that a rebuild would bring. */
    ck_assert_pstr_eq(drift("{'agent':{}}", MAIN, pod), NULL);
    json_object_set_new(pod, "status", api_json("{'phase':'Running'}"));
    annotate(pod, CC_KEY_LIFECYCLE_STATE, "failed");
    ck_assert_pstr_eq(drift(SPEC, MAIN, pod), "snapshotCompatibilityClass");
    json_decref(pod);
    CC_VECTOR("02-21.7.10");
    ck_assert_pstr_eq(drift_between(SPEC, "{'agent':{}}", MAIN), "snapshotCompatibilityClass");
}
END_TEST

START_TEST(drift__static_toolbox) {
    static const struct {
        const char *member, *reason;
    } ROWS[] = {{"'staticVMID':'other'", "staticVMID"},
                {"'staticIP':'10.0.0.2'", "staticIP"},
                {"'vncPort':5902", "vncPort"},
                {"'vncPort':0", "vncPort"}};
    char spec[256];

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        snprintf(spec, sizeof spec,
                 "{'toolboxes':[{'name':'tb','mode':'static','staticIP':'10.0.0.1','staticVMID':'qemu-1','vncPort':"
                 "5901,%s}]}",
                 ROWS[i].member);
        ck_assert_pstr_eq(drift_between(STATIC, spec, TOOLBOX), ROWS[i].reason);
    }
    CC_VECTOR("02-21.7.11");
}
END_TEST

/* Whatever cannot be judged is left alone. */
START_TEST(drift__keeps_what_it_cannot_judge) {
    json_t *pod = build("{'agent':{'image':'img'},'toolboxes':[{'name':'tb'}]}", MAIN);

    ck_assert_pstr_eq(drift("{'agent':{'image':'other','storage':'10XB'}}", MAIN, pod), NULL);
    ck_assert_pstr_eq(drift("{'toolboxes':[{'name':'tb','storage':'10XB'}]}", TOOLBOX, pod), NULL);
    json_object_set_new(container(pod), "resources", api_json("{'limits':{'cpu':'strange'}}"));
    ck_assert_pstr_eq(drift("{'agent':{'image':'img','resources':{'limits':{'cpu':'1'}}}}", MAIN, pod), NULL);
    json_object_set_new(container(pod), "resources", api_json("{'limits':{'cpu':'x'},'requests':{'cpu':'y'}}"));
    ck_assert_pstr_eq(drift("{'agent':{'image':'img','resources':{'limits':{'cpu':'1'}}}}", MAIN, pod), NULL);
    json_object_set_new(api_at(pod, "spec", NULL), "containers", json_array());
    ck_assert_pstr_eq(drift("{'agent':{'image':'img','resources':{'limits':{'cpu':'1'}}}}", MAIN, pod), NULL);
    json_decref(pod);
}
END_TEST

/* A sidecar injected in front does not make the pod another one: decision 43. */
START_TEST(drift__looks_at_the_container_named_agent) {
    static const char *const SPEC =
        "{'agent':{'resources':{'limits':{'cpu':'1'}},'envFrom':[{'configMapRef':{'name':'c'}}]}}";
    json_t *pod = build(SPEC, MAIN);

    json_array_insert_new(api_at(pod, "spec", "containers", NULL), 0, api_json("{'name':'sidecar'}"));
    json_object_set_new(api_at(pod, "spec", "containers", "1", "resources", NULL), "requests", api_json("{'cpu':'1'}"));
    ck_assert_pstr_eq(drift(SPEC, MAIN, pod), NULL);
    json_decref(pod);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("drift");
    TCase *tcase = tcase_create("drift");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, drift__of_a_fresh_pod_is_none);
    tcase_add_test(tcase, drift__of_each_field_of_the_spec);
    tcase_add_test(tcase, drift__ignores_what_others_filled_in);
    tcase_add_test(tcase, drift__service_account);
    tcase_add_test(tcase, drift__environment);
    tcase_add_test(tcase, drift__node_pool);
    tcase_add_test(tcase, drift__pin_never_counts);
    tcase_add_test(tcase, drift__fork_source);
    tcase_add_test(tcase, drift__older_vm_names_are_kept);
    tcase_add_test(tcase, drift__snapshot_class);
    tcase_add_test(tcase, drift__static_toolbox);
    tcase_add_test(tcase, drift__keeps_what_it_cannot_judge);
    tcase_add_test(tcase, drift__looks_at_the_container_named_agent);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
