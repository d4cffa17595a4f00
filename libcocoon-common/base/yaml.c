#include "base/yaml.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

static void parser_delete_p(yaml_parser_t *parser) {
    yaml_parser_delete(parser);
}

struct reader {
    yaml_parser_t *parser;
    struct cc_err *err;
};

static int malformed(struct reader *reader, size_t line, const char *why) {
    return cc_err_set(reader->err, CC_PROTOCOL, "malformed YAML at line %zu: %s", line + 1, why);
}

static int next_event(struct reader *reader, yaml_event_t *event) {
    if (yaml_parser_parse(reader->parser, event))
        return 0;
    return malformed(reader, reader->parser->problem_mark.line,
                     reader->parser->problem ? reader->parser->problem : "syntax");
}

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

/* Plain scalars of the YAML 1.2 core schema. */
static json_t *resolve_plain(const char *text) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    if (is_one_of(text, nulls))
        return json_null();
    if (is_one_of(text, trues))
        return json_true();
    if (is_one_of(text, falses))
        return json_false();
    int64_t integer;
    if (cc_parse_int64(text, INT64_MIN, INT64_MAX, &integer))
        return json_integer(integer);
    if (strspn(text, "+-.0123456789eE") == strlen(text) && strpbrk(text, "0123456789")) {
        char *end;
        double real = strtod(text, &end);
        if (!*end && isfinite(real))
            return json_real(real);
    }
    return json_string(text);
}

static int read_node(struct reader *reader, const yaml_event_t *event, int depth, json_t **ret);

static int read_sequence(struct reader *reader, int depth, json_t **ret) {
    json_t *array cc_cleanup(cc_json_decref_p) = json_array();
    for (;;) {
        yaml_event_t event;
        int rc = next_event(reader, &event);
        if (rc)
            return rc;
        if (event.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&event);
            *ret = cc_take(array);
            return 0;
        }
        json_t *item = NULL;
        rc = read_node(reader, &event, depth, &item);
        yaml_event_delete(&event);
        if (rc)
            return rc;
        cc_json_append_new(array, item);
    }
}

static int read_mapping(struct reader *reader, int depth, json_t **ret) {
    json_t *object cc_cleanup(cc_json_decref_p) = json_object();
    for (;;) {
        yaml_event_t event;
        int rc = next_event(reader, &event);
        if (rc)
            return rc;
        if (event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            *ret = cc_take(object);
            return 0;
        }
        if (event.type != YAML_SCALAR_EVENT) {
            size_t line = event.start_mark.line;
            yaml_event_delete(&event);
            return malformed(reader, line, "a key must be a plain text");
        }
        char *key cc_cleanup(cc_free_p) = cc_xstrdup((const char *)event.data.scalar.value);
        size_t line = event.start_mark.line;
        yaml_event_delete(&event);
        if (!cc_utf8_is_valid(key, strlen(key)) || json_object_get(object, key))
            return malformed(reader, line, "a key is given twice or is not UTF-8");
        json_t *value = NULL;
        rc = next_event(reader, &event);
        if (rc)
            return rc;
        rc = read_node(reader, &event, depth, &value);
        yaml_event_delete(&event);
        if (rc)
            return rc;
        cc_json_set_new(object, key, value);
    }
}

static int read_node(struct reader *reader, const yaml_event_t *event, int depth, json_t **ret) {
    size_t line = event->start_mark.line;
    if (depth >= CC_JSON_DEPTH_MAX)
        return cc_err_set(reader->err, CC_LIMIT, "YAML nested deeper than %d levels at line %zu", CC_JSON_DEPTH_MAX,
                          line + 1);
    switch (event->type) {
    case YAML_SCALAR_EVENT: {
        const char *text = (const char *)event->data.scalar.value;
        if (strlen(text) != event->data.scalar.length || !cc_utf8_is_valid(text, strlen(text)))
            return malformed(reader, line, "a text holds bytes that are not UTF-8");
        bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && event->data.scalar.plain_implicit;
        *ret = plain ? resolve_plain(text) : json_string(text);
        return 0;
    }
    case YAML_SEQUENCE_START_EVENT:
        return read_sequence(reader, depth + 1, ret);
    case YAML_MAPPING_START_EVENT:
        return read_mapping(reader, depth + 1, ret);
    case YAML_ALIAS_EVENT:
        return malformed(reader, line, "aliases are not accepted");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        break;
    }
    return malformed(reader, line, "a value is missing");
}

int cc_yaml_parse(const char *bytes, size_t count, json_t **ret, struct cc_err *err) {
    if (count > CC_YAML_BYTES_MAX)
        return cc_err_set(err, CC_LIMIT, "YAML of %zu bytes, at most %d are accepted", count, CC_YAML_BYTES_MAX);
    yaml_parser_t parser cc_cleanup(parser_delete_p);
    if (!yaml_parser_initialize(&parser)) {
        memset(&parser, 0, sizeof parser);
        return cc_err_set(err, CC_LIMIT, "no memory for the YAML parser");
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, count);
    struct reader reader = {&parser, err};
    for (;;) {
        yaml_event_t event;
        int rc = next_event(&reader, &event);
        if (rc)
            return rc;
        if (event.type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&event);
            *ret = json_null(); /* an empty document */
            return 0;
        }
        bool is_node = event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT;
        rc = is_node ? read_node(&reader, &event, 0, ret) : 0;
        yaml_event_delete(&event);
        if (rc || is_node)
            return rc;
    }
}
