/* Goal: cocoon's output is read strictly and within bounds, and means only what it positively says. contract/06 2.6
 * and 3. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "runtime/cli_phrases.h"
#include "runtime/cli_records.h"
#include "support/vectors.h"

#define ID "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int parse_vm(const char *text, const struct vk_vm **ret) {
    struct cc_err err;

    return vk_vm_parse(text, strlen(text), ret, &err);
}

START_TEST(records__empty_list_in_every_form) {
    static const char *const outputs[] = {"No VMs found.\n", "[]", "", "[]\n", "null\n", "  \n"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(outputs); i++) {
        struct vk_vm_list list = {.count = 7};

        ck_assert_int_eq(vk_vm_list_parse(outputs[i], strlen(outputs[i]), &list, NULL), 0);
        ck_assert_uint_eq(list.count, 0);
        vk_vm_list_done(&list);
    }
    CC_VECTOR("06-28");
}
END_TEST

START_TEST(records__list_skips_elements_without_id) {
    static const char text[] =
        "[{\"id\":\"A1\",\"config\":{\"name\":\"a\"}},{\"config\":{\"name\":\"b\"}},{\"id\":\"\"},"
        "{\"id\":\"C1\",\"state\":\"stopped (stale)\"}]";
    struct vk_vm_list list;

    ck_assert_int_eq(vk_vm_list_parse(text, strlen(text), &list, NULL), 0);
    ck_assert_uint_eq(list.count, 2);
    ck_assert_str_eq(list.items[0]->name, "a");
    ck_assert_str_eq(list.items[1]->state, "stopped (stale)");
    ck_assert(!vk_vm_is_running(list.items[1]));
    CC_VECTOR("06-29");
    vk_vm_list_done(&list);
}
END_TEST

/* A list that was not read whole proves nothing. */
START_TEST(records__broken_list_is_an_error) {
    static const char *const outputs[] = {
        "[{\"id\":\"A1\"},7]",        "{\"id\":\"A1\"}",        "[{\"id\":\"A1\"}",     "garbage",
        "[{\"id\":\"A1\"}] trailing", "[{\"id\":\"../../x\"}]", "[{\"id\":\"-force\"}]"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(outputs); i++) {
        struct vk_vm_list list;
        struct cc_err err;

        ck_assert_msg(vk_vm_list_parse(outputs[i], strlen(outputs[i]), &list, &err) == CC_PROTOCOL, "%s", outputs[i]);
    }
}
END_TEST

START_TEST(records__a_nul_hides_no_list) {
    static const char bytes[] = "\0[{\"id\":\"A1\"}]";
    struct vk_snapshot_list snapshots;
    struct vk_vm_list list;
    struct cc_err err;

    ck_assert_int_eq(vk_vm_list_parse(bytes, sizeof bytes - 1, &list, &err), CC_PROTOCOL);
    ck_assert_int_eq(vk_snapshot_list_parse(bytes, sizeof bytes - 1, &snapshots, &err), CC_PROTOCOL);
}
END_TEST

START_TEST(records__vm_without_nics) {
    const struct vk_vm *vm;

    ck_assert_int_eq(parse_vm("{\"id\":\"" ID "\",\"state\":\"running\",\"pid\":7,\"future\":{\"a\":[1]}}", &vm), 0);
    ck_assert_str_eq(vm->mac, "");
    ck_assert_str_eq(vm->ip, "");
    ck_assert_uint_eq(vm->nic_count, 0);
    ck_assert_int_eq(vm->pid, 7);
    CC_VECTOR("06-30");
    vk_vm_unref(vm);
}
END_TEST

START_TEST(records__vm_with_nics) {
    const struct vk_vm *vm;

    ck_assert_int_eq(
        parse_vm("{\"id\":\"" ID "\",\"hypervisor\":\"firecracker\",\"config\":{\"name\":\"n\",\"image\":\"i:1\"},"
                 "\"network_configs\":[{\"tap\":\"tapABCDEFGH-0\",\"mac\":\"02:00:00:00:00:01\"},null,"
                 "{\"mac\":\"02:00:00:00:00:02\",\"network\":{\"ip\":\"10.0.0.2\",\"gateway\":\"10.0.0.1\","
                 "\"prefix\":24}},{\"mac\":\"02:00:00:00:00:03\",\"network\":{}}]}",
                 &vm),
        0);
    ck_assert_str_eq(vm->mac, "02:00:00:00:00:01");
    ck_assert_str_eq(vm->ip, "");
    ck_assert(!vm->nics[0].is_static);
    CC_VECTOR("06-31");
    ck_assert_uint_eq(vm->nic_count, 3);
    ck_assert(vm->nics[1].is_static);
    ck_assert_str_eq(vm->nics[1].gateway, "10.0.0.1");
    ck_assert_int_eq(vm->nics[1].prefix, 24);
    ck_assert(!vm->nics[2].is_static);
    ck_assert_str_eq(vm->image, "i:1");

    struct vk_vm *copy = vk_vm_clone(vm);
    vk_vm_unref(vm);
    ck_assert_str_eq(copy->nics[1].ip, "10.0.0.2");
    ck_assert_str_eq(copy->hypervisor, "firecracker");
    vk_vm_unref(copy);
}
END_TEST

