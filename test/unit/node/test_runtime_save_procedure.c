/* Goal: a taken snapshot name is freed as contract/06 2.4 says, and never when that could lose a VM's only state.
 * Method: the procedure on virtual time, its three calls scripted. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "runtime/save_procedure.h"
#include "support/fiber_test.h"
#include "support/vectors.h"

struct script {
    const char *saves[4];   /* output of each failing save; NULL = success */
    const char *removes[4]; /* the same for rm; "*" = fails so for ever */
    int looked;             /* result of the inspect */
    bool running;
    size_t save_count, remove_count;
    char log[4096];
    int rc;
    int64_t took_ms;
};

static void note(struct script *script, const char *verb, const char *what) {
    size_t used = strlen(script->log);

    snprintf(script->log + used, sizeof script->log - used, "%s %s\n", verb, what);
}

static int refuse(const char *text, struct cc_buf *output, struct cc_err *err) {
    cc_buf_puts(output, text);
    return cc_err_set(err, CC_IO, "exit status 1 (output: %s)", text);
}

static int script_save(void *ctx, const char *snapshot, const char *vm_id, struct cc_buf *output, struct cc_err *err) {
    struct script *script = ctx;
    const char *text = script->saves[script->save_count++];

    (void)vm_id;
    note(script, "save", snapshot);
    return text ? refuse(text, output, err) : 0;
}

static int script_remove(void *ctx, const char *id_or_name, struct cc_buf *output, struct cc_err *err) {
    struct script *script = ctx;
    const char *text = script->removes[script->remove_count];

    if (!text || text[0] != '*')
        script->remove_count++;
    note(script, "rm", id_or_name);
    return text ? refuse(text + (text[0] == '*'), output, err) : 0;
}

static int script_running(void *ctx, const char *vm_id, bool *ret, struct cc_err *err) {
    struct script *script = ctx;

    (void)vm_id;
    if (script->looked != 0)
        return cc_err_set(err, (enum cc_code)script->looked, "look failed");
    *ret = script->running;
    return 0;
}

static void run_fiber(void *arg) {
    struct script *script = arg;
    const struct vk_save_steps steps = {script_save, script_remove, script_running, script};
    struct cc_mono start = cc_now_mono();

    script->rc = vk_save_procedure(&steps, "n", "VM", NULL);
    script->took_ms = cc_mono_diff_ms(cc_now_mono(), start);
}

static void play(struct script *script) {
    script->running = true;
    cc_test_run_virtual(run_fiber, script);
}

START_TEST(save__taken_name_is_freed_by_id) {
    struct script by_id = {.saves = {"Error: snapshot name \"n\" already in use by ABC"}};
    struct script held = {.saves = {"Error: snapshot name \"n\" already exists (held by ABC)"}};
    struct script by_name = {.saves = {"Error: snapshot name \"n\" already exists"}};

    play(&by_id);
    ck_assert_int_eq(by_id.rc, 0);
    ck_assert_str_eq(by_id.log, "save n\nrm ABC\nsave n\n");
    CC_VECTOR("06-40");
    play(&held);
    ck_assert_int_eq(held.rc, 0);
    ck_assert_str_eq(held.log, "save n\nrm ABC\nsave n\n");
    CC_VECTOR("06-41");
    play(&by_name);
    ck_assert_int_eq(by_name.rc, 0);
    ck_assert_str_eq(by_name.log, "save n\nrm n\nsave n\n");
    CC_VECTOR("06-42");
}
END_TEST

START_TEST(save__other_failures_remove_nothing) {
    struct script script = {.saves = {"Error: disk full"}};

    play(&script);
    ck_assert_int_eq(script.rc, CC_IO);
    ck_assert_str_eq(script.log, "save n\n");
    CC_VECTOR("06-43");
}
END_TEST

#define LOCKED "Error: snapshot ABC is in use by an active clone/restore/export"

START_TEST(save__waits_for_a_held_lock) {
    struct script script = {.saves = {"already in use by ABC"}, .removes = {LOCKED, LOCKED}};
    struct script for_ever = {.saves = {"already in use by ABC"}, .removes = {"*" LOCKED}};

    play(&script);
    ck_assert_int_eq(script.rc, 0);
    ck_assert_str_eq(script.log, "save n\nrm ABC\nrm ABC\nrm ABC\nsave n\n");
    ck_assert_int_eq(script.took_ms, 1000);
    CC_VECTOR("06-44");
    play(&for_ever);
    ck_assert_int_eq(for_ever.rc, CC_IO);
    ck_assert_int_eq(for_ever.took_ms, 30000);
    ck_assert_uint_eq(for_ever.save_count, 1);
    CC_VECTOR("06-45");
}
END_TEST

START_TEST(save__other_failures_of_rm_end_it) {
    struct script script = {.saves = {"already in use by ABC"}, .removes = {"I/O error"}};
    struct script gone = {.saves = {"already in use by ABC"}, .removes = {"rm: resolve \"ABC\": snapshot not found"}};

    play(&script);
    ck_assert_int_eq(script.rc, CC_IO);
    ck_assert_str_eq(script.log, "save n\nrm ABC\n");
    play(&gone);
    ck_assert_int_eq(gone.rc, 0);
    ck_assert_str_eq(gone.log, "save n\nrm ABC\nsave n\n");
}
END_TEST

START_TEST(save__second_refusal_is_final) {
    struct script script = {.saves = {"already in use by ABC", "already in use by DEF"}};

    play(&script);
    ck_assert_int_eq(script.rc, CC_IO);
    ck_assert_str_eq(script.log, "save n\nrm ABC\nsave n\n");
}
END_TEST

/* The copy under the name may be all that is left of a VM that died. */
START_TEST(save__keeps_the_holder_of_a_vm_that_is_not_seen_running) {
    struct script stopped = {.saves = {"already in use by ABC"}};
    struct script unknown = {.saves = {"already in use by ABC"}, .looked = CC_IO};
    struct script gone = {.saves = {"already in use by ABC"}, .looked = CC_NOT_FOUND};
    struct script canceled = {.saves = {"already in use by ABC"}, .looked = CC_CANCELED};

    stopped.running = false;
    cc_test_run_virtual(run_fiber, &stopped);
    ck_assert_int_eq(stopped.rc, CC_IO);
    ck_assert_str_eq(stopped.log, "save n\n");
    play(&unknown);
    ck_assert_int_eq(unknown.rc, CC_IO);
    ck_assert_str_eq(unknown.log, "save n\n");
    play(&gone);
    ck_assert_int_eq(gone.rc, CC_IO);
    ck_assert_str_eq(gone.log, "save n\n");
    play(&canceled);
    ck_assert_int_eq(canceled.rc, CC_CANCELED);
    ck_assert_str_eq(canceled.log, "save n\n");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime_save_procedure");
    TCase *cases = tcase_create("save");

    tcase_add_test(cases, save__taken_name_is_freed_by_id);
    tcase_add_test(cases, save__other_failures_remove_nothing);
    tcase_add_test(cases, save__waits_for_a_held_lock);
    tcase_add_test(cases, save__other_failures_of_rm_end_it);
    tcase_add_test(cases, save__second_refusal_is_final);
    tcase_add_test(cases, save__keeps_the_holder_of_a_vm_that_is_not_seen_running);
    suite_add_tcase(suite, cases);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
