#include "apply_crds.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/loop.h"
#include "aio/signal.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/version.h"
#include "base/yaml.h"
#include "kube/config.h"
#include "kube/http_transport.h"

#define POLL_MS 500
#define EXIT_USAGE 2

static const char usage[] =
    "usage: cocoon-operator apply-crds [--check] [--kubeconfig FILE] DIRECTORY\n"
    "  Applies every *.yaml of DIRECTORY, all of them CustomResourceDefinitions, and waits until they are served.\n"
    "  --check   changes nothing: fails unless the API server has all that the files say\n";

static const struct cc_kube_resource crd_resource = {.api_version = "apiextensions.k8s.io/v1",
                                                     .kind = "CustomResourceDefinition",
                                                     .plural = "customresourcedefinitions"};

/* --- comparison -------------------------------------------------------------------------------------------------- */

/* "<step>" before the path of a difference below it. Takes below. */
static char *below(const char *step, char *below) {
    char *path = cc_xasprintf("%s%s%s", step, *below && *below != '[' ? "." : "", below);

    free(below);
    return path;
}

static char *difference(const json_t *have, const json_t *want, int depth);

static char *list_difference(const json_t *have, const json_t *want, int depth) {
    if (json_array_size(have) != json_array_size(want))
        return cc_xstrdup("");
    for (size_t i = 0; i < json_array_size(want); i++) {
        char *found = difference(json_array_get(have, i), json_array_get(want, i), depth + 1);

        if (found) {
            char step[32];
            snprintf(step, sizeof step, "[%zu]", i);
            return below(step, found);
        }
    }
    return NULL;
}

/* Path of the first thing that have lacks, "" for the value itself; NULL when there is none. Caller frees. */
static char *difference(const json_t *have, const json_t *want, int depth) {
    const char *key;
    json_t *member;

    if (depth > CC_JSON_DEPTH_MAX || !have || json_typeof(have) != json_typeof(want))
        return cc_xstrdup("");
    if (json_is_array(want))
        return list_difference(have, want, depth);
    if (!json_is_object(want))
        return json_equal(have, want) == 1 ? NULL : cc_xstrdup("");
    json_object_foreach ((json_t *)want, key, member) {
        char *found = difference(json_object_get(have, key), member, depth + 1);

        if (found)
            return below(key, found);
    }
    return NULL;
}

bool op_json_contains(const json_t *have, const json_t *want, char **ret_path) {
    char *found = difference(have, want, 0);

    *ret_path = found;
    return !found;
}

/* --- files ------------------------------------------------------------------------------------------------------- */

static int is_yaml(const struct dirent *entry) {
    return cc_text_ends_with(entry->d_name, ".yaml") && entry->d_name[0] != '.';
}

static int read_crd(const char *path, json_t **ret, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    json_t *crd cc_cleanup(cc_json_decref_p) = NULL;

    cc_buf_init(&text, CC_YAML_BYTES_MAX);
    int rc = cc_file_read(path, &text, err);
    if (rc == 0)
        rc = cc_yaml_parse(text.data, text.len, &crd, err);
    if (rc == 0 && (!cc_text_equal(cc_json_text(crd, "kind"), crd_resource.kind) ||
                    !cc_text_equal(cc_json_text(crd, "apiVersion"), crd_resource.api_version) ||
                    cc_text_is_empty(cc_json_text(cc_json_member(crd, "metadata"), "name"))))
        rc = cc_err_set(err, CC_INVALID, "not a %s of %s with a name", crd_resource.kind, crd_resource.api_version);
    if (rc != 0)
        return cc_err_wrap(err, "%s", path);
    *ret = cc_take(crd);
    return 0;
}

/* --- one definition ---------------------------------------------------------------------------------------------- */

static bool is_established(const json_t *crd) {
    const json_t *conditions = cc_json_path(crd, "status", "conditions", NULL);
    size_t i;
    const json_t *condition;

    json_array_foreach (conditions, i, condition) {
        if (cc_text_equal(cc_json_text(condition, "type"), "Established"))
            return cc_text_equal(cc_json_text(condition, "status"), "True");
    }
    return false;
}

CC_YIELDS static int apply_and_wait(const struct cc_kube *kube, const struct cc_kube_ref *ref, const json_t *crd,
                                    struct cc_err *err) {
    CC_DEADLINE_MS(OP_CRD_ESTABLISH_MS);
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    int rc = cc_kube_patch(kube, ref, CC_PATCH_APPLY, crd, &answer, err);

    while (rc == 0 && !is_established(answer)) {
        cc_json_decref_p(&answer);
        rc = cc_sleep_ms(POLL_MS, err);
        if (rc == 0)
            rc = cc_kube_get(kube, ref, &answer, err);
    }
    if (rc == CC_TIMEOUT)
        return cc_err_set(err, rc, "%s: not established within %d s", ref->name, OP_CRD_ESTABLISH_MS / 1000);
    return rc;
}

