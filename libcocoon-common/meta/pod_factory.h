/* The pods that the operator creates: contract/02 chapter 16. Pure: a JSON object ready to POST. */
#ifndef CC_META_POD_FACTORY_H
#define CC_META_POD_FACTORY_H

#include <jansson.h>

#include "api/cocoonset.h"
#include "base/attributes.h"
#include "base/error.h"

struct cc_pod_build_options {
    const char *main_vm_name;   /* sub-agents: fork-from */
    const char *main_node;      /* sub-agents: spec.nodeName */
    bool restore;               /* restore-from-hibernate = true */
    const char *preferred_node; /* main, release wake: preferred affinity unless spec.nodeName is set; NULL = none */
};
/* INVALID when a quantity of the spec is malformed. New reference. */
CC_MUST_USE int cc_build_agent_pod(const struct cc_cocoonset *set, int32_t slot,
                                   const struct cc_pod_build_options *options, json_t **ret, struct cc_err *err);
CC_MUST_USE int cc_build_toolbox_pod(const struct cc_cocoonset *set, const struct cc_toolbox_spec *toolbox,
                                     bool restore, json_t **ret, struct cc_err *err);

#endif
