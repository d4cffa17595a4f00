#include "kubelet/exec.h"

#include <signal.h>
#include <string.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "aio/sync.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"
#include "kubelet/respond.h"
#include "kubelet/session.h"
#include "kubelet/spdy_link.h"
#include "obs/log.h"
#include "runtime/cocoon_cli.h"

struct exec_job {
    const struct vk_kubelet_host *host;
    const struct vk_session_target *target;
    struct vk_session_wants wants;
    struct vk_session *session;
    struct cc_process *process;
    bool is_stopping; /* the agent */
    struct cc_arena arena;
    const char **argv;
    size_t argc;
};

/* --- the command ----------------------------------------------------------------------------------------------------
 */

/* Pairs of the raw query with that key, decodable or not. */
static size_t count_raw(const char *query, const char *key) {
    size_t count = 0, length = strlen(key);
    for (const char *at = query; *at; at += strspn(at, "&")) {
        size_t pair = strcspn(at, "&");
        count += pair >= length && strncmp(at, key, length) == 0 && (pair == length || at[length] == '=');
        at += pair;
    }
    return count;
}

/* False with the response filled. A word that cannot be decoded must not make another command of the rest (F22). */
static bool read_command(struct exec_job *job, const struct cc_http_server_request *request,
                         struct cc_http_server_response *response) {
    size_t wanted = count_raw(cc_text_or(request->query, ""), "command");
    if (wanted == 0 || wanted > VK_EXEC_WORDS_MAX) {
        vk_respond_format(response, 400, "a command of 1 to %d words is needed", VK_EXEC_WORDS_MAX);
        return false;
    }
    job->argv = CC_ARENA_ARRAY(&job->arena, const char *, wanted + 1);
    for (; job->argc < wanted; job->argc++) {
        char *word cc_cleanup(cc_free_p) = cc_http_server_query_at(request, "command", job->argc);
        if (!word) {
            vk_respond_text(response, 400, "the command is not encoded as a query must be");
            return false;
        }
        job->argv[job->argc] = cc_arena_strdup(&job->arena, word);
    }
    return true;
}

static void audit(const struct exec_job *job, const struct cc_http_server_request *request) {
    json_t *words cc_cleanup(cc_json_decref_p) = json_array();
    for (size_t i = 0; i < job->argc; i++) {
        char *word cc_cleanup(cc_free_p) = cc_utf8_publishable(job->argv[i], VK_EXEC_AUDIT_BYTES);
        cc_json_append_new(words, json_string(word));
    }
    char *command cc_cleanup(cc_free_p) = cc_json_dump(words);
    command[cc_utf8_cut(command, strlen(command), VK_EXEC_AUDIT_BYTES)] = '\0';
    const struct vk_session_target *target = job->target;
    char *pod cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", target->namespace, target->pod);
    cc_log_info("exec session", CC_KV("user", target->user), CC_KV("pod", pod), CC_KV("container", target->container),
                CC_KV("command", command), CC_KV("peer", request->peer),
                CC_KV("transport", vk_session_transport(job->session)),
                CC_KV("protocol", vk_session_protocol(job->session)));
}

/* --- streams --------------------------------------------------------------------------------------------------------
 */

static int pump(struct exec_job *job, int fd, enum vk_channel channel, struct cc_err *err) {
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    for (;;) {
        size_t count = 0;
        int rc = cc_io_read(fd, bytes, VK_LINK_READ_BYTES, &count, err);
        if (rc != 0 || count == 0)
            return rc;
        rc = vk_session_send(job->session, channel, bytes, count, err);
        if (rc != 0) {
            vk_session_tell_gone(job->session);
            return rc;
        }
    }
}

static int pump_out(void *job, struct cc_err *err) {
    return pump(job, cc_process_out(((struct exec_job *)job)->process), VK_STDOUT, err);
}

static int pump_error(void *job, struct cc_err *err) {
    return pump(job, cc_process_error(((struct exec_job *)job)->process), VK_STDERR, err);
}

static void pump_in(void *arg) {
    struct exec_job *job = arg;
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    size_t count = 0;
    bool is_taken = true;
    int rc;
    while ((rc = vk_session_read(job->session, bytes, VK_LINK_READ_BYTES, &count, NULL)) == 0 && count > 0) {
        /* A command that has closed its input may go on; the client's input then ends here. */
        is_taken = is_taken && cc_io_write_all(cc_process_in(job->process), bytes, count, NULL) == 0;
        if (!is_taken && !cc_fiber_is_canceled())
            cc_process_close_in(job->process);
    }
    if (rc == 0)
        cc_process_close_in(job->process);
}

