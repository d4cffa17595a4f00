#include "kube/trim.h"

#include <string.h>

/* Inside of a string its quotes are escaped, so that this text is always the beginning of a member. */
static const char member[] = "\"managedFields\":[";
#define MEMBER_LENGTH (sizeof member - 1)

/* Behind the array that `at` is in; NULL when it does not end. */
static char *array_end(char *at, const char *end) {
    size_t depth = 1;

    for (; at < end; at++) {
        if (*at == '"') {
            for (at++; at < end && *at != '"'; at++)
                at += *at == '\\';
        } else if (*at == '[') {
            depth++;
        } else if (*at == ']' && --depth == 0) {
            return at + 1;
        }
    }
    return NULL;
}

size_t cc_kube_trim(char *text, size_t count) {
    char *end = text + count, *from = text, *found;

    if (count == 0)
        return 0;
    while ((found = memmem(from, (size_t)(end - from), member, MEMBER_LENGTH))) {
        char *rest = array_end(found + MEMBER_LENGTH, end);

        if (!rest)
            break;
        if (rest < end && *rest == ',')
            rest++;
        else if (found > text && found[-1] == ',')
            found--;
        memmove(found, rest, (size_t)(end - rest));
        end -= rest - found;
        from = found;
    }
    return (size_t)(end - text);
}
