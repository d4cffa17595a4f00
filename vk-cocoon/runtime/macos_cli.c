#include "runtime/macos_cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "aio/process.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"
#include "obs/log.h"
#include "runtime/cli_internal.h"

#define BINARY_DEFAULT "/usr/local/bin/cocoon-macos"
#define ASK_MS 60000 /* inspect: a CLI that hangs must not hold up the start of the daemon */
#define GRACE_MS 90000

struct vk_macos_cli {
    char *binary, *vnc_password;
    int64_t grace_ms;
    const struct vk_host_namespaces_options *host_options;
    struct vk_host_namespaces *host;
};

struct vk_macos_cli *vk_macos_cli_new(const struct vk_macos_cli_options *options) {
    struct vk_macos_cli *cli = CC_NEW(struct vk_macos_cli);

    cli->binary = cc_xstrdup(cc_text_or(options->binary, BINARY_DEFAULT));
    cli->vnc_password = cc_xstrdup(cc_text_or(options->vnc_password, ""));
    cli->grace_ms = options->grace_ms > 0 ? options->grace_ms : GRACE_MS;
    cli->host_options = options->host_namespaces;
    return cli;
}

void vk_macos_cli_free(struct vk_macos_cli *cli) {
    if (!cli)
        return;
    vk_host_namespaces_close(cli->host);
    free(cli->binary);
    free(cli->vnc_password);
    free(cli);
}

/* --- arguments: pure ---------------------------------------------------------------------------------------------- */

static void put(struct vk_arguments *arguments, const char *word) {
    cc_strlist_add(&arguments->words, arguments->arena, word);
}

static void put2(struct vk_arguments *arguments, const char *flag, const char *value) {
    put(arguments, flag);
    put(arguments, value);
}

static void put_number(struct vk_arguments *arguments, const char *flag, int64_t value) {
    put2(arguments, flag, cc_arena_printf(arguments->arena, "%lld", (long long)value));
}

/* Names and images come from annotations: none may turn into an option. */
static int check_word(const char *what, const char *word, struct cc_err *err) {
    if (!cc_text_is_empty(word) && word[0] != '-')
        return 0;
    return cc_err_set(err, CC_INVALID, "%s \"%s\" is empty or starts with '-'", what, cc_text_or(word, ""));
}

static void put_vnc(struct vk_arguments *arguments, int display, const char *password) {
    if (display < 0 || cc_text_is_empty(password))
        return;
    put_number(arguments, "--vnc", display);
    put2(arguments, "--vnc-password", password);
}

int vk_macos_arguments_run(struct vk_arguments *ret, const struct vk_macos_run_options *options,
                           const char *vnc_password, struct cc_err *err) {
    int rc = check_word("VM name", options->name, err);

    if (rc == 0)
        rc = check_word("image", options->image, err);
    if (rc != 0)
        return rc;
    put2(ret, "vm", "run");
    put2(ret, "--name", options->name);
    put_number(ret, "--cpus", options->cpus);
    put_number(ret, "--memory", options->memory_mib);
    put_vnc(ret, options->vnc_display, vnc_password);
    if (!cc_text_is_empty(options->storage))
        put2(ret, "--storage", options->storage);
    put2(ret, "--exit-on-reboot", "--random-smbios");
    put2(ret, "--net", "cni");
    put(ret, options->image);
    return 0;
}

int vk_macos_arguments_start(struct vk_arguments *ret, const char *name, int vnc_display, const char *vnc_password,
                             struct cc_err *err) {
    int rc = check_word("VM name", name, err);

    if (rc != 0)
        return rc;
    put2(ret, "vm", "start");
    put_vnc(ret, vnc_display, vnc_password);
    put(ret, name);
    return 0;
}

/* --- one call ----------------------------------------------------------------------------------------------------- */

struct call {
    struct cc_arena arena;
    struct vk_arguments arguments;
    const char *verb, *subject;
    struct cc_buf out, error;
    bool is_gentle; /* SIGTERM and some time before it is killed */
};

static void call_init(struct call *call, const char *verb, const char *subject) {
    *call = (struct call){.verb = verb, .subject = cc_text_or(subject, "")};
    call->arguments.arena = &call->arena;
    cc_buf_init(&call->out, VK_MACOS_RECORD_BYTES_MAX);
    cc_buf_init(&call->error, VK_CLI_ERROR_BYTES_MAX);
}

