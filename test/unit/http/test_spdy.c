/* SPDY/3.1 frames. contract/08 4.5 and the byte vectors of chapter 10. */
#include "http/spdy.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/text.h"
#include "http/spdy_internal.h"
#include "support/vectors.h"

/* Bytes of a hex text with blanks. */
static size_t unhex(const char *text, uint8_t *ret) {
    static const char digits[] = "0123456789abcdef";
    size_t count = 0;
    for (int half = 0; *text; text++) {
        if (*text == ' ')
            continue;
        unsigned value = (unsigned)(strchr(digits, *text) - digits);
        ret[count] = (uint8_t)(half ? ret[count] << 4 | value : value);
        count += half;
        half = !half;
    }
    return count;
}

/* Feeds all of it and expects exactly one event, which must come with the last byte. */
static struct cc_spdy_event feed_one(struct cc_spdy *spdy, const char *hex) {
    static uint8_t bytes[4096]; /* the event may point into it */
    struct cc_spdy_event event;
    size_t used = 0, count = unhex(hex, bytes);
    ck_assert_int_eq(cc_spdy_feed(spdy, bytes, count, &used, &event, NULL), 0);
    ck_assert_uint_eq(used, count);
    return event;
}

static void assert_put(const struct cc_buf *buf, const char *hex) {
    uint8_t bytes[4096];
    size_t count = unhex(hex, bytes);
    ck_assert_uint_eq(buf->len, count);
    ck_assert_mem_eq(buf->data, bytes, count);
}

START_TEST(spdy__dictionary) {
    uint8_t dictionary[CC_SPDY_DICTIONARY_BYTES];
    char hex[CC_SHA256_HEX_BYTES];
    cc_spdy_dictionary(dictionary);
    cc_sha256_hex_of(dictionary, sizeof dictionary, hex);
    ck_assert_str_eq(hex, "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02");
    ck_assert_uint_eq(adler32(1, dictionary, sizeof dictionary), 0xe3c6a7c2U);
}
END_TEST

START_TEST(spdy__client_streams) {
    struct cc_spdy *spdy = cc_spdy_new();
    struct cc_spdy_event event = feed_one(spdy, "80030001 00000029 00000001 00000000 0000"
                                                "78f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff");
    ck_assert_int_eq(event.type, CC_SPDY_STREAM);
    ck_assert_uint_eq(event.stream, 1);
    ck_assert(!event.is_final);
    ck_assert_uint_eq(event.header_count, 1);
    ck_assert_str_eq(cc_spdy_event_header(&event, "streamtype"), "error");
    ck_assert_ptr_null(cc_spdy_event_header(&event, "port"));
    CC_VECTOR("08-10.47");
    CC_VECTOR("08-10.48");
    event = feed_one(spdy, "80030001 00000017 00000003 00000000 0000 c22e555c92929907000000ffff");
    ck_assert_int_eq(event.type, CC_SPDY_STREAM);
    ck_assert_uint_eq(event.stream, 3);
    ck_assert_str_eq(cc_spdy_event_header(&event, "streamtype"), "stdin");
    CC_VECTOR("08-10.49");
    cc_spdy_free(spdy);
}
END_TEST

/* Replies of a Go server, as a client sees them, and ours read by ourselves. */
START_TEST(spdy__replies) {
    struct cc_spdy_blocks blocks;
    uint8_t bytes[64];
    cc_spdy_blocks_init(&blocks);
    ck_assert_int_eq(cc_spdy_block_read(&blocks, bytes, unhex("78f9e3c6a7c26260606000000000ffff", bytes), NULL), 0);
    ck_assert_uint_eq(blocks.header_count, 0);
    ck_assert_int_eq(cc_spdy_block_read(&blocks, bytes, unhex("026100000000ffff", bytes), NULL), 0);
    ck_assert_uint_eq(blocks.header_count, 0);
    cc_spdy_blocks_done(&blocks);

    struct cc_spdy *server = cc_spdy_new(), *client = cc_spdy_new();
    struct cc_spdy_event event;
    struct cc_buf out;
    size_t used;
    cc_buf_init(&out, 10000);
    cc_spdy_put_reply(server, 1, &out);
    ck_assert_mem_eq(out.data, "\x80\x03\x00\x02\x00\x00\x00", 7);
    ck_assert_mem_eq(out.data + 8, "\x00\x00\x00\x01", 4);
    /* Zlib header that announces a dictionary, and which: a client without it could not read the block. */
    ck_assert_mem_eq(out.data + 14, "\xe3\xc6\xa7\xc2", 4);
    cc_spdy_put_reply(server, 3, &out);
    ck_assert_int_eq(cc_spdy_feed(client, (const uint8_t *)out.data, out.len, &used, &event, NULL), 0);
    ck_assert_uint_eq(used, out.len);
    ck_assert_int_eq(event.type, CC_SPDY_NOTHING);
    CC_VECTOR("08-10.50");
    CC_VECTOR("08-10.51");
    cc_buf_done(&out);
    cc_spdy_free(server);
    cc_spdy_free(client);

    cc_spdy_blocks_init(&blocks);
    ck_assert_int_eq(cc_spdy_block_read(&blocks, bytes, unhex("78f9e3c6a7c202a6230600000000ffff", bytes), NULL), 0);
    ck_assert_uint_eq(blocks.text.len, 4);
    ck_assert_mem_eq(blocks.text.data, "\0\0\0\0", 4);
    ck_assert_int_eq(cc_spdy_block_read(&blocks, bytes, unhex("020100000000ffff", bytes), NULL), 0);
    ck_assert_uint_eq(blocks.text.len, 4);
    CC_VECTOR("08-10.52");
    cc_spdy_blocks_done(&blocks);
}
END_TEST

