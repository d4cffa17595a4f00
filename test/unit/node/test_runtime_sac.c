/* Goal: a Windows guest's network list is read right and a conversation survives noise, silence and a broken line.
 * contract/06 chapter 7. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/sac.h"
#include "support/fiber_test.h"
#include "support/node/fake_console.h"
#include "support/vectors.h"

START_TEST(sac__reads_nets) {
    struct vk_sac_nets nets;

    vk_sac_nets_parse("i\r\nNet: 3, Ip=10.0.0.5  Subnet=255.255.255.0\r\nNet: 3, Ip=fe80::1  Subnet=ffff\r\n"
                      "Net: 7, Ip=169.254.1.2  Subnet=255.255.0.0\r\nSAC>",
                      &nets);
    ck_assert_uint_eq(nets.number_count, 2);
    ck_assert_uint_eq(nets.numbers[0], 3);
    ck_assert_uint_eq(nets.numbers[1], 7);
    ck_assert_uint_eq(nets.line_count, 3);
    CC_VECTOR("06-84");
    ck_assert(vk_sac_nets_have(&nets, 3, "10.0.0.5") && vk_sac_nets_have(&nets, 3, "fe80::1"));
    ck_assert(!vk_sac_nets_have(&nets, 7, "10.0.0.5") && !vk_sac_nets_have(&nets, 3, "10.0.0.50"));
}
END_TEST

START_TEST(sac__ignores_what_is_no_net) {
    static const char *const texts[] = {"",
                                        "Net:",
                                        "Net: ",
                                        "Net:3, Ip=1.2.3.4",
                                        "Net: x, Ip=1.2.3.4",
                                        "Net: 3 Ip=1.2.3.4",
                                        "Net: 3,Ip=1.2.3.4",
                                        "Net: 3, Ip= 1.2.3.4",
                                        "Net: 99999999999999999999, Ip=1.2.3.4",
                                        "Net: 3, Mac=00"};
    struct vk_sac_nets nets;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(texts); i++) {
        vk_sac_nets_parse(texts[i], &nets);
        ck_assert_msg(nets.line_count == 0, "%s", texts[i]);
    }
    vk_sac_nets_parse("Net: Net: 4,\tIp=1.2.3.4", &nets); /* blanks of any kind */
    ck_assert_uint_eq(nets.numbers[0], 4);

    /* More than fit are not read. */
    struct cc_buf many cc_cleanup(cc_buf_done);
    cc_buf_init(&many, 1 << 20);
    for (int i = 0; i < 200; i++)
        cc_buf_printf(&many, "Net: %d, Ip=1.2.3.4\r\n", i);
    vk_sac_nets_parse(many.data, &nets);
    ck_assert_uint_eq(nets.number_count, VK_SAC_NETS_MAX);
}
END_TEST

START_TEST(sac__masks) {
    const struct {
        int prefix;
        const char *mask;
    } rows[] = {{16, "255.255.0.0"},   {32, "255.255.255.255"}, {24, "255.255.255.0"}, {0, "255.255.255.0"},
                {33, "255.255.255.0"}, {-1, "255.255.255.0"},   {1, "128.0.0.0"},      {30, "255.255.255.252"}};
    char mask[VK_SAC_MASK_BYTES];

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        vk_sac_mask(rows[i].prefix, mask);
        ck_assert_str_eq(mask, rows[i].mask);
    }
    CC_VECTOR("06-27");
}
END_TEST

static void converses(void *argument) {
    struct fake_console *console = argument;
    struct vk_console port = fake_console_port(console);
    struct cc_buf reply cc_cleanup(cc_buf_done);
    struct vk_sac_nets nets;
    struct vk_sac *sac;

    cc_buf_init(&reply, VK_SAC_REPLY_BYTES_MAX);
    console->net_count = 2;
    console->first_number = 3;
    ck_assert_int_eq(vk_sac_open(&port, "/x/console.sock", &sac, NULL), 0);
    cc_buf_append(&console->pending, "noise\0SAC>", 10); /* of an earlier command: discarded */
    cc_event_set(&console->arrived);
    ck_assert_int_eq(vk_sac_command(sac, "i", &reply, NULL), 0);
    vk_sac_nets_parse(reply.data, &nets);
    ck_assert_uint_eq(nets.number_count, 2);
    ck_assert_ptr_null(strstr(reply.data, "noise"));
    ck_assert_int_eq(vk_sac_command(sac, "i 3 10.0.0.2 255.255.255.0 10.0.0.1", &reply, NULL), 0);
    ck_assert_str_eq(console->ips[0], "10.0.0.2");
    ck_assert_str_eq(console->log.data, "dial /x/console.sock\ni\ni 3 10.0.0.2 255.255.255.0 10.0.0.1\n");

    console->is_mute = true;
    struct cc_mono start = cc_now_mono();
    struct cc_err err = {0};
    ck_assert_int_eq(vk_sac_command(sac, "i", &reply, &err), CC_TIMEOUT);
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 5300);
    console->is_broken = true;
    cc_event_set(&console->arrived);
    ck_assert_int_eq(vk_sac_command(sac, "i", &reply, &err), CC_UNAVAILABLE);
    vk_sac_close(sac);
    ck_assert_uint_eq(console->closes, 1);
}

static void gives_up(void *argument) {
    struct fake_console *console = argument;
    struct vk_console port = fake_console_port(console);
    struct cc_mono start = cc_now_mono();
    struct cc_err err = {0};
    struct vk_sac *sac;

    console->refuses_dials = true;
    ck_assert_int_ne(vk_sac_open(&port, "/x", &sac, &err), 0);
    ck_assert_msg(strstr(err.msg, "serial console /x"), "%s", err.msg);
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 60000);
    ck_assert_uint_ge(console->dials, 29);

    console->refuses_dials = false;
    console->is_mute = true; /* connects, and never prompts */
    start = cc_now_mono();
    ck_assert_int_eq(vk_sac_open(&port, "/x", &sac, &err), CC_TIMEOUT);
    ck_assert_int_le(cc_mono_diff_ms(cc_now_mono(), start), 66000);
    ck_assert_uint_eq(console->closes, 1);
}

static void run(void (*body)(void *argument)) {
    struct fake_console console;

    fake_console_init(&console);
    cc_test_run_virtual(body, &console);
    fake_console_done(&console);
}

START_TEST(sac__converses) {
    run(converses);
}
END_TEST

START_TEST(sac__gives_up) {
    run(gives_up);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime sac");
    TCase *tcase = tcase_create("sac");

    tcase_add_test(tcase, sac__reads_nets);
    tcase_add_test(tcase, sac__ignores_what_is_no_net);
    tcase_add_test(tcase, sac__masks);
    tcase_add_test(tcase, sac__converses);
    tcase_add_test(tcase, sac__gives_up);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
