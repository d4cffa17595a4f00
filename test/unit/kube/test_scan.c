#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "kube/scan.h"

struct outcome {
    int code;
    char items[512]; /* compact items, '|' after each */
    char head[256];
    struct cc_err err;
};

static int pull(struct cc_scan *scan, struct outcome *outcome) {
    for (;;) {
        enum cc_scan_event event;
        json_t *item = NULL;
        int rc = cc_scan_next(scan, &event, &item, &outcome->err);

        if (rc || event == CC_SCAN_NEED)
            return rc;
        char *text = cc_json_dump(item);
        strncat(outcome->items, text, sizeof outcome->items - strlen(outcome->items) - 1);
        strncat(outcome->items, "|", sizeof outcome->items - strlen(outcome->items) - 1);
        free(text);
        json_decref(item);
    }
}

/* Feeds the text in pieces of that size. */
static struct outcome run(enum cc_scan_mode mode, const char *text, size_t limit, size_t piece) {
    struct outcome outcome = {0};
    struct cc_scan scan;
    size_t count = strlen(text);

    cc_scan_init(&scan, mode, limit);
    for (size_t i = 0; i < count && outcome.code == 0; i += piece) {
        cc_scan_feed(&scan, text + i, count - i < piece ? count - i : piece);
        outcome.code = pull(&scan, &outcome);
    }
    if (outcome.code == 0)
        outcome.code = cc_scan_finish(&scan, &outcome.err);
    char *head = cc_json_dump(cc_scan_head(&scan));
    snprintf(outcome.head, sizeof outcome.head, "%s", head);
    free(head);
    cc_scan_done(&scan);
    return outcome;
}

START_TEST(scan__cuts_the_same_whatever_the_pieces) {
    static const struct {
        enum cc_scan_mode mode;
        const char *text, *items, *head;
    } rows[] = {
        {CC_SCAN_LIST,
         "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"a\":1},{\"b\":[{}]}]}",
         "{\"a\":1}|{\"b\":[{}]}|", "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\"}}"},
        {CC_SCAN_LIST, " {\"apiVersion\":\"x/v1\" , \"items\" : [ {\"t\":\"]}\\\"\\\\\"} ] , \"kind\":\"L\" } \n",
         "{\"t\":\"]}\\\"\\\\\"}|", "{\"apiVersion\":\"x/v1\",\"kind\":\"L\"}"},
        {CC_SCAN_LIST, "{\"items\":null,\"kind\":\"L\",\"n\":-1.5,\"t\":true}", "",
         "{\"kind\":\"L\",\"n\":-1.5,\"t\":true}"},
        {CC_SCAN_LIST, "{\"items\":[]}", "", "{}"},
        {CC_SCAN_STREAM, "{\"type\":\"ADDED\"}\n{\"type\":\"x\\u00e9\"}\r\n\n  [1]",
         "{\"type\":\"ADDED\"}|{\"type\":\"x\xc3\xa9\"}|[1]|", "{}"},
        {CC_SCAN_STREAM, "", "", "{}"},
        {CC_SCAN_STREAM, "{}{}", "{}|{}|", "{}"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        for (size_t piece = 1; piece <= strlen(rows[i].text) + 1; piece++) {
            struct outcome outcome = run(rows[i].mode, rows[i].text, 1000, piece);

            ck_assert_msg(outcome.code == 0, "row %zu piece %zu: %s", i, piece, outcome.err.msg);
            ck_assert_str_eq(outcome.items, rows[i].items);
            ck_assert_str_eq(outcome.head, rows[i].head);
        }
    }
}
END_TEST

START_TEST(scan__refuses_what_is_malformed) {
    static const struct {
        enum cc_scan_mode mode;
        const char *text;
        int code;
    } rows[] = {
        {CC_SCAN_LIST, "[]", CC_PROTOCOL},
        {CC_SCAN_LIST, "{}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"kind\":\"Pod\"}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[{}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[{}]", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[{},]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[,]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":{}}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[],\"items\":[]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[]}x", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\\u0000\":[]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{items:[]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\"[]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"a\":1,}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"a\":nope,\"items\":[]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[{\"a\":}]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[{\"a\"]}", CC_PROTOCOL},
        {CC_SCAN_LIST, "{\"items\":[{\"a\":\"0123456789012345678901234567890123456789\"}]}", CC_LIMIT},
        {CC_SCAN_LIST, "{\"metadata\":\"0123456789012345678901234567890123456789\"}", CC_LIMIT},
        {CC_SCAN_STREAM, "{\"type\":\"ADD", CC_PROTOCOL},
        {CC_SCAN_STREAM, "}", CC_PROTOCOL},
        {CC_SCAN_STREAM, "{}\n:", CC_PROTOCOL},
        {CC_SCAN_STREAM, "\"0123456789012345678901234567890123456789", CC_LIMIT},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        for (size_t piece = 1; piece < 50; piece += 7) {
            struct outcome outcome = run(rows[i].mode, rows[i].text, 32, piece);

            ck_assert_msg(outcome.code == rows[i].code, "row %zu: %d %s", i, outcome.code, outcome.err.msg);
        }
    }
}
END_TEST

START_TEST(scan__bounds_the_depth) {
    char text[512] = "";

    for (int i = 0; i < 200; i++)
        strcat(text, "[");
    struct outcome outcome = run(CC_SCAN_STREAM, text, 1000, 10);
    ck_assert_int_eq(outcome.code, CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(outcome.err.msg, "64"));
}
END_TEST

START_TEST(scan__bounds_the_head) {
    struct cc_buf text;
    struct outcome outcome;

    cc_buf_init(&text, 4 * CC_SCAN_HEAD_BYTES_MAX);
    cc_buf_puts(&text, "{");
    for (int i = 0; i < 30000; i++)
        cc_buf_printf(&text, "\"member%d\":\"0123456789012345678901234567890123456789\",", i);
    outcome = run(CC_SCAN_LIST, text.data, 1000, 4096);
    ck_assert_int_eq(outcome.code, CC_LIMIT);
    cc_buf_clear(&text);
    cc_buf_puts(&text, "{\"");
    for (int i = 0; i < 300; i++)
        cc_buf_putc(&text, 'k');
    cc_buf_puts(&text, "\":1}");
    outcome = run(CC_SCAN_LIST, text.data, 1000, 4096);
    ck_assert_int_eq(outcome.code, CC_LIMIT);
    cc_buf_done(&text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kube/scan");
    TCase *tcase = tcase_create("scan");

    tcase_add_test(tcase, scan__cuts_the_same_whatever_the_pieces);
    tcase_add_test(tcase, scan__refuses_what_is_malformed);
    tcase_add_test(tcase, scan__bounds_the_depth);
    tcase_add_test(tcase, scan__bounds_the_head);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
