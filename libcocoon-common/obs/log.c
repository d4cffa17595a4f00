#include "obs/log.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "base/time.h"

/* The log sink is the one process-wide state besides the signal flag. */
static struct {
    enum cc_log_level level;
    enum cc_log_format format;
    cc_log_sink sink;
    void *sink_ctx;
} state = {.level = CC_LOG_INFO, .format = CC_LOG_TEXT};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

int cc_log_setup(const char *level_variable, const char *level, const char *format, struct cc_err *err) {
    enum cc_log_level chosen = CC_LOG_INFO;
    bool known = cc_text_is_empty(level);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(level_names); i++) {
        if (cc_text_equal_fold(level, level_names[i])) {
            chosen = (enum cc_log_level)i;
            known = true;
        }
    }
    if (!known)
        return cc_err_set(err, CC_INVALID, "%s=\"%s\": must be debug, info, warn or error", level_variable, level);
    if (cc_text_is_empty(format))
        state.format = isatty(STDOUT_FILENO) ? CC_LOG_TEXT : CC_LOG_JSON;
    else if (strcmp(format, "text") == 0)
        state.format = CC_LOG_TEXT;
    else if (strcmp(format, "json") == 0)
        state.format = CC_LOG_JSON;
    else
        return cc_err_set(err, CC_INVALID, "LOG_FORMAT=\"%s\": must be text or json", format);
    state.level = chosen;
    return 0;
}

void cc_log_set_sink(cc_log_sink sink, void *ctx) {
    state.sink = sink;
    state.sink_ctx = ctx;
}

void cc_log_set_level(enum cc_log_level level) {
    state.level = level;
}

bool cc_log_is_enabled(enum cc_log_level level) {
    return level >= state.level;
}

static struct cc_wall now(void) {
    if (cc_fiber_current())
        return cc_now_wall();
    struct timespec time; /* before the loop runs, and in signal or process-end paths, there is no loop to ask */
    clock_gettime(CLOCK_REALTIME, &time);
    return (struct cc_wall){time.tv_sec * CC_NS_PER_S + time.tv_nsec};
}

/* One line, whatever the text holds: blanks, quotes, '=' and control characters force quotes and escapes. */
static void put_value(struct cc_buf *line, const char *value) {
    bool plain = *value != '\0';
    for (const char *at = value; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at == 0x7f)
            plain = false;
    if (plain) {
        cc_ignore(cc_buf_puts(line, value), "an over-long record is cut");
        return;
    }
    cc_ignore(cc_buf_putc(line, '"'), "an over-long record is cut");
    for (const char *at = value; *at; at++) {
        if (*at == '"' || *at == '\\')
            cc_ignore(cc_buf_printf(line, "\\%c", *at), "an over-long record is cut");
        else if (*at == '\n')
            cc_ignore(cc_buf_puts(line, "\\n"), "an over-long record is cut");
        else if ((unsigned char)*at < ' ' || *at == 0x7f)
            cc_ignore(cc_buf_printf(line, "\\x%02x", (unsigned char)*at), "an over-long record is cut");
        else
            cc_ignore(cc_buf_putc(line, *at), "an over-long record is cut");
    }
    cc_ignore(cc_buf_putc(line, '"'), "an over-long record is cut");
}

#define RECORD_BYTES_MAX 65536
#define FIELDS_MAX 32

static void write_text(struct cc_wall time, enum cc_log_level level, const char *message,
                       const struct cc_log_field *fields, size_t count) {
    static const char *const short_names[] = {"DBG", "INF", "WRN", "ERR"};
    struct cc_buf line cc_cleanup(cc_buf_done);
    cc_buf_init(&line, RECORD_BYTES_MAX);
    char stamp[CC_RFC3339_BYTES];
    cc_rfc3339_micros(time, stamp);
    char *safe cc_cleanup(cc_free_p) = cc_utf8_publishable(message, RECORD_BYTES_MAX / 4);
    for (char *at = safe; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    cc_ignore(cc_buf_printf(&line, "%s %s %s", stamp, short_names[level], safe), "an over-long record is cut");
    for (size_t i = 0; i < count; i++) {
        cc_ignore(cc_buf_printf(&line, " %s=", fields[i].key), "an over-long record is cut");
        put_value(&line, fields[i].value);
    }
    fprintf(stdout, "%s\n", line.data);
}

static void write_json(struct cc_wall time, enum cc_log_level level, const char *message,
                       const struct cc_log_field *fields, size_t count) {
    char stamp[CC_RFC3339_BYTES];
    json_t *record cc_cleanup(cc_json_decref_p) = json_object();
    cc_json_set_text(record, "time", cc_rfc3339_micros(time, stamp));
    cc_json_set_text(record, "level", level_names[level]);
    cc_json_set_text(record, "msg", message);
    for (size_t i = 0; i < count; i++)
        cc_json_set_text(record, fields[i].key, fields[i].value);
    char *line cc_cleanup(cc_free_p) = cc_json_dump(record);
    fprintf(stdout, "%s\n", line);
}

void cc_log_record(enum cc_log_level level, const char *function, const char *message,
                   const struct cc_log_field *fields, size_t count) {
    struct cc_log_field all[FIELDS_MAX];
    size_t used = 0, context_count = 0;
    const struct cc_fiber_context *context = cc_fiber_context(&context_count);
    if (!state.sink && level == CC_LOG_DEBUG)
        all[used++] = CC_KV("func", function);
    for (size_t i = 0; i < context_count && used < FIELDS_MAX; i++)
        all[used++] = CC_KV(context[i].key, context[i].value);
    for (size_t i = 0; i < count && used < FIELDS_MAX; i++)
        if (fields[i].value)
            all[used++] = fields[i];
    if (state.sink) {
        state.sink(state.sink_ctx, level, message, all, used);
        return;
    }
    if (state.format == CC_LOG_TEXT)
        write_text(now(), level, message, all, used);
    else
        write_json(now(), level, message, all, used);
    fflush(stdout);
}
