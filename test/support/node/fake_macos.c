#include "support/node/fake_macos.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aio/fiber.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"

#define GUESTS_MAX 128
#define IMAGES_MAX 16

struct guest {
    char name[128], mac[32], ip[32];
    int64_t pid;
    bool is_up;
    int vnc_display;
};

struct fake_macos {
    struct guest guests[GUESTS_MAX];
    size_t guest_count, launches;
    char images[IMAGES_MAX][256];
    size_t image_count;
    unsigned next_mac;
    bool empty_pulls, no_macs;
    struct fake_host *host; /* NULL = no network */
    unsigned number;
    struct cc_buf log;
    char fail_verb[32], fail_message[200];
    int fail_code;
    bool fail_after;
    struct fake_fault (*decide)(void *ctx, const char *verb, const char *line);
    void *decide_ctx;
};

struct fake_macos *fake_macos_new(void) {
    struct fake_macos *macos = CC_NEW(struct fake_macos);

    cc_buf_init(&macos->log, (size_t)1 << 20);
    return macos;
}

void fake_macos_free(struct fake_macos *macos) {
    if (!macos)
        return;
    cc_buf_done(&macos->log);
    free(macos);
}

/* --- the world ---------------------------------------------------------------------------------------------------- */

static struct guest *find(const struct fake_macos *macos, const char *name) {
    for (size_t i = 0; i < macos->guest_count; i++) {
        if (strcmp(macos->guests[i].name, name) == 0)
            return (struct guest *)&macos->guests[i];
    }
    return NULL;
}

static bool has_image(const struct fake_macos *macos, const char *image) {
    for (size_t i = 0; i < macos->image_count; i++) {
        if (strcmp(macos->images[i], image) == 0)
            return true;
    }
    return false;
}

static void bring_up(struct fake_macos *macos, struct guest *guest, int vnc_display) {
    guest->is_up = true;
    guest->pid = 4001 + (int64_t)macos->launches++;
    guest->vnc_display = vnc_display;
    if (!macos->host)
        return;
    snprintf(guest->ip, sizeof guest->ip, "10.45.%u.%u", macos->number, (unsigned)strtoul(guest->mac + 15, NULL, 16));
    fake_host_set_lease(macos->host, guest->mac, guest->ip);
}

static bool answers(void *ctx, const char *ip) {
    const struct fake_macos *macos = ctx;

    for (size_t i = 0; i < macos->guest_count; i++) {
        if (macos->guests[i].is_up && strcmp(macos->guests[i].ip, ip) == 0)
            return true;
    }
    return false;
}

void fake_macos_attach(struct fake_macos *macos, struct fake_host *host, unsigned number) {
    macos->host = host;
    macos->number = number;
    fake_host_on_answers(host, answers, macos);
}

static struct guest *add(struct fake_macos *macos, const char *name) {
    if (macos->guest_count == GUESTS_MAX)
        abort();
    struct guest *guest = &macos->guests[macos->guest_count++];

    *guest = (struct guest){.vnc_display = VK_MACOS_VNC_OFF};
    snprintf(guest->name, sizeof guest->name, "%s", name);
    snprintf(guest->mac, sizeof guest->mac, "02:4d:00:00:00:%02x", ++macos->next_mac & 0xff);
    return guest;
}

void fake_macos_add_guest(struct fake_macos *macos, const char *name, bool is_up, int vnc_display) {
    struct guest *guest = add(macos, name);

    bring_up(macos, guest, vnc_display);
    guest->is_up = is_up;
    macos->launches = is_up ? macos->launches : macos->launches - 1;
}

void fake_macos_add_image(struct fake_macos *macos, const char *image) {
    if (macos->image_count == IMAGES_MAX)
        abort();
    snprintf(macos->images[macos->image_count++], sizeof macos->images[0], "%s", image);
}

void fake_macos_set_empty_pulls(struct fake_macos *macos, bool on) {
    macos->empty_pulls = on;
}

bool fake_macos_has_guest(const struct fake_macos *macos, const char *name) {
    return find(macos, name) != NULL;
}

