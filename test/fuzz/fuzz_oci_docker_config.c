/* Host, repository, one a line; then a Docker configuration, given once in the environment and once as a file: both
 * give the same credentials or the same kind of error, unless the file names helpers, which the simulated loop refuses
 * to run. */
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "oci/docker_config.h"
#include "support/fiber_test.h"

struct environment {
    const char *text, *file;
};

static const char *environment_get(void *ctx, const char *name) {
    const struct environment *environment = ctx;
    if (strcmp(name, "DOCKER_AUTH_CONFIG") == 0)
        return environment->text;
    return strcmp(name, "REGISTRY_AUTH_FILE") == 0 ? environment->file : NULL;
}

static int look_up(const struct environment *environment, const char *host, const char *repository,
                   struct cc_arena *arena, struct cc_registry_credentials *ret) {
    struct cc_err err = {0};
    int rc =
        cc_docker_config_lookup(environment_get, (void *)(uintptr_t)environment, host, repository, arena, ret, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 || rc == CC_INVALID || rc == CC_LIMIT || (rc == CC_UNSUPPORTED && environment->file));
    fuzz_require(rc != 0 || (ret->username && ret->password && ret->registry_token && ret->identity_token));
    return rc;
}

struct input {
    const uint8_t *data;
    size_t size;
};

static void check(void *arg) {
    const struct input *given = arg;
    struct fuzz_input input = fuzz_input_of(given->data, given->size);
    char *host cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *repository cc_cleanup(cc_free_p) = fuzz_line(&input);
    size_t count;
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, &count);
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    struct cc_registry_credentials inline_credentials = {0}, file_credentials = {0};
    const struct environment inline_environment = {.text = text};
    const struct environment file_environment = {.file = fuzz_file(text, strlen(text))};
    int inline_rc = look_up(&inline_environment, host, repository, &arena, &inline_credentials);
    int file_rc = look_up(&file_environment, host, repository, &arena, &file_credentials);
    if (strstr(text, "cred") || strchr(text, '\\'))
        return;
    /* An empty variable counts as unset, an empty file is malformed. */
    fuzz_require(inline_rc == file_rc || !*text || count > CC_DOCKER_CONFIG_BYTES_MAX);
    if (inline_rc == 0 && file_rc == 0)
        fuzz_require(fuzz_same_text(inline_credentials.username, file_credentials.username) &&
                     fuzz_same_text(inline_credentials.password, file_credentials.password) &&
                     fuzz_same_text(inline_credentials.registry_token, file_credentials.registry_token) &&
                     fuzz_same_text(inline_credentials.identity_token, file_credentials.identity_token));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input input = {data, size};
    struct cc_loop *loop = cc_test_loop_virtual();
    fuzz_require(cc_fiber_spawn(loop, "lookup", check, &input));
    cc_loop_run(loop);
    fuzz_require(cc_loop_fiber_count(loop) == 0);
    cc_loop_free(loop);
    return 0;
}
