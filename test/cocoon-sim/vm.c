#include "sim.h"

#include <errno.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"

#define MEMORY_MIN INT64_C(536870912)
#define CONSOLE_LOG_BYTES_MAX ((size_t)16 * 1024 * 1024)
#define STORAGE_MIN INT64_C(10737418240)

static const char *vm_name(const json_t *vm) {
    return cc_text_or(cc_json_text(cc_json_member(vm, "config"), "name"), "");
}

/* What the outside sees: no private member; a running record whose process is dead is stale (contract/06 5.1). */
static json_t *shown(const json_t *vm) {
    json_t *copy = json_deep_copy(vm);
    bool stored_running = cc_text_equal(cc_json_text(vm, "state"), "running");
    if (stored_running && !guest_is_alive(vm))
        cc_json_set_text(copy, "state", "stopped (stale)");
    if (!cc_text_equal(cc_json_text(copy, "state"), "running"))
        cc_json_set_int(copy, "pid", 0);
    json_object_del(copy, "sim");
    if (!json_array_size(json_object_get(copy, "network_configs")))
        json_object_del(copy, "network_configs");
    return copy;
}

static json_t *resolve(const char *verb, const char *reference) {
    json_t *vm = store_resolve("vms", reference);
    if (!vm)
        die("%svm %s: VM not found", verb, reference);
    return vm;
}

static void save(json_t *vm, const char *state) {
    cc_json_set_text(vm, "state", state);
    char *now cc_cleanup(cc_free_p) = now_text();
    cc_json_set_text(vm, "updated_at", now);
    store_save("vms", cc_json_text(vm, "id"), vm);
}

/* "1G" means 2^30 here, as cocoon reads it; plain digits are bytes. */
static int64_t size_of(const char *flag, const char *text, int64_t fallback) {
    if (!text)
        return fallback;
    char *digits cc_cleanup(cc_free_p) = cc_xstrdup(text);
    size_t length = strlen(digits);
    int shift = 0;
    if (length && strchr("KMGT", digits[length - 1])) {
        shift = digits[length - 1] == 'K' ? 10 : digits[length - 1] == 'M' ? 20 : digits[length - 1] == 'G' ? 30 : 40;
        digits[length - 1] = '\0';
    }
    int64_t value;
    if (!cc_parse_int64(digits, 1, INT64_MAX >> 40, &value) &&
        !(shift == 0 && cc_parse_int64(digits, 1, INT64_MAX, &value)))
        die("invalid value \"%s\" for flag %s", text, flag);
    return value << shift;
}

static int64_t number_of(const char *flag, const char *text, int64_t min, int64_t max, int64_t fallback) {
    int64_t value = fallback;
    if (text && !cc_parse_int64(text, min, max, &value))
        die("invalid value \"%s\" for flag %s: must be %lld-%lld", text, flag, (long long)min, (long long)max);
    return value;
}

static void check_name(const char *name) {
    regex_t pattern;
    if (regcomp(&pattern, "^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$", REG_EXTENDED | REG_NOSUB))
        die("regular expression");
    if (regexec(&pattern, name, 0, NULL, 0))
        die("invalid vm name \"%s\"", name);
    regfree(&pattern);
}

/* Reserves the name with a `creating` record of this process; from here on a killed create leaves it behind. */
static json_t *reserve(const char *name) {
    check_name(name);
    store_lock();
    json_t *taken = store_resolve("vms", name);
    if (taken && strcmp(vm_name(taken), name) == 0) {
        store_unlock();
        die("vm name \"%s\" already exists (id: %s)", name, cc_json_text(taken, "id"));
    }
    json_decref(taken);
    json_t *vm = json_object(), *config = json_object(), *private = json_object();
    char *id cc_cleanup(cc_free_p) = new_id(), *now cc_cleanup(cc_free_p) = now_text();
    cc_json_set_text(vm, "id", id);
    cc_json_set_text(vm, "hypervisor", "cloud-hypervisor");
    cc_json_set_int(vm, "pid", 0);
    cc_json_set_text(config, "name", name);
    cc_json_set_new(vm, "config", config);
    cc_json_set_text(vm, "created_at", now);
    cc_json_set_int(private, "creator", getpid());
    cc_json_set_new(vm, "sim", private);
    save(vm, "creating");
    store_unlock();
    return vm;
}

