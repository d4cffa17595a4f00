"""The list of test/mutants/run: name, why it would matter, and edits (file, text, replacement); the text occurs once."""

OP = "cocoon-operator/cocoonset/"
VK = "vk-cocoon/provider/"

MUTANTS = [
    {
        "name": "tag-dropped-before-the-wake",
        "scenario": "sleep",
        "why": "the snapshot goes while its VM still sleeps",
        "edits": [
            (OP + "unsuspend.c", "if (!owned || !cc_pod_is_woken_at(owned->pod, record->generation))", "if (!owned)"),
            (OP + "pass.c", "if (rc == 0 && present && awake)", "if (rc == 0 && present)"),
            (OP + "pass.c", "*ret_gone = !present || awake;", "*ret_gone = true;"),
        ],
    },
    {
        "name": "reclaim-without-a-live-vm",
        "scenario": "sleep",
        "why": "'ready' alone is taken for a VM that lives",
        "edits": [
            ("libcocoon-common/meta/predicates.c",
             "return !cc_pod_is_hibernating(pod) && cc_pod_vm_is_live(pod) && cc_text_equal(lifecycle.state, CC_STATE_READY) &&",
             "return !cc_pod_is_hibernating(pod) &&"),
            (OP + "pass.c", "if (rc == 0 && present && awake)", "if (rc == 0 && present)"),
        ],
    },
    {
        "name": "vm-removed-before-the-push",
        "scenario": "sleep",
        "why": "between the two the guest is on one disk only",
        "edits": [(VK + "hibernate.c", "    rc = push(work, err);\n    if (rc != 0) {\n        roll_back_nic(work);",
                   "    rc = remove_and_report(work, true, err);\n    if (rc == 0)\n        rc = push(work, err);\n"
                   "    return rc;\n    if (rc != 0) {\n        roll_back_nic(work);")],
    },
    {
        "name": "read-back-skipped",
        "scenario": "pretended",
        "why": "a registry that accepts a tag and forgets it",
        "edits": [("vk-cocoon/snapshots/snapshots.c",
                   "    rc = cc_snapshot_read_back(&snapshots->registry, options->repository, options->tag, result.digest, err);\n"
                   "    if (rc == CC_NOT_FOUND || rc == CC_CONFLICT) {",
                   "    if (rc == CC_NOT_FOUND || rc == CC_CONFLICT) {")],
    },
    {
        "name": "annotations-before-the-record",
        "scenario": "sleep",
        "why": "an operator that dies in between no longer knows who sleeps",
        "edits": [(OP + "suspend.c",
                   "    record_suspended(pass);\n    int rc = op_pass_write_record(pass, err);\n",
                   "    int rc = 0;\n    for (size_t i = 0; rc == 0 && i < pass->pods.count; i++)\n"
                   "        rc = op_pass_hibernate_pod(pass, &pass->pods.items[i], true, err);\n"
                   "    record_suspended(pass);\n    if (rc == 0)\n        rc = op_pass_write_record(pass, err);\n")],
    },
    {
        "name": "names-not-stashed",
        "scenario": "deleted-asleep",
        "why": "the tags of slots that left are never found again",
        "edits": [
            (OP + "pass.c", "    if (!text)\n        return 0;\n    return op_pass_annotate_set(pass, CC_KEY_DELETE_VM_NAMES, text, err);",
             "    (void)err;\n    return text ? 0 : 0;"),
            (OP + "deletion.c", "    for (size_t i = 0; i < record->vms.count; i++)\n        add_name(&names, arena, record->vms.items[i]);\n",
             "    (void)record;\n"),
        ],
    },
    {
        "name": "suspended-list-cleared-first",
        "scenario": "deleted-asleep",
        "why": "a VM whose pod goes before it wakes is owed nothing",
        "edits": [(OP + "unsuspend.c", "    if (count == 0)\n        record->suspended = (struct cc_strlist){0};",
                   "    record->suspended = (struct cc_strlist){0};\n    record->restore = (struct cc_strlist){0};")],
    },
    {
        "name": "later-generation-asked",
        "scenario": "sleep",
        "why": "`>` for `>=`: what the node has answered is never enough",
        "edits": [("libcocoon-common/meta/predicates.c", "lifecycle.observed_generation >= generation;",
                   "lifecycle.observed_generation > generation;")],
    },
    {
        "name": "stale-tag-gate-off",
        "scenario": "twice",
        "why": "an old tag is taken for this suspend's",
        "edits": [(OP + "suspend.c",
                   "!cc_text_equal(lifecycle.state, CC_STATE_HIBERNATED) || lifecycle.observed_generation < generation)",
                   "generation < 0)")],
    },
    {
        "name": "compensation-without-inspect",
        "scenario": "sleep",
        "why": "a failed `vm rm` may have stopped the guest: its tag is all there is",
        "edits": [(VK + "hibernate.c", "    if (rc == 0 && vk_vm_is_running(now)) {", "    if (rc == 0 || !now) {")],
    },
    {
        "name": "fork-baseline-kept",
        "why": "new sub-agents get the memory of a dead main",
        "scenario": "vm-lost",
        "edits": [(VK + "bring_up.c", "    if (bring_up->path != VK_PATH_RESTORE)\n        rc = drop_fork_baseline(",
                   "    if (bring_up->path == VK_PATH_UNMANAGED)\n        rc = drop_fork_baseline("),
                  (VK + "wake_source.c", "cc_xasprintf(\"%s%s\", CC_FORK_PREFIX, vm_name)}};",
                   "cc_xasprintf(\"%s%s\", \"no-\" CC_FORK_PREFIX, vm_name)}};")],
    },
    {
        "name": "evidence-error-is-absence",
        "scenario": "away",
        "why": "a registry that cannot be asked boots a sleeping guest anew",
        "edits": [(VK + "evidence.c",
                   "        ret->kind = VK_EVIDENCE_UNAVAILABLE;\n"
                   "        cc_ignore(cc_err_wrap(&ret->error, \"hibernate tag of %s is unknown, refusing fresh boot\", vm_name),\n"
                   "                  \"the code is kept\");\n        return;",
                   "        ret->kind = VK_EVIDENCE_NONE;\n        return;"),
                  # A wake that was cut off is refused for its local snapshot as well (decision 49).
                  (VK + "create.c", "    if (!has_run(create) || cc_text_equal(state, CC_STATE_READY) ||",
                   "    if (create || cc_text_equal(state, CC_STATE_READY) ||")],
    },
    {
        "name": "image-rule-skipped-for-toolboxes",
        "why": "the node refuses the pod over a tag of another image for ever",
        "edits": [(OP + "create.c", ".managed = !cc_toolbox_is_static(toolbox),", ".managed = false,")],
        "scenario": "image",
    },
    {
        "name": "finalizer-removed-on-a-probe-error",
        "scenario": "deleted-set",
        "why": "the set goes, its tags stay",
        "edits": [(OP + "deletion.c", "    rc = drop_tags(pass, &names, err);\n    if (rc == 0)\n        rc = remove_finalizer(",
                   "    rc = drop_tags(pass, &names, err);\n    if (rc != CC_CANCELED)\n        rc = remove_finalizer(")],
    },
    {
        "name": "local-copy-trusted",
        "why": "a wake from what an earlier round left on this host",
        "scenario": "migrate",
        "edits": [(VK + "wake_source.c", "    if (!registry) {\n", "    if (!registry || local->id[0]) {\n")],
    },
    {
        "name": "pod-uid-unchecked",
        "scenario": "deleted-set",
        "why": "a late deletion hits the next incarnation",
        "edits": [(OP + "pass.c", "        .uid = meta->uid, .grace_s = -1, .resource_version = only_unchanged ? meta->resource_version : NULL};",
                   "        .uid = NULL, .grace_s = -1, .resource_version = NULL};\n    (void)only_unchanged;")],
    },
    {
        "name": "stale-failure-believed",
        "scenario": "exits",
        "why": "a VM that came up again is rebuilt",
        "edits": [(OP + "rebuild.c", "    if (rc == 0 && !is_bad)\n", "    if (rc == 0 && !is_bad && !matches)\n"),
                  (OP + "rebuild.c", "int rc = op_pass_delete_pod_unchanged(pass, owned->pod, err);",
                   "int rc = op_pass_delete_pod(pass, owned->pod, err);")],
    },
    {
        "name": "creating-record-adopted",
        "scenario": "sleep",
        "why": "a half-made VM is taken for the guest",
        "edits": [(VK + "startup.c", "        if (!cc_text_equal(startup->vms[i].vm->state, \"creating\"))\n            continue;",
                   "        if (startup->vm_count > 0)\n            continue;")],
    },
    {
        "name": "lease-released-before-the-remove",
        "scenario": "sleep",
        "why": "the address of a guest that still runs is given to another",
        "edits": [(VK + "delete.c", "    if (rc == 0)\n        rc = remove_vm(deletion, err);",
                   "    vk_leases_release(deletion->provider, deletion->vm);\n    if (rc == 0)\n        rc = remove_vm(deletion, err);")],
    },
    {
        "name": "unready-cache-is-empty",
        "scenario": "away",
        "why": "all that the cache does not show yet is torn down",
        "edits": [("vk-cocoon/pods/pod_controller.c", "    int rc = cc_cache_wait_synced(controller->cache, err);", "    int rc = 0;"),
                  ("vk-cocoon/pods/pod_controller.c",
                   "    int rc = cc_kube_get(controller->options.kube, &ref, &live, err);",
                   "    int rc = controller && ref.name ? CC_NOT_FOUND : 0;")],
    },
    {
        "name": "owed-remove-without-a-look",
        "scenario": "remove-unknown",
        "why": "a guest that ran on after its snapshot is removed",
        "edits": [(VK + "hibernate.c", "    *ret_is_awake = rc == 0 && vk_vm_is_running(now);\n    vk_vm_unref(now);\n"
                   "    if (rc != 0 && rc != CC_NOT_FOUND) {\n        cc_ignore(cc_err_wrap(err, \"remove vm %s\"",
                   "    *ret_is_awake = false;\n    vk_vm_unref(now);\n"
                   "    if (rc == CC_CANCELED) {\n        cc_ignore(cc_err_wrap(err, \"remove vm %s\"")],
    },
    {
        "name": "shell-started-at-startup",
        "scenario": "taken-back",
        "why": "a VM whose remove stopped half-way is booted anew",
        "edits": [(VK + "startup.c", "entry->unjudged = !wants_sleep && !vk_vm_is_running(entry->vm);",
                   "entry->unjudged = false;")],
    },
    {
        "name": "asleep-without-a-look",
        "scenario": "change",
        "why": "a VM that a failed wake left is forgotten, and its old tag called its state",
        "edits": [(VK + "hibernate.c", "    if (is_found)\n        return 0;\n    rc = find_durable(", "    rc = find_durable("),
                  (VK + "hibernate.c", "        vk_entry_bind(work->provider, work->entry, vm);\n        *ret_found = true;",
                   "        *ret_found = false;")],
    },
    {
        "name": "generation-not-answered-at-startup",
        "scenario": "away",
        "why": "a suspend waits for ever",
        "edits": [(VK + "startup.c",
                   "        if (!entry->resumed && !(is_open && cc_text_equal(vk_entry_state(entry), CC_STATE_READY)))\n"
                   "            vk_lifecycle_echo(provider, entry);\n", "")],
    },
    {
        "name": "save-skipped-when-a-snapshot-is-there",
        "scenario": "twice",
        "why": "the second sleep pushes what the first one left",
        "edits": [(VK + "hibernate.c", "    rc = save(work, err);\n    if (rc != 0) {",
                   "    rc = vk_snapshots_push(provider->options.snapshots, work->spec.vm_name, CC_TAG_HIBERNATE, "
                   "work->spec.image, NULL) == 0\n             ? 0\n             : save(work, err);\n    if (rc != 0) {")],
    },
    {
        "name": "operator-writes-the-lifecycle",
        "scenario": "sleep",
        "why": "two writers of one key",
        "edits": [(OP + "pass.c",
                   "    return op_pass_annotate_pod(pass, owned, CC_KEY_HIBERNATE, want ? \"true\" : NULL, err);",
                   "    int rc = op_pass_annotate_pod(pass, owned, CC_KEY_LIFECYCLE_STATE, \"\", err);\n"
                   "    return rc != 0 ? rc : op_pass_annotate_pod(pass, owned, CC_KEY_HIBERNATE, want ? \"true\" : NULL, err);")],
    },
    {
        "name": "status-written-every-pass",
        "scenario": "sleep",
        "why": "a settled set is never quiet",
        "edits": [(OP + "pass.c", "    if (op_status_equal_but(present, &wanted, pass->controller->dropped_status_members))\n        return 0;\n", ""),
                  (OP + "pass.c", "    if (!patch)\n        return 0;\n    const char *before = present->phase;",
                   "    if (!patch)\n        return op_pass_annotate_set(pass, \"sim/again\", cc_arena_printf(&pass->arena, \"%lld\", "
                   "(long long)cc_now_wall().ns), err);\n    const char *before = present->phase;")],
    },
    {
        "name": "eviction-on-an-unknown-vm",
        "scenario": "exit-unknown",
        "why": "an inspect that says nothing ends the pod",
        "edits": [(VK + "exits.c", "        evict(exit, false, \"VMGone\", \"vm no longer exists\");\n    } else if (rc != 0) {",
                   "        evict(exit, false, \"VMGone\", \"vm no longer exists\");\n    } else if (rc != 0) {\n"
                   "        evict(exit, true, \"VMInspectTimeout\", \"unknown\");")],
    },
    {
        "name": "old-tag-dropped-while-waking",
        "why": "the snapshot of a move or of a released seat goes before its VM lives",
        "scenario": "migrate",
        "edits": [
            (OP + "migrate.c", "return live ? OP_MOVE_FINISH : OP_MOVE_WATCH;", "return OP_MOVE_FINISH;"),
            (OP + "pass.c", "if (rc == 0 && present && awake)", "if (rc == 0 && present)"),
            (OP + "pass.c", "*ret_gone = !present || awake;", "*ret_gone = true;"),
        ],
    },
    {
        "name": "keep-flag-ignored",
        "why": "a released main finds no warm copy where it wakes",
        "scenario": "release",
        "edits": [(VK + "delete.c", "    if (cc_flag_is_set(&deletion->pod->base.meta.annotations, CC_KEY_KEEP_SNAPSHOT))\n"
                   "        return true;\n    return ", "    return !deletion->pod &&\n           ")],
    },
    {
        "name": "hint-cleared-early",
        "why": "an operator that dies before the pod is made no longer knows where it slept",
        "scenario": "release",
        "edits": [(OP + "wake.c", "    rc = op_pass_write_status(pass, OP_PHASE_WAKING, err);\n    if (rc == 0)\n",
                   "    rc = op_pass_annotate_set(pass, CC_KEY_HIBERNATED_ON_NODE, NULL, err);\n    if (rc == 0)\n"
                   "        rc = op_pass_write_status(pass, OP_PHASE_WAKING, err);\n    if (rc == 0)\n")],
    },
    {
        "name": "cr-short-circuit-missing",
        "why": "a main that a CocoonHibernation holds is moved from under it",
        "scenario": "held-and-pinned",
        "edits": [(OP + "migrate.c", "        if (!settled)\n            return true;", "        if (!settled && !pass)\n            return true;")],
    },
    {
        "name": "migration-over-a-leftover-tag",
        "why": "an old tag passes for the snapshot of the move, and the live main is deleted over it",
        "scenario": "leftover",
        "edits": [(OP + "migrate.c", "return live ? OP_MOVE_DROP_LEFTOVER : OP_MOVE_PASS_ON;",
                   "return live ? OP_MOVE_DELETE : OP_MOVE_PASS_ON;")],
    },
    {
        "name": "record-forgotten-on-a-failed-tag-delete",
        "why": "the tag stays, and nothing remembers that it is owed a reclaim",
        "scenario": "sleep",
        "edits": [(OP + "unsuspend.c", "        if (rc == 0 && gone)\n", "        if (rc != 0 || gone)\n")],
    },
    {
        "name": "moved-on-the-tag-alone",
        "why": "a node whose remove failed takes the tag back, and the guest that ran on goes with its pod",
        "scenario": "migrate",
        "edits": [(OP + "migrate.c", "           (cc_text_is_empty(lifecycle.state) && cc_text_equal(set->status.phase, OP_PHASE_MIGRATING));",
                   "           cc_text_equal(set->status.phase, OP_PHASE_MIGRATING);")],
    },
    {
        "name": "moved-by-the-cache",
        "why": "a pin that goes to and fro has woken the main that the cache shows asleep",
        "scenario": "wake-amid-move",
        "edits": [(OP + "migrate.c", "    bool present = false;\n    int rc = op_pass_read_pod(pass, main, &present, err);",
                   "    bool present = true;\n    int rc = 0;"),
                  (OP + "migrate.c", "    rc = op_pass_delete_pod_unchanged(pass, main->pod, &failure);\n    if (rc != 0 && cc_kube",
                   "    rc = op_pass_delete_pod(pass, main->pod, &failure);\n    if (rc != 0 && cc_kube")],
    },
    {
        "name": "move-not-recorded",
        "why": "a restore that fails at first leaves its tag behind for good",
        "scenario": "migrate",
        "edits": [(OP + "migrate.c", "    cc_strlist_add_unique(&pass->record.vms, &pass->arena, vm_name);\n    return op_pass_write_record(pass, err);",
                   "    (void)err;\n    return vm_name ? 0 : CC_NOT_FOUND;")],
    },
    {
        "name": "released-by-the-cache",
        "scenario": "release-unseen",
        "why": "a set is called Suspended over a main that the cache does not show",
        "edits": [(OP + "release.c", "op_pass_phase_is(pass, OP_PHASE_SUSPENDED) ? 0 : find_seats(", "ret ? 0 : find_seats(")],
    },
    {
        "name": "shell-started-at-resume",
        "scenario": "sleep",
        "why": "a resumed hibernate boots what its remove left, and saves that over the guest",
        "edits": [(VK + "hibernate.c",
                   "    if (!is_running) {\n        rc = is_remove_missing(",
                   "    if (!is_running && !entry) {\n        rc = is_remove_missing(")],
    },
    {
        "name": "id-kept-until-the-remove-is-done",
        "scenario": "taken-back",
        "why": "a remove that was cut off looks like a guest that went down",
        "edits": [(VK + "hibernate.c",
                   "    bool was_cleared = vk_endpoint_clear(provider, work->entry);",
                   "    bool was_cleared = false;")],
    },
    {
        "name": "unknown-remove-is-done",
        "scenario": "remove-unknown",
        "why": "a guest that runs on is called asleep",
        "edits": [(VK + "hibernate.c",
                   "    if (rc == CC_NOT_FOUND)\n        return 0;\n    count(work, \"remove\", false);",
                   "    if (rc != 0)\n        return 0;\n    count(work, \"remove\", false);")],
    },
    {
        "name": "owed-remove-forgotten",
        "scenario": "remove-half-done",
        "why": "what a remove left is booted when the wish to sleep is taken back",
        "edits": [(VK + "hibernate.c",
                   "        work->entry->remove_owed = true;",
                   "        work->entry->remove_owed = false;")],
    },
    {
        "name": "owed-remove-restarted",
        "scenario": "remove-half-done",
        "why": "who looks for stopped VMs boots one that is owed a remove",
        "edits": [(VK + "exits.c",
                   "           !entry->remove_owed && !entry->unjudged;",
                   "           !entry->unjudged;")],
    },
    {
        "name": "tag-of-a-spared-guest-kept",
        "scenario": "remove-refused",
        "why": "the tag of a hibernate that was undone describes a guest that runs on",
        "edits": [(VK + "hibernate.c",
                   "    if (registry && cc_registry_delete_tag(registry, work->spec.vm_name, "
                   "CC_TAG_HIBERNATE, &err) != 0)",
                   "    if (!registry && cc_registry_delete_tag(registry, work->spec.vm_name, "
                   "CC_TAG_HIBERNATE, &err) != 0)")],
    },
    {
        "name": "id-of-a-spared-guest-hidden",
        "scenario": "remove-refused",
        "why": "a guest that runs on is not found under its pod",
        "edits": [(VK + "hibernate.c",
                   "    if (vk_entry_has_vm(work->entry, work->pod->base.meta.uid, work->vm_id))\n"
                   "        vk_endpoint_publish(work->provider, work->entry);\n",
                   "")],
    },
    {
        "name": "save-believed",
        "scenario": "pretended",
        "why": "a save that did nothing: the snapshot of the sleep before is pushed",
        "edits": [(VK + "save.c",
                   "    if (*after && !cc_text_equal(before, after))",
                   "    if (*after)")],
    },
    {
        "name": "remove-believed",
        "scenario": "pretended",
        "why": "a remove that did nothing: the guest runs on, and is called asleep",
        "edits": [(VK + "remove.c",
                   "    if (rc != 0)\n        return rc;\n    rc = runtime->ops->inspect",
                   "    if (rc != CC_TIMEOUT)\n        return rc;\n    rc = runtime->ops->inspect")],
    },
    {
        "name": "asleep-without-a-push",
        "scenario": "exit-amid-push",
        "why": "a guest that is in a local snapshot only is called asleep",
        "edits": [(VK + "hibernate.c",
                   "    if (durable == DURABLE_LOCAL_ONLY && has_registry(work)) {\n        rc = push(work, err);",
                   "    if (durable == DURABLE_LOCAL_ONLY && has_registry(work)) {\n        rc = 0;")],
    },
    {
        "name": "evicted-over-a-failed-remove",
        "scenario": "exit-for-good",
        "why": "the pod goes, and its VM stays without an owner",
        "edits": [(VK + "evict.c",
                   "        if (rc != 0 && rc != CC_NOT_FOUND) {\n            /* Evicting",
                   "        if (rc == CC_CANCELED) {\n            /* Evicting")],
    },
    {
        "name": "missed-exits-not-looked-for",
        "scenario": "exit-missed",
        "why": "a VM that stopped while no stream was open stays down for ever",
        "edits": [(VK + "exits.c",
                   "    vk_task_start(stream->provider, \"vm catch-up\", false, catch_up, stream->provider, NULL);",
                   "    if (!stream->provider)\n"
                   "        vk_task_start(stream->provider, \"vm catch-up\", false, catch_up, "
                   "stream->provider, NULL);")],
    },
    {
        "name": "bring-up-without-a-look",
        "scenario": "sleep",
        "why": "a clone or run that failed has made the VM, and a second one is made",
        "edits": [(VK + "bring_up.c",
                   "    if (!named || (!named->suspect && !named->watched))",
                   "    if (named || !named)")],
    },
    {
        "name": "cut-off-hibernate-not-resumed",
        "scenario": "sleep",
        "why": "a suspend waits for ever for a daemon that was restarted",
        "edits": [(VK + "resume.c",
                   "        return VK_RESUME_HIBERNATE;\n    /*",
                   "        return VK_RESUME_NONE;\n    /*")],
    },
    {
        "name": "cut-off-create-not-resumed",
        "scenario": "sleep",
        "why": "a VM that came up while its daemon died is never called ready",
        "edits": [(VK + "resume.c",
                   "VK_RESUME_POST_CLONE\n"
                   "                                                                                 "
                   "      : VK_RESUME_READY_WAIT;",
                   "VK_RESUME_POST_CLONE\n"
                   "                                                                                 "
                   "      : VK_RESUME_NONE;")],
    },
    {
        "name": "owed-retry-forgotten",
        "scenario": "sleep",
        "why": "a hibernate or wake that fails once has failed for good",
        "edits": [(VK + "update.c",
                   "    if (!is_final)\n        vk_retry_owe(",
                   "    if (is_final && is_stop)\n        vk_retry_owe(")],
    },
    {
        "name": "deleted-without-a-look",
        "scenario": "deleted-unseen",
        "why": "the VM of a pod that nobody tracked outlives it",
        "edits": [(VK + "delete.c",
                   "    if (cc_text_is_empty(name))\n        return 0;\n"
                   "    rc = runtime->ops->inspect(runtime->ctx, name, &vm, err);",
                   "    if (deletion->pod)\n        return 0;\n"
                   "    rc = runtime->ops->inspect(runtime->ctx, name, &vm, err);")],
    },
    {
        "name": "deleted-on-an-unknown-vm",
        "scenario": "deleted-unseen",
        "why": "an inspect that says nothing is taken for a VM that is gone",
        "edits": [(VK + "delete.c",
                   "    if (rc == CC_NOT_FOUND)\n        return 0;\n    if (rc != 0)\n"
                   "        return cc_err_wrap(err, \"inspect vm %s before delete\", name);",
                   "    if (rc != 0)\n        return 0;")],
    },
    {
        "name": "deleted-over-a-failed-remove",
        "scenario": "sleep",
        "why": "the pod goes, and its VM stays without an owner",
        "edits": [(VK + "delete.c",
                   "    if (rc == 0 || rc == CC_NOT_FOUND)\n        return 0;\n"
                   "    vk_count_lifecycle(provider, \"delete\", \"failed\", \"\");",
                   "    if (rc != CC_CANCELED)\n        return 0;\n"
                   "    vk_count_lifecycle(provider, \"delete\", \"failed\", \"\");")],
    },
    {
        "name": "only-copy-removed",
        "scenario": "local-deleted",
        "why": "without a registry the guest goes with its pod",
        "edits": [(VK + "delete.c",
                   "        return (asleep || cc_role_of_pod(",
                   "        return !deletion->pod && (asleep || cc_role_of_pod(")],
    },
    {
        "name": "set-unknown-is-going",
        "scenario": "local-deleted",
        "why": "without a registry the guest goes with its pod when its set cannot be asked for",
        "edits": [(VK + "delete.c",
                   "    if (rc == CC_NOT_FOUND)\n        return true;\n    if (rc != 0)\n"
                   "        cc_log_warn(\"owner",
                   "    if (rc != 0)\n        return true;\n    if (rc != 0)\n        cc_log_warn(\"owner")],
    },
    {
        "name": "untagged-copy-is-stale",
        "scenario": "tag-forgotten",
        "why": "a registry that forgets a tag costs the copy that is left",
        "edits": [(VK + "wake_source.c",
                   "        /* It may be the only copy of the guest: neither used nor removed (decision 49). */\n"
                   "        return cc_err_set(",
                   "        *ret = LOCAL_STALE;\n        return 0;\n        cc_err_set(")],
    },
    {
        "name": "ready-before-its-status",
        "scenario": "sleep",
        "why": "the operator sees a pod ready which its service does not",
        "edits": [(VK + "lifecycle.c",
                   "    if (cc_text_equal(entry->intent.state, CC_STATE_READY) && !entry->intent.status_done &&\n"
                   "        !push_ready_status(provider, entry, serial))\n        return false;\n"
                   "    if (cc_mutex_lock",
                   "    if (!provider && !push_ready_status(provider, entry, serial))\n        return false;\n"
                   "    if (cc_mutex_lock")],
    },
    {
        "name": "nic-not-given-back",
        "scenario": "windows",
        "why": "a guest whose hibernate failed has no network any more",
        "edits": [(VK + "hibernate.c",
                   "    if (!work->nic_dropped)\n        return;\n    work->nic_dropped = false;",
                   "    if (!work->nic_dropped || work->entry)\n        return;\n    work->nic_dropped = false;")],
    },
    {
        "name": "patch-without-a-uid",
        "scenario": "sleep",
        "why": "what is late is written into the next pod of that name",
        "edits": [(VK + "lifecycle.c",
                   "    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_annotations(entry->intent.uid);",
                   "    json_t *patch cc_cleanup(cc_json_decref_p) = cc_patch_annotations(NULL);")],
    },
    {
        "name": "untagged-sleeper-boots-anew",
        "scenario": "tag-forgotten",
        "why": "a restart amid a wake whose tag the registry has forgotten costs the guest",
        "edits": [(VK + "create.c", "    if (!has_run(create) || cc_text_equal(state, CC_STATE_READY) ||",
                   "    if (create || cc_text_equal(state, CC_STATE_READY) ||")],
    },
    {
        "name": "nic-not-made-sure",
        "scenario": "windows",
        "why": "a guest whose daemon died while it had no NIC is called ready without one",
        "edits": [("vk-cocoon/provider/resume.c", "    vk_nic_make_sure(job);\n", "")],
    },
]
