/* Port, host, list, one a line. A list matches whatever one of its entries matches, "*" everything, and nobody is sent
 * to a proxy for the loopback. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "http/no_proxy.h"

static const char *environment(void *ctx, const char *name) {
    if (strcmp(name, "HTTPS_PROXY") == 0)
        return "http://proxy.example:3128";
    return strcmp(name, "NO_PROXY") == 0 ? ctx : NULL;
}

static bool any_entry_matches(const char *list, const char *host, int port) {
    bool any = false;
    for (const char *at = list; at;) {
        size_t bytes = strcspn(at, ",");
        char *entry cc_cleanup(cc_free_p) = cc_xstrndup(at, bytes);
        any = any || cc_no_proxy_matches(entry, host, port);
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    return any;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    int port = (int)(fuzz_number(&input) % 65536);
    char *host cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *list cc_cleanup(cc_free_p) = fuzz_line(&input);
    bool matches = cc_no_proxy_matches(list, host, port);
    fuzz_require(matches == any_entry_matches(list, host, port));
    char *all cc_cleanup(cc_free_p) = cc_xasprintf("%s, *", list);
    fuzz_require(cc_no_proxy_matches(all, host, port));
    fuzz_require(!cc_no_proxy_matches(NULL, host, port) && !cc_no_proxy_matches(" , ,", host, port));

    struct cc_proxy_rules rules = {0};
    cc_proxy_rules_init(&rules, environment, list);
    const char *proxy = cc_proxy_rules_choose(&rules, "https", host, port);
    fuzz_require(!proxy || !matches);
    fuzz_require(!cc_proxy_rules_choose(&rules, "http", host, port));
    fuzz_require(!cc_proxy_rules_choose(&rules, "https", "127.0.0.1", port));
    fuzz_require(!cc_proxy_rules_choose(&rules, "https", "::1", port));
    cc_proxy_rules_done(&rules);
    return 0;
}
