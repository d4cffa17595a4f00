/* The in-memory API server behaves as the real one where our daemons look. The same scenarios run against a real API
 * server when COCOON_TEST_KUBECONFIG names a kubeconfig (namespace `fake-test` with its default service account, and
 * our CRDs must be there): a difference between the two is a fault of the fake. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/http_transport.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"

static const struct cc_kube_resource pods = {"v1", "Pod", "pods", true, NULL};
static const struct cc_kube_resource maps = {"v1", "ConfigMap", "configmaps", true, NULL};
static const struct cc_kube_resource events = {"v1", "Event", "events", true, NULL};
static const struct cc_kube_resource sets = {"cocoonset.cocoonstack.io/v1", "CocoonSet", "cocoonsets", true, NULL};

static const struct cc_kube *kube; /* of the running scenario */

/* --- helpers
 * ---------------------------------------------------------------------------------------------------------- */

static json_t *parse(const char *single_quoted) {
    char *text = strdup(single_quoted);
    json_t *json = NULL;

    for (char *at = text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    ck_assert_msg(cc_json_parse(text, strlen(text), 1000000, &json, NULL) == 0, "%s", text);
    free(text);
    return json;
}

static struct cc_kube_ref ref_of(const struct cc_kube_resource *resource, const char *name, const char *subresource) {
    return (struct cc_kube_ref){resource, "fake-test", name, subresource};
}

static json_t *create(const struct cc_kube_resource *resource, const char *name, const char *single_quoted) {
    struct cc_kube_ref ref = ref_of(resource, name, NULL);
    json_t *object = parse(single_quoted), *answer = NULL;
    struct cc_err err = {0};

    cc_json_set_text(object, "apiVersion", resource->api_version);
    cc_json_set_text(object, "kind", resource->kind);
    if (!json_object_get(object, "metadata"))
        cc_json_set_new(object, "metadata", json_object());
    cc_json_set_text(json_object_get(object, "metadata"), "name", name);
    ck_assert_msg(cc_kube_create(kube, &ref, object, &answer, &err) == 0, "%s", err.msg);
    json_decref(object);
    return answer;
}

static json_t *create_pod(const char *name, bool bound, const char *metadata) {
    char text[512];

    snprintf(
        text, sizeof text,
        "{'metadata':{%s},'spec':{%s'containers':[{'name':'agent','image':'i:1'}],'terminationGracePeriodSeconds':30},"
        "'status':{'phase':'Running'}}",
        metadata, bound ? "'nodeName':'n1'," : "");
    return create(&pods, name, text);
}

/* A patch; returns the answer, NULL when it was refused. */
static json_t *patch(const struct cc_kube_resource *resource, const char *name, const char *subresource,
                     enum cc_patch_type type, const char *single_quoted, struct cc_err *err) {
    struct cc_kube_ref ref = ref_of(resource, name, subresource);
    json_t *body = parse(single_quoted), *answer = NULL;

    *err = (struct cc_err){0};
    cc_ignore(cc_kube_patch(kube, &ref, type, body, &answer, err), "err tells");
    json_decref(body);
    return answer;
}

static void patch_ok(const struct cc_kube_resource *resource, const char *name, const char *subresource,
                     enum cc_patch_type type, const char *single_quoted) {
    struct cc_err err;
    json_t *answer = patch(resource, name, subresource, type, single_quoted, &err);

    ck_assert_msg(answer != NULL, "%s", err.msg);
    json_decref(answer);
}

static void patch_refused(const struct cc_kube_resource *resource, const char *name, const char *subresource,
                          enum cc_patch_type type, const char *single_quoted, int code, int status) {
    struct cc_err err;
    json_t *answer = patch(resource, name, subresource, type, single_quoted, &err);

    ck_assert_ptr_null(answer);
    ck_assert_msg(err.code == code && err.status == status, "%d %d %s", err.code, err.status, err.msg);
}

static json_t *get(const struct cc_kube_resource *resource, const char *name) {
    struct cc_kube_ref ref = ref_of(resource, name, NULL);
    json_t *answer = NULL;
    struct cc_err err = {0};

    ck_assert_msg(cc_kube_get(kube, &ref, &answer, &err) == 0, "%s", err.msg);
    return answer;
}

static bool exists(const struct cc_kube_resource *resource, const char *name) {
    struct cc_kube_ref ref = ref_of(resource, name, NULL);
    struct cc_err err = {0};
    int rc = cc_kube_get(kube, &ref, NULL, &err);

    ck_assert_msg(rc == 0 || rc == CC_NOT_FOUND, "%s", err.msg);
    return rc == 0;
}

static int delete (const struct cc_kube_resource *resource, const char *name, const char *uid, int64_t grace_s,
                   struct cc_err *err) {
    struct cc_kube_ref ref = ref_of(resource, name, NULL);
    struct cc_kube_delete_options options = {.uid = uid, .grace_s = grace_s};

    return cc_kube_delete(kube, &ref, &options, err);
}

static void delete_ok(const struct cc_kube_resource *resource, const char *name, int64_t grace_s) {
    struct cc_err err = {0};

    ck_assert_msg(delete (resource, name, NULL, grace_s, &err) == 0, "%s", err.msg);
}

static const char *meta(const json_t *object, const char *key) {
    return cc_json_text(json_object_get(object, "metadata"), key);
}

static int64_t generation(const json_t *object) {
    return cc_json_int(json_object_get(object, "metadata"), "generation", 0);
}

static void check_json(const json_t *value, const char *single_quoted) {
    json_t *wanted = parse(single_quoted);
    char *text = cc_json_dump(value);

    ck_assert_msg(json_equal((json_t *)value, wanted), "%s", text);
    free(text);
    json_decref(wanted);
}

/* --- scenarios
 * ---------------------------------------------------------------------------------------------------------- */

static void creates(void) {
    json_t *pod = create_pod("c1", true, "'labels':{'a':'b'},'uid':'mine','generation':7");
    struct cc_kube_ref ref = ref_of(&pods, "c1", NULL);
    struct cc_err err = {0};

    ck_assert_str_eq(cc_json_text(json_object_get(pod, "status"), "phase"), "Pending");
    ck_assert_uint_eq(strlen(meta(pod, "uid")), 36);
    ck_assert_str_eq(meta(pod, "namespace"), "fake-test");
    ck_assert_ptr_nonnull(meta(pod, "creationTimestamp"));
    ck_assert_int_eq(generation(pod), 1);
    ck_assert_str_eq(cc_json_text(pod, "kind"), "Pod");
    ck_assert_int_eq(cc_kube_create(kube, &ref, pod, NULL, &err), CC_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(err.msg, "resourceVersion should not be set"));
    json_object_del(json_object_get(pod, "metadata"), "resourceVersion");
    ck_assert_int_eq(cc_kube_create(kube, &ref, pod, NULL, &err), CC_EXISTS);
    ck_assert_str_eq(err.reason, "AlreadyExists");
    cc_json_set_text(json_object_get(pod, "metadata"), "namespace", "other");
    ck_assert_int_eq(cc_kube_create(kube, &ref, pod, NULL, &err), CC_INVALID);
    ck_assert_int_eq(err.status, 400);
    cc_json_set_text(json_object_get(pod, "metadata"), "namespace", "fake-test");
    cc_json_set_text(json_object_get(pod, "metadata"), "name", "Bad_Name");
    ck_assert_int_eq(cc_kube_create(kube, &ref, pod, NULL, &err), CC_INVALID);
    ck_assert_int_eq(err.status, 422);
    json_decref(pod);
    delete_ok(&pods, "c1", 0);
}

static void patches(void) {
    json_t *pod = create_pod("p1", true, "'annotations':{'a':'1','b':'2'}"), *other;
    char text[256];
    struct cc_err err;

    snprintf(text, sizeof text, "{'metadata':{'uid':'%s','annotations':{'b':null,'c':'3'}}}", meta(pod, "uid"));
    other = patch(&pods, "p1", NULL, CC_PATCH_MERGE, text, &err);
    check_json(cc_json_path(other, "metadata", "annotations", NULL), "{'a':'1','c':'3'}");
    ck_assert_str_ne(meta(other, "resourceVersion"), meta(pod, "resourceVersion"));
    ck_assert_int_eq(generation(other), 1);
    json_decref(pod);
    /* Nothing changes: nothing is written. */
    pod = patch(&pods, "p1", NULL, CC_PATCH_MERGE, text, &err);
    ck_assert_str_eq(meta(other, "resourceVersion"), meta(pod, "resourceVersion"));
    json_decref(other);

    patch_refused(&pods, "p1", NULL, CC_PATCH_MERGE, "{'metadata':{'uid':'wrong'}}", CC_INVALID, 422);
    other = patch(&pods, "p1", "status", CC_PATCH_STRATEGIC,
                  "{'metadata':{'uid':'wrong'},'status':{'phase':'Running'}}", &err);
    ck_assert_ptr_null(other);
    ck_assert_int_eq(err.status, 422);
    ck_assert(err.uid_mismatch);
    patch_refused(&pods, "p1", NULL, CC_PATCH_MERGE, "{'metadata':{'resourceVersion':'1'}}", CC_CONFLICT, 409);
    patch_refused(&pods, "missing", NULL, CC_PATCH_MERGE, "{}", CC_NOT_FOUND, 404);
    snprintf(text, sizeof text, "{'metadata':{'resourceVersion':'%s','finalizers':['x.io/f']}}",
             meta(pod, "resourceVersion"));
    patch_ok(&pods, "p1", NULL, CC_PATCH_MERGE, text);
    patch_refused(&pods, "p1", NULL, CC_PATCH_MERGE, text, CC_CONFLICT, 409);
    patch_ok(&pods, "p1", NULL, CC_PATCH_MERGE, "{'metadata':{'finalizers':null}}");
    json_decref(pod);
    delete_ok(&pods, "p1", 0);
}

static void statuses(void) {
    json_t *pod = create_pod("s1", true, "'labels':{'a':'b'}");

    json_decref(pod);
    patch_ok(&pods, "s1", "status", CC_PATCH_STRATEGIC,
             "{'status':{'phase':'Running','podIP':'10.0.0.1','podIPs':[{'ip':'10.0.0.1'}],"
             "'conditions':[{'type':'Ready','status':'True'},{'type':'Initialized','status':'True'}],"
             "'containerStatuses':[{'name':'agent','ready':true,'restartCount':0,'image':'i','imageID':'x'}]}}");
    patch_ok(&pods, "s1", "status", CC_PATCH_STRATEGIC,
             "{'status':{'conditions':[{'type':'Ready','status':'False','reason':'X'}],"
             "'containerStatuses':[{'name':'agent','ready':false,'restartCount':1}]}}");
    pod = get(&pods, "s1");
    const json_t *status = json_object_get(pod, "status");
    ck_assert_uint_eq(json_array_size(json_object_get(status, "conditions")), 2);
    size_t i;
    json_t *condition;
    json_array_foreach (json_object_get(status, "conditions"), i, condition) {
        if (strcmp(cc_json_text(condition, "type"), "Ready") == 0)
            ck_assert_str_eq(cc_json_text(condition, "status"), "False");
        else
            ck_assert_str_eq(cc_json_text(condition, "status"), "True");
    }
    const json_t *container = json_array_get(json_object_get(status, "containerStatuses"), 0);
    /* Not merged by name: the list is replaced whole. */
    ck_assert_str_ne(cc_text_or(cc_json_text(container, "image"), ""), "i");
    ck_assert(!cc_json_bool(container, "ready"));
    ck_assert_str_eq(cc_json_text(status, "podIP"), "10.0.0.1");
    json_decref(pod);
    /* The status is not changed through the object, nor the spec through /status. */
    patch_ok(&pods, "s1", NULL, CC_PATCH_MERGE, "{'status':{'phase':'Failed'}}");
    patch_ok(&pods, "s1", "status", CC_PATCH_MERGE, "{'spec':{'activeDeadlineSeconds':7},'status':{'reason':'R'}}");
    pod = get(&pods, "s1");
    ck_assert_str_eq(cc_json_text(json_object_get(pod, "status"), "phase"), "Running");
    ck_assert_str_eq(cc_json_text(json_object_get(pod, "status"), "reason"), "R");
    ck_assert_ptr_null(json_object_get(json_object_get(pod, "spec"), "activeDeadlineSeconds"));
    ck_assert_int_eq(generation(pod), 1);
    json_decref(pod);
    delete_ok(&pods, "s1", 0);
}

static void updates(void) {
    json_t *map = create(&maps, "u1", "{'data':{'k':'1'}}");
    struct cc_kube_ref ref = ref_of(&maps, "u1", NULL);
    struct cc_err err = {0};
    json_t *answer = NULL;

    cc_json_set_text(json_object_get(map, "data"), "k", "2");
    ck_assert_int_eq(cc_kube_update(kube, &ref, map, &answer, &err), 0);
    json_decref(answer);
    ck_assert_int_eq(cc_kube_update(kube, &ref, map, NULL, &err), CC_CONFLICT);
    ck_assert(!err.uid_mismatch);
    json_object_del(json_object_get(map, "metadata"), "resourceVersion");
    cc_json_set_text(json_object_get(map, "metadata"), "uid", "00000000-0000-4000-8000-0000000000ff");
    ck_assert_int_eq(cc_kube_update(kube, &ref, map, NULL, &err), CC_CONFLICT);
    ck_assert(err.uid_mismatch);
    json_decref(map);
    delete_ok(&maps, "u1", -1);
    ck_assert_int_eq(delete (&maps, "u1", NULL, -1, &err), CC_NOT_FOUND);
}

static void deletes_gracefully(void) {
    json_t *pod = create_pod("d1", true, "");
    struct cc_err err = {0};
    char *uid = strdup(meta(pod, "uid"));

    json_decref(pod);
    ck_assert_int_eq(delete (&pods, "d1", "00000000-0000-4000-8000-0000000000ff", 0, &err), CC_CONFLICT);
    ck_assert(err.uid_mismatch);
    ck_assert_int_eq(delete (&pods, "d1", uid, -1, &err), 0);
    pod = get(&pods, "d1");
    ck_assert_int_eq(cc_json_int(json_object_get(pod, "metadata"), "deletionGracePeriodSeconds", -1), 30);
    ck_assert_ptr_nonnull(meta(pod, "deletionTimestamp"));
    ck_assert_int_eq(generation(pod), 2);
    delete_ok(&pods, "d1", 60);
    json_t *same = get(&pods, "d1");
    ck_assert_str_eq(meta(same, "resourceVersion"), meta(pod, "resourceVersion"));
    json_decref(same);
    delete_ok(&pods, "d1", 5);
    same = get(&pods, "d1");
    ck_assert_int_eq(cc_json_int(json_object_get(same, "metadata"), "deletionGracePeriodSeconds", -1), 5);
    json_decref(same);
    json_decref(pod);
    ck_assert_int_eq(delete (&pods, "d1", uid, 0, &err), 0);
    ck_assert(!exists(&pods, "d1"));
    free(uid);

    /* Nobody runs it, or it has ended: gone at once. */
    json_decref(create_pod("d2", false, ""));
    delete_ok(&pods, "d2", -1);
    ck_assert(!exists(&pods, "d2"));
    json_decref(create_pod("d3", true, ""));
    patch_ok(&pods, "d3", "status", CC_PATCH_MERGE, "{'status':{'phase':'Failed'}}");
    delete_ok(&pods, "d3", -1);
    ck_assert(!exists(&pods, "d3"));
}

static void keeps_finalizers(void) {
    json_t *object;

    json_decref(create_pod("f1", true, "'finalizers':['x.io/f']"));
    delete_ok(&pods, "f1", 0);
    object = get(&pods, "f1");
    ck_assert_ptr_nonnull(meta(object, "deletionTimestamp"));
    ck_assert_int_eq(cc_json_int(json_object_get(object, "metadata"), "deletionGracePeriodSeconds", -1), 0);
    json_decref(object);
    patch_refused(&pods, "f1", NULL, CC_PATCH_MERGE, "{'metadata':{'finalizers':['x.io/f','x.io/g']}}", CC_INVALID,
                  422);
    patch_ok(&pods, "f1", NULL, CC_PATCH_MERGE, "{'metadata':{'finalizers':[]}}");
    ck_assert(!exists(&pods, "f1"));

    /* With time left the last finalizer does not remove it. */
    json_decref(create_pod("f2", true, "'finalizers':['x.io/f']"));
    delete_ok(&pods, "f2", 30);
    patch_ok(&pods, "f2", NULL, CC_PATCH_MERGE, "{'metadata':{'finalizers':null}}");
    ck_assert(exists(&pods, "f2"));
    delete_ok(&pods, "f2", 0);
    ck_assert(!exists(&pods, "f2"));

    json_decref(create(&maps, "f3", "{'metadata':{'finalizers':['x.io/f']}}"));
    delete_ok(&maps, "f3", -1);
    ck_assert(exists(&maps, "f3"));
    delete_ok(&maps, "f3", -1);
    patch_ok(&maps, "f3", NULL, CC_PATCH_MERGE, "{'metadata':{'finalizers':null}}");
    ck_assert(!exists(&maps, "f3"));
}

static void counts_generations(void) {
    struct cc_err err;
    json_t *set = create(&sets, "g1",
                         "{'metadata':{'finalizers':['x.io/f']},'spec':{'agent':{'image':'i','replicas':1}},"
                         "'status':{'phase':'Odd'}}");

    ck_assert_int_eq(generation(set), 1);
    ck_assert_ptr_null(json_object_get(set, "status"));
    json_decref(set);
    patch_ok(&sets, "g1", NULL, CC_PATCH_MERGE, "{'metadata':{'annotations':{'a':'b'}},'status':{'phase':'Odd'}}");
    patch_ok(&sets, "g1", "status", CC_PATCH_MERGE,
             "{'metadata':{'annotations':{'a':'changed'}},'spec':{'suspend':true},'status':{'phase':'Running'}}");
    set = get(&sets, "g1");
    ck_assert_int_eq(generation(set), 1);
    ck_assert_str_eq(cc_json_text(json_object_get(set, "status"), "phase"), "Running");
    ck_assert_str_eq(cc_json_text(cc_json_path(set, "metadata", "annotations", NULL), "a"), "b");
    ck_assert(!cc_json_bool(json_object_get(set, "spec"), "suspend"));
    json_decref(set);
    set = patch(&sets, "g1", NULL, CC_PATCH_MERGE, "{'spec':{'suspend':true}}", &err);
    ck_assert_int_eq(generation(set), 2);
    json_decref(set);
    patch_refused(&sets, "g1", NULL, CC_PATCH_STRATEGIC, "{'spec':{'suspend':false}}", CC_UNSUPPORTED, 415);
    delete_ok(&sets, "g1", -1);
    set = get(&sets, "g1");
    ck_assert_int_eq(generation(set), 3);
    json_decref(set);
    patch_ok(&sets, "g1", NULL, CC_PATCH_MERGE, "{'metadata':{'finalizers':null}}");
    ck_assert(!exists(&sets, "g1"));
}

/* Event types and names of the next `count` frames, bookmarks left out. */
static void read_frames(struct cc_watch *watch, size_t count, char *ret, size_t capacity) {
    static const char marks[] = "+~-";
    struct cc_err err = {0};

    ret[0] = '\0';
    while (count > 0) {
        enum cc_watch_type type;
        json_t *object = NULL;
        CC_DEADLINE_MS(5000);

        ck_assert_msg(cc_kube_watch_next(watch, &type, &object, &err) == 0, "%s after %s", err.msg, ret);
        ck_assert_ptr_nonnull(object);
        if (type != CC_WATCH_BOOKMARK) {
            size_t used = strlen(ret);
            snprintf(ret + used, capacity - used, "%c%s ", marks[type], meta(object, "name"));
            count--;
        }
        json_decref(object);
    }
}

static int take_version(void *ctx, const json_t *item, struct cc_err *err) {
    (void)ctx;
    (void)item;
    (void)err;
    return 0;
}

static void watches(void) {
    struct cc_kube_selection all = {.resource = &pods, .namespace = "fake-test"};
    struct cc_kube_selection labelled = {.resource = &pods,
                                         .namespace = "",
                                         .label_selector = "role in (x,y)",
                                         .field_selector = "spec.nodeName=n1,status.phase!=Failed"};
    struct cc_watch *watch = NULL, *narrow = NULL;
    char *version = NULL, seen[512];
    struct cc_err err = {0};

    ck_assert_int_eq(cc_kube_list(kube, &all, take_version, NULL, NULL, &version, &err), 0);
    json_decref(create_pod("w1", true, "'labels':{'role':'x'}"));
    ck_assert_int_eq(cc_kube_watch_open(kube, &all, version, &watch, &err), 0);
    ck_assert_int_eq(cc_kube_watch_open(kube, &labelled, version, &narrow, &err), 0);
    json_decref(create_pod("w2", false, "'labels':{'role':'x'}"));
    patch_ok(&pods, "w1", NULL, CC_PATCH_MERGE, "{'metadata':{'labels':{'role':'z'}}}");
    patch_ok(&pods, "w1", NULL, CC_PATCH_MERGE, "{'metadata':{'labels':{'role':'y'}}}");
    patch_ok(&pods, "w1", NULL, CC_PATCH_MERGE, "{'metadata':{'labels':{'role':'y'}}}");
    delete_ok(&pods, "w1", -1);
    patch_ok(&pods, "w1", "status", CC_PATCH_STRATEGIC, "{'status':{'phase':'Failed'}}");
    delete_ok(&pods, "w1", 0);
    delete_ok(&pods, "w2", 0);
    read_frames(watch, 10, seen, sizeof seen);
    ck_assert_str_eq(seen, "+w1 +w2 ~w1 ~w1 ~w1 ~w1 ~w1 -w1 ~w2 -w2 ");
    read_frames(narrow, 5, seen, sizeof seen);
    ck_assert_str_eq(seen, "+w1 -w1 +w1 ~w1 -w1 ");
    cc_kube_watch_close(watch);
    cc_kube_watch_close(narrow);
    free(version);
}

static int count_kinds(void *ctx, const json_t *item, struct cc_err *err) {
    int *counts = ctx;

    (void)err;
    counts[0]++;
    counts[1] += json_object_get(item, "kind") != NULL;
    return 0;
}

static void lists(void) {
    struct cc_kube_selection selection = {.resource = &maps, .namespace = "fake-test", .label_selector = "t=l,!absent"};
    char name[32];
    int counts[2] = {0};
    struct cc_err err = {0};

    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "l%d", i);
        json_decref(create(&maps, name, "{'metadata':{'labels':{'t':'l'}}}"));
    }
    ck_assert_int_eq(cc_kube_list(kube, &selection, count_kinds, NULL, counts, NULL, &err), 0);
    ck_assert_int_eq(counts[0], 7);
    ck_assert_int_eq(counts[1], 0);
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "l%d", i);
        delete_ok(&maps, name, -1);
    }
    json_decref(create(&sets, "l1", "{'spec':{'agent':{'image':'i','replicas':1}}}"));
    struct cc_kube_selection custom = {.resource = &sets, .namespace = "fake-test"};
    memset(counts, 0, sizeof counts);
    ck_assert_int_eq(cc_kube_list(kube, &custom, count_kinds, NULL, counts, NULL, &err), 0);
    ck_assert_int_eq(counts[0], 1);
    ck_assert_int_eq(counts[1], 1);
    delete_ok(&sets, "l1", -1);
}

