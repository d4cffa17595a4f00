/* The reference rules that the annotation contract shares with the registry: contract/02 11.4 and 11.5. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "oci/reference.h"
#include "support/vectors.h"

static struct cc_arena arena;

struct row {
    const char *ref, *repository, *tag;
};

static void check_rows(const struct row *rows, size_t count, bool relative) {
    for (size_t i = 0; i < count; i++) {
        const char *repository, *tag;
        cc_ref_split(rows[i].ref, &arena, &repository, &tag);
        ck_assert_str_eq(repository, rows[i].repository);
        ck_assert_str_eq(tag, rows[i].tag);
        ck_assert_msg(cc_ref_is_relative(rows[i].ref) == relative, "%s", rows[i].ref);
    }
}

START_TEST(references__relative_ones) {
    static const struct row SHORT[] = {
        {"repo", "repo", "latest"}, {"repo:v1", "repo", "v1"}, {"ns/repo:v1.2-rc", "ns/repo", "v1.2-rc"}};
    static const struct row LONG[] = {
        {"ghcr.io/cocoonstack/cocoon/ubuntu:24.04", "ghcr.io/cocoonstack/cocoon/ubuntu", "24.04"},
        {"snap_shot-x:latest", "snap_shot-x", "latest"}};

    check_rows(SHORT, CC_ARRAY_LENGTH(SHORT), true);
    CC_VECTOR("02-21.5.1");
    check_rows(LONG, CC_ARRAY_LENGTH(LONG), true);
    CC_VECTOR("02-21.5.2");
}
END_TEST

START_TEST(references__others_are_split_all_the_same) {
    static const struct row EMPTY[] = {{":tag", ":tag", "latest"}, {"", "", "latest"}, {"repo:", "repo", ""}};
    static const struct row COLONS[] = {{"Repo:tag", "Repo", "tag"},
                                        {"a:b:c", "a", "b:c"},
                                        {"registry:5000/repo", "registry", "5000/repo"},
                                        {"registry:5000/repo:tag", "registry", "5000/repo:tag"}};
    static const struct row FOREIGN[] = {{"repo@sha256:deadbeef", "repo@sha256", "deadbeef"},
                                         {"https://host/x.img", "https", "//host/x.img"}};

    check_rows(EMPTY, CC_ARRAY_LENGTH(EMPTY), false);
    CC_VECTOR("02-21.5.3");
    check_rows(COLONS, CC_ARRAY_LENGTH(COLONS), false);
    CC_VECTOR("02-21.5.4");
    check_rows(FOREIGN, CC_ARRAY_LENGTH(FOREIGN), false);
    CC_VECTOR("02-21.5.5");
}
END_TEST

START_TEST(references__local_snapshot_names) {
    char name[80] = "", expected[80];

    ck_assert_str_eq(cc_local_snapshot_name("ubuntu", "latest", &arena), "ubuntu");
    ck_assert_str_eq(cc_local_snapshot_name("ubuntu", "", &arena), "ubuntu");
    ck_assert_str_eq(cc_local_snapshot_name("ubuntu", "v2", &arena), "ubuntu:v2");
    memset(name, 'a', 63);
    ck_assert_str_eq(cc_local_snapshot_name(name, "", &arena), name);
    memset(name, 'a', 64);
    snprintf(expected, sizeof expected, "%.50s-ffe054fe7ae0", name);
    ck_assert_str_eq(cc_local_snapshot_name(name, "latest", &arena), expected);
    ck_assert_str_eq(
        cc_local_snapshot_name("ghcr.io/cocoonstack/cocoon/windows-server-2025-datacenter-base", "v20260901", &arena),
        "ghcr.io/cocoonstack/cocoon/windows-server-2025-dat-969efb361503");
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("references");
    TCase *tcase = tcase_create("references");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, references__relative_ones);
    tcase_add_test(tcase, references__others_are_split_all_the_same);
    tcase_add_test(tcase, references__local_snapshot_names);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
