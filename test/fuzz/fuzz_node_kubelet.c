/* What clients of the kubelet API send: method, path, query, a header's value, one a line; then two logs, parted by an
 * empty line. Accepted queries are in range, nothing is allowed by an odd path, and the overlap of logs is one. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "http/server_parse.h"
#include "kubelet/auth.h"
#include "kubelet/figures.h"
#include "kubelet/logs.h"
#include "kubelet/upgrade.h"

static void check_query(const struct cc_http_server_request *request) {
    struct vk_log_query query = {0};
    struct cc_err err = {0};
    int rc = vk_log_query_parse(request, &query, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 || rc == CC_INVALID);
    fuzz_require(rc != 0 || (query.tail_lines >= -1 && query.limit_bytes >= -1 && query.since_seconds >= -1));
    for (size_t k = 0; k < 4; k++) {
        char *value cc_cleanup(cc_free_p) = cc_http_server_query_at(request, "command", k);
        char *first cc_cleanup(cc_free_p) = cc_http_server_query(request, "command");
        fuzz_require(!value || first);
        fuzz_require(!value || strlen(value) <= strlen(request->query));
    }
}

static void check_auth(const struct cc_http_server_request *request) {
    const struct vk_auth_attributes attributes = vk_auth_attributes_of(request->method, request->path);
    fuzz_require(attributes.verb && attributes.count >= 1 && attributes.count <= 2);
    for (size_t i = 0; i < attributes.count; i++)
        fuzz_require(attributes.subresources[i] && *attributes.subresources[i]);
    /* Decision 67: whoever runs something in a guest needs create on nodes/proxy, whatever the method. */
    if (strncmp(request->path, "/exec/", 6) == 0)
        fuzz_require(strcmp(attributes.verb, "create") == 0 && attributes.count == 1 &&
                     strcmp(attributes.subresources[0], "proxy") == 0);
}

static void check_upgrade(const struct cc_http_server_request *request) {
    static const char *const supported[] = {"v5.channel.k8s.io", "v4.channel.k8s.io", NULL};
    bool any = false;
    const char *chosen = vk_upgrade_choose(request, "Sec-WebSocket-Protocol", supported, &any);
    fuzz_require(!chosen || any);
    fuzz_require(!chosen || chosen == supported[0] || chosen == supported[1]);
    (void)vk_upgrade_asks_for(request, "websocket");
}

static void check_logs(const char *before, const char *now) {
    size_t before_bytes = strlen(before), now_bytes = strlen(now);
    size_t overlap = vk_log_overlap(before, before_bytes, now, now_bytes);
    fuzz_require(overlap <= now_bytes && overlap <= before_bytes);
    fuzz_require(memcmp(before + before_bytes - overlap, now, overlap) == 0);
    if (before_bytes > 0 && before[before_bytes - 1] == '\n')
        fuzz_require(vk_log_overlap(before, before_bytes, before, before_bytes) == before_bytes);
}

static void check_figures(const char *text) {
    struct vk_vm_figures figures = {0};
    int64_t rx = 0, tx = 0;
    vk_figures_cpu_stat(text, &figures);
    vk_figures_interface(text, "eth0", &rx, &tx);
    fuzz_require(vk_figures_rss(text, 4096) >= 0 && vk_figures_process_seconds(text) >= 0);
    fuzz_require(vk_figures_node_seconds(text) >= 0 && vk_figures_node_memory(text) >= 0);
    fuzz_require(figures.cpu_seconds >= 0 && figures.throttled_seconds >= 0 && figures.throttled_periods >= 0);
    fuzz_require(rx >= 0 && tx >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *method cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *path cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *query cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *value cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *rest cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    struct cc_http_field fields[] = {{"Connection", value},
                                     {"Upgrade", value},
                                     {"Sec-WebSocket-Protocol", value},
                                     {"sec-websocket-protocol", value}};
    struct cc_http_server_request_headers headers = {fields, CC_ARRAY_LENGTH(fields), CC_ARRAY_LENGTH(fields)};
    const struct cc_http_server_request request = {
        .method = method, .path = path, .query = query, .peer = "", .body = "", .headers = &headers};
    check_query(&request);
    check_auth(&request);
    check_upgrade(&request);
    check_figures(rest);
    char *parting = strstr(rest, "\n\n");
    if (parting)
        parting[1] = '\0';
    check_logs(rest, parting ? parting + 2 : "");
    return 0;
}
