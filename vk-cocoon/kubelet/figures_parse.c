/* Texts of the kernel. contract/08 4.8. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "kubelet/figures.h"

#define TICKS_PER_SECOND 100.0

/* The k-th word (0 = first) of a line as a number that is not negative; -1 when there is none. */
static int64_t word_at(const char *line, size_t k) {
    for (;; k--) {
        line += strspn(line, " \t");
        size_t length = strcspn(line, " \t\n");
        if (length == 0)
            return -1;
        if (k == 0) {
            char *word cc_cleanup(cc_free_p) = cc_xstrndup(line, length);
            int64_t value;
            return cc_parse_int64(word, 0, INT64_MAX, &value) ? value : -1;
        }
        line += length;
    }
}

/* The rest of the line that starts with the word, NULL when there is none. */
static const char *line_of(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; *at;) {
        const char *start = at + strspn(at, " \t");
        if (strncmp(start, word, length) == 0)
            return start + length;
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return NULL;
}

static int64_t value_of(const char *text, const char *word) {
    const char *rest = line_of(text, word);
    int64_t value = rest ? word_at(rest, 0) : 0;
    return value < 0 ? 0 : value;
}

/* Field k of /proc/<pid>/stat, counted as proc(5) does. The second, the program's name, may hold anything: start after
 * the last ')'. */
static int64_t stat_field(const char *stat, size_t k) {
    const char *end = strrchr(stat, ')');
    int64_t value = end ? word_at(end + 1, k - 3) : 0;
    return value < 0 ? 0 : value;
}

int64_t vk_figures_rss(const char *stat, int64_t page_bytes) {
    int64_t pages = stat_field(stat, 24);
    return pages > INT64_MAX / page_bytes ? 0 : pages * page_bytes;
}

double vk_figures_process_seconds(const char *stat) {
    return (double)(stat_field(stat, 14) + stat_field(stat, 15)) / TICKS_PER_SECOND;
}

void vk_figures_cpu_stat(const char *text, struct vk_vm_figures *ret) {
    ret->cpu_seconds = (double)value_of(text, "usage_usec ") / 1e6;
    ret->throttled_seconds = (double)value_of(text, "throttled_usec ") / 1e6;
    ret->throttled_periods = value_of(text, "nr_throttled ");
}

void vk_figures_interface(const char *net_dev, const char *interface, int64_t *ret_rx, int64_t *ret_tx) {
    char *word cc_cleanup(cc_free_p) = cc_xasprintf("%s:", interface);
    const char *rest = *interface ? line_of(net_dev, word) : NULL;
    int64_t rx = rest ? word_at(rest, 0) : 0, tx = rest ? word_at(rest, 8) : 0;
    *ret_rx = rx < 0 ? 0 : rx;
    *ret_tx = tx < 0 ? 0 : tx;
}

double vk_figures_node_seconds(const char *stat) {
    /* user, nice, system, irq, softirq, steal: idle and iowait are no use, and guest time is in user already. */
    static const size_t columns[] = {0, 1, 2, 5, 6, 7};
    const char *rest = line_of(stat, "cpu ");
    double ticks = 0;
    for (size_t i = 0; rest && i < CC_ARRAY_LENGTH(columns); i++) {
        int64_t value = word_at(rest, columns[i]);
        ticks += value > 0 ? (double)value : 0;
    }
    return ticks / TICKS_PER_SECOND;
}

int64_t vk_figures_node_memory(const char *meminfo) {
    int64_t total = value_of(meminfo, "MemTotal:"), available = value_of(meminfo, "MemAvailable:");
    return total > available && total < INT64_MAX / 1024 ? (total - available) * 1024 : 0;
}