size_t fake_macos_guest_count(const struct fake_macos *macos) {
    return macos->guest_count;
}

bool fake_macos_is_up(const struct fake_macos *macos, const char *name) {
    const struct guest *guest = find(macos, name);

    return guest && guest->is_up;
}

void fake_macos_kill_guest(struct fake_macos *macos, const char *name) {
    find(macos, name)->is_up = false;
}

const char *fake_macos_mac(const struct fake_macos *macos, const char *name) {
    const struct guest *guest = find(macos, name);

    return guest ? guest->mac : "";
}

void fake_macos_set_macs(struct fake_macos *macos, bool known) {
    macos->no_macs = !known;
}

size_t fake_macos_launches(const struct fake_macos *macos) {
    return macos->launches;
}

const char *fake_macos_log(const struct fake_macos *macos) {
    return macos->log.data;
}

void fake_macos_log_clear(struct fake_macos *macos) {
    cc_buf_clear(&macos->log);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

void fake_macos_fail_next(struct fake_macos *macos, const char *verb, int code, const char *message, bool after) {
    snprintf(macos->fail_verb, sizeof macos->fail_verb, "%s", verb);
    snprintf(macos->fail_message, sizeof macos->fail_message, "%s", message);
    macos->fail_code = code ? code : CC_IO;
    macos->fail_after = after;
}

void fake_macos_on_call(struct fake_macos *macos,
                        struct fake_fault (*decide)(void *ctx, const char *verb, const char *line), void *ctx) {
    macos->decide = decide;
    macos->decide_ctx = ctx;
}

struct call {
    struct fake_fault fault;
    const char *message;
};

static int fault_error(const struct call *call, struct cc_err *err) {
    return cc_err_set(err, call->fault.code ? (enum cc_code)call->fault.code : CC_IO, "%s",
                      cc_text_or(call->message, "injected fault"));
}

static int begin(struct fake_macos *macos, struct call *call, const char *verb, const char *line, struct cc_err *err) {
    int rc;

    *call = (struct call){0};
    cc_buf_printf(&macos->log, "%s\n", line);
    if (strcmp(macos->fail_verb, verb) == 0) {
        macos->fail_verb[0] = '\0';
        call->fault =
            (struct fake_fault){.kind = macos->fail_after ? FAKE_FAIL_AFTER : FAKE_FAIL, .code = macos->fail_code};
        call->message = macos->fail_message;
    } else if (macos->decide) {
        call->fault = macos->decide(macos->decide_ctx, verb, line);
        call->message = call->fault.message;
    }
    rc = call->fault.delay_ms > 0 ? cc_sleep_ms(call->fault.delay_ms, err) : cc_yield(err);
    return rc == 0 && call->fault.kind == FAKE_FAIL ? fault_error(call, err) : rc;
}

static int end(const struct call *call, struct cc_err *err) {
    return call->fault.kind == FAKE_FAIL_AFTER ? fault_error(call, err) : 0;
}

/* --- the port ----------------------------------------------------------------------------------------------------- */

static int inspect(void *ctx, const char *name, struct cc_arena *arena, struct vk_macos_record *ret,
                   struct cc_err *err) {
    struct fake_macos *macos = ctx;
    const struct guest *guest;
    struct call call;
    char line[300];

    snprintf(line, sizeof line, "vm inspect %s", name);
    int rc = begin(macos, &call, "vm inspect", line, err);

    if (rc == 0)
        rc = end(&call, err);
    if (rc != 0)
        return rc;
    guest = find(macos, name);
    if (!guest)
        return cc_err_set(err, CC_NOT_FOUND, "read vm record: open vm.json: no such file or directory");
    *ret = (struct vk_macos_record){.name = cc_arena_strdup(arena, guest->name),
                                    .image = "m:1",
                                    .mac = macos->no_macs ? "" : cc_arena_strdup(arena, guest->mac),
                                    .tap = "tap0",
                                    .disk = "",
                                    .pid = guest->pid,
                                    .vnc_display = guest->vnc_display};
    return 0;
}

static bool is_alive(void *ctx, int64_t pid) {
    const struct fake_macos *macos = ctx;

    for (size_t i = 0; i < macos->guest_count; i++) {
        if (macos->guests[i].pid == pid)
            return macos->guests[i].is_up;
    }
    return false;
}

static int image_present(void *ctx, const char *image, bool *ret, struct cc_err *err) {
    struct fake_macos *macos = ctx;
    struct call call;
    char line[300];

    snprintf(line, sizeof line, "image inspect %s", image);
    int rc = begin(macos, &call, "image inspect", line, err);

    *ret = has_image(macos, image);
    return rc == 0 ? end(&call, err) : rc;
}

static int image_pull(void *ctx, const char *image, struct cc_err *err) {
    struct fake_macos *macos = ctx;
    struct call call;
    char line[300];

    snprintf(line, sizeof line, "image pull %s", image);
    int rc = begin(macos, &call, "image pull", line, err);

    if (rc == 0 && !macos->empty_pulls)
        fake_macos_add_image(macos, image);
    return rc == 0 ? end(&call, err) : rc;
}

static void put_vnc(struct cc_buf *line, int display) {
    if (display >= 0)
        cc_buf_printf(line, " vnc=%d", display);
}

static int run(void *ctx, const struct vk_macos_run_options *options, struct cc_err *err) {
    struct fake_macos *macos = ctx;
    struct cc_buf line cc_cleanup(cc_buf_done) = {0};
    struct call call;

    cc_buf_init(&line, 1024);
    cc_buf_printf(&line, "vm run %s cpus=%lld memory=%lld", options->name, (long long)options->cpus,
                  (long long)options->memory_mib);
    put_vnc(&line, options->vnc_display);
    if (*options->storage)
        cc_buf_printf(&line, " storage=%s", options->storage);
    cc_buf_printf(&line, " image=%s", options->image);
    int rc = begin(macos, &call, "vm run", line.data, err);

    if (rc == 0 && find(macos, options->name))
        rc = cc_err_set(err, CC_IO, "vm \"%s\" already exists; rm it first or pick another --name", options->name);
    if (rc == 0 && (options->cpus % 2 != 0 || !has_image(macos, options->image)))
        rc = cc_err_set(err, CC_IO, "odd cpus or no image");
    if (rc != 0)
        return rc;
    bring_up(macos, add(macos, options->name), options->vnc_display);
    return end(&call, err);
}

static int start(void *ctx, const char *name, int vnc_display, struct cc_err *err) {
    struct fake_macos *macos = ctx;
    struct cc_buf line cc_cleanup(cc_buf_done) = {0};
    struct guest *guest;
    struct call call;

    cc_buf_init(&line, 1024);
    cc_buf_printf(&line, "vm start %s", name);
    put_vnc(&line, vnc_display);
    int rc = begin(macos, &call, "vm start", line.data, err);

    guest = find(macos, name);
    if (rc == 0 && !guest)
        rc = cc_err_set(err, CC_IO, "read vm record: no such file or directory");
    if (rc != 0)
        return rc;
    if (!guest->is_up)
        bring_up(macos, guest, vnc_display);
    return end(&call, err);
}

static int remove_guest(void *ctx, const char *name, struct cc_err *err) {
    struct fake_macos *macos = ctx;
    struct guest *guest;
    struct call call;
    char line[300];

    snprintf(line, sizeof line, "vm rm %s", name);
    int rc = begin(macos, &call, "vm rm", line, err);

    guest = find(macos, name);
    if (rc == 0 && guest)
        *guest = macos->guests[--macos->guest_count];
    return rc == 0 ? end(&call, err) : rc;
}

struct vk_macos fake_macos_port(struct fake_macos *macos, bool has_vnc) {
    static const struct vk_macos_ops ops = {
        .inspect = inspect,
        .is_alive = is_alive,
        .image_present = image_present,
        .image_pull = image_pull,
        .run = run,
        .start = start,
        .remove = remove_guest,
    };

    return (struct vk_macos){.ops = &ops, .ctx = macos, .has_vnc = has_vnc};
}
