/* Structural schemas of custom kinds: pruning, defaults, validation and the CEL rules of our CRDs, with the words of
 * the real API server. The rules are C here, found by their text: a rule that this file does not know ends the program,
 * so that nobody changes a CRD without it. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/time.h"
#include "base/yaml.h"
#include "support/fake_kube_internal.h"

#define PATTERNS_MAX 32
#define CRD_BYTES_MAX ((size_t)1 << 20)
#ifndef CC_TEST_CRDS
#define CC_TEST_CRDS "charts/cocoon/crds"
#endif

struct fake_schemas {
    json_t *by_kind;
    struct {
        char *text;
        regex_t compiled;
    } patterns[PATTERNS_MAX];
    size_t pattern_count;
};

/* --- loading --------------------------------------------------------------------------------------------------------
 */

static void load(struct fake_schemas *schemas, const char *path) {
    json_t *crd cc_cleanup(cc_json_decref_p) = NULL;
    struct cc_buf text;
    struct cc_err err = {0};

    cc_buf_init(&text, CRD_BYTES_MAX);
    if (cc_file_read(path, &text, &err) != 0 || cc_yaml_parse(text.data, text.len, &crd, &err) != 0) {
        fprintf(stderr, "%s: %s\n", path, err.msg);
        exit(2);
    }
    cc_buf_done(&text);
    const json_t *spec = cc_json_member(crd, "spec");
    const char *kind = cc_json_text(cc_json_member(spec, "names"), "kind");
    const json_t *version = json_array_get(cc_json_member(spec, "versions"), 0);
    json_object_set(schemas->by_kind, kind, cc_json_path(version, "schema", "openAPIV3Schema", NULL));
}

struct fake_schemas *fake_schemas_ref(void) {
    /* A simulator makes thousands of servers: the files are read once. */
    static struct fake_schemas *shared;
    struct fake_schemas *schemas = shared;

    if (shared)
        return shared;
    shared = schemas = CC_NEW(struct fake_schemas);
    schemas->by_kind = json_object();
    load(schemas, CC_TEST_CRDS "/cocoonsets.yaml");
    load(schemas, CC_TEST_CRDS "/cocoonhibernations.yaml");
    return schemas;
}

const json_t *fake_schema_of(const struct fake_schemas *schemas, const char *kind) {
    return json_object_get(schemas->by_kind, kind);
}

static const regex_t *pattern_of(struct fake_schemas *schemas, const char *text) {
    for (size_t i = 0; i < schemas->pattern_count; i++)
        if (strcmp(schemas->patterns[i].text, text) == 0)
            return &schemas->patterns[i].compiled;
    if (schemas->pattern_count == PATTERNS_MAX ||
        regcomp(&schemas->patterns[schemas->pattern_count].compiled, text, REG_EXTENDED | REG_NOSUB) != 0) {
        fprintf(stderr, "the pattern %s cannot be used\n", text);
        exit(2);
    }
    schemas->patterns[schemas->pattern_count].text = cc_xstrdup(text);
    return &schemas->patterns[schemas->pattern_count++].compiled;
}

/* --- pruning and defaults -------------------------------------------------------------------------------------------
 */

static void fill(const json_t *schema, json_t *value, bool is_root);

static void fill_object(const json_t *schema, json_t *object, bool is_root) {
    const json_t *properties = cc_json_member(schema, "properties");
    const json_t *additional = cc_json_member(schema, "additionalProperties");
    const char *key;
    json_t *item;
    void *next;

    json_object_foreach_safe (object, next, key, item) {
        const json_t *property = cc_json_member(properties, key);

        if (is_root && strcmp(key, "metadata") == 0)
            continue;
        /* No field of ours is nullable: a null counts as absent. */
        if (json_is_null(item))
            json_object_del(object, key);
        else if (property || additional)
            fill(property ? property : additional, item, false);
        else if (properties)
            json_object_del(object, key);
    }
    json_object_foreach ((json_t *)properties, key, item) {
        json_t *preset = json_object_get(item, "default");

        if (preset && !json_object_get(object, key))
            json_object_set_new(object, key, json_deep_copy(preset));
    }
}

static void fill(const json_t *schema, json_t *value, bool is_root) {
    json_t *item;
    size_t i;

    if (json_is_object(value))
        fill_object(schema, value, is_root);
    json_array_foreach (value, i, item)
        fill(cc_json_member(schema, "items"), item, false);
}

void fake_schema_fill(const json_t *schema, json_t *object) {
    fill(schema, object, true);
}

/* --- validation -----------------------------------------------------------------------------------------------------
 */

struct check {
    struct fake_schemas *schemas;
    json_t *causes;
    const json_t *old; /* the object before, which was valid; NULL = none */
    bool is_blocked;   /* by an error after which the rules are not asked */
};

static void violate(struct check *check, const char *field, const char *reason, char *take_message) {
    check->is_blocked = check->is_blocked || strcmp(reason, "FieldValueRequired") == 0 ||
                        strcmp(reason, "FieldValueNotSupported") == 0 || strcmp(reason, "FieldValueTooLong") == 0 ||
                        strcmp(reason, "FieldValueTypeInvalid") == 0;
    fake_cause_add(check->causes, field, reason, take_message);
}