static void set_cgroup_options(json_t *config, struct arguments *arguments) {
    const char *weight = take_option(arguments, "--cpu-weight"), *quota = take_option(arguments, "--cpu-quota-us"),
               *period = take_option(arguments, "--cpu-period-us");
    if (weight)
        cc_json_set_int(config, "cpu_weight", number_of("--cpu-weight", weight, 1, 10000, 1));
    if (quota)
        cc_json_set_int(config, "cpu_quota_us", number_of("--cpu-quota-us", quota, 1, INT32_MAX, 1));
    if (period)
        cc_json_set_int(config, "cpu_period_us", number_of("--cpu-period-us", period, 1, INT32_MAX, 1));
}

static void boot(json_t *vm) {
    if (cc_json_bool(cc_json_member(vm, "config"), "windows")) {
        char directory[PATH_BYTES];
        guest_dir(directory, vm);
        console_make_nets(directory, json_array_size(json_object_get(vm, "network_configs")));
    }
    guest_start(vm);
    char *now cc_cleanup(cc_free_p) = now_text();
    cc_json_set_text(vm, "started_at", now);
    cc_json_set_bool(vm, "first_booted", true);
    store_lock();
    save(vm, "running");
    store_unlock();
}

static int vm_run(struct arguments *arguments) {
    const char *name = take_option(arguments, "--name"), *network = take_option(arguments, "--network");
    int64_t cpus = number_of("--cpu", take_option(arguments, "--cpu"), 1, 1024, 2);
    int64_t memory = size_of("--memory", take_option(arguments, "--memory"), INT64_C(1) << 30);
    int64_t storage = size_of("--storage", take_option(arguments, "--storage"), STORAGE_MIN);
    bool windows = take_flag(arguments, "--windows"), firecracker = take_flag(arguments, "--fc");
    bool no_direct_io = take_flag(arguments, "--no-direct-io");
    take_option(arguments, "--output");
    json_t *config = json_object();
    set_cgroup_options(config, arguments);
    expect_words(arguments, 1, "vm run [flags] IMAGE");
    if (memory < MEMORY_MIN || storage < STORAGE_MIN)
        die("memory must be at least %lld and storage at least %lld bytes", (long long)MEMORY_MIN,
            (long long)STORAGE_MIN);
    json_t *image = store_resolve("images", arguments->words[0]);
    if (!image)
        die("image \"%s\": not found in any backend", arguments->words[0]);
    json_t *vm = reserve(name ? name : "unnamed");
    fault_middle();
    cc_json_set_text(vm, "hypervisor", firecracker ? "firecracker" : "cloud-hypervisor");
    json_object_update(json_object_get(vm, "config"), config);
    json_decref(config);
    config = json_object_get(vm, "config");
    cc_json_set_int(config, "cpu", cpus);
    cc_json_set_int(config, "memory", memory);
    cc_json_set_int(config, "storage", storage);
    cc_json_set_text(config, "image", arguments->words[0]);
    cc_json_set_text(config, "image_digest", cc_json_text(image, "id"));
    cc_json_set_text(config, "image_type", cc_json_text(image, "type"));
    cc_json_set_text(config, "network", network ? network : "cocoon-dhcp");
    if (windows)
        cc_json_set_bool(config, "windows", true);
    if (no_direct_io)
        cc_json_set_bool(config, "no_direct_io", true);
    cc_json_set_new(vm, "network_configs", nics_new(1, cc_json_text(vm, "id"), cc_json_text(config, "network")));
    store_lock();
    save(vm, "created");
    store_unlock();
    guest_make_files(vm, 1);
    boot(vm);
    fault_leave();
    json_t *output cc_cleanup(cc_json_decref_p) = shown(vm);
    print_json(output);
    json_decref(image);
    json_decref(vm);
    return 0;
}

