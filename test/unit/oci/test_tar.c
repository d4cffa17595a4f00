#include "oci/tar.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "oci/tar_format.h"
#include "support/snapshot_fixture.h"

/* Lists an archive as text: "name mode size [map size] body" per entry; bodies as they are. Fed in pieces. */
static int list(const struct cc_buf *archive, size_t piece, struct cc_buf *into, struct cc_err *err) {
    struct cc_tar_reader *reader cc_cleanup(cc_tar_reader_free_p) = cc_tar_reader_new();
    for (size_t at = 0; at < archive->len; at += piece) {
        size_t count = archive->len - at < piece ? archive->len - at : piece;
        char *copy cc_cleanup(cc_free_p) = cc_xmalloc(count);
        memcpy(copy, archive->data + at, count);
        cc_tar_reader_feed(reader, copy, count);
        enum cc_tar_event event;
        do {
            const char *data = NULL;
            size_t bytes = 0;
            int rc = cc_tar_reader_next(reader, &event, &data, &bytes, err);
            if (rc)
                return rc;
            const struct cc_tar_entry *entry = cc_tar_reader_entry(reader);
            if (event == CC_TAR_ENTRY) {
                rc = cc_buf_printf(into, "%s%s %o %lld ", entry->is_regular ? "" : "?", entry->name, entry->mode,
                                   (long long)entry->size);
                if (rc == 0 && entry->sparse_map)
                    rc = cc_buf_printf(into, "%s %lld ", entry->sparse_map, (long long)entry->sparse_size);
            } else if (event == CC_TAR_DATA) {
                rc = cc_buf_append(into, data, bytes);
            } else if (event == CC_TAR_ENTRY_END) {
                rc = cc_buf_putc(into, '\n');
            }
            ck_assert_int_eq(rc, 0);
        } while (event != CC_TAR_NEED_INPUT && event != CC_TAR_END);
    }
    return cc_tar_reader_finish(reader, err);
}

static void check_list(const struct cc_buf *archive, const char *expected) {
    static const size_t pieces[] = {1, 7, 511, 512, 513, 100000};
    for (size_t i = archive->len > 100000 ? 2 : 0; i < CC_ARRAY_LENGTH(pieces); i++) {
        struct cc_buf text cc_cleanup(cc_buf_done);
        struct cc_err err = {0};
        cc_buf_init(&text, 1000000);
        int rc = list(archive, pieces[i], &text, &err);
        ck_assert_msg(rc == 0, "%s", err.msg);
        ck_assert_str_eq(text.data, expected);
    }
}

static int list_fails(const struct cc_buf *archive, struct cc_err *err) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, 10000000);
    int rc = list(archive, 1000, &text, err);
    struct cc_buf again cc_cleanup(cc_buf_done);
    cc_buf_init(&again, 10000000);
    ck_assert_int_eq(list(archive, archive->len > 100000 ? 997 : 1, &again, NULL), rc);
    return rc;
}

START_TEST(tar__reads_what_it_writes) {
    struct cc_buf archive cc_cleanup(cc_buf_done);
    cc_buf_init(&archive, 1000000);
    fixture_archive(&archive);
    ck_assert_uint_eq(archive.len, 7680);
    /* Positions of contract/05 15.1. */
    static const struct {
        size_t at;
        const char *name;
    } headers[] = {{0, "snapshot.json"},    {1536, "config.json"},   {2560, "PaxHeaders.0/memory-ranges"},
                   {3584, "memory-ranges"}, {4608, "overlay.qcow2"}, {5632, "state.json"}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(headers); i++)
        ck_assert_str_eq(archive.data + headers[i].at, headers[i].name);
    static const char pax[] = "54 COCOON.sparse.map=" FIXTURE_MAP "\n27 COCOON.sparse.size=8192\n";
    ck_assert_uint_eq(strlen(pax), 81);
    ck_assert_str_eq(archive.data + 3072, pax);
    char expected[2000];
    snprintf(expected, sizeof expected,
             "snapshot.json 640 553 %s\nconfig.json 640 10 {\"cpus\":2}\nmemory-ranges 600 16 " FIXTURE_MAP
             " 8192 HEADDATATAILDATA\noverlay.qcow2 640 12 QFI\xfb-overlay\nstate.json 640 18 {\"state\":\"Paused\"}\n",
             fixture_envelope);
    check_list(&archive, expected);
}
END_TEST

