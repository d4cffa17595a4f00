/* WebSocket frames of a server (RFC 6455). */
#include "http/websocket.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"

/* A client's frame: masked. */
static void put_frame(struct cc_buf *wire, unsigned first, const void *bytes, size_t count) {
    static const uint8_t mask[4] = {0xa5, 0x00, 0x7f, 0x31};
    uint8_t header[CC_WEBSOCKET_HEADER_BYTES_MAX];
    size_t length = cc_websocket_header(CC_WEBSOCKET_TEXT, count, header);
    header[0] = (uint8_t)first;
    header[1] |= 0x80;
    cc_buf_append(wire, header, length);
    cc_buf_append(wire, mask, sizeof mask);
    for (size_t i = 0; i < count; i++)
        cc_buf_putc(wire, (char)(((const uint8_t *)bytes)[i] ^ mask[i & 3]));
}

/* What comes out: "<" at the start of a message, its bytes, ">" at the end, (ping), [close]. The code of the end. */
static int decode(const struct cc_buf *wire, size_t piece, struct cc_buf *ret) {
    struct cc_websocket socket = {0};
    uint8_t *bytes = cc_xmalloc(wire->len + 1);
    int rc = 0;
    memcpy(bytes, wire->data, wire->len);
    for (size_t at = 0; at < wire->len && rc == 0;) {
        struct cc_websocket_event event;
        size_t count = wire->len - at < piece ? wire->len - at : piece, used;
        rc = cc_websocket_feed(&socket, bytes + at, count, &used, &event, NULL);
        at += used;
        if (rc != 0 || event.type == CC_WEBSOCKET_NOTHING)
            continue;
        bool is_piece = event.type == CC_WEBSOCKET_PIECE;
        cc_buf_puts(ret, is_piece ? event.is_first ? "<" : "" : event.type == CC_WEBSOCKET_PINGED ? "(" : "[");
        cc_buf_append(ret, event.bytes, event.count);
        cc_buf_puts(ret, is_piece ? event.is_last ? ">" : "" : event.type == CC_WEBSOCKET_PINGED ? ")" : "]");
    }
    free(bytes);
    return rc;
}

START_TEST(websocket__accept_key) {
    char *text = cc_websocket_accept("dGhlIHNhbXBsZSBub25jZQ=="); /* RFC 6455 1.3 */
    ck_assert_str_eq(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    free(text);
    ck_assert_ptr_null(cc_websocket_accept(NULL));
    ck_assert_ptr_null(cc_websocket_accept(""));
    ck_assert_ptr_null(cc_websocket_accept("dGhlIHNhbXBsZSBub25jZQ"));
    ck_assert_ptr_null(cc_websocket_accept("!!!!!!!!!!!!!!!!!!!!!!=="));
}
END_TEST

START_TEST(websocket__messages) {
    struct cc_buf wire, out;
    cc_buf_init(&wire, 1000000);
    put_frame(&wire, 0x82, "whole", 5);
    put_frame(&wire, 0x82, "", 0);
    put_frame(&wire, 0x02, "to", 2);
    put_frame(&wire, 0x89, "ping", 4);
    put_frame(&wire, 0x00, "", 0);
    put_frame(&wire, 0x00, "r", 1);
    put_frame(&wire, 0x8a, "pong", 4);
    put_frame(&wire, 0x80, "n", 1);
    put_frame(&wire, 0x01, "", 0);
    put_frame(&wire, 0x80, "", 0);
    put_frame(&wire, 0x89, "", 0);
    put_frame(&wire, 0x88, "\x03\xe8", 2);
    for (size_t piece = 1; piece <= wire.len; piece++) {
        cc_buf_init(&out, 1000000);
        ck_assert_int_eq(decode(&wire, piece, &out), 0);
        ck_assert_str_eq(out.data, "<whole><><to(ping)rn><>()[\x03\xe8]");
        cc_buf_done(&out);
    }
    cc_buf_done(&wire);
}
END_TEST

START_TEST(websocket__long_frames) {
    static const size_t sizes[] = {125, 126, 65535, 65536, 200000};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(sizes); i++) {
        struct cc_buf wire, out;
        char *bytes = cc_xmalloc(sizes[i]);
        memset(bytes, 'x', sizes[i]);
        cc_buf_init(&wire, 1000000);
        cc_buf_init(&out, 1000000);
        put_frame(&wire, 0x82, bytes, sizes[i]);
        ck_assert_int_eq(decode(&wire, 1000, &out), 0);
        ck_assert_uint_eq(out.len, sizes[i] + 2);
        ck_assert_int_eq(out.data[sizes[i]], 'x');
        cc_buf_done(&wire);
        cc_buf_done(&out);
        free(bytes);
    }
}
END_TEST

static const struct {
    const char *bytes;
    size_t count;
} bad[] = {
    {"\x82\x01x", 3},                             /* not masked */
    {"\xc2\x80\0\0\0\0", 6},                      /* reserved bit */
    {"\x83\x80\0\0\0\0", 6},                      /* opcode 3 */
    {"\x8b\x80\0\0\0\0", 6},                      /* opcode 11 */
    {"\x80\x80\0\0\0\0", 6},                      /* continues nothing */
    {"\x02\x80\0\0\0\0\x82\x80\0\0\0\0", 12},     /* a message inside another */
    {"\x09\x80\0\0\0\0", 6},                      /* a torn ping */
    {"\x89\xfe\0\x7e\0\0\0\0", 8},                /* a long ping */
    {"\x82\xfe\0\x7d\0\0\0\0", 8},                /* 125 in two bytes */
    {"\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", 14}, /* 65535 in eight */
    {"\x82\xff\x80\0\0\0\0\x01\0\0\0\0\0\0", 14}, /* more than 2^63 */
    {"\x88\x80\0\0\0\0\x82\x80\0\0\0\0", 12},     /* after a close */
};
START_TEST(websocket__refuses) {
    struct cc_buf wire, out;
    cc_buf_init(&wire, 1000);
    cc_buf_init(&out, 1000);
    cc_buf_append(&wire, bad[_i].bytes, bad[_i].count);
    ck_assert_int_eq(decode(&wire, 100, &out), CC_PROTOCOL);
    cc_buf_clear(&out);
    ck_assert_int_eq(decode(&wire, 1, &out), CC_PROTOCOL);
    cc_buf_done(&wire);
    cc_buf_done(&out);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("websocket");
    TCase *all = tcase_create("all");
    tcase_add_test(all, websocket__accept_key);
    tcase_add_test(all, websocket__messages);
    tcase_add_test(all, websocket__long_frames);
    tcase_add_loop_test(all, websocket__refuses, 0, CC_ARRAY_LENGTH(bad));
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