CC_YIELDS static int check(const struct cc_kube *kube, const struct cc_kube_ref *ref, const json_t *crd,
                           struct cc_err *err) {
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;
    char *where cc_cleanup(cc_free_p) = NULL;
    int rc = cc_kube_get(kube, ref, &answer, err);

    if (rc != 0)
        return rc;
    if (!is_established(answer))
        return cc_err_set(err, CC_INVALID, "%s is not established", ref->name);
    if (!op_json_contains(cc_json_member(answer, "spec"), cc_json_member(crd, "spec"), &where))
        return cc_err_set(err, CC_INVALID, "%s: the API server's differs at spec.%s: run `cocoon-operator apply-crds`",
                          ref->name, where);
    return 0;
}

int op_apply_crds(const struct cc_kube *kube, const char *directory, bool is_check, struct cc_err *err) {
    struct dirent **entries = NULL;
    int count = scandir(directory, &entries, is_yaml, alphasort);
    int rc = count < 0 ? cc_err_errno(err, errno, "%s", directory) : 0;

    if (count == 0)
        rc = cc_err_set(err, CC_NOT_FOUND, "%s holds no *.yaml", directory);
    else if (count > OP_CRD_FILES_MAX)
        rc = cc_err_set(err, CC_LIMIT, "%s holds more than %d files", directory, OP_CRD_FILES_MAX);
    for (int i = 0; i < count; i++) {
        char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", directory, entries[i]->d_name);
        json_t *crd cc_cleanup(cc_json_decref_p) = NULL;

        free(entries[i]);
        if (rc == 0)
            rc = read_crd(path, &crd, err);
        if (rc != 0)
            continue;
        struct cc_kube_ref ref = {.resource = &crd_resource,
                                  .name = cc_json_text(cc_json_member(crd, "metadata"), "name")};
        rc = is_check ? check(kube, &ref, crd, err) : apply_and_wait(kube, &ref, crd, err);
        if (rc == 0)
            printf("%s %s\n", ref.name, is_check ? "is up to date" : "applied");
    }
    free(entries);
    return rc;
}

/* --- program ------------------------------------------------------------------------------------------------------ */

struct program {
    struct cc_loop *loop;
    const char *directory, *kubeconfig;
    bool is_check;
    int exit_code;
};

CC_YIELDS static int run(struct program *program, struct cc_err *err) {
    CC_DEADLINE_MS(OP_APPLY_CRDS_MS);
    struct cc_kube_config_sources sources = {.flag = program->kubeconfig};
    struct cc_kube_config *config = NULL;
    struct cc_kube_http_transport *transport = NULL;
    char *user_agent cc_cleanup(cc_free_p) = cc_user_agent_new("cocoon-operator");
    int rc = cc_kube_config_load(&sources, &config, err);

    if (rc == 0)
        rc = cc_kube_http_transport_new(program->loop, config, user_agent, &transport, err);
    if (rc == 0) {
        struct cc_kube kube = {.transport = cc_kube_http_transport_port(transport)};
        rc = op_apply_crds(&kube, program->directory, program->is_check, err);
    }
    cc_kube_http_transport_free(transport);
    cc_kube_config_free(config);
    return rc;
}

CC_YIELDS static void main_fiber(void *arg) {
    struct program *program = (struct program *)arg;
    struct cc_err err = {0};

    if (run(program, &err) != 0) {
        fprintf(stderr, "cocoon-operator apply-crds: %s\n", err.msg);
        program->exit_code = 1;
    }
}

/* false, and said which, when an argument is wrong. */
static bool read_arguments(int argc, char **argv, struct program *ret) {
    for (int i = 1; i < argc; i++) {
        if (cc_text_equal(argv[i], "--check"))
            ret->is_check = true;
        else if (cc_text_equal(argv[i], "--kubeconfig") && i + 1 < argc)
            ret->kubeconfig = argv[++i];
        else if (argv[i][0] != '-' && !ret->directory)
            ret->directory = argv[i];
        else {
            fprintf(stderr, "cocoon-operator apply-crds: unexpected argument \"%s\"\n", argv[i]);
            return false;
        }
    }
    if (!ret->directory)
        fprintf(stderr, "cocoon-operator apply-crds: which directory?\n");
    return ret->directory != NULL;
}

int op_apply_crds_main(int argc, char **argv) {
    struct program program = {0};

    if (argc == 2 && cc_text_equal(argv[1], "--help")) {
        fputs(usage, stdout);
        return 0;
    }
    if (!read_arguments(argc, argv, &program)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    cc_signal_setup();
    program.loop = cc_loop_new();
    cc_fiber_detach(cc_fiber_start(program.loop, "apply-crds", main_fiber, &program));
    cc_loop_run(program.loop);
    cc_loop_free(program.loop);
    cc_work_shutdown();
    return program.exit_code;
}
