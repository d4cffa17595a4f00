#include "meta/vm_spec.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kube/patch.h"
#include "support/api_objects.h"
#include "support/vectors.h"

static struct cc_arena arena;

static struct cc_strmap annotations(const char *key, const char *value) {
    struct cc_strmap map = {0};

    if (key)
        cc_strmap_set(&map, &arena, key, value);
    return map;
}

START_TEST(vmspec__apply_never_clears) {
    struct cc_strmap map = annotations(CC_KEY_IMAGE, "preset");
    struct cc_vm_spec spec = {.vm_name = "x"};

    cc_vm_spec_apply(&spec, &map, &arena);
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_IMAGE), "preset");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_VM_NAME), "x");
    ck_assert(!cc_strmap_has(&map, CC_KEY_BACKEND));
    ck_assert(!cc_strmap_has(&map, CC_KEY_CONN_TYPE));
    ck_assert(!cc_strmap_has(&map, CC_KEY_FORK_FROM));
    CC_VECTOR("02-21.3.1");

    map = annotations(NULL, NULL);
    spec = (struct cc_vm_spec){.managed = false};
    cc_vm_spec_apply(&spec, &map, &arena);
    ck_assert(!cc_strmap_has(&map, CC_KEY_MANAGED));
    map = annotations(CC_KEY_MANAGED, "true");
    cc_vm_spec_apply(&spec, &map, &arena);
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_MANAGED), "true");
    CC_VECTOR("02-21.3.2");
}
END_TEST

START_TEST(vmspec__flags_are_exactly_true) {
    static const char *const OTHERS[] = {"True", "1", "TRUE", "yes", " true", "true ", "false", ""};
    struct cc_vm_spec spec;
    struct cc_strmap map = {0};

    cc_vm_spec_parse(&map, &spec);
    ck_assert(!spec.managed);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(OTHERS); i++) {
        map = annotations(CC_KEY_MANAGED, OTHERS[i]);
        cc_vm_spec_parse(&map, &spec);
        ck_assert(!spec.managed);
    }
    CC_VECTOR("02-21.3.3");
    map = annotations(CC_KEY_MANAGED, "true");
    cc_vm_spec_parse(&map, &spec);
    ck_assert(spec.managed);
}
END_TEST

START_TEST(vmspec__every_field_survives_a_round_trip) {
    struct cc_vm_spec spec = {"n", "i", "m", "o", "s", "net", "p", "f", "c", "b", "22", true, true, true}, back, other;
    struct cc_strmap map = {0};

    cc_vm_spec_apply(&spec, &map, &arena);
    ck_assert_uint_eq(map.count, 14);
    cc_vm_spec_parse(&map, &back);
    ck_assert(cc_vm_spec_equal(&spec, &back));
    for (size_t i = 0; i < map.count; i++) {
        struct cc_strmap changed;
        cc_strmap_copy(&changed, &arena, &map);
        cc_strmap_set(&changed, &arena, map.items[i].key, "other");
        cc_vm_spec_parse(&changed, &other);
        ck_assert_msg(!cc_vm_spec_equal(&spec, &other), "%s", map.items[i].key);
    }
}
END_TEST

static struct cc_strmap annotations_of_agent(const char *spec_json) {
    const struct cc_cocoonset *set = api_set("ns", "demo", 1, spec_json);
    struct cc_strmap map = {0};
    struct cc_vm_spec spec;
    struct cc_err err = {0};

    ck_assert_int_eq(cc_vm_spec_of_agent(set, "vm", "", &arena, &spec, &err), 0);
    cc_vm_spec_apply(&spec, &map, &arena);
    api_set_free(set);
    return map;
}

static struct cc_strmap annotations_of_toolbox(const char *spec_json) {
    const struct cc_cocoonset *set = api_set("ns", "demo", 1, spec_json);
    struct cc_strmap map = {0};
    struct cc_vm_spec spec;
    struct cc_err err = {0};

