#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/json.h"
#include "kube/client.h"
#include "support/fake_kube.h"
#include "support/fiber_test.h"
#include "support/widget.h"

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg);                                                                                \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

static const struct cc_kube_resource pods = {"v1", "Pod", "pods", true, NULL};

struct names {
    char last[64];
    size_t count, restarts;
    int fail_at; /* item that is refused; 0 = none */
};

static int take_item(void *ctx, const json_t *item, struct cc_err *err) {
    struct names *names = ctx;
    const char *name = cc_json_text(json_object_get(item, "metadata"), "name");

    if (++names->count == (size_t)names->fail_at)
        return cc_err_set(err, CC_IO, "enough");
    ck_assert_int_lt(strcmp(names->last, name), 0);
    snprintf(names->last, sizeof names->last, "%s", name);
    return 0;
}

static void restart(void *ctx) {
    struct names *names = ctx;

    names->count = 0;
    names->last[0] = '\0';
    names->restarts++;
}

static struct fake_kube *fake_with_widgets(int count) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    char name[32];

    widget_register(fake);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "w%05d", i);
        widget_put(fake, name, i, i % 2 ? "odd" : "even");
    }
    return fake;
}

FIBER_TEST(list__reads_all_pages) {
    struct fake_kube *fake = fake_with_widgets(1203);
    struct cc_kube kube = {.transport = fake_kube_transport(fake)};
    struct cc_kube_selection selection = {.resource = &widget_resource, .namespace = ""};
    struct names names = {0};
    char *version = NULL;
    struct cc_err err;

    fake_kube_set_chunk(fake, 1000);
    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, restart, &names, &version, &err), 0);
    ck_assert_uint_eq(names.count, 1203);
    ck_assert_uint_eq(names.restarts, 0);
    ck_assert_str_eq(version, "1203");
    ck_assert_uint_eq(fake_kube_requests(fake, "LIST", NULL), 3);
    /* Decision 61: never a resourceVersion. */
    ck_assert_uint_eq(fake_kube_requests(fake, "LIST", "resourceVersion"), 0);
    ck_assert_uint_eq(fake_kube_requests(fake, "LIST", "limit=500"), 3);
    free(version);
    fake_kube_free(fake);
}

FIBER_TEST(list__selects) {
    struct fake_kube *fake = fake_with_widgets(10);
    struct cc_kube kube = {.transport = fake_kube_transport(fake)};
    struct cc_kube_selection selection = {&widget_resource, "ns", "group in (odd, none),group!=even",
                                          "metadata.name!=w00003"};
    struct names names = {0};

    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, NULL, &names, NULL, NULL), 0);
    ck_assert_uint_eq(names.count, 4);
    ck_assert_uint_eq(fake_kube_requests(fake, "LIST", "/namespaces/ns/widgets?"), 1);
    fake_kube_free(fake);
}

static void compact_on_second(void *ctx, const char *method CC_UNUSED, const char *path) {
    if (strstr(path, "continue="))
        fake_kube_compact(ctx);
}

FIBER_TEST(list__restarts_whole_on_a_stale_token) {
    struct fake_kube *fake = fake_with_widgets(1203);
    struct cc_kube kube = {.transport = fake_kube_transport(fake)};
    struct cc_kube_selection selection = {.resource = &widget_resource, .namespace = ""};
    struct names names = {0};
    char *version = NULL;

    fake_kube_on_request(fake, compact_on_second, fake);
    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, restart, &names, &version, NULL), 0);
    ck_assert_uint_eq(names.restarts, 1);
    ck_assert_uint_eq(names.count, 1203);
    ck_assert_uint_eq(fake_kube_requests(fake, "LIST", NULL), 3);
    const char *last = fake_kube_request_at(fake, "LIST", NULL, 2)->path;
    ck_assert(!strstr(last, "limit=") && !strstr(last, "continue="));
    free(version);
    fake_kube_free(fake);
}

FIBER_TEST(list__ends_with_the_code_of_its_caller) {
    struct fake_kube *fake = fake_with_widgets(10);
    struct cc_kube kube = {.transport = fake_kube_transport(fake)};
    struct cc_kube_selection selection = {.resource = &widget_resource, .namespace = ""};
    struct names names = {.fail_at = 4};
    struct cc_err err;

    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, NULL, &names, NULL, &err), CC_IO);
    ck_assert_uint_eq(names.count, 4);
    ck_assert_str_eq(err.msg, "list Widget: enough");
    fake_kube_free(fake);
}

FIBER_TEST(list__proves_nothing_when_it_is_of_another_kind_or_cut) {
    struct fake_kube *fake = fake_with_widgets(3);
    struct cc_kube kube = {.transport = fake_kube_transport(fake)};
    struct cc_kube_resource gadgets = widget_resource;
    struct cc_kube_selection selection = {.resource = &gadgets, .namespace = ""};
    struct names names = {0};
    struct cc_err err;

    gadgets.kind = "Gadget";
    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, NULL, &names, NULL, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "GadgetList"));
    gadgets.kind = "Widget";
    fake_kube_fail(fake, &(struct fake_kube_fault){.kind = FAKE_KUBE_CUT_BODY});
    names = (struct names){0};
    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, NULL, &names, NULL, &err), CC_PROTOCOL);
    fake_kube_remove_resource(fake, "widgets");
    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, NULL, &names, NULL, &err), CC_NOT_FOUND);
    fake_kube_free(fake);
}

FIBER_TEST(list__takes_builtin_lists_whose_items_have_no_kind) {
    struct fake_kube *fake = fake_kube_new(cc_loop_current());
    struct cc_kube kube = {.transport = fake_kube_transport(fake)};
    struct cc_kube_selection selection = {.resource = &pods, .namespace = "", .field_selector = "spec.nodeName=n1"};
    struct names names = {0};

    fake_kube_put_pod(fake, "ns", "a", "n1", "x=y", NULL);
    fake_kube_put_pod(fake, "ns", "b", "n2", NULL, NULL);
    ck_assert_int_eq(cc_kube_list(&kube, &selection, take_item, NULL, &names, NULL, NULL), 0);
    ck_assert_uint_eq(names.count, 1);
    ck_assert_str_eq(fake_kube_request_at(fake, "LIST", NULL, 0)->path,
                     "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=500");
    fake_kube_free(fake);
}

int main(void) {
    Suite *suite = suite_create("kube/list");
    TCase *tcase = tcase_create("list");

    tcase_add_test(tcase, list__reads_all_pages);
    tcase_add_test(tcase, list__selects);
    tcase_add_test(tcase, list__restarts_whole_on_a_stale_token);
    tcase_add_test(tcase, list__ends_with_the_code_of_its_caller);
    tcase_add_test(tcase, list__proves_nothing_when_it_is_of_another_kind_or_cut);
    tcase_add_test(tcase, list__takes_builtin_lists_whose_items_have_no_kind);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
