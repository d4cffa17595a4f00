#include "oci/challenge.h"

#include <check.h>
#include <string.h>

#include "base/attributes.h"

static struct cc_arena arena;

static void done(void) {
    cc_arena_done(&arena);
}

START_TEST(challenge__parses) {
    static const struct {
        const char *header;
        enum cc_challenge_scheme scheme;
        const char *realm, *service, *scope;
    } cases[] = {
        {"Basic realm=\"Registry\"", CC_CHALLENGE_BASIC, "Registry", "", ""},
        {"basic", CC_CHALLENGE_BASIC, "", "", ""},
        {"Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:a/b:pull,push\"", CC_CHALLENGE_BEARER,
         "https://a/t", "s", "repository:a/b:pull,push"},
        {"BEARER  Realm = \"https://a/t?x=1,2\" , service=s", CC_CHALLENGE_BEARER, "https://a/t?x=1,2", "s", ""},
        {"Bearer realm=\"a \\\"b\\\" \\\\\"", CC_CHALLENGE_BEARER, "a \"b\" \\", "", ""},
        {"Negotiate, Bearer realm=\"r\"", CC_CHALLENGE_BEARER, "r", "", ""},
        {"Negotiate abc+/==, Basic realm=\"r\"", CC_CHALLENGE_BASIC, "r", "", ""},
        {"Digest realm=\"d\", nonce=\"n\", Bearer realm=\"r\",error=\"invalid_token\"", CC_CHALLENGE_BEARER, "r", "",
         ""},
        {", ,Basic realm=\"r\",", CC_CHALLENGE_BASIC, "r", "", ""},
        {"Basic realm=\"r\", Bearer realm=\"q\"", CC_CHALLENGE_BASIC, "r", "", ""},
        {"Bearer charset=\"UTF-8\", realm=\"\"", CC_CHALLENGE_BEARER, "", "", ""},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct cc_challenge challenge;
        ck_assert_msg(cc_challenge_parse(cases[i].header, &arena, &challenge), "%s", cases[i].header);
        ck_assert_int_eq(challenge.scheme, cases[i].scheme);
        ck_assert_str_eq(challenge.realm, cases[i].realm);
        ck_assert_str_eq(challenge.service, cases[i].service);
        ck_assert_str_eq(challenge.scope, cases[i].scope);
    }
}
END_TEST

START_TEST(challenge__refuses) {
    static const char *const headers[] = {
        "",
        " ",
        ",",
        "Negotiate",
        "Digest realm=\"d\"",
        "Bearer realm=\"open",
        "Bearer realm=\"open\\",
        "Bearer realm=",
        "\"Basic\"",
        "Negotiate a b",
        "(x)",
        "Digest x=\"",
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(headers); i++) {
        struct cc_challenge challenge;
        ck_assert_msg(!cc_challenge_parse(headers[i], &arena, &challenge), "%s", headers[i]);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("challenge");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, NULL, done);
    tcase_add_test(tests, challenge__parses);
    tcase_add_test(tests, challenge__refuses);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
