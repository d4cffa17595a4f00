#include "http/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/file.h"
#include "base/text.h"

static const char *const known_files[] = {
    "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Alpine */
    "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL 6 */
    "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
    "/etc/pki/tls/cacert.pem",                           /* OpenELEC */
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* RHEL 7 */
    "/etc/ssl/cert.pem",                                 /* Alpine */
};
static const char known_directories[] = "/etc/ssl/certs:/etc/pki/tls/certs";
static const char block_begin[] = "-----BEGIN CERTIFICATE-----";
static const char block_end[] = "-----END CERTIFICATE-----";

static const char *system_getenv(void *ctx, const char *name) {
    (void)ctx;
    return getenv(name);
}

struct known {
    uint8_t hash[CC_SHA256_BYTES];
    UT_hash_handle hh;
};

struct collection {
    struct cc_buf pem;
    struct known *known; /* certificates in pem: most directories hold what the bundle holds */
};

static bool is_new(struct collection *collection, const char *block, size_t bytes) {
    struct known *known = NULL;
    uint8_t hash[CC_SHA256_BYTES];
    cc_sha256_of(block, bytes, hash);
    HASH_FIND(hh, collection->known, hash, sizeof hash, known);
    if (known)
        return false;
    known = CC_NEW(struct known);
    memcpy(known->hash, hash, sizeof hash);
    HASH_ADD(hh, collection->known, hash, sizeof known->hash, known);
    return true;
}

static void collection_done(struct collection *collection) {
    struct known *known, *next;
    HASH_ITER (hh, collection->known, known, next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the next one was read before this one is freed */
        HASH_DEL(collection->known, known);
        free(known);
    }
    cc_buf_done(&collection->pem);
}

/* Appends the certificates of `text` that the collection does not hold yet; true when there was one. */
static bool add_certificates(struct collection *collection, const char *text) {
    bool added = false;
    for (const char *at = strstr(text, block_begin); at; at = strstr(at, block_begin)) {
        const char *end = strstr(at, block_end);
        if (!end)
            break;
        end += sizeof block_end - 1;
        size_t bytes = (size_t)(end - at);
        if (is_new(collection, at, bytes) && cc_buf_append(&collection->pem, at, bytes) == 0 &&
            cc_buf_putc(&collection->pem, '\n') == 0)
            added = true;
        at = end;
    }
    return added;
}

static bool add_file(struct collection *collection, const char *path, bool *ret_added) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, CC_TRUST_BYTES_MAX);
    if (cc_file_read(path, &text, NULL) != 0)
        return false;
    *ret_added = add_certificates(collection, text.data);
    return true;
}

/* The hash links that OpenSSL keeps in such directories name their neighbours a second time. */
static bool is_link_to_neighbour(const char *path) {
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);
    return length > 0 && !memchr(target, '/', (size_t)length);
}

static bool add_directory(struct collection *collection, const char *path, const char *skip) {
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    bool any = false;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char *file cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", path, entry->d_name);
        bool added = false;
        if (entry->d_name[0] == '.' || is_link_to_neighbour(file) || cc_text_equal(file, skip))
            continue;
        if (add_file(collection, file, &added))
            any = any || added;
    }
    closedir(directory);
    return any;
}

void cc_trust_load(struct cc_trust *trust, const char *(*getenv_fn)(void *ctx, const char *name), void *ctx) {
    if (!getenv_fn)
        getenv_fn = system_getenv;
    *trust = (struct cc_trust){0};
    struct collection collection cc_cleanup(collection_done) = {0};
    cc_buf_init(&collection.pem, CC_TRUST_BYTES_MAX);
    const char *file_override = getenv_fn(ctx, "SSL_CERT_FILE");
    const char *bundle = NULL;
    bool added;
    if (!cc_text_is_empty(file_override)) {
        bundle = add_file(&collection, file_override, &added) ? file_override : NULL;
    } else {
        for (size_t i = 0; i < CC_ARRAY_LENGTH(known_files) && !bundle; i++)
            bundle = add_file(&collection, known_files[i], &added) ? known_files[i] : NULL;
    }
    const char *directories = cc_text_or(getenv_fn(ctx, "SSL_CERT_DIR"), known_directories);
    bool extra = false;
    while (*directories) {
        size_t bytes = strcspn(directories, ":");
        char *path cc_cleanup(cc_free_p) = cc_xstrndup(directories, bytes);
        extra = add_directory(&collection, path, bundle) || extra;
        directories += bytes + (directories[bytes] == ':');
    }
    /* One file alone is handed over by name: libcurl then parses it once for all connections. */
    if (bundle && !extra) {
        trust->file = cc_xstrdup(bundle);
        return;
    }
    trust->pem_bytes = collection.pem.len;
    trust->pem = collection.pem.len > 0 ? cc_buf_steal(&collection.pem) : NULL;
}

void cc_trust_done(struct cc_trust *trust) {
    cc_free_p(&trust->file);
    cc_free_p(&trust->pem);
    trust->pem_bytes = 0;
}
