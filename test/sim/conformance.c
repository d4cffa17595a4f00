/* One run of the conformance operations: requests, watches, records. */
#include "conformance.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/loop.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/config.h"
#include "kube/http_transport.h"
#include "sim.h"
#include "support/fake_kube_internal.h"
#include "support/fiber_test.h"

#define ANSWER_BYTES_MAX ((size_t)64 << 20)
#define REQUEST_MS 20000
#define QUIET_MS 600    /* nothing for so long: the watch has told all */
#define AWAIT_MS 20000  /* for what controllers do */
#define BOOKMARK_MS 500 /* of the simulated server */
#define AWAIT_STEP_MS 100
#define FIRST_VERSION 1000 /* so that no small number is taken for one */

struct conf_watch {
    struct conf_run *run;
    char *name, *what, *path;
    json_t *frames;
    int status;
    struct cc_mono last; /* frame that was no bookmark */
    struct cc_fiber *fiber;
    struct conf_watch *next;
};

/* --- texts ----------------------------------------------------------------------------------------------------------
 */

static char *double_quoted(char *take_text) {
    for (char *at = take_text; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return take_text;
}

static json_t *parse_json(const char *text) {
    json_t *json = NULL;
    struct cc_err err = {0};

    if (cc_json_parse(text, strlen(text), ANSWER_BYTES_MAX, &json, &err) != 0) {
        fprintf(stderr, "conformance: %s in %s\n", err.msg, text);
        exit(2);
    }
    return json;
}

json_t *conf_json(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text cc_cleanup(cc_free_p) = double_quoted(cc_xvasprintf(format, arguments));
    va_end(arguments);

    return parse_json(text);
}

static const struct {
    const char *plural, *prefix;
    bool namespaced;
} kinds[] = {
    {"pods", "/api/v1", true},
    {"events", "/api/v1", true},
    {"configmaps", "/api/v1", true},
    {"nodes", "/api/v1", false},
    {"leases", "/apis/coordination.k8s.io/v1", true},
    {"cocoonsets", "/apis/cocoonset.cocoonstack.io/v1", true},
    {"cocoonhibernations", "/apis/cocoonset.cocoonstack.io/v1", true},
};

static char *path_of(const char *target) {
    size_t length = strcspn(target, "/?");

    if (*target == '/')
        return cc_xstrdup(target);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(kinds); i++)
        if (strlen(kinds[i].plural) == length && strncmp(kinds[i].plural, target, length) == 0)
            return kinds[i].namespaced ? cc_xasprintf("%s/namespaces/%s/%s", kinds[i].prefix, CONF_NAMESPACE, target)
                                       : cc_xasprintf("%s/%s", kinds[i].prefix, target);
    fprintf(stderr, "conformance: no kind for %s\n", target);
    exit(2);
}

/* "pods/name" of "pods/name/status?x"; NULL for a whole collection. */
static char *key_of(const char *target, const json_t *answer) {
    size_t length = strcspn(target, "/?");
    const char *name = cc_json_text(cc_json_member(answer, "metadata"), "name");

    return name ? cc_xasprintf("%.*s/%s", (int)length, target, name) : NULL;
}

const char *conf_meta(const struct conf_run *run, const char *target, const char *key) {
    return cc_text_or(cc_json_text(cc_json_member(cc_json_member(run->latest, target), "metadata"), key), "");
}

/* --- requests -------------------------------------------------------------------------------------------------------
 */

CC_YIELDS static int read_all(struct conf_run *run, void *stream, struct cc_buf *into, struct cc_err *err) {
    for (;;) {
        size_t count = 0;
        char *room = cc_buf_reserve(into, 65536);
        if (!room)
            return cc_err_set(err, CC_LIMIT, "answer beyond %zu bytes", ANSWER_BYTES_MAX);
        int rc = run->transport.ops->read(run->transport.ctx, stream, room, 65536, &count, err);
        if (rc != 0 || count == 0)
            return rc;
        cc_buf_commit(into, count);
    }
}

