/* `cocoon-operator apply-crds`: brings the CRDs of a cluster up to date before an upgrade, and checks them after an
 * installation (decision 78). */
#ifndef OP_APPLY_CRDS_H
#define OP_APPLY_CRDS_H

#include <stdbool.h>

#include "base/attributes.h"
#include "base/error.h"
#include "kube/client.h"

#define OP_CRD_FILES_MAX 64
#define OP_CRD_ESTABLISH_MS 60000 /* from the apply until the API server serves the kind */
#define OP_APPLY_CRDS_MS 240000   /* the whole program */

/* The program: [--check] [--kubeconfig FILE] DIRECTORY. Returns its exit code: 0, 1 after a failure, 2 when called
 * wrongly. */
int op_apply_crds_main(int argc, char **argv);

/* Every *.yaml of the directory, in the order of names: applied server-side and waited for until it is established.
 * is_check: nothing is written; INVALID when the server's CRD lacks something that the file has, or is not established.
 * INVALID for a file that is no CustomResourceDefinition; NOT_FOUND for a directory without one. */
CC_YIELDS CC_MUST_USE int op_apply_crds(const struct cc_kube *kube, const char *directory, bool is_check,
                                        struct cc_err *err);

/* Does `have` contain all of `want`? Members of objects are looked for one by one, lists must be as long. Otherwise
 * *ret_path (caller frees) says where not: "versions[0].schema", "" for the values themselves; else it is NULL. */
bool op_json_contains(const json_t *have, const json_t *want, char **ret_path);

#endif
