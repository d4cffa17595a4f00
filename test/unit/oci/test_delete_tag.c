/* The helpers over the port, against the registry in memory: tombstones and the deletion of a tag (decision 63 and
 * 'Deleting a tag'). Fault runs fail each port call in turn: another tag must never be lost. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "aio/fiber.h"
#include "oci/media_types.h"
#include "oci/registry.h"
#include "oci/snapshot.h"
#include "oci/tombstone.h"
#include "support/fiber_test.h"
#include "support/memory_registry.h"
#include "support/vectors.h"

#define REPO "vk-demo-web-0"

static struct cc_memory_registry *memory;
static struct cc_registry port;

static void setup(void) {
    memory = cc_memory_registry_new();
    port = cc_memory_registry_port(memory);
}

static void teardown(void) {
    cc_memory_registry_free(memory);
}

static void put(const char *tag, const char *id) {
    cc_memory_registry_put_snapshot(memory, REPO, tag, id, "img:1", "node-a");
}

static bool has(const char *tag) {
    return cc_memory_registry_tag(memory, REPO, tag) != NULL;
}

static int delete_tag(const char *tag, struct cc_err *err) {
    return cc_registry_delete_tag(&port, REPO, tag, err);
}

static void put_tombstone(const char *tag) {
    struct cc_buf tombstone cc_cleanup(cc_buf_done);
    cc_buf_init(&tombstone, CC_TOMBSTONE_BYTES_MAX);
    cc_tombstone_make(&tombstone);
    ck_assert_int_eq(cc_buf_check(&tombstone, "tombstone", NULL), 0);
    cc_memory_registry_put_tag(memory, REPO, tag, tombstone.data);
}

#define FIBER_TEST(name)                                                                                               \
    static void name##_body(void *arg CC_UNUSED);                                                                      \
    START_TEST(name) {                                                                                                 \
        cc_test_run_virtual(name##_body, NULL);                                                                        \
    }                                                                                                                  \
    END_TEST                                                                                                           \
    static void name##_body(void *arg CC_UNUSED)

FIBER_TEST(registry__has_tag_reads_a_tombstone_as_absent_and_removes_it) {
    bool present = true;
    put("hibernate", "A");
    put_tombstone("latest");
    ck_assert_int_eq(cc_registry_has_tag(&port, REPO, "hibernate", &present, NULL), 0);
    ck_assert(present);
    ck_assert_str_eq(cc_memory_registry_trace(memory), "HEAD " REPO ":hibernate\n"); /* its size tells */
    ck_assert_int_eq(cc_registry_has_tag(&port, REPO, "latest", &present, NULL), 0);
    ck_assert(!present);
    ck_assert(!has("latest"));
    ck_assert(has("hibernate"));
    /* Without the right to delete it still reads as absent. */
    put_tombstone("latest");
    cc_memory_registry_manner(memory)->refuse_all_deletes = true;
    cc_memory_registry_manner(memory)->hide_size = true;
    ck_assert_int_eq(cc_registry_has_tag(&port, REPO, "latest", &present, NULL), 0);
    ck_assert(!present);
    ck_assert_int_eq(cc_registry_has_tag(&port, REPO, "hibernate", &present, NULL), 0);
    ck_assert(present);
    ck_assert_int_eq(cc_registry_has_tag(&port, REPO, "none", &present, NULL), 0);
    ck_assert(!present);
}

FIBER_TEST(registry__an_error_is_never_absent) {
    struct cc_err err = {0};
    bool present = false, found = false;
    const char *image = NULL;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    put("hibernate", "A");
    static const int codes[] = {CC_DENIED, CC_UNAVAILABLE, CC_TIMEOUT, CC_THROTTLED, CC_PROTOCOL};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(codes); i++) {
        cc_memory_registry_fail(memory, CC_REGISTRY_HAS_MANIFEST, 1, 1, codes[i], 0, NULL, false);
        ck_assert_int_eq(cc_registry_has_tag(&port, REPO, "hibernate", &present, &err), codes[i]);
        cc_memory_registry_fail(memory, CC_REGISTRY_HAS_MANIFEST, 1, 1, codes[i], 0, NULL, false);
        ck_assert_int_eq(cc_registry_delete_tag_if_present(&port, REPO, "hibernate", &present, &err), codes[i]);
        cc_memory_registry_fail(memory, CC_REGISTRY_GET_MANIFEST, 1, 1, codes[i], 0, NULL, false);
        ck_assert_int_eq(cc_registry_base_image(&port, REPO, "hibernate", &arena, &found, &image, &err), codes[i]);
    }
    ck_assert(has("hibernate"));
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_DELETE_MANIFEST), 0);
}

