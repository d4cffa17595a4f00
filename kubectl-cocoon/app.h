/* `kubectl cocoon`: what its commands share. */
#ifndef KC_APP_H
#define KC_APP_H

#include <stdio.h>

#include "arguments.h"
#include "base/arena.h"
#include "kube/client.h"

#define KC_EXIT_FAILED 1
#define KC_EXIT_USAGE 2
#define KC_EXIT_TIMEOUT 3
#define KC_CALL_MS 30000 /* reading or changing, without --wait */

struct kc_app {
    struct cc_loop *loop;
    struct kc_arguments arguments;
    struct cc_kube kube;
    const char *namespace; /* of the flag or the context; "" = all */
    struct cc_arena arena;
    FILE *out, *progress; /* results; the progress of --wait */
    bool is_terminal;     /* of the progress */
};

/* The program. */
int kc_main(int argc, char **argv);

/* Runs the command of the arguments. Errors are not printed here; TIMEOUT only when --wait ran out of time. */
CC_YIELDS CC_MUST_USE int kc_run(struct kc_app *app, struct cc_err *err);
/* "Error from server (NotFound): cocoonsets... \"x\" not found", as kubectl says it. In the arena. */
const char *kc_error_text(const struct cc_err *err, struct cc_arena *arena);

/* The commands. */
CC_YIELDS CC_MUST_USE int kc_status(struct kc_app *app, struct cc_err *err);
CC_YIELDS CC_MUST_USE int kc_suspend(struct kc_app *app, bool suspend, struct cc_err *err);
CC_YIELDS CC_MUST_USE int kc_migrate(struct kc_app *app, struct cc_err *err);
CC_YIELDS CC_MUST_USE int kc_hibernate(struct kc_app *app, struct cc_err *err);
CC_YIELDS CC_MUST_USE int kc_snapshots(struct kc_app *app, struct cc_err *err);

/* Prints a JSON value, indented. */
void kc_print_json(struct kc_app *app, const json_t *value);

#endif
