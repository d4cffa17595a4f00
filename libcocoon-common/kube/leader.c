#include "kube/leader.h"

#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/work_queue_internal.h"
#include "obs/log.h"

#define REQUEST_MIN_MS 1000
#define RELEASE_MS 5000
#define ACQUIRE_JITTER_PERCENT 120

static const struct cc_kube_resource lease_resource = {"coordination.k8s.io/v1", "Lease", "leases", true, NULL};

struct election {
    const struct cc_leader_options *options;
    struct cc_kube kube; /* with the user agent of lease calls */
    struct cc_kube_ref ref;
    json_t *observed;          /* the Lease as last seen; NULL = never */
    struct cc_mono changed_at; /* when its spec was last seen to change, by the local clock */
    bool leading;
    bool unsure;               /* the last write may have gone through, its answer is missing */
    struct cc_mono renewed_at; /* begin of the last renewal that succeeded */
    struct cc_metric *status, *slow_path;
};

/* --- the record
 * ------------------------------------------------------------------------------------------------------- */

static const json_t *spec_of(const json_t *lease) {
    return cc_json_member(lease, "spec");
}

static const char *holder_of(const json_t *lease) {
    return cc_text_or(cc_json_text(spec_of(lease), "holderIdentity"), "");
}

static bool is_mine(const struct election *election, const json_t *lease) {
    return strcmp(holder_of(lease), election->options->identity) == 0;
}

/* Expiry is judged by the local clock, from the moment the record was last seen to change: times that other hosts wrote
 * are never compared (contract/04 B4). */
static void observe(struct election *election, json_t *take_lease) {
    const json_t *old = spec_of(election->observed), *new = spec_of(take_lease);

    if (!election->observed || (old != new && (!old || !new || !json_equal(old, new))))
        election->changed_at = cc_now_mono();
    json_decref(election->observed);
    election->observed = take_lease;
}

static bool is_held_by_other(const struct election *election) {
    int64_t lease_s = cc_json_int(spec_of(election->observed), "leaseDurationSeconds", 0);

    if (*holder_of(election->observed) == '\0' || is_mine(election, election->observed))
        return false;
    if (lease_s < 0 || lease_s > 86400)
        lease_s = 86400;
    return cc_mono_diff_ms(cc_now_mono(), election->changed_at) < lease_s * 1000;
}

static void set_time(json_t *spec, const char *key) {
    char text[CC_RFC3339_BYTES];

    cc_json_set_text(spec, key, cc_rfc3339_micros(cc_now_wall(), text));
}

/* The Lease to be written: ours, based on the observed one (NULL = a new one). Unknown members stay. */
static json_t *next_lease(const struct election *election) {
    const struct cc_leader_options *options = election->options;
    json_t *lease = election->observed ? json_deep_copy(election->observed) : json_object();
    json_t *spec =
        json_is_object(json_object_get(lease, "spec")) ? json_incref(json_object_get(lease, "spec")) : json_object();
    bool renewal = election->observed && is_mine(election, election->observed);

    if (!election->observed) {
        cc_json_set_text(lease, "apiVersion", lease_resource.api_version);
        cc_json_set_text(lease, "kind", lease_resource.kind);
        cc_json_set_new(lease, "metadata",
                        json_pack("{s:s,s:s}", "name", options->name, "namespace", options->namespace));
        cc_json_set_int(spec, "leaseTransitions", 0);
    } else if (!renewal) {
        cc_json_set_int(spec, "leaseTransitions", cc_json_int(spec, "leaseTransitions", 0) + 1);
    }
    if (!renewal)
        set_time(spec, "acquireTime");
    cc_json_set_text(spec, "holderIdentity", options->identity);
    cc_json_set_int(spec, "leaseDurationSeconds", options->lease_ms / 1000);
    set_time(spec, "renewTime");
    cc_json_set_new(lease, "spec", spec);
    return lease;
}

/* --- requests
 * ----------------------------------------------------------------------------------------------------------- */

static int64_t request_ms(const struct election *election) {
    int64_t half_ms = election->options->renew_deadline_ms / 2;

    return half_ms > REQUEST_MIN_MS ? half_ms : REQUEST_MIN_MS;
}

static int read_lease(struct election *election, struct cc_err *err) {
    json_t *lease = NULL;

    CC_DEADLINE_MS(request_ms(election));
    int rc = cc_kube_get(&election->kube, &election->ref, &lease, err);
    if (rc == 0)
        observe(election, lease);
    return rc;
}

static int write_lease(struct election *election, struct cc_err *err) {
    json_t *lease cc_cleanup(cc_json_decref_p) = next_lease(election);
    json_t *answer = NULL;
    int rc;

    CC_DEADLINE_MS(request_ms(election));
    election->unsure = true;
    if (election->observed)
        rc = cc_kube_update(&election->kube, &election->ref, lease, &answer, err);
    else
        rc = cc_kube_create(&election->kube, &election->ref, lease, &answer, err);
    election->unsure = rc == CC_CANCELED || rc == CC_TIMEOUT || rc == CC_OUTCOME_UNKNOWN;
    if (rc == 0)
        observe(election, answer);
    return rc;
}

