/* Finding the API server and the credentials: contract/04 C1-C3, decision 59. */
#ifndef CC_KUBE_CONFIG_H
#define CC_KUBE_CONFIG_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/attributes.h"
#include "base/error.h"
#include "base/strmap.h"

#define CC_KUBE_CONFIG_FILES_MAX 64                /* in KUBECONFIG */
#define CC_KUBE_CREDENTIAL_BYTES_MAX (1024 * 1024) /* a CA, certificate, key or token file */
#define CC_SERVICE_ACCOUNT_DIRECTORY "/var/run/secrets/kubernetes.io/serviceaccount"

#define CC_KUBE_EXTRA_NAME_BYTES_MAX 512 /* an Impersonate-Extra header's name */

/* When a credential plugin gets our standard input. */
enum cc_kube_interactive { CC_KUBE_INTERACTIVE_IF_AVAILABLE, CC_KUBE_INTERACTIVE_NEVER, CC_KUBE_INTERACTIVE_ALWAYS };

/* A credential plugin (C2.7). */
struct cc_kube_exec {
    const char *api_version; /* client.authentication.k8s.io/v1 or v1beta1 */
    const char *command;     /* a bare name is looked up in PATH */
    struct cc_strlist arguments;
    struct cc_strmap environment;
    const char *install_hint; /* NULL = none; shown when the program is missing */
    enum cc_kube_interactive interactive;
    bool provide_cluster_info;
    const char *cluster_config; /* JSON of the cluster's extension for plugins; NULL = none */
};

struct cc_kube_config {
    struct cc_arena arena;
    const char *server;          /* "https://host:port[/prefix]", no trailing slash */
    const char *source;          /* for messages: the file(s), or "in-cluster" */
    const char *namespace;       /* of the context or the service account; "default" when none */
    const char *ca_pem;          /* NULL = system roots */
    const char *tls_server_name; /* NULL = host */
    bool insecure;
    const char *proxy_url;                   /* http, https, socks5; NULL = the proxy variables of the environment */
    const struct cc_kube_exec *exec;         /* NULL = none, or one of the credentials below is there and wins */
    const char *token;                       /* static bearer token */
    const char *token_file;                  /* re-read; wins over token */
    const char *certificate_pem, *key_pem;   /* from *-data */
    const char *certificate_file, *key_file; /* re-read every 5 min */
    const char *username, *password;
    const char *impersonate_user; /* C2.8; NULL = nobody */
    const char *impersonate_uid;
    struct cc_strlist impersonate_groups;
    struct cc_strlist impersonate_extra_headers, impersonate_extra_values; /* pairs: whole header name, value */
};

/* What the loader reads, so that tests can supply their own. */
struct cc_kube_config_sources {
    const char *flag;                                   /* --kubeconfig, NULL when not given */
    const char *context;                                /* of the files; NULL = their current-context */
    const char *(*getenv)(void *ctx, const char *name); /* NULL = getenv(3) */
    void *ctx;
    const char *service_account_directory; /* NULL = CC_SERVICE_ACCOUNT_DIRECTORY */
};

/* Order: flag; KUBECONFIG; in-cluster; ~/.kube/config (decision 59). Of a KUBECONFIG list missing files are skipped;
 * when none is left, in-cluster is tried, then it is an error. Caller cc_kube_config_free()s. Errors name the file and
 * the field. */
CC_MUST_USE int cc_kube_config_load(const struct cc_kube_config_sources *sources, struct cc_kube_config **ret,
                                    struct cc_err *err);
void cc_kube_config_free(struct cc_kube_config *config);
CC_DEFINE_CLEANUP(struct cc_kube_config, cc_kube_config_free)

/* The namespace file of the service account ("" when there is none): where the leader lease lives (04 B4). */
CC_MUST_USE int cc_kube_in_cluster_namespace(const struct cc_kube_config_sources *sources, struct cc_arena *arena,
                                             const char **ret, struct cc_err *err);

#endif
