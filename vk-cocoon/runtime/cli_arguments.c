#include "runtime/cli_arguments.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/text.h"

#define TEXT_BYTES_MAX ((size_t)256 * 1024)

static void put(struct vk_arguments *arguments, const char *word) {
    cc_strlist_add(&arguments->words, arguments->arena, word);
}

static void put2(struct vk_arguments *arguments, const char *flag, const char *value) {
    put(arguments, flag);
    put(arguments, value);
}

static void put_text(struct vk_arguments *arguments, const char *flag, const char *value) {
    if (!cc_text_is_empty(value))
        put2(arguments, flag, value);
}

static void put_number(struct vk_arguments *arguments, const char *flag, int64_t value) {
    put2(arguments, flag, cc_arena_printf(arguments->arena, "%lld", (long long)value));
}

static void put_positive(struct vk_arguments *arguments, const char *flag, int64_t value) {
    if (value > 0)
        put_number(arguments, flag, value);
}

static void put_cpu(struct vk_arguments *arguments, const struct vk_cpu_policy *cpu) {
    put_positive(arguments, "--cpu-weight", cpu->weight);
    put_positive(arguments, "--cpu-quota-us", cpu->quota_us);
    put_positive(arguments, "--cpu-period-us", cpu->period_us);
}

/* These words come from pod annotations and from records: none of them may turn into an option. */
static int put_positional(struct vk_arguments *arguments, const char *what, const char *word, struct cc_err *err) {
    if (cc_text_is_empty(word))
        return cc_err_set(err, CC_INVALID, "%s is empty", what);
    if (word[0] == '-')
        return cc_err_set(err, CC_INVALID, "%s \"%s\" starts with '-', which cocoon would read as an option", what,
                          word);
    put(arguments, word);
    return 0;
}

static bool is_firecracker(const char *backend) {
    return cc_text_equal(backend, "firecracker");
}
static bool is_windows(const char *os) {
    return cc_text_equal_fold(os, "windows");
}

int vk_restore_mode_parse(const char *text, const char **ret, struct cc_err *err) {
    static const char *const modes[] = {"copy", "ondemand", "mmap"};
    char *trimmed cc_cleanup(cc_free_p) = cc_text_trim(text);

    for (size_t i = 0; i < CC_ARRAY_LENGTH(modes); i++)
        if (cc_text_equal_fold(trimmed, modes[i])) {
            *ret = modes[i];
            return 0;
        }
    return cc_err_set(err, CC_INVALID, "VK_RESTORE_MODE=\"%s\": must be copy, ondemand or mmap", text);
}

int vk_arguments_clone(struct vk_arguments *ret, const struct vk_clone_options *options, const char *restore_mode,
                       struct cc_err *err) {
    bool from_directory = !cc_text_is_empty(options->from_dir);

    put2(ret, "vm", "clone");
    put2(ret, "--output", "json");
    put_text(ret, "--name", options->name);
    put_text(ret, "--network", options->network);
    if (options->no_direct_io)
        put(ret, "--no-direct-io");
    if (options->pull || from_directory)
        put(ret, "--pull");
    if (!is_firecracker(options->backend)) {
        put_text(ret, "--restore-mode", is_windows(options->os) ? "copy" : restore_mode);
        if (options->nics >= 0)
            put_number(ret, "--nics", options->nics);
    }
    put_cpu(ret, &options->cpu);
    if (!from_directory)
        return put_positional(ret, "snapshot name", options->snapshot, err);
    if (options->from_dir[0] != '/')
        return cc_err_set(err, CC_INVALID, "clone directory \"%s\" is not an absolute path", options->from_dir);
    put2(ret, "--from-dir", options->from_dir);
    return 0;
}

int vk_arguments_run(struct vk_arguments *ret, const struct vk_run_options *options, struct cc_err *err) {
    put2(ret, "vm", "run");
    put2(ret, "--output", "json");
    put_text(ret, "--name", options->name);
    put_positive(ret, "--cpu", options->cpus);
    put_cpu(ret, &options->cpu);
    put_text(ret, "--memory", options->memory);
    put_text(ret, "--storage", options->storage);
    put_text(ret, "--network", options->network);
    if (is_windows(options->os))
        put(ret, "--windows");
    if (is_firecracker(options->backend))
        put(ret, "--fc");
    if (options->no_direct_io)
        put(ret, "--no-direct-io");
    if (!cc_text_is_empty(options->image))
        return put_positional(ret, "image", options->image, err);
    put(ret, "");
    return 0;
}

int vk_arguments_vm_inspect(struct vk_arguments *ret, const char *id_or_name, struct cc_err *err) {
    put2(ret, "vm", "inspect");
    return put_positional(ret, "VM id or name", id_or_name, err);
}

void vk_arguments_vm_list(struct vk_arguments *ret) {
    put2(ret, "vm", "list");
    put2(ret, "-o", "json");
}

int vk_arguments_vm_start(struct vk_arguments *ret, const char *id, struct cc_err *err) {
    put2(ret, "vm", "start");
    return put_positional(ret, "VM id", id, err);
}

int vk_arguments_vm_remove(struct vk_arguments *ret, const char *id, struct cc_err *err) {
    put2(ret, "vm", "rm");
    put(ret, "--force");
    return put_positional(ret, "VM id", id, err);
}