FIBER_TEST(registry__base_image) {
    struct cc_err err = {0};
    bool found = false;
    const char *image = NULL;
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    put("hibernate", "A");
    ck_assert_int_eq(cc_registry_base_image(&port, REPO, "hibernate", &arena, &found, &image, &err), 0);
    ck_assert(found);
    ck_assert_str_eq(image, "img:1");
    cc_memory_registry_put_snapshot(memory, REPO, "bare", "B", NULL, NULL);
    ck_assert_int_eq(cc_registry_base_image(&port, REPO, "bare", &arena, &found, &image, &err), 0);
    ck_assert(found);
    ck_assert_str_eq(image, "");
    ck_assert_int_eq(cc_registry_base_image(&port, REPO, "none", &arena, &found, &image, &err), 0);
    ck_assert(!found);
    put_tombstone("grave");
    ck_assert_int_eq(cc_registry_base_image(&port, REPO, "grave", &arena, &found, &image, &err), 0);
    ck_assert(!found);
    ck_assert(!has("grave"));
    cc_memory_registry_put_tag(memory, REPO, "garbage", "no json");
    ck_assert_int_eq(cc_registry_base_image(&port, REPO, "garbage", &arena, &found, &image, &err), CC_PROTOCOL);
}

FIBER_TEST(delete_tag__where_tags_can_be_deleted) {
    put("hibernate", "A");
    put("latest", "A");
    ck_assert_int_eq(delete_tag("hibernate", NULL), 0);
    ck_assert_str_eq(cc_memory_registry_trace(memory), "DELETE " REPO ":hibernate\n");
    ck_assert(!has("hibernate") && has("latest"));
    ck_assert_int_eq(delete_tag("hibernate", NULL), 0);
    bool was_present = true;
    cc_memory_registry_forget_calls(memory);
    ck_assert_int_eq(cc_registry_delete_tag_if_present(&port, REPO, "hibernate", &was_present, NULL), 0);
    ck_assert(!was_present);
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_DELETE_MANIFEST), 0);
}

FIBER_TEST(delete_tag__by_digest_when_no_other_tag_shares_it) {
    for (int hide = 0; hide < 2; hide++) {
        cc_memory_registry_manner(memory)->refuse_tag_delete = true;
        cc_memory_registry_manner(memory)->hide_digest = hide;
        put("hibernate", "A");
        put("latest", "B");
        ck_assert_int_eq(delete_tag("hibernate", NULL), 0);
        ck_assert(!has("hibernate") && has("latest"));
        ck_assert_int_eq(delete_tag("hibernate", NULL), 0); /* absent */
    }
    ck_assert_int_eq(cc_memory_registry_calls(memory, CC_REGISTRY_PUT_MANIFEST), 0);
}

FIBER_TEST(delete_tag__shared_digest_goes_through_a_tombstone) {
    for (int hide = 0; hide < 2; hide++) {
        cc_memory_registry_manner(memory)->refuse_tag_delete = true;
        cc_memory_registry_manner(memory)->hide_digest = hide;
        put("hibernate", "A");
        put("latest", "A");
        put("other", "C");
        size_t before = cc_memory_registry_tag_count(memory);
        ck_assert_int_eq(delete_tag("hibernate", NULL), 0);
        ck_assert_uint_eq(cc_memory_registry_tag_count(memory), before - 1);
        ck_assert(!has("hibernate") && has("latest") && has("other"));
        const char *digest = cc_memory_registry_tag(memory, REPO, "latest");
        ck_assert_ptr_nonnull(cc_memory_registry_manifest(memory, REPO, digest, NULL));
    }
}

FIBER_TEST(delete_tag__clear_error_where_deletes_are_disabled) {
    struct cc_err err = {0};
    cc_memory_registry_manner(memory)->refuse_all_deletes = true;
    put("hibernate", "A");
    ck_assert_int_eq(delete_tag("hibernate", &err), CC_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "delete tag " REPO ":hibernate"));
    ck_assert(has("hibernate"));
    /* Shared: the tombstone cannot be deleted either, so the snapshot comes back. */
    put("latest", "A");
    char digest[CC_DIGEST_BYTES];
    snprintf(digest, sizeof digest, "%s", cc_memory_registry_tag(memory, REPO, "hibernate"));
    ck_assert_int_eq(delete_tag("hibernate", &err), CC_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "push and delete rights"));
    ck_assert_str_eq(cc_memory_registry_tag(memory, REPO, "hibernate"), digest);
    ck_assert_str_eq(cc_memory_registry_tag(memory, REPO, "latest"), digest);
}

/* Another tag's list entry that fails: nothing may be deleted. */
FIBER_TEST(delete_tag__an_incomplete_view_deletes_nothing) {
    struct cc_err err = {0};
    cc_memory_registry_manner(memory)->refuse_tag_delete = true;
    put("hibernate", "A");
    put("latest", "B");
    cc_memory_registry_fail(memory, CC_REGISTRY_LIST_TAGS, 1, 1, CC_UNAVAILABLE, 503, NULL, false);
    ck_assert_int_eq(delete_tag("hibernate", &err), CC_UNAVAILABLE);
    cc_memory_registry_fail(memory, CC_REGISTRY_HAS_MANIFEST, 2, 1, CC_DENIED, 403, NULL, false);
    ck_assert_int_eq(delete_tag("hibernate", &err), CC_DENIED);
    ck_assert_ptr_nonnull(strstr(err.msg, "tag latest"));
    ck_assert(has("hibernate") && has("latest"));
}

