#include "app.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/loop.h"
#include "aio/signal.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "base/version.h"
#include "kube/config.h"
#include "kube/http_transport.h"
#include "obs/log.h"

void kc_print_json(struct kc_app *app, const json_t *value) {
    char *text cc_cleanup(cc_free_p) = json_dumps(value, JSON_INDENT(4));

    fprintf(app->out, "%s\n", text);
}

const char *kc_error_text(const struct cc_err *err, struct cc_arena *arena) {
    char tail[24];
    const char *message = err->msg;

    if (err->status == 0 || err->reason[0] == '\0')
        return cc_arena_printf(arena, "error: %s", message);
    /* "get CocoonSet default/x: <the server's own words> (HTTP 404)" */
    const char *own = strstr(message, ": ");
    char *text = cc_arena_strdup(arena, own ? own + 2 : message);
    snprintf(tail, sizeof tail, " (HTTP %d)", err->status);
    if (cc_text_ends_with(text, tail))
        text[strlen(text) - strlen(tail)] = '\0';
    return cc_arena_printf(arena, "Error from server (%s): %s", err->reason, text);
}

int kc_run(struct kc_app *app, struct cc_err *err) {
    switch (app->arguments.command) {
    case KC_STATUS:
        return kc_status(app, err);
    case KC_SUSPEND:
        return kc_suspend(app, true, err);
    case KC_WAKE:
        return kc_suspend(app, false, err);
    case KC_MIGRATE:
        return kc_migrate(app, err);
    case KC_HIBERNATE:
        return kc_hibernate(app, err);
    case KC_SNAPSHOTS:
        return kc_snapshots(app, err);
    case KC_VERSION:
    case KC_HELP:
        break; /* need no cluster: kc_main */
    }
    return 0;
}

/* --- program ------------------------------------------------------------------------------------------------------ */

struct program {
    struct kc_app app;
    struct cc_fiber *main_fiber;
    int exit_code;
};

CC_YIELDS static int connect_and_run(struct kc_app *app, struct cc_err *err) {
    struct cc_kube_config_sources sources = {.flag = app->arguments.kubeconfig, .context = app->arguments.context};
    struct cc_kube_config *config = NULL;
    struct cc_kube_http_transport *transport = NULL;
    char *user_agent cc_cleanup(cc_free_p) = cc_user_agent_new("kubectl-cocoon");
    int rc = cc_kube_config_load(&sources, &config, err);

    if (rc == 0)
        rc = cc_kube_http_transport_new(app->loop, config, user_agent, &transport, err);
    if (rc == 0) {
        app->kube.transport = cc_kube_http_transport_port(transport);
        app->namespace = app->arguments.all_namespaces ? "" : cc_text_or(app->arguments.namespace, config->namespace);
        rc = kc_run(app, err);
    }
    cc_kube_http_transport_free(transport);
    cc_kube_config_free(config);
    return rc;
}

CC_YIELDS static void await_signals(void *arg) {
    struct program *program = (struct program *)arg;
    int number;

    if (cc_signal_wait_terminate(&number, NULL) == 0)
        cc_fiber_cancel(program->main_fiber);
}

CC_YIELDS static void main_fiber(void *arg) {
    struct program *program = (struct program *)arg;
    struct cc_err err = {0};

    program->main_fiber = cc_fiber_current();
    struct cc_fiber *signals = cc_fiber_start(program->app.loop, "signals", await_signals, program);
    int rc = connect_and_run(&program->app, &err);
    cc_fiber_cancel(signals);
    cc_fiber_join(signals);
    if (rc != 0) {
        fprintf(stderr, "%s\n", rc == CC_CANCELED ? "interrupted" : kc_error_text(&err, &program->app.arena));
        program->exit_code = rc == CC_TIMEOUT && program->app.arguments.wait ? KC_EXIT_TIMEOUT : KC_EXIT_FAILED;
    }
}

/* The library's log goes where the results do not. */
static void warn(void *ctx, enum cc_log_level level, const char *message, const struct cc_log_field *fields,
                 size_t count) {
    (void)ctx;
    (void)level;
    fprintf(stderr, "warning: %s", message);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s %s", i == 0 ? ":" : ",", cc_text_or(fields[i].value, ""));
    fputc('\n', stderr);
}

int kc_main(int argc, char **argv) {
    struct program program = {.app = {.out = stdout, .progress = stderr, .is_terminal = isatty(STDERR_FILENO)}};
    struct cc_err err = {0};

    if (kc_arguments_parse(argc, argv, &program.app.arguments, &err) != 0) {
        fprintf(stderr, "error: %s\nSee 'kubectl cocoon help' for usage.\n", err.msg);
        return KC_EXIT_USAGE;
    }
    if (program.app.arguments.command == KC_HELP) {
        fputs(kc_usage(), stdout);
        return 0;
    }
    if (program.app.arguments.command == KC_VERSION) {
        printf("kubectl-cocoon %s (commit %s, built %s)\n", cc_version(), cc_revision(), cc_build_time());
        return 0;
    }
    cc_log_set_sink(warn, NULL);
    cc_log_set_level(CC_LOG_WARN);
    cc_signal_setup();
    cc_arena_init(&program.app.arena);
    program.app.loop = cc_loop_new();
    cc_fiber_detach(cc_fiber_start(program.app.loop, "main", main_fiber, &program));
    cc_loop_run(program.app.loop);
    cc_loop_free(program.app.loop);
    cc_work_shutdown();
    cc_arena_done(&program.app.arena);
    return program.exit_code;
}
