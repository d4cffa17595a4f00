/* What happens to an object before it is stored: defaults of its kind, then validation, in the words of the real API
 * server. */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/quantity.h"
#include "base/text.h"
#include "support/fake_kube_internal.h"

void fake_kube_admit(struct fake_kube *kube) {
    kube->schemas = fake_schemas_ref();
}

/* --- defaults -------------------------------------------------------------------------------------------------------
 */

static void preset_text(json_t *object, const char *key, const char *value) {
    if (cc_text_is_empty(cc_json_text(object, key)))
        cc_json_set_text(object, key, value);
}

static void preset_new(json_t *object, const char *key, json_t *take_value) {
    if (json_object_get(object, key))
        json_decref(take_value);
    else
        cc_json_set_new(object, key, take_value);
}

/* "latest" is what an image without a tag means; a digest is none. */
static const char *pull_policy(const char *image) {
    const char *slash = strrchr(image, '/'), *name = slash ? slash + 1 : image;
    const char *colon = strchr(name, ':');

    if (strchr(name, '@'))
        return "IfNotPresent";
    return !colon || strcmp(colon, ":latest") == 0 ? "Always" : "IfNotPresent";
}

static void fill_container(json_t *container) {
    json_t *resources, *limits, *port, *variable;
    const char *key;
    json_t *value;
    size_t i;

    preset_text(container, "imagePullPolicy", pull_policy(cc_text_or(cc_json_text(container, "image"), "")));
    preset_text(container, "terminationMessagePath", "/dev/termination-log");
    preset_text(container, "terminationMessagePolicy", "File");
    preset_new(container, "resources", json_object());
    resources = json_object_get(container, "resources");
    limits = cc_json_member(resources, "limits");
    if (limits) {
        preset_new(resources, "requests", json_object());
        json_object_foreach (limits, key, value)
            preset_new(json_object_get(resources, "requests"), key, json_incref(value));
    }
    json_array_foreach (cc_json_member(container, "ports"), i, port)
        preset_text(port, "protocol", "TCP");
    json_array_foreach (cc_json_member(container, "env"), i, variable) {
        json_t *field = cc_json_path(variable, "valueFrom", "fieldRef", NULL);
        if (field)
            preset_text(field, "apiVersion", "v1");
    }
}

static bool tolerates(const json_t *tolerations, const char *taint) {
    json_t *item;
    size_t i;

    json_array_foreach (tolerations, i, item) {
        const char *key = cc_json_text(item, "key"), *effect = cc_json_text(item, "effect");
        if ((cc_text_is_empty(key) || strcmp(key, taint) == 0) &&
            (cc_text_is_empty(effect) || strcmp(effect, "NoExecute") == 0))
            return true;
    }
    return false;
}

static void fill_tolerations(json_t *spec) {
    static const char *const taints[] = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(taints); i++) {
        if (tolerates(json_object_get(spec, "tolerations"), taints[i]))
            continue;
        preset_new(spec, "tolerations", json_array());
        cc_json_append_new(json_object_get(spec, "tolerations"),
                           json_pack("{s:s,s:s,s:s,s:i}", "key", taints[i], "operator", "Exists", "effect", "NoExecute",
                                     "tolerationSeconds", 300));
    }
}

static void fill_pod(json_t *pod, bool is_new) {
    json_t *spec = json_object_get(pod, "spec"), *container;
    size_t i;

    if (!json_is_object(spec))
        return;
    json_array_foreach (cc_json_member(spec, "containers"), i, container)
        fill_container(container);
    preset_text(spec, "dnsPolicy", "ClusterFirst");
    preset_text(spec, "restartPolicy", "Always");
    preset_text(spec, "schedulerName", "default-scheduler");
    preset_new(spec, "securityContext", json_object());
    preset_new(spec, "terminationGracePeriodSeconds", json_integer(30));
    if (cc_json_int(spec, "terminationGracePeriodSeconds", 0) < 0)
        cc_json_set_int(spec, "terminationGracePeriodSeconds", 1);
    preset_new(spec, "enableServiceLinks", json_true());
    if (cc_json_text(spec, "serviceAccountName"))
        preset_text(spec, "serviceAccount", cc_json_text(spec, "serviceAccountName"));
    fill_tolerations(spec);
    if (!is_new)
        return;
    preset_new(spec, "priority", json_integer(0));
    preset_text(spec, "preemptionPolicy", "PreemptLowerPriority");
}

