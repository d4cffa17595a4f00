/* Called as `cocoon-macos` (a link of that name) it plays that CLI too: macos.c.
 *
 * cocoon-sim plays the `cocoon` CLI of a VM host (contract/06) for tests and the demo: state on disk, each VM a process
 * in its own network namespace whose memory is a counter that only grows (or, on demand, a real Linux under QEMU that
 * counts), real export archives, and faults on demand.
 *
 * It is a short-lived program: what cannot go on ends with die(). Environment:
 *   COCOON_ROOT_DIR       state (default /var/lib/cocoon); COCOON_RUN_DIR (default <root>/run)
 *   COCOON_SIM_BRIDGE     bridge for the guests (default cocoon0); made when missing
 *   COCOON_SIM_SUBNET     first three octets of the guests' addresses (default 10.88.0)
 *   COCOON_SIM_LEASES     lease file (default <root>/net/leases.json)
 *   COCOON_SIM_MEMORY_MIB guest memory (default 4)
 *   COCOON_SIM_GUEST      "qemu": Linux guests are real machines under emulation (qemu.c); else they are processes
 *   COCOON_SIM_QEMU_GUEST their kernel and initramfs: the folder that hack/qemu-guest prints
 *   COCOON_SIM_FAULTS     fault file (default <root>/sim/faults), see faults.c */
#ifndef COCOON_SIM_H
#define COCOON_SIM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/attributes.h"

/* Prints "Error: <text>" on stderr and ends with exit 1. */
CC_NORETURN void die(const char *format, ...) CC_PRINTF(1, 2);
const char *env_or(const char *name, const char *fallback);

/* --- paths and files: store.c ----------------------------------------------------------------------------------- */
const char *root_dir(void);
const char *run_dir(void);
/* Formats into static storage of the caller's size; dies when too long. */
#define PATH_BYTES 1024
void path_of(char path[PATH_BYTES], const char *format, ...) CC_PRINTF(2, 3);
void make_dirs(const char *path);
void remove_tree(const char *path);
/* The whole host is locked while metadata changes; not while a guest boots, a snapshot is copied or a stream runs. */
void store_lock(void);
void store_unlock(void);
/* 26 characters A-Z2-7; caller frees. */
char *new_id(void);
char *now_text(void);

/* kind: "vms", "snapshots", "images". All returned objects are new references. */
json_t *store_load(const char *kind, const char *id);              /* NULL when absent */
void store_save(const char *kind, const char *id, json_t *record); /* atomic */
void store_delete(const char *kind, const char *id);
json_t *store_list(const char *kind); /* array by created_at */
/* Exact id, else name, else a unique id prefix of 3 or more characters; NULL when there is none. Dies when ambiguous.
 */
json_t *store_resolve(const char *kind, const char *reference);

/* --- faults.c --------------------------------------------------------------------------------------------------- */
/* Counts the call of a verb ("vm.clone"), appends it to the call log, and applies what the fault file says for it. */
void fault_enter(const char *verb, int argc, char **argv);
/* The half-way point of a verb that changes something: `die` faults end the process here by SIGKILL. */
void fault_middle(void);
/* The end: `lie` faults fail here although all was done. */
void fault_leave(void);

/* --- guest.c, network.c ------------------------------------------------------------------------------------------ */
/* Starts the guest process of a VM and its network; returns its pid. vm gets its address lease. Dies on failure. */
pid_t guest_start(json_t *vm);
/* True when the recorded process is alive (pid and start time match). */
bool guest_is_alive(const json_t *vm);
void guest_kill(const json_t *vm);
void guest_pause(const json_t *vm, bool pause);
void guest_dir(char path[PATH_BYTES], const json_t *vm);
/* Word 0: the counter. Word 1: drawn at boot. */
uint64_t guest_memory_word(const json_t *vm, size_t index);
/* Entry of the guest process: `cocoon-sim guest <directory>`. */
int guest_main(const char *directory);
/* A Windows guest has a SAC on its console: `i` lists its networks, `i N IP MASK GATEWAY` sets one (contract/06 7).
 * They are lines "<number> <ip>" of the file sac.nets in its folder. */