    ck_assert_int_eq(cc_vm_spec_of_toolbox(set, &set->toolboxes[0], "vm", &arena, &spec, &err), 0);
    cc_vm_spec_apply(&spec, &map, &arena);
    api_set_free(set);
    return map;
}

START_TEST(vmspec__of_an_agent_has_the_defaults) {
    struct cc_strmap map = annotations_of_agent("{'agent':{'image':'img'}}");

    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_IMAGE), "img");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_MODE), "clone");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_OS), "linux");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_BACKEND), "cloud-hypervisor");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_SNAPSHOT_POLICY), "always");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_MANAGED), "true");
    ck_assert(!cc_strmap_has(&map, CC_KEY_CONN_TYPE));
    ck_assert(!cc_strmap_has(&map, CC_KEY_PROBE_PORT));
    ck_assert(!cc_strmap_has(&map, CC_KEY_NETWORK));
    ck_assert(!cc_strmap_has(&map, CC_KEY_STORAGE));
    CC_VECTOR("02-21.3.4");

    map = annotations_of_agent("{'agent':{'image':'img','probePort':0}}");
    ck_assert(!cc_strmap_has(&map, CC_KEY_PROBE_PORT));
    map = annotations_of_agent("{'agent':{'image':'img','probePort':22}}");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_PROBE_PORT), "22");
    CC_VECTOR("02-21.3.7");
}
END_TEST

START_TEST(vmspec__of_a_toolbox_has_the_defaults) {
    struct cc_strmap map = annotations_of_toolbox("{'toolboxes':[{'name':'tb'}]}");

    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_MODE), "run");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_MANAGED), "true");
    map = annotations_of_toolbox("{'toolboxes':[{'name':'tb','mode':'static'}]}");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_MODE), "static");
    ck_assert(!cc_strmap_has(&map, CC_KEY_MANAGED));
    CC_VECTOR("02-21.3.5");

    map = annotations_of_toolbox(
        "{'snapshotPolicy':'main-only','toolboxes':[{'name':'tb','mode':'clone','connType':'ssh'}]}");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_SNAPSHOT_POLICY), "main-only");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_CONN_TYPE), "ssh");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_BACKEND), "cloud-hypervisor");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_MANAGED), "true");
    CC_VECTOR("02-21.3.6");
}
END_TEST

START_TEST(vmspec__storage_is_canonical_or_an_error) {
    struct cc_strmap map = annotations_of_agent("{'agent':{'storage':'1024'}}");
    const struct cc_cocoonset *set;
    struct cc_vm_spec spec;
    struct cc_err err = {0};

    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_STORAGE), "1024");
    map = annotations_of_agent("{'agent':{'storage':null}}");
    ck_assert(!cc_strmap_has(&map, CC_KEY_STORAGE));
    set = api_set("ns", "demo", 1, "{'agent':{'storage':'100g'}}");
    ck_assert_int_eq(cc_vm_spec_of_agent(set, "vm", "", &arena, &spec, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "spec.agent: storage"));
    ck_assert_ptr_nonnull(strstr(err.msg, "100g"));
    api_set_free(set);
    CC_VECTOR("02-21.2.7");

    map = annotations_of_agent("{'agent':{'storage':'1.5Gi'}}");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_STORAGE), "1536Mi");
    map = annotations_of_agent("{'agent':{'storage':'0Gi'}}");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_STORAGE), "0");
    map = annotations_of_agent("{'agent':{'storage':1000}}");
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_STORAGE), "1k");
}
END_TEST