const char *fake_qos_class(const json_t *pod) {
    static const char *const names[] = {"cpu", "memory"};
    bool any = false, guaranteed = true;
    json_t *container;
    size_t i;

    json_array_foreach (cc_json_path(pod, "spec", "containers", NULL), i, container) {
        const json_t *resources = cc_json_member(container, "resources");
        for (size_t k = 0; k < CC_ARRAY_LENGTH(names); k++) {
            const json_t *limit = json_object_get(cc_json_member(resources, "limits"), names[k]);
            const json_t *request = json_object_get(cc_json_member(resources, "requests"), names[k]);
            any = any || limit || request;
            guaranteed = guaranteed && limit && (!request || json_equal((json_t *)limit, (json_t *)request));
        }
    }
    return !any ? "BestEffort" : guaranteed ? "Guaranteed" : "Burstable";
}

/* A time that is not known yet is written as null. */
static void preset_null(json_t *object, const char *key) {
    preset_new(object, key, json_null());
}

/* The first of podIPs is podIP. Where the two differ, podIP counts. */
static void fill_addresses(json_t *status) {
    const char *address = cc_text_or(cc_json_text(status, "podIP"), "");
    const char *first = cc_text_or(cc_json_text(json_array_get(cc_json_member(status, "podIPs"), 0), "ip"), "");

    if (*address && strcmp(address, first) != 0)
        cc_json_set_new(status, "podIPs", json_pack("[{s:s}]", "ip", address));
    else if (*first)
        cc_json_set_text(status, "podIP", first);
}

static void fill_pod_status(json_t *pod) {
    json_t *status = cc_json_member(pod, "status"), *item;
    size_t i;

    fill_addresses(status);

    json_array_foreach (cc_json_member(status, "conditions"), i, item) {
        preset_null(item, "lastProbeTime");
        preset_null(item, "lastTransitionTime");
    }
    json_array_foreach (cc_json_member(status, "containerStatuses"), i, item) {
        preset_new(item, "lastState", json_object());
        preset_new(item, "state", json_object());
        preset_new(item, "ready", json_false());
        preset_new(item, "restartCount", json_integer(0));
        preset_new(item, "image", json_string(""));
        preset_new(item, "imageID", json_string(""));
    }
}

static void fill_node(json_t *node) {
    json_t *status, *item, *capacity;
    const char *key;
    size_t i;

    preset_new(node, "spec", json_object());
    preset_new(node, "status", json_object());
    status = json_object_get(node, "status");
    preset_new(status, "daemonEndpoints", json_pack("{s:{s:i}}", "kubeletEndpoint", "Port", 0));
    preset_new(status, "nodeInfo", json_object());
    static const char *const info[] = {
        "machineID",      "systemUUID",       "bootID",          "kernelVersion", "osImage",
        "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",  "containerRuntimeVersion"};
    for (i = 0; i < CC_ARRAY_LENGTH(info); i++)
        preset_new(json_object_get(status, "nodeInfo"), info[i], json_string(""));
    json_array_foreach (cc_json_member(status, "conditions"), i, item) {
        preset_null(item, "lastHeartbeatTime");
        preset_null(item, "lastTransitionTime");
    }
    capacity = cc_json_member(status, "capacity");
    if (capacity && !json_object_get(status, "allocatable"))
        json_object_set_new(status, "allocatable", json_deep_copy(capacity));
    json_object_foreach (capacity, key, item)
        if (!json_object_get(cc_json_member(status, "allocatable"), key))
            json_object_set(cc_json_member(status, "allocatable"), key, item);
}

