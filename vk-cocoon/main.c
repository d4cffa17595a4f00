/* vk-cocoon: one per host, a virtual kubelet that turns pods into microVMs. */
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "base/alloc.h"
#include "base/text.h"
#include "base/version.h"

#define EXIT_USAGE 2

static const char usage[] =
    "Usage: vk-cocoon [--kubeconfig FILE] | --version | --help\n"
    "\n"
    "Virtual kubelet that runs pods as cocoon microVMs. Everything else is configured by environment variables, "
    "mainly\n"
    "OCI_REGISTRY (required), VK_NODE_NAME, VK_NODE_IP, VK_NODE_POOL, VK_SNAPSHOT_CPU_CLASS, VK_METRICS_ADDR,\n"
    "COCOON_ROOT_DIR, VK_COCOON_BIN, VK_LOG_LEVEL and KUBECONFIG.\n"
    "\n"
    "Exit status: 0 after SIGTERM or SIGINT, 1 after a fatal error, 2 when called wrongly.\n";

/* "--kubeconfig FILE" or "--kubeconfig=FILE"; false, and said which, when an argument is something else. */
static bool read_arguments(int argc, char **argv, struct vk_app_arguments *ret) {
    static const char equals[] = "--kubeconfig=";
    for (int i = 1; i < argc; i++) {
        if (cc_text_equal(argv[i], "--kubeconfig") && i + 1 < argc)
            ret->kubeconfig = argv[++i];
        else if (cc_text_starts_with(argv[i], equals))
            ret->kubeconfig = argv[i] + sizeof(equals) - 1;
        else {
            bool lacks_value = cc_text_equal(argv[i], "--kubeconfig");
            fprintf(stderr, "vk-cocoon: %s \"%s\"\n", lacks_value ? "no value for" : "unknown argument", argv[i]);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc == 2 && (cc_text_equal(argv[1], "--version") || cc_text_equal(argv[1], "-version"))) {
        printf("vk-cocoon %s (commit %s, built %s)\n", cc_version(), cc_revision(), cc_build_time());
        return 0;
    }
    if (argc == 2 && (cc_text_equal(argv[1], "--help") || cc_text_equal(argv[1], "-h"))) {
        fputs(usage, stdout);
        return 0;
    }
    struct vk_app_arguments arguments = {0};
    if (!read_arguments(argc, argv, &arguments)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    cc_alloc_set_up();
    return vk_app_run(&arguments);
}
