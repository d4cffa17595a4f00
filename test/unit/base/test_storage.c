/* Arena, buffers, string maps and lists, small files. */
#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/strmap.h"

START_TEST(arena__gives_zeroed_aligned_memory) {
    struct cc_arena arena = {0};
    for (size_t bytes = 1; bytes < 5000; bytes += 37) {
        cc_arena_strdup(&arena, "x"); /* shifts the next start */
        unsigned char *memory = cc_arena_alloc(&arena, bytes);
        ck_assert_uint_eq((uintptr_t)memory % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < bytes; i++)
            ck_assert_uint_eq(memory[i], 0);
        memset(memory, 0xAA, bytes);
    }
    ck_assert_str_eq(cc_arena_printf(&arena, "%s-%d", "a", 5), "a-5");
    ck_assert_ptr_null(cc_arena_strdup(&arena, NULL));
    ck_assert_str_eq(cc_arena_strndup(&arena, "abc", 2), "ab");
    cc_arena_done(&arena);
    cc_arena_done(&arena);
}
END_TEST

START_TEST(buf__holds_its_bound) {
    struct cc_buf buf;
    cc_buf_init(&buf, 8);
    ck_assert_int_eq(cc_buf_puts(&buf, "12345"), 0);
    ck_assert_int_eq(cc_buf_puts(&buf, "6789"), CC_LIMIT);
    ck_assert_str_eq(buf.data, "12345");
    ck_assert_int_eq(cc_buf_printf(&buf, "%d", 678), 0);
    ck_assert_str_eq(buf.data, "12345678");
    struct cc_err err;
    ck_assert_int_eq(cc_buf_check(&buf, "the text", &err), CC_LIMIT);
    ck_assert_str_eq(err.msg, "the text: more than 8 bytes");
    cc_buf_consume(&buf, 6);
    ck_assert_str_eq(buf.data, "78");
    cc_buf_clear(&buf);
    ck_assert_int_eq(cc_buf_check(&buf, "x", NULL), 0);
    cc_buf_done(&buf);
    ck_assert_str_eq(buf.data, "");
    char *text = cc_buf_steal(&buf);
    ck_assert_str_eq(text, "");
    free(text);
}
END_TEST

START_TEST(buf__reserve_and_commit_grow_it) {
    struct cc_buf buf;
    cc_buf_init(&buf, SIZE_MAX / 2);
    for (int i = 0; i < 1000; i++) {
        char *room = cc_buf_reserve(&buf, 100);
        memset(room, 'x', 100);
        cc_buf_commit(&buf, 100);
    }
    ck_assert_uint_eq(buf.len, 100000);
    ck_assert_uint_eq(strlen(buf.data), 100000);
    cc_buf_done(&buf);
    cc_buf_init(&buf, 10);
    ck_assert_ptr_null(cc_buf_reserve(&buf, 11));
    cc_buf_done(&buf);
}
END_TEST

START_TEST(strmap__is_sorted_and_replaces) {
    struct cc_arena arena = {0};
    struct cc_strmap map = {0}, copy;
    static const char *const keys[] = {"m", "a", "z", "k", "b", "y", "c"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(keys); i++)
        cc_strmap_set(&map, &arena, keys[i], "1");
    cc_strmap_set(&map, &arena, "k", "2");
    ck_assert_uint_eq(map.count, 7);
    for (size_t i = 1; i < map.count; i++)
        ck_assert_int_lt(strcmp(map.items[i - 1].key, map.items[i].key), 0);
    ck_assert_str_eq(cc_strmap_get(&map, "k"), "2");
    ck_assert_ptr_null(cc_strmap_get(&map, "q"));
    ck_assert_str_eq(cc_strmap_text(&map, "q"), "");
    cc_strmap_copy(&copy, &arena, &map);
    ck_assert(cc_strmap_equal(&map, &copy));
    cc_strmap_remove(&copy, "k");
    cc_strmap_remove(&copy, "nothing");
    ck_assert(!cc_strmap_equal(&map, &copy));
    ck_assert_uint_eq(copy.count, 6);
    cc_arena_done(&arena);
}
END_TEST

START_TEST(strlist__keeps_order_and_uniqueness) {
    struct cc_arena arena = {0};
    struct cc_strlist list = {0};
    ck_assert(cc_strlist_add_unique(&list, &arena, "b"));
    ck_assert(cc_strlist_add_unique(&list, &arena, "a"));
    ck_assert(!cc_strlist_add_unique(&list, &arena, "b"));
    for (int i = 0; i < 10; i++)
        cc_strlist_add(&list, &arena, "c");
    ck_assert_uint_eq(list.count, 12);
    ck_assert_str_eq(list.items[0], "b");
    ck_assert(cc_strlist_remove(&list, "b"));
    ck_assert(!cc_strlist_remove(&list, "b"));
    cc_strlist_add(&list, &arena, "A");
    cc_strlist_sort(&list);
    ck_assert_str_eq(list.items[0], "A");
    cc_arena_done(&arena);
}
END_TEST

START_TEST(file__reads_within_the_bound_and_replaces_whole) {
    char directory[] = "/tmp/cc-file-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(directory));
    char *path = cc_xasprintf("%s/f", directory);
    struct cc_err err;
    struct cc_buf buf;
    cc_buf_init(&buf, 10);
    ck_assert_int_eq(cc_file_read(path, &buf, &err), CC_NOT_FOUND);
    ck_assert_int_eq(cc_file_replace(path, "0123456789", 10, 0600, &err), 0);
    ck_assert_int_eq(cc_file_read(path, &buf, &err), 0);
    ck_assert_str_eq(buf.data, "0123456789");
    ck_assert_int_eq(cc_file_replace(path, "01234567890", 11, 0640, &err), 0);
    cc_buf_clear(&buf);
    ck_assert_int_eq(cc_file_read(path, &buf, &err), CC_LIMIT);
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0640);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(directory), 0); /* no temporary file was left */
    ck_assert_int_ne(cc_file_replace(path, "x", 1, 0600, &err), 0);
    cc_buf_done(&buf);
    free(path);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("storage");
    TCase *tests = tcase_create("storage");
    tcase_add_test(tests, arena__gives_zeroed_aligned_memory);
    tcase_add_test(tests, buf__holds_its_bound);
    tcase_add_test(tests, buf__reserve_and_commit_grow_it);
    tcase_add_test(tests, strmap__is_sorted_and_replaces);
    tcase_add_test(tests, strlist__keeps_order_and_uniqueness);
    tcase_add_test(tests, file__reads_within_the_bound_and_replaces_whole);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
