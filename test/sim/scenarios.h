/* What the scripted scenarios share. Set "a" is theirs; its main is a-0, a sub-agent a-1, its toolbox a-tb. */
#ifndef SIM_SCENARIOS_H
#define SIM_SCENARIOS_H

#include "sim.h"

#define STORY_IMAGE "r/y:1"
#define STORY_BASE_IMAGE "r/base:1" /* to clone from */
#define STORY_SETTLE_MS 1500000

CC_YIELDS void story_settle(struct sim_world *world);
CC_YIELDS void story_create(struct sim_world *world, const struct sim_set_spec *spec); /* and settles */
void story_suspend(struct sim_world *world, bool on);
CC_YIELDS void story_delete_set(struct sim_world *world); /* the last step of every story: nothing may be left */
/* Until the set is in that phase, or limit_ms have passed: a fault may have skipped it. */
CC_YIELDS bool story_await_phase(struct sim_world *world, const char *phase, int64_t limit_ms);
/* "" when it is bound nowhere. The text lives as long as the pod does not change. */
const char *story_node_of(const struct sim_world *world, const char *pod);
/* Another node than that, and pins the set to it. Returns its name. */
const char *story_pin_away_from(struct sim_world *world, const char *node);
/* Fails the run unless the pod's VM still has what it had. */
void story_expect_memory(struct sim_world *world, const char *pod, uint64_t at_least);
uint64_t story_memory(const struct sim_world *world, const char *pod);

/* The manifest that the :hibernate tag of a VM names, NULL when there is none; the caller frees it. */
char *story_tagged_manifest(const struct sim_world *world, const char *vm_name);

/* scenarios_moves.c */
CC_YIELDS void story_release(struct sim_world *world);
CC_YIELDS void story_migrate(struct sim_world *world);
CC_YIELDS void story_migrate_asleep(struct sim_world *world);
CC_YIELDS void story_repin_back(struct sim_world *world);
CC_YIELDS void story_repin_on(struct sim_world *world);
CC_YIELDS void story_repin_full(struct sim_world *world);
CC_YIELDS void story_leftover(struct sim_world *world);
CC_YIELDS void story_hibernation(struct sim_world *world);
CC_YIELDS void story_hibernation_pinned(struct sim_world *world);
CC_YIELDS void story_deleted_suspended(struct sim_world *world);
CC_YIELDS void story_deleted_released(struct sim_world *world);

/* scenarios_hosts.c */
CC_YIELDS void story_exits(struct sim_world *world);
CC_YIELDS void story_exit_amid_sleep(struct sim_world *world);
CC_YIELDS void story_reboot(struct sim_world *world);
CC_YIELDS void story_orphans(struct sim_world *world);
CC_YIELDS void story_away(struct sim_world *world);
CC_YIELDS void story_replaced(struct sim_world *world);
CC_YIELDS void story_statics(struct sim_world *world);

/* scenarios_faults.c */
CC_YIELDS void story_taken_back(struct sim_world *world);
CC_YIELDS void story_remove_unknown(struct sim_world *world);
CC_YIELDS void story_remove_refused(struct sim_world *world);
CC_YIELDS void story_deleted_unseen(struct sim_world *world);
CC_YIELDS void story_remove_half_done(struct sim_world *world);
CC_YIELDS void story_pretended(struct sim_world *world);
CC_YIELDS void story_exit_unknown(struct sim_world *world);
CC_YIELDS void story_exit_missed(struct sim_world *world);
CC_YIELDS void story_windows(struct sim_world *world);
CC_YIELDS void story_exit_for_good(struct sim_world *world);
CC_YIELDS void story_exit_amid_push(struct sim_world *world);
CC_YIELDS void story_tag_forgotten(struct sim_world *world);
CC_YIELDS void story_wake_amid_move(struct sim_world *world);
CC_YIELDS void story_release_unseen(struct sim_world *world);
CC_YIELDS void story_registry_less_deleted(struct sim_world *world);

/* scenarios_clones.c */
CC_YIELDS void story_clone_family(struct sim_world *world, int replicas, bool has_toolbox); /* and settles */
CC_YIELDS void story_clone(struct sim_world *world);

/* scenarios_takeover.c: an older operator ran until the set was in that phase. */
CC_YIELDS void story_takeover_running(struct sim_world *world);
CC_YIELDS void story_takeover_suspending(struct sim_world *world);
CC_YIELDS void story_takeover_suspended(struct sim_world *world);
CC_YIELDS void story_takeover_flag_record(struct sim_world *world);
CC_YIELDS void story_takeover_released(struct sim_world *world);
CC_YIELDS void story_takeover_waking(struct sim_world *world);
CC_YIELDS void story_takeover_migrating(struct sim_world *world);
CC_YIELDS void story_takeover_failed(struct sim_world *world);
CC_YIELDS void story_takeover_names(struct sim_world *world);

#endif
