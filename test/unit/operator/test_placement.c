/* What makes a pod drift from its set, and where it may go: contract/03 11.2 and part F, as the steps use it; and the
 * shape of the operator's log lines (contract/04 B3). */
#include "op_harness.h"

#include <fcntl.h>
#include <unistd.h>

#include "meta/drift.h"

#define AGENT "'agent':{'image':'" IMG "'}"

static const struct cc_cocoonset *set_of(const char *spec) {
    return api_set("ns", "demo", 1, spec);
}

static const struct cc_pod *agent_of(const struct cc_cocoonset *set, int32_t slot) {
    struct cc_pod_build_options options = {.main_vm_name = slot > 0 ? VM_M : NULL,
                                           .main_node = slot > 0 ? "node-a" : NULL};
    json_t *json = NULL;

    ck_assert_int_eq(cc_build_agent_pod(set, slot, &options, &json, NULL), 0);
    const struct cc_pod *pod = api_pod_of(json);
    json_decref(json);
    return pod;
}

/* Does the agent that `built` made match the set that `now` is? */
static bool agent_matches(const char *built, const char *now, int32_t slot) {
    const struct cc_cocoonset *before = set_of(built), *after = set_of(now);
    const struct cc_pod *pod = agent_of(before, slot);
    bool matches = cc_agent_pod_matches(after, slot, pod, NULL);

    cc_pod_unref(pod);
    api_set_free(before);
    api_set_free(after);
    return matches;
}

static bool toolbox_matches(const char *built, const char *now) {
    const struct cc_cocoonset *before = set_of(built), *after = set_of(now);
    json_t *json = NULL;

    ck_assert_int_eq(cc_build_toolbox_pod(before, &before->toolboxes[0], false, &json, NULL), 0);
    const struct cc_pod *pod = api_pod_of(json);
    bool matches = cc_toolbox_pod_matches(after, &after->toolboxes[0], pod, NULL);
    json_decref(json);
    cc_pod_unref(pod);
    api_set_free(before);
    api_set_free(after);
    return matches;
}

#define STATIC_TOOLBOX(id, ip, port)                                                                                   \
    "{" AGENT ",'toolboxes':[{'name':'tb','mode':'static','staticVMID':'" id "','staticIP':'" ip "','vncPort':" port   \
    "}]}"

START_TEST(placement__drift) {
    static const char *const edits[] = {
        "{'agent':{'image':'" IMG2 "'}}",
        "{'agent':{'image':'" IMG "','backend':'firecracker'}}",
        "{'agent':{'image':'" IMG "','resources':{'limits':{'cpu':'2'}}}}",
        "{'agent':{'image':'" IMG "','resources':{'limits':{'memory':'2Gi'}}}}",
        "{'agent':{'image':'" IMG "','probePort':8080}}",
        "{'agent':{'image':'" IMG "','serviceAccountName':'other'}}",
        "{'agent':{'image':'" IMG "','envFrom':[{'secretRef':{'name':'s'}}]}}",
        "{'nodePool':'other'," AGENT "}",
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(edits); i++)
        ck_assert_msg(!agent_matches("{" AGENT "}", edits[i], 0), "edit %zu", i);
    ck_assert(!agent_matches("{'snapshotCompatibilityClass':'a'," AGENT "}",
                             "{'snapshotCompatibilityClass':'b'," AGENT "}", 0));
    ck_assert(toolbox_matches(STATIC_TOOLBOX("q", "10.0.0.1", "5901"), STATIC_TOOLBOX("q", "10.0.0.1", "5901")));
    ck_assert(!toolbox_matches(STATIC_TOOLBOX("q", "10.0.0.1", "5901"), STATIC_TOOLBOX("r", "10.0.0.1", "5901")));
    ck_assert(!toolbox_matches(STATIC_TOOLBOX("q", "10.0.0.1", "5901"), STATIC_TOOLBOX("q", "10.0.0.2", "5901")));
    ck_assert(!toolbox_matches(STATIC_TOOLBOX("q", "10.0.0.1", "5901"), STATIC_TOOLBOX("q", "10.0.0.1", "5902")));
    CC_VECTOR("03-121");
}
END_TEST

START_TEST(placement__no_drift) {
    ck_assert(agent_matches("{" AGENT "}", "{" AGENT "}", 0));
    ck_assert(agent_matches("{" AGENT "}", "{'agent':{'image':'" IMG "','serviceAccountName':'default'}}", 0));
    ck_assert(agent_matches("{" AGENT "}", "{'nodePool':'default'," AGENT "}", 0));
    ck_assert(agent_matches("{'nodePool':'default'," AGENT "}", "{" AGENT "}", 0));
    ck_assert(agent_matches("{" AGENT "}", "{'nodeName':'node-b'," AGENT "}", 0));
    ck_assert(
        agent_matches("{'agent':{'image':'" IMG "','replicas':1}}", "{'agent':{'image':'" IMG "','replicas':1}}", 1));
    CC_VECTOR("03-122");
}
END_TEST

