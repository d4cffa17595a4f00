/* A client that sends exactly the bytes it is told to, for tests of HTTP servers on the real loop. */
#ifndef CC_TEST_RAW_HTTP_H
#define CC_TEST_RAW_HTTP_H

#include <stddef.h>

#include "base/buf.h"
#include "http/server.h"

/* A connected non-blocking socket to 127.0.0.1:port. Closed by the caller. */
int cc_raw_connect(int port);
void cc_raw_send(int fd, const char *bytes, size_t count);
/* Everything until the server closes, or until ms have passed without the end: then "...open" is appended. Into `into`,
 * initialised by the caller. */
void cc_raw_receive(int fd, int64_t ms, struct cc_buf *into);
/* Appends what comes until `into` contains the text; fails the test when it does not come within 10 s. */
void cc_raw_receive_until(int fd, const char *text, struct cc_buf *into);
/* Connect, send, receive to the end, close. The caller frees the text. */
char *cc_raw_exchange(int port, const char *request);
/* Status of a response text, 0 when there is none. */
int cc_raw_status(const char *response);
/* The body of a response text (after the first empty line), "" when there is none. */
const char *cc_raw_body(const char *response);

#endif
