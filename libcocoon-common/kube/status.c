/* Refusals of the API server: the Status document and what callers branch on. contract/04 C5.1, C5.2, decision 54. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "kube/client_internal.h"

static bool has_cause(const json_t *document, const char *member, const char *value) {
    const json_t *causes = cc_json_path(document, "details", "causes", NULL);
    size_t i;
    json_t *cause;

    json_array_foreach (causes, i, cause) {
        if (cc_text_equal(cc_json_text(cause, member), value))
            return true;
    }
    return false;
}

static enum cc_code code_of(const char *method, int status, const json_t *document) {
    bool is_write = strcmp(method, "GET") != 0;
    const char *reason = cc_json_text(document, "reason");

    if (has_cause(document, "reason", "ResourceVersionTooLarge"))
        return CC_GONE;
    switch (status) {
    case 401:
    case 403:
        return CC_DENIED;
    case 404:
        return CC_NOT_FOUND;
    case 405:
    case 415:
        return CC_UNSUPPORTED;
    case 409:
        if (strcmp(method, "POST") == 0 && !cc_text_equal(reason, "Conflict"))
            return CC_EXISTS;
        return CC_CONFLICT;
    case 410:
        return CC_GONE;
    case 413:
        return CC_LIMIT;
    case 429:
        return CC_THROTTLED;
    case 504:
        /* The request may have been carried out behind the one that gave up waiting (field case F02). */
        return is_write ? CC_OUTCOME_UNKNOWN : CC_UNAVAILABLE;
    }
    if (status >= 500)
        return CC_UNAVAILABLE;
    return status >= 400 ? CC_INVALID : CC_PROTOCOL;
}

/* A PATCH with a wrong metadata.uid is a 422 with a cause; a PUT or DELETE is a 409 that says so in words only: "UID in
 * precondition: A, UID in object meta: B" and "the UID in the precondition (A) does not match the UID in record (B)".
 */
static bool is_uid_mismatch(int status, const json_t *document) {
    const char *message = cc_json_text(document, "message");

    if (status == 422)
        return has_cause(document, "field", "metadata.uid");
    return status == 409 &&
           (cc_text_contains(message, "UID in precondition") || cc_text_contains(message, "UID in the precondition"));
}

int cc_kube_status_error(struct cc_err *err, const char *method, int status, const json_t *document, const char *raw,
                         int64_t retry_after_ms) {
    enum cc_code code = code_of(method, status, document);
    const char *message = cc_text_or(cc_json_text(document, "message"), raw);
    const char *reason = cc_json_text(document, "reason");
    int64_t seconds = cc_json_int(cc_json_member(document, "details"), "retryAfterSeconds", 0);

    cc_err_set(err, code, "%s (HTTP %d)", cc_text_or(message, "no message"), status);
    if (!err)
        return code;
    err->status = status;
    err->uid_mismatch = is_uid_mismatch(status, document);
    err->retry_after_ms = retry_after_ms > 0 ? retry_after_ms : seconds > 0 && seconds < 86400 ? seconds * 1000 : 0;
    if (reason) {
        size_t length = cc_utf8_cut(reason, strlen(reason), sizeof err->reason - 1);

        memcpy(err->reason, reason, length);
        err->reason[length] = '\0';
    }
    return code;
}

bool cc_kube_is_superseded(const struct cc_err *err) {
    return err->code == CC_NOT_FOUND || err->code == CC_CONFLICT || (err->code == CC_INVALID && err->uid_mismatch);
}
