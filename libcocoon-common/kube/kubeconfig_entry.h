/* One entry of a section of a kubeconfig: its members with their types checked, and messages that name file, entry and
 * field. For kubeconfig*.c. contract/04 C1.4, C2.4. */
#ifndef CC_KUBE_KUBECONFIG_ENTRY_H
#define CC_KUBE_KUBECONFIG_ENTRY_H

#include <jansson.h>
#include <stdbool.h>

#include "kube/config.h"

/* For messages: `kubeconfig <file>: user "admin": token: ...`. */
struct cc_kubeconfig_entry {
    const json_t *json;
    const char *file, *noun, *name;
    struct cc_arena *arena; /* texts go there */
};

/* INVALID; returns the code. */
int cc_kubeconfig_refuse(const struct cc_kubeconfig_entry *entry, const char *field, const char *why,
                         struct cc_err *err);
/* NULL when absent or empty. */
CC_MUST_USE int cc_kubeconfig_text(const struct cc_kubeconfig_entry *entry, const char *field, const char **ret,
                                   struct cc_err *err);
CC_MUST_USE int cc_kubeconfig_bool(const struct cc_kubeconfig_entry *entry, const char *field, bool *ret,
                                   struct cc_err *err);
/* Relative paths count from the folder of the entry's file. */
CC_MUST_USE int cc_kubeconfig_path(const struct cc_kubeconfig_entry *entry, const char *field, const char **ret,
                                   struct cc_err *err);
const char *cc_kubeconfig_resolve(const struct cc_kubeconfig_entry *entry, const char *path);
/* A "-data" member: base64 of a PEM text. */
CC_MUST_USE int cc_kubeconfig_data(const struct cc_kubeconfig_entry *entry, const char *field, const char **ret,
                                   struct cc_err *err);

/* The whole user: credentials, plugin, impersonation (kubeconfig_user.c). cluster: for what a plugin is told. */
CC_MUST_USE int cc_kubeconfig_read_user(const struct cc_kubeconfig_entry *user,
                                        const struct cc_kubeconfig_entry *cluster, struct cc_kube_config *config,
                                        struct cc_err *err);
/* Its member "exec" (kubeconfig_exec.c). */
CC_MUST_USE int cc_kubeconfig_read_exec(const struct cc_kubeconfig_entry *user,
                                        const struct cc_kubeconfig_entry *cluster, struct cc_kube_config *config,
                                        struct cc_err *err);

#endif
