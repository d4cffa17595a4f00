/* Configuration of vk-cocoon: environment variables only, no flags, no file. contract/08 chapter 1, decisions 20-24,
 * 62, 69,
 * 73. An empty value counts as unset wherever there is a default. Every error is fatal and names the variable, its
 * value and what is accepted.
 *
 * Reading comes in two halves because contract/08 1.3 fixes which fault is reported first: between them the caller
 * finds the node address and the API server. */
#ifndef VK_OPTIONS_H
#define VK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "oci/reference.h"
#include "provider/provider.h"

#define VK_DEFAULT_NODE_NAME "cocoon-pool"
#define VK_DEFAULT_KUBELET_PORT 10250
#define VK_VNC_PASSWORD_BYTES_MAX 8
#define VK_ZSTD_LEVEL_MAX 22
#define VK_CHUNK_SIZE_MIB_MAX 4096
#define VK_TRANSFER_CONCURRENCY_MAX 256
#define VK_BUDGET_MIB_MAX (1024 * 1024)
#define VK_TRANSFERS_AT_ONCE_MAX 64
#define VK_K8S_RATE_MAX 1000000

/* Where variables come from, so that tests can supply their own. */
struct vk_environment {
    const char *(*getenv)(void *ctx, const char *name); /* NULL = getenv(3) */
    void *ctx;
};

/* Texts live in the arena; never NULL unless said, "" = unset. */
struct vk_options {
    struct cc_arena arena;

    /* first half */
    const char *vnc_password; /* COCOON_MACOS_VNC_PASSWORD, "" = VNC off; never logged */
    const char *peer_addr;    /* VK_PEER_ADDR */
    int peer_port;            /* its port, also dialled on peers */
    const char *snapshot_cpu_class;
    const char *node_name, *node_pool, *provider_id;
    const char *node_ip; /* "" = detect */
    int kubelet_port;    /* VK_KUBELET_PORT; anything malformed silently means 10250 */
    const char *metrics_addr;
    const char *tls_certificate, *tls_key; /* paths */
    const char *client_authorities;        /* VK_CLIENT_CA, a path; "" = the cluster's, from its ConfigMap */

    /* second half */
    double k8s_qps; /* queue buckets of the pod controller (decision 60); negative = none */
    int64_t k8s_burst;
    int reserve_percent;
    const char *node_cpu, *node_mem, *node_storage, *node_hugepages; /* quantities, "" = ask the host */
    const char *node_pods;                                           /* quantity */
    const char *restore_mode;                                        /* copy, ondemand, mmap */
    enum vk_orphan_policy orphan_policy;
    bool registry_less;   /* OCI_REGISTRY=none (decision 20) */
    const char *registry; /* as written; "" when registry-less */
    struct cc_registry_base registry_base;
    int64_t zstd_level, chunk_size_mib, transfer_concurrency, memory_budget_mib, pull_budget_mib;
    int64_t pushes_at_once, pulls_at_once, peer_restores_at_once; /* decision 58 */
    const char *cocoon_binary, *cocoon_macos_binary;
    const char *root_directory, *leases_path, *staging_directory, *snapshot_directory, *cgroup_parent;
    const char *control_socket; /* NULL = off (decision 73) */
    bool host_namespaces;       /* decision 77 */
    bool serving_request;       /* VK_SERVING_CSR: ask the cluster for the serving certificate */
};

/* Up to and including the texts of the node's identity. options: zeroed. */
CC_MUST_USE int vk_options_read_identity(const struct vk_environment *environment, struct vk_options *options,
                                         struct cc_err *err);
/* The rest. */
CC_MUST_USE int vk_options_read_rest(const struct vk_environment *environment, struct vk_options *options,
                                     struct cc_err *err);
void vk_options_done(struct vk_options *options);

/* A variable, "" when unset. */
const char *vk_environment_text(const struct vk_environment *environment, const char *name);

#endif
