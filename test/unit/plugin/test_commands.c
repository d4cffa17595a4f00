/* The commands of `kubectl cocoon` against an API server in memory. */
#include "app.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"

struct run {
    struct fake_kube *kube;
    struct cc_loop *loop;
    struct kc_app app;
    const char *line;
    int rc;
    struct cc_err err;
    char *out, *progress;
    size_t out_bytes, progress_bytes;
    CC_YIELDS void (*meanwhile)(struct fake_kube *kube); /* what the cluster does while the command waits */
};

#define SET                                                                                                            \
    "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'demo','namespace':'prod'},"
#define STATUS(generation, phase) "{'status':{'observedGeneration':" generation ",'phase':'" phase "'}}"

static void open_run(struct run *run) {
    memset(run, 0, sizeof *run);
    run->loop = cc_test_loop_virtual();
    run->kube = fake_kube_new(run->loop);
    fake_kube_put_text(run->kube,
                       SET "'spec':{'agent':{'image':'i'}},'status':{'observedGeneration':1,'phase':'Running'}}");
    fake_kube_put_text(run->kube, "{'apiVersion':'v1','kind':'Node','metadata':{'name':'n2'}}");
    fake_kube_put_pod(run->kube, "prod", "demo-0", "n1", "cocoonset.cocoonstack.io/name=demo",
                      "vm.cocoonstack.io/name=vk-prod-demo-0-71ea62");
}

static void close_run(struct run *run) {
    free(run->out);
    free(run->progress);
    fake_kube_free(run->kube);
    cc_loop_free(run->loop);
}

static void command_fiber(void *arg) {
    struct run *run = arg;
    char *copy = cc_xstrdup(run->line);
    char *argv[10] = {(char[]){"kubectl-cocoon"}};
    char *rest = copy;
    int argc = 1;

    for (char *word; argc < 9 && (word = strsep(&rest, " "));)
        argv[argc++] = word;
    run->app = (struct kc_app){.loop = run->loop, .namespace = "prod"};
    cc_arena_init(&run->app.arena);
    ck_assert_int_eq(kc_arguments_parse(argc, argv, &run->app.arguments, &run->err), 0);
    run->app.namespace = run->app.arguments.all_namespaces ? "" : "prod";
    run->app.kube.transport = fake_kube_transport(run->kube);
    run->app.out = open_memstream(&run->out, &run->out_bytes);
    run->app.progress = open_memstream(&run->progress, &run->progress_bytes);
    run->rc = kc_run(&run->app, &run->err);
    fclose(run->app.out);
    fclose(run->app.progress);
    cc_arena_done(&run->app.arena);
    free(copy);
}

static void cluster_fiber(void *arg) {
    struct run *run = arg;

    run->meanwhile(run->kube);
}

static void both(void *arg) {
    struct run *run = arg;

    if (run->meanwhile)
        cc_fiber_detach(cc_fiber_start(run->loop, "cluster", cluster_fiber, run));
    command_fiber(run);
}

static void execute(struct run *run, const char *line) {
    free(run->out);
    free(run->progress);
    run->line = line;
    run->err = (struct cc_err){0};
    cc_test_run_on(run->loop, both, run);
}

static void step(struct fake_kube *kube, int64_t ms, const char *patch) {
    ck_assert_int_eq(cc_sleep_ms(ms, NULL), 0);
    ck_assert(fake_kube_touch(kube, "cocoonsets", "prod", "demo", patch));
}

static void falls_asleep(struct fake_kube *kube) {
    step(kube, 2500, STATUS("2", "Suspending"));
    step(kube, 4000, STATUS("2", "Failed"));
    step(kube, 4000, STATUS("2", "Suspended"));
}

START_TEST(commands__suspend_waits_until_all_sleep) {
    struct run run;

    open_run(&run);
    run.meanwhile = falls_asleep;
    execute(&run, "suspend demo --wait");
    ck_assert_msg(run.rc == 0, "%s", run.err.msg);
    ck_assert_str_eq(run.out, "cocoonset.cocoonset.cocoonstack.io/demo suspended\n");
    /* A stale Running does not count; Failed is not final. */
    ck_assert_str_eq(run.progress, "demo: waiting for the operator, 0/0 agents and 0/0 toolboxes ready\n"
                                   "demo: Suspending, 0/0 agents and 0/0 toolboxes ready\n"
                                   "demo: Failed, 0/0 agents and 0/0 toolboxes ready\n"
                                   "demo: Suspended, 0/0 agents and 0/0 toolboxes ready\n");
    const struct fake_kube_request_log *patch = fake_kube_request_at(run.kube, "PATCH", NULL, 0);
    char *body = cc_json_dump(patch->body);
    ck_assert_str_eq(body, "{\"spec\":{\"suspend\":true}}");
    free(body);
    close_run(&run);
}
END_TEST

