#include "http/url.h"

#include <check.h>
#include <string.h>

static struct cc_arena arena;

static void done(void) {
    cc_arena_done(&arena);
}

START_TEST(url__parses) {
    static const struct {
        const char *text, *scheme, *host;
        int port;
        bool has_port;
        const char *path, *query;
    } cases[] = {
        {"http://a", "http", "a", 80, false, "/", NULL},
        {"HTTPS://Reg.Example:5000/v2/", "https", "reg.example", 5000, true, "/v2/", NULL},
        {"https://[FD00:10::1]/x?y=1&z#f", "https", "fd00:10::1", 443, false, "/x", "y=1&z"},
        {"https://[::1]:6443", "https", "::1", 6443, true, "/", NULL},
        {"http://10.0.0.1?", "http", "10.0.0.1", 80, false, "/", ""},
        {"http://a/b%2Fc/../d#?", "http", "a", 80, false, "/b%2Fc/../d", NULL},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        struct cc_url url;
        struct cc_err err = {0};
        ck_assert_msg(cc_url_parse(cases[i].text, &arena, &url, &err) == 0, "%s: %s", cases[i].text, err.msg);
        ck_assert_str_eq(url.scheme, cases[i].scheme);
        ck_assert_str_eq(url.host, cases[i].host);
        ck_assert_int_eq(url.port, cases[i].port);
        ck_assert(url.has_port == cases[i].has_port);
        ck_assert_str_eq(url.path, cases[i].path);
        ck_assert_pstr_eq(url.query, cases[i].query);
    }
}
END_TEST

START_TEST(url__refuses) {
    static const char *const texts[] = {
        "",
        "a",
        "ftp://a/",
        "http:/a",
        "http://",
        "http:///x",
        "http://:80",
        "http://a:",
        "http://a:0",
        "http://a:65536",
        "http://a:+80",
        "http://u@a/",
        "http://[::1",
        "http://[x]/",
        "http://[::1]a",
        "http://a b/",
        "http://a/\r\nX",
        "http://\xc3\xa9/",
        "http://a%41/",
        "http://a,b/",
        "file:///etc",
        "http://[fe80::1%25eth0]/",
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        struct cc_url url;
        struct cc_err err = {0};
        ck_assert_msg(cc_url_parse(texts[i], &arena, &url, &err) == CC_INVALID, "%s", texts[i]);
    }
    char *large = cc_arena_alloc(&arena, CC_URL_BYTES_MAX + 10);
    memset(large, 'a', CC_URL_BYTES_MAX + 9);
    memcpy(large, "http://a/", 9);
    struct cc_url url;
    ck_assert_int_eq(cc_url_parse(large, &arena, &url, NULL), CC_INVALID);
    large[CC_URL_BYTES_MAX] = '\0';
    ck_assert_int_eq(cc_url_parse(large, &arena, &url, NULL), 0);
}
END_TEST

START_TEST(url__encodes_and_decodes) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, 200);
    cc_url_encode(&text, "a/B ~é%", true);
    ck_assert_str_eq(text.data, "a/B%20~%C3%A9%25");
    cc_buf_clear(&text);
    cc_url_encode(&text, "a/b", false);
    bool first = true;
    cc_url_add_query(&text, &first, "no", NULL);
    cc_url_add_query(&text, &first, "k k", "v&=:");
    cc_url_add_query(&text, &first, "e", "");
    ck_assert_str_eq(text.data, "a%2Fb?k%20k=v%26%3D%3A&e=");
    ck_assert_str_eq(cc_url_decode("a+b%26%c3%A9;", 13, &arena), "a b&é;");
    ck_assert_ptr_null(cc_url_decode("%", 1, &arena));
    ck_assert_ptr_null(cc_url_decode("%4", 2, &arena));
    ck_assert_ptr_null(cc_url_decode("%zz", 3, &arena));
    ck_assert_ptr_null(cc_url_decode("a%00", 4, &arena));
    ck_assert_str_eq(cc_url_host_port("fd00::1", 443, &arena), "[fd00::1]:443");
    ck_assert_str_eq(cc_url_host_port("a", 1, &arena), "a:1");
}
END_TEST

START_TEST(url__resolves_locations) {
    static const struct {
        const char *base, *location, *expected;
    } cases[] = {
        {"https://REG:443/v2/p/N/blobs/uploads/", "/v2/p/N/blobs/uploads/u?_state=Zg%3D%3D-x_y",
         "https://reg:443/v2/p/N/blobs/uploads/u?_state=Zg%3D%3D-x_y"},
        {"https://reg/v2/x", "https://Other:1/y?z", "https://Other:1/y?z"},
        {"https://reg/v2/x", "//other/y", "https://other/y"},
        {"http://[::1]/v2/x?q", "/y#f", "http://[::1]/y"},
        {"http://[::1]:5/v2/x?q", "u", "http://[::1]:5/v2/u"},
        {"http://a/b/c/d?q", "../g?y/../x", "http://a/b/g?y/../x"},
        {"http://a/b/c/d?q", "./g/.", "http://a/b/c/g/"},
        {"http://a/b/c/d?q", "../../../g", "http://a/g"},
        {"http://a/b/c/d?q", "..", "http://a/b/"},
        {"http://a/b/c/d?q", "?y", "http://a/b/c/d?y"},
        {"http://a/b/c/d?q", "", "http://a/b/c/d?q"},
        {"http://a", "x", "http://a/x"},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        const char *url = NULL;
        struct cc_err err = {0};
        int rc = cc_url_resolve(cases[i].base, cases[i].location, &arena, &url, &err);
        ck_assert_msg(rc == 0, "%s: %s", cases[i].location, err.msg);
        ck_assert_str_eq(url, cases[i].expected);
    }
    static const char *const refused[] = {"ftp://a/", "javascript:1", "http://u:p@a/", "//", "/a b", "http:x"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(refused); i++) {
        const char *url = NULL;
        ck_assert_int_eq(cc_url_resolve("http://a/", refused[i], &arena, &url, NULL), CC_INVALID);
        ck_assert_ptr_null(url);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("url");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, NULL, done);
    tcase_add_test(tests, url__parses);
    tcase_add_test(tests, url__refuses);
    tcase_add_test(tests, url__encodes_and_decodes);
    tcase_add_test(tests, url__resolves_locations);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
