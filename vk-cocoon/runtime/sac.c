#include "runtime/sac.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/text.h"

#define PROMPT "SAC>"
#define CONNECT_MS 5000
#define RETRY_MS 2000
#define OPEN_MS 60000
#define REPLY_MS 5000
#define DISCARD_MS 200
#define CHUNK_BYTES 4096

/* --- pure --------------------------------------------------------------------------------------------------------- */

static bool has_number(const struct vk_sac_nets *nets, unsigned number) {
    for (size_t i = 0; i < nets->number_count; i++) {
        if (nets->numbers[i] == number)
            return true;
    }
    return false;
}

static const char *skip_blanks(const char *text) {
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* At a "Net:": one line, or false. *ret_end: where to look on. */
static bool parse_line(const char *at, struct vk_sac_net *ret, const char **ret_end) {
    const char *digits = skip_blanks(at + strlen("Net:"));
    size_t digit_count = strspn(digits, "0123456789");
    const char *rest = digits + digit_count;
    unsigned number = 0;

    *ret_end = at + 1;
    if (digits == at + strlen("Net:") || digit_count == 0 || digit_count > 6 || *rest != ',')
        return false;
    for (size_t i = 0; i < digit_count; i++)
        number = number * 10 + (unsigned)(digits[i] - '0');
    const char *key = skip_blanks(rest + 1);

    if (key == rest + 1 || strncmp(key, "Ip=", 3) != 0)
        return false;
    const char *ip = key + 3;
    size_t bytes = strcspn(ip, " \t\r\n\v\f");

    if (bytes == 0 || bytes >= VK_SAC_IP_BYTES)
        return false;
    ret->number = number;
    memcpy(ret->ip, ip, bytes);
    ret->ip[bytes] = '\0';
    *ret_end = ip + bytes;
    return true;
}

void vk_sac_nets_parse(const char *text, struct vk_sac_nets *ret) {
    *ret = (struct vk_sac_nets){0};
    for (const char *at = strstr(text, "Net:"); at && ret->line_count < VK_SAC_NETS_MAX;) {
        struct vk_sac_net *line = &ret->lines[ret->line_count];
        const char *end;

        if (parse_line(at, line, &end)) {
            ret->line_count++;
            if (!has_number(ret, line->number))
                ret->numbers[ret->number_count++] = line->number;
        }
        at = strstr(end, "Net:");
    }
}

bool vk_sac_nets_have(const struct vk_sac_nets *nets, unsigned number, const char *ip) {
    for (size_t i = 0; i < nets->line_count; i++) {
        if (nets->lines[i].number == number && cc_text_equal(nets->lines[i].ip, ip))
            return true;
    }
    return false;
}

void vk_sac_mask(int prefix, char ret[VK_SAC_MASK_BYTES]) {
    uint32_t mask;

    if (prefix < 1 || prefix > 32)
        prefix = 24;
    mask = UINT32_MAX << (32 - prefix);
    snprintf(ret, VK_SAC_MASK_BYTES, "%u.%u.%u.%u", mask >> 24, (mask >> 16) & 255, (mask >> 8) & 255, mask & 255);
}

/* --- the conversation --------------------------------------------------------------------------------------------- */

struct vk_sac {
    struct vk_console console;
    struct vk_console_stream *stream;
    char *chunk; /* CHUNK_BYTES */
};

static int read_chunk(struct vk_sac *sac, size_t *ret_count, struct cc_err *err) {
    int rc = sac->console.ops->read(sac->console.ctx, sac->stream, sac->chunk, CHUNK_BYTES, ret_count, err);

    if (rc == 0 && *ret_count == 0)
        return cc_err_set(err, CC_UNAVAILABLE, "the console was closed");
    for (size_t i = 0; rc == 0 && i < *ret_count; i++) {
        if (sac->chunk[i] == '\0') /* noise of the line, which would hide what follows */
            sac->chunk[i] = ' ';
    }
    return rc;
}

static int write_text(struct vk_sac *sac, const char *text, struct cc_err *err) {
    return sac->console.ops->write(sac->console.ctx, sac->stream, text, strlen(text), err);
}

/* Until the prompt, into reply. A reply that is longer than the buffer is no reply. */
static int read_reply(struct vk_sac *sac, struct cc_buf *reply, struct cc_err *err) {
    CC_DEADLINE_MS(REPLY_MS);
    cc_buf_clear(reply);
    for (;;) {
        size_t count = 0;
        int rc = read_chunk(sac, &count, err);

        if (rc == 0)
            rc = cc_buf_append(reply, sac->chunk, count) == 0
                     ? 0
                     : cc_err_set(err, CC_LIMIT, "console reply is longer than %zu bytes", reply->limit);
        if (rc != 0)
            return rc;
        if (strstr(reply->data, PROMPT))
            return 0;
    }
}

/* What an earlier command or the guest's own messages left. */
static int discard(struct vk_sac *sac, struct cc_err *err) {
    CC_DEADLINE_MS(DISCARD_MS);
    for (;;) {
        size_t count = 0;
        int rc = read_chunk(sac, &count, err);

        if (rc != 0)
            return rc == CC_TIMEOUT ? 0 : rc;
    }
}

int vk_sac_command(struct vk_sac *sac, const char *words, struct cc_buf *reply, struct cc_err *err) {
    char *line cc_cleanup(cc_free_p) = cc_xasprintf("%s\r\n", words);
    int rc = discard(sac, err);

    if (rc == 0)
        rc = write_text(sac, line, err);
    if (rc == 0)
        rc = read_reply(sac, reply, err);
    return rc == 0 ? 0 : (cc_err_wrap(err, "serial console command \"%s\"", words), rc);
}

static int dial(struct vk_sac *sac, const char *path, struct cc_err *err) {
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), OPEN_MS);

    for (;;) {
        int rc;
        {
            CC_DEADLINE_MS(CONNECT_MS);
            rc = sac->console.ops->dial(sac->console.ctx, path, &sac->stream, err);
        }
        if (rc == 0 || rc == CC_CANCELED || cc_mono_diff_ms(end, cc_now_mono()) <= RETRY_MS)
            return rc;
        if (cc_sleep_ms(RETRY_MS, err) != 0)
            return err ? (int)err->code : CC_CANCELED;
    }
}

