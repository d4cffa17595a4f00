#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Messages hold texts of others, whole or cut by a precision: every byte that is not UTF-8 becomes '?' (decision 46).
 */
static void replace_invalid(char *text) {
    size_t length = strlen(text);
    for (size_t at = 0; at < length;) {
        size_t bytes = 1;
        while (bytes <= 4 && at + bytes <= length && !cc_utf8_is_valid(text + at, bytes))
            bytes++;
        if (bytes > 4 || at + bytes > length) {
            text[at] = '?';
            bytes = 1;
        }
        at += bytes;
    }
}

/* Makes a text of what vsnprintf wrote, which may have been cut in the middle of a character. */
static void make_text(char *text, size_t wanted, size_t capacity) {
    size_t length = strlen(text);
    if (wanted >= capacity)
        text[cc_utf8_cut(text, length, length)] = '\0';
    replace_invalid(text);
}

int cc_err_vset(struct cc_err *err, enum cc_code code, const char *format, va_list arguments) {
    if (!err)
        return code;
    /* The arguments may point into *err (a message that is being rephrased), so format aside first. */
    char text[CC_ERR_MESSAGE_BYTES];
    int wanted = vsnprintf(text, sizeof text, format, arguments);
    make_text(text, wanted < 0 ? 0 : (size_t)wanted, sizeof text);
    memset(err, 0, sizeof *err);
    err->code = code;
    memcpy(err->msg, text, strlen(text) + 1);
    return code;
}

int cc_err_set(struct cc_err *err, enum cc_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    cc_err_vset(err, code, format, arguments);
    va_end(arguments);
    return code;
}

static enum cc_code code_of_errno(int errno_value) {
    switch (errno_value) {
    case ENOENT:
        return CC_NOT_FOUND;
    case EEXIST:
        return CC_EXISTS;
    case EACCES:
    case EPERM:
        return CC_DENIED;
    case ECONNREFUSED:
        return CC_UNAVAILABLE;
    case ETIMEDOUT:
        return CC_TIMEOUT;
    default:
        return CC_IO;
    }
}

int cc_err_errno(struct cc_err *err, int errno_value, const char *format, ...) {
    enum cc_code code = code_of_errno(errno_value);
    char text[CC_ERR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cc_err_set(err, code, "%s: %s", text, strerror(errno_value));
    if (err)
        err->status = errno_value;
    return code;
}

int cc_err_wrap(struct cc_err *err, const char *format, ...) {
    if (!err)
        return CC_IO;
    char text[CC_ERR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return err->code;
    size_t used = strlen(text);
    int wanted = snprintf(text + used, sizeof text - used, ": %s", err->msg);
    make_text(text, used + (wanted < 0 ? 0 : (size_t)wanted), sizeof text);
    memcpy(err->msg, text, strlen(text) + 1);
    return err->code;
}

const char *cc_code_name(int code) {
    switch ((enum cc_code)code) {
    case CC_OK:
        return "OK";
    case CC_NOT_FOUND:
        return "NOT_FOUND";
    case CC_EXISTS:
        return "EXISTS";
    case CC_CONFLICT:
        return "CONFLICT";
    case CC_GONE:
        return "GONE";
    case CC_INVALID:
        return "INVALID";
    case CC_DENIED:
        return "DENIED";
    case CC_THROTTLED:
        return "THROTTLED";
    case CC_TIMEOUT:
        return "TIMEOUT";
    case CC_CANCELED:
        return "CANCELED";
    case CC_UNAVAILABLE:
        return "UNAVAILABLE";
    case CC_PROTOCOL:
        return "PROTOCOL";
    case CC_IO:
        return "IO";
    case CC_LIMIT:
        return "LIMIT";
    case CC_OUTCOME_UNKNOWN:
        return "OUTCOME_UNKNOWN";
    case CC_UNSUPPORTED:
        return "UNSUPPORTED";
    }
    return "UNKNOWN";
}

bool cc_code_is_transient(int code) {
    return code == CC_TIMEOUT || code == CC_CANCELED || code == CC_UNAVAILABLE || code == CC_THROTTLED ||
           code == CC_OUTCOME_UNKNOWN || code == CC_IO || code == CC_CONFLICT;
}