static void fill_event(json_t *event) {
    preset_null(event, "firstTimestamp");
    preset_null(event, "lastTimestamp");
    preset_null(event, "eventTime");
    preset_new(event, "source", json_object());
    preset_new(event, "reportingComponent", json_string(""));
    preset_new(event, "reportingInstance", json_string(""));
}

/* --- validation -----------------------------------------------------------------------------------------------------
 */

#define LABEL_RULE                                                                                                     \
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "    \
    "and "                                                                                                             \
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "   \
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
#define NAME_RULE                                                                                                      \
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric " \
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "                            \
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
#define DNS_LABEL_RULE                                                                                                 \
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "    \
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "                     \
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"

static void refuse(json_t *causes, const char *field, const char *value, const char *why) {
    fake_cause_add(causes, field, "FieldValueInvalid", cc_xasprintf("Invalid value: \"%s\": %s", value, why));
}

/* "prefix/name" or "name". */
static bool is_qualified_name(const char *text) {
    const char *slash = strchr(text, '/'), *name = slash ? slash + 1 : text;
    char *prefix cc_cleanup(cc_free_p) = cc_xstrndup(text, slash ? (size_t)(slash - text) : 0);

    return *name && cc_name_is_label_value(name) && (!slash || cc_name_is_dns1123_subdomain(prefix));
}

static void check_metadata(const struct fake_route *route, const json_t *old, const json_t *object, json_t *causes) {
    const json_t *metadata = cc_json_member(object, "metadata"), *before = cc_json_member(old, "metadata");
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach (cc_json_member(metadata, "labels"), key, value) {
        if (!is_qualified_name(key))
            refuse(causes, "metadata.labels", key, NAME_RULE);
        if (!cc_name_is_label_value(cc_text_or(json_string_value(value), "")))
            refuse(causes, "metadata.labels", json_string_value(value), LABEL_RULE);
    }
    json_object_foreach (cc_json_member(metadata, "annotations"), key, value)
        if (!is_qualified_name(key))
            refuse(causes, "metadata.annotations", key, NAME_RULE);
    json_array_foreach (cc_json_member(metadata, "finalizers"), i, value) {
        const char *text = cc_text_or(json_string_value(value), "");
        char *field cc_cleanup(cc_free_p) = cc_xasprintf("metadata.finalizers[%zu]", i);

        if (!is_qualified_name(text))
            refuse(causes, "metadata.finalizers", text, NAME_RULE);
        if (!strchr(text, '/') && fake_is_core(route->resource))
            refuse(causes, field, text, "name is neither a standard finalizer name nor is it fully qualified");
    }
    (void)before;
}

static int64_t amount(const json_t *quantity) {
    struct cc_quantity value;

    if (json_is_integer(quantity))
        return json_integer_value(quantity) * 1000;
    return json_is_string(quantity) && cc_quantity_parse(json_string_value(quantity), &value, NULL) == 0
               ? cc_quantity_millis(&value)
               : 0;
}

static void check_resources(const char *field, const json_t *container, json_t *causes) {
    const json_t *limits = cc_json_path(container, "resources", "limits", NULL);
    const char *key;
    json_t *request;

    json_object_foreach (cc_json_path(container, "resources", "requests", NULL), key, request) {
        const json_t *limit = json_object_get(limits, key);
        if (!limit || amount(request) <= amount(limit))
            continue;
        char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s.resources.requests", field);
        char *why cc_cleanup(cc_free_p) =
            cc_xasprintf("must be less than or equal to %s limit of %s", key, json_string_value(limit));
        refuse(causes, below, cc_text_or(json_string_value(request), ""), why);
    }
}