static int wait_for_prompt(struct vk_sac *sac, struct cc_err *err) {
    struct cc_mono end = cc_mono_add_ms(cc_now_mono(), OPEN_MS);
    struct cc_buf seen cc_cleanup(cc_buf_done);
    int rc;

    cc_buf_init(&seen, VK_SAC_REPLY_BYTES_MAX);
    do {
        rc = write_text(sac, "\r\n", err);
        if (rc == 0)
            rc = read_reply(sac, &seen, err);
    } while (rc == CC_TIMEOUT && cc_mono_is_before(cc_now_mono(), end));
    return rc == CC_TIMEOUT ? cc_err_set(err, CC_TIMEOUT, "no %s prompt within %d s", PROMPT, OPEN_MS / 1000) : rc;
}

int vk_sac_open(const struct vk_console *console, const char *path, struct vk_sac **ret, struct cc_err *err) {
    struct vk_sac *sac = CC_NEW(struct vk_sac);
    int rc;

    sac->console = *console;
    sac->chunk = cc_xmalloc(CHUNK_BYTES);
    rc = dial(sac, path, err);
    if (rc == 0)
        rc = wait_for_prompt(sac, err);
    if (rc != 0) {
        cc_err_wrap(err, "serial console %s", path);
        vk_sac_close(sac);
        return rc;
    }
    *ret = sac;
    return 0;
}

void vk_sac_close(struct vk_sac *sac) {
    if (!sac)
        return;
    sac->console.ops->close(sac->console.ctx, sac->stream);
    free(sac->chunk);
    free(sac);
}
