#include "http/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
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

/* Appends the certificates of `text` that `pem` does not hold yet; true when there was one. */
static bool add_certificates(struct cc_buf *pem, const char *text) {
    bool added = false;
    for (const char *at = strstr(text, block_begin); at; at = strstr(at, block_begin)) {
        const char *end = strstr(at, block_end);
        if (!end)
            break;
        end += sizeof block_end - 1;
        char *block cc_cleanup(cc_free_p) = cc_xstrndup(at, (size_t)(end - at));
        if (!strstr(pem->data, block) && cc_buf_append(pem, block, (size_t)(end - at)) == 0 &&
            cc_buf_putc(pem, '\n') == 0)
            added = true;
        at = end;
    }
    return added;
}

static bool add_file(struct cc_buf *pem, const char *path, bool *ret_added) {
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, CC_TRUST_BYTES_MAX);
    if (cc_file_read(path, &text, NULL) != 0)
        return false;
    *ret_added = add_certificates(pem, text.data);
    return true;
}

/* The hash links that OpenSSL keeps in such directories name their neighbours a second time. */
static bool is_link_to_neighbour(const char *path) {
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);
    return length > 0 && !memchr(target, '/', (size_t)length);
}

static bool add_directory(struct cc_buf *pem, const char *path, const char *skip) {
    DIR *directory = opendir(path);
    if (!directory)
        return false;
    bool any = false;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char *file cc_cleanup(cc_free_p) = cc_xasprintf("%s/%s", path, entry->d_name);
        bool added = false;
        if (entry->d_name[0] == '.' || is_link_to_neighbour(file) || cc_text_equal(file, skip))
            continue;
        if (add_file(pem, file, &added))
            any = any || added;
    }
    closedir(directory);
    return any;
}

void cc_trust_load(struct cc_trust *trust, const char *(*getenv_fn)(void *ctx, const char *name), void *ctx) {
    if (!getenv_fn)
        getenv_fn = system_getenv;
    *trust = (struct cc_trust){0};
    struct cc_buf pem cc_cleanup(cc_buf_done);
    cc_buf_init(&pem, CC_TRUST_BYTES_MAX);
    const char *file_override = getenv_fn(ctx, "SSL_CERT_FILE");
    const char *bundle = NULL;
    bool added;
    if (!cc_text_is_empty(file_override)) {
        bundle = add_file(&pem, file_override, &added) ? file_override : NULL;
    } else {
        for (size_t i = 0; i < CC_ARRAY_LENGTH(known_files) && !bundle; i++)
            bundle = add_file(&pem, known_files[i], &added) ? known_files[i] : NULL;
    }
    const char *directories = cc_text_or(getenv_fn(ctx, "SSL_CERT_DIR"), known_directories);
    bool extra = false;
    while (*directories) {
        size_t bytes = strcspn(directories, ":");
        char *path cc_cleanup(cc_free_p) = cc_xstrndup(directories, bytes);
        extra = add_directory(&pem, path, bundle) || extra;
        directories += bytes + (directories[bytes] == ':');
    }
    /* One file alone is handed over by name: libcurl then parses it once for all connections. */
    if (bundle && !extra) {
        trust->file = cc_xstrdup(bundle);
        return;
    }
    trust->pem_bytes = pem.len;
    trust->pem = pem.len > 0 ? cc_buf_steal(&pem) : NULL;
}

void cc_trust_done(struct cc_trust *trust) {
    cc_free_p(&trust->file);
    cc_free_p(&trust->pem);
    trust->pem_bytes = 0;
}
