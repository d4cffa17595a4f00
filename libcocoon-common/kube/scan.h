/* Incremental scanner: cuts a list body into its items, or a watch stream into its frames, so that the parser never
 * sees more than one object at a time. No I/O: feed bytes, pull results. Bounded by item_bytes_max and
 * CC_JSON_DEPTH_MAX. contract/04 C4.6. */
#ifndef CC_KUBE_SCAN_H
#define CC_KUBE_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define CC_SCAN_KEY_BYTES_MAX 256            /* a member name of the list itself */
#define CC_SCAN_HEAD_BYTES_MAX (1024 * 1024) /* all members of a list but its items */

enum cc_scan_mode {
    CC_SCAN_LIST,   /* one object; the elements of its member "items" are the items, null counts as an empty list */
    CC_SCAN_STREAM, /* JSON values one after another, blanks between them are skipped */
};
enum cc_scan_event {
    CC_SCAN_NEED, /* all bytes are used up: feed more, or cc_scan_finish at the end of the input */
    CC_SCAN_ITEM, /* one item or frame */
};

struct cc_scan {
    enum cc_scan_mode mode;
    int state;
    const char *next, *end; /* fed and not yet read */
    struct cc_buf value;    /* what is read of the value or key so far */
    size_t depth;
    bool in_string, escaped, scalar;
    char *key;    /* member of the list that is being read */
    json_t *head; /* its members so far, without the items */
    size_t head_bytes;
    bool items_seen;
};

void cc_scan_init(struct cc_scan *scan, enum cc_scan_mode mode, size_t item_bytes_max);
/* Zeroed storage is fine. */
void cc_scan_done(struct cc_scan *scan);
/* Only after CC_SCAN_NEED (or at the start). bytes are borrowed until the next CC_SCAN_NEED. */
void cc_scan_feed(struct cc_scan *scan, const void *bytes, size_t count);
/* ITEM: *ret_item is a new reference. Errors: PROTOCOL (malformed), LIMIT (an item, a key or the head is too large).
 * After an error the scanner is of no more use. */
CC_MUST_USE int cc_scan_next(struct cc_scan *scan, enum cc_scan_event *ret, json_t **ret_item, struct cc_err *err);
/* At the end of the input, after CC_SCAN_NEED. PROTOCOL when it ends inside of a value, or a list without items. */
CC_MUST_USE int cc_scan_finish(const struct cc_scan *scan, struct cc_err *err);
/* Members of the list that were read so far, without "items"; borrowed. Complete after cc_scan_finish: custom resources
 * come with `kind` and `metadata` behind their items. */
const json_t *cc_scan_head(const struct cc_scan *scan);

#endif
