/* Typed objects from short texts with ' instead of ", for tests of pure functions. Everything aborts on malformed text.
 */
#ifndef TEST_SUPPORT_API_OBJECTS_H
#define TEST_SUPPORT_API_OBJECTS_H

#include <jansson.h>

#include "api/cocoonset.h"
#include "api/pod.h"

json_t *api_json(const char *single_quoted);
/* metadata {name, namespace, uid "uid-<name>", generation}, and the members of the spec as given. */
const struct cc_cocoonset *api_set(const char *namespace, const char *name, int64_t generation, const char *spec);
const struct cc_cocoonset *api_set_of(const json_t *json);
const struct cc_pod *api_pod(const char *single_quoted);
const struct cc_pod *api_pod_of(const json_t *json);
void api_set_free(const struct cc_cocoonset *set);

/* Text at a path of member names and list positions: api_at(pod, "spec", "containers", "0", "name", NULL). NULL when
 * there is none. */
json_t *api_at(json_t *json, ...) __attribute__((sentinel));
const char *api_text(json_t *json, ...) __attribute__((sentinel));

#endif
