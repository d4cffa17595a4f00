/* The kube port of one daemon: faults of a request, and the lag and end of its watches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "sim.h"

#define BODY_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define LAG_DISASTER_MS 20000
#define HELD_POLL_MS 50

/* An answer that goes to the daemon: of the server, or made up here. */
struct sim_stream {
    struct sim_daemon *daemon;
    void *inner; /* NULL = the text */
    char *text;
    size_t bytes, at;
    bool is_watch, is_cut;
    char path[96]; /* of a watch */
};

static struct cc_kube_transport server_of(const struct sim_daemon *daemon) {
    return fake_kube_transport(daemon->world->api);
}

static bool is_write(const char *method) {
    return strcmp(method, "GET") != 0;
}

static bool is_watch(const struct cc_kube_exchange *exchange) {
    return !is_write(exchange->method) && strstr(exchange->path, "watch=1");
}

static struct sim_stream *new_stream(struct sim_daemon *daemon) {
    struct sim_stream *stream = CC_NEW(struct sim_stream);
    stream->daemon = daemon;
    return stream;
}

/* --- made-up answers ---------------------------------------------------------------------------------------------- */

static void answer_status(struct sim_daemon *daemon, int status, const char *reason, int64_t retry_after_ms,
                          struct cc_kube_answer *ret) {
    struct sim_stream *stream = new_stream(daemon);
    stream->text = cc_xasprintf("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                                "\"message\":\"injected\",\"reason\":\"%s\",\"code\":%d}\n",
                                reason, status);
    stream->bytes = strlen(stream->text);
    *ret = (struct cc_kube_answer){.status = status, .retry_after_ms = retry_after_ms, .stream = stream};
}

