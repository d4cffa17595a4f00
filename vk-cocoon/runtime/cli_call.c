#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "obs/log.h"
#include "runtime/cli_internal.h"

/* Room that the surrounding words take in an error message. */
#define SLOW_SECONDS 60 /* the first word about a call that still runs; then after twice as long each time */
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

/* A clone or a save may rightly take minutes; whoever waits for one that hangs must be able to see where. */
struct slow {
    struct cc_timer timer;
    const struct vk_cli_call *call;
    struct cc_loop *loop;
    int64_t seconds; /* so long it has been running when the timer fires */
};

static void say_slow(struct cc_timer *timer) {
    struct slow *slow = cc_container_of(timer, struct slow, timer);
    char seconds[32];

    snprintf(seconds, sizeof seconds, "%" PRId64, slow->seconds);
    cc_log_warn("cocoon call still running", CC_KV("verb", slow->call->verb), CC_KV("subject", slow->call->subject),
                CC_KV("seconds", seconds));
    cc_timer_start(slow->loop, timer, cc_mono_add_ms(timer->due, slow->seconds * 1000));
    slow->seconds *= 2;
}

static int run(struct vk_cocoon_cli *cli, struct vk_cli_call *call, bool combined, struct cc_err *err) {
    struct cc_process_options options;
    struct cc_exit exit = {0};
    int rc = vk_cli_options(cli, call, &options, err);

    if (rc != 0)
        return rc;
    cc_log_debug("cocoon call", CC_KV("arguments", vk_arguments_text(&call->arguments)));

    struct slow slow = {.timer.fire = say_slow, .call = call, .loop = cc_loop_current(), .seconds = SLOW_SECONDS};
    cc_timer_start(slow.loop, &slow.timer, cc_mono_add_ms(cc_now_mono(), slow.seconds * 1000));
    rc = cc_process_run_with(&options, NULL, 0, &call->out, combined ? NULL : &call->error, &exit, err);
    cc_timer_stop(slow.loop, &slow.timer);
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

int vk_cli_ask_json(struct vk_cocoon_cli *cli, struct vk_cli_call *call, size_t out_limit, struct cc_err *err) {
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), VK_CLI_ASK_MS);
    bool is_ours = cc_mono_is_before(end, cc_deadline());
    CC_DEADLINE_MS(VK_CLI_ASK_MS);

    int rc = vk_cli_run_json(cli, call, out_limit, err);
    /* To the caller its own deadline means something else than a cocoon that hangs. */
    if (rc == CC_TIMEOUT && is_ours)
        rc = cc_err_set(err, CC_IO, "cocoon %s%s%s: %s gave no answer within %d s", call->verb, separator(call),
                        call->subject, cli->binary, VK_CLI_ASK_MS / 1000);
    return rc;
}

int vk_cli_run_combined(struct vk_cocoon_cli *cli, struct vk_cli_call *call, struct cc_err *err) {
    cc_buf_init(&call->out, VK_CLI_ERROR_BYTES_MAX);
    return run(cli, call, true, err);
}
