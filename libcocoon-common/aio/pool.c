/* cc_work: the process-wide worker pool. Jobs live on the stacks of the fibers that await them. The pool itself is the
 * one global that a process-wide thread pool needs; it is touched under its mutex only. */
#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "aio/aio_internal.h"
#include "aio/io.h"
#include "base/alloc.h"
#include "base/assert.h"

#define WORKERS_MAX 4
#define WORKER_STACK_BYTES ((size_t)1024 * 1024)

struct job {
    cc_work_fn fn;
    void *arg;
    int rc;
    struct cc_err error;
    struct cc_wait wait;
    struct cc_work_port *port;
    struct job *next;
};

/* Where workers hand finished jobs back to a loop. */
struct cc_work_port {
    struct ev_loop *ev;
    ev_async finished_signal;
    size_t outstanding; /* loop thread only */
    struct job *finished;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job *first, **last;
    pthread_t threads[WORKERS_MAX];
    size_t thread_count, idle, queued;
    bool stop;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .last = &pool.first};

/* With the lock held, since the loop may free the port once it has seen its last job. */
static void hand_back(struct job *job) {
    struct cc_work_port *port = job->port;
    job->next = port->finished;
    port->finished = job;
    ev_async_send(port->ev, &port->finished_signal);
}

static void *worker_main(void *arg CC_UNUSED) {
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (!pool.first && !pool.stop) {
            pool.idle++;
            pthread_cond_wait(&pool.work, &pool.lock);
            pool.idle--;
        }
        struct job *job = pool.first;
        if (!job)
            break;
        pool.first = job->next;
        pool.queued--;
        if (!pool.first)
            pool.last = &pool.first;
        pthread_mutex_unlock(&pool.lock);
        job->rc = job->fn(job->arg, &job->error);
        pthread_mutex_lock(&pool.lock);
        hand_back(job);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static size_t workers_wanted(void) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus < 1 ? 1 : cpus > WORKERS_MAX ? WORKERS_MAX : (size_t)cpus;
}

/* With the lock held. Signals stay with the loop's thread: the new one inherits a full mask. */
static void start_worker(void) {
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&pool.threads[pool.thread_count], &attributes, worker_main, NULL) == 0)
        pool.thread_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

/* False when there is no thread to run it. */
static bool submit(struct job *job) {
    pthread_mutex_lock(&pool.lock);
    cc_assert(!pool.stop);
    /* An idle thread that was signalled for an earlier job may not have run yet. */
    if (pool.idle <= pool.queued && pool.thread_count < workers_wanted())
        start_worker();
    bool accepted = pool.thread_count > 0;
    if (accepted) {
        *pool.last = job;
        pool.last = &job->next;
        pool.queued++;
        pthread_cond_signal(&pool.work);
    }
    pthread_mutex_unlock(&pool.lock);
    return accepted;
}

static void jobs_finished(struct ev_loop *ev, ev_async *watcher, int events CC_UNUSED) {
    struct cc_work_port *port = cc_container_of(watcher, struct cc_work_port, finished_signal);
    pthread_mutex_lock(&pool.lock);
    struct job *job = port->finished;
    port->finished = NULL;
    pthread_mutex_unlock(&pool.lock);
    while (job) {
        struct job *next = job->next;
        cc_wake(&job->wait, "worker pool");
        job = next;
        /* Stopped while idle, so that the loop can tell a deadlock from waiting for a worker. */
        if (--port->outstanding == 0)
            ev_async_stop(ev, watcher);
    }
}

static struct cc_work_port *work_port(struct cc_loop *loop) {
    if (!loop->work) {
        loop->work = CC_NEW(struct cc_work_port);
        loop->work->ev = loop->ev;
        ev_async_init(&loop->work->finished_signal, jobs_finished);
    }
    return loop->work;
}

void cc_work_port_free(struct cc_work_port *port) {
    cc_assert(!port || port->outstanding == 0);
    free(port);
}

int cc_work(cc_work_fn fn, void *arg, struct cc_err *err) {
    int rc = cc_fiber_check("a worker", err);
    if (rc != 0)
        return rc;
    struct cc_loop *loop = cc_loop_current();
    if (!loop->ev)
        return fn(arg, err);
    struct cc_work_port *port = work_port(loop);
    struct job job = {.fn = fn, .arg = arg, .port = port};
    if (port->outstanding++ == 0)
        ev_async_start(loop->ev, &port->finished_signal);
    if (!submit(&job)) {
        if (--port->outstanding == 0)
            ev_async_stop(loop->ev, &port->finished_signal);
        return fn(arg, err);
    }
    /* The worker writes into this frame and into what arg borrows: nothing may end this wait early. */
    struct cc_scope scope;
    cc_scope_open_at(&scope, CC_MONO_NEVER, true);
    cc_assert(cc_await(&job.wait, "a worker", NULL) == 0);
    cc_scope_close(&scope);
    if (job.rc != 0 && err)
        *err = job.error;
    return job.rc;
}

void cc_work_shutdown(void) {
    pthread_mutex_lock(&pool.lock);
    cc_assert(!pool.first);
    pool.stop = true;
    pthread_cond_broadcast(&pool.work);
    size_t count = pool.thread_count;
    pthread_mutex_unlock(&pool.lock);
    for (size_t i = 0; i < count; i++)
        pthread_join(pool.threads[i], NULL);
    pool.thread_count = 0;
    pool.stop = false;
}