static CC_YIELDS int push_meanwhile(void *ctx, enum cc_registry_op op, const char *repository CC_UNUSED,
                                    const char *reference CC_UNUSED, struct cc_err *err CC_UNUSED) {
    const enum cc_registry_op *at = ctx;
    if (op == *at)
        put("hibernate", "NEW");
    return 0;
}

/* A push that moves the tag at any moment must survive: it holds the newest state of the VM. Right before the last
 * write nothing can protect it (no registry compares and swaps); those two operations are left out. */
FIBER_TEST(delete_tag__a_push_meanwhile_stays) {
    static const enum cc_registry_op moments[] = {CC_REGISTRY_LIST_TAGS, CC_REGISTRY_GET_MANIFEST,
                                                  CC_REGISTRY_PUT_BLOB};
    for (int shared = 0; shared < 2; shared++) {
        for (size_t i = 0; i < CC_ARRAY_LENGTH(moments); i++) {
            enum cc_registry_op op = moments[i];
            cc_memory_registry_manner(memory)->refuse_tag_delete = true;
            put("hibernate", "A");
            put("latest", shared ? "A" : "B");
            if (!shared && op != CC_REGISTRY_LIST_TAGS)
                continue;
            cc_memory_registry_set_hook(memory, push_meanwhile, &op);
            int rc = delete_tag("hibernate", NULL);
            cc_memory_registry_heal(memory);
            ck_assert_int_eq(rc, 0);
            ck_assert(has("hibernate") && has("latest"));
            const char *manifest =
                cc_memory_registry_manifest(memory, REPO, cc_memory_registry_tag(memory, REPO, "hibernate"), NULL);
            ck_assert(!cc_bytes_are_tombstone(manifest, strlen(manifest)));
        }
    }
}

/* Goal: whatever fails, other tags stay, and the tag itself names its snapshot, or reads as absent with the deletion to
 * be completed later. Method: count the calls of a clean run, then fail each one, before and after its effect. */
FIBER_TEST(delete_tag__every_single_fault_is_safe) {
    static const int codes[] = {CC_UNAVAILABLE, CC_DENIED, CC_TIMEOUT};
    for (int op = 0; op < CC_REGISTRY_OP_COUNT; op++) {
        for (int k = 1; k <= 6; k++) {
            for (size_t variant = 0; variant < 2 * CC_ARRAY_LENGTH(codes); variant++) {
                cc_memory_registry_heal(memory);
                cc_memory_registry_manner(memory)->refuse_tag_delete = true;
                put("hibernate", "A");
                put("latest", "A");
                put("third", "C");
                cc_memory_registry_fail(memory, (enum cc_registry_op)op, k, 1, codes[variant / 2], 0, NULL,
                                        variant % 2 == 1);
                bool present = true;
                int rc = delete_tag("hibernate", NULL);
                cc_memory_registry_heal(memory);
                ck_assert(has("latest") && has("third"));
                ck_assert_int_eq(cc_registry_has_tag(&port, REPO, "hibernate", &present, NULL), 0);
                ck_assert_msg(rc != 0 || !present, "op %d k %d variant %zu", op, k, variant);
                ck_assert_int_eq(cc_registry_delete_tag_if_present(&port, REPO, "hibernate", NULL, NULL), 0);
                ck_assert(!has("hibernate") && has("latest") && has("third"));
            }
        }
    }
}

/* Contract/04 vectors 63 and 64; 64's "error" is replaced by the tombstone of decision 63. */
FIBER_TEST(delete_tag__contract_vectors) {
    put("hibernate", "A");
    cc_memory_registry_manner(memory)->refuse_tag_delete = true;
    ck_assert_int_eq(delete_tag("hibernate", NULL), 0);
    put("hibernate", "A");
    cc_memory_registry_manner(memory)->refuse_all_deletes = true;
    ck_assert_int_eq(delete_tag("hibernate", NULL), CC_UNSUPPORTED);
    CC_VECTOR("04-63");
    cc_memory_registry_manner(memory)->refuse_all_deletes = false;
    put("latest", "A");
    ck_assert_int_eq(delete_tag("hibernate", NULL), 0);
    ck_assert(!has("hibernate") && has("latest"));
    CC_VECTOR("04-64");
}

int main(void) {
    Suite *suite = suite_create("delete_tag");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, registry__has_tag_reads_a_tombstone_as_absent_and_removes_it);
    tcase_add_test(tests, registry__an_error_is_never_absent);
    tcase_add_test(tests, registry__base_image);
    tcase_add_test(tests, delete_tag__where_tags_can_be_deleted);
    tcase_add_test(tests, delete_tag__by_digest_when_no_other_tag_shares_it);
    tcase_add_test(tests, delete_tag__shared_digest_goes_through_a_tombstone);
    tcase_add_test(tests, delete_tag__clear_error_where_deletes_are_disabled);
    tcase_add_test(tests, delete_tag__an_incomplete_view_deletes_nothing);
    tcase_add_test(tests, delete_tag__a_push_meanwhile_stays);
    tcase_add_test(tests, delete_tag__every_single_fault_is_safe);
    tcase_add_test(tests, delete_tag__contract_vectors);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