START_TEST(tar__empty_and_large_entries) {
    struct cc_buf archive cc_cleanup(cc_buf_done);
    cc_buf_init(&archive, 1000000);
    fixture_add_entry(&archive, "empty", "", 0, NULL, 0);
    fixture_add_entry(&archive, "holes", "", 0, "[]", 1 << 20);
    cc_tar_write_end(&archive);
    check_list(&archive, "empty 640 0 \nholes 640 0 [] 1048576 \n");

    /* 8 GiB and more: the size moves into a PAX record. */
    cc_buf_clear(&archive);
    const struct cc_tar_entry entry = {.name = "mem", .is_regular = true, .mode = 0600, .size = INT64_C(8) << 30};
    ck_assert_int_eq(cc_tar_write_header(&archive, &entry, 0, NULL), 0);
    ck_assert_str_eq(archive.data + 512, "19 size=8589934592\n");
    struct cc_tar_reader *reader cc_cleanup(cc_tar_reader_free_p) = cc_tar_reader_new();
    enum cc_tar_event event;
    cc_tar_reader_feed(reader, archive.data, archive.len);
    ck_assert_int_eq(cc_tar_reader_next(reader, &event, NULL, NULL, NULL), 0);
    ck_assert_int_eq(event, CC_TAR_ENTRY);
    ck_assert_int_eq(cc_tar_reader_entry(reader)->size, INT64_C(8) << 30);
    ck_assert_int_eq(cc_tar_reader_finish(reader, NULL), CC_PROTOCOL);
    const struct cc_tar_entry smaller = {.name = "mem", .is_regular = true, .size = (INT64_C(8) << 30) - 1};
    cc_buf_clear(&archive);
    ck_assert_int_eq(cc_tar_write_header(&archive, &smaller, 0, NULL), 0);
    ck_assert_uint_eq(archive.len, 512);
}
END_TEST

START_TEST(tar__long_and_foreign_names) {
    struct cc_buf archive cc_cleanup(cc_buf_done);
    char name[251], expected[600];
    cc_buf_init(&archive, 1000000);
    memset(name, 'n', 250);
    name[250] = '\0';
    fixture_add_entry(&archive, name, "x", 1, NULL, 0);
    fixture_add_entry(&archive, "é", "y", 1, NULL, 0);
    cc_tar_write_end(&archive);
    snprintf(expected, sizeof expected, "%s 640 1 x\né 640 1 y\n", name);
    check_list(&archive, expected);
}
END_TEST

static struct cc_ustar_header *header_at(struct cc_buf *archive, size_t at) {
    return (struct cc_ustar_header *)(void *)(archive->data + at);
}

static void fix_checksum(struct cc_ustar_header *header) {
    unsigned sum = 0;
    memset(header->checksum, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += ((unsigned char *)header)[i];
    snprintf(header->checksum, 8, "%06o", sum);
}

START_TEST(tar__other_kinds_of_entries) {
    struct cc_buf archive cc_cleanup(cc_buf_done);
    cc_buf_init(&archive, 1000000);
    fixture_add_entry(&archive, "dir", "", 0, NULL, 0);
    header_at(&archive, 0)->type = '5';
    memcpy(header_at(&archive, 0)->size, "00000000006", 11); /* a directory has no body, whatever its header says */
    fix_checksum(header_at(&archive, 0));
    fixture_add_entry(&archive, "old", "z", 1, NULL, 0);
    header_at(&archive, 512)->type = '\0';
    memset(header_at(&archive, 512)->magic, 0, 8);
    fix_checksum(header_at(&archive, 512));
    /* A size in base 256, as GNU tar writes large ones. */
    fixture_add_entry(&archive, "base256", "abc", 3, NULL, 0);
    struct cc_ustar_header *header = header_at(&archive, 1536);
    memset(header->size, 0, 12);
    header->size[0] = (char)0x80;
    header->size[11] = 3;
    fix_checksum(header);
    /* A GNU long name, and a global PAX header that is not for us. */
    fixture_add_entry(&archive, "././@LongLink", "long-name", 10, NULL, 0);
    header_at(&archive, 2560)->type = 'L';
    fix_checksum(header_at(&archive, 2560));
    fixture_add_entry(&archive, "cut", "d", 1, NULL, 0);
    fixture_add_entry(&archive, "global", "12 path=hid\n", 12, NULL, 0);
    header_at(&archive, 4608)->type = 'g';
    fix_checksum(header_at(&archive, 4608));
    fixture_add_entry(&archive, "last", "e", 1, NULL, 0);
    cc_tar_write_end(&archive);
    check_list(&archive, "?dir 640 0 \nold 640 1 z\nbase256 640 3 abc\nlong-name 640 1 d\nlast 640 1 e\n");
}
END_TEST

START_TEST(tar__refuses) {
    struct cc_buf archive cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&archive, 10000000);
    fixture_archive(&archive);
    /* Cut anywhere, also between two entries and before the end blocks. */
    static const size_t cuts[] = {0, 1, 511, 512, 1536, 2560, 3000, 3584, 4000, 6656, 7168, 7679};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(cuts); i++) {
        archive.len = cuts[i];
        ck_assert_int_eq(list_fails(&archive, &err), CC_PROTOCOL);
    }
    archive.len = 7680;
    /* One bit in a header. */
    for (size_t at = 1536; at < 1536 + 512; at += 37) {
        archive.data[at] ^= 1;
        ck_assert_int_eq(list_fails(&archive, &err), CC_PROTOCOL);
        archive.data[at] ^= 1;
    }
    /* Something other than a second zero block. */
    archive.data[7168] = 'x';
    ck_assert_int_eq(list_fails(&archive, &err), CC_PROTOCOL);
    archive.data[7168] = '\0';
    header_at(&archive, 1536)->type = 'S';
    fix_checksum(header_at(&archive, 1536));
    ck_assert_int_eq(list_fails(&archive, &err), CC_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(err.msg, "GNU sparse"));
}
END_TEST

