/* cocoon's JSON: strict where a value is used, blind to what is not. contract/06 chapter 3 and 4. Pure.
 *
 * PROTOCOL says what is wrong; the caller adds program and verb. Bounds: VK_RECORD_BYTES_MAX for one record,
 * VK_LIST_BYTES_MAX for a list, VK_VMS_MAX and VK_SNAPSHOTS_MAX elements, VK_NICS_MAX NICs a VM, VK_ID_BYTES_MAX for an
 * id. */
#ifndef VK_RUNTIME_CLI_RECORDS_H
#define VK_RUNTIME_CLI_RECORDS_H

#include <jansson.h>

#include "base/attributes.h"
#include "base/error.h"
#include "runtime/runtime.h"

#define VK_RECORD_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define VK_LIST_BYTES_MAX ((size_t)64 * 1024 * 1024)
#define VK_EVENT_LINE_BYTES_MAX ((size_t)1048576)
#define VK_SNAPSHOTS_MAX 16384
#define VK_ID_BYTES_MAX 128

/* *ret: caller unrefs. A record without an id is refused. */
CC_MUST_USE int vk_vm_parse(const char *bytes, size_t count, const struct vk_vm **ret, struct cc_err *err);
/* Elements without an id are skipped; *ret is empty for cocoon's sentence and for no output. */
CC_MUST_USE int vk_vm_list_parse(const char *bytes, size_t count, struct vk_vm_list *ret, struct cc_err *err);
CC_MUST_USE int vk_snapshot_parse(const char *bytes, size_t count, struct vk_snapshot_record **ret, struct cc_err *err);
CC_MUST_USE int vk_snapshot_list_parse(const char *bytes, size_t count, struct vk_snapshot_list *ret,
                                       struct cc_err *err);
CC_MUST_USE int vk_reclaim_parse(const char *bytes, size_t count, enum vk_reclaim_outcome *ret, struct cc_err *err);
/* One line of the event stream. A DELETED event may carry a record without an id, but not without id and name: INVALID,
 * as are unknown event words (the stream goes on). */
CC_MUST_USE int vk_event_parse(const char *bytes, size_t count, enum vk_event_type *ret_type, const struct vk_vm **ret,
                               struct cc_err *err);

#endif
