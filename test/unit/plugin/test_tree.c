/* `kubectl cocoon status`: the tree, and what each line waits for. */
#include "tree.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "support/api_objects.h"

#define NOW_S INT64_C(1788091200) /* 2026-08-30T12:00:00Z */
#define OBJECTS_MAX 16

struct fixture {
    const struct cc_object *sets[OBJECTS_MAX], *pods[OBJECTS_MAX], *hibernations[OBJECTS_MAX];
    struct kc_view view;
    struct cc_arena arena;
    struct kc_lines lines;
    char *text;
    size_t text_bytes;
};

static void start(struct fixture *f) {
    memset(f, 0, sizeof *f);
    cc_arena_init(&f->arena);
    f->view = (struct kc_view){
        .sets = f->sets, .pods = f->pods, .hibernations = f->hibernations, .now = {NOW_S * CC_NS_PER_S}};
}

static void end(struct fixture *f) {
    for (size_t i = 0; i < f->view.set_count; i++)
        cc_object_unref(f->sets[i]);
    for (size_t i = 0; i < f->view.pod_count; i++)
        cc_object_unref(f->pods[i]);
    for (size_t i = 0; i < f->view.hibernation_count; i++)
        cc_object_unref(f->hibernations[i]);
    cc_arena_done(&f->arena);
    free(f->text);
}

static const struct cc_object *decode(int (*function)(const json_t *, struct cc_object **, struct cc_err *),
                                      const char *text) {
    json_t *json = api_json(text);
    struct cc_object *object = NULL;
    struct cc_err err = {0};

    ck_assert_msg(function(json, &object, &err) == 0, "%s", err.msg);
    json_decref(json);
    return object;
}

static void add_set(struct fixture *f, const char *text) {
    f->sets[f->view.set_count++] = decode(cc_cocoonset_decode, text);
}

static void add_pod(struct fixture *f, const char *name, const char *annotations, const char *rest) {
    char *text =
        cc_xasprintf("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s','namespace':'prod','annotations':{%s},"
                     "'creationTimestamp':'2026-08-30T11:50:00Z','ownerReferences':[{'kind':'CocoonSet','name':'demo',"
                     "'uid':'u','apiVersion':'cocoonset.cocoonstack.io/v1','controller':true}]}%s}",
                     name, annotations, rest);
    f->pods[f->view.pod_count++] = decode(cc_pod_decode, text);
    free(text);
}

static void build(struct fixture *f) {
    FILE *out = open_memstream(&f->text, &f->text_bytes);

    kc_tree_build(&f->view, &f->arena, &f->lines);
    kc_tree_print(&f->lines, out);
    fclose(out);
}

#define SET(phase, more)                                                                                               \
    "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'demo','namespace':'prod',"     \
    "'generation':3,'creationTimestamp':'2026-08-30T11:00:00Z'},'spec':{'agent':{'image':'i','replicas':1},"           \
    "'toolboxes':[{'name':'shell','image':'t'}]" more "},'status':{'observedGeneration':3,'phase':'" phase "',"        \
    "'readyAgents':1,'desiredAgents':2,'readyToolboxes':1,'desiredToolboxes':1}}"
#define READY ",'spec':{'nodeName':'n1'},'status':{'phase':'Running','conditions':[{'type':'Ready','status':'True'}]}"
#define VM(name) "'vm.cocoonstack.io/name':'" name "'"

START_TEST(tree__a_set_with_its_pods) {
    struct fixture f;

    start(&f);
    add_set(&f, SET("Scaling", ""));
    add_pod(&f, "demo-shell", VM("vk-prod-demo-shell-c79ab8") ",'vm.cocoonstack.io/lifecycle-state':'ready'", READY);
    add_pod(
        &f, "demo-1", VM("vk-prod-demo-1-99494c"),
        ",'status':{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','message':'0/2 nodes'}]}");
    add_pod(&f, "demo-0", VM("vk-prod-demo-0-71ea62") ",'vm.cocoonstack.io/lifecycle-state':'ready'", READY);
    build(&f);
    ck_assert_str_eq(
        f.text,
        "NAME            ROLE        STATE         READY   NODE   VM                          AGE   WAITS FOR\n"
        "demo            set         Scaling       2/3     -      -                           60m   the main agent to "
        "be "
        "ready\n"
        "├─ demo-0       main        ready         yes     n1     vk-prod-demo-0-71ea62       10m   -\n"
        "├─ demo-1       sub-agent   unscheduled   no      -      vk-prod-demo-1-99494c       10m   a seat: 0/2 nodes\n"
        "└─ demo-shell   toolbox     ready         yes     n1     vk-prod-demo-shell-c79ab8   10m   -\n");
    end(&f);
}
END_TEST