static void add_pax(struct cc_buf *archive, const char *records, size_t bytes) {
    cc_buf_clear(archive);
    fixture_add_entry(archive, "PaxHeaders.0/x", records, bytes, NULL, 0);
    header_at(archive, 0)->type = 'x';
    fix_checksum(header_at(archive, 0));
    fixture_add_entry(archive, "x", "y", 1, NULL, 0);
    cc_tar_write_end(archive);
}

START_TEST(tar__pax_records) {
    struct cc_buf archive cc_cleanup(cc_buf_done);
    struct cc_err err = {0};
    cc_buf_init(&archive, 10000000);
    static const char *const bad[] = {
        "5 a=",     /* no line end */
        "6 a=b\n5", /* rest */
        "7 a=b\n",  /* longer than the text */
        "x a=b\n",
        "6 =ab\n",
        "6 abc\n",
        "6a=bc\n",
        "+6 a=b\n",
        "-1 a=b\n",
        "0 a=b\n",
        "1 a=b\n",
        "99999999999999999999999 a=b\n",
        "24 COCOON.sparse.map=[]\n", /* a map without a size */
        "24 COCOON.sparse.size=x\n",
        "25 COCOON.sparse.size=-1\n",
        "20 GNU.sparse.map=1\n",
        "10 size=x\n",
        "11 size=-1\n",
        "30 size=99999999999999999999\n",
    };
    for (size_t i = 0; i < CC_ARRAY_LENGTH(bad); i++) {
        add_pax(&archive, bad[i], strlen(bad[i]));
        ck_assert_msg(list_fails(&archive, &err) == CC_PROTOCOL, "%s", bad[i]);
    }
    add_pax(&archive, "8 a=\0bc\n", 8);
    ck_assert_int_eq(list_fails(&archive, &err), CC_PROTOCOL);
    static const char good[] = "6 a=b\n10 a=b=c\n\n10 path=n\n\n27 COCOON.sparse.size=8192\n";
    add_pax(&archive, good, 6);
    check_list(&archive, "x 640 1 y\n");
    add_pax(&archive, "10 path=nn\n", 11);
    ck_assert_int_eq(list_fails(&archive, &err), CC_PROTOCOL);
    add_pax(&archive, "11 path=nn\n", 11);
    check_list(&archive, "nn 640 1 y\n");

    /* The bound of one entry's records, on both sides. */
    size_t large = CC_TAR_PAX_BYTES_MAX;
    char *records cc_cleanup(cc_free_p) = cc_xmalloc(large + 2);
    memset(records, 'v', large + 1);
    memcpy(records, "1048576 a=", 10);
    records[large - 1] = '\n';
    add_pax(&archive, records, large);
    check_list(&archive, "x 640 1 y\n");
    add_pax(&archive, records, large + 1);
    ck_assert_int_eq(list_fails(&archive, &err), CC_LIMIT);
    const struct cc_tar_entry entry = {.name = "x", .is_regular = true, .sparse_map = records, .sparse_size = 1};
    records[large + 1] = '\0';
    ck_assert_int_eq(cc_tar_write_header(&archive, &entry, 0, &err), CC_LIMIT);

    /* Many extended headers before one entry would pile up in memory. */
    cc_buf_clear(&archive);
    for (int i = 0; i < 9; i++) {
        fixture_add_entry(&archive, "p", "6 a=b\n", 6, NULL, 0);
        header_at(&archive, (size_t)i * 1024)->type = 'x';
        fix_checksum(header_at(&archive, (size_t)i * 1024));
    }
    ck_assert_int_eq(list_fails(&archive, &err), CC_LIMIT);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tar");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, tar__reads_what_it_writes);
    tcase_add_test(tests, tar__empty_and_large_entries);
    tcase_add_test(tests, tar__long_and_foreign_names);
    tcase_add_test(tests, tar__other_kinds_of_entries);
    tcase_add_test(tests, tar__refuses);
    tcase_add_test(tests, tar__pax_records);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
