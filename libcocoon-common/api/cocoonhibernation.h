/* CocoonHibernation: contract/01 chapter 4. */
#ifndef CC_API_COCOONHIBERNATION_H
#define CC_API_COCOONHIBERNATION_H

#include "api/pod.h"
#include "kube/object.h"

extern const struct cc_kube_resource cc_cocoonhibernation_resource;

struct cc_cocoonhibernation {
    struct cc_object base;
    const char *pod_name, *desire; /* "" when absent */
    int64_t observed_generation;
    const char *phase, *vm_name;
    struct cc_condition *conditions;
    size_t condition_count;
};
static inline const struct cc_cocoonhibernation *cc_cocoonhibernation_of(const struct cc_object *object) {
    return (const struct cc_cocoonhibernation *)object;
}
int cc_cocoonhibernation_decode(const json_t *json, struct cc_object **ret, struct cc_err *err);

#endif
