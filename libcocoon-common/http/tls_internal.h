/* What the files of the TLS server share. */
#ifndef CC_HTTP_TLS_INTERNAL_H
#define CC_HTTP_TLS_INTERNAL_H

#include <mbedtls/pk.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>

#include "http/tls_server.h"

/* One immutable state of the server's secrets, counted by the server and its connections. */
struct cc_tls_context {
    unsigned references;
    mbedtls_ssl_config config;
    mbedtls_x509_crt certificate, authorities;
    mbedtls_pk_context key;
    bool has_authorities;
};
void cc_tls_context_unref(struct cc_tls_context *context); /* NULL is fine */
/* The present state with a reference; NULL before the first pair. */
struct cc_tls_context *cc_tls_server_context(struct cc_tls_server *tls);

/* "<text>: <what mbedTLS says>" */
int cc_tls_error(struct cc_err *err, enum cc_code code, int mbedtls_code, const char *text);
/* contract/08 4.3.1: the names of a client certificate. NULL when none was shown. */
struct cc_tls_peer *cc_tls_peer_of(const mbedtls_ssl_context *ssl);
void cc_tls_peer_free(struct cc_tls_peer *peer); /* NULL is fine */

CC_YIELDS int cc_tls_stream_open(void *tls, int fd, void **ret_stream, const struct cc_tls_peer **ret_peer,
                                 struct cc_err *err);
CC_YIELDS int cc_tls_stream_read(void *stream, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err);
CC_YIELDS int cc_tls_stream_write(void *stream, const void *bytes, size_t count, struct cc_err *err);
void cc_tls_stream_finish(void *stream);
void cc_tls_stream_close(void *stream);

#endif