void console_make_nets(const char *directory, size_t nics);
/* Fresh memory and disk for a VM that boots, counter at `counter`. */
void guest_make_files(const json_t *vm, uint64_t counter);

/* console.c: serves <directory>/console.sock on threads of its own, for as long as the process lives. */
void console_start(const char *directory, const volatile uint64_t *counter);

void network_attach(const json_t *vm, pid_t pid);
/* At once: a namespace whose last process died is torn down by the kernel some time later and answers until then. */
void network_detach(const json_t *vm);
/* The tap of a NIC, made by this call; it is there for as long as somebody holds the descriptor (close-on-exec). */
int network_tap_open(const json_t *nic);
/* Puts it on the bridge, made when missing; the host forgets who had the address before. */
void network_tap_join(const json_t *nic, const char *ip);
/* Caller frees. */
char *network_gateway(void);
/* Address of the MAC: an existing lease or a new one. Caller frees. */
char *lease_grant(const char *mac);
bool lease_release(const char *mac);
/* `cocoon-sim net-daemon SOCKET`: the control socket of cocoon-net (contract/06 9.2). */
int network_daemon_main(const char *socket_path);
/* NICs of a network whose name begins with "static" have a static address (a `network` object), the others DHCP. */
json_t *nics_new(int count, const char *vm_id, const char *network);

/* --- qemu.c: a guest that is a real machine ----------------------------------------------------------------------- */
bool qemu_is_wanted(const json_t *vm);
/* Whether the recorded guest is one. */
bool qemu_is(const json_t *vm);
/* Boots, or goes on from the file memory-ranges of the VM's folder, and returns its pid. Dies on failure. */
pid_t qemu_start(const json_t *vm);
/* Stops the guest and writes its memory to memory-ranges; dies, and the guest goes on, when that fails. */
void qemu_capture(const json_t *vm);
/* The guest runs again, and its written memory, a past one now, is removed. */
void qemu_go_on(const json_t *vm);
void qemu_forget_memory(const json_t *vm);
/* Runs one line in the guest, prints what it says and returns its exit status. */
int qemu_command(const json_t *vm, int count, char **words);

/* --- archive.c --------------------------------------------------------------------------------------------------- */
/* Writes snapshot.json (envelope) and the files of directory as a tar on out (contract/05 chapter 5). */
void archive_export(FILE *out, const json_t *config, const char *directory);
/* Reads a plain or gzip tar; files into directory; returns the envelope's config (new reference). Dies on bad input. */
json_t *archive_import(int in, const char *directory);
/* Copies every file of one directory into another, holes kept. */
void copy_files(const char *from, const char *to);

/* --- verbs -------------------------------------------------------------------------------------------------------- */
struct arguments {
    int count; /* words that are left */
    char **words;
};
/* Takes "--name value" or "--name=value" out of the arguments; NULL when absent. */
const char *take_option(struct arguments *arguments, const char *name);
bool take_flag(struct arguments *arguments, const char *name);
/* Exactly count words must be left, none of them an option. */
void expect_words(const struct arguments *arguments, int count, const char *usage);

int vm_main(const char *verb, struct arguments *arguments);
int snapshot_main(const char *verb, struct arguments *arguments);
int image_main(const char *verb, struct arguments *arguments);
/* The words after `cocoon-macos`: "vm run ...", contract/06 chapter 10. */
int macos_main(int argc, char **argv);
/* Presence and pull of the images of one CLI: "images", "macos-images". */
int image_inspect_in(const char *kind, struct arguments *arguments);
int image_pull_in(const char *kind, struct arguments *arguments);

/* Prints indented JSON and a line end. */
void print_json(const json_t *value);

#endif
