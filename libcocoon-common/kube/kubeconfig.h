/* Kubeconfig files: merging and reading of one context. For config.c and its tests. contract/04 C1.2-C1.4, C2, C3. */
#ifndef CC_KUBE_KUBECONFIG_H
#define CC_KUBE_KUBECONFIG_H

#include <jansson.h>

#include "kube/config.h"

/* Adds the file to a merged configuration: {"current-context", "clusters": {name: {...}}, "users", "contexts"}; the
 * first file to define a name wins. Each entry keeps the file it came from as "@file". merged: an object, may be empty.
 * NOT_FOUND when the file does not exist; PROTOCOL, INVALID, LIMIT, IO, DENIED name the file. */
CC_MUST_USE int cc_kubeconfig_merge(json_t *merged, const char *path, struct cc_err *err);
/* True when nothing was defined at all. */
bool cc_kubeconfig_is_empty(const json_t *merged);
/* Reads the current context into config; texts go into its arena. sources: text for messages. */
CC_MUST_USE int cc_kubeconfig_read(const json_t *merged, const char *sources, struct cc_kube_config *config,
                                   struct cc_err *err);

#endif
