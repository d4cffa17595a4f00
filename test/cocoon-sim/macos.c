/* cocoon-sim as `cocoon-macos` (contract/06 chapter 10): guests that are processes like the others, known by their
 * names, with a record of their own. Faults count its verbs as "macos.vm.run". */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"

#define GUESTS "macos"
#define IMAGES "macos-images"
#define VNC_OFF (-1)

static json_t *find(const char *name) {
    json_t *guest = store_resolve(GUESTS, name);
    if (guest && cc_text_equal(cc_json_text(guest, "name"), name))
        return guest;
    json_decref(guest);
    return NULL;
}

static json_t *resolve(const char *name) {
    json_t *guest = find(name);
    if (!guest)
        die("read vm record: open %s/macos/vms/%s/vm.json: no such file or directory", root_dir(), name);
    return guest;
}

static void save(json_t *guest) {
    store_lock();
    store_save(GUESTS, cc_json_text(guest, "id"), guest);
    store_unlock();
}

static int64_t take_number(struct arguments *arguments, const char *flag, int64_t min, int64_t max, int64_t fallback) {
    const char *text = take_option(arguments, flag);
    int64_t value = fallback;
    if (text && !cc_parse_int64(text, min, max, &value))
        die("invalid value \"%s\" for flag %s", text, flag);
    return value;
}

/* A display needs a password, as the real one insists. */
static int64_t take_vnc(struct arguments *arguments) {
    int64_t display = take_number(arguments, "--vnc", 0, 99, VNC_OFF);
    const char *password = take_option(arguments, "--vnc-password");
    if (password && strlen(password) > 8)
        die("--vnc-password is longer than 8 bytes");
    if (display != VNC_OFF && !password)
        die("--vnc needs --vnc-password");
    return display;
}

static void boot(json_t *guest, int64_t vnc) {
    cc_json_set_int(guest, "vnc", vnc);
    guest_start(guest);
    save(guest);
    printf("%s (pid %lld)\n", cc_json_text(guest, "name"), (long long)cc_json_int(guest, "pid", 0));
}

static json_t *make_record(const char *name, const char *image, int64_t cpus, int64_t memory) {
    json_t *guest = json_object();
    char *id cc_cleanup(cc_free_p) = new_id(), *now cc_cleanup(cc_free_p) = now_text();
    char disk[PATH_BYTES];
    cc_json_set_text(guest, "id", id);
    cc_json_set_text(guest, "name", name);
    cc_json_set_text(guest, "hypervisor", "qemu");
    cc_json_set_text(guest, "image", image);
    cc_json_set_int(guest, "cpus", cpus);
    cc_json_set_int(guest, "memory", memory);
    cc_json_set_text(guest, "created_at", now);
    cc_json_set_int(guest, "pid", 0);
    cc_json_set_new(guest, "network_configs", nics_new(1, id, ""));
    const json_t *nic = json_array_get(json_object_get(guest, "network_configs"), 0);
    cc_json_set_text(guest, "mac", cc_json_text(nic, "mac"));
    cc_json_set_text(guest, "tap", cc_json_text(nic, "tap"));
    guest_dir(disk, guest);
    strncat(disk, "/cow.raw", sizeof disk - strlen(disk) - 1);
    cc_json_set_text(guest, "disk", disk);
    return guest;
}

static int vm_run(struct arguments *arguments) {
    const char *name = take_option(arguments, "--name"), *net = take_option(arguments, "--net");
    int64_t cpus = take_number(arguments, "--cpus", 1, 256, 4);
    int64_t memory = take_number(arguments, "--memory", 1, INT32_MAX, 8192);
    int64_t vnc = take_vnc(arguments);
    take_number(arguments, "--storage", 1, INT64_MAX, 0);
    take_flag(arguments, "--exit-on-reboot");
    take_flag(arguments, "--random-smbios");
    expect_words(arguments, 1, "vm run --name NAME [flags] IMAGE");
    if (!name || !cc_text_equal(net, "cni") || cpus % 2)
        die("vm run: a name, --net cni and an even number of cpus are needed");
    json_t *known cc_cleanup(cc_json_decref_p) = find(name);
    if (known)
        die("vm \"%s\" already exists; rm it first or pick another --name", name);
    json_t *image cc_cleanup(cc_json_decref_p) = store_resolve(IMAGES, arguments->words[0]);
    if (!image)
        die("image \"%s\" not found", arguments->words[0]);
    json_t *guest cc_cleanup(cc_json_decref_p) = make_record(name, arguments->words[0], cpus, memory);
    save(guest);
    fault_middle();
    guest_make_files(guest, 1);
    boot(guest, vnc);
    fault_leave();
    return 0;
}

static int vm_start(struct arguments *arguments) {
    int64_t vnc = take_vnc(arguments);
    expect_words(arguments, 1, "vm start [flags] NAME");
    json_t *guest cc_cleanup(cc_json_decref_p) = resolve(arguments->words[0]);
    if (guest_is_alive(guest)) {
        printf("%s (pid %lld, already running)\n", arguments->words[0], (long long)cc_json_int(guest, "pid", 0));
        return 0;
    }
    fault_middle();
    network_detach(guest);
    guest_make_files(guest, 1);
    boot(guest, vnc);
    fault_leave();
    return 0;
}

static int vm_inspect(struct arguments *arguments) {
    expect_words(arguments, 1, "vm inspect NAME");
    json_t *guest cc_cleanup(cc_json_decref_p) = resolve(arguments->words[0]);
    json_object_del(guest, "sim");
    fault_leave();
    print_json(guest);
    return 0;
}

/* Of a guest that is not there: success. */
static int vm_remove(struct arguments *arguments) {
    expect_words(arguments, 1, "vm rm NAME");
    json_t *guest cc_cleanup(cc_json_decref_p) = find(arguments->words[0]);
    if (!guest)
        return 0;
    char directory[PATH_BYTES];
    guest_kill(guest);
    network_detach(guest);
    fault_middle();
    guest_dir(directory, guest);
    remove_tree(directory);
    store_lock();
    store_delete(GUESTS, cc_json_text(guest, "id"));
    store_unlock();
    fault_leave();
    return 0;
}

int macos_main(int argc, char **argv) {
    if (argc < 2)
        die("usage: cocoon-macos vm|image VERB ...");
    char *verb cc_cleanup(cc_free_p) = cc_xasprintf("macos.%s.%s", argv[0], argv[1]);
    struct arguments arguments = {argc - 2, argv + 2};
    static const struct {
        const char *verb;
        int (*run)(struct arguments *arguments);
    } verbs[] = {{"macos.vm.run", vm_run},
                 {"macos.vm.start", vm_start},
                 {"macos.vm.inspect", vm_inspect},
                 {"macos.vm.rm", vm_remove}};
    fault_enter(verb, arguments.count, arguments.words);
    for (size_t i = 0; i < CC_ARRAY_LENGTH(verbs); i++)
        if (strcmp(verbs[i].verb, verb) == 0)
            return verbs[i].run(&arguments);
    if (strcmp(verb, "macos.image.inspect") == 0)
        return image_inspect_in(IMAGES, &arguments);
    if (strcmp(verb, "macos.image.pull") == 0)
        return image_pull_in(IMAGES, &arguments);
    die("unknown command \"%s %s\"", argv[0], argv[1]);
}
