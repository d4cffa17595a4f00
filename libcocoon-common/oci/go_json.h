/* JSON text byte for byte as Go's encoding/json writes it, for documents whose digest upstream computes too: '<', '>',
 * '&', U+2028 and U+2029 escaped, invalid UTF-8 as \ufffd, members in the order they are added (contract/05 4). */
#ifndef CC_OCI_GO_JSON_H
#define CC_OCI_GO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/strmap.h"

#define CC_GO_JSON_DEPTH_MAX 8

/* Overflow of `into` is remembered there: check it once at the end. */
struct cc_go_json {
    struct cc_buf *into;
    bool indented; /* two spaces and line ends, else compact */
    int depth;
    bool has_items[CC_GO_JSON_DEPTH_MAX];
};
void cc_go_json_init(struct cc_go_json *json, struct cc_buf *into, bool indented);
/* key NULL inside arrays and for the root. bracket: '{' or '['. */
void cc_go_json_open(struct cc_go_json *json, const char *key, char bracket);
void cc_go_json_close(struct cc_go_json *json, char bracket); /* '}' or ']' */
void cc_go_json_text(struct cc_go_json *json, const char *key, const char *value);
void cc_go_json_text_nonempty(struct cc_go_json *json, const char *key, const char *value); /* NULL and "": nothing */
void cc_go_json_int(struct cc_go_json *json, const char *key, int64_t value);
void cc_go_json_int_nonzero(struct cc_go_json *json, const char *key, int64_t value);
void cc_go_json_raw(struct cc_go_json *json, const char *key, const char *literal);
/* Nothing when the map is empty. */
void cc_go_json_map_nonempty(struct cc_go_json *json, const char *key, const struct cc_strmap *map);

#endif
