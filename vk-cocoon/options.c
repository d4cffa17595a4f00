#include "options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quantity.h"
#include "base/text.h"
#include "runtime/cli_arguments.h"
#include "snapshots/snapshots.h"

const char *vk_environment_text(const struct vk_environment *environment, const char *name) {
    const char *value = environment && environment->getenv ? environment->getenv(environment->ctx, name) : getenv(name);
    return value ? value : "";
}

/* --- single variables -------------------------------------------------------------------------------------------- */

struct reader {
    const struct vk_environment *environment;
    struct vk_options *options;
};

static const char *text_of(const struct reader *reader, const char *name, const char *fallback) {
    const char *value = vk_environment_text(reader->environment, name);
    return cc_arena_strdup(&reader->options->arena, cc_text_or(value, fallback));
}

/* Decisions 24 and 62: a malformed number is fatal. */
static int read_int(const struct reader *reader, const char *name, int64_t fallback, int64_t min, int64_t max,
                    int64_t *ret, struct cc_err *err) {
    const char *value = vk_environment_text(reader->environment, name);
    if (!*value) {
        *ret = fallback;
        return CC_OK;
    }
    if (!cc_parse_int64(value, min, max, ret))
        return cc_err_set(err, CC_INVALID, "parse %s=\"%s\": must be a whole number from %lld to %lld", name, value,
                          (long long)min, (long long)max);
    return CC_OK;
}

/* Decision 62: a malformed boolean keeps the default. */
static bool read_bool(const struct reader *reader, const char *name, bool fallback) {
    bool value = fallback;
    cc_ignore(cc_parse_bool(vk_environment_text(reader->environment, name), &value), "malformed keeps the default");
    return value;
}

static int read_quantity(const struct reader *reader, const char *name, const char *fallback, const char **ret,
                         struct cc_err *err) {
    const char *value = text_of(reader, name, fallback);
    struct cc_quantity quantity;
    struct cc_err cause;
    if (*value && cc_quantity_parse(value, &quantity, &cause))
        return cc_err_set(err, CC_INVALID,
                          "parse %s=\"%s\": must be a Kubernetes quantity such as 8, 500m or 64Gi (%s)", name, value,
                          cause.msg);
    if (*value && quantity.negative && !cc_quantity_is_zero(&quantity))
        return cc_err_set(err, CC_INVALID, "parse %s=\"%s\": must be a quantity of 0 or more", name, value);
    *ret = value;
    return CC_OK;
}

/* A decimal number as client-go's QPS is one; digits with at most one point, an optional minus. */
static int read_rate(const struct reader *reader, const char *name, double fallback, double *ret, struct cc_err *err) {
    const char *value = vk_environment_text(reader->environment, name);
    if (!*value) {
        *ret = fallback;
        return CC_OK;
    }
    char *end = NULL;
    errno = 0;
    double rate = strtod(value, &end);
    if (strspn(value, "-.0123456789") != strlen(value) || *end || errno || rate > VK_K8S_RATE_MAX ||
        rate < -VK_K8S_RATE_MAX)
        return cc_err_set(err, CC_INVALID,
                          "parse %s=\"%s\": must be a number of requests a second up to %d; negative = "
                          "no limit",
                          name, value, VK_K8S_RATE_MAX);
    *ret = rate;
    return CC_OK;
}

/* --- first half --------------------------------------------------------------------------------------------------- */

/* contract/08 1.2 note 3: the stricter of the two published rules. The value is a secret: it is not in the message. */
static int check_vnc_password(const char *password, struct cc_err *err) {
    bool is_bad = strlen(password) > VK_VNC_PASSWORD_BYTES_MAX;
    for (const char *c = password; *c; c++)
        is_bad = is_bad || iscntrl((unsigned char)*c) || isspace((unsigned char)*c) || *c == '"';
    if (is_bad)
        return cc_err_set(err, CC_INVALID,
                          "COCOON_MACOS_VNC_PASSWORD: must be at most %d bytes without control "
                          "characters, blanks or double quotes",
                          VK_VNC_PASSWORD_BYTES_MAX);
    return CC_OK;
}

