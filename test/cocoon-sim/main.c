#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

static void remove_words(struct arguments *arguments, int at, int count) {
    memmove(arguments->words + at, arguments->words + at + count,
            (size_t)(arguments->count - at - count) * sizeof *arguments->words);
    arguments->count -= count;
}

/* Words after "--" belong to the guest's command. */
static int option_limit(const struct arguments *arguments) {
    for (int i = 0; i < arguments->count; i++)
        if (strcmp(arguments->words[i], "--") == 0)
            return i;
    return arguments->count;
}

const char *take_option(struct arguments *arguments, const char *name) {
    size_t length = strlen(name);
    for (int i = 0; i < option_limit(arguments); i++) {
        char *word = arguments->words[i];
        if (strncmp(word, name, length) == 0 && word[length] == '=') {
            remove_words(arguments, i, 1);
            return word + length + 1;
        }
        if (strcmp(word, name) != 0)
            continue;
        if (i + 1 >= arguments->count)
            die("flag needs an argument: %s", name);
        const char *value = arguments->words[i + 1];
        remove_words(arguments, i, 2);
        return value;
    }
    return NULL;
}

bool take_flag(struct arguments *arguments, const char *name) {
    for (int i = 0; i < option_limit(arguments); i++) {
        if (strcmp(arguments->words[i], name) != 0)
            continue;
        remove_words(arguments, i, 1);
        return true;
    }
    return false;
}

void expect_words(const struct arguments *arguments, int count, const char *usage) {
    for (int i = 0; i < arguments->count; i++)
        if (arguments->words[i][0] == '-' && arguments->words[i][1])
            die("unknown flag: %s (usage: %s)", arguments->words[i], usage);
    if (arguments->count != count)
        die("%d arguments, want %d (usage: %s)", arguments->count, count, usage);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "guest") == 0)
        return guest_main(argv[2]);
    if (argc == 3 && strcmp(argv[1], "net-daemon") == 0)
        return network_daemon_main(argv[2]);
    if (cc_text_starts_with(program_invocation_short_name, "cocoon-macos"))
        return macos_main(argc - 1, argv + 1);
    if (argc < 3)
        die("usage: cocoon vm|snapshot|image VERB ...");
    char *verb cc_cleanup(cc_free_p) = cc_xasprintf("%s.%s", argv[1], argv[2]);
    fault_enter(verb, argc - 3, argv + 3);
    struct arguments arguments = {argc - 3, argv + 3};
    if (strcmp(argv[1], "vm") == 0)
        return vm_main(argv[2], &arguments);
    if (strcmp(argv[1], "snapshot") == 0)
        return snapshot_main(argv[2], &arguments);
    if (strcmp(argv[1], "image") == 0)
        return image_main(argv[2], &arguments);
    die("unknown command \"%s\"", argv[1]);
}
