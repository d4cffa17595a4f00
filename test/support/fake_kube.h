/* An API server in memory behind the kube port: objects of every registered kind, resourceVersions, label and field
 * selectors, paged lists, watches with bookmarks, merge and strategic merge patches on objects and /status, finalizers,
 * graceful pod deletion, uid and resourceVersion preconditions; faults on demand and a log of all requests. Answers are
 * JSON bytes, handed out in chunks. Nothing here decides for the daemons: it behaves as kube-apiserver 1.36 does.
 *
 * Files: fake_kube.c (port, faults, log), fake_kube_api.c (verbs), fake_kube_store.c (objects, history, watches),
 * fake_kube_patch.c (patches), fake_kube_select.c (selectors), fake_kube_content.c (direct access of tests). */
#ifndef CC_TEST_FAKE_KUBE_H
#define CC_TEST_FAKE_KUBE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aio/loop.h"
#include "base/error.h"
#include "base/time.h"
#include "kube/transport.h"

struct fake_kube;

/* loop gives the wall clock; NULL = a fixed time. Registered from the start: pods, nodes, events, namespaces,
 * configmaps, secrets, leases, cocoonsets, cocoonhibernations. */
struct fake_kube *fake_kube_new(struct cc_loop *loop);
void fake_kube_free(struct fake_kube *kube); /* no watch may be open; NULL is fine */
/* From now on created and changed objects get the defaults of their kind, and are validated: pods, nodes, leases and
 * events as far as the daemons use them, CocoonSets and CocoonHibernations by the schemas and CEL rules of the chart's
 * CRDs. Objects that fake_kube_put stores are taken as they are. Off at first: short tests write short objects. */
void fake_kube_admit(struct fake_kube *kube);
/* The port. A daemon's calls need a fiber; the functions below do not. */
struct cc_kube_transport fake_kube_transport(struct fake_kube *kube);
/* The body of the next request of the port, which the caller has parsed already; it may not be changed any more. */
void fake_kube_lend_body(struct fake_kube *kube, json_t *body);

/* A further kind; also gives back one that was removed. All texts are copied. */
void fake_kube_add_resource(struct fake_kube *kube, const char *api_version, const char *kind, const char *plural,
                            bool namespaced);
/* Requests for it answer 404 from now on, as without its CRD. */
void fake_kube_remove_resource(struct fake_kube *kube, const char *plural);

/* --- content, without log and faults (watches do see the changes) ------------------------------------------------- */

/* Creates or replaces, status included; apiVersion and kind say what it is. metadata.uid, creationTimestamp and
 * generation are kept or filled in; a changed spec raises the generation. The object is borrowed. Returns the stored
 * one (borrowed until the next change). */
const json_t *fake_kube_put(struct fake_kube *kube, const json_t *object);
/* As above from text with ' instead of ", for short tests: fake_kube_put_text(k,
 * "{'apiVersion':'v1','kind':'Pod',...}") */
const json_t *fake_kube_put_text(struct fake_kube *kube, const char *single_quoted);
/* A pod, its VM-name annotation left to the caller; labels and annotations may be NULL ("k=v,k=v"). */
const json_t *fake_kube_put_pod(struct fake_kube *kube, const char *namespace, const char *name, const char *node_name,
                                const char *labels, const char *annotations);
/* Borrowed until the next change; NULL when absent. */
const json_t *fake_kube_get(const struct fake_kube *kube, const char *plural, const char *namespace, const char *name);
/* Text at a path of an object, e.g. "metadata/annotations/vm.cocoonstack.io~1name" ("~1" stands for '/'); NULL when the
 * object or the text is absent. */
const char *fake_kube_text(const struct fake_kube *kube, const char *plural, const char *namespace, const char *name,
                           const char *path);
/* Removes at once, finalizers or not. False when absent. */
bool fake_kube_drop(struct fake_kube *kube, const char *plural, const char *namespace, const char *name);
/* A merge patch by "somebody else" (single-quoted text as above). False when absent. */
bool fake_kube_touch(struct fake_kube *kube, const char *plural, const char *namespace, const char *name,
                     const char *single_quoted_patch);
size_t fake_kube_count(const struct fake_kube *kube, const char *plural);
int64_t fake_kube_resource_version(const struct fake_kube *kube); /* the newest */

/* One request as a client would send it, but at once and without a fiber: status, and the answer as a new reference
 * (ret may be NULL). content_type NULL = application/json. Logged; faults do not apply. */
int fake_kube_request(struct fake_kube *kube, const char *method, const char *path, const char *content_type,
                      const json_t *body, json_t **ret);

