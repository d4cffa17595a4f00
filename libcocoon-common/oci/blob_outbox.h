/* Sends sealed spools as blobs, a bounded number at once, while their owner makes the next ones. What the registry said
 * it had is kept for a while: should it say otherwise when it sees the manifest, it is sent after all (field case F26).
 */
#ifndef CC_OCI_BLOB_OUTBOX_H
#define CC_OCI_BLOB_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "aio/sync.h"
#include "base/attributes.h"
#include "base/error.h"
#include "oci/registry.h"
#include "oci/spool.h"

#define CC_OUTBOX_KEPT_MAX 64 /* descriptors */

/* Its address must not change between init and done. */
struct cc_outbox {
    const struct cc_registry *registry;
    const char *repository;
    bool force; /* send every blob without asking */
    struct cc_group senders;
    struct cc_event sent; /* set when a spool was let go */
    size_t following;     /* senders of spools that are still written */
    struct cc_spool *kept[CC_OUTBOX_KEPT_MAX];
    size_t kept_count;
};
/* at_once: at least 1. Texts and registry are borrowed until done. */
void cc_outbox_init(struct cc_outbox *outbox, const struct cc_registry *registry, const char *repository, bool force,
                    size_t at_once);
/* Takes the heap spool, also on failure; waits while as many as may be are under way. label: for messages, borrowed
 * until done. Gives the first error of any blob. */
CC_YIELDS CC_MUST_USE int cc_outbox_send(struct cc_outbox *outbox, struct cc_spool *take_spool, const char *label,
                                         struct cc_err *err);
/* Whether the registry can take a blob while it is still spooled. */
bool cc_outbox_can_stream(const struct cc_outbox *outbox);
/* The same for a spool that the caller still writes, up to `size` bytes, and then seals: it is sent meanwhile. Should
 * that fail, or the registry turn out to have the blob, the sealed spool is dealt with as in cc_outbox_send. The outbox
 * is a second holder of the spool. */
CC_YIELDS CC_MUST_USE int cc_outbox_stream(struct cc_outbox *outbox, struct cc_spool *spool, int64_t size,
                                           const char *label, struct cc_err *err);
/* Until all are sent; the first error. Once, and nothing is sent after it. */
CC_YIELDS CC_MUST_USE int cc_outbox_wait(struct cc_outbox *outbox, struct cc_err *err);
/* Suits a spool's make_room. ctx: the outbox. Lets go of something, after a wait if need be; false = there is nothing.
 */
CC_YIELDS bool cc_outbox_make_room(void *ctx);
/* Sends, unasked, what is kept and `refusal` names; all of it when names_other is false and it names none. *ret_sent
 * (an input too): something was sent. */
CC_YIELDS CC_MUST_USE int cc_outbox_send_missing(struct cc_outbox *outbox, const char *refusal, bool names_other,
                                                 bool *ret_sent, struct cc_err *err);
/* Cancels what is under way. */
CC_YIELDS void cc_outbox_done(struct cc_outbox *outbox);

#endif
