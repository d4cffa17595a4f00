/* One libcurl multi handle on the loop: socket watchers, the timer, and completion. Private to http/client.c.
 *
 * libcurl runs from watcher and timer callbacks, and from fibers that add, pause or remove a transfer; never from
 * inside its own callbacks. Its callbacks only fill buffers and wake fibers. */
#ifndef CC_HTTP_CURL_ENGINE_H
#define CC_HTTP_CURL_ENGINE_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#include "aio/loop.h"

struct cc_curl_transfer {
    CURL *easy;
    bool done;
    CURLcode result;                                     /* once done */
    void (*finished)(struct cc_curl_transfer *transfer); /* wakes; runs outside of libcurl */
};

struct cc_curl_engine;
/* The loop must be a real one (it has descriptors). */
struct cc_curl_engine *cc_curl_engine_new(struct cc_loop *loop, int connections_per_host);
/* Closes all connections. No transfer may be left. */
void cc_curl_engine_free(struct cc_curl_engine *engine);
/* Sets the socket options and callbacks that count connections; CURLOPT_PRIVATE is the engine's. */
void cc_curl_engine_add(struct cc_curl_engine *engine, struct cc_curl_transfer *transfer);
/* A transfer that is not done loses its connection. */
void cc_curl_engine_remove(struct cc_curl_engine *engine, struct cc_curl_transfer *transfer);
/* Resumes or pauses the directions. */
void cc_curl_engine_pause(struct cc_curl_engine *engine, struct cc_curl_transfer *transfer, int pause_bits);
size_t cc_curl_engine_transfers(const struct cc_curl_engine *engine);
size_t cc_curl_engine_connections(const struct cc_curl_engine *engine);

#endif
