/* JSON, YAML, base64, digests. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/yaml.h"

static int parse(const char *text, json_t **ret, struct cc_err *err) {
    return cc_json_parse(text, strlen(text), 1000, ret, err);
}

START_TEST(json__depth_and_size_are_bounded) {
    struct cc_err err;
    json_t *value = NULL;
    char deep[200];
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    deep[130] = '\0';
    ck_assert_int_eq(parse(deep, &value, &err), CC_PROTOCOL);
    memmove(deep, deep + 1, 130);
    deep[128] = '\0';
    ck_assert_int_eq(parse(deep, &value, &err), 0);
    json_decref(value);
    /* Brackets inside a text are no depth. */
    ck_assert_int_eq(
        parse("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"", &value, &err), 0);
    json_decref(value);
    ck_assert_int_eq(cc_json_parse("[1,2]", 5, 4, &value, &err), CC_LIMIT);
}
END_TEST

START_TEST(json__one_document_only) {
    struct cc_err err;
    json_t *value = NULL;
    static const char *const bad[] = {"", "{", "{}x", "{'a':1}", "{\"a\":01}", "nul", "\"\xFF\"", "[1,]"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_msg(parse(bad[i], &value, &err) == CC_PROTOCOL, "%s", bad[i]);
    ck_assert_int_eq(parse(" {\"a\":1,\"a\":2} \n", &value, &err), 0);
    ck_assert_int_eq(cc_json_int(value, "a", 0), 2);
    json_decref(value);
    ck_assert_int_eq(parse("{\"big\":123456789012345678901234567890,\"n\":3}", &value, &err), 0);
    ck_assert(json_is_real(json_object_get(value, "big")));
    json_decref(value);
    ck_assert_int_eq(parse("9223372036854775807", &value, &err), 0);
    ck_assert(json_is_integer(value));
    json_decref(value);
}
END_TEST

START_TEST(json__getters_tolerate_what_is_absent) {
    struct cc_err err;
    json_t *value = NULL;
    ck_assert_int_eq(parse("{\"a\":{\"b\":{\"c\":\"x\"}},\"n\":null,\"t\":true,\"s\":5}", &value, &err), 0);
    ck_assert_str_eq(json_string_value(cc_json_path(value, "a", "b", "c", NULL)), "x");
    ck_assert_ptr_null(cc_json_path(value, "a", "q", "c", NULL));
    ck_assert_ptr_null(cc_json_member(value, "n"));
    ck_assert_ptr_null(cc_json_text(value, "s"));
    ck_assert_ptr_null(cc_json_text(NULL, "s"));
    ck_assert(cc_json_bool(value, "t"));
    ck_assert_int_eq(cc_json_int(value, "a", 9), 9);
    json_decref(value);
}
END_TEST

START_TEST(json__texts_that_are_not_utf8_are_made_so) {
    json_t *object = json_object();
    cc_json_set_text(object, "k", "a\xFFz");
    char *text = cc_json_dump(object);
    ck_assert_str_eq(text, "{\"k\":\"a\xEF\xBF\xBDz\"}");
    free(text);
    cc_json_set_text(object, "k", NULL);
    cc_json_set_text_nonempty(object, "empty", "");
    cc_json_set_int(object, "a", 1);
    text = cc_json_dump_sorted(object);
    ck_assert_str_eq(text, "{\"a\":1,\"k\":null}");
    free(text);
    json_decref(object);
}
END_TEST

static char *yaml_as_json(const char *text, struct cc_err *err) {
    json_t *value = NULL;
    if (cc_yaml_parse(text, strlen(text), &value, err))
        return NULL;
    char *json = cc_json_dump(value);
    json_decref(value);
    return json;
}

START_TEST(yaml__becomes_json) {
    static const struct {
        const char *yaml, *json;
    } rows[] = {
        {"a: 1\nb: [x, 'y', \"z\"]\nc: {d: true, e: null}\n",
         "{\"a\":1,\"b\":[\"x\",\"y\",\"z\"],\"c\":{\"d\":true,\"e\":null}}"},
        {"a: '1'\nb: \"true\"\nc: 1.5\nd: ~\ne:\n", "{\"a\":\"1\",\"b\":\"true\",\"c\":1.5,\"d\":null,\"e\":null}"},
        {"t: |\n  one\n  two\nv: v1.2.3\nx: 0x1f\n", "{\"t\":\"one\\ntwo\\n\",\"v\":\"v1.2.3\",\"x\":\"0x1f\"}"},
        {"- a: 1\n- b: 2\n", "[{\"a\":1},{\"b\":2}]"},
        {"", "null"},
        {"# only a comment\n", "null"},
        {"---\na: 1\n---\nb: 2\n", "{\"a\":1}"},
        {"{\"json\": [1, 2]}", "{\"json\":[1,2]}"}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_err err = {0};
        char *json = yaml_as_json(rows[i].yaml, &err);
        ck_assert_msg(json != NULL, "row %zu: %s", i, err.msg);
        ck_assert_str_eq(json, rows[i].json);
        free(json);
    }
}
END_TEST

START_TEST(yaml__faults_name_the_line) {
    static const struct {
        const char *yaml, *part;
    } rows[] = {{"a: 1\nb: [1\n", "line 3"},
                {"a: &x 1\nb: *x\n", "aliases"},
                {"a: 1\na: 2\n", "line 2"},
                {"[a]: 1\n", "key"},
                {"\tx: 1\n", "line 1"}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        struct cc_err err = {0};
        ck_assert_ptr_null(yaml_as_json(rows[i].yaml, &err));
        ck_assert_msg(strstr(err.msg, rows[i].part) != NULL, "row %zu: %s", i, err.msg);
    }
    char deep[300];
    memset(deep, '[', 200);
    deep[200] = '\0';
    struct cc_err err;
    ck_assert_ptr_null(yaml_as_json(deep, &err));
}
END_TEST

START_TEST(codec__base64) {
    static const char *const texts[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const encoded[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        char *text = cc_base64_encode(texts[i], strlen(texts[i]));
        ck_assert_str_eq(text, encoded[i]);
        uint8_t *bytes;
        size_t count;
        ck_assert(cc_base64_decode(text, &bytes, &count));
        ck_assert_uint_eq(count, strlen(texts[i]));
        ck_assert_str_eq((char *)bytes, texts[i]);
        free(bytes);
        free(text);
    }
    uint8_t *bytes;
    size_t count;
    ck_assert(cc_base64_decode("_-8\n", &bytes, &count)); /* URL alphabet, no padding, a line end */
    ck_assert_uint_eq(count, 2);
    free(bytes);
    static const char *const bad[] = {"A", "A=", "AB=C", "AB===", "A*B=", "Zg=", "====", "Zm9vYmFy="};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++)
        ck_assert_msg(!cc_base64_decode(bad[i], &bytes, &count), "%s", bad[i]);
}
END_TEST

START_TEST(codec__digests) {
    char digest[CC_DIGEST_BYTES];
    cc_digest_of("{}", 2, digest);
    ck_assert_str_eq(digest, "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    ck_assert(cc_digest_is_valid(digest));
    ck_assert(!cc_digest_is_valid("sha256:44136FA355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"));
    ck_assert(!cc_digest_is_valid("sha256:4413"));
    ck_assert(!cc_digest_is_valid(NULL));
    struct cc_sha256 *hash = cc_sha256_new();
    cc_sha256_update(hash, "{", 1);
    cc_sha256_update(hash, "}", 1);
    uint8_t sum[CC_SHA256_BYTES];
    cc_sha256_final(hash, sum);
    cc_sha256_free(hash);
    char again[CC_DIGEST_BYTES];
    cc_digest_format(sum, again);
    ck_assert_str_eq(again, digest);
}
END_TEST

START_TEST(json__strmap_is_sorted_and_cheap) {
    struct cc_arena arena = {0};
    struct cc_strmap map;
    json_t *object = json_object();
    char key[16];
    /* Descending: inserted one by one in their order, these would take minutes. */
    for (int i = 300000; i > 0; i--) {
        snprintf(key, sizeof key, "k%06d", i);
        cc_json_set_text(object, key, key);
    }
    cc_json_set_int(object, "a-number", 5);
    cc_json_strmap(object, &arena, &map);
    ck_assert_uint_eq(map.count, 300000);
    ck_assert_str_eq(map.items[0].key, "k000001");
    ck_assert_str_eq(cc_strmap_text(&map, "k299999"), "k299999");
    cc_strmap_set(&map, &arena, "a", "first");
    ck_assert_str_eq(map.items[0].value, "first");
    json_decref(object);
    cc_arena_done(&arena);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("json");
    TCase *tests = tcase_create("json");
    tcase_add_test(tests, json__depth_and_size_are_bounded);
    tcase_add_test(tests, json__one_document_only);
    tcase_add_test(tests, json__getters_tolerate_what_is_absent);
    tcase_add_test(tests, json__texts_that_are_not_utf8_are_made_so);
    tcase_add_test(tests, yaml__becomes_json);
    tcase_add_test(tests, yaml__faults_name_the_line);
    tcase_add_test(tests, codec__base64);
    tcase_add_test(tests, codec__digests);
    tcase_add_test(tests, json__strmap_is_sorted_and_cheap);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
