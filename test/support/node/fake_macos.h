/* The macOS guests of a simulated host in memory: the port of runtime/macos.h. Outlives the daemon under test. A guest
 * that is up has the pid that its record names; MACs are 02:4d:00:00:00:<n>, pids 4001 and on. Loop thread only. */
#ifndef CC_TEST_NODE_FAKE_MACOS_H
#define CC_TEST_NODE_FAKE_MACOS_H

#include "runtime/macos.h"
#include "support/node/fake_host.h"

struct fake_macos;
struct fake_macos *fake_macos_new(void);
/* Guests that are up have leases of this host's network (10.45.<number>.<n>) and answer there. */
void fake_macos_attach(struct fake_macos *macos, struct fake_host *host, unsigned number);
void fake_macos_free(struct fake_macos *macos); /* NULL is fine */
struct vk_macos fake_macos_port(struct fake_macos *macos, bool has_vnc);

void fake_macos_add_image(struct fake_macos *macos, const char *image);
/* Pulls succeed and bring nothing. */
void fake_macos_set_empty_pulls(struct fake_macos *macos, bool on);
void fake_macos_add_guest(struct fake_macos *macos, const char *name, bool is_up, int vnc_display);
bool fake_macos_has_guest(const struct fake_macos *macos, const char *name);
size_t fake_macos_guest_count(const struct fake_macos *macos);
bool fake_macos_is_up(const struct fake_macos *macos, const char *name);
/* Its process ends; the record stays. */
void fake_macos_kill_guest(struct fake_macos *macos, const char *name);
const char *fake_macos_mac(const struct fake_macos *macos, const char *name); /* "" when absent */
/* False: records name no MAC until it is true again. */
void fake_macos_set_macs(struct fake_macos *macos, bool known);
size_t fake_macos_launches(const struct fake_macos *macos); /* processes ever started */

/* One line a call: "vm inspect N", "image inspect I", "image pull I",
 * "vm run N cpus=4 memory=8192 [vnc=0] [storage=B] image=I", "vm start N [vnc=0]", "vm rm N". */
const char *fake_macos_log(const struct fake_macos *macos);
void fake_macos_log_clear(struct fake_macos *macos);
/* The next call of that verb ("vm run") fails so: before its effect, or after it. code 0 = CC_IO. */
void fake_macos_fail_next(struct fake_macos *macos, const char *verb, int code, const char *message, bool after);
/* As fake_host_on_call: FAIL, FAIL_AFTER, each after delay_ms; anything else is OK. */
void fake_macos_on_call(struct fake_macos *macos,
                        struct fake_fault (*decide)(void *ctx, const char *verb, const char *line), void *ctx);

#endif
