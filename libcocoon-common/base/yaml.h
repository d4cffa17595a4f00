/* YAML to JSON values, for kubeconfig files: JSON-compatible schema, anchors refused, bounded. */
#ifndef CC_BASE_YAML_H
#define CC_BASE_YAML_H

#include <jansson.h>

#include "base/attributes.h"
#include "base/error.h"

#define CC_YAML_BYTES_MAX (4 * 1024 * 1024)

/* First document only. Plain scalars resolve as in YAML 1.2 core (null, bool, int, float, else string); quoted ones are
 * strings. PROTOCOL with the line on malformed input; LIMIT beyond CC_YAML_BYTES_MAX or CC_JSON_DEPTH_MAX. */
CC_MUST_USE int cc_yaml_parse(const char *bytes, size_t count, json_t **ret, struct cc_err *err);

#endif