/* Status, 0 when there was no answer; the body as a new reference. */
CC_YIELDS static int send_request(struct conf_run *run, const struct cc_kube_exchange *exchange, json_t **ret) {
    struct cc_kube_answer answer = {0};
    struct cc_err err = {0};
    struct cc_buf bytes;
    CC_DEADLINE_MS(REQUEST_MS);

    *ret = NULL;
    if (run->transport.ops->open(run->transport.ctx, exchange, &answer, &err) != 0) {
        fprintf(stderr, "conformance: %s %s: %s\n", exchange->method, exchange->path, err.msg);
        return 0;
    }
    cc_buf_init(&bytes, ANSWER_BYTES_MAX);
    if (read_all(run, answer.stream, &bytes, &err) == 0 && bytes.len > 0 &&
        cc_json_parse(bytes.data, bytes.len, ANSWER_BYTES_MAX, ret, &err) != 0)
        *ret = json_stringn_nocheck(bytes.data, bytes.len);
    cc_buf_done(&bytes);
    run->transport.ops->close(run->transport.ctx, answer.stream);
    return answer.status;
}

static void record(struct conf_run *run, char *take_what, int status, json_t *take_body) {
    if (run->count == run->capacity) {
        run->capacity = run->capacity ? 2 * run->capacity : 256;
        run->records = cc_xrealloc(run->records, run->capacity * sizeof *run->records);
    }
    run->records[run->count++] = (struct conf_record){take_what, status, take_body};
}

static void remember(struct conf_run *run, const char *target, json_t *answer, int status) {
    char *key cc_cleanup(cc_free_p) = status < 300 ? key_of(target, answer) : NULL;

    if (key)
        json_object_set(run->latest, key, answer);
}

const json_t *conf_raw(struct conf_run *run, const char *method, const char *target, const char *content_type,
                       const char *body) {
    char *path cc_cleanup(cc_free_p) = path_of(target);
    struct cc_kube_exchange exchange = {.method = method,
                                        .path = path,
                                        .content_type = content_type,
                                        .body = body,
                                        .body_bytes = body ? strlen(body) : 0};
    json_t *answer;
    int status = send_request(run, &exchange, &answer);

    remember(run, target, answer, status);
    record(run, cc_xasprintf("%s %s %.300s", method, target, cc_text_or(body, "")), status, answer);
    return answer;
}

__attribute__((format(printf, 5, 0))) static const json_t *send_format(struct conf_run *run, const char *method,
                                                                       const char *target, const char *content_type,
                                                                       const char *format, va_list arguments) {
    char *body cc_cleanup(cc_free_p) = double_quoted(cc_xvasprintf(format, arguments));

    return conf_raw(run, method, target, content_type, body);
}

#define SEND(method, content_type)                                                                                     \
    va_list arguments;                                                                                                 \
    va_start(arguments, format);                                                                                       \
    const json_t *answer = send_format(run, method, target, content_type, format, arguments);                          \
    va_end(arguments);                                                                                                 \
    return answer

const json_t *conf_get(struct conf_run *run, const char *target) {
    return conf_raw(run, "GET", target, NULL, NULL);
}

const json_t *conf_post(struct conf_run *run, const char *target, const char *format, ...) {
    SEND("POST", "application/json");
}

const json_t *conf_merge(struct conf_run *run, const char *target, const char *format, ...) {
    SEND("PATCH", "application/merge-patch+json");
}

const json_t *conf_strategic(struct conf_run *run, const char *target, const char *format, ...) {
    SEND("PATCH", "application/strategic-merge-patch+json");
}

const json_t *conf_delete(struct conf_run *run, const char *target) {
    return conf_raw(run, "DELETE", target, NULL, NULL);
}

const json_t *conf_delete_with(struct conf_run *run, const char *target, const char *format, ...) {
    SEND("DELETE", "application/json");
}

const json_t *conf_put(struct conf_run *run, const char *target, const json_t *body) {
    json_t *copy cc_cleanup(cc_json_decref_p) = json_deep_copy(body);

    /* The real server writes whenever those change, and only it has them. */
    json_object_del(json_object_get(copy, "metadata"), "managedFields");
    char *text cc_cleanup(cc_free_p) = cc_json_dump(copy);
    return conf_raw(run, "PUT", target, "application/json", text);
}

/* --- waiting for controllers ----------------------------------------------------------------------------------------
 */

static const json_t *member_at(const json_t *object, const char *path) {
    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(path);
    char *member = copy;

    for (char *slash; (slash = strchr(member, '/')); member = slash + 1) {
        *slash = '\0';
        object = cc_json_member(object, member);
    }
    return cc_json_member(object, member);
}

