/* First line: the limit of the body. Then a chunked body: decoding gives the same whether it comes at once, byte by
 * byte or in pieces; and a body that we cut into chunks ourselves comes back as it was. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "http/server_parse.h"

struct outcome {
    struct cc_buf body;
    struct cc_http_refusal refusal;
    enum cc_http_chunk_state state;
    size_t used;
};

/* piece 0: of random size. */
static void decode(const char *bytes, size_t count, size_t limit, size_t piece, struct fuzz_dice *dice,
                   struct outcome *ret) {
    struct cc_http_chunked chunked = {0};
    *ret = (struct outcome){0};
    cc_buf_init(&ret->body, limit);
    while (ret->used < count && chunked.state != CC_CHUNK_DONE && ret->refusal.status == 0) {
        size_t want = piece > 0 ? piece : fuzz_roll(dice, 40), left = count - ret->used;
        size_t step = want < left ? want : left;
        size_t used = cc_http_chunked_feed(&chunked, bytes + ret->used, step, &ret->body, &ret->refusal);
        fuzz_require(used <= step);
        fuzz_require(used == step || chunked.state == CC_CHUNK_DONE || ret->refusal.status != 0);
        ret->used += used;
    }
    ret->state = chunked.state;
}

static void check_same(struct outcome *a, struct outcome *b) {
    fuzz_require(a->refusal.status == b->refusal.status);
    if (a->refusal.status == 0) {
        fuzz_require(a->state == b->state && a->used == b->used);
        fuzz_require(a->body.len == b->body.len && memcmp(a->body.data, b->body.data, a->body.len) == 0);
    }
    cc_buf_done(&b->body);
}

static void check_own(const char *bytes, size_t count, struct fuzz_dice *dice) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    struct outcome outcome;
    cc_buf_init(&text, SIZE_MAX / 2);
    for (size_t at = 0; at < count;) {
        size_t want = fuzz_roll(dice, 50), step = want < count - at ? want : count - at;
        fuzz_require(cc_buf_printf(&text, "%zx\r\n", step) == 0 && cc_buf_append(&text, bytes + at, step) == 0 &&
                     cc_buf_puts(&text, "\r\n") == 0);
        at += step;
    }
    fuzz_require(cc_buf_puts(&text, "0\r\nX-Trailer: 1\r\n\r\n") == 0);
    decode(text.data, text.len, count, 0, dice, &outcome);
    fuzz_require(outcome.state == CC_CHUNK_DONE && outcome.refusal.status == 0 && outcome.used == text.len);
    fuzz_require(outcome.body.len == count && memcmp(outcome.body.data, bytes, count) == 0);
    cc_buf_done(&outcome.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_dice dice = fuzz_dice_of(data, size);
    struct fuzz_input input = fuzz_input_of(data, size);
    size_t limit = (size_t)(fuzz_number(&input) % 65536), count;
    char *bytes cc_cleanup(cc_free_p) = fuzz_rest(&input, &count);
    struct outcome whole, other;
    decode(bytes, count, limit, SIZE_MAX, &dice, &whole);
    fuzz_require(whole.body.len <= limit);
    decode(bytes, count, limit, 1, &dice, &other);
    check_same(&whole, &other);
    decode(bytes, count, limit, 0, &dice, &other);
    check_same(&whole, &other);
    cc_buf_done(&whole.body);
    check_own(bytes, count, &dice);
    return 0;
}