static void call_done(struct call *call) {
    cc_buf_done(&call->out);
    cc_buf_done(&call->error);
    cc_arena_done(&call->arena);
}

/* The words, without the password. */
static const char *shown_words(const struct call *call) {
    struct cc_strlist words = {0};
    struct vk_arguments shown = {.arena = call->arguments.arena};

    for (size_t i = 0; i < call->arguments.words.count; i++) {
        bool is_secret = i > 0 && cc_text_equal(call->arguments.words.items[i - 1], "--vnc-password");

        cc_strlist_add(&words, shown.arena, is_secret ? "***" : call->arguments.words.items[i]);
    }
    shown.words = words;
    return vk_arguments_text(&shown);
}

/* On failure the text is stdout followed by stderr (06 chapter 10). */
static const char *text_of(const struct call *call, struct cc_arena *arena) {
    return cc_arena_printf(arena, "%s%s", cc_text_or(call->out.data, ""), cc_text_or(call->error.data, ""));
}

/* A password that the CLI repeats must not get into a message either. */
static void hide_password(const struct vk_macos_cli *cli, struct cc_err *err) {
    size_t bytes = strlen(cli->vnc_password);
    char *at = err && bytes > 0 ? strstr(err->msg, cli->vnc_password) : NULL;

    for (; at; at = strstr(at, cli->vnc_password))
        memset(at, '*', bytes);
}

static int call_run(struct vk_macos_cli *cli, struct call *call, struct cc_err *err) {
    struct cc_process_options options = {.argv = vk_arguments_vector(&call->arguments, cli->binary),
                                         .term_grace_ms = call->is_gentle ? cli->grace_ms : 0};
    struct cc_exit exit = {0};
    int rc = 0;

    if (cli->host_options && !cli->host)
        rc = vk_host_namespaces_open(cli->host_options, &cli->host, err);
    if (cli->host) {
        options.before_exec = vk_host_namespaces_enter;
        options.before_exec_ctx = cli->host;
    }
    cc_log_debug("cocoon-macos call", CC_KV("arguments", shown_words(call)));
    if (rc == 0)
        rc = cc_process_run_with(&options, NULL, 0, &call->out, &call->error, &exit, err);
    if (rc == CC_TIMEOUT || rc == CC_CANCELED)
        return cc_err_wrap(err, "cocoon-macos %s %s", call->verb, call->subject), rc;
    if (rc != 0) {
        /* A binary that is missing says nothing about a guest. */
        cc_err_wrap(err, "cocoon-macos %s %s: run %s", call->verb, call->subject, cli->binary);
        if (err)
            err->code = CC_IO;
        return CC_IO;
    }
    if (exit.signal == 0 && exit.status == 0)
        return 0;
    struct cc_buf both cc_cleanup(cc_buf_done) = {0};

    cc_buf_init(&both, VK_MACOS_RECORD_BYTES_MAX + VK_CLI_ERROR_BYTES_MAX + 2);
    cc_buf_puts(&both, text_of(call, &call->arena));
    rc = cc_err_set(err, CC_IO, "cocoon-macos %s %s: %s (output: %s)", call->verb, call->subject,
                    vk_cli_exit_text(&exit, &call->arena), vk_cli_shown_text(&both, &call->arena));
    hide_password(cli, err);
    return rc;
}

/* "not found" and "no such" of a CLI that ran; what a missing binary gives never gets here. */
static bool says_missing(struct call *call) {
    const char *text = text_of(call, &call->arena);

    return cc_text_contains_fold(text, "not found") || cc_text_contains_fold(text, "no such");
}

static int missing_or(struct call *call, bool has_run, int rc, struct cc_err *err) {
    if (rc != CC_IO || !has_run || !says_missing(call))
        return rc;
    if (err)
        err->code = CC_NOT_FOUND;
    return CC_NOT_FOUND;
}

/* --- the port ----------------------------------------------------------------------------------------------------- */