START_TEST(vmruntime__round_trip) {
    struct cc_vm_runtime runtime = {"qemu-1234", "10.88.100.7", 5901}, back;
    struct cc_strmap map = {0};

    cc_vm_runtime_apply(&runtime, &map, &arena);
    cc_vm_runtime_parse(&map, &back);
    ck_assert_str_eq(back.vm_id, "qemu-1234");
    ck_assert_str_eq(back.ip, "10.88.100.7");
    ck_assert_int_eq(back.vnc_port, 5901);
    map = annotations(NULL, NULL);
    runtime.vnc_port = 0;
    cc_vm_runtime_apply(&runtime, &map, &arena);
    ck_assert(!cc_strmap_has(&map, CC_KEY_VNC_PORT));
    CC_VECTOR("02-21.3.8");
    /* Empty members leave what is there. */
    runtime = (struct cc_vm_runtime){"", "", 0};
    cc_vm_runtime_apply(&runtime, &map, &arena);
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_VM_ID), "qemu-1234");
}
END_TEST

START_TEST(vmruntime__unreadable_port_is_none) {
    static const char *const TEXTS[] = {"not-a-number", "99999999999", "", "5901 ", "0x10", "5_901"};
    struct cc_vm_runtime runtime;
    struct cc_strmap map;

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++) {
        map = annotations(CC_KEY_VNC_PORT, TEXTS[i]);
        cc_vm_runtime_parse(&map, &runtime);
        ck_assert_int_eq(runtime.vnc_port, 0);
    }
    CC_VECTOR("02-21.3.9");
    map = annotations(CC_KEY_VNC_PORT, "-1");
    cc_vm_runtime_parse(&map, &runtime);
    ck_assert_int_eq(runtime.vnc_port, -1);
}
END_TEST

START_TEST(flags__are_set_to_true_or_removed) {
    static const struct {
        const char *value;
        bool is_set;
    } ROWS[] = {{NULL, false}, {"true", true}, {"false", false}, {"", false}};
    struct cc_strmap map = {0};

    cc_flag_apply(&map, CC_KEY_HIBERNATE, false, &arena);
    ck_assert(!cc_strmap_has(&map, CC_KEY_HIBERNATE));
    CC_VECTOR("02-21.3.10");
    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        map = ROWS[i].value ? annotations(CC_KEY_HIBERNATE, ROWS[i].value) : annotations(NULL, NULL);
        ck_assert_int_eq(cc_flag_is_set(&map, CC_KEY_HIBERNATE), ROWS[i].is_set);
    }
    CC_VECTOR("02-21.3.11");
    cc_flag_apply(&map, CC_KEY_HIBERNATE, true, &arena);
    ck_assert_str_eq(cc_strmap_text(&map, CC_KEY_HIBERNATE), "true");
    cc_flag_apply(&map, CC_KEY_HIBERNATE, false, &arena);
    ck_assert(!cc_strmap_has(&map, CC_KEY_HIBERNATE));
}
END_TEST

START_TEST(flags__patch_only_what_would_change) {
    struct cc_strmap awake = annotations(CC_KEY_HIBERNATE, "false"), asleep = annotations(CC_KEY_HIBERNATE, "true");
    json_t *patch = cc_patch_annotations(NULL);

    ck_assert(!cc_flag_patch(&awake, CC_KEY_HIBERNATE, false, patch));
    ck_assert(!cc_flag_patch(&asleep, CC_KEY_HIBERNATE, true, patch));
    ck_assert_uint_eq(cc_patch_annotation_count(patch), 0);
    ck_assert(cc_flag_patch(&asleep, CC_KEY_HIBERNATE, false, patch));
    ck_assert(json_is_null(api_at(patch, "metadata", "annotations", CC_KEY_HIBERNATE, NULL)));
    ck_assert(cc_flag_patch(&awake, CC_KEY_HIBERNATE, true, patch));
    ck_assert_str_eq(api_text(patch, "metadata", "annotations", CC_KEY_HIBERNATE, NULL), "true");
    json_decref(patch);
}
END_TEST

