/* The one error type. A cc_err is a value on the caller's stack: nothing to allocate or release.
 *
 * Every fallible function returns 0 or a negative enum cc_code and fills `err` (last parameter, may be NULL) only on
 * failure. Each layer adds its noun once with cc_err_wrap(); whoever drops an error logs it, once. */
#ifndef CC_BASE_ERROR_H
#define CC_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"

/* What callers branch on. Text is for people. */
enum cc_code {
    CC_OK = 0,
    CC_NOT_FOUND = -1,        /* the thing itself is known to be absent */
    CC_EXISTS = -2,           /* a create found the name taken */
    CC_CONFLICT = -3,         /* optimistic lock lost */
    CC_GONE = -4,             /* resource version or continue token expired */
    CC_INVALID = -5,          /* refused as malformed or not allowed by the schema */
    CC_DENIED = -6,           /* 401, 403, EACCES */
    CC_THROTTLED = -7,        /* 429; retry_after_ms may be set */
    CC_TIMEOUT = -8,          /* the deadline of the scope passed */
    CC_CANCELED = -9,         /* the fiber was cancelled */
    CC_UNAVAILABLE = -10,     /* refused before any effect: connection refused, 5xx, DNS */
    CC_PROTOCOL = -11,        /* the other side broke its format */
    CC_IO = -12,              /* local file, pipe, child process */
    CC_LIMIT = -13,           /* a named bound was exceeded */
    CC_OUTCOME_UNKNOWN = -14, /* sent, no answer: it may have taken effect; read before acting again */
    CC_UNSUPPORTED = -15,     /* the other side cannot do this */
};

#define CC_ERR_MESSAGE_BYTES 480

struct cc_err {
    int code;               /* enum cc_code */
    int status;             /* HTTP status, exit status or errno where one exists, else 0 */
    int64_t retry_after_ms; /* what the server asked for; 0 = nothing */
    bool uid_mismatch;      /* Kubernetes: the write was refused because metadata.uid names another incarnation */
    char reason[40];        /* machine word of the other side: Kubernetes Status.reason, OCI error code; may be empty */
    char msg[CC_ERR_MESSAGE_BYTES]; /* always terminated valid UTF-8; cut at a character when too long */
};

/* Fills err (NULL is fine) and returns code. Resets status, reason and retry_after_ms. */
int cc_err_set(struct cc_err *err, enum cc_code code, const char *format, ...) CC_PRINTF(3, 4);
int cc_err_vset(struct cc_err *err, enum cc_code code, const char *format, va_list arguments) CC_PRINTF(3, 0);

/* As cc_err_set, code chosen from an errno value (ENOENT NOT_FOUND, EEXIST EXISTS, EACCES/EPERM DENIED, ECONNREFUSED
 * UNAVAILABLE, ETIMEDOUT TIMEOUT, else IO); appends ": <strerror>". */
int cc_err_errno(struct cc_err *err, int errno_value, const char *format, ...) CC_PRINTF(3, 4);

/* Prefixes "<text>: " to the message; code and other members stay. Returns err->code (CC_IO when err is NULL). */
int cc_err_wrap(struct cc_err *err, const char *format, ...) CC_PRINTF(2, 3);

/* The code as an upper-case word, for logs and tests. */
const char *cc_code_name(int code);

/* True for TIMEOUT, CANCELED, UNAVAILABLE, THROTTLED, OUTCOME_UNKNOWN, IO, CONFLICT: trying again may help. */
bool cc_code_is_transient(int code);

#endif
