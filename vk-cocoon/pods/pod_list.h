/* One live list of this node's pods, for startup reconcile. contract/07 14.1, decisions 41, 61. */
#ifndef VK_PODS_POD_LIST_H
#define VK_PODS_POD_LIST_H

#include <stddef.h>

#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"
#include "kube/watch_cache.h"

#define VK_PODS_MAX 10000 /* LIMIT beyond */

/* *ret: references, caller cc_object_list_done. *ret_malformed counts pods that could not be decoded (each is logged):
 * the list is then not whole, and nobody may take a VM for an orphan on its evidence. */
CC_YIELDS CC_MUST_USE int vk_pods_list(const struct cc_kube *kube, const char *node_name, struct cc_object_list *ret,
                                       size_t *ret_malformed, struct cc_err *err);

#endif