START_TEST(records__too_many_nics) {
    struct cc_buf text;
    const struct vk_vm *vm;

    cc_buf_init(&text, 65536);
    cc_buf_puts(&text, "{\"id\":\"A1\",\"network_configs\":[{}");
    for (int i = 0; i < VK_NICS_MAX; i++)
        cc_buf_puts(&text, ",{}");
    cc_buf_puts(&text, "]}");
    ck_assert_int_eq(parse_vm(text.data, &vm), CC_LIMIT);
    cc_buf_done(&text);
}
END_TEST

START_TEST(records__record_without_id_is_refused) {
    const struct vk_vm *vm = NULL;

    ck_assert_int_eq(parse_vm("{}", &vm), CC_PROTOCOL);
    ck_assert_int_eq(parse_vm("", &vm), CC_PROTOCOL);
    ck_assert_int_eq(parse_vm("[]", &vm), CC_PROTOCOL);
    ck_assert_int_eq(parse_vm("{\"id\":7}", &vm), CC_PROTOCOL);
    ck_assert_ptr_null(vm);
    /* What is odd but unused does not matter; an absurd pid is no pid. */
    ck_assert_int_eq(parse_vm("{\"id\":\"A1\",\"pid\":-4,\"config\":[],\"state\":3}", &vm), 0);
    ck_assert_int_eq(vm->pid, 0);
    vk_vm_unref(vm);
}
END_TEST

START_TEST(records__snapshot) {
    static const char text[] =
        "{\"id\":\"" ID "\",\"name\":\"vk-ns-demo-0\",\"image\":\"r:1\",\"image_digest\":\"sha256:1\","
        "\"image_type\":\"oci\",\"hypervisor\":\"cloud-hypervisor\",\"image_blob_ids\":{\"a\":{}}}";
    struct vk_snapshot_record *record cc_cleanup(vk_snapshot_record_free_p) = NULL;

    ck_assert_int_eq(vk_snapshot_parse(text, strlen(text), &record, NULL), 0);
    ck_assert_str_eq(record->id, ID);
    ck_assert_str_eq(record->image, "r:1");
    ck_assert_str_eq(record->image_digest, "sha256:1");
    struct vk_snapshot_record *none;
    ck_assert_int_eq(vk_snapshot_parse("{\"name\":\"x\"}", 12, &none, NULL), CC_PROTOCOL);
}
END_TEST

START_TEST(records__snapshot_list) {
    static const char text[] =
        "[{\"id\":\"A1\",\"name\":\"a\",\"created_at\":\"2026-08-30T12:00:00.5+02:00\"},{\"id\":\"B1\"},"
        "{\"id\":\"C1\",\"name\":\"c\"}]";
    struct vk_snapshot_list list;

    ck_assert_int_eq(vk_snapshot_list_parse(text, strlen(text), &list, NULL), 0);
    ck_assert_uint_eq(list.count, 2);
    ck_assert_int_eq(list.items[0].created_unix_s, 1788084000);
    ck_assert_int_eq(list.items[1].created_unix_s, 0);
    vk_snapshot_list_done(&list);
    ck_assert_int_eq(vk_snapshot_list_parse("No snapshots found.\n", 20, &list, NULL), 0);
    ck_assert_uint_eq(list.count, 0);
    vk_snapshot_list_done(&list);
}
END_TEST

START_TEST(records__reclaim_outcomes) {
    static const struct {
        const char *text;
        int code;
        enum vk_reclaim_outcome outcome;
    } rows[] = {
        {"{\"id\":\"x\",\"outcome\":\"collected\"}", 0, VK_RECLAIM_COLLECTED},
        {"{\"id\":\"x\",\"outcome\":\"busy\"}", 0, VK_RECLAIM_BUSY},
        {"{\"id\":\"x\",\"outcome\":\"not-creating\"}", 0, VK_RECLAIM_NOT_CREATING},
        {"{\"id\":\"x\",\"outcome\":\"not-found\"}", 0, VK_RECLAIM_NOT_FOUND},
        {"{\"id\":\"x\"}", CC_PROTOCOL, VK_RECLAIM_BUSY},
        {"{\"id\":\"x\",\"outcome\":\"\"}", CC_PROTOCOL, VK_RECLAIM_BUSY},
        {"{\"id\":\"x\",\"outcome\":\"gone\"}", CC_PROTOCOL, VK_RECLAIM_BUSY},
        {"", CC_PROTOCOL, VK_RECLAIM_BUSY},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        enum vk_reclaim_outcome outcome = VK_RECLAIM_BUSY;

        ck_assert_int_eq(vk_reclaim_parse(rows[i].text, strlen(rows[i].text), &outcome, NULL), rows[i].code);
        ck_assert_int_eq(outcome, rows[i].outcome);
    }
}
END_TEST

