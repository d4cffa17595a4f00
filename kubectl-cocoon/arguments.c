#include "arguments.h"

#include <string.h>

#include "base/text.h"

enum flag_kind { FLAG_TEXT, FLAG_SWITCH, FLAG_OUTPUT, FLAG_DURATION };

struct flag {
    const char *name;
    char letter; /* 0 = none */
    enum flag_kind kind;
    size_t offset;
};

#define AT(member) offsetof(struct kc_arguments, member)
static const struct flag flags[] = {
    {"namespace", 'n', FLAG_TEXT, AT(namespace)}, {"all-namespaces", 'A', FLAG_SWITCH, AT(all_namespaces)},
    {"kubeconfig", 0, FLAG_TEXT, AT(kubeconfig)}, {"context", 0, FLAG_TEXT, AT(context)},
    {"registry", 0, FLAG_TEXT, AT(registry)},     {"output", 'o', FLAG_OUTPUT, AT(json)},
    {"wait", 0, FLAG_SWITCH, AT(wait)},           {"wake", 0, FLAG_SWITCH, AT(wake)},
    {"timeout", 0, FLAG_DURATION, AT(timeout_s)},
};

static const struct command {
    const char *name;
    enum kc_command command;
    int names_min, names_max;
    const char *names; /* for messages */
} commands[] = {
    {"status", KC_STATUS, 0, 1, "[SET]"},
    {"suspend", KC_SUSPEND, 1, 1, "SET"},
    {"wake", KC_WAKE, 1, 1, "SET"},
    {"migrate", KC_MIGRATE, 2, 2, "SET NODE"},
    {"hibernate", KC_HIBERNATE, 1, 1, "POD"},
    {"snapshots", KC_SNAPSHOTS, 1, 1, "SET"},
    {"version", KC_VERSION, 0, 0, "no argument"},
    {"help", KC_HELP, 0, 0, "no argument"},
};

const char *kc_usage(void) {
    return "usage: kubectl cocoon COMMAND [flags]\n"
           "\n"
           "  status [SET]       the sets of the namespace with their VMs, and what each one waits for\n"
           "  suspend SET        put all VMs of the set to sleep\n"
           "  wake SET           wake them\n"
           "  migrate SET NODE   move the main agent to the node, its memory with it\n"
           "  hibernate POD      put one pod to sleep (--wake: wake it)\n"
           "  snapshots SET      what the registry holds of the set\n"
           "  version, help\n"
           "\n"
           "  -n, --namespace NAME     else that of the context\n"
           "  -A, --all-namespaces     status: all of the cluster\n"
           "  -o, --output json        for programs\n"
           "      --wait               until it is done; the progress goes to standard error\n"
           "      --timeout DURATION   of --wait: 90s, 10m (default), 1h\n"
           "      --registry BASE      snapshots: where they live (default: OCI_REGISTRY)\n"
           "      --kubeconfig FILE, --context NAME\n"
           "\n"
           "Exit status: 0 done, 1 failed, 2 called wrongly, 3 not done within the time of --wait.\n";
}

static void *member_of(struct kc_arguments *arguments, const struct flag *flag) {
    return (char *)arguments + flag->offset;
}

/* A number with s, m or h. */
static bool parse_duration(const char *text, int64_t *ret) {
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
    char digits[16];
    size_t length = strlen(text);

    if (length < 2 || length >= sizeof digits)
        return false;
    memcpy(digits, text, length - 1);
    digits[length - 1] = '\0';
    for (size_t i = 0; i < CC_ARRAY_LENGTH(units); i++) {
        int64_t number;
        if (text[length - 1] != units[i].unit)
            continue;
        if (!cc_parse_int64(digits, 1, KC_TIMEOUT_MAX_S / units[i].seconds, &number))
            return false;
        *ret = number * units[i].seconds;
        return true;
    }
    return false;
}

static int set_flag(struct kc_arguments *arguments, const struct flag *flag, const char *value, struct cc_err *err) {
    switch (flag->kind) {
    case FLAG_TEXT:
        if (*value == '\0')
            return cc_err_set(err, CC_INVALID, "--%s needs a value", flag->name);
        *(const char **)member_of(arguments, flag) = value;
        return 0;
    case FLAG_SWITCH:
        if (!cc_parse_bool(value, (bool *)member_of(arguments, flag)))
            return cc_err_set(err, CC_INVALID, "--%s=%s: true or false", flag->name, value);
        return 0;
    case FLAG_OUTPUT:
        if (!cc_text_equal(value, "json"))
            return cc_err_set(err, CC_INVALID,
                              "unable to match a printer suitable for the output format \"%s\", "
                              "allowed formats are: json",
                              value);
        *(bool *)member_of(arguments, flag) = true;
        return 0;
    case FLAG_DURATION:
        if (!parse_duration(value, (int64_t *)member_of(arguments, flag)))
            return cc_err_set(err, CC_INVALID, "--%s=%s: a number of s, m or h up to 7 days, such as 90s", flag->name,
                              value);
        return 0;
    }
    return 0;
}

