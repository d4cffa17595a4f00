/* A scripted HTTP/1.1 server on loopback for tests of clients: raw sockets in threads of its own, so that it can
 * misbehave in ways a proper server cannot (reset, cut, hang, interim answers). It records every request. */
#ifndef CC_TEST_FAKE_HTTP_H
#define CC_TEST_FAKE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_HTTP_BODY_KEPT_MAX ((size_t)1024 * 1024) /* of a request body; longer ones are counted and hashed only */

struct fake_http_request {
    int number;     /* from 0, in the order of complete heads */
    int connection; /* from 0 */
    char *method, *target;
    char *head; /* all header lines, each ended by "\n" */
    char *body; /* first FAKE_HTTP_BODY_KEPT_MAX bytes, NUL-terminated */
    int64_t body_bytes;
    char body_digest[72];
    bool complete; /* the whole body arrived */
    int64_t at_ms; /* monotonic, when the head was complete */
    struct fake_http_request *next;
};
/* First value, NULL when absent. Caller frees. */
char *fake_http_request_header(const struct fake_http_request *request, const char *name);

struct fake_http_reply {
    int status;    /* default 200 */
    char *headers; /* "Name: value\r\n" lines; see fake_http_add_header */
    char *body;    /* see fake_http_set_body */
    size_t body_bytes;
    int delay_ms; /* before the head */
    bool hang;    /* never answers; holds the connection until the client or the server ends */
    bool reset;   /* resets the connection instead of answering */
    bool close;   /* closes after the answer without saying so in a header */
    bool chunked;
    bool no_length;         /* neither length nor chunks: the body ends with the connection */
    size_t declared_length; /* Content-Length other than body_bytes; 0 = body_bytes */
    size_t piece_bytes;     /* body is written in pieces of so many bytes; 0 = at once */
    int piece_delay_ms;     /* between pieces */
    bool cut;               /* the connection is reset after body_bytes (with declared_length larger) */
    const char *interim;    /* raw text sent before the head, e.g. "HTTP/1.1 103 Early Hints\r\n\r\n" */
    const char *raw;        /* replaces head and body; then the connection closes */
    const char *trailers;   /* "Name: value\r\n" lines after the last chunk */
};
void fake_http_add_header(struct fake_http_reply *reply, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void fake_http_set_body(struct fake_http_reply *reply, const void *bytes, size_t count);
void fake_http_set_text(struct fake_http_reply *reply, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct fake_http_script {
    /* Decides the answer; called with the server's lock held, when the body has arrived. */
    void (*handle)(void *ctx, const struct fake_http_request *request, struct fake_http_reply *reply);
    /* May be NULL. After the head: a result >= 0 makes the server reset the connection after so many body bytes; -2
     * makes it answer before it reads the body. */
    int64_t (*after_head)(void *ctx, const struct fake_http_request *request);
    void *ctx;
};

struct fake_http;
struct fake_http *fake_http_start(const struct fake_http_script *script); /* aborts when it cannot */
/* On a unix socket. */
struct fake_http *fake_http_start_unix(const struct fake_http_script *script, const char *path);
void fake_http_stop(struct fake_http *server);
int fake_http_port(const struct fake_http *server);
int fake_http_request_count(struct fake_http *server);
int fake_http_connection_count(struct fake_http *server); /* accepted so far */
/* The k-th request; valid until stop. NULL when there is none. */
const struct fake_http_request *fake_http_request_at(struct fake_http *server, int k);
/* "METHOD target" lines. Caller frees. */
char *fake_http_trace(struct fake_http *server);
void fake_http_forget(struct fake_http *server); /* drops the records (numbers start at 0 again) */

#endif