START_TEST(records__events) {
    static const struct {
        const char *line;
        int code;
        enum vk_event_type type;
    } rows[] = {
        {"{\"event\":\"ADDED\",\"vm\":{\"id\":\"A1\",\"config\":{\"name\":\"a\"}}}", 0, VK_EVENT_ADDED},
        {"{\"event\":\"MODIFIED\",\"vm\":{\"id\":\"A1\",\"state\":\"stopped (stale)\"}}", 0, VK_EVENT_MODIFIED},
        {"{\"event\":\"DELETED\",\"vm\":{\"config\":{\"name\":\"a\"}}}", 0, VK_EVENT_DELETED},
        {"{\"event\":\"DELETED\",\"vm\":{}}", CC_INVALID, VK_EVENT_ADDED},
        {"{\"event\":\"DELETED\"}", CC_INVALID, VK_EVENT_ADDED},
        {"{\"event\":\"RENAMED\",\"vm\":{\"id\":\"A1\"}}", CC_INVALID, VK_EVENT_ADDED},
        {"{\"event\":", CC_PROTOCOL, VK_EVENT_ADDED},
        {"level=info msg=x", CC_PROTOCOL, VK_EVENT_ADDED},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++) {
        const struct vk_vm *vm = NULL;
        enum vk_event_type type = VK_EVENT_ADDED;

        ck_assert_msg(vk_event_parse(rows[i].line, strlen(rows[i].line), &type, &vm, NULL) == rows[i].code, "%s",
                      rows[i].line);
        ck_assert_int_eq(type, rows[i].type);
        vk_vm_unref(vm);
    }
}
END_TEST

START_TEST(phrases__only_what_is_positively_said) {
    static const struct {
        const char *output;
        enum vk_phrase phrase;
        bool says;
    } rows[] = {
        {"exit status 1 (stderr: Error: inspect: vm x: VM not found)", VK_PHRASE_VM_ABSENT, true},
        {"no such vm", VK_PHRASE_VM_ABSENT, true},
        {"Error: config file not found", VK_PHRASE_VM_ABSENT, false},
        {"executable file not found in $PATH", VK_PHRASE_VM_ABSENT, false},
        {"permission denied", VK_PHRASE_VM_ABSENT, false},
        {"Error: inspect: snapshot not found", VK_PHRASE_VM_ABSENT, false},
        {"Error: inspect: snapshot not found", VK_PHRASE_SNAPSHOT_ABSENT, true},
        {"No such snapshot", VK_PHRASE_SNAPSHOT_ABSENT, true},
        {"image \"x\": not found in any backend", VK_PHRASE_IMAGE_ABSENT, true},
        {"image \"x\": not found", VK_PHRASE_IMAGE_ABSENT, false},
        {"snapshot name \"n\" Already Exists", VK_PHRASE_SNAPSHOT_NAME_TAKEN, true},
        {"snapshot name \"n\" already in use by A", VK_PHRASE_SNAPSHOT_NAME_TAKEN, true},
        {"disk full", VK_PHRASE_SNAPSHOT_NAME_TAKEN, false},
        {"snapshot A is in use by an active clone/restore/export", VK_PHRASE_SNAPSHOT_LOCKED, true},
        {"", VK_PHRASE_SNAPSHOT_LOCKED, false},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(rows); i++)
        ck_assert_msg(vk_output_says(rows[i].output, rows[i].phrase) == rows[i].says, "%s", rows[i].output);
}
END_TEST

START_TEST(phrases__holder_of_a_snapshot_name) {
    struct cc_arena arena = {0};

    ck_assert_str_eq(vk_snapshot_holder("Error: snapshot name \"n\" already in use by ABC\n", "n", &arena), "ABC");
    ck_assert_str_eq(vk_snapshot_holder("snapshot name \"n\" already exists (held by ABC)", "n", &arena), "ABC");
    ck_assert_str_eq(vk_snapshot_holder("snapshot name \"n\" already exists", "n", &arena), "n");
    ck_assert_str_eq(vk_snapshot_holder("held by X, already in use by Y more", "n", &arena), "Y");
    ck_assert_str_eq(vk_snapshot_holder("already in use by ", "n", &arena), "n");
    ck_assert_str_eq(vk_snapshot_holder("already in use by --all", "n", &arena), "n");
    cc_arena_done(&arena);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime_records");
    TCase *cases = tcase_create("records");

    tcase_add_test(cases, records__empty_list_in_every_form);
    tcase_add_test(cases, records__a_nul_hides_no_list);
    tcase_add_test(cases, records__list_skips_elements_without_id);
    tcase_add_test(cases, records__broken_list_is_an_error);
    tcase_add_test(cases, records__vm_without_nics);
    tcase_add_test(cases, records__vm_with_nics);
    tcase_add_test(cases, records__too_many_nics);
    tcase_add_test(cases, records__record_without_id_is_refused);
    tcase_add_test(cases, records__snapshot);
    tcase_add_test(cases, records__snapshot_list);
    tcase_add_test(cases, records__reclaim_outcomes);
    tcase_add_test(cases, records__events);
    tcase_add_test(cases, phrases__only_what_is_positively_said);
    tcase_add_test(cases, phrases__holder_of_a_snapshot_name);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
