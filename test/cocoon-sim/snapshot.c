#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

static void files_of(char path[PATH_BYTES], const json_t *snapshot) {
    path_of(path, "%s/snapshot/localfile/%s", root_dir(), cc_json_text(snapshot, "id"));
}

static json_t *finished(const char *verb, const char *reference) {
    json_t *snapshot = store_resolve("snapshots", reference);
    if (!snapshot || cc_json_bool(snapshot, "pending"))
        die("%s: snapshot not found", verb);
    return snapshot;
}

/* A pending record reserves the name: a killed save or import leaves it behind. The host is locked by the caller. */
static json_t *reserve(const char *name, bool is_save) {
    json_t *taken = store_resolve("snapshots", name);
    if (taken && cc_text_equal(cc_json_text(taken, "name"), name)) {
        const char *id = cc_json_text(taken, "id");
        if (is_save && !cc_json_bool(taken, "pending"))
            die("snapshot name \"%s\" already exists", name);
        die("snapshot name \"%s\" already in use by %s", name, id);
    }
    json_decref(taken);
    json_t *snapshot = json_object();
    char *id cc_cleanup(cc_free_p) = new_id(), *now cc_cleanup(cc_free_p) = now_text();
    cc_json_set_text(snapshot, "id", id);
    cc_json_set_text(snapshot, "name", name);
    cc_json_set_text(snapshot, "created_at", now);
    cc_json_set_bool(snapshot, "pending", true);
    store_save("snapshots", id, snapshot);
    return snapshot;
}

static void finish(json_t *snapshot) {
    json_object_del(snapshot, "pending");
    store_lock();
    store_save("snapshots", cc_json_text(snapshot, "id"), snapshot);
    store_unlock();
}

static int snapshot_save(struct arguments *arguments) {
    const char *name = take_option(arguments, "--name");
    expect_words(arguments, 1, "snapshot save --name NAME VM");
    json_t *vm = store_resolve("vms", arguments->words[0]);
    if (!vm)
        die("save: vm %s: VM not found", arguments->words[0]);
    if (!guest_is_alive(vm))
        die("save: vm %s is not running", arguments->words[0]);
    store_lock();
    json_t *snapshot = reserve(name ? name : cc_json_text(vm, "id"), true);
    store_unlock();
    const json_t *config = json_object_get(vm, "config");
    static const char *const members[] = {"image",   "image_digest", "image_type", "cpu",         "memory",
                                          "storage", "network",      "windows",    "no_direct_io"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(members); i++) {
        json_t *value = json_object_get(config, members[i]);
        if (value)
            json_object_set(snapshot, members[i], value);
    }
    cc_json_set_text(snapshot, "hypervisor", cc_json_text(vm, "hypervisor"));
    cc_json_set_int(snapshot, "nics", (int64_t)json_array_size(json_object_get(vm, "network_configs")));
    char from[PATH_BYTES], to[PATH_BYTES];
    guest_dir(from, vm);
    files_of(to, snapshot);
    guest_pause(vm, true);
    fault_middle();
    copy_files(from, to);
    guest_pause(vm, false);
    static const char *const logs[] = {"console.log", "qemu.log"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(logs); i++) {
        path_of(from, "%s/%s", to, logs[i]);
        unlink(from);
    }
    finish(snapshot);
    fault_leave();
    json_decref(snapshot);
    json_decref(vm);
    return 0;
}

static int snapshot_inspect(struct arguments *arguments) {
    expect_words(arguments, 1, "snapshot inspect SNAPSHOT");
    json_t *snapshot cc_cleanup(cc_json_decref_p) = finished("inspect", arguments->words[0]);
    fault_leave();
    print_json(snapshot);
    return 0;
}

static int snapshot_list(struct arguments *arguments) {
    take_option(arguments, "-o");
    expect_words(arguments, 0, "snapshot list -o json");
    json_t *all cc_cleanup(cc_json_decref_p) = store_list("snapshots");
    for (size_t i = json_array_size(all); i-- > 0;)
        if (cc_json_bool(json_array_get(all, i), "pending"))
            json_array_remove(all, i);
    fault_leave();
    print_json(all);
    return 0;
}

static int snapshot_remove(struct arguments *arguments) {
    expect_words(arguments, 1, "snapshot rm SNAPSHOT");
    json_t *snapshot cc_cleanup(cc_json_decref_p) = store_resolve("snapshots", arguments->words[0]);
    if (!snapshot)
        die("rm: resolve \"%s\": snapshot not found", arguments->words[0]);
    char path[PATH_BYTES];
    files_of(path, snapshot);
    remove_tree(path);
    fault_middle();
    store_lock();
    store_delete("snapshots", cc_json_text(snapshot, "id"));
    store_unlock();
    fault_leave();
    return 0;
}

static int snapshot_export(struct arguments *arguments) {
    take_option(arguments, "-o");
    expect_words(arguments, 1, "snapshot export SNAPSHOT -o -");
    json_t *snapshot cc_cleanup(cc_json_decref_p) = finished("export", arguments->words[0]);
    char path[PATH_BYTES];
    files_of(path, snapshot);
    json_t *config cc_cleanup(cc_json_decref_p) = json_copy(snapshot);
    json_object_del(config, "created_at");
    fault_middle();
    archive_export(stdout, config, path);
    fault_leave();
    return 0;
}

static int snapshot_import(struct arguments *arguments) {
    const char *name = take_option(arguments, "--name");
    expect_words(arguments, 0, "snapshot import --name NAME < ARCHIVE");
    store_lock();
    json_t *snapshot cc_cleanup(cc_json_decref_p) = reserve(name ? name : "imported", false);
    store_unlock();
    char path[PATH_BYTES];
    files_of(path, snapshot);
    make_dirs(path);
    fault_middle();
    json_t *config cc_cleanup(cc_json_decref_p) = archive_import(dup(STDIN_FILENO), path);
    const char *key;
    json_t *value;
    /* The id is new and the name the caller's, whatever the envelope says (contract/05 chapter 5). */
    json_object_foreach (config, key, value) {
        if (strcmp(key, "id") != 0 && strcmp(key, "name") != 0)
            json_object_set(snapshot, key, value);
    }
    finish(snapshot);
    fault_leave();
    return 0;
}

int snapshot_main(const char *verb, struct arguments *arguments) {
    static const struct {
        const char *verb;
        int (*run)(struct arguments *arguments);
    } verbs[] = {{"save", snapshot_save}, {"inspect", snapshot_inspect}, {"list", snapshot_list},
                 {"rm", snapshot_remove}, {"export", snapshot_export},   {"import", snapshot_import}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(verbs); i++)
        if (strcmp(verbs[i].verb, verb) == 0)
            return verbs[i].run(arguments);
    die("unknown command \"snapshot %s\"", verb);
}
