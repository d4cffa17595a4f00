#include "kube/scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/json.h"
#include "kube/trim.h"

enum state {
    STREAM_VALUE,   /* between values of a stream */
    STREAM_INSIDE,  /* in one */
    LIST_START,     /* before '{' */
    LIST_FIRST_KEY, /* after '{': key or '}' */
    LIST_KEY,       /* after ',': key */
    LIST_KEY_TEXT,
    LIST_COLON,
    LIST_VALUE,
    LIST_VALUE_INSIDE,
    LIST_COMMA,      /* after a member: ',' or '}' */
    LIST_FIRST_ITEM, /* after '[': item or ']' */
    LIST_ITEM,       /* after ',': item */
    LIST_ITEM_INSIDE,
    LIST_ITEM_COMMA, /* after an item: ',' or ']' */
    LIST_DONE,
};

void cc_scan_init(struct cc_scan *scan, enum cc_scan_mode mode, size_t item_bytes_max) {
    *scan = (struct cc_scan){.mode = mode, .state = mode == CC_SCAN_LIST ? LIST_START : STREAM_VALUE};
    cc_buf_init(&scan->value, item_bytes_max);
    scan->head = json_object();
}

void cc_scan_done(struct cc_scan *scan) {
    cc_buf_done(&scan->value);
    json_decref(scan->head);
    free(scan->key);
    *scan = (struct cc_scan){0};
}

void cc_scan_feed(struct cc_scan *scan, const void *bytes, size_t count) {
    cc_assert(scan->next == scan->end);
    scan->next = bytes;
    scan->end = scan->next + count;
}

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static int malformed(struct cc_err *err, const char *expected, char byte) {
    return cc_err_set(err, CC_PROTOCOL, "malformed JSON: expected %s, got byte 0x%02x", expected,
                      (unsigned)(unsigned char)byte);
}

/* --- one value ---------------------------------------------------------------------------------------------------- */

/* Only the extent is found here; what is between the outer brackets is checked by the parser. */
static int value_begin(struct cc_scan *scan, struct cc_err *err) {
    char byte = *scan->next;

    if (byte == ',' || byte == ':' || byte == ']' || byte == '}')
        return malformed(err, "a value", byte);
    cc_buf_clear(&scan->value);
    scan->depth = 0;
    scan->in_string = scan->escaped = false;
    scan->scalar = byte != '{' && byte != '[' && byte != '"';
    return 0;
}

static bool in_string_ends(struct cc_scan *scan, char byte) {
    if (scan->escaped)
        scan->escaped = false;
    else if (byte == '\\')
        scan->escaped = true;
    else if (byte == '"')
        return true;
    return false;
}

/* Looks at one byte: true when the value ends with it. Sets *ret_before when it ended before it. */
static bool value_byte(struct cc_scan *scan, char byte, bool *ret_before) {
    *ret_before = false;
    if (scan->in_string) {
        if (in_string_ends(scan, byte)) {
            scan->in_string = false;
            return scan->depth == 0;
        }
        return false;
    }
    if (scan->scalar) {
        *ret_before = is_blank(byte) || byte == ',' || byte == ']' || byte == '}';
        return *ret_before;
    }
    if (byte == '"')
        scan->in_string = true;
    else if (byte == '{' || byte == '[')
        scan->depth++;
    else if (byte == '}' || byte == ']')
        return --scan->depth == 0;
    return false;
}

