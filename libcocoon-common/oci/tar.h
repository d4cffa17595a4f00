/* Tar archives as cocoon exports and imports them (contract/05 5): USTAR, PAX records, the COCOON.sparse.* records. The
 * reader does no I/O: feed bytes, pull events. The writer makes headers; bodies are the caller's to write. */
#ifndef CC_OCI_TAR_H
#define CC_OCI_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/buf.h"
#include "base/error.h"

#define CC_TAR_BLOCK_BYTES 512
#define CC_TAR_PAX_BYTES_MAX ((size_t)1024 * 1024) /* of one entry's records, both ways (contract/05 5) */
#define CC_TAR_NAME_BYTES_MAX 4096

struct cc_tar_entry {
    const char *name;
    bool is_regular;
    uint32_t mode;          /* permission bits */
    int64_t size;           /* of the body in the archive */
    const char *sparse_map; /* COCOON.sparse.map, NULL = not sparse */
    int64_t sparse_size;
};

enum cc_tar_event {
    CC_TAR_NEED_INPUT, /* all that was fed is used up */
    CC_TAR_ENTRY,      /* a header; then any number of CC_TAR_DATA, then CC_TAR_ENTRY_END, for each kind of entry */
    CC_TAR_DATA,
    CC_TAR_ENTRY_END,
    CC_TAR_END, /* the two zero blocks; what follows is ignored */
};

struct cc_tar_reader;
struct cc_tar_reader *cc_tar_reader_new(void);
void cc_tar_reader_free(struct cc_tar_reader *reader); /* NULL is fine */
/* Gives the next bytes; borrowed until the reader asks for input again. */
void cc_tar_reader_feed(struct cc_tar_reader *reader, const void *bytes, size_t count);
/* Next event; for CC_TAR_DATA *ret_data and *ret_count point into what was fed.
 * Errors: PROTOCOL (malformed; GNU sparse files; a sparse map without size), LIMIT (PAX records, name). Final. */
CC_MUST_USE int cc_tar_reader_next(struct cc_tar_reader *reader, enum cc_tar_event *ret, const char **ret_data,
                                   size_t *ret_count, struct cc_err *err);
/* The entry of the last CC_TAR_ENTRY; valid until its CC_TAR_ENTRY_END. */
const struct cc_tar_entry *cc_tar_reader_entry(const struct cc_tar_reader *reader);
/* At the end of the input: PROTOCOL when the archive was cut. */
CC_MUST_USE int cc_tar_reader_finish(const struct cc_tar_reader *reader, struct cc_err *err);

/* Appends the header of a regular entry, with a PAX header where it is needed. mtime_s: seconds since 1970. LIMIT: PAX
 * records beyond CC_TAR_PAX_BYTES_MAX, a name that does not fit. */
CC_MUST_USE int cc_tar_write_header(struct cc_buf *into, const struct cc_tar_entry *entry, int64_t mtime_s,
                                    struct cc_err *err);
/* Zero bytes that must follow a body of that size. */
size_t cc_tar_padding(int64_t size);
/* Appends the end: two zero blocks. */
void cc_tar_write_end(struct cc_buf *into);

CC_DEFINE_CLEANUP(struct cc_tar_reader, cc_tar_reader_free)

#endif