/* The status is validated for itself: its fields are named without it. */
static const char *in_body(const char *field) {
    return cc_text_starts_with(field, "status.") ? field + strlen("status.") : field;
}

static const char *type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    default:
        return "null";
    }
}

static bool check_type(struct check *check, const json_t *schema, const char *field, const json_t *value) {
    const char *wanted = cc_json_text(schema, "type");

    if (cc_json_bool(schema, "x-kubernetes-int-or-string"))
        wanted = json_is_integer(value) || json_is_string(value) ? NULL : "integer,string";
    if (!wanted || strcmp(wanted, type_of(value)) == 0 || (strcmp(wanted, "number") == 0 && json_is_number(value)))
        return true;
    violate(check, field, "FieldValueTypeInvalid",
            cc_xasprintf("Invalid value: \"%s\": %s in body must be of type %s: \"%s\"", type_of(value), in_body(field),
                         wanted, type_of(value)));
    return false;
}

static char *quoted(const json_t *value) {
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
}

static void check_enum(struct check *check, const json_t *schema, const char *field, const json_t *value) {
    const json_t *allowed = cc_json_member(schema, "enum");
    json_t *item;
    size_t i;
    char *list cc_cleanup(cc_free_p) = cc_xstrdup("");

    if (!allowed)
        return;
    json_array_foreach (allowed, i, item) {
        if (json_equal(item, (json_t *)value))
            return;
        char *longer = cc_xasprintf("%s%s\"%s\"", list, i ? ", " : "", json_string_value(item));
        free(list);
        list = longer;
    }
    char *have cc_cleanup(cc_free_p) = quoted(value);
    violate(check, field, "FieldValueNotSupported",
            cc_xasprintf("Unsupported value: %s: supported values: %s", have, list));
}

static void check_string(struct check *check, const json_t *schema, const char *field, const char *text) {
    const char *pattern = cc_json_text(schema, "pattern");
    int64_t length = (int64_t)strlen(text), shortest = cc_json_int(schema, "minLength", 0),
            longest = cc_json_int(schema, "maxLength", INT64_MAX);
    struct cc_wall time;

    if (length > longest)
        violate(check, field, "FieldValueTooLong",
                cc_xasprintf("Too long: may not be more than %lld bytes", (long long)longest));
    else if (length < shortest)
        violate(check, field, "FieldValueInvalid",
                cc_xasprintf("Invalid value: \"%s\": %s in body should be at least %lld chars long", text,
                             in_body(field), (long long)shortest));
    else if (pattern && regexec(pattern_of(check->schemas, pattern), text, 0, NULL, 0) != 0)
        violate(check, field, "FieldValueInvalid",
                cc_xasprintf("Invalid value: \"%s\": %s in body should match '%s'", text, in_body(field), pattern));
    else if (cc_text_equal(cc_json_text(schema, "format"), "date-time") && !cc_rfc3339_parse(text, &time))
        violate(check, field, "FieldValueTypeInvalid",
                cc_xasprintf("Invalid value: \"%s\": %s in body must be of type date-time: \"%s\"", text,
                             in_body(field), text));
}

static void check_integer(struct check *check, const json_t *schema, const char *field, int64_t value) {
    int64_t least = cc_json_int(schema, "minimum", INT64_MIN), most = cc_json_int(schema, "maximum", INT64_MAX);
    const char *format = cc_json_text(schema, "format");

    if (cc_text_equal(format, "int32") && (value < INT32_MIN || value > INT32_MAX))
        violate(
            check, "<nil>", "FieldValueInvalid",
            cc_xasprintf("Invalid value: \"\": Checked value must be of type integer with format int32 in %s", field));
    if (value < least)
        violate(check, field, "FieldValueInvalid",
                cc_xasprintf("Invalid value: %lld: %s in body should be greater than or equal to %lld",
                             (long long)value, in_body(field), (long long)least));
    if (value > most)
        violate(check, field, "FieldValueInvalid",
                cc_xasprintf("Invalid value: %lld: %s in body should be less than or equal to %lld", (long long)value,
                             in_body(field), (long long)most));
}

static void check_value(struct check *check, const json_t *schema, const char *field, const json_t *value);

static void check_object(struct check *check, const json_t *schema, const char *field, const json_t *object) {
    const json_t *properties = cc_json_member(schema, "properties");
    const json_t *additional = cc_json_member(schema, "additionalProperties");
    const char *key;
    json_t *item;
    size_t i;

    json_array_foreach (cc_json_member(schema, "required"), i, item) {
        if (json_object_get(object, json_string_value(item)))
            continue;
        char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s%s%s", field, *field ? "." : "", json_string_value(item));
        violate(check, below, "FieldValueRequired", cc_xstrdup("Required value"));
    }
    json_object_foreach ((json_t *)object, key, item) {
        const json_t *property = cc_json_member(properties, key);

        if (*field == '\0' && check->old && json_object_get(check->old, key) == item)
            continue; /* shared, so not changed */
        char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s%s%s", field, *field ? "." : "", key);

        if (strcmp(below, "metadata") != 0 && (property || additional))
            check_value(check, property ? property : additional, below, item);
    }
}

