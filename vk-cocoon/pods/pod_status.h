/* What the pod controller itself decides and writes about a pod: contract/08 3.2, 3.3, 3.7. Pure. */
#ifndef VK_PODS_POD_STATUS_H
#define VK_PODS_POD_STATUS_H

#include <jansson.h>
#include <stdbool.h>

#include "api/pod.h"
#include "base/error.h"

#define VK_REASON_PROVIDER_FAILED "ProviderFailed"
#define VK_STATUS_MESSAGE_BYTES_MAX 1024

/* Old and new object of an update differ in what concerns the provider (3.2): the relevant digest, deletion, or uid. */
bool vk_pod_changed(const struct cc_pod *old_pod, const struct cc_pod *new_pod);
/* vk_pod_changed, and not only by annotations that the agent itself writes: somebody asks for something. */
bool vk_pod_changed_by_others(const struct cc_pod *old_pod, const struct cc_pod *new_pod);
/* 3.3.2: some container status is neither terminated nor waiting. */
bool vk_pod_is_running(const struct cc_pod *pod);
/* Phase Failed or Succeeded: never created or updated. */
bool vk_pod_is_finished(const struct cc_pod *pod);

/* Strategic merge patch of pods/status for a failed create or update (3.7, decision 53); NULL when the pod shows
 * exactly this already. New reference. */
json_t *vk_pod_failure_patch(const struct cc_pod *pod, const char *message);
/* Takes reason and message of an earlier failure away; NULL when there is none. New reference. */
json_t *vk_pod_recovery_patch(const struct cc_pod *pod);

#endif
