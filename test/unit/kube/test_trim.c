#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kube/trim.h"

static const struct {
    const char *text, *trimmed;
} cases[] = {
    {"", ""},
    {"{}", "{}"},
    {"{\"managedFields\":[]}", "{}"},
    {"{\"managedFields\":[],\"name\":\"x\"}", "{\"name\":\"x\"}"},
    {"{\"name\":\"x\",\"managedFields\":[{\"f:a\":{\".\":{}},\"t\":\"]\\\"],\"}]}", "{\"name\":\"x\"}"},
    {"{\"a\":1,\"managedFields\":[[[]],[\"\\\\\"]],\"b\":2}", "{\"a\":1,\"b\":2}"},
    {"[{\"managedFields\":[1]},{\"b\":1,\"managedFields\":[2]}]", "[{},{\"b\":1}]"},
    {"{\"managedFields\":[1],\"managedFields\":[2]}", "{}"},
    /* Not the member, or not its usual form. */
    {"{\"managedFields\":\"text\"}", "{\"managedFields\":\"text\"}"},
    {"{\"a\":\"\\\"managedFields\\\":[1]\"}", "{\"a\":\"\\\"managedFields\\\":[1]\"}"},
    {"{\"managedFields\": [1]}", "{\"managedFields\": [1]}"},
    {"{\"f:managedFields\":[1]}", "{\"f:managedFields\":[1]}"},
    /* Malformed: for the parser to say. */
    {"{\"managedFields\":[1", "{\"managedFields\":[1"},
    {"{\"managedFields\":[\"", "{\"managedFields\":[\""},
    {"{\"managedFields\":[\"\\", "{\"managedFields\":[\"\\"},
};

START_TEST(trim__cuts_managed_fields) {
    size_t count = strlen(cases[_i].text);
    char *text = malloc(count + 1); /* exact, so that a byte too far is seen */

    memcpy(text, cases[_i].text, count);
    size_t left = cc_kube_trim(text, count);
    ck_assert_uint_eq(left, strlen(cases[_i].trimmed));
    ck_assert_int_eq(memcmp(text, cases[_i].trimmed, left), 0);
    free(text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kube/trim");
    TCase *tcase = tcase_create("trim");

    tcase_add_loop_test(tcase, trim__cuts_managed_fields, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