START_TEST(spdy__plain_frames) {
    struct cc_spdy *spdy = cc_spdy_new();
    struct cc_buf out;
    cc_buf_init(&out, 10000);
    struct cc_spdy_event event = feed_one(spdy, "00000003 00000003 6c730a");
    ck_assert_int_eq(event.type, CC_SPDY_DATA);
    ck_assert_uint_eq(event.stream, 3);
    ck_assert_uint_eq(event.count, 3);
    ck_assert_mem_eq(event.bytes, "ls\n", 3);
    ck_assert(!event.is_final);
    event = feed_one(spdy, "00000003 01000000");
    ck_assert_int_eq(event.type, CC_SPDY_DATA);
    ck_assert_uint_eq(event.count, 0);
    ck_assert(event.is_final);
    cc_spdy_put_data_header(3, false, 3, &out);
    cc_buf_puts(&out, "ls\n");
    cc_spdy_put_data_header(3, true, 0, &out);
    assert_put(&out, "00000003 00000003 6c730a 00000003 01000000");
    CC_VECTOR("08-10.53");

    event = feed_one(spdy, "80030006 00000004 00000001");
    ck_assert_int_eq(event.type, CC_SPDY_PING);
    ck_assert_uint_eq(event.stream, 1);
    cc_buf_clear(&out);
    cc_spdy_put_ping(event.stream, &out);
    assert_put(&out, "80030006 00000004 00000001");
    CC_VECTOR("08-10.54");

    event = feed_one(spdy, "80030003 00000008 00000003 00000005");
    ck_assert_int_eq(event.type, CC_SPDY_RESET);
    ck_assert_uint_eq(event.stream, 3);
    ck_assert_uint_eq(event.status, CC_SPDY_CANCEL);
    cc_buf_clear(&out);
    cc_spdy_put_reset(3, CC_SPDY_CANCEL, &out);
    assert_put(&out, "80030003 00000008 00000003 00000005");
    CC_VECTOR("08-10.55");

    event = feed_one(spdy, "80030007 00000008 00000003 00000000");
    ck_assert_int_eq(event.type, CC_SPDY_GOAWAY);
    cc_buf_clear(&out);
    cc_spdy_put_goaway(3, &out);
    assert_put(&out, "80030007 00000008 00000003 00000000");
    CC_VECTOR("08-10.56");

    /* SETTINGS, WINDOW_UPDATE and an unknown type say nothing. */
    event = feed_one(spdy, "80030004 0000000c 00000001 00000004 00000064 80030009 00000008 00000001 00000064"
                           "800300ff 00000001 00");
    ck_assert_int_eq(event.type, CC_SPDY_NOTHING);
    cc_buf_done(&out);
    cc_spdy_free(spdy);
}
END_TEST

START_TEST(spdy__same_however_cut) {
    static const struct cc_spdy_header headers[] = {{"streamtype", "data"}, {"port", "8080"}, {"requestid", "0"}};
    struct cc_spdy *writer = cc_spdy_new();
    struct cc_buf wire;
    cc_buf_init(&wire, 100000);
    for (uint32_t stream = 1; stream < 20; stream += 2)
        cc_spdy_put_stream(writer, stream, headers, 3, &wire);
    cc_spdy_put_data_header(7, true, 5, &wire);
    cc_buf_puts(&wire, "hello");
    for (size_t piece = 1; piece < 40; piece++) {
        struct cc_spdy *reader = cc_spdy_new();
        size_t streams = 0, data = 0, finals = 0;
        for (size_t at = 0; at < wire.len;) {
            size_t count = wire.len - at < piece ? wire.len - at : piece, used;
            struct cc_spdy_event event;
            ck_assert_int_eq(cc_spdy_feed(reader, (const uint8_t *)wire.data + at, count, &used, &event, NULL), 0);
            at += used;
            streams += event.type == CC_SPDY_STREAM && cc_text_equal(cc_spdy_event_header(&event, "port"), "8080");
            data += event.type == CC_SPDY_DATA ? event.count : 0;
            finals += event.is_final;
        }
        ck_assert_uint_eq(streams, 10);
        ck_assert_uint_eq(data, 5);
        ck_assert_uint_eq(finals, 1);
        cc_spdy_free(reader);
    }
    cc_buf_done(&wire);
    cc_spdy_free(writer);
}
END_TEST

