/* Goal: what the factory builds is still what the spec wants after it has been stored and read back.
 * Method: build the pods of a row of specs; write them to files in $CC_PODS_OUT; judge those in $CC_PODS_IN, which are
 * the same pods as a real API server gave them back (test/integration/test_crd.py). Without the variables: through
 * JSON. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "meta/drift.h"
#include "meta/pod_factory.h"
#include "support/api_objects.h"

#define POD_BYTES_MAX ((size_t)1024 * 1024)

static const char *const SPECS[] = {
    ("{'agent':{'image':'img','replicas':1},'toolboxes':[{'name':'tb'}]}"),
    ("{'snapshotPolicy':'main-only','nodePool':'gpu','snapshotCompatibilityClass':'n2-v1','nodeName':'node-b','agent':{"
     "'image':'ghcr.io/cocoonstack/cocoon/ubuntu:24.04','replicas':1,'mode':'run','os':'windows','connType':'rdp',"
     "'network':'net','forcePull':true,'noDirectIO':true,'probePort':3389,'storage':'40Gi','serviceAccountName':'"
     "builder',"
     "'envFrom':[{'configMapRef':{'name':'c'}},{'prefix':'S_','secretRef':{'name':'s','optional':true}}],'resources':{"
     "'requests':{'cpu':2,'memory':'4Gi'},'limits':{'cpu':'4','memory':'4Gi'}}},'toolboxes':[{'name':'win','mode':'"
     "static',"
     "'os':'windows','staticIP':'10.20.0.15','staticVMID':'qemu-1','vncPort':5901}]}"),
    /* limits only; a request that is rounded; a size in fractions of a byte */
    ("{'agent':{'image':'i','replicas':1,'resources':{'limits':{'cpu':'1000m','memory':'1024Mi'}},'storage':'0.1Gi'},"
     "'toolboxes':[{'name':'tb','resources':{'limits':{'cpu':'1.5'},'requests':{'cpu':'100u','memory':'100M'}},"
     "'storage':1000000}]}"),
    /* a request for one resource and a limit for another */
    ("{'agent':{'image':'i','replicas':1,'resources':{'requests':{'cpu':'100m'},'limits':{'memory':'2Gi'}}},"
     "'toolboxes':[{'name':'tb','resources':{'limits':{'memory':'2Gi'}},'storage':'0'}]}"),
};

enum kind { MAIN, SUB_AGENT, TOOLBOX, KINDS };

static json_t *build(const struct cc_cocoonset *set, enum kind kind) {
    struct cc_pod_build_options options = {.main_vm_name = "M", .main_node = "node-a", .restore = kind == MAIN};
    struct cc_err err = {0};
    json_t *pod = NULL;
    int rc = kind == TOOLBOX ? cc_build_toolbox_pod(set, &set->toolboxes[0], true, &pod, &err)
                             : cc_build_agent_pod(set, kind == MAIN ? 0 : 1, &options, &pod, &err);

    ck_assert_msg(rc == 0, "%s", err.msg);
    return pod;
}

static void write_pod(const char *directory, size_t spec, enum kind kind, const json_t *pod) {
    char *path = cc_xasprintf("%s/%zu-%d.json", directory, spec, (int)kind);
    char *text = cc_json_dump(pod);
    struct cc_err err = {0};

    ck_assert_msg(cc_file_replace(path, text, strlen(text), 0644, &err) == 0, "%s", err.msg);
    free(text);
    free(path);
}

/* NULL when there is no such file. */
static json_t *read_pod(const char *directory, size_t spec, enum kind kind) {
    char *path = cc_xasprintf("%s/%zu-%d.json", directory, spec, (int)kind);
    struct cc_buf text;
    json_t *pod = NULL;
    struct cc_err err = {0};

    cc_buf_init(&text, POD_BYTES_MAX);
    ck_assert_msg(cc_file_read(path, &text, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(cc_json_parse(text.data, text.len, POD_BYTES_MAX, &pod, &err), 0);
    cc_buf_done(&text);
    free(path);
    return pod;
}

static void judge(const struct cc_cocoonset *set, size_t spec, enum kind kind, const json_t *json) {
    const struct cc_pod *pod = api_pod_of(json);
    const char *reason = NULL;
    bool matches = kind == TOOLBOX ? cc_toolbox_pod_matches(set, &set->toolboxes[0], pod, &reason)
                                   : cc_agent_pod_matches(set, kind == MAIN ? 0 : 1, pod, &reason);

    ck_assert_msg(matches, "pod %zu-%d drifted: %s", spec, (int)kind, reason);
    cc_pod_unref(pod);
}

START_TEST(pod_roundtrip__pods_match_their_spec) {
    const char *out = getenv("CC_PODS_OUT"), *in = getenv("CC_PODS_IN");

    for (size_t i = 0; i < CC_ARRAY_LENGTH(SPECS); i++) {
        char *name = cc_xasprintf("demo%zu", i);
        const struct cc_cocoonset *set = api_set("ns", name, 11, SPECS[i]);
        for (enum kind kind = MAIN; kind < KINDS; kind++) {
            json_t *pod = build(set, kind);
            if (out)
                write_pod(out, i, kind, pod);
            if (in) {
                json_decref(pod);
                pod = read_pod(in, i, kind);
            }
            judge(set, i, kind, pod);
            json_decref(pod);
        }
        api_set_free(set);
        free(name);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pod_roundtrip");
    TCase *tcase = tcase_create("pod_roundtrip");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, pod_roundtrip__pods_match_their_spec);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