static int macos_inspect(void *ctx, const char *name, struct cc_arena *arena, struct vk_macos_record *ret,
                         struct cc_err *err) {
    struct vk_macos_cli *cli = ctx;
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), ASK_MS);
    bool is_ours = cc_mono_is_before(end, cc_deadline());
    struct call call cc_cleanup(call_done);
    int rc = check_word("VM name", name, err);
    CC_DEADLINE_MS(ASK_MS);

    call_init(&call, "vm inspect", name);
    if (rc != 0)
        return rc;
    put2(&call.arguments, "vm", "inspect");
    put(&call.arguments, name);
    rc = call_run(cli, &call, err);
    if (rc == CC_TIMEOUT && is_ours)
        rc = cc_err_set(err, CC_IO, "cocoon-macos vm inspect %s: no answer within %d s", name, ASK_MS / 1000);
    rc = missing_or(&call, call.out.len + call.error.len > 0, rc, err);
    if (rc == 0 && call.out.overflown)
        rc = cc_err_set(err, CC_LIMIT, "cocoon-macos vm inspect %s: output is longer than %zu bytes", name,
                        VK_MACOS_RECORD_BYTES_MAX);
    if (rc == 0 && (rc = vk_macos_record_parse(call.out.data, call.out.len, arena, ret, err)) != 0)
        cc_err_wrap(err, "cocoon-macos vm inspect %s: output of %s", name, cli->binary);
    return rc;
}

static bool macos_is_alive(void *ctx, int64_t pid) {
    (void)ctx;
    return pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

static int macos_image_present(void *ctx, const char *image, bool *ret, struct cc_err *err) {
    struct call call cc_cleanup(call_done);
    int rc = check_word("image", image, err);

    call_init(&call, "image inspect", image);
    if (rc != 0)
        return rc;
    put2(&call.arguments, "image", "inspect");
    put(&call.arguments, image);
    rc = call_run(ctx, &call, err);
    *ret = rc == 0;
    /* Exit 0 is presence, any other exit is not (06 10.1); a pull of what is there changes nothing. */
    return rc == CC_IO && call.out.len + call.error.len > 0 ? 0 : rc;
}

static int macos_image_pull(void *ctx, const char *image, struct cc_err *err) {
    struct call call cc_cleanup(call_done);
    int rc = check_word("image", image, err);

    call_init(&call, "image pull", image);
    if (rc != 0)
        return rc;
    put2(&call.arguments, "image", "pull");
    put(&call.arguments, image);
    return call_run(ctx, &call, err);
}

static int macos_run(void *ctx, const struct vk_macos_run_options *options, struct cc_err *err) {
    struct vk_macos_cli *cli = ctx;
    struct call call cc_cleanup(call_done);

    call_init(&call, "vm run", options->name);
    call.is_gentle = true;
    int rc = vk_macos_arguments_run(&call.arguments, options, cli->vnc_password, err);
    return rc == 0 ? call_run(cli, &call, err) : rc;
}

static int macos_start(void *ctx, const char *name, int vnc_display, struct cc_err *err) {
    struct vk_macos_cli *cli = ctx;
    struct call call cc_cleanup(call_done);

    call_init(&call, "vm start", name);
    call.is_gentle = true;
    int rc = vk_macos_arguments_start(&call.arguments, name, vnc_display, cli->vnc_password, err);
    return rc == 0 ? call_run(cli, &call, err) : rc;
}

static int macos_remove(void *ctx, const char *name, struct cc_err *err) {
    struct call call cc_cleanup(call_done);
    int rc = check_word("VM name", name, err);

    call_init(&call, "vm rm", name);
    if (rc != 0)
        return rc;
    call.is_gentle = true;
    put2(&call.arguments, "vm", "rm");
    put(&call.arguments, name);
    rc = call_run(ctx, &call, err);
    return missing_or(&call, call.out.len + call.error.len > 0, rc, err);
}

static const struct vk_macos_ops cli_ops = {
    .inspect = macos_inspect,
    .is_alive = macos_is_alive,
    .image_present = macos_image_present,
    .image_pull = macos_image_pull,
    .run = macos_run,
    .start = macos_start,
    .remove = macos_remove,
};

struct vk_macos vk_macos_cli_port(struct vk_macos_cli *cli) {
    return (struct vk_macos){.ops = &cli_ops, .ctx = cli, .has_vnc = cli->vnc_password[0] != '\0'};
}
