/* `sim --conformance`: the same operations against the simulated API server and a real kube-apiserver; answers, objects
 * and watch events must be the same after normalisation.
 *
 * Files: conformance.c (one run: requests, watches, records), conformance_compare.c (normalisation, differences),
 * conformance_pods.c, conformance_custom.c, conformance_lists.c, conformance_cluster.c (the operations). An operation
 * is written once, as a call of the functions below, and played on both servers. */
#ifndef SIM_CONFORMANCE_H
#define SIM_CONFORMANCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "aio/fiber.h"
#include "kube/transport.h"

struct fake_kube;
struct conf_watch;

/* One operation and what came of it. */
struct conf_record {
    char *what;   /* method, path and body, for people; the same on both servers but for uids and versions */
    int status;   /* 0 = no answer */
    json_t *body; /* the answer; of a watch the array of its frames; NULL = none */
};

struct conf_run {
    struct cc_kube_transport transport;
    struct fake_kube *fake; /* NULL = a real server */
    struct conf_record *records;
    size_t count, capacity;
    json_t *latest; /* "plural/name" -> the newest answer that was such an object */
    struct conf_watch *watches;
};

/* --- operations: each is recorded ---------------------------------------------------------------------------------
 * target: "pods", "pods/name", "pods/name/status", with its query; in the namespace of the run ("nodes" in none).
 * format: the body as JSON with ' instead of ", printf style. All give the answer's body, borrowed until the end. */
#define CONF_NAMESPACE "conformance"
CC_YIELDS const json_t *conf_get(struct conf_run *run, const char *target);
CC_YIELDS const json_t *conf_post(struct conf_run *run, const char *target, const char *format, ...) CC_PRINTF(3, 4);
CC_YIELDS const json_t *conf_put(struct conf_run *run, const char *target, const json_t *body);
CC_YIELDS const json_t *conf_merge(struct conf_run *run, const char *target, const char *format, ...) CC_PRINTF(3, 4);
CC_YIELDS const json_t *conf_strategic(struct conf_run *run, const char *target, const char *format, ...)
    CC_PRINTF(3, 4);
CC_YIELDS const json_t *conf_delete(struct conf_run *run, const char *target);
/* With DeleteOptions. */
CC_YIELDS const json_t *conf_delete_with(struct conf_run *run, const char *target, const char *format, ...)
    CC_PRINTF(3, 4);
/* Any method, content type and body as they are; NULL = without. */
CC_YIELDS const json_t *conf_raw(struct conf_run *run, const char *method, const char *target, const char *content_type,
                                 const char *body);
/* Repeats a GET (recorded once, with its last answer) until the object is gone, or has a member "a/b/c"; 20 s. */
CC_YIELDS void conf_await_absent(struct conf_run *run, const char *target);
CC_YIELDS void conf_await_member(struct conf_run *run, const char *target, const char *path);

/* A watch that is open while the next operations happen; target may have further query members. */
CC_YIELDS void conf_watch_begin(struct conf_run *run, const char *name, const char *target);
/* Waits until it is quiet, ends it, and records its frames. */
CC_YIELDS void conf_watch_end(struct conf_run *run, const char *name);
/* Waits until the server ends it (timeoutSeconds), and records its frames. */
CC_YIELDS void conf_watch_await(struct conf_run *run, const char *name);
/* The same for one that begins only now, at the version in its target. */
CC_YIELDS void conf_watch_whole(struct conf_run *run, const char *target);

/* The simulated server forgets its history: older versions are gone. */
void conf_forget(struct conf_run *run);

/* --- not recorded ---------------------------------------------------------------------------------------------------
 */

/* "uid", "resourceVersion", ... of the newest answer that was this object; "" when there was none. */
const char *conf_meta(const struct conf_run *run, const char *target, const char *key);
#define conf_uid(run, target) conf_meta(run, target, "uid")
#define conf_version(run, target) conf_meta(run, target, "resourceVersion")
json_t *conf_json(const char *format, ...) CC_PRINTF(1, 2); /* new reference */

/* --- the operations -------------------------------------------------------------------------------------------------
 */

CC_YIELDS void conf_pods(struct conf_run *run);
CC_YIELDS void conf_custom(struct conf_run *run);
CC_YIELDS void conf_lists(struct conf_run *run);
CC_YIELDS void conf_others(struct conf_run *run);
CC_YIELDS void conf_cluster(struct conf_run *run);

/* --- comparing ------------------------------------------------------------------------------------------------------
 */

/* Replaces what differs between any two servers; in place. */
void conf_normalise(struct conf_run *run);
void conf_print_normalised(void);
/* Prints each difference; returns in how many operations there was one. */
size_t conf_compare(const struct conf_run *simulated, const struct conf_run *real);

/* Plays all operations against a new simulated server and the one of this kubeconfig (NULL = $KUBECONFIG), which has
 * our CRDs. trace: prints each operation with the real answer, normalised. 0 when there is no difference. */
int conf_main(const char *kubeconfig, bool trace);

#endif