CC_YIELDS static void await(struct conf_run *run, const char *target, const char *path) {
    char *url cc_cleanup(cc_free_p) = path_of(target);
    struct cc_kube_exchange exchange = {.method = "GET", .path = url};
    json_t *answer = NULL;
    int status = 0;

    for (int waited_ms = 0; waited_ms < AWAIT_MS; waited_ms += AWAIT_STEP_MS) {
        json_decref(answer);
        status = send_request(run, &exchange, &answer);
        if (path ? member_at(answer, path) != NULL : status == 404)
            break;
        if (cc_sleep_ms(AWAIT_STEP_MS, NULL) != 0)
            break;
    }
    remember(run, target, answer, status);
    record(run, cc_xasprintf("AWAIT %s %s", target, path ? path : "absent"), status, answer);
}

void conf_await_absent(struct conf_run *run, const char *target) {
    await(run, target, NULL);
}

void conf_await_member(struct conf_run *run, const char *target, const char *path) {
    await(run, target, path);
}

/* --- watches --------------------------------------------------------------------------------------------------------
 */

static void take_frames(struct conf_watch *watch, struct cc_buf *bytes) {
    const char *end;

    while (bytes->len > 0 && (end = memchr(bytes->data, '\n', bytes->len))) {
        size_t length = (size_t)(end - bytes->data);
        json_t *frame = NULL;

        if (cc_json_parse(bytes->data, length, ANSWER_BYTES_MAX, &frame, NULL) != 0)
            frame = json_stringn_nocheck(bytes->data, length);
        if (!cc_text_equal(cc_json_text(frame, "type"), "BOOKMARK"))
            watch->last = cc_now_mono();
        cc_json_append_new(watch->frames, frame);
        cc_buf_consume(bytes, length + 1);
    }
}

CC_YIELDS static void watch_run(void *arg) {
    struct conf_watch *watch = arg;
    struct conf_run *run = watch->run;
    struct cc_kube_exchange exchange = {.method = "GET", .path = watch->path};
    struct cc_kube_answer answer = {0};
    struct cc_err err = {0};
    struct cc_buf bytes;
    size_t count = 0;

    if (run->transport.ops->open(run->transport.ctx, &exchange, &answer, &err) != 0)
        return;
    watch->status = answer.status;
    cc_buf_init(&bytes, ANSWER_BYTES_MAX);
    do {
        char *room = cc_buf_reserve(&bytes, 65536);
        count = 0;
        if (!room || run->transport.ops->read(run->transport.ctx, answer.stream, room, 65536, &count, &err) != 0)
            break;
        cc_buf_commit(&bytes, count);
        take_frames(watch, &bytes);
    } while (count > 0);
    if (bytes.len > 0) { /* an answer that is no stream */
        cc_buf_putc(&bytes, '\n');
        take_frames(watch, &bytes);
    }
    cc_buf_done(&bytes);
    run->transport.ops->close(run->transport.ctx, answer.stream);
}

static struct conf_watch *watch_new(struct conf_run *run, const char *name, const char *target) {
    struct conf_watch *watch = CC_NEW(struct conf_watch);
    char *path cc_cleanup(cc_free_p) = path_of(target);

    watch->run = run;
    watch->name = cc_xstrdup(name);
    watch->what = cc_xasprintf("WATCH %s", target);
    watch->path = cc_xasprintf("%s%swatch=true", path, strchr(path, '?') ? "&" : "?");
    watch->frames = json_array();
    watch->last = cc_now_mono();
    watch->fiber = cc_fiber_start(cc_loop_current(), "watch", watch_run, watch);
    return watch;
}

/* The version of the server now, as daemons learn it: from a list. */
static char *version_now(struct conf_run *run, const char *target) {
    char *path cc_cleanup(cc_free_p) = path_of(target);
    char *list cc_cleanup(cc_free_p) = cc_xasprintf("%.*s?limit=1", (int)strcspn(path, "?"), path);
    struct cc_kube_exchange exchange = {.method = "GET", .path = list};
    json_t *answer cc_cleanup(cc_json_decref_p) = NULL;

    send_request(run, &exchange, &answer);
    return cc_xstrdup(cc_text_or(cc_json_text(cc_json_member(answer, "metadata"), "resourceVersion"), ""));
}