static void event_counts(void) {
    json_decref(
        create(&events, "e1.abc",
               "{'involvedObject':{'apiVersion':'v1','kind':'Pod','namespace':'fake-test','name':'x'},'reason':'R',"
               "'message':'m','type':'Normal','source':{'component':'c'},'reportingComponent':'c',"
               "'reportingInstance':'','firstTimestamp':'2026-08-30T12:00:00Z',"
               "'lastTimestamp':'2026-08-30T12:00:00Z','count':1}"));
    patch_ok(&events, "e1.abc", NULL, CC_PATCH_STRATEGIC, "{'count':2,'lastTimestamp':'2026-08-30T12:00:03Z'}");
    json_t *event = get(&events, "e1.abc");
    ck_assert_int_eq(cc_json_int(event, "count", 0), 2);
    ck_assert_str_eq(cc_json_text(event, "message"), "m");
    json_decref(event);
    delete_ok(&events, "e1.abc", -1);
}

/* --- both servers
 * ------------------------------------------------------------------------------------------------------- */

static void (*const scenarios[])(void) = {
    creates, patches, statuses,    updates, deletes_gracefully, keeps_finalizers, counts_generations,
    watches, lists,   event_counts};

static void run_on_fake(void *arg) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct cc_kube client = {.transport = fake_kube_transport(fake)};

    kube = &client;
    (*(void (*const *)(void))arg)();
    ck_assert_uint_eq(fake_kube_count(fake, "pods") + fake_kube_count(fake, "configmaps"), 0);
    fake_kube_free(fake);
}

