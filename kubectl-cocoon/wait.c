#include "wait.h"

#include <string.h>

#include "aio/fiber.h"
#include "base/text.h"

/* A terminal shows one line that changes; elsewhere each change is a line. */
static void tell(struct kc_app *app, const struct kc_progress *progress, char last[sizeof progress->text],
                 int64_t seconds) {
    if (app->is_terminal)
        fprintf(app->progress, "\r\033[K%s (%llds)", progress->text, (long long)seconds);
    else if (strcmp(last, progress->text) != 0)
        fprintf(app->progress, "%s\n", progress->text);
    fflush(app->progress);
    memcpy(last, progress->text, sizeof progress->text);
}

static bool is_final(int rc) {
    return rc == CC_NOT_FOUND || rc == CC_DENIED || rc == CC_INVALID || rc == CC_CANCELED;
}

CC_YIELDS static int look_until_done(struct kc_app *app, kc_probe_fn probe, void *ctx, struct cc_err *err) {
    struct kc_progress progress = {.text = ""};
    char last[sizeof progress.text] = "";
    struct cc_mono start = cc_now_mono();
    int lost = 0;

    for (;;) {
        struct cc_err failure = {0};
        int64_t waited_ms = cc_mono_diff_ms(cc_now_mono(), start);
        int rc = waited_ms > app->arguments.timeout_s * 1000 ? CC_TIMEOUT : probe(ctx, &progress, &failure);

        if (waited_ms > app->arguments.timeout_s * 1000)
            return cc_err_set(err, CC_TIMEOUT, "timed out waiting for the condition: %s",
                              cc_text_or(last, "nothing was seen"));
        lost = rc == 0 ? 0 : lost + 1;
        if (rc != 0 && (is_final(rc) || lost > KC_WAIT_LOST_MAX)) {
            *err = failure;
            return rc;
        }
        if (rc == 0)
            tell(app, &progress, last, waited_ms / 1000);
        if (rc == 0 && progress.is_done)
            return 0;
        rc = cc_sleep_ms(KC_WAIT_POLL_MS, err);
        if (rc != 0)
            return rc;
    }
}

int kc_wait(struct kc_app *app, kc_probe_fn probe, void *ctx, struct cc_err *err) {
    int rc = look_until_done(app, probe, ctx, err);

    if (app->is_terminal)
        fputc('\n', app->progress);
    return rc;
}
