#include "oci/credential_helper.h"

#include <string.h>

#include "aio/process.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

#define NAME_BYTES_MAX 128
#define IDENTITY_USER "<token>" /* then the secret is an identity token */
#define ABSENT "credentials not found in native keychain"

/* The name comes from a file and becomes part of a program's: it must not lead to another folder. */
static bool is_name(const char *name) {
    size_t bytes = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return bytes > 0 && bytes <= NAME_BYTES_MAX && name[bytes] == '\0';
}

static int report_failure(const char *program, const struct cc_exit *exit_state, const char *said, struct cc_err *err) {
    char *trimmed cc_cleanup(cc_free_p) = cc_text_trim(said);
    char *text cc_cleanup(cc_free_p) = cc_utf8_publishable(trimmed, CC_ERR_MESSAGE_BYTES / 2);

    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
    return cc_err_set(err, CC_DENIED, "%s failed with exit status %d%s%s", program, exit_state->status,
                      *text ? ": " : "", text);
}

static int read_answer(const char *program, const struct cc_buf *out, struct cc_arena *arena,
                       struct cc_registry_credentials *ret, struct cc_err *err) {
    json_t *root cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_json_parse(out->data, out->len, CC_CREDENTIAL_HELPER_BYTES_MAX, &root, err);
    const char *user = cc_json_text(root, "Username");
    const char *secret = cc_json_text(root, "Secret");

    if (rc || !user || !secret)
        return cc_err_set(err, CC_PROTOCOL, "%s answered with no JSON object that has Username and Secret", program);
    if (strcmp(user, IDENTITY_USER) == 0) {
        ret->identity_token = cc_arena_strdup(arena, secret);
    } else {
        ret->username = cc_arena_strdup(arena, user);
        ret->password = cc_arena_strdup(arena, secret);
    }
    return 0;
}

int cc_credential_helper_get(const char *name, const char *key, struct cc_arena *arena,
                             struct cc_registry_credentials *ret, struct cc_err *err) {
    struct cc_buf out cc_cleanup(cc_buf_done), error cc_cleanup(cc_buf_done);
    struct cc_exit exit_state = {0};

    cc_buf_init(&out, CC_CREDENTIAL_HELPER_BYTES_MAX);
    cc_buf_init(&error, CC_ERR_MESSAGE_BYTES);
    *ret = (struct cc_registry_credentials){"", "", "", ""};
    if (!is_name(name))
        return cc_err_set(err, CC_INVALID, "\"%.40s\" is no name of a credential helper", name);
    const char *program = cc_arena_printf(arena, "docker-credential-%s", name);
    const char *const argv[] = {program, "get", NULL};
    CC_DEADLINE_MS(CC_CREDENTIAL_HELPER_MS);
    int rc = cc_process_run(argv, key, strlen(key), &out, &error, &exit_state, err);
    if (rc)
        return rc;
    /* Helpers say on standard output why they fail. */
    if (exit_state.status != 0 && cc_text_contains(out.data, ABSENT))
        rc = 0;
    else if (exit_state.status != 0)
        rc = report_failure(program, &exit_state, out.len > 0 ? out.data : error.data, err);
    else if (out.overflown)
        rc = cc_err_set(err, CC_LIMIT, "%s answered with more than %zu bytes", program, out.limit);
    else
        rc = read_answer(program, &out, arena, ret, err);
    explicit_bzero(out.data, out.len);
    return rc;
}
