/* The event stream of contract/06 chapter 4. */
#include <string.h>

#include "base/assert.h"
#include "obs/log.h"
#include "runtime/cli_internal.h"
#include "runtime/cli_records.h"

#define READ_BYTES ((size_t)65536)

struct stream {
    void (*handler)(void *handler_ctx, const struct vk_event *event);
    void *handler_ctx;
    struct cc_buf pending; /* an unfinished line */
};

static bool is_blank(const char *line, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (!strchr(" \t\r", line[i]))
            return false;
    return true;
}

/* One bad line fails only itself. */
static void handle_line(struct stream *stream, const char *line, size_t bytes) {
    struct vk_event event;
    struct cc_err err;

    if (is_blank(line, bytes))
        return;
    if (vk_event_parse(line, bytes, &event.type, &event.vm, &err) != 0) {
        cc_log_warn("skipped a line of cocoon vm status", CC_KV("error", err.msg));
        return;
    }
    stream->handler(stream->handler_ctx, &event);
    vk_vm_unref(event.vm);
}

/* False at a line that is longer than the bound, finished or not: the stream cannot be trusted any more. */
static bool handle_lines(struct stream *stream) {
    size_t start = 0;

    for (;;) {
        const char *line = stream->pending.data + start;
        const char *end = memchr(line, '\n', stream->pending.len - start);

        if (!end)
            break;
        if ((size_t)(end - line) > VK_EVENT_LINE_BYTES_MAX)
            return false;
        handle_line(stream, line, (size_t)(end - line));
        start += (size_t)(end - line) + 1;
    }
    cc_buf_consume(&stream->pending, start);
    return stream->pending.len <= VK_EVENT_LINE_BYTES_MAX;
}

static int follow(struct stream *stream, int fd, struct cc_err *err) {
    for (;;) {
        size_t count;
        char *room = cc_buf_reserve(&stream->pending, READ_BYTES);

        cc_assert(room != NULL);
        int rc = cc_io_read(fd, room, READ_BYTES, &count, err);
        if (rc != 0)
            return rc;
        if (count == 0) {
            handle_line(stream, stream->pending.data, stream->pending.len);
            return 0;
        }
        cc_buf_commit(&stream->pending, count);
        if (!handle_lines(stream)) {
            cc_log_warn("a line of cocoon vm status is longer than 1048576 bytes, the stream ends");
            return 0;
        }
    }
}

int vk_cli_watch(void *ctx, CC_YIELDS void (*handler)(void *handler_ctx, const struct vk_event *event),
                 void (*started)(void *handler_ctx), void *handler_ctx, struct cc_err *err) {
    struct vk_cocoon_cli *cli = ctx;
    struct vk_cli_call call cc_cleanup(vk_cli_call_done);
    struct cc_process_options options;
    struct cc_process *process = NULL;

    vk_cli_call_init(&call, "vm status", "");
    vk_arguments_events(&call.arguments);
    int rc = vk_cli_options(cli, &call, &options, err);
    if (rc != 0)
        return rc;
    cc_log_debug("cocoon call", CC_KV("arguments", vk_arguments_text(&call.arguments)));
    options.out = CC_STDIO_PIPE;
    rc = cc_process_start(&options, &process, err);
    if (rc != 0)
        return vk_cli_start_failed(cli, call.verb, rc, err);
    if (started)
        started(handler_ctx);

    struct stream stream = {.handler = handler, .handler_ctx = handler_ctx};
    cc_buf_init(&stream.pending, VK_EVENT_LINE_BYTES_MAX + READ_BYTES);
    rc = follow(&stream, cc_process_out(process), err);
    cc_buf_done(&stream.pending);
    cc_process_free(process);
    return rc;
}
