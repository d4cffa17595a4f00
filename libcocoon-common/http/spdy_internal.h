/* Header blocks, apart from frames. For spdy*.c and tests. */
#ifndef CC_HTTP_SPDY_INTERNAL_H
#define CC_HTTP_SPDY_INTERNAL_H

#include <zlib.h>

#include "http/spdy.h"

#define CC_SPDY_DICTIONARY_BYTES 1423
/* The preset dictionary, into ret. */
void cc_spdy_dictionary(uint8_t ret[CC_SPDY_DICTIONARY_BYTES]);

struct cc_spdy_blocks {
    z_stream inflater, deflater;
    struct cc_buf text; /* the last block, inflated */
    struct cc_spdy_header headers[CC_SPDY_HEADERS_MAX];
    size_t header_count;
};
void cc_spdy_blocks_init(struct cc_spdy_blocks *blocks);
void cc_spdy_blocks_done(struct cc_spdy_blocks *blocks);
/* Fills headers from one compressed block. */
CC_MUST_USE int cc_spdy_block_read(struct cc_spdy_blocks *blocks, const uint8_t *bytes, size_t count,
                                   struct cc_err *err);
/* Appends one compressed block. */
void cc_spdy_block_write(struct cc_spdy_blocks *blocks, const struct cc_spdy_header *headers, size_t count,
                         struct cc_buf *into);

#endif
