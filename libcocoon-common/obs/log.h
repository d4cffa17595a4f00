/* Structured log: one line a record on stdout, text or JSON (decision 23). Fields come from the call and from the
 * fiber's context (aio/fiber.h). Never log secrets, tokens or a pod's environment. */
#ifndef CC_OBS_LOG_H
#define CC_OBS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/error.h"

enum cc_log_level { CC_LOG_DEBUG, CC_LOG_INFO, CC_LOG_WARN, CC_LOG_ERROR };
enum cc_log_format { CC_LOG_TEXT, CC_LOG_JSON };

struct cc_log_field {
    const char *key;
    const char *value;
};
#define CC_KV(key_literal, text) ((struct cc_log_field){(key_literal), (text)})

/* level: `debug`, `info`, `warn`, `error` in any case; NULL or "" = info. format: `text`, `json`; NULL or "" = text on
 * a terminal, else json. INVALID names the variable, the value and what is accepted. */
CC_MUST_USE int cc_log_setup(const char *level_variable, const char *level, const char *format, struct cc_err *err);
/* Tests and simulators: records go to sink instead (NULL = stdout again). time is RFC 3339. */
typedef void (*cc_log_sink)(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                            size_t count);
void cc_log_set_sink(cc_log_sink sink, void *ctx);
void cc_log_set_level(enum cc_log_level level);
bool cc_log_is_enabled(enum cc_log_level level);

void cc_log_record(enum cc_log_level level, const char *function, const char *message,
                   const struct cc_log_field *fields, size_t count);

#define CC_LOG_AT(level, message, ...)                                                                                 \
    do {                                                                                                               \
        if (cc_log_is_enabled(level)) {                                                                                \
            const struct cc_log_field _fields[] = {{NULL, NULL}, ##__VA_ARGS__};                                       \
            cc_log_record((level), __func__, (message), _fields + 1, CC_ARRAY_LENGTH(_fields) - 1);                    \
        }                                                                                                              \
    } while (0)

/* cc_log_warn("pod patch failed", CC_KV("pod", key), CC_KV("error", err.msg)); NULL values are left out. */
#define cc_log_debug(message, ...) CC_LOG_AT(CC_LOG_DEBUG, message, ##__VA_ARGS__)
#define cc_log_info(message, ...) CC_LOG_AT(CC_LOG_INFO, message, ##__VA_ARGS__)
#define cc_log_warn(message, ...) CC_LOG_AT(CC_LOG_WARN, message, ##__VA_ARGS__)
#define cc_log_error(message, ...) CC_LOG_AT(CC_LOG_ERROR, message, ##__VA_ARGS__)

#endif
