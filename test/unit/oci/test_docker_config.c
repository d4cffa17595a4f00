#include "oci/docker_config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support/fiber_test.h"

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

START_TEST(docker_config__identity_tokens) {
    ck_assert_int_eq(find_text("{\"auths\":{\"" HOST "\":{\"auth\":\"\",\"identitytoken\":\"i\"}}}"), 0);
    ck_assert_str_eq(found.identity_token, "i");
    ck_assert_str_eq(found.username, "");
}
END_TEST

/* --- helpers: real programs on the PATH --------------------------------------------------------------------------- */

static void write_helper(const char *name, const char *body) {
    char path[200], text[600];
    snprintf(path, sizeof path, "%s/run/docker-credential-%s", directory, name);
    /* Each run leaves a line: the helper's name, its argument, its input. */
    snprintf(text, sizeof text, "#!/bin/sh\nread key\necho \"%s $* $key\" >>%s/run/log\n%s\n", name, directory, body);
    ck_assert_int_eq(cc_file_replace(path, text, strlen(text), 0700, NULL), 0);
}

static void check_runs(const char *wanted) {
    struct cc_buf text;
    char path[200];
    snprintf(path, sizeof path, "%s/run/log", directory);
    cc_buf_init(&text, 10000);
    if (cc_file_read(path, &text, NULL))
        cc_buf_clear(&text);
    ck_assert_str_eq(text.data, wanted);
    cc_buf_done(&text);
    remove(path);
}

static void remove_helpers(void) {
    static const char *const names[] = {"own", "store"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/run/docker-credential-%s", directory, names[i]);
        remove(path);
    }
}

static const char *const with_home[] = {"HOME", "%s/home", NULL};
#define ANSWER(user) "echo '{\"ServerURL\":\"x\",\"Username\":\"" user "\",\"Secret\":\"s\"}'"

static void asks_helpers(void *arg) {
    (void)arg;
    char path[300];
    snprintf(path, sizeof path, "%s/run:%s", directory, getenv("PATH"));
    setenv("PATH", path, 1);
    write_helper("own", ANSWER("own"));
    write_helper("store", ANSWER("store"));
    write_file("home/.docker/config.json", "{\"auths\":{\"" HOST "\":{\"username\":\"u\"}},\"credsStore\":\"store\","
                                           "\"credHelpers\":{\"" HOST "\":\"own\"}}");
    /* The repository's own key comes first, and credsStore holds every key. */
    ck_assert_int_eq(find(with_home), 0);
    ck_assert_str_eq(found.username, "store");
    ck_assert_str_eq(found.password, "s");
    check_runs("store get " HOST "/" R "\n");
    write_helper("store", "echo credentials not found in native keychain; exit 1");
    ck_assert_int_eq(find(with_home), 0);
    ck_assert_str_eq(found.username, "own");
    check_runs("store get " HOST "/" R "\nown get " HOST "\n");
    /* Nowhere: anonymous; auths does not count beside a store. */
    write_file("home/.docker/config.json", "{\"auths\":{\"" HOST "\":{\"username\":\"u\"}},\"credsStore\":\"store\"}");
    ck_assert_int_eq(find(with_home), 0);
    ck_assert_str_eq(found.username, "");
    check_runs("store get " HOST "/" R "\nstore get " HOST "\n");
    write_helper("store", ANSWER("<token>"));
    ck_assert_int_eq(find(with_home), 0);
    ck_assert_str_eq(found.username, "");
    ck_assert_str_eq(found.password, "");
    ck_assert_str_eq(found.identity_token, "s");
    /* Of the variable only auths count: who sets an environment must not name programs. */
    check_runs("store get " HOST "/" R "\n");
    static const char *const overlay[] = {"DOCKER_AUTH_CONFIG", "{\"credsStore\":\"own\"}", NULL};
    ck_assert_int_eq(find(overlay), 0);
    check_runs("");
    remove_helpers();
}

START_TEST(docker_config__helpers) {
    cc_test_run(asks_helpers, NULL);
}
END_TEST

static void refuses_helpers(void *arg) {
    (void)arg;
    static const struct {
        const char *body;
        int code;
        const char *part;
    } cases[] = {
        {"echo 'keychain is locked'; exit 1", CC_DENIED,
         "docker-credential-own failed with exit status 1: keychain is"},
        {"echo 'no display' >&2; exit 2", CC_DENIED, "exit status 2: no display"},
        {"echo hello", CC_PROTOCOL, "no JSON object that has Username and Secret"},
        {"echo '{\"Username\":\"u\"}'", CC_PROTOCOL, "no JSON object"},
        {"head -c 100000 /dev/zero", CC_LIMIT, "more than 65536 bytes"},
    };
    char path[300];
    snprintf(path, sizeof path, "%s/run:%s", directory, getenv("PATH"));
    setenv("PATH", path, 1);
    write_file("home/.docker/config.json", "{\"credHelpers\":{\"" HOST "\":\"own\"}}");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cases); i++) {
        write_helper("own", cases[i].body);
        ck_assert_int_eq(find(with_home), cases[i].code);
        ck_assert_msg(strstr(err.msg, cases[i].part) && strstr(err.msg, "/home/.docker/config.json"), "%s", err.msg);
        check_runs("own get " HOST "\n");
    }
    remove_helpers();
    ck_assert_int_eq(find(with_home), CC_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "docker-credential-own"));
    static const char *const names[] = {"../own", "/bin/sh", "a b", "a;b"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"credsStore\":\"%s\"}", names[i]);
        write_file("home/.docker/config.json", text);
        ck_assert_int_eq(find(with_home), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, "is no name of a credential helper"));
    }
}

START_TEST(docker_config__broken_helpers) {
    cc_test_run(refuses_helpers, NULL);
}
END_TEST

START_TEST(docker_config__errors_are_clear) {
    static const char *const bad[] = {"not json", "[]", "{\"auths\":{\"" HOST "\":{\"auth\":\"***\"}}}",
                                      "{\"auths\":{\"" HOST "\":{\"auth\":\"dXNlcg==\"}}}"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        ck_assert_int_eq(find_text(bad[i]), CC_INVALID);
        ck_assert_ptr_nonnull(strstr(err.msg, "DOCKER_AUTH_CONFIG"));
    }
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
    tcase_add_test(tests, docker_config__identity_tokens);
    tcase_add_test(tests, docker_config__helpers);
    tcase_add_test(tests, docker_config__broken_helpers);
    tcase_add_test(tests, docker_config__errors_are_clear);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
