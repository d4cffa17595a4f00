/* One TLS connection: handshake, bytes, and who the client is. */
#include <errno.h>
#include <mbedtls/oid.h>
#include <string.h>
#include <sys/socket.h>

#include "aio/fiber.h"
#include "aio/io.h"
#include "base/alloc.h"
#include "http/tls_internal.h"

struct tls_stream {
    struct cc_tls_context *context;
    mbedtls_ssl_context ssl;
    struct cc_tls_peer *peer;
    int fd;
    bool is_broken; /* a record was sent in part and given up: nothing may follow it */
};

/* --- who it is ------------------------------------------------------------------------------------------------------
 */

/* NULL for a name that we would rather not compare with others. */
static char *name_text(const mbedtls_x509_buf *value) {
    if (value->len > CC_TLS_NAME_BYTES_MAX || memchr(value->p, 0, value->len))
        return NULL;
    return cc_xstrndup((const char *)value->p, value->len);
}

static bool take_name(struct cc_tls_peer *peer, const mbedtls_x509_name *at) {
    if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_CN, &at->oid) == 0) {
        /* Go takes the last of several common names. */
        free(peer->common_name);
        peer->common_name = name_text(&at->val);
        return peer->common_name != NULL;
    }
    if (MBEDTLS_OID_CMP(MBEDTLS_OID_AT_ORGANIZATION, &at->oid) != 0)
        return true;
    char *organization = peer->organization_count < CC_TLS_ORGANIZATIONS_MAX ? name_text(&at->val) : NULL;
    if (organization)
        peer->organizations[peer->organization_count++] = organization;
    return organization != NULL;
}

struct cc_tls_peer *cc_tls_peer_of(const mbedtls_ssl_context *ssl) {
    const mbedtls_x509_crt *certificate = mbedtls_ssl_get_peer_cert(ssl);
    if (!certificate)
        return NULL;
    struct cc_tls_peer *peer = CC_NEW(struct cc_tls_peer);
    peer->is_trusted = mbedtls_ssl_get_verify_result(ssl) == 0;
    peer->common_name = cc_xstrdup("");
    peer->organizations = cc_xcalloc(CC_TLS_ORGANIZATIONS_MAX, sizeof *peer->organizations);
    for (const mbedtls_x509_name *at = &certificate->subject; at; at = at->next)
        if (at->oid.p && !take_name(peer, at))
            peer->is_trusted = false;
    if (!peer->common_name)
        peer->common_name = cc_xstrdup("");
    return peer;
}

void cc_tls_peer_free(struct cc_tls_peer *peer) {
    if (!peer)
        return;
    for (size_t i = 0; i < peer->organization_count; i++)
        free(peer->organizations[i]);
    free(peer->organizations);
    free(peer->common_name);
    free(peer);
}

/* --- bytes ----------------------------------------------------------------------------------------------------------
 */

static int socket_send(void *ctx, const unsigned char *bytes, size_t count) {
    const struct tls_stream *stream = ctx;
    ssize_t sent;
    do
        sent = send(stream->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return (int)sent;
    return errno == EAGAIN || errno == EWOULDBLOCK ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int socket_receive(void *ctx, unsigned char *bytes, size_t count) {
    const struct tls_stream *stream = ctx;
    ssize_t got;
    do
        got = recv(stream->fd, bytes, count, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got >= 0)
        return (int)got;
    return errno == EAGAIN || errno == EWOULDBLOCK ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_CONN_EOF;
}

/* Waits for what mbedTLS wants; other codes become an error. */
static int settle(const struct tls_stream *stream, int rc, const char *what, struct cc_err *err) {
    if (rc == MBEDTLS_ERR_SSL_WANT_READ)
        return cc_io_wait(stream->fd, CC_IO_READ, err);
    if (rc == MBEDTLS_ERR_SSL_WANT_WRITE)
        return cc_io_wait(stream->fd, CC_IO_WRITE, err);
    if (rc == MBEDTLS_ERR_SSL_CONN_EOF || rc == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
        return cc_err_set(err, CC_UNAVAILABLE, "%s: the client has closed", what);
    return cc_tls_error(err, CC_PROTOCOL, rc, what);
}

static int handshake(struct tls_stream *stream, struct cc_err *err) {
    CC_DEADLINE_MS(CC_TLS_HANDSHAKE_MS);
    int rc = mbedtls_ssl_setup(&stream->ssl, &stream->context->config);
    if (rc != 0)
        return cc_tls_error(err, CC_LIMIT, rc, "TLS");
    mbedtls_ssl_set_bio(&stream->ssl, stream, socket_send, socket_receive, NULL);
    for (;;) {
        rc = mbedtls_ssl_handshake(&stream->ssl);
        if (rc == 0)
            return 0;
        rc = settle(stream, rc, "TLS handshake", err);
        if (rc != 0)
            return rc;
        /* Each step of it is arithmetic of a millisecond or more. */
        rc = cc_yield_if_due(err);
        if (rc != 0)
            return rc;
    }
}

int cc_tls_stream_open(void *tls, int fd, void **ret_stream, const struct cc_tls_peer **ret_peer, struct cc_err *err) {
    struct cc_tls_context *context = cc_tls_server_context(tls);
    if (!context)
        return cc_err_set(err, CC_UNAVAILABLE, "there is no serving certificate");
    struct tls_stream *stream = CC_NEW(struct tls_stream);
    stream->context = context;
    stream->fd = fd;
    mbedtls_ssl_init(&stream->ssl);
    int rc = handshake(stream, err);
    if (rc != 0) {
        stream->is_broken = true;
        cc_tls_stream_close(stream);
        return rc;
    }
    stream->peer = cc_tls_peer_of(&stream->ssl);
    *ret_stream = stream;
    *ret_peer = stream->peer;
    return 0;
}

int cc_tls_stream_read(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct tls_stream *stream = ctx;
    *ret_count = 0;
    for (;;) {
        int rc = cc_yield_if_due(err);
        if (rc != 0)
            return rc;
        int got = mbedtls_ssl_read(&stream->ssl, bytes, capacity);
        if (got >= 0)
            return *ret_count = (size_t)got, 0;
        if (got == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY || got == MBEDTLS_ERR_SSL_CONN_EOF)
            return 0;
        rc = settle(stream, got, "TLS", err);
        if (rc != 0)
            return rc;
    }
}

int cc_tls_stream_write(void *ctx, const void *bytes, size_t count, struct cc_err *err) {
    struct tls_stream *stream = ctx;
    const unsigned char *at = bytes;
    if (stream->is_broken)
        return cc_err_set(err, CC_UNAVAILABLE, "the TLS connection is broken");
    while (count > 0) {
        int sent = mbedtls_ssl_write(&stream->ssl, at, count);
        if (sent >= 0) {
            at += sent;
            count -= (size_t)sent;
            int due = count > 0 ? cc_yield_if_due(err) : 0;
            if (due != 0)
                return stream->is_broken = true, due;
            continue;
        }
        int rc = settle(stream, sent, "TLS", err);
        if (rc != 0)
            return stream->is_broken = true, rc;
    }
    return 0;
}

void cc_tls_stream_finish(void *ctx) {
    struct tls_stream *stream = ctx;
    if (!stream->is_broken)
        (void)mbedtls_ssl_close_notify(&stream->ssl);
    stream->is_broken = true;
}

void cc_tls_stream_close(void *ctx) {
    struct tls_stream *stream = ctx;
    cc_tls_stream_finish(stream);
    mbedtls_ssl_free(&stream->ssl);
    cc_tls_peer_free(stream->peer);
    cc_tls_context_unref(stream->context);
    free(stream);
}