static const struct {
    const char *hex;
    int code;
} bad_frames[] = {
    {"80020006 00000004 00000001", CC_PROTOCOL},                    /* version 2 */
    {"00000000 00000001", CC_PROTOCOL},                             /* data of stream 0 */
    {"80030001 00000004 00000001", CC_PROTOCOL},                    /* SYN_STREAM cut short */
    {"80030001 0000000b 00000000 00000000 0000 00", CC_PROTOCOL},   /* stream 0 */
    {"80030001 0000000c 00000001 00000000 0000 ffff", CC_PROTOCOL}, /* no zlib */
    {"80030001 0000000a 00000001 00000000 0000", CC_PROTOCOL},      /* no block */
    {"80030003 00000004 00000001", CC_PROTOCOL},                    /* RST_STREAM without its status */
    {"80030006 00000000", CC_PROTOCOL},                             /* PING without its id */
    {"80030004 00010001", CC_LIMIT},                                /* 64 KiB and one byte of SETTINGS */
};
START_TEST(spdy__refuses) {
    struct cc_spdy *spdy = cc_spdy_new();
    struct cc_spdy_event event;
    struct cc_err err = {0};
    uint8_t bytes[256];
    size_t used;
    ck_assert_int_eq(cc_spdy_feed(spdy, bytes, unhex(bad_frames[_i].hex, bytes), &used, &event, &err),
                     bad_frames[_i].code);
    ck_assert(cc_text_starts_with(err.msg, "SPDY: "));
    cc_spdy_free(spdy);
}
END_TEST

/* 64 KiB of zeroes are a few bytes when compressed; so are many headers. */
START_TEST(spdy__bounds_blocks) {
    struct cc_spdy *writer = cc_spdy_new(), *reader = cc_spdy_new();
    struct cc_buf wire;
    struct cc_spdy_event event;
    size_t used;
    cc_buf_init(&wire, 1000000);
    struct cc_spdy_header many[CC_SPDY_HEADERS_MAX + 1];
    for (size_t i = 0; i < CC_ARRAY_LENGTH(many); i++)
        many[i] = (struct cc_spdy_header){"a", "b"};
    cc_spdy_put_stream(writer, 1, many, CC_SPDY_HEADERS_MAX, &wire);
    ck_assert_int_eq(cc_spdy_feed(reader, (const uint8_t *)wire.data, wire.len, &used, &event, NULL), 0);
    ck_assert_uint_eq(event.header_count, CC_SPDY_HEADERS_MAX);
    cc_buf_clear(&wire);
    cc_spdy_put_stream(writer, 3, many, CC_SPDY_HEADERS_MAX + 1, &wire);
    ck_assert_int_eq(cc_spdy_feed(reader, (const uint8_t *)wire.data, wire.len, &used, &event, NULL), CC_LIMIT);
    cc_spdy_free(reader);
    cc_spdy_free(writer);

    z_stream bomb = {0};
    uint8_t dictionary[CC_SPDY_DICTIONARY_BYTES], *zeroes = cc_xcalloc(1, CC_SPDY_BLOCK_BYTES_MAX + 1), out[2000];
    cc_spdy_dictionary(dictionary);
    ck_assert_int_eq(deflateInit(&bomb, 9), Z_OK);
    ck_assert_int_eq(deflateSetDictionary(&bomb, dictionary, sizeof dictionary), Z_OK);
    bomb.next_in = zeroes;
    bomb.avail_in = CC_SPDY_BLOCK_BYTES_MAX + 1;
    bomb.next_out = out;
    bomb.avail_out = sizeof out;
    ck_assert_int_eq(deflate(&bomb, Z_SYNC_FLUSH), Z_OK);
    ck_assert_uint_eq(bomb.avail_in, 0);
    struct cc_spdy_blocks blocks;
    cc_spdy_blocks_init(&blocks);
    ck_assert_int_eq(cc_spdy_block_read(&blocks, out, sizeof out - bomb.avail_out, NULL), CC_LIMIT);
    cc_spdy_blocks_done(&blocks);
    deflateEnd(&bomb);
    free(zeroes);
    cc_buf_done(&wire);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("spdy");
    TCase *all = tcase_create("all");
    tcase_add_test(all, spdy__dictionary);
    tcase_add_test(all, spdy__client_streams);
    tcase_add_test(all, spdy__replies);
    tcase_add_test(all, spdy__plain_frames);
    tcase_add_test(all, spdy__same_however_cut);
    tcase_add_loop_test(all, spdy__refuses, 0, CC_ARRAY_LENGTH(bad_frames));
    tcase_add_test(all, spdy__bounds_blocks);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
