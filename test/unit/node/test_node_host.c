/* vk-cocoon/node/node_ip.c and host_lock.c. */
#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "node/host_lock.h"
#include "node/node_ip.h"

struct entry {
    struct ifaddrs item;
    struct sockaddr_storage address;
};

static void fill(struct entry *entry, int family, const char *text, struct entry *next) {
    memset(entry, 0, sizeof(*entry));
    entry->item.ifa_next = next ? &next->item : NULL;
    if (family == AF_UNSPEC)
        return;
    entry->item.ifa_addr = (struct sockaddr *)&entry->address;
    entry->address.ss_family = (sa_family_t)family;
    void *at = family == AF_INET ? (void *)&((struct sockaddr_in *)&entry->address)->sin_addr
                                 : (void *)&((struct sockaddr_in6 *)&entry->address)->sin6_addr;
    ck_assert_int_eq(inet_pton(family, text, at), 1);
}

START_TEST(node_ip__is_the_first_ipv4_that_is_not_loopback) {
    struct cc_arena arena = {0};
    struct entry entries[5];
    fill(&entries[4], AF_INET, "10.0.0.9", NULL);
    fill(&entries[3], AF_INET, "192.0.2.7", &entries[4]);
    fill(&entries[2], AF_INET6, "fd00::1", &entries[3]);
    fill(&entries[1], AF_INET, "127.0.0.1", &entries[2]);
    fill(&entries[0], AF_UNSPEC, "", &entries[1]); /* an interface without address */
    ck_assert_str_eq(vk_node_ip_pick(&entries[0].item, &arena), "192.0.2.7");
    fill(&entries[1], AF_INET, "127.9.9.9", NULL);
    ck_assert_ptr_null(vk_node_ip_pick(&entries[0].item, &arena));
    ck_assert_ptr_null(vk_node_ip_pick(NULL, &arena));
    cc_arena_done(&arena);
}
END_TEST

START_TEST(host_lock__refuses_a_second_daemon_and_goes_with_its_holder) {
    char folder[] = "/tmp/vk-lock-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    char root[64];
    snprintf(root, sizeof(root), "%s/root", folder); /* is created */
    int first = -1, second = -1;
    struct cc_err err = {0};
    ck_assert_int_eq(vk_host_lock_take(root, &first, &err), CC_OK);
    ck_assert_int_eq(vk_host_lock_take(root, &second, &err), CC_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "vk-cocoon.lock"));
    char pid[32];
    snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
    ck_assert_ptr_nonnull(strstr(err.msg, pid));
    ck_assert_int_eq(second, -1);

    /* A VM that was started by the daemon and outlives it does not hold the lock. */
    ck_assert_int_ne(fcntl(first, F_GETFD) & FD_CLOEXEC, 0);
    cc_fd_close(first);
    ck_assert_int_eq(vk_host_lock_take(root, &second, &err), CC_OK);
    cc_fd_close(second);
    char path[96];
    snprintf(path, sizeof(path), "%s/vk-cocoon.lock", root);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(root), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(host_lock__names_a_root_that_cannot_be_made) {
    int fd = -1;
    struct cc_err err = {0};
    ck_assert_int_ne(vk_host_lock_take("/no/such/folder", &fd, &err), CC_OK);
    ck_assert_ptr_nonnull(strstr(err.msg, "COCOON_ROOT_DIR=\"/no/such/folder\""));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("host");
    TCase *tests = tcase_create("host");
    tcase_add_test(tests, node_ip__is_the_first_ipv4_that_is_not_loopback);
    tcase_add_test(tests, host_lock__refuses_a_second_daemon_and_goes_with_its_holder);
    tcase_add_test(tests, host_lock__names_a_root_that_cannot_be_made);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
