/* Two texts of any bytes: the first a line, the second all that follows. A log record that holds them is one line, in
 * JSON format one object that gives them back; a metric labelled with them stays one line of the exposition. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/text.h"
#include "fuzz/fuzz.h"
#include "obs/log.h"
#include "obs/metrics.h"

static char *logged(const char *format, const char *first, const char *second) {
    struct cc_err err;
    char *text = NULL;
    size_t bytes = 0;
    FILE *old = stdout;
    fuzz_require(cc_log_setup("LEVEL", "debug", format, &err) == 0);
    stdout = open_memstream(&text, &bytes);
    fuzz_require(stdout);
    cc_log_error(first, CC_KV("second", second), CC_KV("none", NULL));
    fclose(stdout);
    stdout = old;
    fuzz_require(strlen(text) == bytes && bytes > 0 && strchr(text, '\n') == text + bytes - 1);
    return text;
}

static void check_log(const char *first, const char *second) {
    char *plain cc_cleanup(cc_free_p) = logged("text", first, second);
    for (const char *at = plain; at[1]; at++)
        fuzz_require((unsigned char)*at >= ' ');
    char *line cc_cleanup(cc_free_p) = logged("json", first, second);
    json_t *record cc_cleanup(cc_json_decref_p) = NULL;
    fuzz_require(cc_json_parse(line, strlen(line), SIZE_MAX, &record, NULL) == 0);
    const char *message = cc_json_text(record, "msg"), *field = cc_json_text(record, "second");
    fuzz_require(message && field && !json_object_get(record, "none"));
    fuzz_require(!cc_utf8_is_valid(first, strlen(first)) || strcmp(message, first) == 0);
    fuzz_require(!cc_utf8_is_valid(second, strlen(second)) || strcmp(field, second) == 0);
}

static void check_metrics(const char *first, const char *second) {
    static const char *const labels[] = {"first", "second", NULL};
    const char *const values[] = {first, second};
    struct cc_metrics *metrics = cc_metrics_new();
    struct cc_metric *counter = cc_metrics_counter(metrics, "fuzz_total", "Help.", labels);
    struct cc_buf text cc_cleanup(cc_buf_done);
    cc_buf_init(&text, 64 * 1024 * 1024);
    cc_metric_add(counter, 2, values);
    cc_metric_add(counter, 1, values);
    fuzz_require(cc_metric_value(counter, values) == 3);
    cc_metrics_write(metrics, &text);
    size_t lines = 0;
    for (const char *at = text.data; *at; at++)
        lines += *at == '\n';
    fuzz_require(!text.overflown && lines == 3 && strstr(text.data, "} 3\n"));
    fuzz_require(cc_utf8_is_valid(text.data, text.len));
    cc_metrics_free(metrics);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    char *first cc_cleanup(cc_free_p) = fuzz_line(&input);
    char *second cc_cleanup(cc_free_p) = fuzz_rest(&input, NULL);
    check_log(first, second);
    check_metrics(first, second);
    return 0;
}
