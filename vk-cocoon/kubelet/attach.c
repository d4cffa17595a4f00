#include "kubelet/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "kubelet/session.h"
#include "kubelet/spdy_link.h"
#include "obs/log.h"

struct attach_job {
    const struct vk_kubelet_host *host;
    const struct vk_session_target *target;
    const char *root_directory;
    struct vk_session_wants wants;
    struct vk_session *session;
    int fd;           /* the console */
    bool is_stopping; /* the agent */
};

/* --- the console ----------------------------------------------------------------------------------------------------
 */

/* The VM's folder, whose path may be longer than a socket's address may be. */
static int open_folder(const struct attach_job *job, int *ret, struct cc_err *err) {
    const struct vk_session_target *target = job->target;
    const struct vk_vm *vm = job->host->ops->vm(job->host->ctx, target->namespace, target->pod);
    if (!vm)
        return cc_err_set(err, CC_NOT_FOUND, "pod %s/%s has no live VM", target->namespace, target->pod);
    char *path cc_cleanup(cc_free_p) = cc_xasprintf("%s/run/cloudhypervisor/%s", job->root_directory, vm->id);
    vk_vm_unref(vm);
    *ret = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*ret >= 0)
        return 0;
    return errno == ENOENT ? cc_err_set(err, CC_NOT_FOUND, "the VM has no console")
                           : cc_err_errno(err, errno, "%s", path);
}

static int connect_console(const struct attach_job *job, const struct sockaddr_un *address, struct cc_err *err) {
    CC_DEADLINE_MS(VK_ATTACH_CONNECT_MS);
    for (;;) {
        if (connect(job->fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return 0;
        if (errno == ENOENT)
            return cc_err_set(err, CC_NOT_FOUND, "the VM has no console");
        if (errno != EAGAIN)
            return cc_err_errno(err, errno, "the guest's console");
        int rc = cc_sleep_ms(100, err); /* the listener's queue is full */
        if (rc != 0)
            return rc;
    }
}

static int open_console(struct attach_job *job, struct cc_err *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int folder cc_cleanup(cc_fd_close_p) = -1;
    int rc = open_folder(job, &folder, err);
    if (rc != 0)
        return rc;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/console.sock", folder);
    job->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return job->fd < 0 ? cc_err_errno(err, errno, "socket") : connect_console(job, &address, err);
}

static void write_console(void *arg) {
    struct attach_job *job = arg;
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    size_t count = 0;
    bool is_taken = true;
    /* A console that takes nothing more may still say something. */
    while (vk_session_read(job->session, bytes, VK_LINK_READ_BYTES, &count, NULL) == 0 && count > 0)
        is_taken = is_taken && cc_io_write_all(job->fd, bytes, count, NULL) == 0;
}

static int read_console(struct attach_job *job, struct cc_err *err) {
    char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(VK_LINK_READ_BYTES);
    for (;;) {
        size_t count = 0;
        int rc = cc_io_read(job->fd, bytes, VK_LINK_READ_BYTES, &count, err);
        if (rc != 0 || count == 0)
            return rc;
        rc = vk_session_send(job->session, VK_STDOUT, bytes, count, err);
        if (rc != 0) {
            vk_session_tell_gone(job->session);
            return rc;
        }
    }
}

static int copy(struct attach_job *job, struct cc_err *err) {
    struct cc_fiber *input =
        job->wants.channels[VK_STDIN] ? cc_fiber_start(cc_loop_current(), "attach stdin", write_console, job) : NULL;
    int rc = read_console(job, err);
    cc_fiber_join_p(&input);
    return rc;
}

/* --- the session ----------------------------------------------------------------------------------------------------
 */

static void finish(struct attach_job *job, int exit_code, const char *failure) {
    /* Nobody is left to be told when this fails. */
    if (!job->is_stopping) {
        cc_ignore(vk_session_finish(job->session, exit_code, failure, NULL), "the client has gone");
        return;
    }
    CC_SHIELD_MS(VK_SESSION_GOODBYE_MS);
    cc_ignore(vk_session_finish(job->session, exit_code, failure, NULL), "the client has gone");
}

static void work(void *arg) {
    struct attach_job *job = arg;
    struct cc_err err = {0};
    if (vk_session_wait_ready(job->session, NULL) != 0)
        return; /* the client never opened its streams: it is closed */
    int rc = open_console(job, &err);
    if (rc == 0)
        rc = copy(job, &err);
    if (vk_session_is_gone(job->session) || (cc_fiber_is_canceled() && !job->is_stopping))
        return;
    char *failure cc_cleanup(cc_free_p) =
        cc_xasprintf("error attaching to container: %s", job->is_stopping ? "the node agent is stopping" : err.msg);
    finish(job, rc == 0 && !job->is_stopping ? 0 : -1, failure);
}

static void stop(void *arg) {
    struct attach_job *job = arg;
    job->is_stopping = true;
    if (job->fd >= 0)
        shutdown(job->fd, SHUT_RDWR);
}

static void audit(const struct attach_job *job, const struct cc_http_server_request *request) {
    const struct vk_session_target *target = job->target;
    char *pod cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", target->namespace, target->pod);
    cc_log_info("attach session", CC_KV("user", target->user), CC_KV("pod", pod), CC_KV("container", target->container),
                CC_KV("peer", request->peer), CC_KV("transport", vk_session_transport(job->session)),
                CC_KV("protocol", vk_session_protocol(job->session)));
}

void vk_attach_serve(const struct vk_kubelet_host *host, const char *root_directory,
                     const struct vk_session_target *target, const struct cc_http_server_request *request,
                     struct cc_http_server_response *response) {
    struct attach_job job = {.host = host, .target = target, .root_directory = root_directory, .fd = -1};
    if (vk_session_wants_of(request, response, &job.wants))
        job.session = vk_session_open(request, response, &job.wants);
    if (job.session) {
        audit(&job, request);
        vk_session_serve(job.session, work, stop, &job);
    }
    vk_session_free(job.session);
    cc_fd_close(job.fd);
}
