/* A kubeconfig file: what is accepted has a server URL and credentials that go together; what is not is refused with
 * the name of the file. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "http/url.h"
#include "kube/kubeconfig.h"

static void check_config(struct cc_kube_config *config) {
    struct cc_url url;
    struct cc_err err;
    fuzz_require(cc_url_parse(config->server, &config->arena, &url, &err) == 0 && !url.query);
    fuzz_require(config->server[strlen(config->server) - 1] != '/');
    fuzz_require(config->namespace && *config->namespace);
    bool certificate = config->certificate_pem || config->certificate_file, key = config->key_pem || config->key_file;
    fuzz_require(certificate == key);
    fuzz_require(!(config->insecure && config->ca_pem));
    fuzz_require(!((config->token || config->token_file) && config->username));
    fuzz_require(config->impersonate_user || (!config->impersonate_uid && config->impersonate_groups.count == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    json_t *merged cc_cleanup(cc_json_decref_p) = json_object();
    struct cc_err err = {0};
    int rc = cc_kubeconfig_merge(merged, path, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        fuzz_require(strstr(err.msg, path));
        return 0;
    }
    /* The first file to define a name wins: merging the same once more changes nothing. */
    json_t *once cc_cleanup(cc_json_decref_p) = json_deep_copy(merged);
    fuzz_require(cc_kubeconfig_merge(merged, path, &err) == 0 && json_equal(merged, once));
    fuzz_require(!cc_kubeconfig_is_empty(merged) || !cc_json_text(merged, "current-context"));

    struct cc_kube_config *config cc_cleanup(cc_kube_config_free_p) = CC_NEW(struct cc_kube_config);
    rc = cc_kubeconfig_read(merged, path, config, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0)
        check_config(config);
    else
        fuzz_require(strstr(err.msg, path));
    return 0;
}
