/* Enum texts of the API: validity and defaults. contract/01 5.1. Valid() is exact membership ("" is not valid);
 * Default() replaces only the empty text. */
#ifndef CC_API_ENUMS_H
#define CC_API_ENUMS_H

#include <stdbool.h>

enum cc_enum {
    CC_ENUM_AGENT_MODE,
    CC_ENUM_TOOLBOX_MODE,
    CC_ENUM_OS,
    CC_ENUM_SNAPSHOT_POLICY,
    CC_ENUM_HIBERNATE_POLICY,
    CC_ENUM_BACKEND,
    CC_ENUM_CONN_TYPE,
    CC_ENUM_DESIRE,
};
bool cc_enum_is_valid(enum cc_enum which, const char *text);
/* text, or the default of the enum when text is NULL or "" (an enum without a default gives ""). */
const char *cc_enum_default(enum cc_enum which, const char *text);

#endif
