/* Shared by the files of the CLI adapter only. */
#ifndef VK_RUNTIME_CLI_INTERNAL_H
#define VK_RUNTIME_CLI_INTERNAL_H

#include "aio/process.h"
#include "runtime/cli_arguments.h"
#include "runtime/cocoon_cli.h"

/* What is kept of stderr or of combined output. The error is the last line, log lines come before it. */
#define VK_CLI_ERROR_BYTES_MAX ((size_t)1024 * 1024)

struct vk_cocoon_cli {
    char *binary, *restore_mode;
    const struct vk_host_namespaces_options *host_options; /* NULL = stay here */
    struct vk_host_namespaces *host;                       /* opened at the first call */
};

/* One finished call. Zero it before use; vk_cli_call_done. */
struct vk_cli_call {
    struct cc_arena arena;
    struct vk_arguments arguments; /* over arena: set by vk_cli_call_init */
    const char *verb;              /* literal: "vm inspect" */
    const char *subject;           /* VM, snapshot or image, "" when none; borrowed */
    struct cc_buf out;             /* stdout, or both streams when combined */
    struct cc_buf error;           /* stderr, unused when combined */
};
void vk_cli_call_init(struct vk_cli_call *call, const char *verb, const char *subject);
void vk_cli_call_done(struct vk_cli_call *call);

/* Style "json" of 06 chapter 1: stdout and stderr apart; an exit status other than 0 is CC_IO, the text to match
 * phrases in is vk_cli_call_text. out_limit bounds stdout: more than that is CC_LIMIT. */
CC_YIELDS CC_MUST_USE int vk_cli_run_json(struct vk_cocoon_cli *cli, struct vk_cli_call *call, size_t out_limit,
                                          struct cc_err *err);
/* The same for a question that cocoon answers from its records: a binary that hangs must not hold up whoever asks (the
 * start of the daemon, the events of all VMs). After VK_CLI_ASK_MS it is CC_IO: inconclusive (decision 50). */
#define VK_CLI_ASK_MS 60000
CC_YIELDS CC_MUST_USE int vk_cli_ask_json(struct vk_cocoon_cli *cli, struct vk_cli_call *call, size_t out_limit,
                                          struct cc_err *err);
/* Style "combined". */
CC_YIELDS CC_MUST_USE int vk_cli_run_combined(struct vk_cocoon_cli *cli, struct vk_cli_call *call, struct cc_err *err);
/* All that a failed call has printed on stderr (json) or at all (combined). */
const char *vk_cli_call_text(const struct vk_cli_call *call);
/* Wraps a parse error: names the program and the verb. */
void vk_cli_garbage(const struct vk_cocoon_cli *cli, const struct vk_cli_call *call, struct cc_err *err);
/* A child that could not be started. "Not found" would be read as the absence of a VM, so every cause becomes CC_IO,
 * except the caller's own TIMEOUT and CANCELED. */
int vk_cli_start_failed(const struct vk_cocoon_cli *cli, const char *verb, int rc, struct cc_err *err);
/* The options of a child: its arguments and where it runs (decision 77). Streams are the caller's to fill in. */
CC_MUST_USE int vk_cli_options(struct vk_cocoon_cli *cli, const struct vk_cli_call *call,
                               struct cc_process_options *ret, struct cc_err *err);
/* "exit status 1", "signal: SIGKILL". */
const char *vk_cli_exit_text(const struct cc_exit *exit, struct cc_arena *arena);

/* Trimmed; of a long text the end, where the error is. "" when there is none. */
const char *vk_cli_shown_text(const struct cc_buf *text, struct cc_arena *arena);

/* cocoon_cli.c */
CC_YIELDS int vk_cli_vm_inspect(void *ctx, const char *id_or_name, const struct vk_vm **ret, struct cc_err *err);

/* cli_snapshots.c */
CC_YIELDS int vk_cli_snapshot_save(void *ctx, const char *snapshot, const char *vm_id, struct cc_err *err);
CC_YIELDS int vk_cli_snapshot_inspect(void *ctx, const char *snapshot, struct vk_snapshot_record **ret,
                                      struct cc_err *err);
CC_YIELDS int vk_cli_snapshot_remove(void *ctx, const char *snapshot, struct cc_err *err);
CC_YIELDS int vk_cli_snapshot_list(void *ctx, struct vk_snapshot_list *ret, struct cc_err *err);
CC_YIELDS int vk_cli_image_present(void *ctx, const char *name_or_digest, bool *ret, struct cc_err *err);
CC_YIELDS int vk_cli_image_pull(void *ctx, const char *ref, bool force, struct cc_err *err);

/* cli_transfer.c */
CC_YIELDS int vk_cli_snapshot_export(void *ctx, const char *snapshot, struct vk_transfer **ret,
                                     struct cc_reader *ret_reader, struct cc_err *err);
CC_YIELDS int vk_cli_snapshot_import(void *ctx, const char *snapshot, struct vk_transfer **ret,
                                     struct cc_writer *ret_writer, struct cc_err *err);
CC_YIELDS int vk_cli_image_import(void *ctx, const char *name, struct vk_transfer **ret, struct cc_writer *ret_writer,
                                  struct cc_err *err);
CC_YIELDS int vk_cli_transfer_finish(void *ctx, struct vk_transfer *transfer, struct cc_err *err);
CC_YIELDS void vk_cli_transfer_free(void *ctx, struct vk_transfer *transfer);

/* cli_events.c */
CC_YIELDS int vk_cli_watch(void *ctx, CC_YIELDS void (*handler)(void *handler_ctx, const struct vk_event *event),
                           void (*started)(void *handler_ctx), void *handler_ctx, struct cc_err *err);

#endif
