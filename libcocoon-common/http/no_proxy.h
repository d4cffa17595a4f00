/* Which proxy a request uses, read from the environment as Go's HTTP client reads it (decision 76, field case F12):
 * HTTPS_PROXY or HTTP_PROXY by the scheme of the URL, NO_PROXY with networks, addresses, host:port, domains and "*". */
#ifndef CC_HTTP_NO_PROXY_H
#define CC_HTTP_NO_PROXY_H

#include <stdbool.h>

#include "base/attributes.h"

struct cc_proxy_rules {
    char *http_proxy, *https_proxy; /* owned; NULL = none */
    char *no_proxy;                 /* owned; NULL = none */
};
/* Upper-case names win over lower-case ones; with REQUEST_METHOD set (CGI) HTTP_PROXY is ignored, since a client could
 * have set it. getenv_fn NULL = getenv(3). */
void cc_proxy_rules_init(struct cc_proxy_rules *rules, const char *(*getenv_fn)(void *ctx, const char *name),
                         void *ctx);
void cc_proxy_rules_done(struct cc_proxy_rules *rules);
/* The proxy's URL (borrowed), NULL = connect directly. scheme "http" or "https"; host lower case, IPv6 without
 * brackets. localhost and loopback addresses never use a proxy. */
const char *cc_proxy_rules_choose(const struct cc_proxy_rules *rules, const char *scheme, const char *host, int port);
/* True when host:port matches an entry of a NO_PROXY list. */
bool cc_no_proxy_matches(const char *list, const char *host, int port);

#endif
