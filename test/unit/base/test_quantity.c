#include "base/quantity.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/vectors.h"

static struct cc_arena arena;

static const char *canonical(const char *text) {
    const char *ret = NULL;
    struct cc_err err = {0};

    return cc_quantity_canonical(text, &arena, &ret, &err) < 0 ? "error" : ret;
}

static struct cc_quantity parsed(const char *text) {
    struct cc_quantity quantity;
    struct cc_err err = {0};

    ck_assert_msg(cc_quantity_parse(text, &quantity, &err) == 0, "%s: %s", text, err.msg);
    return quantity;
}

struct row {
    const char *in, *out;
};

START_TEST(quantity__canonical_text_of_the_contract) {
    static const struct {
        const char *id;
        struct row rows[3];
    } VECTORS[] = {
        {"02-21.2.1", {{"100G", "100G"}, {"1.5Gi", "1536Mi"}, {"1000", "1k"}}},
        {"02-21.2.2", {{"100Gi", "100Gi"}, {"0.5Gi", "512Mi"}, {"1500", "1500"}}},
        {"02-21.2.3", {{"1024Mi", "1Gi"}, {"0.1Gi", "107374182400m"}, {"1000000000", "1G"}}},
        {"02-21.2.4", {{"1100Mi", "1100Mi"}, {"1000Ki", "1000Ki"}, {"10737418240", "10737418240"}}},
        {"02-21.2.5", {{"2048Ki", "2Mi"}, {"100000M", "100G"}, {"3.000G", "3G"}}},
        {"02-21.2.6", {{"0.5", "500m"}, {"0Gi", "0"}, {"1000e3", "1e6"}}},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(VECTORS); i++) {
        for (size_t k = 0; k < 3; k++)
            ck_assert_str_eq(canonical(VECTORS[i].rows[k].in), VECTORS[i].rows[k].out);
        CC_VECTOR(VECTORS[i].id);
    }
}
END_TEST

/* Each pair was printed by the Go parts' own quantity package. */
START_TEST(quantity__prints_what_the_go_parts_print) {
    static const struct row ROWS[] = {
        {"+1Gi", "+1Gi"},
        {"+2048Mi", "2Gi"},
        {"1.500G", "1.500G"},
        {"1.5G", "1500M"},
        {"0.500", "500m"},
        {"007", "007"},
        {"0012Mi", "0012Mi"},
        {"0008Mi", "8Mi"},
        {"1Pi", "1Pi"},
        {"+1Pi", "1Pi"},
        {"1023Ki", "1023Ki"},
        {"0.5Ki", "512"},
        {"1Ki", "1Ki"},
        {"1.1Ki", "1126400m"},
        {"1e4", "10e3"},
        {"1E3", "1E3"},
        {"1000E3", "1e6"},
        {"1e-12", "1e-9"},
        {"0.0000000001", "1n"},
        {"12e-1", "1200e-3"},
        {"16Ei", "9223372036854775807"},
        {"-1Gi", "-1Gi"},
        {"-1024", "-1024"},
        {"-2048Ki", "-2Mi"},
        {"-0", "0"},
        {"100000000000000000000", "100E"},
        {"1e40", "10e39"},
        {"0.000e3", "0"},
        {".5", "500m"},
        {"5.", "5."},
        {"00", "0"},
        {"999999999999999999", "999999999999999999"},
        {"1.0000000001", "1000000001n"},
        {"0.1234567890123456789012Gi", "132560717819299208n"},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++)
        ck_assert_msg(strcmp(canonical(ROWS[i].in), ROWS[i].out) == 0, "%s gives %s, expected %s", ROWS[i].in,
                      canonical(ROWS[i].in), ROWS[i].out);
}
END_TEST

START_TEST(quantity__a_canonical_text_is_its_own_canonical_text) {
    static const char *const TEXTS[] = {"1.5Gi", "0.1Gi", "2048Ki", "1000e3", "12e-1",
                                        "1e40",  "16Ei",  "1.1Ki",  "3.000G"};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++)
        ck_assert_str_eq(canonical(canonical(TEXTS[i])), canonical(TEXTS[i]));
}
END_TEST

/* Upstream drops the exponent beyond E ("5000E" becomes "5"); a size that shrinks by itself is no interoperability. */
START_TEST(quantity__does_not_lose_what_is_larger_than_the_largest_suffix) {
    ck_assert_str_eq(canonical("5000E"), "5000E");
}
END_TEST

START_TEST(quantity__refuses_malformed_text) {
    static const char *const TEXTS[] = {"",   "+",   "-",     ".",    "Gi",  "1K",   "100g",  "1 Gi", " 1",
                                        "1e", "1ei", "1e1.5", "1..2", "--1", "0x10", "1_000", "NaN",  "1e99999999999"};
    struct cc_quantity quantity;
    struct cc_err err = {0};
    char *longer = calloc(1, CC_QUANTITY_TEXT_BYTES + 2);

    for (size_t i = 0; i < CC_ARRAY_LENGTH(TEXTS); i++)
        ck_assert_msg(cc_quantity_parse(TEXTS[i], &quantity, &err) == CC_INVALID, "\"%s\" was accepted", TEXTS[i]);
    ck_assert_int_eq(cc_quantity_parse(NULL, &quantity, NULL), CC_INVALID);
    ck_assert_str_eq(canonical("100g"), "error");
    memset(longer, '1', CC_QUANTITY_TEXT_BYTES + 1);
    ck_assert_int_eq(cc_quantity_parse(longer, &quantity, &err), CC_INVALID);
    longer[CC_QUANTITY_TEXT_BYTES] = '\0';
    ck_assert_int_eq(cc_quantity_parse(longer, &quantity, &err), 0);
    ck_assert_str_eq(canonical(longer), longer);
    ck_assert_int_eq(cc_quantity_parse("12parsecs", &quantity, &err), CC_INVALID);
    ck_assert_ptr_nonnull(strstr(err.msg, "12parsecs"));
    free(longer);
}
END_TEST

