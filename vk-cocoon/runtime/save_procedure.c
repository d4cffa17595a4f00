#include "runtime/save_procedure.h"

#include "aio/fiber.h"
#include "obs/log.h"
#include "runtime/cli_phrases.h"

#define OUTPUT_BYTES_MAX ((size_t)1024 * 1024)

/* One save. *ret_holder: who holds the name when it is taken, else NULL. */
static int save_once(const struct vk_save_steps *steps, const char *snapshot, const char *vm_id, struct cc_arena *arena,
                     const char **ret_holder, struct cc_err *err) {
    struct cc_buf output cc_cleanup(cc_buf_done) = {0};

    *ret_holder = NULL;
    cc_buf_init(&output, OUTPUT_BYTES_MAX);
    int rc = steps->save(steps->ctx, snapshot, vm_id, &output, err);
    if (rc == CC_IO && vk_output_says(output.data, VK_PHRASE_SNAPSHOT_NAME_TAKEN))
        *ret_holder = vk_snapshot_holder(output.data, snapshot, arena);
    return rc;
}

static int remove_holder(const struct vk_save_steps *steps, const char *holder, struct cc_err *err) {
    struct cc_mono give_up = cc_mono_add_ms(cc_now_mono(), VK_SAVE_HELD_BUDGET_MS);
    struct cc_buf output cc_cleanup(cc_buf_done) = {0};

    cc_buf_init(&output, OUTPUT_BYTES_MAX);
    for (;;) {
        cc_buf_clear(&output);

        int rc = steps->remove(steps->ctx, holder, &output, err);
        /* Gone meanwhile is what we wanted. */
        if (rc == 0 || (rc == CC_IO && vk_output_says(output.data, VK_PHRASE_SNAPSHOT_ABSENT)))
            return 0;
        if (rc != CC_IO || !vk_output_says(output.data, VK_PHRASE_SNAPSHOT_LOCKED) ||
            !cc_mono_is_before(cc_now_mono(), give_up))
            return rc;
        rc = cc_sleep_ms(VK_SAVE_HELD_RETRY_MS, err);
        if (rc != 0)
            return rc;
    }
}

int vk_save_procedure(const struct vk_save_steps *steps, const char *snapshot, const char *vm_id, struct cc_err *err) {
    struct cc_arena arena cc_cleanup(cc_arena_done) = {0};
    const char *holder;
    bool running = false;
    struct cc_err own;
    int rc;

    if (!err)
        err = &own;
    rc = save_once(steps, snapshot, vm_id, &arena, &holder, err);
    if (rc == 0 || !holder)
        return rc;

    struct cc_err why = {0};
    int looked = steps->is_running(steps->ctx, vm_id, &running, &why);
    if (looked == CC_CANCELED || looked == CC_TIMEOUT) {
        *err = why;
        return looked;
    }
    if (looked != 0 || !running)
        return cc_err_wrap(err, "snapshot %s is kept, vm %s is not known to be running", snapshot, vm_id);
    cc_log_info("snapshot name is taken, removing its holder", CC_KV("snapshot", snapshot), CC_KV("holder", holder));
    rc = remove_holder(steps, holder, err);
    if (rc != 0)
        return cc_err_wrap(err, "remove the holder of snapshot name %s", snapshot);
    return save_once(steps, snapshot, vm_id, &arena, &holder, err);
}
