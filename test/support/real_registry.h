/* The CNCF registry (Debian docker-registry 2.8) on a loopback port, for tests against the real thing. Deletes by
 * digest only. Real loop; not for simulated ones. */
#ifndef CC_TEST_REAL_REGISTRY_H
#define CC_TEST_REAL_REGISTRY_H

#include <stdbool.h>

#include "base/attributes.h"

struct real_registry;
/* False when the program is not installed: such a test has nothing to say then. */
bool real_registry_is_installed(void);
/* Starts it on an empty store below a new directory and waits until it answers. Aborts when it cannot. */
CC_YIELDS struct real_registry *real_registry_start(bool deletes_enabled);
/* Ends the process (by its id) and removes the store. NULL is fine. */
CC_YIELDS void real_registry_stop(struct real_registry *registry);
/* "127.0.0.1:<port>" */
const char *real_registry_host(const struct real_registry *registry);

#endif
