/* zstd frames as contract/05 chapter 7 wants them: one frame a piece, its exact size in the frame header, no
 * dictionary. The work runs on the worker pool; memory does not depend on the size of a piece. */
#ifndef CC_OCI_ZSTD_STREAM_H
#define CC_OCI_ZSTD_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "aio/io.h"
#include "base/attributes.h"
#include "base/error.h"

/* Largest window that a frame may ask of a reader (contract/05 9): what a decoder may come to hold. Frames of our own
 * need 4 MiB at most. */
#define CC_ZSTD_WINDOW_LOG_MAX 29

struct cc_zstd_encoder;
/* level: as users give it; four settings exist (contract/05 7). */
struct cc_zstd_encoder *cc_zstd_encoder_new(int level);
void cc_zstd_encoder_free(struct cc_zstd_encoder *encoder); /* NULL is fine */
CC_DEFINE_CLEANUP(struct cc_zstd_encoder, cc_zstd_encoder_free)
/* A new frame of exactly `bytes` bytes of source. */
CC_MUST_USE int cc_zstd_encoder_begin(struct cc_zstd_encoder *encoder, int64_t bytes, struct cc_err *err);
/* into: may use what it is given until it is called again, no longer. PROTOCOL: more bytes than announced. */
CC_YIELDS CC_MUST_USE int cc_zstd_encoder_write(struct cc_zstd_encoder *encoder, const void *bytes, size_t count,
                                                const struct cc_writer *into, struct cc_err *err);
/* Ends the frame. PROTOCOL: fewer bytes than announced. */
CC_YIELDS CC_MUST_USE int cc_zstd_encoder_end(struct cc_zstd_encoder *encoder, const struct cc_writer *into,
                                              struct cc_err *err);

struct cc_zstd_decoder;
struct cc_zstd_decoder *cc_zstd_decoder_new(void);
void cc_zstd_decoder_free(struct cc_zstd_decoder *decoder); /* NULL is fine */
CC_DEFINE_CLEANUP(struct cc_zstd_decoder, cc_zstd_decoder_free)
/* Any number of frames, in pieces of any size. What comes out goes to `into` in parts of at most 1 MiB: it bounds the
 * whole. PROTOCOL when malformed or of a larger window than CC_ZSTD_WINDOW_LOG_MAX. */
CC_YIELDS CC_MUST_USE int cc_zstd_decoder_write(struct cc_zstd_decoder *decoder, const void *bytes, size_t count,
                                                const struct cc_writer *into, struct cc_err *err);
/* PROTOCOL when the input ended inside a frame. */
CC_MUST_USE int cc_zstd_decoder_finish(const struct cc_zstd_decoder *decoder, struct cc_err *err);

#endif