START_TEST(fake_kube__behaves_as_documented) {
    cc_test_run_virtual(run_on_fake, (void *)&scenarios[_i]);
}
END_TEST

static void run_on_real(void *arg) {
    struct cc_kube_config_sources sources = {.flag = getenv("COCOON_TEST_KUBECONFIG")};
    struct cc_kube_config *config = NULL;
    struct cc_kube_http_transport *transport = NULL;
    struct cc_err err = {0};

    ck_assert_msg(cc_kube_config_load(&sources, &config, &err) == 0, "%s", err.msg);
    ck_assert_msg(cc_kube_http_transport_new(cc_loop_current(), config, "test/1 (linux/amd64)", &transport, &err) == 0,
                  "%s", err.msg);
    struct cc_kube client = {.transport = cc_kube_http_transport_port(transport)};
    kube = &client;
    (*(void (*const *)(void))arg)();
    cc_kube_http_transport_free(transport);
    cc_kube_config_free(config);
}

START_TEST(fake_kube__behaves_as_the_real_one) {
    cc_test_run(run_on_real, (void *)&scenarios[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kube/fake_kube");
    TCase *tcase = tcase_create("fake_kube");

    tcase_set_timeout(tcase, 20);
    tcase_add_loop_test(tcase, fake_kube__behaves_as_documented, 0, CC_ARRAY_LENGTH(scenarios));
    if (getenv("COCOON_TEST_KUBECONFIG"))
        tcase_add_loop_test(tcase, fake_kube__behaves_as_the_real_one, 0, CC_ARRAY_LENGTH(scenarios));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
