#include <check.h>
#include <string.h>

#include "base/arena.h"
#include "oci/http_registry_internal.h"
#include "support/vectors.h"

static struct cc_arena arena;

static void done(void) {
    cc_arena_done(&arena);
}

START_TEST(registry_fetch__local_hosts) {
    static const char *const local[] = {"localhost:5000", "127.0.0.1",     "127.0.0.1:5000", "[::1]",
                                        "[::1]:5000",     "10.0.0.5:5000", "172.16.0.1",     "172.31.255.255",
                                        "192.168.1.1:80", "a.localhost",   "A.Localhost:81"};
    static const char *const remote[] = {"registry.local",    "localhost",   "127.0.0.2",        "172.15.0.1",
                                         "172.32.0.1",        "11.0.0.1",    "192.169.0.1",      "[fd00::1]",
                                         "localhost.example", "169.254.1.1", "reg.example:5000", "0.0.0.0:5000"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(local); i++)
        ck_assert_msg(cc_registry_host_is_local(local[i]), "%s", local[i]);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(remote); i++)
        ck_assert_msg(!cc_registry_host_is_local(remote[i]), "%s", remote[i]);
    CC_VECTOR("04-68");
}
END_TEST

START_TEST(registry_fetch__same_origin) {
    ck_assert(cc_registry_same_origin("https://REG/a", "https://reg:443/b?c"));
    ck_assert(cc_registry_same_origin("http://[::1]:80", "http://[::1]/x"));
    ck_assert(!cc_registry_same_origin("https://reg/", "http://reg/"));
    ck_assert(!cc_registry_same_origin("https://reg/", "https://reg:444/"));
    ck_assert(!cc_registry_same_origin("https://reg/", "https://reg.evil/"));
    ck_assert(!cc_registry_same_origin("https://reg/", "nonsense"));
}
END_TEST

/* F25 and contract/05 11.2, 11.6 5. */
START_TEST(registry_fetch__locations) {
    static const struct {
        const char *host, *from, *location, *expected; /* NULL = refused */
    } cases[] = {
        {"reg:443", "https://reg:443/v2/x", "https://reg/v2/u", "https://reg/v2/u"},
        {"reg:443", "https://reg:443/v2/x", "http://reg/v2/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://storage.b/u?s=1", "https://storage.b/u?s=1"},
        {"reg.a", "https://reg.a/v2/x", "https://10.0.0.1/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://127.0.0.1/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://[::1]/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://[fe80::1]/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://[fd12::1]/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://[::ffff:10.0.0.1]/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://169.254.169.254/latest", NULL},
        {"reg.a", "https://reg.a/v2/x", "https://8.8.8.8/u", "https://8.8.8.8/u"},
        {"10.0.0.5:5000", "http://10.0.0.5:5000/v2/x", "http://10.0.0.5:5000/u", "http://10.0.0.5:5000/u"},
        {"10.0.0.5:5000", "http://10.0.0.5:5000/v2/x", "http://10.0.0.5:5001/u", NULL},
        {"10.0.0.5:5000", "http://10.0.0.5:5000/v2/x", "http://10.0.0.6:5000/u", NULL},
        {"reg.a", "https://reg.a/v2/x", "u?_state=Zg%3D%3D", "https://reg.a/v2/u?_state=Zg%3D%3D"},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct cc_http_registry registry = {.host = cases[i].host, .path = "p", .scheme = "https"};
        const char *url = NULL;
        struct cc_err err = {0};
        int rc = cc_registry_resolve(&registry, cases[i].from, cases[i].location, &arena, &url, &err);
        ck_assert_msg((rc == 0) == (cases[i].expected != NULL), "%s: %s", cases[i].location, err.msg);
        ck_assert_pstr_eq(url, cases[i].expected);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("registry_fetch");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, NULL, done);
    tcase_add_test(tests, registry_fetch__local_hosts);
    tcase_add_test(tests, registry_fetch__same_origin);
    tcase_add_test(tests, registry_fetch__locations);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