static void snapshot_dir(char path[PATH_BYTES], const json_t *snapshot) {
    path_of(path, "%s/snapshot/localfile/%s", root_dir(), cc_json_text(snapshot, "id"));
}

/* Members of a snapshot record that describe the guest go into the clone's configuration. */
static void inherit(json_t *config, const json_t *snapshot) {
    static const char *const members[] = {"cpu",        "memory",  "storage",      "image",  "image_digest",
                                          "image_type", "network", "no_direct_io", "windows"};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(members); i++) {
        json_t *value = json_object_get(snapshot, members[i]);
        if (value && !json_object_get(config, members[i]))
            json_object_set(config, members[i], value);
    }
}

/* The source of a clone: a finished snapshot, or a directory with snapshot.json. Gives its record and its files. */
static json_t *clone_source(const char *from_dir, const struct arguments *arguments, char files[PATH_BYTES]) {
    if (from_dir) {
        path_of(files, "%s/snapshot.json", from_dir);
        json_t *envelope cc_cleanup(cc_json_decref_p) = json_load_file(files, 0, NULL);
        if (!envelope || cc_json_int(envelope, "version", 0) != 1)
            die("clone: %s is missing or not version 1", files);
        path_of(files, "%s", from_dir);
        return json_incref(json_object_get(envelope, "config"));
    }
    json_t *snapshot = store_resolve("snapshots", arguments->words[0]);
    if (!snapshot || cc_json_bool(snapshot, "pending"))
        die("clone: snapshot not found");
    snapshot_dir(files, snapshot);
    return snapshot;
}

static int vm_clone(struct arguments *arguments) {
    const char *name = take_option(arguments, "--name"), *network = take_option(arguments, "--network"),
               *from_dir = take_option(arguments, "--from-dir"), *nics = take_option(arguments, "--nics"),
               *mode = take_option(arguments, "--restore-mode");
    bool no_direct_io = take_flag(arguments, "--no-direct-io");
    take_flag(arguments, "--pull");
    take_option(arguments, "--output");
    if (mode && strcmp(mode, "copy") != 0 && strcmp(mode, "ondemand") != 0 && strcmp(mode, "mmap") != 0)
        die("invalid restore mode \"%s\"", mode);
    json_t *options = json_object();
    set_cgroup_options(options, arguments);
    expect_words(arguments, from_dir ? 0 : 1, "vm clone [flags] SNAPSHOT | --from-dir DIR");
    char files[PATH_BYTES], directory[PATH_BYTES];
    json_t *snapshot = clone_source(from_dir, arguments, files);
    bool firecracker = cc_text_equal(cc_json_text(snapshot, "hypervisor"), "firecracker");
    if (firecracker && (nics || mode))
        die("clone: firecracker does not take --nics or --restore-mode");
    json_t *vm = reserve(name ? name : "unnamed");
    fault_middle();
    cc_json_set_text(vm, "hypervisor", cc_text_or(cc_json_text(snapshot, "hypervisor"), "cloud-hypervisor"));
    json_t *config = json_object_get(vm, "config");
    json_object_update(config, options);
    json_decref(options);
    if (network)
        cc_json_set_text(config, "network", network);
    if (no_direct_io)
        cc_json_set_bool(config, "no_direct_io", true);
    inherit(config, snapshot);
    int64_t count = number_of("--nics", nics, 0, 8, cc_json_int(snapshot, "nics", 1));
    cc_json_set_new(vm, "network_configs",
                    nics_new((int)count, cc_json_text(vm, "id"), cc_json_text(config, "network")));
    guest_dir(directory, vm);
    copy_files(files, directory);
    if (from_dir) {
        /* The envelope describes the directory; it is no file of the guest. */
        path_of(files, "%s/snapshot.json", directory);
        unlink(files);
    }
    boot(vm);
    fault_leave();
    json_t *output cc_cleanup(cc_json_decref_p) = shown(vm);
    cc_json_set_new(output, "hints", json_array());
    print_json(output);
    json_decref(snapshot);
    json_decref(vm);
    return 0;
}

