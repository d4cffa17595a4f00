#include "oci/zstd_stream.h"

#include <stdbool.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/assert.h"

#define OUTPUT_BYTES ((size_t)1024 * 1024)
#define WINDOW_LOG_OF_OURS 22 /* bounds the memory of both sides whatever the level */

static int zstd_failure(struct cc_err *err, const char *what, size_t code) {
    return cc_err_set(err, CC_PROTOCOL, "zstd: %s: %s", what, ZSTD_getErrorName(code));
}

/* --- encoder --------------------------------------------------------------------------------------------------------
 */

struct cc_zstd_encoder {
    ZSTD_CCtx *context;
    char *outputs[2]; /* the sink may still use the one while the other is filled */
    unsigned turn;
};

/* Upstream knows four settings; the levels of libzstd that stand for them. */
static int level_of(int level) {
    return level <= 2 ? 1 : level <= 5 ? 3 : level <= 9 ? 7 : 11;
}

struct cc_zstd_encoder *cc_zstd_encoder_new(int level) {
    struct cc_zstd_encoder *encoder = CC_NEW(struct cc_zstd_encoder);
    encoder->context = ZSTD_createCCtx();
    cc_assert(encoder->context);
    cc_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(encoder->context, ZSTD_c_compressionLevel, level_of(level))));
    cc_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(encoder->context, ZSTD_c_contentSizeFlag, 1)));
    if (level_of(level) > 7)
        cc_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(encoder->context, ZSTD_c_windowLog, WINDOW_LOG_OF_OURS)));
    for (size_t i = 0; i < CC_ARRAY_LENGTH(encoder->outputs); i++)
        encoder->outputs[i] = (char *)cc_xmalloc(OUTPUT_BYTES);
    return encoder;
}

void cc_zstd_encoder_free(struct cc_zstd_encoder *encoder) {
    if (!encoder)
        return;
    ZSTD_freeCCtx(encoder->context);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(encoder->outputs); i++)
        free(encoder->outputs[i]);
    free(encoder);
}

int cc_zstd_encoder_begin(struct cc_zstd_encoder *encoder, int64_t bytes, struct cc_err *err) {
    cc_assert(bytes >= 0);
    ZSTD_CCtx_reset(encoder->context, ZSTD_reset_session_only);
    /* Without the size a frame declares the window of its level, which readers of small pieces refuse (contract/05 7).
     */
    size_t code = ZSTD_CCtx_setPledgedSrcSize(encoder->context, (unsigned long long)bytes);
    return ZSTD_isError(code) ? zstd_failure(err, "begin a frame", code) : 0;
}

struct encode_job {
    struct cc_zstd_encoder *encoder;
    ZSTD_inBuffer input;
    ZSTD_outBuffer output;
    ZSTD_EndDirective directive;
    bool is_done; /* the input is used up and, at the end, all of the frame is out */
};

static int encode(void *arg, struct cc_err *err) {
    struct encode_job *job = (struct encode_job *)arg;
    while (!job->is_done && job->output.pos < job->output.size) {
        size_t left = ZSTD_compressStream2(job->encoder->context, &job->output, &job->input, job->directive);
        if (ZSTD_isError(left))
            return zstd_failure(err, "compress", left);
        job->is_done = job->directive == ZSTD_e_end ? left == 0 : job->input.pos == job->input.size;
    }
    return 0;
}

static CC_YIELDS int encode_all(struct encode_job *job, const struct cc_writer *into, struct cc_err *err) {
    struct cc_zstd_encoder *encoder = job->encoder;
    while (!job->is_done) {
        char *output = encoder->outputs[encoder->turn++ % 2];
        job->output = (ZSTD_outBuffer){.dst = output, .size = OUTPUT_BYTES};
        int rc = cc_work(encode, job, err);
        if (rc == 0 && job->output.pos > 0)
            rc = into->write(into->ctx, output, job->output.pos, err);
        if (rc)
            return rc;
    }
    return 0;
}

int cc_zstd_encoder_write(struct cc_zstd_encoder *encoder, const void *bytes, size_t count,
                          const struct cc_writer *into, struct cc_err *err) {
    struct encode_job job = {.encoder = encoder,
                             .input = {.src = bytes, .size = count},
                             .directive = ZSTD_e_continue,
                             .is_done = count == 0};
    return encode_all(&job, into, err);
}

int cc_zstd_encoder_end(struct cc_zstd_encoder *encoder, const struct cc_writer *into, struct cc_err *err) {
    struct encode_job job = {.encoder = encoder, .directive = ZSTD_e_end};
    return encode_all(&job, into, err);
}

/* --- decoder --------------------------------------------------------------------------------------------------------
 */

struct cc_zstd_decoder {
    ZSTD_DCtx *context;
    char *output;
    bool in_frame;
};

struct cc_zstd_decoder *cc_zstd_decoder_new(void) {
    struct cc_zstd_decoder *decoder = CC_NEW(struct cc_zstd_decoder);
    decoder->context = ZSTD_createDCtx();
    cc_assert(decoder->context);
    cc_assert(!ZSTD_isError(ZSTD_DCtx_setParameter(decoder->context, ZSTD_d_windowLogMax, CC_ZSTD_WINDOW_LOG_MAX)));
    decoder->output = (char *)cc_xmalloc(OUTPUT_BYTES);
    return decoder;
}

void cc_zstd_decoder_free(struct cc_zstd_decoder *decoder) {
    if (!decoder)
        return;
    ZSTD_freeDCtx(decoder->context);
    free(decoder->output);
    free(decoder);
}

struct decode_job {
    struct cc_zstd_decoder *decoder;
    ZSTD_inBuffer input;
    ZSTD_outBuffer output;
};

static int decode(void *arg, struct cc_err *err) {
    struct decode_job *job = (struct decode_job *)arg;
    do {
        size_t hint = ZSTD_decompressStream(job->decoder->context, &job->output, &job->input);
        if (ZSTD_isError(hint))
            return zstd_failure(err, "decompress", hint);
        job->decoder->in_frame = hint != 0;
    } while (job->output.pos < job->output.size && job->input.pos < job->input.size);
    return 0;
}

int cc_zstd_decoder_write(struct cc_zstd_decoder *decoder, const void *bytes, size_t count,
                          const struct cc_writer *into, struct cc_err *err) {
    struct decode_job job = {.decoder = decoder, .input = {.src = bytes, .size = count}};
    bool is_full = false; /* then more may be waiting inside */
    while (job.input.pos < job.input.size || is_full) {
        job.output = (ZSTD_outBuffer){.dst = decoder->output, .size = OUTPUT_BYTES};
        int rc = cc_work(decode, &job, err);
        if (rc == 0 && job.output.pos > 0)
            rc = into->write(into->ctx, decoder->output, job.output.pos, err);
        if (rc)
            return rc;
        is_full = job.output.pos == job.output.size && decoder->in_frame;
    }
    return 0;
}

int cc_zstd_decoder_finish(const struct cc_zstd_decoder *decoder, struct cc_err *err) {
    return decoder->in_frame ? cc_err_set(err, CC_PROTOCOL, "zstd: the data ends inside a frame") : 0;
}
