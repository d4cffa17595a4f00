#include "obs/metrics.h"

#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/text.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct series {
    UT_hash_handle hh;
    char *key; /* label values joined by 0x1f: unique, and sorts by value */
    char **values;
    double value;      /* counter, gauge; histogram: sum */
    uint64_t count;    /* histogram */
    uint64_t *buckets; /* histogram: per bound, not cumulative */
};

struct cc_metric {
    struct cc_metric *next;
    enum metric_type type;
    const char *name, *help;
    const char *const *labels;
    size_t label_count;
    const double *bounds;
    size_t bound_count;
    struct series *series;
};

struct collector {
    struct collector *next;
    void (*collect)(void *ctx);
    void *ctx;
};

struct cc_metrics {
    struct cc_metric *families;
    struct collector *collectors;
    struct cc_metric *process_cpu, *process_resident, *process_descriptors, *process_start, *process_virtual,
        *process_descriptors_max;
    double started_at;
};

struct cc_metrics *cc_metrics_new(void) {
    return CC_NEW(struct cc_metrics);
}

static void series_free(struct cc_metric *metric, struct series *series) {
    HASH_DELETE(hh, metric->series, series);
    for (size_t i = 0; i < metric->label_count; i++)
        free(series->values[i]);
    free(series->values);
    free(series->buckets);
    free(series->key);
    free(series);
}

void cc_metrics_free(struct cc_metrics *metrics) {
    if (!metrics)
        return;
    for (struct cc_metric *metric = metrics->families, *next; metric; metric = next) {
        next = metric->next;
        struct series *series, *following;
        HASH_ITER (hh, metric->series, series, following) {
            series_free(metric, series);
        }
        free(metric);
    }
    for (struct collector *collector = metrics->collectors, *next; collector; collector = next) {
        next = collector->next;
        free(collector);
    }
    free(metrics);
}

/* Families are kept sorted by name, as the exposition shows them. */
static struct cc_metric *declare(struct cc_metrics *metrics, enum metric_type type, const char *name, const char *help,
                                 const char *const *labels) {
    struct cc_metric **at = &metrics->families;
    while (*at && strcmp((*at)->name, name) < 0)
        at = &(*at)->next;
    cc_assert(!*at || strcmp((*at)->name, name) != 0);
    struct cc_metric *metric = CC_NEW(struct cc_metric);
    metric->type = type;
    metric->name = name;
    metric->help = help;
    metric->labels = labels;
    while (labels && labels[metric->label_count])
        metric->label_count++;
    cc_assert(metric->label_count <= CC_METRIC_LABELS_MAX);
    metric->next = *at;
    *at = metric;
    return metric;
}

struct cc_metric *cc_metrics_counter(struct cc_metrics *metrics, const char *name, const char *help,
                                     const char *const *label_names) {
    return metrics ? declare(metrics, METRIC_COUNTER, name, help, label_names) : NULL;
}

struct cc_metric *cc_metrics_gauge(struct cc_metrics *metrics, const char *name, const char *help,
                                   const char *const *label_names) {
    return metrics ? declare(metrics, METRIC_GAUGE, name, help, label_names) : NULL;
}

struct cc_metric *cc_metrics_histogram(struct cc_metrics *metrics, const char *name, const char *help,
                                       const char *const *label_names, const double *bounds, size_t bound_count) {
    if (!metrics)
        return NULL;
    struct cc_metric *metric = declare(metrics, METRIC_HISTOGRAM, name, help, label_names);
    metric->bounds = bounds;
    metric->bound_count = bound_count;
    return metric;
}

struct cc_metric *cc_metrics_find(const struct cc_metrics *metrics, const char *name) {
    struct cc_metric *metric = metrics ? metrics->families : NULL;
    while (metric && strcmp(metric->name, name) != 0)
        metric = metric->next;
    return metric;
}

static char *key_of(const struct cc_metric *metric, const char *const *values) {
    struct cc_buf key;
    cc_buf_init(&key, SIZE_MAX / 2);
    for (size_t i = 0; i < metric->label_count; i++) {
        cc_ignore(cc_buf_puts(&key, values[i] ? values[i] : ""), "the buffer has no bound of its own");
        cc_ignore(cc_buf_putc(&key, 0x1f), "the buffer has no bound of its own");
    }
    return cc_buf_steal(&key);
}

static struct series *find(const struct cc_metric *metric, const char *const *values) {
    char *key cc_cleanup(cc_free_p) = key_of(metric, values);
    struct series *series = NULL;
    HASH_FIND_STR(metric->series, key, series);
    return series;
}