/* host:port as Go's net.SplitHostPort cuts it; an IPv6 host needs brackets. */
static int read_peer_addr(const struct reader *reader, struct cc_err *err) {
    struct vk_options *options = reader->options;
    options->peer_addr = text_of(reader, "VK_PEER_ADDR", ":12501");
    const char *colon = strrchr(options->peer_addr, ':');
    int64_t port = 0;
    bool is_good = colon && cc_parse_int64(colon + 1, 1, 65535, &port) && colon[1] != '+';
    if (is_good) {
        size_t host_bytes = (size_t)(colon - options->peer_addr);
        const char *host = options->peer_addr;
        bool is_bracketed = host_bytes >= 2 && host[0] == '[' && host[host_bytes - 1] == ']';
        is_good = is_bracketed ||
                  (!memchr(host, ':', host_bytes) && !memchr(host, '[', host_bytes) && !memchr(host, ']', host_bytes));
    }
    if (!is_good)
        return cc_err_set(err, CC_INVALID,
                          "parse VK_PEER_ADDR=\"%s\": must be host:port, :port or [v6]:port with a port "
                          "from 1 to 65535",
                          options->peer_addr);
    options->peer_port = (int)port;
    return CC_OK;
}

static int check_node_ip(const char *ip, struct cc_err *err) {
    unsigned char bytes[sizeof(struct in6_addr)];
    if (*ip && inet_pton(AF_INET, ip, bytes) != 1 && inet_pton(AF_INET6, ip, bytes) != 1)
        return cc_err_set(err, CC_INVALID,
                          "VK_NODE_IP=\"%s\": must be an IPv4 or IPv6 address, or unset for the first "
                          "IPv4 address of this host that is not loopback",
                          ip);
    return CC_OK;
}

static int read_identity(const struct reader *reader, struct cc_err *err) {
    struct vk_options *options = reader->options;
    options->snapshot_cpu_class = text_of(reader, "VK_SNAPSHOT_CPU_CLASS", "");
    if (!cc_name_is_label_value(options->snapshot_cpu_class))
        return cc_err_set(err, CC_INVALID,
                          "VK_SNAPSHOT_CPU_CLASS=\"%s\": must be a Kubernetes label value (at most 63 of "
                          "A-Z a-z 0-9 - _ . with a letter or digit at both ends)",
                          options->snapshot_cpu_class);
    options->node_name = text_of(reader, "VK_NODE_NAME", VK_DEFAULT_NODE_NAME);
    if (!cc_name_is_dns1123_subdomain(options->node_name))
        return cc_err_set(err, CC_INVALID,
                          "VK_NODE_NAME=\"%s\": must be a DNS-1123 subdomain (at most 253 of a-z 0-9 - . "
                          "with a letter or digit at both ends), unique per host",
                          options->node_name);
    options->node_pool = text_of(reader, "VK_NODE_POOL", "default");
    /* Upstream finds out at registration, which ends the process as well. */
    if (!cc_name_is_label_value(options->node_pool))
        return cc_err_set(err, CC_INVALID,
                          "VK_NODE_POOL=\"%s\": must be a Kubernetes label value (at most 63 of A-Z a-z "
                          "0-9 - _ . with a letter or digit at both ends)",
                          options->node_pool);
    options->provider_id = text_of(reader, "VK_PROVIDER_ID", "");
    options->node_ip = text_of(reader, "VK_NODE_IP", "");
    return check_node_ip(options->node_ip, err);
}

