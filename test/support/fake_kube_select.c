/* Label and field selectors as lists and watches take them. A selector that cannot be read matches nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "support/fake_kube_internal.h"

/* "a,b" inside of parentheses: is value one of them? */
static bool is_in_set(const char *set, const char *value) {
    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(set);
    char *rest = copy;

    for (char *part; (part = strsep(&rest, ","));) {
        char *trimmed cc_cleanup(cc_free_p) = cc_text_trim(part);

        if (value && strcmp(trimmed, value) == 0)
            return true;
    }
    return false;
}

/* One requirement against the value of its key (NULL = absent); text is "k=v", "k!=v", "k in (a,b)", "k", "!k". */
static bool split_requirement(const char *text, char **ret_key, const char **ret_operator, char **ret_value) {
    static const char *const operators[] = {"!=", "==", "=", " notin ", " in "};

    for (size_t i = 0; i < CC_ARRAY_LENGTH(operators); i++) {
        const char *at = strstr(text, operators[i]);

        if (!at)
            continue;
        char *key cc_cleanup(cc_free_p) = cc_xstrndup(text, (size_t)(at - text));
        *ret_key = cc_text_trim(key);
        *ret_value = cc_text_trim(at + strlen(operators[i]));
        *ret_operator = operators[i];
        return true;
    }
    char *key cc_cleanup(cc_free_p) = cc_text_trim(text);
    *ret_operator = key[0] == '!' ? "!" : "";
    *ret_key = cc_text_trim(key[0] == '!' ? key + 1 : key);
    *ret_value = cc_xstrdup("");
    return *ret_key[0] != '\0';
}

static bool holds(const char *operator, const char * wanted, const char *value) {
    if (strcmp(operator, "!") == 0)
        return !value;
    if (strcmp(operator, "") == 0)
        return value != NULL;
    if (strcmp(operator, "!=") == 0)
        return !value || strcmp(value, wanted) != 0;
    if (operator[0] == '=')
        return value && strcmp(value, wanted) == 0;

    size_t length = strlen(wanted);
    if (length < 2 || wanted[0] != '(' || wanted[length - 1] != ')')
        return false;
    char *set cc_cleanup(cc_free_p) = cc_xstrndup(wanted + 1, length - 2);
    bool inside = is_in_set(set, value);
    return strcmp(operator, " in ") == 0 ? inside : !inside;
}

/* Value of "spec.nodeName" or of a label; for fields an absent text reads as "". */
static const char *value_of(const json_t *object, const char *key, bool is_field) {
    if (!is_field)
        return cc_json_text(cc_json_path(object, "metadata", "labels", NULL), key);

    char *copy cc_cleanup(cc_free_p) = cc_xstrdup(key);
    char *rest = copy;
    const json_t *value = object;
    for (char *part; (part = strsep(&rest, "."));)
        value = cc_json_member(value, part);
    return json_is_string(value) ? json_string_value(value) : "";
}

static bool requirement_holds(const json_t *object, const char *text, bool is_field) {
    char *key cc_cleanup(cc_free_p) = NULL;
    char *wanted cc_cleanup(cc_free_p) = NULL;
    const char *operator= NULL;

    if (!split_requirement(text, &key, &operator, & wanted))
        return false;
    return holds(operator, wanted, value_of(object, key, is_field));
}

static bool selects(const json_t *object, const char *selector, bool is_field) {
    int depth = 0;
    const char *start = selector;

    if (cc_text_is_empty(selector))
        return true;
    for (const char *at = selector;; at++) {
        if (*at == '(')
            depth++;
        else if (*at == ')')
            depth--;
        if (*at != '\0' && (*at != ',' || depth > 0))
            continue;
        char *part cc_cleanup(cc_free_p) = cc_xstrndup(start, (size_t)(at - start));
        if (!requirement_holds(object, part, is_field))
            return false;
        if (*at == '\0')
            return true;
        start = at + 1;
    }
}

bool fake_select_labels(const json_t *object, const char *selector) {
    return selects(object, selector, false);
}

static const struct {
    const char *kind, *fields; /* one space before and after each */
} known_fields[] = {
    {"Pod",
     " spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork status.phase "
     "status.podIP status.podIPs status.nominatedNodeName "},
    {"Node", " spec.unschedulable "},
    {"Event", " involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
              "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason "
              "reportingComponent source type "},
};

static bool is_known_field(const char *kind, const char *field) {
    char *padded cc_cleanup(cc_free_p) = cc_xasprintf(" %s ", field);

    if (strcmp(field, "metadata.name") == 0 || strcmp(field, "metadata.namespace") == 0)
        return true;
    for (size_t i = 0; i < CC_ARRAY_LENGTH(known_fields); i++)
        if (strcmp(known_fields[i].kind, kind) == 0)
            return strstr(known_fields[i].fields, padded) != NULL;
    return false;
}

bool fake_fields_are_known(const char *kind, const char *selector) {
    while (*selector) {
        size_t length = strcspn(selector, ",");
        char *field cc_cleanup(cc_free_p) = cc_xstrndup(selector, strcspn(selector, "=!,"));

        if (!is_known_field(kind, field))
            return false;
        selector += length + (selector[length] == ',');
    }
    return true;
}

bool fake_select_fields(const json_t *object, const char *selector) {
    return selects(object, selector, true);
}

bool fake_select(const json_t *object, const char *namespace, const char *labels, const char *fields) {
    if (!object)
        return false;
    if (!cc_text_is_empty(namespace) &&
        !cc_text_equal(namespace, cc_json_text(cc_json_member(object, "metadata"), "namespace")))
        return false;
    return fake_select_labels(object, labels) && fake_select_fields(object, fields);
}
