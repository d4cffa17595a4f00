#include "sim.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/codec.h"
#include "base/json.h"
#include "base/text.h"

static void store_image(const char *kind, const char *name, const char *type, const char *digest, int64_t size) {
    json_t *image cc_cleanup(cc_json_decref_p) = json_object();
    char *now cc_cleanup(cc_free_p) = now_text();
    cc_json_set_text(image, "id", digest);
    cc_json_set_text(image, "name", name);
    cc_json_set_text(image, "type", type);
    cc_json_set_int(image, "size", size);
    cc_json_set_text(image, "created_at", now);
    char file[CC_SHA256_HEX_BYTES];
    cc_sha256_hex_of(name, strlen(name), file); /* names hold '/' and ':' */
    store_lock();
    store_save(kind, file, image);
    store_unlock();
}

int image_inspect_in(const char *kind, struct arguments *arguments) {
    expect_words(arguments, 1, "image inspect IMAGE");
    json_t *image cc_cleanup(cc_json_decref_p) = store_resolve(kind, arguments->words[0]);
    if (!image)
        die("image \"%s\": not found in any backend", arguments->words[0]);
    fault_leave();
    print_json(image);
    return 0;
}

/* There is no outside: every reference can be had, unless its name says otherwise. */
int image_pull_in(const char *kind, struct arguments *arguments) {
    take_flag(arguments, "--force");
    expect_words(arguments, 1, "image pull [--force] REF");
    const char *ref = arguments->words[0];
    if (cc_text_contains(ref, "missing"))
        die("pull %s: MANIFEST_UNKNOWN: manifest unknown", ref);
    fault_middle();
    char digest[CC_DIGEST_BYTES];
    cc_digest_of(ref, strlen(ref), digest);
    store_image(kind, ref, cc_text_starts_with(ref, "http") ? "cloudimg" : "oci", digest, 1 << 20);
    fault_leave();
    return 0;
}

static int image_import(struct arguments *arguments) {
    expect_words(arguments, 1, "image import NAME < IMAGE");
    struct cc_sha256 *hash = cc_sha256_new();
    char *chunk cc_cleanup(cc_free_p) = cc_xmalloc(1 << 16);
    int64_t size = 0;
    bool known = false;
    for (ssize_t got; (got = read(STDIN_FILENO, chunk, 1 << 16)) > 0;) {
        if (size == 0)
            known = got >= 4 && memcmp(chunk, "QFI\xfb", 4) == 0;
        cc_sha256_update(hash, chunk, (size_t)got);
        size += got;
    }
    if (!known)
        die("import %s: unknown type", arguments->words[0]);
    uint8_t sum[CC_SHA256_BYTES];
    char digest[CC_DIGEST_BYTES];
    cc_sha256_final(hash, sum);
    cc_sha256_free(hash);
    cc_digest_format(sum, digest);
    fault_middle();
    store_image("images", arguments->words[0], "cloudimg", digest, size);
    fault_leave();
    return 0;
}

int image_main(const char *verb, struct arguments *arguments) {
    if (strcmp(verb, "inspect") == 0)
        return image_inspect_in("images", arguments);
    if (strcmp(verb, "pull") == 0)
        return image_pull_in("images", arguments);
    if (strcmp(verb, "import") == 0)
        return image_import(arguments);
    die("unknown command \"image %s\"", verb);
}