static struct series *find_or_add(struct cc_metric *metric, const char *const *values) {
    struct series *series = find(metric, values);
    if (series)
        return series;
    const char *overflow[CC_METRIC_LABELS_MAX];
    if (HASH_COUNT(metric->series) >= CC_METRIC_SERIES_MAX) {
        for (size_t i = 0; i < metric->label_count; i++)
            overflow[i] = "overflow";
        values = overflow;
        series = find(metric, values);
        if (series)
            return series;
    }
    series = CC_NEW(struct series);
    series->key = key_of(metric, values);
    series->values = cc_xcalloc(metric->label_count, sizeof *series->values);
    for (size_t i = 0; i < metric->label_count; i++)
        series->values[i] = cc_xstrdup(values[i] ? values[i] : "");
    if (metric->type == METRIC_HISTOGRAM)
        series->buckets = cc_xcalloc(metric->bound_count, sizeof *series->buckets);
    HASH_ADD_KEYPTR(hh, metric->series, series->key, strlen(series->key), series);
    return series;
}

void cc_metric_add(struct cc_metric *metric, double value, const char *const *label_values) {
    if (!metric)
        return;
    cc_assert(metric->type != METRIC_HISTOGRAM);
    find_or_add(metric, label_values)->value += value;
}

void cc_metric_set(struct cc_metric *metric, double value, const char *const *label_values) {
    if (!metric)
        return;
    cc_assert(metric->type == METRIC_GAUGE);
    find_or_add(metric, label_values)->value = value;
}

void cc_metric_observe(struct cc_metric *metric, double value, const char *const *label_values) {
    if (!metric)
        return;
    cc_assert(metric->type == METRIC_HISTOGRAM);
    struct series *series = find_or_add(metric, label_values);
    series->value += value;
    series->count++;
    for (size_t i = 0; i < metric->bound_count; i++) {
        if (value <= metric->bounds[i]) {
            series->buckets[i]++;
            return;
        }
    }
}

void cc_metric_remove(struct cc_metric *metric, const char *const *label_values) {
    struct series *series = metric ? find(metric, label_values) : NULL;
    if (series)
        series_free(metric, series);
}

double cc_metric_value(const struct cc_metric *metric, const char *const *label_values) {
    const struct series *series = metric ? find(metric, label_values) : NULL;
    if (!series)
        return 0;
    return metric->type == METRIC_HISTOGRAM ? (double)series->count : series->value;
}

void cc_metrics_on_collect(struct cc_metrics *metrics, void (*collect)(void *ctx), void *ctx) {
    struct collector *collector = CC_NEW(struct collector);
    *collector = (struct collector){metrics->collectors, collect, ctx};
    metrics->collectors = collector;
}

void cc_metrics_off_collect(struct cc_metrics *metrics, void (*collect)(void *ctx), void *ctx) {
    for (struct collector **at = &metrics->collectors; *at; at = &(*at)->next) {
        struct collector *collector = *at;
        if (collector->collect != collect || collector->ctx != ctx)
            continue;
        *at = collector->next;
        free(collector);
        return;
    }
}

static void put(struct cc_buf *into, const char *text) {
    cc_ignore(cc_buf_puts(into, text), "an exposition beyond the caller's bound is refused by the caller");
}

/* Backslash, double quote and line feed are escaped in label values (F18); help has no quotes to protect. */
static void put_escaped(struct cc_buf *into, const char *text, bool quotes) {
    for (; *text; text++) {
        if (*text == '\\')
            put(into, "\\\\");
        else if (*text == '\n')
            put(into, "\\n");
        else if (*text == '"' && quotes)
            put(into, "\\\"");
        else
            cc_ignore(cc_buf_putc(into, *text), "an exposition beyond the caller's bound is refused by the caller");
    }
}

static void put_number(struct cc_buf *into, double value) {
    char text[64];
    if (isinf(value))
        snprintf(text, sizeof text, value > 0 ? "+Inf" : "-Inf");
    else if (value == floor(value) && fabs(value) < 1e15)
        snprintf(text, sizeof text, "%.0f", value);
    else
        for (int precision = 6; precision <= 17; precision++) {
            snprintf(text, sizeof text, "%.*g", precision, value); /* the shortest text that reads back as the value */
            if (strtod(text, NULL) == value)
                break;
        }
    put(into, text);
}

static void put_series(struct cc_buf *into, const struct cc_metric *metric, const struct series *series,
                       const char *suffix, const char *bound, double value) {
    put(into, metric->name);
    put(into, suffix);
    if (metric->label_count || bound) {
        put(into, "{");
        for (size_t i = 0; i < metric->label_count; i++) {
            put(into, i ? "," : "");
            put(into, metric->labels[i]);
            put(into, "=\"");
            char *valid cc_cleanup(cc_free_p) = cc_utf8_publishable(series->values[i], SIZE_MAX / 4);
            put_escaped(into, valid, true);
            put(into, "\"");
        }
        if (bound) {
            put(into, metric->label_count ? ",le=\"" : "le=\"");
            put(into, bound);
            put(into, "\"");
        }
        put(into, "}");
    }
    put(into, " ");
    put_number(into, value);
    put(into, "\n");
}

