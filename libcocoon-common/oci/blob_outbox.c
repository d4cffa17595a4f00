#include "oci/blob_outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* When so much is still to be sent once the digest is known, it is worth asking whether the registry has the blob. */
#define ASK_BYTES_MIN INT64_C(8388608)

struct parcel {
    struct cc_outbox *outbox;
    struct cc_spool *spool;
    const char *label;
    int64_t size; /* of a spool that is followed; -1 = it is sealed */
    bool was_asked;
};

void cc_outbox_init(struct cc_outbox *outbox, const struct cc_registry *registry, const char *repository, bool force,
                    size_t at_once) {
    *outbox = (struct cc_outbox){.registry = registry, .repository = repository, .force = force};
    cc_group_init(&outbox->senders, at_once);
}

static CC_YIELDS int send_spool(const struct cc_outbox *outbox, struct cc_spool *spool, bool force,
                                struct cc_err *err) {
    const struct cc_reader body = {cc_spool_read, spool};
    cc_spool_rewind(spool);
    return outbox->registry->ops->put_blob(outbox->registry->ctx, outbox->repository, spool->digest, spool->size, &body,
                                           cc_spool_rewind, force, err);
}

/* --- sending while it is written ------------------------------------------------------------------------------------
 */

static CC_YIELDS int ask(struct parcel *parcel, struct cc_err *err) {
    const struct cc_outbox *outbox = parcel->outbox;
    bool present = false;
    parcel->was_asked = true;
    int rc = outbox->registry->ops->has_blob(outbox->registry->ctx, outbox->repository, parcel->spool->digest, &present,
                                             err);
    return rc ? rc : present ? cc_err_set(err, CC_EXISTS, "the registry has the blob") : 0;
}

static CC_YIELDS int follow(void *ctx, void *bytes, size_t capacity, size_t *ret_count, struct cc_err *err) {
    struct parcel *parcel = (struct parcel *)ctx;
    struct cc_spool *spool = parcel->spool;
    if (cc_spool_is_sealed(spool) && !parcel->was_asked && !parcel->outbox->force &&
        spool->size - spool->read >= ASK_BYTES_MIN) {
        int rc = ask(parcel, err);
        if (rc)
            return rc;
    }
    return cc_spool_follow(spool, bytes, capacity, ret_count, err);
}

static const char *digest_of(void *ctx) {
    return ((const struct parcel *)ctx)->spool->digest;
}

static CC_YIELDS int wait_for_seal(struct cc_spool *spool, struct cc_err *err) {
    while (!cc_spool_is_sealed(spool)) {
        cc_event_clear(&spool->grown);
        int rc = cc_event_wait(&spool->grown, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* EXISTS: the registry has it already. */
static CC_YIELDS int stream(struct parcel *parcel, struct cc_err *err) {
    struct cc_outbox *outbox = parcel->outbox;
    const struct cc_reader body = {follow, parcel};
    outbox->following++;
    int rc = outbox->registry->ops->stream_blob(outbox->registry->ctx, outbox->repository, parcel->size, &body,
                                                digest_of, err);
    /* What broke is sent again from the spool, whole, as soon as it is. */
    bool is_final = rc == 0 || rc == CC_EXISTS || rc == CC_CANCELED;
    if (!is_final) {
        rc = wait_for_seal(parcel->spool, err);
        outbox->following--;
        return rc ? rc : send_spool(outbox, parcel->spool, outbox->force, err);
    }
    outbox->following--;
    return rc;
}

/* --- the senders ----------------------------------------------------------------------------------------------------
 */

static CC_YIELDS int deliver(void *arg, struct cc_err *err) {
    struct parcel *parcel = (struct parcel *)arg;
    struct cc_outbox *outbox = parcel->outbox;
    struct cc_spool *spool = parcel->spool;
    int rc = parcel->size >= 0 ? stream(parcel, err) : send_spool(outbox, spool, outbox->force, err);
    bool was_sent = outbox->force || (rc == 0 && spool->read_total > 0);
    rc = rc == CC_EXISTS ? 0 : rc;
    if (rc)
        cc_err_wrap(err, "file %s", parcel->label);
    if (rc == 0 && !was_sent && outbox->kept_count < CC_OUTBOX_KEPT_MAX)
        outbox->kept[outbox->kept_count++] = spool;
    else
        cc_spool_let_go(spool);
    free(parcel);
    cc_event_set(&outbox->sent);
    return rc;
}

static CC_YIELDS int start(struct cc_outbox *outbox, const struct parcel *model, struct cc_err *err) {
    struct parcel *parcel = CC_NEW(struct parcel);
    *parcel = *model;
    int rc = cc_group_go(&outbox->senders, "blob sender", deliver, parcel, err);
    if (rc) {
        cc_spool_let_go(parcel->spool);
        free(parcel);
    }
    return rc;
}

int cc_outbox_send(struct cc_outbox *outbox, struct cc_spool *take_spool, const char *label, struct cc_err *err) {
    return start(outbox, &(struct parcel){.outbox = outbox, .spool = take_spool, .label = label, .size = -1}, err);
}

bool cc_outbox_can_stream(const struct cc_outbox *outbox) {
    return outbox->registry->ops->stream_blob != NULL;
}

int cc_outbox_stream(struct cc_outbox *outbox, struct cc_spool *spool, int64_t size, const char *label,
                     struct cc_err *err) {
    cc_spool_hold(spool);
    return start(outbox, &(struct parcel){.outbox = outbox, .spool = spool, .label = label, .size = size}, err);
}

int cc_outbox_wait(struct cc_outbox *outbox, struct cc_err *err) {
    return cc_group_wait(&outbox->senders, err);
}

static CC_YIELDS void drop_kept(struct cc_outbox *outbox) {
    while (outbox->kept_count > 0)
        cc_spool_let_go(outbox->kept[--outbox->kept_count]);
}

bool cc_outbox_make_room(void *ctx) {
    struct cc_outbox *outbox = (struct cc_outbox *)ctx;
    /* What was kept only in case goes first. */
    if (outbox->kept_count == 0) {
        /* One that waits for the very bytes that found no room would never end. */
        if (outbox->senders.running <= outbox->following)
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