/* --- watches and history ------------------------------------------------------------------------------------------ */

/* Held: events wait until they are released; new lists still show the newest state. */
void fake_kube_hold_watches(struct fake_kube *kube, bool hold);
/* Lets the next `count` held events of each stream through. */
void fake_kube_step_watches(struct fake_kube *kube, size_t count);
/* A BOOKMARK with the newest resourceVersion on every stream (plural NULL = all). */
void fake_kube_bookmark(struct fake_kube *kube, const char *plural);
/* Ends the open streams cleanly, or with an ERROR frame of that code (410: reason Expired) when status != 0. */
void fake_kube_end_watches(struct fake_kube *kube, const char *plural, int status);
/* Raw bytes on every open stream of that plural: malformed frames. */
void fake_kube_inject(struct fake_kube *kube, const char *plural, const char *bytes);
/* Forgets the history: older resourceVersions and continue tokens answer 410. */
void fake_kube_compact(struct fake_kube *kube);
size_t fake_kube_watch_count(const struct fake_kube *kube, const char *plural); /* open streams; NULL = all */

/* --- faults ------------------------------------------------------------------------------------------------------- */

enum fake_kube_fault_kind {
    FAKE_KUBE_STATUS,       /* answers `status`, nothing happens */
    FAKE_KUBE_REFUSE,       /* connection refused: UNAVAILABLE */
    FAKE_KUBE_LOST_BEFORE,  /* connection lost after sending, nothing happened: OUTCOME_UNKNOWN */
    FAKE_KUBE_LOST_AFTER,   /* applied, the answer is lost: OUTCOME_UNKNOWN */
    FAKE_KUBE_STATUS_AFTER, /* applied, but answered with `status` */
    FAKE_KUBE_HANG,         /* nothing happens, no answer until the caller's deadline */
    FAKE_KUBE_HANG_AFTER,   /* applied, no answer */
    FAKE_KUBE_CUT_BODY,     /* applied, the body ends half-way: PROTOCOL on read */
};
struct fake_kube_fault {
    enum fake_kube_fault_kind kind;
    const char *method; /* NULL = any; as in the log: a list is "LIST", a watch "WATCH", GET one object */
    const char *path;   /* part of the path with its query; NULL = any */
    int skip;           /* let that many matching requests pass first */
    int count;          /* then apply to so many; 0 = 1, < 0 = for ever */
    int status;
    const char *reason;       /* Status.reason; NULL = by status */
    const char *message;      /* NULL = some text */
    const char *cause_field;  /* adds details.causes[0].field */
    const char *cause_reason; /* .reason of that cause */
    int64_t retry_after_s;    /* > 0: Retry-After header */
};
/* Copied. The first fault that matches is used. */
void fake_kube_fail(struct fake_kube *kube, const struct fake_kube_fault *fault);
void fake_kube_heal(struct fake_kube *kube); /* removes all faults and the hook */
/* Called before each request of the port, after it was logged; may yield (a test may hold a request back there). */
void fake_kube_on_request(struct fake_kube *kube,
                          CC_YIELDS void (*hook)(void *ctx, const char *method, const char *path), void *ctx);
/* Every request of the port first sleeps that long. */
void fake_kube_set_latency(struct fake_kube *kube, int64_t ms);
/* Largest piece that one read gives; 0 = as much as fits. */
void fake_kube_set_chunk(struct fake_kube *kube, size_t bytes);

/* --- log of requests ---------------------------------------------------------------------------------------------- */

struct fake_kube_request_log {
    const char *method; /* "GET", "POST", "PUT", "PATCH", "DELETE"; "WATCH" for a watch, "LIST" for a list */
    const char *path;   /* with its query, as sent */
    const char *content_type, *user_agent_suffix; /* "" when absent */
    const json_t *body;                           /* NULL without one */
    int status;                                   /* what was answered; 0 = no answer */
    struct cc_mono at;
};
/* Requests whose method equals (NULL = any) and whose path contains the text (NULL = any). */
size_t fake_kube_requests(const struct fake_kube *kube, const char *method, const char *path);
/* The k-th of those (0 = first), NULL when there are fewer. Valid until the next request. */
const struct fake_kube_request_log *fake_kube_request_at(const struct fake_kube *kube, const char *method,
                                                         const char *path, size_t k);
/* Writes only (POST, PUT, PATCH, DELETE), leases and events not counted. */
size_t fake_kube_writes(const struct fake_kube *kube);
void fake_kube_forget_requests(struct fake_kube *kube);

#endif
