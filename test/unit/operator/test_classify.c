/* Who is who among the pods: contract/03 step 4, contract/02 chapter 17. */
#include "cocoonset/classify.h"

#include <check.h>
#include <stdarg.h>

#include "base/alloc.h"
#include "base/text.h"
#include "support/api_objects.h"
#include "support/vectors.h"

#define PODS_MAX 8

struct listed {
    const struct cc_cocoonset *set;
    const struct cc_object *items[PODS_MAX];
    size_t count;
    struct cc_arena arena;
    struct op_pods pods;
};

/* labels: single-quoted members; owner: a UID, "" = no owner. */
static void add(struct listed *listed, const char *name, const char *labels, const char *owner, bool terminating) {
    char *owners = *owner
                       ? cc_xasprintf("[{'apiVersion':'cocoonset.cocoonstack.io/v1','kind':'CocoonSet','name':'demo',"
                                      "'uid':'%s','controller':true}]",
                                      owner)
                       : cc_xstrdup("[]");
    char *text =
        cc_xasprintf("{'metadata':{'name':'%s','namespace':'ns','uid':'uid-%s','labels':{%s},"
                     "'ownerReferences':%s%s}}",
                     name, name, labels, owners, terminating ? ",'deletionTimestamp':'2026-08-30T12:00:00Z'" : "");

    listed->items[listed->count++] = &api_pod(text)->base;
    free(text);
    free(owners);
}

static void begin(struct listed *listed) {
    *listed = (struct listed){.set = api_set("ns", "demo", 1, "{'agent':{'image':'img'}}")};
}

static void classify(struct listed *listed, bool with_terminating) {
    op_classify(listed->set, listed->items, listed->count, with_terminating, &listed->arena, &listed->pods);
}

static void end(struct listed *listed) {
    op_pods_done(&listed->pods);
    for (size_t i = 0; i < listed->count; i++)
        cc_object_unref(listed->items[i]);
    api_set_free(listed->set);
    cc_arena_done(&listed->arena);
}

#define ROLE "'cocoonset.cocoonstack.io/role':"
#define SLOT ",'cocoonset.cocoonstack.io/slot':"

START_TEST(classify__roles_and_slots) {
    struct listed l;

    begin(&l);
    add(&l, "demo-tb", ROLE "'toolbox'" SLOT "'tb'", "uid-demo", false);
    add(&l, "demo-2", ROLE "'sub-agent'" SLOT "'2'", "uid-demo", false);
    add(&l, "demo-0", ROLE "'main'" SLOT "'0'", "uid-demo", false);
    add(&l, "demo-1", ROLE "'sub-agent'" SLOT "'1'", "uid-demo", false);
    classify(&l, false);
    ck_assert_uint_eq(l.pods.count, 4);
    ck_assert_str_eq(l.pods.items[0].pod->base.meta.name, "demo-0");
    ck_assert_str_eq(l.pods.items[3].pod->base.meta.name, "demo-tb");
    ck_assert_ptr_eq(l.pods.main, op_pods_find(&l.pods, "demo-0"));
    ck_assert_uint_eq(l.pods.sub_agent_count, 2);
    ck_assert_int_eq(l.pods.sub_agents[0]->slot, 1);
    ck_assert_int_eq(l.pods.sub_agents[1]->slot, 2);
    ck_assert_uint_eq(l.pods.toolbox_count, 1);
    ck_assert_str_eq(l.pods.toolboxes[0]->toolbox, "tb");
    ck_assert_ptr_eq(op_pods_toolbox(&l.pods, "tb"), l.pods.toolboxes[0]);
    ck_assert_ptr_null(op_pods_sub_agent(&l.pods, 3));
    CC_VECTOR("03-15");
    end(&l);
}
END_TEST

START_TEST(classify__unknown_role_or_bad_slot_is_known_by_name_only) {
    struct listed l;

    begin(&l);
    add(&l, "demo-0", "", "uid-demo", false);
    add(&l, "demo-1", ROLE "'sub-agent'" SLOT "'one'", "uid-demo", false);
    add(&l, "demo-2", ROLE "'sub-agent'" SLOT "'0'", "uid-demo", false);
    add(&l, "demo-3", ROLE "'sub-agent'" SLOT "'99999999999'", "uid-demo", false);
    add(&l, "demo-4", ROLE "'king'", "uid-demo", false);
    classify(&l, false);
    ck_assert_uint_eq(l.pods.count, 5);
    ck_assert_ptr_null(l.pods.main);
    ck_assert_uint_eq(l.pods.sub_agent_count, 0);
    ck_assert_uint_eq(l.pods.toolbox_count, 0);
    for (size_t i = 0; i < l.pods.count; i++)
        ck_assert_int_eq(l.pods.items[i].kind, OP_POD_OTHER);
    CC_VECTOR("03-16");
    end(&l);
}
END_TEST

START_TEST(classify__labels_alone_do_not_make_an_owner) {
    struct listed l;

    begin(&l);
    add(&l, "demo-0", ROLE "'main'", "uid-of-another", false);
    add(&l, "demo-1", ROLE "'sub-agent'" SLOT "'1'", "", false);
    classify(&l, true);
    ck_assert_uint_eq(l.pods.count, 0);
    CC_VECTOR("02-21.8.1");
    end(&l);
}
END_TEST

START_TEST(classify__terminating_pods_are_for_the_deletion_only) {
    struct listed l;

    begin(&l);
    add(&l, "demo-0", ROLE "'main'", "uid-demo", true);
    add(&l, "demo-x", "", "uid-demo", false);
    classify(&l, false);
    ck_assert_uint_eq(l.pods.count, 1);
    ck_assert_ptr_null(l.pods.main);
    ck_assert_int_eq(l.pods.items[0].kind, OP_POD_OTHER);
    op_pods_done(&l.pods);
    classify(&l, true);
    ck_assert_uint_eq(l.pods.count, 2);
    CC_VECTOR("02-21.8.2");
    end(&l);
}
END_TEST

START_TEST(classify__of_two_claims_the_later_name_wins) {
    struct listed l;

    begin(&l);
    add(&l, "demo-b", ROLE "'sub-agent'" SLOT "'1'", "uid-demo", false);
    add(&l, "demo-a", ROLE "'sub-agent'" SLOT "'1'", "uid-demo", false);
    add(&l, "demo-t2", ROLE "'toolbox'" SLOT "'tb'", "uid-demo", false);
    add(&l, "demo-t1", ROLE "'toolbox'" SLOT "'tb'", "uid-demo", false);
    classify(&l, false);
    ck_assert_uint_eq(l.pods.sub_agent_count, 1);
    ck_assert_str_eq(l.pods.sub_agents[0]->pod->base.meta.name, "demo-b");
    ck_assert_uint_eq(l.pods.toolbox_count, 1);
    ck_assert_str_eq(l.pods.toolboxes[0]->pod->base.meta.name, "demo-t2");
    end(&l);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("operator classify");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, classify__roles_and_slots);
    tcase_add_test(tests, classify__unknown_role_or_bad_slot_is_known_by_name_only);
    tcase_add_test(tests, classify__labels_alone_do_not_make_an_owner);
    tcase_add_test(tests, classify__terminating_pods_are_for_the_deletion_only);
    tcase_add_test(tests, classify__of_two_claims_the_later_name_wins);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
