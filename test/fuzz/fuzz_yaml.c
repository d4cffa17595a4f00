/* What YAML gives is JSON of bounded depth; written as JSON and read as YAML again it is the same. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/yaml.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *value cc_cleanup(cc_json_decref_p) = NULL, *again cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_err err = {0};
    int rc = cc_yaml_parse((const char *)data, size, &value, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        fuzz_require(!value && (rc == CC_LIMIT || rc == CC_PROTOCOL));
        return 0;
    }
    char *text cc_cleanup(cc_free_p) = cc_json_dump(value);
    fuzz_require(cc_json_parse(text, strlen(text), SIZE_MAX, &again, &err) == 0);
    fuzz_require(json_equal(value, again));
    json_decref(again);
    again = NULL;
    /* libyaml refuses some JSON: keys of more than 1 KiB, control characters. */
    if (cc_yaml_parse(text, strlen(text), &again, &err) == 0)
        fuzz_require(json_equal(value, again));
    return 0;
}