/* A pod of the time before classes is adopted until its next recreate. */
START_TEST(placement__class) {
    const struct cc_cocoonset *before = set_of("{" AGENT "}");
    const struct cc_cocoonset *after = set_of("{'snapshotCompatibilityClass':'a'," AGENT "}");

    for (int failed = 0; failed < 2; failed++) {
        json_t *json = NULL;
        ck_assert_int_eq(cc_build_agent_pod(before, 0, NULL, &json, NULL), 0);
        cc_json_set_new(json, "status", json_pack("{s:s}", "phase", failed ? "Failed" : "Running"));
        const struct cc_pod *pod = api_pod_of(json);
        ck_assert_int_eq(cc_agent_pod_matches(after, 0, pod, NULL), !failed);
        cc_pod_unref(pod);
        json_decref(json);
    }
    api_set_free(before);
    api_set_free(after);
    CC_VECTOR("03-123");
}
END_TEST

START_TEST(placement__of_a_built_pod) {
    static const struct {
        const char *spec, *pool, *class;
    } rows[] = {{"{'nodePool':'purpose-a','snapshotCompatibilityClass':'c'," AGENT "}", "purpose-a", "c"},
                {"{'nodePool':'purpose-a'," AGENT "}", "purpose-a", NULL}};
    const struct cc_cocoonset *pinned = set_of("{'nodeName':'node-b','agent':{'image':'" IMG "','replicas':1}}");
    const struct cc_pod *main = agent_of(pinned, 0), *sub = agent_of(pinned, 1);

    ck_assert_str_eq(main->node_name, "");
    ck_assert_uint_eq(main->required_hostname_count, 1);
    ck_assert_uint_eq(main->required_hostnames[0].count, 1);
    ck_assert_str_eq(main->required_hostnames[0].items[0], "node-b");
    CC_VECTOR("03-133");
    ck_assert_str_eq(sub->node_name, "node-a");
    ck_assert_uint_eq(sub->required_hostname_count, 0);
    CC_VECTOR("03-134");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct cc_cocoonset *set = set_of(rows[i].spec);
        const struct cc_pod *pod = agent_of(set, 0);
        ck_assert_str_eq(cc_strmap_text(&pod->node_selector, CC_KEY_POOL), rows[i].pool);
        ck_assert_str_eq(cc_strmap_text(&pod->node_selector, CC_KEY_SNAPSHOT_CPU_CLASS), cc_text_or(rows[i].class, ""));
        ck_assert_int_eq(cc_strmap_has(&pod->node_selector, CC_KEY_SNAPSHOT_CPU_CLASS), rows[i].class != NULL);
        cc_pod_unref(pod);
        api_set_free(set);
    }
    CC_VECTOR("03-135");
    static const char *const keys[] = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"};
    for (size_t k = 0; k < 2; k++) {
        bool found = false;
        for (size_t i = 0; i < main->toleration_count; i++) {
            const struct cc_toleration *toleration = &main->tolerations[i];
            if (!cc_text_equal(toleration->key, keys[k]))
                continue;
            found = true;
            ck_assert_str_eq(toleration->operator_, "Exists");
            ck_assert_str_eq(toleration->effect, "NoExecute");
            ck_assert_int_eq(toleration->seconds, -1);
        }
        ck_assert_msg(found, "%s", keys[k]);
    }
    CC_VECTOR("03-136");
    cc_pod_unref(main);
    cc_pod_unref(sub);
    api_set_free(pinned);
}
END_TEST

static void log_two_lines(void *arg) {
    (void)arg;
    cc_log_info("msg", CC_KV("lone", NULL));
    cc_fiber_context_set("ns", "e2e");
    cc_log_info("msg", CC_KV("pod", "demo-0"));
}

/* Pairs are structs here, so a key without its value is one whose value is NULL: it is left out. */
START_TEST(placement__log_lines) {
    char path[] = "/tmp/op-log-XXXXXX", text[4096];
    int fd = mkstemp(path), saved = dup(1);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(cc_log_setup("OPERATOR_LOG_LEVEL", "info", "text", NULL), 0);
    fflush(stdout);
    dup2(fd, 1);
    cc_test_run_virtual(log_two_lines, NULL);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    unlink(path);
    ck_assert_int_gt(length, 0);
    text[length] = '\0';
    char *second = strchr(text, '\n');
    ck_assert_ptr_nonnull(second);
    *second++ = '\0';
    ck_assert_ptr_nonnull(strstr(text, " msg"));
    ck_assert_ptr_null(strstr(text, "lone"));
    CC_VECTOR("04-58");
    ck_assert_ptr_nonnull(strstr(second, " msg "));
    ck_assert_ptr_nonnull(strstr(second, " ns=e2e"));
    ck_assert_ptr_nonnull(strstr(second, " pod=demo-0"));
    ck_assert_ptr_eq(strchr(second, '\n'), second + strlen(second) - 1);
    CC_VECTOR("04-57");
}
END_TEST

OP_SUITE_MAIN("operator placement", placement__drift, placement__no_drift, placement__class, placement__of_a_built_pod,
              placement__log_lines)
