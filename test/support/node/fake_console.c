#include "support/node/fake_console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"

#define PROMPT "SAC>"

void fake_console_init(struct fake_console *console) {
    *console = (struct fake_console){0};
    cc_buf_init(&console->log, (size_t)1 << 20);
    cc_buf_init(&console->pending, (size_t)1 << 20);
}

void fake_console_done(struct fake_console *console) {
    cc_buf_done(&console->log);
    cc_buf_done(&console->pending);
}

static int dial(void *ctx, const char *path, struct vk_console_stream **ret, struct cc_err *err) {
    struct fake_console *console = ctx;
    int rc = cc_yield(err);

    console->dials++;
    cc_buf_printf(&console->log, "dial %s\n", path);
    if (rc == 0 && console->refuses_dials)
        rc = cc_err_set(err, CC_UNAVAILABLE, "connect: No such file or directory");
    if (rc == 0)
        *ret = (struct vk_console_stream *)(void *)console;
    return rc;
}

static int read_some(void *ctx, struct vk_console_stream *stream, void *bytes, size_t capacity, size_t *ret_count,
                     struct cc_err *err) {
    struct fake_console *console = ctx;

    (void)stream;
    while (console->taken == console->pending.len) {
        if (console->is_broken) {
            *ret_count = 0;
            return 0;
        }
        cc_event_clear(&console->arrived);
        int rc = cc_event_wait(&console->arrived, err);

        if (rc != 0)
            return rc;
    }
    size_t left = console->pending.len - console->taken;

    /* In small pieces: a prompt may come in two. */
    *ret_count = left < capacity ? left : capacity;
    *ret_count = *ret_count > 7 ? 7 : *ret_count;
    memcpy(bytes, console->pending.data + console->taken, *ret_count);
    console->taken += *ret_count;
    return 0;
}

static void list(struct fake_console *console) {
    if (console->hidden_lists > 0) {
        console->hidden_lists--;
        return;
    }
    for (unsigned i = 0; i < console->net_count; i++) {
        const char *ip = console->ips[i][0] ? console->ips[i] : "169.254.0.1";

        cc_buf_printf(&console->pending, "Net: %u, Ip=%s  Subnet=255.255.0.0  Gateway=0.0.0.0\r\n",
                      console->first_number + i, ip);
        cc_buf_printf(&console->pending, "Net: %u, Ip=fe80::%u  Subnet=ffff::  Gateway=::\r\n",
                      console->first_number + i, i);
    }
}

static void set(struct fake_console *console, const char *words) {
    unsigned long number = strtoul(words, NULL, 10);
    const char *ip = strchr(words, ' ');

    if (console->ignored_sets > 0)
        console->ignored_sets--;
    else if (ip && number >= console->first_number && number < console->first_number + console->net_count)
        snprintf(console->ips[number - console->first_number], sizeof console->ips[0], "%.*s",
                 (int)strcspn(ip + 1, " "), ip + 1);
}

static int write_line(void *ctx, struct vk_console_stream *stream, const void *bytes, size_t count,
                      struct cc_err *err) {
    struct fake_console *console = ctx;
    char line[200];

    (void)stream;
    snprintf(line, sizeof line, "%.*s", (int)count, (const char *)bytes);
    line[strcspn(line, "\r\n")] = '\0';
    if (*line)
        cc_buf_printf(&console->log, "%s\n", line);
    if (console->breaks_on_set && strncmp(line, "i ", 2) == 0)
        return cc_err_set(err, CC_UNAVAILABLE, "broken pipe");
    if (!console->is_mute) {
        cc_buf_printf(&console->pending, "%s\r\n", line);
        if (strcmp(line, "i") == 0)
            list(console);
        else if (strncmp(line, "i ", 2) == 0)
            set(console, line + 2);
        cc_buf_puts(&console->pending, PROMPT);
        cc_event_set(&console->arrived);
    }
    return cc_yield(err);
}

static void close_stream(void *ctx, struct vk_console_stream *stream) {
    struct fake_console *console = ctx;

    if (stream)
        console->closes++;
}

struct vk_console fake_console_port(struct fake_console *console) {
    static const struct vk_console_ops ops = {dial, read_some, write_line, close_stream};

    return (struct vk_console){.ops = &ops, .ctx = console};
}