static void put_histogram(struct cc_buf *into, const struct cc_metric *metric, const struct series *series) {
    uint64_t cumulative = 0;
    for (size_t i = 0; i < metric->bound_count; i++) {
        cumulative += series->buckets[i];
        struct cc_buf bound cc_cleanup(cc_buf_done);
        cc_buf_init(&bound, 64);
        put_number(&bound, metric->bounds[i]);
        put_series(into, metric, series, "_bucket", bound.data, (double)cumulative);
    }
    put_series(into, metric, series, "_bucket", "+Inf", (double)series->count);
    put_series(into, metric, series, "_sum", NULL, series->value);
    put_series(into, metric, series, "_count", NULL, (double)series->count);
}

static int by_key(const struct series *a, const struct series *b) {
    return strcmp(a->key, b->key);
}

static void collect_process(struct cc_metrics *metrics) {
    const char *none[] = {NULL};
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        cc_metric_set(metrics->process_cpu,
                      (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                          (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
                      none);
    struct cc_buf statm cc_cleanup(cc_buf_done);
    cc_buf_init(&statm, 4096);
    if (cc_file_read("/proc/self/statm", &statm, NULL) == 0) {
        const char *second = strchr(statm.data, ' ');
        cc_metric_set(metrics->process_virtual, strtod(statm.data, NULL) * (double)sysconf(_SC_PAGESIZE), none);
        double pages = second ? strtod(second, NULL) : 0;
        cc_metric_set(metrics->process_resident, pages * (double)sysconf(_SC_PAGESIZE), none);
    }
    DIR *directory = opendir("/proc/self/fd");
    if (directory) {
        double count = 0;
        while (readdir(directory))
            count++;
        closedir(directory);
        cc_metric_set(metrics->process_descriptors, count - 3, none); /* ".", ".." and the directory itself */
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        cc_metric_set(metrics->process_descriptors_max, (double)limit.rlim_cur, none);
    cc_metric_set(metrics->process_start, metrics->started_at, none);
}

void cc_metrics_add_process(struct cc_metrics *metrics) {
    metrics->started_at = (double)time(NULL);
    metrics->process_cpu =
        declare(metrics, METRIC_GAUGE, "process_cpu_seconds_total", "User and system CPU time spent in seconds.", NULL);
    metrics->process_resident =
        declare(metrics, METRIC_GAUGE, "process_resident_memory_bytes", "Resident memory size in bytes.", NULL);
    metrics->process_descriptors =
        declare(metrics, METRIC_GAUGE, "process_open_fds", "Number of open file descriptors.", NULL);
    metrics->process_descriptors_max =
        declare(metrics, METRIC_GAUGE, "process_max_fds", "Maximum number of open file descriptors.", NULL);
    metrics->process_virtual =
        declare(metrics, METRIC_GAUGE, "process_virtual_memory_bytes", "Virtual memory size in bytes.", NULL);
    metrics->process_start = declare(metrics, METRIC_GAUGE, "process_start_time_seconds",
                                     "Start time of the process since the epoch in seconds.", NULL);
}

void cc_metrics_add_build(struct cc_metrics *metrics, const char *name, const char *version, const char *revision) {
    static const char *const labels[] = {"version", "revision", NULL};
    struct cc_metric *build = cc_metrics_gauge(metrics, name, "1, with the version and commit that run.", labels);

    cc_metric_set(build, 1, (const char *[]){version, revision});
}

void cc_metrics_write(struct cc_metrics *metrics, struct cc_buf *into) {
    for (struct collector *collector = metrics->collectors; collector; collector = collector->next)
        collector->collect(collector->ctx);
    if (metrics->process_cpu)
        collect_process(metrics);
    for (struct cc_metric *metric = metrics->families; metric; metric = metric->next) {
        if (!metric->series)
            continue;
        static const char *const types[] = {"counter", "gauge", "histogram"};
        const char *type = metric == metrics->process_cpu ? "counter" : types[metric->type];
        put(into, "# HELP ");
        put(into, metric->name);
        put(into, " ");
        put_escaped(into, metric->help, false);
        put(into, "\n# TYPE ");
        put(into, metric->name);
        put(into, " ");
        put(into, type);
        put(into, "\n");
        HASH_SORT(metric->series, by_key);
        for (struct series *series = metric->series; series; series = series->hh.next) {
            if (metric->type == METRIC_HISTOGRAM)
                put_histogram(into, metric, series);
            else
                put_series(into, metric, series, "", NULL, series->value);
        }
    }
}
