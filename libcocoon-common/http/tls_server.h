/* TLS for the HTTP server, on mbedTLS: TLS 1.2 with ECDHE and GCM or ChaCha20 only (contract/08 4.2), optional client
 * certificates (4.3). The pair and the authorities may be replaced at any time: running connections keep theirs. */
#ifndef CC_HTTP_TLS_SERVER_H
#define CC_HTTP_TLS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/error.h"
#include "http/server.h"

#define CC_TLS_HANDSHAKE_MS 30000   /* as for the head of a request: a crowd on a busy host takes its time */
#define CC_TLS_ORGANIZATIONS_MAX 64 /* of one client certificate; what is beyond does not count */
#define CC_TLS_NAME_BYTES_MAX 1024  /* of one name; a longer one, or one with a NUL, makes the certificate untrusted */

struct cc_tls_server;
/* Without a pair every handshake fails. */
struct cc_tls_server *cc_tls_server_new(void);
/* All connections must have ended. NULL is fine. */
void cc_tls_server_free(struct cc_tls_server *tls);
/* PEM texts; the certificate may be followed by its chain. INVALID when they cannot be read or do not belong together;
 * then the present pair stays. */
CC_MUST_USE int cc_tls_server_set_pair(struct cc_tls_server *tls, const char *certificate, const char *key,
                                       struct cc_err *err);
/* PEM bundle; NULL or "" = clients are not asked for certificates. INVALID when it holds none; then the present one
 * stays. */
CC_MUST_USE int cc_tls_server_set_client_authorities(struct cc_tls_server *tls, const char *bundle, struct cc_err *err);
/* For cc_http_server_secure; tls must outlive the server. */
struct cc_http_security cc_tls_server_port(struct cc_tls_server *tls);

/* Seconds since 1970 at which the first certificate of the text ends. */
CC_MUST_USE int cc_tls_certificate_end(const char *certificate, int64_t *ret_unix_s, struct cc_err *err);
/* From when to when it is valid, in the same way. */
CC_MUST_USE int cc_tls_certificate_span(const char *certificate, int64_t *ret_start_unix_s, int64_t *ret_end_unix_s,
                                        struct cc_err *err);
/* Whether the first certificate of the text names both as alternative names; address "" = any. */
bool cc_tls_certificate_names(const char *certificate, const char *host_name, const char *address);

/* PEM texts, owned. */
struct cc_tls_pair {
    char *certificate, *key;
};
void cc_tls_pair_done(struct cc_tls_pair *pair);
/* ECDSA P-256, serial 1, CN = host name, valid for 3650 days from now_unix_s; names: the host name and `localhost`, the
 * address and 127.0.0.1; for servers only (contract/08 4.2). address "" = none. */
CC_MUST_USE int cc_tls_self_signed(const char *host_name, const char *address, int64_t now_unix_s,
                                   struct cc_tls_pair *ret, struct cc_err *err);
/* ret->certificate is a PKCS #10 request as the signer kubernetes.io/kubelet-serving wants it (contract/08 4.2): O
 * `system:nodes`, CN `system:node:<name>`; names: the node's, the address and 127.0.0.1. A new P-256 key. */
CC_MUST_USE int cc_tls_kubelet_request(const char *node_name, const char *address, struct cc_tls_pair *ret,
                                       struct cc_err *err);

#endif
