#include "api/enums.h"

#include <check.h>

#include "base/attributes.h"
#include "support/vectors.h"

START_TEST(enums__are_exact_and_never_empty) {
    static const struct {
        enum cc_enum which;
        const char *valid[5];
        const char *invalid;
    } ROWS[] = {
        {CC_ENUM_AGENT_MODE, {"clone", "run"}, "ouija"},
        {CC_ENUM_TOOLBOX_MODE, {"run", "clone", "static"}, "ouija"},
        {CC_ENUM_OS, {"linux", "windows", "android", "macos"}, "freebsd"},
        {CC_ENUM_SNAPSHOT_POLICY, {"always", "main-only", "never"}, "sometimes"},
        {CC_ENUM_HIBERNATE_POLICY,
         {"retain", "release"},
         "rel"
         "ase"},
        {CC_ENUM_BACKEND, {"cloud-hypervisor", "firecracker"}, "qemu"},
        {CC_ENUM_CONN_TYPE, {"ssh", "rdp", "vnc", "adb"}, "telnet"},
        {CC_ENUM_DESIRE, {"Hibernate", "Wake"}, "hibernate"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        for (size_t k = 0; ROWS[i].valid[k]; k++)
            ck_assert(cc_enum_is_valid(ROWS[i].which, ROWS[i].valid[k]));
        ck_assert(!cc_enum_is_valid(ROWS[i].which, ROWS[i].invalid));
        ck_assert(!cc_enum_is_valid(ROWS[i].which, ""));
        ck_assert(!cc_enum_is_valid(ROWS[i].which, NULL));
    }
    ck_assert(!cc_enum_is_valid(CC_ENUM_AGENT_MODE, "static"));

    ck_assert_str_eq(cc_enum_default(CC_ENUM_AGENT_MODE, ""), "clone");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_TOOLBOX_MODE, ""), "run");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_SNAPSHOT_POLICY, "never"), "never");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_BACKEND, "qemu"), "qemu");
    CC_VECTOR("01-10.2.b1");
}
END_TEST

START_TEST(enums__default_replaces_only_the_empty_text) {
    ck_assert_str_eq(cc_enum_default(CC_ENUM_OS, NULL), "linux");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_SNAPSHOT_POLICY, ""), "always");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_HIBERNATE_POLICY, ""), "retain");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_BACKEND, ""), "cloud-hypervisor");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_CONN_TYPE, ""), "");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_DESIRE, NULL), "");
    ck_assert_str_eq(cc_enum_default(CC_ENUM_OS, "Linux"), "Linux");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("enums");
    TCase *tcase = tcase_create("enums");
    SRunner *runner;
    int failed;

    tcase_add_test(tcase, enums__are_exact_and_never_empty);
    tcase_add_test(tcase, enums__default_replaces_only_the_empty_text);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
