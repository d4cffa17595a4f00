/* Stories of guests that are cloned from an image of the registry. */
#include <stdio.h>

#include "base/alloc.h"
#include "scenarios.h"

void story_clone_family(struct sim_world *world, int replicas, bool has_toolbox) {
    sim_bases_put(world);
    sim_ledger_add_set(world, "a");
    sim_user_create_set(
        world, "a",
        &(struct sim_set_spec){.replicas = replicas, .has_toolbox = has_toolbox, .image = STORY_BASE_IMAGE});
    story_settle(world);
}

/* It wakes as what it was, on whatever node, and begins anew when its image is another. */
void story_clone(struct sim_world *world) {
    story_clone_family(world, 1, true);
    uint64_t memory = story_memory(world, "a-0");
    story_suspend(world, true);
    story_settle(world);
    story_suspend(world, false);
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    memory = story_memory(world, "a-0");
    story_pin_away_from(world, story_node_of(world, "a-0"));
    story_settle(world);
    story_expect_memory(world, "a-0", memory);
    char *boxes cc_cleanup(cc_free_p) = sim_toolboxes_text(true, false, sim_other_image(STORY_BASE_IMAGE));
    char *patch cc_cleanup(cc_free_p) =
        cc_xasprintf("{'spec':{'agent':{'image':'%s'},'toolboxes':%s}}", sim_other_image(STORY_BASE_IMAGE), boxes);
    sim_ledger_permit_set(world, "a", "its image was edited");
    sim_user_patch_set(world, "a", patch);
    story_settle(world);
    story_delete_set(world);
}