static int vm_inspect(struct arguments *arguments) {
    expect_words(arguments, 1, "vm inspect VM");
    json_t *vm cc_cleanup(cc_json_decref_p) = resolve("inspect: ", arguments->words[0]);
    json_t *output cc_cleanup(cc_json_decref_p) = shown(vm);
    fault_leave();
    print_json(output);
    return 0;
}

static json_t *list_shown(void) {
    json_t *all cc_cleanup(cc_json_decref_p) = store_list("vms");
    json_t *output = json_array(), *vm;
    size_t index;
    json_array_foreach (all, index, vm)
        json_array_append_new(output, shown(vm));
    return output;
}

static int vm_list(struct arguments *arguments) {
    take_option(arguments, "-o");
    expect_words(arguments, 0, "vm list -o json");
    json_t *output cc_cleanup(cc_json_decref_p) = list_shown();
    fault_leave();
    print_json(output);
    return 0;
}

static int vm_start(struct arguments *arguments) {
    expect_words(arguments, 1, "vm start VM");
    json_t *vm cc_cleanup(cc_json_decref_p) = resolve("", arguments->words[0]);
    if (guest_is_alive(vm))
        return 0;
    fault_middle();
    /* A cold boot: what was in memory is gone. */
    guest_make_files(vm, 1);
    boot(vm);
    fault_leave();
    return 0;
}

static int vm_remove(struct arguments *arguments) {
    bool force = take_flag(arguments, "--force");
    expect_words(arguments, 1, "vm rm [--force] VM");
    json_t *vm cc_cleanup(cc_json_decref_p) = resolve("", arguments->words[0]);
    if (guest_is_alive(vm) && !force)
        die("vm %s is running (force required)", arguments->words[0]);
    guest_kill(vm);
    network_detach(vm);
    fault_middle();
    char directory[PATH_BYTES];
    guest_dir(directory, vm);
    remove_tree(directory);
    store_lock();
    store_delete("vms", cc_json_text(vm, "id"));
    store_unlock();
    fault_leave();
    return 0;
}

static int vm_net(struct arguments *arguments) {
    int64_t count = number_of("--nics", take_option(arguments, "--nics"), 0, 8, -1);
    expect_words(arguments, 1, "vm net --nics N VM");
    json_t *vm cc_cleanup(cc_json_decref_p) = resolve("", arguments->words[0]);
    if (cc_text_equal(cc_json_text(vm, "hypervisor"), "firecracker"))
        die("net: unsupported backend firecracker");
    if (!guest_is_alive(vm))
        die("net: vm %s is not running", arguments->words[0]);
    fault_middle();
    cc_json_set_new(
        vm, "network_configs",
        nics_new((int)count, cc_json_text(vm, "id"), cc_json_text(cc_json_member(vm, "config"), "network")));
    store_lock();
    save(vm, "running");
    store_unlock();
    fault_leave();
    return 0;
}