START_TEST(tree__pods_that_are_not_there_and_not_wanted) {
    struct fixture f;

    start(&f);
    add_set(&f, SET("Pending", ""));
    add_pod(&f, "demo-7", VM("vk-prod-demo-7-x"), READY);
    build(&f);
    ck_assert_uint_eq(f.lines.count, 5);
    ck_assert_str_eq(f.lines.items[1].name, "demo-0");
    ck_assert_str_eq(f.lines.items[1].state, "absent");
    ck_assert_str_eq(f.lines.items[1].waits_for, "the operator, to make it");
    ck_assert_str_eq(f.lines.items[2].waits_for, "the main agent to be ready");
    ck_assert_str_eq(f.lines.items[4].name, "demo-7");
    ck_assert(f.lines.items[4].is_last && !f.lines.items[3].is_last);
    end(&f);
}
END_TEST

START_TEST(tree__what_a_pod_waits_for) {
    static const struct {
        const char *annotations, *rest, *state, *waits_for;
    } rows[] = {
        {"", READY, "Running", ""},
        {"'vm.cocoonstack.io/lifecycle-state':'ready'", READY, "ready", ""},
        {"'vm.cocoonstack.io/lifecycle-state':'hibernated','vm.cocoonstack.io/hibernate':'true'", READY, "hibernated",
         ""},
        {"'vm.cocoonstack.io/lifecycle-state':'hibernated'", READY, "hibernated", "its memory to be restored"},
        {"'vm.cocoonstack.io/lifecycle-state':'ready','vm.cocoonstack.io/hibernate':'true'", READY, "ready",
         "its snapshot to be saved and pushed"},
        {"'vm.cocoonstack.io/lifecycle-state':'failed','vm.cocoonstack.io/lifecycle-state-message':'push: 401'", READY,
         "failed", "push: 401"},
        {"'cocoonset.cocoonstack.io/dead-letter':'x'", READY, "parked",
         "you: its rebuilds are used up; edit the set or delete the pod"},
        {"", ",'status':{'phase':'Pending'}", "unscheduled", "the scheduler"},
        {"",
         ",'spec':{'nodeName':'n'},'status':{'phase':'Pending','conditions':[{'type':'Ready','status':'False','message'"
         ":"
         "'ping failed'}]}",
         "Pending", "readiness: ping failed"},
        {"",
         ",'spec':{'nodeName':'n'},'status':{'phase':'Pending','containerStatuses':[{'name':'agent','state':{'waiting':"
         "{'reason':'Creating','message':'pulling'}}}]}",
         "Pending", "Creating: pulling"},
        {"", ",'spec':{'nodeName':'n'},'status':{'phase':'Pending'}", "Pending", "its VM to be ready"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        start(&f);
        add_set(&f, SET("Running", ""));
        add_pod(&f, "demo-0", rows[i].annotations, rows[i].rest);
        build(&f);
        ck_assert_str_eq(f.lines.items[1].state, rows[i].state);
        ck_assert_str_eq(f.lines.items[1].waits_for, rows[i].waits_for);
        end(&f);
    }
}
END_TEST

START_TEST(tree__a_pod_that_a_hibernation_holds) {
    struct fixture f;

    start(&f);
    add_set(&f, SET("Running", ""));
    add_pod(&f, "demo-0", "'vm.cocoonstack.io/lifecycle-state':'hibernated','vm.cocoonstack.io/hibernate':'true'",
            READY);
    f.hibernations[f.view.hibernation_count++] = decode(
        cc_cocoonhibernation_decode,
        "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonHibernation','metadata':{'name':'nap','namespace':"
        "'prod'},'spec':{'podRef':{'name':'demo-0'},'desire':'Hibernate'}}");
    build(&f);
    ck_assert_str_eq(f.lines.items[1].waits_for, "CocoonHibernation nap to be woken");
    end(&f);
}
END_TEST

START_TEST(tree__what_a_set_waits_for) {
    static const struct {
        const char *set, *waits_for;
    } rows[] = {
        {SET("Running", ""), ""},
        {SET("Suspended", ",'suspend':true"), ""},
        {SET("Suspending", ",'suspend':true"), "0 of 1 VMs to fall asleep"},
        {SET("Migrating", ",'nodeName':'n9'"), "the main agent to reach n9"},
        {SET("Waking", ""), "the main agent to be restored"},
        {SET("Failed", ",'suspend':true"), "a VM that does not fall asleep; it is tried again"},
        {SET("Failed", ""), "its main agent to be repaired"},
        {SET("Pending", ""), "the main agent to be ready"},
        {"{'metadata':{'name':'demo','namespace':'prod','generation':4},'spec':{'agent':{'image':'i'}},'status':"
         "{'observedGeneration':3,'phase':'Running'}}",
         "the operator, to take up this spec"},
        {"{'metadata':{'name':'demo','namespace':'prod','generation':1,'deletionTimestamp':'2026-08-30T11:00:00Z'}}",
         "its pods and snapshots to be cleaned up"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct fixture f;
        start(&f);
        add_set(&f, rows[i].set);
        add_pod(&f, "demo-0", "'vm.cocoonstack.io/lifecycle-state':'hibernated','vm.cocoonstack.io/hibernate':'true'",
                READY);
        if (i == 2) {
            cc_object_unref(f.pods[--f.view.pod_count]);
            add_pod(&f, "demo-0", "'vm.cocoonstack.io/lifecycle-state':'hibernated'", READY);
        }
        build(&f);
        ck_assert_str_eq(f.lines.items[0].waits_for, rows[i].waits_for);
        end(&f);
    }
}
END_TEST

START_TEST(tree__as_json) {
    struct fixture f;

    start(&f);
    f.view.with_namespace = true;
    add_set(&f, SET("Running", ",'suspend':false"));
    add_pod(&f, "demo-0",
            VM("vk-prod-demo-0-71ea62") ",'vm.cocoonstack.io/id':'7','vm.cocoonstack.io/ip':'10.0.0.7',"
                                        "'vm.cocoonstack.io/lifecycle-state':'ready'",
            READY);
    build(&f);
    ck_assert_str_eq(f.lines.items[0].name, "prod/demo");
    json_t *json = kc_tree_json(&f.lines);
    json_t *want = api_json(
        "{'sets':[{'namespace':'prod','name':'demo','phase':'Running','suspend':false,'generation':3,'"
        "observedGeneration':3,"
        "'readyAgents':1,'desiredAgents':2,'readyToolboxes':1,'desiredToolboxes':1,'pods':["
        "{'name':'demo-0','role':'main','state':'ready','ready':true,'vm':'vk-prod-demo-0-71ea62','vmID':'7','ip':'10."
        "0.0.7',"
        "'node':'n1'},{'name':'demo-1','role':'sub-agent','state':'absent','ready':false,'waitsFor':'the main agent to "
        "be "
        "ready'},{'name':'demo-shell','role':'toolbox','state':'absent','ready':false,'waitsFor':'the main agent to be "
        "ready'}]}]}");
    ck_assert_msg(json_equal(json, want), "%s", cc_json_dump(json));
    json_decref(json);
    json_decref(want);
    end(&f);
}
END_TEST

START_TEST(tree__ages) {
    static const struct {
        int64_t seconds;
        const char *text;
    } rows[] = {{-5, "0s"},         {0, "0s"},          {119, "119s"},     {120, "2m"},
                {330, "5m30s"},     {600, "10m"},       {3 * 3600, "3h"},  {3 * 3600 + 300, "3h5m"},
                {8 * 3600, "8h"},   {47 * 3600, "47h"}, {2 * 86400, "2d"}, {3 * 86400 + 7200, "3d2h"},
                {40 * 86400, "40d"}};
    struct cc_arena arena;

    cc_arena_init(&arena);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_wall now = {NOW_S * CC_NS_PER_S};
        struct cc_wall since = {(NOW_S - rows[i].seconds) * CC_NS_PER_S};
        ck_assert_str_eq(kc_age(since, now, &arena), rows[i].text);
    }
    ck_assert_str_eq(kc_age((struct cc_wall){0}, (struct cc_wall){1}, &arena), "<unknown>");
    cc_arena_done(&arena);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tree");
    TCase *tests = tcase_create("tree");

    tcase_add_test(tests, tree__a_set_with_its_pods);
    tcase_add_test(tests, tree__pods_that_are_not_there_and_not_wanted);
    tcase_add_test(tests, tree__what_a_pod_waits_for);
    tcase_add_test(tests, tree__a_pod_that_a_hibernation_holds);
    tcase_add_test(tests, tree__what_a_set_waits_for);
    tcase_add_test(tests, tree__as_json);
    tcase_add_test(tests, tree__ages);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