static void check_container(const json_t *containers, size_t index, json_t *causes) {
    const json_t *container = json_array_get(containers, index);
    const char *name = cc_text_or(cc_json_text(container, "name"), "");
    char *field cc_cleanup(cc_free_p) = cc_xasprintf("spec.containers[%zu]", index);
    char *named cc_cleanup(cc_free_p) = cc_xasprintf("%s.name", field);
    char *image cc_cleanup(cc_free_p) = cc_xasprintf("%s.image", field);

    if (!*name)
        fake_cause_add(causes, named, "FieldValueRequired", cc_xstrdup("Required value"));
    else if (!cc_name_is_dns1123_subdomain(name) || strchr(name, '.'))
        refuse(causes, named, name, DNS_LABEL_RULE);
    for (size_t i = 0; i < index; i++)
        if (cc_text_equal(cc_json_text(json_array_get(containers, i), "name"), name))
            fake_cause_add(causes, named, "FieldValueDuplicate", cc_xasprintf("Duplicate value: \"%s\"", name));
    if (cc_text_is_empty(cc_json_text(container, "image")))
        fake_cause_add(causes, image, "FieldValueRequired", cc_xstrdup("Required value"));
    check_resources(field, container, causes);
}

static void check_new_pod(const json_t *pod, json_t *causes) {
    const json_t *spec = cc_json_member(pod, "spec"), *containers = cc_json_member(spec, "containers");
    const char *policy = cc_text_or(cc_json_text(spec, "restartPolicy"), "Always");

    if (json_array_size(containers) == 0)
        fake_cause_add(causes, "spec.containers", "FieldValueRequired", cc_xstrdup("Required value"));
    for (size_t i = 0; i < json_array_size(containers); i++)
        check_container(containers, i, causes);
    if (strcmp(policy, "Always") != 0 && strcmp(policy, "OnFailure") != 0 && strcmp(policy, "Never") != 0)
        fake_cause_add(
            causes, "spec.restartPolicy", "FieldValueNotSupported",
            cc_xasprintf("Unsupported value: \"%s\": supported values: \"Always\", \"OnFailure\", \"Never\"", policy));
}

/* Without what may change: images, the deadline, and tolerations when none of the old ones is missing. */
static json_t *fixed_part(const json_t *pod, const json_t *new_pod) {
    json_t *spec = json_deep_copy(cc_json_member(pod, "spec")), *container, *toleration;
    const json_t *now = cc_json_path(new_pod, "spec", "tolerations", NULL);
    bool all_kept = true;
    size_t i, k;

    json_array_foreach (cc_json_member(spec, "containers"), i, container)
        json_object_del(container, "image");
    json_object_del(spec, "activeDeadlineSeconds");
    json_array_foreach (cc_json_member(spec, "tolerations"), i, toleration) {
        bool is_kept = false;
        for (k = 0; k < json_array_size(now); k++)
            is_kept = is_kept || json_equal(toleration, json_array_get(now, k));
        all_kept = all_kept && is_kept;
    }
    if (all_kept)
        json_object_del(spec, "tolerations");
    return spec;
}

/* One of each family. */
static void check_addresses(const json_t *pod, json_t *causes) {
    const json_t *list = cc_json_path(pod, "status", "podIPs", NULL);
    size_t of_family[2] = {0}, i;
    json_t *item;
    struct cc_buf text;

    cc_buf_init(&text, 4096);
    json_array_foreach (list, i, item) {
        const char *address = cc_text_or(cc_json_text(item, "ip"), "");
        of_family[strchr(address, ':') != NULL]++;
        cc_buf_printf(&text, "%s{\"IP\":\"%s\"}", i ? "," : "", address);
    }
    if (of_family[0] > 1 || of_family[1] > 1)
        fake_cause_add(
            causes, "status.podIPs", "FieldValueInvalid",
            cc_xasprintf("Invalid value: [%s]: may specify no more than one IP for each IP family", text.data));
    cc_buf_done(&text);
}

static void check_changed_pod(const json_t *old, const json_t *pod, json_t *causes) {
    check_addresses(pod, causes);
    if (json_object_get(old, "spec") == json_object_get(pod, "spec"))
        return;
    json_t *before cc_cleanup(cc_json_decref_p) = fixed_part(old, pod);
    json_t *after cc_cleanup(cc_json_decref_p) = fixed_part(pod, pod);

    if (json_object_size(before) == 0 || json_equal(before, after) ||
        (json_object_get(before, "tolerations") == NULL && json_equal(before, after)))
        return;
    fake_cause_add(
        causes, "spec", "FieldValueForbidden",
        cc_xstrdup("Forbidden: pod updates may not change fields other than "
                   "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
                   "`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
                   "(allow it to be set to 1 if it was previously negative)"));
}

