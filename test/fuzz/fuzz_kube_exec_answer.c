/* The API version that the kubeconfig names on the first line, then what a credential plugin wrote: what is accepted is
 * whole, and no token of it can break out of its header. */
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "kube/exec_plugin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *version cc_cleanup(cc_free_p) = fuzz_line(&input);
    size_t count;
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, &count);
    const struct cc_kube_exec exec = {.api_version = version, .command = "plugin"};
    struct cc_kube_exec_credential credential = {0};
    struct cc_err err = {0};
    int rc = cc_kube_exec_parse(&exec, text, count, &credential, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        fuzz_require(!credential.token && !credential.certificate && !credential.key);
        fuzz_require(strstr(err.msg, "'plugin'"));
        return 0;
    }
    fuzz_require(credential.token || credential.certificate);
    fuzz_require(!credential.certificate == !credential.key);
    fuzz_require(!credential.token || (*credential.token && !strpbrk(credential.token, "\r\n \t")));
    fuzz_require(!credential.certificate || strstr(credential.certificate, "-----BEGIN "));
    cc_kube_exec_credential_done(&credential);
    return 0;
}