static bool has_same_keys(const json_t *keys, const json_t *a, const json_t *b) {
    json_t *key;
    size_t i;

    json_array_foreach (keys, i, key)
        if (!json_equal(json_object_get(a, json_string_value(key)), json_object_get(b, json_string_value(key))))
            return false;
    return true;
}

static void check_array(struct check *check, const json_t *schema, const char *field, const json_t *array) {
    const json_t *keys = cc_json_member(schema, "x-kubernetes-list-map-keys");
    json_t *item, *key;
    size_t i, k;

    json_array_foreach (array, i, item) {
        char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s[%zu]", field, i);
        check_value(check, cc_json_member(schema, "items"), below, item);
    }
    json_array_foreach (array, i, item) {
        for (k = 0; keys && k < i; k++) {
            if (!has_same_keys(keys, item, json_array_get(array, k)))
                continue;
            char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s[%zu]", field, i);
            json_t *entry cc_cleanup(cc_json_decref_p) = json_object();
            size_t n;
            json_array_foreach (keys, n, key)
                json_object_set(entry, json_string_value(key), json_object_get(item, json_string_value(key)));
            char *text cc_cleanup(cc_free_p) = quoted(entry);
            violate(check, below, "FieldValueDuplicate", cc_xasprintf("Duplicate value: %s", text));
            break;
        }
    }
}

static void check_value(struct check *check, const json_t *schema, const char *field, const json_t *value) {
    if (!check_type(check, schema, field, value))
        return;
    check_enum(check, schema, field, value);
    if (json_is_string(value))
        check_string(check, schema, field, json_string_value(value));
    else if (json_is_integer(value))
        check_integer(check, schema, field, json_integer_value(value));
    else if (json_is_object(value))
        check_object(check, schema, field, value);
    else if (json_is_array(value))
        check_array(check, schema, field, value);
}

/* --- CEL rules ------------------------------------------------------------------------------------------------------
 */

static bool release_keeps_main_only(const json_t *old, const json_t *self) {
    (void)old;
    return !cc_text_equal(cc_json_text(self, "hibernatePolicy"), "release") ||
           (cc_json_int(cc_json_member(self, "agent"), "replicas", 0) == 0 &&
            json_array_size(cc_json_member(self, "toolboxes")) == 0);
}

static bool class_stays(const json_t *old, const json_t *self) {
    const char *had = cc_json_text(old, "snapshotCompatibilityClass");
    return !old || !had || cc_text_equal(cc_json_text(self, "snapshotCompatibilityClass"), had);
}

static bool is_same(const json_t *old, const json_t *self) {
    return !old || json_equal((json_t *)old, (json_t *)self);
}

static const struct rule {
    const char *text;
    bool (*holds)(const json_t *old, const json_t *self);
} rules[] = {
    {"!has(self.hibernatePolicy) || self.hibernatePolicy != 'release' || ((!has(self.agent.replicas) || "
     "self.agent.replicas == 0) && (!has(self.toolboxes) || size(self.toolboxes) == 0))",
     release_keeps_main_only},
    {"!has(oldSelf.snapshotCompatibilityClass) || (has(self.snapshotCompatibilityClass) && "
     "self.snapshotCompatibilityClass == oldSelf.snapshotCompatibilityClass)",
     class_stays},
    {"self == oldSelf", is_same},
};

static void check_rules(struct check *check, const json_t *schema, const char *field, const json_t *old,
                        const json_t *value) {
    json_t *rule, *property;
    const char *key;
    size_t i;

    json_array_foreach (cc_json_member(schema, "x-kubernetes-validations"), i, rule) {
        const char *text = cc_json_text(rule, "rule");
        const struct rule *known = NULL;

        for (size_t k = 0; k < CC_ARRAY_LENGTH(rules); k++)
            known = cc_text_equal(rules[k].text, text) ? &rules[k] : known;
        if (!known) {
            fprintf(stderr, "fake_kube_schema.c does not know the rule %s\n", text);
            exit(2);
        }
        if (known->holds(old, value))
            continue;
        violate(check, field, "FieldValueInvalid", cc_xasprintf("Invalid value: %s", cc_json_text(rule, "message")));
    }
    json_object_foreach (cc_json_member(schema, "properties"), key, property) {
        const json_t *item = cc_json_member(value, key);
        char *below cc_cleanup(cc_free_p) = cc_xasprintf("%s%s%s", field, *field ? "." : "", key);

        if (json_is_object(item))
            check_rules(check, property, below, cc_json_member(old, key), item);
    }
}

void fake_schema_check(struct fake_schemas *schemas, const json_t *schema, const json_t *old, const json_t *object,
                       json_t *causes) {
    struct check check = {schemas, causes, old, false};

    check_value(&check, schema, "", object);
    if (check.is_blocked)
        violate(
            &check, "<nil>", "FieldValueInvalid",
            cc_xstrdup("Invalid value: null: some validation rules were not checked because the object was invalid; "
                       "correct the existing errors to complete validation"));
    else
        check_rules(&check, schema, "", old, object);
}
