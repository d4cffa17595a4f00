#include "oci/challenge.h"

#include <string.h>
#include <strings.h>

struct cursor {
    const char *at;
    struct cc_arena *arena;
};

static void skip_blanks(struct cursor *cursor) {
    cursor->at += strspn(cursor->at, " \t");
}

static void skip_separators(struct cursor *cursor) {
    cursor->at += strspn(cursor->at, " \t,");
}

static const char *take_token(struct cursor *cursor) {
    size_t bytes = strspn(cursor->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~");
    const char *token = bytes > 0 ? cc_arena_strndup(cursor->arena, cursor->at, bytes) : NULL;
    cursor->at += bytes;
    return token;
}

static const char *take_quoted(struct cursor *cursor) {
    char *text = (char *)cc_arena_alloc(cursor->arena, strlen(cursor->at) + 1);
    size_t length = 0;
    for (cursor->at++; *cursor->at != '"'; cursor->at++) {
        if (*cursor->at == '\\')
            cursor->at++;
        if (*cursor->at == '\0')
            return NULL;
        text[length++] = *cursor->at;
    }
    cursor->at++;
    return text;
}

/* What follows a scheme when it is no list of parameters: token68, e.g. of Negotiate. */
static bool skip_token68(struct cursor *cursor) {
    size_t bytes = strspn(cursor->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/");
    size_t padding = strspn(cursor->at + bytes, "=");
    const char *end = cursor->at + bytes + padding;
    const char *next = end + strspn(end, " \t");
    if (bytes == 0 || (*next != ',' && *next != '\0'))
        return false;
    cursor->at = end;
    return true;
}

/* One "name=value"; false with *ret_name NULL when the next word begins another challenge. */
static bool take_parameter(struct cursor *cursor, const char **ret_name, const char **ret_value) {
    struct cursor ahead = *cursor;
    *ret_name = NULL;
    skip_separators(&ahead);
    const char *name = take_token(&ahead);
    skip_blanks(&ahead);
    if (!name || *ahead.at != '=')
        return false;
    ahead.at++;
    skip_blanks(&ahead);
    *ret_name = name;
    *ret_value = *ahead.at == '"' ? take_quoted(&ahead) : take_token(&ahead);
    *cursor = ahead;
    return *ret_value != NULL;
}

static void set_parameter(struct cc_challenge *challenge, const char *name, const char *value) {
    static const char *const names[] = {"realm", "service", "scope"};
    const char **members[] = {&challenge->realm, &challenge->service, &challenge->scope};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcasecmp(name, names[i]) == 0)
            *members[i] = value;
}

bool cc_challenge_parse(const char *header, struct cc_arena *arena, struct cc_challenge *ret) {
    struct cursor cursor = {header, arena};
    for (;;) {
        skip_separators(&cursor);
        const char *scheme = take_token(&cursor);
        if (!scheme)
            return false;
        struct cc_challenge challenge = {.realm = "", .service = "", .scope = ""};
        if (strcasecmp(scheme, "Basic") == 0)
            challenge.scheme = CC_CHALLENGE_BASIC;
        else if (strcasecmp(scheme, "Bearer") == 0)
            challenge.scheme = CC_CHALLENGE_BEARER;
        skip_blanks(&cursor);
        /* First: the padding of token68 would read as a parameter without a value. */
        bool skipped = challenge.scheme == CC_CHALLENGE_NONE && skip_token68(&cursor);
        const char *name, *value;
        bool any = false;
        while (!skipped && take_parameter(&cursor, &name, &value)) {
            set_parameter(&challenge, name, value);
            any = true;
        }
        if (!skipped && name)
            return false; /* a parameter without a value that can be read */
        if (challenge.scheme != CC_CHALLENGE_NONE) {
            *ret = challenge;
            return true;
        }
        if (!skipped && !any && *cursor.at != ',' && *cursor.at != '\0')
            return false;
    }
}
