/* The command line of `kubectl cocoon`. Pure. */
#ifndef KC_ARGUMENTS_H
#define KC_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"

#define KC_NAMES_MAX 2
#define KC_DEFAULT_TIMEOUT_S 600
#define KC_TIMEOUT_MAX_S (7 * 24 * 3600)

enum kc_command {
    KC_STATUS,
    KC_SUSPEND,
    KC_WAKE,
    KC_MIGRATE,
    KC_HIBERNATE,
    KC_SNAPSHOTS,
    KC_VERSION,
    KC_HELP,
};

/* Texts are borrowed from argv; NULL = not given. */
struct kc_arguments {
    enum kc_command command;
    const char *names[KC_NAMES_MAX];
    int name_count;
    const char *namespace, *kubeconfig, *context;
    const char *registry; /* --registry, else OCI_REGISTRY */
    bool all_namespaces;
    bool json;
    bool wait;
    bool wake; /* hibernate --wake */
    int64_t timeout_s;
};

/* INVALID says what is wrong and what is accepted. */
CC_MUST_USE int kc_arguments_parse(int argc, char *const *argv, struct kc_arguments *ret, struct cc_err *err);
/* Whole text, with a final line end. */
const char *kc_usage(void);

#endif