/* The bytes of a value that say something about its extent: inside of a text, and between texts. */
static const bool counts_in_text[256] = {['"'] = true, ['\\'] = true};
static const bool counts_outside[256] = {['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};

static void skip_dull(struct cc_scan *scan) {
    const bool *counts = scan->in_string ? counts_in_text : counts_outside;

    if (scan->escaped || scan->scalar)
        return;
    while (scan->next < scan->end && !counts[(unsigned char)*scan->next])
        scan->next++;
}

/* Copies up to the end of the value. *ret_complete: it has ended. */
static int value_read(struct cc_scan *scan, bool *ret_complete, struct cc_err *err) {
    const char *start = scan->next;

    *ret_complete = false;
    while (scan->next < scan->end && !*ret_complete) {
        bool before;

        skip_dull(scan);
        if (scan->next == scan->end)
            break;
        *ret_complete = value_byte(scan, *scan->next, &before);
        if (!before)
            scan->next++;
        if (scan->depth > CC_JSON_DEPTH_MAX)
            return cc_err_set(err, CC_PROTOCOL, "JSON nested deeper than %d levels", CC_JSON_DEPTH_MAX);
    }
    if (cc_buf_append(&scan->value, start, (size_t)(scan->next - start)))
        return cc_err_set(err, CC_LIMIT, "a JSON value of more than %zu bytes", scan->value.limit);
    return 0;
}

static int value_parse(struct cc_scan *scan, json_t **ret, struct cc_err *err) {
    size_t count = cc_kube_trim(scan->value.data, scan->value.len);
    int rc = cc_json_parse(scan->value.data, count, scan->value.limit, ret, err);

    /* One large object must not keep its room for the life of a watch. */
    if (scan->value.capacity > 64 * 1024) {
        size_t limit = scan->value.limit;

        cc_buf_done(&scan->value);
        cc_buf_init(&scan->value, limit);
    }
    return rc;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

static int key_complete(struct cc_scan *scan, struct cc_err *err) {
    json_t *key = NULL;

    if (scan->value.len > CC_SCAN_KEY_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "a member name of more than %d bytes", CC_SCAN_KEY_BYTES_MAX);
    int rc = value_parse(scan, &key, err);
    if (rc)
        return rc;
    free(scan->key);
    scan->key = cc_xstrdup(json_string_value(key));
    /* As the parser of whole objects: "items\u0000" is not items. */
    bool has_nul = strlen(scan->key) != json_string_length(key);
    json_decref(key);
    scan->state = LIST_COLON;
    return has_nul ? cc_err_set(err, CC_PROTOCOL, "a member name with a NUL") : 0;
}

static int member_complete(struct cc_scan *scan, struct cc_err *err) {
    json_t *value = NULL;
    bool is_items = strcmp(scan->key, "items") == 0;

    scan->head_bytes += scan->value.len + strlen(scan->key);
    if (scan->head_bytes > CC_SCAN_HEAD_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "list members other than items take more than %d bytes",
                          CC_SCAN_HEAD_BYTES_MAX);
    int rc = value_parse(scan, &value, err);
    if (rc)
        return rc;
    scan->state = LIST_COMMA;
    if (!is_items) {
        cc_json_set_new(scan->head, scan->key, value);
        return 0;
    }
    bool empty = json_is_null(value);
    json_decref(value);
    return empty ? 0 : cc_err_set(err, CC_PROTOCOL, "list member \"items\" is not an array");
}

static int value_starts(struct cc_scan *scan, struct cc_err *err) {
    if (strcmp(scan->key, "items") == 0) {
        if (scan->items_seen)
            return cc_err_set(err, CC_PROTOCOL, "list member \"items\" occurs twice");
        scan->items_seen = true;
        if (*scan->next == '[') {
            scan->next++;
            scan->state = LIST_FIRST_ITEM;
            return 0;
        }
    }
    scan->state = LIST_VALUE_INSIDE;
    return value_begin(scan, err);
}

/* Handles the structural byte at scan->next. */
static int list_byte(struct cc_scan *scan, struct cc_err *err) {
    char byte = *scan->next;

    switch ((enum state)scan->state) {
    case LIST_START:
        if (byte != '{')
            return malformed(err, "a list object", byte);
        scan->state = LIST_FIRST_KEY;
        break;
    case LIST_FIRST_KEY:
    case LIST_KEY:
        if (byte == '}' && scan->state == LIST_FIRST_KEY) {
            scan->state = LIST_DONE;
            break;
        }
        if (byte != '"')
            return malformed(err, "a member name", byte);
        scan->state = LIST_KEY_TEXT;
        return value_begin(scan, err);
    case LIST_COLON:
        if (byte != ':')
            return malformed(err, "':'", byte);
        scan->state = LIST_VALUE;
        break;
    case LIST_VALUE:
        return value_starts(scan, err);
    case LIST_COMMA:
        if (byte != ',' && byte != '}')
            return malformed(err, "',' or '}'", byte);
        scan->state = byte == ',' ? LIST_KEY : LIST_DONE;
        break;
    case LIST_FIRST_ITEM:
    case LIST_ITEM:
        if (byte == ']' && scan->state == LIST_FIRST_ITEM) {
            scan->state = LIST_COMMA;
            break;
        }
        scan->state = LIST_ITEM_INSIDE;
        return value_begin(scan, err);
    case LIST_ITEM_COMMA:
        if (byte != ',' && byte != ']')
            return malformed(err, "',' or ']'", byte);
        scan->state = byte == ',' ? LIST_ITEM : LIST_COMMA;
        break;
    case STREAM_VALUE:
        scan->state = STREAM_INSIDE;
        return value_begin(scan, err);
    case LIST_DONE:
        return malformed(err, "the end of the list", byte);
    case LIST_KEY_TEXT:
    case LIST_VALUE_INSIDE:
    case LIST_ITEM_INSIDE:
    case STREAM_INSIDE:
        cc_assert(false);
    }
    scan->next++;
    return 0;
}

static bool is_inside(const struct cc_scan *scan) {
    return scan->state == STREAM_INSIDE || scan->state == LIST_KEY_TEXT || scan->state == LIST_VALUE_INSIDE ||
           scan->state == LIST_ITEM_INSIDE;
}

/* The value has ended: *ret_item is set when it was an item. */
static int value_complete(struct cc_scan *scan, json_t **ret_item, struct cc_err *err) {
    if (scan->state == LIST_KEY_TEXT)
        return key_complete(scan, err);
    if (scan->state == LIST_VALUE_INSIDE)
        return member_complete(scan, err);
    scan->state = scan->state == STREAM_INSIDE ? STREAM_VALUE : LIST_ITEM_COMMA;
    return value_parse(scan, ret_item, err);
}

int cc_scan_next(struct cc_scan *scan, enum cc_scan_event *ret, json_t **ret_item, struct cc_err *err) {
    while (scan->next < scan->end) {
        int rc = 0;

        if (is_inside(scan)) {
            json_t *item = NULL;
            bool complete;

            rc = value_read(scan, &complete, err);
            if (rc == 0 && complete)
                rc = value_complete(scan, &item, err);
            if (item) {
                *ret = CC_SCAN_ITEM;
                *ret_item = item;
                return 0;
            }
        } else if (is_blank(*scan->next)) {
            scan->next++;
        } else {
            rc = list_byte(scan, err);
        }
        if (rc)
            return rc;
    }
    *ret = CC_SCAN_NEED;
    return 0;
}

int cc_scan_finish(const struct cc_scan *scan, struct cc_err *err) {
    if (scan->mode == CC_SCAN_STREAM && scan->state != STREAM_VALUE)
        return cc_err_set(err, CC_PROTOCOL, "the stream ends inside of a value");
    if (scan->mode == CC_SCAN_LIST && scan->state != LIST_DONE)
        return cc_err_set(err, CC_PROTOCOL, "the list ends early");
    if (scan->mode == CC_SCAN_LIST && !scan->items_seen)
        return cc_err_set(err, CC_PROTOCOL, "the answer is not a list: it has no items");
    return 0;
}

const json_t *cc_scan_head(const struct cc_scan *scan) {
    return scan->head;
}