/* Until the outputs have ended and the child was reaped. */
static int stream(struct exec_job *job, int *ret_exit_code, struct cc_err *err) {
    struct cc_fiber *input =
        job->wants.channels[VK_STDIN] ? cc_fiber_start(cc_loop_current(), "exec stdin", pump_in, job) : NULL;
    struct cc_group outputs;
    struct cc_exit result = {0};
    cc_group_init(&outputs, 0);
    cc_ignore(cc_group_go(&outputs, "exec stdout", pump_out, job, NULL), "the error comes with cc_group_wait");
    cc_ignore(cc_group_go(&outputs, "exec stderr", pump_error, job, NULL), "the error comes with cc_group_wait");
    int rc = cc_group_wait(&outputs, err);
    if (rc == 0)
        rc = cc_process_wait(job->process, &result, err);
    /* Before its input ends: a command must not take a broken session for the end of what it was to read. */
    if (rc != 0)
        cc_process_kill(job->process, SIGKILL);
    cc_fiber_join_p(&input);
    if (rc == 0)
        *ret_exit_code = vk_exec_code_of(&result);
    return rc;
}

/* --- the session ----------------------------------------------------------------------------------------------------
 */

static int run_command(struct exec_job *job, int *ret_exit_code, struct cc_err *err) {
    const struct vk_session_target *target = job->target;
    const struct vk_vm *vm = job->host->ops->vm(job->host->ctx, target->namespace, target->pod);
    if (!vm)
        return cc_err_set(err, CC_NOT_FOUND, "pod %s/%s has no live VM", target->namespace, target->pod);
    if (vk_vm_is_macos(vm)) {
        vk_vm_unref(vm);
        return cc_err_set(err, CC_UNSUPPORTED,
                          "a macOS guest has no agent of cocoon: forward a port to its SSH server");
    }
    struct vk_exec_options options = {.vm_id = vm->id, .argv = job->argv, .argc = job->argc};
    int rc = job->host->ops->exec_start(job->host->ctx, &options, job->wants.channels[VK_STDIN], &job->process, err);
    vk_vm_unref(vm);
    if (rc == 0 && job->is_stopping)
        cc_process_kill(job->process, SIGKILL);
    if (rc == 0)
        rc = stream(job, ret_exit_code, err);
    cc_process_free(job->process);
    job->process = NULL;
    return rc;
}

static void finish(struct exec_job *job, int exit_code, const char *failure) {
    /* Nobody is left to be told when this fails. */
    if (!job->is_stopping) {
        cc_ignore(vk_session_finish(job->session, exit_code, failure, NULL), "the client has gone");
        return;
    }
    CC_SHIELD_MS(VK_SESSION_GOODBYE_MS);
    cc_ignore(vk_session_finish(job->session, exit_code, failure, NULL), "the client has gone");
}

static void work(void *arg) {
    struct exec_job *job = arg;
    struct cc_err err = {0};
    int exit_code = -1;
    if (vk_session_wait_ready(job->session, NULL) != 0)
        return; /* the client never opened its streams: it is closed */
    int rc = run_command(job, &exit_code, &err);
    if (vk_session_is_gone(job->session) || (cc_fiber_is_canceled() && !job->is_stopping))
        return;
    char *failure cc_cleanup(cc_free_p) = cc_xasprintf("error executing command in container: %s",
                                                       job->is_stopping ? "the node agent is stopping" : err.msg);
    finish(job, rc == 0 && !job->is_stopping ? exit_code : -1, failure);
}

static void stop(void *arg) {
    struct exec_job *job = arg;
    job->is_stopping = true;
    if (job->process)
        cc_process_kill(job->process, SIGKILL);
}

void vk_exec_serve(const struct vk_kubelet_host *host, const struct vk_session_target *target,
                   const struct cc_http_server_request *request, struct cc_http_server_response *response) {
    struct exec_job job = {.host = host, .target = target};
    if (vk_session_wants_of(request, response, &job.wants) && read_command(&job, request, response))
        job.session = vk_session_open(request, response, &job.wants);
    if (job.session) {
        audit(&job, request);
        vk_session_serve(job.session, work, stop, &job);
    }
    vk_session_free(job.session);
    cc_arena_done(&job.arena);
}
