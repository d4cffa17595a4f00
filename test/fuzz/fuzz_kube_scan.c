/* A list body, and the same bytes as a stream of frames: what comes out does not depend on how the bytes are cut, and
 * is what the parser sees in the whole document. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "kube/scan.h"

#define ITEM_BYTES_MAX ((size_t)64 * 1024)

struct outcome {
    json_t *items; /* array */
    json_t *head;
    int rc;
    char why[CC_ERR_MESSAGE_BYTES];
};

static void outcome_done(struct outcome *outcome) {
    json_decref(outcome->items);
    json_decref(outcome->head);
}

static int pull(struct cc_scan *scan, json_t *items, struct cc_err *err) {
    for (;;) {
        enum cc_scan_event event;
        json_t *item = NULL;
        int rc = cc_scan_next(scan, &event, &item, err);
        if (rc || event == CC_SCAN_NEED) {
            fuzz_require(!item);
            return rc;
        }
        fuzz_require(item);
        cc_json_append_new(items, item);
    }
}

/* piece 0: of random size. */
static void run(const uint8_t *data, size_t size, enum cc_scan_mode mode, size_t piece, struct fuzz_dice *dice,
                struct outcome *ret) {
    struct cc_scan scan cc_cleanup(cc_scan_done);
    struct cc_err err = {0};
    *ret = (struct outcome){.items = json_array()};
    cc_scan_init(&scan, mode, ITEM_BYTES_MAX);
    for (size_t at = 0; at < size && ret->rc == 0;) {
        size_t want = piece > 0 ? piece : fuzz_roll(dice, 30), step = want < size - at ? want : size - at;
        /* Of its own, so that a look at bytes beyond the piece or at a freed one is seen. */
        char *bytes cc_cleanup(cc_free_p) = cc_xmalloc(step);
        memcpy(bytes, data + at, step);
        cc_scan_feed(&scan, bytes, step);
        ret->rc = pull(&scan, ret->items, &err);
        at += step;
    }
    if (ret->rc == 0)
        ret->rc = cc_scan_finish(&scan, &err);
    fuzz_require_error(ret->rc, &err);
    memcpy(ret->why, err.msg, sizeof ret->why);
    ret->head = json_deep_copy(cc_scan_head(&scan));
}

static void check_same(const struct outcome *a, struct outcome *b) {
    fuzz_require(a->rc == b->rc && (a->rc == 0 || strcmp(a->why, b->why) == 0));
    fuzz_require(json_equal(a->items, b->items) && json_equal(a->head, b->head));
    outcome_done(b);
}

static bool has_large_number(const uint8_t *data, size_t size) {
    size_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
        if (digits >= 18)
            return true;
    }
    return false;
}

/* The parser of the whole reads all numbers as reals once one is too large; it bounds the depth of the whole. */
static void check_whole(const uint8_t *data, size_t size, const struct outcome *list) {
    json_t *whole cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err err = {0};
    if (has_large_number(data, size))
        return;
    int rc = cc_json_parse((const char *)data, size, SIZE_MAX, &whole, &err);
    if (rc != 0) {
        fuzz_require(list->rc != 0 || strstr(err.msg, "deeper"));
        return;
    }
    json_t *items = json_object_get(whole, "items");
    if (list->rc == 0) {
        fuzz_require(json_is_array(items) ? json_equal(items, list->items) : json_is_null(items));
        fuzz_require(json_is_array(items) || json_array_size(list->items) == 0);
        json_object_del(whole, "items");
        fuzz_require(json_equal(whole, list->head));
    } else if (json_is_array(items) && list->rc == CC_PROTOCOL) {
        fuzz_require(strstr(list->why, "twice") || strstr(list->why, "not an array"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const enum cc_scan_mode modes[] = {CC_SCAN_LIST, CC_SCAN_STREAM};
    struct fuzz_dice dice = fuzz_dice_of(data, size);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(modes); i++) {
        struct outcome whole, other;
        run(data, size, modes[i], SIZE_MAX, &dice, &whole);
        run(data, size, modes[i], 1, &dice, &other);
        check_same(&whole, &other);
        run(data, size, modes[i], 0, &dice, &other);
        check_same(&whole, &other);
        if (modes[i] == CC_SCAN_LIST)
            check_whole(data, size, &whole);
        outcome_done(&whole);
    }
    return 0;
}
