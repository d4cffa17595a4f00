#include <check.h>
#include <stdio.h>
#include <string.h>

#include "oci/snapshot.h"
#include "support/vectors.h"

#define COCOON "application/vnd.cocoonstack."
#define OCI "application/vnd.oci.image."
#define DOCKER "application/vnd.docker."

static void check_kind(const char *json, const char *expected) {
    struct cc_manifest *manifest = NULL;
    struct cc_err err = {0};
    int rc = cc_manifest_parse(json, strlen(json), &manifest, &err);
    ck_assert_msg(rc == 0, "%s: %s", json, err.msg);
    ck_assert_str_eq(cc_artifact_kind_name(cc_manifest_kind(manifest)), expected);
    cc_manifest_free(manifest);
}

static void check_types(const char *artifact, const char *config, const char *media_type, const char *expected) {
    char json[1000] = "{";
    size_t at = 1;
    if (artifact)
        at += (size_t)snprintf(json + at, sizeof json - at, "\"artifactType\":\"%s\",", artifact);
    if (config)
        at += (size_t)snprintf(json + at, sizeof json - at, "\"config\":{\"mediaType\":\"%s\"},", config);
    if (media_type)
        at += (size_t)snprintf(json + at, sizeof json - at, "\"mediaType\":\"%s\",", media_type);
    snprintf(json + at, sizeof json - at, "\"manifests\":[],\"schemaVersion\":2}");
    check_kind(json, expected);
}

START_TEST(manifest__classifies) {
    check_types(COCOON "os-image.v1+json", "application/vnd.oci.empty.v1+json", OCI "manifest.v1+json", "cloud-image");
    CC_VECTOR("05-16.1");
    check_types(COCOON "windows-image.v1+json", "application/vnd.oci.empty.v1+json", OCI "manifest.v1+json",
                "cloud-image");
    CC_VECTOR("05-16.2");
    check_types(COCOON "snapshot.v1+json", OCI "config.v1+json", OCI "index.v1+json", "snapshot");
    check_types(COCOON "snapshot.v2+json", NULL, NULL, "snapshot");
    CC_VECTOR("05-16.3");
    check_types(NULL, OCI "config.v1+json", OCI "manifest.v1+json", "container-image");
    CC_VECTOR("05-16.4");
    check_types(NULL, DOCKER "container.image.v1+json", DOCKER "distribution.manifest.v2+json", "container-image");
    CC_VECTOR("05-16.5");
    check_types(NULL, NULL, OCI "index.v1+json", "image-index");
    check_types(NULL, NULL, DOCKER "distribution.manifest.list.v2+json", "image-index");
    CC_VECTOR("05-16.6");
    check_kind("{\"schemaVersion\":2,\"layers\":[]}", "unknown");
    CC_VECTOR("05-16.7");
    check_types(COCOON "tombstone.v1+json", NULL, NULL, "unknown");
    check_types(COCOON "snapshot.v3+json", OCI "config.v1+json", NULL, "container-image");
}
END_TEST

START_TEST(manifest__refuses_what_is_none) {
    static const char *const texts[] = {
        "not json",
        "",
        "[]",
        "1",
        "{\"mediaType\":1}",
        "{\"config\":[]}",
        "{\"layers\":{}}",
        "{\"layers\":[1]}",
        "{\"layers\":[{\"size\":\"1\"}]}",
        "{\"annotations\":[]}",
        "{\"annotations\":{\"a\":1}}",
        "{\"layers\":[{\"annotations\":{\"a\":{}}}]}",
        "{\"layers\":[{\"size\":1.5}]}",
        "{} {}",
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        struct cc_manifest *manifest = NULL;
        struct cc_err err = {0};
        ck_assert_msg(cc_manifest_parse(texts[i], strlen(texts[i]), &manifest, &err) == CC_PROTOCOL, "%s", texts[i]);
        ck_assert_ptr_null(manifest);
    }
    CC_VECTOR("05-16.8");
}
END_TEST

START_TEST(manifest__reads_members) {
    static const char json[] =
        "{\"schemaVersion\":2,\"future\":[1,{}],\"artifactType\":\"" COCOON "snapshot.v1+json\","
        "\"config\":{\"mediaType\":\"c\",\"digest\":\"sha256:1\",\"size\":4,\"urls\":null},\"layers\":["
        "{\"mediaType\":\"l\",\"digest\":\"sha256:2\",\"size\":-1,\"annotations\":{\"org.opencontainers.image.title\":"
        "\"t\"}}],"
        "\"annotations\":{\"cocoonstack.snapshot.baseimage\":\"img:1\"}}";
    struct cc_manifest *manifest = NULL;
    ck_assert_int_eq(cc_manifest_parse(json, strlen(json), &manifest, NULL), 0);
    ck_assert_str_eq(manifest->config.media_type, "c");
    ck_assert_str_eq(manifest->config.digest, "sha256:1");
    ck_assert_int_eq((int)manifest->config.size, 4);
    ck_assert_uint_eq(manifest->layer_count, 1);
    ck_assert_int_eq((int)manifest->layers[0].size, -1);
    ck_assert_str_eq(cc_strmap_text(&manifest->layers[0].annotations, "org.opencontainers.image.title"), "t");
    ck_assert_str_eq(cc_strmap_text(&manifest->annotations, CC_ANNOTATION_BASE_IMAGE), "img:1");
    cc_manifest_free(manifest);
    ck_assert_int_eq(cc_manifest_parse("{\"layers\":null,\"annotations\":null}", 34, &manifest, NULL), 0);
    ck_assert_uint_eq(manifest->layer_count, 0);
    ck_assert_str_eq(manifest->config.digest, "");
    cc_manifest_free(manifest);
    cc_manifest_free(NULL);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("manifest");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, manifest__classifies);
    tcase_add_test(tests, manifest__refuses_what_is_none);
    tcase_add_test(tests, manifest__reads_members);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