/* A guest agent that knows a few commands. Nothing runs on the host: a fixup script writes to /etc. */
static int guest_command(const json_t *vm, int count, char **words, bool has_stdin) {
    const char *command = count > 0 && words[0] ? words[0] : "";
    if (qemu_is(vm) && strcmp(command, "sh") != 0 && strcmp(command, "cat") != 0 && strcmp(command, "hostname") != 0)
        return qemu_command(vm, count, words);
    if (strcmp(command, "counter") == 0)
        return printf("%llu\n", (unsigned long long)guest_memory_word(vm, 0)), 0;
    if (strcmp(command, "boot-id") == 0)
        return printf("%016llx\n", (unsigned long long)guest_memory_word(vm, 1)), 0;
    if (strcmp(command, "true") == 0 || strcmp(command, "powershell") == 0 || strcmp(command, "cmd") == 0)
        return 0;
    if (strcmp(command, "false") == 0)
        return 1;
    if (strcmp(command, "echo") == 0) {
        for (int i = 1; i < count; i++)
            printf("%s%s", i > 1 ? " " : "", words[i]);
        return putchar('\n'), 0;
    }
    if (strcmp(command, "cat") == 0 && count == 1) {
        char chunk[4096];
        for (size_t got; has_stdin && (got = fread(chunk, 1, sizeof chunk, stdin)) > 0;)
            fwrite(chunk, got, 1, stdout);
        return 0;
    }
    if (strcmp(command, "hostname") == 0)
        return printf("%s\n", vm_name(vm)), 0;
    int64_t status;
    if (strcmp(command, "exit") == 0 && count == 2 && cc_parse_int64(words[1], 0, 255, &status))
        return (int)status;
    if (strcmp(command, "sh") == 0 && count == 3 && strcmp(words[1], "-c") == 0) {
        if (cc_text_contains(words[2], "/etc/hostname")) /* the post-clone fixup */
            return 0;
        char *rest = words[2], *inner[16];
        int inner_count = 0;
        while (inner_count < 16 && (inner[inner_count] = strsep(&rest, " ")))
            inner_count++;
        return guest_command(vm, inner_count, inner, has_stdin);
    }
    fprintf(stderr, "%s: command not found\n", command);
    return 127;
}

static int vm_exec(struct arguments *arguments) {
    bool has_stdin = take_flag(arguments, "-i");
    while (arguments->count && strcmp(arguments->words[0], "-e") == 0) {
        arguments->words += 2;
        arguments->count -= 2;
    }
    if (arguments->count < 3 || strcmp(arguments->words[1], "--") != 0)
        die("usage: vm exec [-i] [-e K=V]... VM -- COMMAND...");
    json_t *vm cc_cleanup(cc_json_decref_p) = resolve("exec: ", arguments->words[0]);
    if (!guest_is_alive(vm))
        die("exec: vm %s is not running", arguments->words[0]);
    fault_leave();
    int status = guest_command(vm, arguments->count - 2, arguments->words + 2, has_stdin);
    fflush(stdout);
    return status;
}

/* The last lines that a real guest wrote to its serial console. */
static int print_console_log(const json_t *vm, int64_t tail) {
    char path[PATH_BYTES];
    struct cc_buf log cc_cleanup(cc_buf_done);
    guest_dir(path, vm);
    strncat(path, "/console.log", sizeof path - strlen(path) - 1);
    cc_buf_init(&log, CONSOLE_LOG_BYTES_MAX);
    if (cc_file_read(path, &log, NULL))
        die("logs: %s: cannot be read, or longer than %zu bytes", path, CONSOLE_LOG_BYTES_MAX);
    size_t start = log.len;
    if (start > 0 && log.data[start - 1] == '\n')
        start--;
    for (int64_t lines = 0; start > 0 && (log.data[start - 1] != '\n' || ++lines < tail);)
        start--;
    for (size_t i = tail > 0 ? start : log.len; i < log.len; i++)
        if (log.data[i] != '\r')
            putchar(log.data[i]);
    return 0;
}

static int vm_logs(struct arguments *arguments) {
    int64_t tail = number_of("--tail", take_option(arguments, "--tail"), 0, INT32_MAX, 200);
    expect_words(arguments, 1, "vm logs [--tail N] VM");
    json_t *vm cc_cleanup(cc_json_decref_p) = resolve("logs: ", arguments->words[0]);
    if (qemu_is(vm))
        return print_console_log(vm, tail);
    for (int64_t i = tail < 3 ? 3 - tail : 0; i < 3; i++)
        printf("cloud-hypervisor: %s: line %lld\n", vm_name(vm), (long long)i + 1);
    return 0;
}

