#include "oci/reference.h"

#include <string.h>

#include "base/codec.h"
#include "base/text.h"
#include "http/url.h"

#define REPOSITORY_BYTES_MIN 2
#define REPOSITORY_BYTES_MAX 255
#define TAG_BYTES_MAX 128
#define LOCAL_NAME_BYTES_MAX 63
#define LOCAL_NAME_KEPT_BYTES 50
#define LOCAL_NAME_HASH_DIGITS 12

static const char lower_alnum[] = "abcdefghijklmnopqrstuvwxyz0123456789";
static const char repository_characters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-./";
static const char tag_characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

/* Characters of a repository, and no component that is empty or climbs: such a path would name another repository. */
static bool components_are_valid(const char *path) {
    if (path[strspn(path, repository_characters)] != '\0')
        return false;
    while (true) {
        size_t bytes = strcspn(path, "/");
        bool climbs = bytes <= 2 && strspn(path, ".") >= bytes;
        if (bytes == 0 || climbs)
            return false;
        if (path[bytes] == '\0')
            return true;
        path += bytes + 1;
    }
}

bool cc_repository_is_valid(const char *repository) {
    size_t bytes = strlen(repository);
    return bytes >= REPOSITORY_BYTES_MIN && bytes <= REPOSITORY_BYTES_MAX && components_are_valid(repository);
}

bool cc_tag_is_valid(const char *tag) {
    size_t bytes = strspn(tag, tag_characters);
    return bytes >= 1 && bytes <= TAG_BYTES_MAX && tag[bytes] == '\0';
}

static int refuse_base(struct cc_err *err, const char *text, const char *why) {
    return cc_err_set(err, CC_INVALID, "OCI_REGISTRY \"%s\": %s; accepted is host[:port][/path] without a scheme", text,
                      why);
}

int cc_registry_base_parse(const char *text, struct cc_arena *arena, struct cc_registry_base *ret, struct cc_err *err) {
    if (cc_text_is_empty(text))
        return cc_err_set(err, CC_INVALID, "OCI_REGISTRY must be set");
    if (strstr(text, "://"))
        return refuse_base(err, text, "has a scheme");
    if (cc_text_ends_with(text, "/"))
        return refuse_base(err, text, "ends with a slash");
    const char *host = cc_arena_strndup(arena, text, strcspn(text, "/"));
    const char *path = text[strlen(host)] == '/' ? text + strlen(host) + 1 : "";
    /* contract/05 11.1: a first component of another form would mean a repository at Docker Hub. */
    if (!strpbrk(host, ".:") && strcmp(host, "localhost") != 0)
        return refuse_base(err, text, "the first component is no host");
    struct cc_url url;
    if (strpbrk(host, "?#") || cc_url_parse(cc_arena_printf(arena, "https://%s/", host), arena, &url, NULL) != 0)
        return refuse_base(err, text, "the host is malformed");
    if (*path && (strlen(path) > REPOSITORY_BYTES_MAX || !components_are_valid(path)))
        return refuse_base(err, text, "the path has characters that no repository may have");
    *ret = (struct cc_registry_base){host, cc_arena_strdup(arena, path)};
    return 0;
}

void cc_ref_split(const char *ref, struct cc_arena *arena, const char **ret_repository, const char **ret_tag) {
    const char *colon = strchr(ref, ':');
    bool whole = !colon || colon == ref;
    *ret_repository = whole ? cc_arena_strdup(arena, ref) : cc_arena_strndup(arena, ref, (size_t)(colon - ref));
    *ret_tag = whole ? CC_TAG_LATEST : cc_arena_strdup(arena, colon + 1);
}

/* One of "." "_" "__" or any number of "-"; 0 when there is none. */
static size_t separator_bytes(const char *text) {
    if (text[0] == '.')
        return 1;
    if (text[0] == '_')
        return text[1] == '_' ? 2 : 1;
    return strspn(text, "-");
}

/* [a-z0-9]+(([._]|__|-+)[a-z0-9]+)*; 0 when the text does not begin with one. */
static size_t component_bytes(const char *text) {
    size_t bytes = strspn(text, lower_alnum);
    while (bytes > 0) {
        size_t separator = separator_bytes(text + bytes);
        size_t more = separator > 0 ? strspn(text + bytes + separator, lower_alnum) : 0;
        if (more == 0)
            break;
        bytes += separator + more;
    }
    return bytes;
}

bool cc_ref_is_relative(const char *ref) {
    while (true) {
        size_t bytes = component_bytes(ref);
        if (bytes == 0)
            return false;
        ref += bytes;
        if (*ref != '/')
            break;
        ref++;
    }
    if (*ref == '\0')
        return true;
    return *ref == ':' && ref[1] != '.' && ref[1] != '-' && cc_tag_is_valid(ref + 1);
}

const char *cc_local_snapshot_name(const char *repository, const char *tag, struct cc_arena *arena) {
    const char *name = cc_text_is_empty(tag) || strcmp(tag, CC_TAG_LATEST) == 0
                           ? cc_arena_strdup(arena, repository)
                           : cc_arena_printf(arena, "%s:%s", repository, tag);
    if (strlen(name) <= LOCAL_NAME_BYTES_MAX)
        return name;
    char hex[CC_SHA256_HEX_BYTES];
    cc_sha256_hex_of(name, strlen(name), hex);
    return cc_arena_printf(arena, "%.*s-%.*s", LOCAL_NAME_KEPT_BYTES, name, LOCAL_NAME_HASH_DIGITS, hex);
}