int vk_arguments_vm_net(struct vk_arguments *ret, const char *id, int nics, struct cc_err *err) {
    put2(ret, "vm", "net");
    put_number(ret, "--nics", nics);
    return put_positional(ret, "VM id", id, err);
}

int vk_arguments_exec(struct vk_arguments *ret, const struct vk_exec_options *options, bool with_stdin,
                      struct cc_err *err) {
    put2(ret, "vm", "exec");
    if (with_stdin)
        put(ret, "-i");
    for (size_t i = 0; options->env && i < options->env->count; i++) {
        const struct cc_pair *pair = &options->env->items[i];

        if (cc_text_is_empty(pair->key) || cc_text_contains(pair->key, "="))
            return cc_err_set(err, CC_INVALID, "environment name \"%s\" is empty or contains '='", pair->key);
        put2(ret, "-e", cc_arena_printf(ret->arena, "%s=%s", pair->key, pair->value));
    }
    int rc = put_positional(ret, "VM id", options->vm_id, err);
    if (rc != 0)
        return rc;
    if (options->argc == 0 || cc_text_is_empty(options->argv[0]))
        return cc_err_set(err, CC_INVALID, "guest command is empty");
    put(ret, "--");
    for (size_t i = 0; i < options->argc; i++)
        put(ret, options->argv[i]);
    return 0;
}

int vk_arguments_logs(struct vk_arguments *ret, const char *id, int64_t lines, struct cc_err *err) {
    put2(ret, "vm", "logs");
    put_number(ret, "--tail", lines > 0 ? lines : VK_LOG_LINES_DEFAULT);
    return put_positional(ret, "VM id", id, err);
}

int vk_arguments_reclaim(struct vk_arguments *ret, const char *id, struct cc_err *err) {
    put2(ret, "vm", "reconcile-stale-create");
    int rc = put_positional(ret, "VM id", id, err);
    put2(ret, "-o", "json");
    return rc;
}

void vk_arguments_events(struct vk_arguments *ret) {
    put2(ret, "vm", "status");
    put(ret, "--event");
    put2(ret, "--format", "json");
}

int vk_arguments_snapshot_save(struct vk_arguments *ret, const char *snapshot, const char *vm_id, struct cc_err *err) {
    put2(ret, "snapshot", "save");
    put2(ret, "--name", snapshot);
    if (cc_text_is_empty(snapshot))
        return cc_err_set(err, CC_INVALID, "snapshot name is empty");
    return put_positional(ret, "VM id", vm_id, err);
}

int vk_arguments_snapshot_inspect(struct vk_arguments *ret, const char *snapshot, struct cc_err *err) {
    put2(ret, "snapshot", "inspect");
    return put_positional(ret, "snapshot name", snapshot, err);
}

int vk_arguments_snapshot_remove(struct vk_arguments *ret, const char *snapshot, struct cc_err *err) {
    put2(ret, "snapshot", "rm");
    return put_positional(ret, "snapshot name", snapshot, err);
}

void vk_arguments_snapshot_list(struct vk_arguments *ret) {
    put2(ret, "snapshot", "list");
    put2(ret, "-o", "json");
}

int vk_arguments_snapshot_import(struct vk_arguments *ret, const char *snapshot, struct cc_err *err) {
    put2(ret, "snapshot", "import");
    put2(ret, "--name", snapshot);
    return cc_text_is_empty(snapshot) ? cc_err_set(err, CC_INVALID, "snapshot name is empty") : 0;
}

int vk_arguments_snapshot_export(struct vk_arguments *ret, const char *snapshot, struct cc_err *err) {
    put2(ret, "snapshot", "export");
    int rc = put_positional(ret, "snapshot name", snapshot, err);
    put2(ret, "-o", "-");
    return rc;
}

int vk_arguments_image_inspect(struct vk_arguments *ret, const char *name_or_digest, struct cc_err *err) {
    put2(ret, "image", "inspect");
    return put_positional(ret, "image", name_or_digest, err);
}

int vk_arguments_image_pull(struct vk_arguments *ret, const char *ref, bool force, struct cc_err *err) {
    put2(ret, "image", "pull");
    if (force)
        put(ret, "--force");
    return put_positional(ret, "image", ref, err);
}

int vk_arguments_image_import(struct vk_arguments *ret, const char *name, struct cc_err *err) {
    put2(ret, "image", "import");
    return put_positional(ret, "image name", name, err);
}

const char *const *vk_arguments_vector(const struct vk_arguments *arguments, const char *program) {
    const char **vector = CC_ARENA_ARRAY(arguments->arena, const char *, arguments->words.count + 2);

    vector[0] = program;
    for (size_t i = 0; i < arguments->words.count; i++)
        vector[i + 1] = arguments->words.items[i];
    return vector;
}

const char *vk_arguments_text(const struct vk_arguments *arguments) {
    struct cc_buf text cc_cleanup(cc_buf_done) = {0};

    cc_buf_init(&text, TEXT_BYTES_MAX);
    for (size_t i = 0; i < arguments->words.count; i++) {
        cc_buf_puts(&text, i > 0 ? " " : "");
        cc_buf_puts(&text, arguments->words.items[i]);
    }
    return cc_arena_strdup(arguments->arena, text.data);
}