/* contract/02 14.2: in the wanted state there is nothing to send, so the caller sends nothing. */
START_TEST(flags__wrappers_in_the_wanted_state_make_no_patch) {
    struct cc_strmap map = {0};
    json_t *patch = cc_patch_annotations(NULL);
    struct cc_cocoonset_status status = {.phase = "Running", .ready_agents = 1};

    ck_assert(!cc_flag_patch(&map, CC_KEY_HIBERNATE, false, patch));
    ck_assert(!cc_generation_patch(&map, 0, patch));
    cc_strmap_set(&map, &arena, CC_KEY_HIBERNATE, "true");
    cc_strmap_set(&map, &arena, CC_KEY_KEEP_SNAPSHOT, "true");
    cc_strmap_set(&map, &arena, CC_KEY_GENERATION, "+7");
    ck_assert(!cc_flag_patch(&map, CC_KEY_HIBERNATE, true, patch));
    ck_assert(!cc_flag_patch(&map, CC_KEY_KEEP_SNAPSHOT, true, patch));
    ck_assert(!cc_generation_patch(&map, 7, patch));
    ck_assert_uint_eq(cc_patch_annotation_count(patch), 0);
    ck_assert_ptr_null(cc_cocoonset_status_patch(&status, &status));
    CC_VECTOR("02-21.8.8");
    ck_assert(cc_generation_patch(&map, 8, patch));
    ck_assert_str_eq(api_text(patch, "metadata", "annotations", CC_KEY_GENERATION, NULL), "8");
    json_decref(patch);
}
END_TEST

START_TEST(patch__carries_a_null_and_a_text_by_key) {
    json_t *patch = cc_patch_annotations(NULL);
    json_t *wanted = api_json("{'metadata':{'annotations':{'vm.cocoonstack.io/hibernate':null,"
                              "'vm.cocoonstack.io/name':'vk-demo-0'}}}");

    cc_patch_annotation(patch, CC_KEY_HIBERNATE, NULL);
    cc_patch_annotation(patch, CC_KEY_VM_NAME, "vk-demo-0");
    ck_assert(json_equal(patch, wanted));
    CC_VECTOR("02-21.8.9");
    json_decref(patch);
    json_decref(wanted);
}
END_TEST

START_TEST(generation__unreadable_is_zero) {
    static const struct {
        const char *text;
        int64_t generation;
    } ROWS[] = {{NULL, 0},
                {"42", 42},
                {"abc", 0},
                {"", 0},
                {"-3", -3},
                {" 1", 0},
                {"9223372036854775807", INT64_MAX},
                {"9223372036854775808", 0},
                {"1_0", 0},
                {"0x1", 0}};
    static const char *const KEYS[] = {CC_KEY_GENERATION, CC_KEY_LIFECYCLE_GENERATION};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        for (size_t k = 0; k < CC_ARRAY_LENGTH(KEYS); k++) {
            struct cc_strmap map = ROWS[i].text ? annotations(KEYS[k], ROWS[i].text) : annotations(NULL, NULL);
            ck_assert_int_eq(cc_generation_of(&map, KEYS[k]), ROWS[i].generation);
        }
    }
    CC_VECTOR("02-21.3.12");
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("vm_spec");
    TCase *tcase = tcase_create("vm_spec");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, vmspec__apply_never_clears);
    tcase_add_test(tcase, vmspec__flags_are_exactly_true);
    tcase_add_test(tcase, vmspec__every_field_survives_a_round_trip);
    tcase_add_test(tcase, vmspec__of_an_agent_has_the_defaults);
    tcase_add_test(tcase, vmspec__of_a_toolbox_has_the_defaults);
    tcase_add_test(tcase, vmspec__storage_is_canonical_or_an_error);
    tcase_add_test(tcase, vmruntime__round_trip);
    tcase_add_test(tcase, vmruntime__unreadable_port_is_none);
    tcase_add_test(tcase, flags__are_set_to_true_or_removed);
    tcase_add_test(tcase, flags__patch_only_what_would_change);
    tcase_add_test(tcase, flags__wrappers_in_the_wanted_state_make_no_patch);
    tcase_add_test(tcase, patch__carries_a_null_and_a_text_by_key);
    tcase_add_test(tcase, generation__unreadable_is_zero);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