int vk_options_read_identity(const struct vk_environment *environment, struct vk_options *options, struct cc_err *err) {
    struct reader reader = {environment, options};
    options->vnc_password = text_of(&reader, "COCOON_MACOS_VNC_PASSWORD", "");
    int rc = check_vnc_password(options->vnc_password, err);
    if (!rc)
        rc = read_peer_addr(&reader, err);
    if (!rc)
        rc = read_identity(&reader, err);
    if (rc)
        return rc;

    int64_t port = VK_DEFAULT_KUBELET_PORT;
    cc_ignore(cc_parse_int64(vk_environment_text(environment, "VK_KUBELET_PORT"), 1, 65535, &port),
              "contract/08 1.2: anything else silently means the default");
    options->kubelet_port = (int)port;
    options->metrics_addr = text_of(&reader, "VK_METRICS_ADDR", ":9091");
    options->tls_certificate = text_of(&reader, "VK_TLS_CERT", "/etc/cocoon/vk/tls/vk-kubelet.crt");
    options->tls_key = text_of(&reader, "VK_TLS_KEY", "/etc/cocoon/vk/tls/vk-kubelet.key");
    options->client_authorities = text_of(&reader, "VK_CLIENT_CA", "");
    return CC_OK;
}

/* --- second half -------------------------------------------------------------------------------------------------- */

static int read_resources(const struct reader *reader, struct cc_err *err) {
    struct vk_options *options = reader->options;
    const char *reserve = text_of(reader, "VK_RESERVE_PERCENT", "20");
    int64_t percent;
    if (!cc_parse_int64(reserve, 0, 100, &percent))
        return cc_err_set(err, CC_INVALID, "parse VK_RESERVE_PERCENT=\"%s\": must be 0-100", reserve);
    options->reserve_percent = (int)percent;

    const struct {
        const char *name, *fallback;
        const char **ret;
    } quantities[] = {
        {"VK_NODE_CPU", "", &options->node_cpu},         {"VK_NODE_MEM", "", &options->node_mem},
        {"VK_NODE_STORAGE", "", &options->node_storage}, {"VK_NODE_HUGEPAGES", "", &options->node_hugepages},
        {"VK_NODE_PODS", "256", &options->node_pods},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(quantities); i++) {
        int rc = read_quantity(reader, quantities[i].name, quantities[i].fallback, quantities[i].ret, err);
        if (rc)
            return rc;
    }
    return CC_OK;
}

static int read_restore_mode(const struct reader *reader, struct cc_err *err) {
    struct vk_options *options = reader->options;
    return vk_restore_mode_parse(text_of(reader, "VK_RESTORE_MODE", "mmap"), &options->restore_mode, err);
}

/* Decision 21: what the daemon does not know it leaves alone unless told otherwise. */
static int read_orphan_policy(const struct reader *reader, struct cc_err *err) {
    char *policy cc_cleanup(cc_free_p) = cc_text_trim(vk_environment_text(reader->environment, "VK_ORPHAN_POLICY"));
    if (!*policy || cc_text_equal_fold(policy, "alert"))
        reader->options->orphan_policy = VK_ORPHAN_ALERT;
    else if (cc_text_equal_fold(policy, "keep"))
        reader->options->orphan_policy = VK_ORPHAN_KEEP;
    else if (cc_text_equal_fold(policy, "destroy"))
        reader->options->orphan_policy = VK_ORPHAN_DESTROY;
    else
        return cc_err_set(err, CC_INVALID, "VK_ORPHAN_POLICY=\"%s\": must be alert, keep or destroy", policy);
    return CC_OK;
}

static int read_registry(const struct reader *reader, struct cc_err *err) {
    struct vk_options *options = reader->options;
    const char *registry = text_of(reader, "OCI_REGISTRY", "");
    if (!*registry)
        return cc_err_set(err, CC_INVALID,
                          "OCI_REGISTRY must be set: host[:port][/path], or none to keep snapshots on "
                          "this node only");
    options->registry_less = cc_text_equal(registry, "none");
    options->registry = options->registry_less ? "" : registry;
    if (options->registry_less)
        return CC_OK;
    return cc_registry_base_parse(registry, &options->arena, &options->registry_base, err);
}

