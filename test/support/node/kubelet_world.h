/* An API server that only reviews, and a host with pods, for tests of the kubelet API. */
#ifndef TEST_NODE_KUBELET_WORLD_H
#define TEST_NODE_KUBELET_WORLD_H

#include <jansson.h>
#include <stddef.h>

#include "kube/client.h"
#include "kubelet/host.h"

/* Tokens: "admin" may do everything, "weak" nothing, "metrics" get nodes/metrics, "proxy" get nodes/proxy,
 * "broken-access" is known but its access review fails, "broken" fails as a token; others are nobody's. A user may do
 * what the token of the same name may. */
struct kubelet_world {
    struct cc_kube kube;
    struct vk_kubelet_host host;
    size_t token_reviews, access_reviews;
    json_t *last_access;    /* spec of the last SubjectAccessReview */
    const char *pod_list;   /* answer to a list of pods; NULL = none */
    const char *config_map; /* of client authorities: its answer; NULL = 404 */
    char last_path[512];
    json_t *signing;        /* the CertificateSigningRequest as it was posted last; NULL = none */
    json_t *signing_status; /* what a look at it finds as its status; NULL = nothing */
    size_t signing_posts;
    int signing_refusal; /* status of posts, 0 = they work */

    struct cc_object *pods[4];
    struct vk_vm *vms[4]; /* NULL = that pod has none */
    size_t pod_count;
    const char *log_text; /* what the CLI answers */
    int64_t log_lines;    /* asked for last */
    size_t log_calls;
    size_t exec_calls;
    char exec_words[1024]; /* "word|word|" of the last exec */
    bool exec_with_stdin;
};
void kubelet_world_open(struct kubelet_world *world);
void kubelet_world_close(struct kubelet_world *world);
/* Text with ' for ". vm_id NULL = no VM; its process and TAP may be set in world->vms. */
void kubelet_world_add_pod(struct kubelet_world *world, const char *single_quoted, const char *vm_id, int64_t pid);

#endif