START_TEST(commands__wait_ends_in_time) {
    struct run run;

    open_run(&run);
    execute(&run, "suspend demo --wait --timeout 5s");
    ck_assert_int_eq(run.rc, CC_TIMEOUT);
    ck_assert(cc_text_starts_with(run.err.msg, "timed out waiting for the condition: demo: waiting for the operator"));
    close_run(&run);
}
END_TEST

static void somebody_else(struct fake_kube *kube) {
    step(kube, 2500, "{'spec':{'suspend':false}}");
}

START_TEST(commands__wait_ends_when_somebody_else_changes_the_set) {
    struct run run;

    open_run(&run);
    run.meanwhile = somebody_else;
    execute(&run, "suspend demo --wait");
    ck_assert_int_eq(run.rc, CC_INVALID);
    ck_assert_str_eq(run.err.msg, "demo was changed by somebody else meanwhile");
    close_run(&run);
}
END_TEST

START_TEST(commands__wait_survives_an_api_server_that_restarts) {
    struct run run;
    struct fake_kube_fault fault = {.kind = FAKE_KUBE_REFUSE, .method = "GET", .skip = 1, .count = 4};

    open_run(&run);
    run.meanwhile = falls_asleep;
    fake_kube_fail(run.kube, &fault);
    execute(&run, "suspend demo --wait");
    ck_assert_msg(run.rc == 0, "%s", run.err.msg);
    close_run(&run);
}
END_TEST

START_TEST(commands__wake_without_waiting) {
    struct run run;

    open_run(&run);
    execute(&run, "wake demo");
    ck_assert_int_eq(run.rc, 0);
    ck_assert_str_eq(run.out, "cocoonset.cocoonset.cocoonstack.io/demo is being woken\n");
    ck_assert_str_eq(run.progress, "");
    execute(&run, "wake demo -o json");
    json_t *json = json_loads(run.out, 0, NULL);
    ck_assert(!cc_json_bool(cc_json_member(json, "spec"), "suspend"));
    json_decref(json);
    close_run(&run);
}
END_TEST

static void moves(struct fake_kube *kube) {
    step(kube, 1500, STATUS("2", "Migrating"));
    /* Running already, but the main is where it was. */
    step(kube, 2000, STATUS("2", "Running"));
    ck_assert_int_eq(cc_sleep_ms(5000, NULL), 0);
    ck_assert(fake_kube_touch(kube, "pods", "prod", "demo-0", "{'spec':{'nodeName':'n2'}}"));
}

START_TEST(commands__migrate_waits_for_the_main_to_arrive) {
    struct run run;

    open_run(&run);
    run.meanwhile = moves;
    execute(&run, "migrate demo n2 --wait");
    ck_assert_msg(run.rc == 0, "%s", run.err.msg);
    ck_assert_str_eq(run.out, "cocoonset.cocoonset.cocoonstack.io/demo migrated\n");
    ck_assert_str_eq(fake_kube_text(run.kube, "cocoonsets", "prod", "demo", "spec/nodeName"), "n2");
    close_run(&run);
}
END_TEST

START_TEST(commands__migrate_to_a_node_that_does_not_exist_changes_nothing) {
    struct run run;
    struct cc_arena arena;

    open_run(&run);
    execute(&run, "migrate demo n3");
    ck_assert_int_eq(run.rc, CC_NOT_FOUND);
    ck_assert_uint_eq(fake_kube_writes(run.kube), 0);
    cc_arena_init(&arena);
    ck_assert_str_eq(kc_error_text(&run.err, &arena), "Error from server (NotFound): nodes \"n3\" not found");
    cc_arena_done(&arena);
    close_run(&run);
}
END_TEST

START_TEST(commands__who_may_not_read_nodes_can_migrate) {
    struct run run;
    struct fake_kube_fault fault = {.kind = FAKE_KUBE_STATUS, .path = "/nodes/", .status = 403, .count = -1};

    open_run(&run);
    fake_kube_fail(run.kube, &fault);
    execute(&run, "migrate demo n3");
    ck_assert_msg(run.rc == 0, "%s", run.err.msg);
    close_run(&run);
}
END_TEST