CC_YIELDS void conf_watch_begin(struct conf_run *run, const char *name, const char *target) {
    char *version cc_cleanup(cc_free_p) = version_now(run, target);
    char *from cc_cleanup(cc_free_p) =
        cc_xasprintf("%s%cresourceVersion=%s", target, strchr(target, '?') ? '&' : '?', version);
    struct conf_watch *watch = watch_new(run, name, from);

    free(watch->what);
    watch->what = cc_xasprintf("WATCH %s", target);

    watch->next = run->watches;
    run->watches = watch;
    while (watch->status == 0 && !cc_fiber_is_done(watch->fiber) && cc_sleep_ms(5, NULL) == 0)
        ;
}

CC_YIELDS static void watch_done(struct conf_watch *watch) {
    cc_fiber_join_p(&watch->fiber);
    record(watch->run, watch->what, watch->status, watch->frames);
    free(watch->name);
    free(watch->path);
    free(watch);
}

static struct conf_watch *watch_take(struct conf_run *run, const char *name) {
    struct conf_watch **link = &run->watches, *watch;

    while (*link && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    watch = *link;
    cc_assert(watch);
    *link = watch->next;
    return watch;
}

void conf_watch_end(struct conf_run *run, const char *name) {
    struct conf_watch *watch = watch_take(run, name);

    watch->last = cc_now_mono();
    while (cc_mono_diff_ms(cc_now_mono(), watch->last) < QUIET_MS && cc_sleep_ms(50, NULL) == 0)
        ;
    watch_done(watch);
}

CC_YIELDS static void await_end(struct conf_watch *watch) {
    for (int waited_ms = 0; !cc_fiber_is_done(watch->fiber) && waited_ms < AWAIT_MS; waited_ms += 50)
        cc_ignore(cc_sleep_ms(50, NULL), "the fiber ends all the same");
    watch_done(watch);
}

void conf_watch_await(struct conf_run *run, const char *name) {
    await_end(watch_take(run, name));
}

void conf_watch_whole(struct conf_run *run, const char *target) {
    await_end(watch_new(run, "", target));
}

void conf_forget(struct conf_run *run) {
    if (run->fake)
        fake_kube_compact(run->fake);
}

/* --- both servers ---------------------------------------------------------------------------------------------------
 */

CC_YIELDS static void play(struct conf_run *run) {
    run->latest = json_object();
    conf_pods(run);
    conf_others(run);
    conf_custom(run);
    conf_lists(run);
    conf_cluster(run);
}

/* The simulated server sends bookmarks when it is told to. */
CC_YIELDS static void send_bookmarks(void *arg) {
    struct conf_run *run = arg;

    while (cc_sleep_ms(BOOKMARK_MS, NULL) == 0)
        fake_kube_bookmark(run->fake, NULL);
}

/* Those that the operations create. They never miss a heartbeat. */
static void put_nodes(struct sim_world *world) {
    static const char *const names[] = {"k1", "k2"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        json_t *lease =
            conf_json("{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{'name':'%s','namespace':"
                      "'kube-node-lease'},'spec':{'renewTime':'2099-01-01T00:00:00.000000Z'}}",
                      names[i]);
        fake_kube_put(world->api, lease);
        json_decref(lease);
        snprintf(world->nodes[i].name, sizeof world->nodes[i].name, "%s", names[i]);
    }
    world->node_count = CC_ARRAY_LENGTH(names);
}

static void play_simulated(void *arg) {
    struct conf_run *run = arg;
    struct sim_options options = {.seed = 1};
    struct sim_result result = {0};
    struct sim_world *world = CC_NEW(struct sim_world);

    run->fake = fake_kube_new(cc_loop_current());
    run->fake->resource_version = FIRST_VERSION;
    fake_kube_admit(run->fake);
    run->transport = fake_kube_transport(run->fake);
    world->options = &options;
    world->result = &result;
    world->loop = cc_loop_current();
    world->api = run->fake;
    put_nodes(world);
    struct cc_fiber *bookmarks = cc_fiber_start(world->loop, "bookmarks", send_bookmarks, run);
    struct cc_fiber *cluster = cc_fiber_start(world->loop, "cluster", sim_cluster_run, world);
    play(run);
    world->is_ended = true;
    cc_fiber_join_p(&cluster);
    cc_fiber_cancel(bookmarks);
    cc_fiber_join_p(&bookmarks);
    fake_kube_free(run->fake);
    free(world);
}

/* A new CRD is served before its watches are. */
CC_YIELDS static void await_watches(struct conf_run *run) {
    static const char *const plurals[] = {"cocoonsets", "cocoonhibernations", "pods", "nodes", "leases",
                                          "events",     "configmaps"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(plurals); i++) {
        char *target cc_cleanup(cc_free_p) = cc_xasprintf("%s?watch=true&timeoutSeconds=1", plurals[i]);
        char *path cc_cleanup(cc_free_p) = path_of(target);
        struct cc_kube_exchange exchange = {.method = "GET", .path = path};
        json_t *answer;

        for (int tries = 0; tries < 20 && send_request(run, &exchange, &answer) == 429; tries++) {
            json_decref(answer);
            answer = NULL;
            if (cc_sleep_ms(500, NULL) != 0)
                return;
        }
        json_decref(answer);
    }
}

CC_YIELDS static void set_up(struct conf_run *run) {
    static const char body[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"" CONF_NAMESPACE "\"}}";
    struct cc_kube_exchange exchange = {.method = "POST",
                                        .path = "/api/v1/namespaces",
                                        .content_type = "application/json",
                                        .body = body,
                                        .body_bytes = strlen(body)};
    json_t *answer;
    int status = send_request(run, &exchange, &answer);

    json_decref(answer);
    await_watches(run);
    if (status == 201)
        return;
    fprintf(stderr, "conformance: namespace %s could not be made (status %d): a new server is needed\n", CONF_NAMESPACE,
            status);
    exit(2);
}

struct real {
    struct conf_run *run;
    const char *kubeconfig;
};

static void play_real(void *arg) {
    struct real *real = arg;
    struct cc_kube_config_sources sources = {.flag = real->kubeconfig};
    struct cc_kube_config *config = NULL;
    struct cc_kube_http_transport *transport = NULL;
    struct cc_err err = {0};

    if (cc_kube_config_load(&sources, &config, &err) != 0 ||
        cc_kube_http_transport_new(cc_loop_current(), config, "sim-conformance", &transport, &err) != 0) {
        fprintf(stderr, "conformance: %s\n", err.msg);
        exit(2);
    }
    real->run->transport = cc_kube_http_transport_port(transport);
    set_up(real->run);
    play(real->run);
    cc_kube_http_transport_free(transport);
    cc_kube_config_free(config);
}

static void run_free(struct conf_run *run) {
    for (size_t i = 0; i < run->count; i++) {
        free(run->records[i].what);
        json_decref(run->records[i].body);
    }
    free(run->records);
    json_decref(run->latest);
}

static void print_all(const struct conf_run *run) {
    for (size_t i = 0; i < run->count; i++) {
        char *body cc_cleanup(cc_free_p) = run->records[i].body ? cc_json_dump(run->records[i].body) : cc_xstrdup("");
        printf("%zu. %s\n    %d %s\n", i + 1, run->records[i].what, run->records[i].status, body);
    }
}

static void run_on(struct cc_loop *loop, cc_fiber_fn fn, void *arg) {
    cc_fiber_detach(cc_fiber_start(loop, "conformance", fn, arg));
    cc_loop_run(loop);
    cc_loop_free(loop);
}

int conf_main(const char *kubeconfig, bool trace) {
    struct conf_run simulated = {0}, real = {0};
    struct real on_real = {&real, kubeconfig ? kubeconfig : getenv("KUBECONFIG")};

    if (!on_real.kubeconfig) {
        fputs("sim --conformance: KUBECONFIG is not set; `make sim-conformance` starts a server\n", stderr);
        return 2;
    }
    run_on(cc_test_loop_virtual(), play_simulated, &simulated);
    run_on(cc_loop_new(), play_real, &on_real);
    conf_normalise(&simulated);
    conf_normalise(&real);
    if (trace)
        print_all(&real);
    conf_print_normalised();
    size_t differences = conf_compare(&simulated, &real);
    printf("conformance: %zu operations compared, %zu differences\n", simulated.count, differences);
    run_free(&simulated);
    run_free(&real);
    return differences > 0;
}