static int vm_reclaim(struct arguments *arguments) {
    take_option(arguments, "-o");
    expect_words(arguments, 1, "vm reconcile-stale-create VM -o json");
    const char *outcome = "not-found", *id = arguments->words[0];
    store_lock();
    json_t *vm cc_cleanup(cc_json_decref_p) = store_resolve("vms", arguments->words[0]);
    if (vm) {
        id = cc_json_text(vm, "id");
        pid_t creator = (pid_t)cc_json_int(cc_json_member(vm, "sim"), "creator", 0);
        if (!cc_text_equal(cc_json_text(vm, "state"), "creating"))
            outcome = "not-creating";
        else if (creator > 0 && kill(creator, 0) == 0)
            outcome = "busy";
        else {
            char directory[PATH_BYTES];
            guest_dir(directory, vm);
            remove_tree(directory);
            store_delete("vms", id);
            outcome = "collected";
        }
    }
    store_unlock();
    json_t *output cc_cleanup(cc_json_decref_p) = json_object();
    cc_json_set_text(output, "id", id);
    cc_json_set_text(output, "outcome", outcome);
    fault_leave();
    print_json(output);
    return 0;
}

static void emit(const char *event, const json_t *vm) {
    json_t *line cc_cleanup(cc_json_decref_p) = json_object();
    cc_json_set_text(line, "event", event);
    cc_json_set_new(line, "vm", json_incref((json_t *)vm));
    char *text cc_cleanup(cc_free_p) = cc_json_dump(line);
    if (puts(text) < 0 || fflush(stdout))
        exit(0); /* nobody listens any more */
}

static const json_t *find_id(const json_t *all, const char *id) {
    size_t index;
    json_t *vm;
    json_array_foreach (all, index, vm)
        if (cc_text_equal(cc_json_text(vm, "id"), id))
            return vm;
    return NULL;
}

/* A change of pid or MAC alone is no event (contract/06 chapter 4). */
static bool differs(const json_t *a, const json_t *b) {
    const json_t *first = json_object_get(a, "config"), *second = json_object_get(b, "config");
    return !cc_text_equal(cc_json_text(a, "state"), cc_json_text(b, "state")) ||
           !cc_text_equal(cc_json_text(first, "name"), cc_json_text(second, "name")) ||
           !cc_text_equal(cc_json_text(first, "image"), cc_json_text(second, "image"));
}

static int vm_status(struct arguments *arguments) {
    take_flag(arguments, "--event");
    take_option(arguments, "--format");
    expect_words(arguments, 0, "vm status --event --format json");
    json_t *before = json_array();
    for (;;) {
        json_t *after = list_shown(), *vm;
        size_t index;
        json_array_foreach (after, index, vm) {
            const json_t *previous = find_id(before, cc_json_text(vm, "id"));
            if (!previous)
                emit("ADDED", vm);
            else if (differs(previous, vm))
                emit("MODIFIED", vm);
        }
        json_array_foreach (before, index, vm)
            if (!find_id(after, cc_json_text(vm, "id")))
                emit("DELETED", vm);
        json_decref(before);
        before = after;
        if (getppid() == 1)
            exit(0); /* the daemon that started us is gone */
        usleep(200000);
    }
}

int vm_main(const char *verb, struct arguments *arguments) {
    static const struct {
        const char *verb;
        int (*run)(struct arguments *arguments);
    } verbs[] = {{"run", vm_run},
                 {"clone", vm_clone},
                 {"inspect", vm_inspect},
                 {"list", vm_list},
                 {"start", vm_start},
                 {"rm", vm_remove},
                 {"net", vm_net},
                 {"exec", vm_exec},
                 {"logs", vm_logs},
                 {"status", vm_status},
                 {"reconcile-stale-create", vm_reclaim}};
    for (size_t i = 0; i < CC_ARRAY_LENGTH(verbs); i++)
        if (strcmp(verbs[i].verb, verb) == 0)
            return verbs[i].run(arguments);
    die("unknown command \"vm %s\"", verb);
}
