/* First line: status and method. Then a Status document, or what came instead: the error names a code that fits the
 * status, and its texts stay in their bounds. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "kube/client_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    struct fuzz_input input = fuzz_input_of(data, size);
    int status = (int)(fuzz_number(&input) % 600);
    size_t count;
    char *text cc_cleanup(cc_free_p) = fuzz_rest(&input, &count);
    json_t *document cc_cleanup(cc_json_decref_p) = NULL;
    if (cc_json_parse(text, count, SIZE_MAX, &document, NULL) != 0)
        document = NULL;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(methods); i++) {
        struct cc_err err = {0};
        int rc = cc_kube_status_error(&err, methods[i], status, document, text, 0);
        fuzz_require(rc < 0);
        fuzz_require_error(rc, &err);
        fuzz_require(err.status == status && err.retry_after_ms >= 0);
        fuzz_require(strnlen(err.reason, sizeof err.reason) < sizeof err.reason);
        fuzz_require(status != 404 || rc == CC_NOT_FOUND || rc == CC_GONE);
        fuzz_require(status == 404 || rc != CC_NOT_FOUND);
        fuzz_require(cc_kube_status_error(NULL, methods[i], status, document, NULL, 5) == rc);
    }
    return 0;
}
