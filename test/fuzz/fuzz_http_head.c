/* A request as it arrives, in pieces: the end of the head is found at the same place however it is cut, and an accepted
 * head has one meaning: no control bytes, one statement about the body's length. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "http/server_parse.h"

static bool scan_whole(const char *bytes, size_t count, size_t *ret_bytes, struct cc_http_refusal *refusal) {
    size_t scanned = 0;
    return cc_http_head_scan(bytes, count, &scanned, ret_bytes, refusal);
}

/* As the server does it: the bytes so far, again and again. */
static bool scan_pieces(const char *bytes, size_t count, struct fuzz_dice *dice, size_t *ret_bytes,
                        struct cc_http_refusal *refusal) {
    size_t scanned = 0, fed = 0;
    while (fed < count) {
        size_t step = fuzz_roll(dice, 7);
        fed = count - fed < step ? count : fed + step;
        if (cc_http_head_scan(bytes, fed, &scanned, ret_bytes, refusal))
            return true;
        if (refusal->status != 0)
            return false;
        fuzz_require(scanned <= fed);
    }
    return false;
}

static size_t count_of(const struct cc_http_server_request_headers *headers, const char *name) {
    size_t found = 0;
    for (size_t i = 0; i < headers->count; i++)
        found += strcasecmp(headers->items[i].name, name) == 0;
    return found;
}

static void check_head(const struct cc_http_head *head) {
    fuzz_require(head->method && head->path && head->query);
    fuzz_require(!strpbrk(head->query, " \r\n") && *head->path);
    fuzz_require(head->content_length >= 0 && !(head->is_chunked && head->content_length > 0));
    fuzz_require(!(head->is_chunked && head->is_http_10));
    fuzz_require(head->headers.count <= CC_HTTP_SERVER_HEADERS_MAX);
    fuzz_require(count_of(&head->headers, "content-length") + count_of(&head->headers, "transfer-encoding") <= 1);
    fuzz_require(count_of(&head->headers, "host") <= 1);
    for (size_t i = 0; i < head->headers.count; i++) {
        const struct cc_http_field *field = &head->headers.items[i];
        fuzz_require(*field->name && !strpbrk(field->name, " \t\r\n:") && !strpbrk(field->value, "\r\n"));
        fuzz_require(cc_http_head_field(&head->headers, field->name) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    struct fuzz_dice dice = fuzz_dice_of(data, size);
    struct cc_http_refusal refusal = {0}, piece_refusal = {0};
    size_t head_bytes = 0, piece_bytes = 0;
    bool found = scan_whole(bytes, size, &head_bytes, &refusal);
    fuzz_require(scan_pieces(bytes, size, &dice, &piece_bytes, &piece_refusal) == found);
    fuzz_require(refusal.status == piece_refusal.status && head_bytes == piece_bytes);
    if (!found || refusal.status != 0)
        return 0;
    fuzz_require(head_bytes >= 4 && head_bytes <= size);

    struct cc_http_head head;
    cc_http_head_parse(bytes, head_bytes, &head, &refusal);
    if (refusal.status == 0)
        check_head(&head);
    else
        fuzz_require(refusal.status >= 400 && refusal.status < 600 && refusal.why);
    cc_http_head_done(&head);
    return 0;
}
