#include <signal.h>
#include <string.h>

#include "base/text.h"
#include "obs/log.h"
#include "runtime/cli_internal.h"

/* Room that the surrounding words take in an error message. */
#define MESSAGE_TEXT_BYTES (CC_ERR_MESSAGE_BYTES - 140)

void vk_cli_call_init(struct vk_cli_call *call, const char *verb, const char *subject) {
    *call = (struct vk_cli_call){.verb = verb, .subject = cc_text_or(subject, "")};
    call->arguments.arena = &call->arena;
}

void vk_cli_call_done(struct vk_cli_call *call) {
    cc_buf_done(&call->out);
    cc_buf_done(&call->error);
    cc_arena_done(&call->arena);
}

int vk_cli_options(struct vk_cocoon_cli *cli, const struct vk_cli_call *call, struct cc_process_options *ret,
                   struct cc_err *err) {
    *ret = (struct cc_process_options){.argv = vk_arguments_vector(&call->arguments, cli->binary)};
    if (!cli->host_options)
        return 0;
    if (!cli->host && vk_host_namespaces_open(cli->host_options, &cli->host, err) != 0)
        return vk_cli_start_failed(cli, call->verb, CC_IO, err);
    ret->before_exec = vk_host_namespaces_enter;
    ret->before_exec_ctx = cli->host;
    return 0;
}

int vk_cli_start_failed(const struct vk_cocoon_cli *cli, const char *verb, int rc, struct cc_err *err) {
    cc_err_wrap(err, "cocoon %s: run %s", verb, cli->binary);
    if (rc == CC_TIMEOUT || rc == CC_CANCELED)
        return rc;
    if (err)
        err->code = CC_IO;
    return CC_IO;
}

void vk_cli_garbage(const struct vk_cocoon_cli *cli, const struct vk_cli_call *call, struct cc_err *err) {
    cc_err_wrap(err, "cocoon %s %s: output of %s", call->verb, call->subject, cli->binary);
}

const char *vk_cli_exit_text(const struct cc_exit *exit, struct cc_arena *arena) {
    if (exit->signal == 0)
        return cc_arena_printf(arena, "exit status %d", exit->status);
    const char *name = sigabbrev_np(exit->signal);
    return cc_arena_printf(arena, "signal: SIG%s", name ? name : "UNKNOWN");
}

const char *vk_cli_shown_text(const struct cc_buf *text, struct cc_arena *arena) {
    static const char blanks[] = " \t\r\n";
    const char *start = text->data ? text->data + strspn(text->data, blanks) : "";
    size_t bytes = strlen(start);

    while (bytes > 0 && strchr(blanks, start[bytes - 1]))
        bytes--;
    if (bytes <= MESSAGE_TEXT_BYTES)
        return cc_arena_strndup(arena, start, bytes);
    start += bytes - MESSAGE_TEXT_BYTES;
    bytes = MESSAGE_TEXT_BYTES;
    while (bytes > 0 && ((unsigned char)*start & 0xc0) == 0x80) { /* not in the middle of a character */
        start++;
        bytes--;
    }
    return cc_arena_printf(arena, "...%.*s", (int)bytes, start);
}

const char *vk_cli_call_text(const struct vk_cli_call *call) {
    const struct cc_buf *text = call->error.data ? &call->error : &call->out;

    return text->data ? text->data : "";
}

static const char *separator(const struct vk_cli_call *call) {
    return call->subject[0] ? " " : "";
}

static int run(struct vk_cocoon_cli *cli, struct vk_cli_call *call, bool combined, struct cc_err *err) {
    struct cc_process_options options;
    struct cc_exit exit = {0};
    int rc = vk_cli_options(cli, call, &options, err);

    if (rc != 0)
        return rc;
    cc_log_debug("cocoon call", CC_KV("arguments", vk_arguments_text(&call->arguments)));
    rc = cc_process_run_with(&options, NULL, 0, &call->out, combined ? NULL : &call->error, &exit, err);
    if (rc != 0)
        return vk_cli_start_failed(cli, call->verb, rc, err);
    if (exit.signal == 0 && exit.status == 0)
        return 0;

    const struct cc_buf *shown = combined ? &call->out : &call->error;
    rc = cc_err_set(err, CC_IO, "cocoon %s%s%s: %s (%s: %s)", call->verb, separator(call), call->subject,
                    vk_cli_exit_text(&exit, &call->arena), combined ? "output" : "stderr",
                    vk_cli_shown_text(shown, &call->arena));
    if (err)
        err->status = exit.status;
    return rc;
}

int vk_cli_run_json(struct vk_cocoon_cli *cli, struct vk_cli_call *call, size_t out_limit, struct cc_err *err) {
    cc_buf_init(&call->out, out_limit);
    cc_buf_init(&call->error, VK_CLI_ERROR_BYTES_MAX);

    int rc = run(cli, call, false, err);
    if (rc == 0 && call->out.overflown)
        rc = cc_err_set(err, CC_LIMIT, "cocoon %s%s%s: output of %s is longer than %zu bytes", call->verb,
                        separator(call), call->subject, cli->binary, out_limit);
    return rc;
}

int vk_cli_run_combined(struct vk_cocoon_cli *cli, struct vk_cli_call *call, struct cc_err *err) {
    cc_buf_init(&call->out, VK_CLI_ERROR_BYTES_MAX);
    return run(cli, call, true, err);
}
