#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "support/node/fake_host_internal.h"

static struct fake_verb *verb_of(struct fake_host *host, const char *name) {
    for (size_t i = 0; i < host->verb_count; i++)
        if (strcmp(host->verbs[i].name, name) == 0)
            return &host->verbs[i];
    if (host->verb_count == FAKE_VERBS_MAX)
        abort();

    struct fake_verb *verb = &host->verbs[host->verb_count++];
    snprintf(verb->name, sizeof verb->name, "%s", name);
    return verb;
}

static void set_message(struct fake_call *call, const char *message) {
    snprintf(call->message, sizeof call->message, "%s", cc_text_or(message, "injected fault"));
}

/* Counts down every plan of the verb, so that plans for the 1st and the 3rd call can be made together. */
static void pick_fault(struct fake_host *host, struct fake_call *call, const char *verb, const char *line) {
    for (struct fake_planned **at = &host->planned; *at;) {
        struct fake_planned *planned = *at;

        if (strcmp(planned->verb, verb) != 0 || (!planned->always && --planned->nth > 0)) {
            at = &planned->next;
            continue;
        }
        if (call->fault.kind == FAKE_OK) {
            call->fault = planned->fault;
            set_message(call, planned->message);
        }
        if (planned->always) {
            at = &planned->next;
            continue;
        }
        *at = planned->next;
        free(planned);
    }
    if (call->fault.kind == FAKE_OK && host->decide) {
        call->fault = host->decide(host->decide_ctx, verb, line ? line : verb);
        set_message(call, call->fault.message);
    }
}

int fake_fault_error(const struct fake_call *call, struct cc_err *err) {
    return cc_err_set(err, call->fault.code ? (enum cc_code)call->fault.code : CC_IO, "%s", call->message);
}

/* Until the caller gives up, or for delay_ms. */
static int hang(struct fake_host *host, const struct fake_call *call, struct cc_err *err) {
    if (call->fault.delay_ms == 0)
        return cc_event_wait(&host->never, err);
    int rc = cc_sleep_ms(call->fault.delay_ms, err);
    return rc == 0 ? fake_fault_error(call, err) : rc;
}

static void note(struct fake_host *host, struct fake_call *call, const char *verb, const char *line) {
    *call = (struct fake_call){0};
    verb_of(host, verb)->calls++;
    if (line) {
        cc_buf_puts(&host->log, line);
        cc_buf_putc(&host->log, '\n');
    }
    pick_fault(host, call, verb, line);
}

static int wait_before(struct fake_host *host, struct fake_call *call, const char *verb, struct cc_err *err) {
    bool sleeps = call->fault.kind != FAKE_HANG && call->fault.kind != FAKE_HANG_AFTER;
    int64_t ms = verb_of(host, verb)->latency_ms + (sleeps ? call->fault.delay_ms : 0);
    int rc = ms > 0 ? cc_sleep_ms(ms, err) : cc_yield(err);

    if (rc == 0 && call->fault.kind == FAKE_HANG)
        rc = hang(host, call, err);
    return rc;
}

int fake_call_begin(struct fake_host *host, struct fake_call *call, const char *verb, const char *line,
                    struct cc_err *err) {
    note(host, call, verb, line);

    int rc = wait_before(host, call, verb, err);
    if (rc == 0 && (call->fault.kind == FAKE_FAIL || call->fault.kind == FAKE_CUT))
        rc = fake_fault_error(call, err);
    return rc;
}

int fake_call_begin_transfer(struct fake_host *host, struct fake_call *call, const char *verb, const char *line,
                             struct cc_err *err) {
    note(host, call, verb, line);
    return wait_before(host, call, verb, err);
}

int fake_call_end(struct fake_host *host, struct fake_call *call, struct cc_err *err) {
    if (call->fault.kind == FAKE_HANG_AFTER)
        return hang(host, call, err);
    return call->fault.kind == FAKE_FAIL_AFTER ? fake_fault_error(call, err) : 0;
}

int fake_call_now(struct fake_host *host, const char *verb, struct cc_err *err) {
    struct fake_call call;

    note(host, &call, verb, NULL);
    return call.fault.kind == FAKE_FAIL || call.fault.kind == FAKE_FAIL_AFTER ? fake_fault_error(&call, err) : 0;
}

static void plan(struct fake_host *host, const char *verb, unsigned nth, bool always, struct fake_fault fault) {
    struct fake_planned *planned = CC_NEW(struct fake_planned);
    struct fake_planned **last = &host->planned;

    snprintf(planned->verb, sizeof planned->verb, "%s", verb);
    snprintf(planned->message, sizeof planned->message, "%s", fault.message ? fault.message : "");
    planned->nth = nth > 0 ? nth : 1;
    planned->always = always;
    planned->fault = fault;
    planned->fault.message = NULL;
    while (*last)
        last = &(*last)->next;
    *last = planned;
}

void fake_host_fail_nth(struct fake_host *host, const char *verb, unsigned nth, struct fake_fault fault) {
    plan(host, verb, nth, false, fault);
}

void fake_host_fail_always(struct fake_host *host, const char *verb, struct fake_fault fault) {
    plan(host, verb, 1, true, fault);
}

void fake_host_clear_faults(struct fake_host *host) {
    while (host->planned) {
        struct fake_planned *planned = host->planned;

        host->planned = planned->next;
        free(planned);
    }
}

void fake_host_on_call(struct fake_host *host,
                       struct fake_fault (*decide)(void *ctx, const char *verb, const char *line), void *ctx) {
    host->decide = decide;
    host->decide_ctx = ctx;
}

void fake_host_set_latency(struct fake_host *host, const char *verb, int64_t ms) {
    verb_of(host, verb)->latency_ms = ms;
}

const char *fake_host_log(const struct fake_host *host) {
    return host->log.data;
}

void fake_host_log_clear(struct fake_host *host) {
    cc_buf_clear(&host->log);
    for (size_t i = 0; i < host->verb_count; i++)
        host->verbs[i].calls = 0;
}

size_t fake_host_calls(const struct fake_host *host, const char *prefix) {
    size_t count = 0;

    for (size_t i = 0; i < host->verb_count; i++)
        if (strcmp(host->verbs[i].name, prefix) == 0)
            return host->verbs[i].calls;
    for (const char *line = host->log.data; *line; line = strchr(line, '\n') + 1)
        count += strncmp(line, prefix, strlen(prefix)) == 0;
    return count;
}
