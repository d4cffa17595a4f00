#include "oci/snapshot_config.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "oci/go_json.h"
#include "oci/media_types.h"
#include "support/snapshot_fixture.h"
#include "support/vectors.h"

static struct cc_arena arena;

static void done(void) {
    cc_arena_done(&arena);
}

static const char fixture_config[] =
    "{\"schemaVersion\":\"v1\",\"snapshotId\":\"" FIXTURE_ID
    "\",\"description\":\"nightly\",\"image\":\"images/debian:13\","
    "\"imageDigest\":\"sha256:" FIXTURE_ONES "\",\"imageType\":\"cloudimg\",\"imageBlobIds\":{\"" FIXTURE_ONES "\":{}},"
    "\"hypervisor\":\"cloud-hypervisor\",\"cpu\":2,\"memory\":2147483648,\"storage\":10737418240,\"nics\":1,"
    "\"network\":\"cocoon-dhcp\",\"files\":{\"config.json\":{\"mode\":416},\"memory-ranges\":{\"mode\":384,"
    "\"sparseMap\":\"[{\\\"o\\\":0,\\\"l\\\":8},{\\\"o\\\":4096,\\\"l\\\":8}]\",\"sparseSize\":8192},"
    "\"overlay.qcow2\":{\"mode\":416},\"state.json\":{\"mode\":416}},\"createdAt\":\"2026-09-01T08:30:00.123456789Z\"}";

/* contract/05 15.1, byte for byte. */
START_TEST(snapshot_config__worked_example) {
    struct cc_snapshot_config config;
    struct cc_err err = {0};
    ck_assert_uint_eq(strlen(fixture_config), 667);
    char digest[CC_DIGEST_BYTES];
    cc_digest_of(fixture_config, 667, digest);
    ck_assert_str_eq(digest, FIXTURE_CONFIG_DIGEST);
    int rc = cc_snapshot_config_parse(fixture_config, 667, &arena, &config, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_uint_eq(config.file_count, 4);
    const struct cc_snapshot_file *memory = cc_snapshot_config_file(&config, "memory-ranges");
    ck_assert_str_eq(memory->sparse_map, FIXTURE_MAP);
    ck_assert_int_eq((int)memory->sparse_size, 8192);
    ck_assert_uint_eq(memory->mode, 0600);
    ck_assert_ptr_null(cc_snapshot_config_file(&config, "other"));
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, 10000);
    cc_snapshot_config_encode(&config, &text);
    ck_assert_str_eq(text.data, fixture_config);
    cc_buf_clear(&text);
    config.name = "vk-demo-web-0";
    cc_snapshot_envelope_encode(&config, &text);
    ck_assert_str_eq(text.data, fixture_envelope);
    ck_assert_uint_eq(text.len, 553);
    struct cc_snapshot_config again;
    ck_assert_int_eq(cc_snapshot_envelope_parse(text.data, text.len, &arena, &again, &err), 0);
    ck_assert_str_eq(again.snapshot_id, FIXTURE_ID);
    ck_assert_str_eq(again.name, "vk-demo-web-0");
    ck_assert(cc_strlist_equal(&again.image_blob_ids, &config.image_blob_ids));
    ck_assert_int_eq(again.storage, INT64_C(10737418240));
}
END_TEST

START_TEST(snapshot_config__zero_values_are_left_out) {
    struct cc_snapshot_config config = {.schema_version = "v1", .snapshot_id = "", .name = ""};
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, 10000);
    cc_snapshot_config_encode(&config, &text);
    ck_assert_str_eq(text.data, "{\"schemaVersion\":\"v1\",\"snapshotId\":\"\"}");
    struct cc_snapshot_file file = {.name = "a"};
    config.files = &file;
    config.file_count = 1;
    config.windows = true;
    cc_buf_clear(&text);
    cc_snapshot_config_encode(&config, &text);
    ck_assert_str_eq(text.data, "{\"schemaVersion\":\"v1\",\"snapshotId\":\"\",\"windows\":true,\"files\":{\"a\":{}}}");
    file.size = 10;
    cc_strlist_add(&file.chunks, &arena, "sha256:1");
    cc_strlist_add(&file.chunks, &arena, "sha256:2");
    cc_buf_clear(&text);
    cc_snapshot_config_encode(&config, &text);
    ck_assert_ptr_nonnull(strstr(text.data, "{\"a\":{\"size\":10,\"chunks\":[\"sha256:1\",\"sha256:2\"]}}"));
    cc_buf_clear(&text);
    cc_snapshot_envelope_encode(&config, &text);
    ck_assert_str_eq(text.data, "{\n  \"version\": 1,\n  \"config\": {\n    \"id\": \"\",\n    \"name\": \"\",\n"
                                "    \"windows\": true\n  }\n}\n");
}
END_TEST

START_TEST(go_json__escapes) {
    static const char text[] = "a\"\\<>&\n\r\t\b\f\x01\x7f\xe2\x80\xa8\xe2\x80\xa9\xc3\xa9\xff\xf0\x9f\x98\x80\xc3";
    struct cc_buf into cc_cleanup(cc_buf_done);
    struct cc_go_json json;
    cc_buf_init(&into, 1000);
    cc_go_json_init(&json, &into, false);
    cc_go_json_text(&json, NULL, text);
    ck_assert_str_eq(into.data,
                     "\"a\\\"\\\\\\u003c\\u003e\\u0026\\n\\r\\t\\b\\f\\u0001\x7f\\u2028\\u2029\xc3\xa9\\ufffd"
                     "\xf0\x9f\x98\x80\\ufffd\"");
    cc_buf_clear(&into);
    cc_go_json_init(&json, &into, true);
    cc_go_json_open(&json, NULL, '{');
    cc_go_json_open(&json, "e", '{');
    cc_go_json_close(&json, '}');
    cc_go_json_open(&json, "l", '[');
    cc_go_json_int(&json, NULL, -1);
    cc_go_json_close(&json, ']');
    cc_go_json_close(&json, '}');
    ck_assert_str_eq(into.data, "{\n  \"e\": {},\n  \"l\": [\n    -1\n  ]\n}");
}
END_TEST

