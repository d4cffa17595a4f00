#include "support/observed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

/* One write on an append-only descriptor: tests run in forked children and in parallel. */
static void append(const char *line) {
    const char *path = getenv("CC_OBSERVED_LOG");
    if (!path || !*path)
        return;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line)) {
        perror("observed log");
        abort();
    }
    close(fd);
}

void cc_observed_event(const char *daemon, enum cc_event_type type, const char *reason) {
    char *line cc_cleanup(cc_free_p) =
        cc_xasprintf("event %s %s %s\n", daemon, type == CC_EVENT_WARNING ? "Warning" : "Normal", reason);
    append(line);
}

/* The names of the labels of one sample line; values are quoted texts with backslash escapes. */
static void add_label_names(struct cc_buf *into, const char *labels) {
    bool first = true;
    while (*labels && *labels != '}') {
        size_t bytes = strcspn(labels, "=");
        /* The bucket's bound is the format's, not the family's. */
        if (strncmp(labels, "le=", 3) != 0) {
            cc_buf_puts(into, first ? "" : ",");
            cc_buf_append(into, labels, bytes);
            first = false;
        }
        for (labels += bytes + 2; *labels && *labels != '"'; labels++)
            labels += *labels == '\\';
        labels += *labels == '"';
        labels += *labels == ',';
    }
}

void cc_observed_metrics(const char *daemon, struct cc_metrics *metrics) {
    struct cc_buf text cc_cleanup(cc_buf_done) = {0}, lines cc_cleanup(cc_buf_done) = {0};
    if (!getenv("CC_OBSERVED_LOG"))
        return;
    cc_buf_init(&text, (size_t)64 << 20);
    cc_buf_init(&lines, (size_t)64 << 20);
    cc_metrics_write(metrics, &text);
    char *family cc_cleanup(cc_free_p) = cc_xstrdup("");
    char *rest = text.data;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "# TYPE ", 7) == 0) {
            free(family);
            family = cc_xstrndup(line + 7, strcspn(line + 7, " "));
        } else if (*family && *line && *line != '#') {
            /* The first sample shows the labels: all series of a family have the same. */
            const char *brace = line[strcspn(line, "{ ")] == '{' ? strchr(line, '{') + 1 : "";
            cc_buf_printf(&lines, "metric %s %s{", daemon, family);
            add_label_names(&lines, brace);
            cc_buf_puts(&lines, "}\n");
            *family = '\0';
        }
    }
    append(lines.data);
}
