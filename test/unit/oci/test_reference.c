#include "oci/reference.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "support/vectors.h"

static struct cc_arena arena;

static void done(void) {
    cc_arena_done(&arena);
}

static void check_split(const char *ref, const char *repository, const char *tag) {
    const char *got_repository, *got_tag;
    cc_ref_split(ref, &arena, &got_repository, &got_tag);
    ck_assert_str_eq(got_repository, repository);
    ck_assert_str_eq(got_tag, tag);
}

START_TEST(reference__splits_at_the_first_colon) {
    check_split("repo", "repo", "latest");
    check_split("repo:v1", "repo", "v1");
    check_split("ns/repo:v1.2", "ns/repo", "v1.2");
    CC_VECTOR("05-16.9");
    check_split(":tag", ":tag", "latest");
    check_split("", "", "latest");
    CC_VECTOR("05-16.10");
    check_split("registry:5000/repo:tag", "registry", "5000/repo:tag");
    ck_assert(!cc_tag_is_valid("5000/repo:tag"));
    CC_VECTOR("05-16.11");
}
END_TEST

START_TEST(reference__relative) {
    static const char *const yes[] = {"repo", "repo:v1", "ns/repo:v1.2-rc", "reg.example/a/b:24.04",
                                      "snap_shot-x:latest"};
    static const char *const no[] = {"registry:5000/repo", "repo@sha256:deadbeef", "https://h/x.img", "Repo:tag"};
    static const char *const neither[] = {"repo:", ":tag", "a:b:c", ""};
    static const char *const more_no[] = {"a//b", "/a", "a/", "a..b", "a___b", "-a", "a-", "a:-x", "a:.x", "a/b-/c"};
    static const char *const more_yes[] = {"a__b", "a---b", "0/1.2_3:_x"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(yes); i++)
        ck_assert_msg(cc_ref_is_relative(yes[i]), "%s", yes[i]);
    CC_VECTOR("05-16.12");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(no); i++)
        ck_assert_msg(!cc_ref_is_relative(no[i]), "%s", no[i]);
    CC_VECTOR("05-16.13");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(neither); i++)
        ck_assert_msg(!cc_ref_is_relative(neither[i]), "%s", neither[i]);
    CC_VECTOR("05-16.14");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(more_no); i++)
        ck_assert_msg(!cc_ref_is_relative(more_no[i]), "%s", more_no[i]);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(more_yes); i++)
        ck_assert_msg(cc_ref_is_relative(more_yes[i]), "%s", more_yes[i]);
}
END_TEST

START_TEST(reference__local_names) {
    ck_assert_str_eq(cc_local_snapshot_name("myvm", "latest", &arena), "myvm");
    ck_assert_str_eq(cc_local_snapshot_name("myvm", "v2", &arena), "myvm:v2");
    ck_assert_str_eq(cc_local_snapshot_name("myvm", "", &arena), "myvm");
    CC_VECTOR("05-16.17");
    char letters[65], expected[64];
    memset(letters, 'a', 64);
    letters[64] = '\0';
    snprintf(expected, sizeof expected, "%.50s-ffe054fe7ae0", letters);
    ck_assert_str_eq(cc_local_snapshot_name(letters, "latest", &arena), expected);
    CC_VECTOR("05-16.18");
    static const char name[] = "images/very-long-team-name/golden-desktop-image-2026-09-stable-channel";
    snprintf(expected, sizeof expected, "%.50s-bfbc4e26e540", name);
    ck_assert_str_eq(cc_local_snapshot_name(name, "v20260901", &arena), expected);
    CC_VECTOR("05-16.19");
    letters[63] = '\0';
    ck_assert_str_eq(cc_local_snapshot_name(letters, "latest", &arena), letters);
    CC_VECTOR("05-16.20");
}
END_TEST

START_TEST(reference__base) {
    static const struct {
        const char *text, *host, *path;
    } good[] = {
        {"registry.local/p", "registry.local", "p"}, {"reg.example/p/r", "reg.example", "p/r"},
        {"localhost:5000/p", "localhost:5000", "p"}, {"localhost", "localhost", ""},
        {"10.0.0.5:5000", "10.0.0.5:5000", ""},      {"[::1]:5000/a_b.c-d", "[::1]:5000", "a_b.c-d"},
    };
    static const char *const bad[] = {
        "https://reg.example/p",
        "reg.example/",
        "reg.example/p/",
        "registry/p",
        "none",
        "reg.example//p",
        "reg.example/P",
        "reg.example/..",
        "reg.example/a/./b",
        "reg.example:0/p",
        "reg.ex ample/p",
        "u@reg.example",
        "/p",
        ":5000/p",
        "reg.example/p?x",
        "reg.example?u@h",
        "reg.example#x",
    };
    struct cc_registry_base base;
    struct cc_err err = {0};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(good); i++) {
        ck_assert_msg(cc_registry_base_parse(good[i].text, &arena, &base, &err) == 0, "%s", err.msg);
        ck_assert_str_eq(base.host, good[i].host);
        ck_assert_str_eq(base.path, good[i].path);
    }
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        ck_assert_msg(cc_registry_base_parse(bad[i], &arena, &base, &err) == CC_INVALID, "%s", bad[i]);
        ck_assert_ptr_nonnull(strstr(err.msg, "OCI_REGISTRY"));
    }
    ck_assert_int_eq(cc_registry_base_parse("", &arena, &base, &err), CC_INVALID);
    ck_assert_str_eq(err.msg, "OCI_REGISTRY must be set");
}
END_TEST

START_TEST(reference__characters) {
    ck_assert(cc_repository_is_valid("p/r/vk-demo-web-0"));
    ck_assert(!cc_repository_is_valid("a"));
    ck_assert(!cc_repository_is_valid("A/b"));
    ck_assert(!cc_repository_is_valid("a/../b"));
    ck_assert(!cc_repository_is_valid("a//b"));
    ck_assert(cc_tag_is_valid("v1.2-RC_3"));
    ck_assert(!cc_tag_is_valid(""));
    ck_assert(!cc_tag_is_valid("a/b"));
    char tag[130];
    memset(tag, 'x', 129);
    tag[129] = '\0';
    ck_assert(!cc_tag_is_valid(tag));
    tag[128] = '\0';
    ck_assert(cc_tag_is_valid(tag));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("reference");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, NULL, done);
    tcase_add_test(tests, reference__splits_at_the_first_colon);
    tcase_add_test(tests, reference__relative);
    tcase_add_test(tests, reference__local_names);
    tcase_add_test(tests, reference__base);
    tcase_add_test(tests, reference__characters);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