/* How a refused request looks to the daemon. */
static int refuse(const struct sim_passage *passage, struct cc_kube_answer *ret, struct cc_err *err) {
    struct sim_daemon *daemon = passage->daemon;
    struct sim_world *world = daemon->world;

    switch ((int)passage->fault) {
    case SIM_KUBE_LOST_BEFORE:
        return cc_err_set(err, CC_OUTCOME_UNKNOWN, "connection reset by peer");
    case SIM_KUBE_CONFLICT:
        answer_status(daemon, 409, "Conflict", 0, ret);
        return 0;
    case SIM_KUBE_INVALID:
        answer_status(daemon, 422, "Invalid", 0, ret);
        return 0;
    case SIM_KUBE_THROTTLED:
        answer_status(daemon, 429, "TooManyRequests", sim_random_between(&world->faults_random, 1, 3) * 1000, ret);
        return 0;
    case SIM_KUBE_BROKEN:
        if (sim_random_below(&world->faults_random, 2) == 0)
            answer_status(daemon, 500, "InternalError", 0, ret);
        else
            answer_status(daemon, 503, "ServiceUnavailable", 0, ret);
        return 0;
    default:
        return cc_err_set(err, CC_UNAVAILABLE, "connection refused");
    }
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void look_at_write(struct sim_daemon *daemon, const struct cc_kube_exchange *exchange) {
    json_t *body cc_cleanup(cc_json_decref_p) = NULL;
    bool matters = strstr(exchange->path, "/pods") || strstr(exchange->path, "/cocoonsets");
    if (exchange->body && matters) {
        cc_ignore(cc_json_parse(exchange->body, exchange->body_bytes, BODY_BYTES_MAX, &body, NULL),
                  "the server refuses it");
        fake_kube_lend_body(daemon->world->api, body);
    }
    sim_check_kube_write(daemon, exchange->method, exchange->path, body);
}

/* The request is done; what was wished for its answer happens now. */
static int give_answer(struct sim_passage *passage, const struct cc_kube_answer *answer, const char *watched,
                       struct cc_kube_answer *ret, struct cc_err *err) {
    struct sim_daemon *daemon = passage->daemon;
    struct cc_kube_transport server = server_of(daemon);
    int rc = sim_port_leave(passage, 0, err);

    if (rc == 0 && passage->way == SIM_WAY_LOST && passage->fault != SIM_KUBE_CUT_BODY)
        rc = cc_err_set(err, passage->writes ? CC_OUTCOME_UNKNOWN : CC_UNAVAILABLE, "connection lost");
    if (rc != 0) {
        server.ops->close(server.ctx, answer->stream);
        return rc;
    }
    struct sim_stream *stream = new_stream(daemon);
    stream->inner = answer->stream;
    stream->is_watch = watched != NULL;
    snprintf(stream->path, sizeof stream->path, "%s", watched ? watched : "");
    stream->is_cut = passage->fault == SIM_KUBE_CUT_BODY;
    *ret = *answer;
    ret->stream = stream;
    return 0;
}

static int port_open(void *ctx, const struct cc_kube_exchange *exchange, struct cc_kube_answer *ret,
                     struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct cc_kube_transport server = server_of(daemon);
    struct cc_kube_answer answer;
    struct sim_passage passage;
    bool writes = is_write(exchange->method);
    char what[160];

    snprintf(what, sizeof what, "%s %.120s%s", exchange->method, exchange->path, is_watch(exchange) ? " (watch)" : "");
    int rc = sim_port_enter(daemon, SIM_PORT_KUBE, writes, what, &passage, err);
    if (rc != 0)
        return rc;
    if (passage.way == SIM_WAY_REFUSED)
        return refuse(&passage, ret, err);
    if (writes)
        look_at_write(daemon, exchange);
    rc = server.ops->open(server.ctx, exchange, &answer, err);
    if (rc != 0)
        return daemon->is_dead ? sim_port_canceled(err) : rc;
    if (writes && answer.status >= 400)
        sim_trace(daemon->world, daemon->name, "  %s: status %d", what, answer.status);
    return give_answer(&passage, &answer, is_watch(exchange) ? exchange->path : NULL, ret, err);
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

/* What was read waits: until then the daemon sees an older world. */
static int lag(struct sim_stream *stream, struct cc_err *err) {
    struct sim_daemon *daemon = stream->daemon;
    struct sim_world *world = daemon->world;
    int64_t ms = world->lag_max_ms > 0 ? sim_random_between(&world->latency_random, 0, world->lag_max_ms) : 0;

    if (sim_fault_hits(world, SIM_WATCH_LAG, false))
        ms = sim_random_between(&world->faults_random, 100, LAG_DISASTER_MS);
    int rc = ms > 0 ? cc_sleep_ms(ms, err) : 0;
    while (rc == 0 && !daemon->is_dead && daemon->held && strstr(stream->path, daemon->held))
        rc = cc_sleep_ms(HELD_POLL_MS, err);
    if (rc == 0 && daemon->is_dead)
        rc = sim_port_canceled(err);
    if (rc == 0 && (daemon->is_cut_off || sim_fault_hits(world, SIM_WATCH_CUT, false)))
        rc = cc_err_set(err, CC_UNAVAILABLE, "connection reset by peer");
    return rc;
}

static int read_text(struct sim_stream *stream, void *bytes, size_t capacity, size_t *ret_count) {
    size_t left = stream->bytes - stream->at;
    *ret_count = left < capacity ? left : capacity;
    memcpy(bytes, stream->text + stream->at, *ret_count);
    stream->at += *ret_count;
    return 0;
}

static int port_read(void *ctx, void *opaque, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct sim_daemon *daemon = ctx;
    struct sim_stream *stream = opaque;
    struct cc_kube_transport server = server_of(daemon);

    if (daemon->is_dead)
        return sim_port_canceled(err);
    if (!stream->inner)
        return read_text(stream, bytes, capacity, ret_count);
    if (stream->is_cut)
        return cc_err_set(err, CC_PROTOCOL, "the body ends early");
    int rc = server.ops->read(server.ctx, stream->inner, bytes, capacity, ret_count, err);
    if (rc == 0 && stream->is_watch && *ret_count > 0)
        rc = lag(stream, err);
    return rc;
}

static void port_close(void *ctx, void *opaque) {
    struct sim_daemon *daemon = ctx;
    struct sim_stream *stream = opaque;
    struct cc_kube_transport server = server_of(daemon);

    if (stream->inner)
        server.ops->close(server.ctx, stream->inner);
    free(stream->text);
    free(stream);
}

void sim_kube_port(struct sim_daemon *daemon) {
    static const struct cc_kube_transport_ops ops = {port_open, port_read, port_close};
    daemon->kube = (struct cc_kube){.transport = {&ops, daemon}};
}
