/* Frames of a SPDY client: events are the same however the bytes are cut; and headers, one "name: value" a line, that
 * one side packs are what the other side reads, again and again over one compression stream. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "http/spdy.h"

struct outcome {
    struct cc_buf log; /* events as texts, pieces of one data frame joined */
    size_t used, events;
    int rc;
};

static void note(struct outcome *outcome, const struct cc_spdy_event *event) {
    if (event->type == CC_SPDY_NOTHING)
        return;
    if (event->type == CC_SPDY_DATA) {
        fuzz_require(event->count > 0 || event->is_final || event->count == 0);
        cc_buf_append(&outcome->log, event->bytes, event->count);
        if (event->is_final)
            cc_buf_printf(&outcome->log, "<end %u>", event->stream);
        return;
    }
    cc_buf_printf(&outcome->log, "<%d %u %u %d", (int)event->type, event->stream, event->status, event->is_final);
    fuzz_require(event->header_count <= CC_SPDY_HEADERS_MAX);
    for (size_t i = 0; i < event->header_count; i++) {
        const struct cc_spdy_header *header = &event->headers[i];
        fuzz_require(header->name && header->value && cc_spdy_event_header(event, header->name));
        cc_buf_printf(&outcome->log, " %s=%s", header->name, header->value);
    }
    cc_buf_puts(&outcome->log, ">");
}

static int feed(struct cc_spdy *spdy, const uint8_t *bytes, size_t count, struct outcome *outcome) {
    size_t at = 0;
    while (at < count && outcome->rc == 0) {
        struct cc_spdy_event event = {0};
        struct cc_err err = {0};
        size_t used = 0;
        outcome->rc = cc_spdy_feed(spdy, bytes + at, count - at, &used, &event, &err);
        fuzz_require_error(outcome->rc, &err);
        fuzz_require(outcome->rc == 0 || outcome->rc == CC_PROTOCOL || outcome->rc == CC_LIMIT);
        if (outcome->rc != 0)
            break;
        fuzz_require(used <= count - at && (used > 0 || event.type != CC_SPDY_NOTHING));
        outcome->events += event.type != CC_SPDY_NOTHING;
        note(outcome, &event);
        at += used;
    }
    outcome->used += at;
    return outcome->rc;
}

/* piece 0: of random size. */
static void run(const uint8_t *data, size_t size, size_t piece, struct fuzz_dice *dice, struct outcome *ret) {
    struct cc_spdy *spdy = cc_spdy_new();
    *ret = (struct outcome){0};
    cc_buf_init(&ret->log, SIZE_MAX / 2);
    for (size_t fed = 0; fed < size;) {
        size_t want = piece > 0 ? piece : fuzz_roll(dice, 20), step = want < size - fed ? want : size - fed;
        uint8_t *bytes cc_cleanup(cc_free_p) = cc_xmalloc(step);
        memcpy(bytes, data + fed, step);
        fed += step;
        if (feed(spdy, bytes, step, ret) != 0)
            break;
    }
    cc_spdy_free(spdy);
}

static void check_same(const struct outcome *a, struct outcome *b) {
    fuzz_require(a->rc == b->rc && (a->rc != 0 || a->used == b->used));
    fuzz_require(a->log.len == b->log.len && memcmp(a->log.data, b->log.data, a->log.len) == 0);
    cc_buf_done(&b->log);
}

static void check_headers(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct cc_spdy_header headers[8];
    char *lines[CC_ARRAY_LENGTH(headers)];
    size_t count = 0;
    while (count < CC_ARRAY_LENGTH(headers) && input.at < input.end) {
        char *line = fuzz_line(&input);
        char *colon = strchr(line, ':');
        lines[count] = line;
        if (colon)
            *colon = '\0';
        headers[count++] = (struct cc_spdy_header){line, colon ? colon + 1 : ""};
    }
    struct cc_spdy *client = cc_spdy_new(), *server = cc_spdy_new();
    for (uint32_t stream = 1; stream < 6; stream += 2) {
        struct cc_buf frames cc_cleanup(cc_buf_done);
        struct cc_spdy_event event = {0};
        struct cc_err err;
        size_t used = 0;
        cc_buf_init(&frames, SIZE_MAX / 2);
        cc_spdy_put_stream(client, stream, headers, count, &frames);
        int rc = cc_spdy_feed(server, (const uint8_t *)frames.data, frames.len, &used, &event, &err);
        fuzz_require_error(rc, &err);
        /* Names may be refused: empty, not lower case, twice. */
        if (rc != 0)
            break;
        fuzz_require(event.type == CC_SPDY_STREAM && event.stream == stream && event.header_count == count);
        for (size_t i = 0; i < count; i++)
            fuzz_require(strcmp(event.headers[i].name, headers[i].name) == 0 &&
                         strcmp(event.headers[i].value, headers[i].value) == 0);
    }
    cc_spdy_free(client);
    cc_spdy_free(server);
    for (size_t i = 0; i < count; i++)
        free(lines[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_dice dice = fuzz_dice_of(data, size);
    struct outcome whole, other;
    run(data, size, SIZE_MAX, &dice, &whole);
    run(data, size, 1, &dice, &other);
    check_same(&whole, &other);
    run(data, size, 0, &dice, &other);
    check_same(&whole, &other);
    cc_buf_done(&whole.log);
    check_headers(data, size);
    return 0;
}
