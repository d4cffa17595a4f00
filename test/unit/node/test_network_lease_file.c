/* Goal: an address is believed only when a readable file says so now. contract/06 9.1, field case F16. Method: real
 * files in a temporary directory, wall time handed in. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "network/lease_file.h"
#include "support/vectors.h"

#define MAC "aa:bb:cc:dd:ee:ff"
#define FUTURE "2099-01-01T00:00:00+08:00"

static struct cc_arena arena;
static char directory[64], path[128];
static struct vk_lease_file *file;
static struct cc_wall now;

static void set_up(void) {
    snprintf(directory, sizeof directory, "/tmp/vk-lease-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/leases.json", directory);
    file = vk_lease_file_new(path);
    ck_assert(cc_rfc3339_parse("2026-08-30T12:00:00Z", &now));
}

static void tear_down(void) {
    vk_lease_file_free(file);
    unlink(path);
    rmdir(directory);
    cc_arena_done(&arena);
}

static void put(const char *text) {
    struct cc_err err;

    ck_assert_msg(cc_file_replace(path, text, strlen(text), 0644, &err) == 0, "%s", err.msg);
}

/* "" = no lease, "!" = error. */
static const char *lookup(const char *mac) {
    const char *ip = NULL;
    struct cc_err err;
    int rc = vk_lease_file_lookup(file, mac, now, &arena, &ip, &err);

    if (rc == 0)
        return ip;
    ck_assert_int_ne(rc, CC_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
    return "!";
}

START_TEST(lease__null_is_no_lease) {
    put("null");
    ck_assert_str_eq(lookup(MAC), "");
    put("null\n");
    ck_assert_str_eq(lookup(MAC), "");
    CC_VECTOR("06-61");
}
END_TEST

START_TEST(lease__look_up_by_lower_case_mac) {
    put("[{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.10\",\"expiry\":\"" FUTURE "\"}]");
    ck_assert_str_eq(lookup("AA:BB:CC:DD:EE:FF"), "172.20.0.10");
    CC_VECTOR("06-63");
    ck_assert_str_eq(lookup(MAC), "172.20.0.10");
    CC_VECTOR("06-67");
    ck_assert_str_eq(lookup("aa-bb-cc-dd-ee-ff"), "");
    CC_VECTOR("06-64");
    ck_assert_str_eq(lookup(""), "");
    ck_assert_uint_eq(vk_lease_file_reads(file), 1);
}
END_TEST

START_TEST(lease__one_bad_entry_fails_only_itself) {
    put("[{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.9\",\"expiry\":\"not-a-timestamp\"},"
        "{\"mac\":\"aa:bb:cc:dd:ee:01\",\"ip\":\"172.20.0.10\",\"expiry\":\"" FUTURE "\"},"
        "{\"mac\":\"aa:bb:cc:dd:ee:02\",\"ip\":\"evil host\",\"expiry\":\"" FUTURE "\"}]");
    ck_assert_str_eq(lookup(MAC), "");
    ck_assert_str_eq(lookup("aa:bb:cc:dd:ee:01"), "172.20.0.10");
    ck_assert_str_eq(lookup("aa:bb:cc:dd:ee:02"), "");
    CC_VECTOR("06-65");
}
END_TEST

START_TEST(lease__expires_while_cached) {
    put("[{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.10\",\"expiry\":\"2026-08-30T20:00:05+08:00\"}]");
    ck_assert_str_eq(lookup(MAC), "172.20.0.10");
    now.ns += 5 * CC_NS_PER_S;
    ck_assert_str_eq(lookup(MAC), "");
    now.ns += CC_NS_PER_S;
    ck_assert_str_eq(lookup(MAC), "");
    CC_VECTOR("06-66");
    ck_assert_uint_eq(vk_lease_file_reads(file), 1);
}
END_TEST

START_TEST(lease__later_entry_wins) {
    put("[{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.10\",\"expiry\":\"" FUTURE "\"},"
        "{\"mac\":\"AA:BB:CC:DD:EE:FF\",\"ip\":\"172.20.0.11\",\"expiry\":\"" FUTURE "\"},"
        "{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.12\",\"expiry\":\"bad\"}]");
    ck_assert_str_eq(lookup(MAC), "172.20.0.11");
}
END_TEST

START_TEST(lease__same_size_other_time_is_read_again) {
    struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};

    put("[{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.10\",\"expiry\":\"" FUTURE "\"}]");
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    ck_assert_str_eq(lookup(MAC), "172.20.0.10");
    put("[{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.11\",\"expiry\":\"" FUTURE "\"}]");
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    /* Time and size equal: the cache stands, whatever the file holds. */
    ck_assert_str_eq(lookup(MAC), "172.20.0.10");
    times[1].tv_nsec = 1;
    ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    ck_assert_str_eq(lookup(MAC), "172.20.0.11");
    ck_assert_uint_eq(vk_lease_file_reads(file), 2);
    CC_VECTOR("06-68");
}
END_TEST

/* F16 (b): unreadable is not "no lease"; that the recorded address is kept then is the provider's part. */
START_TEST(lease__bad_file_is_an_error) {
    static const char *const bad[] = {"", " ", "[{\"mac\":\"" MAC "\",\"ip\":\"172.2", "{}", "[7]", "7", "[]x"};

    ck_assert_str_eq(lookup(MAC), "!");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        put("[{\"mac\":\"" MAC "\",\"ip\":\"172.20.0.10\",\"expiry\":\"" FUTURE "\"}]");
        ck_assert_str_eq(lookup(MAC), "172.20.0.10");
        put(bad[i]);
        ck_assert_msg(strcmp(lookup(MAC), "!") == 0, "%s", bad[i]);
        ck_assert_str_eq(lookup(MAC), "!");
    }
    put("[]");
    ck_assert_str_eq(lookup(MAC), "");
    unlink(path);
    ck_assert_str_eq(lookup(MAC), "!");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_str_eq(lookup(MAC), "!");
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

/* F16 (a): only the VM's own MAC counts. */
START_TEST(lease__other_mac_does_not_count) {
    put("[{\"mac\":\"02:00:00:00:00:a1\",\"ip\":\"10.44.0.46\",\"expiry\":\"" FUTURE "\"}]");
    ck_assert_str_eq(lookup("02:00:00:00:00:b1"), "");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("network_lease_file");
    TCase *cases = tcase_create("lease");

    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, lease__null_is_no_lease);
    tcase_add_test(cases, lease__look_up_by_lower_case_mac);
    tcase_add_test(cases, lease__one_bad_entry_fails_only_itself);
    tcase_add_test(cases, lease__expires_while_cached);
    tcase_add_test(cases, lease__later_entry_wins);
    tcase_add_test(cases, lease__same_size_other_time_is_read_again);
    tcase_add_test(cases, lease__bad_file_is_an_error);
    tcase_add_test(cases, lease__other_mac_does_not_count);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