static void naps(struct fake_kube *kube) {
    ck_assert_int_eq(cc_sleep_ms(3000, NULL), 0);
    ck_assert(fake_kube_touch(kube, "cocoonhibernations", "prod", "demo-0",
                              "{'status':{'observedGeneration':1,'phase':'Hibernated'}}"));
}

START_TEST(commands__hibernate_makes_one_object_and_flips_it_later) {
    struct run run;

    open_run(&run);
    run.meanwhile = naps;
    execute(&run, "hibernate demo-0 --wait");
    ck_assert_msg(run.rc == 0, "%s", run.err.msg);
    ck_assert_str_eq(run.out, "cocoonhibernation.cocoonset.cocoonstack.io/demo-0 hibernated\n");
    ck_assert_str_eq(fake_kube_text(run.kube, "cocoonhibernations", "prod", "demo-0", "spec/desire"), "Hibernate");
    ck_assert_str_eq(fake_kube_text(run.kube, "cocoonhibernations", "prod", "demo-0", "spec/podRef/name"), "demo-0");
    run.meanwhile = NULL;
    execute(&run, "hibernate demo-0 --wake");
    ck_assert_int_eq(run.rc, 0);
    ck_assert_str_eq(fake_kube_text(run.kube, "cocoonhibernations", "prod", "demo-0", "spec/desire"), "Wake");
    ck_assert_uint_eq(fake_kube_count(run.kube, "cocoonhibernations"), 1);
    execute(&run, "hibernate demo-9");
    ck_assert_int_eq(run.rc, CC_NOT_FOUND);
    ck_assert_uint_eq(fake_kube_count(run.kube, "cocoonhibernations"), 1);
    close_run(&run);
}
END_TEST

START_TEST(commands__status_shows_what_can_be_read) {
    struct run run;

    open_run(&run);
    fake_kube_put_text(run.kube,
                       "{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','metadata':{'name':'broken',"
                       "'namespace':'prod'},'spec':{'agent':7}}");
    execute(&run, "status");
    ck_assert_msg(run.rc == 0, "%s", run.err.msg);
    ck_assert(cc_text_contains(run.out, "demo        set "));
    ck_assert(cc_text_contains(run.progress, "warning: CocoonSet broken left out: "));
    execute(&run, "status demo");
    ck_assert_int_eq(run.rc, 0);
    ck_assert(cc_text_contains(run.out, "└─ demo-0"));
    execute(&run, "status nothing");
    ck_assert_int_eq(run.rc, CC_NOT_FOUND);
    close_run(&run);
}
END_TEST

START_TEST(commands__snapshots_need_a_registry) {
    struct run run;

    unsetenv("OCI_REGISTRY");
    open_run(&run);
    execute(&run, "snapshots demo");
    ck_assert_int_eq(run.rc, CC_INVALID);
    ck_assert(cc_text_contains(run.err.msg, "Set OCI_REGISTRY or --registry"));
    execute(&run, "snapshots demo --registry none");
    ck_assert(cc_text_contains(run.err.msg, "there is no registry"));
    close_run(&run);
}
END_TEST

START_TEST(commands__errors_that_are_not_the_servers) {
    struct cc_err err = {0};
    struct cc_arena arena;

    cc_arena_init(&arena);
    cc_ignore(cc_err_set(&err, CC_INVALID, "no such file: x"), "wanted");
    ck_assert_str_eq(kc_error_text(&err, &arena), "error: no such file: x");
    cc_arena_done(&arena);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("commands");
    TCase *tests = tcase_create("commands");

    tcase_add_test(tests, commands__suspend_waits_until_all_sleep);
    tcase_add_test(tests, commands__wait_ends_in_time);
    tcase_add_test(tests, commands__wait_ends_when_somebody_else_changes_the_set);
    tcase_add_test(tests, commands__wait_survives_an_api_server_that_restarts);
    tcase_add_test(tests, commands__wake_without_waiting);
    tcase_add_test(tests, commands__migrate_waits_for_the_main_to_arrive);
    tcase_add_test(tests, commands__migrate_to_a_node_that_does_not_exist_changes_nothing);
    tcase_add_test(tests, commands__who_may_not_read_nodes_can_migrate);
    tcase_add_test(tests, commands__hibernate_makes_one_object_and_flips_it_later);
    tcase_add_test(tests, commands__status_shows_what_can_be_read);
    tcase_add_test(tests, commands__snapshots_need_a_registry);
    tcase_add_test(tests, commands__errors_that_are_not_the_servers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
