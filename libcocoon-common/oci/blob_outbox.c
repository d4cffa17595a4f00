#include "oci/blob_outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct parcel {
    struct cc_outbox *outbox;
    struct cc_spool *spool;
    const char *label;
};

void cc_outbox_init(struct cc_outbox *outbox, const struct cc_registry *registry, const char *repository, bool force,
                    size_t at_once) {
    *outbox = (struct cc_outbox){.registry = registry, .repository = repository, .force = force};
    cc_group_init(&outbox->senders, at_once);
}

static CC_YIELDS void drop(struct cc_spool *spool) {
    cc_spool_close(spool);
    free(spool);
}

static CC_YIELDS int send_spool(const struct cc_outbox *outbox, struct cc_spool *spool, bool force,
                                struct cc_err *err) {
    const struct cc_reader body = {cc_spool_read, spool};
    cc_spool_rewind(spool);
    return outbox->registry->ops->put_blob(outbox->registry->ctx, outbox->repository, spool->digest, spool->size, &body,
                                           cc_spool_rewind, force, err);
}

static CC_YIELDS int deliver(void *arg, struct cc_err *err) {
    struct parcel *parcel = (struct parcel *)arg;
    struct cc_outbox *outbox = parcel->outbox;
    struct cc_spool *spool = parcel->spool;
    int rc = send_spool(outbox, spool, outbox->force, err);
    if (rc)
        cc_err_wrap(err, "file %s", parcel->label);
    bool was_sent = outbox->force || spool->read_total > 0;
    if (rc == 0 && !was_sent && outbox->kept_count < CC_OUTBOX_KEPT_MAX)
        outbox->kept[outbox->kept_count++] = spool;
    else
        drop(spool);
    free(parcel);
    cc_event_set(&outbox->sent);
    return rc;
}

int cc_outbox_send(struct cc_outbox *outbox, struct cc_spool *take_spool, const char *label, struct cc_err *err) {
    struct parcel *parcel = CC_NEW(struct parcel);
    *parcel = (struct parcel){outbox, take_spool, label};
    int rc = cc_group_go(&outbox->senders, "blob sender", deliver, parcel, err);
    if (rc) {
        drop(take_spool);
        free(parcel);
    }
    return rc;
}

int cc_outbox_wait(struct cc_outbox *outbox, struct cc_err *err) {
    return cc_group_wait(&outbox->senders, err);
}

static CC_YIELDS void drop_kept(struct cc_outbox *outbox) {
    while (outbox->kept_count > 0)
        drop(outbox->kept[--outbox->kept_count]);
}

bool cc_outbox_make_room(void *ctx) {
    struct cc_outbox *outbox = (struct cc_outbox *)ctx;
    /* What was kept only in case goes first. */
    if (outbox->kept_count == 0) {
        if (outbox->senders.running == 0)
            return false;
        cc_event_clear(&outbox->sent);
        if (cc_event_wait(&outbox->sent, NULL) != 0)
            return false;
    }
    drop_kept(outbox);
    return true;
}

int cc_outbox_send_missing(struct cc_outbox *outbox, const char *refusal, bool names_other, bool *ret_sent,
                           struct cc_err *err) {
    bool names_any = names_other;
    for (size_t i = 0; i < outbox->kept_count; i++)
        names_any = names_any || strstr(refusal, outbox->kept[i]->digest) != NULL;
    for (size_t i = 0; i < outbox->kept_count; i++) {
        if (names_any && !strstr(refusal, outbox->kept[i]->digest))
            continue;
        int rc = send_spool(outbox, outbox->kept[i], true, err);
        if (rc)
            return rc;
        *ret_sent = true;
    }
    return 0;
}

void cc_outbox_done(struct cc_outbox *outbox) {
    cc_group_cancel(&outbox->senders);
    cc_ignore(cc_group_wait(&outbox->senders, NULL), "the caller has the first error, or needs none");
    drop_kept(outbox);
}