START_TEST(snapshot_config__reads_both_escape_forms_and_ignores_the_unknown) {
    static const char text[] = "{\"schemaVersion\":\"v2\",\"future\":{\"a\":[1]},\"description\":\"\\u003ca\\u0026b>\","
                               "\"memory\":0,\"files\":{\"m\":{\"size\":5,\"chunks\":[\"sha256:1\"],\"new\":true}}}";
    struct cc_snapshot_config config;
    ck_assert_int_eq(cc_snapshot_config_parse(text, strlen(text), &arena, &config, NULL), 0);
    ck_assert_str_eq(config.description, "<a&b>");
    ck_assert_str_eq(config.snapshot_id, "");
    ck_assert_str_eq(config.files[0].chunks.items[0], "sha256:1");
    ck_assert_int_eq((int)config.files[0].size, 5);
}
END_TEST

START_TEST(snapshot_config__refuses) {
    static const char *const texts[] = {
        "[]",
        "",
        "{\"snapshotId\":1}",
        "{\"cpu\":\"2\"}",
        "{\"memory\":1.5}",
        "{\"windows\":\"no\"}",
        "{\"files\":[]}",
        "{\"files\":{\"a\":1}}",
        "{\"files\":{\"a\":{\"mode\":\"1\"}}}",
        "{\"files\":{\"a\":{\"sparseMap\":[]}}}",
        "{\"files\":{\"a\":{\"chunks\":{}}}}",
        "{\"files\":{\"a\":{\"chunks\":[1]}}}",
        "{\"imageBlobIds\":[]}",
    };
    struct cc_snapshot_config config;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++)
        ck_assert_msg(cc_snapshot_config_parse(texts[i], strlen(texts[i]), &arena, &config, NULL) == CC_PROTOCOL, "%s",
                      texts[i]);
    static const char no_size[] = "{\"files\":{\"a\":{\"sparseMap\":\"[]\"}}}";
    struct cc_err err = {0};
    ck_assert_int_eq(cc_snapshot_config_parse(no_size, strlen(no_size), &arena, &config, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "sparseMap without sparseSize"));
    static const char *const envelopes[] = {"{\"version\":1}",
                                            "{\"version\":2,\"config\":{}}",
                                            "{\"version\":1,\"config\":[]}",
                                            "{\"config\":{\"id\":1}}",
                                            "x",
                                            "{\"config\":{\"name\":1}}"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(envelopes); i++)
        ck_assert_msg(cc_snapshot_envelope_parse(envelopes[i], strlen(envelopes[i]), &arena, &config, NULL) ==
                          CC_PROTOCOL,
                      "%s", envelopes[i]);
}
END_TEST

START_TEST(snapshot_config__media_types) {
    static const char *const names[][2] = {
        {"config.json", CC_TYPE_VM_CONFIG},    {"state.json", CC_TYPE_VM_STATE},
        {"memory-ranges", CC_TYPE_VM_MEMORY},  {"cidata.img", CC_TYPE_VM_CIDATA},
        {"overlay.qcow2", CC_TYPE_DISK_QCOW2}, {"some-disk.qcow2", CC_TYPE_DISK_QCOW2},
        {"cow.raw", CC_TYPE_DISK_RAW},         {"cocoon.json", CC_TYPE_OCTET_STREAM},
        {"mem", CC_TYPE_OCTET_STREAM},         {"vmstate", CC_TYPE_OCTET_STREAM},
        {"raw", CC_TYPE_OCTET_STREAM},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++)
        ck_assert_str_eq(cc_snapshot_media_type(names[i][0]), names[i][1]);
    CC_VECTOR("05-16.21");
    bool zstd = true;
    ck_assert(cc_snapshot_media_type_is_known(CC_TYPE_VM_MEMORY, &zstd) && !zstd);
    ck_assert(cc_snapshot_media_type_is_known(CC_TYPE_VM_MEMORY "+zstd", &zstd) && zstd);
    ck_assert(!cc_snapshot_media_type_is_known(CC_TYPE_VM_MEMORY "+zstd+zstd", &zstd));
    ck_assert(!cc_snapshot_media_type_is_known(CC_TYPE_DISK_RAW ".part", &zstd));
    ck_assert(!cc_snapshot_media_type_is_known("application/vnd.cocoonstack.windows.disk.raw", &zstd));
    ck_assert(!cc_snapshot_media_type_is_known("", &zstd));
    ck_assert(cc_snapshot_name_is_plain("a") && cc_snapshot_name_is_plain("..a"));
    ck_assert(!cc_snapshot_name_is_plain("") && !cc_snapshot_name_is_plain("a/b") && !cc_snapshot_name_is_plain(".."));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("snapshot_config");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, NULL, done);
    tcase_add_test(tests, snapshot_config__worked_example);
    tcase_add_test(tests, snapshot_config__zero_values_are_left_out);
    tcase_add_test(tests, go_json__escapes);
    tcase_add_test(tests, snapshot_config__reads_both_escape_forms_and_ignores_the_unknown);
    tcase_add_test(tests, snapshot_config__refuses);
    tcase_add_test(tests, snapshot_config__media_types);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
