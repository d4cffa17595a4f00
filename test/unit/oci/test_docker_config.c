#include "oci/docker_config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define HOST "reg.example:5000"
#define R "p/r/vm"

static struct cc_arena arena;
static char directory[64];
static struct cc_registry_credentials found;
static struct cc_err err;

/* The environment: pairs, "%s" in a value is the test's directory. */
static const char *lookup(void *ctx, const char *name) {
    for (const char *const *pairs = ctx; pairs && pairs[0]; pairs += 2) {
        if (strcmp(pairs[0], name) != 0)
            continue;
        const char *mark = strstr(pairs[1], "%s");
        return mark ? cc_arena_printf(&arena, "%s%s", directory, mark + 2) : pairs[1];
    }
    return NULL;
}

static int find(const char *const *env) {
    return cc_docker_config_lookup(lookup, (void *)(uintptr_t)env, HOST, R, &arena, &found, &err);
}

static void write_file(const char *name, const char *text) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), 0600, NULL), 0);
}

static void make_directory(const char *name) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void setup(void) {
    snprintf(directory, sizeof directory, "/tmp/cc-docker-config.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    make_directory("home");
    make_directory("home/.docker");
    make_directory("other");
    make_directory("run");
    make_directory("run/containers");
}

static void teardown(void) {
    static const char *const names[] = {"home/.docker/config.json", "home/.docker", "home",
                                        "other/config.json",        "other",        "run/containers/auth.json",
                                        "run/containers",           "run",          "auth-file"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        remove(path);
    }
    rmdir(directory);
    cc_arena_done(&arena);
}

#define AUTH(user) "{\"auths\":{\"" HOST "\":{\"username\":\"" user "\",\"password\":\"p\"}}}"

START_TEST(docker_config__order_of_sources) {
    static const char *const env[] = {"HOME",   "%s/home", "REGISTRY_AUTH_FILE", "%s/auth-file", "XDG_RUNTIME_DIR",
                                      "%s/run", NULL};
    ck_assert_int_eq(find(env), 0);
    ck_assert_str_eq(found.username, "");
    write_file("run/containers/auth.json", AUTH("xdg"));
    ck_assert_int_eq(find(env), 0);
    ck_assert_str_eq(found.username, "xdg");
    write_file("auth-file", AUTH("file"));
    ck_assert_int_eq(find(env), 0);
    ck_assert_str_eq(found.username, "file");
    write_file("home/.docker/config.json", AUTH("home"));
    ck_assert_int_eq(find(env), 0);
    ck_assert_str_eq(found.username, "home");
    /* DOCKER_CONFIG replaces the one in HOME, even when it has no file. */
    static const char *const with_config[] = {"HOME", "%s/home", "DOCKER_CONFIG", "%s/other", NULL};
    ck_assert_int_eq(find(with_config), 0);
    ck_assert_str_eq(found.username, "");
    write_file("other/config.json", AUTH("other"));
    ck_assert_int_eq(find(with_config), 0);
    ck_assert_str_eq(found.username, "other");
    static const char *const only_config[] = {"DOCKER_CONFIG", "%s/other", NULL};
    ck_assert_int_eq(find(only_config), 0);
    ck_assert_str_eq(found.username, "other");
    /* Decision 81: DOCKER_AUTH_CONFIG first, always; what it lacks comes from the file. */
    static const char *const overlay[] = {"DOCKER_AUTH_CONFIG", AUTH("env"), "HOME", "%s/home", NULL};
    ck_assert_int_eq(find(overlay), 0);
    ck_assert_str_eq(found.username, "env");
    static const char *const empty_overlay[] = {"DOCKER_AUTH_CONFIG", "{}", "HOME", "%s/home", NULL};
    ck_assert_int_eq(find(empty_overlay), 0);
    ck_assert_str_eq(found.username, "home");
    static const char *const alone[] = {"DOCKER_AUTH_CONFIG", AUTH("env"), NULL};
    ck_assert_int_eq(find(alone), 0);
    ck_assert_str_eq(found.username, "env");
}
END_TEST

static int find_text(const char *text) {
    const char *const env[] = {"DOCKER_AUTH_CONFIG", text, NULL};
    return find(env);
}

START_TEST(docker_config__entries) {
    static const struct {
        const char *auths, *username, *password, *token;
    } cases[] = {
        {"\"" HOST "\":{\"auth\":\"dXNlcjpwYTpzcw==\"}", "user", "pa:ss", ""},
        {"\"" HOST "\":{\"auth\":\"dXNlcjo=\"}", "user", "", ""},
        {"\"https://" HOST "/v1/\":{\"username\":\"u\",\"password\":\"p\"}", "u", "p", ""},
        {"\"" HOST "\":{\"username\":\"host\"},\"" HOST "/" R "\":{\"username\":\"repo\"}", "repo", "", ""},
        {"\"" HOST "/" R "\":{},\"" HOST "\":{\"username\":\"host\"}", "host", "", ""},
        {"\"" HOST "\":{\"registrytoken\":\"t\"}", "", "", "t"},
        {"\"reg.example\":{\"username\":\"u\"}", "", "", ""},
        {"\"" HOST "0\":{\"username\":\"u\"}", "", "", ""},
        {"\"" HOST "\":{\"username\":\"u\",\"password\":\"p\",\"identitytoken\":\"i\"}", "u", "p", ""},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        int rc = find_text(cc_arena_printf(&arena, "{\"auths\":{%s},\"credsStore\":\"x\"}", cases[i].auths));
        ck_assert_msg(rc == 0, "%s", err.msg);
        ck_assert_str_eq(found.username, cases[i].username);
        ck_assert_str_eq(found.password, cases[i].password);
        ck_assert_str_eq(found.registry_token, cases[i].token);
    }
}
END_TEST

START_TEST(docker_config__errors_are_clear) {
    static const char *const bad[] = {"not json", "[]", "{\"auths\":{\"" HOST "\":{\"auth\":\"***\"}}}",
                                      "{\"auths\":{\"" HOST "\":{\"auth\":\"dXNlcg==\"}}}"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        ck_assert_int_eq(find_text(bad[i]), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, "DOCKER_AUTH_CONFIG"));
    }
    ck_assert_int_eq(find_text("{\"auths\":{\"" HOST "\":{\"identitytoken\":\"secret\"}}}"), CC_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.msg, "identity token"));
    ck_assert_ptr_null(strstr(err.msg, "secret"));
    write_file("home/.docker/config.json", "{");
    static const char *const env[] = {"HOME", "%s/home", NULL};
    ck_assert_int_eq(find(env), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "/home/.docker/config.json"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("docker_config");
    TCase *tests = tcase_create("all");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, docker_config__order_of_sources);
    tcase_add_test(tests, docker_config__entries);
    tcase_add_test(tests, docker_config__errors_are_clear);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