/* One try to become or stay the leader. 0 = the Lease is ours. CONFLICT: somebody else holds it. */
static int try_once(struct election *election, struct cc_err *err) {
    struct cc_mono start = cc_now_mono();
    int rc;

    /* A leader knows what it wrote last: one PUT is enough while nobody interferes. */
    if (election->leading && is_mine(election, election->observed)) {
        rc = write_lease(election, err);
        if (rc == 0) {
            election->renewed_at = start;
            return 0;
        }
        if (cc_fiber_is_canceled())
            return rc;
        cc_log_debug("lease update failed, reading it", CC_KV("error", err->msg));
        cc_metric_add(election->slow_path, 1, (const char *[]){election->options->name});
    }
    rc = read_lease(election, err);
    if (rc && rc != CC_NOT_FOUND)
        return rc;
    if (rc == CC_NOT_FOUND) {
        json_decref(election->observed);
        election->observed = NULL;
    } else if (is_held_by_other(election)) {
        return cc_err_set(err, CC_CONFLICT, "the lease is held by %s", holder_of(election->observed));
    }
    rc = write_lease(election, err);
    if (rc == 0)
        election->renewed_at = start;
    return rc;
}

/* --- the run
 * ------------------------------------------------------------------------------------------------------------ */

static void announce(struct election *election, const char *what) {
    const json_t *metadata = cc_json_member(election->observed, "metadata");
    struct cc_event_object lease = {
        .resource = &lease_resource,
        .namespace = election->options->namespace,
        .name = election->options->name,
        .uid = cc_text_or(cc_json_text(metadata, "uid"), ""),
        .resource_version = cc_text_or(cc_json_text(metadata, "resourceVersion"), ""),
    };

    cc_event_record(election->options->recorder, &lease, CC_EVENT_NORMAL, "LeaderElection", "%s %s",
                    election->options->identity, what);
}

static void show_status(const struct election *election) {
    cc_metric_set(election->status, election->leading ? 1 : 0, (const char *[]){election->options->name});
}

static int acquire(struct election *election, struct cc_err *err) {
    const struct cc_leader_options *options = election->options;

    for (;;) {
        int rc = try_once(election, err);

        if (rc == 0)
            return 0;
        if (cc_fiber_is_canceled())
            return CC_CANCELED;
        cc_log_debug("not the leader", CC_KV("error", err->msg));
        int64_t jitter_ms = (int64_t)cc_random_below((uint64_t)(options->retry_ms * ACQUIRE_JITTER_PERCENT / 100) + 1);
        rc = cc_sleep_ms(options->retry_ms + jitter_ms, err);
        if (rc)
            return rc;
    }
}

/* Renews until leadership is lost (CC_TIMEOUT, CC_CONFLICT) or the fiber is cancelled. */
static int hold(struct election *election, struct cc_err *err) {
    const struct cc_leader_options *options = election->options;
    struct cc_err last = {0};

    for (;;) {
        struct cc_mono limit = cc_mono_add_ms(election->renewed_at, options->renew_deadline_ms);
        int64_t left_ms = cc_mono_diff_ms(limit, cc_now_mono());

        if (left_ms <= 0)
            return cc_err_set(err, CC_TIMEOUT, "no renewal of the lease for %lld ms: %s",
                              (long long)options->renew_deadline_ms, cc_text_or(last.msg, "the last one hangs"));
        int rc = cc_sleep_ms(left_ms < options->retry_ms ? left_ms : options->retry_ms, err);
        if (rc)
            return rc;
        left_ms = cc_mono_diff_ms(limit, cc_now_mono());
        if (left_ms <= 0)
            continue;
        CC_DEADLINE_MS(left_ms);
        rc = try_once(election, &last);
        if (cc_fiber_is_canceled())
            return CC_CANCELED;
        if (rc == CC_CONFLICT && !is_mine(election, election->observed) && *holder_of(election->observed) != '\0')
            return cc_err_set(err, CC_CONFLICT, "the lease was taken by %s", holder_of(election->observed));
    }
}

/* Decision 38: a successor need not wait for the lease to expire. */
static void release(struct election *election) {
    struct cc_err err = {0};
    bool must_read = election->unsure;

    CC_SHIELD_MS(RELEASE_MS);
    for (int attempt = 0; attempt < 2; attempt++, must_read = true) {
        if (must_read && read_lease(election, &err))
            break;
        if (!election->observed || !is_mine(election, election->observed))
            return;
        json_t *lease cc_cleanup(cc_json_decref_p) = next_lease(election);
        json_t *spec = json_object_get(lease, "spec");
        cc_json_set_text(spec, "holderIdentity", "");
        cc_json_set_int(spec, "leaseDurationSeconds", 1);
        set_time(spec, "acquireTime");
        if (cc_kube_update(&election->kube, &election->ref, lease, NULL, &err) == 0)
            return;
    }
    cc_log_warn("lease not released, it will expire", CC_KV("error", err.msg));
}

static void declare_metrics(struct election *election) {
    static const char *const labels[] = {"name", NULL};
    struct cc_metrics *registry = election->options->metrics;

    election->status = cc_queue_gauge(registry, "leader_election_master_status", "1 = this process leads.", labels);
    election->slow_path = cc_queue_counter(registry, "leader_election_slowpath_total",
                                           "Renewals that had to read the lease first.", labels);
    show_status(election);
}

int cc_leader_run(const struct cc_leader_options *options, struct cc_err *err) {
    struct election election = {
        .options = options,
        .kube = *options->kube,
        .ref = {.resource = &lease_resource, .namespace = options->namespace, .name = options->name},
    };
    struct cc_err failure = {0};

    election.kube.user_agent_suffix = "/leader-election";
    declare_metrics(&election);
    int rc = acquire(&election, &failure);
    if (rc == 0) {
        election.leading = true;
        show_status(&election);
        announce(&election, "became leader");
        options->won(options->ctx);
        rc = hold(&election, &failure);
        election.leading = false;
        show_status(&election);
        if (rc != CC_CANCELED)
            options->lost(options->ctx, failure.msg);
        announce(&election, "stopped leading");
    }
    if (rc == CC_CANCELED)
        release(&election);
    json_decref(election.observed);
    if (err)
        *err = failure;
    return rc;
}
