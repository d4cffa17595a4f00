/* NAME=value lines as the environment: options that are accepted are within the ranges that messages promise; a refusal
 * names a variable. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quantity.h"
#include "base/strmap.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "node/capacity.h"
#include "options.h"

static const char *environment_get(void *ctx, const char *name) {
    return cc_strmap_get(ctx, name);
}

static void check_quantity(const char *text) {
    struct cc_quantity quantity;
    fuzz_require(!*text || (cc_quantity_parse(text, &quantity, NULL) == 0 && !quantity.negative));
}

static void check_identity(const struct vk_options *options) {
    fuzz_require(cc_name_is_dns1123_subdomain(options->node_name) && cc_name_is_label_value(options->node_pool));
    fuzz_require(options->kubelet_port >= 1 && options->kubelet_port <= 65535);
    fuzz_require(options->peer_port >= 1 && options->peer_port <= 65535);
    fuzz_require(strlen(options->vnc_password) <= VK_VNC_PASSWORD_BYTES_MAX);
}

static void check_rest(const struct vk_options *options) {
    const char *const quantities[] = {options->node_cpu, options->node_mem, options->node_storage,
                                      options->node_hugepages, options->node_pods};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(quantities); i++)
        check_quantity(quantities[i]);
    fuzz_require(*options->node_pods && options->reserve_percent >= 0 && options->reserve_percent <= 100);
    fuzz_require(options->zstd_level >= 0 && options->zstd_level <= VK_ZSTD_LEVEL_MAX);
    fuzz_require(options->transfer_concurrency >= 1 && options->transfer_concurrency <= VK_TRANSFER_CONCURRENCY_MAX);
    fuzz_require(options->pushes_at_once >= 1 && options->pulls_at_once >= 1 && options->peer_restores_at_once >= 1);
    fuzz_require(options->memory_budget_mib >= 1 && options->pull_budget_mib >= 1);
    fuzz_require(options->k8s_burst >= 0 && options->k8s_qps <= VK_K8S_RATE_MAX);
    fuzz_require(options->registry_less || *options->registry_base.host);
    fuzz_require(strcmp(options->restore_mode, "copy") == 0 || strcmp(options->restore_mode, "ondemand") == 0 ||
                 strcmp(options->restore_mode, "mmap") == 0);
}

/* Whatever overrides are accepted, the node offers no more than it has. */
static void check_capacity(const struct vk_options *options) {
    const struct vk_host_facts facts = {.cpus = 8,
                                        .memory_bytes = INT64_C(1) << 34,
                                        .hugepages_total = 3,
                                        .hugepage_bytes = INT64_C(2) << 20,
                                        .storage_known = true,
                                        .storage_bytes = INT64_C(1) << 40,
                                        .storage_available_bytes = INT64_C(1) << 39};
    const struct vk_capacity_overrides overrides = {options->node_cpu,       options->node_mem,
                                                    options->node_hugepages, options->node_storage,
                                                    options->node_pods,      options->reserve_percent};
    struct cc_arena arena = {0};
    struct vk_capacity capacity;
    struct cc_err err = {0};
    int rc = vk_capacity_compute(&facts, &overrides, 12345, &arena, &capacity, &err);
    fuzz_require_error(rc, &err);
    for (size_t i = 0; rc == 0 && i < capacity.count; i++) {
        struct cc_quantity whole, rest;
        fuzz_require(cc_quantity_parse(capacity.items[i].capacity, &whole, NULL) == 0);
        fuzz_require(cc_quantity_parse(capacity.items[i].allocatable, &rest, NULL) == 0);
        fuzz_require(!rest.negative && cc_quantity_compare(&rest, &whole) <= 0);
    }
    cc_arena_done(&arena);
}

static void read_environment(const uint8_t *data, size_t size, struct cc_arena *arena, struct cc_strmap *ret) {
    struct fuzz_input input = fuzz_input_of(data, size);
    while (input.at < input.end) {
        char *line cc_cleanup(cc_free_p) = fuzz_line(&input);
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = '\0';
        cc_strmap_set(ret, arena, line, equals + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cc_arena arena = {0};
    struct cc_strmap variables = {0};
    read_environment(data, size, &arena, &variables);
    const struct vk_environment environment = {environment_get, &variables};
    struct vk_options options = {0};
    struct cc_err err = {0};
    int rc = vk_options_read_identity(&environment, &options, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        check_identity(&options);
        rc = vk_options_read_rest(&environment, &options, &err);
        fuzz_require_error(rc, &err);
        if (rc == 0) {
            check_rest(&options);
            check_capacity(&options);
        }
    }
    fuzz_require(rc == 0 || (rc == CC_INVALID && (strstr(err.msg, "VK_") || strstr(err.msg, "COCOON_") ||
                                                  strstr(err.msg, "SNAPSHOT_") || strstr(err.msg, "OCI_"))));
    vk_options_done(&options);
    cc_arena_done(&arena);
    return 0;
}