static int read_transfers(const struct reader *reader, struct cc_err *err) {
    struct vk_options *options = reader->options;
    const struct {
        const char *name;
        int64_t fallback, max;
        bool zero_is_default;
        int64_t *ret;
    } numbers[] = {
        {"SNAPSHOT_ZSTD_LEVEL", 0, VK_ZSTD_LEVEL_MAX, false, &options->zstd_level},
        {"SNAPSHOT_CHUNK_SIZE_MIB", 0, VK_CHUNK_SIZE_MIB_MAX, false, &options->chunk_size_mib},
        {"SNAPSHOT_TRANSFER_CONCURRENCY", 8, VK_TRANSFER_CONCURRENCY_MAX, true, &options->transfer_concurrency},
        {"SNAPSHOT_MEMORY_BUDGET_MIB", 9216, VK_BUDGET_MIB_MAX, true, &options->memory_budget_mib},
        {"SNAPSHOT_PULL_BUDGET_MIB", 2048, VK_BUDGET_MIB_MAX, true, &options->pull_budget_mib},
        {"SNAPSHOT_PUSH_CONCURRENCY", VK_PUSHES_AT_ONCE, VK_TRANSFERS_AT_ONCE_MAX, true, &options->pushes_at_once},
        {"SNAPSHOT_PULL_CONCURRENCY", VK_PULLS_AT_ONCE, VK_TRANSFERS_AT_ONCE_MAX, true, &options->pulls_at_once},
        {"SNAPSHOT_PEER_CONCURRENCY", VK_PEER_RESTORES_AT_ONCE, VK_TRANSFERS_AT_ONCE_MAX, true,
         &options->peer_restores_at_once},
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(numbers); i++) {
        int rc = read_int(reader, numbers[i].name, numbers[i].fallback, 0, numbers[i].max, numbers[i].ret, err);
        if (rc)
            return rc;
        if (numbers[i].zero_is_default && *numbers[i].ret == 0)
            *numbers[i].ret = numbers[i].fallback;
    }
    return CC_OK;
}

static void read_paths(const struct reader *reader) {
    struct vk_options *options = reader->options;
    options->cocoon_binary = text_of(reader, "VK_COCOON_BIN", "/usr/local/bin/cocoon");
    options->cocoon_macos_binary = text_of(reader, "VK_COCOON_MACOS_BIN", "/usr/local/bin/cocoon-macos");
    options->root_directory = text_of(reader, "COCOON_ROOT_DIR", "/var/lib/cocoon");
    options->leases_path = text_of(reader, "VK_LEASES_PATH", "/var/lib/cocoon/net/leases.json");
    options->staging_directory = text_of(reader, "VK_STAGING_DIR", "/var/lib/cocoon/vk-staging");
    options->snapshot_directory = text_of(reader, "VK_COCOON_SNAPSHOT_DIR", "/var/lib/cocoon/snapshot/localfile");
    options->cgroup_parent = text_of(reader, "COCOON_CGROUP_PARENT", "cocoon.slice");
    options->control_socket = text_of(reader, "VK_COCOON_NET_CONTROL_SOCKET", "/run/cocoon-net/control.sock");
    if (cc_text_equal(options->control_socket, "none"))
        options->control_socket = NULL;
    options->host_namespaces = read_bool(reader, "VK_HOST_NAMESPACES", false);
    options->serving_request = read_bool(reader, "VK_SERVING_CSR", false);
}

int vk_options_read_rest(const struct vk_environment *environment, struct vk_options *options, struct cc_err *err) {
    struct reader reader = {environment, options};
    int rc = read_rate(&reader, "COCOON_K8S_QPS", 50, &options->k8s_qps, err);
    if (!rc)
        rc = read_int(&reader, "COCOON_K8S_BURST", 100, 0, VK_K8S_RATE_MAX, &options->k8s_burst, err);
    if (!rc)
        rc = read_resources(&reader, err);
    if (!rc)
        rc = read_restore_mode(&reader, err);
    if (!rc)
        rc = read_orphan_policy(&reader, err);
    if (!rc)
        rc = read_registry(&reader, err);
    if (!rc)
        rc = read_transfers(&reader, err);
    if (!rc)
        read_paths(&reader);
    return rc;
}

void vk_options_done(struct vk_options *options) {
    cc_arena_done(&options->arena);
}
