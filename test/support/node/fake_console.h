/* A Windows guest's serial console in memory: the port of runtime/console.h, with the list and set commands of the SAC.
 * Reads wait for the scope's deadline when there is nothing to read. */
#ifndef CC_TEST_NODE_FAKE_CONSOLE_H
#define CC_TEST_NODE_FAKE_CONSOLE_H

#include "aio/sync.h"
#include "base/buf.h"
#include "runtime/console.h"

#define FAKE_CONSOLE_NETS_MAX 8

struct fake_console {
    /* set by the test */
    unsigned net_count, first_number; /* networks first_number.. */
    unsigned hidden_lists;            /* so many lists show no network yet */
    unsigned ignored_sets;            /* so many set commands take no effect */
    bool refuses_dials, is_mute, breaks_on_set;
    /* seen */
    char ips[FAKE_CONSOLE_NETS_MAX][64];
    struct cc_buf log; /* "dial <path>\n", then each line that was sent */
    unsigned dials, closes;
    /* within */
    struct cc_buf pending;
    size_t taken;
    struct cc_event arrived;
    bool is_broken;
};
void fake_console_init(struct fake_console *console);
void fake_console_done(struct fake_console *console);
struct vk_console fake_console_port(struct fake_console *console);

#endif