static void check_node(const json_t *node, json_t *causes) {
    json_t *taint;
    size_t i;

    json_array_foreach (cc_json_path(node, "spec", "taints", NULL), i, taint) {
        const char *effect = cc_text_or(cc_json_text(taint, "effect"), "");
        char *field cc_cleanup(cc_free_p) = cc_xasprintf("metadata.taints[%zu].effect", i);

        if (strcmp(effect, "NoSchedule") != 0 && strcmp(effect, "PreferNoSchedule") != 0 &&
            strcmp(effect, "NoExecute") != 0)
            fake_cause_add(causes, field, "FieldValueNotSupported",
                           cc_xasprintf("Unsupported value: \"%s\": supported values: \"NoSchedule\", "
                                        "\"PreferNoSchedule\", \"NoExecute\"",
                                        effect));
    }
}

static void check_lease(const json_t *lease, json_t *causes) {
    const json_t *spec = cc_json_member(lease, "spec");
    int64_t seconds = cc_json_int(spec, "leaseDurationSeconds", 1), turns = cc_json_int(spec, "leaseTransitions", 0);

    if (seconds <= 0)
        fake_cause_add(causes, "spec.leaseDurationSeconds", "FieldValueInvalid",
                       cc_xasprintf("Invalid value: %lld: must be greater than 0", (long long)seconds));
    if (turns < 0)
        fake_cause_add(causes, "spec.leaseTransitions", "FieldValueInvalid",
                       cc_xasprintf("Invalid value: %lld: must be greater than or equal to 0", (long long)turns));
}

static void check_event(const json_t *event, json_t *causes) {
    const char *namespace = cc_text_or(cc_json_path(event, "involvedObject", "namespace", NULL)
                                           ? cc_json_text(cc_json_member(event, "involvedObject"), "namespace")
                                           : "",
                                       "");

    if (!cc_text_equal(namespace, cc_json_text(cc_json_member(event, "metadata"), "namespace")) && *namespace)
        refuse(causes, "involvedObject.namespace", namespace, "does not match event.namespace");
}

/* --- both -----------------------------------------------------------------------------------------------------------
 */

static bool is_kind(const struct fake_route *route, const char *kind) {
    return strcmp(route->resource->kind, kind) == 0;
}

static void fill(const struct fake_route *route, const json_t *old, json_t *object) {
    json_t *metadata = json_object_get(object, "metadata");

    if (is_kind(route, "Pod")) {
        fill_pod(object, old == NULL);
        fill_pod_status(object);
    } else if (is_kind(route, "Node")) {
        fill_node(object);
    } else if (is_kind(route, "Event")) {
        fill_event(object);
    }
    if (json_array_size(json_object_get(metadata, "finalizers")) == 0)
        json_object_del(metadata, "finalizers");
}

bool fake_admit(struct fake_kube *kube, const struct fake_route *route, const json_t *old, json_t *object,
                struct fake_answer *ret) {
    const json_t *schema = kube->schemas ? fake_schema_of(kube->schemas, route->resource->kind) : NULL;
    json_t *causes cc_cleanup(cc_json_decref_p) = json_array();

    if (!kube->schemas)
        return true;
    fill(route, old, object);
    check_metadata(route, old, object, causes);
    if (is_kind(route, "Pod") && !old)
        check_new_pod(object, causes);
    else if (is_kind(route, "Pod"))
        check_changed_pod(old, object, causes);
    else if (is_kind(route, "Node"))
        check_node(object, causes);
    else if (is_kind(route, "Lease"))
        check_lease(object, causes);
    else if (is_kind(route, "Event"))
        check_event(object, causes);
    if (schema) {
        fake_schema_fill(schema, object);
        fake_schema_check(kube->schemas, schema, old, object, causes);
    }
    if (json_array_size(causes) == 0)
        return true;
    *ret = fake_api_invalid(route, causes);
    return false;
}
