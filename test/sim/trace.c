/* The timeline: one line an event, "virtual seconds, actor, what". */
#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "obs/log.h"
#include "sim.h"

#define LINE_BYTES_MAX ((size_t)4096)

bool sim_is_tracing(const struct sim_world *world) {
    return world->options->trace || world->options->line;
}

/* FNV-1a */
static void hash(struct sim_world *world, const char *text, size_t bytes) {
    uint64_t value = world->result->trace_hash;
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    world->result->trace_hash = value;
}

static void emit(struct sim_world *world) {
    struct cc_buf *line = &world->trace_line;

    hash(world, line->data, line->len);
    if (world->options->trace)
        printf("%s\n", line->data);
    if (world->options->line)
        world->options->line(world->options->line_ctx, line->data);
}

static void begin_line(struct sim_world *world, const char *actor) {
    int64_t ms = sim_clock_ms(&world->clock);

    cc_buf_clear(&world->trace_line);
    cc_ignore(cc_buf_printf(&world->trace_line, "%8lld.%03d %-11s ", (long long)(ms / 1000), (int)(ms % 1000), actor),
              "a long line is cut");
}

void sim_trace(struct sim_world *world, const char *actor, const char *format, ...) {
    va_list arguments;
    char text[512];

    if (!sim_is_tracing(world))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    begin_line(world, actor);
    cc_ignore(cc_buf_puts(&world->trace_line, text), "a long line is cut");
    emit(world);
}

/* Of the fiber's context only the object matters here. */
static bool is_noise(const char *key) {
    return cc_text_equal(key, "controller") || cc_text_equal(key, "reconcileID") ||
           cc_text_equal(key, "controllerKind") || cc_text_equal(key, "namespace");
}

/* What the daemons log belongs to the timeline too. */
static void on_log(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                   size_t count) {
    struct sim_world *world = ctx;
    static const char *const levels[] = {"debug", "info", "warn", "ERROR"};
    struct cc_fiber *fiber = cc_fiber_current();

    if (!sim_is_tracing(world))
        return;
    begin_line(world, "log");
    cc_ignore(cc_buf_printf(&world->trace_line, "%s %s [%s]", levels[level], message, cc_fiber_name(fiber)),
              "a long line is cut");
    for (size_t i = 0; i < count; i++)
        if (fields[i].value && !is_noise(fields[i].key))
            cc_ignore(cc_buf_printf(&world->trace_line, " %s=%s", fields[i].key, fields[i].value), "cut");
    emit(world);
}

void sim_trace_begin(struct sim_world *world) {
    cc_buf_init(&world->trace_line, LINE_BYTES_MAX);
    world->result->trace_hash = UINT64_C(0xcbf29ce484222325);
    cc_log_set_sink(on_log, world);
    cc_log_set_level(sim_is_tracing(world) ? CC_LOG_INFO : CC_LOG_ERROR);
}

void sim_trace_end(struct sim_world *world) {
    cc_log_set_sink(NULL, NULL);
    cc_buf_done(&world->trace_line);
}
