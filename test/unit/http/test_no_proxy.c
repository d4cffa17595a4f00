#include "http/no_proxy.h"

#include <check.h>
#include <string.h>

/* Field case F12 and the rules of Go's HTTP client. */
START_TEST(no_proxy__matches) {
    static const struct {
        const char *list, *host;
        int port;
        bool expected;
    } cases[] = {
        {"fd00:10::/64", "fd00:10::1", 443, true},
        {"fd00:10::/64", "fd00:11::1", 443, false},
        {"fd00:10::1", "fd00:10::1", 443, true},
        {"fd00:10:0::1", "fd00:10::1", 443, true},
        {"[fd00:10::1]:443", "fd00:10::1", 443, true},
        {"[fd00:10::1]:444", "fd00:10::1", 443, false},
        {"10.96.0.0/12", "10.96.0.1", 443, true},
        {"10.96.0.0/12", "10.111.255.255", 443, true},
        {"10.96.0.0/12", "10.112.0.0", 443, false},
        {"10.96.0.0/33", "10.96.0.1", 443, false},
        {"0.0.0.0/0", "10.1.1.1", 443, true},
        {"0.0.0.0/0", "fd00::1", 443, false},
        {"::/0", "fd00::1", 443, true},
        {"10.0.0.1", "10.0.0.1", 443, true},
        {"10.0.0.1:80", "10.0.0.1", 443, false},
        {"10.0.0.1:443", "10.0.0.1", 443, true},
        {"10.0.0", "10.0.0.1", 443, false},
        {".svc", "kubernetes.default.svc", 443, true},
        {".svc", "svc", 443, false},
        {"svc", "svc", 443, true},
        {"svc", "a.svc", 443, true},
        {"svc", "asvc", 443, false},
        {"*.svc", "a.svc", 443, true},
        {"*.svc", "svc", 443, false},
        {"example.org", "fd00:10::1", 443, false},
        {"example.org:8443", "a.example.org", 8443, true},
        {"example.org:8443", "a.example.org", 443, false},
        {" , Example.ORG ,,x", "example.org", 443, true},
        {"*", "anything", 1, true},
        {"a,*", "anything", 1, true},
        {":443", "a", 443, false},
        {"", "a", 443, false},
        {"a:b:c", "a", 443, false},
        {"[::1", "::1", 443, false},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++)
        ck_assert_msg(cc_no_proxy_matches(cases[i].list, cases[i].host, cases[i].port) == cases[i].expected,
                      "\"%s\" %s", cases[i].list, cases[i].host);
    ck_assert(!cc_no_proxy_matches(NULL, "a", 1));
}
END_TEST

static const char *lookup(void *ctx, const char *name) {
    const char *const *pairs = ctx;
    for (; pairs[0]; pairs += 2)
        if (strcmp(pairs[0], name) == 0)
            return pairs[1];
    return NULL;
}

START_TEST(no_proxy__chooses_by_scheme) {
    const char *env[] = {"HTTPS_PROXY", "secure:1", "https_proxy", "lower:1", "HTTP_PROXY", "",
                         "http_proxy",  "plain:1",  "NO_PROXY",    "intern",  NULL};
    struct cc_proxy_rules rules;
    cc_proxy_rules_init(&rules, lookup, env);
    ck_assert_str_eq(cc_proxy_rules_choose(&rules, "https", "a", 443), "secure:1");
    ck_assert_str_eq(cc_proxy_rules_choose(&rules, "http", "a", 80), "plain:1");
    ck_assert_ptr_null(cc_proxy_rules_choose(&rules, "http", "intern", 80));
    ck_assert_ptr_null(cc_proxy_rules_choose(&rules, "https", "localhost", 443));
    ck_assert_ptr_null(cc_proxy_rules_choose(&rules, "https", "127.9.9.9", 443));
    ck_assert_ptr_null(cc_proxy_rules_choose(&rules, "https", "::1", 443));
    cc_proxy_rules_done(&rules);
    const char *cgi[] = {"HTTP_PROXY", "evil:1", "REQUEST_METHOD", "GET", NULL};
    cc_proxy_rules_init(&rules, lookup, cgi);
    ck_assert_ptr_null(cc_proxy_rules_choose(&rules, "http", "a", 80));
    cc_proxy_rules_done(&rules);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("no_proxy");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, no_proxy__matches);
    tcase_add_test(tests, no_proxy__chooses_by_scheme);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