START_TEST(quantity__rounds_away_from_zero) {
    static const struct {
        const char *text;
        int64_t units, millis;
    } ROWS[] = {
        {"3100m", 4, 3100},
        {"-3100m", -4, -3100},
        {"1n", 1, 1},
        {"-1n", -1, -1},
        {"0", 0, 0},
        {"1Gi", 1073741824, 1073741824000},
        {"107374182400m", 107374183, 107374182400},
        {"1e40", INT64_MAX, INT64_MAX},
        {"-1e40", -INT64_MAX, -INT64_MAX},
        {"16Ei", INT64_MAX, INT64_MAX},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        struct cc_quantity quantity = parsed(ROWS[i].text);
        ck_assert_int_eq(cc_quantity_units(&quantity), ROWS[i].units);
        ck_assert_int_eq(cc_quantity_millis(&quantity), ROWS[i].millis);
    }
}
END_TEST

START_TEST(quantity__compares_by_value) {
    static const struct {
        const char *a, *b;
        int order;
    } ROWS[] = {
        {"1000m", "1", 0}, {"1Gi", "1024Mi", 0}, {"1Gi", "1G", 1},         {"-1", "1", -1},
        {"-2", "-1", -1},  {"0Gi", "-0", 0},     {"1", "1.000000001", -1}, {"1e3", "1k", 0},
    };

    for (size_t i = 0; i < CC_ARRAY_LENGTH(ROWS); i++) {
        struct cc_quantity a = parsed(ROWS[i].a), b = parsed(ROWS[i].b);
        ck_assert_int_eq(cc_quantity_compare(&a, &b), ROWS[i].order);
        ck_assert_int_eq(cc_quantity_compare(&b, &a), -ROWS[i].order);
    }
    struct cc_quantity zero = parsed("0.000Gi");
    ck_assert(cc_quantity_is_zero(&zero));
}
END_TEST

START_TEST(quantity__scales_exactly_and_rounds_down) {
    struct cc_quantity quantity = parsed("3100m");

    ck_assert_int_eq(cc_quantity_scaled_floor(&quantity, 80, 100), 2); /* contract/08 2.4.1 */
    quantity = parsed("16384256Ki");
    ck_assert_int_eq(cc_quantity_scaled_floor(&quantity, 80, 100), INT64_C(13421982515));
    quantity = parsed("9223372036854775807");
    ck_assert_int_eq(cc_quantity_scaled_floor(&quantity, 1, 1), INT64_MAX);
    ck_assert_int_eq(cc_quantity_scaled_floor(&quantity, INT64_MAX, INT64_MAX), INT64_MAX);
    ck_assert_int_eq(cc_quantity_scaled_floor(&quantity, 2, 1), INT64_MAX);
    ck_assert_int_eq(cc_quantity_scaled_floor(&quantity, 0, 1), 0);
    quantity = parsed("-1500m");
    ck_assert_int_eq(cc_quantity_scaled_floor(&quantity, 1, 1), -2);
}
END_TEST

START_TEST(quantity__formats_bytes) {
    ck_assert_str_eq(cc_quantity_format_bytes(INT64_C(16384256) * 1024, &arena), "16384256Ki");
    ck_assert_str_eq(cc_quantity_format_bytes(INT64_C(125) << 30, &arena), "125Gi");
    ck_assert_str_eq(cc_quantity_format_bytes(1023, &arena), "1023");
    ck_assert_str_eq(cc_quantity_format_bytes(2048 * 1024, &arena), "2Mi");
    ck_assert_str_eq(cc_quantity_format_bytes(0, &arena), "0");
    ck_assert_str_eq(cc_quantity_format_bytes(INT64_MAX, &arena), "9223372036854775807");
}
END_TEST

static void teardown(void) {
    cc_arena_done(&arena);
}

int main(void) {
    Suite *suite = suite_create("quantity");
    TCase *tcase = tcase_create("quantity");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, quantity__canonical_text_of_the_contract);
    tcase_add_test(tcase, quantity__prints_what_the_go_parts_print);
    tcase_add_test(tcase, quantity__a_canonical_text_is_its_own_canonical_text);
    tcase_add_test(tcase, quantity__does_not_lose_what_is_larger_than_the_largest_suffix);
    tcase_add_test(tcase, quantity__refuses_malformed_text);
    tcase_add_test(tcase, quantity__rounds_away_from_zero);
    tcase_add_test(tcase, quantity__compares_by_value);
    tcase_add_test(tcase, quantity__scales_exactly_and_rounds_down);
    tcase_add_test(tcase, quantity__formats_bytes);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