static const struct flag *find_flag(const char *name, size_t length) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(flags); i++) {
        if (strlen(flags[i].name) == length && strncmp(flags[i].name, name, length) == 0)
            return &flags[i];
    }
    return NULL;
}

static const struct flag *find_letter(char letter) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(flags); i++) {
        if (letter && flags[i].letter == letter)
            return &flags[i];
    }
    return NULL;
}

/* --name=value, --name value, -n value, -nvalue; a switch stands alone. Advances *index over a value. */
static int read_flag(int argc, char *const *argv, int *index, struct kc_arguments *arguments, struct cc_err *err) {
    const char *argument = argv[*index];
    const char *value = NULL;
    const struct flag *flag;

    if (argument[1] == '-') {
        size_t length = strcspn(argument + 2, "=");
        flag = find_flag(argument + 2, length);
        if (argument[2 + length] == '=')
            value = argument + 2 + length + 1;
    } else {
        flag = find_letter(argument[1]);
        if (argument[1] && argument[2])
            value = argument + 2 + (argument[2] == '=');
    }
    if (!flag)
        return cc_err_set(err, CC_INVALID, "unknown flag: %s", argument);
    if (!value && flag->kind == FLAG_SWITCH)
        value = "true";
    if (!value && *index + 1 < argc)
        value = argv[++*index];
    if (!value)
        return cc_err_set(err, CC_INVALID, "flag needs an argument: %s", argument);
    return set_flag(arguments, flag, value, err);
}

static int find_command(const char *name, const struct command **ret, struct cc_err *err) {
    for (size_t i = 0; i < CC_ARRAY_LENGTH(commands); i++) {
        if (cc_text_equal(commands[i].name, name)) {
            *ret = &commands[i];
            return 0;
        }
    }
    return cc_err_set(err, CC_INVALID, "unknown command \"%s\"", name);
}

static int check(const struct command *command, const struct kc_arguments *arguments, struct cc_err *err) {
    if (arguments->name_count < command->names_min || arguments->name_count > command->names_max)
        return cc_err_set(err, CC_INVALID, "%s takes %s", command->name, command->names);
    for (int i = 0; i < arguments->name_count; i++) {
        if (!cc_name_is_dns1123_subdomain(arguments->names[i]))
            return cc_err_set(err, CC_INVALID, "\"%s\" is not a name: lower-case letters, digits, - and .",
                              arguments->names[i]);
    }
    if (arguments->all_namespaces && (command->command != KC_STATUS || arguments->name_count > 0))
        return cc_err_set(err, CC_INVALID, "a resource cannot be retrieved by name across all namespaces");
    if (arguments->wake && command->command != KC_HIBERNATE)
        return cc_err_set(err, CC_INVALID, "--wake belongs to hibernate; a set is woken by `wake SET`");
    if (arguments->wait && (command->command == KC_STATUS || command->command == KC_SNAPSHOTS))
        return cc_err_set(err, CC_INVALID, "%s does not wait", command->name);
    return 0;
}

int kc_arguments_parse(int argc, char *const *argv, struct kc_arguments *ret, struct cc_err *err) {
    struct kc_arguments arguments = {.timeout_s = KC_DEFAULT_TIMEOUT_S};
    const struct command *command = NULL;
    int rc = 0;

    for (int i = 1; i < argc && rc == 0; i++) {
        if (cc_text_equal(argv[i], "-h") || cc_text_equal(argv[i], "--help")) {
            *ret = (struct kc_arguments){.command = KC_HELP};
            return 0;
        }
        if (cc_text_equal(argv[i], "--version")) {
            *ret = (struct kc_arguments){.command = KC_VERSION};
            return 0;
        }
        if (argv[i][0] == '-' && argv[i][1])
            rc = read_flag(argc, argv, &i, &arguments, err);
        else if (!command)
            rc = find_command(argv[i], &command, err);
        else if (arguments.name_count == KC_NAMES_MAX)
            rc = cc_err_set(err, CC_INVALID, "unexpected argument \"%s\"", argv[i]);
        else
            arguments.names[arguments.name_count++] = argv[i];
    }
    if (rc == 0 && !command)
        rc = cc_err_set(err, CC_INVALID, "which command?");
    if (rc == 0)
        rc = check(command, &arguments, err);
    if (rc != 0)
        return rc;
    arguments.command = command->command;
    *ret = arguments;
    return 0;
}
