#include "http/no_proxy.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define ENTRY_BYTES_MAX 300 /* a longer entry cannot name a host */

/* IPv4 as an IPv4-mapped IPv6 address, so that one comparison serves both. */
struct address {
    uint8_t bytes[16];
    bool v4;
};

static bool parse_address(const char *text, struct address *ret) {
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct address address = {0};
    if (inet_pton(AF_INET, text, address.bytes + 12) == 1) {
        memcpy(address.bytes, mapped, sizeof mapped);
        address.v4 = true;
    } else if (inet_pton(AF_INET6, text, address.bytes) != 1) {
        return false;
    } else {
        address.v4 = memcmp(address.bytes, mapped, sizeof mapped) == 0;
    }
    *ret = address;
    return true;
}

static bool is_loopback(const struct address *address) {
    static const uint8_t v6[16] = {[15] = 1};
    return address->v4 ? address->bytes[12] == 127 : memcmp(address->bytes, v6, sizeof v6) == 0;
}

static bool same_prefix(const struct address *a, const struct address *b, int bits) {
    size_t whole = (size_t)bits / 8;
    if (memcmp(a->bytes, b->bytes, whole) != 0)
        return false;
    int rest = bits % 8;
    return rest == 0 || ((a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest)) == 0;
}

/* "10.96.0.0/12", "fd00:10::/64". ret_is_network tells whether the entry is one at all. */
static bool network_matches(char *entry, const struct address *host, bool *ret_is_network) {
    struct address network;
    int32_t bits = 0;
    *ret_is_network = false;
    char *slash = strchr(entry, '/');
    if (!slash)
        return false;
    *slash = '\0';
    bool is_v4_text = strchr(entry, ':') == NULL;
    bool valid = parse_address(entry, &network) && cc_parse_int32(slash + 1, 0, is_v4_text ? 32 : 128, &bits);
    *slash = '/';
    if (!valid)
        return false;
    *ret_is_network = true;
    if (!host || host->v4 != network.v4)
        return false;
    return same_prefix(&network, host, is_v4_text ? bits + 96 : bits);
}

/* Splits "host:port" and "[v6]:port"; an entry of another form (a bare IPv6 address too) is a host without port. False:
 * an entry with a port and no host, to be ignored. */
static bool split_entry(char *entry, char **ret_host, const char **ret_port) {
    char *last = strrchr(entry, ':');
    *ret_host = entry;
    *ret_port = "";
    if (entry[0] == '[') {
        char *end = strchr(entry, ']');
        if (!end || end[1] != ':')
            return true;
        *end = '\0';
        *ret_host = entry + 1;
        *ret_port = end + 2;
    } else if (last && strchr(entry, ':') == last) {
        *last = '\0';
        *ret_port = last + 1;
    }
    return **ret_host != '\0';
}

static bool domain_matches(const char *domain, const char *host) {
    if (domain[0] == '*' && domain[1] == '.')
        domain++;
    if (domain[0] == '.')
        return cc_text_ends_with(host, domain);
    size_t host_bytes = strlen(host), domain_bytes = strlen(domain);
    if (!cc_text_ends_with(host, domain))
        return false;
    return host_bytes == domain_bytes || host[host_bytes - domain_bytes - 1] == '.';
}

static bool entry_matches(char *entry, const char *host, const struct address *address, int port) {
    bool is_network;
    if (network_matches(entry, address, &is_network))
        return true;
    if (is_network)
        return false;
    char *name;
    const char *port_text;
    if (!split_entry(entry, &name, &port_text))
        return false;
    int32_t wanted = 0;
    if (*port_text && (!cc_parse_int32(port_text, 0, 65535, &wanted) || wanted != port))
        return false;
    struct address entry_address;
    if (parse_address(name, &entry_address))
        return address && memcmp(entry_address.bytes, address->bytes, sizeof address->bytes) == 0;
    return domain_matches(name, host);
}

bool cc_no_proxy_matches(const char *list, const char *host, int port) {
    struct address storage;
    const struct address *address = parse_address(host, &storage) ? &storage : NULL;
    while (list && *list) {
        size_t bytes = strcspn(list, ",");
        char *raw cc_cleanup(cc_free_p) = cc_xstrndup(list, bytes < ENTRY_BYTES_MAX ? bytes : 0);
        char *entry cc_cleanup(cc_free_p) = cc_text_trim(raw);
        for (char *at = entry; *at; at++)
            if (*at >= 'A' && *at <= 'Z')
                *at = (char)(*at - 'A' + 'a');
        if (strcmp(entry, "*") == 0 || (*entry && entry_matches(entry, host, address, port)))
            return true;
        list += bytes + (list[bytes] == ',');
    }
    return false;
}

static const char *system_getenv(void *ctx, const char *name) {
    (void)ctx;
    return getenv(name);
}

void cc_proxy_rules_init(struct cc_proxy_rules *rules, const char *(*getenv_fn)(void *ctx, const char *name),
                         void *ctx) {
    if (!getenv_fn)
        getenv_fn = system_getenv;
    static const char *const names[][2] = {
        {"HTTP_PROXY", "http_proxy"}, {"HTTPS_PROXY", "https_proxy"}, {"NO_PROXY", "no_proxy"}};
    char **members[] = {&rules->http_proxy, &rules->https_proxy, &rules->no_proxy};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(names); i++) {
        const char *value = cc_text_or(getenv_fn(ctx, names[i][0]), getenv_fn(ctx, names[i][1]));
        *members[i] = cc_text_is_empty(value) ? NULL : cc_xstrdup(value);
    }
    if (!cc_text_is_empty(getenv_fn(ctx, "REQUEST_METHOD")))
        cc_free_p(&rules->http_proxy);
}

void cc_proxy_rules_done(struct cc_proxy_rules *rules) {
    cc_free_p(&rules->http_proxy);
    cc_free_p(&rules->https_proxy);
    cc_free_p(&rules->no_proxy);
}

const char *cc_proxy_rules_choose(const struct cc_proxy_rules *rules, const char *scheme, const char *host, int port) {
    const char *proxy = strcmp(scheme, "https") == 0 ? rules->https_proxy : rules->http_proxy;
    struct address address;
    if (!proxy || strcmp(host, "localhost") == 0 || (parse_address(host, &address) && is_loopback(&address)))
        return NULL;
    return cc_no_proxy_matches(rules->no_proxy, host, port) ? NULL : proxy;
}
