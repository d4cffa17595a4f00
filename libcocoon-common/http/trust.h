/* The system's trusted roots as Go finds them (decision 76): the file SSL_CERT_FILE or the first known bundle that can
 * be read, and all files of the directories in SSL_CERT_DIR (separated by ':') or of the known ones. */
#ifndef CC_HTTP_TRUST_H
#define CC_HTTP_TRUST_H

#include <stddef.h>

#include "base/attributes.h"

struct cc_trust {
    char *file; /* owned; all roots are in this file; NULL = see pem */
    char *pem;  /* owned; the roots' PEM texts; NULL when `file` is set or there are no roots at all */
    size_t pem_bytes;
};
#define CC_TRUST_BYTES_MAX ((size_t)16 * 1024 * 1024) /* of all files together; what is beyond is not trusted */

/* Reads some hundred small files, blocking. getenv_fn NULL = getenv(3). */
void cc_trust_load(struct cc_trust *trust, const char *(*getenv_fn)(void *ctx, const char *name), void *ctx);
void cc_trust_done(struct cc_trust *trust);

#endif
